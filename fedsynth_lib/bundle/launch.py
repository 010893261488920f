"""What the runner's kernel specs start: an IPython kernel in its notebook's folder.

    python -P -m fedsynth_lib.bundle.launch SOCKET PID_FILE FOLDER -f CONNECTION_FILE ...

The warm process behind SOCKET (bundle/warm.py) forks the kernel; this process stands in for it
towards Jupyter: it passes signals on and ends with the kernel's status. Where nobody answers, it
becomes a cold kernel itself. Only the standard library is imported, so that it costs next to
nothing.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def main(address: str, pid_file: str, folder: str, *arguments: str) -> int:
    """Run a kernel to its end; its exit status, or 128 and the number of the signal that ended
    it."""
    os.chdir(folder)
    if answers := ask(address, arguments):
        pid = int(answers.readline())
        Path(pid_file).write_text(str(pid), encoding="utf-8")
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.killpg(pid, number))
        # no answer: the warm process is gone, and so is the kernel
        status = int(answers.readline() or -signal.SIGKILL)
        return status if status >= 0 else 128 - status
    Path(pid_file).write_text(str(os.getpid()), encoding="utf-8")
    kernel = [sys.executable, "-m", "ipykernel_launcher", *arguments]
    if sys.platform == "win32":  # there this process would end before its kernel, and so the run
        return subprocess.call(kernel)
    os.execv(sys.executable, kernel)


def ask(address: str, arguments: Sequence[str]) -> BinaryIO | None:
    """Ask the warm process for a kernel; its answers, a line each (pid, then status), or None where
    it is not there."""
    if not hasattr(socket, "AF_UNIX"):  # Windows
        return None
    request = {"arguments": arguments, "folder": os.getcwd(), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as channel:
        try:
            channel.connect(address)
            socket.send_fds(channel, [b"\n"], [0, 1, 2])
            channel.sendall(json.dumps(request).encode())
            channel.shutdown(socket.SHUT_WR)
            answers = channel.makefile("rb")
            return answers if answers.peek(1) else None
        except OSError:
            return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
