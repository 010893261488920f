"""Declared files: TOML read as typed data, and one style of message for what they may not say."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.schema import closest

T = TypeVar("T")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; BadInput where it is not valid."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of TOML, or of its encoding
        raise BadInput(f"{path}: not valid TOML: {error}.") from error


def check_names(where: str, what: str, names: Iterable[Any], known: Iterable[Any]) -> None:
    """Raise BadInput for the first name that is not among the known ones.

    The message has the closest known name, or all of them where none is close. what: kind of name,
    as "key".
    """
    known = list(known)
    for name in names:
        if name not in known:
            words = [str(each) or "''" for each in known]
            remedy = closest(str(name), words) or f": choose one of {', '.join(words)}"
            raise BadInput(f"{where}: unknown {what} {name!r}{remedy}.")


def typed(kind: type[T], entry: Mapping[str, Any], where: str) -> T:
    """Return a dataclass or named tuple from a table of a file, lists as its annotations say.

    Raises BadInput, naming the place and the key, for an unknown or a missing key and for a value
    that its annotation does not allow.
    """
    from pydantic import ValidationError  # late, since it takes long and most commands read no file

    check_names(where, "key", entry, kind.__annotations__)
    try:
        return _adapter(kind).validate_python(dict(entry))
    except ValidationError as error:
        first = error.errors()[0]
    if first["type"] == "value_error":  # of `__post_init__`, which does not know the file
        raise BadInput(f"{where}: {first['ctx']['error']}")
    key = ".".join(map(str, first["loc"]))
    if first["type"].startswith("missing"):
        raise BadInput(f"{where}: the key {key!r} is missing.")
    said = first["msg"].replace("Input should", "it should")
    raise BadInput(f"{where}: {key} is {first['input']!r}: {said}.")


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
