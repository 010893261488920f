"""Curves of a measure against a swept parameter: mean over seeds, and two standard errors.

Colour, marker and line are the method's own, so panels read alike, in print and in greyscale.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import style
from fedsynth_lib.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    FEWEST_IN_BAND,
    FULL_WIDTH,
    GREY,
    SWEPT,
    Look,
)
from fedsynth_lib.metrics.registry import axis_label
from fedsynth_lib.printed.published import KEYS
from fedsynth_lib.runs.names import with_table_names

BAND = "Lines: mean over seeds. Bands and bars: two standard errors of the mean to either side."
SINGLE = "Lines are single runs."
FEW = "Lines: mean over seeds. Dots: single runs, too few for a band."
SOME = "Dots: single runs, where they are too few for a band."
FLAT = (0, (7, 3))  # long dashes, which no method has
PALEST = 0.8  # by how much the marker of the palest curve is larger


@dataclass(frozen=True)
class Panel:
    """Which rows one panel shows, and against what.

    x: numeric column. Rows in which it is missing make horizontal dashed lines: a run without such
        a value, as one that ends its rounds by itself, or a central one where clients are swept.
    where: column -> the value, or collection of values, that the panel's rows have.
    log, log_y: a logarithmic axis of x, and of the measure. flat: what the horizontal lines are,
        for the legend: of all lines, or by line. A line called as it is itself has no curve.
        printed: a value of the work's, a dotted line.
    """

    title: str
    x: str
    where: Mapping[str, Any] = field(default_factory=dict)
    metric: str = "workload_error"
    log: bool = False
    log_y: bool = False
    flat: str | Mapping[str, str] = ""
    printed: float | None = None
    x_label: str = ""  # instead of that in SWEPT


def sweep(
    rows: pd.DataFrame,
    panels: Sequence[Panel],
    *,
    looks: Collection[str] | Mapping[str, Look],
    line: str = "method",
    shade: str | None = None,
    columns: int = 3,
    dots: bool = False,
) -> Figure:
    """Draw a curve for each name in `looks`: mean of `value` over seeds.

    A band of two standard errors is around it.

    rows: tidy, with the swept parameter in a numeric column. line: column of the curves' names;
    names that are methods need no look. shade: numeric column that splits a curve; its smallest
    value has the method's own look, larger ones are paler, with larger markers. columns: panels
    beside each other; a single one makes a figure as wide as a column of text. dots: single runs,
    too; without it they are drawn where there are too few for a band.
    Raises BadInput for a panel without rows, and for rows that mix settings.
    """
    looks = looks if isinstance(looks, Mapping) else style.looks(looks)
    if not panels:
        raise BadInput("panels is empty: give at least one Panel.")
    shown = [_rows_of(panel, rows, [line, shade] if shade else [line], looks) for panel in panels]
    drawn = [name for name in looks if any((part[line] == name).any() for part in shown)]
    if missing := [name for name in looks if name not in drawn]:
        raise BadInput(
            f"no panel has rows of {missing[0]!r} in column {line!r}: correct the name "
            "or leave it out."
        )
    levels = sorted({level for part in shown for level in part[shade].dropna()}) if shade else []
    width = FULL_WIDTH if min(columns, len(panels)) > 1 else COLUMN_WIDTH
    fig, axes = style.panels(len(panels), columns, height=1.8, width=width)
    for number, (ax, panel, part) in enumerate(zip(axes, panels, shown, strict=True)):
        for name in drawn:
            mine = part[part[line] == name]
            if not levels:
                _curve(ax, mine, panel, looks[name], 0.0, name)
            for step, level in enumerate(levels):
                these = mine[mine[shade].fillna(levels[0]) == level]
                pale, label = step / max(1, len(levels) - 1), f"{name}, {shade}={level:g}"
                _curve(ax, these, panel, looks[name], pale, label)
            at = mine[panel.x]
            runs = mine.groupby([at, *([shade] if shade else [])])["value"].transform("size")
            alone = mine if dots else mine[runs.gt(1) & runs.lt(FEWEST_IN_BAND)]
            spots = {"color": looks[name].colour, "marker": ".", "s": 7, "linewidths": 0}
            ax.scatter(alone[panel.x], alone["value"], **spots)
        _axis(ax, panel, part[panel.x])
        if panel.printed is not None:
            ax.axhline(panel.printed, color=BLACK, linestyle=":", linewidth=0.8)
        if number % columns == 0 or panels[number - 1].metric != panel.metric:
            ax.set_ylabel(style.wrapped(axis_label(panel.metric)))
    names = {name: looks[name] for name in drawn}
    style.legend(fig, _handles(panels, names, shade, levels))
    return fig


def repeats(rows: pd.DataFrame) -> str:
    """How many seeds stand behind the points, for a figure's note: `10`, or `3 to 10`."""
    counts = rows.groupby(KEYS, dropna=False)["seed"].nunique()
    return " to ".join(map(str, sorted({counts.min(), counts.max()})))


