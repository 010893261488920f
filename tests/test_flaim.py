"""FLAIM and its variants: who adds to which sum, what the server makes of it, and what is dropped,
sent and said."""

from collections import Counter

import numpy as np
import pytest
from marginal_toys import (
    BUDGET,
    DOMAIN,
    LEVELS,
    dense,
    kind_of,
    make_codes,
    make_table,
    shards,
    watched,
)

from fedsynth_lib.core.contract import Noise, Privacy, Update, stream
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods.marginals import flaim, marginal_state
from fedsynth_lib.methods.marginals.junction_tree import model_bytes
from fedsynth_lib.methods.marginals.marginals import candidates_in
from fedsynth_lib.methods.variants import naive_flaim

ASKED = candidates_in(marginal_state.start(DOMAIN, flaim.Config()))
ALONE = range(4)  # candidates of one column
FAST = {"iterations": 5, "final_iterations": 5}
TABLE = make_table()
CODES = make_codes(240)


def name_of(query):
    return "shares " + ",".join(map(str, query))


# --- secure sums among those who chose the same ---


@pytest.mark.parametrize("method, steps", [(flaim, 1), (naive_flaim, 3)])
def test_only_those_who_chose_a_marginal_add_to_its_sum(method, steps):
    copy, seen = watched(method)
    config = method.Config(rounds=3, participation=0.6, local_steps=steps, **FAST)
    settings.federated(copy, TABLE, shards(240, 9), config=config, privacy=BUDGET, seed=2)
    choices, met = {}, 0
    for kind, state, index, update in (entry for entry in seen if entry[0] == "client"):
        if kind_of(state, config) == "choose":
            choices[index] = sorted(update.arrays["chosen"].tolist())
            assert len(set(choices[index])) == steps
        if kind_of(state, config) == "collect":
            members = state["members"].tolist()
            assert kind == "client" and index in members
            assert sorted(map(int, update.summed)) == choices[index]
            for name, group in update.groups.items():
                assert list(group) == [k for k in members if int(name) in choices[k]]
                met += len(group) > 1
    assert met, "no two clients chose the same, so no sum was tested"


def test_without_noise_the_server_learns_the_exact_shares_of_those_who_sent():
    copy, seen = watched(naive_flaim)
    config = naive_flaim.Config(rounds=1, participation=1.0, **FAST)
    parts = shards(240, 5)
    run = settings.federated(copy, TABLE, parts, config=config, seed=2)
    senders = {}
    for _, state, index, update in (entry for entry in seen if entry[0] == "client"):
        if kind_of(state, config) == "collect":
            for name in update.summed:
                senders.setdefault(ASKED.queries[int(name)], []).append(index)
    assert sum(map(len, senders.values())) == 5
    for query, indices in senders.items():
        rows = CODES[np.concatenate([parts[k] for k in indices])]
        found = run.state[name_of(query)].ravel()
        if len(query) > 1:
            assert found == pytest.approx(dense(rows, query) / len(rows))


@pytest.mark.parametrize("public", [True, False])
def test_one_clients_measurements_are_its_counts_plus_the_noise_of_the_round(public):
    """With the stream of noise known, the state holds (counts + noise) / n, and weighs it by (n /
    sigma)^2."""
    seed = 6
    config = flaim.Config(rounds=1, public_sizes=public, **FAST)
    run = settings.central(flaim, TABLE, config=config, privacy=BUDGET, seed=seed)
    sigma = settings.noise_for(flaim, DOMAIN, [240], config, BUDGET)
    chosen = tuple(ASKED.queries[int(run.state["chosen"][0, 0])])
    # round 4 is the choice
    for number, query in [*enumerate([(0,), (1,), (2,), (3,)]), (5, chosen)]:
        counts = dense(CODES, query)
        noisy = counts + np.rint(
            stream(seed, "noise", "server", number).normal(0, sigma, len(counts))
        )
        behind = 240 if public else noisy.sum()
        assert run.state[name_of(query)].ravel() == pytest.approx(noisy / behind)
        weight = run.state[name_of(query).replace("shares", "weight")]
        assert weight == pytest.approx((behind / sigma) ** 2)


# --- choosing ---


