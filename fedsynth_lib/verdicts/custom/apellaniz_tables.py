"""The tables of apellaniz2025 from its `judge` rows: repeats, the marks of its tests, table 6.

Deviations follow the work: their denominator is n, and its tests take them as they are for
deviations of samples, which makes its p-values too small. Here they do the same, so that marks mean
what they mean in the article. Cells with a column `n`, as `published.aggregate` returns them, have
the denominator n - 1 and are converted; printed cells have no `n`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate, of_work
from fedsynth_lib.runs.details import said_of
from fedsynth_lib.runs.rows import read_params, to_frame, with_params

WORK, DATASETS = "apellaniz2025", ["brfss_diabetes", "brfss_heart"]
JS, SYNTHETIC, REAL = METRICS = ("js_divergence", "acc_synthetic_real", "acc_real_real")
ISOLATED, FEDAVG, SDS = METHODS = ("Isolated", "FedAvg", "SDS")
LEVEL, REPEATS = 0.01, 3
CUT = "slopes to 1000"  # the variant of rows AS_RUN
WHOLE = "whole"  # the variant of rows that are rounded to whole numbers
SIZED = "train rows per node "  # and their numbers: what details say of a federation's nodes
PLACE = ["dataset", "partition", "detail", "node"]
SHARED = ["paper", "dataset", "data", "partition", "n_clients", "node", "detail", "metric"]
SHARED += ["seed", "profile"]


def variants(rows: pd.DataFrame) -> pd.Series:
    """Say in words what is not as published in each row, such as `3 networks`.

    The text is empty where nothing differs.
    """
    return _said(rows, "variant")


def _said(rows: pd.DataFrame, part: str) -> pd.Series:
    """Return the words of a kind (runs/details.toml) for each row."""
    words = {text: said_of(WORK, read_params(text), part) for text in rows["params"].unique()}
    return rows["params"].map(words)


def in_print(rows: pd.DataFrame, spread: str = "repeat", variant: str = "") -> pd.DataFrame:
    """Return the rows that match the published values.

    `detail` names the nodes' sizes, `seed` is what repeats are counted by.

    rows: of `judge`, tidy, of one profile; others are left out.
    spread: `repeat` as published, all measurements of one training (the lowest seed that a cell
        has), counted by measurement; `seed` counts trainings, each measured once (repeat 0).
    variant: what `variants` says of a row, such as `3 networks`; rows of which it says anything
        else are left out, hence all rows with a variant by default.
    The accuracy of real data knows no technique: its rows are means over the techniques, and its
    deviation is then over repeats, while the printed one is over the techniques' means. Raises
    BadInput for an unknown spread, for several profiles, and for a variant that no row is of.
    """
    if spread not in ("repeat", "seed"):
        raise BadInput(
            f"spread is {spread!r}: choose repeat (of the measurement) or seed (of the training)."
        )
    rows = of_work(rows, WORK).reset_index(drop=True)
    rows = rows[rows["metric"].isin(METRICS)]
    found = variants(rows)
    if variant and variant not in set(found):
        there = ", ".join(sorted(set(found) - {""})) or "none"
        raise BadInput(f"no row is of the variant {variant!r}: these rows are of {there}.")
    rows = rows[found == variant]
    rows = rows.assign(detail=_said(rows, "sizes"))
    repeat = with_params(rows, repeat=0)["repeat"].astype(int)
    if spread == "repeat":
        training = ["dataset", "partition", "detail", "method", "epsilon"]
        lowest = rows["seed"] == rows.groupby(training, dropna=False)["seed"].transform("min")
        rows = rows.assign(seed=repeat)[lowest]
    else:
        rows = rows[repeat == 0]
    real = rows[rows["metric"] == REAL].groupby(SHARED, dropna=False, as_index=False)
    real = real["value"].mean().assign(method="Real", setting="real", epsilon=np.inf)
    records = [*rows[rows["metric"] != REAL].to_dict("records"), *real.to_dict("records")]
    return to_frame(records).assign(detail=[record["detail"] for record in records])


def tested(cells: pd.DataFrame) -> pd.DataFrame:
    """Test divergences and accuracies as the work does, and mark them.

    Divergences of FedAvg and SDS are compared with isolated training, synthetic accuracies with
    real data.

    cells: printed values, or the `aggregate` (per node) of rows `in_print`, with mean and std.
        Added: `mean_other` and `std_other` of the reference; `p`, of Welch's one-sided test that
        the cell lies below it, from means and deviations; `mark` at level 0.01. For js_divergence *
        is lower and `worse` higher than isolated; for acc_synthetic_real `worse` is below real data
        and * is all else. Without a reference or with one repeat: None.

    From the printed figures this makes 174 of the 180 printed marks: all 72 of js_divergence and
    102 of 108 of acc_synthetic_real. In the other six the p-value crosses 0.01 within the rounding
    of the four figures.
    """
    cells = _as_printed(cells)
    js, real = cells[cells["metric"] == JS], cells[cells["metric"] == REAL]
    pairs = [
        (js[js["method"].isin([FEDAVG, SDS])], js[js["method"] == ISOLATED], [*PLACE, "epsilon"]),
        (cells[(cells["metric"] == SYNTHETIC) & cells["method"].isin(METHODS)], real, PLACE),
    ]
    beside = [
        part.merge(
            other[[*keys, "mean", "std", "n"]],
            "left",
            keys,
            suffixes=("", "_other"),
            validate="many_to_one",
        )
        for part, other, keys in pairs
    ]
    table = pd.concat(beside, ignore_index=True)
    table["p"] = _welch(
        *(table[name] for name in ("mean", "std", "n", "mean_other", "std_other", "n_other"))
    )
    js, lower, higher = table["metric"] == JS, table["p"] < LEVEL, table["p"] > 1 - LEVEL
    cases = [
        (table["p"].isna(), None),
        (js & lower, "*"),
        (js & higher, "worse"),
        (js, ""),
        (lower, "worse"),
    ]
    masks, marks = zip(*cases, strict=True)
    table["mark"] = np.select(masks, np.array(marks, dtype=object), "*")
    return table.drop(columns="n_other")


def _as_printed(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells whose `std` has the denominator n, without the last bits of sums."""
    cells = cells.assign(mean=cells["mean"].round(9))
    if "n" not in cells:
        return cells.assign(n=REPEATS)
    return cells.assign(std=(cells["std"] * np.sqrt((cells["n"] - 1) / cells["n"])).round(9))


