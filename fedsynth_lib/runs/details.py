"""What sets a cell of a work apart, in the words of its value files: the column `detail` of
`data/published/values`.

Rows say it as typed `params` and `item` (runs/rows.py). Beside printed values,
`with_detail` puts it into the words of the published values, so that equal cells meet in one merge.
Nothing reads these words apart again. Which words a work has stands in `details.toml`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.rows import canonical, read_params
from fedsynth_lib.runs.typed import read_toml, typed

FIELD = re.compile(r"\{([\w.]+)(?::(\w+))?\}")  # a setting in a text, and how it is written


class Cell(NamedTuple):
    """What a detail is made from."""

    paper: str
    method: str
    partition: str
    setting: str
    params: Mapping[str, Any]
    item: str


@dataclass(frozen=True)
class Word:
    """What is said of a cell, where all settings that `text` names are given.

    where, unless: column -> values that the cell must have, or must not. given, without: settings
    that must be given, or must not. usual: values of settings that are not given. silent: values
    that need no word. times: name -> a setting and what it is multiplied by. part: what kind of
    word it is, for `said`. alone: where it is said, nothing else is.
    """

    text: str
    where: Mapping[str, list] = field(default_factory=dict)
    unless: Mapping[str, list] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=dict)
    silent: Mapping[str, list] = field(default_factory=dict)
    times: Mapping[str, tuple[str, int | float]] = field(default_factory=dict)
    part: str = ""
    alone: bool = False

    def of(self, columns: Mapping[str, str], settings: Mapping[str, Any]) -> str:
        """The word itself; empty where it is not said."""
        fits = all(columns[name] in values for name, values in self.where.items())
        if not fits or any(columns[name] in values for name, values in self.unless.items()):
            return ""
        known = {**self.usual, **{name: v for name, v in settings.items() if _given(v)}}
        for name, (setting, factor) in self.times.items():
            known[name] = factor * known.get(setting, 0)
        needed = [*self.given, *(name for name, _ in FIELD.findall(self.text))]
        if not set(needed) <= set(known) or set(self.without) & set(known):
            return ""
        if any(known.get(name, values[0]) in values for name, values in self.silent.items()):
            return ""
        return FIELD.sub(lambda found: _written(known[found[1]], found[2] or ""), self.text)


def _given(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def _written(value: Any, how: str) -> str:
    """A setting in a text; several values stand with strokes between them."""
    return "/".join(map(str, value)) if isinstance(value, list | tuple) else format(value, how)


@cache
def _declared() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).with_suffix(".toml"))


@cache
def _words(work: str) -> tuple[Word, ...]:
    entries = _declared().get(work, _declared()["ours"])["words"]
    return tuple(typed(Word, entry, f"details.toml, {work}") for entry in entries)


def names_of(work: str, setting: str) -> dict[str, str]:
    """The printed names of a setting's values, by value; empty where none are published."""
    return _declared().get(work, {}).get("names", {}).get(setting, {})


def asked_by(work: str, detail: str) -> dict[str, Any]:
    """The settings that a cell of ours with these published words was asked for with."""
    return _declared().get(work, {}).get("asked", {}).get(detail, {})


def with_detail(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `detail`; those that have it already, as printed values do, are handed back as
    they are."""
    if "detail" in rows:
        return rows
    keys = list(zip(*(rows[column] for column in Cell._fields), strict=True))
    words = {
        key: _detail(Cell(*key)._replace(params=read_params(key[4]))) for key in dict.fromkeys(keys)
    }
    return rows.assign(
        detail=pd.Series([words[key] for key in keys], index=rows.index, dtype=object)
    )


def _detail(cell: Cell) -> str:
    if cell.setting == "tuning":
        draw = {"draw": cell.params["draw"]} if "draw" in cell.params else {}
        return canonical({**cell.params["parameters"], **draw})
    return said(cell)


def said(cell: Cell, part: str = "") -> str:
    """The words of a cell, or those of a kind alone."""
    columns = {"method": cell.method, "partition": cell.partition, "setting": cell.setting}
    columns["item"], settings = cell.item, {**cell.params, "item": cell.item}
    changes = cell.params.get("variant")
    if isinstance(changes, Mapping):  # else it is a name
        settings |= {f"variant.{name}": value for name, value in changes.items()}
    settings |= {
        name: names.get(settings.get(name), settings.get(name))
        for name, names in _declared().get(cell.paper, {}).get("names", {}).items()
    }
    words = []
    for word in _words(cell.paper):
        text = word.of(columns, settings) if part in ("", word.part) else ""
        if text and word.alone:
            return text
        words.append(text)
    return "; ".join(filter(None, words))


def said_of(work: str, params: Mapping[str, Any], part: str) -> str:
    """The words of a kind that settings alone make, as the sizes of nodes."""
    return said(Cell(work, "", "", "", params, ""), part)


def configuration(detail: str) -> dict[str, Any]:
    """The hyper-parameters of a search's cell from its `detail`. Raises BadInput for one that is no
    JSON object."""
    try:
        return dict(json.loads(detail))
    except ValueError as error:
        raise BadInput(f"detail {detail!r} is no configuration: give rows of a search.") from error


def is_redrawn(detail: str) -> bool:
    """Whether a row scores a configuration again; False for rows of no search."""
    return detail.startswith("{") and "draw" in configuration(detail)
