"""A method file of one's own in the tables of notebook 73.

Its promises are checked, its claim is audited, and one benchmark is run. Its finished cells are
kept in data/cache, so that a run which was stopped goes on; nothing is kept among the results: what
others and we have comes from committed rows.
"""

import hashlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.audit.own import audited
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.measured import EXCEEDED
from fedsynth_lib.core.store import CODE, project_root
from fedsynth_lib.methods import METHODS, from_file, register
from fedsynth_lib.runs.grid import load_rows, run_grid
from fedsynth_lib.runs.rows import FULLEST_FIRST, data_of
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.works.declared import Method
from fedsynth_lib.works.field import WORK
from fedsynth_lib.works.field_tables import beside, by_participation
from fedsynth_lib.works.protocol import Cell

EPSILON, PARTIES = 1.0, 5
PEERS = ("pytest", "dython", "mbi", "DataSynthesizer")  # of the tests that are marked `bench`


class Block(NamedTuple):
    """A benchmark.

    name: what `beside` knows it by. kind: of its cells. grids: of its rows, ours first. metrics:
        measure -> decimals. view: the work whose real tables it needs; '' takes stand-ins too.
    """

    name: str
    kind: str
    tables: tuple[str, ...]
    grids: tuple[str, ...]
    metrics: Mapping[str, int]
    view: str = ""


NIST = ("nist_national2019",)
FLAIM = "adult", "magic", "bank_additional", "census_kdd", "covertype"
ROWS_OF_FLAIM = "73_field_flaim", "45_maddock2024_all_tables"
ANSWERS = {"query_error_1": 4, "query_error_2": 4, "query_error_3": 5, "auc_hgb": 3, "f1_hgb": 3}
BLOCKS = {
    "A": Block("nist", "areas", NIST, ("73_field_nist",), {"k_marginal": 1, "k_marginal_worst": 1}),
    "A'": Block("nist_all", "everything", NIST, ("73_field_nist_all",), {"k_marginal": 1}, "all"),
    "B": Block("adult", "parties", ("adult",), ("73_field_adult",), ANSWERS),
    "D": Block("", "unlike", FLAIM, ROWS_OF_FLAIM, {}, "maddock2024"),
}


