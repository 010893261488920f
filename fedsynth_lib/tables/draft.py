"""A first draft of a schema for someone's own table, read from its rows, which discloses them.

The draft asks: whatever only a person can decide stands in it as a `question`, one for a column at
most, and a release is refused as long as one is there.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.files import NOT_A_NUMBER, one_column
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import MOST_EXACT, SEQUENCE, FileColumn
from fedsynth_lib.tables.schema import READ_FROM_ROWS, closest
from fedsynth_lib.tables.written import Written

MAX_CATEGORIES = 100  # more are asked about
MOST_LISTED = 1_000  # categories that a draft writes down
MAX_NUMBER_LEVELS = 10  # a whole-number column with this many values or fewer is taken for a code
MAX_DECIMALS = 6  # as people write; more come from a computation
SPREAD = 20  # a 99th percentile so many times the median: amounts of different orders of magnitude
LONGEST_UNIT = 6  # letters of a currency or a unit
ALL_DIFFERENT = 0.9  # share of rows with a value of their own, from which on it may name somebody
# what files write for a missing value beside the words of NOT_A_NUMBER
MISSING_WORDS = (*NOT_A_NUMBER, "n/a", "NULL", "NaT", "<NA>", ".", "-", "--")
MAYBE_WORDS = ("None", "-", "--", ".")  # among words, these are some: a grade, a sign
# numbers that stand for a missing value in many a file
SENTINELS = {sign * float(digit * n) for sign in (1, -1) for digit in "89" for n in range(2, 7)} | {
    -1.0,
    -9.0,
}
DAY_FORMATS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d"),
    *("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d%b%Y", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y-%m", "%m/%Y"),
)
CLOCK_FORMATS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%H:%M:%SZ")
YEARS = 1800, 2200  # in which eight digits may be a date

WARNING = """\
# DRAFT, made by reading the rows of {name}.
# What stands here is therefore information about the people in the table: each low and high is
# somebody's value, and a rare category tells that somebody has it. Whoever sees a schema, or a
# model made with it, learns these things, and no epsilon covers them. Before private use replace
# every range and every category list by what the table's documentation says (a code book, the
# limits of the instrument, a law), and its source '{source}' by where you found it.
# A line `question = ...` asks what only you can know. Correct the column, and delete the line.
"""


@dataclass(frozen=True)
class Seen:
    """What a column of a file holds.

    levels: its different values as text without outer spaces, most frequent first, but those that
        stand for a missing value, which are `missing`. counts: how often each occurs.
    own: the levels that the type of the file knows, in their order; ordered: whether that means
        something. boolean: whether its type says so.
    """

    name: str
    num_rows: int
    levels: pd.Series
    counts: np.ndarray
    missing: tuple[str, ...] = ()
    num_missing: int = 0
    own: tuple[str, ...] = ()
    ordered: bool = False
    boolean: bool = False

    @classmethod
    def of(cls, raw: pd.Series, *, typed: bool = False) -> "Seen":
        """Of a column as the reader gives it; typed: of a file whose columns have types."""
        kind, own, ordered = raw.dtype, (), False
        if typed and isinstance(kind, pd.CategoricalDtype):
            own, ordered = tuple(map(_text, kind.categories)), bool(kind.ordered)
        counts = raw.value_counts(dropna=False)
        words = ["" if pd.isna(value) else _text(value) for value in counts.index.astype(object)]
        merged = pd.Series(counts.to_numpy(), words, dtype=np.int64)
        merged = merged[merged > 0].groupby(level=0, sort=False).sum()
        absent = merged.index.isin(MISSING_WORDS)
        if _numbers(merged.index[~absent].to_series()).isna().all():
            absent &= ~merged.index.isin(MAYBE_WORDS)
        kept = merged[~absent].sort_values(ascending=False, kind="stable")
        return cls(
            name=str(raw.name),
            num_rows=len(raw),
            levels=pd.Series(kept.index, dtype=object).astype(str),
            counts=kept.to_numpy(),
            missing=tuple(merged[absent].sort_values(ascending=False, kind="stable").index),
            num_missing=int(merged[absent].sum()),
            own=own,
            ordered=ordered,
            boolean=pd.api.types.is_bool_dtype(kind),
        )

    @cached_property
    def numbers(self) -> pd.Series:
        """Each level as a number; NaN where it is none."""
        return _numbers(self.levels)

    @property
    def is_number(self) -> bool:
        return len(self.levels) > 0 and bool(self.numbers.notna().all())

    @property
    def whole(self) -> bool:
        return self.is_number and bool((self.numbers == self.numbers.round()).all())

    @property
    def all_different(self) -> bool:
        """Nearly every row has a value of its own."""
        held = self.num_rows - self.num_missing
        return len(self.levels) >= 5 and len(self.levels) >= ALL_DIFFERENT * held

    def without(self, gone: Collection[str]) -> "Seen":
        """The column with some levels taken for missing values."""
        away = self.levels.isin(list(gone)).to_numpy()
        return Seen(
            self.name,
            self.num_rows,
            self.levels[~away].reset_index(drop=True),
            self.counts[~away],
            (*self.missing, *self.levels[away]),
            self.num_missing + int(self.counts[away].sum()),
        )

    def column(self, kind: str, question: str = "", **said) -> FileColumn:
        """A declaration of it, with what its file has for missing values."""
        if self.missing and kind not in ("identifier", "text", "constant"):
            said["missing"] = self.missing
        return FileColumn(self.name, kind, source=READ_FROM_ROWS, question=question, **said)


def propose_schema(
    path: str | Path,
    *,
    target: str | None = None,
    ignore: Collection[str] = (),
    out: str | Path | None = None,
) -> Path:
    """Writes a draft schema for a file beside it (or to `out`), and gives its path.

    The draft is read from the rows: ranges are the extremes found, categories the values found.
    That is a disclosure without any guarantee; the file's first lines say so, and every column's
    source is 'read from the rows' until someone replaces it. An existing file is never overwritten.

    ignore: columns that stay in the file and out of the table, such as an identifier.
    Raises BadInput for a file that cannot be read, and for a target that has no classes.
    """
    path = Path(path).expanduser()
    out = Path(out).expanduser() if out else path.with_suffix(".toml")
    container = Container.of(path)
    if out.exists():
        raise BadInput(f"{out} exists already; move it away or give another name with out=.")
    if len(container.columns) == 1:
        raise one_column(path, container.separator, container.columns[0])
    raw = container.raw(path, ())
    for what, names in (("target", [] if target is None else [target]), ("ignored", ignore)):
        if unknown := [name for name in names if name not in raw]:
            near = closest(unknown[0], map(str, raw))
            raise BadInput(f"{path}: {what} {unknown[0]!r} is no column of the file{near}.")
    if len(raw) < 2:
        raise BadInput(
            f"{path}: {len(raw)} rows tell nothing about a column; give a file with at least 2."
        )
    typed = container.types is not None
    seen = [Seen.of(raw[name], typed=typed) for name in raw if name not in ignore]
    columns = [
        _target(each, path) if each.name == target else propose_column(each) for each in seen
    ]
    form = Form(tuple(columns), target, tuple(ignore))
    notes = {each.name: _note(each) for each in seen}
    text = WARNING.format(name=path.name, source=READ_FROM_ROWS) + "\n" + form.to_toml(notes)
    write_atomically(out, text.encode())
    return out


def propose_column(seen: Seen) -> FileColumn:
    """The declaration that fits what a column holds, by the first of PROPOSALS that does."""
    for proposal in PROPOSALS:
        if (column := proposal(seen)) is not None:
            return column
    return _categories(seen)


def _note(seen: Seen) -> str:
    if not seen.num_missing or seen.num_missing == seen.num_rows:
        return ""
    return f"{seen.num_missing / seen.num_rows:.1%} of the rows have no value here"


def _target(seen: Seen, path: Path) -> FileColumn:
    """Categories, whatever they look like."""
    where = f"{path}: column {seen.name!r} is the target and"
    if len(seen.levels) + len(seen.missing) < 2:
        only = f"holds nothing but {seen.levels[0]!r}" if len(seen.levels) else "is empty"
        raise BadInput(f"{where} {only}: give rows of at least two classes, or name no target.")
    if len(seen.levels) > MAX_CATEGORIES:
        raise BadInput(
            f"{where} has {len(seen.levels)} different values, too many for classes: cut it into "
            "classes, or name no target."
        )
    return _categories(seen)


# --- what a column may be, the surest first -------------------------------------------------------


def _empty_or_constant(seen: Seen) -> FileColumn | None:
    if len(seen.levels) == 0:
        return seen.column("text")
    one = len(seen.levels) == 1 or (seen.is_number and seen.numbers.nunique() == 1)
    if one and not seen.missing and not seen.own and not _too_large(seen):
        return seen.column("constant", value=seen.levels[0])
    return None


def _typed(seen: Seen) -> FileColumn | None:
    """What the type of the file says."""
    if seen.boolean or set(seen.levels) == {"True", "False"}:
        return seen.column("boolean")
    return _categories(seen) if seen.own and seen.ordered else None


def _nameless(seen: Seen) -> FileColumn | None:
    """The row numbers that spreadsheets and pandas leave in a file."""
    if not (seen.name.startswith("Unnamed: ") or seen.name == "__index_level_0__"):
        return None
    question = "A column without a name: is it the number of the row? Then it is left out, as here."
    return seen.column("identifier", question)


def _moments(seen: Seen) -> FileColumn | None:
    """Dates and times. Digits alone are asked about: they may be numbers."""
    for kind, formats in (("date", _days()), ("time", CLOCK_FORMATS), ("datetime", _both())):
        fitting = [form for form in formats if _fits(seen.levels, form)]
        if not fitting:
            continue
        form = _unpadded(seen.levels, fitting[0])
        question = ""
        if len(seen.levels) and seen.levels.str.fullmatch(r"\d+").all():
            if not _plausible(seen.levels, form):
                return None
            question = (
                f"Digits that are all a valid {kind} ({form}): are they? Else make it numeric."
            )
        elif len(fitting) > 1:
            question = f"It fits {' and '.join(fitting[:2])}: which is it? Write it as format."
        moments = sorted(seen.levels, key=lambda text: datetime.strptime(text, fitting[0]))
        if len(moments) < 2:
            return None
        return seen.column(kind, question, low=moments[0], high=moments[-1], format=form)
    return None


def _marked(seen: Seen) -> FileColumn | None:
    """Numbers with a currency, a unit, a percent sign, marks between thousands, a decimal comma."""
    if seen.is_number or len(seen.levels) < 2:
        return None
    with_marks = seen.levels[~seen.levels.str.fullmatch(r"[-+]?\d+")]
    longest = sorted(with_marks, key=lambda text: (-len(re.findall(r"\D", text)), -len(text), text))
    # A12 and 007 are codes
    if seen.levels.str.contains(r"[^\W\d]\d|(?<![\d.,])0\d", regex=True).any():
        return None
    for example in longest[:3]:
        try:
            marks = Written.like(example)
        except BadInput:
            continue
        around = [part.strip() for part in (marks.prefix, marks.suffix)]
        if any(len(part) > LONGEST_UNIT or " " in part for part in around):
            continue
        numbers = marks.numbers(seen.levels)
        if numbers.isna().any() or not _one_way(seen.levels, marks):
            continue
        number = numbers[seen.levels == example].iloc[0]
        question = f"Numbers are written like {example!r}: is this one {number:.12g}?"
        low, high = float(numbers.min()), float(numbers.max())
        if low == high:
            return None
        return seen.column("numeric", question, low=low, high=high, written=example)
    return None


def _codes(seen: Seen) -> FileColumn | None:
    """Digits that are no quantity: 007, 7E4, 1.10 beside 1.9."""
    texts = seen.levels
    if texts.map(_looks_like_code).any() or _two_ways(texts[seen.numbers.notna()]):
        return None if seen.all_different else _categories(seen)
    return None


def _named(seen: Seen) -> FileColumn | None:
    """Texts that name a person, or nobody twice."""
    codes = seen.levels.map(_looks_like_code).any() or _too_large(seen)
    numbers = seen.numbers.notna().mean() > 0.5 and not codes
    if not seen.all_different or numbers or seen.own:
        return None
    words = seen.levels.str.count(r"\s+").mean() + 1
    if words > 4:
        return seen.column("text", "Free text, it seems, which is left out. Is it something else?")
    question = (
        "Hardly two rows have the same value: a name, a number of a person? It is left out. Give a "
        f"pattern to have fresh ones, such as {SEQUENCE!r} or 'P-####'; if these are categories, "
        "list them."
    )
    return seen.column("identifier", question)


def _numeric(seen: Seen) -> FileColumn | None:
    """Numbers, and what stands among them instead of a number."""
    words = seen.levels[seen.numbers.isna()]
    if 0 < len(words) <= MAX_NUMBER_LEVELS and len(seen.levels) - len(words) > MAX_NUMBER_LEVELS:
        shown = ", ".join(repr(word) for word in words[:3])
        question = (
            f"Among numbers stands {shown}: is that a missing value? If not, correct the rows."
        )
        return _ranged(seen.without(words), question)
    if not seen.is_number:
        return None
    if _too_large(seen):
        what = "Whole numbers too large to be exact: an identifier? It is left out."
        return seen.column("identifier", what)
    if np.isinf(seen.numbers).any():
        infinite = seen.levels[np.isinf(seen.numbers)]
        return _ranged(
            seen.without(infinite), "Infinite numbers are taken for missing ones: is that right?"
        )
    far = _sentinels(seen)
    if far:
        shown = ", ".join(far)
        question = (
            f"{shown} lies far from all other numbers: is that a missing value? If it is not, "
            "take it out of missing, and widen the range."
        )
        return _ranged(seen.without(far), question)
    return _ranged(seen, "")


PROPOSALS: tuple[Callable[[Seen], FileColumn | None], ...] = (
    _empty_or_constant,
    _typed,
    _nameless,
    _moments,
    _marked,
    _codes,
    _named,
    _numeric,
)


def _ranged(seen: Seen, question: str) -> FileColumn | None:
    numbers = seen.numbers
    if len(numbers) == 0 or numbers.nunique() < 2:
        return None
    if seen.whole and numbers.nunique() <= MAX_NUMBER_LEVELS and not question:
        return None
    if seen.whole and seen.all_different and seen.num_rows >= 20 and not question:
        if _counts_up(numbers):
            return seen.column(
                "identifier", "The numbers count the rows: an identifier? It is left out, as here."
            )
        question = (
            'No two rows have the same value: an identifier? Then write kind = "identifier", and '
            "no range."
        )
    said: dict = {"low": float(numbers.min()), "high": float(numbers.max())}
    if seen.whole:
        said = {name: int(value) for name, value in said.items()} | {"integer": True}
    else:
        said |= _decimals(seen.levels)
    order = np.argsort(numbers.to_numpy(), kind="stable")
    share = np.cumsum(seen.counts[order]) / seen.counts.sum()
    middle, top = (numbers.to_numpy()[order][np.searchsorted(share, at)] for at in (0.5, 0.99))
    if numbers.min() >= 0 and top > SPREAD * middle > 0:
        said["scale"] = "log"
    return seen.column("numeric", question, **said)


def _categories(seen: Seen) -> FileColumn:
    """A list of categories; of many, or of words that may mean a missing value, it asks."""
    labels = list(seen.own) or sorted(seen.levels)
    if seen.whole and not seen.own and not seen.levels.map(_looks_like_code).any():
        labels = sorted({label.removesuffix(".0") for label in labels}, key=float)
    if len(labels) > MOST_LISTED:
        return seen.column(
            "text", f"{len(labels)} different values, which are left out. Is it a list of codes?"
        )
    question = ""
    if len(labels) > MAX_CATEGORIES:
        question = (
            f"{len(labels)} categories: is this the documented list? If it is free text, write "
            'kind = "text" instead of the categories.'
        )
    elif words := [word for word in seen.missing if word]:
        question = f"Is {', '.join(map(repr, words))} a missing value here, and no category?"
    if len(labels) == 1 and "" in seen.missing:  # a mark, or nothing
        question = "One value, and rows without any: does an empty cell mean 'no'?"
    return seen.column("categorical", question, categories=tuple(labels), ordered=seen.ordered)


# --- what a text looks like -----------------------------------------------------------------------


def _text(value: object) -> str:
    """A cell as text: a whole number without its .0, where the type of the file has made it one."""
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, datetime):  # pandas' moments are, too
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value).strip()


def _numbers(levels: pd.Series) -> pd.Series:
    plain = levels.astype(str).str.fullmatch(
        r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf(?:inity)?", case=False
    )
    return pd.to_numeric(levels.where(plain), errors="coerce").astype(float)


def _looks_like_code(text: str) -> bool:
    """Whether digits would lose something as a number: leading zeros, an E among whole digits."""
    return bool(re.fullmatch(r"[-+]?0\d+|\d+[eEdD]\d+", text))


def _two_ways(numbers: pd.Series) -> bool:
    """Whether 1.10 stands beside 1.9: as a number, one of the two would be written otherwise."""
    digits = numbers.str.extract(r"\.(\d+)$")[0].fillna("").str.len()
    return bool(numbers.str.contains(r"\.\d+0$").any()) and digits.nunique() > 1


def _too_large(seen: Seen) -> bool:
    """Whether there are whole numbers that a float does not hold exactly."""
    digits = seen.levels[seen.levels.str.fullmatch(r"[-+]?\d+")].str.lstrip("+-")
    return any(int(text) > MOST_EXACT for text in digits[digits.str.len() > 15])


def _decimals(levels: pd.Series) -> dict[str, int | str]:
    """How many digits stand behind the point: at most, or of each, which is shown by an example;
    nothing where these are too many to be somebody's choice."""
    digits = levels.str.extract(r"\.(\d*)$")[0].fillna("")
    most = int(digits.str.len().max())
    if most > MAX_DECIMALS or levels.str.contains("[eE]", regex=True).any():
        return {}
    if most > 1 and (digits.str.len() == most).all() and digits.str.endswith("0").any():
        return {"written": levels[0].lstrip("-+")}
    return {"decimals": most}


