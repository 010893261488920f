"""Drawn is charged: true of every method, and each fault of that kind that was tried is noticed.

A fault is put into the code that a method runs, for one test.
"""

import re
from dataclasses import replace

import numpy as np
import promises
import pytest

from fedsynth_lib.audit import drawn
from fedsynth_lib.core import dp_sgd
from fedsynth_lib.core.contract import Charge, Update, stream
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.methods.gan import budget, training
from fedsynth_lib.methods.gan import encoding as gan_encoding
from fedsynth_lib.methods.marginals import distaim, fedpgm, flaim, independent, marginal_state
from fedsynth_lib.methods.vae import encoding as vae_encoding
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.methods.vae_bgm import private_mixture, vae_bgm
from fedsynth_lib.methods.vae_bgm import training as bgm_training


def found(key, table, **replaced):
    """What the audit says of a method, some of whose verbs may be exchanged."""
    method = METHODS[key]
    own = replace(table, frame=table.frame.head(300 if "ctgan" in key or key in NETWORKS else 1200))
    return drawn.audit(
        replace(method, **replaced),
        own,
        config=promises.everyone(method),
        privacy=promises.budget(method, 0.3),
    )


NETWORKS = "fedvae", "findiff", "dpvaebgm"


def scaled(function, name, by):
    """The function with one of its named arguments multiplied."""
    return lambda *args, **named: function(*args, **named | {name: by * named[name]})


def with_shares(function, shares):
    """A share of noise as one of so many clients."""
    return lambda scale, _, shape, rng: function(scale, shares, shape, rng=rng)


def skellam_noise(change):
    """FedPGM draws for other parts of a sum than it charges; change(part, all parts of the sum)."""
    return changed(
        fedpgm,
        "_drawn",
        lambda draw: lambda parts, *rest: draw([change(part, parts) for part in parts], *rest),
    )


def less_noise(what, by):
    """FedPGM's noise on this part of a sum is so many times as wide as is charged."""
    return skellam_noise(
        lambda part, _: part._replace(deviation=part.deviation * (by if part.what == what else 1))
    )


def the_same_noise(draw):
    """All tables of a sum have the noise of the first one's first numbers."""
    return lambda *given: np.resize((made := draw(*given))[:30], made.size)


def the_noise_of_the_round_before(draw):
    def kept(parts, config, client, noise):
        made = draw(parts, config, client, noise)
        before = client.memory.setdefault("noise", made)
        return np.resize(before, made.size) if parts[0].what == fedpgm.AGAIN else made

    return kept


def by_the_true_batch(module):
    """The noisy mean of gradients is divided by as many records as the batch has."""

    def put(patch):
        class Tape(dp_sgd.Tape):
            def backward(self, losses, **told):
                return super().backward(losses, **told | {"expected_records": max(len(losses), 1)})

        patch.setattr(module, "Tape", Tape)

    return put


def told(module, **factors):
    """Steps of private gradients are told other numbers than are charged."""

    def put(patch):
        class Tape(dp_sgd.Tape):
            def backward(self, losses, **named):
                changed = {name: by * named[name] for name, by in factors.items()}
                return super().backward(losses, **named | changed)

        patch.setattr(module, "Tape", Tape)

    return put


def normals(by):
    """Noise of another width inside of the step itself."""

    def put(patch):
        made = dp_sgd.Tape._normals
        smaller = lambda tape, rng: {p: by * v for p, v in made(tape, rng).items()}  # noqa: E731
        patch.setattr(dp_sgd.Tape, "_normals", smaller)

    return put


def one_draw_for_all_steps(patch):
    """Each step of the private mixture adds the same noise."""
    release = private_mixture.gaussian

    def again(values, *, noise_multiplier, l2_sensitivity, rng):
        fresh = release(np.zeros(values.shape), **options(noise_multiplier, l2_sensitivity, rng))
        kept.setdefault("noise", fresh)
        return values + kept["noise"]

    def options(noise_multiplier, l2_sensitivity, rng):
        rng = stream(0) if kept else rng
        return {"noise_multiplier": noise_multiplier, "l2_sensitivity": l2_sensitivity, "rng": rng}

    kept = {}
    patch.setattr(private_mixture, "gaussian", again)


def one_number_for_a_sum(patch):
    """A trusted server adds one draw to all counts of a sum."""

    def noisy(counts, sigma, noise):
        return counts if noise is None else counts + np.rint(noise.rng.normal(0, sigma))

    patch.setattr(marginal_state, "noisy", noisy)


