"""Tables that users brought, and others of their kinds: each is right, or is told in one
sentence."""

import io
import os
import re
import subprocess
import sys
import warnings
import zipfile
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.attacks import AttackScenario, attribute_disclosure
from fedsynth_lib.release import your_table
from fedsynth_lib.release.check import compare_form
from fedsynth_lib.release.draft import Seen, propose_column, propose_schema
from fedsynth_lib.tables.form import Form, read_form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import Column, Schema

ROWS = 300
RNG = np.random.default_rng(0)
DAYS = [datetime(1999, 1, 1) + timedelta(days=int(day)) for day in RNG.integers(0, 3000, ROWS)]
TIMES = [
    day + timedelta(seconds=int(n))
    for day, n in zip(DAYS, RNG.integers(0, 86_400, ROWS), strict=True)
]
AMOUNTS = np.exp(RNG.normal(7, 1.5, ROWS))
INDEPENDENT = {"method": "independent", "epsilon": 1.0, "delta": 1e-6}


def proposed(values):
    """What a draft says of a column, and how many values come back otherwise than they were, but
    for those that it takes for missing ones."""
    raw = pd.Series(values, name="x", dtype=object).astype("category")
    column = propose_column(Seen.of(raw))
    if column.modelled is None:
        return column, 0
    read = raw if column.is_text else pd.to_numeric(raw.astype(object), errors="coerce")
    rows = Form((column,)).to_model(read.to_frame(), "t")
    back = column.texts(column.restore(rows, RNG))
    texts = raw.astype(object)
    return column, int(((back != texts) & ~texts.isin(column.missing)).sum())


def with_words(values, *words):
    """The values with some of them replaced by each word."""
    changed = list(values)
    for place, word in enumerate(words):
        changed[7 * place :: 50] = [word] * len(changed[7 * place :: 50])
    return changed


def of(form, moments=DAYS):
    return [moment.strftime(form) for moment in moments]


