"""A first draft of a schema for someone's own table, read from its rows, which discloses them.

The draft asks: whatever only a person can decide stands in it as a `question`, one for a column at
most, and a release is refused as long as one is there.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import FOR_OWNER, private_folder, write_atomically
from fedsynth_lib.release.draft_rules import persons, propose_rules
from fedsynth_lib.tables.container import Container, Source, header_newline, type_to_declare
from fedsynth_lib.tables.files import NOT_A_NUMBER, may_be_several, one_column
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import MOST_EXACT, SEQUENCE, FileColumn
from fedsynth_lib.tables.moments import Moments, moment_of, moment_text
from fedsynth_lib.tables.schema import READ_FROM_ROWS, closest, rows_named
from fedsynth_lib.tables.written import QUOTES, SPACES, Written

MAX_CATEGORIES = 100  # more are asked about
MOST_LISTED = 1_000  # categories that a draft writes down
MAX_NUMBER_LEVELS = 10  # a whole-number column with this many values or fewer is taken for a code
MAX_DECIMALS = 6  # as people write; more come from a computation
# amounts of different orders of magnitude: a 99th percentile so many times the median, or half of
# the rows within the first of so many even bins
SPREAD, EVEN_BINS = 20, 16
# a value that so many of the rows share is asked about, so many of them at most; whole numbers of a
# narrower range than so many have a bin each
HEAP, MOST_HEAPS, WIDE = 0.05, 8, 32
MOST_STEPS = 40  # different numbers of a column, which may be all that there are
ENDING = 0.4  # of the numbers end alike, as prices do
LONGEST_UNIT = 6  # letters of a currency or a unit
MOST_ODD = 3  # values of another kind among those of one, which may stand for a missing one
LONGEST_WORD = 3  # letters before a number and a space, as in "EUR 5"; "Ward 5" is a name
FEW_EACH = 5  # rows of a category on average, below which its name may be somebody's
NAMES_PEOPLE = (  # names of columns, without spaces and marks, with people's names or addresses
    r"(?:.*(?:first|last|full|sur|fore|given|family|middle|maiden|patient|person|customer|employee"
    r"|doctor|user|vor|nach|familien))?names?|nombres?|apellidos?|pr[eé]?nom|e?mail|(?:tele)?phone"
    r"|telefon|address|adresse"
)
NUMBERS_PEOPLE = (
    r"(?i)(?:^|[\W_])(?:id|ids|nr|no|key|ssn|mrn)(?:$|[\W_])|(?<=[a-z])(?-i:ID|Id|Nr|No)$"
    r"|(?:^|[\W_])(?:patient|person|subject|participant|customer|member|pupil|student)(?:$|[\W_])"
)
# numbers below and above what could be measured
BEYOND = (r"(?:<|≤|<=)\s*[-+]?\d+[.,]?\d*", r"(?:>|≥|>=)\s*[-+]?\d+[.,]?\d*|\d+[.,]?\d*\+")
UNITS_OF_TIME = (
    r"(?:y(?:(?:ea)?rs?)?|mo(?:nths?)?|w(?:ee)?ks?|w|d(?:ays?)?|h(?:ours?|rs?)?"
    r"|m(?:in(?:utes?)?s?)?|s(?:ec(?:ond)?s?)?)"
)
DURATIONS = (
    r"[-+]?\d+:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?",  # hours may be above 24
    rf"(?:\d+(?:\.\d+)?\s*{UNITS_OF_TIME}[\s,]*)+(?:\d\d)?",
    r"-?P(?=[\dT])(?:\d+[YMWD])*(?:T(?:\d+(?:\.\d+)?[HMS])+)?",
    r"-?\d+ days?,? [-+]?\d+:[0-5]\d:[0-5]\d(?:\.\d+)?",
)
LONGER_THAN_A_DAY = r"(?:2[5-9]|[3-9]\d|\d{3,}):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
OFFSET = r"\d:\d\d[:.\d]* ?(?P<offset>Z|[-+]\d\d:?\d\d|[A-Z]{3,5})$"
SECONDS = 7.9e8, 2.1e9  # since 1970, from 1995 to 2036
SERIAL = 20_000, 60_000  # days since 1900, as spreadsheets count them, from 1954 to 2064
ALL_DIFFERENT = 0.9  # share of rows with a value of their own, from which on it may name somebody
# what files write for a missing value beside the words of NOT_A_NUMBER
MISSING_WORDS = (*NOT_A_NUMBER, "n/a", "NULL", "NaT", "<NA>", ".", "-", "--")
MAYBE_WORDS = ("None", "-", "--", ".")  # among words, these are some: a grade, a sign
# numbers that stand for a missing value in many a file
NINES = [float(digit * n) for digit in "89" for n in range(2, 7)]
SENTINELS = {0.0, -1.0, -9.0} | {sign * nines for sign in (1, -1) for nines in NINES}
SENTINELS |= {sign * float(f"{nines:.0f}.9") for sign in (1, -1) for nines in (9, 99, 999, 9999)}
SENTINEL_YEARS = {1, 1111, 1753, 1800, 1899, 1900, 1901, 1970, 2099, 2100, 2999, 3000, 9999}
DAY_FORMATS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d"),
    *("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%d-%B-%Y", "%d%b%Y", "%d.%b.%Y"),
    *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%a, %d %b %Y", "%A, %d %B %Y", "%A, %B %d, %Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%d-%b-%y", "%d %b %y", "%Y.%m.%d"),
    *("%Y-%m", "%m/%Y", "%m-%Y", "%Y/%m", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y-%j"),
)
DAY_DIGITS = ("%Y%m%d", "%d%m%Y", "%m%d%Y", "%Y%m", "%y%m%d", "%d%m%y", "%m%d%y", "%Y%j")
CLOCK_FORMATS = (
    *("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%Hh%M"),
)
BARE_CLOCKS = ("%H.%M", "%H%M", "%H%M%S")  # numbers, but where one begins with a zero
BOTH = tuple(map("".join, product(DAY_FORMATS, (" ", "T", ", "), CLOCK_FORMATS)))
MOMENTS = {
    "date": (*DAY_FORMATS, *DAY_DIGITS),
    "time": (*CLOCK_FORMATS, *BARE_CLOCKS),
    "datetime": (*BOTH, "%Y%m%d%H%M%S", "%Y%m%d%H%M"),
}
UNSURE = (*DAY_DIGITS[1:], *BARE_CLOCKS)  # a few values may all be valid by chance
# how each part of a moment may look; those of one or two digits have two in a form without marks
PARTS = {
    **dict.fromkeys("dmHI", r"\d\d?"),
    **{"Y": r"\d{4}", "y": r"\d\d", "j": r"\d{3}", "M": r"\d\d", "S": r"\d\d", "f": r"\d{1,6}"},
    **dict.fromkeys("abAB", r"[^\W\d_]+"),
    "p": "[AaPp][Mm]",
}
YEARS = 1800, 2200  # in which eight digits may be a date
# how else a file may write a part of a moment, and when all values of the part look like that
SPELLINGS: dict[str, tuple[str, Callable[[pd.Series], bool]]] = {
    **dict.fromkeys(
        "dmHI",
        (
            "%-{}",
            lambda texts: texts.str.fullmatch(r"\d|[1-9]\d").all() and min(map(len, texts)) < 2,
        ),
    ),
    **dict.fromkeys("bB", ("%^{}", lambda texts: texts.str.isupper().all())),
    "p": ("%P", lambda texts: texts.str.islower().all()),
    "f": ("%3f", lambda texts: (texts.str.len() == 3).all()),
}

WARNING = """\
# DRAFT, made by reading the rows of {name}.
# What stands here is therefore information about the people in the table: each low and high is
# somebody's value, and a rare category tells that somebody has it. Whoever sees a schema, or a
# model made with it, learns these things, and no epsilon covers them. Before private use replace
# every range and every category list by what the table's documentation says (a code book, the
# limits of the instrument, a law), and its source '{source}' by where you found it.
# So is all that a comment "read from the rows" names: one odd value may have decided it. Write what
# is documented instead. A release takes it as public, and its statement names it.
# A [[rule]] holds in all rows of the file: it was read from them, and so were its groups.
# A line `question = ...` asks what only you can know. Correct the column, and delete the line; a
# long list of categories that you want is answered by `keep = true`, and one that is not public by
# `categories = "open"`: a run then selects those that many rows have, from noisy counts.
"""


@dataclass(frozen=True)
class Seen:
    """What a column of a file holds.

    levels: its different values as text without outer spaces, most frequent first, but those that
        stand for a missing value, which are `missing`. counts: how often each occurs.
    own: the levels that the type of the file knows, in their order; ordered: whether that means
        something. boolean: whether its type says so. limits: levels beyond what could be measured,
        as `FileColumn` calls them.
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
    limits: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, raw: pd.Series, *, typed: bool = False) -> "Seen":
        """Of a column as the reader gives it; typed: of a file whose columns have types."""
        kind, own, ordered = raw.dtype, (), False
        if typed and isinstance(kind, pd.CategoricalDtype):
            own, ordered = tuple(map(_text, kind.categories)), bool(kind.ordered)
        counts = raw.value_counts(dropna=False)
        if kind.kind == "M":  # all of them as fine as the finest one
            texts = counts.index.floor("us").astype(str)
        else:
            texts = map(_text, counts.index.astype(object))
        words = ["" if gap else t for t, gap in zip(texts, counts.index.isna(), strict=True)]
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

    @cached_property
    def decimals(self) -> dict[str, int | str | bool]:
        """`_decimals` of the levels."""
        return _decimals(self.levels)

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return len(self.levels) > 0 and bool(self.numbers.notna().all())

    @property
    def whole(self) -> bool:
        """Whether all its numbers are whole."""
        return self.is_number and bool((self.numbers == self.numbers.round()).all())

    @property
    def all_different(self) -> bool:
        """Nearly every row has a value of its own."""
        held = self.num_rows - self.num_missing
        return len(self.levels) >= 5 and len(self.levels) >= ALL_DIFFERENT * held

    def without(
        self, gone: Collection[str], below: Sequence[str] = (), above: Sequence[str] = ()
    ) -> "Seen":
        """Return the column with some levels taken for missing, or for beyond a limit."""
        if below or above:
            limits = (("below", tuple(below)), ("above", tuple(above)))
            held = ~self.levels.isin([*below, *above]).to_numpy()
            levels = self.levels[held].reset_index(drop=True)
            rest = replace(self, levels=levels, counts=self.counts[held], limits=limits)
            return rest.without(gone)
        away = self.levels.isin(list(gone)).to_numpy()
        return Seen(
            self.name,
            self.num_rows,
            self.levels[~away].reset_index(drop=True),
            self.counts[~away],
            (*self.missing, *self.levels[away]),
            self.num_missing + int(self.counts[away].sum()),
            limits=self.limits,
        )

    def column(self, kind: str, question: str = "", **said) -> FileColumn:
        """Return a declaration of it, with what its file has for missing values."""
        if self.missing and kind not in ("identifier", "text", "constant"):
            said["missing"] = self.missing
        if kind == "numeric":
            said |= dict(self.limits)
        return FileColumn(self.name, kind, source=READ_FROM_ROWS, question=question, **said)


