"""The common protocol: who leads on which measure, and what attacks on membership show."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.audit.shadow import ATTACKS
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.points import points
from fedsynth_lib.figures.style import GREY, Look, look
from fedsynth_lib.figures.sweep import Panel, sweep
from fedsynth_lib.metrics.registry import sign
from fedsynth_lib.runs.names import YARDSTICKS

QUALITY = (
    *("hellinger", "pcd", "pmse", "log_cluster", "jsd", "wd", "workload_error", "fidelity"),
    *("js_divergence", "auc_rf_score", "auc_gbt", "auroc", "accuracy"),
)
RISKS = ("risk", "ad_rmean", "mia_closest", "mia_calibrated")
MARK = "†"  # behind a method whose run released something outside of epsilon
SHOWN = {
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


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the column `entry`: the method, marked where something was released outside of
    epsilon."""
    open_ = rows["unprotected"].fillna(0).gt(0) & np.isfinite(rows["epsilon"].fillna(np.inf))
    return rows.assign(entry=rows["method"] + np.where(open_, f" {MARK}", ""))


def leaderboard(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Entries down, measures across: means over seeds, the mean rank among protected entries first;
    best on top.

    Marked entries and known rows have no rank: their epsilon does not cover what they released, or
    there is none.
    """
    means = named(rows).pivot_table("value", "entry", "metric")[list(metrics)]
    ranked = [
        entry for entry in means.index if not entry.endswith(MARK) and entry not in YARDSTICKS
    ]
    signs = np.array([-sign(name) for name in metrics])
    ranks = (means.loc[ranked] * signs).rank().mean(axis=1)
    table = means.assign(rank=ranks)
    kind = np.select([table.index.isin(YARDSTICKS), table["rank"].isna()], [2, 1], 0)
    order = table.assign(kind=kind).sort_values(["kind", "rank", *metrics[:1]]).index
    return table.loc[order, ["rank", *metrics]]


def dots(rows: pd.DataFrame, metrics: Sequence[str], *, columns: int = 4) -> Figure:
    """A panel for each measure, entries down: means over seeds with their range; grey lines are
    known rows. Hollow: something was released outside of epsilon."""
    entries = [entry for entry in leaderboard(rows, metrics).index if entry not in YARDSTICKS]
    shown = named(rows)
    known = shown[shown["method"].isin(YARDSTICKS)]
    return points(
        shown,
        by="entry",
        hue="entry",
        panels=metrics,
        looks={entry: _look(entry) for entry in entries},
        order={entry: entry for entry in entries},
        across=False,
        references=known.assign(line=known["method"]) if len(known) else None,
        columns=columns,
        height=0.5 + 0.14 * len(entries),
    )


def _look(entry: str) -> Look:
    """The method's look, hollow and dotted behind MARK."""
    own = look(entry.removesuffix(f" {MARK}"))
    return replace(own, line=":", filled=False) if entry.endswith(MARK) else own


def frontier(rows: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Measures against the epsilon that was spent, a line for each method; at the right edge
    without privacy.

    Hollow markers: something was released outside of epsilon, which then is only nominal. Grey:
    known rows. Raises BadInput where no row has spent any.
    """
    if rows["epsilon_spent"].isna().all():
        raise BadInput("no row has spent any epsilon: run private cells first.")
    none = 4 * rows["epsilon_spent"].max()
    published = rows["detail"] == "as published"
    entries = rows.assign(entry=rows["method"] + np.where(published, f" {MARK}", ""))
    spent = entries.groupby(["entry", "epsilon"])["epsilon_spent"].transform("mean")
    entries["spent"] = spent.where(np.isfinite(entries["epsilon"]), none)
    entries.loc[entries["method"].isin(YARDSTICKS), "spent"] = np.nan
    names = [name for name in dict.fromkeys(entries["entry"]) if name not in YARDSTICKS]
    looks = {name: _look(name) for name in names}
    known = zip(YARDSTICKS, "sdX", strict=True)
    looks |= {name: Look(GREY, marker) for name, marker in known if name in set(rows["method"])}
    panels = [Panel("", "spent", metric=name, log=True, x_label="ε spent") for name in metrics]
    fig = sweep(entries, panels, looks=looks, line="entry", bands=False)
    for ax in fig.axes[: len(metrics)]:
        ax.set_xticks([0.2, 1, 3, 10, none], ["0.2", "1", "3", "10", "none"])
    return fig


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
    """The table of the strongest attacks, as `SHOWN` names them; an empty entry is more than the
    trials can tell."""
    lines = strongest(rows).reindex(columns=list(SHOWN)).rename(columns=SHOWN)
    claimed = [
        "none" if epsilon < 0 or np.isinf(epsilon) else f"{epsilon:g}" for _, epsilon in lines.index
    ]
    lines.index = pd.MultiIndex.from_arrays(
        [lines.index.get_level_values(0), claimed], names=["method", "claimed ε"]
    )
    lines["trials"] = lines["trials"].astype(int)
    return lines
