"""Checks of the claims of maddock2024 (FLAIM) for `published.judge_claims`; see
`verdicts/claims.py` for how a check concludes.

Rows count that estimate as the work does (`estimator` published, `measure_share` 0.9); a value is
the mean over seeds. A claim about several tables is judged on those that were run, and the evidence
names the others; one about a sweep at the values that were run, if those it turns on are among
them. "Within x percent of" a method bounds how much worse another may be, not how much better. T is
small below 20: the claims call 20 and 30 large. c01, c04 and c23 speak of DP-CTGAN
(`verdicts/claims_flaim_gans.py`), c21 of the clients alone: they are judged elsewhere.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import Judgement
from fedsynth_lib.verdicts.claims import Condition, Missing, concluded, count, of_work
from fedsynth_lib.works import load
from fedsynth_lib.works.maddock2024 import unpacked

WORK = "maddock2024"
EPSILONS, ROUNDS, PARTICIPATIONS, LABEL_SKEWS, LOCAL_ROUNDS = (
    load(WORK).swept("fig3", *swept)
    for swept in (
        ("budget", "epsilon"),
        ("rounds", "rounds"),
        ("participation", "participation"),
        ("labels", "beta"),
        ("local_steps", "rounds"),
    )
)
NAIVE, ORACLE, PRIVATE = FLAIM = ["NaiveFLAIM", "AugFLAIM (Oracle)", "AugFLAIM (Private)"]
AIM, DISTAIM, RANDOM, BAYES, CTGAN = (
    "AIM",
    "DistAIM",
    "FLAIM (Random)",
    "FedNaiveBayes",
    "Fed DP-CTGAN",
)
COMBINED, PENALTY, WEIGHTS = "true skew, filter and combine", "private skew only", "weights only"
FEDERATED, ELSE = [*FLAIM, DISTAIM], [NAIVE, ORACLE, DISTAIM]
THREE = ["adult", "credit_fraud", "covertype"]
SEVEN = [*THREE, "magic", "census_kdd", "intrusion", "bank_additional"]
FIXED, FEW = [t for t in ROUNDS if t != "annealed"], 20
TUNED = [2, 4, 8, 10, 16, 32, 64, 96, 128, 160, 192]  # for table 3 [code]
BETAS = np.arange(2, 11) / 2  # of SynthFS
# times our bytes of DistAIM: 8 bytes a count, not 4, and six messages, not one share
WORK_COUNTS = 12
BOTH, TRAFFIC = ({"metric": "workload_error"}, {"metric": "nll"}), "client_throughput_mb"
CLIENTS = {"partition": "cluster_skew", "participation": 0.1, "beta": 0, "local_rounds": 1}
DEFAULTS = {"dataset": "adult", "metric": "workload_error", "epsilon": 1, "rounds": 10, **CLIENTS}
Check = Callable[[pd.DataFrame], list[Condition]]


def judge(rows: pd.DataFrame, claim: str) -> Judgement:
    """Outcome and evidence by tidy rows of one profile."""
    return concluded(_CHECKS[claim], _runs(rows))


def at_best_rounds(rows: pd.DataFrame, epsilon: float = 1.0) -> pd.DataFrame:
    """The rows of DistAIM and AugFLAIM (Private) at the T of their lowest mean error by table;
    `longest` T tried."""
    runs, keys = _runs(rows), ["dataset", "method"]
    runs = runs[
        runs["method"].isin([DISTAIM, PRIVATE])
        & runs["rounds"].isin(TUNED)
        & (runs["epsilon"] == epsilon)
    ]
    runs = runs[(runs[list(CLIENTS)] == list(CLIENTS.values())).all(axis=1)]
    errors = (
        runs[runs["metric"] == "workload_error"]
        .groupby([*keys, "rounds"], as_index=False)["value"]
        .mean()
    )
    best = errors.loc[errors.groupby(keys)["value"].idxmin(), [*keys, "rounds"]]
    return runs.merge(
        best.merge(errors.groupby(keys, as_index=False).agg(longest=("rounds", "max")))
    )


def _runs(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that count, a run of several grids once; what it does not have is 0, annealed rounds
    are infinite."""
    runs = unpacked(of_work(rows, WORK).dropna(subset="value"))
    runs = runs[(runs["estimator"] == "published") & (runs["measure_share"] == 0.9)]
    runs = runs.assign(rounds=runs["rounds"].mask(runs["annealed"], np.inf))
    return runs.fillna({"rounds": 0, "participation": 0, "beta": 0}).drop_duplicates(
        ["method", *DEFAULTS, "seed"]
    )


