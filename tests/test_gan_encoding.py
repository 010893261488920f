"""How the CTGAN family encodes: mixtures over clients, noisy histograms, categories, and Fed-TGAN's
weights."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from fedsynth_lib.core.contract import Client, stream
from fedsynth_lib.methods.gan import budget as gan_budget
from fedsynth_lib.methods.gan import ctgan
from fedsynth_lib.methods.gan import encoding as gan_encoding
from fedsynth_lib.methods.variants import dp_fed_ctgan, fed_ctgan, fed_tgan
from fedsynth_lib.tables import modes
from fedsynth_lib.tables.modes import Mixture

LEVELS = np.array([0, 3, 0, 2])  # number, category, number, category


def make_rows(number, seed=0):
    rng = np.random.default_rng(seed)
    low, high = rng.normal(0.2, 0.03, number), rng.normal(0.7, 0.05, number)
    first = np.where(rng.random(number) < 0.4, low, high)
    columns = [first, rng.integers(0, 3, number), rng.random(number), rng.integers(0, 2, number)]
    return np.column_stack(columns)


def state_of(config):
    return {
        "levels": LEVELS,
        "stage": np.array(0),
        "round": np.array(0),
        "finished": np.array(False),
    } | ({"present": np.ones(5, bool)} if config.encoding == "private" else {})


def sent_by(rows, state, config, noise=None, rng=None, index=0):
    """What a client with these rows sends, as the runtime hands it to the server."""
    client = Client(rows, index, 1)
    update = gan_encoding.client_encoding(client, state, config, noise, rng or stream(0, "client"))
    return replace(update, num_rows=client.size)


def encoded(config, parts, noise=None, seed=0):
    """The state after all encoding rounds, and all updates."""
    state, sent = state_of(config), []
    for number in range(config.encoding_rounds):
        updates = [
            sent_by(rows, state, config, noise, stream(seed, "client", k, number))
            for k, rows in enumerate(parts)
        ]
        state = gan_encoding.server_encoding(state, updates, config, stream(seed, "server", number))
        sent.append(updates)
    return state, sent


def distance(mixture, values):
    """Largest gap between the mixture's distribution function and that of values."""
    from scipy.stats import norm

    place = np.sort(values)
    fitted = (mixture.weights * norm.cdf(place[:, None], mixture.means, mixture.deviations)).sum(
        axis=1
    )
    return np.abs(fitted - (np.arange(len(place)) + 0.5) / len(place)).max()


@pytest.mark.parametrize("method", [ctgan, fed_ctgan, fed_tgan])
def test_every_way_of_agreeing_describes_all_rows(method):
    config = method.Config()
    parts = np.array_split(make_rows(3000), 3)
    state, sent = encoded(config, parts)
    assert len(sent) == (5 if method is fed_ctgan else 1)
    everything = np.concatenate(parts)
    for column, mixture in zip((0, 2), gan_encoding.unstacked(state), strict=True):
        assert distance(mixture, everything[:, column]) < 0.03
        assert (
            mixture.weights.sum() == pytest.approx(1)
            and mixture.weights.min() > gan_encoding.LEAST_WEIGHT
        )


def test_one_client_keeps_its_own_variational_fit():
    state, sent = encoded(ctgan.Config(), [make_rows(800)])
    own = gan_encoding.unstacked(sent[0][0].arrays)
    for mine, agreed in zip(own, gan_encoding.unstacked(state), strict=True):
        assert np.array_equal(mine.means, agreed.means)


def test_the_server_averages_sorted_mixtures_between_rounds():
    config = fed_ctgan.Config()
    parts, state = np.array_split(make_rows(900), 3), state_of(config)
    updates = [
        sent_by(rows, state, config, None, stream(0, "client", k)) for k, rows in enumerate(parts)
    ]
    after = gan_encoding.server_encoding(state, updates, config, stream(0, "server"))
    clients = [gan_encoding.unstacked(update.arrays)[0] for update in updates]
    assert all((np.diff(mixture.means) >= 0).all() for mixture in clients)
    assert np.allclose(after["means"][0], np.mean([mixture.means for mixture in clients], axis=0))
    variances = np.mean([mixture.deviations**2 for mixture in clients], axis=0)
    assert np.allclose(after["deviations"][0] ** 2, variances)


