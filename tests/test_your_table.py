"""A table of someone's own: the mistakes of its file, and the way from the file to what is handed
on."""

import json
import re

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


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"day": DAYS.strftime("%Y-%m-%d")},
            r"'day' has 300 different values, all of them dates: "
            r"write numbers",
        ),
        ({"day": DAYS.strftime("%d.%m.%Y")}, r"'day' has 300 different values, all of them dates"),
        (
            {"id": [f"P{row}" for row in range(ROWS)]},
            r"'id' has 300 .*identifier.*leave out with "
            r"ignore=\['id'\]",
        ),
        (
            {"weight": [f"{row},5" for row in range(ROWS)]},
            r"'weight' holds '0,5': write a decimal "
            r"point",
        ),
        ({"weight": alternate("0,5", "1,5", "2")}, r"'weight' holds '0,5': write a decimal point"),
        (
            {"cost": [f"{row},000" for row in range(ROWS)]},
            r"'cost' holds '0,000': .*no mark "
            r"between thousands",
        ),
        (
            {"size": [*range(ROWS - 1), "unknown"]},
            r"'size' holds 'unknown' among numbers: put a "
            r"number there",
        ),
        (
            {"size": [*range(ROWS - 1), np.inf]},
            r"'size' holds 'inf', which has no place in a "
            r"range",
        ),
        (
            {"ward": "A"},
            r"'ward' holds nothing but 'A'; correct this, or leave out with "
            r"ignore=\['ward'\]",
        ),
        ({"note": ""}, r"'note' is empty"),
        ({"lab": alternate(7, "NA")}, r"'lab' holds the one number '7', and cells without any"),
        (
            {"ward": "A", "note": ""},
            r"'ward' holds .*; column 'note' is empty; .* "
            r"ignore=\['ward', 'note'\]",
        ),
        (
            {"ill": "no"},
            r"'ill' is the target and holds nothing but 'no': give rows of at least "
            r"two classes",
        ),
        (
            {"ill": np.arange(ROWS) / 7},
            r"'ill' is the target and has 300 different values.*: cut "
            r"it into classes",
        ),
    ],
)
def test_a_column_that_fits_no_schema_is_named_with_the_remedy(tmp_path, columns, message):
    patients(**columns).to_csv(tmp_path / "own.csv", index=False, sep=";")
    with pytest.raises(BadInput, match=r"own\.csv: column " + message) as refused:
        propose_schema(tmp_path / "own.csv", target="ill")
    assert "\n" not in str(refused.value) and not (tmp_path / "own.toml").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; give a file with data"),
        (b"age,ill\n", "0 rows tell nothing about a column"),
        (b"age,ill\n30,no\n", "1 rows tell nothing about a column"),
        (
            b"age:dose:sex:ill\n1:2:f:no\n2:2:m:no\n",
            r"cut at ',' it has the one column 'age:dose:sex:ill'; write comma",
        ),
        (
            "age,town,ill\n30,Köln,no\n31,Ulm,yes\n".encode("latin-1"),
            "it is not UTF-8 text; save it as UTF-8",
        ),
        (
            "age,town,ill\n30,Köln,no\n31,Ulm,yes\n".encode("utf-16"),
            "it is not UTF-8 text; save it as UTF-8",
        ),
        (b"age,age,ill\n30,3,no\n31,3,yes\n", "two columns are called 'age'; rename one of them"),
        (
            b"age,ill\n30,no\n31,yes,maybe\n",
            r"cannot be read \(.*line 3, saw 3\); check that it "
            r"is whole",
        ),
        (b"age,ill\n1,30,no\n2,31,yes\n", "rows have more fields than there are columns"),
    ],
)
def test_a_file_that_gives_no_table_is_named_with_the_remedy(tmp_path, content, message):
    (tmp_path / "own.csv").write_bytes(content)
    with pytest.raises(BadInput, match=r"own\.csv: .*" + message) as refused:
        propose_schema(tmp_path / "own.csv")
    assert "\n" not in str(refused.value)


def test_reading_with_a_schema_names_the_same_mistakes(tmp_path):
    for content, message in (
        ("age:dose:sex:ill\n1:2:f:no\n", "cut at ',' it has the one column 'age:dose:sex:ill'"),
        ("age,dose,dose,sex,ill\n1,2,2,f,no\n", "two columns are called 'dose'"),
    ):
        (tmp_path / "own.csv").write_text(content)
        with pytest.raises(BadInput, match=message):
            load_table(tmp_path / "own.csv", schema=SCHEMA)


def test_a_target_or_an_ignored_column_must_be_there(tmp_path):
    patients().to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(BadInput, match=r"target 'sick' is no column of the file\."):
        propose_schema(tmp_path / "own.csv", target="sick")
    with pytest.raises(
        BadInput,
        match=r"ignored 'aeg' is no column of the file \(did you mean "
        r"'age'\?\)",
    ):
        propose_schema(tmp_path / "own.csv", ignore=["aeg"])