def bench(
    block: str, path: Path | None, *, seeds: int = 3, say: Callable[[str], None] = print
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table of a block at epsilon 1 (B: five parties) with the method in `path`.

    The method has a line in the table, in block D a column. The second result is name -> how, of
    the promises that the method breaks; if it breaks any, the table has no line for it.

    Raises BadInput for an unknown block, a file that is no method, or a table that the block needs
    and that is not at hand. On a stand-in the method stands alone: no other is of those rows.
    """
    block = {"A2": "A'"}.get(block.upper(), block.upper())  # which needs no quotes in a shell
    if block not in BLOCKS:
        raise BadInput(f"block is {block!r}: choose one of {', '.join(BLOCKS)}.")
    if seeds < 1:
        raise BadInput(f"seeds is {seeds}: give at least 1.")
    asked, others = BLOCKS[block], [_committed(grid) for grid in BLOCKS[block].grids]
    if path is None:
        return _table(asked, *others), {}
    key, made = _registered(path)
    for name in asked.tables if asked.view else ():
        if load_table(name, work=asked.view).data != "real":
            raise BadInput(f"block {block} needs the real table {name}, which is out of reach.")
    work = replace(WORK, methods={**WORK.methods, made: Method(key=made)})
    first = {n: Cell(work, asked.kind, dataset=n, method=made, seed=0) for n in asked.tables}
    if broken := _broken(made, first[asked.tables[0]].prepared.train, say):
        return _table(asked, *others), broken
    for name, cell in first.items():  # of which a division that takes long is made once, and kept
        say(f"dividing {name}, {len(cell.prepared.train):,} rows")
        say(f"{len(cell.parts)} clients")
    cells, of_method = [*_cells(asked, made, first, seeds)], partial(work.version, asked.kind)
    keep = {"name": f"bench_{asked.kind}", "profile": "paper", "version": of_method, "save": False}
    rows = run_grid(lambda **given: Cell(work, asked.kind, **given).rows(), cells, **keep)
    mine = rows.assign(method=key)
    if data_of(mine) != "real":
        say("these rows are of a stand-in, which nothing else here was measured on")
        others = [each.iloc[:0] for each in others]
    return _table(asked, pd.concat([others[0], mine], ignore_index=True), *others[1:]), {}


def beside_peers() -> int:
    """Run the tests that compare speed with named peers, as ratios in one run.

    Returns pytest's status. Raises BadInput where these tests or the peers' packages are not
    installed.
    """
    tests = CODE / "tests"
    lacking = [name for name in PEERS if importlib.util.find_spec(name) is None]
    if lacking or not tests.is_dir():
        raise BadInput(
            f"--speed needs {', '.join(lacking) or 'the folder tests'}: run "
            "`./run_all.sh bench --speed` in the project's folder, which installs what it needs."
        )
    import pytest

    return int(pytest.main(["-m", "bench", "-s", *map(str, sorted(tests.glob("test_bench_*.py")))]))


def _table(asked: Block, ours: pd.DataFrame, theirs: pd.DataFrame | None = None) -> pd.DataFrame:
    if theirs is None:
        return beside(ours, asked.name, asked.metrics, epsilon=EPSILON)
    return by_participation(*(each[each["dataset"].isin(asked.tables)] for each in (ours, theirs)))


def _cells(asked: Block, made: str, first: Mapping[str, Cell], seeds: int) -> Iterator[dict]:
    """Return the cells to run, on the tables of the first ones.

    In block D, a method with the setting `participation` is run at two values of it; for another
    method every client is in each round.
    """
    settings = [{}]
    if asked.kind == "unlike":
        chosen = "participation" in METHODS[made].Config.__dataclass_fields__
        settings = [{"participation": share} for share in ([0.1, 1.0] if chosen else [1.0])]
    for dataset, cell in first.items():
        of = {"dataset": dataset, "table": cell.prepared.train.origin, "method": made}
        for each in settings:
            yield from ({**of, "seed": seed, **each} for seed in range(seeds))


def _committed(grid: str) -> pd.DataFrame:
    """Rows of a grid with the most seeds, at EPSILON or none, of PARTIES parties."""
    for profile in FULLEST_FIRST:
        path = project_root() / "data" / "results" / profile / f"{grid}.csv"
        if path.is_file():
            rows = load_rows(path)
            return rows[~rows["n_clients"].eq(25).fillna(False)]
    raise BadInput(f"there are no rows of {grid}: run this in the project's folder.")


def _registered(path: Path) -> tuple[str, str]:
    """Return the name of a method file, and the key under which its content of now is run.

    The key is one that an earlier content has left no rows under.
    """
    module, stem = from_file(path), path.stem
    digest = hashlib.sha256(path.expanduser().read_bytes()).hexdigest()[:8]
    for key in (stem, f"{stem}_{digest}"):
        register(key, module, replace=True)
    return stem, f"{stem}_{digest}"


def _broken(key: str, table: Table, say: Callable[[str], None]) -> dict[str, str]:
    """Return the promises that the method breaks on some rows of the table.

    Promises are checked where the tests are installed. The claim of epsilon counts as broken where
    the audit shows more.
    """
    checks, broken = CODE / "tests" / "promises.py", {}
    if checks.is_file():
        say(f"checking the promises of {key}")
        broken = from_file(checks).broken(METHODS[key], table.take(range(min(1_200, len(table)))))
    else:
        say("promises are not checked: tests/promises.py is in the project's folder alone")
    if broken or not getattr(METHODS[key].Config(), "private", True):
        return broken
    try:
        found = audited(METHODS[key])
    except BadInput as problem:  # two columns of two categories may be no table for it
        say(f"no audit: {problem}")
        return {}
    shown = f"epsilon is at least {found.lower:.2f} of a claimed {found.epsilon:g}"
    say(f"audit, {found.runs} runs with a record and as many without: {shown}, {found.verdict}")
    return {"epsilon as claimed": shown} if found.verdict == EXCEEDED else {}
