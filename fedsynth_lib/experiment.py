"""Runs: compute the cells of a grid that are missing, keep each finished one, return tidy rows.

A *cell* is one setting of a grid (a dataset, a partition, an epsilon, a seed ...); `run_one`
turns it into measurements. A finished cell is written at once to
`data/cache/cells/<name>/<key>.json`, its key being the hash of everything it was asked for, so
a killed run loses only the cells in flight and the next run resumes. For the profile `paper`
the rows in `data/results/paper/<name>.csv` are committed and count as finished cells
(a FEDSYNTH_FRESH run ignores them; its value is when it began, and older tables of `remember` are made anew).

What a cell's result depends on must be part of its key: put the digest of the table, sizes and
rounds into `common`, and the VERSION of the method into `version`.
"""

import hashlib
import inspect
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from joblib.externals.loky.process_executor import TerminatedWorkerError

from fedsynth_lib.interface import BadInput
from fedsynth_lib.progress import Progress
from fedsynth_lib.rows import (
    COLUMNS,
    DTYPES,
    SORTED_BY,
    Row,
    complete,
    folder_name,
    load_rows,
    log_event,
    project_root,
    save_rows,
    to_frame,
    write_atomically,
)

__all__ = ["COLUMNS", "CellFailed", "load_rows", "project_root", "remember", "run_grid"]

Cell = dict[str, Any]


class CellFailed(RuntimeError):
    """A cell raised; the message names the grid and the cell, the cause is chained."""


def run_grid(
    run_one: Callable[..., Mapping[str, Any] | Sequence[Row]],
    grid: Mapping[str, Sequence] | Sequence[Cell],
    *,
    name: str,
    common: Cell | None = None,
    jobs: int = 1,
    profile: str = "quick",
    version: Any = 1,
    save: bool = True,
) -> pd.DataFrame:
    """Tidy rows (COLUMNS) of every cell, in the order of the grid; computes only what is missing.

    run_one: called with what it accepts of the cell and of `common`. Returns a dict metric ->
        value, in which keys that are COLUMNS (data, epsilon_spent, bytes_up ...) are columns of
        all its rows; or a list of row dicts. What a row lacks is filled from the cell and from
        `common`. Every row must say `data`: real, standin, own, or none.
    grid: a dict of lists (their product), or a list of cells.
    common: settings shared by all cells; part of each key.
    jobs: cells computed at the same time, at most one per core; their threads share the cores.
    version: of the methods used; a new version computes anew.
    save: write data/results/<profile>/<name>.csv.
    Raises BadInput before any work for a grid that cannot run, CellFailed for a cell that does not.
    """
    common = dict(common or {})
    cells = _cells(grid)
    _check(run_one, cells, common, name=name, jobs=jobs, profile=profile)
    version = version if isinstance(version, str) else _canonical(version)
    asked = {"name": name, "common": common, "profile": profile, "version": version}
    keys = {_hash({**asked, "cell": cell}): cell for cell in cells}  # in the order of the grid
    folder = project_root() / "data" / "cache" / "cells" / name

    done = _committed(name) if profile == "paper" and not _fresh_since() else {}
    for key in keys.keys() - done.keys():
        if (rows := _read_cell(folder / f"{key}.json")) is not None:
            done[key] = rows
    tasks = [
        (run_one, {**common, **cell}, {"profile": profile, "version": version, "cell": key}, folder, name)
        for key, cell in keys.items()
        if key not in done
    ]
    with Progress(name, total=len(tasks), reused=len(keys) - len(tasks)) as progress:
        for key, rows in _compute_all(tasks, jobs):
            done[key] = rows
            progress.step()
    log_event("grid", name=name, computed=len(tasks), reused=len(keys) - len(tasks))

    # Rows of a cell come back sorted from a committed file, so they are sorted here whatever their way.
    frame = to_frame(row for key in keys for row in done[key])
    place = frame["cell"].map({key: number for number, key in enumerate(keys)})
    frame = frame.assign(place=place).sort_values(["place", *SORTED_BY], ignore_index=True)[COLUMNS]
    if save:
        save_rows(frame, name=name, profile=profile)
    return frame


def remember(key: Mapping[str, Any], make: Callable[[], tuple[pd.DataFrame, dict]]) -> tuple[pd.DataFrame, dict]:
    """A synthetic table and its facts (privacy statement, seconds, bytes): from the cache, or made now.

    Several notebooks then share one training. `key` names all that the table depends on: method and
    its VERSION, settings, seed, digest of the real table. The facts travel inside the parquet file, so
    that table and statement cannot come from different runs.
    """
    path = project_root() / "data" / "cache" / "synthetic" / f"{_hash(key)}.parquet"
    if not path.exists() or path.stat().st_mtime < _fresh_since():
        frame, facts = make()
        frame = frame.copy(deep=False)
        frame.attrs = {"key": json.loads(_canonical(key)), "facts": facts}
        write_atomically(path, frame.to_parquet(index=False))
    frame = pd.read_parquet(path)
    facts = frame.attrs["facts"]
    frame.attrs = {}
    return frame, facts


