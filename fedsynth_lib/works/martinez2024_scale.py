"""Distances and log-cluster on the scale that the printed values of martinez2024 have.

Numbers in [0, 1] by the training rows, categories as label codes, the columns of `constants.coded`
among them, draws with replacement, a logarithm to base 2. The work states the label codes (its
section 2.1.3, of its classifiers) and the draws (5.6.1), and counts `education-num` among the
categories (5.1.1); the rest was found by looking at print.
"""

import pandas as pd

from fedsynth_lib.metrics.attacks import closest_records
from fedsynth_lib.metrics.coding import alphabetical_codes, numbers_in_unit
from fedsynth_lib.metrics.fidelity import log_cluster
from fedsynth_lib.printed import alternatives
from fedsynth_lib.works.martinez2024 import WORK
from fedsynth_lib.works.protocol import Made, Prepared

DISTANCES = ("dcr_min", "dcr_share_printed", "dcr_avg_train_printed", "dcr_avg_holdout")
MEASURED = (*DISTANCES, "log_cluster_base2")


def measures(prepared: Prepared, made: Made, dataset: str, seed: int) -> dict[str, float]:
    """MEASURED, of the rows of one run."""
    train, holdout, frame = *prepared, made.frame
    schema, coded = train.schema, WORK.constants["coded"].get(dataset, ())
    scale = numbers_in_unit(alphabetical_codes(train.frame, schema), schema, coded)
    near = closest_records(train.frame, holdout.frame, frame, schema, seed, scale=scale)
    clusters = log_cluster(train.frame, frame, schema, seed, scale=scale)
    return {name: {**near, **clusters}[name] for name in MEASURED}


def beside_print(rows: pd.DataFrame, profile: str, tables: list[str], **asked: int) -> pd.DataFrame:
    """`alternatives.nearest` for the published scale, of rows of profile paper unless in a smoke
    run, and for ours, where these are of profile paper too.

    rows: ours, of the grid `fedbn privacy`. asked: seed and jobs.
    """
    scale, jobs = "smoke" if profile == "smoke" else "paper", asked.pop("jobs", 1)
    again = WORK.grid("fedbn rescaled", scale, tables=tables, **asked).run(jobs=jobs)
    plain = again["metric"].str.removesuffix("_printed").str.removesuffix("_base2")
    readings = {"rescaled": again.assign(detail="", metric=plain)}
    readings |= {"ours": rows} if profile == "paper" else {}
    exhibits = {"adult": ("tab6.6", "tab6.1"), "bank": ("tabA.2", "tab6.2"), "cardio": ("tab6.3",)}
    known = [name for table in tables if table in set(again["dataset"]) for name in exhibits[table]]
    return alternatives.nearest(readings, WORK.key, known, by=["exhibit", "metric", "epsilon"])
