"""Settings of VAE-BGM, and what a node pays for its private variant."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fedsynth_lib.core.contract import BadInput, Charge
from fedsynth_lib.methods.vae_bgm.private_mixture import SENSITIVITY

MOMENTS = "sums and sums of squares of numeric columns"
GIVEN = "the mean and deviation of each numeric column, given in the settings"
GRADIENTS = "gradients of encoder and decoder"
MIXTURE = "sums of latent means in every component"


@dataclass(frozen=True)
class Config:
    """Defaults: what apellaniz2025 used (sections 3.2.2 and 3.3, and its public code).

    technique: 'isolated' is one round of all epochs and shares nothing.
    networks: trained beside each other in every node, whose rows are mixed (the work: 3, and 1 for
        FedAvg).
    patience: epochs without a better loss on a fifth of the rows after which a round ends; None: no
        such fifth.
    steepest: bound on gradients in the encoder (see `LikelihoodVae`; the work's code has 1000, its
        text none); without `clip`. Committed rows hold the setting by this name.
    most_rows: a node trains on its own rows and, up to this many, on received ones.
    shared_rows: synthetic rows that each network of a sender shares. senders: 'all' nodes, or the
        one with most rows (the first of those with as many).
    common_start: whether FedAvg begins with the same weights in all nodes (in the work's code each
        has its own).
    components, starts: of the Dirichlet-process mixture of latent means.
    moments: mean and standard deviation of every numeric column as places in its declared range,
        held to be public; None: found out together, or, in isolated nodes, by each alone.
    clip: norm to which a row's gradient is cut in private training, which stops for no loss; None:
        no privacy.
    radius, mixture_steps: of the private mixture (`private_mixture`), which has `components`
        diagonal components.
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
    steepest: float | None = None
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
        """Raise BadInput for settings that are out of range or exclude each other."""
        least = (
            "training_rounds",
            "local_epochs",
            "networks",
            "batch",
            "hidden",
            "latent",
            "most_rows",
            "shared_rows",
        )
        for name in (*least, "components", "starts", "mixture_steps", "patience"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise BadInput(f"VAE-BGM: {name} is {getattr(self, name)}; give at least 1.")
        for name in ("learning_rate", "radius"):
            if not getattr(self, name) > 0:
                raise BadInput(f"VAE-BGM: {name} is {getattr(self, name)}; give a number above 0.")
        if not 0 <= self.dropout < 1:
            raise BadInput(
                f"VAE-BGM: dropout is {self.dropout}; give a share from 0 up to (not including) 1."
            )
        if self.technique not in ("isolated", "fedavg", "sds"):
            raise BadInput(
                f"VAE-BGM: technique {self.technique!r} is unknown; choose isolated, fedavg or sds."
            )
        if self.senders not in ("all", "largest"):
            raise BadInput(f"VAE-BGM: senders {self.senders!r} is unknown; choose all or largest.")
        if self.steepest is not None and not self.steepest > 0:
            raise BadInput(
                f"VAE-BGM: steepest is {self.steepest}; give a number above 0, or None "
                "for no bound."
            )
        if self.clip is not None and not self.clip > 0:
            raise BadInput(
                f"VAE-BGM: clip is {self.clip}; give a norm above 0, or None for no privacy."
            )
        if self.clip is not None and self.steepest is not None:
            raise BadInput(
                "VAE-BGM: steepest bounds nothing in private training, which has clip; "
                "leave one out."
            )
        if (
            min(self.mixture_share, self.moments_share) <= 0
            or self.mixture_share + self.moments_share >= 1
        ):
            raise BadInput(
                "VAE-BGM: mixture_share and moments_share must be above 0 and leave "
                "some of the budget."
            )

    @property
    def private(self) -> bool:
        """Whether gradients are clipped, as private training needs."""
        return self.clip is not None

    @property
    def first(self) -> int:
        """The number of the first round of training."""
        return int(self.moments is None and self.technique != "isolated")

    @property
    def rounds(self) -> int:
        """How many rounds a run has."""
        return self.first + (1 if self.technique == "isolated" else self.training_rounds)

    @property
    def epochs(self) -> int:
        """How many epochs a network trains in one round."""
        return self.local_epochs * (self.training_rounds if self.technique == "isolated" else 1)


class Releases(NamedTuple):
    """The charges of one round."""

    moments: Charge | None
    gradients: Charge
    mixture: Charge


def releases_of(noise_multiplier: float, numeric: int, num_rows: int, config: Config) -> Releases:
    """Return the charges of what a node with so many rows releases in a round.

    The plan and the run both take their charges from here.

    Each network is trained and fitted on the same rows, hence all count. In zCDP a plain Gaussian
    release costs 1 / (2 h^2), and `steps` sampled ones cost about steps rate^2 / (2 sigma^2). The
    shares of the budget are computed with these costs.
    """
    share = rate(num_rows, config)
    times = steps(num_rows, config) * config.networks
    trainings = config.rounds - config.first
    fits = (trainings if config.technique == "sds" else 1) * config.networks * config.mixture_steps
    left = 1 - config.mixture_share - config.moments_share
    per_release = noise_multiplier / share * np.sqrt(left / (times * trainings))
    mixture = float(per_release * np.sqrt(fits / config.mixture_share))
    moments = float(per_release / np.sqrt(config.moments_share))
    asked = numeric > 0 and config.moments is None
    return Releases(
        Charge(MOMENTS, "gaussian", moments, float(np.sqrt(1 + 2 * numeric))) if asked else None,
        Charge(
            GRADIENTS, "gaussian", noise_multiplier, config.clip or 0.0, rate=share, times=times
        ),
        Charge(
            MIXTURE, "gaussian", mixture, SENSITIVITY, times=config.networks * config.mixture_steps
        ),
    )


def rate(num_rows: int, config: Config) -> float:
    """Return the probability of a row to be in a private batch.

    Received rows have the same probability; they cost nothing.
    """
    return min(1.0, config.batch / num_rows)


def steps(num_rows: int, config: Config) -> int:
    """Private steps of one network in one round."""
    return max(1, num_rows // config.batch) * config.epochs
