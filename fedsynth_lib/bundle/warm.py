"""Processes of kernels: one that imports what the notebooks import, and the kernels forked from it.

    python -P -m fedsynth_lib.bundle.warm serve SOCKET_NUMBER MODULE ...
    python -P -m fedsynth_lib.bundle.warm launch SOCKET PID_FILE FOLDER -f CONNECTION_FILE ...

A kernel spends four to six seconds of a core on imports, which is most of what a notebook takes
whose results are committed. A forked kernel has them at once, and shares their memory. It is as
clean as a cold one: nothing ran before the fork but imports, and its environment, folder,
arguments, streams and random state are its own.

Threads do not survive a fork, so none may work before it: imports start no parallel region of
OpenMP, and the numbers of threads are fixed by the environment, which is the same for all kernels
of a run. Linux only, since elsewhere system libraries do not survive a fork.

`launch` is what Jupyter starts: it asks for a fork, stands in for it towards Jupyter, and becomes a
cold kernel where nobody answers. Both import the standard library first and the rest when they
need it. bundle/kernels.py starts both.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# what ipykernel sets where the user sets nothing
INLINE = "module://matplotlib_inline.backend_inline"
KERNEL = ("ipykernel.kernelapp", "ipykernel.ipkernel")
LATE = {  # package -> what it imports when it first shows a table, saves a figure or trains
    "pandas": ("pandas.io.formats.style",),
    "matplotlib": ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf"),
    "torch": ("torch._dynamo",),
}
PASSED_ON = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Request:
    """The command line, folder and environment of a kernel, and its stdin, stdout and stderr."""

    arguments: list[str]
    folder: str
    env: dict[str, str]
    streams: list[int]


# --- the warm process ----------------------------------------------------------------------------


def warm_up(modules: Iterable[str]) -> None:
    """Import the modules and what every kernel needs.

    The notebook reports what cannot be imported.
    """
    os.environ.setdefault("MPLBACKEND", INLINE)  # matplotlib reads it when it is imported
    for name in (*KERNEL, *modules):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for name in [late for package in LATE if package in sys.modules for late in LATE[package]]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page that is shared


def serve(listener: socket.socket) -> Request:
    """Fork a process for each request, which sends its process id.

    Returns in these processes only.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system collects those that ended
    while True:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError, ValueError):  # of a client that is gone
            request = read(client)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                client.sendall(str(os.getpid()).encode())
                return request
            for stream in request.streams:
                os.close(stream)


def read(client: socket.socket) -> Request:
    """Read the request that `ask` sends."""
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    with client.makefile("rb") as rest:
        return Request(streams=streams, **json.loads(rest.read()))


def become_kernel(request: Request) -> None:
    """Take on the environment of the request, and be an IPython kernel to the end."""
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


# --- what Jupyter starts -------------------------------------------------------------------------


def launch(address: str, pid_file: str, folder: str, *arguments: str) -> int:
    """Run a kernel to its end, forked or cold; signals are passed on to it."""
    os.chdir(folder)
    pid = ask(address, arguments)
    Path(pid_file).write_text(str(pid or os.getpid()), encoding="utf-8")
    if pid:
        import psutil

        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.killpg(pid, number))
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait()
        return 0
    kernel = [sys.executable, "-m", "ipykernel_launcher", *arguments]
    if sys.platform == "win32":  # there this process would end before its kernel, and so the run
        return subprocess.call(kernel)
    os.execv(sys.executable, kernel)


def ask(address: str, arguments: Sequence[str]) -> int | None:
    """Ask the warm process for a fork; return its process id.

    None where the warm process is not there.
    """
    if not hasattr(socket, "AF_UNIX"):  # Windows
        return None
    request = {"arguments": arguments, "folder": os.getcwd(), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as channel, contextlib.suppress(OSError):
        channel.connect(address)
        socket.send_fds(channel, [b"\n"], [0, 1, 2])
        channel.sendall(json.dumps(request).encode())
        channel.shutdown(socket.SHUT_WR)
        return int(channel.recv(20) or 0) or None
    return None


if __name__ == "__main__":
    if sys.path[0] in ("", os.getcwd()):  # as ipykernel_launcher does; IPython adds it again
        del sys.path[0]
    if sys.argv[1] == "launch":
        sys.exit(launch(*sys.argv[2:]))
    warm_up(sys.argv[3:])
    become_kernel(serve(socket.socket(fileno=int(sys.argv[2]))))
