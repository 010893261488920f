"""A DataFrame in, a DataFrame out: the same code as the commands, the same types, and one sentence
for whatever cannot be."""

import doctest
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsynth_lib as fs
from fedsynth_lib.bundle import commands
from fedsynth_lib.core import ledger
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.ledger import Refused
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.release import frames, progress, saved, your_table
from fedsynth_lib.tables.load import load_table

ROWS = 300


def people(**columns):
    rng = np.random.default_rng(0)
    frame = {"age": rng.integers(20, 90, ROWS), "dose": rng.normal(3, 1, ROWS).round(2)}
    frame |= {"sex": rng.choice(["f", "m"], ROWS), "ill": rng.choice(["no", "yes"], ROWS)}
    return pd.DataFrame(frame | columns)


SCHEMA = """
[table]
target = "ill"
[[column]]
name = "age"
kind = "numeric"
low = 0
high = 120
integer = true
[[column]]
name = "dose"
kind = "numeric"
low = -5
high = 20
decimals = 2
[[column]]
name = "sex"
kind = "categorical"
categories = ["f", "m"]
[[column]]
name = "ill"
kind = "categorical"
categories = ["no", "yes"]
"""
ASKED = {"epsilon": 1.0, "method": "independent", "schema": SCHEMA}


def synthesized(frame, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fs.synthesize(frame, **ASKED | options)


def test_the_five_lines_work_as_they_are(home, monkeypatch):
    """Nothing but a DataFrame and epsilon; what was not said is told, and nothing is written."""
    monkeypatch.chdir(home)
    with pytest.warns(UserWarning) as told:
        synthetic, statement = fs.synthesize(people(id=range(10_001, 10_301)), epsilon=1)
    (said,) = (str(each.message) for each in told if "FedPGM" not in str(each.message))
    assert "no schema was given" in said and "the draft asks about id: " in said
    assert f"{len(synthetic)} rows come out" in said and "four fifths" in said
    assert tuple(said.split("\n")) == statement.notes
    assert statement["epsilon"] is None and statement["budget"] == 1
    assert "ranges and categories read from the rows" in str(statement)
    assert not list(home.rglob("*"))


def visits(persons=800):
    """Two stays of each person, with a date that follows another one, gaps, and zeros."""
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(persons), 2)
    start = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, len(who)), unit="D")
    days, paid = rng.integers(0, 15, len(who)), rng.normal(300, 80, len(who)).round(2).clip(1)
    sbp = pd.array((120 + 2 * days + rng.normal(0, 9, len(who))).round(), dtype="Int64")
    sbp[rng.random(len(who)) < 0.25] = None
    return pd.DataFrame(
        {
            "patient": 10_001 + who,
            "sex": rng.choice(["f", "m"], persons)[who],
            "admitted": start,
            "discharged": start + pd.to_timedelta(days, unit="D"),
            "sbp": sbp,
            "paid": np.where(rng.random(len(who)) < 0.4, 0.0, paid),
        }
    )


@pytest.mark.slow
def test_five_lines_on_dates_gaps_a_heap_a_rule_and_two_rows_of_each_person(home):
    df = visits()
    assert "do several rows belong to one person?" in fs.draft(df)
    with pytest.warns(UserWarning, match="the draft asks about rule admitted <= discharged: "):
        fs.synthesize(df, epsilon=1, method="independent")
    schema = fs.draft(df, unit="patient", most_rows=2)
    with pytest.warns(UserWarning):
        synthetic, statement = fs.synthesize(df, schema=schema, epsilon=5)
    found = fs.check(df, synthetic, schema=schema, analyses=["mean(sbp)", "mean(paid)"])
    assert (found.form["differs"] == "").all() and len(found.verdicts) == 2
    assert "one person?" not in schema and 'holds = "admitted <= discharged"' in schema
    assert statement["unit"] == "one person with up to 2 rows" and statement["budget"] == 5
    pd.testing.assert_series_equal(synthetic.dtypes, df.drop(columns="patient").dtypes)
    assert (synthetic["admitted"] <= synthetic["discharged"]).all()
    assert synthetic["admitted"].min() >= df["admitted"].min()
    assert (synthetic["paid"] == 0).mean() == pytest.approx(0.4, abs=0.06)
    assert synthetic["sbp"].isna().mean() == pytest.approx(0.25, abs=0.06)
    assert synthetic["sex"].eq("f").mean() == pytest.approx(df["sex"].eq("f").mean(), abs=0.06)
    assert len(synthetic) == statement["num_rows"] == pytest.approx(0.8 * len(df), rel=0.1)
    for column, analysis in {"sbp": "mean(sbp)", "paid": "mean(paid)"}.items():
        line = found.analyses.set_index("analysis").loc[analysis]
        assert line["synthetic"] == pytest.approx(float(synthetic[column].mean()))
        assert line["real"] == pytest.approx(float(df[column].mean()))


