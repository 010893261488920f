"""Nothing that a run started outlives it: not its kernels, nor their workers (loky, Ray), even
after kill -9.

Kernels carry the run's mark in their environment and hand it on to every process they start. A
small process of its own waits until the runner closes its pipe, as the system does for a runner
that was killed, and ends whatever still carries the mark. Loky's workers would otherwise stay
forever.
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
    """The run's scratch folder, whose path is also the mark; the mark of one kernel is a name in
    that folder."""

    scratch: Path

    def env(self, kernel: str = "") -> dict[str, str]:
        """What goes into the environment of a kernel, or of what serves all of them."""
        return {MARK: str(self.scratch / kernel)}

    def end_all(self) -> None:
        """Kill every process of the run."""
        for process, _ in self._marked():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def end(self, kernel: str, pid: int | None) -> None:
        """Kill what one kernel started, and itself: it leads a session, and a forked one has no
        mark of its own."""
        for process, mark in self._marked():
            with contextlib.suppress(psutil.Error, OSError):
                if mark == self.scratch / kernel or _session(process) == pid:
                    process.kill()

    def _marked(self) -> Iterator[tuple[psutil.Process, Path]]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                mark = process.environ().get(MARK)
                if mark and Path(mark).is_relative_to(self.scratch):
                    yield process, Path(mark)


def _session(process: psutil.Process) -> int:
    """The process id of whoever leads its session; where there are none, as on Windows, its own."""
    return os.getsid(process.pid) if hasattr(os, "getsid") else process.pid


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """A Guard whose processes and folder are gone at the end, however the end comes."""
    guard = Guard(Path(tempfile.mkdtemp(prefix="fedsynth-")))
    here = os.pathsep.join(
        filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    )
    watcher = subprocess.Popen(
        [sys.executable, "-P", "-m", "fedsynth_lib.bundle.guard", str(guard.scratch)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": here},
        start_new_session=True,  # a Ctrl-C in the terminal is not meant for it
    )
    try:
        yield guard
    finally:
        watcher.stdin.close()
        watcher.wait()


def memory_gib(pid: int | None) -> float:
    """Memory of a process and all below it; what they share counts for each. 0 while there is
    none."""
    total = 0
    with contextlib.suppress(psutil.Error):
        if pid is None:
            return 0.0
        kernel = psutil.Process(pid)
        for process in [kernel, *kernel.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return round(total / 2**30, 2)


if __name__ == "__main__":
    sys.stdin.read()
    guard = Guard(Path(sys.argv[1]))
    guard.end_all()
    shutil.rmtree(guard.scratch, ignore_errors=True)
