"""From what was released to epsilon: mechanisms, accounting, calibration.

Everything is said about one record, added or removed. Two accountants give valid figures. The first
is Renyi DP (Mironov 2017) with the conversion of Canonne, Kamath and Steinke (2020, proposition
12), which for Gaussian noise alone is the tight conversion of zCDP; releases with pure epsilon are
also added up as such, and the smaller total counts. The second composes privacy losses numerically
(`core/privacy_loss.py`), and is exact for Gaussian noise on all rows. The smaller figure counts,
unless Renyi DP is asked for by name.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr  # scipy.stats takes long to import

from fedsynth_lib.core.contract import BadInput, Charge, Noise, Privacy, Relation
from fedsynth_lib.core.privacy_loss import numerical_epsilon

Accountant = Literal["smallest", "rdp"]
Profile = tuple[Charge, ...]  # all that one record pays, each kind of release once

# Renyi orders: dense near 1 (large epsilon), reaching far (small epsilon with small delta).
ORDERS = np.concatenate(
    [
        1 + np.geomspace(0.005, 1, 60),
        np.arange(21, 120) / 10,
        np.arange(24, 128) / 2,
        np.round(np.geomspace(64, 20000, 160)),
    ]
)


class BudgetExceeded(BadInput):
    """A run would spend, or has spent, more than it was allowed."""


# --- mechanisms ----------------------------------------------------------------------------------


def discrete_laplace_share(
    scale: float, num_shares: int, shape: tuple[int, ...], *, rng: np.random.Generator
) -> np.ndarray:
    """Draw one of `num_shares` integer shares whose sum is discrete Laplace noise.

    int64 of `shape`.

    The sum X has P(X = x) proportional to exp(-|x| / scale). A geometric variable is the sum of K
    negative binomial ones of size 1/K, and discrete Laplace noise is the difference of two
    geometric ones. So K clients can make it together while none knows it, and a plain secure sum
    suffices (the squares of Rastogi and Nath 2010, which the work names, need more). The shares are
    integers, because floating-point Laplace noise leaks through its rounding (Mironov 2012).
    """
    stop = -np.expm1(-1 / scale)
    draw = rng.negative_binomial(1 / num_shares, stop, size=(2, *shape))
    return draw[0] - draw[1]


def skellam_share(
    variance: float, num_shares: int, shape: tuple[int, ...], *, rng: np.random.Generator
) -> np.ndarray:
    """Draw one of `num_shares` integer shares whose sum is Skellam noise of this variance.

    int64 of `shape`.

    A Skellam variable is the difference of two Poisson variables, and sums of Poisson variables are
    Poisson again. Clients can therefore make the noise together exactly, whatever their number
    (Agarwal, Kairouz and Liu 2021).
    """
    draw = rng.poisson(variance / (2 * num_shares), size=(2, *shape))
    return draw[0] - draw[1]


def laplace_by_squares(
    scale: float, num_shares: int, shape: tuple[int, ...], *, rng: np.random.Generator
) -> np.ndarray:
    """Draw Laplace noise of `scale` as the published protocol makes it (DLPA).

    The noise is N1^2 + N2^2 - N3^2 - N4^2. Every client contributes to each N_i a normal part of
    VARIANCE scale / (2 num_shares), and the parts are added before squaring. This function is kept
    to teach and to test; runs use `discrete_laplace_share`.
    """
    parts = rng.normal(0, np.sqrt(scale / (2 * num_shares)), size=(num_shares, 4, *shape))
    first, second, third, fourth = parts.sum(axis=0) ** 2
    return first + second - third - fourth


def gaussian(
    values: np.ndarray, *, noise_multiplier: float, l2_sensitivity: float, rng: np.random.Generator
):
    """Return `values` plus normal noise of standard deviation noise_multiplier * l2_sensitivity."""
    return values + rng.normal(0, noise_multiplier * l2_sensitivity, np.shape(values))


def gaussian_counts(
    counts: np.ndarray, noise_multiplier: float, *, l2_sensitivity: float, noise: Noise
) -> np.ndarray:
    """Return counts plus normal noise of standard deviation noise_multiplier * l2_sensitivity.

    The noise is rounded to whole numbers unless `noise.whole` is false. The result has the shape of
    `counts`.

    Since the counts are whole, rounding the noise and rounding the noisy counts are the same:
    post-processing, which costs nothing, and adds at most 1/12 to the variance. Left unrounded, the
    low bits of the floating-point sum betray which count was there (Mironov 2012): they are a
    function of the count and of noise that has a grid of its own.
    """
    drawn = noise.rng.normal(0, noise_multiplier * l2_sensitivity, np.shape(counts))
    return counts + (np.rint(drawn) if noise.whole else drawn)


def exponential(
    scores: np.ndarray, *, noise_multiplier: float, sensitivity: float, rng: np.random.Generator
) -> int:
    """Choose an index with P proportional to exp(scores / (noise_multiplier * sensitivity)).

    The Gumbel form of the exponential mechanism; it costs epsilon = 2 / noise_multiplier, where
    `sensitivity` bounds how far one record moves any one score.
    """
    return int(np.argmax(scores + rng.gumbel(0, noise_multiplier * sensitivity, len(scores))))


# --- accounting ----------------------------------------------------------------------------------


def pure_epsilon(charge: Charge) -> float:
    """Return what one repetition of the charge costs as pure epsilon.

    The result is infinite for a mechanism without pure epsilon, and for a charge without noise.
    """
    if charge.noise <= 0:
        return np.inf
    return {"laplace": 1, "exponential": 2}.get(charge.mechanism, np.inf) / charge.noise


def rdp(charge: Charge, orders: np.ndarray = ORDERS) -> np.ndarray:
    """Return the charge's Renyi divergence bound at each order, all repetitions included."""
    if charge.noise <= 0:
        return np.full(len(orders), np.inf)
    if charge.mechanism == "gaussian" and charge.rate < 1:
        return charge.times * _sampled_gaussian(charge.rate, charge.noise, tuple(orders))
    if charge.mechanism == "gaussian":
        return charge.times * orders / (2 * charge.noise**2)
    if charge.mechanism == "skellam":
        return charge.times * _skellam(charge.noise**2, orders)
    epsilon = pure_epsilon(charge)
    # Randomised response is the worst pure-epsilon mechanism, and discrete Laplace noise at
    # sensitivity 1 attains it, so Mironov's smaller curve for continuous Laplace must not be used
    # here.
    log_p, log_q = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    worst = np.logaddexp(
        orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p
    ) / (orders - 1)
    # bounded range: epsilon^2 / 8 zCDP (Cesar and Rogers 2021)
    if charge.mechanism == "exponential":
        worst = np.minimum(worst, orders * epsilon**2 / 8)
    return charge.times * worst


