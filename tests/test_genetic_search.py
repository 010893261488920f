"""The vectorised operators against their words, one individual at a time."""

import itertools

import numpy as np
import pytest

from fedsynth_lib.methods.bayes import genetic_search as search


def symmetric(d, seed):
    matrix = np.random.default_rng(seed).random((d, d))
    matrix = matrix + matrix.T
    np.fill_diagonal(matrix, 0)
    return matrix


def slow_fitness(order, candidates, scores):
    return sum(
        scores[c, p] for c, parents in enumerate(search.decode(order, candidates)) for p in parents
    )


@pytest.mark.parametrize("d, k", [(3, 1), (5, 2), (9, 3)])
def test_fitness_sums_the_scores_of_the_decoded_edges(d, k):
    scores = symmetric(d, 1)
    population = search.random_population(50, d, k, rng=np.random.default_rng(2))
    slow = [slow_fitness(o, c, scores) for o, c in zip(*population, strict=True)]
    assert search.fitness(population, scores) == pytest.approx(slow)


def test_decoding_by_hand():
    # ordering d a c b with k = 1: d is the root, a takes d, then a candidate counts only if it
    # stands before
    order, candidates = np.array([3, 0, 2, 1]), np.array([[2], [0], [1], [0]])
    assert search.decode(order, candidates) == [(3,), (0,), (), ()]


def test_random_individuals_are_permutations_with_distinct_foreign_candidates():
    orders, candidates = search.random_population(200, 6, 3, rng=np.random.default_rng(0))
    assert np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(6), (200, 1)))
    assert not np.any(candidates == np.arange(6)[None, :, None])
    assert all(len(set(c)) == 3 for c in candidates.reshape(-1, 3))


def test_every_generation_keeps_valid_individuals_and_the_fittest():
    d, k = 7, 2
    scores, rng = symmetric(d, 3), np.random.default_rng(4)
    population = search.random_population(40, d, k, rng=rng)
    top = search.fitness(population, scores).max()
    for _ in range(15):
        population = search.generations(population, scores, count=1, selection=5, rng=rng)
        assert len(population.orders) == 40
        assert np.array_equal(np.sort(population.orders, axis=1), np.tile(np.arange(d), (40, 1)))
        assert search.fitness(population, scores).max() >= top
        top = search.fitness(population, scores).max()


def test_children_are_repaired():
    """After the swap every column beyond the head has k different parents, all before it."""
    d, k = 8, 3
    rng = np.random.default_rng(5)
    children = search._children(search.random_population(30, d, k, rng=rng), 300, rng)
    for order, candidates in zip(*children, strict=True):
        for place, child in enumerate(order):
            if place >= k:
                assert (
                    set(candidates[child]) <= set(order[:place])
                    and len(set(candidates[child])) == k
                )


def test_order_flip_changes_each_place_about_once_in_d():
    d, rng = 10, np.random.default_rng(6)
    orders = np.tile(np.arange(d), (4000, 1))
    flipped = search._order_flip(orders, rng)
    assert np.array_equal(np.sort(flipped, axis=1), orders)
    # by hand: one exchange is expected for each individual, (d - 1) / d of them move two places
    assert (flipped != orders).sum(axis=1).mean() == pytest.approx(1.8, abs=0.15)


def test_search_finds_the_optimum_of_a_small_problem():
    d, k = 5, 1
    scores = symmetric(d, 7)
    # degree 1: the best tree, found by trying all orderings with the best earlier parent
    optimum = max(
        sum(max(scores[order[i], order[j]] for j in range(i)) for i in range(1, d))
        for order in itertools.permutations(range(d))
    )
    rng = np.random.default_rng(8)
    population = search.random_population(60, d, k, rng=rng)
    population = search.generations(population, scores, count=60, selection=8, rng=rng)
    assert search.fitness(search.best(population, scores), scores)[0] == pytest.approx(optimum)


def test_immigrants_join_the_parents():
    d, k, rng = 6, 2, np.random.default_rng(9)
    scores = symmetric(d, 10)
    star = search.best(
        search.generations(
            search.random_population(80, d, k, rng=rng), scores, count=50, selection=8, rng=rng
        ),
        scores,
    )
    weak = search.random_population(20, d, k, rng=rng)
    after = search.generations(weak, scores, count=1, selection=3, rng=rng, immigrants=star)
    assert search.fitness(after, scores).max() >= search.fitness(star, scores)[0]
    assert len(after.orders) == 20
