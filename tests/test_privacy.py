"""Mechanisms, accounting and calibration against closed forms, exact values and brute force."""

import itertools

import numpy as np
import pytest
from mpmath import exp, log, mp, mpf, npdf, quad
from opacus.accountants import RDPAccountant
from scipy.stats import chisquare, kstest, laplace, norm

from fedsynth_lib.core import accounting as p
from fedsynth_lib.core.contract import BadInput, Charge, Privacy, stamp
from fedsynth_lib.core.statement import statement, statement_table, statement_text


def laplace_charge(epsilon, times=1, client=None):
    return Charge("x", "laplace", noise=1 / epsilon, times=times, client=client)


def gaussian_charge(sigma, times=1, client=None, rate=1.0):
    return Charge("x", "gaussian", noise=sigma, times=times, client=client, rate=rate)


# --- mechanisms ---


@pytest.mark.parametrize("scale, shares", [(0.5, 1), (3.0, 4), (20.0, 10)])
def test_shares_add_up_to_discrete_laplace(scale, shares):
    draws = sum(
        p.discrete_laplace_share(scale, shares, (100_000,), rng=np.random.default_rng(k))
        for k in range(shares)
    )
    edge = int(4 * scale) + 1
    values = np.arange(-edge, edge + 1)
    stop = np.exp(-1 / scale)
    mass = (1 - stop) / (1 + stop) * stop ** np.abs(values)
    seen = np.array([(draws == value).sum() for value in values])
    expected = np.append(mass, 1 - mass.sum()) * len(draws)
    assert chisquare(np.append(seen, len(draws) - seen.sum()), expected).pvalue > 1e-3


def test_published_squares_are_laplace_only_with_variance_half_the_scale():
    draws = p.laplace_by_squares(4.0, 5, (50_000,), rng=np.random.default_rng(1))
    assert kstest(draws, laplace(scale=4.0).cdf).pvalue > 1e-3
    # the other reading of Gauss(0, s / 2): s / 2 as the standard deviation
    rng = np.random.default_rng(1)
    misread = rng.normal(0, 2.0, (4, 50_000)) ** 2
    assert (
        kstest(misread[0] + misread[1] - misread[2] - misread[3], laplace(scale=4.0).cdf).pvalue
        < 1e-6
    )


def test_gaussian_has_the_stated_deviation():
    noisy = p.gaussian(
        np.zeros(100_000), noise_multiplier=3, l2_sensitivity=2, rng=np.random.default_rng(2)
    )
    assert kstest(noisy, norm(scale=6).cdf).pvalue > 1e-3


def test_exponential_selects_with_the_stated_odds():
    scores, noise, sensitivity = np.array([0.0, 1.0, 3.0]), 2.0, 0.5
    rng = np.random.default_rng(3)
    chosen = [
        p.exponential(scores, noise_multiplier=noise, sensitivity=sensitivity, rng=rng)
        for _ in range(20_000)
    ]
    odds = np.exp(scores / (noise * sensitivity))
    assert (
        chisquare(np.bincount(chosen, minlength=3), odds / odds.sum() * len(chosen)).pvalue > 1e-3
    )


# --- accounting ---


def test_pure_epsilons_add_up_exactly():
    assert p.epsilon_of([laplace_charge(0.1, times=11), laplace_charge(0.5)]) == pytest.approx(
        1.6, rel=1e-12
    )
    assert p.epsilon_of([Charge("x", "exponential", noise=4.0, times=3)]) == pytest.approx(1.5)


def test_many_small_pure_releases_cost_less_at_a_delta():
    many = [laplace_charge(0.01, times=10_000)]
    assert p.epsilon_of(many) == pytest.approx(100)
    # zCDP by hand: 10,000 releases of epsilon^2 / 2
    assert p.epsilon_of(many, 1e-6, accountant="rdp") == pytest.approx(
        p.zcdp_to_epsilon(0.5, 1e-6), rel=1e-3
    )
    # so many small losses are as good as Gaussian, of which the figure is known
    gaussian = p.exact_gaussian_epsilon([gaussian_charge(1.0)], 1e-6)
    assert p.epsilon_of(many, 1e-6) == pytest.approx(gaussian, rel=2e-3)


