"""What repeated releases cost under the composition theorems, and how many of them a budget allows.

Runs are accounted for in `core/accounting.py`. This file holds the theorems beside each other
(leitner2023, section 2.2.1.2), and answers the question that training under a fixed noise asks:
when is the budget used up?
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from fedsynth_lib.core.accounting import epsilon_of, exact_gaussian_epsilon
from fedsynth_lib.core.contract import BadInput, Charge

MOST_STEPS = 2**53  # beyond it one step more is no longer a different float


# --- what a budget allows ------------------------------------------------------------------------


def affordable_steps(
    noise_multiplier: float,
    rate: float,
    epsilon: float,
    delta: float,
    others: Sequence[Charge] = (),
) -> int:
    """Return how many Poisson-sampled Gaussian steps (DP-SGD) `epsilon` at `delta` allows.

    The number is exact by Renyi DP: that many steps cost at most epsilon, one more costs more. It
    is 0 if not even one step is allowed. Composed losses would allow some more, but committed
    result rows rest on Renyi DP alone. The relation is to add or remove one record.

    rate: the probability that a record is in a batch, batch size / rows.
    others: further charges that the same budget pays.
    """
    if not 0 < rate <= 1:
        raise BadInput(f"rate is {rate}: give the share of rows in a batch, above 0 and at most 1.")
    if not 0 < epsilon < float("inf"):
        raise BadInput(
            f"epsilon is {epsilon}: give a positive number; without a budget nothing "
            "limits the steps."
        )
    if not 0 <= noise_multiplier < float("inf"):
        raise BadInput(f"noise_multiplier is {noise_multiplier}: give a finite number, 0 or above.")
    return _affordable(
        float(noise_multiplier), float(rate), float(epsilon), float(delta), tuple(others)
    )


@lru_cache(maxsize=256)
def _affordable(
    noise: float, rate: float, epsilon: float, delta: float, others: tuple[Charge, ...]
) -> int:
    def allowed(steps: int) -> bool:
        charges = [Charge("steps", "gaussian", noise, rate=rate, times=steps), *others]
        return epsilon_of(charges, delta, accountant="rdp") <= epsilon

    if not allowed(1):
        return 0
    low, high = 1, 2
    while allowed(high):
        low, high = high, 2 * high
        if high > MOST_STEPS:
            raise BadInput(
                f"noise_multiplier {noise:g} at rate {rate:g} never spends epsilon {epsilon:g}: "
                "lower noise_multiplier."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def training_budget(
    num_rows: int, batch_size: int, *, noise_multiplier: float, epsilon: float, delta: float
) -> dict[str, float]:
    """Return how long one client of `num_rows` rows may train.

    The result also says how long the client trains by algorithm 4.2 of leitner2023.

    rate: batch / rows, where a batch holds all rows at most. steps: as `affordable_steps`. epochs:
    steps / steps per epoch, where an epoch has max(1, rows // batch) steps. late epochs, late
    epsilon: what is run, and spent, if the budget is looked at before each epoch only and training
    goes on unless it is already overdrawn (lines 3 to 5).
    """
    batch = min(batch_size, num_rows)
    steps_per_epoch = max(1, num_rows // batch)
    steps = affordable_steps(noise_multiplier, batch / num_rows, epsilon, delta)
    late_epochs = steps // steps_per_epoch + 1
    run = Charge(
        "steps",
        "gaussian",
        noise_multiplier,
        rate=batch / num_rows,
        times=late_epochs * steps_per_epoch,
    )
    return {
        "rate": batch / num_rows,
        "steps per epoch": steps_per_epoch,
        "steps": steps,
        "epochs": steps / steps_per_epoch,
        "late epochs": late_epochs,
        "late epsilon": epsilon_of([run], delta, accountant="rdp"),
    }


def training_budgets(settings: pd.DataFrame, batch_size: int, *, epsilon: float) -> pd.DataFrame:
    """Return `training_budget` of each line of `settings`, under its index.

    The columns of `settings` are rows, noise_multiplier and delta.
    """
    facts = [
        training_budget(int(rows), batch_size, noise_multiplier=noise, epsilon=epsilon, delta=delta)
        for rows, noise, delta in settings[["rows", "noise_multiplier", "delta"]].itertuples(
            index=False
        )
    ]
    return pd.DataFrame(facts, index=settings.index)


def chance_in_batch(categories: pd.DataFrame, batch_size: int) -> np.ndarray:
    """Return the probability of each row to be in a batch of training by sampling, (rows,).

    Source: leitner2023, section 4.2.2.

    categories: the discrete columns of the rows. A draw takes a column evenly, one of its
    categories by log(1 + count), and a row of that category evenly; a batch is so many draws with
    replacement. That is not Poisson sampling, so `affordable_steps` does not hold for it at any
    rate.
    """
    one_draw = np.zeros(len(categories))
    for name in categories:
        counts = categories[name].value_counts()
        shares = np.log1p(counts) / np.log1p(counts).sum()
        one_draw += (
            categories[name].map((shares / counts).to_dict()).to_numpy(float) / categories.shape[1]
        )
    return -np.expm1(batch_size * np.log1p(-one_draw))


# --- composition theorems ------------------------------------------------------------------------


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Return epsilon of one Gaussian release at `delta` by the classic bound.

    Source: Dwork and Roth 2014, theorem A.1. The bound holds below epsilon 1 only.

    noise_multiplier: standard deviation / L2 sensitivity.
    """
    epsilon = float(np.sqrt(2 * np.log(1.25 / delta)) / noise_multiplier)
    if epsilon >= 1:
        raise BadInput(
            f"noise_multiplier {noise_multiplier:g} gives epsilon {epsilon:.3g} at delta "
            f"{delta:g}, and the classic bound holds below 1 only: raise noise_multiplier, or use "
            "privacy.exact_gaussian_epsilon."
        )
    return epsilon


def basic_composition(
    epsilon: float, delta: float, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (epsilon, delta) of `times` releases: both add up.

    Source: basic composition, Dwork and Roth 2014, theorem 3.16.
    """
    return times * epsilon, times * delta


def advanced_composition(
    epsilon: float, delta: float, times: np.ndarray, *, slack: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return (epsilon, delta) of `times` releases by advanced composition.

    Source: Dwork, Rothblum and Vadhan 2010, theorem III.3.

    slack: the further delta that buys growth with sqrt(times); leitner2023, theorem 2.9, calls it
        delta tilde.
    """
    total = epsilon * np.sqrt(2 * times * np.log(1 / slack)) + times * epsilon * np.expm1(epsilon)
    return total, times * delta + slack


def renyi_composition(
    noise_multiplier: float, delta: float, times: np.ndarray, *, order: float | None = None
) -> np.ndarray:
    """Return epsilon of `times` Gaussian releases by Renyi composition.

    Source: Mironov 2017, propositions 1 and 3, corollary 3.

    The total delta is `delta`, however many releases there are. order: of the divergence, above 1;
    None takes for each number of releases the one that gives the smallest epsilon, which here is 1
    + sqrt(log(1 / delta) / rho) with rho = times / (2 noise_multiplier^2).
    """
    if order is not None and order <= 1:
        raise BadInput(f"order is {order}: a Renyi order is above 1.")
    rho = times / (2 * noise_multiplier**2)
    if order is None:
        return rho + 2 * np.sqrt(rho * np.log(1 / delta))
    return order * rho + np.log(1 / delta) / (order - 1)


def accumulated(
    times: np.ndarray, *, noise_multiplier: float, delta: float, order: float
) -> pd.DataFrame:
    """Return epsilon of so many Gaussian releases under each theorem.

    The frame has the index `times` and one column per theorem.

    Basic and advanced composition give `delta` to every release, and the latter as much again as
    its slack, so that their total delta grows with `times` (leitner2023, figure 2.1). The others
    end at `delta`; the last is no bound but the exact value (Balle and Wang 2018).
    """
    one = gaussian_epsilon(noise_multiplier, delta)
    exact = [
        exact_gaussian_epsilon([Charge("x", "gaussian", noise_multiplier, times=int(many))], delta)
        for many in times
    ]
    columns = {
        "basic": basic_composition(one, delta, times)[0],
        "advanced": advanced_composition(one, delta, times, slack=delta)[0],
        f"Rényi, order {order:g}": renyi_composition(noise_multiplier, delta, times, order=order),
        "Rényi, best order": renyi_composition(noise_multiplier, delta, times),
        "exact": exact,
    }
    return pd.DataFrame(columns, index=pd.Index(times, name="releases"))
