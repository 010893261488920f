"""FinDiff: what is spent and said, its noise, its steps, its space of embeddings, and that it
learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import (
    Client,
    Domain,
    Noise,
    Privacy,
    Update,
    stream,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.vae_bgm import quantile_map
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.tables.schema import validate

FAST = findiff.Config(training_rounds=2, local_updates=3, batch=60, hidden=(8,), inner=6, steps=12)
DOMAIN = Domain(("age", "weight", "smokes", "region", "ill"), (0, 0, 2, 4, 2))
SIZES = (700, 300, 200)


def parts_of(table):
    return np.split(stream(3, "parts").permutation(len(table.frame)), np.cumsum(SIZES)[:-1])


def test_every_client_spends_its_own_budget(table):
    """Each at the noise solved for its own rows: charges of all its rounds in one accountant, and
    the promise."""
    asked = Privacy(1.0, 1e-5)
    run = settings.federated(findiff, table, parts_of(table), config=FAST, privacy=asked, seed=1)
    gradients = [e for e in run.statement["entries"] if e["what"] == findiff.GRADIENTS]
    used = {e["clients"][0]: e["noise_multiplier"] for e in gradients}
    assert used[0] < used[1] < used[2]  # the more rows, the less noise
    for client, size in enumerate(SIZES):
        assert used[client] == settings.noise_for(findiff, DOMAIN, [size], FAST, asked)
        spent = epsilon_of(findiff.plan(used[client], DOMAIN, size, FAST), 1e-5)
        assert 0.999 < spent <= 1.0
    assert (
        run.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
        and run.statement["unprotected"] == []
    )


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("pooled", ["numeric columns, value by value"]), ("declared", []), ("histograms", [])],
)
def test_a_private_run_names_what_its_encoding_leaves_open(table, encoding, said):
    config = replace(FAST, encoding=encoding)
    run = settings.federated(
        findiff, table, parts_of(table), config=config, privacy=Privacy(1.0, 1e-5), seed=1
    )
    assert run.statement["unprotected"] == said and run.statement["epsilon_protected"] <= 1.0


def encoded(table, config):
    """The state after the encoding rounds, and the rows of all clients."""
    encoder = findiff.encoder(table.schema, config)
    rows = [encoder.transform(table.frame.iloc[part]) for part in parts_of(table)]
    state = findiff.start(encoder.domain, config, stream(0))
    for _ in range(config.encoding_rounds):
        clients = [Client(own, k, 3) for k, own in enumerate(rows)]
        updates = [
            replace(findiff.client_step(state, c, config, None, stream(1)), client=c.index)
            for c in clients
        ]
        state, _ = findiff.server_step(state, updates, config, None, stream(2))
    return state, rows


def test_pooled_maps_are_the_quantiles_of_all_rows(table):
    state, rows = encoded(table, replace(FAST, encoding="pooled"))
    together = np.concatenate(rows)[:, :2]
    assert np.allclose(
        state["quantiles"], np.quantile(together, np.linspace(0, 1, findiff.LEVELS), axis=0).T
    )


def test_maps_of_histograms_are_near_them_and_declared_ones_look_at_no_row(table):
    state, rows = encoded(table, FAST)
    exact = np.quantile(np.concatenate(rows)[:, :2], np.linspace(0, 1, findiff.LEVELS), axis=0).T
    assert np.abs(state["quantiles"] - exact)[:, 10:-10].max() < 2 / FAST.histogram_bins
    state, _ = encoded(table, replace(FAST, encoding="declared"))
    assert np.array_equal(state["quantiles"], quantile_map.declared(2, findiff.LEVELS))


@pytest.mark.parametrize("embeddings", ["frozen", "trained"])
def test_embeddings_change_only_where_they_are_trained(table, embeddings):
    config = replace(FAST, embeddings=embeddings, learning_rate=0.05)
    state, rows = encoded(table, config)
    before = [layer.weight.clone() for layer in findiff.trained(state, config).embeddings]
    update = findiff.client_step(state, Client(rows[0], 0, 3), config, None, stream(4))
    state, _ = findiff.server_step(state, [update], config, None, stream(5))
    after = findiff.trained(state, config).embeddings
    moved = [not torch.equal(old, layer.weight) for old, layer in zip(before, after, strict=True)]
    assert moved == [embeddings == "trained"] * 3


def test_a_category_is_decoded_to_itself(table):
    state, rows = encoded(table, FAST)
    network = findiff.trained(state, FAST)
    codes = torch.from_numpy(rows[0][:, 2:].astype(np.int64))
    vectors = network.vectors(torch.zeros(len(codes), 2), codes)
    assert vectors.shape == (700, 2 + 3 * FAST.embedding)
    noise = 1e-3 * torch.randn(
        len(codes), 3 * FAST.embedding, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(network.nearest(vectors[:, 2:] + noise), codes)


def test_a_private_step_without_noise_and_clip_is_the_ordinary_one(table):
    """All rows in every batch, so that both see the same; the same stream moves rows and steps."""
    config = replace(
        FAST, batch=10_000, local_updates=4, encoding="declared", learning_rate=0.01, clip=1e9
    )
    state, rows = encoded(table, config)
    plain, private = (
        findiff.client_step(state, Client(rows[1], 1, 3), config, noise, stream(6)).arrays[
            "network"
        ]
        for noise in (None, Noise(1e-30, stream(7)))
    )
    start = state["network"]
    assert np.abs(plain - start).max() > 0.01
    # the order of rows differs, hence who gets which step and noise: the same loss, another draw
    assert np.corrcoef(plain - start, private - start)[0, 1] > 0.5


def test_the_noise_of_a_step_has_the_claimed_size(table, monkeypatch):
    """With gradients clipped to next to nothing, what is left is noise of multiplier * clip /
    expected rows."""
    config = replace(FAST, local_updates=1, clip=1e-6, encoding="declared", hidden=(64, 64))
    state, rows = encoded(table, config)
    seen, step = [], torch.optim.Adam.step

    def watched(self, *args, **kwargs):
        seen.append(
            torch.cat(
                [p.grad.flatten() for group in self.param_groups for p in group["params"]]
            ).numpy()
        )
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    findiff.client_step(state, Client(rows[0], 0, 3), config, Noise(500.0, stream(8)), stream(9))
    expected = 500.0 * 1e-6 / 60
    assert (
        seen[0].std() == pytest.approx(expected, rel=0.05) and abs(seen[0].mean()) < 0.1 * expected
    )


def test_the_proximal_pull_is_added_after_noise_and_towards_the_start(table, monkeypatch):
    config = replace(
        FAST,
        strategy="fedprox",
        proximal=0.7,
        local_updates=3,
        encoding="declared",
        learning_rate=0.05,
    )
    state, rows = encoded(table, config)
    gradients, backward = [], findiff._backward

    def watched(losses, part, *rest):
        backward(losses, part, *rest)
        gradients.append([(p.grad.clone(), p.detach().clone()) for p in part.parameters()])

    used, step = [], torch.optim.Adam.step

    def stepped(self, *args, **kwargs):
        used.append([p.grad.clone() for group in self.param_groups for p in group["params"]])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(findiff, "_backward", watched)
    monkeypatch.setattr(torch.optim.Adam, "step", stepped)
    findiff.client_step(state, Client(rows[0], 0, 3), config, Noise(1.0, stream(8)), stream(9))
    anchor = [p.detach() for p in findiff.trained(state, config).denoiser.parameters()]
    assert len(used) == 3
    for own, taken in zip(gradients, used, strict=True):
        for (gradient, now), final, begin in zip(own, taken, anchor, strict=True):
            assert torch.allclose(final, gradient + 0.7 * (now - begin), atol=1e-6)
    assert any(
        not torch.equal(now, begin) for (_, now), begin in zip(gradients[-1], anchor, strict=True)
    )


def test_a_cosine_lets_the_rate_fall_to_nothing_over_all_rounds(table, monkeypatch):
    config = replace(FAST, decay="cosine", learning_rate=0.5)
    rates, step = [], torch.optim.Adam.step

    def watched(self, *args, **kwargs):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    settings.central(findiff, table, config=config, seed=1, num_rows=5)
    half = np.sqrt(3) / 2  # the cosine of a sixth of a half turn
    expected = [1, (1 + half) / 2, 0.75, 0.5, 0.25, (1 - half) / 2]
    assert rates == pytest.approx(0.5 * np.array(expected))
    assert findiff.learning_rate(5, 6, FAST) == FAST.learning_rate


def test_rows_of_a_diverged_network_lie_in_the_schema_and_are_warned_of(table):
    config = replace(FAST, strategy="fedyogi", server_rate=1e6)
    with pytest.warns(UserWarning, match="has diverged"):
        run = settings.central(findiff, table, config=config, seed=1, num_rows=9)
    validate(run.synthetic, table.schema, "rows")


def test_the_server_averages_by_rows_and_keeps_its_moments_to_itself():
    config = replace(FAST, encoding="declared")
    state = findiff.start(DOMAIN, config, stream(0))
    ones = np.ones_like(state["network"])
    updates = [Update({"network": ones}, num_rows=30), Update({"network": 5 * ones}, num_rows=10)]
    after, _ = findiff.server_step(state, updates, config, None, stream(1))
    assert np.allclose(after["network"], 2.0)
    adaptive = replace(config, strategy="fedadam")
    after, _ = findiff.server_step(state, updates, adaptive, None, stream(1))
    assert "server_mean" in after and not any(
        n.startswith("server_") for n in findiff.broadcast(after, adaptive)
    )


def test_a_row_of_infinite_loss_counts_nothing(table):
    config = replace(FAST, batch=10_000, local_updates=1, encoding="declared")
    state, rows = encoded(table, config)
    state = {**state, "quantiles": np.array([[0.0] * 999 + [1e-300], [0.0] * 999 + [1.0]])}
    update = findiff.client_step(
        state, Client(rows[0], 0, 3), config, Noise(1.0, stream(8)), stream(9)
    )
    assert np.isfinite(update.arrays["network"]).all()


@pytest.fixture(scope="module")
def learned(table):
    """The settings, and a run long enough to learn a dependence."""
    sizes = {"training_rounds": 12, "local_updates": 60, "batch": 128, "hidden": (96, 96)}
    config = findiff.Config(**sizes, steps=60, learning_rate=2e-3, encoding="pooled")
    return config, settings.central(findiff, table, config=config, seed=1, num_rows=3000)


@pytest.mark.slow
def test_it_learns_a_dependence(table, learned):
    _, run = learned
    real, made = (
        fidelity.associations(frame, table.schema) for frame in (table.frame, run.synthetic)
    )
    names = list(table.schema.names)
    pair = names.index("age"), names.index("ill")
    assert made[pair] > 0.6 * real[pair] > 0.2
    assert fidelity.hellinger(table.frame, run.synthetic, table.schema, bins=20) < 0.15


def test_fewer_sampling_steps_give_rows_of_the_schema(table):
    config = replace(FAST, sampling_steps=4)
    run = settings.central(findiff, table, config=config, seed=1, num_rows=37)
    assert len(run.synthetic) == 37 and (run.synthetic.dtypes == table.frame.dtypes).all()


@pytest.mark.slow
def test_bfloat16_draws_rows_that_are_as_near_to_the_real_ones(table, learned):
    config, run = learned
    encoder, far = findiff.encoder(table.schema, config), {}
    for precision in ("float32", "bfloat16"):
        rows = findiff.sample(
            run.state, 3000, replace(config, sampling_precision=precision), stream(5)
        )
        frame = encoder.inverse(rows, rng=stream(6))
        far[precision] = fidelity.hellinger(table.frame, frame, table.schema, bins=20)
        far[precision, "pairs"] = fidelity.pairwise_correlation_difference(
            table.frame, frame, table.schema
        )
    assert far["bfloat16"] == pytest.approx(far["float32"], abs=0.02)
    assert far["bfloat16", "pairs"] == pytest.approx(far["float32", "pairs"], abs=0.1)


def test_moments_stay_with_the_client(table):
    state, rows = encoded(table, FAST)
    client = Client(rows[0], 0, 3)
    update = findiff.client_step(state, client, FAST, None, stream(4))
    assert client.memory["network.step"] == FAST.local_updates and set(update.arrays) == {"network"}
    assert (
        update.arrays["network"].shape == weights.flat(findiff.trained(state, FAST).denoiser).shape
    )
