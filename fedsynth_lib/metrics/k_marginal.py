"""The k-marginal score of NIST's Collaborative Research Cycle for k = 2 (SDNist 2.5, "K-Marginal").

Over all pairs of columns, the mean L1 distance (0 to 2) between the shares of rows in each
combination of values; the score is (2 - mean) * 500: 1000 for equal shares, 0 for disjoint ones.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.workload import workload_error
from fedsynth_lib.tables.schema import Schema

Edges = Mapping[str, np.ndarray] | None  # of bins, by column
BINS = 20  # a number with a wider range is cut into so many


def k_marginal(target: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the score of `synthetic` rows against the `target`, 0 to 1000; higher is better."""
    return score(*coded(target, synthetic, schema))


def score(target: np.ndarray, synthetic: np.ndarray, levels: tuple[int, ...]) -> float:
    """Return the score of two tables of codes (rows, columns), such as `coded` makes."""
    if len(levels) < 2:
        raise BadInput("the k-marginal score compares pairs: give a table of two columns or more.")
    error = workload_error(target, synthetic, levels, combinations(range(len(levels)), 2))
    return (2 - error) * 500


def coded(
    target: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, edges: Edges = None
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return both tables as int64 codes (rows, columns) and the levels of each column.

    Categories are as they are, numbers as whole numbers where their declared range has at most BINS
    steps, else in bins: `edges`, or those of the target (see `bins_of_target`). No number (nan) is
    one of the bins.
    """
    columns, levels = [], []
    for column in schema.columns:
        pair = target[column.name], synthetic[column.name]
        if column.kind == "categorical":
            codes = [pd.Categorical(each, column.categories).codes for each in pair]
        elif column.integer and column.high - column.low <= BINS:
            codes = [each.to_numpy() - int(column.low) for each in pair]
        else:
            numbers = [each.to_numpy(float) for each in pair]
            bounds = (
                edges[column.name] if column.name in (edges or {}) else bins_of_target(*numbers)
            )
            codes = [np.searchsorted(bounds[1:], each) for each in numbers]  # nan: the last
        columns.append([np.asarray(each, np.int64) for each in codes])
        levels.append(1 + max(int(each.max()) for each in columns[-1]))
    both = (np.column_stack(each) for each in zip(*columns, strict=True))
    return (*both, tuple(levels))


def bins_of_target(target: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """Return ascending edges of bins that hold equal shares of the target.

    A bin holds its upper edge, the first one its lower edge too.

    Quantiles are values of the target, the next larger one where none is exact. What is synthetic
    and beyond the target gets a bin of its own at that end, one of the BINS, as nan is.
    """
    held, made = (each[~np.isnan(each)] for each in (target, synthetic))
    low, high = held.min(), held.max()
    beyond = [
        end for end in (made.min(initial=low), made.max(initial=high)) if not low <= end <= high
    ]
    number = BINS - len(beyond) - (len(held) < len(target))
    quantiles = np.quantile(held, np.arange(number) / number, method="higher")
    return np.unique([*quantiles, high, *beyond])
