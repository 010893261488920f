"""Comparisons in the layout of the printed tables: ours with the published value in brackets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed import published
from fedsynth_lib.printed.entries import Entry, rounded, text_of, with_spread
from fedsynth_lib.printed.published import NOT_COMPARABLE, UNSTABLE
from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.runs.names import level_name, partition_name

MARKS = {"within": "=", "ordering": "↕", "different": "≠", UNSTABLE: "~", NOT_COMPARABLE: "∞"}
MARKS_EXPLAINED = (
    "ours (published); = within error: they differ by no more than chance and rounding explain "
    "in 95 of 100 cases; ↕ not the level, but the order among values of this table; ≠ different, "
    "~ unstable, ∞ no bound; without a mark: not judged (a single run, or fewer rounds at the "
    "published signal-to-noise ratio)"
)
ORDER_EXPLAINED = "order k/n: of its n published orders with other values of the table, ours has k"
# columns of the tables of distances and of attacks
DISTANCES = ("dcr_min", "dcr_share", "dcr_avg_train", "dcr_avg_holdout")
ATTACKS = {
    **{"ad_rf": "forest", "ad_svm": "SVM", "ad_nb": "naive\nBayes", "ad_knn": "k-NN"},
    **{"ad_lr": "log.\nregr.", "ad_ens": "vote", "ad_rmean": "mean", "ad_dum": "dummy"},
}


def comparison_table(
    comparison: pd.DataFrame, *, spread: bool = False, rows: Sequence[str] = ()
) -> pd.DataFrame:
    """Tabulate `ours (published)` in the layout of the published tables.

    Rows: setting, partition, clients and what else differs, or the columns in `rows`; columns:
    privacy level and metric. The mark behind a cell is its verdict; `entries_explained` says so in
    a caption. `spread` adds the standard deviations. Where there is no published value, as beside a
    small live run, `order k/n` says how many of the comparisons with other cells agree with the
    published order.
    """
    entries = [_entry(row, spread=spread) for row in comparison.to_dict("records")]
    wide = comparison.assign(
        entry=entries,
        level=["" if np.isnan(e) else level_name(e) for e in comparison["epsilon"]],
        partition=comparison["partition"]
        .map(partition_name)
        .where(comparison["partition"] != "none", ""),
        clients=comparison["n_clients"].astype("string").fillna(""),
    )
    columns, always = ["level", "metric"], ("partition", "clients", "setting")
    every = ["dataset", "method", "node", "detail", *always]
    differ = [name for name in every if name in always or wide[name].nunique() > 1]
    rows = list(rows) or differ
    if wide.duplicated([*rows, *columns]).any():
        raise BadInput("several exhibits are in this comparison: make one table for each.")
    return _pivoted(wide, rows, columns)


def entries_explained(comparison: pd.DataFrame) -> str:
    """Say for a caption what the entries of `comparison_table` mean: of what this table has."""
    if comparison["published"].notna().any():
        return MARKS_EXPLAINED
    ordered = comparison["order"].where(comparison["n"] > 0, "").ne("").any()
    return f"ours alone; {ORDER_EXPLAINED}" if ordered else "ours alone"


def _entry(cell: Mapping[str, Any], *, spread: bool) -> Entry:
    """Ours beside the published value.

    The published one has its own digits, and ours those of the most exact one of its measure: a
    published 0.8 beside 0.82 is one whose last zero was left out.
    """
    digits, printed, ran = int(cell["digits"]), int(cell["decimals"]), cell["n"] > 0
    known = {
        "ours": (digits, ran),
        "ours_std": (digits, spread and cell["n"] > 1),
        "published": (printed, True),
        "published_std": (printed, spread),
    }
    numbers = {name: rounded(cell[name] if here else None, n) for name, (n, here) in known.items()}
    ours = text_of(numbers["ours"], numbers["ours_std"], digits) or "–"
    published = text_of(numbers["published"], numbers["published_std"], printed)
    if not published:
        order = cell["order"] if ran else ""
        text = f"{ours} (order {order})" if order else ours
        return Entry(text, {**numbers, "order": order})
    mark = MARKS.get(cell["verdict"], "")
    text = f"{ours} ({published}) {mark}".rstrip()
    return Entry(text, {**numbers, "verdict": cell["verdict"] if mark else ""})


def _pivoted(cells: pd.DataFrame, rows: list[str], columns: list[str]) -> pd.DataFrame:
    """Their `entry` by rows and columns, in the order in which these come."""
    wide = cells.pivot(index=rows, columns=columns, values="entry")
    orders = [pd.MultiIndex.from_frame(cells[names].drop_duplicates()) for names in (rows, columns)]
    orders = [each if each.nlevels > 1 else each.get_level_values(0) for each in orders]
    return wide.reindex(index=orders[0], columns=orders[1]).fillna("")


def unprinted(rows: pd.DataFrame, metrics: Sequence[str] = DISTANCES) -> pd.DataFrame:
    """Return federated and real cells of rows in the form of `published.compare`.

    It is for cells of which nothing is published.
    """
    rows = with_detail(rows)
    chosen = rows["setting"].isin(["federated", "real"]) & (rows["detail"] == "")
    chosen &= rows["metric"].isin(list(metrics))
    cells = published.aggregate(rows[chosen])
    if cells.empty:
        raise BadInput(
            f"there are no federated rows of {', '.join(metrics)}: run cells of that group."
        )
    order = ["setting", "partition", "n_clients", "epsilon", "metric"]
    place = cells[order].assign(
        setting=cells["setting"] != "real",
        partition=cells["partition"].map(list(rows["partition"].unique()).index),
        epsilon=cells["epsilon"].replace(np.inf, -1),
        metric=cells["metric"].map(list(metrics).index),
    )
    cells = cells.loc[place.sort_values(order).index].reset_index(drop=True)
    return cells.rename(columns={"mean": "ours", "std": "ours_std"}).assign(
        published=np.nan, published_std=np.nan
    )


def own_table(cells: pd.DataFrame, *, spread: bool = False) -> pd.DataFrame:
    """Tabulate ours alone in the layout of the published tables.

    Rows are by partition and clients, columns by budget and metric.
    """
    spreads = cells["ours_std"].where(spread & (cells["n"] > 1))
    entries = [
        with_spread(mean, std, 3, ("ours", "ours_std"))
        for mean, std in zip(cells["ours"], spreads, strict=True)
    ]
    real = cells["setting"] == "real"
    named = cells.assign(
        entry=entries,
        level=cells["epsilon"].map(level_name),
        partition=cells["partition"].map(partition_name).where(~real, "real rows"),
        clients=cells["n_clients"].astype(str).where(~real, ""),
    )
    return _pivoted(named, ["partition", "clients"], ["level", "metric"])


def entries_table(work: str, exhibit: str, ours: Mapping[tuple[str, str], Any]) -> pd.DataFrame:
    """Tabulate the published entries of a described table, words and numbers, beside ours.

    The last columns are their difference, and where there is one what is known of it.

    ours: (dataset, metric) -> entry; what is not published comes last of its dataset.
    """
    printed = published.load_values(work, exhibit).set_index(["dataset", "metric"])
    table = pd.DataFrame({"published": printed["printed"], "ours": pd.Series(ours)})
    places = [*dict.fromkeys([*printed.index, *ours])]
    tables = [*dict.fromkeys(dataset for dataset, _ in places)]
    places = [place for place in places if place[0] in {dataset for dataset, _ in ours}]
    table = table.loc[sorted(places, key=lambda place: tables.index(place[0]))]
    table = table.rename_axis(printed.index.names)
    numbers = table.apply(pd.to_numeric, errors="coerce")
    table["difference"] = numbers["ours"] - numbers["published"]
    remark = printed["note"].str.removeprefix("DOUBT: ")
    table["remark"] = remark.where(table["difference"] != 0, "")
    return table.fillna({"published": "", "remark": ""})