def attribute(module, name, value):
    return lambda patch: patch.setattr(module, name, value)


def changed(module, name, make):
    return lambda patch: patch.setattr(module, name, make(getattr(module, name)))


def fewer_times(charge):
    return lambda *given: replace(made := charge(*given), times=max(1, made.times // 2))


MULTIPLIER, WIDE = "noise_multiplier", "l2_sensitivity"
FAULTS = {
    "a table measured r times with the noise of one": (
        "fedpgm",
        skellam_noise(lambda part, _: part._replace(repeats=1)),
        "a row costs",
    ),
    "pairs with the noise of single columns": (
        "fedpgm",
        skellam_noise(lambda part, parts: part._replace(deviation=parts[0].deviation)),
        "counts of all pairs: charged",
    ),
    "half the noise in the second sum": (
        "fedpgm",
        less_noise(fedpgm.AGAIN, 0.5),
        "round 1: counts of chosen tables: charged for noise",
    ),
    "a tenth less noise in the second sum": (
        "fedpgm",
        less_noise(fedpgm.AGAIN, 0.9),
        "round 1: ",
    ),
    "half the noise on fine counts": (
        "fedpgm_bins",
        less_noise(fedpgm.FINE, 0.5),
        "round 0: fine counts of long columns: charged for noise",
    ),
    "noise of all clients, though one is curious": (
        "fedpgm",
        changed(fedpgm, "skellam_share", lambda draw: with_shares(draw, 3)),
        "drawn is",
    ),
    "the same, of counts with Laplace noise": (
        "independent",
        changed(independent, "discrete_laplace_share", lambda draw: with_shares(draw, 3)),
        "drawn is",
    ),
    "the same, of a network's tables": (
        "fedbn",
        changed(bayesian_network, "discrete_laplace_share", lambda draw: with_shares(draw, 3)),
        "drawn is",
    ),
    "noise drawn once for all tables": (
        "fedpgm",
        changed(fedpgm, "_drawn", the_same_noise),
        "not independent",
    ),
    "noise of the round before": (
        "fedpgm",
        changed(fedpgm, "_drawn", the_noise_of_the_round_before),
        "not independent",
    ),
    "the noise of one column for all of them": (
        "independent",
        changed(
            independent,
            "discrete_laplace_share",
            lambda draw: lambda scale, *rest, rng: draw(scale / 5, *rest, rng=rng),
        ),
        "a row costs",
    ),
    "the noise of one table for all of a network": (
        "fedbn",
        changed(
            bayesian_network,
            "discrete_laplace_share",
            lambda draw: lambda scale, *rest, rng: draw(scale / 3, *rest, rng=rng),
        ),
        "a row costs",
    ),
    "half the measurements are charged": (
        "fedbn",
        changed(bayesian_network, "_tables_charge", fewer_times),
        "a row costs",
    ),
    "histograms with the sensitivity of one column": (
        "fedvae",
        attribute(
            vae_encoding,
            "histogram_charges",
            lambda m, columns, *rest: [
                Charge("h", "gaussian", float(budget.histogram_noise(m, *rest)))
            ],
        ),
        "a row costs",
    ),
    "the same of the CTGAN family": (
        "dpfedctgan",
        changed(gan_encoding, "gaussian_counts", lambda add: scaled(add, WIDE, 1 / np.sqrt(5))),
        "drawn is",
    ),
    "moments with noise for a mean, not a sum": (
        "dpvaebgm",
        changed(vae_bgm, "gaussian_counts", lambda add: scaled(add, WIDE, 0.1)),
        "drawn is",
    ),
    "half the noise in the mixture": (
        "dpvaebgm",
        changed(private_mixture, "gaussian", lambda add: scaled(add, MULTIPLIER, 0.5)),
        "gaussian noise of",
    ),
    "one draw for all steps of the mixture": (
        "dpvaebgm",
        one_draw_for_all_steps,
        "0 draws, 4 charged",
    ),
    "FinDiff divides by the true batch": ("findiff", by_the_true_batch(findiff), "follow the rows"),
    "FedVAE divides by the true batch": ("fedvae", by_the_true_batch(fedvae), "follow the rows"),
    "CTGAN divides by the true batch": ("dpctgan", by_the_true_batch(training), "follow the rows"),
    "VAE-BGM divides by the true batch": (
        "dpvaebgm",
        by_the_true_batch(bgm_training),
        "follow the rows",
    ),
    "twice the clip for the same noise": (
        "findiff",
        told(findiff, clip=2, noise_multiplier=0.5),
        "0 charges for gradients|noise .* charged is",
    ),
    "half the noise of gradients": (
        "feddpctgan",
        told(training, noise_multiplier=0.5),
        "noise .* charged is",
    ),
    "half the noise inside of a step": ("fedvae", normals(0.5), "charged for noise .* drawn is"),
    "a tenth less inside of a step": ("findiff", normals(0.9), "charged for noise .* drawn is"),
    "twice the rows in a batch": (
        "findiff",
        changed(
            findiff,
            "poisson_batches",
            lambda draw: lambda rows, rate, *rest, rng: draw(rows, 2 * rate, *rest, rng=rng),
        ),
        "rate",
    ),
    "twice the steps": (
        "fedvae",
        changed(
            fedvae,
            "poisson_batches",
            lambda draw: lambda rows, rate, steps, rng: draw(rows, rate, 2 * steps, rng=rng),
        ),
        "number of steps",
    ),
    "half the noise at a trusted server": (
        "aim",
        changed(marginal_state, "noisy", lambda add: lambda c, s, noise: add(c, s / 2, noise)),
        "gaussian noise of",
    ),
    "half the noise of a choice": (
        "aim",
        changed(
            distaim.marginal_state,
            "choose",
            lambda draw: lambda a, b, noise, s, rng: draw(a, b, noise / 2, s, rng),
        ),
        "exponential noise of",
    ),
    "a choice with the sensitivity of a score without a proxy": (
        "augflaim_private",
        changed(
            flaim.marginal_state,
            "choose",
            lambda draw: lambda a, b, noise, s, rng: draw(a, b, noise, s / 2, rng),
        ),
        "exponential noise of",
    ),
    "one number for all counts of a sum": ("fednaivebayes", one_number_for_a_sum, "have noise for"),
}


SETTINGS = [
    ("fedbn", {"private_structure": True}),
    ("fedbn", {"private_structure": True, "bins": "private", "fine_share": 0.2}),
    ("aim", {"bins": "private"}),
    ("distaim", {"bins": "private", "annealed": True, "first_rounds": 2}),
    ("naiveflaim", {"bins": "private", "local_steps": 2}),
    ("augflaim_private", {"bins": "private", "fine_share": 0.2}),
    ("flaim_random", {"bins": "private"}),
    ("fednaivebayes", {"bins": "private"}),
    ("augflaim_private", {"local_steps": 2}),
    ("naiveflaim", {"annealed": True, "first_rounds": 2}),
    ("aim", {"annealed": True, "first_rounds": 2}),
    ("fedpgm", {"again": 5.0, "two_way_share": 0.1}),
    ("fedpgm", {"sure": 1e9}),
    ("findiff", {"embeddings": "trained", "strategy": "fedprox"}),
    ("dpvaebgm", {"technique": "fedavg", "networks": 2}),
]


@pytest.mark.parametrize(("key", "changes"), SETTINGS)
def test_other_settings_draw_what_they_charge(key, changes, table):
    """The defaults of all methods: test_methods.py."""
    method, plain = METHODS[key], promises.everyone(METHODS[key])
    own = replace(table, frame=table.frame.head(300))
    privacy = promises.budget(method, 0.3)
    assert drawn.audit(method, own, config=replace(plain, **changes), privacy=privacy) == []


@pytest.mark.slow
@pytest.mark.parametrize(("key", "put", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_between_what_is_drawn_and_what_is_charged_is_noticed(
    key, put, message, table, monkeypatch
):
    put(monkeypatch)
    sentences = found(key, table)
    assert any(re.search(message, each) for each in sentences), sentences


FINE = (73 + 1024,)  # levels of the table's long columns


def half_on_fine_counts(draw):
    """Noise of half the width on FINE numbers alone."""

    def smaller(scale, shares, shape, rng):
        return draw(scale / 2 if shape == FINE else scale, shares, shape, rng=rng)

    return smaller


def half_of_fine_counts(add):
    """The same at a trusted server."""
    return lambda counts, sigma, noise: add(
        counts, sigma / 2 if np.shape(counts) == FINE else sigma, noise
    )


@pytest.mark.parametrize(
    ("key", "module", "name", "fault"),
    [
        ("fedbn", bayesian_network, "discrete_laplace_share", half_on_fine_counts),
        ("aim", marginal_state, "noisy", half_of_fine_counts),
        ("augflaim_private", marginal_state, "noisy", half_of_fine_counts),
    ],
)
def test_half_the_noise_on_fine_counts_is_noticed(key, module, name, fault, table, monkeypatch):
    changed(module, name, fault)(monkeypatch)
    method, plain = METHODS[key], promises.everyone(METHODS[key])
    few = {"private_structure": True} if key == "fedbn" else {"rounds": 2}
    config = replace(plain, bins="private", **few)
    own, privacy = replace(table, frame=table.frame.head(300)), promises.budget(method, 0.3)
    sentences = drawn.audit(method, own, config=config, privacy=privacy)
    assert sentences and all(each.startswith("round 0: ") for each in sentences), sentences


def test_exact_numbers_beside_noisy_ones_are_noticed(table):
    """A sum that has no noise of its own, beside one that has."""

    def also(state, client, config, noise, rng):
        update = independent.client_step(state, client, config, noise, rng)
        own = np.array([len(client.rows)])
        return replace(update, summed=update.summed | {"rows": own})

    assert found("independent", table, client_step=also) == [
        "round 0: 1 numbers move with a row and have no noise"
    ]


@pytest.mark.parametrize("key", ["findiff", "dpfedctgan", "fedvae", "dpvaebgm"])
@pytest.mark.parametrize("summed", [False, True])
def test_a_count_beside_gradients_is_noticed(key, summed, table):
    """With hardly any noise, drawn from a stream that is nobody's."""
    method = METHODS[key]

    def also(state, client, config, noise, rng):
        with drawn.private_steps() as steps:
            update = method.client_step(state, client, config=config, noise=noise, rng=rng)
        near = len(client.rows) + np.random.default_rng().normal(0, 0.01)
        if not steps:
            return update
        if summed:
            return replace(update, summed=update.summed | {"rows held": np.array([round(near)])})
        return replace(update, arrays=update.arrays | {"rows held": np.array([near])})

    sentences = found(key, table, client_step=also)
    assert sentences and {each.split(": ", 1)[1] for each in sentences} == {
        "rows held: sent beside the gradients, and not charged"
    }


def test_what_follows_rows_in_a_round_without_a_charge_is_noticed(table):
    """FedPGM with a further round, in which nothing is charged and a count is sent."""
    method = METHODS["fedpgm"]

    def also(state, client, config, noise, rng):
        if "counted" not in state:
            return method.client_step(state, client, config=config, noise=noise, rng=rng)
        near = len(client.rows) + np.random.default_rng().normal(0, 0.01)
        return Update({"rows held": np.array([near])})

    def served(state, updates, config, noise, rng):
        if "counted" in state:
            return {**state, "finished": np.array(True)}, []
        state, charges = method.server_step(state, updates, config=config, noise=noise, rng=rng)
        more = {"counted": np.array(True)} if state.pop("finished", False) else {}
        return state | more, charges

    verbs = {
        "client_step": also,
        "server_step": served,
        "schedule": lambda domain, config: [(number, 1.0) for number in range(3)],
        "broadcast": lambda state, config: (
            method.broadcast(state, config=config)
            | {name: state[name] for name in state if name == "counted"}
        ),
        "check_broadcast": lambda state, domain, config, round: None,
    }
    assert found("fedpgm", table, **verbs) == [
        "round 2: what is sent follows rows, and nothing is charged"
    ]


def test_noise_that_is_charged_and_not_drawn_is_noticed(table):
    def silent(state, client, config, noise, rng):
        return independent.client_step(state, client, config, None, rng)

    (sentence,) = found("independent", table, client_step=silent)
    assert sentence.endswith("charged, and no noise is drawn")


def test_draws_are_those_of_the_stream_and_are_told_in_any_order():
    """A run that is listened to is the same run."""
    heard = drawn.Listening(stream(1, "heard"))
    plain = stream(1, "heard")
    for rng in (heard, plain):
        rng.random(3)
    assert np.array_equal(heard.normal(0, 2.5, (2, 3)), plain.normal(0, 2.5, (2, 3)))
    assert np.array_equal(heard.poisson(4.0, 5), plain.poisson(4.0, 5))
    assert drawn.in_words(heard.draws[::-1]) == "normal 2.5, poisson 4"
