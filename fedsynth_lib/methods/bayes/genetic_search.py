"""Genetic search for the structure of a Bayesian network.

Sources: Hittmeir et al. 2022; martinez2024, algorithm 3.1.

An individual has two chromosomes: an ordering of the d columns, and k candidate parents for every
column. Decoding keeps a candidate only if it precedes its child; the columns at the first k + 1
places take all their predecessors, since the noisy table of place k must hold places 0..k-1. A
population is two arrays: orders (N, d) and candidates (N, d, k), both int16; every operator works
on the whole population at once. Scores of column pairs, computed once, are all that the search
knows of the rows (`mutual_information` as published, `dependence` for a private release). The work
leaves the operators to the earlier paper; they are those of the software that it builds on, as read
in the protocol (section 4.2).
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

MANY_LEVELS = 4_000  # of all columns together, beyond which no matrix of all pairs of them is made


class Population(NamedTuple):
    """Individuals of a genetic search."""

    orders: np.ndarray  # (N, d) column at each place
    candidates: np.ndarray  # (N, d, k) candidate parents of each column

    def take(self, index: np.ndarray) -> "Population":
        """Return the individuals at these positions."""
        return Population(self.orders[index], self.candidates[index])


def join(*populations: Population) -> Population:
    """Return all individuals of these populations as one population."""
    return Population(*(np.concatenate(arrays) for arrays in zip(*populations, strict=True)))


def random_population(
    size: int, num_columns: int, degree: int, *, rng: np.random.Generator
) -> Population:
    """Draw uniform orderings, and k different candidate parents for every column.

    A column is never its own candidate.
    """
    orders = rng.random((size, num_columns)).argsort(axis=1)
    keys = rng.random((size, num_columns, num_columns))
    keys[:, np.arange(num_columns), np.arange(num_columns)] = 2  # never its own parent
    candidates = keys.argsort(axis=2)[:, :, :degree]
    return Population(orders.astype(np.int16), candidates.astype(np.int16))


def are_networks(population: Population) -> bool:
    """Whether all orderings and candidates are valid.

    An ordering has each column once. A column has different candidates, and is not one of them.
    """
    orders, candidates = population
    columns = np.arange(orders.shape[1])
    different = (np.diff(np.sort(candidates, axis=2), axis=2) > 0).all()
    own = (candidates == columns[:, None]).any()
    return bool((np.sort(orders, axis=1) == columns).all() and different and not own)


def places(orders: np.ndarray) -> np.ndarray:
    """Return the place of every column in its ordering: the inverse permutation, (N, d)."""
    return np.argsort(orders, axis=1)


def fitness(population: Population, scores: np.ndarray) -> np.ndarray:
    """Sum of the pair scores over all child-parent pairs of the decoded graphs, (N,).

    scores: (d, d) symmetric, in the work the pairwise mutual information.
    """
    orders, candidates = population
    degree = candidates.shape[2]
    place = places(orders)  # (N, d)
    parent_place = np.take_along_axis(place, candidates.reshape(len(place), -1), 1).reshape(
        candidates.shape
    )
    counts = (parent_place < place[:, :, None]) & (place[:, :, None] > degree)
    children = np.arange(orders.shape[1])[:, None]
    total = (scores[children, candidates] * counts).sum(axis=(1, 2))
    head = orders[:, : degree + 1]  # the first k + 1 columns: every pair among them is an edge
    among = scores[head[:, :, None], head[:, None, :]]
    return total + np.tril(among, -1).sum(axis=(1, 2))


def decode(order: np.ndarray, candidates: np.ndarray) -> list[tuple[int, ...]]:
    """Parents of every column in the graph of one individual; order (d,), candidates (d, k)."""
    place = np.argsort(order)
    degree = candidates.shape[1]
    return [
        tuple(int(c) for c in order[: place[child]])
        if place[child] <= degree
        else tuple(int(c) for c in candidates[child] if place[c] < place[child])
        for child in range(len(order))
    ]


def generations(
    population: Population,
    scores: np.ndarray,
    *,
    count: int,
    selection: int,
    rng: np.random.Generator,
    immigrants: Population | None = None,
) -> Population:
    """Search for `count` generations, keeping the fittest.

    Immigrants join the parents of the first one (algorithm 3.3).
    """
    for number in range(count):
        fittest = np.argsort(-fitness(population, scores), kind="stable")[:selection]
        parents = population.take(fittest)
        if number == 0 and immigrants is not None:
            parents = join(parents, immigrants)
        population = join(
            parents, _children(parents, len(population.orders) - len(parents.orders), rng)
        )
    return population


def best(population: Population, scores: np.ndarray) -> Population:
    """Return the fittest individual, as a population of one."""
    return population.take(fitness(population, scores).argmax()[None])


def _children(parents: Population, count: int, rng: np.random.Generator) -> Population:
    """Return so many children of these parents.

    Each child starts as a copy of a random parent. With probability 1/d it is crossed with another
    parent. Then `_order_flip` changes its ordering and `_swap` its candidates.
    """
    num_parents, num_columns = parents.orders.shape
    count = max(count, 0)
    first = rng.integers(num_parents, size=count)
    orders, candidates = parents.take(first)
    if num_parents > 1:
        second = (first + rng.integers(1, num_parents, size=count)) % num_parents
        crossed = rng.random(count) < 1 / num_columns
        # in the list (ordering, set 1, ..., set d)
        cut = rng.integers(1, num_columns + 1, size=count)
        from_second = crossed[:, None] & (np.arange(1, num_columns + 1) >= cut[:, None])
        candidates = np.where(from_second[:, :, None], parents.candidates[second], candidates)
    orders = _order_flip(orders, rng)
    return Population(orders, _swap(orders, candidates, rng))


def _order_flip(orders: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every place is exchanged with a random place with probability 1/d."""
    count, num_columns = orders.shape
    orders = orders.copy()
    flips = rng.random((count, num_columns)) < 1 / num_columns
    others = rng.integers(num_columns, size=(count, num_columns))
    for place in range(num_columns):
        rows = np.flatnonzero(flips[:, place])
        other = others[rows, place]
        orders[rows, place], orders[rows, other] = orders[rows, other], orders[rows, place].copy()
    return orders


