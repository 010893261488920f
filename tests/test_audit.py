"""The audit on the private methods: bounds stay below claims, too little noise is noticed, and each
leak that an outside audit found is caught again where the old behaviour is brought back.

Bounds are judged at the confidence of an alarm (99.9 percent), since many are tested.
"""

import ast
import hashlib
from dataclasses import fields, replace
from datetime import date

import numpy as np
import pytest

from fedsynth_lib import audit
from fedsynth_lib.audit import (
    end_to_end,
    measure,
    neighbours,
    scores,
    shares,
    state,
    table,
)
from fedsynth_lib.audit.bounds import lower_bound
from fedsynth_lib.audit.fits import GAUSSIAN
from fedsynth_lib.audit.scenario import (
    RATE_OF_CONTROL,
    Scenario,
    Seen,
    overheard,
    parts_of,
    table_of,
)
from fedsynth_lib.bundle.commands import main
from fedsynth_lib.core import measured as core_measured
from fedsynth_lib.core import sources
from fedsynth_lib.core.accounting import discrete_laplace_share
from fedsynth_lib.core.contract import BadInput, Client, Noise, Privacy, stream
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.methods.marginals import fedpgm
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.tables.partition import split_clients
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import field_tables

SURE = {"confidence": measure.ALARM}


def usual_bound(pair, delta, **options):
    """The median bound of nine ways to halve the runs: what an audit finds. One way alone chooses a
    threshold that is worth little in up to eight of a hundred audits of a leak."""
    rng = stream(1, "halves")
    halved = [[rng.permutation(each) for each in pair] for _ in range(9)]
    return np.median([lower_bound(*each, delta, **options) for each in halved])


# --- a representative of each family


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "clients", "runs", "least"),
    [
        ("independent", 1, 1000, 1.5),
        ("independent", 3, 500, 1.0),
        ("fedbn", 1, 1500, 0.3),
        ("fedpgm", 1, 700, 1.5),
        ("fednaivebayes", 1, 800, 1.0),
        ("aim", 1, 500, 0.2),
    ],
)
def test_bounds_of_counts_and_marginals(key, clients, runs, least):
    """No bound above the claim; some power; with 0.3 times the noise the claim is refuted."""
    case = neighbours.case_of(key)
    claim, delta = case.privacy.epsilon, case.privacy.delta
    pair, fit = Scenario(case, clients).score_runs(runs), case.fit(Scenario(case))
    assert lower_bound(*pair, delta, **SURE) <= claim
    assert lower_bound(*pair, delta, fit=fit, **SURE) <= claim
    assert usual_bound(pair, delta, fit=fit) >= least
    control = Scenario(case, clients, RATE_OF_CONTROL).score_runs(
        {"independent": 1000, "fedbn": 300}.get(key, 150)
    )
    assert usual_bound(control, delta, fit=fit) > claim


def without_noise(state, client, config, noise, rng):
    """FedPGM's client, who says how large its share of the noise is, and adds none."""
    sent = fedpgm.client_step(state, client, config, None, rng)
    return replace(sent, arrays={"shares": np.array(client.shares)})


def silent_in(number):
    """FedPGM whose clients add no noise in one of its rounds."""

    def step(state, client, config, noise, rng):
        quiet = int(state["round"]) == number
        return (without_noise if quiet else fedpgm.client_step)(state, client, config, noise, rng)

    return step


