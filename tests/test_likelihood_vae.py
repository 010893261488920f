"""VAE-BGM's autoencoder: losses against torch's distributions, draws against these, limits, private
gradients."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence
from torch.nn import functional as F

from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.methods.vae_bgm.likelihood_vae import LikelihoodVae

MIXED = (0, 3, 2, 0, 1, 5, 2, 0)
TABLES = [MIXED, (2, 5, 1, 3), (0, 0, 0), (2, 2), (4,), (1, 0), (3, 2, 0)]
HIDDEN, LATENT = 7, 3


def a_network(levels, dtype=torch.float64, dropout=0.2):
    torch.manual_seed(1)
    network = LikelihoodVae(levels, HIDDEN, LATENT, dropout).to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)  # away from 0, where many mistakes cancel
    return network


def rows_of(levels, number, dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=number) if k == 0 else rng.integers(k, size=number) for k in levels]
    return torch.from_numpy(np.stack(columns, axis=1)).to(dtype)


def a_mask(number, dtype=torch.float64):
    return torch.from_numpy(
        np.random.default_rng(9).choice([0.0, 1.25], size=(number, HIDDEN), p=[0.2, 0.8])
    ).to(dtype)


def distributions(levels, raw):
    """The distribution of each column of one row, None of a constant one, from the raw parameters
    as published."""
    numbers, pairs = (sum(level == kind for level in levels) for kind in (0, 2))
    means, widths = (
        5 * torch.tanh(raw[:numbers]),
        1e-5 + (0.1 - 1e-5) * torch.sigmoid(raw[numbers : 2 * numbers]),
    )
    raw, found = raw[2 * numbers :], {}
    seen = {0: 0, 2: 0}
    start = pairs
    for column, level in enumerate(levels):
        if level == 0:
            found[column] = Normal(means[seen[0]], widths[seen[0]])
        elif level == 2:
            found[column] = Bernoulli(0.001 + 0.998 * torch.sigmoid(raw[seen[2]]))
        elif level > 2:
            found[column] = Categorical(logits=10 * torch.tanh(raw[start : start + level]))
            start += level
        if level in seen:
            seen[level] += 1
    assert start == len(raw)
    return found


def loss_by_hand(network, levels, row, noise, kept):
    mean, log_variance = (10 * torch.tanh(network.encoder(row))).chunk(2)
    posterior = Normal(mean, torch.exp(log_variance / 2))
    hidden = F.relu(network.inner(mean + posterior.stddev * noise))
    raw = network.outer(hidden if kept is None else hidden * kept)
    likely = sum(each.log_prob(row[column]) for column, each in distributions(levels, raw).items())
    return kl_divergence(posterior, Normal(torch.zeros(LATENT), torch.ones(LATENT))).sum() - likely


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("levels", TABLES)
def test_losses_are_the_negative_evidence_bound_of_each_row(levels, masked):
    network, rows = a_network(levels).eval(), rows_of(levels, 11)
    noise, kept = (
        torch.from_numpy(np.random.default_rng(2).normal(size=(11, LATENT))),
        a_mask(11) if masked else None,
    )
    with torch.no_grad():
        found = network.losses(rows, noise, kept)
        expected = [
            loss_by_hand(network, levels, *each, None if kept is None else kept[k])
            for k, each in enumerate(zip(rows, noise, strict=True))
        ]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)


def test_training_in_single_precision_sees_the_same_losses():
    noise = torch.from_numpy(np.random.default_rng(2).normal(size=(11, LATENT)))
    with torch.no_grad():
        exact = a_network(MIXED).losses(rows_of(MIXED, 11), noise, a_mask(11))
        rounded = a_network(MIXED, torch.float32).losses(
            rows_of(MIXED, 11, torch.float32), noise.float(), a_mask(11, torch.float32)
        )
    torch.testing.assert_close(rounded.double(), exact, rtol=1e-4, atol=1e-3)


def told(levels, bias):
    """A network that encodes every row as the latent prior and decodes every vector to the same raw
    parameters."""
    network = a_network(levels).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.outer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return network


def loss_of(network, *values):
    return network.losses(torch.tensor([values], dtype=torch.float64)).item()


FAR = 1e4
ROOT = (2 * np.pi) ** 0.5


@pytest.mark.parametrize(
    ("levels", "bias", "value", "expected"),
    [
        (
            (0,),
            (FAR, -FAR),
            5.0,
            np.log(1e-5 * ROOT),
        ),  # the farthest mean and the narrowest deviation
        # the other end, and the widest: one deviation off
        ((0,), (-FAR, FAR), -4.9, 0.5 + np.log(0.1 * ROOT)),
        ((2,), (FAR,), 1, -np.log(0.999)),
        ((2,), (FAR,), 0, -np.log(0.001)),
        ((2,), (-FAR,), 1, -np.log(0.001)),
        ((3,), (FAR, -FAR, -FAR), 1, 20 + np.log1p(2 * np.exp(-20))),
        ((3,), (FAR, -FAR, -FAR), 0, np.log1p(2 * np.exp(-20))),
    ],
)
def test_parameters_of_distributions_stay_within_their_limits(levels, bias, value, expected):
    assert loss_of(told(levels, bias), value) == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_latent_means_and_log_variances_end_at_ten():
    network = told((0,), (0.0, 0.0))
    with torch.no_grad():
        network.encoder[-1].bias.copy_(torch.tensor([FAR, -FAR, 0.0, FAR, -FAR, 0.5]))
        means, log_variances = network.encode(torch.zeros(2, 1, dtype=torch.float64))
    assert means.tolist() == [[10, -10, 0]] * 2
    np.testing.assert_allclose(log_variances, [[10, -10, 10 * np.tanh(0.5)]] * 2)


def test_draws_follow_the_output_distributions_column_by_column():
    bias = [
        0.1,
        -0.2,
        0.05,
        -1.0,
        0.0,
        2.0,
        0.4,
        -1.5,
        0.0,
        0.03,
        -0.05,
        0.1,
        0.05,
        -0.1,
        0.0,
        0.02,
    ]
    network, number = told(MIXED, bias).float(), 20_000
    torch.manual_seed(3)
    rows = network.draw(torch.randn(number, LATENT)).double()
    assert rows.shape == (number, len(MIXED)) and (rows[:, MIXED.index(1)] == 0).all()
    found = distributions(MIXED, torch.tensor(bias, dtype=torch.float64))
    for column, each in found.items():
        values = rows[:, column]
        if isinstance(each, Normal):
            p = stats.kstest(values, stats.norm(each.mean.item(), each.stddev.item()).cdf).pvalue
        else:
            chances = (
                torch.stack([1 - each.probs, each.probs])
                if isinstance(each, Bernoulli)
                else each.probs
            )
            counts = torch.bincount(values.long(), minlength=len(chances))
            assert (values == values.long()).all() and len(counts) == len(chances)
            p = stats.chisquare(counts, chances * number).pvalue
        assert p > 1e-6, column
    assert len(found) == 7
    # one vector, yet columns are drawn apart from each other
    correlations = np.corrcoef(rows[:, list(found)].T)
    assert np.abs(correlations - np.eye(7)).max() < 6 / number**0.5


@pytest.mark.parametrize("levels", TABLES)
def test_each_drawn_row_comes_from_its_own_vector(levels):
    """Rows of two kinds of vectors, in turn: with sure distributions each row must be what its vector
    says."""
    network = told(levels, np.zeros(len(a_network(levels).outer.bias))).float()
    with torch.no_grad():
        network.inner.weight[0, 0] = 1.0  # the first hidden unit is on for positive vectors alone
        network.outer.weight[:, 0] = FAR
        network.outer.bias.fill_(-FAR)
        # others: the last category where on, the first where off
        for column in range(len(network.blocks)):
            start = 2 * network.numbers + network.pairs + sum(network.blocks[:column])
            end = start + network.blocks[column]
            network.outer.weight[start : end - 1, 0] = 0
            network.outer.bias[start] = 0
            network.outer.weight[start, 0] = -FAR
    torch.manual_seed(0)
    signs = torch.tensor([3.0, -3.0] * 50)
    rows = network.draw(signs[:, None] * torch.eye(LATENT)[0])
    on = (signs > 0).numpy()
    for column, level in enumerate(levels):
        values = rows[:, column].numpy()
        if level == 0:
            assert np.abs(values - np.where(on, 5, -5)).max() < 0.7
        else:
            # a pair errs once in a thousand
            assert (values == np.where(on, level - 1, 0)).mean() > 0.95


def test_dropout_is_for_training_alone_and_keeps_the_mean():
    network = told((0, 2), (0.0, 0.0, 0.0))
    with torch.no_grad():
        network.inner.bias.fill_(1.0)
        network.outer.weight.fill_(1.0)
        vectors = torch.zeros(4000, LATENT, dtype=torch.float64)
        assert (network.decode(vectors) == HIDDEN).all()
        torch.manual_seed(0)
        dropped = network.train().decode(vectors)[:, 0]
        assert set((dropped / 1.25).round(decimals=6).tolist()) <= set(range(HIDDEN + 1))
        assert dropped.mean().item() == pytest.approx(HIDDEN, abs=0.15)
        assert ((dropped / 1.25 - 0.8 * HIDDEN) ** 2).mean().item() == pytest.approx(
            HIDDEN * 0.16, rel=0.2
        )
        assert (network.decode(vectors, kept=torch.full((4000, HIDDEN), 0.5)) == HIDDEN / 2).all()


# --- gradients, against those of rows one by one


def gradients_one_by_one(network, levels, rows, noise, kept):
    """(rows, parameters), by automatic differentiation of the loss above."""
    found = []
    for each in zip(rows, noise, kept, strict=True):
        loss = loss_by_hand(network, levels, *each)
        found.append(
            torch.autograd.grad(
                loss, list(network.parameters()), materialize_grads=True, allow_unused=True
            )
        )
    return torch.stack([torch.cat([part.flatten() for part in parts]) for parts in found])


def flat_gradient(network):
    return torch.cat([p.grad.flatten() for p in network.parameters()])


@pytest.mark.parametrize("levels", TABLES)
@pytest.mark.parametrize(
    "size", [0.3, 1.0, 6.0]
)  # of the last layer: from flat distributions to sure ones
def test_the_gradient_of_a_weighted_loss_is_the_automatic_one(levels, size):
    network, rows, kept = a_network(levels).train(), rows_of(levels, 7), a_mask(7)
    with torch.no_grad():
        network.outer.weight.mul_(size)
    noise, weights = (
        torch.from_numpy(np.random.default_rng(k).normal(size=(7, LATENT))) for k in (2, 3)
    )
    single = gradients_one_by_one(network, levels, rows, noise, kept)
    (network.losses(rows, noise, kept) * weights[:, 0]).sum().backward()
    expected = weights[:, 0] @ single
    torch.testing.assert_close(
        flat_gradient(network), expected, rtol=1e-7, atol=1e-9 * expected.abs().max().item()
    )


@pytest.mark.parametrize("levels", TABLES)
def test_gradients_in_the_encoder_are_clipped_where_they_have_a_bound(levels):
    """Entry by entry, by what each layer gives; those of the decoder are as without a bound."""
    network, bound = a_network(levels).train(), 0.02
    rows, kept, cut = rows_of(levels, 9), a_mask(9), []
    noise = torch.from_numpy(np.random.default_rng(2).normal(size=(9, LATENT)))
    found = {}
    for name in ("free", "bounded", "expected"):
        network.zero_grad()
        network.gradient_bound = bound if name == "bounded" else None
        hooks = []
        for linear in network.encoder[::2] if name == "expected" else ():

            def clipped(gradient):
                cut.append(bool((gradient.abs() > bound).any()))
                return gradient.clamp(-bound, bound)

            hooks.append(
                linear.register_forward_hook(lambda *each: each[-1].register_hook(clipped) and None)
            )
        network.losses(rows, noise, kept).mean().backward()
        for hook in hooks:
            hook.remove()
        found[name] = {each: value.grad.clone() for each, value in network.named_parameters()}
    for each, gradient in found["bounded"].items():
        torch.testing.assert_close(gradient, found["expected"][each], rtol=1e-12, atol=1e-12)
        same = torch.allclose(gradient, found["free"][each], rtol=1e-9)
        assert same or each.startswith("encoder"), each
    assert len(cut) == 2 and all(cut)  # in both layers


@pytest.mark.parametrize("far", [30.0, -30.0, FAR, -FAR])
def test_the_gradient_is_finite_where_the_distributions_are_at_their_limits(far):
    for dtype in (torch.float32, torch.float64):
        network = told(MIXED, np.full(16, far)).to(dtype)
        network.losses(rows_of(MIXED, 40, dtype)).mean().backward()
        gradient = flat_gradient(network)
        assert torch.isfinite(gradient).all()
        assert abs(far) < FAR or (gradient == 0).all()  # flat there, however wrong they are


# --- private gradients


@pytest.mark.parametrize("levels", [MIXED, (2, 5, 1, 3), (0, 0)])
@pytest.mark.parametrize("clip", [0.5, 30.0, float("inf")])
def test_private_gradients_are_those_of_rows_one_by_one_each_clipped(levels, clip):
    network, rows, kept = a_network(levels).train(), rows_of(levels, 9), a_mask(9)
    noise = torch.from_numpy(np.random.default_rng(2).normal(size=(9, LATENT)))
    single = gradients_one_by_one(network, levels, rows, noise, kept)
    with Tape(network) as tape:
        losses = network.losses(rows, noise, kept)
        norms = tape.backward(
            losses, num_records=9, clip=clip, noise_multiplier=0.0, expected_records=4.0
        )
    torch.testing.assert_close(norms, single.norm(dim=1), rtol=1e-8, atol=1e-8)
    factors = (clip / single.norm(dim=1)).clamp_max(1.0)
    assert clip > 1 or (factors < 1).any()
    found = flat_gradient(network)
    torch.testing.assert_close(
        found, (factors[:, None] * single).sum(dim=0) / 4.0, rtol=1e-8, atol=1e-8
    )
