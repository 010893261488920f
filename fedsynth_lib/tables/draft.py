"""A first draft of a schema for someone's own table, read from its rows, which discloses them."""

import json
import os
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.files import (
    NOT_A_NUMBER,
    guess_separator,
    header,
    one_column,
    refusing,
    whole,
)
from fedsynth_lib.tables.schema import READ_FROM_ROWS, Column, Schema, closest

MAX_CATEGORIES = 100
MAX_NUMBER_LEVELS = 10  # a whole-number column with this many values or fewer is taken for a code
DATE = r"\d{4}-\d\d?-\d\d?.*|\d\d?[./]\d\d?[./]\d{2,4}.*"

WARNING = """\
# DRAFT, made by reading the rows of {name}.
# What stands here is therefore information about the people in the table: each low and high is
# somebody's value, and a rare category tells that somebody has it. Whoever sees a schema, or a
# model made with it, learns these things, and no epsilon covers them. Before private use replace
# every range and every category list by what the table's documentation says (a code book, the
# limits of the instrument, a law), and its source '{source}' by where you found it.
"""


class _Unfit(Exception):
    """Why a column can be neither a range nor a list of categories."""


def propose_schema(
    path: str | Path,
    *,
    target: str | None = None,
    ignore: Collection[str] = (),
    out: str | Path | None = None,
) -> Path:
    """Writes a draft schema for a CSV or Parquet file beside it (or to `out`), and gives its path.

    The draft is read from the rows: ranges are the extremes found, categories the values found.
    That is a disclosure without any guarantee; the file's first lines say so, and every column's
    source is 'read from the rows' until someone replaces it. An existing file is never overwritten.

    ignore: columns that stay in the file and out of the table, such as an identifier.
    Raises BadInput, in one sentence that names all of them, for columns that must be ignored or
    corrected.
    """
    path = Path(path)
    out = Path(out) if out else path.with_suffix(".toml")
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; check the path.")
    if out.exists():
        raise BadInput(f"{out} exists already; move it away or give another name with out=.")
    separator = None if path.suffix == ".parquet" else guess_separator(path)
    words = _words(path, separator)
    for what, names in (("target", [] if target is None else [target]), ("ignored", ignore)):
        if unknown := [name for name in names if name not in words]:
            near = closest(unknown[0], map(str, words))
            raise BadInput(f"{path}: {what} {unknown[0]!r} is no column of the file{near}.")
    if len(words) < 2:
        raise BadInput(
            f"{path}: {len(words)} rows tell nothing about a column; give a file with at least 2."
        )
    text = (
        WARNING.format(name=path.name, source=READ_FROM_ROWS)
        + "\n"
        + _draft(words, str(path), target, ignore)
    )
    if separator not in (None, ","):
        text += f"\n[reader]\nseparator = {json.dumps(separator)}\n"
    draft = out.with_name(out.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, out)
    return out


def _words(path: Path, separator: str | None) -> pd.DataFrame:
    """Every cell as text without outer spaces, a missing one as ''."""
    names = [] if separator is None else header(path, separator)
    if len(names) == 1:
        raise one_column(path, separator, names[0])
    with refusing(path):
        if separator is None:
            frame = pd.read_parquet(path).reset_index(drop=True)
        else:
            frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    return whole(frame, path).apply(
        lambda column: column.astype(object).map(str).str.strip().mask(column.isna(), "")
    )


