"""Speed of FedVAE on real Adult rows, as ratios in one run: pytest -m bench.

They need the real table (FEDSYNTH_MIRROR or data/raw) and a machine that does nothing else.
"""

import time

import numpy as np
import pytest
import torch

from fedsynth_lib.core.contract import Client, Noise, stream
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.tables.load import load_table

pytestmark = pytest.mark.bench
# its own sizes
TVAE = fedvae.Config(training_rounds=1, local_epochs=1, batch=500, hidden=(128, 128), embedding=128)


@pytest.fixture(scope="module")
def an_epoch():
    """A function of the noise that trains for one epoch on all 32,561 rows, encoded beforehand, and
    its seconds."""
    table = load_table("adult", work="martinez2024")
    encoder = fedvae.encoder(table.schema, TVAE)
    client = Client(encoder.transform(table.frame), 0, 1)
    state = fedvae.start(encoder.domain, TVAE, stream(0))
    update = fedvae.client_step(state, client, TVAE, None, stream(1))
    state, _ = fedvae.server_step(state, [update], TVAE, None, stream(2))

    def train(noise):
        begin = time.perf_counter()
        fedvae.client_step(state, client, TVAE, noise, stream(3))
        return time.perf_counter() - begin

    return train


def test_a_private_epoch_against_an_ordinary_one(an_epoch, capsys):
    noise = Noise(2.0, stream(0, "noise"))
    # turn about, the first not counted
    times = np.array([[an_epoch(None), an_epoch(noise)] for _ in range(9)])[1:]
    ordinary, private = np.median(times, axis=0)
    with capsys.disabled():
        threads = torch.get_num_threads()
        print(
            f"\nepoch of FedVAE, 32,561 rows by 500, {threads} threads: {ordinary:.3f} s, "
            f"private {private:.3f} s"
        )
        print(f"private / ordinary {private / ordinary:.2f}")
    assert private / ordinary < 1.5
