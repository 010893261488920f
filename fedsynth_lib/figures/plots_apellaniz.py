"""Pictures of apellaniz2025: who is skewed, how alike rows are at each node, and how near they come
to real ones."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import gaussian_kde

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import BLUE, BROWN, FULL_WIDTH, GREY, PURPLE, look

LABELS = {
    "js_divergence": "Jensen–Shannon divergence (bits) ↓",
    "acc_synthetic_real": "accuracy on real rows ↑",
}
UNITS = {
    "BMI": "kg/m²",
    "PhysHlth": "days of 30",
    "GenHlth": "1 best",
    "Age": "group",
} | dict.fromkeys(("Income", "Education"), "level")
SCENARIOS = {
    "iid": "i.i.d.",
    "bmi_skew": "BMI skew, as run",
    "bmi_skew_text": "BMI skew, as described",
}


def densities(panels: Mapping[str, Mapping[str, np.ndarray]], *, label: str) -> Figure:
    """Figure 4: a panel for each scenario, a kernel density for each node.

    panels: title -> node -> values of its training rows.
    """
    fig, axes = plt.subplots(
        1, len(panels), figsize=(FULL_WIDTH, 2.3), sharex=True, sharey=True, squeeze=False
    )
    together = np.concatenate([values for nodes in panels.values() for values in nodes.values()])
    grid = np.linspace(*np.quantile(together, [0, 0.999]), 300)
    for ax, (title, nodes) in zip(axes[0], panels.items(), strict=True):
        for (name, values), colour, line in zip(
            nodes.items(), (BROWN, PURPLE, BLUE), ("--", "-.", "-"), strict=False
        ):
            ax.plot(grid, gaussian_kde(values)(grid), line, color=colour, label=name)
        ax.set(title=title, xlabel=label)
    axes[0, 0].set(ylabel="density", ylim=(0, None))
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def nodes_panel(cells: pd.DataFrame, *, columns: Sequence[str], by: str = "dataset") -> Figure:
    """Tables 2 to 5, A1 and A2 as dots: a row of panels for each measure, a column for each of
    `columns` of `by`.

    cells: `by`, node, method, metric, ours, ours_std, published, published_std, as
        `published.compare` makes them. Filled markers are ours, hollow ones to their right
        published, bars standard deviations; grey lines are accuracies of forests trained on real
        rows.
    """
    metrics = [metric for metric in LABELS if (cells["metric"] == metric).any()]
    if not metrics:
        raise BadInput(
            f"there are no cells of {' or '.join(LABELS)}: run the grid of this notebook first."
        )
    size = (FULL_WIDTH, 1.9 * len(metrics) + 0.7)
    fig, axes = plt.subplots(len(metrics), len(columns), figsize=size, sharex=True, squeeze=False)
    methods = [name for name in ("Isolated", "FedAvg", "SDS") if (cells["method"] == name).any()]
    for row, metric in zip(axes, metrics, strict=True):
        row[0].set_ylabel(LABELS[metric].replace(" (", "\n(").replace(" on", "\non"))
        for ax, column in zip(row, columns, strict=True):
            own = cells[(cells["metric"] == metric) & (cells[by] == column)]
            for number, method in enumerate(methods):
                _dots(
                    ax,
                    own[own["method"] == method],
                    method,
                    (number - (len(methods) - 1) / 2) * 0.27,
                )
            if metric.startswith("acc"):
                _reference(ax, cells[(cells["metric"] == "acc_real_real") & (cells[by] == column)])
        # accuracies of two targets have levels of their own
        if not metric.startswith("acc") or by != "dataset":
            low, high = zip(*(ax.get_ylim() for ax in row), strict=True)
            for ax in row:
                ax.set_ylim(min(low), max(high))
                ax.tick_params(labelleft=ax is row[0])
    nodes = sorted(cells["node"].unique())
    for ax, column in zip(axes[0], columns, strict=True):
        ax.set_title(str(column).removeprefix("train rows per node ").replace("/", " / "))
    for ax in axes[-1]:
        ax.set_xticks(range(len(nodes)), [f"node {node}" for node in nodes])
        ax.set_xlim(-0.5, len(nodes) - 0.5)
    handles = [
        plt.Line2D(
            *([], []),
            linestyle="",
            color=look(m).colour,
            marker=look(m).marker,
            markerfacecolor=fill,
            label=f"{m}, {who}",
        )
        for m in methods
        for who, fill in (("ours", look(m).colour), ("published", "none"))
    ]
    if "acc_synthetic_real" in metrics:
        for line, who in (("-", "ours"), (":", "published")):
            handles.append(
                plt.Line2D([], [], color=GREY, linestyle=line, label=f"real rows, {who}")
            )
    fig.legend(handles=handles, loc="outside upper center", ncols=(len(handles) + 1) // 2)
    return fig


def _dots(ax: plt.Axes, cells: pd.DataFrame, method: str, shift: float) -> None:
    style = look(method)
    for column, sideways, fill in (("ours", -0.05, style.colour), ("published", 0.05, "none")):
        known = cells.dropna(subset=[column])
        place = known["node"].astype(int) - 1 + shift + sideways
        spread = known[f"{column}_std"].astype(float)  # none where measured once
        ax.errorbar(
            place,
            known[column],
            spread,
            fmt=style.marker,
            color=style.colour,
            mfc=fill,
            ms=4.5,
            elinewidth=1,
        )


def _reference(ax: plt.Axes, cells: pd.DataFrame) -> None:
    for column, line in (("ours", "-"), ("published", ":")):
        for cell in cells.dropna(subset=[column]).itertuples():
            place = int(cell.node) - 1
            ax.plot(
                [place - 0.45, place + 0.45],
                [getattr(cell, column)] * 2,
                line,
                color=GREY,
                linewidth=1.2,
                zorder=0,
            )


def spreads_panel(spreads: pd.DataFrame) -> Figure:
    """How far repetitions lie apart: a dot for each dataset, technique and node, a bar for their
    root mean square.

    spreads: index with the levels partition and node, a column of standard deviations of the
        divergence for each kind.
    """
    partitions = [name for name in SCENARIOS if name in spreads.index.unique("partition")]
    fig, axes = plt.subplots(
        1, len(partitions), figsize=(FULL_WIDTH, 2.5), sharey=True, squeeze=False
    )
    marks = list(zip(spreads.columns, (GREY, PURPLE, BLUE), ("d", "s", "o"), strict=False))
    for ax, partition in zip(axes[0], partitions, strict=True):
        own = spreads.xs(partition, level="partition")
        for number, (kind, colour, marker) in enumerate(marks):
            for node, values in own[kind].dropna().groupby("node"):
                place = int(node) - 1 + (number - 1) * 0.27
                sideways = place + np.linspace(-0.08, 0.08, len(values))
                ax.plot(sideways, values, marker, color=colour, ms=3.5, alpha=0.7)
                ax.plot(
                    [place - 0.11, place + 0.11],
                    [np.sqrt((values**2).mean())] * 2,
                    color=colour,
                    linewidth=2,
                )
        nodes = sorted(own.index.unique("node"))
        ax.set_xticks(range(len(nodes)), [f"node {node}" for node in nodes])
        ax.set_title(SCENARIOS[partition])
    # of all panels
    axes[0, 0].set(ylabel="standard deviation of\nthe divergence (bits)", ylim=(0, None))
    handles = [
        plt.Line2D([], [], linestyle="", marker=m, color=colour, label=kind)
        for kind, colour, m in marks
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return fig


def distances_panel(rows: pd.DataFrame, panels: Mapping[str, Mapping[str, str]]) -> Figure:
    """Figure A2: histograms of the distance to the nearest real row, of real and of synthetic rows,
    up to 99.9 percent.

    rows: of `apellaniz_study.distances`. panels: title -> the columns that choose its rows.
    """
    columns = 2 if len(panels) > 1 else 1
    lines = -(-len(panels) // columns)
    size = (FULL_WIDTH, 1.8 * lines + 0.6)
    fig, axes = plt.subplots(lines, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    farthest = 0.0
    for ax, (title, wanted) in zip(axes.flat, panels.items(), strict=False):
        own = rows[np.logical_and.reduce([rows[name] == value for name, value in wanted.items()])]
        for name, colour, line in (("real", GREY, "-"), ("synthetic", look("SDS").colour, "--")):
            shares = own[own["metric"] == f"{name}_share"]
            edges = shares["item"].astype(float).to_numpy()
            order = np.argsort(edges)
            width = np.diff(edges[order]).min()
            ends = np.append(edges[order], edges.max() + width)
            heights = shares["value"].to_numpy()[order]
            ax.stairs(heights / width, ends, color=colour, linestyle=line, linewidth=1.3)
            farthest = max(farthest, ends[np.searchsorted(heights.cumsum(), 0.999) + 1])
            mean = float(own.loc[own["metric"] == f"{name}_mean", "value"].iloc[0])
            ax.axvline(mean, color=colour, linestyle=line, linewidth=0.8)
        ax.set(title=title)
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
    for ax in axes[-1]:
        ax.set(
            xlabel="distance to the nearest validation row\n(standardised columns)",
            xlim=(0, farthest),
        )
    handles = [
        plt.Line2D([], [], color=GREY, label="other validation rows"),
        plt.Line2D([], [], color=look("SDS").colour, linestyle="--", label="synthetic rows (SDS)"),
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=2)
    return fig


def features_panel(
    rows: pd.DataFrame, features: Sequence[str], methods: Sequence[str] = ("FedAvg", "SDS")
) -> Figure:
    """Figures A3 and A4: shares of the values of six columns, real rows as bars, synthetic ones as
    lines.

    rows: of `apellaniz_study.features`, at one node in one scenario.
    """
    fig, axes = plt.subplots(2, 3, figsize=(FULL_WIDTH, 3.6))
    for ax, feature in zip(axes.flat, features, strict=True):
        own = rows[rows["item"].str.startswith(f"{feature} ")]
        real = _shares(own[(own["metric"] == "real_share") & (own["method"] == methods[0])])
        ax.bar(real.index, real, width=0.9, color="#C8C8C8", label="real")
        for method in methods:
            drawn = _shares(own[(own["metric"] == "synthetic_share") & (own["method"] == method)])
            drawn = drawn.reindex(
                range(int(real.index.min()), int(max(real.index.max(), drawn.index.max())) + 1)
            )
            style = look(method)
            marker = style.marker if len(drawn) < 20 else ""
            ax.plot(
                drawn.index,
                drawn.fillna(0),
                style.line,
                color=style.colour,
                marker=marker,
                ms=3,
                label=method,
            )
        highest = real.index[real.cumsum() < 0.999].max()
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(
            xlabel=f"{feature} ({UNITS[feature]})",
            ylim=(0, None),
            xlim=(real.index.min() - 0.8, highest + 1.8),
        )
    for ax in axes[:, 0]:
        ax.set_ylabel("share of rows")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def _shares(rows: pd.DataFrame) -> pd.Series:
    """Share by value."""
    values = rows["item"].str.rpartition(" ")[2].astype(int)
    return pd.Series(rows["value"].to_numpy(), index=values.to_numpy()).sort_index()
