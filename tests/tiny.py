"""Tiny notebooks for the tests of the runner, and looking after what they start."""

import time
from pathlib import Path

import nbformat
import psutil
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PARAMETERS = 'profile = "quick"  # one of: smoke, quick, paper\nseed = 7  # at least 0'


def write(home: Path, stem: str, *code: str, parameters: str = PARAMETERS, **facts) -> None:
    """A notebook with a title, a `parameters` cell and these code cells."""
    cells = [
        new_markdown_cell(f"# Title of {stem}"),
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        *map(new_code_cell, code),
    ]
    notebook = new_notebook(cells=cells, metadata={"fedsynth": facts})
    (home / "notebooks").mkdir(exist_ok=True)
    nbformat.write(notebook, home / "notebooks" / f"{stem}.ipynb")


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)
