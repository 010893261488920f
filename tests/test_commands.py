"""The command line: what its commands do, and what they say to what cannot be."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fedsynth_lib.bundle import commands, doctor
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import Column, Schema

ROOT = Path(__file__).resolve().parents[1]
PEOPLE = Schema(
    (
        Column("age", "numeric", 18, 90, True, source="declared"),
        Column("ill", "categorical", categories=("no", "yes"), source="declared"),
    ),
    "ill",
)


@pytest.fixture
def people(tmp_path, monkeypatch) -> Path:
    """A file of 200 people in a project of its own, without a schema."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    path = tmp_path / "people.csv"
    frame = pd.DataFrame({"age": [18 + number % 70 for number in range(200)]})
    frame.assign(ill=["no", "yes"] * 100).to_csv(path, index=False)
    return path


def test_every_command_is_listed_with_what_it_does(capsys):
    assert commands.main(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in ("run", "verify", "synth", "audit", "ledger", "report", "doctor", "bench"):
        assert f"\n  {name} " in listed
        if name != "run":
            assert commands.main([name, "--help"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):  # of the runner itself
        commands.main(["run", "--help"])
    assert "--profile" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verfy"], "No such command 'verfy'"),
        (["verify"], "Missing argument 'MINUTES'"),
        (["verify", "0"], "give more than 0"),
        (["run", "--profile", "huge"], "--profile"),
        (["synth", "nowhere.csv"], "nowhere.csv"),
        (["audit", "--methods", "ctgan"], "adds no noise"),
        (["ledger", "../x"], "give a name of letters"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(arguments, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    if arguments[0] == "run":
        monkeypatch.setenv("FEDSYNTH_HOME", str(ROOT))
    assert commands.main(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_table_without_a_schema_gets_a_draft_and_no_rows(people, capsys):
    assert commands.main(["synth", str(people), "--target", "ill"]) == 2
    assert "correct" in capsys.readouterr().err
    assert people.with_suffix(".draft.toml").is_file()
    assert not (people.parent / "data" / "results").exists()


def test_a_rehearsal_and_a_release_of_a_table(people, tmp_path, capsys):
    people.with_suffix(".toml").write_text(Form.of(PEOPLE).to_toml())
    asked = ["synth", str(people), "--method", "independent", "--epsilon", "1", "--clients", "2"]
    assert commands.main([*asked, "--out", str(tmp_path / "out")]) == 0
    assert "do not hand this on" in capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "out" / "people_rehearsal.csv")
    assert list(rows) == ["age", "ill"] and rows["age"].between(18, 90).all()
    assert commands.main([*asked, "--release", "--curator", "a clinic"]) == 0
    said = capsys.readouterr().out
    assert "fit to hand on" in said and "people_release1.csv" in said
    assert commands.main(["ledger"]) == 0
    assert "people: 1 releases, epsilon 1" in capsys.readouterr().out
    assert commands.main([*asked, "--release", "--most-epsilon", "1.5"]) == 2  # it would be 2


def test_the_module_is_the_command():
    command = [sys.executable, "-P", "-m", "fedsynth_lib", "ledger", "nobody"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert said.stdout == "nobody: 0 releases, epsilon 0, delta 0\n"


def test_the_status_is_what_the_function_says(monkeypatch):
    monkeypatch.setattr(doctor, "main", lambda: 1)
    assert commands.main(["doctor"]) == 1
    monkeypatch.setattr(doctor, "main", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert commands.main(["doctor"]) == 130


ODD_NAMES = (
    *("-dash.csv", "100%.csv", "with#hash.csv", "[1].csv", "two  spaces .csv", "über maß.csv"),
    *("$HOME.csv", "it's.csv", "a,b.csv", "a.b.c.csv", "A=B.csv", ".hidden.csv", "release.csv"),
    *("table.toml.csv", "csv", "x" * 200 + ".csv"),
)


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: name[:20])
def test_a_table_may_be_named_as_files_may_be(name, people, tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = people.rename(tmp_path / "here" / name)
    asked = ["synth", "--method", "independent", "--out", str(tmp_path / "out"), "--", name]
    assert commands.main(asked) == 2  # there is a draft now
    assert path.with_suffix(".draft.toml").is_file()
    path.with_suffix(".toml").write_text(Form.of(PEOPLE).to_toml(), encoding="utf-8")
    assert load_table(path, schema=path.with_suffix(".toml")).key == path.stem
    assert commands.main(asked) == 0
    made = {each.name.removeprefix(path.stem) for each in (tmp_path / "out").iterdir()}
    assert "_rehearsal_privacy.md" in made and len(made) == 4
    assert str(tmp_path / "out" / path.stem) in capsys.readouterr().out


def test_a_file_that_looks_like_an_option_gets_the_remedy(people, monkeypatch, capsys):
    monkeypatch.chdir(people.parent)
    people.rename(people.parent / "-dash.csv")
    assert commands.main(["synth", "-dash.csv"]) == 2
    assert "write ./-dash.csv for it" in capsys.readouterr().err
