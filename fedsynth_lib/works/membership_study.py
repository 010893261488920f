"""Membership attacks with shadow runs on chapter 7's methods, compared with the promise of epsilon.

A pool of rows holds some worst-case records, chosen before any run. Each run takes a random half of
the other rows and each worst-case record by a coin of its own. The clients of a run and their
declared sizes do not depend on these coins, so a run with a record and one without it are
neighbours in the bundle's sense: one row added at one client.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.audit import shadow
from fedsynth_lib.audit.bounds import one_run_bound
from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.queries import Query
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.workload import random_workload
from fedsynth_lib.runs import names
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.works import side_by_side
from fedsynth_lib.works.protocol import as_rows, guarantee, train_once
from fedsynth_lib.works.side_by_side import (
    BINS,
    DELTA,
    ENTRANTS,
    YARDSTICKS,
    entrant_of,
    known_rows,
)

CLIENTS = 3
QUERIES = 64  # random triples of columns


class Sampled(NamedTuple):
    """Three disjoint samples of a table.

    pool: runs draw from it. reference: the attacker's. fresh: for second samples. targets:
    positions in the pool of the worst-case records.
    """

    pool: Table
    reference: Table
    fresh: Table
    targets: np.ndarray

    @property
    def bins(self) -> EqualWidthBins:
        """Equal-width bins of the pool's columns."""
        return EqualWidthBins(self.pool.schema, BINS, {})

    @property
    def queries(self) -> list[Query]:
        """Random queries over these bins."""
        return random_workload(len(self.bins.domain.levels), size=QUERIES)


@lru_cache(maxsize=2)
def sampled(dataset: str, rows: int, targets: int, seed: int) -> Sampled:
    """Draw a pool and a reference of twice `rows` each, and up to four times `rows` fresh ones."""
    table = load_table(dataset)
    if len(table) < 5 * rows or not 2 <= targets <= rows:
        raise BadInput(
            f"{dataset} has {len(table)} rows: give at most {len(table) // 5}, and 2 "
            f"to {rows} targets."
        )
    order = stream(seed, "membership").permutation(len(table))
    parts = np.split(order, [2 * rows, 4 * rows, 8 * rows])[:3]
    samples = Sampled(*(table.take(part) for part in parts), np.array([], int))
    points = shadow.features(samples.pool.frame, samples.reference.frame, table.schema)
    codes = samples.bins.transform(samples.pool.frame)
    return samples._replace(targets=shadow.worst_cases(points, codes, samples.queries, targets))


