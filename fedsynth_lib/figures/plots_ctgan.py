"""Figures of leitner2023: accuracies by classifier, scores beside the printed ones, associations of
columns.

Each returns a Figure; `figures.save_figure` saves it. Methods have their own colour, marker and
hatch (`figures.look`).
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.plots import association_heatmaps
from fedsynth_lib.figures.style import BLACK, FULL_WIDTH, GREY, Look, look, pretty

REAL = "Real"
CLASSIFIERS = {"knn": "k-NN", "mlp": "MLP", "rf": "forest", "ada": "AdaBoost"}
STEP = 0.16  # from method to method, where groups of them stand 1 apart
BOXES = "Box: quartiles, whiskers: all runs, marker: median. One run: marker alone."
LABELS = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "jsd": "JSD (0 to 1)",
    "wd": "WD (parts of the range)",
}
# and where the scale begins
MEASURES = {"cramers_v": ("Cramér's V", 0.0), "pearson": ("Pearson's r", -1.0)}


def accuracy_boxes(rows: pd.DataFrame, guess: Mapping[str, float] | None = None) -> Figure:
    """Accuracy of each classifier by method, a panel for each dataset (figure 5.3).

    rows: tidy rows of metric `accuracy_<classifier>`; those of one method and dataset are runs that
        differ in the seed.
    Real rows are a dashed line at their median. guess: dataset -> accuracy without looking at a
    row, a dotted line.
    """
    rows = rows[rows["metric"].isin([f"accuracy_{name}" for name in CLASSIFIERS])]
    _check(rows, ["dataset", "method", "metric", "seed"], "accuracies by classifier")
    datasets, methods = (
        list(rows["dataset"].unique()),
        [name for name in rows["method"].unique() if name != REAL],
    )
    lines, columns = -(-len(datasets) // 2), min(2, len(datasets))
    fig, axes = plt.subplots(
        lines, columns, figsize=(FULL_WIDTH, 0.7 + 1.75 * lines), squeeze=False
    )
    for ax in axes.flat[len(datasets) :]:
        ax.set_axis_off()
    for ax, dataset in zip(axes.flat, datasets, strict=False):
        for spot, classifier in enumerate(CLASSIFIERS):
            found = rows[
                (rows["dataset"] == dataset) & (rows["metric"] == f"accuracy_{classifier}")
            ]
            runs = dict(iter(found.groupby("method")["value"]))
            if REAL in runs:
                ax.plot(
                    [spot - 0.45, spot + 0.45],
                    [runs[REAL].median()] * 2,
                    color=BLACK,
                    linestyle="--",
                    linewidth=1,
                )
            for place, method in zip(_places(spot, methods), methods, strict=True):
                if method in runs:
                    _box(ax, place, runs[method].to_numpy(float), look(method))
        if guess and dataset in guess:
            ax.axhline(guess[dataset], color=GREY, linestyle=":", linewidth=1)
        ax.set(title=dataset, xlim=(-0.5, len(CLASSIFIERS) - 0.5))
        ax.set_xticks(range(len(CLASSIFIERS)), list(CLASSIFIERS.values()))
    for row in axes:
        row[0].set_ylabel("accuracy")
    handles = {method: (_patch(look(method)), _mark(look(method))) for method in methods}
    handles["trained on real rows"] = plt.Line2D([], [], color=BLACK, linestyle="--", linewidth=1)
    if guess:
        handles["always the most frequent class"] = plt.Line2D(
            [], [], color=GREY, linestyle=":", linewidth=1
        )
    fig.legend(
        list(handles.values()), list(handles), loc="outside upper center", ncols=4, handlelength=2.4
    )
    return fig


def beside_print(compared: pd.DataFrame, *, log: bool = False) -> Figure:
    """Ours (filled) and printed (hollow) means by dataset and method, a panel for each metric.

    compared: what `published.compare` returns, of one exhibit or of several. Bars: two standard
        errors over seeds.
    Datasets without a run are left out. log: logarithmic values.
    """
    ran = compared.loc[compared["n"] > 0, "dataset"].unique()
    if not len(ran):
        raise BadInput("the comparison has no value of ours: run cells of the exhibit first.")
    cells = compared[compared["dataset"].isin(ran)]
    metrics, methods = list(cells["metric"].unique()), list(cells["method"].unique())
    fig, axes = plt.subplots(
        len(metrics), figsize=(FULL_WIDTH, 0.6 + 1.7 * len(metrics)), sharex=True, squeeze=False
    )
    for ax, metric in zip(axes.flat, metrics, strict=True):
        for number, method in enumerate(methods):
            own = (
                cells[(cells["metric"] == metric) & (cells["method"] == method)]
                .set_index("dataset")
                .reindex(ran)
            )
            place = _places(np.arange(len(ran)), methods)[number]
            error = (2 * own["ours_std"] / np.sqrt(own["n"])).where(own["n"] > 1)
            shape = {"color": look(method).colour, "linestyle": "", "marker": look(method).marker}
            ends = own[["ours", "published"]].to_numpy(float).T  # (2, datasets)
            ax.plot(
                [place - 0.03, place + 0.05],
                ends,
                color=look(method).colour,
                linewidth=0.6,
                alpha=0.7,
            )
            ax.errorbar(
                place - 0.03, own["ours"], error, elinewidth=0.8, label=f"{method}, ours", **shape
            )
            ax.plot(
                place + 0.05,
                own["published"],
                markerfacecolor="white",
                label=f"{method}, printed",
                **shape,
            )
        ax.set(ylabel=LABELS.get(metric, pretty(metric)), xlim=(-0.5, len(ran) - 0.5))
        if log:
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_locator(NullLocator())
        ax.set_xticks(range(len(ran)), ran)
        ax.tick_params(axis="x", length=0)
        for border in range(1, len(ran)):
            ax.axvline(border - 0.5, color="#DDDDDD", linewidth=0.8)
    handles = [_mark(look(method)) for method in methods]
    fig.legend(handles, methods, loc="outside upper center", ncols=len(methods))
    return fig


def association_squares(
    rows: pd.DataFrame, metric: str, names: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """Method -> square frame over the columns `names`, with 1 on the diagonal; means over seeds.

    rows: tidy rows of `cramers_v` or `pearson` of one dataset and scheme, a pair of columns `a x b`
        in `item`.
    """
    rows = rows[rows["metric"] == metric]
    _check(rows, ["method", "item", "seed"], f"rows of {metric}")
    squares = {}
    for method, own in rows.groupby("method", sort=False):
        square = pd.DataFrame(np.eye(len(names)), list(names), list(names))
        for pair, value in own.groupby("item")["value"].mean().items():
            one, other = pair.split(" x ")
            square.loc[one, other] = square.loc[other, one] = value
        squares[method] = square
    return squares


def association_panels(
    rows: pd.DataFrame, metric: str, names: Sequence[str], *, real: str = "real rows"
) -> Figure:
    """Heatmaps of `association_squares` in rows of three, the real ones first (figures 5.4 and
    5.5).

    Numbers in cells are hundredths. Titles: the mean distance from real rows over pairs. real: name
    of their panel.
    """
    squares = association_squares(rows, metric, names)
    if REAL not in squares:
        raise BadInput(f"rows of {metric} have no method {REAL!r}: add its cells to the grid.")
    pairs, (named, low) = np.triu_indices(len(names), k=1), MEASURES[metric]
    off = {
        name: np.abs(square - squares[REAL]).to_numpy()[pairs].mean()
        for name, square in squares.items()
    }
    titled = {
        f"{name}: {off[name]:.3f} off": square for name, square in squares.items() if name != REAL
    }
    fig = association_heatmaps(squares[REAL], titled, name=real, columns=3, low=low)
    fig.axes[-1].set_ylabel(named)  # of the colour bar
    for ax in fig.axes:
        for image in ax.images:  # the colour bar has none
            for (row, column), value in np.ndenumerate(image.get_array()):
                white = abs(value) > 0.6
                style = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": 7,
                    "color": "white" if white else BLACK,
                }
                ax.text(column, row, f"{100 * value:.0f}".replace("-0", "0"), **style)
    return fig


def _check(rows: pd.DataFrame, keys: list[str], what: str) -> None:
    """Raise BadInput where there is nothing to draw, or where values of several settings would be
    taken as one."""
    if rows.empty:
        raise BadInput(f"there are no {what} to draw: run cells that measure them.")
    if rows.duplicated(keys).any():
        raise BadInput(
            f"{what} mix settings: several agree in {', '.join(keys)}; choose the rows of one "
            "scheme."
        )


def _places(spot: float | np.ndarray, methods: Sequence[str]) -> list:
    """Where each method's mark stands, side by side around `spot`."""
    return [spot + STEP * (number - (len(methods) - 1) / 2) for number in range(len(methods))]


