"""Read a user's table in any format, and write synthetic rows as a file of the same format.

The format is detected from the first bytes; columns are read as they are written.

How that file is written follows from the declaration and from the names of its columns, never from
a row: types, line ends and order are the same whoever is in the table.
"""

import codecs
import csv
import gzip
import io
import re
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.files import parsed, refusing, whole
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn, is_formula
from fedsynth_lib.tables.moments import TIMES, moment_of

SEPARATORS = ",;\t|"
LISTS = (list, dict, tuple, np.ndarray)
GZIP, ZIP, PARQUET = b"\x1f\x8b", b"PK", b"PAR1"
ENDINGS = {".gz": GZIP, ".zip": ZIP, ".parquet": PARQUET}
# formats that people hand in and nobody here reads, by their first bytes
FOREIGN = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind; save the sheet as CSV UTF-8",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"$FL": "an SPSS file; export it as CSV",
    b"ASCII SPSS PORT": "an SPSS file; export it as CSV",
    **dict.fromkeys(
        (b"<stata_dta>", b"q\x01\x01", b"q\x02\x01", b"r\x01\x01", b"r\x02\x01", b"s\x02\x01"),
        "a Stata file; export it as CSV",
    ),
    **dict.fromkeys(
        (b"HEADER RECORD***", b"\0" * 12 + b"\xc2\xea\x81\x60"), "a SAS file; export it as CSV"
    ),
    b"\x89HDF": "an HDF5 file; export the table as CSV or parquet",
    b"ARROW1": "a feather file; write the table as parquet",
    b"BZh": "compressed with bzip2; compress the table with gzip, or leave it as it is",
    b"\xfd7zXZ": "compressed with xz; compress the table with gzip, or leave it as it is",
    b"%PDF": "a PDF; give the table as CSV",
    b"<!DOCTYPE": "a page of HTML; give the table as CSV",
    b"<table": "a page of HTML; give the table as CSV",
    b"<html": "a page of HTML; give the table as CSV",
    b"7z\xbc\xaf": "a 7z archive; give the table in it",
    b"Rar!": "a RAR archive; give the table in it",
    **dict.fromkeys(
        (b"\x80\x03", b"\x80\x04", b"\x80\x05"), "a pickle; write the table as CSV or parquet"
    ),
    b"RDX": "an R data file; write it with write.csv",
    **dict.fromkeys(
        (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),
        "text in UTF-32; save it as UTF-8 (spreadsheets: 'CSV UTF-8')",
    ),
    b"\xff\xfe": "text in UTF-16; save it as UTF-8 (spreadsheets: 'CSV UTF-8')",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8 (spreadsheets: 'CSV UTF-8')",
}


@dataclass(frozen=True, eq=False)
class InMemory:
    """A DataFrame in the place of a table's file: what a parquet file of it would hold.

    Each field of the Arrow schema keeps the name of its pandas dtype (`dtype`), and whether its
    column is called by a whole number (`label`); nothing is kept of the index.
    """

    content: pa.Table
    name: str = "table"

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @property
    def stem(self) -> str:
        """Its name, as that of a file."""
        return self.name

    @classmethod
    def of(cls, frame: pd.DataFrame, name: str = "table") -> "InMemory":
        """Take a DataFrame; BadInput unless it is a table of named columns with rows."""
        if not isinstance(frame, pd.DataFrame):
            raise BadInput(
                f"{name} is a {type(frame).__name__}: give a pandas DataFrame, or the path of a "
                "file."
            )
        if frame.empty:
            raise BadInput(f"{name} has {len(frame)} rows and {frame.shape[1]} columns; give some.")
        names = [_label(label, name) for label in frame.columns]
        if twice := [each for each in names if names.count(each) > 1]:
            raise BadInput(f"{name}: two columns are called {twice[0]!r}; rename one of them.")
        fields, arrays = [], []
        for place, each in enumerate(names):
            values = frame.iloc[:, place]
            arrays.append(_arrow(values, f"{name}: column {each!r}"))
            texts = isinstance(values.dtype, pd.StringDtype)  # whose name leaves out where they are
            notes = {"dtype": repr(values.dtype) if texts else str(values.dtype)}
            if not isinstance(frame.columns[place], str):
                notes["label"] = "whole number"
            fields.append(pa.field(each, arrays[-1].type, metadata=notes))
        return cls(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), name)


