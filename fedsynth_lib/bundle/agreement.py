"""How a cell that was computed again agrees with its committed rows.

*exactly*: all its rows are equal as written (10 digits). *within rounding*: all its numbers differ
by 1e-6 of themselves at most. *within the spread of seeds*: all differ by no more than two runs
with different seeds would, of which the odds that a cell passes are 95 in 100; another kind of
processor or number of threads changes the order of sums, and training amplifies it until the run is
as good as one with another seed. *different*: else, and where the cell fails. Two seeds differ by
root 2 standard deviations over seeds, and all numbers of a cell must pass together (Bonferroni): of
m numbers that are not within rounding each may differ by z(1 - 0.025 / m) root 2 deviations.

The standard deviation is that of committed rows of the same measure and profile, equal in all
params but the seed, where there are 3 seeds or more. Elsewhere it is pooled (weighted by degrees of
freedom, of which there are 2 at least) over the cells of the grid that have several seeds: those of
the same table and method, else of the same method, else all; and where the grid has none, so over
all grids and profiles of the work. Where these have none either, the cell is computed with one more
seed and its numbers of the same measure are pooled; a number that is not within rounding and has no
seed is different, and it is said that no seeds are known. What measures the machine (MACHINE,
and the column `seconds`) is not compared; epsilon_spent, bytes and unprotected are.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

from fedsynth_lib.runs.rows import canonical, read_params

EXACT, ROUNDED, SPREAD, DIFFERENT = KINDS = (
    "exactly",
    "within rounding",
    "within the spread",
    "different",
)
ROUNDING = 1e-6  # of the larger number
CHANCE = 0.05  # that a cell whose run is as good as one with another seed counts as different
FEWEST_SEEDS = 3
NO_SEEDS = " (no seeds to judge by)"
MACHINE = ("seconds", "seconds_training", "peak_gib")
# columns that are measured, not asked for
BESIDE = ("epsilon_spent", "bytes_up", "bytes_down", "unprotected")
LABELS = [
    *("paper", "exhibit", "dataset", "data", "method", "partition", "n_clients", "node"),
    *("setting", "epsilon", "item", "metric", "seed"),
]
# the nearest with enough seeds counts
POOLS = (["metric", "dataset", "method"], ["metric", "method"], ["metric"])


class Agreement(NamedTuple):
    """The verdict on a cell, and the number that decides where it is not exact.

    It is the worst number of its kind.
    """

    kind: str
    # the measure, with item and node where it has them; or the message of a cell that failed
    what: str = ""
    committed: float = math.nan
    recomputed: float = math.nan

    @property
    def lacks_seeds(self) -> bool:
        """Whether it is different for want of a second seed to judge by."""
        return self.kind == DIFFERENT and self.what.endswith(NO_SEEDS)


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of rows that are compared.

    The columns are LABELS (as text), `params`, and `value`; columns in BESIDE become rows.
    """
    parts = [rows[~rows["metric"].isin(MACHINE)]]
    for name in BESIDE:
        own = rows[rows[name].notna()]
        parts.append(own.assign(metric=name, item="", value=own[name].astype(float)))
    found = pd.concat(parts)[[*LABELS, "params", "value"]]
    return found.astype(dict.fromkeys(LABELS, str)).drop_duplicates()


class Spread:
    """Standard deviations over seeds in the committed rows of one grid and profile.

    Where these do not have one, it is from the rows of the grid's work.
    """

    def __init__(self, rows: pd.DataFrame, work: Callable[[], pd.DataFrame] | None = None):
        """Take rows of the grid; `work` returns the rows of all grids of the work where needed."""
        self.rows, self.work = rows, work

    @cached_property
    def _of_grid(self) -> list[pd.DataFrame]:
        groups = variances(self.rows)
        enough = groups[groups["count"] >= FEWEST_SEEDS]
        return [enough[[*SETTING, "var"]], *(pooled(groups, pool) for pool in POOLS)]

    @cached_property
    def _of_work(self) -> list[pd.DataFrame]:
        groups = variances(self.work())
        return [pooled(groups, pool) for pool in POOLS]

    def deviations(self, numbers: pd.DataFrame) -> pd.Series:
        """Return the deviation of each line of `measured`; NaN where no seeds are known."""
        numbers = numbers.assign(params=numbers["params"].map(seedless))
        found = looked_up(numbers, self._of_grid)
        if found.isna().any() and self.work is not None:
            found = found.fillna(looked_up(numbers, self._of_work))
        return np.sqrt(found)


