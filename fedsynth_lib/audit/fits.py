"""How two rates of a test become epsilon where the mechanism is known.

They become epsilon by how little noise the mechanism would need to have to allow them.

A test says "the record is there" in some share of the runs with it (hits) and without it (false
alarms). A mechanism bounds the hits that any number of false alarms can go with; less noise, more
hits. So the rates say how much noise there is at most, and the mechanism's accounting what that
costs (Nasr et al. 2023, "Tight auditing", section 4.2, for Gaussian noise). It needs far fewer runs
than the definition of differential privacy, and says nothing about any other mechanism: read as
Gaussian, Skellam noise of little variance would seem to break a claim that it keeps, since its
losses grow with the logarithm of a count.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, rfft
from scipy.optimize import brentq
from scipy.special import ive
from scipy.stats import norm

from fedsynth_lib.core.contract import Charge

NOISES = np.geomspace(16, 0.15, 400)  # as shares of what the claim needs, by steps of 1.2 percent
WIDTH, POINTS = 2e-3, 2**16  # of the grid of losses, up to 65 of either sign
LOST = 1e-15  # chances below it are those of rounding


class Fit(NamedTuple):
    """How rates become epsilon.

    worth: (hits, false alarms, delta) of tests, larger for more leakage.
    epsilon: of a worth, at delta.
    """

    name: str
    worth: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    epsilon: Callable[[float, float], float]


def pure(hits: np.ndarray, false: np.ndarray, delta: float) -> np.ndarray:
    """Return the smallest epsilon that allows tests these rates.

    By the definition, hits <= e^epsilon * false alarms + delta.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(0.0, np.nan_to_num(np.log(np.maximum(hits - delta, 0) / false), nan=0.0))


def gaussian_shift(hits: np.ndarray, false: np.ndarray, delta: float = 0.0) -> np.ndarray:
    """Return the smallest mu with which mu-Gaussian DP allows tests these rates.

    It does not depend on delta. Source: Dong, Roth and Su 2022, section 2.2.
    """
    with np.errstate(invalid="ignore"):
        return np.maximum(0.0, np.nan_to_num(norm.ppf(hits) + norm.ppf(1 - false), nan=0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return epsilon at `delta` of mu-Gaussian DP.

    Source: Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022, corollary 2.13.
    """
    if mu <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        tail = np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        return float(norm.cdf(mu / 2 - epsilon / mu) - tail - delta)

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0, mu**2 / 2 + 40 * mu))


DEFINITION = Fit("Clopper-Pearson", pure, lambda epsilon, delta: epsilon)
GAUSSIAN = Fit("Gaussian fit", gaussian_shift, gaussian_epsilon)


def skellam(plan: Callable[[float], Sequence[Charge]], claimed: float) -> Fit:
    """Return the fit for a plan whose releases are all counts with Skellam noise.

    The worth of a test is how many of NOISES its rates refute.

    plan: multiplier -> charges. claimed: the multiplier that the claim needs.
    """
    planned = [plan(claimed * share) for share in NOISES]
    allowed = [most_hits(*losses_of(charges, np.ceil)) for charges in planned]

    def worth(hits: np.ndarray, false: np.ndarray, delta: float) -> np.ndarray:
        return sum((hits > most(false)).astype(float) for most in allowed)

    def epsilon(refuted: float, delta: float) -> float:
        if not refuted:
            return 0.0
        return least_epsilon(*losses_of(planned[int(refuted) - 1], np.floor), delta)

    return Fit("Skellam fit", worth, epsilon)


def losses_of(
    charges: Sequence[Charge], rounding: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses of all charges together, and their chances with the record.

    They are two arrays. Chances below LOST are left out at both ends.

    A count x with variance v has chance exp(-v) I_|x|(v), and one more with the record. A loss goes
    to a multiple of WIDTH: rounded up nothing becomes smaller that the charges allow, rounded down
    nothing larger.
    """
    spectrum = np.ones(POINTS // 2 + 1, complex)
    for charge in charges:
        if charge.mechanism != "skellam" or charge.rate != 1:
            raise ValueError(f"{charge.what} is no count of all rows with Skellam noise")
        reach = 40 + int(10 * charge.noise)  # what lies beyond is lost in rounding
        counts = np.arange(-reach, reach + 1)
        there, absent = (ive(np.abs(counts - by), charge.noise**2) for by in (1, 0))
        held = (there > 0) & (absent > 0)
        cells = rounding(np.log(there[held] / absent[held]) / WIDTH).astype(np.int64) % POINTS
        spectrum *= rfft(np.bincount(cells, there[held], POINTS)) ** charge.times
    chances = np.roll(irfft(spectrum, POINTS), POINTS // 2)
    held = np.flatnonzero(chances > LOST)
    shown = slice(held[0], held[-1] + 1)
    return WIDTH * (np.arange(POINTS)[shown] - POINTS // 2), np.maximum(chances[shown], 0)


def most_hits(losses: np.ndarray, chances: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the largest rate of hits that a test can have, by its rate of false alarms.

    By the lemma of Neyman and Pearson, such a test says yes to all losses above some loss, and to a
    share of those equal to it.
    """
    false = np.append(0, np.cumsum((chances * np.exp(-losses))[::-1]))
    hits = np.append(0, np.cumsum(chances[::-1]))
    return lambda rate: np.interp(rate, false, hits + (1 - hits[-1]))


def least_epsilon(losses: np.ndarray, chances: np.ndarray, delta: float) -> float:
    """Return the smallest epsilon among the losses, 0 at least, that holds at `delta`.

    For this epsilon, the sum of chances (1 - exp(epsilon - loss)) over larger losses is at most
    `delta`.
    """
    above, scaled = (np.cumsum(each[::-1])[::-1] for each in (chances, chances * np.exp(-losses)))
    within = above - np.exp(losses) * scaled <= delta
    return max(0.0, float(losses[np.argmax(within)]))
