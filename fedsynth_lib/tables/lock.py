"""Digests of the real tables, so that finished experiments are found without the tables.

    python -m fedsynth_lib lock     # writes the file again from the real tables at hand

The file is data/tables.lock.json. A result names the table that it is of by its digest. Where that
table cannot be had, the lock file says what its digest is, and committed rows of it are found all
the same. What has to be computed is computed on the table at hand: where that is a stand-in, its
own digest takes the place (`at_hand`), so that rows of the two are never confused.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.registry import REGISTRY, Entry, entry


def table_digest(key_or_path: str | Path, *, work: str | None = None) -> str:
    """Return the digest of what `load_table` gives for the same arguments.

    Of a registered table it is the locked one, and the table is not loaded.

    FEDSYNTH_DATA=standin asks for stand-ins, whose digests are read from them. So are those of
    tables whose files, columns or names are declared otherwise than when they were locked.
    """
    if locked := _lock_of(str(key_or_path), work):
        return locked["digest"]
    return load_table(key_or_path, work=work).digest


def reachable(
    datasets: Iterable[str], *, work: str | None = None, profile: str = "paper"
) -> list[str]:
    """Return those of the tables whose rows may be committed, or that can be had here.

    A stand-in counts as a table that can be had.

    profile: of `smoke` no rows are committed, nor do they count where all is made again
        (FEDSYNTH_FRESH).
    Prints which are left out. Raises BadInput for a name that no table has.
    """
    computes, found = profile == "smoke" or bool(os.environ.get("FEDSYNTH_FRESH")), []
    for key in datasets:
        entry(key)  # a misspelled table is none that is out of reach
        try:
            digest = table_digest(key, work=work)
            if computes:
                at_hand(digest)
            found.append(key)
        except BadInput as problem:
            print(f"{key} is left out: {problem}")
    return found


def is_locked(key_or_path: str | Path, *, work: str | None = None) -> bool:
    """Whether digest and number of rows of this view are known without loading the table."""
    return _lock_of(str(key_or_path), work) is not None


def table_rows(key_or_path: str | Path, *, work: str | None = None) -> int:
    """Return the number of rows of what `load_table` gives; a locked table is not loaded."""
    if locked := _lock_of(str(key_or_path), work):
        return int(locked["rows"])
    return len(load_table(key_or_path, work=work))


def at_hand(digest: str) -> str:
    """Return the digest of the table to compute on where a result names this one.

    It is the same, or that of its stand-in.

    Raises BadInput where neither can be had.
    """
    name = next((name for name, locked in _locked().items() if locked["digest"] == digest), None)
    if name is None:
        return digest  # a stand-in, a table of the user's own, or one that is not locked
    key, _, work = name.partition(" ")
    return load_table(key, work=work or None).digest


def _made_of(key: str, work: str | None) -> str:
    """Return a hash of all that a table's content follows from.

    That is the declared files, columns, names, and how they are read.
    """
    return _hash_of(REGISTRY[key], work)


@cache  # a grid asks for the digest of each of its cells
def _hash_of(entry: Entry, work: str | None) -> str:
    view = entry.view(work)
    files = [(name, entry.files[name].sha256) for name in (*view.files, *view.otherwise)]
    schema = view.schema(entry.schema)
    columns = [replace(column, source="") for column in schema.columns]  # wording is no content
    read = files, entry.reader, entry.file_columns, replace(view, notes="")
    return sha256(repr((*read, columns, schema.target)).encode()).hexdigest()[:20]


def _lock_of(key: str, work: str | None) -> dict[str, Any] | None:
    """Return what is locked of a table.

    None where it is declared otherwise by now, or where stand-ins are asked for.
    """
    if key not in REGISTRY or os.environ.get("FEDSYNTH_DATA") == "standin":
        return None
    locked = _locked().get(_name(key, work))
    return locked if locked is not None and locked["made_of"] == _made_of(key, work) else None


def _name(key: str, work: str | None) -> str:
    return f"{key} {work or ''}".strip()


def _path() -> Path:
    return project_root() / "data" / "tables.lock.json"


def _locked() -> dict[str, dict[str, Any]]:
    path = _path()
    return _read(path, path.stat().st_mtime_ns) if path.exists() else {}


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> dict[str, dict[str, Any]]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise BadInput(f"{path} is not valid JSON ({error}): fetch it again.") from error


def write_lock() -> None:
    """Lock every view of every registered table that is at hand; the others keep what is locked."""
    found = dict(_locked())
    for key, declared in REGISTRY.items():
        for work in (None, *declared.works):
            try:
                table = load_table(key, work=work)
            except BadInput as error:
                print(f"{_name(key, work)} is left as it is: {error}")
                continue
            if table.data == "real":
                found[_name(key, work)] = {
                    "digest": table.digest,
                    "made_of": _made_of(key, work),
                    "rows": len(table),
                }
    text = json.dumps(dict(sorted(found.items())), indent=1) + "\n"
    write_atomically(_path(), text.encode())
    print(f"{_path().name}: {len(found)} views of tables")