def test_it_is_what_the_command_makes_of_the_same_rows(home):
    frame = people()
    frame.to_parquet(home / "t.parquet")
    (home / "t.toml").write_text(SCHEMA)
    options = {"epsilon": 2.0, "seed": 5, "num_clients": 3}
    made = your_table.synthesize(home / "t.parquet", out=home, **options)
    synthetic, statement = synthesized(frame, method="fedpgm", **options)
    written = pd.read_parquet(made.paths["rows"])
    pd.testing.assert_frame_equal(synthetic, written)
    assert dict(statement) == made.run.statement
    assert str(statement) == made.text.replace(" in t_rehearsal.parquet", "")
    by_path, _ = fs.synthesize(home / "t.parquet", method="fedpgm", **options)
    pd.testing.assert_frame_equal(by_path, synthetic)


def rich():
    rng, every = np.random.default_rng(1), pd.date_range("2020-01-01", periods=ROWS)
    gap = rng.random(ROWS) < 0.2
    cut = pd.Categorical(rng.choice(["lo", "hi"], ROWS), ["lo", "mid", "hi"], ordered=True)
    columns = {
        "int8": rng.integers(0, 100, ROWS).astype("int8"),
        "float32": rng.normal(size=ROWS).astype("float32"),
        "Int64": pd.array(rng.integers(0, 60, ROWS), dtype="Int64"),
        "Float64": pd.array(rng.random(ROWS), dtype="Float64"),
        "bool": rng.random(ROWS) < 0.3,
        "boolean": pd.array(rng.random(ROWS) < 0.3, dtype="boolean"),
        "string": pd.array(rng.choice(["u", "v"], ROWS), dtype="string"),
        "string[pyarrow]": pd.array(rng.choice(["u", "v"], ROWS), dtype="string[pyarrow]"),
        "int64[pyarrow]": pd.array(rng.integers(0, 60, ROWS), dtype="int64[pyarrow]"),
        "ordered": cut,
        "numbered": pd.Categorical(rng.choice([1, 2, 5], ROWS)),
        "day": every,
        "seconds": every.as_unit("s"),
        "moment": pd.date_range("2020-01-01 08:00", periods=ROWS, freq="37min"),
        "zone": pd.date_range("2020-01-01 08:00", periods=ROWS, freq="7h", tz="Europe/Berlin"),
        "span": pd.to_timedelta(rng.integers(0, 5000, ROWS), unit="s"),
        "date": every.date,
    }
    frame = pd.DataFrame(columns)
    for name in ("Int64", "boolean", "string", "day", "float32"):
        frame.loc[gap, name] = None
    return frame.rename(columns={"int8": 7}).set_index(pd.Index(range(5, 5 + ROWS), name="pid"))