def draft_path(table: Path) -> Path:
    """Where the draft of a table's schema goes: into a folder for its owner alone, beside it."""
    return (table.parent / FOR_OWNER / table.name).with_suffix(".draft.toml")


def propose_schema(
    path: str | Path,
    *,
    target: str | None = None,
    ignore: Collection[str] = (),
    keep: Collection[str] = (),
    out: str | Path | None = None,
) -> Path:
    """Write a draft schema for a file to `draft_path` (or to `out`); return its path.

    The draft is read from the rows: ranges are the extremes found, categories the values found.
    That is a disclosure without any guarantee; the file's first lines say so, and every column's
    source is 'read from the rows' until someone replaces it. An existing file is never overwritten.

    ignore: columns that stay in the file and out of the table, such as an identifier.
    keep: columns whose values are all listed as categories, however many they are, and of which
        the draft asks nothing.
    Raises BadInput for a file that cannot be read, and for a target that has no classes.
    """
    path = Path(path).expanduser()
    out = Path(out).expanduser() if out else draft_path(path)
    if out.exists():
        raise BadInput(f"{out} exists already: correct it, or move it away and draft again.")
    text = draft_text(path, target=target, ignore=ignore, keep=keep)
    if out == draft_path(path):
        private_folder(out.parent)
    write_atomically(out, text.encode(), private=True)
    return out


