"""How clients of the CTGAN family agree on one encoding of rows.

Sources: leitner2023, section 4.2.1; Zhao et al. 2021.

Rows come with numbers in [0, 1] and categories as codes. An encoding is one Gaussian mixture for
each numeric column and the categories that occur; the state keeps it as `weights`, `means`,
`deviations` (numbers, modes; weight 0 where a column has fewer modes) and `present` (categories of
all discrete columns, one after the other).
"""

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from fedsynth_lib.core.accounting import gaussian_counts
from fedsynth_lib.core.broadcast import LARGEST, Values, require
from fedsynth_lib.core.contract import Arrays, Charge, Client, Noise, Update
from fedsynth_lib.methods.gan import budget
from fedsynth_lib.methods.gan.budget import HISTOGRAMS, Settings
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.tables import modes
from fedsynth_lib.tables.modes import Mixture

FLOOR = 1e-12  # of variances: a millionth of the declared range
LEAST_WEIGHT = 0.005  # modes with less are left out
CHARGED = {
    "present": "categories that occur",
    "means": "Gaussian mixtures of numeric columns",
    "counts": "frequencies of categories",
}


def numbers_of(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the numeric columns of rows."""
    return rows[:, levels == 0]


def codes_of(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the discrete columns of rows, as codes."""
    return rows[:, levels > 0].astype(np.intp)


def client_encoding(
    client: Client, state: Arrays, config: Settings, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Return a client's part of one encoding round."""
    rows, levels, first = client.rows, state["levels"], "means" not in state
    arrays: Arrays = {}
    if config.encoding != "private":
        arrays |= fitted(numbers_of(rows, levels), state, config, rng)
        if first:
            arrays["present"] = category_counts(codes_of(rows, levels), levels) > 0
    if first and config.weighting == "similarity":
        arrays["counts"] = category_counts(codes_of(rows, levels), levels).astype(float)
    spent = [
        Charge(CHARGED[name], "unprotected")
        for name in arrays
        if name in CHARGED and arrays[name].size
    ]
    if first and budget.histogram_columns(tuple(levels), config):
        counts, charges = _histograms(client, state, config, noise)
        arrays |= counts
        spent += charges
    return Update(arrays, spent=spent)


def server_encoding(
    state: Arrays, updates: Sequence[Update], config: Settings, rng: np.random.Generator
) -> Arrays:
    """Return the state with the clients' contributions to the encoding put together."""
    parts = [update.arrays for update in updates]
    sizes = np.array([update.num_rows for update in updates])
    state = {**state, "round": state["round"] + 1}
    if "present" in parts[0]:
        state["present"] = np.any([part["present"] for part in parts], axis=0)
    if "counts" in parts[0]:
        state["counts"] = consistent(
            np.sum([part["counts"] for part in parts], axis=0), state["levels"], sizes.sum()
        )
    if config.encoding == "private":
        histograms = np.sum([part["histograms"] for part in parts], axis=0)
        spread = np.sqrt(np.sum([part["spread"] ** 2 for part in parts]))
        return {
            **state,
            **stacked([from_histogram(counts, spread, rng) for counts in histograms], config.modes),
        }
    clients = [unstacked(part) for part in parts]  # [client][column]
    if state["round"] < config.encoding_rounds:
        return {
            **state,
            **stacked(
                [modes.average(column) for column in zip(*clients, strict=True)], config.modes
            ),
        }
    if config.encoding == "variational" and len(clients) == 1:
        return {**state, **stacked(clients[0], config.modes)}
    draws = redrawn(clients, sizes, rng)
    mixtures = [variational(np.concatenate(column), config, rng) for column in draws]
    if config.weighting == "similarity":
        state["client_weights"] = similarity_weights(
            sizes, [part["counts"] for part in parts], state["levels"], draws
        )
    return {**state, **stacked(mixtures, config.modes)}


def similarity_weights(
    sizes: np.ndarray,
    counts: Sequence[np.ndarray],
    levels: np.ndarray,
    draws: Sequence[Sequence[np.ndarray]],
) -> np.ndarray:
    """Fed-TGAN's weights of clients, (clients,) with sum 1 (Zhao et al. 2021, section 4.2).

    A client's distance in a column is that of its distribution from all clients': Jensen-Shannon
    for categories (`counts`, one array per client), Wasserstein for numbers (`draws`
    [column][client] from the clients' mixtures). Each column is divided by its sum over clients; a
    client's share of all distances, taken from 1 and times its share of rows, goes through a
    softmax. Columns in which all clients agree say nothing and are left out.
    """
    columns = []
    for own in zip(*(np.split(each, _ends(levels)) for each in counts), strict=True):
        columns.append([jensenshannon(client, np.sum(own, axis=0)) for client in own])
    for own in draws:
        everything = np.concatenate(own)
        span = np.ptp(everything) or 1.0
        columns.append([wasserstein_distance(client / span, everything / span) for client in own])
    # equal distributions: rounding may give nan
    distances = np.nan_to_num(np.array(columns).reshape(-1, len(sizes)))
    sums = distances.sum(axis=1, keepdims=True)
    shares = (distances / np.where(sums > 0, sums, 1)).sum(axis=0)
    scores = (1 - shares / max(shares.sum(), np.finfo(float).tiny)) * sizes / sizes.sum()
    return np.exp(scores) / np.exp(scores).sum()


def layout_of(state: Arrays) -> Layout:
    """Return the layout of an encoded row."""
    present = (
        np.split(state["present"], _ends(state["levels"])) if (state["levels"] > 0).any() else []
    )
    return Layout(
        tuple((state["weights"] > 0).sum(axis=1).tolist()),
        tuple(int(each.sum()) for each in present),
    )


def compact(codes: np.ndarray, state: Arrays) -> np.ndarray:
    """Codes among the categories that are present, (rows, discrete columns)."""
    place = np.cumsum(state["present"]) - 1
    first = _starts(state["levels"])
    return place[codes + first] - (place[first] + 1 - state["present"][first])


def declared(codes: np.ndarray, state: Arrays) -> np.ndarray:
    """Return the declared codes of compact ones; this is the inverse of `compact`."""
    first = _starts(state["levels"])
    before = np.cumsum(state["present"])[first] - state["present"][first]
    return np.flatnonzero(state["present"])[codes + before] - first


def encode_numbers(
    numbers: np.ndarray, state: Arrays, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(mode, distance) of every number, each (rows, numeric columns)."""
    pairs = [
        modes.normalise(values, mixture, rng)
        for values, mixture in zip(numbers.T, unstacked(state), strict=True)
    ]
    chosen, distance = (np.empty(numbers.shape, kind) for kind in (np.int16, np.float32))
    for j, (mode, offset) in enumerate(pairs):
        chosen[:, j], distance[:, j] = mode, offset
    return chosen, distance


def decode_numbers(chosen: np.ndarray, distance: np.ndarray, state: Arrays) -> np.ndarray:
    """Return the numbers that have these modes and distances; they are about in [0, 1]."""
    triples = zip(chosen.T, distance.T, unstacked(state), strict=True)
    return (
        np.stack([modes.restore(*triple) for triple in triples], axis=1)
        if chosen.shape[1]
        else distance
    )


def category_counts(codes: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """How often each category of each discrete column occurs, one after the other."""
    return np.bincount((codes + _starts(levels)).ravel(), minlength=int(levels.sum()))


def bin_counts(numbers: np.ndarray, bins: int) -> np.ndarray:
    """Return how many numbers of each column lie in each bin, one column after the other.

    numbers: (rows, columns) in [0, 1]. A row is in one bin of each column.
    """
    columns = numbers.shape[1]
    cells = np.clip((numbers * bins).astype(np.intp), 0, bins - 1) + bins * np.arange(columns)
    return np.bincount(cells.ravel(), minlength=bins * columns)


def stacked(mixtures: Sequence[Mixture], modes_each: int | None = None) -> Arrays:
    """Mixtures as three arrays (columns, modes), filled up with modes of weight 0."""
    width = modes_each or max((len(mixture.weights) for mixture in mixtures), default=0)
    arrays = {
        name: np.full((len(mixtures), width), fill)
        for name, fill in (("weights", 0.0), ("means", 0.0), ("deviations", 1.0))
    }
    for j, mixture in enumerate(mixtures):
        for name, array in arrays.items():
            array[j, : len(mixture.weights)] = getattr(mixture, name)
    return arrays


def stacked_values(columns: int, modes_each: int) -> dict[str, Values]:
    """Return which arrays a client accepts as the mixtures of so many columns.

    `check_mixtures` checks what these limits do not say.
    """
    shape = (columns, modes_each)
    return {
        "weights": Values(np.float64, shape, 0, 1),
        "means": Values(np.float64, shape, -LARGEST, LARGEST),
        "deviations": Values(np.float64, shape, 1 / LARGEST, LARGEST),
    }


def check_mixtures(arrays: Arrays) -> None:
    """Raise BadBroadcast where a column has no mode."""
    require((arrays["weights"] > 0).any(axis=1).all())


def unstacked(arrays: Arrays) -> list[Mixture]:
    """Return the mixtures that the arrays of a state hold, one for each column."""
    kept = arrays["weights"] > 0
    return [
        Mixture(*(arrays[name][j, keep] for name in ("weights", "means", "deviations")))
        for j, keep in enumerate(kept)
    ]


def fitted(
    numbers: np.ndarray, state: Arrays, config: Settings, rng: np.random.Generator
) -> Arrays:
    """One client's mixtures of its numeric columns, with at most `config.modes` modes each."""
    return stacked([_fit(column, state, j, config, rng) for j, column in enumerate(numbers.T)])


def redrawn(
    clients: Sequence[Sequence[Mixture]], sizes: np.ndarray, rng: np.random.Generator
) -> list:
    """[column][client] as many values as the client has rows, drawn from its mixture."""
    return [
        [mixture.draw(size, rng) for mixture, size in zip(column, sizes, strict=True)]
        for column in zip(*clients, strict=True)
    ]


def _fit(
    values: np.ndarray, state: Arrays, j: int, config: Settings, rng: np.random.Generator
) -> Mixture:
    if config.encoding == "variational":
        return variational(values, config, rng)
    if "means" in state:
        start = unstacked(state)[j]
    else:
        start = modes.start_by_k_means(
            values, config.modes, seed=int(rng.integers(2**31)), floor=FLOOR
        )
    return modes.padded(modes.fit(values, start, floor=FLOOR), config.modes).by_mean()


def variational(values: np.ndarray, config: Settings, rng: np.random.Generator) -> Mixture:
    """Fit a variational mixture with the number of modes in the settings."""
    options = {"least_weight": LEAST_WEIGHT, "floor": FLOOR, "seed": int(rng.integers(2**31))}
    return modes.fit_variational(values, modes=config.modes, **options)


def _histograms(
    client: Client, state: Arrays, config: Settings, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """Return the client's histograms and their charges.

    They count categories and, if the encoding is private, numbers in bins. `noise` adds Gaussian
    noise; without it they are unprotected.

    One more row raises one cell of every counted column by 1, so the L2 sensitivity is the root of
    the number of columns.
    """
    rows, levels = client.rows, state["levels"]
    parts = [category_counts(codes_of(rows, levels), levels).astype(float)]
    numbers, bins = numbers_of(rows, levels), config.histogram_bins
    if config.encoding == "private":
        parts.append(bin_counts(numbers, bins).astype(float))
    counts = np.concatenate(parts)
    if noise is None:
        spent, spread = [Charge(HISTOGRAMS, "unprotected")], 0.0
    else:
        steps = budget.total_steps(noise.multiplier, tuple(levels), client.size, config)
        spent = budget.histogram_charges(
            noise.multiplier, tuple(levels), client.size, config, steps
        )
        counts = gaussian_counts(
            counts, spent[0].noise, l2_sensitivity=spent[0].sensitivity, noise=noise
        )
        spread = spent[0].noise * spent[0].sensitivity
    discrete = int(levels.sum())
    arrays = {"counts": counts[:discrete]}
    if config.encoding == "private":
        arrays["histograms"] = counts[discrete:].reshape(numbers.shape[1], bins)
        arrays["spread"] = np.array(spread)
    return arrays, spent


def from_histogram(counts: np.ndarray, spread: float, rng: np.random.Generator) -> Mixture:
    """Fit a mixture to the middles of bins, weighted by their counts.

    If no bin stands out of the noise, all bins weigh the same.

    No mode is narrower than values spread within a bin.
    """
    kept = coarsened(counts, spread)
    kept = kept if kept.any() else np.ones(len(kept))
    middles, width = (np.arange(len(kept)) + 0.5) / len(kept), 1 / len(kept)
    options = {
        "least_weight": LEAST_WEIGHT,
        "floor": width**2 / 12,
        "seed": int(rng.integers(2**31)),
    }
    return modes.fit_variational(middles[kept > 0], counts=kept[kept > 0], **options)


def coarsened(counts: np.ndarray, spread: float) -> np.ndarray:
    """Return noisy counts of bins, averaged over neighbours until they stand out of the noise.

    spread: standard deviation of the noise on one bin.

    A range is halved as long as its count exceeds 4 deviations of its own noise. A range that stays
    below 2 deviations counts as 0.
    """
    noise = spread * np.sqrt(len(counts))
    if len(counts) > 1 and counts.sum() > 4 * noise:
        halves = np.array_split(counts, 2)
        return np.concatenate([coarsened(half, spread) for half in halves])
    return np.full(len(counts), counts.mean() if counts.sum() > 2 * noise else 0.0)


def consistent(counts: np.ndarray, levels: np.ndarray, num_rows: int) -> np.ndarray:
    """Return noisy counts of categories, non-negative and with the sum `num_rows` in each column.

    The number of rows is public.

    These are the nearest such counts: the same amount is taken from all counts of a column, and
    what falls below 0 becomes 0.
    """
    columns = []
    for own in np.split(counts, _ends(levels)) if counts.size else []:
        falling = np.sort(own)[::-1]
        excess = (np.cumsum(falling) - num_rows) / np.arange(1, len(own) + 1)
        columns.append(np.maximum(own - excess[np.flatnonzero(falling > excess)[-1]], 0))
    return np.concatenate(columns) if columns else counts


def _starts(levels: np.ndarray) -> np.ndarray:
    """Where each discrete column begins among all categories."""
    discrete = levels[levels > 0]
    return np.cumsum(discrete) - discrete


def _ends(levels: np.ndarray) -> np.ndarray:
    """Where to cut an array of all categories into columns."""
    return np.cumsum(levels[levels > 0])[:-1]
