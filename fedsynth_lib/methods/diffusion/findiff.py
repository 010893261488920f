"""FinDiff over clients, private or not: tabular diffusion.

Sources: Sattarov et al. 2023; DP-Fed-FinDiff, sattarov2024.

What crosses the wire: first what the quantile maps of numeric columns are made of (by default each
client's histograms, noisy in a private run; as published the columns themselves; nothing where the
declared ranges serve), then in every round the parameters of the denoiser, up and down. The server
averages them by rows (FedAvg, FedProx), or moves towards that average with moments of its own
(FedAdam, FedYogi). Optimiser moments stay with the client.

Privacy is local: every client clips and noises the gradients of single rows itself (DP-SGD), and
epsilon is each client's own over all rounds. Batches are drawn by Poisson sampling.
"""

import math
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedsynth_lib.core.broadcast import Values, check_arrays
from fedsynth_lib.core.contract import (
    Arrays,
    BadInput,
    Charge,
    Client,
    Domain,
    Noise,
    Update,
)
from fedsynth_lib.core.dp_sgd import Tape, noise_generator, poisson_batches
from fedsynth_lib.methods.diffusion.diffusion import Schedule
from fedsynth_lib.methods.diffusion.network import Network
from fedsynth_lib.methods.diffusion.server_steps import STRATEGIES, Strategy, moved
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.gan.budget import rate
from fedsynth_lib.methods.gan.encoding import codes_of, numbers_of
from fedsynth_lib.methods.vae.encoding import client_encoding, histogram_charges
from fedsynth_lib.methods.vae_bgm import quantile_map
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.schema import Schema

VERSION = 1
TRUST = "local noise"
OWN_NOISE = True
GRADIENTS = "gradients of the denoiser"
PARAMETERS = "parameters of a network trained without noise"
LEVELS = 1000  # of a quantile map, as scikit-learn's transformer has them
AT_ONCE = 10_000  # rows decoded together
ROUNDING = 1e-9  # by which a quantile may leave its range
DIVERGED = (
    "FinDiff has diverged, and its rows are of no use; give a smaller learning_rate, or a smaller "
    "server_rate with fedadam and fedyogi."
)


