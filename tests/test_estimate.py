"""Estimation: the least loss of any distribution, found by solvers on the joint table, and the road
to it."""

import warnings

import numpy as np
import pytest
from scipy.optimize import nnls
from small_models import every_row, joint, random_model, summed

from fedsynth_lib.methods.marginals.graphical_model import (
    Model,
    Target,
    estimate,
    targets,
)


def loss_of(model, wanted):
    """Half the sum of weight |marginal - shares|^2, from the joint table."""
    table, _ = joint(model)
    return sum(t.weight * ((summed(table, q) - t.shares) ** 2).sum() for q, t in wanted.items()) / 2


def optimum(levels, wanted):
    """Bounds of the least loss of any distribution: least squares over joint tables that are
    nowhere negative.

    The sum to 1 is a penalty: with it the least is a lower bound; the solution, normalised, gives
    an upper one.
    """
    rows, blocks, right = every_row(levels), [], []
    for query, target in wanted.items():
        cell = np.ravel_multi_index(tuple(rows[:, query].T), [levels[c] for c in query])
        block = (cell == np.arange(target.shares.size)[:, None]) * np.sqrt(target.weight)
        blocks.append(block)
        right.append(np.sqrt(target.weight) * target.shares.ravel())
    heavy = 1e4 * np.sqrt(sum(target.weight for target in wanted.values()))
    matrix, right = (
        np.vstack([*blocks, np.full((1, len(rows)), heavy)]),
        np.concatenate([*right, [heavy]]),
    )
    solution, _ = nnls(matrix, right, maxiter=100 * len(rows))
    lower = ((matrix @ solution - right) ** 2).sum() / 2
    solution /= solution.sum()
    return lower, ((matrix @ solution - right) ** 2).sum() / 2


def noisy(levels, queries, *, sigma, rows=1000, seed=0, low=None):
    """Measurements of a random table of `rows` rows with the noise of each query."""
    rng = np.random.default_rng(seed)
    joint_counts = rng.multinomial(rows, rng.dirichlet(np.full(np.prod(levels), 0.3))).reshape(
        levels
    )
    sigmas = sigma if isinstance(sigma, list) else [sigma] * len(queries)
    return [
        (q, summed(joint_counts, q) + rng.normal(0, s, [levels[c] for c in q]), s)
        for q, s in zip(queries, sigmas, strict=True)
    ]


LEVELS = (3, 2, 4, 2, 3)
CASES = {
    "several cliques, noise differs": (
        LEVELS,
        [(0,), (0, 1), (1, 2), (2, 3, 4)],
        [2.0, 5.0, 20.0, 8.0],
    ),
    "disconnected": (LEVELS, [(0, 1), (2,), (3, 4), (4,)], [3.0, 3.0, 10.0, 1.0]),
    "one clique covers everything": (LEVELS, [(0, 1, 2, 3, 4), (0, 1), (2,)], [5.0, 2.0, 2.0]),
    "a cycle": (LEVELS, [(0, 1), (1, 2), (2, 3), (0, 3)], 5.0),
    "a column in no query": (LEVELS, [(0, 2), (2, 4)], 4.0),
    "counts drowned in negative noise": ((2, 3, 4), [(0, 1), (1, 2), (2,)], 400.0),
    "columns of one level": ((1, 3, 1, 2), [(0,), (0, 1), (2, 3), (1, 3)], 5.0),
    "a repeated clique": (LEVELS, [(0, 1), (1, 2), (0, 1), (1, 2)], [3.0, 3.0, 9.0, 1.0]),
}


@pytest.mark.parametrize(("momentum", "iterations"), [(True, 2000), (False, 4000)])
@pytest.mark.parametrize("case", CASES)
def test_estimate_reaches_the_least_loss_of_any_distribution(case, momentum, iterations):
    levels, queries, sigma = CASES[case]
    wanted = targets(levels, noisy(levels, queries, sigma=sigma), 1000.0)
    lower, upper = optimum(levels, wanted)
    assert upper <= lower * (1 + 1e-6) + 1e-6
    model = estimate(
        Model(levels), wanted, iterations=iterations, momentum=momentum, to_noise=False
    )
    assert lower * (1 - 1e-6) <= loss_of(model, wanted) <= upper * 1.001


