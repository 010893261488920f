"""What server and clients agree on before the first round, and a table that each of them draws."""

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import Privacy, stream
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods.marginals import flaim
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

CLIENTS, ROWS = 3, 400
LEVELS = {"colour": 3, "shape": 4, "size": 5}
SEED = 2  # draws one or two clients for a round, and two that choose the same marginal


def toy_table() -> Table:
    """Three columns that depend on each other, from a fixed seed."""
    rng = stream(5, "toy")
    kind = rng.integers(0, 60, ROWS)
    columns, values = [], {}
    for name, levels in LEVELS.items():
        names = tuple(f"{name} {k}" for k in range(levels))
        columns.append(Column(name, "categorical", categories=names))
        codes = np.where(rng.random(ROWS) < 0.7, kind % levels, rng.integers(0, levels, ROWS))
        values[name] = pd.Categorical.from_codes(codes, categories=list(names))
    return Table("toy", pd.DataFrame(values), Schema(tuple(columns)), data="own")


table = toy_table()
parts = np.array_split(stream(5, "parts").permutation(ROWS), CLIENTS)
config = flaim.Config(rounds=1, participation=0.5, iterations=5, final_iterations=5)
privacy = Privacy(2.0, 1e-5)
encoder = flaim.encoder(table.schema, config)
sizes = tuple(map(len, parts))
noise = settings.noise_for(flaim, encoder.domain, sizes, config, privacy)
job = flower.Job(flaim, config, encoder.domain, noise, SEED, CLIENTS, privacy, sizes)