@dataclass(frozen=True)
class Config:
    """Defaults: sattarov2024 (section 4.2), and FinDiff's public code where the work is silent.

    training_rounds, local_updates: steps of the optimiser are their product. batch: rows of a step,
        on average.
    hidden, inner: widths of the denoiser. embedding: numbers that stand for a category.
    embeddings: 'frozen' at random values that nobody's rows have touched; 'trained' with the
        network, which counts them in the gradient that is clipped, and draws categories together:
        what shares a place is easy to predict.
    steps, first_beta, last_beta, rescaled: of the diffusion, see `Schedule`. sampling_steps: None
        takes all.
    sampling_precision: of the products in sampling; bfloat16 is several times as fast where the
        processor has it.
    learning_rate: not printed; FinDiff's. decay: 'cosine' lets it fall to 0 over all steps, as
        FinDiff's public code does; the work does not say. clip: not printed.
    strategy: of the server; server_rate, server_first, server_second, server_tau: of FedAdam and
        FedYogi, whose rate is not printed (Adam's). proximal: pull of FedProx towards the round's
        start, added after clipping and noise, since it reads parameters only.
    encoding: what the quantile maps are made of. 'histograms': of each column, with noise in a
        private run; 'pooled': all values, as published, a release without any guarantee;
        'declared': nothing but the declared ranges.
    histogram_share: of the budget, roughly, for the histograms.
    """

    training_rounds: int = 3000
    local_updates: int = 100
    batch: int = 16
    hidden: tuple[int, ...] = (1024, 1024, 1024)
    inner: int = 64
    embedding: int = 2
    embeddings: Literal["frozen", "trained"] = "frozen"
    steps: int = 500
    first_beta: float = 1e-4
    last_beta: float = 0.02
    rescaled: bool = True
    sampling_steps: int | None = None
    sampling_precision: Literal["float32", "bfloat16"] = "float32"
    learning_rate: float = 1e-4
    decay: Literal["none", "cosine"] = "none"
    clip: float = 1.0
    strategy: Strategy = "fedavg"
    server_rate: float = 1e-3
    server_first: float = 0.9
    server_second: float = 0.999
    server_tau: float = 1e-8
    proximal: float = 0.01
    encoding: Literal["histograms", "pooled", "declared"] = "histograms"
    histogram_bins: int = 128
    histogram_share: float = 0.1
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self):
        """Raise BadInput for settings that are out of range."""
        for name in (
            "training_rounds",
            "local_updates",
            "batch",
            "inner",
            "embedding",
            "histogram_bins",
        ):
            if getattr(self, name) < 1:
                raise BadInput(f"FinDiff: {name} is {getattr(self, name)}; give at least 1.")
        if not self.hidden or min(self.hidden) < 1:
            raise BadInput(
                f"FinDiff: hidden is {self.hidden}; give the width of one layer at least."
            )
        if self.steps < 2 or not 1 <= (self.sampling_steps or 1) <= self.steps:
            raise BadInput(
                f"FinDiff: {self.sampling_steps} of {self.steps} steps; give 2 or more, and no "
                "more to sample."
            )
        if not 0 < self.first_beta <= self.last_beta < 1:
            raise BadInput(
                f"FinDiff: betas {self.first_beta} to {self.last_beta}; give rising numbers "
                "between 0 and 1."
            )
        if not 0 < self.histogram_share < 1:
            raise BadInput(
                f"FinDiff: histogram_share is {self.histogram_share}; give a share between 0 and 1."
            )
        if not self.clip > 0:
            raise BadInput(f"FinDiff: clip is {self.clip}; give a norm above 0.")
        if self.strategy not in STRATEGIES:
            raise BadInput(
                f"FinDiff: strategy {self.strategy!r} is unknown; choose one of "
                f"{', '.join(STRATEGIES)}."
            )

    @property
    def encoding_rounds(self) -> int:
        """How many rounds the clients need to agree on quantile maps."""
        return int(self.encoding != "declared")

    @property
    def rounds(self) -> int:
        """How many rounds a run has."""
        return self.encoding_rounds + self.training_rounds

    @property
    def schedule(self) -> Schedule:
        """The noise levels of the diffusion."""
        return Schedule(self.steps, self.first_beta, self.last_beta, self.rescaled)


AS_PUBLISHED = {"encoding": "pooled"}


