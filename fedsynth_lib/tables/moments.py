"""How dates and times are written in a file, and the whole numbers that methods see of them."""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

import numpy as np
import pandas as pd

TIMES = ("date", "time", "datetime")  # the kinds of column
FORMATS = {"date": "%Y-%m-%d", "time": "%H:%M", "datetime": "%Y-%m-%d %H:%M:%S"}
# as fine as the first of these parts that a format has
UNITS = {
    "%f": timedelta(microseconds=1),
    "%3f": timedelta(milliseconds=1),
    "%[STsXc]": timedelta(seconds=1),
    "": timedelta(minutes=1),
}


@dataclass(frozen=True)
class Moments:
    """Dates and times of a column, one of TIMES, that are written in the same form."""

    kind: str
    form: str

    @property
    def unit(self) -> timedelta:
        """A day of dates; of times a minute, or what the form has instead: a second, or less."""
        if self.kind == "date":
            return timedelta(days=1)
        return next(unit for part, unit in UNITS.items() if re.search(part, self.form))

    @property
    def zero(self) -> datetime:
        """The moment whose number is 0: the start of 1970, of times the start of the day."""
        return datetime(1900, 1, 1) if self.kind == "time" else datetime(1970, 1, 1)

    def numbers(self, values: pd.Series) -> np.ndarray:
        """Return the units since `zero`, float64 (rows,), of texts, or of moments in a typed file.

        NaN where a value is not a moment. Each different value is read once.
        """
        codes, texts = pd.factorize(values.astype(object).map(self._text))
        return np.array([*map(self._number, texts), np.nan], dtype=float)[codes]

    def texts(self, numbers: pd.Series) -> pd.Series:
        """And back: the text of each number of units."""
        codes, different = pd.factorize(numbers)
        texts = [moment_text(self.zero + int(each) * self.unit, self.form) for each in different]
        return pd.Series(np.array(texts, dtype=object)[codes], numbers.index)

    def _text(self, value: object) -> str:
        """Return a value of a typed file (a date, a whole number) as a text file would write it."""
        if hasattr(value, "strftime"):
            return moment_text(value, self.form)
        return str(value).strip().removesuffix(".0")

    def _number(self, text: str) -> float:
        try:
            return float((moment_of(text, self.form) - self.zero) // self.unit)
        except ValueError:
            return np.nan


def moment_of(text: str, form: str) -> datetime:
    """strptime, of all that `FileColumn.format` may have; ValueError where the text is none."""
    return datetime.strptime(text, re.sub("%[-^3]", "%", form).replace("%P", "%p"))


def moment_text(moment: date | time, form: str) -> str:
    """strftime, of all that `FileColumn.format` may have, which not every system knows."""

    def spelt(found: re.Match) -> str:
        how, part = found.groups()
        text = moment.strftime("%p").lower() if part == "P" else moment.strftime(f"%{part}")
        if part == "Y" and hasattr(moment, "year"):
            text = f"{moment.year:04d}"  # also before the year 1000
        return {"-": text.lstrip("0") or "0", "^": text.upper(), "3": text[:3]}.get(how, text)

    return re.sub(r"%([-^3]?)(.)", spelt, form)
