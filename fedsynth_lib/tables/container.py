"""What kind of file somebody's table is, told by its first bytes; its columns as they are written;
and synthetic rows as a file of the same kind.
"""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import feather, parquet

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.files import parsed, refusing, unreadable, whole
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import TIMES, FileColumn, moment_of

SEPARATORS = ",;\t|"
COMPRESSED: dict[bytes, tuple[str, Callable[[Path], IO[bytes]]]] = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"BZh": (".bz2", bz2.open),
    b"\xfd7zXZ\x00": (".xz", lzma.open),
}
TYPED = {b"PAR1": "parquet", b"ARROW1": "feather"}
# what people hand in and nobody here reads, by its first bytes
FOREIGN = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind; save the sheet as CSV UTF-8",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"$FL": "an SPSS file; export it as CSV",
    b"<stata_dta>": "a Stata file; export it as CSV",
    b"\x89HDF": "an HDF5 file; export the table as CSV or parquet",
    b"%PDF": "a PDF; give the table as CSV",
    b"<!DOCTYPE": "a page of HTML; give the table as CSV",
    b"<html": "a page of HTML; give the table as CSV",
    b"7z\xbc\xaf": "a 7z archive; give the table in it",
    b"Rar!": "a RAR archive; give the table in it",
    **dict.fromkeys(
        (b"\x80\x03", b"\x80\x04", b"\x80\x05"), "a pickle; write the table as CSV or parquet"
    ),
    b"RDX": "an R data file; write it with write.csv",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8 (spreadsheets: 'CSV UTF-8')",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8 (spreadsheets: 'CSV UTF-8')",
}


