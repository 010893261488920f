"""What leitner2023 does not print, batches and epochs, by the runs at the published size that were
made with several of them."""

import pandas as pd

from fedsynth_lib.methods.gan.budget import Settings
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.runs.rows import with_params
from fedsynth_lib.works import leitner2023

GRIDS = {  # and what of their runs is not as usual
    "31_leitner2023_runs": "",
    "31_leitner2023_batches": ", batches of {batch}",
    "31_leitner2023_batch_sizes": ", batches of {batch}",
    "31_leitner2023_epochs": ", {epochs:.0f} epochs",
}


def runs() -> pd.DataFrame:
    """Committed rows of profile `paper`, of the scheme as published, with the columns `batch`,
    `epochs` (missing where a budget ends training) and `words`, what is not as usual."""
    rows = committed_rows(leitner2023.WORK.key, "paper").query("grid in @GRIDS and detail == ''")
    rows = with_params(rows, changes={})
    rows["batch"] = rows["changes"].str["batch"].astype("Int64")  # none of real rows
    private = rows["method"].map(lambda method: leitner2023.WORK.method(method).private)
    rounds = rows["changes"].str["training_rounds"].mask(private)
    rows["epochs"] = Settings.local_epochs * rounds
    settings = zip(rows["grid"], rows["batch"], rows["epochs"], strict=True)
    rows["words"] = [GRIDS[grid].format(batch=b, epochs=e) for grid, b, e in settings]
    return rows.reset_index(drop=True)


def steps(dataset: str, batch: int) -> int:
    """Steps of each of three clients of DP-Fed-CTGAN until epsilon 3 is spent."""
    changes = {"training_rounds": leitner2023.WORK.constants["most_rounds"], "batch": batch}
    asked = {"dataset": dataset, "method": "DP-Fed-CTGAN", "seed": 0, "changes": changes}
    return leitner2023.trains(leitner2023.training_rows(dataset, None) // 3, **asked)["steps"]
