"""The tables that the five works use, read from `schemas/*.toml`: facts as data, no code per table.

A registry file is a schema file (`[table]` facts, one `[[column]]` for each column) plus what only
a public table has: `[[file]]` (official name, checksums, address) and `[work.<key>]` (what a work
did to it).
"""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.form import form_from
from fedsynth_lib.tables.schema import Column, Schema, closest, read_toml

SCHEMAS = Path(__file__).parent / "schemas"


@dataclass(frozen=True)
class Reader:
    """How the rows of a text file are written.

    suffix: characters to cut off the end of labels (adult.test writes '>50K.').
    empty: the category that an empty cell of a categorical column stands for ('' = none: an error).
    encoding: such as latin-1; newline: of the file with synthetic rows. Both of someone's own file
        only.
    """

    separator: str = ","
    header: bool = True
    skip_spaces: bool = False
    suffix: str = ""
    empty: str = ""
    encoding: str = "utf-8"
    newline: str = field(default="\n", repr=False)  # no part of what a table's content follows from

    def __post_init__(self):
        """Check what is declared."""
        if self.newline not in ("\n", "\r\n"):
            raise BadInput(f'[reader] newline is {self.newline!r}; write "\\n" or "\\r\\n".')
        if not isinstance(self.separator, str) or len(self.separator) != 1:
            raise BadInput(
                f"[reader] separator is {self.separator!r}; write one character, and one between "
                "the columns of the file."
            )
        if not isinstance(self.header, bool):
            raise BadInput(f"[reader] header is {self.header!r}; write true or false.")
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError) as error:
            raise BadInput(
                f'[reader] encoding is {self.encoding!r}; write a known one, such as "latin-1".'
            ) from error


@dataclass(frozen=True)
class File:
    """One file of a table, under its official name; the mirror may store it compressed.

    sha256: of the official content; sha256_stored: of the file as the mirror or the official
        address holds it.
    urls: direct official addresses of the file or of a zip that holds it; none where a login is
        needed.
    header: overrides the reader's. skip_lines: lines to skip at the top.
    """

    name: str
    sha256: str = ""
    sha256_stored: str = ""
    stored: str = ""
    urls: tuple[str, ...] = ()
    rows: int | None = None
    header: bool | None = None
    skip_lines: int = 0


@dataclass(frozen=True)
class View:
    """What a work takes from a table, in the names of the file.

    files: read and put together; otherwise: the files to take where those cannot be had;
    holdout: the work's own test files. drop: columns left out. rename: old -> new name.
    categorical: integer columns that the work treats as categories. merge: column -> new
    category -> old categories. rows: the rows of these files. bins: numeric column -> the levels
    that the work cut it into; "*" stands for every numeric column that is not named (see
    `view_bins`). target: of this work, where it is not the table's.
    """

    files: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    holdout: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    categorical: tuple[str, ...] = ()
    merge: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    rows: int | None = None
    bins: Mapping[str, int] = field(default_factory=dict)
    target: str = ""
    notes: str = ""

    def schema(self, declared: Schema) -> Schema:
        """Return the declared schema as this view sees it, before `rename`."""
        kept = declared.drop(self.drop)
        return Schema(
            tuple(self._column(column) for column in kept.columns), self.target or kept.target
        )

    def _column(self, column: Column) -> Column:
        if column.name in self.categorical and column.kind == "numeric":
            levels = range(int(column.low), int(column.high) + 1)
            levels = tuple(map(str, levels))
            return replace(
                column, kind="categorical", low=None, high=None, integer=False, categories=levels
            )
        new_label = self.new_labels(column.name)
        merged = dict.fromkeys(new_label.get(category, category) for category in column.categories)
        return replace(column, categories=tuple(merged))

    def new_labels(self, name: str) -> dict[str, str]:
        """Old category -> new category of a column."""
        return {old: new for new, olds in self.merge.get(name, {}).items() for old in olds}


