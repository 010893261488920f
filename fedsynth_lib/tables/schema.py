"""Declared schemas: what a table's columns are, known before any row is read.

A schema is public knowledge: names, kinds, ranges and category lists come from a table's
documentation, so that a private method learns nothing about them from the rows. It lives
in a TOML file with one `[[column]]` entry for each column (see `schemas/adult.toml`).
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, BadRows

READ_FROM_ROWS = "read from the rows"  # the `source` of a range or category list that is not public


@dataclass(frozen=True)
class Column:
    """One column. Numeric: lies in [low, high]. Categorical: one of `categories`, in this order.

    source: where the range or the category list is documented.
    from_rows: it follows from the rows, so it is no declaration: a draft, or limits that are known
        as the smallest and the largest value of the file, whoever published them. Always so where
        the source is READ_FROM_ROWS.
    """

    name: str
    kind: Literal["numeric", "categorical"]
    low: float | None = None
    high: float | None = None
    integer: bool = False
    categories: tuple[str, ...] = ()
    source: str = ""
    # like its source no content: digests are made from the repr
    from_rows: bool = field(default=False, repr=False)

    def __post_init__(self):
        """Check the declaration."""
        object.__setattr__(self, "from_rows", self.from_rows or self.source == READ_FROM_ROWS)
        where = f"schema: column {self.name!r}"
        if self.kind not in ("numeric", "categorical"):
            raise BadInput(f"{where} has kind {self.kind!r}; write 'numeric' or 'categorical'.")
        if self.kind == "numeric":
            if self.low is None or self.high is None or not self.low < self.high:
                raise BadInput(
                    f"{where} needs numbers low < high; it has low={self.low}, high={self.high}."
                )
            if self.categories:
                raise BadInput(
                    f"{where} is numeric and has categories; remove them or make it categorical."
                )
        elif not self.categories or len(set(self.categories)) < len(self.categories):
            raise BadInput(
                f"{where} needs a list of different categories; it has {list(self.categories)}."
            )
        elif not all(isinstance(category, str) for category in self.categories):
            raise BadInput(
                f"{where} has categories that are not text; put each in quotation marks."
            )

    @cached_property
    def position(self) -> dict[str, int]:
        """Category -> its code."""
        return {category: code for code, category in enumerate(self.categories)}


def bin_edges(column: Column, most: int = 30) -> np.ndarray:
    """Return edges of at most `most` equal bins over the declared range of a numeric column.

    Edges are whole where the column's values are.
    """
    if not column.integer:
        return np.linspace(column.low, column.high, most + 1)
    width = -(-(column.high - column.low + 1) // most)
    return np.arange(column.low - 0.5, column.high + 0.5 + width, width)


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order, and the name of the target column (None: no target)."""

    columns: tuple[Column, ...]
    target: str | None = None

    def __post_init__(self):
        """Check names and target."""
        if len(set(self.names)) < len(self.columns):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise BadInput(f"schema: column {twice!r} is declared twice; remove one of the two.")
        if self.target is not None and self.target not in self.names:
            raise BadInput(
                f"schema: target {self.target!r} is not a declared "
                f"column{closest(self.target, self.names)}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def from_rows(self) -> tuple[str, ...]:
        """The columns whose range or categories follow from the rows.

        Nothing about them was declared.
        """
        return tuple(column.name for column in self.columns if column.from_rows)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric columns."""
        return tuple(column.name for column in self.columns if column.kind == "numeric")

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the categorical columns."""
        return tuple(column.name for column in self.columns if column.kind == "categorical")

    def __getitem__(self, name: str) -> Column:
        """Return the column of this name; BadInput with the nearest name where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise BadInput(f"schema: there is no column {name!r}{closest(name, self.names)}.")

    def drop(self, names: Iterable[str]) -> "Schema":
        """Return the schema without the named columns; a dropped target leaves no target."""
        gone = {self[name].name for name in names}
        kept = tuple(column for column in self.columns if column.name not in gone)
        return Schema(kept, None if self.target in gone else self.target)

    def rename(self, new_names: Mapping[str, str]) -> "Schema":
        """Return the schema with columns renamed, old name -> new name."""
        for name in new_names:
            self[name]  # an unknown name is an error
        columns = tuple(
            replace(column, name=new_names.get(column.name, column.name)) for column in self.columns
        )
        return Schema(columns, new_names.get(self.target, self.target) if self.target else None)


def is_text(schema: object) -> bool:
    """Whether this is the text of a schema, and not the path of one: it has several lines."""
    return isinstance(schema, str) and "\n" in schema


def read_toml(path: str | Path) -> dict:
    """Return the content of a TOML file, or of its text; BadInput where it cannot be read."""
    if is_text(path):
        return parse_toml(path.removeprefix("\ufeff"), "schema")
    try:
        return parse_toml(Path(path).expanduser().read_text(encoding="utf-8-sig"), str(path))
    except OSError as error:
        raise BadInput(
            f"{path}: the schema file cannot be read ({error.strerror}); check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: the schema file is not valid TOML: {error}.") from error


def parse_toml(text: str, name: str) -> dict:
    """Return the content of such a text; BadInput, naming the file, where it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name}: the schema file is not valid TOML: {error}.") from error


