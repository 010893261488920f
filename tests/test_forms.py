"""What a file has comes back in its form: each kind of column alone, and odd tables through every
method."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import promises
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fedsynth_lib.core.contract import BadInput, BadRows, Privacy
from fedsynth_lib.methods import METHODS
from fedsynth_lib.release import your_table
from fedsynth_lib.release.check import compare_form
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.form import Counted, Form, form_from, read_form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.written import Written

RNG = np.random.default_rng(0)


def there_and_back(column, values):
    raw = pd.Series(values, name=column.name)
    raw = raw.astype("category") if column.is_text else raw
    frame = Form((column,)).to_model(raw.to_frame(), "t")
    return frame, column.texts(column.restore(frame, RNG)).tolist()


# --- one column ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "values", "modelled"),
    [
        (
            FileColumn("d", "date", "1999-12-31", "2024-12-31"),
            ["1999-12-31", "2000-01-01", "2024-02-29"],
            [0, 1, 8826],
        ),
        (
            FileColumn("d", "date", "1.1.2024", "31.12.2024", format="%-d.%-m.%Y"),
            ["1.1.2024", "29.2.2024", "10.12.2024"],
            [0, 59, 344],
        ),
        (
            FileColumn("d", "date", "0900-01-01", "2500-01-01"),
            ["0900-01-01", "2500-01-01"],
            [0, 584388],
        ),
        (FileColumn("t", "time", "00:00", "23:59"), ["00:00", "13:05"], [0, 785]),
        (
            FileColumn("t", "datetime", "2024-01-01 00:00:00", "2024-12-31 00:00:00"),
            ["2024-01-01 00:00:01", "2024-01-02 00:00:00"],
            [1, 86400],
        ),
        (FileColumn("x", "numeric", 0, 9, decimals=1), [0.1, 2.7, 9.0], [0.1, 2.7, 9.0]),
        (FileColumn("x", "numeric", 0, 99, integer=True), [0, 42], [0, 42]),
        (
            FileColumn("x", "numeric", 0, 9999, written="$1,234.50"),
            ["$0.50", "$1,234.50", "$9,999.00"],
            [0.5, 1234.5, 9999],
        ),
        (
            FileColumn("x", "numeric", 1, 1e6, integer=True, scale="log"),
            [1, 1000, 10**6],
            [0, np.log(1000), np.log(10**6)],
        ),
        (
            FileColumn("x", "numeric", -10, 1e6, scale="log"),
            [-10.0, 90.0],
            [0, np.log(101)],
        ),
    ],
)
def test_a_number_or_a_moment_comes_back_as_it_was(column, values, modelled):
    frame, texts = there_and_back(column, values)
    assert np.allclose(frame[column.name], modelled)
    assert [float(t) for t in texts] == pytest.approx(values) if values[0] == 0.1 else True
    if column.scale == "log" and not column.whole:
        assert [float(text) for text in texts] == pytest.approx(values)
    else:
        assert texts == [str(value) for value in values]


def test_gaps_are_learned_and_come_back_by_their_codes():
    number = FileColumn("x", "numeric", 0, 9, integer=True, missing=("NA", "-999"))
    frame, texts = there_and_back(number, ["1", "NA", "-999"])
    assert frame["kind of x"].tolist() == ["a number", "NA", "-999"]
    assert frame["x"].tolist() == [1, 4, 4]  # the middle of the range, which says nothing
    assert texts == ["1", "NA", "-999"]
    word = FileColumn("w", "categorical", categories=("a", "(missing)"), missing=(".",))
    frame, texts = there_and_back(word, ["a", ".", "(missing)"])
    assert frame["w"].tolist() == ["a", "((missing))", "(missing)"] and texts == [
        "a",
        ".",
        "(missing)",
    ]


def test_what_is_not_modelled_is_dropped_repeated_or_made_anew():
    columns = (
        FileColumn("id", "identifier", pattern="P-##@"),
        FileColumn("no", "identifier", pattern="sequence"),
        FileColumn("name", "identifier"),
        FileColumn("note", "text"),
        FileColumn("year", "constant", value="2024"),
        FileColumn("x", "categorical", categories=("a", "b")),
    )
    form = Form(columns)
    rows = pd.DataFrame({"x": pd.Categorical(["a"] * 2000, categories=["a", "b"])})
    back = form.to_file(rows, np.random.default_rng(0))
    assert list(back) == ["id", "no", "year", "x"] and form.left_out == ("name", "note")
    assert back["id"].is_unique and back["id"].str.fullmatch(r"P-\d\d[A-Z]").all()
    assert back["no"].tolist()[:2] == ["1", "2"] and set(back["year"]) == {"2024"}
    with pytest.raises(
        BadInput, match=r"'id' has the pattern 'P-#': it gives 10 identifiers, and 2000 rows"
    ):
        Form((FileColumn("id", "identifier", pattern="P-#"), columns[-1])).to_file(rows, RNG)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            FileColumn("d", "date", "2024-01-01", "2024-12-31"),
            ["2024-02-30"],
            r"no date of the form .* \(row 1\)",
        ),
        (
            FileColumn("d", "date", "2024-01-01", "2024-12-31"),
            ["2025-01-01"],
            r"outside the declared range 2024-01-01 to 2024-12-31 \(row 1\)",
        ),
        (
            FileColumn("x", "numeric", 0, 9, written="$1"),
            ["$1", "1 or 2"],
            r"not a number written like '\$1' \(row 2\)",
        ),
        (
            FileColumn("x", "numeric", 0, 9, scale="log"),
            [3.0, 10.0],
            r"outside the declared range 0 to 9 \(row 2\)",
        ),
        (FileColumn("x", "numeric", 0, 9), [1.0, np.nan], r"no missing values.*'x' \(1\)"),
        (FileColumn("b", "boolean"), ["True", "yes"], r"not a declared category \(row 2\)"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_by_its_row(column, values, message):
    with pytest.raises(BadRows, match=message) as refused:
        there_and_back(column, values)
    for text in (str(refused.value), refused.value.told):
        assert f"holds {values[-1]}" not in text and repr(values[-1]) not in text
    assert "(row" not in refused.value.told


def test_all_columns_with_gaps_are_named_at_once():
    form = Form(tuple(FileColumn(name, "numeric", 0, 9) for name in "abc"))
    raw = pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0], "c": [np.nan, 3.0]})
    with pytest.raises(BadInput, match=r"in column 'a' \(1\), 'c' \(1\); give the column missing"):
        form.to_model(raw, "t")


# --- declarations --------------------------------------------------------------------------------

NUMBER = {"kind": "numeric", "low": 0, "high": 9}
YEAR = {"kind": "date", "low": "2020-01-01", "high": "2020-12-31"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"kind": "dates"}, "has kind 'dates'; write one of numeric, categorical"),
        ({"kind": "numeric", "low": "0", "high": 1}, "low = '0'; it must be a number"),
        ({"kind": "numeric", "low": True, "high": 1}, "low = true; it must be a number"),
        ({"kind": "numeric", "low": 0, "high": float("inf")}, "high = inf; it must be a number"),
        ({"kind": "numeric", "low": 0, "high": 1, "integer": "no"}, "must be true or false"),
        ({"kind": "text", "ignore": "false"}, "ignore = 'false'; it must be true or false"),
        ({"kind": "categorical", "categories": "ab"}, "must be a list of texts"),
        ({"kind": "categorical", "categories": [1, 2]}, "must be a list of texts"),
        ({"kind": "categorical", "categories": ["a"], "low": 1}, "for which 'low' means nothing"),
        (
            {"kind": "categorical", "categories": ["a", "b"], "missing": ["a"]},
            "as a category and as",
        ),
        ({"kind": "date", "low": "2024-01-01"}, "needs high, a date of the form '%Y-%m-%d', such"),
        ({"kind": "date", "low": "1.1.24", "high": "2024-01-01"}, "low = '1.1.24'; write a date"),
        ({"kind": "date", "low": "2024-01-02", "high": "2024-01-01"}, "low before high"),
        (
            {"kind": "datetime", "format": "%Y %z", "low": "", "high": ""},
            "time zone cannot be kept",
        ),
        ({"kind": "numeric", "low": 0, "high": 2**60, "integer": True}, "beyond 2\\^53"),
        ({"kind": "numeric", "low": 0, "high": 9, "written": "a lot"}, "'a lot' shows no number"),
        ({"kind": "numeric", "low": 0, "high": 9, "scale": "loud"}, "'linear' or 'log'"),
        ({"kind": "numeric", "low": 0, "high": 9, "decimals": -1}, "give 0 or more"),
        ({"source": "code book"}, "has no kind; write one, such as"),
        ({"knd": "numeric"}, r"unknown entry 'knd' \(did you mean 'kind'\?\)"),
        (NUMBER | {"heaps": 0}, "heaps = 0; it must be a list of numbers"),
        (NUMBER | {"heaps": ["0"]}, "it must be a list of numbers"),
        (NUMBER | {"heaps": [0, 0.0]}, "names a value twice in heaps"),
        (NUMBER | {"heaps": [0.5], "integer": True}, "0.5 in heaps; write whole numbers"),
        (YEAR | {"heaps": ["soon"]}, "'soon' in heaps"),
        ({"kind": "categorical", "categories": ["0"], "heaps": [0]}, "'heaps' means nothing"),
        (NUMBER | {"missing": ["9"], "heaps": [9]}, "has '9' as one of heaps and as a code"),
        (NUMBER | {"missing": ["<1"], "below": ["<1"]}, "names a code for missing values twice"),
        (NUMBER | {"step": "1"}, "it must be a number"),
        (NUMBER | {"step": -1}, "give a number above 0"),
        (NUMBER | {"step": 10}, "wider than its range"),
        (NUMBER | {"step": 0.5, "integer": True}, "steps that are not; write whole numbers"),
        (NUMBER | {"steps": 5}, "it must be a list of numbers"),
        ({"kind": "numeric", "steps": [1]}, "give 2 or more different numbers"),
        ({"kind": "numeric", "steps": [1, 2], "low": 0}, "its steps say 1; remove low"),
        ({"kind": "numeric", "steps": [1, 2], "step": 1}, "both step and steps"),
        ({"kind": "numeric", "steps": [1, 2], "scale": "log"}, "scale means nothing; remove it"),
        (YEAR | {"step": 0.5}, "a whole number of days"),
        ({"kind": "categorical", "categories": ["0"], "step": 1}, "'step' means nothing"),
    ],
)
def test_a_declaration_that_means_nothing_is_named(said, message):
    with pytest.raises(BadInput, match=r"my\.toml: column 'x' .*" + message):
        form_from({"column": [{"name": "x", **said}]}, "my.toml")


def test_targets_and_names_have_types_too():
    column = {"name": "x", "kind": "categorical", "categories": ["a"]}
    for document, message in (
        ({"table": {"target": 1}, "column": [column]}, "target is 1; write a name in quotation"),
        ({"column": [{"name": 3}]}, "a \\[\\[column\\]\\] has no name"),
        ({"column": {"name": "x"}}, "write \\[table\\] once"),
        (
            {
                "table": {"target": "x"},
                "column": [{"name": "x", "ignore": True}, column | {"name": "y"}],
            },
            "is ignored",
        ),
    ):
        with pytest.raises(BadInput, match=message):
            form_from(document, "my.toml")


def test_what_keeps_account_of_gaps_has_a_name_of_its_own():
    names = ("x", "x is missing")
    form = Form(tuple(FileColumn(name, "numeric", 0, 9, missing=("",)) for name in names))
    with pytest.raises(
        BadInput, match="'x' has rows that stand apart, of which a column 'x is missing' keeps"
    ):
        _ = form.schema


def test_an_empty_schema_declares_nothing(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.toml").write_text("")
    with pytest.raises(BadInput, match=r"t\.toml: no \[\[column\]\] is declared"):
        load_table(tmp_path / "t.csv", schema=tmp_path / "t.toml")
    with pytest.raises(BadInput, match=r"gone\.toml: the schema file cannot be read"):
        load_table(tmp_path / "t.csv", schema=tmp_path / "gone.toml")


def test_a_form_is_the_same_after_its_file(tmp_path):
    columns = (
        FileColumn("d", "date", "1.1.2024", "31.12.2024", format="%-d.%-m.%Y", missing=("", "?")),
        FileColumn("x", "numeric", 0, 9, written="1,5", scale="log", source="law"),
        FileColumn("c", "categorical", categories=('q"', "é"), ordered=True, question="Sure?"),
        FileColumn("id", "identifier", pattern="P-##"),
    )
    form = Form(columns, "c", ("gone",))
    (tmp_path / "f.toml").write_text("\ufeff" + form.to_toml({"x": "a note"}), encoding="utf-8")
    assert read_form(tmp_path / "f.toml") == form  # a byte order mark is no mistake


@pytest.mark.parametrize(
    ("example", "marks"),
    [
        ("$1,234.50", Written("$", ",", ".", 2, "")),
        ("12 345 €", Written("", " ", ".", 0, " €")),
        ("1.234,50", Written("", ".", ",", 2, "")),
        ("1,5", Written("", "", ",", 1, "")),
        ("1,234", Written("", ",", ".", 0, "")),
        ("0,234", Written("", "", ",", 3, "")),
        ("1234.567", Written("", "", ".", 3, "")),
        ("(1’234.50)", Written("", "’", ".", 2, "", "()")),
        ("−5 €", Written("", "", ".", 0, " €", "−")),
        ("45%", Written("", "", ".", 0, "%")),
        ("-3,50 kg", Written("", "", ",", 2, " kg")),
    ],
)
def test_marks_are_read_from_an_example_and_written_again(example, marks):
    assert Written.like(example) == marks
    number = marks.numbers(pd.Series([example]))
    assert marks.texts(number).tolist() == [example]
    assert marks.numbers(pd.Series(["x", "1-2"])).isna().all()


# --- files ---------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "day": ["2024-01-01", "2024-02-29", None] * 10,
        "n": [1, 2, 3] * 10,
        "x": [0.5, None, 2.5] * 10,
        "who": ["a", "b", None] * 10,
        "yes": [True, False, True] * 10,
    }
)
FORM = Form(
    (
        FileColumn("who", "categorical", categories=("a", "b"), missing=("",)),
        FileColumn("day", "date", "2024-01-01", "2024-12-31", missing=("",)),
        FileColumn("n", "numeric", 0, 9, integer=True),
        FileColumn("x", "numeric", 0, 9, decimals=1, missing=("",)),
        FileColumn("yes", "boolean"),
    )
)
WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "semi.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "crlf.csv": lambda frame, path: frame.to_csv(path, index=False, lineterminator="\r\n"),
    "bom.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    "t.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "t.csv.zip": lambda frame, path: frame.to_csv(path, index=False),
    "noext": lambda frame, path: frame.to_csv(path, index=False),
    "t.parquet": lambda frame, path: typed(frame).to_parquet(path),
}


def typed(frame):
    """Columns with types of their own: dates, small integers, categories."""
    return frame.assign(
        day=pd.to_datetime(frame["day"]).dt.date,
        n=frame["n"].astype("int8"),
        who=frame["who"].astype("category"),
    )


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_comes_back_as_it_was(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](FRAME, path)
    (tmp_path / "form.toml").write_text(FORM.to_toml())
    table = load_table(path, schema=tmp_path / "form.toml")
    assert table.form.names == tuple(FRAME)  # the order of the header
    made = tmp_path / f"made{table.container.suffix}"
    made.write_bytes(table.container.content(table.form.to_file(table.frame, RNG), table.form))
    lines = compare_form(table, made)
    assert (lines["differs"] == "").all(), lines
    again = load_table(made, schema=tmp_path / "form.toml")
    assert again.frame.equals(table.frame)


def test_the_checker_names_what_differs(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, index=False)
    table = load_table(path, schema=write_form(tmp_path, FORM))
    wrong = FRAME.assign(n=12, day="2024-02-30", x=1.0).drop(columns="yes")
    wrong[["n", "day", "x", "who"]].to_csv(tmp_path / "made.csv", index=False, sep=";")
    differs = compare_form(table, tmp_path / "made.csv")["differs"]
    assert "separator is ';', not ','; there is no column 'yes'" in differs["(file)"]
    assert "outside the declared range 0 to 9 (rows 1, 2, 3 and" in differs["n"]
    assert "no date of the form" in differs["day"]
    assert differs["x"] == "0% of the values are missing, not 33%"
    assert differs["who"] == ""


def write_form(folder: Path, form: Form) -> Path:
    path = folder / "form.toml"
    path.write_text(form.to_toml(), encoding="utf-8")
    return path


# --- odd tables through every method -------------------------------------------------------------

ROWS = 120


@st.composite
def odd_columns(draw):
    """A declared column, and values of it as a text file has them."""
    name = draw(st.sampled_from(["x", "Größe, in cm", "a b", "it's", "$_$", "東京"]))
    missing = draw(st.sampled_from([(), ("",), ("NA",), ("-999", "")]))
    kind = draw(
        st.sampled_from(
            ["whole", "decimal", "log", "date", "time", "moment", "word", "flag", "money"]
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    whole = rng.integers(0, draw(st.sampled_from([2, 40, 9999])), ROWS, endpoint=True)
    days = pd.Timestamp("1999-12-25") + pd.to_timedelta(whole, "D")
    options = {"missing": missing}
    if kind == "whole":
        column, texts = FileColumn(name, "numeric", -5, 10_000, True, **options), whole.astype(str)
    elif kind == "decimal":
        column = FileColumn(name, "numeric", -5, 10_000, decimals=2, **options)
        texts = [str(number / 4) for number in whole]
    elif kind == "log":
        column = FileColumn(name, "numeric", 0, 1e9, True, scale="log", **options)
        texts = [str(int(2 ** (number % 29))) for number in whole]
    elif kind == "date":
        column = FileColumn(name, "date", "1.1.1990", "1.1.2090", format="%-d.%-m.%Y", **options)
        texts = [f"{day.day}.{day.month}.{day.year}" for day in days]
    elif kind == "time":
        column = FileColumn(name, "time", "00:00", "23:59", **options)
        texts = [f"{number % 24:02}:{number % 60:02}" for number in whole]
    elif kind == "moment":
        column = FileColumn(
            name,
            "datetime",
            "1990-01-01T00:00",
            "2090-01-01T00:00",
            format="%Y-%m-%dT%H:%M",
            **options,
        )
        texts = days.strftime("%Y-%m-%dT%H:%M")
    elif kind == "word":
        words = ["007", "7E4", "a;b", 'q"', " x", "é", "😀"]
        column = FileColumn(
            name, "categorical", categories=tuple(w.strip() for w in words), **options
        )
        texts = [words[number % len(words)] for number in whole]
    elif kind == "flag":
        column = FileColumn(name, "boolean", **options)
        texts = [str(bool(number % 2)) for number in whole]
    else:
        column = FileColumn(name, "numeric", 0, 10_000, written="$1,234.50", **options)
        texts = [f"${number:,.2f}" for number in whole]
    texts = pd.Series(np.asarray(texts, dtype=object))
    if missing:
        gaps = rng.random(ROWS) < draw(st.sampled_from([0.05, 0.5]))
        texts = texts.mask(gaps, rng.choice(np.array(missing, dtype=object)))
    return column, texts


@st.composite
def odd_tables(draw):
    """(form, frame of texts, separator): two to four odd columns, maybe a constant and a name."""
    columns = draw(st.lists(odd_columns(), min_size=2, max_size=4, unique_by=lambda c: c[0].name))
    frame = pd.DataFrame({column.name: texts for column, texts in columns})
    declared = [column for column, _ in columns]
    if draw(st.booleans()):
        declared.insert(0, FileColumn("year", "constant", value="2024"))
        frame.insert(0, "year", "2024")
    if draw(st.booleans()):
        declared.append(FileColumn("who", "identifier", pattern="P-####"))
        frame["who"] = [f"N{row}" for row in range(ROWS)]
    return Form(tuple(declared)), frame, draw(st.sampled_from(",;\t|"))


def goes_through(key, odd, folder):
    form, frame, separator = odd
    path = folder / "odd.csv"
    frame.to_csv(path, index=False, sep=separator)
    table = load_table(path, schema=write_form(folder, form))
    method = METHODS[key]
    config = promises.everyone(method)
    config = replace(config, degree=1) if hasattr(config, "degree") else config
    privacy = promises.budget(method, 10.0) if promises.adds_noise(method) else Privacy()
    options = {"config": config, "privacy": privacy, "seed": 3}
    parts = np.array_split(np.arange(len(table)), 2)
    run = your_table.run(method, table, parts, **options)
    made = folder / f"made{table.container.suffix}"
    rows = your_table.as_file(run.synthetic, table, seed=1)
    made.write_bytes(table.container.content(rows, table.form))
    differs = compare_form(table, made)["differs"]
    far = differs.str.contains(
        "of the values are missing"
    )  # two short runs of a network learn little
    assert (differs[~far] == "").all(), differs.to_dict()


FAST = [key for key in METHODS if not hasattr(promises.everyone(METHODS[key]), "training_rounds")]
QUIET = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.slow
@pytest.mark.parametrize("key", METHODS)
def test_odd_tables_come_back_in_their_form_from_every_method(key, tmp_path):
    @settings(max_examples=8 if key in FAST else 2, **QUIET)
    @given(odd_tables())
    def holds(odd):
        goes_through(key, odd, tmp_path)

    holds()


@settings(max_examples=40, **QUIET)
@given(odd_tables())
def test_odd_tables_are_the_same_there_and_back(odd):
    form, frame, _ = odd
    raw = pd.DataFrame({name: frame[name].astype("category") for name in frame})
    model = form.to_model(raw, "t")
    back = form.to_file(model, RNG)
    for column in form.columns:
        if column.kind in ("identifier", "constant"):
            continue
        texts = column.texts(back[column.name])
        expected = frame[column.name].str.strip()
        if "" not in column.missing:
            expected = expected.replace("", column.missing[0] if column.missing else "")
        if column.kind == "numeric" and not column.written:
            texts, expected = (pd.to_numeric(each, errors="coerce") for each in (texts, expected))
            assert np.allclose(texts, expected, equal_nan=True)
        else:
            assert texts.tolist() == expected.tolist()


def test_gaps_are_counted_as_a_level_of_their_column():
    """So a method of single columns keeps their rate, and one of pairs what goes with them."""
    form = Form(
        (
            FileColumn("x", "numeric", 0, 9, integer=True, missing=("",)),
            FileColumn("c", "categorical", categories=("a", "b")),
        )
    )
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "x": rng.integers(0, 10, 500),
            "x is missing": pd.Categorical(
                rng.choice(["no", "yes"], 500), categories=["no", "yes"]
            ),
            "c": pd.Categorical(rng.choice(["a", "b"], 500), categories=["a", "b"]),
        }
    )
    method = METHODS["independent"]
    counted = Counted.of(form, method.encoder(form.schema, method.Config()))
    joined = counted.join(frame)
    assert joined["x"].cat.categories[-1] == "missing"
    assert (joined["x"] == "missing").equals(frame["x is missing"] == "yes")
    parted = counted.part(joined, rng)
    assert parted["x is missing"].equals(frame["x is missing"])
    inside = frame["x is missing"] == "no"
    assert (parted["x"] == frame["x"])[inside].all() and (parted["x"] == 4)[~inside].all()
    assert (
        Counted.of(form, METHODS["ctgan"].encoder(form.schema, METHODS["ctgan"].Config())) is None
    )


@pytest.mark.parametrize("key", FAST)
def test_rare_gaps_beside_rare_values_keep_their_rate(key):
    """No method may take them for values of the end of the range, where hardly anybody is."""
    number = FileColumn("x", "numeric", 0, 50_000, missing=("",))
    form = Form((number, FileColumn("c", "categorical", categories=("a", "b"))))
    rng = np.random.default_rng(1)
    gaps = np.where(rng.random(4_000) < 0.05, "yes", "no")
    columns = {
        "x": np.where(gaps == "yes", 25_000, rng.exponential(3_000, 4_000).clip(0, 49_000)),
        "x is missing": pd.Categorical(gaps, categories=["no", "yes"]),
        "c": pd.Categorical(rng.choice(["a", "b"], 4_000), categories=["a", "b"]),
    }
    frame = pd.DataFrame(columns)
    table = Table("t", frame, form.schema, "own", form=form)
    method = METHODS[key]
    config = promises.everyone(method)
    config = replace(config, degree=1) if hasattr(config, "degree") else config
    privacy = promises.budget(method, 10.0) if promises.adds_noise(method) else Privacy()
    run = your_table.run(method, table, [np.arange(4_000)], config=config, privacy=privacy, seed=3)
    assert (run.synthetic["x is missing"] == "yes").mean() == pytest.approx(0.05, abs=0.015)
    real, made = ((rows["x"] > 40_000).mean() for rows in (frame, run.synthetic))
    assert made == pytest.approx(real, abs=0.01)


# --- what a file is follows from its declaration -------------------------------------------------


def test_the_separator_is_the_one_that_finds_the_declared_names(tmp_path):
    """Whatever the first rows hold."""
    form = Form((FileColumn("x, in cm", "numeric", 0, 9), FileColumn("y", "numeric", 0, 9)))
    for rows in ("1;2\n" * 9, '1;2,5\n"1,5";2\n' * 4 + "1;2\n"):
        (tmp_path / "t.csv").write_text("x, in cm;y\n" + rows.replace(",", "."), encoding="utf-8")
        table = load_table(tmp_path / "t.csv", schema=write_form(tmp_path, form))
        assert table.container.separator == ";" and len(table) == 9


def test_without_a_header_nothing_is_read_off_the_first_row(tmp_path):
    form = write_form(tmp_path, Form((FileColumn("x", "categorical", categories=("{a}", "b")),)))
    form.write_text(f"[reader]\nheader = false\n{form.read_text()}")
    for first in ("{a}", "b", "# b", "b;b"):
        (tmp_path / "t.csv").write_text(f"{first}\n" + "b\n" * 9, encoding="utf-8")
        if first in ("{a}", "b"):
            assert len(load_table(tmp_path / "t.csv", schema=form)) == 10
        else:
            with pytest.raises(BadRows, match=r"not a declared category \(row 1\)"):
                load_table(tmp_path / "t.csv", schema=form)
    two = Form((FileColumn("x", "numeric", 0, 9), FileColumn("y", "numeric", 0, 9)))
    form.write_text(f"[reader]\nheader = false\n{two.to_toml()}")
    (tmp_path / "t.csv").write_text("1;2\n3;4\n")
    with pytest.raises(BadInput, match=r"cut at ',' it has the one column .* under \[reader\]"):
        load_table(tmp_path / "t.csv", schema=form)


def test_line_ends_are_declared_and_drafted(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"n,c\r\n" + b'1,"a\nb"\r\n2,c\r\n' * 40)
    draft = propose_schema(tmp_path / "t.csv")
    assert '[reader]\nnewline = "\\r\\n"' in draft.read_text()
    for said, newline in ((draft.read_text(), b"\r\n"), (read_form(draft).to_toml(), b"\n")):
        (tmp_path / "t.toml").write_text(said)
        table = load_table(tmp_path / "t.csv", schema=tmp_path / "t.toml")
        made = table.container.content(table.form.to_file(table.frame, RNG), table.form)
        assert made.splitlines(True)[0] == b"n,c" + newline
    (tmp_path / "t.toml").write_text('[reader]\nnewline = "x"\n' + read_form(draft).to_toml())
    with pytest.raises(BadInput, match=r"newline is 'x'; write"):
        load_table(tmp_path / "t.csv", schema=tmp_path / "t.toml")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (FileColumn("x", "numeric", 0, 9, True), pa.int64()),
        (FileColumn("x", "numeric", 0, 9, True, missing=("",)), pa.int64()),
        (FileColumn("x", "numeric", 0, 9), pa.float64()),
        (FileColumn("x", "numeric", 0, 9, written="1,5"), pa.string()),
        (FileColumn("x", "numeric", 0, 9, True, type="int8"), pa.int8()),
        (FileColumn("x", "date", "2024-01-01", "2024-12-31"), pa.date32()),
        (FileColumn("x", "time", "00:00", "23:59"), pa.time64("us")),
        (FileColumn("x", "boolean"), pa.bool_()),
        (FileColumn("x", "boolean", categories=("no", "yes")), pa.string()),
        (FileColumn("x", "categorical", categories=("0", "1")), pa.string()),
        (FileColumn("x", "categorical", categories=("0", "1"), type="int64"), pa.int64()),
        (
            FileColumn("x", "categorical", categories=("a", "b"), ordered=True),
            pa.dictionary(pa.int32(), pa.string(), ordered=True),
        ),
        (
            FileColumn("x", "categorical", categories=("0", "1"), type="dictionary<int16>"),
            pa.dictionary(pa.int32(), pa.int16()),
        ),
        (
            FileColumn("x", "numeric", 0, 9, decimals=2, type="decimal128(9, 2)"),
            pa.decimal128(9, 2),
        ),
    ],
)
def test_the_type_of_a_column_follows_from_its_declaration(column, kind):
    """And is one that holds what the column declares."""
    found = Container("parquet", types=pa.schema([])).declared(Form((column,))).types
    assert found == pa.schema([("x", kind)])


@pytest.mark.parametrize(
    ("said", "declared"),
    [
        ("int9", {"kind": "numeric", "low": 0, "high": 9}),
        ("int8", {"kind": "numeric", "low": 0, "high": 300, "integer": True}),
        ("int64", {"kind": "categorical", "categories": ("a", "b")}),
        ("dictionary<int64>", {"kind": "categorical", "categories": ("a", "b")}),
        ("int64", {"kind": "identifier", "pattern": "P-##"}),
        ("int64", {"kind": "constant", "value": "St. Mary"}),
    ],
)
def test_a_type_that_cannot_hold_its_column_is_refused_before_a_run(tmp_path, said, declared):
    form = Form((FileColumn("x", type=said, **declared), FileColumn("y", "numeric", 0, 9)))
    pd.DataFrame({"x": ["a"] * 30, "y": [1.0] * 30}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(BadInput, match=f"column 'x' has type = '{said}', which does not hold what"):
        load_table(tmp_path / "t.parquet", schema=write_form(tmp_path, form))


def test_days_in_a_dictionary_come_back_as_days(tmp_path):
    days = [f"2024-01-{1 + row % 28:02}" for row in range(84)]
    table = pa.table({"day": pa.array(days).dictionary_encode(), "x": [1, 2, 3, 4] * 21})
    parquet.write_table(table, tmp_path / "t.parquet")
    loaded = load_table(tmp_path / "t.parquet", schema=propose_schema(tmp_path / "t.parquet"))
    content = loaded.container.content(loaded.form.to_file(loaded.frame, RNG), loaded.form)
    assert list(map(str, pd.read_parquet(io.BytesIO(content))["day"])) == days


def test_a_draft_names_what_it_read_and_a_statement_what_is_public(tmp_path):
    frame = pd.DataFrame(
        {
            "dose": np.arange(80) % 37 / 10 + 3,
            "day": [f"{1 + row % 28}.03.2020" if row else None for row in range(80)],
            "income": [10 * (row % 20) for row in range(79)] + [9_000_000],
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    draft = propose_schema(tmp_path / "t.csv")
    text = draft.read_text()
    assert "# read from the rows: kind, decimals" in text
    assert "# read from the rows: kind, format, missing" in text
    assert "# read from the rows: kind, integer, scale" in text
    assert 'all that a comment "read from the rows" names' in text
    made = your_table.synthesize(
        tmp_path / "t.csv", schema=draft, method="independent", epsilon=1, delta=1e-6, out=tmp_path
    )
    public = made.run.statement["public_inputs"]
    for line in ("decimals of 'dose'", "format of 'day'", "missing of 'day'", "scale of 'income'"):
        assert f"as the schema declares it, {line}" in public


@pytest.mark.parametrize(
    ("content", "encoding", "columns"),
    [
        ("a,,b\n1,x,2\n", None, ("a", "Unnamed: 1", "b")),  # no separator of two characters
        ("a,,,\n1,2,3,4\n", None, ("a", "Unnamed: 1", "Unnamed: 2", "Unnamed: 3")),
        ("a,b\n1,2\n", "utf-16-le", ("a", "b")),  # no binary file
    ],
)
def test_odd_headers_and_declared_encodings_are_read(tmp_path, content, encoding, columns):
    path = tmp_path / "people.csv"
    path.write_bytes(content.encode(encoding or "utf-8"))
    options = {"encoding": encoding} if encoding else None
    assert Container.of(path, options=options).columns == columns
