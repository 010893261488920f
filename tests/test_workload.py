"""Marginals, workload error and heterogeneity against dense tables counted with numpy and by
hand."""

from itertools import combinations
from math import prod

import numpy as np
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import workload as w

LEVELS = (3, 2, 4, 2)


def random_codes(num_rows, seed, levels=LEVELS):
    rng = np.random.default_rng(seed)
    skewed = [np.minimum(rng.geometric(0.5, num_rows) - 1, level - 1) for level in levels]
    return np.stack(skewed, axis=1)


def dense(codes, levels, query):
    """Counts of a marginal through numpy's own histogram over whole tables."""
    edges = [np.arange(levels[c] + 1) - 0.5 for c in query]
    return np.histogramdd(codes[:, list(query)], bins=edges)[0].ravel()


def l1(real, synthetic, levels, query):
    p, q = (dense(codes, levels, query) for codes in (real, synthetic))
    return np.abs(p / p.sum() - q / q.sum()).sum()


def every_subset(num_columns, width=3):
    return [q for k in range(1, width + 1) for q in combinations(range(num_columns), k)]


# --- workload ------------------------------------------------------------------------------------


def test_the_default_workload_is_the_published_draw():
    """Positions that numpy's default generator with seed 123 draws from the 364 triples of 14
    columns."""
    triples = list(combinations(range(14), 3))
    positions = np.random.default_rng(123).choice(364, 64, replace=False)
    assert set(w.random_workload(14)) == {triples[k] for k in positions}
    assert w.random_workload(14)[:3] == ((0, 1, 4), (0, 1, 6), (0, 1, 7))


def test_a_small_table_has_all_its_triples():
    assert w.random_workload(5) == tuple(combinations(range(5), 3))
    assert w.random_workload(4, width=2) == tuple(combinations(range(4), 2))
    assert w.random_workload(3) == ((0, 1, 2),)


def test_closure_holds_every_subset_once():
    assert w.closure([(0, 2, 3), (1, 2, 3)]) == (
        *((0,), (1,), (2,), (3,)),
        *((0, 2), (0, 3), (1, 2), (1, 3), (2, 3)),
        *((0, 2, 3), (1, 2, 3)),
    )
    assert w.closure([(4,)]) == ((4,),)


def test_weights_count_shared_columns():
    triples = [(0, 1, 2), (1, 2, 3), (2, 3, 4)]
    assert w.weights([(0,), (2,), (0, 1), (1, 2, 3), (5,)], triples).tolist() == [1, 3, 3, 7, 0]
    drawn = w.random_workload(9, size=20)
    candidates = w.closure(drawn)
    assert w.weights(candidates, drawn).tolist() == [
        sum(len({*q} & {*r}) for r in drawn) for q in candidates
    ]


# --- marginals -----------------------------------------------------------------------------------


def test_marginals_equal_dense_histograms():
    codes = random_codes(500, seed=1).astype(np.int16)
    queries = every_subset(4)
    for query, counts in zip(queries, w.marginals(codes, LEVELS, queries), strict=True):
        assert counts.dtype == np.int64 and counts.shape == (prod(LEVELS[c] for c in query),)
        assert counts.tolist() == dense(codes, LEVELS, query).tolist()
        assert w.marginal(codes, LEVELS, query).tolist() == counts.tolist()


def test_no_rows_have_zero_counts():
    assert w.marginal(np.empty((0, 4), np.int64), LEVELS, (0, 1)).tolist() == [0] * 6


# --- errors --------------------------------------------------------------------------------------


def test_errors_equal_dense_distances_on_small_and_on_large_domains():
    for levels in (LEVELS, (50, 60, 70, 3)):  # the second has far more cells than rows
        real, synthetic = random_codes(300, 2, levels), random_codes(170, 3, levels)
        synthetic[:, 0] = levels[0] - 1 - synthetic[:, 0]
        queries = every_subset(4)
        expected = [l1(real, synthetic, levels, query) for query in queries]
        assert w.workload_errors(real, synthetic, levels, queries) == pytest.approx(expected)
        assert w.workload_error(real, synthetic, levels, queries) == pytest.approx(
            np.mean(expected)
        )


def test_a_domain_too_large_for_a_dense_table():
    levels = (10**6, 10**6, 10**6)
    real = np.array([[0, 0, 0], [999_999, 999_999, 999_999]])
    assert w.workload_errors(real, real[:1], levels, [(0, 1, 2)]).tolist() == [1]
    assert w.mean_heterogeneity(real, [[0], [1]], levels) == 0.5


# --- heterogeneity -------------------------------------------------------------------------------


def test_heterogeneity_equals_dense_total_variation():
    for levels in (LEVELS, (30, 20, 25, 2)):
        codes = random_codes(200, 4, levels)
        parts = np.split(np.random.default_rng(5).permutation(200), [10, 60, 100])
        expected = [
            l1(codes[part], codes, levels, q) / 2 for part in parts for q in every_subset(4)
        ]
        assert w.mean_heterogeneity(codes, parts, levels) == pytest.approx(np.mean(expected))
        pairs = [
            l1(codes[part], codes, levels, q) / 2 for part in parts for q in every_subset(4, 2)
        ]
        assert w.mean_heterogeneity(codes, parts, levels, width=2) == pytest.approx(np.mean(pairs))


def test_pooled_are_the_rows_of_the_clients_only():
    codes = np.array([[0, 0], [0, 0], [1, 1]])
    assert w.mean_heterogeneity(codes, [[0], [1]], (2, 2)) == 0


# --- bad input -----------------------------------------------------------------------------------


def test_bad_input():
    codes = random_codes(20, seed=0)
    cases = [
        (lambda: w.random_workload(2), "width is 3 with 2 columns"),
        (lambda: w.random_workload(5, size=0), "size is 0"),
        (
            lambda: w.marginal(codes, LEVELS, (0, 4)),
            r"query \(0, 4\) must name ascending column "
            r"positions from 0 to 3",
        ),
        (lambda: w.marginal(codes, LEVELS, (-1,)), r"query \(-1,\) must name"),
        (lambda: w.marginal(codes, LEVELS, (2, 1)), r"query \(2, 1\) must name"),
        (lambda: w.marginal(codes, LEVELS, ()), r"query \(\) must name"),
        (lambda: w.workload_error(codes, codes, LEVELS, []), "queries is empty"),
        (
            lambda: w.marginal(codes, (3, 2, 2, 2), (0,)),
            "the table has codes outside 0 to 1 in column 2",
        ),
        (
            lambda: w.marginal(codes - 1, LEVELS, (0,)),
            "the table has codes outside 0 to 2 in column 0",
        ),
        (
            lambda: w.marginal(codes.astype(float), LEVELS, (0,)),
            "the table holds float64: give integer codes",
        ),
        (
            lambda: w.workload_error(codes, codes[:, :3], LEVELS, [(0,)]),
            r"the synthetic table has shape \(20, 3\): give \(rows, 4\)",
        ),
        (
            lambda: w.workload_error(codes, codes + 2, LEVELS, [(0,)]),
            "the synthetic table has codes outside 0 to 2",
        ),
        (
            lambda: w.workload_error(codes, codes[:0], LEVELS, [(0,)]),
            "the synthetic table has no rows",
        ),
        (
            lambda: w.mean_heterogeneity(codes, [[0, 1], []], LEVELS),
            "at least one client, and none that is empty",
        ),
        (lambda: w.mean_heterogeneity(codes, [], LEVELS), "at least one client"),
    ]
    for call, message in cases:
        with pytest.raises(BadInput, match=message):
            call()