def divided_among_all(state, client, config, noise, rng):
    return fedpgm.client_step(state, replace(client, shares=client.num_clients), config, noise, rng)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "clients", "caught", "settings"),
    [
        (fedpgm.client_step, 2, False, {}),
        (divided_among_all, 2, True, {}),
        # in the round that most of the budget is for
        (silent_in(0), 1, True, {"one_way_share": 0.1, "two_way_share": 0.8}),
        (silent_in(1), 1, True, {"one_way_share": 0.05, "two_way_share": 0.1}),
        (silent_in(1), 1, True, {"one_way_share": 0.05, "two_way_share": 0.1, "sure": 1e9}),
        (fedpgm.client_step, 1, False, {"one_way_share": 0.05, "two_way_share": 0.1, "sure": 1e9}),
    ],
    ids=["whole", "divided among all", "no noise first", "again", "columns again", "columns"],
)
def test_two_sums_are_audited_against_a_client_that_takes_its_noise_off(
    step, clients, caught, settings
):
    """Of several clients the last one knows its own noise: what it takes off it need not add."""

    def curious(state, client, config, noise, rng):
        knows = client.num_clients > 1 and client.index == client.num_clients - 1
        return (without_noise if knows else step)(state, client, config, noise, rng)

    # the score reads the sums alone, whatever the model is that is fitted to them
    case = neighbours.case_of("fedpgm", iterations=1, **settings)
    case = replace(case, method=replace(case.method, client_step=curious))
    pair = Scenario(case, clients).score_runs(2500 if step is divided_among_all else 400)
    fit = case.fit(Scenario(case))
    if caught:
        assert usual_bound(pair, 1e-5, fit=fit, confidence=0.9) > case.privacy.epsilon
    else:
        assert lower_bound(*pair, 1e-5, fit=fit, **SURE) <= case.privacy.epsilon


def counted_in_every_round(state, client, config, noise, rng):
    """FedPGM's client, who forgets in which rounds of a sum its rows were."""
    client.memory.clear()
    return fedpgm.client_step(state, client, config, noise, rng)


def by_rounds(scenario):
    """A score of gathered sums: of each round that the record moves, as runs without noise tell,
    with the noise of those who are in it. One of them is curious, and its noise is no protection."""
    shown = [scenario.run(present=present, multiplier=None).wire for present in (True, False)]
    told = [
        any((before[name] != after[name]).any() for name in before if name.startswith("sum/"))
        for before, after in zip(*shown, strict=True)
    ]
    present = [len(scenario.job.participants(*entry)) for entry in scenario.job.schedule()]

    def cells(scenario, seen):
        return [
            (count, moves, variance * number / max(1, number - 1))
            for wire, number, moved in zip(seen.wire, present, told, strict=True)
            if moved
            for count, moves, variance in neighbours.measured_cells(
                scenario, replace(seen, wire=[wire])
            )
        ]

    return scores.skellam(cells)(scenario)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "caught"), [(fedpgm.client_step, False), (counted_in_every_round, True)]
)
def test_gathered_sums_are_audited_against_rows_that_are_in_several_rounds(step, caught):
    """Client 0 is drawn for six of the eight rounds of the first sum, in three of them alone."""
    asked = {"iterations": 1, "participation": 0.5, "rounds_per_sum": 8}
    asked |= {"one_way_share": 0.1, "two_way_share": 0.8}  # most of the budget for the first sum
    case = neighbours.case_of("fedpgm", **asked)
    case = replace(case, score=by_rounds, method=replace(case.method, client_step=step))
    pair = Scenario(case, 2).score_runs(250)
    fit = case.fit(Scenario(case))
    bound = usual_bound(pair, 1e-5, fit=fit)
    assert 1 < bound < case.privacy.epsilon if not caught else bound > case.privacy.epsilon
    assert (lower_bound(*pair, 1e-5, fit=fit, **SURE) > case.privacy.epsilon) == caught


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "runs"), [("fedvae", 300), ("findiff", 300), ("dpctgan", 400), ("dpvaebgm", 200)]
)
def test_bounds_of_networks(key, runs, monkeypatch):
    monkeypatch.setattr(scores, "SHADOWS", 40)
    case = replace(
        neighbours.case_of(key, training_rounds=1), privacy=Privacy(4.0, 1e-5, noise_seed=None)
    )
    pair = Scenario(case).score_runs(100)
    assert lower_bound(*pair, 1e-5, fit=GAUSSIAN, **SURE) <= 4
    control = Scenario(case, 1, RATE_OF_CONTROL).score_runs(runs)
    assert usual_bound(control, 1e-5, fit=GAUSSIAN) > 4


def shown(arrays):
    return {name: (v.dtype, v.shape, v.tobytes()) for name, v in arrays.items()}


