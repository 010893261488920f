"""Junction trees: the structure on which a graphical model is exact, and how large it would be.

Columns that appear together in a measured marginal are neighbours. Eliminating columns one after
the other, each time joining all neighbours of the one that goes, triangulates that graph; the
maximal cliques, joined where they share most columns, form one tree for every connected part of the
graph (Koller and Friedman 2009, chapters 9 and 10).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from fedsynth_lib.core.queries import Query

Levels = tuple[int, ...]  # of all columns
BYTES = 8  # of a cell
RULES = ("fill", "rest", "clique")  # of elimination; the last is the quickest


@dataclass(frozen=True)
class Node:
    """A clique of a junction tree.

    Its table has the separator's axes first, so that a row of `matrix` is one conditional.
    """

    columns: Query  # separator, then residual; not ascending as a whole
    separator: Query  # columns shared with the parent
    parent: int | None
    children: tuple[int, ...]

    def shape(self, levels: Levels) -> tuple[int, ...]:
        """Shape of a table over the separator."""
        return tuple(levels[c] for c in self.separator)

    def matrix(self, table: np.ndarray) -> np.ndarray:
        """Return the table as (cells of the separator, cells of the rest), a view."""
        return table.reshape(prod(table.shape[: len(self.separator)]), -1)


def model_bytes(levels: Levels, queries: Iterable[Query]) -> int:
    """Memory of the tables of all cliques of the model that measures `queries`."""
    return BYTES * sum(_part_cells(levels, part) for part in parts(queries))


def grown_fits(
    levels: Levels, queries: Iterable[Query], candidates: Iterable[Query], most_bytes: float
) -> Iterator[bool]:
    """Yield, for each candidate, whether the model of `queries` and it fits into `most_bytes`.

    Only the parts of the model that a candidate touches change. Of their triangulations, one that
    is small enough is sufficient.
    """
    groups = [
        (frozenset().union(*part), part, _part_cells(levels, part)) for part in parts(queries)
    ]
    whole = sum(cells for *_, cells in groups)
    for query in candidates:
        columns, kept, others = frozenset(query), [query], whole
        for held, part, cells in groups:
            if held.isdisjoint(columns):
                continue
            if columns <= held and any(columns.issubset(other) for other in part):
                yield BYTES * whole <= most_bytes  # nothing changes
                break
            kept += [other for other in part if not columns.issuperset(other)]
            others -= cells
        else:
            grown = frozenset(kept)
            yield any(
                BYTES * (others + _cells(levels, grown, rule)) <= most_bytes
                for rule in reversed(RULES)
            )


def covered(query: Query, queries: Iterable[Query]) -> bool:
    """Whether the query lies inside one of `queries`."""
    columns = frozenset(query)
    return any(columns.issubset(other) for other in queries)


def parts(queries: Iterable[Query]) -> list[frozenset[Query]]:
    """Group the queries by connected part of their graph, without those inside another one."""
    groups: list[tuple[set[int], list[Query]]] = []
    for query in sorted(queries, key=len, reverse=True):
        if any(
            set(query) <= set(other)
            for columns, group in groups
            if query[0] in columns
            for other in group
        ):
            continue
        touched = [group for group in groups if not group[0].isdisjoint(query)]
        groups = [group for group in groups if group[0].isdisjoint(query)]
        columns = set(query).union(*(group[0] for group in touched))
        groups.append((columns, [query, *(other for group in touched for other in group[1])]))
    return [frozenset(group) for _, group in groups]


def _part_cells(levels: Levels, queries: frozenset[Query]) -> int:
    return min(_cells(levels, queries, rule) for rule in RULES)


@lru_cache(maxsize=100_000)
def _cells(levels: Levels, queries: frozenset[Query], rule: str) -> int:
    return sum(prod(levels[c] for c in clique) for clique in _triangulate(levels, queries, rule))


def _cliques(levels: Levels, queries: frozenset[Query]) -> tuple[frozenset[int], ...]:
    """Maximal cliques of the smallest of three triangulations."""
    return _triangulate(levels, queries, min(RULES, key=lambda rule: _cells(levels, queries, rule)))


def _triangulate(
    levels: Levels, queries: frozenset[Query], rule: str
) -> tuple[frozenset[int], ...]:
    """Eliminate columns greedily by one of three rules, and return the cliques.

    Each rule names the column to eliminate next. Ties go to the smaller table of the neighbours,
    then to the lower column.

    fill: the column whose neighbours lack the fewest links, each counting as the product of its
        levels.
    rest: one whose neighbours lack none, or else the smallest table of the neighbours. clique: the
        smallest clique.
    """
    near: dict[int, set[int]] = {}
    for query in queries:
        for column in query:
            near.setdefault(column, set()).update(c for c in query if c != column)

    def cost(column: int) -> tuple[int, int, int]:
        around = near[column]
        rest = prod(levels[c] for c in around)
        if rule == "clique":
            return levels[column] * rest, rest, column
        fill = sum(levels[a] * levels[b] for a in around for b in around - near[a] if a != b)
        return fill if rule == "fill" else fill > 0, rest, column

    costs, cliques = {column: cost(column) for column in near}, []
    while near:
        column = min(costs, key=costs.__getitem__)
        around = near.pop(column)
        # which change what others' neighbours lack, too
        links = rule != "clique" and costs[column][0] > 0
        del costs[column]
        if not any(around | {column} <= clique for clique in cliques):
            cliques.append(frozenset(around | {column}))
        for c in around:
            near[c] |= around
            near[c] -= {c, column}
        costs |= {
            c: cost(c) for c in (around.union(*(near[c] for c in around)) if links else around)
        }
    return tuple(cliques)


@lru_cache(maxsize=256)
def junction_tree(levels: Levels, queries: tuple[Query, ...]) -> tuple[Node, ...]:
    """Return the cliques of the model that measures `queries`.

    One tree comes after the other, and in a tree parents come before children. A tree is rooted at
    its largest clique, the only one that is then normalised without a separator.
    """
    nodes: list[Node] = []
    for part in sorted(parts(queries), key=lambda part: min(part)):
        cliques = sorted(
            _cliques(levels, part),
            key=lambda clique: (-prod(levels[c] for c in clique), sorted(clique)),
        )
        order, parent, waiting = [0], {0: None}, set(range(1, len(cliques)))
        while waiting:  # Prim: the widest separator, then the one with the fewest cells
            here, there = max(
                ((i, j) for i in order for j in waiting),
                key=lambda pair: (
                    len(cliques[pair[0]] & cliques[pair[1]]),
                    -prod(levels[c] for c in cliques[pair[0]] & cliques[pair[1]]),
                    -pair[1],
                    -pair[0],
                ),
            )
            order.append(there)
            parent[there] = here
            waiting.remove(there)
        offset = len(nodes)
        place = {clique: offset + number for number, clique in enumerate(order)}
        for number in order:
            above = parent[number]
            shared = cliques[number] & cliques[above] if above is not None else frozenset()
            columns = (*sorted(shared), *sorted(cliques[number] - shared))
            children = tuple(sorted(place[c] for c in order if parent[c] == number))
            nodes.append(
                Node(
                    columns,
                    tuple(sorted(shared)),
                    None if above is None else place[above],
                    children,
                )
            )
    return tuple(nodes)
