"""VAE-BGM over nodes that share synthetic rows (SDS), weights (FedAvg) or nothing.

Source: Apellaniz et al. 2025.

What crosses the wire. SDS: after each round every sender's synthetic rows, up, and down to all
others. FedAvg: in each round the parameters of the networks, up and down. After the last round, in
all techniques, every node's generator: decoder, latent mixture and mean log-variances, of which
`sample` draws in proportion to the nodes' rows (a node that wants its own table alone keeps its
generator; see `drawn`). Before the first round, unless `moments` are held to be public, the sums
that numeric columns are standardised with.

Nothing of that is protected: as published there is no noise, and rows drawn from a network trained
on a person's record are a release about that person. With `clip` the networks train by DP-SGD and
the mixture is fitted to noisy statistics (see `private_mixture`); rows and generators are then
post-processing, and epsilon is each node's own over all rounds.
"""

from collections.abc import Sequence

import numpy as np
import torch

from fedsynth_lib.core.accounting import gaussian, gaussian_counts
from fedsynth_lib.core.broadcast import Values, check_arrays, require
from fedsynth_lib.core.contract import (
    Arrays,
    BadInput,
    Charge,
    Client,
    Domain,
    Noise,
    Update,
)
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.vae_bgm.budget import (
    GIVEN,
    MOMENTS,
    Config,
    Releases,
    releases_of,
)
from fedsynth_lib.methods.vae_bgm.training import (
    LATENT,
    Latent,
    decoders,
    draw,
    flat,
    latent_of,
    load_decoder,
    loaded,
    train_all,
    untrained,
)
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.schema import Schema

VERSION = 1
OWN_NOISE = True
ADVERSARY = (
    "whoever sees the synthetic rows, the generators, or anything that crosses the wire: the "
    "server and the other nodes, who may all work together"
)
ROWS = "synthetic rows of networks trained without noise"
PARAMETERS = "parameters of networks trained without noise"
GENERATOR = "decoder and latent mixture of networks trained without noise"
LEAST_DEVIATION = 0.01  # of a column, in parts of its declared range
GRAIN = 2**20  # parts of a declared range that noisy sums count in
CPU = torch.device("cpu")  # networks of this size train no faster elsewhere


def encoder(schema: Schema, config: Config) -> UnitRange:
    """Return the encoder: places in the declared range for numbers, codes for categories."""
    return UnitRange(schema)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of the moments, of all private steps of all networks, and of the mixtures.

    Raises BadInput without `clip`.
    """
    if not config.private:
        raise BadInput("vaebgm adds no noise: ask for no epsilon, or give clip (dpvaebgm has one).")
    releases = releases_of(noise_multiplier, domain.levels.count(0), num_rows, config)
    trainings = config.rounds - config.first
    fits = trainings if config.technique == "sds" else 1
    charges = [releases.moments] if releases.moments else []
    return [*charges, *[releases.gradients] * trainings, *[releases.mixture] * fits]


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the first state: the levels of columns, and what the settings give all nodes.

    A numeric column has the level 0. The settings may give public moments and, in FedAvg, untrained
    networks that all nodes begin with.
    """
    levels = np.array(domain.levels)
    state = {"levels": levels, "round": np.array(0)}
    if config.moments is not None:
        if len(config.moments) != int((levels == 0).sum()):
            raise BadInput(
                f"VAE-BGM: {len(config.moments)} moments for {(levels == 0).sum()} numeric columns."
            )
        state["moments"] = np.array(config.moments, float).reshape(-1, 2)
    if config.technique == "fedavg" and config.common_start:
        with weights.seeded(rng, CPU):
            state |= flat(untrained(levels, config))
    return state


