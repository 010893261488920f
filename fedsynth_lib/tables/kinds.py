"""The kinds of column that a file may have, and how each becomes what methods work on, and back.

Methods know two kinds of column: numbers in a declared range, and declared categories
(`schema.Column`). A date is such a number (days since the first that is declared), an amount that
is told by its order of magnitude is one (its logarithm), a number in steps is one (which step), a
gap is a category, and so is a value that many rows share. So no method knows dates, logarithms,
steps or gaps, and each of them learns all of these.

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
    READ_FROM_ROWS,
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
A_NUMBER = "a number"  # the same, of a column that says which of several values stands there
MOST_EXACT = 2**53  # beyond it, a float is no longer every whole number
SEQUENCE = "sequence"  # a pattern of identifiers: 1, 2, 3 and so on
WHOLE = r"^(-?\d+)\.0$"  # a whole number as a float is written
OTHER = "(other)"  # the category of values that an open column does not name
OPEN = "selected from noisy counts"  # the source of an open column
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a cell begins that a spreadsheet runs
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # of fresh identifiers; I and O look like digits


# the kinds that an entry has a meaning for; every other one is of all kinds
FITTING = {
    **dict.fromkeys(("low", "high"), ("numeric", *TIMES)),
    **dict.fromkeys(("integer", "decimals", "written", "short_whole", "scale"), ("numeric",)),
    **dict.fromkeys(("heaps", "step"), ("numeric", *TIMES)),
    **dict.fromkeys(("steps", "below", "above"), ("numeric",)),
    "categories": ("categorical", "boolean"),
    **dict.fromkeys(("ordered", "keep", "is_open", "other"), ("categorical",)),
    "format": TIMES,
    "missing": ("numeric", "categorical", "boolean", *TIMES),
    "pattern": ("identifier",),
    "value": ("constant",),
}


def refuse_first(where: str, *checks: tuple[object, str]) -> None:
    """Raise BadInput for the first of these (whether something is wrong, what is wrong)."""
    for is_wrong, what in checks:
        if is_wrong:
            raise BadInput(f"{where} {what}")


class Gaps(NamedTuple):
    """A numeric column some of whose rows stand apart, as methods see it.

    It is a number, and whether, or as what, a row stands apart: a gap, or a value that many rows
    share.

    fills: the number of a row that stands apart, for each category of `missing` but the first. Of
        a gap it is the middle of the range, which says nothing.
    """

    number: Column
    missing: Column
    fills: tuple[float, ...]

    def codes(self, frame: pd.DataFrame) -> np.ndarray:
        """Return as what each row stands apart, int (rows,).

        0 for a number as others, else its place in `fills` + 1.
        """
        labels = frame[self.missing.name]
        return pd.Categorical(labels, categories=list(self.missing.categories)).codes.astype(int)


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
    step: numbers lie so far apart, from `low` on: 15 for minutes in quarters of an hour, 7 for
        dates of one weekday. steps: the numbers that there are, where these lie unevenly; they take
        the place of low and high.
    heaps: single values that many rows share, such as 0 or the end of a follow-up, in the range or
        not: each is a level of its own beside the others, so it keeps its share.
    ordered: whether the order of the categories means something.
    other: a category that stands for every value that is not in the list.
    is_open: nobody knows the categories beforehand (`categories = "open"` in a file): `other` is
        the only one until a run has selected them (see `release/open_levels.py`).
    format: of dates and times, in the letters of strftime; %-d, %-m, %-H and %-I have no leading
        zero, %^b and %^B are in capitals, %P is am or pm, %3f are milliseconds.
    missing: how the file writes that there is no value. Of several codes each keeps its share; a
        cell without any is the first. An empty list allows no gaps.
    below, above: how the file writes a number beyond what could be measured, such as "<0.01" or
        ">200"; each keeps its share.
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
    step: float | None = None
    steps: tuple[float, ...] = ()
    heaps: tuple[float | str, ...] = ()
    categories: tuple[str, ...] = ()
    ordered: bool = False
    other: str = ""
    is_open: bool = False
    format: str = ""
    missing: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    pattern: str = ""
    value: str = ""
    type: str = ""
    keep: bool = False
    source: str = ""
    from_rows: bool = False
    question: str = ""

    def __post_init__(self):
        """Check the declaration."""
        if self.kind not in KINDS:
            self._refuse(f"has kind {self.kind!r}; write one of {', '.join(KINDS)}.")
        for entry, kinds in FITTING.items():
            if self.kind not in kinds and getattr(self, entry) != getattr(FileColumn, entry):
                self._refuse(
                    f"is of kind {self.kind!r}, for which {entry!r} means nothing; remove it, or "
                    "change the kind."
                )
        self._check_steps()
        self._check_other()
        if self.kind in TIMES:
            object.__setattr__(self, "format", self.format or FORMATS[self.kind])
            self._check_moments()
        if self.kind == "boolean":
            object.__setattr__(self, "categories", self.categories or ("False", "True"))
        if self.written:
            try:
                object.__setattr__(self, "decimals", self.marks.decimals)
            except BadInput as error:
                self._refuse(f"has written = {error}", error)
        self._check_heaps()
        heaps = {f"{heap:g}" for heap in self.heap_values}
        ends = [end for end in (self.low, self.high) if isinstance(end, int | float)]
        refuse_first(
            self._where,
            (
                self.kind == "boolean" and len(self.categories) != 2,
                "is boolean and needs two categories, false and true.",
            ),
            (
                self.scale not in ("linear", "log"),
                f"has scale {self.scale!r}; write 'linear' or 'log'.",
            ),
            (
                self.decimals is not None and self.decimals < 0,
                f"has decimals = {self.decimals}; give 0 or more.",
            ),
            (
                self.short_whole and self.whole,
                "has whole numbers alone: short_whole means nothing; remove it.",
            ),
            (
                len(set(self.codes)) < len(self.codes),
                "names a code for missing values twice; remove one.",
            ),
            (
                heaps & set(self.codes),
                f"has {min(heaps & set(self.codes), default='')!r} as one of heaps and as a code; "
                "remove one of the two.",
            ),
            (
                set(self.missing) & set(self.categories),
                f"has {min(set(self.missing) & set(self.categories), default='')!r} as a category "
                "and as missing; remove one of the two.",
            ),
            (
                self.whole and any(abs(end) > MOST_EXACT for end in ends),
                "has whole numbers beyond 2^53, which are not exact; declare it an identifier, or "
                "categorical.",
            ),
        )
        _ = self.modelled  # what a range or a list of categories lacks is said now

    def _refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        raise BadInput(f"{self._where} {what}") from cause

    @property
    def _where(self) -> str:
        return f"schema: column {self.name!r}"

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

    def _check_steps(self) -> None:
        step, steps = self.step, self.steps
        refuse_first(
            self._where,
            (
                steps and self.scale != "linear",
                "has steps, which are counted one by one: scale means nothing; remove it.",
            ),
            (
                step is not None and not step > 0,
                f"has step = {step}; give a number above 0.",
            ),
            (
                self.whole and any(number != int(number) for number in (step or 1, *steps)),
                "has whole numbers, and steps that are not; write whole numbers.",
            ),
            (
                self.kind in TIMES and step is not None and step != int(step),
                f"has step = {step}; give a whole number of days, minutes or seconds.",
            ),
            (steps and step is not None, "has both step and steps; remove one of the two."),
            (
                steps and len(set(steps)) < max(2, len(steps)),
                f"has steps = {list(steps)}; give 2 or more different numbers.",
            ),
        )
        for end, value in (("low", min), ("high", max)) if steps else ():
            if getattr(self, end) not in (None, value(steps)):
                self._refuse(
                    f"has {end} = {getattr(self, end)}, and its steps say {value(steps):g}; remove "
                    f"{end}."
                )
            object.__setattr__(self, end, value(steps))
        object.__setattr__(self, "steps", tuple(sorted(steps)))

    def _check_other(self) -> None:
        if self.is_open:
            if self.categories not in ((), (self.other or OTHER,)) or self.ordered:
                self._refuse('is open, so it has no list and no order; write categories = "open".')
            read = self.source in ("", READ_FROM_ROWS)
            object.__setattr__(self, "other", self.other or OTHER)
            object.__setattr__(self, "source", OPEN if read else self.source)
            object.__setattr__(self, "from_rows", False)
        if self.other and re.match("u?int|float|double|bool|decimal", self.type):
            object.__setattr__(self, "type", "")  # no number or truth value says `other`
        if self.other and self.other not in self.categories:
            object.__setattr__(self, "categories", (*self.categories, self.other))

    def _check_heaps(self) -> None:
        values = self.heap_values
        if len(set(values)) < len(values):
            self._refuse("names a value twice in heaps; remove one.")
        for heap, value in zip(self.heaps, values, strict=True):
            if np.isnan(value):
                self._refuse(f"has {heap!r} in heaps; write {self.kind}s of its format.")
            if self.whole and value != np.rint(value):
                self._refuse(f"has whole numbers, and {heap!r} in heaps; write whole numbers.")

    @cached_property
    def heap_values(self) -> tuple[float, ...]:
        """Its heaps as `amounts` has them."""
        if self.kind in TIMES:
            return tuple(map(float, self.moments.numbers(pd.Series(self.heaps, dtype=object))))
        return tuple(map(float, self.heaps))

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
        coded = len(self.missing) > 1 or self.below or self.above
        return self.kind != "numeric" or bool(self.written or coded)

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
            categories = (*self.categories, *self.gap_labels)
            return Column(self.name, "categorical", categories=categories, **self.says)
        number = self._number()
        if not self.codes and not self.heaps:
            return number
        middle = (number.low + number.high) / 2
        middle = float(np.rint(middle)) if number.integer else middle
        fills = self._to_model(np.clip(self.heap_values, *self._limits)).tolist()
        fills += [float(number.low)] * len(self.below) + [float(number.high)] * len(self.above)
        fills += [middle] * len(self.missing)
        labels, name = (PRESENT, GAP), f"{self.name} is missing"
        if self.heaps or len(self.codes) > 1 or self.below or self.above:
            shown = (f"{heap:g}" if isinstance(heap, int | float) else heap for heap in self.heaps)
            labels = (A_NUMBER, *shown, *self.below, *self.above, *self.gap_labels)
            name = f"kind of {self.name}"
        kind = Column(name, "categorical", categories=labels, **self.says)
        return Gaps(number, kind, tuple(fills))

    @property
    def codes(self) -> tuple[str, ...]:
        """All that the file writes instead of a value."""
        return (*self.below, *self.above, *self.missing)

    @property
    def gap_labels(self) -> tuple[str, ...]:
        """The categories of its codes for a missing value.

        One code has the category `gap_label`; of several each is its own category.
        """
        if len(self.missing) == 1:
            return (self.gap_label,)
        return tuple(code or self.gap_label for code in self.missing)

    @property
    def gap_label(self) -> str:
        """The category that a gap among categories is."""
        label = "(missing)"
        while label in (*self.categories, *self.codes):
            label = f"({label})"
        return label

    @cached_property
    def _limits(self) -> np.ndarray:
        """The first and the last value that it may have, as `amounts` has them."""
        if self.kind in TIMES:
            return self.moments.numbers(pd.Series([self.low, self.high]))
        return np.array([self.low, self.high], dtype=float)

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
            return Column(self.name, "numeric", 0, self._last_step(high - low), True, **self.says)
        declared = self._declared
        if self.steps:
            return Column(self.name, "numeric", 0, len(self.steps) - 1, True, **self.says)
        if self.step is not None and self.scale == "linear":
            last = self._last_step(declared.high - declared.low)
            return Column(self.name, "numeric", 0, last, True, **self.says)
        if self.scale == "linear":
            return declared
        low, high = self._to_model(self._limits)
        return Column(self.name, "numeric", float(low), float(high), **self.says)

    def _last_step(self, span: float) -> int:
        """Return the number of the last step within a range, of units where there is no step."""
        last = int(np.floor(span / (self.step or 1) + 1e-9))
        if last < 1:
            self._refuse(f"has step = {self.step:g}, wider than its range; give a smaller one.")
        return last

    @cached_property
    def _declared(self) -> Column:
        """A numeric column in the units of its file."""
        return Column(self.name, "numeric", self.low, self.high, self.whole, **self.says)

    # --- there -------------------------------------------------------------------------------

    def parse(
        self, raw: pd.Series, where: str, moved: list[str] | None = None
    ) -> dict[str, pd.Series]:
        """Return name -> values of the modelled columns, of a column as the reader gives it.

        raw: labels (pandas' categories), numbers, moments.

        moved: as in `schema.numbers_of`.
        Raises BadRows for what the declaration does not allow, but for the list of categories,
        which `schema.validate` checks; and for gaps, see `gaps`.
        """
        modelled = self.modelled
        if modelled is None:
            return {}
        codes = self._codes(raw)
        if isinstance(modelled, Column) and modelled.kind == "categorical":
            return {self.name: self._labels(raw, codes)}
        amounts = np.full(len(raw), np.nan)
        amounts[codes == 0], heaps = self._amounts(raw[codes == 0], where, moved)
        if isinstance(modelled, Column):
            return {self.name: pd.Series(self._to_model(amounts), raw.index)}
        apart = np.where(codes > 0, codes + len(self.heaps), 0)
        apart[codes == 0] = heaps
        values = np.array([0.0, *modelled.fills])[apart]
        values[apart == 0] = self._to_model(amounts[apart == 0])
        labels = pd.Categorical.from_codes(apart, categories=list(modelled.missing.categories))
        return {
            self.name: pd.Series(values, raw.index),
            modelled.missing.name: pd.Series(labels, raw.index),
        }

    def check(self, raw: pd.Series, where: str = "") -> pd.DataFrame:
        """Return the modelled columns of a raw one, each checked as `schema.validate` does."""
        columns = Schema(parts_of(self.modelled))
        return validate(pd.DataFrame(self.parse(raw, where)), columns, where)

    def labels(self, raw: pd.Series) -> pd.Series:
        """Return the values of a raw column of categories as text, without gaps and `other`."""
        texts = as_texts(raw)
        texts = texts[self._codes(texts) == 0]
        return texts[texts != self.other]

    def gaps(self, raw: pd.Series) -> np.ndarray:
        """Where a raw column has no value, or a code for a missing one; bool (rows,)."""
        codes = self._codes(raw)
        return (codes < 0) | (codes > len(self.below) + len(self.above))

    def _codes(self, raw: pd.Series) -> np.ndarray:
        """Return which of `codes` each value is, int (rows,).

        From 1 on; 0 for none, -1 for a gap that is not declared.
        """
        gap = self._code_of("")
        if isinstance(raw.dtype, pd.CategoricalDtype):
            codes = [self._code_of(label) for label in raw.cat.categories]
            return np.array([*codes, gap])[raw.cat.codes.to_numpy()]
        if raw.dtype.kind in "iuf":
            found = np.where(raw.isna().to_numpy(), gap, 0)
            numbers = pd.to_numeric(pd.Series(self.codes, dtype=object), errors="coerce")
            for place, number in enumerate(numbers, 1):
                found[raw.isin([number]).to_numpy(dtype=bool)] = place
            return found
        return raw.astype(object).where(raw.notna(), "").map(self._code_of).to_numpy(int)

    def _code_of(self, value: object) -> int:
        text, codes = str(value).strip(), self.codes
        if self.other:  # 999.0 is the text 999 in an open column, see `as_texts`
            text, *codes = (re.sub(WHOLE, r"\1", each) for each in (text, *codes))
        if text in codes:
            return codes.index(text) + 1
        if text or "" in self.categories:
            return 0
        return len(self.below) + len(self.above) + 1 if self.missing else -1

    def missing_share(self, frame: pd.DataFrame) -> float:
        """Return the share of modelled rows that have no value."""
        if not self.missing:
            return 0.0
        if isinstance(self.modelled, Gaps):
            first = len(self.modelled.fills) - len(self.missing)
            return float((self.modelled.codes(frame) > first).mean())
        return float(frame[self.name].isin(self.gap_labels).mean())

    def _labels(self, raw: pd.Series, codes: np.ndarray) -> pd.Series:
        labels = raw.astype("category")
        if self.other:
            labels = labels.map({label: self._named(label) for label in labels.cat.categories})
            labels = labels.astype("category")
        if not self.missing or not (codes > 0).any():
            return labels
        texts = labels.cat.rename_categories(lambda label: str(label).strip())
        new = [label for label in self.gap_labels if label not in texts.cat.categories]
        labels = texts.cat.add_categories(new)
        for place, label in enumerate(self.gap_labels, 1):
            labels[codes == place] = label
        return labels.cat.remove_unused_categories()

    def _named(self, label: object) -> str:
        """Return the category of a value: `other` if it is not in the list."""
        text = str(label).strip()
        whole = re.sub(WHOLE, r"\1", text)  # 1.0 of a number is the category 1
        return next((each for each in (text, whole) if each in self.categories), self.other)

    def _amounts(
        self, raw: pd.Series, where: str, moved: list[str] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `amounts` of values that are not missing, and which heap each is of.

        Float64 (rows,); heaps are numbered from 1 on, 0 for none.
        """
        if len(raw) == 0:
            return np.empty(0), np.empty(0, int)
        if self.kind == "numeric":
            read = self._read(raw, where)
            numbers = read if read.dtype.kind in "biuf" else read.astype(object)
            amounts = pd.to_numeric(numbers, errors="coerce").to_numpy(float)
        else:
            read, amounts = raw, self.moments.numbers(raw)
        heaps = (amounts[:, None] == [[np.nan, *self.heap_values]]).argmax(axis=1)
        read, others = read[heaps == 0], heaps == 0
        if self.kind == "numeric":
            if len(read):
                amounts[others] = numbers_of(read, self._declared, where, moved)
            self._refuse_between(amounts[others], read, where, moved)
            return amounts, heaps
        what = f"something that is no {self.kind} of the form {self.format!r}"
        remedy = "correct it, or the format in the schema"
        refuse_rows(raw, np.isnan(amounts), where, what, remedy)
        shown, inside = f"{self.low} to {self.high}", amounts[others]
        amounts[others] = within_range(inside, *self._limits, read, where, shown=shown, moved=moved)
        self._refuse_between(amounts[others], read, where, moved)
        return amounts, heaps

    def _refuse_between(
        self, amounts: np.ndarray, raw: pd.Series, where: str, moved: list[str] | None
    ) -> None:
        if self.step is None and not self.steps:
            return
        between = ~np.isclose(self._from_model(self._to_model(amounts)), amounts, rtol=1e-9)
        what, remedy = "a value between two steps", "correct it, or the steps in the schema"
        becomes = "counts as the nearest step"
        refuse_rows(raw, between, where, what, remedy, moved=moved, becomes=becomes)

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

    def _to_model(self, amounts: np.ndarray) -> np.ndarray:
        """Return the numbers that methods see of `amounts`."""
        low = self._limits[0]
        if self.steps:
            steps = np.array(self.steps)
            return np.searchsorted((steps[1:] + steps[:-1]) / 2, amounts).astype(float)
        if self.step is not None and self.scale == "linear":
            last = self._last_step(self._limits[1] - low)
            return np.clip(np.rint((amounts - low) / self.step), 0, last)
        if self.kind in TIMES:
            return amounts - low
        if self.scale == "linear":
            return amounts
        return np.log(amounts) if low > 0 else np.log1p(amounts - low)

    def _from_model(self, numbers: np.ndarray) -> np.ndarray:
        """And back, within the range, and with no more decimals than declared."""
        low, high = self._limits
        if self.steps:
            places = np.clip(np.rint(numbers), 0, len(self.steps) - 1)
            return np.array(self.steps, dtype=float)[places.astype(int)]
        if self.step is not None:
            if self.scale == "linear":
                places = np.rint(numbers)
            else:
                places = np.rint((self._from_log(numbers) - low) / self.step)
            places = np.clip(places, 0, self._last_step(high - low))
            amounts = low + places * self.step
            return np.rint(amounts) if self.whole or self.kind in TIMES else np.round(amounts, 9)
        if self.kind in TIMES:
            return np.clip(numbers + low, low, high)
        if self.scale == "log":
            numbers = self._from_log(numbers)
        amounts = np.clip(numbers, low, high)
        if self.whole:
            return np.rint(amounts)
        if self.decimals is not None:
            return _rounded_within(amounts, self.decimals, low, high)
        return amounts

    def _from_log(self, logs: np.ndarray) -> np.ndarray:
        low = self._limits[0]
        return np.exp(logs) if low > 0 else np.expm1(logs) + low

    # --- and back ----------------------------------------------------------------------------

    def gap_code(self, code: str = "") -> str:
        """Return the category of rows without a value, of that code."""
        if code in self.categories:
            return code
        if isinstance(self.modelled, Gaps):
            labels = self.modelled.missing.categories[-len(self.missing) :]
        else:
            labels = self.gap_labels
        return labels[self.missing.index(code) if code in self.missing else 0]

    def restore(
        self,
        frame: pd.DataFrame,
        rng: np.random.Generator,
        amounts: np.ndarray | None = None,
    ) -> pd.Series | None:
        """Return the column as its file has it, of modelled rows; None where it has no place there.

        Numbers come as float64, or Int64 where they are whole; as text where they are `written`
        with marks, as dates and times are; booleans and categories as Categoricals; gaps as
        missing; of several codes for a missing value, and of numbers beyond what could be measured,
        the code. amounts: of the rows, where rules have settled them.
        """
        if self.kind == "constant":
            return pd.Series([self.value or None] * len(frame), frame.index, dtype=object)
        if self.kind in NOT_MODELLED:
            fresh = self._fresh(len(frame), rng) if self.pattern else None
            return None if fresh is None else pd.Series(fresh, frame.index, dtype=object)
        modelled = self.modelled
        if isinstance(modelled, Column) and modelled.kind == "categorical":
            codes = [code for code in self.missing if code] if len(self.missing) > 1 else []
            return frame[self.name].cat.set_categories(
                [*self.categories, *codes], ordered=self.ordered
            )
        if amounts is None:
            amounts = self.amounts(frame).to_numpy()
        restored = self._as_written(pd.Series(amounts, frame.index))
        if not self.is_text or not isinstance(modelled, Gaps):
            return restored
        told = ["" if len(self.missing) == 1 else code for code in self.missing]
        codes = np.array(["", *[""] * len(self.heaps), *self.below, *self.above, *told], object)
        written = codes[modelled.codes(frame)] * np.isnan(amounts)
        return restored.astype(object).mask(written != "", written) if any(codes) else restored

    def amounts(self, frame: pd.DataFrame) -> pd.Series:
        """Return the numbers of modelled rows as the file means them, float64.

        Of dates and times they are units since `Moments.zero`. A gap is nan.
        """
        amounts = self._from_model(frame[self.name].to_numpy(dtype=float))
        if isinstance(self.modelled, Gaps):
            codes = self.modelled.codes(frame)
            amounts = np.where(codes > 0, self.apart[codes], amounts)
        return pd.Series(amounts, frame.index)

    @property
    def apart(self) -> np.ndarray:
        """The `amounts` of rows that stand apart, by the codes of `Gaps`; the first is nobody's."""
        return np.array([np.nan, *self.heap_values, *[np.nan] * len(self.codes)])

    def settled(self, amounts: np.ndarray) -> np.ndarray:
        """Return the nearest amounts that it may have: in range, on a step, with its decimals."""
        low, high = self._limits
        return self._from_model(self._to_model(np.clip(amounts, low, high)))

    def raised(self, amounts: np.ndarray) -> np.ndarray:
        """Return the least amounts that it may have from these on, as far as its range goes."""
        found = self.settled(amounts)
        return np.where(found < amounts, self.settled(amounts + self._fine), found)

    def lowered(self, amounts: np.ndarray) -> np.ndarray:
        """Return the greatest amounts that it may have up to these, as far as its range goes."""
        found = self.settled(amounts)
        return np.where(found > amounts, self.settled(amounts - self._fine), found)

    @property
    def _fine(self) -> float:
        """How far apart its values are at most, near any of them."""
        if self.steps:
            return float(np.diff(self.steps).max())
        return self.step or (0.0 if self.decimals is None and not self.integer else 1.0)

    def texts(self, values: pd.Series) -> pd.Series:
        """Restored values as a text file has them; a gap as its code for a missing value."""
        alone = len(self.missing) == 1 or (self.missing and "" not in self.missing)
        gap = self.missing[0] if alone else ""
        if values.dtype.kind == "f":
            written = [self._digits(float(number)) for number in values]
        elif values.dtype == object:
            written = [self._digits(each) for each in values]
        else:
            written = values.astype(object).astype(str)
        return pd.Series(written, values.index, dtype=object).mask(values.isna(), gap)

    def _digits(self, value: object) -> str:
        if not isinstance(value, float):
            return str(value)
        return repr(value).removesuffix(".0") if self.short_whole else repr(value)

    def quoted(self, texts: pd.Series, gaps: pd.Series) -> pd.Series:
        """Put an apostrophe before each text that a spreadsheet would run as a formula.

        Of numbers and moments, it is put before a code for a missing value alone.
        """
        words = gaps | (self.kind not in ("numeric", *TIMES))
        return texts.mask(words & texts.map(is_formula), "'" + texts)

    def _as_written(self, amounts: pd.Series) -> pd.Series:
        """`amounts` as `restore` gives them."""
        if self.kind in TIMES:
            held = amounts.dropna()
            return self.moments.texts(held.astype(np.int64)).reindex(amounts.index)
        if self.whole:
            amounts = amounts.astype("Int64")
        return self.marks.texts(amounts, self.short_whole) if self.written else amounts

    def _fresh(self, num_rows: int, rng: np.random.Generator) -> Sequence[str]:
        """Draw different identifiers of the pattern.

        They are drawn without looking at the real ones, so one may be somebody's by chance.
        """
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


def parts_of(modelled: Column | Gaps | None) -> tuple[Column, ...]:
    """Return the columns that methods see of one of a file."""
    if isinstance(modelled, Gaps):
        return modelled.number, modelled.missing
    return (modelled,) if modelled else ()


def as_texts(raw: pd.Series) -> pd.Series:
    """Return the values of a raw column as text, None of a gap.

    1.0 is '1', so that the text of a row does not depend on whether another one has a gap, which
    makes floats of whole numbers.
    """
    texts = raw.astype(object).map(str).str.strip().str.replace(WHOLE, r"\1", regex=True)
    return texts.where(raw.notna(), None)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run a cell: it begins like a formula and is not a number."""
    return text.startswith(FORMULA) and pd.isna(pd.to_numeric(text, errors="coerce"))


def _rounded_within(values: np.ndarray, decimals: int, low: float, high: float) -> np.ndarray:
    """Round, but stay within the range, whose ends may have more decimals."""
    rounded, step = np.round(values, decimals), 10.0**-decimals
    rounded = np.where(rounded > high, np.round(rounded - step, decimals), rounded)
    return np.where(rounded < low, np.round(rounded + step, decimals), rounded)


def plain(column: Column) -> FileColumn:
    """Return a column of a schema that its file has as it is."""
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
