"""DistAIM and AIM: against a slow AIM over one dense joint table, what crosses the wire, and what
it costs."""

from itertools import combinations, product

import numpy as np
import pytest
from marginal_toys import (
    BUDGET,
    DELTA,
    DOMAIN,
    LEVELS,
    client_of,
    copy_of,
    dense,
    make_codes,
    make_table,
    shards,
    watched,
)
from scipy.stats import kstest

from fedsynth_lib.core import accounting, secure_sum
from fedsynth_lib.core.contract import BadInput, Domain, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.marginals import distaim, flaim, marginal_state
from fedsynth_lib.methods.marginals.marginals import candidates_in
from fedsynth_lib.methods.variants import aim

ASKED = candidates_in(marginal_state.start(DOMAIN, aim.Config()))
CELLS = int(ASKED.sizes.sum())
FAST = {"iterations": 5, "final_iterations": 5}


# --- AIM against a dense reference ---


def fitted(codes, queries):
    """The distribution of largest entropy with these marginals of `codes`: iterative proportional
    fitting."""
    joint = np.full(LEVELS, 1 / np.prod(LEVELS))
    goals = {
        query: dense(codes, query).reshape([LEVELS[c] for c in query]) / len(codes)
        for query in queries
    }
    for _ in range(200):
        for query, goal in goals.items():
            others = tuple(c for c in range(4) if c not in query)
            now = joint.sum(axis=others)
            ratio = np.divide(goal, now, out=np.zeros_like(goal), where=now > 0)
            joint = joint * np.expand_dims(ratio, others)
    return joint


def greedy(codes, candidates, weights, rounds):
    """AIM without noise, every step on the dense joint table: the choices, how clear each was, the
    last fit."""
    chosen, gaps, real = (
        [(c,) for c in range(4)],
        [],
        {query: dense(codes, query) / len(codes) for query in candidates},
    )
    for _ in range(rounds):
        joint = fitted(codes, chosen)
        scores = []
        for query, weight in zip(candidates, weights, strict=True):
            answer = joint.sum(axis=tuple(c for c in range(4) if c not in query)).ravel()
            scores.append(weight * np.abs(real[query] - answer).sum())
        first, second = np.argsort(scores)[-1:-3:-1]
        gaps.append(scores[first] - scores[second])
        chosen.append(candidates[first])
    return chosen[4:], gaps, fitted(codes, chosen)


@pytest.mark.parametrize(
    "workload", [(("a", "b"), ("b", "d"), ("c", "d")), None], ids=["pairs", "triples"]
)
def test_without_noise_aim_is_the_greedy_algorithm(workload):
    config = aim.Config(
        workload=workload, rounds=3, iterations=400, final_iterations=2000, to_noise=False
    )
    table = make_table(400, seed=8)
    codes = aim.encoder(table.schema, config).transform(table.frame)
    method, choices = with_choices(aim)
    run = settings.central(method, table, config=config, seed=1)
    pairs = [(0, 1), (1, 3), (2, 3)] if workload else list(combinations(range(4), 3))
    candidates = [
        q
        for k in (1, 2, 3)
        for q in combinations(range(4), k)
        if any(set(q) <= set(p) for p in pairs)
    ]
    weights = [sum(len(set(q) & set(p)) for p in pairs) for q in candidates]
    expected, gaps, joint = greedy(codes, candidates, weights, 3)
    assert min(gaps) > 1e-3, "a tie would make the comparison void"
    assert choices == expected
    for query in [(c,) for c in range(4)] + expected + list(combinations(range(4), 2)):
        others = tuple(c for c in range(4) if c not in query)
        answer = marginal_state.answers_of(run.state, (query,))
        assert answer == pytest.approx(joint.sum(axis=others).ravel(), abs=2e-4)
        if query in expected or len(query) == 1:
            assert answer == pytest.approx(dense(codes, query) / len(codes), abs=2e-4)


def with_choices(method):
    """A copy of the method that notes the marginal of each round."""
    chosen = []

    def server_step(state, updates, config, noise, rng):
        after, charges = method.server_step(state, updates, config, noise, rng)
        weights = [name for name in after if name.startswith("weight ")]
        changed = [name for name in weights if after[name] != state.get(name)]
        if state["round"] >= len(state["levels"]):
            (name,) = changed
            chosen.append(tuple(map(int, name.split(" ")[1].split(","))))
        return after, charges

    return copy_of(method, server_step=server_step), chosen