def _sentinels(seen: Seen) -> list[str]:
    """Numbers that stand for a missing value in many files, outside of what the others span by as
    much again."""
    number = seen.numbers
    rest = number[~number.isin(SENTINELS)]
    if rest.nunique() < MAX_NUMBER_LEVELS:
        return []
    low, high = rest.min(), rest.max()
    span = high - low
    negative = (number < 0) & (low >= 0)
    far = (number < low - span) | (number > high + span) | negative
    return list(seen.levels[number.isin(SENTINELS) & far])


def _counts_up(numbers: pd.Series) -> bool:
    """Whether these are all whole numbers from 0 or 1 on."""
    return numbers.min() in (0, 1) and numbers.nunique() == numbers.max() - numbers.min() + 1


def _days() -> tuple[str, ...]:
    return DAY_FORMATS


def _both() -> Iterator[str]:
    return (
        f"{day}{gap}{clock}" for day in DAY_FORMATS for gap in (" ", "T") for clock in CLOCK_FORMATS
    )


def _fits(levels: pd.Series, form: str, first: int = 50) -> bool:
    """Whether every text is a moment of this form; most forms fail at once."""
    if len(levels) == 0:
        return False
    if form in ("%Y%m%d", "%d%b%Y"):
        digits = 8 if form == "%Y%m%d" else 9
        if not (levels.str.len() == digits).all():
            return False
    for part in (levels[:first], levels[first:]):
        for text in part:
            try:
                datetime.strptime(text, form)
            except ValueError:
                return False
    return True


def _plausible(levels: pd.Series, form: str) -> bool:
    years = [datetime.strptime(text, form).year for text in levels]
    return YEARS[0] <= min(years) and max(years) <= YEARS[1]


def _unpadded(levels: pd.Series, form: str) -> str:
    """The form with %-d and %-m where no text has a leading zero in them, and one lacks it."""
    if re.search(r"%[dm]", form) is None or form == "%Y%m%d":
        return form
    lone = levels.str.contains(r"(?<!\d)[1-9](?!\d)", regex=True).any()
    zero = levels.str.contains(r"(?<!\d)0\d(?!\d)", regex=True).any()
    return form.replace("%d", "%-d").replace("%m", "%-m") if lone and not zero else form


def _one_way(levels: pd.Series, marks: Written) -> bool:
    """Whether most of the numbers have what stands before and after the example, and, where they
    are large enough, the thousands mark."""
    around = levels.str.contains(marks.prefix.strip(), regex=False)
    around &= levels.str.contains(marks.suffix.strip(), regex=False)
    large = levels[marks.numbers(levels).abs() >= 1000]
    grouped = not marks.thousands or large.str.contains(marks.thousands, regex=False).mean() > 0.9
    return bool(around.mean() > 0.9 and grouped)
