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
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import NamedTuple

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
    """The verdict on a cell, and where it is not exact the number that decides: the worst of its
    kind."""

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
    """The numbers of rows that are compared: LABELS (as text), `params`, and `value`; columns in
    BESIDE become rows."""
    parts = [rows[~rows["metric"].isin(MACHINE)]]
    for name in BESIDE:
        own = rows[rows[name].notna()]
        parts.append(own.assign(metric=name, item="", value=own[name].astype(float)))
    found = pd.concat(parts)[[*LABELS, "params", "value"]]
    return found.astype(dict.fromkeys(LABELS, str)).drop_duplicates()


class Spread:
    """Standard deviations over seeds in the committed rows of one grid and profile, else in those
    of its work."""

    def __init__(self, rows: pd.DataFrame, work: Callable[[], pd.DataFrame] | None = None):
        """rows: of the grid. work: hands out the rows of all grids of the work; asked only where it
        is needed."""
        self.rows, self.work = rows, work

    def deviation(self, labels: dict[str, str], params: str) -> float:
        """Of the number with these LABELS in a cell with these params; NaN where no seeds are
        known."""
        own, pools = self._of_grid
        if (key := (*(labels[name] for name in LABELS if name != "seed"), seedless(params))) in own:
            return math.sqrt(own[key])
        if math.isnan(found := _pooled(pools, labels)) and self.work is not None:
            found = _pooled(self._of_work, labels)
        return found

    @cached_property
    def _of_grid(self) -> tuple[dict[tuple, float], list[dict[tuple, float]]]:
        groups = variances(self.rows)
        enough = groups[groups["count"] >= FEWEST_SEEDS]
        return dict(
            zip(map(tuple, enough[SETTING].to_numpy()), enough["var"], strict=True)
        ), pooled(groups)

    @cached_property
    def _of_work(self) -> list[dict[tuple, float]]:
        return pooled(variances(self.work()))


# of equal ones only the seed differs
SETTING = [*(name for name in LABELS if name != "seed"), "params"]


def variances(rows: pd.DataFrame) -> pd.DataFrame:
    """SETTING, `count` of seeds and `var` over them."""
    found = measured(rows)
    found["params"] = found["params"].map(
        {text: seedless(text) for text in found["params"].unique()}
    )
    return found.groupby(SETTING, sort=False)["value"].agg(["count", "var"]).reset_index()


def pooled(groups: pd.DataFrame) -> list[dict[tuple, float]]:
    """Of each of POOLS, place -> variance pooled over the groups that have several seeds."""
    several = groups[groups["count"] > 1]
    several = several.assign(
        degrees=several["count"] - 1, sum=(several["count"] - 1) * several["var"]
    )
    found = []
    for pool in POOLS:
        sums = several.groupby(pool)[["sum", "degrees"]].sum()
        sums = sums[sums["degrees"] >= FEWEST_SEEDS - 1]
        found.append({_tuple(key): total / degrees for key, total, degrees in sums.itertuples()})
    return found


def _pooled(pools: Sequence[dict[tuple, float]], labels: dict[str, str]) -> float:
    """The deviation of the first pool that has the labels' place; NaN where none has."""
    for found, pool in zip(pools, POOLS, strict=True):
        if (place := tuple(labels[name] for name in pool)) in found:
            return math.sqrt(found[place])
    return math.nan


def seedless(params: str) -> str:
    """The params without their seed."""
    return canonical({name: value for name, value in read_params(params).items() if name != "seed"})


def compare(committed: pd.DataFrame, recomputed: pd.DataFrame, spread: Spread) -> Agreement:
    """How the rows of one cell agree with those computed again."""
    given = [name for name in read_params(committed["params"].iloc[0]) if name in LABELS]
    # Of one cell they are equal; a column is empty where a default was left to the function that
    # computes.
    recomputed = recomputed.assign(**{name: committed[name].iloc[0] for name in given})
    sides = [measured(rows).set_index(LABELS) for rows in (committed, recomputed)]
    (first, second), params = (side["value"] for side in sides), committed["params"].iloc[0]
    if not (first.index.is_unique and second.index.is_unique) or set(first.index) != set(
        second.index
    ):
        apart = sorted(set(first.index) ^ set(second.index)) or [first.index[0]]
        side = "only committed" if apart[0] in first.index else "only recomputed"
        return Agreement(DIFFERENT, f"{_what(apart[0])} ({side})")
    beyond = sum(_kind(one, second[place]) == DIFFERENT for place, one in first.items())
    limit, judged = math.sqrt(2) * float(norm.ppf(1 - CHANCE / 2 / max(beyond, 1))), []
    for place, one in first.items():
        other, deviation = second[place], 0.0
        kind = _kind(one, other)
        if kind == DIFFERENT:
            deviation = spread.deviation(dict(zip(LABELS, place, strict=True)), params)
            kind = SPREAD if abs(one - other) <= limit * deviation else DIFFERENT
        gap = abs(one - other)
        relative = (
            0.0
            if kind == EXACT
            else gap / max(abs(one), abs(other))
            if math.isfinite(gap)
            else math.inf
        )
        unknown = NO_SEEDS if math.isnan(deviation) else ""
        judged.append((KINDS.index(kind), relative, _what(place) + unknown, one, other))
    worst, _, what, one, other = max(judged, key=lambda each: each[:2])
    return Agreement(KINDS[worst], what, one, other) if worst else Agreement(EXACT)


def _kind(one: float, other: float) -> str:
    """How two numbers agree, seeds apart."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return EXACT
    return (
        ROUNDED
        if abs(one - other) <= ROUNDING * max(abs(one), abs(other)) < math.inf
        else DIFFERENT
    )


def _what(place: tuple[str, ...]) -> str:
    labels = dict(zip(LABELS, place, strict=True))
    node = f"node {labels['node']}" if labels["node"] else ""
    return ", ".join(filter(None, (labels["metric"], labels["item"], node)))


def _tuple(key: Hashable) -> tuple:
    return key if isinstance(key, tuple) else (key,)