def draft_text(
    path: Source,
    *,
    target: str | None = None,
    ignore: Collection[str] = (),
    keep: Collection[str] = (),
    unit: str = "",
    most_rows: int = 0,
) -> str:
    """Return the text of `propose_schema`, of a file or of a DataFrame; nothing is written.

    unit, most_rows: as in `Form`; the column is an identifier, whatever it looks like.
    """
    container = Container.of(path)
    if (
        container.kind == "text"
        and len(container.columns) == 1
        and may_be_several(container.columns[0])
    ):
        raise one_column(path, container.separator, container.columns[0])
    raw = container.raw(path, (), strict=True)
    targets = [] if target is None else [target]
    units = [unit] if unit else []
    named = (("target", targets), ("ignored", ignore), ("kept", keep), ("unit", units))
    for what, names in named:
        if unknown := [name for name in names if name not in raw]:
            near = closest(unknown[0], map(str, raw))
            raise BadInput(f"{path}: {what} {unknown[0]!r} is no column of the file{near}.")
    if len(raw) < 2:
        raise BadInput(
            f"{path}: {len(raw)} rows tell nothing about a column; give a file with at least 2."
        )
    if not set(raw) - set(ignore):
        raise BadInput(f"{path}: all columns are to be ignored; leave some out of ignore.")
    typed = container.types is not None
    seen = [Seen.of(raw[name], typed=typed) for name in raw if name not in ignore]
    special = dict.fromkeys(keep, _kept) | dict.fromkeys(targets, _target)
    special |= dict.fromkeys(units, _unit)
    columns = [
        special[each.name](each, path) if each.name in special else propose_column(each)
        for each in seen
    ]
    if container.kind == "text":
        _refuse_header_again(path, raw, seen)
    if container.kind == "text" and _looks_like_a_row(container, seen):
        asked = (
            "The names of all columns look like values of theirs: is the first line a row? Then "
            f"put a line of names before it, and draft again. {columns[0].question}"
        )
        columns[0] = replace(columns[0], question=asked.strip())
    if typed:
        columns = [
            replace(each, type=type_to_declare(each, container.types.field(each.name).type))
            for each in columns
        ]
    asked = persons(raw.drop(columns=list(ignore)), re.compile(NUMBERS_PEOPLE))
    columns = [
        Seen.of(raw[each.name]).column("identifier", asked[each.name])
        if each.name in asked and each.name not in special
        else each
        for each in columns
    ]
    form = Form(tuple(columns), target, tuple(ignore), (), unit, most_rows)
    form = replace(form, rules=propose_rules(form, raw))
    notes = {each.name: _note(each, form) for each in seen}
    text = WARNING.format(name=path.name, source=READ_FROM_ROWS) + "\n"
    if container.kind == "text" and header_newline(path) != container.newline:
        text += '[reader]\nnewline = "\\r\\n"\n\n'
    return text + form.to_toml(notes)


def propose_column(seen: Seen) -> FileColumn:
    """Return the declaration that fits what a column holds, by the first PROPOSALS that does."""
    found = (proposal(seen) for proposal in PROPOSALS)
    return next(filter(None, found), None) or _categories(seen)


def _note(seen: Seen, form: Form) -> str:
    """Return what a comment says of a column.

    It says how many rows have no value, and what was read from rows beside the column's range or
    categories.
    """
    read = [entry for entry, names in form.ways_of_writing.items() if seen.name in names]
    lines = [f"read from the rows: kind, {', '.join(read)}"] if read else []
    if 0 < seen.num_missing < seen.num_rows:
        share = seen.num_missing / seen.num_rows
        lines.append(f"{share:.1%} of the rows have no value here")
    return "\n".join(lines)


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


def _unit(seen: Seen, path: Path) -> FileColumn:
    """Whose a row is, which no synthetic row says."""
    return seen.column("identifier")


def _kept(seen: Seen, path: Path) -> FileColumn:
    """Categories, however many they are."""
    if len(seen.levels) == 0:
        raise BadInput(
            f"{path}: column {seen.name!r} is empty, so there are no categories to keep."
        )
    return replace(_categories(seen, most=len(seen.levels)), keep=True, question="")


def _looks_like_a_row(container: Container, seen: list[Seen]) -> bool:
    """Whether each name of the header would do as a value of its column.

    Names that are consecutive numbers do not count, as some tables call their columns so.
    """
    if tuple(each.name for each in seen) != container.columns:  # some are ignored
        return False
    names = pd.Series([each.name.strip() for each in seen], dtype=object)
    numbers = _numbers(names)
    if numbers.notna().all() and (numbers.diff()[1:] == 1).all():
        return False
    return all(
        (each.is_number and each.numbers.min() <= number <= each.numbers.max())
        or name in set(each.levels)
        for each, name, number in zip(seen, names, numbers, strict=True)
    )


