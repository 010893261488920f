"""The protocol of apellaniz2025 that its notebooks share: three nodes, three techniques, two
scenarios, two tables.

A cell of `train` is one federation: its nodes' synthetic rows are kept (`remember`), so that cells
of `judge` measure one node once, each for minutes. Rows are measured as the networks draw them:
numeric columns standardised, neither whole nor within their range, which is what the work did;
'whole' measures what a reader of the table would get.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp, wilcoxon
from sklearn.ensemble import RandomForestClassifier

from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.divergence import Sizes, jensen_shannon
from fedsynth_lib.runs import names
from fedsynth_lib.runs.grid import remember
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.works.apellaniz_nodes import levels_of, moments_of, nodes, scaled

WORK = "apellaniz2025"
DATASETS = ("brfss_diabetes", "brfss_heart")
TECHNIQUES = {"isolated": "Isolated", "fedavg": "FedAvg", "sds": "SDS"}  # as the work prints them
NODE_ROWS = (100, 1000, 10_000)
COMBINATIONS = ((50, 100, 500), (50, 100, 1000), (50, 500, 1000), (100, 500, 1000))  # appendix D
# a `variant`: what the published code does, and its text does not say
AS_RUN = {"steepest": 1000.0}
SIZES: dict[str, dict[str, Any]] = {  # scale: of nodes; repeats: of measuring tables 2 to 5 AS_RUN
    "smoke": {
        "fixed": {
            "scale": 0.03,
            "changes": {
                "training_rounds": 2,
                "local_epochs": 5,
                "networks": 2,
                "components": 4,
                "starts": 1,
            },
            "judged": {"training": 150, "evaluation": 50, "epochs": 10, "patience": 10},
        },
        "repeats": 2,
        "trainings": 2,
    },
    "quick": {
        "fixed": {
            "changes": {"local_epochs": 20, "networks": 1, "starts": 1},
            "judged": {"training": 2500, "evaluation": 500, "epochs": 400, "patience": 150},
        },
        "repeats": 2,
        "trainings": 3,
    },
    "paper": {"fixed": {"changes": {}, "judged": {}}, "repeats": 2, "trainings": 3},
}


def configured(
    technique: str, table: Table, sizes: Sequence[int], judged: Sizes, **changes: Any
) -> vae_bgm.Config:
    """The technique as the published runs used it; FedAvg with one network, the others with
    three."""
    if technique not in TECHNIQUES:
        raise BadInput(
            f"technique {technique!r} is unknown: choose one of {', '.join(TECHNIQUES)}."
        )
    published = {
        **{"technique": technique, "most_rows": max(sizes), "common_start": False},
        # of the real rows, which noise would not cover
        "moments": None if "clip" in changes else moments_of(table),
        **{"networks": 1 if technique == "fedavg" else 3, "shared_rows": judged.rows},
    }
    return vae_bgm.Config(**(published | changes))


def trained(
    dataset: str,
    partition: str,
    technique: str,
    node_rows: Sequence[int],
    seed: int,
    judged: Mapping[str, int] | None = None,
    changes: Mapping[str, Any] | None = None,
    variant: Mapping[str, Any] | None = None,
    epsilon: float | None = None,
    disjoint: bool = False,
    scale: float = 1.0,
    table: str = "",
) -> tuple[pd.DataFrame, dict]:
    """The standardised synthetic rows of all nodes (column `node`, from 1), and the run's facts:
    made, or remembered.

    changes: what a profile shrinks. variant: what is not as published, and named in the rows; both
        are fields of Config. epsilon: of each node, delta 1e-5; needs `clip` in `variant`. table:
        digest of the table meant.
    """
    found, sizes, node_rows = (
        load_table(dataset, work=WORK),
        Sizes(**(judged or {})),
        scaled(node_rows, scale),
    )
    found.expect(table)
    config = configured(
        technique, found, node_rows, sizes, **{**(changes or {}), **(variant or {})}
    )
    parts = [
        np.sort(node.training)
        for node in nodes(found, partition, node_rows, sizes.rows, disjoint=disjoint)
    ]
    method = METHODS["dpvaebgm" if config.private else "vaebgm"]
    key = {
        "method": method.name,
        "version": method.VERSION,
        "config": asdict(config),
        "table": found.digest,
        "partition": [partition, node_rows, sizes.rows, disjoint],
        "epsilon": epsilon,
        "seed": seed,
    }

    def make() -> tuple[pd.DataFrame, dict]:
        privacy = Privacy(epsilon, 1e-5 if epsilon else 0.0, reproduction=True)
        run = settings.federated(
            method, found, parts, config=config, privacy=privacy, seed=seed, num_rows=1
        )
        frames = []
        for node in range(len(parts)):
            rows = vae_bgm.drawn(run.state, node, sizes.rows, config, stream(seed, "node", node))
            # the nodes have found their own; all are measured on one scale
            if config.moments is None:
                numeric, own = run.state["levels"] == 0, run.state[f"generator/{node}/moments"]
                shared = np.array(moments_of(found))
                rows[:, numeric] = (
                    rows[:, numeric] * own[:, 1] + own[:, 0] - shared[:, 0]
                ) / shared[:, 1]
            frames.append(
                pd.DataFrame(rows.astype(np.float32), columns=found.schema.names).assign(
                    node=node + 1
                )
            )
        facts = {
            name: getattr(run, name) for name in ("statement", "seconds", "bytes_up", "bytes_down")
        }
        return pd.concat(frames, ignore_index=True), facts

    return remember(key, make)


def train(**cell: Any) -> list[Row]:
    """Rows of one federation: seconds, bytes and what it released, one row a measure."""
    facts = trained(**cell)[1]
    statement = facts["statement"]
    shared = {
        **labels(**cell),
        "bytes_up": facts["bytes_up"],
        "bytes_down": facts["bytes_down"],
        "epsilon_spent": statement["epsilon_protected"] if cell.get("epsilon") else None,
        "unprotected": len(statement["unprotected"]),
    }
    return [{**shared, "metric": "seconds", "value": facts["seconds"]}]


def judge(node: int, repeat: int = 0, whole: bool = False, **cell: Any) -> list[Row]:
    """Rows of one node (from 1), measured once: js_divergence, js_epochs, acc_synthetic_real,
    acc_real_real.

    repeat: of the measurement, whose network and forests start anew (that of the real rows, which
    no training changes, with the seed, too). whole: synthetic rows are first cut and rounded to
    what the schema allows, as if published.
    """
    sizes = Sizes(**(cell.get("judged") or {}))
    real, synthetic, target = _samples(node, whole, cell)
    bits, epochs = jensen_shannon(real, synthetic, seed=repeat, sizes=sizes)
    values = {"js_divergence": bits, "js_epochs": epochs}
    for name, source, start in (
        ("acc_synthetic_real", synthetic, 0),
        ("acc_real_real", real, cell["seed"]),
    ):
        values[name] = accuracy(
            source, real, np.arange(real.shape[1]) == target, sizes.rows, seed=start + repeat
        )
    shared = {**labels(**cell), "node": str(node)}
    return [{**shared, "metric": name, "value": value} for name, value in values.items()]


def accuracy(
    source: np.ndarray, real: np.ndarray, label: np.ndarray, rows: int, *, seed: int
) -> float:
    """Of a forest of 100 trees trained on the first four fifths of `rows` source rows, on the real
    last fifth."""
    cut = int(0.8 * rows)
    forest = RandomForestClassifier(100, random_state=seed)
    forest.fit(source[:cut, ~label], source[:cut, label].ravel().astype(int))
    return float(forest.score(real[cut:rows, ~label], real[cut:rows, label].ravel().astype(int)))


def distances(node: int, whole: bool = False, **cell: Any) -> list[Row]:
    """Rows of figure A2 at one node: distances to the nearest validation row, of the others and of
    synthetic rows.

    The shares of 60 bins from 0 to 6 (`item`: their lower edge), the smallest and mean distance,
    and p-values of the one-sided tests that synthetic rows lie farther away.
    """
    real, synthetic, _ = _samples(node, whole, cell)
    # itself is the nearest
    among, apart = nearest(real, real, 2)[0][:, 1], nearest(synthetic, real, 1)[0][:, 0]
    shared = {**labels(**cell), "node": str(node)}
    rows: list[Row] = [
        {"metric": "p_wilcoxon", "value": wilcoxon(apart, among, alternative="greater").pvalue},
        {
            "metric": "p_kolmogorov_smirnov",
            "value": ks_2samp(apart, among, alternative="less").pvalue,
        },
    ]
    edges = np.linspace(0, 6, 61)
    for name, found in (("real", among), ("synthetic", apart)):
        rows += [{"metric": f"{name}_min", "value": found.min()}]
        rows += [{"metric": f"{name}_mean", "value": found.mean()}]
        rows += [{"metric": f"{name}_zero", "value": float((found == 0).mean())}]
        shares = np.histogram(np.minimum(found, edges[-1]), edges)[0] / len(found)
        for edge, share in zip(edges, shares, strict=False):
            rows.append({"item": f"{edge:.1f}", "metric": f"{name}_share", "value": share})
    return [{**shared, **row} for row in rows]


def described(dataset: str, other: str, table: str = "") -> list[Row]:
    """Table 1, as `run_grid` takes it: rows, columns with the target, percent of the rows in each
    class (`item`).

    same_value: of each column (`item`), the share of rows in which the table `other` has the same
        value there.
    """
    found, beside = (load_table(name, work=WORK) for name in (dataset, other))
    found.expect(table)
    shares = found.frame[found.schema.target].value_counts(normalize=True)
    same = (found.frame.astype(float) == beside.frame.astype(float)[found.frame.columns]).mean()
    rows: list[Row] = [{"metric": "n_samples", "value": len(found)}]
    rows += [{"metric": "n_features", "value": len(found.schema.names)}]
    rows += [
        {"metric": "class_proportion_percent", "item": str(k), "value": 100 * v}
        for k, v in shares.items()
    ]
    rows += [{"metric": "same_value", "item": name, "value": share} for name, share in same.items()]
    return [{"paper": WORK, "data": found.data, "setting": "real", **row} for row in rows]


def dealt(
    dataset: str,
    partition: str,
    node_rows: Sequence[int],
    judged: Mapping[str, int] | None = None,
    scale: float = 1.0,
    forests: int = 3,
    table: str = "",
) -> list[Row]:
    """Who sits at each node in one scenario, as `run_grid` takes it; nothing is trained but forests
    on real rows.

    n_train, bmi_mean, below_median (share of training rows below the table's median BMI),
    real_share of each BMI (`item`); trained_elsewhere: share of validation rows on which later
    nodes train; acc_real_real: mean of `forests`. Of the whole table (no node): bmi_mean and
    bmi_std.
    """
    whole = load_table(dataset, work=WORK)
    whole.expect(table)
    sizes, bmi, real = (
        Sizes(**(judged or {})),
        whole.frame["BMI"].to_numpy(),
        standardised_rows(dataset),
    )
    label = np.array(whole.schema.names) == whole.schema.target
    places = nodes(whole, partition, scaled(node_rows, scale), sizes.rows)
    rows: list[Row] = [
        {"metric": f"bmi_{name}", "value": getattr(bmi, name)()} for name in ("mean", "std")
    ]
    for number, place in enumerate(places, start=1):
        own, judges = bmi[place.training], real[place.validation]
        later = [row for after in places[number:] for row in after.training]
        scores = [accuracy(judges, judges, label, sizes.rows, seed=seed) for seed in range(forests)]
        values = {
            **{
                "n_train": len(own),
                "bmi_mean": own.mean(),
                "below_median": (own < np.median(bmi)).mean(),
            },
            **{
                "trained_elsewhere": np.isin(place.validation, later).mean(),
                "acc_real_real": np.mean(scores),
            },
        }
        rows += [
            {"node": str(number), "metric": name, "value": value} for name, value in values.items()
        ]
        for value, count in zip(*np.unique(own, return_counts=True), strict=True):
            share = {"item": f"{value:g}", "metric": "real_share", "value": count / len(own)}
            rows.append({"node": str(number), **share})
    shared: Row = {
        "paper": WORK,
        "data": whole.data,
        "setting": "real",
        "n_clients": len(node_rows),
    }
    return [{**shared, **row} for row in rows]


FEATURES = ("PhysHlth", "Income", "GenHlth", "Education", "BMI", "Age")  # of figures A3 and A4


def features(node: int, **cell: Any) -> list[Row]:
    """Rows of figures A3 and A4 at one node: the share of each value of six columns, synthetic and
    real.

    Synthetic values are snapped to whole numbers, as the work's histograms do. `item`: column and
    value. Also the divergence in bits between the two of each column, and of each column its
    importance to the real forest.
    """
    (real, synthetic, target), table = (
        _samples(node, True, cell),
        load_table(cell["dataset"], work=WORK),
    )
    names, shared = table.schema.names, {**labels(**cell), "node": str(node)}
    label, moments = np.arange(len(names)) == target, np.array(moments_of(table))
    levels = np.array(levels_of(table))
    forest = RandomForestClassifier(100, random_state=0).fit(
        real[:, ~label], real[:, label].ravel().astype(int)
    )
    others = [name for name in names if name != names[target]]
    rows = [
        {"item": name, "metric": "importance", "value": value}
        for name, value in zip(others, forest.feature_importances_, strict=True)
    ]
    places = [vae_bgm.places(sample, levels, moments) for sample in (real, synthetic)]
    for name in FEATURES:
        column = table.schema[name]
        whole = [
            np.rint(p[:, names.index(name)] * (column.high - column.low)).astype(int)
            for p in places
        ]
        shares = [
            np.bincount(w, minlength=int(column.high - column.low) + 1) / len(w) for w in whole
        ]
        rows.append(
            {"item": name, "metric": "js_column", "value": jensenshannon(*shares, base=2) ** 2}
        )
        for kind, counted in zip(("real", "synthetic"), shares, strict=True):
            rows += [
                {
                    "item": f"{name} {int(column.low) + step}",
                    "metric": f"{kind}_share",
                    "value": share,
                }
                for step, share in enumerate(counted)
                if share
            ]
    return [{**shared, **row} for row in rows]


def cells(
    size: Mapping[str, Any],
    *,
    datasets: Sequence[str] = DATASETS,
    partitions: Sequence[str] = ("iid", "bmi_skew"),
    techniques: Sequence[str] = tuple(TECHNIQUES),
    node_rows: Sequence[Sequence[int]] = (NODE_ROWS,),
    seeds: Sequence[int],
    **fixed: Any,
) -> list[dict]:
    """The federations of a grid, each the arguments of `train`. size: of the profile, one of
    SIZES."""
    digests = {dataset: table_digest(dataset, work=WORK) for dataset in datasets}
    common = {**size["fixed"], **fixed}
    return [
        {
            "dataset": d,
            "partition": p,
            "technique": t,
            "node_rows": list(rows),
            "seed": s,
            "table": digests[d],
        }
        | common
        for d in datasets
        for p in partitions
        for rows in node_rows
        for t in techniques
        for s in seeds
    ]


def private(size: Mapping[str, Any], epsilons: Sequence[float], **lists: Any) -> list[dict]:
    """The federations of `cells` with a guarantee for each node, by the settings of
    `dp_vae_bgm`."""
    default = METHODS["dpvaebgm"].Config()
    epochs = min(
        default.local_epochs, size["fixed"]["changes"].get("local_epochs", default.local_epochs)
    )
    variant = {
        name: getattr(default, name) for name in ("clip", "networks", "components", "moments")
    }
    variant["local_epochs"] = epochs
    return [cell for e in epsilons for cell in cells(size, variant=variant, epsilon=e, **lists)]


def judged(
    federations: Sequence[Mapping[str, Any]], repeats: int, *, nodes: Sequence[int] = (1, 2, 3)
) -> list[dict]:
    """A cell of `judge` for each node and repeat of every federation; workers side by side train
    different ones."""
    return [
        {**cell, "node": n, "repeat": r}
        for n in nodes
        for r in range(repeats)
        for cell in federations
    ]


def small_statement(seed: int, epsilon: float | None = None) -> dict[str, Any]:
    """The privacy statement of a run trained now, like nodes at the sizes of the profile smoke, on
    the table at hand.

    What a statement says does not depend on rows or sizes, but for the noise. Shared rows: with a
    guarantee of epsilon for each node, or without any.
    """
    lists = {
        "datasets": DATASETS[:1],
        "partitions": ["iid"],
        "techniques": ["sds"],
        "seeds": [seed],
    }
    asked = (
        cells(SIZES["smoke"], **lists)
        if epsilon is None
        else private(SIZES["smoke"], [epsilon], **lists)
    )
    return trained(**asked[0] | {"table": ""})[1]["statement"]


def labels(
    dataset: str, partition: str, technique: str, node_rows: Sequence[int], **cell: Any
) -> Row:
    """What rows of a federation share."""
    return {
        **{"paper": WORK, "dataset": dataset, "data": load_table(dataset, work=WORK).data},
        **{"method": TECHNIQUES[technique], "partition": partition, "n_clients": len(node_rows)},
        **{"seed": cell["seed"]},
        **{
            "epsilon": cell.get("epsilon"),
            "setting": "local" if technique == "isolated" else "federated",
        },
    }


JUDGED = ("js_divergence", "js_epochs", "acc_synthetic_real", "acc_real_real")
DESCRIBED = (  # of a node, in `distances` and `features`
    *("p_wilcoxon", "p_kolmogorov_smirnov", "importance", "js_column"),
    *(
        f"{kind}_{what}"
        for kind in ("real", "synthetic")
        for what in ("min", "mean", "zero", "share")
    ),
)


def version(cell: Mapping[str, Any]) -> str:
    """The versions that the rows of a cell rest on."""
    private = "clip" in (cell.get("variant") or {})
    measured = JUDGED if "repeat" in cell else DESCRIBED if "node" in cell else ("seconds",)
    return names.version("dpvaebgm" if private else "vaebgm", measured)


@lru_cache(maxsize=4)
def standardised_rows(dataset: str) -> np.ndarray:
    table = load_table(dataset, work=WORK)
    rows = UnitRange(table.schema).transform(table.frame)
    return vae_bgm.standardised(rows, np.array(levels_of(table)), np.array(moments_of(table)))


def _samples(node: int, whole: bool, cell: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    """A node's validation rows, its synthetic rows, both standardised, and the place of the target
    column."""
    table, sizes = load_table(cell["dataset"], work=WORK), Sizes(**(cell.get("judged") or {}))
    rows = scaled(cell["node_rows"], cell.get("scale", 1.0))
    dealt = nodes(table, cell["partition"], rows, sizes.rows, disjoint=cell.get("disjoint", False))
    real = standardised_rows(cell["dataset"])[dealt[node - 1].validation]
    frame, _ = trained(**cell)
    synthetic = frame.loc[frame["node"] == node, table.schema.names].to_numpy(np.float32)
    if whole:
        levels, moments = np.array(levels_of(table)), np.array(moments_of(table))
        encoder = UnitRange(table.schema)
        back = encoder.inverse(vae_bgm.places(synthetic, levels, moments), stream(0, "whole"))
        synthetic = vae_bgm.standardised(encoder.transform(back), levels, moments)
    return real, synthetic, table.schema.names.index(table.schema.target)
