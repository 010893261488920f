"""The smaller of two valid figures of epsilon: against exact values, Opacus, and what must hold of
any accountant."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from opacus.accountants import PRVAccountant
from scipy.stats import binom, norm, skellam

from fedsynth_lib.core import accounting as p
from fedsynth_lib.core import privacy_loss
from fedsynth_lib.core.contract import BadInput, Charge, Domain, Privacy, stamp
from fedsynth_lib.core.privacy_loss import numerical_epsilon
from fedsynth_lib.core.statement import (
    statement,
    statement_table,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS

DELTA = 1e-5
DOMAIN = Domain(("a", "b", "c", "d"), (0, 0, 3, 5))

# (rate, steps, noise, epsilon at delta 1e-5) by Google's dp-accounting 0.6.0, another
# implementation of this theory:
#   accountant = pld.PLDAccountant(value_discretization_interval=2e-5)
#   step = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
#   accountant.compose(SelfComposedDpEvent(step, steps)).get_epsilon(1e-5)
EXACT = [
    (0.01, 60, 0.6, 3.463019),
    (0.01, 500, 0.8, 2.399437),
    (0.01, 1560, 1.0, 2.276981),
    (0.02, 300, 0.7, 5.435132),
    (0.02, 1560, 1.5, 2.497921),
    (0.05, 60, 0.8, 4.741866),
    (0.05, 400, 1.5, 3.360433),
    (0.05, 1560, 2.0, 4.748550),
    (0.1, 60, 1.0, 5.572689),
    (0.1, 400, 2.0, 4.902887),
    (0.1, 1560, 4.0, 4.434624),
    (0.2, 60, 1.5, 5.771263),
    (0.2, 400, 3.0, 6.458679),
    (0.2, 1560, 4.0, 10.089741),
    (0.3, 100, 2.5, 5.900783),
    (0.5, 60, 2.0, 10.531267),
    (0.5, 300, 4.0, 11.278631),
    (0.5, 1560, 4.0, 32.994237),
    (0.01, 1560, 4.0, 0.345770),
    (0.05, 200, 4.0, 0.665556),
]


def sampled(rate, steps, noise, client=None):
    return Charge("gradients", "gaussian", noise, rate=rate, times=steps, client=client)


def gaussian(noise, times=1):
    return Charge("sums", "gaussian", noise, times=times)


def laplace(epsilon, times=1):
    return Charge("counts", "laplace", noise=1 / epsilon, times=times)


# --- against exact values ---


@pytest.mark.parametrize("rate, steps, noise, exact", EXACT)
def test_sampled_gaussian_noise_against_known_values(rate, steps, noise, exact):
    charges = [sampled(rate, steps, noise)]
    smallest = p.epsilon_of(charges, DELTA)
    assert exact - 1e-5 <= smallest <= 1.001 * exact
    assert p.epsilon_of(charges, DELTA, accountant="rdp") > 1.03 * smallest


@pytest.mark.parametrize("rate, steps, noise", [(0.01, 60, 0.6), (0.1, 400, 2.0)])
def test_sampled_gaussian_noise_is_between_the_bounds_of_opacus(rate, steps, noise):
    accountant = PRVAccountant()
    accountant.history = [(noise, rate, steps)]
    losses = accountant._get_dprv(eps_error=0.01, delta_error=DELTA / 1000)
    lower, estimate, upper = losses.compute_epsilon(DELTA, DELTA / 1000, 0.01)
    found = p.epsilon_of([sampled(rate, steps, noise)], DELTA)
    assert lower < found < upper and found == pytest.approx(estimate, rel=2e-4)


@pytest.mark.parametrize(
    "noise, times, delta", [(4.0, 10, 1e-5), (0.7, 1, 1e-3), (60.0, 200, 1e-9)]
)
def test_gaussian_noise_on_all_rows_is_exact(noise, times, delta):
    charges = [gaussian(noise, times)]
    exact = p.exact_gaussian_epsilon(charges, delta)
    assert p.epsilon_of(charges, delta) == exact < p.epsilon_of(charges, delta, accountant="rdp")
    assert exact - 1e-9 <= numerical_epsilon(charges, delta, 1.1 * exact) <= 1.001 * exact


@pytest.mark.parametrize("noise, times", [(2.0, 1), (9.0, 20)])
def test_mass_that_is_cut_off_is_added_to_delta(monkeypatch, noise, times):
    """With a tenth of delta cut off at either end the figure is larger, and never below the exact
    one."""
    exact = p.exact_gaussian_epsilon([gaussian(noise, times)], DELTA)
    fine = numerical_epsilon([gaussian(noise, times)], DELTA, exact)
    monkeypatch.setattr(privacy_loss, "CUT", 0.1)
    found = numerical_epsilon([gaussian(noise, times)], DELTA, exact)
    assert exact <= fine < found <= 1.1 * exact


@pytest.mark.parametrize("times", [1, 2])
def test_mass_that_a_release_loses_is_added_to_delta(monkeypatch, times):
    """Each of these releases publishes everything with probability DELTA / 4."""
    pure, charge = privacy_loss._pure, laplace(0.3, times)
    without = numerical_epsilon([charge], DELTA * (1 - times / 4), 0.3 * times)
    monkeypatch.setattr(privacy_loss, "_pure", lambda *of: replace(pure(*of), lost=DELTA / 4))
    found = numerical_epsilon([charge], DELTA, 0.3 * times)
    assert found == pytest.approx(without, rel=1e-6)
    always = numerical_epsilon([laplace(0.3, 4)], DELTA, 1.2)
    assert np.isinf(always)


def test_mass_of_whole_number_noise_that_is_cut_off_is_added_to_delta(monkeypatch):
    """By the sum over all outcomes, in place of a closed form."""
    x = np.arange(-400, 402)
    above, below = (skellam.pmf(x - by, 50, 50) for by in (1, 0))
    charge = Charge("", "skellam", 10.0)
    monkeypatch.setattr(privacy_loss, "CUT", 0.1)
    found = numerical_epsilon([charge], DELTA, 0.5)
    assert np.maximum(above - np.exp(found) * below, 0).sum() <= 0.9 * DELTA


@pytest.mark.parametrize("epsilon, times", [(0.1, 30), (0.01, 900), (0.5, 4)])
def test_pure_releases_are_composed_as_well_as_they_can_be(epsilon, times):
    """The hockey-stick divergence of randomised response, repeated (Kairouz, Oh and Viswanath 2015,
    theorem 3.3)."""
    ups = np.arange(times + 1)
    losses, chances = (2 * ups - times) * epsilon, binom.pmf(ups, times, 1 / (1 + np.exp(-epsilon)))
    found = p.epsilon_of([laplace(epsilon, times)], 1e-6)
    delta = (chances * np.maximum(0, -np.expm1(found - losses))).sum()
    assert delta <= 1e-6
    less = (chances * np.maximum(0, -np.expm1(0.998 * found - losses))).sum()
    assert less > 1e-6


@pytest.mark.parametrize(
    "pure, noise, delta", [(0.4, 3.0, 1e-5), (1.5, 1.0, 1e-6), (0.05, 20.0, 1e-4)]
)
def test_a_mixture_of_laplace_and_gaussian_noise_is_exact(pure, noise, delta):
    """Randomised response has two losses; given either, what is left is the Gaussian's delta (Balle
    and Wang 2018)."""

    def gaussian_delta(epsilon, mu=1 / noise):
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)

    def true_delta(epsilon):
        yes = 1 / (1 + np.exp(-pure))
        return yes * gaussian_delta(epsilon - pure) + (1 - yes) * gaussian_delta(epsilon + pure)

    found = p.epsilon_of([laplace(pure), gaussian(noise)], delta)
    assert true_delta(found) <= delta < true_delta(0.999 * found)


def test_both_directions_of_a_sampled_pair_are_bounded():
    """Losses drawn at random: adding a record and removing one, of a hundred steps."""
    rng, rate, noise, steps, delta = np.random.default_rng(0), 0.2, 0.8, 20, 0.02
    epsilon = p.epsilon_of([sampled(rate, steps, noise)], delta)
    for having in (True, False):
        x = rng.normal(0, noise, (100_000, steps)) + having * (rng.random((100_000, steps)) < rate)
        losses = np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2))).sum(axis=1) * (
            1 if having else -1
        )
        found = np.maximum(0, -np.expm1(epsilon - losses))
        assert found.mean() < delta + 4 * found.std() / np.sqrt(len(found))
        if having:  # the worse of the two here, and tight
            assert found.mean() > delta - 4 * found.std() / np.sqrt(len(found))


# --- what must hold of any accountant ---


def test_a_mixture_costs_at_least_its_parts_and_at_most_their_sum():
    parts = [sampled(0.05, 300, 1.5), gaussian(8.0, 3), laplace(0.3, 2)]
    alone = [p.epsilon_of([part], DELTA) for part in parts]
    together = p.epsilon_of(parts, DELTA)
    renyi = p.epsilon_of(parts, DELTA, accountant="rdp")
    gaussians = p.epsilon_of(parts[:2], DELTA)
    assert max(alone) < gaussians < together <= min(renyi, gaussians + 0.6)


def test_more_noise_fewer_steps_and_lower_rates_never_cost_more():
    rng = np.random.default_rng(4)
    for _ in range(12):
        rate, steps, noise = (
            rng.uniform(0.005, 0.3),
            int(rng.integers(20, 900)),
            rng.uniform(0.8, 3),
        )
        cost = p.epsilon_of([sampled(rate, steps, noise)], DELTA)
        assert p.epsilon_of([sampled(rate, steps, 1.001 * noise)], DELTA) < cost
        assert p.epsilon_of([sampled(rate, steps - 1, noise)], DELTA) < cost
        assert p.epsilon_of([sampled(0.999 * rate, steps, noise)], DELTA) < cost


def test_selections_are_not_composed_by_losses():
    """Noise that depends on what was selected is not fixed beforehand; pure epsilons add up all the
    same."""
    choice = Charge("choice", "exponential", noise=20.0, times=2)
    exact = p.exact_gaussian_epsilon([gaussian(5.0)], DELTA)
    assert p.numerical_epsilon_of([choice, gaussian(5.0)], DELTA) == pytest.approx(exact + 0.2)
    assert p.numerical_epsilon_of([choice, sampled(0.1, 10, 2.0)], DELTA) is None


@pytest.mark.parametrize(
    "charges",
    [[sampled(0.01, 100, 0.05)], [gaussian(1.0), laplace(80.0)], [laplace(0.3, 3)]],
    ids=str,
)
def test_where_losses_give_no_figure_renyi_counts(charges):
    delta = 0.0 if charges[0].mechanism == "laplace" else DELTA
    assert p.numerical_epsilon_of(charges, delta) is None or charges[-1].mechanism == "laplace"
    assert p.epsilon_of(charges, delta) <= p.epsilon_of(charges, delta, accountant="rdp") < np.inf


def test_clients_who_pay_less_need_no_figure_of_their_own():
    charges = [sampled(rate, 200, 1.5, client=k) for k, rate in enumerate((0.01, 0.05, 0.03))]
    worst = p.epsilon_of(charges[1:2], DELTA)
    assert p.epsilon_of(charges, DELTA) == p.numerical_epsilon_of(charges, DELTA) == worst


# --- calibration ---


PLANS = {
    "dp-sgd": lambda noise: [gaussian(40 * noise), sampled(0.02, 500, noise)],
    "all rows": lambda noise: [gaussian(noise, 7)],
    "mixture": lambda noise: [laplace(0.2), sampled(0.1, 60, noise)],
    "pure": lambda noise: [Charge("x", "laplace", noise=7 * noise, times=7)],
    "selections": lambda noise: [
        Charge("x", "exponential", noise=9 * noise, times=9),
        gaussian(9 * noise, 9),
    ],
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_calibrated_noise_is_within_the_budget_and_near_it(plan, epsilon):
    asked = Privacy(epsilon, DELTA)
    noise = p.calibrate(plan, asked)
    assert epsilon * (1 - 1e-6) < p.epsilon_of(plan(noise), DELTA) <= epsilon
    assert noise <= p.calibrate(plan, replace(asked, reproduction=True))


@pytest.mark.parametrize("rate, steps", [(0.01, 1560), (0.05, 400), (0.2, 60), (0.5, 300)])
def test_less_noise_is_needed_than_by_renyi(rate, steps):
    """6.5 to 8 percent less at epsilon 1, over rates and numbers of steps."""
    needed = [
        p.calibrate(
            lambda noise: [sampled(rate, steps, noise)], Privacy(1.0, DELTA, reproduction=only)
        )
        for only in (True, False)
    ]
    assert 0.06 < 1 - needed[1] / needed[0] < 0.085


def test_a_reproduction_has_the_noise_that_it_always_had():
    """Committed rows of the works rest on these digits."""
    fedvae = METHODS["fedvae"]
    rows = [
        settings.noise_for(
            fedvae, DOMAIN, [900], fedvae.Config(), Privacy(e, DELTA, reproduction=True)
        )
        for e in (1.0, 3.0)
    ]
    np.testing.assert_allclose(rows, FROZEN, rtol=1e-9)


FROZEN = [84.77333793444049, 31.30514468426691]


def test_a_run_calibrated_by_losses_is_let_through_to_its_last_round_and_no_further():
    asked = Privacy(1.0, DELTA)
    noise = p.calibrate(lambda noise: [sampled(0.05, 400, noise)], asked)
    rounds = [c for r in range(4) for c in stamp([sampled(0.05, 100, noise)], round=r, client=0)]
    promised = p.noisy_profiles([sampled(0.05, 400, noise)])
    for known in ([], promised):
        for last in range(1, 5):
            p.check_budget(rounds[:last], asked, when="now", promised=known)
        with pytest.raises(p.BudgetExceeded, match=r"epsilon 1\.0"):
            p.check_budget(
                [*rounds, replace(rounds[0], times=10)], asked, when="now", promised=known
            )
    with pytest.raises(p.BudgetExceeded, match=r"epsilon 1\.0[89]"):
        p.check_budget(rounds, replace(asked, reproduction=True), when="now")


def test_a_part_of_the_promise_is_let_through_without_composing_losses(monkeypatch):
    charges = [sampled(0.05, 400, 2.0)]
    asked = Privacy(p.epsilon_of(charges, DELTA), DELTA)
    monkeypatch.setattr(p, "_numerical", lambda *_: pytest.fail("composed"))
    p.check_budget([sampled(0.05, 399, 2.0)], asked, when="now", promised=p.noisy_profiles(charges))


def test_many_short_steps_are_accounted_in_seconds():
    begin = time.process_time()
    findiff = METHODS["findiff"]
    config = findiff.Config(training_rounds=3000, local_updates=100)
    settings.noise_for(findiff, DOMAIN, [30_000], config, Privacy(1.0, DELTA))
    assert time.process_time() - begin < 60  # some 3, whatever else the machine does


# --- delta ---


def test_delta_above_one_in_n_is_refused_before_a_row_is_seen(table, monkeypatch):
    method, parts = METHODS["fedvae"], np.array_split(np.arange(len(table.frame)), 3)
    n = len(table.frame)
    encoder = method.encoder(table.schema, method.Config())
    monkeypatch.setattr(type(encoder), "transform", lambda *_: pytest.fail("a row was encoded"))
    with pytest.raises(
        BadInput,
        match=rf"delta is 0\.01, above 1 / n for the {n} rows "
        r".*large_delta=True",
    ):
        settings.federated(method, table, parts, privacy=Privacy(1.0, 0.01))
    # as declared, whatever there is
    with pytest.raises(BadInput, match="above 1 / n for the 30 rows"):
        settings.federated(method, table, parts, privacy=Privacy(1.0, 0.05), sizes=[10, 10, 10])


def test_delta_is_compared_with_all_rows_of_the_run():
    p.check_delta(Privacy(1.0, 1 / 3000), 3000)
    p.check_delta(Privacy(1.0, 1e-3, large_delta=True), 3000)
    p.check_delta(Privacy(1.0, 1e-3, reproduction=True), 3000)
    p.check_delta(Privacy(None, 1e-3), 3000)
    with pytest.raises(BadInput, match=r"at most 1 / 3000, or"):
        p.check_delta(Privacy(1.0, 3.4e-4), 3000)


# --- the statement ---


def said(privacy=None, charges=None, **options):
    charges = [sampled(0.05, 400, 6.0)] if charges is None else charges
    return statement(
        charges, privacy or Privacy(2.0, DELTA), num_rows=1000, num_clients=4, **options
    )


def test_both_figures_stand_whichever_counts():
    ours, theirs = said(), said(Privacy(2.0, DELTA, reproduction=True))
    assert ours["epsilon"] == ours["epsilon_numerical"] < ours["epsilon_rdp"]
    assert theirs["epsilon"] == theirs["epsilon_rdp"] == ours["epsilon_rdp"]
    assert (
        "composed numerically" in ours["accountant"] and "numerically" not in theirs["accountant"]
    )
    for found in (ours, theirs):
        words = (
            f"by Rényi DP {found['epsilon_rdp']:.4g}, numerically {found['epsilon_numerical']:.4g}"
        )
        assert words in statement_table(found).to_html()
    pure = said(Privacy(2.0), [laplace(0.5)])
    assert pure["epsilon_numerical"] is None and "no figure" in pure["accountant"]
    assert "no numerical figure" in statement_table(pure).to_html()


def test_a_large_delta_is_named():
    assert (
        said()["delta_exceeds"] is False
        and said(Privacy(2.0, 0.01, large_delta=True))["delta_exceeds"]
    )
    assert "exceeds 1 / n" in statement_table(said(Privacy(2.0, 0.01, large_delta=True))).to_html()


def test_shares_of_noise_and_rounding_are_stated():
    ours, theirs = said(), said(Privacy(2.0, DELTA, reproduction=True))
    assert (ours["curious"], ours["shares"], ours["whole"]) == (1, 3, True)
    assert (theirs["curious"], theirs["shares"], theirs["whole"]) == (0, 4, False)
    assert (
        "at most 1 client pools with it" in ours["adversary"]
        and "clients do not collude" in theirs["adversary"]
    )
    assert (
        "on counts it is rounded" in ours["not_covered"]
        and "not rounded on counts" in theirs["not_covered"]
    )


def test_a_statement_can_be_kept_whatever_numbers_it_was_given():
    """A delta or a number of rows that numpy made: the statement goes into files as JSON."""
    said = statement([], Privacy(1.0, np.float64(1e-5)), num_rows=np.int64(10**6), num_clients=3)
    assert (
        said["delta_exceeds"] is True
        and json.loads(json.dumps(said, default=int))["num_rows"] == 10**6
    )