@pytest.mark.parametrize("filtered", [True, False])
def test_filtering_never_chooses_a_single_column(filtered):
    copy, seen = watched(flaim)
    config = flaim.Config(rounds=4, filter_one_way=filtered, **FAST)
    settings.federated(
        copy, TABLE, shards(240, 20), config=config, privacy=Privacy(1.0, 1e-5), seed=1
    )
    chosen = [
        u.arrays["chosen"].tolist()
        for kind, *_, u in seen
        if kind == "client" and "chosen" in u.arrays
    ]
    widths = Counter(len(ASKED.queries[number]) for each in chosen for number in each)
    assert (widths[1] == 0) == filtered and sum(widths.values()) > 4


def test_without_noise_a_client_chooses_what_it_fits_worst():
    """Weight times the distance of its own shares to the model, less the proxy of its skew, by
    dense tables."""
    copy, seen = watched(flaim)
    config = flaim.Config(rounds=2, participation=1.0, iterations=30, final_iterations=5)
    parts = shards(240, 4)
    settings.federated(copy, TABLE, parts, config=config, seed=1)
    checked = 0
    for _, state, index, update in (entry for entry in seen if entry[0] == "client"):
        if kind_of(state, config) != "choose":
            continue
        rows, proxy = CODES[parts[index]], np.split(state["proxy"], np.cumsum(LEVELS)[:-1])
        model = np.split(marginal_state.answers_of(state, ASKED.queries), ASKED.starts[1:])
        skew = [np.abs(dense(rows, (c,)) / len(rows) - proxy[c]).sum() for c in range(4)]
        scores = [
            weight
            * (
                np.abs(dense(rows, query) / len(rows) - answer).sum()
                - np.mean([skew[c] for c in query])
            )
            for query, weight, answer in zip(ASKED.queries, ASKED.weights, model, strict=True)
        ]
        scores[:4] = [-np.inf] * 4  # filtered
        assert update.arrays["chosen"].tolist() == [int(np.argmax(scores))]
        checked += 1
    assert checked == 8


def test_later_local_steps_choose_after_measuring_alone(monkeypatch):
    """Between its choices a client measures the last one with noise, and fits a model of its
    own."""
    alone, fits = [], marginal_state.refit

    def spy(state, config, *, last, to_noise):
        alone.append({name: value for name, value in state.items() if name.startswith("weight ")})
        return fits(state, config, last=last, to_noise=to_noise)

    state = prepared_for_choice(flaim.Config(local_steps=3))
    monkeypatch.setattr(marginal_state, "refit", spy)
    client = flower.Client(CODES, 0, 1)
    noise = Noise(4.0, np.random.default_rng(1))
    chosen, spent = flaim.choose(state, client, flaim.Config(local_steps=3, **FAST), noise)
    assert len(set(chosen.tolist())) == 3 and len(alone) == 2
    names = ["weight " + ",".join(map(str, ASKED.queries[number])) for number in chosen]
    assert [set(weights) - set(state) for weights in alone] == [{names[0]}, {names[0], names[1]}]
    assert [(charge.mechanism, charge.times) for charge in spent] == [
        ("exponential", 3),
        ("gaussian", 2),
    ]


def prepared_for_choice(config, megabytes=80.0):
    """The state of a run before its first choice, from one-way marginals without noise."""
    state = flaim.start(DOMAIN, config, np.random.default_rng(0)) | {"sigma": np.array(2.0)}
    for column in ALONE:
        counts = dense(CODES, (column,))
        state = marginal_state.with_measurement(state, (column,), counts, 2.0, 240, config)
    state = marginal_state.refit(state, config, last=False, to_noise=False)
    proxy = np.concatenate([state[f"shares {column}"] for column in ALONE])
    ahead = {
        "round": np.array(4),
        "limit": np.array(megabytes),
        "proxy": proxy,
        "proxy_rounds": np.array(1),
    }
    allowed = marginal_state.fits(state, ASKED.queries, megabytes)
    return {
        **state,
        **ahead,
        "allowed": allowed,
        "choice_noise": np.array(8.0),
        "typical": np.array(240.0),
    }


