"""Does a synthetic file have the form of the real one? Names, order, types, ranges, gaps."""

from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.files import NOT_A_NUMBER
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import Table

FAR = 0.1  # between two shares of missing values: noise makes less of a difference as a rule


def compare_form(table: Table, path: Path) -> pd.DataFrame:
    """A line for each column of a real table's file that synthetic rows should have.

    kind: as declared. missing, missing here: the shares of rows without a value, in the real file
    and in the one at `path`. differs: in words what is not as it should be; '' where all is well.
    The line '(file)' is about the file as a whole. All of it is computed from the real rows,
    without noise: it is for whoever has them.
    """
    made = Container.of(path)
    form, real = table.form, table.container
    expected = [c for c in form.columns if c.name not in form.left_out]
    numbers = {c.name: (*NOT_A_NUMBER, *c.missing) for c in expected if not c.is_text}
    raw = made.raw(path, [column.name for column in expected], numbers)
    lines = {"(file)": ("", np.nan, np.nan, _file(real, made, expected, list(raw)))}
    for column in expected:
        if column.name in raw:
            lines[column.name] = _column(column, table, raw[column.name], made)
    names = ["kind", "missing", "missing here", "differs"]
    return pd.DataFrame.from_dict(lines, "index", columns=names).rename_axis("column")


def _file(real: Container, made: Container, expected: list[FileColumn], found: list[str]) -> str:
    """What is wrong with the file as a whole."""
    names = [column.name for column in expected]
    parts = [
        f"{what} is {getattr(made, what)!r}, not {getattr(real, what)!r}"
        for what in ("kind", "separator", "encoding", "header")
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
        types = [file.types.field(column.name).type for file in (made, table.container)]
        if types[0] != types[1]:
            parts.append(f"its type is {types[0]}, not {types[1]}")
    return column.kind, real_gaps, share, "; ".join(parts)


def _values(column: FileColumn, raw: pd.Series) -> list[str]:
    """What its own declaration does not allow, without the column's name, which the line has."""
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
