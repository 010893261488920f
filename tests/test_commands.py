"""The command line: what its commands do, and what they say to what cannot be."""

import os
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pandas as pd
import pytest

from fedsynth_lib.bundle import commands, doctor
from fedsynth_lib.core.measured import COMMITTED, digest_of
from fedsynth_lib.methods import METHODS
from fedsynth_lib.release import your_table
from fedsynth_lib.release.deploy import commands as deploy
from fedsynth_lib.release.draft import draft_path
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
    for name in (
        "run",
        "verify",
        "draft",
        "synth",
        "sample",
        "audit",
        "ledger",
        "report",
        "site",
        "doctor",
        "bench",
    ):
        assert f"\n  {name} " in listed
        if name != "run":
            assert commands.main([name, "--help"]) == 0
    assert "..." not in listed.partition("Commands:")[2] and deploy.app.info.help in " ".join(
        listed.split()
    )
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):  # of the runner itself
        commands.main(["run", "--help"])
    assert "--profile" in capsys.readouterr().out


def test_help_and_remedies_name_the_program_as_it_was_called(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDSYNTH_TYPED", "./run_all.sh")
    assert commands.main(["deploy", "--help"]) == 0
    said = capsys.readouterr().out
    assert "./run_all.sh deploy keys OWN" in said and "fedsynth" not in said
    assert commands.main(["deploy", "show", "--study", str(tmp_path)]) == 2
    assert "`./run_all.sh deploy init` writes one" in capsys.readouterr().err
    monkeypatch.delenv("FEDSYNTH_TYPED")
    assert commands.main(["deploy", "--help"]) == 0
    assert "fedsynth deploy keys OWN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verfy"], "No such command 'verfy'"),
        (["verify"], "Missing argument 'MINUTES'"),
        (["verify", "0"], "give more than 0"),
        (["run", "--profile", "huge"], "--profile"),
        (["synth", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["synth", "nowhere.csv", "--seed", "4294967296"], "from 0 to 4294967295"),
        (["draft", "nowhere.csv"], "nowhere.csv: there is no such file"),
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
    assert draft_path(people).is_file()
    assert not (people.parent / "data" / "results").exists()


def test_a_draft_prints_where_it_is_and_what_it_asks(people, capsys):
    frame = pd.read_csv(people)
    ill = (["no", "yes", "no"] * 67)[:200]  # does not follow from the age
    frame.assign(nr=range(1, 201), day=20240101, ill=ill).to_csv(people, index=False)
    arguments = ["draft", str(people), "--target", "ill", "--ignore", "day"]
    assert commands.main([*arguments, "--out", str(people.parent / "first.toml")]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == str(people.parent / "first.toml")
    assert said.out.splitlines()[1].startswith("nr: The numbers count the rows")
    assert len(said.out.splitlines()) == 2 and "1 question: correct" in said.err
    assert 'name = "day"\nignore = true' in (people.parent / "first.toml").read_text()
    assert commands.main(arguments) == 0 and draft_path(people).is_file()
    assert not people.with_suffix(".toml").exists()  # a draft is no schema until somebody says so
    assert commands.main(arguments) == 2
    assert "exists already" in capsys.readouterr().err


SYNTH = ["--method", "independent", "--epsilon", "1", "--clients", "2"]
RELEASE = ["--release", "--declared-rows", "200"]  # a noisy count may be too small


@pytest.fixture
def declared(people) -> Path:
    people.with_suffix(".toml").write_text(Form.of(PEOPLE).to_toml())
    return people


@pytest.mark.slow
def test_a_rehearsal_and_a_release_of_a_table(declared, tmp_path, capsys):
    asked = ["synth", str(declared), *SYNTH]
    assert commands.main([*asked, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "do not hand this on" in said.out and "fedsynth: reads" in said.err
    rows = pd.read_csv(tmp_path / "out" / "people_rehearsal.csv")
    assert list(rows) == ["age", "ill"] and rows["age"].between(18, 90).all()
    internal = sorted(path.name for path in (tmp_path / "out" / "internal").iterdir())
    assert {"people_rehearsal_internal_scores.csv", "people_rehearsal_internal_scores.md"} < set(
        internal
    )
    assert {"people_rehearsal_internal_columns.png", "people_rehearsal_internal_pairs.png"} < set(
        internal
    )
    assert all(str(tmp_path / "out" / "internal" / name) in said.out for name in internal)
    asked += ["--no-scores", *RELEASE]
    assert commands.main([*asked, "--curator", "a clinic"]) == 0
    said = capsys.readouterr().out
    assert "\nfit to hand on\nopen first: " in said and "people_release1.csv" in said
    assert "people_release1_privacy.html, on what these rows promise; then `fedsynth check" in said
    assert commands.main(["ledger"]) == 0
    assert "people: 1 releases, epsilon 1" in capsys.readouterr().out
    assert commands.main(asked) == 2
    assert "these rows were released once before" in capsys.readouterr().err
    assert commands.main([*asked, "--again", "--most-epsilon", "1.5"]) == 2  # it would be 2
    assert "would exceed 1.5" in capsys.readouterr().err
    assert commands.main([*asked, "--again"]) == 0
    assert "people_release2.csv" in capsys.readouterr().out


@pytest.mark.slow
def test_scores_that_fail_lose_nothing(declared, tmp_path, capsys, monkeypatch):
    def fails(*args, **options):
        raise ValueError("only one class\nand more")

    monkeypatch.setattr(your_table, "scores", fails)
    asked = ["synth", str(declared), *SYNTH, *RELEASE, "--out", str(tmp_path)]
    assert commands.main(asked) == 1
    said = capsys.readouterr()
    assert "fit to hand on" in said.out
    assert "no scores (ValueError: only one class); what may be handed on is" in said.err
    assert "Traceback" not in said.err
    assert "people_release1_internal_pairs.png" in said.out  # one without the other
    for end in (".csv", "_privacy.md", "_privacy.html", "_privacy.json"):
        assert (tmp_path / f"people_release1{end}").is_file()


@pytest.mark.slow
def test_a_release_with_few_positives_is_handed_on(people, tmp_path, capsys):
    """None of them is set aside, so no classifier can be judged."""
    frame = pd.read_csv(people).assign(ill=["yes"] * 2 + ["no"] * 198)
    frame.to_csv(people, index=False)
    people.with_suffix(".toml").write_text(Form.of(PEOPLE).to_toml())
    commands.main(["synth", str(people), *SYNTH, *RELEASE, "--out", str(tmp_path)])
    assert "fit to hand on" in capsys.readouterr().out
    assert (tmp_path / "people_release1.csv").is_file()


def test_sites_are_named_by_a_column(declared, tmp_path, capsys):
    asked = ["synth", str(declared), "--no-scores", "--out", str(tmp_path), *SYNTH[:-2]]
    assert (
        commands.main([*asked, "--sites", "ill", "--declared-rows", "100", "--declared-rows", "90"])
        == 0
    )
    assert "2 clients" in capsys.readouterr().err
    assert len(pd.read_csv(tmp_path / "people_rehearsal.csv")) == 152
    assert commands.main([*asked, "--sites", "ill", "--clients", "2"]) == 2
    assert "give one of the two" in capsys.readouterr().err


@pytest.mark.slow
def test_it_works_from_an_installed_package_and_writes_where_the_user_stands(people, tmp_path):
    """A copy among other packages, as pip makes one: no checkout around it, and none needed."""
    site, here, home = tmp_path / "site", tmp_path / "here", tmp_path / "home"
    shutil.copytree(ROOT / "fedsynth_lib", site / "fedsynth_lib")
    lines = pd.read_csv(COMMITTED, dtype={"digest": str}, keep_default_na=False)
    of_now = lines.assign(digest=digest_of(METHODS["independent"]))  # whatever was changed since
    of_now.to_csv(site / "fedsynth_lib" / "core" / COMMITTED.name, index=False)
    here.mkdir()
    people.rename(here / "people.csv")
    (here / "people.toml").write_text(Form.of(PEOPLE).to_toml())
    kept = {name: value for name, value in os.environ.items() if name[:8] != "FEDSYNTH"}
    env = kept | {"PYTHONPATH": str(site), "HOME": str(home), "XDG_DATA_HOME": ""}
    arguments = ["synth", "people.csv", *SYNTH, *RELEASE, "--no-scores"]
    command = [sys.executable, "-P", "-m", "fedsynth_lib"]
    made = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=here, env=env)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[0] == str(here / "people_release1.csv")
    # what was measured of the method is said as in a checkout: its table is installed, too
    own = lines[(lines["method"] == "independent") & (lines["clients"] == 1)].iloc[0]
    lower = f"proves {own['lower']:.3g} at"
    assert lower in (here / "people_release1_privacy.md").read_text(encoding="utf-8")
    books = home / ".local" / "share" / "fedsynth" / "data" / "ledger"
    assert (books / "people.jsonl").is_file() and (books / "register" / "key").is_file()
    assert not (site / "data").exists()
    (here / "people.csv").rename(here / "others.csv")
    (here / "people.toml").rename(here / "others.toml")
    env |= {"XDG_DATA_HOME": str(home / ".local" / "share")}
    arguments[1] = "others.csv"
    made = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=here, env=env)
    assert made.returncode == 2 and "these rows were released once before" in made.stderr


def test_whatever_the_package_reads_is_installed_with_it():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = [
        f"{package.replace('.', '/')}/{name}"
        for package, names in listed["tool"]["setuptools"]["package-data"].items()
        for name in names
    ]
    tracked = subprocess.run(
        ["git", "ls-files", "fedsynth_lib"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    data = [name for name in tracked.stdout.split() if not name.endswith(".py")]
    assert [name for name in data if not any(fnmatch(name, p) for p in patterns)] == []
    assert "fedsynth_lib/core/audit.csv" in data


def test_results_of_a_checkout_are_where_nothing_is_committed(declared, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "tests")
    assert commands.main(["synth", str(declared), *SYNTH, "--no-scores"]) == 0
    assert (tmp_path / "data" / "results" / "quick-own" / "people_rehearsal.csv").is_file()
    monkeypatch.chdir(tmp_path)
    assert commands.main(["synth", "people.csv", *SYNTH, "--no-scores"]) == 0
    assert (tmp_path / "people_rehearsal.csv").is_file()


@pytest.mark.slow
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
    options = ["--method", "independent", "--no-scores", "--out", str(tmp_path / "out")]
    asked = ["synth", *options, "--", name]
    assert commands.main(asked) == 2  # there is a draft now
    assert draft_path(path).is_file()
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
