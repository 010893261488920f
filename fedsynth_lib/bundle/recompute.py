"""Cells of committed grids computed again from their params.

This module finds the function that makes a grid's cells, and answers the tasks of a worker.

The worker is a process of its own, so that a cell can be stopped, and so that its FEDSYNTH_HOME can
be a folder that links the data and has an empty cache: nothing that an earlier run kept is found,
and nothing of the user's is touched.
"""

import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsynth_lib import works
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.grid import rows_of
from fedsynth_lib.runs.rows import read_params


def computed_by(grid: str) -> str:
    """Return what computes the cells of a grid, as a work declares it.

    The text is `work.kind` or `module:function`; it is empty where the cells follow from rows of
    other grids.

    Raises BadInput for a grid that no work declares.
    """
    declared = works.computed_by(grid)
    if declared is None:
        raise BadInput(
            f"nothing is known to compute the grid {grid!r}: declare it in its work's file, "
            "fedsynth_lib/works/<work>.toml."
        )
    return declared


def function_of(text: str) -> Callable:
    """Return the function that `work.kind` or `module:function` names."""
    module, _, name = text.partition(":")
    if not name:
        work, _, kind = text.partition(".")
        return works.load(work).function(kind)
    return getattr(importlib.import_module(module), name)


def asked_for(function: Callable, params: str) -> dict[str, Any]:
    """Return what a cell gave to its function: its params, less the defaults filled in."""
    defaults = {p.name: p.default for p in inspect.signature(function).parameters.values()}
    return {
        name: v
        for name, v in read_params(params).items()
        if name not in defaults or v != defaults[name]
    }


def bare_home(home: Path, root: Path) -> Path:
    """Make `home` a project folder without results; return it.

    The data of `root` are linked, and the cache is empty.
    """
    source = root.resolve() / "data"
    (home / "data").mkdir(parents=True)
    (source / "raw").mkdir(parents=True, exist_ok=True)  # tables that are fetched stay
    for entry in source.iterdir():
        if entry.name not in ("cache", "results"):
            (home / "data" / entry.name).symlink_to(entry)
    return home


def answer(task: Mapping[str, str]) -> dict[str, Any]:
    """Answer a task (grid, function, profile, cell, params, version).

    The answer has `rows`; or `error`, a message; or `lacking`, where the cell's table cannot be had
    here.
    """
    from fedsynth_lib.tables.lock import at_hand

    table = read_params(task["params"]).get("table", "")
    try:
        if table and at_hand(table) != table:
            return {"lacking": True}
    except BadInput:
        return {"lacking": True}
    labels = {name: task[name] for name in ("profile", "params", "version", "cell")}
    try:
        function = function_of(task["function"])
        rows = rows_of(function, asked_for(function, task["params"]), labels, name=task["grid"])
    except Exception as error:  # whatever a cell raises is its answer
        return {"error": str(error.__cause__ or error) or type(error).__name__}
    return {"rows": rows}


def silence() -> None:
    """Discard what methods print and warn about in this process."""
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
