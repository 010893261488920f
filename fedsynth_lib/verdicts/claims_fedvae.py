"""Checks of the claims c03 and c32-c43 of martinez2024 for `published.judge_claims`: FedVAE.

Tables 6.8 to 6.13 and A.4 to A.7. Conditions, cells and outcomes are those of `verdicts/claims.py`.
"""

from functools import partial

import pandas as pd

from fedsynth_lib.printed.published import Judgement
from fedsynth_lib.verdicts.claims import (
    ATTACKED,
    ATTACKS,
    DATASETS,
    EPSILONS,
    FIDELITY,
    NON_DP,
    PLACE,
    PLACES,
    UTILITY,
    Condition,
    bounded,
    chosen,
    concluded,
    count,
    means,
    pairs_of,
    ranges,
    scores,
)
from fedsynth_lib.verdicts.claims_fedbn import PRIVATE, TWO, not_significant


def judge(values: pd.DataFrame, claim: str) -> Judgement:
    """Outcome and evidence, as `claims.judge`; c43 also reads rows of `classes`."""
    return concluded(_CHECKS[claim], chosen(values, "fedvae", plain=claim != "c43"))


def _worse(v, dataset: str, epsilon: float, metrics: list[str], needed: range) -> list[Condition]:
    outcomes = pairs_of(v, metrics, dataset, epsilon, "central").groupby("metric")["outcome"]
    tests = {metric: outcome == "worse" for metric, outcome in outcomes}
    return [
        count(tests[m], f"{m} worse than central (epsilon {epsilon:g})", needed) for m in metrics
    ]


def _skew_over(table: pd.DataFrame, *others: str) -> Condition:
    """How often pcd under label skew exceeds pcd under another partition."""
    wide = table["pcd"].unstack("partition")
    over = pd.concat([wide["label_skew"] > wide[other] for other in others])
    shown = "; ".join(f"{name} {ranges(wide[name])}" for name in ("label_skew", *others))
    return count(over, f"pcd under label_skew above {', '.join(others)} ({shown})")


# --- fidelity ------------------------------------------------------------------------------------


def _c03(v) -> list[Condition]:
    table = means(v, ["auc_rf", "pcd"], TWO)
    wide = table["auc_rf"].unstack("partition")
    return [
        bounded(wide["iid"] - wide["label_skew"], "auc_rf under iid less label_skew", low=0.02),
        _skew_over(table, "iid"),
    ]


def _c32(v) -> list[Condition]:
    return [
        *scores(v, "adult", NON_DP, "central", pcd="+0/-9"),
        _skew_over(means(v, ["pcd"], ["adult"]), "iid", "quantity_skew"),
    ]


def _c34(v) -> list[Condition]:
    tests = pairs_of(v, ["pcd"], "adult", 0.5, "central")["outcome"]
    table = means(v, FIDELITY, ["adult"], PRIVATE)
    worse = (table.xs(1.6, level="epsilon") > table.xs(0.5, level="epsilon")).sum()
    shown = ", ".join(f"{metric} {cells}" for metric, cells in worse.items())
    return [
        *scores(v, "adult", 1.6, "central", pcd="+3/-0"),
        count(tests == "better", "pcd better than central (epsilon 0.5)", range(5, 10)),
        *scores(v, "adult", 1.6, "central", pmse="+0/-4"),
        (worse.max() >= 3, f"epsilon 1.6 worse than 0.5 in {shown} of 9, 3 wanted of one"),
    ]


def _c35(v) -> list[Condition]:
    stated = pd.Series(
        ["equal"] * 5 + ["better"] + ["worse"] * 3, pd.MultiIndex.from_tuples(PLACES, names=PLACE)
    )
    found = pairs_of(v, ["pcd"], "bank", NON_DP, "central")["outcome"].reindex(stated.index)
    return [
        count(found == stated, "non-DP pcd v central as stated"),
        *scores(v, "bank", 1.6, "central", hellinger="+0/-9", pcd="+0/-9", pmse="+0/-9"),
        # "-6" is taken as 6 or more: in print pmse is worse in 7 cells, and the text says 6
        # (protocol, section 8)
        *_worse(v, "bank", 0.5, ["hellinger", "pmse"], range(6, 10)),
    ]


