"""What the teaching notebook of FinDiff needs: a few columns of any table, the space of the
diffusion, walks in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import norm
from torch import Tensor

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import Arrays, BadInput, Domain, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.figures.labels import short
from fedsynth_lib.figures.style import BLACK, FULL_WIDTH, GREY
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.methods.diffusion.diffusion import Schedule
from fedsynth_lib.methods.diffusion.network import Network
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.gan.budget import rate
from fedsynth_lib.methods.gan.encoding import codes_of, numbers_of
from fedsynth_lib.methods.vae_bgm import quantile_map
from fedsynth_lib.metrics import anonymity
from fedsynth_lib.metrics.similarity import fidelity
from fedsynth_lib.metrics.utility import five_classifiers
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.teaching.lessons import summed_gradient

FEW = {"adult": ("age", "hours-per-week", "marital-status", "occupation", "sex", "income")}
NUMBERS, CATEGORIES, MOST_LEVELS = 2, 3, 12  # what is taken of other tables
MARKERS, SHADES = ".x+", 7


def few_columns(dataset: str, columns: Sequence[str], rows: int, seed: int) -> Table:
    """At most `rows` rows in random order, with a few columns, of a registered table or a file with
    schema beside it.

    columns: their names. Empty: `FEW`, else the first two numeric columns, the first three
    categorical ones of at most twelve categories, and the target.
    """
    beside = {"schema": Path(dataset).with_suffix(".toml")} if Path(dataset).suffix else {}
    table = load_table(dataset, **beside)
    names = columns or FEW.get(dataset) or _first(table.schema)
    chosen = {table.schema[str(name)].name for name in names}
    schema = table.schema.drop([name for name in table.schema.names if name not in chosen])
    if not schema.numeric or not schema.categorical:
        raise BadInput(
            f"{dataset}: columns {', '.join(schema.names)}; name one numeric and one "
            "categorical at least."
        )
    order = stream(seed, "rows").permutation(len(table))[:rows]
    frame = table.frame[list(schema.names)].iloc[order].reset_index(drop=True)
    return Table(table.key, frame, schema, table.data)


def _first(schema: Schema) -> list[str]:
    others = [name for name in schema.categorical if name != schema.target]
    short = [name for name in others if len(schema[name].categories) <= MOST_LEVELS]
    target = [schema.target] if schema.target else []
    return [*schema.numeric[:NUMBERS], *short[:CATEGORIES], *target]


def parted(table: Table, rows: int) -> tuple[Table, Table, Table, Table]:
    """(train, many, control, strangers): `rows` rows at most to learn from, which are the first of
    many; and rows that nobody learns from, twice."""
    spare = min(rows, len(table) // 4)
    places = np.split(np.arange(len(table)), [spare, 2 * spare])
    control, strangers, many = map(table.take, places)
    return many.take(np.arange(min(rows, len(many)))), many, control, strangers


def owners(table: Table, num_clients: int, seed: int) -> Parts:
    """Rows of each client: whole categories of the first column that has enough, as in the work;
    else at random."""
    for name in table.schema.categorical:
        if table.frame[name].nunique() >= num_clients:
            return split_clients(table, "by_column", num_clients, seed=seed, column=name)
    return split_clients(table, "iid", num_clients, seed=seed)


def coordinates(schema: Schema, config: findiff.Config) -> list[str]:
    """Names of the numbers that a row consists of in the space of the diffusion."""
    places = product(schema.categorical, range(config.embedding))
    points = [f"{name} (point, {place + 1})" for name, place in places]
    return [f"{name} (normal score)" for name in schema.numeric] + points


def points(state: Arrays, table: Table, config: findiff.Config) -> Tensor:
    """The table's rows in the space of the diffusion (rows, width), by the maps and embeddings of a
    state."""
    rows, levels = UnitRange(table.schema).transform(table.frame), state["levels"]
    scores = quantile_map.scores(numbers_of(rows, levels), state["quantiles"])
    scores = torch.from_numpy(scores.astype(np.float32))
    codes = torch.from_numpy(codes_of(rows, levels).astype(np.int64))
    with torch.no_grad():
        return findiff.trained(state, config).vectors(scores, codes)


def rows_at(vectors: Tensor, state: Arrays, schema: Schema, config: findiff.Config) -> pd.DataFrame:
    """The way back: numbers through their maps, the category whose embedding lies nearest."""
    levels = state["levels"]
    columns, rows = int((levels == 0).sum()), np.empty((len(vectors), len(levels)))
    rows[:, levels == 0] = quantile_map.numbers(vectors[:, :columns].numpy(), state["quantiles"])
    rows[:, levels > 0] = findiff.trained(state, config).nearest(vectors[:, columns:]).numpy()
    return UnitRange(schema).inverse(rows, np.random.default_rng(0))  # draws nothing


def nearest_cells(embedding: Tensor, side: Tensor) -> Tensor:
    """The category whose point of `embedding` (levels, 2) lies nearest, on the grid of `side`
    upwards and sideways."""
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1)
    return torch.cdist(grid.reshape(-1, 2), embedding).argmin(dim=1).reshape(len(side), len(side))


def walk(
    state: Arrays,
    num_rows: int,
    config: findiff.Config,
    *,
    at: Iterable[int],
    rng: np.random.Generator,
) -> dict[int, Tensor]:
    """Pure noise (num_rows, width) on its way back, by the number of steps that are left to go:
    those of `at`, and 0.

    The rows at 0 are those that `findiff.sample` decodes with the same generator.
    """
    wanted, seen = set(at), {}

    def predict(rows: Tensor, times: Tensor) -> Tensor:
        left = int(times[0]) + 1
        if left in wanted:
            seen[left] = rows
        return network.denoiser(rows, times)

    with weights.seeded(rng, torch.device("cpu")), torch.no_grad():
        network = findiff.trained(state, config)  # here, since an untrained network draws, too
        noise = torch.randn(num_rows, network.denoiser.head.out_features)
        seen[0] = config.schedule.denoised(noise, predict)
    return seen


def errors_by_step(
    network: Network, vectors: Tensor, schedule: Schedule, *, at: Iterable[int], seed: int
) -> dict[int, float]:
    """Mean squared error of the noise predicted in rows (rows, width) at each of the steps `at`; 1
    for a guess of 0."""
    found = {}
    with weights.seeded(stream(seed, "errors"), torch.device("cpu")), torch.no_grad():
        for step in at:
            times, noise = torch.full((len(vectors),), step), torch.randn_like(vectors)
            predicted = network.denoiser(schedule.noised(vectors, times, noise), times)
            found[step] = float((noise - predicted).square().mean())
    return found


def draw_space(state: Arrays, table: Table, config: findiff.Config, seed: int) -> Figure:
    """The first numeric column, its normal scores, and the plane of the first category's points
    with its cells.

    The line over the column are standard normal draws on their way back through the column's map.
    """
    shape = {"figsize": (FULL_WIDTH, 2.6), "width_ratios": (1, 1, 1.4)}
    fig, (left, middle, right) = plt.subplots(1, 3, **shape)
    number, kind = table.schema[table.schema.numeric[0]], table.schema[table.schema.categorical[0]]
    values, line = table.frame[number.name].to_numpy(float), state["quantiles"][:1]
    normal = stream(seed, "normal").normal(size=(len(table), 1))
    drawn = number.low + (number.high - number.low) * quantile_map.numbers(normal, line)[:, 0]
    _, edges, _ = left.hist(values, bins=30, color=GREY, alpha=0.6, label="real")
    left.hist(drawn, bins=edges, histtype="step", color=BLACK, label="from normal draws")
    places = (values[:, None] - number.low) / (number.high - number.low)
    scores, look = quantile_map.scores(places, line)[:, 0], {"color": GREY, "alpha": 0.6}
    middle.hist(scores, bins=60, range=(-6, 6), density=True, label="normal scores", **look)
    x = np.linspace(-6, 6, 200)
    middle.plot(x, norm.pdf(x), color=BLACK, label="normal density")
    spots = findiff.trained(state, config).embeddings[0].weight.detach().T
    side = torch.linspace(-3.5, 3.5, 350)
    shades = (nearest_cells(spots, side) % SHADES).numpy()
    greys = {"cmap": "Greys", "vmin": -1, "vmax": 2 * SHADES, "rasterized": True}
    right.pcolormesh(side.numpy(), side.numpy(), shades, **greys)
    right.plot(*spots.T.numpy(), "k.")
    for name, spot in list(zip(kind.categories, spots.tolist(), strict=True))[:MOST_LEVELS]:
        # names outwards
        shift, begin = (-4, "right") if spot[0] < spots[:, 0].median() else (4, "left")
        look = {"textcoords": "offset points", "ha": begin, "va": "center", "fontsize": 6}
        right.annotate(short(name), spot, (shift, 0), **look)
    left.set(title="a column", xlabel=short(number.name), ylabel="rows")
    middle.set(title="through its quantile map", xlabel="normal score", ylabel="density")
    words = {"xlabel": "first number", "ylabel": "second number"}
    right.set(title=f"embeddings of {short(kind.name)}", **words)
    for ax in (left, middle):
        ax.set_ylim(top=1.35 * ax.get_ylim()[1])
        ax.legend(loc="upper right")
    return fig


def draw_noise(lengths: Mapping[str, Tensor], clip: float, noises: pd.DataFrame) -> Figure:
    """Shares of rows with gradients up to a length, a line for each network; and noise multipliers
    by steps (the index), a line for each column, with dots from the third on."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL_WIDTH, 2.6))
    for (name, own), line in zip(lengths.items(), ("--", "-"), strict=True):
        left.ecdf(own.numpy(), color="k", linestyle=line, label=name)
    left.axvline(clip, color=GREY, label="C")
    left.set(xscale="log", xlabel="length of a row's gradient", ylabel="share of rows")
    dots = {"markevery": range(2, len(noises)), "markersize": 3}
    for name, line in zip(noises, (":", "--", "-"), strict=True):
        right.plot(noises.index, noises[name], f"k{line}o", label=name, **dots)
    words = {"xlabel": "steps of a client: rounds × local updates"}
    right.set(xscale="log", yscale="log", ylabel="noise multiplier σ", **words)
    left.legend(), right.legend()
    return fig


