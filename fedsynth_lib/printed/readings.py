"""Choices that a work leaves open, each with its readings as data.

Each reading is compared with the published values on one half of the cells and on the other.
data/published/readings.toml lists the choices by work. Half of the cells name the nearest reading,
the others confirm it or do not. Halves are dealt by what a cell is called, never by its value.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed import chance
from fedsynth_lib.printed.published import (
    JUDGED,
    KEYS,
    UNSTABLE,
    WORKS,
    aggregate,
    load_values,
    merge_keys,
)
from fedsynth_lib.runs.typed import check_names, read_toml, typed

# where a reading comes from: the work's text, the authors' public code, the software that the work
# names, our protocol before any number was seen, or a look at the published values
Source = Literal["text", "code", "software", "protocol", "published"]
CONFIRMED, NOT_CONFIRMED = "confirmed", "not confirmed"
TIE, TOO_FEW = "tie", "too few cells"
# what the cells of one synthetic table share, so that they come into one half together
TABLE = ["dataset", "method", "setting", "partition", "n_clients", "epsilon"]


class Reading(NamedTuple):
    """One way to read what is left open.

    source: where it comes from; place: the section, gap or table of it. rows: committed ones that
    follow the reading, each a `grid` (their file) and `detail` (their words; as in the published
    values, if left out), `datasets` where of some only.
    metrics: ours -> printed, where they are called otherwise. factor: what our values are
    multiplied by. root: whether our epsilon is the printed one times the root of the number of
    clients. minutes: of a reading that was not run, what it would take on one core. shown: of
    one whose cells are no means over runs, the table that compares it. main: the data sets on which
    the published values bear it out, so that their tables have its rows and not ours.
    """

    name: str
    source: Source
    place: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, str] = {}
    factor: float = 1.0
    root: bool = False
    minutes: int = 0
    shown: str = ""
    main: tuple[str, ...] = ()


class Choice(NamedTuple):
    """What a work leaves open, in which printed cells it shows, and its readings.

    metrics: as printed. where: a query over printed cells, `` for all. by: columns whose values
    make places, in each of which the readings are scored on their own; measures of different units
    must not share one.
    """

    work: str
    choice: str
    left_open: str
    exhibits: tuple[str, ...]
    metrics: tuple[str, ...]
    readings: tuple[Reading, ...]
    where: str = ""
    by: tuple[str, ...] = ("dataset", "metric")


def load_choices(path: Path | None = None) -> list[Choice]:
    """Load the choices in the order of the file. Raises BadInput for what it may not say."""
    path = path or project_root() / "data" / "published" / "readings.toml"
    found = []
    for work, entries in read_toml(path).items():
        check_names(path.name, "work", [work], WORKS)
        for number, entry in enumerate(entries, start=1):
            where = f"{path.name}, {work}, choice {number}"
            choice = typed(Choice, {**entry, "work": work}, where)
            for reading in choice.readings:
                if sum(map(bool, (reading.rows, reading.minutes, reading.shown))) != 1:
                    raise BadInput(
                        f"{where}: {reading.name!r} needs one of rows, minutes and shown."
                    )
            found.append(choice)
    return found


def halves(cells: pd.DataFrame) -> pd.Series:
    """Return the half, 1 or 2, of each published cell.

    It follows from the name of the synthetic table that a cell is measured on (TABLE); no value is
    looked at. The measures of one table stay together. Among those of a data set at a budget the
    tables are put in the order of a hash of their names, and dealt in turn.
    """
    names = cells[TABLE].astype(str).agg("|".join, axis=1)
    order = names.map(lambda name: int(hashlib.sha256(name.encode()).hexdigest()[:12], 16))
    place = order.groupby([cells["dataset"], cells["epsilon"]], dropna=False).rank("dense")
    return 2 - place.astype(int) % 2


def distances(choice: Choice, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the published cells that every reading with rows has, with their distances.

    The columns are KEYS, exhibit, `half`, and of each `reading` the distance to the published value
    and whether it is `within` the tolerance of `compare`.

    rows: of the work at profile paper, with `detail` and `grid` (`grid.committed_rows`). Raises
    BadInput where there is no such cell.
    """
    printed = pd.concat([load_values(choice.work, name) for name in choice.exhibits])
    printed = printed[printed["mean"].notna() & printed["metric"].isin(choice.metrics)]
    printed = printed.query(choice.where) if choice.where else printed
    ran = [reading for reading in choice.readings if reading.rows]
    found = [_apart(reading, printed, rows, choice.work) for reading in ran]
    cells = pd.concat(found, ignore_index=True)
    common = cells.groupby(["exhibit", *KEYS], dropna=False)["reading"].transform("size")
    cells = cells[common == len(ran)].reset_index(drop=True)
    if cells.empty:
        raise BadInput(f"{choice.choice}: its readings share no printed cell: run their grids.")
    return cells.assign(half=halves(cells))


