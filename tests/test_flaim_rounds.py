"""FLAIM's rounds, its variants, what clients are sent, and many clients of whom few take part."""

import numpy as np
import pytest
from marginal_toys import (
    BUDGET,
    DOMAIN,
    NAMES,
    dense,
    kind_of,
    make_codes,
    make_table,
    shards,
    watched,
)

from fedsynth_lib.core.contract import Update
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import flaim, marginal_state
from fedsynth_lib.methods.marginals.marginals import candidates_in
from fedsynth_lib.methods.variants import (
    aim,
    augflaim_oracle,
    fed_naive_bayes,
    flaim_random,
    naive_flaim,
)

ASKED = candidates_in(marginal_state.start(DOMAIN, flaim.Config()))
FAST = {"iterations": 5, "final_iterations": 5}
TABLE = make_table()
CODES = make_codes(240)


# --- rounds ---


@pytest.mark.parametrize("method", [aim, flaim, naive_flaim, augflaim_oracle, flaim_random])
def test_the_last_fit_has_the_final_iterations(method, monkeypatch):
    used, estimate = [], marginal_state.estimate

    def spy(*args, **options):
        used.append(options["iterations"])
        return estimate(*args, **options)

    monkeypatch.setattr(marginal_state, "estimate", spy)
    config = method.Config(rounds=3, iterations=2, final_iterations=7)
    run = settings.central(method, make_table(60), config=config, privacy=BUDGET, seed=1)
    # one-way marginals, then three rounds
    assert used == [2, 2, 2, 7] and run.state["finished"]


def test_a_random_choice_is_the_same_for_all_clients_and_needs_no_charge():
    copy, seen = watched(flaim_random)
    config = flaim_random.Config(rounds=40, participation=1.0, iterations=0, final_iterations=0)
    settings.federated(copy, make_table(30), shards(30, 2), config=config, privacy=BUDGET, seed=1)
    sent = [
        (int(s["round"]), tuple(u.summed))
        for kind, s, _, u in seen
        if kind == "client" and s["round"] >= 4
    ]
    by_round = {number: {names for other, names in sent if other == number} for number, _ in sent}
    assert len(by_round) == 40 and all(len(names) == 1 for names in by_round.values())
    assert len(set().union(*by_round.values())) > 8  # of 14
    assert {c.mechanism for kind, *_, charges in seen if kind == "server" for c in charges} == {
        "gaussian"
    }


# --- the variants ---


@pytest.mark.parametrize(
    "key, switches",
    [
        ("naiveflaim", ("exponential", "none", False, False, False)),
        ("augflaim_oracle", ("exponential", "true", False, False, True)),
        ("augflaim_private", ("exponential", "proxy", True, True, True)),
        ("flaim_random", ("random", "none", False, False, False)),
        ("fednaivebayes", ("none", "none", False, False, False)),
    ],
)
def test_variants_have_the_published_switches(key, switches):
    config = METHODS[key].Config()
    names = ("selection", "penalty", "filter_one_way", "combine_one_way", "weighted")
    assert tuple(getattr(config, name) for name in names) == switches
    assert (config.rounds, config.participation, config.measure_share, config.local_steps) == (
        10,
        0.1,
        0.9,
        1,
    )
    assert "server is trusted to add the noise" in METHODS[key].ADVERSARY


def test_the_oracles_statement_has_no_epsilon():
    config = augflaim_oracle.Config(rounds=1, participation=0.5, **FAST)
    run = settings.federated(
        augflaim_oracle, TABLE, shards(240, 4), config=config, privacy=BUDGET, seed=1
    )
    assert run.statement["epsilon"] is None and 0 < run.statement["epsilon_protected"] <= 1
    assert run.statement["unprotected"] == ["all rows of every client, for the true heterogeneity"]
    entry = next(e for e in run.statement["entries"] if e["mechanism"] == "unprotected")
    assert entry["clients"] == [0, 1, 2, 3] and entry["rounds"] == [0]
    assert (
        "server is trusted" in run.statement["adversary"]
        and "simulated" in run.statement["adversary"]
    )


def test_the_true_heterogeneity_is_the_distance_to_everyone():
    parts = shards(240, 3)
    updates = [Update({"rows": CODES[part]}, num_rows=80, client=k) for k, part in enumerate(parts)]
    found = flaim.true_heterogeneity(marginal_state.start(DOMAIN, flaim.Config()), updates)
    expected = [
        [
            np.abs(dense(CODES[part], query) / 80 - dense(CODES, query) / 240).sum()
            for query in ASKED.queries
        ]
        for part in parts
    ]
    assert found == pytest.approx(np.array(expected))


def test_naive_bayes_has_no_dependence():
    run = settings.central(
        fed_naive_bayes, TABLE, config=fed_naive_bayes.Config(), seed=1, num_rows=4000
    )
    model = marginal_state.model_of(run.state)
    assert sorted(model.potentials) == [(0,), (1,), (2,), (3,)]
    alone = [marginal_state.answers_of(run.state, ((c,),)) for c in range(4)]
    assert marginal_state.answers_of(run.state, ((0, 1),)) == pytest.approx(
        np.outer(alone[0], alone[1]).ravel()
    )
    assert alone[1] == pytest.approx(dense(CODES, (1,)) / 240, abs=1e-3)


def test_clients_are_sent_what_their_step_needs():
    shared = {"round", "levels", "workload"}
    model = {f"potential {c}" for c in range(4)}
    choosing = shared | model | {"sigma", "choice_noise", "last", "allowed", "proxy"}
    for method, steps, choice in (
        (flaim, 1, choosing),
        (
            flaim,
            2,
            choosing
            | {"limit", "typical"}
            | {f"{k} {c}" for k in ("shares", "weight") for c in range(4)},
        ),
        (augflaim_oracle, 1, choosing | {"heterogeneity"}),
    ):
        copy, seen = watched(method)
        config = method.Config(rounds=1, local_steps=steps, **FAST)
        settings.central(copy, make_table(60), config=config, privacy=BUDGET, seed=1)
        expected = {
            "oracle": shared,
            "column": shared,
            "choose": choice,
            "collect": shared | {"members", "chosen"},
        }
        for _, state, _, _ in (entry for entry in seen if entry[0] == "client"):
            assert set(state) == expected[kind_of(state, config)]


# --- many clients ---


@pytest.mark.parametrize("clients, participation", [(100, 0.1), (1000, 0.004)])
def test_messages_go_to_participants_only_and_draws_repeat(clients, participation):
    table = make_table(1200)
    config = flaim.Config(rounds=2, participation=participation, **FAST)
    runs = [
        settings.federated(
            flaim, table, shards(1200, clients), config=config, privacy=BUDGET, seed=s, num_rows=50
        )
        for s in (1, 1, 2)
    ]
    asked = [
        {
            number: sorted(
                t["client"] for t in run.traffic if (t["round"], t["direction"]) == (number, "down")
            )
        }
        for run in runs
        for number in range(8)
    ]
    first, same, other = asked[:8], asked[8:16], asked[16:]
    assert first == same and first != other and runs[0].synthetic.equals(runs[1].synthetic)
    sizes = [len(members) for draw in first for members in draw.values()]
    assert all(0 < size < clients / 4 for size in sizes) and len({*map(str, first)}) > 4
    assert first[4][4] == first[5][5] and first[6][6] == first[7][7]  # both messages of a round
    assert first[4][4] != first[6][6]
    assert list(runs[0].synthetic.columns) == list(NAMES) and len(runs[0].synthetic) == 50
