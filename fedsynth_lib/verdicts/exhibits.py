"""What each table or figure needs, and what of it there is.

It needs published values, and every curve and point that a figure draws.
`data/published/exhibits.toml` says where the rows of an exhibit are and what it draws; what is
published is in `data/published/values`. An exhibit is `in full` where all of that has rows of
profile `paper` at the scale of the work, of as many runs as the work made (`repeats` in
components.toml; one where its entry says so), or where nothing in it is drawn at random or shrunk
(`live`); `in part` where some of it has; `shrunk` where only `quick` has any.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed import readings
from fedsynth_lib.printed.chance import repeats
from fedsynth_lib.printed.outcomes import (
    COUNTED,
    IN_FULL,
    IN_PART,
    NOT_MADE,
    SHRUNK,
)
from fedsynth_lib.printed.published import (
    JUDGED,
    KEYS,
    MISSING,
    NOT_JUDGED,
    aggregate,
    compare_means,
    load_catalogue,
    load_values,
    names_nodes,
)
from fedsynth_lib.runs.rows import DTYPES
from fedsynth_lib.runs.typed import check_names, read_toml, typed
from fedsynth_lib.verdicts.custom.readings import READINGS

APART = "not a result"  # settings that are taken over, counts of a table's rows, hours
WORDS = {
    "rounds": "T",
    "local_rounds": "s",
    "n_clients": "clients",
    "method": "",
    "dataset": "",
    "metric": "",
}
COLUMNS = (*DTYPES, "detail")  # of the rows that entries choose from
AGAINST_CHANCE = [
    "within %",
    "within by chance %",
    "informative about",
    "order %",
    "order by chance %",
]
# profile -> rows of a work with `grid`, as `experiment.committed_rows` returns them
Rows = Mapping[str, pd.DataFrame]


class Exhibit(NamedTuple):
    """The entry of a table or figure in exhibits.toml."""

    work: str
    name: str
    grids: Sequence[str] = ()
    where: Mapping[str, Sequence] = {}
    reading: str = "as_they_are"
    seeds: int = 2
    points: Sequence[Mapping[str, Any]] = ()
    live: str = ""
    without: str = ""
    scale: str = ""
    apart: str = ""
    results: Sequence[str] = ()

    @property
    def full(self) -> int:
        """How many runs a point needs to be in full."""
        return self.seeds if self.seeds == 1 else max(self.seeds, repeats(self.work))

    @property
    def id(self) -> str:
        """The work and the exhibit's name, as `work/name`."""
        return f"{self.work}/{self.name}"

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those that are the main reading of this exhibit."""
        keep = rows["grid"].isin(self.grids)
        for column, values in self.where.items():
            keep &= rows[column].isin(values)
        return rows[keep]


# --- the data ------------------------------------------------------------------------------------


def load_exhibits(path: Path | None = None) -> list[Exhibit]:
    """Every exhibit that a run can make and every file of printed values, in the order of the file.

    Raises BadInput, with a sentence, for a name that nothing has, and for an exhibit without an
    entry.
    """
    path = path or project_root() / "data" / "published" / "exhibits.toml"
    found = [
        _exhibit(path.name, work, name, entry)
        for work, own in read_toml(path).items()
        for name, entry in own.items()
    ]
    known, entered = _known_exhibits(), {each.id for each in found}
    if unknown := sorted(entered - known):
        raise BadInput(f"{path.name}: {unknown[0]} is in no catalogue and has no printed values.")
    if left_out := sorted(known - entered):
        raise BadInput(f"{path.name} has no entry for {left_out[0]}: say where its rows are.")
    return found


def _known_exhibits() -> set[str]:
    catalogue = load_catalogue()
    values = (project_root() / "data" / "published" / "values").glob("*/*.csv")
    return set(catalogue.loc[catalogue["regenerable"] == "yes", "id"]) | {
        f"{p.parent.name}/{p.stem}" for p in values
    }


def _exhibit(file: str, work: str, name: str, entry: Mapping[str, Any]) -> Exhibit:
    where = f"{file}: {work}/{name}"
    exhibit = typed(Exhibit, {**entry, "work": work, "name": name}, where)
    if sum(key in entry for key in ("grids", "live", "without")) != 1:
        raise BadInput(f"{where} needs one of grids, live and without.")
    saved = {path.stem for path in (project_root() / "data" / "results").glob("*/*.csv")}
    check_names(where, "grid", exhibit.grids, saved)
    check_names(where, "reading", [exhibit.reading], READINGS)
    check_names(where, "column", exhibit.where, COLUMNS)
    for block in exhibit.points:
        detail = block.get("detail", "")
        pattern = {name for _, name, _, _ in Formatter().parse(detail) if name}
        axes = _axes(block)
        check_names(f"{where}, detail {detail!r}", "axis", pattern, axes)
        check_names(where, "column", axes, {*COLUMNS, *pattern})
        for axis, values in axes.items():
            if not isinstance(values, list):
                raise BadInput(f"{where}: give {axis} as a list.")
    return exhibit


def _axes(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes of a block of points: axis -> values."""
    return {name: values for name, values in block.items() if name not in ("detail", "curves")}