def broadcast(state: Arrays, config: Config) -> Arrays:
    """Everything but the generators, which no node needs."""
    return {name: values for name, values in state.items() if not name.startswith("generator/")}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check the moments, and what the technique shared in earlier rounds.

    Moments must be of places in the declared ranges. Networks (FedAvg) must have the size that the
    declared columns make. Rows (SDS) must have these columns, and codes of declared categories.
    """
    numbers, later = domain.levels.count(0), round > config.first
    own = start(domain, config, np.random.default_rng(0))
    expected: dict[str, np.ndarray | Values] = {**own, "round": np.array(round)}
    if config.moments is None and round >= config.first > 0:
        expected["moments"] = Values(np.float64, (numbers, 2), 0, 1)
    if config.technique == "fedavg" and (later or config.common_start):
        network = Values(np.float32, (_size(domain.levels, config),), finite=False)
        expected |= {f"network/{k}": network for k in range(config.networks)}
    senders = [name for name in state if name.startswith("rows/")]
    if config.technique == "sds" and later:
        shape = (config.networks * config.shared_rows, len(domain.names))
        expected |= {name: Values(np.float32, shape, finite=False) for name in senders}
    check_arrays(state, expected)
    require(round < config.rounds)
    discrete = own["levels"] > 0
    for name in senders:  # no code that a network cannot look up
        codes = state[name][:, discrete]
        within = (codes >= 0) & (codes < own["levels"][discrete]) & (codes == np.floor(codes))
        require(within.all())
    if "moments" in expected:
        require((state["moments"][:, 1] >= LEAST_DEVIATION).all())


def _size(levels: tuple[int, ...], config: Config) -> int:
    """Parameters of one network."""
    with weights.seeded(np.random.default_rng(0), CPU):
        return weights.size_of(untrained(np.array(levels), config)[0])


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Return sums of the columns; or train for a round, and return what the technique shares."""
    levels, number, own = state["levels"], int(state["round"]), len(client.rows)
    releases = releases_of(
        noise.multiplier if noise else 0.0, int((levels == 0).sum()), client.size, config
    )
    if number < config.first:
        spent = _of_moments(releases, noise, levels)
        return Update({"sums": _sums(client.rows, levels, releases, noise)}, spent=spent)
    spent = [Charge(GIVEN, "public")] if number == 0 and config.moments else []
    if "moments" in state:
        client.memory["moments"] = state["moments"]
    elif "moments" not in client.memory:  # an isolated node's own
        spent = _of_moments(releases, noise, levels)  # they leave with the generator
        client.memory["moments"] = _moments(_sums(client.rows, levels, releases, noise))
    rows = standardised(client.rows, levels, client.memory["moments"])
    rows = np.concatenate(
        [rows, _received(state, client.index, config.most_rows - client.size, rng)]
    )
    with weights.seeded(rng, CPU, secret=bool(noise and noise.secret)):
        if "network/0" in state:
            client.memory |= {name: state[name] for name in state if name.startswith("network/")}
        elif "network/0" not in client.memory:
            client.memory |= flat(untrained(levels, config))
        networks = loaded(client.memory, levels, config)
        fitted = train_all(networks, rows, own, config, noise, rng, size=client.size)
        client.memory |= flat(networks)
        spent += [releases.gradients] if noise else []
        last, arrays = number == config.rounds - 1, {}
        if config.technique == "fedavg":
            arrays |= flat(networks)
            spent += [] if noise else [Charge(PARAMETERS, "unprotected")]
        if config.technique == "sds" or last:
            mixtures = [
                latent_of(network, fitted, releases, config, noise, rng) for network in networks
            ]
            spent += (
                [releases.mixture]
                if noise
                else [Charge(GENERATOR if last else ROWS, "unprotected")]
            )
            if last:
                arrays |= {"moments": client.memory["moments"], "decoders": decoders(networks)}
                arrays |= {
                    name: np.stack(each)
                    for name, each in zip(LATENT, zip(*mixtures, strict=True), strict=True)
                }
            else:
                drawn = [
                    draw(n, m, config.shared_rows, rng)
                    for n, m in zip(networks, mixtures, strict=True)
                ]
                arrays["rows"] = rng.permutation(np.concatenate(drawn))
    return Update(arrays, spent=spent)


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Compute moments from the sums, or put together what the nodes shared in a round.

    FedAvg averages the networks, and SDS passes the senders' rows on. In the last round the server
    keeps every node's generator.
    """
    number = int(state["round"])
    kept = {name: values for name, values in state.items() if not name.startswith("rows/")}
    kept["round"] = np.array(number + 1)
    if number < config.first:
        return {
            **kept,
            "moments": _moments(np.sum([update.arrays["sums"] for update in updates], axis=0)),
        }, []
    sizes = np.array([update.num_rows for update in updates], float)
    if config.technique == "fedavg":
        for name in (name for name in updates[0].arrays if name.startswith("network/")):
            kept[name] = weights.averaged(updates, name)
    if number == config.rounds - 1:
        for update in updates:
            kept |= {
                f"generator/{update.client}/{name}": update.arrays[name]
                for name in ("decoders", "moments", *LATENT)
            }
        order = np.argsort([update.client for update in updates])
        return {
            **kept,
            "sizes": sizes[order],
            "nodes": np.array([update.client for update in updates])[order],
        }, []
    if config.technique == "sds":
        senders = [updates[int(sizes.argmax())]] if config.senders == "largest" else updates
        kept |= {f"rows/{update.client}": update.arrays["rows"] for update in senders}
    return kept, []


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Draw rows (num_rows, columns) from the generators of all nodes.

    A row comes from a node with a probability in proportion to the node's number of real rows.
    """
    counts = rng.multinomial(num_rows, state["sizes"] / state["sizes"].sum())
    parts = [
        places(
            drawn(state, int(node), int(count), config, rng),
            state["levels"],
            _generator(state, int(node))["moments"],
        )
        for node, count in zip(state["nodes"], counts, strict=True)
    ]
    rows = rng.permutation(np.concatenate(parts))
    return rows if (state["levels"] == 0).any() else rows.astype(np.int32)