# --- drafts that load ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        # a word that pandas takes for a missing value
        (["None", "Mild", "Severe"], ("Mild", "None", "Severe")),
        (["TRUE", "FALSE"], ("FALSE", "TRUE")),
        (["true", "false"], ("false", "true")),
        (["007", "012"], ("007", "012")),
        (["1.0", "2.0"], ("1", "2")),
        (["10", "9"], ("9", "10")),
        (["1", "2", "?"], ("1", "2", "?")),
        ([" f", "m "], ("f", "m")),
    ],
)
def test_a_draft_has_the_categories_as_the_file_writes_them(tmp_path, values, categories):
    patients(x=alternate(*values)).to_csv(tmp_path / "own.csv", index=False)
    draft = propose_schema(tmp_path / "own.csv", target="ill")
    assert Schema.from_toml(draft)["x"].categories == categories
    found = load_table(tmp_path / "own.csv", schema=draft).frame["x"].astype(str)
    assert found.map(categories.index).nunique() == len(values)


def test_a_question_mark_among_numbers_is_a_missing_one(tmp_path):
    patients(size=[*range(ROWS - 1), "?"]).to_csv(tmp_path / "own.csv", index=False)
    draft = propose_schema(tmp_path / "own.csv", target="ill")
    assert Schema.from_toml(draft)["size"].high == ROWS - 2
    with pytest.raises(BadInput, match="'size' has 1 missing values; fill in or drop these rows"):
        load_table(tmp_path / "own.csv", schema=draft)


def test_an_identifier_is_asked_about_or_left_out(tmp_path):
    patients(id=np.arange(ROWS), **{"free text": [f"text {row}" for row in range(ROWS)]}).to_csv(
        tmp_path / "own.csv", index=False
    )
    draft = propose_schema(tmp_path / "own.csv", target="ill", ignore=["free text"])
    text = draft.read_text()
    assert re.findall(r'name = "(\w+)"\n# No two rows have the same value', text) == ["id"]
    assert Schema.from_toml(draft).names == ("age", "dose", "sex", "ill", "id")
    draft.write_text(re.sub(r"# No two .*add: (.*)\n", r"\1\n", text))  # what the question asks for
    assert list(load_table(tmp_path / "own.csv", schema=draft).frame) == [
        "age",
        "dose",
        "sex",
        "ill",
    ]


def test_the_separator_is_the_one_that_cuts_every_line_alike(tmp_path):
    frame = patients().rename(columns={"dose": "dose, in mg"})
    frame.to_csv(tmp_path / "own.csv", index=False, sep=";", encoding="utf-8-sig", quoting=3)
    assert Schema.from_toml(propose_schema(tmp_path / "own.csv")).names == (
        "age",
        "dose, in mg",
        "sex",
        "ill",
    )


def test_dates_of_a_parquet_file_are_labels_that_load(tmp_path):
    patients(month=DAYS.to_period("M").to_timestamp()).to_parquet(tmp_path / "own.parquet")
    draft = propose_schema(tmp_path / "own.parquet", target="ill")
    assert load_table(tmp_path / "own.parquet", schema=draft).frame["month"].nunique() == 10
    assert your_table.left_out(tmp_path / "own.parquet", SCHEMA) == ["month"]


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
    path.with_suffix(".toml").write_text(declared.to_toml())
    return path


ABOUT = Release(
    "Ward 7", "synthetic patients", rehearsal=False, federated=True, curator="Clinic <A>"
)


def test_a_file_becomes_rows_to_hand_on_and_a_statement(file, home):
    table = your_table.load(file, file.with_suffix(".toml"), file.with_suffix(".draft.toml"))
    assert your_table.left_out(file, table.schema) == ["id"] and table.schema.from_rows == ()
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


def halves(file):
    table = load_table(file, schema=file.with_suffix(".toml"))
    return table.take(np.arange(150)), table.take(np.arange(150, 300))


def test_scores_know_copies_and_constants(file, capsys):
    """Copied rows are told at once; a single class teaches nothing."""
    train, holdout = halves(file)
    copied = your_table.scores(train, holdout, train.frame, seed=0)
    assert copied["synthetic"].iloc[:3].tolist() == [1, 1, 1]
    assert copied["synthetic"].iloc[3] > 0.95  # a row set aside may meet a condition, too
    assert copied["note"].iloc[:4].str.startswith("more than by chance").all()
    assert (copied["synthetic"] - copied["yardstick"] > copied["±"]).iloc[:4].all()
    assert copied["synthetic"].iloc[4:6].tolist() == [0, 0]
    assert [*copied.columns[:4]] == ["synthetic", "yardstick", "±", "the yardstick is"]
    assert "scores 1 of 9: training rows that are among" in capsys.readouterr().err
    one_class = train.frame.assign(ill=train.frame["ill"].where(train.frame["ill"] == "no", "no"))
    assert your_table.scores(train, holdout, one_class, seed=0)["synthetic"].iloc[6] == 0.5
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
            r"'dose' is missing \(did you mean 'doses'",
        ),
        (train.frame.assign(dose=np.nan), "synthetic rows: column 'dose' has missing"),
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
