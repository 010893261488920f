"""FedVAE: what is spent and said, how its mixtures come about, its noise, its averages, and that it
learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsynth_lib.core.contract import (
    Client,
    Noise,
    Privacy,
    Update,
    stream,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.methods.vae.encoding import client_encoding
from fedsynth_lib.methods.vae.vae import Vae
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.tables import modes

FAST = fedvae.Config(training_rounds=2, local_epochs=1, batch=100, hidden=(16,), embedding=4)


def parts_of(table, sizes=(700, 300, 200)):
    return np.split(stream(3, "parts").permutation(len(table.frame)), np.cumsum(sizes)[:-1])


@pytest.mark.parametrize(
    "changes, said",
    [
        (fedvae.AS_PUBLISHED, "numeric columns, value by value"),
        ({"encoding": "federated"}, "Gaussian mixtures"),
    ],
)
def test_the_published_encoding_is_named_as_unprotected(table, changes, said):
    config = replace(FAST, **changes)
    run = settings.federated(
        fedvae, table, parts_of(table), config=config, privacy=Privacy(1.0, 1e-5), seed=1
    )
    assert [what for what in run.statement["unprotected"] if said in what] and len(
        run.statement["unprotected"]
    ) == 1
    assert run.statement["epsilon_protected"] <= 1.0


def encoded(table, config, sizes=(700, 300, 200)):
    """The state after the encoding rounds, and the numbers of all clients."""
    encoder = fedvae.encoder(table.schema, config)
    rows = [encoder.transform(table.frame.iloc[part]) for part in parts_of(table, sizes)]
    state = fedvae.start(encoder.domain, config, stream(0))
    for number in range(config.encoding_rounds):
        updates = [
            replace(
                fedvae.client_step(state, Client(own, k, 3), config, None, stream(1, number, k)),
                client=k,
                num_rows=len(own),
            )
            for k, own in enumerate(rows)
        ]
        state, _ = fedvae.server_step(state, updates, config, None, stream(2, number))
    return state, np.concatenate(rows)[:, :2]


def test_pooled_mixtures_are_those_of_all_values_in_one_place(table):
    state, numbers = encoded(table, replace(FAST, encoding="pooled"))
    rng = stream(2, 0)
    for column in range(2):
        seed = int(rng.integers(2**31))
        expected = modes.fit_variational(
            numbers[:, column], modes=10, least_weight=0.005, floor=1e-12, seed=seed
        )
        kept = state["weights"][column] > 0
        np.testing.assert_allclose(state["means"][column, kept], expected.means, rtol=1e-9)
        np.testing.assert_allclose(state["weights"][column, kept], expected.weights, rtol=1e-9)


@pytest.mark.parametrize("encoding", ["histograms", "federated"])
def test_other_encodings_come_near_the_pooled_one(table, encoding):
    state, numbers = encoded(table, replace(FAST, encoding=encoding))
    for column in range(2):
        mean = float(state["weights"][column] @ state["means"][column])
        assert mean == pytest.approx(numbers[:, column].mean(), abs=0.01)


def test_one_row_moves_the_histograms_by_their_sensitivity(table):
    numbers = fedvae.encoder(table.schema, FAST).transform(table.frame)[:50, :2]
    state = {"levels": np.array([0, 0, 2])}
    counts = [
        client_encoding(part, 50, state, FAST, None, stream(0), steps=3).arrays["histograms"]
        for part in (numbers, numbers[:-1])
    ]
    noisy = client_encoding(numbers, 50, state, FAST, Noise(1.0, stream(1)), stream(0), steps=3)
    assert (
        np.linalg.norm(counts[0] - counts[1])
        == pytest.approx(noisy.spent[0].sensitivity)
        == pytest.approx(2**0.5)
    )
    drawn = (noisy.arrays["histograms"] - counts[0]).std()
    assert drawn == pytest.approx(noisy.spent[0].noise * noisy.spent[0].sensitivity, rel=0.15)


def test_noise_reaches_the_parameters_with_the_claimed_variance(monkeypatch):
    """Two steps of plain descent that differ in nothing but the noise; its deviation is multiplier
    * clip / batch."""
    monkeypatch.setattr(fedvae, "poisson_batches", lambda *_, **__: [np.arange(40)])
    torch.manual_seed(0)
    layout = Layout((3,), (4, 5))
    network, rows = Vae(layout, (64, 64), 16), torch.rand(100, layout.width)
    before, moved = weights.flat(network), []
    for multiplier in (0.0, 5.0):
        weights.load(network, before)
        torch.manual_seed(1)
        plain = torch.optim.SGD(network.parameters(), lr=1.0)
        config = replace(FAST, batch=50, clip=0.7)
        fedvae._train_privately(
            network, plain, rows, len(rows), config, Noise(multiplier, stream(4)), 1
        )
        moved.append(weights.flat(network) - before)
    noise = (moved[1] - moved[0])[:-1]  # the last is the spread, which is moved back to its range
    assert len(noise) > 5000 and noise.std() == pytest.approx(5.0 * 0.7 / 50, rel=0.03)
    assert abs(noise.mean()) < 4 * noise.std() / len(noise) ** 0.5
    assert np.linalg.norm(moved[0]) <= 40 * 0.7 / 50 * (1 + 1e-4)


def test_networks_are_averaged_by_rows():
    state = {"levels": np.array([2]), "round": np.array(1), "network": np.zeros(2, np.float32)}
    updates = [
        Update({"network": np.array(values, np.float32)}, num_rows=size)
        for values, size in (([1, 0], 30), ([5, 4], 10))
    ]
    after, charges = fedvae.server_step(state, updates, FAST, None, stream(0))
    assert after["network"].tolist() == [2.0, 1.0] and charges == []


def test_adam_remembers_across_rounds(table):
    state, _ = encoded(table, FAST)
    rows = fedvae.encoder(table.schema, FAST).transform(table.frame)[:250]
    client = Client(rows, 0, 1)
    for turn in (1, 2):
        state["network"] = fedvae.client_step(state, client, FAST, None, stream(9, turn)).arrays[
            "network"
        ]
        assert client.memory["network.step"] == 3 * turn  # batches of 100, 100 and 50


@pytest.mark.slow
def test_it_learns_how_columns_hang_together(table):
    config = replace(FAST, training_rounds=3, local_epochs=40, batch=50, hidden=(64,), embedding=8)
    run = settings.federated(
        fedvae, table, parts_of(table, (500, 400, 300)), config=config, seed=1, num_rows=4000
    )
    real, made = (
        fidelity.associations(frame, table.schema) for frame in (table.frame, run.synthetic)
    )
    age, weight, ill = 0, 1, 4
    assert made[age, weight] == pytest.approx(real[age, weight], abs=0.15)
    assert made[age, ill] == pytest.approx(real[age, ill], abs=0.15)
    assert fidelity.hellinger(table.frame, run.synthetic, table.schema, bins=20) < 0.15


@pytest.mark.slow
def test_the_likeliest_category_hides_rare_ones(table):
    rare = table.frame.copy()
    # one row in twenty, and nothing tells which
    rare["smokes"] = np.where(np.arange(len(rare)) < 60, "yes", "no")
    rare["smokes"] = rare["smokes"].astype(table.frame["smokes"].dtype)
    changed = replace(table, frame=rare.sample(frac=1, random_state=0, ignore_index=True))
    shares = {}
    for likeliest in (True, False):
        config = replace(FAST, local_epochs=20, batch=50, likeliest=likeliest)
        made = settings.central(fedvae, changed, config=config, seed=1, num_rows=4000).synthetic
        shares[likeliest] = (made["smokes"] == "yes").mean()
    assert shares[True] < 0.005 and shares[False] == pytest.approx(0.05, abs=0.02)
