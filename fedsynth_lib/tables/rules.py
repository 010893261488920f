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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.kinds import NOT_MODELLED, FileColumn, Gaps
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
        if self.holds:
            return self.holds
        if self.follows_from:
            return f"{self.column} follows from {' and '.join(self.follows_from)}"
        return f"{self.column} is empty unless {self.empty_unless}"


@dataclass
class Values:
    """Rows as rules see them. amounts: of numbers, dates and times, as `FileColumn.amounts`; rows:
    as methods see them, of which categories, and what stands apart, count."""

    rows: pd.DataFrame
    amounts: dict[str, np.ndarray]


@dataclass(frozen=True)
class Rules:
    """The rules of a form. Raises BadInput, in one sentence, for one that means nothing, and for
    several that cannot hold together."""

    columns: tuple[FileColumn, ...]
    rules: tuple[Rule, ...]
    # (lesser, greater, whether they may be equal, rule)
    orders: list[tuple[str, str, bool, Rule]] = field(default_factory=list, init=False)
    sums: dict[str, tuple[tuple[str, ...], Rule]] = field(default_factory=dict, init=False)

    def __post_init__(self):
        for rule in self.rules:
            self._read(rule)
        _ = self.order
        self._check_together()

    @cached_property
    def known(self) -> dict[str, FileColumn]:
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
            for name in rule.follows_from:
                self._column(name, rule)
                if name == rule.column:
                    self._refuse(rule, "lets a column follow from itself.")
            return self._check_groups(rule, column)
        self._condition(rule)
        if not column.missing and not rule.code:
            self._refuse(
                rule, f'needs a way to write an empty cell: give {rule.column!r} missing = [""].'
            )
        if rule.code and rule.code not in (*column.missing, *column.categories):
            self._refuse(rule, f"has code = {rule.code!r}, which {rule.column!r} does not declare.")
        return None

    def _terms(self, text: str) -> tuple[list[str], list[str]]:
        """The names in a rule and the marks between them; a name may hold a mark."""
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
            self.orders.append((lesser, greater, mark == "<=", rule))

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
        if total in self.sums:
            self._refuse(rule, f"says what {total!r} is, and so does {str(self.sums[total][1])!r}.")
        if whole.step is not None or whole.steps:
            self._refuse(rule, f"leaves no steps to {total!r}: delete its step, or its steps.")
        finest = [_decimals(column) for column in numbers]
        if _decimals(whole) < max(finest, default=0):
            self._refuse(
                rule,
                f"has parts with more decimals than {total!r}: declare decimals of all of them.",
            )
        lows, highs = zip(*(column._limits for column in columns), strict=True)
        if sum(lows) > whole._limits[1] or sum(highs) < whole._limits[0]:
            self._refuse(rule, f"cannot hold: its parts are never within the range of {total!r}.")
        self.sums[total] = tuple(parts), rule

    def _check_groups(self, rule: Rule, column: FileColumn) -> None:
        if not rule.groups:
            return
        if len(rule.follows_from) > 1 or column.kind not in ("categorical", "boolean"):
            self._refuse(rule, "has groups, which are of one column and of categories.")
        labels = _labels(column)
        for label, _ in rule.groups:
            if label not in labels:
                near = closest(label, labels)
                self._refuse(rule, f"has {label!r} in groups, which is not a category{near}.")
        listed = [value for _, values in rule.groups for value in values]
        if len(set(listed)) < len(listed):
            twice = next(value for value in listed if listed.count(value) > 1)
            self._refuse(rule, f"has {twice!r} in two of its groups; remove one.")
        source = self.known[rule.follows_from[0]]
        if source.kind in ("categorical", "boolean"):
            for value in listed:
                if value not in (known := _labels(source)):
                    near = closest(value, known)
                    self._refuse(
                        rule,
                        f"has {value!r} in groups, which {source.name!r} does not declare{near}.",
                    )

    def _condition(self, rule: Rule) -> tuple[str, Any, str | float]:
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
            if value not in (labels := _labels(column)):
                near = closest(value, labels)
                self._refuse(rule, f"names {value!r}, which is not a category of {name!r}{near}.")
            return name, COMPARED[mark], value
        if column.kind in TIMES:
            number = float(column.moments.numbers(pd.Series([value]))[0])
        else:
            number = float(pd.to_numeric(value, errors="coerce"))
        if np.isnan(number):
            self._refuse(
                rule, f"compares {name!r} with {value!r}, which is not a {column.kind} value."
            )
        return name, COMPARED[mark], number

    # --- in which order columns are settled ------------------------------------------------------

    @cached_property
    def bases(self) -> dict[str, list[tuple[str, bool]]]:
        """Greater column -> the lesser ones, with whether both may be equal: it is learned as its
        distance from the greatest of these. Not a total, which its parts say, and no column each of
        whose values is counted, which would lose their shares: there, rows are repaired."""
        found: dict[str, list[tuple[str, bool]]] = {}
        for lesser, greater, equal, _ in self.orders:
            column = self.known[greater]
            counted = (
                column.steps
                or column.step
                or (column.kind == "numeric" and column.whole and np.ptp(column._limits) < NARROW)
            )
            if not counted and greater not in self.sums and greater not in self._following:
                found.setdefault(greater, []).append((lesser, equal))
        return found

    def moves(self, rule: Rule) -> bool:
        """Whether real rows that break it are moved before a method learns from them."""
        return any(each == rule and greater in self.bases for _, greater, _, each in self.orders)

    @property
    def _following(self) -> set[str]:
        return {rule.column for rule in self.rules if rule.follows_from}

    @cached_property
    def order(self) -> list[str]:
        """The columns of rules, those first on which others depend."""
        graph: dict[str, set[str]] = {}
        for greater, bases in self.bases.items():
            graph.setdefault(greater, set()).update(lesser for lesser, _ in bases)
        for total, (parts, _) in self.sums.items():
            graph.setdefault(total, set()).update(parts)
        for rule in self.rules:
            if rule.column:
                on = rule.follows_from or (self._condition(rule)[0],)
                graph.setdefault(rule.column, set()).update(on)
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle = ", ".join(map(repr, dict.fromkeys(error.args[1])))
            raise BadInput(
                f"schema: the rules of {circle} go in a circle; remove one of them."
            ) from error

    # --- there: before a method learns -----------------------------------------------------------

    def modelled(self, column: FileColumn) -> Column | Gaps | None:
        """The column as methods see it: one that is never below others as its distance from these,
        in its logarithm, since most distances are small beside the range."""
        plain = column.modelled
        if column.name not in self.bases:
            return plain
        top = float(np.log1p(self._span(column) / self._scale(column)))
        number = Column(column.name, "numeric", 0.0, top, **column.says)
        if isinstance(plain, Gaps):
            return Gaps(number, plain.missing, (top / 2,) * len(plain.fills))
        return number

    def _span(self, column: FileColumn) -> float:
        lows = [self.known[lesser]._limits[0] for lesser, _ in self.bases[column.name]]
        return column._limits[1] - min(*lows, column._limits[0])

    def _scale(self, column: FileColumn) -> float:
        return max(_unit(column), self._span(column) / FINEST)

    def _base(self, column: FileColumn, amounts: Mapping[str, np.ndarray]) -> np.ndarray:
        """From where the distance of a column counts; the start of its range where no lesser column
        has a value."""
        found = [
            amounts[lesser] + (0 if equal else _unit(column))
            for lesser, equal in self.bases[column.name]
        ]
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
            others = " and ".join(repr(lesser) for lesser, _ in self.bases[name])
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
            for lesser, greater, equal, _ in self.orders:
                self._repair(lesser, greater, equal, found)
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
        """A column, when those on which it depends are settled. learned: distances, at first."""
        column = self.known[name]
        if learned is not None and name in self.bases:
            plain = column.modelled
            numbers = np.expm1(learned[name].to_numpy(float)) * self._scale(column)
            amounts = column.settled(self._base(column, found.amounts) + numbers)
            if isinstance(plain, Gaps):
                apart = plain.codes(learned)
                amounts = np.where(apart > 0, column.apart[apart], amounts)
            found.amounts[name] = amounts
            for lesser, equal in self.bases[name]:
                self._repair(lesser, name, equal, found)
        if name in self.sums:
            self._add_up(name, found)
        for rule in self.rules:
            if rule.column == name and rule.follows_from:
                self._follow(rule, found)
            elif rule.column == name:
                self._empty(rule, found)

    def _repair(self, lesser: str, greater: str, equal: bool, found: Values) -> None:
        """Raise the greater one, or, where it is a total or at its end, lower the lesser one."""
        a, b = self.known[lesser], self.known[greater]
        unit = 0.0 if equal else _unit(b)
        low, high = found.amounts[lesser], found.amounts[greater]
        broken = low + unit > high
        if greater in self.bases:
            found.amounts[greater] = high = np.where(broken, b.raised(low + unit), high)
            broken = low + unit > high
        found.amounts[lesser] = low = np.where(broken, a.lowered(high - unit), low)
        broken = low + unit > high
        if broken.any() and greater not in self.sums and greater not in self._following:
            found.amounts[greater] = np.where(broken, b.raised(low + unit), high)

    def _add_up(self, total: str, found: Values) -> None:
        parts, _ = self.sums[total]
        column, amounts = self.known[total], found.amounts
        low, high = column._limits
        there = ~np.isnan(amounts[total])
        excess = sum(amounts[part] for part in parts)
        excess = np.where(there, excess - np.clip(excess, low, high), 0)
        for part in parts:  # what lies beyond the range of the total is taken from them in turn
            ends = self.known[part]._limits
            taken = np.clip(amounts[part] - excess, *ends)
            changed = self.known[part].settled(taken)
            changed = np.where(np.nan_to_num(excess) == 0, amounts[part], changed)
            excess = excess - (amounts[part] - changed)
            amounts[part] = changed
        added = sum(amounts[part] for part in parts)
        decimals = _decimals(column)
        added = np.round(added, int(decimals)) if np.isfinite(decimals) else added
        amounts[total] = np.where(there & ~np.isnan(added), added, amounts[total])

    def _follow(self, rule: Rule, found: Values) -> None:
        """The value that the declaration says, or else that of most rows which agree in what it
        follows from."""
        _, donor = self._usual(rule, found)
        for name in self._parts(rule.column):
            found.rows[name] = found.rows[name].array[donor]
        if rule.column in found.amounts:
            found.amounts[rule.column] = found.amounts[rule.column][donor]
        if rule.groups:
            said = {value: label for label, values in rule.groups for value in values}
            labels = self._shown(rule.follows_from[0], found).astype(str).map(said)
            known = labels.notna().to_numpy()
            column = found.rows[rule.column].astype(object)
            column[known] = labels[known].to_numpy()
            categories = found.rows[rule.column].cat.categories
            found.rows[rule.column] = pd.Categorical(column, categories=categories)

    def _usual(self, rule: Rule, found: Values) -> tuple[np.ndarray, np.ndarray]:
        """(a number for the value of each row, a row that has the value of most rows which agree in
        what it follows from); the first of equally many."""
        on = pd.DataFrame({name: self._shown(name, found) for name in rule.follows_from})
        group = on.groupby(list(on), sort=False, dropna=False).ngroup().to_numpy()
        value = pd.factorize(self._shown(rule.column, found))[0]
        pairs = pd.DataFrame({"group": group, "value": value}).reset_index(names="row")
        counts = pairs.groupby(["group", "value"], sort=False)["row"].agg(["size", "first"])
        most = counts.reset_index().sort_values("size", ascending=False, kind="stable")
        donors = most.drop_duplicates("group").set_index("group")["first"]
        return value, donors.loc[group].to_numpy()

    def _empty(self, rule: Rule, found: Values) -> None:
        empty = ~self._applies(rule, found)
        column = self.known[rule.column]
        code = column.gap_code(rule.code)
        if isinstance(column.modelled, Gaps):
            name = column.modelled.missing.name
            found.amounts[rule.column] = np.where(empty, np.nan, found.amounts[rule.column])
        else:
            name = rule.column
        labels = found.rows[name].astype(object).mask(empty, code)
        found.rows[name] = pd.Categorical(labels, categories=found.rows[name].cat.categories)

    def _applies(self, rule: Rule, found: Values) -> np.ndarray:
        """Where a column may have a value, by its `empty_unless`."""
        name, compare, value = self._condition(rule)
        shown = found.amounts[name] if name in found.amounts else found.rows[name].astype(object)
        return np.asarray(compare(np.asarray(shown), value), dtype=bool)

    def _parts(self, name: str) -> list[str]:
        """The modelled columns of one of the file."""
        plain = self.known[name].modelled
        return [plain.number.name, plain.missing.name] if isinstance(plain, Gaps) else [name]

    def _shown(self, name: str, found: Values) -> pd.Series:
        """Values by which rows agree or not: texts of numbers, of labels, of what stands apart."""
        if name not in found.amounts:
            return found.rows[name].astype(object)
        amounts = pd.Series(found.amounts[name], found.rows.index)
        shown = amounts.map(lambda number: f"{number + 0.0:.12g}")
        plain = self.known[name].modelled
        return (
            shown.mask(amounts.isna(), found.rows[plain.missing.name].astype(object))
            if isinstance(plain, Gaps)
            else shown
        )

    # --- whether they hold -----------------------------------------------------------------------

    def held(self, found: Values, rule: Rule) -> np.ndarray:
        """Where a rule holds, bool (rows,): where one of its values is missing, too."""
        if rule.follows_from:
            value, donor = self._usual(rule, found)
            return value == value[donor]
        if rule.empty_unless:
            return self._applies(rule, found) | self._is_empty(rule, found)
        if rule in [each for _, each in self.sums.values()]:
            total, (parts, _) = next(p for p in self.sums.items() if p[1][1] == rule)
            difference = sum(found.amounts[part] for part in parts) - found.amounts[total]
            size = np.abs(found.amounts[total]) + 1
            return np.isnan(difference) | (np.abs(difference) <= 1e-9 * size)
        kept = np.ones(len(found.rows), dtype=bool)
        for lesser, greater, equal, each in self.orders:
            if each == rule:
                low, high = found.amounts[lesser], found.amounts[greater]
                broken = (low > high) if equal else (low >= high)
                kept &= ~broken
        return kept

    def _is_empty(self, rule: Rule, found: Values) -> np.ndarray:
        column = self.known[rule.column]
        if rule.column in found.amounts:
            return np.isnan(found.amounts[rule.column])
        empty = {*map(column.gap_code, column.missing or ()), rule.code} - {""}
        return found.rows[rule.column].isin(empty).to_numpy()

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
            modelled = self.modelled(column)
            parts = (
                (modelled.number, modelled.missing) if isinstance(modelled, Gaps) else (modelled,)
            )
            for part in filter(None, parts):
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


