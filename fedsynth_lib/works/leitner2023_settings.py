"""What leitner2023 does not print, batches and epochs, by the runs at the published size that were
made with several of them."""

import pandas as pd

from fedsynth_lib.core.store import project_root
from fedsynth_lib.runs.grid import load_rows
from fedsynth_lib.runs.rows import with_params
from fedsynth_lib.works import leitner2023

GRIDS = ("runs", "batches", "batch_sizes", "epochs")
LOCAL_EPOCHS = 3  # in a round (table 5.3)


def runs() -> pd.DataFrame:
    """Committed rows of profile `paper`, of the scheme as published, with the columns `batch`,
    `epochs` (missing where a budget ends training) and `words`, what is not as usual."""
    folder, found = project_root() / "data" / "results" / "paper", []
    for name in GRIDS:
        rows = load_rows(folder / f"31_leitner2023_{name}.csv").query("detail == ''")
        rows = with_params(rows, changes={})
        rows["batch"] = rows["changes"].str["batch"].astype("Int64")  # none of real rows
        private = rows["method"].map(lambda method: leitner2023.WORK.method(method).private)
        rows["epochs"] = (LOCAL_EPOCHS * rows["changes"].str["training_rounds"]).mask(private)
        batches, epochs = (rows[name].map("{:.0f}".format) for name in ("batch", "epochs"))
        usual = pd.Series("", rows.index)
        words = {"runs": usual, "epochs": ", " + epochs + " epochs"}
        found.append(rows.assign(words=words.get(name, ", batches of " + batches)))
    return pd.concat(found, ignore_index=True)


def steps(dataset: str, batch: int) -> int:
    """Steps of each of three clients of DP-Fed-CTGAN until epsilon 3 is spent."""
    changes = {"training_rounds": leitner2023.WORK.constants["most_rounds"], "batch": batch}
    asked = {"dataset": dataset, "method": "DP-Fed-CTGAN", "seed": 0, "changes": changes}
    return leitner2023.trains(leitner2023.training_rows(dataset, None) // 3, **asked)["steps"]
