"""Do federated runs differ from central, local or real ones by more than chance? Cell by cell.

Two answers for each cell. The test by which a work may colour its tables green and red:
Student's t-test with equal variances, two-sided, level 0.05, means rounded to three decimals
(`published.t_test`). And a t-interval of the difference paired by split: both sides see the same
rows, so what a split adds to both cancels. Three splits leave two degrees of freedom, hence an
interval of 2.5 standard deviations of the difference on either side. One split allows neither. No
answer is corrected for the number of cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fedsynth_lib import figures
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.registry import METRICS, sign
from fedsynth_lib.printed import published
from fedsynth_lib.printed.entries import Entry, rounded
from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.runs.names import level_name, partition_name

CELL = ["dataset", "method", "partition", "n_clients", "epsilon", "detail", "metric"]
# what a cell and its reference have in common; central rows have no clients, real ones no model
# either
SHARED = {
    "central": ["dataset", "method", "epsilon", "detail", "metric"],
    "local": CELL,
    "real": ["dataset", "detail", "metric"],
}
SIGNS = {"better": "+", "worse": "−", "equal": "=", "not tested": ""}
SHADES = {"better": "background-color: #B7E1CD", "worse": "background-color: #F4C7C3"}
# rows and columns of the printed tables
LAYOUT = (["partition", "clients", "against"], ["level", "metric"])
COUNTED = (
    "federated cells that are better (+) or worse (−) by the t-test, and whose interval "
    "excludes 0 (*)"
)
ONE_SPLIT = "one split: neither a test nor an interval is possible, so that no cell is shaded"


def tested(
    rows: pd.DataFrame,
    *,
    against: Sequence[str] = ("central", "local"),
    exhibits: Sequence[str] = (),
    level: float = 0.95,
) -> pd.DataFrame:
    """Test each federated cell against each reference that has rows.

    A line has both means and standard deviations over the `n` common splits.

    rows: tidy rows of one profile; those of single clients are averaged over the clients of a
        split.
    difference: federated less reference, `low` and `high` its interval; gain: the same, positive
        where federated is better; p and outcome (better, worse, equal, not tested) of the t-test.
    printed, printed_gain: outcome and gain by the values that `exhibits` print; empty where they
        print no such cell.
    """
    if (profiles := rows["profile"].nunique()) != 1:
        raise BadInput(f"the rows come from {profiles} profiles: test those of one at a time.")
    if unknown := set(against) - set(SHARED):
        raise BadInput(f"against {sorted(unknown)}: choose some of {', '.join(SHARED)}.")
    known = with_detail(rows[rows["value"].notna()])
    runs = known.groupby([*CELL, "setting", "seed"], dropna=False, sort=False, as_index=False)[
        "value"
    ].mean()
    there = [name for name in against if name in set(runs["setting"])] or against
    table = pd.concat(
        [_pairs(runs, name, level).assign(against=name) for name in there], ignore_index=True
    )
    table["n_clients"] = table["n_clients"].astype("Int64")
    table = _sorted(table, ["dataset", "partition", "n_clients", "against", "epsilon", "metric"])
    keys = [*CELL, "against"]
    return table.merge(
        _printed(rows["paper"].iloc[0], exhibits, against)[[*keys, "printed", "printed_gain"]],
        on=keys,
        how="left",
    )


def _sorted(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """In printed order: no noise first, metrics as in METRICS, names as they come."""
    place = table[by].copy()
    for name in place.columns.intersection(["dataset", "partition", "against"]):
        place[name] = pd.factorize(table[name])[0]
    place["epsilon"] = table["epsilon"].replace(np.inf, -1)
    place["metric"] = table["metric"].map({name: number for number, name in enumerate(METRICS)})
    return table.loc[place.sort_values(by, kind="stable").index]


def _pairs(runs: pd.DataFrame, against: str, level: float) -> pd.DataFrame:
    shared = [*SHARED[against], "seed"]
    other = (
        runs[runs["setting"] == against]
        .groupby(shared, dropna=False, as_index=False)["value"]
        .mean()
    )
    pairs = runs[runs["setting"] == "federated"].merge(other, on=shared, suffixes=("", "_other"))
    if pairs.empty:
        raise BadInput(
            f"no federated cell has a {against} one beside it: add {against} cells to the grid."
        )
    pairs["difference"] = pairs["value"] - pairs["value_other"]
    table = pairs.groupby(CELL, dropna=False, sort=False, as_index=False).agg(
        n=("value", "size"),
        mean=("value", "mean"),
        std=("value", "std"),
        mean_other=("value_other", "mean"),
        std_other=("value_other", "std"),
        difference=("difference", "mean"),
        spread=("difference", "std"),
    )
    n = table["n"].to_numpy()
    # NaN for one split
    half = stats.t.ppf((1 + level) / 2, np.maximum(n - 1, 1)) * table.pop("spread") / np.sqrt(n)
    table["low"], table["high"] = table["difference"] - half, table["difference"] + half
    table["gain"] = table["metric"].map(sign) * table["difference"]
    p = published.t_test(*(table[name] for name in ("mean", "std", "mean_other", "std_other")), n=n)
    table["p"] = np.where(n > 1, p, np.nan)
    names = ["not tested", "equal", "better"]
    table["outcome"] = np.select([n < 2, table["p"] >= 0.05, table["gain"] > 0], names, "worse")
    return table


def _printed(work: str, exhibits: Sequence[str], against: Sequence[str]) -> pd.DataFrame:
    """`outcome` and gain of the printed cells, by the same test."""
    values = [published.load_values(work, exhibit) for exhibit in exhibits]
    found = [
        published.significance(table, against=name).assign(against=name)
        for table in values
        for name in against
        if name in set(table["setting"])
    ]
    if not found:
        return pd.DataFrame(columns=[*CELL, "against", "printed", "printed_gain"]).astype(
            {"epsilon": float}
        )
    table = pd.concat(found, ignore_index=True)
    return table.assign(printed=table["outcome"], printed_gain=table["gain"])


def counts(tests: pd.DataFrame) -> pd.DataFrame:
    """Count by metric the cells that are better (+) and worse (−).

    A * marks in how many the interval excludes zero. In brackets is the same test on the published
    values of the same cells. Rows: dataset, reference, level of privacy.
    """
    return _wide(tests, ["dataset", "against", "level"], ["metric"], _counted)


def _counted(cells: pd.DataFrame) -> Entry:
    found = {
        "better": int((cells["outcome"] == "better").sum()),
        "worse": int((cells["outcome"] == "worse").sum()),
        "sure": int(((cells["low"] > 0) | (cells["high"] < 0)).sum()),
    }
    text = "{better}+ {worse}− {sure}*".format_map(found)
    if (cells["outcome"] == "not tested").all():
        text, found = "no test", dict.fromkeys(found, np.nan)
    text, found = f"{text} of {len(cells)}", {**found, "of": len(cells)}
    if cells["printed"].notna().any():
        found["published_better"] = int((cells["printed"] == "better").sum())
        found["published_worse"] = int((cells["printed"] == "worse").sum())
        text += " ({published_better}+ {published_worse}−)".format_map(found)
    return Entry(text, found)


def gains(tests: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gain of federated cells by table, level and reference, ours and published.

    With it is the share of cells ahead (gain above 0).
    """
    named = tests.assign(
        level=tests["epsilon"].map(level_name),
        ahead=(tests["gain"] > 0).astype(float),
        printed_ahead=(tests["printed_gain"] > 0)
        .astype(float)
        .where(tests["printed_gain"].notna()),
    )
    return named.groupby(["dataset", "level", "against"], sort=False)[
        ["gain", "printed_gain", "ahead", "printed_ahead"]
    ].mean()


