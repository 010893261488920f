"""Facts of leitner2023's real tables that need no network: measures of cells that train nothing.

They take little time but need the real rows. They are kept as result rows, so that no table is
needed later.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from fedsynth_lib.core import composition
from fedsynth_lib.core.contract import stream
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.gan import encoding as gan_encoding
from fedsynth_lib.metrics.marginal_distances import jensen_shannon, wasserstein
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables import modes
from fedsynth_lib.tables.modes import Mixture
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.works.protocol import Prepared

# of CTGAN's encoding (table 5.3), and rounds of algorithm 4.1
MOST_MODES, LEAST_WEIGHT, EXCHANGES = 10, 0.005, 5
LIMITS: dict[str, Mapping[str, float]] = {  # of the iterations of a variational fit
    "100 iterations (default)": {},
    "to the end": {"iterations": 2000, "tolerance": 1e-6},
}
PARTS = {"weight": "weights", "mean": "means", "deviation": "deviations"}  # of a mixture


def counts(prepared: Prepared) -> dict[str, float]:
    """Count what table 5.1 does: training and test rows, numeric and categorical columns."""
    schema = prepared.train.schema
    kinds = {"n_continuous": len(schema.numeric), "n_discrete": len(schema.categorical)}
    return {"n_train": len(prepared.train), "n_test": len(prepared.test), **kinds}


def yardsticks(prepared: Prepared) -> dict[str, float]:
    """Measure what synthetic rows are compared with: held-out real rows, and a constant guess.

    accuracy_guess: of always answering the most frequent class of the training rows. jsd_held_out,
    wd_held_out: the distances of the held-out rows from the training rows. n_train, n_test: their
    numbers.
    """
    train, test = prepared
    target, tables = train.schema.target, (train.frame, test.frame, train.schema)
    return {
        **{"n_train": len(train), "n_test": len(test)},
        "accuracy_guess": float((test.frame[target] == train.frame[target].mode()[0]).mean()),
        **{"jsd_held_out": jensen_shannon(*tables), "wd_held_out": wasserstein(*tables)},
    }


def exposure(prepared: Prepared, n_clients: int, batch: int) -> dict[tuple[str, str], float]:
    """Return the chance that a row of one client is in a batch that algorithm 4.2 draws.

    Beside it is the chance that the accountant assumes.
    """
    train = prepared.train
    own = train.take(split_clients(train, "iid", n_clients, seed=0)[0])
    chance = composition.chance_in_batch(own.frame[list(own.schema.categorical)], batch)
    found = {"assumed": min(1, batch / len(own)), "median row": np.median(chance)}
    found["most exposed row"] = chance.max()
    chances = {(who, "chance_in_batch"): float(p) for who, p in found.items()}
    return {("", "n_train"): len(own), **chances}


def weighting(prepared: Prepared, parts: Parts) -> list[Row]:
    """Return Fed-TGAN's weights of three clients, computed on their own rows.

    They are those of `gan_encoding.similarity_weights`.

    client_rows: of each. distance_part: its part of the distances from all rows, summed over
    columns.
    """
    encoded, held, levels = _encoded(prepared, parts)
    distances = client_distances(encoded, held, levels)
    part = (distances / distances.sum(axis=1, keepdims=True)).sum(axis=0)
    sizes = np.array(list(map(len, held)))
    codes = [gan_encoding.codes_of(own, levels) for own in held]
    counts = [gan_encoding.category_counts(own, levels) for own in codes]
    numbers = list(zip(*(gan_encoding.numbers_of(own, levels).T for own in held), strict=True))
    weights = gan_encoding.similarity_weights(sizes, counts, levels, numbers)
    facts = {"client_rows": sizes, "distance_part": part / part.sum()}
    facts["weight_by_similarity"] = weights
    return [
        {"metric": metric, "node": str(client), "value": float(value)}
        for metric, values in facts.items()
        for client, value in enumerate(values, start=1)
    ]


def _encoded(prepared: Prepared, parts: Parts) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Encode all training rows as Fed-TGAN sees them, and each client's.

    Also returned are the numbers of categories of the columns.
    """
    train, method = prepared.train, METHODS["fedtgan"]
    encoder = method.encoder(train.schema, method.Config())
    encoded = encoder.transform(train.frame)
    return encoded, [encoded[part] for part in parts], np.array(encoder.domain.levels)


