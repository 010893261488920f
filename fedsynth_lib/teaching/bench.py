"""A method file of one's own in the tables of notebook 73: its promises checked, one benchmark run.

Nothing is kept among the results: what others and we have comes from committed rows.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import CODE, project_root
from fedsynth_lib.methods import METHODS, from_file, register
from fedsynth_lib.runs.grid import load_rows
from fedsynth_lib.runs.rows import FULLEST_FIRST, data_of, to_frame
from fedsynth_lib.tables.load import Table
from fedsynth_lib.works.declared import Method
from fedsynth_lib.works.field import WORK
from fedsynth_lib.works.field_tables import beside
from fedsynth_lib.works.protocol import Cell

EPSILON, PARTIES = 1.0, 5
BLOCKS = {  # block -> what `beside` knows it by, grid of its rows, kind of its cells, table
    "A": ("nist", "73_field_nist", "areas", "nist_national2019"),
    "B": ("adult", "73_field_adult", "parties", "adult"),
}
METRICS = {
    "A": {"k_marginal": 1, "k_marginal_worst": 1},
    "B": {"query_error_1": 4, "query_error_2": 4, "query_error_3": 5, "auc_hgb": 3, "f1_hgb": 3},
}
PROMISED_ROWS = 1_200  # on which promises are checked


def bench(
    block: str, path: Path | None, *, seeds: int = 3, say: Callable[[str], None] = print
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table of a block at epsilon 1 (B: five parties), with a line for the method in `path`;
    and the promises that it breaks, name -> how, in which case it gets no line.

    Raises BadInput for an unknown block, or a file that is no method. On a stand-in the method's
    line stands alone: no other is of those rows.
    """
    if (block := block.upper()) not in BLOCKS:
        raise BadInput(f"block is {block!r}: choose one of {', '.join(BLOCKS)}.")
    if seeds < 1:
        raise BadInput(f"seeds is {seeds}: give at least 1.")
    name, grid, kind, dataset = BLOCKS[block]
    if path is None:
        return beside(_committed(grid), name, METRICS[block], epsilon=EPSILON), {}
    key, made = _registered(path)
    work = replace(WORK, methods={**WORK.methods, made: Method(key=made)})
    cells = [Cell(work, kind, dataset=dataset, method=made, seed=seed) for seed in range(seeds)]
    if broken := _broken(made, cells[0].prepared.train, say):
        return beside(_committed(grid), name, METRICS[block], epsilon=EPSILON), broken
    rows = []
    for seed, cell in enumerate(cells):
        say(f"{key} on {dataset}, seed {seed}, {seeds - seed} to go")
        rows += [{**row, "method": key, "seed": seed} for row in cell.rows()]
    mine = to_frame(rows)
    others = _committed(grid) if data_of(mine) == "real" else mine.iloc[:0]
    if others.empty:
        say("these rows are of a stand-in, which nothing else here was measured on")
    together = pd.concat([others[mine.columns], mine], ignore_index=True)
    return beside(together, name, METRICS[block], epsilon=EPSILON), {}


def _committed(grid: str) -> pd.DataFrame:
    """Rows of a grid with the most seeds, at EPSILON or none, of PARTIES parties."""
    for profile in FULLEST_FIRST:
        path = project_root() / "data" / "results" / profile / f"{grid}.csv"
        if path.is_file():
            rows = load_rows(path)
            return rows[~rows["n_clients"].eq(25).fillna(False)]
    raise BadInput(f"there are no rows of {grid}: run this in the project's folder.")


def _registered(path: Path) -> tuple[str, str]:
    """The name of a method file, and the key under which its content of now is run: one that an
    earlier content has left no rows under."""
    module, stem = from_file(path), path.stem
    digest = hashlib.sha256(path.expanduser().read_bytes()).hexdigest()[:8]
    for key in (stem, f"{stem}_{digest}"):
        register(key, module, replace=True)
    return stem, f"{stem}_{digest}"


def _broken(key: str, table: Table, say: Callable[[str], None]) -> dict[str, str]:
    """The promises that the method breaks on some rows of the table, where there are the tests."""
    checks = CODE / "tests" / "promises.py"
    if not checks.is_file():
        say("promises are not checked: tests/promises.py is in the project's folder alone")
        return {}
    say(f"checking the promises of {key}")
    few = table.take(range(min(PROMISED_ROWS, len(table))))
    return from_file(checks).broken(METHODS[key], few)