def test_measurements_are_counts_plus_the_noise_of_their_round():
    """With the stream of noise known, the state holds (counts + noise) / n exactly."""
    table, seed = make_table(90), 4
    method, choices = with_choices(distaim)
    config = distaim.Config(rounds=1, participation=1.0, **FAST)
    run = settings.central(method, table, config=config, privacy=BUDGET, seed=seed)
    codes = distaim.encoder(table.schema, config).transform(table.frame)
    sigma = settings.noise_for(distaim, DOMAIN, [90], config, BUDGET)
    for column in range(4):
        noise = stream(seed, "noise", "server", column).normal(0, sigma, LEVELS[column]).round()
        if choices != [(column,)]:
            assert run.state[f"shares {column}"] == pytest.approx(
                (dense(codes, (column,)) + noise) / 90
            )
    (query,) = choices
    rng = stream(seed, "noise", "server", 4)
    rng.gumbel(0, 1, len(ASKED.queries))  # the choice comes first
    noisy = dense(codes, query) + rng.normal(0, sigma, len(dense(codes, query))).round()
    assert run.state["shares " + ",".join(map(str, query))].ravel() == pytest.approx(noisy / 90)


# --- sensitivity ---


def test_one_record_moves_a_score_by_its_weight_over_the_size(monkeypatch):
    """At the servers: over all neighbours never more than w_q / n, and that much in some place."""
    caught, size = [], 12

    def catch(scores, allowed, noise, sensitivity, rng):
        caught.append((scores, sensitivity))
        return 0

    monkeypatch.setattr(marginal_state, "choose", catch)
    monkeypatch.setattr(marginal_state, "refit", lambda state, *_, **__: state)
    largest, levels = 0, np.array(LEVELS)
    for seed in range(3):
        rng, rows = np.random.default_rng(seed), make_codes(size, seed)
        state = distaim.start(DOMAIN, distaim.Config(), rng) | {
            "round": np.array(5),
            "seen": np.array(size),
        }
        state |= {
            "potential 0,1": rng.normal(size=(2, 3)),
            "potential 1,3": rng.normal(size=(3, 4)),
        }

        def scores(table, state=state):
            counts = ASKED.counts(table, levels).astype(np.uint32)
            known = {
                **state,
                "secret/to0": counts,
                "secret/to1": 0 * counts,
                "secret/to2": 0 * counts,
            }
            distaim._choose_and_measure(
                known, distaim.query_counts(4, distaim.Config()), distaim.Config(), None
            )
            return caught.pop()

        before, sensitivity = scores(rows)
        assert sensitivity == ASKED.weights.max() / size
        others = [np.delete(rows, k, axis=0) for k in range(size)]
        others += [np.concatenate([rows, [record]]) for record in product(*map(range, LEVELS))]
        largest = np.maximum(
            largest, np.max([np.abs(scores(other)[0] - before) for other in others], axis=0)
        )
        for other in others:
            moved = np.split(
                ASKED.counts(other, levels) - ASKED.counts(rows, levels), ASKED.starts[1:]
            )
            assert {int(np.square(piece).sum()) for piece in moved} == {1}
    assert (largest <= ASKED.weights / size * (1 + 1e-9)).all() and largest == pytest.approx(
        ASKED.weights / size
    )


# --- one curator or many clients ---


def test_with_everyone_in_every_round_it_is_central_aim():
    table, rounds = make_table(), {"rounds": 3, **FAST}
    central = settings.central(aim, table, config=aim.Config(**rounds), privacy=BUDGET, seed=5)
    for method, config in (
        (aim, aim.Config(**rounds)),
        (distaim, distaim.Config(participation=1.0, **rounds)),
    ):
        for clients in (2, 7):
            run = settings.federated(
                method, table, shards(240, clients), config=config, privacy=BUDGET, seed=5
            )
            assert run.synthetic.equals(central.synthetic)
            assert all(
                np.array_equal(run.state[name], value) for name, value in central.state.items()
            )
            assert run.statement["epsilon"] == central.statement["epsilon"]


def test_every_client_sends_its_answers_once_and_the_servers_hold_their_sum():
    table, parts = make_table(), shards(240, 8)
    method, seen = watched(distaim)
    config = distaim.Config(rounds=6, participation=0.4, **FAST)
    run = settings.federated(method, table, parts, config=config, privacy=BUDGET, seed=2)
    codes = distaim.encoder(table.schema, config).transform(table.frame)
    asked = [entry[1:] for entry in seen if entry[0] == "client"]
    sent = [index for _, index, update in asked if update.arrays]
    came = {index for state, index, _ in asked if state["round"] >= 4}
    assert len(sent) == len(set(sent)) and set(sent) == came
    assert sum(state["round"] >= 4 for state, _, _ in asked) > len(sent), "nobody came twice"
    rows = np.concatenate([parts[index] for index in sent])
    held = [entry[2] for entry in seen if entry[0] == "server"][-1]
    together = sum(held[f"secret/to{server}"] for server in range(3)).view(np.int32)
    assert (
        together.tolist() == np.concatenate([dense(codes[rows], q) for q in ASKED.queries]).tolist()
    )
    assert run.state["seen"] == len(rows) and not any(
        name.startswith("secret/") for name in run.state
    )


