"""The picture of the verdict: for each work how many exhibits, printed cells and claims came out
how."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedsynth_lib.figures.style import BLUE, FULL_WIDTH, SKY, VERMILLION
from fedsynth_lib.printed.outcomes import COUNTED, OUTCOMES, STATES

GOOD, FAIR, POOR, BAD = (BLUE, ""), (SKY, "//"), ("#F0C9A8", "...."), (VERMILLION, "xxx")
UNKNOWN, NOTHING = ("#D5D5D5", ""), ("white", "")
Shade = tuple[str, str]  # colour and hatch, told apart in grey as well
PANELS: dict[str, dict[str, Shade]] = {
    "exhibits": dict(zip(STATES, (GOOD, FAIR, UNKNOWN, NOTHING), strict=True)),
    "printed cells": dict(zip(COUNTED, (GOOD, FAIR, BAD, UNKNOWN, NOTHING), strict=True)),
    "claims": dict(zip(OUTCOMES, (GOOD, FAIR, POOR, BAD, UNKNOWN), strict=True)),
}


def outcomes(counts: pd.DataFrame, *, panels: Mapping[str, Mapping[str, Shade]] = PANELS) -> Figure:
    """A panel of stacked bars for each group of columns, works down, shares of each work across,
    counts written in.

    counts: what `verdict.headline` returns.
    """
    fig, axes = plt.subplots(
        1, len(panels), figsize=(FULL_WIDTH, 1.5 + 0.32 * len(counts)), sharey=True
    )
    places = np.arange(len(counts))[::-1]
    for ax, (group, shades) in zip(axes, panels.items(), strict=True):
        numbers = _numbers(counts, group, list(shades))
        totals = numbers.sum(axis=1).clip(1)
        left = np.zeros(len(counts))
        for column, (colour, hatch) in zip(numbers.T, shades.values(), strict=True):
            share = 100 * column / totals
            ax.barh(
                places,
                share,
                left=left,
                color=colour,
                hatch=hatch,
                edgecolor="#333333",
                linewidth=0.4,
            )
            for place, start, width, number in zip(places, left, share, column, strict=True):
                if width >= 9:
                    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
                    ax.text(
                        start + width / 2,
                        place,
                        int(number),
                        ha="center",
                        va="center",
                        fontsize=6.5,
                        bbox=box,
                    )
            left += share
        ax.set(title=group, xlabel="percent", xlim=(0, 100))
        ax.grid(axis="y", visible=False)
        looks = {"edgecolor": "#333333", "linewidth": 0.4}
        keys = [
            Patch(facecolor=colour, hatch=hatch, label=name, **looks)
            for name, (colour, hatch) in shades.items()
        ]
        ax.legend(
            handles=keys,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.3),
            ncols=2,
            fontsize=6,
            frameon=False,
        )
    axes[0].set_yticks(places, counts.index)
    return fig


def _numbers(counts: pd.DataFrame, group: str, names: list[str]) -> np.ndarray:
    """(works, shades); what a group does not count is the rest of its `of`."""
    own = counts[group].drop(columns="of")
    rest = counts[group, "of"] - own.sum(axis=1)
    return np.stack([own.get(name, rest) for name in names], axis=1).astype(float)