# --- 01, 02: dates and times ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind", "form", "question"),
    [
        (of("%d-%m-%Y"), "date", "%d-%m-%Y", ""),
        (of("%d%b%Y"), "date", "%d%b%Y", ""),
        ([t.upper() for t in of("%d%b%Y")], "date", "%d%^b%Y", ""),
        (of("%b-%y"), "date", "%b-%y", ""),
        (of("%Y-%m"), "date", "%Y-%m", ""),  # no %Y-%j, which has three digits
        (of("%a, %d %b %Y"), "date", "%a, %d %b %Y", ""),
        ([t.lstrip("0") for t in of("%d.%m.%Y")], "date", "%-d.%m.%Y", ""),
        ([f"{d.month}/{d.day}/{d.year}" for d in DAYS], "date", "%-m/%-d/%Y", ""),
        (of("%H:%M:%S", TIMES), "time", "%H:%M:%S", ""),
        ([f"{t.hour}:{t.minute:02}" for t in TIMES], "time", "%-H:%M", ""),
        ([t.lstrip("0").lower() for t in of("%I:%M %p", TIMES)], "time", "%-I:%M %P", ""),
        (of("%H.%M", TIMES), "time", "%H.%M", ""),
        (of("%H:%M:%S.250", TIMES), "time", "%H:%M:%S.%3f", ""),
        (of("%Y-%m-%dT%H:%M:%S.000Z", TIMES), "datetime", "%Y-%m-%dT%H:%M:%S.%3fZ", ""),
        (of("%Y-%m-%d %H:%M:%S.000250", TIMES), "datetime", "%Y-%m-%d %H:%M:%S.%f", ""),
        (of("%d/%m/%Y %H:%M UTC", TIMES), "datetime", "%d/%m/%Y %H:%M UTC", ""),
        # digits alone may be numbers
        (of("%Y%m%d"), "date", "%Y%m%d", "Digits that are all a valid date"),
        (of("%d%m%Y"), "date", "%d%m%Y", "Digits that are all a valid date"),
        (of("%y%m%d"), "date", "%y%m%d", "Digits that are all a valid date"),
        (of("%Y%j"), "date", "%Y%j", "Digits that are all a valid date"),
        (of("%H%M", TIMES), "time", "%H%M", "Digits that are all a valid time"),
        (of("%Y%m%d%H%M%S", TIMES), "datetime", "%Y%m%d%H%M%S", "Digits that are all a valid"),
        ([t.lstrip("0") for t in of("%d%m%Y")], "numeric", "", "day, month and year, without a"),
        ([f"{t.timestamp():.0f}" for t in TIMES], "numeric", "", "seconds since 1970"),
        ([f"{t.timestamp() * 1000:.0f}" for t in TIMES], "numeric", "", "milliseconds since 1970"),
        # what stands among them and is none
        (with_words(of("%Y-%m-%d"), "unknown"), "date", "%Y-%m-%d", "Among dates stands 'unknown'"),
        (with_words(of("%Y-%m-%d"), "0000-00-00"), "date", "%Y-%m-%d", "stands '0000-00-00'"),
        (with_words(of("%Y-%m-%d"), "9999-12-31"), "date", "%Y-%m-%d", "9999-12-31 lies far"),
        (with_words(of("%d.%m.%Y"), "01.01.1900"), "date", "%d.%m.%Y", "01.01.1900 lies far"),
        (with_words(of("%Y%m%d"), "99999999"), "date", "%Y%m%d", "Among dates stands '99999999'"),
        (
            with_words(of("%H:%M", TIMES), "24:00", "-"),
            "time",
            "%H:%M",
            "'-', '24:00'|'24:00', '-'",
        ),
        (with_words(of("%H:%M", TIMES), "99:99"), "time", "%H:%M", "Among times stands '99:99'"),
        # which are none
        ([f"1:{n % 9 + 1}" for n in range(ROWS)], "categorical", "", ""),
        ([f"{n % 40 + 1990}" for n in range(ROWS)], "numeric", "", ""),
        ([f"{n * 997 % 900_000 + 100_000}" for n in range(ROWS)], "numeric", "", "No two rows"),
    ],
)
def test_dates_and_times_are_known_and_come_back_as_they_were(values, kind, form, question):
    column, changed = proposed(values)
    assert (column.kind, column.format, changed) == (kind, form, 0)
    assert (question == "") == (column.question == "")
    assert pd.Series([column.question]).str.contains(question, regex=True).all()


def test_dates_that_are_written_in_two_ways_are_asked_about():
    days = [f"{n % 28 + 1:0{n % 2 + 1}}.01.{2000 + n % 9}" for n in range(ROWS)]
    column, changed = proposed(days)
    assert column.format == "%d.%m.%Y" and changed
    assert "1.01.2000 would come back as 01.01.2000" in column.question


def test_moments_are_drawn_as_fine_as_they_are_written(tmp_path):
    frame = pd.DataFrame({"at": of("%Y-%m-%d %H:%M:%S.250", TIMES), "x": ["a", "b"] * 150})
    made = synthesized(tmp_path, frame)["at"]
    assert made.str.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}").all()
    assert made.str[-3:].nunique() > 50


def synthesized(folder, frame, **options):
    """Synthetic rows as text, of the frame as a CSV file and a draft of its schema as it is."""
    frame.to_csv(folder / "own.csv", index=False)
    draft = propose_schema(folder / "own.csv", out=folder / "own.toml")
    asked = INDEPENDENT | {"out": folder / "out"} | options
    made = your_table.synthesize(folder / "own.csv", schema=draft, **asked)
    differs = compare_form(made.table, made.paths["rows"])["differs"]
    assert (differs[~differs.str.contains("are missing, not")] == "").all(), differs
    return pd.read_csv(made.paths["rows"], dtype=str, keep_default_na=False)


# --- 06, 14e, 18: codes, sentinels, amounts ---------------------------------------------------------


def amounts(form, values=AMOUNTS):
    return [form.format(value) for value in values]


def grouped_in_lakh(value):
    """1234567 as 12,34,567."""
    front, last = divmod(int(value), 1000)
    pairs = []
    while front >= 100:
        front, pair = divmod(front, 100)
        pairs.insert(0, f"{pair:02}")
    return ",".join([str(front), *pairs, f"{last:03}"]) if front or pairs else str(last)


