"""How a node of VAE-BGM trains its networks, fits their latent mixtures, and draws rows of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from fedsynth_lib.core.contract import Arrays, Noise
from fedsynth_lib.core.dp_sgd import Tape, noise_generator, poisson_batches
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.vae_bgm.budget import Config, Releases, rate, steps
from fedsynth_lib.methods.vae_bgm.latent_mixture import Mixture, fit
from fedsynth_lib.methods.vae_bgm.likelihood_vae import LikelihoodVae
from fedsynth_lib.methods.vae_bgm.private_mixture import private_mixture

SPLIT_SEED, SPLIT = 0, 0.2  # of the rows that decide when to stop, as published
BETAS = (0.9, 0.9)  # of Adam, likewise
AT_ONCE, IN_MEMORY = 10_000, 1000  # rows decoded together, and rows judged together


class Latent(NamedTuple):
    """A network's mixture of latent means, and the one log-variance that all its draws share."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    log_variances: np.ndarray


LATENT = Latent._fields


def untrained(levels: np.ndarray, config: Config) -> list[LikelihoodVae]:
    """Return as many untrained networks as the settings say."""
    sizes = (config.hidden, config.latent, config.dropout, config.steepest)
    return [LikelihoodVae(levels, *sizes) for _ in range(config.networks)]


def flat(networks: Sequence[LikelihoodVae]) -> Arrays:
    """Return the parameters of the networks as flat arrays, by name."""
    return {f"network/{k}": weights.flat(network) for k, network in enumerate(networks)}


def loaded(arrays: Arrays, levels: np.ndarray, config: Config) -> list[LikelihoodVae]:
    """Return networks with these parameters."""
    networks = untrained(levels, config)
    for k, network in enumerate(networks):
        weights.load(network, arrays[f"network/{k}"])
    return networks


def decoders(networks: Sequence[LikelihoodVae]) -> np.ndarray:
    """(networks, parameters), of inner and outer layer."""
    return np.stack(
        [np.concatenate([weights.flat(n.inner), weights.flat(n.outer)]) for n in networks]
    )


def load_decoder(network: LikelihoodVae, values: np.ndarray) -> None:
    """Set the parameters of a network's decoder."""
    cut = weights.flat(network.inner).size
    weights.load(network.inner, values[:cut])
    weights.load(network.outer, values[cut:])


def train_all(
    networks: Sequence[LikelihoodVae],
    rows: np.ndarray,
    own: int,
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
    *,
    size: int | None = None,
) -> np.ndarray:
    """Train all networks for a round; return the rows that mixtures are fitted to.

    own: how many rows are the node's own. size: how many it declares to have; None: as many.
    """
    if noise is not None:
        sizes = (own if size is None else size, len(rows) - own)
        for network in networks:
            _train_privately(network, torch.from_numpy(rows), sizes, config, noise, rng)
        return rows[:own]
    training, stopping = rows, rows[:0]
    if config.patience is not None and len(rows) > 2:
        training, stopping = train_test_split(rows, test_size=SPLIT, random_state=SPLIT_SEED)
    for network in networks:
        _train(network, torch.from_numpy(training), torch.from_numpy(stopping), config, rng)
    return training


def _train(
    network: LikelihoodVae,
    training: torch.Tensor,
    stopping: torch.Tensor,
    config: Config,
    rng: np.random.Generator,
):
    """Train for epochs of batches in fixed order until the `stopping` loss improves no more.

    As published, the loss of the `stopping` rows is taken after every step, and the last weights
    stay (in the published code the best ones are kept by reference, hence are the last ones too).
    """
    optimiser = torch.optim.Adam(
        network.parameters(), lr=config.learning_rate, betas=BETAS, fused=True
    )
    lowest, since = np.inf, 0
    network.eval()  # the loss that decides is without dropout
    for _ in range(config.epochs):
        total = 0.0
        for batch in training.split(config.batch):
            optimiser.zero_grad()
            network.losses(batch, kept=_kept(len(batch), config, rng)).mean().backward()
            optimiser.step()
            with torch.no_grad():
                judged = stopping.split(IN_MEMORY) if len(stopping) else ()
                total += sum(network.losses(part).sum().item() for part in judged)
        since = 0 if total < lowest else since + 1
        lowest = min(lowest, total)
        if len(stopping) and since >= config.patience:
            break


def _train_privately(
    network: LikelihoodVae,
    rows: torch.Tensor,
    sizes: tuple[int, int],
    config: Config,
    noise: Noise,
    rng: np.random.Generator,
) -> None:
    """DP-SGD on the node's own rows and those it received, which are no secret of its own.

    sizes: how many of its own are declared, and how many were received.
    """
    own, received = sizes
    network.train()
    optimiser = torch.optim.Adam(
        network.parameters(), lr=config.learning_rate, betas=BETAS, fused=True
    )
    share, generator = rate(own, config), noise_generator(noise)
    for batch in poisson_batches(len(rows), share, steps(own, config), rng=noise.rng):
        with Tape(network) as tape:
            losses = network.losses(
                rows[torch.from_numpy(batch)], kept=_kept(len(batch), config, rng)
            )
            tape.backward(
                losses,
                num_records=len(losses),
                clip=config.clip,
                noise_multiplier=noise.multiplier,
                expected_records=share * (own + received),
                generator=generator,
            )
        optimiser.step()


def _kept(rows: int, config: Config, rng: np.random.Generator) -> torch.Tensor:
    """Draw dropout's factors (rows, hidden): 0, or 1 / (1 - dropout).

    Torch takes 20 times as long to draw them.
    """
    uniform = np.frombuffer(rng.bytes(2 * rows * config.hidden), np.uint16).reshape(
        rows, config.hidden
    )
    kept = torch.from_numpy((uniform >= round(config.dropout * 2**16)).view(np.uint8)).float()
    return kept.mul_(1 / (1 - config.dropout))


def latent_of(
    network: LikelihoodVae,
    rows: np.ndarray,
    releases: Releases,
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> Latent:
    """Return the mixture of the latent means of `rows`, and their mean log-variances.

    rows: those that `train_all` returned. With noise both come from `private_mixture`.
    """
    network.eval()
    with torch.no_grad():
        means, log_variances = (
            each.numpy().astype(float) for each in network.encode(torch.from_numpy(rows))
        )
    if noise is None:
        seed = int(rng.integers(2**31))
        mixture = fit(means, components=config.components, starts=config.starts, seed=seed)
        return Latent(*mixture, log_variances.mean(axis=0))
    # with parameters from a server that lies a row may overflow: it counts, and shows nothing
    means, log_variances = np.nan_to_num(means), np.nan_to_num(log_variances)
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


def draw(
    network: LikelihoodVae, latent: Latent, num_rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw float32 rows from a network and its latent mixture.

    A row starts as a latent mean from the mixture. Noise of the common variance is added to it, and
    the row is drawn from the output distributions.
    """
    network.eval()
    vectors = Mixture(*latent[:3]).sample(num_rows, rng)
    vectors = vectors + np.exp(0.5 * latent.log_variances) * rng.normal(size=vectors.shape)
    parts = [
        network.draw(part) for part in torch.from_numpy(vectors.astype(np.float32)).split(AT_ONCE)
    ]
    return torch.cat(parts).numpy() if parts else np.empty((0, len(network.order)), np.float32)
