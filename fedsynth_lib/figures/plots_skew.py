"""Pictures of how unlike the clients of a division are: maps of rows, columns, draws."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.figures.style import BLUE, FULL_WIDTH, GREY, VERMILLION, pretty


def clouds(
    panels: Mapping[str, tuple[np.ndarray, np.ndarray, str]],
    *,
    bars: Sequence[str] = (),
    axes: tuple[str, str] | None = None,
    seed: int = 0,
) -> Figure:
    """Scatter panels side by side on one scale: title -> points (rows, 2), values (rows,), name of
    the colour map.

    Dots are drawn in random order, so that no group lies on top. bars: titles of panels with a
    colour bar.
    axes: labels of both axes; without them there are none, as the places of an embedding mean
        nothing.
    """
    fig, places = plt.subplots(
        1, len(panels), figsize=(FULL_WIDTH, 2.1), sharex=True, sharey=True, squeeze=False
    )
    for ax, (title, (points, values, colours)) in zip(places[0], panels.items(), strict=True):
        order = np.random.default_rng(seed).permutation(len(points))
        style = {"s": 0.4, "linewidths": 0, "rasterized": True, "cmap": colours}
        dots = ax.scatter(*points[order].T, c=np.asarray(values)[order], **style)
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


def maps(
    rows: pd.DataFrame, panels: Mapping[str, tuple[str, str]], *, bars: Sequence[str] = ()
) -> Figure:
    """Figure 5: the same squares in every panel, the area of a dot the root of its share of rows,
    in four colourings.

    rows: of `measure_map`. panels: title -> column whose mean colours the squares, '' for the
        clients, and colour map.
    bars: titles of panels with a colour bar.
    """
    parts = rows["item"].str.split(" ", n=2, expand=True).reindex(columns=range(3)).fillna("")
    wide = rows.assign(square=parts[0] + " " + parts[1], of=rows["metric"] + " " + parts[2])
    wide = wide.pivot(index="square", columns="of", values="value")
    column, row = (wide.index.str.split(" ").str[place].astype(int) for place in (0, 1))
    area = 60 * np.sqrt(wide["map_share "])
    fig, places = plt.subplots(
        1, len(panels), figsize=(FULL_WIDTH, 2.1), sharex=True, sharey=True, squeeze=False
    )
    for ax, (title, (name, colours)) in zip(places[0], panels.items(), strict=True):
        values = wide[f"map_mean {name}"] if name else wide["map_client "] % 20
        dots = ax.scatter(column, row, s=area, c=values, cmap=colours, linewidths=0)
        ax.set_title(title)
        ax.set_axis_off()
        if title in bars:
            fig.colorbar(dots, ax=ax, orientation="horizontal", shrink=0.9)
    return fig


def column_dots(columns: pd.DataFrame) -> Figure:
    """Heterogeneity of single columns: a line for each row of the frame, a marker for each column
    (division)."""
    fig, ax = plt.subplots(figsize=(0.7 * FULL_WIDTH, 0.9 + 0.16 * len(columns)))
    for (name, values), marker in zip(columns.items(), "os^vDPX", strict=False):
        ax.plot(values, range(len(columns)), marker, markerfacecolor="none", label=name)
    ax.set_yticks(range(len(columns)), columns.index)
    ax.set(xlabel="heterogeneity of the column (0: all clients alike)", xlim=(0, None))
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def draws(rows: pd.DataFrame, published: pd.Series) -> Figure:
    """Every draw of every division, with what its sizes give by chance and the printed value; a
    panel for each dataset.

    rows: tidy rows of `measured`. published: the printed values, indexed by PLACE.
    """
    kinds = list(dict.fromkeys(zip(rows["partition"], rows["detail"], strict=True)))
    printed = published.rename("value").reset_index()
    layers = [
        (rows[rows["metric"] == "mean_heterogeneity"], "o", 0, BLUE, "ours, one for each draw"),
        (rows[rows["metric"] == "by_chance"], "|", 0.25, GREY, "same sizes, rows dealt at random"),
        (printed, "D", -0.25, VERMILLION, "published"),
    ]
    datasets = list(rows["dataset"].unique())
    size = (FULL_WIDTH, 1.1 + 0.25 * len(kinds))
    fig, axes = plt.subplots(1, len(datasets), figsize=size, sharey=True, squeeze=False)
    for ax, dataset in zip(axes[0], datasets, strict=True):
        for found, marker, shift, colour, label in layers:
            found = found[found["dataset"] == dataset]
            height = [
                shift - kinds.index(kind)
                for kind in zip(found["partition"], found["detail"], strict=True)
            ]
            ax.plot(
                found["value"],
                height,
                marker,
                color=colour,
                markersize=4,
                markerfacecolor="none",
                label=label,
            )
        title = {"title": dataset, "xlabel": "heterogeneity (0: all clients alike)"}
        ax.set(**title, xlim=(0, 1), ylim=(0.5 - len(kinds), 0.5))
    ticks = [
        f"{pretty(partition)} {detail}".replace("beta=", "β = ").strip()
        for partition, detail in kinds
    ]
    axes[0, 0].set_yticks([-number for number in range(len(kinds))], ticks)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig
