"""Composition theorems against numbers worked out by hand, and affordable steps against a search
and Opacus."""

import numpy as np
import pandas as pd
import pytest
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from scipy.stats import norm

from fedsynth_lib.core import composition as c
from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Charge


def spent(steps, noise, rate, delta, others=()):
    return epsilon_of(
        [Charge("x", "gaussian", noise, rate=rate, times=steps), *others], delta, accountant="rdp"
    )


# --- affordable steps ---

PAID = (Charge("counts", "laplace", noise=2.0, times=2), Charge("means", "gaussian", noise=5.0))
CASES = {
    "sampled": (2.0, 0.2, 3.0, 1e-5, ()),
    "all rows in every batch": (4.0, 1.0, 2.0, 1e-6, ()),
    "one step": (2.0, 1.0, 2.0, 1e-3, ()),
    "other charges": (1.5, 0.1, 3.0, 1e-5, PAID),
    "a charge of one client": (
        3.0,
        1.0,
        2.5,
        1e-4,
        (Charge("own", "gaussian", noise=2.0, client=1),),
    ),
    "none": (0.5, 0.5, 0.5, 1e-5, ()),
    "the others take it all": (2.0, 0.1, 1.0, 1e-5, (Charge("counts", "laplace", noise=0.5),)),
}


@pytest.mark.parametrize("noise, rate, epsilon, delta, others", CASES.values(), ids=CASES)
def test_the_number_of_steps_is_that_of_a_linear_search(noise, rate, epsilon, delta, others):
    slow = 0
    while spent(slow + 1, noise, rate, delta, others) <= epsilon:
        slow += 1
    assert c.affordable_steps(noise, rate, epsilon, delta, others) == slow


