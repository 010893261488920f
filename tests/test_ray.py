"""Cells of a grid on a real Ray cluster, a head and a second node as processes of this machine; and
a study's app in Flower's simulation, which is on Ray as well."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from deployed import free_ports
from flwr.app import Context, RecordDict
from sites import make

from fedsynth_lib.bundle import runner
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import CODE
from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import apps
from fedsynth_lib.release.deploy.processes import environment
from fedsynth_lib.runs import grid as grids

pytestmark = pytest.mark.slow

RAY = Path(sysconfig.get_path("scripts")) / "ray"
MOST = 120.0  # seconds until a node is there
TRIES = 12  # a node gives up where its helpers take 15 s to start, as on a machine with other work


class Cluster:
    """Two nodes of one core each, for the length of a context."""

    def __init__(self, folder: Path):
        self.port, self.nodes = free_ports(1)[0], []
        self.address = f"127.0.0.1:{self.port}"
        self._log = folder / "ray.log"
        # sockets lie in it, and their paths must be short
        self._folder = Path(tempfile.mkdtemp(prefix="ray"))

    def __enter__(self) -> "Cluster":
        head = ["--head", "--port", str(self.port), "--include-dashboard", "false"]
        head += ["--temp-dir", str(self._folder)]
        self._start(head)
        self._start(["--address", self.address])
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            self._end(node)
        shutil.rmtree(self._folder)

    def _start(self, options: list[str]) -> None:
        """A node; `ray start --block` stays until it is ended, and ends where the node does."""
        words = [str(RAY), "start", "--block", "--disable-usage-stats", "--num-cpus", "1"]
        words += ["--node-ip-address", "127.0.0.1", *options]
        for _ in range(TRIES):
            with open(self._log, "w", encoding="utf-8") as log:
                environment = {**os.environ, "PYTHONPATH": str(CODE), "NO_PROXY": "127.0.0.1"}
                node = subprocess.Popen(
                    words, stdout=log, stderr=log, env=environment, start_new_session=True
                )
            end = time.monotonic() + MOST
            while node.poll() is None and time.monotonic() < end:
                if "Ray runtime started" in self._log.read_text(encoding="utf-8"):
                    self.nodes.append(node)
                    return
                time.sleep(0.2)
            self._end(node)
        raise AssertionError(self._log.read_text(encoding="utf-8"))

    @staticmethod
    def _end(node: subprocess.Popen) -> None:
        """It and all that it has started, which may have begun sessions of their own."""
        try:
            below = psutil.Process(node.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            below = []
        node.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(below, timeout=10)
        for process in alive:
            process.kill()
        node.kill()
        node.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    return tmp_path


def squares(folder: Path):
    """A cell that notes that it has begun, and on which node; on a cluster it ends once both nodes
    have begun one. Made here, so that it travels as a value: no node knows this file."""

    def run_one(number: int, kill: int = -1) -> dict:
        import os
        import signal
        import time
        from uuid import uuid4

        import ray

        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"
        first = not list(folder.glob(f"{number} *"))
        (folder / f"{number} {node} {uuid4()}").touch()
        if number == kill and first:
            os.kill(os.getpid(), signal.SIGKILL)
        end = time.monotonic() + 120
        while node != "here" and time.monotonic() < end:
            if len({path.name.split()[1] for path in folder.iterdir()}) == 2:
                break
            time.sleep(0.1)
        return {"square": number**2, "data": "none"}

    return run_one


def began(folder: Path) -> tuple[list[int], set[str]]:
    """(the numbers of cells that have begun, each as often as it has; the nodes)."""
    words = [path.name.split() for path in folder.iterdir()]
    return sorted(int(number) for number, *_ in words), {node for _, node, _ in words}


def test_a_killed_worker_loses_its_cell_only_which_is_computed_again(cluster, home, monkeypatch):
    marks = home / "marks"
    marks.mkdir()
    options = {"name": "squares", "profile": "smoke", "save": False}
    cells = {"number": list(range(6)), "kill": [2]}
    monkeypatch.setenv("FEDSYNTH_RAY", cluster.address)
    far = grids.run_grid(squares(marks), cells, **options)
    numbers, nodes = began(marks)
    assert numbers == [0, 1, 2, 2, 3, 4, 5] and len(nodes) == 2 and "here" not in nodes
    assert far["value"].tolist() == [k**2 for k in range(6)]

    grids.run_grid(squares(marks), cells, **options)  # rows have come back, and are kept here
    assert began(marks)[0] == numbers
    monkeypatch.delenv("FEDSYNTH_RAY")
    here = grids.run_grid(squares(marks), cells, **options | {"name": "here"})
    said = ["metric", "value", "params", "cell", "data", "profile"]
    assert far[said].equals(here[said])


def test_a_cell_that_fails_is_named_and_what_is_done_is_kept(cluster, home, monkeypatch):
    def run_one(number: int) -> dict:
        if number == 3:
            raise ZeroDivisionError("no such number")
        return {"square": number**2, "data": "none"}

    monkeypatch.setenv("FEDSYNTH_RAY", cluster.address)
    with pytest.raises(grids.CellFailed, match=r"grid 'fails', cell .*3.*no such number") as failed:
        grids.run_grid(run_one, {"number": [1, 3]}, name="fails", profile="smoke", save=False)
    assert "\n" not in str(failed.value)


def test_a_worker_that_dies_again_and_again_is_said(cluster, home, monkeypatch):
    def run_one(number: int) -> dict:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setenv("FEDSYNTH_RAY", cluster.address)
    monkeypatch.setattr(grids, "TRIES", 1)
    with pytest.raises(grids.CellFailed, match=r"grid 'dies', cell .* its worker was killed"):
        grids.run_grid(run_one, {"number": [1]}, name="dies", profile="smoke", save=False)


def test_a_node_without_the_table_of_a_cell_makes_no_rows_of_its_stand_in(monkeypatch):
    monkeypatch.setattr(grids, "at_hand", lambda digest: "of the stand-in")
    labels = {"cell": "c", "profile": "smoke", "params": "{}", "version": "1"}
    given = {"number": 1, "table": "of the table"}
    with pytest.raises(grids.CellFailed, match="has not the real table of grid 'g'"):
        grids._on_a_node(lambda number: {"data": "real"}, given, labels, name="g")


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "nowhere", "127.0.0.1:port", "[::1]:{}"])
def test_an_address_that_does_not_answer_is_said_before_anything_runs(address, home, capsys):
    address = address.format(free_ports(1)[0])
    words = ["--ray", address, "--only", "10", "--profile", "smoke"]
    assert runner.main(words) == 2
    said = capsys.readouterr().err
    assert f"--ray: no cluster answers at {address} (" in said and said.count("\n") == 1
    assert not list(home.glob("figures/**/*.png"))


def test_without_ray_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(BadInput, match="there is no Ray here; pip install"),
        grids.connected("here:1"),
    ):
        pass


def simulated(folder: Path, home: Path, options: str) -> str:
    """What `flwr run` writes, with three SuperNodes in Flower's simulation; home: of its files."""
    home.mkdir()
    words = ["flwr", "run", str(folder), "--stream", "--run-config", options]
    try:
        with subprocess.Popen(
            [*words, "--federation-config", "num-supernodes=3"],
            env=environment(home),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        ) as process:
            return process.communicate(timeout=2 * MOST)[0]
    finally:
        for process in psutil.process_iter():  # it leaves a SuperLink of its own
            with suppress(psutil.Error):
                if process.environ().get("FLWR_HOME") == str(home):
                    process.kill()


def test_flowers_own_command_simulates_the_app_of_a_study_as_it_is(tmp_path, monkeypatch):
    """`flwr run`, as the README of the study's folder says: its rows are those of one process."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    study = make(tmp_path)
    options = f'insecure=true tables="{tmp_path}" out="{tmp_path}/far"'
    for number in range(TRIES):
        said = simulated(study.folder.parent, tmp_path / f"flwr{number}", options)
        if "timed out during startup" not in said:  # Ray waits 30 s for its own processes
            break
    assert "fedsynth: wrote" in said, said
    client = apps.client_app(str(study.folder / "client_app.py"))
    grid = flower.LocalGrid(client, 3)
    config = {"tables": str(tmp_path), "out": f"{tmp_path}/here", "insecure": True}
    for each in grid._contexts.values():
        each.run_config = config
    context = Context(flower.LOCAL_RUN, 0, {}, RecordDict(), config)
    apps.carry_out(study, grid, context)
    far, here = (tmp_path / where / "hearts_rehearsal.csv" for where in ("far", "here"))
    assert far.read_bytes() == here.read_bytes()
