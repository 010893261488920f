"""What sattarov2024's noise would truly cost if its budget were counted in other ways than ours.

The work names its accountant (Opacus) and not how many steps that was told of. Noise that is
calibrated to some of the steps is used in all of them, so a run costs more than it claims, or less.
"""

from collections.abc import Callable, Iterable

import pandas as pd

from fedsynth_lib.core.accounting import calibrate, epsilon_of
from fedsynth_lib.core.contract import Charge, Privacy
from fedsynth_lib.methods.diffusion.findiff import Config
from fedsynth_lib.tables.lock import table_rows
from fedsynth_lib.works.equal_signal import TRAINED_ON

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
    """(noise multiplier, epsilon of the whole run) where noise is calibrated to `epsilon` over
    `counted` steps and `steps` are made, each on a Poisson sample at `rate`.

    By Renyi accounting, one record added or removed.
    """

    def plan(sigma: float, times: int = counted) -> list[Charge]:
        return [Charge("steps", "gaussian", sigma, 1.0, rate=rate, times=times)]

    multiplier = calibrate(plan, Privacy(epsilon, delta, reproduction=True))
    return multiplier, epsilon_of(plan(multiplier, steps), delta, accountant="rdp")


def true_costs(rows: Iterable[int], epsilon: float, delta: float) -> pd.DataFrame:
    """How the steps are counted -> the noise multiplier and the true epsilon of the largest and of
    the smallest client, at the published settings.

    rows: of each client.
    """
    config, lines = Config(), {}
    rows = list(rows)
    for name, count in COUNTED.items():
        line = {}
        for which, number in (("largest", max(rows)), ("smallest", min(rows))):
            asked = (count(number, config), COUNTED["every step of every round"](number, config))
            rate = min(1.0, config.batch / number)
            multiplier, cost = true_epsilon(*asked, rate, epsilon, delta)
            line |= {f"noise, {which} client": multiplier, f"true epsilon, {which} client": cost}
        lines[name] = line
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("steps counted")


def costs_of(dataset: str, shares: Iterable[float]) -> pd.DataFrame:
    """`true_costs` of the clients of a table at a claimed epsilon of 1, delta one over all training
    rows.

    shares: of the rows, of each client (figure 3).
    """
    number = round(TRAINED_ON * table_rows(dataset, work="sattarov2024"))
    return true_costs([round(share * number) for share in shares], 1.0, 1 / number)
