"""JupyterLab on a copy of the notebooks.

Running a lesson saves outputs into it, and the checkout stays as it is.
"""

import filecmp
import subprocess
import sys
from pathlib import Path

from fedsynth_lib.bundle.notebooks import read_notebooks, select
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import CODE, project_root

FOLDER = "my_notebooks"  # in the project; git ignores it


def copy_notebooks(source: Path, target: Path, *, student: bool = False) -> list[Path]:
    """Copy files that the target does not have yet, and overwrite none.

    student: whether notebooks of solutions are left out. Returns the files of the target that
    differ from the source: they are kept as they are.
    """
    target.mkdir(parents=True, exist_ok=True)
    kept = []
    for path in sorted(each for each in source.iterdir() if each.is_file()):
        if student and "solutions" in path.stem:
            continue
        own = target / path.name
        if not own.exists():
            own.write_bytes(path.read_bytes())
        elif not filecmp.cmp(path, own, shallow=False):
            kept.append(own)
    return kept


def open_lab(notebook: str = "00", *, browser: bool = True, student: bool = False) -> int:
    """Start JupyterLab on the copy of one notebook; returns the exit status of the server.

    notebook: its number or a part of its name. browser: whether a browser is opened; the address is
    shown in either case. student: as for `copy_notebooks`. Raises BadInput for a notebook that does
    not exist.
    """
    source = CODE / "notebooks"
    if not source.is_dir():
        raise BadInput("an installed package has no notebooks: use a checkout of the project.")
    (chosen, *_) = select(read_notebooks(source), [notebook])
    root = project_root()
    kept = copy_notebooks(source, root / FOLDER, student=student)
    print(f"Notebooks are copies in {root / FOLDER}: change and run them as you like.")
    if kept:
        names = ", ".join(path.name for path in kept)
        print(f"Kept as you left them: {names}. Delete a copy to have the original again.")
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    command += [f"--LabApp.default_url=/lab/tree/{FOLDER}/{chosen.path.name}"]
    return subprocess.call(command + ([] if browser else ["--no-browser"]))
