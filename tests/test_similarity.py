"""Scores of columns and pairs against dython-like formulas written out, known answers, and their
ends."""

import numpy as np
import pandas as pd
import pytest
from mixed_table import SCHEMA, mixed
from scipy.stats import entropy

from fedsynth_lib.metrics import similarity, utility
from fedsynth_lib.metrics.similarity import NEIGHBOURS, correlations, fidelity, mixing, uncertainty
from fedsynth_lib.tables.encode import standardised


def test_equal_tables_score_one():
    frame = mixed(500)
    assert fidelity(frame, frame, SCHEMA) == pytest.approx(
        dict.fromkeys(("fidelity_columns", "fidelity_pairs", "fidelity"), 1)
    )


def test_theils_u_by_conditional_entropy():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 4, 800), rng.integers(0, 3, 800)], axis=1)
    codes = np.column_stack(
        [
            codes,
            np.where(rng.random(800) < 0.7, codes[:, 0] // 2, codes[:, 1] % 2),
            np.zeros(800, int),
        ]
    )
    found = uncertainty(codes)
    for i in range(4):
        for j in range(4):
            alone = entropy(np.bincount(codes[:, i]))
            parts = [
                (codes[:, j] == v).mean() * entropy(np.bincount(codes[codes[:, j] == v, i]))
                for v in set(codes[:, j])
            ]
            expected = 1.0 if alone == 0 else (alone - sum(parts)) / alone
            assert found[i, j] == pytest.approx(expected, abs=1e-12)
    assert found[2, 0] != pytest.approx(found[0, 2])  # it has a direction


def test_correlations_are_numpys():
    rows = np.random.default_rng(1).normal(size=(200, 3)) @ np.array(
        [[1, 0.5, 0], [0, 1, 0.2], [0, 0, 1]]
    )
    assert np.allclose(correlations(rows), np.corrcoef(rows.T))
    assert np.array_equal(correlations(np.ones((5, 2))), np.zeros((2, 2)))


def test_scores_by_hand():
    """Two columns of numbers moved by a tenth of their range, one category that never agrees."""
    columns = ["age", "hours", "sex"]
    schema = SCHEMA.drop([name for name in SCHEMA.names if name not in columns])
    real = pd.DataFrame({"age": [20, 40, 60, 80], "hours": [0.0, 100.0, 0.0, 100.0]})
    real["sex"] = pd.Categorical(["female"] * 4, categories=["female", "male"])
    other = pd.DataFrame({"age": [26, 46, 66, 86], "hours": [0.0, 100.0, 0.0, 100.0]})
    other["sex"] = pd.Categorical(["male"] * 4, categories=["female", "male"])
    found = fidelity(real, other, schema)
    assert found["fidelity_columns"] == pytest.approx((0.9 + 1 + 0) / 3)
    assert found["fidelity_pairs"] == pytest.approx(1) and found["fidelity"] == pytest.approx(
        (1.9 / 3 + 1) / 2
    )
    turned = real.assign(hours=[100.0, 0.0, 100.0, 0.0])
    difference = 2 * np.corrcoef(real["age"], real["hours"])[0, 1]
    assert fidelity(real, turned, schema)["fidelity_pairs"] == pytest.approx(1 - difference)


def test_a_single_column_has_no_pairs():
    schema = SCHEMA.drop([name for name in SCHEMA.names if name != "age"])
    found = fidelity(mixed(50)[["age"]], mixed(50, 1)[["age"]], schema)
    assert found["fidelity"] == found["fidelity_columns"] == found["fidelity_pairs"]


@pytest.mark.slow
def test_five_classifiers_learn_from_like_rows_and_not_from_shuffled_ones():
    train, test = mixed(900), mixed(600, 1)
    good = utility.five_classifiers(train, test, SCHEMA, seed=0)
    assert set(good) == {f"accuracy_{name}" for name in utility.FIVE} | {"accuracy"}
    assert good["accuracy"] == pytest.approx(
        np.mean([good[f"accuracy_{name}"] for name in utility.FIVE])
    )
    share = test["target"].value_counts(normalize=True).max()
    bad = train.assign(target=train["target"].sample(frac=1, random_state=1).to_numpy())
    assert good["accuracy"] > utility.five_classifiers(bad, test, SCHEMA, seed=0)["accuracy"] + 0.05
    alone = train.assign(target=pd.Categorical(["yes"] * len(train), categories=["no", "yes"]))
    only = utility.five_classifiers(alone, test, SCHEMA, seed=0)
    assert only["accuracy"] == pytest.approx((test["target"] == "yes").mean()) and share > 0.5
    assert similarity.fidelity(train, test, SCHEMA)["fidelity"] > 0.9


def test_mixing_is_a_half_of_equal_tables_and_nothing_of_others(table):
    one, other = table.take(np.arange(300)), table.take(np.arange(300, 600)).frame
    assert mixing(one.frame, other, one.schema, seed=0) == pytest.approx(0.5, abs=0.04)
    # each row has its copy
    assert mixing(one.frame, one.frame, one.schema, seed=0) == pytest.approx(0.5, abs=0.06)
    far = other.assign(age=other["age"] + 1e6)
    assert mixing(one.frame, far, one.schema, seed=0) == 0


def test_mixing_against_all_distances(table):
    one, other = table.take(np.arange(40)), table.take(np.arange(40, 80)).frame
    points = standardised(pd.concat([one.frame, other], ignore_index=True), table.schema)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1, kind="stable")[:, :NEIGHBOURS]
    expected = ((near < 40) != (np.arange(80) < 40)[:, None]).mean()
    assert mixing(one.frame, other, one.schema, seed=0) == pytest.approx(expected, abs=0.01)
