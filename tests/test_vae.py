"""The autoencoder: its loss against torch's own densities row by row, its private gradients, and
its decoding."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.vae.vae import NARROWEST, WIDEST, Vae

LAYOUT = Layout(modes=(3, 2), categories=(4, 2, 5))


def rows_of(layout, number, seed=0):
    torch.manual_seed(seed)
    rows = torch.zeros(number, layout.width)
    rows[:, : layout.numbers] = 2 * torch.rand(number, layout.numbers) - 1
    start = layout.numbers
    for width in layout.blocks:
        rows[torch.arange(number), start + torch.randint(width, (number,))] = 1
        start += width
    return rows


@pytest.fixture
def network():
    torch.manual_seed(1)
    return Vae(LAYOUT, (6, 7), 3)


def loss_by_hand(network, row, latent_noise, loss_factor):
    """The negative evidence bound of one row from torch.distributions, without constants of the
    normal density."""
    mean, log_variance = network.encoder(row).chunk(2)
    posterior = Normal(mean, torch.exp(0.5 * log_variance))
    raw = network.decoder(mean + posterior.stddev * latent_noise)
    numbers, likelihood = LAYOUT.numbers, 0.0
    for column in range(numbers):
        spread = network.spread.weight[column, 0]
        likelihood = (
            likelihood
            + Normal(raw[column].tanh(), spread).log_prob(row[column])
            + 0.5 * np.log(2 * np.pi)
        )
    start = numbers
    for width in LAYOUT.blocks:
        block = raw[start : start + width].log_softmax(dim=0)
        likelihood = likelihood + block[row[start : start + width].argmax()]
        start += width
    return (
        -loss_factor * likelihood
        + kl_divergence(posterior, Normal(torch.zeros(3), torch.ones(3))).sum()
    )


def test_losses_are_the_evidence_bound_of_each_row(network):
    rows = rows_of(LAYOUT, 5)
    with torch.no_grad():
        # far apart: sums must not overflow
        network.decoder[-1].bias[2:5] = torch.tensor([200.0, 0.0, -200.0])
        noise = torch.randn(5, 3)
        found = network.losses(rows, 4.0, noise)
        expected = torch.stack(
            [loss_by_hand(network, row, own, 4.0) for row, own in zip(rows, noise, strict=True)]
        )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


# of latent vectors, the same in all sums
NOISE = torch.randn(9, 3, generator=torch.Generator().manual_seed(3))


def gradients_one_by_one(network, rows):
    losses = network.losses(rows, 2.0, NOISE[: len(rows)])
    parts = [
        torch.autograd.grad(loss, list(network.parameters()), retain_graph=True) for loss in losses
    ]
    return torch.stack([torch.cat([p.flatten() for p in part]) for part in parts])


def private_gradient(network, rows, **options):
    settings = {
        "num_records": len(rows),
        "clip": 1.0,
        "noise_multiplier": 0.0,
        "expected_records": 8.0,
    } | options
    with Tape(network) as tape:
        norms = tape.backward(network.losses(rows, 2.0, NOISE[: len(rows)]), **settings)
    return torch.cat([p.grad.flatten() for p in network.parameters()]), norms


@pytest.mark.parametrize("clip", [0.5, 20.0, 1e9])
def test_every_row_is_clipped_over_all_parameters_the_decoded_spread_included(network, clip):
    rows = rows_of(LAYOUT, 9)
    single = gradients_one_by_one(network, rows)
    assert single[:, -LAYOUT.numbers :].abs().min() > 0  # the spread's, the last in the list
    found, norms = private_gradient(network, rows, clip=clip)
    torch.testing.assert_close(norms, single.norm(dim=1), rtol=1e-4, atol=1e-4)
    factors = (clip / single.norm(dim=1)).clamp_max(1.0)
    torch.testing.assert_close(
        found, (factors[:, None] * single).sum(dim=0) / 8.0, rtol=1e-4, atol=1e-4
    )


def test_decoding_draws_by_the_decoders_probabilities_or_takes_the_likeliest(network):
    logits = torch.log(torch.tensor([0.2, 0.5, 0.3]))
    with torch.no_grad():
        network.decoder[-1].weight.zero_()
        network.decoder[-1].bias.zero_()
        network.decoder[-1].bias[2:5] = logits
        network.decoder[-1].bias[0] = 0.5
    torch.manual_seed(0)
    distances, choices = network.imagine(20_000, likeliest=False)
    shares = torch.bincount(choices[:, 0], minlength=3) / 20_000
    torch.testing.assert_close(shares, logits.exp(), atol=0.015, rtol=0)
    assert choices.shape == (20_000, 5) and choices.max(dim=0).values.tolist() == [2, 1, 3, 1, 4]
    assert distances[:, 0].mean() == pytest.approx(np.tanh(0.5), abs=0.01)
    assert distances[:, 0].std() == pytest.approx(0.1, abs=0.01) and distances.abs().max() <= 1
    assert set(network.imagine(500, likeliest=True)[1][:, 0].tolist()) == {1}


def test_spreads_stay_where_tvae_allows_them(network):
    with torch.no_grad():
        network.spread.weight[:] = torch.tensor([[-3.0], [40.0]])
    network.keep_spread()
    assert network.spread.weight[:, 0].tolist() == [pytest.approx(NARROWEST), WIDEST]


@pytest.mark.parametrize("layout", [Layout((), (2, 3)), Layout((2,), ())])
def test_tables_of_one_kind_of_column(layout):
    network = Vae(layout, (4,), 2)
    losses = network.losses(rows_of(layout, 5), 2.0)
    assert losses.shape == (5,) and torch.isfinite(losses).all()
    distances, choices = network.imagine(7, likeliest=False)
    assert distances.shape == (7, layout.numbers) and choices.shape == (7, len(layout.blocks))
