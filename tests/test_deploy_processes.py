"""The real processes of all four parties of a study, with TLS and keys, against the run in one
process: who listens, who is refused, who is killed."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import httpx
import numpy as np
import pandas as pd
import pytest
from relay import Relay
from scipy.stats import chisquare
from sites import (
    MOST,
    ROWS,
    Forger,
    Parties,
    carried_out,
    copy,
    evaluated_in_one_process,
    in_one_process,
    make,
    places_of,
    ports,
    same_figures,
)
from tiny import wait_for

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import keys, processes, server, site
from fedsynth_lib.release.deploy.place import Own
from fedsynth_lib.release.deploy.study import read_study

pytestmark = pytest.mark.xdist_group("deployed")  # one process starts them all, once
FALSE_ALARM = 1e-8  # how often bytes that are uniform fail a test of uniformity, about
BINS = 250  # 254 counts, hence 2,032 bytes: some 8 of each value


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A server and three sites. Two listen between north and the server: one of them has the
    server's key, and so reads what is sent."""
    folder, port = tmp_path_factory.mktemp("deployed"), ports()
    entries = {"holdout": 0.4, "evaluation_epsilon": 2.0, "config": {"bins": BINS}}
    make(folder, server=f"localhost:{port}", **entries)
    with (
        Relay(port, folder / "server") as insider,
        Relay(insider.port) as wire,
        Parties(folder) as parties,
    ):
        parties.wire, parties.insider = wire, insider
        parties.relayed("north", wire.port)
        parties.relayed("west", port)
        parties.site("south")  # who is early waits
        parties.server()
        for name in ROWS:
            parties.wait(name, "is ready")
        yield parties


def steps_of(parties, name: str) -> list[str]:
    """What a site's SuperNode has written after each step that it was asked for."""
    (log,) = parties.folder.glob(f"{name}/state-*/supernode.log")
    return log.read_text().split("Receiving: query.client_step")[1:]


class Asked:
    """Waits for a site to be asked for its next step, or to have sent its answer."""

    def __init__(self, parties, name: str):
        self.parties, self.name, self.before = parties, name, len(steps_of(parties, name))

    def wait(self, text: str = "") -> None:
        def there() -> bool:
            return any(text in each for each in steps_of(self.parties, self.name)[self.before :])

        wait_for(there, MOST)


def rows_in(parties, out: str) -> bytes:
    """The rows of a run that has ended well."""
    assert parties.status("run") == 0, parties.output("run")
    return (parties.folder / out / "hearts_rehearsal.csv").read_bytes()


@pytest.mark.slow
def test_three_sites_make_the_rows_of_the_run_in_process(deployed):
    deployed.run("first")
    rows = rows_in(deployed, "first")
    assert rows == in_one_process(deployed.folder, read_study(deployed.folder / "study"))
    assert "all sites are there and agree on the study" in deployed.output("run")
    assert "hearts_rehearsal_privacy.md" in deployed.output("run")
    # the server does the run itself: no process is started for it, and none beside that
    words = {word for process in deployed.processes() for word in process.cmdline()}
    assert "superlink" in words and not {"superexec", "flwr-serverapp"} & words


# --- who listens ----------------------------------------------------------------------------------


