"""FLAIM's privacy: sensitivities by brute force over neighbours, noise against lemma 4.1, and who
pays what."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from marginal_toys import (
    BUDGET,
    DELTA,
    DOMAIN,
    LEVELS,
    client_of,
    copy_of,
    make_codes,
    make_table,
    shards,
)

from fedsynth_lib.core import accounting
from fedsynth_lib.core.accounting import BudgetExceeded
from fedsynth_lib.core.contract import Charge, Privacy, Update
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods.marginals import distaim, flaim, marginal_state
from fedsynth_lib.methods.marginals.marginals import candidates_in
from fedsynth_lib.methods.variants import (
    augflaim_oracle,
    fed_naive_bayes,
    flaim_random,
    naive_flaim,
)

SIZE = 12
EVERY_RECORD = np.array(list(product(*map(range, LEVELS))), dtype=np.int32)
RHO = accounting.epsilon_to_zcdp(1.0, DELTA)


def neighbours_of(rows):
    """Every table with one record less, and every table with one record more."""
    yield from (np.delete(rows, k, axis=0) for k in range(len(rows)))
    yield from (np.concatenate([rows, record[None]]) for record in EVERY_RECORD)


def model_state(seed):
    """A state before a choice: a random model, and a proxy as noisy as proxies are."""
    rng = np.random.default_rng(seed)
    state = flaim.start(DOMAIN, flaim.Config(), rng)
    potentials = {"potential 0,1": rng.normal(size=(2, 3)), "potential 2": rng.normal(size=2)}
    potentials["potential 1,3"] = rng.normal(size=(3, 4))
    proxy = np.concatenate([rng.normal(1 / level, 0.3, level) for level in LEVELS])
    assert (proxy < 0).any()
    open_to_all = np.ones(len(candidates_in(state).queries), bool)
    ahead = {"round": np.array(4), "limit": np.array(80.0), "allowed": open_to_all, "proxy": proxy}
    return {**state, **potentials, **ahead, "proxy_rounds": np.array(1)}


@pytest.fixture
def scores_of(monkeypatch):
    """Scores and sensitivity with which a client chooses; `size` is what it takes its number of
    records to be."""
    caught, measured = [], flaim.distances

    def catch(scores, allowed, noise, sensitivity, rng):
        caught.append((scores, sensitivity))
        return int(np.argmax(scores))

    monkeypatch.setattr(marginal_state, "choose", catch)

    def scores(state, rows, config, size, index=0):
        def of_size(cells, shares, _, mass=1.0):
            return measured(cells, shares, size, mass)

        monkeypatch.setattr(flaim, "distances", of_size)
        flaim.choose(state, client_of(rows, index), config, None)
        return caught.pop()

    return scores


# --- sensitivity ---


@pytest.mark.parametrize("penalty, moves", [("none", 1), ("proxy", 2)])
def test_one_record_moves_a_score_by_its_weight_over_the_size(scores_of, penalty, moves):
    """Over all neighbours never more, and that much for a candidate of the largest weight: the
    bound is tight."""
    config, largest, bound = flaim.Config(penalty=penalty), 0, None
    for seed in range(4):
        state, rows = model_state(seed), make_codes(SIZE, seed)
        before, sensitivity = scores_of(state, rows, config, SIZE)
        weights = candidates_in(state).weights
        bound = moves * weights / SIZE
        assert sensitivity == pytest.approx(bound.max())
        moved = [
            np.abs(scores_of(state, other, config, SIZE)[0] - before)
            for other in neighbours_of(rows)
        ]
        largest = np.maximum(largest, np.max(moved, axis=0))
    tight = largest / bound
    assert tight.max() <= 1 + 1e-9 and tight.min() > 0.7
    assert tight[bound == bound.max()].max() == pytest.approx(1)


def test_the_true_heterogeneity_doubles_the_sensitivity_too(scores_of):
    config, rows, rest = flaim.Config(penalty="true"), make_codes(SIZE, 1), make_codes(88, 2)
    state = model_state(0)

    def of_pair(own, index):
        updates = [Update({"rows": own}, num_rows=SIZE), Update({"rows": rest}, num_rows=88)]
        known = {**state, "heterogeneity": flaim.true_heterogeneity(state, updates)}
        return scores_of(known, (own, rest)[index], config, (SIZE, 88)[index], index)

    weights = candidates_in(state).weights
    before, sensitivity = of_pair(rows, 0)
    assert sensitivity == pytest.approx(2 * weights.max() / SIZE)
    moved = np.max([np.abs(of_pair(other, 0)[0] - before) for other in neighbours_of(rows)], axis=0)
    bound = 2 * weights / SIZE
    assert (moved <= bound * (1 + 1e-9)).all() and (moved / bound)[
        weights == weights.max()
    ].max() > 0.99
    # and other clients' choices depend on it: no epsilon covers that, hence the oracle's
    # unprotected release
    assert any(
        np.abs(of_pair(other, 1)[0] - of_pair(rows, 1)[0]).max() > 0
        for other in neighbours_of(rows)
    )


def test_were_the_size_private_a_record_would_move_a_score_by_almost_twice_as_much():
    """Normalised by its own size, a client's share moves by up to 2 / (n + 1): hence the sizes
    among public inputs."""
    shares = np.array([0.0, 1.0])  # a model that expects only what the new record is
    before = flaim.distances(np.zeros((1, SIZE), int), shares, SIZE)
    cells = np.append(np.zeros((1, SIZE), int), [[1]], axis=1)
    own_size = flaim.distances(cells, shares, SIZE + 1)
    assert abs(own_size - before)[0] == pytest.approx(2 / (SIZE + 1)) and 2 / (SIZE + 1) > 1 / SIZE
    assert abs(flaim.distances(cells, shares, SIZE) - before)[0] == pytest.approx(1 / SIZE)
    assert any(
        "number of rows of each client" in held for held in (settings.COUNTED, settings.DECLARED)
    )


def test_one_record_moves_one_count_of_every_marginal():
    """What the server adds noise to: a column, all columns of a round, each chosen marginal."""
    rows, config = make_codes(SIZE), flaim.Config()
    asked = candidates_in(model_state(0))
    everything = np.arange(len(asked.queries), dtype=np.int16)
    steps = [({"round": np.array(column)}, "counts", 1) for column in range(4)]
    steps += [({"round": np.array(4)}, "one way", 4)]
    collect = {"round": np.array(5), "members": np.array([0]), "chosen": everything[None]}
    steps += [(collect, str(query), 1) for query in everything]

    def released(changes, name, table):
        state, client = {**model_state(0), **changes}, client_of(table)
        client.memory["chosen"] = everything
        return flaim.client_step(state, client, config, None, None).summed[name]

    for changes, name, marginals in steps:
        before = released(changes, name, rows)
        moved = {
            np.square(released(changes, name, other) - before).sum()
            for other in neighbours_of(rows)
        }
        assert moved == {marginals}, name


@pytest.mark.parametrize("seed", range(3))
def test_distances_equal_dense_tables(seed):
    rng = np.random.default_rng(seed)
    rows, asked = make_codes(30, seed), candidates_in(model_state(0))
    levels, size = np.array(LEVELS), 25.0  # any size, for a neighbour has one record more or less
    shares = rng.normal(0.1, 0.3, asked.sizes.sum())  # proxies are noisy: negative, and of any sum
    counts = np.split(asked.counts(rows, levels), asked.starts[1:])
    expected = [
        np.abs(c / size - s).sum()
        for c, s in zip(counts, np.split(shares, asked.starts[1:]), strict=True)
    ]
    mass = np.add.reduceat(np.abs(shares), asked.starts)
    assert flaim.distances(asked.cells(rows, levels), shares, size, mass) == pytest.approx(expected)


def test_the_proxy_is_the_mean_distance_of_a_querys_columns():
    state, rows = model_state(2), make_codes(SIZE, 2)
    asked, proxy = candidates_in(state), np.split(state["proxy"], np.cumsum(LEVELS)[:-1])
    alone = [
        np.abs(np.bincount(rows[:, c], minlength=LEVELS[c]) / SIZE - proxy[c]).sum()
        for c in range(4)
    ]
    found = flaim.heterogeneity(
        state, client_of(rows), flaim.Config(), asked.cells(rows, np.array(LEVELS))
    )
    assert found == pytest.approx([np.mean([alone[c] for c in query]) for query in asked.queries])


# --- noise against lemma 4.1 ---


@pytest.mark.parametrize(
    "method, local_steps, measured",
    [
        (naive_flaim, 1, lambda t, d, s: t * s + d),
        # a client's own measurements, which it leaves out
        (naive_flaim, 3, lambda t, d, s: t * s + d + t * (s - 1)),
        (augflaim_oracle, 1, lambda t, d, s: t * s + d),
        (flaim, 1, lambda t, d, s: t * (s + d)),
        (flaim, 2, lambda t, d, s: t * (s + d) + t * (s - 1)),
    ],
)
@pytest.mark.parametrize("rounds, share", [(3, 0.9), (2, 0.5)])
def test_noise_is_that_of_lemma_4_1(method, local_steps, measured, rounds, share):
    """sigma = sqrt(measurements / (2 r rho)), eps_t = sqrt(8 (1 - r) rho / (T s)), in what a run
    says it released."""
    settings_of = {
        "rounds": rounds,
        "measure_share": share,
        "local_steps": local_steps,
        "iterations": 2,
    }
    config = method.Config(participation=1.0, final_iterations=2, **settings_of)
    run = settings.central(method, make_table(60), config=config, privacy=BUDGET, seed=2)
    gaussian = [e for e in run.statement["entries"] if e["mechanism"] == "gaussian"]
    (choice,) = [e for e in run.statement["entries"] if e["mechanism"] == "exponential"]
    times = measured(rounds, 4, local_steps)
    assert sum(entry["count"] for entry in gaussian) == times
    assert {e["noise_multiplier"] for e in gaussian} == {gaussian[0]["noise_multiplier"]}
    assert gaussian[0]["noise_multiplier"] == pytest.approx(
        np.sqrt(times / (2 * share * RHO)), rel=1e-3
    )
    assert choice["count"] == rounds * local_steps
    epsilon = np.sqrt(8 * (1 - share) * RHO / (rounds * local_steps))
    assert 2 / choice["noise_multiplier"] == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("method, measured", [(flaim_random, 4 + 3), (fed_naive_bayes, 4)])
def test_methods_that_choose_nothing_measure_with_the_whole_budget(method, measured):
    config = method.Config(rounds=3, measure_share=0.5)
    run = settings.central(method, make_table(60), config=config, privacy=BUDGET, seed=2)
    assert {entry["mechanism"] for entry in run.statement["entries"]} == {"gaussian"}
    assert sum(entry["count"] for entry in run.statement["entries"]) == measured
    sigma = run.statement["entries"][0]["noise_multiplier"]
    exact = accounting.exact_gaussian_epsilon(
        [Charge("", "gaussian", sigma, times=measured)], DELTA
    )
    assert exact == pytest.approx(BUDGET.epsilon, rel=1e-6) and sigma < np.sqrt(
        measured / (2 * RHO)
    )


# --- who pays what ---


def paid_by_hand(method, config, clients, seed, sigma, choice):
    """Charges of each client, from who was drawn when; one count for every column, choice and
    chosen marginal."""
    job = flower.Job(method, config, DOMAIN, sigma, seed, clients)
    draws = [job.participants(draw, share) for draw, share in job.schedule() if share < 1]
    measured, chosen = Counter(), Counter()
    for members in draws[:4]:
        measured.update(members)
    rounds = draws[4::2] if config.selection == "exponential" else draws[4:]
    for number, members in enumerate(rounds):
        again = 4 if config.one_way_each_round and number < len(rounds) - 1 else 0
        steps = config.local_steps
        measured.update({k: 2 * steps - 1 + again for k in members})
        if config.selection == "exponential":
            chosen.update({k: steps for k in members})
    every = sorted(measured | chosen)
    times = {k: (measured[k], chosen[k]) for k in every}
    curves = {
        k: accounting.rdp(Charge("", "gaussian", sigma, times=m))
        + (accounting.rdp(Charge("", "exponential", choice, times=c)) if c else 0)
        for k, (m, c) in times.items()
    }
    if config.selection == "exponential":
        return times, {k: accounting.rdp_to_epsilon(curve, DELTA) for k, curve in curves.items()}
    charges = {k: [Charge("", "gaussian", sigma, times=m)] for k, (m, _) in times.items()}
    return times, {
        k: accounting.exact_gaussian_epsilon(charge, DELTA) for k, charge in charges.items()
    }


@pytest.mark.parametrize(
    "method, steps",
    [
        (flaim, 1),
        (flaim, 2),
        (naive_flaim, 3),
        (augflaim_oracle, 1),
        (flaim_random, 1),
        (fed_naive_bayes, 1),
    ],
)
def test_a_run_costs_what_its_most_frequent_participant_pays(method, steps):
    table, options = make_table(120), {"local_steps": steps, "iterations": 2, "final_iterations": 2}
    config = method.Config(rounds=4, participation=0.3, **options)
    multiplier = settings.noise_for(method, DOMAIN, [12] * 10, config, BUDGET)
    choice = flaim.query_counts(4, config).choice_noise(multiplier, config.measure_share)
    for seed in (1, 2):
        run = settings.federated(
            method, table, shards(120, 10), config=config, privacy=BUDGET, seed=seed
        )
        times, epsilons = paid_by_hand(method, config, 10, seed, multiplier, choice)
        assert run.statement["epsilon_protected"] == pytest.approx(max(epsilons.values()), rel=1e-9)
        assert run.statement["epsilon_protected"] < 1.0 and min(epsilons.values()) < max(
            epsilons.values()
        )
        counted = [
            entry for entry in run.statement["entries"] if entry["mechanism"] == "exponential"
        ]
        assert sum(entry["count"] for entry in counted) == max(
            chosen for _, chosen in times.values()
        )


@pytest.mark.parametrize("method, largest", [(flaim, 2 * 15), (naive_flaim, 15), (distaim, 15)])
def test_the_statement_gives_a_choices_sensitivity_in_records(method, largest):
    """One line for clients of any size: w / n * n is not always w (15 and 11 records, for
    instance)."""
    config = method.Config(
        workload=(("a", "b", "c"),) * 5, rounds=2, participation=1.0, iterations=2
    )
    parts = np.split(np.arange(120), [11, 24, 46, 72, 101])
    run = settings.federated(method, make_table(120), parts, config=config, privacy=BUDGET, seed=1)
    (choice,) = [entry for entry in run.statement["entries"] if entry["mechanism"] == "exponential"]
    assert (choice["sensitivity"], choice["count"]) == (largest, 2)
    assert choice["scale"] == pytest.approx(largest * choice["noise_multiplier"])


def test_everyone_in_every_round_pays_exactly_the_budget():
    for method in (flaim, naive_flaim, flaim_random, fed_naive_bayes):
        config = method.Config(rounds=2, participation=1.0, iterations=2, final_iterations=2)
        run = settings.federated(
            method, make_table(60), shards(60, 3), config=config, privacy=BUDGET, seed=1
        )
        assert 1 - 1e-6 < run.statement["epsilon_protected"] <= 1 + 1e-9


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("method", [flaim, naive_flaim])
def test_annealed_runs_spend_the_budget_and_never_more(method, participation):
    """Noise halves on the way; the last round has what is left, so whoever is in every draw pays
    exactly the budget."""
    config = method.Config(
        annealed=True, first_rounds=3, participation=participation, iterations=9, final_iterations=3
    )
    for epsilon in (1.0, 30.0):
        budget = Privacy(epsilon, DELTA)
        run = settings.federated(
            method, make_table(120), shards(120, 4), config=config, privacy=budget, seed=3
        )
        spent = run.statement["epsilon_protected"]
        assert run.state["finished"] and run.state["round"] < len(flaim.phases(4, config))
        assert spent <= epsilon * (1 + 1e-9) and (spent < epsilon * 0.95 or participation == 1)
        if participation == 1:
            assert spent == pytest.approx(epsilon, rel=1e-6)
        noises = [
            e["noise_multiplier"]
            for e in run.statement["entries"]
            if e["mechanism"] == "exponential"
        ]
        assert noises[0] / 2 == pytest.approx(noises[1]) and noises[-1] < noises[-2]


def test_measuring_more_than_planned_stops_the_run():
    def greedy(state, updates, config, noise, rng):
        state, charges = flaim.server_step(state, updates, config, noise, rng)
        return state, charges * 2

    config = flaim.Config(rounds=2, participation=1.0, iterations=2)
    with pytest.raises(BudgetExceeded, match="would be spent of a budget of 1"):
        settings.central(
            copy_of(flaim, server_step=greedy),
            make_table(60),
            config=config,
            privacy=BUDGET,
            seed=1,
        )


def test_without_noise_everything_is_listed_as_unprotected():
    run = settings.central(flaim, make_table(60), config=flaim.Config(rounds=1), seed=1)
    assert run.statement["epsilon"] is None and run.statement["epsilon_protected"] == 0
    assert run.statement["unprotected"] == [
        "marginals",
        "one-way marginals",
        "the choice of a marginal",
    ]
