"""Every registered method keeps the promises, and methods broken on purpose are caught."""

import json
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import promises
import pytest

from fedsynth_lib.audit import drawn
from fedsynth_lib.core.accounting import BudgetExceeded, epsilon_of
from fedsynth_lib.core.contract import BadInput, Domain, Method, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.tables.encode import bins_from_rows

methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
PRIVATE = {key: method for key, method in METHODS.items() if promises.adds_noise(method)}
private_methods = pytest.mark.parametrize("method", PRIVATE.values(), ids=PRIVATE)


def broken(method, **replaced):
    """A copy of the method with some verbs exchanged."""
    return replace(Method.of(method), name="broken", **replaced)


@methods
def test_contract(method):
    promises.follows_the_contract(method)


UNPROTECTED = {  # by default, as their works have it
    METHODS["fedbn"]: {"best network of the client's search", "fitness of networks"},
    METHODS["augflaim_oracle"]: {"all rows of every client, for the true heterogeneity"},
}


def epsilon_covers_all_but_what_is_known(method, table):
    found = promises.usual(method, table).statement["unprotected"]
    assert set(found) == UNPROTECTED.get(method, set())


def says_that_nothing_is_protected(method, table):
    statement = promises.usual(method, table).statement
    assert statement["epsilon"] is None and any("networks" in w for w in statement["unprotected"])
    with pytest.raises(BadInput, match=r"adds no noise|dpvaebgm"):
        promises.federated(method, table, privacy=Privacy(1.0, 1e-5))


@pytest.fixture(scope="module")
def few(table):
    """Two batches for each of three clients that train a network. Others are quick, and choose more
    where there are more rows."""
    return replace(table, frame=table.frame.head(300))


# those of a method one after the other, for they share a run
PROMISES = {
    f"{promise.__name__}-{key}": (promise, method)
    for key, method in METHODS.items()
    for promise in promises.ALWAYS[1:]
    + (
        (*promises.PRIVATE, epsilon_covers_all_but_what_is_known)
        if key in PRIVATE
        else (says_that_nothing_is_protected,)
    )
}


@pytest.mark.slow
@pytest.mark.parametrize(("promise", "method"), PROMISES.values(), ids=PROMISES)
def test_promises(promise, method, table, few):
    promise(method, few if hasattr(method.Config(), "training_rounds") else table)


def test_all_but_the_networks_without_noise_are_private():
    assert METHODS.keys() - PRIVATE.keys() == {"ctgan", "fedctgan", "fedtgan", "vaebgm"}


@methods
def test_encoders_ignore_rows(method, table):
    promises.encoder_ignores_rows(
        lambda frame: method.encoder(table.schema, method.Config()), table
    )


def test_private_structure_spends_what_it_planned(table):
    promises.spends_what_it_planned(
        bayesian_network, table, bayesian_network.Config(private_structure=True)
    )


def test_private_structure_sends_one_form(table):
    promises.sends_one_form(
        bayesian_network, table, bayesian_network.Config(private_structure=True)
    )


# --- positive controls: each classic mistake must be caught ---


def test_noise_left_out_is_caught(table):
    def silent(state, client, config, noise, rng):
        # charged, and stated by the client, all the same
        stated = independent.client_step(state, client, config, noise, rng).summed_spent
        update = independent.client_step(state, client, config, None, rng)
        return replace(update, summed_spent=stated)

    with pytest.raises(AssertionError, match="noise"):
        promises.noise_reaches_the_state(broken(independent, client_step=silent), table)


def test_a_reset_accountant_is_caught(table):
    def forgetful(state, updates, config, noise, rng):
        state, charges = independent.server_step(state, updates, config, noise, rng)
        first = not np.any(state.get("seen", 0))
        return {**state, "seen": np.array(1)}, charges if first else []

    config = independent.Config(rounds=5)
    promises.spends_what_it_planned(independent, table, config)
    method = broken(independent, server_step=forgetful, check_broadcast=None)
    with pytest.raises(RuntimeError, match="more often, or with other noise, than the statement"):
        promises.spends_what_it_planned(method, table, config)


def test_a_length_that_follows_rows_is_caught(table):
    """The lowest level of the last column that no row has."""

    def shorter(state, client, config, noise, rng):
        update = independent.client_step(state, client, config, noise, rng)
        places = np.arange(len(update.summed["counts"]) - 1 + client.rows[:, -1].max())
        return replace(update, summed={"counts": update.summed["counts"][places]})

    with pytest.raises(AssertionError):
        promises.sends_one_form(broken(independent, client_step=shorter), table)


