"""How much signal a whole private training has for its noise.

A step of DP-SGD averages about `batch` clipped gradients and adds noise of sigma / batch to their
mean. Over all steps signal adds up with their number and noise with its root, so that a run has
sqrt(steps) / (sigma / batch). At one epsilon sigma / batch grows as sqrt(steps) / rows, whatever
the batch, as long as sigma stays off its floor (about 0.8): rounds are nearly free, rows are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsynth_lib.core.accounting import calibrate
from fedsynth_lib.core.contract import BadInput, Charge, Privacy


@dataclass(frozen=True)
class Training:
    """Private training of one model.

    rows: of each client.
    rounds: of the federation, each of `local_steps` steps at every client.
    batch: expected records of a step.
    """

    rows: Sequence[int]
    rounds: int
    batch: int
    local_steps: int = 1

    def __post_init__(self):
        """Raise BadInput unless there are rows, rounds, steps and a batch."""
        if not self.rows or min(*self.rows, self.rounds, self.batch, self.local_steps) < 1:
            raise BadInput("training needs clients with rows, and rounds, steps and a batch of 1.")

    @property
    def steps(self) -> int:
        """The number of steps of each client."""
        return self.rounds * self.local_steps


def signal_to_noise(training: Training, epsilon: float, delta: float) -> float:
    """Return sqrt(steps) over the noise in the average of the clients' mean gradients.

    The average is weighted by rows, and each client has its own noise for the budget. The noise
    follows from Renyi accounting of Poisson batches, one record added or removed, as the works
    account. A client of fewer rows than the batch takes all of them in each step.
    """
    noise = []
    for size in training.rows:
        batch = min(training.batch, size)

        def plan(sigma: float, rate: float = batch / size) -> list[Charge]:
            return [Charge("steps", "gaussian", sigma, 1.0, rate=rate, times=training.steps)]

        noise.append(calibrate(plan, Privacy(epsilon, delta, reproduction=True)) / batch)
    weights = np.divide(training.rows, np.sum(training.rows))
    return float(np.sqrt(training.steps) / np.linalg.norm(weights * noise))


def ratio(ours: Training, published: Training, epsilon: float, delta: float) -> float:
    """Return the signal-to-noise of our training over that of the published one, at one budget."""
    parts = (signal_to_noise(training, epsilon, delta) for training in (ours, published))
    return next(parts) / next(parts)


def in_words(ratios: Sequence[float], of: str = "the published one") -> str:
    """Write for a caption which part of the published ratio, or of `of`, private runs have."""
    ends = dict.fromkeys(f"{100 * ratio:.0f}" for ratio in (min(ratios), max(ratios)))
    return f"Signal-to-noise ratio of private runs: {' to '.join(ends)} % of {of}."