def encoder(schema: Schema, config: Config) -> UnitRange:
    """Return the encoder: places in the declared range for numbers, codes for categories."""
    return UnitRange(schema)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of the histograms and of the noisy sums of gradients.

    The sums are those of all steps in all rounds.
    """
    steps = config.training_rounds * config.local_updates
    columns = domain.levels.count(0)
    return [
        *histogram_charges(noise_multiplier, columns, num_rows, config, steps),
        _gradients(noise_multiplier, num_rows, config, steps),
    ]


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the first state: declared levels, an untrained network, and its frozen embeddings.

    A numeric column has the level 0. The quantile maps start as those of the declared ranges. No
    row has been read yet.
    """
    levels, device = np.array(domain.levels), torch.device("cpu")
    with weights.seeded(rng, device):
        network = _untrained(levels, config)
    state = {
        "levels": levels,
        "round": np.array(0),
        "network": weights.flat(_trained_part(network, config)),
    }
    if config.embeddings == "frozen" and network.levels:
        state["embeddings"] = weights.flat(network.embeddings)
    columns = int((levels == 0).sum())
    return state | {"quantiles": quantile_map.declared(columns, LEVELS)}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check the quantiles and the size of the network.

    Quantiles must be places in the declared ranges. The declared columns determine the size.
    """
    expected: dict[str, np.ndarray | Values] = {
        name: Values(values.dtype, values.shape, finite=False)
        for name, values in start(domain, config, np.random.default_rng(0)).items()
    }
    shape = (domain.levels.count(0), LEVELS)
    expected["quantiles"] = Values(np.float64, shape, -ROUNDING, 1 + ROUNDING)
    levels = {"levels": np.array(domain.levels), "round": np.array(round)}
    check_arrays(state, {**expected, **levels})


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Help to encode, or make `local_updates` steps on the client's rows."""
    total = config.training_rounds * config.local_updates
    numbers, own = numbers_of(client.rows, state["levels"]), client.size
    if state["round"] < config.encoding_rounds:
        return client_encoding(numbers, own, state, config, noise, rng, total)
    device = weights.device_of(config.device)
    scores = torch.from_numpy(
        quantile_map.scores(numbers, state["quantiles"]).astype(np.float32)
    ).to(device)
    codes = torch.from_numpy(codes_of(client.rows, state["levels"]).astype(np.int64)).to(device)
    with weights.seeded(rng, device, secret=bool(noise and noise.secret)):
        network = trained(state, config, device)
        part = _trained_part(network, config)
        optimiser = torch.optim.Adam(part.parameters(), lr=config.learning_rate, fused=True)
        weights.load_moments(optimiser, part, "network", client.memory)
        anchor = (
            [p.detach().clone() for p in part.parameters()] if config.strategy == "fedprox" else []
        )
        # rng moves on either way
        generator = noise_generator(noise or Noise(0.0, rng), device)
        fixed = network.vectors(scores, codes) if config.embeddings == "frozen" else None
        made = (int(state["round"]) - config.encoding_rounds) * config.local_updates
        with Tape(part, ahead=True) if noise else nullcontext() as tape:
            for step, batch in enumerate(_batches(len(numbers), own, config, noise, rng), made):
                optimiser.param_groups[0]["lr"] = learning_rate(step, total, config)
                chosen = torch.from_numpy(batch).to(device)
                rows = (
                    network.vectors(scores[chosen], codes[chosen])
                    if fixed is None
                    else fixed[chosen]
                )
                _backward(
                    network.losses(rows, config.schedule), part, tape, own, config, noise, generator
                )
                for parameter, begin in zip(part.parameters(), anchor, strict=False):
                    parameter.grad += config.proximal * (parameter.detach() - begin)
                optimiser.step()
        client.memory |= weights.moments(optimiser, part, "network")
    spent = [Charge(PARAMETERS, "unprotected")]
    if noise is not None:
        spent = [_gradients(noise.multiplier, own, config, config.local_updates)]
    return Update({"network": weights.flat(part)}, spent=spent)


