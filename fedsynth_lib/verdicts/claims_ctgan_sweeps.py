"""Checks of the claims of leitner2023 about associations of columns, privacy budgets and numbers of
clients.

Heatmaps (figures 5.4, 5.5) are rows of metric `cramers_v` or `pearson`, a column pair `a x b` in
`item`. Where the claims leave it open: a sweep needs two budgets on each side of its threshold;
fidelity is much worse at 1.5 times the distance; a curve over clients drops or rises by more than
0.02 (utility) or 10 percent (fidelity).
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from fedsynth_lib.verdicts.claims import Condition, Missing, count
from fedsynth_lib.verdicts.claims_ctgan_rows import (
    CLIENTS,
    CTGAN,
    DP,
    DP_FED,
    FED,
    FEDERATED,
    REAL,
    SYNTHESIZERS,
    TGAN,
    home,
    ran_of,
    table_of,
)

MANY = [2, 3, 5, 10, 20]
WINDOWS = {"adult": (1.5, 3.0), "cardio": (0.4, 1.0)}  # in which utility is to jump (c19)
DROP, RISE, MUCH = 0.02, 1.1, 1.5


def _pairs(runs: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, pd.Series]:
    """Association of column pairs of adult by method, and its mean distance from the real one by
    synthesizer."""
    # a column with itself
    runs = runs[~runs["pair"].map(lambda pair: len(set(pair.split(" x "))) == 1)]
    pairs = sorted(runs.loc[runs["metric"] == metric, "pair"].unique())
    table = table_of(
        home(runs), [REAL, *SYNTHESIZERS], "pair", pairs, dataset="adult", metric=metric
    )
    return table, table[SYNTHESIZERS].sub(table[REAL], axis=0).abs().mean()


def _c15(runs: pd.DataFrame) -> list[Condition]:
    error, text = _pairs(runs, "cramers_v")[1], "mean |V - V real|:"
    kept = error[FEDERATED]
    return [
        (
            kept.max() < error[CTGAN],
            f"{text} {CTGAN} {error[CTGAN]:.3f}, federated up to {kept.max():.3f}",
        ),
        (error[CTGAN] < error[DP], f"{text} {DP} {error[DP]:.3f}, above {CTGAN} wanted"),
    ]


def _c16(runs: pd.DataFrame) -> list[Condition]:
    table, error = _pairs(runs, "pearson")
    size, turned = table.abs().mean(), table[DP] * table[REAL] < 0
    best, others = error[[TGAN, FED]].max(), error[[CTGAN, DP, DP_FED]].min()
    strongest = table.loc[turned, REAL].abs().max() if turned.any() else 0.0
    return [
        (
            best < others,
            f"mean |r - r real| of {TGAN} and {FED} up to {best:.3f}, of others from {others:.3f}",
        ),
        (
            size[DP_FED] < size[REAL],
            f"mean |r| of {DP_FED} {size[DP_FED]:.3f}, of {REAL} {size[REAL]:.3f}",
        ),
        (size[CTGAN] > size[REAL], f"of {CTGAN} {size[CTGAN]:.3f}"),
        (
            turned.any(),
            f"{DP} turns the sign of {turned.sum()} of {len(turned)} pairs, of real "
            f"|r| <= {strongest:.3f}",
        ),
    ]


def _swept(runs: pd.DataFrame, column: str) -> tuple[pd.DataFrame, list[str]]:
    """IID rows of the federated methods with their datasets that have several values of
    `column`."""
    runs = runs[(runs["partition"] == "iid") & runs["method"].isin(FEDERATED)]
    runs = runs[
        (runs["n_clients"] == CLIENTS) & (runs["method"] == DP_FED)
        if column == "epsilon"
        else runs["due"]
    ]
    ran = [name for name in WINDOWS if runs.loc[runs["dataset"] == name, column].nunique() > 1]
    if not ran:
        raise Missing(
            f"rows are missing: no dataset of {', '.join(WINDOWS)} has several values of {column}"
        )
    return runs, ran


def _c19(runs: pd.DataFrame) -> list[Condition]:
    (runs, ran), conditions = _swept(runs, "epsilon"), []
    for dataset in ran:
        low, high = WINDOWS[dataset]
        budgets = np.unique(runs.loc[runs["dataset"] == dataset, "epsilon"])
        if min((budgets <= low).sum(), (budgets >= high).sum()) < 2:
            raise Missing(
                f"rows are missing: two budgets up to {low:g} and two from {high:g} ({dataset})"
            )
        for metric in ("auroc", "auprc"):
            curve = table_of(
                runs, [DP_FED], "epsilon", budgets, budgets, dataset=dataset, metric=metric
            )[DP_FED]
            below, above = curve[budgets <= low], curve[budgets >= high]
            jump = int(np.nanargmax(curve.diff()))
            numbers = f"{below.max():.3f}, {above.min():.3f} to {above.max():.3f}"
            share, text = count(
                above > below.max(), f"{dataset} {metric} from {high:g} on above all up to {low:g}"
            )
            inside = budgets[jump] > low and budgets[jump - 1] < high
            where = (
                f"largest rise from {budgets[jump - 1]:.3g} to {budgets[jump]:.3g}, within "
                f"{low:g} to {high:g} wanted"
            )
            conditions += [(share, f"{text} ({numbers})"), (inside, where)]
    return ran_of(conditions, ran, list(WINDOWS))


def _c20(runs: pd.DataFrame) -> list[Condition]:
    (runs, ran), conditions = _swept(runs, "epsilon"), []
    for dataset in ran:
        budgets = np.unique(runs.loc[runs["dataset"] == dataset, "epsilon"])
        start = budgets[budgets >= 2].min(initial=10)
        if start >= 10:
            raise Missing(f"rows are missing: a budget from 2 to below 10 ({dataset})")
        for metric in ("jsd", "wd"):
            wanted = [0.1, start, 10]
            curve = table_of(
                runs, [DP_FED], "epsilon", wanted, wanted, dataset=dataset, metric=metric
            )[DP_FED]
            least, _, most = curve / curve[start]
            where = f"{dataset} {metric} over that at {start:.3g}:"
            conditions.append(
                (
                    round(abs(most - 1), 9) <= 0.2,
                    f"{where} {most:.2f} at 10, within 20 percent wanted",
                )
            )
            conditions.append((least >= MUCH, f"{least:.2f} at 0.1, {MUCH:g} wanted"))
    return ran_of(conditions, ran, list(WINDOWS))


def _by_clients(
    runs: pd.DataFrame, metrics: Sequence[str]
) -> tuple[dict[tuple[str, str], pd.DataFrame], list[str]]:
    """(dataset, metric) -> methods by number of clients; the datasets."""
    runs, ran = _swept(runs, "n_clients")
    needed = [n for n in MANY if n != CLIENTS]
    places = [(dataset, metric) for dataset in ran for metric in metrics]
    return {
        (d, m): table_of(runs, FEDERATED, "n_clients", MANY, needed, dataset=d, metric=m)
        for d, m in places
    }, ran


def _c21(runs: pd.DataFrame) -> list[Condition]:
    (curves, ran), fall, first = _by_clients(runs, ("auroc", "auprc")), {}, {}
    for place, table in curves.items():
        for method, curve in table.items():
            after = curve.loc[curve.idxmax() :]
            fall[*place, method] = len(after) > 1 and not (after.diff().round(9) > DROP).any()
            dropped = curve.index[(curve.cummax() - curve).round(9) > DROP]
            first[*place, method] = min(dropped, default=np.inf)
    conditions = [count(pd.Series(fall), f"falls after a peak, without a rise over {DROP:g},")]
    for dataset in ran:
        shown = [f"{m} {first[dataset, 'auroc', m]:g}" for m in FEDERATED]
        earlier = [
            first[dataset, x, DP_FED] < min(first[dataset, x, m] for m in (TGAN, FED))
            for x in ("auroc", "auprc")
        ]
        share, text = count(
            pd.Series(earlier), f"{dataset}: first drop over {DROP:g} earlier for {DP_FED}"
        )
        conditions.append((share, f"{text} (auroc at {', '.join(shown)} clients)"))
    return ran_of(conditions, ran, list(WINDOWS))


def _c22(runs: pd.DataFrame) -> list[Condition]:
    (curves, ran), conditions = _by_clients(runs, ("jsd", "wd")), []
    stated = {("adult", "jsd"): FEDERATED, ("adult", "wd"): FEDERATED, ("cardio", "jsd"): [DP_FED]}
    stated |= {("cardio", "wd"): [TGAN, FED]}
    for (dataset, metric), table in curves.items():
        ratio = table.loc[20] / table.loc[5]
        if (dataset, metric) == ("cardio", "wd"):
            ratio = ratio.drop(DP_FED)  # of which nothing is said
        shown = ", ".join(f"{method} {each:.2f}" for method, each in ratio.items())
        named = (
            "all"
            if len(stated[dataset, metric]) == len(ratio)
            else f"only {', '.join(stated[dataset, metric])}"
        )
        as_stated = (ratio > RISE) == ratio.index.isin(stated[dataset, metric])
        share, text = count(
            as_stated, f"{dataset} {metric} up from 5 to 20 clients for {named}: so"
        )
        conditions.append((share, f"{text} ({shown})"))
    if "adult" in ran:
        two, five = curves["adult", "jsd"].loc[[2, 5], DP_FED]
        conditions.append(
            (five < two, f"adult jsd of {DP_FED} {two:.4f} at 2, {five:.4f} at 5 clients")
        )
    return ran_of(conditions, ran, list(WINDOWS))


SWEEPS: dict[str, Callable[[pd.DataFrame], list[Condition]]] = {
    **{"c15": _c15, "c16": _c16, "c19": _c19, "c20": _c20, "c21": _c21, "c22": _c22}
}
