"""Rules between columns that hold in all rows of a table, for its draft to ask about.

They are read from the rows, as all of a draft is: its head says so. A rule is proposed where chance
would break it: where at least EXPECTED rows would, were the columns independent.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.moments import TIMES
from fedsynth_lib.tables.rules import Rule

EXPECTED = 10  # rows that would break a rule by chance, at least
MOST_RULES, MOST_COLUMNS = 20, 40  # proposed; of numbers, or of levels, that are compared
MOST_LEVELS = 1_000  # of a column from which another one follows
FEWEST = 20  # rows that have a value in all columns of a rule
LOOK = 500  # rows that are looked at first
PERSON_ROWS, FEWEST_PERSONS = (1.5, 20), 20  # rows of a value on average; different values
DELETE = "If it is chance, delete the [[rule]]."


@dataclass(frozen=True)
class Read:
    """What a table holds, as rules see it.

    amounts: of columns with an order; codes: of all, by places in labels, -1 where there is no
        value.
    """

    columns: dict[str, FileColumn]
    amounts: dict[str, np.ndarray]
    codes: dict[str, np.ndarray]
    labels: dict[str, list[str]]


def propose_rules(form: Form, raw: pd.DataFrame) -> tuple[Rule, ...]:
    """Return the rules that hold in all rows, each with a question."""
    read = _read(form, raw)
    found: list[Rule] = []
    sums = [*_sums(read)]
    asked = f"That holds in all rows: is it a rule? {DELETE}"
    added = (Rule(f"{' + '.join(parts)} = {total}", question=asked) for *parts, total in sums)
    for rule in (*added, *_orders(read, sums), *_empty(read), *_following(read)):
        if len(found) == MOST_RULES:
            break
        try:
            Form(form.columns, form.target, form.ignored, (*found, rule))
        except BadInput:  # against one that was found before
            continue
        found.append(rule)
    return tuple(found)


def persons(raw: pd.DataFrame, named: re.Pattern) -> dict[str, str]:
    """Return what to ask about each column whose values may be persons of several rows each.

    Few rows of such a column have the same value, and among these other columns never differ.

    named: how columns of numbers of persons are called; of another one, two columns must be so.
    """
    codes = {}
    for name in raw:
        places, values = _factorized(raw[name])
        codes[str(name)] = pd.factorize(values.astype(str).str.strip())[0][places]
    found = {}
    for name, own in codes.items():
        rows = np.bincount(own)
        usual = len(own) / len(rows)
        if len(rows) < FEWEST_PERSONS or not PERSON_ROWS[0] <= usual <= PERSON_ROWS[1]:
            continue
        alike = [
            other
            for other, theirs in codes.items()
            if other != name
            and _one_each(own[:LOOK], theirs[:LOOK])
            and _one_each(own, theirs)
            and _by_chance(own, theirs) >= EXPECTED
        ]
        if len(alike) > 1 or (alike and named.search(name)):
            found[name] = (
                f"Rows with the same value ({usual:.1f} on average, {rows.max()} at most) never "
                f"differ in {', '.join(alike[:3])}: do several rows belong to one person? Then "
                f'write unit = "{name}" and most_rows = {rows.max()}, or fewer, under [table], and '
                "epsilon is for a person with so many rows, and not for a row. In either case the "
                "column is left out."
            )
    return found


def _by_chance(a: np.ndarray, b: np.ndarray) -> float:
    """How many rows would differ in `b` from another one that agrees in `a`, by chance."""
    shares = np.bincount(b[b >= 0]) / len(b)
    return (len(a) - len(np.unique(a))) * (1 - float((shares**2).sum()))


def _read(form: Form, raw: pd.DataFrame) -> Read:
    found = Read({}, {}, {}, {})
    for column in form.columns:
        if column.modelled is None:
            continue
        places, values = _factorized(raw[column.name])
        try:
            rows = column.check(values, column.name).iloc[places]
        except BadInput:  # which loading will name
            continue
        if ordered := column.kind in ("numeric", *TIMES):
            found.amounts[column.name] = column.amounts(rows).to_numpy()
            codes, labels = pd.factorize(found.amounts[column.name] + 0.0)
        else:
            texts = rows[column.name].astype(object)
            codes, labels = pd.factorize(texts.mask(texts == column.gap_label))
        found.columns[column.name], found.codes[column.name] = column, codes
        found.labels[column.name] = [f"{each:.12g}" if ordered else each for each in labels]
    return found


def _factorized(raw: pd.Series) -> tuple[np.ndarray, pd.Series]:
    """(where among its different values each row's value is, these values as a column)."""
    places, _ = pd.factorize(raw, use_na_sentinel=False)
    _, first = np.unique(places, return_index=True)
    return places, raw.iloc[first].reset_index(drop=True)


def _orders(read: Read, sums: list[tuple[str, ...]]) -> Iterator[Rule]:
    """Find a <= b, or a < b.

    What follows from others by way of a third column, or from a sum, is left out.
    """
    rng, found = np.random.default_rng(0), {}
    for a, b in permutations(list(read.amounts)[:MOST_COLUMNS], 2):
        one, other = read.columns[a], read.columns[b]
        if one.kind != other.kind or (one.kind in TIMES and one.moments.unit != other.moments.unit):
            continue
        both = ~(np.isnan(read.amounts[a]) | np.isnan(read.amounts[b]))
        low, high = read.amounts[a][both], read.amounts[b][both]
        if len(low) < FEWEST or (low > high).any() or (low == high).all():
            continue
        if (low > rng.permutation(high)).sum() >= EXPECTED:
            found[a, b] = (
                "<="
                if (low == high).any()
                or (one.decimals is None and not (one.whole or one.kind in TIMES))
                else "<"
            )
    for (a, b), mark in found.items():
        follows = any((a, c) in found and (c, b) in found for c in read.amounts)
        if not follows and not any(a in parts and b == total for *parts, total in sums):
            question = f"{a} is above {b} in no row that has both: is that a rule? {DELETE}"
            yield Rule(f"{a} {mark} {b}", question=question)


def _sums(read: Read) -> Iterator[tuple[str, ...]]:
    """Find the parts and, last, the total: a + b = c, or a + b + c = d.

    A sum may be of a date and days, too.
    """
    names = [name for name in read.amounts if read.columns[name].kind in ("numeric", "date")]
    if len(names) > MOST_COLUMNS:
        return
    values = np.column_stack([read.amounts[name] for name in names]) if names else np.empty((0, 0))
    varied = [place for place in range(len(names)) if len(np.unique(values[:, place])) > 2]
    sizes = (2, 3) if len(names) <= 12 else (2,)

    def adds_up(parts: tuple[int, ...], total: int, rows: np.ndarray) -> bool:
        gap = np.abs(rows[:, list(parts)].sum(axis=1) - rows[:, total])
        return not (gap > 1e-6).any() and int((gap <= 1e-6).sum()) >= min(FEWEST, len(rows))

    for parts in (each for size in sizes for each in combinations(varied, size)):
        for total in sorted(set(varied) - set(parts)):
            if not adds_up(parts, total, values[:LOOK]) or not adds_up(parts, total, values):
                continue
            if (values[:, list(parts)] != 0).mean(axis=0).min() > 0.1:  # else it is another column
                yield tuple(names[place] for place in (*parts, total))


def _following(read: Read) -> Iterator[Rule]:
    """Find where b follows from a: both are categories, or a is a number of few values."""
    codes = {
        name: codes
        for name, codes in read.codes.items()
        if read.columns[name].kind not in TIMES
        and 1 < len(read.labels[name]) <= MOST_LEVELS
        and codes.min() >= 0
    }
    found: list[tuple[str, str]] = []
    for a, b in permutations(list(codes)[:MOST_COLUMNS], 2):
        if read.columns[b].kind not in ("categorical", "boolean") or (b, a) in found:
            continue
        if not _one_each(codes[a][:LOOK], codes[b][:LOOK]) or not _one_each(codes[a], codes[b]):
            continue
        if _by_chance(codes[a], codes[b]) >= EXPECTED:
            found.append((a, b))
    for a, b in found:
        if any((a, c) in found and (c, b) in found for c in codes):
            continue
        pairs = pd.DataFrame({"a": codes[a], "b": codes[b]}).drop_duplicates()
        groups = tuple(
            (read.labels[b][code], tuple(sorted(read.labels[a][each] for each in values)))
            for code, values in pairs.groupby("b")["a"]
        )
        question = (
            f"Rows with the same {a} have the same {b}: is that a rule, and are these the "
            f"documented groups? Without [rule.groups], most synthetic rows decide. {DELETE}"
        )
        yield Rule(column=b, follows_from=(a,), groups=groups, question=question)


def _one_each(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all rows that agree in `a` agree in `b`."""
    pairs = a.astype(np.int64) * (b.max() + 2) + b + 1
    return len(np.unique(pairs)) == len(np.unique(a))


def _empty(read: Read) -> Iterator[Rule]:
    """Find where b is empty, or always has the same category, by the value of a.

    The rule holds for all values of a except one, or for one value of a alone.
    """
    groups = {
        name: codes
        for name, codes in read.codes.items()
        if read.columns[name].kind in ("categorical", "boolean")
        and 1 < len(read.labels[name]) <= MOST_COLUMNS
        and codes.min() >= 0
    }
    for b, column in read.columns.items():
        codes = read.codes[b]
        empties = {"": codes < 0} if column.missing else {}
        if column.kind == "categorical":
            empties |= {label: codes == n for n, label in enumerate(read.labels[b][:MOST_COLUMNS])}
        for code, empty in empties.items():
            share = empty.mean()
            if not 0.05 < share < 0.95:
                continue
            for a, of in groups.items():
                if a == b and code:  # a column that comes later is no reason for a category
                    break
                if a == b or len(_always(of[:LOOK], empty[:LOOK])) == 0:
                    continue
                always, labels = _always(of, empty), read.labels[a]
                where = np.isin(of, always)
                others = sorted(set(range(len(labels))) - set(always))
                often = (empty & ~where).sum() > 0.9 * (~where).sum()
                if not others or often or where.sum() * (1 - share) < EXPECTED:
                    continue
                if len(others) == 1:
                    text = f"{a} = {labels[others[0]]}"
                elif len(always) == 1:
                    text = f"{a} != {labels[always[0]]}"
                else:
                    continue
                said = f"is {code!r}" if code else "is empty"
                question = f"In all rows {b} {said} unless {text}: is that a rule? {DELETE}"
                yield Rule(column=b, empty_unless=text, code=code, question=question)
                break


def _always(codes: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Return the codes of which all rows are empty."""
    rows, held = np.bincount(codes), np.bincount(codes, weights=empty)
    return np.flatnonzero((rows > 0) & (rows == held))
