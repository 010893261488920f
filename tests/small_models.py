"""Graphical models small enough to write down every cell of their joint table, for the tests of the
engine."""

import numpy as np
from scipy.special import logsumexp

from fedsynth_lib.methods.marginals.graphical_model import Model


def random_set(seed, *, most=9, width=3, lowest=1, highest=7):
    """Levels of 4 to `most` columns, and up to twice as many distinct queries of up to `width` of
    them."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(4, most + 1))
    drawn = [
        rng.choice(columns, rng.integers(1, width + 1), replace=False)
        for _ in range(rng.integers(1, 2 * columns))
    ]
    levels = tuple(int(level) for level in rng.integers(lowest, highest + 1, columns))
    return levels, tuple(sorted({tuple(sorted(int(c) for c in query)) for query in drawn}))


def random_model(seed, *, scale=1.0, **kinds):
    """A model over a random set of queries, its potentials normal with standard deviation
    `scale`."""
    levels, queries = random_set(seed, **{"most": 6, "highest": 4, **kinds})
    rng = np.random.default_rng([seed, 1])
    return Model(
        levels, {query: scale * rng.normal(size=[levels[c] for c in query]) for query in queries}
    )


def every_row(levels):
    """All rows that a table of these levels can have, (cells of the joint table, columns)."""
    return np.indices(levels).reshape(len(levels), -1).T


def joint(model):
    """The joint table by enumeration, (levels), and log Z."""
    rows = every_row(model.levels)
    logs = sum(
        (table[tuple(rows[:, query].T)] for query, table in model.potentials.items()),
        np.zeros(len(rows)),
    )
    log_z = logsumexp(logs)
    return np.exp(logs - log_z).reshape(model.levels), log_z


def summed(table, query):
    """A joint table's marginal, in the order of its columns."""
    return table.sum(axis=tuple(c for c in range(table.ndim) if c not in query))
