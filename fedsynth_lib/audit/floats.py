"""What the low bits of a floating-point number say about the whole number that noise was added to
(Mironov 2012).

y = c + z, rounded to a double. Where |z| is larger than |y|, y lies on the grid of z, which is
coarser than its own. So a y that is off the grid of y - c cannot come from the count c, whatever
the noise was.
"""

import numpy as np


def impossible(values: np.ndarray, count: int) -> np.ndarray:
    """Which doubles cannot be `count` plus a double of noise, by the grid of the noise that would
    be needed."""
    values = np.asarray(values, float)
    # half: y - count is rounded too
    spacing = np.spacing(np.maximum(np.abs(values - count) / 2, np.finfo(float).tiny))
    return np.fmod(values, spacing) != 0


def score(values: np.ndarray, without: int, there: int) -> np.ndarray:
    """+1 where the count without the record is impossible, -1 where that with it is, 0 where
    neither or both are."""
    return impossible(values, without).astype(int) - impossible(values, there).astype(int)
