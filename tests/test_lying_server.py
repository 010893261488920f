"""A server that lies to its clients: what it sends is checked before a row is touched, by its size
before it is unpacked, and whatever it does, all that comes back is an answer of the plan or one
sentence."""

import io
import json
import re
import tracemalloc
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from promises import thirds
from sites import ROWS, make_releases
from test_deploy_masks import KEYS, agreement_of, job_of
from test_methods import broken

from fedsynth_lib.core.contract import BadBroadcast, Domain, Privacy
from fedsynth_lib.core.ledger import ClientLedger, Refused
from fedsynth_lib.federation import answers, flower, settings
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.release.deploy import masks
from fedsynth_lib.release.deploy.apps import SiteApp

MEGABYTE = 2**20
TWO = Domain(("x", "y"), (2, 3))
BUDGET = Privacy(1.0, noise_seed=None)
JOB = flower.Job(independent, independent.Config(), TWO, 1.0, 0, 3, BUDGET, (4, 4, 4), mask_seed=1)


def record(**arrays):
    """Arrays as a lying server packs them: (dtype, shape, bytes) by name."""
    packed = {
        name: Array(dtype=dtype, shape=shape, stype=answers.RAW, data=content)
        for name, (dtype, shape, content) in arrays.items()
    }
    return ArrayRecord(array_dict=packed)


def said_by(app, kind, **content):
    """What leaves client 0 that is asked so: the text of its error."""
    context = flower.LocalGrid(app, 3)._contexts[1]
    with pytest.raises(Refused) as refused:
        app(Message(RecordDict(content), message_type=kind, dst_node_id=1), context)
    return str(refused.value)


@cache
def bomb(megabytes):
    """An npz file, a thousandth as long as what is in it."""
    content = io.BytesIO()
    with (
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("head/0.npy", "w") as array,
    ):
        head = {"descr": "|u1", "fortran_order": False, "shape": (megabytes * MEGABYTE,)}
        np.lib.format.write_array_header_1_0(array, head)
        for _ in range(megabytes):
            array.write(bytes(MEGABYTE))
    return np.frombuffer(content.getvalue(), np.uint8)


def claim(shape, dtype="|u1"):
    """A line that names an array of this shape, and none of its bytes."""
    return np.frombuffer(json.dumps([["head/0", dtype, shape]]).encode() + b"\n", np.uint8)


GREEDY = {
    "npz": lambda: {"npz": bomb(600)},
    "npz in the place of all": lambda: {"all": bomb(600)},
    "a shape": lambda: {"all": claim([2**40])},
    "a shape below 0": lambda: {"all": claim([2**40, -1])},
    "a shape with a text": lambda: {"all": claim([2**33, "a"])},
    "objects": lambda: {"all": claim([2**40], "O")},
    "brackets": lambda: {"all": np.frombuffer(b"[" * MEGABYTE, np.uint8)},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", GREEDY)
def test_a_few_bytes_cannot_ask_for_much_memory(case):
    """Of a question about masks, whose phase and size the server chooses."""
    agreement = agreement_of(job_of(3))
    app = flower.client_app(job_of(3), None, masks=masks.ClientMasks(agreement, KEYS[0]))
    question = {"job": ConfigRecord({"round": -1, "phase": "keys"})}
    question["arrays"] = flower.pack(GREEDY[case]())
    tracemalloc.start()
    try:
        text = said_by(app, flower.MASKS, **question)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text == flower.UNANSWERED
    assert most < 12 * MEGABYTE  # copies of what came, of which the longest has a megabyte


def test_arrays_in_one_come_out_as_they_were():
    sent = {"a/0": np.arange(6.0).reshape(2, 3), "b": np.array(3), "none": np.zeros((0, 4), "i2")}
    for arrays in (sent, {}):
        found = answers.out_of_one(answers.in_one(arrays))
        assert list(found) == list(arrays)
        for name, values in arrays.items():
            assert np.array_equal(found[name], values) and found[name].dtype == values.dtype


WRONG_SIZES = {
    "fewer bytes": ("<i8", (2,), bytes(15)),
    "more bytes": ("<i8", (2,), bytes(24)),
    "as many as there are": ("<i8", (-1,), bytes(16)),
    "much for nothing": ("<i8", (2**40,), b""),
    "of no size": ("|S0", (2**40,), b""),
    "objects": ("|O", (2,), bytes(16)),
    "texts": ("<U2", (2,), bytes(16)),
    "structures": ("<i4,<i4", (2,), bytes(16)),
    "no dtype": ("nonsense", (2,), bytes(16)),
}


@pytest.mark.parametrize("case", WRONG_SIZES)
def test_an_array_that_is_not_what_it_says_is_refused_before_rows(case):
    def load_rows(index):
        raise AssertionError("rows were touched")

    state = record(levels=WRONG_SIZES[case])
    asked = ConfigRecord({"round": 0, "clients": [0, 1, 2]})
    assert said_by(flower.client_app(JOB, load_rows), flower.STEP, state=state, job=asked) == (
        flower.UNANSWERED
    )


@pytest.mark.parametrize("case", WRONG_SIZES)
def test_the_server_takes_no_such_array_either(case):
    with pytest.raises(answers.BadAnswer) as refused:
        answers.arrays_of(RecordDict({"arrays": record(a=WRONG_SIZES[case])}), "arrays")
    assert refused.value.code == "garbage"


def test_what_was_sent_is_checked_before_anything_is_noted_or_read(tmp_path):
    """Neither is the ledger charged, nor are rows loaded, nor is the round lost."""
    seen = []

    def check_broadcast(state, domain, config, round):
        seen.append((domain, config, round))
        if state["levels"].tolist() != [2, 3]:
            raise BadBroadcast

    def load_rows(index):
        seen.append("rows")
        return np.zeros((4, 2), np.int32)

    job = flower.Job(**vars(JOB) | {"method": broken(independent, check_broadcast=check_broadcast)})
    ledger = ClientLedger(tmp_path / "client.jsonl")
    app = flower.client_app(job, load_rows, ledger)
    context = flower.LocalGrid(app, 3)._contexts[1]

    def ask(levels):
        content = {
            "state": flower.pack({"levels": np.array(levels)}),
            "job": ConfigRecord({"round": 0, "clients": [0, 1, 2]}),
        }
        return app(Message(RecordDict(content), message_type=flower.STEP, dst_node_id=1), context)

    for levels in ([2, 2], [3, 2], [[2, 3]]):
        with pytest.raises(Refused) as refused:
            ask(levels)
        assert str(refused.value) == str(BadBroadcast())
    assert seen == [(TWO, job.config, 0)] * 3 and ledger.journal.lines() == []
    assert not ask([2, 3]).has_error() and seen[-1] == "rows"
    assert ledger.total().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"job": ConfigRecord({})},
        {"job": ConfigRecord({"round": "zero", "clients": [0, 1, 2]})},
        {"job": ConfigRecord({"round": 0, "clients": 7})},
        {"job": ConfigRecord({"round": 0, "clients": [0, 1, 2]})},
        {"job": ConfigRecord({"round": 0, "clients": [0, 1, 2]}), "state": ConfigRecord({"a": 1})},
    ],
)
def test_a_question_that_is_none_gets_the_same_sentence(content):
    assert said_by(flower.client_app(JOB, None), flower.STEP, **content) == flower.UNANSWERED