def widest(schema: Schema, vectors: Tensor, config: findiff.Config) -> int:
    """Which coordinate of the first category's embedding tells rows (rows, width) apart best."""
    first = len(schema.numeric)
    return first + int(vectors[:, first : first + config.embedding].std(dim=0).argmax())


def draw_walk(
    moments: Mapping[str, Tensor], labels: pd.Series, names: Sequence[str], *, upwards: int
) -> Figure:
    """The rows of each of `moments` (rows, width), a panel each: the first coordinate across,
    another one upwards.

    labels: of the rows; of each of the three most frequent at most 200 rows are drawn. names: of
        the coordinates.
    """
    shape = {"figsize": (FULL_WIDTH, 2.2), "sharex": True, "sharey": True, "squeeze": False}
    fig, axes = plt.subplots(1, len(moments), **shape)
    for ax, (title, rows) in zip(axes[0], moments.items(), strict=True):
        for label, marker in zip(labels.value_counts().index[:3], MARKERS, strict=False):
            own = rows[(labels == label).to_numpy()][:200].numpy()
            look = {"markersize": 2.5, "alpha": 0.6, "label": short(label)}
            ax.plot(own[:, 0], own[:, upwards], marker, **look)
        ax.set(title=title, xlim=(-5.5, 5.5), ylim=(-4, 4))
    axes[0, 0].set(ylabel=short(names[upwards]))
    axes[0, len(moments) // 2].set(xlabel=short(names[0]))
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, markerscale=2)
    return fig


