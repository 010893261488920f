"""Lower bounds on epsilon: exact limits, known answers, and brute force on mechanisms whose epsilon
is known."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from fedsynth_lib.audit import bounds
from fedsynth_lib.core.accounting import exact_gaussian_epsilon
from fedsynth_lib.core.contract import Charge, stream


def test_limits_are_those_of_clopper_and_pearson():
    """Known: 0 of n has the upper limit 1 - tail^(1/n); the limits invert the binomial tails."""
    low, high = bounds.clopper_pearson(np.array([0, 7, 20]), 20, tail=0.025)
    assert (low[0], high[2]) == (0.0, 1.0)
    assert high[0] == pytest.approx(1 - 0.025 ** (1 / 20)) and low[2] == pytest.approx(
        0.025 ** (1 / 20)
    )
    assert binom.sf(6, 20, low[1]) == pytest.approx(0.025) and binom.cdf(
        7, 20, high[1]
    ) == pytest.approx(0.025)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_gaussian_dp_is_the_gaussian_mechanism(mu):
    assert bounds.gaussian_epsilon(mu, 1e-5) == pytest.approx(
        exact_gaussian_epsilon([Charge("x", "gaussian", 1 / mu)], 1e-5), abs=1e-9
    )
    false = np.array([0.001, 0.1, 0.5])
    np.testing.assert_allclose(bounds.gaussian_shift(norm.cdf(norm.ppf(false) + mu), false), mu)


def responses(epsilon, number, rng):
    """Randomised response: the truth with probability e^epsilon / (1 + e^epsilon)."""
    truth = rng.random((2, number)) < 1 / (1 + np.exp(-epsilon))
    return truth[0].astype(float), 1.0 - truth[1]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_bounds_on_randomised_response_hold_and_are_near(epsilon):
    rng = stream(1, "responses")
    found = np.array([bounds.lower_bound(*responses(epsilon, 4000, rng), 0.0) for _ in range(200)])
    assert (found > epsilon).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert np.median(found) > 0.8 * epsilon


@pytest.mark.parametrize(
    ("epsilon", "gaussian", "near"),
    [(1, False, 0), (1, True, 0.2), (4, False, 0.1), (4, True, 0.7)],
)
def test_bounds_on_a_gaussian_mechanism_hold_and_the_fit_is_near(epsilon, gaussian, near):
    delta, rng = 1e-5, stream(2, "normal")
    mu = brentq(lambda mu: bounds.gaussian_epsilon(mu, delta) - epsilon, 0.01, 9)
    found = [
        bounds.lower_bound(
            rng.normal(mu, 1, 2000), rng.normal(0, 1, 2000), delta, gaussian=gaussian
        )
        for _ in range(200)
    ]
    assert (np.array(found) > epsilon).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert np.median(found) >= near * epsilon


def test_absence_is_tested_for_as_well():
    """An output that only runs without the record give: the other direction of the definition."""
    there, absent = np.zeros(2000), np.tile([0.0, -1.0], 1000)
    assert bounds.lower_bound(there, absent, 0.0) > 4


@pytest.mark.parametrize(("guesses", "expected"), [(1, 0), (10, None), (100, 3.49), (1000, None)])
def test_all_guesses_right_is_the_closed_form(guesses, expected):
    """v = r and delta = 0: q^r = 0.05 with q = e^epsilon / (1 + e^epsilon)."""
    chance = 0.05 ** (1 / guesses)
    closed = max(0.0, np.log(chance / (1 - chance)))
    found = bounds.one_run_bound(guesses, guesses, guesses)
    assert found == pytest.approx(closed, abs=1e-6)
    assert expected is None or found == pytest.approx(expected, abs=0.01)


def test_the_correction_for_delta_is_the_theorem_by_enumeration():
    """2 m delta max_i P[v > W >= v - i] / i, each probability summed from the binomial's terms."""
    m, r, v, epsilon, delta = 50, 30, 24, 1.0, 1e-3
    chances = binom.pmf(np.arange(r + 1), r, np.exp(epsilon) / (1 + np.exp(epsilon)))
    by_hand = chances[v:].sum() + 2 * m * delta * max(
        chances[v - i : v].sum() / i for i in range(1, v + 1)
    )
    assert bounds.one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(by_hand, rel=1e-12)
    values = [bounds.one_run_bound(m, r, 29, each) for each in (0.0, 1e-6, 1e-4, 1e-2)]
    assert values == sorted(values, reverse=True) and values[0] > values[2] > 0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_one_run_of_randomised_responses(epsilon):
    """m records, each answered for itself: theorem 5.2 is tight on this mechanism."""
    rng, m = stream(3, "one run"), 1000
    right = rng.binomial(m, 1 / (1 + np.exp(-epsilon)), 400)
    found = np.array([bounds.one_run_bound(m, m, int(number)) for number in right])
    assert (found > epsilon).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert np.median(found) > 0.8 * epsilon


def test_one_run_of_a_gaussian_mechanism():
    """m orthogonal canaries in one noisy sum, guesses about the surest ones: above 0, never above
    the claim."""
    rng, m, mu, delta = stream(4, "one run"), 1000, 2.0, 1e-5
    found = []
    for _ in range(200):
        there = rng.random(m) < 0.5
        scores = rng.normal(mu * there, 1) - mu / 2
        surest = np.argsort(-np.abs(scores))[:100]
        right = int(((scores[surest] > 0) == there[surest]).sum())
        found.append(bounds.one_run_bound(m, 100, right, delta))
    assert np.median(found) > 1 and max(found) <= bounds.gaussian_epsilon(mu, delta)


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="cannot be"):
        bounds.one_run_p_value(10, 5, 6, 1.0, 0.0)
