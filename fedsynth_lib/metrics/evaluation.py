"""Fidelity, utility and privacy of a whole table.

`evaluate` calls the measures that have a group in the registry.
"""

from collections.abc import Collection

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import attacks, fidelity, utility
from fedsynth_lib.metrics.attacks import AttackScenario
from fedsynth_lib.metrics.coding import label_codes
from fedsynth_lib.tables.schema import Schema


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
    scenario is given (see `attacks.SCENARIOS`), attacks `train`. The same seed gives the same
    values. Raises BadInput for a column that is missing, for missing or infinite numbers, unknown
    categories, or fewer than two rows.
    """
    unknown = set(groups) - {"fidelity", "utility", "privacy"}
    if unknown:
        raise BadInput(
            f"metrics: unknown group {min(unknown)!r}; choose from fidelity, utility, privacy."
        )
    for name, frame in (("training", train), ("hold-out", holdout), ("synthetic", synthetic)):
        check(frame, schema, name)
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


def check(frame: pd.DataFrame, schema: Schema, name: str) -> None:
    """Raise BadInput for rows that cannot be measured, by the column that does not fit."""
    label_codes(frame, schema, name)
    if len(frame) < 2:
        raise BadInput(f"the {name} table has one row; give at least two to measure anything.")