def _c36(v) -> list[Condition]:
    conditions = []
    for against in ("central", "local"):
        tests = pairs_of(v, FIDELITY, "cardio", NON_DP, against)
        differing = tests[tests["outcome"] != "equal"].groupby(["metric", "outcome"]).size()
        shown = ", ".join(
            f"{metric} {outcome} {cells}" for (metric, outcome), cells in differing.items()
        )
        holds, text = count(tests["outcome"] != "equal", f"significant v {against}", range(3))
        conditions.append((holds, f"{text}, at most 2 wanted{f' ({shown})' if shown else ''}"))
    return conditions


def _c37(v) -> list[Condition]:
    metrics = ["pcd", *UTILITY]
    wide = means(v, metrics).stack().unstack("n_clients")
    steps = (wide[10] - wide[3]).round(9).unstack("partition")
    signs = (steps.min(axis=1) < 0) & (steps.max(axis=1) > 0)
    same = ", ".join(f"{dataset} {metric}" for dataset, _, metric in signs.index[~signs])
    private = means(v, FIDELITY + UTILITY, epsilons=PRIVATE)
    gain = private.xs(1.6, level="epsilon") - private.xs(0.5, level="epsilon")
    better = (
        pd.concat([gain[FIDELITY] < 0, gain[UTILITY] > 0], axis=1).groupby("dataset").all().stack()
    )
    share, text = count(signs, "sign of (10 less 3 clients) changes across partitions")
    return [
        _skew_over(means(v, ["pcd"], TWO), "iid"),
        (share, f"{text} (not {same})" if same else text),
        count(~better, "epsilon 1.6 not better than 0.5 in all 9 cells"),
    ]


# --- utility -------------------------------------------------------------------------------------


def _c38(v) -> list[Condition]:
    table, central = means(v, UTILITY, TWO), means(v, UTILITY, TWO, setting="central")
    skewed = table.xs("label_skew", level="partition")[["auc_rf", "auc_knn"]].stack()
    iid = table.xs("iid", level="partition")
    loss = (
        pd.concat([central.xs(d).iloc[0] - iid.xs(d, drop_level=False) for d in TWO])
        .droplevel("epsilon")
        .stack()
    )
    dataset, clients, metric = loss.idxmax()
    tests = pairs_of(v, UTILITY, "adult", NON_DP, "central")
    lost = (tests["outcome"] == "worse").groupby(tests["metric"]).sum()
    shown = ", ".join(f"{metric} {cells}" for metric, cells in lost.items())
    share, text = bounded(skewed, "auc_rf and auc_knn under label_skew", high=0.55)
    return [
        (share, f"{text}: {ranges(skewed, ['dataset', 'metric'])}"),
        bounded(
            loss,
            f"auc of central less iid (largest: {dataset} {metric}, {clients} clients)",
            high=0.06,
        ),
        (
            lost.sum() > 13,
            f"worse than central in {lost.sum()} of 27 on adult ({shown}), over half wanted",
        ),
    ]


def _c39(v) -> list[Condition]:
    tables = {
        name: means(v, ["auc_rf", "auc_knn"], TWO, PRIVATE, name).stack()
        for name in ("federated", "central")
    }
    limits = {"federated": 0.57, "central": 0.54}
    return [
        bounded(table.xs(d), f"{d} {name} auc_rf and auc_knn", high=limits[name])
        for name, table in tables.items()
        for d in TWO
    ]


