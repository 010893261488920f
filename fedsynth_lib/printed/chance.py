"""What chance does to a comparison with print: how far apart two means may lie, and how many cells
would keep their order if ours were dealt anew.

The variance components of each work are declared in data/published/components.toml.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.store import project_root

FILE = "components.toml"
STATED, OURS = "stated", "ours"
SHUFFLES = 200


class Components(NamedTuple):
    """As `components.toml` says of a work, or of some of its cells."""

    repeats: int
    print: str
    pool: Sequence[str] = ()
    test_rows: int = 0
    no_bound: str = ""
    why: str = ""


@lru_cache
def declared(work: str) -> tuple[tuple[Mapping[str, list], Components], ...]:
    """(where, components) of a work, the first of all its cells.

    Raises BadInput, naming work and key, for what the file may not say.
    """
    path = project_root() / "data" / "published" / FILE
    return parsed(work, tomllib.loads(path.read_text(encoding="utf-8"))[work])


def parsed(work: str, said: Mapping[str, Any]) -> tuple[tuple[Mapping[str, list], Components], ...]:
    """As `declared`, of what the file says of a work."""
    general = {name: value for name, value in said.items() if name != "cells"}
    found = []
    for entry in ({}, *said.get("cells", ())):
        own = {**general, **{name: value for name, value in entry.items() if name != "where"}}
        if unknown := sorted(set(own) - set(Components._fields)):
            raise BadInput(f"{FILE}, {work}: unknown key {unknown[0]!r}.")
        if own.get("print") not in (STATED, OURS) or not own.get("repeats", 0) > 0:
            raise BadInput(
                f"{FILE}, {work}: needs repeats of 1 or more, and print, stated or ours."
            )
        if bool(entry) != bool(entry.get("where")):
            raise BadInput(f"{FILE}, {work}: an entry of cells needs where.")
        found.append((entry.get("where", {}), Components(**own)))
    return tuple(found)


def components(work: str, cells: pd.DataFrame) -> pd.DataFrame:
    """The components of each cell, in columns named as those of `Components`."""
    chosen = np.zeros(len(cells), dtype=int)
    rules = declared(work)
    for number, (where, _) in enumerate(rules):
        here = np.ones(len(cells), dtype=bool)
        for column, values in where.items():
            here &= cells[column].isin(values).to_numpy() if column in cells else False
        chosen[here] = number
    found = [rules[number][1] for number in chosen]
    return pd.DataFrame(found, index=cells.index, columns=Components._fields)


def standard_error(work: str, table: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """`error`, of the difference of each printed and own mean, and `no_bound`, why there is none.

    table: printed cells with `published`, `published_std`, `ours`, `ours_std`, `n`, `decimals`.
    ours: all own cells of the exhibit's grids (`mean`, `std`, `n` by KEYS), for pooled deviations.
    A single run of ours is taken to spread as print does.
    """
    said = components(work, table)
    unit = 10.0 ** -table["decimals"].astype(float)
    printed = table["published_std"].clip(lower=unit / 2)
    own = pooled(said, table, ours).where(table["n"] > 1, printed)
    printed = printed.where(said["print"] == STATED, own).fillna(0)
    own = own.fillna(0)
    share = table["published"].clip(0, 1)
    test = (2 * share * (1 - share) / said["test_rows"]).where(said["test_rows"] > 0, 0.0)
    variance = printed**2 / said["repeats"] + own**2 / table["n"].clip(lower=1)
    error = np.sqrt(variance + test + unit**2 / 12)
    return pd.DataFrame({"error": error, "no_bound": said["no_bound"]})


def pooled(said: pd.DataFrame, table: pd.DataFrame, ours: pd.DataFrame) -> pd.Series:
    """Own deviations; where cells spread alike the root of their mean variance, by degrees of
    freedom."""
    own = table["ours_std"].astype(float).copy()
    for columns in set(said["pool"].map(tuple)) - {()}:
        keys = ["metric", *columns]
        several = ours[ours["n"] > 1]
        freedom = several["n"] - 1
        sums = pd.DataFrame({"squares": several["std"] ** 2 * freedom, "freedom": freedom})
        sums = sums.groupby([several[key] for key in keys]).sum()
        pooled = np.sqrt(sums["squares"] / sums["freedom"]).rename("pooled")
        found = table[keys].join(pooled, on=keys)["pooled"]
        own = own.where(said["pool"].map(tuple) != columns, found)
    return own


# --- order ---------------------------------------------------------------------------------------


class Relations(NamedTuple):
    """Pairs of cells whose order print tells: positions, and the sign of the first less the second.

    step: what the last printed digit of the coarser is worth. groups: of each cell, which of ours
    may change places with it.
    """

    first: np.ndarray
    second: np.ndarray
    sign: np.ndarray
    step: np.ndarray
    groups: np.ndarray

    def kept(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By cell how many of its relations have the printed sign by these values, and how many it
        has."""
        signs = np.sign(np.round((values[self.first] - values[self.second]) / self.step))
        size = len(values)
        kept = np.bincount(self.first, weights=signs == self.sign, minlength=size)
        return kept.astype(int), np.bincount(self.first, minlength=size)

    def by_chance(self, values: np.ndarray, shuffles: int = SHUFFLES) -> np.ndarray:
        """By cell how often more than half of its relations are kept where our values are dealt
        anew among the cells of its group; NaN where it has none."""
        rng, there = stream(0, "order by chance"), np.flatnonzero(~np.isnan(values))
        found = np.zeros(len(values))
        for _ in range(shuffles):
            drawn = there[np.lexsort((rng.random(len(there)), self.groups[there]))]
            places = there[np.argsort(self.groups[there], kind="stable")]
            dealt = values.copy()
            dealt[places] = values[drawn]
            kept, size = self.kept(dealt)
            found += kept > size / 2
        return np.where(size > 0, found / shuffles, np.nan) if len(values) else found
