"""Noise calibrated to a part of the steps: the exact cost where it is known, and its direction."""

import numpy as np
import pytest

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import Charge
from fedsynth_lib.works.sattarov2024_accounting import true_costs, true_epsilon


@pytest.mark.parametrize("times", [1, 9])
def test_without_sampling_a_part_of_the_steps_is_noise_too_small_by_a_root(times):
    """Gaussian steps compose to one of sigma / sqrt(steps)."""
    multiplier, cost = true_epsilon(4, 4 * times, 1.0, 2.0, 1e-5)
    one = [Charge("x", "gaussian", multiplier / np.sqrt(4 * times))]
    assert cost == pytest.approx(epsilon_of(one, 1e-5, accountant="rdp"), rel=1e-3)
    assert cost == pytest.approx(2.0, rel=1e-3) if times == 1 else cost > 2.9 * 2


def test_only_the_count_of_all_steps_costs_what_it_claims():
    table = true_costs([150, 9658], 1.0, 1 / 24_000)
    true = table.filter(like="true")
    assert true.loc["every step of every round"].tolist() == pytest.approx([1.0, 1.0], rel=1e-3)
    assert (true.loc[["one step in every round", "the steps of one round"]] > 5).all(axis=None)
    # an epoch of the largest client has more than 100 steps, one of the smallest fewer
    largest, smallest = true.loc["an epoch in every round"]
    assert largest < 1 < smallest
