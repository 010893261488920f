"""Recomputes a random sample of the committed cells, and says how many agree: `./run_all.sh
--verify MINUTES`.

    python -m fedsynth_lib verify 15 --only maddock --seed "a text" --save

The sample is drawn from a seed, today's date unless a text is given, and stratified: a stratum is a
grid in a profile. Of each stratum one cell comes first, the cheapest stratum leading, then a second
one of each, until the time is over. A cell is begun only where it fits: into the time that is left,
and into a tenth of all the time, so that no cell takes the turns of many. What a cell takes is
foreseen from the seconds that its committed rows (and those that share its training) say, and how
this machine did so far. Cells whose tables are not at hand are left out, and counted. Nothing is
read from or written to the user's cache or results. How it decides: see `agreement`.
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd
from tqdm import tqdm

from fedsynth_lib import __version__, works
from fedsynth_lib.bundle import agreement
from fedsynth_lib.bundle.agreement import DIFFERENT, EXACT, KINDS, Agreement, Spread
from fedsynth_lib.bundle.console import aligned
from fedsynth_lib.bundle.recompute import bare_home, computed_by
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import rows
from fedsynth_lib.runs.progress import duration, watched

SHARE = 0.1  # of all the time: the most that one cell may take
# how much slower than the committed seconds this machine is taken to be before it has shown it
FIRST_GUESS = 1.5
OVERHEAD = 2.0  # seconds: loading the table and measuring, which the committed seconds may lack
# seconds: what clustering the rows of a table takes, which its first cell of `cluster_skew` does
CLUSTERING = 60.0
STARTING = 60.0  # seconds: a worker that has nothing imported yet is given so many
TRAININGS = ("seconds", "seconds_training")  # metrics: what a training took
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch")
DECISION = (
    "exactly: equal as written (10 digits); within rounding: numbers differ by 1e-6 of themselves "
    "at most; within the\nspread: by no more than runs with two seeds do, as committed rows of "
    "the same settings show (pooled over similar\ncells of the grid where a cell has fewer than 3 "
    "seeds; by one more seed, computed now, where there is none), with\n95 percent for all numbers "
    "of a cell together; different: else. Seconds and memory are not compared. In full:\n"
    "fedsynth_lib/bundle/agreement.py."
)


class Cell(NamedTuple):
    """A committed cell."""

    grid: str
    profile: str
    key: str
    params: str
    version: str
    seconds: float  # on the machine that committed it, its training included

    @property
    def stratum(self) -> tuple[str, str]:
        return self.grid, self.profile

    @property
    def table(self) -> str:
        """The digest of its table, empty where it has none."""
        return rows.read_params(self.params).get("table", "")

    @property
    def clustered(self) -> tuple[Any, ...]:
        """The rows whose clusters its clients hold; empty where they hold none."""
        settings = rows.read_params(self.params)
        return (
            (self.table, settings.get("rows"))
            if settings.get("partition") == "cluster_skew"
            else ()
        )


@dataclass
class Verification:
    """What came out: a verdict for every cell that was recomputed, and what could not be."""

    seed: str
    limit: float  # seconds
    committed: Counter  # stratum -> cells
    verdicts: dict[Cell, Agreement] = field(default_factory=dict)
    lacking: Counter = field(default_factory=Counter)  # dataset -> cells whose table is not at hand
    stopped: list[Cell] = field(default_factory=list)  # begun, and not done in time
    seconds: float = 0.0
    interrupted: bool = False
    keys: set[str] = field(default_factory=set)  # of all committed cells

    def counts(self) -> dict[tuple[str, str], Counter]:
        """Stratum -> kind of agreement -> cells."""
        found: dict[tuple[str, str], Counter] = defaultdict(Counter)
        for cell, verdict in self.verdicts.items():
            found[cell.stratum][verdict.kind] += 1
        return dict(sorted(found.items()))

    @property
    def status(self) -> int:
        """0 where something was recomputed and nothing is different, 130 after Ctrl-C, else 1."""
        if any(verdict.kind == DIFFERENT for verdict in self.verdicts.values()):
            return 1
        return 130 if self.interrupted else int(not self.verdicts)


def verify(
    minutes: float, *, root: Path, seed: str = "", only: str = "", save: bool = False
) -> int:
    """Recompute committed cells of the project `root` for so many minutes, print the table, and
    return the exit status.

    seed: any text; today's date where it is empty. only: a part of the names of the grids to draw
        from.
    save: write data/results/verified.csv and verified.md. Raises BadInput where there is nothing to
        draw from.
    """
    if not minutes > 0:
        raise BadInput(f"the minutes to verify are {minutes:g}: give more than 0.")
    seed = seed or date.today().isoformat()
    found = sample(minutes * 60, root=root, seed=seed, only=only)
    print(report(found), flush=True)
    if save:
        keep(found, root / "data" / "results")
    return found.status


def sample(limit: float, *, root: Path, seed: str, only: str = "") -> Verification:
    """The verification within `limit` seconds. Ctrl-C ends it early, with what was done."""
    begin = time.monotonic()
    files = committed_files(root)
    strata, spreads = (
        committed_cells({key: path for key, path in files.items() if only in key[0]}),
        {},
    )
    if not strata:
        raise BadInput(
            f"no committed grid has {only!r} in its name: give a part of one of "
            "data/results/*/*.csv."
        )
    result = Verification(
        seed,
        limit,
        Counter({stratum: len(cells) for stratum, cells in strata.items()}),
        keys={cell.key for cells in committed_cells(files).values() for cell in cells},
    )
    plan = Plan({s: shuffled(cells, f"{seed} {s}") for s, cells in strata.items()}, limit)
    print(
        f'verify: seed "{seed}", {duration(limit)}; {sum(result.committed.values())} committed '
        "cells",
        flush=True,
    )
    with contextlib.suppress(KeyboardInterrupt), Shown(limit) as shown, recomputing(root) as worker:
        result.interrupted = True  # unless it comes to its end
        while cell := plan.draw(limit - (time.monotonic() - begin)):
            shown.begin(cell, len(result.verdicts))
            left = limit - (time.monotonic() - begin)
            answer = worker.ask(
                task_of(cell), min(left, plan.longest), lambda: shown.tick(time.monotonic() - begin)
            )
            if answer is None:
                result.stopped.append(cell)
                plan.learn(cell, plan.longest)  # at least
            elif "lacking" in answer:
                for other in (cell, *plan.drop(cell.table)):
                    result.lacking[rows.read_params(other.params).get("dataset", "?")] += 1
            else:
                plan.learn(cell, answer.get("seconds"))
                own = rows.load_rows(files[cell.stratum])
                if cell.stratum not in spreads:
                    spreads[cell.stratum] = Spread(own, lambda cell=cell: of_work(files, cell.grid))
                committed = own[own["cell"] == cell.key]
                verdict = judged(answer, committed, spreads[cell.stratum])
                if verdict.lacks_seeds and (other := with_next_seed(cell)):
                    left = limit - (time.monotonic() - begin)
                    second = worker.ask(task_of(other), min(left, plan.longest), lambda: None)
                    if second and "rows" in second:
                        both = [rows.to_frame(each["rows"]) for each in (answer, second)]
                        verdict = judged(answer, committed, Spread(pd.concat(both)))
                result.verdicts[cell] = verdict
        result.interrupted = False
    result.seconds = time.monotonic() - begin
    return result


def with_next_seed(cell: Cell) -> Cell | None:
    """The cell with the seed that follows its own; None where it has none."""
    params = rows.read_params(cell.params)
    if not isinstance(params.get("seed"), int):
        return None
    text = rows.params_text({**params, "seed": params["seed"] + 1})
    return cell._replace(params=text, key=rows.cell_key(text, cell.version))


def judged(answer: Mapping[str, Any], committed: pd.DataFrame, spread: Spread) -> Agreement:
    """The verdict on a worker's answer."""
    if "error" in answer:
        return Agreement(DIFFERENT, f"it failed: {answer['error']}")
    return agreement.compare(committed, rows.to_frame(answer["rows"]), spread)


