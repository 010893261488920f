"""FedVAE: the autoencoder TVAE over clients, private or not.

Sources: Martinez Duarte 2024, chapter 4; Xu et al. 2019.

What crosses the wire: first what the mixtures of numeric columns are fitted to (by default each
client's histograms, noisy in a private run; as published the columns themselves), then in every
round the parameters of encoder and decoder, up and down, averaged by rows (algorithm 4.1).
Optimiser moments stay with the client.

Privacy is local: every client clips and noises the gradients of single rows itself (DP-SGD), so
that the server needs no trust, and epsilon is each client's own over all rounds. Batches are drawn
by Poisson sampling.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

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
from fedsynth_lib.core.dp_sgd import Tape, noise_generator, poisson_batches
from fedsynth_lib.methods.gan import weights
from fedsynth_lib.methods.gan.budget import rate
from fedsynth_lib.methods.gan.encoding import (
    check_mixtures,
    codes_of,
    decode_numbers,
    encode_numbers,
    layout_of,
    numbers_of,
    stacked_values,
)
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.gan.sampling import LocalRows
from fedsynth_lib.methods.vae.encoding import (
    client_encoding,
    histogram_charges,
    server_encoding,
)
from fedsynth_lib.methods.vae.vae import Vae
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.schema import Schema

VERSION = 1
TRUST = "local noise"
GRADIENTS = "gradients of encoder and decoder"
PARAMETERS = "parameters of networks trained without noise"
AT_ONCE = 10_000  # rows decoded together


@dataclass(frozen=True)
class Config:
    """Settings of FedVAE.

    Defaults: what martinez2024 chose for Adult (table 5.6); `martinez2024.tuned` has all tables.

    training_rounds, local_epochs: in the work global and local epochs. hidden: of encoder and
        decoder alike.
    loss_factor: of the reconstruction part of the loss. weight_decay: L2, added to the gradient, as
        Adam has it; in a private run to the clipped one: the smaller `clip`, the harder it pulls.
    clip: norm to which a row's gradient is cut in a private run (gap 12: 1.0, and learning_rate
        1e-3). Uncut it is some hundreds.
    encoding: what the mixtures of numeric columns are fitted to. 'histograms': one of each column,
        with noise in a private run; 'pooled': all values, as published, a release without any
        guarantee; 'federated': mixtures that clients fit and the server averages (algorithm 4.1 of
        leitner2023), without guarantee either.
    histogram_share: of the budget, roughly, for the histograms.
    likeliest: decode the likeliest mode and category, as TVAE's software does, so that a rare
        category that is never the likeliest disappears; else draw by the decoder's probabilities,
        as TVAE's paper has it.
    """

    training_rounds: int = 100
    local_epochs: int = 20
    batch: int = 200
    hidden: tuple[int, ...] = (64, 64)
    embedding: int = 64
    weight_decay: float = 1e-4
    loss_factor: float = 4.0
    learning_rate: float = 1e-3
    clip: float = 1.0
    modes: int = 10
    encoding: Literal["histograms", "pooled", "federated"] = "histograms"
    mixture_rounds: int = 5
    histogram_bins: int = 128
    histogram_share: float = 0.1
    likeliest: bool = False
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self):
        """Raise BadInput for settings that are out of range."""
        for name in (
            "training_rounds",
            "local_epochs",
            "batch",
            "embedding",
            "modes",
            "mixture_rounds",
        ):
            if getattr(self, name) < 1:
                raise BadInput(f"FedVAE: {name} is {getattr(self, name)}; give at least 1.")
        if not self.hidden or min(self.hidden) < 1:
            raise BadInput(
                f"FedVAE: hidden is {self.hidden}; give the width of one layer at least."
            )
        if not 0 < self.histogram_share < 1:
            raise BadInput(
                f"FedVAE: histogram_share is {self.histogram_share}; give a share between 0 and 1."
            )
        if not self.clip > 0:
            raise BadInput(f"FedVAE: clip is {self.clip}; give a norm above 0.")

    @property
    def encoding_rounds(self) -> int:
        """How many rounds the clients need to agree on mixtures."""
        return self.mixture_rounds if self.encoding == "federated" else 1

    @property
    def rounds(self) -> int:
        """How many rounds a run has."""
        return self.encoding_rounds + self.training_rounds


AS_PUBLISHED = {"encoding": "pooled", "likeliest": True}


def encoder(schema: Schema, config: Config) -> UnitRange:
    """Return the encoder: places in the declared range for numbers, codes for categories."""
    return UnitRange(schema)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of the histograms and of the noisy sums of gradients.

    The sums are those of all steps in all rounds.
    """
    steps = config.training_rounds * _steps(num_rows, config)
    histograms = histogram_charges(
        noise_multiplier, domain.levels.count(0), num_rows, config, steps
    )
    return [*histograms, _gradients(noise_multiplier, num_rows, config, steps)]


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Nothing but the levels of columns, 0 for numbers; every declared category can be decoded."""
    levels = np.array(domain.levels)
    return {"levels": levels, "round": np.array(0), "present": np.ones(levels.sum(), bool)}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check the mixtures of the numeric columns and the network.

    After the first round there are mixtures, and in training there is a network of the size that
    they make.
    """
    own = start(domain, config, np.random.default_rng(0))
    expected: dict[str, np.ndarray | Values] = {**own, "round": np.array(round)}
    training = round >= config.encoding_rounds
    if round > 0:
        expected |= stacked_values(domain.levels.count(0), config.modes)
    if training:
        expected["network"] = Values(np.float32, (None,), finite=False)
    check_arrays(state, expected)
    if round > 0:
        check_mixtures(state)
    require(not training or len(state["network"]) == _size(layout_of(state), config))


