"""What a privacy audit proves: lower bounds on epsilon.

They are from runs on two neighbouring tables, or from one run.

Scores are numbers that an attacker gives to runs; a high one says "the record is there". A bound
holds with the stated confidence whatever the scores are; good scores only make it larger. Nothing
here proves that a method is private.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import binom

from fedsynth_lib.audit.fits import DEFINITION, Fit

CONFIDENCE = 0.95
MOST_THRESHOLDS = 400  # tried on the half of the runs that the threshold is chosen on


class Rule(NamedTuple):
    """A test that was fixed before it is judged: 'yes' if sign * score >= threshold."""

    threshold: float
    sign: int


def clopper_pearson(hits: np.ndarray, trials: int, *, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Return exact lower and upper limits of a binomial share.

    Each limit is wrong with a probability of at most `tail` (Clopper and Pearson 1934).
    """
    hits = np.asarray(hits, float)
    low = np.where(
        hits > 0, betaincinv(np.maximum(hits, 1), trials - np.maximum(hits, 1) + 1, tail), 0.0
    )
    fewer = np.minimum(hits, trials - 1)
    high = np.where(hits < trials, betaincinv(fewer + 1, trials - fewer, 1 - tail), 1.0)
    return low, high


def _limits(there: np.ndarray, absent: np.ndarray, rules: Sequence[Rule], tail: float):
    """Return the lower limit of the hits and the upper limit of the false alarms of each rule."""
    found = []
    for sign in (1, -1):
        cuts = np.array([rule.threshold for rule in rules if rule.sign == sign])
        yes, no = (
            np.sort(sign * each) for each in ((there, absent) if sign > 0 else (absent, there))
        )
        hits, false = (len(each) - np.searchsorted(each, cuts, side="left") for each in (yes, no))
        found.append(
            (
                clopper_pearson(hits, len(yes), tail=tail)[0],
                clopper_pearson(false, len(no), tail=tail)[1],
            )
        )
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def lower_bound(
    there: Sequence[float],
    absent: Sequence[float],
    delta: float,
    *,
    fit: Fit = DEFINITION,
    confidence: float = CONFIDENCE,
) -> float:
    """Return a lower bound on epsilon at `delta`.

    The bound is too high with probability 1 - confidence at most.

    there, absent: scores of independent runs with and without the record. The test (threshold and
    direction) is chosen on the first half of the runs and judged on the second by Clopper-Pearson
    limits, half of the error for each rate. 'yes' to large scores tests for the record, 'yes' to
    small ones for its absence: the definition bounds both.

    fit: how rates become epsilon; the definition holds for any mechanism (see `audit/fits.py`).
    """
    there, absent = np.asarray(there, float), np.asarray(absent, float)
    tail = (1 - confidence) / 2
    halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in (there, absent)]
    (first_there, second_there), (first_absent, second_absent) = halves

    cuts = np.unique(np.concatenate([first_there, first_absent]))
    cuts = cuts[np.linspace(0, len(cuts) - 1, min(len(cuts), MOST_THRESHOLDS)).astype(int)]
    rules = [Rule(cut, 1) for cut in cuts] + [Rule(-cut, -1) for cut in cuts]
    chosen = fit.worth(*_limits(first_there, first_absent, rules, tail), delta)
    best = [rules[int(np.argmax(chosen))]]
    judged = fit.worth(*_limits(second_there, second_absent, best, tail), delta)
    return fit.epsilon(float(judged[0]), delta)


# --- one run -------------------------------------------------------------------------------------


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return how probable so many right guesses are at most, if a run is (epsilon, delta)-DP.

    Source: Steinke et al. 2023, theorem 5.2.

    canaries: records that were put in or left out by fair coins, m. guesses: how many of them the
        auditor guessed, r.
    right: guesses that are right, v. With W binomial(r, e^epsilon / (1 + e^epsilon)):
    P[W >= v] + 2 m delta max over i of P[v > W >= v - i] / i.
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"{right} right of {guesses} guesses about {canaries} canaries cannot be")
    chance = 1 / (1 + np.exp(-epsilon))
    beyond = binom.sf(right - 1, guesses, chance)
    steps = np.arange(1, right + 1)
    below = np.cumsum(binom.pmf(right - steps, guesses, chance))
    correction = float((below / steps).max()) if right else 0.0
    return float(min(1.0, beyond + 2 * canaries * delta * correction))


def one_run_bound(
    canaries: int, guesses: int, right: int, delta: float = 0.0, *, confidence: float = CONFIDENCE
) -> float:
    """Return the largest epsilon that so many right guesses refute at this confidence.

    The result is 0 if they refute none.
    """

    def excess(epsilon: float) -> float:
        return one_run_p_value(canaries, guesses, right, epsilon, delta) - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9))