NEGATIVE = [value * (-1) ** place for place, value in enumerate(AMOUNTS)]


@pytest.mark.parametrize(
    ("values", "high", "question"),
    [
        (amounts("${:,.2f}"), AMOUNTS.max(), "is this one"),
        (amounts("US$ {:,.2f}"), AMOUNTS.max(), "is this one"),
        (amounts("CHF {:.2f}"), AMOUNTS.max(), "is this one"),
        (amounts("¥{:,.0f}"), AMOUNTS.max(), "is this one"),
        ([t.replace(",", " ") for t in amounts("{:,.0f}")], AMOUNTS.max(), "is this one"),
        ([t.replace(",", "\u202f") for t in amounts("{:,.0f} €")], AMOUNTS.max(), "is this one"),
        ([t.replace(",", "'") for t in amounts("{:,.0f}")], AMOUNTS.max(), "is this one"),
        ([t.replace(",", "’") for t in amounts("{:,.2f}")], AMOUNTS.max(), "is this one"),
        ([t.translate({44: 46, 46: 44}) for t in amounts("{:,.2f} €")], AMOUNTS.max(), "is this"),
        ([t.replace(".", ",") for t in amounts("{:.1f} %")], AMOUNTS.max(), "is this one"),
        (amounts("{:.1f} mg/dL"), AMOUNTS.max(), "is this one"),
        ([grouped_in_lakh(value) for value in AMOUNTS], AMOUNTS.max(), "is this one"),
        ([f"₹{grouped_in_lakh(v)}.50" for v in AMOUNTS], AMOUNTS.max(), "is this one"),
        ([f"{n % 20 / 2:g}" for n in range(ROWS)], 9.5, ""),  # 4 beside 4.5
        ([f"{n % 80 / 4:g}" for n in range(ROWS)], 19.75, ""),
        ([f"{n % 20 / 2:g}".replace(".", ",") for n in range(ROWS)], 9.5, "is this one"),
        ([f"{n % 20 / 2:g}".replace(".", ",") + " €" for n in range(ROWS)], 9.5, "is this one"),
        ([f"{n % 60}.0" for n in range(ROWS)], 59, ""),  # as pandas writes ages with gaps
        ([f"{n % 60}.00" if n % 5 else "" for n in range(ROWS)], 59, ""),
        ([f"{n % 60 + 90}" if n % 7 else "0" for n in range(ROWS)], 149, "0 lies far from all"),
        ([f"{n % 40 / 2:.2f}".removesuffix(".00") for n in range(ROWS)], 19.5, "If they are codes"),
        (
            [f"(${-v:,.2f})" if v < 0 else f"${v:,.2f}" for v in NEGATIVE],
            max(NEGATIVE),
            "this one -",
        ),
        ([f"−{-v:.0f}" if v < 0 else f"{v:.0f}" for v in NEGATIVE], max(NEGATIVE), "this one -"),
        (with_words(amounts("${:,.2f}"), "free"), AMOUNTS.max(), "And is 'free' a missing value"),
        (with_words(amounts("{:.1f}"), "<5"), AMOUNTS.max(), "Among numbers stands '<5'"),
        (with_words(amounts("{:.3f}"), "#DIV/0!"), AMOUNTS.max(), "Among numbers stands '#DIV/0!'"),
        (with_words([f"{n % 90 / 10}" for n in range(ROWS)], "99.9"), 8.9, "99.9 lies far"),
        (with_words([f"{n % 50}" for n in range(ROWS)], "-88", "-99"), 49, "lies far from all"),
    ],
)
def test_amounts_are_numbers_and_come_back_as_they_were(values, high, question):
    column, changed = proposed(values)
    assert (column.kind, changed) == ("numeric", 0)
    assert column.high == pytest.approx(high, abs=0.5, rel=1e-3) and question in column.question


def test_three_decimals_are_no_thousands():
    column, changed = proposed([f"{n % 90 / 10:.3f}" for n in range(ROWS)])
    assert (column.high, column.written, changed) == (8.9, "0.000", 0)


