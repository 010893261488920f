"""Graphical models: propagation against enumeration of the joint table, and what measurements say
together."""

import warnings
from itertools import combinations
from math import prod

import numpy as np
import pytest
from small_models import joint, random_model, summed

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods.marginals.graphical_model import (
    Model,
    Propagation,
    layout,
    project,
    targets,
    ways,
)


def run(model):
    return Propagation(model.levels, model.potentials).run(model.potentials)


# --- propagation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_marginals_and_log_z_are_those_of_the_joint_table(seed):
    model = random_model(seed, scale=2.0)
    table, log_z = joint(model)
    marginals, ours = run(model)
    assert abs(ours - log_z) <= 1e-10
    assert marginals.keys() == model.potentials.keys()
    for query, found in marginals.items():
        np.testing.assert_allclose(found, summed(table, query), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_beliefs_are_the_marginals_of_the_cliques(seed):
    model = random_model(seed)
    table, _ = joint(model)
    propagation = Propagation(model.levels, model.potentials)
    propagation.run(model.potentials)
    for node, belief in zip(propagation.tree, propagation.beliefs, strict=True):
        ascending = summed(table, node.columns)
        turned = ascending.transpose([sorted(node.columns).index(c) for c in node.columns])
        np.testing.assert_allclose(belief, turned, rtol=0, atol=1e-12)


def test_what_several_queries_lack_is_summed_once():
    """All pairs of a clique of seven columns: one by one they pass 21 times over all its cells."""
    columns, levels, pairs = tuple(range(7)), (8, 10, 9, 10, 3, 4, 2), [*combinations(range(7), 2)]
    found = ways(columns, pairs, levels)
    known = {columns}
    for query, source in found:
        assert set(query) < set(source) and source in known
        known.add(query)
    assert known >= set(pairs) and len(found) == len(known) - 1
    assert sum(prod(levels[c] for c in source) for _, source in found) < 21 / 5 * prod(levels)


@pytest.mark.parametrize("scale", [30.0, 700.0])
def test_extreme_potentials(scale):
    """Potentials of +-700: sums far beyond what exp can take, cells that vanish, and no warning."""
    for seed in range(10):
        model = random_model(seed)
        potentials = {query: scale * np.sign(table) for query, table in model.potentials.items()}
        model = Model(model.levels, potentials)
        table, log_z = joint(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            marginals, ours = run(model)
        assert abs(ours - log_z) <= 1e-10 * max(1.0, abs(log_z))
        for query, found in marginals.items():
            np.testing.assert_allclose(found, summed(table, query), rtol=0, atol=1e-10)


def test_a_second_run_is_not_changed_by_the_first():
    first, second = random_model(3), random_model(3, scale=5.0)
    propagation = Propagation(first.levels, first.potentials)
    kept, _ = propagation.run(first.potentials)
    copies = {query: table.copy() for query, table in kept.items()}
    again, _ = propagation.run(second.potentials)
    given = {query: np.full(table.shape, np.nan) for query, table in kept.items()}
    propagation.run(second.potentials, out=given)
    for query, fresh in run(second)[0].items():
        np.testing.assert_array_equal(kept[query], copies[query])
        np.testing.assert_array_equal(again[query], fresh)
        np.testing.assert_array_equal(given[query], fresh)


def test_potentials_are_left_alone():
    model = random_model(5)
    before = {query: table.copy() for query, table in model.potentials.items()}
    run(model)
    assert all(np.array_equal(model.potentials[query], table) for query, table in before.items())


def test_without_potentials_all_rows_are_equally_likely():
    marginals, log_z = run(Model((3, 4, 5)))
    assert marginals == {} and log_z == pytest.approx(np.log(60), abs=1e-12)


def test_expand_and_project_turn_axes():
    table = np.arange(24.0).reshape(2, 3, 4)  # over columns 5, 1, 7
    np.testing.assert_array_equal(project(table, (5, 1, 7), (1, 7)), table.sum(axis=0))
    np.testing.assert_array_equal(project(table, (5, 1, 7), (7, 5)), table.sum(axis=1).T)
    np.testing.assert_array_equal(project(table, (5, 1, 7), (7, 1, 5)), table.transpose(2, 1, 0))
    wide = np.ones((3, 6, 4, 2)) * layout((5, 1, 7), (1, 9, 7, 5)).expand(table)
    np.testing.assert_array_equal(wide[1, 2, 3, 0], table[0, 1, 3])


# --- targets -------------------------------------------------------------------------------------


def test_repeats_become_their_weighted_mean_and_lose_a_constant_only():
    """Half of sum |n p - counts|^2 / sigma^2 over all measurements, less half of weight |p -
    shares|^2, whatever p."""
    rng = np.random.default_rng(0)
    measured = [((0, 1), rng.normal(50, 20, 6), sigma) for sigma in (3.0, 10.0, 0.5)]
    (target,) = targets((2, 3), measured, 300.0).values()
    assert target.weight == pytest.approx(
        sum((300 / sigma) ** 2 for _, _, sigma in measured), rel=1e-12
    )
    differences = []
    for _ in range(5):
        p = rng.dirichlet(np.ones(6))
        whole = sum(((300 * p - counts) ** 2).sum() / sigma**2 / 2 for _, counts, sigma in measured)
        differences.append(whole - target.weight / 2 * ((p - target.shares.ravel()) ** 2).sum())
    assert np.ptp(differences) <= 1e-8 * abs(differences[0])


@pytest.mark.parametrize(
    ("counts", "noise", "total"),
    [
        ([1, 2], 0.0, 3),
        ([1, 2], -1, 3),
        ([1, 2], np.nan, 3),
        ([1, 2], np.inf, 3),
        ([1, np.nan], 1, 3),
        ([1, 2, 3], 1, 3),
    ],
)
def test_measurements_that_cannot_be_used_are_refused(counts, noise, total):
    with pytest.raises(BadInput, match=r"columns \(1,\)"):
        targets((2, 2), [((1,), np.array(counts), noise)], total)


@pytest.mark.parametrize("total", [0, -5, np.nan])
def test_a_total_that_is_not_positive_is_refused(total):
    with pytest.raises(BadInput, match="total"):
        targets((2, 2), [((1,), np.array([1, 2]), 1.0)], total)
