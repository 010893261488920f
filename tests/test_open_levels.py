"""Open columns: a level is named from noisy counts, a level that one record alone has is not, and
the statement has all of it."""

import itertools
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import fedsynth_lib as fs
from fedsynth_lib.core.accounting import epsilon_of, exact_gaussian_epsilon
from fedsynth_lib.core.contract import BadInput, Charge, Privacy
from fedsynth_lib.core.ledger import open_ledger
from fedsynth_lib.methods.marginals import fedpgm
from fedsynth_lib.release import ask, open_levels, your_table
from fedsynth_lib.release.deploy import study
from fedsynth_lib.tables.form import form_from
from fedsynth_lib.tables.schema import parse_toml

ROWS = 2_000
SCHEMA = """
[[column]]
name = "age"
kind = "numeric"
low = 0
high = 120
integer = true
[[column]]
name = "job"
kind = "categorical"
categories = "open"
missing = [""]
[[column]]
name = "ill"
kind = "categorical"
categories = ["no", "yes"]
"""
ASKED = {"epsilon": 1.0, "method": "independent", "schema": SCHEMA}


def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    jobs = np.repeat(["nurse", "baker", "rare", None], [1_200, 600, 3, 197])
    jobs[0] = "Queen of Sheba"
    frame = {"age": rng.integers(20, 90, ROWS), "job": jobs, "ill": rng.choice(["no", "yes"], ROWS)}
    return pd.DataFrame(frame)


