"""Codes among values: several for "no value", numbers beyond a limit, lengths of time, odd words."""

import numpy as np
import pandas as pd
import pytest

import fedsynth_lib as fs
from fedsynth_lib.release import your_table
from fedsynth_lib.release.check import compare_form
from fedsynth_lib.release.draft import Seen, propose_column
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn

RNG = np.random.default_rng(0)
ROWS = 2_000
NUMBERS = RNG.uniform(0.05, 150, ROWS).round(2).astype(str)


def proposed(values, name="x"):
    return propose_column(Seen.of(pd.Series(values, name=name, dtype=object).astype("category")))


def among(values, **shares):
    """The values with some replaced, each word with its share."""
    chosen = np.random.default_rng(4).choice(
        ["", *shares], len(values), p=[1 - sum(shares.values()), *shares.values()]
    )
    return np.where(chosen == "", values, chosen)


@pytest.mark.parametrize(
    ("values", "kind", "said", "question"),
    [
        (
            among(NUMBERS, **{"<0.05": 0.18, ">150": 0.06}),
            "numeric",
            {"below": ("<0.05",), "above": (">150",), "missing": (), "high": 149.93},
            "numbers beyond what could be measured",
        ),
        (
            among(NUMBERS, **{"< 0.05": 0.18, "n.d.": 0.1, "refused": 0.06}),
            "numeric",
            {"below": ("< 0.05",), "missing": ("n.d.", "refused")},
            "Each keeps its share",
        ),
        (among(NUMBERS, **{"150+": 0.1}), "numeric", {"above": ("150+",)}, "'150+'"),
        (among(NUMBERS, **{"1e400": 0.001}), "numeric", {"missing": ("1e400",)}, "'1e400'"),
        (among(NUMBERS, oops=0.001), "numeric", {"missing": ("oops",)}, "'oops'"),
        (among(np.resize(["17.5", "22.0"], ROWS), oops=0.01), "categorical", {}, ""),
        (
            among(np.resize(["17.5", "22.0", "27.0", "32.0"], ROWS), oops=0.01),
            "numeric",
            {"missing": ("oops",), "steps": (17.5, 22.0, 27.0, 32.0)},
            "4 different numbers",
        ),
        ([f"{n % 90}:{n % 60:02}:59" for n in range(ROWS)], "text", {}, "Lengths of time such as"),
        ([f"{n % 90}h {n % 60}m" for n in range(ROWS)], "text", {}, "Lengths of time such as"),
        ([f"P{n % 9}DT{n % 24}H" for n in range(ROWS)], "text", {}, "Lengths of time such as"),
        ([f"{n % 9} days {n % 24:02}:00:00" for n in range(ROWS)], "text", {}, "Lengths of time"),
        (
            [f"2024-05-{n % 28 + 1:02}T10:00:00+0{n % 2 + 1}:00" for n in range(ROWS)],
            "text",
            {},
            r"several time zones (+01:00, +02:00)",
        ),
        ([100 * (n % 24) + n % 60 for n in range(ROWS)], "numeric", {}, "without a mark"),
        # a few of them longer than a day
        (
            [f"{n % 24 + 20 * (n > 1_997)}:{n % 60:02}:59" for n in range(ROWS)],
            "text",
            {},
            "Lengths of time such as",
        ),
        (
            [f"{n % 50} min" for n in range(ROWS)],
            "numeric",
            {"written": "10 min"},
            "is this one 10",
        ),
        (
            [f"2024-05-{n % 28 + 1:02} 10:00 {'CEST' if n % 2 else 'CET'}" for n in range(ROWS)],
            "text",
            {},
            "several time zones (CEST, CET)",
        ),
        (
            [f"2024-05-{n % 28 + 1:02} 10:{n % 60:02} CET" for n in range(ROWS)],
            "datetime",
            {"format": "%Y-%m-%d %H:%M CET"},
            "",
        ),
        (
            ["Male ", " Male", "male", "FEMALE"] * 99,
            "categorical",
            {"categories": ("FEMALE", "Male", "male")},
            "",
        ),
    ],
)
def test_odd_values_are_named_and_what_is_asked_is_true(values, kind, said, question):
    column = proposed(values)
    assert column.kind == kind and question in column.question
    assert {name: getattr(column, name) for name in said} == said


