"""Coarse tables of all pairs of columns, by which FedPGM chooses pairs where a table is wide.

The noise on a count grows with the number of pairs, and a client sends every count. So where there
are more than NARROW columns, the levels of a column are merged to at most eight before pairs are
counted: to PARTS neighbouring parts, and each of these to two halves whose levels alternate
irregularly. Parts show dependence between neighbouring levels, halves show some of any other. As
columns grow there are no halves and then fewer parts, so that all counts stay below MOST_COUNTS.
All of this follows from the numbers of levels alone, which are public.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from scipy import special

from fedsynth_lib.methods.marginals.junction_tree import BYTES, Levels, Query, grown_fits
from fedsynth_lib.methods.marginals.marginals import MEGABYTE

NARROW = 70  # columns; with no more of them all pairs are counted at full resolution
MOST_COUNTS = 750_000  # of all coarse pairs together, while there are two parts or more
MOST_AGAIN = 450_000  # of the chosen pairs together, which are counted at full resolution
KINDS = ((4, 2), (4, 1), (3, 1), (2, 1))  # parts of a column, halves of a part
TRIED = 30_000  # columns of all models together that are tried after the spanning tree
CHUNK = 2**13  # rows at a time, whose counts are exact in single precision
GOLDEN = (5**0.5 - 1) / 2


def is_wide(columns: int) -> bool:
    """Whether pairs are chosen by coarse tables."""
    return columns > NARROW


def merged(levels: int, parts: int, halves: int) -> np.ndarray:
    """Return the coarse level of each level, int64 (levels,).

    A column of no more than `parts * halves` levels keeps them. Otherwise level k is in part
    `k * parts // levels`, and in the half that the multiples of the golden ratio alternate between.
    """
    places = np.arange(levels)
    if levels <= parts * halves:
        return places
    half = np.floor(halves * (places * GOLDEN % 1)).astype(np.int64)
    return places * parts // levels * halves + half


@dataclass(frozen=True)
class CoarsePairs:
    """All pairs of coarse columns. levels: of the columns. parts, halves: see `merged`."""

    levels: Levels
    parts: int
    halves: int

    @cached_property
    def maps(self) -> list[np.ndarray]:
        """The coarse level of each level, by column."""
        return [merged(level, self.parts, self.halves) for level in self.levels]

    @cached_property
    def coarse(self) -> np.ndarray:
        """The coarse levels of each column, int64 (columns,)."""
        most = self.parts * self.halves
        return np.minimum(np.array(self.levels, np.int64), most)

    @property
    def cells(self) -> int:
        """The cells of all pairs together."""
        return int(self.coarse.sum() ** 2 - (self.coarse**2).sum()) // 2

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second column of each pair, in the order of `combinations`."""
        return np.triu_indices(len(self.levels), 1)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The cells of each pair, int64 (pairs,)."""
        first, second = self.pairs
        return self.coarse[first] * self.coarse[second]

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the counts of all pairs, one after the other, int64 (cells,).

        All counts of a chunk of rows are one product of matrices: indicators of all coarse levels
        of all columns, with themselves.
        """
        ends = np.cumsum(self.coarse)
        starts, total = ends - self.coarse, int(ends[-1])
        together = np.zeros((total, total), np.int64)
        for begin in range(0, len(rows), CHUNK):
            chunk = rows[begin : begin + CHUNK]
            indicators = np.zeros((len(chunk), total), np.float32)
            for column, (start, places) in enumerate(zip(starts, self.maps, strict=True)):
                indicators[np.arange(len(chunk)), start + places[chunk[:, column]]] = 1
            together += (indicators.T @ indicators).astype(np.int64)
        edges = [slice(*ends) for ends in pairwise([0, *np.cumsum(self.coarse).tolist()])]
        return np.concatenate(
            [together[edges[a], edges[b]].ravel() for a, b in zip(*self.pairs, strict=True)]
        )

    def standing_out(
        self,
        counts: np.ndarray,
        alone: Sequence[np.ndarray],
        rows: float,
        sigma: float,
        sure: float,
    ) -> list[Query]:
        """Return the pairs whose noisy counts are further from independence than by noise alone.

        The pair that is furthest from independence comes first.

        What a table has beyond the product of its columns' shares, less its means over rows and
        over columns, is 0 under independence but for noise. Its sum of squares then follows a
        chi-square distribution with (levels - 1)(levels - 1) degrees of freedom. Halves are summed
        for a second test, of parts alone, and the smaller of both p-values counts twice. There are
        many pairs, so the p-value must be below that of `sure` standard deviations in proportion to
        two pairs a column: then as many false pairs a column are expected, however many columns
        there are.

        Parameters
        ----------
        counts
            Noisy counts as `counts` orders them, (cells,).
        alone
            Distribution of each column over its levels.
        rows
            Rows behind the counts.
        sigma
            Standard deviation of the noise on each count; 0 counts as 1.
        sure
            Standard deviations.
        """
        sigma, (first, second), starts = sigma or 1.0, self.pairs, np.cumsum(self.sizes)
        starts = starts - self.sizes
        columns = [
            np.bincount(places, shares, level)
            for places, shares, level in zip(self.maps, alone, self.coarse, strict=True)
        ]
        chance, distance = np.ones(len(self.sizes)), np.zeros(len(self.sizes))
        shapes = np.stack([self.coarse[first], self.coarse[second]], axis=1)
        for shape in np.unique(shapes[(shapes > 1).all(axis=1)], axis=0):
            own = np.flatnonzero((shapes == shape).all(axis=1))
            tables = counts[starts[own, None] + np.arange(shape.prod())].reshape(-1, *shape)
            left, right = (np.stack([columns[c] for c in side[own]]) for side in self.pairs)
            beyond = tables - rows * left[:, :, None] * right[:, None, :]
            beyond = beyond - beyond.mean(axis=1, keepdims=True)
            beyond = beyond - beyond.mean(axis=2, keepdims=True)
            excess, chance[own] = _tested(beyond, sigma)
            if self.halves > 1 and (shape == self.parts * self.halves).any():
                of_parts, again = _tested(self._parts_alone(beyond), sigma)
                chance[own] = 2 * np.minimum(chance[own], again)
                excess = np.maximum(excess, of_parts)
            # the L1 distance, were it spread evenly over the cells
            distance[own] = np.sqrt(np.maximum(excess, 0) * shape.prod()) * sigma / rows
        level = special.ndtr(-sure) * min(1.0, 2 * len(self.levels) / len(self.sizes))
        found = np.flatnonzero((chance <= level) & (distance > 0))
        order = found[np.argsort(-distance[found], kind="stable")]
        return list(zip(first[order].tolist(), second[order].tolist(), strict=True))

    def _parts_alone(self, tables: np.ndarray) -> np.ndarray:
        """Tables whose merged axes have parts alone; scaled so that noise stays what it was."""
        for axis in (1, 2):
            if tables.shape[axis] == self.parts * self.halves:
                ahead = tables.shape[:axis]
                cut = tables.reshape(*ahead, self.parts, self.halves, *tables.shape[axis + 1 :])
                tables = cut.sum(axis=axis + 1) / np.sqrt(self.halves)
        return tables


