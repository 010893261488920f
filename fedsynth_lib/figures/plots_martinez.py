"""Figures and a table of martinez2024's privacy notebooks: distances to real records, and attacks
on an attribute.

Each figure function returns a Figure; `figures.save_figure` saves it. Budgets have their own colour
and marker; filled markers with bars (one standard deviation over splits) are ours, hollow ones to
their right are printed.
"""

import textwrap
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREY,
    METRIC_LABELS,
    VERMILLION,
    Look,
    level_name,
    pretty,
)
from fedsynth_lib.printed import published
from fedsynth_lib.runs.details import with_detail

# columns of tables 6.6 and 6.12
DISTANCES = ["dcr_min", "dcr_share", "dcr_avg_train", "dcr_avg_holdout"]
ATTACKS = {
    **{
        "ad_rf": "forest",
        "ad_svm": "SVM",
        "ad_nb": "naive\nBayes",
        "ad_knn": "k-NN",
        "ad_lr": "log.\nregr.",
    },
    **{"ad_ens": "vote", "ad_rmean": "mean", "ad_dum": "dummy"},
}
BUDGETS = {np.inf: Look(BLACK, "o"), 1.6: Look(BLUE, "s"), 0.5: Look(VERMILLION, "^")}
REAL = Look(GREY, "D")


def unprinted(rows: pd.DataFrame, metrics: Sequence[str] = DISTANCES) -> pd.DataFrame:
    """Federated cells of rows, and real ones, in the form of `published.compare`, where nothing is
    printed."""
    rows = with_detail(rows)
    chosen = (
        rows["setting"].isin(["federated", "real"])
        & rows["metric"].isin(list(metrics))
        & (rows["detail"] == "")
    )
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
    """Ours alone in the layout of the printed tables: rows by partition and clients, columns by
    budget and metric."""
    show = spread & (cells["n"] > 1)
    entries = [
        f"{mean:.3f} ± {std:.3f}" if shown else f"{mean:.3f}"
        for mean, std, shown in zip(cells["ours"], cells["ours_std"], show, strict=True)
    ]
    real = cells["setting"] == "real"
    named = cells.assign(
        entry=entries,
        level=cells["epsilon"].map(level_name),
        partition=cells["partition"].map(pretty).where(~real, "real rows"),
        clients=cells["n_clients"].astype(str).where(~real, ""),
    )
    rows, columns = ["partition", "clients"], ["level", "metric"]
    wide = named.pivot(index=rows, columns=columns, values="entry")
    orders = [pd.MultiIndex.from_frame(named[names].drop_duplicates()) for names in (rows, columns)]
    return wide.reindex(index=orders[0], columns=orders[1]).fillna("")


def distance_panel(cells: pd.DataFrame) -> Figure:
    """Distances to the closest record by number of clients: a row for each metric, a column for
    each partition.

    cells: what `published.compare` or `unprinted` returns, of one dataset. Dashed: a share of one
        half, the wanted one.
    """
    metrics, partitions = list(cells["metric"].unique()), list(cells["partition"].unique())
    clients = sorted(cells["n_clients"].dropna().unique())
    budgets = [epsilon for epsilon in BUDGETS if epsilon in set(cells["epsilon"])]
    shape = {
        "figsize": (FULL_WIDTH, 0.75 + 1.2 * len(metrics)),
        "sharex": True,
        "sharey": "row",
        "squeeze": False,
    }
    fig, axes = plt.subplots(len(metrics), len(partitions), **shape)
    for (row, column), ax in np.ndenumerate(axes):
        panel = cells[
            (cells["metric"] == metrics[row]) & (cells["partition"] == partitions[column])
        ]
        for number, epsilon in enumerate(budgets):
            own = panel[panel["epsilon"] == epsilon].set_index("n_clients").reindex(clients)
            place = np.arange(len(clients)) + 0.26 * (number - (len(budgets) - 1) / 2)
            _marks(ax, place, own, BUDGETS[epsilon], gap=0.09)
        if metrics[row] == "dcr_share":
            ax.axhline(0.5, color=GREY, linestyle="--", linewidth=0.8)
        else:  # noise moves rows tenfold, and a copy is at 0
            if metrics[row] == "dcr_min":
                ax.set_yscale("symlog", linthresh=0.01)
                ax.set_ylim(bottom=-0.002)
            else:
                ax.set_yscale("log")
                ax.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_locator(NullLocator())
        if row == 0:
            ax.set_title(pretty(partitions[column]))
        if column == 0:
            ax.set_ylabel(textwrap.fill(METRIC_LABELS[metrics[row]], 18))
    axes[0, 0].set(xlim=(-0.5, len(clients) - 0.5))
    axes[0, 0].set_xticks(range(len(clients)), [str(count) for count in clients])
    for ax in axes[-1]:
        ax.set_xlabel("clients")
    _legend(fig, {level_name(epsilon): BUDGETS[epsilon] for epsilon in budgets}, cells)
    return fig


