"""A client refuses whatever a lying server sends, before it touches a row; or it sends exactly what
the plan pays for."""

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import promises
import pytest
from conftest import SCHEMA, make_frame

from fedsynth_lib.core.broadcast import Values, check_arrays
from fedsynth_lib.core.contract import (
    Arrays,
    BadBroadcast,
    Client,
    Privacy,
    Update,
    stream,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.rounds import copied, run_rounds
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import private_bins
from fedsynth_lib.methods.marginals.marginals import rho
from fedsynth_lib.methods.vae_bgm.training import LATENT
from fedsynth_lib.release.deploy import evaluation

ROWS = 40  # of each of three clients
SMALL = {"training_rounds": 2, "local_epochs": 1, "local_updates": 2, "batch": 20, "rounds": 2}
SMALL |= {"iterations": 5, "final_iterations": 5, "num_queries": 8}


# changes that a check sees without a look at any number
OF_FORM = ("in one more axis", "object", "real", "other bytes", "unsigned", "shorter", "longer")
OF_FORM += ("twice", "alone", "a name less", "a name more")
# of as many clients as there are, which a client need not know
OPEN = ("client_weights", "heterogeneity")


class Touched(Exception):
    """Rows were looked at."""


class Untouchable:
    """Rows that say so when they are looked at in any way."""

    def _touched(self, *_):
        raise Touched

    __getattr__ = __getitem__ = __len__ = __iter__ = __array__ = __add__ = _touched


@dataclass(frozen=True)
class Asked:
    """One client's part of one round: what it was sent, what it remembered, what it answered."""

    number: int
    sent: Arrays
    client: Client
    update: Update

    def answered(self, job: Job, sent: Arrays, rows: Any) -> Update:
        job.check(sent, self.number)
        client = replace(self.client, rows=rows, memory=copy.deepcopy(self.client.memory))
        return job.answered(sent, client, self.number)


def job_of(key: str) -> tuple[Job, list[np.ndarray]]:
    """The job of a case, and its clients' encoded rows."""
    frame = make_frame(3 * ROWS)
    if key == "evaluation":
        config = evaluation.config_for(SCHEMA)
        privacy = Privacy(2.0, 1e-5)
        job = evaluation.job_for(SCHEMA, privacy, [ROWS] * 3, synthetic=frame, config=config)
        return job, np.split(evaluation.encoder(SCHEMA, config).transform(frame), 3)
    base, _, option = key.partition("+")
    method = METHODS[base]
    config = promises.everyone(method)
    small = {name: value for name, value in SMALL.items() if name in vars(config)}
    config = replace(config, **small, **OPTIONS.get(option, {}))
    privacy = promises.budget(method, 2.0) if key not in BARE else Privacy()
    job, encoder = settings.job_of(
        method, SCHEMA, [ROWS] * 3, config=config, privacy=privacy, seed=4
    )
    return job, np.split(encoder.transform(frame), 3)


OPTIONS: dict[str, dict] = {
    "structure": {"private_structure": True},
    "bins": {"bins": "private"},
    "structure, bins": {"private_structure": True, "bins": "private"},
    "gathered": {"participation": 0.6, "rounds_per_sum": 2},
    "annealed": {"annealed": True, "first_rounds": 1},
    "steps": {"local_steps": 2},
    "mixtures": {"encoding": "federated", "mixture_rounds": 2},
    "declared": {"encoding": "declared", "strategy": "fedyogi"},
    "fedavg": {"technique": "fedavg", "common_start": False},
    "isolated": {"technique": "isolated"},
}
BARE = {key for key, method in METHODS.items() if not promises.adds_noise(method)}
BARE |= {"fedvae+mixtures", "vaebgm+fedavg"}
SECURE = ["independent", "fedpgm", "fedpgm_bins", "fedpgm+gathered", "fedbn+structure"]
SECURE += ["fedbn+structure, bins", "evaluation"]
SERVER = ["aim", "aim+annealed", "naiveflaim", "naiveflaim+steps", "augflaim_private"]
SERVER += [
    "aim+bins",
    "augflaim_private+bins",
    "augflaim_private+annealed",
    "augflaim_oracle",
    "flaim_random",
    "flaim_random+annealed",
    "fednaivebayes",
]
NETWORKS = ["fedvae", "fedvae+mixtures", "findiff", "findiff+declared", "dpvaebgm", "vaebgm+fedavg"]
NETWORKS += ["dpvaebgm+fedavg", "dpvaebgm+isolated", "ctgan", "fedtgan", "fedctgan", "dpfedctgan"]
NETWORKS += ["feddpctgan"]  # dpctgan is dpfedctgan with one client
CASES = [*SECURE, "fedbn", *SERVER, *NETWORKS]
ONE_ROUND = ("independent", "evaluation", "dpvaebgm+isolated")
# once, for all later rounds; or with the round that has the client's rows
AT_ONCE = ["aim", "aim+annealed", "aim+bins", "flaim_random+annealed", "fedpgm+gathered"]


@cache
def honest(key: str) -> tuple[Job, list[Asked], list, np.ndarray]:
    """What client 0 is asked in an honest run, the rounds of that run, and another client's
    rows."""
    job, rows = job_of(key)
    seen: list[Asked] = []

    def watched(state, client, config, noise, rng):
        kept = replace(client, memory=copy.deepcopy(client.memory))
        update = job.method.client_step(state, client, config=config, noise=noise, rng=rng)
        if client.index == 0:
            seen.append(Asked(numbers[-1], state, kept, update))
        return update

    def checked(state, domain, config, round):
        numbers.append(round)
        job.method.check_broadcast(state, domain, config=config, round=round)

    numbers: list[int] = []
    watching = replace(job.method, client_step=watched, check_broadcast=checked)
    rounds = list(run_rounds(replace(job, method=watching), rows))
    return job, seen, rounds, rows[1]


def totals(charges) -> Counter:
    """How often each kind of release is charged. A choice costs the same at any sensitivity."""
    found: Counter = Counter()
    for c in charges:
        sensitivity = 1.0 if c.mechanism == "exponential" else c.sensitivity
        found[c.mechanism, float(round(c.noise, 9)), sensitivity, c.rate] += c.times
    return found


def cost(update: Update) -> Counter:
    return totals([*update.spent, *update.summed_spent])


def shapes(update: Update) -> list:
    """Of all that is sent."""
    return [
        {name: (values.shape, values.dtype) for name, values in arrays.items()}
        for arrays in (update.arrays, update.summed)
    ]


def changes(values: np.ndarray) -> dict[str, np.ndarray]:
    """The array with another size, sign, type, value or order."""
    flat = values.reshape(-1)
    swapped, repeated, one = flat.copy(), flat.copy(), flat.copy()
    if len(flat) > 1:
        swapped[[0, -1]], repeated[-1] = flat[[-1, 0]], flat[0]
    kind, number = values.dtype.kind, values.dtype.kind != "b"
    most = {"f": lambda: np.inf, "b": lambda: True}.get(kind, lambda: np.iinfo(values.dtype).max)()
    with np.errstate(all="ignore"):
        found = {
            "in one more axis": values[None],
            "object": values.astype(object),
            "real": values.astype(np.longdouble),
            "other bytes": values.astype(values.dtype.newbyteorder()),
            "unsigned": values.astype(np.uint64),
            "negative": -values if number else ~values,
            "times 1000": values * np.array(1000, values.dtype) if number else values,
            "one less": values - 1 if number else values,
            "one more": values + 1 if number else values,
            "huge": np.full_like(values, most),
            "swapped": swapped.reshape(values.shape),
            "repeated": repeated.reshape(values.shape),
        }
    if values.ndim:
        found |= {"shorter": values[:-1], "longer": np.concatenate([values, values[:1]])}
        found |= {"twice": np.concatenate([values, values]), "alone": flat[:1].sum()[...]}
    if kind == "f" and len(one):
        one[0] = np.nan
        found["not a number"] = one.reshape(values.shape)
    return {
        what: other
        for what, other in found.items()
        if other.dtype != values.dtype or not np.array_equal(other, values)
    }


def attacks(sent: Arrays) -> dict[str, Arrays]:
    """Every way in which a server changes one array of what it sends."""
    found = {"a name more": sent | {"more": np.zeros(3)}}
    for name, values in sent.items():
        found[f"{name}: a name less"] = {
            other: array for other, array in sent.items() if other != name
        }
        found |= {
            f"{name}: {what}": sent | {name: other} for what, other in changes(values).items()
        }
    return found


def got_through(job: Job, asked: Asked, sent: Arrays, others: np.ndarray, *, form: bool) -> str:
    """What is wrong with the client's answer to this; '' where it refuses before it touches a row,
    or sends what costs no more than the honest answer, in shapes that other rows have, too."""
    try:
        asked.answered(job, sent, Untouchable())
    except BadBroadcast:
        return ""
    except Exception:  # it went on to the rows
        if job.privacy.epsilon is None:  # nothing is charged; see what is taken
            return "its form is taken" * form
    try:
        update, other = (asked.answered(job, sent, rows) for rows in (asked.client.rows, others))
    except Exception as error:
        return f"an error beyond the check: {error!r}"
    if not cost(update) <= cost(asked.update):
        return f"it costs {cost(update)}"
    return "" if shapes(update) == shapes(other) else f"it has shapes {shapes(update)}"


def holes(job: Job, seen: list[Asked], others: np.ndarray) -> Iterator[str]:
    """Attacks that get more than they should, one after the other, and what is wrong. Of rounds in
    which the same arrays are sent the last one is attacked."""
    for asked in {frozenset(asked.sent): asked for asked in seen}.values():
        for what, sent in attacks(asked.sent).items():
            form = what.endswith(OF_FORM) and not what.startswith(OPEN)
            if wrong := got_through(job, asked, sent, others, form=form):
                yield f"round {asked.number}: {what}: {wrong}"


def test_every_method_checks_what_a_server_sends():
    assert all(method.check_broadcast for method in (*METHODS.values(), evaluation.METHOD))


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in CASES if key != "augflaim_private+annealed"])
def test_what_a_lying_server_changes_is_refused_or_costs_what_was_planned(key):
    job, seen, _, others = honest(key)
    assert list(holes(job, seen, others)) == []


