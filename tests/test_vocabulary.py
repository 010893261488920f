"""Each kind of condition on cells that can be worked out by hand: where it holds, fails, counts,
and what it names as missing."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.verdicts.claim_files import parsed
from fedsynth_lib.verdicts.judges import evaluate

AXES = {
    "metric": ["pcd", "auc_rf"],
    "method": ["A", "B", "C"],
    "dataset": ["a", "b", "c"],
    "epsilon": [1, 2, 4],
    "setting": ["federated", "central", "local"],
    "partition": ["iid", "skew"],
}
#          error of A, B, C on two tables; of the third nothing was run
ERRORS = {("a", "A"): 1, ("a", "B"): 2, ("a", "C"): 3}
ERRORS |= {("b", "A"): 2, ("b", "B"): 2, ("b", "C"): 1}


def cell(mean, **place):
    blank = dict.fromkeys(AXES) | {"metric": "pcd", "method": "A", "dataset": "a"}
    return {**blank, "mean": float(mean), "std": np.nan, "n": 1, **place}


def cells_of(*lines):
    return pd.DataFrame(lines).astype({"epsilon": float})


def told(cells, *conditions, datasets=("a", "b"), **shared):
    """Outcome and evidence of a claim with these conditions about the error of two tables."""
    shared = {"where": {"metric": "pcd"}, "each": ["dataset"], **shared}
    claim = {"datasets": list(datasets), "conditions": list(conditions)}
    (claim,) = parsed("toy", {"axes": AXES, "shared": shared, "g": {"c01": claim}}, "toy.toml")
    return evaluate(claim, cells)[:2]


@pytest.fixture(scope="module")
def errors():
    return cells_of(
        *[cell(error, dataset=table, method=method) for (table, method), error in ERRORS.items()]
    )


CASES = [  # of the six errors above
    ({"value": "pcd", "most": 2, "where": {"method": "A"}}, True),  # 1, 2
    ({"value": "pcd", "over": 1, "where": {"method": "A"}}, 1 / 2),
    ({"value": "pcd", "over": 1, "under": 2, "where": {"method": "A"}}, False),
    ({"difference": ["A", "B"], "under": 0}, 1 / 2),  # -1, 0
    ({"difference": ["A", "B"], "most": 0}, True),
    ({"difference": ["A", ["B", "C"]], "under": 0}, 2 / 4),  # each pair: -1, 0, -2, 1
    ({"gap": ["A", "C"], "most": 1}, 1 / 2),  # 2, 1
    ({"ratio": ["C", "A"], "least": 3}, 1 / 2),  # 3, 1/2
    ({"cut": ["C", "A"], "over": 66}, 1 / 2),  # 66.7 and -100 percent
    ({"cut": ["B", "A"], "least": 0, "most": 50}, True),  # 50 and 0
    ({"range": ["method"], "most": 1, "where": {"method": ["A", "B", "C"]}}, 1 / 2),  # 2, 1
    ({"range": ["method", "dataset"], "most": 2, "where": {"method": ["A", "B", "C"]}}, True),
    ({"below": ["A", "B"]}, 1 / 2),
    ({"below": ["A", ["B", "C"]]}, 1 / 2),  # all of the second
    ({"below": [["A", "B"], "C"]}, 1 / 2),  # all of the first
    ({"below": [{"any": ["A", "C"]}, "B"]}, True),
    ({"below": ["B", {"any": ["A", "C"]}]}, 1 / 2),  # 2 < 3; not 2 < 2
    ({"below": ["B", "A"], "factor": 2}, True),
    ({"below": ["B", "A"], "factor": 1.9}, 1 / 2),
    ({"below": ["B", "A"], "margin": 0.5}, 1 / 2),  # 2 < 1.5 is not; 2 < 2.5
    ({"below": ["A", "C"]}, 1 / 2),
    ({"below": ["A", "C"], "opposite": {"dataset": ["b"]}}, True),
    ({"below": ["A", "C"], "opposite": {"dataset": ["a", "b"]}}, 1 / 2),
    ({"ratio": ["A", "C"], "under": 1, "opposite": {"dataset": ["b"]}}, True),  # 1/3, 2
    ({"ratio": ["A", "C"], "under": 1, "opposite": {"dataset": ["a", "b"]}}, 1 / 2),
    ({"below": ["A", "B"], "groups": {"by": ["metric"], "count": [1, 1]}}, True),  # 1 of 2
    ({"below": ["A", "B"], "groups": {"by": ["metric"], "count": [2, 2]}}, False),
    ({"below": ["A", "B"], "groups": {"by": ["dataset"], "count": [1, 1]}}, 1 / 2),
    ({"below": ["A", "B"], "average": ["dataset"], "taken": "range"}, False),  # 1 v 0
    ({"below": ["B", "A"], "average": ["dataset"], "taken": "range"}, True),
    ({"better": ["A", "C"]}, 1 / 2),
    ({"better": ["A", "B"]}, 1 / 2),  # a tie is not better
    ({"ordered": ["A", "B", "C"]}, 1 / 2),
    ({"ordered": ["B", "A"]}, False),
    ({"below": ["A", "B"], "count": [1, 2]}, True),
    ({"below": ["A", "B"], "count": [2, 2]}, True),  # 1 to 2: a band
    ({"below": ["A", "B"], "count": [0, 0]}, True),
    ({"below": ["A", "B"], "share": 0.5}, True),
    ({"below": ["A", "B"], "share": 0.6}, False),
    ({"below": ["A", "B"], "only": "dataset == 'a'"}, True),
    ({"below": ["B", "C"], "average": ["dataset"]}, False),  # 2 v 2
    ({"difference": ["C", "A"], "over": 0.4, "average": ["dataset"]}, True),  # 2 - 1.5
    ({"cut": ["C", "A"], "most": -16, "average": ["dataset"]}, True),  # mean of 66.7 and -100
    ({"below": ["A", "B"], "separately": {"dataset": ["a", "b"]}}, 1 / 2),
]


@pytest.mark.parametrize(("condition", "expected"), CASES, ids=[str(c) for c, _ in CASES])
def test_a_condition_holds_as_far_as_its_places_do(errors, condition, expected):
    outcome, evidence = told(errors, condition)
    assert outcome == pytest.approx(float(expected))
    assert evidence and "nan" not in evidence


def test_a_claim_holds_as_far_as_its_conditions_do_and_names_those_that_fail(errors):
    outcome, evidence = told(
        errors, {"below": ["A", "B"]}, {"value": "pcd", "most": 3, "where": {"method": "C"}}
    )
    assert outcome == 3 / 4
    assert evidence == (
        "pcd: A < B in 1 of 2 (a: 1 v 2, b: 2 v 2); C: pcd <= 3 in 2 of 2 (a: 3, b: 1)"
    )
    assert evidence.fails == "pcd: A < B in 1 of 2 (a: 1 v 2, b: 2 v 2)"
    assert told(errors, {"below": ["A", "B"], "count": [2, 2]})[1].startswith(
        "pcd: A < B in 1 of 2, 1 to 2 wanted"
    )


def test_a_claim_has_the_mean_share_of_its_conditions(errors):
    fails, holds = (
        {"value": "pcd", bound: 3, "where": {"method": "C"}} for bound in ("over", "most")
    )
    half = {"below": ["A", "B"]}  # in one of two places
    for conditions, expected in (([holds, fails], 1 / 2), ([half, holds], 3 / 4)):
        share, evidence = told(errors, *conditions)
        assert share == expected
        assert ("C: pcd > 3 in 0 of 2 (a: 3, b: 1)" in evidence.fails) == (fails in conditions)
    lacking = {"value": "auc_rf", "over": 0}
    assert told(errors, lacking, holds)[0] is None
    outcome, evidence = told(errors, {**lacking, "optional": True})
    assert outcome is None and "cells are missing: auc_rf" in evidence


def test_of_many_places_the_range_is_told_and_few_exceptions_by_name():
    many = [
        cell(number, dataset="a", method=method, epsilon=e, partition=p)
        for e in (1, 2, 4)
        for p in ("iid", "skew")
        for method, number in (("A", 1), ("B", 0.5 if (e, p) == (2, "skew") else 3))
    ]
    shared = {"each": ["epsilon", "partition"]}
    outcome, evidence = told(cells_of(*many), {"below": ["A", "B"]}, datasets=["a"], **shared)
    assert outcome == pytest.approx(5 / 6)
    assert evidence == (
        "pcd: A < B in 5 of 6 (differences -2 to 0.5; not at epsilon 2 skew: 1 v 0.5)"
    )


def test_better_goes_by_the_metric():
    cells = cells_of(*[cell(e, method=m, metric="auc_rf") for m, e in (("A", 0.6), ("B", 0.7))])
    where = {"where": {"metric": "auc_rf"}}
    assert told(cells, {"better": ["B", "A"]}, datasets=["a"], **where)[0] == 1
    assert told(cells, {"better": ["A", "B"]}, datasets=["a"], **where)[0] == 0


@pytest.mark.parametrize(
    ("means", "rising", "steps", "falling", "either"),
    [
        ([1, 1, 2], True, 1.0, False, True),  # staying level is no fall
        ([1, 3, 2], False, 0.5, False, False),
        ([3, 2, 1], False, 0.0, True, True),
    ],
)
def test_series_rise_fall_or_turn(means, rising, steps, falling, either):
    cells = cells_of(*[cell(m, epsilon=e) for m, e in zip(means, (1, 2, 4), strict=True)])
    shared = {"datasets": ["a"], "across": "epsilon"}
    shared["where"] = {"metric": "pcd", "method": "A", "epsilon": [1, 2, 4]}
    found = [
        told(cells, {"monotone": kind, **more}, **shared)[0]
        for kind, more in (
            ("rising", {}),
            ("rising", {"steps": True}),
            ("falling", {}),
            ("either", {}),
        )
    ]
    assert found == [rising, steps, falling, either]


def test_sides_can_be_values_of_any_axis():
    cells = cells_of(cell(1, epsilon=1), cell(2, epsilon=4))
    shared = {"datasets": ["a"], "across": "epsilon", "where": {"metric": "pcd", "method": "A"}}
    assert told(cells, {"below": [1, 4]}, **shared) == (
        True,
        "pcd: epsilon 1 < epsilon 4 in 1 of 1 (1 v 2)",
    )


# --- tests and marks -----------------------------------------------------------------------------


def places(*shifts, std=(0.02, 0.01), n=3, partitions=("iid", "skew")):
    """Central cells of 1.00 +/- 0.02, and federated ones of 1.00 +/- 0.01, shifted."""
    central = cell(1, setting="central", std=std[0], n=n)
    return cells_of(
        central,
        *[
            cell(1 + shift, setting="federated", partition=p, std=std[1], n=n)
            for p, shift in zip(partitions, shifts, strict=True)
        ],
    )


TESTED = {"datasets": ["a"], "each": ["dataset", "partition"]}


@pytest.mark.parametrize(
    ("shifts", "score", "equal"),
    [
        # t = shift / sqrt((0.02^2 + 0.01^2) / 3) = shift / 0.0129; 2.776 is needed, a shift of 0.0358
        ((0.04, 0.03), "+0/-1", 1 / 2),
        ((0.04, -0.04), "+1/-1", 0),
        ((0.0, 0.03), "+0/-0", 1),
    ],
)
def test_outcomes_of_the_t_test_are_counted(shifts, score, equal):
    cells = places(*shifts)
    assert told(cells, {"tested": "central", "score": score}, **TESTED)[0] == 1
    other = told(cells, {"tested": "central", "score": "+2/-0"}, **TESTED)  # 1 to 2, and 0 to 1
    assert other[0] == (score == "+1/-1")
    assert told(cells, {"tested": "central", "outcome": "equal"}, **TESTED)[0] == equal
    either = {"tested": "central", "outcome": ["better", "worse"], "count": [0, 1]}
    assert told(cells, either, **TESTED)[0] == (score != "+1/-1")


def test_a_test_takes_the_fewest_repeats_and_needs_two():
    two = places(0.04, 0.04, n=2)  # t = 0.04 / sqrt(5e-4 / 2) = 2.53, and 4.30 is needed
    assert told(two, {"tested": "central", "score": "+0/-0"}, **TESTED)[0] == 1
    one = places(0.04, 0.04, std=(0.02, np.nan), n=1)
    outcome, evidence = told(one, {"tested": "central", "outcome": "equal"}, **TESTED)
    assert outcome is None and evidence == (
        "a test needs 2 seeds or more, and there are cells with one (pcd, a)"
    )


def test_marks_are_those_of_the_cells():
    marked = [
        cell(1, dataset="a", mark="*", p=0.001, mean_other=2.0),
        cell(2, dataset="b", mark="", p=0.4, mean_other=2.1),
    ]
    cells = cells_of(*marked)
    for mark, expected in (("*", 1 / 2), ("not *", 1 / 2), ("worse", 0)):
        outcome, evidence = told(cells, {"marked": "A", "mark": mark})
        assert outcome == expected and "a: 1 v 2, p 0.0010" in evidence
    alone = cells.assign(p=np.nan, mark=None)
    assert told(alone, {"marked": "A", "mark": "*"}) == (
        None,
        "a test of A needs 2 seeds or more (pcd)",
    )


# --- what is missing -----------------------------------------------------------------------------


def test_missing_cells_are_named_and_nothing_is_concluded(errors):
    lacking = errors.drop(errors.index[4])  # B on table b
    assert told(lacking, {"below": ["A", "B"]}) == (
        None,
        "1 of 4 cells are missing: B at b (pcd)",
    )
    assert told(lacking, {"value": "auc_rf", "over": 0, "where": {"method": "A"}}) == (
        None,
        "2 of 2 cells are missing: auc_rf at a; auc_rf at b (A)",
    )
    assert told(lacking, {"below": ["A", "C"]})[0] == 1 / 2  # it needs no B
    skipped = told(lacking, {"below": ["A", "B"], "incomplete": "skip"})
    assert skipped == (True, "pcd: A < B in 1 of 1 (1 v 2)")
    none = errors[errors["method"] == "A"]
    assert told(none, {"below": ["A", "B"], "incomplete": "skip"}) == (
        None,
        "all cells are missing: A, B (pcd)",
    )


def test_tables_that_were_not_run_are_named_where_those_that_were_count(errors):
    three = {"datasets": ["a", "b", "c"], "as_run": ["dataset"]}
    assert told(errors, {"below": ["A", "B"]}, **three) == (
        1 / 2,
        "pcd: A < B in 1 of 2 (a: 1 v 2, b: 2 v 2); not run: c",
    )
    assert told(errors, {"below": ["A", "B"]}, **three, needs={"dataset": ["c"]})[0] is None
    one_side = errors.drop(errors.index[4])  # it was run with A
    assert told(one_side, {"below": ["A", "B"]}, **three)[0] is None
    # a mean over tables neither meets nor refutes anything while one of them was not run
    mean = {"difference": ["C", "A"], "over": 0, "average": ["dataset"]}
    assert told(errors, mean, **three) == (
        None,
        "a mean over tables that were not all run (missing: c)",
    )
    assert told(errors, mean, **{**three, "datasets": ["a", "b"]}) == (
        True,
        "pcd: C less A > 0 in 1 of 1 (0.5, mean of 2, -1)",
    )

    # nor while one of them lacks a side
    in_part = "a mean over tables that were not all run (missing: b)"
    for mean in ({"below": ["A", "B"]}, {"difference": ["B", "A"], "over": 0}):
        assert told(one_side, {**mean, "average": ["dataset"]}) == (None, in_part)


def test_sides_that_were_not_run_are_left_out_where_the_axis_says_so():
    cells = cells_of(cell(2, epsilon=1), cell(1, epsilon=4))
    shared = {"datasets": ["a"], "across": "epsilon", "as_run": ["epsilon"]}
    shared["where"] = {"metric": "pcd", "method": "A"}
    assert told(cells, {"below": [4, [1, 2]]}, **shared)[0] == 1  # 2 was not run
    assert told(cells, {"below": [4, [1, 2]]}, **shared, needs={"epsilon": [2]})[0] is None


def test_an_optional_condition_is_left_out_and_named_where_its_cells_are_incomplete(errors):
    without = errors[errors["method"] != "B"]
    partly = errors[(errors["method"] != "B") | (errors["dataset"] == errors["dataset"].iloc[0])]
    conditions = {"below": ["A", "C"]}, {"below": ["A", "B"], "optional": True}
    share, evidence = told(without, conditions[0])
    for lacking in (without, partly):
        assert told(lacking, *conditions) == (share, f"{evidence}; not run: A, B in full")
    assert "A < B" in told(errors, *conditions)[1]
    outcome, evidence = told(without, conditions[1])
    assert outcome is None and "cells are missing: B" in evidence


def test_of_a_test_the_method_is_named_that_was_not_run():
    tested = {"tested": "central", "outcome": "equal", "optional": True}
    tested |= {"separately": {"method": ["A", "B"]}}
    share, evidence = told(places(0, 0), tested, **TESTED)
    assert share == 1 and evidence.startswith("A, pcd: federated v central equal in 2 of 2")
    assert evidence.endswith("; not run: B in full")


def test_a_statistic_of_single_seeds_says_so(errors):
    cells = errors.assign(iqr=np.nan)
    outcome, evidence = told(cells, {"below": ["A", "B"], "statistic": "iqr"})
    assert outcome is None and evidence.startswith(
        "4 of 4 cells are missing (or have too few runs): A at a; B at a; A at b, ... ("
    )


def test_what_a_side_does_not_have_does_not_tell_its_cells_apart():
    """Central data have no clients: they stand beside every division, and count once where all
    settings do."""
    cells = places(-0.5, 0.5)
    shared = {**TESTED, "where": {"metric": "pcd", "method": "A"}}
    beside = told(cells, {"below": ["federated", "central"], "across": "setting"}, **shared)
    assert beside == (
        1 / 2,
        "pcd: federated < central in 1 of 2 (iid: 0.5 v 1, skew: 1.5 v 1)",
    )
    once = {"value": "pcd", "least": 1, "where": {"setting": ["federated", "central"]}}
    every = {**shared, "each": ["dataset", "setting", "partition"]}
    assert told(cells, once, **every)[0] == pytest.approx(2 / 3)


def test_cells_that_nothing_tells_apart_are_refused(errors):
    twice = pd.concat([errors, errors.assign(partition="iid")])
    with pytest.raises(
        BadInput, match=r"several cells at one place .*: name what tells them apart"
    ):
        told(twice, {"below": ["A", "B"]})
