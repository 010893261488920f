"""A SuperLink and its SuperNodes as processes of this machine, for the tests.

Ports are free ones of localhost, Flower's files lie in a folder of the test's, and nothing goes
anywhere else. Two things make seconds of what would be minutes. Flower's processes look for work
every three seconds: here no loop of theirs waits longer than WAIT. And Flower starts a process for
each message to a client, which computes for four seconds until it has its imports: on Linux it is
forked from one that has them, as kernels of notebooks are (see `fedsynth_lib/bundle/warm.py`).
"""

import gc
import importlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from tiny import wait_for

from fedsynth_lib.bundle import warm

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = Path(sysconfig.get_path("scripts"))
FORKED = {  # command -> where its function is
    "flower-superexec": ("flwr.supercore.cli", "flower_superexec"),
    "flwr": ("flwr.cli.app", "app"),
    "flwr-clientapp": ("flwr.supernode.cli", "flwr_clientapp"),
    "flwr-serverapp": ("flwr.superlink.cli", "flwr_serverapp"),
}
LATE = (  # what these import when they are at work
    "fedsynth_lib.release.deploy.apps",
    "fedsynth_lib.federation.settings",
    "fedsynth_lib.methods.bayes.bayesian_network",
    "fedsynth_lib.methods.marginals.fedpgm",
    "fedsynth_lib.methods.marginals.flaim",
    "httpcore",
)
WAIT = 0.3  # seconds
MOST = 120.0  # seconds that anything may take
# In main threads alone: other threads wait before they end a process by force.
SITECUSTOMIZE = f"""
import threading, time
sleep, main = time.sleep, threading.main_thread()
def short(seconds):
    sleep(min(seconds, {WAIT}) if threading.current_thread() is main else seconds)
time.sleep = short
"""
ASK = """#!{python} -SP
import os, sys
sys.path.insert(0, {root!r})
from fedsynth_lib.bundle.warm import ask
if ask({address!r}, sys.argv) is None:
    os.execv({command!r}, sys.argv)
"""


