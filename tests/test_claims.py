"""Each check says of the printed values what the claims file says of them, and turns where the
numbers do."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import (
    aggregate,
    judge_claims,
    load_claims,
    load_values,
)
from fedsynth_lib.runs.rows import to_frame
from fedsynth_lib.verdicts.claims import FEDBN_FIDELITY, judge

VERDICT = {"yes": "holds", "partly": "holds partly"}
NON_DP, EPS_16, EPS_05 = ({"epsilon": epsilon} for epsilon in (np.inf, 1.6, 0.5))
FEDERATED, CENTRAL, LOCAL = ({"setting": name} for name in ("federated", "central", "local"))

# the numbers of `published_evidence`, as our evidence writes them
EVIDENCE = {
    "c07": ["hellinger range up to 0.093", "pmse range up to 0.006"],
    "c08": ["equal v central in 31 of 36", "worse v central in 0 of 36"],
    "c09": ["hellinger below local in 8 of 9", "(label_skew 5, 10, epsilon inf) in 2 of 2"],
    "c10": [
        "pcd +6/-0 v central",
        "log_cluster +6/-0 v central",
        "hellinger better than local",
        "in 8 of 8",
    ],
    "c11": [
        "hellinger +6/-0",
        "pcd +3/-0",
        "pmse +0/-8",
        "hellinger gap up to 0.001",
        "pmse gap up to 0.001",
    ],
    "c12": [f"local {metric} lower in 6 of 6" for metric in ("hellinger", "pcd", "pmse")],
    "c13": ["pcd +0/-3 v central"],
    "c14": ["(label_skew, epsilon inf) in 3 of 3", "(all, epsilon 0.5) in 5 of 9"],
    "c15": [
        "pmse +7/-0",
        "gap up to 0.001",
        "(iid, epsilon inf) in 2",
        "(quantity_skew, epsilon inf) in 2",
        "in 0 of 3",
    ],
    "c16": [
        "up to 0.063, <= 0.05 in 17 of 20",
        "pmse change up to 0.003, <= 0.005 in 20",
        "up to 11.587",
    ],
    "c17": [
        "pcd up from 3 to 10 clients in 8 of 9",
        "log_cluster up from 3 to 10 clients in 3 of 9",
    ],
    "c18": ["in 8 of 9"],
    "c19": ["in 81 of 81"],
    "c20": ["1.6 in 81 of 81", "non-DP in 78 of 81", "'adult': 14.9", "not small in 2 of 3"],
}


@pytest.fixture(scope="module")
def printed():
    tables = [load_values("martinez2024", f"tab6.{number}") for number in (1, 2, 3)]
    return pd.concat(tables, ignore_index=True).assign(n=3)


@pytest.fixture(scope="module")
def rows(printed):
    """Rows of three seeds, and of two clients each when local, with the printed means and
    spreads."""
    keys = [
        "paper",
        "dataset",
        "method",
        "partition",
        "n_clients",
        "setting",
        "epsilon",
        "metric",
        "mean",
        "std",
    ]
    cells = printed[keys].assign(profile="paper", data="real")
    runs = cells.merge(pd.DataFrame({"seed": [0, 1, 2], "step": [-1, 0, 1]}), how="cross")
    runs["value"] = runs["mean"] + runs["step"] * runs["std"]
    local = runs[runs["setting"] == "local"]
    clients = [
        local.assign(node=str(node), value=local["value"] + shift)
        for node, shift in enumerate((0.25, -0.25))
    ]
    whole = runs[runs["setting"] != "local"].assign(node="")
    return to_frame(
        pd.concat([whole, *clients]).drop(columns=["mean", "std", "step"]).to_dict("records")
    )


def changed(values, *edits):
    """A copy in which each edit, (what, {column: value, ...}), replaces what it names (a number, or
    a function)."""
    values = values.copy()
    for new, where in edits:
        chosen = np.logical_and.reduce([values[column] == value for column, value in where.items()])
        assert chosen.any()
        values.loc[chosen, "mean"] = new(values.loc[chosen, "mean"]) if callable(new) else new
    return values


def place(partition, n_clients):
    return {"partition": partition, "n_clients": n_clients}


# --- the printed values --------------------------------------------------------------------------


@pytest.mark.parametrize("claim", FEDBN_FIDELITY)
def test_printed_values_give_the_published_outcome_and_numbers(printed, claim):
    published = (
        load_claims("martinez2024")
        .set_index("id")
        .loc[f"martinez2024/{claim}", "holds_on_published_values"]
    )
    outcome, evidence = judge(printed, claim)
    assert (outcome is True) if published == "yes" else (0 < outcome < 1)
    assert [part for part in EVIDENCE[claim] if part not in evidence] == []
    assert "\n" not in evidence


def test_rows_with_the_printed_means_and_spreads_are_judged_alike(printed, rows):
    table = judge_claims("martinez2024", rows, FEDBN_FIDELITY).set_index("id")
    tested = table[table["verdict"] != "not tested at this scale"]
    assert (
        [name.partition("/")[2] for name in tested.index] == list(FEDBN_FIDELITY) == list(EVIDENCE)
    )
    assert tested["verdict"].tolist() == tested["published_holds"].map(VERDICT).tolist()
    assert tested["evidence"].tolist() == [judge(printed, claim)[1] for claim in FEDBN_FIDELITY]


def test_shares_are_means_over_the_conditions(printed):
    assert judge(printed, "c07")[0] == pytest.approx((3 / 9 + 8 / 9) / 2)
    assert judge(printed, "c16")[0] == pytest.approx((17 / 20 + 0 / 20 + 20 / 20 + 4 / 20) / 4)
    assert judge(printed, "c18")[0] == pytest.approx(8 / 9)
    assert judge(printed, "c20")[0] == pytest.approx((1 + 78 / 81 + 1 + 2 / 3) / 4)


# --- missing cells -------------------------------------------------------------------------------


def judged(values):
    return {claim for claim in FEDBN_FIDELITY if judge(values, claim)[0] is not None}


def test_a_claim_is_judged_only_by_its_own_tables_and_levels(printed):
    dataset, epsilon = printed["dataset"], printed["epsilon"]
    assert judged(printed[dataset == "adult"]) == {"c08", "c09", "c10"}
    assert judged(printed[dataset == "bank"]) == {"c11", "c12", "c13"}
    assert judged(printed[dataset == "cardio"]) == {"c14", "c15", "c16"}
    assert judged(printed[np.isinf(epsilon)]) == {"c08", "c09", "c11", "c12", "c17", "c18"}
    assert judged(printed[epsilon == 1.6]) == {"c10", "c13"}
    assert judged(printed[printed["setting"] == "federated"]) == {"c07", "c17", "c18", "c19", "c20"}
    assert (
        judged(printed.assign(method="fedvae"))
        == judged(printed.assign(detail="private structure"))
        == set()
    )
    assert judge(printed[dataset != "adult"], "c07")[1] == (
        "27 of 81 federated cells of hellinger are missing, in adult at epsilon inf, 1.6, 0.5"
    )


def test_one_missing_cell_is_enough(printed):
    cell = printed.query(
        "dataset == 'bank' and epsilon == 1.6 and metric == 'pcd' and setting == 'federated'"
    ).index[0]
    assert set(FEDBN_FIDELITY) - judged(printed.drop(cell)) == {"c13", "c20"}


def test_significance_needs_two_seeds_and_means_do_not(rows):
    single = rows[rows["seed"] == 1]
    assert judged(single) == {"c07", "c12", "c16", "c17", "c18", "c19", "c20"}
    assert judge(single, "c12") == judge(rows, "c12")
    outcome, evidence = judge(single, "c08")
    assert outcome is None and "2 seeds or more: adult, epsilon inf" in evidence


def test_profiles_never_mix_and_other_works_do_not_count(rows):
    with pytest.raises(BadInput, match="one profile at a time"):
        judge(pd.concat([rows, rows.assign(profile="quick")]), "c08")
    assert judged(rows.assign(paper="leitner2023")) == set()
    assert judge(rows.assign(paper=""), "c08")[0] is True


# --- flips ---------------------------------------------------------------------------------------

ADULT, BANK, CARDIO = ({"dataset": name} for name in ("adult", "bank", "cardio"))
HD, PCD, PMSE, LC = ({"metric": name} for name in ("hellinger", "pcd", "pmse", "log_cluster"))
IID_3, IID_10, SKEW_5, SKEW_10 = (
    place("iid", 3),
    place("iid", 10),
    place("label_skew", 5),
    place("label_skew", 10),
)


@pytest.mark.parametrize(
    ("claim", "expected", "edits"),
    [
        ("c07", True, [(0.2, FEDERATED)]),
        ("c07", True, [(0.2, FEDERATED), (0.205, FEDERATED | SKEW_5)]),  # 0.005 is still allowed
        ("c07", False, [(0.2, FEDERATED), (0.206, FEDERATED | SKEW_5)]),
        # 30 of 36 equal, one worse
        ("c08", 1 / 2, [(9.0, ADULT | NON_DP | PCD | FEDERATED | IID_3)]),
        # 19
        ("c08", True, [(-9.0, ADULT | PCD | FEDERATED), (-9.0, ADULT | PMSE | FEDERATED | {"n_clients": 3})]),
        ("c08", 1 / 2, [(-9.0, ADULT | PCD | FEDERATED), (-9.0, ADULT | PMSE | FEDERATED | {"partition": "iid"}),
                        (-9.0, ADULT | PMSE | FEDERATED | SKEW_5)]),  # 18
        ("c08", False, [(9.0, ADULT | NON_DP | FEDERATED)]),
        ("c08", 1 / 2, [(-99.0, ADULT | NON_DP | FEDERATED)]),  # none worse, but none equal
        ("c09", 1 / 2, [(0.1, ADULT | NON_DP | HD | LOCAL | IID_10)]),  # 7 of 9
        ("c09", 3 / 4, [(-99.0, ADULT | NON_DP | LC | LOCAL | SKEW_10)]),
        ("c09", False, [(-99.0, ADULT | NON_DP | LOCAL)]),
        # +5/-1
        ("c10", (0 + 1 + 1 + 7 / 8 + 1) / 5, [(9.0, ADULT | EPS_16 | PCD | FEDERATED | IID_10)]),
        ("c11", 4 / 5, [(lambda mean: mean + 0.002, BANK | NON_DP | HD | FEDERATED)]),
        # the gap is no longer negligible
        ("c11", 3 / 5, [(lambda mean: mean - 0.01, BANK | NON_DP | HD | FEDERATED)]),
        ("c12", 17 / 18, [(9.0, BANK | NON_DP | PCD | LOCAL | IID_3)]),
        ("c12", True, [(9.0, BANK | NON_DP | PCD | LOCAL | SKEW_5)]),  # label skew does not count
        ("c12", False, [(9.0, BANK | NON_DP | LOCAL)]),
        ("c13", False, [(9.0, BANK | EPS_16 | PCD | FEDERATED)]),
        ("c13", False, [(0.1, BANK | EPS_16 | PCD | FEDERATED | IID_3)]),  # +1/-3
        ("c14", 5 / 6, [(-1.0, CARDIO | NON_DP | LC | FEDERATED | SKEW_5)]),
        ("c14", 1 / 2, [(-99.0, CARDIO | EPS_05 | LC | FEDERATED)]),  # nine, not five
        ("c14", False, [(-1.0, CARDIO | LC | FEDERATED)]),
        ("c15", 4 / 5, [(0.9, CARDIO | NON_DP | HD | FEDERATED | SKEW_5)]),
        ("c15", 3 / 5, [(lambda mean: mean - 0.01, CARDIO | EPS_16 | PMSE | FEDERATED)]),
        ("c15", False, [(0.9, EPS_16 | FEDERATED), (0.1, NON_DP | FEDERATED), (0.9, NON_DP | FEDERATED | SKEW_5)]),
        ("c16", True, [(0.2, CARDIO)]),
        ("c16", False, [(0.2, CARDIO), (9.0, CARDIO | NON_DP)]),
        ("c17", True, [(0.0, ADULT | PCD | FEDERATED | IID_10)]),  # 7 of 9
        ("c17", 1 / 2, [(0.0, ADULT | PCD | FEDERATED | IID_10), (0.0, ADULT | PCD | FEDERATED | SKEW_10)]),
        ("c17", 1 / 2, [(0.0, NON_DP | LC | FEDERATED | {"n_clients": 10})]),
        ("c17", False, [(-99.0, NON_DP | FEDERATED | {"n_clients": 10})]),
        ("c18", True, [(9.0, NON_DP | PCD | FEDERATED | {"partition": "label_skew"})]),
        ("c18", False, [(9.0, NON_DP | PCD | FEDERATED | {"partition": "iid"})]),
        ("c19", 80 / 81, [(0.2199, CARDIO | EPS_05 | PMSE | FEDERATED | IID_3)]),
        ("c19", False, [(0.1, PMSE)]),
        ("c20", True, [(20.0, CARDIO | EPS_05), (10.0, CARDIO | EPS_16), (0.0, CARDIO | NON_DP)]),
        # more than adult
        ("c20", 3 / 4, [(30.0, CARDIO | EPS_05), (20.0, CARDIO | EPS_16), (0.0, CARDIO | NON_DP)]),
        ("c20", False, [(-10.0, EPS_05), (-9.0, EPS_16), (0.0, NON_DP), (1.0, ADULT | NON_DP)]),
    ],
)  # fmt: skip
def test_the_answer_turns_with_the_numbers(printed, claim, expected, edits):
    outcome, evidence = judge(changed(printed, *edits), claim)
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


def by_hand(*shifts):
    """Bank, epsilon 1.6: pcd of 1.00 +/- 0.02 (central) and of 1.00 +/- 0.01 (federated), the first
    cells shifted."""
    steps, shifts = [-0.02, 0.0, 0.02], [*shifts, *[0.0] * (9 - len(shifts))]
    shared = {
        "paper": "martinez2024",
        "dataset": "bank",
        "data": "real",
        "method": "fedbn",
        "epsilon": 1.6,
    }
    shared |= {"metric": "pcd", "profile": "quick"}
    places = [
        (partition, n) for partition in ("iid", "quantity_skew", "label_skew") for n in (3, 5, 10)
    ]
    rows = [
        {**shared, "setting": "central", "seed": s, "value": 1 + step}
        for s, step in enumerate(steps)
    ]
    for (partition, n), shift in zip(places, shifts, strict=True):
        cell = {**shared, "setting": "federated", "partition": partition, "n_clients": n}
        rows += [{**cell, "seed": s, "value": 1 + step / 2 + shift} for s, step in enumerate(steps)]
    return to_frame(rows)


def test_rows_made_by_hand_turn_with_the_count():
    # t = shift / sqrt((0.02^2 + 0.01^2) / 3) = shift / 0.0129; significant from 2.776 on, a shift
    # of 0.0358
    assert judge(by_hand(0.04, 0.04, 0.04), "c13") == (True, "pcd +0/-3 v central")
    assert judge(by_hand(0.04, 0.04, 0.03), "c13") == (False, "pcd +0/-2 v central")
    assert judge(by_hand(0.04, 0.04, 0.04, 0.04), "c13") == (False, "pcd +0/-4 v central")
    assert judge(by_hand(0.04, 0.04, 0.04, -0.04), "c13") == (False, "pcd +1/-3 v central")
    rows = by_hand(0.04, 0.04, 0.04)
    assert judge(aggregate(rows), "c13")[0] is True
    # two seeds: means 0.99 and 1.035, t = 0.045 / sqrt((0.0141^2 + 0.0071^2) / 2) = 4.02, and 4.303
    #     is needed
    assert judge(rows[rows["seed"] < 2], "c13") == (False, "pcd +0/-0 v central")
    # a seed less in one cell: the fewest repeats serve for all, t = 0.04 / sqrt(5e-4 / 2) = 2.53
    #     instead of 3.10
    assert judge(rows.drop(rows.index[-1]), "c13") == (False, "pcd +0/-0 v central")