def _refuse_header_again(path: Source, raw: pd.DataFrame, seen: list[Seen]) -> None:
    """Refuse a file with its line of names among its rows, as files have that were joined."""
    if not all((each.levels == each.name.strip()).any() for each in seen):
        return
    same = [raw[name].astype(str).str.strip() == name.strip() for name in raw]
    again = np.logical_and.reduce(same)
    numbers = any(each.numbers.notna().mean() > 0.5 and not each.name.isdigit() for each in seen)
    if numbers and again.any():
        raise BadInput(
            f"{path}: the line of its names is there again, in {rows_named(raw.index, again)}; "
            "delete it there."
        )


# --- what a column may be, the surest first -------------------------------------------------------


def _empty_or_constant(seen: Seen) -> FileColumn | None:
    if len(seen.levels) == 0:
        return seen.column("constant")
    one = len(seen.levels) == 1 or (seen.is_number and seen.numbers.nunique() == 1)
    if one and not seen.missing and not seen.own and not _too_large(seen):
        return seen.column("constant", value=seen.levels[0])
    return None


def _typed(seen: Seen) -> FileColumn | None:
    """Propose what the type of the file says."""
    if seen.boolean or set(seen.levels) == {"True", "False"}:
        return seen.column("boolean")
    return _categories(seen) if seen.own and seen.ordered else None


def _nameless(seen: Seen) -> FileColumn | None:
    """Propose to ignore the row numbers that spreadsheets and pandas leave in a file."""
    if not (seen.name.startswith("Unnamed: ") or seen.name == "__index_level_0__"):
        return None
    question = "A column without a name: is it the number of the row? Then it is left out, as here."
    return seen.column("identifier", question)


def _moments(seen: Seen) -> FileColumn | None:
    """Propose dates and times; with a few words among them, if need be.

    Texts of digits alone may be numbers, so the draft asks about them.
    """
    suffix = _suffix(seen.levels)
    levels = seen.levels.str.removesuffix(suffix) if suffix else seen.levels
    found = [
        (len(odd), kind, form, odd)
        for kind, forms in MOMENTS.items()
        for form in forms
        if (odd := _misfits(levels, form)) is not None
    ]
    for (_, kind), fitting in groupby(sorted(found, key=itemgetter(0)), itemgetter(0, 1)):
        *_, forms, odd = zip(*fitting, strict=True)
        if (column := _moment(seen, levels, kind, forms, odd[0], suffix)) is not None:
            return column
    return None


def _moment(
    seen: Seen, levels: pd.Series, kind: str, forms: Sequence[str], odd: list[int], suffix: str
) -> FileColumn | None:
    """Propose the column, where most levels are moments of these forms.

    levels: without their suffix. odd: the places of those that are no moments.
    """
    if kind == "time" and seen.levels[odd].str.fullmatch(LONGER_THAN_A_DAY).any():
        return None  # lengths of time
    kept, asked, form = levels.drop(index=odd), [], forms[0]
    moments = kept.map(lambda text: moment_of(text, form)).astype(object)
    form = _as_written(kept, form) + suffix
    if kept.str.fullmatch(r"\d+").all():
        if "%Y" in form and not moments.map(lambda m: YEARS[0] <= m.year <= YEARS[1]).all():
            return None
        asked.append(
            f"Digits that are all a valid {kind} ({' or '.join([form, *forms[1:3]])}): are they? "
            "Else make it numeric, or list the categories."
        )
    elif len(forms) > 1:
        asked.append(f"It fits {form} and {forms[1]}{suffix}: which is it? Write it as format.")
    again = moments.map(lambda moment: moment_text(moment, form))
    if len(other := kept[kept + suffix != again]):
        shown = f"{other.iloc[0]}{suffix} would come back as {again[other.index[0]]}"
        asked.append(f"{shown}: is that right?")
    if odd:
        asked.append(_strangers(f"{kind}s", seen.levels[odd]))
    years = moments.map(lambda moment: moment.year)
    far = _far(moments.map(datetime.toordinal), years.isin(SENTINEL_YEARS))
    if far:
        shown = ", ".join(seen.levels[far])
        asked.append(f"{shown} lies far from all other {kind}s: is that a missing value?")
    held = moments.drop(index=far)
    numbers = Moments(kind, form).numbers(seen.levels[held.index])
    shares = _heaps(pd.Series(numbers), seen.counts[held.index], whole=True)
    heaps = {
        seen.levels[held.index[numbers == number][0]]: shares[number] for number in shares.index
    }
    asked.append(_ask_heaps(heaps))
    unit = {86_400: "days", 60: "minutes", 1: "seconds"}.get(
        Moments(kind, form).unit.total_seconds()
    )
    steps, asked_of_steps = (
        _step(np.unique(numbers), 0, len(numbers), f" {unit}") if unit else ({}, "")
    )
    asked.append(asked_of_steps)
    order = held[~np.isin(numbers, shares.index)].sort_values()
    if len(order) < 2:
        return None
    low, high = seen.levels[order.index[[0, -1]]]
    return seen.without(seen.levels[[*odd, *far]]).column(
        kind,
        " ".join(filter(None, asked)),
        low=low,
        high=high,
        format=form,
        heaps=tuple(heaps),
        **steps,
    )