def _draft(words: pd.DataFrame, path: str, target: str | None, ignore: Collection[str]) -> str:
    """The columns as TOML; one that every row fills with another whole number gets a question."""
    columns, unfit, text = [], {}, {}
    for name in (name for name in words if name not in ignore):
        try:
            columns.append(_column(words[name], is_target=name == target))
            if columns[-1].integer and words[name].nunique() == len(words) > MAX_CATEGORIES:
                text[name] = (
                    "# No two rows have the same value. If it is an identifier, add: ignore = "
                    "true\n"
                )
        except _Unfit as reason:
            unfit[name] = str(reason)
    if unfit:
        said = "; ".join(f"column {name!r} {reason}" for name, reason in unfit.items())
        names = ", ".join(repr(name) for name in unfit if name != target)
        raise BadInput(
            f"{path}: {said}"
            + (f"; correct this, or leave out with ignore=[{names}]." if names else ".")
        )
    quoted = lambda name: f"name = {json.dumps(name, ensure_ascii=False)}\n"  # noqa: E731
    draft = Schema(tuple(columns), target).to_toml()
    for name, question in text.items():
        draft = draft.replace(quoted(name), quoted(name) + question)
    return draft + "".join(f"\n[[column]]\n{quoted(name)}ignore = true\n" for name in ignore)


def _column(words: pd.Series, *, is_target: bool) -> Column:
    """The column as its values have it; _Unfit where they make neither a range nor categories."""
    name, levels = str(words.name), pd.Series(words[words != ""].unique(), dtype=str)
    written = levels[~levels.isin(NOT_A_NUMBER)]
    numbers = pd.to_numeric(written, errors="coerce")
    # 007 is a name
    is_number = (
        len(numbers) > 0 and numbers.notna().all() and not written.str.fullmatch(r"0\d+").any()
    )
    whole = is_number and bool((numbers == numbers.round()).all())
    if reason := _unfit(levels, written, numbers, is_number, is_target):
        raise _Unfit(reason)
    if is_number and not is_target and not (whole and numbers.nunique() <= MAX_NUMBER_LEVELS):
        kind = int if whole else float
        return Column(
            name, "numeric", kind(numbers.min()), kind(numbers.max()), whole, source=READ_FROM_ROWS
        )
    labels = sorted(levels)
    if whole:  # 1.0 is 1
        labels = [str(int(number)) for number in sorted(numbers.unique())] + sorted(
            set(levels) - set(written)
        )
    return Column(name, "categorical", categories=tuple(labels), source=READ_FROM_ROWS)


def _unfit(
    levels: pd.Series, written: pd.Series, numbers: pd.Series, is_number: bool, is_target: bool
) -> str:
    """What is wrong with a column's values and what to do, in words that follow its name; '' if
    nothing is.

    levels: the distinct values. written: those that do not stand for a missing number. numbers: NaN
        where one is none.
    """
    if len(levels) < 2:
        only = f"holds nothing but {levels[0]!r}" if len(levels) else "is empty"
        return (
            f"is the target and {only}: give rows of at least two classes, or name no target"
            if is_target
            else only
        )
    if is_number and np.isinf(numbers).any():
        return f"holds {written[np.isinf(numbers)].iloc[0]!r}, which has no place in a range"
    if is_number and numbers.nunique() == 1:
        return f"holds the one number {written.iloc[0]!r}, and cells without any"
    if is_number and not is_target:
        return ""
    comma = levels.str.contains(",") & levels.str.fullmatch(r"[-+\d.,]+")
    if comma.any() and (comma | numbers.reindex(levels.index).notna()).all():
        return (
            f"holds {levels[comma].iloc[0]!r}: write a decimal point, and no mark between thousands"
        )
    many, words = f"has {len(levels)} different values", written[numbers.isna()]
    if len(levels) > MAX_CATEGORIES and is_target:
        return (
            f"is the target and {many}, too many for classes: cut it into classes, or "
            "name no target"
        )
    if len(levels) > MAX_CATEGORIES and written.str.fullmatch(DATE).all():
        return f"{many}, all of them dates: write numbers, such as years, or days since a fixed day"
    if 0 < len(words) < len(written) / 2 and len(written) > MAX_NUMBER_LEVELS:
        return f"holds {words.iloc[0]!r} among numbers: put a number there, or drop these rows"
    return (
        f"{many}, too many for categories (an identifier, or free text?)"
        if len(levels) > MAX_CATEGORIES
        else ""
    )
