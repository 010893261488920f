"""The apps in process and under Ray: same rows, bytes counted, nothing dropped, only those drawn
are asked."""

import numpy as np
import pytest
from promises import thirds
from test_methods import broken

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import BadInput, Domain, Privacy, Update
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.marginals import flaim, independent


@pytest.mark.slow
def test_ray_gives_the_same_rows_as_in_process(table):
    """Every client takes part from the first message on, and neither order nor process changes a
    draw."""
    options = {
        "privacy": Privacy(2.0),
        "seed": 4,
        "config": bayesian_network.Config(generations=40),
    }
    here = settings.federated(bayesian_network, table, thirds(table), **options)
    ray = settings.federated(bayesian_network, table, thirds(table), runtime="ray", **options)
    assert ray.synthetic.equals(here.synthetic)
    assert ray.statement == here.statement
    assert (ray.bytes_up, ray.bytes_down) == (here.bytes_up, here.bytes_down)


def test_arrays_survive_the_wire():
    sent = {
        "a": np.arange(6).reshape(2, 3),
        "scalar": np.array(3),
        "empty": np.zeros((0, 4), np.int16),
    }
    received = flower.unpack(flower.pack(sent))
    assert received.keys() == sent.keys()
    for name, array in sent.items():
        assert np.array_equal(received[name], array) and received[name].dtype == array.dtype


def test_bytes_are_counted_by_kind_round_and_client(table):
    run = settings.federated(independent, table, thirds(table), seed=1)
    up = [line for line in run.traffic if line["direction"] == "up"]
    levels = sum(independent.encoder(table.schema, independent.Config()).domain.levels)
    assert [(line["round"], line["client"], line["kind"]) for line in up] == [
        (0, k, "summed") for k in range(3)
    ]
    # one int64 for each level, and the array's name
    assert all(line["bytes"] == 8 * levels + len("counts") for line in up)
    assert run.bytes_up == sum(line["bytes"] for line in up)
    assert run.bytes_down == sum(
        line["bytes"] for line in run.traffic if line["direction"] == "down"
    )


def test_the_server_sees_no_single_clients_counts(table):
    """What arrives under `summed` is masked: far from any count, and different from client to
    client."""
    seen = []

    def watching(state, updates, config, noise, rng):
        seen.extend(update.summed["counts"].copy() for update in updates)
        return independent.server_step(state, updates, config, noise, rng)

    run = settings.federated(
        broken(independent, server_step=watching), table, thirds(table), seed=1
    )
    assert run.state["counts"][-2:].sum() == 1200  # the sum is exact: `ill` has 1,200 rows in all
    assert all(np.median(array) > 2**50 for array in seen)


def test_clients_cannot_change_the_servers_state(table):
    def vandal(state, client, config, noise, rng):
        update = independent.client_step(state, client, config, noise, rng)
        for array in state.values():
            array[...] = 0
        return update

    clean = settings.federated(independent, table, thirds(table), seed=1)
    attacked = settings.federated(
        broken(independent, client_step=vandal), table, thirds(table), seed=1
    )
    assert attacked.synthetic.equals(clean.synthetic)


def test_memory_lasts_between_rounds_and_never_travels(table):
    calls = []

    def remembering(state, client, config, noise, rng):
        calls.append((client.index, int(client.memory.get("visits", 0))))
        client.memory["visits"] = np.array(int(client.memory.get("visits", 0)) + 1)
        return independent.client_step(state, client, config, noise, rng)

    method = broken(independent, client_step=remembering)
    run = settings.federated(
        method, table, thirds(table), config=independent.Config(rounds=3), seed=1
    )
    assert sorted(calls) == [(k, visit) for k in range(3) for visit in range(3)]
    assert "visits" not in run.state and {line["kind"] for line in run.traffic} == {
        "state",
        "summed",
    }


def test_a_clients_error_surfaces_as_it_is(table):
    def failing(state, client, config, noise, rng):
        raise ZeroDivisionError("client 1 fell over") if client.index == 1 else KeyError("unused")

    def second_only(state, client, config, noise, rng):
        return (
            failing(state, client, config, noise, rng)
            if client.index == 1
            else Update({"a": np.zeros(1)})
        )

    with pytest.raises(ZeroDivisionError, match="fell over"):
        settings.federated(
            broken(independent, client_step=second_only), table, thirds(table), seed=1
        )


