"""Privacy measures against double loops over tiny tables, scikit-learn row by row, and attacks of
known success."""

import csv
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mixed_table import SCHEMA, independent_columns, mixed
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.svm import SVC

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import attacks
from fedsynth_lib.metrics.attacks import SCENARIOS, AttackScenario

ATTACKS = ("rf", "svm", "nb", "knn", "lr")


# --- distance to closest record ------------------------------------------------------------------


def nearest_by_loop(queries, reference):
    return np.array([min(float(np.sqrt(((q - r) ** 2).sum())) for r in reference) for q in queries])


def z_scores_by_hand(train, *tables):
    scaler = StandardScaler()
    encoders = {c: LabelEncoder().fit(list(SCHEMA[c].categories)) for c in SCHEMA.categorical}

    def codes(frame):
        return np.column_stack(
            [
                encoders[c].transform(frame[c].astype(str)) if c in encoders else frame[c]
                for c in SCHEMA.names
            ]
        ).astype(float)

    scaler.fit(codes(train))
    return [scaler.transform(codes(frame)) for frame in tables]


def test_closest_records_loop():
    """Hold-out and training parts of one size: every draw is all training rows, so a double loop
    gives the values."""
    train, holdout, synthetic = mixed(40, seed=1), mixed(40, seed=2), mixed(25, seed=3)
    synthetic = pd.concat([synthetic, train[:5], holdout[:3]], ignore_index=True)
    values = attacks.closest_records(train, holdout, synthetic, SCHEMA, seed=0, subsamples=3)
    a, b, s = z_scores_by_hand(train, train, holdout, synthetic)
    to_train, to_holdout = nearest_by_loop(s, a), nearest_by_loop(s, b)
    share = np.mean(
        [
            1.0 if t < h else 0.5 if t == h else 0.0
            for t, h in zip(to_train, to_holdout, strict=True)
        ]
    )
    assert values["dcr_min"] == 0
    assert values["dcr_share"] == pytest.approx(share)
    assert values["dcr_avg_train"] == pytest.approx(to_train.mean())
    assert values["dcr_avg_train_all"] == pytest.approx(to_train.mean())
    assert values["dcr_avg_holdout"] == pytest.approx(to_holdout.mean())


@pytest.mark.parametrize("neighbours", [1, 3, 16, 500])
def test_distances_to_a_subset_equal_a_direct_search(neighbours):
    rng = np.random.default_rng(0)
    # rounded: many ties
    queries, reference = rng.normal(size=(300, 4)).round(1), rng.normal(size=(400, 4)).round(1)
    distances, index = attacks.nearest(queries, reference, neighbours)
    assert distances.shape == (300, min(neighbours, 400))
    for share in (0.02, 0.25, 1.0):
        subset = rng.random(400) < share
        found = attacks._to_subset(queries, reference, distances, index, subset)
        np.testing.assert_allclose(found, nearest_by_loop(queries, reference[subset]), atol=1e-12)


def test_a_copy_has_distance_zero_exactly():
    # Far from the origin the expanded square loses all digits of a small distance.
    rng = np.random.default_rng(0)
    reference = 1e6 + rng.normal(size=(500, 3))
    distances, index = attacks.nearest(reference, reference, 1)
    assert (distances[:, 0] == np.linalg.norm(reference - reference[index[:, 0]], axis=1)).all()
    train = mixed(300, seed=1)
    assert (
        attacks.closest_records(train, mixed(300, seed=2), train[7:8], SCHEMA, seed=0)["dcr_min"]
        == 0
    )
    near = train[7:8].assign(income=train["income"][7] + 0.01)
    assert (
        0
        < attacks.closest_records(train, mixed(300, seed=2), near, SCHEMA, seed=0)["dcr_min"]
        < 1e-5
    )


def test_ties_count_half():
    row = mixed(1)
    same = pd.concat([row] * 40, ignore_index=True)
    values = attacks.closest_records(same, same[:10], same, SCHEMA, seed=0)
    assert values["dcr_share"] == 0.5 and values["dcr_share_printed"] == 0
    # z-scores differ in the last digits, mirror-image distances still tie: 20 and 40 around 30
    train, holdout, middle = (row.assign(age=age) for age in (20, 40, 30))
    train = pd.concat([train, train.assign(age=90)], ignore_index=True)
    values = attacks.closest_records(train, pd.concat([holdout] * 2), middle, SCHEMA, seed=0)
    assert values["dcr_share"] == 0.5