def check_methods(exhibit: Exhibit, rows: Rows) -> None:
    """Raise BadInput for an entry with a method that no published value and no row has.

    It is not checked if there are no rows at all.
    """
    named = {name for block in (exhibit.where, *exhibit.points) for name in block.get("method", ())}
    if named and any(len(own) for own in rows.values()):
        known = set(load_values(exhibit.work, excluded=True)["method"]).union(
            *(set(r["method"]) for r in rows.values())
        )
        check_names(f"exhibits.toml: {exhibit.id}", "method", sorted(named), known)


# --- printed cells -------------------------------------------------------------------------------


def printed_cells(exhibit: Exhibit, rows: Rows) -> pd.DataFrame:
    """Compare each published number that can serve with ours.

    The columns are KEYS, `published`, `ours`, `n`, `profile`, `order` and `verdict` (COUNTED). Only
    cells with enough seeds of `paper` are judged, against each other; others with any value are
    `not judged`.
    """
    if not _has_values(exhibit):
        return pd.DataFrame(columns=[*KEYS, "verdict"])
    values = load_values(exhibit.work, exhibit.name)
    means = {profile: _means(exhibit, own, values) for profile, own in rows.items()}
    enough = means["paper"]["n"] >= exhibit.seeds
    asked = exhibit.work, exhibit.name
    cells = compare_means(means["paper"][enough], *asked, profile="paper", runs=exhibit.seeds)
    for profile, found in (("paper", means["paper"][~enough]), ("quick", means["quick"])):
        if found.empty:
            continue
        lesser = compare_means(found, *asked, profile=profile)
        fills = (cells["n"] == 0) & (lesser["n"] > 0)
        taken = ["ours", "ours_std", "n", "difference", "profile", "data"]
        cells.loc[fills, taken] = lesser.loc[fills, taken]
        cells.loc[fills, "verdict"] = NOT_JUDGED
    cells.loc[cells["verdict"] == MISSING, "profile"] = ""
    if exhibit.apart:
        apart = ~cells["metric"].isin(exhibit.results)
        cells.loc[apart, "verdict"], cells.loc[apart, "by_chance"] = APART, np.nan
    return cells


