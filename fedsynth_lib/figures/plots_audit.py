"""The plots of the privacy audit: scores of runs on two tables, and what was measured of each
claim."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.figures.style import FULL_WIDTH, GREY, look


def scores(runs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Shares of runs by score, with the record and without it; a panel for each kind of run. Scores
    have few values."""
    fig, axes = plt.subplots(1, len(runs), figsize=(FULL_WIDTH, 2.3), squeeze=False, sharey=True)
    for ax, (name, pair) in zip(axes[0], runs.items(), strict=True):
        columns = {"with the record": pair[0], "without it": pair[1]}
        counted = {
            label: pd.Series(np.round(own, 2) + 0.0).value_counts(normalize=True)
            for label, own in columns.items()
        }
        shares = 100 * pd.DataFrame(counted).sort_index().fillna(0)
        shares.plot.bar(
            ax=ax,
            title=name,
            xlabel="score of a run",
            ylabel="runs (%)",
            rot=0,
            legend=ax is axes[0, 0],
        )
    axes[0, 0].margins(y=0.4)  # room for the legend
    return fig


def bounds(lines: pd.DataFrame) -> Figure:
    """For each method (a row) the lower bound, and the control's, as shares of the claim; one
    colour per method.

    lines: columns method, epsilon, lower and control.
    """
    fig, ax = plt.subplots(figsize=(FULL_WIDTH, 0.6 + 0.26 * len(lines)))
    places = np.arange(len(lines))[::-1]
    for place, line in zip(places, lines.itertuples(), strict=True):
        own = look(line.method)
        lower, control = line.lower / line.epsilon, line.control / line.epsilon
        ax.plot([0, lower], [place, place], color=own.colour, linewidth=2)
        ax.plot(lower, place, own.marker, color=own.colour, markersize=6)
        ax.plot(control, place, own.marker, color=own.colour, markersize=6, markerfacecolor="white")
    ax.axvline(1, color=GREY, linestyle=":")
    labels = [f"{line.method}, ε = {line.epsilon:g}" for line in lines.itertuples()]
    ax.set(
        yticks=places,
        yticklabels=labels,
        xlim=(0, None),
        xlabel="lower bound, as a share of the claimed epsilon",
    )
    ax.set_title(
        "filled: as calibrated; hollow: with 0.3 times the noise; dotted: the claim", loc="left"
    )
    return fig
