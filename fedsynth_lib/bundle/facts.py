"""Numbers of ours in prose, and the headline table of README.md, put there from rows.

    python -m fedsynth_lib facts           # writes every number and the table
    python -m fedsynth_lib facts --check   # writes nothing, fails where a text and the rows differ

A fact is data, in `data/published/facts/<work>.toml`: a name, the file or files of rows that it
comes from, which rows, which column. Prose holds its name and its value,
`<!--=name-->0.82<!--/-->`, and a reader sees 0.82 alone. README.md, ARTIFACT.md, the Markdown of
`data/published/` and the notebooks are read; a value may be in any number of places.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.runs.typed import read_toml, typed

FOLDER = "data/published/facts"
# decimals that may stand in prose without a fact, and why: tests/test_prose.py
NOT_FACTS = ("typed.toml",)
SOURCES = re.compile(
    r"(figures|data/results/(paper|quick))/[^/]+\.csv|data/published/values/\w+/[^/]+\.csv"
)
MARKER = re.compile(r"<!--=(?P<name>[^\n]*?)-->(?P<said>[^\n]*?)<!--/-->")
NAME = re.compile(r"[a-z][a-z0-9_]*")


def percent_below(column: pd.Series) -> float:
    """By how many percent the last of several values is below the first."""
    return 100 * (1 - column.iloc[-1] / column.iloc[0])


REDUCTIONS = {name: name for name in ("mean", "min", "max", "sum", "nunique")}
REDUCTIONS |= {"percent below": percent_below}
COUNT = "count"  # of rows


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
    reduce: str = ""  # one of REDUCTIONS or COUNT, where several rows make one number
    value: int | float | str | None = None  # of a measurement that no rows hold, such as minutes
    why: str = ""  # with `value`: who measured what, where


class Outdated(NamedTuple):
    """A place where prose and rows differ."""

    file: str
    fact: str
    said: str
    found: str

    def __str__(self) -> str:
        """Say which value is where, and which one it should be."""
        return f"{self.file}: {self.fact} says {self.said!r}, the rows say {self.found!r}"


def load_facts(root: Path | None = None) -> dict[str, Fact]:
    """Read all facts by name, from the files of FOLDER.

    Raises BadInput for a name or an entry that cannot be.
    """
    facts: dict[str, Fact] = {}
    for path in sorted(((root or project_root()) / FOLDER).glob("*.toml")):
        if path.name in NOT_FACTS:
            continue
        for name, entries in read_toml(path).items():
            where = f"{path.name}: fact {name}"
            if not NAME.fullmatch(name) or not isinstance(entries, dict):
                raise BadInput(f"{where}: write [name] in small letters, digits and '_'.")
            if name in facts:
                raise BadInput(f"{where} is in {facts[name].file} already: rename it.")
            entries = {{"from": "source"}.get(key, key): entry for key, entry in entries.items()}
            facts[name] = typed(Fact, {"name": name, "file": path.name, **entries}, where)
            check_kind(facts[name])
    return facts


class Values(dict):
    """The text of each fact by its name, found when it is first asked for."""

    def __init__(self, facts: Mapping[str, Fact], root: Path | None = None):
        self.facts = facts
        self.table = cache(partial(read_table, root or project_root()))

    def __missing__(self, name: str) -> str:
        """Compute the value of a fact.

        Raises BadInput for an unknown name, and where the fact selects no single value.
        """
        if name not in self.facts:
            raise BadInput(
                f"there is no fact {name!r} in {FOLDER}: correct the name, or state the fact."
            )
        fact = self.facts[name]
        try:
            value = of_rows(fact, self.table(fact.source)) if fact.source else fact.value
            if value != value:
                raise BadInput("is missing there, not a number: make its file again")
            return self.setdefault(name, format(value, fact.format))
        except BadInput as error:
            raise BadInput(f"{fact.file}: fact {fact.name}: {error}.") from None
        except ValueError:
            trouble = f"{value!r} cannot be written with the format {fact.format!r}"
            raise BadInput(f"{fact.file}: fact {fact.name}: {trouble}.") from None


def read_table(root: Path, source: str) -> pd.DataFrame:
    """Read a CSV, or several by a pattern, below each other; a missing text is empty."""
    paths = sorted(root.glob(source))
    if not paths:
        raise BadInput(f"{source} is not there")
    table = pd.concat([pd.read_csv(path, low_memory=False) for path in paths], ignore_index=True)
    texts = table.select_dtypes(exclude="number").columns
    return table.fillna(dict.fromkeys(texts, ""))


def of_rows(fact: Fact, table: pd.DataFrame) -> Any:
    """Return the number that a fact reads from a table."""
    rows = selected(fact, table)
    if not len(rows):
        raise BadInput(f"{fact.where!r} selects no row of {fact.source}")
    if fact.reduce == COUNT:
        return len(rows)
    try:
        column = rows[fact.column] if fact.column in rows else rows.eval(fact.column)
    except Exception:  # pandas raises a dozen kinds
        known = ", ".join(map(repr, rows))
        raise BadInput(f"{fact.source} has no column {fact.column!r}; it has {known}") from None
    if fact.reduce:
        return pd.Series(column).agg(REDUCTIONS[fact.reduce])
    if len(column) > 1:
        told = f"{fact.where!r} selects {len(rows)} rows of {fact.source}"
        raise BadInput(f"{told}; narrow it, or say how to reduce")
    return column.item()


def selected(fact: Fact, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the query of a fact keeps; all without one."""
    try:
        return table.query(fact.where, engine="python") if fact.where else table
    except Exception as error:  # pandas raises a dozen kinds
        raise BadInput(f"{fact.where!r} cannot be asked of {fact.source} ({error})") from None


