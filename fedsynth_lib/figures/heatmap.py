"""Heat maps: square tables of values on one scale."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import labels, style
from fedsynth_lib.figures.style import COLUMN_WIDTH, FULL_WIDTH
from fedsynth_lib.metrics.fidelity import associations
from fedsynth_lib.metrics.registry import axis_label
from fedsynth_lib.tables.schema import Schema


def heatmap(
    tables: Mapping[str, pd.DataFrame],
    *,
    scale: tuple[float, float],
    columns: int = 0,
    written: str = "",
    label: str = "",
) -> Figure:
    """Draw a square map for each title, at most `columns` in a line; all in one where that is 0.

    tables: title -> square frame of values; the rows and columns of the first count. scale: the
        ends of the scale of all, whose colour bar is named `label`. written: format of the values
        in cells, none where empty.
    """
    names = next(iter(tables.values())).index
    columns = min(columns or len(tables), len(tables))
    width = FULL_WIDTH if len(tables) > 1 else COLUMN_WIDTH
    size = {"height": (width - 1.1) / columns + 0.2, "width": width}
    fig, axes = style.panels(len(tables), columns, sharex=True, sharey=True, **size)
    fig.set_figheight(fig.get_figheight() + 0.45)  # names of columns
    look = {"cmap": "RdBu_r" if scale[0] < 0 else "Blues", "cbar": False, "square": True}
    look |= {"annot": bool(written), "annot_kws": {"fontsize": 6.5}, "fmt": written or ".2f"}
    texts = labels.shorts(names, labels.BESIDE)
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        named = pd.DataFrame(table.loc[names, names].to_numpy(float), texts, texts)
        sns.heatmap(named, ax=ax, vmin=scale[0], vmax=scale[1], **look)
        ax.set(title=labels.short(name, keep="\n"), xlabel="", ylabel="")
        ax.grid(visible=False)
        ax.tick_params(length=0)
        ax.tick_params(axis="y", rotation=0)
    fig.colorbar(axes[0].collections[0], ax=list(axes), label=label, shrink=0.8)
    return fig


def pair_maps(
    real: pd.DataFrame, schema: Schema, synthetic: Mapping[str, pd.DataFrame], *, name: str = "real"
) -> Figure:
    """Draw the associations of all pairs of columns; takes what `distributions` takes."""
    names = list(schema.names)
    maps = {
        title: pd.DataFrame(associations(frame, schema), names, names)
        for title, frame in {name: real, **synthetic}.items()
    }
    return heatmap(maps, scale=(-1, 1), label="association")


def squares(rows: pd.DataFrame, metric: str, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return, for each method, a square frame over the columns `names` of means over seeds.

    The diagonal is 1.

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
    """Draw the associations that `squares` reads, in lines of three maps, the real ones first.

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
