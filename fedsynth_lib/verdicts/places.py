"""The places at which a condition of a claim compares cells, as a table of places by sides.

A place is one combination of the values of the axes that a condition goes over; its sides are the
values of the axis that it compares across, as a rule methods. What is missing is named.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput

Values = Mapping[str, list]  # axis -> values
WITHOUT_CLIENTS = ("central", "real")
TAKEN: dict[str, Callable] = {  # of the numbers over the axes in `average`
    "mean": lambda numbers: numbers.mean(),
    "range": lambda numbers: numbers.max() - numbers.min(),
}
OF_CLIENTS = ("partition", "n_clients", "participation")


class Missing(Exception):
    """The cells lack some that a condition is about."""


class RanOnce(Missing):
    """The cells are there, but not the repeats that a test needs."""


class NotAllTables(Missing):
    """A mean over tables, some of which were not run, or not in full.

    It neither meets nor refutes a published one.
    """

    def __init__(self, tables: Iterable[str]):
        self.tables = list(tables)
        named = ", ".join(self.tables)
        super().__init__(f"a mean over tables that were not all run (missing: {named})")


@dataclass(frozen=True)
class Condition:
    """One condition with all that its file, group and claim say of it (see `vocabulary`)."""

    kind: str
    of: Any  # what the kind compares
    # of the file: the values that each axis may have
    axes: Values = field(repr=False)
    own: Mapping[str, Any] = field(default_factory=dict)  # the keys of the condition itself
    where: Values = field(default_factory=dict)
    each: tuple[str, ...] = ()
    across: str = "method"
    only: str = ""
    average: tuple[str, ...] = ()
    count: tuple[int, int] | None = None
    share: float | None = None
    as_run: tuple[str, ...] = ()
    needs: Values = field(default_factory=dict)
    incomplete: str = ""
    optional: bool = False
    statistic: str = "mean"

    def values(self, axis: str) -> list:
        """Return the values of an axis that the condition looks at."""
        return self.where.get(axis, self.axes[axis])


def chosen(cells: pd.DataFrame, where: Values) -> pd.DataFrame:
    """Return the cells with these values; a cell that does not have an axis is kept."""
    keep = [cells[axis].isin(values) | cells[axis].isna() for axis, values in where.items()]
    return cells[np.logical_and.reduce(keep)] if keep else cells


def wide(
    cells: pd.DataFrame,
    c: Condition,
    names: Iterable[Any],
    statistic: str = "",
    *,
    gaps: bool = False,
) -> pd.DataFrame:
    """Return places (rows) by sides (columns, the named values of `across`).

    Places are indexed by `each` and the metric. A side that does not have an axis, as central data
    have no clients, stands in every place. gaps: missing numbers are allowed; otherwise raises
    Missing.
    """
    statistic = statistic or c.statistic
    names = list(names)
    known, key = _SAME.get().layouts if _SAME.get() else {}, repr((c, names))
    if key not in known:
        known[key] = _layout(cells, c, names)
    layout = known[key]
    nothing = pd.Series(np.nan, cells.index)
    table = _filled(layout, cells.get(statistic, nothing))
    if c.incomplete == "skip":
        table = table.dropna()
    _complete(table, c, gaps)
    if c.average:
        kept = [axis for axis in table.index.names if axis not in c.average]
        table = TAKEN[c.own.get("taken", "mean")](table.groupby(kept, sort=False))
    return table


class _Same(NamedTuple):
    """What is known of the cells that are judged.

    These are the layout of each condition, and whether the cells are resampled.
    """

    layouts: dict[str, pd.DataFrame]
    resampled: bool


_SAME: ContextVar[_Same | None] = ContextVar("same", default=None)


@contextmanager
def same_layout(*, resampled: bool = True) -> Iterator[None]:
    """Find the layout of each condition only once in this context.

    All cells that are judged in it are the same ones in the same order, with other numbers if
    `resampled`.
    """
    token = _SAME.set(_Same({}, resampled))
    try:
        yield
    finally:
        _SAME.reset(token)


def is_resampled() -> bool:
    """Whether only shares are asked for, of the same cells again and again: texts take longer."""
    return bool(_SAME.get() and _SAME.get().resampled)


def _layout(cells: pd.DataFrame, c: Condition, names: list) -> pd.DataFrame:
    """Places by sides, holding the position of each cell; NaN where there is none."""
    sides = _sides(cells.assign(position=np.arange(len(cells))), c, names)
    there = pd.concat(list(sides.values())) if sides else cells.iloc[:0]
    each = [axis for axis in dict.fromkeys([*c.each, "metric"]) if axis != c.across]
    each = [axis for axis in each if there.empty or there[axis].notna().any()]
    table = _places(there, c, each)
    for name, own in sides.items():
        table[name] = _beside(table[each], own, "position", c)
    table = table.set_index(each or pd.Index([""] * len(table)))
    if c.only and len(table):
        table = table.reset_index().query(c.only).set_index(each)
    return table


def _filled(layout: pd.DataFrame, numbers: pd.Series) -> pd.DataFrame:
    """Fill the layout with the numbers of its cells."""
    place = layout.to_numpy(float)
    lost, values = np.isnan(place), numbers.to_numpy()
    if not len(values):
        return layout.astype(float)
    found = values[np.where(lost, 0, place).astype(int)]
    if lost.any():
        found = found.astype(
            np.result_type(found.dtype, float) if found.dtype != object else object
        )
        found[lost] = np.nan
    return pd.DataFrame(found, layout.index, layout.columns)


def means(cells: pd.DataFrame, c: Condition, names: Iterable[Any]) -> pd.DataFrame:
    """As `wide`, without the last bits of sums over seeds."""
    return wide(cells, c, names).round(9)


def _sides(cells: pd.DataFrame, c: Condition, names: Iterable[Any]) -> dict[Any, pd.DataFrame]:
    """Return the cells of each side; of an axis in `as_run` those that were run or are needed."""
    rows = chosen(cells, {axis: v for axis, v in c.where.items() if axis != c.across})
    sides = {name: rows[rows[c.across] == name] for name in names}
    if c.across not in c.as_run:
        return sides
    needed = c.needs.get(c.across, ())
    return {name: own for name, own in sides.items() if len(own) or name in needed}


def _places(there: pd.DataFrame, c: Condition, each: list[str]) -> pd.DataFrame:
    """Every combination of the values of `each`; of central and real data one for all clients."""
    values = {axis: c.values(axis) for axis in each}
    for axis in set(c.as_run) & set(each):
        run = {*there[axis].dropna(), *c.needs.get(axis, ())}
        values[axis] = [value for value in values[axis] if value in run]
    places = pd.DataFrame(list(product(*values.values())), columns=each)
    if "setting" in places:
        alone = places["setting"].isin(WITHOUT_CLIENTS)
        for axis in set(OF_CLIENTS) & set(each):
            places[axis] = places[axis].mask(alone)
        places = places.drop_duplicates(ignore_index=True)
    return places.astype({axis: there[axis].dtype for axis in each}) if len(there) else places


def _beside(
    places: pd.DataFrame, own: pd.DataFrame, statistic: str, c: Condition
) -> pd.Series | float:
    """Return the numbers of one side at the places, by the axes that it has."""
    shared = [axis for axis in places if own[axis].notna().any()]
    if (twice := own.duplicated(shared)).any():
        place = own.loc[twice, list(c.axes)].iloc[0].dropna()
        raise BadInput(
            f"{c.kind} {c.of!r}: there are several cells at one place ({', '.join(map(str, place))}"
            "): name what tells them apart in where or each."
        )
    numbers = own.reindex(columns=[*shared, statistic])
    if not shared:
        return numbers[statistic].iloc[0] if len(numbers) else np.nan
    return places.merge(numbers, "left", shared)[statistic]


def _complete(table: pd.DataFrame, c: Condition, gaps: bool) -> None:
    """Raise Missing, naming the first cells that are."""
    repeats = c.statistic in ("iqr", "sem")
    single = " (or have too few runs)" * repeats
    lacking = RanOnce if repeats else Missing
    if table.empty:
        what = side(c, list(table.columns))
        raise lacking(f"all cells are missing{single}: {what} ({about(c)})")
    if not table.isna().to_numpy().any():
        return
    if "dataset" in c.average and "dataset" in table.index.names and not gaps:
        tables = table.index.get_level_values("dataset")
        lost = tables[table.isna().any(axis=1)].unique()
        if len(lost) < tables.nunique():
            raise NotAllTables(lost)
    empty = table.isna().stack()
    lost = empty.index[empty.to_numpy()]
    if len(lost) and not gaps:
        named = [
            f"{side(c, name)}{' at ' * bool(where)}{where}"
            for *place, name in lost[:3]
            for where in [label(place, table)]
        ]
        raise lacking(
            f"{len(lost)} of {table.size} cells are missing{single}: {'; '.join(named)}"
            f"{', ...' * (len(lost) > 3)} ({about(c)})"
        )


# --- words ---------------------------------------------------------------------------------------


def as_text(value: Any) -> str:
    """Write a value, a number with at most six digits."""
    return value if isinstance(value, str) else f"{value:g}"


def with_axis(axis: str, value: Any) -> str:
    """Write a value with its axis, unless it speaks for itself: `adult`, `epsilon 0.5`."""
    if isinstance(value, str) and not value.isdigit():
        return value
    return f"{axis_name(axis)} {as_text(value)}"


def axis_name(axis: str) -> str:
    """Return the name of an axis in words: `n_clients` is `clients`."""
    return axis.removeprefix("n_").replace("_", " ")


def about(c: Condition) -> str:
    """All that is the same in all places of a condition."""
    fixed = {axis: v[0] for axis, v in c.where.items() if len(v) == 1 and axis != c.across}
    return ", ".join(with_axis(axis, value) for axis, value in fixed.items() if value != "")


def label(place: Any, table: pd.DataFrame | pd.Series) -> str:
    """Name a place by the values in which it differs from the others."""
    values = place if isinstance(place, tuple | list) else (place,)
    levels = [table.index.get_level_values(n).unique() for n in range(table.index.nlevels)]
    return " ".join(
        with_axis(axis, value)
        for axis, value, others in zip(table.index.names, values, levels, strict=True)
        if len(others) > 1 and value == value  # NaN where it does not apply
    )


def side(c: Condition, names: Any) -> str:
    """One side of a comparison: `AIM, DistAIM`, or `epsilon 0.5, 1.6`."""
    first, *others = flatten(names)
    words = ", ".join([with_axis(c.across, first), *map(as_text, others)])
    return f"{'any of ' * isinstance(names, Mapping)}{words}"


def flatten(names: Any) -> list:
    """Return the names in lists of names, and in {any = [...]}."""
    if isinstance(names, Mapping):
        return flatten(names["any"])
    return [one for each in names for one in flatten(each)] if isinstance(names, list) else [names]