def _marked(seen: Seen) -> FileColumn | None:
    """Propose numbers with marks; with a few words among them, if need be.

    Marks are a currency, a unit, a percent sign, marks between thousands, a decimal comma, and
    brackets for a minus.
    """
    if seen.is_number or len(seen.levels) < 2:
        return None
    if seen.all_different and (_names_people(seen) or re.search(NUMBERS_PEOPLE, seen.name)):
        return None
    digits = seen.levels[seen.levels.str.contains(r"\d", regex=True)]
    # A12 and 007 are codes; 12 045 and 1,045 are none
    code = rf"[^\W\d]\d|(?<![\d.,{QUOTES}])(?<!\d[{SPACES}])0\d"
    if digits.str.contains(code, regex=True).any():
        return None
    with_marks = digits[~digits.str.fullmatch(r"[-+]?\d+")]
    longest = sorted(with_marks, key=lambda text: (-len(re.findall(r"\D", text)), -len(text), text))
    for example in longest[:3]:
        try:
            marks = Written.like(example)
        except BadInput:
            continue
        if marks == Written(decimals=marks.decimals) or _is_wording(marks):
            continue  # a plain number; a name
        numbers = marks.numbers(seen.levels)
        words = seen.levels[numbers.isna()]
        kept = seen.without(words)
        if len(words) > _most_odd(len(seen.levels)) or not _one_way(kept.levels, marks):
            continue
        number = numbers[seen.levels == example].iloc[0]
        shown = repr(re.sub(f"[{SPACES}]", " ", example))
        question = f"Numbers are written like {shown}: is this one {number:.12g}?"
        if len(words):
            shown = ", ".join(map(repr, words))
            question += f" And is {shown} a missing value? If not, correct the rows."
        shares = _heaps(numbers.dropna(), kept.counts, whole=marks.decimals == 0)
        heaps = {seen.levels[numbers == number].iloc[0]: shares[number] for number in shares.index}
        question = f"{question} {_ask_heaps(heaps)}".strip()
        rest = numbers[~numbers.isin(shares.index)]
        low, high = float(rest.min()), float(rest.max())
        if low == high:
            return None
        short = marks.decimals > 0 and _short_whole(kept.levels, marks.mark)
        said = {"low": low, "high": high, "written": example, "short_whole": short}
        said["heaps"] = tuple(shares.index)
        return kept.column("numeric", question, **said)
    return None


def _names_people(seen: Seen) -> bool:
    """Whether the name of the column speaks of people, of their names or their addresses."""
    return bool(re.fullmatch(NAMES_PEOPLE, re.sub(r"[\W_]", "", seen.name.lower())))


def _is_wording(marks: Written) -> bool:
    """Whether what stands around a number is more than a currency or a unit: 'Ward 5'."""
    around = [part.strip() for part in (marks.prefix, marks.suffix)]
    if any(len(part) > LONGEST_UNIT or " " in part for part in around):
        return True
    return marks.prefix.endswith(" ") and sum(map(str.isalpha, marks.prefix)) > LONGEST_WORD


def _codes(seen: Seen) -> FileColumn | None:
    """Digits that are no quantity: 007, 7E4, 1.10 beside 1.9."""
    texts = seen.levels
    codes = texts.map(_looks_like_code)
    if 0 < codes.sum() <= _most_odd(len(texts)) and len(texts) > MAX_CATEGORIES:
        rest = seen.without(texts[codes])
        if rest.is_number and not rest.whole:  # no code: 1e400, or one with a zero too many
            return _ranged(rest, _strangers("numbers", texts[codes]))
    if not codes.any() and not _two_ways(texts[seen.numbers.notna()]):
        return None
    if seen.all_different:
        return None
    column = _categories(seen)
    if seen.is_number and 0 < codes.sum() <= _most_odd(len(texts)):
        shown = ", ".join(texts[codes])
        question = f"Among numbers stands {shown}: are all of these codes, as here, or numbers?"
        column = replace(column, question=question)
    return column


def _durations(seen: Seen) -> FileColumn | None:
    """Lengths of time, and moments of several time zones, which are left out."""
    for form in DURATIONS:
        if len(seen.levels) > 1 and (~seen.levels.str.fullmatch(form)).sum() <= _most_odd(
            len(seen.levels)
        ):
            return seen.column(
                "text",
                f"Lengths of time such as {seen.levels[0]}, it seems, which are left out: to keep "
                "them, write numbers into the file, such as minutes, and draft again.",
            )
    offsets = seen.levels.str.extract(OFFSET)["offset"]
    if offsets.notna().mean() > ALL_DIFFERENT and offsets.nunique() > 1:
        return seen.column(
            "text",
            f"Moments of several time zones ({', '.join(sorted(offsets.dropna().unique())[:3])}), "
            "which are left out: to keep them, write all in one zone, and draft again.",
        )
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
        "draft again with this column in keep (--keep)."
    )
    return seen.column("identifier", question)


def _numeric(seen: Seen) -> FileColumn | None:
    """Numbers, and what stands among them instead of a number."""
    words = seen.levels[seen.numbers.isna()]
    below, above = (words[words.str.fullmatch(form)] for form in BEYOND)
    rest = words.drop(index=[*below.index, *above.index])
    enough = len(seen.levels) - len(words) > MAX_NUMBER_LEVELS or not _are_whole(seen.numbers)
    if len(words) and enough and len(rest) <= MAX_NUMBER_LEVELS:
        asked = [_strangers("numbers", rest[:3])] if len(rest) else []
        if limits := [*below, *above]:
            asked.append(
                f"Among numbers stands {', '.join(map(repr, limits[:3]))}: numbers beyond what "
                "could be measured? As below and above, each keeps its share."
            )
        found = _ranged(seen.without(rest, [*below], [*above]), " ".join(asked))
        if found is not None:
            return found
    if not seen.is_number:
        return None
    if _too_large(seen):
        what = "Whole numbers too large to be exact: an identifier? It is left out."
        return seen.column("identifier", what)
    infinite = seen.levels[np.isinf(seen.numbers)]
    if len(infinite):
        question = "Infinite numbers are taken for missing ones: is that right?"
        return _ranged(seen.without(infinite), question)
    far = seen.levels[_far(seen.numbers, seen.numbers.isin(SENTINELS))]
    question = (
        f"{', '.join(far)} lies far from all other numbers: is that a missing value? If it is not, "
        "take it out of missing, and widen the range."
    )
    return _ranged(seen.without(far), question if len(far) else "")


PROPOSALS: tuple[Callable[[Seen], FileColumn | None], ...] = (
    _empty_or_constant,
    _typed,
    _nameless,
    _moments,
    _marked,
    _codes,
    _durations,
    _named,
    _numeric,
)


