"""Distance of single columns of synthetic and training rows: two scores of leitner2023.

Discrete columns (categories, the target among them) by the Jensen-Shannon distance, continuous ones
(numbers) by the Wasserstein-1 distance after min-max scaling (section 5.1.1.2). Both are 0 for
equal columns; lower is better.
"""

import numpy as np
import pandas as pd
from scipy.special import rel_entr
from scipy.stats import wasserstein_distance

from fedsynth_lib.metrics.coding import check_columns, label_codes
from fedsynth_lib.tables.schema import Schema


def jensen_shannon(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the mean of `jensen_shannon_by_column`, in [0, 1].

    NaN for a schema without categorical columns.
    """
    return _mean(jensen_shannon_by_column(real, synthetic, schema))


def wasserstein(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the mean of `wasserstein_by_column`, at least 0 and not bounded.

    NaN for a schema without numeric columns.
    """
    return _mean(wasserstein_by_column(real, synthetic, schema))


def jensen_shannon_by_column(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema
) -> dict[str, float]:
    """Return the Jensen-Shannon distance of each categorical column.

    It is sqrt((KL(p, m) + KL(q, m)) / 2), base 2, m the mean of the shares p and q.

    0: the same shares; 1: no category in common. A column that is constant in both tables scores 0
    or 1 by this.
    """
    check_columns(schema, real=real, synthetic=synthetic)
    discrete = schema.drop(schema.numeric)
    tables = [
        label_codes(frame, discrete, name)
        for name, frame in (("real", real), ("synthetic", synthetic))
    ]
    distances = {}
    for j, column in enumerate(discrete.columns):
        p, q = (
            np.bincount(t[:, j].astype(np.intp), minlength=len(column.categories)) / len(t)
            for t in tables
        )
        middle = (p + q) / 2
        divergence = (rel_entr(p, middle) + rel_entr(q, middle)).sum() / (2 * np.log(2))
        # rounding may leave the bounds
        distances[column.name] = float(np.sqrt(np.clip(divergence, 0, 1)))
    return distances


def wasserstein_by_column(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema
) -> dict[str, float]:
    """Numeric column -> Wasserstein-1 distance in units of the range of the REAL column.

    Synthetic values beyond that range stay as they are, so a distance can exceed 1. A constant real
    column has no range: its distance is in the column's own units, as scikit-learn's MinMaxScaler
    would leave it.
    """
    check_columns(schema, real=real, synthetic=synthetic)
    continuous = schema.drop(schema.categorical)
    a, b = (
        label_codes(frame, continuous, name)
        for name, frame in (("real", real), ("synthetic", synthetic))
    )
    spans = np.where(np.ptp(a, axis=0) > 0, np.ptp(a, axis=0), 1)
    return {
        name: float(wasserstein_distance(x / span, y / span))
        for name, x, y, span in zip(continuous.names, a.T, b.T, spans, strict=True)
    }


def _mean(distances: dict[str, float]) -> float:
    return float(np.mean(list(distances.values()))) if distances else float("nan")
