"""Checks of the claims of apellaniz2025 (VAE-BGM) for `published.judge_claims`; see
`verdicts/claims.py` for how one concludes.

Tables 2 to 6, A1 and A2 come from rows of `apellaniz_study.judge` of several trainings, each
measured once, whose spread is that of trainings (`VAE_BGM`; `OF_SIZES` of A1 and A2, with slopes
cut as the code does); tables 2 to 6 with slopes cut of one training, whose spread is that of
measuring it again, as in print (`AS_RUN`). "Significant" is the work's own test
(`apellaniz_tables.tested`). c17 and c18 read rows of `distances`, c19 those of `features`: of rows
as the networks draw them, over all trainings.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import Judgement, aggregate
from fedsynth_lib.runs.details import SIZED
from fedsynth_lib.verdicts.apellaniz_tables import (
    CUT,
    FEDAVG,
    ISOLATED,
    JS,
    METHODS,
    METRICS,
    PLACE,
    REAL,
    SDS,
    SYNTHETIC,
    in_print,
    reciprocal_ranks,
    tested,
    variants,
)
from fedsynth_lib.verdicts.claims import Condition, Missing, concluded, count, of_work
from fedsynth_lib.works.apellaniz_study import COMBINATIONS, DATASETS, NODE_ROWS, WORK

DIABETES, HEART = DATASETS
PARTITIONS = IID, SKEW = "iid", "bmi_skew"
NODES = ("1", "2", "3")
MAIN = SIZED + "/".join(map(str, NODE_ROWS))  # of tables 2 to 5
SWEEP = {  # tables A1 and A2
    "dataset": [DIABETES],
    "partition": PARTITIONS,
    "detail": [SIZED + "/".join(map(str, sizes)) for sizes in COMBINATIONS],
}


def judge(
    values: pd.DataFrame, claim: str, *, spread: str = "repeat", variant: str = ""
) -> Judgement:
    """Outcome and evidence by tidy rows of one profile, by the `aggregate` per node of rows
    `in_print`, or by print.

    spread and variant, of rows only, as in `in_print`.
    """
    if "value" in values:
        values = of_work(values, WORK)
        values = values[values["value"].notna()]
    values = values[values["epsilon"].fillna(np.inf) == np.inf]
    if claim in _FIGURES:
        return concluded(_FIGURES[claim], _as_drawn(values))
    if "value" in values:
        values = aggregate(in_print(values, spread, variant), per_node=True)
    return concluded(_CHECKS[claim], _cells(values))


def _as_drawn(values: pd.DataFrame) -> pd.DataFrame:
    """Rows about synthetic rows as drawn and as published; none of printed cells or an aggregate,
    which lack them."""
    if "item" not in values:
        return values.iloc[:0].assign(item="")
    return values[variants(values) == ""]


def _cells(values: pd.DataFrame) -> pd.DataFrame:
    """All cells by metric, place and method: means, and p-values, marks and other means of the
    tests."""
    cells = values[values["metric"].isin(METRICS)]
    cells = cells.assign(
        mean=cells["mean"].round(9), method=cells["method"].where(cells["metric"] != REAL, "Real")
    )
    keys = ["metric", *PLACE, "method"]
    return cells.set_index(keys).join(tested(cells).set_index(keys)[["mean_other", "p", "mark"]])


def _found(
    v, metric: str, methods: Sequence[str], *, dataset, partition, detail=(MAIN,), node=NODES
) -> tuple[pd.DataFrame, pd.MultiIndex]:
    """The cells of techniques in each of the places, and the places; raises Missing."""
    index = pd.MultiIndex.from_product(
        [np.atleast_1d(p) for p in (dataset, partition, detail, node)], names=PLACE
    )
    wanted = pd.MultiIndex.from_tuples(
        [(metric, *place, name) for place, name in product(index, methods)]
    )
    found = v.reindex(wanted)
    _complete(found["mean"], metric)
    return found, index


def _complete(values: pd.Series, what: str) -> None:
    if len(lost := values.index[values.isna()]):
        first = ", ".join(part.removeprefix(SIZED) for part in lost[0][1:])
        raise Missing(
            f"{len(lost)} of {len(values)} values of {what} are missing, the first at {first}"
        )


def _table(v, metric: str, methods: Sequence[str], **where) -> pd.DataFrame:
    """Means of techniques (columns) by dataset, partition, detail and node; raises Missing."""
    found, index = _found(v, metric, methods, **where)
    return pd.DataFrame(found["mean"].to_numpy().reshape(len(index), -1), index, list(methods))


def _accuracy(v, methods=METHODS, **where) -> pd.DataFrame:
    """Accuracies of synthetic rows, and a column `Real`."""
    return _table(v, SYNTHETIC, methods, **where).assign(
        Real=_table(v, REAL, ["Real"], **where)["Real"]
    )


def _named(place: tuple[str, ...]) -> str:
    _, partition, detail, node = place
    return (
        f"node {node}"
        if detail == MAIN
        else f"{partition} {detail.removeprefix(SIZED)} node {node}"
    )


def _counted(
    holds: pd.Series, numbers: list[str], text: str, needed: range | None = None
) -> Condition:
    """How often a statement holds; with the numbers of few places, or of those of many where it
    does not."""
    listed = [
        f"{_named(place)} {number}"
        for (place, held), number in zip(holds.items(), numbers, strict=True)
        if len(holds) <= 3 or not held
    ]
    share, text = count(holds, text, needed)
    return share, f"{text} ({'not at ' * (len(holds) > 3)}{'; '.join(listed)})" if listed else text


def _ordered(table: pd.DataFrame, *names: str) -> Condition:
    """In how many places each technique lies below the next one named."""
    holds = np.logical_and.reduce([table[low] < table[high] for low, high in pairwise(names)])
    numbers = [
        ", ".join(f"{name} {row[name]:.3f}" for name in names) for _, row in table.iterrows()
    ]
    return _counted(pd.Series(holds, table.index), numbers, " < ".join(names))


def _below(table: pd.DataFrame, low: str, high: str) -> Condition:
    """Whether one is below the other in the one row of the table."""
    first, second = table.iloc[0][[low, high]]
    return bool(
        first < second
    ), f"{low} {first:.3f} < {high} {second:.3f}: {'yes' if first < second else 'no'}"


def _least(v, needed: range | None = None, **where) -> Condition:
    """In how many places SDS has the lowest divergence."""
    table = _table(v, JS, METHODS, **where)
    numbers = [
        ", ".join(f"{name} {value:.3f}" for name, value in row.items())
        for _, row in table.iterrows()
    ]
    return _counted(
        table[SDS] < table[[ISOLATED, FEDAVG]].min(axis=1), numbers, f"{JS} lowest with SDS", needed
    )


SIDES = {
    (JS, "*"): "significantly below Isolated",
    (JS, "worse"): "significantly above Isolated",
    (JS, "not *"): "not significantly below Isolated",
    (SYNTHETIC, "worse"): "significantly below Real",
    (SYNTHETIC, "*"): "not significantly below Real",
}


def _marked(v, metric: str, method: str, wanted: str, **where) -> Condition:
    """In how many places a technique has the wanted mark of the work's test."""
    found, index = _found(v, metric, [method], **where)
    _complete(found["mean_other"], f"the {ISOLATED if metric == JS else 'Real'} beside {metric}")
    if found["p"].isna().any():
        raise Missing(f"a test of {metric} needs 2 repeats or more")
    table = found.set_axis(index)
    holds = table["mark"] != "*" if wanted == "not *" else table["mark"] == wanted
    p = 1 - table["p"] if (metric, wanted) == (JS, "worse") else table["p"]
    pairs = zip(table["mean"], table["mean_other"], p, strict=True)
    numbers = [f"{mean:.3f} v {other:.3f}, p {chance:.4f}" for mean, other, chance in pairs]
    return _counted(holds, numbers, f"{metric} of {method} {SIDES[metric, wanted]}")


