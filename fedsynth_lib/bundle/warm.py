"""The warm process: imports what the notebooks import once, then forks a kernel for each of them.

A kernel spends four seconds on imports, most of what a notebook takes whose rows are there. A
forked one has them at once, and shares their memory. It is as clean as a cold one: nothing ran
before the fork but imports and one small drawing, and its environment, folder, arguments, streams
and random state are its own.

Only threads would not survive a fork, so none may work before it: imports start no parallel region
of OpenMP, and the numbers of threads are fixed by the environment, which is the same for all
kernels of a run. Linux only, since elsewhere system libraries do not survive a fork.
bundle/launch.py is the other side, bundle/kernels.py starts both.
"""

import ast
import contextlib
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LIBRARIES = (
    "fedsynth_lib",
    "flwr",
    "IPython",
    "matplotlib",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "torch",
)
# what ipykernel sets where the user sets nothing
INLINE = "module://matplotlib_inline.backend_inline"


@dataclass(frozen=True)
class Request:
    """What a kernel is started with: command line, folder, environment, and stdin, stdout and
    stderr."""

    arguments: list[str]
    folder: str
    env: dict[str, str]
    streams: list[int]


def imported(sources: Iterable[str]) -> list[str]:
    """Names of the modules of LIBRARIES that these cells import, and of what they take from
    packages, if modules."""
    names = {}
    for source in sources:
        # a cell with magics; the kernel imports for itself then
        with contextlib.suppress(SyntaxError):
            for node in ast.parse(source).body:
                if isinstance(node, ast.Import):
                    names |= dict.fromkeys(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names |= dict.fromkeys(
                        [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                    )
    return [name for name in names if name.partition(".")[0] in LIBRARIES]


def warm_up(modules: Iterable[str]) -> None:
    """Import the modules and what every kernel needs; what cannot be imported is the notebook's to
    tell."""
    os.environ.setdefault("MPLBACKEND", INLINE)  # matplotlib reads it when it is imported
    needed = ("ipykernel.kernelapp", "ipykernel.ipkernel", "pandas.io.formats.style", *modules)
    for name in needed:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if "torch" in sys.modules:
        with contextlib.suppress(Exception):
            importlib.import_module("torch._dynamo")  # which a first step of an optimiser imports
    with contextlib.suppress(Exception):
        draw()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page that is shared


def draw() -> None:
    """Draw a letter in both formats of figures: matplotlib imports what that needs as it draws."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure()
    figure.text(0.5, 0.5, "a")
    with matplotlib.rc_context({"pdf.fonttype": 42}):  # as in figures/paper.mplstyle
        for kind in ("png", "pdf"):
            figure.savefig(io.BytesIO(), format=kind)


def serve(listener: socket.socket) -> Request:
    """Fork a kernel for each request, and tell who asked its process id and its status. Returns in
    the kernels only."""
    wakeup, wake = socket.socketpair()
    for end in (wakeup, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    clients: dict[int, socket.socket] = {}  # by the process id of their kernel
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is wakeup:
                    wakeup.recv(4096)
                    bury(clients)
                    continue
                client, _ = listener.accept()
                # of a client that is gone, and only its own matter
                with contextlib.suppress(OSError, ValueError):
                    request = read(client)
                    if pid := os.fork():
                        clients[pid] = client
                        client.sendall(b"%d\n" % pid)
                    else:
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        for each in (listener, client, wakeup, wake, *clients.values()):
                            each.close()
                        return request
                    for stream in request.streams:
                        os.close(stream)


def read(client: socket.socket) -> Request:
    """The request that bundle/launch.py sends."""
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    with client.makefile("rb") as rest:
        return Request(streams=streams, **json.loads(rest.read()))


def bury(clients: dict[int, socket.socket]) -> None:
    """Collect the kernels that have ended, and tell their clients."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with clients.pop(ended[0]) as client, contextlib.suppress(OSError):
                client.sendall(b"%d\n" % os.waitstatus_to_exitcode(ended[1]))


def become_kernel(request: Request) -> None:
    """Take on what was asked for, and be an IPython kernel to the end."""
    os.setsid()  # as Jupyter starts it: signals to its group reach what it starts
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.env)
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.argv = ["ipykernel_launcher", *request.arguments]
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # from the system, as in a process that has just imported it

    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def main(listener: str, *modules: Any) -> None:
    """Serve on the inherited socket of this number until somebody ends the process."""
    if sys.path[0] in ("", os.getcwd()):  # as ipykernel_launcher does; IPython adds it again
        del sys.path[0]
    with contextlib.suppress(Exception):
        warm_up(modules)
    become_kernel(serve(socket.socket(fileno=int(listener))))


if __name__ == "__main__":
    main(*sys.argv[1:])
