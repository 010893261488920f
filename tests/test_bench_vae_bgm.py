"""Speed of VAE-BGM's mixture and of the divergence estimate, as ratios in one run: pytest -m bench.

Made-up rows of the study's sizes; processor time, so that other work on the machine does not count.
"""

import time
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from torch import nn
from torch.nn import functional as F

from fedsynth_lib.core.contract import stream
from fedsynth_lib.methods.vae_bgm.latent_mixture import fit
from fedsynth_lib.metrics import divergence
from fedsynth_lib.metrics.divergence import Discriminator, Sizes

pytestmark = pytest.mark.bench
ITERATIONS, EPOCHS = 40, 5


def seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def report(capsys, what, ours, theirs, peer):
    with capsys.disabled():
        threads = torch.get_num_threads()
        print(
            f"\n{what}, {threads} threads: ours {ours:.2f} s, {peer} {theirs:.2f} s, ratio "
            f"{theirs / ours:.1f}"
        )


def test_ten_starts_of_the_latent_mixture_against_scikit_learn(capsys):
    """As many iterations of both, however near they are to their ends; starts by k-means are part
    of both."""
    rng = np.random.default_rng(0)
    centres, turns = rng.normal(size=(30, 20)) * 2, rng.normal(size=(30, 20, 20)) / 20**0.5
    group = rng.integers(30, size=8000)
    rows = centres[group] + np.einsum("nij,nj->ni", turns[group], rng.normal(size=(8000, 20)))
    peer = BayesianGaussianMixture(
        n_components=20, reg_covar=1e-5, max_iter=ITERATIONS, tol=0.0, n_init=10, random_state=0
    )
    own = seconds(
        lambda: fit(rows, components=20, starts=10, seed=0, iterations=ITERATIONS, tolerance=0.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = seconds(lambda: peer.fit(rows))
    report(
        capsys,
        f"{ITERATIONS} iterations of ten starts, 8,000 x 20 rows",
        own,
        theirs,
        "scikit-learn",
    )
    assert peer.n_iter_ == ITERATIONS and theirs / own >= 2


def plain_network(features):
    """The study's discriminator of torch's own layers."""
    layers, inputs = [], features
    for width in divergence.WIDTHS:
        layers += [
            nn.Linear(inputs, width),
            nn.BatchNorm1d(width),
            nn.Dropout(0.5),
            nn.LeakyReLU(0.2),
        ]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def plain_epochs(network, rows, stopping):
    """Full batches, and after each of them the loss of the stopping rows, as the study trains."""
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    labels, others = (
        torch.repeat_interleave(torch.tensor([1.0, 0.0]), len(part) // 2)
        for part in (rows, stopping)
    )
    for _ in range(EPOCHS):
        network.train()
        optimiser.zero_grad()
        F.binary_cross_entropy_with_logits(network(rows)[:, 0], labels).backward()
        optimiser.step()
        network.eval()
        with torch.no_grad():
            F.binary_cross_entropy_with_logits(network(stopping)[:, 0], others).item()


def test_an_epoch_of_the_discriminator_against_torchs_layers(capsys):
    rng = np.random.default_rng(0)
    rows, stopping = (
        torch.from_numpy(rng.normal(size=(number, 22)).astype(np.float32))
        for number in (15_000, 2000)
    )
    own = Discriminator(rows, stream(0))
    plain = plain_network(22)
    work = (
        lambda: own.train(stopping, Sizes(epochs=EPOCHS)),
        lambda: plain_epochs(plain, rows, stopping),
    )
    # turn about, the first not counted
    times = np.array([[seconds(each) for each in work] for _ in range(6)])[1:]
    ours, theirs = np.median(times, axis=0)
    report(capsys, f"{EPOCHS} epochs of 15,000 x 22 rows", ours, theirs, "torch's layers")
    assert theirs / ours >= 2
