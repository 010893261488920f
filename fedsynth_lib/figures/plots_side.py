"""Pictures of the common protocol: who leads where, what a budget buys, what unlike clients
cost."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import FULL_WIDTH, GREY, Look, look
from fedsynth_lib.runs.names import YARDSTICKS

MARK = "†"  # behind a method whose run released something outside of epsilon


class Measure(NamedTuple):
    """How a measure is written, whether more is better, and whose it is."""

    label: str
    up: bool
    work: str


MEASURES = {
    "hellinger": Measure("Hellinger distance", False, "martinez2024"),
    "pcd": Measure("correlation difference", False, "martinez2024"),
    "pmse": Measure("propensity MSE", False, "martinez2024"),
    "log_cluster": Measure("log-cluster", False, "martinez2024"),
    "jsd": Measure("Jensen-Shannon, columns", False, "leitner2023"),
    "wd": Measure("Wasserstein, columns", False, "leitner2023"),
    "workload_error": Measure("error of triples (L1)", False, "maddock2024"),
    "fidelity": Measure("fidelity Ω", True, "sattarov2024"),
    "js_divergence": Measure("told apart by a network (bits)", False, "apellaniz2025"),
    "auc_rf_score": Measure("AUC, random forest", True, "martinez2024"),
    "auc_gbt": Measure("AUC, gradient boosting", True, "maddock2024"),
    "auroc": Measure("AUROC, four classifiers", True, "leitner2023"),
    "accuracy": Measure("accuracy, five classifiers", True, "sattarov2024"),
    "risk": Measure("risk of three attacks", False, "sattarov2024"),
    "ad_rmean": Measure("attribute guessed (accuracy)", False, "martinez2024"),
    "mia_closest": Measure("membership AUC, closest", False, "here"),
    "mia_calibrated": Measure("membership AUC, calibrated", False, "here"),
}
REFERENCES = {"A copy": "-", "Second sample": "--", "Shuffled columns": ":"}


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the column `entry`: the method, marked where something was released outside of
    epsilon."""
    open_ = rows["unprotected"].fillna(0).gt(0) & np.isfinite(rows["epsilon"].fillna(np.inf))
    return rows.assign(entry=rows["method"] + np.where(open_, f" {MARK}", ""))


