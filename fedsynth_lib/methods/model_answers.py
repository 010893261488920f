"""What a fitted graphical model says: exact answers to any marginal, the likelihood of rows, and synthetic rows.

A marginal inside a clique is a sum; one that spreads over a tree is gathered by messages in the clique to which they
are smallest, each message made once for all queries; columns of different trees are independent.
"""

from functools import cache
from math import prod

import numpy as np

from fedsynth_lib.methods.graphical_model import Model, Propagation, project
from fedsynth_lib.methods.junction_tree import Query


class Answers:
    """A fitted model's answers: marginals of any query, exact, each step of message passing done once."""

    def __init__(self, model: Model):
        self.model = model
        self.propagation = Propagation(model.levels, model.potentials)
        self.marginals, self.log_z = self.propagation.run(model.potentials)
        self.tree = self.propagation.tree
        self._messages: dict[tuple[int, int, Query], np.ndarray] = {}
        self._near: list[dict[int, Query]] = [{} for _ in self.tree]  # neighbour -> separator
        for number, node in enumerate(self.tree):
            if node.parent is not None:
                self._near[number][node.parent] = self._near[node.parent][number] = node.separator
        self._beyond = cache(self._beyond)

    def __call__(self, query: Query) -> np.ndarray:
        """The marginal's shares, in the shape of its table."""
        levels, answer, columns = self.model.levels, np.ones(()), ()
        roots = [number for number, node in enumerate(self.tree) if node.parent is None]
        found = [(root, part) for root in roots if (part := tuple(c for c in query if c in self._beyond(root, None)))]
        pieces = [(self._connected(root, part), part) for root, part in found]
        pieces += [(np.full(levels[c], 1 / levels[c]), (c,)) for c in query if not any(c in p for _, p in pieces)]
        for table, part in pieces:  # independent of each other
            answer, columns = np.multiply.outer(answer, table), (*columns, *part)
        return project(answer, columns, query)

    def _beyond(self, number: int, source: int | None) -> frozenset[int]:
        """Columns of the clique and of all that lie behind it as seen from `source`."""
        behind = (self._beyond(other, number) for other in self._near[number] if other != source)
        return frozenset(self.tree[number].columns).union(*behind)

    def _wanted(self, number: int, source: int | None, part: Query) -> dict[int, Query]:
        """Neighbour -> columns of `part` that only lie behind it."""
        away = [c for c in part if c not in self.tree[number].columns]
        lower = {n: tuple(c for c in away if c in self._beyond(n, number)) for n in self._near[number] if n != source}
        return {neighbour: columns for neighbour, columns in lower.items() if columns}

    def _connected(self, root: int, part: Query) -> np.ndarray:
        """The marginal of columns in one tree."""
        levels, near = self.model.levels, self._near

        def cost(number: int) -> tuple[int, int]:
            wanted = self._wanted(number, None, part)
            sizes = [prod(levels[c] for c in (*near[number][other], *lower)) for other, lower in wanted.items()]
            return max(sizes, default=0), self.propagation.beliefs[number].size

        inside = [number for number, node in enumerate(self.tree) if set(node.columns) <= self._beyond(root, None)]
        return self._gather(min(inside, key=cost), None, part, part)

    def _gather(self, number: int, source: int | None, part: Query, keep: Query) -> np.ndarray:
        """P(keep) from the clique and the messages about `part` of its neighbours other than `source`."""
        wanted = self._wanted(number, source, part)
        used = set(keep).union(*(self._near[number][other] for other in wanted))
        columns = tuple(c for c in self.tree[number].columns if c in used)
        label = {c: axis for axis, c in enumerate(dict.fromkeys((*columns, *part)))}  # einsum knows but 52
        operands: list = [project(self.propagation.beliefs[number], self.tree[number].columns, columns)]
        operands.append([label[c] for c in columns])
        for other, lower in wanted.items():
            operands.append(self._message(other, number, lower))
            operands.append([label[c] for c in (*self._near[number][other], *lower)])
        return np.einsum(*operands, [label[c] for c in keep], optimize=True)

    def _message(self, number: int, source: int, part: Query) -> np.ndarray:
        """P(part | separator to `source`), from the side of the clique."""
        key = (number, source, part)
        if key not in self._messages:
            separator = self._near[number][source]
            joint = self._gather(number, source, part, (*separator, *part))
            given = project(self.propagation.beliefs[number], self.tree[number].columns, separator)
            given = given.reshape(*given.shape, *[1] * len(part))
            self._messages[key] = np.divide(joint, given, out=np.zeros_like(joint), where=given > 0)
        return self._messages[key]


def log_likelihood(model: Model, rows: np.ndarray) -> np.ndarray:
    """Log-probability (natural logarithm) of each coded row, exact: potentials at the row less log Z; (rows,)."""
    _, log_z = Propagation(model.levels, model.potentials).run(model.potentials)
    values = np.full(len(rows), -log_z)
    for query, table in model.potentials.items():
        values += table[tuple(rows[:, query].T)]
    return values


def sample(model: Model, num_rows: int, *, rng: np.random.Generator) -> np.ndarray:
    """Coded rows whose counts follow the model up to rounding; int32 (rows, columns).

    Clique by clique: among the rows that agree in the separator, each value of the rest appears as often as expected,
    rounded up or down at random (systematic sampling), and is dealt to the rows at random. The noise of
    independent draws, which grows with the number of cells, is thus avoided.
    """
    propagation = Propagation(model.levels, model.potentials)
    propagation.run(model.potentials)
    rows = np.empty((num_rows, len(model.levels)), dtype=np.int32)
    held = {c for node in propagation.tree for c in node.columns}
    for column in sorted(set(range(len(model.levels))) - held):
        rows[:, column] = _deal(np.ones((1, model.levels[column])), np.zeros(num_rows, np.intp), rng)
    for node, belief in zip(propagation.tree, propagation.beliefs, strict=True):
        shape = node.shape(model.levels)
        given = np.ravel_multi_index(tuple(rows[:, node.separator].T), shape) if shape else np.zeros(num_rows, np.intp)
        rest = node.columns[len(node.separator) :]
        drawn = _deal(node.matrix(belief), given, rng)
        rows[:, rest] = np.stack(np.unravel_index(drawn, [model.levels[c] for c in rest]), axis=1)
    return rows


def _deal(weights: np.ndarray, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each row a column of `weights` with chances in the ratio of line `given`, by systematic sampling per line."""
    order = np.lexsort((rng.random(len(given)), given))  # by line, at random within it
    lines, start, size = np.unique(given[order], return_index=True, return_counts=True)
    chosen = weights[lines]
    ends = np.cumsum(chosen, axis=1)
    sums = ends[:, -1:]
    ends = np.where(sums > 0, ends / np.where(sums > 0, sums, 1), np.arange(1, ends.shape[1] + 1) / ends.shape[1])
    ends[:, -1] = 1
    group = np.repeat(np.arange(len(lines)), size)
    ranks = np.arange(len(given)) - start[group] + rng.random(len(lines))[group]
    places = group + np.minimum(ranks / size[group], np.nextafter(1, 0))
    found = np.searchsorted((ends + np.arange(len(lines))[:, None]).ravel(), places, side="right")
    drawn = np.empty(len(given), dtype=np.intp)
    drawn[order] = np.minimum(found - group * weights.shape[1], weights.shape[1] - 1)
    return drawn
