"""The rows that the claims of leitner2023 are judged on, as tables, and the wording of a condition
on them.

Rows count that follow the scheme as published. Three clients and epsilon 3 where a claim says
nothing else.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedsynth_lib.runs.rows import with_params
from fedsynth_lib.verdicts.claims import Condition, Missing, count, of_work

WORK = "leitner2023"
REAL, CTGAN, DP, TGAN, FED, DP_FED = (
    "Real",
    "CTGAN",
    "DP-CTGAN",
    "Fed-TGAN",
    "Fed-CTGAN",
    "DP-Fed-CTGAN",
)
SYNTHESIZERS, FEDERATED = [CTGAN, DP, TGAN, FED, DP_FED], [TGAN, FED, DP_FED]
DATASETS = ["adult", "bank", "covertype", "cardio", "diabetes", "obesity"]
FOUR = ["accuracy_knn", "accuracy_mlp", "accuracy_rf", "accuracy_ada"]
EPSILON, CLIENTS = 3.0, 3
PAIRS = {"cramers_v", "pearson"}  # metrics of a pair of columns, `a x b` in `item`


def counting(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that count, a run of several grids once; `due`: at the budget that the method has
    but in the sweep."""
    rows = of_work(rows, WORK)
    rows = with_params(rows, scheme="", variant="")
    rows = rows[rows["value"].notna() & (rows["scheme"] == "") & (rows["variant"] == "")]
    private, central = rows["method"].isin([DP, DP_FED]), rows["method"].isin([REAL, CTGAN, DP])
    rows = rows.assign(
        epsilon=rows["epsilon"].where(private, np.inf).round(9),
        partition=rows["partition"].mask(central, "none"),
        n_clients=rows["n_clients"].astype(float).mask(central, 0).fillna(0),
    )
    rows["due"] = np.isclose(rows["epsilon"], EPSILON) | ~private
    keys = ["dataset", "method", "partition", "n_clients", "epsilon", "metric", "seed"]
    return rows.assign(pair=rows["item"]).drop_duplicates([*keys, "pair"])


def home(runs: pd.DataFrame) -> pd.DataFrame:
    """Central methods, and three IID clients."""
    iid = (runs["partition"] == "iid") & (runs["n_clients"] == CLIENTS)
    return runs[runs["due"] & (iid | (runs["partition"] == "none"))]


def skewed(runs: pd.DataFrame) -> pd.DataFrame:
    """Three clients, the first of which holds one class."""
    return runs[runs["due"] & (runs["partition"] == "label_skew") & (runs["n_clients"] == CLIENTS)]


def table_of(
    runs: pd.DataFrame,
    methods: Sequence[str],
    index: str,
    wanted: Sequence,
    needed=(),
    statistic="mean",
    **where,
) -> pd.DataFrame:
    """Methods (columns) by `index`, at `needed` and at those of `wanted` that any method has; all
    must have them."""
    runs = runs[
        np.logical_and.reduce(
            [runs["method"].isin(methods), *(runs[k] == v for k, v in where.items())]
        )
    ]
    found = runs.pivot_table(index=index, columns="method", values="value", aggfunc=statistic)
    found = found.reindex(columns=list(methods))
    found = found.reindex([each for each in wanted if each in found.index or each in needed])
    if found.empty or found.isna().any(axis=None):
        gaps = {
            m: ", ".join(map(str, found.index[found[m].isna()])) or f"any {index}" for m in methods
        }
        gaps = {m: g for m, g in gaps.items() if found.empty or found[m].isna().any()}
        if len(set(gaps.values())) == 1:
            gaps = {", ".join(gaps): next(iter(gaps.values()))}
        shared = ", ".join(f"{name} {value}" for name, value in where.items())
        raise Missing(
            f"rows are missing: {'; '.join(f'{m} at {g}' for m, g in gaps.items())} ({shared})"
        )
    return found


def accuracies(
    runs: pd.DataFrame, dataset: str, methods: Sequence[str], classifiers=FOUR, statistic="median"
) -> pd.DataFrame:
    """Accuracy of each classifier (rows) and method (columns)."""
    return table_of(
        home(runs), methods, "metric", classifiers, classifiers, statistic, dataset=dataset
    )


def scores(
    runs: pd.DataFrame, metric: str, methods=SYNTHESIZERS, datasets=DATASETS, needed=()
) -> pd.DataFrame:
    """Mean of a metric for each dataset (rows) and method (columns)."""
    return table_of(home(runs), methods, "dataset", datasets, needed, metric=metric)


def over(high: pd.Series, low: pd.Series, text: str, margin: float = 0.0) -> Condition:
    """How often `high` exceeds `low` by more than a margin (or misses it by less than a negative
    one)."""
    shown = ", ".join(
        f"{place} {a:.4g} v {b:.4g}" for place, a, b in zip(high.index, high, low, strict=True)
    )
    share, text = count((high - low).round(9) > margin, text)
    return share, f"{text} ({shown})"


def gaps_of(
    gaps: pd.Series | pd.DataFrame, limit: float, text: str, *, above: bool = False
) -> Condition:
    """How many gaps are below (above) a limit, and their range."""
    gaps = (gaps.stack() if isinstance(gaps, pd.DataFrame) else gaps).round(9)
    share, text = count(
        gaps > limit if above else gaps < limit, f"{text} {'above' if above else 'below'} {limit:g}"
    )
    return share, f"{text} ({gaps.min():.3f} to {gaps.max():.3f})"


def ran_of(
    conditions: list[Condition], ran: Sequence[str], wanted: Sequence[str] = DATASETS
) -> list[Condition]:
    """The conditions; the last one names what of `wanted` was not run."""
    absent = [name for name in wanted if name not in set(ran)]
    share, text = conditions[-1]
    return [*conditions[:-1], (share, f"{text}; not run: {', '.join(absent)}" if absent else text)]
