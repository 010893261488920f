"""Rules between columns that hold in all rows of a table, for its draft to ask about.

They are read from the rows, as all of a draft is: its head says so. A rule is proposed where chance
would break it: where at least EXPECTED rows would, were the columns independent.
"""

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
DELETE = "If it is chance, delete the [[rule]]."


@dataclass(frozen=True)
class Read:
    """What a table holds, as rules see it. amounts: of columns with an order; shown: of all, as
    text, nan where there is no value."""

    columns: dict[str, FileColumn]
    amounts: dict[str, np.ndarray]
    shown: dict[str, pd.Series]


def propose_rules(form: Form, raw: pd.DataFrame) -> tuple[Rule, ...]:
    """The rules that hold in all rows, each with a question."""
    read = _read(form, raw)
    found: list[Rule] = []
    for rule in (*_sums(read), *_orders(read), *_following(read), *_empty(read)):
        if len(found) == MOST_RULES:
            break
        try:
            Form(form.columns, form.target, form.ignored, (*found, rule))
        except BadInput:  # against one that was found before
            continue
        found.append(rule)
    return tuple(found)


def _read(form: Form, raw: pd.DataFrame) -> Read:
    columns, amounts, shown = {}, {}, {}
    for column in form.columns:
        if column.modelled is None:
            continue
        try:
            rows = pd.DataFrame(column.parse(raw[column.name], column.name, []))
        except BadInput:  # which loading will name
            continue
        columns[column.name] = column
        if column.kind in ("numeric", *TIMES):
            amounts[column.name] = column.amounts(rows).to_numpy()
            shown[column.name] = pd.Series(amounts[column.name]).map("{:.12g}".format, "ignore")
        else:
            labels = rows[column.name].astype(object)
            shown[column.name] = labels.mask(labels == column.gap_label).reset_index(drop=True)
    return Read(columns, amounts, shown)


def _orders(read: Read) -> Iterator[Rule]:
    """a <= b, or a < b; not what follows from others by way of a third column."""
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
        if not any((a, c) in found and (c, b) in found for c in read.amounts):
            question = f"In no row that has both is {a} above {b}: is that a rule? {DELETE}"
            yield Rule(f"{a} {mark} {b}", question=question)


def _sums(read: Read) -> Iterator[tuple[str, ...]]:
    """The parts and, last, the total: a + b = c, or a + b + c = d; of a date and days, too."""
    names = [name for name in read.amounts if read.columns[name].kind in ("numeric", "date")]
    if len(names) > MOST_COLUMNS:
        return
    values = np.column_stack([read.amounts[name] for name in names]) if names else np.empty((0, 0))
    varied = [place for place in range(len(names)) if len(np.unique(values[:, place])) > 2]
    sizes = (2, 3) if len(names) <= 12 else (2,)
    for size in sizes:
        for parts in combinations(varied, size):
            added = values[:, list(parts)].sum(axis=1)
            for total in set(varied) - set(parts):
                both = ~np.isnan(added) & ~np.isnan(values[:, total])
                if (
                    both.sum() < FEWEST
                    or (values[both][:LOOK, list(parts)] != 0).mean(0).min() < 0.1
                ):
                    continue
                gap = np.abs(added[both] - values[both, total])
                if (gap[:LOOK] > 1e-6).any() or (gap > 1e-6).any():
                    continue
                text = f"{' + '.join(names[part] for part in parts)} = {names[total]}"
                yield Rule(text, question=f"That holds in all rows: is it a rule? {DELETE}")


def _following(read: Read) -> Iterator[Rule]:
    """b follows from a, where both are categories, or a is a number of few values."""
    codes = {
        name: pd.factorize(shown)[0]
        for name, shown in read.shown.items()
        if read.columns[name].kind not in TIMES and 1 < shown.nunique() <= MOST_LEVELS
    }
    found: set[tuple[str, str]] = set()
    for a, b in permutations(list(codes)[:MOST_COLUMNS], 2):
        if read.columns[b].kind not in ("categorical", "boolean") or (b, a) in found:
            continue
        if not _one_each(codes[a][:LOOK], codes[b][:LOOK]) or not _one_each(codes[a], codes[b]):
            continue
        groups, shares = len(np.unique(codes[a])), np.bincount(codes[b] + 1) / len(codes[b])
        if (len(codes[a]) - groups) * (1 - (shares**2).sum()) >= EXPECTED:
            found.add((a, b))
    for a, b in found:
        if any((a, c) in found and (c, b) in found for c in codes):
            continue
        pairs = pd.DataFrame({"a": read.shown[a], "b": read.shown[b]}).dropna().drop_duplicates()
        groups = tuple((label, tuple(sorted(values))) for label, values in pairs.groupby("b")["a"])
        question = (
            f"Rows with the same {a} have the same {b}: is that a rule, and are these the documented "
            f"groups? Without [rule.groups], most synthetic rows decide. {DELETE}"
        )
        yield Rule(column=b, follows_from=(a,), groups=groups, question=question)


def _one_each(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all rows that agree in `a` agree in `b`."""
    pairs = a.astype(np.int64) * (b.max() + 2) + b + 1
    return len(np.unique(pairs)) == len(np.unique(a))


def _empty(read: Read) -> Iterator[Rule]:
    """b is empty, or has one and the same category, unless a has one value, or but for one."""
    for b, column in read.columns.items():
        empties = {"": read.shown[b].isna()}
        if column.kind == "categorical":
            empties |= {label: read.shown[b] == label for label in column.categories[:MOST_COLUMNS]}
        for code, empty in empties.items():
            share = empty.mean()
            if not 0.05 < share < 0.95 or (not code and not column.missing):
                continue
            for a, shown in read.shown.items():
                if a == b or read.columns[a].kind not in ("categorical", "boolean"):
                    continue
                always = empty.groupby(shown).all()
                if not 0 < always.sum() < len(always) or len(always) > MOST_COLUMNS:
                    continue
                where = shown.isin(always.index[always])
                if where.sum() * (1 - share) < EXPECTED or shown.isna().any():
                    continue
                if (empty & ~where).sum() > 0.9 * (~where).sum():
                    continue
                if (~always).sum() == 1:
                    text = f"{a} = {always.index[~always][0]}"
                elif always.sum() == 1:
                    text = f"{a} != {always.index[always][0]}"
                else:
                    continue
                said = f"is {code!r}" if code else "is empty"
                question = f"In all rows {b} {said} unless {text}: is that a rule? {DELETE}"
                yield Rule(column=b, empty_unless=text, code=code, question=question)
                break
