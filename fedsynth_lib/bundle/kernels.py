"""The kernels of a run: each notebook in a process of its own, with this interpreter and an
environment of its own.

Whatever kernels, profiles and start-up files the user has, none of them is used.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from traitlets.config import Config

from fedsynth_lib.bundle.guard import Guard, memory_gib
from fedsynth_lib.bundle.notebooks import Notebook
from fedsynth_lib.bundle.warm import imported

HERE = Path(__file__).resolve().parents[2]
LONGEST_SOCKET = (
    100  # characters of the path of a socket; macOS takes 103 with the number that Jupyter adds
)
# a warning without the file and the line that it is from, which lie in this machine's folders
WARNINGS = (
    "--IPKernelApp.exec_lines=__import__('warnings').formatwarning = "
    "lambda message, category, *_, **__: f'{category.__name__}: {message}\\n'"
)


class Kernels:
    """Kernel specs for the notebooks of a run, and the warm process that forks the kernels, where
    that is possible."""

    def __init__(self, notebooks: Iterable[Notebook], guard: Guard, env: Mapping[str, str]):
        path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
        self.guard = guard
        self.env = {**env, "PYTHONPATH": path, "IPYTHONDIR": str(guard.scratch / "ipython")}
        self.env["PYTHONUTF8"] = "1"  # cells may read a file in whatever locale the user works
        self.address = guard.scratch / "warm"
        self.before = {
            name: os.environ.get(name) for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR")
        }
        notebooks = list(notebooks)
        # one kernel alone would only wait for imports it needs not
        if len(notebooks) > 1 and sys.platform == "linux":
            # such as a path that is too long for a socket: kernels start cold
            with contextlib.suppress(OSError):
                self._warm_up(imported(text for notebook in notebooks for text in notebook.code))

    def __enter__(self) -> "Kernels":
        os.environ.update(
            JUPYTER_PATH=str(self.guard.scratch),
            JUPYTER_RUNTIME_DIR=str(self.guard.scratch / "runtime"),
        )
        return self

    def __exit__(self, *_: object) -> None:
        for name, value in self.before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _warm_up(self, modules: Iterable[str]) -> None:
        # open here, so that a kernel can ask before it is warm
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.address))
            listener.listen(64)
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "fedsynth_lib.bundle.warm",
                    str(listener.fileno()),
                    *modules,
                ],
                pass_fds=[listener.fileno()],
                env={**os.environ, **self.env, **self.guard.env()},
                cwd=self.guard.scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # what importing says; a kernel that fails to import says it again
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C in the terminal is the runner's to pass on
            )

    def spec(self, notebook: Notebook, env: Mapping[str, str]) -> str:
        """The name of a kernel spec that runs in the notebook's folder, in an environment of its
        own."""
        name = _name(notebook)
        launch = [sys.executable, "-P", "-m", "fedsynth_lib.bundle.launch"]
        place = [
            str(self.address),
            str(self._pid_file(notebook)),
            str(notebook.path.resolve().parent),
        ]
        spec = {
            "argv": [*launch, *place, "-f", "{connection_file}", "--log-level=CRITICAL", WARNINGS],
            "display_name": "Python 3",
            "language": "python",
            "env": {**self.env, **env, **self.guard.env(name)},
        }
        folder = self.guard.scratch / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        return name

    def config(self, notebook: Notebook) -> Config:
        """How the kernel is reached: by sockets that are files, where the system has them.

        A port that was free when it was chosen may be taken by the server of a federation, or by
        another kernel, when the kernel binds it; that kernel would never answer.
        """
        address = str(self.guard.scratch / f"{_name(notebook)}-socket")
        if sys.platform == "win32" or len(address) > LONGEST_SOCKET:
            return Config()
        return Config(KernelManager={"transport": "ipc", "ip": address})

    def memory_gib(self, notebook: Notebook) -> float:
        """Memory of the notebook's kernel and its workers now."""
        return memory_gib(self._pid(notebook))

    def end(self, notebook: Notebook) -> None:
        """Kill the notebook's kernel, if it still lives, and whatever it started."""
        self.guard.end(_name(notebook), self._pid(notebook))

    def _pid_file(self, notebook: Notebook) -> Path:
        return self.guard.scratch / f"{_name(notebook)}.pid"

    def _pid(self, notebook: Notebook) -> int | None:
        try:
            return int(self._pid_file(notebook).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not started yet
            return None


def _name(notebook: Notebook) -> str:
    """Jupyter takes ASCII letters, digits and a few signs in the name of a kernel spec."""
    return re.sub(r"[^a-z0-9._-]", "-", notebook.stem.lower())
