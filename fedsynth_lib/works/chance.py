"""Importance and correlation under the null hypothesis that no hyper-parameter matters.

A forest gives every input some importance, and more of it to inputs with many different values: a
run time, different in each run, before a parameter with four candidates, and that before one with
three. So an order of importance says little by itself. Here scores are shuffled among the
configurations of a search, which leaves everything as it is but for a connection, and the same
analysis is done again, many times (a permutation test).
"""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pandas as pd
from scipy.stats import f

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.printed import sensitivity
from fedsynth_lib.runs.details import is_redrawn, with_detail
from fedsynth_lib.runs.rows import Row, data_of

KEYS = ["method", "dataset", "hyperparameter"]
LEVEL = 0.95
MEASURES = {  # columns of `against_chance`, and the names that they have in rows
    **{
        "importance": "importance",
        "chance": "importance_by_chance",
        "first_by_chance": "first_by_chance",
    },
    **{"correlation": "correlation", "low": "correlation_low", "high": "correlation_high"},
}


def of_settings(rows: pd.DataFrame, model: str, dataset: str) -> dict[str, float]:
    """Whether a configuration that is good on one split is so on another.

    splits agree: mean correlation of scores between two splits, over configurations. settings, p:
        how probable differences between configurations as large as these are where configurations
        mean nothing (F test, splits as blocks). Both NaN of one split.
    """
    own = (rows["method"] == model) & (rows["dataset"] == dataset)
    own &= (rows["metric"] == sensitivity.SCORE) & (rows["setting"] == "tuning")
    scores = with_detail(rows[own]).pivot(index="detail", columns="seed", values="value")
    configurations, splits = scores.shape
    if splits < 2:
        return {"splits agree": np.nan, "settings, p": np.nan}
    between = scores.corr().to_numpy()[np.triu_indices(splits, 1)].mean()
    settings = scores.mean(axis=1)
    rest = scores.sub(settings, axis=0) - scores.mean() + settings.mean()
    degrees = configurations - 1, (configurations - 1) * (splits - 1)
    ratio = splits * settings.var() / ((rest**2).to_numpy().sum() / degrees[1])
    return {"splits agree": between, "settings, p": float(f.sf(ratio, *degrees))}


def against_chance(rows: pd.DataFrame, *, shuffles: int = 20, seed: int = 0) -> pd.DataFrame:
    """`sensitivity.sensitivity` with what chance alone does beside it.

    chance: the importance that a parameter stays below in 95 % of the searches with shuffled
        scores.
    first_by_chance: share of those searches in which it is the most important one, the run time
        left aside.
    low, high: 95 % interval of the correlation (Fisher's z), whole where there are three
        configurations or fewer.
    """
    if shuffles < 1:
        raise BadInput(f"shuffles is {shuffles}: give 1 or more.")
    table = sensitivity.sensitivity(rows, seed=seed)
    found = [
        sensitivity.importance(shuffled(rows, stream(seed, "shuffle", k)), seed=k)
        for k in range(shuffles)
    ]
    dealt = pd.concat([table.assign(shuffle=k) for k, table in enumerate(found)], ignore_index=True)
    chance = dealt.groupby(KEYS)["importance"].quantile(LEVEL).rename("chance")
    tuned = dealt[dealt["hyperparameter"] != sensitivity.RUNTIME]
    leaders = tuned.loc[tuned.groupby(["method", "dataset", "shuffle"])["importance"].idxmax()]
    first = leaders.groupby(KEYS).size().rename("first_by_chance") / shuffles
    table = table.join(chance, on=KEYS).join(first, on=KEYS)
    table.loc[table["hyperparameter"] != sensitivity.RUNTIME, "first_by_chance"] = table[
        "first_by_chance"
    ].fillna(0)

    number = sensitivity.configurations(rows).groupby(["method", "dataset"]).size().rename("number")
    width = table.join(number, on=["method", "dataset"])["number"].map(
        lambda n: 1.96 / np.sqrt(n - 3) if n > 3 else np.inf
    )
    with np.errstate(divide="ignore"):
        middle = np.arctanh(table["correlation"].clip(-1, 1))
    return table.assign(low=np.tanh(middle - width), high=np.tanh(middle + width))


@dataclass(frozen=True)
class Cell:
    """`against_chance` of these rows as a cell of a grid, whose `scores` are `digest(rows)`."""

    rows: pd.DataFrame

    def __call__(self, scores: str, shuffles: int, seed: int) -> list[Row]:
        """Compute the result rows. Raises BadInput if `scores` is not the digest of the rows."""
        if scores != digest(self.rows):
            raise BadInput("scores are not those of the rows: give digest(rows).")
        table = against_chance(self.rows, shuffles=shuffles, seed=seed)
        shared = {"paper": self.rows["paper"].iloc[0], "data": data_of(self.rows)}
        return [
            {
                **shared,
                **dict(zip(("method", "dataset", "item"), line[:3], strict=True)),
                "metric": metric,
                "value": value,
            }
            for line in table[[*KEYS, *MEASURES]].itertuples(index=False)
            for metric, value in zip(MEASURES.values(), line[3:], strict=True)
        ]


def digest(rows: pd.DataFrame) -> str:
    """Hash what `against_chance` reads of the rows: scores and run times of each configuration."""
    found = sensitivity.configurations(rows)[
        ["method", "dataset", "detail", sensitivity.SCORE, sensitivity.RUNTIME]
    ]
    return sha256(found.to_csv(index=False, float_format="%.10g").encode()).hexdigest()[:20]


def table_of(cell: pd.DataFrame) -> pd.DataFrame:
    """Rebuild the table that `against_chance` returned from the result rows of a `Cell`."""
    names = {metric: name for name, metric in MEASURES.items()}
    cell = cell.assign(column=cell["metric"].map(names), hyperparameter=cell["item"])
    wide = cell.pivot(index=KEYS, columns="column", values="value")[list(MEASURES)].rename_axis(
        columns=None
    )
    return wide.reset_index().sort_values(
        [*KEYS[:2], "importance"], ascending=[True, True, False], ignore_index=True
    )


def shuffled(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Shuffle the scores of each search among its configurations.

    A configuration gets the scores of one other, on all splits.
    """
    rows = with_detail(rows)
    rows = rows[~rows["detail"].map(is_redrawn)].reset_index(drop=True)
    scores = rows[rows["metric"] == sensitivity.SCORE]
    for _, search in scores.groupby(["method", "dataset"]):
        names = search["detail"].unique()
        rows.loc[search.index, "detail"] = search["detail"].map(
            dict(zip(names, rng.permutation(names), strict=True))
        )
    return rows
