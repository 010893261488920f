"""A first draft of a schema for someone's own table, read from its rows, which discloses them."""

import json
import os
from pathlib import Path

import pandas as pd

from fedsynth_lib.interface import BadInput
from fedsynth_lib.reading import guess_separator
from fedsynth_lib.schema import READ_FROM_ROWS, Column, Schema, closest

MAX_CATEGORIES = 100
MAX_NUMBER_LEVELS = 10  # a whole-number column with this many values or fewer is taken for a code

WARNING = """\
# DRAFT, made by reading the rows of {name}.
# What stands here is therefore information about the people in the table: each low and high is
# somebody's value, and a rare category tells that somebody has it. Whoever sees a schema, or a model
# made with it, learns these things, and no epsilon covers them. Before private use replace every range
# and every category list by what the table's documentation says (a code book, the limits of the
# instrument, a law), and its source '{source}' by where you found it.
"""


def propose_schema(path: str | Path, *, target: str | None = None, out: str | Path | None = None) -> Path:
    """Writes a draft schema for a CSV or Parquet file beside it (or to `out`), and gives its path.

    The draft is read from the rows: ranges are the extremes found, categories the values found. That
    is a disclosure without any guarantee; the file's first lines say so, and every column's source
    is 'read from the rows' until someone replaces it. An existing file is never overwritten.
    """
    path = Path(path)
    out = Path(out) if out else path.with_suffix(".toml")
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; check the path.")
    if out.exists():
        raise BadInput(f"{out} exists already; move it away or give another name with out=.")
    separator = None if path.suffix == ".parquet" else guess_separator(path)
    frame = _read(path, separator)
    if target is not None and target not in frame:
        raise BadInput(f"{path}: target {target!r} is no column of the file{closest(target, map(str, frame))}.")
    columns = tuple(_column(frame[name], str(path), is_target=name == target) for name in frame)
    text = WARNING.format(name=path.name, source=READ_FROM_ROWS) + "\n" + Schema(columns, target).to_toml()
    if separator not in (None, ","):
        text += f"\n[reader]\nseparator = {json.dumps(separator)}\n"
    draft = out.with_name(out.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, out)
    return out


def _read(path: Path, separator: str | None) -> pd.DataFrame:
    try:
        return pd.read_parquet(path) if separator is None else pd.read_csv(path, sep=separator)
    except (OSError, EOFError, ValueError) as error:
        raise BadInput(f"{path}: the file cannot be read ({error}); check that it is whole.") from error


def _column(values: pd.Series, name: str, *, is_target: bool) -> Column:
    where = f"{name}: column {values.name!r}"
    present = values.dropna()
    if present.empty:
        raise BadInput(f"{where} is empty; remove it from the file.")
    if present.nunique() == 1:
        raise BadInput(f"{where} is constant; remove it from the file.")
    levels = sorted(present.unique(), key=lambda value: (str(type(value)), value))
    is_number = pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)
    whole = is_number and bool((present == present.round()).all())
    if is_number and not is_target and not (whole and len(levels) <= MAX_NUMBER_LEVELS):
        low, high = present.min(), present.max()
        number = int if whole else float
        return Column(str(values.name), "numeric", number(low), number(high), whole, source=READ_FROM_ROWS)
    if len(levels) > MAX_CATEGORIES:
        raise BadInput(
            f"{where} has {len(levels)} different values, too many for categories; "
            "remove it (is it an identifier?) or group them."
        )
    labels = tuple(str(int(level)) if whole else str(level).strip() for level in levels)
    return Column(str(values.name), "categorical", categories=tuple(dict.fromkeys(labels)), source=READ_FROM_ROWS)