def closest(word: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' for the known word that is nearest, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def validate(frame: pd.DataFrame, schema: Schema, name: str) -> pd.DataFrame:
    """Return the frame with exactly the schema's columns, order and dtypes, and a RangeIndex.

    Numeric columns come out as float64, or int64 where `integer`; categorical ones as pandas
    Categoricals whose categories are the declared ones. Columns that are not declared are left out.
    A column of one value is a column: whether it is one is a fact about the rows.
    Raises BadInput, naming `name` and the column, for a missing or empty column, and BadRows for a
    missing, unknown or out-of-range value, which it names by its row.
    """
    require_columns(frame, schema.names, name)
    columns = {}
    for column in schema.columns:
        where = f"{name}: column {column.name!r}"
        convert = numbers_of if column.kind == "numeric" else _categorical
        columns[column.name] = convert(frame[column.name], column, where)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(frame)))


def require_columns(frame: pd.DataFrame, names: Iterable[str], name: str) -> None:
    """BadInput for a column that a frame lacks, or a frame without rows."""
    for column in names:
        if column not in frame.columns:
            near = closest(column, map(str, frame.columns))
            raise BadInput(
                f"{name}: column {column!r} is missing{near}; add it or remove it from the schema."
            )
    if len(frame) == 0:
        raise BadInput(f"{name}: the table has no rows; give a file with data.")


HUGE = r"[-+]?\d+(?:\.\d*)?(?:[eE]\+?\d+)?"
MOST_NAMED = 3  # rows that a message names


