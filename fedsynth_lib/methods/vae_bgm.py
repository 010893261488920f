"""VAE-BGM over nodes that share synthetic rows (SDS), weights (FedAvg) or nothing (Apellaniz et al. 2025).

What crosses the wire. SDS: after each round every sender's synthetic rows, up, and down to all others. FedAvg: in each
round the parameters of the networks, up and down. After the last round, in all techniques, every node's generator:
decoder, latent mixture and mean log-variances, of which `sample` draws in proportion to the nodes' rows (a node that
wants its own table alone keeps its generator; see `drawn`). Before the first round, unless `moments` are held to be
public, the sums that numeric columns are standardised with.

Nothing of that is protected: as published there is no noise, and rows drawn from a network trained on a person's record
are a release about that person. With `clip` the networks train by DP-SGD and the mixture is fitted to noisy statistics
(see `private_mixture`); rows and generators are then post-processing, and epsilon is each node's own over all rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from fedsynth_lib.dp_sgd import Tape, poisson_batches
from fedsynth_lib.encode import UnitRange
from fedsynth_lib.interface import Arrays, BadInput, Charge, Client, Domain, Noise, Update
from fedsynth_lib.methods import weights
from fedsynth_lib.methods.latent_mixture import Mixture, fit
from fedsynth_lib.methods.law_vae import LawVae
from fedsynth_lib.methods.private_mixture import SENSITIVITY, private_mixture
from fedsynth_lib.privacy import gaussian
from fedsynth_lib.schema import Schema

VERSION = 1
MOMENTS = "sums and sums of squares of numeric columns"
GRADIENTS = "gradients of encoder and decoder"
MIXTURE = "sums of latent means in every component"
ROWS = "synthetic rows of networks trained without noise"
PARAMETERS = "parameters of networks trained without noise"
GENERATOR = "decoder and latent mixture of networks trained without noise"
SPLIT_SEED, SPLIT = 0, 0.2  # of the rows that decide when to stop, as published
BETAS = (0.9, 0.9)  # of Adam, likewise
AT_ONCE, IN_MEMORY = 10_000, 1000  # rows decoded together, and rows judged together
CPU = torch.device("cpu")  # networks of this size train no faster elsewhere


@dataclass(frozen=True)
class Config:
    """Defaults: what apellaniz2025 used (sections 3.2.2 and 3.3, and its public code).

    technique: 'isolated' is one round of all epochs and shares nothing.
    networks: trained beside each other in every node, whose rows are mixed (the work: 3, and 1 for FedAvg).
    patience: epochs without a better loss on a fifth of the rows after which a round ends; None: no such fifth.
    most_rows: a node trains on its own rows and, up to this many, on received ones.
    shared_rows: synthetic rows that each network of a sender shares. senders: 'all' nodes, or the one with most rows
        (the first of those with as many).
    common_start: whether FedAvg begins with the same weights in all nodes (in the work's code each has its own).
    components, starts: of the Dirichlet-process mixture of latent means.
    moments: mean and standard deviation of every numeric column as places in its declared range, held to be public;
        None: found out together, or, in isolated nodes, by each alone.
    clip: norm to which a row's gradient is cut in private training, which stops for no loss; None: no privacy.
    radius, mixture_steps: of the private mixture (`private_mixture`), which has `components` diagonal components.
    mixture_share, moments_share: of the budget, roughly, for the mixtures and the moments.
    """

    technique: Literal["isolated", "fedavg", "sds"] = "sds"
    training_rounds: int = 5
    local_epochs: int = 200
    networks: int = 3
    batch: int = 1024
    hidden: int = 256
    latent: int = 20
    dropout: float = 0.2
    learning_rate: float = 1e-3
    patience: int | None = 100
    most_rows: int = 10_000
    shared_rows: int = 9_500
    senders: Literal["all", "largest"] = "all"
    common_start: bool = True
    components: int = 20
    starts: int = 10
    moments: tuple[tuple[float, float], ...] | None = None
    clip: float | None = None
    radius: float = 5.0
    mixture_steps: int = 4
    mixture_share: float = 0.2
    moments_share: float = 0.02

    def __post_init__(self):
        least = ("training_rounds", "local_epochs", "networks", "batch", "hidden", "latent", "most_rows", "shared_rows")
        for name in (*least, "components", "starts"):
            if getattr(self, name) < 1:
                raise BadInput(f"VAE-BGM: {name} is {getattr(self, name)}; give at least 1.")
        if not 0 <= self.dropout < 1:
            raise BadInput(f"VAE-BGM: dropout is {self.dropout}; give a share from 0 up to (not including) 1.")
        if self.technique not in ("isolated", "fedavg", "sds"):
            raise BadInput(f"VAE-BGM: technique {self.technique!r} is unknown; choose isolated, fedavg or sds.")
        if self.senders not in ("all", "largest"):
            raise BadInput(f"VAE-BGM: senders {self.senders!r} is unknown; choose all or largest.")
        if self.clip is not None and not self.clip > 0:
            raise BadInput(f"VAE-BGM: clip is {self.clip}; give a norm above 0, or None for no privacy.")
        if min(self.mixture_share, self.moments_share) <= 0 or self.mixture_share + self.moments_share >= 1:
            raise BadInput("VAE-BGM: mixture_share and moments_share must be above 0 and leave some of the budget.")

    @property
    def private(self) -> bool:
        return self.clip is not None

    @property
    def first(self) -> int:
        """The number of the first round of training."""
        return int(self.moments is None and self.technique != "isolated")

    @property
    def rounds(self) -> int:
        return self.first + (1 if self.technique == "isolated" else self.training_rounds)

    @property
    def epochs(self) -> int:
        """Of one round."""
        return self.local_epochs * (self.training_rounds if self.technique == "isolated" else 1)


def encoder(schema: Schema, config: Config) -> UnitRange:
    return UnitRange(schema)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Moments, all private steps of all networks, and their mixtures. Raises BadInput without `clip`."""
    if not config.private:
        raise BadInput("vaebgm adds no noise: ask for no epsilon, or give clip (dpvaebgm has one).")
    releases = _releases(noise_multiplier, domain.levels.count(0), num_rows, config)
    trainings = config.rounds - config.first
    fits = trainings if config.technique == "sds" else 1
    charges = [releases.moments] if releases.moments else []
    return [*charges, *[releases.gradients] * trainings, *[releases.mixture] * fits]


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """The levels of columns, 0 for numbers, and untrained networks that all nodes begin with (FedAvg)."""
    levels = np.array(domain.levels)
    state = {"levels": levels, "round": np.array(0)}
    if config.moments is not None:
        if len(config.moments) != int((levels == 0).sum()):
            raise BadInput(f"VAE-BGM: {len(config.moments)} moments for {(levels == 0).sum()} numeric columns.")
        state["moments"] = np.array(config.moments, float).reshape(-1, 2)
    if config.technique == "fedavg" and config.common_start:
        with weights.seeded(rng, CPU):
            state |= _flat(_untrained(levels, config))
    return state


def broadcast(state: Arrays, config: Config) -> Arrays:
    """Everything but the generators, which no node needs."""
    return {name: values for name, values in state.items() if not name.startswith("generator/")}


def client_step(state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator) -> Update:
    """Sums of the columns, or a round of training and what the technique shares after it."""
    levels, number, own = state["levels"], int(state["round"]), len(client.rows)
    releases = _releases(noise.multiplier if noise else 0.0, int((levels == 0).sum()), own, config)
    if number < config.first:
        spent = [releases.moments] if noise and releases.moments else [Charge(MOMENTS, "unprotected")]
        return Update({"sums": _sums(client.rows, levels, releases, noise)}, num_rows=own, spent=spent)
    spent = []
    if "moments" in state:
        client.memory["moments"] = state["moments"]
    elif "moments" not in client.memory:  # an isolated node's own
        spent = [releases.moments] if noise and releases.moments else []
        client.memory["moments"] = _moments(_sums(client.rows, levels, releases, noise))
    rows = standardised(client.rows, levels, client.memory["moments"])
    rows = np.concatenate([rows, _received(state, client.index, config.most_rows - own, rng)])
    with weights.seeded(rng, CPU):
        if "network/0" in state:
            client.memory |= {name: state[name] for name in state if name.startswith("network/")}
        elif "network/0" not in client.memory:
            client.memory |= _flat(_untrained(levels, config))
        networks = _loaded(client.memory, levels, config)
        fitted = _train_all(networks, rows, own, config, noise, rng)
        client.memory |= _flat(networks)
        spent += [releases.gradients] if noise else []
        last, arrays = number == config.rounds - 1, {}
        if config.technique == "fedavg":
            arrays |= _flat(networks)
            spent += [] if noise else [Charge(PARAMETERS, "unprotected")]
        if config.technique == "sds" or last:
            mixtures = [_latent(network, fitted, releases, config, noise, rng) for network in networks]
            spent += [releases.mixture] if noise else [Charge(GENERATOR if last else ROWS, "unprotected")]
            if last:
                arrays |= {"moments": client.memory["moments"], "decoders": _decoders(networks)}
                arrays |= {name: np.stack(each) for name, each in zip(LATENT, zip(*mixtures, strict=True), strict=True)}
            else:
                drawn = [_draw(n, m, config.shared_rows, rng) for n, m in zip(networks, mixtures, strict=True)]
                arrays["rows"] = rng.permutation(np.concatenate(drawn))
    return Update(arrays, num_rows=own, spent=spent)


def server_step(
    state: Arrays, updates: list[Update], config: Config, noise: Noise | None, rng: np.random.Generator
) -> tuple[Arrays, list[Charge]]:
    """Moments from all sums; then averaged networks (FedAvg), or the senders' rows; at last the generators."""
    number = int(state["round"])
    kept = {name: values for name, values in state.items() if not name.startswith("rows/")}
    kept["round"] = np.array(number + 1)
    if number < config.first:
        return {**kept, "moments": _moments(np.sum([update.arrays["sums"] for update in updates], axis=0))}, []
    sizes = np.array([update.num_rows for update in updates], float)
    if config.technique == "fedavg":
        shares = (sizes / sizes.sum()).astype(np.float32)
        for name in (name for name in updates[0].arrays if name.startswith("network/")):
            kept[name] = sum(share * update.arrays[name] for share, update in zip(shares, updates, strict=True))
    if number == config.rounds - 1:
        for update in updates:
            kept |= {
                f"generator/{update.client}/{name}": update.arrays[name] for name in ("decoders", "moments", *LATENT)
            }
        order = np.argsort([update.client for update in updates])
        return {**kept, "sizes": sizes[order], "nodes": np.array([update.client for update in updates])[order]}, []
    if config.technique == "sds":
        senders = [updates[int(sizes.argmax())]] if config.senders == "largest" else updates
        kept |= {f"rows/{update.client}": update.arrays["rows"] for update in senders}
    return kept, []


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Rows (num_rows, columns) of all nodes' generators, as many of each as it has real rows in proportion."""
    counts = rng.multinomial(num_rows, state["sizes"] / state["sizes"].sum())
    parts = [
        places(
            drawn(state, int(node), int(count), config, rng), state["levels"], _generator(state, int(node))["moments"]
        )
        for node, count in zip(state["nodes"], counts, strict=True)
    ]
    rows = rng.permutation(np.concatenate(parts))
    return rows if (state["levels"] == 0).any() else rows.astype(np.int32)


def drawn(state: Arrays, node: int, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Rows (num_rows, columns) of one node's generator as its networks draw them, in equal parts and mixed.

    Numbers are standardised by the node's moments, and neither whole nor within their declared range.
    """
    own, levels = _generator(state, node), state["levels"]
    networks = _untrained(levels, config)
    for network, values in zip(networks, own["decoders"], strict=True):
        _load_decoder(network, values)
    shares = np.diff(np.arange(len(networks) + 1) * num_rows // len(networks))
    mixtures = [Latent(*(own[name][k] for name in LATENT)) for k in range(len(networks))]
    with weights.seeded(rng, CPU):
        parts = [_draw(*each, rng) for each in zip(networks, mixtures, shares, strict=True)]
    return rng.permutation(np.concatenate(parts)).astype(float)


def standardised(rows: np.ndarray, levels: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Float32 rows with numeric columns less their mean, over their standard deviation; codes as they are.

    rows: places in the declared range, and codes. moments: (numeric columns, 2), mean and deviation of such places.
    """
    rows = np.array(rows, float)
    rows[:, levels == 0] = (rows[:, levels == 0] - moments[:, 0]) / moments[:, 1]
    return rows.astype(np.float32)


def places(rows: np.ndarray, levels: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """The inverse of `standardised`, cut to the declared range."""
    rows = np.array(rows, float)
    rows[:, levels == 0] = np.clip(rows[:, levels == 0] * moments[:, 1] + moments[:, 0], 0, 1)
    return rows


class Latent(NamedTuple):
    """A network's mixture of latent means, and the one log-variance that all its draws share."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    log_variances: np.ndarray


LATENT = Latent._fields


class _Releases(NamedTuple):
    """The charges of one round."""

    moments: Charge | None
    gradients: Charge
    mixture: Charge


def _releases(noise_multiplier: float, numeric: int, num_rows: int, config: Config) -> _Releases:
    """What a node with so many rows releases in a round; the same for the promise and for the run.

    Each network is trained and fitted on the same rows, hence all count. In zCDP a plain Gaussian release costs
    1 / (2 h^2), and `steps` sampled ones about steps rate^2 / (2 sigma^2), of which the shares are taken.
    """
    rate = _rate(num_rows, config)
    steps = _steps(num_rows, config) * config.networks
    trainings = config.rounds - config.first
    fits = (trainings if config.technique == "sds" else 1) * config.networks * config.mixture_steps
    left = 1 - config.mixture_share - config.moments_share
    per_release = noise_multiplier / rate * np.sqrt(left / (steps * trainings))
    mixture = float(per_release * np.sqrt(fits / config.mixture_share))
    moments = float(per_release / np.sqrt(config.moments_share))
    asked = numeric > 0 and config.moments is None
    return _Releases(
        Charge(MOMENTS, "gaussian", moments, float(np.sqrt(1 + 2 * numeric))) if asked else None,
        Charge(GRADIENTS, "gaussian", noise_multiplier, config.clip or 0.0, rate=rate, times=steps),
        Charge(MIXTURE, "gaussian", mixture, SENSITIVITY, times=config.networks * config.mixture_steps),
    )


def _rate(num_rows: int, config: Config) -> float:
    """Probability of a row to be in a private batch; received rows, which cost nothing, come by the same coin."""
    return min(1.0, config.batch / num_rows)


def _steps(num_rows: int, config: Config) -> int:
    """Private steps of one network in one round."""
    return max(1, num_rows // config.batch) * config.epochs


def _sums(rows: np.ndarray, levels: np.ndarray, releases: _Releases, noise: Noise | None) -> np.ndarray:
    """Number of rows, sums and sums of squares of numeric columns, flat.

    A row adds 1, and of each column a place between 0 and 1 and its square: an L2 distance of sqrt(1 + 2 columns).
    """
    numbers = rows[:, levels == 0].astype(float)
    sums = np.concatenate([[len(rows)], numbers.sum(axis=0), (numbers**2).sum(axis=0)])
    if noise is None or releases.moments is None:
        return sums
    charge = releases.moments
    return gaussian(sums, noise_multiplier=charge.noise, l2_sensitivity=charge.sensitivity, rng=noise.rng)


def _moments(sums: np.ndarray) -> np.ndarray:
    """(numeric columns, 2): mean and standard deviation, from what `_sums` gives; never degenerate."""
    columns = len(sums) // 2
    means, squares = np.clip(np.split(sums[1:] / max(sums[0], 1.0), 2), 0, 1).reshape(2, columns)
    return np.stack([means, np.sqrt(np.maximum(squares - means**2, 1e-4))], axis=1)


def _received(state: Arrays, index: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Up to `most` rows that other nodes have shared, in random order."""
    others = [state[name] for name in sorted(state) if name.startswith("rows/") and name != f"rows/{index}"]
    if not others or most <= 0:
        return np.empty((0, len(state["levels"])), np.float32)
    return rng.permutation(np.concatenate(others))[:most]


def _untrained(levels: np.ndarray, config: Config) -> list[LawVae]:
    return [LawVae(levels, config.hidden, config.latent, config.dropout) for _ in range(config.networks)]


def _flat(networks: Sequence[LawVae]) -> Arrays:
    return {f"network/{k}": weights.flat(network) for k, network in enumerate(networks)}


def _loaded(arrays: Arrays, levels: np.ndarray, config: Config) -> list[LawVae]:
    networks = _untrained(levels, config)
    for k, network in enumerate(networks):
        weights.load(network, arrays[f"network/{k}"])
    return networks


def _decoders(networks: Sequence[LawVae]) -> np.ndarray:
    """(networks, parameters), of inner and outer layer."""
    return np.stack([np.concatenate([weights.flat(n.inner), weights.flat(n.outer)]) for n in networks])


def _load_decoder(network: LawVae, values: np.ndarray) -> None:
    cut = weights.flat(network.inner).size
    weights.load(network.inner, values[:cut])
    weights.load(network.outer, values[cut:])


def _generator(state: Arrays, node: int) -> Arrays:
    start = f"generator/{node}/"
    return {name.removeprefix(start): values for name, values in state.items() if name.startswith(start)}


def _train_all(
    networks: Sequence[LawVae],
    rows: np.ndarray,
    own: int,
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """A round of all networks; returns the rows that mixtures are fitted to. own: how many rows are the node's own."""
    if noise is not None:
        for network in networks:
            _train_privately(network, torch.from_numpy(rows), own, config, noise, rng)
        return rows[:own]
    training, stopping = rows, rows[:0]
    if config.patience is not None and len(rows) > 1:
        training, stopping = train_test_split(rows, test_size=SPLIT, random_state=SPLIT_SEED)
    for network in networks:
        _train(network, torch.from_numpy(training), torch.from_numpy(stopping), config, rng)
    return training


def _train(network: LawVae, training: torch.Tensor, stopping: torch.Tensor, config: Config, rng: np.random.Generator):
    """Epochs of batches in fixed order, as published, until the loss of the `stopping` rows improves no more.

    That loss is taken after every step, as published; the last weights stay (in the published code the best ones
    are kept by reference, hence are the last ones too).
    """
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate, betas=BETAS, fused=True)
    lowest, since = np.inf, 0
    for _ in range(config.epochs):
        total = 0.0
        for batch in training.split(config.batch):
            network.train()
            optimiser.zero_grad(set_to_none=True)
            network.losses(batch, kept=_kept(len(batch), config, rng)).mean().backward()
            optimiser.step()
            if len(stopping):
                network.eval()
                with torch.no_grad():  # in small parts, whose memory is used anew
                    total += sum(network.losses(part).sum().item() for part in stopping.split(IN_MEMORY))
        since = 0 if total < lowest else since + 1
        lowest = min(lowest, total)
        if len(stopping) and since >= config.patience:
            break


def _train_privately(
    network: LawVae, rows: torch.Tensor, own: int, config: Config, noise: Noise, rng: np.random.Generator
) -> None:
    """DP-SGD on the node's own rows (the first ones) and those it received, which are no secret of its own."""
    network.train()
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate, betas=BETAS, fused=True)
    rate, coins = _rate(own, config), torch.Generator().manual_seed(int(noise.rng.integers(2**63)))
    for batch in poisson_batches(len(rows), rate, _steps(own, config), rng=noise.rng):
        with Tape(network) as tape:
            losses = network.losses(rows[torch.from_numpy(batch)], kept=_kept(len(batch), config, rng))
            tape.backward(
                losses,
                num_records=len(losses),
                clip=config.clip,
                noise_multiplier=noise.multiplier,
                expected_records=rate * len(rows),
                generator=coins,
            )
        optimiser.step()


def _kept(rows: int, config: Config, rng: np.random.Generator) -> torch.Tensor:
    """Dropout's factors (rows, hidden): 0, or 1 / (1 - dropout). Torch draws its coins 20 times as slowly."""
    coins = np.frombuffer(rng.bytes(2 * rows * config.hidden), np.uint16).reshape(rows, config.hidden)
    kept = torch.from_numpy((coins >= round(config.dropout * 2**16)).view(np.uint8)).float()
    return kept.mul_(1 / (1 - config.dropout))


def _latent(
    network: LawVae,
    rows: np.ndarray,
    releases: _Releases,
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> Latent:
    """The mixture of the rows' latent means. Without noise: those of the rows trained with."""
    network.eval()
    with torch.no_grad():
        means, log_variances = (each.numpy().astype(float) for each in network.encode(torch.from_numpy(rows)))
    if noise is None:
        seed = int(rng.integers(2**31))
        mixture = fit(means, components=config.components, starts=config.starts, seed=seed)
        return Latent(*mixture, log_variances.mean(axis=0))
    mixture, average = private_mixture(
        means,
        log_variances,
        components=config.components,
        steps=config.mixture_steps,
        radius=config.radius,
        noise_multiplier=releases.mixture.noise,
        noise=noise.rng,
        rng=rng,
    )
    return Latent(*mixture, average)


def _draw(network: LawVae, latent: Latent, num_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Float32 rows: a latent mean from the mixture, noise of the common variance, and a draw from the decoded laws."""
    network.eval()
    vectors = Mixture(*latent[:3]).sample(num_rows, rng)
    vectors = vectors + np.exp(0.5 * latent.log_variances) * rng.normal(size=vectors.shape)
    parts = [network.draw(part) for part in torch.from_numpy(vectors.astype(np.float32)).split(AT_ONCE)]
    return torch.cat(parts).numpy() if parts else np.empty((0, len(network.order)), np.float32)