@dataclass(frozen=True, eq=False)  # each is itself, so that what follows from it can be kept
class Entry:
    """All that is known about a table without reading it.

    schema: every declared column. file_columns: the columns in file order, ignored ones included.
    views: work key -> what that work takes; view(None) is the table's own default.
    folder: the folder of its files in data/raw and in a mirror; as a rule the key.
    generated: made by code (see tables/synthfs.py), there is no file.
    """

    key: str
    title: str
    path: Path
    schema: Schema
    file_columns: tuple[str, ...]
    reader: Reader = Reader()
    files: Mapping[str, File] = field(default_factory=dict)
    default: View = View()
    works: Mapping[str, View] = field(default_factory=dict)
    page: str = ""
    licence: str = ""
    notes: str = ""
    folder: str = ""
    generated: bool = False

    def view(self, work: str | None) -> View:
        """Return the view of a work; None: the table's default; 'all': every declared column.

        Raises BadInput where the work does not use this table.
        """
        if work is None:
            return self.default
        if work == "all":
            return replace(self.default, drop=())
        if work not in self.works:
            known = ", ".join([*self.works, "'all'"])
            raise BadInput(
                f"{self.key}: no work {work!r} uses this table{closest(work, self.works)}; "
                f"choose {known} or None, or add a section "
                f"[work.{work}] to fedsynth_lib/tables/schemas/{self.key}.toml."
            )
        return self.works[work]


def declared_schema(key: str, work: str | None) -> Schema:
    """Return the schema of a registered table in the view of a work, in that view's names."""
    view = entry(key).view(work)
    return view.schema(entry(key).schema).rename(view.rename)


def entry_from_toml(path: Path) -> Entry:
    """Return the registry entry in a TOML file; BadInput for entries that no field is made for."""
    document = read_toml(path)
    table = dict(document.get("table", {}))
    default = {name: table.pop(name) for name in ("files", "otherwise", "drop") if name in table}
    base = from_toml(View, default, path)
    files = [from_toml(File, entry, path) for entry in document.get("file", [])]
    # A work takes the table's default files unless it names its own.
    works = {
        work: from_toml(
            View,
            {"files": base.files, "otherwise": base.otherwise} | entry,
            path,
        )
        for work, entry in document.get("work", {}).items()
    }
    return Entry(
        key=path.stem,
        title=table.get("title", path.stem),
        path=path,
        schema=form_from(document, str(path)).schema,
        file_columns=tuple(column["name"] for column in document["column"]),
        reader=from_toml(Reader, document.get("reader", {}), path),
        files={file.name: file for file in files},
        default=base,
        works=works,
        folder=table.get("folder", path.stem),
        **{
            name: table[name] for name in ("page", "licence", "notes", "generated") if name in table
        },
    )


def from_toml(kind: type, entry: dict, path: str | Path):
    """Return the dataclass `kind` from a TOML table, lists as tuples."""
    unknown = sorted(set(entry) - {each.name for each in fields(kind)})
    if unknown:
        raise BadInput(
            f"{path}: {unknown[0]!r} means nothing in a {kind.__name__.lower()}; remove it."
        )
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in entry.items()
        }
    )


REGISTRY: dict[str, Entry] = {
    path.stem: entry_from_toml(path) for path in sorted(SCHEMAS.glob("*.toml"))
}


def entry(key: str) -> Entry:
    """Return the registry entry of a key; BadInput with the nearest known key."""
    if key not in REGISTRY:
        raise BadInput(
            f"There is no table {key!r}{closest(key, REGISTRY)}; known: {', '.join(REGISTRY)}; or "
            "give a file's path."
        )
    return REGISTRY[key]


def view_bins(key: str, work: str) -> dict[str, int]:
    """Return numeric column -> the number of bins into which the work cut it.

    Columns have the view's names; empty where the work states none.

    Made for `encode.EqualWidthBins(table.schema, None, view_bins(table.key, work))`.
    """
    table = entry(key)
    view = table.view(work)
    chosen = {
        name: view.bins.get(name, view.bins.get("*")) for name in view.schema(table.schema).numeric
    }
    return {view.rename.get(name, name): bins for name, bins in chosen.items() if bins is not None}


def stated_bins(key: str) -> dict[str, int]:
    """`view_bins` of the first work that states bins for this table; empty where none does."""
    found = (view_bins(key, work) for work in REGISTRY[key].works)
    return next((bins for bins in found if bins), {})
