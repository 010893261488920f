"""How similar synthetic and real rows are: four measures of martinez2024, lower is better.

One looks at single columns (Hellinger), one at pairs (associations), two at whole rows
(propensity, clusters). Sections, gaps: protocol of martinez2024, section 7 and 10.
"""

import warnings
from typing import Literal

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics.coding import (
    Scale,
    alphabetical_codes,
    label_codes,
    standardised_together,
)
from fedsynth_lib.tables.schema import Column, Schema, bin_edges

Bins = int | Literal["fd", "values"]  # of numeric columns


def hellinger(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, bins: Bins = 100
) -> float:
    """Return the mean over columns of the Hellinger distance, in [0, 1] (M-HD).

    The distance is that of the two one-way distributions.
    """
    return float(np.mean(list(hellinger_by_column(real, synthetic, schema, bins).values())))


def hellinger_by_column(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, bins: Bins = 100
) -> dict[str, float]:
    """Column -> sqrt(sum (sqrt p - sqrt q)^2 / 2) between its distributions in the two tables.

    Numeric columns are counted on `bins` equal-width bins over the range of the REAL column; values
    outside of it count in the edge bins. The grid of the paper is not printed. It has to be finer
    than the 20 bins of its network, within which it draws uniformly: on those the network would
    score near 0 (gap 8). A constant real column at v is cut over [v - 1/2, v + 1/2].

    bins: `values` has a bin for each value that occurs, `fd` equal-width ones over the range of
        BOTH columns by the rule of Freedman and Diaconis (1981), and so a grid of its own for each
        synthetic table.
    """
    codes_real, codes_synthetic = label_codes(real, schema), label_codes(synthetic, schema)
    distances = {}
    for column, a, b in zip(schema.columns, codes_real.T, codes_synthetic.T, strict=True):
        if column.kind == "numeric" and isinstance(bins, int):
            low, high = (a.min(), a.max()) if a.min() < a.max() else (a[0] - 0.5, a[0] + 0.5)
            p, q = (np.histogram(np.clip(v, low, high), bins, (low, high))[0] for v in (a, b))
        elif column.kind == "numeric":
            both = np.concatenate([a, b])
            _, places = np.unique(_bin_numbers(both) if bins == "fd" else both, return_inverse=True)
            found = (places[: len(a)], places[len(a) :])
            p, q = (np.bincount(each, minlength=places.max() + 1) for each in found)
        else:
            p, q = (
                np.bincount(v.astype(np.intp), minlength=len(column.categories)) for v in (a, b)
            )
        gap = np.sqrt(p / len(a)) - np.sqrt(q / len(b))
        distances[column.name] = float(np.sqrt(0.5 * gap @ gap))
    return distances


def _bin_numbers(values: np.ndarray) -> np.ndarray:
    """Return the number of the equal-width bin in which each value lies.

    The width follows the rule of Freedman and Diaconis, or that of Sturges where half of the values
    are equal.
    """
    lower, upper = np.percentile(values, [25, 75])
    low, extent = values.min(), np.ptp(values)
    width = 2 * (upper - lower) / np.cbrt(len(values)) or extent / (np.log2(len(values)) + 1)
    number = np.ceil(extent / width) if extent else 1
    return np.minimum(np.floor((values - low) * number / (extent or 1)), number - 1)


def shares(values: pd.Series, column: Column) -> pd.Series:
    """Return the share of rows in each bin or in each declared category.

    Bins are those of `bin_edges`; the index is the bin's number as text.
    """
    if column.kind == "numeric":
        counts = np.histogram(values, bin_edges(column))[0]
        return pd.Series(counts / len(values), [str(number) for number in range(len(counts))])
    return values.value_counts(normalize=True).reindex(list(column.categories), fill_value=0)


def pairwise_correlation_difference(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema
) -> float:
    """Return the Frobenius norm of the difference of the two association matrices (PCD).

    Each pair counts twice.
    """
    return float(np.linalg.norm(associations(real, schema) - associations(synthetic, schema)))


