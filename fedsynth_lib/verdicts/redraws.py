"""Resampled runs: the cells of claims as another set of as many runs could have them.

What two cells have in common stays in common. Cells of one measure and table share their splits,
whose effect is estimated by how residuals of the same seeds go together; methods that are judged on
the same test rows share these. A mean that was observed already has the chance of its runs in it,
so cells of one design (all scenarios of a method, say) are moved towards their mean until a
resampled set spreads as the observed one does.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.printed.chance import components, pooled

SPLITS = ["metric", "dataset", "item", "node"]  # cells that agree in these share their splits
DESIGN = ["metric", "dataset", "item", "node", "method", "setting", "epsilon"]
TEST_ROWS = ["dataset", "partition", "detail", "n_clients", "node"]
FEWEST = 4  # cells that tell what they have in common


class Spread(NamedTuple):
    """How the runs of each cell spread.

    n: runs. centre: what a resampled mean spreads around. deviation: of one run in all, `by_split`:
    by its split. freedom: the degrees of freedom behind them. split, rows: which cells share a
    split, and which share test rows. by_rows, by_rows_alone: the error by test rows, in common and
    alone.
    """

    n: np.ndarray
    centre: np.ndarray
    deviation: np.ndarray
    by_split: np.ndarray
    freedom: np.ndarray
    split: np.ndarray
    rows: np.ndarray
    by_rows: np.ndarray
    by_rows_alone: np.ndarray

    @property
    def alone(self) -> np.ndarray:
        """The deviation of one run without its split."""
        return np.sqrt(np.maximum(self.deviation**2 - self.by_split**2, 0))


def spread_of(work: str, cells: pd.DataFrame) -> Spread:
    """How the runs of a work spread. cells: of `cells.measured_cells`.

    A cell of one run has no deviation and stays as it is, but for its test rows.
    """
    said = components(work, cells)
    n = cells["n"].to_numpy(float)
    deviation, freedom = (each.to_numpy(float) for each in pooled(said, cells, cells))
    several = (n > 1) & np.isfinite(cells["std"].to_numpy(float))
    deviation = np.where(several, np.nan_to_num(deviation), 0.0)
    split = _numbered(cells, [*SPLITS, "seeds"])
    by_split = np.minimum(_by_split(cells, split, several), deviation)
    means = cells["mean"].to_numpy(float)
    test, discordant = (said[name].to_numpy(float) for name in ("test_rows", "discordant"))
    share, size = np.clip(np.nan_to_num(means), 0, 1), np.where(test > 0, test, np.inf)
    spread = Spread(
        n=n,
        centre=means,
        deviation=deviation,
        by_split=by_split,
        freedom=np.maximum(freedom, 1.0),
        split=split,
        rows=_numbered(cells, TEST_ROWS),
        by_rows=np.sqrt(share * (1 - share) / size),
        by_rows_alone=np.sqrt(discordant / 2 / size),
    )
    return spread._replace(centre=_centred(cells, spread))


def _numbered(cells: pd.DataFrame, axes: Sequence[str]) -> np.ndarray:
    """Return the number of each cell's group."""
    there = [axis for axis in axes if axis in cells]
    return cells.groupby(there, dropna=False, sort=False).ngroup().to_numpy()


def _by_split(cells: pd.DataFrame, split: np.ndarray, several: np.ndarray) -> np.ndarray:
    """Return the deviation that cells of the same splits have in common.

    It is the root of the mean covariance of their runs, 0 where they go apart.
    """
    found = np.zeros(len(cells))
    if "seeds" not in cells:
        return found
    values = cells["values"].to_numpy()
    for group in np.unique(split[several]):
        here = np.flatnonzero((split == group) & several)
        if len(here) < FEWEST:
            continue
        runs = np.array([values[place] for place in here], dtype=float)
        apart = runs - runs.mean(axis=1, keepdims=True)
        together = (apart.sum(axis=0) ** 2).sum() - (apart**2).sum()
        pairs = len(here) * (len(here) - 1) * (runs.shape[1] - 1)
        found[here] = np.sqrt(max(together / pairs, 0.0))
    return found


def _centred(cells: pd.DataFrame, spread: Spread) -> np.ndarray:
    """Return the means, those of a design moved towards their mean.

    They move by what chance adds to their spread.
    """
    means = pd.Series(spread.centre)
    groups = means.groupby(_numbered(cells, DESIGN))
    chance = pd.Series(spread.alone**2 / spread.n + spread.by_rows_alone**2)
    chance = chance.groupby(_numbered(cells, DESIGN)).transform("mean")
    variance = groups.transform("var")
    kept = np.sqrt((1 - chance / variance.where(variance > 0)).clip(0, 1))
    kept = kept.where(groups.transform("size") >= FEWEST, 1.0).fillna(1.0)
    middle = groups.transform("mean")
    moved = (middle + kept * (means - middle)).to_numpy()
    return np.where(spread.deviation > 0, moved, spread.centre)


def redrawn(
    cells: pd.DataFrame, spread: Spread, rng: np.random.Generator, times: float = 1
) -> pd.DataFrame:
    """Return the cells as another set of runs could have them.

    `shift` is by how much their `values` move.

    times: of as many runs, to see what more of them would tell. The deviation of all runs is drawn
    by what the degrees of freedom tell of it (chi-squared), then mean and deviation of a set.
    """
    n = spread.n * times
    moving = (spread.deviation > 0) | (spread.by_rows > 0)

    def drawn(function) -> np.ndarray:
        found = np.ones(len(cells))
        found[moving] = function(moving)
        return found

    def shared(groups: np.ndarray, student: bool = False) -> np.ndarray:
        names, first, place = np.unique(groups[moving], return_index=True, return_inverse=True)
        found = rng.standard_normal(len(names))
        if student:  # by as many degrees of freedom as there are splits, less one
            freedom = np.maximum(spread.n[moving][first] - 1, 1)
            found = found * np.sqrt(freedom / rng.chisquare(freedom))
        return drawn(lambda _: found[place])

    def normal() -> np.ndarray:
        return drawn(lambda here: rng.standard_normal(here.sum()))

    doubt = np.sqrt(spread.freedom / drawn(lambda here: rng.chisquare(spread.freedom[here])))
    of_runs = np.maximum(n - 1, 1)
    of_set = np.sqrt(drawn(lambda here: rng.chisquare(of_runs[here])) / of_runs)
    runs = spread.by_split * shared(spread.split, student=True) + spread.alone * doubt * normal()
    tests = spread.by_rows * shared(spread.rows) + spread.by_rows_alone * normal()
    means = np.where(moving, spread.centre + runs / np.sqrt(n) + tests, spread.centre)
    shift = means - cells["mean"].to_numpy(float)
    own = cells["std"].to_numpy(float)
    std = np.where(spread.deviation > 0, spread.deviation * doubt * of_set, own)
    moved = {"mean": means, "std": std, "n": np.round(n).astype(int), "shift": shift}
    for name in ("median", "min", "max"):
        if name in cells:
            moved[name] = cells[name].to_numpy(float) + shift
    if "sem" in cells:
        moved["sem"] = std / np.sqrt(n)
    if "iqr" in cells:
        scale = np.where(own > 0, std / np.where(own > 0, own, 1.0), 1.0)
        moved["iqr"] = cells["iqr"].to_numpy(float) * scale
    return cells.assign(**moved)