def over_the_wire(scenario, present):
    """One run of the apps in this process, with an ear at the server."""
    seen, job, case = Seen(), scenario.job, scenario.case
    method, rows = job.method, scenario.rows[present]

    def listened(state, updates, config, noise, rng):
        seen.wire.append(overheard(updates, case.sees))
        return method.server_step(state, updates, config=config, noise=noise, rng=rng)

    def noted(state, config):
        sent = method.broadcast(state, config=config)
        seen.sent.append(flower.public(sent))
        return sent

    tapped = replace(job, method=replace(method, server_step=listened, broadcast=noted))
    outcome = flower.Outcome()
    server = flower.server_app(tapped, outcome)
    flower.run_in_process(
        server, flower.client_app(tapped, lambda index: rows[index]), job.num_clients
    )
    seen.state, seen.charges, seen.traffic = outcome.state, outcome.charges, outcome.traffic
    return seen


def handed_on(case, clients, present):
    """The same through the front door, `settings.federated`; a finished Run."""
    table, parts = (made(case, clients, present=present) for made in (table_of, parts_of))
    sizes = (len(case.others) + 1,) * clients
    return settings.federated(
        case.method, table, parts, config=case.config, privacy=case.privacy, seed=0, sizes=sizes
    )


@pytest.mark.parametrize(("clients", "present"), [(1, True), (3, False)])
@pytest.mark.parametrize("key", neighbours.private_methods())
def test_runs_of_an_audit_show_what_the_apps_show(key, clients, present):
    """To the bit: what is sent, what of the answers is seen, what is charged, the bytes of all
    messages, and the state that is left, which is that of `settings.federated`."""
    case = neighbours.case_of(key)
    case = replace(case, privacy=replace(case.privacy, noise_seed="run"))
    alone = Scenario(case, clients).run(present=present)
    apps = over_the_wire(Scenario(case, clients), present)
    for kind in ("sent", "wire"):
        assert list(map(shown, getattr(alone, kind))) == list(map(shown, getattr(apps, kind)))
    assert alone.charges == apps.charges
    assert sorted(map(str, alone.traffic)) == sorted(map(str, apps.traffic))
    front = handed_on(case, clients, present).state
    assert shown(alone.state) == shown(apps.state) == shown(front)


def test_the_record_is_really_gone():
    case = neighbours.case_of("independent")
    more, less = (table_of(case, 3, present=present) for present in (True, False))
    assert len(more) == len(less) + 1 and [
        len(part) for part in parts_of(case, 3, present=True)
    ] == [4, 3, 3]
    assert Scenario(case, 3).sizes == (4, 4, 4)
    assert handed_on(case, 3, False).state["counts"].shape == (4,)


@pytest.mark.parametrize("key", [key for key in METHODS if key not in neighbours.private_methods()])
def test_a_method_without_noise_is_refused_by_name(key):
    with pytest.raises(
        BadInput,
        match=f"method {key}: it (adds no noise|releases without noise).*no claim to audit",
    ):
        neighbours.case_of(key)


def test_every_method_that_makes_a_claim_has_a_case():
    assert all(
        "no worst-case" not in neighbours.refusal(key)
        for key in METHODS
        if key not in neighbours.SETTINGS
    )


# --- what the outside audit found: each with the old behaviour as its control


class KnownDraws(flower.Job):
    """As it was: the noise is secret, but batches, latent vectors and dropout come from the run's
    seed, by position."""

    def stream(self, *path):
        return np.random.default_rng() if path[0] == "noise" else stream(self.seed, *path)


NUMBERS = Schema(tuple(Column(name, "numeric", low=0.0, high=1.0) for name in "abc"))
DRAWS = {  # networks whose gradients depend much on latent noise, dropout or diffusion
    "fedvae": {"hidden": (32,), "embedding": 16},
    "findiff": {"first_beta": 1e-4, "last_beta": 0.02, "steps": 50},
    "dpctgan": {"hidden": (8,)},
    "dpvaebgm": {"hidden": 32, "latent": 16, "dropout": 0.2, "moments": ((0.5, 0.3),) * 3},
}


def many_rows(key, number=400):
    """The case of a network at epsilon 1, one step on so many different rows, which are one
    batch."""
    case = neighbours.case_of(key, training_rounds=1, batch=number + 1, **DRAWS[key])
    case = replace(
        case,
        privacy=Privacy(1.0, 1e-5, noise_seed=None),
        others=(("no", "no"), ("yes", "no")) * 200,
    )
    if key == "findiff":
        case = replace(case, others=tuple((row / number,) for row in range(number)))
    if key == "dpvaebgm":
        rows = stream(1, "rows").random((number, 3)).tolist()
        case = replace(case, schema=NUMBERS, others=tuple(map(tuple, rows)), target=(1.0, 1.0, 1.0))
    return case


