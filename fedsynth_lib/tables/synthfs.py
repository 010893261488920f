"""SynthFS of maddock2024: a table of feature-skewed clients, made from nothing but a seed.

For each client and column a mean is drawn from a finite Zipf law; the client's values lie
around it with deviation 1 and are cut at 40 equally spaced edges. A large `beta` puts nearly every
mean at 1, so that clients are alike; a small one spreads them.
"""

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream

NUM_ZIPF = 40  # support of the Zipf law, 1..40
EDGES = np.linspace(0, 40, 40)  # 41 levels, 0..40


def generate(
    *,
    seed: int,
    beta: float = 1.0,
    num_clients: int = 100,
    rows_per_client: int = 500,
    num_columns: int = 10,
) -> pd.DataFrame:
    """Return a frame of whole numbers 0..40, columns v1, v2, ....

    Client k holds the k-th block of `rows_per_client` rows.

    beta: exponent of the Zipf law (the work sweeps 1 to 5); it must be positive.
    """
    if beta <= 0 or min(num_clients, rows_per_client, num_columns) < 1:
        raise BadInput("synthfs: beta must be positive, and clients, rows and columns at least 1.")
    rng = stream(seed, "synthfs")
    share = np.arange(1, NUM_ZIPF + 1) ** -float(beta)
    means = rng.choice(
        np.arange(1, NUM_ZIPF + 1), size=(num_clients, 1, num_columns), p=share / share.sum()
    )
    values = rng.normal(means, 1.0, size=(num_clients, rows_per_client, num_columns))
    levels = np.digitize(values.reshape(-1, num_columns), EDGES)  # (rows, columns)
    return pd.DataFrame(levels, columns=[f"v{number}" for number in range(1, num_columns + 1)])


def owners(*, num_clients: int = 100, rows_per_client: int = 500) -> np.ndarray:
    """Return the client of each row that `generate` makes, shape (rows,)."""
    return np.repeat(np.arange(num_clients), rows_per_client)
