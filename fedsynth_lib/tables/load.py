"""Tables: the registered ones by key, or anyone's own CSV or parquet file by path.

    table = load_table("adult", work="martinez2024")
    table = load_table("my.csv", schema="my.toml")

A registered table is looked for in data/raw, in FEDSYNTH_MIRROR, at the official address, and at
last as a stand-in that this bundle made under differential privacy, which is said loudly.
"""

import hashlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.errors import checked_rows, checked_seed
from fedsynth_lib.core.store import project_root, within
from fedsynth_lib.tables import fetch, synthfs
from fedsynth_lib.tables.container import Container, InMemory, Source
from fedsynth_lib.tables.files import (
    NOT_A_NUMBER,
    one_column,
    read_parquet,
    read_text,
    relabel,
    with_labels,
)
from fedsynth_lib.tables.form import Form, form_from
from fedsynth_lib.tables.kinds import as_texts, refuse_first
from fedsynth_lib.tables.registry import (
    REGISTRY,
    Entry,
    Reader,
    View,
    entry,
    from_toml,
)
from fedsynth_lib.tables.schema import (
    Column,
    Schema,
    check_clients,
    is_text,
    read_toml,
    refuse_rows,
    require_columns,
    validate,
)

__all__ = [
    "REGISTRY",
    "Column",
    "Schema",
    "StandInWarning",
    "Table",
    "available",
    "check_clients",
    "load_table",
    "split",
    "validate",
]

Data = Literal["real", "standin", "own"]


class StandInWarning(UserWarning):
    """The rows are a synthetic stand-in, not the real table."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with their declared schema.

    frame: numeric columns float64 (int64 where integer), categorical ones with exactly the declared
        categories; columns in schema order; RangeIndex.
    data: 'real', 'standin' (synthetic, made by this bundle), or 'own' (the user's file).
    digest: hash of schema and content: tables with equal digests are equal.
    origin: digest of the table as it was loaded, which its samples and parts share.
    form, container: of someone's own file: what its columns are there, and what kind of file it is.
    moved: in a sentence each, for the owner alone, what was moved to fit its declaration.
    held: rule of the form -> the share of its rows in which it holds, for the owner alone.
    raw: the open columns of the form as the file has them, of which `frame` knows `other` alone.
    persons: whose each row is, by the unit of the form, as text (rows,); None where that is a row.
    """

    key: str
    frame: pd.DataFrame
    schema: Schema
    data: Data
    digest: str = ""
    origin: str = ""
    form: Form | None = None
    container: Container | None = None
    moved: tuple[str, ...] = ()
    held: Mapping[str, float] = field(default_factory=dict)
    raw: pd.DataFrame | None = None
    persons: np.ndarray | None = None

    def __post_init__(self):
        """Compute the digest where none is given; without an origin it is the origin, too."""
        object.__setattr__(self, "digest", self.digest or _digest(self.frame, self.schema))
        object.__setattr__(self, "origin", self.origin or self.digest)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.frame)

    def take(self, positions: np.ndarray) -> "Table":
        """Return the table with only these rows, in this order.

        Raises BadInput unless they are whole row positions.
        """
        if len(positions) and np.asarray(positions).dtype.kind not in "iu":
            raise BadInput(
                f"{self.key}: positions are of {np.asarray(positions).dtype}: give whole row "
                "positions, of a mask by np.flatnonzero(mask)."
            )
        rows = self.frame.iloc[positions].reset_index(drop=True)
        persons = None if self.persons is None else self.persons[positions]
        raw = None if self.raw is None else self.raw.iloc[positions].reset_index(drop=True)
        return replace(self, frame=rows, digest="", persons=persons, raw=raw)

    @property
    def content(self) -> pd.DataFrame:
        """The rows with the open columns as the file has them: what tells rows from each other."""
        if self.raw is None:
            return self.frame
        texts = self.raw.astype(object)
        return self.frame.assign(**texts.where(texts.notna(), " "))  # no text is a blank

    def expect(self, origin: str) -> None:
        """Raise BadInput unless the table is, or was taken from, the one with this digest.

        origin: '' for any.
        """
        if origin not in ("", self.origin):
            raise BadInput(
                f"{self.key}: the table is not the one that the grid was made for; "
                "build the grid again."
            )


