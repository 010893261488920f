"""One protocol for all methods: the same tables, splits, clients, budgets and measures.

It is the same whatever work a method comes from.

A table is divided into training rows, a second sample of the same size that nobody trains on, and
test rows. Every method makes as many rows as it was trained on. Budgets are (epsilon, DELTA) of
each record added or removed, for everything that a method releases; a run with releases outside of
epsilon says so in the column `unprotected`, and no ranking compares it with others without a mark.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.accounting import calibrate
from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.methods import METHODS
from fedsynth_lib.metrics import (
    anonymity,
    divergence,
    fidelity,
    marginal_distances,
    quality,
    similarity,
    utility,
)
from fedsynth_lib.metrics.attacks import SCENARIOS, attribute_disclosure, closest_records
from fedsynth_lib.metrics.membership import membership
from fedsynth_lib.metrics.range_queries import query_error
from fedsynth_lib.metrics.workload import random_workload, workload_error
from fedsynth_lib.runs import names
from fedsynth_lib.runs.names import YARDSTICKS
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.encode import EqualWidthBins, standardised
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.lock import table_digest, table_rows
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import declared_schema
from fedsynth_lib.tables.schema import Schema
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.field import TVD_BINS
from fedsynth_lib.works.protocol import Made, as_rows, configured, guarantee, shuffled, train_once

DELTA = 1e-5
EPSILONS = (0.2, 1.0, 3.0, 10.0, np.inf)
PARTITIONS = ("iid", "label_skew", "quantity_skew", "by_cluster")
CLIENTS = (3, 10, 100)
BINS, TRIPLES = 16, 32


class Entrant(NamedTuple):
    """A method as it takes part. settings: beside its defaults, which are private end to end.

    published: those that make the release of its work, for a second line with a mark.
    most_clients: with more of them a network trains too long.
    """

    key: str
    settings: Mapping[str, Any] = {}
    published: Mapping[str, Any] = {}
    most_clients: int = 10

    def config(self, training: Mapping[str, Any] | None, *, as_published: bool = False) -> Any:
        """Its settings. training: what a profile shrinks."""
        published = self.published if as_published else {}
        return configured(METHODS[self.key], self.settings, published, training)


WORK = load("side_by_side")
PUBLISHED = WORK.schemes["as published"]
ENTRANTS = {
    name: Entrant(
        method.key,
        method.settings,
        {**getattr(METHODS[method.key], "AS_PUBLISHED", {}), **PUBLISHED.methods.get(name, {})},
        10 if METHODS[method.key].TRUST == "local noise" else 100,
    )
    for name, method in WORK.methods.items()
    if method.key
}
NETWORKS = [name for name, each in ENTRANTS.items() if each.most_clients == 10]
SIZES: dict[str, dict[str, Any]] = {
    profile: {"rows": None, **size} for profile, size in WORK.constants["sizes"].items()
}
DATASETS = ("adult", "bank", "cardio")


class Prepared(NamedTuple):
    """A table's training rows, second sample and test rows."""

    train: Table
    second: Table
    test: Table