def test_a_draft_says_that_no_two_rows_agree_only_where_none_do():
    numbers = RNG.permutation(np.arange(5_000, 5_000 + 37 * 1_000, 37))
    assert "No two rows have the same value" in proposed(numbers).question
    shared = np.concatenate([numbers[:950], numbers[:50]])
    assert "two rows" not in proposed(shared, "income").question
    assert "Hardly two rows have the same value" in proposed(shared, "person id").question


@pytest.mark.parametrize("method", ["fedpgm", "independent"])
def test_each_code_keeps_its_share(tmp_path, method):
    shares = {"<0.05": 0.18, ">150": 0.06, "n.d.": 0.1, "refused": 0.05}
    words = {"unknown": 0.2, "not asked": 0.1}
    real = pd.DataFrame(
        {
            "lab": among(NUMBERS, **shares),
            "job": among(np.resize(["clerk", "cook", "none"], ROWS), **words),
        }
    )
    real.to_csv(tmp_path / "own.csv", index=False)
    lab = FileColumn(
        *("lab", "numeric", 0, 150),
        decimals=2,
        missing=("n.d.", "refused"),
        below=("<0.05",),
        above=(">150",),
    )
    job = FileColumn(
        "job", "categorical", categories=("clerk", "cook", "none"), missing=("unknown", "not asked")
    )
    (tmp_path / "own.toml").write_text(Form((lab, job)).to_toml())
    run = your_table.synthesize(
        tmp_path / "own.csv", method=method, epsilon=5.0, delta=1e-6, out=tmp_path / "out"
    )
    made = pd.read_csv(run.paths["rows"], keep_default_na=False)
    for name, expected in (("lab", shares), ("job", words)):
        there, drawn = (each[name].value_counts(normalize=True) for each in (real, made))
        assert drawn[list(expected)].to_dict() == pytest.approx(
            there[list(expected)].to_dict(), abs=0.025
        )
    numbers = pd.to_numeric(made["lab"], errors="coerce").dropna()
    assert numbers.between(0, 150).all() and numbers.median() == pytest.approx(75, abs=8)
    differs = compare_form(run.table, run.paths["rows"])
    assert (differs["differs"] == "").all()
    assert differs.loc["lab", "missing"] == pytest.approx(0.15, abs=0.02)


def test_codes_of_a_typed_table_are_numbers_again(tmp_path):
    column = FileColumn("kids", "numeric", 0, 9, integer=True, missing=("-9", "-8"))
    form = Form((column,))
    raw = pd.DataFrame({"kids": [1, -9, 9, -8]})
    rows = form.to_model(raw, "t")
    assert rows["kind of kids"].tolist() == ["a number", "-9", "a number", "-8"]
    assert pd.to_numeric(form.to_file(rows, RNG)["kids"]).tolist() == [1, -9, 9, -8]


def test_words_among_whole_numbers_come_back_as_a_file_has_them(tmp_path):
    """Case 113: the rows of a text file are text where they hold codes, and fit its form."""
    numbers = np.random.default_rng(1).integers(100, 200, ROWS).astype(str)
    frame = pd.DataFrame({"code": among(numbers, A12=0.1, B7=0.05), "lab": NUMBERS})
    frame.to_csv(tmp_path / "t.csv", index=False)
    schema = fs.draft(tmp_path / "t.csv")
    with pytest.warns(UserWarning, match="rows come out"):
        synthetic, _ = fs.synthesize(
            tmp_path / "t.csv", schema=schema, epsilon=5, method="independent"
        )
    assert set(synthetic["code"].map(type)) == {str}
    assert (synthetic["code"] == "A12").mean() == pytest.approx(0.1, abs=0.03)
    found = fs.check(tmp_path / "t.csv", synthetic, schema=schema)
    assert (found.form["differs"] == "").all()
