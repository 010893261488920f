"""The conditions of claims that no kind of `vocabulary` says, by the names that the files of claims
call them.

Each takes the cells of a claim's rows and the condition, whose `where` and `each` go on to
`places.wide`, and yields one or several results. `condition` lists it in CUSTOM.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.printed.sensitivity import RUNTIME, SCORE, SECONDS, configurations, sensitivity
from fedsynth_lib.verdicts.places import (
    Condition,
    Missing,
    RanOnce,
    as_text,
    chosen,
    flatten,
    means,
    wide,
)
from fedsynth_lib.verdicts.vocabulary import ConditionResult, digits, sign_of, spread, tests

Results = Iterator[ConditionResult]
Custom = Callable[[pd.DataFrame, Condition], Results]
CUSTOM: dict[str, Custom] = {}


def condition(function: Custom) -> Custom:
    """List a function under its name."""
    CUSTOM[function.__name__] = function
    return function


def changed(c: Condition, **changes: Any) -> Condition:
    """The condition with other values in `where`, or with other fields."""
    own = {each.name for each in fields(Condition)}
    where = {axis: flatten(value) for axis, value in changes.items() if axis not in own}
    others = {name: value for name, value in changes.items() if name in own}
    return replace(c, where={**c.where, **where}, **others)


def counted(
    holds: pd.Series | Sequence[bool], text: str, numbers: str = "", absent: tuple[str, ...] = ()
) -> ConditionResult:
    """How often a statement holds. absent: tables that were not run."""
    holds = np.asarray(holds, bool)
    text = f"{text} in {holds.sum()} of {len(holds)}"
    return ConditionResult(float(holds.mean()), f"{text} ({numbers})" if numbers else text, absent)


def single(held: bool, text: str, absent: tuple[str, ...] = ()) -> ConditionResult:
    """A statement that holds or does not."""
    return ConditionResult(float(held), text, absent)


def listed(numbers: pd.Series, form: str = ".3f") -> str:
    return ", ".join(f"{as_text(name)} {value:{form}}" for name, value in numbers.items())


def not_run(c: Condition, ran: Iterable[str]) -> tuple[str, ...]:
    """The tables of a condition that were not run."""
    ran = set(ran)
    return tuple(name for name in c.values("dataset") if name not in ran)


# --- maddock2024 ---------------------------------------------------------------------------------

NAIVE, ORACLE, PRIVATE, DISTAIM = "NaiveFLAIM", "AugFLAIM (Oracle)", "AugFLAIM (Private)", "DistAIM"
COMBINED, PENALTY, WEIGHTS = "true skew, filter and combine", "private skew only", "weights only"
FLAIM = [NAIVE, ORACLE, PRIVATE]
TUNED = [2, 4, 8, 10, 16, 32, 64, 96, 128, 160, 192]  # rounds of table 3 [code]
TRAFFIC = "client_throughput_mb"
# times our bytes of DistAIM: 8 bytes a count, not 4, and six messages, not one share
WORK_COUNTS = 12


@condition
def penalty_alone_does_not_help(cells: pd.DataFrame, c: Condition) -> Results:
    """c06: the penalty lowers the error by at most two standard errors, filtering and combining
    most.

    Against NaiveFLAIM and, where it was run, against NaiveFLAIM with the weights that our penalty
    comes with.
    """
    ran = [name for name in c.values("dataset") if (cells["dataset"] == name).any()]
    absent = not_run(c, ran)
    for dataset in ran or c.values("dataset")[:1]:
        here = changed(c, dataset=dataset, each=("rounds",))
        without = [NAIVE, *({WEIGHTS} & set(cells.loc[cells["dataset"] == dataset, "method"]))]
        names = [*FLAIM, COMBINED, PENALTY, *without[1:]]
        if (wide(cells, here, names, "n") < 2).any(axis=None):
            raise RanOnce("a spread over seeds is needed, 2 seeds or more")
        table, noise = means(cells, here, names), wide(cells, here, names, "sem")
        for base in without:
            for name in (ORACLE, PENALTY):
                gain = (table[base] - table[name]) / np.hypot(noise[base], noise[name])
                text = f"{dataset}: {name} at most 2 standard errors below {base}"
                yield counted(gain <= 2, text, spread(gain), absent)
        best = table[[COMBINED, PRIVATE]].min(axis=1)
        others = table[[NAIVE, ORACLE, PENALTY]].min(axis=1)
        text = f"{dataset}: filtering and combining best"
        yield counted(best < others, text, f"ratio {spread(best / others)}", absent)


@condition
def naive_gains_least(cells: pd.DataFrame, c: Condition) -> Results:
    """c12: the error of NaiveFLAIM falls less than that of others with each doubling of
    participation."""
    table = means(cells, changed(c, participation=c.axes["participation"]), [*FLAIM, DISTAIM])
    doublings = np.log2(table.index.get_level_values("participation"))
    gain = pd.Series({name: -np.polyfit(doublings, table[name], 1)[0] for name in table})
    others = gain.drop(NAIVE)
    text = f"{NAIVE} gains {gain[NAIVE]:.3f} a doubling of p, less than others"
    yield counted(gain[NAIVE] < others, text, listed(others))


@condition
def worse_under_strong_skew(cells: pd.DataFrame, c: Condition) -> Results:
    """c13: the mean error over beta below 0.1 is above that over beta above 0.1."""
    table = means(cells, c, [*FLAIM, DISTAIM])
    beta = table.index.get_level_values("beta")
    ratio = table[beta < 0.1].mean() / table[beta > 0.1].mean()
    text = "mean error at beta < 0.1 above that at beta > 0.1"
    yield counted(ratio > 1, text, f"ratio {spread(ratio)}")


@condition
def private_reaches_distaim(cells: pd.DataFrame, c: Condition) -> Results:
    """c15: the best AUC of AugFLAIM (Private) is at most 0.01 below that of DistAIM."""
    best = {}
    for method, steps in ((PRIVATE, [1, 4]), (DISTAIM, [1])):
        here = changed(c, method=method, each=("rounds",))
        best[method] = means(cells, here, steps).max(axis=None)
    text = f"best AUC of {PRIVATE} {best[PRIVATE]:.3f}, of {DISTAIM} {best[DISTAIM]:.3f}"
    held = best[PRIVATE] >= best[DISTAIM] - 0.01
    yield single(held, f"{text} less 0.01 wanted")


@condition
def best_of_the_federated(cells: pd.DataFrame, c: Condition) -> Results:
    """c16: AugFLAIM (Private) is best in error and likelihood on most tables, and there or
    elsewhere its error is within 10 percent of that of DistAIM."""
    names = [*FLAIM, DISTAIM]
    error, nll = (means(cells, changed(c, metric=m), names) for m in ("workload_error", "nll"))
    error, nll = (table.droplevel("metric") for table in (error, nll))
    best = pd.Series(True, error.index)
    for table in (error, nll):
        best &= table[PRIVATE] < table.drop(columns=PRIVATE).min(axis=1)
    ratio = error[PRIVATE] / error[DISTAIM]
    won = counted(best, f"{PRIVATE} best in error and likelihood", ", ".join(best.index[best]))
    if len(best) == len(c.values("dataset")):
        won = won._replace(share=float(best.sum() >= 4), text=f"{won.text}, 4 or 5 wanted")
    yield won
    text = f"best, or error <= 1.1 x {DISTAIM},"
    close, numbers = best | (ratio.round(9) <= 1.1), f"ratio {spread(ratio)}"
    yield counted(close, text, numbers, not_run(c, best.index))


def best_rounds(runs: pd.DataFrame, value: str = "mean") -> pd.DataFrame:
    """The cells (or runs) of DistAIM and AugFLAIM (Private) at the T of their lowest mean error by
    table; `longest` T tried."""
    runs = runs[runs["method"].isin([DISTAIM, PRIVATE]) & runs["rounds"].isin(TUNED)]
    keys = ["dataset", "method"]
    errors = runs[runs["metric"] == "workload_error"].groupby([*keys, "rounds"], as_index=False)
    errors = errors[value].mean()
    best = errors.loc[errors.groupby(keys)[value].idxmin(), [*keys, "rounds"]]
    longest = errors.groupby(keys, as_index=False).agg(longest=("rounds", "max"))
    return runs.merge(best.merge(longest))


def _overhead(cells: pd.DataFrame, c: Condition) -> pd.DataFrame:
    """Table 3, by table: DistAIM over AugFLAIM (Private) in rounds, traffic, error and
    likelihood."""
    where = {axis: values for axis, values in c.where.items() if axis != "rounds"}
    best = best_rounds(chosen(cells, where))
    best = pd.concat([best, best.assign(metric="rounds", mean=best["rounds"])])
    tuned = best[(best["longest"] >= 64) | (best["method"] == PRIVATE)]  # whose best T is small
    table = tuned.pivot_table("mean", "dataset", ["method", "metric"])
    wanted = [[DISTAIM, PRIVATE], ["rounds", TRAFFIC, "workload_error", "nll"]]
    table = table.reindex(columns=pd.MultiIndex.from_product(wanted)).dropna()
    if table.empty:
        raise Missing(
            f"cells of {DISTAIM} with T up to 64 or more (it is to be tuned up to 200), or of "
            f"{PRIVATE}, are missing on {', '.join(c.values('dataset'))}"
        )
    return table[DISTAIM] / table[PRIVATE]


@condition
def traffic_at_the_best_rounds(cells: pd.DataFrame, c: Condition) -> Results:
    """c19: DistAIM takes more rounds and sends at least 10 times as much everywhere."""
    table = _overhead(cells, c)
    ratio, rounds = table[TRAFFIC], table["rounds"]
    counts = zip(ratio.index, ratio, WORK_COUNTS * ratio, strict=True)
    told = [f"{name} {ours:.0f}, x{WORK_COUNTS} {theirs:.0f}" for name, ours, theirs in counts]
    text, numbers = "bytes, and x12 as the work counts: >= 10", ", ".join(told)
    yield counted(rounds > 1, "more rounds", listed(rounds, ".3g"), not_run(c, ratio.index))
    yield counted(ratio >= 10, text, numbers)


@condition
def gains_at_the_best_rounds(cells: pd.DataFrame, c: Condition) -> Results:
    """c20: on adult twice the rounds and 1300 times the traffic, as the work counts it, gain 58
    percent error, 11 percent likelihood."""
    rounds, traffic, error, nll = _overhead(cells, c).loc["adult"]
    error, nll, counted_so = 100 * (1 - error), 100 * (1 - nll), WORK_COUNTS * traffic
    text = f"{traffic:.0f} x the bytes ({counted_so:.0f} as the work counts), 1300 wanted"
    yield single(1.5 <= rounds <= 3, f"{rounds:.3g} x the rounds, 2 stated: 1.5 to 3")
    yield single(abs(counted_so / 1300 - 1) <= 0.3, text)
    yield single(abs(error - 58) <= 5, f"error gain {error:.0f} percent, 58 wanted")
    yield single(abs(nll - 11) <= 5, f"NLL gain {nll:.0f} percent, 11 wanted")


@condition
def gap_shrinks_with_beta(cells: pd.DataFrame, c: Condition) -> Results:
    """c22: NaiveFLAIM lies less far above DistAIM at beta 5 than at beta 1."""
    table = means(cells, changed(c, beta=[1, 5]), [NAIVE, DISTAIM])
    strong, weak = (table[NAIVE] - table[DISTAIM]).to_numpy()
    yield single(weak < strong, f"their gap {digits(strong)} at beta 1, {digits(weak)} at 5")


# --- leitner2023 ---------------------------------------------------------------------------------

REAL, CTGAN, DP = "Real", "CTGAN", "DP-CTGAN"
TGAN, FED, DP_FED = "Fed-TGAN", "Fed-CTGAN", "DP-Fed-CTGAN"
SYNTHESIZERS, FEDERATED = [CTGAN, DP, TGAN, FED, DP_FED], [TGAN, FED, DP_FED]
# Where claims leave it open: a curve over clients drops or rises by more than 0.02 (utility) or 10
# percent (fidelity); fidelity is much worse at 1.5 times the distance.
DROP, RISE, MUCH = 0.02, 1.1, 1.5
JUMPS = {"adult": (1.5, 3.0), "cardio": (0.4, 1.0)}  # budgets between which utility is to jump


@condition
def steps_of_the_order(cells: pd.DataFrame, c: Condition) -> Results:
    """c03: the steps of Fed-TGAN >= Fed-CTGAN > DP-CTGAN > DP-Fed-CTGAN > CTGAN that are kept."""
    order = [TGAN, FED, DP, DP_FED, CTGAN]
    table = means(cells, c, order)[order]
    steps = -table.diff(axis=1).iloc[:, 1:].round(9)
    kept = [*(steps[FED] >= 0), *(steps.drop(columns=FED) > 0).to_numpy().ravel()]
    shown = " > ".join(f"{name} {value:.3f}" for name, value in table.mean().items())
    yield counted(kept, f"{shown} on average, steps kept")


@condition
def runs_with_a_small_drop(cells: pd.DataFrame, c: Condition) -> Results:
    """c04: in over half of the runs with privacy the accuracy is less than 0.1 below real data."""
    real = means(cells, c, [REAL])[REAL].to_numpy()[:, None]
    drops = []
    for name in (DP, DP_FED):
        shift = wide(cells, c, [name], "shift")[name]  # of resampled runs
        runs = zip(wide(cells, c, [name], "values")[name], shift, strict=True)
        drops += [
            (real[place] - np.array(values) - by).round(9)
            for place, (values, by) in enumerate(runs)
        ]
    small = np.concatenate(drops) < 0.1
    text = f"drop of the private below 0.1 in {small.sum()} of {small.size} runs, over half wanted"
    yield single(small.mean() > 0.5, text)


@condition
def rank_orders_agree(cells: pd.DataFrame, c: Condition) -> Results:
    """c10: Spearman's correlation of the methods' ranks by AUROC and by AUPRC is at least 0.7."""
    roc, prc = (
        means(cells, changed(c, metric=m), SYNTHESIZERS).droplevel("metric")
        for m in ("auroc", "auprc")
    )
    ranks = roc.rank(axis=1).corrwith(prc.loc[roc.index].rank(axis=1), axis=1)
    ranks = ranks.fillna(0).round(9)  # all methods alike: no order
    numbers = listed(ranks, ".2g")
    yield counted(ranks >= 0.7, "Spearman >= 0.7", numbers, not_run(c, roc.index))


@condition
def both_win_somewhere(cells: pd.DataFrame, c: Condition) -> Results:
    """c11: each of Fed-TGAN and Fed-CTGAN is below the other on some table."""
    table = means(cells, c, [TGAN, FED])
    wins = (table[TGAN] < table[FED]).sum()
    both = bool((table[FED] < table[TGAN]).any() and wins > 0)
    if both or len(table) == len(c.values("dataset")):  # else one not run could be the win
        text = f"{TGAN} below {FED} on {wins} of {len(table)}, some but not all wanted"
        yield single(both, text)


def _pairs_of_columns(cells: pd.DataFrame, c: Condition) -> pd.DataFrame:
    """The association of each pair of columns (rows) in real data and of each synthesizer."""
    rows = chosen(cells, c.where)
    rows = rows[np.array([len(set(pair.split(" x "))) == 2 for pair in rows["item"]], bool)]
    table = rows.pivot(index="item", columns="method", values="mean")
    table = table.reindex(columns=[REAL, *SYNTHESIZERS])
    if table.empty or table.isna().any(axis=None):
        lost = ", ".join(table.columns[table.isna().any() | table.empty])
        raise Missing(f"pairs of columns of {c.values('metric')[0]} are missing: {lost}")
    return table


@condition
def discrete_associations(cells: pd.DataFrame, c: Condition) -> Results:
    """c15: Cramer's V is nearest to real data with the federated methods, farthest with
    DP-CTGAN."""
    table = _pairs_of_columns(cells, c)
    error = table[SYNTHESIZERS].sub(table[REAL], axis=0).abs().mean()
    kept, text = error[FEDERATED].max(), "mean |V - V real|:"
    first = f"{text} {CTGAN} {error[CTGAN]:.3f}, federated up to {kept:.3f}"
    second = f"{text} {DP} {error[DP]:.3f}, above {CTGAN} wanted"
    yield single(kept < error[CTGAN], first)
    yield single(error[CTGAN] < error[DP], second)


@condition
def correlations(cells: pd.DataFrame, c: Condition) -> Results:
    """c16: correlations are nearest with Fed-TGAN and Fed-CTGAN, weaker with DP-Fed-CTGAN, stronger
    with CTGAN, and DP-CTGAN turns the sign of some."""
    table = _pairs_of_columns(cells, c)
    error = table[SYNTHESIZERS].sub(table[REAL], axis=0).abs().mean()
    size, turned = table.abs().mean(), table[DP] * table[REAL] < 0
    best, others = error[[TGAN, FED]].max(), error[[CTGAN, DP, DP_FED]].min()
    strongest = table.loc[turned, REAL].abs().max() if turned.any() else 0.0
    near = f"mean |r - r real| of {TGAN} and {FED} up to {best:.3f}, of others from {others:.3f}"
    weak = f"mean |r| of {DP_FED} {size[DP_FED]:.3f}, of {REAL} {size[REAL]:.3f}"
    signs = f"{DP} turns the sign of {turned.sum()} of {len(turned)} pairs, of real"
    yield single(best < others, near)
    yield single(size[DP_FED] < size[REAL], weak)
    yield single(size[CTGAN] > size[REAL], f"of {CTGAN} {size[CTGAN]:.3f}")
    yield single(turned.any(), f"{signs} |r| <= {strongest:.3f}")


def at_nominal_budgets(cells: pd.DataFrame, swept: Sequence[float]) -> pd.DataFrame:
    """Cells of a sweep over budgets as algorithm 4.2 would have them: at least one epoch is
    trained, whatever the budget.

    The sweep has one budget more for each table, the smallest that pays for an epoch; budgets below
    it take its cells.
    """
    parts = [cells.iloc[:0]]
    for _, own in cells[cells["epsilon"].notna()].groupby("dataset"):
        nominal = own["epsilon"].isin(swept)
        least = own.loc[~nominal, "epsilon"].min()
        one_epoch = own[own["epsilon"] == least]
        parts += [one_epoch.assign(epsilon=budget) for budget in swept if budget < least]
        parts.append(own[nominal & ~(own["epsilon"] < least)])
    return pd.concat(parts)


def _swept(cells: pd.DataFrame, c: Condition, axis: str, methods: list[str]) -> list[str]:
    """The tables on which several values of an axis were run."""
    rows = chosen(cells, {**{a: v for a, v in c.where.items() if a != axis}, "method": methods})
    several = rows.groupby("dataset")[axis].nunique() > 1
    tables = [name for name in c.values("dataset") if several.get(name, False)]
    if not tables:
        names = ", ".join(c.values("dataset"))
        raise Missing(f"cells are missing: no table of {names} has several values of {axis}")
    return tables


def _curve(
    cells: pd.DataFrame, c: Condition, axis: str, needs: list, names: list[str], **where: Any
) -> pd.DataFrame:
    """Methods by the values of an axis that were run, some of which must be among them."""
    here = changed(c, each=(axis,), as_run=(axis,), needs={axis: needs}, **where)
    return means(cells, here, names).droplevel("metric")


@condition
def utility_jumps(cells: pd.DataFrame, c: Condition) -> Results:
    """c19: utility from the threshold budget on lies above all below it."""
    cells = at_nominal_budgets(cells, c.values("epsilon"))
    tables = _swept(cells, c, "epsilon", [DP_FED])
    absent = not_run(c, tables)
    for dataset in tables:
        low, high = JUMPS[dataset]
        for metric in ("auroc", "auprc"):
            where = {"dataset": dataset, "metric": metric}
            curve = _curve(cells, c, "epsilon", [], [DP_FED], **where)[DP_FED]
            below, above = curve[curve.index <= low], curve[curve.index >= high]
            if min(len(below), len(above)) < 2:
                few = f"two budgets up to {low:g} and two from {high:g} ({dataset})"
                raise Missing(f"cells are missing: {few}")
            numbers = f"{below.max():.3f}, {above.min():.3f} to {above.max():.3f}"
            text = f"{dataset} {metric} from {high:g} on above all up to {low:g}"
            yield counted(above > below.max(), text, numbers, absent)


@condition
def fidelity_stays_level(cells: pd.DataFrame, c: Condition) -> Results:
    """c20: distances at epsilon 10 are within 20 percent of those at the first budget from 2 on,
    and much larger at 0.1."""
    cells = at_nominal_budgets(cells, c.values("epsilon"))
    tables = _swept(cells, c, "epsilon", [DP_FED])
    absent = not_run(c, tables)
    for dataset in tables:
        budgets = np.sort(cells.loc[cells["dataset"] == dataset, "epsilon"].unique())
        start = budgets[budgets >= 2].min(initial=10)
        if start >= 10:
            raise Missing(f"cells are missing: a budget from 2 to below 10 ({dataset})")
        for metric in ("jsd", "wd"):
            where = {"dataset": dataset, "metric": metric, "epsilon": [0.1, start, 10]}
            curve = _curve(cells, c, "epsilon", [0.1, start, 10], [DP_FED], **where)[DP_FED]
            least, _, most = curve / curve[start]
            text = (
                f"{dataset} {metric} over that at {start:.3g}: {most:.2f} at 10, within 20 percent"
            )
            yield single(round(abs(most - 1), 9) <= 0.2, f"{text} wanted", absent)
            yield single(least >= MUCH, f"{least:.2f} at 0.1, {MUCH:g} wanted")


def _by_clients(
    cells: pd.DataFrame, c: Condition, metrics: Sequence[str]
) -> tuple[dict[tuple[str, str], pd.DataFrame], list[str]]:
    """(dataset, metric) -> methods by number of clients; the tables."""
    tables, curves = _swept(cells, c, "n_clients", FEDERATED), {}
    swept = "n_clients", [2, 5, 10, 20], FEDERATED
    for dataset, metric in product(tables, metrics):
        curves[dataset, metric] = _curve(cells, c, *swept, dataset=dataset, metric=metric)
    return curves, tables


@condition
def utility_drops_with_clients(cells: pd.DataFrame, c: Condition) -> Results:
    """c21: curves fall after their peak, and on cardio drop first for DP-Fed-CTGAN."""
    curves, tables = _by_clients(cells, c, ("auroc", "auprc"))
    falls, first = [], {}
    for place, table in curves.items():
        for method, curve in table.items():
            after = curve.loc[curve.idxmax() :]
            falls.append(len(after) > 1 and not (after.diff().round(9) > DROP).any())
            dropped = curve.index[(curve.cummax() - curve).round(9) > DROP]
            first[*place, method] = min(dropped, default=np.inf)
    text = f"falls after a peak, without a rise over {DROP:g},"
    yield counted(falls, text, absent=not_run(c, tables))
    for dataset in {*tables} - {"adult"}:
        shown = [f"{m} {first[dataset, 'auroc', m]:g}" for m in FEDERATED]
        earlier = [
            first[dataset, metric, DP_FED] < min(first[dataset, metric, m] for m in (TGAN, FED))
            for metric in ("auroc", "auprc")
        ]
        text = f"{dataset}: first drop over {DROP:g} earlier for {DP_FED}"
        yield counted(earlier, text, f"auroc at {', '.join(shown)} clients")


@condition
def fidelity_worsens_with_clients(cells: pd.DataFrame, c: Condition) -> Results:
    """c22: from 5 to 20 clients distances rise for the methods that are named, and for these only;
    on adult that of DP-Fed-CTGAN falls from 2 to 5."""
    stated = {("adult", "jsd"): FEDERATED, ("adult", "wd"): FEDERATED}
    stated |= {("cardio", "jsd"): [DP_FED], ("cardio", "wd"): [TGAN, FED]}
    curves, tables = _by_clients(cells, c, ("jsd", "wd"))
    absent = not_run(c, tables)
    for (dataset, metric), table in curves.items():
        ratio = table.loc[20] / table.loc[5]
        if (dataset, metric) == ("cardio", "wd"):
            ratio = ratio.drop(DP_FED)  # of which nothing is said
        named = stated[dataset, metric]
        words = "all" if len(named) == len(ratio) else f"only {', '.join(named)}"
        text = f"{dataset} {metric} up from 5 to 20 clients for {words}: so"
        held = (ratio > RISE) == ratio.index.isin(named)
        yield counted(held, text, listed(ratio, ".2f"), absent)
    if "adult" in tables:
        two, five = curves["adult", "jsd"].loc[[2, 5], DP_FED]
        text = f"adult jsd of {DP_FED} {two:.4f} at 2, {five:.4f} at 5 clients"
        yield single(five < two, text)


# --- sattarov2024 --------------------------------------------------------------------------------


@condition
def best_compromise_of_updates(cells: pd.DataFrame, c: Condition) -> Results:
    """c04: utility, fidelity and 1 - risk, each scaled to [0, 1], sum up to most at 100 updates."""
    total = pd.Series(1.0, c.axes["local_updates"])
    for metric, sign in (("accuracy", 1), ("fidelity", 1), ("risk", -1)):
        curve = means(cells, changed(c, metric=metric), c.axes["local_updates"]).iloc[0]
        total += sign * (curve - curve.min()) / (np.ptp(curve) or 1)
    text = f"{c.values('partition')[0]}: best sum at {total.idxmax():g}"
    yield single(total.idxmax() == 100, f"{text} ({listed(total)})")


@condition
def ratio_of_times(cells: pd.DataFrame, c: Condition) -> Results:
    """c05: 1000 local updates take about 8 times as long as 100 (28 h / 3.5 h)."""
    times = means(cells, c, [100, 1000]).mean()
    ratio = times[1000] / times[100]
    text = f"1000 local updates take {ratio:.1f} times as long as 100, stated 28 h / 3.5 h = 8"
    yield single(6 <= ratio <= 10, text)


@condition
def later_gain_is_smaller(cells: pd.DataFrame, c: Condition) -> Results:
    """c16: utility gains less from 5 to 10 clients than from 3 to 5."""
    (_, table), *_ = means(cells, c, [3, 5, 10]).iterrows()
    late, early = table[10] - table[5], table[5] - table[3]
    text = f"gain from 5 to 10 {late:+.3f}, from 3 to 5 {early:+.3f}"
    yield single(late < early, text)


def _by_strategy(cells: pd.DataFrame, c: Condition, metric: str) -> pd.DataFrame:
    found = means(cells, changed(c, metric=metric), c.axes["strategy"])
    return found.droplevel("metric")


@condition
def risk_varies_more_than_utility(cells: pd.DataFrame, c: Condition) -> Results:
    """c18: over strategies, by table."""
    risk, utility = (_by_strategy(cells, c, metric) for metric in ("risk", "accuracy"))
    held = np.ptp(risk, axis=1) > np.ptp(utility, axis=1)
    text = "risk varies more than utility over strategies"
    yield counted(held, text, absent=not_run(c, held.index))


@condition
def best_strategies_differ(cells: pd.DataFrame, c: Condition) -> Results:
    """c18: the strategy of least risk is not the same on all tables."""
    best = _by_strategy(cells, c, "risk").idxmin(axis=1)
    shown = ", ".join(f"{name} {dataset}" for dataset, name in best.items())
    yield single(best.nunique() > 1, f"least risk with {shown}")


@condition
def no_strategy_is_best_in_all(cells: pd.DataFrame, c: Condition) -> Results:
    """c19: averaged over tables."""
    best = {
        metric: (sign * _by_strategy(cells, c, metric).mean()).idxmax()
        for metric, sign in (("accuracy", 1), ("fidelity", 1), ("risk", -1))
    }
    shown = ", ".join(f"{metric} {name}" for metric, name in best.items())
    absent = not_run(c, _by_strategy(cells, c, "risk").index)
    yield single(len(set(best.values())) > 1, f"best on average: {shown}", absent)


# --- apellaniz2025 -------------------------------------------------------------------------------


@condition
def commonest_education(cells: pd.DataFrame, c: Condition) -> Results:
    """c19: rows of FedAvg have the commonest level of Education more often than real ones do."""
    rows = chosen(cells, {a: v for a, v in c.where.items() if a != "item"})
    rows = rows[rows["item"].fillna("").str.startswith("Education ")]
    held, shown = [], []
    for partition in c.values("partition"):
        own, by = rows[rows["partition"] == partition], ["metric", "method"]
        shares = own.pivot_table("mean", by, "item", fill_value=0)
        wanted = [*product(("real_share", "synthetic_share"), ("FedAvg", "SDS"))]
        if lost := [" of ".join(key) for key in wanted if key not in shares.index]:
            which = f"{partition} {', '.join(lost)}"
            raise Missing(f"shares of Education at node 1 are missing: {which}")
        real = shares.loc["real_share"].mean()
        drawn = shares.loc["synthetic_share", real.idxmax()]
        held.append(drawn["FedAvg"] > real.max())
        numbers = {"real": real.max(), "FedAvg": drawn["FedAvg"], "SDS": drawn["SDS"]}
        shown.append(f"{partition} {listed(pd.Series(numbers))}")
    yield counted(held, "commonest Education level: FedAvg > real", "; ".join(shown))


# --- martinez2024 --------------------------------------------------------------------------------

FIDELITY, UTILITY = ["hellinger", "pcd", "pmse", "log_cluster"], ["auc_rf", "auc_nb", "auc_knn"]
MODELS = ["fedbn", "fedvae"]
# a small effect of noise (c16)
SMALL = {"hellinger": 0.05, "pcd": 0.2, "pmse": 0.005, "log_cluster": 3.0}


@condition
def noise_costs_everywhere(cells: pd.DataFrame, c: Condition) -> Results:
    """c20: the mean loss at epsilon 1.6 is small on no dataset, by any metric."""
    table = means(cells, c, [np.inf, 1.6])
    loss = (table[1.6] - table[np.inf]).groupby(["dataset", "metric"]).mean().unstack()
    yield counted((loss > pd.Series(SMALL)[loss.columns]).all(axis=1), "loss at 1.6 not small")


@condition
def copies_with_fedvae_only(cells: pd.DataFrame, c: Condition) -> Results:
    """c47: a smallest distance of 0 occurs with FedVAE, and never with FedBN."""
    copies = means(cells, changed(c, metric="dcr_min"), MODELS) == 0
    fedbn, fedvae = copies["fedbn"], copies["fedvae"]
    text = f"dcr_min 0 in {fedbn.sum()} of {len(fedbn)} (fedbn) and {fedvae.sum()} of {len(fedvae)}"
    yield single(not fedbn.any() and fedvae.any(), f"{text} (fedvae)")


@condition
def ensemble_guesses_the_majority(cells: pd.DataFrame, c: Condition) -> Results:
    """c31: the ensemble and the dummy attack score what the most frequent class of the real rows
    gives, on real and on synthetic rows."""
    names, c = ["ad_ens", "ad_dum"], replace(c, across="metric")
    real = means(cells, changed(c, setting="real"), names)
    table = pd.concat([real, means(cells, c, names)])
    share = real["ad_dum"].iloc[0]
    alike = ((table - share).round(3) == 0).all(axis=1)
    yield counted(alike, f"ad_ens = ad_dum = {share:.3f}")


@condition
def less_noise_is_worse_somewhere(cells: pd.DataFrame, c: Condition) -> Results:
    """c34: epsilon 1.6 is worse than 0.5 in at least three places, by at least one metric."""
    table = means(cells, changed(c, metric=FIDELITY, across="epsilon"), [1.6, 0.5])
    worse = (table[1.6] > table[0.5]).groupby("metric", sort=False).sum()
    text = f"epsilon 1.6 worse than 0.5 in {listed(worse, 'd')} of 9, 3 wanted of one"
    yield single(worse.max() >= 3, text)


@condition
def pcd_against_central_as_stated(cells: pd.DataFrame, c: Condition) -> Results:
    """c35: equal under i.i.d. and quantity skew but for a gain with 10 clients, worse under label
    skew."""
    found = tests(cells, c, "central")
    partition, clients = (found.index.get_level_values(a) for a in ("partition", "n_clients"))
    gain = (partition == "quantity_skew") & (clients == 10)
    stated = np.select([partition == "label_skew", gain], ["worse", "better"], "equal")
    yield counted(found == stated, "non-DP pcd v central as stated")


@condition
def clients_change_sign_across_partitions(cells: pd.DataFrame, c: Condition) -> Results:
    """c37: from 3 to 10 clients a metric rises under one partition and falls under another."""
    table = means(cells, replace(c, across="n_clients"), [3, 10])
    steps = (table[10] - table[3]).round(9).unstack("partition")
    signs = (steps.min(axis=1) < 0) & (steps.max(axis=1) > 0)
    same = ", ".join(f"{dataset} {metric}" for dataset, _, metric in signs.index[~signs])
    text = "sign of (10 less 3 clients) changes across partitions"
    yield counted(signs, text, f"not {same}" if same else "")


@condition
def less_noise_is_not_always_better(cells: pd.DataFrame, c: Condition) -> Results:
    """c37: of no dataset and metric is epsilon 1.6 better than 0.5 in all nine places."""
    here = changed(c, metric=[*FIDELITY, *UTILITY], across="epsilon")
    table = means(cells, here, [1.6, 0.5])
    gain = (table[1.6] - table[0.5]) * sign_of(table, here)
    better = (gain > 0).groupby(["dataset", "metric"]).all()
    yield counted(~better, "epsilon 1.6 not better than 0.5 in all 9 cells")


CONFIGURATIONS = {"fedbn": 36, "fedvae": 30}  # the full grid, and the random draws


def _search_cells(cells: pd.DataFrame, c: Condition) -> pd.DataFrame:
    """The cells of searches with 5 clients under label skew; the configuration is their item."""
    here = {"setting": c.values("setting"), "partition": ["label_skew"], "n_clients": [5]}
    rows = chosen(cells, {**here, "epsilon": [np.inf], "dataset": c.values("dataset")})
    return rows[rows["method"].isin(MODELS)]


def _searched(cells: pd.DataFrame, c: Condition, model: str, *wanted: str) -> pd.DataFrame:
    """The configurations of a model's searches, once all that are needed are there."""
    table = configurations(cells[cells["method"] == model]).dropna(subset=list(wanted))
    numbers = table["dataset"].value_counts().reindex(c.values("dataset"), fill_value=0)
    if (numbers < CONFIGURATIONS[model]).any():
        metrics = " and ".join(wanted).replace(RUNTIME, SECONDS)
        raise Missing(
            f"{model}: {CONFIGURATIONS[model]} configurations with {metrics} are needed, there are "
            f"{listed(numbers, 'd')}"
        )
    return table


