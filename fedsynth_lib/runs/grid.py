"""Runs: compute the cells of a grid that are missing, keep each finished one, return tidy rows.

A *cell* is one setting of a grid (a dataset, a partition, an epsilon, a seed ...); `run_one` turns
it into measurements. A finished cell is written at once to
`data/cache/cells/<name>/<profile>/<key>.json`, its key being the hash of everything it was asked
for and of the versions it rests on, so a killed run loses only the cells in flight and the next run
resumes. Rows in `data/results/<profile>/<name>.csv` are committed and count as finished cells in
every profile (a FEDSYNTH_FRESH run ignores them; its value is when it began, and older tables of
`remember` are made again).

What a cell's result depends on must be part of its key: put `table`, the digest of its table
(`table_digest`), sizes and rounds into the cell, and the VERSIONs of its method and
measures into `version` (`names.version`).
"""

import hashlib
import inspect
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, gethostname
from typing import Any, NamedTuple

import joblib
import pandas as pd
from joblib.externals.loky.process_executor import TerminatedWorkerError

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import (
    CODE,
    log_event,
    project_root,
    warn_of_cache,
    write_atomically,
)
from fedsynth_lib.runs import rows
from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.runs.progress import progress
from fedsynth_lib.runs.rows import (
    COLUMNS,
    DTYPES,
    SORTED_BY,
    Row,
    canonical,
    cell_key,
    complete,
    folder_name,
    params_text,
    save_rows,
    to_frame,
)
from fedsynth_lib.tables.lock import at_hand

TRIES = 3  # again, of a cell whose worker on a cluster was killed
__all__ = ["COLUMNS", "CellFailed", "load_rows", "project_root", "remember", "run_grid"]

Cell = dict[str, Any]


class CellFailed(RuntimeError):
    """A cell raised; the message names the grid and the cell, the cause is chained."""


def run_grid(
    run_one: Callable[..., Mapping[str, Any] | Sequence[Row]],
    grid: Mapping[str, Sequence] | Sequence[Cell],
    *,
    name: str,
    jobs: int = 1,
    profile: str = "quick",
    version: str | Callable[[Cell], str] = "1",
    save: bool = True,
) -> pd.DataFrame:
    """Compute what is missing of a grid, and return the rows of every cell.

    The rows are tidy (COLUMNS and `detail`) and in the order of the grid.

    run_one: called with what it accepts of the cell. Returns a dict metric -> value, in which keys
        that are COLUMNS (data, epsilon_spent, bytes_up ...) are columns of all its rows; or a list
        of row dicts. What a row lacks is filled from the cell. Every row must say `data`: real,
        standin, own, or none.
    grid: a dict of lists (their product), or a list of cells. A cell's `table` is the digest of the
        table it is of. Where cells of a table are missing and only its stand-in is at hand, all its
        cells are those of the stand-in.
    jobs: experiments computed at the same time, at most one per core; their threads share the
        cores.
        Where FEDSYNTH_RAY names a Ray cluster (`--ray`), as many as that has cores.
    version: of the method and the measures of a cell, or a function of the cell's settings that
        returns it; cells of another version are computed again.
    save: write data/results/<profile>/<name>.csv.
    Raises BadInput before any work for a grid that cannot run, CellFailed for a cell that does not.
    """
    cells = _cells(grid)
    _check(run_one, cells, name=name, jobs=jobs, profile=profile)
    asked = [Asked.of(run_one, cell, version) for cell in cells]
    folder = _folder(name, profile)

    committed, done = _known(name, profile, asked)
    missing = {each.given.get("table") for each in asked if each.key not in done} - {None}
    if instead := {table: now for table in sorted(missing) if (now := at_hand(table)) != table}:
        asked = [each.on(run_one, instead, version) for each in asked]
        done |= _cached(folder, [each for each in asked if each.key not in done])

    asked = list({each.key: each for each in asked}.values())
    tasks = [
        (run_one, each.given, each.labels(profile), folder, name)
        for each in asked
        if each.key not in done
    ]
    with progress(name, total=len(tasks), reused=len(asked) - len(tasks)) as bar:
        for key, rows in _compute_all(tasks, jobs):
            done[key] = rows
            bar.update()
    log_event("grid", name=name, computed=len(tasks), reused=len(asked) - len(tasks))

    # Rows of a cell come back sorted from a committed file, so they are sorted here whatever their
    # way.
    places = {each.key: number for number, each in enumerate(asked)}
    fresh = to_frame(row for key in places for row in done[key])
    kept = committed[committed["cell"].isin(places)]
    frame = pd.concat([each for each in (kept, fresh) if len(each)] or [fresh], ignore_index=True)
    frame = frame.assign(place=frame["cell"].map(places))
    frame = frame.sort_values(["place", *SORTED_BY], ignore_index=True)[COLUMNS]
    if save and len(fresh):
        save_rows(frame, name=name, profile=profile)
    return with_detail(frame)


