"""Distributions of columns: real rows filled, synthetic ones as lines."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, ScalarFormatter

from fedsynth_lib.figures import labels, style
from fedsynth_lib.figures.style import BLUE, FULL_WIDTH, GREY, Look
from fedsynth_lib.tables.modes import Mixture
from fedsynth_lib.tables.schema import Schema, bin_edges

REAL_FILL = "#CFCFCF"
MOST = 8  # categories of a column; more are drawn together
WIDEST = 14  # letters of a category


def distributions(
    real: pd.DataFrame,
    schema: Schema,
    synthetic: Mapping[str, pd.DataFrame] | None = None,
    *,
    name: str = "real",
) -> Figure:
    """Draw the share of rows per value of every column, numeric columns first.

    Real rows are filled, synthetic ones are lines.

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
    """Draw counted rows as `distributions` does.

    shares: name of a table -> column -> shares as `fidelity.shares` has them.

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
    """Draw a panel for each column.

    counted: column -> edges of its bins, if numeric, and percentages by table, of which the first
    is drawn filled.
    """
    name, *synthetic = next(iter(counted.values()))[1].columns
    looks = style.looks(synthetic)
    blocks = [(schema.numeric, 5), (schema.categorical, 4)]  # columns, and lines at most
    blocks = [(names, -(-len(names) // most)) for names, most in blocks if names]
    heights = [1.5 * lines for _, lines in blocks]
    fig = plt.figure(figsize=(FULL_WIDTH, sum(heights) + 0.1))
    subfigures = fig.subfigures(len(blocks), 1, height_ratios=heights, squeeze=False)[:, 0]
    for subfigure, (names, lines) in zip(subfigures, blocks, strict=True):
        across = -(-len(names) // lines)
        axes, most = subfigure.subplots(lines, across, squeeze=False), 120 // max(across, 3)
        for ax in axes.flat[len(names) :]:
            ax.set_axis_off()
        for ax, column in zip(axes.flat, names, strict=False):
            edges, table = counted[column]
            if edges is None:
                _bars(ax, table, looks)
            else:
                _histogram(ax, edges, table, looks)
            ax.set_title(labels.short(column, most))
        if names == schema.numeric:
            subfigure.supylabel("rows (%)")
        else:
            for ax in axes[-1]:
                ax.set_xlabel("rows (%)")
    if synthetic:
        style.legend(fig, _handles(name, looks))
    return fig


def _handles(name: str, looks: Mapping[str, Look]) -> list:
    filled = Patch(color=REAL_FILL, label=name)
    return [filled, *(style.handle(look, key) for key, look in looks.items())]


def densities(panels: Mapping[str, Mapping[str, np.ndarray]], *, label: str) -> Figure:
    """Draw a panel for each title, a kernel density for each group, up to 99.9 % of all values.

    panels: title -> group -> values. label: of their axis.
    """
    fig, axes = style.panels(len(panels), 3, height=2.0, sharex=True, sharey=True)
    together = np.concatenate([values for groups in panels.values() for values in groups.values()])
    ends = tuple(np.quantile(together, [0, 0.999]))
    looks = style.looks(dict.fromkeys(name for groups in panels.values() for name in groups))
    for ax, (title, groups) in zip(axes, panels.items(), strict=True):
        for name, values in groups.items():
            line = {"color": looks[name].colour, "linestyle": looks[name].line}
            sns.kdeplot(values, ax=ax, clip=ends, gridsize=300, **line)
        ax.set(title=title, xlabel=label, ylabel="density")
    style.legend(fig, [style.handle(look, name, marker="") for name, look in looks.items()])
    return fig


def mixtures(
    values: np.ndarray, fits: Mapping[int, Mixture], places: np.ndarray, *, unit: str, x_label: str
) -> Figure:
    """Draw the density of whole numbers, filled, under the modes of a mixture and their sum.

    There is a panel for each number of modes that were allowed. places: where densities are
    computed. unit: of values.
    """
    fig, axes = plt.subplots(1, len(fits), figsize=(FULL_WIDTH, 2.6), sharey=True)
    edges = np.arange(values.min() - 0.5, values.max() + 1)
    for ax, (most, mixture) in zip(axes, fits.items(), strict=True):
        parts = pd.DataFrame(np.exp(mixture.log_density(places)), index=places)  # (places, modes)
        ax.hist(values, edges, density=True, color=REAL_FILL)
        ax.plot(parts, color=BLUE, linewidth=0.8)
        ax.plot(parts.sum(axis=1), "k--")
        ax.set(title=f"{most} modes allowed, {len(mixture.weights)} found", xlabel=x_label)
    axes[0].set_ylabel(f"density (per {unit})")
    return fig


def shares_by_value(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Column -> shares of rows; (values, tables), the real table first.

    rows: of `real_share` and `synthetic_share`, with `column value` or a value alone in `item`.
    """
    rows = rows[rows["metric"].isin(["real_share", "synthetic_share"])]
    parts = rows["item"].str.rpartition(" ")
    table = np.where(rows["metric"] == "real_share", "real", rows["method"])
    named = rows.assign(column=parts[0], at=parts[2].astype(float), table=table)
    named = named.drop_duplicates(["column", "at", "table"])  # real rows stand beside each method
    found = {}
    for column, own in named.groupby("column", sort=False):
        wide = own.pivot(index="at", columns="table", values="value").fillna(0)
        found[column] = wide[["real", *(name for name in own["table"].unique() if name != "real")]]
    return found