def associations(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Return the associations of all pairs of columns, as `dython.nominal.associations` by default.

    A symmetric (columns, columns) matrix.

    Pearson correlation between numeric columns, Cramer's V between categorical ones (with the bias
    correction of Bergsma 2013, and for two binary columns the continuity correction of Yates that
    `scipy.stats.chi2_contingency` applies), correlation ratio between one of each. The row and the
    column of a constant column are 0, diagonal included; else the diagonal is 1. Levels that no
    row has do not count.

    Only cells that some row is in are visited, so that memory follows the rows and not the levels:
    100,000 rows with a column of 8,000 levels take 0.1 s.
    """
    if len(frame) < 2:
        raise BadInput("associations need at least two rows; give a longer table.")
    kinds = np.array([column.kind for column in schema.columns])
    numeric, categorical = (
        np.flatnonzero(kinds == "numeric"),
        np.flatnonzero(kinds == "categorical"),
    )
    codes = label_codes(frame, schema)
    varies = np.ptp(codes, axis=0) > 0
    matrix = np.zeros((len(kinds), len(kinds)))

    z = codes[:, numeric] - codes[:, numeric].mean(axis=0)
    # (rows, numeric), columns of length 1
    z /= np.where(varies[numeric], np.sqrt((z**2).sum(axis=0)), 1)
    matrix[np.ix_(numeric, numeric)] = z.T @ z

    # the levels that occur, renumbered
    dense = {j: np.unique(codes[:, j], return_inverse=True)[1] for j in categorical}
    for place, i in enumerate(categorical):
        sizes = np.bincount(dense[i])
        for j, values in zip(numeric, z.T, strict=True):
            between = np.sum(np.bincount(dense[i], weights=values) ** 2 / sizes)
            matrix[i, j] = matrix[j, i] = np.sqrt(np.minimum(between, 1))
        for j in categorical[:place]:
            matrix[i, j] = matrix[j, i] = _cramers_v(dense[i], dense[j])
    np.fill_diagonal(matrix, 1)
    return matrix * np.outer(varies, varies)


def _cramers_v(one: np.ndarray, other: np.ndarray) -> float:
    """Bias-corrected V of two columns of codes (rows,), each with all of its levels in use.

    Chi-squared sums (n - e)^2 / e over all cells of the contingency table. A cell without rows adds
    its expected count e, and all e add up to the rows: so the occupied cells are enough.
    """
    rows, sizes = len(one), [np.bincount(codes) for codes in (one, other)]
    levels = np.array([len(size) for size in sizes])
    cells = one * levels[1] + other
    if levels.prod() <= 2 * rows:  # counting all cells is faster than sorting
        counts, occupied = np.bincount(cells, minlength=levels.prod()), np.arange(levels.prod())
    else:
        occupied, counts = np.unique(cells, return_counts=True)
    expected = sizes[0][occupied // levels[1]] * sizes[1][occupied % levels[1]] / rows
    deviation = np.abs(counts - expected)
    if (levels == 2).all():  # Yates; two rows are enough for all four cells to be here
        deviation -= np.minimum(deviation, 0.5)
    chi2 = np.sum(deviation**2 / expected)
    if len(occupied) < levels.prod():
        chi2 += rows - expected.sum()
    free = levels - 1
    smaller = (free - free**2 / (rows - 1)).min()
    phi2 = max(chi2 / rows - free.prod() / (rows - 1), 0.0)
    return float(np.sqrt(phi2 / smaller)) if smaller > 0 else 0.0


def propensity_mse(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    seed: int,
    min_samples_leaf: int = 100,
    folds: int = 5,
    depth: int | None = None,
) -> float:
    """Return the mean of (p - c)^2 over all rows (propensity mean squared error).

    p: probability of being synthetic by a CART, c: share of synthetic rows.

    0: no difference found; c (1 - c), so 0.25 for tables of one size: every row distinguished. The
    tree sees label codes and scores rows of folds that it was not fitted on: scored on its own rows
    an unrestricted tree gives 0.25 for any data (gap 17). Leaf size and folds are ours. A leaf of m
    rows misses c by about 1 / (2 sqrt m) by chance, so two samples of one distribution score above
    0: at leaves of 100 rows 0.005 (adult) to 0.009 (bank), at leaves of 20 five times as much.

    depth: of another tree, which has no smallest leaf and scores the rows that it was fitted on.
    """
    fewest = min(len(real), len(synthetic))
    if not 2 <= folds <= fewest:
        raise BadInput(
            f"folds is {folds}; give a number from 2 to the rows of the smaller table ({fewest})."
        )
    rows = np.vstack([alphabetical_codes(real, schema), alphabetical_codes(synthetic, schema)])
    is_synthetic = np.repeat([0, 1], [len(real), len(synthetic)])
    if depth:
        tree = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(rows, is_synthetic)
        propensity = tree.predict_proba(rows)[:, 1]
    else:
        tree = DecisionTreeClassifier(min_samples_leaf=min_samples_leaf, random_state=seed)
        parts = StratifiedKFold(folds, shuffle=True, random_state=seed)
        options = {"cv": parts, "method": "predict_proba"}
        propensity = cross_val_predict(tree, rows, is_synthetic, **options)[:, 1]
    return float(np.mean((propensity - is_synthetic.mean()) ** 2))


def log_cluster(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    seed: int,
    max_clusters: int = 20,
    starts: int = 10,
    coreset: int = 5_000,
    scale: Scale | None = None,
) -> dict[str, float]:
    """Measure how unevenly real and synthetic rows share clusters, in three forms.

    Each is the lowest value over G = 2..max_clusters.

    With c the share of real rows overall and s_j that in cluster j:

    log_cluster          ln( mean_j (s_j - c)^2 ) (Goncalves et al. 2020; the main form)
    log_cluster_base2    the same with base 2 (1 / ln 2 times as much)
    log_cluster_printed  ln( mean_j (s_j - c) ) as printed in martinez2024, without the square: not
                         defined where the mean is not positive; the lowest of the defined values,
                         NaN where there is none (gap 15)

    The merged rows, numeric columns standardised and categories one-hot, or label codes on another
    scale, are projected by PCA to 85 % of the variance and clustered by k-means (gap 16), see
    `cluster`. A mean square of 0 (a copy of the rows) is floored at the smallest positive one that
    two tables of one size can reach, 2 / (max_clusters N^2) for N rows in all. The minimum over G
    makes the measure lenient, since one G with outliers in a cluster of their own, shared evenly,
    is enough for a low value, and unsteady: another seed can move it by several units.
    """
    if scale is None:
        points = _project(standardised_together(schema, real=real, synthetic=synthetic))
    else:
        codes = np.vstack([alphabetical_codes(rows, schema) for rows in (real, synthetic)])
        points = _project((codes - scale[0]) / scale[1])
    is_real = np.arange(len(points)) < len(real)
    sample, weights = lightweight_coreset(points, coreset, stream(seed, "log_cluster"))
    squares, means = [], []
    # One thread: these are small problems, and the sums of several threads round differently each
    # time.
    with threadpool_limits(1), warnings.catch_warnings():
        # fewer distinct rows than clusters: some stay empty
        warnings.simplefilter("ignore", ConvergenceWarning)
        for number in range(2, min(max_clusters, len(points)) + 1):
            labels = cluster(points, sample, weights, number, seed, starts).labels_
            held, size = np.bincount(labels, weights=is_real), np.bincount(labels)
            gap = held[size > 0] / size[size > 0] - is_real.mean()
            squares.append(np.mean(gap**2))
            means.append(gap.mean())
    standard = float(np.log(max(min(squares), 2 / (max_clusters * len(points) ** 2))))
    # below: a zero, rounded
    printed = min((mean for mean in means if mean > 1e-12), default=np.nan)
    return {
        "log_cluster": standard,
        "log_cluster_base2": standard / float(np.log(2)),
        "log_cluster_printed": float(np.log(printed)),
    }


def _project(rows: np.ndarray) -> np.ndarray:
    """Project standardised and one-hot columns on the axes that hold 85 % of their variance.

    Float32 (rows, components).
    """
    return PCA(0.85, svd_solver="covariance_eigh").fit_transform(rows)


def lightweight_coreset(
    points: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample of `size` points and its weights for k-means; all points if fewer.

    On the weighted sample k-means costs what it costs on all points.

    Half of it falls on points in proportion to their squared distance from the mean, so that the
    outliers, which attract clusters, are in it (Bachem, Lucic and Krause 2018, algorithm 1).
    """
    if len(points) <= size:
        return points, np.ones(len(points))
    distance = ((points - points.mean(axis=0)) ** 2).sum(axis=1, dtype=np.float64)
    chance = 0.5 / len(points) + 0.5 * distance / (distance.sum() or 1)
    chance /= chance.sum()
    drawn = rng.choice(len(points), size, p=chance)
    return points[drawn], 1 / (size * chance[drawn])


def cluster(
    points: np.ndarray, sample: np.ndarray, weights: np.ndarray, number: int, seed: int, starts: int
) -> KMeans:
    """Run k-means from `starts` starts on the weighted sample, then refine the best on all points.

    On adult and cardio (52,098 and 112,000 points, 5,000 of them sampled) the inertia lies 0.4 %
    above the better of two runs of ten starts on all points, on average over 2..20 clusters, as
    much as those two runs differ, and takes a tenth of their time.
    """
    found = KMeans(number, n_init=starts, random_state=seed).fit(sample, sample_weight=weights)
    return (
        KMeans(number, init=found.cluster_centers_, n_init=1).fit(points)
        if len(sample) < len(points)
        else found
    )
