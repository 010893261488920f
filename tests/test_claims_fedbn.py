"""The checks of c21-c31 say of the printed values what the claims file says, and turn where the
numbers do."""

import numpy as np
import pandas as pd
import pytest
from printed_claims import (
    STATED,
    VERDICTS,
    as_rows,
    assert_as_stated,
    assert_needs,
    cells,
    changed,
    place,
    printed,
)

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate, judge_claims
from fedsynth_lib.verdicts.claims_fedbn import FEDBN, judge

AUC, ATTACKS = (
    ["auc_rf", "auc_nb", "auc_knn"],
    ["ad_rf", "ad_svm", "ad_nb", "ad_knn", "ad_lr", "ad_ens"],
)
TWO, ALL, EPSILONS, DP = (
    ["adult", "bank"],
    ["adult", "bank", "cardio"],
    [np.inf, 1.6, 0.5],
    [1.6, 0.5],
)
DUMMY = ["ad_rmean", "ad_dum"]

# the numbers of `published_evidence`, as our evidence writes them
EVIDENCE = {
    "c21": ["v central in 27 of 27 (+0/-0)", "v local in 27 of 27 (+0/-0)"],
    "c22": ["auc_knn +6/-0 v local", "in 9 of 9 (0.506 to 0.537)"],
    "c23": [
        "iid 0.701, quantity_skew 0.697, label_skew 0.724",
        "bank -0.011 to 0.027",
        "cardio -0.027 to 0.007",
        "adult auc_rf -0.061 to -0.044",
        "adult auc_knn -0.046 to -0.028",
    ],
    "c24": [
        "auc_rf <= 0.03 in 4 of 9",
        "to 0.088",
        "auc_knn <= 0.03 in 3 of 9",
        "to 0.070",
        "above real in 9 of 9",
    ],
    "c25": [
        "v central in 23 of 27 (+0/-4)",
        "v local in 27 of 27 (+0/-0)",
        "auc_knn 0.508 to 0.554, auc_nb 0.500 to 0.547, auc_rf 0.517 to 0.604",
    ],
    "c26": ["change up to 0.016", "in 6 of 6", "to 1.253), above in 5 at epsilon 0.5 and 0 at 1.6"],
    "c27": ["adult 0.462 to 0.482, bank 0.469 to 0.488", "to 0.020)"],
    "c28": [
        "in 54 of 54 (adult from 0.001, bank from 0.008)",
        "inf: adult 0.695 to 0.717, bank 0.444 to 0.470",
        "1.6: adult 2.931 to 3.598, bank 1.462 to 2.026",
        "0.5: adult 4.177 to 4.290, bank 2.072 to 2.206",
    ],
    "c29": [
        "adult: ad_ens real 0.636",
        "(0.006 to 0.006)",
        "bank: ad_ens real 0.616",
        "(0.001 to 0.002)",
    ],
    "c30": [
        "21 of 24 (not bank ad_nb iid, bank ad_lr iid, bank ad_lr label_skew)",
        "12 of 12 (0.046 to 0.161)",
    ],
    "c31": ["ad_ens = ad_dum = 0.748 in 7 of 7", "(ad_rf 0.820)", "in 5 of 6"],
}

# the cells that each claim rests on
NEEDED = {
    "c21": [cells(m, "adult", setting=s) for m in AUC for s in ("federated", "central", "local")],
    "c22": [
        cells("auc_nb", "adult", 1.6),
        *[cells("auc_knn", "adult", 1.6, s) for s in ("federated", "local")],
    ],
    "c23": [cells(m, d) for m in AUC for d in ALL],
    "c24": [cells(m, "adult", setting=s) for m in AUC for s in ("federated", "real")],
    "c25": [cells(AUC, "bank", setting=s) for s in ("federated", "central", "local")]
    + [cells(m, "bank", e) for m in AUC for e in DP],
    "c26": [cells(AUC, "cardio", e) for e in EPSILONS]
    + [cells(AUC, "cardio", e, "local") for e in DP]
    + [cells("pcd", "cardio", e) for e in DP],
    "c27": [
        cells(f"dcr_{m}", d, e)
        for m in ("share", "avg_train", "avg_holdout")
        for d in TWO
        for e in EPSILONS
    ],
    "c28": [cells(f"dcr_{m}", d, e) for m in ("min", "avg_train") for d in TWO for e in EPSILONS],
    "c29": [cells("ad_ens", d, setting=s) for d in TWO for s in ("federated", "real")],
    "c30": [cells(m, TWO, EPSILONS) for m in [*ATTACKS, *DUMMY]]
    + [cells(ATTACKS, d, e) for d in TWO for e in DP],
    "c31": [cells(m, "cardio", e) for m in ("ad_ens", "ad_dum") for e in EPSILONS]
    + [cells(m, "cardio", setting="real") for m in [*ATTACKS, "ad_dum"]],
}


