"""Checks of published claims, rows -> (outcome, evidence), for `published.judge_claims`.

Here martinez2024 on the fidelity of FedBN (tables 6.1-6.3). A check lists the conditions of its
`check` text, each with the share that holds: of the cells where every cell must, all or nothing for
a stated count such as +6/-0. The outcome is the mean share; None where cells that the claim needs,
or repeats of them, are missing. Its other claims are in `claims_fedbn`, `claims_fedvae`,
`claims_models` and `claims_tuning`, built from what is here. Other works have files of their own,
and share `of_work`, `count` and `concluded`.
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.outcomes import Evidence
from fedsynth_lib.printed.published import Judgement, aggregate, significance

DATASETS, NON_DP, EPSILONS = ("adult", "bank", "cardio"), np.inf, (np.inf, 1.6, 0.5)
PLACE, PLACES = (
    ["partition", "n_clients"],
    list(product(("iid", "quantity_skew", "label_skew"), (3, 5, 10))),
)
# besides the partitions
AREAS = {"all": PLACES, "all but iid 3": PLACES[1:], "label_skew 5, 10": PLACES[7:]}
# a small effect of noise (c16)
SMALL = {"hellinger": 0.05, "pcd": 0.2, "pmse": 0.005, "log_cluster": 3.0}
FIDELITY, UTILITY = list(SMALL), ["auc_rf", "auc_nb", "auc_knn"]
ATTACKS, ATTACKED = (
    [f"ad_{a}" for a in ("rf", "svm", "nb", "knn", "lr", "ens")],
    [("iid", 10), ("label_skew", 10)],
)
Condition = tuple[float, str]


class Missing(Exception): ...  # the values lack cells or repeats that a claim speaks of


def of_work(rows: pd.DataFrame, work: str) -> pd.DataFrame:
    """The tidy rows of a work, once it is sure that they are of one profile."""
    if rows["profile"].nunique() > 1:
        raise BadInput(
            "the column profile has several values: judge the rows of one profile at a time."
        )
    return rows[rows["paper"].isin(["", work])]


def concluded(check: Callable[[pd.DataFrame], list[Condition]], values: pd.DataFrame) -> Judgement:
    """The mean share of a check's conditions, and their texts; None where the check raises
    Missing."""
    try:
        conditions = check(values)
    except Missing as missing:
        return None, str(missing)
    share = float(np.mean([share for share, _ in conditions]))
    return bool(share) if share in (0, 1) else share, Evidence.of(conditions)


def count(holds: pd.Series, text: str, needed: range | None = None) -> Condition:
    """The share of cells that hold, or whether their number is one of those needed."""
    return (
        holds.mean() if needed is None else holds.sum() in needed,
        f"{text} in {holds.sum()} of {len(holds)}",
    )


def judge(values: pd.DataFrame, claim: str) -> Judgement:
    """Outcome and evidence by tidy rows of one profile, by their `aggregate`, or by printed values
    with repeats `n`."""
    return concluded(_CHECKS[claim], chosen(values, "fedbn"))


def chosen(values: pd.DataFrame, *methods: str, plain: bool = True) -> pd.DataFrame:
    """Cells (`mean`, `std`, `n`) of some models and of the real data; only those without a `detail`
    if plain."""
    if "value" in values:
        values = aggregate(of_work(values, "martinez2024"))
    values = values[
        values["method"].isin([*methods, "real"]) & ((values["detail"] == "") | (not plain))
    ]
    return values.assign(n_clients=values["n_clients"].fillna(0))


def cells_of(
    v, metric: str, datasets=DATASETS, epsilons=(NON_DP,), setting="federated", places=PLACES
) -> pd.DataFrame:
    """All cells of a setting, indexed by dataset, epsilon, partition and number of clients; raises
    Missing."""
    keys = product(datasets, epsilons, [("none", 0)] if setting in ("central", "real") else places)
    index = pd.MultiIndex.from_tuples(
        [(d, e, *place) for d, e, place in keys], names=["dataset", "epsilon", *PLACE]
    )
    cells = (
        v[(v["metric"] == metric) & (v["setting"] == setting)].set_index(index.names).reindex(index)
    )
    if len(missing := index[cells["mean"].isna()]):
        where = (
            f"{', '.join(missing.unique('dataset'))} at epsilon "
            f"{', '.join(map(str, missing.unique('epsilon')))}"
        )
        raise Missing(
            f"{len(missing)} of {len(index)} {setting} cells of {metric} are missing, in {where}"
        )
    return cells


def means(
    v, metrics, datasets=DATASETS, epsilons=(NON_DP,), setting="federated", places=PLACES
) -> pd.DataFrame:
    """The means of cells as in `cells_of`, a column for each metric, without the last bits of a sum
    over seeds."""
    table = pd.DataFrame(
        {m: cells_of(v, m, datasets, epsilons, setting, places)["mean"] for m in metrics}
    )
    return table.rename_axis(columns="metric").round(9)


def pairs_of(
    v, metrics, dataset: str, epsilon: float, against: str, *, tested: bool = True
) -> pd.DataFrame:
    """By place: `gap`, the federated mean less the other one, and `outcome` of the test; n is the
    cells' least."""
    cells = pd.concat(
        [cells_of(v, m, [dataset], [epsilon], s) for m in metrics for s in ("federated", against)]
    )
    if tested and cells["std"].isna().any():
        raise Missing(
            f"a test needs 2 seeds or more: {dataset}, epsilon {epsilon:g} has cells with one"
        )
    pairs = significance(cells.reset_index(), against=against, n=cells["n"].min()).set_index(PLACE)
    return pairs.assign(gap=pairs["mean"] - pairs["mean_other"])