# of equal ones only the seed differs
SETTING = [*(name for name in LABELS if name != "seed"), "params"]


def variances(rows: pd.DataFrame) -> pd.DataFrame:
    """Return SETTING, `count` of seeds and `var` over them."""
    found = measured(rows)
    names = {text: seedless(text) for text in found["params"].unique()}
    found["params"] = found["params"].map(names)
    return found.groupby(SETTING, sort=False)["value"].agg(["count", "var"]).reset_index()


def pooled(groups: pd.DataFrame, pool: list[str]) -> pd.DataFrame:
    """Return the pool and `var`, pooled over its groups that have several seeds, if enough have."""
    several = groups[groups["count"] > 1]
    degrees = several["count"] - 1
    sums = several[pool].assign(degrees=degrees, sum=degrees * several["var"])
    sums = sums.groupby(pool, as_index=False).sum()
    sums = sums[sums["degrees"] >= FEWEST_SEEDS - 1]
    return sums[pool].assign(var=sums["sum"] / sums["degrees"])


def looked_up(numbers: pd.DataFrame, tables: Sequence[pd.DataFrame]) -> pd.Series:
    """Return the variance at each number's place, by the first of the tables that has it."""
    found = pd.Series(np.nan, numbers.index)
    for table in tables:
        keys = [name for name in table if name != "var"]
        found = found.fillna(numbers[keys].merge(table, "left", keys)["var"].set_axis(found.index))
    return found


def seedless(params: str) -> str:
    """Return the params without their seed."""
    return canonical({name: value for name, value in read_params(params).items() if name != "seed"})


def compare(committed: pd.DataFrame, recomputed: pd.DataFrame, spread: Spread) -> Agreement:
    """How the rows of one cell agree with those computed again."""
    given = [name for name in read_params(committed["params"].iloc[0]) if name in LABELS]
    # Of one cell they are equal; a column is empty where a default was left to the function that
    # computes.
    recomputed = recomputed.assign(**{name: committed[name].iloc[0] for name in given})
    again = measured(recomputed).drop(columns="params")
    both = measured(committed).merge(
        again, "outer", LABELS, suffixes=("", "_again"), indicator="side", sort=False
    )
    apart = both[(both["side"] != "both") | both.duplicated(LABELS)]
    if len(apart):
        side = "recomputed" if apart["side"].iloc[0] == "right_only" else "committed"
        return Agreement(DIFFERENT, f"{_what(apart.iloc[0])} (only {side})")
    one, other = both["value"], both["value_again"]
    gap, larger = (one - other).abs(), np.maximum(one.abs(), other.abs())
    exact = (one == other) | (one.isna() & other.isna())
    near = exact | ((gap <= ROUNDING * larger) & (larger < np.inf))
    limit = np.sqrt(2) * norm.ppf(1 - CHANCE / 2 / max((~near).sum(), 1))
    deviation = spread.deviations(both[~near]).reindex(both.index)
    kinds = np.select([exact, near, gap <= limit * deviation], [0, 1, 2], 3)
    apart = (gap / larger).where(np.isfinite(gap), np.inf).mask(exact, 0.0)
    worst = both.assign(kind=kinds, apart=apart).sort_values(
        ["kind", "apart"], ascending=False, kind="stable"
    )
    worst = worst.iloc[0]
    if KINDS[worst["kind"]] == EXACT:
        return Agreement(EXACT)
    unknown = NO_SEEDS if not near[worst.name] and np.isnan(deviation[worst.name]) else ""
    what = _what(worst) + unknown
    return Agreement(KINDS[worst["kind"]], what, worst["value"], worst["value_again"])


def _what(number: pd.Series) -> str:
    node = f"node {number['node']}" if number["node"] else ""
    return ", ".join(filter(None, (number["metric"], number["item"], node)))