def rows_named(index: pd.Index, wrong: np.ndarray) -> str:
    """Where something is: 'row 17' or 'rows 3, 17, 20 and 4 more', as the first row of a file is 1.

    A message names rows and never shows what they hold: a scheduler keeps it in a log that others
    read. wrong: bool (rows,).
    """
    numbers = [str(place + 1) for place in index[wrong]]
    more = len(numbers) - MOST_NAMED
    shown = ", ".join(numbers[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{'row' if len(numbers) == 1 else 'rows'} {shown}"


def refuse_rows(
    values: pd.Series,
    wrong: np.ndarray,
    where: str,
    what: str,
    remedy: str,
    *,
    moved: list[str] | None = None,
    becomes: str = "",
) -> None:
    """Raise BadRows where a column holds something wrong, and say in which rows.

    wrong: bool (rows,). what, remedy: in a sentence.
    moved: where it is a list, nothing is raised, and it gets a sentence with what it `becomes`.
    """
    if not wrong.any():
        return
    rows = rows_named(values.index, wrong)
    if moved is None:
        raise BadRows(
            f"{where} holds {what} ({rows}); {remedy}.", f"{where} holds {what}; {remedy}."
        )
    moved.append(f"{where} holds {what} ({rows}), which {becomes}.")


def _refuse_missing(missing: int, total: int, where: str, remedy: str) -> None:
    if missing == total:
        raise BadInput(f"{where} is empty; fill it or remove it from the schema.")
    if missing:
        raise BadRows(
            f"{where} has {missing} missing values; {remedy}.",
            f"{where} has missing values; {remedy}.",
        )


def numbers_of(
    values: pd.Series, column: Column, where: str, moved: list[str] | None = None
) -> np.ndarray:
    """Return the values of a numeric column, float64 or int64 where `integer`.

    Raises BadRows for one that is missing, not a number, out of range, or not whole.

    moved: where it is a list, numbers out of range are moved to the nearer end of it, others are
        rounded where they must be whole, and the list gets a sentence about each.
    """
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind not in "biuf":
        text = values.astype(object)
        parsed = pd.to_numeric(text, errors="coerce")
        # pandas takes 1e400 for no number
        huge = parsed.isna() & text.astype(str).str.strip().str.fullmatch(HUGE)
        parsed[huge] = text[huge].map(float)
        broken = parsed.isna() & text.notna() & (text.astype(str).str.strip() != "")
        what, remedy = "something that is not a number", "correct it or declare it categorical"
        refuse_rows(values, broken.to_numpy(), where, what, remedy)
        values = parsed
    numbers = values.to_numpy(dtype=float, na_value=np.nan)
    remedy = (
        "fill in or drop these rows, or declare the column categorical with a category for them"
    )
    _refuse_missing(int(np.isnan(numbers).sum()), len(numbers), where, remedy)
    numbers = within_range(numbers, column.low, column.high, values, where, moved=moved)
    if not column.integer:
        return numbers
    what, remedy = "a number that is not whole", "remove 'integer' from the schema or round"
    broken, becomes = numbers != np.rint(numbers), "is rounded"
    refuse_rows(values, broken, where, what, remedy, moved=moved, becomes=becomes)
    return np.rint(numbers).astype(np.int64)


def within_range(
    numbers: np.ndarray,
    low: float,
    high: float,
    values: pd.Series,
    where: str,
    *,
    shown: str = "",
    moved: list[str] | None,
) -> np.ndarray:
    """Return the numbers, all of them from low to high; moved: as in `numbers_of`.

    values: as the file has them. shown: the range in words, where it is not one of numbers.
    """
    outside = (numbers < low) | (numbers > high)
    what = f"a value outside the declared range {shown or f'{low:g} to {high:g}'}"
    remedy, becomes = (
        "correct the rows or widen the range in the schema",
        "counts as its nearer end",
    )
    refuse_rows(values, outside, where, what, remedy, moved=moved, becomes=becomes)
    return np.clip(numbers, low, high)


def _categorical(values: pd.Series, column: Column, where: str) -> pd.Categorical:
    if not isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("category")
    raw = values.cat.codes.to_numpy().astype(np.int64)
    remedy = "fill in or drop these rows, or declare a category and set [reader] empty to it"
    _refuse_missing(int((raw < 0).sum()), len(raw), where, remedy)
    # Only the distinct values are compared, never row by row.
    labels = [_label(value, column.position) for value in values.cat.categories]
    codes = np.array([column.position.get(label, -1) for label in labels])[raw]
    remedy = "correct the rows or add it to the schema's categories"
    if any("\N{REPLACEMENT CHARACTER}" in label for label in labels):
        remedy += "; some bytes are not UTF-8 text: save the file as UTF-8"
    refuse_rows(values, codes < 0, where, "something that is not a declared category", remedy)
    return pd.Categorical.from_codes(codes, categories=list(column.categories))


def _label(value: object, known: Mapping[str, int]) -> str:
    """Return the category that a raw value stands for.

    Without outer spaces, and '1.0' is '1' where '1' is declared.
    """
    label = str(value).strip()
    return (
        label[:-2] if label not in known and label.endswith(".0") and label[:-2] in known else label
    )


def check_clients(num_rows: int, num_clients: int, name: str) -> None:
    """Raise BadInput unless every client can have at least one row."""
    if num_clients < 1:
        raise BadInput(f"num_clients is {num_clients}; give at least 1.")
    if num_rows < num_clients:
        raise BadInput(
            f"{name}: {num_rows} rows cannot be shared among {num_clients} clients; "
            "take fewer clients."
        )
