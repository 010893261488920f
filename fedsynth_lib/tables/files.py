"""Text and Parquet files to raw frames; `schema.validate` gives them their types afterwards."""

import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.registry import File, Reader
from fedsynth_lib.tables.schema import Schema

# how files write a missing number
NOT_A_NUMBER = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]
UNREADABLE = (
    *(OSError, EOFError, ValueError, NotImplementedError),
    *(lzma.LZMAError, zlib.error, zipfile.BadZipFile),
)
# what pandas says of a line, and what it means
OF_PARSER: dict[str, Callable[..., str]] = {
    r"EOF inside string starting at row (\d+)": lambda row: (
        f"a quotation mark in line {row + 1} is never closed"
    ),
    r"Expected (\d+) fields in line (\d+), saw (\d+)": lambda columns, line, fields: (
        f"line {line} has {fields} fields, and the lines before it have {columns}"
    ),
}


def read_text(
    path: Path, schema: Schema, reader: Reader, file: File, file_columns: tuple[str, ...]
) -> pd.DataFrame:
    """Read the declared columns of a text file, not yet checked against the schema.

    They are floats and labels.

    file_columns: all columns in file order, used where the file has no header.
    """
    header = reader.header if file.header is None else file.header
    # Reading all columns lets pandas notice rows that are too long; a file with a checksum has
    # none.
    trusted = bool(file.sha256 or file.sha256_stored)
    wanted = set(schema.names)
    options = {
        "sep": reader.separator,
        "header": 0 if header else None,
        "names": None if header else list(file_columns),
        "skiprows": file.skip_lines,
        "skipinitialspace": reader.skip_spaces,
        "usecols": (lambda name: name in wanted) if trusted else None,
        "keep_default_na": False,
        "na_values": {
            name: NOT_A_NUMBER if name in schema.numeric else [""] for name in schema.names
        },
        "encoding": "utf-8",
    }
    types = {name: "category" for name in schema.categorical} | {
        name: float for name in schema.numeric
    }
    with refusing(path):
        frame = parsed(lambda: nullcontext(path), types, options)
    return with_labels(whole(frame, path), schema.categorical, reader)


def parsed(
    source: Callable[[], AbstractContextManager[Path | IO[bytes]]], types: dict, options: dict
) -> pd.DataFrame:
    """Read with `pandas.read_csv` and these types; all as text where a number is not one.

    The check of the columns then names it. source: is called again for each attempt.
    """
    try:
        with source() as file:
            return pd.read_csv(file, dtype=types, **options)
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError):
        raise
    except ValueError:
        with source() as file:
            return pd.read_csv(file, dtype=str, **options)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """BadInput in one sentence for whatever goes wrong while a file is read within."""
    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise BadInput(f"{path}: the file is empty; give a file with data.") from error
    except BadInput:
        raise
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def whole(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the frame itself; BadInput where pandas has taken the first fields for an index."""
    if not isinstance(frame.index, pd.RangeIndex):
        raise BadInput(
            f"{path}: rows have more fields than there are columns; check its "
            "separator and its header."
        )
    return frame


def read_parquet(path: Path, schema: Schema, reader: Reader) -> pd.DataFrame:
    """Return the frame in a Parquet file, labels cleaned as those of a text file."""
    try:
        return with_labels(pd.read_parquet(path), schema.categorical, reader)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def with_labels(frame: pd.DataFrame, names: Iterable[str], reader: Reader) -> pd.DataFrame:
    """Return the frame with columns of categories as labels without outer spaces and suffix.

    Empty cells become the reader's category for them.
    """
    for name in set(names) & set(frame.columns):
        labels = relabel(
            frame[name].astype("category"), lambda label: label.strip().removesuffix(reader.suffix)
        )
        if reader.empty and labels.isna().any():
            labels = labels.cat.set_categories([*labels.cat.categories, reader.empty]).fillna(
                reader.empty
            )
        frame[name] = labels
    return frame


def unreadable(path: Path, error: Exception) -> BadInput:
    """One sentence about a file that cannot be read, whatever the reader says of it."""
    if isinstance(error, UnicodeDecodeError):
        return BadInput(
            f"{path}: the file cannot be read, for it is not UTF-8 text; save it as UTF-8 "
            "(spreadsheets: 'CSV UTF-8')."
        )
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    for pattern, what in OF_PARSER.items():
        if found := re.search(pattern, reason):
            return BadInput(f"{path}: {what(*map(int, found.groups()))}; correct that line.")
    return BadInput(
        f"{path}: the file cannot be read ({reason}); check that it is whole, and its separator."
    )


def may_be_several(name: str) -> bool:
    """Whether the one name of a header looks like several that another mark keeps apart."""
    return re.search(r"[:~^#/\\]|\s", name) is not None


def one_column(path: Path, separator: str, name: str) -> BadInput:
    """Return the error for a file whose columns have another separator."""
    return BadInput(
        f"{path}: cut at {separator!r} it has the one column {name!r}; write comma, semicolon, "
        "tab or bar between columns, or name the separator in the schema file, under [reader]. If "
        "this is a title, delete the lines above the names of the columns."
    )


def relabel(values: pd.Series, new_label: Callable[[str], str]) -> pd.Series:
    """Rename every category of a series; categories that become equal are joined."""
    labels = [new_label(str(category)) for category in values.cat.categories]
    joined = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    # the last serves missing values (code -1)
    code = np.array([joined[label] for label in labels] + [-1])
    return pd.Series(
        pd.Categorical.from_codes(code[values.cat.codes], categories=list(joined)),
        index=values.index,
    )