def test_choices_that_do_not_fit_together_are_dropped_before_any_release():
    """Votes decide; a dropped choice is neither asked for, nor sent, nor measured, nor charged; the
    choice is."""
    config = flaim.Config(**FAST, combine_one_way=False, penalty="none")
    one, other, inside = (0, 1, 3), (1, 2, 3), (1, 3)
    limit = model_bytes(LEVELS, [(0,), (1,), (2,), (3,), one]) / 2**20
    state, number = prepared_for_choice(config, limit), ASKED.queries.index
    assert state["allowed"][number(one)] and state["allowed"][number(other)]
    votes = {0: one, 1: other, 2: one, 3: inside}
    updates = [
        Update({"chosen": np.array([number(query)], np.int16)}, num_rows=60, client=k)
        for k, query in votes.items()
    ]
    noted, charges = flaim.server_step(state, updates, config, None, np.random.default_rng(0))
    assert (
        noted["chosen"].ravel().tolist() == [number(one), -1, number(one), number(inside)]
        and charges == []
    )
    parts, noise = shards(240, 4), Noise(2.0, np.random.default_rng(1))
    sent = flaim.broadcast(noted, config)
    clients = [
        flower.Client(CODES[parts[k]], k, 4, {"chosen": update.arrays["chosen"]})
        for k, update in enumerate(updates)
    ]
    collected = [flaim.client_step(sent, client, config, None, None) for client in clients]
    assert [sorted(update.summed) for update in collected] == [
        [str(number(query))] if query != other else [] for query in votes.values()
    ]
    replies = [
        Update(
            summed={name: counts.astype(np.uint64) for name, counts in u.summed.items()},
            num_rows=60,
            client=k,
        )
        for k, u in enumerate(collected)
    ]
    after, charges = flaim.server_step(noted, replies, config, noise, np.random.default_rng(0))
    assert name_of(one) in after and name_of(inside) in after and name_of(other) not in after
    assert Counter(charge.client for charge in charges) == {0: 1, 2: 1, 3: 1}


# --- one-way marginals of every round ---


def test_all_columns_are_measured_again_in_every_round_but_the_last():
    copy, seen = watched(flaim)
    config = flaim.Config(rounds=3, participation=0.7, **FAST)
    settings.federated(copy, TABLE, shards(240, 6), config=config, privacy=BUDGET, seed=1)
    bundles = [[], [], []]
    for kind, before, _, last in seen:
        phase, place = flaim.phases(4, config)[int(before["round"])]
        if kind == "client" and phase == "choose":
            bundles[place].append("one way" in last.summed)
        if kind == "server" and phase == "choose":
            assert {charge.times for charge in last} == ({4} if place < 2 else set())
    assert all(bundles[0]) and all(bundles[1]) and not any(bundles[2]) and all(map(len, bundles))


@pytest.mark.parametrize("combine", [True, False])
def test_the_proxy_is_the_running_mean_of_all_estimates(combine):
    """By hand from the clients drawn, without noise: the first estimate counts as much as a later
    one."""
    copy, seen = watched(flaim)
    config = flaim.Config(rounds=3, participation=0.5, combine_one_way=combine, **FAST)
    parts = shards(240, 6)
    run = settings.federated(copy, TABLE, parts, config=config, seed=3)
    job = flower.Job(flaim, config, DOMAIN, None, 3, 6)
    draws = [
        np.concatenate([parts[k] for k in job.participants(*entry)]) for entry in job.schedule()
    ]
    estimates = [np.concatenate([dense(CODES[draws[c]], (c,)) / len(draws[c]) for c in range(4)])]
    for rows in (draws[4], draws[6]):  # not in the last round
        estimates.append(np.concatenate([dense(CODES[rows], (c,)) / len(rows) for c in range(4)]))
    assert (
        run.state["proxy"] == pytest.approx(np.mean(estimates, axis=0))
        and run.state["proxy_rounds"] == 3
    )
    of_column = [draws[1], draws[4], draws[6]] if combine else [draws[1]]
    weights = np.array([len(rows) for rows in of_column]) ** 2.0  # (rows / sigma)^2, sigma the same
    means = [dense(CODES[rows], (1,)) / len(rows) for rows in of_column]
    assert run.state["shares 1"] == pytest.approx(np.average(means, axis=0, weights=weights))
    assert run.state["weight 1"] == pytest.approx(weights.sum()) and len(seen) > 0