def counts_of(parties, name, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """The counts of a site, as they are and with its noise, which is known in a rehearsal."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(parties.folder / "home"))
    study = read_study(parties.folder / "study")
    place = Own(parties.folder / name).place(study, name, parties.folder / f"{name}.csv")
    job, index = study.plan.job, place.index
    client = job.client(place.rows(), index, len(ROWS), {})
    state = job.method.start(job.domain, config=job.config, rng=np.random.default_rng())
    bare, noisy = (
        job.method.client_step(state, client, config=job.config, noise=noise, rng=None)
        for noise in (None, job.noise("client", index, 0))
    )
    return bare.summed["counts"], noisy.summed["counts"]


def forms_of(counts: np.ndarray) -> list[bytes]:
    """An array as it might lie on a wire: whole numbers and floats, in both byte orders, and as
    text. Four numbers have 8 bytes at least, which some 100 kB hold by chance once in 10^14."""
    kinds = ("i2", "i4", "i8", "f4", "f8")
    found = [counts.astype(order + kind).tobytes() for kind in kinds for order in "<>"]
    texts = (json.dumps(counts.tolist(), separators=each) for each in ((",", ":"), (", ", ": ")))
    return found + [text.strip("[]").encode() for text in texts]


def read_by(heard: bytes, counts: np.ndarray) -> bool:
    """Whether the counts can be found: all of them, or those of the last two columns, whose
    categories make the marginals that an eavesdropper would want."""
    return any(form in heard for part in (counts, counts[-4:]) for form in forms_of(part))


def uniformity(values: np.ndarray) -> float:
    """p-value of the bytes of an array being uniform, by chi-square."""
    return chisquare(np.bincount(np.frombuffer(values.tobytes(), np.uint8), minlength=256)).pvalue


@pytest.mark.slow
def test_who_listens_reads_nothing_and_with_the_servers_key_no_counts(deployed, monkeypatch):
    wire = deployed.wire.all_of("up") + deployed.wire.all_of("down")
    up, down = (deployed.insider.all_of(direction) for direction in ("up", "down"))
    with np.load(deployed.folder / "north.npz") as sent:
        masked = sent["counts"]
    words = (b"query.client_step", b"groups", b"HTTP/1.1", masked.tobytes())
    assert b"\x16\x03" in wire and len(wire) > len(up)  # handshakes, and all of a run
    for word in words:
        assert word not in wire and word in up + down
    for counts in counts_of(deployed, "north", monkeypatch):
        assert len(counts) == len(masked) and not read_by(up + down, counts)
    assert uniformity(masked) > FALSE_ALARM
    # and so are each number's highest four bits alone, in which counts have nothing but 0 and 15
    high = np.bincount((masked.view(np.uint64) >> np.uint64(60)).astype(int), minlength=16)
    assert chisquare(high).pvalue > FALSE_ALARM


@pytest.mark.slow
def test_a_site_without_masks_would_be_caught(deployed, monkeypatch):
    """The same searches find what is there."""
    heard = deployed.insider.all_of("up")
    for counts in counts_of(deployed, "west", monkeypatch):
        for form in forms_of(counts):
            assert read_by(heard[:1000] + form + heard[1000:], counts)
        assert uniformity(counts) < FALSE_ALARM


@pytest.mark.slow
def test_the_test_of_uniformity_has_the_false_alarm_rate_that_it_states():
    """At a rate that can be counted: of 1,000 uniform arrays, 1 in 20 fails at 0.05."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 2**64, (1_000, BINS + 4), np.uint64)
    found = np.mean([uniformity(values) < 0.05 for values in drawn])
    assert abs(found - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 1_000)


# --- who is refused -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stranger_is_refused_by_the_server(deployed):
    """It comes with Flower's own SuperNode; the site's command refuses its key before that."""
    keys.make_node_key(deployed.folder / "stranger")
    address = read_study(deployed.folder / "study").server
    node = [
        sys.executable,
        "-P",
        "-m",
        "fedsynth_lib.release.deploy.child",
        "supernode",
        str(os.getpid()),
    ]
    node += ["--superlink", address, "--root-certificates", deployed.at("server/ca.pem")]
    node += ["--auth-supernode-private-key", deployed.at("stranger/node"), "--isolation", "process"]
    node += ["--port", str(ports()), "--node-config", "partition-id=2"]
    deployed.begin_process("stranger", node)
    assert deployed.status("stranger") != 0
    assert "SuperNode ID" not in deployed.output("stranger")


@pytest.mark.slow
def test_a_wrong_authority_is_refused(deployed):
    """The site's copy of the study names another one, so it does not trust the server."""
    package = copy(deployed.folder, "study", "mistaken") / "hearts" / "study.toml"
    keys.make_server_keys(deployed.folder / "other", ["localhost"])
    theirs = (deployed.folder / "other" / "ca.pem").read_text().strip()
    text = re.sub(r"-----BEGIN[^\"]*-----END CERTIFICATE-----", theirs, package.read_text())
    package.write_text(text)
    with pytest.raises(BadInput, match=r"is refused: .*it is not the server that the study names"):
        site.check_server(read_study(package.parent), print)


@pytest.mark.slow
def test_who_has_the_public_certificate_alone_starts_nothing(deployed):
    """On the server's machine, by Flower's own client."""
    study, before = read_study(deployed.folder / "study"), deployed.output("server")
    with (
        closing(server._control(study, b"another secret")) as control,
        pytest.raises(httpx.HTTPStatusError, match="403"),
    ):
        control.StartRun(server._start_request(study.folder.parent, {}))
    assert deployed.output("server") == before


@pytest.mark.slow
def test_a_second_site_with_the_same_key_is_told_so(deployed, monkeypatch):
    """From the same folder, and from a copy of it."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(deployed.folder / "home"))
    monkeypatch.setattr(site, "FORGOTTEN", 0.0)
    copy(deployed.folder, "south", "south2")
    for own, match in (
        ("south", "site 'south' runs from"),
        ("south2", "this site's key is connected already: end the other one"),
    ):
        places = (deployed.at("study"), "south", deployed.at("south.csv"), deployed.at(own))
        with pytest.raises(BadInput, match=match):
            site.run_site(*places, say=print, ask=lambda text: True)


# --- who is stopped or killed, and starts again ---------------------------------------------------


@pytest.mark.slow
def test_a_server_that_was_killed_is_started_again_and_sites_evaluate(deployed, monkeypatch):
    """It leaves nothing behind, and its sites come back: they evaluate the rows that they have made
    before. The figures are those of one process, and every ledger has both runs."""
    deployed.end("server", signal.SIGKILL)
    wait_for(lambda: not deployed.processes(deployed.at("server")), MOST)
    deployed.server()
    deployed.wait("server", "listens")
    folder = deployed.folder
    rows = folder / "first" / "hearts_rehearsal.csv"
    places = f"{deployed.places('server')} --out {folder / 'third'}"
    said = deployed.type("evaluate", f"deploy evaluate {rows} {places}")
    study = read_study(folder / "study")
    found = pd.read_csv(folder / "third/hearts_rehearsal_evaluation.csv", index_col="measure")
    same_figures(found, evaluated_in_one_process(folder, study, rows).all_sites.figures)
    assert str(folder / "third" / "hearts_rehearsal_evaluation_privacy.md") in said
    monkeypatch.setenv("FEDSYNTH_HOME", str(folder / "home"))
    for name in ROWS:
        lines = Own(folder / name).open_ledger().releases()
        assert [(each["method"], round(each["epsilon"], 3)) for each in lines] == [
            ("independent", 1.0),
            ("evaluation", 2.0),
        ]


@pytest.mark.slow
def test_a_run_that_is_stopped_leaves_nothing_behind(deployed):
    """By Ctrl-C, which a terminal sends to all processes of a command; the server goes on."""
    asked, ended = Asked(deployed, "west"), deployed.output("server").count("has ended")
    held = deployed.folder / "west.held"  # else the run might be through before it is stopped
    held.write_text("stopped")
    deployed.run("stopped")
    asked.wait()
    os.killpg(deployed.running["run"].pid, signal.SIGINT)
    assert deployed.status("run") == 130
    held.unlink()
    assert deployed.output("run").splitlines()[-1] == (
        "fedsynth: the run was stopped: nothing was written; sites' ledgers keep what it has "
        "released"
    )
    deployed.wait("server", "has ended", times=ended + 1)
    assert not list((deployed.folder / "stopped").iterdir())


@pytest.mark.slow
def test_in_a_round_one_site_starts_again_and_another_is_killed(deployed, tmp_path):
    """South has answered, and finishes the round: its secrets are on its disk for as long as the
    run. West does not answer. Its share of the noise is not needed, since one may be absent; the
    others take its masks off. The rows are those of one process in which west is lost."""
    asked = {name: Asked(deployed, name) for name in ("south", "west")}
    (deployed.folder / "west.held").write_text("again")
    deployed.run("again")
    asked["south"].wait("Sent successfully")
    (notes,) = deployed.folder.glob("south/state-*/run.notes")
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600
    deployed.end("south")
    deployed.site("south")
    deployed.wait("south", "is ready")
    asked["west"].wait()
    deployed.end("west", signal.SIGKILL)
    wait_for(lambda: not deployed.processes(deployed.at("west")), MOST)
    rows, study = rows_in(deployed, "again"), read_study(deployed.folder / "study")
    assert re.findall("site '(.*)' is gone since ([^:]*):", deployed.output("run")) == [
        ("west", "round 1")
    ]
    assert not list(deployed.folder.glob("[ns]*th/state-*/run.notes"))
    places = [replace(each, ledger=None) for each in places_of(deployed.folder, study)]
    lost = Forger(places, lambda name, what: (name, what) == ("west", flower.STEP))
    carried_out(study, lost, tmp_path)
    assert rows == (tmp_path / "hearts_rehearsal.csv").read_bytes()


@pytest.mark.slow
def test_a_run_that_fails_says_what_each_ledger_has_recorded(deployed):
    """Two sites answer and are gone before the sum is opened, and one may be."""
    held = deployed.folder / "west.held"
    held.write_text("fails")
    deployed.relayed("west", read_study(deployed.folder / "study").address[1])
    deployed.wait("west", "is ready")
    asked = {name: Asked(deployed, name) for name in ("north", "south")}
    deployed.run("fails")
    for name, each in asked.items():
        each.wait("Sent successfully")
        deployed.end(name)
    held.unlink()
    assert deployed.status("run") == 2
    said = deployed.output("run")
    assert "round 1: " in said and "before its answer was here" in said
    assert "the ledger of each site that was asked may have recorded epsilon 1" in said


@pytest.mark.slow
def test_nothing_is_left_once_all_have_been_told_to_end(deployed):
    for name in deployed.running:
        deployed.end(name)
    assert not deployed.processes()


# --- processes alone ------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_proxy_stands_between_the_processes_of_one_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.hospital:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    for given, direct in (
        ("", "127.0.0.1,localhost"),
        (".hospital", ".hospital,127.0.0.1,localhost"),
    ):
        monkeypatch.setenv("NO_PROXY", given)
        found = processes.environment(tmp_path)
        assert found["no_proxy"] == found["NO_PROXY"] == direct
        assert found["HTTPS_PROXY"] == "http://proxy.hospital:3128"  # which a server may be behind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"), [("raise KeyboardInterrupt", 1), ("sys.exit(3)", 3), ("", 0)]
)
def test_a_process_of_flowers_ends_with_its_main_thread(end, code, tmp_path):
    """What serves beside it would keep the process alive, and its site would wait for ever."""
    script = f"""
import sys, threading, time
from fedsynth_lib.release.deploy import child
def flower():
    threading.Thread(target=time.sleep, args=(600,)).start()
    {end}
child.to_its_end(flower)
"""
    command, env = [sys.executable, "-P", "-c", script], processes.environment(tmp_path)
    assert subprocess.run(command, timeout=MOST, env=env, check=False).returncode == code
