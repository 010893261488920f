"""What a person sees of a run: the bar or the log lines, the error with its cell, the table, the
last status."""

import contextlib
import io
import itertools
import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedsynth_lib.bundle.notebooks import Notebook


@dataclass
class Outcome:
    """How a notebook ended, and what its run log says it did."""

    status: str  # ok | failed | not run | stopped
    profile: str
    minutes: float = 0.0
    computed: int = 0
    reused: int = 0
    figures: int = 0
    memory_gib: float = 0.0  # largest sum over the kernel and its workers
    standin: bool = False
    finished: str = ""

    def add(self, done: Mapping[str, Any]) -> None:
        """Take over what `read_log` found."""
        for name, value in done.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        counts = f"{self.computed} cells computed, {self.reused} reused, {self.figures} figures"
        return f"{self.status} after {self.minutes:.1f} min, {counts}"


class Line:
    """What is shown of one running notebook; also the file that papermill writes its kernel's
    stderr to.

    The last line of that, say a grid's progress, stands beside the name.
    """

    def __init__(self, name: str, number: int):
        self.name, self.number, self.heard = name, number, ""
        self.begin = self.last = time.monotonic()
        self.bar = None  # on a terminal

    def __str__(self) -> str:
        spent = (time.monotonic() - self.begin) / 60
        return f"{self.name}: {', '.join(filter(None, (f'{spent:.0f} min', self.heard)))}"

    def write(self, text: str) -> None:
        for line in re.split(r"[\r\n]+", text):
            if line.strip() and not line.startswith(" ") and "Warning" not in line:
                self.heard = line.strip()

    def flush(self) -> None:
        """Nothing is held back."""


class Reporter:
    """On a terminal a bar over the notebooks with a line for each that runs, kept at the bottom.

    Elsewhere a line of the log when a notebook starts and ends, and one in `every` seconds between.
    """

    def __init__(self, total: int, *, every: float = 60.0):
        self.total, self.every, self.started, self.done = total, every, 0, 0
        self.lines: dict[str, Line] = {}  # of the notebooks that run
        self.bar = (
            self._bar("{n_fmt}/{total_fmt} |{bar:20}| {elapsed}", position=0)
            if sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, *_: object) -> None:
        for bar in (*(line.bar for line in self.lines.values()), self.bar):
            if bar is not None:
                bar.close()

    def _bar(self, form: str, position: int) -> Any:
        from tqdm import tqdm

        return tqdm(
            total=self.total,
            file=sys.stderr,
            dynamic_ncols=True,
            bar_format=form,
            position=position,
            leave=not position,
        )

    def say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.write(text, file=sys.stdout)
        else:
            print(text, flush=True)

    def start(self, notebook: Notebook, minutes: float | None) -> Line:
        self.started += 1
        line = self.lines[notebook.stem] = Line(notebook.stem, self.started)
        if self.bar is not None:
            taken = {each.bar.pos for each in self.lines.values() if each.bar is not None}
            line.bar = self._bar(
                "  {desc}", position=next(n for n in itertools.count(1) if -n not in taken)
            )
            line.bar.set_description_str(str(line))
        else:
            expected = f", about {minutes:g} min" if minutes is not None else ""
            self.say(f"[{line.number}/{self.total}] {line.name} starts{expected}")
        return line

    def tick(self) -> None:
        """Called twice a second while notebooks run."""
        now = time.monotonic()
        for line in self.lines.values():
            if line.bar is not None:
                line.bar.set_description_str(str(line))
            elif now - line.last >= self.every:
                line.last = now
                self.say(f"[{line.number}/{self.total}] {line}")
        if self.bar is not None:
            self.bar.refresh()

    def end(self, notebook: Notebook, text: str) -> None:
        line = self.lines.pop(notebook.stem, None)
        if line is not None and line.bar is not None:
            line.bar.close()
        self.done += 1
        self.say(f"[{self.done}/{self.total}] {notebook.stem}: {text}")
        if self.bar is not None:
            self.bar.update()


def explain(notebook: Notebook, error: BaseException, executed: Path) -> str:
    """What went wrong: the number and source of the cell, and the last line of the traceback."""
    last = (
        f"{error.ename}: {error.evalue}"
        if hasattr(error, "ename")
        else f"{type(error).__name__}: {error}"
    )
    if type(error).__name__ == "DeadKernelError":
        last = "the kernel died, often for want of memory: try --jobs 1."
    try:
        cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError):
        return f"{notebook.stem} failed: {last}"
    added = {"injected-parameters", "papermill-error-cell-tag"}  # cells that are not the author's
    cells = [cell for cell in cells if not added & set(cell["metadata"].get("tags", []))]
    states = [
        cell["metadata"].get("papermill", {}) if cell["cell_type"] == "code" else {}
        for cell in cells
    ]
    begun = [index for index, state in enumerate(states) if state.get("start_time")]
    failed = next(
        (index for index in begun if states[index].get("exception")), begun[-1] if begun else 0
    )
    source = "".join(cells[failed]["source"]).rstrip().splitlines()
    lines = [
        f"{notebook.stem} failed in cell {failed + 1}:",
        *(f"    | {line}" for line in source),
        last,
    ]
    return "\n".join([*lines, f"The executed copy: {executed}"])


