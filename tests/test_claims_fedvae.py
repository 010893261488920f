"""The checks of c03 and c32-c43 say of the printed values what the claims file says, and turn where
the numbers do."""

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

from fedsynth_lib.printed.published import aggregate, judge_claims
from fedsynth_lib.verdicts.claims_fedvae import FEDVAE, judge

AUC, FIDELITY = ["auc_rf", "auc_nb", "auc_knn"], ["hellinger", "pcd", "pmse", "log_cluster"]
ATTACKS = ["ad_rf", "ad_svm", "ad_nb", "ad_knn", "ad_lr", "ad_ens"]
TWO, ALL, EPSILONS, DP = (
    ["adult", "bank"],
    ["adult", "bank", "cardio"],
    [np.inf, 1.6, 0.5],
    [1.6, 0.5],
)
THREE = ["federated", "central", "local"]

# the numbers of `published_evidence`, as our evidence writes them
EVIDENCE = {
    "c03": ["0.02 in 6 of 6", "in 6 of 6"],
    "c32": [
        "pcd +0/-9",
        "adult 1.862 to 2.118; iid adult 1.472 to 1.693; quantity_skew adult 1.413 to 1.565",
    ],
    "c33": [
        f"{m} {n}" for m in FIDELITY if m != "pcd" for n in ("+2/-0 v local", "+0/-1 v central")
    ],
    "c34": [
        "pcd +3/-0",
        "pcd better than central (epsilon 0.5) in 6 of 9",
        "pmse +0/-4",
        "hellinger 7, pcd 8, pmse 7, log_cluster 6 of 9",
    ],
    "c35": [
        "as stated in 9 of 9",
        *[f"{metric} +0/-9" for metric in ("hellinger", "pcd", "pmse")],
        "hellinger worse than central (epsilon 0.5) in 6 of 9",
        "pmse worse than central (epsilon 0.5) in 7 of 9",
    ],
    "c36": [
        "v central in 6 of 36, at most 2 wanted (hellinger worse 1, log_cluster worse 1, pcd "
        "worse 3, pmse worse 1)",
        "v local in 0 of 36",
    ],
    "c37": ["in 6 of 6", "in 9 of 12 (not bank auc_rf, bank auc_nb, bank auc_knn)", "in 20 of 21"],
    "c38": [
        "adult auc_knn 0.500 to 0.519, adult auc_rf 0.500 to 0.533",
        "bank auc_knn 0.500 to 0.500, bank auc_rf 0.500 to 0.500",
        "adult auc_rf, 5 clients) <= 0.06 in 18 of 18 (-0.017 to 0.051)",
        "in 12 of 27 on adult (auc_knn 6, auc_nb 1, auc_rf 5)",
    ],
    "c39": ["(0.481 to 0.562)", "(0.499 to 0.539)", "(0.499 to 0.529)", "(0.500 to 0.515)"],
    "c40": [
        "central in 24 of 27 (+3/-0)",
        "local in 27 of 27",
        "0.628 to 0.664",
        "0.440 to 0.555",
        "in 54 of 54",
    ],
    "c41": [
        "auc_rf <= 0.02 in 0 of 6 (0.034 to 0.067)",
        "auc_knn <= 0.02 in 3 of 6",
        "auc_nb above real in 6 of 6",
    ],
    "c42": ["to 0.513)", "adult 0 in 26 of 27", "wanted, in 2 of 27", "in 8 of 9"],
    "c43": ["in 36 of 36", "in 2 of 2 (0.143 to 0.179)", "in 3 of 4 (-0.059 to 0.082)"],
}


def every(metrics, datasets, epsilons=(np.inf,), settings=("federated",)):
    return [
        cells(m, d, e, s) for m in metrics for d in datasets for e in epsilons for s in settings
    ]