def _skellam(variance: float, orders: np.ndarray) -> np.ndarray:
    """Return the Renyi divergence bound of Skellam noise on a count that moves by 1.

    Source: Agarwal, Kairouz and Liu 2021, theorem 3.5. The theorem is for whole orders. A curve
    does not fall as the order grows, so any other order takes the bound of the next whole one.
    """
    whole = np.ceil(orders)
    excess = np.minimum((2 * whole + 5) / (4 * variance**2), 3 / (2 * variance))
    return whole / (2 * variance) + excess


@lru_cache(maxsize=256)
def _sampled_gaussian(rate: float, noise: float, orders: tuple[float, ...]) -> np.ndarray:
    """Return the Renyi divergence of one Poisson-sampled Gaussian step at each order.

    Source: Mironov, Talwar and Zhang 2019. For x normal with deviation s, the divergence is

        log E[(1 - q + q exp((2x - 1) / 2s^2))^a] / (a - 1)

    At whole orders up to 256 it is the sum of section 3.3. At other orders from 1.1 to below 12,
    and for noise of at least 0.05, it is computed by the trapezoid rule, whose error is below
    rounding for so smooth an integrand. At the remaining orders the result is infinity, which
    proves nothing. The values are tested equal to those of Opacus, whose series take up to a
    thousand times as long.
    """
    grid = np.array(orders)
    whole = grid == np.round(grid)
    curve = np.full(len(grid), np.inf)
    usable = {_at_whole_orders: whole & (grid <= 256)}
    if noise >= 0.05:  # below, the rule would need a fine grid for an epsilon in the thousands
        usable[_at_any_orders] = ~whole & (grid >= 1.1) & (grid < 12)
    for log_moment, chosen in usable.items():
        if chosen.any():
            curve[chosen] = log_moment(rate, noise, grid[chosen]) / (grid[chosen] - 1)
    return curve


