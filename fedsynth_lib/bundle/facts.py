"""Numbers of ours in prose, and the headline table of README.md, put there from rows.

    python -m fedsynth_lib facts           # writes every number and the table
    python -m fedsynth_lib facts --check   # writes nothing, fails where a text and the rows differ

A fact is data, in `data/published/facts/<work>.toml`: a name, the file or files of rows that it
comes from, which rows, which column. Prose holds its name and its value,
`<!--=name-->0.82<!--/-->`, and a reader sees 0.82 alone. README.md, ARTIFACT.md, the Markdown of
`data/published/` and the notebooks are read; a value may be in any number of places.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.runs.typed import read_toml, typed

# the headline table of README
BEGIN, END = "<!-- verdict: made from committed rows -->", "<!-- end of verdict -->"
FOLDER = "data/published/facts"
# decimals that may stand in prose without a fact, and why: tests/test_prose.py
NOT_FACTS = ("typed.toml",)
SOURCES = re.compile(
    r"(figures|data/results/(paper|quick))/[^/]+\.csv|data/published/values/\w+/[^/]+\.csv"
)
MARKER = re.compile(r"<!--=(?P<name>[^\n]*?)-->(?P<said>[^\n]*?)<!--/-->")
NAME = re.compile(r"[a-z][a-z0-9_]*")
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
TAKEN = {  # the numbers of an entry such as `0.62 ± 0.04 (0.61 ± 0.02) =`
    "ours": re.compile(rf"^({NUMBER})"),
    "spread": re.compile(rf"^{NUMBER} ± ({NUMBER})"),
    "printed": re.compile(rf"\(({NUMBER})"),
    "printed spread": re.compile(rf"\({NUMBER} ± ({NUMBER})"),
}
REDUCTIONS: dict[str, Callable[[pd.Series], Any]] = {
    **{
        name: operator.methodcaller(name)
        for name in ("mean", "median", "min", "max", "sum", "std", "nunique")
    },
    "count": len,
    "share": len,  # see _of_rows
    # by how many percent the last of several values is below the first
    "percent below": lambda column: 100 * (1 - column.iloc[-1] / column.iloc[0]),
}


@dataclass(frozen=True)
class Fact:
    """One number of ours: read from rows (`source`), or measured (`value`)."""

    name: str
    file: str  # that states it
    format: str = ".2f"  # as in f"{value:.2f}"; "d" for counts, ".0%" for shares
    # `from` in the file: a CSV of SOURCES, or a pattern such as `figures/6[12]_gain.csv` of several
    source: str = ""
    where: str = ""  # pandas query that selects rows; all of them if empty
    column: str = ""  # a name, or an expression over names
    take: str = ""  # which number of a text entry, one of TAKEN
    reduce: str = ""  # one of REDUCTIONS, where several rows make one number
    that: str = ""  # with count or share: the query that is counted among the selected rows
    value: int | float | str | None = None  # of a measurement that no rows hold, such as minutes
    why: str = ""  # with `value`: who measured what, where


class Outdated(NamedTuple):
    """A place where prose and rows differ."""

    file: str
    fact: str
    said: str
    found: str

    def __str__(self) -> str:
        return f"{self.file}: {self.fact} says {self.said!r}, the rows say {self.found!r}"


def load_facts(root: Path | None = None) -> dict[str, Fact]:
    """All facts by name, from the files of FOLDER. Raises BadInput for a name or an entry that
    cannot be."""
    facts: dict[str, Fact] = {}
    for path in sorted(((root or project_root()) / FOLDER).glob("*.toml")):
        if path.name in NOT_FACTS:
            continue
        for name, entries in read_toml(path).items():
            where = f"{path.name}: fact {name}"
            if not NAME.fullmatch(name) or not isinstance(entries, dict):
                raise BadInput(f"{where}: write [name] in small letters, digits and '_'.")
            if name in facts:
                raise BadInput(f"{where} stands in {facts[name].file} already: rename it.")
            entries = {{"from": "source"}.get(key, key): entry for key, entry in entries.items()}
            facts[name] = typed(Fact, {"name": name, "file": path.name, **entries}, where)
            _check_kind(facts[name])
    return facts


class Values(dict):
    """The text of each fact by its name, found when it is first asked for."""

    def __init__(self, facts: Mapping[str, Fact], root: Path | None = None):
        self.facts, self.root = facts, root or project_root()
        self._tables: dict[str, pd.DataFrame] = {}

    def __missing__(self, name: str) -> str:
        """Raises BadInput for an unknown name, and where the fact selects no single value."""
        if name not in self.facts:
            raise BadInput(
                f"there is no fact {name!r} in {FOLDER}: correct the name, or state the fact."
            )
        fact = self.facts[name]
        value = _of_rows(fact, self._table(fact)) if fact.source else fact.value
        if value != value:
            raise _bad(fact, "is missing there, not a number: make its file again")
        try:
            return self.setdefault(name, format(value, fact.format))
        except ValueError:
            raise _bad(
                fact, f"{value!r} cannot be written with the format {fact.format!r}"
            ) from None

    def _table(self, fact: Fact) -> pd.DataFrame:
        if fact.source not in self._tables:
            paths = sorted(self.root.glob(fact.source))
            if not paths:
                raise _bad(fact, f"{fact.source} is not there")
            table = pd.concat([pd.read_csv(path, low_memory=False) for path in paths])
            table = table.reset_index(drop=True)
            texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
            self._tables[fact.source] = table.fillna(dict.fromkeys(texts, ""))
        return self._tables[fact.source]


def put_facts(
    text: str, values: Mapping[str, str], name: str, *, in_json: bool = False
) -> tuple[str, list[Outdated]]:
    """The text with the value of today in every marker, and what changed. name: of the file, for
    messages.

    in_json: the text is a notebook's file, where what is put in must be escaped.
    """
    if text.count("<!--=") != len(MARKER.findall(text)):
        raise BadInput(f"{name}: a marker <!--=name--> is not closed by <!--/--> on its own line.")
    changes = []

    def replaced(marker: re.Match[str]) -> str:
        try:
            found = values[marker["name"]]
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from None
        shown = json.dumps(found, ensure_ascii=False)[1:-1] if in_json else found
        if shown != marker["said"]:
            changes.append(Outdated(name, marker["name"], marker["said"], found))
        return f"<!--={marker['name']}-->{shown}<!--/-->"

    return MARKER.sub(replaced, text), changes


def put_between(text: str, begin: str, end: str, block: str, name: str = "README.md") -> str:
    """A text with the block between the lines `begin` and `end`. Raises BadInput where these are
    missing."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise BadInput(
            f"{name} has no lines {begin!r} and {end!r}: put them where the table belongs."
        )
    return f"{before}{begin}\n{block}\n{end}{after}"


