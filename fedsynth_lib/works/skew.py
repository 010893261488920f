"""How unlike the clients of a division are (maddock2024, section B.2).

A client with few rows differs from the whole by chance alone, so a division is always measured
twice: as it is, and with the same sizes and the rows dealt at random. What lies above chance is
skew in what clients hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics.workload import mean_heterogeneity
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables import embedding, synthfs
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.load import load_table, split
from fedsynth_lib.tables.partition import split_clients
from fedsynth_lib.tables.registry import REGISTRY, view_bins
from fedsynth_lib.works.flaim_study import PARTITION_SEED, SPLIT_SEED, WORK

PLACE = ["dataset", "partition", "detail"]
# of table 5, with beta
DIVISIONS = [("iid", None), ("cluster_skew", None), ("label_skew", 0.1), ("label_skew", 0.8)]
SQUARES = 40  # along each side of figure 5


def measured(
    codes: np.ndarray,
    parts: Sequence[np.ndarray],
    levels: Sequence[int],
    *,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Heterogeneity of a division of codes (rows, columns), the same by chance, and the clients'
    sizes in rows."""
    sizes = [len(part) for part in parts]
    return {
        "mean_heterogeneity": mean_heterogeneity(codes, parts, levels),
        "by_chance": mean_heterogeneity(rng.permutation(codes), parts, levels),
        "smallest_client": min(sizes),
        "median_client": float(np.median(sizes)),
        "largest_client": max(sizes),
    }


def measure(
    dataset: str,
    partition: str,
    n_clients: int,
    seed: int,
    beta: float | None = None,
    rows: int | None = None,
    table: str = "",
) -> dict[str, Any]:
    """One draw of a division of table 5, as `run_grid` takes it: `measured` on the training rows of
    maddock2024.

    seed: of the draw. beta: of label skew. table: digest of the table that the grid was made for.
    """
    whole = load_table(dataset, work=WORK, rows=rows, seed=PARTITION_SEED)
    whole.expect(table)
    train, _ = split(whole, seed=SPLIT_SEED, test_share=0.1)
    encoder = EqualWidthBins(train.schema, None, view_bins(dataset, WORK))
    parts = split_clients(
        train, partition, n_clients, seed=PARTITION_SEED + seed, **_of_labels(beta)
    )
    rng = stream(seed, "by chance")
    values = measured(encoder.transform(train.frame), parts, encoder.domain.levels, rng=rng)
    return {"paper": WORK, "exhibit": "tab5", "data": train.data, **values}


def measure_made_up(beta: float, rows_per_client: int, n_clients: int = 100) -> dict[str, Any]:
    """`measured` of SynthFS at one beta, in which every row says whose it is, as `run_grid` takes
    it."""
    codes = synthfs.generate(
        seed=PARTITION_SEED, beta=beta, rows_per_client=rows_per_client, num_clients=n_clients
    )
    owner = synthfs.owners(rows_per_client=rows_per_client, num_clients=n_clients)
    parts = [np.flatnonzero(owner == client) for client in range(n_clients)]
    values = measured(
        codes.to_numpy(),
        parts,
        [len(synthfs.EDGES) + 1] * codes.shape[1],
        rng=stream(PARTITION_SEED, "figure 4"),
    )
    return {"paper": WORK, "dataset": "synthfs", "data": "none", **values}


def measure_columns(
    dataset: str,
    partition: str,
    n_clients: int,
    beta: float | None = None,
    rows: int | None = None,
    table: str = "",
) -> list[Row]:
    """How unlike the clients of a division of table 5 are in each column alone (`item`), as
    `run_grid` takes it.

    mean_heterogeneity: of the codes. variance_between, of numbers and of columns with two
        categories: see there;
    variance_by_chance: the same with the rows dealt at random. The other arguments are those of
        `measure`.
    """
    whole = load_table(dataset, work=WORK, rows=rows, seed=PARTITION_SEED)
    whole.expect(table)
    train, _ = split(whole, seed=SPLIT_SEED, test_share=0.1)
    codes, names = embedding.coded(train), train.schema.names
    parts = split_clients(train, partition, n_clients, seed=PARTITION_SEED, **_of_labels(beta))
    owner = owners(parts)
    dealt = stream(PARTITION_SEED, "figure 5").permutation(owner)
    found: list[Row] = []
    for name, column in zip(names, codes.T, strict=True):
        alone = mean_heterogeneity(column[:, None], parts, [column.max() + 1])
        found.append({"item": name, "metric": "mean_heterogeneity", "value": alone})
        if name in train.schema.numeric or column.max() == 1:
            values = train.frame[name] if name in train.schema.numeric else column
            for metric, places in (("variance_between", owner), ("variance_by_chance", dealt)):
                found.append(
                    {"item": name, "metric": metric, "value": variance_between(values, places)}
                )
    return [{"paper": WORK, "data": train.data, **row} for row in found]


