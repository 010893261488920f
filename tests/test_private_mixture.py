"""The private mixture: sensitivity by brute force, the noise of its releases, and what it finds
with little noise."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from fedsynth_lib.core.contract import stream
from fedsynth_lib.methods.vae_bgm import private_mixture as module
from fedsynth_lib.methods.vae_bgm.likelihood_vae import LIMIT
from fedsynth_lib.methods.vae_bgm.private_mixture import (
    NARROWEST,
    SENSITIVITY,
    private_mixture,
    released,
)

OPTIONS = {"components": 3, "steps": 4, "radius": 5.0, "noise_multiplier": 1.0}


def fitted(means, log_variances, seed=0, **options):
    return private_mixture(
        means,
        log_variances,
        **{**OPTIONS, **options},
        noise=stream(seed, "noise"),
        rng=stream(seed, "rng"),
    )


@pytest.fixture
def scripted(monkeypatch):
    """The clean sums of a run whose noisy ones are always the same, whatever the rows: what a
    neighbour must match."""
    seen = []

    def told(clean, **_):
        rng = np.random.default_rng(len(seen) % OPTIONS["steps"])
        seen.append(clean)
        return rng.normal(size=clean.shape) * 30 + 10

    monkeypatch.setattr(module, "gaussian", told)
    return seen


def rows_of(number, latent, rng, spread=3.0):
    return rng.normal(size=(number, latent)) * spread, rng.uniform(-LIMIT, LIMIT, (number, latent))


def extremes(latent, rng):
    """Single rows at the limits of what an encoder can give, and some within."""
    corners = [
        np.eye(latent)[0] * LIMIT,
        -np.eye(latent)[-1] * LIMIT,
        np.full(latent, LIMIT),
        np.zeros(latent),
    ]
    corners += [*rng.choice([-LIMIT, LIMIT], size=(4, latent)), *rng.normal(size=(4, latent)) * 2]
    signs = [
        np.full(latent, LIMIT),
        np.full(latent, -LIMIT),
        np.zeros(latent),
        rng.choice([-LIMIT, LIMIT], size=latent),
    ]
    return [(mean, log_variance) for mean in corners for log_variance in signs]


@pytest.mark.parametrize("latent", [1, 2, 20])
def test_one_row_more_moves_every_release_by_its_sensitivity_at_most(scripted, latent):
    rng, moved = np.random.default_rng(latent), []
    for size in (0, 1, 30):
        means, log_variances = rows_of(size, latent, rng)
        fitted(means, log_variances)
        without = scripted[-OPTIONS["steps"] :]
        for mean, log_variance in extremes(latent, rng):
            fitted(np.vstack([means, mean]), np.vstack([log_variances, log_variance]))
            moved += [
                np.linalg.norm(a - b)
                for a, b in zip(scripted[-OPTIONS["steps"] :], without, strict=True)
            ]
    assert len(moved) == 3 * 48 * OPTIONS["steps"]
    assert 1.5 < max(moved) <= SENSITIVITY + 1e-9


def test_the_sensitivity_is_reached_and_each_block_has_its_part_of_it():
    """One sure component, a vector of length 1 along an axis, all log-variances at the limit: 1 + 1
    + 1 + 1."""
    nothing = released(np.empty((0, 3)), np.empty((0, 20)), np.empty((0, 20)))
    one = released(np.array([[0.0, 1, 0]]), np.eye(20)[:1], np.full((1, 20), -LIMIT))
    assert nothing.shape == one.shape == (3 + 2 * 3 * 20 + 20,)
    assert (nothing == 0).all() and np.linalg.norm(one) == pytest.approx(SENSITIVITY)
    for block in np.split(one, [3, 63, 123]):
        assert np.linalg.norm(block) == pytest.approx(1)


def test_nothing_but_the_releases_reaches_the_result(scripted):
    """With the same noisy sums, rows of another number and of other values give the very same
    mixture."""
    rng, results = np.random.default_rng(0), []
    for size in (40, 3, 0):
        mixture, average = fitted(*rows_of(size, 4, rng))
        results.append([*mixture, average])
    assert len(scripted) == 3 * OPTIONS["steps"] and not np.array_equal(scripted[0], scripted[4])
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


# --- what it finds

MEANS = np.array([[-3.0, 0.0, 1.0], [2.0, 2.5, 0.0], [2.0, -2.0, -2.0]])
WIDTHS = np.array([[0.5, 1.0, 0.3], [0.7, 0.4, 1.0], [0.2, 0.6, 0.8]])


def known(number, rng):
    group = rng.choice(3, size=number, p=[0.5, 0.3, 0.2])
    return MEANS[group] + WIDTHS[group] * rng.normal(size=(number, 3))


def peer(rows, start, steps):
    """Expectation maximisation by scikit-learn from the same start, without any noise."""
    count = len(start)
    model = GaussianMixture(
        count,
        covariance_type="diag",
        tol=0.0,
        reg_covar=0.0,
        max_iter=steps,
        weights_init=np.full(count, 1 / count),
        means_init=start,
        precisions_init=np.ones_like(start),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows)


@pytest.mark.parametrize("radius", [20.0, 3.0])  # beyond all vectors, and shorter than many
@pytest.mark.parametrize("steps", [1, 5])
def test_without_noise_to_speak_of_it_is_expectation_maximisation(radius, steps):
    rng = np.random.default_rng(5)
    rows, log_variances = known(1500, rng), rng.normal(size=(1500, 3))
    shortened = [row * min(1, radius / np.linalg.norm(row)) for row in rows]
    model = peer(np.stack(shortened), stream(2, "rng").normal(size=(3, 3)), steps)
    assert model.covariances_.min() > NARROWEST
    mixture, average = fitted(
        rows, log_variances, seed=2, radius=radius, steps=steps, noise_multiplier=1e-8
    )
    np.testing.assert_allclose(mixture.weights, model.weights_, rtol=1e-5)
    np.testing.assert_allclose(mixture.means, model.means_, atol=1e-5)
    np.testing.assert_allclose(
        mixture.covariances, [np.diag(c) for c in model.covariances_], atol=1e-5
    )
    np.testing.assert_allclose(average, log_variances.mean(axis=0), atol=1e-5)


def test_with_many_rows_it_recovers_a_mixture_under_noise():
    """From most starts; some end where two components share a group, as expectation maximisation
    does."""
    rows, recovered = known(20_000, np.random.default_rng(6)), 0
    for seed in range(9):
        mixture, average = fitted(
            rows, np.full((20_000, 3), -4.0), seed=seed, steps=25, radius=6.0, noise_multiplier=2.5
        )
        np.testing.assert_allclose(average, -4.0, atol=0.05)
        order = [int(np.linalg.norm(mixture.means - mean, axis=1).argmin()) for mean in MEANS]
        deviations = np.sqrt(np.diagonal(mixture.covariances[order], axis1=1, axis2=2))
        pairs = (
            (mixture.weights[order], [0.5, 0.3, 0.2], 0.02),
            (mixture.means[order], MEANS, 0.15),
        )
        recovered += all(
            np.allclose(*pair[:2], atol=pair[2]) for pair in (*pairs, (deviations, WIDTHS, 0.25))
        )
    assert recovered >= 5


LOUD = [(number, multiplier) for number in (0, 1, 30) for multiplier in (5.0, 200.0)]


@pytest.mark.parametrize(("number", "multiplier"), LOUD)
def test_under_large_noise_it_is_still_a_mixture(number, multiplier):
    rng = np.random.default_rng(1)
    for seed in range(10):
        mixture, average = fitted(*rows_of(number, 20, rng), seed=seed, noise_multiplier=multiplier)
        assert (mixture.weights > 0).all() and mixture.weights.sum() == pytest.approx(1)
        variances = np.diagonal(mixture.covariances, axis1=1, axis2=2)
        assert (variances >= NARROWEST).all() and (variances <= OPTIONS["radius"] ** 2).all()
        assert (
            np.isfinite(mixture.means).all()
            and average.shape == (20,)
            and (np.abs(average) <= LIMIT).all()
        )
        assert np.isfinite(mixture.sample(20, rng)).all()


@pytest.mark.parametrize("latent", [4, 20])
def test_components_that_hold_less_than_the_noise_are_drawn_back_to_the_prior(latent):
    """Rows of the prior itself, fewer than the noise of a count: draws must look like it, not like
    the noise."""
    rng, centres, variances = np.random.default_rng(1), [], []
    for seed in range(40):
        rows = rng.normal(size=(30, latent)), np.full((30, latent), -3.0)
        mixture, _ = fitted(*rows, seed=seed, noise_multiplier=20.0)
        centres.append(mixture.means)
        variances.append(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    centre, width = np.mean(np.square(centres)) ** 0.5, np.median(variances)
    assert centre < 1.3 and 0.4 < width < 2.5, (
        f"deviation of centres {centre:.2f}, median variance {width:.2f}"
    )
