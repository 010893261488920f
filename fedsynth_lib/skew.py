"""How unlike the clients of a division are: numbers, pictures, and the claim of maddock2024 about them.

A client with few rows differs from the whole by chance alone, so a division is always measured twice: as it is, and
with the same sizes and the rows dealt at random. What lies above chance is skew in what clients hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib import embedding, synthfs
from fedsynth_lib.encode import EqualWidthBins
from fedsynth_lib.evidence import Evidence
from fedsynth_lib.figures import BLUE, FULL_WIDTH, GREY, VERMILLION, pretty
from fedsynth_lib.flaim_study import PARTITION_SEED, SPLIT_SEED, WORK
from fedsynth_lib.interface import stream
from fedsynth_lib.metrics.workload import mean_heterogeneity
from fedsynth_lib.partition import split_clients
from fedsynth_lib.published import Judgement
from fedsynth_lib.registry import REGISTRY, view_bins
from fedsynth_lib.rows import Row
from fedsynth_lib.tables import load_table, split

PLACE = ["dataset", "partition", "detail"]
DIVISIONS = [("iid", None), ("cluster_skew", None), ("label_skew", 0.1), ("label_skew", 0.8)]  # of table 5, with beta
KINDS = [(partition, f"beta={beta}" if beta else "") for partition, beta in DIVISIONS]  # in the words of its values
SQUARES = 40  # along each side of figure 5
PRINTED_RATIO = {"adult": 2.2, "magic": 1.5}  # clustering over i.i.d., of the printed values (claim c21)


def measured(
    codes: np.ndarray, parts: Sequence[np.ndarray], levels: Sequence[int], *, rng: np.random.Generator
) -> dict[str, float]:
    """Heterogeneity of a division of codes (rows, columns), the same by chance, and the clients' sizes in rows."""
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
    """One draw of a division of table 5, as `run_grid` takes it: `measured` on the training rows of maddock2024.

    seed: of the draw. beta: of label skew. table: digest of the table that the grid was made for.
    """
    whole = load_table(dataset, work=WORK, rows=rows, seed=PARTITION_SEED)
    whole.expect(table)
    train, _ = split(whole, seed=SPLIT_SEED, test_share=0.1)
    encoder = EqualWidthBins(train.schema, None, view_bins(dataset, WORK))
    parts = split_clients(train, partition, n_clients, seed=PARTITION_SEED + seed, **_of_labels(beta))
    rng = stream(seed, "by chance")
    values = measured(encoder.transform(train.frame), parts, encoder.domain.levels, rng=rng)
    return {"paper": WORK, "exhibit": "tab5", "data": train.data, **values}


def measure_made_up(beta: float, rows_per_client: int, n_clients: int = 100) -> dict[str, Any]:
    """`measured` of SynthFS at one beta, in which every row says whose it is, as `run_grid` takes it."""
    codes = synthfs.generate(seed=PARTITION_SEED, beta=beta, rows_per_client=rows_per_client, num_clients=n_clients)
    owner = synthfs.owners(rows_per_client=rows_per_client, num_clients=n_clients)
    parts = [np.flatnonzero(owner == client) for client in range(n_clients)]
    values = measured(
        codes.to_numpy(), parts, [len(synthfs.EDGES) + 1] * codes.shape[1], rng=stream(PARTITION_SEED, "figure 4")
    )
    return {"paper": WORK, "dataset": "synthfs", "data": "none", **values}


def measure_columns(
    dataset: str, partition: str, n_clients: int, beta: float | None = None, rows: int | None = None, table: str = ""
) -> list[Row]:
    """How unlike the clients of a division of table 5 are in each column alone (`item`), as `run_grid` takes it.

    mean_heterogeneity: of the codes. variance_between, of numbers and of columns with two categories: see there;
    variance_by_chance: the same with the rows dealt at random. The other arguments are those of `measure`.
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
                found.append({"item": name, "metric": metric, "value": variance_between(values, places)})
    return [{"paper": WORK, "data": train.data, **row} for row in found]


def measure_map(
    dataset: str, shown: Sequence[str], n_clients: int, rows: int | None = None, table: str = ""
) -> list[Row]:
    """Figure 5, as `run_grid` takes it: the UMAP picture of the training rows in SQUARES x SQUARES squares.

    item: the square's column and row, from 0; squares without rows have none. map_share: of the rows. map_client: the
    client of `cluster_skew` with most rows there. map_mean, of each column `shown` (last word of the item): the mean,
    of a category its place in the declared list.
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
        values = {("map_share", square): len(own) / len(frame), ("map_client", square): own["client"].mode()[0]}
        values |= {("map_mean", f"{square} {name}"): own[name].mean() for name in shown}
        found += [{"metric": metric, "item": item, "value": value} for (metric, item), value in values.items()]
    return [{"paper": WORK, "partition": "cluster_skew", "data": train.data, **row} for row in found]


