"""How FedVAE's clients agree on the Gaussian mixtures of numeric columns.

Categories are declared, so the clients have nothing to agree on there.
"""

from collections.abc import Sequence

import numpy as np

from fedsynth_lib.core.accounting import gaussian_counts
from fedsynth_lib.core.contract import Arrays, Charge, Noise, Update
from fedsynth_lib.methods.gan import budget
from fedsynth_lib.methods.gan.encoding import (
    FLOOR,
    LEAST_WEIGHT,
    bin_counts,
    fitted,
    from_histogram,
    redrawn,
    stacked,
    unstacked,
)
from fedsynth_lib.tables import modes

HISTOGRAMS = "histograms of numeric columns"
WHAT = {
    "pooled": "numeric columns, value by value",
    "federated": "Gaussian mixtures of numeric columns",
    "histograms": HISTOGRAMS,
}


def client_encoding(
    numbers: np.ndarray,
    size: int,
    state: Arrays,
    config,
    noise: Noise | None,
    rng: np.random.Generator,
    steps: int,
) -> Update:
    """Return a client's part of one encoding round.

    numbers: (rows, numeric columns) in [0, 1]. size: the declared number of rows. steps: of its
        training.
    """
    if not numbers.shape[1]:
        return Update()
    spent = [Charge(WHAT[config.encoding], "unprotected")]
    if config.encoding == "federated":
        return Update(fitted(numbers, state, config, rng), spent=spent)
    if config.encoding == "pooled":
        arrays = {}
        for j, column in enumerate(numbers.T):
            arrays[f"values/{j}"], arrays[f"counts/{j}"] = np.unique(column, return_counts=True)
        return Update(arrays, spent=spent)
    bins, columns = config.histogram_bins, numbers.shape[1]
    counts, spread = bin_counts(numbers, bins), 0.0
    if noise is not None:
        spent = histogram_charges(noise.multiplier, columns, size, config, steps)
        counts = gaussian_counts(
            counts, spent[0].noise, l2_sensitivity=spent[0].sensitivity, noise=noise
        )
        spread = spent[0].noise * spent[0].sensitivity
    arrays = {"histograms": counts.reshape(columns, bins).astype(float), "spread": np.array(spread)}
    return Update(arrays, spent=spent)


def histogram_charges(
    noise_multiplier: float, columns: int, num_rows: int, config, steps: int
) -> list[Charge]:
    """One noisy histogram of each numeric column, at about `histogram_share` of the budget.

    One more row raises one cell of each column by 1, an L2 distance of sqrt(columns).
    """
    if config.encoding != "histograms" or not columns:
        return []
    scale = float(budget.histogram_noise(noise_multiplier, num_rows, config, steps))
    return [Charge(HISTOGRAMS, "gaussian", noise=scale, sensitivity=float(np.sqrt(columns)))]


def server_encoding(
    state: Arrays, updates: Sequence[Update], config, rng: np.random.Generator
) -> Arrays:
    """Return the mixtures of the numeric columns, put together from what the clients sent.

    Arrays: `weights`, `means`, `deviations`, each (numeric columns, modes).
    """
    columns = int((state["levels"] == 0).sum())
    parts = [update.arrays for update in updates]
    if not columns:
        return stacked([], config.modes)
    if config.encoding == "pooled":
        mixtures = [_pooled(parts, j, config, rng) for j in range(columns)]
    elif config.encoding == "histograms":
        spread = np.sqrt(np.sum([part["spread"] ** 2 for part in parts]))
        mixtures = [
            from_histogram(counts, spread, rng)
            for counts in np.sum([p["histograms"] for p in parts], axis=0)
        ]
    else:
        clients = [unstacked(part) for part in parts]
        if state["round"] + 1 < config.encoding_rounds:
            mixtures = [modes.average(column) for column in zip(*clients, strict=True)]
        else:
            draws = redrawn(clients, np.array([update.num_rows for update in updates]), rng)
            mixtures = [
                _variational(*np.unique(np.concatenate(c), return_counts=True), config, rng)
                for c in draws
            ]
    return stacked(mixtures, config.modes)


def _pooled(parts: Sequence[Arrays], j: int, config, rng: np.random.Generator) -> modes.Mixture:
    """Return the mixture of column `j`, fitted to the values that all clients handed in."""
    values, where = np.unique(
        np.concatenate([part[f"values/{j}"] for part in parts]), return_inverse=True
    )
    counts = np.bincount(where, weights=np.concatenate([part[f"counts/{j}"] for part in parts]))
    return _variational(values, counts, config, rng)


def _variational(
    values: np.ndarray, counts: np.ndarray, config, rng: np.random.Generator
) -> modes.Mixture:
    options = {"least_weight": LEAST_WEIGHT, "floor": FLOOR, "seed": int(rng.integers(2**31))}
    return modes.fit_variational(values, counts=counts, modes=config.modes, **options)
