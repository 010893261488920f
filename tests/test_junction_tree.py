"""Junction trees: the defining properties, checked by brute force, and their size, against other
triangulations."""

import time
import warnings
from itertools import combinations, permutations
from math import prod

import networkx as nx
import numpy as np
import pytest
from small_models import random_set

from fedsynth_lib.core.queries import closure, random_workload
from fedsynth_lib.methods.marginals.junction_tree import (
    covered,
    grown_fits,
    junction_tree,
    model_bytes,
    parts,
)


def graph_of(queries):
    graph = nx.Graph()
    for query in queries:
        graph.add_nodes_from(query)
        graph.add_edges_from(combinations(query, 2))
    return graph


def cells(levels, cliques):
    return sum(prod(levels[c] for c in clique) for clique in cliques)


def eliminate(graph, order):
    """Maximal cliques of the triangulation by one elimination order."""
    graph, cliques = graph.copy(), []
    for column in order:
        around = set(graph[column])
        graph.add_edges_from(combinations(around, 2))
        graph.remove_node(column)
        if not any(around | {column} <= clique for clique in cliques):
            cliques.append(around | {column})
    return cliques


RANDOM = pytest.mark.parametrize("seed", range(40))


@RANDOM
def test_every_query_lies_in_a_clique_and_no_clique_in_another(seed):
    levels, queries = random_set(seed)
    cliques = [set(node.columns) for node in junction_tree(levels, queries)]
    assert all(any(set(query) <= clique for clique in cliques) for query in queries)
    assert not any(
        a < b or (a == b and i != j) for i, a in enumerate(cliques) for j, b in enumerate(cliques)
    )
    assert set().union(*cliques) == set().union(*queries)


@RANDOM
def test_running_intersection(seed):
    """What two cliques share, every clique between them holds; cliques of different trees share
    nothing."""
    levels, queries = random_set(seed)
    tree = junction_tree(levels, queries)
    links = nx.Graph((node.parent, i) for i, node in enumerate(tree) if node.parent is not None)
    links.add_nodes_from(range(len(tree)))
    for i, j in combinations(range(len(tree)), 2):
        shared = set(tree[i].columns) & set(tree[j].columns)
        if nx.has_path(links, i, j):
            assert all(shared <= set(tree[k].columns) for k in nx.shortest_path(links, i, j))
        else:
            assert not shared


@RANDOM
def test_parents_come_first_and_separators_are_what_both_hold(seed):
    levels, queries = random_set(seed)
    tree = junction_tree(levels, queries)
    for number, node in enumerate(tree):
        shared = (
            set() if node.parent is None else set(node.columns) & set(tree[node.parent].columns)
        )
        rest = set(node.columns) - shared
        assert (
            node.separator == tuple(sorted(shared))
            and node.columns == (*sorted(shared), *sorted(rest))
            and rest
        )
        assert node.children == tuple(i for i, other in enumerate(tree) if other.parent == number)
        assert node.parent is None or (shared and node.parent < number)
        assert node.shape(levels) == tuple(levels[c] for c in sorted(shared))
        table = np.arange(cells(levels, [node.columns])).reshape([levels[c] for c in node.columns])
        matrix = node.matrix(table)
        assert np.shares_memory(matrix, table) and matrix.shape[0] == cells(levels, [shared])


@RANDOM
def test_one_tree_for_each_connected_part_rooted_at_its_largest_clique(seed):
    levels, queries = random_set(seed)
    tree = junction_tree(levels, queries)
    graph = graph_of(queries)
    assert sum(node.parent is None for node in tree) == nx.number_connected_components(graph)
    for part in nx.connected_components(graph):
        inside = [node for node in tree if set(node.columns) <= part]
        assert inside[0].parent is None
        assert cells(levels, [inside[0].columns]) == max(
            cells(levels, [node.columns]) for node in inside
        )


@RANDOM
def test_cliques_are_those_of_a_chordal_graph_and_bytes_are_their_cells(seed):
    levels, queries = random_set(seed)
    cliques = [node.columns for node in junction_tree(levels, queries)]
    filled = graph_of(cliques)
    assert nx.is_chordal(filled) and all(filled.has_edge(*edge) for edge in graph_of(queries).edges)
    assert {frozenset(c) for c in nx.find_cliques(filled)} == {frozenset(c) for c in cliques}
    assert model_bytes(levels, queries) == 8 * cells(levels, cliques)


@pytest.mark.parametrize("seed", range(20))
def test_a_chordal_graph_gets_no_further_edges(seed):
    """k-trees with edges of their own cliques as queries: the least model is the cliques
    themselves."""
    rng = np.random.default_rng(seed)
    cliques = [(0, 1, 2)]
    for column in range(3, 10):
        base = cliques[rng.integers(len(cliques))]
        kept = rng.choice(base, rng.integers(1, 3), replace=False)
        cliques.append((*sorted(int(c) for c in kept), column))
    levels = tuple(int(level) for level in rng.integers(3, 9, 10))
    maximal = [
        clique for clique in cliques if not any(set(clique) < set(other) for other in cliques)
    ]
    edges = [edge for clique in cliques for edge in combinations(clique, 2)]
    assert model_bytes(levels, edges) == 8 * cells(levels, maximal)


