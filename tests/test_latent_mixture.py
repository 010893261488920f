"""The latent mixture against scikit-learn's BayesianGaussianMixture from the same starts, and its
draws."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods.vae_bgm import latent_mixture
from fedsynth_lib.methods.vae_bgm.latent_mixture import (
    Mixture,
    converged,
    fit,
    mixture_of,
)

LIMITS = {"tolerance": 1e-3, "iterations": 5000, "ridge": 1e-5}


def groups(number, columns, seed=0, *, many=3, apart=3.0, centre=0.0):
    """Rows of a made-up mixture of correlated normal distributions that overlap."""
    rng = np.random.default_rng(seed)
    centres, turns = (
        rng.normal(size=(many, columns)) * apart,
        rng.normal(size=(many, columns, columns)) / columns**0.5,
    )
    group = rng.integers(many, size=number)
    return (
        centre
        + centres[group]
        + np.einsum("nij,nj->ni", turns[group], rng.normal(size=(number, columns)))
    )


def peer(rows, components, seed, *, tolerance=1e-3, iterations=5000, ridge=1e-5):
    options = {
        "max_iter": iterations,
        "tol": tolerance,
        "reg_covar": ridge,
        "n_init": 1,
        "random_state": seed,
    }
    model = BayesianGaussianMixture(
        n_components=components,
        covariance_type="full",
        weight_concentration_prior_type="dirichlet_process",
        init_params="kmeans",
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows)


def labels_of(rows, components, seed):
    return KMeans(components, n_init=1, random_state=seed).fit(rows).labels_


def same(found, model, rtol=1e-8):
    scale = np.abs(model.means_).max()
    np.testing.assert_allclose(found.weights, model.weights_, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(found.means, model.means_, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(found.covariances, model.covariances_, rtol=rtol, atol=rtol)


@pytest.fixture
def steps(monkeypatch):
    """The number of starts at work in each iteration, as the fit goes on."""
    seen, expect = [], latent_mixture._expect

    def counted(features, posterior):
        seen.append(len(posterior.means))
        return expect(features, posterior)

    monkeypatch.setattr(latent_mixture, "_expect", counted)
    return seen


CASES = {
    "four columns": (groups(300, 4), 6, {}),
    "one column": (groups(200, 1, seed=1), 4, {}),
    "many columns": (groups(260, 12, seed=2), 10, {}),
    "far from zero": (groups(200, 3, seed=3, centre=500.0), 5, {}),
    "shares too small for a float": (groups(4000, 2, seed=6, apart=300.0), 5, {}),
    "fewer rows than columns": (groups(9, 12, seed=4), 4, {}),
    "one component": (groups(50, 3, seed=5), 1, {}),
    "a loose tolerance": (groups(300, 4), 6, {"tolerance": 0.5}),
    "few iterations": (groups(300, 4), 6, {"iterations": 4}),
    "a wide ridge": (groups(300, 4), 6, {"ridge": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_one_start_is_that_of_scikit_learn(case, steps):
    rows, components, options = CASES[case]
    model = peer(rows, components, 7, **options)
    same(fit(rows, components=components, starts=1, seed=7, **options), model)
    assert steps == [1] * model.n_iter_  # and it stops at the same iteration
    _, bound = converged(
        rows, labels_of(rows, components, 7)[None], components, **{**LIMITS, **options}
    )
    assert bound == pytest.approx(model.lower_bound_, rel=1e-10)


def test_defaults_are_the_published_ones():
    rows = groups(400, 3, many=4)
    same(fit(rows, starts=1, seed=3), peer(rows, 20, 3))


@pytest.mark.parametrize("iterations", [3, 5000])
def test_the_start_with_the_highest_bound_is_taken(iterations):
    """Among ended and unfinished starts; the one that wins is the first in one case, and another in
    others."""
    winners = set()
    for seed in (0, 20, 40):
        rows = groups(150, 2, seed=seed, many=6)
        models = [peer(rows, 5, seed + start, iterations=iterations) for start in range(5)]
        best = int(np.argmax([model.lower_bound_ for model in models]))
        second = sorted(model.lower_bound_ for model in models)[-2]
        assert models[best].lower_bound_ - second > 1e-6  # no tie
        same(fit(rows, components=5, starts=5, seed=seed, iterations=iterations), models[best])
        winners.add(best)
    assert len(winners) > 1


ROWS = groups(120, 2, seed=8, many=5)
STARTS = [labels_of(ROWS, 4, seed) for seed in range(4)] + [
    np.random.default_rng(seed).integers(2 + seed % 3, size=120) for seed in range(6)
]


def alone(steps, **options):
    """Of each of STARTS its posterior, its bound and its number of iterations."""
    found = []
    for labels in STARTS:
        steps.clear()
        found.append((*converged(ROWS, labels[None], 4, **{**LIMITS, **options}), len(steps)))
    return found


def beside(one, other, **options):
    return converged(ROWS, np.stack([STARTS[one], STARTS[other]]), 4, **{**LIMITS, **options})


@pytest.mark.slow
def test_a_start_is_not_changed_by_those_that_go_on_beside_it(steps):
    """Each start next to each other one: the better of the two comes out as it does alone."""
    single = alone(steps)
    lengths = [length for *_, length in single]
    pairs = [
        (one, other) for one in range(len(STARTS)) for other in range(len(STARTS)) if one != other
    ]
    assert {0, 1} < {abs(lengths[one] - lengths[other]) for one, other in pairs}
    for one, other in pairs:
        steps.clear()
        posterior, bound = beside(one, other)
        best = max(one, other, key=lambda k: single[k][1])
        assert bound == pytest.approx(single[best][1], rel=1e-11)
        if abs(single[one][1] - single[other][1]) > 1e-6:  # else the two are as good
            for found, expected in zip(posterior, single[best][0], strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
        short, long = sorted((lengths[one], lengths[other]))
        assert steps == [2] * short + [1] * (long - short)  # an ended start costs nothing any more


def test_fewer_rows_than_components_make_as_many_components():
    rows = groups(6, 3)
    found = fit(rows, components=20, starts=1, seed=2)
    assert found.weights.shape == (6,) and found.covariances.shape == (6, 3, 3)
    same(found, peer(rows, 6, 2))


@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("columns", [1, 20])
def test_a_handful_of_rows_gives_a_mixture_that_can_be_drawn_from(number, columns):
    found = fit(groups(number, columns), starts=2, seed=1)
    assert found.weights.sum() == pytest.approx(1) and (found.weights > 0).all()
    assert np.isfinite(found.sample(50, np.random.default_rng(0))).all()


def test_copies_of_few_rows_and_a_constant_column_do_not_break_it():
    rows = np.repeat(groups(6, 3), 10, axis=0)
    rows[:, 1] = 10.0  # where the encoder's limit is
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # k-means finds six clusters for twenty
        drawn = fit(rows, starts=2, seed=1).sample(200, np.random.default_rng(0))
    assert np.isfinite(drawn).all() and np.abs(drawn[:, 1] - 10).max() < 1


@pytest.mark.parametrize("number", [0, 1])
def test_less_than_two_rows_are_refused(number):
    with pytest.raises(BadInput, match=f"at least two rows and got {number}"):
        fit(np.zeros((number, 3)), seed=0)


def test_weights_are_the_expected_parts_of_a_broken_stick():
    """Three components by hand: expected beta lengths, each of what the ones before leave, made to
    add up to 1."""
    rows = groups(90, 2)
    posterior, _ = converged(rows, np.arange(90)[None] % 3, 3, **{**LIMITS, "iterations": 1})
    lengths = [
        stats.beta(a, b).mean() for a, b in zip(posterior.first, posterior.second, strict=True)
    ]
    parts = [
        lengths[0],
        (1 - lengths[0]) * lengths[1],
        (1 - lengths[0]) * (1 - lengths[1]) * lengths[2],
    ]
    np.testing.assert_allclose(
        mixture_of(posterior).weights, np.array(parts) / sum(parts), rtol=1e-12
    )


# --- draws

FACTORS = np.array(
    [[[1.0, 0, 0], [0.8, 0.6, 0], [-0.5, 0.2, 0.3]], [[0.1, 0, 0], [0, 2.0, 0], [1.0, 1.0, 1.0]]]
)
KNOWN = Mixture(
    np.array([0.3, 0.7]),
    np.array([[0.0, 40.0, 1.0], [5.0, -40.0, 2.0]]),
    FACTORS @ FACTORS.transpose(0, 2, 1),
)


def test_draws_have_the_moments_of_every_component():
    number = 40_000
    rows = KNOWN.sample(number, np.random.default_rng(4))
    assert rows.shape == (number, 3) and rows.dtype == float
    parts = [rows[rows[:, 1] > 0], rows[rows[:, 1] < 0]]  # the components never meet in this column
    assert len(parts[0]) == pytest.approx(0.3 * number, abs=5 * (0.21 * number) ** 0.5)
    for part, mean, covariance in zip(parts, KNOWN.means, KNOWN.covariances, strict=True):
        deviations = np.sqrt(np.diag(covariance))
        assert (np.abs(part.mean(axis=0) - mean) < 5 * deviations / len(part) ** 0.5).all()
        error = np.sqrt((np.outer(deviations**2, deviations**2) + covariance**2) / len(part))
        assert (np.abs(np.cov(part.T) - covariance) < 5 * error).all()


def test_draws_are_in_random_order_and_there_may_be_none():
    rows = KNOWN.sample(1000, np.random.default_rng(4))
    runs = 1 + int((np.diff(np.sign(rows[:, 1])) != 0).sum())
    assert runs == pytest.approx(2 * 0.21 * 1000, abs=100)
    assert KNOWN.sample(0, np.random.default_rng(0)).shape == (0, 3)