def test_a_missing_client_stops_the_run(table):
    """The masks and noise shares of an absent client would be missing from the sum."""

    class Deaf(flower.LocalGrid):
        def pull_messages(self, message_ids):
            replies = super().pull_messages(message_ids)
            return [r for r in replies if r.metadata.src_node_id != 1 or "arrays" not in r.content]

    encoder = independent.encoder(table.schema, independent.Config())
    job = flower.Job(independent, independent.Config(), encoder.domain, None, 0, 3)
    rows = [encoder.transform(table.frame.iloc[part]) for part in thirds(table)]
    client = flower.client_app(job, lambda index: rows[index])
    grid, outcome = Deaf(client, 3), flower.Outcome()
    context = next(iter(grid._contexts.values()))
    with pytest.raises(RuntimeError, match=r"round 1: client 0: no answer \[late\]"):
        flower.server_app(job, outcome)(grid, context)


def test_waiting_for_nodes_gives_up_with_a_count():
    grid = flower.LocalGrid(flower.ClientApp(), 2)
    assert flower.wait_for_nodes(grid, 2) == [1, 2]
    with pytest.raises(TimeoutError, match="2 of 3 clients"):
        flower.wait_for_nodes(grid, 3, timeout=0.2)


# --- rounds that only some clients take part in ---

DRAWS = [(7, 0.5), (7, 0.5), (8, 0.5), (9, 1.0), (10, 0.5)]


def scheduled(draws, **replaced):
    return broken(independent, schedule=lambda domain, config: draws, **replaced)


def job_of(method, num_clients, seed=1):
    return flower.Job(
        method, independent.Config(rounds=3), Domain(("x",), (2,)), None, seed, num_clients
    )


def asked(run, number, direction="down"):
    return [
        line["client"]
        for line in run.traffic
        if (line["round"], line["direction"]) == (number, direction)
    ]


def sixths(table):
    return np.array_split(np.arange(len(table)), 6)


def test_without_a_schedule_everyone_is_in_every_round(table):
    job = job_of(independent, 4)
    assert [share for _, share in job.schedule()] == [1.0] * 3
    assert [job.participants(*entry) for entry in job.schedule()] == [[0, 1, 2, 3]] * 3


def test_those_drawn_are_asked_and_nobody_else(table):
    """Traffic, masks and rows: the state holds the rows of the participants of each round, once
    each."""
    seen = []

    def noting(state, client, config, noise, rng):
        seen.append((client.index, client.num_clients))
        return independent.client_step(state, client, config, noise, rng)

    run = settings.federated(scheduled(DRAWS, client_step=noting), table, sixths(table), seed=1)
    job = job_of(scheduled(DRAWS), 6)
    expected = [job.participants(*entry) for entry in DRAWS]
    assert (
        [asked(run, number) for number in range(5)]
        == [asked(run, number, "up") for number in range(5)]
        == expected
    )
    assert seen == [(client, len(members)) for members in expected for client in members]
    assert (
        expected[0] == expected[1]
        and expected[3] == list(range(6))
        and len(set(map(str, expected))) == 4
    )
    assert run.state["counts"][-2:].sum() == sum(200 * len(members) for members in expected)


def test_draws_depend_on_the_seed_and_on_their_number():
    job, other = job_of(independent, 50), job_of(independent, 50, seed=2)
    assert job.participants(3, 0.5) == job.participants(3, 0.5)
    assert job.participants(3, 0.5) != job.participants(4, 0.5) and job.participants(
        3, 0.5
    ) != other.participants(3, 0.5)
    shares = [len(job.participants(draw, 0.3)) / 50 for draw in range(400)]
    assert np.mean(shares) == pytest.approx(0.3, abs=0.01)


def test_somebody_is_always_drawn():
    """Redrawn until there is someone, each client as likely as any other."""
    job = job_of(independent, 5)
    drawn = [job.participants(draw, 0.02) for draw in range(500)]
    assert min(map(len, drawn)) == 1
    assert np.bincount(np.concatenate(drawn), minlength=5).min() > 60


def test_a_finished_state_ends_the_run(table):
    def ends(state, updates, config, noise, rng):
        state, charges = independent.server_step(state, updates, config, noise, rng)
        rounds = int(state.get("rounds", 0)) + 1
        return {**state, "rounds": np.array(rounds), "finished": np.array(rounds == 2)}, charges

    method = scheduled(DRAWS, server_step=ends, check_broadcast=None)
    run = settings.federated(method, table, sixths(table), seed=1)
    assert {line["round"] for line in run.traffic} == {0, 1} and run.state["rounds"] == 2


