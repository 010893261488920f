"""Mixtures against scikit-learn, and the round trip of the normalisation."""

import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables import modes


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    parts = [rng.normal(20, 2, 500), rng.normal(50, 5, 900), rng.normal(80, 1, 200)]
    return np.round(np.concatenate(parts), 1)


def test_variational_fit_is_that_of_scikit_learn(values):
    ours = modes.fit_variational(values, seed=0)
    start = np.unique(values, return_inverse=True)
    owner = modes._clusters(*np.unique(values, return_counts=True), 10, 0)[start[1]]

    class Given(BayesianGaussianMixture):
        def _initialize_parameters(self, rows, *_, **__):
            self._initialize(rows, np.eye(10)[owner])

    theirs = Given(
        n_components=10, weight_concentration_prior=0.001, max_iter=100, random_state=0
    ).fit(values[:, None])
    assert np.allclose(ours.weights, theirs.weights_, atol=1e-8)
    assert np.allclose(ours.means, theirs.means_[:, 0], rtol=1e-8)
    assert np.allclose(ours.deviations**2, theirs.covariances_[:, 0, 0], rtol=1e-8)


def test_expectation_maximisation_is_that_of_scikit_learn(values):
    start = modes.start_by_k_means(values, 3, seed=0)
    ours = modes.fit(values, start)
    theirs = GaussianMixture(
        n_components=3,
        weights_init=start.weights,
        means_init=start.means[:, None],
        precisions_init=(1 / start.deviations**2)[:, None, None],
    ).fit(values[:, None])
    assert np.allclose(ours.weights, theirs.weights_, atol=1e-6)
    assert np.allclose(ours.means, theirs.means_[:, 0], rtol=1e-6)
    assert np.allclose(ours.deviations**2, theirs.covariances_[:, 0, 0], rtol=1e-6)


def test_three_clear_modes_are_found(values):
    mixture = modes.fit_variational(values, least_weight=0.01, seed=0).by_mean()
    nearest = np.abs(mixture.means[:, None] - [20, 50, 80]).argmin(axis=1)
    share = np.bincount(nearest, mixture.weights)
    assert np.allclose(share, [500 / 1600, 900 / 1600, 200 / 1600], atol=0.02)
    assert np.allclose(
        np.bincount(nearest, mixture.weights * mixture.means) / share, [20, 50, 80], atol=0.7
    )
    assert mixture.weights.sum() == pytest.approx(1) and (mixture.weights > 0.01).all()


def test_round_trip_is_exact_within_four_deviations(values):
    mixture = modes.fit_variational(values, seed=0)
    mode, distance = modes.normalise(values, mixture, np.random.default_rng(1))
    assert np.abs(distance).max() <= 1
    inside = np.abs(distance) < 1
    assert inside.mean() > 0.99
    assert np.allclose(modes.restore(mode, distance, mixture)[inside], values[inside])


def test_modes_are_drawn_by_their_density():
    mixture = modes.Mixture(np.array([0.25, 0.75]), np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    mode, _ = modes.normalise(np.zeros(20_000), mixture, np.random.default_rng(0))
    assert mode.mean() == pytest.approx(0.75, abs=0.012)


def test_averages_are_taken_mode_by_mode_in_the_order_of_means():
    one = modes.Mixture(np.array([0.2, 0.8]), np.array([5.0, 1.0]), np.array([1.0, 2.0]))
    other = modes.Mixture(np.array([0.6, 0.4]), np.array([3.0, 7.0]), np.array([2.0, 3.0]))
    mean = modes.average([one, other])
    assert np.allclose(mean.weights, [0.7, 0.3]) and np.allclose(mean.means, [2, 6])
    assert np.allclose(mean.deviations**2, [4, 5])


def test_draws_follow_the_mixture(values):
    mixture = modes.fit(values, modes.start_by_k_means(values, 3, seed=0))
    drawn = mixture.draw(50_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(values.mean(), abs=0.4)
    assert drawn.std() == pytest.approx(values.std(), rel=0.02)


def test_a_constant_column_has_one_narrow_mode():
    mixture = modes.fit_variational(np.full(50, 3.0), seed=0)
    mode, distance = modes.normalise(np.full(5, 3.0), mixture, np.random.default_rng(0))
    assert len(mixture.weights) == 1 and np.allclose(modes.restore(mode, distance, mixture), 3.0)


@pytest.mark.parametrize("bad", [np.array([]), np.array([1.0, np.nan])])
def test_values_that_cannot_be_fitted_are_refused(bad):
    with pytest.raises(BadInput, match="at least one value"):
        modes.fit_variational(bad, seed=0)
