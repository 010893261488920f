"""What the teaching notebook of VAE-BGM needs.

It makes patients, draws one node's rows, and measures how alike two tables are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.special import rel_entr
from scipy.stats import multivariate_normal, wilcoxon

from fedsynth_lib.core.contract import Arrays, Method, Run, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.figures.style import BLACK, FULL_WIDTH, GREY
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.methods.vae_bgm.latent_mixture import Mixture
from fedsynth_lib.methods.vae_bgm.likelihood_vae import LikelihoodVae
from fedsynth_lib.methods.vae_bgm.training import LATENT, Latent, loaded
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.divergence import Sizes, jensen_shannon
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works.apellaniz_nodes import moments_of

COLUMNS = (
    Column("age", "numeric", 18, 100, integer=True),  # years
    Column("BMI", "numeric", 12, 60, integer=True),
    Column("pressure", "numeric", 80, 200, integer=True),  # mmHg
    Column("smokes", "categorical", categories=("no", "yes")),
    Column("diabetes", "categorical", categories=("none", "type 1", "type 2")),
    Column("health", "categorical", categories=("good", "fair", "poor")),
)


def patients(num_rows: int, seed: int, without: tuple[str, ...] = ()) -> Table:
    """Make patients of three kinds, whose age and BMI differ.

    Pressure and health follow from the other columns.
    """
    rng = stream(seed, "patients")
    kind = rng.choice(3, num_rows, p=[0.62, 0.08, 0.30])
    smokes = rng.random(num_rows) < np.array([0.25, 0.40, 0.10])[kind]
    age = rng.normal(np.array([44, 26, 70])[kind], np.array([10, 4, 7])[kind])
    bmi = rng.normal(np.array([25, 20, 36])[kind], np.array([2.5, 1.5, 3.5])[kind])
    pressure = 95 + 0.45 * age + 0.7 * (bmi - 25) + rng.normal(0, 9, num_rows)
    burden = (age - 50) / 15 + (bmi - 27) / 5 + 1.5 * smokes + rng.normal(0, 0.7, num_rows)
    values, frame = [age, bmi, pressure, smokes, kind, np.searchsorted([0.0, 1.8], burden)], {}
    for column, own in zip(COLUMNS, values, strict=True):
        if column.kind == "numeric":
            frame[column.name] = own.round().clip(column.low, column.high).astype(np.int64)
        else:
            frame[column.name] = pd.Categorical.from_codes(own.astype(int), list(column.categories))
    schema = Schema(COLUMNS, target="diabetes").drop(without)
    return Table("patients", pd.DataFrame(frame)[list(schema.names)], schema, "own")


def trained(state: Arrays, config: vae_bgm.Config) -> tuple[LikelihoodVae, Latent]:
    """Return the first network of a finished FedAvg run, and the mixture of its first node.

    The network is in evaluation mode, and its weights need no gradient.
    """
    network = loaded(state, state["levels"], config)[0].eval().requires_grad_(False)
    return network, Latent(*(state[f"generator/0/{name}"][0] for name in LATENT))


def decoded(
    network: LikelihoodVae, latent: Latent | None, num_rows: int, table: Table, seed: int
) -> tuple[np.ndarray, pd.DataFrame]:
    """Draw latent vectors (num_rows, latent) of the mixture, and a frame from them.

    Where `latent` is None, the vectors are from the standard normal prior.
    """
    rng = stream(seed, "decoded")
    vectors = rng.normal(size=(num_rows, network.latent))
    if latent:
        middles = Mixture(*latent[:3]).sample(num_rows, rng)
        vectors = middles + np.exp(0.5 * latent.log_variances) * vectors
    with weights.seeded(rng, vae_bgm.CPU):
        rows = network.draw(torch.from_numpy(vectors.astype(np.float32))).numpy()
    encoder, moments = UnitRange(table.schema), np.array(moments_of(table))
    places = vae_bgm.places(rows, np.array(encoder.domain.levels), moments)
    return vectors, encoder.inverse(places, rng)


def outline(mean: np.ndarray, covariance: np.ndarray, deviations: float = 2.0) -> np.ndarray:
    """Return a closed line (101, 2) around a normal distribution of two columns.

    The line is so many standard deviations from the mean.
    """
    angles = np.linspace(0, 2 * np.pi, 101)[:, None]
    circle = np.hstack([np.cos(angles), np.sin(angles)])
    return mean + deviations * circle @ np.linalg.cholesky(covariance).T


def draw_latent(
    points: Mapping[str, np.ndarray], tables: Mapping[str, pd.DataFrame], latent: Latent
) -> Figure:
    """Draw latent points above and patients below, a panel for each title.

    Lines around the first points show the components with a weight above 0.02, at two standard
    deviations.
    """
    size = {"figsize": (FULL_WIDTH, 4.8), "sharex": "row", "sharey": "row"}
    fig, axes = plt.subplots(2, len(points), **size)
    for (upper, lower), (name, table) in zip(axes.T, tables.items(), strict=True):
        upper.plot(*points[name].T, ".", color=GREY, markersize=1.5)
        for kind, marker in zip(table["diabetes"].cat.categories, ".x+", strict=True):
            own = table[table["diabetes"] == kind].head(300)
            look = {"markersize": 2.5, "alpha": 0.7, "label": f"diabetes: {kind}"}
            lower.plot(own["age"], own["BMI"], marker, **look)
        ends = {"xlim": (-4, 4), "ylim": (-4, 4)}
        upper.set(title=f"latent numbers: {name}", xlabel="first", ylabel="second", **ends)
        lower.set(title=f"patients: {name}", xlabel="age (years)", ylabel="BMI (kg/m²)")
    for weight, *component in zip(*latent[:3], strict=True):
        axes[0, 0].plot(*outline(*component).T, color=BLACK, visible=weight > 0.02)
    above = {"loc": "outside upper center", "ncols": 3, "markerscale": 2}
    fig.legend(*lower.get_legend_handles_labels(), **above)
    return fig


def node_rows(
    state: Arrays, node: int, num_rows: int, config: vae_bgm.Config, seed: int
) -> np.ndarray:
    """Return what a finished run's node makes (rows, columns), as its networks draw it.

    Numbers are places in declared ranges, categories are codes.
    """
    rows = vae_bgm.drawn(state, node, num_rows, config, stream(seed, "node", node))
    return vae_bgm.places(rows, state["levels"], state[f"generator/{node}/moments"])


def standard(rows: np.ndarray | pd.DataFrame, table: Table) -> np.ndarray:
    """Standardise the numeric columns of a frame, or of places and codes.

    The mean and the deviation are those of `table`. Codes stay as they are.
    """
    encoder = UnitRange(table.schema)
    rows = encoder.transform(rows) if isinstance(rows, pd.DataFrame) else rows
    return vae_bgm.standardised(rows, np.array(encoder.domain.levels), np.array(moments_of(table)))


def hospitals(
    name: str,
    method: Method | ModuleType,
    config: Any,
    owners: Sequence[np.ndarray],
    *,
    table: Table,
    unseen: Table,
    sizes: Sizes,
    seeds: Iterable[int],
    **options: Any,
) -> tuple[Run, list[tuple[str, int, float]]]:
    """Run a federation of hospitals with the rows `owners` of `table`, once for each seed.

    Returns the last run, and a line for each hospital and seed: name, its patients, D_JS of its
    rows from `unseen` patients. options: of `settings.federated`.
    """
    lines = []
    for seed in seeds:
        asked = {"config": config, "seed": seed, "num_rows": 1, **options}
        run = settings.federated(method, table, owners, **asked)
        for node, part in enumerate(owners):
            made = node_rows(run.state, node, sizes.rows, config, seed)
            lines.append((name, len(part), divergence(unseen, made, sizes=sizes, seed=seed)))
    return run, lines


def divergence(real: Table, made: np.ndarray | pd.DataFrame, *, sizes: Sizes, seed: int) -> float:
    """Estimate D_JS in bits, by a network, of `real` and of a frame or places.

    Places are rounded first.
    """
    if not isinstance(made, pd.DataFrame):
        made = UnitRange(real.schema).inverse(made, stream(seed, "unused"))
    both = standard(real.frame, real), standard(made, real)
    return jensen_shannon(*both, seed=seed, sizes=sizes).bits


def normal_divergence(
    shift: float, correlation: float, *, sizes: Sizes | None = None, seed: int = 0
) -> float:
    """Return D_JS in bits between two independent normal columns and two correlated ones.

    The first of the correlated columns is moved by `shift`. D_JS is exact, by integration, or with
    `sizes` as a network estimates it.
    """
    moved = multivariate_normal([shift, 0], [[1, correlation], [correlation, 1]])
    distributions = [multivariate_normal([0, 0]), moved]
    if sizes is not None:
        rng = stream(seed, "normal")
        rows = (each.rvs(sizes.rows, random_state=rng) for each in distributions)
        return jensen_shannon(*rows, seed=seed, sizes=sizes).bits
    side = np.linspace(-10, 10 + shift, 401)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1)
    density = [each.pdf(grid) for each in distributions]
    nats = sum(rel_entr(2 * each, sum(density)) for each in density).sum() / 4
    return float(nats * (side[1] - side[0]) ** 2 / np.log(2))


def draw_judge(sizes: Sizes, seed: int) -> Figure:
    """Draw the estimates of `normal_divergence`, and lines for the exact values.

    One panel is by the distance of the means, where two crosses are estimates from 50 rows to learn
    and 25 to estimate. The other is by the number of rows learned from.
    """
    few = replace(sizes, training=50, evaluation=25)
    fig, axes = plt.subplots(1, 2, figsize=(7, 2.6), sharey=True)
    shifts, learned = (0, 2, 4), (20, 100, sizes.training)
    cases = [(0, x, x, 0.0, each) for x in shifts for each in (few, sizes)]
    cases += [(1, n, 0.0, 0.8, replace(sizes, training=n)) for n in learned]
    for panel, x, *pair, judge in cases:
        for k in range(1 if judge is sizes else 2):
            bits = normal_divergence(*pair, sizes=judge, seed=seed + k)
            axes[panel].plot(x, bits, "C3x" if judge is few else "C0o", alpha=0.6)
    x = np.arange(0, 4.2, 0.2)
    axes[0].plot(x, [normal_divergence(each, 0.0) for each in x], color=BLACK)
    axes[1].axhline(normal_divergence(0.0, 0.8), color=BLACK)
    axes[0].set(title="one column moved", xlabel="distance of the means (deviations)")
    axes[0].set_ylabel("$D_{JS}$ (bits)", parse_math=True)
    words = {"xlabel": "rows learned from, of each table", "xscale": "log"}
    axes[1].set(title="columns correlated in one table", **words)
    axes[1].set_xticks(learned, learned)
    axes[1].minorticks_off()
    return fig


def distances(own: Table, made: dict[str, np.ndarray | pd.DataFrame]) -> pd.DataFrame:
    """Return distances to the nearest of `own`'s rows, a line for each table made.

    The first line has the distances of `own`'s rows to each other.

    copies: share at distance 0. p: Wilcoxon's test that the rows made, as many, lie farther away
        than own rows do.
    """
    real = standard(own.frame, own)
    # the nearest is the row itself
    found = {"own rows, to each other": nearest(real, real, 2)[0][:, 1]}
    found |= {name: nearest(standard(rows, own), real, 1)[0][:, 0] for name, rows in made.items()}
    table = pd.DataFrame(found).agg(["median", "min", lambda each: (each == 0).mean()]).T
    among = found.pop("own rows, to each other")
    p = {name: wilcoxon(each, among, alternative="greater").pvalue for name, each in found.items()}
    table = table.set_axis(["median", "smallest", "copies"], axis=1)
    return table.join(pd.Series(p, name="p", dtype=float))
