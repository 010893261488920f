"""Checks of the claims of leitner2023 (DP-Fed-CTGAN) for `published.judge_claims`; see
`verdicts/claims.py`.

Box plots (figure 5.3) are judged by medians over seeds, tables by means. "IID values" are our own,
so that a shrunk run is held against itself. A claim about several tables is judged on those that
were run, and the evidence names the others. For heatmaps and sweeps see
`verdicts/claims_ctgan_sweeps.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import Judgement
from fedsynth_lib.verdicts.claims import Condition, Missing, concluded, count
from fedsynth_lib.verdicts.claims_ctgan_rows import (
    CTGAN,
    DATASETS,
    DP,
    DP_FED,
    FED,
    FOUR,
    REAL,
    SYNTHESIZERS,
    TGAN,
    accuracies,
    counting,
    gaps_of,
    home,
    over,
    ran_of,
    scores,
    skewed,
    table_of,
)
from fedsynth_lib.verdicts.claims_ctgan_sweeps import SWEEPS


def judge(rows: pd.DataFrame, claim: str) -> Judgement:
    """Outcome and evidence by tidy rows of one profile."""
    return concluded(_CHECKS[claim], counting(rows))


# --- accuracy by classifier (figure 5.3) ---------------------------------------------------------


def _c01(runs: pd.DataFrame) -> list[Condition]:
    table = accuracies(runs, "adult", [REAL, *SYNTHESIZERS])
    return [
        over(table[[TGAN, FED]].min(axis=1), table[CTGAN], f"{TGAN} and {FED} > {CTGAN}"),
        over(table[CTGAN], table[[DP, DP_FED]].max(axis=1), f"{CTGAN} > {DP} and {DP_FED}"),
        gaps_of(
            -table[[TGAN, FED]].sub(table[REAL], axis=0), 0.02, f"{REAL} less {TGAN} and {FED}"
        ),
        gaps_of((table[DP] - table[DP_FED]).abs(), 0.03, f"|{DP} - {DP_FED}|"),
    ]


def _c02(runs: pd.DataFrame) -> list[Condition]:
    table = accuracies(runs, "bank", SYNTHESIZERS)
    if (accuracies(runs, "bank", SYNTHESIZERS, statistic="count") < 2).any(axis=None):
        raise Missing(
            "inter-quartile ranges are missing: they need 2 seeds or more of every method (bank)"
        )
    width = accuracies(
        runs, "bank", SYNTHESIZERS, statistic=lambda v: np.subtract(*np.percentile(v, [75, 25]))
    )
    return [
        over(table.drop(columns=CTGAN).min(axis=1), table[CTGAN], f"{CTGAN} lowest"),
        over(width[CTGAN], width.drop(columns=CTGAN).max(axis=1), f"{CTGAN} widest by quartiles"),
        gaps_of(table.max(axis=1) - table.min(axis=1), 0.05, "range of medians"),
    ]


def _c03(runs: pd.DataFrame) -> list[Condition]:
    table, order = (
        accuracies(runs, "covertype", [REAL, *SYNTHESIZERS], FOUR[:3]),
        [TGAN, FED, DP, DP_FED, CTGAN],
    )
    steps = -table[order].diff(axis=1).iloc[:, 1:].round(9)
    kept = pd.concat([steps[FED] >= 0, (steps.drop(columns=FED) > 0).stack()])
    medians = table[order].mean().map("{:.3f}".format)
    lost = gaps_of(
        -table[SYNTHESIZERS].sub(table[REAL], axis=0), 0.05, f"{REAL} less synthetic", above=True
    )
    return [
        lost,
        count(kept, f"{' > '.join(f'{m} {v}' for m, v in medians.items())} on average, steps kept"),
    ]


def _c04(runs: pd.DataFrame) -> list[Condition]:
    table = accuracies(runs, "cardio", [REAL, *SYNTHESIZERS])
    single = home(
        runs[
            (runs["dataset"] == "cardio")
            & runs["metric"].isin(FOUR)
            & runs["method"].isin([DP, DP_FED])
        ]
    )
    small = (single["metric"].map(table[REAL]) - single["value"]).round(9) < 0.1
    return [
        gaps_of(
            -table[[CTGAN, TGAN, FED]].sub(table[REAL], axis=0), 0.02, f"{REAL} less non-private"
        ),
        (
            small.mean() > 0.5,
            f"drop of the private below 0.1 in {small.sum()} of {len(small)} "
            "runs, over half wanted",
        ),
        over(table[DP_FED], table[DP], f"{DP_FED} > {DP}"),
    ]


def _c05(runs: pd.DataFrame) -> list[Condition]:
    table = accuracies(runs, "diabetes", [DP, DP_FED])
    return [
        gaps_of(
            (table[DP] - table[DP_FED])[FOUR[:3]].abs(), 0.05, f"|{DP} - {DP_FED}| but for ada"
        ),
        over(table.loc[FOUR[3:], DP], table.loc[FOUR[3:], DP_FED], f"{DP} > {DP_FED}"),
    ]


def _c06(runs: pd.DataFrame) -> list[Condition]:
    table = accuracies(runs, "obesity", [REAL, *SYNTHESIZERS])
    lost = -table[SYNTHESIZERS].sub(table[REAL], axis=0).loc[FOUR[:3]]
    best, others = table[[TGAN, FED]].min(axis=1), table[[CTGAN, DP, DP_FED]].max(axis=1)
    return [
        gaps_of(lost, 0.2, f"{REAL} less synthetic but for ada", above=True),
        over(best, others, f"{TGAN} and {FED} > all others"),
    ]


# --- tables 5.5 to 5.9 ---------------------------------------------------------------------------


def _c07(runs: pd.DataFrame) -> list[Condition]:
    table = scores(runs, "auroc")
    federated, private = table[[TGAN, FED]], table[[DP, DP_FED]].max(axis=1)
    conditions = [
        over(
            federated.max(axis=1),
            table.max(axis=1),
            f"{TGAN} or {FED} best or within 0.002",
            -0.002,
        ),
        over(federated.min(axis=1), private, f"{TGAN} and {FED} > {DP} and {DP_FED}"),
    ]
    return ran_of(conditions, table.index)


def _signs(runs, metric: str, low: str, high: str, swapped: Sequence[str]) -> list[Condition]:
    """How often `low` is below `high`, and not so on the datasets `swapped`."""
    table = scores(runs, metric, [low, high])
    side = np.where(table.index.isin(swapped), -1, 1)
    shown = ", ".join(f"{d} {a:.4f} v {b:.4f}" for d, a, b in table[[low, high]].itertuples())
    where = (
        f", above on {', '.join(d for d in table.index if d in swapped)},"
        if set(swapped) & set(table.index)
        else ""
    )
    share, text = count(
        (side * (table[high] - table[low]) > 0), f"{metric} of {low} below {high}{where}"
    )
    return ran_of([(share, f"{text} ({shown})")], table.index)


def _c09(runs: pd.DataFrame) -> list[Condition]:
    value = scores(runs, "auroc", [DP], ["diabetes"], ["diabetes"]).loc["diabetes", DP]
    return [(value < 0.5, f"auroc of {DP} {value:.4f}, below 0.5 wanted")]


def _c10(runs: pd.DataFrame) -> list[Condition]:
    roc = scores(runs, "auroc")
    ranks = roc.rank(axis=1).corrwith(
        scores(runs, "auprc", needed=roc.index).loc[roc.index].rank(axis=1), axis=1
    )
    ranks = ranks.fillna(0).round(9)  # all methods alike: no order
    share, text = count(ranks >= 0.7, "Spearman >= 0.7")
    return ran_of(
        [(share, f"{text} ({', '.join(f'{d} {r:.2g}' for d, r in ranks.items())})")], roc.index
    )


def _c11(runs: pd.DataFrame) -> list[Condition]:
    table = scores(runs, "jsd")
    others, wins = table[[CTGAN, DP, DP_FED]].min(axis=1), (table[TGAN] < table[FED]).sum()
    conditions = [
        over(others, table[[TGAN, FED]].max(axis=1), f"jsd: all others > {TGAN} and {FED}")
    ]
    both = (table[FED] < table[TGAN]).any() and wins > 0
    if both or len(table) == len(DATASETS):  # else a table that was not run could be the win
        conditions.append(
            (both, f"{TGAN} below {FED} on {wins} of {len(table)}, some but not all wanted")
        )
    return ran_of(conditions, table.index)


def _c13(runs: pd.DataFrame) -> list[Condition]:
    table = scores(runs, "jsd", [CTGAN, DP, DP_FED], ["covertype"], ["covertype"])
    return [over(table[CTGAN], table[method], f"{CTGAN} > {method}") for method in (DP, DP_FED)]


def _c14(runs: pd.DataFrame) -> list[Condition]:
    others = [name for name in DATASETS if name != "covertype"]
    return _signs(runs, "wd", DP_FED, DP, ["diabetes"]) + _signs(runs, "wd", DP_FED, CTGAN, others)


def _c17(runs: pd.DataFrame) -> list[Condition]:
    better = pd.Series({"accuracy": 1, "auroc": 1, "auprc": 1, "jsd": -1, "wd": -1})
    skew = table_of(
        skewed(runs), [TGAN, FED], "metric", better.index, better.index, dataset="cardio"
    )
    iid = table_of(
        home(runs), [TGAN, FED], "metric", ["auroc", "auprc"], ["auroc", "auprc"], dataset="cardio"
    )
    shown = ", ".join(
        f"{metric} {a:.4f} v {b:.4f}" for metric, a, b in skew[[FED, TGAN]].itertuples()
    )
    share, text = count((skew[FED] - skew[TGAN]) * better > 0, f"skewed {FED} better than {TGAN}")
    down = [over(iid[m], skew.loc[iid.index, m], f"{m}: IID utility > skewed") for m in (TGAN, FED)]
    return [(share, f"{text} ({shown})"), *down]


def _c18(runs: pd.DataFrame) -> list[Condition]:
    wanted = ["jsd", "wd", "auroc"]
    skew = table_of(skewed(runs), [DP_FED], "metric", wanted, wanted, dataset="cardio")[DP_FED]
    iid = table_of(home(runs), [DP_FED], "metric", wanted, wanted, dataset="cardio")[DP_FED]
    peer = table_of(skewed(runs), [TGAN], "metric", ["wd"], ["wd"], dataset="cardio").loc[
        "wd", TGAN
    ]
    return [
        *[
            (skew[m] < iid[m], f"skewed {m} {skew[m]:.4f}, IID {iid[m]:.4f}, skewed below wanted")
            for m in wanted
        ],
        (skew["wd"] < peer, f"skewed wd of {TGAN} {peer:.4f}, {DP_FED} below wanted"),
    ]


def _c23(runs: pd.DataFrame) -> list[Condition]:
    table = scores(runs, "auroc", [DP, DP_FED])
    gain = (table[DP_FED] - table[DP]).mean()
    return ran_of(
        [(gain.round(9) >= 0, f"auroc of {DP_FED} less {DP} {gain:+.4f} on average")], table.index
    )


def _c24(runs: pd.DataFrame) -> list[Condition]:
    conditions = []
    for metric in ("auroc", "auprc", "jsd", "wd"):
        table = scores(runs, metric, [CTGAN, FED])
        better = table[FED] > table[CTGAN] if metric.startswith("au") else table[FED] < table[CTGAN]
        share, text = count(better, f"{metric} of {FED} better than {CTGAN}")
        conditions.append(
            (share >= 4 / 6, f"{text}, two thirds wanted")
            if metric.startswith("au")
            else (share, text)
        )
    return ran_of(conditions, table.index)


_CHECKS: dict[str, Callable[[pd.DataFrame], list[Condition]]] = {
    **{"c01": _c01, "c02": _c02, "c03": _c03, "c04": _c04, "c05": _c05, "c06": _c06, "c07": _c07},
    "c08": lambda runs: _signs(runs, "auroc", DP, DP_FED, ["bank", "covertype"]),
    **{"c09": _c09, "c10": _c10, "c11": _c11},
    "c12": lambda runs: _signs(runs, "jsd", DP_FED, DP, ["cardio"]),
    **{"c13": _c13, "c14": _c14, "c17": _c17, "c18": _c18, "c23": _c23, "c24": _c24},
    **SWEEPS,
}
CHECKS: dict[str, Callable[..., Judgement]] = {
    claim: partial(judge, claim=claim) for claim in sorted(_CHECKS)
}
