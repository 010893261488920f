"""The form of a table: which columns its file has, in which order, written how.

`to_model` gives the rows that methods work on, `to_file` brings synthetic ones back into the form
of the file. A form is declared in a TOML file, one `[[column]]` each (see `schemas/adult.toml`, and
`kinds.FileColumn` for what may be said of one); it is public, as a schema is.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from datetime import date, time
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, BadRows
from fedsynth_lib.core.errors import checked_rows
from fedsynth_lib.tables.encode import NO_VALUE, EqualWidthBins
from fedsynth_lib.tables.kinds import (
    OPEN,
    OTHER,
    FileColumn,
    Gaps,
    is_formula,
    parts_of,
    plain,
    refuse_first,
)
from fedsynth_lib.tables.moments import FORMATS, TIMES, moment_text
from fedsynth_lib.tables.rules import Rule, Rules, rule_from
from fedsynth_lib.tables.schema import (
    READ_FROM_ROWS,
    Column,
    Schema,
    closest,
    read_toml,
    require_columns,
    validate,
)

# what an entry of a column must be, beside text in quotation marks
YES_OR_NO = ("integer", "short_whole", "ordered", "keep", "from_rows", "ignore")
TEXTS, LIMITS = ("categories", "missing", "below", "above"), ("low", "high")
NUMBERS = ("heaps", "steps")  # or moments
NUMBER, MOMENT = (int, float), (str, date, time)
SHAPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys((*LIMITS, "step"), (NUMBER, "a number")),
    **dict.fromkeys(NUMBERS, (NUMBER, "a list of numbers")),
    "decimals": ((int,), "a whole number"),
    **dict.fromkeys(YES_OR_NO, ((bool,), "true or false")),
    **dict.fromkeys(TEXTS, ((str,), "a list of texts, each in quotation marks")),
}
ENTRIES = {*(each.name for each in fields(FileColumn)), "ignore"} - {"is_open"}
OPEN_LIST = "open"  # what a file has instead of a list of categories that nobody knows
MOST_BESIDE = 32  # bins beside several levels that stand apart
# the parts of a file, and what [table] may say: of registered tables more than of one's own
PARTS = ("table", "column", "rule", "reader", "file", "work")
ABOUT = (
    *("target", "source", "title", "page", "licence", "notes", "folder", "files", "otherwise"),
    *("drop", "generated", "unit", "most_rows"),
)

# entries of a column that say how its values are written, or what is modelled of them
WAYS_OF_WRITING = (
    *("integer", "decimals", "written", "short_whole", "scale", "step"),
    *(
        "steps",
        "heaps",
        "format",
        "missing",
        "below",
        "above",
        "ordered",
        "pattern",
        "value",
        "type",
    ),
)


@dataclass(frozen=True)
class Form:
    """The columns of a file, in its order, and the name of the target column.

    ignored: columns of the file that are left out, besides those whose kind says so.
    rules: between columns, which every synthetic row keeps.
    unit, most_rows: the column that says which person a row is of, and how many rows of a person
        count, where the unit of privacy is a person; '' where it is a row.
    """

    columns: tuple[FileColumn, ...]
    target: str | None = None
    ignored: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    unit: str = ""
    most_rows: int = 0

    def __post_init__(self):
        """Check the rules and the unit of privacy."""
        _ = self.between  # a rule that means nothing is said now
        if not self.unit and self.most_rows:
            raise BadInput("schema: most_rows is of persons: write unit, too, or remove it.")
        if self.unit:
            checked_rows(self.most_rows, f"schema: unit is {self.unit!r}, and most_rows")
            if self.unit not in self.left_out:
                raise BadInput(
                    f"schema: the unit {self.unit!r} must be a column of kind 'identifier' without "
                    "a pattern: no synthetic row is a person's."
                )

    def of_persons(self, unit: str, most_rows: int) -> "Form":
        """Return the form with this unit of privacy; BadInput where it has another one."""
        if (self.unit, self.most_rows) not in (("", 0), (unit, most_rows)):
            raise BadInput(
                f"unit is {unit!r} with {most_rows} rows, and the schema says {self.unit!r} with "
                f"{self.most_rows}; change it there, or leave unit out."
            )
        return replace(self, unit=unit, most_rows=most_rows)

    @cached_property
    def between(self) -> Rules:
        """Its rules between columns."""
        return Rules(self.columns, self.rules)

    @classmethod
    def of(cls, schema: Schema) -> "Form":
        """Return the form of a file that has the schema's columns as they are."""
        return cls(tuple(map(plain, schema.columns)), schema.target)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> FileColumn:
        """Return the column of this name."""
        return self.between.known[name]

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of categories."""
        return tuple(c.name for c in self.columns if c.kind in ("categorical", "boolean"))

    @property
    def open(self) -> tuple[str, ...]:
        """The columns whose categories nobody knows beforehand."""
        return tuple(column.name for column in self.columns if column.is_open)

    def refuse_open(self, where: str, what: str) -> None:
        """Raise BadInput, with what cannot be, for a form with open columns."""
        if self.open:
            raise BadInput(
                f"{where}: column {self.open[0]!r} is open, and {what}; declare its categories."
            )

    @property
    def questions(self) -> tuple[str, ...]:
        """The columns about which a draft asks, and nobody has answered yet."""
        columns = [c.name for c in self.columns if c.question and not c.keep]
        return (*columns, *(str(rule) for rule in self.rules if rule.question))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The declared columns that synthetic rows do not have."""
        kinds = ("identifier", "text")
        dropped = (c.name for c in self.columns if c.kind in kinds and not c.pattern)
        return (*self.ignored, *dropped)

    @property
    def kept(self) -> list[FileColumn]:
        """The columns that synthetic rows have."""
        return [column for column in self.columns if column.name not in self.left_out]

    @property
    def unsourced(self) -> list[str]:
        """The modelled columns whose declaration does not say where it is documented."""
        return [c.name for c in self.columns if c.modelled is not None and not c.source]

    @property
    def ways_of_writing(self) -> dict[str, list[str]]:
        """Entry -> the columns of synthetic rows of which it is declared.

        Entries are decimals, format, scale and so on, but not ranges and categories. A draft reads
        these from rows.
        """
        kept = self.kept
        found = {entry: [c.name for c in kept if getattr(c, entry)] for entry in WAYS_OF_WRITING}
        found["decimals"] = [c.name for c in kept if c.decimals is not None and not c.written]
        found["step"] = [c.name for c in kept if c.step is not None]
        found["scale"] = [c.name for c in kept if c.scale != "linear"]
        return {entry: names for entry, names in found.items() if names}

    @property
    def public(self) -> list[str]:
        """What a statement names of the form as treated as public, beside ranges and categories.

        How each column is written, and what no synthetic row has.
        """
        lines = [
            f"as the schema declares it, {entry} of {', '.join(map(repr, names))}"
            for entry, names in self.ways_of_writing.items()
        ]
        lines += [
            f"the rule that {rule}: every synthetic row is made to keep it, which costs no epsilon"
            + (", and so is each row that is learned from" * self.between.moves(rule))
            for rule in self.rules
        ]
        if self.left_out:
            gone = ", ".join(map(repr, self.left_out))
            lines.append(f"that the table has columns that are left out: {gone}")
        if self.formulas:
            run = ", ".join(map(repr, self.formulas))
            lines.append(
                "texts that a spreadsheet runs as a formula, unless the file has an apostrophe "
                f"before them: {run}"
            )
        return lines

    @property
    def formulas(self) -> list[str]:
        """The texts in synthetic rows that a spreadsheet would run."""
        texts = [
            text
            for c in self.kept
            for text in (c.name, *c.categories, *c.codes, c.value, c.pattern)
        ]
        return [text for text in dict.fromkeys(texts) if is_formula(text)]

    @cached_property
    def schema(self) -> Schema:
        """The columns that methods see."""
        columns: list[Column] = []
        for column in self.columns:
            columns += parts_of(self.between.modelled(column))
        for gaps in self.gaps:
            if gaps.missing.name in self.names:
                raise BadInput(
                    f"schema: column {gaps.number.name!r} has rows that stand apart, of which a "
                    f"column {gaps.missing.name!r} keeps account; rename the one of the file."
                )
        if not columns:
            raise BadInput("schema: no column is modelled; declare one numeric or categorical.")
        return Schema(tuple(columns), self.target)

    @property
    def gaps(self) -> tuple[Gaps, ...]:
        """The numeric columns some of whose rows stand apart: gaps, and values of a heap."""
        found = map(self.between.modelled, self.columns)
        return tuple(each for each in found if isinstance(each, Gaps))

    def to_model(
        self, raw: pd.DataFrame, name: str, moved: list[str] | None = None
    ) -> pd.DataFrame:
        """Return the rows that methods work on, of a frame as the reader gives it.

        moved: as in `schema.numbers_of`.
        Raises BadInput, naming `name`, as `schema.validate`; for columns with gaps that none
        declares, once for all of them.
        """
        values = self.between.to_model(self._parsed(raw, name, moved), name, moved)
        return validate(pd.DataFrame(values, index=raw.index), self.schema, name)

    def _parsed(
        self, raw: pd.DataFrame, name: str, moved: list[str] | None
    ) -> dict[str, pd.Series]:
        kept = [column for column in self.columns if column.modelled is not None]
        require_columns(raw, [column.name for column in kept], name)
        self._refuse_gaps(raw, kept, name)
        values: dict[str, pd.Series] = {}
        for column in kept:
            values |= column.parse(raw[column.name], f"{name}: column {column.name!r}", moved)
        return values

    def rules_held(self, raw: pd.DataFrame) -> dict[str, float]:
        """Return for each rule the share of the rows in which it holds.

        raw: a frame as the reader gives it, or as `to_file` does.
        """
        return self.between.shares(self._parsed(raw, "rules", [])) if self.rules else {}

    def _refuse_gaps(self, raw: pd.DataFrame, columns: Iterable[FileColumn], name: str) -> None:
        counts = {c.name: int(c.gaps(raw[c.name]).sum()) for c in columns if not c.missing}
        if empty := [each for each, count in counts.items() if 0 < count == len(raw)]:
            raise BadInput(
                f"{name}: column {empty[0]!r} is empty; fill it or remove it from the schema."
            )
        if gaps := {column: count for column, count in counts.items() if count}:
            what = f"{name}: the schema allows no missing values, and they are in column"
            remedy = (
                'give the column missing = [""], with the other texts that stand for a missing '
                "value, or fill them in"
            )
            shown = ", ".join(f"{column!r} ({count})" for column, count in gaps.items())
            raise BadRows(
                f"{what} {shown}; {remedy}.", f"{what} {', '.join(map(repr, gaps))}; {remedy}."
            )

    def to_file(self, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Return synthetic rows as the file has them.

        Its columns, in order, but those that are left out; each value as `FileColumn.restore` says.
        rng: of fresh identifiers.
        """
        rows, amounts = self.between.to_file(rows) if self.rules else (rows, {})
        restored = {c.name: c.restore(rows, rng, amounts.get(c.name)) for c in self.columns}
        return pd.DataFrame(
            {name: values for name, values in restored.items() if values is not None},
            index=rows.index,
        )

    def to_toml(self, notes: Mapping[str, str] | None = None) -> str:
        """Return the form as the text of a file that `form_from` reads.

        notes: name -> a comment.
        """
        said = {"target": self.target, "unit": self.unit, "most_rows": self.most_rows}
        head = [f"{name} = {_toml(value)}" for name, value in said.items() if value]
        parts = ["\n".join(["[table]", *head, ""])]
        for column in self.columns:
            note = (notes or {}).get(column.name, "")
            lines = ["[[column]]", *(f"# {line}" for line in note.splitlines())]
            lines += [f"{key} = {_toml(value)}" for key, value in _said(column)]
            parts.append("\n".join([*lines, ""]))
        parts += [f"[[column]]\nname = {_toml(name)}\nignore = true\n" for name in self.ignored]
        parts += [_rule_toml(rule) for rule in self.rules]
        return "\n".join(parts)

    def in_order_of(self, names: Iterable[str]) -> "Form":
        """Return the form with its columns in the order of a file; those that it lacks last."""
        place = {name: number for number, name in enumerate(names)}
        order = sorted(self.columns, key=lambda column: place.get(column.name, len(place)))
        return replace(self, columns=tuple(order))


# --- gaps, for methods that count -----------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """A table as methods that count see it, with one column for each number with gaps or heaps.

    That column has bins, and a level more for gaps and for each heap. It takes the place of a
    number and a column that says as what a row stands apart. So the number of gaps, and what goes
    along with them, is counted with what was cut into bins; with two columns it would be known only
    where both were counted together.

    edges: name -> edges of the bins of each such column.
    """

    schema: Schema
    gaps: tuple[Gaps, ...]
    edges: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, form: Form, encoder: Any) -> "Counted | None":
        """By the bins of a method's encoder; None where no row stands apart, or nothing is cut.

        A column with several levels more has at most MOST_BESIDE bins: bins that are so fine that a
        method joins neighbours would be joined with these levels, which are nobody's.
        """
        edges = getattr(encoder, "edges", None)
        if not form.gaps or not edges:
            return None
        chosen = {gaps.number.name: edges[gaps.number.name] for gaps in form.gaps}
        for gaps in form.gaps:
            name = gaps.number.name
            if len(gaps.fills) > 1 and len(chosen[name]) - 1 > MOST_BESIDE:
                chosen[name] = EqualWidthBins(Schema((gaps.number,)), MOST_BESIDE).edges[name]
        return cls(form.schema, form.gaps, chosen)

    @cached_property
    def counted(self) -> Schema:
        """The schema with each pair of columns as one."""
        gone = {gaps.missing.name for gaps in self.gaps}
        pairs = {gaps.number.name: gaps for gaps in self.gaps}
        return Schema(
            tuple(
                self._column(pairs[column.name]) if column.name in pairs else column
                for column in self.schema.columns
                if column.name not in gone
            ),
            self.schema.target,
        )

    def _column(self, gaps: Gaps) -> Column:
        """Return the column of bins and of the levels that stand apart.

        The last of these is NO_VALUE, which methods know to be nobody's neighbour.
        """
        column = gaps.number
        bins = [f"{low:.12g} to {high:.12g}" for low, high in pairwise(self.edges[column.name])]
        numbered = (f"{number}: {text}" for number, text in enumerate(bins))
        return Column(
            column.name,
            "categorical",
            categories=(*numbered, *gaps.missing.categories[1:-1], NO_VALUE),
            source=column.source,
            from_rows=column.from_rows,
        )

    def _bins(self, gaps: Gaps) -> EqualWidthBins:
        name = gaps.number.name
        return EqualWidthBins(Schema((gaps.number,)), len(self.edges[name]) - 1)

    def join(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of the form's schema as rows of `counted`."""
        joined = {}
        for gaps in self.gaps:
            name, levels = gaps.number.name, self.counted[gaps.number.name].categories
            codes, apart = self._bins(gaps).transform(rows[[name]])[:, 0], gaps.codes(rows)
            codes = np.where(apart > 0, len(self.edges[name]) - 2 + apart, codes)
            joined[name] = pd.Categorical.from_codes(codes, categories=list(levels))
        return rows.assign(**joined)[list(self.counted.names)]

    def part(self, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """And back: numbers are drawn within their bins."""
        parted = {}
        for gaps in self.gaps:
            name = gaps.number.name
            codes = rows[name].cat.codes.to_numpy()
            apart = np.maximum(codes - (len(self.edges[name]) - 2), 0)
            inside = self._bins(gaps).inverse(np.where(apart, 0, codes)[:, None], rng)[name]
            values = np.where(apart, np.array([0.0, *gaps.fills])[apart], inside)
            parted[name] = values.astype(np.int64) if gaps.number.integer else values
            parted[gaps.missing.name] = pd.Categorical.from_codes(
                apart, categories=list(gaps.missing.categories)
            )
        return rows.assign(**parted)[list(self.schema.names)]


# --- a form in a file -----------------------------------------------------------------------------


def form_from(document: Mapping[str, Any], name: str) -> Form:
    """Return the form in a parsed file.

    Raises BadInput, naming the column, for an entry of another type than it must have, an unknown
    one, or a declaration that means nothing.
    """
    table, entries = document.get("table", {}), document.get("column", [])
    reader, rules = document.get("reader", {}), document.get("rule", [])
    refuse_first(
        f"{name}:",
        (
            not isinstance(table, Mapping) or not isinstance(entries, list),
            "write [table] once, and [[column]] for each column.",
        ),
        (not isinstance(reader, Mapping), "write [reader] once, in single brackets."),
        (not isinstance(rules, list), "write [[rule]] for each rule."),
    )
    target, source = table.get("target"), table.get("source", "")
    for what, said, known in (("part", document, PARTS), ("entry of [table]", table, ABOUT)):
        if unknown := [each for each in said if each not in known]:
            raise BadInput(
                f"{name}: {what} {unknown[0]!r} is unknown{closest(unknown[0], known)}; correct "
                "its name."
            )
    unit, most_rows = table.get("unit", ""), table.get("most_rows", 0)
    for what, value in (("target", target), ("source", source), ("unit", unit)):
        if value is not None and not isinstance(value, str):
            raise BadInput(f"{name}: {what} is {value!r}; write a name in quotation marks.")
    columns, ignored = [], []
    for entry in entries:
        column = _column(entry, source, name)
        if isinstance(column, FileColumn):
            columns.append(column)
        else:
            ignored.append(column)
    refuse_first(
        f"{name}:",
        (
            not columns,
            "no [[column]] is declared; see fedsynth_lib/tables/schemas/adult.toml for an example.",
        ),
        (target in ignored, f"the target {target!r} is ignored; name another one, or none."),
    )
    try:
        read = tuple(rule_from(each, name) for each in rules)
        return Form(tuple(columns), target, tuple(ignored), read, unit, most_rows)
    except BadInput as error:
        raise BadInput(str(error).replace("schema:", f"{name}:", 1)) from error


def _said(column: FileColumn) -> Iterable[tuple[str, Any]]:
    """Return the entries that a file has to have for a column."""
    for each in fields(column):
        value = getattr(column, each.name)
        if column.is_open and each.name in ("categories", "is_open"):
            if each.name == "is_open":
                yield "categories", OPEN_LIST
            continue
        derived = (
            (column.is_open and value == {"other": OTHER, "source": OPEN}.get(each.name))
            or (each.name == "from_rows" and column.source == READ_FROM_ROWS)
            or (each.name == "decimals" and bool(column.written))
            or (each.name == "format" and value == FORMATS.get(column.kind))
        )
        if each.default is MISSING or (value != each.default and not derived):
            yield each.name, value


def _rule_toml(rule: Rule) -> str:
    """Return a rule as a file has it."""
    lines = [
        f"{each.name} = {_toml(getattr(rule, each.name))}"
        for each in fields(rule)
        if each.name != "groups" and getattr(rule, each.name)
    ]
    groups = [f"{_toml(label)} = {_toml(values)}" for label, values in rule.groups]
    return "\n".join(["[[rule]]", *lines, *["[rule.groups]"] * bool(groups), *groups, ""])


def _toml(value: Any) -> str:
    """JSON is TOML, as long as nothing outside the basic plane is escaped."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _column(entry: Any, source: str, name: str) -> FileColumn | str:
    """Return a column, or the name of one that is ignored."""
    called = entry.get("name") if isinstance(entry, Mapping) else None
    if not isinstance(called, str):
        raise BadInput(f'{name}: a [[column]] has no name in quotation marks; write name = "...".')
    where = f"{name}: column {called!r}"
    is_open = isinstance(entry, Mapping) and entry.get("categories") == OPEN_LIST
    entry = {k: v for k, v in entry.items() if not is_open or k != "categories"}
    for key, value in entry.items():
        if key not in ENTRIES:
            raise BadInput(
                f"{where} has unknown entry {key!r}{closest(key, ENTRIES)}; use "
                f"{', '.join(sorted(ENTRIES))}."
            )
        if must := _must_be(key, value, entry.get("kind")):
            shown = str(value).lower() if isinstance(value, bool) else repr(value)
            raise BadInput(f"{where} has {key} = {shown}; it must be {must}.")
    if entry.get("ignore"):
        return called
    if "kind" not in entry:
        raise BadInput(f'{where} has no kind; write one, such as kind = "numeric".')
    chosen = {
        "source": source,
        "is_open": is_open,
        **{key: v for key, v in entry.items() if key != "ignore"},
    }
    form = chosen.get("format") or FORMATS.get(chosen["kind"], "")

    def in_form(value: Any) -> Any:  # TOML knows dates and times
        return moment_text(value, form) if isinstance(value, date | time) else value

    for key in (*TEXTS, *NUMBERS):
        chosen[key] = tuple(map(in_form, chosen.get(key, ())))
    for key in LIMITS:
        chosen[key] = in_form(chosen.get(key))
    try:
        return FileColumn(**chosen)
    except BadInput as error:
        raise BadInput(str(error).replace("schema:", f"{name}:", 1)) from error


def _must_be(key: str, value: Any, kind: Any) -> str:
    """Return what a wrong entry must be; '' where it is right."""
    types, must = SHAPES.get(key, ((str,), "text in quotation marks"))
    if kind in TIMES and key in LIMITS:
        types, must = MOMENT, f"a {kind} in quotation marks"
    if kind in TIMES and key in NUMBERS:
        types, must = MOMENT, f"a list of {kind}s, each in quotation marks"
    is_list = key in (*TEXTS, *NUMBERS)
    values = value if isinstance(value, list) else [value]
    right = is_list == isinstance(value, list) and all(_is_of(each, types) for each in values)
    return "" if right else must


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    """Whether a value is of these types; a truth value is not a number, nor is infinity."""
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types) and (isinstance(value, MOMENT) or bool(np.isfinite(value)))


def read_form(path: str | Path) -> Form:
    """Return the form in a TOML file; BadInput where it cannot be read or declares nothing."""
    return form_from(read_toml(path), str(path))


def read_schema(path: str | Path) -> Schema:
    """Return the schema in a TOML file, as `read_form`."""
    return read_form(path).schema