def missing_of(
    run_one: Callable, cells: Sequence[Cell], *, name: str, profile: str, version: Callable
) -> tuple[list[Cell], float | None]:
    """Return the cells that no rows have and whose table is at hand, and the seconds of one.

    The seconds are the mean of those that were computed; None where none was. Arguments as for
    `run_grid`.
    """
    asked = [Asked.of(run_one, cell, version) for cell in cells]
    committed, done = _known(name, profile, asked)
    computed = committed.drop_duplicates("cell")["seconds"]
    seconds = [*computed, *(rows[0]["seconds"] for rows in done.values() if rows)]
    missing = [each.given for each in asked if each.key not in done]
    tables = {cell.get("table", "") for cell in missing}
    there = {table for table in sorted(tables) if at_hand(table) == table}
    mean = pd.Series(seconds, dtype=float).mean()
    missing = [cell for cell in missing if cell.get("table", "") in there]
    return missing, None if pd.isna(mean) else float(mean)


def load_rows(path: Path | str) -> pd.DataFrame:
    """Load the rows of a result file as `run_grid` returns them, with `detail`."""
    return with_detail(rows.load_rows(path))


def committed_rows(work: str, profile: str) -> pd.DataFrame:
    """Load all saved rows of a work at a profile, from real tables.

    They have `detail` and `grid`, the name of their file.
    """
    folder = project_root() / "data" / "results" / profile
    parts = [
        load_rows(path).assign(grid=path.stem) for path in sorted(folder.glob(f"*{work}*.csv"))
    ]
    return (
        pd.concat(parts, ignore_index=True) if parts else with_detail(to_frame([])).assign(grid="")
    )


class Asked(NamedTuple):
    """A cell as it is asked for.

    given: its settings. params: the same with the defaults of `run_one`, as text. With them are
    version and key.
    """

    given: Cell
    params: str
    version: str
    key: str

    @classmethod
    def of(cls, run_one: Callable, given: Cell, version: str | Callable[[Cell], str]) -> "Asked":
        """Return the cell with these settings."""
        takes = inspect.signature(run_one).parameters.values()
        defaults = {p.name: p.default for p in takes if p.default is not p.empty}
        settings = {**defaults, **given}
        params, text = (
            params_text(settings),
            version(settings) if callable(version) else str(version),
        )
        return cls(given, params, text, cell_key(params, text))

    def on(
        self, run_one: Callable, instead: Mapping[str, str], version: str | Callable[[Cell], str]
    ) -> "Asked":
        """Return the same cell of another table.

        `instead` (digest -> digest) says which table replaces which; a cell of no such table stays.
        """
        if (table := self.given.get("table")) not in instead:
            return self
        return self.of(run_one, {**self.given, "table": instead[table]}, version)

    def labels(self, profile: str) -> Row:
        """Return the labels that all rows of the cell share."""
        return {
            "profile": profile,
            "params": self.params,
            "version": self.version,
            "cell": self.key,
        }


def remember(
    key: Mapping[str, Any], make: Callable[[], tuple[pd.DataFrame, dict]]
) -> tuple[pd.DataFrame, dict]:
    """Return a synthetic table and its facts, from the cache or made now.

    The facts are privacy statement, seconds and bytes. Several notebooks then share one training.
    `key` names all that the table depends on: method and its VERSION, settings, seed, digest of the
    real table. The facts travel inside the parquet file, so that table and statement cannot come
    from different runs. A file that is damaged, or of another key, is made again with a warning.
    """
    path = project_root() / "data" / "cache" / "synthetic" / f"{_digest(key)}.parquet"
    kept = json.loads(canonical(key))
    fresh = path.exists() and path.stat().st_mtime >= _fresh_since()
    if found := _read_table(path, kept) if fresh else None:
        return found
    frame, facts = make()
    frame = frame.copy(deep=False)
    frame.attrs = {"key": kept, "facts": facts}
    write_atomically(path, frame.to_parquet(index=False))
    return _read_table(path, kept)  # as every later run reads it