def _series(runs, method, x, statistic, **setting) -> pd.Series:
    """A statistic over the seeds of a method by x; all else is as in DEFAULTS or `setting`."""
    at = {**DEFAULTS, "method": method, **setting}
    at |= {"partition": "none", "participation": 0} if method == AIM else {}
    at |= {"rounds": 0} if method in (BAYES, CTGAN) else {}
    del at[x]
    return (
        runs[(runs[list(at)] == list(at.values())).all(axis=1)].groupby(x)["value"].agg(statistic)
    )


def _table(runs, methods, x, values, needed=(), statistic="mean", **setting) -> pd.DataFrame:
    """Methods (columns) by x, at `needed` and at those of `values` that any method has; all must
    have them."""
    if statistic == "sem" and (_table(runs, methods, x, values, needed, "size", **setting) < 2).any(
        axis=None
    ):
        raise Missing("a spread over seeds is needed, 2 seeds or more")
    found = pd.DataFrame(
        {method: _series(runs, method, x, statistic, **setting) for method in methods}
    )
    found = found.reindex([value for value in values if value in found.index or value in needed])
    if found.empty or found.isna().any(axis=None):
        where = {name: _words(found.index[found[name].isna()]) for name in found}
        same = len(set(where.values())) == 1  # for all methods
        where = {", ".join(methods): where[methods[0]] or "any value"} if same else where
        gaps = [f"{name} at {x} {gap}" for name, gap in where.items() if gap]
        shared = [
            f"{name} {value}"
            for name, value in {**DEFAULTS, **setting}.items()
            if name != x and value
        ]
        raise Missing(f"rows are missing: {'; '.join(gaps)} ({', '.join(shared)})")
    return found


def _words(values: Sequence) -> str:
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)


def _with(condition: Condition, numbers: pd.Series | str, form: str = ".2f") -> Condition:
    """A condition whose text ends in numbers, or in the range of numbers."""
    text = (
        numbers if isinstance(numbers, str) else f"{numbers.min():{form}} to {numbers.max():{form}}"
    )
    return condition[0], f"{condition[1]} ({text})"


def _below(table, low, high, factor=1.0, text="") -> Condition:
    """How often `low` (each of several) is below `high` (each of several); with a factor, up to so
    many times it."""
    lower = table[low] if isinstance(low, str) else table[low].max(axis=1)
    upper = table[high] if isinstance(high, str) else table[high].min(axis=1)
    ratio = lower / upper
    holds = ratio < 1 if factor == 1 else ratio.round(9) <= factor
    names = [name if isinstance(name, str) else "all others" for name in (low, high)]
    text = f"{text} {names[0]} {'<' if factor == 1 else f'<= {factor:g} x'} {names[1]}".strip()
    if len(table) <= 3:
        shown = zip(map(_words, ([place] for place in table.index)), lower, upper, strict=True)
        return _with(
            count(holds, text),
            ", ".join(f"{place}: {one:.4g} v {other:.4g}" for place, one, other in shown),
        )
    failed = f", not at {_words(table.index[~holds])}" if 0 < holds.sum() < len(holds) else ""
    return _with(count(holds, text), f"ratio {ratio.min():.2f} to {ratio.max():.2f}{failed}")


def _ran(conditions: list[Condition], ran: Iterable[str], wanted: Sequence[str]) -> list[Condition]:
    """The conditions; the last one names what of `wanted` was not run."""
    absent = [name for name in wanted if name not in set(ran)]
    share, text = conditions[-1]
    return [*conditions[:-1], (share, f"{text}; not run: {', '.join(absent)}" if absent else text)]


