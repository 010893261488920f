"""One scenario of a study: a table split and divided among clients, a method run on it, the
measurements.

This is the protocol that notebooks of several research questions share, so that a synthetic table
is made once and measured by each of them. A study differs in its work's view of the tables, in the
method and in the settings; the order of steps (protocol of martinez2024, section 3) does not: split
into training and hold-out rows, divide the training rows, train and sample as many rows as all
clients hold together, measure against the pooled training rows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Method, Privacy, Relation
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import key_of
from fedsynth_lib.metrics.evaluation import evaluate
from fedsynth_lib.runs.grid import remember
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.load import Table, load_table, split
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.tables.partition import split_clients

PARTITION_SEED = 2024  # one fixed seed for all divisions (its value is not published)


@dataclass(frozen=True)
class Scenario:
    """What a synthetic table is made from, apart from the method.

    dataset: a table's key, or the path of a file. seed: of the split and of the run (repeat
        number).
    epsilon: None or infinity for no noise; `relation` is the convention in which the work means it.
    rows: a random subsample of the table (None: all); min_rows: of the smallest client.
    table: digest of the table meant, so that a cached cell is never reused for another one.
    """

    dataset: str
    setting: Literal["central", "local", "federated"] = "federated"
    partition: str = "none"
    n_clients: int = 1
    epsilon: float | None = None
    seed: int = 0
    work: str | None = None
    relation: Relation = "add_remove"
    delta: float = 0.0
    rows: int | None = None
    min_rows: int = 200
    table: str = ""

    @property
    def privacy(self) -> Privacy:
        epsilon = None if self.epsilon is None or math.isinf(self.epsilon) else self.epsilon
        return Privacy(epsilon, self.delta, self.relation, reproduction=True)


class Tables(NamedTuple):
    train: Table
    holdout: Table
    parts: list[np.ndarray]  # row positions of each client in `train`


class Synthetic(NamedTuple):
    frame: pd.DataFrame
    facts: dict  # statement, seconds, bytes_up, bytes_down
    node: str  # the client whose own model it is; empty unless the setting is local


@lru_cache(maxsize=4)
def tables(scenario: Scenario) -> Tables:
    """The scenario's training and hold-out rows, and the division among clients (of all rows when
    central)."""
    table = load_table(
        scenario.dataset, work=scenario.work, rows=scenario.rows, seed=PARTITION_SEED
    )
    table.expect(scenario.table)
    train, holdout = split(table, seed=scenario.seed)
    if scenario.setting == "central":
        return Tables(train, holdout, [np.arange(len(train.frame))])
    options: dict = (
        {"min_rows": scenario.min_rows}
        if scenario.partition in ("quantity_skew", "label_skew")
        else {}
    )
    if scenario.partition == "label_skew":
        options["balanced"] = True  # the rule of FedLab, which martinez2024 divides with
    parts = split_clients(
        train, scenario.partition, scenario.n_clients, seed=PARTITION_SEED, **options
    )
    return Tables(train, holdout, parts)


def synthesise(
    method: Method | ModuleType, scenario: Scenario, config: Any = None
) -> Iterator[Synthetic]:
    """The scenario's synthetic tables, made or read from the cache: one, or one per client when
    local.

    Each has as many rows as all clients hold together, in every setting (gap 25 of martinez2024).
    """
    method = Method.of(method)
    config = method.Config() if config is None else config
    train, _, parts = tables(scenario)
    if scenario.setting not in ("central", "local", "federated"):
        raise BadInput(
            f"setting {scenario.setting!r} is unknown: choose central, local or federated."
        )
    alone = scenario.setting == "local"
    for node, group in enumerate([[part] for part in parts] if alone else [parts]):
        key = {
            "method": method.name,
            "version": method.VERSION,
            "config": asdict(config),
            "scenario": asdict(scenario),
            "train": train.digest,
            "node": node,
        }

        def make(
            group: Sequence[np.ndarray] = group, node: int = node
        ) -> tuple[pd.DataFrame, dict]:
            run = settings.federated(
                method,
                train,
                group,
                config=config,
                privacy=scenario.privacy,
                seed=settings.client_seed(scenario.seed, node) if alone else scenario.seed,
                num_rows=len(train.frame),
            )
            facts = {
                name: getattr(run, name)
                for name in ("statement", "seconds", "bytes_up", "bytes_down")
            }
            return run.synthetic, facts

        yield Synthetic(*remember(key, make), str(node) if alone else "")


def measure(
    method: Method | ModuleType,
    scenario: Scenario,
    config: Any = None,
    *,
    groups: Sequence[str] = ("fidelity",),
    more: Callable[[Tables, pd.DataFrame], Sequence[Row]] | None = None,
) -> list[Row]:
    """Rows for every metric of `groups`; local rows per client (`node`), to be averaged by the
    reader.

    Synthetic rows are judged against the pooled training rows, not against a client's own.
    more: further rows, at least `metric` and `value`, of the scenario's tables and a synthetic one.
    """
    found = tables(scenario)
    rows = []
    for frame, facts, node in synthesise(method, scenario, config):
        values = evaluate(
            found.train.frame,
            found.holdout.frame,
            frame,
            found.train.schema,
            seed=scenario.seed,
            groups=groups,
        )
        statement = facts["statement"]
        shared = {
            "paper": scenario.work,
            "method": key_of(method),
            "data": found.train.data,
            "node": node,
            "seconds": facts["seconds"],
            "epsilon_spent": statement["epsilon_protected"] if scenario.privacy.epsilon else None,
            "bytes_up": facts["bytes_up"],
            "bytes_down": facts["bytes_down"],
            "unprotected": len(statement["unprotected"]),
        }
        rows += [{**shared, "metric": name, "value": value} for name, value in values.items()]
        rows += [{**shared, **row} for row in (more(found, frame) if more else ())]
    return rows


def grid(
    datasets: Sequence[str],
    *,
    partitions: Sequence[str],
    n_clients: Sequence[int],
    epsilons: Sequence[float],
    seeds: Sequence[int],
    settings: Sequence[str] = ("central", "federated", "local"),
    work: str | None = None,
    **fixed: Any,
) -> list[dict]:
    """The cells of a study, each the fields of a Scenario: central once per epsilon and seed,
    federated and local for every partition and client number. fixed: further fields, the same in
    all cells."""
    divided = [(s, p, k) for s in settings if s != "central" for p in partitions for k in n_clients]
    places = [("central", "none", 1)] * ("central" in settings) + divided
    digests = {d: table_digest(d, work=work) for d in datasets}
    return [
        {"dataset": d, "setting": s, "partition": p, "n_clients": k, "epsilon": e, "seed": seed}
        | {"work": work, "table": digests[d], **fixed}
        for d in datasets
        for (s, p, k) in places
        for e in epsilons
        for seed in seeds
    ]
