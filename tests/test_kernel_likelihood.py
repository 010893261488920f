"""The likelihood of rows under kernels around others, against sums of normal densities worked out
here."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.kernel_likelihood import independent_columns, kernel_nll


def codes_of(num_rows, seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 6, num_rows)
    return np.stack(
        [first, first // 2 + rng.integers(0, 3, num_rows), rng.integers(0, 2, num_rows)], axis=1
    )


def test_the_density_is_a_mixture_of_normals_around_the_synthetic_rows():
    synthetic, test = codes_of(60, 0), codes_of(9, 1)
    covariance = np.cov(synthetic.T) * 60 ** (-2 / (3 + 4))
    densities = [
        np.mean([multivariate_normal.pdf(row, each, covariance) for each in synthetic])
        for row in test
    ]
    assert kernel_nll(synthetic, test) == (pytest.approx(-np.mean(np.log(densities))), 0)


def test_constant_columns_are_dropped_from_both_tables():
    synthetic, test = codes_of(60, 0), codes_of(9, 1)
    wide, seen = (
        np.insert(codes, 1, value, axis=1) for codes, value in ((synthetic, 7), (test, 3))
    )
    assert kernel_nll(wide, seen) == (pytest.approx(kernel_nll(synthetic, test)[0]), 1)
    assert kernel_nll(np.full((5, 2), 4), np.full((3, 2), 4)) == (np.inf, 2)


def test_columns_that_follow_from_those_before_are_dropped():
    synthetic, test = codes_of(60, 0), codes_of(9, 1)
    assert independent_columns(synthetic) == [0, 1, 2]
    sums = [synthetic.sum(axis=1), 1 - synthetic[:, 2], np.full(60, 2)]
    singular = np.column_stack([sums[2], synthetic, *sums[:2]])
    assert independent_columns(singular) == [1, 2, 3]
    value, dropped = kernel_nll(singular, np.column_stack([test[:, 0], test, test[:, :2]]))
    assert (value, dropped) == (pytest.approx(kernel_nll(synthetic, test)[0]), 3)
    few = np.array([[0, 0, 5], [1, 0, 2], [0, 1, 9]])  # three rows span two dimensions
    assert independent_columns(few) == [0, 1] and np.isfinite(kernel_nll(few, test)[0])


def test_scales_apart_by_a_thousand_are_no_dependence():
    rng = np.random.default_rng(3)
    rare = (np.arange(20_000) == 7).astype(int)
    rows = np.stack([rng.integers(0, 1000, 20_000), rare, rng.integers(0, 2, 20_000)], axis=1)
    assert independent_columns(rows) == [0, 1, 2]
    assert np.isfinite(kernel_nll(rows, rows[:50])[0])


@pytest.mark.parametrize(
    "synthetic, test, message",
    [
        (
            np.zeros((4, 2)),
            np.zeros((4, 3)),
            r"shapes \(4, 2\) and \(4, 3\): give two tables with "
            r"the same columns",
        ),
        (np.zeros(4), np.zeros((4, 1)), "give two tables"),
        (np.zeros((1, 2)), np.zeros((4, 2)), "there are 1 synthetic and 4 test rows"),
        (np.zeros((4, 2)), np.zeros((0, 2)), "there are 4 synthetic and 0 test rows"),
    ],
)
def test_tables_without_a_density_are_refused(synthetic, test, message):
    with pytest.raises(BadInput, match=message):
        kernel_nll(synthetic, test)
