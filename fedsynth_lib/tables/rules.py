"""Rules between the columns of a table, which every synthetic row keeps.

A schema declares them, a `[[rule]]` each:

    holds = "admitted <= discharged"            also <, >=, >, and chains: born <= admitted <= died
    holds = "part + rest = total"               a date and a number of days add up to a date
    column = "state", follows_from = "zip"      rows with equal zip codes have equal states
    column = "parity", empty_unless = "sex = F" also !=, <, <=, >, >=

What is known of a rule is its declaration. What is done for it is done to each row on its own
before a method learns (the later of two dates is learned as its distance from the earlier), or to
synthetic rows alone, which is post-processing: it costs no epsilon.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.kinds import NOT_MODELLED, FileColumn, Gaps, parts_of, refuse_first
from fedsynth_lib.tables.moments import TIMES
from fedsynth_lib.tables.schema import Column, closest, refuse_rows

COMPARED = {
    "<=": np.less_equal,
    ">=": np.greater_equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "=": np.equal,
}
MARKS = re.compile("|".join(map(re.escape, (*COMPARED, "+"))))
ENTRIES = ("holds", "column", "follows_from", "groups", "empty_unless", "code", "question")
FINEST = 1_000  # a distance is learned in steps no finer than its range over so many
NARROW = 32  # whole numbers of a narrower range have a bin each
PASSES = 3  # of repairing rows, before one that still breaks a rule is replaced
TRIED = 200  # rows at random, with which it is tried whether all rules can hold at once
KINDS = (
    'write one of: holds = "a <= b"; holds = "a + b = c"; column = "b" and follows_from = "a"; '
    'column = "b" and empty_unless = "a = value"'
)


@dataclass(frozen=True)
class Rule:
    """One rule, as a schema declares it.

    groups: value of `column` -> the values of `follows_from` that go with it; without it, the value
        is the one that most synthetic rows have.
    code: how an empty cell is written, of several codes for a missing value; the first by default.
    question: what a draft asks about it.
    """

    holds: str = ""
    column: str = ""
    follows_from: tuple[str, ...] = ()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    empty_unless: str = ""
    code: str = ""
    question: str = ""

    def __str__(self) -> str:
        """Return the rule in words."""
        if self.holds:
            return self.holds
        if self.follows_from:
            return f"{self.column} follows from {' and '.join(self.follows_from)}"
        return f"{self.column} is empty unless {self.empty_unless}"


@dataclass
class Values:
    """Rows as rules see them.

    amounts: of numbers, dates and times, as `FileColumn.amounts`; rows: as methods see them, of
    which categories, and what stands apart, count.
    """

    rows: pd.DataFrame
    amounts: dict[str, np.ndarray]

    def shown(self, column: FileColumn) -> pd.Series:
        """Values by which rows agree or not: texts of numbers, of labels, of what stands apart."""
        if column.name not in self.amounts:
            return self.rows[column.name].astype(object)
        amounts = pd.Series(self.amounts[column.name], self.rows.index)
        shown = amounts.map(lambda number: f"{number + 0.0:.12g}")
        for kind in parts_of(column.modelled)[1:]:
            shown = shown.mask(amounts.isna(), self.rows[kind.name].astype(object))
        return shown


# --- the four kinds of rule -----------------------------------------------------------------------
# `holds` gives bool (rows,), True where one of its values is missing, too; `settle` changes a
# column, when those on which it depends are settled.


@dataclass(frozen=True)
class Order:
    """A column is below another one, or equal to it where `equal` says so."""

    rule: Rule
    lesser: FileColumn
    greater: FileColumn
    equal: bool

    @property
    def unit(self) -> float:
        """The least distance of the two."""
        return 0.0 if self.equal else _unit(self.greater)

    def holds(self, found: Values) -> np.ndarray:
        """Return in which rows the rule holds."""
        low, high = found.amounts[self.lesser.name], found.amounts[self.greater.name]
        return ~((low > high) if self.equal else (low >= high))


@dataclass(frozen=True)
class Sum:
    """A column is the sum of others."""

    rule: Rule
    column: FileColumn
    on: tuple[FileColumn, ...]

    def holds(self, found: Values) -> np.ndarray:
        """Return in which rows the rule holds, but for errors of rounding."""
        total = found.amounts[self.column.name]
        difference = sum(found.amounts[part.name] for part in self.on) - total
        return np.isnan(difference) | (np.abs(difference) <= 1e-9 * (np.abs(total) + 1))

    def settle(self, found: Values) -> None:
        """Add up; what is beyond the range of the total is taken from its parts in turn."""
        amounts, name = found.amounts, self.column.name
        there = ~np.isnan(amounts[name])
        excess = sum(amounts[part.name] for part in self.on)
        excess = np.where(there, excess - np.clip(excess, *self.column._limits), 0)
        for part in self.on:
            before = amounts[part.name]
            changed = part.settled(np.clip(before - excess, *part._limits))
            amounts[part.name] = np.where(np.nan_to_num(excess) == 0, before, changed)
            excess = excess - (before - amounts[part.name])
        added = sum(amounts[part.name] for part in self.on)
        decimals = _decimals(self.column)
        added = np.round(added, int(decimals)) if np.isfinite(decimals) else added
        amounts[name] = np.where(there & ~np.isnan(added), added, amounts[name])


@dataclass(frozen=True)
class Follows:
    """Rows that agree in some columns agree in another one."""

    rule: Rule
    column: FileColumn
    on: tuple[FileColumn, ...]

    def holds(self, found: Values) -> np.ndarray:
        """Return in which rows the rule holds."""
        value, donor = self._usual(found)
        return value == value[donor]

    def settle(self, found: Values) -> None:
        """Take the declared value, or else that of most rows that agree in what it follows from."""
        _, donor = self._usual(found)
        name = self.column.name
        for part in parts_of(self.column.modelled):
            found.rows[part.name] = found.rows[part.name].array[donor]
        if name in found.amounts:
            found.amounts[name] = found.amounts[name][donor]
        if self.rule.groups:
            said = {value: label for label, values in self.rule.groups for value in values}
            labels = found.shown(self.on[0]).astype(str).map(said)
            column = found.rows[name]
            told = labels.where(labels.notna(), column.astype(object))
            found.rows[name] = pd.Categorical(told, categories=column.cat.categories)

    def _usual(self, found: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return a number for the value of each row, and a row that has the usual value.

        Usual is the value of most rows that agree in what it follows from; the first of equally
        many.
        """
        on = pd.DataFrame({column.name: found.shown(column) for column in self.on})
        group = on.groupby(list(on), sort=False, dropna=False).ngroup().to_numpy()
        value = pd.factorize(found.shown(self.column))[0]
        pairs = pd.DataFrame({"group": group, "value": value}).reset_index(names="row")
        counts = pairs.groupby(["group", "value"], sort=False)["row"].agg(["size", "first"])
        most = counts.reset_index().sort_values("size", ascending=False, kind="stable")
        donors = most.drop_duplicates("group").set_index("group")["first"]
        return value, donors.loc[group].to_numpy()


