"""Bins that follow noisy histograms, alone and in the methods that have them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, Client, Domain, Noise, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import fedpgm, private_bins
from fedsynth_lib.tables.encode import NO_VALUE
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

PRIVATE = fedpgm.Config(bins="private")
SCHEMA = Schema(
    (
        Column("money", "numeric", low=0, high=999, integer=True),
        Column("rate", "numeric", low=0.0, high=1.0),
        Column("class", "categorical", categories=("a", "b")),
    ),
    "class",
)


def paid(rows=4000):
    """Half of the rows have no money; class b has more."""
    rng = np.random.default_rng(0)
    rich = rng.random(rows) < 0.5
    money = np.where(rich, np.minimum(rng.exponential(60, rows) + 1, 999), 0).astype(int)
    frame = pd.DataFrame({"money": money, "rate": rng.beta(2, 8, rows)})
    frame["class"] = pd.Categorical(np.where(rich, "b", "a"), ("a", "b"))
    return Table("paid", frame, SCHEMA, "own")


def test_runs_cover_all_levels_and_a_frequent_value_is_alone():
    counts = np.random.default_rng(0).poisson(3.0, 1000).astype(float)
    counts[300] = 9_000
    firsts = private_bins.runs(counts, sigma=1.0)
    assert firsts[0] == 0 and (np.diff(firsts) > 0).all() and firsts[-1] < 1000
    assert len(firsts) <= 2 * private_bins.BASE
    assert {300, 301} <= set(firsts.tolist())
    masses = np.add.reduceat(counts, firsts)
    others = np.delete(masses, list(firsts).index(300))
    assert others.max() <= 2 * counts.sum() / private_bins.BASE


def test_noise_alone_halves_nothing():
    noise = stream(0).normal(0, 50, 1024)
    edges = private_bins.base_edges(1024)
    assert set(private_bins.runs(noise, sigma=50.0)) <= set(edges.tolist())


@pytest.mark.parametrize("counts", [np.zeros(100), -np.ones(100), np.full(100, 1e9)])
def test_runs_of_any_counts_are_runs(counts):
    firsts = private_bins.runs(counts, sigma=1.0)
    assert firsts[0] == 0 and 1 <= len(firsts) <= 2 * private_bins.BASE


def test_a_gap_is_nobodys_neighbour():
    counts = np.append(np.full(1024, 10.0), 20.0)  # as rare as the levels beside it
    firsts = private_bins.runs(counts, sigma=1.0)
    assert firsts[-1] < 1024
    np.testing.assert_array_equal(private_bins.runs(counts, sigma=1.0, gap=True), [*firsts, 1024])


def test_what_is_spread_stays_in_its_run_and_follows_the_counts():
    noisy = np.concatenate([np.full(64, 100.0), np.full(192, 0.0)])
    firsts = np.array([0, 16, 128])
    codes = np.repeat([0, 1, 2], 3000)
    drawn = private_bins.spread(codes, firsts, noisy, stream(0))
    assert (private_bins.run_of(drawn, firsts) == codes).all()
    assert drawn[codes == 1].max() < 64  # nobody was counted from 64 on
    assert len(set(drawn[codes == 2])) > 100  # nobody at all: anywhere in it


def test_what_stands_out_of_the_noise_is_kept_and_what_does_not_is_spread():
    """A run keeps its sum; without noise nothing changes but within a part."""
    firsts, rng = np.array([0, 128, 384]), stream(0)
    counts = np.repeat([100.0, 10.0, 0.0, 0.0], 128)
    counts[384:400] = 500  # one part of the last run
    noisy = counts + rng.normal(0, 20, 512)
    made = private_bins.smoothed(noisy, firsts, 20.0)
    np.testing.assert_allclose(np.add.reduceat(made, firsts), np.add.reduceat(noisy, firsts))
    assert len(set(made[:128].round(6))) <= 8  # parts of the whole range that are in the first run
    assert made[384:400].mean() == pytest.approx(500, rel=0.05)
    errors = [
        np.abs(np.add.reduceat(each - counts, private_bins.base_edges(512)[:-1])).sum()
        for each in (made, noisy)
    ]
    assert errors[0] < errors[1] / 1.5
    parts = np.diff(private_bins.part_edges(firsts, 512))
    exact = private_bins.smoothed(counts, firsts, 0.0)
    np.testing.assert_allclose(
        np.add.reduceat(exact, np.cumsum(parts) - parts),
        np.add.reduceat(counts, np.cumsum(parts) - parts),
    )


def test_categories_keep_their_levels_and_numbers_with_gaps_do_not():
    """Categories have no neighbours, however many there are."""
    codes = tuple(f"c{k}" for k in range(100))
    years = (*(f"y{k}" for k in range(99)), NO_VALUE)
    schema = Schema(
        (
            Column("code", "categorical", categories=codes),
            Column("rate", "numeric", low=0.0, high=1.0),
            Column("year", "categorical", categories=years),  # a number, as counting methods see it
        )
    )
    domain = fedpgm.encoder(schema, PRIVATE).domain
    assert domain.levels == (100, 1024, 100)
    assert private_bins.large(domain) == [1, 2]
    assert private_bins.most_levels(domain).tolist() == [100, 65, 65]


def test_the_budget_is_spent_on_three_rounds_and_not_exceeded():
    table = paid()
    parts = np.array_split(np.arange(len(table)), 3)
    run = settings.federated(
        METHODS["fedpgm_bins"], table, parts, privacy=Privacy(1.0, 1e-5), seed=0
    )
    assert run.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
    counts = {entry["what"]: entry["count"] for entry in run.statement["entries"]}
    # two long columns, three columns, three pairs, 16 measurements a column
    assert list(counts.values()) == [2, 3, 3, 48]
    assert next(iter(counts)) == fedpgm.FINE
    made = run.synthetic["money"]
    assert (made == 0).mean() == pytest.approx(0.5, abs=0.05)  # the frequent value is kept
    assert run.synthetic["rate"].between(0, 1).all()
    assert (made[run.synthetic["class"] == "a"] == 0).mean() > 0.9


def test_the_promised_noise_is_the_noise_of_each_round():
    """All measurements together cost as one count with the multiplier's noise."""
    domain = Domain(("money", "rate", "class"), (1000, 1024, 2))
    charges = fedpgm.plan(7.0, domain, 100, PRIVATE)
    assert sum(c.times / c.noise**2 for c in charges) == pytest.approx(1 / 49)
    state = fedpgm.start(domain, PRIVATE, stream(0))
    nothing = np.zeros((0, 3), np.int32)
    drawn = [
        fedpgm.client_step(
            state, Client(nothing, 0, 1), PRIVATE, Noise(7.0, stream(repeat)), stream(0)
        ).summed["fine"]
        for repeat in range(20)
    ]
    assert np.std(drawn) == pytest.approx(charges[0].noise, rel=0.03)
    assert charges[0].what == fedpgm.FINE and charges[0].times == 2


