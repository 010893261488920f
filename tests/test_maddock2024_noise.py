"""maddock2024 with its own noise for several local steps, what that costs and that runs with it say
so; and its likelihoods around the last refit."""

import numpy as np
import pytest
from marginal_toys import make_table

from fedsynth_lib.core import accounting
from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.marginals import distaim, flaim, marginal_state
from fedsynth_lib.methods.marginals.marginal_state import model_of
from fedsynth_lib.methods.marginals.model_answers import log_likelihood
from fedsynth_lib.methods.variants import naive_flaim
from fedsynth_lib.works import load, maddock2024, maddock2024_noise
from fedsynth_lib.works.protocol import Made, Prepared

STUDY, DELTA = load("maddock2024"), 1e-5


@pytest.mark.parametrize("rounds, steps, share", [(10, 2, 0.9), (30, 4, 0.9), (3, 3, 0.5)])
@pytest.mark.parametrize(
    "method, measured, left_out",
    [
        (naive_flaim, lambda t, d, s: t * s + d, lambda t, s: t * (s - 1)),
        (flaim, lambda t, d, s: t * (s + d), lambda t, s: t * (s - 1)),
    ],
)
def test_the_published_noise_is_that_of_lemma_4_1_and_costs_what_is_left_out_more(
    method, measured, left_out, rounds, steps, share
):
    """sigma^2 = measured / (2 r rho); what goes out costs (measured + T(s - 1)) / (2 sigma^2), and
    choices their (1 - r) rho as before."""
    config = method.Config(rounds=rounds, local_steps=steps, measure_share=share)
    rho, said = accounting.epsilon_to_zcdp(1.0, DELTA), measured(rounds, 14, steps)
    cost = maddock2024_noise.true_cost(14, config, 1.0)
    assert cost.noise == pytest.approx(np.sqrt(said / (2 * share * rho)), rel=1e-3)
    measuring = (said + left_out(rounds, steps)) / (2 * cost.noise**2)
    true = measuring + (1 - share) * rho
    assert cost.epsilon == pytest.approx(accounting.zcdp_to_epsilon(true, DELTA), rel=1e-3)
    assert cost.epsilon > 1.01 and cost.measure_share == pytest.approx(measuring / true, rel=1e-3)


def test_the_cost_on_adult_is_known_and_one_step_costs_what_is_claimed():
    asked = {"dataset": "adult", "epsilon": 1.0}
    found = {
        (method, steps): maddock2024_noise.cost_of(
            method=method, rounds=10, local_steps=steps, **asked
        ).epsilon
        for method in ("NaiveFLAIM", "AugFLAIM (Private)")
        for steps in (1, 2, 4)
    }
    assert found == pytest.approx(
        {
            ("NaiveFLAIM", 1): 1,
            ("NaiveFLAIM", 2): 1.1364,
            ("NaiveFLAIM", 4): 1.2474,
            ("AugFLAIM (Private)", 1): 1,
            ("AugFLAIM (Private)", 2): 1.0302,
            ("AugFLAIM (Private)", 4): 1.0791,
        },
        abs=1e-4,
    )
    assert max(found.values()) <= 1.2474 and found["NaiveFLAIM", 1] <= 1  # never above the claim


@pytest.mark.parametrize("method", [naive_flaim, flaim])
def test_a_run_with_the_published_noise_states_the_true_epsilon(method):
    """Everybody in every draw: it draws the noise of lemma 4.1, and its statement and the record in
    it pay the true cost. For the claim alone the same noise is refused."""
    changes = {"rounds": 3, "local_steps": 3, "participation": 1.0}
    config = method.Config(**changes, iterations=2, final_iterations=2)
    cost = maddock2024_noise.true_cost(4, config, 2.0)
    own = method.Config(
        **changes, iterations=2, final_iterations=2, measure_share=cost.measure_share
    )
    budget = Privacy(cost.epsilon, DELTA, reproduction=True)
    run = settings.central(method, make_table(60), config=own, privacy=budget, seed=2)
    entries = run.statement["entries"]
    (sigma,) = {e["noise_multiplier"] for e in entries if e["mechanism"] == "gaussian"}
    assert sigma == pytest.approx(cost.noise, rel=1e-5)
    (choice,) = [e for e in entries if e["mechanism"] == "exponential"]
    rho = accounting.epsilon_to_zcdp(2.0, DELTA)
    assert 2 / choice["noise_multiplier"] == pytest.approx(np.sqrt(0.8 * rho / 9), rel=1e-3)
    assert run.statement["epsilon_protected"] == pytest.approx(cost.epsilon, rel=1e-5)
    assert cost.epsilon > 2.1
    too_little = Privacy(2.0, DELTA, reproduction=True, noise_multiplier=cost.noise)
    with pytest.raises(accounting.BudgetExceeded, match="of a budget of 2 "):
        settings.central(method, make_table(60), config=own, privacy=too_little, seed=2)
    with pytest.raises(BadInput, match="reproduction=True keeps draws"):
        Privacy(cost.epsilon, DELTA, reproduction=True, noise_seed=None)