def gradient_lengths(network: Network, vectors: Tensor, schedule: Schedule, *, seed: int) -> Tensor:
    """Euclidean lengths of the gradients of single rows, (rows,), as private training sees them
    before it clips."""
    with weights.seeded(stream(seed, "lengths"), torch.device("cpu")):
        losses = partial(network.losses, schedule=schedule)
        return summed_gradient(network.denoiser, losses, vectors, clip=1.0)[1]


def multipliers(
    rows: int, updates: Sequence[int], batch: int, budgets: Iterable[Privacy]
) -> pd.DataFrame:
    """The noise multiplier that a client of so many rows needs for all its local updates (the
    index), a column for each budget; nothing else is released."""
    one = findiff.Config(training_rounds=1, batch=batch, encoding="declared")
    plans, domain = [replace(one, local_updates=number) for number in updates], Domain(("x",), (0,))
    found = pd.DataFrame(index=updates)
    for each in budgets:
        noises = [settings.noise_for(findiff, domain, [rows], plan, each) for plan in plans]
        found[f"ε = {each.epsilon:g}"] = noises
    return found


def bills(
    sizes: Sequence[int], domain: Domain, config: findiff.Config, privacy: Privacy
) -> pd.DataFrame:
    """A line for each client of so many rows: its rate, its noise multiplier, and epsilon after two
    mistakes.

    The mistakes: to take the multiplier of the largest client; to make ten times the local updates
    with one's own.
    """
    largest = settings.noise_for(findiff, domain, [max(sizes)], config, privacy)
    longer, lines = replace(config, local_updates=10 * config.local_updates), []
    for rows in sizes:
        own = settings.noise_for(findiff, domain, [rows], config, privacy)
        plans = findiff.plan(largest, domain, rows, config), findiff.plan(own, domain, rows, longer)
        spent = [epsilon_of(charges, privacy.delta) for charges in plans]
        lines.append([rows, rate(rows, config), own, *spent])
    names = ["rows", "rate", "σ", "ε with the largest's σ", "ε with 10 × updates"]
    return pd.DataFrame(lines, columns=names).rename_axis(index="client")


