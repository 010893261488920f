"""VAE-BGM's training in a node: when it stops, its batches, its mixtures and draws, and that it
learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split
from vae_bgm_toys import FAST, PRIVATE, a_network, parts_of, rows_of

from fedsynth_lib.core.contract import BadInput, Noise, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.vae_bgm import training as vae_bgm_training
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.methods.vae_bgm.budget import releases_of
from fedsynth_lib.methods.vae_bgm.likelihood_vae import LikelihoodVae
from fedsynth_lib.methods.vae_bgm.training import (
    Latent,
    draw,
    latent_of,
    train_all,
)
from fedsynth_lib.methods.variants import dp_vae_bgm
from fedsynth_lib.metrics import fidelity


class Scripted(torch.nn.Module):
    """A network whose losses on the stopping rows are told beforehand, epoch by epoch; it remembers
    its batches."""

    def __init__(self, told):
        super().__init__()
        self.weight, self.told, self.batches = torch.nn.Parameter(torch.zeros(1)), iter(told), []

    def losses(self, rows, kept=None):
        if not torch.is_grad_enabled():
            return torch.tensor(float(next(self.told)))
        assert kept.shape == (len(rows), FAST.hidden)
        self.batches.append(rows)
        return self.weight * rows[:, 0]


@pytest.mark.parametrize(
    ("patience", "told", "epochs"),
    [
        (3, [5, 4, 6, 6, 6, 1], 5),  # three epochs without a better one than the second
        (3, [5, 4, 6, 6, 3, 9, 4, 9, 1, 1], 8),  # a better one starts the count anew
        (2, [5, 5, 5, 1], 3),  # as good is not better
        (1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0], 10),  # or all epochs
        (1, [5, float("nan"), 1], 2),
    ],
)
def test_training_stops_after_epochs_without_a_better_loss(patience, told, epochs):
    network, rows = Scripted(told), rows_of(30)
    config = replace(FAST, technique="fedavg", patience=patience, local_epochs=10, batch=100)
    training = train_all([network], rows, 30, config, None, stream(0))
    assert len(network.batches) == epochs
    np.testing.assert_array_equal(
        training, train_test_split(rows, test_size=0.2, random_state=0)[0]
    )


def test_batches_come_in_order_and_each_of_them_is_judged():
    told = [3, 3, 1, 1, 1, 2, 9, 9, 0.1, 0, 0, 0]  # together 7, 4, and 18.1: the third is worse
    network, rows = Scripted(told), rows_of(30)
    config = replace(FAST, technique="fedavg", patience=1, local_epochs=9, batch=10)
    training = train_all([network], rows, 30, config, None, stream(0))
    assert [len(batch) for batch in network.batches] == [10, 10, 4] * 3
    for epoch in range(3):
        np.testing.assert_array_equal(
            torch.cat(network.batches[3 * epoch : 3 * epoch + 3]), training
        )


def test_without_patience_all_rows_train_for_all_epochs():
    network, rows = Scripted([]), rows_of(30)
    config = replace(FAST, technique="isolated", patience=None, local_epochs=4, training_rounds=3)
    np.testing.assert_array_equal(train_all([network], rows, 10, config, None, stream(0)), rows)
    assert [len(batch) for batch in network.batches] == [30] * 12


def test_every_round_has_a_new_optimiser_with_the_published_settings(table, monkeypatch):
    seen, adam = [], torch.optim.Adam
    monkeypatch.setattr(
        torch.optim,
        "Adam",
        lambda parameters, **options: seen.append(options) or adam(parameters, **options),
    )
    settings.federated(
        vae_bgm, table, parts_of(table), config=replace(FAST, networks=2), seed=1, num_rows=10
    )
    assert len(seen) == 2 * 2 * 3 and {(each["lr"], each["betas"]) for each in seen} == {
        (1e-3, (0.9, 0.9))
    }


def test_dropout_has_its_share_and_keeps_the_mean():
    config = replace(FAST, dropout=0.2, hidden=256)
    kept = vae_bgm_training._kept(2000, config, stream(0))
    assert kept.shape == (2000, 256) and kept.unique().tolist() == [0, pytest.approx(1.25)]
    assert (kept == 0).float().mean().item() == pytest.approx(0.2, abs=5 * 0.4 / 512_000**0.5)
    assert abs(np.corrcoef(kept[:-1].ravel(), kept[1:].ravel())[0, 1]) < 0.01
    assert vae_bgm_training._kept(3, replace(config, dropout=0.0), stream(0)).unique().tolist() == [
        1
    ]


# --- mixtures and draws


def test_latent_means_of_the_rows_make_the_mixture_and_their_log_variances_the_average():
    network, rows = a_network().train(), rows_of(60)
    with torch.no_grad():
        means, log_variances = network.encode(torch.from_numpy(rows))
    one = latent_of(network, rows, None, replace(FAST, components=1), None, stream(0))
    np.testing.assert_allclose(one.means[0], means.mean(dim=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.log_variances, log_variances.mean(dim=0), rtol=1e-4, atol=1e-5)
    releases = releases_of(1e-9, 2, 60, PRIVATE)
    noisy = latent_of(network, rows, releases, PRIVATE, Noise(1e-9, stream(1)), stream(0))
    np.testing.assert_allclose(noisy.log_variances, one.log_variances, atol=1e-3)


def test_draws_decode_a_mean_of_the_mixture_with_noise_of_the_common_variance(monkeypatch):
    monkeypatch.setattr(LikelihoodVae, "draw", lambda self, vectors: vectors)
    covariance = np.array([[[0.5, 0.3], [0.3, 0.4]]])
    latent = Latent(np.ones(1), np.array([[3.0, -1.0]]), covariance, np.log([0.25, 4.0]))
    network = a_network().train()
    vectors = draw(network, latent, 25_000, stream(0))
    assert vectors.shape == (25_000, 2) and vectors.dtype == np.float32 and not network.training
    assert draw(network, latent, 0, stream(0)).shape[0] == 0
    np.testing.assert_allclose(vectors.mean(axis=0), [3, -1], atol=5 * (4.4 / 25_000) ** 0.5)
    np.testing.assert_allclose(
        np.cov(vectors.T), covariance[0] + np.diag([0.25, 4.0]), atol=5 * 4.4 * (2 / 25_000) ** 0.5
    )


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("method", [vae_bgm, dp_vae_bgm])
def test_a_node_with_hardly_a_row_works_or_is_told_its_number_of_rows(table, method, number):
    config, privacy = (
        (PRIVATE, Privacy(1.0, 1e-5)) if method is dp_vae_bgm else (replace(FAST, patience=9), None)
    )
    parts = [np.arange(number), np.arange(100, 200)]
    try:
        found = settings.federated(method, table, parts, config=config, privacy=privacy, seed=1)
    except BadInput as refusal:
        assert f"two rows and got {number}" in str(refusal) and method is vae_bgm
    else:
        assert len(found.synthetic) == 100 + number


@pytest.mark.slow
def test_it_learns_how_columns_hang_together(table):
    config = vae_bgm.Config(
        "isolated", training_rounds=1, local_epochs=80, networks=1, batch=100, hidden=32, latent=4
    )
    config = replace(config, components=5, starts=1, learning_rate=5e-3, patience=None)
    found = settings.federated(
        vae_bgm, table, [np.arange(700)], config=config, seed=1, num_rows=3000
    )
    real, made = (
        fidelity.associations(frame, table.schema) for frame in (table.frame, found.synthetic)
    )
    age, weight, ill = 0, 1, 4
    assert made[age, weight] == pytest.approx(real[age, weight], abs=0.15)
    assert made[age, ill] == pytest.approx(real[age, ill], abs=0.15)
    assert fidelity.hellinger(table.frame, found.synthetic, table.schema, bins=20) < 0.1
