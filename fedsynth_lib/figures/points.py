"""Points and boxes by group: means with an interval, every value, or quartiles."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import style
from fedsynth_lib.figures.style import FEWEST_IN_BAND, FEWEST_IN_BOX, FULL_WIDTH, GREY, Look
from fedsynth_lib.metrics.registry import MEASURES, axis_label, sign
from fedsynth_lib.runs.names import partition_name, with_table_names

CLOSE = 0.25  # of the distance of two groups: how far apart the hues of one are at most
RANGE = ("pi", 100)  # from the smallest to the largest
TWO_ERRORS = ("se", 2)
REFERENCES = ("-", "--", ":", "-.")


def points(
    rows: pd.DataFrame,
    *,
    by: str,
    hue: str,
    panel: str = "metric",
    panels: Sequence[str] = (),
    looks: Mapping[str, Look] | None = None,
    order: Mapping[Any, str] | None = None,
    across: bool = True,
    joined: bool = False,
    dodge: float = 0.7,
    interval: tuple[str, float] | None = RANGE,
    centre: str = "mean",
    every: bool = False,
    references: pd.DataFrame | None = None,
    columns: int = 3,
    height: float = 2.0,
    share: bool = False,
    value: str = "",
) -> Figure:
    """Values by group: a panel for each value of `panel`, a mark for each `hue` at each `by`.

    rows: tidy, with `value`. panels: which, in their order; all without it. looks: of each hue, in
        the order of the legend; without them the looks of style. order: what stands along the axis,
        with its names; what has no rows is left out. across: groups lie side by side, or else below
        each other. joined: the marks of a hue are joined by its line. dodge: from the first hue of
        a group to the last, at most; neighbours are at most CLOSE apart.
    interval: what a bar spans: RANGE, TWO_ERRORS, or nothing; of fewer than FEWEST_IN_BAND rows the
        rows are drawn as dots in place of standard errors. centre: `mean`, `median`, or `rms`,
        the root of the mean square. every: a dot for each row, and a dash at the centre.
    references: rows of the same panels in `line`, drawn as grey lines at their means.
    share: one axis of values for all panels. value: its name, where panels are no measures.
    Raises BadInput where there is nothing to draw.
    """
    if panels:
        rows = rows[rows[panel].isin(list(panels))]
    looks = dict(looks or style.looks(dict.fromkeys(rows[hue])))
    if not joined:
        looks = {name: replace(look, line="") for name, look in looks.items()}
    order = dict(order or {name: style.title(by, name) for name in dict.fromkeys(rows[by])})
    rows = rows[rows[hue].isin(list(looks)) & rows[by].isin(list(order))]
    order = {name: text for name, text in order.items() if (rows[by] == name).any()}
    rows = rows.assign(place=rows[by].map(order))  # by name, whatever kind of value it is
    if rows.empty:
        raise BadInput(f"there are no rows to draw by {by} and {hue}: run their cells first.")
    names = [name for name in panels or dict.fromkeys(rows[panel]) if (rows[panel] == name).any()]
    beside = 0.0 if by == hue or len(looks) == 1 else min(dodge, CLOSE * (len(looks) - 1))
    axis = "y" if across else "x"
    shared = {f"share{axis}": share, f"share{'x' if across else 'y'}": True}
    fig, axes = style.panels(len(names), columns, height=height, **shared)
    for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
        here = rows[rows[panel] == name]
        _marks(ax, here, hue, looks, list(order.values()), beside, across, interval, centre, every)
        if references is not None:
            level = references[references[panel] == name].groupby("line", sort=False)["value"]
            for (_, mean), line in zip(level.mean().items(), REFERENCES, strict=False):
                draw = ax.axhline if across else ax.axvline
                draw(mean, color=GREY, linestyle=line, linewidth=0.9, zorder=0)
        ax.set_title(style.wrapped(style.title(panel, name), 78 // min(columns, len(names))))
        if columns > 3:
            ax.title.set_fontsize(7)
            ax.tick_params(labelsize=6)
        outer = any(text.get_visible() for text in ax.get_xticklabels())
        ax.set_xlabel(style.SWEPT.get(by, "") if across else value, visible=outer)
        ax.set_ylabel(value if across and number % columns == 0 else "")
        ticks = list(order.values())
        ends = (-0.5, len(ticks) - 0.5)
        ax.set(**{"xlim": ends} if across else {"ylim": ends[::-1]})
        if across:
            turned = {"rotation": 30, "ha": "right"} if max(map(len, ticks)) > 8 else {}
            ax.set_xticks(range(len(ticks)), ticks, **turned)
        else:
            ax.set_yticks(range(len(ticks)), ticks)
    entries = [] if by == hue else [style.handle(look, name) for name, look in looks.items()]
    if references is not None:
        for name, line in zip(dict.fromkeys(references["line"]), REFERENCES, strict=False):
            entries.append(Line2D([], [], color=GREY, linestyle=line, label=name))
    if entries:
        style.legend(fig, entries)
    return fig


def _marks(
    ax: Axes,
    rows: pd.DataFrame,
    hue: str,
    looks: Mapping[str, Look],
    order: list[str],
    beside: float,
    across: bool,
    interval: tuple[str, float] | None,
    centre: str,
    every: bool,
) -> None:
    """Draw the marks of one panel; hollow where they are published.

    beside: from the first hue to the last.
    """
    moved = {
        name: beside * (number / max(1, len(looks) - 1) - 0.5) for number, name in enumerate(looks)
    }

    def spots(among: pd.DataFrame, name: str) -> tuple[pd.Series, pd.Series]:
        own = among[among[hue] == name]
        spot = own["place"].map(order.index) + moved[name]
        return (spot, own["value"]) if across else (own["value"], spot)

    if every:
        for name, look in looks.items():
            shape = style.mark(look, linestyle="", markersize=3.5, alpha=0.7)
            ax.plot(*spots(rows, name), **shape)
        looks = {
            name: Look(look.colour, "_" if across else "|", "none") for name, look in looks.items()
        }
    elif interval and interval[0] == "se":
        size = rows.groupby(["place", hue])["value"].transform("size")
        few = rows[size.gt(1) & size.lt(FEWEST_IN_BAND)]
        for name, look in looks.items():
            style.dots(ax, *spots(few, name), look)
    spans = None if every or not interval else _spans(*interval)
    ax.grid(False, axis="x" if across else "y")  # of the groups
    for name, look in looks.items():
        own = rows[(rows[hue] == name) & rows["value"].notna()]
        middle, bars = np.full(len(order), np.nan), []
        for place, values in own.groupby("place")["value"]:
            at = order.index(place)
            rms = centre == "rms"
            middle[at] = np.sqrt(np.mean(values**2)) if rms else values.agg(centre)
            if spans and len(values) > 1:
                bars.append([(at + moved[name], end) for end in spans(values)])
        shape = {"color": look.colour, "linewidth": 0.9}
        marks = {"marker": look.marker, "linestyle": look.line or "none"}
        marks |= {"markersize": 10 if every else 4, "markeredgewidth": 0.675}
        if look.published:
            marks["markerfacecolor"] = "white"
        line = np.column_stack([np.arange(len(order)) + moved[name], middle])
        for drawn, more in ((line, marks), *((bar, {}) for bar in bars)):
            x, y = np.transpose(drawn)
            ax.plot(*(x, y) if across else (y, x), **shape, **more)


def _spans(kind: str, level: float) -> Callable[[pd.Series], tuple[float, float]]:
    """Return what gives the ends of a bar: `pi` (percentiles), `se` or `sd`.

    The latter two have none for fewer than FEWEST_IN_BAND values.
    """

    def ends(values: pd.Series) -> tuple[float, float]:
        if kind == "pi":
            return tuple(np.percentile(values, [50 - level / 2, 50 + level / 2]))
        if len(values) < FEWEST_IN_BAND:
            return np.nan, np.nan
        half = level * (values.sem() if kind == "se" else values.std())
        return values.mean() - half, values.mean() + half

    return ends


def lines(
    rows: pd.DataFrame,
    x: str,
    y: str,
    *,
    line: str,
    panel: str,
    looks: Mapping[str, Look],
    levels: Mapping[str, float] | None = None,
    share_y: bool = False,
) -> Figure:
    """Draw means of `y` over repeats with one standard deviation, of two repeats with both.

    There is a line for each name in `looks`, and a panel for each `panel`.

    rows: tidy; rows that agree in x, line and panel are repeats. Up to 12 values of x stand evenly
    spaced with error bars, an infinite one as 'none' (no noise); more of them lie on a scale, with
    bands. levels: panel -> a value to compare with, a grey line.
    """
    names, values = list(dict.fromkeys(rows[panel])), np.sort(rows[x].unique())
    few = len(values) <= 12
    fig, axes = style.panels(len(names), len(names), height=2.2, sharey=share_y)
    for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
        for label, look in looks.items():
            own = rows[(rows[panel] == name) & (rows[line] == label)]
            at = np.searchsorted(values, own[x]) if few else own[x]
            shape = {"color": look.colour, "linestyle": look.line, "ax": ax}
            shape["errorbar"] = _spans("sd", 1)
            shape |= {"marker": look.marker, "err_style": "bars"} if few else {}
            sns.lineplot(x=at, y=own[y], **shape)
            runs = own.groupby(x)[y].transform("size")
            alone = (runs.gt(1) & runs.lt(FEWEST_IN_BAND)).to_numpy()
            if alone.any():
                style.dots(ax, np.asarray(at)[alone], own.loc[alone, y], look)
        if levels and name in levels:
            ax.axhline(levels[name], color=GREY, linestyle="-.")
        if few:
            ticks = ["none" if np.isinf(value) else f"{value:g}" for value in values]
            ax.set_xticks(range(len(values)), ticks)
        measured = axis_label(name) if name in MEASURES else partition_name(name)
        ax.set(title=measured, xlabel=x, ylabel=y if share_y and number == 0 else "")
    style.legend(fig, [style.handle(look, label) for label, look in looks.items()])
    return fig


def slopes(
    tables: Mapping[str, pd.DataFrame],
    metrics: Mapping[str, str],
    *,
    by: str,
    order: Mapping[str, str],
    line: str,
    looks: Mapping[str, Look],
) -> Figure:
    """Draw means with two standard errors from one value of `by` to the next.

    Of two runs both are drawn. There is a line for each name in `looks`, a line of panels for each
    table, and a panel for each measure, on one scale.

    metrics, order: with their names.
    """
    shape, places = (len(tables), len(metrics)), range(len(order))
    size = (FULL_WIDTH, 1.8 * len(tables))
    fig, axes = plt.subplots(*shape, figsize=size, sharex=True, sharey="col", squeeze=False)
    for beside, (title, rows) in zip(axes, tables.items(), strict=True):
        for ax, metric in zip(beside, metrics, strict=True):
            for name, look in looks.items():
                every = rows[(rows[line] == name) & (rows["metric"] == metric)]
                own = every.groupby(by)["value"]
                own = own.agg(["mean", "sem", "size"]).reindex(list(order))
                few = every[by].map(own["size"].between(2, FEWEST_IN_BAND - 1)).eq(True)
                style.dots(
                    ax, every.loc[few, by].map(list(order).index), every.loc[few, "value"], look
                )
                shape = {"color": look.colour, "marker": look.marker, "linestyle": look.line}
                error = 2 * own["sem"].where(own["size"] >= FEWEST_IN_BAND, 0)
                ax.errorbar(places, own["mean"], error, elinewidth=0.8, label=name, **shape)
            ax.set(xticks=places, xticklabels=order.values(), xlim=(-0.3, len(order) - 0.7))
            ax.tick_params(axis="y", labelsize=7)
        beside[0].set_ylabel(with_table_names(title))
    for ax in axes[-1]:
        ax.set_xlabel(style.SWEPT.get(by, ""))
    for ax, label in zip(axes[0], metrics.values(), strict=True):
        ax.set_title(label)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return fig


def boxes(
    rows: pd.DataFrame,
    *,
    by: str,
    panel: str,
    hue: str = "method",
    order: Mapping[str, str],
    real: pd.DataFrame,
    guess: Mapping[str, float],
    value: str,
) -> Figure:
    """Draw quartiles, extremes (whiskers) and median (marker) over runs.

    There is a panel for each `panel`, two in a line. Of fewer than FEWEST_IN_BOX runs, each has a
    marker.

    rows: tidy; those that agree in by, panel and hue are runs. order: what stands along the axis,
    with its names. real: rows of the same panels, drawn as a dashed line at their median. guess:
    panel -> the value without looking at a row, a dotted line. Raises BadInput where rows are
    missing or mix settings.
    """
    keys = [by, panel, hue, "seed"]
    if rows.empty or rows.duplicated(keys).any():
        raise BadInput(f"rows to draw are missing, or several agree in {', '.join(keys)}.")
    looks = style.looks(dict.fromkeys(rows[hue]))
    names = list(dict.fromkeys(rows[panel]))
    fig, axes = style.panels(len(names), 2, height=1.75)
    shape = {"x": by, "y": "value", "hue": hue, "order": list(order), "hue_order": list(looks)}
    shape |= {"palette": {name: look.colour for name, look in looks.items()}, "legend": False}
    for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
        here, dodge = rows[rows[panel] == name], 0.8 * (1 - 1 / len(looks))
        with warnings.catch_warnings():  # of an argument that seaborn hands to matplotlib
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            many = here.groupby([by, hue])["value"].transform("size") >= FEWEST_IN_BOX
            if many.any():
                boxed = here.assign(value=here["value"].where(many))
                box = {"whis": (0, 100), "fill": False, "linewidth": 0.8, "gap": 0.2}
                sns.boxplot(boxed, ax=ax, **box, **shape)
        for beside, (own, look) in enumerate(looks.items()):
            chosen = here[hue] == own
            alone = here[chosen & ~many]
            middle = here[chosen & many].groupby(by)["value"].median().reset_index()
            for drawn, mark in ((middle, {"markersize": 4.5}), (alone, {"markersize": 3.5})):
                spot = drawn[by].map(list(order).index).astype(float)
                spot += dodge * (beside / max(1, len(looks) - 1) - 0.5)
                ax.plot(spot, drawn["value"], **style.mark(look, linestyle="", **mark))
        for spot, level in enumerate(order):
            known = real.loc[(real[panel] == name) & (real[by] == level), "value"]
            if len(known):
                ends = [spot - 0.45, spot + 0.45]
                ax.plot(ends, 2 * [known.median()], color="black", linestyle="--", linewidth=1)
        if name in guess:
            ax.axhline(guess[name], color=GREY, linestyle=":", linewidth=1)
        ax.set(title=with_table_names(name), xlabel="", ylabel=value if number % 2 == 0 else "")
        ax.set_xticks(range(len(order)), list(order.values()))
        ax.set_xlim(-0.5, len(order) - 0.5)
    entries = [style.handle(look, name, linestyle="") for name, look in looks.items()]
    entries.append(Line2D([], [], color="black", linestyle="--", label="trained on real rows"))
    entries.append(
        Line2D([], [], color=GREY, linestyle=":", label="always the most frequent class")
    )
    style.legend(fig, entries)
    return fig


def ranked(
    rows: pd.DataFrame,
    metric: str,
    *,
    groups: Mapping[str, str],
    looks: Mapping[str, Look],
    half: Callable[[pd.Series], float],
) -> Figure:
    """Values of one measure in groups between which no rank holds: a panel for each, best on top.

    rows: tidy, with `group`, `line` (what a mark stands for), `published` (bool) and `value`; those
        that agree are runs, of which the mean is drawn, and a bar to either side as long as `half`
        says of their values; none where that is missing. What is published is hollow, in the line
        of the same name. groups: with their titles, from top to bottom. looks: of each line.
    """
    found = {}
    for group in groups:
        own = rows[rows["group"] == group]
        spans = own.groupby(["line", "published"])["value"].agg(mean="mean", half=half)
        first = spans.reset_index().drop_duplicates("line").set_index("line")["mean"]
        found[group] = spans, list((-sign(metric) * first).sort_values(kind="stable").index)
    heights = [len(order) for _, order in found.values()]
    size, shape = (FULL_WIDTH, 0.6 + 0.17 * sum(heights) + 0.35 * len(groups)), {"sharex": True}
    shape |= {"height_ratios": heights, "squeeze": False}
    fig, axes = plt.subplots(len(groups), 1, figsize=size, **shape)
    for ax, (group, (spans, order)) in zip(axes[:, 0], found.items(), strict=True):
        for (line, published), span in spans.iterrows():
            place, style_of = order.index(line), replace(looks[line], published=published, line="")
            ends = span["mean"] - span["half"], span["mean"] + span["half"]
            ax.plot(ends, [place] * 2, color=style_of.colour, linewidth=0.9)
            ax.plot(span["mean"], place, **style.mark(style_of, markersize=5))
        ax.set_yticks(range(len(order)), order)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.set_title(groups[group], loc="left", fontsize=8, weight="bold")
    axes[-1, 0].set_xlabel(axis_label(metric))
    if rows["published"].any():
        marks = {"run by us": False, "published": True}
        entries = [(Look(GREY, "o", "", published=hollow), name) for name, hollow in marks.items()]
        style.legend(fig, [style.handle(*entry) for entry in entries])
    return fig