@pytest.mark.parametrize("key", SECURE)
def test_without_the_check_a_lying_server_gets_more(key):
    """The control: the test above sees what a method without the verb gives away."""
    job, seen, _, others = honest(key)
    trusting = replace(job, method=replace(job.method, check_broadcast=None))
    assert next(holes(trusting, seen, others), "")


@pytest.mark.parametrize("key", [key for key in CASES if key not in BARE])
def test_what_clients_state_of_sums_is_what_the_server_charges(key):
    """In each round and, over the run, what the plan promises."""
    job, _, rounds, _ = honest(key)
    stated = []
    for each in rounds:
        of_server = each.charges[sum(len(update.spent) for update in each.updates) :]
        for update in each.updates:
            about = [c for c in of_server if c.client in (None, update.client)]
            assert key in AT_ONCE or totals(update.summed_spent) == totals(about)
            stated += [*update.spent, *update.summed_spent] if update.client == 0 else []
    own = np.ravel(job.noise_multiplier)[0]
    planned = job.method.plan(float(own), job.domain, ROWS, job.config)
    kinds = [{c.what for c in each if not c.protected} for each in (planned, stated)]
    assert kinds[0] == kinds[1]
    noisy = [[c for c in each if c.protected] for each in (planned, stated)]
    assert rho(noisy[0]) == pytest.approx(rho(noisy[1]))
    assert "annealed" in key or totals(noisy[0]) == totals(noisy[1])


