"""The four classifiers of leitner2023 against scikit-learn called by hand, its version 1.2.2, and
worked examples."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from mixed_table import SCHEMA, mixed
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.utility import boosted_stumps, four_classifiers
from fedsynth_lib.tables.schema import Column, Schema

NAMES = ("knn", "mlp", "rf", "ada")
METRICS = ("accuracy", "auroc", "auprc")
SMALL = Schema(
    (
        Column("x", "numeric", low=0, high=1000),
        Column("c", "categorical", categories=("yes", "no")),
    ),
    "c",
)


@pytest.fixture(scope="module")
def train():
    return mixed(600, seed=1)


@pytest.fixture(scope="module")
def holdout():
    return mixed(400, seed=2)


@pytest.fixture(scope="module")
def values(train, holdout):
    return four_classifiers(train, holdout, SCHEMA, seed=5)


def table(numbers, positives):
    return pd.DataFrame(
        {"x": np.asarray(numbers, float), "c": np.where(np.asarray(positives, bool), "yes", "no")}
    )


def by_hand(train, holdout, target):
    """Inputs and labels as a user would make them with scikit-learn."""
    blocks = []
    for name in (name for name in SCHEMA.names if name != target):
        numeric = name in SCHEMA.numeric
        coder = (
            StandardScaler()
            if numeric
            else OneHotEncoder(categories=[sorted(SCHEMA[name].categories)])
        )
        coder.fit(train[[name]].astype(float if numeric else str))
        coded = [
            coder.transform(f[[name]].astype(float if numeric else str)) for f in (train, holdout)
        ]
        blocks.append(coded if numeric else [each.toarray() for each in coded])
    return [np.hstack(side) for side in zip(*blocks, strict=True)], [
        f[target].astype(str) for f in (train, holdout)
    ]


def models(seed):
    forest = RandomForestClassifier(100, random_state=seed)
    return {
        "knn": KNeighborsClassifier(10),
        "mlp": MLPClassifier((100,), random_state=seed),
        "rf": forest,
    }


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_two_classes_equal_scikit_learn(train, holdout, values):
    (x, x_test), (y, y_test) = by_hand(train, holdout, "target")
    assert set(values) == {
        f"{m}{n}" for m in METRICS for n in ["", *(f"_{name}" for name in NAMES)]
    }
    for name, model in models(seed=5).items():
        score = model.fit(x, y).predict_proba(x_test)[:, 1]
        assert model.classes_[1] == "yes"
        assert values[f"accuracy_{name}"] == pytest.approx(model.score(x_test, y_test))
        assert values[f"auroc_{name}"] == pytest.approx(roc_auc_score(y_test == "yes", score))
        assert values[f"auprc_{name}"] == pytest.approx(
            average_precision_score(y_test == "yes", score)
        )
    for metric in METRICS:
        assert values[metric] == pytest.approx(
            np.mean([values[f"{metric}_{name}"] for name in NAMES])
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_many_classes_are_the_mean_of_one_against_the_rest(train, holdout):
    """`train` has no farmers, the hold-out no artists, pilots are in neither."""
    schema = replace(SCHEMA, target="job")
    train, holdout = train[train["job"] != "farmer"], holdout[holdout["job"] != "artist"]
    values = four_classifiers(train, holdout, schema, seed=0)
    (x, x_test), (y, y_test) = by_hand(train, holdout, "job")
    for name, model in models(seed=0).items():
        scores = pd.DataFrame(model.fit(x, y).predict_proba(x_test), columns=model.classes_)
        judged = sorted(set(y_test))
        assert "farmer" in judged and "farmer" not in scores and "artist" not in judged
        share = (y_test == "farmer").mean()
        roc = [roc_auc_score(y_test == c, scores[c]) if c in scores else 0.5 for c in judged]
        pr = [
            average_precision_score(y_test == c, scores[c]) if c in scores else share
            for c in judged
        ]
        assert values[f"accuracy_{name}"] == pytest.approx(model.score(x_test, y_test))
        assert values[f"auroc_{name}"] == pytest.approx(np.mean(roc))
        assert values[f"auprc_{name}"] == pytest.approx(np.mean(pr))


def test_ten_neighbours_by_hand():
    """At 0 three of ten training rows are positive, at 1000 eight: scores 0.3 and 0.8.

    Hold-out: one positive and three negatives at 0, two positives and a negative at 1000. Of 3 x 4
    pairs 2 x 3 are in order, 1 x 1 is not, 2 + 3 are tied; precision is 2/3 at recall 2/3 and 3/7
    at recall 1.
    """
    train = table(np.repeat([0, 1000], 10), [1] * 3 + [0] * 7 + [1] * 8 + [0] * 2)
    values = four_classifiers(
        train, table([0] * 4 + [1000] * 3, [1, 0, 0, 0, 1, 1, 0]), SMALL, seed=0
    )
    for name in ("knn", "rf", "ada"):  # trees split between the two places, too
        assert values[f"accuracy_{name}"] == pytest.approx(5 / 7)
        assert values[f"auroc_{name}"] == pytest.approx((6 + 5 / 2) / 12)
        assert values[f"auprc_{name}"] == pytest.approx(2 / 3 * 2 / 3 + 1 / 3 * 3 / 7)


def test_the_second_class_in_the_alphabet_is_the_positive_one():
    """Not the rarer one, and not the second as declared: `yes` for yes and no, `no` for no and
    maybe."""
    train, holdout = table([0, 10] * 10, [0, 1] * 10), table([0, 0, 10, 10], [0, 1, 1, 1])
    assert four_classifiers(train, holdout, SMALL, seed=0)["auprc_knn"] == pytest.approx(
        2 / 3 + 1 / 3 * 3 / 4
    )
    schema = replace(
        SMALL, columns=(SMALL["x"], Column("c", "categorical", categories=("no", "maybe")))
    )
    train, holdout = (frame.replace({"c": {"yes": "maybe"}}) for frame in (train, holdout))
    assert four_classifiers(train, holdout, schema, seed=0)["auprc_knn"] == pytest.approx(1 / 2)


def test_rows_of_a_single_class_teach_nothing(holdout):
    only = mixed(300, seed=3).query("target == 'no'")
    values, share = (
        four_classifiers(only, holdout, SCHEMA, seed=0),
        (holdout["target"] == "yes").mean(),
    )
    for name in ("", *(f"_{name}" for name in NAMES)):
        assert values[f"accuracy{name}"] == pytest.approx(1 - share)
        assert values[f"auroc{name}"] == 0.5
        assert values[f"auprc{name}"] == pytest.approx(share)
    several = four_classifiers(
        only.query("job == 'clerk'"), holdout, replace(SCHEMA, target="job"), seed=0
    )
    assert several["auroc"] == 0.5 and several["auprc"] == pytest.approx(
        1 / holdout["job"].nunique()
    )
    assert several["accuracy"] == pytest.approx((holdout["job"] == "clerk").mean())


def test_few_rows_are_all_neighbours():
    train, holdout = table([0, 1, 10], [0, 0, 1]), table([0, 10, 10], [0, 0, 1])
    values = four_classifiers(train, holdout, SMALL, seed=0)
    # 1/3 everywhere
    assert values["auroc_knn"] == 0.5 and values["accuracy_knn"] == pytest.approx(2 / 3)
    # one negative lies below the positive, one beside it
    assert values["auroc_ada"] == pytest.approx(0.75)


def test_constant_inputs_of_even_classes_are_no_trouble():
    values = four_classifiers(
        table([7] * 20, [0, 1] * 10), table([7, 7, 8], [0, 1, 1]), SMALL, seed=0
    )
    assert values["auroc_knn"] == values["auroc_rf"] == values["auroc_ada"] == 0.5


def test_boosted_stumps_equal_version_1_2_2_of_scikit_learn():
    """AdaBoostClassifier(n_estimators=50, random_state=7).fit(x, y).predict_proba(x_test) there."""
    random, expected = np.random.RandomState(3), {}
    expected[2] = [
        [0.539921068, 0.460078932],
        [0.514715485, 0.485284515],
        [0.530478239, 0.469521761],
    ]
    expected[4] = [
        [0.295199269, 0.270036686, 0.208877089, 0.225886955],
        [0.252043059, 0.268998809, 0.262286955, 0.216671177],
        [0.075679612, 0.2763464, 0.309280901, 0.338693087],
    ]
    for classes, steps in ((2, [0.5]), (4, [-0.5, 0.5, 1.5])):
        x = random.normal(size=(300, 5))
        y = np.digitize(x[:, 0] + 0.7 * x[:, 1] ** 2 + random.normal(0, 0.8, 300), steps)
        found = boosted_stumps(x, y, random.normal(size=(6, 5)), seed=7)
        np.testing.assert_allclose(found[:3], expected[classes], atol=1e-8)


def test_a_perfect_stump_ends_the_boosting():
    x, y = np.arange(10.0)[:, None], np.repeat([0, 1], 5)
    np.testing.assert_allclose(
        boosted_stumps(x, y, np.array([[0.0], [9.0]]), seed=0), np.eye(2), atol=1e-12
    )


@pytest.mark.slow
def test_nothing_but_the_rows_matters(train, holdout, values, monkeypatch):
    """Neither the declared order of categories, nor the number of threads, nor the scale of a
    number."""
    columns = (replace(c, categories=c.categories[::-1]) for c in SCHEMA.columns)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (
        four_classifiers(train, holdout, replace(SCHEMA, columns=tuple(columns)), seed=5) == values
    )
    scaled = four_classifiers(
        *(f.assign(gain=f["gain"] * 1024.0) for f in (train, holdout)), SCHEMA, seed=5
    )
    assert scaled == pytest.approx(values)


def test_bad_input(train, holdout):
    with pytest.raises(BadInput, match="the schema's target is 'age'; name a categorical column"):
        four_classifiers(train, holdout, replace(SCHEMA, target="age"), seed=0)
    with pytest.raises(BadInput, match="target 'target' has one class only in the hold-out rows"):
        four_classifiers(train, holdout[holdout["target"] == "no"], SCHEMA, seed=0)
    with pytest.raises(BadInput, match="the training table has no rows; give at least one"):
        four_classifiers(train.iloc[:0], holdout, SCHEMA, seed=0)
    with pytest.raises(
        BadInput, match="the hold-out table has missing or infinite values in column 'income'"
    ):
        four_classifiers(train, holdout.assign(income=np.nan), SCHEMA, seed=0)
    with pytest.raises(BadInput, match="column 'city' holds 600 values"):
        four_classifiers(train.assign(city="west"), holdout, SCHEMA, seed=0)