def inside(samples: Sampled, rows: int, seed: int, run: int) -> np.ndarray:
    """Draw who is in this run: bool (pool,).

    Each target is in by a coin, and so many others that `rows` are expected.
    """
    rng, chosen = stream(seed, "members", run), np.zeros(len(samples.pool), bool)
    others = np.setdiff1d(np.arange(len(samples.pool)), samples.targets)
    chosen[rng.permutation(others)[: rows - len(samples.targets) // 2]] = True
    chosen[samples.targets] = rng.random(len(samples.targets)) < 0.5
    return chosen


def synthetic(
    dataset: str,
    method: str,
    seed: int,
    run: int,
    *,
    rows: int,
    targets: int,
    epsilon: float = 1.0,
    training: Mapping[str, Any] | None = None,
) -> tuple[pd.DataFrame, dict]:
    """Return the table of one run and its facts; made once and kept.

    The facts are statement and seconds; known rows have none.
    """
    samples = sampled(dataset, rows, targets, seed)
    chosen = inside(samples, rows, seed, run)
    members = samples.pool.take(np.flatnonzero(chosen))
    if method in YARDSTICKS:
        fresh = samples.fresh.frame
        second = fresh.iloc[stream(seed, "second", run).permutation(len(fresh))[:rows]]
        return known_rows(method, members.frame, second, run), {}
    entrant = entrant_of(method)
    # of who is in the run and who is not
    places = stream(seed, "clients", run).permutation(len(samples.pool)) % CLIENTS
    return train_once(
        entrant.key,
        members,
        [np.flatnonzero(places[chosen] == client) for client in range(CLIENTS)],
        config=entrant.config(training),
        privacy=guarantee(epsilon, DELTA),
        seed=(1000 * seed + run) % 2**32,
        sizes=[len(part) for part in np.array_split(np.arange(rows), CLIENTS)],
    )


def seen(
    dataset: str, method: str, seed: int, runs: int, *, rows: int, targets: int, **run: Any
) -> tuple[shadow.Seen, list[dict]]:
    """Return what the attacker sees of the targets in the tables of all runs, and each run's facts.

    run: of `synthetic`.
    """
    samples = sampled(dataset, rows, targets, seed)
    schema, reference = samples.pool.schema, samples.reference.frame
    people = samples.pool.frame.iloc[samples.targets]
    points, known = (shadow.features(frame, reference, schema) for frame in (people, reference))
    codes, width = samples.bins.transform(people), shadow.kernel_width(known)
    coins, found, facts = [], [], []
    for number in range(runs):
        frame, made_by = synthetic(dataset, method, seed, number, rows=rows, targets=targets, **run)
        facts.append(made_by)
        made = shadow.features(frame, reference, schema)
        coins.append(inside(samples, rows, seed, number)[samples.targets])
        found.append(
            (
                nearest(points, made, 1)[0][:, 0],
                shadow.density(points, made, width),
                shadow.counts(codes, samples.bins.transform(frame), samples.queries),
            )
        )
    statistics = (np.stack(each) for each in zip(*found, strict=True))
    to_known = nearest(points, known, 1)[0][:, 0], shadow.density(points, known, width)
    return shadow.Seen(np.stack(coins), *statistics, *to_known), facts


def measure(
    dataset: str,
    method: str,
    seed: int,
    runs: int,
    rows: int,
    targets: int,
    epsilon: float = 1.0,
    training: Mapping[str, Any] | None = None,
    table: str = "",
) -> list[Row]:
    """Return what the attacks find in so many runs of a method; the attack is the `item`."""
    samples = sampled(dataset, rows, targets, seed)
    samples.pool.expect(table)
    run = {"rows": rows, "targets": targets, "epsilon": epsilon, "training": training}
    looked, facts = seen(dataset, method, seed, runs, **run)
    shared = {"dataset": dataset, "method": method, "data": samples.pool.data, "seed": seed}
    shared |= side_by_side.labels(facts[0], epsilon=epsilon, n_clients=CLIENTS)
    if method not in YARDSTICKS:
        shared["seconds"] = sum(each["seconds"] for each in facts)
    values: dict[tuple[str, str], float] = {
        ("", "attack_trials"): looked.inside.size,
        ("", "epsilon_ceiling"): ceiling(looked.inside),
    }
    for attack, judged in shadow.judge(looked, DELTA).items():
        values |= {(attack, name): value for name, value in zip(MEASURED, judged, strict=True)}
    told = {key: value for key, value in values.items() if not np.isnan(value)}
    return [{**shared, **row} for row in as_rows(told)]


MEASURED = (  # as shadow.Found has them
    *("attack_auc", "attack_tpr1", "attack_tpr1_low", "attack_tpr1_high"),
    *("attack_tpr01", "attack_tpr01_low", "attack_tpr01_high"),
    *("epsilon_bound", "epsilon_first_half"),
)


def ceiling(inside: np.ndarray) -> float:
    """Return the bound if every coin of the second half of the runs were guessed.

    No attack can show more in that number of runs.
    """
    trials = inside[len(inside) // 2 :].size
    return one_run_bound(trials, trials, trials, DELTA)


def version(cell: Mapping[str, Any]) -> str:
    """Return the versions that the rows of a cell rest on.

    Where nothing is trained, these are the versions of its measures alone.
    """
    entrant, measured = ENTRANTS.get(cell["method"]), [*MEASURED, "attack_trials"]
    return names.version(entrant.key if entrant else "", [*measured, "epsilon_ceiling"])


# network_runs: of methods that train a network, which take longest
SIZES: dict[str, dict[str, int]] = {
    "smoke": {"rows": 60, "targets": 16, "runs": 8, "network_runs": 4},
    "quick": {"rows": 200, "targets": 32, "runs": 16, "network_runs": 8},
    "paper": {"rows": 500, "targets": 32, "runs": 64, "network_runs": 24},
}
NETWORKS = ("fedvae", "dpfedctgan", "findiff", "dpvaebgm")
# without noise a run selects for a minute
WEAK = dict.fromkeys(("AIM", "NaiveFLAIM", "AugFLAIM (Private)"), 10.0)


def cells(
    profile: str, datasets: Sequence[str], methods: Sequence[str], epsilon: float = 1.0
) -> list[dict]:
    """Return a cell for each method, at epsilon and without noise or at `WEAK`; known rows once."""
    size, found = SIZES[profile], []
    for dataset, method in product(datasets, methods):
        key = ENTRANTS[method].key if method in ENTRANTS else ""
        cell = {"dataset": dataset, "method": method, "seed": 0, "table": table_digest(dataset)}
        cell |= {name: size[name] for name in ("rows", "targets")}
        cell["runs"] = size["network_runs" if key in NETWORKS else "runs"]
        if not key:
            found.append(cell)
            continue
        cell["training"] = side_by_side.SIZES[profile]["training"].get(key)
        found += [
            {**cell, "epsilon": e} for e in dict.fromkeys((epsilon, WEAK.get(method, np.inf)))
        ]
    return found
