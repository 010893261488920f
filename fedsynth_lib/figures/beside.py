"""Ours beside the printed values: the one picture of a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import style
from fedsynth_lib.figures.style import FEWEST_IN_BAND, FULL_WIDTH, GREY, Look
from fedsynth_lib.metrics.registry import MEASURES

SOURCES = {"ours": "-", "published": ":"}  # and the line of a value that has no place on x
NOWHERE = ("", "none")  # a partition without clients: such a cell stands in every column
Errors = Literal["std", "two standard errors", ""]


def beside_print(
    cells: pd.DataFrame,
    *,
    x: str | Sequence[str],
    hue: str,
    rows: str = "metric",
    columns: str = "",
    errors: Errors = "std",
    scales: Mapping[str, str] | None = None,
    ticks: Mapping[Any, str] | None = None,
    y_label: str = "",
) -> Figure:
    """Draw ours (filled) beside the published values (hollow, to the right).

    The values of `hue` differ in colour and marker, from left to right.

    cells: what `published.compare` returns, and what like it. x: column along the axis; of two,
        the first groups the second. A cell without a value there is a horizontal line, solid for
        ours and dotted for print. rows, columns: columns of `cells` that divide it into panels.
    errors: bars of one standard deviation of either, of two standard errors of ours, or none; two
        runs of ours are two dots instead. Where several cells share a place, they have no bars; a
        black dash is their mean.
    scales: metric -> `log` or `symlog`. ticks: value of x -> its name.
    y_label: below the value of `rows`, where these are no metrics.
    Raises BadInput where no cell has a place on x.
    """
    along = [x] if isinstance(x, str) else list(x)
    flat = cells[along].isna().any(axis=1)
    places = list(dict.fromkeys(cells.loc[~flat, along].itertuples(index=False, name=None)))
    if not places or cells["ours"].isna().all():
        raise BadInput(f"no cell of ours has a {' and '.join(along)}: run cells of this exhibit.")
    looks = style.looks(dict.fromkeys(style.title(hue, value) for value in cells[hue]))
    down, across = _values(cells, rows), _values(cells, columns)
    height = 1.8 if len(down) < 3 else 1.35
    shape = {"sharex": True, "sharey": "row", "squeeze": False}
    size = (FULL_WIDTH, 0.5 + height * len(down))
    fig, axes = plt.subplots(len(down), len(across), figsize=size, **shape)
    for (i, j), ax in np.ndenumerate(axes):
        here = cells[rows] == down[i]
        if columns:
            here &= cells[columns].isin([across[j], *NOWHERE])
        _panel(ax, cells[here & ~flat], places, along, hue, looks, errors)
        _flat(ax, cells[here & flat], hue, looks)
        if columns and i == 0:
            ax.set_title(style.title(columns, across[j]))
    if rows == "metric":  # when everything is drawn: an axis is as long as its row needs
        for (i, _), ax in np.ndenumerate(axes):
            _scale(ax, down[i], (scales or {}).get(down[i], "linear"))
    for ax, value in zip(axes[:, 0], down, strict=True):
        words = style.wrapped(style.title(rows, value), round(12 * height))
        ax.set_ylabel(f"{words}\n{y_label}" if y_label else words)
    for ax in axes[-1]:
        _ticks(ax, places, along[-1], ticks or {})
    _legend(fig, cells, looks, flat.any())
    return fig


def _values(cells: pd.DataFrame, column: str) -> list:
    """Return what panels show, in the order of the cells; one value where nothing divides them."""
    return [v for v in dict.fromkeys(cells[column]) if v not in NOWHERE] if column else [None]


def _panel(
    ax: Axes,
    cells: pd.DataFrame,
    places: Sequence[tuple],
    along: Sequence[str],
    hue: str,
    looks: Mapping[str, Look],
    errors: Errors,
) -> None:
    """Draw the marks of one panel, and thin lines between groups of places."""
    names = cells[hue].map(lambda value: style.title(hue, value))
    spots = [places.index(place) for place in cells[along].itertuples(index=False, name=None)]
    cells = cells.assign(spot=np.array(spots, float), name=names)
    drawn = [name for name in looks if (names == name).any()]
    step = 0.84 / max(len(drawn), 2)
    for number, name in enumerate(drawn):
        own = cells[cells["name"] == name]
        crowded = own["spot"].duplicated().any()
        for source, side in zip(SOURCES, (-0.2, 0.2), strict=True):
            known = own[own[source].notna()]
            heights = known[source].astype(float)
            spot = known["spot"] + step * (number - (len(drawn) - 1) / 2 + side)
            look = replace(looks[name], published=source == "published", line="")
            bars = None if crowded else _bars(known, source, errors)
            shape = style.mark(look, markersize=4, elinewidth=0.8, capsize=1.2, zorder=2)
            shape |= {"markeredgecolor": look.colour, "markeredgewidth": 0.7}
            if bars is not None and source == "ours":
                two = known["n"].eq(2)
                half = known["ours_std"] / np.sqrt(2)  # two values lie so far from their mean
                for value in (known["ours"] - half, known["ours"] + half):
                    style.dots(ax, spot[two], value[two], looks[name])
            ax.errorbar(spot, heights, bars, label=f"{name}, {source}", **shape)
            if crowded:
                for at, mean in heights.groupby(spot).mean().items():
                    ends = [at - 0.15 * step, at + 0.15 * step]
                    ax.plot(ends, [mean, mean], color="black", linewidth=1.4, zorder=3)
    for left, right in pairwise(places):
        if len(along) == 1 or left[0] != right[0]:
            ax.axvline(places.index(right) - 0.5, color="#DDDDDD", linewidth=0.6)
    ax.set_xlim(-0.5, len(places) - 0.5)


def _bars(cells: pd.DataFrame, source: str, errors: Errors) -> pd.Series | None:
    """Half the length of each error bar; 0 where a value was measured once, or ours twice."""
    if not errors or (errors != "std" and source != "ours"):
        return None
    spread = cells[f"{source}_std"].astype(float).fillna(0)
    if errors != "std":
        spread = 2 * spread / np.sqrt(cells["n"])
    return spread.where(cells["n"] >= FEWEST_IN_BAND, 0) if source == "ours" else spread


def _flat(ax: Axes, cells: pd.DataFrame, hue: str, looks: Mapping[str, Look]) -> None:
    """Horizontal lines of what has no place on the axis."""
    for cell in cells.to_dict("records"):
        name = style.title(hue, cell[hue])
        for source, line in SOURCES.items():
            shape = {"color": looks[name].colour, "linestyle": line, "linewidth": 1}
            ax.axhline(cell[source], label=f"{name}, {source}", **shape)


def _scale(ax: Axes, metric: str, scale: str) -> None:
    """Set a logarithmic axis with plain numbers; draw a dashed line at one half if that is best."""
    if metric in MEASURES and MEASURES[metric].better == "half":
        ax.axhline(0.5, color=GREY, linestyle="--", linewidth=0.8)
    if scale == "log":
        style.plain_log(ax)
    elif scale == "symlog":  # 0 is to be seen
        ax.set_yscale("symlog", linthresh=0.01)
        ax.margins(y=0.12)
        ax.set_ylim(bottom=-0.002)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(NullLocator())


def _ticks(ax: Axes, places: Sequence[tuple], column: str, names: Mapping[Any, str]) -> None:
    """Name the last column of each place, and below it once the first, where there are two."""
    texts = [names.get(place[-1], style.title(column, place[-1])) for place in places]
    ax.set_xticks(range(len(places)), texts, fontsize=7 if len(places) < 8 else 6)
    ax.tick_params(axis="x", length=0)
    if len(places[0]) == 1:
        ax.set_xlabel(style.SWEPT[column] if column == "n_clients" else "")
        return
    spots = pd.Series(range(len(places)), index=[place[0] for place in places])
    for group, middle in spots.groupby(level=0, sort=False).mean().items():
        at = {"xy": (middle, 0), "xycoords": ("data", "axes fraction"), "xytext": (0, -15)}
        text = style.title("partition", group).replace(" ", "\n")
        ax.annotate(text, **at, textcoords="offset points", ha="center", va="top", fontsize=7)


def _legend(fig: Figure, cells: pd.DataFrame, looks: Mapping[str, Look], lines: bool) -> None:
    """Names in their colours; filled and hollow, solid and dotted in grey."""
    handles = [
        style.handle(look, name, linestyle="-" if lines else "") for name, look in looks.items()
    ]
    if cells["published"].notna().any():
        for source, line in SOURCES.items():
            grey = Look(GREY, "o", line if lines else "", published=source == "published")
            handles.append(style.handle(grey, source))
    style.legend(fig, handles)