def leaderboard(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Entries down, measures across: means over seeds, the mean rank among protected entries first;
    best on top.

    Marked entries and known rows have no rank: their epsilon does not cover what they released, or
    there is none.
    """
    means = named(rows).pivot_table("value", "entry", "metric")[list(metrics)]
    ranked = [
        entry for entry in means.index if not entry.endswith(MARK) and entry not in YARDSTICKS
    ]
    signs = np.array([-1.0 if MEASURES[name].up else 1.0 for name in metrics])
    ranks = (means.loc[ranked] * signs).rank().mean(axis=1)
    table = means.assign(rank=ranks)
    kind = np.select([table.index.isin(YARDSTICKS), table["rank"].isna()], [2, 1], 0)
    order = table.assign(kind=kind).sort_values(["kind", "rank", *metrics[:1]]).index
    return table.loc[order, ["rank", *metrics]]


def dots(rows: pd.DataFrame, metrics: Sequence[str], *, columns: int = 4) -> Figure:
    """A panel for each measure, entries down: means over seeds with their range; grey lines are
    known rows."""
    board = leaderboard(rows, metrics)
    entries = [entry for entry in board.index if entry not in YARDSTICKS]
    lines = -(-len(metrics) // columns)
    size = (FULL_WIDTH, 0.8 + lines * (0.55 + 0.14 * len(entries)))
    fig, axes = plt.subplots(lines, columns, figsize=size, sharey=True, squeeze=False)
    spread = named(rows).groupby(["entry", "metric"])["value"].agg(["mean", "min", "max"])
    places = {entry: len(entries) - number for number, entry in enumerate(entries)}
    for ax, metric in zip(axes.flat, metrics, strict=False):
        for known, line in REFERENCES.items():
            if (known, metric) in spread.index:
                ax.axvline(
                    spread.loc[(known, metric), "mean"], color=GREY, linestyle=line, linewidth=0.9
                )
        for entry, place in places.items():
            mean, low, high = spread.loc[(entry, metric)]
            style = look(entry.removesuffix(f" {MARK}"))
            fill = "none" if entry.endswith(MARK) else style.colour
            form = {
                "fmt": style.marker,
                "color": style.colour,
                "mfc": fill,
                "ms": 4,
                "elinewidth": 1,
            }
            ax.errorbar(mean, place, xerr=[[mean - low], [high - mean]], **form)
        ax.set_title(_title(metric), fontsize=7)
        ax.tick_params(labelsize=6)
    for ax in axes.flat[len(metrics) :]:
        ax.set_axis_off()
    for row in axes:
        row[0].set_yticks(list(places.values()), list(places))
    handles = [
        plt.Line2D([], [], color=GREY, linestyle=line, label=name)
        for name, line in REFERENCES.items()
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=3)
    return fig


def frontier(rows: pd.DataFrame, metrics: Sequence[str], *, columns: int = 3) -> Figure:
    """Measures against the epsilon that was spent, a line for each method; at the right edge
    without privacy.

    Hollow markers: something was released outside of epsilon, which then is only nominal. Grey:
    known rows.
    """
    entries = named(rows)
    finite = entries["epsilon_spent"].dropna()
    if finite.empty:
        raise BadInput("no row has spent any epsilon: run private cells first.")
    none = 4 * finite.max()
    entries = entries.assign(
        x=entries["epsilon_spent"].where(np.isfinite(entries["epsilon"]), none)
    )
    lines = -(-len(metrics) // columns)
    fig, axes = plt.subplots(lines, columns, figsize=(FULL_WIDTH, 1.3 + 1.9 * lines), squeeze=False)
    methods = [m for m in dict.fromkeys(rows["method"]) if m not in YARDSTICKS]
    for ax, metric in zip(axes.flat, metrics, strict=False):
        part = entries[entries["metric"] == metric]
        for known, line in REFERENCES.items():
            level = part.loc[part["method"] == known, "value"].mean()
            ax.axhline(level, color=GREY, linestyle=line, linewidth=0.9)
        for method in methods:
            style = look(method)
            for marked in (False, True):
                own = part[
                    (part["method"] == method)
                    & (part["detail"] == ("as published" if marked else ""))
                ]
                own = own.groupby("epsilon")[["x", "value"]].mean()
                if len(own):
                    fill = "none" if marked else style.colour
                    shape = {
                        "marker": style.marker,
                        "color": style.colour,
                        "mfc": fill,
                        "ms": 4,
                        "linewidth": 0.9,
                    }
                    ax.plot(
                        own["x"], own["value"], linestyle=":" if marked else style.line, **shape
                    )
        ticks = [0.2, 1, 3, 10, none]
        ax.set(xscale="log", title=_title(metric))
        ax.set_xticks(ticks, ["0.2", "1", "3", "10", "none"])
        ax.minorticks_off()
    for ax in axes[-1]:
        ax.set_xlabel("ε spent")
    for ax in axes.flat[len(metrics) :]:
        ax.set_axis_off()
    handles = [_handle(look(m), m) for m in methods]
    handles += [
        plt.Line2D([], [], color=GREY, linestyle=line, label=name)
        for name, line in REFERENCES.items()
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=4)
    return fig


def over(
    rows: pd.DataFrame, metrics: Sequence[str], column: str, levels: Mapping[object, str]
) -> Figure:
    """Measures (down) for each level of a column (across the axis), a line for each method."""
    methods = [m for m in dict.fromkeys(rows["method"]) if m not in YARDSTICKS]
    fig, axes = plt.subplots(1, len(metrics), figsize=(FULL_WIDTH, 3.2), squeeze=False)
    for ax, metric in zip(axes[0], metrics, strict=True):
        part = (
            rows[rows["metric"] == metric]
            .groupby(["method", column])["value"]
            .agg(["mean", "min", "max"])
        )
        for number, method in enumerate(methods):
            own = part.loc[method].reindex(list(levels))
            place = np.arange(len(levels)) + (number - (len(methods) - 1) / 2) * 0.05
            style = look(method)
            errors = np.stack([own["mean"] - own["min"], own["max"] - own["mean"]])
            form = {
                "fmt": style.marker,
                "linestyle": style.line,
                "color": style.colour,
                "ms": 3.5,
                "elinewidth": 0.7,
            }
            ax.errorbar(place, own["mean"], errors, linewidth=0.7, **form)
        ax.set_title(_title(metric))
        ax.set_xticks(range(len(levels)), list(levels.values()), rotation=30, ha="right")
    fig.legend(handles=[_handle(look(m), m) for m in methods], loc="outside upper center", ncols=4)
    return fig


def _title(metric: str) -> str:
    """Its label, in two lines where it is long, and an arrow towards better."""
    return textwrap.fill(
        f"{MEASURES[metric].label}\N{NO-BREAK SPACE}{'↑' if MEASURES[metric].up else '↓'}", 24
    )


def _handle(style: Look, label: str) -> plt.Line2D:
    return plt.Line2D(
        [], [], color=style.colour, marker=style.marker, linestyle=style.line, ms=4, label=label
    )
