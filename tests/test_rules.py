"""Rules between columns hold in every synthetic row, and change nothing else."""

import re
import tomllib

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, BadRows
from fedsynth_lib.release import your_table
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.form import Form, form_from, read_form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.rules import Rule

RNG = np.random.default_rng(0)
ROWS = 2_000
DAYS = {"low": "2018-01-01", "high": "2022-12-31"}
ADMITTED = FileColumn("admitted", "date", **DAYS)
DISCHARGED = FileColumn("discharged", "date", **DAYS)
SEX = FileColumn("sex", "categorical", categories=("F", "M"))
STATE = FileColumn("state", "categorical", categories=("CT", "NY"))
ZIPS = tuple(f"0{n}" for n in range(6000, 6010))
ZIP = FileColumn("zip", "categorical", categories=ZIPS)
PARITY = FileColumn("parity", "numeric", 0, 12, integer=True, missing=("",))
PART, REST = (FileColumn(name, "numeric", 0, 100, decimals=2) for name in ("part", "rest"))
TOTAL = FileColumn("total", "numeric", 0, 150, decimals=2)


def hospital(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 1500, rows), unit="D")
    sex = rng.choice(["F", "M"], rows)
    part = np.minimum(rng.exponential(20, rows), 75).round(2)
    rest = np.minimum(rng.exponential(30, rows), 75).round(2)
    state = rng.choice(["CT", "NY"], rows)
    code = np.where(state == "CT", rng.integers(0, 5, rows), rng.integers(5, 10, rows))
    return pd.DataFrame(
        {
            "sex": sex,
            "admitted": admitted.strftime("%Y-%m-%d"),
            "discharged": (admitted + pd.to_timedelta(1 + rng.poisson(7, rows), unit="D")).strftime(
                "%Y-%m-%d"
            ),
            "state": state,
            "zip": np.array(ZIPS)[code],
            "parity": np.where(sex == "F", rng.poisson(1.5, rows).astype(str), ""),
            "part": part,
            "rest": rest,
            "total": (part + rest).round(2),
        }
    )


RULES = (
    Rule("admitted < discharged"),
    Rule("part + rest = total"),
    Rule(column="state", follows_from=("zip",)),
    Rule(column="parity", empty_unless="sex = F"),
)
FORM = Form((SEX, ADMITTED, DISCHARGED, STATE, ZIP, PARITY, PART, REST, TOTAL), None, (), RULES)


@pytest.mark.slow
def test_all_rules_hold_in_every_synthetic_row(tmp_path):
    real = hospital()
    real.to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "own.toml").write_text(FORM.to_toml())
    assert read_form(tmp_path / "own.toml") == FORM
    run = your_table.synthesize(tmp_path / "own.csv", epsilon=5.0, delta=1e-6, out=tmp_path / "out")
    made = pd.read_csv(run.paths["rows"], dtype={"zip": str}, keep_default_na=False)
    stays = (pd.to_datetime(made["discharged"]) - pd.to_datetime(made["admitted"])).dt.days
    assert stays.min() >= 1 and stays.median() == pytest.approx(8, abs=1)
    assert (stays <= 30).mean() > 0.95
    assert ((made["part"] + made["rest"] - made["total"]).abs() < 1e-6).all()
    assert made["total"].max() <= 150
    assert (made.groupby("zip")["state"].nunique() == 1).all()
    assert made.groupby("zip")["state"].first().to_dict() == {
        code: "CT" if code < "06005" else "NY" for code in ZIPS
    }
    assert (made["parity"][made["sex"] == "M"] == "").all()
    assert (made["parity"] == "").mean() == pytest.approx((real["parity"] == "").mean(), abs=0.04)
    assert (made["state"] == "CT").mean() == pytest.approx((real["state"] == "CT").mean(), abs=0.04)
    told = [line for line in run.run.statement["public_inputs"] if line.startswith("the rule that")]
    assert sum("each row that is learned from" in line for line in told) == 1
    assert len(told) == 4 and told[0] == (
        "the rule that admitted < discharged: every synthetic row is made to keep it, which costs no "
        "epsilon, and so is each row that is learned from"
    )
    assert run.run.statement["epsilon"] <= 5.0
    counted = pd.read_csv(your_table.write_scores(run)[0], index_col=0)
    line = counted.loc["rule: admitted < discharged, share of rows"]
    assert (line["synthetic"], line["yardstick"]) == (1.0, 1.0)


