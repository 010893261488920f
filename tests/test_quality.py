"""SDMetrics' quality report on our tables: exact ends, and shapes counted by hand."""

import numpy as np
import pandas as pd
import pytest
from conftest import SCHEMA, make_frame

from fedsynth_lib.metrics import quality as reports
from fedsynth_lib.metrics.quality import diagnostic, quality
from fedsynth_lib.tables.schema import Column, Schema


def test_a_copy_is_perfect_and_unlike_rows_are_not():
    real = make_frame(400)
    assert quality(real, real, SCHEMA) == {"column shapes": 1.0, "column pair trends": 1.0}
    shuffled = real.assign(
        **{
            name: real[name].sample(frac=1, random_state=place).to_numpy()
            for place, name in enumerate(real)
        }
    )
    found = quality(real, shuffled, SCHEMA)
    assert found["column shapes"] == 1.0 and found["column pair trends"] < 0.95


def test_shapes_are_the_distances_counted_by_hand():
    schema = Schema(
        (Column("x", "numeric", 0, 10), Column("c", "categorical", categories=("a", "b")))
    )
    real = pd.DataFrame({"x": np.arange(10.0), "c": ["a"] * 7 + ["b"] * 3})
    synthetic = pd.DataFrame({"x": np.arange(10.0) + 4, "c": ["a"] * 2 + ["b"] * 8})
    found = quality(real, synthetic, schema)  # KS distance 0.4, total variation 0.5
    assert found["column shapes"] == pytest.approx((0.6 + 0.5) / 2)


def test_columns_without_a_declaration_are_left_out():
    real = make_frame(200).assign(extra=1)
    assert quality(real, real.drop(columns="extra"), SCHEMA)["column shapes"] == 1.0


def test_validity_is_the_share_of_values_in_the_real_range():
    schema = Schema(
        (Column("x", "numeric", 0, 20), Column("c", "categorical", categories=("a", "b")))
    )
    real = pd.DataFrame({"x": np.arange(10.0), "c": ["a"] * 10})
    synthetic = pd.DataFrame({"x": np.arange(10.0) + 4, "c": ["a"] * 8 + ["b"] * 2})
    assert diagnostic(real, synthetic, schema) == {
        "data validity": pytest.approx((0.6 + 0.8) / 2),
        "data structure": 1.0,
    }


def test_long_tables_are_drawn_from_with_the_seed(monkeypatch):
    """The report itself draws beyond 50,000 rows, differently each time."""
    monkeypatch.setattr(reports, "MOST_ROWS", 100)
    real, other = make_frame(400), make_frame(400, seed=1)
    one, again, third = (quality(real, other, SCHEMA, seed=seed) for seed in (0, 0, 1))
    assert one == again != third