def test_traffic_is_four_bytes_a_cell_once_and_eight_a_one_way_count():
    config = distaim.Config(rounds=3, participation=1.0, **FAST)
    run = settings.federated(
        distaim, make_table(), shards(240, 5), config=config, privacy=BUDGET, seed=2
    )
    up = [line for line in run.traffic if line["direction"] == "up"]
    one_way = [line["bytes"] for line in up if line["round"] < 4]
    assert one_way == [8 * level + len("counts") for level in LEVELS for _ in range(5)]
    later = [(line["round"], line["client"], line["bytes"]) for line in up if line["round"] >= 4]
    assert later == [(4, client, 4 * CELLS + 2 * 8 + 3 * len("to0")) for client in range(5)]


def test_clients_are_sent_nothing_of_the_model():
    method, seen = watched(distaim)
    config = distaim.Config(rounds=2, participation=0.5, **FAST)
    settings.federated(method, make_table(), shards(240, 4), config=config, privacy=BUDGET, seed=2)
    assert {frozenset(state) for kind, state, *_ in seen if kind == "client"} == {
        frozenset({"round", "levels", "workload"})
    }


# --- shares ---


def shares_of(rows, seed):
    state = {
        "round": np.array(4),
        "levels": np.array(LEVELS),
        "workload": marginal_state.workload_of(DOMAIN, CONFIG),
    }
    update = distaim.client_step(state, client_of(rows), CONFIG, None, np.random.default_rng(seed))
    return [secure_sum.opened(update.arrays[name], (CELLS,)) for name in distaim.SHARES]


CONFIG = distaim.Config()


def test_three_shares_make_the_counts_and_two_do_not():
    """Any two shares of an empty client look like those of a full one; only all three add up."""
    full, empty = make_codes(5000), make_codes(5000)[:0]
    for rows in (full, empty):
        drawn = [shares_of(rows, seed) for seed in range(150)]
        shares = [np.concatenate(each) for each in zip(*drawn, strict=True)]
        counts = ASKED.counts(rows, np.array(LEVELS))
        assert np.array_equal(sum(shares).view(np.int32), np.tile(counts, 150))
        for one, two in combinations(shares, 2):
            for what in (one, two, one + two, one - two):
                assert kstest(what / 2**32, "uniform").pvalue > 1e-3
                assert np.mean(what == np.tile(counts, 150).astype(np.uint32)) < 0.01


# --- cost ---


@pytest.mark.parametrize("method", [aim, distaim])
def test_annealed_runs_spend_exactly_the_budget_and_end_early(method):
    config = method.Config(annealed=True, participation=0.7, **FAST)
    for epsilon in (0.5, 20.0):
        table, budget = make_table(), Privacy(epsilon, DELTA)
        run = settings.federated(
            method, table, shards(240, 6), config=config, privacy=budget, seed=1
        )
        assert epsilon * (1 - 1e-6) < run.statement["epsilon"] <= epsilon * (1 + 1e-9)
        assert run.state["finished"] and 6 <= run.state["round"] < 4 + 8 * 4
        noises = [
            e["noise_multiplier"]
            for e in run.statement["entries"]
            if e["mechanism"] == "exponential"
        ]
        assert noises[0] / 2 == pytest.approx(noises[1]) and noises[-1] < noises[-2]
        initial = next(e for e in run.statement["entries"] if e["what"] == "one-way marginals")
        rho = accounting.epsilon_to_zcdp(epsilon, DELTA)
        assert initial["noise_multiplier"] == pytest.approx(
            np.sqrt(8 * 4 / (2 * 0.9 * rho)), rel=2e-3
        )


def test_whoever_comes_late_is_charged_as_the_first():
    """The running total holds a record from its client's first draw on; the statement counts the
    worst case."""
    config = distaim.Config(rounds=4, participation=0.2, **FAST)
    run = settings.federated(
        distaim, make_table(), shards(240, 10), config=config, privacy=BUDGET, seed=1
    )
    assert run.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
    assert {entry["clients"] for entry in run.statement["entries"]} == {"all"}
    counts = {entry["what"]: entry["count"] for entry in run.statement["entries"]}
    assert counts == {"one-way marginals": 4, "marginals": 4, "the choice of a marginal": 4}
    assert "three compute servers" in run.statement["adversary"]


def test_noise_is_drawn_for_the_choice():
    """At a small budget choices differ from run to run; without noise they do not."""
    table, config = make_table(), aim.Config(rounds=1, **FAST)
    small, found = Privacy(0.01, DELTA), {}
    for privacy_asked in (small, None):
        found[privacy_asked] = set()
        for seed in range(8):
            method, chosen = with_choices(aim)
            settings.central(method, table, config=config, privacy=privacy_asked, seed=seed)
            found[privacy_asked].update(chosen)
    assert len(found[small]) > 3 and len(found[None]) == 1


@pytest.mark.parametrize("method", [distaim, flaim])
def test_more_cells_than_memory_holds_are_refused_at_the_start(method):
    """Case 07: two columns of 8,000 levels."""
    domain = Domain(("a", "code", "other"), (2, 8_000, 8_001))
    with pytest.raises(BadInput, match=r"together, more than .* merge the levels of 'other'"):
        method.start(domain, method.Config(), np.random.default_rng(0))
