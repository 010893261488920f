"""Recompute a random sample of the committed cells and report how many agree.

    ./run_all.sh --verify MINUTES
    python -m fedsynth_lib verify 15 --only maddock --seed "a text" --save

The sample is stratified: a stratum is one grid at one profile. The seed (today's date unless given)
shuffles the cells of each stratum; then every stratum gives one cell, cheapest first, then a second
one, until the time is over. A cell is skipped if it is expected to take longer than the time left,
or more than SHARE of all the time. Cells whose tables are not available are skipped and counted.
The user's cache and results are neither read nor written. `agreement` defines when cells agree.
"""

import contextlib
import importlib.metadata
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from zlib import crc32

import pandas as pd
from joblib.externals.loky import ProcessPoolExecutor
from tqdm import tqdm

from fedsynth_lib import __version__
from fedsynth_lib.bundle import agreement
from fedsynth_lib.bundle.agreement import DIFFERENT, EXACT, KINDS, Agreement, Spread
from fedsynth_lib.bundle.console import aligned
from fedsynth_lib.bundle.recompute import answer, bare_home, computed_by, silence
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import rows
from fedsynth_lib.runs.progress import duration, watched

SHARE = 0.1  # the largest share of the time that one cell may be expected to take
SLOWER = 1.5  # seconds here per committed second that are expected
OVERHEAD = 2.0  # seconds for loading and measuring, which committed seconds may not include
STARTING = 60.0  # seconds that a new worker may take to import everything
TRAININGS = ("seconds", "seconds_training")  # metrics that hold the time of a training
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch")
STRATUM = ["grid", "profile"]
DECISION = (
    "exactly: equal as written (10 digits); within rounding: numbers differ by 1e-6 of themselves "
    "at most; within the\nspread: by no more than runs with two seeds do, as committed rows of "
    "the same settings show (pooled over similar\ncells of the grid where a cell has fewer than 3 "
    "seeds; by one more seed, computed now, where there is none), with\n95 percent for all numbers "
    "of a cell together; different: else. Seconds and memory are not compared. In full:\n"
    "fedsynth_lib/bundle/agreement.py."
)


@dataclass
class Verification:
    """The result. `cells`: all committed cells that were asked for, one a line."""

    seed: str
    limit: float  # seconds
    cells: pd.DataFrame
    verdicts: dict[int, Agreement] = field(default_factory=dict)  # line of `cells` -> agreement
    lacking: Counter = field(default_factory=Counter)  # dataset -> cells without their table
    stopped: int = 0  # cells that were begun and not done in time
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def judged(self) -> pd.DataFrame:
        """The cells that were recomputed, each with its agreement."""
        found = pd.DataFrame.from_dict(self.verdicts, "index", columns=Agreement._fields)
        return self.cells.join(found, how="inner").sort_values(STRATUM, kind="stable")

    @property
    def status(self) -> int:
        """0 where something was recomputed and nothing is different, 130 after Ctrl-C, else 1."""
        if any(verdict.kind == DIFFERENT for verdict in self.verdicts.values()):
            return 1
        return 130 if self.interrupted else int(not self.verdicts)


def verify(
    minutes: float, *, root: Path, seed: str = "", only: str = "", save: bool = False
) -> int:
    """Recompute committed cells of the project `root` and return the exit status.

    seed: any text; today's date if empty. only: a part of the names of the grids.
    save: write data/results/verified.csv and verified.md.
    Raises BadInput where there is nothing to draw from.
    """
    if not minutes > 0:
        raise BadInput(f"the minutes to verify are {minutes:g}: give more than 0.")
    every = committed_files(root)
    if not any(only in grid for grid, _ in every):
        raise BadInput(
            f"no committed grid has {only!r} in its name: give a part of one of "
            "data/results/*/*.csv."
        )
    cells = committed_cells(every)
    seed = seed or date.today().isoformat()
    found = Verification(seed, 60 * minutes, cells[cells["grid"].str.contains(only, regex=False)])
    print(
        f'verify: seed "{seed}", {duration(found.limit)}; {len(found.cells)} committed cells',
        flush=True,
    )
    recompute(found, every, root)
    print(report(found), flush=True)
    if save:
        keep(found, cells, root / "data" / "results")
    return found.status


