"""The protocol of maddock2024 that its notebooks share: one cell is one run, measured in every way
the work measures.

A table is cut into integer codes, split 90/10 once, divided among clients once; only noise and the
sampling of clients vary from run to run (protocol, "Ambiguities", second entry). Errors are against
the training rows, likelihood and AUC on the rows held out. Rows carry the work's names of methods.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals.marginal_state import model_of
from fedsynth_lib.methods.marginals.model_answers import log_likelihood
from fedsynth_lib.metrics.utility import gradient_boosting_auc
from fedsynth_lib.metrics.workload import closure, workload_errors
from fedsynth_lib.runs import names
from fedsynth_lib.runs.grid import Asked
from fedsynth_lib.runs.rows import Row, with_params
from fedsynth_lib.tables import lock, synthfs
from fedsynth_lib.tables.load import Table, load_table, split
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY, view_bins

WORK, DELTA, CLIENTS = "maddock2024", 1e-5, 100
SPLIT_SEED, PARTITION_SEED = 571, 1034  # the work's own [code]
ROWS = {"covertype": 116_203, "census_kdd": 89_786, "intrusion": 197_608}  # subsamples of the work
EPSILONS = (0.5, 1, 2, 4, 8, 16, 32, 64, 100)  # the sweeps of figure 3 [code]
ROUNDS = (2, 4, 8, 10, 16, 32, 64, 100, "annealed")
PARTICIPATIONS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
LABEL_SKEWS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99)
LOCAL_ROUNDS = (1, 5, 10, 20, 30)  # with 1, 2 and 4 local steps
AS_PUBLISHED = {"momentum": False, "to_noise": False, "public_sizes": False}
NAMES: dict[str, tuple[str, dict[str, Any]]] = {  # the work's name -> (registered method, settings)
    "AIM": ("aim", {}),
    "DistAIM": ("distaim", {}),
    "NaiveFLAIM": ("naiveflaim", {}),
    "AugFLAIM (Oracle)": ("augflaim_oracle", {}),
    "AugFLAIM (Private)": ("augflaim_private", {}),
    "FLAIM (Random)": ("flaim_random", {}),
    "FedNaiveBayes": ("fednaivebayes", {}),
    # figure 2: the penalty alone, and the true one with filtering and combining
    "true skew, filter and combine": ("augflaim_private", {"penalty": "true"}),
    "private skew only": ("augflaim_private", {"filter_one_way": False, "combine_one_way": False}),
    # ours: what the penalty is added to there
    "weights only": ("naiveflaim", {"weighted": True}),
}


reachable = partial(lock.reachable, work=WORK)


class Prepared(NamedTuple):
    train: Table
    test: Table
    parts: Parts
    bins: dict[str, int]


@lru_cache(maxsize=3)
def prepared(
    dataset: str, partition: str, n_clients: int, rows: int | None, beta: float | None
) -> Prepared:
    """Training and test rows of a table, the clients' row positions, and the bins of its numeric
    columns.

    partition: `owner` for SynthFS, whose rows say whose they are; `none` for one client that holds
        all.
    beta: of the label skew, or of SynthFS.
    """
    known = dataset in REGISTRY
    if dataset == "synthfs":
        table = load_table(dataset, work=WORK)
        frame = synthfs.generate(seed=PARTITION_SEED, beta=beta or 1.0)
        table = Table(dataset, frame, table.schema, table.data, origin=table.origin)
    else:
        table = load_table(dataset, work=WORK if known else None)
        wanted = min(rows or ROWS.get(dataset, len(table)), len(table))
        if wanted < len(table):
            table = load_table(
                dataset, work=WORK if known else None, rows=wanted, seed=PARTITION_SEED
            )
    train, test = split(table, seed=SPLIT_SEED, test_share=0.1)
    if partition == "none":
        parts = [np.arange(len(train))]
    elif partition == "owner":
        order = stream(SPLIT_SEED, "split").permutation(len(table))[round(0.1 * len(table)) :]
        owner = synthfs.owners()[order]
        parts = [np.flatnonzero(owner == client) for client in range(n_clients)]
    else:
        options = (
            {"alpha": beta, "min_per_class": 1, "min_rows": 1} if partition == "label_skew" else {}
        )
        parts = split_clients(train, partition, n_clients, seed=PARTITION_SEED, **options)
    return Prepared(train, test, parts, view_bins(dataset, WORK) if known else {})


def configured(
    method: str, bins: Mapping[str, int], estimator: str, changes: Mapping[str, Any]
) -> Any:
    """The settings of a method of the work; its module is METHODS[NAMES[method][0]].

    estimator: `published` (mirror descent with a fixed number of iterations, noisy totals, in
        DistAIM equal weights) or `ours` (momentum, stopping at the noise, public totals, weights by
        records).
    """
    if method not in NAMES:
        raise BadInput(f"method {method!r} is unknown: choose one of {', '.join(NAMES)}.")
    if estimator not in ("published", "ours"):
        raise BadInput(f"estimator {estimator!r} is unknown: choose published or ours.")
    key, own = NAMES[method]
    if estimator == "published":
        own = {**own, **AS_PUBLISHED, **({"weighted": False} if method == "DistAIM" else {})}
    return replace(METHODS[key].Config(), **{"by_column": tuple(bins.items()), **own, **changes})


def measure(
    dataset: str,
    method: str,
    epsilon: float,
    seed: int,
    partition: str = "cluster_skew",
    n_clients: int = CLIENTS,
    rounds: int | str = 10,
    participation: float = 0.1,
    beta: float | None = None,
    local_steps: int = 1,
    measure_share: float = 0.9,
    estimator: str = "published",
    rows: int | None = None,
    auc: bool = False,
    table: str = "",
) -> list[Row]:
    """The measurements of one run, as rows.

    workload_error: mean L1 distance over the 64 drawn queries, which is the work's definition 2.2
        and reproduces its printed levels; workload_error_closure: over those and all their
        sub-queries, as its public code averages.
    nll: nats per held-out row, exact. client_throughput_mb: bytes up and down over all rounds, mean
        over all clients.
    rounds: T, or `annealed`. table: digest of the table that the grid was made for; it must be
        that.
    """
    central = method == "AIM"
    prepared_rows = prepared(
        dataset, "none" if central else partition, 1 if central else n_clients, rows, beta
    )
    train, test, parts, bins = prepared_rows
    train.expect(table)
    annealed = rounds == "annealed"
    changes = {"measure_share": measure_share, "annealed": annealed} | (
        {} if annealed else {"rounds": rounds}
    )
    changes |= {} if central else {"participation": participation}
    changes |= {"local_steps": local_steps} if local_steps > 1 else {}
    module = METHODS[NAMES[method][0]]
    config = configured(method, bins, estimator, changes)
    run = settings.federated(
        module,
        train,
        parts,
        config=config,
        privacy=Privacy(epsilon, DELTA, reproduction=True),
        seed=seed,
        num_rows=1,
    )
    encoder = module.encoder(train.schema, config)
    real, held_out = encoder.transform(train.frame), encoder.transform(test.frame)
    codes = module.sample(run.state, len(train), config=config, rng=stream(seed, "sample"))
    workload = [tuple(c for c in query if c >= 0) for query in run.state["workload"].tolist()]
    queries = closure(workload)
    errors = dict(
        zip(queries, workload_errors(real, codes, encoder.domain.levels, queries), strict=True)
    )
    values = {
        "workload_error": np.mean([errors[query] for query in workload]),
        "workload_error_closure": np.mean(list(errors.values())),
        "nll": -log_likelihood(model_of(run.state), held_out).mean(),
        "client_throughput_mb": (run.bytes_up + run.bytes_down) / len(parts) / 1e6,
    }
    if auc and train.schema.target is not None:
        target = train.schema.names.index(train.schema.target)
        values["auc_gbt"] = gradient_boosting_auc(codes, held_out, target, seed=seed)
    shared = {
        "paper": WORK,
        "method": method,
        "data": train.data,
        "setting": "central" if central else "federated",
        "partition": "none" if central else partition,
        "n_clients": None if central else n_clients,
        "seconds": run.seconds,
        "epsilon_spent": run.statement["epsilon_protected"],
        "bytes_up": run.bytes_up,
        "bytes_down": run.bytes_down,
        "unprotected": len(run.statement["unprotected"]),
    }
    return [{**shared, "metric": name, "value": value} for name, value in values.items()]


def measured(grid: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of a few cells with their params, made at once on the table at hand and kept nowhere,
    for lessons."""
    live = [{**cell, "table": ""} for cell in grid]
    params = [Asked.of(measure, cell, version).params for cell in live]
    return pd.DataFrame(
        [
            {**row, "params": text}
            for cell, text in zip(live, params, strict=True)
            for row in measure(**cell)
        ]
    )


