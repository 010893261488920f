"""What distinguishes a cell of a work, in the words of its value files.

These words are the column `detail` of `data/published/values`.

Rows say it as typed `params` and `item` (runs/rows.py). Beside printed values,
`with_detail` puts it into the words of the published values, so that equal cells meet in one merge.
Nothing reads these words apart again. Which words a work has stands in `details.toml`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.rows import canonical, read_params
from fedsynth_lib.runs.typed import read_toml, typed


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
    """What is said of a cell.

    say: a Jinja expression over the settings that are given and the columns of Cell; nothing is
    said where it is empty. part: what kind of word it is, for `said_of`. alone: where it is said,
    nothing else is.
    """

    say: str
    part: str = ""
    alone: bool = False


@cache
def _declared() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).with_suffix(".toml"))


@cache
def _words(work: str) -> tuple[tuple[Word, Callable[..., Any]], ...]:
    """Return a work's words with compiled expressions; a setting that is not given is empty."""
    from jinja2 import ChainableUndefined, Environment  # late: counting methods load none of it

    entries = _declared().get(work, _declared()["ours"])["words"]
    words = [typed(Word, entry, f"details.toml, {work}") for entry in entries]
    language = Environment(undefined=ChainableUndefined)
    return tuple((word, language.compile_expression(word.say)) for word in words)


def names_of(work: str, setting: str) -> dict[str, str]:
    """Return the published names of a setting's values, by value.

    It is empty where none are published.
    """
    return _declared().get(work, {}).get("names", {}).get(setting, {})


def asked_by(work: str, detail: str) -> dict[str, Any]:
    """Return the settings of our cell that has these published words."""
    return _declared().get(work, {}).get("asked", {}).get(detail, {})


def with_detail(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `detail` to the rows.

    Rows that have it already, as published values do, are returned as they are.
    """
    if "detail" in rows:
        return rows
    words = list(map(_detail, *(rows[column] for column in Cell._fields)))
    return rows.assign(detail=pd.Series(words, index=rows.index, dtype=object))


@cache
def _detail(*columns: str) -> str:
    cell = Cell(*columns)
    cell = cell._replace(params=read_params(cell.params))
    if cell.setting == "tuning":
        draw = {"draw": cell.params["draw"]} if "draw" in cell.params else {}
        return canonical({**cell.params["parameters"], **draw})
    return said(cell)


def said(cell: Cell, part: str = "") -> str:
    """Return the words of a cell, or those of a kind alone."""
    given = {
        name: value
        for name, value in cell.params.items()
        if value is not None and value is not False and value != ""
    }
    for setting, printed in _declared().get(cell.paper, {}).get("names", {}).items():
        if setting in given:
            given[setting] = printed.get(given[setting], given[setting])
    columns = {"method": cell.method, "partition": cell.partition, "setting": cell.setting}
    given |= {**columns, "item": cell.item}
    words = []
    for word, say in _words(cell.paper):
        text = say(**given) if part in ("", word.part) else None
        if text and word.alone:
            return text
        words += [str(text)] if text else []
    return "; ".join(words)


def said_of(work: str, params: Mapping[str, Any], part: str) -> str:
    """Return the words of a kind that settings alone make, as the sizes of nodes."""
    return said(Cell(work, "", "", "", params, ""), part)


def configuration(detail: str) -> dict[str, Any]:
    """Read the hyper-parameters of a search's cell from its `detail`.

    Raises BadInput for text that is not a JSON object.
    """
    try:
        return dict(json.loads(detail))
    except ValueError as error:
        raise BadInput(f"detail {detail!r} is no configuration: give rows of a search.") from error


def is_redrawn(detail: str) -> bool:
    """Whether a row scores a configuration again; False for rows of no search."""
    return detail.startswith("{") and "draw" in configuration(detail)
