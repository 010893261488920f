"""The attacker's guesses of lessons 00 and 02, known answers, and exercises that check themselves."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import binomtest
from torch.distributions import Bernoulli, Normal, kl_divergence

from fedsynth_lib.core.accounting import calibrate
from fedsynth_lib.core.contract import Charge, Domain, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.bayes import bayesian_network as bn
from fedsynth_lib.methods.marginals import marginals
from fedsynth_lib.tables.partition import heterogeneity
from fedsynth_lib.teaching import game
from fedsynth_lib.teaching.checks import EXERCISES, check, check_exercise

ROWS = pd.DataFrame(
    {
        "age": [30, 50, 40],
        "town": ["Ilm", "Ilm", "Joch"],
        "job": "cook",
        "diagnosis": ["asthma", "none", "none"],
    }
)


@pytest.mark.parametrize(
    ("age", "town", "guessed"),
    [(39, "Ilm", "asthma"), (41, "Ilm", "none"), (30, "Joch", "none"), (30, "Asten", "none")],
    ids=["nearest", "the other", "another town", "nobody there: the most frequent"],
)
def test_the_attacker_reads_off_the_nearest_row(age, town, guessed):
    known = pd.DataFrame({"age": [age], "town": [town], "job": ["cook"]}, index=[9])
    assert game.guess(ROWS, known).to_dict() == {9: guessed}


def test_ann_is_the_first_and_alone():
    table = game.people(2_000, seed=7)
    assert tuple(table.frame.iloc[0]) == game.ANN
    found = table.frame.query("age == 37 and town == 'Hallein' and job == 'baker'")
    assert list(found.index) == [0]


def test_a_published_table_gives_people_away_and_a_synthetic_one_does_not():
    everybody = game.people(4_000, seed=1)
    table, others = everybody.take(np.arange(2_000)), everybody.frame.iloc[2_000:]
    published = game.share_right(table.frame, table.frame)
    assert published > 0.8 and game.share_right(table.frame, others) < 0.4
    synthetic = game.three_offices(table, 3.0, seed=1).synthetic
    gained = game.share_right(synthetic, table.frame) - game.share_right(synthetic, others)
    assert abs(gained) < 0.06  # four standard errors of the difference of two shares of 2,000


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "Put your answer"),
        ("12", "The answer is a number"),
        (True, "The answer is a number"),
        (float("nan"), "The answer is a number"),
        (12, "Right."),
        (12.05, "Right."),
        (3, "Not yet: one row"),
        (14, "Not yet: 14 is too large"),
        (-1, "Not yet: -1 is too small"),
    ],
)
def test_an_answer_is_right_or_told_which_step_failed(answer, said):
    assert check(answer, 12, hints={3: "one row"}).startswith(said)


def test_the_questions_of_the_lesson_have_the_answers_that_follow_from_the_text():
    rows = game.people(2_000, seed=7).frame
    alone = rows.groupby(game.KNOWN, observed=True).size()
    answers = {1: (alone == 1).sum() / len(rows), 2: 0.953, 3: 4 * 3}
    for question, answer in answers.items():
        assert game.check_answer(question, answer, rows) == "Right."
    assert "turn odds" in game.check_answer(2, 20.1, rows)
    assert "not alone" in game.check_answer(1, len(alone) / len(rows), rows)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "Put your answer"),
        ("depression", "Right"),
        (" Depression ", "Right"),
        ("diabetes", "Not yet: subtract"),
        ("flu", "Not yet: choose one of asthma"),
    ],
)
def test_the_diagnosis_of_ann_follows_from_two_months(answer, said):
    rows = game.people(2_000, seed=3).frame
    moved = rows["diagnosis"].value_counts() - rows.iloc[1:]["diagnosis"].value_counts()
    assert moved.idxmax() == "depression" and moved.sum() == 1
    assert game.check_diagnosis(answer).startswith(said)


def laplace_scale() -> float:
    """The scale on a count of a network of degree 2, by the library."""
    domain = Domain(tuple("abcdefghijklmn"), (20,) * 14)
    budget, config = Privacy(1.6, relation="replace_one"), bn.Config(degree=2)
    noise = settings.noise_for(bn, domain, [1_000], config, budget)
    charge = bn.plan(noise, domain, 1_000, config)[0]
    return charge.noise * charge.sensitivity


def gaussian_noise(epsilon: float) -> float:
    """The noise multiplier of one count, by the library."""
    return calibrate(lambda noise: [Charge("", "gaussian", noise=noise)], Privacy(epsilon, 1e-5))


def test_the_exercises_have_the_answers_that_code_finds():
    halves = pd.DataFrame({"column": ["A", "B"]}, dtype="category")
    half = {"real": [1, 0], "made up": [0.5, 0.5]}
    smoking = Bernoulli(torch.tensor(0.25)).log_prob(torch.tensor(1.0))
    answers = {
        "01.1": np.abs(np.subtract([0, 1], [0.6, 0.4])).sum() / 2,
        "01.2": heterogeneity(halves, [[0], [1]]),
        "01.3": np.diff(np.linspace(-150, 16_050, 21))[0],
        "02.1": 2,
        "02.2": gaussian_noise(0.25) / gaussian_noise(0.5),
        "02.3": 0.00515,
        "03.1": np.zeros(25, np.int64).nbytes + 6,
        "03.2": 3,
        "03.3": 0.25,
        "04.1": np.diff(np.log([0.1, 0.6])).item(),
        "04.2": binomtest(0, 20).proportion_ci(0.95).high,
        "04.3": 731.06,
        "05.1": 0.5,
        "05.2": 1,
        "05.3": 4,
        "10.1": sum(20**3 for child in range(14) if child >= 2),
        "10.2": laplace_scale(),
        "10.3": np.prod([20 - 1, 20 - 1]) / (2 * 500),
        "11.1": float(kl_divergence(Normal(2.0, 1.0), Normal(0.0, 1.0))),
        "11.2": 0,
        "11.3": np.hypot.reduce(np.ones(9)),
        "12.1": 0.7599,
        "12.2": 0.02,
        "12.3": 0.25,
        "13.1": float(marginals.expected_error(40, np.array([1_000]), 36_000)[0]),
        "13.2": 400 * (100 / 400) * (120 / 400),
        "13.3": 0.0425,
        "15.1": -float(smoking),
        "15.2": 0.2647,
        "15.3": jensenshannon(*half.values(), base=2) ** 2,
        "16.1": np.prod(np.full(100, 1 - 0.02)) ** 0.5,
        "16.2": np.hypot.reduce(np.full(10_000, 2.0)),
        "16.3": 10,
    }
    assert answers.keys() == EXERCISES.keys()
    said = {name: check_exercise(name, answer) for name, answer in answers.items()}
    assert {name for name, each in said.items() if each != "Right."} == set()


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_exercise_knows_wrong_and_near_answers(exercise):
    right, hints = EXERCISES[exercise]
    assert check_exercise(exercise, right + 0.03 * max(right, 1)).endswith("too large.")
    assert check_exercise(exercise, None).startswith("Put your answer")
    assert hints
    for wrong, hint in hints.items():
        assert check_exercise(exercise, wrong) == f"Not yet: {hint}"
