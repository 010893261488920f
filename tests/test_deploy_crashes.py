"""What a site and a server of a study do when the other one, or the network, is gone for a while.
Clocks are made up; test_deploy.py has the real processes."""

import ast
import asyncio
import importlib
import json
import math
import socket
import ssl
import stat
import time
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import GetNodesResponse
from flwr.supercore.run import Run
from flwr.superlink.dependencies.linkstate import get_linkstate
from flwr.superlink.grid import HttpGrid
from flwr.superlink.main import create_app
from sites import ROOT, SCHEMA, make

from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import child, server, server_worker, site, worker
from fedsynth_lib.release.deploy.init import about_absent, absent_of
from fedsynth_lib.release.deploy.notes import Notes
from fedsynth_lib.release.deploy.processes import Children, Ended, only_one
from fedsynth_lib.release.deploy.study import read_study

HOUR = 3600.0


class Clock:
    """Seconds that pass where somebody sleeps. events: what happens, by when."""

    def __init__(self):
        self.now, self.events = 0.0, {}

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for when in [each for each in self.events if each <= self.now]:
            self.events.pop(when)()


# --- a site whose server is away ------------------------------------------------------------------

STUDY = SimpleNamespace(server="far.example:9443", address=("far.example", 9443))
NO_NAME = socket.gaierror(-2, "Name or service not known")
REFUSED = ConnectionRefusedError(111, "Connection refused")
PORTAL = ssl.SSLCertVerificationError("the network shows its own page")
PORTAL.verify_message = "self-signed certificate"


def away(monkeypatch, error: OSError, clock: Clock, until: float) -> None:
    """The server answers with an error until then."""

    def shake(study):
        if clock() < until:
            raise error

    monkeypatch.setattr(site, "_shake_hands", shake)


def test_before_a_first_connection_a_site_gives_up(monkeypatch):
    for error, least, most in ((NO_NAME, 0, 0), (REFUSED, 600, 610)):
        clock, said = Clock(), []
        away(monkeypatch, error, clock, math.inf)
        with pytest.raises(BadInput, match="is it started, and is the address right"):
            site.check_server(STUDY, said.append, clock=clock, sleep=clock.sleep)
        assert least <= clock() <= most


@pytest.mark.parametrize("error", [NO_NAME, REFUSED, PORTAL])
def test_after_a_first_connection_it_keeps_trying_and_says_so_once(monkeypatch, error):
    clock, said = Clock(), []
    away(monkeypatch, error, clock, until=3.5 * HOUR)
    site.check_server(STUDY, said.append, math.inf, clock, clock.sleep)
    assert clock() == pytest.approx(3.5 * HOUR, abs=2)
    (sentence,) = said
    assert "far.example:9443" in sentence and sentence.endswith("keeps trying")


def connecting(*ends):
    """A connection that ends in these ways, one after the other; the waits that it was given."""
    waits, left = [], list(ends)

    def connect(wait):
        waits.append(wait)
        raise left.pop(0)

    return connect, waits


def test_a_site_that_was_connected_connects_again_whatever_ends_it():
    clock, said = Clock(), []
    connect, waits = connecting(
        site.LostConnection(),
        Ended("Flower's supernode has ended."),
        site.LostConnection(),
        OSError,
    )
    with pytest.raises(OSError):
        site.stay_connected(connect, said.append, clock, clock.sleep)
    assert waits == [site.EARLY, math.inf, math.inf, math.inf]
    assert "Flower's supernode has ended. Tries again" in said


def test_a_site_that_was_never_connected_ends_with_the_reason():
    connect, _ = connecting(Ended("Flower's supernode has ended (1)."))
    with pytest.raises(BadInput, match="has ended"):
        site.stay_connected(connect, print, Clock(), Clock().sleep)


def test_a_key_that_is_connected_already_is_named_once_a_power_cut_is_ruled_out():
    clock, said, taken = Clock(), [], Ended("... [code: 2004] Failed to activate SuperNode.")
    connect, _ = connecting(*[taken] * 100)
    with pytest.raises(BadInput, match="this site's key is connected already: end the other one"):
        site.stay_connected(connect, said.append, clock, clock.sleep)
    assert 60 < clock() < 120 and len(said) == 1  # the server takes 60 s to forget it
    connect, _ = connecting(taken, taken, site.LostConnection(), OSError)
    with pytest.raises(OSError):
        site.stay_connected(connect, said.append, Clock(), Clock().sleep)


