"""What a fitted graphical model says: marginals, the likelihood of rows, synthetic rows.

It answers any marginal exactly. A marginal inside a clique is a sum; one that spreads over a tree
is gathered by messages in the clique to which they are smallest, each message made once for all
queries; columns of different trees are independent.
"""

from itertools import chain
from math import prod

import numpy as np

from fedsynth_lib.methods.marginals.graphical_model import Model, Propagation, project
from fedsynth_lib.methods.marginals.junction_tree import Query

# 512 MB: of all messages kept, and of the largest table that a sum over several cliques should make
CELLS = 2**26
# a clique, its neighbour on this side, columns given, columns asked about
Branch = tuple[int, int, Query, Query]


class Answers:
    """The answers of a fitted model: exact marginals of any query.

    Each step of message passing is done once, and its result is kept while memory allows.
    """

    def __init__(self, model: Model):
        self.model = model
        self.propagation = Propagation(model.levels, model.potentials)
        self.marginals, self.log_z = self.propagation.run(model.potentials)
        self.tree = self.propagation.tree
        self._plans: dict[tuple[int, int | None, Query], tuple[int, list[Branch]]] = {}
        self._messages: dict[tuple[int, Query, Query], np.ndarray] = {}
        self._near: list[dict[int, Query]] = [{} for _ in self.tree]  # neighbour -> separator
        # (clique, neighbour) -> columns behind the neighbour only
        self._beyond: dict[tuple[int, int], set[int]] = {}
        self._trees: list[tuple[list[int], set[int]]] = []  # cliques and columns of each tree
        self._sizes = [belief.size for belief in self.propagation.beliefs]
        self._held = [frozenset(node.columns) for node in self.tree]
        below = [set(held) for held in self._held]
        for number in reversed(range(len(self.tree))):
            below[number].update(*(below[child] for child in self.tree[number].children))
        for number, node in enumerate(self.tree):
            if node.parent is None:
                self._trees.append(([], below[number]))
            else:
                self._near[number][node.parent] = self._near[node.parent][number] = node.separator
                self._beyond[node.parent, number] = below[number] - set(node.separator)
                self._beyond[number, node.parent] = self._trees[-1][1] - below[number]
            self._trees[-1][0].append(number)
        # the tree of a column
        self._home = {c: number for number, (_, held) in enumerate(self._trees) for c in held}

    def __call__(self, query: Query) -> np.ndarray:
        """Return the marginal's shares, in the shape of its table."""
        parts: dict[int, Query] = {}  # of the query, by tree; a column in none is a part of its own
        for c in query:
            home = self._home.get(c, len(self._trees) + c)
            parts[home] = (*parts.get(home, ()), c)
        pieces = [(self._marginal(home, part), part) for home, part in sorted(parts.items())]
        (answer, columns), *others = pieces
        answer = answer.copy()  # it may be a view of a belief
        for table, part in others:  # independent of each other
            answer, columns = np.multiply.outer(answer, table), (*columns, *part)
        return project(answer, columns, query)

    def _marginal(self, home: int, part: Query) -> np.ndarray:
        """Return the marginal of columns in one tree, or of a free column.

        It is a sum over the smallest clique that holds all columns. Without such a clique it is
        gathered where messages are smallest.
        """
        if home >= len(self._trees):
            level = self.model.levels[part[0]]
            return np.full(level, 1 / level)
        cliques, asked = self._trees[home][0], frozenset(part)
        if holders := [number for number in cliques if asked <= self._held[number]]:
            smallest = min(holders, key=self._sizes.__getitem__)
            return project(self.propagation.beliefs[smallest], self.tree[smallest].columns, part)
        centre = min(
            cliques, key=lambda number: (self._plan(number, None, part)[0], self._sizes[number])
        )
        return self._gather(centre, None, part, part)

    def _plan(self, number: int, source: int | None, part: Query) -> tuple[int, list[Branch]]:
        """Return the cells of all messages that a clique needs, and the branches that send them.

        The messages are about the columns of `part` that the clique lacks. `source` is a neighbour
        that is not asked. Cliques in between, which would only pass on what is given, are left out.
        """
        key = (number, source, part)
        if key not in self._plans:
            branches = []
            for other, given in self._near[number].items():
                about = tuple(c for c in part if c in self._beyond[number, other])
                if about and other != source:
                    branches.append((*self._farthest(other, number, given, about), given, about))
            own = sum(
                prod(self.model.levels[c] for c in chain(given, about))
                for _, _, given, about in branches
            )
            rest = sum(self._plan(other, behind, about)[0] for other, behind, _, about in branches)
            self._plans[key] = own + rest, branches
        return self._plans[key]

    def _farthest(self, number: int, source: int, given: Query, about: Query) -> tuple[int, int]:
        """Return the last clique away from `source` with all of `given`, and the one before."""
        for other, shared in self._near[number].items():
            if (
                other != source
                and set(given) <= set(shared)
                and self._beyond[number, other].issuperset(about)
            ):
                return self._farthest(other, number, given, about)
        return number, source

    def _gather(self, number: int, source: int | None, part: Query, keep: Query) -> np.ndarray:
        """P(keep), from the clique and messages about `part` from all sides but `source`."""
        _, branches = self._plan(number, source, part)
        used = set(keep).union(*(given for _, _, given, _ in branches))
        columns = tuple(c for c in self.tree[number].columns if c in used)
        # einsum knows 52 at most
        label = {c: axis for axis, c in enumerate(dict.fromkeys((*columns, *part)))}
        operands: list = [
            project(self.propagation.beliefs[number], self.tree[number].columns, columns)
        ]
        operands.append([label[c] for c in columns])
        for other, behind, given, about in branches:
            operands.append(self._message(other, behind, given, about))
            operands.append([label[c] for c in (*given, *about)])
        return np.einsum(*operands, [label[c] for c in keep], optimize=("greedy", CELLS))

    def _message(self, number: int, source: int, given: Query, about: Query) -> np.ndarray:
        """Return P(about | given), computed in a clique.

        The clique must hold what is given, and separate the rest from `source`.
        """
        key = (number, given, about)
        if key not in self._messages:
            joint = self._gather(number, source, about, (*given, *about))
            total = project(self.propagation.beliefs[number], self.tree[number].columns, given)
            total = total.reshape(*total.shape, *[1] * len(about))
            if sum(table.size for table in self._messages.values()) + joint.size > CELLS:
                self._messages.clear()
            self._messages[key] = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
        return self._messages[key]


