"""The claims about DP-CTGAN on rows made by hand: where they hold, fail, hold partly, and cannot be
told."""

from itertools import product

import numpy as np
import pytest

from fedsynth_lib.printed.published import judge_claims, load_values
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.verdicts.claims_flaim import THREE
from fedsynth_lib.verdicts.claims_flaim_gans import CHECKS, likelihoods

AIM, BAYES, NAIVE, PRIVATE = "AIM", "FedNaiveBayes", "NaiveFLAIM", "AugFLAIM (Private)"
CENTRAL, CTGAN = "DP-CTGAN", "Fed DP-CTGAN"
USUAL = {AIM: 19, BAYES: 25, NAIVE: 30, PRIVATE: 20, CENTRAL: 28, CTGAN: 40}


def params_of(**setting):
    return params_text({"rounds": 10, "participation": 0.1, "estimator": "published", **setting})


def row(method, value, dataset="adult", seed=0, rounds=500, epsilon=5.0, **changes):
    central = method in (AIM, CENTRAL)
    if method in (CENTRAL, CTGAN):
        params = params_text(
            {"training_rounds": None if method == CENTRAL or rounds == 500 else rounds}
        )
    else:
        params = params_of()
    return {
        **{
            "paper": "maddock2024",
            "profile": "quick",
            "data": "real",
            "dataset": dataset,
            "method": method,
        },
        **{
            "partition": "none" if central else "cluster_skew",
            "setting": "central" if central else "federated",
        },
        **{"n_clients": None if central else 100, "epsilon": epsilon, "params": params},
        **{"metric": "nll", "value": value, "seed": seed, **changes},
    }


def table(datasets=THREE, rounds=500, **numbers):
    """Rows of two seeds, one to either side; a number for all tables, or one for each."""
    numbers = {**USUAL, **{name: numbers.get(key, USUAL[name]) for name, key in KEYS.items()}}
    return [
        row(method, value + side, dataset, seed, rounds=rounds)
        for method, given in numbers.items()
        for (dataset, value), (seed, side) in product(
            zip(datasets, np.broadcast_to(given, len(datasets)), strict=True),
            enumerate((-0.5, 0.5)),
        )
    ]


KEYS = {
    AIM: "aim",
    BAYES: "bayes",
    NAIVE: "naive",
    PRIVATE: "private",
    CENTRAL: "central",
    CTGAN: "ctgan",
}


def without(rows, method, dataset=None):
    return [
        each for each in rows if each["method"] != method or dataset not in (None, each["dataset"])
    ]


CASES = [
    ("c01", True, table()),
    ("c01", 2 / 3, table(central=[28, 18, 28])),
    ("c01", False, table(central=18)),
    ("c01", True, table(["adult"])),
    ("c01", None, without(table(), CENTRAL)),
    ("c04", True, table()),
    ("c04", True, table(bayes=[25, 50, 50])),  # one table is enough
    ("c04", 1 / 2, table(bayes=50)),
    ("c04", (2 / 3 + 1) / 2, table(naive=[30, 41, 30])),
    ("c04", False, table(ctgan=10)),
    ("c04", True, table(rounds=25)),
    ("c04", None, without(table(["adult"]), BAYES)),
    ("c23", True, table()),
    ("c23", 5 / 6, table(private=[20, 20, 41])),
    ("c23", False, table(ctgan=10)),
    ("c23", None, table(rounds=100)),
    ("c23", None, without(table(), CTGAN)),
]


@pytest.mark.parametrize(
    ("claim", "expected", "rows"), CASES, ids=[f"{c}-{n}" for n, (c, *_) in enumerate(CASES)]
)
def test_the_outcome_follows_the_numbers(claim, expected, rows):
    outcome, evidence = CHECKS[claim](to_frame(rows))
    assert outcome == (expected if expected is None else pytest.approx(expected)), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)
    assert "nan" not in evidence and ("missing" in evidence) == (expected is None)


def test_evidence_holds_the_numbers_and_names_what_was_not_run():
    assert CHECKS["c01"](to_frame(table(["adult", "covertype"])))[1] == (
        "AIM < DP-CTGAN in 2 of 2 (adult: 19 v 28, covertype: 19 v 28); not run: credit_fraud"
    )
    assert CHECKS["c04"](to_frame(table(rounds=25)))[1].endswith(
        "covertype: 25 v 40), 25 rounds of Fed DP-CTGAN"
    )
    assert CHECKS["c23"](to_frame(table()))[1].endswith("covertype: 20 v 40), 10 rounds v 500")
    assert CHECKS["c23"](to_frame(table(rounds=100)))[1] == (
        "rows are missing: Fed DP-CTGAN after 500 rounds; it was run for 100"
    )


def test_only_rows_of_table_1_count():
    others = [
        row(AIM, 90, epsilon=1.0),
        row(AIM, 90, params=params_of(rounds=2)),
        row(AIM, 90, params=params_of(rounds="annealed")),
        row(NAIVE, 90, params=params_of(participation=0.5)),
        row(NAIVE, 90, params=params_of(beta=0.1), partition="label_skew"),
        row(NAIVE, 90, params=params_of(local_steps=4)),
        row(NAIVE, 90, params=params_of(measure_share=0.5)),
        row(NAIVE, 90, params=params_of(estimator="ours")),
        row(NAIVE, 90, metric="workload_error"),
        row(NAIVE, 90, paper="leitner2023"),
        row(NAIVE, None),
    ]
    assert len(likelihoods(to_frame(others))) == 0
    assert len(likelihoods(to_frame(table() + others))) == len(table())


def test_printed_values_as_rows_of_our_own_confirm_all_three():
    printed = load_values("maddock2024", "tab1")
    rows = [
        row(method, mean, dataset)
        for method, mean, dataset in printed[["method", "mean", "dataset"]].to_numpy()
    ]
    judged = judge_claims("maddock2024", to_frame(rows), CHECKS).set_index("id")
    assert set(judged.loc[[f"maddock2024/{claim}" for claim in CHECKS], "verdict"]) == {"holds"}
