"""The protocol of leitner2023 that its notebooks share: one cell is one run, measured in every way
the work measures.

A table is split once (Adult has its own test file); every run deals the training rows to the
clients anew. Rows carry the work's names of methods. A private method runs the scheme as published,
or one of SCHEMES, with an epsilon that covers more.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.metrics.marginal_distances import jensen_shannon, wasserstein
from fedsynth_lib.metrics.utility import four_classifiers
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs import names
from fedsynth_lib.runs.grid import remember
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables import lock
from fedsynth_lib.tables.load import Table, load_table, split
from fedsynth_lib.tables.lock import is_locked, table_digest, table_rows
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY, declared_schema

WORK, SPLIT_SEED, CLIENTS, EPSILON = "leitner2023", 0, 3, 3.0
DATASETS = ("adult", "bank", "covertype", "cardio", "diabetes", "obesity")
# figures 5.6 and 5.7
EPSILONS = tuple(float(f"{value:.3g}") for value in np.geomspace(0.1, 10, 13))
CLIENT_COUNTS = (2, 5, 10, 20)  # figures 5.8 and 5.9
NAMES = {
    "CTGAN": "ctgan",
    "DP-CTGAN": "dpctgan",
    "Fed-TGAN": "fedtgan",
    "Fed-CTGAN": "fedctgan",
    "DP-Fed-CTGAN": "dpfedctgan",
}
CENTRAL = ("CTGAN", "DP-CTGAN")
PRIVATE = ("DP-CTGAN", "DP-Fed-CTGAN")
SCHEMES = {  # beyond the work: what of the published scheme is kept
    "private training": ("encoding", "start_from_marginals", "condition_weight"),
    "private end to end": (),
}
SIZES: dict[str, dict[str, Any]] = {  # what a profile shrinks
    "smoke": {
        "rows": 400,
        "seeds": 1,
        "rounds": 2,
        "batch": 50,
        "batch_private": 50,
        "hidden": (32, 32),
    },
    "quick": {
        **{"rows": 3000, "seeds": 1, "rounds": 50, "rounds_small": 100},
        **{"batch": 100, "batch_private": 50, "hidden": (128, 128)},
    },
    "paper": {
        "rows": None,
        "seeds": 5,
        "rounds": 100,
        "batch": 500,
        "batch_private": 500,
        "hidden": (256, 256),
    },
}
# in place of 500, which exceeds what a client of these has;
SMALL_BATCH = {"diabetes": 50, "obesity": 100}
# their epochs have few steps, so that a shrunk run gives them more rounds (`rounds_small`)
MOST_ROUNDS = 1000  # of private training, which its budget ends before
OWN_SIGMA, OWN_DELTA = 2.0, 1e-5  # for tables that the work does not have


reachable = partial(lock.reachable, work=WORK)


class Prepared(NamedTuple):
    train: Table
    test: Table


@lru_cache(maxsize=4)
def prepared(dataset: str, rows: int | None) -> Prepared:
    """Training and test rows; `rows` training rows at most, and a quarter of that to test, of
    larger tables.

    A fifth is held out, rounded up: so table 5.1 comes out to the row.
    """
    work = WORK if dataset in REGISTRY else None
    table = load_table(dataset, work=work)
    if work and REGISTRY[dataset].view(work).holdout and table.data == "real":
        train, test = table, load_table(dataset, work=work, part="holdout")
    else:
        train, test = split(table, seed=SPLIT_SEED, test_share=-(-len(table) // 5) / len(table))

    def at_most(part: Table, number: int) -> Table:
        return (
            part
            if len(part) <= number
            else split(part, seed=SPLIT_SEED, test_share=number / len(part))[1]
        )

    return (
        Prepared(train, test)
        if rows is None
        else Prepared(at_most(train, rows), at_most(test, rows // 4))
    )


def training_rows(dataset: str, rows: int | None) -> int:
    """How many training rows `prepared` gives, without loading a table whose rows are locked."""
    if not is_locked(dataset, work=WORK):
        return len(prepared(dataset, rows).train)
    number = table_rows(dataset, work=WORK)
    if not REGISTRY[dataset].view(WORK).holdout:
        number -= -(-number // 5)
    return min(number, rows or number)


def divided(train: Table, partition: str, n_clients: int, seed: int) -> Parts:
    """Rows of each client: all for `none`, dealt equally for `iid`, and for `label_skew` the work's
    three clients."""
    if partition == "none":
        return [np.arange(len(train))]
    if partition == "iid":
        return split_clients(train, "iid", n_clients, seed=seed)
    if partition != "label_skew" or n_clients != 3:
        raise BadInput(
            f"partition {partition!r} of {n_clients} clients: choose none, iid, or label_skew "
            "with 3 clients."
        )
    return split_clients(
        train,
        "by_strata",
        3,
        seed=seed,
        column=train.schema.target,
        proportions=[[1, 0], [0, 1], [0, 1]],
    )


def budget(dataset: str, method: str) -> tuple[float, float]:
    """(noise multiplier, delta) of table 5.2; our own for tables that the work does not have."""
    printed = load_values(WORK, "tab5.2")
    own = printed[(printed["dataset"] == dataset) & (printed["method"] == method)].set_index(
        "metric"
    )["mean"]
    return (own["noise_multiplier_sigma"], own["delta"]) if len(own) else (OWN_SIGMA, OWN_DELTA)


def configured(
    dataset: str, method: str, epsilon: float, scheme: str, changes: Mapping[str, Any]
) -> tuple[Any, Privacy]:
    """Settings and budget of a run. A private method has the work's noise, and trains until epsilon
    is spent."""
    if method not in NAMES:
        raise BadInput(f"method {method!r} is unknown: choose one of {', '.join(NAMES)}.")
    module = METHODS[NAMES[method]]
    if method not in PRIVATE:
        return replace(module.Config(), **changes), Privacy()
    if scheme not in ("", *SCHEMES):
        raise BadInput(
            f"scheme {scheme!r} is unknown: choose '' (as published) or one of "
            f"{', '.join(SCHEMES)}."
        )
    kept = SCHEMES[scheme] if scheme else tuple(module.AS_PUBLISHED)
    sigma, delta = budget(dataset, method)
    own = {name: module.AS_PUBLISHED[name] for name in kept} | {
        "stop_epsilon": epsilon,
        "stop_delta": delta,
    }
    return replace(module.Config(), **own, **changes), Privacy(
        epsilon, delta, noise_multiplier=sigma, reproduction=True
    )


def synthetic(
    dataset: str,
    method: str,
    seed: int,
    *,
    epsilon: float = EPSILON,
    scheme: str = "",
    partition: str = "iid",
    n_clients: int = CLIENTS,
    rows: int | None = None,
    **changes: Any,
) -> tuple[pd.DataFrame, dict]:
    """A run's synthetic table, as many rows as were trained on, and its facts; made once and
    kept."""
    train, _ = prepared(dataset, rows)
    config, privacy = configured(dataset, method, epsilon, scheme, changes)
    module = METHODS[NAMES[method]]
    parts = divided(train, "none" if method in CENTRAL else partition, n_clients, seed)
    key = {
        "method": method,
        "version": module.VERSION,
        "config": asdict(config),
        "privacy": asdict(privacy),
    }
    key |= {
        "train": train.digest,
        "seed": seed,
        "partition": partition,
        "clients": len(parts),
        "rows": len(train),
    }

    def make() -> tuple[pd.DataFrame, dict]:
        run = settings.federated(module, train, parts, config=config, privacy=privacy, seed=seed)
        return run.synthetic, {
            name: getattr(run, name) for name in ("statement", "seconds", "bytes_up", "bytes_down")
        }

    return remember(key, make)


def measure(
    dataset: str,
    method: str,
    seed: int,
    epsilon: float = EPSILON,
    scheme: str = "",
    partition: str = "iid",
    n_clients: int = CLIENTS,
    rows: int | None = None,
    pairs: bool = False,
    table: str = "",
    changes: Mapping[str, Any] | None = None,
) -> list[Row]:
    """The measurements of one run, as rows; of method `Real` the training rows themselves.

    accuracy, auroc, auprc: of four classifiers on the test rows, and of each. jsd, wd: against the
        training rows.
    pairs: Cramer's V and Pearson's r of every pair of columns of a kind instead, `item` naming the
        two.
    changes: of the method's settings. table: digest of the table that the grid was made for.
    """
    train, test = prepared(dataset, rows)
    train.expect(table)
    central, real = method in CENTRAL, method == "Real"
    shared: Row = {"paper": WORK, "method": method, "data": train.data}
    shared["setting"] = "real" if real else "central" if central else "federated"
    alone = {"partition": "none", "n_clients": None}
    shared |= alone if real or central else {"partition": partition, "n_clients": n_clients}
    shared["epsilon"] = epsilon if method in PRIVATE else np.inf
    frame = train.frame
    if not real:
        options = {
            "epsilon": epsilon,
            "scheme": scheme,
            "partition": partition,
            "n_clients": n_clients,
            "rows": rows,
        }
        frame, facts = synthetic(dataset, method, seed, **options, **(changes or {}))
        statement = facts["statement"]
        shared |= {name: facts[name] for name in ("seconds", "bytes_up", "bytes_down")}
        shared["unprotected"] = len(statement["unprotected"])
        shared["epsilon_spent"] = statement["epsilon_protected"] if method in PRIVATE else None
    if pairs:
        found = associations(frame, train)
        return [
            {**shared, "metric": metric, "item": pair, "value": value}
            for (metric, pair), value in found.items()
        ]
    values = four_classifiers(frame, test.frame, train.schema, seed=seed)
    if not real:
        values["jsd"] = jensen_shannon(train.frame, frame, train.schema)
        values["wd"] = wasserstein(train.frame, frame, train.schema)
    return [{**shared, "metric": name, "value": value} for name, value in values.items()]


def positives(weighting: str = "", **cell: Any) -> list[Row]:
    """The share of positives (category `1`) in a run's synthetic rows; with a weighting, its
    measurements too.

    weighting: of the server, in place of the method's own; needs `changes` in the cell, which is
        what `measure` takes.
    """
    changes = {**cell["changes"], **({"weighting": weighting} if weighting else {})}
    found = measure(**{**cell, "changes": changes}) if weighting else []
    run = {name: value for name, value in cell.items() if name not in ("changes", "table")}
    frame, _ = synthetic(**run, **changes)  # from the cache, where it was measured
    train = prepared(cell["dataset"], cell.get("rows")).train
    share = float((frame[train.schema.target] == "1").mean())
    return [*found, {"paper": WORK, "data": train.data, "metric": "positives", "value": share}]


def sizes(dataset: str, table: str = "") -> Row:
    """What table 5.1 says of a table: training and test rows, numeric and categorical columns."""
    train, test = prepared(dataset, None)
    train.expect(table)
    kinds = {"n_continuous": len(train.schema.numeric), "n_discrete": len(train.schema.categorical)}
    counts = {"n_train": len(train), "n_test": len(test)}
    return {"paper": WORK, "exhibit": "tab5.1", "data": train.data, **counts, **kinds}


def associations(frame: pd.DataFrame, train: Table) -> dict[tuple[str, str], float]:
    """(cramers_v or pearson, 'one column x the other') -> value, for every pair of columns of a
    kind."""
    matrix = pd.DataFrame(
        fidelity.associations(frame, train.schema), train.schema.names, train.schema.names
    )
    kinds = {"cramers_v": train.schema.categorical, "pearson": train.schema.numeric}
    return {
        (metric, f"{one} x {other}"): float(matrix.loc[one, other])
        for metric, names in kinds.items()
        for one, other in combinations(names, 2)
    }


def training(dataset: str, method: str, size: Mapping[str, Any]) -> dict[str, Any]:
    """How long, and in which batches, a method trains on a table in a profile's size (see
    SIZES)."""
    private = method in PRIVATE
    batch = min(size["batch_private" if private else "batch"], SMALL_BATCH.get(dataset, 500))
    rounds = size.get("rounds_small", size["rounds"]) if dataset in SMALL_BATCH else size["rounds"]
    rounds = MOST_ROUNDS if private and size["rounds"] >= 10 else rounds
    return {"training_rounds": rounds, "batch": batch, "hidden": list(size["hidden"])}


def cells(
    datasets: Sequence[str], methods: Sequence[str], size: Mapping[str, Any], **lists: Any
) -> list[dict]:
    """Cells of a grid: every combination of tables, methods, seeds 0, 1, ... and of the values of
    `lists`.

    size: of the profile, one of SIZES, perhaps with fewer rounds. A single value stands for a list
    of one. What a method does not have makes no further cells: epsilon and scheme without noise,
    clients when central. A value that is `measure`'s default is left out, so that the grids of
    several questions share their cells. A budget that pays for no step makes no cell (see `pays`).
    """
    defaults = {name: each.default for name, each in inspect.signature(measure).parameters.items()}
    lists = {
        name: value if isinstance(value, list | tuple) else [value] for name, value in lists.items()
    }
    found: dict[str, dict] = {}
    for dataset, method, *values, seed in product(
        datasets, methods, *lists.values(), range(size["seeds"])
    ):
        idle = {"epsilon", "scheme"} if method not in PRIVATE else set()
        idle |= {"partition", "n_clients"} if method in (*CENTRAL, "Real") else set()
        own = dict(zip(lists, values, strict=True)) | {"rows": size["rows"]}
        own |= {"changes": training(dataset, method, size)} if method != "Real" else {}
        own = {
            name: value
            for name, value in own.items()
            if name not in idle and value != defaults[name]
        }
        table = table_digest(dataset, work=WORK if dataset in REGISTRY else None)
        cell = {"dataset": dataset, "method": method, **own, "seed": seed, "table": table}
        if method not in PRIVATE or pays(cell):
            found.setdefault(repr(cell), cell)
    return list(found.values())


def pays(cell: Mapping[str, Any]) -> bool:
    """Whether the budget of a private method's cell pays for a single step of training."""
    dataset, method = cell["dataset"], cell["method"]
    epsilon, clients = cell.get("epsilon", EPSILON), cell.get("n_clients", CLIENTS)
    config, privacy = configured(
        dataset, method, epsilon, cell.get("scheme", ""), cell.get("changes", {})
    )
    fewest = training_rows(dataset, cell.get("rows")) // (1 if method in CENTRAL else clients)
    module = METHODS[NAMES[method]]
    schema = (
        declared_schema(dataset, WORK)
        if dataset in REGISTRY
        else prepared(dataset, None).train.schema
    )
    try:
        module.plan(privacy.noise_multiplier, module.encoder(schema, config).domain, fewest, config)
    except BadInput:
        return False
    return True


MEASURED = [
    *(
        f"{kind}{model}"
        for kind in ("accuracy", "auroc", "auprc")
        for model in ("", "_ada", "_knn", "_mlp", "_rf")
    ),
    *("jsd", "wd", "positives"),
]


def version(cell: Mapping[str, Any]) -> str:
    """The versions that the rows of a cell rest on; the method `Real` trains nothing."""
    measured = ("cramers_v", "pearson") if cell.get("pairs") else MEASURED
    return names.version(NAMES.get(cell["method"], ""), measured)