@pytest.mark.slow
@pytest.mark.parametrize("key", DRAWS)
def test_known_draws_by_position_break_the_claim(key, monkeypatch):
    """One row less, and every later row meets another draw: the sum of gradients moves by many
    clips."""
    monkeypatch.setattr(scores, "SHADOWS", 10)
    case = many_rows(key)
    known = Scenario(case, job_type=KnownDraws).score_runs(300 if key == "findiff" else 100)
    assert usual_bound(known, 1e-5, **SURE) > 1
    assert lower_bound(*Scenario(case).score_runs(50), 1e-5, **SURE) <= 1


def keyed(name: str, share: float) -> bool:
    """Whether a row is on the first side, by its own name alone."""
    return (
        int.from_bytes(hashlib.sha256(f"a key {name}".encode()).digest()[:4], "little")
        < share * 2**32
    )


@pytest.mark.parametrize("by_position", [True, False])
def test_a_split_by_position_and_seed_breaks_the_claim(by_position):
    """File, split into training rows and others, dealt to clients, `independent` with secret
    noise."""
    case = replace(neighbours.case_of("independent"), privacy=Privacy(1.0, noise_seed=None))
    case = replace(case, others=(("no", "no"), ("yes", "no"), ("no", "yes"), ("yes", "yes")) * 100)
    scenario = Scenario(case, 2)
    encoder = case.method.encoder(case.schema, case.config)
    rows = {}
    for present in (True, False):
        whole = table_of(case, 1, present=present)
        if by_position:
            order = stream(0, "split").permutation(len(whole))
            train = whole.take(order[: round(0.8 * len(whole))])
            parts = split_clients(train, "iid", 2, seed=0)
        else:
            names = [f"row {number}" for number in range(not present, len(whole) + (not present))]
            train = whole.take(np.flatnonzero([keyed(name, 0.8) for name in names]))
            first = np.array([keyed(f"{name}, dealt", 0.5) for name in names if keyed(name, 0.8)])
            parts = [np.flatnonzero(first), np.flatnonzero(~first)]
        rows[present] = [encoder.transform(train.frame.iloc[part]) for part in parts]
    scenario.__dict__["rows"] = rows
    pair = scenario.score_runs(400)
    if by_position:
        assert usual_bound(pair, 0.0, **SURE) > 1
    else:
        assert lower_bound(*pair, 0.0, **SURE) <= 1


def impossible(values, count):
    """Which doubles cannot be `count` plus a double of noise (Mironov 2012): y = c + z is on the grid
    of z, which is coarser than its own where |z| is larger than |y|."""
    # half: y - count is rounded too
    spacing = np.spacing(np.maximum(np.abs(values - count) / 2, np.finfo(float).tiny))
    return np.fmod(values, spacing) != 0


def score_of_bits(values):
    """+1 where no record is impossible, -1 where one record is, 0 where neither or both are."""
    return impossible(values, 0).astype(int) - impossible(values, 1).astype(int)


@pytest.mark.parametrize("method", [fedvae, findiff])
@pytest.mark.parametrize("whole", [False, True])
def test_low_bits_of_noisy_counts_as_they_cross_the_wire(method, whole):
    """Unrounded Gaussian noise on counts: 'certainly absent' is read off the bits at any
    epsilon."""
    config = method.Config(training_rounds=1, batch=4, histogram_bins=400)
    state = {"levels": np.array([0]), "round": np.array(0)}
    noise = Noise(1.2, np.random.default_rng(), whole=whole)
    released = []
    # an empty cell and one with the record: many cells, one release each
    for rows in ([[0.0]], [[0.999]]):
        parts = [
            method.client_step(
                state,
                Client(np.array(rows * k), 0, 1, size=4),
                config=config,
                noise=noise,
                rng=None,
            )
            for k in [1] * 400
        ]
        released.append(np.stack([part.arrays["histograms"][0] for part in parts]))
    absent, there = released[0][:, -1], released[1][:, -1]
    empty = np.concatenate([released[0][:, 1:-1].ravel()[:40_000]])
    bound = lower_bound(score_of_bits(np.resize(there, 400)), score_of_bits(absent), 1e-5)
    fires = (score_of_bits(empty) == -1).mean()
    assert (fires > 0.005, fires == 0) == (not whole, whole)
    assert whole or fires > 1e-5  # more than delta: no epsilon holds
    assert not whole or bound == 0


