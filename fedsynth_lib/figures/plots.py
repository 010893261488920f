"""The plots that several notebooks share. Each returns a Figure; `figures.save_figure` saves it."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, ScalarFormatter

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import (
    COLUMN_WIDTH,
    FULL_WIDTH,
    Look,
    level_name,
    look,
    pretty,
)
from fedsynth_lib.tables.schema import Schema, bin_edges

REAL_FILL = "#CFCFCF"
SHADES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
HATCHES = ["", "//", "..", "xx", "\\\\", "++", "--"]
MARKS = {"within": "=", "ordering": "≈", "different": "≠"}
MARKS_EXPLAINED = "ours (published); = within the spread, ≈ ordering kept, ≠ different"


def distributions(
    real: pd.DataFrame,
    schema: Schema,
    synthetic: Mapping[str, pd.DataFrame] | None = None,
    *,
    name: str = "real",
) -> Figure:
    """Share of rows per value of every column, numeric columns first; real rows filled, synthetic
    ones as lines.

    name: of `real` in the legend; a table's `data` says when it is a stand-in.
    synthetic: name -> frame with the same columns; a name that is a method has the method's look.
    """
    frames = {name: real, **(synthetic or {})}
    counted = {}
    for column in schema.columns:
        values = {key: frame[column.name] for key, frame in frames.items()}
        counted[column.name] = (
            _binned(values) if column.kind == "numeric" else (None, _by_category(values))
        )
    return _share_panels(schema, counted)


def share_panels(shares: Mapping[str, Mapping[str, pd.Series]], schema: Schema) -> Figure:
    """As `distributions`, of counted rows: name of a table -> column -> shares as `fidelity.shares`
    has them.

    The first table is drawn filled. Columns of the schema without shares are left out.
    """
    first = next(iter(shares.values()))
    schema, counted = schema.drop([column for column in schema.names if column not in first]), {}
    for column in schema.columns:
        edges = bin_edges(column) if column.kind == "numeric" else None
        order = (
            list(column.categories)
            if edges is None
            else [str(number) for number in range(len(edges) - 1)]
        )
        table = pd.DataFrame(
            {key: 100 * own[column.name].reindex(order) for key, own in shares.items()}
        )
        counted[column.name] = edges, table if edges is not None else table[table.gt(0).any(axis=1)]
    return _share_panels(schema, counted)


def _share_panels(
    schema: Schema, counted: Mapping[str, tuple[np.ndarray | None, pd.DataFrame]]
) -> Figure:
    """A panel for each column. counted: column -> edges of its bins, if numeric, and percentages by
    table."""
    name, *synthetic = next(iter(counted.values()))[1].columns
    looks = {key: _look_or_next(key, number) for number, key in enumerate(synthetic)}
    blocks = [(schema.numeric, 5), (schema.categorical, 4)]
    blocks = [(names, -(-len(names) // most)) for names, most in blocks if names]
    heights = [1.5 * lines for _, lines in blocks]
    fig = plt.figure(figsize=(FULL_WIDTH, sum(heights) + 0.3))
    subfigures = fig.subfigures(len(blocks), 1, height_ratios=heights, squeeze=False)[:, 0]
    for subfigure, (names, lines) in zip(subfigures, blocks, strict=True):
        axes = subfigure.subplots(lines, -(-len(names) // lines), squeeze=False)
        for ax in axes.flat[len(names) :]:
            ax.set_axis_off()
        for ax, column in zip(axes.flat, names, strict=False):
            edges, table = counted[column]
            if edges is None:
                _bars(ax, table, looks)
            else:
                _histogram(ax, edges, table, looks)
            ax.set_title(column)
        if names == schema.numeric:
            subfigure.supylabel("rows (%)")
        else:
            for ax in axes[-1]:
                ax.set_xlabel("rows (%)")
    if synthetic:
        handles = [plt.Rectangle((0, 0), 1, 1, color=REAL_FILL, label=name)]
        handles += [
            plt.Line2D(
                [], [], color=style.colour, marker=style.marker, linestyle=style.line, label=key
            )
            for key, style in looks.items()
        ]
        fig.legend(handles=handles, loc="outside upper right", ncols=len(handles))
    return fig


def _look_or_next(name: str, number: int) -> Look:
    """The method's own look, or the next free one for a name that is no method."""
    try:
        return look(name)
    except BadInput:
        return Look(
            SHADES[number % len(SHADES)], "osD^vPX"[number % 7], ["-", "--", ":"][number % 3]
        )