def recompute(found: Verification, files: Mapping[tuple[str, str], Path], root: Path) -> None:
    """Fill in the verdicts within the time limit. Ctrl-C ends it early."""
    begin = time.monotonic()
    most = SHARE * found.limit
    longest = max(3 * most, STARTING)  # a cell may take longer than expected
    spreads: dict[tuple[str, str], Spread] = {}
    absent: set[str] = set()  # digests of tables that are not at hand

    def left() -> float:
        return found.limit - (time.monotonic() - begin)

    with contextlib.suppress(KeyboardInterrupt), worker_of(root) as worker, clock(found) as tick:
        found.interrupted = True  # unless it comes to its end
        for cell in in_turn(found.cells, found.seed).itertuples():
            settings = rows.read_params(cell.params)
            if settings.get("table") in absent:
                found.lacking[settings.get("dataset", "?")] += 1
                continue
            if SLOWER * cell.expected > min(left(), most):
                continue
            tick(found.limit - left(), f"{cell.grid} ({cell.profile})")
            made = worker.ask(task_of(cell), min(left(), longest))
            if made is None:
                found.stopped += 1
            elif "lacking" in made:
                found.lacking[settings.get("dataset", "?")] += 1
                absent.add(settings["table"])
            else:
                stratum = cell.grid, cell.profile
                own = rows.load_rows(files[stratum])
                if stratum not in spreads:
                    spreads[stratum] = Spread(own, lambda grid=cell.grid: of_work(files, grid))
                committed = own[own["cell"] == cell.cell]
                verdict = judged(made, committed, spreads[stratum])
                if verdict.lacks_seeds and (other := with_next_seed(cell)):
                    second = worker.ask(other, min(left(), longest))
                    if second and "rows" in second:
                        both = [rows.to_frame(each["rows"]) for each in (made, second)]
                        verdict = judged(made, committed, Spread(pd.concat(both)))
                found.verdicts[cell.Index] = verdict
        found.interrupted = False
    found.seconds = time.monotonic() - begin


def judged(made: Mapping[str, Any], committed: pd.DataFrame, spread: Spread) -> Agreement:
    """Judge a worker's answer."""
    if "error" in made:
        return Agreement(DIFFERENT, f"it failed: {made['error']}")
    return agreement.compare(committed, rows.to_frame(made["rows"]), spread)


# --- the committed cells --------------------------------------------------------------------------


def committed_files(root: Path) -> dict[tuple[str, str], Path]:
    """Return the files of results on the real tables, by (grid, profile).

    The user's own grids, which have no number, are left out.
    """
    folders = [root / "data" / "results" / profile for profile in rows.PROFILES]
    paths = [path for folder in folders for path in sorted(folder.glob("[0-9][0-9]*.csv"))]
    return {(path.stem, path.parent.name): path for path in paths if computed_by(path.stem)}


def of_work(files: Mapping[tuple[str, str], Path], grid: str) -> pd.DataFrame:
    """Return the committed rows of all grids whose notebook belongs to the same chapter."""
    paths = [path for (name, _), path in files.items() if name[0] == grid[0]]
    return pd.concat([rows.load_rows(path) for path in paths], ignore_index=True)


def committed_cells(files: Mapping[tuple[str, str], Path]) -> pd.DataFrame:
    """Return one line for each committed cell.

    Columns: grid, profile, cell, params, version, `seconds` on the machine that committed it (its
    training included where the cell's own rows say how long that took), and `expected`, which adds
    OVERHEAD.
    """
    parts = []
    for (grid, profile), path in files.items():
        frame = rows.load_rows(path)
        own = frame["value"].where(frame["metric"].isin(TRAININGS), 0.0)
        frame["seconds"] = frame["seconds"].combine(own, max).fillna(0.0)
        first = {"params": "first", "version": "first", "seconds": "max"}
        cells = frame.groupby("cell", sort=False, as_index=False).agg(first)
        parts.append(cells.assign(grid=grid, profile=profile))
    found = pd.concat(parts, ignore_index=True)
    return found.assign(expected=found["seconds"] + OVERHEAD)


def in_turn(cells: pd.DataFrame, seed: str) -> pd.DataFrame:
    """Return the cells in the order in which they are tried.

    A random cell of each stratum comes first, from the cheapest stratum on, then a second one of
    each.
    """
    order = cells.sample(frac=1, random_state=crc32(seed.encode()))
    order["turn"] = order.groupby(STRATUM).cumcount()
    return order.sort_values(["turn", "expected", *STRATUM], kind="stable")


# --- the worker -----------------------------------------------------------------------------------


def task_of(cell: Any) -> dict[str, str]:
    """Return what the worker is asked for; see `recompute.answer`."""
    task = {name: getattr(cell, name) for name in ("grid", "profile", "cell", "params", "version")}
    return task | {"function": computed_by(cell.grid)}


def with_next_seed(cell: Any) -> dict[str, str] | None:
    """Return the task of the cell with the next seed; None where it has none."""
    params = rows.read_params(cell.params)
    if not isinstance(params.get("seed"), int):
        return None
    text = rows.params_text({**params, "seed": params["seed"] + 1})
    return task_of(cell) | {"params": text, "cell": rows.cell_key(text, cell.version)}


