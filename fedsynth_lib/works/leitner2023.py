"""Code specific to leitner2023: its tables and clients, its budgets, and what it measures.

A table is split once (Adult has its own test file). A private method has the noise of table 5.2,
runs the scheme as published or one whose epsilon covers more, and trains until epsilon is spent.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.methods.gan import budget as gan_budget
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.metrics.marginal_distances import jensen_shannon, wasserstein
from fedsynth_lib.metrics.utility import four_classifiers
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.load import Table, split
from fedsynth_lib.tables.lock import is_locked, table_rows
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY, declared_schema
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Cell, Made, Prepared

WORK = load("leitner2023")
SPLIT_SEED = WORK.constants["split_seed"]


@lru_cache(maxsize=4)
def prepare(dataset: str, rows: int | None = None) -> Prepared:
    """Load training and test rows.

    Of larger tables, there are at most `rows` training rows, and a quarter of that to test. A fifth
    is held out, rounded up: this gives the numbers of rows in table 5.1.
    """
    table = WORK.table(dataset)
    own_test = WORK.view(dataset) and REGISTRY[dataset].view(WORK.key).holdout
    if own_test and table.data == "real":
        train, test = table, WORK.table(dataset, part="holdout")
    else:
        train, test = split(table, seed=SPLIT_SEED, test_share=-(-len(table) // 5) / len(table))
    if rows is None:
        return Prepared(train, test)
    return Prepared(_at_most(train, rows), _at_most(test, rows // 4))


def _at_most(part: Table, number: int) -> Table:
    if len(part) <= number:
        return part
    return split(part, seed=SPLIT_SEED, test_share=number / len(part))[1]


def training_rows(dataset: str, rows: int | None) -> int:
    """How many training rows `prepare` gives, without loading a table whose rows are locked."""
    if not is_locked(dataset, work=WORK.key):
        return len(prepare(dataset, rows).train)
    number = table_rows(dataset, work=WORK.key)
    if not REGISTRY[dataset].view(WORK.key).holdout:
        number -= -(-number // 5)
    return min(number, rows or number)


def divide(prepared: Prepared, partition: str, n_clients: int, seed: int) -> Parts:
    """Return the rows of each client.

    They are dealt equally for `iid`, and to the work's three clients for `label_skew`.
    """
    train = prepared.train
    if partition == "iid":
        return split_clients(train, "iid", n_clients, seed=seed)
    if partition != "label_skew" or n_clients != 3:
        raise BadInput(
            f"partition {partition!r} of {n_clients} clients: choose iid, or label_skew with 3 "
            "clients."
        )
    options = {"column": train.schema.target, "proportions": [[1, 0], [0, 1], [0, 1]]}
    return split_clients(train, "by_strata", 3, seed=seed, **options)


@cache
def budget(dataset: str, method: str) -> tuple[float, float]:
    """(noise multiplier, delta) of table 5.2; our own for tables that the work does not have."""
    printed = load_values(WORK.key, "tab5.2")
    own = printed[(printed["dataset"] == dataset) & (printed["method"] == method)]
    if own.empty:
        return WORK.constants["own_noise"], WORK.constants["own_delta"]
    own = own.set_index("metric")["mean"]
    return own["noise_multiplier_sigma"], own["delta"]


def configure(
    dataset: str, method: str, epsilon: float, changes: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Privacy]:
    """Return settings and budget of a run, which trains until epsilon is spent."""
    if not WORK.method(method).private:
        return dict(changes or {}), Privacy()
    sigma, delta = budget(dataset, method)
    stop = {"stop_epsilon": epsilon, "stop_delta": delta}
    privacy = Privacy(epsilon, delta, noise_multiplier=sigma, reproduction=True)
    return {**stop, **(changes or {})}, privacy


def measures(prepared: Prepared, made: Made, seed: int) -> dict[str, float]:
    """Measure synthetic rows as the work does.

    accuracy, auroc, auprc: of four classifiers on the test rows, and of each. jsd, wd: of synthetic
    rows against the training rows.
    """
    train, test = prepared
    values = four_classifiers(made.frame, test.frame, train.schema, seed=seed)
    if made.facts:
        values["jsd"] = jensen_shannon(train.frame, made.frame, train.schema)
        values["wd"] = wasserstein(train.frame, made.frame, train.schema)
    return values


def associations(prepared: Prepared, made: Made) -> dict[tuple[str, str], float]:
    """Cramer's V and Pearson's r of every pair of columns of a kind, `item` naming the two."""
    schema = prepared.train.schema
    matrix = pd.DataFrame(fidelity.associations(made.frame, schema), schema.names, schema.names)
    kinds = {"cramers_v": schema.categorical, "pearson": schema.numeric}
    return {
        (f"{one} x {other}", metric): float(matrix.loc[one, other])
        for metric, names in kinds.items()
        for one, other in combinations(names, 2)
    }


def positives(weighting: str = "", **cell: Any) -> list[Row]:
    """Return the share of positives (category `1`) in a run's synthetic rows.

    With a weighting, its measurements are returned too. weighting: of the server, in place of the
    method's own; needs `changes` in the cell.
    """
    changes = {**cell["changes"], **({"weighting": weighting} if weighting else {})}
    run = Cell(WORK, "run", **{**cell, "changes": changes})
    found = run.rows() if weighting else []
    train = run.prepared.train
    ((_, made),) = run.made()  # kept, where it was measured
    share = float((made.frame[train.schema.target] == "1").mean())
    return [*found, {"paper": WORK.key, "data": train.data, "metric": "positives", "value": share}]


# --- grids ---------------------------------------------------------------------------------------


def training(cell: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return `changes` of a cell: how long and in which batches its method trains in a profile.

    chosen: holds `sized`: rounds, rounds_small (of tables with small batches), batch,
    batch_private, hidden; batch_small in place of the work's own small batches.
    """
    sized, method = chosen["sized"], WORK.method(cell["method"])
    own = WORK.constants["small_batch"].get(cell["dataset"])
    rounds = sized.get("rounds_small", sized["rounds"]) if own else sized["rounds"]
    batch = sized["batch_private" if method.private else "batch"]
    batch = min(batch, sized.get("batch_small", own)) if own else min(batch, 500)
    if method.private and sized["rounds"] >= 10:
        rounds = WORK.constants["most_rounds"]
    return {"changes": {"training_rounds": rounds, "batch": batch, "hidden": [*sized["hidden"]]}}