def texts(root: Path | None = None) -> list[Path]:
    """The files whose markers are filled."""
    root = root or project_root()
    found = [
        *(root / name for name in ("README.md", "ARTIFACT.md")),
        *(root / "data/published").glob("*.md"),
        *(root / "notebooks").glob("*.ipynb"),
    ]
    return sorted(path for path in found if path.is_file())


def refresh(root: Path | None = None, *, write: bool = True) -> list[Outdated]:
    """Fill every marker of every text anew; what differed before. write: False only looks."""
    root = root or project_root()
    values, changes = Values(load_facts(root), root), []
    for path in texts(root):
        name = path.relative_to(root).as_posix()
        before = path.read_text(encoding="utf-8")
        after, changed = put_facts(before, values, name, in_json=path.suffix == ".ipynb")
        if write and after != before:
            write_atomically(path, after.encode())
        changes += changed
    return changes


def headline_table() -> str:
    """The headline by the verdict that is kept in data/results, as a table in Markdown."""
    from fedsynth_lib.bundle import headline

    return headline.as_markdown(headline.gathered())


def refresh_headline(*, write: bool = True) -> list[str]:
    """Put the headline table into README.md, where it has a place for it; what differed before."""
    path = project_root() / "README.md"
    before = path.read_text(encoding="utf-8")
    if BEGIN not in before:
        return []
    after = put_between(before, BEGIN, END, headline_table())
    if write and after != before:
        write_atomically(path, after.encode())
    return [f"{path.name}: the headline table"] if after != before else []


