"""Processes that start together and end together, however the one that started them ends."""

import contextlib
import hashlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import psutil

from fedsynth_lib.core.errors import BadInput  # the SuperLink needs nothing more
from fedsynth_lib.core.store import CODE, locked, write_atomically

GRACE = 5.0  # seconds for a process to end by itself
MINUTE = 50.0  # seconds, so that with all else within a minute there is news
ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "PYTHONUTF8": "1",
}
SECRET = "secret"  # of a server or a site and its own processes, see `secret_file`
PASSWORD = "x-fedsynth-password"  # the header that shows it


class Ended(BadInput):
    """A process has ended that should not have."""


class Processes:
    """Processes with a log each in one folder: a context that ends them, and all that they started.

    env: their environment. grace: seconds for them to end by themselves.
    """

    def __init__(self, folder: Path, env: Mapping[str, str], grace: float = GRACE):
        self.folder, self.env, self.grace = folder, env, grace
        self.running: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Self:
        """Make the folder of the processes, and return itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        self.end_all()

    def begin_process(self, name: str, words: list[str], **env: str) -> subprocess.Popen:
        """Start a command in a session of its own: a Ctrl-C is for the parent, which ends it."""
        with open(self.log(name), "w", encoding="utf-8") as log:
            self.running[name] = subprocess.Popen(
                words,
                cwd=self.folder,
                env={**self.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.running[name]

    def log(self, name: str) -> Path:
        """Return the file with what a process writes."""
        return self.folder / f"{name}.log"

    def output(self, name: str) -> str:
        """Return all that a process has written so far."""
        return self.log(name).read_text(encoding="utf-8", errors="replace")

    def end_all(self) -> None:
        """End all processes and their descendants, by force where they take too long."""
        found = [psutil.Process(each.pid) for each in self.running.values() if each.poll() is None]
        descendants = [child for process in found for child in _descendants(process)]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs([*found, *descendants], timeout=self.grace)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=self.grace)
        for process in self.running.values():
            process.wait()


class Children(Processes):
    """Flower's processes of one command. folder: for their logs and Flower's files (FLWR_HOME)."""

    def __init__(self, folder: Path):
        super().__init__(folder, environment(folder))

    def start(self, command: str, *options: str, **env: str) -> None:
        """Start `child.py` with one of its commands; env: further entries of its environment."""
        child = [
            sys.executable,
            "-P",
            "-m",
            "fedsynth_lib.release.deploy.child",
            command,
            str(os.getpid()),
        ]
        self.begin_process(command, [*child, *options], **env)

    def check(self) -> None:
        """Raise Ended where one of them has ended, with the last that it wrote."""
        for command, process in self.running.items():
            if process.poll() is not None:
                raise Ended(
                    f"Flower's {command} has ended ({process.returncode}): {self.last(command)} "
                    f"(all of it: {self.log(command)})."
                )

    def last(self, command: str) -> str:
        """Return the last error that a process wrote, else its last line, as one line."""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.output(command))
        lines = [line.strip() for line in plain.splitlines() if line.strip()]
        errors = [n for n, line in enumerate(lines) if line.startswith(("ERROR", "Exit Code"))]
        found = lines[errors[-1] :] if errors else lines[-1:]
        return textwrap.shorten(" ".join(found), 400, placeholder=" ...") or "nothing was said"

    def wait_for(self, port: int, seconds: float = 600.0) -> None:
        """Return once something listens at a port of this machine."""
        end = time.monotonic() + seconds
        while not listens("127.0.0.1", port):
            self.check()
            if time.monotonic() > end:
                raise BadInput(f"nothing listens at port {port} after {seconds:g} seconds.")
            time.sleep(0.2)


class Terminals(Processes):
    """Commands of several parties side by side on one machine, as in a terminal each.

    They are for a rehearsal, a lesson and the tests. They run in one folder, which has their books
    (FEDSYNTH_HOME).
    """

    def __init__(self, folder: Path, **env: str):
        home = {"FEDSYNTH_HOME": str(folder / "home"), "PYTHONPATH": _python_path()}
        super().__init__(folder, {**os.environ, **home, **env}, 4 * GRACE)

    def begin(self, terminal: str, command: str) -> subprocess.Popen:
        """Type a command, without the word `fedsynth`; it goes on by itself."""
        words = [sys.executable, "-P", "-m", "fedsynth_lib", *shlex.split(command)]
        return self.begin_process(terminal, words)

    def type(self, terminal: str, command: str, seconds: float = 600.0) -> str:
        """Return what a command writes, to its end. Raise BadInput where it fails."""
        if self.begin(terminal, command).wait(seconds):
            raise BadInput(f"{terminal}: fedsynth {command}: {self.output(terminal).strip()}")
        return self.output(terminal).strip()

    def wait(self, terminal: str, text: str, times: int = 1, seconds: float = 600.0) -> None:
        """Wait until a command has written a text so many times.

        Raises BadInput where it ends before.
        """
        end, process = time.monotonic() + seconds, self.running[terminal]
        while self.output(terminal).count(text) < times:
            ended = process.poll() is not None and self.output(terminal).count(text) < times
            if ended or time.monotonic() > end:
                raise BadInput(f"{terminal} has not said {text!r}: {self.output(terminal)}")
            time.sleep(0.1)

    def end(self, terminal: str, number: int = signal.SIGTERM) -> None:
        """Send a signal to a command, and wait for its end."""
        self.running[terminal].send_signal(number)
        self.running[terminal].wait()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of Flower's processes.

    Flower keeps its files in this folder and reports to nobody. The commands of this environment
    come first, and no proxy is used on the way to this machine.
    """
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        **ENVIRONMENT,
        **without_proxy(),
        "FLWR_HOME": str(folder),
        "PYTHONPATH": _python_path(),
        "PATH": os.pathsep.join((scripts, os.environ.get("PATH", os.defpath))),
    }


