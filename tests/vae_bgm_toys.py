"""Small nodes, rows and networks for the tests of VAE-BGM; the columns are those of the table in
conftest."""

import numpy as np
import torch

from fedsynth_lib.core.contract import stream
from fedsynth_lib.methods.vae_bgm import training as vae_bgm_training
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.methods.variants import dp_vae_bgm

LEVELS = np.array([0, 0, 2, 4, 2])  # age and weight, smokes, region, ill
NUMBERS = LEVELS == 0
TECHNIQUES = ("isolated", "fedavg", "sds")
SMALL = {
    "training_rounds": 2,
    "batch": 40,
    "hidden": 6,
    "latent": 2,
    "shared_rows": 30,
    "starts": 1,
    "components": 2,
}
FAST = vae_bgm.Config(**SMALL, local_epochs=2, networks=1, dropout=0.0)
PRIVATE = dp_vae_bgm.Config(**SMALL, local_epochs=2, mixture_steps=3)


def parts_of(table, sizes=(120, 40, 80)):
    """Row positions of nodes with so many rows, in random order."""
    return np.split(
        stream(3, "parts").permutation(len(table.frame))[: sum(sizes)], np.cumsum(sizes)[:-1]
    )


def encoded(table, sizes=(120, 40, 80)):
    """The rows of such nodes as their clients hold them."""
    rows = vae_bgm.encoder(table.schema, FAST).transform(table.frame)
    return [rows[part] for part in parts_of(table, sizes)]


def rows_of(number, seed=0):
    """Standardised rows without any dependence, float32."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=number) if k == 0 else rng.integers(k, size=number) for k in LEVELS]
    return np.stack(columns, axis=1).astype(np.float32)


def a_network(config=FAST):
    """The same each time."""
    torch.manual_seed(1)
    return vae_bgm_training.untrained(LEVELS, config)[0]
