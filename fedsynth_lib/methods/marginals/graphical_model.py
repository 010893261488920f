"""Graphical-model inference: from noisy marginals to one distribution.

Source: Private-PGM, McKenna et al. 2019.

A model is a Markov random field over coded columns: log p(x) is the sum of its potentials at x less
log Z, with one table of potentials for every distinct marginal that was measured. Belief
propagation on a junction tree gives its marginals exactly; `estimate` finds potentials whose
marginals come close to the measurements. All of it is post-processing of noisy counts. Float64
throughout; a query is an ascending tuple of column positions, and its table has one axis for each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods.marginals.junction_tree import (
    Levels,
    Node,
    Query,
    junction_tree,
)

Tables = dict[Query, np.ndarray]


@dataclass(frozen=True)
class Model:
    """levels: of every column. potentials: query -> table; a column in no query is uniform."""

    levels: Levels
    potentials: Tables = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """All measurements of one marginal, taken together."""

    shares: np.ndarray  # noisy counts / total, in the shape of the table; may be negative
    weight: float  # sum over measurements of (total / standard deviation)^2


def targets(
    levels: Levels, measurements: Iterable[tuple[Query, np.ndarray, float]], total: float
) -> dict[Query, Target]:
    """Return a Target for each query from (query, noisy counts, standard deviation).

    Repeated measurements of a query are averaged by their precision. The squared error of repeats
    is that of their weighted mean plus a constant, so nothing is lost. Totals of measurements need
    not agree; the model's is 1, which stands for `total` rows.
    """
    if not 0 < total < np.inf:
        raise BadInput(f"the total of the measurements is {total}: give a positive number of rows.")
    sums: dict[Query, tuple] = {}
    for query, counts, noise in measurements:
        counts, shape = np.asarray(counts, float), tuple(levels[c] for c in query)
        if counts.size != prod(shape) or not np.isfinite(counts).all() or not 0 < noise < np.inf:
            raise BadInput(
                f"the measurement of columns {query} needs {prod(shape)} finite counts "
                "and noise above 0."
            )
        weight, (shares, weights) = (total / noise) ** 2, sums.get(query, (0.0, 0.0))
        sums[query] = (shares + weight * counts.reshape(shape) / total, weights + weight)
    return {query: Target(shares / weights, weights) for query, (shares, weights) in sums.items()}


# --- belief propagation --------------------------------------------------------------------------


class Propagation:
    """Belief propagation for one set of queries.

    It holds the tree, the order of work, and tables that are used again in every run.

    Upward, a clique is normalised given its separator in log space (one exponential per cell) and
    hands its log-normaliser to its parent; downward, it is multiplied by its separator's marginal.
    A query goes through the smallest table that holds it, upward another query, downward one that
    lacks what several lack, so that a large clique is passed over seldom.
    """

    def __init__(self, levels: Levels, queries: Iterable[Query]):
        self.levels = levels
        self.tree: tuple[Node, ...] = junction_tree(levels, tuple(sorted(queries)))
        self.beliefs = [np.empty([levels[c] for c in node.columns]) for node in self.tree]
        self.matrices = [
            node.matrix(belief) for node, belief in zip(self.tree, self.beliefs, strict=True)
        ]
        self.totals = [np.empty(0)] * len(self.tree)
        held = {c for node in self.tree for c in node.columns}
        self.log_free = float(sum(np.log(level) for c, level in enumerate(levels) if c not in held))

        def cells(query: Query) -> int:
            return prod(levels[c] for c in query)

        ascending = sorted(queries, key=lambda query: (cells(query), len(query), query))
        # (query, a query that holds it or None, layout), small queries first
        self.steps = []
        # to each clique: (query, or child; its columns); and all its queries
        added: list[list[tuple]] = [[] for _ in self.tree]
        asked: list[tuple[Query, list[Query]]] = [(node.columns, []) for node in self.tree]
        for place, query in enumerate(ascending):
            holders = [
                number for number, node in enumerate(self.tree) if set(query) <= set(node.columns)
            ]
            clique = min(holders, key=lambda number: self.beliefs[number].size)
            inside = next(
                (other for other in ascending[place + 1 :] if set(query) < set(other)), None
            )
            if inside and cells(inside) >= self.beliefs[clique].size:
                inside = None
            self.steps.append((query, inside, layout(query, inside or self.tree[clique].columns)))
            asked[clique][1].append(query)
            if not inside:
                added[clique].append((query, query))
        self.ways = [ways(*each, levels) for each in asked]
        # of each clique: (query or child, layout, where to add it): few sums are over all its cells
        self.terms = []
        for node, belief, terms in zip(self.tree, self.beliefs, added, strict=True):
            terms += [(child, self.tree[child].separator) for child in node.children]
            terms.sort(key=lambda term: cells(term[1]))
            columns = [
                set().union(*(own for _, own in terms[: end + 1])) for end in range(len(terms))
            ]
            full = [belief if cells(tuple(held)) == belief.size else None for held in columns]
            self.terms.append(
                [
                    (key, layout(own, node.columns), out)
                    for (key, own), out in zip(terms, full, strict=True)
                ]
            )

    def run(
        self, potentials: Mapping[Query, np.ndarray], out: Tables | None = None
    ) -> tuple[Tables, float]:
        """Return the marginals of all queries as shares, and log Z.

        If `out` is given, the marginals are written to it. Afterwards `beliefs` are the marginals
        of the cliques.
        """
        summed = dict(potentials)
        for query, inside, place in self.steps:
            if inside:
                summed[inside] = summed[inside] + place.expand(summed[query])
        log_z = self._upward(summed)
        self._downward()
        marginals = out or {
            query: np.empty([self.levels[c] for c in query]) for query, *_ in self.steps
        }
        for node, belief, found in zip(self.tree, self.beliefs, self.ways, strict=True):
            tables = {node.columns: belief}
            for query, columns in found:
                place, own = layout(query, columns), marginals.get(query)
                tables[query] = place.project(tables[columns], out=own)
        return marginals, log_z

    def _upward(self, tables: dict) -> float:
        """Turn beliefs into exp(sum of potentials and children's messages - peak); return log Z.

        Children come before their parents.

        tables: the potentials by query; each clique's message is put beside them, by its number.
        """
        log_z = self.log_free
        for number in reversed(range(len(self.tree))):
            node, belief, cells = self.tree[number], self.beliefs[number], self.matrices[number]
            total = None
            for key, place, out in self.terms[number]:
                table = place.expand(tables[key])
                total = table if total is None else np.add(total, table, out=out)
            if total is not belief:
                belief[...] = 0 if total is None else total
            peak = cells.max(axis=1, keepdims=True)
            np.exp(np.subtract(cells, peak, out=cells), out=cells)
            self.totals[number] = np.einsum("ij->i", cells)
            tables[number] = (peak[:, 0] + np.log(self.totals[number])).reshape(
                node.shape(self.levels)
            )
            if node.parent is None:
                log_z += float(tables[number])
        return log_z

    def _downward(self) -> None:
        for number, node in enumerate(self.tree):
            share = np.ones(1)
            if node.parent is not None:
                share = project(
                    self.beliefs[node.parent], self.tree[node.parent].columns, node.separator
                ).ravel()
            self.matrices[number] *= (share / self.totals[number])[:, None]


class Layout(NamedTuple):
    """How the table of a query lies in one over columns that hold all of it."""

    order: list[int]  # of the query's axes in `columns`
    spread: tuple  # where axes of length one go in
    all_axes: list[int]  # by number, as einsum takes them
    kept_axes: list[int]

    def expand(self, table: np.ndarray) -> np.ndarray:
        """Return a view of the query's table that broadcasts against the larger one."""
        return table.transpose(self.order)[self.spread]

    def project(self, table: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Sum the larger table to the query, in the order of its axes.

        Without `out` the result is a view if no axis is summed.
        """
        # several times faster than `sum` on short axes
        return np.einsum(table, self.all_axes, self.kept_axes, out=out)


@lru_cache(maxsize=100_000)
def layout(query: Query, columns: Query) -> Layout:
    """Return how the table of a query is part of a larger one."""
    order = [query.index(c) for c in columns if c in query]
    spread = tuple(slice(None) if c in query else None for c in columns)
    return Layout(order, spread, list(range(len(columns))), [columns.index(c) for c in query])


def project(table: np.ndarray, columns: Query, query: Query) -> np.ndarray:
    """Sum the table over `columns` to `query`, its axes in the order of `query`.

    The result is a view if no axis is summed.
    """
    return layout(query, columns).project(table)


def ways(columns: Query, queries: list[Query], levels: Levels) -> list[tuple[Query, Query]]:
    """Return (to, from) of each sum of a table to queries over some of its columns.

    A column that several lack is summed first, for all of them, while that makes fewer additions.
    """
    found = []
    while queries:
        lacking = {c: [q for q in queries if c not in q] for c in columns}
        saved = {c: len(own) * (1 - 1 / levels[c]) - 1 for c, own in lacking.items()}
        most = max(saved, key=saved.__getitem__)
        if saved[most] <= 0:
            break
        inner = tuple(c for c in columns if c != most)
        own = [q for q in lacking[most] if q != inner]
        found += [(inner, columns), *ways(inner, own, levels)]
        queries = [q for q in queries if most in q]
    return found + [(query, columns) for query in queries]


# --- estimation ----------------------------------------------------------------------------------


def estimate(
    model: Model,
    targets: Mapping[Query, Target],
    *,
    iterations: int,
    momentum: bool = True,
    to_noise: bool = True,
) -> Model:
    """Estimate the model whose marginals come close to the targets, by mirror descent.

    The descent starts at `model`. Source: McKenna et al. 2019.

    It minimises half the sum of weight * |marginal - shares|^2. A mirror step moves the potentials
    against the gradient of the loss in the marginals. The first is 1 / sum of weights long, which
    cannot raise the loss (|.|_2 <= |.|_1 and Pinsker). A step that raises it is taken back and
    repeated from rest at half the length; steps double until that happens first, then grow by a
    twentieth.

    momentum: Nesterov's, restarted where the loss rises (O'Donoghue and Candes 2015): a fifth of
        the iterations.
    to_noise: stop where the loss is what the true distribution is expected to have, half a unit a
        cell (Morozov's discrepancy principle): what is gained beyond fits the noise. Never reached
        where measurements contradict each other by more than their noise.
    """
    if not targets:
        return model
    queries = sorted(set(targets) | set(model.potentials))
    sizes = [prod(model.levels[c] for c in query) for query in queries]

    def blank() -> tuple[np.ndarray, Tables]:
        """Return a zero for every cell of every query, and the tables as views of it."""
        flat = np.zeros(sum(sizes))
        pieces = np.split(flat, np.cumsum(sizes)[:-1])
        return flat, {
            q: x.reshape([model.levels[c] for c in q]) for q, x in zip(queries, pieces, strict=True)
        }

    propagation = Propagation(model.levels, queries)
    floor = sum(target.shares.size for target in targets.values()) / 2 if to_noise else 0.0
    # A table's total is 1 whatever the potentials are: what the shares miss of it is a constant
    # part of the loss.
    missing = {
        query: (1 - target.shares.sum()) / target.shares.size for query, target in targets.items()
    }
    measured = [(query, targets[query]) for query in queries if query in targets]
    goals, goal_tables = blank()
    weights, weight_tables = blank()
    for query, target in measured:
        goal_tables[query][...], weight_tables[query][...] = (
            target.shares + missing[query],
            target.weight,
        )
    constant = (
        sum(target.weight * target.shares.size * missing[q] ** 2 for q, target in targets.items())
        / 2
    )

    def loss_at(potentials: Tables, gradient: np.ndarray, gradient_tables: Tables) -> float:
        """Return the loss at these potentials, and write its gradient into `gradient`.

        This is the gradient in the marginals, less its constant part.
        """
        propagation.run(potentials, out=gradient_tables)
        np.subtract(gradient, goals, out=gradient)
        loss = constant
        for query, target in measured:
            error = gradient_tables[query]
            loss += target.weight * float(np.vdot(error, error)) / 2
        np.multiply(gradient, weights, out=gradient)
        return loss

    (point, point_tables), (gradient, gradient_tables) = blank(), blank()
    (best, best_tables), (best_gradient, best_gradient_tables) = blank(), blank()
    for query, table in model.potentials.items():
        best_tables[query][...] = table
    best_loss = loss_at(best_tables, best_gradient, best_gradient_tables)
    moved, before = np.zeros_like(best), best.copy()
    step, growth, pace = 1 / sum(target.weight for target in targets.values()), 2.0, 0
    for _ in range(iterations):
        if best_loss <= floor or not 1e-300 < step < 1e300:
            break
        np.multiply(best_gradient, -step, out=moved)
        moved += best
        if momentum:  # on in the direction in which the last such point lies behind
            np.subtract(moved, before, out=point)
            point *= pace / (pace + 3)
            point += moved
            before, moved = moved, before
        else:
            point[:] = moved
        loss = loss_at(point_tables, gradient, gradient_tables)
        if loss <= best_loss:
            best, best_tables, point, point_tables = point, point_tables, best, best_tables
            best_gradient, best_gradient_tables, gradient, gradient_tables = (
                gradient,
                gradient_tables,
                best_gradient,
                best_gradient_tables,
            )
            best_loss, step, pace = loss, step * growth, pace + 1
        else:
            before[:] = best
            step, growth, pace = step / 2, 1.05, 0
    return Model(model.levels, {query: table.copy() for query, table in best_tables.items()})