@pytest.mark.slow
def test_dtypes_and_labels_stay_and_the_index_is_fresh(home):
    frame = rich()
    with pytest.warns(UserWarning, match="the index 'pid' is not modelled: df.reset_index()"):
        synthetic, _ = fs.synthesize(frame, epsilon=50, method="independent", rows=60)
    pd.testing.assert_series_equal(synthetic.dtypes, frame.dtypes)
    assert synthetic.index.equals(pd.RangeIndex(60))
    assert synthetic["ordered"].cat.categories.equals(frame["ordered"].cat.categories)
    gaps = synthetic.isna().any()
    assert set(gaps.index[gaps]) == {"Int64", "boolean", "string", "day", "float32"}
    assert {type(day) for day in synthetic["date"]} == {type(frame["date"].iloc[0])}
    form = fs.check(frame, synthetic).form
    assert (form["differs"] == "").all(), form


def test_gaps_are_as_they_were(home):
    """A code stays the code; whole numbers that get gaps have the nullable dtype."""
    frame = people()
    frame.loc[:60, "age"] = -9
    for missing in ("['-9']", "['', '-9']"):
        schema = SCHEMA.replace("integer = true", f"integer = true\nmissing = {missing}")
        synthetic, _ = synthesized(frame, schema=schema, epsilon=50)
        assert synthetic["age"].dtype == "int64" and 0.1 < (synthetic["age"] == -9).mean() < 0.3
    frame["age"] = frame["age"].astype("Int64")
    frame.loc[200:, "age"] = None
    synthetic, _ = synthesized(frame, schema=schema, epsilon=50)
    assert synthetic["age"].dtype == "Int64" and 0.1 < (synthetic["age"] == -9).mean() < 0.4
    assert 0.1 < synthetic["age"].isna().mean() < 0.5


# --- a release -----------------------------------------------------------------------------------


RELEASE = {"release": True, "declared_rows": ROWS, "population": "ward"}


def test_a_release_is_in_the_books_and_its_rows_are_known_in_any_form(home, monkeypatch):
    (home / "here").mkdir()
    monkeypatch.chdir(home / "here")
    frame = people()
    synthetic, statement = synthesized(frame, **RELEASE)
    assert statement["epsilon"] == pytest.approx(1.0) and len(synthetic) == 240
    assert ledger.open_ledger("ward").total().epsilon == pytest.approx(1.0)
    assert not list((home / "here").iterdir()) and statement.files == {}
    turned = frame.sample(frac=1, random_state=1)[["ill", "sex", "dose", "age"]]
    with pytest.raises(Refused, match="these rows were released once before"):
        synthesized(turned, **RELEASE)
    frame.to_csv(home / "t.csv", index=False)
    (home / "t.toml").write_text(SCHEMA)
    with pytest.raises(Refused, match="these rows were released once before"):
        your_table.synthesize(home / "t.csv", epsilon=1.0, release=True, declared_rows=ROWS)
    _, again = synthesized(frame, **RELEASE, again=True)
    assert "2 releases of the same rows" in str(again)
    synthesized(frame[1:], **RELEASE)  # other rows of the same population, by its name
    assert ledger.open_ledger("ward").total().epsilon == pytest.approx(3.0)
    with pytest.raises(Refused, match="3 releases have spent epsilon 3"):
        synthesized(frame[2:], **RELEASE)


def test_files_are_written_where_they_are_asked_for(home):
    out, model = home / "out", home / "m.fedsynth"
    synthetic, statement = synthesized(people(), **RELEASE, out=out, save_model=model)
    assert {path.name for path in out.iterdir()} == {
        *("table_release1.parquet", "table_release1_privacy.md"),
        *("table_release1_privacy.html", "table_release1_privacy.json"),
    }
    pd.testing.assert_frame_equal(pd.read_parquet(statement.files["rows"]), synthetic)
    again = fs.load_model(model).sample()
    pd.testing.assert_frame_equal(again, synthetic)
    assert len(fs.load_model(model).sample(7, seed=3)) == 7


