"""What the teaching notebook of FinDiff needs.

It loads a few columns of any table, draws the space of the diffusion, and walks in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

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
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.schema import Schema

FEW = {"adult": ("age", "hours-per-week", "marital-status", "occupation", "sex", "income")}
NUMBERS, CATEGORIES, MOST_LEVELS = 2, 3, 12  # what is taken of other tables
MARKERS = ".x+"


def few_columns(dataset: str, columns: Sequence[str], rows: int, seed: int) -> Table:
    """Load at most `rows` rows in random order, with a few columns.

    The table is a registered one, or a file with its schema beside it.

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


def owners(table: Table, num_clients: int, seed: int) -> Parts:
    """Return the rows of each client.

    As in the work, a client has whole categories of the first column that has enough of them. Where
    no column has, rows are dealt at random.
    """
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
    """Return the table's rows in the space of the diffusion (rows, width).

    The maps and embeddings of the state place them there.
    """
    rows, levels = UnitRange(table.schema).transform(table.frame), state["levels"]
    scores = quantile_map.scores(numbers_of(rows, levels), state["quantiles"])
    scores = torch.from_numpy(scores.astype(np.float32))
    codes = torch.from_numpy(codes_of(rows, levels).astype(np.int64))
    with torch.no_grad():
        return findiff.trained(state, config).vectors(scores, codes)


def rows_at(vectors: Tensor, state: Arrays, schema: Schema, config: findiff.Config) -> pd.DataFrame:
    """Decode points: numbers through their maps, the category whose embedding lies nearest."""
    levels = state["levels"]
    columns, rows = int((levels == 0).sum()), np.empty((len(vectors), len(levels)))
    rows[:, levels == 0] = quantile_map.numbers(vectors[:, :columns].numpy(), state["quantiles"])
    rows[:, levels > 0] = findiff.trained(state, config).nearest(vectors[:, columns:]).numpy()
    return UnitRange(schema).inverse(rows, np.random.default_rng(0))  # draws nothing


def walk(
    state: Arrays,
    num_rows: int,
    config: findiff.Config,
    *,
    at: Iterable[int],
    rng: np.random.Generator,
) -> dict[int, Tensor]:
    """Walk pure noise (num_rows, width) back to rows, and return what is met on the way.

    The keys are the numbers of steps that are left: those of `at`, and 0.

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
    """Return the mean squared error of the predicted noise at each of the steps `at`.

    vectors: (rows, width). A guess of 0 has an error of about 1.
    """
    found = {}
    with weights.seeded(stream(seed, "errors"), torch.device("cpu")), torch.no_grad():
        for step in at:
            times, noise = torch.full((len(vectors),), step), torch.randn_like(vectors)
            predicted = network.denoiser(schedule.noised(vectors, times, noise), times)
            found[step] = float((noise - predicted).square().mean())
    return found


def draw_space(state: Arrays, table: Table, config: findiff.Config, seed: int) -> Figure:
    """Draw the first numeric column, its normal scores, and the first category's points.

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


def draw_walk(
    moments: Mapping[str, Tensor], labels: pd.Series, names: Sequence[str], *, upwards: int
) -> Figure:
    """Draw the rows of each of `moments` (rows, width), a panel each.

    The first coordinate is across, another one upwards.

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


def bills(
    sizes: Sequence[int], domain: Domain, config: findiff.Config, privacy: Privacy
) -> pd.DataFrame:
    """Return a line for each client of so many rows: its noise, and what two mistakes cost.

    A line has the client's sampling rate, its noise multiplier, and its epsilon after each of two
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
