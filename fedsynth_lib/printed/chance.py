"""What chance does to a comparison with published values.

It says how far apart two means may be, and how many cells would keep their order if ours were
shuffled.

The variance components of each work are declared in data/published/components.toml.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.store import project_root
from fedsynth_lib.runs.typed import read_toml, typed

FILE = "components.toml"
STATED = "stated"
SHUFFLES = 200


class Components(NamedTuple):
    """As `components.toml` says of a work, or of those of its cells that are at `where`."""

    repeats: int
    print: Literal["stated", "ours"]
    pool: Sequence[str] = ()
    test_rows: int = 0
    discordant: int | float = 0.0
    allowance: int | float = 0.0
    no_bound: str = ""
    why: str = ""
    where: Mapping[str, Sequence[Any]] = {}


@lru_cache
def declared(work: str) -> tuple[Components, ...]:
    """Return the components of a work: the first of all its cells, the others of some.

    Raises BadInput, naming work and key, for what the file may not say.
    """
    path = project_root() / "data" / "published" / FILE
    return parsed(work, read_toml(path)[work])


def parsed(work: str, said: Mapping[str, Any]) -> tuple[Components, ...]:
    """As `declared`, of what the file says of a work."""
    place, general = f"{FILE}, {work}", {name: said[name] for name in said if name != "cells"}
    entries = [general, *({**general, **own} for own in said.get("cells", ()))]
    found = tuple(typed(Components, entry, place) for entry in entries)
    if not all(each.where for each in found[1:]):
        raise BadInput(f"{place}: an entry of cells needs where.")
    if (fewest := min(each.repeats for each in found)) < 1:
        raise BadInput(f"{place}: repeats is {fewest}: give 1 or more.")
    return found


def repeats(work: str) -> int:
    """How many runs a published mean of a work is over."""
    return declared(work)[0].repeats


def components(work: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the components of each cell, in columns named as those of `Components`."""
    chosen, rules = np.zeros(len(cells), dtype=int), declared(work)
    for number, rule in enumerate(rules[1:], start=1):
        here = np.ones(len(cells), dtype=bool)
        for column, values in rule.where.items():
            here &= cells[column].isin(values).to_numpy() if column in cells else False
        chosen[here] = number
    found = [rules[number] for number in chosen]
    return pd.DataFrame(found, index=cells.index, columns=Components._fields)


