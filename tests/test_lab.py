"""JupyterLab on copies: the checkout stays as it is, and nobody's work is overwritten."""

import subprocess
from pathlib import Path

import pytest

from fedsynth_lib.bundle import commands, lab

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def started(tmp_path, monkeypatch) -> list[list[str]]:
    """The commands that would have been started, in a project of its own."""
    found = []
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.setattr(lab.subprocess, "call", lambda command: found.append(command) or 0)
    return found


def test_lab_opens_the_copy_of_a_notebook(started, tmp_path, capsys):
    assert commands.main(["lab", "02", "--no-browser"]) == 0
    (command,) = started
    assert command[1:3] == ["-m", "jupyterlab"] and command[-1] == "--no-browser"
    assert f"--ServerApp.root_dir={tmp_path}" in command
    opened = next(word for word in command if "default_url" in word).partition("/lab/tree/")[2]
    assert opened == "my_notebooks/02_privacy_budget.ipynb" and (tmp_path / opened).is_file()
    originals = {path.name for path in (ROOT / "notebooks").iterdir() if path.is_file()}
    assert {path.name for path in (tmp_path / "my_notebooks").iterdir()} == originals
    assert "Kept" not in capsys.readouterr().out


def test_a_student_has_no_solutions(started, tmp_path):
    assert commands.main(["lab", "10", "--student"]) == 0
    copied = {path.name for path in (tmp_path / "my_notebooks").iterdir()}
    originals = {path.name for path in (ROOT / "notebooks").iterdir() if path.is_file()}
    assert originals - copied == {"83_solutions.ipynb", "84_more_solutions.ipynb"}


def test_a_copy_that_was_changed_is_kept_and_named(started, tmp_path, capsys):
    assert commands.main(["lab"]) == 0
    own = tmp_path / "my_notebooks" / "00_start_here.ipynb"
    own.write_text("my answers", encoding="utf-8")
    (tmp_path / "my_notebooks" / "03_federation.ipynb").unlink()
    capsys.readouterr()
    assert commands.main(["lab"]) == 0
    assert own.read_text(encoding="utf-8") == "my answers"
    assert (tmp_path / "my_notebooks" / "03_federation.ipynb").is_file()
    assert "Kept as you left them: 00_start_here.ipynb." in capsys.readouterr().out


def test_a_notebook_that_does_not_exist_is_refused_before_anything_is_copied(
    started, tmp_path, capsys
):
    assert commands.main(["lab", "nosuch"]) == 2
    assert "there is no notebook 'nosuch'" in capsys.readouterr().err
    assert not started and not (tmp_path / "my_notebooks").exists()


def test_git_ignores_the_folder_of_copies():
    command = ["git", "check-ignore", "-q", f"{lab.FOLDER}/00_start_here.ipynb"]
    if (ROOT / ".git").exists():
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
