"""Ours beside the field: NIST's target with its areas as clients, and Adult as HeteroFedSyn divides
it.

Each benchmark keeps its own protocol: rows, split, delta and measures. Methods run with their
defaults, of which none was chosen on these tables.
"""

import gzip
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.core.store import project_root
from fedsynth_lib.metrics import anonymity, k_marginal, range_queries
from fedsynth_lib.metrics.membership import membership
from fedsynth_lib.metrics.utility import boosted_trees
from fedsynth_lib.metrics.workload import workload_error
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables import lock
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Cell, Made

WORK = load("field")
RELEASES = ("FedPrivSyn", "AdaFedPrivSyn")  # HeteroFedSyn's; known rows, and a result of theirs
TVD_BINS = 100  # of each number, as HeteroFedSyn has it
SPLIT = "heterofedsyn_split.txt.gz"  # a letter for each row of adult.data: fit, val, test


# --- NIST ----------------------------------------------------------------------------------------


class Areas(NamedTuple):
    """The ten columns that NIST scores, and the area of each row (code)."""

    train: Table
    area: np.ndarray


@lru_cache(maxsize=2)
def areas(dataset: str, rows: int | None) -> Areas:
    """The whole table, or a sample of so many rows."""
    table = some(WORK.table(dataset), rows)
    columns = WORK.constants["columns"]
    kept = table.schema.drop([name for name in table.schema.names if name not in columns])
    train = replace(table, frame=table.frame[list(kept.names)], schema=kept, digest="")
    return Areas(train, table.frame["PUMA"].cat.codes.to_numpy())


def some(table: Table, rows: int | None) -> Table:
    """The table, or a random sample of at most so many of its rows."""
    if rows is None or rows >= len(table):
        return table
    return table.take(np.sort(stream(0, "rows").choice(len(table), size=rows, replace=False)))


def by_area(prepared: Areas) -> Parts:
    """A client for each area."""
    return [np.flatnonzero(prepared.area == each) for each in np.unique(prepared.area)]


def nist_budget(epsilon: float) -> tuple[dict[str, Any], Privacy]:
    return {}, Privacy(epsilon, WORK.constants["nist_delta"])


def marginal_scores(prepared: Areas, made: Made, cell: Cell) -> dict[str, float]:
    """The score against all rows, and against those of the area where it is the lowest: what the
    one synthetic table, which has no areas, is worth to the client that differs most."""
    train = prepared.train
    real, synthetic, levels = k_marginal.coded(train.frame, made.frame, train.schema)
    own = [k_marginal.score(real[part], synthetic, levels) for part in by_area(prepared)]
    whole = k_marginal.score(real, synthetic, levels)
    return {"k_marginal": whole, "k_marginal_worst": min(own), **costs(train, made, cell)}


def subsample(prepared: Areas, seed: int, share: float) -> list[Row]:
    """The score of a random `share` of the rows against all of them. item: that share."""
    train = prepared.train
    number = max(1, round(share * len(train)))
    rows = stream(seed, "subsample").choice(len(train), size=number, replace=False)
    value = k_marginal.k_marginal(train.frame, train.frame.iloc[rows], train.schema)
    return [{"item": f"{share:.0%}", "metric": "k_marginal", "value": value, "seed": seed}]


# --- Adult ---------------------------------------------------------------------------------------


class Parties(NamedTuple):
    """What HeteroFedSyn trains on, its train and val, and what it judges on."""

    train: Table
    test: Table

    @property
    def fed_privsyn(self) -> Table:
        """The synthetic rows that it released."""
        return load_table("heterofedsyn", work="fed_privsyn")

    @property
    def ada_fed_privsyn(self) -> Table:
        """Those of its adaptive method."""
        return load_table("heterofedsyn", work="ada_fed_privsyn")


@lru_cache(maxsize=2)
def parties(dataset: str, rows: int | None) -> Parties:
    """HeteroFedSyn's division of adult.data; of `rows` training rows where so many are asked for.

    Raises BadInput where the division that the bundle carries has fewer rows than the table.
    """
    table = WORK.table(dataset)
    letters = np.array(list(gzip.decompress(split_path().read_bytes()).decode().strip()))
    if len(letters) < len(table):
        raise BadInput(
            f"{split_path()} divides {len(letters)} rows and {dataset} has {len(table)}: fetch "
            "both anew."
        )
    test = letters[: len(table)] == "t"  # a stand-in may have fewer rows
    return Parties(*(some(table.take(np.flatnonzero(each)), rows) for each in (~test, test)))


def can_be_had(cell: Mapping[str, Any]) -> bool:
    """Whether there can be such a cell: a table that others released may be out of reach."""
    if cell["method"] not in RELEASES:
        return True
    profile = "smoke" if "rows" in cell else "quick"
    return bool(lock.reachable(["heterofedsyn"], work="fed_privsyn", profile=profile))


def split_path() -> Path:
    return project_root() / "data" / "published" / SPLIT


def dealt(prepared: Parties, n_clients: int, seed: int) -> Parts:
    """Equal random shares."""
    return split_clients(prepared.train, "iid", n_clients, seed=seed)


def adult_budget(epsilon: float) -> tuple[dict[str, Any], Privacy]:
    return {}, Privacy(epsilon, WORK.constants["adult_delta"])


def answers(prepared: Parties, made: Made, cell: Cell, seed: int) -> dict[str, float]:
    """HeteroFedSyn's measures against its test rows. Its queries are drawn by the clock; these are
    the same for all tables. Total variation: numbers in TVD_BINS equal-width bins."""
    train, test = prepared.train, prepared.test.frame
    bins = EqualWidthBins(train.schema, TVD_BINS)
    codes, levels = [bins.transform(each) for each in (test, made.frame)], bins.domain.levels
    values = boosted_trees(made.frame, test, train.schema, seed=seed)
    for width in (1, 2, 3):
        error = range_queries.query_error(test, made.frame, train.schema, width=width)
        values[f"query_error_{width}"] = error
    for width in (1, 2):
        queries = combinations(range(len(levels)), width)
        values[f"tvd_{width}"] = workload_error(*codes, levels, queries) / 2
    return {**values, **costs(train, made, cell)}


def risks(prepared: Parties, made: Made, seed: int, attacks: int) -> dict[str, float]:
    """Membership, singling out, linkability and inference; half of the test rows are the people who
    are not in the table, the other half what an attacker knows of the population."""
    train, test = prepared.train, prepared.test.frame
    halves = test.iloc[: len(test) // 2], test.iloc[len(test) // 2 :]
    found = membership(train.frame, *halves, made.frame, train.schema, seed=seed)
    values = {f"mia_{name}": attack.auc for name, attack in found.items()}
    values |= {f"mia_{name}_caught": attack.caught for name, attack in found.items()}
    more = anonymity.risks(train.frame, test, made.frame, train.schema, seed=seed, attacks=attacks)
    return values | {name: value for name, value in more.items() if not name.endswith("_success")}


# --- both ----------------------------------------------------------------------------------------


def costs(train: Table, made: Made, cell: Cell) -> dict[str, float]:
    """Memory and rounds of a run; nothing of known rows."""
    if not made.facts:
        return {}
    method, config = cell.registered, cell.config
    rounds = method.schedule(method.encoder(train.schema, config).domain, config)
    return {"peak_gib": made.facts["gib"], "rounds": len(rounds)}