@pytest.mark.parametrize("understated", [None, {"noise": 3.0}, {"times": 0}, {"what": "a column"}])
def test_a_statement_that_says_less_than_clients_is_refused(table, understated):
    """As a server's mistake would make it: of what the sum has cost, the clients know better."""

    def server_step(state, updates, config, noise, rng):
        state, charges = independent.server_step(state, updates, config, noise, rng)
        return state, [replace(charge, **understated or {}) for charge in charges]

    method = broken(independent, server_step=server_step)
    options = {"privacy": Privacy(1.0), "seed": 1}
    if understated is None:
        assert settings.federated(method, table, thirds(table), **options).statement["epsilon"]
        return
    with pytest.raises(RuntimeError, match=r"client 0 has released .counts of every column"):
        settings.federated(method, table, thirds(table), **options)


# --- sites as they are, with keys, masks and ledgers --------------------------------------------


@pytest.fixture(scope="module")
def lying():
    """The app whose server lies; test_superlink.py runs it behind a SuperLink."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent / "lying")
        from lyingapp import apps
    return apps


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("releases")
    make_releases(folder)
    return folder


class Told(flower.LocalGrid):
    """What a server is told of an error, as behind a SuperLink: the text of what leaves the app."""

    def push_messages(self, messages):
        messages = list(messages)
        for number, message in enumerate(messages, len(self._replies)):
            message.metadata.__dict__["_message_id"] = str(number)
            try:
                reply = self._app(message, self._contexts[message.metadata.dst_node_id])
            except Refused as refused:
                reply = Message(Error(1, str(refused)), reply_to=message)
            self._replies[str(number)] = reply
        return [message.metadata.message_id for message in messages]


@pytest.mark.parametrize(
    ("study", "lie", "answered"),
    [
        ("fedpgm", "each chosen table a million times", 1),
        ("fedpgm", "the second sum in the first round", 0),
        ("fedpgm", "a level less", 0),
        ("independent", "a level less", 0),
        ("independent", "one column for all", 0),
        ("fedbn", "columns by other names", 1),
        ("fedbn", "two columns of three", 0),
        ("aim", "a level less", 0),
    ],
)
def test_a_server_that_lies_gets_one_sentence(lying, releases, tmp_path, study, lie, answered):
    """Of sums it has those alone for which it kept to the protocol, and a ledger shows no more than
    the plan: nothing where the site was lied to before its first answer."""
    saved = tmp_path / "sums.npz"
    config = {"folder": str(releases), "study": study, "lie": lie, "saved": str(saved)}
    grid = Told(SiteApp(lying.find), len(ROWS))
    for context in grid._contexts.values():
        context.run_config = config
    with pytest.raises(Refused) as refused:
        lying.server(grid, Context(flower.LOCAL_RUN, 0, {}, RecordDict(), config))
    reasons = re.findall(r"site '(\w+)': (.*?) \[failed\]", str(refused.value))
    assert reasons == [(name, str(BadBroadcast())) for name in ROWS]
    given = int(np.load(saved)["rounds"]) if saved.exists() else 0
    assert given == answered
    for name in ROWS:
        ledger = lying.ledger_of(name, saved)
        assert sum("round" in line for line in ledger.journal.lines()) == answered
        assert ledger.total().epsilon == pytest.approx(0.1 * answered, abs=1e-6)