def load_table(
    key_or_path: str | Path | InMemory | pd.DataFrame,
    *,
    work: str | None = None,
    schema: Schema | str | Path | None = None,
    rows: int | None = None,
    seed: int = 0,
    part: Literal["train", "holdout"] = "train",
    private: bool = False,
    unit: str = "",
    most_rows: int = 0,
) -> Table:
    """Return the table of a registered key, of a CSV or parquet file, or of a DataFrame.

    work: a work's key selects the columns and names that this work uses; 'all' every declared
        column; None the table's default, without sampling weights.
    schema: for a file or a DataFrame: the declared schema, the path of its TOML file, or its text.
    rows: a random subsample of so many rows, without replacement, drawn with `seed`.
    part: 'holdout' gives the work's own test file where it has one.
    private: of a file: numbers out of their declared range are moved to its nearer end, and rounded
        where whole ones are declared, so that nobody's number can stop a private run, or show by
        stopping it that it is there.
    unit, most_rows: of a file: as in `Form`, where the schema does not say them.
    Raises BadInput, in one sentence, for whatever cannot work.
    """
    checked_seed(seed)
    if isinstance(key_or_path, pd.DataFrame):
        key_or_path = InMemory.of(key_or_path)
    if _is_path(key_or_path):
        if work is not None:
            raise BadInput(
                f"{key_or_path}: work={work!r} selects columns of a registered table; leave it "
                "out for a file."
            )
        in_memory = isinstance(key_or_path, InMemory)
        source = key_or_path if in_memory else Path(key_or_path).expanduser()
        table = _own_table(source, schema, private, unit, most_rows)
    else:
        if schema is not None:
            raise BadInput(
                f"{key_or_path}: the schema of a registered table is fixed; give schema only with "
                "a file's path."
            )
        table = _registered_table(entry(str(key_or_path)), work, part, seed)
    return table if rows is None else _subsample(table, rows, seed)


def split(table: Table, *, seed: int, test_share: float = 0.2) -> tuple[Table, Table]:
    """Split by a random permutation into a training table and a hold-out table.

    The hold-out has round(rows * test_share) rows.
    """
    checked_seed(seed)
    num_test = round(len(table) * test_share)
    if not 0 < num_test < len(table):
        raise BadInput(
            f"{table.key}: test_share={test_share} of {len(table)} rows leaves one side empty; "
            "give a share between 0 and 1 and enough rows."
        )
    order = stream(seed, "split").permutation(len(table))
    return table.take(order[num_test:]), table.take(order[:num_test])


class Available(NamedTuple):
    """Whether and where a table can be had.

    state: raw, mirror, official? (not tried), standin, missing, or generated; where: path or
    address.
    """

    state: str
    where: str


def available(key: str) -> Available:
    """Where load_table(key) would find the table. Downloads nothing and opens no connection."""
    table = entry(key)
    if table.generated:
        return Available("generated", "fedsynth_lib/tables/synthfs.py")
    for names in filter(None, (table.default.files, table.default.otherwise)):
        found = [fetch.find_local(table.folder, table.files[name]) for name in names]
        if all(found):
            return Available(found[0][1], ", ".join(str(path) for path, _ in found))
    if "://" in fetch.mirror():
        return Available("mirror", f"{fetch.mirror()}/{table.folder} (not checked)")
    for names in filter(None, (table.default.files, table.default.otherwise)):
        if all(table.files[name].urls for name in names):
            return Available("official?", ", ".join(table.files[name].urls[0] for name in names))
    path = _standin_path(key)
    return Available("standin", str(path)) if path.is_file() else Available("missing", table.page)


# Registered tables


