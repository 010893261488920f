"""FedPGM: what two secure sums release, how pairs are chosen, what comes out."""

from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.fft import irfft, rfft
from scipy.special import ive

from fedsynth_lib.audit import fits
from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import epsilon_of, skellam_share
from fedsynth_lib.core.contract import (
    BadInput,
    Client,
    Domain,
    Method,
    Noise,
    Privacy,
    Update,
    stream,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.rounds import run_rounds
from fedsynth_lib.methods.marginals import fedpgm
from fedsynth_lib.methods.marginals.fedpgm import Config, Scales
from fedsynth_lib.methods.marginals.junction_tree import BYTES
from fedsynth_lib.methods.marginals.marginals import MEGABYTE
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

METHOD = Method.of(fedpgm)
LEVELS = (3, 4, 2, 5)
DOMAIN = Domain(tuple("abcd"), LEVELS)
NAMES = "abcd"


def coded(rows, seed=0):
    """b follows a, d follows c; the two pairs know nothing of each other."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 4, rows))
    d = np.where(rng.random(rows) < 0.8, c * 2, rng.integers(0, 5, rows))
    return np.column_stack([a, b, c, d]).astype(np.int32)


def table_of(rows):
    schema = Schema(
        tuple(
            Column(name, "categorical", categories=tuple(f"{name}{k}" for k in range(level)))
            for name, level in zip(NAMES, LEVELS, strict=True)
        )
    )
    columns = {
        name: pd.Categorical.from_codes(rows[:, j], categories=list(schema[name].categories))
        for j, name in enumerate(NAMES)
    }
    return Table("toy", pd.DataFrame(columns), schema, "own")


def run(rows=4000, clients=4, **options):
    table = table_of(coded(rows))
    parts = options.pop("parts", np.array_split(np.arange(rows), clients))
    given = {"config": Config(), "privacy": Privacy(1.0, 1e-5), "seed": 1, **options}
    return table, settings.federated(METHOD, table, parts, **given)


def test_both_rounds_cost_what_was_promised_and_no_more():
    _, made = run()
    assert made.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
    counts = {entry["what"]: entry["count"] for entry in made.statement["entries"]}
    # 4 columns, 6 pairs, and 16 measurements a column however many pairs were chosen
    assert [counts[w] for w in (fedpgm.ONE_WAY, fedpgm.TWO_WAY, fedpgm.AGAIN)] == [4, 6, 64]
    assert made.statement["unprotected"] == []


@pytest.mark.parametrize("round_number", [0, 1])
def test_one_row_more_moves_every_count_by_what_its_charge_says(round_number):
    """Brute force over all rows that may be added: one cell of each table, by 1 a measurement."""
    rows = coded(50)
    state = fedpgm.start(DOMAIN, Config(), stream(0))
    state |= {"round": np.array(round_number)}
    state |= {"chosen": np.array([[0, 1], [2, 3], [0, 3]]), "repeats": np.array([3, 3, 2])}
    before = fedpgm.client_step(state, Client(rows, 0, 1), Config(), None, stream(0)).summed
    for added in np.ndindex(*LEVELS):
        more = np.vstack([rows, np.array(added, np.int32)])
        after = fedpgm.client_step(state, Client(more, 0, 1), Config(), None, stream(0)).summed
        moved = after[fedpgm.SUMS[round_number]] - before[fedpgm.SUMS[round_number]]
        if round_number == 0:
            asked, repeats = fedpgm.tables_in(state["levels"]), np.ones(10)
        else:
            asked = fedpgm.tables_of_queries(state["levels"], fedpgm.chosen_in(state))
            repeats = state["repeats"]
        tables = np.split(moved, asked.starts[1:])
        assert [table.sum() for table in tables] == list(repeats)
        assert all((np.sort(table)[:-1] == 0).all() for table in tables)


def epsilon_of_drawn(releases, delta, width=2e-4, points=2**19):
    """Exact epsilon, but for losses rounded down to multiples of `width`, of releases as (by how
    much a record moves one number, variance of its Skellam noise)."""
    spectrum = np.ones(points // 2 + 1, complex)
    for moves, variance in releases:
        reach = 40 + moves + int(10 * np.sqrt(variance))
        there, absent = (
            ive(np.abs(np.arange(-reach, reach + 1) - by), variance) for by in (moves, 0)
        )
        held = (there > 0) & (absent > 0)
        cells = np.floor(np.log(there[held] / absent[held]) / width).astype(np.int64) % points
        spectrum *= rfft(np.bincount(cells, there[held], points))
    chances = np.maximum(np.roll(irfft(spectrum, points), points // 2), 0)
    chances[chances < 1e-15] = 0
    return fits.least_epsilon(width * (np.arange(points) - points // 2), chances, delta)


SPLITS = {
    "as the method deals them": None,
    "all to the largest table": ([(1, 3)], [64]),
    "all to the smallest table": ([(2,)], [64]),
    "evenly": ([(0, 1), (0, 2), (1, 2), (2, 3)], [16] * 4),
    "one each and the rest to one": ([(0, 1), (1, 3), (0,), (2,)], [1, 1, 1, 61]),
}


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("split", SPLITS)
def test_what_is_drawn_costs_no_more_than_what_is_charged_however_it_is_shared_out(
    split, clients, monkeypatch
):
    """Exact accounting of the noise that honest clients add, one of several being curious; and the
    sums that come out of the masks have the counts and just this noise."""
    drawn, sums, deal = [], [], SPLITS[split]

    def noted(variance, num_shares, shape, *, rng):
        made = skellam_share(variance, num_shares, shape, rng=rng)
        drawn.append((variance / num_shares, made))
        return made

    def served(state, updates, config, noise, rng):
        assert len(updates) == clients
        sums.append((state, secure_sum.total(updates)))
        return fedpgm.server_step(state, updates, config, noise, rng)

    monkeypatch.setattr(fedpgm, "skellam_share", noted)
    if deal:
        monkeypatch.setattr(fedpgm, "_asked_again", lambda *_: deal)
        monkeypatch.setattr(fedpgm, "_fitting", lambda *_: [q for q in deal[0] if len(q) == 2])
    table = table_of(coded(2000))
    parts = np.array_split(np.arange(2000), clients)
    method = replace(METHOD, server_step=served)
    privacy = Privacy(2.0, 1e-5)
    made = settings.federated(method, table, parts, config=Config(), privacy=privacy, seed=1)

    state, again = sums[1]
    repeats, levels = state["repeats"], state["levels"]
    asked = fedpgm.tables_of_queries(levels, fedpgm.chosen_in(state))
    # of each client: columns and pairs of the first sum, then the tables of the second
    per_first, per_second = 2 * clients, len(repeats) * clients
    assert len(drawn) == per_first + per_second
    noise = [
        np.concatenate([part for _, part in drawn[per_first + k * len(repeats) :][: len(repeats)]])
        for k in range(clients)
    ]
    counts = asked.counts(coded(2000), levels) * np.repeat(repeats, asked.sizes)
    np.testing.assert_array_equal(again["again"], counts + sum(noise))

    honest = max(1, clients - 1)
    one_way, two_way = (honest * variance for variance, _ in drawn[:2])
    second = [honest * variance for variance, _ in drawn[per_first:][: len(repeats)]]
    releases = [(1, one_way)] * 4 + [(1, two_way)] * 6
    releases += list(zip(repeats.tolist(), second, strict=True))
    spent = epsilon_of_drawn(releases, 1e-5)
    assert 0.95 * made.statement["epsilon"] < spent <= made.statement["epsilon"]
    less = [(moves, variance * (0.8 if moves > 1 else 1)) for moves, variance in releases]
    assert epsilon_of_drawn(less, 1e-5) > made.statement["epsilon"]


@pytest.mark.parametrize("clients", [1, 2, 7])
def test_the_honest_clients_noise_alone_has_the_variance_of_the_charge(clients):
    """One client is curious: the others' shares must do."""
    config, levels = Config(), np.array(LEVELS)
    shares = max(1, clients - 1)
    state = fedpgm.start(DOMAIN, config, stream(0))
    nothing = np.zeros((0, 4), np.int32)
    drawn = []
    for repeat in range(400):
        parts = [
            fedpgm.client_step(
                state,
                Client(nothing, index, clients, shares=shares),
                config,
                Noise(10.0, stream(repeat, index)),
                stream(0),
            ).summed["first"]
            for index in range(shares)
        ]
        drawn.append(np.sum(parts, axis=0))
    scales, alone = Scales.of(10.0, 4, config), int(levels.sum())
    drawn = np.array(drawn)
    assert drawn[:, :alone].std() == pytest.approx(scales.one_way, rel=0.03)
    assert drawn[:, alone:].std() == pytest.approx(scales.two_way, rel=0.03)


def test_the_server_knows_the_noise_that_all_clients_make(clients=3):
    """With one curious client of three, each of the others makes half of what is charged."""
    state = fedpgm.start(DOMAIN, Config(), stream(0))
    nothing = np.zeros((0, 4), np.int32)
    sums = []
    for repeat in range(300):
        updates = [
            fedpgm.client_step(
                state,
                Client(nothing, index, clients, shares=clients - 1),
                Config(),
                Noise(10.0, stream(repeat, index)),
                stream(0),
            )
            for index in range(clients)
        ]
        sums.append(sum(update.summed["first"] for update in updates))
    assert fedpgm.variance(updates) == pytest.approx(3 / 2)
    told = Scales.of(10.0 * np.sqrt(fedpgm.variance(updates)), 4, Config())
    alone = int(np.array(LEVELS).sum())
    assert np.array(sums)[:, :alone].std() == pytest.approx(told.one_way, rel=0.03)
    assert np.array(sums)[:, alone:].std() == pytest.approx(told.two_way, rel=0.03)


def test_a_tree_joins_columns_that_nothing_before_has_joined():
    ranked = [(0, 1), (1, 2), (0, 2), (3, 4), (0, 3), (2, 4), (1, 5)]
    assert fedpgm.spanning_tree(ranked, 6) == [(0, 1), (1, 2), (3, 4), (0, 3), (1, 5)]
    assert fedpgm.spanning_tree([], 3) == []


def test_whoever_may_be_in_both_rounds_is_charged_for_both():
    """A draw of clients for each round, and no discount for the chance not to be in it."""
    config = Config(participation=0.3)
    (first, chance), (second, _) = METHOD.schedule(DOMAIN, config)
    assert first != second and chance == 0.3
    table, few = run(clients=20, config=config)
    _, all_of_them = run(clients=20)
    took_part = {
        number: {line["client"] for line in few.traffic if line["round"] == number}
        for number in (0, 1)
    }
    assert took_part[0] != took_part[1] and max(map(len, took_part.values())) < 20
    assert few.statement["epsilon_protected"] == all_of_them.statement["epsilon_protected"]
    assert {entry["clients"] for entry in few.statement["entries"]} == {"all"}
    assert few.state["first_rows"] == 200 * len(took_part[0]) != few.state["rows"]
    assert len(few.synthetic) == len(table)


# --- a sum that is gathered over several rounds --------------------------------------------------

GATHERING = Config(participation=0.3, rounds_per_sum=4)


def gathering(rows, privacy=None, clients=8):
    """The rounds of a run whose clients have equal parts of these rows; without noise if None."""
    options = {"config": GATHERING, "privacy": privacy or Privacy(), "seed": 3}
    sizes = [len(rows) // clients] * clients
    job, _ = settings.job_of(METHOD, table_of(rows).schema, sizes, **options)
    return job, list(run_rounds(job, np.array_split(rows, clients)))


def test_a_gathered_sum_has_the_rows_of_each_client_once():
    rows = coded(800)
    job, rounds = gathering(rows)
    drawn = [job.participants(*entry) for entry in job.schedule()]
    assert len(rounds) == 8 and sum(map(len, drawn[:4])) > len(set(chain(*drawn[:4])))
    for sum_number, ends in ((0, 3), (1, 7)):
        whom = sorted(set(chain(*drawn[ends - 3 : ends + 1])))
        assert 1 < len(whom) < 8  # so that neither all nor one are in it
        name = fedpgm.SUMS[sum_number]
        total = sum(
            update.summed[name] for r in rounds[ends - 3 : ends + 1] for update in r.updates
        )
        met = np.concatenate([np.array_split(rows, 8)[k] for k in whom])
        state = rounds[ends - 1].state
        asked = fedpgm.tables_in(state["levels"])
        if sum_number:
            asked = fedpgm.tables_of_queries(state["levels"], fedpgm.chosen_in(state))
        times = np.repeat(state["repeats"], asked.sizes) if sum_number else 1
        np.testing.assert_array_equal(total, asked.counts(met, state["levels"]) * times)
        assert rounds[ends].state["rows"] == len(met)
    assert not set(fedpgm.GATHERED) & set(rounds[-1].state) and rounds[-1].state["finished"]


def test_a_record_more_is_in_one_round_of_a_gathered_sum():
    """Brute force over clients: whatever is drawn, one round of the sum moves, by one cell of each
    table."""
    rows = coded(800)
    parts = np.array_split(rows, 8)
    job, rounds = gathering(rows)
    for client in range(8):
        more = [
            np.vstack([part, [[2, 3, 1, 4]]]) if k == client else part
            for k, part in enumerate(parts)
        ]
        moved = []
        for one, other in zip(rounds[:4], run_rounds(job, more), strict=False):
            before, after = (sum(u.summed["first"] for u in r.updates) for r in (one, other))
            moved.append(int(np.abs(after - before).sum()))
        met = client in {each for entry in job.schedule()[:4] for each in job.participants(*entry)}
        assert sorted(moved) == [0, 0, 0, 10 * met]  # four columns and six pairs


def test_a_gathered_sum_costs_one_of_its_rounds_and_has_the_noise_of_all():
    config = Config(participation=0.3)
    once = run(clients=20, config=config)[1].statement
    gathered = run(clients=20, config=replace(config, rounds_per_sum=4))[1]
    assert len({line["round"] for line in gathered.traffic}) == 8
    assert gathered.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
    for one, other in zip(once["entries"], gathered.statement["entries"], strict=True):
        assert other["what"] == f"{one['what']}, each client in one of 4 rounds"
        for name in ("mechanism", "sensitivity", "noise_multiplier", "count", "clients"):
            assert one[name] == other[name]
    _, rounds = gathering(coded(800), Privacy(1.0, 1e-5))
    made = [len(each.updates) / max(1, len(each.updates) - 1) for each in rounds]  # one is curious
    assert rounds[2].state["gathered_variance"] == pytest.approx(sum(made[:3]))
    assert [len(each.charges) > 0 for each in rounds] == [True, *[False] * 3] * 2


def test_private_bins_are_gathered_too():
    rows = np.column_stack([coded(600), np.arange(600) % 200])
    table = table_of(coded(600))
    schema = Schema((*table.schema.columns, Column("e", "numeric", 0, 199, integer=True)))
    wide = Table("toy", table.frame.assign(e=rows[:, 4].astype(float)), schema, "own")
    config = replace(GATHERING, bins="private", participation=0.5)
    options = {"config": config, "privacy": Privacy(5.0, 1e-5), "seed": 1}
    made = settings.federated(METHOD, wide, np.array_split(np.arange(600), 10), **options)
    assert len({line["round"] for line in made.traffic}) == 12 and len(made.state["long"]) == 1
    assert made.statement["epsilon"] == pytest.approx(5.0, abs=1e-6) and len(made.synthetic) == 600


def test_rounds_count_by_the_rows_that_they_had():
    """A mean weighted by precision: half the rows and the same noise have a quarter of it."""
    scales = fedpgm.Scales.of(3.0, 4, Config())
    state = {
        "levels": np.array(LEVELS), "chosen": np.array([[0, 1]]), "repeats": np.array([8]),
        "rows": np.array(400), "first_rows": np.array(200), "shares 0,1": np.full((3, 4), 0.5),
    }  # fmt: skip
    again = fedpgm._measured_again(state, np.full(12, 8 * 400 * 0.1), 400, scales)
    first, second = 0.25 / scales.two_way**2, 8 / scales.again**2
    expected = (first * 0.5 + second * 0.1) / (first + second)
    np.testing.assert_allclose(again["shares 0,1"], expected)


def test_what_hangs_together_is_chosen_and_measured_again():
    table, made = run(rows=8000)
    chosen = set(map(tuple, made.state["chosen"].tolist()))
    assert {(0, 1), (2, 3)} <= chosen
    for one, other in (("a", "b"), ("c", "d")):
        real, drawn = (
            pd.crosstab(frame[one], frame[other], normalize=True).to_numpy()
            for frame in (table.frame, made.synthetic)
        )
        assert np.abs(real - drawn).sum() / 2 < 0.04


def test_without_noise_the_chosen_pairs_are_those_of_the_rows():
    table, made = run(rows=6000, privacy=Privacy())
    assert made.statement["epsilon"] is None
    real, drawn = (
        pd.crosstab(frame["a"], frame["b"], normalize=True).to_numpy()
        for frame in (table.frame, made.synthetic)
    )
    assert np.abs(real - drawn).sum() / 2 < 0.03


def test_more_noise_than_signal_leaves_independent_columns():
    _, made = run(rows=60, privacy=Privacy(0.05, 1e-5))
    assert len(made.state["chosen"]) <= 3 and made.statement["epsilon"] <= 0.05 * (1 + 1e-6)
    assert len(made.synthetic) == 60


@pytest.mark.filterwarnings("error")  # nothing is missing where there are no pairs
@pytest.mark.parametrize("clients", [1, 2])
def test_a_single_column_is_counted_alone(clients):
    rows = table_of(coded(500))
    one = replace(
        rows, frame=rows.frame[["b"]], schema=rows.schema.drop(["a", "c", "d"]), digest=""
    )
    given = {"config": Config(), "privacy": Privacy(1.0, 1e-5), "seed": 1}
    made = settings.federated(METHOD, one, np.array_split(np.arange(500), clients), **given)
    assert [entry["what"] for entry in made.statement["entries"]] == [fedpgm.ONE_WAY]
    real, drawn = (
        f["b"].value_counts(normalize=True, sort=False) for f in (rows.frame, made.synthetic)
    )
    assert np.abs(real - drawn).sum() / 2 < 0.05


def test_the_plan_is_that_of_one_count_with_the_multipliers_noise():
    plan = fedpgm.plan(20.0, DOMAIN, 100, Config())
    assert sum(charge.times / charge.noise**2 for charge in plan) == pytest.approx(1 / 400)
    assert epsilon_of(plan, 1e-5) < epsilon_of(fedpgm.plan(10.0, DOMAIN, 100, Config()), 1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Config(one_way_share=0.6, two_way_share=0.4), "leave something of 1"),
        (lambda: Config(one_way_share=0.0), "parts above 0"),
        (lambda: Config(again=0), "0, 4, 1: give more than 0"),
        (lambda: Config(participation=-0.5), "16, 4, -0.5: give more than 0"),
        (lambda: Config(rounds_per_sum=3), "give 1 where all clients are in every round"),
        (lambda: Config(rounds_per_sum=0, participation=0.5), "rounds_per_sum is 0"),
        (
            lambda: fedpgm.start(Domain(("a", "b"), (9000, 8000)), Config(), stream(0)),
            "72,017,000 cells together.*levels of 'a', or leave it out",
        ),
        (  # no pair, and a square beyond 64 bits
            lambda: fedpgm.start(Domain(("a",), (30_000_000,)), Config(), stream(0)),
            "30,000,000 cells together.*levels of 'a'",
        ),
        (
            lambda: fedpgm.start(Domain(("a", "b"), (5, 10**10)), Config(), stream(0)),
            "60,000,000,005 cells together.*levels of 'b'",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_any_row_is_seen(wrong, message):
    with pytest.raises(BadInput, match=message):
        wrong()


def test_clients_are_sent_what_to_count_and_no_counts():
    made = run()[1]
    sent = {"levels", "round", "long", "chosen", "repeats"}
    assert set(fedpgm.broadcast(made.state, Config())) == sent


def asked(round_number=0, **changed):
    state = fedpgm.start(DOMAIN, Config(), stream(0)) | {"round": np.array(round_number)}
    return state | changed


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 1000])
def test_sums_do_not_wrap_around(clients):
    """The largest parts that pass, from all clients, with all noise to one side."""
    largest = fedpgm.MOST_ROWS * 8 + 50 * 1e9 + 1_000
    fedpgm.check_sums([(1e18, 9)], 8, Client(coded(1), 0, clients))
    assert largest * clients < 2**62
    # exact as whole numbers, however the masks wrap on the way
    parts = [np.array([2**62 // clients, -(2**62) // clients], np.int64)] * clients
    masked = [
        Update(
            summed=secure_sum.mask({"again": p}, client=k, clients=range(clients), round=1, seed=3)
        )
        for k, p in enumerate(parts)
    ]
    assert (
        secure_sum.total(masked)["again"].tolist() == np.sum(parts, axis=0, dtype=object).tolist()
    )


@pytest.mark.parametrize(
    ("variance", "repeats", "clients"),
    [(1e20, 1, 2), (1e18, 2**21, 2), (1e37, 1, 1), (1e33, 1, 10**6)],
)
def test_sums_that_could_wrap_around_are_refused(variance, repeats, clients):
    with pytest.raises(BadInput, match="larger epsilon"):
        fedpgm.check_sums([(variance, 9)], repeats, Client(coded(1), 0, clients))


def test_noise_beyond_whole_numbers_is_refused_before_it_is_drawn():
    with pytest.raises(BadInput, match="larger epsilon"):
        fedpgm.client_step(
            asked(), Client(coded(9), 0, 2), Config(), Noise(1e12, stream(0)), stream(0)
        )


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("round_number", [0, 1])
def test_a_client_of_one_row_or_none_sends_as_many_numbers_as_others(rows, round_number):
    state = asked(round_number, chosen=np.array([[0, 1]]), repeats=np.array([8]))
    sent = [
        fedpgm.client_step(
            state, Client(coded(9)[:held], 0, 2, size=9), Config(), Noise(5.0, stream(1)), stream(0)
        ).summed[fedpgm.SUMS[round_number]]
        for held in (rows, 9)
    ]
    assert sent[0].shape == sent[1].shape and sent[0].dtype == np.int64


def test_two_clients_of_which_one_has_a_single_row():
    _, made = run(rows=400, parts=[np.arange(1), np.arange(1, 400)])
    assert len(made.synthetic) == 400 and made.statement["epsilon"] == pytest.approx(1, abs=1e-6)


def test_where_nothing_stands_out_all_columns_are_counted_again_for_the_same_price():
    with pytest.warns(UserWarning, match="no pair .* stands out .* drawn independently"):
        _, made = run(rows=50, config=Config(sure=1e3), privacy=Privacy(1e-3, 1e-5))
    assert fedpgm.chosen_in(made.state) == ((0,), (1,), (2,), (3,))
    assert made.state["repeats"].tolist() == [15, 18, 11, 20]  # of 64, by levels^(2/3)
    assert made.statement["epsilon"] == pytest.approx(1e-3, rel=1e-6)
    assert [entry["count"] for entry in made.statement["entries"]] == [4, 6, 64]


OF_FOUR = list(combinations(range(4), 2))


FIVE = np.array([3, 4, 2, 5, 32])


@pytest.mark.parametrize("again", [0.4, 1.2, 2.0, 16.0])
@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(0, 1), (2, 3), (0, 4)], OF_FOUR])
def test_the_second_round_has_the_same_number_of_measurements_whatever_is_chosen(pairs, again):
    scales = Scales.of(1.0, 5, Config(again=again))
    chosen, repeats = fedpgm._asked_again(pairs, FIVE, scales)
    assert sum(repeats) == scales.slots and min(repeats) >= 1
    joined = set(chain(*pairs))
    assert chosen == [*pairs, *((c,) for c in range(5) if c not in joined)][: scales.slots]


def test_measurements_are_shared_out_so_that_the_expected_error_is_least():
    """By brute force: no other table could make better use of any measurement."""
    pairs = [(0, 1), (2, 3), (0, 4), (1, 4), (1, 2)]
    cells = np.array([12, 10, 96, 128, 8])

    def error(repeats):
        return (cells / np.sqrt(repeats)).sum()

    chosen, repeats = fedpgm._asked_again(pairs, FIVE, Scales.of(1.0, 5, Config(again=16.0)))
    assert chosen == pairs
    repeats = np.array(repeats)
    for giver, taker in product(range(5), repeat=2):
        moved = repeats - np.eye(5)[giver] + np.eye(5)[taker]
        if moved.min() >= 1:
            assert error(moved) >= error(repeats) * (1 - 1e-3)
    assert error(repeats) < 0.95 * error(np.full(5, 16))


def test_a_column_that_is_in_no_pair_is_measured_by_both_rounds():
    """Its target is the mean of both, weighted by precision."""
    scales = Scales.of(3.0, 4, Config())
    state = {
        "levels": np.array(LEVELS), "chosen": np.array([[0, 1], [2, 2]]), "repeats": np.array([6, 2]),
        "rows": np.array(400), "first_rows": np.array(400), "shares 0,1": np.full((3, 4), 0.1),
        "shares 2": np.full(LEVELS[2], 0.5),
    }  # fmt: skip
    counts = np.concatenate([np.full(12, 6 * 400 * 0.1), np.full(LEVELS[2], 2 * 400 * 0.2)])
    again = fedpgm._measured_again(state, counts, 400, scales)
    first, second = 1 / scales.one_way**2, 2 / scales.again**2
    expected = (first * 0.5 + second * 0.2) / (first + second)
    np.testing.assert_allclose(again["shares 2"], expected)
    np.testing.assert_allclose(again["shares 0,1"], 0.1)


def test_pairs_that_do_not_fit_the_model_are_not_chosen():
    """Columns alone have 14 cells; with the first pair they would be 19, with the last one 17."""
    _, made = run(rows=8000, config=Config(max_megabytes=17.5 * BYTES / MEGABYTE))
    assert fedpgm.chosen_in(made.state) == ((2, 3), (0,), (1,))
    with pytest.warns(UserWarning, match="fits the model"):
        _, made = run(rows=8000, config=Config(max_megabytes=1e-9))
    assert fedpgm.chosen_in(made.state) == ((0,), (1,), (2,), (3,)) and len(made.synthetic) == 8000
