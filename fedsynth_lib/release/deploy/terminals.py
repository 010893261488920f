"""Commands of several parties side by side on one machine, as in a terminal each: for a rehearsal,
a lesson, the tests."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import CODE
from fedsynth_lib.release.deploy.processes import GRACE


class Terminals:
    """Each `fedsynth` command that was begun here ends with this context. They stand in one folder,
    which has their books (FEDSYNTH_HOME), and a log of what each says."""

    def __init__(self, folder: Path, **environment: str):
        here = os.environ.get("PYTHONPATH", "")
        self.folder, self.running = folder, {}
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(CODE), here))),
            "FEDSYNTH_HOME": str(folder / "home"),
            **environment,
        }

    def __enter__(self) -> "Terminals":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(4 * GRACE)
            except subprocess.TimeoutExpired:
                process.kill()

    def begin(self, terminal: str, command: str) -> subprocess.Popen:
        """What somebody types, without the word `fedsynth`; it goes on by itself."""
        return self.begin_process(
            terminal, [sys.executable, "-P", "-m", "fedsynth_lib", *shlex.split(command)]
        )

    def begin_process(self, terminal: str, words: list[str]) -> subprocess.Popen:
        """Any other command."""
        with open(self.log(terminal), "w", encoding="utf-8") as log:
            self.running[terminal] = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.running[terminal]

    def type(self, terminal: str, command: str, seconds: float = 600.0) -> str:
        """What a command says, to its end. Raises BadInput where it fails."""
        if self.begin(terminal, command).wait(seconds):
            raise BadInput(f"{terminal}: fedsynth {command}: {self.said(terminal).strip()}")
        return self.said(terminal).strip()

    def wait(self, terminal: str, text: str, times: int = 1, seconds: float = 600.0) -> None:
        """Until a command has said a text so many times. Raises BadInput where it ends before."""
        end, process = time.monotonic() + seconds, self.running[terminal]
        while self.said(terminal).count(text) < times:
            ended = process.poll() is not None and self.said(terminal).count(text) < times
            if ended or time.monotonic() > end:
                raise BadInput(f"{terminal} has not said {text!r}: {self.said(terminal)}")
            time.sleep(0.1)

    def end(self, terminal: str, number: int = signal.SIGTERM) -> None:
        """A signal to a command, and its end."""
        self.running[terminal].send_signal(number)
        self.running[terminal].wait()

    def log(self, terminal: str) -> Path:
        return self.folder / f"{terminal}.log"

    def said(self, terminal: str) -> str:
        return self.log(terminal).read_text(encoding="utf-8", errors="replace")
