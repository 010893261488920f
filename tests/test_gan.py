"""The networks of CTGAN: shapes, and the squashing against a plain loop over blocks."""

import numpy as np
import pytest
import torch

from fedsynth_lib.dp_sgd import Tape
from fedsynth_lib.methods import gan

LAYOUT = gan.Layout(modes=(3, 1), categories=(2, 4, 5))


def test_layout_lines_up_all_parts():
    assert (LAYOUT.numbers, LAYOUT.width, LAYOUT.condition_width, LAYOUT.first_category) == (2, 17, 11, 6)
    flat = LAYOUT.padded.flatten()
    assert flat[LAYOUT.unpadded].tolist() == list(range(15))
    assert [int((row >= 0).sum()) for row in LAYOUT.padded] == [3, 1, 2, 4, 5]


def test_squashing_is_a_softmax_of_every_block():
    raw = torch.randn(7, LAYOUT.width, generator=torch.Generator().manual_seed(0)) * 5
    rows = gan.squash(raw, LAYOUT, generator=torch.Generator().manual_seed(1))
    noise = torch.rand(7, 15, generator=torch.Generator().manual_seed(1))
    entries = (raw[:, 2:] - torch.log(-torch.log(noise))) / 0.2
    expected, start = [torch.tanh(raw[:, :2])], 0
    for width in LAYOUT.blocks:
        expected.append(torch.softmax(entries[:, start : start + width], dim=1))
        start += width
    assert torch.allclose(rows, torch.cat(expected, dim=1), atol=1e-6)


def test_gumbel_choices_follow_the_logits():
    raw = torch.log(torch.tensor([[0.7, 0.2, 0.1]])).repeat(20_000, 1)
    layout = gan.Layout(modes=(), categories=(3,))
    rows = gan.squash(raw, layout, generator=torch.Generator().manual_seed(0))
    share = np.bincount(rows.argmax(dim=1).numpy()) / 20_000
    assert np.allclose(share, [0.7, 0.2, 0.1], atol=0.012)
    assert torch.allclose(rows.sum(dim=1), torch.ones(20_000), atol=1e-5)


def test_gradients_reach_the_generator_and_are_finite():
    net = gan.generator(4, LAYOUT.width, hidden=(8, 8))
    rows = gan.squash(net(torch.randn(16, 4)), LAYOUT)
    (rows**2).sum().backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.abs().sum() > 0 for p in net.parameters() if p.ndim == 2)


def test_the_generator_keeps_its_input_beside_each_hidden_layer():
    net = gan.generator(4, 17, hidden=(8, 6))
    assert [layer.in_features for layer in net.modules() if isinstance(layer, torch.nn.Linear)] == [4, 12, 18]


@pytest.mark.parametrize("pac", [1, 5])
def test_the_discriminator_can_be_trained_privately(pac):
    net = gan.discriminator((17 + 11) * pac, hidden=(8,))
    rows = gan.side_by_side(torch.randn(20, 28), pac)
    assert net(rows).shape == (20 // pac, 1)
    assert len(Tape(net).layers) == 2


def test_slopes_by_inputs_and_their_own_gradients_are_those_of_autograd():
    net = gan.discriminator(12, hidden=(9, 7)).double()
    rows = torch.randn(6, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.manual_seed(5)  # the same units dropped in both
    ours = gan.input_slopes(net, rows)
    torch.manual_seed(5)
    inputs = rows.clone().requires_grad_()
    theirs = torch.autograd.grad(net(inputs).sum(), inputs, create_graph=True)[0]
    assert torch.allclose(ours, theirs) and (ours != 0).any()
    weights = [parameter for parameter in net.parameters() if parameter.ndim == 2]
    pairs = [torch.autograd.grad(((each.norm(dim=1) - 1) ** 2).mean(), weights) for each in (ours, theirs)]
    assert all(torch.allclose(one, other) for one, other in zip(*pairs, strict=True))