def _registered_table(table: Entry, work: str | None, part: str, seed: int) -> Table:
    view = table.view(work)
    if table.generated:
        return Table(
            table.key,
            validate(synthfs.generate(seed=seed), table.schema, table.key),
            table.schema,
            "real",
        )
    if part not in ("train", "holdout") or (part == "holdout" and not view.holdout):
        raise BadInput(
            f"{table.key}: there is no part {part!r} for work={work!r}; use "
            "part='train' and split()."
        )
    names, otherwise = (view.holdout, ()) if part == "holdout" else (view.files, view.otherwise)
    allowed = os.environ.get("FEDSYNTH_DATA", "")
    if allowed not in ("", "real", "standin"):
        raise BadInput(f"FEDSYNTH_DATA is {allowed!r}; set it to 'real' or 'standin', or unset it.")
    paths, tried = ([], []) if allowed == "standin" else fetch.locate(table, names, otherwise)
    if paths:
        stamps = tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths)
        loaded = _read_registered(table.key, work, stamps)
        return Table(loaded.key, loaded.frame.copy(), loaded.schema, "real", loaded.digest)
    return _standin(table, view, part, tried)


@lru_cache(maxsize=4)
def _read_registered(key: str, work: str | None, stamps: tuple) -> Table:
    """Return the parsed and checked table.

    stamps: (path, time, size), which make a changed file a new entry of the cache.
    """
    table, view = REGISTRY[key], REGISTRY[key].view(work)
    schema = view.schema(table.schema)
    frames = []
    for path in (Path(stamp[0]) for stamp in stamps):
        file = next(file for file in table.files.values() if path.name in fetch.stored_names(file))
        fetch.check(path, file)
        raw = _merged(read_text(path, schema, table.reader, file, table.file_columns), view)
        frames.append(validate(raw, schema, str(path)))
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    return _named(key, frame, schema, view, "real")


def _named(key: str, frame: pd.DataFrame, schema: Schema, view: View, data: Data) -> Table:
    return Table(key, frame.rename(columns=view.rename), schema.rename(view.rename), data)


def _merged(frame: pd.DataFrame, view: View) -> pd.DataFrame:
    for name in view.merge:
        if name in frame:
            new = view.new_labels(name)
            frame[name] = relabel(
                frame[name].astype("category"), lambda label, new=new: new.get(label, label)
            )
    return frame


def _standin_path(key: str) -> Path:
    return project_root() / "data" / "standin" / f"{key}.parquet"


_warned: set[str] = set()


def _standin(table: Entry, view: View, part: str, tried: list[str]) -> Table:
    path, key = _standin_path(table.key), table.key
    names = ", ".join(view.holdout if part == "holdout" else view.files)
    where = " (tried " + ", ".join(tried) + ")" if tried else ""
    remedy = f"put {names} ({table.page}) into data/raw/{table.folder} or set FEDSYNTH_MIRROR"
    wanted = os.environ.get("FEDSYNTH_DATA")
    refuse_first(
        f"{key}:",
        (
            wanted == "real",
            f"the real table cannot be reached and FEDSYNTH_DATA=real forbids a stand-in{where}; "
            f"{remedy}.",
        ),
        (
            part == "holdout",
            f"the hold-out file cannot be reached and a stand-in has none{where}; {remedy}, or use "
            "split().",
        ),
        (
            not path.is_file(),
            f"the table cannot be reached and there is no stand-in {within(path)}{where}; "
            f"{remedy}.",
        ),
    )
    schema = view.schema(table.schema)
    frame = read_parquet(path, table.schema, Reader())
    lacking = [name for name in schema.names if name not in frame]
    if lacking:
        raise BadInput(f"{key}: the stand-in has no column {lacking[0]!r}; {remedy}.")
    if key not in _warned:
        _warned.add(key)
        why = f"because the table cannot be reached{where}"
        why = "as FEDSYNTH_DATA=standin asks" if wanted == "standin" else why
        message = f"NOT REAL DATA. A synthetic stand-in is used, {why}; for the real rows {remedy}."
        warnings.warn(f"{key}: {message}", StandInWarning, stacklevel=4)
    frame = validate(_merged(frame, view), schema, str(path))
    return _named(key, frame, schema, view, "standin")