@pytest.mark.parametrize("total", [500.0, 1000.0, 2000.0])
def test_totals_that_disagree(total):
    """Measurements of 700, 1000 and 1300 rows for a model of yet another total."""
    queries = [(0, 1), (1, 2), (2, 3, 4)]
    measured = noisy(LEVELS, queries, sigma=5.0)
    measured = [
        (q, counts * factor, s)
        for (q, counts, s), factor in zip(measured, (0.7, 1.0, 1.3), strict=True)
    ]
    wanted = targets(LEVELS, measured, total)
    lower, upper = optimum(LEVELS, wanted)
    model = estimate(Model(LEVELS), wanted, iterations=2000, to_noise=False)
    assert lower * (1 - 1e-6) <= loss_of(model, wanted) <= upper * 1.001


def test_repeats_are_the_same_as_their_weighted_mean():
    measured = noisy(LEVELS, [(0, 1), (1, 2), (0, 1)], sigma=[3.0, 4.0, 6.0])
    (_, first, _), other, (_, second, _) = measured
    together = ((0, 1), (first / 9 + second / 36) / (1 / 9 + 1 / 36), (1 / 9 + 1 / 36) ** -0.5)
    apart = estimate(
        Model(LEVELS), targets(LEVELS, measured, 1000.0), iterations=300, to_noise=False
    )
    once = estimate(
        Model(LEVELS), targets(LEVELS, [together, other], 1000.0), iterations=300, to_noise=False
    )
    np.testing.assert_allclose(joint(apart)[0], joint(once)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_first_step_is_along_the_slope_of_the_loss_in_the_marginals(seed):
    """One step of length 1 / (sum of weights): finite differences of the loss, but for a constant
    in each table."""
    start = random_model(seed)
    # one potential has no target: it stays
    wanted = dict(list(random_targets(start, seed).items())[:-1])
    after = estimate(start, wanted, iterations=1, momentum=False, to_noise=False)
    weights, table = sum(target.weight for target in wanted.values()), joint(start)[0]
    for query, potential in start.potentials.items():
        moved = (potential - after.potentials[query]).ravel() * weights
        slope, here = np.zeros(potential.size), summed(table, query).ravel()
        if query in wanted:
            loss = lambda p, t=wanted[query]: t.weight / 2 * ((p - t.shares.ravel()) ** 2).sum()  # noqa: E731
            for cell in range(potential.size):
                step = 1e-5 * np.eye(potential.size)[cell]
                slope[cell] = (loss(here + step) - loss(here - step)) / 2e-5
        np.testing.assert_allclose(
            moved - moved.mean(), slope - slope.mean(), rtol=1e-5, atol=1e-5 * weights**0.5
        )


def random_targets(model, seed, weight=1e4):
    """A share table for every query of the model: not a distribution, not consistent, with weights
    of their own."""
    rng = np.random.default_rng([seed, 2])
    shapes = {query: table.shape for query, table in model.potentials.items()}
    return {
        query: Target(
            rng.normal(1 / np.prod(shape), 0.05, shape), weight * 10 ** rng.uniform(-2, 2)
        )
        for query, shape in shapes.items()
    }


@pytest.mark.parametrize("momentum", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_more_iterations_never_raise_the_loss(seed, momentum):
    start = random_model(seed, scale=3.0)
    wanted = random_targets(start, seed)
    losses = [loss_of(start, wanted)]
    for iterations in (0, 1, 2, 3, 5, 8, 13, 21, 34, 200):
        model = estimate(start, wanted, iterations=iterations, momentum=momentum, to_noise=False)
        losses.append(loss_of(model, wanted))
    assert np.all(np.diff(losses) <= 1e-9 * losses[0]) and losses[-1] < losses[0]


def test_no_iterations_leave_the_distribution_as_it_is():
    start = random_model(1)
    new = tuple(range(2))
    wanted = {new: Target(np.full([start.levels[c] for c in new], 0.1), 100.0)}
    model = estimate(start, wanted, iterations=0)
    np.testing.assert_allclose(joint(model)[0], joint(start)[0], rtol=0, atol=1e-12)


def test_no_targets_leave_the_model_as_it_is():
    start = random_model(1)
    for model in (estimate(start, {}, iterations=5), estimate(Model((2, 3)), {}, iterations=5)):
        assert model.levels in (start.levels, (2, 3))
        assert all(
            np.array_equal(table, start.potentials[query])
            for query, table in model.potentials.items()
        )


def test_inputs_are_left_alone():
    start = random_model(2)
    wanted = random_targets(start, 2)
    before = [
        {q: t.copy() for q, t in start.potentials.items()},
        {q: t.shares.copy() for q, t in wanted.items()},
    ]
    model = estimate(start, wanted, iterations=20)
    assert all(np.array_equal(start.potentials[q], table) for q, table in before[0].items())
    assert all(np.array_equal(wanted[q].shares, table) for q, table in before[1].items())
    assert not any(
        np.shares_memory(model.potentials[q], start.potentials[q]) for q in start.potentials
    )


def test_noise_floor_is_the_expected_loss_of_the_truth():
    """Half a unit for each cell measured; the mean over 400 draws within 4 standard errors."""
    levels, rng = (3, 4), np.random.default_rng(0)
    counts = rng.multinomial(500, rng.dirichlet(np.ones(12))).reshape(levels)
    losses = []
    for _ in range(400):
        measured = [((0, 1), counts + rng.normal(0, s, levels), s) for s in (4.0, 9.0)]
        measured.append(((0,), counts.sum(axis=1) + rng.normal(0, 2.0, 3), 2.0))
        wanted = targets(levels, measured, 500.0).items()
        losses.append(
            sum(t.weight * ((summed(counts / 500, q) - t.shares) ** 2).sum() for q, t in wanted) / 2
        )
    assert abs(np.mean(losses) - 15 / 2) <= 4 * np.sqrt(15 / 2 / 400)


@pytest.mark.parametrize("momentum", [True, False])
def test_to_noise_stops_with_the_first_step_below_the_floor(momentum):
    queries = [(0,), (0, 1), (1, 2), (2, 3, 4)]
    wanted = targets(LEVELS, noisy(LEVELS, queries, sigma=6.0, seed=3), 1000.0)
    floor = sum(target.shares.size for target in wanted.values()) / 2
    fit = lambda iterations, to_noise: estimate(  # noqa: E731
        Model(LEVELS), wanted, iterations=iterations, momentum=momentum, to_noise=to_noise
    )
    losses = [loss_of(fit(iterations, False), wanted) for iterations in range(60)]
    assert losses[0] > floor > losses[-1]
    first = next(iterations for iterations, loss in enumerate(losses) if loss <= floor)
    stopped = fit(1000, True)
    assert (
        loss_of(stopped, wanted) == pytest.approx(losses[first], rel=1e-9)
        and losses[first - 1] > floor
    )


def test_a_floor_out_of_reach_changes_nothing():
    """Two measurements of one column that differ by far more than their noise."""
    measured = [
        ((0,), np.array([900.0, 100.0]), 1.0),
        ((0, 1), np.array([50.0, 50.0, 450.0, 450.0]), 1.0),
    ]
    wanted = targets((2, 2), measured, 1000.0)
    lower, upper = optimum((2, 2), wanted)
    model = estimate(Model((2, 2)), wanted, iterations=500, to_noise=True)
    assert upper > 3 and lower * (1 - 1e-6) <= loss_of(model, wanted) <= upper * 1.001


def test_a_warm_start_goes_on_from_what_is_known():
    """A new marginal joins: at first the distribution is the old one, then the least loss of all
    measurements."""
    measured = noisy(LEVELS, [(0, 1), (1, 2), (3, 4), (0, 2, 3)], sigma=4.0)
    first = targets(LEVELS, measured[:3], 1000.0)
    known = estimate(Model(LEVELS), first, iterations=1000, to_noise=False)
    both = targets(LEVELS, measured, 1000.0)
    lower, upper = optimum(LEVELS, both)
    losses = [
        [loss_of(estimate(start, both, iterations=n, to_noise=False), both) for n in (0, 10, 2000)]
        for start in (known, Model(LEVELS))
    ]
    warm, cold = np.array(losses)
    assert warm[0] == pytest.approx(loss_of(known, both), rel=1e-9)
    assert warm[0] < cold[0] and warm[1] < cold[1]
    assert max(warm[2], cold[2]) <= upper * 1.001 and min(warm[2], cold[2]) >= lower * (1 - 1e-6)


def test_a_perfect_fit_and_a_table_of_one_cell_end_quietly():
    """Where the slope is nil the step doubles for ever; where a total cannot be met the potentials
    must not drift."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        even = estimate(
            Model((2,)), {(0,): Target(np.full(2, 0.4), 10.0)}, iterations=3000, to_noise=False
        )
        alone = {(0,): Target(np.array([0.9]), 10.0), (1,): Target(np.array([0.2, 0.9]), 10.0)}
        model = estimate(Model((1, 2)), alone, iterations=3000, to_noise=False)
    np.testing.assert_allclose(joint(even)[0], [0.5, 0.5], rtol=0, atol=1e-12)
    np.testing.assert_allclose(joint(model)[0], [[0.15, 0.85]], rtol=0, atol=1e-9)
    assert max(np.abs(table).max() for table in model.potentials.values()) < 10
