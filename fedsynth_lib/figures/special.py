"""The pictures that no other serves: networks, searches, maps of rows, audits, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import MaxNLocator, NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import style
from fedsynth_lib.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREY,
    ORANGE,
    SKY,
    VERMILLION,
    Look,
)
from fedsynth_lib.printed.outcomes import COUNTED, OUTCOMES, STATES
from fedsynth_lib.runs.names import method_name

# --- networks ------------------------------------------------------------------------------------


def network(graph: Any, strength: pd.DataFrame) -> Figure:
    """Draw a directed acyclic graph from top to bottom, every node below its lowest parent.

    graph: a networkx DiGraph (a pgmpy network is one). strength: square frame over the nodes; the
    stronger a pair, the wider its line.
    """
    import networkx  # comes with pgmpy; slow to import, needed here only

    place: dict = {}
    for depth, group in enumerate(networkx.topological_generations(graph)):
        centre = {
            node: np.mean([place[parent][0] for parent in graph.predecessors(node)] or [0])
            for node in group
        }
        for spot, node in enumerate(sorted(group, key=lambda node: (centre[node], str(node)))):
            # or a line that skips levels would run behind a node in between
            sideways = 0.5 * np.cos(2.4 * depth)
            place[node] = (spot - (len(group) - 1) / 2 + sideways, -depth)
    width = np.array([strength.loc[edge] for edge in graph.edges], float)
    fig, ax = plt.subplots(figsize=(FULL_WIDTH, 1.2 + 0.55 * depth))
    shape = {
        "node_color": "none",
        "node_size": 500,
        "font_size": 8,
        "edge_color": BLUE,
        "arrowsize": 9,
    }
    # lines run behind names
    label = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
    width = 0.5 + 3 * width / max(width.max(initial=0), 1e-12)
    networkx.draw_networkx(
        graph, place, ax=ax, width=width, connectionstyle="arc3,rad=0.08", bbox=label, **shape
    )
    ax.set_axis_off()
    ax.margins(x=0.1, y=0.08)
    return fig


# --- rows as clouds of points --------------------------------------------------------------------


class Cloud(NamedTuple):
    """Points of one panel.

    points: (rows, 2). values: (rows,), on the colour map `colours`; without them `colours` is one
    colour. area: of a dot, one for all or (rows,).
    """

    points: np.ndarray
    colours: str
    values: np.ndarray | None = None
    area: np.ndarray | float = 0.4


def squares(rows: pd.DataFrame) -> pd.DataFrame:
    """Read the squares of a map: index column and row, a column for each measure.

    rows: tidy; `item` is `column row`, and of a mean `column row name`.
    """
    parts = rows["item"].str.split(" ", n=2, expand=True).reindex(columns=range(3)).fillna("")
    of = (rows["metric"] + " " + parts[2]).str.strip()
    named = rows.assign(column=parts[0].astype(int), row=parts[1].astype(int), of=of)
    return named.pivot(index=["column", "row"], columns="of", values="value")


def cloud(rows: pd.DataFrame, colour: str) -> Cloud:
    """Return the squares of a map in one colour, by their share of rows."""
    wide = squares(rows)
    return Cloud(wide.index.to_frame().to_numpy(), colour, area=2000 * wide["map_share"])


def clouds(
    panels: Mapping[str, Sequence[Cloud]],
    *,
    bars: Sequence[str] = (),
    axes: tuple[str, str] | None = None,
) -> Figure:
    """Scatter panels side by side on one scale: title -> clouds, the last one in front.

    Dots are drawn in random order, so that no group lies on top. bars: titles of panels with a
    colour bar. axes: labels of both axes; without them there are none, as the places of an
    embedding mean nothing.
    """
    shape = {"figsize": (FULL_WIDTH, 2.1), "sharex": True, "sharey": True, "squeeze": False}
    fig, places = plt.subplots(1, len(panels), **shape)
    for ax, (title, layers) in zip(places[0], panels.items(), strict=True):
        for points, colours, values, area in layers:
            order = np.random.default_rng(0).permutation(len(points))
            area = area if np.isscalar(area) else np.asarray(area)[order]
            if values is None:
                colour = {"color": colours, "alpha": 0.6}
            else:
                colour = {"c": np.asarray(values)[order], "cmap": colours}
            dots = ax.scatter(*points[order].T, area, linewidths=0, rasterized=True, **colour)
        ax.set_title(title)
        if axes is None:
            ax.set_axis_off()
        else:
            ax.set_xlabel(axes[0])
        if title in bars:
            fig.colorbar(dots, ax=ax, orientation="horizontal", shrink=0.9)
    if axes is not None:
        places[0, 0].set_ylabel(axes[1])
    return fig


# --- budgets -------------------------------------------------------------------------------------


def beside_exact(
    claims: tuple[pd.DataFrame, pd.DataFrame],
    exact: str,
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    *,
    style: Sequence[str],
    above: bool = False,
) -> Figure:
    """Draw what theorems claim by releases, and their ratios to the column `exact`.

    claims: (releases, theorems), of either panel. left, right: what `DataFrame.plot` takes beside.
    above: the legend stands over the panels, not in the left one. A logarithmic axis of ratios has
        plain numbers.
    """
    fig, axes = plt.subplots(1, 2, figsize=(FULL_WIDTH, 2.7))
    look = {"style": style, "xlabel": "releases"}
    claims[0].plot(ax=axes[0], legend=not above, **look, **left)
    claims[1].div(claims[1][exact], axis=0).plot(ax=axes[1], legend=False, **look, **right)
    if axes[1].get_yscale() == "log":
        axes[1].set_yticks([1, 10, 100], ["1", "10", "100"])
    if above:
        names = axes[0].get_legend_handles_labels()
        fig.legend(*names, loc="outside upper center", ncols=len(style))
    return fig


# --- audits and attacks --------------------------------------------------------------------------

CONTROL = "x"  # marker of runs with too little noise or none


def lower_bounds(lines: pd.DataFrame) -> Figure:
    """For each method (a row) the lower bound, and the control's, as shares of the claim.

    lines: columns method, epsilon, lower and control.
    """
    fig, ax = plt.subplots(figsize=(FULL_WIDTH, 0.5 + 0.26 * len(lines)))
    places = np.arange(len(lines))[::-1]
    for place, line in zip(places, lines.itertuples(), strict=True):
        look = style.look(line.method)
        lower, control = line.lower / line.epsilon, line.control / line.epsilon
        ax.plot([0, lower], [place, place], color=look.colour, linewidth=2)
        ax.plot(lower, place, look.marker, color=look.colour, markersize=6)
        ax.plot(control, place, CONTROL, color=look.colour, markersize=6, markeredgewidth=1.5)
    ax.axvline(1, color=GREY, linestyle=":")
    levels = zip(lines["method"].map(method_name), lines["epsilon"], strict=True)
    ax.set_yticks(places, [f"{name}, ε = {epsilon:g}" for name, epsilon in levels])
    ax.set(xlim=(0, None), ylim=(-0.6, len(lines) - 0.4))
    ax.set_xlabel("lower bound, as a share of the claimed epsilon")
    dot, dots = Look(GREY, "o", ""), Line2D([], [], color=GREY, linestyle=":", label="the claim")
    control = style.handle(replace(dot, marker=CONTROL), "0.3 times the noise")
    style.legend(fig, [style.handle(dot, "as calibrated"), control, dots])
    return fig


def strongest_attacks(lines: pd.DataFrame, known: Sequence[str]) -> Figure:
    """Draw what the strongest attack on each method shows.

    These are the bound on epsilon, and the true positive rate at 1 percent false alarms.

    lines: index method and epsilon, and the measures of one attack. known: names of rows that no
    method made, drawn grey. Crosses: without noise, or as little as was tried.
    Dashed: the claim, and guessing.
    """
    methods = list(dict.fromkeys(lines.index.get_level_values("method")))
    size = (FULL_WIDTH, 1.1 + 0.3 * len(methods))
    fig, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True)
    for place, method in enumerate(reversed(methods)):
        own = lines.loc[method].sort_index()
        look = Look(GREY, "d") if method in known else style.look(method)
        form = {"marker": look.marker, "color": look.colour, "ms": 5, "linestyle": ""}
        form |= {"clip_on": False, "zorder": 3}
        for number, (epsilon, line) in enumerate(own.iterrows()):
            form["marker"] = look.marker if epsilon <= 1 else CONTROL
            spot = place + (0.14 - 0.28 * number if len(own) > 1 else 0)
            left.plot(line["epsilon_bound"], spot, **form)
            left.plot(line["epsilon_ceiling"], spot, marker="|", color=GREY, ms=5, linestyle="")
            caught = line["attack_tpr1"]
            reach = [[caught - line["attack_tpr1_low"]], [line["attack_tpr1_high"] - caught]]
            right.errorbar(caught, spot, xerr=reach, elinewidth=1, **form)
    left.axvline(1, color=GREY, linestyle="--", linewidth=0.9)
    right.axvline(0.01, color=GREY, linestyle="--", linewidth=0.9)
    left.set_yticks(range(len(methods)), reversed(methods))
    left.set(xlabel="ε is at least (95 % confidence)", xlim=(0, None))
    right.set_xlabel("caught at 1 % false alarms (share, 95 %)")
    right.set_xscale("symlog", linthresh=0.01)
    right.set_xlim(0, 1.05)
    right.set_xticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    right.minorticks_off()
    dot = Look(BLACK, "o", "")
    entries = [style.handle(dot, "ε = 1")]
    without = replace(dot, marker=CONTROL)
    entries.append(style.handle(without, "without noise (AIM, FLAIM: ε = 10)"))
    entries.append(Line2D([], [], color=GREY, linestyle="--", label="claimed ε = 1; guessing"))
    entries.append(style.handle(Look(GREY, "|", ""), "most that can be shown"))
    style.legend(fig, entries)
    return fig


# --- searches ------------------------------------------------------------------------------------

SCORE = "log_cluster"  # of a configuration; lower is better
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
    """Draw an axis for each hyper-parameter, the last one the score, a panel for each dataset.

    tables: dataset -> a line per configuration with a column per hyper-parameter, the score, and
        where scores are means over splits their `std` and number `splits`. grids: dataset ->
        parameter -> candidates, in the order of axes. printed: dataset -> the setting chosen in
        print, highlighted where it was tried.
    The best configuration is thick, with two standard errors of its mean where there are several
    splits. Raises BadInput for a table that lacks a column, or a value that is not in its grid.
    """
    if not tables:
        raise BadInput("tables is empty: give the configurations of at least one dataset.")
    fig, axes = style.panels(len(tables), 1, height=1.75)
    chosen = False
    for ax, (dataset, table) in zip(axes, tables.items(), strict=True):
        grid = grids[dataset]
        heights = _heights(dataset, table, grid)
        scores = table[SCORE].to_numpy()
        margin = 0.06 * np.ptp(scores) or 0.5
        scale = Normalize(scores.min() - margin, scores.max() + margin)
        paths = np.column_stack([heights, scale(scores)])  # (configurations, axes)
        shade = Normalize(scores.min(), scores.max())
        for row in np.argsort(-scores, kind="stable"):  # the best lie on top
            colour = SHADES(PALEST * float(shade(scores[row])))
            ax.plot(paths[row], color=colour, linewidth=0.8, alpha=0.9)
        chosen |= _chosen(ax, table, paths, (printed or {}).get(dataset))
        _best(ax, table, paths, scale)
        _parameter_axes(ax, grid, scale)
        best = f"best {scores.min():.2f}"
        ax.set_title(f"{dataset}: {len(table)} configurations, {best}", loc="left")
        names = [name.replace("_", "\n") for name in grid] + [SCORE.replace("_", "-\n")]
        ax.set_xticks(range(len(names)), names if ax is axes[-1] else [""] * len(names))
    entries = [Line2D([], [], color=VERMILLION, linewidth=2.2, marker="o", label="best of ours")]
    if chosen:
        dashed = {"color": BLACK, "linewidth": 1.4, "linestyle": "--"}
        entries.append(Line2D([], [], label="chosen in the work", **dashed))
    style.legend(fig, entries)
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
            wrong = table.loc[places.isna(), name].iloc[0]
            raise BadInput(f"{dataset}: {name} is {wrong}, which is not in its grid.")
        order = table[SCORE].groupby(places).rank(method="first")
        count = places.map(places.value_counts())
        heights[:, axis] = (places + FAN * ((order - 0.5) / count - 0.5) + 0.5) / len(candidates)
    return heights


RIM = [Stroke(linewidth=3.6, foreground="white"), Normal()]


def _chosen(
    ax: Axes, table: pd.DataFrame, paths: np.ndarray, setting: Mapping[str, object] | None
) -> bool:
    """Draw the published configuration; return whether it was tried."""
    if setting is None:
        return False
    tried = np.flatnonzero(
        np.all([table[name] == value for name, value in setting.items()], axis=0)
    )
    for row in tried[:1]:
        dashed = {"color": BLACK, "linewidth": 1.4, "linestyle": "--", "path_effects": RIM}
        ax.plot(paths[row], zorder=4, clip_on=False, **dashed)
    return len(tried) > 0


def _best(ax: Axes, table: pd.DataFrame, paths: np.ndarray, scale: Normalize) -> None:
    """Draw the best configuration, and the error of its score."""
    best, last = int(table[SCORE].to_numpy().argmin()), paths.shape[1] - 1
    thick = {"color": VERMILLION, "linewidth": 2.2, "marker": "o", "markersize": 4}
    ax.plot(paths[best], zorder=4, clip_on=False, path_effects=RIM, **thick)
    if "splits" in table and table["splits"].iloc[best] > 1:
        error = 2 * table["std"].iloc[best] / np.sqrt(table["splits"].iloc[best])
        ends = np.clip(scale(table[SCORE].iloc[best] + np.array([-error, error])), 0, 1)
        ax.plot([last, last], ends, color=VERMILLION, linewidth=3, alpha=0.5, zorder=3)


def _parameter_axes(ax: Axes, grid: Mapping[str, Sequence], scale: Normalize) -> None:
    """Each parameter's axis with its candidates, and that of the scores at the right."""
    ax.secondary_yaxis("right", functions=(scale.inverse, scale)).tick_params(labelsize=7)
    ax.set(xlim=(-0.35, len(grid)), ylim=(0, 1), yticks=[])
    ax.grid(False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
    frame = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
    for axis, candidates in enumerate(grid.values()):
        ax.axvline(axis, color=GREY, linewidth=0.6, zorder=0)
        for place, value in enumerate(candidates):
            text = value if isinstance(value, str) else f"{value:g}"
            at = (axis - 0.05, (place + 0.5) / len(candidates))
            ax.text(*at, text, ha="right", va="center", fontsize=7, bbox=frame, zorder=5)


def sensitivity_bars(
    tables: Mapping[str, pd.DataFrame], printed: Mapping[str, Mapping[str, int]] | None = None
) -> Figure:
    """Draw importance and correlation of every parameter, two panels for each dataset.

    tables: dataset -> a line per parameter (its index) with `importance` and `correlation` (-1 to
        1, NaN where there is none), and where known `chance` (importance without meaning, a dark
        mark), `low` and `high` (ends of an interval for the correlation). The most important stands
        on top.
    printed: dataset -> parameter -> place in the printed order of importance, in brackets beside
        the bar. Raises BadInput for a table that lacks a column.
    """
    if not tables:
        raise BadInput("tables is empty: give the importances of at least one dataset.")
    heights = [0.35 + 0.18 * len(table) for table in tables.values()]
    shape = {"height_ratios": heights, "sharex": "col", "squeeze": False}
    size = (FULL_WIDTH, 0.8 + sum(heights))
    fig, axes = plt.subplots(len(tables), 2, figsize=size, **shape)
    for (left, right), (dataset, table) in zip(axes, tables.items(), strict=True):
        if absent := [name for name in ("importance", "correlation") if name not in table]:
            raise BadInput(f"{dataset}: the table has no column {absent[0]!r}.")
        table = table.sort_values("importance")
        _importances(left, table, (printed or {}).get(dataset, {}))
        _correlations(right, table)
        left.set_title(dataset, loc="left")
        for ax in (left, right):  # grid lines across lying bars
            ax.grid(True, axis="x")
            ax.grid(False, axis="y")
            ax.tick_params(axis="y", length=0)
            ax.set_ylim(-0.6, len(table) - 0.4)
    known = pd.concat(tables.values()).reindex(columns=["importance", "chance"])
    axes[0, 0].set_xlim(0, 1.05 * known.max(axis=None))
    axes[-1, 0].set_xlabel("importance (share of all)")
    axes[-1, 1].set(xlabel="correlation with log-cluster (right: larger is worse)", xlim=(-1, 1))
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


def _correlations(ax: Axes, table: pd.DataFrame) -> None:
    spots, found = np.arange(len(table)), table["correlation"].to_numpy(float)
    for chosen, colour, hatch in ((found > 0, VERMILLION, ""), (found <= 0, SKY, "////")):
        shape = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        ax.barh(spots[chosen], found[chosen], height=0.7, **shape)
    if "low" in table:
        ax.hlines(spots, table["low"], table["high"], color=BLACK, linewidth=0.8)
    ax.axvline(0, color=BLACK, linewidth=0.6)
    ax.set_yticks(spots, [""] * len(spots))


# --- the verdict ---------------------------------------------------------------------------------

GOOD, FAIR, POOR, BAD = (BLUE, ""), (SKY, "//"), ("#F0C9A8", "...."), (VERMILLION, "xxx")
UNKNOWN, NOTHING, UNTOLD = ("#D5D5D5", ""), ("white", ""), ("#9A9A9A", "\\\\")
SOME = ("#BFE3D3", "||")
Shade = tuple[str, str]  # colour and hatch, distinguished in grey as well
PANELS: dict[str, dict[str, Shade]] = {
    "tables and figures": dict(zip(STATES, (GOOD, FAIR, UNKNOWN, NOTHING), strict=True)),
    "published values": dict(
        zip(COUNTED, (GOOD, FAIR, BAD, UNTOLD, POOR, SOME, UNKNOWN, NOTHING), strict=True)
    ),
    "claims": dict(zip(OUTCOMES, (GOOD, FAIR, SOME, BAD, UNTOLD, POOR, UNKNOWN), strict=True)),
}


def outcomes(counts: pd.DataFrame) -> Figure:
    """Draw a panel of stacked bars for each group of columns, with counts written in.

    Works go down, shares of each work across.

    counts: columns (group, name), among them `of`, all of a group.
    """
    size = (FULL_WIDTH, 1.5 + 0.32 * len(counts))
    fig, axes = plt.subplots(1, len(PANELS), figsize=size, sharey=True)
    edge = {"edgecolor": "#333333", "linewidth": 0.4}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    places = np.arange(len(counts))[::-1]
    for ax, (group, shades) in zip(axes, PANELS.items(), strict=True):
        own = counts[group].drop(columns="of")
        rest = counts[group, "of"] - own.sum(axis=1)  # what a group does not count
        left = np.zeros(len(counts))
        for name, (colour, hatch) in shades.items():
            numbers = own.get(name, rest).to_numpy(float)
            share = 100 * numbers / counts[group, "of"].clip(1).to_numpy(float)
            drawn = ax.barh(places, share, left=left, color=colour, hatch=hatch, **edge)
            texts = [
                f"{n:.0f}" if wide >= 9 else "" for n, wide in zip(numbers, share, strict=True)
            ]
            for text in ax.bar_label(drawn, texts, label_type="center", fontsize=6.5):
                text.set_bbox(box if text.get_text() else None)
            left += share
        ax.set(title=group, xlabel="percent", xlim=(0, 100))
        ax.grid(axis="y", visible=False)
        keys = [Patch(facecolor=c, hatch=h, label=name, **edge) for name, (c, h) in shades.items()]
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.3), "ncols": 2}
        ax.legend(handles=keys, fontsize=6, **below)
    axes[0].set_yticks(places, counts.index)
    return fig