def standard_error(work: str, table: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Return how far each published mean and ours may be apart by chance, in three columns.

    error: standard error of the difference of the two means.
    factor: how many of them a match may be apart: the 97.5 percent quantile of Student's t at the
        degrees of freedom of the error (Welch): 2 where many runs tell the deviations, 2.8 for
        three runs on either side, 12.7 for two of ours alone. A single run of ours is taken to
        spread as the published ones do.
    no_bound: why there is none.

    table: published cells with `published`, `published_std`, `ours`, `ours_std`, `n`, `decimals`,
        and KEYS in the form of `published.merge_keys`.
    ours: all own cells of the exhibit's grids (`mean`, `std`, `n` by KEYS), for pooled deviations.
    """
    said = components(work, table)
    unit = 10.0 ** -table["decimals"].astype(float)
    stated = table.rename(columns={"published_std": "std"}).assign(n=said["repeats"])
    printed, printed_freedom = pooled(said, stated, stated[stated["std"].notna()])
    printed = printed.clip(lower=unit / 2)
    own, freedom = pooled(said, table.rename(columns={"ours_std": "std"}), ours)
    several = table["n"] > 1
    own, freedom = own.where(several, printed), freedom.where(several, printed_freedom)
    by_print = said["print"] == STATED
    printed = printed.where(by_print, own).fillna(0) ** 2 / said["repeats"]
    printed_freedom = printed_freedom.where(by_print, freedom)
    own = own.fillna(0) ** 2 / table["n"].clip(lower=1)
    share = table["published"].clip(0, 1)
    known = (2 * share * (1 - share) / said["test_rows"]).where(said["test_rows"] > 0, 0.0)
    known = known + unit**2 / 12
    variance = printed + own + known
    # both terms rest on the same deviation where the published runs are taken to spread as ours do
    sums = (printed + own) ** 2 / freedom.clip(lower=1)
    apart = printed**2 / printed_freedom.clip(lower=1) + own**2 / freedom.clip(lower=1)
    welch = variance**2 / apart.where(by_print, sums).clip(lower=1e-300)
    error = np.sqrt(variance)
    factor = stats.t.ppf(0.975, welch.clip(lower=1)) + said["allowance"] / error
    return pd.DataFrame({"error": error, "factor": factor, "no_bound": said["no_bound"]})


def pooled(
    said: pd.DataFrame, table: pd.DataFrame, cells: pd.DataFrame
) -> tuple[pd.Series, pd.Series]:
    """Return the deviation of each line of a table and its degrees of freedom.

    The deviation is its own (`std` of `n` runs), or where cells share a design the root of their
    mean variance, by degrees of freedom.

    cells: that are pooled, with `std` and `n`.
    """
    deviation = table["std"].astype(float).copy()
    freedom = (table["n"].astype(float) - 1).clip(lower=0)
    several = cells[(cells["n"] > 1) & cells["std"].notna()]
    for columns in set(said["pool"].map(tuple)) - {()}:
        keys = ["metric", *columns]
        own = several["n"] - 1
        sums = pd.DataFrame({"squares": several["std"] ** 2 * own, "freedom": own})
        sums = sums.groupby([several[key] for key in keys], dropna=False).sum()
        found = table[keys].merge(sums.reset_index(), "left", keys).set_index(table.index)
        here = (said["pool"].map(tuple) == columns) & found["freedom"].notna()
        deviation = deviation.mask(here, np.sqrt(found["squares"] / found["freedom"]))
        freedom = freedom.mask(here, found["freedom"])
    return deviation, freedom


# --- order ---------------------------------------------------------------------------------------


SCENARIOS = ["dataset", "metric", "node", "detail", "method", "setting", "epsilon"]
TABLES = ["dataset", "metric"]
FEW = 4


def within_by_chance(table: pd.DataFrame, judged: Sequence[str]) -> pd.Series:
    """Return how often each judged cell would be within if ours were shuffled.

    Values are shuffled among the scenarios of its method and setting, or in a table of fewer than
    FEW scenarios among all cells of its data set and measure.

    table: of `published.compare`, with KEYS in the form of `merge_keys`. NaN where a cell is not
    judged, or alone. A tolerance stays with its cell.
    """
    there = table[table["verdict"].isin(judged)]
    fine = [name for name in SCENARIOS if name in there]
    groups = there.groupby(fine, dropna=False).ngroup()
    if groups.map(groups.value_counts()).max() < FEW:
        groups = there.groupby(TABLES, dropna=False).ngroup()
    found = pd.Series(np.nan, table.index)
    for _, own in there.groupby(groups):
        if len(own) > 1:
            apart = np.abs(own["ours"].to_numpy()[None] - own["published"].to_numpy()[:, None])
            near = apart <= own["tolerance"].to_numpy()[:, None]
            found[own.index] = near.mean(axis=1)
    return found


class Relations(NamedTuple):
    """Pairs of cells whose published order is known.

    They are given as positions, and the sign of the first less the second. step: what the last
    published digit of the coarser is worth. groups: of each cell, which of ours may change places
    with it.
    """

    first: np.ndarray
    second: np.ndarray
    sign: np.ndarray
    step: np.ndarray
    groups: np.ndarray

    def kept(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Count the relations of each cell that have the published sign by these values.

        The number of all its relations is returned as well.
        """
        signs = np.sign(np.round((values[self.first] - values[self.second]) / self.step))
        size = len(values)
        kept = np.bincount(self.first, weights=signs == self.sign, minlength=size)
        return kept.astype(int), np.bincount(self.first, minlength=size)

    def by_chance(self, values: np.ndarray) -> np.ndarray:
        """Return how often each cell keeps more than half of its relations by chance.

        Our values are shuffled among the cells of its group; NaN where it has no relations.
        """
        rng, there = stream(0, "order by chance"), np.flatnonzero(~np.isnan(values))
        found = np.zeros(len(values))
        for _ in range(SHUFFLES):
            drawn = there[np.lexsort((rng.random(len(there)), self.groups[there]))]
            places = there[np.argsort(self.groups[there], kind="stable")]
            dealt = values.copy()
            dealt[places] = values[drawn]
            kept, size = self.kept(dealt)
            found += kept > size / 2
        return np.where(size > 0, found / SHUFFLES, np.nan) if len(values) else found