def test_controls_of_closest_records():
    pool = mixed(5000, seed=1)
    train, holdout = pool[:4000], pool[4000:]
    second = attacks.closest_records(train, holdout, mixed(4000, seed=2), SCHEMA, seed=0)
    assert second["dcr_share"] == pytest.approx(0.5, abs=0.02)
    assert second["dcr_avg_train"] == pytest.approx(second["dcr_avg_holdout"], rel=0.02)
    assert second["dcr_avg_train_all"] < second["dcr_avg_train"]
    # A draw with replacement of 1,000 out of 4,000 holds 4000 (1 - e^(-1/4)) = 885 rows: 885 /
    # 1,885 = 0.469.
    assert second["dcr_share_printed"] == pytest.approx(0.469, abs=0.02)
    assert second["dcr_avg_train_printed"] > second["dcr_avg_holdout"]

    copy = attacks.closest_records(train, holdout, train, SCHEMA, seed=0)
    assert copy["dcr_min"] == copy["dcr_avg_train_all"] == 0
    # A quarter of the copies finds itself in a draw, the others are nearer to it by chance of a
    # half.
    assert copy["dcr_share"] == pytest.approx(0.625, abs=0.02)
    equal = attacks.closest_records(train[:1000], holdout, train[:1000], SCHEMA, seed=0)
    assert equal["dcr_share"] == 1 and equal["dcr_avg_train"] == 0 < equal["dcr_avg_holdout"]
    assert attacks.closest_records(train, holdout, holdout, SCHEMA, seed=0)["dcr_share"] == 0

    apart = attacks.closest_records(train, holdout, independent_columns(train), SCHEMA, seed=0)
    # standard deviation over hold-out parts: 0.011
    assert apart["dcr_share"] == pytest.approx(0.5, abs=0.035)
    assert apart["dcr_avg_train"] > 1.2 * second["dcr_avg_train"]


def test_a_holdout_larger_than_the_training_part_is_drawn_down():
    train, holdout = mixed(300, seed=1), mixed(1500, seed=2)
    values = attacks.closest_records(train, holdout, mixed(1500, seed=3), SCHEMA, seed=0)
    assert values["dcr_share"] == pytest.approx(0.5, abs=0.06)


# --- attribute -----------------------------------------------------------------------------------
# disclosure

SCENARIO = AttackScenario(("age", "sex", "owner"), 2, "job")


def scores_by_hand(real, synthetic, key, target, seed):
    """All attacks with scikit-learn's defaults on every row, no row merged, no key merged."""
    columns = []
    for name in sorted(key, key=SCHEMA.names.index):
        if name in SCHEMA.numeric:
            scaler = StandardScaler().fit(synthetic[[name]])
            columns.append([scaler.transform(f[[name]])[:, 0] for f in (synthetic, real)])
        else:
            encoder = LabelEncoder().fit(list(SCHEMA[name].categories))
            columns.append([encoder.transform(f[name].astype(str)) for f in (synthetic, real)])
    x, attacked = (np.column_stack(side) for side in zip(*columns, strict=True))
    y, truth = (f[target].astype(str).to_numpy() for f in (synthetic, real))
    models = {
        "rf": RandomForestClassifier(random_state=seed),
        "svm": SVC(),
        "nb": GaussianNB(),
        "knn": KNeighborsClassifier(),
        "lr": LogisticRegression(),
    }
    guesses = {f"ad_{name}": model.fit(x, y).predict(attacked) for name, model in models.items()}
    votes = pd.DataFrame(guesses).mode(axis=1)[0]  # the first in the alphabet where several win
    majority = pd.Series(y).mode()[0]
    return {
        n: np.mean(g == truth) for n, g in {**guesses, "ad_ens": votes, "ad_dum": majority}.items()
    }


