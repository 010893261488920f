"""The rows of each work as the cells that its claims are judged on.

A cell has mean, spread and number of the runs of one setting. A claim speaks of runs as the work
made them, so variants of ours are left out here. What a cell does not have, such as the clients of
central data, is missing in it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import aggregate, read_claims
from fedsynth_lib.runs.details import names_of
from fedsynth_lib.runs.rows import with_params
from fedsynth_lib.verdicts.custom import apellaniz_tables
from fedsynth_lib.verdicts.custom.apellaniz_tables import SIZED


def summarised(runs: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Summarise the runs in a cell for each combination of the axes."""
    runs = runs.assign(value=runs["value"].astype(float)).sort_values("seed", kind="stable")
    groups = runs.groupby(list(axes), dropna=False)
    cells = groups["value"].agg(
        mean="mean", std="std", median="median", min="min", max="max", n="size", values=tuple
    )
    cells["seeds"], cells["shift"] = groups["seed"].agg(tuple), 0.0
    cells["sem"] = cells["std"] / np.sqrt(cells["n"])
    cells["iqr"] = [_quartiles(values) for values in cells["values"]]
    return cells.reset_index()


def _quartiles(values: Sequence[float]) -> float:
    """Return the distance of the quartiles; fewer than four values have none."""
    return np.subtract(*np.percentile(values, [75, 25])) if len(values) > 3 else np.nan