@dataclass(frozen=True)
class Container:
    """How a table's file is made.

    kind: of text: columns between separators, or a JSON object a line; others carry types.
    compressed: the ending of its compression, such as '.gz'; '' without.
    newline: between the rows of text.
    columns: the names in its header, or of its types; none where it has no header.
    types: of a typed file.
    """

    kind: Literal["text", "json lines", "parquet", "feather"]
    compressed: str = ""
    separator: str = ","
    encoding: str = "utf-8"
    header: bool = True
    newline: str = "\n"
    columns: tuple[str, ...] = ()
    types: pa.Schema | None = None

    @property
    def suffix(self) -> str:
        """The ending of a file of this kind."""
        text = ".tsv" if self.separator == "\t" else ".csv"
        ending = {"text": text, "json lines": ".jsonl"}.get(self.kind, f".{self.kind}")
        return ending + self.compressed

    @classmethod
    def of(cls, path: Path, options: Mapping | None = None) -> "Container":
        """By the content of the file.

        options: of a schema's [reader]: separator, header, encoding; where they are not given, they
            are found out.
        Raises BadInput for a file that is none of these, which says what it is.
        """
        if not path.is_file():
            raise BadInput(f"{path}: there is no such file; check the path.")
        known = ("separator", "header", "encoding")
        options = {key: value for key, value in (options or {}).items() if key in known}
        _check_name(path)
        with refusing(path), _opened(path) as file:
            beginning = file.read(4096)
        if beginning.startswith(b"PK"):
            raise BadInput(f"{path}: this is {_archive(path)}.")
        for magic, what in FOREIGN.items():
            if beginning.lstrip(codecs.BOM_UTF8).startswith(magic):
                raise BadInput(f"{path}: this is {what}.")
        for magic, kind in TYPED.items():
            if beginning.startswith(magic):
                with refusing(path):
                    types = _types(path, kind)
                _refuse_twins(path, types.names)
                return cls(kind, columns=tuple(types.names), types=types)
        compressed = _compression(path)[0]
        first = beginning.removeprefix(codecs.BOM_UTF8).lstrip().split(b"\n")[0].strip()
        if first.startswith((b"{", b"[")):
            if not (first.startswith(b"{") and first.endswith(b"}")):
                raise BadInput(f"{path}: this is JSON; give one object a line, or CSV.")
            return cls("json lines", compressed)
        if re.match(rb"#|sep=.$", first):
            raise BadInput(
                f"{path}: its first line is {first.decode('utf-8', 'replace')!r} and names no "
                "columns; delete the lines before the header."
            )
        if beginning.startswith(codecs.BOM_UTF8):
            options = {"encoding": "utf-8-sig"} | options
        newline = "\r\n" if b"\r\n" in beginning else "\n"
        found = cls("text", compressed, newline=newline, **options)
        if "separator" not in options:
            found = replace(found, separator=_separator(path, found))
        if found.header:
            found = replace(found, columns=_header(path, found))
        return found

    def raw(
        self, path: Path, names: Sequence[str], numbers: Mapping[str, Collection[str]] | None = None
    ) -> pd.DataFrame:
        """The columns of the file, as they are written: of text, labels (pandas' categories), but
        of `numbers` float64; of typed files what their types are.

        names: of all columns, where the file has no header.
        numbers: name -> texts that stand for a missing one.
        Raises BadInput for a file that cannot be read, or whose columns hold lists.
        """
        numbers = numbers or {}
        with refusing(path):
            if self.types is not None:
                frame = _plain_moments(_typed(path, self.kind)).to_pandas(ignore_metadata=True)
            elif self.kind == "json lines":
                with _opened(path) as file:
                    text = io.StringIO(file.read().decode(self.encoding))
                frame = pd.read_json(text, lines=True, dtype=False, convert_dates=False)
            else:
                frame = self._text(path, names, numbers)
        frame = frame.rename(columns=str)
        for name in frame.select_dtypes("object"):
            frame[name] = frame[name].map(
                lambda value: (
                    value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                )
            )
            if (
                frame[name]
                .map(lambda value: isinstance(value, list | dict | tuple | np.ndarray))
                .any()
            ):
                raise BadInput(
                    f"{path}: column {name!r} holds lists; give a column for each of their entries."
                )
        return frame

    def _text(
        self, path: Path, names: Sequence[str], numbers: Mapping[str, Collection[str]]
    ) -> pd.DataFrame:
        names = self.columns or tuple(names)
        options = {
            "sep": self.separator,
            "header": 0 if self.header else None,
            "names": None if self.header else list(names),
            "keep_default_na": False,
            "na_values": {name: [*numbers.get(name, ()), ""] for name in names},
            "encoding": self.encoding,
            "skipinitialspace": True,
        }
        types = {name: float if name in numbers else "category" for name in names}
        frame = parsed(lambda: _opened(path), types, options)
        return whole(frame, path)

    def content(self, frame: pd.DataFrame, form: Form) -> bytes:
        """A file of this kind with the rows, which `form.to_file` has made."""
        columns = {column.name: column for column in form.columns}
        if self.types is not None:
            arrays = [
                _array(frame[name], columns[name], self._type(name)) for name in frame.columns
            ]
            table, sink = pa.Table.from_arrays(arrays, names=list(frame.columns)), io.BytesIO()
            if self.kind == "parquet":
                parquet.write_table(table, sink)
            else:
                feather.write_feather(table, sink)
            return sink.getvalue()
        if self.kind == "json lines":
            text = frame.to_json(orient="records", lines=True, force_ascii=False)
        else:
            written = {name: columns[name].texts(frame[name]) for name in frame.columns}
            text = pd.DataFrame(written, index=frame.index).to_csv(
                sep=self.separator, index=False, header=self.header, lineterminator=self.newline
            )
        return _compressed(text.encode(self.encoding), self.compressed)

    def _type(self, name: str) -> pa.DataType | None:
        place = self.types.get_field_index(name)
        return None if place < 0 else self.types.field(place).type


# --- bytes ----------------------------------------------------------------------------------------


def _compression(path: Path) -> tuple[str, Callable[[Path], IO[bytes]]]:
    with open(path, "rb") as file:
        beginning = file.read(8)
    for magic, found in COMPRESSED.items():
        if beginning.startswith(magic):
            return found
    if beginning.startswith(b"PK") and len(_members(path)) == 1 and not _is_workbook(path):
        return ".zip", _only_member
    return "", lambda path: open(path, "rb")


def _check_name(path: Path) -> None:
    """Refuses a file that is not what its name says."""
    with open(path, "rb") as file:
        beginning = file.read(8)
    endings = {found[0]: magic for magic, found in COMPRESSED.items()}
    endings |= {f".{kind}": magic for magic, kind in TYPED.items()} | {".zip": b"PK"}
    ending = path.suffix.lower()
    if beginning and not beginning.startswith(endings.get(ending, b"")):
        raise BadInput(f"{path}: the file cannot be read, for it is no {ending[1:]} file inside.")


def _opened(path: Path) -> IO[bytes]:
    return _compression(path)[1](path)