def bands(rows: pd.DataFrame, *, dots: bool = False) -> str:
    """Return what lines, bands and dots are, for a figure's note. dots: all runs are drawn."""
    if rows["seed"].nunique() == 1:
        return SINGLE
    keys = [key for key in KEYS if key in rows]
    counts = rows.groupby(keys, dropna=False)["seed"].nunique()
    if counts.max() < FEWEST_IN_BAND:
        return FEW
    if dots:
        return f"{BAND} Dots: single runs."
    return f"{BAND} {SOME}" if (counts == FEWEST_IN_BAND - 1).any() else BAND


def _handles(
    panels: Sequence[Panel], looks: Mapping[str, Look], shade: str | None, levels: Sequence[float]
) -> list[Line2D]:
    """Return the legend: names, then shades in grey, then what the horizontal lines are.

    A horizontal line that is named by its curve has the curve's colour and marker, others are grey.
    """
    flats = dict.fromkeys(panel.flat for panel in panels if isinstance(panel.flat, str))
    named = [panel.flat.items() for panel in panels if isinstance(panel.flat, Mapping)]
    own = dict.fromkeys(item for items in named for item in items)
    curves = [name for name in looks if (name, name) not in own]
    handles = [
        Line2D([], [], label=with_table_names(name), **_shape(looks[name], 0.0)) for name in curves
    ]
    for step, level in enumerate(levels):
        shape = _shape(Look(GREY, "o"), step / max(1, len(levels) - 1))
        handles.append(Line2D([], [], label=f"{SWEPT.get(shade, shade)} = {level:g}", **shape))
    dashes = {"linestyle": FLAT, "linewidth": 0.9}
    for flat in filter(None, flats):
        handles.append(Line2D([], [], label=flat, color=GREY, **dashes))
    for name, flat in own:
        if name in looks:
            handles.append(Line2D([], [], label=flat, **_shape(looks[name], 0.0) | dashes))
    return handles


def _rows_of(
    panel: Panel, rows: pd.DataFrame, by: list[str], looks: Mapping[str, Look]
) -> pd.DataFrame:
    """Return the rows of one panel; those averaged differ in nothing but the seed."""
    where = {"metric": panel.metric, **panel.where}
    if absent := [name for name in (panel.x, *by, *where) if name not in rows.columns]:
        raise BadInput(f"panel {panel.title!r} needs the column {absent[0]!r}: add it to the rows.")
    keep = rows[by[0]].isin(list(looks))
    for column, wanted in where.items():
        keep &= rows[column].isin(list(wanted) if pd.api.types.is_list_like(wanted) else [wanted])
    part = rows[keep]
    if part.empty:
        raise BadInput(
            f"panel {panel.title!r} has no rows with {where}: correct `where` or run these cells."
        )
    if not pd.api.types.is_numeric_dtype(part[panel.x]):
        raise BadInput(
            f"panel {panel.title!r}: column {panel.x!r} is no numeric column; convert it first."
        )
    values = part[panel.x].to_numpy(float, na_value=np.nan)
    if np.isinf(values).any() or (panel.log and (values <= 0).any()):
        kind = "positive and finite" if panel.log else "finite"
        raise BadInput(
            f"panel {panel.title!r}: {panel.x} must be {kind}; leave other rows out or "
            "make it missing."
        )
    if part.duplicated([panel.x, *by, "seed"]).any():
        raise BadInput(
            f"panel {panel.title!r} mixes settings: several rows agree in "
            f"{', '.join([*by, panel.x])} and seed; say in `where` which to show."
        )
    return part.assign(**{panel.x: values})


