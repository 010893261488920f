"""Quantile maps against NumPy and scikit-learn, and what noise in their histograms can do to
them."""

import numpy as np
import pytest
from sklearn.preprocessing import QuantileTransformer

from fedsynth_lib.methods.vae_bgm import quantile_map


def test_quantiles_of_counted_values_are_those_of_all_values():
    rng = np.random.default_rng(0)
    values, counts = np.array([0.9, 0.1, 0.4, 0.25]), np.array([3, 50, 7, 1])
    expected = np.quantile(np.repeat(values, counts), np.linspace(0, 1, 101))
    assert np.allclose(quantile_map.of_values(values, counts, 101), expected)
    drawn = rng.random(357)
    assert np.allclose(
        quantile_map.of_values(drawn, np.ones(357, int), 50),
        np.quantile(drawn, np.linspace(0, 1, 50)),
    )


def test_scores_are_those_of_scikit_learn_with_ties_too():
    rng = np.random.default_rng(1)
    column = np.concatenate([np.zeros(400), rng.random(500), np.full(100, 0.5)])
    rows = np.stack([column, rng.permutation(column) ** 2], axis=1)
    theirs = QuantileTransformer(
        n_quantiles=1000, output_distribution="normal", subsample=None
    ).fit(rows)
    grid = np.stack(
        [quantile_map.of_values(*np.unique(c, return_counts=True), 1000) for c in rows.T]
    )
    assert np.allclose(grid, theirs.quantiles_.T)
    assert np.allclose(quantile_map.scores(rows, grid), theirs.transform(rows), atol=1e-6)
    scores = rng.normal(size=(300, 2))
    assert np.allclose(
        quantile_map.numbers(scores, grid), theirs.inverse_transform(scores), atol=1e-9
    )


def test_there_and_back():
    rng = np.random.default_rng(2)
    rows = rng.random((500, 3))
    for grid in (
        quantile_map.declared(3, 200),
        np.stack([quantile_map.of_values(c, np.ones(500, int), 1000) for c in rows.T]),
    ):
        assert np.allclose(
            quantile_map.numbers(quantile_map.scores(rows, grid), grid), rows, atol=1e-6
        )


def test_the_declared_map_makes_even_places_normal():
    even = (np.arange(1000)[:, None] + 0.5) / 1000
    scores = quantile_map.scores(even, quantile_map.declared(1, 1000))
    assert abs(scores.mean()) < 1e-9 and scores.std() == pytest.approx(1, abs=0.01)


def test_a_histogram_gives_quantiles_that_are_even_within_bins():
    line = quantile_map.of_histogram(np.array([1.0, 0.0, 3.0, 0.0]), 9)
    assert np.allclose(line, [0, 0.125, 0.5, *(0.5 + np.arange(1, 7) / 24)])


def test_noise_below_zero_and_an_empty_histogram_do_no_harm():
    line = quantile_map.of_histogram(np.array([-5.0, 2.0, -1.0, 2.0]), 101)
    assert (np.diff(line) >= 0).all() and line[0] == 0.25 and line[-1] == 1
    assert not ((line > 0.5) & (line < 0.75)).any()  # the bin of negative count
    assert np.allclose(quantile_map.of_histogram(np.array([-1.0, -2.0]), 5), np.linspace(0, 1, 5))


def test_no_columns():
    grid = quantile_map.declared(0, 10)
    assert quantile_map.scores(np.empty((4, 0)), grid).shape == (4, 0)
    assert quantile_map.numbers(np.empty((4, 0)), grid).shape == (4, 0)