def synthesized(frame, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fs.synthesize(frame, **(ASKED | options))


def a_plan(noise: float = 10.0, columns: int = 1, delta: float = 1e-7) -> open_levels.Plan:
    charge = Charge(open_levels.COUNTS, "gaussian", noise, columns**0.5)
    names = {f"column {number}": "(other)" for number in range(columns)}
    return open_levels.Plan(names, charge, delta, Privacy(1.0, 1e-6))


def named(plan: open_levels.Plan, count: int) -> float:
    """The exact probability that a level of so many rows is named: noise is rounded."""
    deviation = plan.charge.noise * plan.charge.sensitivity
    return float(norm.sf((plan.threshold - 0.5 - count) / deviation))


def test_a_level_that_one_record_has_is_named_with_at_most_the_probability_set_aside():
    assert a_plan().threshold == 54  # 1 + 10 * 5.199 standard deviations + half a count
    for noise, columns, delta in itertools.product([1.0, 13.4, 80.0], [1, 2, 5], [1e-9, 1e-7, 0.1]):
        plan = a_plan(noise, columns, delta)
        any_of_them = 1 - (1 - named(plan, 1)) ** columns
        assert any_of_them <= delta / (1 + delta) * (1 + 1e-6)
        lower = (plan.threshold - 1.5 - 1) / noise / columns**0.5  # one less would be too low
        assert 1 - norm.cdf(lower) ** columns > delta / (1 + delta)


@pytest.mark.parametrize("count", [1, 15, 30])
def test_the_exact_probability_is_what_is_drawn(count):
    plan, times = a_plan(noise=10.0, delta=0.01), 200_000
    drawn = plan.noisy(np.full(times, count), np.random.default_rng(count)) >= plan.threshold
    expected = named(plan, count)
    assert abs(drawn.mean() - expected) < 5 * (expected / times) ** 0.5


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_neighbouring_tables_have_outcomes_that_the_promise_allows(columns):
    """By all outcomes, exactly: of k columns the record alone has the level of some, and shares a
    level with `count` others in the rest."""
    for noise, share in itertools.product([1.0, 3.0], [1e-3, 0.05]):
        plan = a_plan(noise, columns, share)
        for epsilon in (0.2, 1.0, 2.0):
            delta = _exact_delta(1 / noise, epsilon) + share
            for alone, count in itertools.product(range(columns + 1), [1, 5, plan.threshold]):
                with_it = [named(plan, 1)] * alone + [named(plan, count + 1)] * (columns - alone)
                without = [0.0] * alone + [named(plan, count)] * (columns - alone)
                assert _hockey_stick(with_it, without, epsilon) <= delta
                assert _hockey_stick(without, with_it, epsilon) <= delta


def _exact_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8."""
    first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return float(norm.cdf(first) - np.exp(epsilon) * norm.cdf(second))


def _hockey_stick(p: list[float], q: list[float], epsilon: float) -> float:
    total = 0.0
    for outcome in itertools.product([0, 1], repeat=len(p)):
        ps = np.prod([each if bit else 1 - each for each, bit in zip(p, outcome, strict=True)])
        qs = np.prod([each if bit else 1 - each for each, bit in zip(q, outcome, strict=True)])
        total += max(0.0, ps - np.exp(epsilon) * qs)
    return total


@pytest.mark.parametrize("columns", [1, 3])
def test_drawn_equals_charged(columns):
    plan = a_plan(noise=7.0, columns=columns)
    noise = plan.noisy(np.zeros(100_000, np.int64), np.random.default_rng(0))
    assert noise.dtype.kind in "if"
    assert (noise == np.rint(noise)).all()
    charged = plan.charge.noise * plan.charge.sensitivity
    assert noise.std() == pytest.approx((charged**2 + 1 / 12) ** 0.5, rel=0.01)


def test_the_shares_are_those_of_the_budget():
    form = form_from(parse_toml(SCHEMA, "s"), "s")
    plan = open_levels.planned(form, Privacy(1.0, 1e-6))
    assert plan.delta + plan.rest.delta == pytest.approx(1e-6, rel=1e-12)
    assert plan.delta == pytest.approx(1e-7)
    ten = [Charge("", "gaussian", plan.charge.noise, times=10)]  # a tenth of 1 / noise^2 each
    assert exact_gaussian_epsilon(ten, plan.rest.delta) == pytest.approx(1.0, rel=1e-5)


@pytest.fixture(scope="module")
def made():
    return synthesized(people())


def test_rows_have_the_named_levels_and_other(made):
    rows, statement = made
    assert {"nurse", "baker"} <= set(rows["job"].dropna()) <= {"nurse", "baker", "(other)"}
    assert statement["open_levels"]["columns"][0]["share"] < 0.06  # gaps are not among them
    assert 0.05 < rows["job"].isna().mean() < 0.15


def test_the_statement_has_the_whole_budget_and_says_what_was_selected(made):
    _, statement = made
    assert statement["delta"] == pytest.approx(1e-6, rel=1e-12)
    assert 0.99 < statement["epsilon"] <= 1 + 1e-6
    (entry,) = (e for e in statement["entries"] if e["what"] == open_levels.COUNTS)
    assert (entry["mechanism"], entry["count"]) == ("gaussian", 1)
    charges = [
        Charge(e["what"], e["mechanism"], e["noise_multiplier"], times=e["count"])
        for e in statement["entries"]
    ]
    rest = statement["delta"] - statement["open_levels"]["delta"]
    assert epsilon_of(charges, rest) == pytest.approx(statement["epsilon"], rel=1e-6)
    (column,) = statement["open_levels"]["columns"]
    assert (column["column"], column["named"]) == ("job", 2)
    assert "job: 2 named" in str(statement)
    assert "Queen of Sheba" not in str(statement)


def test_more_noise_of_the_method_pays_for_the_selection(made):
    declared = SCHEMA.replace('"open"', '["nurse", "baker", "rare", "Queen of Sheba"]')
    _, without = synthesized(people(), schema=declared)

    def noise(statement):
        return max(e["noise_multiplier"] for e in statement["entries"] if "column" in e["what"])

    assert noise(made[1]) > noise(without)


def test_a_person_with_several_rows_is_within_the_promise():
    visits = people().assign(patient=np.arange(ROWS) // 2)
    schema = SCHEMA + '[[column]]\nname = "patient"\nkind = "identifier"\n'
    rows, statement = synthesized(visits, schema=schema, epsilon=4.0, unit="patient", most_rows=2)
    assert statement["unit"] == "one person with up to 2 rows"
    assert statement["delta"] == pytest.approx(1e-6)
    assert statement["epsilon"] <= 4 * (1 + 1e-6)
    # of one row: half of epsilon, and less than half of delta
    assert statement["open_levels"]["delta"] < 0.5e-7
    assert "Queen of Sheba" not in set(rows["job"])


def test_one_record_moves_no_other_row():
    """Rows that differ in the open column alone are not numbered as equals."""
    frame = pd.DataFrame({"age": [40] * 60, "ill": ["no"] * 60, "job": [*"ab"] * 30})
    key, parts = b"k" * 32, []
    for table in (
        frame,
        pd.concat([pd.DataFrame([[40, "no", "c"]], columns=frame.columns), frame]),
    ):
        loaded = your_table.load(your_table.Files.of(_source(table), SCHEMA), private=True)
        train, _ = your_table.split(loaded, key=key, release=True)
        parts.append(Counter(train.raw["job"]))
    assert parts[0]["a"] == parts[1]["a"] and parts[0]["b"] == parts[1]["b"]


def test_a_gap_of_another_row_changes_no_level():
    codes = pd.Series([7, 8, 8])
    column = form_from(parse_toml(SCHEMA, "s"), "s").columns[1]
    with_gap = pd.Series([7, 8, 8, None])
    assert list(column.labels(codes)) == list(column.labels(with_gap)) == ["7", "8", "8"]


def test_a_saved_model_knows_the_named_levels_alone(tmp_path):
    synthesized(people(), method="fedpgm", save_model=tmp_path / "m.fedsynth")
    model = fs.load_model(tmp_path / "m.fedsynth")
    assert b"Queen" not in (tmp_path / "m.fedsynth").read_bytes()
    assert "Queen" not in model.form.to_toml()
    assert set(model.sample(20, where={"job": "baker"})["job"]) == {"baker"}
    with pytest.raises(BadInput, match="cannot be 'Queen of Sheba'"):
        model.sample(20, where={"job": "Queen of Sheba"})
    assert len(model.means(["job"], repeats=2)) == 3


def test_check_merges_the_real_levels_as_the_rows_do(made):
    found = fs.check(people(), made[0], schema=SCHEMA, analyses=["mean(age) by job"])
    assert found.differing == 0
    assert "'(other)'" in found.form.loc["job", "kind"]
    assert {"baker", "nurse"} <= set(found.analyses["term"])


def test_a_schema_reads_as_it_is_written():
    form = form_from(parse_toml(SCHEMA, "s"), "s")
    assert form_from(parse_toml(form.to_toml(), "s"), "s") == form
    assert 'categories = "open"' in form.to_toml()
    assert "(other)" not in form.to_toml()


def test_a_declared_list_may_have_a_level_for_all_others():
    schema = SCHEMA.replace('"open"', '["nurse"]\nother = "else"')
    rows, statement = synthesized(people(), schema=schema)
    assert set(rows["job"].dropna()) == {"nurse", "else"}
    assert "open_levels" not in statement


RULE = '[[rule]]\ncolumn = "ill"\nfollows_from = ["job"]\n'


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_clients": 2}, "'job' is open, and several sites"),
        ({"site": "ill"}, "'job' is open, and several sites"),
        ({"delta": 0.0}, "'job' is open, and with delta 0"),
        ({"where": {"job": "nurse"}}, "where names 'job', which is open"),
        ({"schema": SCHEMA + RULE}, "about 'job', which is open"),
        (
            {"schema": SCHEMA.replace('[""]', '["", "missing"]')},
            "'missing' is the last",
        ),
        ({"schema": SCHEMA.replace('"open"', '"open"\nordered = true')}, "no list and no order"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options, says):
    with pytest.raises(BadInput, match=says):
        synthesized(people(), **options)


def test_other_uses_of_a_table_refuse_an_open_column():
    with pytest.raises(BadInput, match=r"'job' is open, and only .* declare its categories"):
        fs.load_table(people(), schema=SCHEMA)


def test_a_study_of_several_sites_refuses_an_open_column(tmp_path):
    (tmp_path / study.SCHEMA).write_text(SCHEMA)
    with pytest.raises(BadInput, match=r"'job' is open, and several sites .* declare its"):
        study.Study.form.func(SimpleNamespace(folder=tmp_path))


def test_an_answer_to_the_draft_opens_a_column():
    text = SCHEMA.replace('"open"', '["a", "b"]\nquestion = "Is this public?"')
    answers = iter(['categories = "open"', ""])
    opened = ask.answered(text, lambda _: next(answers), lambda _: None)
    assert form_from(parse_toml(opened, "s"), "s").open == ("job",)


def test_a_release_names_levels_with_secret_noise(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    options = {"release": True, "population": "made_up", "declared_rows": ROWS}
    schema = SCHEMA.replace("kind =", 'source = "made up"\nkind =')
    rows, statement = synthesized(people(), schema=schema, **options)
    assert statement["epsilon"] <= 1 + 1e-6
    assert statement["unprotected"] == []
    assert "not repeatable" in statement["seed_policy"]
    assert {"nurse", "baker"} <= set(rows["job"].dropna()) <= {"nurse", "baker", "(other)"}


def test_a_draft_asks_whether_a_long_list_is_public():
    rng = np.random.default_rng(0)
    long = people().assign(
        job=rng.choice([f"{a}{b}er" for a in "bcdfghklmnprst" for b in "aeiouyllkntt"], ROWS)
    )
    assert 'write categories = "open"' in fs.draft(long).replace("\\", "")


def _source(frame):
    from fedsynth_lib.tables.container import InMemory

    return InMemory.of(frame, "table")


def test_a_code_that_looks_like_a_named_one_with_a_decimal_is_another_value():
    frame = people()
    frame.loc[frame["job"] == "rare", "job"] = "nurse.0"
    rows, _ = synthesized(frame)
    assert set(rows["job"].dropna()) <= {"nurse", "baker", "(other)"}


def test_a_gap_is_distinguished_from_a_value_of_that_name():
    frame = pd.DataFrame({"age": [40] * 60, "ill": ["no"] * 60, "job": [None, "None"] * 30})
    loaded = your_table.load(your_table.Files.of(_source(frame), SCHEMA), private=True)
    assert loaded.content.loc[0, "job"] != loaded.content.loc[1, "job"]


@pytest.mark.parametrize("dtype", [int, float])
def test_numbers_become_texts_where_some_are_other(dtype):
    frame = people()
    numbers = np.arange(ROWS) % 3
    numbers[:300] = np.arange(300) + 10
    rows, _ = synthesized(frame.assign(job=numbers.astype(dtype)))
    assert set(rows["job"].dropna()) == {"0", "1", "2", "(other)"}


def many_jobs() -> pd.DataFrame:
    """2,000 rows, 50 of each of 40 jobs but for the first two, which have more."""
    jobs = np.repeat([f"job {number}" for number in range(40)], 50)
    jobs[1_800:1_900], jobs[1_900:] = "job 0", "job 1"
    return people().assign(job=jobs)


@pytest.mark.parametrize(("cells", "most"), [(10_000_000, 500), (6_000, 30), (1_500, 10)])
def test_as_many_levels_are_named_as_the_method_can_hold(monkeypatch, cells, most):
    monkeypatch.setattr(fedpgm, "MOST_CELLS", cells)
    rows, statement = synthesized(many_jobs(), method="fedpgm", epsilon=50.0)
    assert statement["open_levels"]["most"] == most
    (column,) = statement["open_levels"]["columns"]
    assert column["named"] == min(most, 36)
    assert {"job 0", "job 1"} <= set(rows["job"])  # the largest ones stay
    assert rows["job"].nunique() <= most + 1


def test_a_domain_that_no_method_can_hold_is_refused_before_levels_are_counted(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.setattr(fedpgm, "MOST_CELLS", 100)
    monkeypatch.setattr(open_levels.Plan, "noisy", None)
    schema = SCHEMA.replace("kind =", 'source = "made up"\nkind =')
    options = {"release": True, "population": "made_up", "declared_rows": ROWS, "schema": schema}
    with pytest.raises(BadInput, match="bin or merge the levels"):
        synthesized(people(), method="fedpgm", **options)
    assert open_ledger("made_up", most_epsilon=3.0).total().epsilon == 0


def test_a_gap_may_be_written_as_levels_of_no_record_are():
    form = form_from(
        parse_toml(SCHEMA.replace('missing = [""]', 'missing = ["(other) 1"]'), "s"), "s"
    )
    for most in (0, 10):
        assert len(open_levels.widest(form, most).columns[1].categories) == most + 1


def test_a_method_that_cannot_hold_the_fewest_levels_says_what_helps():
    form = form_from(parse_toml(SCHEMA, "s"), "s")

    def job(form):
        if len(form.columns[1].categories) > 1:
            raise BadInput("too many.")

    with pytest.raises(BadInput, match=r"too many\. 10 levels of each open .* open fewer columns"):
        open_levels.fitted(a_plan(), form, job)


@pytest.mark.parametrize("code", ["999", "999.0"])
def test_a_code_among_numbers_of_an_open_column_is_no_level_however_it_is_written(code):
    frame = people()
    frame["job"] = frame["job"].map({"nurse": 1.0, "baker": 2.5}).fillna(999.0)
    schema = SCHEMA.replace('[""]', f'["{code}"]')
    rows, statement = synthesized(frame, schema=schema)
    shares = rows["job"].value_counts(normalize=True)
    assert set(shares.index) == {"1", "2.5", code}
    assert shares[code] == pytest.approx(0.1, abs=0.05)  # 200 of 2,000
    assert statement["open_levels"]["columns"][0]["named"] == 2
