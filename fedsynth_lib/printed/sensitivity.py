"""Which hyperparameters of a search its score depends on: importance and correlation.

They are those of martinez2024 (6.1.4 and 6.3).

rows: tidy rows of searches (or their `published.aggregate`), setting `tuning`, with the metrics
    `log_cluster` (mean over clients, lower is better) and `seconds_training`, one row for each
    configuration and split. `detail` is the configuration, as JSON; layer sizes, such as "[64,
    32]", count as the total number of their units. Rows whose configuration has a `draw` score it
    again, to show the noise of the score, and are left out.

A configuration is one observation, by its means over splits. The work had both numbers from its
search tool: the importance in a random forest that predicts the score from hyperparameters and run
time, and the linear correlation.
"""

import json
from collections.abc import Iterator

import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate
from fedsynth_lib.runs.details import configuration, is_redrawn, with_detail

SCORE, SECONDS, RUNTIME = "log_cluster", "seconds_training", "runtime"
GROUP = ["method", "dataset"]
TREES = 200


def importance(rows: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Return the importance of the hyperparameters of each search; run time is included.

    The columns are `method, dataset, hyperparameter, importance`; importances of a search sum to 1.
    """
    found = []
    for keys, inputs, score in _searches(rows):
        forest = RandomForestRegressor(TREES, random_state=seed).fit(inputs.to_numpy(), score)
        shares = pd.Series(forest.feature_importances_, inputs.columns).sort_values(
            ascending=False, kind="stable"
        )
        found.append(_tidy(keys, shares, "importance"))
    return pd.concat(found, ignore_index=True)


def correlation(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the correlation (Pearson) of the hyperparameters of each search with the score.

    The columns are `method, dataset, hyperparameter, correlation`, which is NaN where the search
    never varies it.
    """
    found = []
    for keys, inputs, score in _searches(rows):
        varied = inputs.loc[:, inputs.nunique() > 1]
        found.append(_tidy(keys, varied.corrwith(score).reindex(inputs.columns), "correlation"))
    return pd.concat(found, ignore_index=True)


def sensitivity(rows: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Return importance and correlation side by side.

    The most important hyperparameter of each search comes first.
    """
    return importance(rows, seed=seed).merge(
        correlation(rows), on=[*GROUP, "hyperparameter"], validate="one_to_one"
    )


def configurations(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each configuration, with its means over splits.

    The columns are `method, dataset, detail, log_cluster, runtime` and `splits`.
    """
    if "profile" in rows and rows["profile"].nunique() > 1:
        raise BadInput(
            "the column profile has several values: analyse the rows of one profile at a time."
        )
    rows = with_detail(rows)
    again = rows["detail"].isin([text for text in rows["detail"].unique() if is_redrawn(text)])
    cells = rows[(rows["setting"] == "tuning") & rows["metric"].isin([SCORE, SECONDS]) & ~again]
    cells = cells if "mean" in cells else aggregate(cells)
    keys = [*GROUP, "detail"]
    if cells.duplicated([*keys, "metric"]).any():
        raise BadInput(
            "searches differ in partition, clients or epsilon: analyse the rows of one "
            "scenario at a time."
        )
    table = cells.pivot(index=keys, columns="metric", values="mean").reindex(
        columns=[SCORE, SECONDS]
    )
    splits = cells[cells["metric"] == SCORE].set_index(keys)["n"]
    return (
        table.rename(columns={SECONDS: RUNTIME})
        .assign(splits=splits)
        .rename_axis(columns=None)
        .reset_index()
    )


def _searches(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame, pd.Series]]:
    """Yield for each method and dataset its keys, the inputs, and the scores.

    Inputs are hyperparameters and run time, as numbers.
    """
    table = configurations(rows)
    if table.empty:
        raise BadInput(
            f"there are no rows of a search: give rows of setting 'tuning' and metric '{SCORE}'."
        )
    for keys, search in table.groupby(GROUP):
        where = " on ".join(keys)
        if search[[SCORE, RUNTIME]].isna().any(axis=None):
            raise BadInput(
                f"{where}: a configuration lacks '{SCORE}' or '{SECONDS}'; give both for each."
            )
        if len(search) < 3:
            raise BadInput(f"{where}: {len(search)} configurations tell nothing; give 3 or more.")
        values = pd.DataFrame(
            [configuration(detail) for detail in search["detail"]], index=search.index
        )
        if values.isna().any(axis=None):
            raise BadInput(
                f"{where}: configurations differ in the names in `detail`; name the same in each."
            )
        yield keys, values.apply(_numbers).assign(**{RUNTIME: search[RUNTIME]}), search[SCORE]


def _numbers(values: pd.Series) -> pd.Series:
    """Return the values of a hyperparameter as numbers; a list of layer sizes counts as its sum."""
    units = values.map(
        lambda value: sum(json.loads(value)) if str(value).startswith("[") else value
    )
    try:
        return units.astype(float)
    except ValueError:
        raise BadInput(
            f"{values.name} has values that are no numbers, such as {values.iloc[0]!r}."
        ) from None


def _tidy(keys: tuple[str, str], numbers: pd.Series, name: str) -> pd.DataFrame:
    table = numbers.rename(name).rename_axis("hyperparameter").reset_index()
    return table.assign(**dict(zip(GROUP, keys, strict=True)))[[*GROUP, "hyperparameter", name]]
