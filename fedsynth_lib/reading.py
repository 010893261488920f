"""Text and Parquet files to raw frames; `schema.validate` gives them their types afterwards."""

import csv
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.interface import BadInput
from fedsynth_lib.registry import File, Reader
from fedsynth_lib.schema import Schema

NOT_A_NUMBER = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]  # how files write a missing number
UNREADABLE = (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error)


def read_text(path: Path, schema: Schema, reader: Reader, file: File, file_columns: tuple[str, ...]) -> pd.DataFrame:
    """The declared columns of a text file: floats and labels, not yet checked against the schema.

    file_columns: all columns in file order, used where the file has no header.
    """
    header = reader.header if file.header is None else file.header
    # Reading all columns lets pandas notice rows that are too long; a file with a checksum has none.
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
        "na_values": {name: NOT_A_NUMBER if name in schema.numeric else [""] for name in schema.names},
        "encoding": "utf-8",
    }
    types = {name: "category" for name in schema.categorical} | {name: float for name in schema.numeric}
    try:
        try:
            frame = pd.read_csv(path, dtype=types, **options)
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError | pd.errors.ParserError | pd.errors.EmptyDataError):
                raise
            frame = pd.read_csv(path, dtype=str, **options)  # a number that is none: validate names it
    except pd.errors.EmptyDataError as error:
        raise BadInput(f"{path}: the file is empty; give a file with data.") from error
    except (*UNREADABLE, ValueError) as error:
        raise _unreadable(path, error) from error
    if not isinstance(frame.index, pd.RangeIndex):  # pandas has taken the first fields for an index
        raise BadInput(f"{path}: rows have more fields than there are columns; check its separator and its header.")
    return _with_labels(frame, schema, reader)


def read_parquet(path: Path, schema: Schema, reader: Reader) -> pd.DataFrame:
    """The frame in a Parquet file, labels cleaned as those of a text file."""
    try:
        return _with_labels(pd.read_parquet(path), schema, reader)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _with_labels(frame: pd.DataFrame, schema: Schema, reader: Reader) -> pd.DataFrame:
    """Categorical columns as labels without outer spaces and suffix, empty cells as the reader's category."""
    for name in set(schema.categorical) & set(frame.columns):
        labels = relabel(frame[name].astype("category"), lambda label: label.strip().removesuffix(reader.suffix))
        if reader.empty and labels.isna().any():
            labels = labels.cat.set_categories([*labels.cat.categories, reader.empty]).fillna(reader.empty)
        frame[name] = labels
    return frame


def _unreadable(path: Path, error: Exception) -> BadInput:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return BadInput(f"{path}: the file cannot be read ({reason}); check that it is whole, and its separator.")


def relabel(values: pd.Series, new_label: Callable[[str], str]) -> pd.Series:
    """A categorical series with every category renamed; categories that become equal are joined."""
    labels = [new_label(str(category)) for category in values.cat.categories]
    joined = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    code = np.array([joined[label] for label in labels] + [-1])  # the last serves missing values (code -1)
    return pd.Series(pd.Categorical.from_codes(code[values.cat.codes], categories=list(joined)), index=values.index)


def guess_separator(path: Path) -> str:
    """The separator of a text file, by its first line: comma, semicolon, tab or bar."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            return csv.Sniffer().sniff(stream.readline(), delimiters=",;\t|").delimiter
    except csv.Error:  # one column only
        return ","
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