def distances(prepared: Prepared, parts: Parts) -> pd.DataFrame:
    """`client_distances` of the training rows, a line for each column."""
    names = [f"client {number + 1}" for number in range(len(parts))]
    found = client_distances(*_encoded(prepared, parts))
    return pd.DataFrame(found, prepared.train.schema.names, names)


def client_distances(encoded: np.ndarray, held: list[np.ndarray], levels: np.ndarray) -> np.ndarray:
    """(columns, clients): how far each client's column is from that of all rows together.

    Jensen-Shannon of categories, Wasserstein of numbers (levels 0). encoded: (rows, columns) of all
    clients.
    """
    found = []
    for column, whole in enumerate(encoded.T):
        if levels[column]:
            codes = [own[:, column].astype(int) for own in [encoded, *held]]
            shares = [np.bincount(own, minlength=levels[column]) for own in codes]
            found.append([jensenshannon(own, shares[0]) for own in shares[1:]])
        else:
            found.append([wasserstein_distance(own[:, column], whole) for own in held])
    return np.nan_to_num(np.array(found))


# --- mixtures ------------------------------------------------------------------------------------


def central_mixture(prepared: Prepared, column: str, seed: int) -> dict[tuple[str, str], float]:
    """Fit the variational mixture of a numeric column of all training rows.

    The result is what `mixture` reads.
    """
    values = prepared.train.frame[column].to_numpy(float)
    return _values(modes.fit_variational(values, least_weight=LEAST_WEIGHT, seed=seed))


def agreed_mixture(
    prepared: Prepared, column: str, seed: int, n_clients: int
) -> dict[tuple[str, str], float]:
    """Return the mixture that clients agree on (`exchange`), with rows dealt evenly.

    seed: of everything that is drawn.
    """
    train = prepared.train
    values = train.frame[column].to_numpy(float)
    held = [values[part] for part in split_clients(train, "iid", n_clients, seed=seed)]
    agreed, _ = exchange(held, seed=seed)
    return _values(agreed)


def exchange(held: list[np.ndarray], *, seed: int) -> tuple[Mixture, list[Mixture]]:
    """Algorithm 4.1 for one column: the agreed mixture, and what each client sent last.

    In each round every client fits an ordinary mixture from the shared start, and the server
    averages modes by their order; then it draws from every client's mixture and fits a variational
    one to the draws. held: values by client.
    """
    shared: Mixture | None = None
    for _ in range(EXCHANGES):
        starts = [shared or modes.start_by_k_means(own, MOST_MODES, seed=seed) for own in held]
        sent = [modes.fit(own, start).by_mean() for own, start in zip(held, starts, strict=True)]
        shared = modes.average(sent)
    rng = stream(seed, "draws of the server")
    drawn = [mixture.draw(len(own), rng) for mixture, own in zip(sent, held, strict=True)]
    return modes.fit_variational(np.concatenate(drawn), least_weight=LEAST_WEIGHT, seed=seed), sent


def mode_count(
    prepared: Prepared, column: str, number: int, seed: int
) -> dict[tuple[str, str], float]:
    """Count the modes of a sample of `number` values, with each of LIMITS (`item`).

    seed: of the sample.
    """
    values = prepared.train.frame[column].to_numpy(float)
    own = stream(seed, "ages").choice(values, number, replace=False)
    found = {
        name: modes.fit_variational(own, least_weight=LEAST_WEIGHT, seed=0, **limits)
        for name, limits in LIMITS.items()
    }
    return {(name, "modes"): len(mixture.weights) for name, mixture in found.items()}


def mixture(rows: pd.DataFrame) -> Mixture:
    """Read the mixture that the result rows of one cell hold."""
    parts = {
        metric: own.assign(mode=own["item"].astype(int)).sort_values("mode")
        for metric, own in rows.groupby("metric")
    }
    return Mixture(*(parts[f"mixture_{name}"]["value"].to_numpy() for name in PARTS))


def _values(found: Mixture) -> dict[tuple[str, str], float]:
    """Return a mixture as measurements, in which `item` numbers its modes."""
    return {
        (str(mode), f"mixture_{name}"): float(value)
        for name, attribute in PARTS.items()
        for mode, value in enumerate(getattr(found, attribute))
    }
