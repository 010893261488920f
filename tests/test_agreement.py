"""How recomputed rows agree with committed ones, on rows that can be checked by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.bundle.agreement import (
    DIFFERENT,
    EXACT,
    ROUNDED,
    SPREAD,
    Spread,
    compare,
)
from fedsynth_lib.runs.rows import complete, params_text, to_frame


def row(
    value: float, seed: int, *, metric: str = "hellinger", dataset: str = "a", size: int = 1, **own
) -> dict:
    labels = {"profile": "quick", "data": "none", "dataset": dataset, "method": "AIM", "seed": seed}
    labels |= {
        "params": params_text({"dataset": dataset, "size": size, "seed": seed}),
        "seconds": 1.0,
    }
    return complete([{"metric": metric, "value": value, **own}], labels)[0]


def frame(*rows: dict) -> pd.DataFrame:
    return to_frame(rows)


SEEDS = [row(0.1, 0), row(0.2, 1), row(0.3, 2)]  # their standard deviation is 0.1
# deviations that two normal draws differ by once in 20 times: 1.959964 times the root of 2
LIMIT = 2.771808


@pytest.mark.parametrize(
    ("recomputed", "kind"),
    [
        (0.2, EXACT),
        (0.2 * (1 + 9e-7), ROUNDED),
        (0.2 * (1 + 2e-6), SPREAD),
        (0.477, SPREAD),
        (-0.077, SPREAD),
        (0.478, DIFFERENT),
        (math.nan, DIFFERENT),
        (math.inf, DIFFERENT),
    ],
)
def test_a_number_against_the_spread_of_three_seeds(recomputed, kind):
    found = compare(frame(SEEDS[1]), frame(row(recomputed, 1)), Spread(frame(*SEEDS)))
    assert found.kind == kind
    if kind != EXACT:
        assert found.what == "hellinger" and found.committed == 0.2
        assert found.recomputed == pytest.approx(recomputed, nan_ok=True)


def test_two_seeds_are_pooled_with_those_of_other_cells():
    # Variances 0.02 (size 1, seeds 0.1 and 0.3) and 0.08 (size 2, seeds 0.1 and 0.5), a degree of
    # freedom each: 0.05.
    pairs = [row(0.1, 0), row(0.3, 1), row(0.1, 0, size=2), row(0.5, 1, size=2)]
    spread = Spread(frame(*pairs))
    twice = LIMIT * math.sqrt(0.05)
    for gap, kind in ((0.999 * twice, SPREAD), (1.001 * twice, DIFFERENT)):
        assert compare(frame(row(0.1, 0)), frame(row(0.1 + gap, 0)), spread).kind == kind
    # Another table has no seeds of its own: that of the method counts. Another measure has none at
    # all.
    assert (
        compare(
            frame(row(0.1, 0, dataset="b")), frame(row(0.1 + 0.999 * twice, 0, dataset="b")), spread
        ).kind
        == SPREAD
    )
    lone = row(0.1, 0, metric="pcd")
    assert (
        compare(frame(lone), frame(row(0.1001, 0, metric="pcd")), Spread(frame(*pairs, lone))).kind
        == DIFFERENT
    )


@pytest.mark.slow
def test_the_numbers_of_a_cell_pass_together():
    """A cell of 40 numbers that is another seed's draw is called different once in 20 times, not
    nearly always."""
    rng = np.random.default_rng(0)

    def cell(values, seed: int = 0) -> list[dict]:
        return [row(value, seed, metric=f"measure {k}") for k, value in enumerate(values)]

    seeds = rng.normal(size=(100, 40))  # so many that the deviation is as good as known
    spread = Spread(
        frame(*(each for seed, values in enumerate(seeds) for each in cell(values, seed)))
    )
    pairs = rng.normal(size=(100, 2, 40))
    found = [compare(frame(*cell(one)), frame(*cell(other)), spread).kind for one, other in pairs]
    assert set(found) <= {SPREAD, DIFFERENT} and found.count(DIFFERENT) <= 12  # 5 expected


def test_a_grid_with_one_seed_is_judged_by_those_of_its_work_or_not_at_all():
    lone, asked = row(0.1, 0), []

    def work() -> pd.DataFrame:
        asked.append("work")
        # a deviation of 0.1
        return frame(lone, row(0.1, 0, size=7), row(0.2, 1, size=7), row(0.3, 2, size=7))

    spread = Spread(frame(lone), work)
    assert compare(frame(lone), frame(lone), spread).kind == EXACT and not asked
    assert (
        compare(frame(lone), frame(row(0.1 + 0.0999 * LIMIT, 0)), spread).kind == SPREAD and asked
    )
    assert compare(frame(lone), frame(row(0.1 + 0.1001 * LIMIT, 0)), spread).kind == DIFFERENT
    found = compare(frame(lone), frame(row(0.11, 0)), Spread(frame(lone)))
    assert (found.kind, found.what) == (DIFFERENT, "hellinger (no seeds to judge by)")


def test_one_degree_of_freedom_is_no_spread():
    spread = Spread(frame(row(0.1, 0), row(0.3, 1)))
    assert compare(frame(row(0.1, 0)), frame(row(0.11, 0)), spread).kind == DIFFERENT


def test_what_measures_the_machine_is_not_compared_and_what_leaves_a_client_is():
    committed = frame(row(0.2, 1, bytes_up=100), row(3.0, 1, metric="peak_gib", bytes_up=100))
    slower = frame(
        row(0.2, 1, bytes_up=100, seconds=9.0), row(5.0, 1, metric="peak_gib", bytes_up=100)
    )
    more = frame(row(0.2, 1, bytes_up=101), row(3.0, 1, metric="peak_gib", bytes_up=101))
    spread = Spread(frame(*SEEDS))
    assert compare(committed, slower, spread).kind == EXACT
    found = compare(committed, more, spread)
    assert (found.kind, found.what, found.committed, found.recomputed) == (
        DIFFERENT,
        "bytes_up (no seeds to judge by)",
        100,
        101,
    )


def test_missing_numbers_are_equal_and_missing_rows_are_not():
    spread, nothing = Spread(frame(*SEEDS)), row(math.nan, 1, metric="pcd")
    assert compare(frame(SEEDS[1], nothing), frame(SEEDS[1], nothing), spread).kind == EXACT
    found = compare(frame(SEEDS[1], nothing), frame(SEEDS[1]), spread)
    assert found.kind == DIFFERENT and found.what == "pcd (only committed)"
    renamed = frame(row(0.2, 1, node="2"))
    assert compare(frame(SEEDS[1]), renamed, spread).kind == DIFFERENT


def test_the_worst_number_decides():
    pair = frame(row(0.2, 1), row(0.5, 1, metric="pcd", item="x"))
    found = compare(
        pair, frame(row(0.21, 1), row(0.7, 1, metric="pcd", item="x")), Spread(frame(*SEEDS))
    )
    assert found.kind == DIFFERENT and found.what == "pcd, x (no seeds to judge by)"


def test_a_default_that_was_left_to_the_function_is_no_difference():
    """The params say that there are 3 clients; the column says so only where the caller did."""
    said = {**row(0.1, 0), "n_clients": 3, "params": params_text({"n_clients": 3, "seed": 0})}
    left_out = {**said, "n_clients": None}
    assert compare(frame(said), frame(left_out), Spread(frame(said))).kind == EXACT