def _means(exhibit: Exhibit, rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    own = exhibit.rows(rows)
    own = READINGS[exhibit.reading](own, values) if len(own) else own
    means = aggregate(own, per_node=names_nodes(values))
    main = readings.main_means(exhibit.work, exhibit.name, rows)
    return pd.concat([main, means]).drop_duplicates(KEYS) if len(main) else means


def _has_values(exhibit: Exhibit) -> bool:
    return (
        project_root() / "data" / "published" / "values" / exhibit.work / f"{exhibit.name}.csv"
    ).is_file()


def counts(exhibit: Exhibit, cells: pd.DataFrame) -> dict[str, Any]:
    """Count the cells of an exhibit by verdict.

    The result has COUNTED and `cells`, their sum; APART; `excluded`, numbers that are published but
    cannot serve; `words`; and what `against_chance` says.
    """
    said: dict[str, Any] = {name: int((cells["verdict"] == name).sum()) for name in COUNTED}
    values = cells.assign(mean=0.0)
    if _has_values(exhibit):
        values = load_values(exhibit.work, exhibit.name, excluded=True)
    numbers = int(values["mean"].notna().sum())
    said |= {"cells": sum(said.values()), APART: int((cells["verdict"] == APART).sum())}
    said |= {"excluded": numbers - len(cells), "words": len(values) - numbers}
    return said | against_chance(cells)


def against_chance(cells: pd.DataFrame) -> dict[str, Any]:
    """Compare the agreement of judged cells with what shuffled values would have.

    Of cells with scenarios beside them, `within %` is the percentage within; likewise of orders.
    The agreement is `informative about` scenarios if more cells are within than 95 of 100 shuffles
    would have, otherwise about levels only.
    """
    told: dict[str, Any] = dict.fromkeys(AGAINST_CHANCE, "")
    if "by_chance" not in cells:
        return told
    judged = cells[cells["verdict"].isin(JUDGED)]
    if len(beside := judged[judged["by_chance"].notna()]):
        within, chance = beside["verdict"].eq("within"), beside["by_chance"]
        told |= {"within %": _percent(within), "within by chance %": _percent(chance)}
        more = (within.sum() - chance.sum()) > 1.645 * np.sqrt((chance * (1 - chance)).sum())
        told["informative about"] = "scenarios" if more else "levels only"
    if len(ordered := judged[judged["order"] != ""]):
        kept = [int(k) > int(r) / 2 for k, r in ordered["order"].str.split("/")]
        told |= {
            "order %": _percent(kept),
            "order by chance %": _percent(ordered["order_by_chance"]),
        }
    return told


def _percent(shares: Any) -> int:
    return round(100 * float(np.mean(shares)))


# --- curves and points ---------------------------------------------------------------------------


def drawn_points(exhibit: Exhibit, rows: Rows) -> list[pd.DataFrame]:
    """Return for each block of `points` all its points, with their seeds of `paper` and `quick`."""
    return [
        _runs_at(block, {profile: exhibit.rows(own) for profile, own in rows.items()})
        for block in exhibit.points
    ]


def _runs_at(block: Mapping[str, Any], rows: Rows) -> pd.DataFrame:
    axes = _axes(block)
    wanted = pd.DataFrame(list(product(*axes.values())), columns=list(axes), dtype=object)
    columns = [name for name in axes if name in COLUMNS]
    if "detail" in block:
        wanted["detail"] = [
            block["detail"].format(**dict(zip(axes, point, strict=True)))
            for point in wanted.to_numpy()
        ]
        columns.append("detail")
    for profile, own in rows.items():
        seeds = _seeds(own, columns, block.get("curves", 1))
        wanted[profile] = [
            seeds.get(tuple(_plain(value) for value in point), 0)
            for point in wanted[columns].to_numpy()
        ]
    return wanted


def _seeds(rows: pd.DataFrame, columns: list[str], curves: int) -> dict[tuple, int]:
    """Point -> seeds of the best-run `curves` details there, the fewest of them."""
    rows = rows[rows["value"].notna()]
    keys = [rows[name].map(_plain) for name in columns]
    details = rows["seed"].fillna(-1).groupby([*keys, rows["detail"].rename("of")]).nunique()
    found: dict[tuple, list[int]] = {}
    for point, number in zip(details.index, details, strict=True):
        found.setdefault(point[:-1], []).append(int(number))
    return {
        point: sorted(each, reverse=True)[curves - 1]
        for point, each in found.items()
        if len(each) >= curves
    }


def _plain(value: Any) -> Any:
    if value is pd.NA or value != value:
        return ""
    return value if isinstance(value, str) else float(value)


# --- what is missing -----------------------------------------------------------------------------


def state_of(
    exhibit: Exhibit, cells: pd.DataFrame, points: Sequence[pd.DataFrame]
) -> tuple[str, str]:
    """One of STATES, and in words what is missing to be in full."""
    cells = cells[cells["verdict"] != APART] if len(cells) and not exhibit.grids else cells
    if exhibit.live and len(cells):
        return IN_PART, f"no rows of its {len(cells)} published numbers: {exhibit.live}"
    if exhibit.live:
        return IN_FULL, ""
    needs = [_as_points(cells), *points] if len(cells) else list(points)
    runs = {
        profile: sum(int(each[profile].gt(0).sum()) for each in needs)
        for profile in ("paper", "quick")
    }
    if not any(runs.values()):
        return NOT_MADE, exhibit.without or "no rows"
    if not runs["paper"]:
        return SHRUNK, "profile paper has not been run"
    missing = [part for each in needs for part in _missing(each, exhibit.full)]
    missing += [exhibit.scale] if exhibit.scale else []
    return (IN_PART, "; ".join(dict.fromkeys(missing))) if missing else (IN_FULL, "")


def _as_points(cells: pd.DataFrame) -> pd.DataFrame:
    """Return published values in the form of `drawn_points`."""
    n = {
        profile: cells["n"].where(cells["profile"] == profile, 0) for profile in ("paper", "quick")
    }
    return cells[KEYS].assign(**n)


def _missing(points: pd.DataFrame, seeds: int) -> list[str]:
    ran, single = points["paper"] > 0, points["paper"].between(1, seeds - 1)
    parts = in_words(points.drop(columns=["paper", "quick", "detail"], errors="ignore"), ran)
    few = f"{single.sum()} of {len(points)} have fewer than {seeds} runs"
    return [*parts, few] if single.any() else parts


def in_words(needed: pd.DataFrame, there: pd.Series) -> list[str]:
    """Say which of the needed points are missing.

    Values of an axis of which nothing is there come first, then how many other points are not.
    """
    axes = [name for name in needed if needed[name].nunique(dropna=False) > 1]
    parts, named = [], there.copy()
    for axis in axes:
        some = there.groupby(needed[axis], sort=False).any()
        if gone := list(some.index[~some]):
            parts.append(_listed(axis, gone, list(some.index[some])))
            named |= needed[axis].isin(gone)
    if named.all():
        return parts
    axis = next(name for name in ("dataset", "metric", *axes) if name in axes)
    left = (~named).groupby(needed[axis], sort=False).agg(["sum", "size"])
    return [
        *parts,
        *(f"{e.sum_} of {e.size_} {e.Index}" for e in left.add_suffix("_").itertuples() if e.sum_),
    ]


def _listed(axis: str, gone: Sequence, kept: Sequence) -> str:
    """`intrusion, credit_fraud`, or `T above 64` where all larger values of a sweep are gone."""
    numbers = [value for value in (*gone, *kept) if not isinstance(value, str)]
    word = f"{WORDS.get(axis, axis)} ".lstrip()
    if kept and len(gone) > 1 and len(numbers) == len(gone) + len(kept) and min(gone) > max(kept):
        return f"{word}above {max(kept):g}"
    return word + ", ".join(
        sorted(value if isinstance(value, str) else f"{value:g}" for value in gone)
    )
