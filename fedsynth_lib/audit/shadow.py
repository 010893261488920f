"""Membership inference with shadow runs: scores of records, and what they prove.

Each record has a score in each of many synthetic tables of the same method.

Threat model: the attacker knows the method with all its settings, holds the complete records of
some people, sees the synthetic table and nothing else, and can run the method on other rows of the
same population as often as it likes. Each targeted record is in a run or not by a coin of its own,
so that a run with it and one without it are neighbours.

A *statistic* says how much of a synthetic table is at a record:

density: logarithm of a Gaussian kernel density on standardised numbers and one-hot categories.
counts: mean over random triples of columns of log(1 + rows that agree with the record in all
    three), numbers binned: the random queries of Houssiau et al. 2022 (TAPAS) that marginal-based
    methods answer.

and a *score* rises with suspicion:

closest: nearness of the nearest synthetic row (Hayes et al. 2019; Hilprecht et al. 2019).
calibrated: the same over the nearness of the nearest reference row.
domias: log density of the synthetic rows less that of the reference rows (van Breugel et al. 2023,
    DOMIAS).
lira_*: log-likelihood ratio of the statistic under two normal distributions, fitted for each record
    to shadow runs with it and without it (Carlini et al. 2022, algorithm 1, the online attack).
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from fedsynth_lib.audit.bounds import clopper_pearson, one_run_bound
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.queries import Query
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.tables.encode import one_hot
from fedsynth_lib.tables.schema import Schema

NEIGHBOURS = 10  # whose mean distance says how far out a record lies


# --- records -------------------------------------------------------------------------------------


def features(frame: pd.DataFrame, reference: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Return numbers standardised by the reference rows, which no run sees, and one-hot categories.

    float64 (rows, width).
    """
    numbers, known = (
        rows[list(schema.numeric)].to_numpy(np.float64) for rows in (frame, reference)
    )
    spread = known.std(axis=0)
    z_scores = (numbers - known.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.hstack([z_scores, one_hot(frame, schema.drop(schema.numeric))])


def farthest(points: np.ndarray, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Return positions of all rows, those farthest from other rows first.

    How far a row is from others is its mean distance to the nearest ones.
    """
    return np.argsort(
        -nearest(points, points, neighbours + 1)[0][:, 1:].mean(axis=1), kind="stable"
    )


def rarest(codes: np.ndarray, queries: Sequence[Query]) -> np.ndarray:
    """Return positions of all rows, those first whose values occur in the fewest rows.

    How often values occur is measured by `counts`.
    """
    return np.argsort(counts(codes, codes, queries), kind="stable")


def worst_cases(
    points: np.ndarray, codes: np.ndarray, queries: Sequence[Query], number: int
) -> np.ndarray:
    """Return positions of the farthest rows, half of `number`, then of the rarest of the others."""
    far = farthest(points)[: number // 2]
    rare = rarest(codes, queries)
    return np.concatenate([far, rare[~np.isin(rare, far)][: number - len(far)]])


# --- statistics ----------------------------------------------------------------------------------


def density(points: np.ndarray, rows: np.ndarray, width: float) -> np.ndarray:
    """Return the log of the mean over `rows` of a Gaussian kernel of this width at each point.

    The constant of the kernel is left out.
    """
    squares = ((points[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2)
    return logsumexp(-squares / (2 * width**2), axis=1) - np.log(len(rows))


def kernel_width(reference: np.ndarray) -> float:
    """Return the median distance of a reference row to the nearest other one that differs."""
    squares = (reference**2).sum(axis=1)
    apart = np.sqrt(
        np.maximum(squares[:, None] + squares[None, :] - 2 * reference @ reference.T, 0)
    )
    apart[apart < 1e-6] = np.inf
    near = apart.min(axis=1)
    return float(np.median(near[np.isfinite(near)])) if np.isfinite(near).any() else 1.0


def counts(points: np.ndarray, rows: np.ndarray, queries: Sequence[Query]) -> np.ndarray:
    """Return the mean over queries of log(1 + number of rows that agree with the point).

    A row agrees if it has the point's values in all columns of the query.
    """
    found = np.zeros(len(points))
    for query in queries:
        columns = list(query)
        agree = (points[:, None, columns] == rows[None, :, columns]).all(axis=2)
        found += np.log1p(agree.sum(axis=1))
    return found / len(queries)


# --- scores --------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What the attacker knows of targeted records after many runs.

    inside: bool (runs, records), the coins. nearest, density, counts: (runs, records), of the
        synthetic tables.
    known_nearest, known_density: (records,), of the reference rows.
    """

    inside: np.ndarray
    nearest: np.ndarray
    density: np.ndarray
    counts: np.ndarray
    known_nearest: np.ndarray
    known_density: np.ndarray

    def of(self, runs: slice) -> "Seen":
        """Return the same for some of the runs."""
        return Seen(*(each[runs] for each in self[:4]), *self[4:])


ATTACKS = ("closest", "calibrated", "domias", "lira_density", "lira_counts")


def scores(seen: Seen, shadow: Seen | None = None) -> dict[str, np.ndarray]:
    """Return the scores of each attack, (runs, records); a large one suggests the record is inside.

    shadow: the runs whose coins the likelihood ratios are fitted to; None: all of `seen` but the
        run that is scored.
    """
    tiny = np.finfo(np.float32).tiny
    return {
        "closest": -seen.nearest,
        "calibrated": np.log(seen.known_nearest + tiny) - np.log(seen.nearest + tiny),
        "domias": seen.density - seen.known_density,
        **{
            f"lira_{name}": likelihood_ratios(
                seen.inside,
                getattr(seen, name),
                None if shadow is None else (shadow.inside, getattr(shadow, name)),
            )
            for name in ("density", "counts")
        },
    }


def likelihood_ratios(
    inside: np.ndarray, values: np.ndarray, shadow: tuple[np.ndarray, np.ndarray] | None = None
) -> np.ndarray:
    """Return the log-likelihood ratio of inside to outside for each value, (runs, records).

    The likelihoods are of normal distributions fitted to shadow runs.

    Means are a record's own with it and without it. The variance is a record's own and common to
    both, as runs are too few for two (Carlini et al. 2022 share the variance there, too). The ratio
    is 0 for a record with fewer than two runs on either side.

    shadow: (inside, values) of other runs; None: of all of these runs but the one that is scored.
    """
    if shadow is not None:
        return _ratio(values, *shadow)
    others = ~np.eye(len(values), dtype=bool)
    return np.stack(
        [_ratio(values[run], inside[rest], values[rest]) for run, rest in enumerate(others)]
    )


def _ratio(values: np.ndarray, inside: np.ndarray, known: np.ndarray) -> np.ndarray:
    number = np.stack([inside.sum(axis=0), (~inside).sum(axis=0)])
    means = np.stack(
        [np.where(side, known, 0).sum(axis=0) for side in (inside, ~inside)]
    ) / np.maximum(number, 1)
    residuals = known - np.where(inside, means[0], means[1])
    spread = np.sqrt((residuals**2).sum(axis=0) / np.maximum(number.sum(axis=0) - 2, 1)) + 1e-6
    ratio = norm.logpdf(values, means[0], spread) - norm.logpdf(values, means[1], spread)
    return np.where(number.min(axis=0) >= 2, ratio, 0.0)


# --- proof ---------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What an attack finds.

    tpr1, tpr01: the rate of records that are caught at 1 and 0.1 percent false alarms, each with
        its 95 percent interval. tpr01 is missing (nan) if there are fewer than 1,000 trials without
        the record: they cannot show one false alarm in 1,000.
    bound: epsilon is at least this, with 95 percent confidence.
    first_half: what the same attack seems to show on the first half of the runs, where its plan is
        chosen; an attack may be chosen by this number and by no other.
    """

    auc: float
    tpr1: float
    tpr1_low: float
    tpr1_high: float
    tpr01: float
    tpr01_low: float
    tpr01_high: float
    bound: float
    first_half: float


def judge(seen: Seen, delta: float) -> dict[str, Found]:
    """Return what every attack finds.

    Rates and AUC are over all runs, leave-one-run-out. For the bound, likelihood ratios and the
    number of guesses are chosen on the first half of the runs and judged on the second.
    """
    if len(seen.inside) < 4 or not 0 < seen.inside.mean() < 1:
        raise BadInput("shadow runs: give at least four, with and without the records.")
    half = len(seen.inside) // 2
    first, second = seen.of(slice(half)), seen.of(slice(half, None))
    chosen, judged, everything = scores(first), scores(second, first), scores(seen)
    found = {}
    for name in ATTACKS:
        promised, plan = best_plan(first.inside, chosen[name], delta)
        shown = plan_bound(second.inside, judged[name], plan, delta)
        found[name] = Found(*rates(seen.inside, everything[name]), shown, promised)
    return found


def rates(inside: np.ndarray, score: np.ndarray) -> tuple[float, ...]:
    """Return the AUC, and true positive rates at 1 and at 0.1 percent false positives.

    The numbers are the first seven of `Found`: each rate is followed by the ends of its interval.

    The threshold is the lowest that accuses no more than this share of the records that are
    outside. Records of the same run share a table; the intervals (Clopper-Pearson) do not account
    for that.
    """
    within, without = score[inside], np.sort(score[~inside])[::-1]
    values = [float(roc_auc_score(inside.ravel(), score.ravel()))]
    for share in (0.01, 0.001):
        if len(without) * share < 1 and share < 0.01:
            values += [np.nan] * 3
            continue
        caught = int((within > without[int(len(without) * share)]).sum())
        limits = clopper_pearson(np.array(caught), len(within), tail=0.025)
        values += [caught / len(within), *map(float, limits)]
    return tuple(values)


# of all trials, that are said to be in, and to be out
SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
PLANS = [plan for plan in product(SHARES, SHARES) if sum(plan)]


def best_plan(
    inside: np.ndarray, score: np.ndarray, delta: float
) -> tuple[float, tuple[float, float]]:
    """Return the largest bound and its plan.

    A plan says which share of the trials to call inside, and which share outside.
    """
    return max((plan_bound(inside, score, plan, delta), plan) for plan in PLANS)


def plan_bound(
    inside: np.ndarray, score: np.ndarray, plan: tuple[float, float], delta: float
) -> float:
    """Return the bound from guessing the coins of the highest and of the lowest scores alone."""
    truth = inside.ravel()[np.argsort(score.ravel(), kind="stable")]
    top, bottom = (int(share * len(truth)) for share in plan)
    correct = int(truth[len(truth) - top :].sum() + (~truth[:bottom]).sum())
    return one_run_bound(len(truth), top + bottom, correct, delta)