def drawn(
    state: Arrays, node: int, num_rows: int, config: Config, rng: np.random.Generator
) -> np.ndarray:
    """Draw rows (num_rows, columns) from one node's generator, in the scale of its networks.

    Each network draws an equal part, and the parts are mixed.

    Numbers are standardised by the node's moments, and neither whole nor within their declared
    range.
    """
    own, levels = _generator(state, node), state["levels"]
    shares = np.diff(np.arange(config.networks + 1) * num_rows // config.networks)
    mixtures = [Latent(*(own[name][k] for name in LATENT)) for k in range(config.networks)]
    with weights.seeded(np.random.default_rng(), CPU):  # starting weights are replaced
        networks = untrained(levels, config)
    for network, values in zip(networks, own["decoders"], strict=True):
        load_decoder(network, values)
    with weights.seeded(rng, CPU):
        parts = [draw(*each, rng) for each in zip(networks, mixtures, shares, strict=True)]
    return rng.permutation(np.concatenate(parts)).astype(float)


def standardised(rows: np.ndarray, levels: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return float32 rows with standardised numeric columns.

    The mean is subtracted from each number, and the rest is divided by the standard deviation.
    Codes stay as they are.

    rows: places in the declared range, and codes. moments: (numeric columns, 2), mean and deviation
        of such places.
    """
    rows = np.array(rows, float)
    rows[:, levels == 0] = (rows[:, levels == 0] - moments[:, 0]) / moments[:, 1]
    return rows.astype(np.float32)


def places(rows: np.ndarray, levels: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Undo `standardised`, and cut numbers to the declared range."""
    rows = np.array(rows, float)
    rows[:, levels == 0] = np.clip(rows[:, levels == 0] * moments[:, 1] + moments[:, 0], 0, 1)
    return rows


def _sums(
    rows: np.ndarray, levels: np.ndarray, releases: Releases, noise: Noise | None
) -> np.ndarray:
    """Return the number of rows, and the sums and sums of squares of numeric columns, flat.

    A row adds 1, and of each column a place between 0 and 1 and its square: an L2 distance of
    sqrt(1 + 2 columns). With noise that is rounded, places and squares are whole multiples of 1 /
    GRAIN: sums of reals would leave a trace in the low bits of floating-point noise.
    """
    numbers, charge = rows[:, levels == 0].astype(float), releases.moments
    if not numbers.shape[1]:
        # nothing to standardise, and the true number of rows is nobody's business
        return np.zeros(1)
    parts = [np.ones((len(rows), 1)), numbers, numbers**2]
    if noise is None or charge is None:
        return _totals(parts)
    noise_of = {"noise_multiplier": charge.noise, "l2_sensitivity": charge.sensitivity}
    if not noise.whole:
        return gaussian(_totals(parts), **noise_of, rng=noise.rng)
    noise_of["l2_sensitivity"] = GRAIN * charge.sensitivity
    return (
        gaussian_counts(_totals([np.rint(GRAIN * part) for part in parts]), **noise_of, noise=noise)
        / GRAIN
    )


def _totals(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([part.sum(axis=0) for part in parts])


def _of_moments(releases: Releases, noise: Noise | None, levels: np.ndarray) -> list[Charge]:
    """Return the charges of the sums; without numeric columns there are none."""
    if noise and releases.moments:
        return [releases.moments]
    return [Charge(MOMENTS, "unprotected")] if (levels == 0).any() else []


def _moments(sums: np.ndarray) -> np.ndarray:
    """Return mean and standard deviation, (numeric columns, 2), from what `_sums` gives.

    A standard deviation is at least LEAST_DEVIATION.
    """
    columns = len(sums) // 2
    means, squares = np.clip(np.split(sums[1:] / max(sums[0], 1.0), 2), 0, 1).reshape(2, columns)
    return np.stack([means, np.sqrt(np.maximum(squares - means**2, LEAST_DEVIATION**2))], axis=1)


def _received(state: Arrays, index: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Up to `most` rows that other nodes have shared, in random order."""
    others = [
        state[name]
        for name in sorted(state)
        if name.startswith("rows/") and name != f"rows/{index}"
    ]
    if not others or most <= 0:
        return np.empty((0, len(state["levels"])), np.float32)
    return rng.permutation(np.concatenate(others))[:most]


def _generator(state: Arrays, node: int) -> Arrays:
    start = f"generator/{node}/"
    return {
        name.removeprefix(start): values for name, values in state.items() if name.startswith(start)
    }