@pytest.mark.parametrize(
    "options, message",
    [
        ({"population": ""}, "population is empty: a DataFrame has no name"),
        ({"schema": None}, "age, dose, sex, ill are read from the rows; declare them"),
        ({"schema": SCHEMA + 'question = "Both?"\n'}, "the draft asks about ill"),
    ],
)
def test_a_release_is_refused_before_it_is_begun(options, message, home):
    with pytest.raises(BadInput, match=message):
        synthesized(people(), **RELEASE | options)
    assert not list(home.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("during", "options", "told", "spent"),
    [
        ("run", "release", "counts as epsilon 1, .* of population 'ward'", 1.0),
        ("run", "rehearsal", "stopped before a release had begun: no budget is spent", 0.0),
        ("split", "release", "stopped before a release had begun: no budget is spent", 0.0),
    ],
)
def test_a_run_that_is_stopped_says_what_it_counts_as(
    home, monkeypatch, during, options, told, spent
):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(your_table, during, stopped)
    with pytest.warns(UserWarning, match=told), pytest.raises(KeyboardInterrupt):
        fs.synthesize(people(), **ASKED | (RELEASE if options == "release" else {}))
    assert ledger.open_ledger("ward").total().epsilon == spent


@pytest.mark.parametrize(
    ("options", "delta", "told"),
    [
        ({"declared_rows": 100_000}, 1e-6, ""),
        (
            {"declared_rows": 1_000_000},
            1e-7,
            "delta, 1e-06, is lowered to 1e-07, for 1,000,000 rows were declared",
        ),
        ({"declared_rows": 1_000_000, "delta": 1e-7}, 1e-7, ""),
        ({"declared_rows": 300, "delta": 1e-3}, 1e-3, ""),
        (
            {"delta": 1e-3, "declared_rows": ()},
            1e-3,
            "delta 0.001 is not far below 1 / rows, and a release is refused",
        ),
    ],
)
def test_the_default_delta_is_far_below_one_over_the_declared_rows(home, options, delta, told):
    with pytest.warns(UserWarning):
        _, statement = fs.synthesize(people(), **ASKED | RELEASE | options)
    assert statement["delta"] == delta
    assert told in "\n".join(statement.notes) and ("delta" in told) == any(
        "delta" in note for note in statement.notes
    )


def test_a_rehearsal_of_many_rows_lowers_the_default_delta_and_refuses_another_one(home):
    many = pd.concat([people()] * 500, ignore_index=True)
    with pytest.warns(UserWarning, match="lowered to 1e-07 in this rehearsal. For a release, say"):
        _, statement = fs.synthesize(many, **ASKED)
    assert statement["delta"] == 1e-7
    with pytest.raises(Refused, match=r"give one far below 6.7e-06, as 150000 rows were counted"):
        fs.synthesize(many, **ASKED, delta=1e-5)


def test_a_release_says_which_columns_have_no_source(home):
    sourced = SCHEMA.replace('kind = "numeric"', 'kind = "numeric"\nsource = "code book"')
    with pytest.warns(UserWarning, match="no source is given for sex, ill: the release takes"):
        fs.synthesize(people(), **ASKED | RELEASE | {"schema": sourced})


def test_what_a_long_run_has_shown_is_wiped_off_at_its_end(monkeypatch, capsys):
    """Also where the run was still short when its first stage began."""
    monkeypatch.setattr(progress, "SHORT", 0.05)
    monkeypatch.setattr(progress, "watched", lambda: True)
    with progress.stages(time.time()) as begin:
        time.sleep(0.06)
        begin("learning", progress.LEARNS)
    shown = capsys.readouterr().err
    assert "learning" in shown and shown.endswith(" \r")


def test_a_long_run_shows_how_much_is_left_where_somebody_watches(monkeypatch, capsys):
    for seconds, is_watched, lines in ((1e-9, True, 3), (9e9, True, 0), (1e-9, False, 0)):
        monkeypatch.setattr(progress, "SHORT", seconds)
        monkeypatch.setattr(progress, "watched", lambda is_watched=is_watched: is_watched)
        synthesized(people())
        assert capsys.readouterr().err.count(" left") == lines


# --- so many rows, and with these values ---------------------------------------------------------