# --- the plan ------------------------------------------------------------------------------------


def committed_files(root: Path) -> dict[tuple[str, str], Path]:
    """(grid, profile) -> its file of results on the real tables."""
    folders = [root / "data" / "results" / profile for profile in rows.PROFILES]
    files = {
        (path.stem, path.parent.name): path
        for folder in folders
        for path in sorted(folder.glob("*.csv"))
    }
    # A user's own grids are in the same folders; those of the bundle begin with a notebook's
    # number.
    return {
        key: path for key, path in files.items() if key[0][:2].isdigit() and computed_by(key[0])
    }


def of_work(files: Mapping[tuple[str, str], Path], grid: str) -> pd.DataFrame:
    """The committed rows of all grids, in all profiles, that belong to the work of this one; 7x is
    one work, too."""
    paths = [path for (name, _), path in files.items() if name[0] == grid[0]]
    return pd.concat([rows.load_rows(path) for path in paths], ignore_index=True)


def committed_cells(files: Mapping[tuple[str, str], Path]) -> dict[tuple[str, str], list[Cell]]:
    """Stratum -> its cells, in the order of the file."""
    found, longest = {}, defaultdict(float)
    for (grid, profile), path in files.items():
        frame = rows.load_rows(path)
        training = frame["value"].where(frame["metric"].isin(TRAININGS), 0.0)
        frame["seconds"] = frame["seconds"].combine(training, max).fillna(0.0)
        first = frame.groupby("cell", sort=False).agg(
            {"params": "first", "version": "first", "seconds": "max"}
        )
        found[grid, profile] = [Cell(grid, profile, *each) for each in first.itertuples()]
        for cell in found[grid, profile]:
            longest[training_of(cell)] = max(longest[training_of(cell)], cell.seconds)
    least = {
        key: max((c.seconds for c in found.get((works.trained_in(key[0]), key[1]), [])), default=0)
        for key in found
    }
    return {
        key: [cell._replace(seconds=max(longest[training_of(cell)], least[key])) for cell in cells]
        for key, cells in found.items()
    }


