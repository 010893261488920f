"""Epsilon by composing privacy losses numerically: tighter than Renyi DP, and a proven bound.

A release is described by its worst pair of output distributions, and the pair by the distribution
of its privacy loss log(p / q) under p. Losses of independent releases add up, so their
distributions are convolved, by Fourier transform (Koskela, Jaelkoe and Honkela 2020; Gopi, Lee and
Wutschitz 2021).

Losses are put on a grid such that nothing becomes smaller: what falls between two points is divided
among them so that both probabilities, p and q, are kept ("connect the dots", Doroshenko, Ghazi,
Kamath, Kumar and Manurangsi 2022). What is cut off at the ends, wrapped around by the transform, or
lost to rounding is added to delta. Hence there is no error parameter to state, and no figure here
is below the true one.

With sampled rows, adding a record and removing one are different pairs; under composition neither
need be the worse (Lebeda, Regehr, Kamath and Steinke 2024), so both are computed. Opacus's
accountant has the removal only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ive, ndtr, ndtri

from fedsynth_lib.core.contract import Charge

# of the grid, as a share of epsilon / sqrt(releases): figures are then within 0.1 % of the true
# ones
FINENESS = 0.01
CUT = 1e-6  # the share of delta that each of the two ways of cutting off may cost
MOST_POINTS = 2**22  # of a grid: some seconds
MOST_KINDS = 64  # of releases, each of which needs a transform
MOST_EPSILON = 50.0  # above it exponentials of losses lose their digits


@dataclass(frozen=True)
class Losses:
    """The loss of one release: `masses` at first * width, (first + 1) * width, ...

    The probability `lost` is taken to have infinite loss.
    """

    first: int
    masses: np.ndarray
    lost: float = 0.0


def numerical_epsilon(charges: Sequence[Charge], delta: float, rough: float) -> float:
    """Return epsilon at `delta` of charges about the same record.

    The noise of these charges must have been fixed beforehand, and none of them may be a selection.

    rough: an epsilon of about the same size, such as that of Renyi DP; it sets the width of the
    grid. The result is infinite if numbers would not be exact enough or take too long: there is
    then no figure.
    """
    releases = sum(charge.times for charge in charges)
    if len(charges) > MOST_KINDS or not 0 < rough <= MOST_EPSILON or delta <= 0:
        return np.inf
    # A power of two: nearby plans have the same grid, on which more noise or fewer releases never
    # cost more.
    width = 2.0 ** np.floor(np.log2(FINENESS * rough / np.sqrt(releases)))
    sampled = any(charge.rate < 1 for charge in charges)
    return max(
        _epsilon(charges, delta, rough, width, adding=adding)
        for adding in ((False, True) if sampled else (False,))
    )


def _epsilon(
    charges: Sequence[Charge], delta: float, rough: float, width: float, *, adding: bool
) -> float:
    releases = sum(charge.times for charge in charges)
    steps = []
    for charge in charges:
        if charge.mechanism == "gaussian":
            losses = _gaussian(
                charge.noise, charge.rate, width, CUT * delta / releases, adding=adding
            )
        elif charge.mechanism == "skellam":
            losses = _skellam(charge.noise**2, width, CUT * delta / releases)
        else:
            losses = _pure(1 / charge.noise, width)
        if losses is None:
            return np.inf
        steps.append((charge.times, losses))
    low, high = _range(steps, width, CUT * delta, rough)
    size = next_fast_len(max(2, int(np.ceil((high - low) / width)) + 2), real=True)
    if size > MOST_POINTS or high > 700:  # beyond 700 an exponential overflows
        return np.inf
    start = int(np.floor(low / width))
    masses = _sum_of(steps, start, size)
    # Rounding of the transforms, relative to the root of the sum of squares (Higham 2002, theorem
    # 24.2), and of powers.
    rounding = (
        4 * np.finfo(float).eps * np.log2(size) * releases * np.sqrt(size) * np.linalg.norm(masses)
    )
    target = delta - CUT * delta - sum(times * losses.lost for times, losses in steps) - rounding
    return _epsilon_at((start + np.arange(size)) * width, np.maximum(masses, 0), target)


def _gaussian(
    noise: float, rate: float, width: float, tail: float, *, adding: bool
) -> Losses | None:
    """Return the loss of a sampled Gaussian release.

    In p the record is sampled with probability `rate`, and q does not have it. If `adding`, p and q
    are swapped.

    The result is None if `_cells` has no grid for it.
    """
    if (cells := _cells(noise, rate, width, tail)) is None:
        return None
    grid, having, without = cells
    if adding:  # the losses change their sign, and so their order
        grid, p, q = -grid[::-1], without[::-1], having[::-1]
    else:
        p, q = having, without
    masses = _on_grid(p[1:-1], q[1:-1], grid[:-1], width)
    masses[0] += p[0]  # moved up to the first point
    return Losses(round(grid[0] / width), masses, p[-1])


@lru_cache(maxsize=4)  # both directions need it
def _cells(
    noise: float, rate: float, width: float, tail: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return a grid of losses, and the probabilities below it, between its points and above it.

    The probabilities are those with the record and those without it. The loss at x, which grows
    with x, is

        log(1 - rate + rate exp((2x - 1) / 2s^2))

    The result is None if losses are too large, or the grid would need more points than allowed.
    """
    reach = -noise * ndtri(tail)
    if (1 + 2 * reach) / (2 * noise**2) > 600:
        return None
    ends = np.log1p(rate * np.expm1((2 * np.array([-reach, 1 + reach]) - 1) / (2 * noise**2)))
    first, last = int(np.floor(ends[0] / width)), int(np.ceil(ends[1] / width))
    if last - first > MOST_POINTS:
        return None
    grid = width * np.arange(first, last + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = noise**2 * np.log1p(np.expm1(grid) / rate) + 0.5
    # nan: below all losses there are
    x = np.concatenate([[-np.inf], np.where(np.isnan(x), -np.inf, x), [np.inf]])
    without, having = _between(x / noise), _between((x - 1) / noise)
    return grid, rate * having + (1 - rate) * without, without


def _between(x: np.ndarray) -> np.ndarray:
    """Return the standard normal probability between neighbouring points.

    The difference is taken in the tail where nothing cancels.
    """
    left, right = x[:-1], x[1:]
    return np.where(left > 0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))