@pytest.mark.slow
def test_attacks_equal_scikit_learn_row_by_row():
    real, synthetic = mixed(900, seed=1), mixed(1200, seed=2)
    by_key = attacks.attribute_disclosure_by_key(real, synthetic, SCHEMA, SCENARIO, seed=3)
    assert list(by_key) == list(combinations(SCENARIO.quasi_identifiers, 2))
    for key, values in by_key.items():
        expected = scores_by_hand(real, synthetic, key, "job", 3)
        assert values["ad_rmean"] == pytest.approx(
            np.mean([values[f"ad_{n}"] for n in (*ATTACKS, "ens")])
        )
        for name, score in expected.items():
            # The last digits decide a guess between equals: in solvers on merged rows, among
            # neighbours that tie.
            slack = 1e-12 if name in ("ad_rf", "ad_nb", "ad_dum") else 0.006
            assert values[name] == pytest.approx(score, abs=slack), (key, name)
    means = attacks.attribute_disclosure(real, synthetic, SCHEMA, SCENARIO, seed=3)
    assert means == pytest.approx(pd.DataFrame(by_key.values()).mean().to_dict())


def test_weighted_distinct_rows_give_the_same_svm_and_logistic_regression():
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.integers(0, 12, 3000) / 4, rng.integers(0, 3, 3000)]).astype(
        float
    )
    labels = np.digitize(inputs[:, 0] + inputs[:, 1] + rng.normal(0, 1, 3000), [1.5, 3])
    grid = np.unique(inputs, axis=0)
    assert (
        len(attacks._distinct(inputs, labels)[2]) < 110
        and attacks._distinct(inputs, labels)[2].sum() == 3000
    )
    svm, plain_svm = attacks.fit_svm(inputs, labels, 10_000, rng), SVC().fit(inputs, labels)
    np.testing.assert_allclose(
        svm.decision_function(grid), plain_svm.decision_function(grid), atol=0.02
    )
    lr, plain_lr = attacks.fit_lr(inputs, labels), LogisticRegression().fit(inputs, labels)
    np.testing.assert_allclose(lr.predict_proba(grid), plain_lr.predict_proba(grid), atol=1e-3)


def test_svm_learns_from_a_sample_where_distinct_rows_are_many():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(4000, 2))
    labels = (inputs.sum(axis=1) > 0).astype(int)
    svm = attacks.fit_svm(inputs, labels, 300, rng)
    assert len(svm.support_) < 300
    assert np.mean(svm.predict(inputs) == labels) > 0.95


def test_rows_of_one_class_let_every_attack_guess_it():
    real = mixed(500, seed=1)
    only = real[real["owner"] == "yes"]
    values = attacks.attribute_disclosure(
        real, only, SCHEMA, AttackScenario(("sex", "age"), 1, "owner"), seed=0
    )
    assert set(values.values()) == {(real["owner"] == "yes").mean()}


def test_ties_of_the_vote_go_to_the_first_class():
    inputs, labels = np.array([[0.0], [1.0], [2.0]] * 10), np.array([0, 1, 2] * 10)
    guesses = attacks._guesses(inputs, labels, np.array([[0.0], [1.0], [2.0], [0.5]]), 0, 100)
    votes = np.array([guesses[name] for name in ATTACKS])
    expected = [np.bincount(column, minlength=3).argmax() for column in votes.T]
    assert guesses["ens"].tolist() == expected and guesses["ens"].tolist()[:3] == [0, 1, 2]


def test_scenarios_are_those_of_table_5_7():
    path = (
        Path(__file__).parents[1] / "data" / "published" / "values" / "martinez2024" / "tab5.7.csv"
    )
    with path.open() as file:
        published = {(row["dataset"], row["metric"]): row["mean"] for row in csv.DictReader(file)}
    for name, scenario in SCENARIOS.items():
        dataset = name.split("_")[0]
        assert str(scenario.key_length) == published[dataset, "key_length"]
        assert scenario.target == published[dataset, "target"]
        if dataset != "adult":
            assert ";".join(scenario.quasi_identifiers) == published[dataset, "quasi_identifiers"]
    printed = set(published["adult", "quasi_identifiers"].split(";"))
    assert set(SCENARIOS["adult"].quasi_identifiers) == printed - {"marital-status"}


def test_bad_scenarios_are_refused():
    frame = mixed(50)
    for scenario in (
        replace(SCENARIO, key_length=4),
        replace(SCENARIO, key_length=0),
        replace(SCENARIO, quasi_identifiers=("age", "job")),
    ):
        with pytest.raises(
            BadInput, match="attack on 'job': give quasi-identifiers without it, and a key length"
        ):
            attacks.attribute_disclosure(frame, frame, SCHEMA, scenario, seed=0)
    with pytest.raises(BadInput, match="attack on 'hours': the column is numeric"):
        attacks.attribute_disclosure(
            frame, frame, SCHEMA, replace(SCENARIO, target="hours"), seed=0
        )
