"""Why published values and ours differ: a cause that was tested, or the word unexplained.

data/published/causes.toml lists causes by work, the first that a cell fits counts. One that names
rows is tested here: it explains a cell where ours of that reading are within. Where they are only
half as far from the published value, the cell is `nearer` by the reading and stays unexplained; a
cell that is within, but no longer by the reading, is charged to it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed.published import KEYS, WORKS, aggregate, compare_means
from fedsynth_lib.runs.typed import check_names, read_toml, typed

UNEXPLAINED, NEARER, LOST = "unexplained", "nearer", "no longer within"
Kind = Literal["reading", "scale", "other rows", "chance", "unexplained"]
KINDS = get_args(Kind)


class Cause(NamedTuple):
    """A cause of differences between our values and published ones.

    exhibits: of the work. where: a query over the columns of `compare`, and `errors`, how many
    standard errors lie between; `` for all. cause: of KINDS. said: in a few words. evidence: a
    file, or how it was measured. rows: grid, detail and metrics (ours -> printed) of the reading,
    and `printed`, the detail that the published values have, where they have one.
    """

    work: str
    exhibits: tuple[str, ...]
    cause: Kind
    said: str
    where: str = ""
    evidence: str = ""
    rows: Mapping[str, Any] = {}


def load_causes(path: Path | None = None) -> list[Cause]:
    """Load the causes in the order of the file. Raises BadInput for what it may not say."""
    path = path or project_root() / "data" / "published" / "causes.toml"
    found = []
    for work, entries in read_toml(path).items():
        check_names(path.name, "work", [work], WORKS)
        for entry in entries:
            cause = typed(Cause, {**entry, "work": work}, f"{path.name}, {work}")
            if cause.cause != UNEXPLAINED and not cause.evidence:
                raise BadInput(f"{path.name}, {work}: {cause.said!r} needs evidence.")
            found.append(cause)
    return found


def of_cells(
    cells: pd.DataFrame, rows: Mapping[str, pd.DataFrame], causes: list[Cause] | None = None
) -> pd.Series:
    """Return the cause of each cell's difference from its published value, in words.

    A different value has its cause, as `scale: distances on ...`; one that is within has `no longer
    within: ` and the reading by which it is not; all others have an empty text.

    cells: `exhibits.printed_cells`, of any exhibits. rows: work -> rows of profile paper.
    """
    judged = cells[cells["verdict"].isin(["different", "within"])]
    judged = judged.assign(errors=judged["difference"].abs() / judged["error"])
    found = {name: pd.Series("", judged.index) for name in (*KINDS, NEARER, LOST)}
    for cause in load_causes() if causes is None else causes:
        here = judged[(judged["paper"] == cause.work) & judged["exhibit"].isin(cause.exhibits)]
        here = here.query(cause.where) if cause.where else here
        apart = here["verdict"] == "different"
        told = {cause.cause: apart}
        if cause.rows and len(here):
            within, half = _by_reading(here, cause, rows[cause.work])
            told = {cause.cause: apart & within, NEARER: apart & half, LOST: ~apart & ~within}
        for kind, those in told.items():
            first = those.index[those & (found[kind][those.index] == "")]
            found[kind][first] = f"{kind}: {cause.said}"
    tested = [found[kind] for kind in KINDS if kind != UNEXPLAINED]
    first = pd.concat(tested, axis=1).apply(lambda texts: next(filter(None, texts), ""), axis=1)
    for kind in (NEARER, UNEXPLAINED, LOST):
        first = first.mask(first == "", found[kind])
    none = (first == "") & (judged["verdict"] == "different")
    return first.mask(none, f"{UNEXPLAINED}: no cause was tested").reindex(
        cells.index, fill_value=""
    )


def _by_reading(
    cells: pd.DataFrame, cause: Cause, rows: pd.DataFrame
) -> tuple[pd.Series, pd.Series]:
    """Return which cells are within by the reading of a cause, and which are nearer by it.

    Nearer cells are at most half as far from the published value. A cell that the reading does not
    have keeps its verdict.
    """
    metrics = cause.rows["metrics"]
    own = rows[(rows["grid"] == cause.rows["grid"]) & (rows["detail"] == cause.rows["detail"])]
    own = own[own["metric"].isin(metrics)]
    was = cells["verdict"] == "within"
    if own.empty:
        return was, pd.Series(False, cells.index)
    detail = cause.rows.get("printed", "")
    ours = aggregate(own.assign(metric=own["metric"].map(metrics), detail=detail))
    runs = int(cause.rows.get("seeds", 2))
    found = [
        compare_means(ours, cause.work, exhibit, profile="paper", runs=runs)
        for exhibit in cells["exhibit"].unique()
    ]
    keys = ["exhibit", *KEYS]
    again = cells[keys].merge(pd.concat(found), "left", keys).set_index(cells.index)
    there = again["n"].fillna(0) > 0
    half = again["difference"].abs() <= cells["difference"].abs() / 2
    return (again["verdict"] == "within").where(there, was), half & there


def systematic(cells: pd.DataFrame, *, least: float = 3.0, fewest: int = 4) -> pd.DataFrame:
    """Find differences from published values that many cells share, whatever their own verdict.

    The result has the mean difference of a method at a node by a measure, and `z`, the sum in its
    standard errors.

    least: of z; fewest: cells. Cells count as independent, which those of shared splits are not.
    """
    judged = cells[cells["verdict"].isin(["within", "ordering", "different"]) & (cells["n"] > 1)]
    drawn = judged[(judged["method"] != "") & (judged["ours_std"] > 0)]  # no ranks
    keys = ["paper", "metric", "method", "setting", "detail", "node"]
    groups = drawn.assign(squares=drawn["error"] ** 2).groupby(keys, sort=False)
    found = groups.agg(
        cells=("difference", "size"),
        difference=("difference", "mean"),
        total=("difference", "sum"),
        squares=("squares", "sum"),
    )
    found["z"] = found["total"] / np.sqrt(found["squares"])
    found = found[(found["cells"] >= fewest) & (found["z"].abs() >= least)]
    return found.drop(columns=["total", "squares"]).reset_index()


def table(cells: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the causes by work with their evidence.

    Counted are the different values that each explains, or brings nearer, and those within that are
    no longer so by it. cells: of data/results/cells.csv.
    """
    known = cells[cells["cause"] != ""]
    kind = known["cause"].str.partition(": ")[0]
    said = known["cause"].str.partition(": ")[2]
    counts = pd.crosstab([known["work"], said.rename("said")], kind)
    counts = counts.reindex(columns=[*KINDS, NEARER, LOST], fill_value=0)
    evidence = {(each.work, each.said): each.evidence for each in load_causes()}
    lines = counts.assign(evidence=[evidence.get(place, "") for place in counts.index])
    order = {place: number for number, place in enumerate(evidence)}
    lines = lines.reset_index().rename_axis(columns=None)
    places = pd.MultiIndex.from_frame(lines[["work", "said"]])
    return lines.iloc[np.argsort([order.get(place, 999) for place in places], kind="stable")]
