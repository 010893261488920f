"""Means and shares of a model: their standard errors include the noise of privacy."""

import warnings

import numpy as np
import pandas as pd
import pytest

import fedsynth_lib as fs
from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput

pytestmark = pytest.mark.slow

ROWS = 400
SCHEMA = """
[[column]]
name = "dose"
kind = "numeric"
low = 0
high = 100
missing = [""]
[[column]]
name = "ill"
kind = "categorical"
categories = ["no", "yes"]
[[column]]
name = "grade"
kind = "categorical"
categories = ["1", "2", "3"]
"""
SHARES = {"1": 0.5, "2": 0.3, "3": 0.2}
TRUTH = [52.0, 0.8, 0.2, *SHARES.values()]  # of those of `people` who are not in a table, too


def people(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.2
    dose = rng.normal(50 + 10 * ill, 12, rows).clip(0, 100)
    frame = {"dose": np.where(rng.random(rows) < 0.1, np.nan, dose)}
    frame |= {"ill": np.where(ill, "yes", "no")}
    return pd.DataFrame(frame | {"grade": rng.choice(list(SHARES), rows, p=list(SHARES.values()))})


def learned(home, frame, **options):
    asked = {"epsilon": 1.0, "schema": SCHEMA, "method": "independent", "declared_rows": len(frame)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows, _ = fs.synthesize(frame, **asked | options, save_model=home / "m")
    return rows, fs.load_model(home / "m")


def test_intervals_cover_as_often_as_they_say_and_plain_ones_do_not(home):
    """30 tables of other people and other noise, 6 numbers each: 95 percent of 180 is 171. Those
    of one table go together, so as few as 88 percent may be chance; what takes synthetic rows for
    real ones covers far less than that."""
    covered, plain = [], []
    for seed in range(30):
        rows, model = learned(home, people(seed), seed=seed)
        found = model.means(repeats=8, seed=seed)
        covered += list((found["low"] <= TRUTH) & (found["high"] >= TRUTH))
        numbers = pd.get_dummies(rows, columns=["ill", "grade"]).astype(float)
        plain += list((numbers.mean() - TRUTH).abs() <= 1.96 * numbers.sem())
    assert list(found["column"]) == ["dose", *["ill"] * 2, *["grade"] * 3]
    assert list(found["what"])[:2] == ["mean", "share of no"]
    assert np.mean(plain) < 0.8 and np.mean(covered) > 0.88


def test_errors_are_those_of_people_and_of_noise(home):
    """Against what other tables of 400 people come to, by both parts: noise falls with epsilon, and
    what is left are the people."""
    errors = {}
    for epsilon in (0.5, 500.0):
        _, model = learned(home, people(0), epsilon=epsilon)
        errors[epsilon] = model.means(["ill"], repeats=40)["standard_error"].iloc[0]
    people_alone = np.sqrt(0.2 * 0.8 / (0.8 * ROWS))
    assert errors[500.0] == pytest.approx(people_alone, rel=0.35)
    noise = np.sqrt(2) * 3 / 0.5 / (0.8 * ROWS)  # Laplace, of three columns
    # the share of two noisy counts: each moves it by its noise, times the share of the other
    expected = np.hypot(people_alone, noise * np.hypot(0.2, 0.8))
    assert errors[0.5] == pytest.approx(expected, rel=0.35)


def test_a_graphical_model_counted_rows_and_several_clients(home):
    """FedPGM draws its rows with less variance than people have, and errors are those of people and
    of noise all the same."""
    frame = people(1, 1_500)
    options = {"method": "fedpgm", "epsilon": 5.0, "declared_rows": (), "num_clients": 3}
    _, model = learned(home, frame, **options)
    found = model.means(repeats=15)
    shares = np.array(TRUTH[1:])
    people_alone = np.sqrt(shares * (1 - shares) / sum(model.sizes))
    assert len(model.sizes) == 3 and found.equals(model.means(repeats=15))
    assert (found["standard_error"][1:] / people_alone).mean() == pytest.approx(1.15, abs=0.35)
    assert ((found["estimate"] - TRUTH).abs() <= 4 * found["standard_error"]).all()


def test_what_has_no_honest_error_is_refused_in_a_sentence(home, capsys):
    frame = people(0)
    _, model = learned(home, frame)
    for columns, repeats, message in (
        (["doses"], 3, "there is no column 'doses' of numbers or categories .did you mean 'dose'"),
        ([], 1, "repeats is 1: a spread needs 2 or more"),
        ([], 2.5, "repeats is 2.5: give a whole number"),
    ):
        with pytest.raises(BadInput, match=message):
            model.means(columns, repeats=repeats)
    persons = SCHEMA + '[[column]]\nname = "who"\nkind = "identifier"\n'
    visits = frame.assign(who=[f"P{n // 2}" for n in range(ROWS)])
    _, model = learned(home, visits, schema=persons, unit="who", most_rows=2)
    with pytest.raises(BadInput, match="its unit is a person, and how alike the rows of one"):
        model.means()
    _, model = learned(home, frame)
    assert commands.main(["sample", str(home / "m"), "--means"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head == "column,what,estimate,standard_error,low,high" and first.startswith("dose,mean,")
