"""The picture of the verdict: for each work how many exhibits, printed cells and claims came out how."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.figures import BLUE, FULL_WIDTH, SKY, VERMILLION

SHADES = [(BLUE, ""), (SKY, "//"), (VERMILLION, "xx"), ("#DDDDDD", "")]  # from best to unknown
PANELS = {
    "exhibits": ["in full", "shrunk", "", "not made"],
    "printed cells": ["within", "ordering", "different", ""],
    "claims": ["holds", "holds partly", "does not hold", "not tested at this scale"],
}
MEANING = {  # of the shades, in their order
    "exhibits": "at profile paper / quick / not yet",
    "printed cells": "within the spread / order kept / different",
    "claims": "hold / partly / do not hold / not tested",
}


def outcomes(counts: pd.DataFrame, *, panels: Mapping[str, list[str]] = PANELS) -> Figure:
    """A panel of stacked bars for each group of columns, works down, shares of each work across, counts written in.

    counts: what `verdict.headline` returns.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL_WIDTH, 0.9 + 0.32 * len(counts)), sharey=True)
    places = np.arange(len(counts))[::-1]
    for ax, (group, names) in zip(axes, panels.items(), strict=True):
        numbers = _numbers(counts, group, names)
        totals = numbers.sum(axis=1).clip(1)
        left = np.zeros(len(counts))
        for column, (colour, hatch) in zip(numbers.T, SHADES, strict=True):
            share = 100 * column / totals
            ax.barh(places, share, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
            for place, start, width, number in zip(places, left, share, column, strict=True):
                if width >= 9:
                    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
                    ax.text(start + width / 2, place, int(number), ha="center", va="center", fontsize=6.5, bbox=box)
            left += share
        ax.set(title=f"{group}\n", xlabel="percent", xlim=(0, 100))
        ax.text(50, len(counts) - 0.35, MEANING[group], ha="center", fontsize=6)
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(places, counts.index)
    return fig


def _numbers(counts: pd.DataFrame, group: str, names: list[str]) -> np.ndarray:
    """(works, four shades)."""
    own = counts[group]
    if group == "exhibits":
        own = own.assign(**{"not made": own["of"] - own["in full"] - own["shrunk"]})
    return np.stack([own[name] if name else np.zeros(len(own)) for name in names], axis=1).astype(float)