def settled(columns, rules, frame):
    """Synthetic rows, drawn evenly over the declared ranges, in the form of the file."""
    form = Form(columns, None, (), rules)
    return form.to_file(form.to_model(frame, "t", []), RNG)


def even(columns, rows=400):
    form, rng = Form(columns), np.random.default_rng(5)
    drawn = {}
    for column in form.schema.columns:
        if column.kind == "categorical":
            codes = rng.integers(len(column.categories), size=rows)
            drawn[column.name] = pd.Categorical.from_codes(codes, list(column.categories))
        else:
            values = rng.uniform(column.low, column.high, rows)
            drawn[column.name] = np.rint(values) if column.integer else values
    return form.to_file(pd.DataFrame(drawn), rng)


@pytest.mark.parametrize(
    ("columns", "rule", "holds"),
    [
        (
            (ADMITTED, DISCHARGED),
            Rule("discharged >= admitted"),
            lambda f: f["admitted"] <= f["discharged"],
        ),
        (
            tuple(
                FileColumn(n, "numeric", *ends, True)
                for n, *ends in (("a", 0, 9), ("b", 5, 20), ("c", 0, 12))
            ),
            Rule("a <= b <= c"),
            lambda f: (f["a"] <= f["b"]) & (f["b"] <= f["c"]),
        ),
        (
            (
                FileColumn("a", "numeric", 0, 90, heaps=(95,), missing=("",)),
                FileColumn("b", "numeric", 0, 99, step=9, heaps=(5,)),
            ),
            Rule("a <= b"),
            lambda f: (f["a"] <= f["b"]) | f["a"].isna(),
        ),
        (
            (PART, REST, TOTAL),
            Rule("total = part + rest"),
            lambda f: (f["part"] + f["rest"] - f["total"]).abs() < 1e-9,
        ),
        (
            (ADMITTED, FileColumn("days", "numeric", 0, 90, integer=True), DISCHARGED),
            Rule("admitted + days = discharged"),
            lambda f: (
                (pd.to_datetime(f["discharged"]) - pd.to_datetime(f["admitted"])).dt.days
                == f["days"]
            ),
        ),
        (
            (SEX, PARITY),
            Rule(column="parity", empty_unless="sex != M"),
            lambda f: f["parity"].isna() | (f["sex"] == "F"),
        ),
        (
            (
                FileColumn("age", "numeric", 0, 99, integer=True),
                FileColumn("job", "categorical", categories=("x", "child")),
            ),
            Rule(column="job", empty_unless="age >= 16", code="child"),
            lambda f: (f["age"] >= 16) | (f["job"] == "child"),
        ),
        (
            (ZIP, STATE),
            Rule(
                column="state", follows_from=("zip",), groups=(("NY", ZIPS[:3]), ("CT", ZIPS[3:]))
            ),
            lambda f: (f["state"] == "NY") == f["zip"].isin(ZIPS[:3]),
        ),
        (
            (ZIP, FileColumn("height", "numeric", 0, 900, decimals=0)),
            Rule(column="height", follows_from=("zip",)),
            lambda f: f.groupby("zip", observed=True)["height"].transform("nunique") == 1,
        ),
    ],
)
def test_each_kind_of_rule_holds_whatever_a_method_draws(columns, rule, holds):
    frame = even(columns)
    assert not holds(frame).all()
    made = settled(columns, (rule,), frame)
    assert holds(made).all()
    shares = Form(columns, None, (), (rule,)).rules_held(frame)
    if not rule.follows_from:
        assert shares[str(rule)] == pytest.approx(holds(frame).mean())
    assert Form(columns, None, (), (rule,)).rules_held(made) == {str(rule): 1.0}


def test_rows_that_keep_a_rule_come_back_as_they_were():
    real = hospital(200)
    raw = pd.DataFrame({name: real[name] for name in FORM.names})
    back = FORM.to_file(FORM.to_model(raw, "t"), RNG)
    for name in ("admitted", "discharged", "state", "zip", "part", "rest", "total"):
        assert (
            back[name].tolist() == pytest.approx(real[name].tolist())
            if name in ("part", "rest", "total")
            else back[name].tolist() == real[name].tolist()
        )


def test_a_row_that_breaks_a_rule_is_refused_or_moved():
    form = Form((ADMITTED, DISCHARGED), None, (), (Rule("admitted <= discharged"),))
    raw = pd.DataFrame({"admitted": ["2020-01-05", "2020-01-01"], "discharged": ["2020-01-01"] * 2})
    with pytest.raises(
        BadRows, match=r"'discharged' holds a value below that of 'admitted'.*\(row 1\)"
    ):
        form.to_model(raw, "t")
    moved = []
    form.to_model(raw, "t", moved)
    assert len(moved) == 1 and "which counts as equal" in moved[0]
    assert form.rules_held(raw) == {"admitted <= discharged": 0.5}