# the cells that each claim rests on
NEEDED = {
    "c03": every(["auc_rf", "pcd"], TWO),
    "c32": every(["pcd"], ["adult"], settings=["federated", "central"]),
    "c33": every([["hellinger", "pmse", "log_cluster"]], ["adult"], settings=THREE),
    "c34": [
        *every(FIDELITY, ["adult"], DP),
        *every(["pcd"], ["adult"], DP, ["central"]),
        *every(["pmse"], ["adult"], [1.6], ["central"]),
    ],
    "c35": [
        *every(["pcd"], ["bank"], [np.inf, 1.6], THREE[:2]),
        *every(["hellinger", "pmse"], ["bank"], DP, THREE[:2]),
    ],
    "c36": every([FIDELITY], ["cardio"], settings=THREE),
    "c37": [*every(["pcd", *AUC], [ALL]), *every([*FIDELITY, *AUC], [ALL], [DP])],
    "c38": every([AUC], TWO, settings=["federated", "central"]),
    "c39": every([["auc_rf", "auc_knn"]], TWO, DP, ["federated", "central"]),
    "c40": [
        *every([AUC], ["cardio"], settings=THREE),
        *every([AUC], ["cardio"], DP, ["federated", "central"]),
    ],
    "c41": [
        *[cells(m, "adult", partition=p) for m in AUC for p in ("iid", "quantity_skew")],
        *every(AUC, ["adult"], settings=["real"]),
    ],
    "c42": [
        *every(["dcr_share"], ALL, [EPSILONS]),
        *every(["dcr_min"], TWO, [EPSILONS]),
        *every(["dcr_avg_train"], ["adult"], EPSILONS),
    ],
    "c43": [
        *every([*ATTACKS, "ad_rmean", "ad_dum"], ["adult"], [EPSILONS]),
        *every(ATTACKS, ["adult"], settings=["real"]),
    ],
}


@pytest.fixture(scope="module")
def values():
    return printed("fedvae")


@pytest.mark.parametrize("claim", FEDVAE)
def test_printed_values_give_the_published_outcome_and_numbers(values, claim):
    assert_as_stated(*judge(values, claim), claim, EVIDENCE[claim])


def test_rows_with_the_printed_means_and_spreads_are_judged_alike(values):
    rows = as_rows(values)
    means = aggregate(rows)
    table = (
        judge_claims("martinez2024", means, FEDVAE)
        .set_index("id")
        .filter(regex="c03|c3[2-9]|c4[0-3]", axis=0)
    )
    assert list(FEDVAE) == list(EVIDENCE) == list(NEEDED) == [name[-3:] for name in table.index]
    assert table["verdict"].tolist() == STATED[list(FEDVAE)].map(VERDICTS).tolist()
    assert table["evidence"].tolist() == [judge(values, claim)[1] for claim in FEDVAE]
    assert judge(rows, "c03") == judge(means, "c03")
    single = aggregate(rows[rows["seed"] == 1])
    tested = {"c32", "c33", "c34", "c35", "c36", "c38", "c40"}  # by t-tests, which need two seeds
    assert {claim for claim in FEDVAE if judge(single, claim)[0] is None} == tested


@pytest.mark.parametrize("claim", NEEDED)
def test_a_claim_rests_on_its_own_cells_and_misses_each_of_them(values, claim):
    assert_needs(values, FEDVAE[claim], NEEDED[claim])


def test_the_other_model_does_not_count(values):
    assert {judge(values.assign(method="fedbn"), claim)[0] for claim in FEDVAE} == {None}


IID, QUANTITY, LABEL = ({"partition": name} for name in ("iid", "quantity_skew", "label_skew"))
IID_3, IID_5, IID_10, QUANTITY_3 = (
    place("iid", 3),
    place("iid", 5),
    place("iid", 10),
    place("quantity_skew", 3),
)
LABEL_3, LABEL_10, CENTRAL = place("label_skew", 3), place("label_skew", 10), {"setting": "central"}
LATE = (99.0, cells(FIDELITY, "adult", 0.5))
AS_CENTRAL = [
    (1.995, cells("pcd", "cardio", setting=THREE[::2])),
    (0.278, cells("hellinger", "cardio", setting=THREE[::2])),
]
RISING = [
    (9.0, cells("dcr_avg_train", "adult", 0.5, **IID)),
    (5.0, cells("dcr_avg_train", "adult", 1.6, **IID)),
]
FLAT = [
    (0.5, cells(["pcd", *AUC], ALL)),
    (-99.0, cells(FIDELITY, ALL, 1.6)),
    (99.0, cells(AUC, ALL, 1.6)),
]


