"""Which of several readings of an exhibit comes nearest to print, where a work leaves open how a number was made."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedsynth_lib import published
from fedsynth_lib.interface import BadInput, stream
from fedsynth_lib.metrics.attacks import nearest as nearest_rows
from fedsynth_lib.metrics.coding import alphabetical_codes, moments
from fedsynth_lib.tables import Table


def nearest(
    readings: Mapping[str, pd.DataFrame], work: str, exhibits: Sequence[str], by: Sequence[str] = ("exhibit", "metric")
) -> pd.DataFrame:
    """For each value of `by` and reading: mean of ours and of print, mean distance, rank correlation, the nearest.

    readings: name -> tidy rows of one profile whose `metric` and `detail` are those of the printed cells. A reading is
        held against the printed cells for which it has a value (`cells` of them).
    distance: mean absolute difference from print; `nearest` marks the smallest. order: Spearman's rank correlation over
        cells, which a reading that is off by a scale keeps; none for fewer than three cells.
    """
    found = [
        published.compare(rows, work, exhibit).assign(reading=name)
        for name, rows in readings.items()
        for exhibit in exhibits
    ]
    cells = pd.concat(found, ignore_index=True) if found else pd.DataFrame({"n": []})
    cells = cells[cells["n"] > 0]
    if cells.empty:
        raise BadInput(f"no reading has a cell of {', '.join(exhibits)}: run cells of these exhibits first.")
    keys = [*by, "reading"]
    cells = cells.assign(distance=cells["difference"].abs())
    groups = cells.groupby(keys, sort=False)
    table = groups.agg(
        cells=("ours", "size"), ours=("ours", "mean"), printed=("published", "mean"), distance=("distance", "mean")
    )
    order = {
        key: own["ours"].corr(own["published"], method="spearman") if len(own) > 2 else None for key, own in groups
    }
    table["order"] = pd.Series(order, dtype=float).reindex(table.index)
    least = table.groupby(list(by), sort=False)["distance"].transform("min")
    table["nearest"] = (table["distance"] == least).map({True: "yes", False: ""})
    return table.sort_index(level=list(by), sort_remaining=False).reset_index()


def distances_by_scale(train: Table, holdout: Table, seed: int, most: int = 2_000) -> dict[str, float]:
    """Mean distance of real hold-out rows to the nearest of as many training rows, for two scales of the columns.

    What a table of perfect synthetic rows would score as its distance to training rows, by z-scores and by columns
    scaled to [0, 1], both by the training rows (gap 21 of martinez2024); and the farthest that two rows can be apart
    in [0, 1]. most: hold-out rows of which the mean is taken, drawn at random.
    """
    codes, queries = (alphabetical_codes(table.frame, train.schema) for table in (train, holdout))
    rng, size = stream(seed, "distances_by_scale"), min(len(codes), len(queries))
    (mean, spread), low, width = moments(codes), codes.min(axis=0), np.ptp(codes, axis=0)
    drawn = codes[rng.choice(len(codes), size, replace=False)]
    queries = queries[rng.choice(len(queries), min(most, size), replace=False)]
    scales = {"z-scores": (mean, spread), "[0, 1]": (low, np.where(width > 0, width, 1))}
    means = {
        name: float(nearest_rows((queries - zero) / one, (drawn - zero) / one, 1)[0].mean())
        for name, (zero, one) in scales.items()
    }
    return means | {"farthest in [0, 1]": float(np.sqrt(codes.shape[1]))}