@pytest.mark.parametrize(
    "noise, rows, delta", [(2.0, 32561, 1e-5), (2.0, 10853, 1e-5), (1.0, 464809, 1e-6)]
)
def test_steps_agree_with_opacus(noise, rows, delta):
    """Opacus tries fewer orders, so that it may find a little more epsilon, and never less."""
    rate = 500 / rows
    steps = c.affordable_steps(noise, rate, 3.0, delta)
    accountant = RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    assert 3.0 - 1e-3 < accountant.get_epsilon(delta) < 3.0 * 1.002
    accountant.history = [(noise, rate, int(1.005 * steps) + 1)]
    assert accountant.get_epsilon(delta) > 3.0
    needed = get_noise_multiplier(
        target_epsilon=3.0, target_delta=delta, sample_rate=rate, steps=steps
    )
    assert needed == pytest.approx(noise, rel=0.01)  # Opacus stops within 0.01 of the target


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((2.0, 0.0, 3.0, 1e-5), "rate is 0.0"),
        ((2.0, 1.5, 3.0, 1e-5), "rate is 1.5"),
        ((2.0, 0.1, float("inf"), 1e-5), "epsilon is inf"),
        ((-1.0, 0.1, 3.0, 1e-5), "noise_multiplier is -1.0"),
        ((1e9, 0.1, 3.0, 1e-5), "never spends epsilon 3"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        c.affordable_steps(*arguments)


def test_no_noise_and_no_delta_allow_no_step():
    assert c.affordable_steps(0.0, 0.1, 3.0, 1e-5) == 0
    assert c.affordable_steps(2.0, 0.1, 3.0, 0.0) == 0


# --- training budget ---


def test_a_budget_that_is_looked_at_once_an_epoch_overshoots():
    """204 rows make one batch and one step an epoch: rho is 1/8 a step, and epsilon 3 at 1e-3
    allows three."""
    facts = c.training_budget(204, 500, noise_multiplier=2.0, epsilon=3.0, delta=1e-3)
    assert (facts["rate"], facts["steps per epoch"], facts["steps"], facts["epochs"]) == (
        1.0,
        1,
        3,
        3.0,
    )
    assert facts["late epochs"] == 4
    # rho = 4 / 8, by the conversion of Canonne, Kamath and Steinke
    order = np.linspace(1.001, 60, 200_000)
    by_hand = order / 2 + np.log1p(-1 / order) - np.log(1e-3 * order) / (order - 1)
    assert facts["late epsilon"] == pytest.approx(by_hand.min(), rel=1e-4)
    assert facts["late epsilon"] > 3.0


def test_epochs_follow_from_steps():
    facts = c.training_budget(10853, 500, noise_multiplier=2.0, epsilon=3.0, delta=1e-5)
    assert facts["steps per epoch"] == 21 and facts["rate"] == 500 / 10853
    epochs, first = 0, 0.0
    while first <= 3.0:  # lines 2 to 6 of algorithm 4.2
        epochs += 1
        first = spent(21 * epochs, 2.0, 500 / 10853, 1e-5)
    assert (facts["late epochs"], facts["late epsilon"]) == (epochs, first)
    assert epochs - 1 <= facts["epochs"] < epochs


def test_many_budgets_are_those_of_each():
    settings = pd.DataFrame(
        {"rows": [204, 1688], "noise_multiplier": [2.0, 3.0], "delta": [1e-3, 1e-4], "more": "-"},
        index=["a", "b"],
    )
    together = c.training_budgets(settings, 500, epsilon=3.0)
    assert together.loc["a"].to_dict() == c.training_budget(
        204, 500, noise_multiplier=2, epsilon=3, delta=1e-3
    )
    assert together.loc["b"].to_dict() == c.training_budget(
        1688, 500, noise_multiplier=3, epsilon=3, delta=1e-4
    )
    assert together["steps"].dtype == int


# --- training by sampling ---


@pytest.mark.slow
def test_the_chance_of_a_row_to_be_in_a_batch_by_hand_and_by_drawing():
    """Column a has x three times and y once: log 4 to log 2, so that y, the last row, has a third
    of its draws."""
    frame = pd.DataFrame({"a": list("xxxy"), "b": list("pqpq")})
    chance = c.chance_in_batch(frame, 1)
    # (2/9 + 1/4) / 2 and (1/3 + 1/4) / 2
    assert chance == pytest.approx([17 / 72, 17 / 72, 17 / 72, 7 / 24])
    rng, hits, batches = np.random.default_rng(0), np.zeros(4), 20_000
    weights = {"a": {"x": np.log(4), "y": np.log(2)}, "b": {"p": np.log(3), "q": np.log(3)}}
    rows = {
        (name, level): np.flatnonzero(frame[name] == level)
        for name in weights
        for level in weights[name]
    }
    kinds = list(rows)
    odds = np.array(
        [weights[name][level] / sum(weights[name].values()) / 2 for name, level in kinds]
    )
    for _ in range(batches):
        drawn = [rng.choice(rows[kinds[k]]) for k in rng.choice(len(kinds), 3, p=odds)]
        hits[np.unique(drawn)] += 1
    # four standard errors
    assert c.chance_in_batch(frame, 3) == pytest.approx(hits / batches, abs=0.015)
    assert c.chance_in_batch(frame.astype("category"), 3) == pytest.approx(
        c.chance_in_batch(frame, 3)
    )


# --- theorems ---


def test_the_classic_gaussian_bound():
    # sqrt(2 log 1250000) / 100
    assert c.gaussian_epsilon(100, 1e-6) == pytest.approx(0.0529881, rel=1e-5)
    with pytest.raises(BadInput, match="below 1 only"):
        c.gaussian_epsilon(4, 1e-6)


def test_basic_composition_adds_up():
    epsilon, delta = c.basic_composition(0.05, 1e-6, np.array([1, 200]))
    assert epsilon == pytest.approx([0.05, 10]) and delta == pytest.approx([1e-6, 2e-4])


def test_advanced_composition_by_hand():
    """k = 8, slack = e^-4: sqrt(2 * 8 * 4) = 8, so 8 * 0.1 + 8 * 0.1 * (e^0.1 - 1)."""
    epsilon, delta = c.advanced_composition(0.1, 1e-6, np.array([8]), slack=np.exp(-4))
    assert epsilon == pytest.approx([0.8 + 0.8 * 0.1051709181])
    assert delta == pytest.approx([8e-6 + np.exp(-4)])


def test_renyi_composition_by_hand():
    """sigma 100, 1000 releases, order 20: 20 * 1000 / 20000 + log(1e6) / 19."""
    found = c.renyi_composition(100, 1e-6, np.array([1, 1000]), order=20)
    assert found == pytest.approx([0.001 + 13.8155106 / 19, 1 + 13.8155106 / 19])
    with pytest.raises(BadInput, match="above 1"):
        c.renyi_composition(100, 1e-6, np.array([1]), order=1.0)


@pytest.mark.parametrize("times", [3, 1000, 50_000])
def test_the_best_order_is_that_of_a_search(times):
    orders = 1 + np.geomspace(1e-2, 1e4, 100_000)
    searched = min(c.renyi_composition(100, 1e-6, times, order=order) for order in orders[::50])
    best = c.renyi_composition(100, 1e-6, times)
    assert best == pytest.approx(searched, rel=1e-4) and best <= searched


def test_no_theorem_is_below_the_exact_value():
    """Exact: the delta of k releases at the epsilon in the column is 1e-6 (Balle and Wang 2018,
    theorem 8)."""
    table = c.accumulated(np.array([1, 10, 35, 1000]), noise_multiplier=100, delta=1e-6, order=20)
    assert list(table.index) == [1, 10, 35, 1000]
    assert (table["exact"] < table["Rényi, best order"]).all()
    assert (table["Rényi, best order"] <= table["Rényi, order 20"]).all()
    for times, epsilon in table["exact"].items():
        mu = np.sqrt(times) / 100
        delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert delta == pytest.approx(1e-6, rel=1e-6)
    # equal at 30.9
    assert (table["basic"] < table["advanced"]).tolist() == [True, True, False, False]
    # equal at 14.0
    assert (table["basic"] < table["Rényi, order 20"]).tolist() == [True, True, False, False]
