"""The kernels of a run, and the end of all that they started.

Each notebook has a process of its own, with this interpreter and an environment of its own.

Whatever kernels, profiles and start-up files the user has, none of them is used. No process that a
run started outlives it, neither kernels nor their workers (loky, Ray), even after kill -9: kernels
carry the run's mark in their environment and hand it on to every process they start. A watcher
waits until the runner closes its pipe, as the system does for a runner that was killed, and ends
every process with the mark. Loky's workers would otherwise stay forever.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from traitlets.config import Config

from fedsynth_lib.bundle.notebooks import Notebook

HERE = Path(__file__).resolve().parents[2]
MARK = "FEDSYNTH_RUN_MARK"
# characters of the path of a socket; macOS takes 103 with the number that Jupyter adds
LONGEST_SOCKET = 100
# a warning without the file and the line that it is from, which lie in this machine's folders
WARNINGS = (
    "--IPKernelApp.exec_lines=__import__('warnings').formatwarning = "
    "lambda message, category, *_, **__: f'{category.__name__}: {message}\\n'"
)
# imported before kernels are forked, where a notebook imports them or a part of them
LIBRARIES = "fedsynth_lib|flwr|IPython|matplotlib|numpy|pandas|scipy|sklearn|torch"
IMPORTED = re.compile(rf"^(?:import|from) ((?:{LIBRARIES})\b[\w.]*)", re.MULTILINE)


@dataclass(frozen=True)
class Kernels:
    """Kernel specs for the notebooks of a run, in its scratch folder.

    The path of the folder is the mark of the run, a name in it the mark of one kernel. `env` is
    the environment of every kernel.
    """

    scratch: Path
    env: Mapping[str, str]

    def spec(self, notebook: Notebook, env: Mapping[str, str]) -> str:
        """Write a kernel spec that runs in the notebook's folder, and return its name.

        Its environment is its own.
        """
        name = _name(notebook)
        place = [self.scratch / "warm", self._pid_file(notebook), notebook.path.resolve().parent]
        launch = [sys.executable, "-P", "-m", "fedsynth_lib.bundle.warm", "launch"]
        options = ["-f", "{connection_file}", "--log-level=CRITICAL", WARNINGS]
        spec = {
            "argv": [*launch, *map(str, place), *options],
            "display_name": "Python 3",
            "language": "python",
            "env": {**self.env, **env, MARK: str(self.scratch / name)},
        }
        folder = self.scratch / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        return name

    def config(self, notebook: Notebook) -> Config:
        """How the kernel is reached: by sockets that are files, where the system has them.

        A port that was free when it was chosen may be taken by the server of a federation, or by
        another kernel, when the kernel binds it; that kernel would never answer.
        """
        address = str(self.scratch / f"{_name(notebook)}-socket")
        if sys.platform == "win32" or len(address) > LONGEST_SOCKET:
            return Config()
        return Config(KernelManager={"transport": "ipc", "ip": address})

    def memory_gib(self, notebook: Notebook) -> float:
        """Memory of the notebook's kernel and its workers now.

        What processes share is divided among them, where the system says so (Linux).
        """
        total = 0
        with contextlib.suppress(psutil.Error, OSError, ValueError):  # not started yet, or ended
            kernel = psutil.Process(int(self._pid_file(notebook).read_text(encoding="utf-8")))
            for process in (kernel, *kernel.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    found = process.memory_full_info()
                    total += getattr(found, "pss", found.rss)
        return round(total / 2**30, 2)

    def end(self, notebook: Notebook) -> None:
        """Kill the notebook's kernel, if it still lives, and whatever it started.

        A kernel leads a session, and a forked one has no mark of its own.
        """
        pid = None
        with contextlib.suppress(OSError, ValueError):  # not started yet
            pid = int(self._pid_file(notebook).read_text(encoding="utf-8"))
        for process, mark in _marked(self.scratch):
            with contextlib.suppress(psutil.Error, OSError):
                if mark == self.scratch / _name(notebook) or _session(process) == pid:
                    process.kill()

    def _pid_file(self, notebook: Notebook) -> Path:
        return self.scratch / f"{_name(notebook)}.pid"


def _name(notebook: Notebook) -> str:
    """Jupyter takes ASCII letters, digits and a few signs in the name of a kernel spec."""
    return re.sub(r"[^a-z0-9._-]", "-", notebook.stem.lower())


@contextlib.contextmanager
def started(notebooks: Iterable[Notebook], env: Mapping[str, str]) -> Iterator[Kernels]:
    """Kernels for these notebooks, and the warm process that forks them, where that is possible.

    All processes and the scratch folder are gone at the end, however the end comes.
    """
    scratch = Path(tempfile.mkdtemp(prefix="fedsynth-"))
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    watcher = subprocess.Popen(
        [sys.executable, "-P", "-m", "fedsynth_lib.bundle.kernels", str(scratch)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # a Ctrl-C in the terminal is not meant for it
    )
    found = {
        "JUPYTER_PATH": str(scratch),  # where Jupyter looks for kernel specs
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
    }
    before = {name: os.environ.get(name) for name in found}
    os.environ.update(found)
    env = {**env, "PYTHONPATH": path, "IPYTHONDIR": str(scratch / "ipython")}
    env["PYTHONUTF8"] = "1"  # cells may read a file in whatever locale the user works
    try:
        code = [text for notebook in notebooks for text in notebook.code]
        # one kernel alone would only wait for imports it needs not
        if len(list(notebooks)) > 1 and sys.platform == "linux":
            # such as a path that is too long for a socket: kernels start cold
            with contextlib.suppress(OSError):
                warm_process(scratch, imported(code), env)
        yield Kernels(scratch, env)
    finally:
        watcher.stdin.close()
        watcher.wait()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def imported(cells: Iterable[str]) -> list[str]:
    """Return the modules of LIBRARIES that these cells import, each once."""
    return list(dict.fromkeys(name for text in cells for name in IMPORTED.findall(text)))


def warm_process(scratch: Path, modules: Iterable[str], env: Mapping[str, str]) -> None:
    """Start the process that imports the modules and forks kernels."""
    # open here, so that a kernel can ask before it is warm
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(scratch / "warm"))
        listener.listen(64)
        number = listener.fileno()
        subprocess.Popen(
            [sys.executable, "-m", "fedsynth_lib.bundle.warm", "serve", str(number), *modules],
            pass_fds=[number],
            env={**os.environ, **env, MARK: str(scratch)},
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # a kernel that fails to import reports it again
            start_new_session=True,  # a Ctrl-C in the terminal is the runner's to pass on
        )


# --- ending --------------------------------------------------------------------------------------


def _marked(scratch: Path) -> Iterator[tuple[psutil.Process, Path]]:
    """Find the processes of a run, each with its mark."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mark = process.environ().get(MARK)
            if mark and Path(mark).is_relative_to(scratch):
                yield process, Path(mark)


def _session(process: psutil.Process) -> int:
    """Return the process id of its session's leader; on Windows, which has none, its own."""
    return os.getsid(process.pid) if hasattr(os, "getsid") else process.pid


def end_all(scratch: Path) -> None:
    """Kill every process of the run and delete its folder."""
    for process, _ in _marked(scratch):
        with contextlib.suppress(psutil.Error):
            process.kill()
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.read()
    end_all(Path(sys.argv[1]))
