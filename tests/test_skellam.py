"""Skellam noise: shares that add up to it, and what a count with it costs, by brute force."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chisquare, skellam

from fedsynth_lib.core.accounting import epsilon_of, numerical_epsilon_of, rdp, skellam_share
from fedsynth_lib.core.contract import Charge, stream


def brute_force(variances, delta):
    """Epsilon of counts that each move by 1, by summing over all outcomes of all of them."""
    x = np.arange(-90, 92)
    p = q = np.ones(1)
    for variance in variances:
        p = np.outer(p, skellam.pmf(x - 1, variance / 2, variance / 2)).ravel()
        q = np.outer(q, skellam.pmf(x, variance / 2, variance / 2)).ravel()
    return brentq(lambda e: np.maximum(p - np.exp(e) * q, 0).sum() - delta, 0, 60)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("scales", [(1.0,), (4.0,), (2.0, 2.0), (3.0, 1.5)])
def test_epsilon_is_that_of_all_outcomes_and_never_below(scales, delta):
    charges = [Charge("", "skellam", scale) for scale in scales]
    true = brute_force([scale**2 for scale in scales], delta)
    assert true <= numerical_epsilon_of(charges, delta) <= true * 1.002
    assert true <= epsilon_of(charges, delta, accountant="rdp")


def test_renyi_curves_are_above_the_divergence_of_all_outcomes():
    x = np.arange(-400, 402)
    orders = np.array([1.5, 2.0, 3.0, 8.0, 20.0])
    for scale in (0.7, 2.0, 10.0):
        p, q = (skellam.logpmf(x - shift, scale**2 / 2, scale**2 / 2) for shift in (1, 0))
        held = np.isfinite(p) & np.isfinite(q)
        true = [np.log(np.exp(a * p[held] + (1 - a) * q[held]).sum()) / (a - 1) for a in orders]
        assert (rdp(Charge("", "skellam", scale), orders) >= np.array(true) - 1e-9).all()


@pytest.mark.parametrize(
    ("order", "variance", "cost"),
    [
        (2, 1.0, 1 + 1.5),  # the smaller excess is 3 / 2; the other one is 9 / 4
        (2, 4.0, 0.25 + 9 / 64),
        (5, 10.0, 0.25 + 15 / 400),
    ],
)
def test_renyi_divergence_is_the_formula_by_hand(order, variance, cost):
    """Agarwal, Kairouz and Liu (2021), theorem 3.5, of a count that moves by 1: order / (2 v) and
    the smaller of (2 order + 5) / (4 v^2) and 3 / (2 v), times for so many releases."""
    charge = Charge("", "skellam", np.sqrt(variance), times=3)
    assert rdp(charge, np.array([float(order)])) == pytest.approx(3 * cost)


def test_much_noise_costs_what_gaussian_noise_costs():
    found = [
        epsilon_of([Charge("", kind, 50.0, times=55), Charge("", kind, 90.0, times=20)], 1e-5)
        for kind in ("skellam", "gaussian")
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_noise_beyond_the_bessel_functions_is_still_accounted_for():
    charges = [Charge("", "skellam", 1e8, times=10)]
    assert numerical_epsilon_of(charges, 1e-5) is None
    assert epsilon_of(charges, 1e-5) < 1e-4


def test_a_replaced_record_moves_two_counts():
    """One falls by 1, another one rises by 1, each with noise of its own."""
    charges = [Charge("", "skellam", 2.0)]
    assert epsilon_of(charges, 1e-4, "replace_one") == pytest.approx(
        brute_force([4.0, 4.0], 1e-4), rel=2e-3
    )


@pytest.mark.parametrize("shares", [1, 3, 50])
def test_shares_add_up_to_skellam_noise(shares):
    rng = stream(shares, "skellam")
    total = sum(skellam_share(9.0, shares, (40_000,), rng=rng) for _ in range(shares))
    edges = np.arange(-8, 9)
    seen = np.array(
        [(total <= -8).sum(), *((total == x).sum() for x in edges[1:-1]), (total >= 8).sum()]
    )
    chances = skellam.pmf(edges, 4.5, 4.5)
    chances[0], chances[-1] = skellam.cdf(-8, 4.5, 4.5), skellam.sf(7, 4.5, 4.5)
    assert chisquare(seen, chances * len(total)).pvalue > 1e-4
    assert total.dtype == np.int64