@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_cells_ask_for_the_true_epsilon_and_have_a_charged_run_beside_them(profile):
    cells = STUDY.grid("fig3 published noise", profile).cells
    assert {cell["local_steps"] for cell in cells} == {2, 4}
    names = ("epsilon", "noise", "measure_share")
    plain = {which: [] for which in ("as charged", "as published")}
    for cell in cells:
        plain[cell["noise"]].append({k: v for k, v in cell.items() if k not in names})
    assert plain["as charged"] == plain["as published"] and len(cells) == 2 * len(
        plain["as charged"]
    )
    for cell in cells:
        if cell["noise"] == "as charged":
            assert cell["epsilon"] == cell["claimed"] == 1 and "measure_share" not in cell
            continue
        assert cell["claimed"] == 1 < cell["epsilon"] < 1.3 and 0.9 < cell["measure_share"] < 0.94
        cost = maddock2024_noise.cost_of(
            "adult", cell["method"], cell.get("rounds", 10), cell["local_steps"], cell["claimed"]
        )
        method, asked = cell["method"], {k: v for k, v in cell.items() if k != "method"}
        made = STUDY.cell(method, kind="published noise", **asked)
        drawn = accounting.calibrate(
            lambda sigma, config=made.config: flaim.query_counts(14, config).plan(
                sigma, config.measure_share
            ),
            made.privacy,
        )
        assert drawn == pytest.approx(cost.noise, rel=2e-4)  # epsilon has four digits


def test_the_last_refit_starts_from_the_model_that_print_measures(monkeypatch):
    """A run that ends as it goes on, then 500 iterations on the same measurements: likelihoods of
    both, by hand; and what was drawn before is what the published scheme draws."""
    fits, estimate = [], marginal_state.estimate

    def caught(model, targets, **options):
        fits.append((model.potentials, targets, options["iterations"]))
        return estimate(model, targets, **options)

    monkeypatch.setattr(marginal_state, "estimate", caught)
    monkeypatch.setattr(maddock2024, "bins_of", lambda dataset: {})
    train, test = make_table(60), make_table(30, 1)
    budget, made = Privacy(1.0, DELTA, reproduction=True), {}
    for scheme in ("published", "before the last refit"):
        asked = {"dataset": "toy", "epsilon": 1.0, "seed": 0, "estimator": scheme, "rounds": 3}
        config = STUDY.cell("DistAIM", **asked).config
        run = settings.central(distaim, train, config=config, privacy=budget, seed=4)
        made[scheme] = fits.copy()
        fits.clear()
    assert [n for *_, n in made["published"]] == [50, 50, 50, 500]
    assert [n for *_, n in made["before the last refit"]] == [50] * 4
    for one, other in zip(*made.values(), strict=True):
        assert str(one[:2]) == str(other[:2])
    found = maddock2024.around_the_last_refit(
        Prepared(train, test), Made(run.synthetic, {}, run), distaim, config
    )
    ((potentials, targets, iterations),) = fits
    assert iterations == 500 and str(potentials) == str(model_of(run.state).potentials)
    last = estimate(model_of(run.state), targets, iterations=500, momentum=False, to_noise=False)
    codes = distaim.encoder(train.schema, config).transform(test.frame)
    for name, model in {"before": model_of(run.state), "last": last}.items():
        assert found[name, "nll"] == pytest.approx(-log_likelihood(model, codes).mean())
    assert found["before", "nll"] != found["last", "nll"]
