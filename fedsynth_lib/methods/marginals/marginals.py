"""What AIM, DistAIM and FLAIM share.

These are the settings, the workload, the candidates for measurement, and the noise.

Unit of privacy: one record, added or removed. A marginal is a table of counts, of which one record
changes one by 1: its sensitivity is 1 in every norm.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from fedsynth_lib.core.contract import BadInput, Charge, Domain
from fedsynth_lib.core.queries import closure, random_workload, weights
from fedsynth_lib.methods.marginals import private_bins
from fedsynth_lib.methods.marginals.junction_tree import Query, model_bytes
from fedsynth_lib.methods.marginals.private_bins import BinSettings
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema

MEGABYTE = 2**20
CHOICE = "the choice of a marginal"


@dataclass(frozen=True)
class Config(BinSettings):
    """Settings of the family, with published defaults.

    Source: maddock2024, section 5, and "Settings" in its protocol.

    bins, by_column: equal-width bins of numeric columns, and of single ones; None keeps whole
        numbers as they are; "private" has bins that follow noisy counts (`private_bins.py`).
    fine_share: of the budget, for these counts; the other settings share out the rest.
    workload: column names of each query; None draws `num_queries` triples with `workload_seed`.
    rounds: selections, T. participation: chance of each client to take part in a round, p.
    measure_share: part of the budget for measuring, r; the rest pays for selecting.
    max_megabytes: of the model's tables, scaled by the part of the budget already spent.
    iterations, final_iterations: of estimation each round and after the last.
    momentum, to_noise: see `graphical_model.estimate`; both off is the published mirror descent.
    weighted: a measurement weighs by the number of records behind it, rather than all the same.
    public_sizes: that number is the sum of the clients' sizes, which scores take as public anyway;
        otherwise it is the sum of the noisy counts, as published, which is off by the noise of all
        cells together.
    annealed: noise falls as the rounds go (McKenna et al. 2022), from that of `first_rounds` rounds
        a column on.
    """

    bins: int | Literal["private"] | None = 32
    by_column: tuple[tuple[str, int], ...] = ()
    workload: tuple[tuple[str, ...], ...] | None = None
    num_queries: int = 64
    workload_seed: int = 123
    rounds: int = 10
    participation: float = 0.1
    measure_share: float = 0.9
    max_megabytes: float = 80.0
    iterations: int = 50
    final_iterations: int = 500
    momentum: bool = True
    to_noise: bool = True
    weighted: bool = True
    public_sizes: bool = True
    annealed: bool = False
    first_rounds: int = 8
    fine_share: float = 0.1

    def __post_init__(self):
        """Raise BadInput for settings that are out of range."""
        self.check_bins()
        if self.rounds < 1:
            raise BadInput(f"rounds is {self.rounds}: give at least 1.")
        if not 0 < self.participation <= 1:
            raise BadInput(
                f"participation is {self.participation}: give a chance above 0 and up to 1."
            )
        if not 0 < self.measure_share < 1:
            raise BadInput(f"measure_share is {self.measure_share}: give a part between 0 and 1.")
        if self.num_queries < 1:
            raise BadInput(
                f"num_queries is {self.num_queries}: a workload needs at least one query."
            )


def rounds_of(columns: int, config: Config) -> int:
    """How many choices the schedule has; an annealed run may end before the last."""
    return config.first_rounds * columns if config.annealed else config.rounds


def encoder(schema: Schema, config: Config) -> EqualWidthBins:
    """Return the encoder, which puts numeric columns into bins."""
    return private_bins.encoder(schema, config.bins, config.by_column)


# --- candidates ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Candidates:
    """The marginals that may be measured.

    queries: the columns alone first, then larger ones. weights: w_q of the workload. sizes: cells.
    starts: where each query's cells begin in an array that holds all queries' tables one after the
        other.
    """

    queries: tuple[Query, ...]
    weights: np.ndarray
    sizes: np.ndarray
    starts: np.ndarray

    def cells(self, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Position of every row in that array, (queries, rows) int64."""
        padded = np.concatenate(
            [rows.astype(np.int64), np.zeros((len(rows), 1), np.int64)], axis=1
        ).T
        longest = max(map(len, self.queries))
        fill = rows.shape[1]  # a column of zeros with one level
        columns = np.array([(*query, *[fill] * (longest - len(query))) for query in self.queries])
        radix = np.append(levels, 1)
        places = np.zeros((len(self.queries), len(rows)), np.int64)
        for k in range(longest):
            places = places * radix[columns[:, k], None] + padded[columns[:, k]]
        return places + self.starts[:, None]

    def table(self, number: int, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return the counts of one query, flat int64."""
        query = self.queries[number]
        cells = np.ravel_multi_index(tuple(rows[:, query].T), tuple(levels[list(query)]))
        return np.bincount(cells, minlength=self.sizes[number])

    def scores(
        self, errors: np.ndarray, penalty: np.ndarray | float, sigma: float, rows: float
    ) -> np.ndarray:
        """Return AIM's utility of every query.

        It is w_q (error - what noise would leave - penalty), all in shares of `rows`.
        """
        return self.weights * (errors - expected_error(sigma, self.sizes, rows) - penalty)

    def counts(self, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """All queries' counts, one after the other, int64."""
        return np.bincount(self.cells(rows, levels).ravel(), minlength=int(self.sizes.sum()))


def workload_of(domain: Domain, config: Config) -> np.ndarray:
    """Return the workload as column positions, int16 (queries, width).

    A query that has fewer columns is filled up with -1.

    Raises BadInput for a column that is not there, and where no candidate fits into the model.
    """
    place = {name: number for number, name in enumerate(domain.names)}
    if len(place) == 1:
        raise BadInput(
            f"{domain.names[0]!r} is the only column, and this method counts columns together: "
            "take `independent`."
        )
    if config.workload is None:
        width = min(3, len(place))
        chosen = random_workload(
            len(place), size=config.num_queries, width=width, seed=config.workload_seed
        )
    else:
        if not config.workload or not all(config.workload):
            raise BadInput(
                "the workload is empty or holds an empty query: name at least one column "
                "in each query."
            )
        for name in (name for query in config.workload for name in query):
            if name not in place:
                raise BadInput(
                    f"the workload names the column {name!r}; the table has "
                    f"{', '.join(domain.names)}."
                )
        chosen = tuple(tuple(sorted({place[name] for name in query})) for query in config.workload)
    if max(map(len, chosen)) < 2:
        raise BadInput(
            "the workload names single columns only, which are measured anyway: name two or "
            "more in a query."
        )
    limit = config.max_megabytes * MEGABYTE
    if not any(
        model_bytes(domain.levels, [query]) <= limit for query in closure(chosen) if len(query) > 1
    ):
        raise BadInput(
            f"max_megabytes is {config.max_megabytes:g}: no marginal of the workload "
            "fits; raise it."
        )
    longest = max(map(len, chosen))
    return np.array([(*query, *[-1] * (longest - len(query))) for query in chosen], dtype=np.int16)


def candidates_in(state: Mapping[str, np.ndarray]) -> Candidates:
    """Return the candidates of the workload in the state."""
    workload = tuple(tuple(c for c in query if c >= 0) for query in state["workload"].tolist())
    return _candidates(tuple(state["levels"].tolist()), workload)


@lru_cache(maxsize=8)
def _candidates(levels: tuple[int, ...], workload: tuple[Query, ...]) -> Candidates:
    alone = tuple((column,) for column in range(len(levels)))
    queries = alone + tuple(query for query in closure(workload) if len(query) > 1)
    sizes = np.array([np.prod([levels[c] for c in query], dtype=np.int64) for query in queries])
    return Candidates(queries, weights(queries, workload), sizes, np.cumsum(sizes) - sizes)


# --- noise ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryCounts:
    """How many marginals and how many choices one record can be in, at most, over the whole run."""

    measured: int
    selected: int

    def choice_noise(self, sigma: float, measure_share: float) -> float:
        """Return the noise multiplier of a choice when marginals have noise `sigma`.

        The mechanism is that of `accounting.exponential`.

        Either costs 1 / (2 noise^2) in zCDP (a choice of parameter e has noise 2 / e and costs e^2
        / 8), so the parts r and 1 - r of the budget fix the ratio of the two (maddock2024, lemma
        4.1).
        """
        if not self.selected:
            return np.inf
        return sigma * np.sqrt(
            self.selected * measure_share / (self.measured * (1 - measure_share))
        )

    def plan(self, sigma: float, measure_share: float) -> list[Charge]:
        """Return the charges of all measurements and choices."""
        charges = [measuring("marginals", sigma, self.measured)]
        return charges + [choosing(self.choice_noise(sigma, measure_share), self.selected)] * bool(
            self.selected
        )


def measuring(what: str, sigma: float | None, times: int = 1, client: int | None = None) -> Charge:
    """Noisy counts of `times` marginals; one record changes one count of each by 1."""
    if sigma is None:
        return Charge(what, "unprotected", times=times, client=client)
    return Charge(what, "gaussian", sigma, times=times, client=client)


def forming_bins(
    sigma: float | None, total: QueryCounts, long: int, config: Config, client: int | None = None
) -> Charge:
    """Noisy counts of all levels of each of `long` columns, by which bins are formed.

    One record changes one count of each column by 1. In zCDP all of them together have the part
    `fine_share` of the budget where the rest of the run, `total` with noise `sigma`, has what is
    left.
    """
    if sigma is None:
        return measuring(private_bins.FINE_COUNTS, None, client=client)
    rest = rho(total.plan(sigma, config.measure_share))
    noise = np.sqrt(long * (1 - config.fine_share) / (2 * config.fine_share * rest))
    return measuring(private_bins.FINE_COUNTS, float(noise), long, client)


def planned(sigma: float, total: QueryCounts, domain: Domain, config: Config) -> list[Charge]:
    """Return the charges of a record that is in everything, with those of the fine counts."""
    long = private_bins.long_in(domain, config)
    before = [forming_bins(sigma, total, len(long), config)] if long else []
    return before + total.plan(sigma, config.measure_share)


def choosing(noise: float | None, times: int = 1, sensitivity: float = 1.0) -> Charge:
    """Return the charge of `times` choices by the exponential mechanism."""
    if noise is None:
        return Charge(CHOICE, "unprotected", times=times)
    return Charge(CHOICE, "exponential", noise, sensitivity=sensitivity, times=times)


def rho(charges: Iterable[Charge]) -> float:
    """Return the zCDP cost of Gaussian releases and choices, as if all were about one record."""
    return sum(charge.times / (2 * charge.noise**2) for charge in charges)


def expected_error(sigma: float, sizes: np.ndarray, rows: float) -> np.ndarray:
    """Return the L1 norm that Gaussian noise on a marginal is expected to have.

    sizes: cells of the marginals. rows: the norm is in shares of them.
    """
    return np.sqrt(2 / np.pi) * sigma * sizes / rows