def test_the_union_of_categories_and_codes_there_and_back():
    config = fed_tgan.Config()
    one, other = make_rows(60), make_rows(60, seed=1)
    one[:, 1], other[:, 1] = 0, 2  # nobody has 1
    state, _ = encoded(config, [one, other])
    assert state["present"].tolist() == [True, False, True, True, True]
    layout = gan_encoding.layout_of(state)
    assert layout.categories == (2, 2)
    codes = gan_encoding.codes_of(np.concatenate([one, other]), LEVELS)
    compact = gan_encoding.compact(codes, state)
    assert set(compact[:, 0]) == {0, 1} and np.array_equal(
        gan_encoding.declared(compact, state), codes
    )


def test_numbers_there_and_back():
    state, _ = encoded(ctgan.Config(), [make_rows(500)])
    numbers = gan_encoding.numbers_of(make_rows(200, seed=2), LEVELS)
    chosen, distances = gan_encoding.encode_numbers(numbers, state, np.random.default_rng(0))
    back = gan_encoding.decode_numbers(chosen, distances, state)
    inside = np.abs(distances) < 1  # beyond four deviations a value is cut
    assert inside.mean() > 0.99 and np.allclose(back[inside], numbers[inside], atol=1e-6)


def test_fed_tgan_weights_by_its_steps():
    """The rule written out: distances, divided by column, summed, taken from 1, times the share of
    rows, softmax."""
    rng = np.random.default_rng(0)
    sizes = np.array([100, 300, 600])
    counts = [
        np.array([60.0, 40, 0, 70, 30]),
        np.array([100.0, 100, 100, 150, 150]),
        np.array([200.0, 200, 200, 10, 590]),
    ]
    draws = [[rng.normal(k, 1, size) for k, size in enumerate(sizes)]]
    table = np.zeros((3, 3))
    for j, cut in enumerate((slice(0, 3), slice(3, 5))):
        whole = sum(own[cut] for own in counts)
        table[:, j] = [
            jensenshannon(own[cut] / own[cut].sum(), whole / whole.sum()) for own in counts
        ]
    together = np.concatenate(draws[0])
    scaled = [(own - together.min()) / np.ptp(together) for own in (*draws[0], together)]
    table[:, 2] = [wasserstein_distance(own, scaled[-1]) for own in scaled[:-1]]
    table /= table.sum(axis=0)
    similar = (1 - table.sum(axis=1) / table.sum()) * sizes / sizes.sum()
    expected = np.exp(similar) / np.exp(similar).sum()
    assert gan_encoding.similarity_weights(sizes, counts, LEVELS, draws) == pytest.approx(expected)


def test_clients_that_agree_in_everything_are_weighed_by_rows_alone():
    counts = [np.array([10.0, 10, 10, 15, 15]), np.array([20.0, 20, 20, 30, 30])]
    found = gan_encoding.similarity_weights(np.array([30, 60]), counts, LEVELS, [])
    assert found == pytest.approx(np.exp([1 / 3, 2 / 3]) / np.exp([1 / 3, 2 / 3]).sum())


# --- private histograms ---


@pytest.mark.parametrize("encoding, columns", [("private", 4), ("federated", 2)])
def test_one_record_moves_the_histograms_by_the_root_of_their_columns(encoding, columns):
    """Brute force: every record left out in turn."""
    config = dp_fed_ctgan.Config(encoding=encoding)
    rows = make_rows(40)

    def counts(kept):
        arrays = sent_by(kept, state_of(config), config).arrays
        return np.concatenate(
            [arrays["counts"], arrays.get("histograms", np.zeros((0, 1))).ravel()]
        )

    whole = counts(rows)
    moved = [
        np.linalg.norm(whole - counts(np.delete(rows, out, axis=0))) for out in range(len(rows))
    ]
    assert max(moved) == pytest.approx(np.sqrt(columns)) and min(moved) == pytest.approx(
        np.sqrt(columns)
    )
    charge = gan_budget.histogram_charges(1.0, tuple(LEVELS), 40, config, 10)[0]
    assert charge.sensitivity == pytest.approx(np.sqrt(columns))


