"""FedPGM on wide tables: coarse counts of all pairs, and the pairs that are chosen by them."""

import resource
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import (
    BadBroadcast,
    BadInput,
    Client,
    Domain,
    Method,
    Noise,
    Privacy,
    stream,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.marginals import coarse_pairs, fedpgm
from fedsynth_lib.methods.marginals.coarse_pairs import MOST_AGAIN, MOST_COUNTS, NARROW, merged
from fedsynth_lib.methods.marginals.fedpgm import Config, Scales
from fedsynth_lib.methods.marginals.junction_tree import model_bytes
from fedsynth_lib.methods.marginals.marginals import MEGABYTE
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

METHOD = Method.of(fedpgm)
WIDE = NARROW + 1
KINDS = coarse_pairs.KINDS


def chain(columns, rows=20_000, *, neighbours=True, seed=0, most=32):
    """Levels and rows of a chain: four of five values follow the column before, by their place in
    the range or by their remainder; the others are drawn at random."""
    rng = np.random.default_rng(seed)
    levels = np.round(np.exp(rng.uniform(np.log(2), np.log(most), columns))).astype(int)
    made = rng.integers(0, levels, (rows, columns)).astype(np.int32)
    for j in range(1, columns):
        before, follows = made[:, j - 1], rng.random(rows) < 0.8
        place = (before + rng.random(rows)) * levels[j] / levels[j - 1]
        wanted = place.astype(int) if neighbours else before % levels[j]
        made[follows, j] = np.minimum(wanted, levels[j] - 1)[follows]
    return levels, made


def table_of(levels, rows):
    columns = [
        Column(f"c{j}", "categorical", categories=tuple(f"v{k}" for k in range(level)))
        for j, level in enumerate(levels)
    ]
    frame = {
        column.name: pd.Categorical.from_codes(codes, categories=list(column.categories))
        for column, codes in zip(columns, rows.T, strict=True)
    }
    return Table("chain", pd.DataFrame(frame), Schema(tuple(columns)), "own")


def domain_of(levels):
    return Domain(tuple(f"c{j}" for j in range(len(levels))), tuple(map(int, levels)))


def run(levels, rows, clients=1, epsilon=1.0, **options):
    parts = np.array_split(np.arange(len(rows)), clients)
    privacy = Privacy(epsilon, 1e-5) if epsilon else Privacy()
    given = {"config": Config(), "privacy": privacy, "seed": 1, **options}
    return settings.federated(METHOD, table_of(levels, rows), parts, **given)


def total_variation(a, b, first, second):
    shares = [pd.crosstab(t[:, first], t[:, second], normalize=True).stack() for t in (a, b)]
    return shares[0].sub(shares[1], fill_value=0).abs().sum() / 2


# --- what is counted -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", [1, 2, 4, 8, 9, 32, 33, 1000])
def test_levels_are_merged_by_neighbours(kind, levels):
    parts, halves = kind
    places = merged(levels, *kind)
    if levels <= parts * halves:
        assert places.tolist() == list(range(levels))
        return
    of_parts = places // halves
    assert (np.diff(of_parts) >= 0).all() and set(of_parts) == set(range(parts))
    sizes = np.bincount(of_parts)
    assert sizes.max() - sizes.min() <= 1
    if levels >= 4 * parts * halves:  # no half is empty, or has nearly all levels of its part
        assert np.bincount(places, minlength=parts * halves).min() >= sizes.min() // 3


@pytest.mark.parametrize("kind", KINDS)
def test_coarse_counts_are_those_of_merged_levels(kind, monkeypatch):
    """By pandas, from rows that take several chunks."""
    monkeypatch.setattr(coarse_pairs, "CHUNK", 64)
    levels, rows = chain(12, 300)
    pairs = coarse_pairs.CoarsePairs(tuple(levels.tolist()), *kind)
    pieces = np.split(pairs.counts(rows), np.cumsum(pairs.sizes)[:-1])
    small = [merged(level, *kind)[rows[:, j]] for j, level in enumerate(levels)]
    for (a, b), piece in zip(combinations(range(12), 2), pieces, strict=True):
        sides = [range(min(levels[c], kind[0] * kind[1])) for c in (a, b)]
        expected = pd.crosstab(small[a], small[b]).reindex(index=sides[0], columns=sides[1])
        np.testing.assert_array_equal(piece, expected.fillna(0).to_numpy().ravel())


def test_rows_are_counted_a_part_at_a_time(monkeypatch):
    levels, rows = chain(6, 500)
    asked = fedpgm.tables_in(levels)
    expected = asked.counts(rows, levels)
    monkeypatch.setattr(fedpgm, "CHUNK", 1)
    np.testing.assert_array_equal(fedpgm._counts(asked, rows, levels), expected)
    assert not fedpgm._counts(asked, rows[:0], levels).any()


@pytest.mark.parametrize("columns", [WIDE, 100, 150, 200, 300, 400])
@pytest.mark.parametrize("most", [2, 8, 32, 1000])
def test_a_client_sends_at_most_ten_megabytes(columns, most):
    levels = (most,) * columns
    pairs = coarse_pairs.coarse_pairs(levels)
    cells = int(pairs.sizes.sum())
    assert cells == pairs.cells
    if most == 2 or columns <= 300:
        assert cells <= MOST_COUNTS and 8 * (MOST_COUNTS + MOST_AGAIN) < 10e6


def test_narrow_tables_are_counted_at_full_resolution():
    levels, rows = chain(NARROW, 50)
    state = fedpgm.start(domain_of(levels), Config(), stream(0))
    sent = fedpgm.client_step(state, Client(rows, 0, 1), Config(), None, stream(0)).summed["first"]
    np.testing.assert_array_equal(sent, fedpgm.tables_in(levels).counts(rows, levels))


def test_a_table_of_too_many_columns_is_refused():
    with pytest.raises(BadInput, match=r"50,\d+,\d+ cells .*leave some of the 5,000 columns out"):
        fedpgm.start(domain_of([2] * 5_000), Config(), stream(0))
    with pytest.raises(BadInput, match="levels of 'c3', or leave it out"):
        fedpgm.start(domain_of([2, 2, 2, 30_000_000, *[2] * 100]), Config(), stream(0))


# --- privacy -------------------------------------------------------------------------------------


def in_round(number, levels):
    state = fedpgm.start(domain_of(levels), Config(), stream(0)) | {"round": np.array(number)}
    if number == 1:
        slots = Scales.of(1.0, len(levels), Config()).slots
        state |= {"chosen": np.array([[0, 1], [2, 5], [7, 7]], np.int16)}
        state |= {"repeats": np.array([10, 20, slots - 30])}
    return state


@pytest.mark.parametrize("number", [0, 1])
def test_one_row_more_is_in_one_cell_of_each_table(number):
    levels, rows = chain(WIDE, 40)
    state = in_round(number, levels)
    pairs = coarse_pairs.coarse_pairs(tuple(levels.tolist()))
    sizes, times = np.append(levels, pairs.sizes), np.ones(WIDE + len(pairs.sizes), np.int64)
    if number == 1:
        asked = fedpgm.tables_of_queries(levels, fedpgm.chosen_in(state))
        sizes, times = asked.sizes, state["repeats"]

    def sent(rows):
        update = fedpgm.client_step(state, Client(rows, 0, 1), Config(), None, stream(0))
        return update.summed[fedpgm.SUMS[number]]

    for row in (
        np.zeros(WIDE, int),
        levels - 1,
        *np.random.default_rng(1).integers(0, levels, (5, WIDE)),
    ):
        moved = np.split(sent(np.vstack([rows, row])) - sent(rows), np.cumsum(sizes)[:-1])
        assert [table.sum() for table in moved] == times.tolist()
        assert all(np.count_nonzero(table) == 1 for table in moved)


@pytest.mark.slow
def test_drawn_noise_is_the_charged_noise():
    """Of every count of the coarse sum, and the charges are one a table."""
    levels, _ = chain(WIDE, 1)
    nothing, shares, drawn = np.zeros((0, WIDE), np.int32), 3, []
    state = in_round(0, levels)
    for repeat in range(60):
        updates = [
            fedpgm.client_step(
                state,
                Client(nothing, index, 4, shares=shares),
                Config(),
                Noise(10.0, stream(repeat, index)),
                stream(0),
            )
            for index in range(shares)
        ]
        drawn.append(sum(update.summed["first"] for update in updates))
    spent = {charge.what: charge for charge in updates[0].summed_spent}
    alone, pairs, drawn = spent[fedpgm.ONE_WAY], spent[fedpgm.TWO_WAY], np.array(drawn)
    assert (alone.times, pairs.times) == (WIDE, WIDE * (WIDE - 1) // 2)
    assert drawn[:, : levels.sum()].std() == pytest.approx(alone.noise, rel=0.02)
    assert drawn[:, levels.sum() :].std() == pytest.approx(pairs.noise, rel=0.01)
    sizes = coarse_pairs.coarse_pairs(tuple(levels.tolist())).sizes
    by_table = np.split(drawn[:, levels.sum() :], np.cumsum(sizes)[:-1], axis=1)
    deviations = np.array([table.std() for table in by_table if table.shape[1] > 8])
    assert np.abs(deviations / pairs.noise - 1).max() < 0.2  # each table has noise of its own
    planned = fedpgm.plan(10.0, domain_of(levels), 100, Config())
    assert {charge.what: charge for charge in planned if charge.what in spent} == spent


def test_the_whole_run_costs_what_was_asked_for():
    made = run(*chain(WIDE, 2000), clients=3, config=Config(iterations=5))
    assert made.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
    counts = {entry["what"]: entry["count"] for entry in made.statement["entries"]}
    assert list(counts.values()) == [WIDE, WIDE * (WIDE - 1) // 2, 16 * WIDE]
    assert made.statement["unprotected"] == []


def test_a_server_that_asks_for_larger_tables_than_are_ever_chosen_is_refused():
    levels = np.full(WIDE, 1000)
    domain, state = domain_of(levels), in_round(1, levels)
    state["chosen"] = np.array([[0, 0], [1, 1], [2, 2]], np.int16)
    sent = fedpgm.broadcast(state, Config())
    fedpgm.check_broadcast(sent, domain, Config(), 1)
    with pytest.raises(BadBroadcast):
        pairs = {"chosen": np.array([[0, 1], [1, 1], [2, 2]], np.int16)}
        fedpgm.check_broadcast(sent | pairs, domain, Config(), 1)
    first = fedpgm.broadcast(in_round(0, levels), Config())
    fedpgm.check_broadcast(first, domain, Config(), 0)
    with pytest.raises(BadBroadcast):
        fedpgm.check_broadcast(first | {"levels": levels - 1}, domain, Config(), 0)


# --- which pairs are chosen ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("neighbours", "clients"), [(True, 1), (True, 5), (False, 1)])
def test_a_chain_of_a_hundred_columns_is_found(neighbours, clients):
    """Counts of all pairs at full resolution find less than half of it where neighbouring levels go
    together, and two thirds where they do not."""
    made = run(*chain(100, neighbours=neighbours), clients, config=Config(iterations=1))
    links = {(j, j + 1) for j in range(99)}
    assert len(links & set(fedpgm.chosen_in(made.state))) > 80


@pytest.mark.bench
@pytest.mark.parametrize(("neighbours", "part"), [(True, 1 / 2), (False, 2 / 3)])
def test_a_hundred_columns_have_part_of_the_error_of_full_counts(neighbours, part, monkeypatch):
    """Total variation of columns side by side, both in one run."""
    levels, rows = chain(100, neighbours=neighbours)
    errors = []
    for narrow in (NARROW, 100):
        monkeypatch.setattr(coarse_pairs, "NARROW", narrow)
        made = run(levels, rows, clients=5).synthetic
        drawn = np.column_stack([made[name].cat.codes for name in made])
        errors.append(np.mean([total_variation(rows, drawn, j, j + 1) for j in range(99)]))
    print(f"\n100 columns: total variation {errors[0]:.3f} instead of {errors[1]:.3f}")
    assert errors[0] < errors[1] * part


@pytest.mark.bench
@pytest.mark.parametrize("clients", [1, 5])
def test_three_hundred_columns_take_a_minute_four_gibibytes_and_ten_megabytes(clients):
    """A process of its own, so that its memory is that of the run."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds, gibibytes, sent = pool.submit(costs, 300, clients).result()
    print(f"\n300 columns, {clients} clients: {seconds:.0f} s, {gibibytes:.2f} GiB, {sent:.1f} MB")
    assert seconds < 60 and gibibytes < 4 and sent < 10


def costs(columns, clients):
    """Seconds of the processor, peak memory, and the most megabytes that a client sends."""
    levels, rows = chain(columns)
    begin = time.process_time()
    made = run(levels, rows, clients)
    seconds = time.process_time() - begin
    sent = Counter()
    for line in made.traffic:
        sent[line["client"]] += line["bytes"] * (line["direction"] == "up")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return seconds, peak, max(sent.values()) / 1e6


@pytest.mark.slow
def test_without_noise_pairs_are_those_of_the_rows():
    """The second sum has full resolution."""
    levels, rows = chain(WIDE, 3000, most=12)
    made = run(levels, rows, clients=2, epsilon=None, config=Config(iterations=20))
    pairs = [query for query in fedpgm.chosen_in(made.state) if len(query) == 2]
    assert {(j, j + 1) for j in range(WIDE - 1)} <= set(pairs)
    for a, b in pairs:
        counts = np.zeros((levels[a], levels[b]))
        np.add.at(counts, (rows[:, a], rows[:, b]), 1)
        np.testing.assert_allclose(made.state[f"shares {a},{b}"], counts / 3000, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 200])
def test_few_pairs_stand_out_of_noise_alone(columns):
    """As many false pairs a column as are declared, whatever the number of columns."""
    levels, _ = chain(columns, 1)
    pairs = coarse_pairs.coarse_pairs(tuple(levels.tolist()))
    alone = [np.full(level, 1 / level) for level in levels]
    exact = np.concatenate(
        [
            np.outer(*(np.bincount(pairs.maps[c], alone[c], pairs.coarse[c]) for c in pair)).ravel()
            for pair in zip(*pairs.pairs, strict=True)
        ]
    )
    found = []
    for seed in range(20):
        noisy = 5000 * exact + stream(seed).normal(0, 300, len(exact))
        found.append(len(pairs.standing_out(noisy, alone, 5000, 300.0, 2.0)))
    expected = 2 * columns * 0.0228  # where halves are tested too, the two tests overlap
    assert expected / 2 < np.mean(found) < expected * 1.2


def test_pairs_that_depend_more_come_first():
    """Two halves and no parts, parts and no halves, and the rest of nothing."""
    levels, rng = (32,) * WIDE, np.random.default_rng(0)
    rows = rng.integers(0, 32, (20_000, WIDE))
    for a, b, share in ((0, 1, 0.9), (2, 3, 0.5)):
        follows = rng.random(20_000) < share
        rows[follows, b] = rows[follows, a]
    half = merged(32, 4, 2) % 2
    rows[:, 5] = np.where(half[rows[:, 4]] == half[rows[:, 5]], rows[:, 5], rows[:, 4])
    pairs = coarse_pairs.coarse_pairs(levels)
    alone = [np.full(32, 1 / 32)] * WIDE
    noisy = pairs.counts(rows) + stream(0).normal(0, 100, pairs.sizes.sum())
    found = pairs.standing_out(noisy, alone, 20_000, 100.0, 3.5)
    assert set(found[:3]) == {(0, 1), (2, 3), (4, 5)}
    assert found.index((0, 1)) < found.index((2, 3))


def test_pairs_of_a_spanning_tree_come_first_and_the_model_stays_small():
    levels = (10, 10, 10, 10, 2)
    ranked = [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (3, 4)]
    assert coarse_pairs.fitting(ranked, levels, 4, 1.0) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert coarse_pairs.fitting(ranked, levels, 5, 1.0)[-1] == (0, 2)
    assert coarse_pairs.fitting(ranked, levels, 9, 8 * 322 / MEGABYTE) == [
        *ranked[:2],
        *ranked[3:4],
        (3, 4),
    ]
    for cells in (30, 111, 122, 140, 232, 320, 1130, 1500, 10_000):
        chosen = coarse_pairs.fitting(ranked, levels, 9, 8 * cells / MEGABYTE)
        alone = [(column,) for column in range(5)]
        assert model_bytes(levels, [*alone, *chosen]) <= max(8 * cells, 8 * sum(levels))
    assert coarse_pairs.fitting([(0, 1)], (10, MOST_AGAIN), 9, 1e6) == []


@pytest.mark.filterwarnings("ignore:FedPGM. no pair")
def test_runs_of_levels_are_merged_too():
    """Private bins: three sums, the last two of runs of levels."""
    rng = np.random.default_rng(0)
    columns = [Column(f"n{j}", "numeric", low=0.0, high=1.0) for j in range(WIDE)]
    frame = pd.DataFrame({column.name: rng.random(3000) ** 2 for column in columns})
    frame["n1"] = frame["n0"]
    table = Table("wide", frame, Schema(tuple(columns)), "own")
    config, privacy = Config(bins="private", iterations=100), Privacy(20.0, 1e-5)
    made = settings.federated(
        METHOD, table, np.array_split(np.arange(3000), 2), config=config, privacy=privacy, seed=1
    )
    assert made.statement["epsilon"] == pytest.approx(20.0, rel=1e-6)
    assert (0, 1) in fedpgm.chosen_in(made.state)
    assert np.corrcoef(made.synthetic["n0"], made.synthetic["n1"])[0, 1] > 0.5


def test_a_wide_table_may_be_gathered_and_a_tree_asked_for():
    levels, rows = chain(WIDE, 4000, most=6)
    config = Config(tree=True, iterations=5)
    made = run(levels, rows, epsilon=20.0, config=config)
    pairs = [query for query in fedpgm.chosen_in(made.state) if len(query) == 2]
    assert 0 < len(pairs) < WIDE and fedpgm.spanning_tree(pairs, WIDE) == pairs
    gathered = replace(config, participation=0.5, rounds_per_sum=2)
    many = run(levels, rows, clients=10, epsilon=20.0, config=gathered)
    assert len(many.synthetic) == 4000 and len({line["round"] for line in many.traffic}) == 4
