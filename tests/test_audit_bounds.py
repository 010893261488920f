"""Lower bounds on epsilon: exact limits, known answers, and brute force on mechanisms whose epsilon
is known."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive
from scipy.stats import binom, norm, skellam

from fedsynth_lib.audit import bounds, fits
from fedsynth_lib.core.accounting import epsilon_of, exact_gaussian_epsilon
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
    assert fits.gaussian_epsilon(mu, 1e-5) == pytest.approx(
        exact_gaussian_epsilon([Charge("x", "gaussian", 1 / mu)], 1e-5), abs=1e-9
    )
    false = np.array([0.001, 0.1, 0.5])
    np.testing.assert_allclose(fits.gaussian_shift(norm.cdf(norm.ppf(false) + mu), false), mu)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "fit", "near"),
    [
        (1, fits.DEFINITION, 0),
        (1, fits.GAUSSIAN, 0.2),
        (4, fits.DEFINITION, 0.1),
        (4, fits.GAUSSIAN, 0.7),
    ],
)
def test_bounds_on_a_gaussian_mechanism_hold_and_the_fit_is_near(epsilon, fit, near):
    delta, rng = 1e-5, stream(2, "normal")
    mu = brentq(lambda mu: fits.gaussian_epsilon(mu, delta) - epsilon, 0.01, 9)
    found = [
        bounds.lower_bound(rng.normal(mu, 1, 2000), rng.normal(0, 1, 2000), delta, fit=fit)
        for _ in range(200)
    ]
    assert (np.array(found) > epsilon).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert np.median(found) >= near * epsilon


# --- Skellam noise


def charges(*variances):
    return [Charge("counts", "skellam", np.sqrt(variance)) for variance in variances]


@pytest.mark.parametrize("variances", [(0.5,), (0.7, 12.0, 12.0), (40.0, 3.0)])
@pytest.mark.parametrize("delta", [1e-5, 1e-3])
def test_losses_of_skellam_noise_cost_what_the_accounting_says(variances, delta):
    """Between rounded down and rounded up lies what `core/privacy_loss.py` computes otherwise."""
    least, most = (
        fits.least_epsilon(*fits.losses_of(charges(*variances), rounding), delta)
        for rounding in (np.floor, np.ceil)
    )
    assert most - least < 0.011
    assert least - 1e-9 <= epsilon_of(charges(*variances), delta) <= most * 1.002


def test_the_most_hits_are_those_of_all_tests_by_enumeration():
    """One count of variance 1: yes to a count and all above it, or to a part of those at it."""
    counts = np.arange(-12, 13)
    there, absent = (skellam.pmf(counts - by, 0.5, 0.5) for by in (1, 0))
    false, hits = (np.append(0, np.cumsum(each[::-1])) for each in (absent, there))
    allowed = fits.most_hits(*fits.losses_of(charges(1.0), np.ceil))
    rates = np.linspace(0.001, 0.999, 77)
    exact = np.interp(rates, false, hits)
    assert (allowed(rates) >= exact - 1e-9).all() and (allowed(rates) - exact).max() < 0.002


@pytest.mark.slow
@pytest.mark.parametrize(("variances", "near"), [((0.6, 0.6), 0.6), ((2.0, 20.0), 0.3)])
def test_bounds_on_skellam_noise_hold_and_normal_ones_need_not(variances, near):
    """The losses of a count grow with its logarithm: read as normal noise, little variance seems to
    break the claim that it keeps."""
    rng, delta = stream(5, "skellam"), 1e-5
    epsilon = epsilon_of(charges(*variances), delta)
    fit = fits.skellam(lambda multiplier: charges(*multiplier**2 * np.array(variances)), 1.0)

    def scores(by):
        drawn = (rng.poisson(np.divide(variances, 2), (2000, len(variances))) for _ in range(2))
        count = by + np.subtract(*drawn)
        losses = np.log(ive(np.abs(count - 1), variances) / ive(np.abs(count), variances))
        return losses.sum(axis=1)

    runs = [(scores(1), scores(0)) for _ in range(100)]
    found = np.array([bounds.lower_bound(*pair, delta, fit=fit) for pair in runs])
    assert (found > epsilon).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert near * epsilon <= np.median(found)
    if variances[0] < 1:
        normal = [bounds.lower_bound(*pair, delta, fit=fits.GAUSSIAN) for pair in runs]
        assert np.median(normal) > epsilon


def test_a_plan_of_other_noise_is_refused():
    with pytest.raises(ValueError, match="x is no count of all rows with Skellam noise"):
        fits.skellam(lambda multiplier: [Charge("x", "gaussian", multiplier)], 1.0)


# --- both directions, and one run


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


@pytest.mark.slow
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
    assert np.median(found) > 1 and max(found) <= fits.gaussian_epsilon(mu, delta)


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="cannot be"):
        bounds.one_run_p_value(10, 5, 6, 1.0, 0.0)
