"""Figures of a hyper-parameter search: all its configurations at once, and which parameters
mattered.

Each returns a Figure; `figures.save_figure` saves it.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREY,
    SKY,
    VERMILLION,
    pretty,
)

SCORE = "log_cluster"
SHADES = plt.get_cmap("viridis")
PALEST = 0.93  # of SHADES: its last yellow is too light for a line
# share of the distance between two candidates over which the lines through one of them are spread
FAN = 0.55
LINES = (
    "One line per configuration, dark: low (good) score. Lines through one value are spread in "
    "the order of scores."
)

BARS = "Dark marks: 95 % of searches with shuffled scores stay below. Lines: 95 % intervals."


def parallel_coordinates(
    tables: Mapping[str, pd.DataFrame],
    grids: Mapping[str, Mapping[str, Sequence]],
    printed: Mapping[str, Mapping[str, object]] | None = None,
) -> Figure:
    """An axis for each hyper-parameter, the last one the score, a panel for each dataset (figures
    5.7 and 5.8).

    tables: dataset -> a line per configuration with a column per hyper-parameter, `log_cluster`,
        and where scores are means over splits their `std` and number `splits`. grids: dataset ->
        parameter -> candidates, in the order of axes. printed: dataset -> the setting chosen in
        print, highlighted where it was tried.
    The best configuration is thick, with two standard errors of its mean where there are several
    splits.
    """
    if not tables:
        raise BadInput("tables is empty: give the configurations of at least one dataset.")
    fig, axes = plt.subplots(
        len(tables), figsize=(FULL_WIDTH, 0.6 + 1.75 * len(tables)), squeeze=False
    )
    marked = False
    for number, (ax, (dataset, table)) in enumerate(zip(axes[:, 0], tables.items(), strict=True)):
        heights = _heights(dataset, table, grids[dataset])
        scale = _scores(ax, table, len(grids[dataset]))
        _lines(ax, table, heights, scale)
        marked |= _marks(ax, table, heights, scale, (printed or {}).get(dataset))
        _candidates(ax, grids[dataset])
        names = [name.replace("_", "\n") for name in grids[dataset]] + [
            pretty(SCORE).replace("-", "-\n")
        ]
        ax.set_xticks(range(len(names)), names if number == len(tables) - 1 else [""] * len(names))
        ax.set_title(
            f"{dataset}: {len(table)} configurations, best {table[SCORE].min():.2f}", loc="left"
        )
    handles = [
        plt.Line2D([], [], color=VERMILLION, linewidth=2.2, marker="o", label="best of ours")
    ]
    if marked:
        handles.append(
            plt.Line2D(
                [], [], color=BLACK, linewidth=1.4, linestyle="--", label="chosen in the work"
            )
        )
    fig.legend(handles=handles, loc="outside upper right", ncols=2, handlelength=3)
    return fig


def _heights(dataset: str, table: pd.DataFrame, grid: Mapping[str, Sequence]) -> np.ndarray:
    """Where each configuration crosses each parameter's axis, 0 to 1; (configurations, parameters).

    Candidates stand at equal distances. Lines through one of them are fanned out, the best lowest,
    so that none hides another.
    """
    if table.empty or (absent := [name for name in [*grid, SCORE] if name not in table]):
        what = "is empty" if table.empty else f"has no column {absent[0]!r}"
        raise BadInput(
            f"{dataset}: the table of configurations {what}: make it from the rows of a search."
        )
    heights = np.zeros((len(table), len(grid)))
    for axis, (name, candidates) in enumerate(grid.items()):
        places = table[name].map({value: place for place, value in enumerate(candidates)})
        if places.isna().any():
            raise BadInput(
                f"{dataset}: {name} is {table.loc[places.isna(), name].iloc[0]}, which "
                "is not in its grid."
            )
        order = table[SCORE].groupby(places).rank(method="first")
        count = places.map(places.value_counts())
        heights[:, axis] = (places + FAN * ((order - 0.5) / count - 0.5) + 0.5) / len(candidates)
    return heights


def _scores(ax: Axes, table: pd.DataFrame, place: int) -> Normalize:
    """The axis of scores at the right; what turns a score into a height of 0 to 1."""
    low, high = table[SCORE].min(), table[SCORE].max()
    margin = 0.06 * (high - low) or 0.5
    scale = Normalize(low - margin, high + margin)
    right = ax.secondary_yaxis("right", functions=(scale.inverse, scale))
    right.tick_params(labelsize=7)
    ax.set(xlim=(-0.35, place), ylim=(0, 1), yticks=[])
    ax.grid(False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
    return scale


def _lines(ax: Axes, table: pd.DataFrame, heights: np.ndarray, scale: Normalize) -> None:
    """A line per configuration, bad ones first so that good ones lie on top."""
    shade = Normalize(table[SCORE].min(), table[SCORE].max())
    for row in np.argsort(-table[SCORE].to_numpy(), kind="stable"):
        score = table[SCORE].iloc[row]
        colour = SHADES(PALEST * float(shade(score)))
        ax.plot(
            range(heights.shape[1] + 1),
            [*heights[row], scale(score)],
            color=colour,
            linewidth=0.8,
            alpha=0.9,
        )


def _marks(
    ax: Axes,
    table: pd.DataFrame,
    heights: np.ndarray,
    scale: Normalize,
    printed: Mapping[str, object] | None,
) -> bool:
    """The best configuration, and the printed one where it was tried; whether it was."""
    rim, last = [Stroke(linewidth=3.6, foreground="white"), Normal()], heights.shape[1]

    def mark(row: int, **style: object) -> None:
        path = [*heights[row], scale(table[SCORE].iloc[row])]
        ax.plot(range(last + 1), path, zorder=4, path_effects=rim, clip_on=False, **style)

    tried = (
        []
        if printed is None
        else np.flatnonzero(np.all([table[n] == v for n, v in printed.items()], axis=0))
    )
    if len(tried):
        mark(tried[0], color=BLACK, linewidth=1.4, linestyle="--")
    best = int(table[SCORE].to_numpy().argmin())
    mark(best, color=VERMILLION, linewidth=2.2, marker="o", markersize=4)
    if "splits" in table and table["splits"].iloc[best] > 1:
        error = 2 * table["std"].iloc[best] / np.sqrt(table["splits"].iloc[best])
        ends = scale(table[SCORE].iloc[best] + np.array([-error, error]))
        ax.plot(
            [last, last], np.clip(ends, 0, 1), color=VERMILLION, linewidth=3, alpha=0.5, zorder=3
        )
    return len(tried) > 0


def _candidates(ax: Axes, grid: Mapping[str, Sequence]) -> None:
    """Each parameter's axis with its candidates."""
    for axis, candidates in enumerate(grid.values()):
        ax.axvline(axis, color=GREY, linewidth=0.6, zorder=0)
        for place, value in enumerate(candidates):
            text = value if isinstance(value, str) else f"{value:g}"
            frame = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
            at = (axis - 0.05, (place + 0.5) / len(candidates))
            ax.text(*at, text, ha="right", va="center", fontsize=7, bbox=frame, zorder=5)