def _read_table(path: Path, key: Any) -> tuple[pd.DataFrame, dict] | None:
    """Read what `remember` has kept under a key; None, with a warning, if it cannot be read."""
    try:
        frame = pd.read_parquet(path)
        found, facts = frame.attrs["key"], frame.attrs["facts"]
    except (OSError, ValueError, LookupError):
        found = None
    if found != key:
        warn_of_cache(path)
        return None
    frame.attrs = {}
    return frame, facts


def _fresh_since() -> float:
    """Return when the run that computes everything again began, in seconds of the epoch.

    It is 0 if there is no such run.
    """
    return float(os.environ.get("FEDSYNTH_FRESH") or 0)


# --- cells ---------------------------------------------------------------------------------------


def _cells(grid: Mapping[str, Sequence] | Sequence[Cell]) -> list[Cell]:
    """Return the grid's cells in order."""
    if not isinstance(grid, Mapping):
        return [dict(cell) for cell in grid]
    for parameter, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise BadInput(f"grid[{parameter!r}] is {values!r}: give a list of values.")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _check(run_one: Callable, cells: list[Cell], *, name: str, jobs: int, profile: str) -> None:
    """Raise BadInput for a grid that cannot run, before anything runs."""
    folder_name(profile, "real")
    if not re.fullmatch(r"[\w.-]+", name):
        raise BadInput(
            f"the grid's name {name!r} becomes a file name: use letters, digits, '_', '-' and '.'."
        )
    if not cells:
        raise BadInput(f"the grid {name!r} has no cells: give each parameter at least one value.")
    if jobs < 1:
        raise BadInput(f"jobs is {jobs}: give 1 or more.")
    signature = inspect.signature(run_one)
    labels = DTYPES.keys() - signature.parameters.keys()  # columns of rows that it does not take
    for cell in cells:
        try:
            signature.bind(**{name: value for name, value in cell.items() if name not in labels})
        except TypeError as error:
            raise BadInput(f"run_one of grid {name!r}: {error}: correct the cells.") from None


def _digest(content: Any) -> str:
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:20]


def _read_cell(path: Path) -> list[Row] | None:
    """Read the rows of a finished cell; None if there are none.

    None, with a warning, also if the file is not as `_kept` wrote it: cut off, edited, or of
    another cell.
    """
    try:
        content = json.loads(path.read_bytes())
        rows = content["rows"]
        whole = content["digest"] == _digest(rows)
        if whole and all(row["cell"] == path.stem and row.keys() <= DTYPES.keys() for row in rows):
            return rows
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    warn_of_cache(path)
    return None


def _cached(folder: Path, asked: Sequence[Asked]) -> dict[str, list[Row]]:
    """Return the rows of those cells that an earlier run finished, by key."""
    found = {each.key: _read_cell(folder / f"{each.key}.json") for each in asked}
    return {key: rows for key, rows in found.items() if rows is not None}


def _folder(name: str, profile: str) -> Path:
    return project_root() / "data" / "cache" / "cells" / name / profile


def _known(
    name: str, profile: str, asked: Sequence[Asked]
) -> tuple[pd.DataFrame, dict[str, list[Row]]]:
    """Return the committed rows, and the rows of all cells that are done by key.

    A committed cell has none of the latter.
    """
    committed = _committed(name, profile)
    done: dict[str, list[Row]] = {key: [] for key in committed["cell"].unique()}
    lacking = [each for each in asked if each.key not in done]
    return committed, done | _cached(_folder(name, profile), lacking)


def _committed(name: str, profile: str) -> pd.DataFrame:
    """Load the rows of the committed result file.

    The frame is empty if the file is missing, or if this run computes everything again.
    """
    path = project_root() / "data" / "results" / profile / f"{name}.csv"
    return rows.load_rows(path) if path.exists() and not _fresh_since() else to_frame([])


# --- compute -------------------------------------------------------------------------------------