@cache
def of_measurement() -> frozenset[str]:
    """Settings that say what is measured of a training, not how it is made: those that any work
    declares."""
    kinds = [kind for work in works.WORKS for kind in works.load(work).cells.values()]
    return frozenset(name for kind in kinds for name in kind.of_measurement)


def training_of(cell: Cell) -> tuple[str, str]:
    """What cells that share a training have in common: the first of them to be computed takes its
    time."""
    settings = rows.read_params(cell.params)
    return cell.profile, rows.canonical(
        {name: v for name, v in settings.items() if name not in of_measurement()}
    )


def shuffled(cells: Sequence[Cell], seed: str) -> list[Cell]:
    """The cells in an order that follows from the seed."""
    return random.Random(seed).sample(list(cells), len(cells))


class Plan:
    """Which cell comes next. strata: stratum -> cells in their order; limit: seconds in all."""

    def __init__(self, strata: Mapping[tuple[str, str], Sequence[Cell]], limit: float):
        self.left = {stratum: list(cells) for stratum, cells in strata.items()}
        self.most = SHARE * limit  # that a cell may be expected to take
        # that it may take: the first of a table also divides its rows
        self.longest = max(3 * self.most, STARTING)
        self.round: set[tuple[str, str]] = set()  # whose turn is still to come
        # grid -> seconds here over those of the rows
        self.ratios: dict[str, list[float]] = defaultdict(list)
        self.clustered: set[tuple[Any, ...]] = {()}

    def foreseen(self, cell: Cell) -> float:
        """Seconds that the cell is expected to take here."""
        everywhere = [ratio for ratios in self.ratios.values() for ratio in ratios] or [FIRST_GUESS]
        return statistics.median(self.ratios.get(cell.grid) or everywhere) * self._elsewhere(cell)

    def learn(self, cell: Cell, seconds: float | None) -> None:
        """Take note of what a cell took, where it came to its end."""
        if seconds is not None:
            self.ratios[cell.grid].append(seconds / self._elsewhere(cell))
            self.clustered.add(cell.clustered)

    def _elsewhere(self, cell: Cell) -> float:
        """Seconds that the cell takes on the machine of its rows, with what these lack."""
        return cell.seconds + OVERHEAD + (0 if cell.clustered in self.clustered else CLUSTERING)

    def draw(self, seconds: float) -> Cell | None:
        """The next cell that fits into the seconds left, taken out of the plan; None where none
        does."""
        for again in (False, True):
            if again:
                self.round = {stratum for stratum, cells in self.left.items() if cells}
            fitting = {s: self._fits(s, min(seconds, self.most)) for s in self.round}
            if fitting := {s: cell for s, cell in fitting.items() if cell}:
                stratum, cell = min(
                    fitting.items(), key=lambda each: (self.foreseen(each[1]), each[0])
                )
                self.round.discard(stratum)
                self.left[stratum].remove(cell)
                return cell
        return None

    def drop(self, table: str) -> list[Cell]:
        """Take all cells of a table, a digest, out of the plan."""
        dropped = [cell for cells in self.left.values() for cell in cells if cell.table == table]
        self.left = {
            stratum: [cell for cell in cells if cell.table != table]
            for stratum, cells in self.left.items()
        }
        return dropped

    def _fits(self, stratum: tuple[str, str], seconds: float) -> Cell | None:
        return next((cell for cell in self.left[stratum] if self.foreseen(cell) <= seconds), None)