def noise_effect(v, metric: str, datasets=DATASETS, settings=("federated",)) -> pd.DataFrame:
    """Mean with noise less the mean without, a column for each epsilon."""
    means = pd.concat(
        [cells_of(v, metric, datasets, EPSILONS, name)["mean"] for name in settings]
    ).unstack("epsilon")
    return means[[1.6, 0.5]].sub(means[NON_DP], axis=0)


def within(numbers: pd.Series, limit: float, text: str) -> Condition:
    sizes = numbers.abs().round(9)  # 0.249 - 0.244 is not more than 0.005
    return count(sizes <= limit, f"{text} up to {sizes.max():.3f}, <= {limit:g}")


def bounded(numbers, text: str, low=-np.inf, high=np.inf, needed: range | None = None) -> Condition:
    """The share of numbers within the bounds, or whether so many are, and the range of the
    numbers."""
    numbers = (numbers.stack() if isinstance(numbers, pd.DataFrame) else numbers).round(9)
    limits = {
        (True, True): f"in [{low:g}, {high:g}]",
        (False, True): f"<= {high:g}",
        (True, False): f">= {low:g}",
    }
    share, text = count(
        numbers.between(low, high), f"{text} {limits[np.isfinite(low), np.isfinite(high)]}", needed
    )
    return share, f"{text} ({numbers.min():.3f} to {numbers.max():.3f})"


def ranges(numbers: pd.Series, by: str | list[str] = "dataset") -> str:
    """By dataset, such as `adult 0.701 to 0.720, bank 0.440 to 0.467`, or by other levels."""
    parts = [(np.atleast_1d(name), part) for name, part in numbers.groupby(by)]
    return ", ".join(
        f"{' '.join(map(str, name))} {part.min():.3f} to {part.max():.3f}" for name, part in parts
    )


def scores(v, dataset: str, epsilon: float, against: str, **stated: str) -> list[Condition]:
    """For each metric whether the significant differences, such as +6/-0, are the stated ones."""
    tests = pairs_of(v, stated, dataset, epsilon, against).groupby("metric")["outcome"]
    found = {metric: f"+{(t == 'better').sum()}/-{(t == 'worse').sum()}" for metric, t in tests}
    return [
        (found[metric] == stated[metric], f"{metric} {found[metric]} v {against}")
        for metric in stated
    ]


def local(
    v, metric: str, dataset: str, epsilon: float, area: str, needed=None, *, outcome="better"
) -> Condition:
    holds = (
        pairs_of(v, [metric], dataset, epsilon, "local")["outcome"].loc[AREAS.get(area, area)]
        == outcome
    )
    return count(holds, f"{metric} {outcome} than local ({area}, epsilon {epsilon:g})", needed)