def _ordered(
    x: str, values: Sequence, *pairs: tuple, settings: Sequence[dict] = ({},), needed=()
) -> Check:
    """A check that lower and upper of each pair are so ordered, in each setting."""
    names = [
        name
        for pair in pairs
        for side in pair[:2]
        for name in ([side] if isinstance(side, str) else side)
    ]

    def check(runs: pd.DataFrame) -> list[Condition]:
        conditions = []
        for setting in settings:
            table = _table(runs, list(dict.fromkeys(names)), x, values, needed, **setting)
            what = f"{setting['metric']}: " if len(settings) > 1 else ""
            conditions += [
                (share, what + text) for share, text in (_below(table, *pair) for pair in pairs)
            ]
        return _ran(conditions, table.index, values) if x == "dataset" else conditions

    return check


def _c02(runs: pd.DataFrame) -> list[Condition]:
    ran = {CTGAN} & set(runs["method"])
    pairs = [(PRIVATE, other) for other in (BAYES, RANDOM, NAIVE, *ran)]
    return _ran(_ordered("dataset", THREE, *pairs, settings=[_NLL_5])(runs), ran, [CTGAN])


def _c06(runs: pd.DataFrame) -> list[Condition]:
    """The penalty against NaiveFLAIM and, where it was run, against NaiveFLAIM with the weights
    that ours come with."""
    without = [NAIVE, *({WEIGHTS} & set(runs["method"]))]
    ran, conditions = (
        [name for name in ("adult", "covertype") if (runs["dataset"] == name).any()],
        [],
    )
    for dataset in ran or ["adult"]:
        what = (runs, [*FLAIM, COMBINED, PENALTY, *without[1:]], "rounds", FIXED, [4])
        table, noise = (
            _table(*what, statistic=each, dataset=dataset, epsilon=5) for each in ("mean", "sem")
        )
        for base, name in product(without, (ORACLE, PENALTY)):
            gain = (table[base] - table[name]) / np.hypot(noise[base], noise[name])
            text = f"{dataset}: {name} at most 2 standard errors below {base}"
            conditions.append(_with(count(gain <= 2, text), gain, ".1f"))
        table = table.assign(combined=table[[COMBINED, PRIVATE]].min(axis=1))
        conditions.append(
            _below(table, "combined", [NAIVE, ORACLE, PENALTY], text=f"{dataset}: best")
        )
    return _ran(conditions, ran, ["adult", "covertype"])


def _c08(runs: pd.DataFrame) -> list[Condition]:
    table = _table(runs, [PRIVATE, ORACLE, DISTAIM], "epsilon", EPSILONS, needed=[100])
    return [
        _below(table[table.index > 1], PRIVATE, DISTAIM, 1.1, "epsilon > 1:"),
        _below(table, PRIVATE, ORACLE),
    ]


def _c10(runs: pd.DataFrame) -> list[Condition]:
    table = _table(runs, FEDERATED, "rounds", FIXED, needed=[100])
    spread = _table(runs, [PRIVATE], "rounds", FIXED, statistic="sem")[PRIVATE]
    ratio = table.loc[100, FLAIM] / table[FLAIM].min()
    falls, before = (
        count(table[DISTAIM].diff().iloc[1:] < 0, f"{DISTAIM} falls from T to T"),
        spread.drop(100).max(),
    )
    return [
        _with(falls, f"{table[DISTAIM].iloc[0]:.3f} to {table[DISTAIM].iloc[-1]:.3f}"),
        _with(count(ratio > 1, "FLAIM at T=100 above its best T"), ratio),
        (
            spread[100] > before,
            f"standard error of {PRIVATE} {spread[100]:.3f} at T=100, up to {before:.3f} before",
        ),
    ]


def _c11(runs: pd.DataFrame) -> list[Condition]:
    table = _table(runs, FEDERATED, "rounds", FIXED, needed=[64])
    ratio = _table(runs, FEDERATED, "rounds", [np.inf], needed=[np.inf]).loc[np.inf] / table.min()
    best = table[PRIVATE].idxmin()
    return [
        _with(count(ratio > 1, "annealed above the best T"), ratio),
        (best <= 32, f"best T of {PRIVATE} {best:g}, of {_words(table.index)}"),
    ]


