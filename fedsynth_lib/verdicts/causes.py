"""Why printed cells come out different: a cause that was tested, or the word unexplained.

data/published/causes.toml lists causes by work, the first that a cell fits counts. One that names
rows is tested here: it explains a cell where ours of that reading lie within print, or at most half
as far from it.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed.published import KEYS, WORKS, aggregate, compare_means

UNEXPLAINED = "unexplained"
KINDS = ("reading", "scale", "other rows", "chance", UNEXPLAINED)
REQUIRED = {"exhibits", "cause", "said"}


class Cause(NamedTuple):
    """exhibits: of the work. where: a query over the columns of `compare`, and `errors`, how many
    standard errors lie between; `` for all. cause: of KINDS. said: in a few words. evidence: a
    file, or how it was measured. rows: grid, detail and metrics (ours -> printed) of the reading,
    and `printed`, the detail that the printed cells have, where they have one.
    """

    work: str
    exhibits: tuple[str, ...]
    cause: str
    said: str
    where: str = ""
    evidence: str = ""
    rows: Mapping[str, Any] = {}


def load_causes(path: Path | None = None) -> list[Cause]:
    """The causes in the order of the file. Raises BadInput for what it may not say."""
    path = path or project_root() / "data" / "published" / "causes.toml"
    found = []
    for work, entries in tomllib.loads(path.read_text(encoding="utf-8")).items():
        for entry in entries:
            where = f"{path.name}, {work}"
            if work not in WORKS:
                raise BadInput(f"{where}: is no work.")
            if unknown := sorted(set(entry) - set(Cause._fields)) or sorted(REQUIRED - set(entry)):
                raise BadInput(f"{where}: {unknown[0]!r} is no key, or is missing in {entry}.")
            if entry["cause"] not in KINDS:
                raise BadInput(f"{where}: cause {entry['cause']!r}: choose {', '.join(KINDS)}.")
            if entry["cause"] != UNEXPLAINED and not entry.get("evidence"):
                raise BadInput(f"{where}: {entry['said']!r} needs evidence.")
            found.append(Cause(work, **{**entry, "exhibits": tuple(entry["exhibits"])}))
    return found


def of_cells(
    cells: pd.DataFrame, rows: Mapping[str, pd.DataFrame], causes: list[Cause] | None = None
) -> pd.DataFrame:
    """Every different cell with cause, said, evidence and `entry`, the number of its cause.

    cells: `exhibits.printed_cells`, of any exhibits. rows: work -> rows of profile paper.
    """
    left = cells[cells["verdict"] == "different"].reset_index(drop=True)
    left["errors"] = left["difference"].abs() / (left["tolerance"] / 2)
    left["entry"] = -1
    causes = load_causes() if causes is None else causes
    for number, cause in enumerate(causes):
        open_ = (left["entry"] < 0) & (left["paper"] == cause.work)
        here = left[open_ & left["exhibit"].isin(cause.exhibits)]
        here = here.query(cause.where) if cause.where else here
        if cause.rows and len(here):
            here = here[_nearer(here, cause, rows[cause.work])]
        left.loc[here.index, "entry"] = number
    known = [causes[number] if number >= 0 else None for number in left["entry"]]
    for name in ("cause", "said", "evidence"):
        left[name] = [getattr(each, name) if each else "" for each in known]
    return left


def _nearer(cells: pd.DataFrame, cause: Cause, rows: pd.DataFrame) -> np.ndarray:
    """Whether the reading puts a cell within print, or takes off half of its distance."""
    metrics = cause.rows["metrics"]
    own = rows[(rows["grid"] == cause.rows["grid"]) & (rows["detail"] == cause.rows["detail"])]
    own = own[own["metric"].isin(metrics)]
    if own.empty:
        return np.zeros(len(cells), dtype=bool)
    detail = cause.rows.get("printed", "")
    ours = aggregate(own.assign(metric=own["metric"].map(metrics), detail=detail))
    runs = int(cause.rows.get("seeds", 2))
    found = [
        compare_means(ours, cause.work, exhibit, profile="paper", runs=runs)
        for exhibit in cells["exhibit"].unique()
    ]
    keys = ["exhibit", *KEYS]
    again = cells[keys].merge(pd.concat(found), "left", keys)
    half = again["difference"].abs().to_numpy() <= cells["difference"].abs().to_numpy() / 2
    return (again["verdict"].to_numpy() == "within") | half


def systematic(cells: pd.DataFrame, *, least: float = 3.0, fewest: int = 4) -> pd.DataFrame:
    """Differences from print that many cells have together, whatever their own verdict: mean
    difference of a method at a node by a measure, and `z`, in standard errors of the sum.

    least: of z; fewest: cells. Cells count as independent, which those of shared splits are not.
    """
    judged = cells[cells["verdict"].isin(["within", "ordering", "different"]) & (cells["n"] > 1)]
    drawn = judged[(judged["method"] != "") & (judged["ours_std"] > 0)]  # no ranks
    keys = ["paper", "metric", "method", "setting", "detail", "node"]
    groups = drawn.assign(squares=(drawn["tolerance"] / 2) ** 2).groupby(keys, sort=False)
    found = groups.agg(
        cells=("difference", "size"),
        difference=("difference", "mean"),
        total=("difference", "sum"),
        squares=("squares", "sum"),
    )
    found["z"] = found["total"] / np.sqrt(found["squares"])
    found = found[(found["cells"] >= fewest) & (found["z"].abs() >= least)]
    return found.drop(columns=["total", "squares"]).reset_index()


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Causes by work and exhibit metrics: how many different cells each explains."""
    keys = ["work", "cause", "said", "evidence"]
    found = found.rename(columns={"paper": "work"}).sort_values("entry", kind="stable")
    groups = found.groupby([*keys, "entry"], sort=False)
    lines = groups.agg(
        exhibits=("exhibit", lambda names: ", ".join(dict.fromkeys(names))),
        metrics=("metric", lambda names: ", ".join(dict.fromkeys(names))),
        cells=("exhibit", "size"),
    )
    lines = lines.reset_index().sort_values("entry").drop(columns="entry")
    order = lines["work"].map(WORKS.index)
    lines = lines.iloc[order.argsort(kind="stable")]
    return lines[["work", "cause", "said", "exhibits", "metrics", "cells", "evidence"]]
