"""Table and picture of membership attacks: what a method promises, and what the attacks show of
it."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.audit.shadow import ATTACKS
from fedsynth_lib.figures.style import FULL_WIDTH, GREY, Look, look
from fedsynth_lib.runs.names import YARDSTICKS

COLUMNS = {
    "epsilon_bound": "ε at least",
    "attack": "attack",
    "attack_tpr1": "TPR at 1 %",
    "attack_tpr1_low": "low",
    "attack_tpr1_high": "high",
    "attack_tpr01": "TPR at 0.1 %",
    "attack_auc": "AUC",
    "closest": "AUC closest",
    "epsilon_ceiling": "most that can be shown",
    "attack_trials": "trials",
}


def strongest(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each method and epsilon: the measures of the attack that shows most on the first
    half of the runs.

    `closest` is the AUC of the nearest synthetic row, for comparison; -1 stands for known rows,
    which claim nothing.
    """
    keys = ["method", "epsilon"]
    found = {}
    for key, own in rows.assign(epsilon=rows["epsilon"].fillna(-1)).groupby(keys, sort=False):
        table = own.pivot_table("value", "item", "metric")
        attack = table.loc[list(ATTACKS), "epsilon_first_half"].idxmax()
        whole = table.loc["", ["epsilon_ceiling", "attack_trials"]]
        line = {
            **table.loc[attack],
            **whole,
            "attack": attack,
            "closest": table.loc["closest", "attack_auc"],
        }
        found[key] = line
    return pd.DataFrame(found).T.infer_objects().rename_axis(keys)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of the strongest attacks, as `COLUMNS` names them; an empty entry is more than the
    trials can tell."""
    lines = strongest(rows).reindex(columns=list(COLUMNS)).rename(columns=COLUMNS)
    claimed = [
        "none" if epsilon < 0 or np.isinf(epsilon) else f"{epsilon:g}" for _, epsilon in lines.index
    ]
    lines.index = pd.MultiIndex.from_arrays(
        [lines.index.get_level_values(0), claimed], names=["method", "claimed ε"]
    )
    lines["trials"] = lines["trials"].astype(int)
    return lines


def bounds(rows: pd.DataFrame) -> Figure:
    """Bound on epsilon, and true positive rate at 1 percent false alarms, of the strongest attack
    on each method.

    Filled: at epsilon 1. Hollow: without noise, or as little as was tried. Dashed: the claim, and
    guessing.
    """
    lines = strongest(rows)
    methods = list(dict.fromkeys(lines.index.get_level_values("method")))
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(FULL_WIDTH, 1.4 + 0.3 * len(methods)), sharey=True
    )
    for place, method in enumerate(reversed(methods)):
        own = lines.loc[method].sort_index()
        style = Look(GREY, "d", "-") if method in YARDSTICKS else look(method)
        for number, (epsilon, line) in enumerate(own.iterrows()):
            fill = style.colour if epsilon <= 1 else "none"
            spot = place + (0.14 - 0.28 * number if len(own) > 1 else 0)
            marker = "h" if style.marker == "x" else style.marker  # a cross cannot be hollow
            form = {
                "marker": marker,
                "color": style.colour,
                "mfc": fill,
                "ms": 5,
                "linestyle": "none",
            }
            form |= {"clip_on": False, "zorder": 3}
            left.plot(line["epsilon_bound"], spot, **form)
            left.plot(line["epsilon_ceiling"], spot, marker="|", color=GREY, ms=5, linestyle="none")
            reach = [
                [line["attack_tpr1"] - line["attack_tpr1_low"]],
                [line["attack_tpr1_high"] - line["attack_tpr1"]],
            ]
            right.errorbar(line["attack_tpr1"], spot, xerr=reach, elinewidth=1, **form)
    left.axvline(1, color=GREY, linestyle="--", linewidth=0.9)
    right.axvline(0.01, color=GREY, linestyle="--", linewidth=0.9)
    left.set_yticks(range(len(methods)), reversed(methods))
    left.set(xlabel="ε is at least (95 % confidence)", xlim=(0, None))
    right.set_xlabel("caught at 1 % false alarms (share, 95 %)")
    right.set_xscale("symlog", linthresh=0.01)
    right.set_xlim(0, 1.05)
    right.set_xticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    right.minorticks_off()
    shape = {"marker": "o", "color": "black", "linestyle": "none", "ms": 5}
    handles = [
        plt.Line2D([], [], label="ε = 1 (filled)", **shape),
        plt.Line2D([], [], label="without noise (AIM, FLAIM: ε = 10)", mfc="none", **shape),
        plt.Line2D(
            [], [], label="claimed ε = 1; guessing", color=GREY, linestyle="--", linewidth=0.9
        ),
        plt.Line2D(
            [], [], label="most that can be shown", color=GREY, marker="|", linestyle="none", ms=5
        ),
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=4)
    return fig
