"""The audit's table: one line for each method and number of clients, and the file that keeps
finished lines."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import pandas as pd

from fedsynth_lib.audit import neighbours, scores
from fedsynth_lib.audit.bounds import lower_bound
from fedsynth_lib.audit.fits import DEFINITION
from fedsynth_lib.audit.scenario import RATE_OF_CONTROL, Case, Scenario
from fedsynth_lib.core.measured import BELOW, EXCEEDED, WEAK, lines_at_hand, path_of_lines
from fedsynth_lib.core.store import write_atomically

CLIENTS = (1, 3)
RUNS = 160  # of a network with one client, with the record and as many without
FASTER = {"counts": 40, "marginals": 5, "networks": 1}  # how many times as many runs a family gets
ALARM = 0.999  # confidence of an alarm: some thirty lines with three bounds each are tested
ROWS = 20  # synthetic rows of a run


@dataclass(frozen=True)
class Line:
    """What an audit found. Bounds are 95 percent lower bounds on epsilon at `delta`.

    lower: from what the adversary sees (`sees`), by a fit of the noise where that is known (`by`);
    plain: of the same scores without that assumption; synthetic: from synthetic rows alone.
    runs: with the record, and as many without. control: as `lower`, of runs with 0.3 times the
    noise that the claim needs.
    """

    method: str
    clients: int
    epsilon: float
    delta: float
    sees: str
    runs: int
    lower: float
    by: str
    plain: float
    synthetic: float
    control: float
    control_runs: int
    verdict: str
    version: int
    seconds: float


def runs_of(case: Case, clients: int, runs: int) -> int:
    """Fewer where a run has more clients, more where it is fast."""
    family = (
        "counts"
        if case.key in neighbours.COUNTS
        else "marginals"
        if case.sees == "the model"
        else "networks"
    )
    return max(40, FASTER[family] * runs // (1 if clients == 1 else 2))


def scored(scenario: Scenario, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of so many runs with and without the record, (2, runs): of all that is seen, and of
    synthetic rows."""
    white, black = scenario.case.score(scenario), scores.synthetic(scenario, ROWS)
    found = np.empty((2, 2, number))
    for run in range(number):
        for place, present in enumerate((True, False)):
            seen = scenario.run(present=present)
            found[:, place, run] = white(seen), black(seen)
    return found[0], found[1]


def measure(case: Case, clients: int, runs: int) -> Line:
    """One line. The control is measured first, with as many runs; it must exceed the claim to count
    as caught."""
    begin, claim, delta = time.monotonic(), case.privacy.epsilon, case.privacy.delta
    number, fit = runs_of(case, clients, runs), case.fit(Scenario(case, clients))
    control = lower_bound(
        *Scenario(case, clients, RATE_OF_CONTROL).score_runs(number), delta, fit=fit
    )
    white, black = scored(Scenario(case, clients), number)
    kinds = {"lower": (white, fit), "plain": (white, DEFINITION), "synthetic": (black, DEFINITION)}
    found = {name: lower_bound(*pair, delta, fit=by) for name, (pair, by) in kinds.items()}
    surely = [lower_bound(*pair, delta, fit=by, confidence=ALARM) for pair, by in kinds.values()]
    verdict = EXCEEDED if max(surely) > claim else BELOW if control > claim else WEAK
    rounded = {name: round(value, 4) for name, value in found.items()}
    return Line(
        *(case.key, clients, claim, delta, case.sees, number),
        **rounded,
        by=fit.name,
        control=round(control, 4),
        control_runs=number,
        verdict=verdict,
        version=case.method.VERSION,
        seconds=round(time.monotonic() - begin, 1),
    )


def lines(
    keys: tuple[str, ...], runs: int, *, until: float, again: bool, say: Callable[[str], None]
) -> Iterator[Line]:
    """A line for each method and number of clients, finished ones from the file unless `again`;
    none begins after `until` (monotonic time).

    One client first for all methods, so that a short audit sees each of them.
    """
    kept = {} if again else {(line.method, line.clients): line for line in load()}
    for clients in CLIENTS:
        for key in keys:
            case, old = neighbours.case_of(key), kept.get((key, clients))
            if (
                old
                and old.version == case.method.VERSION
                and old.runs >= runs_of(case, clients, runs)
            ):
                yield old
                continue
            if time.monotonic() > until:
                say(f"no time left for {key} with {clients} clients")
                continue
            say(
                f"{key}, {clients} clients: {runs_of(case, clients, runs)} runs with the record "
                "and as many without"
            )
            found = measure(case, clients, runs)
            save(found)
            yield found


def load() -> list[Line]:
    """The finished lines, of the committed audit to begin with."""
    return [Line(**row) for row in pd.read_csv(lines_at_hand()).to_dict("records")]


def save(line: Line) -> None:
    """Add a line to the file, in place of an older one about the same."""
    order = {key: place for place, key in enumerate(neighbours.SETTINGS)}
    kept = [old for old in load() if (old.method, old.clients) != (line.method, line.clients)]
    rows = sorted(
        [*kept, line], key=lambda each: (order.get(each.method, len(order)), each.clients)
    )
    frame = pd.DataFrame(
        [asdict(row) for row in rows], columns=[each.name for each in fields(Line)]
    )
    write_atomically(path_of_lines(), frame.to_csv(index=False).encode())


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
    "sees": "the adversary sees",
}


def printed(lines: Sequence[Line]) -> str:
    """The lines as text."""
    frame = pd.DataFrame([vars(line) for line in lines]).sort_values(["clients"], kind="stable")
    shown = frame[list(HEADINGS)].rename(columns=HEADINGS)
    return shown.to_string(index=False, float_format=lambda x: f"{x:.3g}")


def audit(
    methods: Sequence[str] = (),
    *,
    runs: int | None = None,
    minutes: float = float("inf"),
    again: bool = False,
) -> int:
    """Audit methods, all private ones where none is named, and print the table; the exit status.

    Finished lines are kept, as `path_of_lines` says, so that an interrupted audit goes on where
    it was. The committed lines count as finished: `again` measures them anew.
    minutes: no line is begun after so long.
    Returns 1 where a lower bound exceeds its claim. Raises BadInput, before any work, for a method
    that cannot be audited.
    """
    keys = tuple(methods) or tuple(neighbours.private_methods())
    for key in keys:
        neighbours.case_of(key)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    until = time.monotonic() + 60 * minutes
    found = list(lines(keys, runs or RUNS, until=until, again=again, say=say))
    if found:
        print(printed(found))
    print(
        "at least: 95 percent lower bound on epsilon; control: the same with 0.3 times the "
        "noise, to be noticed"
    )
    return int(any(line.verdict == EXCEEDED for line in found))