def _size(layout: Layout, config: Config) -> int:
    with weights.seeded(np.random.default_rng(0), torch.device("cpu")):
        return weights.size_of(Vae(layout, config.hidden, config.embedding))


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Help to encode, or train on the client's rows."""
    steps = _steps(client.size, config)
    if state["round"] < config.encoding_rounds:
        numbers = numbers_of(client.rows, state["levels"])
        return client_encoding(
            numbers, client.size, state, config, noise, rng, steps * config.training_rounds
        )
    device = weights.device_of(config.device)
    rows = _encoded(state, client, device, rng)
    with weights.seeded(rng, device, secret=bool(noise and noise.secret)):
        network = trained(state, config, device)
        optimiser = torch.optim.Adam(
            network.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
        )
        weights.load_moments(optimiser, network, "network", client.memory)
        if noise is None:
            _train(network, optimiser, rows, config)
            spent = [Charge(PARAMETERS, "unprotected")]
        else:
            _train_privately(network, optimiser, rows, client.size, config, noise, steps)
            spent = [_gradients(noise.multiplier, client.size, config, steps)]
        client.memory |= weights.moments(optimiser, network, "network")
    return Update({"network": weights.flat(network)}, spent=spent)


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Put the mixtures together, or average the networks.

    The average weights clients by their rows (FedAvg). After the last encoding round the server
    adds an untrained network.
    """
    number = int(state["round"]) + 1
    if number <= config.encoding_rounds:
        state = {**state, **server_encoding(state, updates, config, rng), "round": np.array(number)}
        if number == config.encoding_rounds:
            device = torch.device("cpu")
            with weights.seeded(rng, device):
                state["network"] = weights.flat(_untrained(state, config, device))
        return state, []
    average = weights.averaged(updates, "network")
    return {**state, "network": average, "round": np.array(number)}, []


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Rows (num_rows, columns) decoded from normal latent vectors."""
    device, levels, layout = weights.device_of(config.device), state["levels"], layout_of(state)
    with weights.seeded(rng, device):
        network = trained(state, config, device)
        sizes = [AT_ONCE] * (num_rows // AT_ONCE) + [num_rows % AT_ONCE]
        parts = [network.imagine(size, likeliest=config.likeliest) for size in sizes]
    distances, choices = (torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True))
    table = np.empty((num_rows, len(levels)))
    table[:, levels == 0] = decode_numbers(
        choices[:, : layout.numbers], distances.astype(float), state
    )
    table[:, levels > 0] = choices[:, layout.numbers :]
    return table if layout.numbers else table.astype(np.int32)


def trained(state: Arrays, config: Config, device: torch.device | None = None) -> Vae:
    """Return the network of a state after the encoding rounds."""
    network = _untrained(state, config, device or torch.device("cpu"))
    weights.load(network, state["network"])
    return network


def _steps(num_rows: int, config: Config) -> int:
    """Private steps in one round: as many as make an epoch on average, times the local epochs."""
    return max(1, num_rows // config.batch) * config.local_epochs


def _gradients(noise_multiplier: float, num_rows: int, config: Config, steps: int) -> Charge:
    """Return the charge of `steps` noisy sums of clipped gradients.

    One row more or less moves a sum by at most `clip`.
    """
    share = rate(num_rows, config)
    return Charge(GRADIENTS, "gaussian", noise_multiplier, config.clip, rate=share, times=steps)


def _untrained(state: Arrays, config: Config, device: torch.device) -> Vae:
    return Vae(layout_of(state), config.hidden, config.embedding).to(device)


def _encoded(
    state: Arrays, client: Client, device: torch.device, rng: np.random.Generator
) -> torch.Tensor:
    """Return the client's rows as the network reads them, (rows, layout.width).

    A number keeps the mode that was drawn for it first.
    """
    levels = state["levels"]
    if "modes" not in client.memory:
        pair = encode_numbers(numbers_of(client.rows, levels), state, rng)
        client.memory["modes"], client.memory["distances"] = pair
    codes = codes_of(client.rows, levels)
    memory = client.memory
    return LocalRows.of(
        layout_of(state), memory["modes"], memory["distances"], codes, device
    ).encoded


def _train(network: Vae, optimiser: torch.optim.Adam, rows: torch.Tensor, config: Config) -> None:
    """`local_epochs` passes over the rows, in a new order each."""
    for _ in range(config.local_epochs):
        for batch in torch.randperm(len(rows), device=rows.device).split(config.batch):
            optimiser.zero_grad(set_to_none=True)
            network.losses(rows[batch], config.loss_factor).mean().backward()
            optimiser.step()
            network.keep_spread()


def _train_privately(
    network: Vae,
    optimiser: torch.optim.Adam,
    rows: torch.Tensor,
    size: int,
    config: Config,
    noise: Noise,
    steps: int,
) -> None:
    """Make `steps` steps of DP-SGD on the client's rows; `size` is the declared number of rows.

    What Adam, its weight decay and `keep_spread` do afterwards is post-processing.
    """
    share, generator = rate(size, config), noise_generator(noise, rows.device)
    for batch in poisson_batches(len(rows), share, steps, rng=noise.rng):
        with Tape(network) as tape:
            losses = network.losses(
                rows[torch.from_numpy(batch).to(rows.device)], config.loss_factor
            )
            tape.backward(
                losses,
                num_records=len(losses),
                clip=config.clip,
                noise_multiplier=noise.multiplier,
                expected_records=share * size,
                generator=generator,
            )
        optimiser.step()
        network.keep_spread()
