"""What the marginal methods share: candidates against counting by hand, workloads, noise,
measurements, refusals."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from marginal_toys import DOMAIN, LEVELS, dense, make_codes, make_table

from fedsynth_lib.core import accounting
from fedsynth_lib.core.contract import BadInput, Domain, Noise, Privacy
from fedsynth_lib.core.queries import random_workload
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import distaim, flaim, marginal_state, marginals
from fedsynth_lib.methods.marginals.junction_tree import model_bytes
from fedsynth_lib.methods.marginals.marginals import (
    Config,
    QueryCounts,
    candidates_in,
    workload_of,
)
from fedsynth_lib.methods.variants import aim, flaim_random

FAMILY = (
    "aim",
    "distaim",
    "naiveflaim",
    "augflaim_oracle",
    "augflaim_private",
    "flaim_random",
    "fednaivebayes",
)
TRIPLES = tuple(combinations(range(4), 3))


def started(config=None, domain=DOMAIN):
    return marginal_state.start(domain, config or Config())


# --- candidates ---


def test_candidates_are_every_subset_of_the_workload_and_every_column_once():
    asked = candidates_in(started(Config(workload=(("a", "b", "d"), ("b", "d")))))
    assert asked.queries == ((0,), (1,), (2,), (3,), (0, 1), (0, 3), (1, 3), (0, 1, 3))
    assert asked.sizes.tolist() == [2, 3, 2, 4, 6, 8, 12, 24]
    assert asked.starts.tolist() == [0, 2, 5, 7, 11, 17, 25, 37]
    # columns shared with {a, b, d} plus columns shared with {b, d}; c is in no query and counts
    # nothing
    assert asked.weights.tolist() == [1, 2, 0, 2, 3, 3, 4, 5]


def test_all_triples_weigh_the_same_by_width():
    asked = candidates_in(started())
    assert len(asked.queries) == 4 + 6 + 4 and asked.weights.tolist() == [3] * 4 + [6] * 6 + [9] * 4
    shared = [sum(len(set(query) & set(triple)) for triple in TRIPLES) for query in asked.queries]
    assert asked.weights.tolist() == shared


@pytest.mark.parametrize("num_rows", [1, 2, 57])
def test_cells_and_counts_equal_counting_row_by_row(num_rows):
    """Widths 1 to 3 are padded to a common width inside; one row and many rows."""
    rows, levels = make_codes(num_rows), np.array(LEVELS)
    asked = candidates_in(started(Config(workload=(("a", "b", "d"), ("c", "d")))))
    by_hand = [dense(rows, query) for query in asked.queries]
    assert asked.counts(rows, levels).tolist() == np.concatenate(by_hand).tolist()
    for number, query in enumerate(asked.queries):
        assert asked.table(number, rows, levels).tolist() == by_hand[number].tolist()
        inside = asked.cells(rows, levels)[number] - asked.starts[number]
        expected = [
            list(product(*(range(LEVELS[c]) for c in query))).index(tuple(row[list(query)]))
            for row in rows
        ]
        assert inside.tolist() == expected


def test_codes_of_a_small_type_do_not_overflow():
    levels = np.array([100, 100, 100])
    asked = candidates_in(started(Config(), Domain(("x", "y", "z"), (100, 100, 100))))
    rows = np.full((3, 3), 99, dtype=np.int8)
    assert (
        asked.counts(rows, levels)[-1] == 3
        and asked.cells(rows, levels)[-1].tolist() == [asked.sizes.sum() - 1] * 3
    )
    assert asked.table(len(asked.queries) - 1, rows, levels)[-1] == 3


def test_scores_are_the_papers_utility():
    asked, sigma, rows = candidates_in(started()), 3.0, 50.0
    errors = np.linspace(0, 2, len(asked.queries))
    expected = [
        w * (e - np.sqrt(2 / np.pi) * sigma * cells / rows - 0.25)
        for w, e, cells in zip(asked.weights, errors, asked.sizes, strict=True)
    ]
    assert asked.scores(errors, 0.25, sigma, rows) == pytest.approx(expected)
    drawn = (
        np.abs(np.random.default_rng(0).normal(0, sigma, (20_000, 24))).sum(axis=1).mean() / rows
    )
    assert marginals.expected_error(sigma, np.array(24), rows) == pytest.approx(drawn, rel=0.01)


# --- the workload ---


def test_a_workload_by_name_is_kept_as_ascending_positions():
    given = workload_of(DOMAIN, Config(workload=(("d", "a"), ("b", "c", "a"), ("c", "c", "d"))))
    assert given.tolist() == [[0, 3, -1], [0, 1, 2], [2, 3, -1]]


def test_without_names_the_workload_is_the_drawn_one():
    wide = Domain(tuple(f"v{k}" for k in range(14)), (4,) * 14)
    drawn = workload_of(wide, Config())
    assert drawn.shape == (64, 3) and tuple(map(tuple, drawn.tolist())) == random_workload(14)
    assert not np.array_equal(drawn, workload_of(wide, Config(workload_seed=124)))
    assert workload_of(wide, Config(num_queries=5)).shape == (5, 3)
    assert workload_of(Domain(("x", "y"), (2, 2)), Config()).tolist() == [[0, 1]]


# --- noise ---


@pytest.mark.parametrize(
    "measured, selected, share", [(14, 10, 0.9), (7, 30, 0.5), (112, 112, 0.2)]
)
def test_query_counts_split_the_budget_as_asked(measured, selected, share):
    measuring, choosing = QueryCounts(measured, selected).plan(5.0, share)
    spent = measured / (2 * 5.0**2)
    assert (measuring.mechanism, measuring.times, measuring.noise) == ("gaussian", measured, 5.0)
    assert (choosing.mechanism, choosing.times) == ("exponential", selected)
    chosen = selected * (2 / choosing.noise) ** 2 / 8  # eps^2 / 8 of a choice with parameter eps
    assert chosen / (spent + chosen) == pytest.approx(1 - share)
    assert marginals.rho([measuring, choosing]) == pytest.approx(spent + chosen)
    slope = (
        sum(accounting.rdp(charge, np.array([1.5]))[0] for charge in (measuring, choosing)) / 1.5
    )
    assert slope <= (spent + chosen) * (1 + 1e-12)


def test_without_choices_all_is_for_measuring():
    assert [charge.mechanism for charge in QueryCounts(4, 0).plan(5.0, 0.9)] == ["gaussian"]


def test_the_last_annealed_round_spends_what_is_left():
    total, each = QueryCounts(32, 32), QueryCounts(1, 1)
    noise, config = Noise(10.0, np.random.default_rng(0)), Config(annealed=True)
    budget = marginals.rho(total.plan(10.0, config.measure_share))
    state = {**started(config), "sigma": np.array(8.0), "choice_noise": np.array(30.0)}
    cost = 1 / (2 * 8.0**2) + 1 / (2 * 30.0**2)
    roomy = marginal_state.with_noise_of_round(
        {**state, "spent": np.array(budget - 2.01 * cost)},
        config,
        noise,
        total=total,
        each=each,
        again=0,
        left=9,
    )
    assert not roomy["last"] and (roomy["sigma"], roomy["choice_noise"]) == (8.0, 30.0)
    for left_over in (1.99 * cost, 0.3 * cost):
        spent = np.array(budget - left_over)
        last = marginal_state.with_noise_of_round(
            {**state, "spent": spent}, config, noise, total=total, each=each, again=0, left=9
        )
        rest = (1 / (2 * last["sigma"] ** 2), 1 / (2 * last["choice_noise"] ** 2))
        assert last["last"] and rest == pytest.approx((0.9 * left_over, 0.1 * left_over))


# --- measurements ---


def test_repeated_measurements_are_averaged_by_their_precision():
    config, state = Config(), started()
    for counts, sigma, rows in (([30, 10], 4.0, 40), ([5, 15], 1.0, 20)):
        state = marginal_state.with_measurement(state, (2,), np.array(counts), sigma, rows, config)
    first, second = (40 / 4) ** 2, (20 / 1) ** 2
    expected = (first * np.array([0.75, 0.25]) + second * np.array([0.25, 0.75])) / (first + second)
    assert state["shares 2"] == pytest.approx(expected) and state["weight 2"] == pytest.approx(
        first + second
    )


def test_noisy_totals_and_equal_weights_on_request():
    counts = np.array([12.0, -2.0, 15.0])
    state = {**started(), "typical": np.array(100.0)}
    noisy = marginal_state.with_measurement(
        state, (1,), counts, 2.0, 30, Config(public_sizes=False)
    )
    assert noisy["shares 1"] == pytest.approx(counts / 25) and noisy["weight 1"] == pytest.approx(
        (25 / 2) ** 2
    )
    equal = marginal_state.with_measurement(state, (1,), counts, 2.0, 30, Config(weighted=False))
    assert equal["shares 1"] == pytest.approx(counts / 30) and equal["weight 1"] == pytest.approx(
        50.0**2
    )
    drowned = marginal_state.with_measurement(
        state, (1,), -counts, 2.0, 30, Config(public_sizes=False)
    )
    assert drowned["shares 1"] == pytest.approx(-counts)  # a total below 1 counts as 1


def test_which_candidates_fit_is_a_matter_of_the_models_size():
    state, asked = started(), candidates_in(started())
    state |= {
        "shares 0": np.zeros(2),
        "shares 1": np.zeros(3),
        "shares 2": np.zeros(2),
        "shares 3": np.zeros(4),
    }
    state |= {"shares 0,3": np.zeros((2, 4))}
    measured = [(0,), (1,), (2,), (3,), (0, 3)]
    limit = model_bytes(LEVELS, [*measured, (0, 2)]) / 2**20
    inside = [any(set(query) <= set(other) for other in measured) for query in asked.queries]
    small = [model_bytes(LEVELS, [*measured, query]) <= limit * 2**20 for query in asked.queries]
    fits = marginal_state.fits(state, asked.queries, limit)
    assert fits.tolist() == [a or b for a, b in zip(inside, small, strict=True)]
    assert fits[asked.queries.index((0, 2))] and not fits[asked.queries.index((0, 1, 2))]
    # what the model holds costs nothing
    assert marginal_state.fits(state, [(0, 3), (3,)], 0.0).all()


def test_the_model_may_grow_as_the_budget_is_spent():
    total, noise, config = (
        QueryCounts(10, 6),
        Noise(7.0, np.random.default_rng(0)),
        Config(max_megabytes=4.0),
    )
    budget = marginals.rho(total.plan(7.0, 0.9))
    for part, megabytes in ((0.25, 1.0), (1.0, 4.0), (1.3, 4.0)):
        state = {**started(), "spent": np.array(part * budget)}
        assert marginal_state.size_limit(state, total, config, noise) == pytest.approx(megabytes)
    # without noise: the 7th of 4 columns and 10 choices
    state = {**started(), "round": np.array(6)}
    assert marginal_state.size_limit(state, total, config, None) == pytest.approx(4.0 * 7 / 14)


def test_choices_are_among_the_allowed():
    scores, allowed = np.array([5.0, 1.0, 4.0, 3.0]), np.array([False, True, False, True])
    assert marginal_state.choose(scores, allowed, 0.0, 1.0, None) == 3
    rng = np.random.default_rng(0)
    drawn = np.bincount(
        [marginal_state.choose(scores, allowed, 2.0, 1.0, rng) for _ in range(5000)], minlength=4
    )
    assert drawn[[0, 2]].sum() == 0 and drawn[3] / drawn[1] == pytest.approx(
        np.exp((3 - 1) / 2), rel=0.1
    )
    with pytest.raises(
        BadInput, match="no candidate marginal fits into the model: raise max_megabytes"
    ):
        marginal_state.choose(scores, np.zeros(4, bool), 1.0, 1.0, rng)


def test_little_movement_is_less_than_the_noise():
    before, edge = np.zeros(8), np.sqrt(2 / np.pi) * 2.0 * 8 / 100
    moved = np.eye(8)[0] * edge
    assert marginal_state.moved_little(before, moved, 2.0, 100)
    assert not marginal_state.moved_little(before, moved * 1.001, 2.0, 100)


# --- refusals: one sentence, before a row is encoded ---


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Config(rounds=0), "rounds is 0: give at least 1"),
        (lambda: Config(participation=0), "participation is 0: give a chance above 0 and up to 1"),
        (lambda: Config(participation=1.01), "participation is 1.01: give a chance"),
        (lambda: Config(measure_share=0), "measure_share is 0: give a part between 0 and 1"),
        (lambda: Config(measure_share=1), "measure_share is 1: give a part"),
        (
            lambda: flaim.Config(penalty="prox"),
            "selection 'exponential' with penalty 'prox' is unknown",
        ),
        (
            lambda: flaim.Config(selection="best"),
            "selection 'best' with penalty 'proxy' is unknown",
        ),
        (
            lambda: flaim.Config(local_steps=0),
            "local_steps is 0: give 1, or more where clients select",
        ),
        (
            lambda: flaim_random.Config(local_steps=2),
            "local_steps is 2: give 1, or more where clients select",
        ),
        (lambda: Privacy(0.0, 1e-5), "epsilon is 0.0: give a positive number"),
        (lambda: Privacy(-1.0, 1e-5), "epsilon is -1.0: give a positive number"),
    ],
)
def test_settings_that_cannot_work_are_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()


@pytest.mark.parametrize("key", FAMILY)
def test_workloads_that_cannot_work_are_refused(key):
    method, table = METHODS[key], make_table(40)
    cases = [
        (
            {"workload": (("a", "colour"),)},
            "the workload names the column 'colour'; the table has a, b, c, d",
        ),
        ({"workload": ()}, "the workload is empty or holds an empty query"),
        ({"workload": (("a", "b"), ())}, "the workload is empty or holds an empty query"),
        ({"workload": (("a",), ("d",))}, "the workload names single columns only"),
        (
            {"max_megabytes": 1e-6},
            "max_megabytes is 1e-06: no marginal of the workload fits; raise it",
        ),
        ({"num_queries": 0}, "num_queries is 0: a workload needs at least one query"),
    ]
    for change, message in cases:
        with pytest.raises(BadInput, match=message):
            settings.central(method, table, config=method.Config(**change))


@pytest.mark.parametrize("key", FAMILY)
def test_fewer_clients_than_one_a_round_are_refused(key):
    method, table = METHODS[key], make_table(40)
    few = np.array_split(np.arange(40), 9)
    with pytest.raises(
        BadInput,
        match=r"9 clients at this participation make 0\.9 a round: raise "
        r"one of the two",
    ):
        settings.federated(method, table, few, config=replace(method.Config(), participation=0.1))


def test_one_client_is_in_every_round_whatever_the_participation():
    run = settings.central(
        distaim, make_table(40), config=distaim.Config(participation=0.01, rounds=2), seed=3
    )
    assert {line["client"] for line in run.traffic} == {0} and len(run.traffic) == 2 * 4 + 2 + 1


def test_columns_without_bins_are_refused(table):
    with pytest.raises(BadInput, match="column 'weight' is continuous and was not binned"):
        settings.central(aim, table, config=aim.Config(bins=None))
    binned = aim.Config(bins=None, by_column=(("weight", 5),))
    assert aim.encoder(table.schema, binned).domain == Domain(table.schema.names, (73, 5, 2, 4, 2))


def test_names_of_measurements_are_read_back():
    state = {
        marginal_state.name_of("shares", (0, 12)): np.ones(3),
        "weight 0,12": np.ones(1),
        "spent": np.array(0),
    }
    assert list(marginal_state.tables_of(state, "shares")) == [(0, 12)]
    assert list(marginal_state.tables_of(state, "weight")) == [(0, 12)]


def test_workloads_that_leave_nothing_to_choose_are_refused_before_any_row(table):
    alone = flaim.Config(workload=(("age",), ("smokes",)), participation=1.0)
    few = flaim.Config(workload=(("age", "smokes"),), participation=1.0, local_steps=2)
    for config, message in (
        (alone, "names single columns only"),
        (few, "only 1 marginals to choose from"),
    ):
        with pytest.raises(BadInput, match=message):
            settings.central(flaim, table, config=config, privacy=Privacy(1.0, 1e-5))
    with pytest.raises(BadInput, match="num_queries is 0"):
        flaim.Config(num_queries=0)