@lru_cache(maxsize=8)
def coarse_pairs(levels: Levels) -> CoarsePairs:
    """Return the finest of KINDS whose counts are at most MOST_COUNTS, or the last one."""
    kinds = [CoarsePairs(levels, *kind) for kind in KINDS]
    return next((kind for kind in kinds if kind.cells <= MOST_COUNTS), kinds[-1])


def _tested(beyond: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how far the squares of each centred table exceed the noise, and their p-value.

    beyond: (number, levels, levels). The excess over what noise is expected to make is in squares
    of `sigma`. The p-value is the chance that noise alone makes as much.
    """
    free = (beyond.shape[1] - 1) * (beyond.shape[2] - 1)
    squares = (beyond**2).sum(axis=(1, 2)) / sigma**2
    return squares - free, special.chdtrc(free, squares)


def spanning_tree(candidates: Sequence[Query], columns: int) -> list[Query]:
    """Return the candidates, from the first on, that join columns which none before has joined.

    Source: Kruskal's algorithm.
    """
    group, kept = list(range(columns)), []
    for a, b in candidates:
        if group[a] != group[b]:
            kept.append((a, b))
            group = [group[a] if each == group[b] else each for each in group]
    return kept


def fitting(
    candidates: Sequence[Query], levels: Levels, most: int, megabytes: float
) -> list[Query]:
    """Return those candidates that fit into a model of this size and into MOST_AGAIN cells.

    They are at most `most` pairs. The pairs of a spanning tree are tried first, then some of the
    others: the more columns there are, the fewer (TRIED).

    The largest cliques of a forest are its pairs and lone columns, so their cells add up. Beyond it
    the model is triangulated for each pair.
    """
    tree, chosen = spanning_tree(candidates, len(levels)), []
    inside = set(tree)
    rest = [query for query in candidates if query not in inside][: TRIED // len(levels)]
    lone, counted = dict(enumerate(levels)), 0
    for query in [*tree, *rest]:
        size = levels[query[0]] * levels[query[1]]
        free = sum(lone.values()) - sum(lone.get(column, 0) for column in query)
        room = megabytes * MEGABYTE - BYTES * free
        if len(chosen) == most or counted + size > MOST_AGAIN:
            continue
        if query in inside:
            fits = BYTES * (counted + size) <= room
        else:
            fits = all(grown_fits(levels, chosen, [query], room))
        if fits:
            chosen.append(query)
            counted += size
            for column in query:
                lone.pop(column, None)
    return chosen