def test_rows_and_values_cost_nothing(home):
    asked = [{}, {"rows": 50}, {"rows": 70, "where": {"ill": "yes", "sex": "m"}}]
    made = [synthesized(people(), method="fedpgm", **options) for options in asked]
    rows = [len(frame) for frame, _ in made]
    assert rows[1:] == [50, 70] and rows[0] == made[0][1]["num_rows"]
    assert set(made[2][0]["ill"]) == {"yes"} and set(made[2][0]["sex"]) == {"m"}
    assert made[0][1]["entries"] == made[1][1]["entries"] == made[2][1]["entries"]
    assert "70 synthetic rows, all drawn given ill = 'yes' and sex = 'm'" in str(made[2][1])


def test_more_rows_are_no_matter_of_the_true_number(home):
    """A row more in the table changes no number of rows that is asked for."""
    frame = people()
    sizes = [len(synthesized(each, rows=90)[0]) for each in (frame, frame[:-40])]
    assert sizes == [90, 90]


def dependent(rows=4_000):
    rng = np.random.default_rng(3)
    fraud = rng.random(rows) < 0.05
    amount = np.where(fraud, rng.integers(60, 100, rows), rng.integers(0, 70, rows))
    hour = pd.array(np.where(rng.random(rows) < 0.3, 0, rng.integers(1, 24, rows)), dtype="Int64")
    hour[rng.random(rows) < 0.1] = None
    return pd.DataFrame({"amount": amount, "hour": hour, "fraud": np.where(fraud, "yes", "no")})


@pytest.mark.parametrize("method", ["fedpgm", "aim", "fedbn", "independent"])
def test_a_draw_given_values_follows_the_model(method, home, monkeypatch):
    """As the rows of a large draw that happen to have them."""
    model = home / "m.fedsynth"
    frame = dependent()
    with pytest.warns(UserWarning):
        fs.synthesize(frame, epsilon=20, method=method, save_model=model)
    drawn = fs.load_model(model)
    every = drawn.sample(40_000, seed=1)
    given = drawn.sample(1_500, seed=2, where={"fraud": "yes"})
    assert set(given["fraud"]) == {"yes"} and given.dtypes.equals(frame.dtypes)
    wanted = every[every["fraud"] == "yes"]["amount"]
    error = wanted.std() * np.sqrt(1 / len(wanted) + 1 / len(given))
    assert abs(given["amount"].mean() - wanted.mean()) < 4 * error
    zero = drawn.sample(30, where={"hour": 0})["hour"]
    assert (zero == 0).all() and drawn.sample(30, where={"hour": None})["hour"].isna().all()
    both = drawn.sample(20, where={"hour": None, "fraud": "yes"})
    assert both["hour"].isna().all() and set(both["fraud"]) == {"yes"}


def test_graphical_models_are_conditioned_and_need_no_search(home, monkeypatch):
    monkeypatch.setattr(saved, "MOST_DRAWN", 2_000)
    model = home / "m.fedsynth"
    frame = dependent().assign(fraud=["yes", *["no"] * 3_999])
    schema = fs.draft(frame)
    for method in ("fedpgm", "fedbn"):
        synthesized(frame, method=method, schema=schema, epsilon=20, save_model=model)
        drawn = fs.load_model(model)
        if method == "fedpgm":
            assert len(drawn.sample(50, where={"fraud": "yes"})) == 50
        else:
            with pytest.raises(BadInput, match=r"where: \d+ of 2,000 rows drawn .* 50 were asked"):
                drawn.sample(50, where={"fraud": "yes"})


def test_a_release_that_gives_too_few_such_rows_is_handed_on_all_the_same(home, monkeypatch):
    monkeypatch.setattr(saved, "MOST_DRAWN", 1_000)
    options = {"rows": 40, "where": {"dose": 19.99}, "out": home / "out"}
    with pytest.warns(UserWarning, match="Here, rows without this condition are written"):
        synthetic, statement = fs.synthesize(people(), **ASKED | RELEASE | options)
    assert statement["epsilon"] and "drawn given" not in str(statement)
    assert len(synthetic) > 40 and statement.files["rows"].is_file()


