"""The divergence estimate: its network against torch's own layers, and the estimate against known
divergences."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics import divergence
from fedsynth_lib.metrics.divergence import Discriminator, Sizes, jensen_shannon

SMALL = Sizes(training=1000, evaluation=500, epochs=170, patience=30)


def reference(network):
    """The same network of torch's layers, with the same parameters."""
    layers, inputs = [], network.weights[0].shape[1]
    for width in divergence.WIDTHS:
        layers += [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width)]
        inputs = width
    model = nn.ModuleList([*layers, nn.Linear(inputs, 1)])
    for layer, weight in zip(model[0::2], network.weights, strict=True):
        layer.weight.data.copy_(weight)
    for layer, scale, shift in zip(model[1::2], network.scales, network.shifts, strict=True):
        layer.weight.data.copy_(scale)
        layer.bias.data.copy_(shift)
    model[-1].bias.data.copy_(network.offset)
    return model


def run_reference(model, rows, masks=None):
    values = rows
    for number, (linear, norm) in enumerate(zip(model[0:-1:2], model[1::2], strict=True)):
        values = norm(linear(values))
        if masks is not None:
            values = values * masks[number] * 2
        values = F.leaky_relu(values, 0.2)
    return model[-1](values)[:, 0]


def a_network(seed=3):
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy((rng.normal(size=(300, 5)) * [1, 2, 0.5, 3, 1] + 2).astype(np.float32))
    network = Discriminator(rows, stream(1, "test"))
    for scale, shift in zip(network.scales, network.shifts, strict=True):
        scale.copy_(torch.from_numpy(rng.uniform(0.5, 1.5, len(scale))))
        shift.copy_(torch.from_numpy(rng.normal(size=len(shift))))
    return network, rows


def twins(monkeypatch):
    """Our network, its rows, torch's of the same parameters, and the dropout that both have in
    every epoch."""
    network, rows = a_network()
    masks = {w: network._kept(w) / 2 for w in divergence.WIDTHS}
    monkeypatch.setattr(network, "_kept", lambda width: 2 * masks[width])
    return network, rows, reference(network).train(), list(masks.values())


def test_training_is_that_of_torch_step_by_step(monkeypatch, tolerance=2e-3):
    """Ten steps of Adam from the same start with the same dropout; every parameter must have gone
    the same way."""
    network, rows, model, masks = twins(monkeypatch)
    linear, norm = model[0::2], model[1::2]
    theirs = [
        *(each.weight for each in linear),
        *(n.weight for n in norm),
        *(n.bias for n in norm),
        model[-1].bias,
    ]
    started = [each.detach().clone() for each in theirs]
    optimiser = torch.optim.Adam(theirs, lr=1e-3)
    for _ in range(10):
        optimiser.zero_grad()
        values = run_reference(model, rows, masks)
        F.binary_cross_entropy_with_logits(values, network.labels).backward()
        optimiser.step()
    network.train(rows[:10], Sizes(epochs=10, patience=100))
    for own, other, start in zip(network.parameters, theirs, started, strict=True):
        assert torch.linalg.norm(own - other) <= tolerance * torch.linalg.norm(other - start)
    for norm, mean, variance in zip(model[1::2], network.means, network.variances, strict=True):
        assert torch.allclose(mean, norm.running_mean, atol=1e-4)
        assert torch.allclose(variance, norm.running_var, atol=1e-4)


def test_new_rows_are_judged_by_running_statistics():
    network, rows = a_network()
    for _ in range(3):
        network.loss()
    model = reference(network).eval()
    for norm, mean, variance in zip(model[1::2], network.means, network.variances, strict=True):
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
    with torch.no_grad():
        assert torch.allclose(network.logits(rows), run_reference(model, rows), atol=1e-4)


def test_dropout_keeps_half_and_differs_from_epoch_to_epoch():
    network, _ = a_network()
    one, other = (network._kept(64) / 2 for _ in range(2))
    assert one.shape == (300, 64) and set(one.unique().tolist()) == {0, 1}
    assert abs(one.mean() - 0.5) < 0.02
    assert 0.45 < (one == other).float().mean() < 0.55


@pytest.mark.slow
def test_known_divergences_are_found():
    """Exact by integration: of N(0, 1) against N(2, 1) 0.4857 bits; of disjoint ones 1; of equal
    ones 0."""
    rng = np.random.default_rng(5)
    left = rng.normal(size=(2000, 2))
    assert abs(jensen_shannon(left, rng.normal(size=(2000, 2)), seed=1, sizes=SMALL).bits) < 0.02
    shifted = rng.normal([2, 0], size=(2000, 2))
    assert (
        abs(jensen_shannon(left, shifted, seed=1, sizes=SMALL).bits - exact_of_normals(2.0)) < 0.04
    )
    far = jensen_shannon(left, left + 50, seed=1, sizes=SMALL).bits
    assert 0.97 < far <= 1


def exact_of_normals(shift):
    x = np.linspace(-12, 14, 200_001)
    p, q = (np.exp(-0.5 * (x - m) ** 2) / np.sqrt(2 * np.pi) for m in (0, shift))
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.where(p > 0, p * np.log2(p / middle), 0) + np.where(
            q > 0, q * np.log2(q / middle), 0
        )
    return both.sum() * (x[1] - x[0]) / 2


def test_same_seed_same_estimate_and_another_seed_another_one():
    rng = np.random.default_rng(7)
    real, other = rng.normal(size=(2, 300, 3))
    sizes = Sizes(training=200, evaluation=50, epochs=5)
    one, same, different = (jensen_shannon(real, other, seed=s, sizes=sizes) for s in (1, 1, 2))
    assert one == same != different and one.epochs == 5


def test_it_stops_early_and_takes_the_best_parameters_back(monkeypatch):
    network, rows = a_network()
    losses = iter([3.0, 1.0, 2.0, 2.0, 2.0, 0.5])
    seen = []
    learned = network.offset.sum
    monkeypatch.setattr(network, "loss", learned)
    monkeypatch.setattr(
        divergence.F,
        "binary_cross_entropy_with_logits",
        lambda *_: seen.append(network.offset.item()) or torch.tensor(next(losses)),
    )
    epochs = network.train(rows[:10], Sizes(epochs=50, patience=3))
    assert epochs == 5 and network.offset.item() == seen[1]


@pytest.mark.parametrize(
    ("real", "synthetic", "said"),
    [
        (np.zeros((9, 2)), np.zeros((20, 2)), "9 real rows, but 10 are needed"),
        (np.zeros((20, 2)), np.full((20, 2), np.nan), "synthetic rows have missing"),
        (np.zeros((20, 2)), np.zeros((20, 3)), "2 real columns and 3 synthetic"),
    ],
)
def test_bad_samples_are_refused(real, synthetic, said):
    with pytest.raises(BadInput, match=said):
        jensen_shannon(real, synthetic, seed=0, sizes=Sizes(training=8, evaluation=1))