def _swap(orders: np.ndarray, candidates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Repair the candidates, then mutate them.

    First a free preceding column replaces each candidate that does not precede its child. Then one
    replaces every candidate with probability 1/d. Where no column is free, a candidate stays.
    """
    count, num_columns, degree = candidates.shape
    candidates = candidates.copy()
    place = places(orders)
    precedes = place[:, None, :] < place[:, :, None]  # (N, child, column)
    free = precedes.copy()
    np.put_along_axis(free, candidates, False, axis=2)
    for only_invalid in (True, False):
        for slot in range(degree):
            current = candidates[:, :, slot]
            valid = np.take_along_axis(precedes, current[:, :, None], 2)[:, :, 0]
            wanted = ~valid if only_invalid else rng.random((count, num_columns)) < 1 / num_columns
            person, child = np.nonzero(wanted & free.any(axis=2))
            keys = rng.random((len(person), num_columns)) * free[person, child]
            new = keys.argmax(axis=1)
            old = current[person, child]
            # given back if it could be a parent
            free[person, child, old] = precedes[person, child, old]
            free[person, child, new] = False
            candidates[person, child, slot] = new
    return candidates


# --- pair scores, computed once from the rows ----------------------------------------------------


def pair_counts(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Count the levels of all pairs of columns in one product of matrices.

    Shape: (sum of levels, sum of levels), float64.
    """
    offsets = np.concatenate([[0], np.cumsum(levels)])
    total = np.zeros((offsets[-1], offsets[-1]))
    for chunk in np.array_split(rows, max(1, len(rows) // 8192)):  # bounds the one-hot matrix
        # exact: counts in a chunk stay below 2^24
        one_hot = np.zeros((len(chunk), offsets[-1]), np.float32)
        one_hot[np.arange(len(chunk))[:, None], chunk + offsets[:-1]] = 1
        total += one_hot.T @ one_hot
    return total


def _blocks(matrix: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Sum a (sum of levels)^2 matrix over the block of every pair of columns, (d, d)."""
    edges = np.concatenate([[0], np.cumsum(levels)[:-1]])
    return np.add.reduceat(np.add.reduceat(matrix, edges, axis=0), edges, axis=1)


def _occupied(
    rows: np.ndarray, levels: np.ndarray
) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Yield, for each pair of columns, the cells that at least one row is in.

    Each item is (column, other column, counts, counts expected if the two were independent). Memory
    grows with the rows and not with the levels.
    """
    single = [np.bincount(rows[:, i], minlength=levels[i]) for i in range(len(levels))]
    for i, j in combinations(range(len(levels)), 2):
        both = rows[:, i].astype(np.int64) * levels[j] + rows[:, j]
        cells, counts = np.unique(both, return_counts=True)
        yield i, j, counts, single[i][cells // levels[j]] * single[j][cells % levels[j]] / len(rows)


def mutual_information(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Mutual information of every pair of columns in nats, (d, d); the diagonal is 0.

    Rounded to multiples of 2^-32, so that sums of scores are exact and the search breaks ties
    between networks the same way on every machine.
    """
    if np.sum(levels) > MANY_LEVELS:
        information = np.zeros((len(levels), len(levels)))
        for i, j, counts, expected in _occupied(rows, levels):
            shared = np.sum(counts * np.log(counts / expected)) / max(len(rows), 1)
            information[i, j] = information[j, i] = shared
    else:
        counts = pair_counts(rows, levels)
        single = np.diag(counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = counts * np.log(counts * len(rows) / np.outer(single, single))
        information = _blocks(np.nan_to_num(terms, nan=0.0, posinf=0.0, neginf=0.0), levels) / max(
            len(rows), 1
        )
    information = np.round(np.maximum(information + information.T, 0) * 2**31) / 2**32
    np.fill_diagonal(information, 0)
    return information


def dependence(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """n/2 times the L1 distance of every pair's joint distribution from independence, (d, d).

    PrivBayes' score R, not divided by n. One more row with levels (x, y) turns a pair's
    n (P - p q') into itself plus n/(n+1) (e_x - p)(e_y - q)', whose L1 norm is at most 4,
    so every entry moves by less than 2, whatever n is.
    """
    if np.sum(levels) > MANY_LEVELS:
        scores = np.zeros((len(levels), len(levels)))
        for i, j, counts, expected in _occupied(rows, levels):
            # a cell without rows adds what is expected there, and all of it adds up to the rows
            distance = np.abs(counts - expected).sum() + len(rows) - expected.sum()
            scores[i, j] = scores[j, i] = distance / 2
        return scores
    counts = pair_counts(rows, levels)
    single = np.diag(counts)
    scores = _blocks(np.abs(counts - np.outer(single, single) / max(len(rows), 1)), levels) / 2
    np.fill_diagonal(scores, 0)
    return scores
