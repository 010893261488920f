"""How a method sees a table: bins, places in the declared range, one-hot columns, label codes.

An encoder is made from the declared schema alone. It never looks at rows, so nothing about them can
leak through its edges or its categories. `bins_from_rows` does the opposite, as some works do.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, BadRows, Domain
from fedsynth_lib.tables.schema import Column, Schema

# levels of a column that keeps a level per whole number; more is a forgotten entry
MAX_WHOLE = 1_000_000
NO_VALUE = "missing"  # the last level of a column of bins that has gaps


@dataclass(frozen=True)
class EqualWidthBins:
    """Numeric columns in equal-width bins over [low, high], categorical ones as codes.

    20 bins as in martinez2024 (protocol section 4.1). A bin holds its lower edge, and the
    last one its upper edge too. An integer column keeps exactly its number of bins, so some may
    hold no integer: data never falls there, only noise can put mass on such a bin.

    bins: of every numeric column that `by_column` does not name. None: an integer column then has
        a level for each whole number of its range, and a continuous one is refused.
    by_column: bins of single columns, as a mapping or as (name, bins) pairs; kept as sorted pairs,
        so that equal encoders are equal and hashable.
    """

    schema: Schema
    bins: int | None = 20
    by_column: Mapping[str, int] | tuple[tuple[str, int], ...] = ()

    def __post_init__(self):
        """Check the numbers of bins, and compute the edges."""
        chosen = dict(self.by_column)
        object.__setattr__(self, "by_column", tuple(sorted(chosen.items())))
        if self.bins is not None:
            _check_bins("bins", self.bins)
        for name, bins in chosen.items():
            if self.schema[name].kind != "numeric":
                raise BadInput(
                    f"by_column names {name!r}, which is categorical; name numeric columns only."
                )
            _check_bins(f"by_column[{name!r}]", bins)
        _ = self.edges  # a range that cannot be cut is said now, not at the first row

    @cached_property
    def domain(self) -> Domain:
        """Names and numbers of levels of the encoded columns."""
        edges = self.edges
        levels = (
            len(edges[c.name]) - 1 if c.kind == "numeric" else len(c.categories)
            for c in self.schema.columns
        )
        gaps = (c.name for c in self.schema.columns if c.categories[-1:] == (NO_VALUE,))
        return Domain(tuple(self.schema.names), tuple(levels), tuple(gaps))

    @cached_property
    def edges(self) -> dict[str, np.ndarray]:
        """The bins + 1 edges of every numeric column."""
        numeric, chosen = map(self.schema.__getitem__, self.schema.numeric), dict(self.by_column)
        return {c.name: _edges_or_whole(c, chosen.get(c.name, self.bins)) for c in numeric}

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Level codes, int32 (rows, columns); BadInput for what the schema does not declare."""
        _check_columns(frame, self.schema)
        codes = np.empty((len(frame), len(self.schema.columns)), dtype=np.int32)
        for j, column in enumerate(self.schema.columns):
            if column.kind == "categorical":
                codes[:, j] = _category_codes(frame, column)
            else:
                inner = self.edges[column.name][1:-1]
                codes[:, j] = np.searchsorted(inner, _numbers_in_range(frame, column), side="right")
        return codes

    def inverse(self, rows: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Values with the schema's types: a uniform draw inside each chosen bin.

        Integer columns draw uniformly among the integers of the bin; a bin without any
        gives the integer nearest to it. `transform(inverse(codes))` is `codes` but for those.
        """
        rows, levels = np.asarray(rows), np.array(self.domain.levels)
        if (
            rows.ndim != 2
            or rows.shape[1] != len(levels)
            or not ((rows >= 0) & (rows < levels)).all()
        ):
            raise ValueError(f"codes must be (rows, {len(levels)}) and within the domain's levels")
        values = {}
        for codes, column in zip(rows.T, self.schema.columns, strict=True):
            if column.kind == "categorical":
                values[column.name] = pd.Categorical.from_codes(
                    codes, categories=list(column.categories)
                )
            elif column.integer:
                first, last = _integers(self.edges[column.name])
                values[column.name] = rng.integers(first[codes], last[codes], endpoint=True)
            else:
                values[column.name] = _uniform(self.edges[column.name], codes, rng)
        return pd.DataFrame(values)


@dataclass(frozen=True)
class UnitRange:
    """Numeric columns as their place in the declared range, from 0 to 1; categorical ones as codes.

    The domain gives a numeric column 0 levels.
    """

    schema: Schema

    @cached_property
    def domain(self) -> Domain:
        """Names and numbers of levels of the encoded columns."""
        return Domain(
            tuple(self.schema.names),
            tuple(len(column.categories) for column in self.schema.columns),
        )

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Float64 (rows, columns); BadInput for what the schema does not declare."""
        _check_columns(frame, self.schema)
        rows = np.empty((len(frame), len(self.schema.columns)))
        for j, column in enumerate(self.schema.columns):
            if column.kind == "categorical":
                rows[:, j] = _category_codes(frame, column)
            else:
                rows[:, j] = (_numbers_in_range(frame, column) - column.low) / (
                    column.high - column.low
                )
        return rows

    def inverse(self, rows: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Decode to values with the schema's types.

        What is outside of the range is moved to its end, integers are rounded.
        """
        values = {}
        for numbers, column in zip(np.asarray(rows).T, self.schema.columns, strict=True):
            if column.kind == "categorical":
                codes, categories = numbers.astype(np.intp), list(column.categories)
                values[column.name] = pd.Categorical.from_codes(codes, categories=categories)
                continue
            scaled = np.clip(
                column.low + (column.high - column.low) * numbers, column.low, column.high
            )
            values[column.name] = np.rint(scaled).astype(np.int64) if column.integer else scaled
        return pd.DataFrame(values)


def clamped(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Move numbers outside their declared range to its nearer end; missing ones stay missing.

    What private runs do, so that one row with an odd number cannot stop a run, or show by stopping
    it that it is there.
    """
    columns = (schema[name] for name in schema.numeric if name in frame)
    return frame.assign(
        **{column.name: frame[column.name].clip(column.low, column.high) for column in columns}
    )


def bins_from_rows(frame: pd.DataFrame, schema: Schema, bins: int = 20) -> EqualWidthBins:
    """Return bins over the range that the rows themselves span.

    This is the published "global minimum and maximum".

    This range is an UNPROTECTED RELEASE: the smallest and the largest value are single people's,
    and one outlier moves every edge. Whoever uses it must list it as such in the privacy
    statement. The bundle itself uses it only as a positive control in tests.
    """
    _check_columns(frame, schema)
    spans = {name: (frame[name].min().item(), frame[name].max().item()) for name in schema.numeric}
    columns = (
        replace(c, low=spans[c.name][0], high=spans[c.name][1]) if c.name in spans else c
        for c in schema.columns
    )
    return EqualWidthBins(replace(schema, columns=tuple(columns)), bins)


def one_hot(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Encode as float32 (rows, width) in schema order, categories one-hot.

    A column of 0/1 per declared category; numeric columns are as they are.
    """
    _check_columns(frame, schema)
    widths = [1 if c.kind == "numeric" else len(c.categories) for c in schema.columns]
    matrix = np.zeros((len(frame), sum(widths)), dtype=np.float32)
    row, start = np.arange(len(frame)), 0
    for column, width in zip(schema.columns, widths, strict=True):
        if column.kind == "numeric":
            matrix[:, start] = frame[column.name]
        else:
            matrix[row, start + _category_codes(frame, column)] = 1
        start += width
    return matrix


def standardised(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Encode as z-scored numeric columns first, then the categories one-hot; float32 (rows, width).

    For distances and PCA.
    """
    numbers = frame[list(schema.numeric)].to_numpy(dtype=np.float64)
    spread = numbers.std(axis=0)
    z_scores = (numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.hstack([z_scores.astype(np.float32), one_hot(frame, schema.drop(schema.numeric))])


def label_codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Return numeric columns as they are and categories as their codes.

    Float64 (rows, columns) in schema order.
    """
    _check_columns(frame, schema)
    matrix = np.empty((len(frame), len(schema.columns)))
    for j, column in enumerate(schema.columns):
        matrix[:, j] = (
            frame[column.name] if column.kind == "numeric" else _category_codes(frame, column)
        )
    return matrix


def _check_bins(what: str, bins: int) -> None:
    if bins != int(bins) or bins < 1:
        raise BadInput(f"{what} is {bins}; give a whole number of at least 1.")


def _edges_or_whole(column: Column, bins: int | None) -> np.ndarray:
    """Edges of `bins` bins; without a number those of a bin for each whole number."""
    if bins is not None:
        return _edges(column, bins)
    remedy = "give its number of bins in by_column, or bins for all columns"
    if not column.integer:
        raise BadInput(f"column {column.name!r} is continuous and was not binned; {remedy}.")
    low, high = math.ceil(column.low), math.floor(column.high)
    if high - low >= MAX_WHOLE:
        raise BadInput(
            f"column {column.name!r} holds {high - low + 1} whole numbers and was not "
            f"binned; {remedy}."
        )
    return _edges(replace(column, low=low, high=high), high - low + 1)


def _edges(column: Column, bins: int) -> np.ndarray:
    low, high = float(column.low), float(column.high)
    # Multiply first: an edge that is a whole number then comes out exactly.
    with np.errstate(invalid="ignore"):  # of an infinite range, which is refused below
        edges = low + (high - low) * np.arange(bins + 1) / bins
        edges[-1] = high
        cut = (np.diff(edges) > 0).all()
    if not cut:
        raise BadInput(
            f"column {column.name!r} declares the range {column.low} to {column.high}, which "
            f"cannot be cut into {bins} bins; declare a finite, wider one."
        )
    return edges


def _integers(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last integer of every bin.

    Of a bin without any integer, both are the nearest one in range.
    """
    first = np.ceil(edges[:-1])
    last = np.append(np.ceil(edges[1:-1]) - 1, np.floor(edges[-1]))
    nearest = np.clip(np.rint((edges[:-1] + edges[1:]) / 2), np.ceil(edges[0]), np.floor(edges[-1]))
    empty = first > last
    first, last = np.where(empty, nearest, first), np.where(empty, nearest, last)
    return first.astype(np.int64), last.astype(np.int64)


def _uniform(edges: np.ndarray, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    low, high = edges[:-1], edges[1:]
    drawn = low[codes] + (high - low)[codes] * rng.random(len(codes))
    return np.minimum(drawn, np.nextafter(high, low)[codes])  # rounding must not reach the next bin


def _check_columns(frame: pd.DataFrame, schema: Schema) -> None:
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise BadInput(
            f"the table lacks column {missing[0]!r} of its schema; add it, or drop it "
            "from the schema."
        )


def _category_codes(frame: pd.DataFrame, column: Column) -> np.ndarray:
    # By value, not by position: a frame may hold the same categories in another order.
    codes = pd.Categorical(frame[column.name], categories=list(column.categories)).codes
    if unknown := int((codes < 0).sum()):
        remedy = "correct the rows, or add the category to the schema"
        raise BadRows(
            f"column {column.name!r} holds {unknown} values that are not among its declared "
            f"categories; {remedy}.",
            f"column {column.name!r} holds a value that is not among its declared categories; "
            f"{remedy}.",
        )
    return codes.astype(np.intp)  # pandas packs them into int8, which overflows in sums


def _numbers_in_range(frame: pd.DataFrame, column: Column) -> np.ndarray:
    values = frame[column.name].to_numpy(dtype=np.float64)
    inside = (values >= column.low) & (values <= column.high)  # False for a missing value, too
    if outside := int((~inside).sum()):
        what = f"outside its declared range {column.low:g} to {column.high:g}"
        remedy = "correct the rows, or widen the range in the schema"
        raise BadRows(
            f"column {column.name!r} holds {outside} values {what}; {remedy}.",
            f"column {column.name!r} holds a value {what}; {remedy}.",
        )
    return values