def _binned(values: Mapping[str, pd.Series]) -> tuple[np.ndarray, pd.DataFrame]:
    """Edges of equal bins over the values of the first table, and percentages in them; others' ends
    take the rest."""
    first = next(iter(values.values())).dropna().to_numpy(float)
    low, high = first.min(), first.max()
    whole = bool((first == np.round(first)).all()) and high - low <= 40
    edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + (high == low), 31)

    def percent(series: pd.Series) -> np.ndarray:
        inside = np.clip(series.dropna().to_numpy(float), edges[0], edges[-1])
        return 100 * np.histogram(inside, edges)[0] / max(1, len(inside))

    return edges, pd.DataFrame({key: percent(series) for key, series in values.items()})


def _by_category(values: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Percentages by category, in declared order, of the categories that occur in any table."""
    counts = {
        key: 100 * own.value_counts(normalize=True, sort=False) for key, own in values.items()
    }
    table = pd.DataFrame(counts).fillna(0)
    return table.reindex(
        [c for c in next(iter(values.values())).cat.categories if c in table.index]
    )


def _histogram(ax: Axes, edges: np.ndarray, table: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Percentages by bin; a log scale where one bin would hide all others."""
    height = table.iloc[:, 0].to_numpy()
    ax.stairs(height, edges, fill=True, color=REAL_FILL)
    for name, style in looks.items():
        ax.stairs(
            table[name].to_numpy(), edges, color=style.colour, linestyle=style.line, linewidth=1
        )
    if height.max() > 80:
        ax.set_yscale("log")
        ax.minorticks_off()
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.xaxis.set_major_formatter(EngFormatter(sep="") if edges[-1] >= 10_000 else ScalarFormatter())


def _bars(ax: Axes, table: pd.DataFrame, looks: Mapping[str, Look], most: int = 8) -> None:
    """Bars per category in declared order; of many categories the frequent ones and all others
    together."""
    real = table.columns[0]
    if len(table) > most:
        frequent = table[real].nlargest(most - 1).index
        others = table.drop(frequent)
        table = pd.concat([table.loc[frequent], others.sum().to_frame(f"{len(others)} others").T])
    positions = np.arange(len(table))
    ax.barh(positions, table[real], color=REAL_FILL)
    for number, (name, style) in enumerate(looks.items()):
        spot = positions + (number + 1) / (len(looks) + 1) - 0.5
        ax.plot(table[name], spot, style.marker, color=style.colour, markersize=3, clip_on=False)
    ax.set_yticks(
        positions,
        [str(c) if len(str(c)) <= 14 else f"{str(c)[:13]}…" for c in table.index],
        fontsize=7,
    )
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)


def partition_bars(labels: pd.Series, partitions: Mapping[str, Sequence[np.ndarray]]) -> Figure:
    """Rows of each class at each client, one panel for each partition (martinez2024, figure 5.4).

    labels: the target column. partitions: name -> row positions of each client.
    """
    labels = labels.astype("category")
    classes = labels.cat.categories
    fig, axes = plt.subplots(
        1, len(partitions), figsize=(FULL_WIDTH, 2.3), sharey=True, squeeze=False
    )
    for ax, (name, parts) in zip(axes.flat, partitions.items(), strict=True):
        counts = np.array(
            [
                np.bincount(labels.cat.codes.to_numpy()[part], minlength=len(classes))
                for part in parts
            ]
        )
        bottom = np.zeros(len(parts))
        for level, category in enumerate(classes):  # counts: (clients, classes)
            style = {
                "color": SHADES[level % 7],
                "hatch": HATCHES[level % 7],
                "edgecolor": "white",
                "linewidth": 0,
            }
            ax.bar(
                np.arange(1, len(parts) + 1),
                counts[:, level],
                bottom=bottom,
                label=str(category),
                **style,
            )
            bottom += counts[:, level]
        ax.set_title(pretty(name))
        ax.set_xlabel("client")
        ax.set_xticks(np.arange(1, len(parts) + 1))
    axes[0, 0].set_ylabel("rows")
    fig.legend(
        *axes[0, 0].get_legend_handles_labels(), title=labels.name, loc="outside right upper"
    )
    return fig