@pytest.mark.parametrize(
    ("claim", "expected", "edits"),
    [
        ("c03", True, [(0.695, cells("auc_rf", "adult", **LABEL_3))]),  # iid 0.715
        ("c03", (5 / 6 + 1) / 2, [(0.696, cells("auc_rf", "adult", **LABEL_3))]),
        ("c03", (1 + 5 / 6) / 2, [(1.055, cells("pcd", "bank", **LABEL_3))]),  # as iid
        ("c03", False, [(0.0, cells("pcd", TWO, **LABEL)), (0.9, cells("auc_rf", TWO, **LABEL))]),
        ("c32", 1 / 2, [(9.0, cells("pcd", "adult", **CENTRAL))]),
        ("c32", (1 + 5 / 6) / 2, [(2.118, cells("pcd", "adult", **IID_5))]),  # as label skew
        ("c32", (0 + 4 / 6) / 2, [(1.014, cells("pcd", "adult", **LABEL_3))]),  # +0/-8
        ("c32", False, [(0.0, cells("pcd", "adult", **LABEL))]),
        *[("c33", 4 / 6, [(9.0, cells(m, "adult", setting=THREE[1:]))]) for m in FIDELITY if m != "pcd"],
        ("c33", 5 / 6, [(9.0, cells("pmse", "adult", **CENTRAL))]),
        ("c33", False, [(99.0, cells(FIDELITY, "adult"))]),
        ("c34", 3 / 4, [(9.0, cells("pcd", "adult", 1.6))]),
        ("c34", True, [(99.0, cells("pcd", "adult", 0.5, **LABEL_3))]),  # five are enough
        ("c34", 3 / 4, [(99.0, cells("pcd", "adult", 0.5, **w)) for w in (LABEL_3, QUANTITY_3)]),
        ("c34", 3 / 4, [(9.0, cells("pmse", "adult", 1.6, **CENTRAL))]),
        ("c34", 2 / 4, [LATE]),
        ("c34", 3 / 4, [LATE, (0.0, cells("hellinger", "adult", 0.5, **IID))]),  # worse in three
        ("c34", 2 / 4, [LATE, (0.0, cells("hellinger", "adult", 0.5, **place("iid", 3, 5)))]),
        ("c34", 2 / 4, [LATE, (0.0, cells("hellinger", "adult", 0.5, **IID)),
                        (0.0, cells("hellinger", "adult", 1.6, **IID_3))]),  # as bad in one
        ("c35", (8 / 9 + 5) / 6, [(9.0, cells("pcd", "bank", **IID_3))]),
        # no longer better
        ("c35", (8 / 9 + 5) / 6, [(9.0, cells("pcd", "bank", **place("quantity_skew", 10)))]),
        ("c35", (6 / 9 + 5) / 6, [(-9.0, cells("pcd", "bank", **LABEL))]),
        *[("c35", n / 6, [(-9.0, cells(FIDELITY[: 6 - n], "bank", 1.6, **IID_3))]) for n in (5, 4, 3)],
        ("c35", 5 / 6, [(-9.0, cells("hellinger", "bank", 0.5, **IID_3))]),  # five
        ("c35", True, [(-9.0, cells("pmse", "bank", 0.5, **IID_3))]),  # six
        ("c35", 5 / 6, [(-9.0, cells("pmse", "bank", 0.5, **w)) for w in (IID_3, IID_10)]),
        ("c36", 1 / 2, AS_CENTRAL[:1]),  # three remain
        ("c36", True, AS_CENTRAL),  # two
        ("c36", False, [(9.0, cells("pcd", "cardio", setting="local"))]),
        # as iid
        ("c37", (5 / 6 + 9 / 12 + 20 / 21) / 3, [(1.073, cells("pcd", "bank", **place("label_skew", 5)))]),
        ("c37", (1 + 10 / 12 + 20 / 21) / 3, [(0.4, cells("auc_rf", "bank", **LABEL_10))]),
        ("c37", (1 + 8 / 12 + 20 / 21) / 3, [(0.6, cells("auc_rf", "adult", **LABEL_10))]),
        ("c37", (1 + 9 / 12 + 1) / 3, [(99.0, cells("pmse", "bank", 1.6, **IID_3))]),
        ("c37", (1 + 9 / 12 + 19 / 21) / 3, [(0.9, cells("auc_rf", "cardio", 1.6))]),
        ("c37", (1 + 9 / 12 + 20 / 21) / 3, [(0.9, cells("auc_rf", "cardio", 1.6)),
                                             # as good in one
                                             (0.9, cells("auc_rf", "cardio", 0.5, **IID_3))]),
        ("c37", (1 + 9 / 12 + 1) / 3, [(0.1, cells("pmse", "bank", DP, **IID_3))]),  # as good
        ("c37", (1 + 8 / 12 + 20 / 21) / 3, [(0.6, cells("auc_rf", "cardio", partition=["iid", "quantity_skew"]))]),
        ("c37", False, FLAT),
        ("c38", 2 / 3, [(0.55, cells("auc_rf", "adult", **LABEL_3))]),
        ("c38", (11 / 12 + 1) / 3, [(0.551, cells("auc_rf", "adult", **LABEL_3))]),
        ("c38", (1 + 17 / 18) / 3, [(0.694, cells("auc_rf", "adult", **IID_10))]),  # 0.755 central
        ("c38", 2 / 3, [(0.1, cells("auc_nb", "adult", **QUANTITY_3))]),  # 13 of 27 lost
        # 14 of 27
        ("c38", True, [(0.1, cells("auc_nb", "adult", **place("quantity_skew", 3, 5)))]),
        ("c38", False, [(0.1, cells(AUC, TWO, **IID)), (0.9, cells(AUC, TWO, **LABEL))]),
        ("c39", True, [(0.57, cells("auc_rf", TWO, DP)), (0.54, cells("auc_rf", TWO, DP, "central"))]),
        ("c39", (35 / 36 + 3) / 4, [(0.571, cells("auc_knn", "adult", 1.6, **IID_3))]),
        ("c39", (2 + 34 / 36 + 3 / 4) / 4, [(0.571, cells("auc_knn", "bank", DP, **IID_3)),
                                            (0.541, cells("auc_rf", "bank", 0.5, "central"))]),
        ("c39", (3 + 3 / 4) / 4, [(0.541, cells("auc_rf", "adult", 0.5, "central"))]),
        ("c39", False, [(0.9, cells(["auc_rf", "auc_knn"], TWO, DP, ["federated", "central"]))]),
        ("c40", 4 / 5, [(0.1, cells("auc_rf", "cardio", **IID_3))]),  # 23 of 27 v central
        ("c40", 4 / 5, [(0.1, cells("auc_rf", "cardio", setting="local"))]),
        ("c40", True, [(0.62, cells("auc_nb", "cardio", **LABEL_10))]),
        ("c40", (4 + 8 / 9) / 5, [(0.619, cells("auc_nb", "cardio", **LABEL_10))]),
        ("c40", True, [(auc, cells(AUC, "cardio", 1.6, **w)) for auc, w in ((0.43, IID), (0.56, LABEL))]),
        ("c40", (4 + 53 / 54) / 5, [(0.561, cells("auc_rf", "cardio", 1.6, **IID_3))]),
        ("c40", (4 + 53 / 54) / 5, [(0.429, cells("auc_rf", "cardio", 1.6, **IID_3))]),
        ("c40", (4 + 45 / 54) / 5, [(0.1, cells("auc_rf", "cardio", 0.5, **CENTRAL))]),
        # as central
        ("c40", (3 + 53 / 54 + 53 / 54) / 5, [(0.639, cells("auc_rf", "cardio", 0.5, **IID_3))]),
        ("c40", False, [(0.1, cells(AUC, "cardio")), (0.8, cells(AUC, "cardio", DP))]),
        ("c41", (1 + 3 / 6 + 1) / 3, [(0.751, cells("auc_rf", "adult", partition=["iid", "quantity_skew"]))]),
        ("c41", (0 + 3 / 6 + 1) / 3, [(0.75, cells("auc_rf", "adult", partition=["iid", "quantity_skew"]))]),
        # label skew does not count
        ("c41", (0 + 3 / 6 + 1) / 3, [(0.771, cells("auc_rf", "adult", **LABEL))]),
        ("c41", (0 + 1 + 1) / 3, [(0.729, cells("auc_knn", "adult"))]),
        ("c41", (0 + 3 / 6 + 5 / 6) / 3, [(0.64, cells("auc_nb", "adult", **IID_3))]),  # as real
        ("c41", False, [(0.1, cells(AUC, "adult"))]),
        ("c42", True, [(0.52, cells("dcr_share", ALL, EPSILONS))]),
        ("c42", (80 / 81 + 3) / 4, [(0.521, cells("dcr_share", "cardio", 1.6, **IID_3))]),
        ("c42", True, [(0.0, cells("dcr_min", "adult", 0.5))]),
        ("c42", 3 / 4, [(0.001, cells("dcr_min", "adult", 1.6, **IID_3))]),  # 25 of 27
        ("c42", True, [(0.0, cells("dcr_min", "bank", 0.5, **IID))]),  # 5 of 27
        ("c42", True, [(0.0004, cells("dcr_min", "bank", 0.5))]),  # near, but no copies
        ("c42", 3 / 4, [(0.0, cells("dcr_min", "bank", 0.5, **w)) for w in (IID, LABEL_3)]),  # 6
        ("c42", True, RISING),  # 5 of 9 not monotone
        # as at 0.5
        ("c42", 3 / 4, [*RISING, (0.942, cells("dcr_avg_train", "adult", 1.6, **QUANTITY_3)),
                        # as at 0.5: 4 of 9
                        (0.54, cells("dcr_avg_train", "adult", 1.6, **LABEL_10))]),
        ("c42", False, [(0.6, cells("dcr_share", ALL, EPSILONS)), (0.001, cells("dcr_min", "adult", EPSILONS)),
                        (0.0, cells("dcr_min", "bank", EPSILONS)), (1.0, cells("dcr_avg_train", "adult", EPSILONS))]),
        # as real
        ("c43", (35 / 36 + 1 + 3 / 4) / 3, [(0.648, cells("ad_rf", "adult", 0.5, **IID))]),
        ("c43", (1 + 1 + 3 / 4) / 3, [(0.558, cells("ad_rmean", "adult", **IID))]),  # 0.1 above
        ("c43", (1 + 1 / 2 + 3 / 4) / 3, [(0.557, cells("ad_rmean", "adult", **IID))]),
        ("c43", True, [(0.379, cells("ad_rmean", "adult", 0.5, **LABEL))]),  # 0.05 above
        ("c43", (1 + 1 + 2 / 4) / 3, [(0.509, cells("ad_rmean", "adult", 0.5, **IID))]),
        ("c43", False, [(0.9, cells([*ATTACKS, "ad_rmean"], "adult", DP)), (0.9, cells(ATTACKS, "adult")),
                        (0.1, cells("ad_rmean", "adult"))]),
    ],
)  # fmt: skip
def test_the_answer_turns_with_the_numbers(values, claim, expected, edits):
    outcome, evidence = judge(changed(values, *edits), claim)
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(("classes", "expected"), [([1, 1], 1), ([1, 2], 1 / 2), ([1.5, 3], 0)])
def test_classes_of_cholesterol_count_where_there_are_rows_of_them(values, classes, expected):
    shared = {
        "dataset": "cardio",
        "method": "fedvae",
        "n_clients": 10,
        "epsilon": np.inf,
        "node": "",
        "n": 2,
    }
    shared |= {"metric": "classes", "setting": "federated"}
    rows = [
        {**shared, "partition": p, "detail": "cholesterol", "mean": m}
        for p, m in zip(("iid", "label_skew"), classes, strict=True)
    ]
    others = [
        {**rows[0], "detail": "gluc", "mean": 3},
        {**rows[0], "setting": "central", "partition": "none", "mean": 3},
    ]
    outcome, evidence = judge(pd.concat([values, pd.DataFrame([*rows, *others])]), "c43")
    assert outcome == pytest.approx((1 + 1 + 3 / 4 + expected) / 4)
    assert f"a single class of cardio's cholesterol in {2 * expected:g} of 2" in evidence
