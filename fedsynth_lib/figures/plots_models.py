"""FedBN and FedVAE side by side (martinez2024, section 6.4)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import FULL_WIDTH, look, pretty
from fedsynth_lib.metrics.registry import METRICS

WAYS = {"lower": " ↓", "higher": " ↑", "half": ""}


def side_by_side(
    cells: pd.DataFrame, metrics: Sequence[str], methods: Sequence[str] = ("fedbn", "fedvae")
) -> Figure:
    """Every federated scenario of each method: a line of panels for each metric, a panel for each
    table.

    cells: dataset, method, epsilon, metric, `ours` and `published` means, as `published.compare`
        makes them for federated rows. Filled markers are ours, hollow ones to their right
        published; a dash is the mean of either.
    """
    cells = cells[cells["metric"].isin(list(metrics)) & cells["method"].isin(list(methods))]
    if cells.empty:
        raise BadInput(
            f"there are no cells of {', '.join(metrics)}: run cells of that group for both models."
        )
    datasets = list(cells["dataset"].unique())
    levels = sorted(cells["epsilon"].unique(), reverse=True)
    size = (FULL_WIDTH, 1.35 * len(metrics) + 0.7)
    fig, axes = plt.subplots(
        len(metrics), len(datasets), figsize=size, sharex=True, sharey="row", squeeze=False
    )
    for line, metric in zip(axes, metrics, strict=True):
        for ax, dataset in zip(line, datasets, strict=True):
            own = cells[(cells["metric"] == metric) & (cells["dataset"] == dataset)]
            for number, method in enumerate(methods):
                _points(
                    ax,
                    own[own["method"] == method],
                    levels,
                    method,
                    (number - (len(methods) - 1) / 2) * 0.44,
                )
        label = METRICS[metric].label if metric in METRICS else pretty(metric)
        line[0].set_ylabel(
            _broken(label) + WAYS[METRICS[metric].better] if metric in METRICS else label
        )
    for ax, dataset in zip(axes[0], datasets, strict=True):
        ax.set_title(dataset)
    for ax in axes[-1]:
        ax.set_xticks(
            range(len(levels)), ["no noise" if np.isinf(e) else f"ε = {e:g}" for e in levels]
        )
        ax.set_xlim(-0.5, len(levels) - 0.5)
    handles = [
        plt.Line2D(
            [],
            [],
            linestyle="",
            color=style.colour,
            marker=style.marker,
            markerfacecolor=fill,
            label=text,
        )
        for style, fill, text in [
            (
                look(method),
                look(method).colour if ours else "none",
                f"{method}, {'ours' if ours else 'published'}",
            )
            for method in methods
            for ours in (True, False)
        ]
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return fig


def _points(
    ax: plt.Axes, cells: pd.DataFrame, levels: Sequence[float], method: str, shift: float
) -> None:
    style = look(method)
    for column, sideways, fill in (("ours", -0.09, style.colour), ("published", 0.09, "none")):
        values = cells.dropna(subset=[column])
        place = np.array([levels.index(e) for e in values["epsilon"]]) + shift + sideways
        ax.plot(
            place,
            values[column],
            style.marker,
            color=style.colour,
            markerfacecolor=fill,
            markersize=3,
            alpha=0.6,
        )
        means = values.groupby("epsilon")[column].mean()
        for epsilon, mean in means.items():
            spot = levels.index(epsilon) + shift + sideways
            ax.plot([spot - 0.08, spot + 0.08], [mean, mean], color="black", linewidth=1.2)


def _broken(label: str, longest: int = 18) -> str:
    """A label cut into two lines near its middle."""
    if len(label) <= longest:
        return label
    spaces = [place for place, letter in enumerate(label) if letter == " "]
    if not spaces:
        return label
    middle = min(spaces, key=lambda place: abs(place - len(label) / 2))
    return f"{label[:middle]}\n{label[middle + 1 :]}"
