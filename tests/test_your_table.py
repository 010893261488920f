"""A table of someone's own: the mistakes of its file, and the way from the file to what is handed
on."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from fedsynth_lib.bundle import commands
from fedsynth_lib.core import ledger
from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.core.ledger import Refused
from fedsynth_lib.core.statement import statement_text
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.release import fitting, private_config
from fedsynth_lib.metrics import scores as measured
from fedsynth_lib.release import your_table
from fedsynth_lib.release.draft import draft_path, propose_schema
from fedsynth_lib.tables.form import Form, read_form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import READ_FROM_ROWS, Column, Schema

ROOT = Path(__file__).resolve().parents[1]
ROWS = 300
DAYS = pd.date_range("2024-01-01", periods=ROWS)
SCHEMA = Schema(
    (
        Column("age", "numeric", 0, 120, True, source="code book"),
        Column("dose", "numeric", -5, 20, source="code book"),
        Column("sex", "categorical", categories=("f", "m"), source="code book"),
        Column("ill", "categorical", categories=("no", "yes"), source="code book"),
    ),
    "ill",
)


def patients(**columns):
    rng = np.random.default_rng(0)
    frame = {"age": rng.integers(20, 90, ROWS), "dose": rng.normal(3, 1, ROWS).round(2)}
    frame |= {"sex": rng.choice(["f", "m"], ROWS), "ill": rng.choice(["no", "yes"], ROWS)}
    return pd.DataFrame(frame | columns)


def alternate(*values):
    return np.resize(np.array(values, dtype=object), ROWS)


# --- from the file to what is handed on ----------------------------------------------------------


@pytest.fixture
def file(home):
    path = home / "ward.csv"
    site = alternate("A", "A", "B", "C")
    patients(site=site, id=np.arange(ROWS)).to_csv(path, index=False)
    declared = Schema(
        (*SCHEMA.columns, Column("site", "categorical", categories=("A", "B", "C"))), "ill"
    )
    path.with_suffix(".toml").write_text(Form.of(declared).to_toml())
    return path


@pytest.fixture
def ward(file):
    """The file with a schema that says of each of its columns what it is."""
    said = file.with_suffix(".toml").read_text()
    file.with_suffix(".toml").write_text(said + '\n[[column]]\nname = "id"\nignore = true\n')
    return file


ASKED = {"method": "independent", "epsilon": 1.0, "delta": 1e-6}


RELEASE = {**ASKED, "release": True, "declared_rows": ROWS}  # a noisy count may come out as none


def released(path, **options):
    return your_table.synthesize(path, **RELEASE | options)


def register_lines(home):
    path = home / "data" / "ledger" / "register" / "releases.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_file_becomes_rows_to_hand_on_and_a_statement(ward, home):
    about = {"curator": "Clinic <A>", "purpose": "teaching"}
    options = {"method": "aim", "epsilon": 2.0, "site": "site", "profile": "smoke"}
    made = released(ward, **options, declared_rows=(), about=about)
    assert len(made.train) + len(made.holdout) == ROWS and len(made.sizes) == 3
    sites = [set(made.train.frame["site"].iloc[part]) for part in made.asked.parts]
    assert sites == [{"A"}, {"B"}, {"C"}]
    assert made.run.statement["epsilon"] == pytest.approx(2.0)
    assert made.run.statement["entries"][0]["what"] == "number of rows"
    assert {path.parent for path in made.paths.values()} == {home / "data/results/smoke-own"}
    assert made.paths["rows"].name == "ward_release1.csv" and made.verdict == "fit to hand on"
    again = load_table(made.paths["rows"], schema=ward.with_suffix(".toml"))
    assert len(again) == sum(made.sizes) and again.schema == made.table.schema
    assert made.paths["statement"].read_text() == made.text
    assert (
        f"# Privacy statement: {sum(made.sizes)} synthetic rows in ward_release1.csv" in made.text
    )
    assert "**epsilon = 2, delta = 1e-06.**" in made.text and "7.39 times" in made.text  # e^2
    assert "The noise is secret" in made.text and "as it was counted with noise" in made.text
    page = made.paths["page"].read_text()
    assert "Clinic &lt;A&gt;" in page and "1, with epsilon 2 and delta 1e-06 together" in page
    assert json.loads(made.paths["record"].read_text())["tier"] == 3
    book = ledger.open_ledger("ward", most_epsilon=3.0)
    assert book.total() == ledger.Total(1, made.run.statement["epsilon"], 1e-6)
    with pytest.raises(BadInput, match=r"'ward': 1 releases have spent epsilon 2, and 2 more"):
        released(ward, epsilon=2.0, again=True)
    assert len(list(made.paths["rows"].parent.iterdir())) == 4


# --- a release happens once ----------------------------------------------------------------------


def disguised(ward, to):
    """Another order of rows and columns, another name, semicolons, and 2.5000 for 2.5."""
    frame = pd.read_csv(ward).sample(frac=1, random_state=3)
    frame["dose"] = frame["dose"].map("{:.4f}".format)
    names = ["id", "ill", "site", "sex", "dose", "age"]
    frame[names].rename(columns={"age": "years"}).to_csv(to, index=False, sep=";")
    schema = ward.with_suffix(".toml").read_text().replace('"age"', '"years"')
    to.with_suffix(".toml").write_text(schema)


def fewer_columns_declared(ward, to):
    to.write_bytes(ward.read_bytes())
    schema = Schema(SCHEMA.columns[:3], None)
    rest = "".join(f'\n[[column]]\nname = "{n}"\nignore = true\n' for n in ("ill", "site", "id"))
    to.with_suffix(".toml").write_text(Form.of(schema).to_toml() + rest)


def of_parquet(ward, to):
    frame = pd.read_csv(ward).sample(frac=1, random_state=1)
    frame.astype({"sex": "category"}).to_parquet(to, index=False)


@pytest.mark.parametrize("copy", [disguised, fewer_columns_declared, of_parquet])
def test_the_same_rows_are_refused_whatever_they_are_called(ward, home, copy):
    first = released(ward, profile="smoke")
    other = home / "elsewhere" / f"people.{'parquet' if copy is of_parquet else 'csv'}"
    other.parent.mkdir()
    other.with_suffix(".toml").write_text(ward.with_suffix(".toml").read_text())
    copy(ward, other)
    options = {"profile": "paper", "population": "others"}
    with pytest.raises(Refused, match=r"people: these rows were released once before") as refused:
        your_table.prepare(other, **ASKED, release=True, **options)
    assert "epsilon 2" in str(refused.value) and "again=True (--again)" in str(refused.value)
    assert not (home / "data" / "results" / "paper-own").exists()
    assert ledger.open_ledger("others").total().releases == 0
    assert first.total == ledger.Total(1, first.run.statement["epsilon"], 1e-6)


def test_other_rows_are_other_people_as_far_as_the_register_knows(ward):
    """A row less is not noticed: what it says of itself, and the ledger is for."""
    released(ward)
    lines = ward.read_text().splitlines(keepends=True)
    ward.write_text("".join(lines[:-1]))
    assert released(ward).total.releases == 1
    assert ledger.open_ledger("ward").total().releases == 2


def test_what_is_released_again_is_added_up_in_all_that_is_handed_on(ward, home):
    released(ward)
    again = released(ward, again=True, population="other", out=home / "there")
    together = "one of 2 releases of the same rows: together they have epsilon = 2, delta = 2e-06"
    assert together in again.text and together in again.paths["page"].read_text()
    assert together in again.paths["record"].read_text()
    assert "2, with epsilon 2 and delta 2e-06 together" in again.paths["page"].read_text()
    assert again.total.releases == 2 and again.verdict == "fit to hand on"
    weak = released(ward, again=True, population="other", epsilon=9.0, most_epsilon=10.5)
    assert "epsilon 11" in weak.verdict and "promises nothing useful" in weak.verdict
    assert "promises nothing useful" in weak.text


def test_the_entry_is_there_before_noise_is_drawn(ward, home, monkeypatch):
    seen = []

    def stopped(*args, **options):
        seen.extend(register_lines(home))
        raise KeyboardInterrupt

    monkeypatch.setattr(your_table, "declared_sizes", stopped)
    with pytest.raises(KeyboardInterrupt):
        released(ward)
    assert [line["epsilon"] for line in seen] == [1.0]
    monkeypatch.undo()
    monkeypatch.setenv("FEDSYNTH_HOME", str(home))
    with pytest.raises(Refused, match=r"a release of these rows was begun at 20.* has not ended"):
        released(ward)
    assert ledger.open_ledger("ward").total() == ledger.Total(1, 1.0, 1e-6)  # it may have been paid
    assert released(ward, again=True).total.epsilon == pytest.approx(2.0)


def test_a_setting_that_cannot_be_costs_no_release(ward, home):
    with pytest.raises(BadInput, match="delta"):
        released(ward, method="aim", delta=0.0, declared_rows=ROWS)
    assert ledger.open_ledger("ward").total() == ledger.Total(0, 0, 0)
    assert released(ward).total.releases == 1


def test_too_few_rows_by_the_noisy_count_cost_that_count_alone(ward, home, monkeypatch):
    def none_left(scale, shares, shape, *, rng):
        return np.full(shape, -round(0.8 * ROWS))

    monkeypatch.setattr(your_table, "discrete_laplace_share", none_left)
    with pytest.raises(BadInput, match=r"ward: .* give or take 50: too few .* cost epsilon 0\.02"):
        released(ward, declared_rows=())
    assert ledger.open_ledger("ward").total() == ledger.Total(1, 0.02, 0.0)
    assert not [path for path in (home / "data" / "results").rglob("*") if path.is_file()]
    assert released(ward, again=True).total.epsilon == pytest.approx(1.02)


def test_the_register_keeps_no_plain_digest(ward, home):
    """Whoever has a row cannot look it up without the key, which differs from machine to machine."""
    released(ward)
    (line, _) = register_lines(home)
    (home / "data" / "ledger").rename(home / "gone")
    released(ward)
    assert register_lines(home)[0]["keyed"] != line["keyed"]
    assert (home / "gone" / "register" / "key").stat().st_mode & 0o077 == 0
    kept = "".join(
        path.read_text() for path in (home / "data" / "results").rglob("*") if path.is_file()
    )
    assert line["keyed"] not in kept


def test_two_releases_never_take_each_others_place(ward, home):
    """Paths are chosen before the run; another release may be written meanwhile."""
    asked = [your_table.prepare(ward, **RELEASE, again=True, out=home) for _ in range(2)]
    made = [your_table.carry_out(each) for each in asked]
    assert [each.paths["rows"].name for each in made] == ["ward_release1.csv", "ward_release2.csv"]
    assert "in ward_release2.csv" in made[1].paths["statement"].read_text()
    assert len(list(home.glob("ward_release*"))) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 1 / 300, "declared_rows": 300}, r"as 300 rows were declared"),
        ({"delta": 0.9, "declared_rows": [300]}, r"delta is 0.9, .* give one far below 0.0033"),
        ({"epsilon": 3.5}, r"0 releases have spent epsilon 0, and 3.5 more would exceed 3"),
        ({"seed": 2**32}, r"seed is 4294967296: give a whole number from 0 to 4294967295"),
    ],
)
def test_a_release_is_refused_before_it_is_begun(ward, home, options, message):
    with pytest.raises(BadInput, match=message):
        released(ward, **options)
    assert register_lines(home) == [] and not (home / "data" / "results").exists()


def test_a_delta_is_judged_by_rows_that_were_counted_with_noise(ward):
    """The true number is never asked: the count is paid for, and the rows may be released yet."""
    with pytest.raises(Refused, match=r"rows were counted with noise. Counting .* epsilon 0.02"):
        released(ward, delta=0.5, declared_rows=())
    assert ledger.open_ledger("ward").total().epsilon == pytest.approx(0.02)
    made = released(ward)
    assert made.total.releases == 1 and made.total.epsilon == pytest.approx(1.02)


def test_an_epsilon_beyond_use_is_called_so(ward):
    made = released(ward, epsilon=50.0, most_epsilon=100.0)
    assert "An epsilon above 10 promises nothing useful" in made.text
    page = made.paths["page"].read_text()
    assert "promises nothing useful" in page and "box bad" in page
    assert "times as likely" not in made.text + page and "e+21" not in made.text + page
    assert made.verdict.startswith("released at epsilon 50, which promises nothing useful")
    rehearsed = your_table.synthesize(ward, **ASKED | {"epsilon": 1000.0})
    assert "inf times" not in rehearsed.text and rehearsed.verdict.startswith("a rehearsal")


def test_a_column_that_nobody_mentions_blocks_a_release(file):
    with pytest.raises(BadInput, match=r"does not say what 'id' is; .* ignore = true"):
        released(file)
    assert "id" not in your_table.synthesize(file, **ASKED).run.synthetic


def test_an_open_question_blocks_a_release_and_a_rehearsal_says_so(ward):
    text = ward.with_suffix(".toml").read_text()
    question = '[[column]]\nquestion = "Is it?"'
    ward.with_suffix(".toml").write_text(text.replace("[[column]]", question, 1))
    with pytest.raises(BadInput, match="the draft asks about age"):
        released(ward)
    told = []
    your_table.synthesize(ward, **ASKED, say=told.append)
    (line,) = [line for line in told if "still open" in line]
    assert line.startswith("the draft's questions about age are still open: ")


def test_a_folder_that_cannot_be_written_is_found_before_noise_is_paid_for(ward, home):
    (home / "taken").write_text("a file")
    with pytest.raises(BadInput, match=r"out: .*taken.*ward_release1.* cannot be written"):
        released(ward, out=home / "taken")
    assert register_lines(home) == []
    shutil.rmtree(home / "data")
    (home / "data").write_text("a file")
    with pytest.raises(BadInput, match=r"ledger.* cannot be written \(.*\): choose"):
        released(ward, out=home / "there")
    assert not (home / "there").exists()


def test_a_constant_that_was_read_from_the_rows_blocks_a_release(ward):
    """No method sees it, and yet it stands in every synthetic row."""
    patients(site="A", hospital="St. Mary", id=np.arange(ROWS)).to_csv(ward, index=False)
    said = ward.with_suffix(".toml").read_text()
    constant = '[[column]]\nname = "hospital"\nkind = "constant"\nvalue = "St. Mary"\n'
    ward.with_suffix(".toml").write_text(f'{said}\n{constant}source = "{READ_FROM_ROWS}"\n')
    with pytest.raises(BadInput, match="ward: hospital are read from the rows"):
        released(ward)
    ward.with_suffix(".toml").write_text(f"{said}\n{constant}")
    assert set(pd.read_csv(released(ward).paths["rows"])["hospital"]) == {"St. Mary"}


# --- parameters and paths ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "sex"}, r"target is 'sex' and the target in ward.toml is 'ill'"),
        ({"ignore": ["dose"]}, r"ignore names 'dose', which is declared in ward.toml"),
        ({"ignore": 1}, r"ignore names '1', which is no column of the file"),
        ({"ignore": [1.5]}, r"ignore names 1.5; give names of columns"),
        ({"site": "site", "num_clients": 3}, r"num_clients is 3 and site is 'site'"),
        ({"site": "site", "declared_rows": [300]}, r"give those of each of the 3 sites"),
        ({"declared_rows": ["many"]}, r"declared_rows is \['many'\]: give one number"),
        ({"num_clients": -1}, r"num_clients is -1: give a whole number of at least 1"),
        ({"seed": -1}, r"seed is -1: give a whole number"),
        ({"seed": 1.5}, r"seed is 1.5: give a whole number"),
    ],
)
def test_a_parameter_without_effect_is_refused(ward, home, options, message):
    with pytest.raises(BadInput, match=message):
        your_table.synthesize(ward, **ASKED | options)
    assert not (home / "data" / "results").exists()


def test_parameters_that_agree_with_the_schema_are_no_mistake(ward):
    options = {"target": "ill", "ignore": "id", "seed": 2**32 - 1, "declared_rows": ROWS}
    made = your_table.synthesize(ward, **ASKED | options)
    assert made.sizes == [240]


def test_ignoring_one_column_needs_no_list(home):
    patients(**{"1": np.arange(ROWS) + 1}).to_csv(home / "own.csv", index=False)
    with pytest.raises(BadInput, match=r"correct .*own.draft\.toml"):
        your_table.synthesize(home / "own.csv", **ASKED, ignore=1, target="ill")
    assert read_form(draft_path(home / "own.csv")).ignored == ("1",)


@pytest.mark.slow
def test_the_largest_seed_passes_through_everything(ward):
    made = your_table.synthesize(ward, **ASKED | {"seed": 2**32 - 1}, site="site")
    your_table.write_scores(made)
    for setting in (settings.federated, settings.local):
        with pytest.raises(BadInput, match="seed is 4294967296"):
            setting(METHODS["independent"], made.train, made.asked.parts, seed=2**32)
    with pytest.raises(BadInput, match="seed is 4294967296"):
        load_table(ward, schema=ward.with_suffix(".toml"), rows=5, seed=2**32)


def test_paths_are_meant_from_where_the_user_stands(ward, home, monkeypatch):
    deep = home / "deep" / "er"
    deep.mkdir(parents=True)
    (home / "schemas").mkdir()
    ward.with_suffix(".toml").rename(home / "schemas" / "said.toml")
    monkeypatch.chdir(deep)
    made = your_table.synthesize(
        "../../ward.csv", **ASKED, schema="../../schemas/said.toml", out="results"
    )
    assert (
        made.paths["rows"] == deep / "results" / "ward_rehearsal.csv"
        and (deep / "results" / "ward_rehearsal.csv").is_file()
    )
    monkeypatch.setenv("HOME", str(home))
    made = your_table.synthesize("~/ward.csv", **ASKED, schema="~/schemas/said.toml", out="~/out")
    assert (home / "out" / "ward_rehearsal.csv").is_file()
    own = deep / "mine.py"
    own.write_text((ROOT / "notebooks" / "your_method.py").read_text())
    assert your_table.method_of("mine.py").name == your_table.method_of("~/deep/er/mine.py").name
    assert len(load_table("~/ward.csv", schema="~/schemas/said.toml")) == ROWS
    assert propose_schema("~/ward.csv", out="~/d.toml") == home / "d.toml"


def test_the_schema_of_a_link_lies_beside_the_link(ward, home):
    (home / "links").mkdir()
    link = home / "links" / "people.csv"
    link.symlink_to(ward)
    with pytest.raises(BadInput, match=r"there is no people\.toml"):
        your_table.synthesize(link, **ASKED)
    assert draft_path(link).is_file()
    link.with_suffix(".toml").write_text(ward.with_suffix(".toml").read_text())
    assert your_table.synthesize(link, **ASKED).paths["rows"].name == "people_rehearsal.csv"


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("nothere.csv", {}, r"table: .*nothere.csv: there is no such file"),
        ("", {}, r"table: .*: this is a folder"),
        ("ward.csv", {"schema": "no.toml"}, r"schema: .*no.toml: there is no such file"),
        ("ward.csv", {"method": "no.py"}, r"no.py: there is no such Python file"),
    ],
)
def test_a_file_that_is_not_there_is_named(ward, home, table, options, message):
    options = {key: home / v if key == "schema" else v for key, v in options.items()}
    with pytest.raises(BadInput, match=message):
        your_table.synthesize(home / table, **ASKED | options)
    assert not list(home.rglob("*.draft.toml"))


def test_a_lesson_takes_a_table_by_an_absolute_path(ward, home):
    assert your_table.own(str(ward)).schema.target == "ill"
    ward.with_suffix(".toml").unlink()
    with pytest.raises(BadInput, match=r"no ward\.toml; correct .*ward\.draft\.toml, save it as"):
        your_table.own(str(ward))
    assert draft_path(ward).is_file()


@pytest.mark.slow
def test_what_is_made_of_real_rows_is_apart_and_for_its_owner_alone(ward, home):
    patients().to_csv(home / "my table (2).csv", index=False)
    (home / "my table (2).toml").write_text(Form.of(SCHEMA).to_toml())
    made = your_table.synthesize(home / "my table (2).csv", **ASKED, out=home / "out")
    paths = [path for write in your_table.EVALUATIONS.values() for path in write(made)]
    apart = home / "out" / "internal"
    assert set(apart.iterdir()) == set(paths)  # nothing is there that is not told
    assert {path for path in (home / "out").iterdir() if path.is_file()} == set(made.paths.values())
    drafted = your_table.draft(your_table.Files.of(home / "my table (2).csv"))
    for private in (apart, drafted.parent):
        assert private.name == "internal" and private.stat().st_mode & 0o777 == 0o700
        assert {each.stat().st_mode & 0o777 for each in private.iterdir()} == {0o600}
    elsewhere = your_table.draft(your_table.Files.of(ward), out=home / "first.toml")
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert all("internal" in path.name and path.is_file() for path in paths)
    assert [path.suffix for path in paths] == [
        *(".csv", ".md", ".tex"),
        *(".png", ".pdf") * 2,
    ]
    assert "not to be handed on" in paths[1].read_text()
    assert pd.read_csv(paths[0])["measure"].str.contains("Hellinger").any()


def test_a_draft_as_schema_takes_the_guarantee_away(file, home):
    draft = propose_schema(file, target="ill", ignore=["id"], out=home / "ward.draft.toml")
    text = draft.read_text()
    ages = 'low = 20\nhigh = 89\ninteger = true\nsource = "'
    assert ages + READ_FROM_ROWS in text
    # one of five is declared
    draft.write_text(text.replace(ages + READ_FROM_ROWS, ages + "code book"))
    table = load_table(file, schema=draft)
    assert table.schema.from_rows == ("dose", "sex", "ill", "site")
    with pytest.raises(
        BadInput,
        match="dose, sex, ill, site are read from the rows; declare them, or make a rehearsal",
    ):
        your_table.places(table, "smoke", release=True)
    with pytest.raises(
        BadInput, match="dose, sex, ill, site are read from the rows; declare them, or rehearse"
    ):
        settings.central(METHODS["independent"], table, privacy=Privacy(1.0, noise_seed=None))
    told = settings.central(METHODS["independent"], table, privacy=Privacy(1.0)).statement
    assert told["epsilon"] is None and told["epsilon_protected"] == pytest.approx(1.0)
    assert told["unprotected"] == ["ranges and categories read from the rows: dose, sex, ill, site"]
    text = statement_text(told, "a draft")
    assert "There is no guarantee for the release as a whole" in text and "epsilon = 1." in text
    assert "must not be released" in text  # the noise came from a seed
    json.dumps(told)


def test_sites_and_methods_are_checked(file):
    table = load_table(file, schema=file.with_suffix(".toml"))
    key = your_table.key_of(0, release=False)
    assert [len(part) for part in your_table.clients(table, 4, key=key)] == pytest.approx(
        [75] * 4, abs=30
    )
    with pytest.raises(BadInput, match=r"no column 'sight' .*did you mean 'site'"):
        your_table.clients(table, 2, site="sight", key=key)
    with pytest.raises(BadInput, match="site column 'age' is declared numeric"):
        your_table.clients(table, 2, site="age", key=key)
    wider = Schema(
        (
            *table.schema.columns[:-1],
            Column("site", "categorical", categories=("A", "B", "C", "D")),
        ),
        "ill",
    )
    wide = load_table(file, schema=wider)
    with pytest.raises(
        BadInput, match="site 'D' has no rows; declare the sites of 'site' that take part"
    ):
        your_table.clients(wide, 4, site="site", key=key)
    with pytest.raises(BadInput, match="300 rows cannot be shared among 301 clients"):
        your_table.clients(table, 301, key=key)
    with pytest.raises(BadInput, match=r"method 'aimm' is unknown \(did you mean 'aim'\?\)"):
        your_table.method_of("aimm")
    with pytest.raises(BadInput, match="method ctgan adds no noise"):
        private_config(METHODS["ctgan"])


ONE_NUMBER = Schema(  # of 64 values, so that private bins have nothing to do
    (
        Column("few", "numeric", low=1, high=64, integer=True),
        Column("code", "categorical", categories=tuple(f"c{k}" for k in range(100))),
    )
)


@pytest.mark.parametrize(
    ("key", "rows", "epsilon", "bins"),
    [
        ("aim", 600, 1.0, 16),
        ("aim", 1_999, 1.0, 16),
        ("aim", 2_000, 1.0, 32),
        ("aim", 600, 4.0, 32),
        ("fedbn", 600, 1.0, 16),
        ("fedpgm", 600, 1.0, 16),
        ("fedpgm_bins", 600, 1.0, "private"),  # which follow the noise by themselves
        ("dpvaebgm", 600, 1.0, None),
    ],
)
def test_few_rows_have_few_bins(key, rows, epsilon, bins):
    config = private_config(METHODS[key])
    assert getattr(fitting(config, ONE_NUMBER, rows, epsilon), "bins", None) == bins
    assert private_config(METHODS["aim"]).annealed


@pytest.mark.parametrize(
    ("key", "numbers", "rows", "bins"),
    [
        ("fedpgm", 1, 3_999, 32),
        ("fedpgm", 1, 4_000, "private"),
        ("fedpgm", 4, 7_999, 32),  # each number more is counted with more noise
        ("fedpgm", 4, 8_000, "private"),
        ("fedpgm", 0, 10**9, 32),
        ("aim", 4, 10**9, 32),  # nobody measured from where on they pay
    ],
)
def test_many_rows_have_private_bins(key, numbers, rows, bins):
    long = (Column(f"n{k}", "numeric", low=0, high=1000, integer=True) for k in range(numbers))
    schema = Schema((*ONE_NUMBER.columns, *long))
    config = private_config(METHODS[key])
    assert fitting(config, schema, rows / 2, 2.0).bins == bins
    assert fitting(replace(config, bins=8), schema, 100, 1.0).bins == 8


@pytest.mark.parametrize("declared", [(), (3_000,)])
def test_bins_follow_what_is_known_of_the_rows(ward, monkeypatch, declared):
    """300 rows in truth: what is declared decides, or a noisy count."""
    seen = []
    monkeypatch.setattr(
        your_table,
        "run",
        lambda *parts, config, **options: seen.append(config.bins) or 1 / 0,
    )
    asked = your_table.prepare(ward, **ASKED | {"method": "aim"}, declared_rows=declared)
    with pytest.raises(ZeroDivisionError):
        your_table.carry_out(asked)
    assert seen == [32 if declared else 16] and asked.config.bins == 32


def halves(file):
    table = load_table(file, schema=file.with_suffix(".toml"))
    return table.take(np.arange(150)), table.take(np.arange(150, 300))


@pytest.mark.slow
def test_scores_know_copies_and_constants(file, capsys, monkeypatch):
    """Copied rows are told at once; a single class teaches nothing."""
    train, holdout = halves(file)
    copied = your_table.scores(train, holdout, train.frame, seed=0)
    assert copied["synthetic"].iloc[:3].tolist() == [1, 1, 1]
    assert copied["synthetic"].iloc[3] > 0.95  # a row set aside may meet a condition, too
    assert copied["note"].iloc[:4].str.startswith("more than by chance").all()
    assert (copied["synthetic"] - copied["yardstick"] > copied["±"]).iloc[:4].all()
    assert copied["synthetic"].iloc[4:6].tolist() == [0, 0]
    assert [*copied.columns[:4]] == ["synthetic", "yardstick", "±", "the yardstick is"]
    assert capsys.readouterr().err == ""  # a small table is done at once
    monkeypatch.setattr(measured, "WATCHED", 10)
    one_class = train.frame.assign(ill=train.frame["ill"].where(train.frame["ill"] == "no", "no"))
    assert your_table.scores(train, holdout, one_class, seed=0)["synthetic"].iloc[6] == 0.5
    assert "scores 1 of 9: training rows that are among" in capsys.readouterr().err
    blind = your_table.scores(
        *(
            part.__class__(part.key, part.frame, Schema(part.schema.columns), "own")
            for part in (train, holdout)
        ),
        train.frame,
        seed=0,
    )
    assert not any("AUC" in name for name in blind.index) and len(blind) == 10


def test_what_scores_cannot_measure_is_said_and_the_rest_is_there(file):
    """Cases 13 and 47: nobody ill was set aside, and synthetic rows are all the same."""
    train, holdout = halves(file)
    healthy = holdout.take(np.flatnonzero(holdout.frame["ill"] == "no"))
    found = your_table.scores(train, healthy, train.frame[:1].loc[[0] * 100], seed=0)
    lacking = found["note"].str.startswith("not measured: ")
    assert found.loc[lacking, "note"].tolist() == [
        "not measured: no condition fits one synthetic row alone.",
        "not measured: target 'ill' has one class only in the hold-out rows; give rows of at "
        "least two classes.",
    ]
    assert found.loc[~lacking, ["synthetic", "yardstick"]].notna().all(axis=None)
    assert found.loc[lacking, ["synthetic", "yardstick", "±"]].isna().all(axis=None)


def test_scores_refuse_rows_that_do_not_fit(file):
    train, holdout = halves(file)
    for wrong, message in (
        (
            train.frame.rename(columns={"dose": "doses"}),
            r"no column 'dose' \(did you mean 'doses'",
        ),
        (
            train.frame.assign(dose=np.nan),
            "the synthetic table has missing or infinite values in column 'dose'",
        ),
    ):
        with pytest.raises(BadInput, match=message):
            your_table.scores(train, holdout, wrong, seed=0)


def test_scores_of_one_column_say_that_there_is_no_pair(file):
    train, holdout = halves(file)
    schema = Schema(train.schema.columns[:1])
    one, other = (
        part.__class__(part.key, part.frame[["age"]], schema, "own") for part in (train, holdout)
    )
    found = your_table.scores(one, other, one.frame, seed=0)["note"]
    assert found["pairs of columns: correlation difference"] == (
        "not measured: there is one column only."
    )
    assert "no pair of columns" in found["SDMetrics quality: column pair trends"]


def test_few_rows_are_refused_before_any_work(file):
    """Case 09."""
    table = load_table(file, schema=file.with_suffix(".toml"))
    key = your_table.key_of(0, release=False)
    with pytest.raises(BadInput, match=r"ward: 19 rows are too few to set some aside .* give 20"):
        your_table.split(table.take(np.arange(19)), key=key)
    assert sum(map(len, your_table.split(table.take(np.arange(20)), key=key))) == 20


# --- what a release says when it is stopped, or has no room --------------------------------------


@pytest.fixture
def small_disk(home, monkeypatch):
    """A folder with room for 16 kB: a disk of its own where the machine lets us make one, else one
    whose writes fail."""
    folder = home / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    made = shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0
    if not made:
        write = Path.write_bytes

        def writes(path, content):
            held = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
            if path.is_relative_to(folder) and held + len(content) > 16_000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(path, content)

        monkeypatch.setattr(Path, "write_bytes", writes)
    yield folder
    if made:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("filled", [0, 10_000])
def test_a_full_disk_after_a_release_says_that_it_exists_and_is_paid_for(
    ward, home, small_disk, monkeypatch, filled
):
    """Nothing is lost: what has no room is elsewhere, and the sentence says where."""
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    (small_disk / "others").write_bytes(bytes(filled))
    with pytest.raises(BadInput, match=r"cannot be written .No space left on device") as refused:
        released(ward, out=small_disk)
    told = str(refused.value)
    assert (
        "The release exists and is paid for (`fedsynth ledger ward` shows it): do not run" in told
    )
    assert ledger.open_ledger("ward").total().epsilon == pytest.approx(1.0)
    (rescued,) = home.glob("fedsynth-*")
    assert str(rescued) in told and rescued.stat().st_mode & 0o777 == 0o700
    there, elsewhere = ({p.name for p in f.glob("ward_*")} for f in (small_disk, rescued))
    assert len(there | elsewhere) == 4 and not there & elsewhere and elsewhere
    assert all(name in told for name in there | elsewhere)
    assert ("ward_release1.csv" in there) == (filled == 0)
    rows = (small_disk if filled == 0 else rescued) / "ward_release1.csv"
    assert len(pd.read_csv(rows)) == 240


def test_what_has_no_room_anywhere_is_named(ward, small_disk, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(BadInput, match=r"Lost for want of room anywhere: .*ward_release1_privacy"):
        released(ward, out=small_disk)


def test_a_model_without_room_does_not_hide_the_release(ward, home, small_disk):
    (small_disk / "others").write_bytes(bytes(12_000))
    with pytest.raises(BadInput, match=r"m.fedsynth cannot be .* is paid for .*ward_release1.csv"):
        released(ward, out=home, save_model=small_disk / "m.fedsynth")


def test_a_rehearsal_without_room_costs_nothing(ward, small_disk):
    with pytest.raises(BadInput, match="No space left on device") as refused:
        your_table.synthesize(ward, **ASKED, out=small_disk)
    assert "paid for" not in str(refused.value)


@pytest.mark.slow
def test_a_stopped_release_says_what_it_counts_as(ward, home, tmp_path):
    """Ctrl-C in a process of its own, while the method is at work."""
    method = (ROOT / "notebooks" / "your_method.py").read_text(encoding="utf-8")
    slow = method.replace(
        "def server_step(",
        "def server_step(*args, **kwargs):\n    import time\n    time.sleep(60)\n\n\ndef never(",
    )
    assert slow != method
    (tmp_path / "slow.py").write_text(slow, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "fedsynth_lib", "synth", str(ward), "--release"]
    command += ["--method", str(tmp_path / "slow.py"), "--epsilon", "1", "--no-scores"]
    command += ["--declared-rows", "300", "--out", str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "FEDSYNTH_HOME": str(home)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        for line in process.stderr:
            if "learns from" in line:
                break
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert "stopped after it had begun, and counts as epsilon 1, delta 1e-06 of population" in said
    assert "`fedsynth ledger ward` shows it" in said and "--again" in said
    assert ledger.open_ledger("ward").total().epsilon == 1.0
    assert not list(tmp_path.glob("ward_release*"))


def test_a_failure_of_the_method_says_it_too(ward, monkeypatch):
    said = []
    monkeypatch.setattr(your_table, "run", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        released(ward, say=said.append)
    assert "counts as epsilon 1" in said[-1]


# --- what a reader's program makes of a name -----------------------------------------------------


HOSTILE = "<img src=x> `a` | *b* [c](d) _e_ $f$"


def test_names_mean_nothing_in_markdown(home):
    """Rendered as CommonMark with tables, all of them are text."""
    column = FileColumn(HOSTILE, "numeric", 0, 120, True, source="x", missing=("",))
    form = Form((column, FileColumn("ill", "categorical", categories=("no", "yes"), source="x")))
    rows = pd.DataFrame({HOSTILE: range(20, 120), "ill": ["no", "yes"] * 50})
    rows.to_csv(home / "a`b.csv", index=False)
    (home / "a`b.toml").write_text(form.to_toml())
    made = released(home / "a`b.csv", declared_rows=100, population="x", out=home)
    html = MarkdownIt().enable("table").render(made.text)
    assert "<img" not in html and "<code" not in html and "<a " not in html and "<em" not in html
    assert f"missing of {escape(repr(HOSTILE), quote=False)}" in html.replace("&quot;", '"')
    record = json.loads(made.paths["record"].read_text())["deployment"]["dp_variant"]
    assert "<img" not in MarkdownIt().render(record["unprotected_quantities"])


FORMULAS = ("=1+1", "-x", "@a", "+b")


@pytest.fixture
def formulas(home):
    """Categories, a constant, a name and a code for no value that a spreadsheet would run; and
    numbers below 0, also as categories."""
    columns = (
        FileColumn("=name", "categorical", categories=(*FORMULAS, "-1", "c"), source="x"),
        FileColumn("dose", "numeric", -9, -1, True, missing=("-",), source="x"),
        FileColumn("cost", "numeric", -9, 9, written="-$1.50", source="x"),
        FileColumn("const", "constant", value="=2+2", source="x"),
    )
    rows = {"=name": [*FORMULAS, "-1", "c"] * 50, "dose": [-1, -2, "-"] * 100}
    rows |= {"cost": ["-$2.50"] * 300, "const": "=2+2"}
    pd.DataFrame(rows).to_csv(home / "f.csv", index=False)
    (home / "f.toml").write_text(Form(columns).to_toml())
    return home / "f.csv"


def test_cells_that_a_spreadsheet_would_run_are_named_and_can_be_quoted(formulas, home, capsys):
    plain = released(formulas, out=home / "plain")
    assert (
        "runs as a formula" in plain.text and "'=1+1', '-x', '@a', '+b', '-', '=2+2'" in plain.text
    )
    arguments = ["synth", str(formulas), "--release", "--again", "--declared-rows", "300"]
    arguments += ["--method", "independent", "--epsilon", "1", "--no-scores", "--quote-formulas"]
    arguments += ["--out", str(home / "quoted"), "--save-model", str(home / "f.fedsynth")]
    arguments += ["--tables", str(home / "tables")]
    assert commands.main(arguments) == 0
    again = ["sample", str(home / "f.fedsynth"), "--quote-formulas", "--out", str(home / "s.csv")]
    assert commands.main(again) == 0
    (quoted,) = (home / "quoted").glob("f_release*.csv")
    for path in (quoted, home / "s.csv"):
        drawn = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert list(drawn) == ["'=name", "dose", "cost", "const"]
        assert set(drawn["'=name"]) <= {*(f"'{text}" for text in FORMULAS), "-1", "c"}
        assert set(drawn["dose"].str.replace(r"-\d", "n", regex=True)) == {"n", "'-"}
        assert drawn["cost"].str.fullmatch(r"-?\$\d\.\d\d").all()
        assert set(drawn["const"]) == {"'=2+2"}
    (path,) = (home / "tables").glob("001_*.csv")
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert set(table["'=name"]) == {*(f"'{text}" for text in FORMULAS), "-1", "c"}
    capsys.readouterr()


def test_quoting_is_for_csv(home):
    patients().to_parquet(home / "p.parquet")
    (home / "p.toml").write_text(Form.of(SCHEMA).to_toml())
    with pytest.raises(BadInput, match=r"quote_formulas is for CSV, .* a file of parquet"):
        your_table.prepare(home / "p.parquet", **ASKED, quote_formulas=True)