def trains(num_rows: int, /, **asked: Any) -> dict[str, float]:
    """How long a client of so many rows trains within the budget of a private cell."""
    cell = Cell(WORK, "run", **asked)
    schema, config = declared_schema(cell.settings["dataset"], WORK.key), cell.config
    levels = cell.registered.encoder(schema, config).domain.levels
    steps = gan_budget.total_steps(cell.privacy.noise_multiplier, levels, num_rows, config)
    a_round, rate = gan_budget.steps_per_round(num_rows, config), gan_budget.rate(num_rows, config)
    facts = {"rows": num_rows, "rate": rate, "steps a round": a_round, "steps": steps}
    return {**facts, "rounds": -(-steps // a_round)}


def pays(cell: Mapping[str, Any]) -> bool:
    """Whether the budget of a private method's cell pays for a single step of training."""
    method = WORK.method(cell["method"])
    if not method.private:
        return True
    asked = {name: value for name, value in cell.items() if name not in ("weighting", "pairs")}
    run, dataset = Cell(WORK, "run", **asked), cell["dataset"]
    fewest = training_rows(dataset, cell.get("rows")) // run.settings["n_clients"]
    known = dataset in REGISTRY
    schema = declared_schema(dataset, WORK.key) if known else prepare(dataset).train.schema
    domain = run.registered.encoder(schema, run.config).domain
    try:
        run.registered.plan(run.privacy.noise_multiplier, domain, fewest, run.config)
    except BadInput:
        return False
    return True
