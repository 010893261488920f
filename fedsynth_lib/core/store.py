"""Where the project's files are, how they are put in place, and the log of a run."""

import contextlib
import errno
import json
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsynth_lib.core.errors import BadInput

__all__ = [
    "CODE",
    "FOR_OWNER",
    "as_path",
    "check_writable",
    "existing_file",
    "is_checkout",
    "locked",
    "log_event",
    "private_folder",
    "project_root",
    "unwritable",
    "warn_of_cache",
    "write_atomically",
]


FOR_OWNER = "internal"  # the folder of what is made from real rows without noise
CODE = Path(__file__).resolve().parents[2]  # the folder that this package is in


def is_checkout() -> bool:
    """Whether the package is in a checkout of the project, not among installed packages."""
    return (CODE / "pyproject.toml").is_file()


def project_root() -> Path:
    """Return the folder that holds data/ and figures/.

    It is FEDSYNTH_HOME if that is set, else the checkout. An installed package uses the user's own
    folder, $XDG_DATA_HOME/fedsynth, because what was released must outlive an update.
    """
    if home := os.environ.get("FEDSYNTH_HOME"):
        return as_path(home)
    if is_checkout():
        return CODE
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fedsynth"


def within(path: Path) -> str:
    """Return a path relative to the project if it is within it, else the path itself.

    Outputs that show such paths do not name a machine's folders.
    """
    home = project_root()
    return str(path.relative_to(home) if path.is_relative_to(home) else path)


def as_path(given: str | Path, name: str = "path") -> Path:
    """Return a path as its user means it, absolute.

    It starts from the current folder, and `~` is the user's home. A link stays the link: what
    belongs to a table is beside it, not beside what it points to. Raises BadInput, naming the
    parameter, for what is no path.
    """
    if not isinstance(given, str | os.PathLike):
        raise BadInput(f"{name} is a {type(given).__name__}: give a path.")
    return Path(given).expanduser().absolute()


def existing_file(given: str | Path, name: str) -> Path:
    """Return the path of a file, as `as_path` reads it.

    Raises BadInput, naming the parameter, if there is no such file.
    """
    path = as_path(given, name)
    if path.name == "-" or (path.exists() and not (path.is_file() or path.is_dir())):
        raise BadInput(
            f"{name}: {given}: this is a pipe or a device; save the table in a file first."
        )
    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "there is no such file"
        raise BadInput(f"{name}: {path}: {what}; check the path.")
    return path


def check_writable(path: Path, name: str) -> None:
    """Check that `write_atomically` can put a file there; the folder is made.

    Raises BadInput, naming the parameter, if it cannot.
    """
    try:
        write_atomically(probe := path.with_name(f"{path.name}.probe"), b"")
        probe.unlink()
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error


def private_folder(path: Path) -> Path:
    """Make a folder that its owner alone can read (mode 700), and return it.

    A folder that exists gets this mode as well. Raises BadInput if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise BadInput(unwritable(path, error)) from error
    return path


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put the file in place in one step, so that no reader ever sees half of it.

    Raises BadInput if it cannot be written. private: its owner alone can read the file (mode 600).
    """
    # not named after the file, whose name may be as long as names can be
    temporary = path.parent / f".{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(mode=0o600 if private else 0o666)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the name without the content
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise BadInput(unwritable(path, error)) from error


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of this file, which is made if it is not there; other processes wait for it.

    wait: wait while another process has it; if False, raise BlockingIOError instead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as lock:
        # Windows has no fcntl: there one process at a time
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def warn_of_cache(path: Path) -> None:
    """Say that a file of the cache is not what was put there, so that it is made again."""
    warnings.warn(
        f"{path}: this file of the cache is damaged or not what its name says; it is made again.",
        stacklevel=3,
    )


def unwritable(path: Path, error: OSError) -> str:
    """Write one sentence on a file or folder that cannot be written, with the remedy."""
    home, reason = project_root(), error.strerror or str(error)
    refused = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    if refused and path.absolute().is_relative_to(home.absolute()):
        remedy = "set FEDSYNTH_HOME to a folder of yours, where results then go"
        return f"{home} cannot be written to ({reason}): {remedy}."
    return f"{path} cannot be written ({reason}): choose another folder, or make room in it."


def log_event(event: str, **facts: Any) -> None:
    """Append one line to the runner's log (FEDSYNTH_RUN_LOG), where there is one."""
    if path := os.environ.get("FEDSYNTH_RUN_LOG"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(json.dumps({"event": event, **facts}) + "\n")