def _are_whole(numbers: pd.Series) -> bool:
    """Whether all that are numbers are whole, or hardly any is."""
    held = numbers.dropna()
    return len(held) < 3 or bool((held == held.round()).all())


def _ranged(seen: Seen, question: str) -> FileColumn | None:
    numbers = seen.numbers
    if len(numbers) == 0 or numbers.nunique() < 2:
        return None
    if seen.whole and numbers.nunique() <= MAX_NUMBER_LEVELS and not question:
        return None
    question = (
        question
        or _moment_in_disguise(seen)
        or _thousands(seen.levels)
        or ("" if seen.whole else _amounts(seen.levels))
    )
    if seen.whole and seen.all_different and seen.num_rows >= 20 and not question:
        alone = len(numbers) == seen.num_rows - seen.num_missing
        if numbers.min() in (0, 1) and numbers.nunique() == numbers.max() - numbers.min() + 1:
            return seen.column(
                "identifier", "The numbers count the rows: an identifier? It is left out, as here."
            )
        if alone or re.search(NUMBERS_PEOPLE, seen.name):  # else a quantity of a wide range
            question = (
                f"{'No' if alone else 'Hardly'} two rows have the same value: an identifier? Then "
                'write kind = "identifier", and no range.'
            )
    steps, asked = _steps(seen)
    shares = _heaps(numbers, seen.counts, whole=seen.whole).head(0 if steps else MOST_HEAPS)
    asked_of_heaps = _ask_heaps({f"{number:.12g}": share for number, share in shares.items()})
    question = " ".join(filter(None, (question, asked, asked_of_heaps)))
    rest = ~numbers.isin(shares.index)
    low, high = float(numbers[rest].min()), float(numbers[rest].max())
    said: dict = {"low": low, "high": high} | seen.decimals
    if seen.whole:
        said = {"low": int(low), "high": int(high), "integer": True}
        zeros = seen.levels.str.extract(r"\.(0+)$")[0]
        if zeros.notna().all() and zeros.nunique() == 1:  # 34.0, as pandas writes ages with gaps
            said["written"] = f"0.{zeros[0]}"
    values = np.repeat(numbers[rest].to_numpy(), seen.counts[rest])
    middle, top = np.quantile(values, [0.5, 0.99], method="inverted_cdf")
    heaped = middle - low < (high - low) / EVEN_BINS
    said["heaps"] = tuple(int(n) if seen.whole else float(n) for n in shares.index)
    said |= steps
    if "steps" not in steps and low >= 0 and middle > 0 and (heaped or top > SPREAD * middle):
        said["scale"] = "log"
    return seen.column("numeric", question.strip(), **said)


def _steps(seen: Seen) -> tuple[dict, str]:
    """Return what a draft says of the steps of numbers, and what it asks.

    Both are empty where numbers have no steps.

    There are steps where few numbers are many people's, or all lie further apart than their
    decimals say. That many prices end alike is asked about.
    """
    numbers = np.unique(seen.numbers)
    held, decimals = int(seen.counts.sum()), seen.decimals.get("decimals")
    if (
        not seen.whole
        and 2 < len(numbers) <= min(MOST_STEPS, held / FEW_EACH)
        and not (len(numbers) >= FEW_EACH and np.ptp(np.diff(numbers)) < 1e-9)
    ):
        shown = ", ".join(f"{number:g}" for number in numbers[:3])
        return {"steps": tuple(map(float, numbers))}, (
            f"{len(numbers)} different numbers ({shown} and so on): are these all that there are? "
            'As steps each keeps its share. Groups rather than amounts: write kind = "categorical" '
            "and categories. Others between: delete steps, and write low and high."
        )
    if decimals == 2 and len(numbers) >= 4 * FEW_EACH:
        ends = pd.Series(seen.counts / held).groupby(np.rint(seen.numbers * 100) % 100).sum()
        share, end = ends.max(), ends.idxmax()
        if ENDING < share < 1 and end > 0:
            return {}, (
                f"{share:.0%} of the numbers end in .{end:02.0f}, and synthetic ones will end in "
                "anything. If all should, write step = 1, and a low that ends so."
            )
    if seen.whole or isinstance(decimals, int):
        return _step(numbers, 0 if seen.whole else decimals, held)
    return {}, ""


def _step(numbers: np.ndarray, decimals: int, held: int, unit_name: str = "") -> tuple[dict, str]:
    """Return the step of ascending numbers with so many decimals, of `held` rows.

    The result is as that of `_steps`.
    """
    units = np.rint(numbers * 10**decimals).astype(np.int64)
    unit = int(np.gcd.reduce(np.diff(units)))
    if unit <= 1 or len(numbers) < FEW_EACH or held < 4 * FEW_EACH:
        return {}, ""
    step = unit / 10**decimals
    step = int(step) if step == int(step) else step
    question = f"All lie a multiple of {step:g}{unit_name} apart: are these steps?"
    return {"step": step}, f"{question} If there may be others between, delete step."


def _heaps(numbers: pd.Series, counts: np.ndarray, *, whole: bool) -> pd.Series:
    """Return the share of each value that many rows have, the most frequent first.

    At least HEAP of the rows have such a value, and far more than have values near it. The result
    is empty where each value has a bin, or no range is left without these values.

    counts: of each number.
    """
    shares = pd.Series(counts / counts.sum(), numbers.to_numpy()).groupby(level=0).sum()
    around = shares.rolling(7, center=True, min_periods=1).median()  # three on each side
    stands_out = shares >= np.maximum(HEAP, 3 * np.maximum(around, shares.median()))
    found = shares[stands_out].nlargest(MOST_HEAPS)
    rest = shares.index.difference(found.index)
    narrow = whole and np.ptp(shares.index) < WIDE
    return found.head(0) if narrow or len(rest) < MAX_NUMBER_LEVELS else found


