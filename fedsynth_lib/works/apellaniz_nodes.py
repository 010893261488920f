"""How apellaniz2025 deals a table out to its nodes, and what it standardises numbers with."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.load import Table

SHUFFLE_SEED = 42  # of the table's rows before they are dealt out, as in the work's code
BELOW_MEDIAN = {  # share of rows below the median BMI that each node holds
    "bmi_skew": (0.5, 0.1, 0.9),  # the published runs: node 1 is the balanced one
    "bmi_skew_text": (0.9, 0.1, 0.5),  # the article's text and figure 4: node 3 is
}
PARTITIONS = ("iid", *BELOW_MEDIAN)
FEWEST = 20  # rows of a scaled node


class Node(NamedTuple):
    """Row positions in the table."""

    training: np.ndarray
    validation: np.ndarray


def nodes(
    table: Table,
    partition: str,
    sizes: Sequence[int],
    validation: int,
    *,
    disjoint: bool = False,
    shuffle: int = SHUFFLE_SEED,
) -> list[Node]:
    """Deal each node its rows as the work's code does: consecutive slices of the shuffled table.

    iid: a node's training rows, then its validation rows, then the next node's.

    BMI skew: each node takes its share of the rows below the median BMI, and its share of the
    others. Its validation rows follow its training rows, and THE NEXT NODE STARTS WHERE THE
    TRAINING ROWS END, so that it trains on rows that validate this one.

    disjoint: the next node starts where the validation rows end, as it should. shuffle: seed of the
    order of the rows, which decides who is at which node. Raises BadInput for a table with too few
    rows.
    """
    shuffled = np.random.RandomState(shuffle).permutation(len(table.frame))
    if partition == "iid":
        needed = np.array([[size, validation] for size in sizes]).ravel()
        _check_enough(table, len(shuffled), needed.sum())
        slices = np.split(shuffled, np.cumsum(needed))
        return [Node(*slices[2 * k : 2 * k + 2]) for k in range(len(sizes))]
    if partition not in BELOW_MEDIAN:
        raise BadInput(
            f"partition {partition!r} is unknown: choose one of {', '.join(PARTITIONS)}."
        )
    bmi = table.frame["BMI"].to_numpy()[shuffled]
    strata = [shuffled[bmi < np.median(bmi)], shuffled[bmi >= np.median(bmi)]]
    rng, found = np.random.RandomState(shuffle), []
    starts = [0, 0]
    for size, share in zip(sizes, BELOW_MEDIAN[partition][: len(sizes)], strict=True):
        parts: tuple[list, list] = ([], [])
        below = (round(share * size), round(share * validation))
        for s, (own, judged) in enumerate((below, (size - below[0], validation - below[1]))):
            end = starts[s] + own + judged
            _check_enough(table, len(strata[s]), end)
            parts[0].append(strata[s][starts[s] : starts[s] + own])
            parts[1].append(strata[s][starts[s] + own : end])
            starts[s] = end if disjoint else starts[s] + own
        found.append(Node(*(rng.permutation(np.concatenate(part)) for part in parts)))
    return found


def _check_enough(table: Table, there: int, needed: int) -> None:
    if needed > there:
        raise BadInput(
            f"{table.key}: the nodes need {needed} rows of {there}; give smaller nodes or sizes."
        )


def scaled(node_rows: Sequence[int], scale: float) -> list[int]:
    """Scale the numbers of rows of the nodes, to no fewer than FEWEST."""
    return [size if scale == 1 else max(FEWEST, round(size * scale)) for size in node_rows]


def moments_of(table: Table) -> tuple[tuple[float, float], ...]:
    """Return mean and standard deviation of each numeric column of the whole table.

    They are given as places in the declared range. The work standardises with those before it deals
    rows out, so its nodes know them: see `Config.moments`.
    """
    places = UnitRange(table.schema).transform(table.frame)[:, np.array(levels_of(table)) == 0]
    return tuple(zip(places.mean(axis=0).tolist(), places.std(axis=0).tolist(), strict=True))


def levels_of(table: Table) -> list[int]:
    """Return the number of categories of each column, as `UnitRange` encodes it."""
    return list(UnitRange(table.schema).domain.levels)
