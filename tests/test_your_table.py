"""A table of someone's own: the mistakes of its file, and the way from the file to what is handed
on."""

import json

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core import ledger
from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.core.statement import statement_text
from fedsynth_lib.core.summary import Release
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.tables.draft import propose_schema
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import READ_FROM_ROWS, Column, Schema
from fedsynth_lib.teaching import your_table

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
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    return tmp_path


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


ABOUT = Release(
    "Ward 7", "synthetic patients", rehearsal=False, federated=True, curator="Clinic <A>"
)


def test_a_file_becomes_rows_to_hand_on_and_a_statement(file, home):
    table = your_table.load(file, file.with_suffix(".toml"), file.with_suffix(".draft.toml"))
    assert your_table.left_out(table) == ["id"] and table.schema.from_rows == ()
    key = your_table.key_of(0, release=True)
    train, holdout = your_table.split(table, key=key)
    parts = your_table.clients(train, 5, site="site", key=key)
    assert len(train) + len(holdout) == ROWS and [len(part) for part in parts] == pytest.approx(
        [120, 60, 60], abs=25
    )
    assert [tuple(train.frame["site"].iloc[part].unique()) for part in parts] == [
        ("A",),
        ("B",),
        ("C",),
    ]
    sizes, counted = your_table.declared_sizes(parts, site="site", epsilon=2.0, seed=None)
    method = your_table.method_of("aim")
    privacy = Privacy(2.0, 1e-6, noise_seed=None)
    options = {
        "config": your_table.private_config(method),
        "privacy": privacy,
        "sizes": sizes,
        "before": counted,
    }
    run = settings.federated(method, train, parts, **options)
    assert run.statement["epsilon"] == pytest.approx(2.0) and run.statement["unprotected"] == []
    assert run.statement["entries"][0]["what"] == "number of rows"
    book = ledger.open_ledger("ward", most_epsilon=3.0)
    paths = your_table.places(table, "smoke", release=True)
    assert {path.parent for path in paths.values()} == {home / "data" / "results" / "smoke-own"}
    text = your_table.hand_on(run, paths, ABOUT, book)
    assert paths["statement"].read_text() == text
    again = load_table(paths["rows"], schema=file.with_suffix(".toml"))
    assert len(again) == sum(sizes) and again.schema == table.schema
    assert f"# Privacy statement: {sum(sizes)} synthetic rows in ward_release1.csv" in text
    assert "**epsilon = 2, delta = 1e-06.**" in text and "7.39 times as likely" in text  # e^2
    assert (
        "The noise is secret" in text
        and "* the number of rows of each client as it was counted with noise" in text
    )
    assert (
        "Clinic &lt;A&gt;" in paths["page"].read_text()
        and json.loads(paths["record"].read_text())["tier"] == 3
    )
    assert book.total() == ledger.Total(1, run.statement["epsilon"], 1e-6)
    # never in its place
    assert your_table.places(table, "smoke", release=True)["rows"].name == "ward_release2.csv"
    assert your_table.places(table, "smoke", release=False)["rows"].name == "ward_rehearsal.csv"
    with pytest.raises(
        BadInput,
        match=r"'ward': 1 releases have spent epsilon 2, and 2 more "
        r"would exceed 3",
    ):
        your_table.hand_on(run, your_table.places(table, "smoke", release=True), ABOUT, book)
    assert not your_table.places(table, "smoke", release=True)["rows"].exists()


def test_without_a_schema_the_draft_is_pointed_at(file):
    file.with_suffix(".toml").unlink()
    with pytest.raises(
        BadInput,
        match=r"ward\.csv: there is no ward\.toml; correct "
        r".*ward\.draft\.toml, save it as",
    ):
        your_table.load(file, file.with_suffix(".toml"), file.with_suffix(".draft.toml"))


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
        BadInput, match="dose, sex, ill, site are read from the rows; declare them, or set release"
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
        your_table.private_config(METHODS["ctgan"])


def test_scores_know_copies_and_constants(file):
    """Rows that were copied are at distance 0 and nearer to themselves; a single class teaches
    nothing."""
    table = load_table(file, schema=file.with_suffix(".toml"))
    train, holdout = table.take(np.arange(150)), table.take(np.arange(150, 300))
    copied = your_table.scores(train, holdout, train.frame, seed=0)["synthetic"]
    assert copied.iloc[:2].tolist() == [0, 0] and copied.iloc[3] == 1
    one_class = train.frame.assign(ill=train.frame["ill"].where(train.frame["ill"] == "no", "no"))
    assert your_table.scores(train, holdout, one_class, seed=0)["synthetic"].iloc[2] == 0.5
    blind = your_table.scores(
        *(
            part.__class__(part.key, part.frame, Schema(part.schema.columns), "own")
            for part in (train, holdout)
        ),
        train.frame,
        seed=0,
    )
    assert not any("AUC" in name for name in blind.index) and len(blind) == 6
