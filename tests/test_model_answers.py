"""What a fitted model says: marginals and likelihoods against enumeration, and rows that follow it
up to rounding."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from small_models import every_row, joint, random_model, summed

from fedsynth_lib.methods.marginals import model_answers
from fedsynth_lib.methods.marginals.graphical_model import Model, Propagation
from fedsynth_lib.methods.marginals.model_answers import Answers, log_likelihood, sample


def chain(columns, *, width=2, levels=3, seed=0, scale=1.5):
    """A path of cliques of neighbouring columns."""
    rng = np.random.default_rng(seed)
    queries = [tuple(range(first, first + width)) for first in range(columns - width + 1)]
    return Model(
        (levels,) * columns, {query: scale * rng.normal(size=[levels] * width) for query in queries}
    )


def queries_up_to(columns, width):
    return [query for k in range(1, width + 1) for query in combinations(range(columns), k)]


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_every_marginal_of_up_to_four_columns(seed):
    """Within cliques, across trees, across disconnected trees and of columns in no potential."""
    model = random_model(seed, most=7, highest=3, scale=2.0)
    table, _ = joint(model)
    answers = Answers(model)
    for query in queries_up_to(len(model.levels), 4):
        np.testing.assert_allclose(answers(query), summed(table, query), rtol=0, atol=1e-12)


SHAPES = {
    "disconnected, with a free column": ((3, 2, 4, 2, 3), [(0, 1), (1,), (3, 4)]),
    "one clique covers everything": ((3, 2, 4), [(0, 1, 2)]),
    "a clique within one that covers everything": ((3, 2, 4), [(0, 1, 2), (0, 2), (2,)]),
    "single columns": ((3, 2, 4), [(0,), (1,), (2,)]),
}


@pytest.mark.parametrize("levels, queries", SHAPES.values(), ids=SHAPES)
def test_shapes_at_the_edge(levels, queries):
    """Every marginal and the likelihood of every row, from the potentials' sum over the whole joint
    table."""
    rng = np.random.default_rng(3)
    model = Model(
        levels, {query: rng.normal(0, 2, [levels[c] for c in query]) for query in queries}
    )
    table, _ = joint(model)
    answers = Answers(model)
    for query in queries_up_to(len(levels), len(levels)):
        np.testing.assert_allclose(answers(query), summed(table, query), rtol=0, atol=1e-12)
    for query, found in answers.marginals.items():
        np.testing.assert_allclose(found, summed(table, query), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        log_likelihood(model, every_row(levels)), np.log(table.ravel()), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("width", [2, 3])
def test_far_ends_of_a_long_chain(width):
    """Messages over many cliques; wide ones share separators that only pass on what is asked."""
    model = chain(9, width=width, levels=2 if width == 3 else 3)
    table, _ = joint(model)
    answers = Answers(model)
    for query in [
        (0, 8),
        (0, 4, 8),
        (0, 1, 7, 8),
        (0, 3, 5, 8),
        (2, 3, 6),
        (1, 8),
        tuple(range(9)),
    ]:
        np.testing.assert_allclose(answers(query), summed(table, query), rtol=0, atol=1e-12)


def test_a_star_of_cliques():
    """Three branches meet in a middle column, and each branch has a leaf further out."""
    edges, rng = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6)], np.random.default_rng(4)
    model = Model(
        (4, 3, 2, 3, 2, 3, 2),
        {edge: rng.normal(size=[(4, 3, 2, 3, 2, 3, 2)[c] for c in edge]) for edge in edges},
    )
    table, _ = joint(model)
    answers = Answers(model)
    for query in queries_up_to(7, 4):
        np.testing.assert_allclose(answers(query), summed(table, query), rtol=0, atol=1e-12)


def test_extreme_potentials_give_finite_answers():
    """Cells that vanish leave separators of probability nil to divide by."""
    for seed in range(10):
        model = random_model(seed)
        model = Model(
            model.levels, {query: 700 * np.sign(table) for query, table in model.potentials.items()}
        )
        table, _ = joint(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answers = Answers(model)
            for query in queries_up_to(len(model.levels), 3):
                np.testing.assert_allclose(answers(query), summed(table, query), rtol=0, atol=1e-10)


def test_columns_far_to_the_right_of_a_wide_table():
    """Einsum names no more than 52 axes, covertype has 55 columns."""
    narrow = chain(5, levels=2)
    wide = Model(
        (2,) * 55,
        {tuple(c + 50 for c in query): table for query, table in narrow.potentials.items()},
    )
    table, _ = joint(narrow)
    answers = Answers(wide)
    np.testing.assert_allclose(answers((50, 54)), summed(table, (0, 4)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        answers((0, 51, 53)), np.stack([summed(table, (1, 3)) / 2] * 2), rtol=0, atol=1e-12
    )


def test_messages_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(model_answers, "CELLS", 60)
    model = chain(8)
    table, _ = joint(model)
    answers = Answers(model)
    for query in queries_up_to(8, 3):
        np.testing.assert_allclose(answers(query), summed(table, query), rtol=0, atol=1e-12)
        assert sum(message.size for message in answers._messages.values()) <= 60


def test_messages_stay_small_where_columns_meet_in_the_middle():
    """Three leaves around a chain of 30 x 30 separators: no message is about two leaves at once."""
    rng, levels = np.random.default_rng(0), (30, 30, 30, 30, 30, 30)
    model = Model(
        levels, {q: rng.normal(size=(30,) * len(q)) for q in [(0, 1, 2), (0, 3), (1, 4), (2, 5)]}
    )
    answers = Answers(model)
    found = answers((3, 4, 5))
    assert max(message.size for message in answers._messages.values()) == 30 * 30
    center = np.exp(model.potentials[0, 1, 2] - model.potentials[0, 1, 2].max())
    leaves = [np.exp(model.potentials[query]) for query in [(0, 3), (1, 4), (2, 5)]]
    expected = np.einsum("abc,ax,by,cz->xyz", center, *leaves, optimize=True)
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=0, atol=1e-15)


def test_answers_can_be_changed_without_harm():
    answers = Answers(random_model(2))
    before = {query: answers(query).copy() for query in queries_up_to(3, 2)}
    for query in before:
        answers(query)[...] = np.nan
    assert all(np.array_equal(answers(query), table) for query, table in before.items())


@pytest.mark.parametrize("seed", range(15))
def test_log_likelihood_of_every_possible_row(seed):
    model = random_model(seed, scale=3.0)
    rows = every_row(model.levels)
    np.testing.assert_allclose(
        log_likelihood(model, rows), np.log(joint(model)[0].ravel()), rtol=0, atol=1e-10
    )
    assert log_likelihood(model, rows[:0]).shape == (0,)


def test_log_likelihood_of_rows_too_rare_for_exp():
    model = Model((2, 2), {(0, 1): np.array([[0.0, -2000.0], [0.0, 0.0]])})
    np.testing.assert_allclose(
        log_likelihood(model, np.array([[0, 1], [1, 1]])), [-2000 - np.log(3), -np.log(3)]
    )


# --- sampling ------------------------------------------------------------------------------------


def counts_of(rows, levels, query):
    cells = np.ravel_multi_index(tuple(rows[:, query].T), [levels[c] for c in query])
    return np.bincount(cells, minlength=np.prod([levels[c] for c in query])).reshape(
        [levels[c] for c in query]
    )


def rounding_bounds(model, expected):
    """How far a cell's count can be off, for each clique, in the axes of its node.

    Among the c rows of one separator value, systematic sampling gives each cell c p(cell | value)
    rows, rounded up or down: off by less than 1. Where c itself is off by D, the cell is by less
    than 1 + p(cell | value) D, and D is at most the sum of what the parent's cells with this value
    are off by.
    """
    bounds, tree = [], Propagation(model.levels, model.potentials).tree
    for node in tree:
        shares = summed(expected, node.columns).transpose(
            [sorted(node.columns).index(c) for c in node.columns]
        )
        bound = np.ones(shares.shape)
        if node.parent is not None:
            above = tree[node.parent].columns
            off = np.einsum(bounds[node.parent], [*above], [*node.separator])
            given = shares.reshape(*off.shape, -1)
            bound += (given / given.sum(axis=-1, keepdims=True) * off[..., None]).reshape(
                shares.shape
            )
        bounds.append(bound)
    return tree, bounds


@pytest.mark.parametrize("num_rows", [1, 7, 100, 5000])
@pytest.mark.parametrize("seed", range(8))
def test_counts_follow_the_model_up_to_rounding(seed, num_rows):
    """Root cliques and columns of no potential exactly (off by less than 1), the others within
    their bound."""
    model = random_model(seed, most=7, highest=4, scale=1.5)
    expected, _ = joint(model)
    rows = sample(model, num_rows, rng=np.random.default_rng(seed))
    assert rows.shape == (num_rows, len(model.levels)) and rows.dtype == np.int32
    assert rows.min() >= 0 and np.all(rows < np.array(model.levels))
    tree, bounds = rounding_bounds(model, expected)
    for node, bound in zip(tree, bounds, strict=True):
        shares = summed(expected, node.columns).transpose(
            [sorted(node.columns).index(c) for c in node.columns]
        )
        off = np.abs(counts_of(rows, model.levels, node.columns) - num_rows * shares)
        assert np.all(off < bound + 1e-8)
        assert node.parent is not None or off.max() < 1 + 1e-8
    held = {column for node in tree for column in node.columns}
    for column in set(range(len(model.levels))) - held:
        level = model.levels[column]
        assert np.abs(counts_of(rows, model.levels, (column,)) - num_rows / level).max() < 1


def test_rows_are_closer_to_the_model_than_independent_draws():
    """All pairs of neighbours in a chain, 2,000 rows: less than half the L1 distance of multinomial
    counts."""
    model, rng = chain(7, levels=6), np.random.default_rng(0)
    answers = Answers(model)
    rows = sample(model, 2000, rng=rng)
    ours, theirs = 0.0, 0.0
    for query in model.potentials:
        shares = answers(query)
        ours += np.abs(counts_of(rows, model.levels, query) - 2000 * shares).sum()
        theirs += np.abs(rng.multinomial(2000, shares.ravel()) - 2000 * shares.ravel()).sum()
    assert ours < theirs / 2


@pytest.mark.parametrize(
    "model",
    [
        chain(4, levels=3, scale=1.0),
        Model(
            (3, 2, 4, 2),
            {(0, 1): np.random.default_rng(1).normal(size=(3, 2)), (3,): np.array([0.0, 1.0])},
        ),
    ],
    ids=["chain", "disconnected, with a free column"],
)
def test_every_cell_of_the_joint_table_is_unbiased(model):
    """Mean counts over 200 seeds against n p, within 4 standard errors of independent draws (which
    ours are below)."""
    expected, _ = joint(model)
    everything = tuple(range(len(model.levels)))
    total = sum(
        counts_of(sample(model, 37, rng=np.random.default_rng(seed)), model.levels, everything)
        for seed in range(200)
    )
    error = np.sqrt(37 * expected * (1 - expected) / 200)
    assert np.all(np.abs(total / 200 - 37 * expected) <= 4 * error)


def test_one_row_is_a_draw_from_the_model():
    model = chain(3, levels=2)
    expected, _ = joint(model)
    rows = np.concatenate(
        [sample(model, 1, rng=np.random.default_rng(seed)) for seed in range(1000)]
    )
    error = np.sqrt(expected * (1 - expected) / 1000)
    assert np.all(np.abs(counts_of(rows, model.levels, (0, 1, 2)) / 1000 - expected) <= 4 * error)


def test_seed_decides_the_rows():
    model = chain(5)
    first, again, other = (
        sample(model, 200, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_no_rows():
    assert sample(chain(3), 0, rng=np.random.default_rng(0)).shape == (0, 3)
    assert sample(Model((2, 3)), 0, rng=np.random.default_rng(0)).shape == (0, 2)


class Highest:
    """The largest number below 1, always: rows land at the very end of their line."""

    def random(self, size):
        return np.full(size, np.nextafter(1, 0))


class Lowest:
    def random(self, size):
        return np.zeros(size)


@pytest.mark.parametrize(
    "rng", [Highest(), Lowest(), np.random.default_rng(0)], ids=["highest", "lowest", "random"]
)
def test_cells_of_probability_nil_are_never_drawn(rng):
    """At the beginning, in the middle and at the end of a line, in roots and given a separator."""
    allowed = np.zeros((40, 6), dtype=bool)
    allowed[:, [1, 2, 4]] = True
    allowed[::3] = False  # some values of the first column never
    allowed[1, 1] = False
    step = np.eye(6, dtype=bool) | np.eye(6, k=2, dtype=bool)
    potentials = {(0, 1): np.where(allowed, 0.0, -2000.0), (1, 2): np.where(step, 0.0, -2000.0)}
    for num_rows in (1, 3, 1000):
        rows = sample(Model((40, 6, 6), potentials), num_rows, rng=rng)
        assert allowed[rows[:, 0], rows[:, 1]].all() and step[rows[:, 1], rows[:, 2]].all()
