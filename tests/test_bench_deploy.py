"""How long many sites take, and how many bytes they send: through one SuperLink, in Flower's
simulation, and in one process. Run with `pytest -m bench -s`."""

import threading
import time
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_connection import http_request_response
from relay import Relay
from sites import SCHEMA, Parties, ports

from fedsynth_lib.core.contract import Privacy
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.release.deploy import apps, keys
from fedsynth_lib.release.deploy.init import init
from fedsynth_lib.release.deploy.place import Place
from fedsynth_lib.tables.load import load_table

pytestmark = pytest.mark.bench
NODES, ROUNDS, BINS, ROWS = 50, 3, 250, 40
LOOK = 3.0  # seconds between a SuperNode's looks for messages
CLIENTS = 100


def rows_of(number: int) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    words = np.array(["no", "yes"])
    age, smoker, sick = rng.integers(18, 100, ROWS), *(rng.integers(0, 2, ROWS) for _ in range(2))
    return pd.DataFrame({"age": age, "smoker": words[smoker], "sick": words[sick]})


@pytest.fixture
def places(tmp_path):
    """Fifty sites of a study, with keys."""
    keys.make_server_keys(tmp_path / "server", keys.HERE)
    sites = []
    for number in range(NODES):
        keys.make_node_key(tmp_path / f"s{number}")
        rows_of(number).to_csv(tmp_path / f"s{number}.csv", index=False)
        sites.append((f"s{number}", ROWS, (tmp_path / f"s{number}" / "node.pub").read_text()))
    (tmp_path / "schema.toml").write_text(SCHEMA)
    study = init(
        tmp_path / "study",
        name="many",
        schema=tmp_path / "schema.toml",
        sites=sites,
        ca=(tmp_path / "server" / keys.CA).read_text(),
        method="independent",
        epsilon=1.0,
        delta=1e-6,
        absent=2,
        server=f"localhost:{ports()}",
        config={"bins": BINS, "rounds": ROUNDS},
    )
    return [
        Place(
            study,
            number,
            load_table(tmp_path / f"s{number}.csv", schema=tmp_path / "schema.toml"),
            keys.private_key(tmp_path / f"s{number}" / "node"),
        )
        for number in range(NODES)
    ]


ONE_AT_A_TIME = threading.Lock()  # Flower keeps whose turn it is in one place of a process


def answer(address: str, app, ended: threading.Event) -> None:
    """A light node: Flower's connection of a SuperNode, and the site's app in this thread."""
    with http_request_response(address, insecure=True) as link:
        node, receive, send, _, _, pull, push, confirm = link
        context = Context(0, node, {}, RecordDict(), {})
        while not ended.is_set():
            found = receive()
            if found is None:
                ended.wait(LOOK)
                continue
            asked, tree = found
            run = context.run_id = asked.metadata.run_id
            message = pull_and_inflate_object_from_tree(
                tree,
                lambda object_id, run=run: pull(run, object_id),
                lambda object_id, run=run: confirm(run, object_id),
                return_type=Message,
            )
            message.metadata.__dict__["_message_id"] = tree.object_id
            with ONE_AT_A_TIME:
                TaskIdentity.task_id = TaskIdentity.run_id = run
                TaskIdentity.node_id = node
                reply = app(message, context)
                reply.metadata.__dict__["_message_id"] = reply.object_id
                contents = objects_of(reply)
                made = get_object_tree(reply)
            wanted, session = send(reply, made, 0.1)
            for each in iterate_object_tree(made):
                if each.object_id in wanted:
                    push(run, session, each.object_id, contents[each.object_id])


def objects_of(message: Message) -> dict[str, bytes]:
    """All parts of a message as they cross the wire, by their ids."""
    found = {message.object_id: message.deflate()}
    for child in (message.children or {}).values():
        found |= objects_of(child)
    return found


