"""Numbers behind martinez2024's research questions (its section 7.2), ours and the published ones.

Cells are what `published.compare` returns.
"""

import pandas as pd


def spans(cells: pd.DataFrame, over: str) -> pd.DataFrame:
    """Answer 2b: the mean of the federated cells by division or number of clients (`over`).

    Means are ours and published, with how far they span.
    """
    federated = cells[cells["setting"] == "federated"]
    means = federated.pivot_table(["ours", "published"], ["dataset", "epsilon"], over)
    for source in means.columns.unique(0):
        means[(source, "span")] = means[source].max(axis=1) - means[source].min(axis=1)
    return means.sort_index(axis=1, level=0, sort_remaining=False)


def copies(cells: pd.DataFrame) -> pd.DataFrame:
    """Answer 3a by table and budget, ours and published: rows nearer to training rows, and copies.

    The columns hold the lowest and highest share nearer to training rows, and how many cells have
    an exact copy. A table and budget that was not run has missing values.
    """
    found = (cells["ours"] == 0).astype("Int64").where(cells["ours"].notna())
    cells = cells.assign(copy=found, printed_copy=(cells["published"] == 0).astype("Int64"))
    kinds = {name: own.groupby(["dataset", "epsilon"]) for name, own in cells.groupby("metric")}
    share = kinds["dcr_share"][["ours", "published"]].agg(["min", "max"])
    share.columns = [f"{source} share, {end}" for source, end in share.columns]
    copied = kinds["dcr_min"][["copy", "printed_copy"]].sum(min_count=1)
    return share.join(copied).reset_index()


def disclosed(cells: pd.DataFrame) -> pd.DataFrame:
    """Answer 3b by table, division and budget, ours and published: what the attacks disclose.

    The columns are what the vote of attacks loses against real rows, and how far the attacks' mean
    is above the dummy.
    """
    place, table = ["dataset", "partition", "epsilon"], {}
    real = cells[(cells["setting"] == "real") & (cells["metric"] == "ad_ens")].set_index("dataset")
    federated = cells[cells["setting"] == "federated"].set_index([*place, "metric"])
    for source in ("ours", "published"):
        own = federated[source].unstack("metric")
        alone = real[source].reindex(own.index.get_level_values(0)).to_numpy()
        table[f"loss, {source}"] = alone - own["ad_ens"]
        table[f"above dummy, {source}"] = own["ad_rmean"] - own["ad_dum"]
    return pd.DataFrame(table)
