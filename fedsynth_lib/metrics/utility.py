"""What the synthetic rows are good for: train on them, test on real rows (TSTR); higher is better."""

from itertools import permutations

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from fedsynth_lib.interface import BadInput
from fedsynth_lib.metrics.coding import inputs_and_labels, threads
from fedsynth_lib.schema import Schema


def auc(train: pd.DataFrame, holdout: pd.DataFrame, schema: Schema, seed: int) -> dict[str, float]:
    """Area under the ROC curve on `holdout` of three classifiers of the target fitted on `train`.

    auc_rf, auc_nb, auc_knn: from hard labels, which for two classes is balanced accuracy. So the published
        values were made (gap 18): trained on real rows they are 0.772, 0.638, 0.747 on adult (printed: 0.771,
        0.640, 0.749), 0.689, 0.684, 0.650 on bank (0.695, 0.679, 0.651), 0.716, 0.590, 0.651 on cardio (0.715,
        0.589, 0.652); means of three splits.
    auc_rf_score, auc_nb_score, auc_knn_score: from class probabilities, the usual meaning.

    Random forest, Gaussian naive Bayes and 5 nearest neighbours with scikit-learn's defaults. Numeric columns are
    z-scored by the rows the classifier is fitted on, categories are alphabetical codes. The value is the mean
    over the one-vs-rest curves of the classes that the hold-out rows can judge (two classes: both curves have the
    same area). A class that `train` lacks counts 0.5, and so does everything when `train` holds a single class.
    """
    target = _target(schema)
    (inputs, labels), (test_inputs, test_labels) = inputs_and_labels(train, holdout, schema, target)
    truth = test_labels[:, None] == np.arange(len(schema[target].categories))  # (rows, classes)
    judged = truth.any(axis=0) & ~truth.all(axis=0)
    if not judged.any():
        raise BadInput(f"target {target!r} has one class only in the hold-out rows; give rows of at least two classes.")
    classifiers = {
        "rf": fit_forest(inputs, labels, seed),
        "nb": GaussianNB().fit(inputs, labels),
        "knn": KNeighborsClassifier().fit(inputs, labels),
    }
    values = {}
    for name, classifier in classifiers.items():
        scores = np.zeros(truth.shape)
        scores[:, np.unique(labels)] = classifier.predict_proba(test_inputs)
        hard = np.eye(truth.shape[1])[scores.argmax(axis=1)]
        values[f"auc_{name}"] = float(roc_auc_score(truth[:, judged], hard[:, judged]))
        values[f"auc_{name}_score"] = float(roc_auc_score(truth[:, judged], scores[:, judged]))
    return values


def gradient_boosting_auc(train: np.ndarray, test: np.ndarray, target: int, *, seed: int) -> float:
    """Area under the ROC curve on `test` of gradient boosting fitted on `train` (maddock2024, protocol, metric 3).

    train, test: integer codes (rows, columns); target: position of the column to predict from the others.
    100 trees of depth 4, else scikit-learn's defaults. Several classes: one against one, the mean over all ordered
    pairs (a, b) of classes in `test` of the area between their rows by the probability of a. A class that `train`
    lacks has probability 0, so its side of a pair is 0.5; a `train` with a single class gives 0.5.
    On one core 44,000 rows of 14 columns and 2 classes take 7 s, 10,000 rows of 55 columns and 7 classes 20 s.
    """
    train, test = np.asarray(train), np.asarray(test)
    for codes, name in ((train, "training"), (test, "hold-out")):
        if codes.ndim != 2 or len(codes) == 0 or codes.shape[1:] != test.shape[1:]:
            raise BadInput(f"{name} codes have shape {codes.shape}: give rows of the same columns for both tables.")
    if not 0 <= target < test.shape[1]:
        raise BadInput(f"target is {target}: give a column position from 0 to {test.shape[1] - 1}.")
    labels, truth = train[:, target], test[:, target]
    judged = np.unique(truth)
    if len(judged) < 2:
        raise BadInput(f"target {target} has one class only in the hold-out rows; give rows of at least two classes.")
    if len(np.unique(labels)) < 2:
        return 0.5
    model = GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=seed)
    model.fit(np.delete(train, target, axis=1), labels)
    known = dict(zip(model.classes_, model.predict_proba(np.delete(test, target, axis=1)).T, strict=True))
    areas = []
    for one, other in permutations(judged, 2):
        pair = np.isin(truth, (one, other))
        areas.append(roc_auc_score(truth[pair] == one, known[one][pair]) if one in known else 0.5)
    return float(np.mean(areas))


def fit_forest(inputs: np.ndarray, labels: np.ndarray, seed: int) -> RandomForestClassifier:
    """Random forest with defaults. It grows on all threads and votes on one: else votes sum in a changing order."""
    forest = RandomForestClassifier(random_state=seed, n_jobs=threads()).fit(inputs, labels)
    return forest.set_params(n_jobs=1)


def _target(schema: Schema) -> str:
    if schema.target is None or schema[schema.target].kind != "categorical":
        raise BadInput(f"the schema's target is {schema.target!r}; name a categorical column to measure utility.")
    return schema.target