def learning_rate(step: int, total: int, config: Config) -> float:
    """Return Adam's learning rate at step `step`, counted from 0, of `total` steps.

    Source: Loshchilov and Hutter 2017, equation 5, with one period.
    """
    if config.decay == "none":
        return config.learning_rate
    return config.learning_rate * (1 + math.cos(math.pi * step / total)) / 2


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Put the quantile maps together, or update the network.

    The network moves to, or towards, the average of the clients' networks, which is weighted by
    their rows.
    """
    number = int(state["round"])
    kept = {**state, "round": np.array(number + 1)}
    if number < config.encoding_rounds:
        columns = int((state["levels"] == 0).sum())
        parts = [update.arrays for update in updates]
        found = (
            quantile_map.of_clients(parts, columns, LEVELS, config.encoding)
            if columns
            else state["quantiles"]
        )
        return {**kept, "quantiles": found}, []
    network, moments = moved(
        state["network"],
        weights.averaged(updates, "network"),
        state,
        strategy=config.strategy,
        rate=config.server_rate,
        first=config.server_first,
        second=config.server_second,
        tau=config.server_tau,
    )
    return {**kept, **moments, "network": network}, []


def broadcast(state: Arrays, config: Config) -> Arrays:
    """All but the server's own moments."""
    return {name: values for name, values in state.items() if not name.startswith("server_")}


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Draw rows (num_rows, columns).

    The network walks normal noise back to vectors. Quantile maps turn their first entries into
    numbers, and the nearest embeddings turn the others into categories. What a diverged network
    leaves undefined is set to 0 in the vectors, with a warning.
    """
    device, levels = weights.device_of(config.device), state["levels"]
    columns = int((levels == 0).sum())
    table = np.empty((num_rows, len(levels)))
    with weights.seeded(rng, device), torch.no_grad():
        network = trained(state, config, device)
        width = columns + config.embedding * len(network.levels)

        def predict(rows: Tensor, times: Tensor) -> Tensor:
            with torch.autocast(
                device.type, torch.bfloat16, enabled=config.sampling_precision == "bfloat16"
            ):
                return network.denoiser(rows, times).float()

        for begin in range(0, num_rows, AT_ONCE):
            number = min(AT_ONCE, num_rows - begin)
            noise = torch.randn(number, width, device=device)
            vectors = config.schedule.denoised(noise, predict, taken=config.sampling_steps)
            if not vectors.isfinite().all():
                warnings.warn(DIVERGED, stacklevel=2)
                vectors = vectors.nan_to_num()
            part = table[begin : begin + number]
            part[:, levels == 0] = quantile_map.numbers(
                vectors[:, :columns].cpu().numpy(), state["quantiles"]
            )
            part[:, levels > 0] = network.nearest(vectors[:, columns:]).cpu().numpy()
    return table if columns else table.astype(np.int32)


def trained(state: Arrays, config: Config, device: torch.device | None = None) -> Network:
    """Return the network with the parameters of a state."""
    network = _untrained(state["levels"], config)
    if "embeddings" in state:
        weights.load(network.embeddings, state["embeddings"])
    weights.load(_trained_part(network, config), state["network"])
    return network.to(device or torch.device("cpu"))


def _untrained(levels: np.ndarray, config: Config) -> Network:
    return Network(
        levels,
        embedding=config.embedding,
        train_embeddings=config.embeddings == "trained",
        hidden=config.hidden,
        inner=config.inner,
    )


def _trained_part(network: Network, config: Config) -> nn.Module:
    return network if config.embeddings == "trained" else network.denoiser


def _gradients(noise_multiplier: float, num_rows: int, config: Config, steps: int) -> Charge:
    """Return the charge of `steps` noisy sums of clipped gradients.

    One row more or less moves a sum by at most `clip`.
    """
    return Charge(
        GRADIENTS,
        "gaussian",
        noise_multiplier,
        config.clip,
        rate=rate(num_rows, config),
        times=steps,
    )


def _batches(rows: int, size: int, config: Config, noise: Noise | None, rng: np.random.Generator):
    """Yield the row positions of every step.

    A private run draws them by Poisson sampling, at the rate for the declared number of rows. Other
    runs draw a batch of fixed size.
    """
    if noise is not None:
        yield from poisson_batches(rows, rate(size, config), config.local_updates, rng=noise.rng)
        return
    for _ in range(config.local_updates):
        yield rng.choice(rows, size=min(config.batch, rows), replace=False)


def _backward(
    losses: Tensor,
    part: nn.Module,
    tape: Tape | None,
    own: int,
    config: Config,
    noise: Noise | None,
    generator: torch.Generator,
) -> None:
    """Set the gradients: the ordinary mean, or the clipped and noisy one."""
    if tape is None or noise is None:
        part.zero_grad(set_to_none=True)
        losses.mean().backward()
        return
    tape.backward(
        losses,
        num_records=len(losses),
        clip=config.clip,
        noise_multiplier=noise.multiplier,
        expected_records=rate(own, config) * own,
        generator=generator,
    )