def test_the_server_knows_who_sent_what(table):
    senders = []

    def noting(state, updates, config, noise, rng):
        senders.append([update.client for update in updates])
        return independent.server_step(state, updates, config, noise, rng)

    run = settings.federated(scheduled(DRAWS, server_step=noting), table, sixths(table), seed=1)
    assert senders == [asked(run, number) for number in range(5)]


def test_a_method_decides_what_its_clients_are_sent(table):
    received = []

    def noting(state, client, config, noise, rng):
        received.append(state)
        return independent.client_step(state, client, config, noise, rng)

    method = broken(
        independent,
        client_step=noting,
        broadcast=lambda state, config: {"levels": state["levels"]},
        check_broadcast=None,
    )
    less, all_of_it = (
        settings.federated(each, table, thirds(table), config=independent.Config(rounds=2), seed=1)
        for each in (method, independent)
    )
    assert all(set(state) == {"levels"} for state in received)
    assert less.synthetic.equals(all_of_it.synthetic) and 0 < less.bytes_down < all_of_it.bytes_down


def test_sums_over_groups_cross_the_wire_exactly(table):
    """Even clients add to one sum, odd ones to the other; the server gets neither from anyone
    alone."""
    seen = []

    def halves(state, client, config, noise, rng):
        group = tuple(range(client.index % 2, 6, 2))
        name = ("even", "odd")[client.index % 2]
        return Update(summed={name: np.full(3, 10**client.index)}, groups={name: group}, num_rows=1)

    def noting(state, updates, config, noise, rng):
        seen.extend(array for update in updates for array in update.summed.values())
        return {**state, **secure_sum.total(updates)}, []

    run = settings.federated(
        broken(independent, client_step=halves, server_step=noting), table, sixths(table), seed=1
    )
    assert run.state["even"].tolist() == [10101] * 3 and run.state["odd"].tolist() == [101010] * 3
    assert all(np.median(array) > 2**50 for array in seen)


def test_too_few_clients_for_the_schedule_are_refused(table):
    with pytest.raises(BadInput, match=r"6 clients at this participation make 0\.6 a round"):
        settings.federated(scheduled([(0, 1.0), (1, 0.1)]), table, sixths(table), seed=1)


# --- clients are known by their partition, not by the order of their nodes ---


class Shuffled(flower.LocalGrid):
    """A grid whose node ids are in another order than the partitions, as behind a SuperLink."""

    def __init__(self, app, num_clients):
        super().__init__(app, num_clients)
        contexts = list(self._contexts.values())
        self._contexts = {1000 - 7 * place: context for place, context in enumerate(contexts)}


def shuffled(server, client, num_clients):
    server(
        Shuffled(client, num_clients), next(iter(Shuffled(client, num_clients)._contexts.values()))
    )


@pytest.mark.parametrize("method", [scheduled(DRAWS), flaim], ids=["drawn", "flaim"])
def test_some_of_the_clients_are_asked_whatever_their_nodes_are_called(table, monkeypatch, method):
    config = (
        flaim.Config(rounds=2, participation=0.5, iterations=5, final_iterations=5)
        if method is flaim
        else None
    )
    privacy = Privacy(2.0, 1e-5) if config else None
    options = {"config": config, "privacy": privacy, "seed": 1, "num_rows": 50}
    here = settings.federated(method, table, sixths(table), **options)
    monkeypatch.setitem(settings.RUNTIMES, "in_process", shuffled)
    there = settings.federated(method, table, sixths(table), **options)
    assert there.synthetic.equals(here.synthetic) and there.traffic == here.traffic


def test_two_nodes_with_the_same_partition_are_refused(table):
    class Twins(flower.LocalGrid):
        def __init__(self, app, num_clients):
            super().__init__(app, num_clients)
            self._contexts[2] = self._contexts[1]

    app = flower.client_app(job_of(independent, 3), lambda index: np.zeros((1, 1), int))
    with pytest.raises(RuntimeError, match=r"3 nodes hold the partitions \[0, 2\]"):
        flower.nodes_of_clients(Twins(app, 3), [1, 2, 3])