def test_laplace_bound_covers_discrete_noise():
    """The Renyi divergence of discrete Laplace noise moved by its sensitivity, summed term by
    term."""
    scale, order = 2.0, 8.0
    x = np.arange(-400, 401)
    log_mass = -np.abs(x) / scale + np.log(np.tanh(1 / (2 * scale)))
    moved = -np.abs(x - 1) / scale + np.log(np.tanh(1 / (2 * scale)))
    exact = np.log(np.exp(order * log_mass + (1 - order) * moved).sum()) / (order - 1)
    bound = p.rdp(Charge("x", "laplace", noise=scale), np.array([order]))[0]
    continuous = np.log(
        order / (2 * order - 1) * np.exp((order - 1) / scale)
        + (order - 1) / (2 * order - 1) * np.exp(-order / scale)
    ) / (order - 1)
    assert exact == pytest.approx(bound, rel=1e-9)
    assert continuous < exact  # the textbook curve for continuous noise would have been too small


@pytest.mark.parametrize("sigma, times", [(0.7, 1), (5.0, 10), (40.0, 1000)])
def test_gaussian_is_zcdp_and_never_below_the_exact_value(sigma, times):
    charges = [gaussian_charge(sigma, times)]
    epsilon = p.epsilon_of(charges, 1e-5, accountant="rdp")
    assert epsilon == pytest.approx(p.zcdp_to_epsilon(times / (2 * sigma**2), 1e-5), rel=1e-3)
    exact = p.exact_gaussian_epsilon(charges, 1e-5)
    assert exact < epsilon < 1.25 * exact


def test_exact_gaussian_epsilon_has_the_stated_delta():
    epsilon, sigma = p.exact_gaussian_epsilon([gaussian_charge(2.0)], 1e-4), 2.0
    x = np.linspace(-30, 30, 2_000_001)
    gap = norm.pdf(x, 1, sigma) - np.exp(epsilon) * norm.pdf(x, 0, sigma)
    assert np.trapezoid(np.maximum(gap, 0), x) == pytest.approx(1e-4, rel=1e-4)


def test_sampled_gaussian_agrees_with_opacus_and_rounds_compose_to_one_run():
    rounds = [
        c for r in range(5) for c in stamp([gaussian_charge(1.0, 50, rate=0.1)], round=r, client=0)
    ]
    accountant = RDPAccountant()
    accountant.history = [(1.0, 0.1, 250)]
    assert p.epsilon_of(rounds, 1e-5, accountant="rdp") == pytest.approx(
        accountant.get_epsilon(1e-5), rel=0.01
    )
    assert p.epsilon_of(rounds, 1e-5) == pytest.approx(
        p.epsilon_of([gaussian_charge(1.0, 250, rate=0.1)], 1e-5), rel=1e-9
    )
    # what a reset accountant reports
    assert p.epsilon_of(rounds[:1], 1e-5) < 0.7 * p.epsilon_of(rounds, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rate, noise, order",
    [
        (0.3, 1e6, 1.34),
        (0.01, 1.0, 9.6),
        (0.05, 0.1, 1.3),
        (0.9, 1e3, 1.12),
        (1e-4, 0.6, 7.0),
        (0.2, 2.0, 100.0),
    ],
)
def test_the_divergence_of_a_sampled_step_is_the_exact_integral(rate, noise, order):
    """Forty digits of numerical integration; whole and other orders, from hardly any noise to
    hardly any loss."""
    mp.dps = 40
    q, s, a = mpf(rate), mpf(noise), mpf(order)
    places = sorted(
        {
            *(k * s for k in (-14, -3, 0, 3)),
            *(a * k / 8 for k in range(1, 9)),
            a + 6 * s,
            a + 14 * s,
        }
    )
    moment = quad(
        lambda x: (1 - q + q * exp((2 * x - 1) / (2 * s**2))) ** a * npdf(x, 0, s), places
    )
    found = p.rdp(gaussian_charge(noise, 1, rate=rate), np.array([order]))[0]
    assert found == pytest.approx(float(log(moment) / (a - 1)), rel=1e-8)


