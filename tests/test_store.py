"""Where results go, and what is said where they cannot."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from tiny import write

from fedsynth_lib.bundle import commands, runner
from fedsynth_lib.core import store
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import unwritable, write_atomically

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def read_only(home, monkeypatch):
    """A project on a file system where nothing can be made or written; root would write despite
    permissions."""
    write(home, "00_a", "x = 1")

    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    return home


def test_a_run_in_a_read_only_checkout_says_one_sentence(read_only, capsys):
    home = read_only
    assert runner.main([]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"run_all.sh: {home} cannot be written to (Read-only file system): set FEDSYNTH_HOME to a "
        "folder of yours, where results then go.\n"
    )


def test_a_folder_that_may_not_be_written_is_noticed_before_the_run(home, monkeypatch, capsys):
    write(home, "00_a", "x = 1")
    monkeypatch.setattr(runner.os, "access", lambda path, _: Path(path).name != "figures")
    assert runner.main([]) == 2
    assert f"{home} cannot be written to (Permission denied)" in capsys.readouterr().err


def test_what_cannot_be_put_in_place_is_one_sentence_and_leaves_nothing(home, tmp_path):
    (home / "file").touch()
    with pytest.raises(BadInput, match=f"^{home}/file/x.csv cannot be written .*: choose another"):
        write_atomically(home / "file" / "x.csv", b"1")
    (home / "folder").mkdir()
    with pytest.raises(BadInput):
        write_atomically(home / "folder", b"1")
    assert sorted(path.name for path in home.iterdir()) == ["file", "folder"]


def test_a_project_that_may_not_be_written_to_has_its_own_remedy(home):
    for number in (errno.EROFS, errno.EACCES):
        said = unwritable(home / "data" / "x.csv", OSError(number, "Read-only file system"))
        assert said.startswith(f"{home} cannot be written to (Read-only file system): set FEDSYNTH")


def test_a_folder_outside_of_the_project_has_another_remedy(home):
    said = unwritable(home.parent / "out", OSError(errno.ENOSPC, "No space left on device"))
    assert said.startswith(f"{home.parent}/out cannot be written (No space left on device): choose")


def test_the_longest_name_of_a_file_can_be_written(home):
    write_atomically(home / ("x" * 255), b"1")
    assert (home / ("x" * 255)).read_bytes() == b"1"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["runner", "command"])
def test_a_new_home_gets_notebooks_and_data_of_the_checkout(way, tmp_path, monkeypatch):
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    write(checkout_of(checkout), "00_a", "from pathlib import Path", "Path('made').touch()")
    for folder in (checkout / "data" / "ledger", checkout / "data" / "results" / "quick-own"):
        folder.mkdir(parents=True)
        (folder / "people.jsonl").write_text("of the checkout", encoding="utf-8")
    before = sorted(checkout.rglob("*"))
    monkeypatch.setattr(runner, "CODE", checkout)
    monkeypatch.setenv("FEDSYNTH_HOME", os.path.relpath(home))  # kernels run elsewhere
    main, arguments = (runner.main, []) if way == "runner" else (commands.main, ["run"])
    assert main([*arguments, "--list"]) == 0 and not home.exists()
    (home / "data" / "ledger").mkdir(parents=True)  # of a release before the first run
    (home / "data" / "ledger" / "people.jsonl").write_text("of the home", encoding="utf-8")
    assert main(arguments) == 0
    assert (home / "notebooks" / "made").exists()
    assert (home / "data" / "results" / "rows.csv").read_text(encoding="utf-8") == "a\n"
    assert not (home / "data" / "raw").exists()
    assert (home / "data" / "ledger" / "people.jsonl").read_text(encoding="utf-8") == "of the home"
    assert not (home / "data" / "results" / "quick-own").exists()
    assert sorted(checkout.rglob("*")) == before
    shutil.rmtree(home / "data" / "results")  # it is furnished once
    assert main(arguments) == 0 and not (home / "data" / "results").exists()


@pytest.mark.parametrize("trouble", ["full disk", "kill", "kill among notebooks"])
def test_a_first_run_that_is_interrupted_is_completed_by_the_next(
    trouble, tmp_path, monkeypatch, capsys
):
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    write(checkout_of(checkout), "00_a", "from pathlib import Path", "Path('made').touch()")
    write(checkout, "01_b", "x = 1")
    monkeypatch.setattr(runner, "CODE", checkout)
    monkeypatch.setenv("FEDSYNTH_HOME", str(home))
    left = 3 if trouble == "kill among notebooks" else 1

    def interrupted(path, content):
        nonlocal left
        left -= 1
        if left < 0:
            if trouble == "full disk":
                raise BadInput(unwritable(path, OSError(errno.ENOSPC, "No space left on device")))
            raise KeyboardInterrupt
        write_atomically(path, content)

    monkeypatch.setattr(runner, "write_atomically", interrupted)
    assert runner.main([]) == (2 if trouble == "full disk" else 130)
    if trouble == "full disk":
        assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert not (home / "notebooks").exists()
    monkeypatch.setattr(runner, "write_atomically", write_atomically)
    assert runner.main([]) == 0
    assert (home / "data" / "results" / "rows.csv").read_text(encoding="utf-8") == "a\n"
    assert sorted(path.name for path in (home / "notebooks").glob("*.ipynb")) == [
        "00_a.ipynb",
        "01_b.ipynb",
    ]
    assert not list(home.glob(".notebooks*"))


def checkout_of(folder: Path) -> Path:
    for name in ("published", "results", "raw"):
        (folder / "data" / name).mkdir(parents=True)
        (folder / "data" / name / "rows.csv").write_text("a\n", encoding="utf-8")
    return folder


def test_the_checkout_is_the_home_where_none_is_set(monkeypatch):
    monkeypatch.delenv("FEDSYNTH_HOME", raising=False)
    assert store.project_root() == Path(__file__).resolve().parents[1]