def _cut(v, method: str, dataset: str, holds: Callable[[float], bool], wanted: str) -> Condition:
    """By how much a technique lowers the divergence of node 1 under skew."""
    alone, shared = _table(
        v, JS, [ISOLATED, method], dataset=dataset, partition=SKEW, node="1"
    ).iloc[0]
    percent = 100 * (1 - shared / alone)
    text = (
        f"{dataset} node 1: {method} cuts {alone:.3f} to {shared:.3f} by {percent:.1f} percent, "
        f"{wanted} wanted"
    )
    return holds(percent), text


def _close(v, limit: float, **where) -> Condition:
    table = _accuracy(v, **where)
    gaps = table[list(METHODS)].rsub(table["Real"], axis=0).stack().round(9)
    return count(
        gaps < limit, f"accuracy less than {limit:g} below Real (at most {gaps.max():.3f})"
    )


def _alike(v, limit: float, **where) -> Condition:
    values = _table(v, JS, METHODS, **where).iloc[0]
    spread, shown = (
        round(np.ptp(values), 9),
        ", ".join(f"{name} {value:.3f}" for name, value in values.items()),
    )
    return (
        spread < limit,
        f"range of {JS} {spread:.3f} < {limit:g}: {'yes' if spread < limit else 'no'} ({shown})",
    )