def _numbers(column: pd.Series) -> np.ndarray:
    return np.asarray(column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column, dtype=float)


def _of_labels(beta: float | None) -> dict[str, Any]:
    """What `split_clients` needs for label skew as maddock2024 has it: no client without a class, no smallest size."""
    return {"alpha": beta, "min_per_class": 1, "min_rows": 1} if beta is not None else {}


def variance_between(values: Iterable[float], owner: np.ndarray) -> float:
    """Share of the variance of values (rows,) that lies between clients: 1 if each client holds one value; 0 to 1."""
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
    """Three numbers that may be meant by "training samples", with columns and classes: one row for each table.

    all_rows: of tables of which the registry has only a part. taken: the share of rows of tables that the work
    samples; 90 percent of what it takes are training rows. Everything is declared: no table is read.
    """
    facts = {}
    for key in keys:
        view = REGISTRY[key].view(work)
        schema = view.schema(REGISTRY[key].schema)
        rows = all_rows.get(key, view.rows)
        sample = round(rows * taken.get(key, 1))
        classes = len(schema[schema.target].categories) if schema.target else pd.NA
        facts[key] = {"all rows": rows, "rows taken": sample, "90 percent of these": sample - round(sample / 10)}
        facts[key] |= {"columns": len(schema.columns), "classes": classes}
    return pd.DataFrame.from_dict(facts, orient="index").astype("Int64").rename_axis("table")


TAKEN = {"covertype": 0.2, "census_kdd": 0.3, "intrusion": 0.4}  # shares of rows that maddock2024 samples
BOTH_PARTS = {"census_kdd": 299_285}  # rows of tables of which the registry has only a part


def sizes(dataset: str) -> dict[str, Any]:
    """Table 4 of maddock2024, as declared: rows to train on, columns, and classes if the table has any."""
    facts = sample_sizes(WORK, [dataset], all_rows=BOTH_PARTS, taken=TAKEN).loc[dataset].dropna()
    named = {"90 percent of these": "n_train", "columns": "n_features", "classes": "n_classes"}
    counts = {metric: int(facts[name]) for name, metric in named.items() if name in facts}
    return {"paper": WORK, "exhibit": "tab4", "data": "none", **counts}


def clouds(
    panels: Mapping[str, tuple[np.ndarray, np.ndarray, str]],
    *,
    bars: Sequence[str] = (),
    axes: tuple[str, str] | None = None,
    seed: int = 0,
) -> Figure:
    """Scatter panels side by side on one scale: title -> points (rows, 2), values (rows,), name of the colour map.

    Dots are drawn in random order, so that no group lies on top. bars: titles of panels with a colour bar.
    axes: labels of both axes; without them there are none, as the places of an embedding mean nothing.
    """
    fig, places = plt.subplots(1, len(panels), figsize=(FULL_WIDTH, 2.1), sharex=True, sharey=True, squeeze=False)
    for ax, (title, (points, values, colours)) in zip(places[0], panels.items(), strict=True):
        order = np.random.default_rng(seed).permutation(len(points))
        style = {"s": 0.4, "linewidths": 0, "rasterized": True, "cmap": colours}
        dots = ax.scatter(*points[order].T, c=np.asarray(values)[order], **style)
        ax.set_title(title)
        if axes is None:
            ax.set_axis_off()
        else:
            ax.set_xlabel(axes[0])
        if title in bars:
            fig.colorbar(dots, ax=ax, orientation="horizontal", shrink=0.9)
    if axes is not None:
        places[0, 0].set_ylabel(axes[1])
    return fig