def test_histograms_take_about_their_share_of_the_budget():
    from fedsynth_lib.core.accounting import rdp

    config = dp_fed_ctgan.Config(training_rounds=20)
    steps = gan_budget.total_steps(3.0, tuple(LEVELS), 10_000, config)
    histograms = gan_budget.histogram_charges(3.0, tuple(LEVELS), 10_000, config, steps)
    orders = np.array([2.0, 8.0])
    gradients = rdp(gan_budget.gradient_charge(3.0, 10_000, config, steps), orders)
    share = rdp(histograms[0], orders) / (rdp(histograms[0], orders) + gradients)
    assert share == pytest.approx(config.histogram_share, rel=0.25)


def test_a_mixture_from_noisy_bins_describes_the_column():
    values = make_rows(30_000)[:, 0]
    counts = np.histogram(values, 128, (0, 1))[0] + np.random.default_rng(0).normal(0, 20, 128)
    mixture = gan_encoding.from_histogram(counts, 20.0, np.random.default_rng(1))
    assert distance(mixture, values) < 0.05


def test_coarsening_keeps_spikes_and_averages_noise():
    counts = np.zeros(128)
    counts[5], counts[64:] = 5000, 20
    spread = 10.0
    found = gan_encoding.coarsened(counts + np.random.default_rng(0).normal(0, spread, 128), spread)
    assert found[5] == pytest.approx(5000, abs=50) and (found[:4] < 100).all()
    assert found[64:].mean() == pytest.approx(20, abs=3) and found[64:].std() < 0.9 * spread
    assert not gan_encoding.coarsened(np.random.default_rng(1).normal(0, spread, 128), spread).any()


def test_consistent_counts_are_the_nearest_that_add_up():
    levels, rng = np.array([4, 3]), np.random.default_rng(0)
    noisy = rng.normal(5, 10, 7)
    found = gan_encoding.consistent(noisy, levels, 30)
    for own, before in zip(np.split(found, [4]), np.split(noisy, [4]), strict=True):
        assert own.sum() == pytest.approx(30) and own.min() >= 0
        sums = {"type": "eq", "fun": lambda c: c.sum() - 30}
        start, bounds = np.full(len(before), 30 / len(before)), [(0, None)] * len(before)
        nearest = minimize(
            lambda c, b=before: ((c - b) ** 2).sum(), start, bounds=bounds, constraints=sums
        ).x
        assert own == pytest.approx(nearest, abs=1e-3)
    assert np.array_equal(
        gan_encoding.consistent(np.array([3.0, 7, 0, 0, 4, 4, 2]), levels, 10),
        [3, 7, 0, 0, 4, 4, 2],
    )


def test_stacking_there_and_back():
    mixtures = [
        Mixture(np.array([0.3, 0.7]), np.array([0.0, 1.0]), np.array([1.0, 2.0])),
        Mixture(*(np.ones(1),) * 3),
    ]
    for one, same in zip(
        mixtures, gan_encoding.unstacked(gan_encoding.stacked(mixtures, 5)), strict=True
    ):
        assert all(
            np.array_equal(a, b)
            for a, b in zip(vars(one).values(), vars(same).values(), strict=True)
        )


def test_padding_keeps_the_density():
    mixture = modes.padded(
        Mixture(np.array([0.3, 0.7]), np.array([0.0, 5.0]), np.array([1.0, 2.0])), 6
    )
    place = np.linspace(-3, 12, 50)
    short = Mixture(np.array([0.3, 0.7]), np.array([0.0, 5.0]), np.array([1.0, 2.0]))
    assert len(mixture.weights) == 6 and mixture.weights.sum() == pytest.approx(1)
    densities = [np.exp(each.log_density(place)).sum(axis=1) for each in (mixture, short)]
    assert densities[0] == pytest.approx(densities[1])
    assert all(b <= a for a, b in pairwise(sorted(mixture.weights, reverse=True)))