@condition
def best_settings_of_searches(cells: pd.DataFrame, c: Condition) -> Results:
    """c04: the best settings differ between datasets; the spread of FedBN is least on cardio."""
    cells, datasets = _search_cells(cells, c), c.values("dataset")
    found = {model: _searched(cells, c, model, SCORE) for model in MODELS}
    for model, table in found.items():
        settings = set(table.loc[table.groupby("dataset")[SCORE].idxmin(), "detail"])
        text = f"{model}: {len(settings)} different best settings, {len(datasets)} wanted"
        yield single(len(settings) == len(datasets), text)
    scores = found["fedbn"].groupby("dataset")[SCORE]
    spreads = scores.median() - scores.min()
    least = spreads["cardio"] < spreads.drop("cardio").min()
    text = f"fedbn: median less best {listed(spreads)}, least on cardio wanted"
    yield single(least, text)


def _sensitivity(cells: pd.DataFrame, c: Condition, model: str, *named: str) -> pd.DataFrame:
    """Rank, importance and correlation by dataset and hyperparameter, of which the run time is
    none; those named must be there and vary."""
    cells = _search_cells(cells, c)
    complete = _searched(cells, c, model, SCORE, RUNTIME)[["method", "dataset", "detail"]]
    table = sensitivity(cells.merge(complete)).query("hyperparameter != @RUNTIME")
    rank = table.groupby("dataset")["importance"].rank(ascending=False)
    table = table.assign(rank=rank).set_index(["dataset", "hyperparameter"])
    varies = table["correlation"].notna()
    idle = [f"{n} on {d}" for d in c.values("dataset") for n in named if not varies.get((d, n))]
    if idle:
        raise Missing(f"{model}: the searches do not vary {', '.join(idle)}")
    return table