@pytest.mark.parametrize(("curious", "loss"), [(0, 0.606), (1, 0.1)])
def test_a_participant_that_subtracts_its_own_share(curious, loss):
    """Two clients at 0.1 a count: with shares of 1 / 2 the other's half of the noise costs 0.606
    (exact)."""
    asked = Privacy(0.1, curious=curious).shares(2)
    found = shares.largest_loss(10.0, honest=1, shares=asked)
    assert found == pytest.approx(loss, abs=1e-3)
    assert (found <= 0.1 + 1e-6) == bool(curious)


@pytest.mark.parametrize("clients", [3, 5, 10])
def test_one_curious_participant_of_several_is_within_the_claim(clients):
    asked = Privacy(0.1).shares(clients)
    assert shares.largest_loss(10.0, honest=clients - 1, shares=asked) <= 0.1 + 1e-6
    assert shares.largest_loss(10.0, honest=clients - 1, shares=clients) > 0.1


def test_the_exact_loss_is_that_of_the_shares_that_are_drawn():
    drawn = discrete_laplace_share(1.0, 2, (400_000,), rng=stream(1, "shares"))
    ratio = np.log((drawn == 0).mean() / (drawn == 1).mean())
    assert ratio == pytest.approx(shares.largest_loss(1.0, honest=1, shares=2), abs=0.05)


# --- the table


def test_the_committed_table_has_every_private_method_and_power():
    """FedBN is tight; marginals show half of their claim by the fit, networks something; no line
    exceeds its claim, or names code that has changed since."""
    kept = {(line.method, line.clients): line for line in table.load()}
    assert not (old := of_other_code(kept.values())), old
    assert not any(line.verdict == table.EXCEEDED for line in kept.values())
    for key in neighbours.private_methods():
        line = kept[key, 1]
        least = {"fedbn": 0.85, "independent": 0.85}.get(
            key, 0.5 if line.sees == "the model" else 0.0
        )
        assert line.verdict == core_measured.BELOW and line.lower > least * line.epsilon, key


def of_other_code(lines):
    """The lines whose digest is not that of the code as it is now, and the remedy; "" where there
    are none. A line without a digest speaks of no code."""
    names = [
        f"{each.method} ({each.clients})"
        for each in lines
        if each.digest and not table.is_current(each)
    ]
    remedy = (
        "measure these lines of core/audit.csv again with `./run_all.sh audit`, or empty their "
        "digests"
    )
    return f"{', '.join(names)}: the code has changed; {remedy}" * bool(names)


