"""Curves of a measure against a swept parameter: mean over seeds, and two standard errors around
it.

Colour, marker and line are the method's own (`figures.look`), so panels read alike, in print and in
greyscale.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import (
    COLUMN_WIDTH,
    FULL_WIDTH,
    GREEN,
    GREY,
    SKY,
    Look,
    look,
    pretty,
)
from fedsynth_lib.printed.published import KEYS

BAND = "Lines: mean over seeds. Bands and bars: two standard errors of the mean to either side."
FLAT = (0, (7, 3))  # long dashes, which no method has
X_LABELS = {
    "epsilon": "privacy budget ε",
    "rounds": "global rounds T",
    "participation": "clients per round (share p)",
    "beta": "skew parameter β (large: less skew)",
    "local_rounds": "local rounds s",
}
ABLATION = {  # figure 2 of maddock2024: the penalty, and with it filtering and combining
    "NaiveFLAIM": look("NaiveFLAIM"),
    "AugFLAIM (Oracle)": look("AugFLAIM (Oracle)"),
    "true skew, filter and combine": Look(SKY, "h", (0, (3, 1))),
    "private skew only": Look(GREEN, "X", ":"),
    "AugFLAIM (Private)": look("AugFLAIM (Private)"),
}


@dataclass(frozen=True)
class Panel:
    """Which rows one panel shows, and against what.

    x: numeric column. Rows in which it is missing make horizontal dashed lines: a run without such
        a value, as one that ends its rounds by itself, or a central one where clients are swept.
    where: column -> the value, or collection of values, that the panel's rows have.
    log: a logarithmic axis of x. flat: what the horizontal lines are, for the legend.
    """

    title: str
    x: str
    where: Mapping[str, Any] = field(default_factory=dict)
    metric: str = "workload_error"
    log: bool = False
    flat: str = ""
    x_label: str = ""  # instead of that in X_LABELS


def sweep_panels(
    rows: pd.DataFrame,
    panels: Sequence[Panel],
    *,
    looks: Collection[str] | Mapping[str, Look],
    line: str = "method",
    shade: str | None = None,
    columns: int = 3,
    share_y: bool = False,
) -> Figure:
    """A curve for each name in `looks`: mean of `value` over seeds, with a band of two standard
    errors.

    rows: tidy, with the swept parameter in a numeric column. line: column of the curves' names;
    names that are methods need no look. shade: numeric column that splits a curve; its smallest
    value has the method's own look, larger ones are paler, with markers half filled, and the
    largest hollow. columns: panels beside each other; a single one makes a figure as wide as a
    column of text.
    """
    looks = looks if isinstance(looks, Mapping) else {name: look(name) for name in looks}
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
    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    width = FULL_WIDTH if columns > 1 else COLUMN_WIDTH
    fig, axes = plt.subplots(lines, columns, figsize=(width, 2), sharey=share_y, squeeze=False)
    entries = _legend(fig, _handles(panels, {name: looks[name] for name in drawn}, shade, levels))
    fig.set_figheight(0.5 + 0.16 * entries + 1.8 * lines)  # footer, legend, panels
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for number, (ax, panel, part) in enumerate(zip(axes.flat, panels, shown, strict=False)):
        for name in drawn:
            mine = part[part[line] == name]
            split = [(level, mine[mine[shade].fillna(levels[0]) == level]) for level in levels] or [
                (None, mine)
            ]
            for step, (level, these) in enumerate(split):
                label = name if level is None else f"{name}, {shade}={level:g}"
                _curve(ax, these, panel, looks[name], step / max(1, len(levels) - 1), label)
        _axis(ax, panel, part[panel.x])
        first = number % columns == 0 or panels[number - 1].metric != panel.metric
        ax.set_ylabel(
            re.sub(r" (?=\()|(?<=,) ", "\n", pretty(panel.metric), count=1) if first else ""
        )
    return fig


def repeats(rows: pd.DataFrame) -> str:
    """How many seeds stand behind the points, for a figure's note: `10`, or `3 to 10`."""
    counts = rows.groupby(KEYS, dropna=False)["seed"].nunique()
    return " to ".join(map(str, sorted({counts.min(), counts.max()})))