def put_facts(
    text: str, values: Mapping[str, str], name: str, *, in_json: bool = False
) -> tuple[str, list[Outdated]]:
    """Put the value of today into every marker; return the text and what changed.

    name: of the file, for messages. in_json: whether the text is a notebook's file, in which values
        must be escaped.
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


def put_table(text: str, table: str) -> str:
    """Return the text of README.md with `table` in place of the one with the same head.

    Raises BadInput where there is none.
    """
    head = table.partition("\n")[0]
    found = re.search(rf"(?m)^{re.escape(head)}(?:\n\|.*)*$", text)
    if not found:
        raise BadInput(f"README.md has no table with the head {head!r}: put it where it belongs.")
    return text[: found.start()] + table + text[found.end() :]


def texts(root: Path | None = None) -> list[Path]:
    """Return the files whose markers are filled."""
    root = root or project_root()
    found = [
        *(root / name for name in ("README.md", "ARTIFACT.md")),
        *(root / "data/published").glob("*.md"),
        *(root / "notebooks").glob("*.ipynb"),
    ]
    return sorted(path for path in found if path.is_file())


def refresh(root: Path | None = None, *, write: bool = True) -> list[Outdated]:
    """Fill every marker of every text again; what differed before. write: False only looks."""
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


def refresh_headline(*, write: bool = True) -> list[str]:
    """Put the headline table into README.md, where it has a place for it; what differed before."""
    from fedsynth_lib.bundle import headline

    path = project_root() / "README.md"
    before = path.read_text(encoding="utf-8")
    if " | ".join(headline.README_COLUMNS) not in before:
        return []
    after = put_table(before, headline.as_markdown(headline.gathered()))
    if write and after != before:
        write_atomically(path, after.encode())
    return [f"{path.name}: the headline table"] if after != before else []


def check_kind(fact: Fact) -> None:
    """Check that the fact says in exactly one way where its value comes from.

    Raises BadInput where it does not.
    """
    troubles = {
        "needs exactly one of `from` and `value`": bool(fact.source) == (fact.value is not None),
        f"{fact.source!r} is not a CSV of figures/ or of data/results/, profile paper or quick": (
            fact.source and not SOURCES.fullmatch(fact.source)
        ),
        f"{fact.reduce!r} is not a reduction; choose {', '.join([*REDUCTIONS, COUNT])}": (
            fact.reduce and fact.reduce not in (*REDUCTIONS, COUNT)
        ),
        "a measured value needs `why`: what was measured, and on what machine": (
            fact.value is not None and not fact.why
        ),
    }
    for trouble, found in troubles.items():
        if found:
            raise BadInput(f"{fact.file}: fact {fact.name}: {trouble}.")


def main(*, check: bool = False) -> int:
    """Write all that is out of date, or only look; 1 where `check` finds a difference.

    Raises BadInput for a fact that is none.
    """
    changes = [*refresh(write=not check), *refresh_headline(write=not check)]
    for change in changes:
        print(change)
    print(f"{len(changes)} places {'differ from the rows' if check else 'written again'}")
    return int(check and bool(changes))
