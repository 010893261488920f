"""The apps in process and under Ray: same rows, bytes counted, nothing dropped."""

import numpy as np
import pytest
from promises import thirds
from test_methods import broken

from fedsynth_lib import flower_app, settings
from fedsynth_lib.interface import Privacy, Update
from fedsynth_lib.methods import bayesian_network, independent


def test_ray_gives_the_same_rows_as_in_process(table):
    """Every client takes part from the first message on, and neither order nor process changes a draw."""
    options = {"privacy": Privacy(2.0), "seed": 4, "config": bayesian_network.Config(generations=40)}
    here = settings.federated(bayesian_network, table, thirds(table), **options)
    ray = settings.federated(bayesian_network, table, thirds(table), runtime="ray", **options)
    assert ray.synthetic.equals(here.synthetic)
    assert ray.statement == here.statement
    assert (ray.bytes_up, ray.bytes_down) == (here.bytes_up, here.bytes_down)


def test_arrays_survive_the_wire():
    sent = {"a": np.arange(6).reshape(2, 3), "scalar": np.array(3), "empty": np.zeros((0, 4), np.int16)}
    received = flower_app.unpack(flower_app.pack(sent))
    assert received.keys() == sent.keys()
    for name, array in sent.items():
        assert np.array_equal(received[name], array) and received[name].dtype == array.dtype


def test_bytes_are_counted_by_kind_round_and_client(table):
    run = settings.federated(independent, table, thirds(table), seed=1)
    up = [line for line in run.traffic if line["direction"] == "up"]
    levels = sum(independent.encoder(table.schema, independent.Config()).domain.levels)
    assert [(line["round"], line["client"], line["kind"]) for line in up] == [(0, k, "summed") for k in range(3)]
    # one int64 for each level, and the array's name
    assert all(line["bytes"] == 8 * levels + len("counts") for line in up)
    assert run.bytes_up == sum(line["bytes"] for line in up)
    assert run.bytes_down == sum(line["bytes"] for line in run.traffic if line["direction"] == "down")


def test_the_server_sees_no_single_clients_counts(table):
    """What arrives under `summed` is masked: far from any count, and different from client to client."""
    seen = []

    def watching(state, updates, config, noise, rng):
        seen.extend(update.summed["counts"].copy() for update in updates)
        return independent.server_step(state, updates, config, noise, rng)

    run = settings.federated(broken(independent, server_step=watching), table, thirds(table), seed=1)
    assert run.state["counts"][-2:].sum() == 1200  # the sum is exact: `ill` has 1,200 rows in all
    assert all(np.median(array) > 2**50 for array in seen)


def test_clients_cannot_change_the_servers_state(table):
    def vandal(state, client, config, noise, rng):
        update = independent.client_step(state, client, config, noise, rng)
        for array in state.values():
            array[...] = 0
        return update

    clean = settings.federated(independent, table, thirds(table), seed=1)
    attacked = settings.federated(broken(independent, client_step=vandal), table, thirds(table), seed=1)
    assert attacked.synthetic.equals(clean.synthetic)


def test_memory_lasts_between_rounds_and_never_travels(table):
    calls = []

    def remembering(state, client, config, noise, rng):
        calls.append((client.index, int(client.memory.get("visits", 0))))
        client.memory["visits"] = np.array(int(client.memory.get("visits", 0)) + 1)
        return independent.client_step(state, client, config, noise, rng)

    method = broken(independent, client_step=remembering)
    run = settings.federated(method, table, thirds(table), config=independent.Config(rounds=3), seed=1)
    assert sorted(calls) == [(k, visit) for k in range(3) for visit in range(3)]
    assert "visits" not in run.state and {line["kind"] for line in run.traffic} == {"state", "summed"}


def test_a_clients_error_surfaces_as_it_is(table):
    def failing(state, client, config, noise, rng):
        raise ZeroDivisionError("client 1 fell over") if client.index == 1 else KeyError("unused")

    def second_only(state, client, config, noise, rng):
        return failing(state, client, config, noise, rng) if client.index == 1 else Update({"a": np.zeros(1)})

    with pytest.raises(ZeroDivisionError, match="fell over"):
        settings.federated(broken(independent, client_step=second_only), table, thirds(table), seed=1)


def test_a_missing_client_stops_the_run(table):
    """The masks and noise shares of an absent client would be missing from the sum."""

    class Deaf(flower_app.LocalGrid):
        def pull_messages(self, message_ids):
            return list(super().pull_messages(message_ids))[1:]

    encoder = independent.encoder(table.schema, independent.Config())
    job = flower_app.Job(independent, independent.Config(), encoder.domain, None, 0, 3)
    rows = [encoder.transform(table.frame.iloc[part]) for part in thirds(table)]
    client = flower_app.client_app(job, lambda index: rows[index])
    grid, outcome = Deaf(client, 3), flower_app.Outcome()
    context = next(iter(grid._contexts.values()))
    with pytest.raises(RuntimeError, match=r"no answer from clients \[0\]"):
        flower_app.server_app(job, outcome)(grid, context)


def test_waiting_for_nodes_gives_up_with_a_count():
    grid = flower_app.LocalGrid(flower_app.ClientApp(), 2)
    assert flower_app.wait_for_nodes(grid, 2) == [1, 2]
    with pytest.raises(TimeoutError, match="2 of 3 clients"):
        flower_app.wait_for_nodes(grid, 3, timeout=0.2)