def test_the_operator_hears_of_the_connection_from_the_log(tmp_path):
    said, children = [], Children(tmp_path)
    log = children.log("supernode")
    log.write_text("INFO: starts\n")
    line = site.Line(children, said.append, "is ready")

    def added(text):
        with open(log, "a", encoding="utf-8") as file:
            file.write(text)
        line.check()
        return said

    assert added("") == [] and not line.is_connected
    assert added("INFO : SuperNode ID: 7\n") == ["is ready"] and line.is_connected
    for _ in range(3):
        added("WARNING: Connection attempt failed, retrying\n")
        added("")
    assert said[1:] == [site.AWAY]
    added("INFO: Connection successful after 9000 seconds\n")
    assert said[2:] == ["the server is there again"]
    added("WARNING: Connection attempt failed, retrying\n")
    assert said[3:] == [site.AWAY]


def test_a_second_process_in_the_same_folder_is_refused(tmp_path):
    with (
        only_one(tmp_path, "site 'north'"),
        pytest.raises(BadInput, match=r"site 'north' runs from .* already: end the other one"),
        only_one(tmp_path, "site 'north'"),
    ):
        pass
    with only_one(tmp_path, "site 'north'"):
        pass


# --- a site that starts again in a run ------------------------------------------------------------


def asked(run: int = 3, number: str = "a", kind: str = flower.STEP) -> Message:
    metadata = Metadata(run, number, 1, 2, "", "0", 0.0, 100.0, kind)
    return make_message(metadata=metadata, content=RecordDict())


def context(run: int = 3) -> Context:
    return Context(run, 2, {}, RecordDict(), {})


class Counting:
    """An app whose answers are all different, and which keeps how many there were."""

    def __call__(self, message, context):
        number = 1 + int(context.state.get("answered", {"last": 0})["last"])
        context.state["answered"] = ConfigRecord({"last": number})
        secret = flower.pack({"own": np.random.default_rng().integers(0, 9, 40)})
        context.state["masks"] = secret
        return Message(RecordDict({"sum": secret.copy()}), reply_to=message)


def numbers(record) -> bytes:
    return flower.unpack(record)["own"].tobytes()