def histograms(
    panels: Mapping[str, pd.DataFrame],
    *,
    columns: int = 3,
    x_label: str = "",
    means: Mapping[str, pd.Series] | None = None,
    share: bool = False,
    centred: bool = False,
) -> Figure:
    """Draw a panel for each title: the first table filled, the others as lines.

    The axis ends at 99.9 percent of the first table.

    panels: title -> shares; (left edges of equal bins, tables). means: title -> mean of each table,
        a thin line. share: the same axes for all panels. centred: the index holds the middles of
        bins, as that of whole numbers.
    """
    looks = style.looks(list(next(iter(panels.values())).columns)[1:])
    fig, axes = style.panels(len(panels), columns, height=1.8, sharex=share, sharey=share)
    for number, (ax, (title, table)) in enumerate(zip(axes, panels.items(), strict=True)):
        width = np.diff(table.index).min()
        whole = np.arange(table.index.min(), table.index.max() + width / 2, width)
        table = table.reindex(whole, method="nearest", tolerance=width / 2).fillna(0)
        edges = np.append(whole, whole[-1] + width) - (width / 2 if centred else 0)
        _histogram(ax, edges, table, looks)
        for name, mean in (means or {}).get(title, pd.Series(dtype=float)).items():
            colour = looks[name].colour if name in looks else GREY
            ax.axvline(mean, color=colour, linewidth=0.8)
        most = edges[np.searchsorted(table.iloc[:, 0].cumsum(), 0.999) + 1]
        ax.set(title=title, xlabel=x_label, xlim=(edges[0], most))
        ax.set_ylabel("share of rows" if number % columns == 0 else "")
    style.legend(fig, _handles(str(table.columns[0]), looks))
    return fig


def _binned(values: Mapping[str, pd.Series]) -> tuple[np.ndarray, pd.DataFrame]:
    """Return edges of equal bins over the values of the first table, and percentages in them.

    The first and the last bin take what lies beyond in other tables.
    """
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
    """Shares by bin; a log scale where one bin would hide all others."""
    heights = table.iloc[:, 0].to_numpy()
    ax.stairs(heights, edges, fill=True, color=REAL_FILL)
    for name, look in looks.items():
        line = {"color": look.colour, "linestyle": look.line, "linewidth": 1}
        ax.stairs(table[name].to_numpy(), edges, **line)
    if heights.max() > 0.8 * heights.sum():
        ax.set_yscale("log")
        ax.minorticks_off()
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.xaxis.set_major_formatter(EngFormatter(sep="") if edges[-1] >= 10_000 else ScalarFormatter())


def _categories(names: pd.Index) -> list[str]:
    """Names of bars: their first letters, if these tell them apart."""
    first = [str(c) if len(str(c)) <= WIDEST else f"{str(c)[: WIDEST - 1]}…" for c in names]
    long = any(len(str(c)) > labels.MOST for c in names)
    ends = long or len(set(first)) < len(first)
    return labels.shorts(names, WIDEST) if ends else [labels.short(text) for text in first]


def _bars(ax: Axes, table: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw bars per category in declared order.

    Of many categories the frequent ones are drawn, and all others together.
    """
    real = table.columns[0]
    if len(table) > MOST:
        frequent = table[real].nlargest(MOST - 1).index
        others = table.drop(frequent)
        table = pd.concat([table.loc[frequent], others.sum().to_frame(f"{len(others)} others").T])
    positions = np.arange(len(table))
    ax.barh(positions, table[real], color=REAL_FILL)
    for number, (name, look) in enumerate(looks.items()):
        spot = positions + (number + 1) / (len(looks) + 1) - 0.5
        ax.plot(table[name], spot, look.marker, color=look.colour, markersize=3, clip_on=False)
    ax.set_yticks(positions, _categories(table.index), fontsize=7)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)
