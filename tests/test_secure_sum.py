"""Masks cancel exactly; one masked message looks uniform; shares hide what they add up to."""

from itertools import combinations
from math import ceil, log2

import networkx as nx
import numpy as np
import pytest
from scipy.stats import kstest

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Update


def test_masks_differ_between_rounds_and_arrays_and_a_missing_client_spoils_the_sum():
    first, second = (
        secure_sum.mask({"a": np.zeros(8, int)}, client=0, clients=range(3), round=r, seed=1)["a"]
        for r in (0, 1)
    )
    assert not np.any(first == second)
    both = secure_sum.mask(
        {"a": np.zeros(8, int), "b": np.zeros(8, int)}, client=0, clients=range(3), round=0, seed=1
    )
    assert not np.any(both["a"] == both["b"])  # one pad for two arrays would show their difference
    partial = [
        Update(
            summed=secure_sum.mask(
                {"a": np.ones(8, int)}, client=k, clients=range(3), round=0, seed=1
            )
        )
        for k in range(2)
    ]
    assert np.all(np.abs(secure_sum.total(partial)["a"]) > 2**40)


def test_only_integers_can_be_summed():
    with pytest.raises(TypeError, match="'a' has float64"):
        secure_sum.mask({"a": np.zeros(3)}, client=0, clients=range(2), round=0, seed=1)


# --- who shares masks with whom ---


@pytest.mark.parametrize(
    "clients", [range(1), range(2), range(3), range(5), (4, 7, 9, 30), range(100), range(3, 500, 2)]
)
def test_neighbours_are_a_connected_ring_of_some_log_n(clients):
    clients = list(clients)
    near = {client: secure_sum.neighbours(client, clients) for client in clients}
    graph = nx.Graph([(client, other) for client in clients for other in near[client]])
    graph.add_nodes_from(clients)
    # else masks would not cancel
    assert all(client in near[other] for client in clients for other in near[client])
    assert all(
        client not in near[client] and near[client] == sorted(set(near[client]))
        for client in clients
    )
    assert nx.is_connected(graph) and set(graph) == set(clients)
    wanted = 2 * ceil(log2(max(2, len(clients))))
    assert {len(others) for others in near.values()} == {min(wanted, len(clients) - 1)}


def test_the_ring_depends_on_the_order_of_indices_only():
    ring = {client: secure_sum.neighbours(client, range(64)) for client in range(64)}
    spread = {
        client: secure_sum.neighbours(client, range(0, 640, 10)) for client in range(0, 640, 10)
    }
    assert spread == {
        10 * client: [10 * other for other in others] for client, others in ring.items()
    }


# --- sums over some of the clients ---


@pytest.mark.parametrize("num_clients", [2, 3, 10, 100])
def test_masks_cancel_within_every_group(num_clients):
    """Clients that are not 0 to n - 1, each in some sums: what the server adds up is exact for
    every group."""
    rng = np.random.default_rng(num_clients)
    clients = sorted(rng.choice(1000, num_clients, replace=False).tolist())
    groups = {"all": clients, "pair": clients[:2], "one": clients[-1:], "odd": clients[1::2]}
    secret = {
        (client, name): rng.integers(-(2**40), 2**40, 4)
        for name, group in groups.items()
        for client in group
    }
    updates = []
    for client in clients:
        own = {name: secret[client, name] for name, group in groups.items() if client in group}
        known = {name: groups[name] for name in own if name != "all"}
        updates.append(
            Update(
                summed=secure_sum.mask(
                    own, client=client, clients=clients, round=0, seed=1, groups=known
                )
            )
        )
    for name, total in secure_sum.total(updates).items():
        assert total.tolist() == sum(secret[client, name] for client in groups[name]).tolist()


def test_a_group_of_one_is_not_hidden_and_larger_ones_are():
    """Whoever chose a marginal alone shows its counts to the server: secure summation cannot hide a
    sum of one."""
    options = {"client": 3, "clients": range(10), "round": 0, "seed": 1}
    alone = secure_sum.mask({"a": np.arange(4)}, groups={"a": (3,)}, **options)["a"]
    assert alone.tolist() == [0, 1, 2, 3]
    two = secure_sum.mask({"a": np.zeros(20_000, int)}, groups={"a": (3, 8)}, **options)["a"]
    assert kstest(two / 2**64, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("num_clients", [2, 10, 100])
def test_every_clients_message_is_uniform_and_so_are_sums_of_some(num_clients):
    clients, messages = range(num_clients), []
    for client in list(clients)[:10]:
        secret = {"a": np.full(4000, client)}
        messages.append(
            secure_sum.mask(secret, client=client, clients=clients, round=0, seed=2)["a"]
        )
    assert all(kstest(message / 2**64, "uniform").pvalue > 1e-4 for message in messages)
    assert num_clients == 2 or all(
        kstest((one + two) / 2**64, "uniform").pvalue > 1e-4
        for one, two in combinations(messages[:5], 2)
    )


# --- additive shares ---


def added(shares, shape):
    return sum(secure_sum.opened(share, shape) for share in shares).view(np.int32)


@pytest.mark.parametrize("seed", range(3))
def test_three_shares_add_up_to_the_counts_and_no_fewer(seed):
    counts = np.array([0, 1, 17, 2**16, 2**24 + 1, 2**31 - 1])
    shares = secure_sum.shares(counts, rng=np.random.default_rng(seed))
    assert [share.nbytes for share in shares] == [8, 8, 4 * len(counts)]
    assert added(shares, counts.shape).tolist() == counts.tolist()
    for missing in range(3):
        fewer = [share for place, share in enumerate(shares) if place != missing]
        assert not np.any(added(fewer, counts.shape) == counts)


def test_servers_may_add_their_shares_before_anybody_puts_them_together():
    """2,000 clients' counts stay exact."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 10**6, (2000, 5))
    held = [np.zeros(5, np.uint32)] * 3
    for own in counts:
        held = [
            sum_ + secure_sum.opened(share, (5,))
            for sum_, share in zip(held, secure_sum.shares(own, rng=rng), strict=True)
        ]
    assert added(held, (5,)).tolist() == counts.sum(axis=0).tolist()


def test_a_share_is_uniform_whatever_it_hides():
    for value in (0, 1, 2**31 - 1):
        for share in secure_sum.shares(np.full(20_000, value), rng=np.random.default_rng(3)):
            assert kstest(secure_sum.opened(share, (20_000,)) / 2**32, "uniform").pvalue > 1e-3
