"""How an adversary who knows all other rows distinguishes a run with the record from others.

The adversary computes a score for each run. It is the likelihood ratio of what the adversary sees,
or its linear part: by the lemma of Neyman and Pearson no other test of the same release is better.
The scales of noise are known, since the method and its budget are public.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ive, logsumexp

from fedsynth_lib.audit.scenario import Scenario, Seen
from fedsynth_lib.core.contract import Arrays
from fedsynth_lib.methods.marginals import marginal_state

Score = Callable[[Seen], float]
QUIET = 1e-3  # noise of shadow runs, as a share of the claim's
SHADOWS = 60  # runs of either kind
TINY = 1e-8  # Adam's own
TINIEST = 1e-300


def counts(
    releases: Callable[[Seen], Arrays], scales: Callable[[Scenario], Arrays]
) -> Callable[[Scenario], Score]:
    """Score whole numbers with discrete Laplace noise.

    The score is the sum of (|x - without| - |x - with|) / scale over all of them.

    releases: the noisy numbers that a run shows. scales: of the noise, under the same names. The
    adversary finds out what the numbers are without noise by runs of its own.
    """

    def make(scenario: Scenario) -> Score:
        scale = scales(scenario)
        clean = [
            releases(scenario.run(present=present, multiplier=None)) for present in (False, True)
        ]

        def score(seen: Seen) -> float:
            noisy = releases(seen)
            without, there = (
                {name: np.abs(noisy[name] - own[name]) for name in noisy} for own in clean
            )
            return float(sum(np.sum(without[name] - there[name]) / scale[name] for name in noisy))

        return score

    return make


def skellam(
    cells: Callable[[Scenario, Seen], Sequence[tuple[float, float, float]]],
) -> Callable[[Scenario], Score]:
    """Score counts with Skellam noise: the log-likelihood ratio of the record's cells.

    cells: of a run, (noisy count, by how much the record moves it, variance); without the record
    and noise, the count is 0. A count x has chance exp(-variance) I_|x|(variance), where I is the
    modified Bessel function.
    """

    def make(scenario: Scenario) -> Score:
        def score(seen: Seen) -> float:
            count, moved, variance = np.array(cells(scenario, seen)).T
            # one that neither table can show comes out of broken noise alone: the floor stands for
            # a chance too small for a number
            there, without = (
                np.log(np.maximum(ive(np.abs(count - by), variance), TINIEST)) for by in (moved, 0)
            )
            return float((there - without).sum())

        return score

    return make


def marginals(scenario: Scenario) -> Score:
    """Score marginals with Gaussian noise, read off a model's state.

    In each marginal the record is alone in its cell. A measurement is kept as shares of n records
    with weight (n / sigma)^2, its repeats averaged and their weights added: n * share is the mean
    noisy count of the cell, and weight / n^2 the inverse of its variance.
    """
    target, rows = tuple(int(code) for code in scenario.target), sum(scenario.sizes)

    def score(seen: Seen) -> float:
        shares, weights = (
            marginal_state.tables_of(seen.state, kind) for kind in ("shares", "weight")
        )
        cells = {
            query: rows * table[tuple(target[c] for c in query)] for query, table in shares.items()
        }
        return float(
            sum(float(weights[query]) / rows**2 * (count - 0.5) for query, count in cells.items())
        )

    return score


def steps(
    name: str, *, momentum: float, others: Callable[[Scenario, Seen], np.ndarray] | None = None
) -> Callable[[Scenario], Score]:
    """Score private gradients: the likelihood ratios of all steps, multiplied.

    This is the white-box attack of Nasr et al. 2021 and 2023.

    The sum of clipped gradients depends on secret draws (latent vectors, dropout), with the record
    and without it. Hence either likelihood is a mixture of normal densities around what shadow runs
    with next to no noise give, which the adversary makes itself.

    name: of the parameters that client 0 sends.
    momentum: the first decay of Adam. Gradients can be read off Adam's steps if they are far below
        its 1e-8: the settings of the case see to that with a small clip.
    others: a further release, in deviations of its noise.
    """

    def make(scenario: Scenario) -> Score:
        config, claimed = scenario.case.config, scenario.job.noise_multiplier / scenario.noise
        rate = getattr(config, "learning_rate", None) or config.discriminator_rate
        # of a step's noise; all rows are in a batch
        deviation = claimed * config.clip / scenario.sizes[0]

        def released(seen: Seen) -> list[np.ndarray]:
            found = gradients(moved(seen, name), momentum, rate) / deviation
            return [*found, *([] if others is None else [others(scenario, seen)])]

        def cloud(present: bool) -> list[np.ndarray]:
            shadows = [
                released(scenario.run(present=present, multiplier=QUIET * claimed))
                for _ in range(SHADOWS)
            ]
            return [np.array(each) for each in zip(*shadows, strict=True)]

        absent, there = cloud(False), cloud(True)

        def score(seen: Seen) -> float:
            found = released(seen)
            return sum(
                _log_density(point, with_it) - _log_density(point, without)
                for point, with_it, without in zip(found, there, absent, strict=True)
            )

        return score

    return make


def _log_density(point: np.ndarray, cloud: np.ndarray) -> float:
    """Return the logarithm of the mean normal density around the cloud's points.

    A constant is left out.
    """
    return float(logsumexp(cloud @ point - 0.5 * (cloud**2).sum(axis=1)))


def moved(seen: Seen, name: str) -> np.ndarray:
    """Return by how much client 0 moved the parameters in each round, (rounds, parameters)."""
    pairs = [
        (sent[name], wire[f"0/{name}"])
        for sent, wire in zip(seen.sent, seen.wire, strict=True)
        if name in sent and f"0/{name}" in wire
    ]
    return np.array([after.astype(float) - before for before, after in pairs])


def gradients(moves: np.ndarray, momentum: float, rate: float) -> np.ndarray:
    """Return the gradients behind Adam's moves, one a round.

    A move is -rate * mean / (root + 1e-8), where the root is next to nothing.
    """
    rounds = np.arange(1, len(moves) + 1)[:, None]
    means = -moves * TINY / rate * (1 - momentum**rounds)
    before = np.vstack([np.zeros_like(means[:1]), means[:-1]])
    return (means - momentum * before) / (1 - momentum)


def synthetic(scenario: Scenario, num_rows: int) -> Score:
    """Score a run by the share of its synthetic rows that equal the record (black box)."""
    return lambda seen: float(
        (scenario.sample(seen, num_rows) == scenario.target).all(axis=1).mean()
    )


def summed(names: Sequence[str]) -> Callable[[Seen], Arrays]:
    """Return the sums over all clients of a run, under the names that they have on the wire."""

    def releases(seen: Seen) -> Arrays:
        found = {name: values for wire in seen.wire for name, values in wire.items()}
        return {name: found[f"sum/{name}"] for name in names}

    return releases
