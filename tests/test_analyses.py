"""Analyses on real and on synthetic rows: what may be published, and what may not."""

import re

import numpy as np
import pandas as pd
import pytest

import fedsynth_lib as fs
from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.release import analyses


def patients(rows=3_000, seed=0):
    """Blood pressure by age, weight and sex; regions that differ little; deaths over five years."""
    rng = np.random.default_rng(seed)
    age, male = rng.integers(20, 90, rows), rng.random(rows) < 0.4
    bmi = rng.normal(26, 4, rows).clip(15, 45).round(1)
    sbp = np.rint(70 + 0.35 * age + 1.13 * bmi + 5.9 * male + rng.normal(0, 8, rows))
    years = rng.exponential(400 / age).clip(0, 5).round(2)
    frame = {"age": age, "sex": np.where(male, "M", "F"), "bmi": bmi, "sbp": sbp.astype(int)}
    frame |= {"region": rng.choice(list("abcd"), rows), "years": years}
    frame["weight"] = (1 + (age > 60) + rng.random(rows)).round(3)
    return pd.DataFrame(frame | {"died": np.where(years < 5, "yes", "no")})


REAL = patients()
SCHEMA = fs.draft(REAL)


def checked(synthetic, *wanted):
    return fs.check(REAL, synthetic, schema=SCHEMA, analyses=list(wanted)).analyses


def within(seed=1):
    """Other people of the same kind, whose values the schema knows."""
    other = patients(seed=seed)
    for name in ("age", "bmi", "sbp", "years", "weight"):
        other[name] = other[name].clip(REAL[name].min(), REAL[name].max())
    return other


def test_another_sample_of_the_same_people_may_be_used():
    wanted = "sbp ~ age + bmi + sex", "mean(sbp) by region", "mean(died)", "died ~ age"
    found = checked(within(), *wanted, "survival(years, died) by sex")
    assert found["analysis"].nunique() == 5 and len(found) == 4 + 4 + 1 + 2 + 4
    refused = found["verdict"].str.startswith("do not publish")
    assert refused.sum() <= 3  # one in twenty by chance
    line = found.set_index("term").loc["bmi"]
    assert line["real"] == pytest.approx(1.13, abs=0.1)
    assert line["verdict"].startswith("the coefficient of bmi may be used: ")
    both = rf"{line['synthetic']:.3f} ± 0\.0\d\d here, {line['real']:.3f} ± 0\.0\d\d in the real"
    assert re.search(both, line["verdict"])  # two digits of the error


def test_an_effect_that_is_lost_is_named():
    lost = REAL.assign(bmi=REAL["bmi"].sample(frac=1, random_state=0).to_numpy())
    found = checked(lost, "sbp ~ age + bmi").set_index("term")["verdict"]
    assert found["bmi"].startswith("do not publish the coefficient of bmi from these rows: ")
    assert "more than both standard errors explain" in found["bmi"]
    assert found["age"].startswith("the coefficient of age may be used")


def test_few_rows_that_decide_nothing_are_no_confirmation():
    sex = REAL["sex"][:25].sample(frac=1, random_state=1).to_numpy()
    found = checked(REAL[:25].assign(sex=sex), "sbp ~ sex").set_index("term").loc["sex[T.M]"]
    assert found["apart"] < analyses.BEYOND
    assert found["verdict"].endswith("and only one of the two differs from 0")


@pytest.mark.slow
def test_more_rows_change_no_verdict():
    """Drawing a hundred times as many rows makes no result more certain than the real rows."""
    other = within()
    once = checked(other, "sbp ~ age + bmi", "mean(sbp) by sex")
    many = checked(pd.concat([other] * 20), "sbp ~ age + bmi", "mean(sbp) by sex")
    assert many["apart"].to_numpy() == pytest.approx(once["apart"].to_numpy(), rel=0.01)
    assert list(many["verdict"].str[:14]) == list(once["verdict"].str[:14])


def test_a_group_that_is_gone_and_an_outcome_of_one_kind_decide_nothing():
    found = checked(REAL[REAL["region"] != "d"], "mean(sbp) by region").set_index("term")
    assert found.loc["d", "verdict"].endswith("from these rows: they do not decide it")
    assert found.loc["a", "verdict"].startswith("the mean of sbp where region is 'a' may be used")
    alive = checked(REAL.assign(died="no"), "died ~ age", "survival(years, died)")
    assert alive["verdict"].str.contains("do not decide it").all()
    assert "the log-odds of died = 'yes'" in alive["verdict"].iloc[0]


def test_coefficients_are_those_of_statsmodels_and_of_least_squares():
    found = checked(REAL, "sbp ~ age + bmi").set_index("term")
    design = np.column_stack([np.ones(len(REAL)), REAL["age"], REAL["bmi"]])
    solved, residual, *_ = np.linalg.lstsq(design, REAL["sbp"], rcond=None)
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residual / (len(REAL) - 3))
    assert found["real"].to_numpy() == pytest.approx(solved)
    assert found["real_se"].to_numpy() == pytest.approx(error)
    share = checked(REAL, "mean(died)")["real"].iloc[0]
    assert share == pytest.approx((REAL["died"] == "yes").mean())