def _c12(runs: pd.DataFrame) -> list[Condition]:
    table = _table(runs, FEDERATED, "participation", PARTICIPATIONS, needed=[0.05, 0.5])
    table = table.assign(AIM=_table(runs, [AIM], "dataset", ["adult"]).loc["adult", AIM])
    gain = pd.Series(
        {name: -np.polyfit(np.log2(table.index), table[name], 1)[0] for name in FEDERATED}
    )
    slower = count(
        gain[NAIVE] < gain.drop(NAIVE),
        f"{NAIVE} gains {gain[NAIVE]:.3f} a doubling of p, less than others",
    )
    return [
        _below(table.loc[[0.5]], DISTAIM, AIM, 1.1),
        _with(slower, gain.drop(NAIVE), ".3f"),
        _below(table[table.index <= 0.2], PRIVATE, DISTAIM, 1.1, "p <= 0.2:"),
    ]


def _c13(runs: pd.DataFrame) -> list[Condition]:
    table = _table(runs, FEDERATED, "beta", LABEL_SKEWS, needed=[0.01, 0.9], partition="label_skew")
    mild, ratio = (
        table[table.index > 0.1],
        table[table.index < 0.1].mean() / table[table.index > 0.1].mean(),
    )
    return [
        _below(mild, [*FLAIM[1:], DISTAIM], NAIVE, text="beta > 0.1:"),
        _below(mild, PRIVATE, DISTAIM, 1.15, "beta > 0.1:"),
        _with(count(ratio > 1, "mean error at beta < 0.1 above that at beta > 0.1"), ratio),
    ]


