"""Bins that follow noisy histograms: narrow where there are many rows, wide where there are few.

A number of many levels is counted alone, with noise. From these counts alone its levels are put
into runs of neighbours, by halving what is heavy (as PrivTree does, Zhang et al. 2016) and joining
what is light; a single value that is frequent ends as a run of its own. Within a run a value is
drawn by the same noisy counts again, as far as they stand out of their noise, no coarser than BASE
equal parts of the whole range, so that wide runs do not blur the column itself. All of this is
post-processing. Categories have no neighbours, and stay as they are, however many there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fedsynth_lib.core.contract import Domain
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema

FINE = 1024  # levels of a number before runs are formed
KEPT = 64  # a column with no more levels keeps them, whatever it is
BASE = 32  # equal parts of a range, and about as many runs come out
SURE = 6.0  # standard deviations by which the mass of a run to be halved must exceed its noise


@dataclass(frozen=True)
class FineDomain(Domain):
    """numbers: the columns whose levels have an order."""

    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class FineBins(EqualWidthBins):
    """Equal-width bins whose domain says which columns are numbers, with gaps or without."""

    @cached_property
    def domain(self) -> FineDomain:
        """The columns, their levels and the numbers among them."""
        known = EqualWidthBins(self.schema, self.bins, self.by_column).domain
        numbers = tuple(n for n in known.names if n in {*self.schema.numeric, *known.gaps})
        return FineDomain(known.names, known.levels, known.gaps, numbers)


def fine_encoder(schema: Schema, by_column: Sequence[tuple[str, int]]) -> FineBins:
    """FINE equal-width bins of each number that `by_column` does not name; whole numbers of a
    narrower range as they are."""
    chosen = {}
    for column in (schema[name] for name in schema.numeric):
        values = column.high - column.low + 1
        chosen[column.name] = int(min(FINE, values)) if column.integer else FINE
    return FineBins(schema, None, {**chosen, **dict(by_column)})


def large(domain: Domain) -> list[int]:
    """Return the columns whose levels are put into runs."""
    numbers = domain.numbers if isinstance(domain, FineDomain) else domain.names
    levels = zip(domain.names, domain.levels, strict=True)
    return [place for place, (name, count) in enumerate(levels) if count > KEPT and name in numbers]


def most_levels(domain: Domain) -> np.ndarray:
    """Int64 (columns,): what a column can have after runs are formed: BASE parts, as many halvings
    as the mass allows, and a gap."""
    levels, long = np.array(domain.levels, np.int64), large(domain)
    levels[long] = np.minimum(levels[long], 2 * BASE + 1)
    return levels


def runs(noisy: np.ndarray, sigma: float, *, gap: bool = False) -> np.ndarray:
    """Int64: the first level of each run, ascending from 0; at most 2 * BASE runs.

    noisy: (levels,) counts with noise of standard deviation `sigma` on each. gap: the last level
        says that there is no value: it is nobody's neighbour, and a run more.
    """
    size, total = len(noisy), max(float(noisy.sum()), 1.0)
    goal, below = total / BASE, np.concatenate([[0.0], np.cumsum(noisy)])
    edges = base_edges(size)
    waiting = list(pairwise(edges))[::-1]
    found: list[tuple[int, int]] = []
    while waiting:
        first, end = waiting.pop()
        mass = below[end] - below[first]
        heavy = mass > max(2 * goal, SURE * sigma * np.sqrt(end - first))
        if heavy and end - first > 1 and len(found) + len(waiting) < 2 * BASE - 1:
            middle = (first + end) // 2
            waiting += [(middle, end), (first, middle)]
        elif found and below[end] - below[found[-1][0]] < goal / 2:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return np.union1d([first for first, _ in found], [size - 1] * gap).astype(np.int64)


def are_runs(firsts: np.ndarray, size: int, *, gap: bool = False) -> bool:
    """Whether `runs` can have made these of so many noisy counts."""
    ends = len(firsts) > 0 and firsts[0] == 0 and (firsts[-1] == size - 1 or not gap)
    return bool(ends and (np.diff(firsts) > 0).all() and len(firsts) <= 2 * BASE + gap)


def base_edges(size: int) -> np.ndarray:
    """Int64: the edges of at most BASE equal parts of so many levels."""
    return np.unique(np.round(np.linspace(0, size, BASE + 1)).astype(np.int64))


def run_of(codes: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """The run of each level."""
    return np.searchsorted(firsts, codes, side="right") - 1


def part_edges(firsts: np.ndarray, size: int) -> np.ndarray:
    """Return the edges of the parts of all runs: a part ends where a run or one of the BASE equal
    parts of so many levels does."""
    return np.unique([*firsts, *base_edges(size)])


def smoothed(noisy: np.ndarray, firsts: np.ndarray, sigma: float) -> np.ndarray:
    """Return the counts with each run's parts moved towards an even spread over the run, the more
    so the less they stand out of the noise.

    A run's parts differ from an even spread by what is there and by noise, whose part in the sum of
    squares is known: by so much the differences are shrunk (James and Stein 1961).

    Parameters
    ----------
    noisy
        Counts of all levels, (levels,).
    firsts
        The first level of each run.
    sigma
        Standard deviation of the noise on each count.

    Returns
    -------
    np.ndarray
        (levels,), even within each part; a run keeps its sum.
    """
    edges = part_edges(firsts, len(noisy))
    widths, masses = np.diff(edges), np.add.reduceat(noisy, edges[:-1])
    even = np.zeros(len(widths))
    for own in np.split(np.arange(len(widths)), np.flatnonzero(np.isin(edges[1:-1], firsts)) + 1):
        even[own] = masses[own].sum() * widths[own] / widths[own].sum()
        apart = ((masses[own] - even[own]) ** 2 / widths[own]).sum()
        kept = max(0.0, 1 - (len(own) - 1) * sigma**2 / apart) if apart > 0 else 0.0
        even[own] += kept * (masses[own] - even[own])
    return np.repeat(even / widths, widths)


def spread(
    codes: np.ndarray, firsts: np.ndarray, noisy: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """A level for each run: one of its parts by their noisy counts, and uniform in that part."""
    edges = part_edges(firsts, len(noisy))
    masses = np.maximum(np.add.reduceat(noisy, edges[:-1]), 0)
    owner = run_of(edges[:-1], firsts)
    drawn = np.empty(len(codes), np.int64)
    for run in np.unique(codes):
        here, own = np.flatnonzero(codes == run), np.flatnonzero(owner == run)
        chance = masses[own] if masses[own].sum() > 0 else np.diff(edges)[own].astype(float)
        part = own[rng.choice(len(own), size=len(here), p=chance / chance.sum())]
        drawn[here] = rng.integers(edges[part], edges[part + 1])
    return drawn
