"""The diffusion: its schedule against step by step noise, its walk back against a distribution
known in closed form."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.methods.diffusion.diffusion import Denoiser, Schedule, waves


@pytest.mark.parametrize("rescaled", [True, False])
def test_betas_rise_linearly_between_the_ends(rescaled):
    schedule = Schedule(steps=500, rescaled=rescaled)
    factor = 2 if rescaled else 1
    expected = np.linspace(1e-4 * factor, 0.02 * factor, 500)
    assert np.allclose(schedule.betas.numpy(), expected, rtol=1e-5)
    assert np.allclose(schedule.kept.numpy(), np.cumprod(1 - expected), rtol=1e-4)


def test_as_printed_the_last_step_keeps_a_twelfth_of_the_signal():
    assert 0.078 < float(Schedule(rescaled=False).kept[-1].sqrt()) < 0.084
    assert float(Schedule().kept[-1].sqrt()) < 0.01


def test_noise_in_one_go_is_noise_step_by_step():
    """q(x_t | x_0) has the mean and variance that t single steps give."""
    schedule = Schedule(steps=40, first=0.01, last=0.2, rescaled=False)
    mean, variance = 3.0, 0.0
    for beta in schedule.betas.double().tolist()[:26]:
        mean, variance = math.sqrt(1 - beta) * mean, (1 - beta) * variance + beta
    rows, times = torch.full((1, 1), 3.0), torch.tensor([25])
    assert schedule.noised(rows, times, torch.zeros(1, 1)).item() == pytest.approx(mean, rel=1e-5)
    moved = schedule.noised(rows, times, torch.ones(1, 1)) - schedule.noised(
        rows, times, torch.zeros(1, 1)
    )
    assert moved.item() == pytest.approx(math.sqrt(variance), rel=1e-5)


@pytest.mark.parametrize(("taken", "tolerance"), [(None, 0.04), (100, 0.06)])
def test_the_walk_back_ends_in_the_distribution_that_the_noise_was_learned_on(taken, tolerance):
    """For rows that are normal around m with deviation s the best prediction of the noise is
    known."""
    schedule = Schedule()
    middle, spread = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 1.5])

    def best(rows, times):
        kept = schedule.kept[times][:, None]
        return (1 - kept).sqrt() * (rows - kept.sqrt() * middle) / (kept * spread**2 + 1 - kept)

    torch.manual_seed(0)
    made = schedule.denoised(torch.randn(20_000, 2), best, taken=taken)
    assert torch.allclose(made.mean(dim=0), middle, atol=tolerance)
    assert torch.allclose(made.std(dim=0), spread, atol=tolerance)
    assert abs(float(torch.corrcoef(made.T)[0, 1])) < 0.03


def test_waves_are_sines_and_cosines_of_the_step():
    times = torch.tensor([0, 3, 499])
    for row, time in zip(waves(times, 6), times.tolist(), strict=True):
        angles = [time * 10_000 ** (-k / 3) for k in range(3)]
        expected = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        assert np.allclose(row.numpy(), expected, atol=1e-4)
    assert waves(times, 7).shape == (3, 7) and (waves(times, 7)[:, -1] == 0).all()


def test_private_gradients_of_a_denoiser_are_those_of_single_rows():
    torch.manual_seed(1)
    network = Denoiser(3, hidden=(8, 5), inner=6)
    assert all(
        isinstance(m, nn.Linear) for m in network.modules() if list(m.parameters(recurse=False))
    )
    rows, times, wanted = torch.randn(4, 3), torch.tensor([1, 5, 9, 2]), torch.randn(4, 3)
    with Tape(network) as tape:
        losses = (wanted - network(rows, times)).square().mean(dim=1)
        norms = tape.backward(
            losses, num_records=4, clip=0.3, noise_multiplier=0.0, expected_records=4.0
        )
    sums = [torch.zeros_like(p) for p in network.parameters()]
    for k in range(4):
        loss = (wanted[k] - network(rows[k : k + 1], times[k : k + 1])[0]).square().mean()
        single = torch.autograd.grad(loss, list(network.parameters()))
        norm = math.sqrt(sum(float(g.square().sum()) for g in single))
        assert norm == pytest.approx(float(norms[k]), rel=1e-4)
        for total, gradient in zip(sums, single, strict=True):
            total += gradient * min(1.0, 0.3 / norm)
    for parameter, total in zip(network.parameters(), sums, strict=True):
        assert torch.allclose(parameter.grad, total / 4, atol=1e-6)
