"""A draft of a schema proposes what fits, and asks what only a person knows."""

import re

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.form import read_form
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import Column, Schema

ROWS = 300
DAYS = pd.date_range("2024-01-01", periods=ROWS)
SCHEMA = Schema(
    (
        Column("age", "numeric", 0, 120, True, source="code book"),
        Column("ill", "categorical", categories=("no", "yes"), source="code book"),
    ),
    "ill",
)


def alternate(*values):
    return np.resize(np.array(values, dtype=object), ROWS)


def patients(**columns):
    rng = np.random.default_rng(7)  # so that no column follows from another one
    frame = {"age": rng.integers(20, 90, ROWS), "ill": rng.choice(["no", "yes"], ROWS)}
    return pd.DataFrame(frame | columns)


def drafted(tmp_path, values):
    """The declaration that is proposed for a column with these values."""
    patients(x=values).to_csv(tmp_path / "own.csv", index=False)
    form = read_form(propose_schema(tmp_path / "own.csv", target="ill"))
    return next(column for column in form.columns if column.name == "x")


# --- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (DAYS.strftime("%Y-%m-%d"), "date", {"low": "2024-01-01", "high": "2024-10-26"}),
        (DAYS.strftime("%d.%m.%Y"), "date", {"format": "%d.%m.%Y", "high": "26.10.2024"}),
        ([f"{d.day}/{d.month}/{d.year}" for d in DAYS], "date", {"format": "%-d/%-m/%Y"}),
        (
            [f"2024-05-{n % 28 + 1:02}T{n % 24:02}:{n % 60:02}:{n % 59:02}" for n in range(ROWS)],
            "datetime",
            {"format": "%Y-%m-%dT%H:%M:%S"},
        ),
        ([f"{h % 24:02}:{h % 60:02}" for h in range(ROWS)], "time", {"format": "%H:%M"}),
        (
            [f"2024-01-{n % 28 + 1:02}T10:{n % 60:02}+01:00" for n in range(ROWS)],
            "datetime",
            {"format": "%Y-%m-%dT%H:%M+01:00", "low": "2024-01-01T10:00+01:00"},
        ),
        (alternate("True", "False"), "boolean", {"categories": ("False", "True")}),
        (alternate("7E4", "7E5", "12E1"), "categorical", {"categories": ("12E1", "7E4", "7E5")}),
        (alternate("007", "012"), "categorical", {"categories": ("007", "012")}),
        (alternate("1.10", "1.9", "1.2"), "categorical", {"categories": ("1.10", "1.2", "1.9")}),
        (alternate("1.0", "2.0"), "categorical", {"categories": ("1.0", "2.0")}),
        (alternate("1.0", "2"), "categorical", {"categories": ("1", "2")}),
        (alternate("10", "9"), "categorical", {"categories": ("9", "10")}),
        (alternate(" f", "m "), "categorical", {"categories": ("f", "m")}),
        (alternate("None", "Mild", "Severe"), "categorical", {"missing": ()}),
        (alternate("A"), "constant", {"value": "A"}),
        (alternate("-0.0", "0.0"), "constant", {}),
        (np.arange(ROWS) / 10, "numeric", {"decimals": 1, "low": 0.0, "high": 29.9}),
        ([f"{row / 100:.2f}" for row in range(ROWS)], "numeric", {"written": "0.00"}),
        (alternate("", *range(20)), "numeric", {"missing": ("",), "low": 0, "high": 19}),
        (alternate("NA", "NA", ".", *range(20)), "numeric", {"missing": ("NA", ".")}),
        (np.exp(np.arange(ROWS) % 99 / 5).round(), "numeric", {"scale": "log", "integer": True}),
    ],
)
def test_what_is_plain_is_proposed_without_a_question(tmp_path, values, kind, said):
    column = drafted(tmp_path, values)
    assert (column.kind, column.question) == (kind, "")
    assert {name: getattr(column, name) for name in said} == said


