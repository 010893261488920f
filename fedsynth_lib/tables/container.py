"""What kind of file somebody's table is, told by its first bytes; its columns as they are written;
and synthetic rows as a file of the same kind.

How that file is written follows from the declaration and from the name of its columns, never from a
row: types, line ends and order are the same whoever is in the table.
"""

import bz2
import codecs
import csv
import gzip
import io
import json
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
from fedsynth_lib.tables.kinds import NOT_MODELLED, TIMES, FileColumn, is_formula, moment_of

SEPARATORS = ",;\t|"
LISTS = (list, dict, tuple, np.ndarray)
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
    newline: between the rows of text that is written.
    columns: the names in its header, or of its types; none where it has no header.
    types: of a typed file: as it has them, or as they are `declared`.
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
    def of(
        cls, path: Path, options: Mapping | None = None, names: Collection[str] = ()
    ) -> "Container":
        """By the content of the file.

        options: of a schema's [reader]: separator, header, encoding, newline. Without a header
            nothing but its compression is found out, for the first line is somebody's.
        names: of declared columns: the separator is then the one that finds them in the header.
        Raises BadInput for a file that is none of these, which says what it is.
        """
        if not path.is_file():
            raise BadInput(f"{path}: there is no such file; check the path.")
        known = ("separator", "header", "encoding", "newline")
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
        if not options.get("header", True):
            return cls("text", compressed, **options)
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
        found = cls("text", compressed, **options)
        if "separator" not in options:
            found = replace(found, separator=_separator(path, found, names))
        return replace(found, columns=_header(path, found))

    def declared(self, form: Form) -> "Container":
        """The same for synthetic rows of this form: the types of a typed file are the declared
        ones. Raises BadInput for a type that cannot hold what its column declares."""
        if self.types is None:
            return self
        kept = [column for column in form.columns if column.name not in form.left_out]
        return replace(self, types=pa.schema([(c.name, _checked_type(c)) for c in kept]))

    def raw(
        self,
        path: Path,
        names: Sequence[str],
        numbers: Mapping[str, Collection[str]] | None = None,
        *,
        strict: bool = False,
    ) -> pd.DataFrame:
        """The columns of the file, as they are written: of text, labels (pandas' categories), but
        of `numbers` float64; of typed files what their types are.

        names: of all columns, where the file has no header; of JSON lines those that come first.
        numbers: name -> texts that stand for a missing one.
        strict: refuse bytes that are not text, and lists. Else both are texts that no declaration
            knows, so that they are no matter where the column is left out.
        Raises BadInput for a file that cannot be read.
        """
        errors = "strict" if strict else "replace"
        numbers = numbers or {}
        with refusing(path):
            if self.types is not None:
                frame = _plain_moments(_typed(path, self.kind)).to_pandas(ignore_metadata=True)
            elif self.kind == "json lines":
                with _opened(path) as file:
                    text = file.read().decode(self.encoding, errors).removeprefix("\ufeff")
                lines = filter(str.strip, text.split("\n"))
                frame = pd.DataFrame(map(_record, lines))
                frame = frame.reindex(columns=list(dict.fromkeys([*names, *frame.columns])))
            else:
                frame = self._text(path, names, numbers, errors)
        frame = frame.rename(columns=str)
        for name in frame.select_dtypes("object"):
            frame[name] = frame[name].map(
                lambda value: (
                    value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                )
            )
            lists = frame[name].map(lambda value: isinstance(value, LISTS))
            if lists.any() and strict:
                raise BadInput(
                    f"{path}: column {name!r} holds lists; give a column for each of their entries."
                )
            frame[name] = frame[name].where(~lists, frame[name].astype(str))
        return frame

    def _text(
        self,
        path: Path,
        names: Sequence[str],
        numbers: Mapping[str, Collection[str]],
        errors: str,
    ) -> pd.DataFrame:
        names = self.columns or tuple(names)
        options = {
            "sep": self.separator,
            "header": 0 if self.header else None,
            "names": None if self.header else list(names),
            "keep_default_na": False,
            "na_values": {name: [*numbers.get(name, ()), ""] for name in names},
            "encoding": self.encoding,
            "encoding_errors": errors,
            "skipinitialspace": True,
        }
        types = {name: float if name in numbers else "category" for name in names}
        frame = parsed(lambda: _opened(path), types, options)
        return whole(frame, path)

    def check_quoting(self) -> None:
        """Raises BadInput for a file that no spreadsheet opens as it is."""
        if self.kind != "text":
            raise BadInput(
                f"quote_formulas is for CSV, which spreadsheets open, and this is a file of "
                f"{self.kind}; leave it out."
            )

    def content(self, frame: pd.DataFrame, form: Form, *, quote_formulas: bool = False) -> bytes:
        """A file of this kind with the rows, which `form.to_file` has made.

        quote_formulas: write an apostrophe before texts that a spreadsheet would run.
        """
        if quote_formulas:
            self.check_quoting()
        columns = {column.name: column for column in form.columns}
        if self.types is not None:
            arrays = [
                _array(frame[name], columns[name], self.types.field(name).type) for name in frame
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
            if quote_formulas:
                written = {
                    f"'{name}" if is_formula(name) else name: columns[name].quoted(
                        texts, frame[name].isna()
                    )
                    for name, texts in written.items()
                }
            text = pd.DataFrame(written, index=frame.index).to_csv(
                sep=self.separator, index=False, header=self.header, lineterminator=self.newline
            )
        return _compressed(text.encode(self.encoding), self.compressed)


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


def _separator(path: Path, container: Container, names: Collection[str]) -> str:
    """The mark by which the header has most of the names. Where there are none, the one that cuts
    the first lines into equally many fields, more than one; else the one that cuts the header
    most."""

    def fitting(mark: str) -> tuple[int, int]:
        cut = _first_lines(path, replace(container, separator=mark)) or [[]]
        if names:
            return len(set(names) & set(cut[0])), len(cut[0])
        return len({len(line) for line in cut}) == 1 < len(cut[0]), len(cut[0])

    return max(SEPARATORS, key=fitting)


def header_newline(path: Path) -> str:
    """What ends the first line of a text file."""
    with _opened(path) as file:
        return "\r\n" if file.readline().endswith(b"\r\n") else "\n"


def _header(path: Path, container: Container) -> tuple[str, ...]:
    names = next(iter(_first_lines(path, container)), [])
    _refuse_twins(path, names)
    # as pandas calls them
    return tuple(name or f"Unnamed: {place}" for place, name in enumerate(names))


def _refuse_twins(path: Path, names: Sequence[str]) -> None:
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise BadInput(f"{path}: two columns are called {twice[0]!r}; rename one of them.")


def _first_lines(path: Path, container: Container, most: int = 5) -> list[list[str]]:
    with refusing(path), _decoded(path, container) as stream:
        try:
            lines = csv.reader(stream, delimiter=container.separator, skipinitialspace=True)
            return list(islice(filter(None, lines), most))
        except csv.Error:  # a field beyond all measure: not cut by this separator
            return []


def _decoded(path: Path, container: Container) -> IO[str]:
    return io.TextIOWrapper(_opened(path), container.encoding, errors="replace", newline="")


def _record(line: str) -> dict:
    if not isinstance(found := json.loads(line), dict):
        raise ValueError("a line is no object")
    return found


# --- types ----------------------------------------------------------------------------------------

# what the declaration of a column may say, beside the names that Arrow gives its types
PARAMETRIC: dict[str, Callable[..., pa.DataType]] = {
    r"decimal128\((\d+), (\d+)\)": lambda digits, scale: pa.decimal128(int(digits), int(scale)),
    r"timestamp\[(\w+), tz=(.+)\]": pa.timestamp,
    r"dictionary<(.+)>": lambda values: pa.dictionary(pa.int32(), _type_named(values)),
}
UNFIT = (ValueError, TypeError, ArithmeticError, pa.ArrowException)


def _type_named(text: str) -> pa.DataType:
    for pattern, kind in PARAMETRIC.items():
        if found := re.fullmatch(pattern, text):
            return kind(*found.groups())
    return pa.type_for_alias(text)


def type_of(column: FileColumn) -> pa.DataType:
    """The type of a column in a typed file, by its declaration alone: any of them may have gaps."""
    if column.type:
        kind = _type_named(column.type)
        return (
            pa.dictionary(kind.index_type, kind.value_type, column.ordered)
            if (pa.types.is_dictionary(kind))
            else kind
        )
    if column.kind == "numeric" and not column.written:
        return pa.int64() if column.whole else pa.float64()
    if column.kind == "boolean" and column.categories == ("False", "True"):
        return pa.bool_()
    if column.ordered:
        return pa.dictionary(pa.int32(), pa.string(), ordered=True)
    moments = {"date": pa.date32(), "time": pa.time64("us"), "datetime": pa.timestamp("us")}
    return moments.get(column.kind, pa.string())


def type_to_declare(column: FileColumn, found: pa.DataType) -> str:
    """What a draft says of a column's type in its file: '' where that goes without saying."""
    if column.kind in ("identifier", "text") or found == type_of(column):
        return ""
    if column.kind == "numeric" and column.whole and pa.types.is_floating(found):
        return ""  # as pandas has whole numbers with gaps
    name = f"dictionary<{found.value_type}>" if pa.types.is_dictionary(found) else str(found)
    try:
        _checked_type(replace(column, type=name))
    except BadInput:
        return ""
    return name


def _checked_type(column: FileColumn) -> pa.DataType:
    """`type_of`; BadInput where it cannot hold what the column declares, before noise is drawn."""
    declared = column.categories or (column.low, column.high)
    values = pd.Series([column.written] if column.written else list(declared), dtype=object)
    if column.kind in NOT_MODELLED:
        values = column.restore(pd.DataFrame(index=[0]), np.random.default_rng(0))
    try:
        _array(values, column, kind := type_of(column))
    except UNFIT as error:
        raise BadInput(
            f"schema: column {column.name!r} has type = {column.type!r}, which does not hold what "
            "it declares; correct the type, or leave it out."
        ) from error
    return kind


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


def _array(values: pd.Series, column: FileColumn, kind: pa.DataType) -> pa.Array:
    """A restored column in the type that it has in the file."""
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
