"""FLAIM with some of its clients behind a real SuperLink: as in process, and no run that hangs; and
sites that a server lies to.

Every SuperNode is a process, and so is every answer of a client.
"""

import pickle
import re
from pathlib import Path
from types import ModuleType

import pytest
from deployed import MOST, Federation
from sites import ROWS, make_releases
from tiny import wait_for

from fedsynth_lib.core.contract import BadBroadcast
from fedsynth_lib.core.ledger import ClientLedger
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.marginals import flaim

pytestmark = pytest.mark.xdist_group("superlink")  # one process starts it, once
APP = Path(__file__).parent / "superlink"
REFUSAL = str(BadBroadcast())
LYING = Path(__file__).parent / "lying"
FROM_SETTINGS = {"public_inputs", "audit"}  # what `settings.federated` alone says in a statement


@pytest.fixture(scope="module")
def toy() -> ModuleType:
    """What both sides of the app agree on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(APP)
        from toyapp import job
    return job


@pytest.fixture(scope="module")
def federation(tmp_path_factory, toy):
    made = Federation(tmp_path_factory.mktemp("superlink"), toy.CLIENTS)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.slow
def test_behind_a_superlink_the_result_is_the_same_as_in_process(federation, toy, tmp_path):
    """Rows, statement and bytes; not all are in a round, and nodes are in another order."""
    asked = [toy.job.participants(*entry) for entry in toy.job.schedule()]
    assert asked == [[2], [0, 1], [2], [0, 2], [0, 2]]
    ids = federation.node_ids()
    assert ids != sorted(ids)

    saved = tmp_path / "saved.pickle"
    assert federation.run(APP, saved=saved) == ("finished:completed", "N/A")
    synthetic, statement, traffic = pickle.loads(saved.read_bytes())

    options = {"config": toy.config, "privacy": toy.privacy, "seed": toy.SEED}
    here = settings.federated(flaim, toy.table, toy.parts, **options)
    assert synthetic.equals(here.synthetic)
    assert statement["epsilon"] == here.statement["epsilon"] < toy.privacy.epsilon
    for name in here.statement.keys() - FROM_SETTINGS:
        assert statement[name] == here.statement[name], name
    assert in_order(traffic) == in_order(here.traffic)
    for direction, count in (("up", here.bytes_up), ("down", here.bytes_down)):
        lines = [line for line in traffic if line["direction"] == direction]
        assert sum(line["bytes"] for line in lines) == count
        seen = [{line["client"] for line in lines if line["round"] == k} for k in range(len(asked))]
        assert seen == list(map(set, asked))


def in_order(traffic):
    """Answers come in any order."""
    return sorted(tuple(line.items()) for line in traffic)


@pytest.mark.slow
def test_a_server_that_starts_over_is_refused_by_whom_it_has_asked(federation):
    """The process that refuses is not the one that has answered: a SuperNode keeps what it said."""
    status, details = federation.run(APP, server="starts over")
    assert status == "finished:failed"
    assert "client 2: round 1 was answered or left out before, and is answered once" in details


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "lie"),
    [
        ("fedpgm", "each chosen table a million times"),
        ("independent", "one column for all"),
        ("fedbn", "two columns of three"),
        ("aim", "a level less"),
    ],
)
def test_a_server_that_lies_gets_nothing_out_of_a_site(federation, tmp_path_factory, study, lie):
    """Sites have keys, masks and ledgers. What comes of other lies: test_lying_server.py."""
    folder = tmp_path_factory.getbasetemp() / "releases"
    if not folder.exists():
        folder.mkdir()
        make_releases(folder)
    saved = tmp_path_factory.mktemp("lied") / "sums.npz"
    status, details = federation.run(LYING, folder=folder, study=study, lie=lie, saved=saved)
    assert status == "finished:failed"
    for name in ROWS:
        # Flower quotes it with its class
        assert re.search(rf"'{name}': <class '[\w.]*Refused'>:<'(.*?)'> ", details)[1] == REFUSAL
        lines = ClientLedger(saved.with_name(f"{name}.jsonl")).journal.lines()
        # FedPGM's first sum is not lied about
        assert sum("round" in line for line in lines) == (study == "fedpgm")


@pytest.mark.slow
def test_a_node_that_leaves_ends_the_run(federation):
    """Between two rounds, and the second asks it. The last test, for the node does not return."""

    def leave():
        wait_for(lambda: "ROUND 0]" in federation.log_of_node(2)[before:], MOST)
        federation.stop_node(1)

    before = len(federation.log_of_node(2))
    status, details = federation.run(APP, leave, server="loses a client")
    assert status == "finished:failed"
    assert "round 2: client 1: " in details and "SuperNode was removed" in details