def _at_whole_orders(rate: float, noise: float, orders: np.ndarray) -> np.ndarray:
    k, order = np.arange(orders.max() + 1), orders[:, None]
    drawn = np.minimum(k, order)
    ways = gammaln(order + 1) - gammaln(drawn + 1) - gammaln(order - drawn + 1)
    chances = np.where(k <= order, ways + k * np.log(rate) + (order - k) * np.log1p(-rate), -np.inf)
    return _log_mean_exp(chances, (k * k - k) / (2 * noise**2))


def _at_any_orders(rate: float, noise: float, orders: np.ndarray) -> np.ndarray:
    step = max(min(noise, noise**2) / 12, noise / 60)
    x = np.arange(-12 * noise - 1, orders.max() + 12 * noise + 1, step)
    exponent = (2 * x - 1) / (2 * noise**2)
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 1)))
    ratio = np.where(exponent < 1, small, np.logaddexp(np.log1p(-rate), np.log(rate) + exponent))
    log_density = -((x / noise) ** 2) / 2 - np.log(2 * np.pi) / 2 - np.log(noise)
    return _log_mean_exp(log_density + np.log(step), orders[:, None] * ratio)


def _log_mean_exp(log_weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the log of sum(weights exp(values)) along the last axis, weights adding up to 1.

    The result is also exact where the mean is near 1.
    """
    total = logsumexp(log_weights + values, axis=-1)
    # where the total is large, which takes the other branch
    with np.errstate(over="ignore", invalid="ignore"):
        growth = np.exp(log_weights) * np.expm1(np.minimum(values, 1))
        growth = np.where(values < 1, growth, np.exp(log_weights + values) - np.exp(log_weights))
        near_one = np.log1p(growth.sum(axis=-1))
    return np.where(np.abs(total) < 0.1, near_one, total)


def rdp_to_epsilon(curve: np.ndarray, delta: float, orders: np.ndarray = ORDERS) -> float:
    """Return the smallest epsilon that the curve proves at `delta`.

    Source: Canonne, Kamath and Steinke 2020, proposition 12.
    """
    if delta <= 0:
        return np.inf
    curve = np.where(np.isnan(curve), np.inf, curve)
    epsilon = curve + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return float(max(0.0, epsilon.min()))


def zcdp_to_epsilon(rho: float, delta: float) -> float:
    """Return the tight epsilon of rho-zCDP at `delta`.

    It uses the conversion of `rdp_to_epsilon`, minimised over every real order.
    """

    def epsilon(log_excess: float) -> float:
        order = 1 + np.exp(log_excess)
        return rho * order + np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)

    return max(
        0.0,
        minimize_scalar(epsilon, bounds=(-12, 20), method="bounded", options={"xatol": 1e-10}).fun,
    )


def epsilon_to_zcdp(epsilon: float, delta: float) -> float:
    """Return the largest rho whose tight conversion stays at or below epsilon."""
    low, high = 0.0, epsilon  # rho <= epsilon since the conversion never goes below rho
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_to_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


@lru_cache(maxsize=4096)
def _renyi(profile: Profile, delta: float) -> float:
    """Return epsilon at `delta` of charges about the same record by Renyi DP.

    Charges with pure epsilon are also added up as such, on top of the Renyi DP of the others. The
    smaller of the two totals is returned.
    """
    if not profile:
        return 0.0
    total = rdp_to_epsilon(sum(rdp(charge) for charge in profile), delta)
    pure = [charge for charge in profile if np.isfinite(pure_epsilon(charge))]
    rest = [charge for charge in profile if not np.isfinite(pure_epsilon(charge))]
    added_up = _added_up(pure)
    if rest:
        added_up += rdp_to_epsilon(sum(rdp(charge) for charge in rest), delta)
    return min(total, added_up)


def _added_up(pure: Iterable[Charge]) -> float:
    return sum(pure_epsilon(charge) * charge.times for charge in pure)


@lru_cache(maxsize=4096)
def _numerical(profile: Profile, delta: float) -> float:
    """Return epsilon at `delta` of charges about the same record by their composed losses.

    The result is infinite if composed losses give no figure.

    A method that selects also chooses later noise by what it saw. Composed losses need noise that
    was fixed beforehand. Pure epsilons add up without that condition, and so do the 1 / noise^2 of
    Gaussian releases of all rows (Smith and Thakurta 2022). Hence, with selections, all pure
    epsilons are added to the exact figure of the Gaussian releases.
    """
    if delta <= 0 or any(charge.noise <= 0 for charge in profile):
        return np.inf
    skellam = [charge for charge in profile if charge.mechanism == "skellam"]
    pure = [c for c in profile if c.mechanism not in ("gaussian", "skellam")]
    sampled = [charge for charge in profile if charge.rate < 1]
    rest = [charge for charge in profile if charge.mechanism == "gaussian" and charge.rate == 1]
    selects = any(charge.mechanism == "exponential" for charge in pure)
    if selects and (sampled or skellam):
        return np.inf
    mu = np.sqrt(sum(charge.times / charge.noise**2 for charge in rest))
    if selects or not (pure or sampled or skellam):
        return _added_up(pure) + _exact(mu, delta)
    together = [*pure, *sampled, *skellam, *([Charge("", "gaussian", 1 / mu)] if rest else [])]
    figure = numerical_epsilon(together, delta, _renyi(profile, delta))
    return (
        _added_up(pure) + _numerical(tuple(sampled + rest + skellam), delta)
        if pure and np.isinf(figure)
        else figure
    )


def as_relation(charges: Iterable[Charge], relation: Relation) -> list[Charge]:
    """Return the charges as the relation sees them.

    Charges are recorded for adding or removing a record.

    Replacing a record is removing one and adding one: the sensitivity doubles (triangle
    inequality), that is, the noise multiplier halves. Of counts with Skellam noise, one falls by 1
    and another one, with noise of its own, rises by 1: these are two releases. Poisson sampling has
    no such shortcut.
    """
    charges = list(charges)
    if relation == "add_remove":
        return charges
    if any(charge.rate < 1 for charge in charges):
        raise BadInput(
            "relation 'replace_one' has no accounting under Poisson sampling: use 'add_remove'."
        )
    return [
        replace(charge, times=2 * charge.times)
        if charge.mechanism == "skellam"
        else replace(charge, noise=charge.noise / 2)
        for charge in charges
    ]


def epsilon_of(
    charges: Iterable[Charge],
    delta: float = 0.0,
    relation: Relation = "add_remove",
    *,
    accountant: Accountant = "smallest",
) -> float:
    """Return the epsilon of the noisy releases among `charges`, at `delta`.

    A record belongs to one client, so clients compose in parallel: the largest client counts, not
    the sum. Charges without a client concern every record. Unprotected releases have no epsilon;
    they do not enter here and are listed by `statement`.
    accountant: 'smallest' takes the smaller of the valid figures for each client, 'rdp' that of
        Renyi DP.
    """
    profiles = noisy_profiles(charges, relation)
    if accountant == "rdp":
        return max(_renyi(profile, delta) for profile in profiles)
    return _largest(
        profiles, delta, lambda profile: min(_renyi(profile, delta), _numerical(profile, delta))
    )


def numerical_epsilon_of(
    charges: Iterable[Charge], delta: float = 0.0, relation: Relation = "add_remove"
) -> float | None:
    """Return epsilon by composed losses alone; None if they give no figure.

    The other rules are those of `epsilon_of`; `core/privacy_loss.py` says when there is no figure.
    Clients whose epsilon by Renyi DP is no larger than the largest figure found are left out: they
    pay no more than that, so their losses need not be composed.
    """
    epsilon = _largest(
        noisy_profiles(charges, relation), delta, lambda profile: _numerical(profile, delta)
    )
    return epsilon if np.isfinite(epsilon) else None


def _largest(
    profiles: Iterable[Profile], delta: float, figure: Callable[[Profile], float]
) -> float:
    """Return the largest figure of all profiles.

    A profile is left out if Renyi DP shows that it pays no more than the largest figure found.
    """
    most = 0.0
    for profile in sorted(profiles, key=lambda profile: _renyi(profile, delta), reverse=True):
        if _renyi(profile, delta) <= most:
            break
        most = max(most, figure(profile))
    return most


def noisy_profiles(charges: Iterable[Charge], relation: Relation = "add_remove") -> list[Profile]:
    """Return what each client's records pay for noisy releases, as the relation sees it.

    Clients that pay the same share one profile.
    """
    return _profiles(charge for charge in as_relation(charges, relation) if charge.protected)


def _profiles(charges: Iterable[Charge]) -> list[Profile]:
    """Return what each client's records pay, equal releases counted together.

    Clients that pay the same share one profile.
    """
    tallies: dict[int | None, Counter] = {None: Counter()}
    for c in charges:
        tallies.setdefault(c.client, Counter())[(c.mechanism, c.noise, c.rate)] += c.times
    shared = tallies.pop(None)
    profiles = {frozenset((tally + shared).items()) for tally in tallies.values()} or {
        frozenset(shared.items())
    }
    return [
        tuple(
            Charge("", mechanism, noise, rate=rate, times=times)
            for (mechanism, noise, rate), times in kinds
        )
        for kinds in map(sorted, profiles)
    ]


def accountant_of(privacy: Privacy) -> Accountant:
    """Return the accountant of a run.

    Reproductions use Renyi DP, because the committed result rows of the works were accounted by it.
    All other runs take the smallest valid figure.
    """
    return "rdp" if privacy.reproduction else "smallest"


def calibrate(plan: Callable[[float], list[Charge]], privacy: Privacy) -> float:
    """Return the smallest noise multiplier whose plan stays within the budget.

    The epsilon of the plan is never above the budget. It is below it by at most 1e-6 of the budget,
    unless even the smallest multiplier tried, 1e-6, stays within the budget.

    Raises BadInput if no multiplier up to 1e9 stays within it, for instance Gaussian noise with
    delta 0.
    """
    enough = _calibrate_by_renyi(plan, privacy)
    return enough if privacy.reproduction else _refine(plan, privacy, enough)


def _excess(
    plan: Callable[[float], list[Charge]], privacy: Privacy, accountant: Accountant, exponent: float
) -> float:
    """Return the logarithm of the epsilon that is spent, minus that of the budget.

    The ratio of the two is clipped to the range from 1e-9 to 1e9, so that a root finder can work
    with it.
    """
    spent = epsilon_of(
        plan(float(np.exp(exponent))), privacy.delta, privacy.relation, accountant=accountant
    )
    return float(np.log(np.clip(spent / privacy.epsilon, 1e-9, 1e9)))


def _calibrate_by_renyi(plan: Callable[[float], list[Charge]], privacy: Privacy) -> float:
    excess = partial(_excess, plan, privacy, "rdp")
    least, most = np.log(1e-6), np.log(1e9)
    if excess(most) > 0:
        raise BadInput(
            f"no amount of noise reaches epsilon {privacy.epsilon} at delta {privacy.delta}: "
            "raise epsilon, or give a delta above 0 if the method draws Gaussian noise."
        )
    if excess(least) <= 0:
        return float(np.exp(least))
    low = high = 0.0  # a bracket around noise 1, widened towards the root
    while excess(high) > 0:
        low, high = high, min(2 * high + 1, most)
    while excess(low) <= 0:
        low, high = max(2 * low - 1, least), low
    root, nudge = brentq(excess, low, high, xtol=1e-11, rtol=1e-13), 1e-11
    while excess(root) > 0:  # the root finder stops on either side
        root, nudge = root + nudge, 2 * nudge
    return float(np.exp(root))


def _refine(plan: Callable[[float], list[Charge]], privacy: Privacy, enough: float) -> float:
    """Return the smallest multiplier, at most `enough`, by the smaller figure of both accountants.

    The multiplier `enough` is known to be within the budget.
    """
    excess = lru_cache(maxsize=None)(partial(_excess, plan, privacy, "smallest"))
    top, least = float(np.log(enough)), float(np.log(1e-6))
    if excess(top) >= 0 or top <= least:
        return enough
    step = max(-excess(top), 1e-6)  # epsilon falls at least about as fast as noise grows
    high, low = top, max(top - step, least)
    while excess(low) <= 0:
        if low == least:
            return float(np.exp(least))
        high, low, step = low, max(low - step, least), 2 * step
    root, nudge = brentq(excess, low, high, xtol=1e-9, rtol=1e-13), 1e-9
    while root < top and excess(root) > 0:
        root, nudge = root + nudge, 2 * nudge
    return min(float(np.exp(root)), enough)


def within_budget(
    charges: Iterable[Charge],
    privacy: Privacy,
    *,
    slack: float = 0.0,
    promised: Iterable[Profile] = (),
) -> bool:
    """Whether the noisy releases cost no more than the budget.

    promised: profiles that are known to be within the budget; so is each profile that is a part of
        one of them. Losses are composed only if neither these nor Renyi DP, which takes no time,
        give the answer.
    """
    allowed, promised = privacy.epsilon * (1 + slack), list(promised)
    return all(
        _renyi(profile, privacy.delta) <= allowed
        or any(_is_part(profile, known) for known in promised)
        or (not privacy.reproduction and _numerical(profile, privacy.delta) <= allowed)
        for profile in noisy_profiles(charges, privacy.relation)
    )


def _is_part(profile: Profile, whole: Profile) -> bool:
    """Whether each kind of release is in `whole` at least as often."""
    times = {replace(charge, times=1): charge.times for charge in whole}
    return all(charge.times <= times.get(replace(charge, times=1), 0) for charge in profile)


def check_budget(
    charges: Iterable[Charge], privacy: Privacy, *, when: str, promised: Iterable[Profile] = ()
) -> None:
    """Raise BudgetExceeded if the noisy releases cost more than the budget.

    promised: as in `within_budget`.
    """
    charges = list(charges)
    if privacy.epsilon is None or within_budget(charges, privacy, slack=1e-6, promised=promised):
        return
    spent = epsilon_of(charges, privacy.delta, privacy.relation, accountant=accountant_of(privacy))
    raise BudgetExceeded(
        f"{when} epsilon {spent:.4g} would be spent of a budget of {privacy.epsilon:g} (delta "
        f"{privacy.delta:g}): raise noise_multiplier or epsilon, or leave noise_multiplier out to "
        "have it calibrated."
    )


def check_delta(privacy: Privacy, num_rows: int) -> None:
    """Raise BadInput if delta is above 1 / num_rows, unless the run asks for that by name.

    Publishing each record with probability delta has epsilon 0 at that delta, and from delta = 1 /
    n on some record is expected to be published (Dwork and Roth 2014, section 2.3). n counts the
    rows of all clients of the run: the harm is done to whichever record it is, so a large run must
    not take the delta of its smallest client.
    """
    if (
        privacy.epsilon is None
        or privacy.large_delta
        or privacy.reproduction
        or not exceeds(privacy.delta, num_rows)
    ):
        return
    raise BadInput(
        f"delta is {privacy.delta:g}, above 1 / n for the {num_rows} rows of this run, which "
        f"allows that whole records are published: give at most 1 / {num_rows}, or ask for it by "
        "name with Privacy(large_delta=True)."
    )


def exceeds(delta: float, num_rows: int) -> bool:
    """Whether delta is above 1 / num_rows, but for rounding."""
    return bool(delta * num_rows > 1 + 1e-9)


def exact_gaussian_epsilon(charges: Iterable[Charge], delta: float) -> float | None:
    """Return the exact epsilon when every noisy release is unsampled Gaussian, else None.

    Source: Balle and Wang 2018. Gaussian releases compose to one Gaussian release whose mu^2 is the
    sum of 1 / noise^2.
    """
    noisy = [charge for charge in charges if charge.protected]
    if (
        not noisy
        or delta <= 0
        or any(c.mechanism != "gaussian" or c.rate < 1 or c.noise <= 0 for c in noisy)
    ):
        return None
    return _exact(
        max(np.sqrt(sum(c.times / c.noise**2 for c in profile)) for profile in _profiles(noisy)),
        delta,
    )


def _exact(mu: float, delta: float) -> float:
    """Return the exact epsilon at `delta` of one Gaussian release of deviation 1 / mu.

    Source: Balle and Wang 2018, theorem 8.
    """

    def excess(epsilon: float) -> float:
        tail = np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        return ndtr(mu / 2 - epsilon / mu) - tail - delta

    if mu == 0 or excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0, mu**2 / 2 + 40 * mu))