def _fresh_since() -> float:
    """When the run that asked for everything anew began, in seconds of the epoch; 0 where none did."""
    return float(os.environ.get("FEDSYNTH_FRESH") or 0)


# ---------------------------------------------------------------------------------------- cells


def _cells(grid: Mapping[str, Sequence] | Sequence[Cell]) -> list[Cell]:
    """The grid's cells in order."""
    if not isinstance(grid, Mapping):
        return [dict(cell) for cell in grid]
    for parameter, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise BadInput(f"grid[{parameter!r}] is {values!r}: give a list of values.")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _check(run_one: Callable, cells: list[Cell], common: Cell, *, name: str, jobs: int, profile: str) -> None:
    """Raise BadInput for a grid that cannot run, before anything runs."""
    folder_name(profile, "real")
    if not re.fullmatch(r"[\w.-]+", name):
        raise BadInput(f"the grid's name {name!r} becomes a file name: use letters, digits, '_', '-' and '.'.")
    if not cells:
        raise BadInput(f"the grid {name!r} has no cells: give each parameter at least one value.")
    if jobs < 1:
        raise BadInput(f"jobs is {jobs}: give 1 or more.")
    takes = inspect.signature(run_one).parameters.values()
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes)
    accepted = {p.name for p in takes}
    needed = {p.name for p in takes if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for cell in cells:
        if twice := cell.keys() & common.keys():
            raise BadInput(f"{sorted(twice)} of grid {name!r} stand in the cell and in common: keep one of them.")
        given = cell.keys() | common.keys()
        if lacking := needed - given:
            raise BadInput(f"run_one of grid {name!r} needs {sorted(lacking)}: add them to the grid or to common.")
        if (unknown := given - accepted - DTYPES.keys()) and not open_ended:
            raise BadInput(f"run_one of grid {name!r} does not take {sorted(unknown)}: correct the names.")


def _canonical(value: Any) -> str:
    """One text for equal settings: sorted keys, 1.0 as 1, numpy numbers as plain ones."""

    def plain(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {str(key): plain(entry) for key, entry in item.items()}
        if isinstance(item, list | tuple):
            return [plain(entry) for entry in item]
        item = item.item() if hasattr(item, "item") else item
        return int(item) if isinstance(item, float) and item.is_integer() else item

    try:
        return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise BadInput(f"settings must be numbers, texts, lists or dicts of them, but hold {value!r}.") from error


def _hash(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:20]


def _read_cell(path: Path) -> list[Row] | None:
    """The rows of a finished cell; None where there are none, or where the disk lost part of the file."""
    try:
        return json.loads(path.read_bytes())["rows"]
    except (FileNotFoundError, ValueError):
        return None


def _committed(name: str) -> dict[str, list[Row]]:
    """The finished cells of the committed result file, by key (which holds the version)."""
    path = project_root() / "data" / "results" / "paper" / f"{name}.csv"
    if not path.exists():
        return {}
    return {key: group.to_dict("records") for key, group in load_rows(path).groupby("cell")}


# -------------------------------------------------------------------------------------- compute


def _compute_all(tasks: list[tuple], jobs: int) -> Iterator[tuple[str, list[Row]]]:
    """Compute the tasks, yielding (key, rows) as they finish."""
    cores = joblib.cpu_count()
    jobs = min(jobs, cores, len(tasks))
    if jobs <= 1:
        yield from itertools.starmap(_compute, tasks)
        return
    threads = min(max(1, cores // jobs), int(os.environ.get("OMP_NUM_THREADS") or cores))
    with joblib.parallel_config(backend="loky", inner_max_num_threads=threads):
        pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
        try:
            yield from pool(joblib.delayed(_compute)(*task) for task in tasks)
        except TerminatedWorkerError as error:
            raise CellFailed(
                f"a worker of grid {tasks[0][-1]!r} was killed, often for want of memory: use fewer jobs."
            ) from error


def _compute(run_one: Callable, given: Cell, labels: Row, folder: Path, name: str) -> tuple[str, list[Row]]:
    """Run one cell and write its rows; it runs in a worker process, so that a kill loses nothing finished."""
    takes = inspect.signature(run_one).parameters.values()
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes)
    arguments = given if open_ended else {p.name: given[p.name] for p in takes if p.name in given}
    begin = time.perf_counter()
    try:
        output = run_one(**arguments)
        seconds = time.perf_counter() - begin
        known = {key: value for key, value in given.items() if key in DTYPES}
        rows = complete(output, {**known, **labels, "seconds": seconds})
    except Exception as error:
        kind = BadInput if isinstance(error, BadInput) else CellFailed
        raise kind(f"grid {name!r}, cell {given}: {type(error).__name__}: {error}") from error
    write_atomically(
        folder / f"{labels['cell']}.json", json.dumps({"given": json.loads(_canonical(given)), "rows": rows}).encode()
    )
    return labels["cell"], rows
