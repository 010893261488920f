"""Bins that follow noisy histograms: narrow where there are many rows, wide where there are few.

A number of many levels is counted alone, with noise. From these counts alone its levels are put
into runs of neighbours, by halving what is heavy (as PrivTree does, Zhang et al. 2016) and joining
what is light; a single value that is frequent ends as a run of its own. Within a run a value is
drawn by the same noisy counts again, as far as they stand out of their noise, no coarser than BASE
equal parts of the whole range, so that wide runs do not blur the column itself. All of this is
post-processing. Categories have no neighbours, and stay as they are, however many there are.

A method with `bins="private"` has a round before its own, numbered -1, in which clients count the
levels of these long columns (`fine_counts`). Its state keeps what is in `first_state`, and `formed`
puts runs in the place of levels. From then on its clients count rows in runs (`in_runs`), and
`in_levels` draws a level for each run of a synthetic row. What the fine counts cost, and who adds
noise to them, is the method's own. A table without long columns has no such round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fedsynth_lib.core.broadcast import Values, require
from fedsynth_lib.core.contract import Arrays, BadInput, Domain
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema

FINE_COUNTS = "fine counts of long columns"  # what is charged for

FINE = 1024  # levels of a number before runs are formed
KEPT = 64  # a column with no more levels keeps them, whatever it is
BASE = 32  # equal parts of a range, and about as many runs come out
SURE = 6.0  # standard deviations by which the mass of a run to be halved must exceed its noise


class BinSettings:
    """Settings with `bins`, which may be "private", and `fine_share`.

    `fine_share` is the part of the budget that pays for the fine counts.

    PRIVATE_BINS_FROM: from so many rows on, times epsilon over the root of the number of long
        columns, private bins were found to pay (`methods/release.py`); None where nobody looked.
    """

    PRIVATE_BINS_FROM: ClassVar[float | None] = None

    @property
    def private_bins(self) -> bool:
        """Whether bins are private."""
        return self.bins == "private"

    def check_bins(self) -> None:
        """Raise BadInput for bins or a share that mean nothing."""
        if isinstance(self.bins, str) and not self.private_bins:
            raise BadInput(f'bins is {self.bins!r}: give a number, None or "private".')
        if not 0 < self.fine_share < 1:
            raise BadInput(f"fine_share is {self.fine_share:g}: give a part between 0 and 1.")


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


def encoder(
    schema: Schema, bins: int | str | None, by_column: Sequence[tuple[str, int]] = ()
) -> EqualWidthBins:
    """Return the encoder of a method with these settings."""
    if bins == "private":
        return fine_encoder(schema, by_column)
    return EqualWidthBins(schema, bins, by_column=dict(by_column))


def fine_encoder(schema: Schema, by_column: Sequence[tuple[str, int]]) -> FineBins:
    """Return the encoder with FINE equal-width bins of each number that `by_column` does not name.

    Whole numbers of a narrower range keep one bin for each value.
    """
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


def long_in(domain: Domain, config: Any) -> list[int]:
    """Return the same where the settings ask for private bins, and none otherwise."""
    return large(domain) if config.private_bins else []


def most_levels(domain: Domain) -> np.ndarray:
    """Return how many levels a column can have after runs are formed, int64 (columns,).

    A long column has at most BASE parts, as many more by halving, and a gap. Others keep their
    levels.
    """
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
    """Return the run of each level."""
    return np.searchsorted(firsts, codes, side="right") - 1


def part_edges(firsts: np.ndarray, size: int) -> np.ndarray:
    """Return the edges of the parts of all runs.

    A part ends where a run ends, or where one of the BASE equal parts of all levels ends.
    """
    return np.unique([*firsts, *base_edges(size)])


def smoothed(noisy: np.ndarray, firsts: np.ndarray, sigma: float) -> np.ndarray:
    """Return the counts with each run's parts moved towards an even spread over the run.

    The less the parts stand out of the noise, the more they are moved.

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
    """Draw a level for each run.

    It first draws one of the run's parts by their noisy counts, then a level of this part, each
    with the same probability.
    """
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


# --- a round before a method's own ----------------------------------------------------------------


def first_state(domain: Domain, config: Any) -> Arrays:
    """Return what the state of a method begins with where there are long columns.

    Without long columns it is empty.

    levels: of fine counts, int64 (columns,). long, gaps: the columns that `formed` puts into runs,
    and those of them with gaps.
    """
    if not (long := long_in(domain, config)):
        return {}
    gaps = [place for place in long if domain.names[place] in domain.gaps]
    return {
        "levels": np.array(domain.levels, np.int64),
        "round": np.array(-1),
        "long": np.array(long, np.int64),
        "gaps": np.array(gaps, np.int64),
    }


def long_of(state: Arrays) -> list[int]:
    """Return the long columns of a state; none where bins are not private."""
    return state["long"].tolist() if "long" in state else []


def sent(state: Arrays) -> Arrays:
    """Return what clients are sent about long columns.

    This is which columns are long and, once they are formed, their runs. No counts are sent.
    """
    return {n: v for n, v in state.items() if n == "long" or n.startswith("firsts ")}


def expected(sent: Arrays, domain: Domain, *, formed: bool) -> dict[str, np.ndarray | Values]:
    """Return what may be sent of long columns, with the levels that columns have then.

    Raises BadBroadcast for runs that noisy counts cannot have made. formed: whether runs are due.
    """
    long, levels = large(domain), np.array(domain.levels, np.int64)
    found: dict[str, np.ndarray | Values] = {"long": np.array(long, np.int64)}
    for column in long if formed else []:
        firsts, size = sent[f"firsts {column}"], domain.levels[column]
        found[f"firsts {column}"] = Values(np.int64, (None,), 0, size - 1)
        levels[column] = len(firsts)
        require(are_runs(firsts, size, gap=domain.names[column] in domain.gaps))
    return {**found, "levels": levels}


def fine_counts(state: Arrays, rows: np.ndarray) -> np.ndarray:
    """Return the counts of all levels of each long column, one after the other, int64.

    One more row adds 1 to one count of each.
    """
    levels = state["levels"]
    return np.concatenate([np.bincount(rows[:, c], minlength=levels[c]) for c in long_of(state)])


def formed(state: Arrays, noisy: np.ndarray, sigma: float) -> Arrays:
    """Return the levels that columns have in runs, and runs and noisy counts of long ones.

    Parameters
    ----------
    state
        With `first_state`.
    noisy
        `fine_counts` of all clients, with noise.
    sigma
        Standard deviation of that noise.
    """
    levels, found, columns = state["levels"].copy(), {}, long_of(state)
    pieces = np.split(noisy, np.cumsum(levels[columns])[:-1])
    for column, counts in zip(columns, pieces, strict=True):
        firsts = runs(counts, sigma, gap=column in state["gaps"])
        levels[column] = len(firsts)
        found[f"firsts {column}"] = firsts
        found[f"fine {column}"] = smoothed(counts, firsts, sigma)
    return {**found, "levels": levels}


def in_runs(state: Arrays, rows: np.ndarray) -> np.ndarray:
    """Return the rows with runs in place of the levels of long columns."""
    if not (columns := long_of(state)):
        return rows
    rows = rows.copy()
    for column in columns:
        rows[:, column] = run_of(rows[:, column], state[f"firsts {column}"])
    return rows


def in_levels(state: Arrays, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return synthetic rows, changed in place, with a level for each run of long columns."""
    for column in long_of(state):
        firsts, noisy = state[f"firsts {column}"], state[f"fine {column}"]
        rows[:, column] = spread(rows[:, column], firsts, noisy, rng)
    return rows