def upper_ends(
    train: Table, column: Column, encodings: Iterable[str], config: findiff.Config, **options: Any
) -> pd.DataFrame:
    """The upper end of the first numeric column's map, by encoding: of the lower nine tenths of the
    rows, and once the row with the largest value has entered. options: of `settings.federated`."""
    values, tops = train.frame[column.name], {}
    usual = np.flatnonzero(values <= values.quantile(0.9))
    entered = {"without": usual, "with": np.union1d(usual, [values.argmax()])}
    for encoding, (who, part) in product(encodings, entered.items()):
        brief = replace(config, encoding=encoding, training_rounds=1, local_updates=1)
        run = settings.federated(findiff, train, [part], config=brief, num_rows=1, **options)
        end = run.state["quantiles"][0, -1]
        tops[encoding, who] = column.low + (column.high - column.low) * end
    return pd.Series(tops).unstack(sort=False)


def first_look(
    train: Table, control: Table, tables: Mapping[str, pd.DataFrame], *, attacks: int, seed: int
) -> pd.DataFrame:
    """A line for each of `tables`: fidelity to `train`; mean accuracy on `control` of five
    classifiers, if the target is categorical; residual risks of `train`'s rows with `control` as
    those that nobody trained on, and their mean.
    """
    lines = {}
    for name, frame in tables.items():
        lines[name] = fidelity(train.frame, frame, train.schema)
        if train.schema.target in train.schema.categorical:
            scores = five_classifiers(frame, control.frame, train.schema, seed=seed)
            lines[name]["accuracy"] = scores["accuracy"]
        tables = (train.frame, control.frame, frame, train.schema)
        found = anonymity.risks(*tables, seed=seed, attacks=attacks)
        kinds = ("singling_out", "linkability", "inference", "risk")
        lines[name] |= {kind: found[kind] for kind in kinds}
    return pd.DataFrame(lines).T.rename(columns=lambda name: name.replace("_", " "))