def main_means(work: str, exhibit: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the `aggregate` of the main readings in an exhibit.

    Of two that share a cell, the first in the file counts. rows: of one profile, with `detail` and
    `grid`.
    """
    found = [aggregate(rows.iloc[:0])]
    for choice in load_choices():
        for reading in choice.readings:
            if choice.work == work and exhibit in choice.exhibits and reading.main:
                own = rows_of(reading, rows)
                own = own[own["dataset"].isin(reading.main) & own["metric"].isin(choice.metrics)]
                found.append(aggregate(own.query(choice.where) if choice.where else own))
    return pd.concat([each for each in found if len(each)] or found).drop_duplicates(KEYS)


def is_judged_otherwise(compared: pd.DataFrame) -> bool:
    """Return whether the verdict takes judged values of an exhibit from a main reading.

    compared: by `published.compare`, of our own reading.
    """
    judged = compared[compared["verdict"].isin((*JUDGED, UNSTABLE))]
    for choice in load_choices():
        here = judged[judged["exhibit"].isin(choice.exhibits) & judged["paper"].eq(choice.work)]
        here = here[here["metric"].isin(choice.metrics)]
        here = here.query(choice.where) if choice.where else here
        if any(here["dataset"].isin(reading.main).any() for reading in choice.readings):
            return True
    return False


def rows_of(reading: Reading, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a reading under the names and on the scale of the published values."""
    parts = []
    for place in reading.rows:
        own = rows[rows["grid"] == place["grid"]]
        if "detail" in place:
            own = own[own["detail"] == place["detail"]].assign(detail="")
        parts.append(own[own["dataset"].isin(place.get("datasets", own["dataset"]))])
    own = pd.concat(parts)
    if reading.metrics:
        own = own[own["metric"].isin(reading.metrics)]
        own = own.assign(metric=own["metric"].map(reading.metrics))
    if reading.root:
        own = own.assign(epsilon=(own["epsilon"] / np.sqrt(own["n_clients"])).round(2))
    return own.assign(value=own["value"] * reading.factor)


def _apart(reading: Reading, printed: pd.DataFrame, rows: pd.DataFrame, work: str) -> pd.DataFrame:
    own = rows_of(reading, rows)
    ours = aggregate(own)
    keys = printed.assign(**merge_keys(printed))
    table = keys.merge(ours.rename(columns={"mean": "ours", "std": "ours_std"}), "inner", on=KEYS)
    table = table.rename(columns={"mean": "published", "std": "published_std"})
    known = chance.standard_error(work, table, ours)
    apart = (table["ours"] - table["published"]).abs()
    told = table[["exhibit", *KEYS]]
    return told.assign(
        reading=reading.name, distance=apart, within=apart <= known["factor"] * known["error"]
    )


# --- results -------------------------------------------------------------------------------------


def scored(choice: Choice, cells: pd.DataFrame) -> pd.DataFrame:
    """Score each reading at each place (`by` of the choice).

    The columns are cells, mean distance and number within error of the published value on each
    half, and `outcome`, said of the reading that is nearest on the first half.

    cells: of `distances`. outcome: `confirmed` where it is nearest on the second half, too; `not
    confirmed` where another is; `tie` where no single one is nearest on the first; `too few cells`
    where a half has none.
    """
    names = [reading.name for reading in choice.readings if reading.rows]
    lines = []
    for values, own in cells.groupby(list(choice.by), sort=False):
        parts = {half: own[own["half"] == half].groupby("reading") for half in (1, 2)}
        means = {half: part["distance"].mean().reindex(names) for half, part in parts.items()}
        told = outcome(means[1], means[2])
        for name in names:
            line: dict[str, Any] = {"work": choice.work, "choice": choice.choice}
            line |= {"cells": _named(choice.by, values), "reading": name}
            for half, part in parts.items():
                line[f"cells {half}"] = int(part.size().get(name, 0))
                line[f"distance {half}"] = means[half][name]
                line[f"within {half}"] = int(part["within"].sum().get(name, 0))
            lines.append({**line, "outcome": told.get(name, "")})
    return pd.DataFrame(lines)


def _named(columns: Sequence[str], values: Sequence[Any]) -> str:
    """Name a place in words: adult, pcd, epsilon 0.5."""
    named = zip(columns, values, strict=True)
    return ", ".join(f"epsilon {v:g}" if name == "epsilon" else str(v) for name, v in named)


def outcome(first: pd.Series, second: pd.Series) -> dict[str, str]:
    """Return what the second half says of the readings that are nearest on the first.

    It is empty where there is only one reading.
    """
    if len(first) < 2:
        return {}
    if first.isna().any() or second.isna().any():
        return dict.fromkeys(first.index, TOO_FEW)
    nearest = first.index[first <= first.min() + 1e-12]
    if len(nearest) > 1:
        return dict.fromkeys(nearest, TIE)
    again = second.drop(nearest) > second[nearest[0]]
    return {nearest[0]: CONFIRMED if again.all() else NOT_CONFIRMED}


def score(choices: Sequence[Choice], rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`scored` of all choices. rows: work -> rows, as for `distances`."""
    run = [choice for choice in choices if any(reading.rows for reading in choice.readings)]
    found = [scored(choice, distances(choice, rows[choice.work])) for choice in run]
    return pd.concat(found, ignore_index=True)


def table(choices: Sequence[Choice], lines: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the readings of each choice.

    A line says where a reading comes from, in how many places (`scored`) it is nearest on the first
    half, and in how many of these on the second, too, or the minutes of one that was not run.
    lines: of `score`.
    """
    found = []
    for choice in choices:
        own = lines[(lines["work"] == choice.work) & (lines["choice"] == choice.choice)]
        places = own["cells"].nunique()
        for reading in choice.readings:
            line = {"work": choice.work, "choice": choice.choice, "left open": choice.left_open}
            line |= {"reading": reading.name, "from": reading.source, "place": reading.place}
            line |= {"main rows on": ", ".join(reading.main)}
            told = own.loc[own["reading"] == reading.name, "outcome"]
            nearest = told.isin([CONFIRMED, NOT_CONFIRMED]).sum()
            if reading.shown:
                line["nearest"] = f"see {reading.shown}"
            elif not reading.rows:
                line["nearest"] = f"not run: {reading.minutes} minutes"
            elif set(own["reading"]) == {reading.name}:
                line["nearest"] = "the only one that was run"
            else:
                line["nearest"] = f"{nearest} of {places}"
                line["confirmed"] = f"{(told == CONFIRMED).sum()} of {nearest}" if nearest else ""
            found.append(line)
    return pd.DataFrame(found).fillna("")
