"""Code specific to apellaniz2025: its nodes, how its rows are drawn, and how a node is judged.

A federation is trained once; the standardised synthetic rows of all its nodes are kept, so that
each node is judged in a cell of its own, for minutes. Rows are measured as the networks draw them:
numeric columns standardised, neither whole nor within their range, which is what the work did;
`whole` measures what a reader of the table would get.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp, wilcoxon
from sklearn.ensemble import RandomForestClassifier

from fedsynth_lib.core.contract import Privacy, Run, stream
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.divergence import Sizes, jensen_shannon
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.partition import Parts
from fedsynth_lib.works.apellaniz_nodes import (
    SHUFFLE_SEED,
    Node,
    levels_of,
    moments_of,
    nodes,
    scaled,
)
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Cell, Made, as_rows

WORK = load("apellaniz2025")
FEATURES = ("PhysHlth", "Income", "GenHlth", "Education", "BMI", "Age")  # of figures A3 and A4
Measured = dict[tuple[str, str], float]  # (item, measure) -> value


class Dealt(NamedTuple):
    """A table whose rows are dealt out. train: all its rows. sizes: of the judging network."""

    train: Table
    nodes: Sequence[Node]
    sizes: Sizes


def prepare(
    dataset: str,
    partition: str = "",
    node_rows: Sequence[int] = (),
    judged: Mapping[str, int] | None = None,
    scale: float | None = None,
    disjoint: bool | None = None,
    redealt: bool | None = None,
    seed: int = 0,
) -> Dealt:
    """Load the table and deal each node its rows; there are no nodes without a partition."""
    table, sizes = WORK.table(dataset), Sizes(**(judged or {}))
    if not partition:
        return Dealt(table, (), sizes)
    rows = scaled(node_rows, scale or 1.0)
    shuffle = seed if redealt else SHUFFLE_SEED
    dealt = nodes(table, partition, rows, sizes.rows, disjoint=bool(disjoint), shuffle=shuffle)
    return Dealt(table, dealt, sizes)


def divide(prepared: Dealt) -> Parts:
    """Return the training rows of each node."""
    return [np.sort(node.training) for node in prepared.nodes]


def configure(
    prepared: Dealt,
    parts: Parts,
    changes: Mapping[str, Any] | None,
    variant: Mapping[str, Any] | None,
    epsilon: float | None,
) -> tuple[dict[str, Any], Privacy]:
    """Return the settings of one federation, and the guarantee of each node."""
    changed = {**(changes or {}), **(variant or {})}
    own = {"most_rows": max(map(len, parts)), "shared_rows": prepared.sizes.rows}
    # moments are of the real rows, which noise would not cover
    own["moments"] = None if "clip" in changed else moments_of(prepared.train)
    delta = WORK.constants["delta"] if epsilon else 0.0
    return {**own, **changed}, Privacy(epsilon, delta, reproduction=True)


def private_variant(cell: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `dp_vae_bgm` for a cell that asks for a guarantee.

    They have no more epochs than the profile has.
    """
    if "epsilon" not in cell:
        return {}
    usual = METHODS["dpvaebgm"].Config()
    variant = {name: getattr(usual, name) for name in ("clip", "networks", "components", "moments")}
    most = cell.get("changes", {}).get("local_epochs", usual.local_epochs)
    return {"variant": {**variant, "local_epochs": min(usual.local_epochs, most)}}


def standardised_rows_of_nodes(
    run: Run, prepared: Dealt, config: vae_bgm.Config, seed: int
) -> pd.DataFrame:
    """Return the synthetic rows of all nodes, standardised with the moments of the whole table.

    The column `node` counts from 1.
    """
    frames, table = [], prepared.train
    for node in range(len(prepared.nodes)):
        rng = stream(seed, "node", node)
        rows = vae_bgm.drawn(run.state, node, prepared.sizes.rows, config, rng)
        # the nodes have found their own; all are measured on one scale
        if config.moments is None:
            numeric, own = run.state["levels"] == 0, run.state[f"generator/{node}/moments"]
            mean, deviation = np.array(moments_of(table)).T
            rows[:, numeric] = (rows[:, numeric] * own[:, 1] + own[:, 0] - mean) / deviation
        frame = pd.DataFrame(rows.astype(np.float32), columns=table.schema.names)
        frames.append(frame.assign(node=node + 1))
    return pd.concat(frames, ignore_index=True)


# --- what is measured ----------------------------------------------------------------------------


def cost(made: Made) -> dict[str, float]:
    """Return the seconds of one federation; its result rows also hold bytes and releases."""
    return {"seconds": made.facts["seconds"]}


