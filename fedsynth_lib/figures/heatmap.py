"""Heat maps: square or oblong tables of values on one scale, or each on its own."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import labels, style
from fedsynth_lib.figures.style import BLACK, COLUMN_WIDTH, FULL_WIDTH
from fedsynth_lib.metrics.fidelity import associations
from fedsynth_lib.metrics.registry import axis_label
from fedsynth_lib.tables.schema import Schema


def heatmap(
    tables: Mapping[str, pd.DataFrame],
    *,
    scale: tuple[float, float] | None = None,
    columns: int = 0,
    written: str = "",
    label: str = "",
    x_label: str = "",
    apart: int = 0,
) -> Figure:
    """A map for each title, at most `columns` in a line; all in one where that is 0.

    tables: title -> frame of values with the rows and columns of the first. scale: the ends of one
        scale, with a colour bar named `label`; without it each map has its own. written: format of
        the values in cells, none where empty. apart: so many columns at the right stand apart.
    """
    first = next(iter(tables.values()))
    columns = min(columns or len(tables), len(tables))
    width = FULL_WIDTH if len(tables) > 1 or scale is None else COLUMN_WIDTH
    square = first.shape[0] == first.shape[1]
    height = (width - 1.1) / columns + 0.2 if square else 0.5 + 0.28 * len(first)
    fig, axes = style.panels(
        len(tables), columns, height=height, width=width, sharex=square, sharey=True
    )
    fig.set_figheight(fig.get_figheight() + 0.45)  # names of columns
    low, high = scale or (None, None)
    look = {"cmap": "RdBu_r" if low is not None and low < 0 else "Blues", "cbar": False}
    look |= {"annot": bool(written), "annot_kws": {"fontsize": 6.5}, "square": square}
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        table = table.loc[first.index].reindex(columns=first.columns if square else table.columns)
        # an own scale begins below the smallest value, which stays visible
        ends = {"vmin": np.nanmin(table) - 0.05 if low is None else low, "vmax": high}
        named = table.set_axis(labels.shorts(table.index, labels.BESIDE)).set_axis(
            labels.shorts(table.columns, labels.BESIDE), axis="columns"
        )
        sns.heatmap(named.astype(float), ax=ax, fmt=written or ".2f", **ends, **look)
        ax.set(title=labels.short(name, keep="\n"), xlabel=x_label, ylabel="")
        ax.grid(visible=False)
        ax.tick_params(length=0)
        ax.tick_params(axis="y", rotation=0)
        if apart:
            ax.axvline(table.shape[1] - apart, color=BLACK, linewidth=1.2)
    if scale is not None:
        fig.colorbar(axes[0].collections[0], ax=list(axes), label=label, shrink=0.8)
    return fig


def association_maps(
    real: pd.DataFrame, synthetic: Mapping[str, pd.DataFrame], *, name: str = "real"
) -> Figure:
    """Matrices of associations of real and of synthetic tables, in [-1, 1].

    real, synthetic: square frames, as the association metric makes them. name: of `real`.
    """
    return heatmap({name: real, **synthetic}, scale=(-1, 1), label="association")


def pair_maps(
    real: pd.DataFrame, schema: Schema, synthetic: Mapping[str, pd.DataFrame], *, name: str = "real"
) -> Figure:
    """As `association_maps`, of tables; takes what `distributions` takes."""
    names = list(schema.names)
    real, *made = (
        pd.DataFrame(associations(frame, schema), names, names)
        for frame in (real, *synthetic.values())
    )
    return association_maps(real, dict(zip(synthetic, made, strict=True)), name=name)


def squares(rows: pd.DataFrame, metric: str, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Method -> square frame over the columns `names`, with 1 on the diagonal; means over seeds.

    rows: tidy rows of one dataset and scheme, a pair of columns `a x b` in `item`. Raises BadInput
        where there are none, or where they mix settings.
    """
    rows = rows[rows["metric"] == metric]
    if rows.empty or rows.duplicated(["method", "item", "seed"]).any():
        remedy = "run its cells" if rows.empty else "choose the rows of one scheme"
        raise BadInput(f"rows of {metric} are missing or mix settings: {remedy}.")
    found = {}
    for method, own in rows.groupby("method", sort=False):
        square = pd.DataFrame(np.eye(len(names)), list(names), list(names))
        for pair, value in own.groupby("item")["value"].mean().items():
            one, other = pair.split(" x ")
            square.loc[one, other] = square.loc[other, one] = value
        found[method] = square
    return found


def association_distances(
    rows: pd.DataFrame, metric: str, names: Sequence[str], *, real: str = "real rows"
) -> Figure:
    """Maps of the associations that `squares` reads, in lines of three, the real ones first.

    Numbers in cells are hundredths. Titles: the mean distance from real rows over pairs. real: name
    of their panel. Raises BadInput where rows of the method `Real` are missing.
    """
    found = squares(rows, metric, names)
    if "Real" not in found:
        raise BadInput(f"rows of {metric} have no method 'Real': add its cells to the grid.")
    pairs, truth = np.triu_indices(len(names), k=1), found.pop("Real")
    tables = {real: 100 * truth}
    for name, square in found.items():
        off = np.abs(square - truth).to_numpy()[pairs].mean()
        tables[f"{name}: {off:.3f} off"] = 100 * square
    whole = {name: table.round() + 0.0 for name, table in tables.items()}  # no minus zero
    low = -100 if truth.to_numpy().min() < 0 else 0
    words = f"100 × {axis_label(metric)}"
    return heatmap(whole, scale=(low, 100), columns=3, written=".0f", label=words)