def _curve(
    ax: Axes,
    rows: pd.DataFrame,
    panel: Panel,
    look: Look,
    pale: float,
    label: str,
) -> None:
    """Draw curve and band over x.

    Rows without x make a horizontal line, which ends in the marker of the method.
    """
    shape = _shape(look, pale)
    swept = rows.groupby(panel.x)["value"].agg(["mean", "sem", "size"])
    if len(swept):
        ax.plot(swept.index, swept["mean"], label=label, **shape)
        enough = swept["size"] >= FEWEST_IN_BAND
        error = 2 * swept["sem"].where(enough, 0)
        if swept["size"].between(2, FEWEST_IN_BAND - 1).any():  # a band would narrow towards these
            bar = {"linestyle": "none", "color": shape["color"], "elinewidth": 0.8}
            ax.errorbar(swept.index[enough], swept["mean"][enough], error[enough], **bar)
        else:
            ends = swept["mean"] - error, swept["mean"] + error
            ax.fill_between(swept.index, *ends, color=shape["color"], alpha=0.18, linewidth=0)
    flat = rows.loc[rows[panel.x].isna(), "value"]
    if len(flat):
        line = {"color": shape["color"], "linestyle": FLAT, "linewidth": 0.9}
        ax.axhline(flat.mean(), label=f"{label}, flat", **line)
        error = 2 * flat.sem() if len(flat) >= FEWEST_IN_BAND else 0
        end = style.mark(Look(shape["color"], look.marker, ""))
        beside = {"transform": ax.get_yaxis_transform(), "clip_on": False, "elinewidth": 0.8}
        ax.errorbar(1.03, flat.mean(), error, **end, **beside)


def _shape(look: Look, pale: float) -> dict[str, Any]:
    """Return line and marker; pale: 0 is the look itself, 1 the palest, with the largest marker."""
    colour = np.array(to_rgb(look.colour))
    size = mpl.rcParams["lines.markersize"] * (1 + PALEST * pale)
    behind = {"markersize": size, "zorder": 2.5 - 0.4 * pale}  # larger marks hide no smaller ones
    return style.mark(look, color=tuple(colour + 0.5 * pale * (1 - colour)), **behind)


def _axis(ax: Axes, panel: Panel, values: pd.Series) -> None:
    """Set title, label and scale.

    Ticks are at swept values that are far enough from each other to be read.
    """
    ax.set(
        title=style.title("dataset", panel.title),
        xlabel=panel.x_label or SWEPT.get(panel.x, panel.x.replace("_", " ")),
    )
    if panel.log:
        ax.set_xscale("log")
    if panel.log_y:
        style.plain_log(ax)
    swept = np.unique(values.dropna())
    if not len(swept):
        ax.set_xticks([])
        return
    place = np.log(swept) if panel.log else swept
    place = (place - place[0]) / (np.ptp(place) or 1)
    texts, ticks = [f"{value:g}" for value in swept], [0]
    for number in range(1, len(swept)):
        if place[number] - place[ticks[-1]] >= 0.05 + 0.015 * (
            len(texts[number]) + len(texts[ticks[-1]])
        ):
            ticks.append(number)
    # both ends have one
    ticks[-1 if len(ticks) > 1 else 1 :] = [len(swept) - 1] if len(swept) > 1 else []
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(swept[ticks], [texts[number] for number in ticks])