def timed_rounds(waited) -> float:
    """Seconds of a round after the first. waited: returns once so many rounds are done."""
    waited(1)
    begin = time.monotonic()
    waited(ROUNDS)
    return (time.monotonic() - begin) / (ROUNDS - 1)


def test_fifty_nodes_through_one_superlink(places, tmp_path, monkeypatch, capsys):
    study, ended = places[0].study, threading.Event()
    with ExitStack() as stack:
        relay = stack.enter_context(Relay(study.address[1]))
        parties = stack.enter_context(Parties(tmp_path))
        parties.server("--insecure")
        parties.wait("server", "listens")
        nodes = [
            threading.Thread(
                target=answer,
                args=(f"127.0.0.1:{relay.port}", apps.site_app(place), ended),
                daemon=True,
            )
            for place in places
        ]
        for node in nodes:
            node.start()
        stack.callback(ended.set)
        parties.run("far", "--insecure")
        far = timed_rounds(lambda number: parties.wait("run", f"round {number} of"))
        assert parties.status("run") == 0, parties.said("run")
    wire = {way: sum(map(len, heard)) for way, heard in relay.heard.items()}
    times = []
    monkeypatch.setattr(apps, "say", lambda text: times.append(time.monotonic()))
    client = apps.SiteApp(lambda context: places[context.node_id - 1])
    context = Context(flower.LOCAL_RUN, 0, {}, RecordDict(), {"out": str(tmp_path / "here")})
    apps.carry_out(study, flower.LocalGrid(client, NODES), context, insecure=False)
    here = (times[1 + ROUNDS] - times[2]) / (ROUNDS - 1)
    assert (tmp_path / "far" / "many_rehearsal.csv").read_bytes() == (
        tmp_path / "here" / "many_rehearsal.csv"
    ).read_bytes()
    traffic = pd.read_json(tmp_path / "far" / "many_rehearsal_traffic.json")
    lines = pd.DataFrame(list(traffic["messages"]))
    arrays = lines.groupby("direction")["bytes"].sum()
    later = lines[lines["round"] > 0].groupby("direction")["bytes"].sum() / (ROUNDS - 1)
    with capsys.disabled():
        print(
            f"\n{NODES} nodes, {ROUNDS} rounds: {far:.2f} s a round through a SuperLink, ", end=""
        )
        print(f"{here:.2f} s in one process, {far / here:.1f} times")
        for way in ("up", "down"):
            print(
                f"{way}: arrays {later[way]:,.0f} bytes a round; all {arrays[way]:,.0f},", end=" "
            )
            print(f"on the wire {wire[way]:,} ({wire[way] / arrays[way]:.2f} times)")


def test_a_hundred_clients_in_flowers_simulation(tmp_path, capsys):
    pd.concat(map(rows_of, range(CLIENTS))).to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    table = load_table(tmp_path / "all.csv", schema=tmp_path / "schema.toml")
    parts = np.split(np.arange(len(table)), CLIENTS)
    method, seconds, made = METHODS["independent"], {}, {}
    for runtime in ("in_process", "ray"):
        begin = time.monotonic()
        made[runtime] = settings.federated(
            method,
            table,
            parts,
            config=method.Config(bins=BINS, rounds=ROUNDS),
            privacy=Privacy(1.0, 1e-6),
            runtime=runtime,
        )
        seconds[runtime] = (time.monotonic() - begin) / ROUNDS
    assert made["ray"].synthetic.equals(made["in_process"].synthetic)
    assert made["ray"].bytes_up == made["in_process"].bytes_up
    with capsys.disabled():
        print(f"\n{CLIENTS} clients, {ROUNDS} rounds, seconds a round with its start: {seconds}, ")
        print(f"{seconds['ray'] / seconds['in_process']:.1f} times; bytes up a round: ", end="")
        print(f"{made['ray'].bytes_up / ROUNDS:,.0f}, down {made['ray'].bytes_down / ROUNDS:,.0f}")
