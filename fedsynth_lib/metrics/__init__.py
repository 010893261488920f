"""The measures of martinez2024: fidelity, utility, privacy. Plain functions of tables; `evaluate`
calls them all."""

from collections.abc import Collection
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import attacks, fidelity, utility
from fedsynth_lib.metrics.attacks import SCENARIOS, AttackScenario
from fedsynth_lib.tables.schema import Schema

__all__ = ["METRICS", "SCENARIOS", "VERSION", "AttackScenario", "Metric", "evaluate"]

VERSION = 1  # raise it whenever a value changes: cached rows were made by one version

Group = Literal["fidelity", "utility", "privacy"]


class Metric(NamedTuple):
    """How a figure names a measure, and where good values lie ('half': near 0.5)."""

    label: str
    better: Literal["lower", "higher", "half"]
    group: Group


METRICS: dict[str, Metric] = {
    "hellinger": Metric("mean Hellinger distance", "lower", "fidelity"),
    "pcd": Metric("pairwise correlation difference", "lower", "fidelity"),
    "pmse": Metric("propensity MSE", "lower", "fidelity"),
    "log_cluster": Metric("log-cluster", "lower", "fidelity"),
    "log_cluster_base2": Metric("log-cluster (base 2)", "lower", "fidelity"),
    "log_cluster_printed": Metric("log-cluster (as printed)", "lower", "fidelity"),
    "auc_rf": Metric("AUC random forest", "higher", "utility"),
    "auc_nb": Metric("AUC naive Bayes", "higher", "utility"),
    "auc_knn": Metric("AUC k-NN", "higher", "utility"),
    "auc_rf_score": Metric("AUC random forest (probabilities)", "higher", "utility"),
    "auc_nb_score": Metric("AUC naive Bayes (probabilities)", "higher", "utility"),
    "auc_knn_score": Metric("AUC k-NN (probabilities)", "higher", "utility"),
    "dcr_min": Metric("smallest distance to a training record", "higher", "privacy"),
    "dcr_share": Metric("share nearer to training than hold-out", "half", "privacy"),
    "dcr_avg_train": Metric("mean distance to training records", "higher", "privacy"),
    "dcr_avg_holdout": Metric("mean distance to hold-out records", "higher", "privacy"),
    "dcr_avg_train_all": Metric("mean distance to all training records", "higher", "privacy"),
    "dcr_share_printed": Metric("share nearer to training (bootstrap)", "half", "privacy"),
    "dcr_avg_train_printed": Metric("mean distance to training (bootstrap)", "higher", "privacy"),
    "ad_rf": Metric("attack by random forest", "lower", "privacy"),
    "ad_svm": Metric("attack by SVM", "lower", "privacy"),
    "ad_nb": Metric("attack by naive Bayes", "lower", "privacy"),
    "ad_knn": Metric("attack by k-NN", "lower", "privacy"),
    "ad_lr": Metric("attack by logistic regression", "lower", "privacy"),
    "ad_ens": Metric("attack by majority vote", "lower", "privacy"),
    "ad_dum": Metric("most frequent class", "lower", "privacy"),
    "ad_rmean": Metric("mean of the attacks", "lower", "privacy"),
}


def evaluate(
    train: pd.DataFrame,
    holdout: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    seed: int,
    groups: Collection[str] = ("fidelity", "utility", "privacy"),
    scenario: AttackScenario | None = None,
) -> dict[str, float]:
    """Name -> value of every measure of the chosen groups; names as in the published value files.

    Fidelity compares `synthetic` with `train`; utility trains on `synthetic` and tests on
    `holdout`; privacy holds the distances to `train` against those to `holdout` and, where a
    scenario is given (see SCENARIOS), attacks `train`. The same seed gives the same values. Raises
    BadInput for a column that is missing, for missing or infinite numbers, unknown categories, or
    fewer than two rows.
    """
    unknown = set(groups) - {"fidelity", "utility", "privacy"}
    if unknown:
        raise BadInput(
            f"metrics: unknown group {min(unknown)!r}; choose from fidelity, utility, privacy."
        )
    for name, frame in (("training", train), ("hold-out", holdout), ("synthetic", synthetic)):
        _check(frame, schema, name)
    values: dict[str, float] = {}
    if "fidelity" in groups:
        values["hellinger"] = fidelity.hellinger(train, synthetic, schema)
        values["pcd"] = fidelity.pairwise_correlation_difference(train, synthetic, schema)
        values["pmse"] = fidelity.propensity_mse(train, synthetic, schema, seed)
        values |= fidelity.log_cluster(train, synthetic, schema, seed)
    if "utility" in groups:
        values |= utility.auc(synthetic, holdout, schema, seed)
    if "privacy" in groups:
        values |= attacks.closest_records(train, holdout, synthetic, schema, seed)
        if scenario is not None:
            values |= attacks.attribute_disclosure(train, synthetic, schema, scenario, seed)
    return values


def _check(frame: pd.DataFrame, schema: Schema, name: str) -> None:
    for column in schema.columns:
        where = f"{name} rows: column {column.name!r}"
        if column.name not in frame.columns:
            raise BadInput(f"{where} is missing; hand in every column of the schema.")
        values = frame[column.name]
        if column.kind == "numeric" and not np.isfinite(values.to_numpy(np.float64)).all():
            raise BadInput(
                f"{where} has missing or infinite values; replace them or drop these rows."
            )
        if column.kind == "categorical" and not values.isin(column.categories).all():
            raise BadInput(
                f"{where} has missing or undeclared categories; correct them or declare them."
            )
    if len(frame) < 2:
        raise BadInput(
            f"{name} rows: there are {len(frame)}; at least two are needed to measure anything."
        )