def _of_rows(fact: Fact, table: pd.DataFrame) -> Any:
    """The number that a fact reads from a table."""
    rows = _selected(fact, table, fact.where)
    if not len(rows):
        raise _bad(fact, f"{fact.where!r} selects no row of {fact.source}")
    if fact.reduce in ("count", "share"):
        counted = _selected(fact, rows, fact.that) if fact.that else rows
        return len(counted) / len(rows) if fact.reduce == "share" else len(counted)
    column = _column(fact, rows)
    if fact.take:
        column = column.map(lambda entry: _taken(fact, str(entry)))
    if fact.reduce:
        return _plain(REDUCTIONS[fact.reduce](column))
    if len(column) > 1:
        raise _bad(
            fact,
            f"{fact.where!r} selects {len(rows)} rows of {fact.source}; narrow it, "
            "or say how to reduce",
        )
    return _plain(column.iloc[0])


def _selected(fact: Fact, table: pd.DataFrame, query: str) -> pd.DataFrame:
    if not query:
        return table
    try:
        return table.query(query, engine="python")
    except Exception as error:  # pandas raises a dozen kinds
        raise _bad(fact, f"{query!r} cannot be asked of {fact.source} ({error})") from None


def _column(fact: Fact, rows: pd.DataFrame) -> pd.Series:
    """A column by its name, or an expression over columns such as `abs(ours - printed)`."""
    if fact.column in rows:
        return rows[fact.column]
    try:
        return pd.Series(rows.eval(fact.column, engine="python"))
    except Exception:
        known = ", ".join(map(repr, rows))
        raise _bad(fact, f"{fact.source} has no column {fact.column!r}; it has {known}") from None


def _taken(fact: Fact, entry: str) -> float:
    found = TAKEN[fact.take].search(entry)
    if not found:
        raise _bad(fact, f"{entry!r} in {fact.source} has no number that is {fact.take}")
    return float(found[1])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _check_kind(fact: Fact) -> None:
    """Raises BadInput unless the fact says in exactly one way where its value comes from."""
    if bool(fact.source) == (fact.value is not None):
        raise _bad(fact, "needs exactly one of `from` and `value`")
    if fact.source and not SOURCES.fullmatch(fact.source):
        raise _bad(
            fact,
            f"{fact.source!r} is no CSV of figures/ or of data/results/, profile paper or quick",
        )
    if fact.take and fact.take not in TAKEN:
        raise _bad(fact, f"{fact.take!r} cannot be taken; choose {', '.join(TAKEN)}")
    if fact.reduce and fact.reduce not in REDUCTIONS:
        raise _bad(fact, f"{fact.reduce!r} is no reduction; choose {', '.join(REDUCTIONS)}")
    if (fact.that and fact.reduce not in ("count", "share")) or (
        fact.reduce == "share" and not fact.that
    ):
        raise _bad(fact, "`that` goes with count or share, and share needs it")
    if fact.value is not None and not fact.why:
        raise _bad(fact, "a measured value needs `why`: what was measured, and on what machine")


def _bad(fact: Fact, trouble: str) -> BadInput:
    return BadInput(f"{fact.file}: fact {fact.name}: {trouble}.")


def main(*, check: bool = False) -> int:
    """Write all that is out of date, or only look; 1 where `check` finds a difference.

    Raises BadInput for a fact that is none.
    """
    changes = [*refresh(write=not check), *refresh_headline(write=not check)]
    for change in changes:
        print(change)
    print(f"{len(changes)} places {'differ from the rows' if check else 'written anew'}")
    return int(check and bool(changes))
