"""Bars: numbers or shares by group, stacked or side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import labels as text
from fedsynth_lib.figures import style
from fedsynth_lib.runs.names import partition_name

SHADES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
HATCHES = ["", "//", "..", "xx", "\\\\", "++", "--"]


def bars(
    groups: Mapping[str, pd.DataFrame],
    *,
    x_label: str,
    y_label: str,
    columns: int = 3,
    stacked: bool = False,
    numbers: bool = False,
    height: float = 2.0,
) -> Figure:
    """Draw a panel for each title, and a bar for each row of its frame and column.

    groups: title -> frame (groups along x, levels); frames have the same columns, and one column
        needs no legend. stacked: levels on each other, not side by side. numbers: written above.
    """
    if not groups:
        raise BadInput("there are no groups to draw: give at least one frame.")
    fig, axes = style.panels(len(groups), columns, height=height, sharey=True)
    levels = list(next(iter(groups.values())).columns)
    shapes = [
        {"facecolor": SHADES[k % 7], "hatch": HATCHES[k % 7], "edgecolor": "white", "linewidth": 0}
        for k in range(len(levels))
    ]
    width = 0.8 if stacked else 0.8 / len(levels)
    for ax, (name, table) in zip(axes, groups.items(), strict=True):
        spots, bottom = np.arange(len(table)), np.zeros(len(table))
        for number, (level, shape) in enumerate(zip(levels, shapes, strict=True)):
            beside = 0 if stacked else width * (number - (len(levels) - 1) / 2)
            heights = table[level].to_numpy(float)
            drawn = ax.bar(spots + beside, heights, width, bottom=bottom, **shape)
            if numbers:
                ax.bar_label(drawn, [f"{n:.0f}" if n >= 0.5 else "<1" for n in heights], fontsize=6)
                ax.margins(y=0.15)
            bottom = bottom + heights if stacked else bottom
        ax.set_title(text.short(name, keep="\n"))
        ax.set_xticks(spots, text.shorts(table.index, text.BESIDE))
    for ax in axes[::columns]:
        ax.set_ylabel(y_label)
    for ax in axes[-columns:]:
        ax.set_xlabel(x_label)
    if len(levels) > 1:
        handles = [Patch(label=level, **shape) for level, shape in zip(levels, shapes, strict=True)]
        style.legend(fig, handles)
    return fig


def client_bars(labels: pd.Series, partitions: Mapping[str, Sequence[np.ndarray]]) -> Figure:
    """Rows of each class at each client, a panel for each partition.

    labels: the target column. partitions: name -> row positions of each client.
    """
    labels = labels.astype("category").reset_index(drop=True)
    counts = {}
    for name, parts in partitions.items():
        table = pd.DataFrame([labels.iloc[part].value_counts(sort=False) for part in parts])
        table = table.add_prefix(f"{labels.name} ").set_axis(range(1, len(parts) + 1))
        counts[partition_name(name)] = table
    return bars(counts, x_label="client", y_label="rows", stacked=True, columns=len(counts))
