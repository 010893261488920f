"""FedPGM: a graphical model from two secure sums of counts.

What crosses the wire: in the first round every client's counts of all single columns and of all
pairs of columns, in the second its counts of the tables that the server chose. Each client adds its
share of whole-number noise to its counts and masks them, so that the server, and whoever watches
it, learns the noisy sums alone. No server is trusted with rows, shares or exact counts.

The server chooses the pairs that are furthest from independence by the noisy sums, as many as a
model of limited size holds (as MST and PrivSyn choose among noisy statistics: McKenna, Miklau and
Sheldon 2021; Zhang et al. 2021), and fits a graphical model to both rounds together (Private-PGM,
McKenna et al. 2019). Choosing costs nothing: it only looks at what was released. Columns that
are in no such pair are counted alone again, for their part of the same price. A fixed number of
measurements is shared out among these tables by their numbers of cells (as SWIFT does, McKenna et
al. 2026), and the price is that of the number, whatever the shares (`_drawn`).

Where there are many columns, the first sum has all pairs of coarse columns, whose levels are merged
by a public rule (`coarse_pairs.py`), and only chosen pairs are counted at full resolution. Up to
some 300 columns a client then sends at most 10 MB. Narrower tables are counted as they are.

With `bins="private"` a round goes before: noisy counts of every number of many levels alone, from
which the server forms its bins (`private_bins.py`).

Where a part of the clients is in a round, a sum may be gathered over several rounds. A client's
rows are in the first of them that it is drawn for, and later ones have its noise alone. So a record
is in one round of each sum, which one does not depend on rows, and a sum costs what one of its
rounds costs, while its noise is that of all of them.

Noise is Skellam noise, of which shares add up exactly (Agarwal, Kairouz and Liu 2021). Where some
clients may be curious, the others make the whole noise alone, so that all together make more than
is charged: each says by how many it divides, and the server fits to the noise that there is.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import skellam_share
from fedsynth_lib.core.broadcast import Values, check_arrays, require
from fedsynth_lib.core.contract import (
    Arrays,
    BadInput,
    Charge,
    Client,
    Domain,
    Noise,
    Update,
    stream,
)
from fedsynth_lib.core.queries import Query
from fedsynth_lib.methods.marginals import coarse_pairs, private_bins
from fedsynth_lib.methods.marginals.coarse_pairs import is_wide, spanning_tree
from fedsynth_lib.methods.marginals.graphical_model import Model, Target, estimate
from fedsynth_lib.methods.marginals.junction_tree import grown_fits
from fedsynth_lib.methods.marginals.marginal_state import model_of, name_of
from fedsynth_lib.methods.marginals.marginals import MEGABYTE, Candidates, expected_error
from fedsynth_lib.methods.marginals.model_answers import sample as sample_model
from fedsynth_lib.methods.marginals.private_bins import in_runs
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema

VERSION = 4
TRUST = "secure sum"
FINE = private_bins.FINE_COUNTS
ONE_WAY, TWO_WAY, AGAIN = (
    "counts of single columns",
    "counts of all pairs",
    "counts of chosen tables",
)
SUMS = {-1: "fine", 0: "first", 1: "again"}  # the summed array of each sum
GATHERED = ("gathered", "gathered_rows", "gathered_variance", "gathered_rounds")  # of one so far
MOST_ROWS = 2**40  # of a client
ALONE = (
    "FedPGM: no pair of columns stands out of the noise and fits the model, so columns are drawn "
    "independently of each other; a larger epsilon or more rows would show pairs."
)
POWER = 2 / 3  # of a table's cells: its share of the second sum
MOST_CELLS = 20_000_000  # of all columns and pairs together, which each client counts and sends
CHUNK = 2**22  # places in tables, counted at a time


@dataclass(frozen=True)
class Config(private_bins.BinSettings):
    """Settings of FedPGM.

    bins, by_column: equal-width bins of numeric columns, and of single ones; None keeps whole
        numbers as they are; "private" has bins that follow noisy counts, of numbers with more than
        64 levels. fine_share: of the budget, for these counts; the other shares are of the rest.
    one_way_share, two_way_share: of the budget (in 1 / noise^2) for single columns and for all
        pairs; the rest measures chosen pairs again, and columns that are in none.
    again: how many measurements the second round has for each column, to share out among tables.
        More of them only share more finely: each has the more noise.
    sure: standard deviations by which a pair's distance from independence must exceed what noise
        alone makes of it.
    tree: choose the pairs of a spanning tree alone, as MST does. max_megabytes: of the model's
        tables. iterations: of estimation. participation: chance of a client to be in a round; it
        pays as if it were in all. rounds_per_sum: over which each sum is gathered.

    Shares and limits were chosen, one at a time, on 20,000 rows each of cardio, bank, brfss_heart,
    obesity and magic (5 clients, epsilon 1 and 3, 2- and 3-way total variation to test rows), and
    on no other table. `tests/tuning.py` compares them with others at epsilon 0.5 to 10 on three of
    these tables, and has the rows. There, to stop estimation at the noise takes half the time and
    is worse by 6 to 10 percent in total variation and range queries; so it is not done.
    """

    # on bank, cardio and magic at 1,000 to 10,000 rows and epsilon 1, errors of range queries were
    # smaller with private bins from about there on (magic, which gains the least: 0.0063 and 0.0058
    # at 10,000 rows and ten long columns)
    PRIVATE_BINS_FROM: ClassVar[float] = 4_000

    bins: int | Literal["private"] | None = 32
    by_column: tuple[tuple[str, int], ...] = ()
    one_way_share: float = 0.2
    two_way_share: float = 0.3
    again: float = 16.0
    sure: float = 2.0
    tree: bool = False
    max_megabytes: float = 4.0
    iterations: int = 300
    fine_share: float = 0.1
    participation: float = 1.0
    rounds_per_sum: int = 1

    @property
    def rounds(self) -> int:
        """How many rounds a run has at most."""
        return (3 if self.private_bins else 2) * self.rounds_per_sum

    def __post_init__(self):
        """Raise BadInput for settings that are out of range or exclude each other."""
        self.check_bins()
        shares = self.one_way_share, self.two_way_share
        if min(shares) <= 0 or sum(shares) >= 1:
            raise BadInput(
                f"one_way_share and two_way_share are {shares[0]:g} and {shares[1]:g}: give two "
                "parts above 0 that leave something of 1."
            )
        shown = f"{self.again:g}, {self.max_megabytes:g}, {self.participation:g}"
        if min(self.again, self.max_megabytes, self.participation) <= 0:
            raise BadInput(f"again, max_megabytes, participation are {shown}: give more than 0.")
        if self.rounds_per_sum < 1 or (self.rounds_per_sum > 1 and self.participation >= 1):
            raise BadInput(
                f"rounds_per_sum is {self.rounds_per_sum}: give 1 where all clients are in every "
                "round, or a greater whole number and a participation below 1."
            )


def encoder(schema: Schema, config: Config) -> EqualWidthBins:
    """Return the encoder, which puts numeric columns into bins."""
    return private_bins.encoder(schema, config.bins, config.by_column)


@dataclass(frozen=True)
class Scales:
    """The noise on each kind of count, and how often each kind is measured.

    one_way, two_way, again, fine: standard deviation of the noise on one count. columns, pairs,
    slots, long: how many measurements there are of these kinds.
    """

    one_way: float
    two_way: float
    again: float
    fine: float
    columns: int
    pairs: int
    slots: int
    long: int

    @classmethod
    def of(cls, noise_multiplier: float, columns: int, config: Config, long: int = 0) -> "Scales":
        """All measurements together cost as one count with noise `noise_multiplier`.

        A record is in one cell of each table, so each table is one release of sensitivity 1. The
        second round has a number of measurements that is known beforehand, whatever is chosen, and
        their noise does not depend on the first round (`_drawn`). long: columns of which fine
        counts are made beforehand.
        """
        pairs = columns * (columns - 1) // 2
        slots = max(1, round(config.again * columns)) if pairs else 0
        fine = config.fine_share if long else 0.0
        one_way, two_way = config.one_way_share, config.two_way_share
        kinds = ((columns, one_way), (pairs, two_way), (slots, 1 - one_way - two_way))
        scales = [noise_multiplier * np.sqrt(times / share / (1 - fine)) for times, share in kinds]
        scales.append(noise_multiplier * np.sqrt(long / fine) if long else 0.0)
        return cls(*scales, columns, pairs, slots, long)

    def charges(self) -> dict[int, list[Charge]]:
        """Return the charges of each sum, by its number in SUMS."""
        before = [Charge(FINE, "skellam", self.fine, times=self.long)]
        first = [
            Charge(ONE_WAY, "skellam", self.one_way, times=self.columns),
            Charge(TWO_WAY, "skellam", self.two_way, times=self.pairs),
        ]
        again = [Charge(AGAIN, "skellam", self.again, times=self.slots)]
        rounds = {-1: before, 0: first, 1: again}
        return {number: [c for c in own if c.times] for number, own in rounds.items()}


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """All counts of all rounds."""
    long = private_bins.long_in(domain, config)
    scales = Scales.of(noise_multiplier, len(domain.names), config, len(long))
    return _gathered_over(config, list(chain(*scales.charges().values())))


def schedule(domain: Domain, config: Config) -> list[tuple[int, float]]:
    """Return (draw of clients, share of clients) of each round."""
    return [(number, config.participation) for number in range(config.rounds)]  # each a new draw


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the state before the first round.

    Raises BadInput for columns and pairs with more cells than clients can count.
    """
    long = private_bins.long_in(domain, config)
    levels = np.array(domain.levels, np.int64)
    most = private_bins.most_levels(domain) if long else levels
    sizes = most.tolist()  # whose squares do not wrap around
    alone, pairs = sum(domain.levels), (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    if is_wide(len(sizes)):
        pairs = coarse_pairs.coarse_pairs(tuple(sizes)).cells
    if alone + pairs > MOST_CELLS:
        largest = domain.names[int(levels.argmax())]
        fewer = f"bin or merge the levels of {largest!r}, or leave it out."
        if is_wide(len(sizes)) and pairs > alone:
            fewer = f"leave some of the {len(sizes):,} columns out."
        raise BadInput(
            f"all columns and pairs of columns have {alone + pairs:,} cells together, more than "
            f"{MOST_CELLS:,}: {fewer}"
        )
    state = {"levels": levels, "round": np.array(0), "rows": np.array(0)}
    none = np.zeros(0, np.int64)
    return {**state, "long": none, "gaps": none, **private_bins.first_state(domain, config)}


def tables_in(levels: np.ndarray) -> Candidates:
    """All single columns and all pairs, as places in one array of counts; at full resolution."""
    return tables_of_queries(levels, (*_singles(levels), *combinations(range(len(levels)), 2)))


def _singles(levels: np.ndarray) -> tuple[Query, ...]:
    return tuple((column,) for column in range(len(levels)))


def tables_of_queries(levels: np.ndarray, queries: tuple[Query, ...]) -> Candidates:
    """Return the tables of these queries, as places in one array of counts."""
    sizes = np.array([np.prod(levels[list(query)]) for query in queries], dtype=np.int64)
    return Candidates(queries, np.ones(len(queries)), sizes, np.cumsum(sizes) - sizes)


def chosen_in(state: Arrays) -> tuple[Query, ...]:
    """Return the chosen tables of a state; a single column is kept as a pair with itself."""
    return tuple(tuple(dict.fromkeys(query)) for query in state["chosen"].tolist())


def broadcast(state: Arrays, config: Config) -> Arrays:
    """Return what clients need to know for the next count.

    Noisy counts stay with the server, which alone needs them.
    """
    names = ("levels", "round", "long", "chosen", "repeats")
    sent = {name: state[name] for name in names if name in state}
    return {**sent, **private_bins.sent(state)}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check that the state asks for the sum of this round, and for no more than the plan pays for.

    Levels must be as declared, or as many as there are runs. In the second sum the tables must be
    different ones, and all their measurements together must be as many as the plan has.

    Where pairs are not coarse, any of these tables is one of the first sum, so no choice of them is
    larger than that. Otherwise they have at most MOST_AGAIN cells.
    """
    own, columns = start(domain, config, stream(0)), len(domain.names)
    number = int(own["round"]) + round // config.rounds_per_sum
    expected: dict[str, Any] = {"levels": own["levels"], "long": own["long"]}
    if len(own["long"]):
        expected = private_bins.expected(state, domain, formed=number >= 0)
    expected["round"] = np.array(number)
    levels, slots = expected["levels"], Scales.of(1.0, columns, config).slots
    if number == 1:
        expected["chosen"] = Values(np.int16, (None, 2), 0, columns - 1)
        expected["repeats"] = Values(np.int64, (len(state["chosen"]),), 1, slots)
    check_arrays(state, expected)
    require(number < 1 + (slots > 0))
    if number == 1:
        first, last = state["chosen"].T
        require((first <= last).all() and len(set(chosen_in(state))) == len(first))
        require(state["repeats"].sum() == slots)
        if is_wide(columns):
            cells = levels[first] * np.where(first < last, levels[last], 0)
            require(cells.sum() <= coarse_pairs.MOST_AGAIN)


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Return the client's counts with its share of the noise.

    One more row adds 1 to one cell of each table, and each table has noise of its own. This is also
    true of a coarse table, because each level is merged into one coarse level, whatever the rows
    are. In the second sum a table that is measured r times is sent as the sum of these
    measurements.
    """
    number, levels, rows, marks = int(state["round"]), state["levels"], client.rows, {}
    if config.rounds_per_sum > 1:
        marks["counted"] = np.array(_counts_now(client, number))
        rows = rows if marks["counted"] else rows[:0]
    if number >= 0:
        rows = in_runs(state, rows)
    if number == 1:
        asked = tables_of_queries(levels, chosen_in(state))
    else:
        asked = _first_tables(levels) if number == 0 else long_columns(state)
    counts = _counts(asked, rows, levels)
    if number == 0 and is_wide(len(levels)):
        counts = np.append(counts, coarse_pairs.coarse_pairs(tuple(levels.tolist())).counts(rows))
    if number == 1:
        counts = counts * np.repeat(state["repeats"], asked.sizes)
    parts = _parts(state, asked, config, noise)
    if noise is not None:
        counts = counts + _drawn(parts, config, client, noise)
        marks["shares"] = np.array(client.shares)
    spent = _spent(parts, config, noise) if marks.get("counted", True) else []
    return Update(summed={SUMS[number]: counts}, arrays=marks, summed_spent=spent)


def _first_tables(levels: np.ndarray) -> Candidates:
    """Return the tables that the first sum has at full resolution."""
    if is_wide(len(levels)):
        return tables_of_queries(levels, _singles(levels))
    return tables_in(levels)


def _counts(asked: Candidates, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """All tables' counts, from so many rows at a time that memory does not grow with them."""
    step = max(1, max(CHUNK, int(asked.sizes.sum())) // len(asked.queries))
    counts = asked.counts(rows[:step], levels)
    for begin in range(step, len(rows), step):
        counts += asked.counts(rows[begin : begin + step], levels)
    return counts


def _counts_now(client: Client, number: int) -> bool:
    """Whether the client's rows are in this round: the first of its sum that the client is in."""
    counted = client.memory.get("counted", np.zeros(0, np.int64))
    client.memory["counted"] = np.union1d(counted, [number])
    return number not in counted


def long_columns(state: Arrays) -> Candidates:
    """Return the tables of the long columns, whose fine counts come before all others."""
    return tables_of_queries(state["levels"], tuple((c,) for c in state["long"].tolist()))


class Part(NamedTuple):
    """Tables that a client adds to a sum with the same noise.

    deviation: standard deviation of the noise on one measurement of a count. repeats: how many
    measurements each table has.
    """

    what: str
    deviation: float
    repeats: int
    tables: int
    cells: int


def _parts(state: Arrays, asked: Candidates, config: Config, noise: Noise | None) -> list[Part]:
    """Return the parts of this round's sum, in the order in which they are sent."""
    multiplier, cells = noise.multiplier if noise else 0.0, int(asked.sizes.sum())
    scales = Scales.of(multiplier, len(state["levels"]), config, len(state["long"]))
    if int(state["round"]) == 1:
        each = zip(state["repeats"].tolist(), asked.sizes.tolist(), strict=True)
        return [Part(AGAIN, scales.again, repeats, 1, size) for repeats, size in each]
    if int(state["round"]) == -1:
        return [Part(FINE, scales.fine, 1, len(asked.queries), cells)]
    columns, levels = scales.columns, state["levels"]
    first = int(asked.sizes[:columns].sum())
    if is_wide(columns):
        cells += coarse_pairs.coarse_pairs(tuple(levels.tolist())).cells
    alone = Part(ONE_WAY, scales.one_way, 1, columns, first)
    return [alone, Part(TWO_WAY, scales.two_way, 1, scales.pairs, cells - first)]


def _spent(parts: Sequence[Part], config: Config, noise: Noise | None) -> list[Charge]:
    """Return the charges of these parts for a client whose rows are in them."""
    times: Counter[tuple[str, float]] = Counter()
    for part in parts:
        times[part.what, float(part.deviation)] += part.repeats * part.tables
    return _gathered_over(
        config,
        [
            Charge(what, "skellam", deviation, times=count)
            if noise
            else Charge(what, "unprotected")
            for (what, deviation), count in times.items()
            if count
        ],
    )


def _drawn(parts: Sequence[Part], config: Config, client: Client, noise: Noise) -> np.ndarray:
    """Return the client's share of the noise on all counts of these parts.

    Parameters
    ----------
    parts
        The tables of this round, in the order in which they are sent. `deviation` is the same
        number in all parts of the second sum: it follows from the plan alone, which each client
        derives from its own copy of the study.
    config
        Of which `rounds_per_sum` counts.
    client
        Of which `shares` counts: the number of clients that are taken to be honest.
    noise
        The stream that noise is drawn from.

    Returns
    -------
    np.ndarray
        Int64 (cells,). The shares of the honest clients add up to Skellam noise of variance
        `repeats * deviation**2` on each cell of a part.

    Raises
    ------
    BadInput
        Where a sum could wrap around (`check_sums`).

    Notes
    -----
    The charge covers every way to share out the second sum. One measurement of a table is its
    counts plus Skellam noise of standard deviation `deviation`. A record changes one count by 1, so
    a measurement has one privacy curve, which is the same for all tables. The plan charges `slots`
    measurements. A table that is measured r times is sent as r times its counts plus Skellam noise
    of variance r * deviation^2. The sum of r independent measurements has just this distribution,
    so what is sent is post-processing of r measurements, and costs no more than these.

    The server chooses tables and shares after it has seen the first sum. In each measurement the
    noise is fixed beforehand and the curve does not depend on the table, so adaptive composition
    applies: whatever is chosen, all measurements together cost `slots` times one of them. A client
    refuses shares that do not add up to `slots` (`check_broadcast`). Nothing is assumed of Skellam
    noise of unequal variances, for which no split is free: every share is a whole number of
    measurements of equal variance.
    """
    sizes = [(part.repeats * part.deviation**2, part.cells) for part in parts]
    check_sums(sizes, max(part.repeats for part in parts), client, config.rounds_per_sum)
    return np.concatenate(
        [skellam_share(variance, client.shares, (size,), rng=noise.rng) for variance, size in sizes]
    )


def check_sums(
    parts: list[tuple[float, int]], repeats: int, client: Client, rounds: int = 1
) -> None:
    """Raise BadInput where a sum over all clients and its rounds could wrap around modulo 2^64.

    Read as an int64 a sum is exact while it is below 2^63 in size. A client adds at most its rows,
    no more than MOST_ROWS, once a measurement. It also adds a difference of two Poisson variables,
    which stays within 50 standard deviations and 1,000 but with a chance below 1e-300 (Bernstein's
    inequality). Each client's part of a round must be below 2^62 / clients / rounds. This holds for
    a thousand clients with noise up to 1e9. The range of numpy's Poisson draws is checked as well.
    """
    share = max(variance for variance, _ in parts) / client.shares
    largest = MOST_ROWS * repeats + 50 * share**0.5 + 1_000
    if largest * client.num_clients * rounds >= 2**62 or share / 2 >= 2**62:
        raise BadInput(
            f"noise of {(share * client.shares) ** 0.5:.2g} on each count and {client.num_clients} "
            "clients do not fit the whole numbers of a secure sum: give a larger epsilon."
        )


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Choose pairs by the noisy counts of all; or fit the model to both rounds."""
    number, columns = int(state["round"]), len(state["levels"])
    state, charges = dict(state), _charges(state, config, noise)
    gathered = {name: state.pop(name) for name in GATHERED if name in state}
    gathered = _gathered(gathered, updates, SUMS[number], noisy=noise is not None)
    if gathered["gathered_rounds"] < config.rounds_per_sum:
        return state | gathered, charges
    counts, rows, made, _ = gathered.values()
    multiplier = 0.0 if noise is None else noise.multiplier * float(np.sqrt(made))
    scales = Scales.of(multiplier, columns, config, len(state["long"]))
    state |= {"round": np.array(number + 1), "rows": rows}
    if number == -1:
        return state | private_bins.formed(state, counts, scales.fine), charges
    if number == 0:
        state |= _choose(state, counts / max(int(rows), 1), scales, config)
    else:
        state |= _measured_again(state, counts, int(rows), scales)
    if number == 1 or (number == 0 and not scales.slots):
        model = _fit(state, scales, config)
        state |= {name_of("potential", q): table for q, table in model.potentials.items()}
        state["finished"] = np.array(True)
    return state, charges


def _charges(state: Arrays, config: Config, noise: Noise | None) -> list[Charge]:
    """Return the charges of a sum in its first round, and none in its later rounds.

    A record is in only one of the rounds that a sum is gathered over.
    """
    if "gathered_rounds" in state:
        return []
    number, columns, long = int(state["round"]), len(state["levels"]), len(state["long"])
    if noise is not None:
        charges = Scales.of(noise.multiplier, columns, config, long).charges()[number]
    else:
        what = {-1: [FINE], 0: [ONE_WAY, *[TWO_WAY] * (columns > 1)], 1: [AGAIN]}[number]
        charges = [Charge(each, "unprotected") for each in what]
    return _gathered_over(config, charges)


def _gathered_over(config: Config, charges: list[Charge]) -> list[Charge]:
    """Return the charges, whose names say over how many rounds their sum is gathered."""
    if config.rounds_per_sum == 1:
        return charges
    once = f"each client in one of {config.rounds_per_sum} rounds"
    return [replace(charge, what=f"{charge.what}, {once}") for charge in charges]


def _gathered(before: Arrays, updates: Sequence[Update], what: str, *, noisy: bool) -> Arrays:
    """Return what a sum has gathered so far, with these updates added.

    The arrays are those of GATHERED: the counts, the rows in them, the variance of their noise, and
    the number of rounds.
    """
    counts = secure_sum.total(updates)[what]
    rows = sum(update.num_rows for update in updates if update.arrays.get("counted", True))
    now = counts, rows, variance(updates) if noisy else 0.0, 1
    return {
        name: np.array(before.get(name, 0) + value)
        for name, value in zip(GATHERED, now, strict=True)
    }


def variance(updates: Sequence[Update]) -> float:
    """Return the variance of the noise on a sum of these updates, in parts of what is charged.

    A client adds 1 / `shares` of the charged variance, where `shares` is the number of clients that
    are taken to be honest.
    """
    return sum(1 / int(update.arrays["shares"]) for update in updates)


def _choose(state: Arrays, shares: np.ndarray, scales: Scales, config: Config) -> Arrays:
    """Return the first round's shares of rows, and the tables that the second round measures.

    The shares are by table. `chosen` are the tables to measure again, and `repeats` says how often
    each is measured.
    """
    levels, rows = state["levels"], max(float(state["rows"]), 1.0)
    asked, wide = _first_tables(levels), is_wide(scales.columns)
    shares, coarse = np.split(shares, [int(asked.sizes.sum())])
    tables = {
        query: piece.reshape(levels[list(query)])
        for query, piece in zip(asked.queries, np.split(shares, asked.starts[1:]), strict=True)
    }
    alone, known = _singles(levels), tuple(levels.tolist())
    if wide:
        standing_out = coarse_pairs.coarse_pairs(known).standing_out(
            coarse * rows,
            [_as_distribution(tables[query]) for query in alone],
            rows,
            scales.two_way,
            config.sure,
        )
    else:
        standing_out = _standing_out(tables, scales, rows, config.sure)
    if config.tree:
        standing_out = spanning_tree(standing_out, len(levels))
    choice = coarse_pairs.fitting if wide else _fitting
    pairs = choice(standing_out, known, scales.slots, config.max_megabytes)
    if scales.pairs and not pairs:
        warnings.warn(ALONE, stacklevel=2)  # seen in the noisy counts alone
    chosen, repeats = _asked_again(pairs, levels, scales)
    return {
        **{name_of("shares", q): tables[q] for q in (*alone, *pairs) if q in tables},
        "chosen": np.array([(query[0], query[-1]) for query in chosen], np.int16).reshape(-1, 2),
        "repeats": np.array(repeats, np.int64),
        "first_rows": state["rows"],
    }


def _asked_again(
    pairs: Sequence[Query], levels: np.ndarray, scales: Scales
) -> tuple[list[Query], list[int]]:
    """Return the tables of the second round and how often each is measured, `slots` in all.

    A count of a table that has a share w of the measurements has noise of variance 1 / w, so a
    table of m cells has an expected total error in proportion to m / sqrt(w). The sum over all
    tables is least for w in proportion to m^(2/3), and so are measurements shared out, as evenly as
    whole numbers allow and at least one for each table.

    Parameters
    ----------
    pairs
        The chosen pairs. Columns that are in none of them are measured alone, as far as there are
        measurements left.
    levels
        Int64 (columns,).
    scales
        Of which `slots` counts.
    """
    joined = set(chain(*pairs))
    alone = [(column,) for column in range(scales.columns) if column not in joined]
    asked = [*pairs, *alone][: scales.slots]
    counted = [max(1, (scales.columns - 1) * (len(query) == 1)) for query in asked]
    weights = (counted * tables_of_queries(levels, tuple(asked)).sizes) ** POWER
    wanted = scales.slots * weights / weights.sum()
    repeats = np.maximum(1, np.floor(wanted)).astype(np.int64)
    while step := int(np.sign(scales.slots - repeats.sum())):
        gain = np.where(repeats + step > 0, step * (wanted - repeats), -np.inf)
        repeats[gain.argmax()] += step
    return asked, repeats.tolist()


def _standing_out(
    tables: Mapping[Query, np.ndarray], scales: Scales, rows: float, sure: float
) -> list[Query]:
    """Return pairs whose noisy shares are further from independence than by noise alone.

    The furthest pair comes first. The distance is that in L1 from the product of the columns'
    shares, less what noise is expected to make of it. It must exceed `sure` times the standard
    deviation of its noise. For the absolute value of a normal variable that is the root of 1 - 2 /
    pi of the normal variance.
    """
    alone = {query[0]: _as_distribution(table) for query, table in tables.items() if len(query) < 2}
    scores = {}
    for (a, b), table in ((query, table) for query, table in tables.items() if len(query) == 2):
        distance = float(np.abs(table - np.outer(alone[a], alone[b])).sum())
        score = distance - float(expected_error(scales.two_way, np.array(table.size), rows))
        if score > sure * np.sqrt((1 - 2 / np.pi) * table.size) * scales.two_way / rows:
            scores[a, b] = score
    return sorted(scores, key=lambda query: -scores[query])


def _fitting(
    candidates: Sequence[Query], levels: tuple[int, ...], most: int, megabytes: float
) -> list[Query]:
    """As many of the candidates, from the first on, as a model of this size holds; `most` pairs."""
    alone, chosen = [(column,) for column in range(len(levels))], []
    for query in candidates:
        if len(chosen) == most:
            break
        if all(grown_fits(levels, (*alone, *chosen), [query], megabytes * MEGABYTE)):
            chosen.append(query)
    return chosen


def _as_distribution(shares: np.ndarray) -> np.ndarray:
    positive = np.maximum(shares, 0)
    return (
        positive / positive.sum() if positive.sum() > 0 else np.full(len(shares), 1 / len(shares))
    )


def _measured_again(state: Arrays, counts: np.ndarray, rows: float, scales: Scales) -> Arrays:
    """Return both rounds' shares of each chosen table, averaged by precision.

    A pair whose counts were coarse in the first round has only the shares of the second.
    """
    levels, repeats, earlier = state["levels"], state["repeats"], _earlier(state)
    asked = tables_of_queries(levels, chosen_in(state))
    averaged = {}
    for query, piece, count in zip(
        asked.queries, np.split(counts, asked.starts[1:]), repeats, strict=True
    ):
        again = piece.reshape(levels[list(query)]) / (count * max(rows, 1))
        before = state.get(name_of("shares", query), 0.0)
        first = earlier * _once(query, scales)
        second = _precision(scales.again, count)
        averaged[name_of("shares", query)] = (first * before + second * again) / (first + second)
    return averaged


def _once(query: Query, scales: Scales) -> float:
    """Return the precision of a count of a table in the first round; 0 where it was coarse."""
    if len(query) > 1 and is_wide(scales.columns):
        return 0.0
    return _precision(scales.one_way if len(query) == 1 else scales.two_way, 1)


def _precision(scale: float, times: int) -> float:
    """Return the precision of a mean of so many measurements.

    Noise 0 counts as 1, so that all measurements weigh the same.
    """
    return times / (scale or 1.0) ** 2


def _earlier(state: Arrays) -> float:
    """Precision of the first round's shares, in parts of what it were with the last one's rows."""
    return (max(float(state["first_rows"]), 1.0) / max(float(state["rows"]), 1.0)) ** 2


def _fit(state: Arrays, scales: Scales, config: Config) -> Model:
    """Fit the graphical model of everything that was measured."""
    levels = tuple(state["levels"].tolist())
    rows, earlier, targets = float(max(int(state["rows"]), 1)), _earlier(state), {}
    repeats = dict(zip(chosen_in(state), state["repeats"].tolist(), strict=True))
    for query in dict.fromkeys([*((c,) for c in range(len(levels))), *repeats]):
        precision = earlier * _once(query, scales)
        if query in repeats:
            precision += _precision(scales.again, repeats[query])
        targets[query] = Target(state[name_of("shares", query)], rows**2 * precision)
    # not to the noise: see Config
    return estimate(Model(levels), targets, iterations=config.iterations, to_noise=False)


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Rows of the fitted model, (num_rows, columns); post-processing."""
    return private_bins.in_levels(state, sample_model(model_of(state), num_rows, rng=rng), rng)
