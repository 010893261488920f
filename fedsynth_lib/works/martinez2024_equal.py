"""What private FedVAE depends on beside its budget, by shorter trainings of the same
signal-to-noise (`martinez2024.shorter`): whether they tell what full ones do, and what the norm to
which gradients are cut changes. All at profile paper, unless in a smoke run."""

import pandas as pd

from fedsynth_lib.printed import alternatives
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs.rows import published_size
from fedsynth_lib.works.martinez2024 import WORK

CLASSIFIERS = ["auc_rf", "auc_nb", "auc_knn"]
PRINTED = ["hellinger", "pcd", "pmse", "log_cluster", *CLASSIFIERS]
EXHIBITS = ["tab6.8", "tab6.9", "tabA.4", "tab6.10", "tab6.11", "tabA.5"]
PLACE = ["dataset", "setting", "partition", "n_clients", "epsilon"]


def beside_full(profile: str, *, jobs: int = 1) -> pd.DataFrame:
    """By metric, setting and epsilon the mean over cells of the full training and of the shorter
    one, the mean distance of a cell's means, and the deviation over splits within a cell of the
    full one."""
    short = WORK.grid("fedvae equal", published_size(profile))
    full = [
        WORK.grid(f"fedvae {group}", published_size(profile), tables=short.tables)
        for group in ("fidelity", "utility")
    ]
    runs = {"full": pd.concat([grid.run(jobs=jobs) for grid in full])}
    runs["shorter"] = short.run(jobs=jobs)
    cells = {name: rows.groupby(["metric", *PLACE])["value"] for name, rows in runs.items()}
    table = pd.DataFrame({name: values.mean() for name, values in cells.items()})
    table["distance"] = (table["shorter"] - table["full"]).abs()
    table["over splits"] = cells["full"].std()
    table = table.dropna(subset="distance").groupby(["metric", "setting", "epsilon"]).mean()
    return table.loc[[metric for metric in PRINTED if metric in table.index.levels[0]]]


def by_norm(profile: str, *, jobs: int = 1) -> pd.DataFrame:
    """Mean AUC over classifiers and splits by table, setting, clients and epsilon: printed, and of
    ours by norm and weight decay."""
    ours = WORK.grid("fedvae clips", published_size(profile)).run(jobs=jobs)
    printed = load_values(WORK.key, "tab6.11").fillna({"n_clients": 1})
    printed = printed.assign(detail="printed", value=printed["mean"])
    both = pd.concat([printed, ours])
    both = both[both["metric"].isin(CLASSIFIERS)]
    table = both.pivot_table("value", PLACE, "detail", sort=False)
    return table[table["norm 1"].notna()].droplevel("partition")


def by_norm_and_print(profile: str, *, jobs: int = 1) -> pd.DataFrame:
    """By exhibit and setting how many cells with noise are within error of the published value
    with gradients cut to 1, and to 10, of those that both have."""
    ours = [
        WORK.grid(f"fedvae {group}", published_size(profile)).run(jobs=jobs)
        for group in ("fidelity", "utility")
    ]
    runs = {
        "norm 1": pd.concat(ours),
        "norm 10": WORK.grid("fedvae norm", published_size(profile)).run(jobs=jobs),
    }
    cell = ["metric", *PLACE, "seed"]
    both = runs["norm 10"][cell].drop_duplicates()
    readings = {name: rows.assign(detail="").merge(both, on=cell) for name, rows in runs.items()}
    found = alternatives.nearest(readings, WORK.key, EXHIBITS, by=["exhibit", "setting", "metric"])
    table = found.pivot_table(["cells", "within"], ["exhibit", "setting"], "reading", "sum")
    return pd.concat([table["cells"]["norm 10"].rename("cells"), table["within"]], axis=1)
