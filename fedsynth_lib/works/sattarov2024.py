"""Code specific to sattarov2024: who gets which rows, and what is measured of a federation.

Clients hold blocks of the categories of one column, or equal random shares. Epsilon is of each
client, for adding or removing one of its rows, with delta one over all training rows: the literal
and stricter reading.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.metrics import anonymity
from fedsynth_lib.metrics.similarity import fidelity, mixing
from fedsynth_lib.metrics.utility import five_classifiers
from fedsynth_lib.runs.details import names_of
from fedsynth_lib.runs.rows import Row, with_params
from fedsynth_lib.tables.embedding import joint_map, squares
from fedsynth_lib.tables.encode import standardised
from fedsynth_lib.tables.load import split
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Made, Prepared, Whole, guarantee

WORK = load("sattarov2024")
METHOD, REAL = "DP-Fed-FinDiff", "Real"
MOST_CLIENTS = WORK.constants["most_clients"]
SQUARES = 40  # along each side of figure 6


@lru_cache(maxsize=4)
def prepare(dataset: str, rows: int | None, seed: int) -> Prepared:
    """Training and test rows, four to one; `rows` training rows at most."""
    train, test = split(WORK.table(dataset), seed=seed)
    if rows is not None and rows < len(train):
        train, test = train.take(np.arange(rows)), test.take(np.arange(min(rows // 4, len(test))))
    return Prepared(train, test)


@lru_cache(maxsize=8)
def split_column(dataset: str) -> str:
    """Return the column whose categories the clients of the uneven split hold.

    The work does not name its own. Of the categorical columns but the target that have a category
    for each of ten clients: the one whose blocks leave five clients the most unequal (the largest
    share), if the smallest of ten has 200 rows; else the one whose smallest has most.
    """
    table = WORK.table(dataset)
    found = {}
    for name in table.schema.categorical:
        counts = table.frame[name].value_counts(sort=False)
        counts = counts[counts > 0].to_numpy()
        if name != table.schema.target and len(counts) >= MOST_CLIENTS:
            blocks = (np.array_split(counts, n) for n in (5, MOST_CLIENTS))
            five, ten = (np.array([block.sum() for block in each]) for each in blocks)
            found[name] = (min(ten.min(), WORK.constants["least_rows"]), five.max())
    if not found:
        raise BadInput(
            f"{dataset}: no categorical column but the target has {MOST_CLIENTS} categories to "
            "divide by; take iid."
        )
    return max(found, key=found.get)


def divide(prepared: Prepared, dataset: str, partition: str, n_clients: int, seed: int) -> Parts:
    """Return the rows of each client.

    `iid` gives equal random shares; `noniid` gives each client as many categories of one column as
    can be. Categories stand in declared order, and a client holds neighbours.
    """
    train = prepared.train
    if partition == "iid":
        return split_clients(train, "iid", n_clients, seed=seed)
    if partition != "noniid":
        raise BadInput(f"partition {partition!r} is unknown to {WORK.key}: choose iid or noniid.")
    column = split_column(dataset)
    # of the categories that occur
    blocks = np.array_split(np.arange(train.frame[column].nunique()), n_clients)
    sizes = np.array([len(block) for block in blocks])
    owners = np.repeat(np.arange(n_clients), sizes)
    proportions = (owners == np.arange(n_clients)[:, None]) / sizes[:, None].clip(1)
    return split_clients(
        train, "by_strata", n_clients, seed=seed, column=column, proportions=proportions
    )


def configure(
    prepared: Prepared,
    dataset: str,
    method: str,
    epsilon: float,
    local_updates: int,
    total_updates: int | None,
    strategy: str,
    server_rate: float | None,
    decay: str | None,
    changes: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], Privacy]:
    """Return the settings of a federation, and each client's guarantee.

    changes: what a profile shrinks. total_updates: over all rounds, of which there are then as many
        as make it with so many local ones.
    """
    own: dict[str, Any] = {}
    if method == METHOD:
        own = {
            "local_updates": local_updates,
            "strategy": strategy,
            "hidden": (width(dataset),) * 3,
        }
        own |= dict(changes or {})
        asked = {"server_rate": server_rate, "decay": decay}
        if total_updates is not None:
            asked["training_rounds"] = max(1, total_updates // local_updates)
        own |= {name: value for name, value in asked.items() if value is not None}
    return own, guarantee(epsilon, 1 / len(prepared.train))


def width(dataset: str) -> int:
    """Of the three hidden layers."""
    return WORK.constants["width"].get(dataset, 1024)


def measures(
    prepared: Prepared, made: Made, dataset: str, seed: int, attacks: int
) -> dict[str, float]:
    """fidelity, accuracy (utility) and risk, each with its parts; and how well the rows mix."""
    train, test, frame = *prepared, made.frame
    linked = WORK.constants["linked"].get(dataset, anonymity.LINKED)
    tables = (train.frame, test.frame, frame, train.schema)
    return {
        **fidelity(train.frame, frame, train.schema),
        **five_classifiers(frame, test.frame, train.schema, seed=seed),
        **anonymity.risks(*tables, seed=seed, attacks=attacks, linked=linked),
        "mixing": mixing(train.frame, frame, train.schema, seed=seed),
    }


def shares(prepared: Whole, dataset: str) -> list[Row]:
    """Figure 3: the share of the rows that each client (`node`, from 1) holds, uneven split.

    item: the column that was divided by.
    """
    found: list[Row] = []
    for count in WORK.swept("fig8", "clients", "n_clients"):
        for node, part in enumerate(divide(prepared, dataset, "noniid", count, 0), start=1):
            own = {"n_clients": count, "node": str(node), "item": split_column(dataset)}
            share = len(part) / len(prepared.train)
            found.append({**own, "metric": "client_share", "value": share})
    return found


def placed(
    prepared: Prepared,
    dataset: str,
    seed: int,
    epsilons: Sequence[float],
    rows: int | None,
    changes: Mapping[str, Any] | None,
    most: int,
) -> list[Row]:
    """Figure 6: where rows lie in one t-SNE map of real rows and of a federation a budget.

    map_share: of a table's rows, at most `most` of each, those in one of SQUARES x SQUARES squares
        of the map (`item`: its column and row, from 0); squares without any have none. Real rows
        have the setting `real` and no epsilon.
    """
    drawn = {np.nan: prepared.train.frame}
    for epsilon in epsilons:
        asked = {"dataset": dataset, "seed": seed, "rows": rows, "changes": changes}
        ((_, made),) = WORK.cell(METHOD, epsilon=epsilon, **asked).made()
        drawn[epsilon] = made.frame
    few = [frame.sample(min(most, len(frame)), random_state=seed) for frame in drawn.values()]
    points = standardised(pd.concat(few, ignore_index=True), prepared.train.schema)
    together = joint_map(np.split(points, np.cumsum([len(frame) for frame in few])[:-1]), seed=seed)
    ends = np.cumsum([len(part) for part in together])[:-1]
    places = np.split(squares(np.concatenate(together), SQUARES), ends)
    found: list[Row] = []
    for epsilon, part in zip(drawn, places, strict=True):
        held, counts = np.unique(part, axis=0, return_counts=True)
        method = (REAL, "real") if np.isnan(epsilon) else (METHOD, "federated")
        shared = {"metric": "map_share", "epsilon": epsilon}
        shared |= dict(zip(("method", "setting"), method, strict=True))
        for (column, row), count in zip(held.tolist(), counts.tolist(), strict=True):
            found.append({**shared, "item": f"{column} {row}", "value": count / len(part)})
    return found


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `local_updates`, `strategy` (as published) and `scheme`.

    Real rows have none.
    """
    usual = {name: USUAL[name] for name in ("local_updates", "strategy", "scheme")}
    rows = with_params(rows, **usual)
    trained = rows["setting"] != "real"
    return rows.assign(
        local_updates=pd.to_numeric(rows["local_updates"].where(trained)).astype("Int64"),
        strategy=rows["strategy"].map(names_of("sattarov2024", "strategy")).where(trained),
        scheme=rows["scheme"].where(trained, ""),
    )


USUAL = {"epsilon": 1.0, **WORK.kind("run").usual}
