"""Entries of tables that are more than one number: a text for readers, and numbers for files.

A Markdown file shows the text, as `0.62 ± 0.04 (0.61) =`. A CSV has a column for each number, whose
name ends as it is called here: `auc ours`, `auc ours_std`, `auc published`, `auc verdict`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class Entry:
    """A text, and what it says by the endings of columns; numbers are as the text rounds them."""

    text: str
    numbers: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the entry as text."""
        return self.text

    __repr__ = __str__


def with_spread(
    mean: float, spread: float, digits: int, names: tuple[str, str] = ("mean", "half")
) -> Entry | str:
    """Return a number with its spread, or an empty text where the number is missing.

    A single run has no spread. names: the column endings of both in a file.
    """
    text = text_of(mean, spread, digits)
    numbers = dict(zip(names, (rounded(mean, digits), rounded(spread, digits)), strict=True))
    return Entry(text, numbers) if text else ""


def with_spreads(means: pd.DataFrame, spreads: pd.DataFrame, digits: int) -> pd.DataFrame:
    """Return `with_spread` of every place of two tables of the same shape."""
    pairs = zip(np.ravel(means), np.ravel(spreads), strict=True)
    found = np.array([with_spread(*pair, digits) for pair in pairs], dtype=object)
    return pd.DataFrame(found.reshape(means.shape), means.index, means.columns)


def text_of(mean: float, spread: float, digits: int) -> str:
    """Return `0.62 ± 0.04`, or `0.62` without a spread; empty without a number."""
    return " ± ".join(f"{value:.{digits}f}" for value in (mean, spread) if pd.notna(mean + value))


def rounded(value: Any, digits: int) -> float:
    """Return the number that a text of so many digits shows; NaN for a missing one."""
    return np.nan if pd.isna(value) else float(f"{value:.{digits}f}")


def in_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column for each number of its entries, in place of theirs.

    What are not entries stays where it is; a number that is missing everywhere has no column.
    """
    parts = []
    for name, column in table.items():
        packed = column.map(lambda value: isinstance(value, Entry)).astype(bool)
        if not packed.any():
            parts.append(column)
            continue
        found = [entry.numbers for entry in column[packed]]
        numbers = pd.DataFrame(found, column.index[packed], dtype=object).add_prefix(f"{name} ")
        both = numbers.reindex(column.index)
        both.insert(0, name, column.mask(packed))
        parts.append(both.loc[:, (both.notna() & (both != "")).any()])
    return pd.concat(parts, axis=1)