def attack_panel(cells: pd.DataFrame) -> Figure:
    """Accuracy of each attack: a row for each dataset, a column for each partition (tables 6.7 and
    6.13).

    cells: what `published.compare` returns. Real rows (grey) stand beside the budgets in every
        panel.
    """
    federated = cells[cells["setting"] == "federated"]
    datasets, partitions = list(cells["dataset"].unique()), list(federated["partition"].unique())
    looks = {"real rows": REAL} | {
        level_name(e): style for e, style in BUDGETS.items() if e in set(cells["epsilon"])
    }
    shape = {
        "figsize": (FULL_WIDTH, 0.9 + 1.75 * len(datasets)),
        "sharex": True,
        "sharey": "row",
        "squeeze": False,
    }
    fig, axes = plt.subplots(len(datasets), len(partitions), **shape)
    for (row, column), ax in np.ndenumerate(axes):
        here = cells[cells["dataset"] == datasets[row]]
        panel = here[(here["partition"] == partitions[column]) | (here["setting"] == "real")]
        names = np.where(panel["setting"] == "real", "real rows", panel["epsilon"].map(level_name))
        for number, (name, style) in enumerate(looks.items()):
            own = (
                panel[names == name]
                .drop_duplicates("metric")
                .set_index("metric")
                .reindex(list(ATTACKS))
            )
            place = np.arange(len(ATTACKS)) + 0.21 * (number - (len(looks) - 1) / 2)
            _marks(ax, place, own, style, gap=0.09)
        for border in range(1, len(ATTACKS)):
            ax.axvline(border - 0.5, color="#DDDDDD", linewidth=0.6)
        if row == 0:
            ax.set_title(pretty(partitions[column]))
        if column == 0:
            ax.set_ylabel(f"{datasets[row]}\naccuracy")
        ax.set_xlim(-0.5, len(ATTACKS) - 0.5)
        ax.set_xticks(range(len(ATTACKS)), list(ATTACKS.values()), fontsize=6)
    _legend(fig, looks, cells)
    return fig


def _marks(ax: Axes, place: np.ndarray, cells: pd.DataFrame, style: Look, gap: float) -> None:
    """Ours filled, printed hollow and `gap` to the right; nothing where a value is missing."""
    size = {"color": style.colour, "markersize": 3, "elinewidth": 0.7, "capsize": 1.2}
    for source, shift, fill in (("ours", 0.0, style.colour), ("published", gap, "white")):
        values, spread = (
            cells[name].to_numpy(float, na_value=np.nan) for name in (source, f"{source}_std")
        )
        known = ~np.isnan(values)
        if known.any():
            at = (place + shift)[known], values[known], np.nan_to_num(spread[known])
            ax.errorbar(*at, fmt=style.marker, markerfacecolor=fill, markeredgewidth=0.7, **size)


def _legend(fig: Figure, looks: dict[str, Look], cells: pd.DataFrame) -> None:
    handles = [
        plt.Line2D([], [], color=style.colour, marker=style.marker, linestyle="", label=name)
        for name, style in looks.items()
    ]
    if cells["published"].notna().any():
        for label, fill in (("ours", GREY), ("printed", "white")):
            shape = {"color": GREY, "marker": "o", "linestyle": "", "markerfacecolor": fill}
            handles.append(plt.Line2D([], [], label=label, **shape))
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles))