def test_a_point_before_three_digits_may_stand_between_thousands():
    column, _ = proposed([t.replace(",", ".") for t in amounts("{:,.0f}")])
    assert "If it is" in column.question and 'written = "' in column.question
    assert "written" not in proposed([f"{n}.{n % 7}25" for n in range(ROWS)])[0].question


@pytest.mark.parametrize(
    ("values", "question"),
    [
        (["7E4", "12E1", "3E4"], ""),
        (["0.0", "1.0"], ""),
        (["1D5", "2D7"], ""),
        (["04.57", "12.30", "99.99"], ""),
        (["0x1F", "0xA0"], ""),
        (["Ward 3", "Ward 12", "Ward 4"], ""),
        (["1.2.3", "1.10.0"], ""),
        (["1e308", *map(str, range(60))], "Among numbers stands 1e308"),
    ],
)
def test_codes_are_no_quantities(values, question):
    column, changed = proposed(np.resize(np.array(values, dtype=object), ROWS))
    assert (column.kind, changed) == ("categorical", 0) and question in column.question
    assert set(column.categories) == set(values) and bool(question) == bool(column.question)


def test_numbers_without_a_zero_before_the_point_are_numbers():
    column, _ = proposed([f"{n % 90 / 100:.2f}"[1:] for n in range(ROWS)])
    assert (column.kind, column.high) == ("numeric", 0.89)


def test_an_empty_column_stays_and_stays_empty(tmp_path):
    frame = pd.DataFrame({"gone": "", "x": ["a", "b"] * 150, "y": np.arange(ROWS) % 40})
    made = synthesized(tmp_path, frame)
    assert list(made) == ["gone", "x", "y"] and set(made["gone"]) == {""}


# --- 07b: many categories ---------------------------------------------------------------------------