def test_annealed_noise_that_costs_more_than_the_plan_is_refused_before_rows_are_touched():
    job, seen, *_ = honest("augflaim_private+annealed")
    choices = [asked for asked in seen if "choice_noise" in asked.sent]
    for name in ("sigma", "choice_noise"):
        for factor in (0.0, 1e-3):
            less = {name: np.array(choices[0].sent[name] * factor)}
            with pytest.raises(BadBroadcast):
                choices[0].answered(job, choices[0].sent | less, Untouchable())
    before_last = choices[-1].sent | {"sigma": np.array(choices[-1].sent["sigma"] * 0.9)}
    with pytest.raises(BadBroadcast):
        choices[-1].answered(job, before_last, Untouchable())


def test_a_client_counts_what_it_chose_itself():
    job, seen, *_ = honest("augflaim_private")
    asked = next(asked for asked in seen if "members" in asked.sent)
    own = asked.client.memory["chosen"]
    others = np.where(asked.sent["chosen"] >= 0, (own + 1) % 5, -1).astype(np.int16)
    with pytest.raises(BadBroadcast):
        asked.answered(job, asked.sent | {"chosen": others}, Untouchable())


def test_rows_that_overflow_in_a_lying_servers_network_do_not_show_in_a_noisy_mixture():
    """Else the mixture is not a number exactly where somebody has such a row."""
    job, seen, *_ = honest("dpvaebgm+fedavg")
    asked = seen[-1]
    pattern = np.array([1, 1, 1, 1, 1, -1, -1, 1], np.float32)
    signs = np.resize(pattern, asked.sent["network/0"].shape)
    update = asked.answered(
        job, asked.sent | {"network/0": signs * np.float32(3e38)}, asked.client.rows
    )
    for name in LATENT:
        assert np.isfinite(update.arrays[name]).all(), name


# --- attacks by name -----------------------------------------------------------------------------


def sent_in(key: str, number: int) -> tuple[Job, Arrays]:
    job, seen, *_ = honest(key)
    return job, next(asked.sent for asked in seen if asked.number == number)


def with_entry(values: np.ndarray, place: Any, value: Any) -> np.ndarray:
    changed = values.copy()
    changed[place] = value
    return changed


