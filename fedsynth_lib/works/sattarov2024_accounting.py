"""What sattarov2024's noise would truly cost if its budget were counted in other ways than ours.

The work names its accountant (Opacus) and not how many steps that was told of. Noise that is
calibrated to some of the steps is used in all of them, so a run costs more than it claims, or less.
"""

from collections.abc import Callable

from fedsynth_lib.core.accounting import calibrate, epsilon_of
from fedsynth_lib.core.contract import Charge, Privacy
from fedsynth_lib.methods.diffusion.findiff import Config

# rows of a client and its settings -> the steps that are counted
COUNTED: dict[str, Callable[[int, Config], int]] = {
    "every step of every round": lambda rows, c: c.training_rounds * c.local_updates,
    "an epoch in every round": lambda rows, c: c.training_rounds * max(1, rows // c.batch),
    "one step in every round": lambda rows, c: c.training_rounds,
    "the steps of one round": lambda rows, c: c.local_updates,
}


def true_epsilon(
    counted: int, steps: int, rate: float, epsilon: float, delta: float
) -> tuple[float, float]:
    """Return the noise multiplier of a run, and the epsilon of all the steps that it makes.

    Noise is calibrated to `epsilon` over `counted` steps, and `steps` are made, each on a Poisson
    sample at `rate`. By Renyi accounting, one record added or removed.
    """

    def plan(sigma: float, times: int = counted) -> list[Charge]:
        return [Charge("steps", "gaussian", sigma, 1.0, rate=rate, times=times)]

    multiplier = calibrate(plan, Privacy(epsilon, delta, reproduction=True))
    return multiplier, epsilon_of(plan(multiplier, steps), delta, accountant="rdp")