def _c20(v) -> list[Condition]:
    losses = pd.concat(
        {m: noise_effect(v, m) for m in ("hellinger", "pcd", "log_cluster")}, names=["metric"]
    )
    mean = losses[1.6].groupby(["dataset", "metric"]).mean().unstack()
    return [
        count(losses[0.5] >= losses[1.6], "epsilon 0.5 no better than 1.6"),
        count(losses[1.6] > 0, "1.6 worse than non-DP"),
        (
            mean["log_cluster"].idxmax() == "adult",
            f"mean log_cluster loss {mean['log_cluster'].round(1).to_dict()}",
        ),
        count((mean > pd.Series(SMALL)[mean.columns]).all(axis=1), "loss at 1.6 not small"),
    ]


_CHECKS = {
    "c07": lambda v: [
        within(
            cells_of(v, m, epsilons=EPSILONS)["mean"].unstack([0, 1]).apply(np.ptp),
            0.005,
            f"{m} range",
        )
        for m in ("hellinger", "pmse")
    ],
    "c08": lambda v: [
        count(
            pairs_of(v, SMALL, "adult", NON_DP, "central")["outcome"] == outcome,
            f"{outcome} v central",
            needed,
        )
        for outcome, needed in (("equal", range(19, 37)), ("worse", range(1)))  # most of 36, none
    ],
    "c09": lambda v: [
        count(
            pairs_of(v, ["hellinger"], "adult", NON_DP, "local")["gap"] < 0,
            "hellinger below local",
            range(8, 10),
        ),
        local(v, "log_cluster", "adult", NON_DP, "label_skew 5, 10"),
    ],
    "c10": lambda v: [
        *scores(v, "adult", 1.6, "central", pcd="+6/-0", log_cluster="+6/-0"),
        *[local(v, m, "adult", 1.6, "all but iid 3") for m in ("hellinger", "pcd", "log_cluster")],
    ],
    "c11": lambda v: [
        *scores(v, "bank", NON_DP, "central", hellinger="+6/-0", pcd="+3/-0", pmse="+0/-8"),
        *[
            within(pairs_of(v, [m], "bank", NON_DP, "central")["gap"], 0.002, f"{m} gap")
            for m in ("hellinger", "pmse")
        ],
    ],
    "c12": lambda v: [
        count(
            pairs_of(v, [m], "bank", NON_DP, "local", tested=False)["gap"][PLACES[:6]] > 0,
            f"local {m} lower",
        )
        for m in ("hellinger", "pcd", "pmse")
    ],
    "c13": lambda v: scores(v, "bank", 1.6, "central", pcd="+0/-3"),
    "c14": lambda v: [
        local(v, "log_cluster", "cardio", NON_DP, "label_skew"),
        local(v, "log_cluster", "cardio", 0.5, "all", range(5, 6)),
    ],
    "c15": lambda v: [
        *scores(v, "cardio", 1.6, "central", pmse="+7/-0"),
        within(pairs_of(v, ["pmse"], "cardio", 1.6, "central")["gap"], 0.002, "pmse gap"),
        *[
            local(v, "hellinger", "cardio", NON_DP, a, range(1, 4), outcome="worse")
            for a in ("iid", "quantity_skew")
        ],
        local(v, "hellinger", "cardio", NON_DP, "label_skew", range(1), outcome="worse"),
    ],
    "c16": lambda v: [
        within(
            noise_effect(v, m, ["cardio"], ("central", "federated")).stack(), limit, f"{m} change"
        )
        for m, limit in SMALL.items()
    ],
    "c17": lambda v: [
        count(
            cells_of(v, m)["mean"].unstack()[[3, 10]].diff(axis=1)[10] > 0,
            f"{m} up from 3 to 10 clients",
            needed,
        )
        # 1 to 8 of 9: the sign changes
        for m, needed in (("pcd", range(7, 10)), ("log_cluster", range(1, 9)))
    ],
    "c18": lambda v: [
        count(
            cells_of(v, "pcd")["mean"].unstack(2).idxmax(axis=1) == "label_skew", "label_skew worst"
        )
    ],
    "c19": lambda v: [
        count(
            cells_of(v, "pmse", DATASETS, EPSILONS)["mean"] >= 0.22, "pmse (not its splits) >= 0.22"
        )
    ],
    "c20": _c20,
}
FEDBN_FIDELITY = {claim: partial(judge, claim=claim) for claim in _CHECKS}