def _on_grid(p: np.ndarray, q: np.ndarray, left: np.ndarray, width: float) -> np.ndarray:
    """Return masses at the points left[0], ..., left[-1] + width.

    Each cell begins at a point of `left` and holds the probabilities p and q, which are divided
    among its two ends.
    """
    upper = np.clip((p - q * np.exp(left)) / -np.expm1(-width), 0, p)
    return np.append(p - upper, 0) + np.insert(upper, 0, 0)


def _skellam(variance: float, width: float, tail: float) -> Losses | None:
    """Return the loss of a count that moves by 1 and has Skellam noise.

    Skellam noise takes whole numbers alone, with P(x) = exp(-variance) I_x(variance), where I are
    Bessel functions. It is symmetric and log-concave, so adding and removing a record are one pair,
    and the loss grows with x.

    The result is None if there are too many values, or numbers beyond the reach of Bessel
    functions.
    """
    log_tail = -np.log(tail)
    # Bernstein: beyond it lies less than `tail`
    reach = int(np.ceil(np.sqrt(2 * variance * log_tail) + log_tail / 3)) + 1
    if reach > MOST_POINTS // 2:
        return None
    # of either sign once: Bessel functions take nearly all the time of a calibration
    chances = ive(np.arange(reach + 2), variance)[np.abs(np.arange(-reach - 1, reach + 1))]
    p, q = chances[:-1], chances[1:]
    held = (p > 0) & (q > 0)
    if np.isnan(chances).any() or not held.any():  # beyond what the Bessel functions reach
        return None
    p, q = p[held], q[held]
    losses = np.log(p / q)
    if not np.isfinite(losses).all() or losses.max() > 600:
        return None
    cells = np.floor(losses / width).astype(np.int64)
    first, size = int(cells.min()), int(cells.max() - cells.min()) + 2
    if size > MOST_POINTS:
        return None
    upper = np.clip((p - q * np.exp(cells * width)) / -np.expm1(-width), 0, p)
    masses = np.bincount(cells - first, p - upper, size)
    masses += np.bincount(cells - first + 1, upper, size)
    return Losses(first, masses, max(tail, 1 - float(p.sum())))


def _pure(epsilon: float, width: float) -> Losses:
    """Return the loss of randomised response, the worst pure release.

    Source: Kairouz, Oh and Viswanath 2015, theorem 3.4.
    """
    last = int(np.ceil(epsilon / width))
    masses = np.zeros(2 * last + 2)
    for loss in (-epsilon, epsilon):
        cell, p = int(np.floor(loss / width)), 1 / (1 + np.exp(-loss))
        masses[cell + last : cell + last + 2] += _on_grid(
            np.array([p]), np.array([p * np.exp(-loss)]), np.array([cell * width]), width
        )
    return Losses(-last, masses)


def _range(
    steps: list[tuple[int, Losses]], width: float, tail: float, rough: float
) -> tuple[float, float]:
    """Return an interval of the sum of all losses, by Chernoff bounds.

    The sum is beyond either end with a probability of `tail` at most.
    """
    slopes = np.geomspace(2, 200, 10) / rough

    def bound(sign: int) -> float:
        logs = np.zeros(len(slopes))
        for times, losses in steps:
            held = np.flatnonzero(losses.masses)
            masses, points = losses.masses[held], sign * width * (losses.first + held)
            excess = masses.sum() - 1
            with np.errstate(over="ignore"):  # too steep a slope says nothing
                growth = np.array([masses @ np.expm1(slope * points) for slope in slopes])
            logs += times * np.log1p(growth + excess)
        return float(((logs - np.log(tail)) / slopes).min())

    return -bound(-1), bound(1)


def _sum_of(steps: list[tuple[int, Losses]], start: int, size: int) -> np.ndarray:
    """Return the masses of the sum of all losses at start, start + 1, ..., modulo `size`.

    The positions are in widths of the grid. What wraps around is in the tails that were cut off.
    """
    spectrum = np.ones(size // 2 + 1, complex)
    for times, losses in steps:
        places = (losses.first + np.arange(len(losses.masses))) % size
        spectrum *= rfft(np.bincount(places, losses.masses, minlength=size)) ** times
    return np.roll(irfft(spectrum, size), -(start % size))


def _epsilon_at(losses: np.ndarray, masses: np.ndarray, delta: float) -> float:
    """Return the smallest epsilon that these losses allow at `delta`.

    For this epsilon, the sum of masses (1 - exp(epsilon - loss)) over larger losses is at most
    `delta`.
    """
    if delta <= 0:
        return np.inf
    losses, masses = losses[losses > 0], masses[losses > 0]
    if not len(losses):
        return 0.0
    above, scaled = (np.cumsum(values[::-1])[::-1] for values in (masses, masses * np.exp(-losses)))
    # the last point is, for nothing is above it
    index = int(np.argmax(above - np.exp(losses) * scaled <= delta))
    if above[index] <= delta:
        return float(losses[index - 1]) if index else 0.0
    return float(max(0.0, np.log((above[index] - delta) / scaled[index])))
