"""Similarity of columns and of pairs of columns, and how well rows mix.

The similarities are scores from 0 to 1: the fidelity of sattarov2024 (equations 9-11).
"""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import entr

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.coding import label_codes, standardised_together
from fedsynth_lib.metrics.marginal_distances import (
    jensen_shannon_by_column,
    wasserstein_by_column,
)
from fedsynth_lib.tables.schema import Schema

NEIGHBOURS, MIXED_ROWS = 10, 1000  # of `mixing`


def fidelity(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """fidelity_columns, fidelity_pairs, and their mean `fidelity`; 1 for equal tables.

    A numeric column scores 1 less the Wasserstein distance in units of the real column's range (0
    at least), a categorical one 1 less the Jensen-Shannon divergence in bits. A pair of numeric
    columns scores 1 less the difference of their correlations, a pair of categorical ones 1 less
    the difference of Theil's U, in both directions. Mixed pairs do not count, as in the work. A
    table without any pair has the score of its columns.
    """
    numbers = [
        max(0.0, 1 - distance)
        for distance in wasserstein_by_column(real, synthetic, schema).values()
    ]
    shares = [
        1 - distance**2 for distance in jensen_shannon_by_column(real, synthetic, schema).values()
    ]
    columns = float(np.mean(numbers + shares))
    scores = []
    for kept, matrix in ((schema.numeric, correlations), (schema.categorical, uncertainty)):
        one, other = (
            matrix(label_codes(frame, schema)[:, _places(schema, kept)])
            for frame in (real, synthetic)
        )
        apart = ~np.eye(len(kept), dtype=bool)
        scores += (1 - np.abs(one - other)[apart]).clip(0).tolist()
    pairs = float(np.mean(scores)) if scores else columns
    return {"fidelity_columns": columns, "fidelity_pairs": pairs, "fidelity": (columns + pairs) / 2}


def correlations(rows: np.ndarray) -> np.ndarray:
    """Pearson's, (columns, columns); 0 where a column is constant."""
    z = rows - rows.mean(axis=0)
    lengths = np.sqrt((z**2).sum(axis=0))
    z = z / np.where(lengths > 0, lengths, 1)
    return z.T @ z


def uncertainty(codes: np.ndarray) -> np.ndarray:
    """Return Theil's U of column i given column j, (columns, columns).

    It is the share of the entropy of i that j takes away: 1 where j fixes i, and where i is
    constant.
    """
    codes = codes.astype(np.intp)
    levels = codes.max(axis=0) + 1 if len(codes) else np.ones(codes.shape[1], int)
    alone = np.array([_entropy(column) for column in codes.T])
    matrix = np.eye(codes.shape[1])
    for i, j in combinations(range(codes.shape[1]), 2):
        together = _entropy(codes[:, i] * levels[j] + codes[:, j])
        shared = alone[i] + alone[j] - together
        for one, other in ((i, j), (j, i)):
            matrix[one, other] = 1.0 if alone[one] == 0 else np.clip(shared / alone[one], 0, 1)
    return matrix


def _entropy(codes: np.ndarray) -> float:
    return float(entr(np.bincount(codes) / len(codes)).sum())


def _places(schema: Schema, names) -> np.ndarray:
    return np.array([schema.names.index(name) for name in names], dtype=np.intp)


def mixing(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int) -> float:
    """Return how well two tables mix; 0.5 if they are alike.

    It is the share of the other table among a row's ten nearest neighbours.

    Of at most 1,000 rows of each, by standardised numbers and one-hot categories.
    """
    rng, size = stream(seed, "mixing"), min(MIXED_ROWS, len(real), len(synthetic))
    both = [each.iloc[np.sort(rng.permutation(len(each))[:size])] for each in (real, synthetic)]
    points = standardised_together(schema, real=both[0], synthetic=both[1])
    places, own = nearest(points, points, NEIGHBOURS + 1)[1], np.arange(len(points))
    other = places != own[:, None]
    other[other.all(axis=1), -1] = False  # among many equal rows a row may not find itself
    places, first = places[other].reshape(len(points), -1), own < size
    return float((first[places] != first[:, None]).mean())