@pytest.fixture(scope="module")
def values():
    return printed("fedbn")


@pytest.fixture(scope="module")
def rows(values):
    return as_rows(values)


@pytest.mark.parametrize("claim", FEDBN)
def test_printed_values_give_the_published_outcome_and_numbers(values, claim):
    assert_as_stated(*judge(values, claim), claim, EVIDENCE[claim])


def test_rows_with_the_printed_means_and_spreads_are_judged_alike(values, rows):
    means = aggregate(rows)
    table = (
        judge_claims("martinez2024", means, FEDBN)
        .set_index("id")
        .filter(regex="c2[1-9]|c3[01]", axis=0)
    )
    assert list(FEDBN) == list(EVIDENCE) == list(NEEDED) == [name[-3:] for name in table.index]
    assert table["verdict"].tolist() == STATED[list(FEDBN)].map(VERDICTS).tolist()
    assert table["evidence"].tolist() == [judge(values, claim)[1] for claim in FEDBN]
    assert [judge(rows, claim) for claim in ("c21", "c24")] == [
        judge(means, claim) for claim in ("c21", "c24")
    ]


@pytest.mark.parametrize("claim", NEEDED)
def test_a_claim_rests_on_its_own_cells_and_misses_each_of_them(values, claim):
    assert_needs(values, FEDBN[claim], NEEDED[claim])


def test_the_other_model_another_detail_or_work_do_not_count(values, rows):
    for other in (values.assign(method="fedvae"), values.assign(detail="k = 3")):
        assert {judge(other, claim)[0] for claim in FEDBN} == {None}
    assert judge(rows.assign(paper="leitner2023"), "c24")[0] is None
    both = pd.concat([values, values.assign(method="fedvae", mean=9.0)])
    assert [judge(both, claim) for claim in FEDBN] == [judge(values, claim) for claim in FEDBN]
    with pytest.raises(BadInput, match="one profile at a time"):
        judge(pd.concat([rows, rows.assign(profile="quick")]), "c21")


def test_significance_needs_two_seeds_and_means_do_not(rows):
    single = aggregate(rows[rows["seed"] == 1])
    assert {claim for claim in FEDBN if judge(single, claim)[0] is None} == {
        "c21",
        "c22",
        "c25",
        "c26",
    }
    assert "2 seeds or more: adult, epsilon inf" in judge(single, "c21")[1]


IID_3, IID, LABEL_10 = place("iid", 3), {"partition": "iid"}, place("label_skew", 10)
QUANTITY_3_5, QUANTITY, LABEL_5 = (
    place("quantity_skew", 3, 5),
    {"partition": "quantity_skew"},
    place("label_skew", 5),
)
EVEN = (0.7, cells(AUC, ALL))
TENS = (0.9, cells(AUC, ALL, n_clients=10))
LABELS = [(0.3, cells(AUC, ALL, partition="label_skew")), (0.7, cells(AUC, ALL, **LABEL_10))]


