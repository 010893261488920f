"""Likelihood of held-out rows under kernels around synthetic rows (maddock2024, section B.1).

For methods that give rows but no probabilities.

That is another quantity than the exact likelihood of a marginal method, which is a probability of
cells: widths of kernels enter it, and it may even be negative.
"""

import numpy as np
from scipy.stats import gaussian_kde

from fedsynth_lib.core.contract import BadInput


def kernel_nll(synthetic_codes: np.ndarray, test_codes: np.ndarray) -> tuple[float, int]:
    """Mean of -log density over the test rows in nats, and how many columns were dropped for it.

    Both (rows, columns) of integer codes. The density is `scipy.stats.gaussian_kde` of the
    synthetic rows as it comes. A column in which they all agree has no width and is dropped from
    both (the work's "filtered" likelihood; the one of all columns is then infinite). So is one that
    is a linear function of those before it: that rule is ours, the work has no value there, for
    scipy refuses it. Infinite where no column is left.
    """
    synthetic, test = (np.asarray(codes, dtype=float) for codes in (synthetic_codes, test_codes))
    if synthetic.ndim != 2 or test.ndim != 2 or synthetic.shape[1] != test.shape[1]:
        raise BadInput(
            f"codes have shapes {synthetic.shape} and {test.shape}: give two tables "
            "with the same columns."
        )
    if len(synthetic) < 2 or not len(test):
        raise BadInput(
            f"there are {len(synthetic)} synthetic and {len(test)} test rows: a density needs 2 "
            "and 1 or more."
        )
    kept = independent_columns(synthetic)
    if not kept:
        return np.inf, synthetic.shape[1]
    density = gaussian_kde(synthetic[:, kept].T)
    return float(-density.logpdf(test[:, kept].T).mean()), synthetic.shape[1] - len(kept)


def independent_columns(rows: np.ndarray) -> list[int]:
    """Positions of the columns that vary and are no linear function of those kept before them."""
    varying = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    together = np.atleast_2d(np.corrcoef(rows[:, varying].T)) if len(varying) else np.empty((0, 0))
    kept: list[int] = []
    for place in range(len(varying)):
        tried = [*kept, place]
        if np.linalg.matrix_rank(together[np.ix_(tried, tried)], tol=1e-9, hermitian=True) == len(
            tried
        ):
            kept = tried
    return varying[kept].tolist()