def _ranked(table: pd.DataFrame, name: str, rank: int, datasets: Sequence[str]) -> ConditionResult:
    found = table["rank"].unstack("dataset").loc[name, list(datasets)]
    first = {d: ", ".join(table.loc[d].sort_values("rank").index[:3]) for d in datasets}
    shown = "; ".join(f"{d}: {names}, ..." for d, names in first.items())
    return counted(found == rank, f"{name} of rank {rank}", shown)


def _correlated(
    table: pd.DataFrame, name: str, datasets: Sequence[str], bounds: tuple[float, float], words: str
) -> ConditionResult:
    """Whether correlations lie strictly between the bounds."""
    found = table["correlation"].unstack("dataset").loc[name, list(datasets)].round(9)
    held = (found > bounds[0]) & (found < bounds[1])
    return counted(held, f"correlation of {name} {words}", listed(found, "+.2f"))


@condition
def weight_decay_leads_in_fedvae(cells: pd.DataFrame, c: Condition) -> Results:
    """c05: weight decay is of rank 1 with a correlation of 0.5 or more on every dataset; the loss
    factor follows on bank and cardio."""
    table = _sensitivity(cells, c, "fedvae", "weight_decay", "loss_factor")
    datasets, others = c.values("dataset"), ["bank", "cardio"]
    half = np.nextafter(0.5, 0)  # 0.5 counts
    yield _ranked(table, "weight_decay", 1, datasets)
    yield _correlated(table, "weight_decay", datasets, (half, np.inf), ">= 0.5")
    yield _ranked(table, "loss_factor", 2, others)


@condition
def aggregation_interval_leads_in_fedbn(cells: pd.DataFrame, c: Condition) -> Results:
    """c06: the aggregation interval is of rank 1 on two datasets or more; its correlation is
    slightly positive on adult and strongly negative on cardio."""
    name = "aggregation_interval"
    table = _sensitivity(cells, c, "fedbn", name)
    ranked = _ranked(table, name, 1, c.values("dataset"))
    firsts = round(ranked.share * len(c.values("dataset")))
    yield ranked._replace(share=float(firsts >= 2))
    yield _correlated(table, name, ["adult"], (0, 0.3), "in (0, 0.3)")
    yield _correlated(table, name, ["cardio"], (-np.inf, np.nextafter(-0.5, 0)), "<= -0.5")
