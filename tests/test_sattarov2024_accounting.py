"""Noise calibrated to a part of the steps: the exact cost where it is known, and its direction."""

import numpy as np
import pytest

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import Charge
from fedsynth_lib.works.sattarov2024_accounting import COUNTED, Config, true_epsilon


@pytest.mark.parametrize("times", [1, 9])
def test_without_sampling_a_part_of_the_steps_is_noise_too_small_by_a_root(times):
    """Gaussian steps compose to one of sigma / sqrt(steps)."""
    multiplier, cost = true_epsilon(4, 4 * times, 1.0, 2.0, 1e-5)
    one = [Charge("x", "gaussian", multiplier / np.sqrt(4 * times))]
    assert cost == pytest.approx(epsilon_of(one, 1e-5, accountant="rdp"), rel=1e-3)
    assert cost == pytest.approx(2.0, rel=1e-3) if times == 1 else cost > 2.9 * 2


def test_only_the_count_of_all_steps_costs_what_it_claims():
    config, true = Config(), {}
    for rows in (9658, 150):
        made = COUNTED["every step of every round"](rows, config)
        rate = min(1.0, config.batch / rows)
        for name, count in COUNTED.items():
            cost = true_epsilon(count(rows, config), made, rate, 1.0, 1 / 24_000)[1]
            true.setdefault(name, []).append(cost)
    assert true["every step of every round"] == pytest.approx([1.0, 1.0], rel=1e-3)
    few = [*true["one step in every round"], *true["the steps of one round"]]
    assert min(few) > 5
    # an epoch of the largest client has more than 100 steps, one of the smallest fewer
    largest, smallest = true["an epoch in every round"]
    assert largest < 1 < smallest