# A user's own file


def _is_path(key_or_path: str | Path | InMemory) -> bool:
    text = str(key_or_path)
    suffixes = {".csv", ".tsv", ".txt", ".data", ".parquet", ".gz", ".xz", ".zip"}
    return (
        isinstance(key_or_path, Path | InMemory)
        or "/" in text
        or os.sep in text
        or Path(text).suffix in suffixes
    )


def _own_table(
    path: Source, schema: Schema | str | Path | None, private: bool, unit: str, most_rows: int
) -> Table:
    if schema is None:
        raise BadInput(
            f"{path}: a table of your own needs a declared schema (schema='my.toml'), so that "
            "nothing is read from private rows; `fedsynth draft` writes one to "
            "correct."
        )
    declared, name = isinstance(schema, Schema), "schema" if is_text(schema) else str(schema)
    document = {} if declared else read_toml(schema)
    form = Form.of(schema) if declared else form_from(document, name)
    form = form.of_persons(unit, most_rows) if unit or most_rows else form
    if not private:
        form.refuse_open(name, "only `fedsynth synth` selects categories from noisy counts")
    reader = from_toml(Reader, document.get("reader", {}), path)
    in_file = [column["name"] for column in document.get("column", [])] or list(form.names)
    container = Container.of(path, document.get("reader"), in_file)
    if len(container.columns) == 1 and container.columns[0] not in form.names:
        raise one_column(path, container.separator, container.columns[0])
    missing = {c.name: (*NOT_A_NUMBER, *c.missing) for c in form.columns if not c.is_text}
    raw = with_labels(container.raw(path, in_file, missing), form.labels, reader)
    if not container.header and len(in_file) > 1 and raw[in_file[1:]].isna().all(axis=None):
        raise one_column(path, container.separator, in_file[0])
    form = form.in_order_of(raw.columns)
    container = replace(container.declared(form), columns=tuple(raw.columns))
    moved = [] if private else None
    frame = form.to_model(raw, str(path), moved)
    own = {"form": form, "container": container, "moved": tuple(moved or ())}
    own["held"] = form.rules_held(raw)
    if form.open:
        own["raw"] = pd.DataFrame({name: as_texts(raw[name]) for name in form.open})
    own["persons"] = _persons(raw, form.unit, str(path)) if form.unit else None
    return Table(path.stem, frame, form.schema, "own", **own)


def _persons(raw: pd.DataFrame, unit: str, name: str) -> np.ndarray:
    require_columns(raw, [unit], name)
    persons = raw[unit].astype(object).where(raw[unit].notna(), "").astype(str).str.strip()
    nobody = (persons == "").to_numpy()
    remedy = "fill it in, for it says whose each row is"
    refuse_rows(persons, nobody, f"{name}: column {unit!r}", "no value", remedy)
    return persons.to_numpy(object)


def _subsample(table: Table, rows: int, seed: int) -> Table:
    if not isinstance(rows, Integral) or isinstance(rows, bool):
        checked_rows(rows)
    if not 1 <= rows <= len(table):
        raise BadInput(
            f"{table.key}: rows={rows} cannot be drawn from a table of {len(table)} rows; ask for "
            f"1 to {len(table)}."
        )
    sample = table.take(np.sort(stream(seed, "rows").choice(len(table), size=rows, replace=False)))
    target = table.schema.target
    if target in table.schema.categorical and rows > 1 and sample.frame[target].nunique() < 2:
        raise BadInput(
            f"{table.key}: rows={rows} leaves one class of the target {target!r}; ask "
            "for more rows."
        )
    return sample


def _digest(frame: pd.DataFrame, schema: Schema) -> str:
    facts = [replace(column, source="") for column in schema.columns]  # wording is no content
    content = hashlib.blake2b(repr((facts, schema.target)).encode(), digest_size=16)
    for name in schema.names:
        values = frame[name].cat.codes if name in schema.categorical else frame[name]
        content.update(np.ascontiguousarray(values.to_numpy()))
    return content.hexdigest()