@pytest.mark.parametrize("highest", [7, 40])
def test_size_is_the_least_of_all_elimination_orders_of_six_columns(highest):
    """Greedy rules may miss it on larger graphs; on 60 of up to six columns, all 720 orders do no
    better."""
    for seed in range(60):
        levels, queries = random_set(seed, most=6, width=2, lowest=2, highest=highest)
        graph = graph_of(queries)
        best = min(cells(levels, eliminate(graph, order)) for order in permutations(graph))
        assert model_bytes(levels, queries) == 8 * best


def test_size_against_that_of_mbi():
    """Sets of 5 to 24 candidates of the workload on binned Adult: never larger, on average 0.63 of
    it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mbi import Domain
        from mbi.junction_tree import hypothetical_model_size
    levels = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
    candidates, ratios = closure(random_workload(14)), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        queries = [
            candidates[i] for i in rng.choice(len(candidates), rng.integers(5, 25), replace=False)
        ]
        columns = sorted(set().union(*queries))
        domain = Domain([str(c) for c in columns], [levels[c] for c in columns])
        theirs = (
            hypothetical_model_size(domain, [tuple(map(str, query)) for query in queries]) * 2**20
        )
        ratios.append(model_bytes(levels, queries) / theirs)
    assert max(ratios) <= 1 + 1e-12 and np.exp(np.mean(np.log(ratios))) < 0.63


def test_parts_are_the_connected_queries_without_those_inside_others():
    queries = [(0,), (0, 1), (1, 2), (1,), (4, 5, 6), (4, 6), (3,), (3,)]
    assert set(parts(queries)) == {
        frozenset({(0, 1), (1, 2)}),
        frozenset({(4, 5, 6)}),
        frozenset({(3,)}),
    }
    assert parts([]) == []
    late = [(0, 1), (2, 3), (1, 2)]  # the last joins two parts that were apart
    assert parts(late) == [frozenset(late)]


@RANDOM
def test_parts_are_connected_components(seed):
    _, queries = random_set(seed)
    found = parts(queries)
    columns = [frozenset().union(*part) for part in found]
    assert set(columns) == {frozenset(part) for part in nx.connected_components(graph_of(queries))}
    assert len(columns) == len(found)
    maximal = {query for query in queries if not any(set(query) < set(other) for other in queries)}
    assert set().union(*found) == maximal


def test_covered():
    assert covered((0, 2), [(1, 3), (0, 1, 2)]) and covered((1,), [(1,)])
    assert not covered((0, 3), [(0, 1), (1, 3)]) and not covered((0,), [])


def test_one_clique_that_holds_everything():
    (node,) = junction_tree((2, 3, 4), ((0, 1, 2), (1,), (0, 2)))
    assert (node.columns, node.separator, node.parent, node.children) == ((0, 1, 2), (), None, ())
    assert model_bytes((2, 3, 4), [(0, 1, 2), (1,), (0, 2)]) == 8 * 24


def test_without_queries_there_is_no_model():
    assert junction_tree((2, 3), ()) == () and model_bytes((2, 3), []) == 0


def test_cycle_is_filled_where_it_is_cheap():
    """A square 0-1-2-3 needs one diagonal; that between the small columns makes the lesser
    cliques."""
    levels, square = (2, 50, 3, 60), ((0, 1), (1, 2), (2, 3), (0, 3))
    assert {frozenset(node.columns) for node in junction_tree(levels, square)} == {
        frozenset({0, 1, 2}),
        frozenset({0, 2, 3}),
    }
    assert model_bytes(levels, square) == 8 * (2 * 50 * 3 + 2 * 3 * 60)


@pytest.mark.parametrize("seed", range(5))
def test_size_depends_on_neither_order_nor_repeats_nor_inner_queries(seed):
    levels, queries = random_set(seed)
    shuffled = np.random.default_rng(seed).permutation(len(queries))
    inner = closure(queries)
    assert model_bytes(levels, queries) == model_bytes(levels, [queries[i] for i in shuffled] * 2)
    assert model_bytes(levels, queries) == model_bytes(levels, inner)
    assert {n.columns for n in junction_tree(levels, queries)} == {
        n.columns for n in junction_tree(levels, inner)
    }


def test_astronomic_sizes_are_exact():
    """The size rule must see a model that no machine could hold, not an overflow."""
    levels, everything = (1000,) * 30, list(combinations(range(30), 2))
    assert model_bytes(levels, everything) == 8 * 1000**30


def test_fifty_five_columns_and_all_triples_of_a_workload():
    """Covertype's columns with its 64 triples in one model: the largest graph the works' settings
    can ask for."""
    levels = (32,) * 10 + (2,) * 44 + (7,)
    triples = random_workload(55, size=64, width=3, seed=123)
    begin = time.process_time()  # not of other processes
    tree, size = junction_tree(levels, triples), model_bytes(levels, triples)
    assert time.process_time() - begin < 5
    assert size == 8 * cells(levels, [node.columns for node in tree])
    assert all(any(set(triple) <= set(node.columns) for node in tree) for triple in triples)
    for column in range(55):
        held = [node for node in tree if column in node.columns]
        # one subtree
        assert len(held) - sum(column in node.separator for node in held) == bool(held)


@RANDOM
def test_one_query_more_fits_where_the_model_of_all_together_does(seed):
    levels, queries = random_set(seed)
    others = [*queries, *combinations(range(len(levels)), 2)]
    for measured in (queries[::2], []):
        sizes = [model_bytes(levels, [*measured, query]) for query in others]
        for most in (0.0, *sizes, *(size - 0.5 for size in sizes), np.inf):
            assert list(grown_fits(levels, measured, others, most)) == [
                size <= most for size in sizes
            ]