def _martinez(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over splits; of local models first over the clients of a split."""
    return _of_models(aggregate(rows))


def _of_models(cells: pd.DataFrame) -> pd.DataFrame:
    """Remove model and epsilon from real data, which have neither.

    Each model's published tables repeat real data, once for each epsilon.
    """
    real, alone = cells["setting"] == "real", cells["partition"].isin(["none", ""])
    cells = cells.assign(
        method=cells["method"].mask(cells["method"] == "real"),
        epsilon=cells["epsilon"].mask(real),
        partition=cells["partition"].mask(alone),
        n_clients=cells["n_clients"].astype(float).mask(alone),
        item=cells["detail"],
    )
    axes = ["metric", "method", "dataset", "epsilon", "partition", "n_clients", "setting", "item"]
    return cells.drop_duplicates(axes)


def _leitner(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the scheme as published, a run of several grids once."""
    rows = with_params(rows, scheme="", variant="")
    rows = rows[(rows["scheme"] == "") & (rows["variant"] == "")]
    private = rows["method"].isin(["DP-CTGAN", "DP-Fed-CTGAN"])
    central = rows["method"].isin(["Real", "CTGAN", "DP-CTGAN"])
    rows = rows.assign(
        epsilon=rows["epsilon"].where(private).round(9),
        partition=rows["partition"].mask(central),
        n_clients=rows["n_clients"].astype(float).mask(central),
    )
    axes = ["metric", "method", "dataset", "setting", "epsilon", "partition", "n_clients", "item"]
    return summarised(_once(rows, axes), axes)


def _leitner_finished(cells: pd.DataFrame) -> pd.DataFrame:
    """At nominal budgets, and with the associations of columns."""
    return pd.concat([_at_nominal_budgets(cells), _associations(cells)], ignore_index=True)


def _at_nominal_budgets(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells of a sweep over budgets as algorithm 4.2 would have them.

    It trains at least one epoch, whatever the budget. The sweep has one budget more for each table,
    the smallest that pays for an epoch; budgets below it take its cells.
    """
    swept = read_claims("leitner2023")["axes"]["epsilon"]
    others = cells["epsilon"].mask(cells["epsilon"].isin(swept))
    least = others.groupby(cells["dataset"]).transform("min")
    one_epoch = cells[cells["epsilon"] == least]
    below = [one_epoch[one_epoch["epsilon"] > budget].assign(epsilon=budget) for budget in swept]
    return pd.concat([cells[~(cells["epsilon"] <= least)], *below])


def _associations(cells: pd.DataFrame) -> pd.DataFrame:
    """Return means over the pairs of columns of each method.

    They are of the `error`, by which an association is off that of real data, of its `size`, and of
    how often its sign is `turned`, not that of real data.
    """
    pairs = cells[cells["metric"].isin(["cramers_v", "pearson"])]
    pairs = pairs[pairs["item"].map(lambda pair: len({*pair.split(" x ")}) == 2).astype(bool)]
    place = ["metric", "dataset", "item"]
    real = pairs[pairs["method"] == "Real"].set_index(place)["mean"]
    mean, real = pairs["mean"], pairs[place].join(real, place)["mean"]
    numbers = {"error": (mean - real).abs(), "size": mean.abs(), "turned": mean * real < 0}
    axes = ["metric", "dataset", "method", "partition", "n_clients", "epsilon"]
    found = pairs.assign(**numbers).groupby(axes, dropna=False)[list(numbers)].mean()
    found = found.rename_axis(columns="kind").stack().rename("mean").reset_index()
    return found.assign(metric=found["metric"] + "_" + found["kind"])


def _once(rows: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Keep each run once.

    Of several cells of one run, which can differ in their last digits, it keeps the same one
    whatever the order of rows.
    """
    return rows.sort_values("cell", kind="stable").drop_duplicates([*axes, "seed"])


OF_FLAIM = ["metric", "method", "dataset", "epsilon", "partition", "rounds", "participation"]
OF_FLAIM += ["beta", "local_steps", "training_rounds"]


# Readings of the work's estimator: of a table the last of those that were run counts
AS_THE_WORK = ["published", "half the iterations", "half the iterations, weighted"]


def flaim_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return maddock2024's rows with the work's estimator (AS_THE_WORK).

    A run of several grids is kept once; annealed rounds are infinite.
    """
    defaults = {"rounds": None, "participation": 0.1, "beta": None, "local_steps": 1}
    ours = {"measure_share": 0.9, "estimator": "published", "training_rounds": 500}
    rows = with_params(rows, **defaults, **ours)
    rows = rows[rows["estimator"].isin(AS_THE_WORK) & (rows["measure_share"] == 0.9)]
    place = rows["estimator"].map(AS_THE_WORK.index)
    rows = rows[place == place.groupby(rows["dataset"]).transform("max")]
    central, networks = rows["setting"] == "central", rows["method"] == "Fed DP-CTGAN"
    numbers = {name: rows[name].map(_number) for name in defaults}
    numbers["rounds"] = numbers["rounds"].mask(rows["method"] == "FedNaiveBayes")
    numbers["participation"] = numbers["participation"].mask(central)
    rows = rows.assign(
        **{name: values.astype(float) for name, values in numbers.items()},
        partition=rows["partition"].mask(central),
        training_rounds=rows["training_rounds"].astype(float).where(networks),
    )
    return _once(rows, OF_FLAIM)


def _maddock(rows: pd.DataFrame) -> pd.DataFrame:
    return summarised(flaim_runs(rows), OF_FLAIM)


def _number(value: Any) -> float:
    return np.inf if value == "annealed" else np.nan if value is None else float(value)


def _sattarov(rows: pd.DataFrame, risk: str = "") -> pd.DataFrame:
    """Federations as published; seconds of training are a metric.

    risk: `` for the residual risk, `_success` for the rate of the main attack alone.
    """
    rows = with_params(rows, local_updates=100, strategy="fedavg", scheme="")
    rows = rows[(rows["method"] == "DP-Fed-FinDiff") & (rows["scheme"] == "")]
    if risk:
        other = rows[rows["metric"].str.endswith(risk)]
        other = other.assign(metric=other["metric"].str.removesuffix(risk))
        rows = pd.concat([rows[~rows["metric"].isin(other["metric"])], other])
    seconds = rows[rows["metric"] == "fidelity"].assign(metric="seconds")
    rows = pd.concat([rows, seconds.assign(value=seconds["seconds"])], ignore_index=True)
    rows = rows.assign(
        n_clients=rows["n_clients"].astype(float),
        local_updates=rows["local_updates"].astype(float),
        strategy=rows["strategy"].map(names_of("sattarov2024", "strategy")),
    )
    axes = ["metric", "dataset", "partition", "n_clients", "epsilon", "local_updates", "strategy"]
    return summarised(rows, axes).assign(method="DP-Fed-FinDiff")


def _apellaniz(rows: pd.DataFrame, spread: str = "seed", variant: str = "") -> pd.DataFrame:
    """Cells of the tables, and those of what is measured at rows as drawn; `finished` adds marks.

    spread, variant: as in `apellaniz_tables.in_print`, of the tables.
    """
    rows = rows[rows["epsilon"].fillna(np.inf) == np.inf]
    measured = rows["metric"].isin(apellaniz_tables.METRICS)
    parts = [_as_drawn(rows[~measured])]
    if measured.any():
        own = apellaniz_tables.in_print(rows[measured], spread, variant)
        parts.append(aggregate(own, per_node=True))
    return pd.concat(parts, ignore_index=True)


def _finished(cells: pd.DataFrame) -> pd.DataFrame:
    """With marks of tests, and ranks."""
    measured = cells["metric"].isin(apellaniz_tables.METRICS)
    parts = [cells[~measured]]
    if measured.any():
        parts.append(_with_marks(cells[measured].drop(columns=["sizes", "item"], errors="ignore")))
    return pd.concat(parts, ignore_index=True)


def _with_marks(cells: pd.DataFrame) -> pd.DataFrame:
    """Accuracies of real data count as those of a method, `Real`."""
    cells = cells.drop(columns=["mean_other", "p", "mark"], errors="ignore")
    tested = apellaniz_tables.tested(cells)
    keys = ["metric", *apellaniz_tables.PLACE, "method"]
    cells = cells.merge(tested[[*keys, "mean_other", "p", "mark"]], "left", keys)
    real = cells["metric"] == apellaniz_tables.REAL
    marked = cells.assign(
        metric=cells["metric"].mask(real, apellaniz_tables.SYNTHETIC),
        method=cells["method"].mask(real, "Real"),
    )
    cells = pd.concat([marked, _ranks(cells)], ignore_index=True)
    return cells.assign(sizes=cells["detail"].str.removeprefix(SIZED), item="")


def _ranks(cells: pd.DataFrame) -> pd.DataFrame:
    """Mean reciprocal ranks (table 6) of the scenarios that have all nodes and techniques."""
    ranks = apellaniz_tables.reciprocal_ranks(cells).dropna(subset="value")
    return ranks.rename(columns={"value": "mean"})


def _as_drawn(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[apellaniz_tables.variants(rows) == ""]
    axes = ["metric", "method", "dataset", "partition", "node", "item"]
    return summarised(rows, axes).assign(sizes=None, mean_other=np.nan, p=np.nan, mark=None)


def _printed_models(values: pd.DataFrame) -> pd.DataFrame:
    return _of_models(values[values["exhibit"].str.match("tab6|tabA")].assign(n=3))


def _printed_marks(values: pd.DataFrame) -> pd.DataFrame:
    return _with_marks(values[values["metric"].isin(apellaniz_tables.METRICS)])


class Way(NamedTuple):
    """How the rows of a work become cells.

    finished: what follows from several cells. printed: its published values as cells; without it
    they go the way of rows.
    """

    cells: Callable[..., pd.DataFrame]
    finished: Callable[[pd.DataFrame], pd.DataFrame] = lambda cells: cells
    printed: Callable[[pd.DataFrame], pd.DataFrame] | None = None


WAYS = {
    "martinez2024": Way(_martinez, printed=_printed_models),
    "leitner2023": Way(_leitner, _leitner_finished),
    "maddock2024": Way(_maddock),
    "sattarov2024": Way(_sattarov),
    "apellaniz2025": Way(_apellaniz, _finished, _printed_marks),
}
