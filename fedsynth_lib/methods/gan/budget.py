"""Settings of the CTGAN family, how long a client trains, and what a record pays for it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsynth_lib.core.composition import affordable_steps
from fedsynth_lib.core.contract import BadInput, Charge, Domain
from fedsynth_lib.tables.encode import EqualWidthBins, UnitRange
from fedsynth_lib.tables.schema import Schema

GRADIENTS = "gradients of the discriminator"
HISTOGRAMS = "histograms of the columns"


@dataclass(frozen=True)
class Settings:
    """CTGAN's own values; every method of the family changes some.

    Source: Xu et al. 2019, section 5, and its code.

    training_rounds, local_epochs: an epoch is max(1, rows // batch) steps of the generator.
    pac: rows that are judged together; it must divide the batch. critic_steps: of the
        discriminator, for each one of the generator.
    loss: 'wasserstein' with gradient penalty, or 'cross_entropy' (leitner2023, algorithm 4.2).
    condition_weight: of the generator's loss for missing its condition.
    encoding: 'variational': every client fits its mixtures once, the server fits one again to
        draws from all of them (with one client: takes them); 'federated': algorithm 4.1 of
        leitner2023 before that; 'private': one noisy histogram of each column, numeric ones in
        `histogram_bins` bins of the declared range.
    sampling: 'by_condition' (training by sampling): conditions by the logarithm of raw frequencies,
        rows to match; a release without any guarantee, and not the uniform sampling that accounting
        assumes. 'poisson': Poisson sampling of rows, conditions read off them; all other
        conditions from noisy histograms.
    start_from_marginals: whether the generator starts with every column distributed as the noisy
        histograms say, columns independent; for sampling 'poisson', where they are released
        already.
    weighting: of clients in averages, by their rows, or by Fed-TGAN's 'similarity' (needs their raw
        frequencies).
    clip: norm to which a record's gradient is cut; None for training without privacy.
    histogram_share: of the budget, roughly, for the histograms.
    stop_epsilon, stop_delta: training ends before this budget would be passed; for runs with a
        given noise.
    most_rounds: rounds of training that a client takes part in at most. participation: share of
        clients per round.
    generator_at: who trains the generator; 'server': one step a round, and clients one batch
        (maddock2024).
    bins: numeric columns as so many equal-width bins, or `by_column`; None: as numbers.
    """

    training_rounds: int = 100
    local_epochs: int = 3
    batch: int = 500
    pac: int = 10
    critic_steps: int = 1
    loss: Literal["wasserstein", "cross_entropy"] = "wasserstein"
    penalty: float = 10.0
    condition_weight: float = 1.0
    generator_rate: float = 2e-4
    discriminator_rate: float = 2e-4
    generator_decay: float = 1e-6
    discriminator_decay: float = 0.0
    noise_width: int = 128
    hidden: tuple[int, ...] = (256, 256)
    modes: int = 10
    encoding: Literal["variational", "federated", "private"] = "variational"
    mixture_rounds: int = 5
    histogram_bins: int = 128
    histogram_share: float = 0.2
    sampling: Literal["by_condition", "poisson"] = "by_condition"
    start_from_marginals: bool = False
    weighting: Literal["size", "similarity"] = "size"
    clip: float | None = None
    stop_epsilon: float | None = None
    stop_delta: float = 0.0
    most_rounds: int | None = None
    participation: float = 1.0
    generator_at: Literal["client", "server"] = "client"
    bins: int | None = None
    by_column: tuple[tuple[str, int], ...] | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @property
    def private(self) -> bool:
        """Whether gradients are clipped, as private training needs."""
        return self.clip is not None

    @property
    def encoding_rounds(self) -> int:
        """How many rounds the clients need to agree on an encoding."""
        return self.mixture_rounds if self.encoding == "federated" else 1

    @property
    def asks_for_conditions(self) -> bool:
        """Whether the server has to ask clients for conditions to sample with.

        Source: leitner2023, section 4.2.3.
        """
        return self.sampling == "by_condition" and self.weighting == "size"

    @property
    def rounds(self) -> int:
        """How many rounds a run has at most."""
        return self.encoding_rounds + self.training_rounds + self.asks_for_conditions


def check(config: Settings) -> None:
    """Raise BadInput for settings that cannot work together."""
    if config.batch < 1 or config.batch % config.pac:
        raise BadInput(
            f"batch {config.batch} is not a multiple of pac {config.pac}: change one of the two."
        )
    if min(config.training_rounds, config.local_epochs, config.critic_steps, config.modes) < 1:
        raise BadInput(
            "training_rounds, local_epochs, critic_steps and modes must be at least 1: "
            "raise the one below."
        )
    if config.private and (config.pac > 1 or config.loss == "wasserstein"):
        raise BadInput(
            "private training needs pac 1 and loss 'cross_entropy': a gradient penalty "
            "mixes records."
        )
    if not config.private and (config.encoding == "private" or config.sampling == "poisson"):
        raise BadInput(
            "encoding 'private' and sampling 'poisson' are for private training: give "
            "clip, or change them."
        )
    if config.start_from_marginals and config.sampling == "by_condition":
        raise BadInput(
            "start_from_marginals reads the histograms of sampling 'poisson': take it, "
            "or start at random."
        )
    if config.weighting == "similarity" and config.private:
        raise BadInput(
            "weighting 'similarity' reads raw frequencies: private training needs weighting 'size'."
        )
    if config.weighting == "similarity" and config.encoding != "variational":
        raise BadInput(
            "weighting 'similarity' compares mixtures that clients fit alone: take "
            "encoding 'variational'."
        )
    if config.generator_at == "server" and config.sampling == "by_condition":
        raise BadInput("generator_at 'server' draws its own conditions: take sampling 'poisson'.")


def rate(num_rows: int, config: Settings) -> float:
    """Return the probability of a row to be in a batch.

    A client with fewer rows than a batch uses them all.
    """
    return min(1.0, config.batch / num_rows)


def steps_per_round(num_rows: int, config: Settings) -> int:
    """Return the steps of the discriminator in one round.

    They are those of leitner2023, algorithm 4.2, line 1, times the local epochs. If the server
    trains the generator, a client makes `critic_steps` steps.
    """
    if config.generator_at == "server":
        return config.critic_steps
    return max(1, num_rows // config.batch) * config.local_epochs * config.critic_steps


def total_steps(
    noise_multiplier: float, domain_levels: tuple[int, ...], num_rows: int, config: Settings
) -> int:
    """Return the private steps of a client over all rounds.

    They are the steps of the schedule, or fewer if the budget to stop at allows only that many (by
    RDP).

    Raises BadInput where that budget does not allow a single step.
    """
    rounds = min(config.training_rounds, config.most_rounds or config.training_rounds)
    planned = rounds * steps_per_round(num_rows, config)
    if config.stop_epsilon is None:
        return planned
    budget = (noise_multiplier, rate(num_rows, config), config.stop_epsilon, config.stop_delta)
    alone = min(planned, affordable_steps(*budget))
    others = histogram_charges(noise_multiplier, domain_levels, num_rows, config, max(alone, 1))
    allowed = affordable_steps(*budget, others=others)
    if allowed < 1:
        raise BadInput(
            f"epsilon {config.stop_epsilon:g} does not pay for one step with noise multiplier "
            f"{noise_multiplier:g} and sampling rate {rate(num_rows, config):.3g}: raise epsilon "
            "or the noise, or lower the batch."
        )
    return min(planned, allowed)


def histogram_columns(levels: tuple[int, ...], config: Settings) -> int:
    """How many columns are counted in noisy histograms; a row is in one cell of each."""
    if config.encoding == "private":
        return len(levels)
    return sum(level > 0 for level in levels) if config.sampling == "poisson" else 0


def histogram_noise(noise_multiplier: float, num_rows: int, config: Settings, steps: int) -> float:
    """Noise multiplier of the histograms at which they cost about `histogram_share` of the budget.

    In zCDP a plain Gaussian release costs 1 / (2 h^2), and `steps` sampled ones about steps rate^2
    / (2 sigma^2).
    """
    share = config.histogram_share
    return noise_multiplier * np.sqrt((1 - share) / (share * steps)) / rate(num_rows, config)


def histogram_charges(
    noise_multiplier: float, levels: tuple[int, ...], num_rows: int, config: Settings, steps: int
) -> list[Charge]:
    """Return the charges of the noisy histograms.

    One more row raises one cell of each column by 1, an L2 distance of sqrt(columns).
    """
    columns = histogram_columns(levels, config)
    if not columns:
        return []
    scale = float(histogram_noise(noise_multiplier, num_rows, config, steps))
    return [Charge(HISTOGRAMS, "gaussian", noise=scale, sensitivity=float(np.sqrt(columns)))]


def gradient_charge(noise_multiplier: float, num_rows: int, config: Settings, steps: int) -> Charge:
    """Return the charge of `steps` noisy sums of clipped gradients (DP-SGD).

    One record moves a sum by at most `clip`.
    """
    share = rate(num_rows, config)
    return Charge(GRADIENTS, "gaussian", noise_multiplier, config.clip, rate=share, times=steps)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Settings) -> list[Charge]:
    """Histograms and all steps. Raises BadInput for a method without noise: it keeps no budget."""
    if not config.private:
        raise BadInput(
            "this method adds no noise: ask for no epsilon, or take its private sister (dp_ "
            "in the name)."
        )
    steps = total_steps(noise_multiplier, domain.levels, num_rows, config)
    charges = histogram_charges(noise_multiplier, domain.levels, num_rows, config, steps)
    return [*charges, gradient_charge(noise_multiplier, num_rows, config, steps)]


def encoder_of(schema: Schema, config: Settings) -> UnitRange | EqualWidthBins:
    """Numbers in their declared range, or binned where the settings say so."""
    if config.bins is None and config.by_column is None:
        return UnitRange(schema)
    return EqualWidthBins(schema, config.bins, config.by_column or ())