@pytest.mark.parametrize(
    ("values", "kind", "said", "question"),
    [
        (DAYS.strftime("%Y%m%d"), "date", {"format": "%Y%m%d"}, "Digits that are all a valid date"),
        (alternate("01/02/2024", "05/06/2024"), "date", {}, "%d/%m/%Y and %m/%d/%Y: which"),
        (alternate("$1,234.50", "$12.00", "$7.25"), "numeric", {"high": 1234.5}, "is this one"),
        (alternate("12 345 €", "12 €"), "numeric", {"high": 12345.0}, "is this one 12345"),
        (alternate("-€5.00", "€12.50"), "numeric", {"low": -5.0}, "is this one"),
        (alternate("45%", "7%"), "numeric", {"high": 45.0}, "is this one 45"),
        (alternate("0,5", "1,5", "2"), "numeric", {"written": "0,5", "low": 0.5}, "is this one"),
        (alternate("-999", *range(20)), "numeric", {"missing": ("-999",), "low": 0}, "lies far"),
        (alternate("unknown", *range(20)), "numeric", {"missing": ("unknown",)}, "'unknown'"),
        (alternate("inf", *range(20)), "numeric", {"high": 19}, "Infinite"),
        (alternate("NA", "f", "m"), "categorical", {"missing": ("NA",)}, "'NA' a missing value"),
        (alternate("x", ""), "categorical", {"categories": ("x",)}, "does an empty cell mean"),
        (alternate(*(f"c{n}" for n in range(150))), "categorical", {}, "150 categories"),
        ([f"Ada Ash {row}" for row in range(ROWS)], "identifier", {}, "a name, a number"),
        ([f"+49 30 {row:05}" for row in range(ROWS)], "identifier", {}, "a name, a number"),
        ([f"seen on day {row}, said well" for row in range(ROWS)], "text", {}, "Free text"),
        (np.arange(ROWS), "identifier", {}, "count the rows"),
        (alternate(*(f"a{n}@b.org" for n in range(99))), "categorical", {}, "a person, an address"),
        (
            [f"{2020 + n % 5}{n % 12 + 1:02}" for n in range(ROWS)],
            "date",
            {"format": "%Y%m"},
            "Digits",
        ),
        (1.6e9 + np.arange(ROWS) % 90 * 1e6, "numeric", {}, "seconds since 1970"),
        (np.arange(ROWS) * 7 + 3, "numeric", {"low": 3}, "No two rows have the same value"),
        (2**60 + np.arange(ROWS), "identifier", {}, "a name, a number|too large"),
    ],
)
def test_what_a_person_must_decide_is_asked(tmp_path, values, kind, said, question):
    column = drafted(tmp_path, values)
    assert column.kind == kind and re.search(question, column.question)
    assert {name: getattr(column, name) for name in said} == said


def test_a_table_may_have_one_column(tmp_path):
    patients()[["age"]].to_csv(tmp_path / "own.csv", index=False)
    assert read_form(propose_schema(tmp_path / "own.csv")).names == ("age",)


