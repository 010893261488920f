"""Marginal queries: which columns are counted together (maddock2024, protocol "Workload").

A query is an ascending tuple of column positions; the workload is what a synthetic table is to
answer well.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from fedsynth_lib.core.contract import BadInput

Query = tuple[int, ...]


def random_workload(
    num_columns: int, *, size: int = 64, width: int = 3, seed: int = 123
) -> tuple[Query, ...]:
    """Draw `size` distinct queries of `width` columns, uniformly without replacement.

    If there are fewer queries than `size`, all are taken. They are in ascending order. The defaults
    and the generator are the work's [code], so on a table with its columns in its order this is its
    workload.
    """
    if not 1 <= width <= num_columns:
        raise BadInput(
            f"width is {width} with {num_columns} columns: give a width from 1 to the "
            "number of columns."
        )
    if size < 1:
        raise BadInput(f"size is {size}: a workload needs at least one query.")
    queries = list(combinations(range(num_columns), width))
    chosen = np.random.default_rng(seed).choice(
        len(queries), min(size, len(queries)), replace=False
    )
    return tuple(queries[number] for number in sorted(chosen))


def closure(workload: Iterable[Query]) -> tuple[Query, ...]:
    """Return every non-empty subset of a query of the workload, once.

    The subsets are sorted by number of columns and then by columns.
    """
    subsets = {
        q
        for query in workload
        for width in range(1, len(query) + 1)
        for q in combinations(query, width)
    }
    return tuple(sorted(subsets, key=lambda query: (len(query), query)))


def weights(candidates: Sequence[Query], workload: Sequence[Query]) -> np.ndarray:
    """Return the weight w_q of each candidate q, int64 (candidates,).

    The weight is the sum, over all queries r in the workload, of the number of columns that q and r
    share.
    """
    uses = np.bincount(
        [c for query in workload for c in query], minlength=1 + max(max(q) for q in candidates)
    )
    return np.array([uses[list(query)].sum() for query in candidates], dtype=np.int64)
