"""Jensen-Shannon and Wasserstein-1 distances of columns against scipy, sorted values, and numbers
worked by hand."""

import numpy as np
import pandas as pd
import pytest
from mixed_table import SCHEMA, mixed
from scipy.spatial.distance import jensenshannon
from sklearn.preprocessing import MinMaxScaler

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.marginal_distances import (
    jensen_shannon,
    jensen_shannon_by_column,
    wasserstein,
    wasserstein_by_column,
)
from fedsynth_lib.tables.schema import Column, Schema

SMALL = Schema(
    (
        Column("x", "numeric", low=-10, high=10),
        Column("c", "categorical", categories=("a", "b", "z")),
    ),
    "c",
)


def table(numbers, labels):
    return pd.DataFrame(
        {"x": np.asarray(numbers, float), "c": pd.Categorical(list(labels), ["a", "b", "z"])}
    )


@pytest.mark.parametrize(
    ("labels", "others", "distance"), [("aa", "a", 0), ("aab", "abaaba", 0), ("aab", "zzz", 1)]
)
def test_jensen_shannon_bounds(labels, others, distance):
    """The same shares of tables of different length score 0, no category in common 1, constant
    columns included."""
    assert (
        jensen_shannon(table([0] * len(labels), labels), table([0] * len(others), others), SMALL)
        == distance
    )


def test_jensen_shannon_equals_scipy():
    real, synthetic = mixed(900, seed=1), mixed(300, seed=2).assign(job="artist")
    distances = jensen_shannon_by_column(real, synthetic, SCHEMA)
    assert list(distances) == list(SCHEMA.categorical)
    for name, distance in distances.items():
        p, q = (
            f[name].value_counts().reindex(SCHEMA[name].categories, fill_value=0)
            for f in (real, synthetic)
        )
        assert distance == pytest.approx(jensenshannon(p, q, base=2), abs=1e-12)
    assert jensen_shannon(real, synthetic, SCHEMA) == pytest.approx(
        np.mean(list(distances.values()))
    )


def test_shares_that_differ_in_the_last_bit_are_no_trouble():
    """A sum of relative entropies just below 0 must not become NaN."""
    counts = [(np.arange(1, 4) * k, np.arange(1, 4) * (k + 7)) for k in range(1, 200)]
    for few, many in counts:
        a, b = (table(np.zeros(c.sum()), np.repeat(["a", "b", "z"], c)) for c in (few, many))
        assert jensen_shannon(a, b, SMALL) == pytest.approx(0, abs=1e-7)


def test_wasserstein_by_hand():
    """Range 4: (0, 4) to (1, 9) moves mass by 1 and by 5, on average 3, so 3/4; beyond the range
    nothing is clipped."""
    assert wasserstein(table([0, 4], "ab"), table([1, 9], "ab"), SMALL) == pytest.approx(0.75)
    assert wasserstein(table([0, 4], "ab"), table([4] * 5, "aaaaa"), SMALL) == pytest.approx(0.5)
    assert wasserstein(table([0, 4], "ab"), table([40], "a"), SMALL) == pytest.approx(9.5)


def test_a_constant_real_column_is_measured_in_its_own_units():
    assert wasserstein(table([3, 3], "ab"), table([3], "a"), SMALL) == 0
    assert wasserstein(table([3, 3], "ab"), table([5, 8], "ab"), SMALL) == pytest.approx(3.5)
    # synthetic constant
    assert wasserstein(table([1, 2], "ab"), table([2, 2], "ab"), SMALL) == pytest.approx(0.5)


def test_wasserstein_equals_scaling_first_and_sorted_values():
    real, synthetic = mixed(500, seed=1), mixed(500, seed=2)
    distances = wasserstein_by_column(real, synthetic, SCHEMA)
    assert list(distances) == list(SCHEMA.numeric)
    for name, distance in distances.items():
        scaler = MinMaxScaler().fit(real[[name]])
        a, b = (scaler.transform(f[[name]])[:, 0] for f in (real, synthetic))
        assert distance == pytest.approx(np.abs(np.sort(a) - np.sort(b)).mean())
    assert wasserstein(real, synthetic, SCHEMA) == pytest.approx(np.mean(list(distances.values())))
    assert wasserstein(real, real.sample(frac=1, random_state=0), SCHEMA) == pytest.approx(
        0, abs=1e-12
    )


def test_no_column_of_a_kind_gives_no_value():
    frame = table([0, 1], "ab")
    assert np.isnan(wasserstein(frame, frame, SMALL.drop(["x"])))
    assert np.isnan(jensen_shannon(frame, frame, SMALL.drop(["c"])))


def test_bad_input():
    frame = table([0, 1], "ab")
    with pytest.raises(BadInput, match="the synthetic table has no rows"):
        wasserstein(frame, frame.iloc[:0], SMALL)
    with pytest.raises(BadInput, match="the real table has no rows"):
        jensen_shannon(frame.iloc[:0], frame, SMALL)
    with pytest.raises(
        BadInput, match="the synthetic table has missing or infinite values in column 'x'"
    ):
        wasserstein(frame, frame.assign(x=[0, np.inf]), SMALL)
    with pytest.raises(
        BadInput, match="column 'c' holds 2 values that are not among its declared categories"
    ):
        jensen_shannon(frame, frame.assign(c="q"), SMALL)