def _ask_heaps(shares: Mapping[str, float]) -> str:
    """Return what to ask of values that many rows share; '' where there are none.

    shares: by text.
    """
    if not shares:
        return ""
    shown = ", ".join(f"{text} ({share:.1%} of the rows)" for text, share in shares.items())
    return (
        f"Many rows have exactly {shown}: does it mean something of its own, such as none at all, "
        "or the end of a study? Then leave it in heaps, where it keeps its share. Else delete it "
        "there; if it was the least or the largest number, widen the range."
    )


def _moment_in_disguise(seen: Seen) -> str:
    """Return what to ask of numbers that a computer may have made of moments; '' of others."""
    if not seen.whole:
        return ""
    low, high, texts = seen.numbers.min(), seen.numbers.max(), seen.levels
    eight = texts.str.zfill(8) if texts.str.len().min() == 7 else texts[:0]
    dates = (
        "Are these dates, {} and year, without a first zero? As numbers they are drawn as no "
        "dates: write them in the file with all eight digits."
    )
    moments = "Are these moments, in {} since 1970? As numbers they are drawn so, too."
    disguises = (
        (SECONDS[0] <= low and high <= SECONDS[1], moments.format("seconds")),
        (SECONDS[0] <= low / 1000 and high / 1000 <= SECONDS[1], moments.format("milliseconds")),
        (_misfits(eight, "%d%m%Y") == [], dates.format("day, month")),
        (_misfits(eight, "%m%d%Y") == [], dates.format("month, day")),
        (
            len(texts) > 3 * MAX_NUMBER_LEVELS
            and 100 <= high < 2400
            and (seen.numbers % 100).max() < 60,
            "Are these times, hours and minutes without a mark, as 830 for 08:30? As numbers there "
            "will be others between, such as 875: write 08:30 into the file, and draft again.",
        ),
        (
            re.search("date|day|datum|time|zeit", seen.name, re.IGNORECASE)
            and SERIAL[0] <= low
            and high <= SERIAL[1],
            "Are these dates, in days since 1900, as spreadsheets count them?",
        ),
    )
    return next((question for fits, question in disguises if fits), "")


def _thousands(levels: pd.Series) -> str:
    """Return what to ask where every point has three digits behind it.

    Such a point may be a mark between thousands.
    """
    pointed = levels[levels.str.contains(".", regex=False)]
    if len(pointed) < FEW_EACH or not pointed.str.fullmatch(r"[-+]?[1-9]\d{0,2}\.\d{3}").all():
        return ""
    if levels.drop(index=pointed.index).str.len().max() > 3:
        return ""
    text = pointed.iloc[0]
    return (
        f"Is {text!r} {float(text):.12g}? If it is {text.replace('.', '')}, write "
        f'written = "{text}" instead of decimals, and the range of these numbers.'
    )


def _categories(seen: Seen, most: int = MOST_LISTED) -> FileColumn:
    """Propose a list of categories, `most` at most.

    The draft asks where there are many, or where words may mean a missing value.
    """
    labels = list(seen.own) or sorted(seen.levels)
    if seen.whole and not seen.own and not seen.levels.map(_looks_like_code).any():
        if not seen.levels.str.endswith(".0").all():
            labels = [label.removesuffix(".0") for label in labels]
        labels = sorted(set(labels), key=float)
    if len(labels) > most:
        return seen.column(
            "text",
            f"{len(labels)} different values, which are left out. Are they categories? Then draft "
            "again with this column in keep (--keep), which lists them.",
        )
    held, texts = seen.num_rows - seen.num_missing, seen.numbers.isna().any()
    words = ", ".join(repr(word) for word in seen.missing if word)
    questions = (
        (
            len(labels) == 1 and "" in seen.missing,  # a mark, or nothing
            "One value, and rows without any: does an empty cell mean 'no'?",
        ),
        (
            len(labels) > MAX_CATEGORIES,
            f"{len(labels)} categories: is this the documented list? Then write keep = true, or "
            'delete this question. If nobody may know which there are, write categories = "open": '
            'noisy counts then select them. If it is free text, write kind = "text" instead.',
        ),
        (words, f"Is {words} a missing value here, and no category?"),
        (
            texts and len(labels) >= FEW_EACH and held < FEW_EACH * len(labels),
            "Few rows share a value: does it name a person, an address, a telephone?",
        ),
        (
            texts and _names_people(seen),
            "The column's name speaks of people: does a value identify one of them, as full names "
            'do? Then write kind = "identifier" instead of the categories.',
        ),
    )
    question = next((question for fits, question in questions if fits), "")
    return seen.column("categorical", question, categories=tuple(labels), ordered=seen.ordered)


# --- what a text looks like -----------------------------------------------------------------------


def _text(value: object) -> str:
    """Write a cell as text.

    A whole number loses the .0 that the type of the file has given it.
    """
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, datetime):  # pandas' moments are, too
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value).strip()


def _strangers(what: str, texts: Iterable[str]) -> str:
    """Return what to ask about texts that are among numbers, or dates."""
    shown = ", ".join(map(repr, texts))
    asked = f"Among {what} stands {shown}: is that a missing value? If not, correct the rows."
    return f"{asked} Each keeps its share." if len(list(texts)) > 1 else asked


def _numbers(levels: pd.Series) -> pd.Series:
    plain = levels.astype(str).str.fullmatch(
        r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf(?:inity)?", case=False
    )
    return pd.to_numeric(levels.where(plain), errors="coerce").astype(float)


def _looks_like_code(text: str) -> bool:
    """Whether digits would lose something as a number: leading zeros, an E among whole digits."""
    return bool(re.fullmatch(r"[-+]?0\d+(\.\d+)?|\d+[eEdD]\d+", text))


def _two_ways(numbers: pd.Series) -> bool:
    """Whether 1.10 is beside 1.9: as a number, one of the two would be written otherwise.

    1.10 beside 1 is an amount, which is asked about.
    """
    digits = numbers.str.extract(r"\.(\d+)$")[0].dropna().str.len()
    return bool(numbers.str.contains(r"\.\d+0$").any()) and digits.nunique() > 1