COLUMNS = """
[[column]]
name = "admitted"
kind = "date"
low = 2018-01-01
high = 2022-12-31
[[column]]
name = "discharged"
kind = "date"
low = 2018-01-01
high = 2022-12-31
[[column]]
name = "age"
kind = "numeric"
integer = true
low = 0
high = 99
[[column]]
name = "old"
kind = "numeric"
low = 100
high = 120
[[column]]
name = "sex"
kind = "categorical"
categories = ["F", "M"]
[[column]]
name = "note"
kind = "text"
"""


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            'holds = "admited <= discharged"',
            "names 'admited', which is not a declared column (did you mean 'admitted'?)",
        ),
        (
            'holds = "admitted <= age"',
            "compares 'admitted', of kind 'date', with 'age', of kind 'numeric'",
        ),
        ('holds = "sex <= age"', "compares 'sex', which is categorical and has no order"),
        ('holds = "note <= age"', "is about 'note', which is of kind 'text'"),
        ('holds = "old <= age"', "cannot hold: 'old' begins at 100, and 'age' ends at 99"),
        ('holds = "admitted"', "is not understood"),
        ('holds = "admitted <= discharged = age"', "is not understood"),
        ('holds = "admitted + discharged = age"', "compares 'age', of kind 'numeric'"),
        ('holds = "age + age = age"', "go in a circle"),
        (
            'holds = "admitted <= discharged"\n[[rule]]\nholds = "discharged <= admitted"',
            "go in a circle",
        ),
        ("holds = 5", "holds = 5; it must be text"),
        ('hold = "admitted <= discharged"', "unknown entry 'hold' (did you mean 'holds'?)"),
        ('column = "sex"', "is not one of the kinds that there are"),
        (
            'column = "sex"\nfollows_from = "agee"',
            "names 'agee', which is not a declared column (did you mean",
        ),
        (
            'column = "sex"\nfollows_from = "age"\ngroups = {Z = ["1"]}',
            "has 'Z' in groups, which is not a category",
        ),
        (
            'column = "sex"\nfollows_from = "age"\ngroups = {F = ["1"], M = ["1"]}',
            "has '1' in two of its groups",
        ),
        ('column = "age"\nempty_unless = "sex = F"', "needs a way to write an empty cell"),
        ('column = "sex"\nempty_unless = "age > x"\ncode = "F"', "compares 'age' with 'x'"),
        (
            'column = "sex"\nempty_unless = "age > 5"\ncode = "X"',
            "has code = 'X', which 'sex' does not declare",
        ),
        ('column = "age"\nempty_unless = "sex = W"', "names 'W', which is not a category of 'sex'"),
    ],
)
def test_a_rule_that_means_nothing_is_one_sentence(rule, message):
    document = tomllib.loads(f"{COLUMNS}\n[[rule]]\n{rule}\n")
    with pytest.raises(BadInput, match=re.escape(message)) as error:
        form_from(document, "my.toml")
    assert str(error.value).startswith("my.toml") and "\n" not in str(error.value)


def test_a_draft_asks_about_rules_that_hold_in_all_rows(tmp_path):
    real = hospital(600)
    real["flag"] = np.random.default_rng(9).choice(["x", "y"], len(real))
    real.to_csv(tmp_path / "own.csv", index=False)
    text = propose_schema(tmp_path / "own.csv").read_text("utf-8")
    form = form_from(tomllib.loads(text), "draft")
    assert {str(rule) for rule in form.rules} == {
        "admitted < discharged",
        "part + rest = total",
        "state follows from zip",
        "parity is empty unless sex = F",
    }
    assert all(rule.question for rule in form.rules)
    assert "A [[rule]] holds in all rows of the file" in text
    (state,) = (rule for rule in form.rules if rule.follows_from)
    assert state.groups == (("CT", ZIPS[:5]), ("NY", ZIPS[5:]))
    assert set(form.questions) >= {str(rule) for rule in form.rules}
    (tmp_path / "d.toml").write_text(text, "utf-8")
    with pytest.raises(BadInput, match="the draft asks about"):
        your_table.places(
            load_table(tmp_path / "own.csv", schema=tmp_path / "d.toml"), "quick", release=True
        )