@pytest.mark.parametrize(
    ("claim", "expected", "edits"),
    [
        ("c21", False, [(0.1, cells("auc_rf", "adult", **IID_3))]),
        ("c21", 1 / 2, [(0.1, cells("auc_rf", "adult", setting="local", **IID_3))]),
        ("c21", 1 / 2, [(0.1, cells("auc_rf", "adult", setting="central"))]),
        ("c21", True, [(0.1, cells("auc_rf", "adult", DP))]),
        ("c22", 1 / 2, [(0.1, cells("auc_knn", "adult", 1.6))]),
        ("c22", 1 / 2, [(0.9, cells("auc_knn", "adult", 1.6))]),  # nine, not six
        ("c22", (1 + 8 / 9) / 2, [(0.551, cells("auc_nb", "adult", 1.6, **IID_3))]),
        ("c22", (1 + 8 / 9) / 2, [(0.479, cells("auc_nb", "adult", 1.6, **IID_3))]),
        ("c22", True, [(auc, cells("auc_nb", "adult", 1.6, **w)) for auc, w in ((0.48, IID), (0.55, QUANTITY))]),
        ("c22", False, [(0.1, cells(AUC, "adult", 1.6))]),
        ("c23", True, [EVEN, (0.73, cells("auc_nb", "adult", **LABEL_5))]),  # 0.03 is still allowed
        ("c23", (1 + 26 / 27 + 1) / 3, [EVEN, (0.731, cells("auc_nb", "adult", **LABEL_5))]),
        ("c23", 2 / 3, [EVEN]),  # no more than the others
        ("c23", (26 / 27 + 26 / 27 + 0) / 3, [EVEN, (0.6, cells("auc_rf", "cardio", **IID_3))]),
        ("c23", False, [(0.5, cells(AUC, ALL)), TENS, *LABELS]),
        # real less 0.03
        ("c24", True, [(0.741, cells("auc_rf", "adult")), (0.719, cells("auc_knn", "adult"))]),
        ("c24", (0 + 1 + 1) / 3, [(0.74, cells("auc_rf", "adult")), (0.719, cells("auc_knn", "adult"))]),
        ("c24", (4 / 9 + 3 / 9) / 3, [(0.64, cells("auc_nb", "adult"))]),  # equal to the real one
        ("c24", (4 / 9 + 3 / 9 + 1) / 3, [(0.5, cells("auc_nb", "adult", partition=["iid", "label_skew"]))]),
        ("c24", (4 / 9 + 3 / 9 + 1) / 3, [(0.5, cells("auc_nb", "adult")), (0.641, cells("auc_nb", "adult", **IID_3))]),
        ("c24", False, [(0.1, cells(AUC, "adult"))]),
        ("c25", 2 / 3, [(0.1, cells("auc_nb", "bank", **IID_3))]),  # 22 of 27 v central
        ("c25", 2 / 3, [(0.1, cells("auc_nb", "bank", setting="local"))]),
        # 44 of 54
        ("c25", True, [(0.57, cells("auc_nb", "bank", 0.5, **w)) for w in (IID, QUANTITY_3_5)]),
        # 43 of 54
        ("c25", 2 / 3, [(0.57, cells("auc_nb", "bank", 0.5, **w)) for w in (IID, QUANTITY)]),
        ("c25", False, [(0.9, cells(AUC, "bank", EPSILONS))]),
        ("c26", True, [(1.05, cells("pcd", "cardio", DP))]),
        ("c26", 2 / 3, [(1.051, cells("pcd", "cardio", DP))]),
        ("c26", (53 / 54 + 13 / 18 + 1) / 3, [(0.1, cells("auc_rf", "cardio", 1.6, **IID_3))]),
        ("c26", (1 + 13 / 18 + 3 / 6) / 3, [(0.9, cells(AUC, "cardio", 1.6, "local", **LABEL_10))]),
        ("c26", False, [(0.1, cells(AUC, "cardio", DP)), (2.0, cells("pcd", "cardio", DP))]),
        ("c27", True, [(0.55, cells("dcr_share", "adult", EPSILONS)), (0.45, cells("dcr_share", "bank", EPSILONS))]),
        ("c27", 3 / 4, [(0.551, cells("dcr_share", "adult", EPSILONS))]),
        ("c27", 3 / 4, [(0.449, cells("dcr_share", "bank", EPSILONS))]),
        ("c27", True, [(d, cells(f"dcr_avg_{m}", TWO, EPSILONS)) for m, d in (("train", 1.0), ("holdout", 0.97))]),
        ("c27", 1 / 2, [(d, cells(f"dcr_avg_{m}", TWO, EPSILONS)) for m, d in (("train", 1.0), ("holdout", 1.031))]),
        ("c27", False, [(1.0, cells(["dcr_share", "dcr_avg_train"], TWO, EPSILONS))]),
        ("c28", (53 / 54 + 1) / 2, [(0.0, cells("dcr_min", "bank", 1.6, **IID_3))]),
        ("c28", True, [(0.0004, cells("dcr_min", "bank", 1.6, **IID_3))]),  # near, but no copy
        ("c28", (1 + 17 / 18) / 2, [(9.0, cells("dcr_avg_train", "bank", 1.6, **IID_3))]),
        ("c28", 1 / 2, [(0.1, cells("dcr_avg_train", TWO, 1.6))]),
        ("c28", 1 / 2, [(1.0, cells("dcr_avg_train", TWO, [np.inf, 1.6]))]),
        ("c28", 1 / 2, [(1.0, cells("dcr_avg_train", TWO, DP))]),
        ("c28", False, [(0.0, cells(["dcr_min", "dcr_avg_train"], TWO, EPSILONS))]),
        # 0.010 and 0.005
        ("c29", True, [(0.626, cells("ad_ens", "adult")), (0.611, cells("ad_ens", "bank"))]),
        ("c29", 1 / 2, [(0.625, cells("ad_ens", "adult"))]),
        ("c29", 3 / 4, [(0.61, cells("ad_ens", "bank", **IID))]),
        ("c29", True, [(0.1, cells("ad_ens", TWO, DP))]),
        ("c29", False, [(0.9, cells("ad_ens", TWO, setting="real"))]),
        ("c30", True, [(0.58, cells(["ad_nb", "ad_lr"], "bank", 1.6))]),
        ("c30", (20 / 24 + 1) / 2, [(0.9, cells("ad_rf", "adult", 1.6, **IID))]),
        ("c30", (20 / 24 + 1) / 2, [(0.1, cells("ad_rf", "adult", **IID))]),
        # as accurate
        ("c30", (20 / 24 + 1) / 2, [(0.6, cells("ad_rf", "adult", [np.inf, 1.6], **IID))]),
        # 0.04 above 0.458
        ("c30", (21 / 24 + 11 / 12) / 2, [(0.498, cells("ad_rmean", "adult", 0.5, **IID))]),
        ("c30", False, [(0.5, cells([*ATTACKS, *DUMMY], TWO, EPSILONS))]),
        ("c31", (6 / 7 + 5 / 6) / 2, [(0.747, cells("ad_ens", "cardio", **IID))]),
        ("c31", (6 / 7 + 5 / 6) / 2, [(0.749, cells("ad_dum", "cardio", 0.5, **IID))]),
        ("c31", (1 + 5 / 6) / 2, [(0.7484, cells("ad_ens", "cardio", **IID))]),  # prints alike
        ("c31", True, [(0.768, cells("ad_rf", "cardio", setting="real"))]),  # 0.02 above
        ("c31", (1 + 4 / 6) / 2, [(0.727, cells("ad_knn", "cardio", setting="real"))]),
        ("c31", False, [(0.9, cells(ATTACKS, "cardio", EPSILONS, ["federated", "real"]))]),
    ],
)  # fmt: skip
def test_the_answer_turns_with_the_numbers(values, claim, expected, edits):
    outcome, evidence = judge(changed(values, *edits), claim)
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


def test_the_dummy_level_is_the_one_of_the_same_real_data(values):
    shrunk = changed(
        values, (0.76, cells(["ad_ens", "ad_dum"], "cardio", EPSILONS, ["federated", "real"]))
    )
    assert judge(shrunk, "c31") == (
        pytest.approx((1 + 5 / 6) / 2),  # all but the random forest are within 0.02
        "ad_ens = ad_dum = 0.760 in 7 of 7; real-data attacks (ad_rf 0.820) less ad_dum up to "
        "0.060, <= 0.02 in 5 of 6",
    )