@pytest.mark.parametrize("number, warned", [(6, True), (400, False)])
def test_a_class_with_too_few_rows_is_told_before_the_run_to_the_owner_alone(number, warned, home):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 90, 1_000), "ill": ["yes"] * number + ["no"] * (1_000 - number)}
    )
    schema = SCHEMA.split("[[column]]")
    schema = "[[column]]".join([schema[0], schema[1], schema[4]])
    _, statement = synthesized(frame, schema=schema, epsilon=3.0)
    told = [note for note in statement.notes if "for you alone" in note]
    assert bool(told) == warned
    if warned:
        assert "fewer than about 25 rows" in told[0] and "'ill' = 'yes'" in told[0]
        assert "6" not in told[0].replace("1e-06", "")
    assert "fewer than about" not in str(statement) + json.dumps(statement)


# --- one sentence --------------------------------------------------------------------------------

MASK = people()["ill"] == "yes"
WRONG = {
    "epsilon": ["5", True, 0, None, float("nan"), [1]],
    "delta": ["1e-6", True, 1, -1, None],
    "rows": [1.5, "5", True, 0, 10.0, 10**12, MASK, np.array([1.0, 2.0]), [1, 2]],
    "where": [
        "ill=yes",
        MASK,
        {},
        {"nope": 1},
        {"ill": "maybe"},
        {"ill": ["yes"]},
        {"ill": None},
        {"age": "old"},
        {"age": 1e9},
        {"age": True},
        {"ill": MASK},
    ],
    "seed": [1.5, "1", True, -1, None],
    "release": [0, ""],
    "again": ["yes", 1],
    "schema": [5, people(), "nothere.toml", "", "[[column]]\nname='age'\n"],
    "target": ["nope", True, ["sex", "ill"]],
    "ignore": ["nope", [1.5], MASK],
    "method": ["aimm", 5, None],
    "num_clients": [1.5, "2", True],
    "declared_rows": [True, "300", 1.5, [1, 2]],
    "most_epsilon": ["x"],
    "site": [5.0, "nope"],
    "out": [5],
    "save_model": [5],
    "tables": [5],
    "about": [5, {"owner": "x"}],
}


@pytest.mark.parametrize("name, value", [(k, v) for k, vs in WRONG.items() for v in vs], ids=str)
def test_what_cannot_be_asked_is_refused_in_a_sentence(name, value, home):
    with pytest.raises(BadInput) as refused:
        synthesized(people(), **{name: value})
    said = str(refused.value)
    assert "\n" not in said and len(said) < 400 and said.endswith(".")
    assert name in said or (name == "site" and "'nope'" in said)


@pytest.mark.parametrize(
    "frame, message",
    [
        ({"a": [1]}, "table is a dict: give a pandas DataFrame"),
        (people()["age"], "table is a Series"),
        (people().to_numpy(), "table is a ndarray"),
        (None, "table is a NoneType"),
        ("nothere.csv", "there is no such file"),
        (people()[:0], "table has 0 rows and 4 columns"),
        (people()[[]], "table has 300 rows and 0 columns"),
        (people()[:5], "5 rows are too few"),
        (people().rename(columns={"dose": "age"}), "two columns are called 'age'"),
        (people().rename(columns={"dose": 1, "age": "1"}), "two columns are called '1'"),
        (pd.concat({"x": people()}, axis=1), r"called \('x', 'age'\), which is no text"),
        (people().rename(columns={"age": np.nan}), "called nan"),
        (people(m=[1, "a"] * 150), "'m' holds values of the types int, str"),
        (people(m=pd.period_range("2020", periods=ROWS)), "'m' has the dtype period"),
        (people(m=1j), "'m' has the dtype complex128"),
        (people(m=pd.arrays.SparseArray([0.0] * ROWS)), "'m' has the dtype Sparse"),
        (people(m=pd.cut(people()["age"], 3)), "'m' has the dtype interval"),
        (people(m=[[1]] * ROWS), "'m' holds lists"),
    ],
)
def test_what_is_no_table_is_named(frame, message, home):
    if "too few" not in message:
        with pytest.raises(BadInput, match=message):
            fs.draft(frame)
    with pytest.raises(BadInput, match=message):
        synthesized(frame, schema=None)


