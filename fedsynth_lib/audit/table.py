"""The audit's table: one line for each method and number of clients.

This module has the file that keeps finished lines, and the command that measures missing ones.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields

import pandas as pd

from fedsynth_lib.audit import drawn, end_to_end, neighbours, state
from fedsynth_lib.audit.measure import RUNS, Line, measure, runs_of
from fedsynth_lib.audit.scenario import Case, table_of
from fedsynth_lib.core.measured import EXCEEDED, digest_of, path_of_lines, read_lines
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.methods.registry import DEFAULT

CLIENTS = (1, 3)


def is_current(line: Line) -> bool:
    """Whether the line is of its method as it is now."""
    return line.digest == digest_of(neighbours.case_of(line.method).method)


def current() -> list[Line]:
    """Return the finished lines of the code as it is now.

    Lines of other code do not measure it.
    """
    return [line for line in load() if is_current(line)]


def measure_missing(
    keys: Sequence[str], runs: int, *, until: float, again: bool, say: Callable[[str], None]
) -> list[Line]:
    """Measure and keep the lines that are missing, and return them.

    A line is missing if no finished line of the code as it is now has as many runs; with `again`,
    all lines are. No line is begun after `until` (monotonic time).

    Lines with one client are measured first, for all methods, so that a short audit sees each of
    them.
    """
    kept = {} if again else {(line.method, line.clients): line for line in current()}
    made = []
    for clients in CLIENTS:
        for key in keys:
            case, old = neighbours.case_of(key), kept.get((key, clients))
            if old and old.runs >= runs_of(case, clients, runs):
                continue
            if time.monotonic() > until:
                say(f"no time left for {key} with {clients} clients")
                continue
            number = runs_of(case, clients, runs)
            say(f"{key}, {clients} clients: {number} runs with the record and as many without")
            made.append(measure(case, clients, runs))
            save(made[-1])
    return made


def load() -> list[Line]:
    """Read all finished lines, of whatever code.

    They are the lines of the committed audit until the user has measured some.
    """
    return [Line(**row) for row in read_lines().to_dict("records")]


def save(line: Line) -> None:
    """Add a line to the file, in place of an older one about the same."""
    order = {key: place for place, key in enumerate(neighbours.SETTINGS)}
    kept = [old for old in load() if (old.method, old.clients) != (line.method, line.clients)]
    rows = sorted(
        [*kept, line], key=lambda each: (order.get(each.method, len(order)), each.clients)
    )
    write_atomically(path_of_lines(), as_frame(rows).to_csv(index=False).encode())


def as_frame(lines: Iterable[Line]) -> pd.DataFrame:
    """Return a row for each line; without lines, an empty frame with all columns."""
    columns = [each.name for each in fields(Line)]
    return pd.DataFrame([asdict(line) for line in lines], columns=columns)


HEADINGS = {
    "method": "method",
    "clients": "clients",
    "epsilon": "claimed",
    "delta": "delta",
    "lower": "at least",
    "by": "by",
    "plain": "unassuming",
    "synthetic": "from rows",
    "control": "control",
    "runs": "runs",
    "verdict": "verdict",
    "date": "measured on",
    "sees": "the adversary sees",
}


def printed(lines: Sequence[Line]) -> str:
    """Write the lines as text."""
    frame = as_frame(lines).sort_values(["clients"], kind="stable")
    shown = frame[list(HEADINGS)].rename(columns=HEADINGS)
    return shown.to_string(index=False, float_format=lambda x: f"{x:.3g}")


def _through_files(case: Case) -> list[str] | None:
    """Check the way through files, for the default method alone: it is the same for all."""
    if case.key != DEFAULT:
        return None
    others = [row for row in case.others for _ in range(4)]
    return end_to_end.through_files(case.schema, others, case.target)


# what is looked at beside bounds, in seconds: name -> what is wrong, a sentence each; None where a
# method is not looked at
CHECKS: dict[str, Callable[[Case], list[str] | None]] = {
    "noise that is drawn against noise that is charged": lambda case: drawn.audit(
        case.method, table_of(case, 3, present=True), config=case.config, privacy=case.privacy
    ),
    "exact numbers in what a run shows": state.audit,
    "what a run is told and hands out, with a record and without it": end_to_end.audit,
    "the same of rows that are released through files": _through_files,
}
LIMITS = """\
These checks find noise that is not as wide as it is charged for, numbers without noise, and ranges,
forms or sizes that follow rows. They find no sensitivity that is argued wrongly and drawn as it is
argued, no accounting that is wrong, and nothing that is hidden in the parameters of a network:
bounds are measured without --quick."""


def check(keys: Sequence[str], say: Callable[[str], None]) -> list[str]:
    """Print and return what is wrong with these methods, a sentence each."""
    found = []
    for name, judge in CHECKS.items():
        begin = time.monotonic()
        judged = {key: judge(state.usual(neighbours.case_of(key))) for key in keys}
        if all(sentences is None for sentences in judged.values()):
            print(f"{name}: not looked at for these methods")
            continue
        wrong = [f"{key}: {each}" for key, sentences in judged.items() for each in sentences or ()]
        say(f"{name}: {time.monotonic() - begin:.0f} s")
        print(f"{name}: {'nothing found' if not wrong else f'{len(wrong)} LEAKS'}")
        print(*(f"  {sentence}" for sentence in wrong), sep="\n", end="\n" * bool(wrong))
        found += wrong
    return found


def first_line(keys: Sequence[str], made: Sequence[Line]) -> str:
    """Write which bounds were measured now, which before with the same code, and which were not."""
    when = {(line.method, line.clients): f"on {line.date}, same code" for line in current()}
    when |= {(line.method, line.clients): "now" for line in made}
    groups: dict[str, list[str]] = {"now": []}
    for key in keys:
        for clients in CLIENTS:
            label = when.get((key, clients), "not with this code")
            groups.setdefault(label, []).append(f"{key} ({clients})")
    words = (f"{label}: {', '.join(names) or 'nothing'}" for label, names in groups.items())
    return f"bounds of methods (clients) measured {'; '.join(words)}"


def audit(
    methods: Sequence[str] = (),
    *,
    runs: int | None = None,
    minutes: float = float("inf"),
    again: bool = False,
    quick: bool = False,
) -> int:
    """Audit methods, all private ones if none is named, and print what was found.

    Finished lines are kept, as `path_of_lines` says, so that an interrupted audit continues where
    it was. Those of other code are measured again, and with `again` all lines. minutes: no line is
    begun after so long. quick: bounds are not measured.

    Returns the exit status, which is 1 if a lower bound exceeds its claim or a check finds a leak.
    Raises BadInput, before any work, for a method that cannot be audited.
    """
    keys = tuple(methods) or tuple(neighbours.private_methods())
    for key in keys:
        neighbours.case_of(key)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    until = time.monotonic() + 60 * minutes
    options = {"until": until, "again": again, "say": say}
    made = [] if quick else measure_missing(keys, runs or RUNS, **options)
    print(first_line(keys, made))
    shown = [line for line in current() if line.method in keys]
    if shown and not quick:
        print(printed(shown))
        print(
            "at least: 95 percent lower bound on epsilon; control: the same with 0.3 times the "
            "noise, to be noticed"
        )
    wrong = check(keys, say)
    if quick:
        print(LIMITS)
    return int(bool(wrong) or any(line.verdict == EXCEEDED for line in shown))