def test_survival_is_kaplan_meier():
    found = checked(REAL, "survival(years, died)").set_index("term")
    half = REAL["years"].median()
    at_risk = 1.0
    for time in sorted(REAL["years"][(REAL["died"] == "yes") & (REAL["years"] <= half)].unique()):
        dying = ((REAL["years"] == time) & (REAL["died"] == "yes")).sum()
        at_risk *= 1 - dying / (REAL["years"] >= time).sum()
    assert found.loc[f"{half:g}", "real"] == pytest.approx(at_risk)


def test_gaps_codes_and_marks_are_numbers_of_an_analysis(home):
    """A file that writes "1.234,5 EUR" and "NA" gives the analysis of its numbers."""
    rng = np.random.default_rng(0)
    amount, children = rng.normal(1_000, 100, 500).round(1), rng.integers(0, 4, 500)
    shown = [f"{a:,.1f} EUR".translate(str.maketrans(",.", ".,")) for a in amount]
    frame = pd.DataFrame({"amount": shown, "children": children.astype(str), "n": range(500)})
    frame.loc[:49, "children"] = "NA"
    frame.to_csv(home / "t.csv", index=False)
    found = fs.check(home / "t.csv", home / "t.csv", analyses=["amount ~ children"]).analyses
    slope = np.polyfit(children[50:], amount[50:], 1)[0]
    assert found.set_index("term")["real"]["children"] == pytest.approx(slope)


@pytest.mark.parametrize(
    "wanted, message",
    [
        ("sbp", "cannot be read: write 'y ~ a"),
        ("sbp ~", "cannot be read"),
        ("sbp ~ age ~ bmi", "cannot be read"),
        (5, "analyses: 5 is no text"),
        ("sbp ~ agee", "there is no column 'agee', the closest is 'age'"),
        ("mean(sbp) by regions", "there is no column 'regions', the closest is 'region'"),
        ("survival(years)", "cannot be read"),
        ("region ~ age", "'region' has 4 categories; a regression takes a number, or two"),
        ("mean(region)", "'region' has 4 different values"),
        ("survival(sex, died)", "'sex' is not a number"),
        ("sbp ~ age +", "cannot be made on the real rows"),
        ("sbp ~ nothing(age)", "cannot be made on the real rows"),
    ],
)
def test_an_analysis_that_cannot_be_is_refused_in_a_sentence(wanted, message):
    with pytest.raises(BadInput, match=message) as refused:
        fs.check(REAL, REAL, schema=SCHEMA, analyses=wanted)
    assert "\n" not in str(refused.value)


def test_the_command_says_form_and_what_else_to_look_at(home, capsys):
    REAL.to_csv(home / "t.csv", index=False)
    lost = REAL.assign(bmi=REAL["bmi"].sample(frac=1, random_state=0).to_numpy())
    lost.to_csv(home / "lost.csv", index=False)
    (home / "t.toml").write_text(fs.draft(home / "t.csv"))
    words = ["check", str(home / "t.csv"), str(home / "lost.csv")]
    assert commands.main(words) == 0
    said = capsys.readouterr().out
    assert "the form is the same: names, types, ranges and gaps" in said
    assert "That is no word on whether an analysis comes to the same" in said
    assert "do not publish" not in said
    assert commands.main([*words, "--analysis", "sbp ~ age + bmi"]) == 0
    said = capsys.readouterr().out
    assert "do not publish the coefficient of bmi from these rows" in said and analyses.RULE in said
    assert commands.main([*words, "--analysis", "sbp ~ agee"]) == 2
    assert "no column 'agee'" in capsys.readouterr().err


@pytest.mark.parametrize("epsilon", [1, 3])
def test_a_regression_of_three_thousand_rows_is_told_apart(epsilon, home):
    """Case 152: at epsilon 1 and 3 the effect of bmi is gone, and means of regions are there."""
    with pytest.warns(UserWarning):
        synthetic, _ = fs.synthesize(REAL, epsilon=epsilon, schema=SCHEMA)
    found = checked(synthetic, "sbp ~ age + bmi", "mean(sbp) by region", "mean(died)")
    verdicts = found.set_index("term")["verdict"]
    assert verdicts["bmi"].startswith("do not publish the coefficient of bmi from these rows")
    assert verdicts[list("abcd")].str.contains("may be used").sum() >= 3


def test_weights_sum_up_where_as_many_rows_are_asked_for(home):
    """Case 107: four fifths of the rows have four fifths of the weights."""
    frame = REAL[["age", "sex", "weight"]]
    with pytest.warns(UserWarning):
        default, _ = fs.synthesize(frame, epsilon=3)
        full, _ = fs.synthesize(frame, epsilon=3, rows=len(frame))
    total = frame["weight"].sum()
    assert default["weight"].sum() / total == pytest.approx(0.8, abs=0.05)
    assert full["weight"].sum() / total == pytest.approx(1.0, abs=0.05)