@pytest.fixture
def nothing_audited(tmp_path, monkeypatch):
    """A home of its own, no committed line, and nothing but bounds to measure."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    committed = tmp_path / "committed" / "audit.csv"
    committed.parent.mkdir()
    committed.write_text(",".join(field.name for field in fields(table.Line)))
    monkeypatch.setattr(core_measured, "COMMITTED", committed)
    monkeypatch.setattr(table, "CHECKS", {})


def test_the_committed_lines_are_told_wherever_results_go(tmp_path, monkeypatch):
    kept = table.load()
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    assert table.load() == kept and len(kept) == 32
    assert core_measured.path_of_lines() == tmp_path / "data" / "results" / "audit.csv"


QUICK = ["audit", "--methods", "independent", "--runs", "5"]


def test_lines_are_kept_and_found_again(nothing_audited, capsys):
    assert audit.measured("independent") is None
    assert main(QUICK) == 0
    first = table.load()
    assert [(line.method, line.clients) for line in first] == [
        ("independent", 1),
        ("independent", 3),
    ]
    assert capsys.readouterr().out.startswith(
        "bounds of methods (clients) measured now: independent (1), independent (3)\n"
    )
    # nothing runs again
    assert main(QUICK) == 0 and table.load() == first
    assert capsys.readouterr().out.startswith(
        f"bounds of methods (clients) measured now: nothing; on {date.today()}, same code: "
    )
    kept = replace(first[0], verdict=core_measured.BELOW)
    table.save(kept)
    assert audit.measured("independent") == (4.0, kept.lower, kept.runs)
    table.save(replace(kept, verdict=core_measured.WEAK))
    assert audit.measured("independent") is None  # a control that was missed says nothing
    table.save(replace(kept, verdict=table.EXCEEDED))
    assert main(QUICK) == 1
    assert main(["audit", "--methods", "ctgan"]) == 2 and "adds no noise" in capsys.readouterr().err


@pytest.mark.slow
def test_a_line_of_other_code_is_told_nowhere_and_measured_again(nothing_audited, capsys):
    assert main(QUICK) == 0
    first = [replace(line, verdict=core_measured.BELOW, lower=3.0) for line in table.load()]
    for line in first:
        table.save(line)
    method = METHODS["independent"]
    said = settings.central(method, rows_of(method), privacy=Privacy(1.0)).statement["audit"]
    assert said == {"claimed": 4.0, "lower": 3.0, "runs": first[0].runs}
    assert list(field_tables.audited({"Independent": "independent"}).index) == ["Independent"]
    for line in first:
        table.save(replace(line, digest="of other code"))
    capsys.readouterr()
    assert table.current() == [] and len(table.load()) == 2
    assert (
        settings.central(method, rows_of(method), privacy=Privacy(1.0)).statement["audit"] is None
    )
    assert field_tables.audited({"Independent": "independent"}).empty
    assert main([*QUICK[:3], "--minutes", "0"]) == 0
    assert capsys.readouterr().out == (
        "bounds of methods (clients) measured now: nothing; "
        "not with this code: independent (1), independent (3)\n"
    )
    assert main(QUICK) == 0
    assert "now: independent (1), independent (3)\n" in capsys.readouterr().out
    assert all(line in table.current() for line in table.load())


def rows_of(method):
    return table_of(neighbours.case_of("independent"), 1, present=True)


def test_no_time_left_begins_no_line(nothing_audited, capsys):
    assert main(["audit", "--methods", "independent", "--minutes", "0"]) == 0
    assert "no time left" in capsys.readouterr().err and table.load() == []


# --- what a line rests on


FEDPGM_RESTS_ON = (
    "methods.marginals.fedpgm",
    "methods.marginals.graphical_model",
    "tables.encode",
    "core.accounting",
    "core.privacy_loss",
    "federation.rounds",
    "audit.scores",
    "audit.neighbours",
)
AND_NOT = ("methods.bayes.bayesian_network", "core.statement", "audit.table", "federation.masks")


@pytest.mark.parametrize("name", [*FEDPGM_RESTS_ON, *AND_NOT])
def test_a_line_rests_on_its_method_its_audit_and_what_these_import(name, monkeypatch):
    read, method = sources._read, METHODS["fedpgm"]
    before = core_measured.digest_of(method)

    def changed(module):
        text, imported = read(module)
        return text + "changed" * (module == f"fedsynth_lib.{name}"), imported

    monkeypatch.setattr(sources, "_read", changed)
    assert (core_measured.digest_of.__wrapped__(method) != before) == (name in FEDPGM_RESTS_ON)


def test_a_line_rests_on_settings():
    method = METHODS["fedpgm"]
    other = method.variant("fedpgm", again=3.0)
    assert core_measured.digest_of(other) != core_measured.digest_of(method)
    assert core_measured.digest_of(method.variant("fedpgm")) == core_measured.digest_of(method)


PROGRAM = '''
"""A module."""
def twice(x):
    """Twice x."""
    # by two
    return f"{x!r:>{4}}" * 2
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("# by two", "# and nothing else", True),
        ('"""Twice x."""', '"""x, two times."""', True),
        ('    """Twice x."""\n', "", True),
        ('"""A module."""', "", True),
        ("* 2", "*  (2)", True),
        ("* 2", "* 3", False),
        ("* 2", "+ 2", False),
        ("!r", "!s", False),
        ("(x)", "(x=1)", False),
        ("def twice", "async def twice", False),
    ],
)
def test_prose_and_layout_are_no_part_of_a_program(old, new, same):
    assert old in PROGRAM
    trees = (ast.parse(text) for text in (PROGRAM, PROGRAM.replace(old, new)))
    one, other = map(sources.program, trees)
    assert (one == other) == same


# --- leaks that the quick part must find


def half_the_noise_in_round_2(patch):
    draw = fedpgm._drawn

    def changed(parts, *rest):
        less = [part._replace(deviation=part.deviation / 2) for part in parts]
        return draw(less if parts[0].what == fedpgm.AGAIN else parts, *rest)

    patch.setattr(fedpgm, "_drawn", changed)


def an_exact_count_in_the_state(patch):
    held = {}

    def counted(state, client, config, noise, rng):
        held[client.index] = len(client.rows)
        return fedpgm.client_step(state, client, config, noise, rng)

    def kept(state, updates, config, noise, rng):
        state, charges = fedpgm.server_step(state, updates, config, noise, rng)
        return {**state, "held": np.array(sum(held.values()))}, charges

    broken = replace(METHODS["fedpgm"], client_step=counted, server_step=kept)
    patch.setitem(METHODS._registered, "fedpgm", broken)


def ranges_from_rows(patch):
    planned = settings.planned

    def changed(method, table, parts, **options):
        limits = {
            column.name: {"low": own.min(), "high": own.max()}
            for column in table.schema.columns
            if column.kind == "numeric" and len(own := table.frame[column.name])
        }
        columns = (replace(c, **limits.get(c.name, {})) for c in table.schema.columns)
        schema = replace(table.schema, columns=tuple(columns))
        return planned(method, replace(table, schema=schema), parts, **options)

    patch.setattr(settings, "planned", changed)


@pytest.mark.parametrize(
    ("leak", "sentence"),
    [
        (half_the_noise_in_round_2, "round 1: counts of chosen tables: charged for noise"),
        (an_exact_count_in_the_state, "fedpgm: state/held"),
        (ranges_from_rows, "fedpgm: the schema follows rows"),
    ],
)
def test_the_quick_audit_finds_a_leak(leak, sentence, monkeypatch, capsys):
    monkeypatch.delitem(table.CHECKS, FILES)
    leak(monkeypatch)
    assert main(["audit", "--quick", "--methods", "fedpgm"]) == 1
    assert sentence in capsys.readouterr().out


FILES = "the same of rows that are released through files"


@pytest.mark.slow
def test_the_quick_audit_finds_nothing_in_any_method_and_says_what_it_cannot_tell(capsys):
    assert main(["audit", "--quick"]) == 0
    out = capsys.readouterr().out
    assert [f"{name}: nothing found" in out for name in table.CHECKS] == [True] * 4
    assert FILES in table.CHECKS and "They find no sensitivity that is argued wrongly" in out


def test_a_check_that_looks_at_none_of_the_methods_says_so(monkeypatch, capsys):
    monkeypatch.setattr(table, "CHECKS", {FILES: table.CHECKS[FILES]})
    assert main(["audit", "--quick", "--methods", "independent"]) == 0
    out = capsys.readouterr().out
    assert f"{FILES}: not looked at for these methods" in out and "nothing found" not in out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("clamped", "rows come to the method as other numbers when a row is added"),
        ("statement_of", "the privacy statement follows rows"),
    ],
)
def test_what_follows_rows_on_the_way_to_a_method_or_back_is_found(name, sentence, monkeypatch):
    made = getattr(settings, name)

    def by_rows(first, *rest, **options):
        if name == "clamped":  # ages cut at the mean of the rows
            return first.assign(age=first["age"].clip(upper=int(first["age"].mean())))
        return made(first, *rest, **options) | {"rows": rows[-1]}

    rows, of = [], settings.flower.client_app

    def client_app(job, load_rows, *rest):
        rows.append(sum(len(load_rows(index)) for index in range(job.num_clients)))
        return of(job, load_rows, *rest)

    monkeypatch.setattr(settings.flower, "client_app", client_app)
    monkeypatch.setattr(settings, name, by_rows)
    assert end_to_end.audit(state.usual(neighbours.case_of("independent"))) == [sentence]