OTHERS = ["aim", "distaim", "naiveflaim", "augflaim_private", "flaim_random", "fednaivebayes"]
OTHERS += ["fedbn"]


def private(key, **changes):
    """A method, and its settings with private bins and all clients in every round."""
    method = METHODS[key]
    small = {"private_structure": True, "degree": 1, "participation": 1.0, "rounds": 3}
    config = method.Config()
    known = {name: value for name, value in small.items() if name in vars(config)}
    return method, replace(config, bins="private", **known, **changes)


@pytest.mark.parametrize("key", OTHERS)
def test_other_methods_form_bins_within_their_budget(key):
    """The frequent value stays a value of its own, which equal bins spread over 31 others."""
    table = paid()
    parts = np.array_split(np.arange(len(table)), 3)
    method, config = private(key, fine_share=0.2)
    privacy = Privacy(2.0, 0.0 if key == "fedbn" else 1e-5)
    run = settings.federated(method, table, parts, config=config, privacy=privacy, seed=0)
    assert run.statement["epsilon"] == pytest.approx(2.0, abs=1e-6)
    counts = {entry["what"]: entry["count"] for entry in run.statement["entries"]}
    assert counts[fedpgm.FINE] == 2  # long columns
    made = run.synthetic["money"]
    assert (made == 0).mean() == pytest.approx(0.5, abs=0.05)
    assert run.synthetic["rate"].between(0, 1).all()
    sent = method.broadcast(run.state | {"round": np.array(0)}, config=config)
    assert {"firsts 0", "firsts 1"} <= set(sent)
    assert not [name for name in sent if name.startswith(("fine", "shares"))]


@pytest.mark.parametrize("key", OTHERS)
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_fine_counts_have_their_share_of_the_budget(key, share):
    """In zCDP, or in epsilon where that is pure."""
    domain = Domain(("money", "rate", "class"), (1000, 1024, 2))
    method, config = private(key, fine_share=share)
    charges = method.plan(3.0, domain, 100, config)
    power = 1 if key == "fedbn" else 2
    costs = {c.what: c.times / c.noise**power for c in charges}
    assert costs[fedpgm.FINE] / sum(costs.values()) == pytest.approx(share)


@pytest.mark.parametrize("key", ["fedpgm", *OTHERS])
def test_one_row_more_moves_one_fine_count_of_each_long_column_by_one(key):
    domain = Domain(("money", "rate", "class"), (70, 2, 80))
    method, config = private(key)
    state = method.start(domain, config=config, rng=stream(0))
    before = np.zeros((0, 3), np.int32)
    for money in (0, 33, 69):
        row = np.array([[money, 1, 79]], np.int32)
        counts = [
            method.client_step(
                state, Client(rows, 0, 1), config=config, noise=None, rng=stream(0)
            ).summed["fine"]
            for rows in (before, row)
        ]
        moved = counts[1] - counts[0]
        assert list(np.flatnonzero(moved)) == [money, 70 + 79] and set(moved) == {0, 1}


def test_clients_get_the_runs_and_no_counts():
    table = paid(400)
    parts = [np.arange(200), np.arange(200, 400)]
    options = {"privacy": Privacy(2.0, 1e-5), "seed": 0}
    run = settings.federated(METHODS["fedpgm_bins"], table, parts, **options)
    sent = fedpgm.broadcast(run.state, PRIVATE)
    assert {"firsts 0", "firsts 1"} <= set(sent)
    assert not [name for name in sent if name.startswith(("fine", "shares", "potential"))]


@pytest.mark.parametrize("key", ["fedpgm", *OTHERS])
def test_short_columns_keep_their_levels_and_no_round_goes_before(key):
    domain = Domain(("a", "b"), (64, 3))
    method, config = private(key)
    equal = replace(config, bins=8)
    state = method.start(domain, config=config, rng=stream(0))
    assert int(state["round"]) == 0 and private_bins.long_of(state) == []
    assert method.plan(1.0, domain, 10, config) == method.plan(1.0, domain, 10, equal)
    if key != "fedpgm":  # which ends before its schedule does
        assert method.schedule(domain, config) == method.schedule(domain, equal)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"bins": "privat"}, "bins is 'privat'"), ({"fine_share": 1.0}, "fine_share")],
)
@pytest.mark.parametrize("key", ["fedpgm", "aim", "naiveflaim", "fedbn"])
def test_what_means_nothing_is_refused(key, wrong, said):
    with pytest.raises(BadInput, match=said):
        METHODS[key].Config(**wrong)
