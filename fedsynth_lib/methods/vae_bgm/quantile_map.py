"""Numbers as normal scores and back.

The map goes through a column's quantiles. It is a grid (columns, levels) of values at evenly spaced
probabilities from 0 to 1.
"""

import numpy as np
from scipy.stats import norm

from fedsynth_lib.core.contract import Arrays

# probabilities nearer to 0 and 1 are moved here, as scikit-learn's transformer does
FARTHEST = 1e-7


def declared(columns: int, levels: int) -> np.ndarray:
    """Return the map of evenly spread places from 0 to 1; it looks at no row."""
    return np.tile(np.linspace(0, 1, levels), (columns, 1))


def of_values(values: np.ndarray, counts: np.ndarray, levels: int) -> np.ndarray:
    """Return one line of a map: quantiles of values that occur `counts` times.

    Between neighbours it is linear, as in NumPy.
    """
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    places = np.linspace(0, 1, levels) * (counts.sum() - 1)
    last = np.cumsum(counts)
    below = values[np.searchsorted(last, np.floor(places), side="right")]
    above = values[np.searchsorted(last, np.ceil(places), side="right")]
    return below + (above - below) * (places - np.floor(places))


def of_histogram(counts: np.ndarray, levels: int) -> np.ndarray:
    """Return one line of a map: quantiles of a histogram of places, even within bins.

    Counts that noise has moved below 0 count as 0.
    """
    counts = np.maximum(counts, 0.0)
    if not counts.sum():
        return declared(1, levels)[0]
    heights = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    edges = np.linspace(0, 1, len(counts) + 1)
    end = np.searchsorted(heights, heights[-1]) + 1  # without empty bins at the upper end
    return np.interp(np.linspace(0, heights[-1], levels), heights[:end], edges[:end])


def of_clients(parts: list[Arrays], columns: int, levels: int, encoding: str) -> np.ndarray:
    """Return the map of all numeric columns from what clients sent.

    Clients sent `histograms`, or their values and how often each occurs.
    """
    if encoding == "histograms":
        return np.stack(
            [
                of_histogram(counts, levels)
                for counts in np.sum([p["histograms"] for p in parts], axis=0)
            ]
        )
    lines = []
    for j in range(columns):
        values, counts = (
            np.concatenate([part[f"{name}/{j}"] for part in parts]) for name in ("values", "counts")
        )
        lines.append(of_values(values, counts, levels))
    return np.stack(lines)


def scores(numbers: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return normal scores of numbers (rows, columns), as scikit-learn's transformer does.

    A value that spans several quantiles gets their middle, but the lowest and the highest get the
    farthest scores.
    """
    probabilities = np.linspace(0, 1, grid.shape[1])
    result = np.empty_like(numbers, dtype=float)
    for j, (column, line) in enumerate(zip(numbers.T, grid, strict=True)):
        upward = np.interp(column, line, probabilities)
        downward = 1 - np.interp(-column, -line[::-1], probabilities)
        middle = np.where(
            column <= line[0], 0.0, np.where(column >= line[-1], 1.0, (upward + downward) / 2)
        )
        result[:, j] = norm.ppf(np.clip(middle, FARTHEST, 1 - FARTHEST))
    return result


def numbers(scores: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the numbers that have these scores; this is the inverse of `scores`."""
    probabilities = np.linspace(0, 1, grid.shape[1])
    columns = [
        np.interp(norm.cdf(column), probabilities, line)
        for column, line in zip(scores.T, grid, strict=True)
    ]
    return np.stack(columns, axis=1) if columns else np.empty((len(scores), 0))