ATTACKS = {
    "noise of a measurement divided by a thousand": (
        "fedpgm",
        1,
        lambda sent: {"repeats": np.full_like(sent["repeats"], 2**20)},
    ),
    "one measurement more": ("fedpgm", 1, lambda sent: {"repeats": sent["repeats"] + 1}),
    "a table twice": (
        "fedpgm",
        1,
        lambda sent: {"chosen": np.repeat(sent["chosen"][:1], len(sent["chosen"]), axis=0)},
    ),
    "a pair the other way round": (
        "fedpgm",
        1,
        lambda sent: {"chosen": np.vstack([[(1, 0)], sent["chosen"][1:]]).astype(np.int16)},
    ),
    "nothing, which costs nothing": (
        "fedpgm",
        1,
        lambda sent: {"chosen": sent["chosen"][:0], "repeats": sent["repeats"][:0]},
    ),
    "an oracle for the last level": (
        "fedpgm",
        0,
        lambda sent: {"levels": sent["levels"] - np.eye(5, dtype=int)[1]},
    ),
    "the other stage": ("fedpgm", 0, lambda sent: {"round": np.array(-1)}),
    "fewer long columns, whose noise is less": (
        "fedpgm_bins",
        0,
        lambda sent: {"long": sent["long"][:1]},
    ),
    "levels that are those of other runs": (
        "fedpgm_bins",
        1,
        lambda sent: {"levels": sent["levels"] + 1},
    ),
    "one column where there are five": (
        "independent",
        0,
        lambda sent: {"levels": sent["levels"][None]},
    ),
    "columns by other names": (
        "fedbn+structure",
        1,
        lambda sent: {"order": np.where(sent["order"] > 1, sent["order"] - 5, sent["order"])},
    ),
    "two columns where there are five": (
        "fedbn+structure",
        0,
        lambda sent: {"levels": sent["levels"][:2]},
    ),
    "a parent twice": (
        "fedbn+structure",
        1,
        lambda sent: {"candidates": np.repeat(sent["candidates"][:, :1], 2, axis=1)},
    ),
    "a million levels": (
        "evaluation",
        0,
        lambda sent: {"levels": with_entry(sent["levels"], 0, 10**6)},
    ),
    "a weight that no score can hold": (
        "evaluation",
        0,
        lambda sent: {"weights": with_entry(sent["weights"], 0, np.inf)},
    ),
}


@pytest.mark.parametrize(("key", "number", "changed"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_by_one_constant_error(key, number, changed):
    job, sent = sent_in(key, number)
    job.check(sent, number)
    with pytest.raises(BadBroadcast) as refused:
        job.check(sent | changed(sent), number)
    assert str(refused.value) == str(BadBroadcast())


@pytest.mark.parametrize("key", [key for key in CASES if key not in ONE_ROUND])
def test_a_round_is_not_answered_with_what_belongs_to_another(key):
    job, _, rounds, _ = honest(key)
    for number, each in enumerate(rounds):
        sent = copied(each.sent)
        others = [k for k, one in enumerate(rounds) if one.sent["round"] != sent["round"]]
        assert others
        for other in [*others, len(job.schedule())]:
            with pytest.raises(BadBroadcast):
                job.check(sent, other)
        job.check(sent, number)


# --- the parts of a check ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 4]),
        np.array([1, 2, -1]),
        np.array([1, 2]),
        np.array([[1, 2, 3]]),
        np.array([1.0, 2.0, 3.0]),
        np.array([1, 2, 3], object),
        np.array([1, 2, 3], ">i8"),
        [1, 2, 3],
        None,
        np.array(1),
    ],
    ids=repr,
)
def test_arrays_that_are_not_the_expected_ones_are_refused(values):
    for wanted in (np.array([1, 2, 3]), Values(np.int64, (3,), 1, 3)):
        check_arrays({"a": np.array([1, 2, 3])}, {"a": wanted})
        with pytest.raises(BadBroadcast):
            check_arrays({"a": values}, {"a": wanted})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(BadBroadcast):
        check_arrays({"a": np.array([0.0, value])}, {"a": Values(np.float64, (None,))})


def test_any_error_of_a_check_is_the_constant_one():
    def check(state, domain, config, round):
        return state["missing"][3]

    job, sent = sent_in("independent", 0)
    with pytest.raises(BadBroadcast):
        replace(job, method=replace(job.method, check_broadcast=check)).check(sent, 0)


@pytest.mark.parametrize("gap", [False, True])
def test_all_runs_that_noisy_counts_can_make_are_taken(gap):
    rng = stream(0)
    for size in (65, 100, 1024, 1025):
        for spread in (0.1, 10.0, 1e4):
            noisy = rng.normal(0, spread, size) + rng.multinomial(
                5000, rng.dirichlet([0.05] * size)
            )
            assert private_bins.are_runs(private_bins.runs(noisy, spread, gap=gap), size, gap=gap)
    for wrong in ([], [1, 2], [0, 2, 2], [0, 3, 1], list(range(66)), [0]):
        assert not private_bins.are_runs(np.array(wrong, np.int64), 1024, gap=True)
