"""The two DP-CTGANs of maddock2024's table 1, measured as the work measures them (protocol,
"Baselines", "Metrics").

Rows, clients and workload are those of `flaim_study`, and every column is cut into the same codes.
A network gives rows but no probabilities, so its likelihood is that of a kernel density over codes
taken as real numbers. That is another quantity than the exact likelihood of a marginal method,
which is a probability of cells: widths of kernels enter it, and it may even be negative.

The budget covers everything that leaves a client (see `methods/variants.py`). Training is the
work's: generators start at random and are not told when they miss a condition [code], unlike those
of our own defaults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import gaussian_kde

from fedsynth_lib.core.accounting import calibrate
from fedsynth_lib.core.contract import BadInput, Domain, Method, Privacy, stream
from fedsynth_lib.core.queries import random_workload
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.gan.budget import Settings, check
from fedsynth_lib.metrics.workload import workload_error
from fedsynth_lib.runs import names
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.tables.registry import REGISTRY
from fedsynth_lib.works import flaim_study
from fedsynth_lib.works.flaim_study import CLIENTS, DELTA, WORK

CENTRAL, FEDERATED = "DP-CTGAN", "Fed DP-CTGAN"
RELEASES = ("encoding", "sampling")  # of the published scheme, what no budget covers
TRAINING = {"discriminator_rate": 1e-3, "generator_rate": 1e-5} | {
    name: value for name, value in METHODS["dpctgan"].AS_PUBLISHED.items() if name not in RELEASES
}
NAMES: dict[str, tuple[str, dict[str, Any]]] = {  # the work's name -> (registered method, settings)
    # a round is an epoch
    CENTRAL: ("dpctgan", {**TRAINING, "training_rounds": 20, "local_epochs": 1, "batch": 128}),
    FEDERATED: ("feddpctgan", TRAINING),
}
KERNEL_ROWS = 10  # synthetic rows for each test row [code]
MOST_NOISE = 1e4  # calibration need not look further


def kernel_nll(synthetic_codes: np.ndarray, test_codes: np.ndarray) -> tuple[float, int]:
    """Mean of -log density over the test rows in nats, and how many columns were dropped for it.

    Both (rows, columns) of integer codes. The density is `scipy.stats.gaussian_kde` of the
    synthetic rows as it comes. A column in which they all agree has no width and is dropped from
    both (the work's "filtered" likelihood; the one of all columns is then infinite). So is one that
    is a linear function of those before it: that rule is ours, the work has no value there, for
    scipy refuses it. Infinite where no column is left.
    """
    synthetic, test = (np.asarray(codes, dtype=float) for codes in (synthetic_codes, test_codes))
    if synthetic.ndim != 2 or test.ndim != 2 or synthetic.shape[1] != test.shape[1]:
        raise BadInput(
            f"codes have shapes {synthetic.shape} and {test.shape}: give two tables "
            "with the same columns."
        )
    if len(synthetic) < 2 or not len(test):
        raise BadInput(
            f"there are {len(synthetic)} synthetic and {len(test)} test rows: a density needs 2 "
            "and 1 or more."
        )
    kept = independent_columns(synthetic)
    if not kept:
        return np.inf, synthetic.shape[1]
    density = gaussian_kde(synthetic[:, kept].T)
    return float(-density.logpdf(test[:, kept].T).mean()), synthetic.shape[1] - len(kept)


def independent_columns(rows: np.ndarray) -> list[int]:
    """Positions of the columns that vary and are no linear function of those kept before them."""
    varying = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    together = np.atleast_2d(np.corrcoef(rows[:, varying].T)) if len(varying) else np.empty((0, 0))
    kept: list[int] = []
    for place in range(len(varying)):
        tried = [*kept, place]
        if np.linalg.matrix_rank(together[np.ix_(tried, tried)], tol=1e-9, hermitian=True) == len(
            tried
        ):
            kept = tried
    return varying[kept].tolist()


def configured(method: str, bins: Mapping[str, int], training_rounds: int | None) -> Settings:
    """The settings of a method of the work, all columns in codes; `training_rounds` None trains as
    long as it does.

    Central rounds are epochs. A federated client takes part at most once more than is expected of
    it: the work's noise is for as many steps, 51 for 500 rounds [code].
    """
    key, own = _known(method)
    config = replace(METHODS[key].Config(), **own, bins=None, by_column=tuple(bins.items()))
    if training_rounds is not None:
        limit = (
            {"most_rounds": round(training_rounds * config.participation) + 1}
            if method == FEDERATED
            else {}
        )
        config = replace(config, training_rounds=training_rounds, **limit)
    check(config)
    return config


def noise_of(
    module: Method, domain: Domain, sizes: Sequence[int], config: Settings, privacy: Privacy
) -> float:
    """The smallest noise multiplier within the budget, for clients of these sizes.

    The smallest client pays most: all make as many steps, and most of its rows are in each. So it
    alone is looked at (a hundred would take minutes); that all others pay less is checked before
    the run, and after every round.
    """
    fewest = min(sizes)
    return calibrate(
        lambda noise: module.plan(min(noise, MOST_NOISE), domain, fewest, config), privacy
    )


def measure(
    dataset: str,
    method: str,
    epsilon: float,
    seed: int,
    n_clients: int = CLIENTS,
    rows: int | None = None,
    training_rounds: int | None = None,
    table: str = "",
) -> list[Row]:
    """The measurements of one run, as rows.

    workload_error: as in `flaim_study.measure`. nll, nll_columns_dropped: see `kernel_nll`.
    training_rounds: epochs of the central method; None: 20 epochs, 500 rounds. table: digest of the
    table that the grid was made for; it must be that.
    """
    module, central = METHODS[_known(method)[0]], method == CENTRAL
    partition, clients = ("none", 1) if central else ("cluster_skew", n_clients)
    train, test, parts, bins = flaim_study.prepared(dataset, partition, clients, rows, None)
    train.expect(table)
    config = configured(method, bins, training_rounds)
    encoder = module.encoder(train.schema, config)
    privacy = Privacy(epsilon, DELTA, reproduction=True)
    noise = noise_of(module, encoder.domain, [len(part) for part in parts], config, privacy)
    privacy = replace(privacy, noise_multiplier=noise)
    run = settings.federated(
        module, train, parts, config=config, privacy=privacy, seed=seed, num_rows=1
    )
    real, held_out = encoder.transform(train.frame), encoder.transform(test.frame)
    codes, many = (
        module.sample(run.state, number, config=config, rng=stream(seed, name))
        for name, number in (("sample", len(train)), ("kernel", KERNEL_ROWS * len(test)))
    )
    levels = encoder.domain.levels
    nll, dropped = kernel_nll(many, held_out)
    values = {
        "workload_error": workload_error(
            real, codes, levels, random_workload(len(levels), width=min(3, len(levels)))
        ),
        "nll": nll,
        "nll_columns_dropped": dropped,
    }
    shared: Row = {
        "paper": WORK,
        "method": method,
        "data": train.data,
        "setting": "central" if central else "federated",
        "partition": partition,
        "n_clients": None if central else n_clients,
        "seconds": run.seconds,
        "epsilon_spent": run.statement["epsilon_protected"],
        "bytes_up": run.bytes_up,
        "bytes_down": run.bytes_down,
        "unprotected": len(run.statement["unprotected"]),
    }
    return [{**shared, "metric": name, "value": value} for name, value in values.items()]


def yardsticks(dataset: str, rows: int | None = None, table: str = "") -> list[Row]:
    """`kernel_nll` of the best and the worst to be expected: the training rows themselves, and
    codes at random.

    table: digest of the table that the grid was made for. Which of the two a row is of stands in
        `item`.
    """
    train, test, _, bins = flaim_study.prepared(dataset, "none", 1, rows, None)
    train.expect(table)
    config = configured(CENTRAL, bins, None)
    encoder = METHODS[NAMES[CENTRAL][0]].encoder(train.schema, config)
    real, held_out = encoder.transform(train.frame), encoder.transform(test.frame)
    blind = stream(0, "yardstick").integers(0, encoder.domain.levels, size=real.shape)
    shared: Row = {
        "paper": WORK,
        "data": train.data,
        "partition": "none",
        "setting": "real",
        "metric": "nll",
    }
    known = {"training rows": real, "codes at random": blind}
    return [
        {**shared, "item": name, "value": kernel_nll(codes, held_out)[0]}
        for name, codes in known.items()
    ]


def cells(
    datasets: Sequence[str],
    seeds: int,
    *,
    epsilon: float,
    rows: int | None = None,
    n_clients: int = CLIENTS,
    training_rounds: Mapping[str, int] | None = None,
) -> list[dict]:
    """Cells of a grid: both methods on every table with seeds 0, 1, ...; what is the default of
    `measure` is left out.

    training_rounds: of a method, where it is not to train as long as in the work.
    """
    found = []
    for dataset in datasets:
        table = table_digest(dataset, work=WORK if dataset in REGISTRY else None)
        for method in NAMES:
            own = {"rows": rows, "training_rounds": (training_rounds or {}).get(method)}
            own = {name: value for name, value in own.items() if value is not None}
            own |= {"n_clients": n_clients} if method == FEDERATED and n_clients != CLIENTS else {}
            shared = {"dataset": dataset, "method": method, "epsilon": epsilon, **own}
            found += [{**shared, "seed": seed, "table": table} for seed in range(seeds)]
    return found


def version(cell: Mapping[str, Any]) -> str:
    """The versions that the rows of a cell rest on."""
    return names.version(
        _known(cell["method"])[0], ("workload_error", "nll", "nll_columns_dropped")
    )


def _known(method: str) -> tuple[str, dict[str, Any]]:
    if method not in NAMES:
        raise BadInput(f"method {method!r} is unknown: choose one of {', '.join(NAMES)}.")
    return NAMES[method]