def judge_node(
    prepared: Dealt, made: Made, node: int, repeat: int, whole: bool, seed: int
) -> dict[str, float]:
    """How near a node's synthetic rows come to its validation rows.

    js_divergence in bits and the epochs of its network; accuracy on real rows of forests trained on
    synthetic and on real ones. repeat: the network and the forests start again with each (the
    forest of real rows, which no training changes, with the seed, too).
    """
    real, synthetic = compared(prepared, made, node, whole)
    bits, epochs = jensen_shannon(real, synthetic, seed=repeat, sizes=prepared.sizes)
    forests = accuracies(prepared, made, node, repeat, whole, seed)
    return {"js_divergence": bits, "js_epochs": epochs, **forests}


def accuracies(
    prepared: Dealt, made: Made, node: int, repeat: int, whole: bool, seed: int
) -> dict[str, float]:
    """Return the accuracies of `judge_node` alone, without the network that takes the longest."""
    real, synthetic = compared(prepared, made, node, whole)
    label, rows = is_target(prepared.train), prepared.sizes.rows
    return {
        "acc_synthetic_real": accuracy(synthetic, real, label, rows, seed=repeat),
        "acc_real_real": accuracy(real, real, label, rows, seed=seed + repeat),
    }


def distances_to_nearest(prepared: Dealt, made: Made, node: int, whole: bool) -> Measured:
    """Measure for figure A2, at one node, how far rows lie from the nearest validation row.

    The distances are those of other validation rows and of synthetic rows: the shares of 60 bins
    from 0 to 6 (`item`: their lower edge), the smallest and mean distance, and p-values of the
    one-sided tests that synthetic rows lie farther away.
    """
    real, synthetic = compared(prepared, made, node, whole)
    # itself is the nearest
    among, apart = nearest(real, real, 2)[0][:, 1], nearest(synthetic, real, 1)[0][:, 0]
    farther = ks_2samp(apart, among, alternative="less")
    values = {("", "p_wilcoxon"): wilcoxon(apart, among, alternative="greater").pvalue}
    values["", "p_kolmogorov_smirnov"] = farther.pvalue
    edges = np.linspace(0, 6, 61)
    for name, found in (("real", among), ("synthetic", apart)):
        values["", f"{name}_min"], values["", f"{name}_mean"] = found.min(), found.mean()
        values["", f"{name}_zero"] = float((found == 0).mean())
        shares = np.histogram(np.minimum(found, edges[-1]), edges)[0] / len(found)
        for edge, share in zip(edges, shares, strict=False):
            values[f"{edge:.1f}", f"{name}_share"] = share
    return values


def shares_of_values(prepared: Dealt, made: Made, node: int) -> Measured:
    """Measure for figures A3 and A4, at one node, the share of each value of six columns.

    Shares are of synthetic and of real rows (`item`: column and value).

    Synthetic values are snapped to whole numbers, as the work's histograms do. Also the divergence
    in bits between the two of each column, and of each column its importance to the real forest.
    """
    real, synthetic = compared(prepared, made, node, whole=True)
    table, label = prepared.train, is_target(prepared.train)
    forest = RandomForestClassifier(100, random_state=0)
    forest.fit(real[:, ~label], real[:, label].ravel().astype(int))
    others = np.array(table.schema.names)[~label]
    importances = zip(others, forest.feature_importances_, strict=True)
    values = {(name, "importance"): value for name, value in importances}
    levels, moments = np.array(levels_of(table)), np.array(moments_of(table))
    places = [vae_bgm.places(sample, levels, moments) for sample in (real, synthetic)]
    for name in FEATURES:
        column, at = table.schema[name], table.schema.names.index(name)
        width = int(column.high - column.low)
        steps = [np.rint(place[:, at] * width).astype(int) for place in places]
        shares = [np.bincount(step, minlength=width + 1) / len(step) for step in steps]
        values[name, "js_column"] = jensenshannon(*shares, base=2) ** 2
        for kind, counted in zip(("real", "synthetic"), shares, strict=True):
            for step in np.flatnonzero(counted):
                values[f"{name} {int(column.low) + step}", f"{kind}_share"] = counted[step]
    return values