def test_disjoint_clients_cost_the_largest_and_shared_releases_add():
    charges = [laplace_charge(0.3, client=0), laplace_charge(0.5, client=1), laplace_charge(0.2)]
    assert p.epsilon_of(charges) == pytest.approx(0.7)


@pytest.mark.parametrize("seed", range(6))
def test_clients_are_accounted_one_by_one(seed):
    """Random releases of random clients against composing each client's own, charge by charge."""
    rng = np.random.default_rng(seed)
    kinds = [("laplace", 1.0), ("exponential", 1.0), ("gaussian", 1.0), ("gaussian", 0.01)][
        : 2 + seed % 3
    ]
    charges = []
    for number in range(60):
        mechanism, rate = kinds[rng.integers(len(kinds))]
        client = None if rng.random() < 0.2 else int(rng.integers(7))
        noise, times = float(rng.choice([3.0, 8.0, 21.5])), int(rng.integers(1, 4))
        charges.append(
            Charge("x", mechanism, noise, rate=rate, times=times, round=number, client=client)
        )
    charges.append(Charge("clear", "unprotected", client=3))
    orders, delta = p.ORDERS, 1e-5

    def converted(curve):
        return (
            curve + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
        ).min()

    spent = []
    for client in range(7):
        own = [c for c in charges if c.client in (None, client) and c.protected]
        pure = [c for c in own if c.mechanism != "gaussian"]
        rest = [c for c in own if c.mechanism == "gaussian"]
        added = sum((1 if c.mechanism == "laplace" else 2) / c.noise * c.times for c in pure)
        added += converted(sum(p.rdp(c) for c in rest)) if rest else 0
        spent.append(min(added, converted(sum(p.rdp(c) for c in own))))
    assert p.epsilon_of(charges, delta, accountant="rdp") == pytest.approx(max(spent), rel=1e-12)
    assert min(spent) < max(spent)
    shuffled = [charges[k] for k in rng.permutation(len(charges))]
    assert p.epsilon_of(shuffled, delta) == pytest.approx(p.epsilon_of(charges, delta), rel=1e-12)


def test_releases_about_everyone_count_without_any_client_and_no_release_costs_nothing():
    assert p.epsilon_of([laplace_charge(0.2), laplace_charge(0.1, times=2)]) == pytest.approx(0.4)
    assert p.epsilon_of([]) == p.epsilon_of([Charge("x", "unprotected", client=1)], 1e-5) == 0
    exact = p.exact_gaussian_epsilon(
        [gaussian_charge(3.0, client=0), gaussian_charge(4.0, 2)], 1e-5
    )
    assert exact == pytest.approx(
        p.exact_gaussian_epsilon([gaussian_charge((1 / 9 + 2 / 16) ** -0.5)], 1e-5)
    )


def test_a_charge_that_names_its_client_keeps_it():
    own, named = stamp([gaussian_charge(1.0), gaussian_charge(1.0, client=4)], round=2, client=1)
    assert (own.client, named.client, own.round, named.round) == (1, 4, 2, 2)
    assert stamp([gaussian_charge(1.0)], round=0)[0].client is None


def test_replacing_a_record_doubles_pure_epsilon():
    charges = [laplace_charge(0.3, times=2)]
    assert p.epsilon_of(charges, relation="replace_one") == pytest.approx(2 * p.epsilon_of(charges))
    with pytest.raises(BadInput, match="Poisson"):
        p.epsilon_of([gaussian_charge(1.0, rate=0.5)], 1e-5, "replace_one")


def test_noise_left_out_costs_everything():
    assert p.epsilon_of([Charge("x", "laplace", noise=0.0)]) == np.inf
    assert p.epsilon_of([gaussian_charge(0.0)], 1e-5) == np.inf
    assert p.epsilon_of([gaussian_charge(1.0)], delta=0.0) == np.inf