def test_many_categories_are_kept_by_name(tmp_path, capsys):
    lands = {"land": [f"L{n % 150}" for n in range(450)], "x": [n // 7 % 3 for n in range(450)]}
    frame = pd.DataFrame(lands)
    frame["code"] = [f"K{n}" for n in range(450)]
    frame.to_csv(tmp_path / "own.csv", index=False)
    path = propose_schema(tmp_path / "own.csv", out=tmp_path / "asked.toml")
    assert read_form(path).questions == ("land", "code")
    assert "write keep = true" in path.read_text(encoding="utf-8")
    text = path.read_text(encoding="utf-8").replace('name = "land"', 'name = "land"\nkeep = true')
    path.write_text(text, encoding="utf-8")
    assert read_form(path).questions == ("code",)
    asked = ["draft", str(tmp_path / "own.csv"), "--keep", "land", "--keep", "code"]
    assert commands.main(asked) == 0 and "no questions" in capsys.readouterr().err
    land, _, code = read_form(tmp_path / "internal" / "own.draft.toml").columns
    assert (len(land.categories), len(code.categories)) == (150, 450) and land.keep and code.keep
    with pytest.raises(
        BadInput, match=r"kept 'lnd' is no column of the file \(did you mean 'land'"
    ):
        propose_schema(tmp_path / "own.csv", keep=["lnd"], out=tmp_path / "x.toml")
    with pytest.raises(BadInput, match="for which 'keep' means nothing"):
        FileColumn("x", "numeric", 0, 9, keep=True)


# --- 03, 04, 05, 24, 28: types of a file -------------------------------------------------------------


def typed(**columns):
    base = {"age": pa.array(np.arange(60) % 50 + 20), "ill": pa.array(["no", "yes"] * 30)}
    return pa.table(base | columns)


MOMENTS = [datetime(2024, 3, 30, 12, tzinfo=UTC) + timedelta(hours=n) for n in range(60)]
TYPES = {
    "whole names": lambda: typed(**{"1": pa.array([3, 4] * 30)}),
    "nullable": lambda: typed(
        x=pa.array([None, 1, 2, 30, 40] * 12), b=pa.array([True, False, None] * 20)
    ),
    "small": lambda: typed(
        x=pa.array([1, 2, 30] * 20, pa.int8()), y=pa.array([0.5] * 59 + [2], pa.float32())
    ),
    "dictionary": lambda: typed(x=pa.array(["a", "b", None] * 20).dictionary_encode()),
    "time zone": lambda: typed(x=pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin"))),
    "nanoseconds": lambda: typed(
        x=pa.array([m.replace(tzinfo=None) for m in MOMENTS], pa.timestamp("ns"))
    ),
    "duration": lambda: typed(x=pa.array([timedelta(minutes=n % 7) for n in range(60)])),
    "time": lambda: typed(x=pa.array([m.time() for m in MOMENTS])),
    "date": lambda: typed(x=pa.array([m.date() for m in MOMENTS])),
    "decimal": lambda: typed(x=pa.array([f"{n}.50" for n in range(60)]).cast(pa.decimal128(9, 2))),
    "nothing": lambda: typed(x=pa.nulls(60)),
    "large text": lambda: typed(x=pa.array(["a", "b"] * 30, pa.large_string())),
    "beyond 2^53": lambda: typed(x=pa.array([2**60 + n for n in range(60)], pa.uint64())),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_parquet_come_back(tmp_path, name):
    table = TYPES[name]()
    parquet.write_table(table, tmp_path / "t.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draft = propose_schema(tmp_path / "t.parquet", target="ill", out=tmp_path / "t.toml")
        made = your_table.synthesize(
            tmp_path / "t.parquet", schema=draft, **INDEPENDENT, out=tmp_path
        )
    back = parquet.read_table(made.paths["rows"])
    kept = [field for field in table.schema if field.name not in made.table.form.left_out]
    assert [(f.name, f.type) for f in back.schema] == [(f.name, f.type) for f in kept]
    assert (name == "beyond 2^53") == ("x" in made.table.form.left_out)
    if name == "time zone":
        assert (
            min(MOMENTS) <= min(back["x"].to_pylist()) <= max(back["x"].to_pylist()) <= max(MOMENTS)
        )


def test_two_columns_of_one_name_are_told_whatever_the_file(tmp_path):
    table = pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["a", "a"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="two columns are called 'a'; rename one of them"):
        propose_schema(tmp_path / "t.parquet")


def test_a_named_index_is_a_column(tmp_path):
    frame = pd.DataFrame({"ill": ["no", "yes"] * 30}, index=pd.Index([20, 35, 41] * 20, name="age"))
    frame.to_parquet(tmp_path / "t.parquet")
    form = read_form(propose_schema(tmp_path / "t.parquet", out=tmp_path / "t.toml"))
    assert [column.name for column in form.columns] == ["ill", "age"]


def test_gaps_in_a_semicolon_file_need_no_second_reader(tmp_path):
    frame = pd.DataFrame({"age": [*range(20, 70), ""] * 6, "ill": ["no", "yes", "no"] * 102})
    frame.to_csv(tmp_path / "own.csv", index=False, sep=";")
    draft = propose_schema(tmp_path / "own.csv", out=tmp_path / "own.toml")
    made = your_table.synthesize(tmp_path / "own.csv", schema=draft, **INDEPENDENT, out=tmp_path)
    drawn = pd.read_csv(made.paths["rows"], sep=";", dtype=str, keep_default_na=False)
    assert list(drawn) == ["age", "ill"] and 0 < (drawn["age"] == "").mean() < 0.1
    assert len(load_table(made.paths["rows"], schema=draft)) == len(drawn)


# --- 10, 19, 26, 27: tables, headers, schemas, files --------------------------------------------------


def test_a_network_needs_two_columns(tmp_path):
    frame = pd.DataFrame({"age": np.arange(ROWS) % 50})
    with pytest.raises(BadInput, match="the table has 1: take a method of single columns"):
        synthesized(tmp_path, frame, method="fedbn")


def test_a_first_line_of_values_is_asked_about(tmp_path):
    frame = pd.DataFrame(
        {"52": np.arange(ROWS) % 70, "m": ["f", "m"] * 150, "1.5": [1.5, 2.5, 0.5] * 100}
    )
    frame.to_csv(tmp_path / "own.csv", index=False)
    form = read_form(propose_schema(tmp_path / "own.csv"))
    assert form.columns[0].question.startswith("The names of all columns look like values")
    years = frame.set_axis(["2001", "2002", "2003"], axis=1).assign(**{"2002": 2002})
    years.to_csv(tmp_path / "years.csv", index=False)
    assert not read_form(propose_schema(tmp_path / "years.csv")).columns[0].question


SCHEMA = (
    '[table]\ntarget = "ill"\n[[column]]\nname = "age"\nkind = "numeric"\nlow = 0\nhigh = 99\n'
    + ('[[column]]\nname = "ill"\nkind = "categorical"\ncategories = ["no", "yes"]\n')
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[table]", "[tabel]", r"part 'tabel' is unknown \(did you mean 'table'"),
        ("target =", "taget =", r"entry of \[table\] 'taget' is unknown"),
        ('"numeric"', '"Numeric"', "has kind 'Numeric'; write one of numeric"),
        ("low = 0", "low = 1e400", "low = inf; it must be a number"),
        ("high = 99", "high = nan", "high = nan; it must be a number"),
        ("high = 99", 'high = "99"', "high = '99'; it must be a number"),
        ('["no", "yes"]', '["no", "no"]', "list of different categories"),
        ("low = 0", 'low = 0\nmissing = "NA"', "missing = 'NA'; it must be a list of texts"),
        ("low = 0", "low = 0\nkeep = 1", "keep = 1; it must be true or false"),
        ('name = "ill"', 'name = "age"', "column 'age' is declared twice"),
        ("[[column]]", "[[colum]]", "part 'colum' is unknown"),
        ("low = 0", "low = 0 0", "not valid TOML"),
        ("low = 0", "low\u00a0= 0", "not valid TOML: Expected .=. after a key"),
        ('"age"', '"ag\u00a0e"', "is missing .did you mean 'age'"),
        ("[table]", "[[reader]]\nheader = true\n[[reader]]\n[table]", "write .reader. once"),
        ("[table]", "[reader]\n[reader]\n[table]", "Cannot declare .'reader',. twice"),
        (
            "[table]",
            '[reader]\nseparator = "::"\n[table]',
            "separator is '::'; write one character",
        ),
        ("[table]", '[reader]\nheader = "no"\n[table]', "header is 'no'; write true or false"),
        (
            "[table]",
            '[reader]\nencoding = "utf-99"\n[table]',
            "encoding is 'utf-99'; write a known",
        ),
    ],
)
def test_a_mistake_in_a_schema_is_one_sentence(tmp_path, old, new, message):
    pd.DataFrame({"age": [30, 40] * 30, "ill": ["no", "yes"] * 30}).to_csv(
        tmp_path / "t.csv", index=False
    )
    (tmp_path / "t.toml").write_text(SCHEMA.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=message) as refused:
        load_table(tmp_path / "t.csv", schema=tmp_path / "t.toml")
    assert "\n" not in str(refused.value).strip()


def zipped(*names, inside=b"age,ill\n1,no\n2,yes\n"):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in names:
            archive.writestr(name, inside)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            zipped("xl/workbook.xml", "[Content_Types].xml"),
            "a workbook .*save the sheet as CSV UTF-8",
        ),
        (zipped("content.xml", "mimetype"), "a workbook .Excel or OpenDocument"),
        (zipped("a.csv", "b.csv"), "a zip with 2 files in it; give the one with the table"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an Excel workbook of the old kind; save the sheet as CSV"),
        (b"$FL2@(#) SPSS", "an SPSS file; export it as CSV"),
        (b"ASCII SPSS PORT FILE", "an SPSS file; export it as CSV"),
        (b"<stata_dta><header>", "a Stata file; export it as CSV"),
        (b"r\x02\x01\x00\x02\x00<\x00", "a Stata file; export it as CSV"),
        (b"HEADER RECORD*******LIBRARY", "a SAS file; export it as CSV"),
        (b"\0" * 12 + b"\xc2\xea\x81\x60\xb3\x14", "a SAS file; export it as CSV"),
        (b"\x01\x02\0\0\x07", "a binary file and no text; export the table as CSV"),
        (b'{"age": 30, "ill": "no"}\n', "this is JSON; write the table as CSV or parquet"),
        (b"\x37\x7a\xbc\xaf\x27\x1c...", "a 7z archive; give the table in it"),
        (b"Rar!\x1a\x07\x00...", "a RAR archive; give the table in it"),
        (b"\x80\x04\x95\x10", "a pickle; write the table as CSV or parquet"),
        (b"ARROW1\x00\x00", "a feather file; write the table as parquet"),
        (b"BZh91AY&SY", "compressed with bzip2; compress the table with gzip"),
        (b"\xfd7zXZ\x00", "compressed with xz; compress the table with gzip"),
        (b"age::ill\n30::no\n41::yes\n", "has the one column 'age::ill'; write comma, semicolon"),
        (b"age||ill\n30||no\n41||yes\n", "separated by '||'; write one character between them"),
    ],
)
def test_a_file_of_another_kind_is_told_by_its_content(tmp_path, content, message):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(BadInput) as refused:
        propose_schema(tmp_path / "t")
    assert re.search(message.replace("|", "[|]"), str(refused.value))
    assert "\n" not in str(refused.value)


# --- 36d, P3: measures, whole tables ------------------------------------------------------------------


@pytest.mark.parametrize("keys", [("agee", "sex"), ("age", "sx")])
def test_an_attack_with_a_misspelt_column_is_refused(keys):
    columns = (
        Column("age", "numeric", 0, 99, True),
        *(Column(n, "categorical", categories=("a", "b")) for n in ("sex", "ill")),
    )
    rows = pd.DataFrame(
        {"age": [1, 2] * 20, "sex": ["a", "b"] * 20, "ill": ["a", "b", "b", "a"] * 10}
    )
    with pytest.raises(BadInput, match=r"there is no column .*did you mean '(age|sex)'"):
        attribute_disclosure(rows, rows, Schema(columns, "ill"), AttackScenario(keys, 2, "ill"), 0)


def test_a_table_like_diamonds_goes_through_as_it_is(tmp_path):
    """P3: a row number without a name, prices over orders of magnitude, ordered grades."""
    number = 2_000
    carat = np.round(np.exp(RNG.normal(-0.4, 0.6, number)), 2)
    frame = pd.DataFrame({"carat": carat, "cut": RNG.choice(["Fair", "Good", "Ideal"], number)})
    frame["price"] = np.rint(4_000 * carat**1.7 * np.exp(RNG.normal(0, 0.2, number))).astype(int)
    made = synthesized(tmp_path, frame.set_axis(range(1, number + 1)).reset_index(names=""))
    assert list(made) == ["carat", "cut", "price"]
    assert 0.7 < made["price"].astype(int).median() / frame["price"].median() < 1.4


def test_a_table_like_penguins_goes_through_as_it_is(tmp_path):
    """P1: a number within its study, two constants, NA in numbers and categories, a date, notes."""
    number = 330
    sizes = np.round(RNG.normal(44, 5, number), 1)
    frame = pd.DataFrame({"studyName": RNG.choice(["PAL0708", "PAL0809"], number)})
    frame["Sample Number"] = np.arange(number) % 152 + 1
    frame["Region"], frame["Stage"] = "Anvers", "Adult, 1 Egg Stage"
    frame["Individual ID"] = [f"N{n // 2}A{n % 2 + 1}" for n in range(number)]
    frame["Date Egg"] = np.resize(of("%Y-%m-%d"), number)
    frame["Culmen (mm)"] = np.where(RNG.random(number) < 0.1, "NA", sizes.astype(str))
    frame["Sex"] = RNG.choice(["FEMALE", "MALE", "NA"], number)
    frame["Comments"] = RNG.choice(["NA", "No blood sample.", "Nest never seen full."], number)
    made = synthesized(tmp_path, frame)
    form = read_form(tmp_path / "own.toml")
    assert list(made) == [name for name in frame if name not in form.left_out]
    asked = {"Individual ID", "Sex", "Comments"}
    assert set(form.questions) == asked and set(made["Region"]) == {"Anvers"}


def test_a_table_like_gapminder_keeps_its_medians(tmp_path):
    """P5: 142 categories, amounts over five orders of magnitude."""
    number = 1_704
    frame = pd.DataFrame({"country": [f"Land {n % 142}" for n in range(number)]})
    frame["pop"] = np.exp(RNG.normal(15.8, 1.6, number)).astype(int)
    frame["gdpPercap"] = np.exp(RNG.normal(8.2, 1.2, number))
    made = synthesized(tmp_path, frame)
    for name in ("pop", "gdpPercap"):
        assert 0.6 < made[name].astype(float).median() / frame[name].median() < 1.6


# --- hostile, but fair ----------------------------------------------------------------------------------


def people(number=ROWS):
    return pd.DataFrame(
        {
            "class": RNG.integers(0, 90, number),
            "lambda": RNG.choice([True, False], number),
            "naïve 😀": RNG.choice(["é", "北京"], number),
            "day": [f"2024-01-{n % 28 + 1:02}" for n in range(number)],
        }
    )


def test_sites_may_be_flags_or_days_and_names_may_be_anything(tmp_path):
    made = synthesized(tmp_path, people(), site="lambda")
    assert list(made) == list(people(2)) and set(made["lambda"]) == {"True", "False"}
    with pytest.raises(BadInput, match="site column 'day' is declared numeric"):
        (tmp_path / "own.toml").rename(tmp_path / "said.toml")
        your_table.synthesize(
            tmp_path / "own.csv", schema=tmp_path / "said.toml", **INDEPENDENT, site="day"
        )


def test_a_target_may_have_gaps(tmp_path):
    frame = people().assign(ill=[None, "no", "yes"] * 100)
    frame.to_csv(tmp_path / "own.csv", index=False)
    draft = propose_schema(tmp_path / "own.csv", target="ill", out=tmp_path / "own.toml")
    made = your_table.synthesize(tmp_path / "own.csv", schema=draft, **INDEPENDENT, out=tmp_path)
    drawn = pd.read_csv(made.paths["rows"], keep_default_na=False)["ill"]
    assert set(drawn) == {"", "no", "yes"} and abs((drawn == "").mean() - 1 / 3) < 0.1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_may_be_of_any_kind(tmp_path, end):
    text = people().to_csv(index=False, lineterminator=end)
    (tmp_path / "own.csv").write_text(
        text + text.split(end)[1] + "\n", encoding="utf-8", newline=""
    )
    draft = propose_schema(tmp_path / "own.csv", out=tmp_path / "own.toml")
    assert len(load_table(tmp_path / "own.csv", schema=draft)) == ROWS + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "0 rows tell nothing"),
        ("a,a\n1,2\n3,4\n", "two columns are called 'a'"),
        ("", "the file is empty"),
        ("\n\n\n", "the file is empty"),
        ("a,b\n1,2,3\n4,5,6\n", "more fields than there are columns"),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path, text, message, capsys):
    (tmp_path / "own.csv").write_text(text, encoding="utf-8")
    assert commands.main(["synth", str(tmp_path / "own.csv")]) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said


@pytest.mark.parametrize("where", ["/dev/null", "-", "pipe"])
def test_a_table_from_a_pipe_is_told_to_be_a_file(where, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert commands.main(["draft", where]) == 2
    assert "save the table in a file first" in capsys.readouterr().err


@pytest.mark.slow
def test_so_is_one_from_the_program_before():
    asked = [sys.executable, "-m", "fedsynth_lib", "draft", "/dev/stdin"]
    done = subprocess.run(asked, input="a,b\n1,2\n", capture_output=True, text=True)
    assert done.returncode == 2 and "save the table in a file first" in done.stderr


def test_twenty_one_rows_are_enough_and_a_wrong_number_is_believed(tmp_path):
    made = synthesized(tmp_path, people(21), declared_rows=1_000, num_clients=1)
    assert len(made) == 800
