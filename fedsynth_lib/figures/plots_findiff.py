"""Pictures of sattarov2024: who holds what, what a budget costs, maps of synthetic tables, risks by
attack."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    Look,
)

TABLES = {  # the four tables of the work, wherever each has a line of its own
    "credit_default": Look(BLUE, "o", "-", "//"),
    "adult": Look(ORANGE, "s", "--", "\\\\"),
    "philadelphia": Look(GREEN, "^", "-.", ".."),
    "bank": Look(BLACK, "D", ":", "xx"),
}
MEASURES = {"risk": "privacy risk Π ↓", "accuracy": "utility Φ ↑", "fidelity": "fidelity Ω ↑"}
ATTACKS = {"singling_out": "singling out", "linkability": "linkability", "inference": "inference"}


def client_shares(
    shares: Mapping[str, Mapping[int, Sequence[float]]], columns: Mapping[str, str]
) -> Figure:
    """Figure 3: a panel for each table and number of clients; bars are the clients' shares of the
    rows in percent.

    shares: table -> number of clients -> shares. columns: table -> the column that it was divided
        by.
    """
    counts = list(next(iter(shares.values())))
    size = (FULL_WIDTH, 0.5 + 1.25 * len(shares))
    fig, axes = plt.subplots(len(shares), len(counts), figsize=size, sharey=True, squeeze=False)
    for row, (table, by_count) in zip(axes, shares.items(), strict=True):
        for ax, count in zip(row, counts, strict=True):
            percent = 100 * np.asarray(by_count[count])
            bars = ax.bar(
                np.arange(1, count + 1), percent, color=TABLES.get(table, Look(BLUE, "o")).colour
            )
            ax.bar_label(
                bars, [f"{value:.0f}" if value >= 0.5 else "<1" for value in percent], fontsize=6
            )
            ax.set_xticks(np.arange(1, count + 1))
            ax.margins(y=0.15)
        row[0].set_ylabel(f"{table}\nby {columns[table]}\nrows (%)")
    for ax, count in zip(axes[0], counts, strict=True):
        ax.set_title(f"{count} clients")
    for ax in axes[-1]:
        ax.set_xlabel("client")
    return fig


def heatmaps(tables: Mapping[str, pd.DataFrame], *, references: int = 0) -> Figure:
    """Figure 5: a map beside each other for every measure, tables down, budgets across, values
    written in.

    tables: title -> (tables, budgets). references: so many columns at the end are what is known of
        other rows, and stand apart. Darker is more of the measure, over all cells of its map.
    """
    fig, axes = plt.subplots(1, len(tables), figsize=(FULL_WIDTH, 2.2), sharey=True, squeeze=False)
    for ax, (title, values) in zip(axes[0], tables.items(), strict=True):
        low, high = np.nanmin(values), np.nanmax(values)
        ax.imshow(values, cmap="Blues", aspect="auto", vmin=low - 0.05, vmax=high)
        for (i, j), value in np.ndenumerate(values.to_numpy()):
            dark = value > low + 0.6 * (high - low)
            text = "–" if np.isnan(value) else f"{value:.2f}"
            ax.text(
                j,
                i,
                text,
                ha="center",
                va="center",
                fontsize=6.5,
                color="white" if dark else "black",
            )
        if references:
            ax.axvline(values.shape[1] - references - 0.5, color=BLACK, linewidth=1.2)
        ax.set_xticks(range(values.shape[1]), values.columns, rotation=45, ha="right")
        ax.set_yticks(range(len(values)), values.index)
        ax.grid(False)
        ax.set(title=title, xlabel="budget ε")
    return fig


def maps(rows: pd.DataFrame, titles: Mapping[float, str], mixed: Mapping[float, float]) -> Figure:
    """Figure 6: panels of one common t-SNE map; real rows in grey behind each synthetic table.

    rows: of `sattarov2024.placed`: a dot for each square of the map, its area the share of rows.
        titles: epsilon -> title; the panel of the real rows comes first. mixed: epsilon -> how well
        the two mix, at most 0.5.
    """
    fig, axes = plt.subplots(
        1,
        len(titles) + 1,
        figsize=(FULL_WIDTH, 1.9),
        sharex=True,
        sharey=True,
        gridspec_kw={"wspace": 0.05},
    )
    real = rows[rows["setting"] == "real"]
    _squares(axes[0], real, GREY)
    axes[0].set(title="original", xlabel="real rows")
    for ax, (epsilon, title) in zip(axes[1:], titles.items(), strict=True):
        _squares(ax, real, GREY)
        _squares(ax, rows[(rows["setting"] != "real") & (rows["epsilon"] == epsilon)], VERMILLION)
        ax.set(title=title, xlabel=f"mixing {mixed[epsilon]:.2f}")
    for ax in axes:
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
    return fig


def _squares(ax: plt.Axes, rows: pd.DataFrame, colour: str) -> None:
    places = rows["item"].str.split(" ", expand=True).astype(int)
    ax.scatter(places[0], places[1], s=2000 * rows["value"], color=colour, alpha=0.6, linewidths=0)


def risks_by_attack(rows: pd.DataFrame, *, epsilons: Sequence[float]) -> Figure:
    """Figure 7: a panel for each attack, budgets across, a marker for each table with its 95
    percent interval.

    rows: of sattarov2024 as published; what stands in `<attack>_low` and `_high` is
        averaged over seeds.
    """
    means = rows.groupby(["metric", "dataset", "epsilon"])["value"].mean()
    fig, axes = plt.subplots(1, len(ATTACKS), figsize=(FULL_WIDTH, 2.4), sharex=True)
    drawn = [name for name in TABLES if (rows["dataset"] == name).any()]
    if not drawn:
        raise BadInput(
            "there are no rows of the tables of the work: run the grid of this notebook first."
        )
    for ax, (attack, title) in zip(axes, ATTACKS.items(), strict=True):
        for number, table in enumerate(drawn):
            style = TABLES[table]
            place = np.arange(len(epsilons)) + (number - (len(drawn) - 1) / 2) * 0.16
            middle, low, high = (
                np.array([means[f"{attack}{end}", table, epsilon] for epsilon in epsilons])
                for end in ("", "_low", "_high")
            )
            errors = np.maximum([middle - low, high - middle], 0)
            form = {
                "fmt": style.marker,
                "color": style.colour,
                "ms": 4,
                "elinewidth": 1,
                "label": table,
            }
            ax.errorbar(place, middle, errors, **form)
        ax.set(title=title, xlabel="budget ε")
        ax.set_xticks(range(len(epsilons)), ["∞" if np.isinf(e) else f"{e:g}" for e in epsilons])
        ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    axes[0].set_ylabel("residual risk (0 to 1)")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(drawn))
    return fig


def strategies(rows: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """Figure 9: a panel for each measure, tables across, a marker for each server strategy; bars:
    standard errors.

    rows: tidy, with the column `strategy`.
    """
    drawn = [name for name in TABLES if (rows["dataset"] == name).any()]
    fig, axes = plt.subplots(1, len(MEASURES), figsize=(FULL_WIDTH, 2.6))
    for ax, (metric, title) in zip(axes, MEASURES.items(), strict=True):
        part = (
            rows[rows["metric"] == metric]
            .groupby(["strategy", "dataset"])["value"]
            .agg(["mean", "sem"])
        )
        for number, (name, style) in enumerate(looks.items()):
            own = part.loc[name].reindex(drawn)
            place = np.arange(len(drawn)) + (number - (len(looks) - 1) / 2) * 0.17
            form = {
                "fmt": style.marker,
                "color": style.colour,
                "ms": 4.5,
                "elinewidth": 1,
                "label": name,
            }
            ax.errorbar(place, own["mean"], 2 * own["sem"].fillna(0), **form)
        ax.set(title=title)
        ax.set_xticks(
            range(len(drawn)), [name.replace("_", "\n") for name in drawn], rotation=45, ha="right"
        )
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(looks))
    return fig