def maps(rows: pd.DataFrame, panels: Mapping[str, tuple[str, str]], *, bars: Sequence[str] = ()) -> Figure:
    """Figure 5: the same squares in every panel, the area of a dot the root of its share of rows, in four colourings.

    rows: of `measure_map`. panels: title -> column whose mean colours the squares, '' for the clients, and colour map.
    bars: titles of panels with a colour bar.
    """
    parts = rows["item"].str.split(" ", n=2, expand=True).reindex(columns=range(3)).fillna("")
    wide = rows.assign(square=parts[0] + " " + parts[1], of=rows["metric"] + " " + parts[2])
    wide = wide.pivot(index="square", columns="of", values="value")
    column, row = (wide.index.str.split(" ").str[place].astype(int) for place in (0, 1))
    area = 60 * np.sqrt(wide["map_share "])
    fig, places = plt.subplots(1, len(panels), figsize=(FULL_WIDTH, 2.1), sharex=True, sharey=True, squeeze=False)
    for ax, (title, (name, colours)) in zip(places[0], panels.items(), strict=True):
        values = wide[f"map_mean {name}"] if name else wide["map_client "] % 20
        dots = ax.scatter(column, row, s=area, c=values, cmap=colours, linewidths=0)
        ax.set_title(title)
        ax.set_axis_off()
        if title in bars:
            fig.colorbar(dots, ax=ax, orientation="horizontal", shrink=0.9)
    return fig


def column_dots(columns: pd.DataFrame) -> Figure:
    """Heterogeneity of single columns: a line for each row of the frame, a marker for each column (division)."""
    fig, ax = plt.subplots(figsize=(0.7 * FULL_WIDTH, 0.9 + 0.16 * len(columns)))
    for (name, values), marker in zip(columns.items(), "os^vDPX", strict=False):
        ax.plot(values, range(len(columns)), marker, markerfacecolor="none", label=name)
    ax.set_yticks(range(len(columns)), columns.index)
    ax.set(xlabel="heterogeneity of the column (0: all clients alike)", xlim=(0, None))
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def draws(rows: pd.DataFrame, published: pd.Series) -> Figure:
    """Every draw of every division, with what its sizes give by chance and the printed value; a panel for each dataset.

    rows: tidy rows of `measured`. published: the printed values, indexed by PLACE.
    """
    kinds = list(dict.fromkeys(zip(rows["partition"], rows["detail"], strict=True)))
    printed = published.rename("value").reset_index()
    layers = [
        (rows[rows["metric"] == "mean_heterogeneity"], "o", 0, BLUE, "ours, one for each draw"),
        (rows[rows["metric"] == "by_chance"], "|", 0.25, GREY, "same sizes, rows dealt at random"),
        (printed, "D", -0.25, VERMILLION, "published"),
    ]
    datasets = list(rows["dataset"].unique())
    size = (FULL_WIDTH, 1.1 + 0.25 * len(kinds))
    fig, axes = plt.subplots(1, len(datasets), figsize=size, sharey=True, squeeze=False)
    for ax, dataset in zip(axes[0], datasets, strict=True):
        for found, marker, shift, colour, label in layers:
            found = found[found["dataset"] == dataset]
            height = [shift - kinds.index(kind) for kind in zip(found["partition"], found["detail"], strict=True)]
            ax.plot(found["value"], height, marker, color=colour, markersize=4, markerfacecolor="none", label=label)
        title = {"title": dataset, "xlabel": "heterogeneity (0: all clients alike)"}
        ax.set(**title, xlim=(0, 1), ylim=(0.5 - len(kinds), 0.5))
    ticks = [f"{pretty(partition)} {detail}".replace("beta=", "β = ").strip() for partition, detail in kinds]
    axes[0, 0].set_yticks([-number for number in range(len(kinds))], ticks)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def judge_partitions(rows: pd.DataFrame) -> Judgement:
    """Claim c21 (section B.2, table 5): the share of its statements that our means over draws bear out."""
    means = rows[rows["metric"] == "mean_heterogeneity"].groupby(PLACE)["value"].mean()
    means = means.unstack(["partition", "detail"])  # (datasets, divisions)
    if any(kind not in means or means[kind].isna().any() for kind in KINDS):
        return None, "a division of table 5 is missing"
    iid, cluster, strong, weak = (means[kind] for kind in KINDS)
    ratio = cluster / iid
    held = {
        "all skewed divisions above i.i.d.": all((each > iid).all() for each in (cluster, strong, weak)),
        "label skew falls with beta": bool((weak < strong).all()),
        "clustering / i.i.d. within a tenth of the printed ratio": all(
            abs(ratio[dataset] / printed - 1) <= 0.1 for dataset, printed in PRINTED_RATIO.items() if dataset in ratio
        ),
    }
    told = [(holds, f"{statement}: {'yes' if holds else 'no'}") for statement, holds in held.items()]
    told += [(True, f"clustering / i.i.d. {value:.2f} ({dataset})") for dataset, value in ratio.items()]
    share = sum(held.values()) / len(held)
    return (bool(share) if share in (0, 1) else share), Evidence.of(told)