def _c40(v) -> list[Condition]:
    skewed = means(v, UTILITY, ["cardio"]).xs("label_skew", level="partition")
    private, central = (
        means(v, UTILITY, ["cardio"], PRIVATE, name) for name in ("federated", "central")
    )
    gap = pd.concat(
        [private.xs(e, level="epsilon") - central.xs(e, level="epsilon").iloc[0] for e in PRIVATE]
    )
    return [
        *[not_significant(v, "cardio", against, range(24, 28)) for against in ("central", "local")],
        bounded(skewed, "auc under label_skew", low=0.62),
        bounded(private, "with DP auc", 0.43, 0.56),
        count(gap.stack().round(9) < 0, "with DP below central"),
    ]


def _c41(v) -> list[Condition]:
    real = means(v, UTILITY, ["adult"], setting="real").iloc[0]
    loss = real - means(v, UTILITY, ["adult"], places=PLACES[:6])
    return [
        *[
            bounded(loss[metric], f"real less federated {metric}", high=0.02)
            for metric in ("auc_rf", "auc_knn")
        ],
        count(loss["auc_nb"].round(9) < 0, "auc_nb above real"),
    ]


# --- disclosure ----------------------------------------------------------------------------------


def _c42(v) -> list[Condition]:
    share = means(v, ["dcr_share"], DATASETS, EPSILONS)
    copied = means(v, ["dcr_min"], TWO, EPSILONS)["dcr_min"] == 0
    average = means(v, ["dcr_avg_train"], ["adult"], EPSILONS)["dcr_avg_train"].unstack("epsilon")
    steps = average[[0.5, 1.6, NON_DP]].diff(axis=1).iloc[:, 1:].round(9)
    monotone = (steps >= 0).all(axis=1) | (steps <= 0).all(axis=1)
    return [
        bounded(share["dcr_share"], "dcr_share", high=0.52),
        # 27 wanted; 26 counts, as in print, where the last cell is 0.014 +/- 0.019: a split of it
        # may hold a copy
        count(copied.xs("adult"), "dcr_min of adult 0", range(26, 28)),
        count(copied.xs("bank"), "dcr_min of bank 0, at most 5 wanted,", range(6)),
        count(
            ~monotone,
            "dcr_avg_train of adult not monotone in epsilon, over half wanted,",
            range(5, 10),
        ),
    ]


def _c43(v) -> list[Condition]:
    table = v[v["detail"] == ""]
    wanted = [*ATTACKS, "ad_rmean", "ad_dum"]
    real = means(table, ATTACKS, ["adult"], setting="real").iloc[0]
    table = means(table, wanted, ["adult"], EPSILONS, places=ATTACKED)
    lead = (table["ad_rmean"] - table["ad_dum"]).unstack("epsilon")
    # The classes of cholesterol are in no table of the work; rows of them are judged where there
    # are any.
    counted = v[
        (v["metric"] == "classes") & (v["detail"] == "cholesterol") & (v["dataset"] == "cardio")
    ]
    counted = counted[(counted["setting"] == "federated") & (counted["n_clients"] == 10)]["mean"]
    classes = (
        count(counted == 1, "a single class of cardio's cholesterol") if len(counted) else None
    )
    return [
        count((table[ATTACKS] < real).stack(), "attacks on adult below real data"),
        bounded(lead[NON_DP], "non-DP ad_rmean less ad_dum", low=0.1),
        bounded(lead[list(PRIVATE)], "with DP ad_rmean less ad_dum", high=0.05),
        *([classes] if classes else []),
    ]


_CHECKS = {
    **{"c03": _c03, "c32": _c32},
    "c33": lambda v: [
        *scores(v, "adult", NON_DP, "local", log_cluster="+2/-0", pmse="+2/-0", hellinger="+2/-0"),
        *scores(
            v, "adult", NON_DP, "central", log_cluster="+0/-1", pmse="+0/-1", hellinger="+0/-1"
        ),
    ],
    **{"c34": _c34, "c35": _c35, "c36": _c36, "c37": _c37, "c38": _c38, "c39": _c39},
    **{"c40": _c40, "c41": _c41, "c42": _c42, "c43": _c43},
}
FEDVAE = {claim: partial(judge, claim=claim) for claim in _CHECKS}
