"""Importance and correlation against searches whose answer is known from how they were made."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from search_rows import GRID, draws, full_grid, search

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate
from fedsynth_lib.printed.sensitivity import (
    configurations,
    correlation,
    importance,
    sensitivity,
)
from fedsynth_lib.runs.rows import canonical


def shares(rows, **options):
    return importance(rows, **options).set_index("hyperparameter")["importance"]


def correlations(rows):
    return correlation(rows).set_index("hyperparameter")["correlation"]


def hashed(each):
    """A run time that has nothing to do with the score."""
    return float(np.random.default_rng(sum(each.values())).random())


def test_importance_is_the_share_of_variance_in_a_balanced_grid():
    # additive score on a full grid: trees split off each part's variance, 4 * var(interval) and
    #     var(population)
    rows = search(
        "fedbn",
        "adult",
        full_grid(),
        lambda c: 0.2 * c["aggregation_interval"] - 0.02 * c["population_size"],
    )
    parts = [
        np.var(0.2 * np.array(GRID["aggregation_interval"])),
        np.var(0.02 * np.array(GRID["population_size"])),
    ]
    found = shares(rows)
    assert found["aggregation_interval"] == pytest.approx(parts[0] / sum(parts), abs=0.05)
    assert found["population_size"] == pytest.approx(parts[1] / sum(parts), abs=0.05)
    assert found["selection_pressure"] < 0.02 and found["runtime"] == 0  # never varies
    assert found.sum() == pytest.approx(1)
    assert found.index[0] == "aggregation_interval"  # the most important first
    assert shares(rows, seed=1).to_dict() == pytest.approx(found.to_dict(), abs=0.03)


def test_run_time_is_an_input_and_takes_what_it_alone_explains():
    rows = search("fedbn", "adult", full_grid(), hashed, hashed)
    assert shares(rows)["runtime"] > 0.9
    assert correlations(rows)["runtime"] == pytest.approx(1)


def test_importance_sees_what_correlation_does_not():
    rows = search("fedbn", "adult", full_grid(), lambda c: abs(c["population_size"] - 150.0))
    assert shares(rows)["population_size"] > 0.95
    assert correlations(rows)["population_size"] == pytest.approx(0, abs=1e-9)


def test_correlation_is_pearsons_over_configurations():
    rows = search(
        "fedbn", "adult", full_grid(), lambda c: c["aggregation_interval"] ** 2 + hashed(c), hashed
    )
    inputs = pd.DataFrame(full_grid())
    score = inputs["aggregation_interval"] ** 2 + [hashed(each) for each in full_grid()]
    found = correlations(rows)
    for name in GRID:
        assert found[name] == pytest.approx(stats.pearsonr(inputs[name], score).statistic, abs=1e-9)
    assert 0.97 < found["aggregation_interval"] < 0.99  # a square is not a line


def test_layer_sizes_count_as_their_number_of_units():
    units = {"[128]": 128, "[64]": 64, "[128, 128]": 256, "[128, 64]": 192, "[64, 64]": 128}
    rows = search("fedvae", "bank", draws(), lambda c: units[c["layer_sizes"]] / 10)
    found = correlations(rows)
    assert found["layer_sizes"] == pytest.approx(1)
    assert np.isnan(found["runtime"])  # always the same
    assert shares(rows)["layer_sizes"] > 0.95


def test_another_draw_of_a_configuration_is_left_out():
    rows = search("fedvae", "bank", draws(), lambda c: c["loss_factor"])
    again = search("fedvae", "bank", [{**each, "draw": 0} for each in draws()], lambda c: -9.0)
    pd.testing.assert_frame_equal(sensitivity(pd.concat([rows, again])), sensitivity(rows))


def test_weight_decay_counts_as_it_is_not_by_its_logarithm():
    rows = search("fedvae", "bank", draws(), lambda c: c["weight_decay"])
    assert correlations(rows)["weight_decay"] == pytest.approx(1)


@pytest.mark.slow
def test_searches_are_kept_apart_and_other_rows_left_out():
    up = search("fedbn", "adult", full_grid(), lambda c: c["aggregation_interval"])
    down = search("fedbn", "cardio", full_grid(), lambda c: -c["aggregation_interval"])
    vae = search("fedvae", "adult", draws(), lambda c: c["loss_factor"])
    rows = pd.concat(
        [
            up,
            down,
            vae,
            up.assign(setting="federated", value=9.0),
            up.assign(metric="pcd", value=9.0),
        ]
    )
    table = sensitivity(rows)
    assert list(table) == ["method", "dataset", "hyperparameter", "importance", "correlation"]
    found = table.set_index(["method", "dataset", "hyperparameter"])["correlation"]
    assert found["fedbn", "adult", "aggregation_interval"] == pytest.approx(1)
    assert found["fedbn", "cardio", "aggregation_interval"] == pytest.approx(-1)
    assert found["fedvae", "adult", "loss_factor"] == pytest.approx(1)
    assert len(table) == 4 + 4 + 5
    pd.testing.assert_frame_equal(sensitivity(aggregate(rows)), table)


def test_a_configuration_is_one_observation_by_its_mean_over_splits():
    more = search("fedbn", "adult", full_grid()[:1], lambda c: 7.0, lambda c: 3.0, seeds=(3, 4, 5))
    table = configurations(pd.concat([search("fedbn", "adult", full_grid(), lambda c: 1.0), more]))
    assert len(table) == 36
    first = table[table["detail"] == canonical(full_grid()[0])].iloc[0]
    assert (first["log_cluster"], first["runtime"], first["splits"]) == pytest.approx((4.0, 2.0, 6))
    assert table["splits"].sum() == 35 * 3 + 6


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (search("fedbn", "adult", full_grid(), hashed, setting="federated"), "no rows of a search"),
        (search("fedbn", "adult", full_grid()[:2], hashed), "fedbn on adult: 2 configurations "
                                                            "tell nothing"),
        (search("fedbn", "adult", full_grid(), hashed).query("metric == 'log_cluster'"), "lacks.*'seconds_training'"),
        (search("fedbn", "adult", [*full_grid()[:4], {"batch_size": 5}], hashed), "differ in the names"),
        (search("fedbn", "adult", [{"kind": k} for k in "abc"], lambda c: 1.0), "kind has values that are no numbers"),
        (search("fedbn", "adult", full_grid()[:3], hashed).assign(detail=list("aabbcc" * 3)), "'a' is no conf"),
        (pd.concat([search("fedbn", "adult", full_grid()[:3], hashed, profile=p) for p in ("quick", "paper")]),
         "one profile at a time"),
        (pd.concat([search("fedbn", "adult", full_grid()[:3], hashed, n_clients=n) for n in (3, 5)]),
         "one scenario at a time"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_by_name(rows, match):
    with pytest.raises(BadInput, match=match):
        sensitivity(rows)
