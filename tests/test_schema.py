"""Declared schemas, the checks of a frame against them, and the draft for an own table."""

import re

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.form import Form, read_form
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import (
    READ_FROM_ROWS,
    Column,
    Schema,
    check_clients,
    validate,
)

AGE = Column("age", "numeric", low=0, high=120, integer=True, source="years")
DOSE = Column("dose", "numeric", low=-1.5, high=1e6)
SEX = Column("sex", "categorical", categories=("female", "male", "1"))
ILL = Column("ill", "categorical", categories=("no", "yes"))
SCHEMA = Schema((AGE, DOSE, SEX, ILL), target="ill")


def frame(**columns):
    good = {
        "age": [30, 40, 50],
        "dose": [0.5, -1.5, 1e6],
        "sex": ["male", "female", 1.0],
        "ill": ["yes", "no", "no"],
    }
    return pd.DataFrame(good | columns)


def test_schema_answers_by_name():
    assert SCHEMA.names == ("age", "dose", "sex", "ill")
    assert (SCHEMA.numeric, SCHEMA.categorical) == (("age", "dose"), ("sex", "ill"))
    assert SCHEMA["dose"] is DOSE
    with pytest.raises(BadInput, match=r"no column 'agee' \(did you mean 'age'\?\)"):
        SCHEMA["agee"]


def test_drop_and_rename_keep_the_target_right():
    assert SCHEMA.drop(["dose"]) == Schema((AGE, SEX, ILL), "ill")
    assert SCHEMA.drop(["ill"]).target is None
    renamed = SCHEMA.rename({"ill": "disease"})
    assert (renamed.names[-1], renamed.target, renamed["disease"].categories) == (
        "disease",
        "disease",
        ("no", "yes"),
    )
    with pytest.raises(BadInput, match="no column 'nothing'"):
        SCHEMA.drop(["nothing"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Column("a", "number", low=0, high=1), "'numeric' or 'categorical'"),
        (lambda: Column("a", "numeric", low=1, high=1), "low < high"),
        (lambda: Column("a", "numeric", low=1), "low < high"),
        (
            lambda: Column("a", "numeric", low=0, high=1, categories=("x",)),
            "numeric and has categories",
        ),
        (lambda: Column("a", "categorical"), "different categories"),
        (lambda: Column("a", "categorical", categories=("x", "x")), "different categories"),
        (lambda: Column("a", "categorical", categories=("x", 1)), "not text"),
        (lambda: Schema((AGE, AGE)), "'age' is declared twice"),
        (lambda: Schema((AGE,), target="ill"), "target 'ill'"),
    ],
)
def test_impossible_declarations_are_refused(wrong, message):
    with pytest.raises(BadInput, match=message):
        wrong()


def test_toml_round_trip(tmp_path):
    odd = Column(
        'a "quoted" \\ name',
        "categorical",
        categories=("tab\t", "é", "'", '"'),
        source="line\nbreak",
    )
    schema = Schema((*SCHEMA.columns, odd), "ill")
    (tmp_path / "s.toml").write_text(Form.of(schema).to_toml(), encoding="utf-8")
    assert read_form(tmp_path / "s.toml").schema == schema


def test_validate_gives_the_declared_types_in_order():
    got = validate(
        frame(extra=1)[["extra", "ill", "sex", "dose", "age"]].set_index("age", drop=False),
        SCHEMA,
        "t",
    )
    assert list(got.columns) == list(SCHEMA.names)
    assert isinstance(got.index, pd.RangeIndex)
    assert (got["age"].dtype, got["dose"].dtype) == (np.int64, np.float64)
    assert got["age"].tolist() == [30, 40, 50]
    assert got["sex"].cat.categories.tolist() == ["female", "male", "1"]
    assert got["sex"].cat.codes.tolist() == [1, 0, 2]  # the number 1.0 stands for '1'
    assert got["ill"].cat.codes.tolist() == [1, 0, 0]
    pd.testing.assert_frame_equal(validate(got, SCHEMA, "t"), got)


