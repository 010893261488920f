"""What chance does to a comparison with print: declared components, and pooled deviations."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed import chance
from fedsynth_lib.printed.published import WORKS, load_values


def cell(**values):
    usual = {"metric": "m", "dataset": "adult", "method": "a", "detail": "", "node": ""}
    usual |= {"published": 0.9, "published_std": 0.001, "ours": 0.9, "ours_std": 0.02, "n": 3}
    return {**usual, "exhibit": "tab1", "decimals": 3, **values}


def error(work, *cells, ours=()):
    ours = pd.DataFrame(ours, columns=["metric", "detail", "node", "std", "n"])
    return chance.standard_error(work, pd.DataFrame(cells), ours)


def test_accuracies_on_other_peoples_rows_have_the_binomial_error_of_two_test_sets():
    found = error("apellaniz2025", cell(metric="acc_real_real"))["error"].item()
    parts = 0.001**2 / 3 + 0.02**2 / 3 + 2 * 0.9 * 0.1 / 1900 + 0.001**2 / 12
    assert found == pytest.approx(np.sqrt(parts)) == pytest.approx(0.0151158, abs=1e-6)


def test_one_training_of_print_spreads_as_ours_of_nodes_of_one_size():
    ours = [
        {"metric": "js_divergence", "detail": "d", "node": "1", "std": 0.03, "n": 3},
        {"metric": "js_divergence", "detail": "d", "node": "1", "std": 0.05, "n": 3},
        {"metric": "js_divergence", "detail": "d", "node": "1", "std": np.nan, "n": 1},
        {"metric": "js_divergence", "detail": "d", "node": "2", "std": 9.0, "n": 3},
        {"metric": "another", "detail": "d", "node": "1", "std": 9.0, "n": 3},
    ]
    made = cell(metric="js_divergence", detail="d", node="1", published_std=0.002, ours_std=0.03)
    found = error("apellaniz2025", made, ours=ours)["error"].item()
    pooled = (0.03**2 + 0.05**2) / 2
    assert found == pytest.approx(np.sqrt(pooled * (1 + 1 / 3) + 0.001**2 / 12))


def test_print_without_a_deviation_spreads_as_ours_over_its_own_runs():
    found = error("maddock2024", cell(published_std=np.nan, n=10), cell(published_std=np.nan, n=1))
    assert found["error"].to_numpy() == pytest.approx(
        [np.sqrt(0.02**2 * (1 / 10 + 1 / 10) + 0.001**2 / 12), 0.001 / np.sqrt(12)]
    )


def test_what_has_no_bound_says_so_and_only_there():
    kernel = {"metric": "nll", "method": "DP-CTGAN"}
    cells = [cell(**kernel, dataset="covertype"), cell(**kernel), cell(metric="nll")]
    assert (error("maddock2024", *cells)["no_bound"] != "").tolist() == [True, False, False]


@pytest.mark.parametrize("work", WORKS)
def test_every_rule_is_about_printed_cells(work):
    values = load_values(work)
    for number, said in enumerate(chance.declared(work)):
        assert said.why or said.no_bound
        here = [values[axis].isin(allowed) for axis, allowed in said.where.items()]
        assert np.any(np.logical_and.reduce(here or [True])), (work, said.where)
        assert set(said.pool) <= set(values) and bool(said.where) == bool(number)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"repeats": 3, "print": "stated", "rows": 3}, "unknown key 'rows'"),
        ({"repeats": 0, "print": "stated"}, "repeats is 0: give 1 or more"),
        ({"repeats": 3, "print": "theirs"}, "print is 'theirs': it should be 'stated'"),
        ({"repeats": 3, "print": "ours", "cells": [{"pool": ["node"]}]}, "cells needs where"),
    ],
)
def test_a_file_that_says_nothing_is_refused(said, message):
    with pytest.raises(BadInput, match=message):
        chance.parsed("maddock2024", said)
