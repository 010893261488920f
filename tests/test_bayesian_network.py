"""FedBN against exact values: information, counts, conditionals, sampling, sensitivity."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mutual_info_score

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import BadInput, Client, Domain, Noise, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.bayes import bayesian_network as bn
from fedsynth_lib.methods.bayes import genetic_search as search

LEVELS = np.array([3, 4, 2, 5])
ROWS = np.random.default_rng(0).integers(0, LEVELS, (400, 4)).astype(np.int32)
ROWS[:, 1] = np.where(np.random.default_rng(1).random(400) < 0.7, ROWS[:, 0], ROWS[:, 1])


def state_with_network(rows, order=(1, 0, 3, 2), noise=None, clients=1):
    """The final state for a fixed network, counted over `clients` equal parts."""
    config = bn.Config(degree=2)
    state = bn.start(Domain(tuple("abcd"), tuple(LEVELS)), config, stream(0))
    candidates = np.array([[1, 3], [0, 3], [3, 1], [0, 1]])  # those of c: d and b; of d: a and b
    state |= {
        "round": np.array(config.rounds - 1),
        "order": np.array(order),
        "candidates": candidates,
    }
    updates = []
    for index, part in enumerate(np.array_split(rows, clients)):
        quiet = None if noise is None else Noise(noise, stream(5, index))
        update = bn.client_step(state, Client(part, index, clients), config, quiet, stream(1))
        masked = secure_sum.mask(
            update.summed, client=index, clients=range(clients), round=0, seed=3
        )
        updates.append(bn.Update(summed=masked))
    return bn.server_step(
        state, updates, config, None if noise is None else Noise(noise, stream(6)), stream(2)
    )


def test_mutual_information_equals_scikit_learn():
    ours = search.mutual_information(ROWS, LEVELS)
    for i, j in itertools.combinations(range(4), 2):
        assert ours[i, j] == pytest.approx(mutual_info_score(ROWS[:, i], ROWS[:, j]), abs=1e-9)
    assert np.array_equal(ours, ours.T) and np.all(np.diag(ours) == 0)


def test_dependence_equals_its_definition():
    ours = search.dependence(ROWS, LEVELS)
    joint = pd.crosstab(ROWS[:, 0], ROWS[:, 1]).to_numpy()
    independent = np.outer(joint.sum(1), joint.sum(0)) / len(ROWS)
    assert ours[0, 1] == pytest.approx(np.abs(joint - independent).sum() / 2)


def test_scores_of_many_levels_are_those_of_few(monkeypatch):
    """Case 07: no matrix of all pairs of levels is made."""
    few = search.dependence(ROWS, LEVELS), search.mutual_information(ROWS, LEVELS)
    monkeypatch.setattr(search, "MANY_LEVELS", 1)
    monkeypatch.setattr(search, "pair_counts", None)
    assert np.allclose(search.dependence(ROWS, LEVELS), few[0])
    assert np.allclose(search.mutual_information(ROWS, LEVELS), few[1])
    wide = np.random.default_rng(0).integers(0, 8_000, (500, 2))
    tracemalloc.start()
    search.dependence(wide, np.array([8_000, 8_000]))
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_dependence_moves_by_less_than_two_for_any_neighbour():
    """Brute force: every table of up to 4 rows over 2 x 3 levels, every row added."""
    cells, worst = list(itertools.product(range(2), range(3))), 0.0
    for size in range(5):
        for rows in itertools.combinations_with_replacement(cells, size):
            before = search.dependence(np.array(rows, int).reshape(-1, 2), np.array([2, 3]))[0, 1]
            for new in cells:
                after = search.dependence(np.array([*rows, new]), np.array([2, 3]))[0, 1]
                worst = max(worst, abs(after - before))
    assert 1 < worst < 2


def test_rounded_scores_and_tables_move_by_no_more_than_charged():
    """Brute force over added rows: the L1 norm of what is released, against the plan's
    sensitivity."""
    config = bn.Config(degree=1, private_structure=True)
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    tables, scores = bn.plan(1.0, domain, 10, config)
    start = bn.start(domain, config, stream(0))
    counting = start | {
        "round": np.array(1),
        "order": np.array([2, 0, 1]),
        "candidates": np.array([[2], [0], [0]]),
    }
    rng, worst_scores, worst_tables = np.random.default_rng(2), 0, 0

    def released(state, rows):
        return bn.client_step(state, Client(rows, 0, 1), config, None, stream(1)).summed

    for _ in range(200):
        rows = rng.integers(0, [2, 3, 2], (rng.integers(0, 7), 3))
        more = np.vstack([rows, rng.integers(0, [2, 3, 2], (1, 3))])
        worst_scores = max(
            worst_scores,
            np.abs(released(start, more)["scores"] - released(start, rows)["scores"]).sum(),
        )
        one, other = released(counting, more), released(counting, rows)
        assert len(one) == tables.times
        worst_tables = max(worst_tables, *(np.abs(one[name] - other[name]).sum() for name in one))
    assert 3 <= worst_scores <= scores.sensitivity
    assert worst_tables == tables.sensitivity == 1


def test_counts_of_clients_add_up_to_the_pooled_counts():
    pooled, _ = state_with_network(ROWS)
    shared, _ = state_with_network(ROWS, clients=3)
    for name in ("table/2", "table/3"):
        assert np.array_equal(pooled[name], shared[name])
    crossed = pd.crosstab([ROWS[:, 3], ROWS[:, 1]], ROWS[:, 2]).to_numpy()
    assert np.array_equal(pooled["table/2"].reshape(-1, 2).sum(axis=0), crossed.sum(axis=0))


def test_conditionals_are_relative_frequencies():
    config = bn.Config(degree=2)
    state, _ = state_with_network(ROWS)
    found = {child: (parents, table) for child, parents, table in bn.conditionals(state, config)}
    assert found[1][0] == () and found[1][1][0] == pytest.approx(
        np.bincount(ROWS[:, 1], minlength=4) / 400
    )
    parents, table = found[0]
    assert parents == (1,)
    assert table == pytest.approx(pd.crosstab(ROWS[:, 1], ROWS[:, 0], normalize="index").to_numpy())
    assert found[3][0] == (1, 0) and found[2][0] == (3, 1)
    seen = ROWS[(ROWS[:, 3] == 2) & (ROWS[:, 1] == 1)]
    assert found[2][1][2 * 4 + 1] == pytest.approx(np.bincount(seen[:, 2], minlength=2) / len(seen))


def test_unseen_parents_give_a_uniform_conditional_and_negative_counts_vanish():
    assert bn._normalise(np.array([[0, 0], [3, 1]])) == pytest.approx(
        np.array([[0.5, 0.5], [0.75, 0.25]])
    )
    state, _ = state_with_network(ROWS)
    state = state | {"table/2": state["table/2"] - 1000}
    table = dict((c, t) for c, _, t in bn.conditionals(state, bn.Config(degree=2)))[2]
    assert np.all(table == 0.5)


def test_samples_follow_the_network():
    config = bn.Config(degree=2)
    state, _ = state_with_network(ROWS)
    rows = bn.sample(state, 200_000, config, stream(4))
    for columns in [(1,), (1, 0), (3, 1, 2)]:  # a root, an edge, a family
        index = bn._cell(ROWS, columns, LEVELS)
        size = int(np.prod(LEVELS[list(columns)]))
        ours = np.bincount(bn._cell(rows, columns, LEVELS), minlength=size) / len(rows)
        exact = np.bincount(index, minlength=size) / len(ROWS)
        assert np.abs(ours - exact).max() < 0.006


def test_pgmpy_accepts_the_network_and_samples_the_same_distribution():
    config = bn.Config(degree=2)
    state, _ = state_with_network(ROWS)
    network = bn.to_pgmpy(state, config, tuple("abcd"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = (
            network.simulate(60_000, seed=1, show_progress=False)[list("abcd")]
            .astype(int)
            .to_numpy()
        )
    ours = bn.sample(state, 60_000, config, stream(4))
    index = [
        np.bincount(bn._cell(rows, (0, 1, 2, 3), LEVELS), minlength=120) / 60_000
        for rows in (ours, theirs)
    ]
    assert np.abs(index[0] - index[1]).sum() < 0.06


def test_published_scale_is_two_d_minus_k_over_epsilon(table):
    """Section 4.4: scale 2 (d - k) / epsilon on counts when epsilon bounds the replacement of a
    record."""
    domain = bn.encoder(table.schema, bn.Config()).domain
    multiplier = settings.noise_for(
        bn, domain, [100], bn.Config(), Privacy(0.5, relation="replace_one")
    )
    charge, *_ = bn.plan(multiplier, domain, 100, bn.Config())
    assert charge.noise * charge.sensitivity == pytest.approx(2 * (5 - 2) / 0.5)


@pytest.mark.parametrize("private", [False, True])
def test_federated_network_learns_the_dependence(table, private):
    parts = np.array_split(np.arange(1200), 3)
    run = settings.federated(
        bn, table, parts, config=bn.Config(private_structure=private), seed=1, num_rows=4000
    )
    real = table.frame.groupby("smokes", observed=True)["ill"].apply(lambda c: (c == "yes").mean())
    fake = run.synthetic.groupby("smokes", observed=True)["ill"].apply(
        lambda c: (c == "yes").mean()
    )
    assert np.abs(real - fake).max() < 0.06
    old = run.synthetic.loc[run.synthetic["age"] > 70, "ill"].eq("yes").mean()
    young = run.synthetic.loc[run.synthetic["age"] < 40, "ill"].eq("yes").mean()
    assert old - young > 0.2


def test_structure_is_unprotected_as_published_and_the_whole_run_private_beyond(table):
    parts = np.array_split(np.arange(1200), 2)
    published = settings.federated(bn, table, parts, privacy=Privacy(2.0), seed=1).statement
    assert published["unprotected"] == [
        "best network of the client's search",
        "fitness of networks",
    ]
    assert published["epsilon"] is None and published["epsilon_protected"] == pytest.approx(2.0)
    private = settings.federated(
        bn, table, parts, config=bn.Config(private_structure=True), privacy=Privacy(2.0), seed=1
    ).statement
    assert private["unprotected"] == [] and private["epsilon"] == pytest.approx(2.0)


def test_private_search_never_sees_rows_after_the_release(table):
    """With the structure private, the server's network depends on the noisy scores alone."""
    config = bn.Config(private_structure=True)
    scores = bn._symmetric(np.arange(10.0), 5)
    one = bn._search_alone(scores, config, stream(1))
    other = bn._search_alone(scores.copy(), config, stream(1))
    assert np.array_equal(one.orders, other.orders) and np.array_equal(
        one.candidates, other.candidates
    )
    # by hand: seven edges, and 3 + 4 + ... + 9 = 42
    assert search.fitness(one, scores)[0] > 0.9 * 42


def test_impossible_settings_are_refused(table):
    with pytest.raises(BadInput, match="more than 2 columns, the table has 2: lower"):
        bn.plan(1.0, Domain(tuple("ab"), (2, 2)), 9, bn.Config(degree=2))
    with pytest.raises(BadInput, match="more than 4 columns"):
        bn.start(Domain(tuple("abcd"), (2, 2, 2, 2)), bn.Config(degree=4), stream(0))
    with pytest.raises(BadInput, match="cells"):
        bn.start(Domain(tuple("abc"), (500, 500, 500)), bn.Config(degree=2), stream(0))
