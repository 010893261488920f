"""What a shorter private training of FedVAE changes (`martinez2024.shorter`), on the table of which
both were run."""

import pandas as pd

from fedsynth_lib.works.martinez2024 import WORK


def beside_full(profile: str, *, jobs: int = 1, seed: int) -> pd.DataFrame:
    """By metric, setting and epsilon the mean over cells of the full training and of the shorter
    one, the mean distance of a cell's means, and the deviation over splits within a cell of the
    full one; of profile paper unless in a smoke run."""
    scale = "smoke" if profile == "smoke" else "paper"
    short = WORK.grid("fedvae equal", scale, seed=seed)
    whole = [
        WORK.grid(f"fedvae {group}", scale, tables=short.tables, seed=seed)
        for group in ("fidelity", "utility")
    ]
    runs = {
        "shorter": short.run(jobs=jobs),
        "full": pd.concat([grid.run(jobs=jobs) for grid in whole]),
    }
    cell = ["metric", "setting", "epsilon", "partition", "n_clients"]
    means = {name: rows.groupby(cell)["value"].mean() for name, rows in runs.items()}
    spread = runs["full"].groupby(cell)["value"].std().rename("over splits")
    table = pd.concat([pd.DataFrame(means), spread], axis=1).dropna(subset=["shorter", "full"])
    table["distance"] = (table["shorter"] - table["full"]).abs()
    return table.groupby(cell[:3], sort=False)[
        ["full", "shorter", "distance", "over splits"]
    ].mean()