def _label(label: object, name: str) -> str:
    """Return the name of a DataFrame's column: a text, or a whole number."""
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool | np.bool_)
    if label == "" or not (isinstance(label, str) or whole):
        raise BadInput(
            f"{name}: a column is called {label!r}, which is no text; rename it, as by "
            "df.columns = [...]."
        )
    return str(label)


def _arrow(values: pd.Series, where: str) -> pa.Array:
    dtype = values.dtype.categories.dtype if hasattr(values, "cat") else values.dtype
    none = isinstance(dtype, pd.SparseDtype | pd.PeriodDtype | pd.IntervalDtype)
    if none or dtype.kind not in "biufmMOSU":
        raise BadInput(
            f"{where} has the dtype {dtype}, which no table file holds; convert it to numbers, "
            "text or dates."
        )
    try:
        found = pa.Array.from_pandas(values)
    except UNFIT as error:
        kinds = {type(each).__name__ for each in values.dropna()[:10_000]}
        held = f"values of the types {', '.join(sorted(kinds))}" if kinds else "no values"
        raise BadInput(
            f"{where} holds {held}, which are no one kind of number, text or date; convert it, "
            "as by .astype(str)."
        ) from error
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


Source = Path | InMemory  # where the rows of a table are


@dataclass(frozen=True)
class Container:
    """The format of a table's file.

    kind: text with columns between separators, or parquet, which has types.
    compressed: the ending of its compression, '.gz' or '.zip'; '' without.
    newline: between the rows of text that is written.
    columns: the names in its header, or of its types; none where it has no header.
    types: of parquet: as the file has them, or as they are `declared`.
    """

    kind: Literal["text", "parquet"]
    compressed: str = ""
    separator: str = ","
    encoding: str = "utf-8"
    header: bool = True
    newline: str = "\n"
    columns: tuple[str, ...] = ()
    types: pa.Schema | None = None

    def __post_init__(self):
        """Refuse a kind of file that only older versions wrote."""
        if self.kind not in ("text", "parquet") or self.compressed not in ("", ".gz", ".zip"):
            raise BadInput(  # of an older saved model
                f"files of {self.compressed or self.kind} are no longer written: take the version "
                "of fedsynth that saved the model."
            )

    @property
    def in_memory(self) -> bool:
        """Whether it is of a DataFrame, whose fields have the name of their dtype."""
        return any(b"dtype" in (field.metadata or {}) for field in self.types or ())

    @property
    def suffix(self) -> str:
        """The ending of a file of this kind."""
        text = ".tsv" if self.separator == "\t" else ".csv"
        return (".parquet" if self.kind == "parquet" else text) + self.compressed

    @classmethod
    def of(
        cls, path: Source, options: Mapping | None = None, names: Collection[str] = ()
    ) -> "Container":
        """By the content of the file; a DataFrame is taken for a parquet file.

        options: of a schema's [reader]: separator, header, encoding, newline. Without a header
            nothing but its compression is found out, for the first line is somebody's.
        names: of declared columns: the separator is then the one that finds them in the header.
        Raises BadInput for a file that is none of these, which says what it is.
        """
        if isinstance(path, InMemory):
            types = path.content.schema
            return cls("parquet", columns=tuple(types.names), types=types)
        if not path.is_file():
            raise BadInput(f"{path}: there is no such file; check the path.")
        known = ("separator", "header", "encoding", "newline")
        options = {key: value for key, value in (options or {}).items() if key in known}
        _check_name(path)
        with refusing(path), _opened(path) as file:
            beginning = file.read(4096)
        if beginning.startswith(ZIP):
            raise BadInput(f"{path}: this is {_archive(path)}.")
        for magic, what in FOREIGN.items():
            if beginning.removeprefix(codecs.BOM_UTF8).startswith(magic):
                raise BadInput(f"{path}: this is {what}.")
        if beginning.startswith(PARQUET):
            with refusing(path):
                types = parquet.read_schema(path)
            _refuse_twins(path, types.names)
            return cls("parquet", columns=tuple(types.names), types=types)
        if b"\0" in beginning and "encoding" not in options:  # UTF-16 has such bytes, too
            raise BadInput(f"{path}: this is a binary file and no text; export the table as CSV.")
        compressed = _compression(path)
        if not options.get("header", True):
            return cls("text", compressed, **options)
        first = beginning.removeprefix(codecs.BOM_UTF8).lstrip().split(b"\n")[0].strip()
        if first.startswith((b"{", b"[")):
            raise BadInput(f"{path}: this is JSON; write the table as CSV or parquet.")
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
        """Return the container of synthetic rows of this form.

        The types of a typed file are the declared ones. Raises BadInput for a type that cannot hold
        what its column declares.
        """
        if self.types is None:
            return self
        notes = {each.name: each.metadata for each in self.types}
        fields = [pa.field(c.name, _checked_type(c), metadata=notes.get(c.name)) for c in form.kept]
        return replace(self, types=pa.schema(fields))

    def raw(
        self,
        path: Source,
        names: Sequence[str],
        numbers: Mapping[str, Collection[str]] | None = None,
        *,
        strict: bool = False,
    ) -> pd.DataFrame:
        """Return the columns of the file as they are written.

        Of text files they are labels (pandas' categories), but of `numbers` float64; of typed files
        they have the types of the file.

        names: of all columns, where the file has no header.
        numbers: name -> texts that stand for a missing one.
        strict: refuse bytes that are not text, and lists. Else both are texts that no declaration
            knows, so that they are no matter where the column is left out.
        Raises BadInput for a file that cannot be read.
        """
        with refusing(path):
            if self.types is not None:
                stored = path.content if isinstance(path, InMemory) else parquet.read_table(path)
                frame = stored.to_pandas(ignore_metadata=True)
            else:
                frame = self._text(path, names, numbers or {}, "strict" if strict else "replace")
        frame = frame.rename(columns=str)
        for name in frame.select_dtypes("timedelta"):  # in seconds, as a number
            frame[name] = frame[name].dt.total_seconds()
        for name in frame.select_dtypes("datetimetz"):  # in universal time
            frame[name] = frame[name].dt.tz_convert(None)
        for name in frame.select_dtypes("object"):
            frame[name] = frame[name].map(_decoded)
            lists = frame[name].map(lambda value: isinstance(value, LISTS))
            if lists.any() and strict:
                raise BadInput(
                    f"{path}: column {name!r} holds lists or dicts; give a column for each "
                    "of their entries."
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
        """Raise BadInput for a file that no spreadsheet opens as it is."""
        if self.kind != "text":
            raise BadInput(
                f"quote_formulas is for CSV, which spreadsheets open, and this is a file of "
                f"{self.kind}; leave it out."
            )

    def content(self, frame: pd.DataFrame, form: Form, *, quote_formulas: bool = False) -> bytes:
        """Return a file of this kind with the rows, which `form.to_file` has made.

        quote_formulas: write an apostrophe before texts that a spreadsheet would run.
        """
        if quote_formulas:
            self.check_quoting()
        if self.types is not None:
            arrays = self._arrays(frame, form)
            sink = io.BytesIO()
            parquet.write_table(pa.Table.from_arrays(arrays, names=list(frame.columns)), sink)
            return sink.getvalue()
        written = {name: form[name].texts(frame[name]) for name in frame.columns}
        if quote_formulas:
            written = {
                f"'{name}" if is_formula(name) else name: form[name].quoted(
                    texts, frame[name].isna()
                )
                for name, texts in written.items()
            }
        text = pd.DataFrame(written, index=frame.index).to_csv(
            sep=self.separator, index=False, header=self.header, lineterminator=self.newline
        )
        return _compressed(text.encode(self.encoding), self.compressed)

    def frame(self, rows: pd.DataFrame, form: Form) -> pd.DataFrame:
        """Return the rows, which `form.to_file` has made, as a DataFrame like the one of the table.

        It has the dtypes and the column labels of that table, and a fresh RangeIndex.

        Whole numbers and truth values with gaps, which only pandas' nullable dtypes hold, have
        these. Rows of a text file are as `FileColumn.restore` gives them, but that a column of
        numbers and of codes for a missing one is all text.
        """
        if self.types is None:
            mixed = [n for n in rows if pd.api.types.infer_dtype(rows[n]).startswith("mixed")]
            texts = {name: form[name].texts(rows[name]).replace("", None) for name in mixed}
            return rows.assign(**texts).reset_index(drop=True)
        merged = {column.name for column in form.columns if column.other}  # `other` is a text
        found = {}
        for name, array in zip(rows, self._arrays(rows, form), strict=True):
            notes = self.types.field(name).metadata or {}
            label = int(name) if b"label" in notes else name
            dtype = "" if name in merged else notes.get(b"dtype", b"").decode()
            found[label] = _typed(array.to_pandas(), dtype)
        return pd.DataFrame(found)

    def _arrays(self, rows: pd.DataFrame, form: Form) -> list[pa.Array]:
        return [
            _coded(_array(rows[name], form[name], self.types.field(name).type), form[name])
            for name in rows
        ]


# --- bytes ----------------------------------------------------------------------------------------


def _beginning(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)


def _compression(path: Path) -> str:
    """Return the ending of a file that is compressed, by its first bytes; '' of another."""
    if _beginning(path).startswith(GZIP):
        return ".gz"
    if not _beginning(path).startswith(ZIP) or len(_members(path)) != 1 or _is_workbook(path):
        return ""
    return ".zip"


def _check_name(path: Path) -> None:
    """Refuse a file that is not what its name says."""
    ending, beginning = path.suffix.lower(), _beginning(path)
    if beginning and not beginning.startswith(ENDINGS.get(ending, b"")):
        raise BadInput(f"{path}: the file cannot be read, for it is no {ending[1:]} file inside.")


def _opened(path: Path) -> IO[bytes]:
    compressed = _compression(path)
    if compressed == ".zip":
        with zipfile.ZipFile(path) as archive:
            return io.BytesIO(archive.read(_members(path)[0]))
    return gzip.open(path) if compressed else open(path, "rb")


def _members(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return [each.filename for each in archive.infolist() if not each.is_dir()]


def _is_workbook(path: Path) -> bool:
    return any(name.startswith(("xl/", "content.xml")) for name in _members(path))


def _archive(path: Path) -> str:
    if _is_workbook(path):
        return "a workbook (Excel or OpenDocument); save the sheet as CSV UTF-8"
    return f"a zip with {len(_members(path))} files in it; give the one with the table"


def _compressed(content: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(content)
    if ending == ".zip":
        with zipfile.ZipFile(sink := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", content)
        return sink.getvalue()
    return content


# --- text -----------------------------------------------------------------------------------------


def _separator(path: Path, container: Container, names: Collection[str]) -> str:
    """Return the separator by which the header has most of the names.

    Where there are no names, it is the one that cuts the first lines into equally many fields, more
    than one; else the one that cuts the header most.
    """

    def fitting(mark: str) -> tuple[int, int]:
        cut = _first_lines(path, replace(container, separator=mark)) or [[]]
        if names:
            return len(set(names) & set(cut[0])), len(cut[0])
        return len({len(line) for line in cut}) == 1 < len(cut[0]), len(cut[0])

    return max(SEPARATORS, key=fitting)


def header_newline(path: Path) -> str:
    """Return what ends the first line of a text file."""
    with _opened(path) as file:
        return "\r\n" if file.readline().endswith(b"\r\n") else "\n"


def _header(path: Path, container: Container) -> tuple[str, ...]:
    lines = _first_lines(path, container)
    names = next(iter(lines), [])
    if (
        len(names) > 2
        and all(names[::2])
        and not any(field for line in lines for field in line[1::2])
    ):
        raise BadInput(
            f"{path}: its columns are separated by {container.separator * 2!r}; write one "
            "character between them."
        )
    _refuse_twins(path, names)
    # as pandas calls them
    return tuple(name or f"Unnamed: {place}" for place, name in enumerate(names))


def _refuse_twins(path: Path, names: Sequence[str]) -> None:
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise BadInput(f"{path}: two columns are called {twice[0]!r}; rename one of them.")


def _first_lines(path: Path, container: Container) -> list[list[str]]:
    text = io.TextIOWrapper(_opened(path), container.encoding, errors="replace", newline="")
    with refusing(path), text as stream:
        try:
            lines = csv.reader(stream, delimiter=container.separator, skipinitialspace=True)
            return list(islice(filter(None, lines), 5))
        except csv.Error:  # a field beyond all measure: not cut by this separator
            return []


def _decoded(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# --- types ----------------------------------------------------------------------------------------


def _typed(values: pd.Series, dtype: str) -> pd.Series:
    """Values in the dtype that this is the name of, or in the nullable one where they have gaps."""
    if dtype in ("", "object", "category"):  # of categories, the declared ones are there
        return values
    if values.hasnans and (dtype == "bool" or re.fullmatch(r"u?int\d+", dtype)):
        dtype = "boolean" if dtype == "bool" else dtype.replace("i", "I", 1).replace("u", "U", 1)
    return values.astype(dtype)


UNFIT = (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException)


def type_of(column: FileColumn) -> pa.DataType:
    """Return the type of a column in a typed file, by its declaration alone; any may have gaps."""
    name = column.type or ("dictionary<string>" if column.ordered else "")
    if name.startswith("dictionary<"):
        values = pa.type_for_alias(name.removeprefix("dictionary<").removesuffix(">"))
        return pa.dictionary(pa.int32(), values, column.ordered)
    if found := re.fullmatch(r"decimal128\((\d+), (\d+)\)", name):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", name):
        return pa.timestamp(*found.groups())
    if name:
        return pa.type_for_alias(name)
    if column.kind == "numeric" and not column.written:
        return pa.int64() if column.whole else pa.float64()
    if column.kind == "boolean" and column.categories == ("False", "True"):
        return pa.bool_()
    moments = {"date": pa.date32(), "time": pa.time64("us"), "datetime": pa.timestamp("us")}
    return moments.get(column.kind, pa.string())


def type_to_declare(column: FileColumn, found: pa.DataType) -> str:
    """Return the type that a draft declares for a column; '' where it needs no declaration."""
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
    try:
        _array(_declared_values(column), column, kind := type_of(column))
    except UNFIT as error:
        raise BadInput(
            f"schema: column {column.name!r} has type = {column.type!r}, which does not hold what "
            "it declares; correct the type, or leave it out."
        ) from error
    return kind


def _declared_values(column: FileColumn) -> pd.Series:
    """Return values that a column may have, as `FileColumn.restore` gives them.

    They are all categories, or the ends of its range and a number between them.
    """
    values = list(column.categories) or [column.low, column.high]
    if column.kind == "numeric" and not column.whole:
        values.append(column.low + 0.1234567 * (column.high - column.low))
    raw = pd.Series(values)
    rows = pd.DataFrame(column.parse(raw, column.name), index=raw.index)
    return column.restore(rows, np.random.default_rng(0))


def _coded(array: pa.Array, column: FileColumn) -> pa.Array:
    """Gaps as the first code for a missing value, where that is a value of the type: -9."""
    code = column.missing[0] if column.missing else ""
    if not array.null_count or not code or pa.types.is_dictionary(array.type):
        return array
    try:
        return array.fill_null(pa.array([code]).cast(array.type)[0])
    except UNFIT:
        return array


def _array(values: pd.Series, column: FileColumn, kind: pa.DataType) -> pa.Array:
    """Return a restored column in the type that it has in the file."""
    gaps = values.isna().to_numpy()
    if gaps.all():
        return pa.nulls(len(values), kind)
    if pa.types.is_dictionary(kind):  # all declared categories, in their order
        levels = pa.array(column.categories, pa.string()).cast(kind.value_type)
        codes = pa.array(values.cat.codes.to_numpy(), kind.index_type, mask=gaps)
        return pa.DictionaryArray.from_arrays(codes, levels, ordered=kind.ordered)
    if pa.types.is_duration(kind):  # declared in seconds
        return pa.array(pd.to_timedelta(values.astype(float), unit="s")).cast(kind, safe=False)
    if pa.types.is_temporal(kind) and column.kind in TIMES:
        pairs = zip(values, gaps, strict=True)
        moments = [None if gap else moment_of(text, column.format) for text, gap in pairs]
        return pa.array(moments, pa.timestamp("us")).cast(kind)
    if values.dtype == object and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        values = pd.to_numeric(values)  # several codes for a missing value
    if values.dtype.kind in "iuf":
        exact = values.astype(float) if pa.types.is_decimal(kind) else values
        return pa.array(exact, from_pandas=True).cast(kind)
    return pa.array(values.astype(object).astype(str), pa.string(), mask=gaps).cast(kind)