@pytest.mark.parametrize(
    "parts", [[MASK.to_numpy()], [np.array([1.0, 2.0])]], ids=["mask", "float"]
)
def test_positions_are_whole_numbers(parts):
    table = load_table(people(), schema=SCHEMA)
    with pytest.raises(BadInput, match=r"parts\[0\] is of .*: give whole row positions"):
        fs.federated(fs.METHODS["independent"], table, parts)
    with pytest.raises(BadInput, match="give whole row positions"):
        table.take(parts[0])
    with pytest.raises(BadInput, match=r"rows is 1.5"):
        load_table(people(), schema=SCHEMA, rows=1.5)


# --- the command line, and what the docstrings show ----------------------------------------------


def test_the_command_takes_rows_and_values(home, capsys):
    people().to_csv(home / "t.csv", index=False)
    (home / "t.toml").write_text(SCHEMA)
    words = ["synth", str(home / "t.csv"), "--epsilon", "1", "--no-scores", "--out", str(home)]
    given = ["--rows", "33", "--where", "ill=yes", "--where", "sex=f"]
    assert commands.main([*words, *given, "--save-model", str(home / "m")]) == 0
    rows = pd.read_csv(home / "t_rehearsal.csv")
    assert len(rows) == 33 and set(rows["ill"]) == {"yes"} and set(rows["sex"]) == {"f"}
    out = capsys.readouterr()
    assert f"open first: {home / 't_rehearsal_privacy.html'}" in out.out
    assert "measured together: " in out.out and "four fifths" not in out.err
    assert commands.main(["sample", str(home / "m"), "--rows", "9", "--where", "age=44"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.split()[1:]] == ["44"] * 9
    assert commands.main(words) == 0
    assert (
        "rows come out, as many as the method learned from: four fifths" in capsys.readouterr().err
    )
    for wrong, told in {
        "ill": "write COLUMN=VALUE",
        "il=yes": "did you mean 'ill'",
        "ill=": "no missing",
    }.items():
        assert commands.main([*words, "--where", wrong]) == 2
        assert told in capsys.readouterr().err


def test_columns_that_were_measured_together_are_in_plain_sight(home):
    frame = dependent()
    schema = fs.draft(frame)
    made = {
        key: synthesized(frame, method=key, schema=schema, epsilon=20)[1]
        for key in ("fedpgm", "fedbn", "independent")
    }
    assert ("amount", "fraud") in made["fedpgm"]["together"]
    assert "* amount \N{MULTIPLICATION SIGN} fraud" in str(made["fedpgm"])
    assert len(made["fedbn"]["together"]) == 2
    assert made["independent"]["together"] == []
    assert "No two columns were measured together" in str(made["independent"])


SHOWN = (
    *(frames.draft, frames.synthesize, frames.check, saved.read),
    *(saved.SavedModel.sample, saved.SavedModel.means),
)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.__name__)
def test_examples_run_as_they_are_shown(shown, home, monkeypatch):
    monkeypatch.chdir(home)
    df = people()
    df.loc[:1, "age"] = 20, 89
    schema = fs.draft(df, target="ill")
    synthetic, _ = synthesized(df, schema=schema)
    known = {"fs": fs, "df": df, "schema": schema, "synthetic": synthetic}
    tests = doctest.DocTestFinder().find(shown, shown.__name__, globs=known)
    runner = doctest.DocTestRunner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for each in tests:
            runner.run(each)
    assert runner.tries >= 2 and runner.failures == 0


def test_nothing_is_claimed_of_what_a_method_of_ones_own_measured_together(home):
    """Its state may look like that of independent columns, and keep pairs all the same."""
    path = home / "mine.py"
    path.write_text(Path(independent.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    frame = dependent()
    said = synthesized(frame, method=str(path), schema=fs.draft(frame), epsilon=20)[1]
    assert said["together"] is None
    assert "Which columns were measured together is not known" in str(said)
