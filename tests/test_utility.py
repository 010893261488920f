"""Utility measures against scikit-learn called by hand, and against areas counted pair by pair."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from mixed_table import SCHEMA, mixed
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelEncoder, StandardScaler

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import utility


@pytest.fixture(scope="module")
def train():
    return mixed(3000, seed=1)


@pytest.fixture(scope="module")
def holdout():
    return mixed(800, seed=2)


def by_hand(train, holdout, target="target"):
    """Inputs and labels as a user would make them with scikit-learn; classes in alphabetical
    order."""
    features = [name for name in SCHEMA.names if name != target]
    columns = []
    for name in features:
        if name in SCHEMA.numeric:
            scaler = StandardScaler().fit(train[[name]])
            columns.append([scaler.transform(f[[name]])[:, 0] for f in (train, holdout)])
        else:
            encoder = LabelEncoder().fit(list(SCHEMA[name].categories))
            columns.append([encoder.transform(f[name].astype(str)) for f in (train, holdout)])
    inputs = [np.column_stack(side) for side in zip(*columns, strict=True)]
    return inputs, [f[target].astype(str).to_numpy() for f in (train, holdout)]


def test_two_classes_equal_scikit_learn(train, holdout):
    values = utility.auc(train, holdout, SCHEMA, seed=5)
    (x, x_test), (y, y_test) = by_hand(train, holdout)
    models = {
        "rf": RandomForestClassifier(random_state=5),
        "nb": GaussianNB(),
        "knn": KNeighborsClassifier(),
    }
    assert set(values) == {f"auc_{name}{form}" for name in models for form in ("", "_score")}
    for name, model in models.items():
        model.fit(x, y)
        assert values[f"auc_{name}"] == pytest.approx(
            balanced_accuracy_score(y_test, model.predict(x_test))
        )
        assert values[f"auc_{name}_score"] == pytest.approx(
            roc_auc_score(y_test == "yes", model.predict_proba(x_test)[:, 1])
        )


def area(positive, scores):
    """Share of (positive, negative) pairs in the right order, ties counting half."""
    gaps = np.subtract.outer(scores[positive], scores[~positive])
    return float(np.mean((gaps > 0) + 0.5 * (gaps == 0)))


def test_many_classes_are_the_mean_of_one_against_the_rest(train, holdout):
    schema = replace(SCHEMA, target="job")
    # pilots are in neither
    train, holdout = train[train["job"] != "farmer"], holdout[holdout["job"] != "artist"]
    values = utility.auc(train, holdout, schema, seed=0)
    (x, x_test), (y, y_test) = by_hand(train, holdout, "job")
    for name, model in (("nb", GaussianNB()), ("knn", KNeighborsClassifier())):
        proba = pd.DataFrame(model.fit(x, y).predict_proba(x_test), columns=model.classes_)
        guess = proba.columns[proba.to_numpy().argmax(axis=1)].to_numpy()
        judged = sorted(set(y_test))
        assert "farmer" in judged and "farmer" not in proba
        soft = [area(y_test == c, proba[c].to_numpy()) if c in proba else 0.5 for c in judged]
        hard = [area(y_test == c, (guess == c).astype(float)) for c in judged]
        assert values[f"auc_{name}_score"] == pytest.approx(np.mean(soft))
        assert values[f"auc_{name}"] == pytest.approx(np.mean(hard))


def test_rows_of_one_class_score_a_half(train, holdout):
    only = train[train["target"] == "yes"]
    assert set(utility.auc(only, holdout, SCHEMA, seed=0).values()) == {0.5}


@pytest.mark.slow
def test_constant_rows_score_a_half(train, holdout):
    """Case 47: variances of 0 made naive Bayes NaN. One class, constant inputs, or both; a single
    row has fewer neighbours than the classifier asks for."""
    numbers, words = list(SCHEMA.numeric), [n for n in SCHEMA.categorical if n != "target"]
    constant = train.assign(**{name: train[name].iloc[0] for name in numbers + words})
    for rows in (constant[:300], constant.assign(target="no")[:30], constant[:3], train[:1]):
        values = utility.auc(rows, holdout, SCHEMA, 0)
        assert set(values.values()) == {0.5}, values
        assert np.isfinite(
            list(utility.five_classifiers(rows, holdout, SCHEMA, seed=0).values())
        ).all()
        assert np.isfinite(
            list(utility.four_classifiers(rows, holdout, SCHEMA, seed=0).values())
        ).all()
    half = train.assign(**{name: train[name].iloc[0] for name in numbers})
    assert np.isfinite(list(utility.auc(half, holdout, SCHEMA, 0).values())).all()


def test_classifiers_can_be_chosen(train, holdout):
    every = utility.auc(train, holdout, SCHEMA, 0)
    assert utility.auc(train, holdout, SCHEMA, 0, ["nb"]) == {
        name: every[name] for name in ("auc_nb", "auc_nb_score")
    }


def test_bad_input(train, holdout):
    with pytest.raises(BadInput, match="the schema's target is 'age'; name a categorical column"):
        utility.auc(train, holdout, replace(SCHEMA, target="age"), seed=0)
    with pytest.raises(BadInput, match="the schema's target is None"):
        utility.auc(train, holdout, replace(SCHEMA, target=None), seed=0)
    with pytest.raises(BadInput, match="target 'target' has one class only in the hold-out rows"):
        utility.auc(train, holdout[holdout["target"] == "no"], SCHEMA, seed=0)


# --- gradient boosting ---------------------------------------------------------------------------


def coded(labels, inputs):
    """Codes (rows, 2) with the target first."""
    return np.column_stack([labels, inputs]).astype(int)


def test_boosting_of_a_copied_column_is_perfect_and_of_its_opposite_always_wrong():
    label = np.arange(60) % 2
    copied, opposite, nothing = (
        coded(label, label),
        coded(label, 1 - label),
        coded(label, label * 0),
    )
    assert utility.gradient_boosting_auc(copied, copied, 0, seed=0) == 1
    assert utility.gradient_boosting_auc(opposite, copied, 0, seed=0) == 0
    assert utility.gradient_boosting_auc(nothing, nothing, 0, seed=0) == 0.5


def test_boosting_counts_ties_half():
    """An input of 0 or 1 that is right for 3 of 4 rows of either class: 9 pairs of 16 in order, 6
    tied."""
    codes = coded([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 0])
    assert utility.gradient_boosting_auc(codes, codes, 0, seed=0) == (9 + 6 / 2) / 16


@pytest.fixture(scope="module")
def many_classes():
    rng = np.random.default_rng(8)
    inputs = rng.integers(0, 12, (900, 3))
    label = np.clip((inputs[:, 0] + inputs[:, 1] + rng.integers(-5, 6, 900)) // 6, 0, 3)
    codes = np.column_stack([inputs[:, :2], label, inputs[:, 2]])
    return codes[:600], codes[600:]


@pytest.mark.slow
def test_boosting_of_many_classes_equals_scikit_learn(many_classes):
    train, test = many_classes
    model = GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=3)
    model.fit(train[:, [0, 1, 3]], train[:, 2])
    proba = model.predict_proba(test[:, [0, 1, 3]])
    expected = roc_auc_score(test[:, 2], proba, multi_class="ovo")
    assert utility.gradient_boosting_auc(train, test, 2, seed=3) == pytest.approx(expected)
    two = np.isin(test[:, 2], (1, 2))
    expected = np.mean([area(test[two, 2] == k, proba[two, k]) for k in (1, 2)])
    assert utility.gradient_boosting_auc(train, test[two], 2, seed=3) == pytest.approx(expected)


def test_a_class_that_synthetic_rows_lack_has_probability_zero(many_classes):
    train, test = many_classes
    train = train[train[:, 2] != 2]
    model = GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=0)
    proba = model.fit(train[:, [0, 1, 3]], train[:, 2]).predict_proba(test[:, [0, 1, 3]])
    scores = np.insert(proba, 2, 0.0, axis=1)
    expected = roc_auc_score(test[:, 2], scores, multi_class="ovo")
    assert utility.gradient_boosting_auc(train, test, 2, seed=0) == pytest.approx(expected)
    assert utility.gradient_boosting_auc(train[train[:, 2] == 1], test, 2, seed=0) == 0.5


def test_bad_input_to_boosting(many_classes):
    train, test = many_classes
    for arguments, message in (
        ((train, test, 4), "target is 4: give a column position from 0 to 3"),
        (
            (train[:, :3], test, 0),
            r"training codes have shape \(600, 3\): give rows of the same "
            r"columns",
        ),
        ((train[:0], test, 0), r"training codes have shape \(0, 4\)"),
        ((train, test[test[:, 2] == 1], 2), "target 2 has one class only in the hold-out rows"),
    ):
        with pytest.raises(BadInput, match=message):
            utility.gradient_boosting_auc(*arguments, seed=0)