def _patch(style: Look) -> Patch:
    return Patch(facecolor="white", edgecolor=style.colour, hatch=2 * style.hatch, linewidth=0.8)


def _mark(style: Look) -> plt.Line2D:
    return plt.Line2D([], [], **_mark_shape(style))


def _mark_shape(style: Look) -> dict:
    """A marker with a light rim, so that it is seen on its own box."""
    rim = {"markeredgecolor": "white", "markeredgewidth": 0.5} if style.marker != "x" else {}
    return {"color": style.colour, "marker": style.marker, "linestyle": "", "markersize": 5, **rim}


def _box(ax: Axes, place: float, values: np.ndarray, style: Look) -> None:
    """Quartiles, extremes and median of several values; the marker alone of one."""
    if len(values) > 1:
        line = {"color": style.colour, "linewidth": 0.8}
        box = {
            "facecolor": "white",
            "edgecolor": style.colour,
            "hatch": 2 * style.hatch,
            "linewidth": 0.8,
        }
        lines = {"medianprops": line, "whiskerprops": line, "capprops": line, "boxprops": box}
        ax.boxplot(
            values, positions=[place], widths=0.75 * STEP, whis=(0, 100), patch_artist=True, **lines
        )
    ax.plot(place, np.median(values), zorder=3, **_mark_shape(style))
