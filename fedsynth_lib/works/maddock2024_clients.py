"""How unlike the clients of a division are (maddock2024, section B.2).

A client with few rows differs from the whole by chance alone, so a division is always measured
twice: as it is, and with the same sizes and the rows dealt at random. What lies above chance is
skew in what clients hold.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics.workload import mean_heterogeneity
from fedsynth_lib.tables import embedding, synthfs
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY, view_bins
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Prepared

WORK = load("maddock2024")
PARTITION_SEED = WORK.constants["partition_seed"]
SQUARES = 40  # along each side of figure 5


def measured(
    codes: np.ndarray,
    parts: Sequence[np.ndarray],
    levels: Sequence[int],
    *,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return the heterogeneity of a division of codes (rows, columns), and the same by chance.

    The clients' sizes in rows are returned as well.
    """
    sizes = [len(part) for part in parts]
    return {
        "mean_heterogeneity": mean_heterogeneity(codes, parts, levels),
        "by_chance": mean_heterogeneity(rng.permutation(codes), parts, levels),
        "smallest_client": min(sizes),
        "median_client": float(np.median(sizes)),
        "largest_client": max(sizes),
    }


def heterogeneity(prepared: Prepared, parts: Parts, dataset: str, seed: int) -> dict[str, float]:
    """`measured` of one draw of a division of table 5."""
    train = prepared.train
    encoder = EqualWidthBins(train.schema, None, view_bins(dataset, WORK.key))
    codes, rng = encoder.transform(train.frame), stream(seed, "by chance")
    return measured(codes, parts, encoder.domain.levels, rng=rng)


def measure_synthfs(beta: float, rows_per_client: int, n_clients: int = 100) -> dict[str, Any]:
    """`measured` of SynthFS at one beta, in which every row says whose it is (figure 4)."""
    sizes = {"rows_per_client": rows_per_client, "num_clients": n_clients}
    codes = synthfs.generate(seed=PARTITION_SEED, beta=beta, **sizes).to_numpy()
    owner = synthfs.owners(**sizes)
    parts = [np.flatnonzero(owner == client) for client in range(n_clients)]
    levels = [len(synthfs.EDGES) + 1] * codes.shape[1]
    values = measured(codes, parts, levels, rng=stream(PARTITION_SEED, "figure 4"))
    return {"paper": WORK.key, "dataset": "synthfs", "data": "none", **values}


def heterogeneity_by_column(prepared: Prepared, parts: Parts) -> dict[tuple[str, str], float]:
    """How unlike the clients of a division of table 5 are in each column alone (`item`).

    mean_heterogeneity: of the codes. variance_between, of numbers and of columns with two
    categories: see there; variance_by_chance: the same with the rows dealt at random.
    """
    train = prepared.train
    codes, owner = embedding.coded(train), owners(parts)
    dealt = stream(PARTITION_SEED, "figure 5").permutation(owner)
    found: dict[tuple[str, str], float] = {}
    for name, column in zip(train.schema.names, codes.T, strict=True):
        alone = mean_heterogeneity(column[:, None], parts, [column.max() + 1])
        found[name, "mean_heterogeneity"] = alone
        if name in train.schema.numeric or column.max() == 1:
            values = train.frame[name] if name in train.schema.numeric else column
            found[name, "variance_between"] = variance_between(values, owner)
            found[name, "variance_by_chance"] = variance_between(values, dealt)
    return found


def map_of_clients(
    prepared: Prepared, shown: Sequence[str], n_clients: int
) -> dict[tuple[str, str], float]:
    """Figure 5: the UMAP picture of the training rows in SQUARES x SQUARES squares.

    item: the square's column and row, from 0; squares without rows have none. map_share: of the
    rows. map_client: the client of `cluster_skew` with most rows there. map_mean, of each column
    `shown` (last word of the item): the mean, of a category its place in the declared list.
    """
    train = prepared.train
    points = embedding.embedded(embedding.coded(train), seed=PARTITION_SEED)
    places = embedding.squares(points, SQUARES)
    frame = pd.DataFrame({name: _numbers(train.frame[name]) for name in shown})
    frame = frame.assign(square=[f"{column} {row}" for column, row in places])
    frame["client"] = owners(split_clients(train, "cluster_skew", n_clients, seed=PARTITION_SEED))
    found: dict[tuple[str, str], float] = {}
    for square, own in frame.groupby("square"):
        found[square, "map_share"] = len(own) / len(frame)
        found[square, "map_client"] = own["client"].mode()[0]
        found |= {(f"{square} {name}", "map_mean"): own[name].mean() for name in shown}
    return found


def _numbers(column: pd.Series) -> np.ndarray:
    return np.asarray(
        column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column, dtype=float
    )


def variance_between(values: Iterable[float], owner: np.ndarray) -> float:
    """Return the share of the variance of values (rows,) that lies between clients, from 0 to 1.

    It is 1 if each client holds one value.
    """
    values = pd.Series(np.asarray(values, dtype=float))
    return float(values.groupby(np.asarray(owner)).transform("mean").var() / values.var())


def owners(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the client of each row, int64 (rows,), of a division without rows left over."""
    owner = np.empty(sum(map(len, parts)), dtype=np.int64)
    for client, part in enumerate(parts):
        owner[part] = client
    return owner


def sample_sizes(keys: Sequence[str]) -> pd.DataFrame:
    """Tabulate three numbers that "training samples" in table 4 may mean, with columns and classes.

    There is one line for each table. Everything is declared: no table is read.
    """
    facts = {}
    for key in keys:
        view = REGISTRY[key].view(WORK.key)
        schema = view.schema(REGISTRY[key].schema)
        rows = WORK.constants["all_rows"].get(key, view.rows)
        sample = round(rows * WORK.constants["share_drawn"].get(key, 1))
        facts[key] = {
            "all rows": rows,
            "rows taken": sample,
            "90 percent of these": sample - round(sample / 10),
            "columns": len(schema.columns),
            "classes": len(schema[schema.target].categories) if schema.target else pd.NA,
        }
    return pd.DataFrame.from_dict(facts, orient="index").astype("Int64").rename_axis("table")


def sizes(dataset: str) -> dict[str, Any]:
    """Table 4, as declared: rows to train on, columns, and classes if the table has any."""
    facts = sample_sizes([dataset]).loc[dataset].dropna()
    named = {"90 percent of these": "n_train", "columns": "n_features", "classes": "n_classes"}
    counts = {metric: int(facts[name]) for name, metric in named.items() if name in facts}
    return {"paper": WORK.key, "exhibit": "tab4", "data": "none", **counts}