def test_a_site_that_starts_again_has_its_secrets_and_gives_the_same_answer(tmp_path):
    path, app = tmp_path / "run.notes", Counting()
    first = worker._reply(asked(), context(), app, Notes(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    notes, later = Notes(path), context()
    again = worker._reply(asked(), later, app, notes)  # the very same message
    assert numbers(again.content["sum"]) == numbers(first.content["sum"])
    assert later.state["answered"]["last"] == 1 and "masks" in later.state
    assert set(later.state) == {"answered", "masks"}
    next_one = worker._reply(asked(number="b"), later, app, notes)
    assert later.state["answered"]["last"] == 2
    assert numbers(next_one.content["sum"]) != numbers(first.content["sum"])


def test_a_site_goes_by_its_own_notes_where_flower_has_an_older_state(tmp_path):
    """A SuperNode drops the state after an answer, and still sends the answer, where its books do
    not have the task any more."""
    notes, app, first = Notes(tmp_path / "run.notes"), Counting(), context()
    worker._reply(asked(), first, app, notes)
    older, extra = dict(first.state), {"extra": ConfigRecord({"last": 0})}
    worker._reply(asked(number="b"), first, app, notes)
    later = Context(3, 2, {}, RecordDict(older | extra), {})
    worker._reply(asked(number="c"), later, app, notes)
    assert later.state["answered"]["last"] == 3 and "extra" not in later.state


def test_secrets_are_given_to_their_run_alone_and_deleted_at_its_end(tmp_path):
    path, app = tmp_path / "run.notes", Counting()
    worker._reply(asked(run=3), context(), app, Notes(path))
    other = context(run=4)
    worker._reply(asked(run=4), other, app, Notes(path))
    assert other.state["answered"]["last"] == 1
    for run, is_there in ((3, True), (4, False)):
        end = asked(run=run, number="z", kind=worker.RUN_ENDED)
        worker._reply(end, context(run), app, Notes(path))
        assert path.exists() == is_there


def test_secrets_of_a_run_that_goes_on_no_more_are_deleted_while_a_site_waits(
    tmp_path, monkeypatch
):
    """Also where the site has been on for long and is asked nothing more."""
    path, app = tmp_path / "run.notes", Counting()
    (tmp_path / ".17.42.tmp").write_bytes(b"secrets of a process that was killed")
    notes = Notes(path)
    assert not list(tmp_path.iterdir())
    worker._reply(asked(), context(), app, notes)
    written = path.stat().st_mtime

    def ended():
        raise Ended("its SuperNode has ended")

    for hours, is_there in ((23, True), (25, False)):
        later = written + hours * HOUR
        monkeypatch.setattr(
            "fedsynth_lib.release.deploy.notes.time.time", lambda later=later: later
        )
        with pytest.raises(Ended):
            worker.answer_all(worker.Runtime("127.0.0.1:9", bytes(32), ended), app, notes, print)
        assert path.exists() == is_there
    again = context()
    assert notes.recalled(asked(), again) is None and not again.state


def test_an_answer_that_cannot_be_kept_does_not_leave(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be written"):
        worker._reply(asked(), context(), Counting(), Notes(tmp_path / "file" / "run.notes"))


# --- the server's grid ----------------------------------------------------------------------------


class Link:
    """What stands for a SuperLink: who is there, what was pushed, what it answers. later: to what
    is pushed again."""

    def __init__(self, monkeypatch):
        self.nodes, self.pushed, self.answers = {1: "north", 2: "south"}, [], []
        self.later = []
        self.known = set()  # messages without an answer that was fetched
        monkeypatch.setattr(HttpGrid, "get_nodes", lambda grid: self._nodes())
        monkeypatch.setattr(HttpGrid, "push_messages", lambda grid, messages: self._push(messages))
        monkeypatch.setattr(HttpGrid, "pull_messages", lambda grid, ids: self._pull(set(ids)))

    def _nodes(self):
        return [SimpleNamespace(node_id=node, name=name) for node, name in self.nodes.items()]

    def _push(self, messages):
        self.answers += self.later if self.pushed else []
        self.pushed += [each.metadata.message_id for each in messages]
        self.known |= set(self.pushed)
        return [each.metadata.message_id for each in messages]

    def _pull(self, ids):
        found = [each for each in self.answers if each.metadata.reply_to_message_id in ids]
        self.answers = [each for each in self.answers if each not in found]
        # as Flower, which says so of what it does not know (any more)
        unknown = [error_about(each, ErrorCode.MESSAGE_UNAVAILABLE) for each in ids - self.known]
        self.known -= {each.metadata.reply_to_message_id for each in found}
        return found + unknown


def error_about(number: str, code: int) -> Message:
    metadata = Metadata(3, "", 0, 0, number, "", 0.0, 100.0, "system")
    return make_message(metadata=metadata, error=Error(code, "object-push session expired"))


@pytest.fixture
def grid(monkeypatch):
    link, clock = Link(monkeypatch), Clock()
    names = [SimpleNamespace(name=name) for name in ("north", "south")]
    monkeypatch.setattr(server_worker.StudyGrid, "set_run", lambda grid, run: None)
    monkeypatch.setattr(server_worker.time, "sleep", clock.sleep)
    made = server_worker.StudyGrid(None, None, SimpleNamespace(sites=names, secure=True), clock)
    made.get_node_ids()
    return made, link, clock


@pytest.mark.parametrize("code", server_worker.LOST)
def test_a_site_that_is_there_again_soon_is_asked_again(grid, code):
    made, link, clock = grid
    answer = Message(RecordDict(), reply_to=asked(number="a"))
    link.answers, link.nodes = [error_about("a", code)], {1: "north"}  # asked is node 2
    link.later = [answer]
    clock.events = {server_worker.BACK / 2: lambda: link.nodes.update({2: "south"})}
    assert made.send_and_receive([asked(number="a")]) == [answer]
    assert link.pushed == ["a", "a"]
    assert server_worker.BACK / 2 <= clock() < server_worker.BACK / 2 + 2


def test_a_site_that_does_not_come_back_is_given_up_in_our_words(grid):
    made, link, clock = grid
    link.answers, link.nodes = [error_about("a", ErrorCode.NODE_UNAVAILABLE)], {1: "north"}
    (error,) = made.send_and_receive([asked(number="a")])
    assert error.error.reason == server_worker.GONE and clock() > server_worker.BACK
    assert error.metadata.reply_to_message_id == "a" and link.pushed == ["a"]


def test_an_error_of_the_sites_own_is_handed_on_at_once(grid):
    made, link, clock = grid
    link.answers = [error_about("a", ErrorCode.CLIENT_APP_RAISED_EXCEPTION)]
    (error,) = made.send_and_receive([asked(number="a")])
    assert error.error.reason == "object-push session expired" and clock() == 0


def test_each_minute_the_run_says_whom_it_waits_for(grid, capsys):
    made, link, clock = grid
    assert made.send_and_receive([asked(number="a")], timeout=119) == []
    assert capsys.readouterr().out == "fedsynth: waits for the answers of south\n" * 2
    del link.nodes[1]
    clock.sleep(59)
    made.get_node_ids()
    assert capsys.readouterr().out == "fedsynth: waits for 1 of 2 sites: north\n"


def test_what_costs_a_site_is_known_once_it_was_asked_for_it(grid):
    made, *_ = grid
    made.send_and_receive([asked(kind=flower.WHO)], timeout=0)
    assert not made.has_asked_rows
    made.send_and_receive([asked(kind=flower.STEP)], timeout=0)
    assert made.has_asked_rows
    study = SimpleNamespace(epsilon=0.5, evaluation_epsilon=2.0)
    for config, epsilon in (({}, "0.5"), ({"evaluate": "rows.csv"}, "2")):
        said = server_worker._paid(study, Context(3, 2, {}, RecordDict(), config))
        assert f"may have recorded epsilon {epsilon}, for" in said


def test_what_was_taken_up_is_not_taken_up_again_beside_it_by_a_busy_machine(monkeypatch):
    """Flower gives half a minute; then a second process would have begun the same run."""
    from flwr.supercore.corestate import in_memory_corestate
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.supernode.nodestate import NodeStateFactory

    monkeypatch.setattr(in_memory_corestate, "HEARTBEAT_DEFAULT_INTERVAL", 30)
    monkeypatch.setattr(in_memory_corestate, "OBJECT_PUSH_SESSION_TTL_SECONDS", 180)
    child.set_times()
    state = NodeStateFactory(ObjectStoreFactory()).state()
    state.claim_task(state.create_task(task_type="flwr-clientapp", run_id=3, fab_hash="a"))
    (record,) = state.task_token_store.values()
    assert (record.active_until - in_memory_corestate.now()).total_seconds() > 500


@pytest.fixture
def supernode(monkeypatch):
    """Flower's SuperNode as this bundle starts it, and the books of a fresh one."""
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.supernode import cli, start_client_internal
    from flwr.supernode.nodestate import InMemoryNodeState, NodeStateFactory

    for place, name in (
        (start_client_internal, "pull_objects"),
        (start_client_internal, "_pull_and_store_message"),
        (start_client_internal, "time"),
        (InMemoryNodeState, "get_message_processing_duration"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))  # as it is again after this test
    monkeypatch.setattr(cli, "flower_supernode", lambda: None)
    child.supernode()
    stores = ObjectStoreFactory()
    return start_client_internal, NodeStateFactory(stores).state(), stores.store()


@pytest.mark.parametrize("when", ["pull_object", "confirm_message_received"])
def test_what_a_stopped_run_asked_for_is_forgotten(supernode, when):
    """Else its answer would go out in place of that to the next run, which waited for ever."""
    from flwr.supercore.inflatable.inflatable_object import get_object_tree
    from flwr.supercore.run import RunNotRunningException

    def stopped(*_):
        raise RunNotRunningException

    node, state, store = supernode
    message = asked(number="a")
    run = SimpleNamespace(run_id=message.metadata.run_id, fab_hash="f", primary_task_type="")
    state.store_run(run)
    contents = {message.object_id: message.deflate()} | {
        each.object_id: each.deflate() for each in message.children.values()
    }
    steps = {
        "pull_object": lambda run, number: contents[number],
        "confirm_message_received": lambda run, number: None,
    }

    def received(**changed):
        return node._pull_and_store_message(
            state=state,
            object_store=store,
            node_config={},
            receive=lambda: (message, get_object_tree(message)),
            get_run=None,
            get_fab=None,
            trusted_entities=None,
            **steps | changed,
        )

    assert received(**{when: stopped}) is None
    assert not state.msg_store
    assert received() == run.run_id
    assert len(state.msg_store) == 1


def test_a_supernode_does_not_say_how_long_an_answer_took(supernode):
    """Flower's own sends it with each answer, and the rows may decide it."""
    (node, state, store), said = supernode, []
    state.store_message(message := asked(number="a"))
    state.record_message_processing_start("a")
    time.sleep(0.01)
    state.record_message_processing_end("a")
    reply = Message(RecordDict(), reply_to=message)
    node._insert_message(reply, state, store)

    def send(message, tree, seconds):
        said.append(seconds)
        return set(), ""

    node._push_messages(state, store, send, lambda *_: None)
    assert said == [0.0]


# --- `deploy run` ---------------------------------------------------------------------------------


def followed(monkeypatch, lines, limit: float = 1e6):
    """What `deploy run` says of a run's log, a tenth of a minute for each line of it."""
    clock, said = Clock(), []
    monkeypatch.setattr(server.time, "monotonic", clock)

    def follow():
        for line in lines:
            clock.sleep(6)
            yield line

    found = list(server._lines(follow(), said.append, limit))
    return found, said, clock


def test_a_run_that_has_not_begun_says_within_a_minute_what_it_waits_for(monkeypatch):
    found, said, _ = followed(monkeypatch, [""] * 10)
    assert found == [] and len(said) == 1
    assert (
        "the server has not begun the run: it has another one to do, or its machine is" in said[0]
    )


def test_a_run_says_what_was_last_and_is_stopped_after_its_limit(monkeypatch):
    begin = ["fedsynth: round 1 is done", "Traceback: something else"]
    found, said, _ = followed(monkeypatch, [*begin, *[""] * 12, "fedsynth: wrote a.csv"])
    assert found == ["wrote a.csv"]
    assert said == ["round 1 is done", "there is no news; the last was: round 1 is done"]
    with pytest.raises(BadInput, match="no news for 120 seconds; the last was: round 1 is done"):
        followed(monkeypatch, [*begin, *[""] * 30], limit=120)


def test_without_a_server_of_this_study_the_command_says_what_to_type(tmp_path, monkeypatch):
    study = make(tmp_path)
    monkeypatch.setattr(server, "listens", lambda host, port: True)  # that of another study
    with pytest.raises(BadInput, match=r"no server of this study .* `fedsynth deploy server --st"):
        server.run(study.folder, tmp_path / "server", tmp_path, say=print)


# --- what is written and said at first ------------------------------------------------------------


STRICT = {"colluding": 1, "absent": 0, "minimum_group": 3}


@pytest.mark.parametrize(("sites", "absent", "said"), [(3, 0, "absent = 0"), (4, 1, "absent = 1")])
def test_from_four_sites_on_one_may_be_absent(tmp_path, capsys, sites, absent, said):
    make(tmp_path, names := {f"s{number}": 300 for number in range(sites)})
    words = ["deploy", "init", str(tmp_path / "new"), "--schema", str(tmp_path / "schema.toml")]
    for name in names:
        words += ["--site", f"{name}:300:{tmp_path / name / 'node.pub'}"]
    words += ["--ca", str(tmp_path / "server/ca.pem"), "--timeout", "90", "--synthetic-rows", "50"]
    assert commands.main(words) == 0
    study = read_study(tmp_path / "new")
    assert (study.absent, study.timeout, study.synthetic_rows) == (absent, 90.0, 50)
    assert absent == absent_of(sites) and about_absent(study) in capsys.readouterr().err
    assert about_absent(study).startswith(said)


def test_a_study_comes_with_units_and_pins_flower(tmp_path):
    folder = make(tmp_path).folder.parent
    assert '"flwr[simulation]>=1.41,<1.42"' in (folder / "pyproject.toml").read_text()
    for party in ("server", "site"):
        unit = (folder / f"hearts-{party}.service").read_text()
        assert "Restart=on-failure" in unit and f"fedsynth deploy {party}" in unit


def test_what_a_study_cannot_be_is_said_of_the_users_own_files(tmp_path):
    """Not of the folder where it was tried out, nor of columns that no file has."""
    with pytest.raises(BadInput) as refused:
        make(tmp_path, **STRICT | {"minimum_group": 5})
    assert str(refused.value) == "minimum_group is 5; give 1 to 3."
    read = SCHEMA.replace("integer = true", "integer = true\nmissing = ['']\nfrom_rows = true")
    (tmp_path / "mine.toml").write_text(read)
    with pytest.raises(BadInput) as refused:
        make(tmp_path, schema=tmp_path / "mine.toml", **STRICT)
    assert str(refused.value).startswith(f"{tmp_path / 'mine.toml'}: age was read from rows; all")


def test_the_help_says_who_types_what(capsys):
    assert commands.main(["deploy", "--help"]) == 0
    said = capsys.readouterr().out
    places = [
        said.index(f"deploy {each} ") for each in ("keys OWN", "init", "server", "site", "run")
    ]
    assert places == sorted(places)


def test_what_is_wrong_with_a_new_budget_is_said(tmp_path, capsys):
    assert commands.main(["deploy", "keys", str(tmp_path / "own"), "--site", "north"]) == 0
    said = capsys.readouterr().err
    assert f"{tmp_path / 'own' / 'budget.toml'} allows what the runs cost that you agree to" in said


# --- Flower's private parts -----------------------------------------------------------------------

TOUCHED = (  # attributes that are set or called, beside what is imported
    ("flwr.superlink.extensions", "get_middleware"),
    ("flwr.superlink.extensions", "get_lifespan_contexts"),
    ("flwr.supercore.corestate.in_memory_corestate", "HEARTBEAT_DEFAULT_INTERVAL"),
    ("flwr.supercore.corestate.in_memory_corestate", "OBJECT_PUSH_SESSION_TTL_SECONDS"),
    ("flwr.supernode.start_client_internal", "pull_objects"),
    ("flwr.supernode.nodestate", "InMemoryNodeState.get_message_processing_duration"),
    ("flwr.superlink.grid", "HttpGrid.get_nodes"),
    ("flwr.server.superlink.linkstate", "LinkState.create_node"),
    ("flwr.supercore.runtime", "RuntimeHttpClient.AcquireTask"),
    ("flwr.supercore.runtime", "RuntimeHttpClient.PullTaskInput"),
    ("flwr.supercore.runtime", "RuntimeHttpClient.PushTaskOutput"),
    ("flwr.supercore.runtime", "RuntimeHttpClient.SendTaskHeartbeat"),
    ("flwr.supercore.control", "ControlHttpClient.StartRun"),
    ("flwr.supercore.control", "ControlHttpClient.StopRun"),
    ("flwr.supercore.control", "ControlHttpClient.ListRuns"),
)


def imported() -> list[tuple[str, str]]:
    """(module, name) of all that the library imports of Flower."""
    texts = (path.read_text() for path in (ROOT / "fedsynth_lib").rglob("*.py"))
    trees = (ast.parse(text) for text in texts if "flwr" in text)
    return sorted(
        {
            (node.module, name.name)
            for tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr"
            for name in node.names
        }
    )


@pytest.mark.parametrize(("module", "name"), [*imported(), *TOUCHED])
def test_all_that_is_used_of_flower_is_there(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            found = importlib.import_module(f"{module}.{part}")
        else:
            found = getattr(found, part)


def test_a_grid_asks_through_the_client_that_it_is_given():
    """HttpGrid keeps its client in an attribute of each instance."""
    found = GetNodesResponse(nodes=[NodeInfo(node_id=7, name="north")])
    client = SimpleNamespace(GetNodes=lambda request: found)
    study = SimpleNamespace(sites=[SimpleNamespace(name="north")], secure=True)
    made = server_worker.StudyGrid(client, Run.create_empty(3), study)
    assert made.get_node_ids() == [7]


def test_the_keys_of_sites_are_in_the_books_of_flowers_own_server(tmp_path, monkeypatch):
    """They are where its app has them, before it listens."""
    (tmp_path / "nodes.json").write_text(json.dumps({"north": "a key"}))
    monkeypatch.setenv("FEDSYNTH_NODES", str(tmp_path / "nodes.json"))
    app = create_app()

    async def begin():
        async with child.registered(app):
            return get_linkstate(SimpleNamespace(app=app)).get_node_id_by_public_key(b"a key")

    assert asyncio.run(begin())