class Worker:
    """A process that recomputes one cell at a time in the project folder `home`.

    Another one takes its place after it died or was stopped.
    """

    def __init__(self, home: Path):
        self.env = dict.fromkeys(THREADS, "1") | {"FEDSYNTH_HOME": str(home), "PYTHONUTF8": "1"}
        self.env |= {"FEDSYNTH_FRESH": "", "FEDSYNTH_RUN_LOG": ""}
        self.pool: ProcessPoolExecutor | None = None

    def ask(self, task: Mapping[str, str], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a task; None where it did not come in time."""
        self.pool = self.pool or ProcessPoolExecutor(1, env=self.env, initializer=silence)
        try:
            return self.pool.submit(answer, task).result(max(seconds, 0))
        except TimeoutError:
            self.end()
            return None
        except BrokenExecutor:
            self.end()
            return {"error": "its process ended, often for want of memory"}

    def end(self) -> None:
        """End the process and all that it started."""
        if self.pool is not None:
            self.pool.shutdown(kill_workers=True)
            self.pool = None


@contextlib.contextmanager
def worker_of(root: Path) -> Iterator[Worker]:
    """Start a worker in a temporary project folder (see `recompute.bare_home`)."""
    with tempfile.TemporaryDirectory(prefix="fedsynth-verify-") as folder:
        worker = Worker(bare_home(Path(folder), root))
        try:
            yield worker
        finally:
            worker.end()


@contextlib.contextmanager
def clock(found: Verification) -> Iterator[Callable[[float, str], None]]:
    """Show a progress bar over the time limit: call it with the seconds spent and a text."""
    every = 0.5 if watched() else 30.0
    form = "{desc} |{bar:20}| {elapsed} {postfix}"
    with tqdm(total=found.limit, file=sys.stderr, bar_format=form, mininterval=every) as bar:

        def tick(spent: float, text: str) -> None:
            bar.set_postfix_str(f"{len(found.verdicts)} cells, now {text}", refresh=False)
            bar.update(spent - bar.n)

        yield tick


# --- the report -----------------------------------------------------------------------------------


def report(found: Verification) -> str:
    """Write the counts by stratum, what is inexact and left out, and how agreement is decided."""
    cells, committed = found.judged, found.cells.groupby(STRATUM).size()
    counts = pd.crosstab([cells["grid"], cells["profile"]], cells["kind"])
    counts = counts.reindex(columns=KINDS, fill_value=0)
    body = [
        (*stratum, committed[stratum], each.sum(), *each) for stratum, each in counts.iterrows()
    ]
    totals = [sum(line[place] for line in body) for place in range(2, len(KINDS) + 4)]
    head = ("grid", "profile", "committed", "recomputed", *KINDS)
    where = f"the real tables are not at hand: {', '.join(sorted(found.lacking))}"
    skipped = len(committed) - len(counts)
    notes = {
        f"{found.lacking.total()} cells were left out, because {where}.": found.lacking,
        f"{found.stopped} cells were begun and not done in time.": found.stopped,
        f"{skipped} of {len(committed)} strata (a grid in a profile) were not reached.": skipped,
        "It was stopped before its time.": found.interrupted,
    }
    return "\n".join(
        [
            aligned(head, [*body, ("total", "", *totals)]),
            *(inexact(each) for each in cells.itertuples() if each.kind != EXACT),
            "",
            *(note for note, holds in notes.items() if holds),
            DECISION,
        ]
    )


def inexact(cell: Any) -> str:
    """Where a cell is, and the number that decides its agreement."""
    numbers = f": committed {cell.committed:.10g}, recomputed {cell.recomputed:.10g}"
    failed = pd.isna(cell.committed) and pd.isna(cell.recomputed)
    line = f"{cell.kind}: {cell.grid} {cell.profile} {cell.params}\n    {cell.what}"
    return line if failed else line + numbers


def keep(found: Verification, cells: pd.DataFrame, folder: Path) -> None:
    """Write verified.csv and verified.md.

    The first is the latest recomputation of each cell that is still committed; the second is the
    table of this run and the totals of all runs.
    """
    today, path = date.today().isoformat(), folder / "verified.csv"
    names = {"kind": "agreement", "what": "metric"}
    columns = [*STRATUM, "cell", "params", "agreement", "metric", "committed", "recomputed", "date"]
    now = found.judged.rename(columns=names).assign(date=today).reindex(columns=columns)
    parts = [now]
    if path.is_file():
        rows.check_digest(path)
        before = pd.read_csv(path, dtype={"cell": str, "metric": str}).reindex(columns=columns)
        parts.insert(0, before[before["cell"].isin(set(cells["cell"]) - set(now["cell"]))])
    every = pd.concat([part for part in parts if len(part)] or [now])
    every = every.sort_values([*STRATUM, "cell"], kind="stable")
    content = every.to_csv(index=False, lineterminator="\n", float_format="%.10g")
    rows.write_atomically(path, content.encode())
    rows.note_digests([path])
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    counts = every["agreement"].value_counts()
    so_far = ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in KINDS)
    text = f"""# Committed cells, computed again

Made by `./run_all.sh --verify {found.limit / 60:g}` on {today} with the seed \
`{found.seed}`, in {duration(found.seconds)}.
fedsynth {__version__}, Python {platform.python_version()}, {packages}; {processor()}, one thread.

In all runs so far {len(every)} cells of {every.groupby(STRATUM).ngroups} strata (a grid in a \
profile) were computed
again: {so_far}. verified.csv has the latest of each, with its day.

```
{report(found)}
```
"""
    rows.write_atomically(folder / "verified.md", text.encode())


def processor() -> str:
    """Return the kind of processor, as far as the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} ({platform.machine()})"
    return platform.processor() or platform.machine()