@dataclass(frozen=True)
class Empty:
    """A column has no value unless another one compares with a value."""

    rule: Rule
    column: FileColumn
    on: tuple[FileColumn]
    compare: Callable[..., Any]
    value: str | float

    def holds(self, found: Values) -> np.ndarray:
        """Return in which rows the rule holds."""
        name, rule = self.column.name, self.rule
        if name in found.amounts:
            return self._applies(found) | np.isnan(found.amounts[name])
        empty = {*map(self.column.gap_code, self.column.missing), rule.code} - {""}
        return self._applies(found) | found.rows[name].isin(empty).to_numpy()

    def settle(self, found: Values) -> None:
        """Empty the cells that may have no value."""
        empty, name = ~self._applies(found), parts_of(self.column.modelled)[-1].name
        if isinstance(self.column.modelled, Gaps):
            amounts = found.amounts[self.column.name]
            found.amounts[self.column.name] = np.where(empty, np.nan, amounts)
        code = self.column.gap_code(self.rule.code)
        labels = found.rows[name].astype(object).mask(empty, code)
        found.rows[name] = pd.Categorical(labels, categories=found.rows[name].cat.categories)

    def _applies(self, found: Values) -> np.ndarray:
        """Where the column may have a value."""
        name = self.on[0].name
        shown = found.amounts[name] if name in found.amounts else found.rows[name].astype(object)
        return np.asarray(self.compare(np.asarray(shown), self.value), dtype=bool)


