"""The networks of CTGAN: shapes, and the squashing against a plain loop over blocks."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

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
    assert [row.unique().tolist() for row in LAYOUT.padded] == [
        [0, 1, 2],
        [3],
        [4, 5],
        [6, 7, 8, 9],
        [10, 11, 12, 13, 14],
    ]
    assert LAYOUT.owner.tolist() == [0] * 3 + [1] + [2] * 2 + [3] * 4 + [4] * 5
    assert (LAYOUT.members.argmax(dim=1) == LAYOUT.owner).all() and (
        LAYOUT.members.sum(dim=1) == 1
    ).all()


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


def test_gradients_of_squashing_are_those_of_finite_differences():
    layout = networks.Layout(LAYOUT.modes, LAYOUT.categories)
    vars(layout)["members"] = LAYOUT.members.double()
    entries = torch.randn(
        5, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    assert gradcheck(lambda each: networks.BlockSoftmax.apply(each, layout), entries)


def test_a_block_far_below_the_others_is_still_a_softmax():
    entries = torch.tensor([[500.0, 499.0, 0.0, -900.0, -901.0, 3.0, 1e-3]])
    shares = networks.BlockSoftmax.apply(entries, networks.Layout(modes=(2,), categories=(1, 2, 2)))
    expected = [torch.softmax(part, dim=0) for part in entries[0].split([2, 1, 2, 2])]
    assert torch.allclose(shares[0], torch.cat(expected), atol=1e-6)


@pytest.mark.parametrize(("condition", "hidden"), [(11, (8, 6)), (11, (8,)), (0, (8, 6, 4))])
def test_the_generator_is_the_published_chain_of_layers(condition, hidden):
    """Each hidden layer's output is put in front of what it was given (Xu et al. 2019, section
    4.4)."""
    torch.manual_seed(0)
    net, noise = networks.generator(4, condition, 17, hidden=hidden), torch.randn(16, 4)
    asked = torch.randint(condition, (16,)) if condition else torch.zeros(16, dtype=torch.long)
    gradient = torch.randn(16, 17)
    rows = torch.cat(
        [noise, nn.functional.one_hot(asked, condition).float() if condition else noise[:, :0]],
        dim=1,
    )
    for layer in net[:-1]:
        rows = torch.cat([torch.relu(layer.norm(layer.linear(rows))), rows], dim=1)
    plain, ours = net[-1](rows), net(noise, asked)
    assert torch.allclose(plain, ours, atol=1e-5)
    pairs = [torch.autograd.grad(made, list(net.parameters()), gradient) for made in (plain, ours)]
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*pairs, strict=True))
    assert all(each.abs().sum() > 0 for each in pairs[1][::4])


def test_a_condition_is_a_single_one():
    assert networks.one_hot(torch.tensor([3, 0]), LAYOUT).nonzero().tolist() == [[0, 3], [1, 0]]
    assert networks.one_hot(torch.zeros(2, dtype=torch.long), networks.Layout((3,), ())).shape == (
        2,
        0,
    )


@pytest.mark.parametrize("pac", [1, 5])
def test_the_discriminator_can_be_trained_privately(pac):
    net = networks.discriminator((17 + 11) * pac, hidden=(8,))
    rows = networks.side_by_side(torch.randn(20, 28), pac)
    assert net(rows).shape == (20 // pac, 1)
    assert len(Tape(net).layers) == 2


@pytest.mark.parametrize("hidden", [(9,), (9, 7), (9, 7, 5)])
def test_gradients_of_the_critic_are_those_of_autograd(hidden):
    """Of the plain loss, the same units dropped in both; and that is the loss with gradient penalty
    as Gulrajani et al. state it."""
    net, pairs, penalty = networks.discriminator(12, hidden=hidden).double(), 6, 10.0
    rows = torch.randn(
        2 * pairs, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    torch.manual_seed(5)
    ours = networks.critic_gradients(net, rows, penalty)
    torch.manual_seed(5)
    plain = networks.critic_loss(net, rows, penalty)
    torch.manual_seed(5)
    real, imagined = net(rows).split(pairs)
    share = torch.rand(pairs, 1).double()
    between = (share * rows[:pairs] + (1 - share) * rows[pairs:]).requires_grad_()
    gradient = torch.autograd.grad(net(between).sum(), between, create_graph=True)[0]
    loss = imagined.mean() - real.mean() + penalty * ((gradient.norm(dim=1) - 1) ** 2).mean()
    assert plain.item() == pytest.approx(loss.item(), rel=1e-12)
    theirs = torch.autograd.grad(plain, list(net.parameters()))
    assert len(ours) == len(theirs) and all(
        torch.allclose(*each) for each in zip(ours, theirs, strict=True)
    )
    assert all((each != 0).any() for each in theirs[:-1])
