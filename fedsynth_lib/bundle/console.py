"""What a person sees of a run: bars or log lines, errors, the closing table, the last status."""

import contextlib
import io
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

    def __str__(self) -> str:
        """Write how it ended in one line of a log."""
        counts = f"{self.computed} experiments computed, {self.reused} computed before"
        return f"{self.status} after {self.minutes:.1f} min, {counts}, {self.figures} figures"


class Line:
    """What is shown of one running notebook.

    It is also the file that papermill writes the stderr of its kernel to. The last line of that,
    such as a grid's progress, is shown beside the name.
    """

    def __init__(self, name: str, number: int, task: int):
        self.name, self.number, self.task, self.progress = name, number, task, ""
        self.begin = self.last = time.monotonic()

    def __str__(self) -> str:
        """Write the name, the minutes so far and the last line of the kernel."""
        spent = (time.monotonic() - self.begin) / 60
        return f"{self.name}: {', '.join(filter(None, (f'{spent:.0f} min', self.progress)))}"

    def write(self, text: str) -> None:
        """Keep the last line, if it is not of a warning."""
        for line in re.split(r"[\r\n]+", text):
            if line.strip() and not line.startswith(" ") and "Warning" not in line:
                self.progress = line.strip()

    def flush(self) -> None:
        """Nothing is held back."""


class Reporter:
    """On a terminal a bar over the notebooks with a line for each that runs, kept at the bottom.

    Elsewhere a line of the log when a notebook starts and ends, and one in `every` seconds between.
    """

    def __init__(self, total: int, *, every: float = 60.0):
        self.total, self.every, self.begun, self.ended = total, every, 0, 0
        self.lines: dict[str, Line] = {}  # of the notebooks that run
        from rich.console import Console  # --list and --check need no packages
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        column = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
        terminal = Console(stderr=True)
        self.bars = Progress(
            column, BarColumn(20), console=terminal, disable=not terminal.is_interactive
        )
        self.whole = self.bars.add_task(f"0/{total}", total=total)

    def __enter__(self) -> "Reporter":
        """Show the bars, on a terminal."""
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bars away."""
        self.bars.stop()

    def say(self, text: str) -> None:
        """Print a text, above the bars where there are any."""
        print(text, flush=True)  # above the bars, where there are any

    def start(self, notebook: Notebook, minutes: float | None) -> Line:
        """Show that a notebook starts; its kernel writes into the line that is returned."""
        self.begun += 1
        task = self.bars.add_task(notebook.stem, total=None)
        line = self.lines[notebook.stem] = Line(notebook.stem, self.begun, task)
        expected = f", about {minutes:g} min" if minutes is not None else ""
        if self.bars.disable:
            self.say(f"[{line.number}/{self.total}] {line.name} starts{expected}")
        return line

    def tick(self) -> None:
        """Show how far each notebook is; called twice a second while notebooks run."""
        now = time.monotonic()
        for line in self.lines.values():
            self.bars.update(line.task, description=str(line))
            if self.bars.disable and now - line.last >= self.every:
                line.last = now
                self.say(f"[{line.number}/{self.total}] {line}")

    def end(self, notebook: Notebook, text: str) -> None:
        """Show how a notebook ended."""
        self.ended += 1
        if line := self.lines.pop(notebook.stem, None):
            self.bars.remove_task(line.task)
        place = f"{self.ended}/{self.total}"
        self.bars.update(self.whole, completed=self.ended, description=place)
        self.say(f"[{place}] {notebook.stem}: {text}")


def explain(notebook: Notebook, error: BaseException, executed: Path) -> str:
    """Write what went wrong: number and source of the cell, and the last line of the traceback."""
    last = (
        f"{error.ename}: {error.evalue}"
        if hasattr(error, "ename")
        else f"{type(error).__name__}: {error}"
    )
    if type(error).__name__ == "DeadKernelError":
        last = "the kernel died, often for want of memory: try --jobs 1."
    cells, begun = [], 0
    with contextlib.suppress(OSError, ValueError):
        cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    added = {"injected-parameters", "papermill-error-cell-tag"}  # cells that are not the author's
    cells = [cell for cell in cells if not added & set(cell["metadata"].get("tags", []))]
    for number, cell in enumerate(cells, 1):
        if cell["metadata"].get("papermill", {}).get("start_time"):
            begun = number
    if not begun:
        return f"{notebook.stem} failed: {last}"
    source = textwrap.indent("".join(cells[begun - 1]["source"]).rstrip(), "    | ", lambda _: True)
    where = f"{notebook.stem} failed in cell {begun}:"
    return "\n".join([where, source, last, f"The executed copy: {executed}"])


def read_log(path: Path) -> dict[str, Any]:
    """Read a notebook's run log.

    Returns experiments computed and computed before, figures written, and whether a stand-in was
    behind one.
    """
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}")]  # a kill cuts the last
    figures = {event["path"] for event in events if event["event"] == "figure"}
    grids = [event for event in events if event["event"] == "grid"]
    return {
        "computed": sum(grid["computed"] for grid in grids),
        "reused": sum(grid["reused"] for grid in grids),
        "figures": len(figures),
        "standin": any("-standin" in Path(figure).parent.name for figure in figures),
    }


# --- the streams ---------------------------------------------------------------------------------

READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


def heard(work: Callable[[], int]) -> int:
    """Return the exit status of `work`, with all that it printed written out.

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
    """Write the table at the end of a run, and where its figures rest on stand-ins."""
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
    """Write a line for each notebook, and below it the title and the exhibits.

    The line has the name, minutes of a default run (from committed results where it has any) and to
    compute all by profile, and how and on which day the last run ended.
    """
    head = ("notebook", "default", "smoke", "quick", "paper", "last run")
    rows, below = [], [""]
    for each in notebooks:
        computing = [each.minutes.get(name) for name in ("smoke", "quick", "paper")]
        default = computing[-1] if each.regenerate is None else each.regenerate
        minutes = ("" if number is None else f"{number:g}" for number in (default, *computing))
        ended = last.get(each.stem)
        status = (
            f"{ended['status']} ({ended['profile']}, {ended['finished'][:10]})"
            if ended
            else "never run"
        )
        rows.append((each.stem, *minutes, status))
        about = f"{each.title} ({short(each.exhibits)})" if each.exhibits else each.title
        below.append(
            "\n" + textwrap.fill(about, 100, initial_indent="    ", subsequent_indent="    ")
        )
    lines = aligned(head, rows).splitlines()
    return "\n".join(map("".join, zip(lines, below, strict=True))) + (
        "\n(minutes on 2 cores. default: what ./run_all.sh takes, which shows committed results; "
        "smoke, quick,\npaper: what computing all of them takes in that profile, "
        "`--profile NAME --fresh`)"
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
    """Put the outcome into figures/runs/last.json.

    It is replaced in one step, so that a kill leaves no half file.
    """
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