def _labels(column: FileColumn) -> tuple[str, ...]:
    """The categories that methods see."""
    return column.modelled.categories


def _unit(column: FileColumn) -> float:
    """The least distance between two of its values; 0 where there is none."""
    decimals = 0 if column.kind in TIMES else _decimals(column)
    return 10.0**-decimals if np.isfinite(decimals) else 0.0


def _decimals(column: FileColumn) -> float:
    """How many decimals its numbers may have."""
    if column.whole or column.kind in TIMES:
        return 0
    return np.inf if column.decimals is None else column.decimals


def rule_from(entry: Any, name: str) -> Rule:
    """A rule from an entry of a file. Raises BadInput for an entry of another type."""
    if not isinstance(entry, Mapping):
        raise BadInput(f"{name}: write [[rule]] for each rule; {KINDS}.")
    said: dict[str, Any] = {}
    for key, value in entry.items():
        where = f"{name}: rule"
        if key not in ENTRIES:
            raise BadInput(
                f"{where} has unknown entry {key!r}{closest(key, ENTRIES)}; use "
                f"{', '.join(ENTRIES)}."
            )
        if key == "groups":
            right = isinstance(value, Mapping) and all(
                isinstance(each, list) and _are_texts(each) for each in value.values()
            )
            if not right:
                raise BadInput(
                    f"{where} has groups = {value!r}; it must be a table such as "
                    '{ CT = ["06856"] }.'
                )
            said[key] = tuple((label, tuple(each)) for label, each in value.items())
        elif key == "follows_from":
            values = [value] if isinstance(value, str) else value
            if not isinstance(values, list) or not values or not _are_texts(values):
                raise BadInput(
                    f"{where} has {key} = {value!r}; it must be a name, or a list of names."
                )
            said[key] = tuple(values)
        elif not isinstance(value, str):
            raise BadInput(f"{where} has {key} = {value!r}; it must be text in quotation marks.")
        else:
            said[key] = value
    return Rule(**said)


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(each, str) for each in values)
