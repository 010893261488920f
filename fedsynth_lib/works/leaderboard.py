"""The common protocol: who leads on which measure, and what attacks on membership show."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from fedsynth_lib.audit.shadow import ATTACKS
from fedsynth_lib.figures.points import points
from fedsynth_lib.figures.style import Look, look
from fedsynth_lib.metrics.registry import MEASURES, sign
from fedsynth_lib.printed.entries import with_spread
from fedsynth_lib.runs.names import YARDSTICKS
from fedsynth_lib.works import field_tables
from fedsynth_lib.works.field_tables import interval
from fedsynth_lib.works.side_by_side import WORK

QUALITY = WORK.constants["quality"]
FIELD = WORK.constants["field"]  # of whole tables, against test rows: decimals
RISKS = WORK.constants["risks"]
MARK = "†"  # behind a method whose run released something outside of epsilon
SHOWN = WORK.constants["shown"]


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the column `entry`: the method, marked if something was released outside of epsilon."""
    open_ = rows["unprotected"].fillna(0).gt(0) & np.isfinite(rows["epsilon"].fillna(np.inf))
    return rows.assign(entry=rows["method"] + np.where(open_, f" {MARK}", ""))


def leaderboard(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Tabulate entries (lines) by measures (columns): means over seeds, best on top.

    The first column is the mean rank among protected entries. Marked entries and known rows have no
    rank: their epsilon does not cover what they released, or there is none.
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
    """Draw a panel for each measure with the entries from top to bottom.

    Dots are means over seeds with their range; grey lines are known rows.
    """
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
    """Return the method's look, with a dotted line where the entry ends with MARK."""
    own = look(entry.removesuffix(f" {MARK}"))
    return replace(own, line=":") if entry.endswith(MARK) else own


def ranking(rows: pd.DataFrame, metrics: Mapping[str, int]) -> pd.DataFrame:
    """Format the leaderboard: whom an entry's noise needs trusted, its seeds, and each measure.

    A measure is given as the mean and half its 95 percent interval over seeds (Student's t).
    metrics: measure -> decimals. Ranks hold among all entries without a mark, whomever they trust.
    """
    board, found = leaderboard(rows, list(metrics)), named(rows)
    halves = found.groupby(["entry", "metric"])["value"].agg(interval).unstack()
    table = pd.DataFrame(
        {
            "trusted": [trusted(entry) for entry in board.index],
            "n": found.groupby("entry")["seed"].nunique()[board.index],
            "rank": board["rank"].map(lambda rank: f"{rank:.1f}" if rank == rank else ""),
        },
        index=board.index,
    )
    for name, digits in metrics.items():
        table[MEASURES[name].label] = [
            with_spread(mean, half, digits)
            for mean, half in zip(board[name], halves.loc[board.index, name], strict=True)
        ]
    return table


def trusted(entry: str) -> str:
    """Whom the noise of an entry needs trusted; nothing of known rows."""
    key = WORK.method(entry.removesuffix(f" {MARK}")).key
    return field_tables.trusted(key) if key else ""


def curves(
    rows: pd.DataFrame, metrics: Sequence[str], *, by: str, order: Mapping[Any, str]
) -> Figure:
    """Draw a panel for each measure with a line for each entry along `order`.

    Lines are means with 95 percent intervals over as many seeds as all have. The legend says whom
    an entry trusts; grey lines are known rows.
    """
    trained = named(rows[~rows["method"].isin(YARDSTICKS)])
    entries = dict.fromkeys(trained["entry"])
    labels = {entry: f"{entry}: trusts {trusted(entry)}" for entry in entries}
    known = rows[rows["method"].isin(YARDSTICKS)]
    return points(
        trained.assign(entry=trained["entry"].map(labels)),
        **{"by": by, "hue": "entry", "panels": metrics, "order": order},
        looks={label: _look(entry) for entry, label in labels.items()},
        joined=True,
        dodge=0.5,
        interval=("se", stats.t.ppf(0.975, trained["seed"].nunique() - 1)),
        references=known.assign(line=known["method"]) if len(known) else None,
        height=2.2,
    )


def strongest(rows: pd.DataFrame) -> pd.DataFrame:
    """Take for each method and epsilon the attack that shows most on the first half of the runs.

    The columns are its measures. `closest` is the AUC of the nearest synthetic row, for comparison;
    -1 stands for known rows, which claim nothing.
    """
    keys = ["method", "epsilon"]
    found = {}
    for key, own in rows.assign(epsilon=rows["epsilon"].fillna(-1)).groupby(keys, sort=False):
        table = own.pivot_table("value", "item", "metric")
        attack = table.loc[list(ATTACKS), "epsilon_first_half"].idxmax()
        whole = table.loc["", ["epsilon_ceiling", "attack_trials"]]
        closest = table.loc["closest", "attack_auc"]
        found[key] = {**table.loc[attack], **whole, "attack": attack, "closest": closest}
    return pd.DataFrame(found).T.infer_objects().rename_axis(keys)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the strongest attacks, with the columns that `SHOWN` names.

    An empty entry is more than the trials can tell.
    """
    lines = strongest(rows).reindex(columns=list(SHOWN)).rename(columns=SHOWN)
    claimed = [
        "none" if epsilon < 0 or np.isinf(epsilon) else f"{epsilon:g}" for _, epsilon in lines.index
    ]
    lines.index = pd.MultiIndex.from_arrays(
        [lines.index.get_level_values(0), claimed], names=["method", "claimed ε"]
    )
    lines["trials"] = lines["trials"].astype(int)
    return lines
