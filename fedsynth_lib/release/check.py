"""Whether a synthetic file has the form of the real one, and what analyses come to on both.

The form is the names, order, types, ranges and gaps of columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.release import analyses
from fedsynth_lib.release.open_levels import with_levels
from fedsynth_lib.tables.container import Container, Source
from fedsynth_lib.tables.files import NOT_A_NUMBER
from fedsynth_lib.tables.kinds import FileColumn, as_texts
from fedsynth_lib.tables.load import Table

OF_FILES = ("kind", "separator", "encoding", "header")  # of a `Container`
FAR = 0.1  # between two shares of missing values: noise makes less of a difference as a rule


FORM_ALONE = (
    "the form is the same: names, types, ranges and gaps. That is no word on whether an analysis "
    "comes to the same: name yours (check --analysis 'y ~ a + b', analyses=[...]), and look at the "
    "scores and at the columns that were measured together, which the statement lists"
)


@dataclass(frozen=True)
class Checked:
    """What a check has found, for the owner of the real rows alone.

    form: as `compare_form`. analyses: as `analyses.compare`, of all that were named.
    """

    form: pd.DataFrame
    analyses: pd.DataFrame

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each result of an analysis."""
        return self.analyses["verdict"].tolist()

    @property
    def differing(self) -> int:
        """How many lines of the form differ."""
        return int((self.form["differs"] != "").sum())

    def __str__(self) -> str:
        """Write the lines as text."""
        parts = [self.form.to_string(na_rep="", float_format="{:.1%}".format)]
        parts += [f"{self.differing} lines differ" if self.differing else FORM_ALONE]
        if len(self.analyses):
            numbers = self.analyses.drop(columns="verdict")
            parts += ["", numbers.to_string(index=False, float_format="{:.4g}".format)]
            parts += ["", *self.verdicts, "", analyses.RULE]
        return "\n".join(parts)

    def __repr__(self) -> str:
        """Write the lines as text."""
        return str(self)


def checked(table: Table, path: Source, wanted: Sequence[str] = ()) -> Checked:
    """Return the form and these analyses of a real table and of a synthetic file or DataFrame."""
    plans = [analyses.read(text) for text in wanted]
    table = _with_levels_of(table, path)
    form = compare_form(table, path)
    found = [analyses.compare(plan, table, path) for plan in plans]
    return Checked(form, pd.concat(found, ignore_index=True) if found else analyses.NONE)


def _with_levels_of(table: Table, path: Source) -> Table:
    """Return the real table with the levels of open columns that the synthetic rows have."""
    if not table.form.open:
        return table
    kept = table.form.kept
    raw = Container.of(path).raw(path, [column.name for column in kept])
    opened = [column for column in kept if column.is_open and column.name in raw]
    return with_levels(table, {c.name: sorted(set(c.labels(raw[c.name]))) for c in opened})


def compare_form(table: Table, path: Source) -> pd.DataFrame:
    """Return a line for each column of a real table's file that synthetic rows should have.

    kind: as declared. missing, missing here: the shares of rows without a value, in the real file
    and in the one at `path`. differs: in words what is not as it should be; '' where all is well.
    The line '(file)' is about the file as a whole. All of it is computed from the real rows,
    without noise: it is for whoever has them.
    """
    made = Container.of(path)
    form, real = table.form, table.container
    expected = form.kept
    numbers = {c.name: (*NOT_A_NUMBER, *c.missing) for c in expected if not c.is_text}
    raw = made.raw(path, [column.name for column in expected], numbers)
    lines = {"(file)": ("", np.nan, np.nan, _file(real, made, expected, list(raw)))}
    for column in expected:
        if column.name in raw:
            lines[column.name] = _column(column, table, raw[column.name], made)
    names = ["kind", "missing", "missing here", "differs"]
    return pd.DataFrame.from_dict(lines, "index", columns=names).rename_axis("column")


def _file(real: Container, made: Container, expected: list[FileColumn], found: list[str]) -> str:
    """Return what is wrong with the file as a whole."""
    names = [column.name for column in expected]
    of_files = () if real.in_memory or made.in_memory else OF_FILES
    parts = [
        f"{what} is {getattr(made, what)!r}, not {getattr(real, what)!r}"
        for what in of_files
        if getattr(made, what) != getattr(real, what)
    ]
    parts += [f"there is no column {name!r}" for name in names if name not in found]
    parts += [f"there is a column {name!r}, which is none" for name in found if name not in names]
    if not parts and found != names:
        parts = ["the columns are in another order"]
    return "; ".join(parts)


def _column(
    column: FileColumn, table: Table, raw: pd.Series, made: Container
) -> tuple[str, float, float, str]:
    real_gaps, parts = column.missing_share(table.frame), []
    gaps = column.gaps(raw) if column.modelled is not None else np.zeros(len(raw), bool)
    share = float(gaps.mean())
    if gaps.any() and not column.missing:
        parts.append("there are missing values")
    elif abs(share - real_gaps) > FAR:
        parts.append(f"{share:.0%} of the values are missing, not {real_gaps:.0%}")
    if not gaps.any() or column.missing:
        parts += _values(column, raw)
    if made.types is not None and table.container.types is not None:
        fields = [file.types.field(column.name) for file in (made, table.container)]
        types = [(field.metadata or {}).get(b"dtype", b"").decode() for field in fields]
        if not all(types):  # of a DataFrame both have one
            types = [field.type for field in fields]
        if types[0] != types[1]:
            parts.append(f"its type is {types[0]}, not {types[1]}")
    kind = column.kind
    if column.other:
        others = float((as_texts(raw) == column.other).mean())
        kind += f"; {others:.1%} here are {column.other!r}"
    return kind, real_gaps, share, "; ".join(parts)


def _values(column: FileColumn, raw: pd.Series) -> list[str]:
    """Return what its own declaration does not allow.

    The texts leave out the column's name, which the line has.
    """
    if column.modelled is None:
        return _repeated(column, raw)
    try:
        column.check(raw)
    except BadInput as error:
        return [str(error).strip(": ").split("; ")[0]]
    return []


def _repeated(column: FileColumn, raw: pd.Series) -> list[str]:
    if column.kind == "constant":
        found = set(raw.astype(object).where(raw.notna(), "").astype(str))
        return [] if found <= {column.value} else ["it has other values"]
    return ["an identifier is there twice"] if raw.astype(str).duplicated().any() else []