# In the order in which they are drawn, so that what differs lies in front.
DEGREES = {
    "ours missing": ("published, no result of ours", Look(GREY, "|", published=True)),
    "": ("not judged", Look("#B5B5B5", "s")),
    "within": ("within error", Look(BLUE, "o")),
    "ordering": ("order kept", Look(ORANGE, "^")),
    "different": ("different", Look(VERMILLION, "X")),
}
FEWEST_IN_PANEL = 5  # values; measures with fewer share a panel


def against_published(cells: pd.DataFrame) -> Figure:
    """Draw every published value against ours, a panel for each measure, with the diagonal.

    A value without a result of ours is a tick at the lower axis. The axes of a panel are
    logarithmic where its values span two decades or more; where some are not positive, they are
    linear around zero.

    cells: columns `metric`, `published`, `ours` and `verdict`, a line for each published value.
    Raises BadInput where there is none.
    """
    if cells.empty:
        raise BadInput("there are no published values to draw: choose another work.")
    number = cells.groupby("metric")["metric"].transform("size")
    rare = cells.loc[number < FEWEST_IN_PANEL, "metric"].unique()
    panel = cells["metric"].map(partial(style.title, "metric"))
    if len(rare) > 1:
        panel = panel.mask(cells["metric"].isin(rare), f"{len(rare)} measures with few values each")
    cells = cells.assign(
        panel=panel,
        ours=cells["ours"].fillna(cells["published"]),
        degree=cells["verdict"].where(cells["verdict"].isin(list(DEGREES)), ""),
    )
    names = cells["panel"].value_counts(sort=False).sort_values(ascending=False, kind="stable")
    columns = 2 if len(names) <= 4 else 3
    size = {"height": 0.45 + 2.5 / columns, "width": style.COLUMN_WIDTH}
    fig, axes = style.panels(len(names), columns, **size)
    for place, (ax, name) in enumerate(zip(axes, names.index, strict=True)):
        own = cells[cells["panel"] == name]
        _diagonal(ax, own[["published", "ours"]].to_numpy(float))
        for degree, (_, look) in DEGREES.items():
            here = own[own["degree"] == degree]
            shape = style.mark(look, linestyle="", markersize=3, markeredgewidth=0.3)
            if look.published:  # which has no place among ours
                shape |= {"markersize": 5, "markeredgewidth": 0.7, "zorder": 1}
                shape |= {"transform": ax.get_xaxis_transform()}
                here = here.assign(ours=0.03)
            ax.plot(here["published"], here["ours"], **shape)
        within = int(own["verdict"].eq("within").sum())
        title = f"{style.wrapped(name, 60 // columns)}\n{within} of {len(own)} within"
        ax.set_title(title, fontsize=6)
        ax.set_xlabel("published" if place + columns >= len(names) else "", fontsize=7)
        ax.set_ylabel("ours" if place % columns == 0 else "", fontsize=7)
    shown = [each for name, each in DEGREES.items() if (cells["degree"] == name).any()]
    style.legend(fig, [style.handle(look, text, linestyle="") for text, look in shown])
    return fig


def _diagonal(ax: Axes, values: np.ndarray) -> None:
    """Equal axes for all values, and the line on which ours are the published ones."""
    low, high, sizes = values.min(), values.max(), np.abs(values)
    scale, options = "linear", {}
    if low > 0 and high >= 100 * low:
        scale = "log"
    elif low <= 0 and sizes.max() >= 100 * np.quantile(sizes, 0.1):
        scale, options = "symlog", {"linthresh": 10 ** np.ceil(np.log10(np.median(sizes)))}
    ax.set_xscale(scale, **options)
    ax.set_yscale(scale, **options)
    ends = ax.transScale.transform([(low, low), (high, high)])
    room = 0.06 * np.ptp(ends) or 1.0
    limits = ax.transScale.inverted().transform(ends + np.array([[-room], [room]]))[:, 0]
    ax.plot(limits, limits, color=GREY, linewidth=0.6, zorder=0)
    ax.set(xlim=limits, ylim=limits, box_aspect=1)
    ax.tick_params(labelsize=5.5)
    for axis in (ax.xaxis, ax.yaxis):
        if scale == "linear":
            axis.set_major_locator(MaxNLocator(2))
        else:
            axis.get_major_locator().set_params(numticks=3)
        axis.set_minor_locator(NullLocator())