def sensitivity_bars(
    tables: Mapping[str, pd.DataFrame], printed: Mapping[str, Mapping[str, int]] | None = None
) -> Figure:
    """Importance and correlation of every parameter, two panels for each dataset (figures 6.1 and
    6.2).

    tables: dataset -> a line per parameter (its index) with `importance` and `correlation` (-1 to
        1, NaN where there is none), and where known `chance` (importance without meaning, a dark
        mark), `low` and `high` (ends of an interval for the correlation). The most important stands
        on top.
    printed: dataset -> parameter -> place in the printed order of importance, in brackets beside
        the bar.
    """
    if not tables:
        raise BadInput("tables is empty: give the importances of at least one dataset.")
    heights = [0.35 + 0.18 * len(table) for table in tables.values()]
    size = (FULL_WIDTH, 0.8 + sum(heights))
    fig, axes = plt.subplots(
        len(tables), 2, figsize=size, height_ratios=heights, sharex="col", squeeze=False
    )
    for (left, right), (dataset, table) in zip(axes, tables.items(), strict=True):
        if absent := [name for name in ("importance", "correlation") if name not in table]:
            raise BadInput(f"{dataset}: the table has no column {absent[0]!r}.")
        table = table.sort_values("importance")
        _importances(left, table, (printed or {}).get(dataset, {}))
        _correlations(right, table)
        left.set_title(dataset, loc="left")
    longest = [
        table[name].max()
        for table in tables.values()
        for name in ("importance", "chance")
        if name in table
    ]
    axes[0, 0].set_xlim(0, 1.05 * max(longest))
    axes[-1, 0].set_xlabel("importance (share of all)")
    axes[-1, 1].set_xlabel("correlation with log-cluster (right: larger is worse)")
    return fig


def _importances(ax: Axes, table: pd.DataFrame, places: Mapping[str, int]) -> None:
    spots = np.arange(len(table))
    ax.barh(spots, table["importance"], color=BLUE, height=0.7)
    if "chance" in table:
        rim = [Stroke(linewidth=3.4, foreground="white"), Normal()]
        mark = {"marker": "|", "markersize": 9, "markeredgewidth": 1.6, "path_effects": rim}
        ax.plot(table["chance"], spots, color=BLACK, ls="", **mark)
    ax.set_yticks(spots, [name.replace("_", " ") for name in table.index])
    for spot, name in zip(spots, table.index, strict=True):
        if name in places:
            beside = ax.get_yaxis_transform()
            ax.text(1.02, spot, f"({places[name]})", transform=beside, fontsize=7, va="center")
    _lying(ax, len(table))


def _correlations(ax: Axes, table: pd.DataFrame) -> None:
    spots, found = np.arange(len(table)), table["correlation"].to_numpy(float)
    for chosen, colour, hatch in ((found > 0, VERMILLION, ""), (found <= 0, SKY, "////")):
        style = {
            "color": colour,
            "hatch": hatch,
            "edgecolor": "white",
            "linewidth": 0,
            "height": 0.7,
        }
        ax.barh(spots[chosen], found[chosen], **style)
    if "low" in table:
        ax.hlines(spots, table["low"], table["high"], color=BLACK, linewidth=0.8)
    ax.axvline(0, color=BLACK, linewidth=0.6)
    ax.set_yticks(spots, [""] * len(spots))
    _lying(ax, len(table))
    ax.set_xlim(-1, 1)


def _lying(ax: Axes, bars: int) -> None:
    """Grid lines across lying bars, and the same heights beside each other."""
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
    ax.set_ylim(-0.6, bars - 0.4)
    ax.tick_params(axis="y", length=0)