def log_likelihood(model: Model, rows: np.ndarray) -> np.ndarray:
    """Return the exact log-probability (natural logarithm) of each coded row, (rows,).

    It is the sum of the potentials at the row, less log Z.
    """
    _, log_z = Propagation(model.levels, model.potentials).run(model.potentials)
    values = np.full(len(rows), -log_z)
    for query, table in model.potentials.items():
        values += table[tuple(rows[:, query].T)]
    return values


def sample(model: Model, num_rows: int, *, rng: np.random.Generator) -> np.ndarray:
    """Coded rows whose counts follow the model up to rounding; int32 (rows, columns).

    Clique by clique: among the rows that agree in the separator, each value of the rest appears as
    often as expected, rounded up or down at random (systematic sampling), and is dealt to the rows
    at random. The noise of independent draws, which grows with the number of cells, is thus
    avoided.
    """
    propagation = Propagation(model.levels, model.potentials)
    propagation.run(model.potentials)
    rows = np.empty((num_rows, len(model.levels)), dtype=np.int32)
    held = {c for node in propagation.tree for c in node.columns}
    for column in sorted(set(range(len(model.levels))) - held):
        rows[:, column] = _deal(
            np.ones((1, model.levels[column])), np.zeros(num_rows, np.intp), rng
        )
    for node, belief in zip(propagation.tree, propagation.beliefs, strict=True):
        shape = node.shape(model.levels)
        given = (
            np.ravel_multi_index(tuple(rows[:, node.separator].T), shape)
            if shape
            else np.zeros(num_rows, np.intp)
        )
        rest = node.columns[len(node.separator) :]
        drawn = _deal(node.matrix(belief), given, rng)
        rows[:, rest] = np.stack(np.unravel_index(drawn, [model.levels[c] for c in rest]), axis=1)
    return rows


def _deal(weights: np.ndarray, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw for each row a column of `weights` with chances in the ratio of line `given`.

    The rows of a line are drawn together, by systematic sampling.
    """
    order = np.lexsort((rng.random(len(given)), given))  # by line, at random within it
    lines, start, size = np.unique(given[order], return_index=True, return_counts=True)
    ends = np.cumsum(weights[lines], axis=1)
    ends /= ends[:, -1:]  # a line that was drawn has mass
    group = np.repeat(np.arange(len(lines)), size)
    ranks = np.arange(len(given)) - start[group] + rng.random(len(lines))[group]
    # never in the next line
    places = np.minimum(group + ranks / size[group], np.nextafter(group + 1.0, 0))
    found = np.searchsorted((ends + np.arange(len(lines))[:, None]).ravel(), places, side="right")
    drawn = np.empty(len(given), dtype=np.intp)
    drawn[order] = found - group * weights.shape[1]
    return drawn
