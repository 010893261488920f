"""The checks of c01, c02 and c44-c49 say of the printed values what the claims file says, and turn
with the numbers."""

import numpy as np
import pandas as pd
import pytest
from printed_claims import (
    PLACES,
    STATED,
    VERDICTS,
    as_rows,
    assert_as_stated,
    assert_needs,
    cells,
    changed,
    place,
    printed,
    where,
)

from fedsynth_lib.printed.published import aggregate, judge_claims
from fedsynth_lib.runs.rows import to_frame
from fedsynth_lib.verdicts.claims_models import MODELS, judge

AUC, FIDELITY = ["auc_rf", "auc_nb", "auc_knn"], ["hellinger", "pcd", "pmse", "log_cluster"]
SEVEN, TWO, ALL = [*FIDELITY, *AUC], ["adult", "bank"], ["adult", "bank", "cardio"]
EPSILONS, DP = [np.inf, 1.6, 0.5], [1.6, 0.5]
BN, VAE = {"method": "fedbn"}, {"method": "fedvae"}

# the numbers of `published_evidence`, as our evidence writes them
EVIDENCE = {
    "c01": [
        "fedbn not significant v central in 157 of 189 (+14/-18)",
        "fedvae",
        "in 137 of 189 (+8/-44)",
    ],
    "c02": [
        "fedbn better than local in 108 of 189, half wanted (iid 31, label_skew 54, quantity_skew "
        "23 of 63 each)",
        "fedvae better than local in 96 of 189, half wanted (iid 25, label_skew 34, quantity_skew "
        "37 of 63 each)",
    ],
    "c45": [
        "pcd lower with fedbn in 26 of 27",
        "log_cluster lower with fedbn in 27 of 27",
        "in 27 of 27",
        "in 9 of 9",
    ],
    "c46": [
        "adult: auc higher with fedbn in 22",
        "bank: auc higher with fedbn in 21",
        "with fedvae in 27 of 27",
    ],
    "c47": [
        "in 12 of 12",
        "(0.475 to 0.488)",
        "(0.452 to 0.491)",
        "in 0 of 18 (fedbn) and 10 of 18 (fedvae)",
    ],
    "c48": [
        "adult: auc higher with fedbn in 46",
        "bank: auc higher with fedbn in 40",
        "fedbn in 54 of 54",
        "pmse 1",
    ],
    "c49": ["better with fedbn in 109 of 189"],
}

# the cells that each claim rests on
NEEDED = {
    "c01": [cells(SEVEN, ALL, setting=["federated", "central"], **m) for m in (BN, VAE)],
    "c02": [cells(SEVEN, ALL, setting=s, **m) for s in ("federated", "local") for m in (BN, VAE)],
    "c45": [cells(m, ALL, method=n) for m in FIDELITY for n in ("fedbn", "fedvae")],
    "c46": [cells(AUC, d, **m) for d in ALL for m in (BN, VAE)],
    "c47": [cells("ad_rmean", TWO, e) for e in EPSILONS]
    + [cells("dcr_share", d, n_clients=10, **m) for d in TWO for m in (BN, VAE)]
    + [cells("dcr_min", TWO, e, n_clients=10) for e in EPSILONS],
    "c48": [cells(m, ALL, DP) for m in SEVEN],
    "c49": [cells(m, ALL) for m in SEVEN],
}


@pytest.fixture(scope="module")
def values():
    return printed("fedbn", "fedvae")


@pytest.mark.parametrize("claim", EVIDENCE)
def test_printed_values_give_the_published_outcome_and_numbers(values, claim):
    assert_as_stated(*judge(values, claim), claim, EVIDENCE[claim])


