"""Nothing that a run started outlives it: not its kernels, nor their workers (loky, Ray), even after kill -9.

Kernels carry the run's mark in their environment and hand it on to every process they start. A small
process of its own waits until the runner closes its pipe, as the system does for a runner that was
killed, and ends whatever still carries the mark. Loky's workers would otherwise stay forever.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "FEDSYNTH_RUN_MARK"


@dataclass(frozen=True)
class Guard:
    """The run's scratch folder, whose path is also the mark."""

    scratch: Path

    @property
    def env(self) -> dict[str, str]:
        return {MARK: str(self.scratch)}

    def end_all(self) -> None:
        """Kill every process that carries the mark."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.scratch):
                    process.kill()


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """A Guard whose processes and folder are gone at the end, however the end comes."""
    guard = Guard(Path(tempfile.mkdtemp(prefix="fedsynth-")))
    here = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    watcher = subprocess.Popen(
        [sys.executable, "-P", "-m", "fedsynth_lib.guard", str(guard.scratch)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": here},
        start_new_session=True,  # a Ctrl-C in the terminal is not meant for it
    )
    try:
        yield guard
    finally:
        watcher.stdin.close()
        watcher.wait()


def memory_gib() -> float:
    """Memory of all processes below this one; what they share counts for each."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return round(total / 2**30, 2)


if __name__ == "__main__":
    sys.stdin.read()
    guard = Guard(Path(sys.argv[1]))
    guard.end_all()
    shutil.rmtree(guard.scratch, ignore_errors=True)
