"""Code specific to maddock2024: its tables and clients, its networks' noise, its measures.

A table is cut into integer codes, split 90/10 once, and divided among clients once; only noise and
the sampling of clients vary from run to run (protocol, "Ambiguities", second entry). Errors are
against the training rows, likelihood and AUC on the held-out rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.accounting import calibrate
from fedsynth_lib.core.contract import Domain, Method, Privacy, stream
from fedsynth_lib.core.queries import random_workload
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.gan.budget import check
from fedsynth_lib.methods.marginals import marginal_state
from fedsynth_lib.methods.marginals.marginal_state import model_of
from fedsynth_lib.methods.marginals.model_answers import log_likelihood
from fedsynth_lib.metrics.kernel_likelihood import kernel_nll
from fedsynth_lib.metrics.utility import gradient_boosting_auc
from fedsynth_lib.metrics.workload import closure, workload_error, workload_errors
from fedsynth_lib.runs.rows import with_params
from fedsynth_lib.tables import synthfs
from fedsynth_lib.tables.load import Table, split
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY, view_bins
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Made, Prepared

WORK = load("maddock2024")
DELTA, SPLIT_SEED, PARTITION_SEED, SUBSAMPLES, KERNEL_ROWS = (
    WORK.constants[name]
    for name in ("delta", "split_seed", "partition_seed", "subsamples", "kernel_rows")
)
MOST_NOISE = 1e4  # calibration need not look further
LAST_ITERATIONS = 500  # of the last refit [code]


def prepare(dataset: str, rows: int | None = None, beta: float | None = None) -> Prepared:
    """Training and test rows of a table. beta: of SynthFS; it does not count for other tables."""
    return _prepared(dataset, rows, (beta or 1.0) if dataset == "synthfs" else None)


@lru_cache(maxsize=3)
def _prepared(dataset: str, rows: int | None, beta: float | None) -> Prepared:
    table = WORK.table(dataset)
    if dataset == "synthfs":
        frame = synthfs.generate(seed=PARTITION_SEED, beta=beta)
        table = Table(dataset, frame, table.schema, table.data, origin=table.origin)
    elif (wanted := rows or SUBSAMPLES.get(dataset, len(table))) < len(table):
        table = WORK.table(dataset, rows=wanted, seed=PARTITION_SEED)
    return Prepared(*split(table, seed=SPLIT_SEED, test_share=0.1))


def divide(prepared: Prepared, partition: str, n_clients: int, beta: float | None = None) -> Parts:
    """Return the clients' row positions, the same in every run.

    partition: `owner` for SynthFS, whose rows say whose they are. beta: of the label skew.
    """
    if partition == "owner":
        return _by_owner(prepared, n_clients)
    return _divided(prepared.train, partition, n_clients, beta, PARTITION_SEED)


def divide_anew(
    prepared: Prepared, partition: str, n_clients: int, seed: int, beta: float | None = None
) -> Parts:
    """Divide the rows differently for each seed."""
    return _divided(prepared.train, partition, n_clients, beta, PARTITION_SEED + seed)


@lru_cache(maxsize=3)
def _divided(train: Table, partition: str, n_clients: int, beta: float | None, seed: int) -> Parts:
    skewed = {"alpha": beta, "min_per_class": 1, "min_rows": 1}  # no smallest size in this work
    options = skewed if partition == "label_skew" else {}
    return split_clients(train, partition, n_clients, seed=seed, **options)


def _by_owner(prepared: Prepared, n_clients: int) -> Parts:
    """Owners are found again behind the split."""
    number = len(prepared.train) + len(prepared.test)
    order = stream(SPLIT_SEED, "split").permutation(number)[round(0.1 * number) :]
    owner = synthfs.owners()[order]
    return [np.flatnonzero(owner == client) for client in range(n_clients)]


# --- marginal methods ----------------------------------------------------------------------------


def configure(
    dataset: str,
    method: str,
    epsilon: float,
    rounds: int | str,
    participation: float,
    local_steps: int,
    measure_share: float,
) -> tuple[dict[str, Any], Privacy]:
    """Return the settings of one run, and its guarantee. rounds: T, or `annealed`."""
    own: dict[str, Any] = {"by_column": tuple(bins_of(dataset).items())}
    own |= {"measure_share": measure_share, "annealed": rounds == "annealed"}
    own |= {} if rounds == "annealed" else {"rounds": rounds}
    own |= {} if WORK.method(method).setting == "central" else {"participation": participation}
    own |= {"local_steps": local_steps} if local_steps > 1 else {}
    known = METHODS[WORK.method(method).key].Config.__dataclass_fields__  # FedPGM has two rounds
    own = {name: value for name, value in own.items() if name in known}
    return own, Privacy(epsilon, DELTA, reproduction=True)


def bins_of(dataset: str) -> dict[str, int]:
    """Return the bins that the work cuts numeric columns into; none for a table of one's own."""
    return view_bins(dataset, WORK.key) if dataset in REGISTRY else {}


def measures(
    prepared: Prepared,
    parts: Parts,
    made: Made,
    registered: Method,
    config: Any,
    seed: int,
    auc: bool,
) -> dict[str, float]:
    """Return what the work measures of a model.

    workload_error: mean L1 distance over the 64 drawn queries, which is the work's definition 2.2
        and reproduces its published levels; workload_error_closure: over those and all their
        sub-queries, as its public code averages.
    nll: nats per held-out row, exact. client_throughput_mb: bytes up and down over all rounds, mean
        over all clients.
    """
    state, train = made.run.state, prepared.train
    encoder, real, held_out = _encoded(prepared, registered, config)
    codes = registered.sample(state, len(train), config=config, rng=stream(seed, "sample"))
    levels = encoder.domain.levels
    workload = random_workload(len(levels), width=min(3, len(levels)))  # as methods choose by
    queries = closure(workload)
    found = workload_errors(real, codes, levels, queries)
    errors = dict(zip(queries, found, strict=True))
    values = {
        "workload_error": np.mean([errors[query] for query in workload]),
        "workload_error_closure": np.mean(list(errors.values())),
        "nll": -log_likelihood(model_of(state), held_out).mean(),
        "client_throughput_mb": (made.run.bytes_up + made.run.bytes_down) / len(parts) / 1e6,
    }
    if auc and train.schema.target is not None:
        target = train.schema.names.index(train.schema.target)
        values["auc_gbt"] = gradient_boosting_auc(codes, held_out, target, seed=seed)
    return values