def test_names_are_asked_about_in_a_small_table_too(tmp_path):
    frame = pd.DataFrame({"who": ["Ada", "Bo", "Cy", "Di", "Ed"] * 1, "x": [1, 2, 3, 1, 2]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    form = read_form(propose_schema(tmp_path / "own.csv"))
    assert form.questions == ("who",) and form.left_out == ("who",)


@pytest.mark.parametrize("name", ["name", "Last Name", "patient_name", "e-mail"])
def test_a_dozen_names_that_many_rows_share_are_asked_about(tmp_path, name):
    people = [f"{first} Smith-{first}" for first in "ABCDEFGHIJKL"]
    frame = patients(**{name: alternate(*people), "file name": alternate("x", "y")})
    frame.to_csv(tmp_path / "own.csv", index=False)
    form = read_form(propose_schema(tmp_path / "own.csv", target="ill"))
    assert [each for each in form.questions if each in form.names] == [name]
    assert "identify one of them" in next(c for c in form.columns if c.name == name).question


def test_the_share_of_missing_values_is_noted_and_row_numbers_are_left_out(tmp_path):
    patients(x=alternate("", 1.5, 2.5, 3.5)).to_csv(tmp_path / "own.csv")
    draft = propose_schema(tmp_path / "own.csv")
    assert "# 25.0% of the rows have no value here" in draft.read_text()
    assert read_form(draft).left_out == ("Unnamed: 0",)


def test_levels_of_a_typed_file_keep_their_order_even_if_nobody_has_them(tmp_path):
    kind = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    patients(x=pd.Series(alternate("high", "low")).astype(kind)).to_parquet(
        tmp_path / "own.parquet"
    )
    column = read_form(propose_schema(tmp_path / "own.parquet")).columns[-1]
    assert column.categories == ("low", "mid", "high") and column.ordered


def test_a_draft_loads_and_says_what_it_discloses(tmp_path):
    frame = patients(visit=DAYS.strftime("%d.%m.%Y"), lab=alternate("NA", 1.5, 2.25, 3.5))
    frame.to_csv(tmp_path / "own.csv", index=False, sep=";")
    draft = propose_schema(tmp_path / "own.csv", target="ill")
    assert re.search(r"DRAFT.*\n.*information about the people", draft.read_text())
    table = load_table(tmp_path / "own.csv", schema=draft)
    assert table.schema.from_rows == table.schema.names  # nothing of it was declared
    assert table.schema.names == ("age", "ill", "visit", "lab", "lab is missing")
    assert table.frame["visit"].tolist() == list(range(ROWS))
    assert (table.frame["lab is missing"] == "yes").mean() == 0.25


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("no", "is the target and holds nothing but 'no': give rows of at least two classes"),
        ("", "is the target and is empty: give rows"),
        (np.arange(ROWS) / 7, "is the target and has 300 different values.*: cut it into classes"),
    ],
)
def test_a_target_needs_classes(tmp_path, values, message):
    patients(ill=values).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(BadInput, match=r"own\.csv: column 'ill' " + message):
        propose_schema(tmp_path / "own.csv", target="ill")
    assert not (tmp_path / "own.toml").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"age,ill\n30,no\n", "1 rows tell nothing about a column"),
        (b"age:ill\n1:no\n2:no\n", r"cut at ',' it has the one column 'age:ill'; write comma"),
        ("age,town\n30,Köln\n31,Ulm\n".encode("latin-1"), "it is not UTF-8 text; save it as UTF-8"),
        ("age,town\n30,Köln\n".encode("utf-16"), "this is text in UTF-16; save it as UTF-8"),
        (b"age,age,ill\n30,3,no\n31,3,yes\n", "two columns are called 'age'; rename one of them"),
        (b"age,ill\n30,no\n31,yes,maybe\n", "line 3 has 3 fields, and the lines before it have 2;"),
        (b'age,ill\n30,no\n31,"yes\n', "a quotation mark in line 3 is never closed; correct"),
        (b"age,ill\n30,no\n31,yes\nage,ill\n32,no\n", "names is there again, in row 3; delete"),
        (
            b"Wards of 2024\n\nage,ill\n30,no\n31,yes\n",
            "If this is a title, delete the lines above",
        ),
        ("age,ill\n30,no\n".encode("utf-32"), "this is text in UTF-32; save it as UTF-8"),
        (b"<table><tr><td>30</td></tr></table>", "this is a page of HTML; give the table as CSV"),
        (b"# of 2024\nage,ill\n30,no\n", "first line is '# of 2024' and names no columns"),
        (b"sep=;\nage;ill\n30;no\n", "first line is 'sep=;' and names no columns"),
        (b"PK\x05\x06" + bytes(18), "this is a zip with 0 files"),
        (b"\xd0\xcf\x11\xe0....", "this is an Excel workbook"),
        (b'[{"age": 1}]', "this is JSON; write the table as CSV"),
        (pd.DataFrame({"age": [[1], [2]]}).to_parquet(), "column 'age' holds lists"),
    ],
)
def test_a_file_that_gives_no_table_is_named_with_the_remedy(tmp_path, content, message):
    (tmp_path / "own.csv").write_bytes(content)
    with pytest.raises(BadInput, match=r"own\.csv: .*" + message) as refused:
        propose_schema(tmp_path / "own.csv")
    assert "\n" not in str(refused.value)


def test_reading_with_a_schema_names_the_same_mistakes(tmp_path):
    for content, message in (
        ("age:ill\n1:no\n", "cut at ',' it has the one column 'age:ill'"),
        ("age,age,ill\n1,2,no\n", "two columns are called 'age'"),
    ):
        (tmp_path / "own.csv").write_text(content)
        with pytest.raises(BadInput, match=message):
            load_table(tmp_path / "own.csv", schema=SCHEMA)


def test_a_target_or_an_ignored_column_must_be_there(tmp_path):
    patients().to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(BadInput, match=r"target 'sick' is no column of the file\."):
        propose_schema(tmp_path / "own.csv", target="sick")
    near = r"ignored 'aeg' is no column of the file \(did you mean 'age'\?\)"
    with pytest.raises(BadInput, match=near):
        propose_schema(tmp_path / "own.csv", ignore=["aeg"])


def test_the_separator_is_the_one_that_cuts_every_line_alike(tmp_path):
    frame = patients().rename(columns={"age": "age, in years"})
    frame.to_csv(tmp_path / "own.csv", index=False, sep=";", encoding="utf-8-sig", quoting=3)
    assert read_form(propose_schema(tmp_path / "own.csv")).names == ("age, in years", "ill")