def measure_map(
    dataset: str, shown: Sequence[str], n_clients: int, rows: int | None = None, table: str = ""
) -> list[Row]:
    """Figure 5, as `run_grid` takes it: the UMAP picture of the training rows in SQUARES x SQUARES
    squares.

    item: the square's column and row, from 0; squares without rows have none. map_share: of the
    rows. map_client: the client of `cluster_skew` with most rows there. map_mean, of each column
    `shown` (last word of the item): the mean, of a category its place in the declared list.
    """
    whole = load_table(dataset, work=WORK, rows=rows, seed=PARTITION_SEED)
    whole.expect(table)
    train, _ = split(whole, seed=SPLIT_SEED, test_share=0.1)
    points = embedding.embedded(embedding.coded(train), seed=PARTITION_SEED)
    places = embedding.squares(points, SQUARES)
    frame = pd.DataFrame({name: _numbers(train.frame[name]) for name in shown})
    frame = frame.assign(square=[f"{column} {row}" for column, row in places])
    frame["client"] = owners(split_clients(train, "cluster_skew", n_clients, seed=PARTITION_SEED))
    found: list[Row] = []
    for square, own in frame.groupby("square"):
        values = {
            ("map_share", square): len(own) / len(frame),
            ("map_client", square): own["client"].mode()[0],
        }
        values |= {("map_mean", f"{square} {name}"): own[name].mean() for name in shown}
        found += [
            {"metric": metric, "item": item, "value": value}
            for (metric, item), value in values.items()
        ]
    return [
        {"paper": WORK, "partition": "cluster_skew", "data": train.data, **row} for row in found
    ]


def _numbers(column: pd.Series) -> np.ndarray:
    return np.asarray(
        column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column, dtype=float
    )


def _of_labels(beta: float | None) -> dict[str, Any]:
    """What `split_clients` needs for label skew as maddock2024 has it: no client without a class,
    no smallest size."""
    return {"alpha": beta, "min_per_class": 1, "min_rows": 1} if beta is not None else {}


def variance_between(values: Iterable[float], owner: np.ndarray) -> float:
    """Share of the variance of values (rows,) that lies between clients: 1 if each client holds one
    value; 0 to 1."""
    values = pd.Series(np.asarray(values, dtype=float))
    return float(values.groupby(np.asarray(owner)).transform("mean").var() / values.var())


def owners(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The client of each row, int64 (rows,), of a division that gives every row to somebody."""
    owner = np.empty(sum(map(len, parts)), dtype=np.int64)
    for client, part in enumerate(parts):
        owner[part] = client
    return owner


def sample_sizes(
    work: str, keys: Sequence[str], *, all_rows: Mapping[str, int], taken: Mapping[str, float]
) -> pd.DataFrame:
    """Three numbers that may be meant by "training samples", with columns and classes: one row for
    each table.

    all_rows: of tables of which the registry has only a part. taken: the share of rows of tables
    that the work samples; 90 percent of what it takes are training rows. Everything is declared: no
    table is read.
    """
    facts = {}
    for key in keys:
        view = REGISTRY[key].view(work)
        schema = view.schema(REGISTRY[key].schema)
        rows = all_rows.get(key, view.rows)
        sample = round(rows * taken.get(key, 1))
        classes = len(schema[schema.target].categories) if schema.target else pd.NA
        facts[key] = {
            "all rows": rows,
            "rows taken": sample,
            "90 percent of these": sample - round(sample / 10),
        }
        facts[key] |= {"columns": len(schema.columns), "classes": classes}
    return pd.DataFrame.from_dict(facts, orient="index").astype("Int64").rename_axis("table")


# shares of rows that maddock2024 samples
TAKEN = {"covertype": 0.2, "census_kdd": 0.3, "intrusion": 0.4}
BOTH_PARTS = {"census_kdd": 299_285}  # rows of tables of which the registry has only a part


def sizes(dataset: str) -> dict[str, Any]:
    """Table 4 of maddock2024, as declared: rows to train on, columns, and classes if the table has
    any."""
    facts = sample_sizes(WORK, [dataset], all_rows=BOTH_PARTS, taken=TAKEN).loc[dataset].dropna()
    named = {"90 percent of these": "n_train", "columns": "n_features", "classes": "n_classes"}
    counts = {metric: int(facts[name]) for name, metric in named.items() if name in facts}
    return {"paper": WORK, "exhibit": "tab4", "data": "none", **counts}