def _short_whole(levels: pd.Series, mark: str) -> bool:
    """Whether whole numbers stand without decimals: 42 beside 42.5, and hardly a 42.0."""
    whole = ~levels.str.contains(rf"{re.escape(mark)}|\d[eE]", regex=True)
    zeros = levels.str.contains(rf"{re.escape(mark)}0+(?!\d)", regex=True)
    return bool(whole.sum() > zeros.sum())


def _amounts(levels: pd.Series) -> str:
    """Return what to ask where 12.50 is beside 12; '' elsewhere."""
    ends = levels[levels.str.contains(r"\.\d+0$", regex=True)]
    if len(ends) == 0 or not _short_whole(levels, "."):
        return ""
    whole = levels[levels.str.fullmatch(r"[-+]?\d+")].iloc[0]
    return (
        f"Some stand there like {ends.iloc[0]}, others like {whole}: are these numbers? If they "
        "are codes, list them as categories."
    )


def _too_large(seen: Seen) -> bool:
    """Whether there are whole numbers that a float does not hold exactly."""
    digits = seen.levels[seen.levels.str.fullmatch(r"[-+]?\d+")].str.lstrip("+-")
    return any(int(text) > MOST_EXACT for text in digits[digits.str.len() > 15])


def _decimals(levels: pd.Series) -> dict[str, int | str | bool]:
    """Return entries that say how many digits are behind the point.

    `decimals` is the most that any number has. Where all have the same and some end with 0,
    `written` shows an example instead. Neither is there where digits are too many to be somebody's
    choice. `short_whole` says that whole numbers have none.
    """
    said: dict[str, int | str | bool] = {"short_whole": True} if _short_whole(levels, ".") else {}
    digits = levels.str.extract(r"\.(\d*)$")[0].fillna("")
    most = int(digits.str.len().max())
    if most > MAX_DECIMALS or levels.str.contains("[eE]", regex=True).any():
        return said
    with_any = digits[digits != ""] if said else digits
    if most > 1 and (with_any.str.len() == most).all() and with_any.str.endswith("0").any():
        example = levels[with_any.index[0]].lstrip("-+")
        # three digits behind a point may be thousands, but for a zero before it
        shown = "0.000" if most == 3 else f"0{example}"[example[0] != "." :]
        return said | {"written": shown}
    return said | {"decimals": most}


def _far(values: pd.Series, may_be_missing: pd.Series) -> list[int]:
    """Return the places of values that may mean a missing one.

    They are farther outside the range of the other values than that range is wide, or negative
    where no other value is.
    """
    rest = values[~may_be_missing]
    if rest.nunique() < MAX_NUMBER_LEVELS:
        return []
    low, high = rest.min(), rest.max()
    span = high - low
    outside = (values < low - span) | (values > high + span) | ((values < 0) & (low >= 0))
    return list(values.index[may_be_missing & outside])


def _suffix(levels: pd.Series) -> str:
    """Return the time zone that nearly all times end with.

    It is Z, UTC, CET, or an offset such as +01:00; '' where times differ or have none.
    """
    found = levels.str.extract(r"\d:\d.*?((?: ?[+-]\d\d:?\d\d)|Z| [A-Z]{3,5})$")[0]
    if found.notna().sum() < len(levels) - _most_odd(len(levels)) or found.nunique() != 1:
        return ""
    return found.dropna().iloc[0]


def _most_odd(num_levels: int) -> int:
    """How many levels of another kind may stand among so many."""
    return min(MOST_ODD, num_levels // (MAX_NUMBER_LEVELS + 1))


@cache
def _pattern(form: str) -> re.Pattern:
    """Return what a text of this form looks like, a group for each of its parts."""
    bare = form.replace("%", "").isalnum() or form in BARE_CLOCKS
    pattern = ""
    for mark, part in re.findall(r"(%?)(.)", form):
        looks = PARTS[part].removesuffix("?" * bare) if mark else re.escape(part)
        pattern += f"(?P<{part}>{looks})" if mark else looks
    return re.compile(pattern)


def _misfits(levels: pd.Series, form: str) -> list[int] | None:
    """Return the places of the levels that are no moment of this form.

    The result is None where they are too many, or the others too few.
    """
    if form in BARE_CLOCKS and not levels.str.match(r"0\d").any():
        return None
    if len(levels) == 0 or (form in UNSURE and len(levels) <= MAX_NUMBER_LEVELS):
        return None
    odd: list[int] = []
    for place, text in levels.items():
        if not _is_moment(text, form):
            odd.append(place)
            if len(odd) > _most_odd(len(levels)):
                return None
    return odd


def _is_moment(text: str, form: str) -> bool:
    """Whether a text is a moment of this form: it looks like one, and the day exists."""
    if not _pattern(form).fullmatch(text):
        return False
    try:
        return bool(moment_of(text, form))
    except ValueError:
        return False


def _as_written(levels: pd.Series, form: str) -> str:
    """Return the form as all of these moments of it are spelt.

    The spelling is with or without leading zeros, and in capitals or not.
    """
    parts = pd.DataFrame([_pattern(form).fullmatch(text).groupdict() for text in levels])
    for part in SPELLINGS.keys() & set(parts):
        spelling, is_spelt_so = SPELLINGS[part]
        if is_spelt_so(parts[part]):
            form = form.replace(f"%{part}", spelling.format(part))
    return form


def _one_way(levels: pd.Series, marks: Written) -> bool:
    """Whether most of the numbers are written as the example.

    They have what is before and after its number and, where they are large enough, its thousands
    mark.
    """
    around = levels.str.contains(marks.prefix.strip(), regex=False)
    around &= levels.str.contains(marks.suffix.strip(), regex=False)
    large = levels[marks.numbers(levels).abs() >= 1000]
    grouped = not marks.thousands or large.str.contains(marks.thousands, regex=False).mean() > 0.9
    return bool(around.mean() > 0.9 and grouped)
