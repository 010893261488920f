"""Which of several readings of an exhibit is nearest to the published values.

Readings are compared where a work leaves open how a number was made.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics.attacks import nearest as nearest_rows
from fedsynth_lib.metrics.coding import alphabetical_codes, moments, numbers_in_unit
from fedsynth_lib.printed import published
from fedsynth_lib.tables.load import Table

HELD = ["cells", "ours", "printed", "distance", "within", "order", "nearest"]


def nothing_held(by: Sequence[str]) -> pd.DataFrame:
    """`nearest` of no cell: its columns, without rows, as where a table chosen has no such rows."""
    return pd.DataFrame(columns=[*by, "reading", *HELD])


def nearest(
    readings: Mapping[str, pd.DataFrame],
    work: str,
    exhibits: Sequence[str],
    by: Sequence[str] = ("exhibit", "metric"),
) -> pd.DataFrame:
    """Compare readings with the published values, for each value of `by`.

    The columns are the mean of ours and of the published values, mean distance, cells within error
    of the published value, rank correlation, and which reading is nearest.

    readings: name -> tidy rows of one profile whose `metric` and `detail` are those of the printed
        cells. A reading is compared with the published values for which it has one (`cells` of
        them); of tables that the work does not have there is nothing to compare with.
    distance: mean absolute difference from the published values; `nearest` marks the smallest.
    order: Spearman's rank correlation over cells, which a reading that is off by a scale keeps;
        none for fewer than three cells, and where all of a side are the same.
    """
    found = [
        published.compare(rows, work, exhibits).assign(reading=name)
        for name, rows in readings.items()
        if exhibits
    ]
    cells = pd.concat(found, ignore_index=True) if found else pd.DataFrame({"n": []})
    cells = cells[cells["n"] > 0]
    if cells.empty:
        raise BadInput(
            f"no reading has a cell of {', '.join(exhibits)}: run cells of these exhibits first."
        )
    cells = cells[cells["verdict"] != published.ALONE]
    if cells.empty:
        return nothing_held(by)
    keys = [*by, "reading"]
    cells = cells.assign(distance=cells["difference"].abs())
    # of readings that make 1 % of the passes as well: they are compared with each other
    near = (cells["verdict"] == published.MATCHED) & (cells["distance"] <= cells["tolerance"])
    cells["within"] = (cells["verdict"] == "within") | near
    groups = cells.groupby(keys, sort=False)
    table = groups.agg(
        cells=("ours", "size"),
        ours=("ours", "mean"),
        printed=("published", "mean"),
        distance=("distance", "mean"),
        within=("within", "sum"),
    )
    order = {
        key: own["ours"].corr(own["published"], method="spearman")
        for key, own in groups
        if len(own) > 2 and own[["ours", "published"]].nunique().min() > 1
    }
    table["order"] = pd.Series(order, dtype=float).reindex(table.index)
    least = table.groupby(list(by), sort=False)["distance"].transform("min")
    table["nearest"] = (table["distance"] == least).map({True: "yes", False: ""})
    return table[HELD].sort_index(level=list(by), sort_remaining=False).reset_index()


def distances_by_scale(
    train: Table, holdout: Table, seed: int, *, most: int = 2_000, also: Sequence[str] = ()
) -> dict[str, float]:
    """Return the mean distance of real hold-out rows to the nearest training row on several scales.

    There are as many training rows. It is what a table of perfect synthetic rows would score as its
    distance to training rows: by z-scores; with all columns in [0, 1]; and as section 2.1.3 of
    martinez2024 prepares rows, numbers in [0, 1] and categories as label codes, all by the training
    rows (gap 21 of its protocol).

    also: numeric columns that this last scale takes as categories as well, in a further reading.
    `farthest in [0, 1]` is the farthest that two rows can be apart there. most: hold-out rows of
    which the mean is taken, drawn at random.
    """
    codes, queries = (alphabetical_codes(table.frame, train.schema) for table in (train, holdout))
    rng, size = stream(seed, "distances_by_scale"), min(len(codes), len(queries))
    (mean, spread), low, width = moments(codes), codes.min(axis=0), np.ptp(codes, axis=0)
    width = np.where(width > 0, width, 1)
    drawn = codes[rng.choice(len(codes), size, replace=False)]
    queries = queries[rng.choice(len(queries), min(most, size), replace=False)]
    schema = train.schema
    scales = {
        "z-scores": (mean, spread),
        "[0, 1]": (low, width),
        "the work's": numbers_in_unit(codes, schema),
    }
    if also:
        name = f"the work's, {' and '.join(also)} as codes"
        scales[name] = numbers_in_unit(codes, schema, also)
    means = {
        name: float(nearest_rows((queries - zero) / one, (drawn - zero) / one, 1)[0].mean())
        for name, (zero, one) in scales.items()
    }
    return means | {"farthest in [0, 1]": float(np.sqrt(codes.shape[1]))}


def scale_table(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Real hold-out rows on each scale beside published values, a line for each dataset.

    rows: of `martinez2024.scales`. cells: what `published.compare` returns for tables of
        distances.
    nearer: the scale that comes closest, in ratio, to the mean that is printed without noise.
    """
    wide = rows.pivot(index="dataset", columns="item", values="value")
    farthest = "farthest in [0, 1]"
    wide = wide[[*[name for name in rows["item"].unique() if name != farthest], farthest]]
    average = cells[cells["metric"] == "dcr_avg_train"]
    free = average[np.isinf(average["epsilon"])].groupby("dataset")
    wide["printed, no noise"] = free["published"].mean()
    wide["printed, largest"] = average.groupby("dataset")["published"].max()
    wide["ours, no noise"] = free["ours"].mean()
    ratio = (
        np.log(wide.iloc[:, : list(wide).index(farthest)])
        .sub(np.log(wide["printed, no noise"]), axis=0)
        .abs()
    )
    wide["nearer"] = ratio.dropna(how="all").idxmin(axis=1)
    return wide.loc[list(rows["dataset"].unique())].rename_axis(columns=None)