def compared(prepared: Dealt, made: Made, node: int, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a node's validation and synthetic rows, both standardised: (rows, columns)."""
    table = prepared.train
    real = standardised_table(table)[prepared.nodes[node - 1].validation]
    own = made.frame.loc[made.frame["node"] == node, table.schema.names]
    synthetic = own.to_numpy(np.float32)
    if whole:
        levels, moments = np.array(levels_of(table)), np.array(moments_of(table))
        encoder = UnitRange(table.schema)
        back = encoder.inverse(vae_bgm.places(synthetic, levels, moments), stream(0, "whole"))
        synthetic = vae_bgm.standardised(encoder.transform(back), levels, moments)
    return real, synthetic


@lru_cache(maxsize=4)
def standardised_table(table: Table) -> np.ndarray:
    """All rows of a table, numeric columns standardised with its own moments."""
    rows = UnitRange(table.schema).transform(table.frame)
    return vae_bgm.standardised(rows, np.array(levels_of(table)), np.array(moments_of(table)))


def is_target(table: Table) -> np.ndarray:
    """Which of the columns is the target."""
    return np.array(table.schema.names) == table.schema.target


def accuracy(
    source: np.ndarray, real: np.ndarray, label: np.ndarray, rows: int, *, seed: int
) -> float:
    """Return the accuracy of a forest of 100 trees on the last fifth of the real rows.

    It is trained on the first four fifths of `rows` source rows.
    """
    cut = int(0.8 * rows)
    forest = RandomForestClassifier(100, random_state=seed)
    forest.fit(source[:cut, ~label], source[:cut, label].ravel().astype(int))
    return float(forest.score(real[cut:rows, ~label], real[cut:rows, label].ravel().astype(int)))


# --- tables and nodes ----------------------------------------------------------------------------


def other_table(cell: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, str]:
    """Return the work's other table, for an exhibit that describes both."""
    return {"other": next(name for name in WORK.tables if name != cell["dataset"])}


def describe_table(prepared: Dealt, other: str) -> Measured:
    """Table 1: rows, columns with the target, percent of the rows in each class (`item`).

    same_value: of each column (`item`), the share of rows in which the table `other` has the same
        value there.
    """
    table, beside = prepared.train, WORK.table(other).frame
    shares = table.frame[table.schema.target].value_counts(normalize=True)
    same = (table.frame.astype(float) == beside.astype(float)[table.frame.columns]).mean()
    values = {("", "n_samples"): len(table), ("", "n_features"): len(table.schema.names)}
    values |= {(str(k), "class_proportion_percent"): 100 * v for k, v in shares.items()}
    return values | {(name, "same_value"): share for name, share in same.items()}


def describe_nodes(prepared: Dealt, forests: int) -> list[Row]:
    """Who sits at each node in one scenario; nothing is trained but forests on real rows.

    n_train, bmi_mean, below_median (share of training rows below the table's median BMI),
    real_share of each BMI (`item`); trained_elsewhere: share of validation rows on which later
    nodes train; acc_real_real: mean of `forests`. Of the whole table (no node): bmi_mean and
    bmi_std.
    """
    bmi, real = prepared.train.frame["BMI"].to_numpy(), standardised_table(prepared.train)
    label, number = is_target(prepared.train), prepared.sizes.rows
    rows: list[Row] = [{"metric": "bmi_mean", "value": bmi.mean()}]
    rows += [{"metric": "bmi_std", "value": bmi.std()}]
    for at, place in enumerate(prepared.nodes, start=1):
        own, judges = bmi[place.training], real[place.validation]
        later = [row for after in prepared.nodes[at:] for row in after.training]
        scores = [accuracy(judges, judges, label, number, seed=seed) for seed in range(forests)]
        values = {("", "n_train"): len(own), ("", "bmi_mean"): own.mean()}
        values["", "below_median"] = (own < np.median(bmi)).mean()
        values["", "trained_elsewhere"] = np.isin(place.validation, later).mean()
        values["", "acc_real_real"] = np.mean(scores)
        for value, count in zip(*np.unique(own, return_counts=True), strict=True):
            values[f"{value:g}", "real_share"] = count / len(own)
        rows += [{"node": str(at), **row} for row in as_rows(values)]
    return [{"n_clients": len(prepared.nodes), **row} for row in rows]


# --- for notebooks ------------------------------------------------------------------------------


def small_statement(seed: int, epsilon: float | None = None) -> dict[str, Any]:
    """Return the privacy statement of a run that is trained now on the table at hand.

    Its nodes share rows, and have the sizes of the profile smoke. What a statement says does not
    depend on rows or sizes, except for the noise. The guarantee of each node is `epsilon`, or none.
    """
    asked = {"tables": WORK.tables[:1], "methods": ["sds"], "seed": seed, "epsilon": epsilon}
    (cell,) = WORK.grid("tab2 and tab3 trainings", "smoke", **asked).cells
    return next(Cell(WORK, "train", **cell | {"table": ""}).made())[1].facts["statement"]