def test_a_rate_that_counts_rows_is_caught(table):
    fedvae = METHODS["fedvae"]

    def counting(state, client, config, noise, rng):
        return fedvae.client_step(state, replace(client, size=len(client.rows)), config, noise, rng)

    with pytest.raises(AssertionError):
        promises.depends_on_declared_sizes_alone(broken(fedvae, client_step=counting), table)


def test_an_encoder_that_learns_its_range_is_caught(table):
    with pytest.raises(AssertionError):
        promises.encoder_ignores_rows(lambda frame: bins_from_rows(frame, table.schema), table)


def test_spending_more_than_planned_stops_the_run(table):
    def greedy(state, updates, config, noise, rng):
        state, charges = independent.server_step(state, updates, config, noise, rng)
        return state, charges * 2

    with pytest.raises(
        BudgetExceeded, match=r"by round 0 epsilon 2 would be spent of a budget of 1"
    ):
        settings.central(broken(independent, server_step=greedy), table, privacy=Privacy(1.0))


def test_overspending_is_refused_before_rows_are_touched(table):
    class Untouchable:
        def __init__(self, frame):
            self.frame = frame

        def __len__(self):
            return len(self.frame)

        def __getattr__(self, name):
            raise AssertionError(f"rows were touched: {name}")

    guarded = SimpleNamespace(
        key="toy", frame=Untouchable(table.frame), schema=table.schema, data="own"
    )
    with pytest.raises(BudgetExceeded, match="before the first round"):
        settings.central(independent, guarded, privacy=Privacy(1.0, noise_multiplier=0.5))
    run = settings.central(independent, table, privacy=Privacy(1.0, noise_multiplier=2.0))
    assert run.statement["epsilon"] == pytest.approx(0.5)


# --- settings ---


def test_local_runs_each_client_alone_with_the_whole_budget(table):
    runs = settings.local(independent, table, promises.thirds(table), privacy=Privacy(0.7), seed=1)
    assert [len(run.synthetic) for run in runs] == [400, 400, 400]
    assert all(run.statement["epsilon"] == pytest.approx(0.7) for run in runs)
    assert not runs[0].synthetic.equals(runs[1].synthetic)


def test_clients_pay_in_parallel(table):
    parts = promises.thirds(table)
    one = settings.federated(independent, table, parts[:1], privacy=Privacy(0.7), seed=1)
    three = settings.federated(independent, table, parts, privacy=Privacy(0.7), seed=1)
    assert one.statement["epsilon"] == pytest.approx(three.statement["epsilon"])


@pytest.mark.parametrize(
    "parts, message",
    [
        ([np.arange(5), np.arange(0)], "client 1 has no rows"),
        ([np.arange(5), np.arange(4, 9)], "share rows"),
        ([np.arange(5000)], "outside the table"),
        ([], "no clients"),
    ],
)
def test_bad_partitions_are_refused(table, parts, message):
    with pytest.raises(BadInput, match=message):
        settings.federated(independent, table, parts)


def test_noise_serves_the_client_that_pays_most():
    """Clients of unlike size pay unlike amounts at one noise; all must stay within, and one must
    reach it."""
    config = promises.everyone(METHODS["dpfedctgan"])
    domain, asked, rows = (
        Domain(("a", "b"), (3, 2)),
        Privacy(1.0, 1e-5),
        [60, 75, 80, 130, 400, 999],
    )
    method = METHODS["dpfedctgan"]
    noise = settings.noise_for(method, domain, rows, config, asked)
    spent = [epsilon_of(method.plan(noise, domain, size, config), 1e-5) for size in rows]
    assert max(spent) <= 1.0 and max(spent) == pytest.approx(1.0, abs=1e-6) and min(spent) < 0.9


def test_a_release_can_use_fresh_noise(table):
    said = [
        settings.central(independent, table, privacy=Privacy(1.0, noise_seed=None), seed=1)
        for _ in range(2)
    ]
    assert not said[0].synthetic.equals(said[1].synthetic)
    assert "not repeatable" in said[0].statement["seed_policy"]


# --- what a run of today is, beside what it was