@pytest.mark.parametrize("dtype", ["int8", "float32", "Int64", "object", "string", "category"])
def test_numbers_may_be_stored_in_any_way(dtype):
    assert validate(frame(age=pd.array([30, 40, 50]).astype(dtype)), SCHEMA, "t")[
        "age"
    ].tolist() == [30, 40, 50]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"age": [30, 40, 121]},
            r"t\.csv: column 'age' holds a value outside the declared range 0 to 120 \(row 3\); cor",
        ),
        ({"dose": [0, 1, -1.6]}, r"'dose' holds a value outside .* \(row 3\)"),
        ({"dose": [0, 1, np.inf]}, r"'dose' holds a value outside .* \(row 3\)"),
        (
            {"age": [30, 40, 50.5]},
            r"'age' holds a number that is not whole \(row 3\); remove 'integer'",
        ),
        (
            {"age": [30, "old", 50]},
            r"'age' holds something that is not a number \(row 2\); correct",
        ),
        ({"age": [30, None, 50]}, "'age' has 1 missing values; fill in or drop"),
        ({"age": [30, "", 50]}, "'age' has 1 missing values; fill in or drop"),
        ({"age": [None, None, None]}, "'age' is empty"),
        ({"sex": [None, None, None]}, "'sex' is empty"),
        ({"sex": ["male", None, "female"]}, "'sex' has 1 missing values"),
        (
            {"sex": ["male", "femal", "female"]},
            r"'sex' holds something that is not a declared category \(row 2\); correct",
        ),
    ],
)
def test_bad_rows_are_named(columns, message):
    with pytest.raises(BadInput, match=message):
        validate(frame(**columns), SCHEMA, "t.csv")


def test_missing_columns_and_rows_are_named():
    with pytest.raises(BadInput, match=r"column 'dose' is missing \(did you mean 'doses'\?\)"):
        validate(frame().rename(columns={"dose": "doses"}), SCHEMA, "t")
    with pytest.raises(BadInput, match="t: the table has no rows"):
        validate(frame()[:0], SCHEMA, "t")


def test_a_column_of_one_value_is_a_column():
    """To refuse it would tell that everybody has the same."""
    same = validate(frame(dose=[2, 2, 2], ill=["no"] * 3), SCHEMA, "t")
    assert same["dose"].tolist() == [2, 2, 2] and same["ill"].nunique() == 1


def test_clients_need_rows():
    check_clients(3, 3, "t")
    with pytest.raises(BadInput, match="t: 3 rows cannot be shared among 4 clients"):
        check_clients(3, 4, "t")
    with pytest.raises(BadInput, match="num_clients is 0"):
        check_clients(3, 0, "t")


@pytest.fixture
def own(tmp_path):
    """A semicolon file as a spreadsheet writes it."""
    lines = [
        f"{20 + row};{row / 4};{'no' if row % 3 else 'yes'};{row % 2 + 1}" for row in range(40)
    ]
    path = tmp_path / "own.csv"
    path.write_text("age;dose;ill;group\n" + "\n".join(lines) + "\n")
    return path


def test_a_proposed_schema_loads_and_says_what_it_discloses(own):
    draft = propose_schema(own, target="ill")
    text = draft.read_text()
    assert re.search(r"DRAFT.*\n.*information about the people", text)
    schema = read_form(draft).schema
    assert schema.target == "ill"
    assert schema["age"] == Column(
        "age", "numeric", low=20, high=59, integer=True, source=READ_FROM_ROWS
    )
    dose = next(column for column in read_form(draft).columns if column.name == "dose")
    assert (dose.low, dose.high, dose.step) == (0.0, 9.75, 0.25)
    assert "All lie a multiple of 0.25 apart: are these steps?" in dose.question
    assert schema["group"].categories == ("1", "2")
    table = load_table(own, schema=draft)
    assert (table.frame.shape, table.data, table.key) == ((40, 4), "own", "own")
    assert dose.amounts(table.frame).iloc[-1] == 9.75
    with pytest.raises(BadInput, match=r"own\.draft\.toml exists already"):
        propose_schema(own)