class Federation:
    """Whoever starts it must stop it, also where the start fails.

    folder: an empty one, for Flower's files; what each process says is in its `*.log`.
    """

    def __init__(self, folder: Path, num_clients: int):
        self.folder, self.num_clients = folder, num_clients
        link, *self._ports = free_ports(1 + num_clients)
        self._address = f"127.0.0.1:{link}"
        self._nodes: dict[int, subprocess.Popen] = {}
        paths = (str(folder), str(COMMANDS), os.environ.get("PATH", os.defpath))
        self._env = {
            **os.environ,
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        }

    def start(self) -> None:
        """Returns once all nodes are connected, with ids in another order than their partitions."""
        (self.folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
        config = f'[superlink.here]\naddress = "{self._address}"\ninsecure = true\n'
        (self.folder / "config.toml").write_text(config)
        if sys.platform == "linux":
            self._warm_up()
        host, port = self._address.split(":")
        self._log("link", "flower-superlink", "--insecure", "--host", host, "--port", port)
        for client in range(self.num_clients):
            self._start_node(client)
        while (ids := self.node_ids()) == sorted(ids):
            self.stop_node(0)
            self._start_node(0)

    def stop(self) -> None:
        """Ends all that was started, directly or not: the processes with this folder as FLWR_HOME.

        Their groups would not do: Flower starts a session of its own for some, and those that start
        apps outlive a node for a while.
        """
        while found := [process for process in psutil.process_iter() if self._is_ours(process)]:
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(found, timeout=10)

    def node_ids(self) -> list[int]:
        """Ids of the nodes by partition, as soon as all have one."""
        found: list[str] = []

        def all_connected() -> bool:
            logs = map(self.log_of_node, range(self.num_clients))
            found[:] = [each for log in logs for each in re.findall(r"SuperNode ID: (\d+)\s", log)]
            return len(found) == self.num_clients

        wait_for(all_connected, MOST)
        return list(map(int, found))

    def log_of_node(self, client: int) -> str:
        return (self.folder / f"node{client}.log").read_text()

    def stop_node(self, client: int) -> None:
        """As its owner would: it signs off."""
        self._nodes[client].terminate()
        self._nodes[client].wait(MOST)

    def run(self, app: Path, meanwhile: Callable | None = None, **config) -> tuple[str, str]:
        """The status of a run that has ended, and its details; `config` is the app's run-config.

        meanwhile: called once the run is asked for. Raises TimeoutExpired for a run that hangs.
        """
        options = [f'--run-config={name}="{value}"' for name, value in config.items()]
        said = self._flwr("run", str(app), "here", "--stream", *options, meanwhile=meanwhile)
        number = re.search(r"started run (\d+)", said)
        assert number, said
        listed = self._flwr("ls", "here", "--run-id", number[1], "--format", "json")
        (run,) = json.loads(listed)["runs"]
        return run["status"], run["status-details"]

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get("FLWR_HOME") == str(self.folder)
        return False

    def _start_node(self, client: int) -> None:
        place = f"partition-id={client} num-partitions={self.num_clients}"
        options = ("--superlink", self._address, "--port", str(self._ports[client]))
        options += ("--insecure", "--node-config", place)
        self._nodes[client] = self._log(f"node{client}", "flower-supernode", *options)

    def _flwr(self, *arguments: str, meanwhile: Callable | None = None) -> str:
        """All that a `flwr` command says, to its end."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with self._start("flwr", *arguments, **pipes) as process:
            try:
                if meanwhile:
                    meanwhile()
                return process.communicate(timeout=MOST)[0]
            finally:
                process.kill()

    def _log(self, name: str, command: str, *arguments: str, **options) -> subprocess.Popen:
        path = self.folder / f"{name}.log"
        path.unlink(missing_ok=True)  # of an earlier node, whose processes may still write
        with open(path, "w", encoding="utf-8") as log:
            return self._start(COMMANDS / command, *arguments, stdout=log, stderr=log, **options)

    def _start(self, *command: str | Path, **options) -> subprocess.Popen:
        options |= {"env": self._env, "cwd": self.folder, "start_new_session": True}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)

    def _warm_up(self) -> None:
        """Commands that come before Flower's: they have a process forked, or become Flower's."""
        address = str(self.folder / "warm")
        for command in FORKED:
            places = {"python": sys.executable, "root": str(ROOT), "address": address}
            script = self.folder / command
            script.write_text(ASK.format(command=str(COMMANDS / command), **places))
            script.chmod(0o755)
        # Where a socket cannot be had, such as under a path that is too long, nothing is forked.
        with socket.socket(socket.AF_UNIX) as listener, suppress(OSError):
            listener.bind(address)
            listener.listen(64)
            number = listener.fileno()
            self._log("warm", sys.executable, __file__, str(number), pass_fds=[number])


def free_ports(number: int) -> list[int]:
    """Below those that systems give to outgoing connections, which come before all are taken; and
    never those of another process of pytest, which may have chosen and not taken them yet."""
    free: list[int] = []
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in random.sample(range(20_000 + worker % 16, 30_000, 16), 100):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            free.append(port)
    return free[:number]


def main(listener: str) -> None:
    """Import, and fork a process for each command that is asked for, which then is that command."""
    del sys.path[0]  # this folder, which an app does not see
    for name in (*LATE, *(module for module, _ in FORKED.values())):
        importlib.import_module(name)
    gc.freeze()  # the collector would touch, and so copy, every page that is shared
    request = warm.serve(socket.socket(fileno=int(listener)))
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.argv = request.arguments
    module, function = FORKED[Path(sys.argv[0]).name]
    getattr(sys.modules[module], function)()


if __name__ == "__main__":
    main(*sys.argv[1:])
