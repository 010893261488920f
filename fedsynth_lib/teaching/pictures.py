"""Pictures of single lessons, so that lessons hold questions and numbers, not axes.

No other notebook draws them.
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import laplace, norm

from fedsynth_lib.figures.distributions import REAL_FILL
from fedsynth_lib.figures.style import BLUE, FULL_WIDTH, GREY, ORANGE

# --- 00, who was in this table -------------------------------------------------------------------


def attacked(curve: pd.DataFrame, without_names: float) -> Figure:
    """Draw how often an attacker is right, and how far the table is off, against epsilon.

    curve: what `game.curve` returns. without_names: right guesses (%) where the rows are published.
    """
    fig, axes = plt.subplots(1, 2, figsize=(FULL_WIDTH, 2.4))
    looks = {"people in the table": ("o-", BLUE), "other people": ("s--", ORANGE)}
    looks["error of pairs"] = ("o-", BLUE)
    for name, (look, color) in looks.items():
        runs = curve[curve["measure"] == name].groupby("epsilon")["value"]
        spread = runs.mean() - runs.min(), runs.max() - runs.mean()  # all runs, from least to most
        style = {"color": color, "label": name, "capsize": 3}
        axes[int(name == "error of pairs")].errorbar(
            runs.mean().index, runs.mean(), spread, fmt=look, **style
        )
    axes[0].axhline(without_names, color=GREY, linestyle=":", label="table without names")
    axes[0].set(ylim=(0, 100), xscale="log", xlabel="epsilon", ylabel="guesses right (%)")
    axes[0].legend(loc="center right")
    error = "error of pairs of columns ↓"
    axes[1].set(ylim=(0, None), xscale="log", xlabel="epsilon", ylabel=error)
    for each in axes:
        each.xaxis.set_major_formatter("{x:g}")
    return fig


# --- 02, the privacy budget ----------------------------------------------------------------------


def odds(released: pd.DataFrame, epsilon: float, right: float) -> Figure:
    """Draw outputs with and without Ann, and the share of right guesses that any epsilon allows.

    A dot marks the share `right` of the game at `epsilon`.
    """
    fig, axes = plt.subplots(1, 2, figsize=(FULL_WIDTH, 2.4))
    shares = 100 * released.apply(pd.Series.value_counts, normalize=True)
    shares = shares.loc[3 - 5 / epsilon : 4 + 5 / epsilon]
    look = {"style": ["o-", "s--"], "xlabel": "released number of the ill"}
    shares.plot(ax=axes[0], ylabel="outputs (%)", **look)
    bound = pd.Series({e: 100 / (1 + np.exp(-e)) for e in np.geomspace(0.01, 20, 200)})
    words = {"ylabel": "guesses right (%)", "title": f"dot: the game, {right:.1%}"}
    bound.plot(ax=axes[1], logx=True, xlabel="epsilon", **words)
    axes[1].plot(epsilon, 100 * right, "o")
    return fig


def noises(drawn: np.ndarray, *, scale: float, sigma: float, delta: float) -> Figure:
    """Draw log densities of Laplace and Gaussian noise, and the privacy loss.

    The densities are drawn over those of discrete draws. The loss says by how much a log density
    changes where the output changes by one.
    """
    reach = int(1.5 * sigma**2 / scale)
    z = np.linspace(-reach, reach, 20 * reach + 1)  # in steps of 0.1
    logs = {"Laplace": laplace.logpdf(z, 0, scale)}
    logs[f"Gaussian, delta {delta:g}"] = norm.logpdf(z, 0, sigma)
    logs, look = pd.DataFrame(logs, z), {"style": ["-", "--"]}
    fig, axes = plt.subplots(1, 2, figsize=(FULL_WIDTH, 2.5))
    logs.plot(ax=axes[0], xlabel="noise", ylabel="log density", ylim=(-16, 8), **look)
    words = {"xlabel": "output", "ylabel": "privacy loss"}
    logs.diff(10).abs().plot(ax=axes[1], legend=False, **words, **look)
    shares = np.log(pd.Series(drawn).value_counts(normalize=True))
    axes[0].plot(shares, ".", label="discrete Laplace, drawn")
    axes[0].legend(loc="upper left")
    return fig


# --- 12, CTGAN -----------------------------------------------------------------------------------


def bird_weights(real: pd.DataFrame, made: Mapping[int, pd.DataFrame]) -> Figure:
    """Draw weights of made birds, a line for each kind and a panel for each number of rounds.

    All real birds are in grey.
    """
    fig, axes = plt.subplots(1, len(made), figsize=(FULL_WIDTH, 2.2), sharey=True)
    for ax, (rounds, birds) in zip(axes, made.items(), strict=True):
        ax.hist(real["weight"], 45, range=(0, 15), color=REAL_FILL)
        kinds = birds.groupby("kind", observed=False)["weight"]
        for (kind, own), line in zip(kinds, ("-", "--", ":"), strict=True):
            ax.hist(own, 45, range=(0, 15), histtype="step", linestyle=line, label=kind)
        words = {"xlabel": "weight (kg)", "ylabel": "birds"}
        ax.set(title=f"rounds of training: {rounds}", yscale="log", **words)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


# --- 13, AIM and FLAIM ---------------------------------------------------------------------------


def skews(true: np.ndarray, proxy: np.ndarray, picks: Mapping[str, np.ndarray]) -> Figure:
    """Draw the proxy against the true heterogeneity, and the true one of clients' choices.

    true, proxy: of clients and marginals, in any shape. picks: penalty -> the true heterogeneity of
    what clients picked. The grey line is the mean of all true values.
    """
    fig, axes = plt.subplots(1, 2, figsize=(FULL_WIDTH, 2.7))
    cloud = true.ravel(), proxy.ravel()
    axes[0].plot(*cloud, ".", markersize=1, alpha=0.2, rasterized=True)
    title = f"correlation {np.corrcoef(cloud)[0, 1]:.2f}"
    axes[0].set(xlabel="true heterogeneity", ylabel="proxy", title=title)
    axes[1].boxplot(list(picks.values()), showmeans=True)
    axes[1].set_xticks(range(1, len(picks) + 1), list(picks))
    axes[1].axhline(cloud[0].mean(), color=GREY, linestyle="--")
    axes[1].set(ylabel="true heterogeneity of the choice", title="choices, by penalty")
    return fig