def _compute_all(tasks: list[tuple], jobs: int) -> Iterator[tuple[str, list[Row]]]:
    """Compute the tasks, yielding (key, rows) as they finish."""
    if tasks and (address := os.environ.get("FEDSYNTH_RAY")):
        yield from _computed_by_ray(tasks, address)
        return
    cores = joblib.cpu_count()
    jobs = min(jobs, cores, len(tasks))
    if jobs <= 1:
        yield from itertools.starmap(_compute, tasks)
        return
    threads = min(max(1, cores // jobs), int(os.environ.get("OMP_NUM_THREADS") or cores))
    with joblib.parallel_config(backend="loky", inner_max_num_threads=threads):
        pool = joblib.Parallel(
            n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs
        )
        try:
            yield from pool(joblib.delayed(_compute)(*task) for task in tasks)
        except TerminatedWorkerError as error:
            raise CellFailed(
                f"a worker of grid {tasks[0][-1]!r} was killed, often for want of memory: use "
                "fewer jobs."
            ) from error


def _compute(
    run_one: Callable, given: Cell, labels: Row, folder: Path, name: str
) -> tuple[str, list[Row]]:
    """Run one cell and write its rows.

    It runs in a worker process, so that a kill loses nothing finished.
    """
    return _kept(given, labels, folder, rows_of(run_one, given, labels, name=name))


def _kept(given: Cell, labels: Row, folder: Path, rows: list[Row]) -> tuple[str, list[Row]]:
    """Write the rows of a finished cell."""
    write_atomically(
        folder / f"{labels['cell']}.json",
        json.dumps(
            {"given": json.loads(canonical(given)), "rows": rows, "digest": _digest(rows)}
        ).encode(),
    )
    return labels["cell"], rows


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, for the length of the context, on the cluster that `ray start --head --port PORT` began.

    Its machines have this environment and this checkout at the same path, and real tables in
    data/raw or FEDSYNTH_MIRROR. Raises BadInput where there is no Ray, or no cluster.
    """
    try:
        import ray
    except ImportError:
        raise BadInput("--ray: there is no Ray here; pip install 'flwr[simulation]'.") from None
    passed_on = {name: value for name, value in os.environ.items() if name.startswith("FEDSYNTH_")}
    environment = {"env_vars": {**passed_on, "PYTHONPATH": str(CODE)}}
    try:
        host, _, port = address.rpartition(":")
        create_connection((host, int(port)), timeout=10).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", runtime_env=environment)
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(
            f"--ray: no cluster answers at {address} ({str(error).splitlines()[0]}); give the "
            "HOST:PORT of a head node, on a machine that has joined it by `ray start`."
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _computed_by_ray(tasks: list[tuple], address: str) -> Iterator[tuple[str, list[Row]]]:
    """Compute the tasks as `_compute_all` does, each on one core of this cluster.

    Ray computes the cell of a killed worker again. joblib's Ray backend would return nothing before
    all is done, so nothing could be kept meanwhile.
    """
    with connected(address) as ray:
        task = ray.remote(num_cpus=1, max_retries=TRIES)(_on_a_node)
        asked = {task.remote(*each[:3], name=each[-1]): each for each in tasks}
        while asked:
            (done, *_), _ = ray.wait(list(asked))
            _, given, labels, folder, name = asked.pop(done)
            try:
                rows = ray.get(done)
            except ray.exceptions.RayError as error:
                killed = CellFailed(f"grid {name!r}, cell {given}: its worker was killed: {error}")
                raise getattr(error, "cause", None) or killed from error
            yield _kept(given, labels, folder, rows)


def _on_a_node(run_one: Callable, given: Cell, labels: Row, *, name: str) -> list[Row]:
    """`rows_of`, where the table of the cell is: rows of a stand-in are no rows of the table."""
    if (table := given.get("table")) and at_hand(table) != table:
        raise CellFailed(f"{gethostname()} has not the real table of grid {name!r}, cell {given}.")
    return rows_of(run_one, given, labels, name=name)


def rows_of(run_one: Callable, given: Cell, labels: Row, *, name: str) -> list[Row]:
    """Compute the rows of one cell now, and write them nowhere.

    given: its settings; labels: see `Asked.labels`. Raises CellFailed, or BadInput, that names the
    grid and the cell.
    """
    takes = inspect.signature(run_one).parameters.values()
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes)
    arguments = given if open_ended else {p.name: given[p.name] for p in takes if p.name in given}
    begin = time.perf_counter()
    try:
        output = run_one(**arguments)
        seconds = time.perf_counter() - begin
        known = {key: value for key, value in given.items() if key in DTYPES}
        return complete(output, {**known, **labels, "seconds": seconds})
    except Exception as error:
        kind = BadInput if isinstance(error, BadInput) else CellFailed
        raise kind(f"grid {name!r}, cell {given}: {type(error).__name__}: {error}") from error