def pinned(method, table):
    """A run as it is charged, as its noise is, the arrays that it leaves, and its rows."""
    config, asked = promises.everyone(method), promises.budget(method, 2.0, reproduction=True)
    encoder = method.encoder(table.schema, config)
    # training amplifies the last bits of a calibrated noise
    if asked.epsilon and hasattr(config, "training_rounds"):
        calibrated = settings.noise_for(method, encoder.domain, [400] * 3, config, asked)
        asked = replace(asked, noise_multiplier=float(np.ceil(100 * calibrated) / 100))
    draws = {"client": [], "server": []}
    tapped = drawn.overheard(method, lambda who, heard: draws[who].extend(heard))
    with drawn.private_steps() as steps:
        run = promises.federated(tapped, table, privacy=asked, seed=11)
    rows = encoder.transform(run.synthetic)
    measured = sorted(name for name in run.state if name.startswith("shares "))
    # What is fitted by iteration depends on the processor in its last bits: there pin the choices,
    # and the means.
    chosen = f"{measured} {np.round(rows.mean(axis=0), 1)}".encode()
    content = chosen if measured else rows.tobytes()
    # so is a training: there pin what was counted, and how large parameters are
    if "generator" in run.state:
        spreads = [
            round(float(run.state[name].std()), 3) for name in ("generator", "discriminator")
        ]
        content = f"{np.rint(run.state['counts'])} {spreads}".encode()
    if "network" in run.state:
        content = f"{np.round(rows.mean(axis=0), 1)} {round(float(run.state['network'].std()), 3)}".encode()
    decoders = [values for name, values in sorted(run.state.items()) if name.endswith("/decoders")]
    if decoders:
        content = f"{np.round(rows.mean(axis=0), 1)} {[round(float(values.std()), 3) for values in decoders]}".encode()
    told = Counter(tuple(f"{number:.4g}" for number in step[:3]) for step in steps)
    gradients = [f"gradients {m} x {c} / {e} x {n}" for (c, m, e), n in sorted(told.items())]
    arrays = sorted(f"{name} {values.dtype}" for name, values in run.state.items())
    return {
        "version": method.VERSION,
        "charges": [
            f"{e['what']}: {e['mechanism']} {e['scale']:.4g} x {e['count']}"
            for e in run.statement["entries"]
        ],
        "noise": [f"{who}: {words}" for who in draws if (words := drawn.in_words(draws[who]))]
        + gradients,
        "state": f"{len(arrays)} arrays, {zlib.crc32(str(arrays).encode())}",
        "rows": zlib.crc32(content),
    }


PINNED = Path(__file__).with_name("outputs_pinned.json")
MEANING = {
    "charges": "The price of a run has changed. Compare the plan with its source, and look whether "
    "noise has changed with it.",
    "noise": "Other noise is drawn than before. Unless the charges changed with it, or other tables "
    "are measured, a promise is broken; see draws_what_it_charges and `./run_all.sh audit --quick` before anything "
    "is noted here.",
    "state": "A run leaves other arrays: models that were saved may lack them, and a new one must "
    "be free of rows (tests/test_audit_state.py).",
    "rows": "Where this is meant, and committed rows, which are reproductions, change by more than "
    "the order of sums: raise VERSION and note the new values. Else find what has changed them.",
}
OTHER_ROWS = "They follow from what differs above."


def differences(name, before, now):
    """What differs between a run as it was pinned and as it is, and what that means; "" if
    nothing."""
    differ = [part for part in MEANING if before[part] != now[part]]
    if not differ:
        return "" if before["version"] == now["version"] else f"{name}: note VERSION"
    loud = {"charges", "noise"} & set(differ)
    lines = [
        f"{name}: {part} differ: {before[part]} -> {now[part]}\n  "
        + (OTHER_ROWS if part == "rows" and loud else MEANING[part])
        for part in differ
    ]
    return "\n".join([*lines, f"now: {json.dumps({name: now})}"])


@pytest.mark.slow
@methods
def test_a_run_is_as_it_was_pinned(method, table):
    key = next(key for key in METHODS if METHODS[key] is method)
    said = differences(
        key, json.loads(PINNED.read_text(encoding="utf-8"))[key], pinned(method, table)
    )
    assert not said, said


def test_plans_scale_inversely_with_the_multiplier():
    domain = bayesian_network.Domain(tuple("abcde"), (2, 3, 4, 5, 6))
    for config in (bayesian_network.Config(), bayesian_network.Config(private_structure=True)):
        assert epsilon_of(bayesian_network.plan(0.25, domain, 10, config)) == pytest.approx(4.0)


@private_methods
def test_who_adds_the_noise_is_who_the_method_says(method, few):
    """By whose stream moves on: a trusted server's, or the clients', in what they send or add to
    sums."""
    drew = set()

    def watched(step, who):
        def watching(state, seen, config, noise, rng):
            before = noise and str(noise.rng.bit_generator.state)
            made = step(state, seen, config, noise, rng)
            if noise and str(noise.rng.bit_generator.state) != before:
                drew.add("summed" if getattr(made, "summed", None) else who)
            return made

        return watching

    steps = {
        "client_step": watched(method.client_step, "sent"),
        "server_step": watched(method.server_step, "server"),
    }
    promises.federated(replace(method, **steps), few, privacy=promises.budget(method))
    assert {"local noise": {"sent"}, "secure sum": {"summed"}}.get(method.TRUST, drew) == drew
    assert ("server" in drew) == (method.TRUST == "server")