def _welch(mean, std, n, other_mean, other_std, other_n) -> np.ndarray:
    """Return one-sided p-values that the first mean is lower.

    They are 1/2 for equal means without any spread, and NaN if untestable.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [
            (side.to_numpy(float) for side in sides)
            for sides in ((mean, std, n), (other_mean, other_std, other_n))
        ]
        p = stats.ttest_ind_from_stats(
            *sides[0], *sides[1], equal_var=False, alternative="less"
        ).pvalue
    same = (mean == other_mean) & (std == 0) & (other_std == 0)
    return np.where((n < 2) | (other_n < 2), np.nan, np.where(same, 0.5, p))


def reciprocal_ranks(cells: pd.DataFrame) -> pd.DataFrame:
    """Return table 6: the mean reciprocal rank of each technique by js_divergence.

    It is the mean over the nodes of 1/rank (metric `mrr_js`, column `value`).

    Ranks are dense, of means rounded to two digits: equal ones share a rank and leave none out. One
    row for each dataset, partition, detail and technique; NaN where a technique or a node is
    missing.
    """
    js = cells[(cells["metric"] == JS) & cells["method"].isin(METHODS)]
    block = ["dataset", "partition", "detail", "epsilon"]
    rounded = js["mean"].round(9).round(2)
    js = js.assign(
        value=1 / rounded.groupby([js[key] for key in [*block, "node"]]).rank(method="dense")
    )
    complete = js.groupby(block)["value"].transform("count") == len(METHODS) * js["n_clients"]
    js["value"] = js["value"].where(complete.astype(bool))
    keys = [*block, "n_clients", "method", "setting"]
    ranks = js.groupby(keys, sort=False)["value"].agg(lambda values: values.mean(skipna=False))
    return ranks.reset_index().assign(metric="mrr_js")


def same_people(values: pd.DataFrame) -> pd.DataFrame:
    """Compare the js_divergence of the two tables for each scenario, node and technique.

    The two BRFSS tables are one: the same people in the same order with the same columns, of which
    another is the target. Generators draw the target as any column, and the divergence gives it no
    part of its own. So both estimate the same quantity, from the same people at the same nodes, and
    `difference` (heart less diabetes) shows how much a repetition of training and measurement
    changes. `in_std`: in units of the combined deviation of both.
    """
    js = _as_printed(values[values["metric"] == JS])
    wide = js.pivot(
        index=["partition", "detail", "node", "method"], columns="dataset", values=["mean", "std"]
    )
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["mean", "std"], DATASETS])).dropna()
    table = wide["mean"].assign(difference=(wide["mean"] @ [-1, 1]).round(9))
    table["in_std"] = table["difference"] / np.hypot(*wide["std"].to_numpy().T)
    return table.rename_axis(columns=None).reset_index()


def readings(printed: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tabulate mean divergences by table, technique and node: published, and from sets of rows.

    The sets are of rows `in_print`, by their names.
    """
    sets = {
        "printed": printed,
        **{name: aggregate(rows, per_node=True) for name, rows in ours.items()},
    }
    place = ["partition", "dataset", "detail", "method", "node"]
    means = {
        name: cells[cells["metric"] == JS].set_index(place)["mean"] for name, cells in sets.items()
    }
    return pd.DataFrame(means).reindex(means["printed"].index).droplevel("detail").dropna()


def beside(
    rows: Mapping[str, pd.DataFrame], what: str, metrics: Sequence[str] = (JS,)
) -> pd.DataFrame:
    """Tabulate sets of `judge` rows: a line for each technique and set, a column for each node.

    what: the heading of the sets' names. Several measurements of one node are averaged.
    """
    both = pd.concat(rows, names=[what, ""]).reset_index(what)
    return both.pivot_table(index=["method", what], columns=["metric", "node"], values="value")[
        list(metrics)
    ]


def in_whole_numbers(rows: pd.DataFrame, as_drawn: pd.DataFrame | None = None) -> pd.DataFrame:
    """Divergences of rounded rows, of which none are published, as cells of `figures.beside_print`.

    rows: of `judge`, of one profile. as_drawn: what `published.compare` returns of rows as they
        were drawn, to stand beside them.
    Column `rows` says which a cell is of: `in whole numbers`, or `as drawn`.
    """
    own = aggregate(in_print(rows, variant=WHOLE), per_node=True)
    own = own[own["metric"] == JS].rename(columns={"mean": "ours", "std": "ours_std"})
    own = own.sort_values("method", key=lambda names: names.map(METHODS.index), kind="stable")
    own = own.assign(published=np.nan, published_std=np.nan, rows="in whole numbers")
    if as_drawn is None:
        return own.reset_index(drop=True)
    drawn = as_drawn[as_drawn["metric"] == JS].assign(rows="as drawn")
    return pd.concat([own, drawn], ignore_index=True)