def _legend(fig: Figure, handles: list[plt.Line2D]) -> int:
    """Put the legend above the panels, in at most four columns that fit into the width; how many
    lines it has."""
    for beside in (4, 3, 2, 1):
        entries = -(-len(handles) // beside)
        columns = -(-len(handles) // entries)
        legend = fig.legend(
            handles=handles, loc="outside upper center", ncols=columns, handlelength=3
        )
        if beside == 1 or legend.get_window_extent().width <= fig.bbox.width:
            break
        legend.remove()
    return entries


def _handles(
    panels: Sequence[Panel], looks: Mapping[str, Look], shade: str | None, levels: Sequence[float]
) -> list[plt.Line2D]:
    """The legend: names, then shades in grey, then what the horizontal lines are."""
    handles = [_handle(style, 0.0, name) for name, style in looks.items()]
    handles += [
        _handle(
            Look(GREY, "o"),
            step / max(1, len(levels) - 1),
            f"{X_LABELS.get(shade, shade)} = {level:g}",
        )
        for step, level in enumerate(levels)
    ]
    if flats := dict.fromkeys(panel.flat for panel in panels if panel.flat):
        handles.append(
            plt.Line2D([], [], color=GREY, linestyle=FLAT, linewidth=0.9, label=" / ".join(flats))
        )
    return handles


def _rows_of(
    panel: Panel, rows: pd.DataFrame, by: list[str], looks: Mapping[str, Look]
) -> pd.DataFrame:
    """The rows of one panel, once it is sure that those averaged differ in nothing but the seed."""
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
    ax: Axes, rows: pd.DataFrame, panel: Panel, style: Look, pale: float, label: str
) -> None:
    """Curve and band over x, and a horizontal line, ending in the method's marker, for rows without
    x."""
    shape = _shape(style, pale)
    colour = shape["color"]
    swept = rows.groupby(panel.x)["value"].agg(["mean", "sem"])
    if len(swept):
        ax.plot(swept.index, swept["mean"], label=label, **shape)
        error = 2 * swept["sem"].fillna(0)  # a single seed has no band
        ax.fill_between(
            swept.index,
            swept["mean"] - error,
            swept["mean"] + error,
            color=colour,
            alpha=0.18,
            linewidth=0,
        )
    flat = rows.loc[rows[panel.x].isna(), "value"]
    if len(flat):
        ax.axhline(flat.mean(), color=colour, linestyle=FLAT, linewidth=0.9, label=f"{label}, flat")
        error = 2 * flat.sem() if len(flat) > 1 else 0
        shape |= {
            "linestyle": "",
            "fillstyle": "full",
            "markerfacecolor": "white",
            "markeredgecolor": colour,
        }
        shape |= {"markeredgewidth": 1.0, "elinewidth": 0.8}
        ax.errorbar(
            1.03, flat.mean(), error, transform=ax.get_yaxis_transform(), clip_on=False, **shape
        )


def _shape(style: Look, pale: float) -> dict[str, Any]:
    """Line and marker; pale: 0 is the look itself, 1 the palest, with a hollow marker."""
    colour = np.array(to_rgb(style.colour))
    fill = "full" if pale == 0 else "none" if pale == 1 else "left"
    shape = {
        "marker": style.marker,
        "linestyle": style.line,
        "fillstyle": fill,
        "markerfacecoloralt": "white",
    }
    # a light rim, so that one marker on another is seen
    if fill == "full" and style.marker not in "x+":
        shape |= {"markeredgecolor": "white", "markeredgewidth": 0.4, "markersize": 5}
    return {"color": tuple(colour + 0.5 * pale * (1 - colour)), **shape}


def _handle(style: Look, pale: float, label: str) -> plt.Line2D:
    return plt.Line2D([], [], label=label, **_shape(style, pale))


def _axis(ax: Axes, panel: Panel, values: pd.Series) -> None:
    """Title, label, scale, and ticks at swept values that are far enough from each other to be
    read."""
    ax.set(
        title=pretty(panel.title),
        xlabel=panel.x_label or X_LABELS.get(panel.x, panel.x.replace("_", " ")),
    )
    if panel.log:
        ax.set_xscale("log")
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