def _members(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return [each.filename for each in archive.infolist() if not each.is_dir()]


def _is_workbook(path: Path) -> bool:
    return any(name.startswith(("xl/", "content.xml")) for name in _members(path))


def _only_member(path: Path) -> IO[bytes]:
    with zipfile.ZipFile(path) as archive:
        return io.BytesIO(archive.read(_members(path)[0]))


def _archive(path: Path) -> str:
    if _is_workbook(path):
        return "a workbook (Excel or OpenDocument); save the sheet as CSV UTF-8"
    return f"a zip with {len(_members(path))} files in it; give the one with the table"


def _compressed(content: bytes, ending: str) -> bytes:
    if ending == ".zip":
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", content)
        return sink.getvalue()
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    return pack[ending](content) if ending else content


# --- text -----------------------------------------------------------------------------------------


def _separator(path: Path, container: Container) -> str:
    """The mark that cuts the first lines into equally many fields, more than one; else the one that
    cuts the header most."""
    fields = {
        mark: [len(line) for line in _first_lines(path, replace(container, separator=mark))] or [0]
        for mark in SEPARATORS
    }
    return max(
        fields, key=lambda mark: (len(set(fields[mark])) == 1 < fields[mark][0], fields[mark][0])
    )


def _header(path: Path, container: Container) -> tuple[str, ...]:
    names = next(iter(_first_lines(path, container)), [])
    _refuse_twins(path, names)
    # as pandas calls them
    return tuple(name or f"Unnamed: {place}" for place, name in enumerate(names))


def _refuse_twins(path: Path, names: Sequence[str]) -> None:
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise BadInput(f"{path}: two columns are called {twice[0]!r}; rename one of them.")


def _first_lines(path: Path, container: Container, most: int = 5) -> list[list[str]]:
    with refusing(path), io.TextIOWrapper(_opened(path), container.encoding, newline="") as stream:
        try:
            lines = csv.reader(stream, delimiter=container.separator, skipinitialspace=True)
            return list(islice(filter(None, lines), most))
        except csv.Error:  # a field beyond all measure: not cut by this separator
            return []


# --- types ----------------------------------------------------------------------------------------


def _types(path: Path, kind: str) -> pa.Schema:
    if kind == "parquet":
        return parquet.read_schema(path)
    return _typed(path, kind).schema


def _typed(path: Path, kind: str) -> pa.Table:
    try:
        return parquet.read_table(path) if kind == "parquet" else feather.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def _plain_moments(table: pa.Table) -> pa.Table:
    """Moments with a time zone as those of universal time without one, and durations as seconds:
    what the kinds of column know."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            # their numbers count from 1970 in universal time, whatever the zone that is shown
            column = column.cast(pa.timestamp(field.type.unit))
        elif pa.types.is_duration(field.type):
            seconds = column.to_pandas().dt.total_seconds()
            column = pa.chunked_array([pa.array(seconds, from_pandas=True)])
        table = table.set_column(place, field.name, column)
    return table


def _array(values: pd.Series, column: FileColumn, kind: pa.DataType | None) -> pa.Array:
    """A restored column in the type that it has in the file; as text where it is new there."""
    if kind is None:
        return pa.array(values.astype(object).where(values.notna(), None))
    if pa.types.is_dictionary(kind):
        plain = _array(values.astype(object), column, kind.value_type)
        return _dictionary(plain, column, kind)
    read = _reader(column, kind)
    found = [None if gap else read(v) for v, gap in zip(values, values.isna(), strict=True)]
    return pa.array(found, type=kind)


def _dictionary(plain: pa.Array, column: FileColumn, kind: pa.DictionaryType) -> pa.Array:
    """With all declared categories, in their order."""
    read = _reader(column, kind.value_type)
    levels = pa.array([read(category) for category in column.categories], type=kind.value_type)
    place = {level: code for code, level in enumerate(levels.to_pylist())}
    codes = pa.array([place.get(value) for value in plain.to_pylist()], type=kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, levels, ordered=kind.ordered)


def _reader(column: FileColumn, kind: pa.DataType) -> Callable:
    """From a restored value to what the type holds."""
    if pa.types.is_temporal(kind) and column.kind in TIMES:
        part = {"date": datetime.date, "time": datetime.time}.get(column.kind)
        if pa.types.is_timestamp(kind):
            part = None
        return lambda text: (part or (lambda moment: moment))(moment_of(text, column.format))
    if pa.types.is_duration(kind):
        return lambda seconds: timedelta(seconds=float(seconds))
    if pa.types.is_boolean(kind):
        return lambda label: str(label) == (column.categories or ("False", "True"))[-1]
    if pa.types.is_integer(kind):
        return lambda value: int(float(value)) if "." in str(value) else int(value)
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return lambda value: round(Decimal(str(value)), kind.scale)
    return str