def read_log(path: Path) -> dict[str, Any]:
    """Cells computed and reused, figures written, and whether a stand-in was behind one, from a
    notebook's run log."""
    with contextlib.suppress(FileNotFoundError):
        events = [
            json.loads(line)
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.endswith("}")
        ]
        figures = {event["path"] for event in events if event["event"] == "figure"}
        grids = [event for event in events if event["event"] == "grid"]
        return {
            "computed": sum(grid["computed"] for grid in grids),
            "reused": sum(grid["reused"] for grid in grids),
            "figures": len(figures),
            "standin": any("-standin" in Path(figure).parent.name for figure in figures),
        }
    return {}


# --- the streams ---------------------------------------------------------------------------------

READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


def heard(work: Callable[[], int]) -> int:
    """The exit status of `work`, with all that it printed written out.

    A letter that the terminal's encoding lacks is printed as an escape. Where whoever reads has
    enough (`| head`), the program ends without a word.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # what is left in the buffer would be tried once more, and complained about, at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


# --- tables --------------------------------------------------------------------------------------


def summary(outcomes: Mapping[str, Outcome]) -> str:
    """The table at the end of a run, and where its figures rest on stand-ins."""
    head = ("notebook", "status", "minutes", "computed", "reused", "figures", "GiB")
    rows = [
        (
            stem,
            each.status,
            f"{each.minutes:.1f}",
            each.computed,
            each.reused,
            each.figures,
            f"{each.memory_gib:.1f}",
        )
        for stem, each in outcomes.items()
    ]
    standins = [stem for stem, each in outcomes.items() if each.standin]
    note = (
        f"\nOn synthetic stand-ins, the real tables being out of reach: {', '.join(standins)}; "
        f"their figures are in figures/live/{outcomes[standins[0]].profile}-standin/."
        if standins
        else ""
    )
    return aligned(head, rows) + note


def listing(notebooks: Sequence[Notebook], last: Mapping[str, dict[str, Any]]) -> str:
    """Name, expected minutes (from rows, or to compute by profile) and how the last run ended, a
    line each; below it the title and the exhibits."""
    head = ("notebook", "rows", "smoke", "quick", "paper", "last run")
    rows, below = [], [""]
    for each in notebooks:
        known = (each.regenerate, *(each.minutes.get(name) for name in ("smoke", "quick", "paper")))
        minutes = ("" if number is None else f"{number:g}" for number in known)
        ended = last.get(each.stem)
        status = (
            f"{ended['status']} ({ended['profile']}, {ended['finished']})" if ended else "never run"
        )
        rows.append((each.stem, *minutes, status))
        about = f"{each.title} ({short(each.exhibits)})" if each.exhibits else each.title
        below.append(
            "\n" + textwrap.fill(about, 100, initial_indent="    ", subsequent_indent="    ")
        )
    lines = aligned(head, rows).splitlines()
    return "\n".join(map("".join, zip(lines, below, strict=True))) + (
        "\n(minutes on 2 cores: `rows` to regenerate from committed rows, the others to compute)"
    )


def short(exhibits: Iterable[str]) -> str:
    """`martinez2024 tab6.1 tab6.2`: each work once, with its exhibits behind it."""
    by_work: dict[str, list[str]] = {}
    for exhibit in exhibits:
        work, _, label = exhibit.partition("/")
        by_work.setdefault(work, []).append(label)
    return ", ".join(" ".join([work, *labels]) for work, labels in by_work.items())


def aligned(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns under their heads: numbers to the right, texts to the left."""
    lines = [head, *([str(entry) for entry in row] for row in rows)]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    number = [all(re.fullmatch(r"[\d.]*", entry) for entry in column[1:]) for column in columns]

    def text(line: Sequence[str]) -> str:
        cells = zip(line, widths, number, strict=True)
        return "  ".join(
            entry.rjust(width) if right else entry.ljust(width) for entry, width, right in cells
        ).rstrip()

    return "\n".join(map(text, lines))


def remember(root: Path, stem: str, outcome: Outcome) -> None:
    """Put the outcome into figures/runs/last.json, in one step so that a kill leaves no half
    file."""
    path = root / "figures" / "runs" / "last.json"
    known = {**read_last(root), stem: asdict(outcome)}
    temporary = path.with_name(f".last.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(known, indent=1), encoding="utf-8")
    os.replace(temporary, path)


def read_last(root: Path) -> dict[str, dict[str, Any]]:
    """Stem -> the outcome of its last run, as stored."""
    try:
        return json.loads((root / "figures" / "runs" / "last.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
