"""The kinds of column that a file may have, and how each becomes what methods work on, and back.

Methods know two kinds of column: numbers in a declared range, and declared categories
(`schema.Column`). A date is such a number (days since the first that is declared), an amount that
is told by its order of magnitude is one (its logarithm), a gap is a category. So no method knows
dates, logarithms or gaps, and each of them learns all three.

Each way there and back treats a row on its own and follows from the declaration alone: nothing of
the rows is released by it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, NamedTuple, NoReturn

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.moments import FORMATS, TIMES, Moments, moment_text
from fedsynth_lib.tables.schema import (
    Column,
    Schema,
    numbers_of,
    refuse_rows,
    validate,
    within_range,
)
from fedsynth_lib.tables.written import Written

Kind = Literal[
    "numeric",
    "categorical",
    "boolean",
    "date",
    "time",
    "datetime",
    "identifier",
    "text",
    "constant",
]
NOT_MODELLED = ("identifier", "text", "constant")
KINDS: tuple[str, ...] = ("numeric", "categorical", "boolean", *TIMES, *NOT_MODELLED)
PRESENT, GAP = "no", "yes"  # of the column that says whether another one has a gap
MOST_EXACT = 2**53  # beyond it, a float is no longer every whole number
SEQUENCE = "sequence"  # a pattern of identifiers: 1, 2, 3 and so on
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a cell begins that a spreadsheet runs
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # of fresh identifiers; I and O look like digits


# the kinds that an entry has a meaning for; every other one is of all kinds
FITTING = {
    **dict.fromkeys(("low", "high"), ("numeric", *TIMES)),
    **dict.fromkeys(("integer", "decimals", "written", "short_whole", "scale"), ("numeric",)),
    "categories": ("categorical", "boolean"),
    **dict.fromkeys(("ordered", "keep"), ("categorical",)),
    "format": TIMES,
    "missing": ("numeric", "categorical", "boolean", *TIMES),
    "pattern": ("identifier",),
    "value": ("constant",),
}


class Gaps(NamedTuple):
    """A numeric column that may have gaps, as methods see it: its number, and whether it is one.

    Where it has a gap the number is `fill`, the middle of the range, which says nothing.
    """

    number: Column
    missing: Column
    fill: float


@dataclass(frozen=True)
class FileColumn:
    """A column as its file has it, and as everybody may know it.

    low, high: of numbers; of dates and times as text in `format`.
    decimals: of numbers, at most; None: as many as they have. integer: 0 of them.
    written: a number as the file writes it, such as "$1,234.50", "12 345 €", "45%" or "1,5"; or
        "1.50", where each has two decimals.
    short_whole: whether whole numbers among others stand without decimals: 42 beside 42.5.
    scale: "log" for amounts of which their order of magnitude tells: counted and drawn evenly in
        their logarithm.
    ordered: whether the order of the categories means something.
    format: of dates and times, in the letters of strftime; %-d, %-m, %-H and %-I have no leading
        zero, %^b and %^B are in capitals, %P is am or pm, %3f are milliseconds.
    missing: how the file writes that there is no value; the first is what synthetic rows have. An
        empty one allows no gaps.
    pattern: of fresh identifiers: '#' a digit, '@' a letter, anything else itself; or 'sequence'.
        Without one the column is left out.
    value: of a constant; an empty one of a column without any value.
    type: in a parquet file, as Arrow calls it, such as "int8", "timestamp[us]" or
        "dictionary<string>"; without one it follows from the kind.
    keep: whether there are so many categories because all of them are wanted: answers what a draft
        asks about a long list.
    source, from_rows: as in `schema.Column`.
    question: what a draft asks about the column; whoever has the answer deletes it.
    Raises BadInput for a declaration that means nothing.
    """

    name: str
    kind: Kind
    low: float | str | None = None
    high: float | str | None = None
    integer: bool = False
    decimals: int | None = None
    written: str = ""
    short_whole: bool = False
    scale: Literal["linear", "log"] = "linear"
    categories: tuple[str, ...] = ()
    ordered: bool = False
    format: str = ""
    missing: tuple[str, ...] = ()
    pattern: str = ""
    value: str = ""
    type: str = ""
    keep: bool = False
    source: str = ""
    from_rows: bool = False
    question: str = ""

    def __post_init__(self):
        if self.kind not in KINDS:
            self._refuse(f"has kind {self.kind!r}; write one of {', '.join(KINDS)}.")
        for entry, kinds in FITTING.items():
            if self.kind not in kinds and getattr(self, entry) != getattr(FileColumn, entry):
                self._refuse(
                    f"is of kind {self.kind!r}, for which {entry!r} means nothing; remove it, or "
                    "change the kind."
                )
        if self.kind in TIMES:
            object.__setattr__(self, "format", self.format or FORMATS[self.kind])
            self._check_moments()
        if self.kind == "boolean":
            object.__setattr__(self, "categories", self.categories or ("False", "True"))
            if len(self.categories) != 2:
                self._refuse("is boolean and needs two categories, false and true.")
        if self.scale not in ("linear", "log"):
            self._refuse(f"has scale {self.scale!r}; write 'linear' or 'log'.")
        if self.written:
            try:
                object.__setattr__(self, "decimals", self.marks.decimals)
            except BadInput as error:
                self._refuse(f"has written = {error}", error)
        if self.decimals is not None and self.decimals < 0:
            self._refuse(f"has decimals = {self.decimals}; give 0 or more.")
        if self.short_whole and self.whole:
            self._refuse("has whole numbers alone: short_whole means nothing; remove it.")
        if len(set(self.missing)) < len(self.missing):
            self._refuse("names a code for missing values twice; remove one.")
        if both := set(self.missing) & set(self.categories):
            self._refuse(f"has {min(both)!r} as a category and as missing; remove one of the two.")
        numbers = [end for end in (self.low, self.high) if isinstance(end, int | float)]
        if self.whole and any(abs(end) > MOST_EXACT for end in numbers):
            self._refuse(
                "has whole numbers beyond 2^53, which are not exact; declare it an identifier, or "
                "categorical."
            )
        _ = self.modelled  # what a range or a list of categories lacks is said now

    def _refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        raise BadInput(f"schema: column {self.name!r} {what}") from cause

    def _check_moments(self) -> None:
        if re.search("%[zZ]", self.format):
            self._refuse(
                f"has the format {self.format!r}: a time zone cannot be kept; write all times in "
                "one zone, and its name as plain letters."
            )
        example = moment_text(datetime(2024, 12, 31, 23, 59), self.format)
        shown = f"a {self.kind} of the form {self.format!r}, such as {example}"
        for end, text in (("low", self.low), ("high", self.high)):
            if not isinstance(text, str):
                self._refuse(f"needs {end}, {shown}.")
            if np.isnan(self.moments.numbers(pd.Series([text]))[0]):
                self._refuse(f"has {end} = {text!r}; write {shown}.")

    @cached_property
    def marks(self) -> Written:
        """How its numbers are written, where `written` says so."""
        return Written.like(self.written)

    @cached_property
    def moments(self) -> Moments:
        """How its dates and times are written."""
        return Moments(self.kind, self.format)

    @property
    def is_text(self) -> bool:
        """Whether a text file's reader has to leave its values as they are."""
        return self.kind != "numeric" or bool(self.written)

    # --- what methods work on ----------------------------------------------------------------

    @property
    def whole(self) -> bool:
        """Whether its numbers have no decimals."""
        return self.integer or self.decimals == 0

    @property
    def says(self) -> dict:
        """Where the limits are from."""
        return {"source": self.source, "from_rows": self.from_rows}

    @cached_property
    def modelled(self) -> Column | Gaps | None:
        """The column as methods see it; None where it is not modelled."""
        if self.kind in NOT_MODELLED:
            return None
        if self.kind in ("categorical", "boolean"):
            gap = (self.gap_label,) if self.missing else ()
            return Column(
                self.name, "categorical", categories=(*self.categories, *gap), **self.says
            )
        number = self._number()
        if not self.missing:
            return number
        middle = (number.low + number.high) / 2
        return Gaps(
            number,
            Column(
                f"{self.name} is missing", "categorical", categories=(PRESENT, GAP), **self.says
            ),
            float(np.rint(middle)) if number.integer else middle,
        )

    @property
    def gap_label(self) -> str:
        """The category that a gap among categories is."""
        label = "(missing)"
        while label in self.categories:
            label = f"({label})"
        return label

    @cached_property
    def _limits(self) -> np.ndarray:
        """The numbers of the first and the last date or time that it may have."""
        return self.moments.numbers(pd.Series([self.low, self.high]))

    def _number(self) -> Column:
        if self.kind in TIMES:
            low, high = self._limits
            if not low < high:
                self._refuse(
                    f"needs low before high; it has low = {self.low!r}, high = {self.high!r}."
                )
            if high - low > MOST_EXACT:
                self._refuse(
                    "spans too long a time to be exact to the microsecond; bring low and high "
                    "closer, or leave %f out of its format."
                )
            return Column(self.name, "numeric", 0, int(high - low), True, **self.says)
        declared = self._declared
        if self.scale == "linear":
            return declared
        low, high = self._to_log(np.array([declared.low, declared.high], dtype=float))
        return Column(self.name, "numeric", float(low), float(high), **self.says)

    @cached_property
    def _declared(self) -> Column:
        """A numeric column in the units of its file."""
        return Column(self.name, "numeric", self.low, self.high, self.whole, **self.says)

    # --- there -------------------------------------------------------------------------------

    def parse(
        self, raw: pd.Series, where: str, moved: list[str] | None = None
    ) -> dict[str, pd.Series]:
        """Name -> values of the modelled columns, of a column as the reader gives it: labels
        (pandas' categories), numbers, moments.

        moved: as in `schema.numbers_of`.
        Raises BadRows for what the declaration does not allow, but for the list of categories,
        which `schema.validate` checks; and for gaps, see `gaps`.
        """
        modelled = self.modelled
        if modelled is None:
            return {}
        gaps = self.gaps(raw)
        if isinstance(modelled, Column) and modelled.kind == "categorical":
            return {self.name: self._labels(raw, gaps)}
        values = np.full(len(raw), modelled.fill if isinstance(modelled, Gaps) else np.nan)
        values[~gaps] = self._numbers(raw[~gaps], where, moved)
        if isinstance(modelled, Column):
            return {self.name: pd.Series(values, raw.index)}
        is_gap = pd.Categorical.from_codes(gaps.astype(int), categories=[PRESENT, GAP])
        return {
            self.name: pd.Series(values, raw.index),
            modelled.missing.name: pd.Series(is_gap, raw.index),
        }

    def check(self, raw: pd.Series, where: str = "") -> pd.DataFrame:
        """The modelled columns of a raw one, each checked as `schema.validate` does."""
        parts = self.modelled if isinstance(self.modelled, Gaps) else (self.modelled,)
        columns = tuple(part for part in parts if isinstance(part, Column))
        return validate(pd.DataFrame(self.parse(raw, where)), Schema(columns), where)

    def gaps(self, raw: pd.Series) -> np.ndarray:
        """Where a raw column has no value, or a code for a missing one; bool (rows,)."""
        gaps = raw.isna().to_numpy()
        if isinstance(raw.dtype, pd.CategoricalDtype):
            codes = [self._is_gap(label) for label in raw.cat.categories]
            return gaps | np.array([*codes, True])[raw.cat.codes.to_numpy()]
        if raw.dtype.kind in "iuf":
            sentinels = pd.to_numeric(pd.Series(self.missing, dtype=object), errors="coerce")
            return gaps | raw.isin(sentinels.dropna()).to_numpy(dtype=bool)
        return gaps | raw.map(self._is_gap).to_numpy(dtype=bool)

    def _is_gap(self, value: object) -> bool:
        text = str(value).strip()
        return text in self.missing or (text == "" and "" not in self.categories)

    def _labels(self, raw: pd.Series, gaps: np.ndarray) -> pd.Series:
        labels = raw.astype("category")
        if self.missing and gaps.any():
            texts = labels.cat.rename_categories(lambda label: str(label).strip())
            labels = texts.cat.add_categories([self.gap_label])
            labels[gaps] = self.gap_label
            labels = labels.cat.remove_unused_categories()
        return labels

    def _numbers(self, raw: pd.Series, where: str, moved: list[str] | None) -> np.ndarray:
        """The numbers that methods see, float64 (rows,), of values that are not missing."""
        if len(raw) == 0:
            return np.empty(0)
        if self.kind == "numeric":
            read = self._read(raw, where)
            numbers = numbers_of(read, self._declared, where, moved).astype(float)
            return numbers if self.scale == "linear" else self._to_log(numbers)
        moments, (low, high) = self.moments.numbers(raw), self._limits
        what = f"something that is no {self.kind} of the form {self.format!r}"
        remedy = "correct it, or the format in the schema"
        refuse_rows(raw, np.isnan(moments), where, what, remedy)
        shown = f"{self.low} to {self.high}"
        return within_range(moments, low, high, raw, where, shown=shown, moved=moved) - low

    def _read(self, raw: pd.Series, where: str) -> pd.Series:
        """Numbers of texts that are written with marks; others as they are."""
        if not self.written or raw.dtype.kind in "biuf":
            return raw
        codes, texts = pd.factorize(raw.astype(object))
        numbers = self.marks.numbers(pd.Series(texts, dtype=object)).to_numpy()[codes]
        what = f"something that is not a number written like {self.written!r}"
        remedy = "correct it, or 'written' in the schema"
        refuse_rows(raw, np.isnan(numbers), where, what, remedy)
        return pd.Series(numbers, raw.index)

    def _to_log(self, numbers: np.ndarray) -> np.ndarray:
        return np.log(numbers) if self.low > 0 else np.log1p(numbers - self.low)

    def _from_log(self, logs: np.ndarray) -> np.ndarray:
        return np.exp(logs) if self.low > 0 else np.expm1(logs) + self.low

    # --- and back ----------------------------------------------------------------------------

    def restore(self, frame: pd.DataFrame, rng: np.random.Generator) -> pd.Series | None:
        """The column as its file has it, of modelled rows; None where it has no place there.

        Numbers come as float64, or Int64 where they are whole; as text where they are `written`
        with marks, as dates and times are; booleans and categories as Categoricals; gaps as
        missing.
        """
        if self.kind == "constant":
            return pd.Series([self.value or None] * len(frame), frame.index, dtype=object)
        if self.kind in NOT_MODELLED:
            fresh = self._fresh(len(frame), rng) if self.pattern else None
            return None if fresh is None else pd.Series(fresh, frame.index, dtype=object)
        modelled = self.modelled
        if isinstance(modelled, Column) and modelled.kind == "categorical":
            return frame[self.name].cat.set_categories(list(self.categories), ordered=self.ordered)
        restored = self._unnumbered(frame[self.name])
        if isinstance(modelled, Gaps):
            restored = restored.mask(frame[modelled.missing.name] == GAP)
        return restored

    def texts(self, values: pd.Series) -> pd.Series:
        """Restored values as a text file has them; a gap as the first code for a missing value."""
        gap = self.missing[0] if self.missing else ""
        if values.dtype.kind == "f":
            written = [repr(float(number)) for number in values]
            if self.short_whole:
                written = [text.removesuffix(".0") for text in written]
        else:
            written = values.astype(object).astype(str)
        return pd.Series(written, values.index, dtype=object).mask(values.isna(), gap)

    def quoted(self, texts: pd.Series, gaps: pd.Series) -> pd.Series:
        """The same with an apostrophe before each that a spreadsheet would run as a formula; of
        numbers and moments, before a code for a missing value alone."""
        words = gaps | (self.kind not in ("numeric", *TIMES))
        return texts.mask(words & texts.map(is_formula), "'" + texts)

    def _unnumbered(self, numbers: pd.Series) -> pd.Series:
        if self.kind in TIMES:
            return self.moments.texts(numbers.astype(np.int64) + int(self._limits[0]))
        values = numbers.to_numpy(dtype=float)
        if self.scale == "log":
            values = self._from_log(values)
        values = np.clip(values, self.low, self.high)
        if self.whole:
            whole = pd.Series(np.rint(values).astype(np.int64), numbers.index, dtype="Int64")
            return self.marks.texts(whole) if self.written else whole
        if self.decimals is not None:
            values = _rounded_within(values, self.decimals, self.low, self.high)
        restored = pd.Series(values, numbers.index)
        return self.marks.texts(restored, self.short_whole) if self.written else restored

    def _fresh(self, num_rows: int, rng: np.random.Generator) -> Sequence[str]:
        """Different identifiers of the pattern. They are drawn without looking at the real ones,
        so one may be somebody's by chance."""
        if self.pattern == SEQUENCE:
            return [str(number) for number in range(1, num_rows + 1)]
        choices = {"#": "0123456789", "@": LETTERS}
        places = [choices.get(mark, mark) for mark in self.pattern]
        possible = int(np.prod([float(len(place)) for place in places]))
        if possible < num_rows:
            self._refuse(
                f"has the pattern {self.pattern!r}: it gives {possible} identifiers, and "
                f"{num_rows} rows need one each; give a longer pattern."
            )
        numbers = rng.choice(min(possible, 2**62), num_rows, replace=False)
        digits = []
        for place in reversed(places):
            numbers, digit = np.divmod(numbers, len(place))
            digits.append(np.array(list(place))[digit])
        return ["".join(marks) for marks in zip(*reversed(digits), strict=True)]


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run a cell: it begins like a formula and is not a number."""
    return text.startswith(FORMULA) and pd.isna(pd.to_numeric(text, errors="coerce"))


def _rounded_within(values: np.ndarray, decimals: int, low: float, high: float) -> np.ndarray:
    """Rounded, and still within the range, whose ends may have more decimals."""
    rounded, step = np.round(values, decimals), 10.0**-decimals
    rounded = np.where(rounded > high, np.round(rounded - step, decimals), rounded)
    return np.where(rounded < low, np.round(rounded + step, decimals), rounded)


def plain(column: Column) -> FileColumn:
    """A column of a schema that its file has as it is."""
    return FileColumn(
        column.name,
        column.kind,
        column.low,
        column.high,
        column.integer,
        categories=column.categories,
        source=column.source,
        from_rows=column.from_rows,
    )