# --- the worker ----------------------------------------------------------------------------------


class Worker:
    """A process that recomputes one cell at a time; it is begun again where it died or was
    stopped."""

    def __init__(self, home: Path):
        self.home = home
        self.process: subprocess.Popen | None = None

    def ask(
        self, task: Mapping[str, str], seconds: float, tick: Callable[[], None]
    ) -> dict[str, Any] | None:
        """The answer to a task (see `recompute.answer`), None where it did not come in time; `tick`
        twice a second."""
        until = time.monotonic() + seconds
        if self.process is None:
            self._begin()
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        while (left := until - time.monotonic()) > 0:
            tick()
            with contextlib.suppress(queue.Empty):
                if line := self.answers.get(timeout=min(0.5, left)):
                    return json.loads(line)
                status = self.process.wait()
                self.end()
                return {
                    "error": f"its process ended with status {status}, often for want of memory"
                }
        self.end()
        return None

    def _begin(self) -> None:
        env = {
            **os.environ,
            "FEDSYNTH_HOME": str(self.home),
            "FEDSYNTH_FRESH": "",
            "FEDSYNTH_RUN_LOG": "",
            "PYTHONUTF8": "1",
        }
        env["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(PACKAGE), os.environ.get("PYTHONPATH")))
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedsynth_lib.bundle.recompute"],
            env={**dict.fromkeys(THREADS, "1"), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            start_new_session=True,  # a Ctrl-C in the terminal is not meant for it
        )
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(
            target=_read, args=(self.process.stdout, self.answers), daemon=True
        ).start()

    def end(self) -> None:
        """End the process and all that it started."""
        if self.process is not None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            else:  # Windows has no groups of processes
                self.process.kill()
            self.process.wait()
            self.process = None


PACKAGE = Path(__file__).resolve().parents[2]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def _read(stream: TextIO, answers: "queue.Queue[str]") -> None:
    """Put each line into the queue; an empty one at the end."""
    for line in stream:
        answers.put(line)
    answers.put("")


@contextlib.contextmanager
def recomputing(root: Path) -> Iterator[Worker]:
    """A worker in a project folder of its own (see `recompute.bare_home`), both gone at the end."""
    with tempfile.TemporaryDirectory(prefix="fedsynth-verify-") as folder:
        worker = Worker(bare_home(Path(folder), root))
        try:
            yield worker
        finally:
            worker.end()


def task_of(cell: Cell) -> dict[str, str]:
    """The cell as the worker is asked for it."""
    task = {"grid": cell.grid, "profile": cell.profile, "cell": cell.key, "params": cell.params}
    return task | {"version": cell.version, "function": computed_by(cell.grid)}


class Shown:
    """The clock of a verification: a bar where someone watches, elsewhere a line in `every`
    seconds."""

    def __init__(self, limit: float, *, every: float = 30.0):
        self.limit, self.every, self.last, self.text = limit, every, 0.0, ""
        form = "{desc} |{bar:20}| {elapsed} {postfix}"
        self.bar = (
            tqdm(total=limit, desc="verify", file=sys.stderr, bar_format=form)
            if watched()
            else None
        )

    def begin(self, cell: Cell, done: int) -> None:
        """A cell is begun after so many others."""
        self.text = f"{done} cells, now {cell.grid} ({cell.profile})"

    def tick(self, spent: float) -> None:
        """So many seconds are spent."""
        if self.bar is not None:
            self.bar.n = min(spent, self.limit)
            self.bar.set_postfix_str(self.text)  # draws it, too
        elif spent - self.last >= self.every:
            self.last = spent
            print(
                f"verify: {duration(spent)} of {duration(self.limit)}, {self.text}",
                file=sys.stderr,
                flush=True,
            )

    def __enter__(self) -> "Shown":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


# --- the report ----------------------------------------------------------------------------------


def report(found: Verification) -> str:
    """The table, what was left out, and how agreement is decided."""
    total, reached = len(found.committed), len(found.counts())
    where = f"the real tables are not at hand: {', '.join(sorted(found.lacking))}"
    notes = {
        f"{found.lacking.total()} cells were left out, because {where}.": found.lacking,
        f"{len(found.stopped)} cells were begun and not done in time.": found.stopped,
        f"{total - reached} of {total} strata (a grid in a profile) were not reached.": reached
        < total,
        "It was stopped before its time.": found.interrupted,
    }
    return "\n".join(
        [
            table(found),
            *inexact(found),
            "",
            *(note for note, holds in notes.items() if holds),
            DECISION,
        ]
    )


def table(found: Verification) -> str:
    """A line for every stratum that was reached, and the totals."""
    body = [
        (*stratum, found.committed[stratum], counted.total(), *(counted[kind] for kind in KINDS))
        for stratum, counted in found.counts().items()
    ]
    totals = [sum(line[place] for line in body) for place in range(2, len(HEAD))]
    return aligned(HEAD, [*body, ("total", "", *totals)])


HEAD = ("grid", "profile", "committed", "recomputed", *KINDS)


def inexact(found: Verification) -> list[str]:
    """A line for every cell that is not exact: where it is, and the number that decides."""
    return [
        f"{verdict.kind}: {cell.grid} {cell.profile} {cell.params}\n    {number_of(verdict)}"
        for cell, verdict in found.verdicts.items()
        if verdict.kind != EXACT
    ]


def number_of(verdict: Agreement) -> str:
    """The measure with the committed and the recomputed number, or what was the matter."""
    if verdict.committed != verdict.committed and verdict.recomputed != verdict.recomputed:
        return verdict.what
    return (
        f"{verdict.what}: committed {verdict.committed:.10g}, recomputed {verdict.recomputed:.10g}"
    )


KEPT = (
    "grid",
    "profile",
    "cell",
    "params",
    "agreement",
    "metric",
    "committed",
    "recomputed",
    "date",
)


def keep(found: Verification, folder: Path) -> None:
    """Write verified.csv, a line for the latest recomputation of every committed cell, and
    verified.md: the table of this run with its circumstances, and what all runs came to."""
    today = date.today().isoformat()
    lines = [
        (*cell[:4], verdict.kind, verdict.what, verdict.committed, verdict.recomputed, today)
        for cell, verdict in found.verdicts.items()
    ]
    now = pd.DataFrame(lines, columns=KEPT)
    before = _kept_before(folder / "verified.csv", found)
    every = pd.concat([before, now]) if len(before) else now
    every = every.sort_values(["grid", "profile", "cell"], kind="stable")
    content = every.to_csv(index=False, lineterminator="\n", float_format="%.10g")
    rows.write_atomically(folder / "verified.csv", content.encode())
    rows.note_digests([folder / "verified.csv"])
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    counts = every["agreement"].value_counts()
    so_far = ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in KINDS)
    strata = len(every.groupby(["grid", "profile"]))
    text = f"""# Committed cells, computed again

Made by `./run_all.sh --verify {found.limit / 60:g}` on {today} with the seed \
`{found.seed}`, in {duration(found.seconds)}.
fedsynth {__version__}, Python {platform.python_version()}, {packages}; {processor()}, one thread.

In all runs so far {len(every)} cells of {strata} strata (a grid in a profile) were computed
again: {so_far}. verified.csv has the latest of each, with its day.

```
{report(found)}
```
"""
    rows.write_atomically(folder / "verified.md", text.encode())


def _kept_before(path: Path, found: Verification) -> pd.DataFrame:
    """What earlier runs found of cells that are committed still, and were not recomputed now."""
    if not path.is_file():
        return pd.DataFrame(columns=KEPT)
    rows.check_digest(path)
    before = pd.read_csv(path, dtype={"cell": str, "metric": str}).reindex(columns=KEPT)
    gone = {cell.key for cell in found.verdicts}
    return before[before["cell"].isin(found.keys) & ~before["cell"].isin(gone)]


def processor() -> str:
    """The kind of processor, as far as the system tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} ({platform.machine()})"
    return platform.processor() or platform.machine()
