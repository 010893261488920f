"""Processes that start together and end together, whatever happens to whoever started them."""

import contextlib
import hashlib
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import CODE

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


@dataclass
class Children:
    """Flower's processes of one command; a context that ends them all, and all that they started.

    folder: for what they say, a log each, and for Flower's own files (FLWR_HOME).
    """

    folder: Path
    running: dict[str, subprocess.Popen] = field(default_factory=dict)

    def __enter__(self) -> "Children":
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, command: str, *options: str, **said: str) -> None:
        """One of `child.py`'s, in a session of its own: a Ctrl-C is for the parent, who ends it.

        said: further entries of its environment.
        """
        asked = [
            sys.executable,
            "-P",
            "-m",
            "fedsynth_lib.release.deploy.child",
            command,
            str(os.getpid()),
        ]
        with open(self.log(command), "w", encoding="utf-8") as log:
            self.running[command] = subprocess.Popen(
                [*asked, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self.folder) | said,
                start_new_session=True,
            )

    def log(self, command: str) -> Path:
        return self.folder / f"{command}.log"

    def check(self) -> None:
        """Raises Ended where one of them has, with the last that it said."""
        for command, process in self.running.items():
            if process.poll() is not None:
                raise Ended(
                    f"Flower's {command} has ended ({process.returncode}): {self.last(command)} "
                    f"(all of it: {self.log(command)})."
                )

    def last(self, command: str) -> str:
        """What a process said at last that means something, in one line."""
        text = self.log(command).read_text(encoding="utf-8", errors="replace")
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        said = [line.strip() for line in plain.splitlines() if line.strip()]
        errors = [n for n, line in enumerate(said) if line.startswith(("ERROR", "Exit Code"))]
        found = said[errors[-1] :] if errors else said[-1:]
        return textwrap.shorten(" ".join(found), 400, placeholder=" ...") or "nothing was said"

    def wait_for(self, port: int, say: Callable[[str], None], seconds: float = 600.0) -> None:
        """Returns once something listens at a port of this machine; says each minute that it does
        not yet."""
        begin = told = time.monotonic()
        while not listens("127.0.0.1", port):
            self.check()
            now = time.monotonic()
            if now > begin + seconds:
                raise BadInput(f"nothing listens at port {port} after {seconds:g} seconds.")
            if now > told + MINUTE:
                say(f"waits for Flower to begin at port {port}; this machine seems to be busy")
                told = now
            time.sleep(0.2)

    def end(self) -> None:
        """All of them, and what they have started, by force where they take too long."""
        found = [psutil.Process(each.pid) for each in self.running.values() if each.poll() is None]
        all_of_them = [process for each in found for process in (each, *_descendants(each))]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(all_of_them, timeout=GRACE)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=GRACE)
        for process in self.running.values():
            process.wait()
        self.running.clear()


def environment(folder: Path) -> dict[str, str]:
    """Of Flower's processes: its files in this folder, nothing said to anybody, the commands of
    this environment before those of any other, and no proxy on the way to this machine itself."""
    here, scripts = os.environ.get("PYTHONPATH", ""), str(Path(sys.executable).parent)
    return {
        **os.environ,
        **ENVIRONMENT,
        **without_proxy(),
        "FLWR_HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(CODE), here))),
        "PATH": os.pathsep.join((scripts, os.environ.get("PATH", os.defpath))),
    }


def without_proxy() -> dict[str, str]:
    """Entries of an environment by which no proxy stands between processes of this machine."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    direct = ",".join(filter(None, (given, "127.0.0.1,localhost")))
    return {"no_proxy": direct, "NO_PROXY": direct}


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def listens(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.settimeout(1)
        return trial.connect_ex((host, port)) == 0


def check_free(port: int, host: str, what: str) -> None:
    """Raises BadInput for a port that is taken, or that this user must not have."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        if os.name == "posix":  # as servers do; what a server has left is no server
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise BadInput(
                f"{what}: port {port} of {host} cannot be had ({error.strerror}); end what uses "
                "it, or choose another port."
            ) from None


def free_port() -> int:
    """Of this machine, for one of its own processes."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@contextlib.contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """Raises BadInput where another process is in this context with the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "ab") as lock:
        # Windows has no fcntl: there nobody looks
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadInput(f"{what} runs from {folder} already: end the other one.") from None
        yield


@contextlib.contextmanager
def secret_file(folder: Path) -> Iterator[Path]:
    """32 random bytes that a process and its children share, in a file of their owner's alone."""
    path = folder / SECRET
    folder.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(os.urandom(32))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def password_of(secret: bytes) -> str:
    """What is shown to a server's own interface by who has read its secret; the secret itself,
    with which Flower signs, is never sent."""
    return hashlib.blake2b(b"password", key=secret, digest_size=32).hexdigest()


class Password:
    """Shows the password in each request of one of Flower's clients (an interceptor)."""

    def __init__(self, secret: bytes):
        self.password = password_of(secret)

    def intercept(self, context: Any, call_next: Callable) -> Any:
        context.request.headers[PASSWORD] = self.password
        return call_next(context)