def around_the_last_refit(
    prepared: Prepared, made: Made, registered: Method, config: Any
) -> dict[tuple[str, str], float]:
    """Return likelihoods, as in `measures`, before and after the work's last refit.

    The run ends with as many iterations as after each round. `item` is `before` for its own model,
    and `last` for that model after the last refit.
    """
    _, _, held_out = _encoded(prepared, registered, config)
    state, whole = made.run.state, replace(config, final_iterations=LAST_ITERATIONS)
    after = marginal_state.refit(state, whole, last=True, to_noise=True)
    states = {"before": state, "last": after}
    return {
        (name, "nll"): -log_likelihood(model_of(each), held_out).mean()
        for name, each in states.items()
    }


def _encoded(
    prepared: Prepared, registered: Method, config: Any
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the encoder of a method, and the codes of the training and of the test rows."""
    encoder = registered.encoder(prepared.train.schema, config)
    return encoder, *(encoder.transform(part.frame) for part in prepared)


# --- networks of table 1 -------------------------------------------------------------------------


def configure_network(
    prepared: Prepared,
    parts: Parts,
    dataset: str,
    method: str,
    epsilon: float,
    training_rounds: int | None,
) -> tuple[dict[str, Any], Privacy]:
    """Return the settings of one run with all columns in codes, and its guarantee.

    The guarantee covers everything that leaves a client. training_rounds: epochs where central;
    None trains as long as the work does.
    """
    declared = WORK.method(method)
    own = network_settings(method, bins_of(dataset), training_rounds)
    config = METHODS[declared.key].Config(**{**declared.settings, **own})
    check(config)
    domain = METHODS[declared.key].encoder(prepared.train.schema, config).domain
    sizes, privacy = [len(part) for part in parts], Privacy(epsilon, DELTA, reproduction=True)
    noise = noise_of(METHODS[declared.key], domain, sizes, config, privacy)
    return own, Privacy(epsilon, DELTA, reproduction=True, noise_multiplier=noise)


def network_settings(
    method: str, bins: Mapping[str, int], training_rounds: int | None
) -> dict[str, Any]:
    """Return the settings of a network at a number of rounds.

    A federated client takes part at most once more than is expected of it: the work's noise is for
    that number of steps, 51 for 500 rounds [code].
    """
    own: dict[str, Any] = {"bins": None, "by_column": tuple(bins.items())}
    if training_rounds is None:
        return own
    own["training_rounds"] = training_rounds
    if WORK.method(method).setting == "federated":
        participation = METHODS[WORK.method(method).key].Config().participation
        own["most_rounds"] = round(training_rounds * participation) + 1
    return own


def noise_of(
    registered: Method, domain: Domain, sizes: Sequence[int], config: Any, privacy: Privacy
) -> float:
    """Return the smallest noise multiplier within the budget, for clients of these sizes.

    The smallest client pays most: all make the same number of steps, and most of its rows are in
    each. So only that client is calculated (a hundred would take minutes); that all others pay less
    is checked before the run, and after every round.
    """
    fewest = min(sizes)
    return calibrate(
        lambda noise: registered.plan(min(noise, MOST_NOISE), domain, fewest, config), privacy
    )


def measures_of_network(
    prepared: Prepared, made: Made, registered: Method, config: Any, seed: int
) -> dict[str, float]:
    """workload_error: as in `measures`. nll, nll_columns_dropped: see `kernel_nll`."""
    encoder, real, held_out = _encoded(prepared, registered, config)
    codes, many = (
        registered.sample(made.run.state, number, config=config, rng=stream(seed, name))
        for name, number in (
            ("sample", len(prepared.train)),
            ("kernel", KERNEL_ROWS * len(prepared.test)),
        )
    )
    levels = encoder.domain.levels
    workload = random_workload(len(levels), width=min(3, len(levels)))
    nll, dropped = kernel_nll(many, held_out)
    error = workload_error(real, codes, levels, workload)
    return {"workload_error": error, "nll": nll, "nll_columns_dropped": dropped}


def kernels_of_known_rows(prepared: Prepared, dataset: str) -> dict[tuple[str, str], float]:
    """Return `kernel_nll` of the best and the worst to be expected.

    These are the training rows themselves, and codes at random (`item`).
    """
    registered = METHODS[WORK.method("DP-CTGAN").key]
    config = registered.Config(**network_settings("DP-CTGAN", bins_of(dataset), None))
    encoder, real, held_out = _encoded(prepared, registered, config)
    blind = stream(0, "yardstick").integers(0, encoder.domain.levels, size=real.shape)
    known = {"training rows": real, "codes at random": blind}
    return {(name, "nll"): kernel_nll(codes, held_out)[0] for name, codes in known.items()}


# --- rows ----------------------------------------------------------------------------------------

SWEPT = {"rounds": None, "participation": 0.1, "beta": None, "local_steps": 1, "measure_share": 0.9}


def unpacked(rows: pd.DataFrame) -> pd.DataFrame:
    """Add columns to the rows for what sweeps vary.

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