def association_heatmaps(
    real: pd.DataFrame,
    synthetic: Mapping[str, pd.DataFrame],
    *,
    name: str = "real",
    columns: int = 0,
    low: float = -1,
) -> Figure:
    """Association matrices of the real and of synthetic tables side by side, at most `columns` in a
    line, on one scale.

    real, synthetic: square frames of associations in [low, 1], as the association metric makes
        them.
    name: of `real`, as in `distributions`. columns: 0 puts all in one line.
    """
    panels = {name: real, **synthetic}
    columns = min(columns or len(panels), len(panels))
    lines = -(-len(panels) // columns)
    width = COLUMN_WIDTH if len(panels) == 1 else FULL_WIDTH
    size = (width, lines * ((width - 1.1) / columns + 0.2) + 0.75)
    fig, axes = plt.subplots(lines, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (title, matrix) in zip(axes.flat, panels.items(), strict=False):
        matrix = matrix.loc[real.index, real.columns].astype(float)
        image = ax.imshow(matrix, vmin=low, vmax=1, cmap="RdBu_r" if low < 0 else "Blues")
        ax.set_xticks(np.arange(len(real.columns)), real.columns, rotation=90)
        ax.set_yticks(np.arange(len(real.index)), real.index)
        ax.grid(visible=False)
        ax.set_title(title)
    fig.colorbar(image, ax=axes, label="association", shrink=0.8)
    return fig


def network(graph: Any, strength: pd.DataFrame) -> Figure:
    """A directed acyclic graph from top to bottom: every node one line below its lowest parent.

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
        "edge_color": SHADES[0],
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


def spread_lines(
    rows: pd.DataFrame,
    x: str,
    y: str,
    *,
    line: str,
    panel: str,
    looks: Mapping[str, Look],
    share_y: bool = False,
) -> Figure:
    """Mean of `y` over repeats with one standard deviation, a line for each name in `looks`, a
    panel for each `panel`.

    rows: tidy; rows that agree in x, line and panel are repeats. Up to 12 values of x stand evenly
    spaced with error bars, an infinite one as 'none' (no noise); more of them lie on a scale, with
    bands.
    """
    panels, values = list(rows[panel].unique()), np.sort(rows[x].unique())
    few = len(values) <= 12
    size = {"figsize": (FULL_WIDTH, 2.7), "sharey": share_y, "squeeze": False}
    fig, axes = plt.subplots(1, len(panels), **size)
    for ax, name in zip(axes[0], panels, strict=True):
        for number, (label, style) in enumerate(looks.items()):
            groups = rows[(rows[panel] == name) & (rows[line] == label)].groupby(x)[y]
            mean, std = groups.mean(), groups.std(ddof=1).fillna(0)
            place = (
                np.searchsorted(values, mean.index) + 0.08 * (number - (len(looks) - 1) / 2)
                if few
                else mean.index
            )
            shape = {"color": style.colour, "linestyle": style.line, "label": label}
            if few:
                ax.errorbar(place, mean, std, marker=style.marker, **shape)
            else:
                ax.plot(place, mean, **shape)
                ax.fill_between(
                    place, mean - std, mean + std, color=style.colour, alpha=0.2, linewidth=0
                )
        if few:
            ax.set_xticks(
                range(len(values)),
                ["none" if np.isinf(value) else f"{value:g}" for value in values],
            )
        ax.set(title=pretty(name), xlabel=x)
    axes[0, 0].set_ylabel(y if share_y else "")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=min(3, len(labels)))
    return fig


def scenario_panel(comparison: pd.DataFrame) -> Figure:
    """All cells of a printed table in one picture: a row for each metric, a column for each budget.

    comparison: what `published.compare` returns, of one dataset. Within a panel the numbers of
    clients stand side by side, partition by partition. Filled markers and solid bars (one standard
    deviation over seeds) are ours, hollow markers to their right are published. Central models and
    real data have no clients: a solid line is ours, a dotted one published.
    """
    lines = comparison[comparison["setting"].isin(["central", "real"])]
    others = comparison.drop(lines.index)
    if others.empty:
        raise BadInput(
            "the comparison has no cells with clients: give those of a table with "
            "federated or local rows."
        )
    metrics, budgets = list(comparison["metric"].unique()), list(comparison["epsilon"].unique())
    settings = [s for s in ("federated", "local") if s in set(others["setting"])]
    places = list(
        others[["partition", "n_clients"]].drop_duplicates().itertuples(index=False, name=None)
    )
    spots = dict(zip(places, range(len(places)), strict=True))
    spot = pd.Series(
        [spots[place] for place in zip(others["partition"], others["n_clients"], strict=True)],
        others.index,
    )
    shape = {
        "figsize": (FULL_WIDTH, 0.7 + 1.25 * len(metrics)),
        "sharex": True,
        "sharey": "row",
        "squeeze": False,
    }
    fig, axes = plt.subplots(len(metrics), len(budgets), **shape)
    for (row, column), ax in np.ndenumerate(axes):
        here = (comparison["metric"] == metrics[row]) & (comparison["epsilon"] == budgets[column])
        for line in lines[here.loc[lines.index]].to_dict("records"):
            for source, dots in (("ours", "-"), ("published", ":")):
                colour = look(line["setting"]).colour
                ax.axhline(
                    line[source], color=colour, linestyle=dots, label=f"{line['setting']}, {source}"
                )
        panel = others[here.loc[others.index]]
        for number, setting in enumerate(settings):
            chosen, style = panel[panel["setting"] == setting], look(setting)
            place = spot.loc[chosen.index].to_numpy(float) + 0.4 * (
                number - (len(settings) - 1) / 2
            )
            for source, shift, fill in (
                ("ours", -0.08, style.colour),
                ("published", 0.08, "white"),
            ):
                ax.errorbar(
                    *(
                        place + shift,
                        chosen[source].astype(float),
                        chosen[f"{source}_std"].fillna(0).astype(float),
                    ),
                    **{
                        "fmt": style.marker,
                        "color": style.colour,
                        "markerfacecolor": fill,
                        "markeredgewidth": 0.7,
                    },
                    **{
                        "markersize": 3,
                        "elinewidth": 0.7,
                        "capsize": 1.2,
                        "label": f"{setting}, {source}",
                    },
                )
        for left, right in pairwise(places):
            if left[0] != right[0]:
                ax.axvline(spots[right] - 0.5, color="#DDDDDD", linewidth=0.6)
        if row == 0:
            ax.set_title(level_name(budgets[column]))
        if column == 0:
            ax.set_ylabel(textwrap.fill(pretty(metrics[row]), 16))
    axes[0, 0].set_xlim(-0.5, len(places) - 0.5)
    axes[0, 0].set_xticks(range(len(places)), [f"{clients}" for _, clients in places])
    middles = pd.Series(spots).groupby(level=0, sort=False).mean()
    for ax in axes[-1]:
        for partition, middle in middles.items():
            at = {"xy": (middle, 0), "xycoords": ("data", "axes fraction"), "xytext": (0, -15)}
            style = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": 7}
            ax.annotate(pretty(partition).replace(" ", "\n"), **at, **style)
    axes[-1, 0].annotate(
        "clients", (-0.02, -0.05), xycoords="axes fraction", ha="right", va="top", fontsize=7
    )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=-(-len(handles) // 2))
    return fig


def comparison_table(comparison: pd.DataFrame, *, spread: bool = False) -> pd.DataFrame:
    """A wide table `ours (published)` in the layout of martinez2024's tables 6.x.

    Rows: setting, partition, clients; columns: privacy level and metric. The mark behind a cell is
    its verdict; MARKS_EXPLAINED says so in a caption. `spread` adds the standard deviations.
    """
    digits = comparison["decimals"].astype(int)
    entries = []
    for row, places in zip(comparison.to_dict("records"), digits, strict=True):
        std = f" ± {row['ours_std']:.{places}f}" if spread and row["n"] > 1 else ""
        printed_std = (
            f" ± {row['published_std']:.{places}f}"
            if spread and pd.notna(row["published_std"])
            else ""
        )
        ours = f"{row['ours']:.{places}f}{std}" if row["n"] else "–"
        mark = f" {MARKS[row['verdict']]}" if row["n"] else ""
        entries.append(f"{ours} ({row['published']:.{places}f}{printed_std}){mark}")
    wide = comparison.assign(
        entry=entries,
        level=["" if np.isnan(e) else level_name(e) for e in comparison["epsilon"]],
        partition=comparison["partition"].map(pretty).where(comparison["partition"] != "none", ""),
        clients=comparison["n_clients"].astype("string").fillna(""),
    )
    rows, columns = (
        ["dataset", "method", "node", "detail", "partition", "clients", "setting"],
        ["level", "metric"],
    )
    rows = [
        name
        for name in rows
        if name in ("partition", "clients", "setting") or wide[name].nunique() > 1
    ]
    if wide.duplicated([*rows, *columns]).any():
        raise BadInput("several exhibits are in this comparison: make one table for each.")
    table = wide.pivot(index=rows, columns=columns, values="entry")
    row_order = pd.MultiIndex.from_frame(wide[rows].drop_duplicates())
    column_order = pd.MultiIndex.from_frame(wide[columns].drop_duplicates())
    return table.reindex(index=row_order, columns=column_order).fillna("")