@lru_cache(maxsize=4)
def prepared(dataset: str, rows: int | None, seed: int) -> Prepared:
    """Split a table into two disjoint samples of two fifths each and a fifth to test.

    A sample has at most `rows`, the test rows are at most half of `rows`.
    """
    table = load_table(dataset)
    order, fifth = stream(seed, "side by side").permutation(len(table)), len(table) // 5
    parts = order[: 2 * fifth], order[2 * fifth : 4 * fifth], order[4 * fifth : 5 * fifth]
    most = (rows, rows, rows // 2) if rows else (None,) * 3
    return Prepared(*(table.take(part[:number]) for part, number in zip(parts, most, strict=True)))


def divided(prepared: Prepared, partition: str, n_clients: int, seed: int) -> Parts:
    """Clients of at least a fortieth of an equal share; `none` is one client."""
    train = prepared.train
    if partition == "none":
        return [np.arange(len(train))]
    if partition not in PARTITIONS:
        raise BadInput(
            f"partition {partition!r} does not take part: choose none, {', '.join(PARTITIONS)}."
        )
    least = {"min_rows": max(2, len(train) // (40 * n_clients))} if "skew" in partition else {}
    return split_clients(train, partition, n_clients, seed=seed, **least)


def budget(epsilon: float, changes: Mapping[str, Any] | None) -> tuple[dict[str, Any], Privacy]:
    """Return a run's settings and its guarantee at DELTA.

    changes: of a network's settings, so that its run takes the stated time.
    """
    return dict(changes or {}), guarantee(epsilon, DELTA)


def answers(prepared: Prepared, made: Made, seed: int) -> dict[str, float]:
    """Measure what the field does, against test rows.

    SDMetrics' diagnosis is against training rows.
    """
    train, _, test = prepared
    frame, schema = made.frame, train.schema
    bins = EqualWidthBins(schema, TVD_BINS, {})
    codes, levels = [bins.transform(each) for each in (test.frame, frame)], bins.domain.levels
    values = utility.boosted_trees(frame, test.frame, schema, seed=seed, tuned=True)
    for width in (1, 2, 3):
        queries = combinations(range(len(levels)), width)
        values[f"tvd_{width}"] = workload_error(*codes, levels, queries) / 2
        values[f"query_error_{width}"] = query_error(test.frame, frame, schema, width=width)
    reports = quality.quality(test.frame, frame, schema, seed=seed)
    reports |= quality.diagnostic(train.frame, frame, schema)
    return values | {f"sdm_{name.replace(' ', '_')}": value for name, value in reports.items()}


def given(cells: Sequence[Mapping[str, Any]], epsilon: float) -> pd.DataFrame:
    """Tabulate what the networks of a grid were given: rounds, a client's steps and batch.

    The batch is the expected one. The last column is the ratio of signal to noise to that of the
    method's own settings on the same rows. Signal to noise is the root of the steps times batch /
    noise multiplier (`core/signal.py`), once the rest of what a method releases is paid for.
    """
    lines = {}
    for cell in cells:
        if changes := cell.get("changes"):
            entrant, table = ENTRANTS[cell["method"]], 2 * table_rows(cell["dataset"]) // 5
            rows, schema = (
                min(cell.get("rows") or table, table),
                declared_schema(cell["dataset"], None),
            )
            configs = entrant.config(changes), entrant.config(None)
            asked = METHODS[entrant.key], schema, rows // cell.get("n_clients", 3), epsilon
            (steps, batch, ours), (*_, full) = (_signal(*asked, config) for config in configs)
            own = {"rounds": configs[0].training_rounds, "steps of a client": steps, "batch": batch}
            lines[cell["method"]] = {**own, "signal to noise, of full": ours / full}
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")


def _signal(
    module: Any, schema: Schema, rows: int, epsilon: float, config: Any
) -> tuple[int, int, float]:
    """Return steps, batch, and signal to noise of a client with this number of rows."""
    domain = module.encoder(schema, config).domain
    plan = partial(module.plan, domain=domain, num_rows=rows, config=config)
    charges = plan(calibrate(plan, Privacy(epsilon, DELTA, reproduction=True)))
    most = max(charges, key=lambda charge: charge.times).what
    steps = [charge for charge in charges if charge.what == most]
    number, batch = sum(charge.times for charge in steps), round(steps[0].rate * rows)
    return number, batch, float(np.sqrt(number) * batch / steps[0].noise)


def synthetic(
    dataset: str,
    method: str,
    seed: int,
    *,
    epsilon: float = 1.0,
    partition: str = "iid",
    n_clients: int = 3,
    as_published: bool = False,
    rows: int | None = None,
    training: Mapping[str, Any] | None = None,
) -> tuple[pd.DataFrame, dict]:
    """Return the table of one run and its facts; made once and kept.

    The facts are statement, seconds, bytes, and peak memory in GiB.
    """
    samples = prepared(dataset, rows, seed)
    if method in YARDSTICKS:
        return known_rows(method, samples.train.frame, samples.second.frame, seed), {}
    entrant = entrant_of(method)
    return train_once(
        entrant.key,
        samples.train,
        divided(samples, partition, n_clients, seed),
        config=entrant.config(training, as_published=as_published),
        privacy=guarantee(epsilon, DELTA),
        seed=seed,
    )


def known_rows(method: str, rows: pd.DataFrame, second: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return what a yardstick hands out in place of synthetic rows."""
    known = (rows, second, shuffled(rows, seed))
    return dict(zip(YARDSTICKS, known, strict=True))[method]


def entrant_of(method: str) -> Entrant:
    """Return the entrant of this name. Raises BadInput for one that does not take part."""
    if method not in ENTRANTS:
        known = ", ".join((*ENTRANTS, *YARDSTICKS))
        raise BadInput(f"method {method!r} does not take part: choose one of {known}.")
    return ENTRANTS[method]


def measure(
    dataset: str,
    method: str,
    seed: int,
    attacks: int = 500,
    judged: Mapping[str, int] | None = None,
    table: str = "",
    brief: bool = False,
    **run: Any,
) -> list[Row]:
    """Return the measurements of one run as rows.

    run: as `synthetic` takes it. table: digest of the table meant. brief: only what takes seconds,
    for grids of many runs.
    """
    train, second, test = prepared(dataset, run.get("rows"), seed)
    train.expect(table)
    frame, facts = synthetic(dataset, method, seed, **run)
    values = measures(train, second, test, frame, seed=seed)
    if not brief:
        values |= more_measures(
            train, second, test, frame, seed=seed, attacks=attacks, judged=judged or {}
        )
    if method not in YARDSTICKS:
        values |= {"peak_gib": facts["gib"]}
    shared = {"dataset": dataset, "method": method, "data": train.data, "seed": seed}
    asked = {name: run[name] for name in ("epsilon", "partition", "n_clients") if name in run}
    shared |= labels(facts, **asked)
    shared |= {name: facts[name] for name in ("seconds", "bytes_up", "bytes_down") if facts}
    return [{**shared, **row} for row in as_rows(values)]


def labels(
    facts: Mapping[str, Any], epsilon: float = 1.0, partition: str = "iid", n_clients: int = 3
) -> Row:
    """Return the labels that all rows of a run share. facts: of the run, none of known rows."""
    if not facts:
        return {"setting": "real", "partition": "none"}
    statement = facts["statement"]
    return {
        "setting": "federated",
        "partition": partition,
        "n_clients": n_clients,
        "epsilon": epsilon,
        "epsilon_spent": statement["epsilon_protected"] if np.isfinite(epsilon) else None,
        "unprotected": len(statement["unprotected"]),
    }


def measures(
    train: Table, second: Table, test: Table, frame: pd.DataFrame, *, seed: int
) -> dict[str, float]:
    """Measure of a synthetic table what takes seconds.

    These are distances of columns, pairs and triples, AUC, and memberships.
    """
    real, schema = train.frame, train.schema
    values = {
        "hellinger": fidelity.hellinger(real, frame, schema),
        "pcd": fidelity.pairwise_correlation_difference(real, frame, schema),
        "jsd": marginal_distances.jensen_shannon(real, frame, schema),
        "wd": marginal_distances.wasserstein(real, frame, schema),
        "workload_error": triples(train, frame),
        "fidelity": similarity.fidelity(real, frame, schema)["fidelity"],
    }
    values |= utility.auc(frame, test.frame, schema, seed)
    close = closest_records(real, test.frame, frame, schema, seed)
    values |= {name: close[name] for name in ("dcr_min", "dcr_share")}
    found = membership(real, test.frame, second.frame, frame, schema, seed=seed)
    for name, attack in found.items():
        values |= {f"mia_{name}{end}": value for end, value in zip(MIA_ENDS, attack, strict=True)}
    return values


def more_measures(
    train: Table,
    second: Table,
    test: Table,
    frame: pd.DataFrame,
    *,
    seed: int,
    attacks: int,
    judged: Mapping[str, int],
) -> dict[str, float]:
    """Take the works' measures that take longer: classifiers, discriminators, clusters, attacks."""
    real, schema = train.frame, train.schema
    four = utility.four_classifiers(frame, test.frame, schema, seed=seed)
    bins, target = EqualWidthBins(schema, BINS, {}), schema.names.index(schema.target)
    codes = [bins.transform(rows) for rows in (frame, test.frame)]
    scenario = SCENARIOS.get(train.key)  # table 5.7 of martinez2024
    guessed = attribute_disclosure(real, frame, schema, scenario, seed) if scenario else {}
    return {
        **{name: guessed[name] for name in ("ad_rmean", "ad_dum") if guessed},
        "auc_gbt": utility.gradient_boosting_auc(*codes, target, seed=seed),
        "pmse": fidelity.propensity_mse(real, frame, schema, seed),
        "log_cluster": fidelity.log_cluster(real, frame, schema, seed)["log_cluster"],
        "js_divergence": discriminator_divergence(train, second, frame, seed=seed, judged=judged),
        "auroc": four["auroc"],
        "auprc": four["auprc"],
        "accuracy": utility.five_classifiers(frame, test.frame, schema, seed=seed)["accuracy"],
        **anonymity.risks(real, test.frame, frame, schema, seed=seed, attacks=attacks),
    }


MIA_ENDS = ("", "_low", "_high", "_advantage", "_caught")


def triples(train: Table, frame: pd.DataFrame) -> float:
    """Return the workload error (maddock2024) over 32 random triples of columns.

    Numbers are in 16 bins of their range.
    """
    bins = EqualWidthBins(train.schema, BINS, {})
    levels = bins.domain.levels
    workload = random_workload(len(levels), size=TRIPLES)
    return workload_error(bins.transform(train.frame), bins.transform(frame), levels, workload)


def discriminator_divergence(
    train: Table, second: Table, frame: pd.DataFrame, *, seed: int, judged: Mapping[str, int]
) -> float:
    """Return the Jensen-Shannon divergence (apellaniz2025) of the synthetic rows from real rows.

    The real rows are those that nobody trained on.
    """
    points = standardised(pd.concat([second.frame, frame], ignore_index=True), train.schema)
    sizes = divergence.Sizes(**judged)
    real, made = points[: len(second)], points[len(second) :]
    return divergence.jensen_shannon(real, made, seed=seed, sizes=sizes).bits


def cells(
    size: Mapping[str, Any],
    datasets: Sequence[str],
    methods: Sequence[str],
    *,
    brief: bool = False,
    **lists: Any,
) -> list[dict]:
    """Return the cells of a grid: tables, methods, seeds 0, 1, ... and the values of `lists`.

    They are all combinations. size: of the profile, one of SIZES. lists: of `synthetic`; a single
    value stands for a list of one. Values that are defaults are left out, so that the grids of
    several questions share their runs. What a method does not have makes no cell: as published
    where that is its default, and more clients than it takes.
    """
    values = [v if isinstance(v, list | tuple) else [v] for v in lists.values()]
    found: dict[str, dict] = {}
    for dataset, method, seed, *own in product(datasets, methods, range(size["seeds"]), *values):
        cell = {"dataset": dataset, "method": method, "seed": seed, "table": table_digest(dataset)}
        cell |= {name: size[name] for name in ("rows", "attacks", "judged")}
        cell |= {"brief": True} if brief else {}
        if method not in YARDSTICKS:
            entrant, chosen = entrant_of(method), dict(zip(lists, own, strict=True))
            too_many = chosen.get("n_clients", 3) > entrant.most_clients
            if too_many or (chosen.get("as_published") and not entrant.published):
                continue
            cell |= {"training": size["training"].get(entrant.key)}
            cell |= {name: value for name, value in chosen.items() if value != DEFAULTS[name]}
        found.setdefault(repr(cell), cell)
    return list(found.values())


DEFAULTS = {"epsilon": 1.0, "partition": "iid", "n_clients": 3, "as_published": False}


BRIEF, MORE = WORK.constants["brief"], WORK.constants["more"]


def version(cell: Mapping[str, Any]) -> str:
    """Return the versions that the rows of a cell rest on.

    Where nothing is trained, these are the versions of its measures alone.
    """
    entrant, measured = ENTRANTS.get(cell["method"]), [*BRIEF, *([] if cell.get("brief") else MORE)]
    return names.version(entrant.key if entrant else "", measured)
