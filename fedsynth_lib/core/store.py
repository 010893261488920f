"""Where the project's files are, how they are put in place, and the log of a run."""

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["log_event", "project_root", "write_atomically"]


def project_root() -> Path:
    """The folder that holds data/ and figures/: FEDSYNTH_HOME, or the parent of this package."""
    return Path(os.environ.get("FEDSYNTH_HOME") or Path(__file__).resolve().parents[2])


def write_atomically(path: Path, content: bytes) -> None:
    """Put the file in place in one step, so that no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    temporary.write_bytes(content)
    os.replace(temporary, path)


def log_event(event: str, **facts: Any) -> None:
    """Append one line to the runner's log (FEDSYNTH_RUN_LOG), where there is one."""
    if path := os.environ.get("FEDSYNTH_RUN_LOG"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(json.dumps({"event": event, **facts}) + "\n")