# --- a mechanism's loss, by brute force ---


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_discrete_laplace_loss_on_neighbouring_counts(scale):
    """The largest log ratio of output probabilities over all neighbours of a two-cell count is the
    claim."""
    x = np.arange(-200, 201)

    def log_mass(count):
        return -np.abs(x - count) / scale

    losses = [
        np.abs(log_mass(a) - log_mass(b)).max()
        for a, b in itertools.product(range(4), repeat=2)
        if abs(a - b) == 1
    ]
    assert max(losses) == pytest.approx(p.pure_epsilon(Charge("x", "laplace", noise=scale)))


# --- calibration and budget ---


@pytest.mark.parametrize(
    "budget", [Privacy(0.5), Privacy(1.6, relation="replace_one"), Privacy(3.0, 1e-5)]
)
def test_calibration_meets_the_budget_from_below(budget):
    multiplier = p.calibrate(lambda m: [Charge("x", "laplace", noise=7 * m, times=7)], budget)
    spent = p.epsilon_of(
        [Charge("x", "laplace", noise=7 * multiplier, times=7)], budget.delta, budget.relation
    )
    assert 0.999 * budget.epsilon < spent <= budget.epsilon


def test_calibrating_gaussian_noise_without_delta_is_refused():
    with pytest.raises(BadInput, match="delta above 0"):
        p.calibrate(lambda m: [gaussian_charge(m)], Privacy(1.0))


@pytest.mark.parametrize("epsilon", [0, -1, float("inf"), float("nan")])
def test_impossible_budgets_are_refused(epsilon):
    with pytest.raises(BadInput, match="epsilon"):
        Privacy(epsilon)


# --- the statement ---


def test_statement_never_hides_an_unprotected_release():
    charges = [
        laplace_charge(1.0),
        *stamp([Charge("best network", "unprotected")], round=3, client=2),
    ]
    said = statement(charges, Privacy(1.0))
    assert said["epsilon"] is None and said["epsilon_protected"] == pytest.approx(1.0)
    assert said["unprotected"] == ["best network"]
    html = statement_table(said).to_html()
    assert "best network" in html and "#b00020" in html and "none for the run as a whole" in html
    assert html.count("–") == 4  # no sensitivity, noise, scale or rate is made up for it


def test_statement_counts_every_release_once_per_record():
    charges = [
        c
        for r in range(4)
        for k in range(3)
        for c in stamp([laplace_charge(0.1)], round=r, client=k)
    ]
    said = statement(charges, Privacy(0.4))
    (entry,) = said["entries"]
    assert (entry["count"], entry["rounds"], entry["clients"]) == (4, [0, 1, 2, 3], [0, 1, 2])
    assert said["epsilon"] == pytest.approx(0.4) and said["epsilon_replace_one"] == pytest.approx(
        0.8
    )


def test_statement_names_whom_the_guarantee_is_against():
    assert (
        "honest-but-curious server" in statement([laplace_charge(0.1)], Privacy(0.4))["adversary"]
    )
    assert (
        statement([laplace_charge(0.1)], Privacy(0.4), adversary="only readers")["adversary"]
        == "only readers"
    )


def test_a_statement_does_not_promise_that_the_time_of_computing_says_nothing():
    said = statement([laplace_charge(0.1)], Privacy(0.4))
    assert "* how long computing takes" in statement_text(said, "a release").splitlines()


def test_statement_counts_the_busiest_client():
    charges = [
        c
        for k, r in ((0, 0), (1, 0), (1, 3))
        for c in stamp([gaussian_charge(9.0)], round=r, client=k)
    ]
    (entry,) = statement(charges, Privacy(0.4, 1e-5))["entries"]
    assert (entry["count"], entry["rounds"], entry["clients"]) == (2, [0, 3], [0, 1])


@pytest.mark.parametrize("rate", [128 / 203, 128 / 314, 0.05, 0.9])
def test_huge_noise_on_sampled_rows_costs_next_to_nothing(rate):
    """Opacus's series of fractional orders breaks down there; calibration starts there."""
    charge = Charge("x", "gaussian", noise=1e9, rate=rate, times=10)
    assert 0 <= p.epsilon_of([charge], 1e-5) < 0.1
