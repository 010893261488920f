"""Where the project's files are, how they are put in place, and the log of a run."""

import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any

__all__ = ["CODE", "log_event", "project_root", "unwritable", "write_atomically"]

CODE = Path(__file__).resolve().parents[2]  # the folder that this package is in


def project_root() -> Path:
    """The folder that holds data/ and figures/: FEDSYNTH_HOME, or the parent of this package."""
    return Path(os.environ.get("FEDSYNTH_HOME") or CODE)


def write_atomically(path: Path, content: bytes) -> None:
    """Put the file in place in one step, so that no reader ever sees half of it. Raises BadInput
    where it cannot be written."""
    # not named after the file, whose name may be as long as names can be
    temporary = path.parent / f".{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        from fedsynth_lib.core.contract import BadInput  # numpy, which only few errors need

        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise BadInput(unwritable(path, error)) from error


def unwritable(path: Path, error: OSError) -> str:
    """One sentence on a file or folder that cannot be written, with the remedy."""
    home, reason = project_root(), error.strerror or str(error)
    if path.absolute().is_relative_to(home.absolute()):
        remedy = "set FEDSYNTH_HOME to a folder of yours, where results then go"
        return f"{home} cannot be written to ({reason}): {remedy}."
    return f"{path} cannot be written ({reason}): choose another folder, or make room in it."


def log_event(event: str, **facts: Any) -> None:
    """Append one line to the runner's log (FEDSYNTH_RUN_LOG), where there is one."""
    if path := os.environ.get("FEDSYNTH_RUN_LOG"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(json.dumps({"event": event, **facts}) + "\n")