def _steps(runs: pd.DataFrame, metric: str, needed: Sequence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """FLAIM by T with one local step, and with four."""
    one = _table(runs, FLAIM, "rounds", LOCAL_ROUNDS, needed, metric=metric)
    return one, _table(
        runs, FLAIM, "rounds", list(one.index), one.index, metric=metric, local_rounds=4
    )


def _c14(runs: pd.DataFrame) -> list[Condition]:
    one, many = _steps(runs, "workload_error", needed=[1, 20, 30])
    ratio = (many / one).stack()
    few = ratio.index.get_level_values(0) < FEW
    return [
        _with(count(ratio[~few] >= 1, "s=4 no better than s=1 at T >= 20"), ratio[~few]),
        _with(
            count((ratio[few] - 1).abs().round(9) <= 0.1, "s=4 within 10 percent of s=1 at T < 20"),
            ratio[few],
        ),
    ]


def _c15(runs: pd.DataFrame) -> list[Condition]:
    one, many = _steps(runs, "auc_gbt", needed=[1])
    gain = (many - one)[one.index < FEW].stack()
    best = max(one[PRIVATE].max(), many[PRIVATE].max())
    reach = _table(runs, [DISTAIM], "rounds", LOCAL_ROUNDS, metric="auc_gbt")[DISTAIM].max()
    return [
        _with(count(gain > 0, "AUC gain of s=4 over s=1 at T < 20"), gain, "+.3f"),
        (
            best >= reach - 0.01,
            f"best AUC of {PRIVATE} {best:.3f}, of {DISTAIM} {reach:.3f} less 0.01 wanted",
        ),
    ]


def _c16(runs: pd.DataFrame) -> list[Condition]:
    error, nll = (_table(runs, FEDERATED, "dataset", SEVEN, **metric) for metric in BOTH)
    best = (error[PRIVATE] < error[ELSE].min(axis=1)) & (nll[PRIVATE] < nll[ELSE].min(axis=1))
    ratio = error[PRIVATE] / error[DISTAIM]
    named = (
        f"{PRIVATE} best in both on {best.sum()} of {len(best)} "
        f"({', '.join(best.index[best]) or 'none'})"
    )
    near = count(best | (ratio.round(9) <= 1.1), f"{named}; there, or error <= 1.1 x {DISTAIM},")
    wins = [(best.sum() in (4, 5), "4 or 5 wins wanted")] if len(best) == len(SEVEN) else []
    return _ran([_with(near, ratio), *wins], best.index, SEVEN)


def _overhead(runs: pd.DataFrame) -> pd.DataFrame:
    """Table 3, by table: DistAIM over AugFLAIM (Private) in rounds, traffic, error and
    likelihood."""
    best = at_best_rounds(runs)
    best = pd.concat([best, best.assign(metric="rounds", value=best["rounds"])])
    means = best[best["longest"] > 64].pivot_table(
        index="dataset", columns=["method", "metric"], values="value"
    )
    wanted = [[DISTAIM, PRIVATE], ["rounds", TRAFFIC, "workload_error", "nll"]]
    means = means.reindex(columns=pd.MultiIndex.from_product(wanted)).dropna()
    if means.empty:
        raise Missing(
            f"rows of {DISTAIM} and {PRIVATE} are missing with T above 64 (it is to be "
            "tuned up to 200)"
        )
    return means[DISTAIM] / means[PRIVATE]


def _c19(runs: pd.DataFrame) -> list[Condition]:
    ratio = _overhead(runs)[TRAFFIC]
    numbers = ", ".join(
        f"{name} {each:.0f}, x{WORK_COUNTS} {WORK_COUNTS * each:.0f}"
        for name, each in ratio.items()
    )
    conditions = [_with(count(ratio >= 10, "bytes, and x12 as the work counts: >= 10"), numbers)]
    if len(wide := ratio[ratio.index.isin(["adult", "magic"])]):
        conditions.append(count(wide > 1000, "adult, magic > 1000"))
    if "covertype" in ratio and len(ratio) > 1:
        conditions.append((ratio.idxmin() == "covertype", f"lowest on {ratio.idxmin()}"))
    return _ran(conditions, ratio.index, SEVEN)


def _c20(runs: pd.DataFrame) -> list[Condition]:
    if "adult" not in (table := _overhead(runs)).index:
        raise Missing("rows of adult with T tuned are missing")
    rounds, traffic, error, nll = table.loc["adult"]
    error, nll, counted = 100 * (1 - error), 100 * (1 - nll), WORK_COUNTS * traffic
    return [
        (rounds == 2, f"{rounds:.3g} x the rounds, 2 wanted"),
        (
            abs(traffic / 1300 - 1) <= 0.3,
            f"{traffic:.0f} x the bytes ({counted:.0f} as the work counts), 1300 wanted",
        ),
        (abs(error - 58) <= 5, f"error gain {error:.0f} percent, 58 wanted"),
        (abs(nll - 11) <= 5, f"NLL gain {nll:.0f} percent, 11 wanted"),
    ]


def _c22(runs: pd.DataFrame) -> list[Condition]:
    table = _table(
        runs, [NAIVE, PRIVATE, DISTAIM], "beta", BETAS, [1, 5], dataset="synthfs", partition="owner"
    )
    gap, skewed = table[NAIVE] - table[DISTAIM], table.loc[[1.0]]
    ratio = (skewed[NAIVE] / skewed[DISTAIM]).item()
    return [
        (ratio >= 1.5, f"{NAIVE} {ratio:.2f} x {DISTAIM} at beta 1, >= 1.5"),
        _below(skewed, PRIVATE, DISTAIM, 1.2, "beta"),
        (gap[5] < gap[1], f"their gap {gap[1]:.3f} at beta 1, {gap[5]:.3f} at 5"),
    ]


_NLL_5 = {"metric": "nll", "epsilon": 5}
_CREDIT = [(COMBINED, ORACLE), (ORACLE, NAIVE), (PRIVATE, PENALTY), (PENALTY, NAIVE)]
_CHECKS: dict[str, Check] = {
    "c03": _ordered("dataset", THREE, (PRIVATE, RANDOM), (NAIVE, RANDOM), settings=[_NLL_5]),
    "c05": _ordered(
        "rounds", FIXED, *_CREDIT, settings=[{"dataset": "credit_fraud", "epsilon": 5}], needed=[4]
    ),
    "c07": _ordered("epsilon", EPSILONS, ([AIM, DISTAIM, ORACLE, PRIVATE], NAIVE), needed=[100]),
    "c09": _ordered("epsilon", EPSILONS, (AIM, DISTAIM), needed=[100]),
    "c17": _ordered("dataset", SEVEN, (PRIVATE, ORACLE), (ORACLE, NAIVE), settings=BOTH),
    "c18": _ordered("dataset", SEVEN, (AIM, FEDERATED), settings=BOTH),
    **{
        "c02": _c02,
        "c06": _c06,
        "c08": _c08,
        "c10": _c10,
        "c11": _c11,
        "c12": _c12,
        "c13": _c13,
        "c14": _c14,
    },
    **{"c15": _c15, "c16": _c16, "c19": _c19, "c20": _c20, "c22": _c22},
}
CHECKS: dict[str, Callable[..., Judgement]] = {
    claim: partial(judge, claim=claim) for claim in sorted(_CHECKS)
}