def _ranks(
    v, holds: Callable[[pd.DataFrame], pd.Series], text: str, partitions: Sequence[str]
) -> list[Condition]:
    """In how many of the cases the mean reciprocal ranks (techniques in columns) are as wanted."""
    _table(v, JS, METHODS, dataset=DATASETS, partition=partitions)
    cells = v.reset_index()
    ranks = reciprocal_ranks(cells[(cells["detail"] == MAIN) & cells["partition"].isin(partitions)])
    ranks = ranks.pivot(index=["dataset", "partition"], columns="method", values="value").round(9)[
        list(METHODS)
    ]
    shown = [
        f"{' '.join(case)} {', '.join(f'{value:.3f}' for value in row)}"
        for case, row in ranks.iterrows()
    ]
    share, text = count(holds(ranks), f"mean reciprocal ranks: {text}")
    return [(share, f"{text} ({'; '.join(shown)}: {', '.join(METHODS)})")]


def _wins(v) -> list[Condition]:
    table = _accuracy(v, [FEDAVG, SDS], **SWEEP)
    wins, ties = table[SDS] > table[FEDAVG], (table[SDS] == table[FEDAVG]).sum()
    share, text = count(wins, "accuracy of SDS above FedAvg", range(13, 25))
    return [(share, f"{text} ({ties} ties), over half wanted")]


def _measured(
    rows, node: str, methods: Sequence[str], metric: str, items: Sequence[str], datasets
) -> pd.DataFrame:
    """Rows of one node and metric; raises Missing unless all are there."""
    keys = ["dataset", "partition", "method", "item"]
    found = rows[(rows["node"] == node) & (rows["metric"] == metric)]
    wanted = pd.MultiIndex.from_product([datasets, PARTITIONS, methods, items], names=keys)
    if len(lost := wanted.difference(pd.MultiIndex.from_frame(found[keys]))):
        first = ", ".join(filter(None, lost[0]))
        raise Missing(
            f"{len(lost)} of {len(wanted)} values of {metric} at node {node} are missing, the "
            f"first at {first}"
        )
    return found.set_index(keys).loc[wanted]


def _farther(
    rows, metric: str, extreme: str, holds: Callable[[pd.Series], pd.Series], text: str
) -> Condition:
    """In how many cases the extreme over trainings of a measure of SDS at node 3 is as wanted."""
    found = (
        _measured(rows, "3", [SDS], metric, [""], DATASETS)["value"]
        .groupby(["dataset", "partition"])
        .agg(extreme)
    )
    shown = ", ".join(f"{' '.join(case)} {value:.2g}" for case, value in found.items())
    return count(holds(found), f"{metric} {text} ({shown})")


def _c19(rows) -> list[Condition]:
    columns = ["Age", "BMI", "Education"]
    js = _measured(rows, "1", [FEDAVG, SDS], "js_column", columns, [DIABETES])["value"]
    js = js.groupby(["item", "partition", "method"]).mean().unstack()
    conditions = []
    for name in columns:
        shown = ", ".join(
            f"{p} {row[SDS]:.4f} v {row[FEDAVG]:.4f}" for p, row in js.loc[name].iterrows()
        )
        conditions.append(
            count(
                js.loc[name, SDS] < js.loc[name, FEDAVG],
                f"divergence of {name} SDS < FedAvg ({shown})",
            )
        )
    modal = pd.DataFrame({p: _commonest(rows, p) for p in PARTITIONS}).T
    shown = "; ".join(
        f"{p} " + ", ".join(f"{m} {s:.3f}" for m, s in row.items()) for p, row in modal.iterrows()
    )
    return [
        *conditions,
        count(modal[FEDAVG] > modal["real"], f"commonest Education level: FedAvg > real ({shown})"),
    ]


def _commonest(rows: pd.DataFrame, partition: str) -> dict[str, float]:
    """The shares of real and synthetic rows with the level of Education that is commonest in the
    real ones."""
    here = (rows["dataset"] == DIABETES) & (rows["partition"] == partition) & (rows["node"] == "1")
    rows = rows[here & rows["item"].str.startswith("Education ")]
    shares = rows.pivot_table(
        index=["metric", "method", "seed"], columns="item", values="value"
    ).fillna(0)
    shares = shares.groupby(["metric", "method"]).mean()
    wanted = [
        (f"{kind}_share", method) for kind in ("real", "synthetic") for method in (FEDAVG, SDS)
    ]
    if lost := [" of ".join(key) for key in wanted if key not in shares.index]:
        raise Missing(f"shares of Education at node 1 are missing: {partition} {', '.join(lost)}")
    real = shares.loc["real_share"].mean()
    drawn = shares.loc["synthetic_share", real.idxmax()]
    return {"real": real.max(), FEDAVG: drawn[FEDAVG], SDS: drawn[SDS]}