def test_rows_with_the_printed_means_and_spreads_are_judged_alike(values):
    used = where(
        values,
        metric=[*SEVEN, "ad_rmean", "dcr_share", "dcr_min"],
        setting=["federated", "central", "local"],
    )
    # the real data are printed under both models, and no claim here speaks of them
    rows = as_rows(values[used])
    means = aggregate(rows)
    table = (
        judge_claims("martinez2024", means, MODELS)
        .set_index("id")
        .filter(regex="c0[12]|c4[4-9]", axis=0)
    )
    assert list(MODELS) == [name[-3:] for name in table.index] == sorted([*EVIDENCE, "c44"])
    assert table["verdict"].tolist() == STATED[list(MODELS)].map(VERDICTS).tolist()
    assert table["evidence"].tolist() == [judge(values, claim)[1] for claim in MODELS]
    assert judge(rows, "c49") == judge(means, "c49")
    single = aggregate(rows[rows["seed"] == 1])
    # by t-tests
    assert [judge(single, claim)[0] is None for claim in ("c01", "c02", "c49")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("claim", NEEDED)
def test_a_claim_rests_on_its_own_cells_and_misses_each_of_them(values, claim):
    assert_needs(values, MODELS[claim], NEEDED[claim])


def test_a_missing_model_is_named(values):
    assert judge(values[values["method"] == "fedvae"], "c49") == (
        None,
        "fedbn: 27 of 27 federated cells of hellinger are missing, in adult, bank, cardio at "
        "epsilon inf",
    )


# --- stated numbers of ---------------------------------------------------------------------------
# cells

PLACED = [(d, *p) for d in ALL for p in PLACES]


def some(metrics, number, **others):
    """Federated non-DP cells of these metrics, so many of them, in edits to come."""
    wanted = [(m, *p) for m in metrics for p in PLACED][:number]
    return [cells(m, d, partition=p, n_clients=n, **others) for m, d, p, n in wanted]


def level(values):
    return values.assign(mean=0.5)


@pytest.mark.parametrize(
    ("claim", "expected", "number", "new", "others"),
    [
        ("c01", True, 94, 99.0, BN),  # 95 of 189 still do not differ
        ("c01", 1 / 2, 95, 99.0, BN),
        ("c01", 1 / 2, 95, 99.0, VAE),
        ("c49", False, 0, None, {}),
        ("c49", False, 94, 0.4, BN),
        ("c49", True, 95, 0.4, BN),
        ("c49", True, 95, 0.6, VAE),
    ],
)
def test_halves_are_counted_in_cells(values, claim, expected, number, new, others):
    edits = [(new, each) for each in some(FIDELITY, number, **others)]
    outcome, evidence = judge(changed(level(values), *edits), claim)
    assert outcome == expected, evidence


def test_federated_v_local_needs_half_of_each_model_and_most_under_label_skew(values):
    both = {"method": ["fedbn", "fedvae"]}
    equal = level(values)
    assert judge(equal, "c02")[0] is False
    quarter = [(0.4, each) for each in some(FIDELITY, 95, **both)]  # 36 iid, 30 of the other two
    assert judge(changed(equal, *quarter), "c02")[0] == pytest.approx(2 / 3)
    worse = cells("hellinger", ALL, partition="iid", method="fedbn")
    skewed = [(0.4, cells(AUC[:1], ALL, partition="label_skew", setting="local")), (0.5, worse)]
    # nine iid cells of fedbn less, nine of label skew more of both: 27, 39 and 30
    assert judge(changed(equal, *quarter, *skewed), "c02")[0] is True
    fewer = [(0.4, each) for each in some(FIDELITY, 94, **both)]
    assert judge(changed(equal, *fewer), "c02")[0] is False
    only_vae = [(0.5, each) for each in some(FIDELITY, 95, **BN)]
    assert judge(changed(equal, *quarter, *only_vae), "c02")[0] == pytest.approx(1 / 3)


IID_3, LABEL, LABEL_3, QUANTITY_10 = (
    place("iid", 3),
    {"partition": "label_skew"},
    place("label_skew", 3),
    place("quantity_skew", 10),
)


@pytest.mark.parametrize(
    ("claim", "expected", "edits"),
    [
        ("c45", True, [(9.0, cells("pcd", "bank", **QUANTITY_10, **VAE))]),  # 27 of 27
        ("c45", 3 / 4, [(9.0, cells("pcd", "adult", **IID_3, **BN))]),  # 25
        ("c45", (3 + 26 / 27) / 4, [(99.0, cells("log_cluster", "adult", **IID_3, **BN))]),
        ("c45", (3 + 26 / 27) / 4, [(0.0, cells("pmse", "adult", **IID_3, **BN))]),
        ("c45", (3 + 8 / 9) / 4, [(0.0, cells("hellinger", "bank", **IID_3, **BN))]),
        ("c45", True, [(0.0, cells("hellinger", ["adult", "cardio"], **BN))]),  # only bank counts
        ("c45", False, [(0.5, cells(FIDELITY, ALL))]),
        *[("c46", 2 / 3, [(0.99, cells("auc_rf", "adult", **VAE)), (0.5, cells("auc_nb", "adult"))])],
        ("c46", 2 / 3, [(0.99, cells("auc_rf", "bank", **VAE))]),  # 12 of 27
        ("c46", True, [(0.99, cells(AUC[0], "bank", **LABEL, **VAE))]),  # 18 of 27
        ("c46", 2 / 3, [(0.99, cells(["auc_rf", "auc_nb"], "cardio", **BN))]),
        ("c46", False, [(0.5, cells(AUC, ALL))]),
        ("c47", (11 / 12 + 3) / 4, [(0.99, cells("ad_rmean", "bank", 0.5, partition="iid", **VAE))]),
        ("c47", True, [(0.5, cells("dcr_share", "adult", **BN)), (0.44, cells("dcr_share", "bank", **VAE))]),
        ("c47", (3 + 3 / 6) / 4, [(0.501, cells("dcr_share", "adult", **BN))]),
        ("c47", (3 + 5 / 6) / 4, [(0.439, cells("dcr_share", "bank", **QUANTITY_10, **VAE))]),
        ("c47", True, [(0.9, cells("dcr_share", TWO, DP))]),  # only without DP
        ("c47", 3 / 4, [(0.0, cells("dcr_min", "bank", 0.5, **QUANTITY_10, **BN))]),
        ("c47", True, [(0.0, cells("dcr_min", "bank", 0.5, **IID_3, **BN))]),  # only ten clients
        ("c47", 3 / 4, [(0.001, cells("dcr_min", TWO, EPSILONS, **VAE))]),
        ("c47", False, [(0.9, cells(["ad_rmean", "dcr_share", "dcr_min"], TWO, EPSILONS))]),
        ("c48", (2 + 94 / 216 + 0) / 4, [(0.99, cells("auc_rf", "bank", DP, **VAE))]),
        ("c48", (3 + 40 / 216) / 4, [(-99.0, cells(["pcd", "hellinger"], "cardio", DP, **VAE)),
                                    (-99.0, cells("log_cluster", "cardio", DP, **VAE))]),
        ("c48", True, [(-99.0, cells(FIDELITY, ALL, DP, **BN))]),
        ("c48", False, [(0.5, cells(SEVEN, ALL, DP))]),
    ],
)  # fmt: skip
def test_the_answer_turns_with_the_numbers(values, claim, expected, edits):
    outcome, evidence = judge(changed(values, *edits), claim)
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(("number", "outcome"), [(27, 0), (28, 1 / 4)])
def test_with_dp_more_than_half_of_54_cells_are_needed(values, number, outcome):
    wanted = [(m, e, *p) for m in AUC for e in DP for p in PLACES][:number]
    edits = [(0.6, cells(m, "adult", e, partition=p, n_clients=n, **BN)) for m, e, p, n in wanted]
    assert judge(changed(level(values), *edits), "c48")[0] == outcome


# --- c44 -----------------------------------------------------------------------------------------


def column_rows(**edits):
    """Rows of two seeds that fit c44; edits replace values."""
    numbers = {
        ("hellinger_column", "capital-loss"): (0.6, 0.1),
        ("hellinger_column", "income"): (0.05, 0.3),
        ("classes", "income"): (2, 1),
        ("classes", "native-country"): (42, 1),
        ("association_error", "categorical"): (0.05, 0.2),
        ("association_error", "numeric"): (0.2, 0.1),
    }
    shared = {
        "paper": "martinez2024",
        "dataset": "adult",
        "data": "real",
        "partition": "label_skew",
        "n_clients": 10,
    }
    shared |= {"setting": "federated", "epsilon": np.inf, "profile": "quick"}
    rows = [
        {
            **shared,
            "metric": m,
            "item": item,
            "method": method,
            "seed": seed,
            "value": edits.get(key, pair[i]),
        }
        for (m, item), pair in numbers.items()
        for i, method in enumerate(("fedbn", "fedvae"))
        for key in [f"{m}_{item}_{method}".replace("-", "_")]
        for seed in (0, 1)
    ]
    return to_frame(rows)


@pytest.mark.parametrize(
    ("expected", "edits"),
    [
        (True, {}),
        (5 / 6, {"hellinger_column_capital_loss_fedvae": 0.6}),
        (5 / 6, {"hellinger_column_income_fedvae": 0.05}),
        (5 / 6, {"classes_income_fedvae": 2}),
        (5 / 6, {"classes_native_country_fedvae": 3}),
        (5 / 6, {"association_error_categorical_fedbn": 0.2}),
        (5 / 6, {"association_error_numeric_fedvae": 0.3}),
        (True, {"classes_income_fedbn": 1}),  # only those of FedVAE are spoken of
        (False, {"hellinger_column_capital_loss_fedbn": 0.1, "hellinger_column_income_fedbn": 0.9}
         | {"classes_income_fedvae": 2, "classes_native_country_fedvae": 2}
         | {"association_error_categorical_fedbn": 0.9, "association_error_numeric_fedbn": 0.0}),
    ],
)  # fmt: skip
def test_columns_of_adult_turn_the_answer(expected, edits):
    outcome, evidence = judge(column_rows(**edits), "c44")
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


def test_classes_must_be_single_in_every_split_and_rows_of_another_place_do_not_count():
    rows = column_rows()
    split = where(rows, metric="classes", item="income", method="fedvae", seed=1)
    assert judge(rows.assign(value=rows["value"].mask(split, 2)), "c44")[0] == pytest.approx(5 / 6)
    other = rows.assign(partition="iid", value=9.0)
    assert judge(pd.concat([rows, other]), "c44") == judge(rows, "c44")
    outcome, evidence = judge(
        rows[~where(rows, metric="association_error", item="numeric", method="fedbn")], "c44"
    )
    assert outcome is None
    assert (
        evidence
        == "rows of adult are missing (label_skew, 10 clients): association_error numeric fedbn"
    )
    assert judge(other, "c44")[0] is None
