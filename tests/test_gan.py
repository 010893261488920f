"""The networks of CTGAN: shapes, and the squashing against a plain loop over blocks."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.methods.gan import networks

LAYOUT = networks.Layout(modes=(3, 1), categories=(2, 4, 5))


def test_layout_lines_up_all_parts():
    assert (LAYOUT.numbers, LAYOUT.width, LAYOUT.condition_width, LAYOUT.first_category) == (
        2,
        17,
        11,
        6,
    )


def test_squashing_is_a_softmax_of_every_block():
    raw = torch.randn(7, LAYOUT.width, generator=torch.Generator().manual_seed(0)) * 5
    rows = networks.squash(raw, LAYOUT, generator=torch.Generator().manual_seed(1))
    noise = torch.rand(7, 15, generator=torch.Generator().manual_seed(1))
    entries = (raw[:, 2:] - torch.log(-torch.log(noise))) / 0.2
    expected, start = [torch.tanh(raw[:, :2])], 0
    for width in LAYOUT.blocks:
        expected.append(torch.softmax(entries[:, start : start + width], dim=1))
        start += width
    assert torch.allclose(rows, torch.cat(expected, dim=1), atol=1e-6)


def test_gumbel_choices_follow_the_logits():
    raw = torch.log(torch.tensor([[0.7, 0.2, 0.1]])).repeat(20_000, 1)
    layout = networks.Layout(modes=(), categories=(3,))
    rows = networks.squash(raw, layout, generator=torch.Generator().manual_seed(0))
    share = np.bincount(rows.argmax(dim=1).numpy()) / 20_000
    assert np.allclose(share, [0.7, 0.2, 0.1], atol=0.012)
    assert torch.allclose(rows.sum(dim=1), torch.ones(20_000), atol=1e-5)


@pytest.mark.parametrize(("condition", "hidden"), [(11, (8, 6)), (11, (8,)), (0, (8, 6, 4))])
def test_the_generator_is_the_published_chain_of_layers(condition, hidden):
    """Each hidden layer's output is put in front of what it was given (Xu et al. 2019, section
    4.4)."""
    torch.manual_seed(0)
    net, noise = networks.Generator(4, condition, 17, hidden=hidden), torch.randn(16, 4)
    asked = torch.randint(condition, (16,)) if condition else torch.zeros(16, dtype=torch.long)
    rows = torch.cat(
        [noise, nn.functional.one_hot(asked, condition).float() if condition else noise[:, :0]],
        dim=1,
    )
    *layers, last = net
    for layer in layers:
        rows = torch.cat([torch.relu(layer.norm(layer.linear(rows))), rows], dim=1)
    assert torch.equal(last(rows), net(noise, asked))


def test_a_condition_is_a_single_one():
    assert networks.one_hot(torch.tensor([3, 0]), 11).nonzero().tolist() == [[0, 3], [1, 0]]
    assert networks.one_hot(torch.zeros(2, dtype=torch.long), 0).shape == (2, 0)


@pytest.mark.parametrize("pac", [1, 5])
def test_the_discriminator_can_be_trained_privately(pac):
    net = networks.discriminator((17 + 11) * pac, hidden=(8,))
    rows = networks.side_by_side(torch.randn(20, 28), pac)
    assert net(rows).shape == (20 // pac, 1)
    assert len(Tape(net).layers) == 2


def test_the_critic_has_the_published_loss():
    """With gradient penalty as Gulrajani et al. state it, the same units dropped in both."""
    net, pairs, penalty = networks.discriminator(12, hidden=(9, 7)).double(), 6, 10.0
    rows = torch.randn(
        2 * pairs, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    torch.manual_seed(5)
    ours = networks.critic_loss(net, rows, penalty)
    torch.manual_seed(5)
    real, imagined = net(rows).split(pairs)
    share = torch.rand(pairs, 1).double()
    between = (share * rows[:pairs] + (1 - share) * rows[pairs:]).requires_grad_()
    gradient = torch.autograd.grad(net(between).sum(), between, create_graph=True)[0]
    loss = imagined.mean() - real.mean() + penalty * ((gradient.norm(dim=1) - 1) ** 2).mean()
    assert ours.item() == pytest.approx(loss.item(), rel=1e-12)
    gradients = [torch.autograd.grad(each, list(net.parameters())) for each in (ours, loss)]
    assert all(torch.allclose(*each) for each in zip(*gradients, strict=True))
    assert all((each != 0).any() for each in gradients[0][:-1])