SWEPT = {"rounds": None, "participation": 0.1, "beta": None, "local_steps": 1, "measure_share": 0.9}


def unpacked(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with columns for what sweeps vary.

    rounds (missing where annealed, see `annealed`), participation (missing where there are no
    clients), beta, local_rounds (the local steps s), measure_share, and `estimator`. Unpacked rows
    come back as they are.
    """
    rows = with_params(rows, **SWEPT, estimator="published")
    annealed = rows["rounds"] == "annealed"
    # which counts once
    rows["rounds"] = rows["rounds"].mask(annealed | (rows["method"] == "FedNaiveBayes"))
    rows["participation"] = rows["participation"].mask(rows["setting"] == "central")
    rows = rows.assign(annealed=annealed, **{name: pd.to_numeric(rows[name]) for name in SWEPT})
    # no rename: rows that were unpacked before have the column
    return rows.assign(local_rounds=rows["local_steps"]).drop(columns="local_steps")


def cells(datasets: Sequence[str], methods: Sequence[str], seeds: int, **lists: Any) -> list[dict]:
    """Cells of a grid: every combination of tables, methods, seeds 0, 1, ... and of the values of
    `lists`.

    A single value stands for a list of one. A value that is the default of `measure` is left out,
    so that the grids of several sweeps share their cells. Central AIM has no clients: what concerns
    them makes no further cells.
    """
    defaults = {name: each.default for name, each in inspect.signature(measure).parameters.items()}
    lists = {
        name: value if isinstance(value, list | tuple) else [value] for name, value in lists.items()
    }
    found, seen = [], set()
    for dataset, method, *values, seed in product(datasets, methods, *lists.values(), range(seeds)):
        cell = dict(zip(lists, values, strict=True))
        if method == "AIM":
            ours_only = ("participation", "n_clients", "partition") + (
                () if dataset == "synthfs" else ("beta",)
            )
            cell = {name: value for name, value in cell.items() if name not in ours_only}
        cell = {name: value for name, value in cell.items() if value != defaults[name]}
        table = table_digest(dataset, work=WORK if dataset in REGISTRY else None)
        cell = {"dataset": dataset, "method": method, **cell, "seed": seed, "table": table}
        if (key := tuple(cell.items())) not in seen:
            seen.add(key)
            found.append(cell)
    return found


def parameter_study(
    dataset: str,
    *,
    seeds: int,
    step: int = 1,
    longest: int = 100,
    epsilon: float = 1.0,
    **shared: Any,
) -> list[dict]:
    """The cells of figure 3 (and 6 to 10) for one table: budget, rounds, participation, label skew,
    local steps.

    step: every so many values of a sweep, and its usual one. longest: most rounds. shared: `rows`,
        `n_clients`.
    """

    def some(values: Sequence) -> list:
        return [
            v
            for place, v in enumerate(values)
            if place % step == 0 or v in (epsilon, 10, 0.1, "annealed")
        ]

    methods = ["AIM", "DistAIM", "NaiveFLAIM", "AugFLAIM (Oracle)", "AugFLAIM (Private)"]
    clients = shared.get("n_clients", CLIENTS)
    rounds = [t for t in ROUNDS if t == "annealed" or t <= longest]
    shares = [share for share in PARTICIPATIONS if share * clients >= 1]
    shared |= {"epsilon": epsilon}
    skew = {"partition": "label_skew", "beta": some(LABEL_SKEWS)}
    local = {
        "rounds": [t for t in LOCAL_ROUNDS if t <= longest],
        "local_steps": [1, 2, 4],
        "auc": True,
    }
    return [
        *cells([dataset], methods, seeds, **{**shared, "epsilon": some(EPSILONS)}),
        *cells([dataset], methods, seeds, rounds=some(rounds), **shared),
        *cells([dataset], methods[1:], seeds, participation=some(shares), **shared),
        *cells([dataset], methods[1:], seeds, **skew, **shared),
        *cells([dataset], methods[2:], seeds, **local, **shared),
        *cells([dataset], ["DistAIM"], seeds, rounds=local["rounds"], auc=True, **shared),
    ]


MEASURED = ("workload_error", "workload_error_closure", "nll", "client_throughput_mb", "auc_gbt")


def version(cell: Mapping[str, Any]) -> str:
    """The versions that the rows of a cell rest on."""
    return names.version(NAMES[cell["method"]][0], MEASURED)