def cell_table(tests: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the gain of every cell, half its interval, and the sign of our test.

    The sign of the test on the published values is in brackets.
    """
    return _wide(tests, *LAYOUT, lambda cells: _entry(cells.iloc[0]))


def _entry(cell: pd.Series) -> Entry:
    half = (cell["high"] - cell["low"]) / 2 if cell["n"] > 1 else np.nan
    sure = bool(cell["low"] > 0 or cell["high"] < 0)
    numbers = {"gain": rounded(cell["gain"], 3), "half": rounded(half, 3), "sure": sure}
    numbers |= {"outcome": cell["outcome"], "published_outcome": cell["printed"]}
    interval = f" ± {half:.3f}" if cell["n"] > 1 else ""
    text = f"{cell['gain']:+.3f}{interval}{'*' * sure} {SIGNS[cell['outcome']]}"
    printed = f" ({SIGNS[cell['printed']]})" if isinstance(cell["printed"], str) else ""
    return Entry(text.replace("-", "−").rstrip() + printed, numbers)


def _wide(
    tests: pd.DataFrame, rows: list[str], columns: list[str], entry: Callable[[pd.DataFrame], Any]
) -> pd.DataFrame:
    """`entry` of the cells that share rows and columns, in the order in which they come."""
    named = tests.assign(
        level=tests["epsilon"].map(level_name),
        partition=tests["partition"].map(partition_name),
        clients=tests["n_clients"].astype("string"),
    )
    texts = {key: entry(cells) for key, cells in named.groupby([*rows, *columns], sort=False)}
    keys = pd.MultiIndex.from_tuples(texts, names=[*rows, *columns])
    table = pd.Series(list(texts.values()), keys).unstack(columns)
    index = pd.MultiIndex.from_frame(named[rows].drop_duplicates())
    order = pd.MultiIndex.from_frame(
        _sorted(named, ["epsilon", "metric"])[columns].drop_duplicates()
    )
    order = order if len(columns) > 1 else order.get_level_values(0)
    return table.reindex(index=index, columns=order).fillna("")


def save_counts(
    tests: pd.DataFrame, exhibit: str, *, profile: str, data: str, what: str
) -> figures.SavedTable:
    """Save `counts` under the name of the exhibit."""
    text = f"{what}: {ONE_SPLIT if _one_split(tests) else COUNTED}{_in_brackets(tests)}"
    return figures.save_table(counts(tests), exhibit, profile=profile, data=data, caption=text)


def save_cells(
    tests: pd.DataFrame, exhibit: str, *, profile: str, data: str, what: str
) -> figures.SavedTable:
    """Save `cell_table` under the name of the exhibit.

    A notebook shows better cells green and worse ones red.
    """
    table = cell_table(tests)
    saved = figures.save_table(
        table, exhibit, profile=profile, data=data, caption=caption(tests, what)
    )
    marks = _wide(tests, *LAYOUT, lambda cells: SHADES.get(cells["outcome"].iloc[0], ""))
    shown = table.style.apply(lambda _: marks, axis=None).set_uuid(exhibit.replace(".", "_"))
    head = saved.html.partition("<table")[0]
    return replace(saved, html=head + shown.to_html())


def caption(tests: pd.DataFrame, what: str) -> str:
    """Say what the signs in `cell_table` mean, or that there is nothing to test."""
    what = f"{what}: gain of federated (positive: better)"
    if _one_split(tests):
        return f"{what}; {ONE_SPLIT}{_in_brackets(tests)}"
    return (
        f"{what} ± half the 95 % interval paired by split, * where that excludes 0; Student's "
        f"t-test at 0.05: + better, − worse, = neither{_in_brackets(tests)}; of {len(tests)} "
        f"tests of equals about {0.05 * len(tests):.0f} would find a difference"
    )


def _one_split(tests: pd.DataFrame) -> bool:
    return bool((tests["outcome"] == "not tested").all())


def _in_brackets(tests: pd.DataFrame) -> str:
    return (
        "; in brackets the test on the published values" if tests["printed"].notna().any() else ""
    )