def _python_path() -> str:
    """Return PYTHONPATH with this package before all else."""
    return os.pathsep.join(filter(None, (str(CODE), os.environ.get("PYTHONPATH", ""))))


def without_proxy() -> dict[str, str]:
    """Return entries of an environment that keep proxies from between processes of this machine."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    direct = ",".join(filter(None, (given, "127.0.0.1,localhost")))
    return {"no_proxy": direct, "NO_PROXY": direct}


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def listens(host: str, port: int) -> bool:
    """Whether something listens at this address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.settimeout(1)
        return trial.connect_ex((host, port)) == 0


def check_free(port: int, host: str, what: str) -> None:
    """Raise BadInput for a port that is taken, or that this user may not use."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        if os.name == "posix":  # as servers do: a port that one has just left is free
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise BadInput(
                f"{what}: port {port} of {host} cannot be had ({error.strerror}); end what uses "
                "it, or choose another port."
            ) from None


def free_port() -> int:
    """Return a port of this machine, for one of its own processes."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@contextlib.contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """Raise BadInput where another process is in this context with the same folder."""
    try:
        with locked(folder / "lock", wait=False):
            yield
    except BlockingIOError:
        raise BadInput(f"{what} runs from {folder} already: end the other one.") from None


@contextlib.contextmanager
def secret_file(folder: Path) -> Iterator[Path]:
    """Give a file with 32 random bytes, which its owner's processes alone can read."""
    path = folder / SECRET
    write_atomically(path, os.urandom(32), private=True)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def password_of(secret: bytes) -> str:
    """Return what a process that can read a server's secret shows to the server's own interface.

    The secret itself, with which Flower signs, is never sent.
    """
    return hashlib.blake2b(b"password", key=secret, digest_size=32).hexdigest()


class Password:
    """Show the password in each request of one of Flower's clients (an interceptor)."""

    def __init__(self, secret: bytes):
        self.password = password_of(secret)

    def intercept(self, context: Any, call_next: Callable) -> Any:
        """Add the password to a request."""
        context.request.headers[PASSWORD] = self.password
        return call_next(context)