@dataclass(frozen=True)
class Rules:
    """The rules of a form.

    Raises BadInput, in one sentence, for one that means nothing, and for several that cannot hold
    together.
    """

    columns: tuple[FileColumn, ...]
    rules: tuple[Rule, ...]
    orders: list[Order] = field(default_factory=list, init=False)
    sums: dict[str, Sum] = field(default_factory=dict, init=False)  # by the total
    others: list[Follows | Empty] = field(default_factory=list, init=False)

    def __post_init__(self):
        """Read the rules, and check that they can hold together."""
        for rule in self.rules:
            self._read(rule)
        _ = self.order
        self._check_together()

    @cached_property
    def known(self) -> dict[str, FileColumn]:
        """Column of each name."""
        return {column.name: column for column in self.columns}

    def _refuse(self, rule: Rule, what: str) -> None:
        raise BadInput(f"schema: rule {str(rule)!r} {what}")

    # --- what a rule says ------------------------------------------------------------------------

    def _column(self, name: str, rule: Rule) -> FileColumn:
        if name not in self.known:
            near = closest(name, self.known)
            self._refuse(rule, f"names {name!r}, which is not a declared column{near}.")
        if self.known[name].kind in NOT_MODELLED:
            self._refuse(rule, f"is about {name!r}, which is of kind {self.known[name].kind!r}.")
        if self.known[name].is_open:
            self._refuse(rule, f"is about {name!r}, which is open; remove it, or list categories.")
        return self.known[name]

    def _amount(self, name: str, rule: Rule) -> FileColumn:
        column = self._column(name, rule)
        if column.kind not in ("numeric", *TIMES):
            self._refuse(rule, f"compares {name!r}, which is {column.kind} and has no order.")
        return column

    def _read(self, rule: Rule) -> None:
        if sum(map(bool, (rule.holds, rule.follows_from, rule.empty_unless))) != 1 or (
            bool(rule.column) == bool(rule.holds)
        ):
            self._refuse(rule, f"is not one of the kinds that there are: {KINDS}.")
        if rule.holds:
            terms, marks = self._terms(rule.holds)
            if len(terms) > 1 and "+" not in marks and set(marks) <= {"<=", "<"}:
                return self._read_order(terms, marks, rule)
            if len(terms) > 1 and "+" not in marks and set(marks) <= {">=", ">"}:
                return self._read_order(terms[::-1], marks[::-1], rule)
            if marks.count("=") == 1 and set(marks) <= {"=", "+"} and "=" in (marks[0], marks[-1]):
                parts, total = (
                    (terms[:-1], terms[-1]) if marks[-1] == "=" else (terms[1:], terms[0])
                )
                return self._read_sum(parts, total, rule)
            self._refuse(rule, f"is not understood: {KINDS}.")
        column = self._column(rule.column, rule)
        if rule.follows_from:
            on = tuple(self._column(name, rule) for name in rule.follows_from)
            if column in on:
                self._refuse(rule, "lets a column follow from itself.")
            self._check_groups(rule, column)
            return self.others.append(Follows(rule, column, on))
        other, compare, value = self._condition(rule)
        if not column.missing and not rule.code:
            self._refuse(
                rule, f'needs a way to write an empty cell: give {rule.column!r} missing = [""].'
            )
        if rule.code and rule.code not in (*column.missing, *column.categories):
            self._refuse(rule, f"has code = {rule.code!r}, which {rule.column!r} does not declare.")
        return self.others.append(Empty(rule, column, (other,), compare, value))

    def _terms(self, text: str) -> tuple[list[str], list[str]]:
        """Return the names in a rule and the marks between them; a name may hold a mark."""
        names = sorted(self.known, key=len, reverse=True)
        token = re.compile("|".join([*map(re.escape, names), MARKS.pattern]))
        found = token.findall(text)
        left = token.sub("", text).strip()
        if left or not all(name in self.known for name in found[::2]):
            found = [part.strip() for part in re.split(f"({MARKS.pattern})", text)]
        return found[::2], found[1::2]

    def _read_order(self, names: list[str], marks: list[str], rule: Rule) -> None:
        for (lesser, greater), mark in zip(pairwise(names), marks, strict=True):
            a, b = (self._amount(name, rule) for name in (lesser, greater))
            self._same_kind([a, b], rule)
            if mark == "<" and not (_unit(a) and _unit(b)):
                self._refuse(rule, "means nothing of numbers without decimals: write <=.")
            if a._limits[0] > b._limits[1]:
                self._refuse(
                    rule,
                    f"cannot hold: {lesser!r} begins at {a.low}, and {greater!r} ends at {b.high}.",
                )
            self.orders.append(Order(rule, a, b, mark == "<="))

    def _same_kind(self, columns: Sequence[FileColumn], rule: Rule) -> None:
        first, *others = columns
        for other in others:
            if other.kind != first.kind:
                self._refuse(
                    rule,
                    f"compares {first.name!r}, of kind {first.kind!r}, with {other.name!r}, of "
                    f"kind {other.kind!r}: declare both alike.",
                )
            if first.kind in TIMES and other.moments.unit != first.moments.unit:
                self._refuse(rule, "compares times that are not equally fine: declare both alike.")

    def _read_sum(self, parts: list[str], total: str, rule: Rule) -> None:
        columns = [self._amount(name, rule) for name in parts]
        whole = self._amount(total, rule)
        dates = [column.name for column in columns if column.kind == "date"]
        numbers = [column for column in columns if column.kind == "numeric"]
        if whole.kind == "numeric" or len(parts) == 1:
            self._same_kind([whole, *columns], rule)
        elif whole.kind != "date" or len(dates) != 1 or len(dates) + len(numbers) != len(parts):
            self._refuse(rule, "adds up what are no numbers; a date and days are a date.")
        lows, highs = zip(*(column._limits for column in columns), strict=True)
        other = str(self.sums[total].rule) if total in self.sums else ""
        refuse_first(
            f"schema: rule {str(rule)!r}",
            (other, f"says what {total!r} is, and so does {other!r}."),
            (
                whole.step is not None or whole.steps,
                f"leaves no steps to {total!r}: delete its step, or its steps.",
            ),
            (
                _decimals(whole) < max(map(_decimals, numbers), default=0),
                f"has parts with more decimals than {total!r}: declare decimals of all of them.",
            ),
            (
                sum(lows) > whole._limits[1] or sum(highs) < whole._limits[0],
                f"cannot hold: its parts are never within the range of {total!r}.",
            ),
        )
        self.sums[total] = Sum(rule, whole, tuple(columns))

    def _check_groups(self, rule: Rule, column: FileColumn) -> None:
        if not rule.groups:
            return
        if len(rule.follows_from) > 1 or column.kind not in ("categorical", "boolean"):
            self._refuse(rule, "has groups, which are of one column and of categories.")
        for label, _ in rule.groups:
            self._check_category(label, column, rule, f"has {label!r} in groups")
        listed = [value for _, values in rule.groups for value in values]
        if len(set(listed)) < len(listed):
            twice = next(value for value in listed if listed.count(value) > 1)
            self._refuse(rule, f"has {twice!r} in two of its groups; remove one.")
        source = self.known[rule.follows_from[0]]
        if source.kind in ("categorical", "boolean"):
            for value in listed:
                self._check_category(value, source, rule, f"has {value!r} in groups")

    def _check_category(self, value: str, column: FileColumn, rule: Rule, what: str) -> None:
        """Refuse a value that is not a category of the column, as methods see it."""
        if value not in (labels := column.modelled.categories):
            near = closest(value, labels)
            self._refuse(rule, f"{what}, which is not a category of {column.name!r}{near}.")

    def _condition(self, rule: Rule) -> tuple[FileColumn, Callable[..., Any], str | float]:
        """(column, comparison, value) of an `empty_unless`."""
        text = rule.empty_unless
        found = None
        for name in sorted(self.known, key=len, reverse=True):
            rest = text.strip().removeprefix(name).strip()
            if text.strip().startswith(name) and (found := MARKS.match(rest)):
                break
        if not found or found[0] == "+":
            name = MARKS.split(text)[0].strip()
            self._column(name, rule)
            self._refuse(rule, f"is not understood: {KINDS}.")
        value = rest[found.end() :].strip().strip("\"'")
        column, mark = self._column(name, rule), found[0]
        if name == rule.column:
            self._refuse(rule, "lets a column depend on itself.")
        if column.kind in ("categorical", "boolean"):
            if mark not in ("=", "!="):
                self._refuse(rule, f"compares {name!r}, which is {column.kind} and has no order.")
            self._check_category(value, column, rule, f"names {value!r}")
            return column, COMPARED[mark], value
        if column.kind in TIMES:
            number = float(column.moments.numbers(pd.Series([value]))[0])
        else:
            number = float(pd.to_numeric(value, errors="coerce"))
        if np.isnan(number):
            self._refuse(
                rule, f"compares {name!r} with {value!r}, which is not a {column.kind} value."
            )
        return column, COMPARED[mark], number

    # --- in which order columns are settled ------------------------------------------------------

    @cached_property
    def bases(self) -> dict[str, list[Order]]:
        """Greater column -> the orders in which it is the greater one.

        It is learned as its distance from the greatest of the lesser ones. Not a total, which its
        parts say, and no column each of whose values is counted, which would lose their shares:
        there, rows are repaired.
        """
        found: dict[str, list[Order]] = {}
        for order in self.orders:
            column = order.greater
            counted = (
                column.steps
                or column.step
                or (column.kind == "numeric" and column.whole and np.ptp(column._limits) < NARROW)
            )
            if not counted and self._may_rise(column.name):
                found.setdefault(column.name, []).append(order)
        return found

    def moves(self, rule: Rule) -> bool:
        """Whether real rows that break it are moved before a method learns from them."""
        return any(each.rule == rule and each.greater.name in self.bases for each in self.orders)

    def _may_rise(self, name: str) -> bool:
        """Whether no sum and no other column says what a column is."""
        following = {each.column.name for each in self.others if isinstance(each, Follows)}
        return name not in self.sums and name not in following

    @cached_property
    def order(self) -> list[str]:
        """The columns of rules, those first on which others depend."""
        graph = {name: {each.lesser.name for each in found} for name, found in self.bases.items()}
        for each in (*self.sums.values(), *self.others):
            graph.setdefault(each.column.name, set()).update(column.name for column in each.on)
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle = ", ".join(map(repr, dict.fromkeys(error.args[1])))
            raise BadInput(
                f"schema: the rules of {circle} go in a circle; remove one of them."
            ) from error

    # --- there: before a method learns -----------------------------------------------------------

    def modelled(self, column: FileColumn) -> Column | Gaps | None:
        """Return the column as methods see it.

        One that is never below others is seen as its distance from these, in its logarithm, since
        most distances are small beside the range.
        """
        plain = column.modelled
        if column.name not in self.bases:
            return plain
        top = float(np.log1p(self._span(column) / self._scale(column)))
        number = Column(column.name, "numeric", 0.0, top, **column.says)
        if isinstance(plain, Gaps):
            return Gaps(number, plain.missing, (top / 2,) * len(plain.fills))
        return number

    def _span(self, column: FileColumn) -> float:
        lows = [each.lesser._limits[0] for each in self.bases[column.name]]
        return column._limits[1] - min(*lows, column._limits[0])

    def _scale(self, column: FileColumn) -> float:
        return max(_unit(column), self._span(column) / FINEST)

    def _base(self, column: FileColumn, amounts: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return from where the distance of a column counts.

        It is the start of its range where no lesser column has a value.
        """
        found = [amounts[each.lesser.name] + each.unit for each in self.bases[column.name]]
        greatest = np.fmax.reduce(found)
        return np.where(np.isnan(greatest), column._limits[0], greatest)

    def to_model(
        self, values: dict[str, pd.Series], where: str, moved: list[str] | None
    ) -> dict[str, pd.Series]:
        """Modelled columns with distances; moved: as in `schema.numbers_of`."""
        if not self.bases:
            return values
        frame = pd.DataFrame(values)
        amounts = self._amounts(frame, plain=True)
        found = {}
        for name in self.bases:
            column, modelled = self.known[name], self.modelled(self.known[name])
            distance = amounts[name] - self._base(column, amounts)
            below = distance < -1e-9 * max(1.0, self._span(column))
            others = " and ".join(repr(each.lesser.name) for each in self.bases[name])
            refuse_rows(
                frame[name],
                below,
                f"{where}: column {name!r}",
                f"a value below that of {others}, against a rule of the schema",
                "correct the rows, or delete the rule",
                moved=moved,
                becomes="counts as equal",
            )
            number = modelled.number if isinstance(modelled, Gaps) else modelled
            learned = np.log1p(np.maximum(distance, 0) / self._scale(column)).clip(0, number.high)
            if isinstance(modelled, Gaps):
                apart = modelled.codes(frame) > 0
                learned = np.where(apart, modelled.fills[0], learned)
            found[name] = pd.Series(learned, frame.index)
        return values | found

    def _amounts(self, rows: pd.DataFrame, *, plain: bool) -> dict[str, np.ndarray]:
        """Of all columns with an order. plain: no distance was taken yet."""
        ordered = (c for c in self.columns if c.kind in ("numeric", *TIMES))
        return {
            c.name: c.amounts(rows).to_numpy() for c in ordered if plain or c.name not in self.bases
        }

    # --- and back: in synthetic rows -------------------------------------------------------------

    def to_file(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
        """(synthetic rows, `amounts` of their numbers) that keep all rules."""
        found = Values(rows.copy(), self._amounts(rows, plain=False))
        for name in self.order:
            self._settle(name, found, rows)
        for _ in range(PASSES):
            if self.keeps(found).all():
                break
            for order in self.orders:
                self._repair(order, found)
            for name in self.order:
                self._settle(name, found, None)
        kept = self.keeps(found)
        if not kept.all() and kept.any():  # rows that do, in place of those
            places = np.arange(len(kept))
            donors = np.flatnonzero(kept)
            places[~kept] = donors[np.arange((~kept).sum()) % len(donors)]
            taken = found.rows.iloc[places].set_axis(rows.index)
            found = Values(taken, {name: each[places] for name, each in found.amounts.items()})
        return found.rows, found.amounts

    def _settle(self, name: str, found: Values, learned: pd.DataFrame | None) -> None:
        """Settle a column after those on which it depends.

        learned: distances, at first.
        """
        column = self.known[name]
        if learned is not None and name in self.bases:
            plain = column.modelled
            numbers = np.expm1(learned[name].to_numpy(float)) * self._scale(column)
            amounts = column.settled(self._base(column, found.amounts) + numbers)
            if isinstance(plain, Gaps):
                apart = plain.codes(learned)
                amounts = np.where(apart > 0, column.apart[apart], amounts)
            found.amounts[name] = amounts
            for order in self.bases[name]:
                self._repair(order, found)
        for each in (*self.sums.values(), *self.others):
            if each.column.name == name:
                each.settle(found)

    def _repair(self, order: Order, found: Values) -> None:
        """Raise the greater one, or, where it is a total or at its end, lower the lesser one."""
        a, b, unit = order.lesser, order.greater, order.unit
        low, high = found.amounts[a.name], found.amounts[b.name]
        broken = low + unit > high
        if b.name in self.bases:
            found.amounts[b.name] = high = np.where(broken, b.raised(low + unit), high)
            broken = low + unit > high
        found.amounts[a.name] = low = np.where(broken, a.lowered(high - unit), low)
        broken = low + unit > high
        if broken.any() and self._may_rise(b.name):
            found.amounts[b.name] = np.where(broken, b.raised(low + unit), high)

    # --- whether they hold -----------------------------------------------------------------------

    def held(self, found: Values, rule: Rule) -> np.ndarray:
        """Where a rule holds, bool (rows,)."""
        every = (*self.orders, *self.sums.values(), *self.others)
        kept = [each.holds(found) for each in every if each.rule == rule]
        return np.logical_and.reduce(kept)

    def keeps(self, found: Values) -> np.ndarray:
        """Where all rules hold, bool (rows,)."""
        kept = [self.held(found, rule) for rule in self.rules]
        return np.logical_and.reduce([np.ones(len(found.rows), dtype=bool), *kept])

    def shares(self, values: Mapping[str, pd.Series]) -> dict[str, float]:
        """Rule -> share of rows in which it holds. values: modelled columns, before distances."""
        frame = pd.DataFrame(values)
        found = Values(frame, self._amounts(frame, plain=True))
        return {str(rule): float(self.held(found, rule).mean()) for rule in self.rules}

    def _check_together(self) -> None:
        """BadInput where rows at random cannot be made to keep all rules."""
        if not self.rules:
            return
        rng = np.random.default_rng(0)
        values: dict[str, Any] = {}
        for column in self.columns:
            for part in parts_of(self.modelled(column)):
                if part.kind == "categorical":
                    codes = rng.integers(len(part.categories), size=TRIED)
                    values[part.name] = pd.Categorical.from_codes(codes, list(part.categories))
                else:
                    drawn = rng.uniform(part.low, part.high, TRIED)
                    values[part.name] = np.rint(drawn) if part.integer else drawn
        rows, amounts = self.to_file(pd.DataFrame(values))
        found = Values(rows, amounts)
        for rule in self.rules:
            if not self.held(found, rule).all():
                raise BadInput(
                    f"schema: rule {str(rule)!r} cannot hold together with the others and the "
                    "declared ranges; remove one of them, or widen a range."
                )


def _unit(column: FileColumn) -> float:
    """Return the least distance between two of its values; 0 where there is none."""
    decimals = 0 if column.kind in TIMES else _decimals(column)
    return 10.0**-decimals if np.isfinite(decimals) else 0.0


def _decimals(column: FileColumn) -> float:
    """How many decimals its numbers may have."""
    if column.whole or column.kind in TIMES:
        return 0
    return np.inf if column.decimals is None else column.decimals


def rule_from(entry: Any, name: str) -> Rule:
    """Return a rule from an entry of a file; BadInput for an entry of another type."""
    if not isinstance(entry, Mapping):
        raise BadInput(f"{name}: write [[rule]] for each rule; {KINDS}.")
    said: dict[str, Any] = {}
    for key, value in entry.items():
        must = ""
        said[key] = value
        if key not in ENTRIES:
            raise BadInput(
                f"{name}: rule has unknown entry {key!r}{closest(key, ENTRIES)}; use "
                f"{', '.join(ENTRIES)}."
            )
        if key == "groups":
            lists = list(value.values()) if isinstance(value, Mapping) else [None]
            right = all(isinstance(each, list) and _are_texts(each) for each in lists)
            must = "" if right else 'a table such as { CT = ["06856"] }'
            said[key] = (
                tuple((label, tuple(each)) for label, each in value.items()) if right else ()
            )
        elif key == "follows_from":
            names = [value] if isinstance(value, str) else value
            right = isinstance(names, list) and bool(names) and _are_texts(names)
            must = "" if right else "a name, or a list of names"
            said[key] = tuple(names) if right else ()
        elif not isinstance(value, str):
            must = "text in quotation marks"
        if must:
            raise BadInput(f"{name}: rule has {key} = {value!r}; it must be {must}.")
    return Rule(**said)


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(each, str) for each in values)