_IID_D, _IID_H, _SKEW_D, _SKEW_H = (
    {"dataset": d, "partition": p} for p in PARTITIONS for d in DATASETS
)
_ALL = (SDS, FEDAVG, ISOLATED)
_CHECKS: dict[str, Callable[[pd.DataFrame], list[Condition]]] = {
    "c01": lambda v: [
        _cut(v, FEDAVG, d, lambda percent: 13 <= round(percent) <= 27, "13 to 27") for d in DATASETS
    ],
    "c02": lambda v: [_cut(v, SDS, d, lambda percent: percent > 50, "over 50") for d in DATASETS],
    "c03": lambda v: [_ordered(_table(v, JS, _ALL, **_IID_D, node=NODES[:2]), *_ALL)],
    "c04": lambda v: [_alike(v, 0.06, **_IID_D, node="3")],
    "c05": lambda v: [
        _close(v, 0.01, **_IID_D),
        *[_marked(v, SYNTHETIC, method, "worse", **_IID_D, node="2") for method in (FEDAVG, SDS)],
    ],
    "c06": lambda v: [
        _ordered(_table(v, JS, _ALL, **_IID_H), *_ALL),
        _marked(v, JS, SDS, "*", **_IID_H),
    ],
    "c07": lambda v: [
        _below(_accuracy(v, **_IID_H, node="2"), name, SDS) for name in ("Real", ISOLATED, FEDAVG)
    ],
    "c08": lambda v: [
        _marked(v, SYNTHETIC, method, mark, **_IID_H, node="1")
        for method, mark in ((ISOLATED, "worse"), (FEDAVG, "worse"), (SDS, "*"))
    ],
    "c09": lambda v: [_least(v, **_SKEW_D), _marked(v, JS, SDS, "*", **_SKEW_D)],
    "c10": lambda v: [
        _below(_accuracy(v, **_SKEW_D, node="1"), *pair)
        for pair in pairwise((ISOLATED, FEDAVG, SDS, "Real"))
    ],
    "c11": lambda v: [
        _marked(v, JS, SDS, "*", **_SKEW_H, node="1"),
        _below(_table(v, JS, [SDS, ISOLATED], **_SKEW_H, node="2"), SDS, ISOLATED),
        _marked(v, JS, SDS, "not *", **_SKEW_H, node="3"),
    ],
    "c12": lambda v: [_marked(v, JS, FEDAVG, "worse", **_SKEW_H, node="3")],
    "c13": lambda v: [_marked(v, SYNTHETIC, SDS, "worse", **_SKEW_H, node=NODES[:2])],
    "c14": lambda v: [_marked(v, JS, FEDAVG, "*", **_SKEW_H, node="1")],
    "c15": lambda v: _ranks(
        v,
        lambda r: (r[SDS] > r[FEDAVG]) & (r[FEDAVG] > r[ISOLATED]),
        "SDS > FedAvg > Isolated",
        PARTITIONS,
    ),
    "c16": lambda v: _ranks(v, lambda r: r[SDS] == 1, "SDS 1", [SKEW]),
    "c20": lambda v: [_least(v, **SWEEP, node="1")],
    "c21": lambda v: [_least(v, range(5, 9), **SWEEP, node="2")],
    "c22": lambda v: [
        _marked(v, JS, method, "not *", **SWEEP, node="3") for method in (FEDAVG, SDS)
    ],
    "c23": _wins,
    "c24": lambda v: [_close(v, 0.05, **SWEEP)],
}
_FIGURES: dict[str, Callable[[pd.DataFrame], list[Condition]]] = {
    "c17": lambda rows: [_farther(rows, "synthetic_min", "min", lambda found: found > 0, "> 0")],
    "c18": lambda rows: [
        _farther(rows, metric, "max", lambda found: found < 1e-3, "< 0.001")
        for metric in ("p_wilcoxon", "p_kolmogorov_smirnov")
    ],
    "c19": _c19,
}
_CLAIMS = sorted([*_CHECKS, *_FIGURES])
VAE_BGM: dict[str, Callable[..., Judgement]] = {
    c: partial(judge, claim=c, spread="seed") for c in _CLAIMS
}
AS_RUN: dict[str, Callable[..., Judgement]] = {
    c: partial(judge, claim=c, variant=CUT) for c in _CLAIMS
}
OF_SIZES = {
    c: partial(judge, claim=c, spread="seed", variant=CUT)
    for c in ("c20", "c21", "c22", "c23", "c24")
}
