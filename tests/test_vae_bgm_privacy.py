"""VAE-BGM's private training: the bound and the noise of a step, what is charged, and what the
statement names."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from opacus.accountants.analysis import rdp
from vae_bgm_toys import FAST, PRIVATE, TECHNIQUES, a_network, parts_of, rows_of

from fedsynth_lib.core.contract import Noise, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.vae_bgm import private_mixture, vae_bgm
from fedsynth_lib.methods.vae_bgm import training as vae_bgm_training
from fedsynth_lib.methods.vae_bgm.budget import GIVEN, GRADIENTS, MIXTURE, MOMENTS
from fedsynth_lib.methods.vae_bgm.training import train_all
from fedsynth_lib.methods.variants import dp_vae_bgm


@pytest.fixture
def plain_descent(monkeypatch):
    """Steps of length 1 along the gradient, so that parameters tell what the gradient was."""
    sgd = torch.optim.SGD
    monkeypatch.setattr(torch.optim, "Adam", lambda parameters, **_: sgd(parameters, lr=1.0))


def moved(rows, own, config, multiplier, noise_seed=4):
    """How far private training moves the parameters."""
    network = a_network(config)
    before = weights.flat(network).copy()
    with weights.seeded(stream(4), torch.device("cpu")):
        train_all([network], rows, own, config, Noise(multiplier, stream(noise_seed)), stream(4))
    return weights.flat(network) - before


ONE_STEP = replace(PRIVATE, technique="fedavg", local_epochs=1, batch=1000, dropout=0.0)


def test_without_noise_and_clip_a_private_step_is_the_ordinary_gradient(plain_descent):
    rows = rows_of(50)
    found = moved(rows, 30, replace(ONE_STEP, clip=float("inf")), 0.0)
    network = a_network()
    with weights.seeded(stream(4), torch.device("cpu")):
        network.losses(torch.from_numpy(rows)).mean().backward()
    expected = -torch.cat([p.grad.flatten() for p in network.parameters()]).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("wrong_by", [0.0, 50.0, 1e3, 1e6, 1e30])
def test_one_record_more_moves_the_sum_of_a_step_by_the_clip_at_most(
    plain_descent, monkeypatch, wrong_by
):
    """The sum is the movement times the expected number of rows. Where a gradient overflows the row
    is left out."""
    latent = torch.from_numpy(np.random.default_rng(7).normal(size=(25, 2)).astype(np.float32))
    monkeypatch.setattr(torch, "randn_like", lambda means: latent[: len(means)])
    rows, config = rows_of(25), replace(ONE_STEP, clip=0.7)
    rows[-1, :2] += wrong_by
    less, more = (moved(rows[:number], number, config, 0.0) * number for number in (24, 25))
    assert np.isfinite(more).all() and np.linalg.norm(less) > 1
    assert (0.69 if wrong_by < 100 else 0.0) <= np.linalg.norm(more - less) <= 0.7 * (1 + 1e-4)


def test_noise_of_a_step_has_the_claimed_deviation(plain_descent):
    config = replace(ONE_STEP, clip=0.7, hidden=64)
    rows = rows_of(50)
    noise = moved(rows, 20, config, 5.0) - moved(rows, 20, config, 0.0)
    assert noise.std() == pytest.approx(5.0 * 0.7 / 50, rel=5 / (2 * len(noise)) ** 0.5)
    other = moved(rows, 20, config, 5.0, noise_seed=5) - moved(rows, 20, config, 0.0, noise_seed=5)
    # drawn anew from another stream
    assert abs(np.corrcoef(noise, other)[0, 1]) < 5 / len(noise) ** 0.5


@pytest.fixture
def spied(monkeypatch):
    """Batches of private steps and their options, and the Gaussian releases of mixtures and
    moments."""
    steps, releases = [], Counter()
    backward, draws = (
        vae_bgm_training.Tape.backward,
        {
            (private_mixture, "gaussian"): MIXTURE,
            (vae_bgm, "gaussian_counts"): MOMENTS,
        },
    )

    def stepped(self, losses, **options):
        steps.append((len(losses), options))
        return backward(self, losses, **options)

    monkeypatch.setattr(vae_bgm_training.Tape, "backward", stepped)
    for (module, name), what in draws.items():
        drawn_by = getattr(module, name)

        def released(values, *, noise_multiplier, what=what, draw=drawn_by, **options):
            releases[what, round(noise_multiplier, 9)] += 1
            return draw(values, noise_multiplier=noise_multiplier, **options)

        monkeypatch.setattr(module, name, released)
    return steps, releases


def test_private_batches_are_drawn_by_coins_over_own_and_received_rows(spied):
    config = replace(PRIVATE, technique="fedavg", local_epochs=60, batch=40)
    fitted = train_all([a_network()], rows_of(300), 200, config, Noise(2.0, stream(0)), stream(0))
    sizes = np.array([size for size, _ in spied[0]])
    assert len(fitted) == 200 and len(sizes) == 200 // 40 * 60
    assert sizes.mean() == pytest.approx(60, abs=5 * (60 * 0.8 / 300) ** 0.5)
    assert sizes.var() == pytest.approx(60 * 0.8, rel=5 * (2 / 300) ** 0.5)
    told = {
        (o["clip"], o["noise_multiplier"], round(o["expected_records"], 9)) for _, o in spied[0]
    }
    assert told == {(1.0, 2.0, 60.0)}


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("networks", [1, 2])
def test_what_is_charged_is_what_was_released(table, spied, technique, networks):
    """Steps and releases counted where the noise is drawn, and their epsilon by Opacus's accountant
    at once."""
    config = replace(PRIVATE, technique=technique, networks=networks)
    run = settings.federated(
        dp_vae_bgm,
        table,
        [np.arange(90)],
        config=config,
        privacy=Privacy(1.5, 1e-5),
        seed=1,
        num_rows=10,
    )
    steps, releases = spied
    sigma = steps[0][1]["noise_multiplier"]
    assert len(steps) == 90 // 40 * 4 * networks and {o["noise_multiplier"] for _, o in steps} == {
        sigma
    }
    fits = networks * 3 * (2 if technique == "sds" else 1)
    (mixture,) = (noise for what, noise in releases if what == MIXTURE)
    (moments,) = (noise for what, noise in releases if what == MOMENTS)
    assert releases == {(MIXTURE, mixture): fits, (MOMENTS, moments): 1}
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(12, 200))
    parts = ((40 / 90, sigma, len(steps)), (1.0, mixture, fits), (1.0, moments, 1))
    curve = sum(
        rdp.compute_rdp(q=q, noise_multiplier=noise, steps=times, orders=orders)
        for q, noise, times in parts
    )
    spent, _ = rdp.get_privacy_spent(orders=orders, rdp=curve, delta=1e-5)
    assert run.statement["epsilon_rdp"] == pytest.approx(spent, rel=2e-3)
    assert run.statement["unprotected"] == [] and 1.499 < run.statement["epsilon"] <= 1.5 < spent
    shares = np.array([times * q**2 / noise**2 for q, noise, times in parts])
    np.testing.assert_allclose(shares / shares.sum(), [0.78, 0.2, 0.02], atol=1e-6)


# --- the statement


SAID = {
    "isolated": {vae_bgm.GENERATOR},
    "fedavg": {vae_bgm.PARAMETERS, vae_bgm.GENERATOR, MOMENTS},
    "sds": {vae_bgm.ROWS, vae_bgm.GENERATOR, MOMENTS},
}


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_all_that_leaves_a_node_unprotected_is_named(table, technique):
    options = {"config": replace(FAST, technique=technique), "seed": 1, "num_rows": 10}
    found = settings.federated(vae_bgm, table, parts_of(table), **options).statement
    assert (
        set(found["unprotected"]) - {MOMENTS} == SAID[technique] - {MOMENTS}
        and found["epsilon"] is None
    )
    assert technique == "isolated" or MOMENTS in found["unprotected"]
    public = replace(options["config"], moments=((0.5, 0.3), (0.4, 0.1)))
    found = settings.federated(
        vae_bgm, table, parts_of(table), **{**options, "config": public}
    ).statement
    assert (
        set(found["unprotected"]) == SAID[technique] - {MOMENTS} and GIVEN in found["public_inputs"]
    )


def test_moments_given_to_a_private_run_are_said_to_be_public(table):
    config = replace(PRIVATE, technique="isolated", moments=((0.5, 0.3), (0.4, 0.1)))
    options = {"privacy": Privacy(1.0, 1e-5), "seed": 1, "num_rows": 5}
    found = settings.federated(
        dp_vae_bgm, table, parts_of(table), config=config, **options
    ).statement
    assert found["public_inputs"][-1] == GIVEN and found["epsilon"] <= 1.0
    without = replace(config, moments=None)
    assert (
        GIVEN
        not in settings.federated(
            dp_vae_bgm, table, parts_of(table), config=without, **options
        ).statement
    )


def test_an_isolated_nodes_own_moments_are_named_since_they_leave_with_its_generator(table):
    found = settings.federated(
        vae_bgm, table, parts_of(table), config=replace(FAST, technique="isolated"), num_rows=5
    )
    assert "generator/0/moments" in found.state and MOMENTS in found.statement["unprotected"]


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_private_federation_spends_its_budget_and_leaves_nothing_unprotected(table, technique):
    config = replace(PRIVATE, technique=technique)
    found = settings.federated(
        dp_vae_bgm,
        table,
        parts_of(table),
        config=config,
        privacy=Privacy(1.0, 1e-5),
        seed=1,
        num_rows=10,
    ).statement
    assert found["unprotected"] == [] and 0.9999 < found["epsilon_protected"] <= 1.0
    rounds = {entry["what"]: entry["rounds"] for entry in found["entries"]}
    training = [0] if technique == "isolated" else [1, 2]
    assert rounds == {
        MOMENTS: [0],
        GRADIENTS: training,
        MIXTURE: training if technique == "sds" else training[-1:],
    }


def test_a_run_with_fresh_noise_trains_with_secret_noise(table, monkeypatch):
    seen = []
    plain = vae_bgm_training.noise_generator
    monkeypatch.setattr(
        vae_bgm_training, "noise_generator", lambda noise: seen.append(noise.secret) or plain(noise)
    )
    for noise_seed in ("run", None):
        privacy = Privacy(1.0, 1e-5, noise_seed=noise_seed)
        settings.central(
            dp_vae_bgm,
            table,
            config=replace(PRIVATE, training_rounds=1),
            privacy=privacy,
            num_rows=5,
        )
    assert seen == [False, True]
