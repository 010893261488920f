"""VAE-BGM: what crosses the wire in each technique, its moments, its statement, and the tables that
it must bear."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import vae_bgm_toys as toys
from vae_bgm_toys import LEVELS, NUMBERS, PRIVATE, TECHNIQUES, encoded

from fedsynth_lib.core.contract import BadInput, Client, Domain, Noise, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.vae_bgm import budget as vae_bgm_budget
from fedsynth_lib.methods.vae_bgm import training as vae_bgm_training
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.methods.vae_bgm.training import LATENT, decoders, flat

FAST = replace(toys.FAST, training_rounds=3, local_epochs=1, networks=2, patience=None)
GENERATOR_PARTS = {"moments", "decoders", *LATENT}


class Round(NamedTuple):
    """down: what every node is sent; updates; trained: (rows, own, networks before, networks after)
    of each node."""

    down: dict
    updates: list
    trained: list
    after: dict


@pytest.fixture
def run(monkeypatch):
    """All rounds over nodes with these rows, watched: run(rows, config, noise=None, seed=0)."""
    watched, train_all = [], vae_bgm.train_all

    def recorded(networks, rows, own, *rest, **named):
        before = {name: values.copy() for name, values in flat(networks).items()}
        fitted = train_all(networks, rows, own, *rest, **named)
        watched.append(
            (rows.copy(), own, before, {name: v.copy() for name, v in flat(networks).items()})
        )
        return fitted

    monkeypatch.setattr(vae_bgm, "train_all", recorded)

    def rounds(rows, config, noise=None, seed=0):
        domain = Domain(tuple("abcde"), tuple(int(level) for level in LEVELS))
        state, memories, found = vae_bgm.start(domain, config, stream(seed)), [{} for _ in rows], []
        for number in range(config.rounds):
            watched.clear()
            down, updates = vae_bgm.broadcast(state, config), []
            for k, own in enumerate(rows):
                client = Client(own, k, len(rows), memories[k])
                update = vae_bgm.client_step(down, client, config, noise, stream(seed, k, number))
                updates.append(replace(update, client=k, num_rows=len(own)))
            state, charges = vae_bgm.server_step(
                state, updates, config, noise, stream(seed, number)
            )
            assert charges == []
            found.append(Round(down, updates, list(watched), state))
        return found

    return rounds


def as_set(rows):
    return Counter(map(bytes, np.ascontiguousarray(rows, np.float32)))


def generators(state):
    return {name: values for name, values in state.items() if name.startswith("generator/")}


# --- what crosses the wire


def test_an_isolated_node_trains_once_for_all_epochs_and_hears_of_nobody(table, run):
    config = replace(FAST, technique="isolated")
    assert (config.rounds, config.epochs) == (1, 3) and replace(
        FAST, technique="fedavg"
    ).epochs == 1
    rows = encoded(table)
    (only,) = run(rows, config)
    assert only.down.keys() == {"levels", "round"}
    assert [update.arrays.keys() for update in only.updates] == [GENERATOR_PARTS] * 3
    assert [len(seen) for seen, *_ in only.trained] == [120, 40, 80]
    (other,) = run([rows[0], rows[1][:30], rows[2][::-1]], config)
    first, second = (
        {n: v for n, v in generators(each.after).items() if "/0/" in n} for each in (only, other)
    )
    assert len(first) == 6 and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("senders", "most"), [("all", 10_000), ("all", 100), ("largest", 10_000), ("largest", 90)]
)
def test_sharing_nodes_get_rows_of_the_others_behind_their_own(table, run, senders, most):
    rows, config = encoded(table), replace(FAST, senders=senders, most_rows=most)
    found = run(rows, config)
    assert (
        len(found) == 4 and [update.arrays.keys() for update in found[0].updates] == [{"sums"}] * 3
    )
    assert all(
        set(name for name in u.arrays) == {"rows"} for each in found[1:-1] for u in each.updates
    )
    assert [update.arrays.keys() for update in found[-1].updates] == [GENERATOR_PARTS] * 3
    moments = found[0].after["moments"]
    for number, each in enumerate(found[1:], start=1):
        shared = {
            k: update.arrays.get("rows") for k, update in enumerate(found[number - 1].updates)
        }
        sending = [] if number == 1 else [0] if senders == "largest" else [0, 1, 2]
        assert {n for n in each.down if n.startswith("rows/")} == {f"rows/{k}" for k in sending}
        for k, (seen, own, *_) in enumerate(each.trained):
            offered = [shared[s] for s in sending if s != k]
            assert own == len(rows[k])
            np.testing.assert_array_equal(
                seen[:own], vae_bgm.standardised(rows[k], LEVELS, moments)
            )
            received, pool = (
                as_set(seen[own:]),
                as_set(np.concatenate([np.empty((0, 5)), *offered])),
            )
            assert (
                sum(received.values()) == max(0, min(most - own, sum(map(len, offered))))
                and received <= pool
            )
            # senders mixed, not one after the other
            if len(offered) == 2 and len(seen) - own == 60:
                assert 5 < sum((as_set(seen[own : own + 30]) & as_set(offered[0])).values()) < 25
    assert all(
        update.arrays["rows"].shape == (60, 5) for each in found[1:-1] for update in each.updates
    )
    assert not [name for name in found[-1].after if name.startswith("rows/")]


def test_networks_go_on_where_they_were_unless_they_are_averaged(table, run):
    found = run(encoded(table), FAST)
    for before, after in pairwise(found[1:]):
        for (*_, ended), (*_, began, _) in zip(before.trained, after.trained, strict=True):
            assert all(
                np.array_equal(ended[name], began[name]) for name in ("network/0", "network/1")
            )
            assert not np.array_equal(began["network/0"], began["network/1"])


@pytest.mark.parametrize("common", [True, False])
def test_weights_are_averaged_by_rows_and_start_as_asked(table, run, common):
    found = run(encoded(table), replace(FAST, technique="fedavg", common_start=common))
    names = ("network/0", "network/1")
    first = [began for *_, began, _ in found[1].trained]
    for name in names:
        assert all(np.array_equal(first[0][name], other[name]) == common for other in first[1:])
        assert not common or np.array_equal(found[1].down[name], first[0][name])
    for each, following in zip(found[1:], [*found[2:], None], strict=True):
        for name in names:
            sent = [update.arrays[name] for update in each.updates]
            assert all(
                np.array_equal(s, ended[name])
                for s, (*_, ended) in zip(sent, each.trained, strict=True)
            )
            mean = np.average(np.array(sent, float), axis=0, weights=[120, 40, 80])
            np.testing.assert_allclose(each.after[name], mean, rtol=1e-6, atol=1e-7)
            if following:
                assert all(
                    np.array_equal(each.after[name], began[name])
                    for *_, began, _ in following.trained
                )
        assert all(len(seen) == own for seen, own, *_ in each.trained)
    last = {"network/0", "network/1"}
    assert [u.arrays.keys() for u in found[-1].updates] == [GENERATOR_PARTS | last] * 3
    assert [u.arrays.keys() for u in found[-2].updates] == [last] * 3


def test_scored_rows_come_from_the_weights_before_the_last_averaging(table, run):
    found = run(encoded(table), replace(FAST, technique="fedavg"))
    for k, (*_, ended) in enumerate(found[-1].trained):
        own = decoders(vae_bgm_training.loaded(ended, LEVELS, FAST))
        np.testing.assert_array_equal(found[-1].after[f"generator/{k}/decoders"], own)
        mean = decoders(vae_bgm_training.loaded(found[-1].after, LEVELS, FAST))
        assert not np.allclose(own, mean)


def test_generators_stay_with_the_server(table, run):
    last = run(encoded(table), FAST)[-1].after
    assert len(generators(last)) == 3 * 6 and not generators(vae_bgm.broadcast(last, FAST))
    assert last["nodes"].tolist() == [0, 1, 2] and last["sizes"].tolist() == [120, 40, 80]


# --- moments


def test_moments_are_those_of_the_pooled_rows(table, run):
    rows = encoded(table)
    numbers = np.concatenate(rows)[:, NUMBERS]
    expected = np.stack([numbers.mean(axis=0), numbers.std(axis=0)], axis=1)
    np.testing.assert_allclose(run(rows, FAST)[0].after["moments"], expected, rtol=1e-9)
    isolated = run(rows, replace(FAST, technique="isolated"))[0]
    for update, own in zip(isolated.updates, rows, strict=True):
        expected = np.stack([own[:, NUMBERS].mean(axis=0), own[:, NUMBERS].std(axis=0)], axis=1)
        np.testing.assert_allclose(update.arrays["moments"], expected, rtol=1e-9)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_moments_held_to_be_public_are_not_asked_for(table, run, technique):
    config = replace(FAST, technique=technique, moments=((0.2, 0.5), (0.7, 0.25)))
    rows = encoded(table)
    found = run(rows, config)
    assert len(found) == (1 if technique == "isolated" else 3)
    expected = rows[0][:, NUMBERS] / [0.5, 0.25] - [0.4, 2.8]
    np.testing.assert_allclose(found[0].trained[0][0][:, NUMBERS], expected, rtol=1e-5, atol=1e-5)
    assert vae_bgm_budget.MOMENTS not in [
        charge.what for each in found for u in each.updates for charge in u.spent
    ]


def test_as_many_moments_as_numeric_columns_are_needed(table):
    with pytest.raises(BadInput, match="1 moments for 2 numeric columns"):
        settings.central(vae_bgm, table, config=replace(FAST, moments=((0.5, 0.1),)))


def sums_of(rows, noise=None, config=PRIVATE):
    state = {"levels": LEVELS, "round": np.array(0)}
    return vae_bgm.client_step(state, Client(rows, 0, 1), config, noise, stream(1))


def test_one_row_more_moves_the_sums_by_their_sensitivity_at_most(table):
    rows, moved = encoded(table)[0], []
    claimed = sums_of(rows, Noise(1.0, stream(0))).spent[0]
    for extra in ([1, 1, 1, 3, 1], [0, 0, 0, 0, 0], [0.5, 1, 1, 0, 0], [0, 1, 0, 3, 0]):
        more = sums_of(np.vstack([rows, extra])).arrays["sums"]
        moved.append(np.linalg.norm(more - sums_of(rows).arrays["sums"]))
    assert max(moved) == pytest.approx(claimed.sensitivity) == pytest.approx(5**0.5)
    noise = Noise(1.0, stream(2))
    drawn = np.stack(
        [sums_of(rows, noise).arrays["sums"] - sums_of(rows).arrays["sums"] for _ in range(1000)]
    )
    assert drawn.std() == pytest.approx(
        claimed.noise * claimed.sensitivity, rel=5 / (2 * drawn.size) ** 0.5
    )
    assert (np.abs(np.corrcoef(drawn.T) - np.eye(5)) < 0.2).all()


@pytest.mark.parametrize("rows", [np.zeros((5, 5)), np.ones((1, 5)), np.full((3, 5), 0.5)])
def test_moments_are_never_degenerate(rows):
    for noise in (None, *(Noise(3.0, stream(seed)) for seed in range(20))):
        state, _ = vae_bgm.server_step(
            {"levels": LEVELS, "round": np.array(0)},
            [sums_of(rows, noise)],
            PRIVATE,
            noise,
            stream(0),
        )
        assert (np.abs(state["moments"][:, 0] - 0.5) <= 0.5).all()
        assert (state["moments"][:, 1] >= 0.01 - 1e-12).all() and (
            state["moments"][:, 1] <= 1
        ).all()


def test_standardising_is_undone_and_cut_to_the_range(table):
    rows, moments = encoded(table)[0], np.array([[0.3, 0.2], [0.6, 0.05]])
    there = vae_bgm.standardised(rows, LEVELS, moments)
    assert there.dtype == np.float32
    np.testing.assert_allclose(there[:, 0], (rows[:, 0] - 0.3) / 0.2, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(there[:, ~NUMBERS], rows[:, ~NUMBERS])
    np.testing.assert_allclose(vae_bgm.places(there, LEVELS, moments), rows, atol=1e-6)
    far = vae_bgm.places(np.array([[9.0, -99.0, 1, 3, 0]]), LEVELS, moments)
    assert far.tolist() == [[1, 0, 1, 3, 0]] and there[0, 0] != far[0, 0]


# --- rows


def test_rows_come_from_all_nodes_in_proportion_and_from_a_nodes_networks_in_equal_parts(
    table, run
):
    """Generators made to tell: each node puts both numbers at a place of its own, each network a
    pair of its own."""
    config = replace(FAST, networks=3, training_rounds=1)
    state = run(encoded(table, (300, 100)), config)[-1].after
    told = vae_bgm_training.untrained(LEVELS, config)
    for network, sign in zip(told, (1, -1, -1), strict=True):
        network.outer.weight.data.zero_()
        network.outer.bias.data[4:6] = sign * 1e4
    for node, place in ((0, 0.25), (1, 0.75)):
        state[f"generator/{node}/moments"] = np.array([[place, 1e-6]] * 2)
        state[f"generator/{node}/decoders"] = decoders(told)
    rows = vae_bgm.sample(state, 2000, config, stream(5))
    assert rows.shape == (2000, 5) and set(rows[:, :2].ravel().round(3)) == {0.25, 0.75}
    assert (rows[:, 0] < 0.5).sum() == pytest.approx(1500, abs=5 * 20) and (rows[:, 0] < 0.5)[
        :100
    ].std() > 0.2
    drawn = vae_bgm.drawn(state, 1, 3001, config, stream(5))
    assert drawn.shape == (3001, 5) and np.abs(drawn[:, 0]).max() < 6  # standardised still
    # a pair errs rarely
    assert drawn[:, 2].sum() == pytest.approx(1000, abs=8) and drawn[:1000, 2].std() > 0.4
    np.testing.assert_array_equal(drawn, vae_bgm.drawn(state, 1, 3001, config, stream(5)))
    assert not np.array_equal(drawn, vae_bgm.drawn(state, 1, 3001, config, stream(6)))
