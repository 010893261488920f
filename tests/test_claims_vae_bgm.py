"""The checks of apellaniz2025 say of the printed values what the claims file says, and turn with
the numbers."""

import numpy as np
import pandas as pd
import pytest
from printed_claims import assert_needs, changed, where
from test_apellaniz_tables import as_rows, printed

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate, judge_claims, load_claims
from fedsynth_lib.runs.rows import params_text, read_params, to_frame, with_params
from fedsynth_lib.verdicts import apellaniz_tables
from fedsynth_lib.verdicts.apellaniz_tables import METHODS, in_print
from fedsynth_lib.verdicts.claims_vae_bgm import AS_RUN, OF_SIZES, VAE_BGM, judge
from fedsynth_lib.works.apellaniz_study import AS_RUN as AS_CODE

CLAIMS = load_claims("apellaniz2025").assign(id=lambda t: t["id"].str[-3:]).set_index("id")
STATED = CLAIMS["holds_on_published_values"]
FIGURES = ["c17", "c18", "c19"]
BOTH, TWO = ["iid", "bmi_skew"], ["brfss_diabetes", "brfss_heart"]
SIZES = ["50/100/500", "50/100/1000", "50/500/1000", "100/500/1000"]
JS, ACCURACY, REAL = "js_divergence", "acc_synthetic_real", "acc_real_real"

# printed figures whose marks rounding hides: means and deviations that round to them and have the
# printed marks
HIDDEN = {
    ("tab2", "2", "SDS", "100/1000/10000"): (0.8406, 0.0016),
    ("tab3", "1", "FedAvg", "100/1000/10000"): (0.9036, 0.0008),
    ("tab5", "1", "Isolated", "100/1000/10000"): (0.9184, 0.0004),
    ("tabA1", "3", "Isolated", "100/500/1000"): (0.8416, 0.0028),
    ("tabA2", "2", "FedAvg", "50/100/1000"): (0.7816, 0.0018),
    ("tabA2", "3", "SDS", "50/100/500"): (0.9014, 0.0004),
}


def at(table, node, method=METHODS, metric=JS, sizes=None):
    """Printed cells: the numbers of nodes are digits, such as 12."""
    details = [
        f"train rows per node {s}" for s in np.atleast_1d(sizes or ["100/1000/10000", *SIZES])
    ]
    return {
        "exhibit": table,
        "node": list(str(node)),
        "method": method,
        "metric": metric,
        "detail": details,
    }


def acc(table, node, method=METHODS, sizes=None):
    return at(table, node, method, ACCURACY, sizes)


def real(table, node):
    return at(table, node, "Real", REAL)


APPENDIX = ["tabA1", "tabA2"]
NEEDED = {
    "c01": [at(t, 1, ["FedAvg", "Isolated"]) for t in ("tab4", "tab5")],
    "c02": [at(t, 1, ["SDS", "Isolated"]) for t in ("tab4", "tab5")],
    "c03": [at("tab2", node) for node in (1, 2)],
    "c04": [at("tab2", 3, m) for m in METHODS],
    "c05": [acc("tab2", 123), real("tab2", 123)],
    "c06": [at("tab3", node) for node in (1, 2, 3)],
    "c07": [acc("tab3", 2), real("tab3", 2)],
    "c08": [acc("tab3", 1), real("tab3", 1)],
    "c09": [at("tab4", 123, m) for m in METHODS],
    "c10": [acc("tab4", 1), real("tab4", 1)],
    "c11": [at("tab5", node, m) for node in (1, 2, 3) for m in ("SDS", "Isolated")],
    "c12": [at("tab5", 3, m) for m in ("FedAvg", "Isolated")],
    "c13": [acc("tab5", 12, "SDS"), real("tab5", 12)],
    "c14": [at("tab5", 1, m) for m in ("FedAvg", "Isolated")],
    "c15": [at(t, 123) for t in ("tab2", "tab3", "tab4", "tab5")],
    "c16": [at(t, 123) for t in ("tab4", "tab5")],
    "c20": [at(t, 1) for t in APPENDIX],
    "c21": [at(t, 2, sizes=s) for t in APPENDIX for s in SIZES],
    "c22": [at(APPENDIX, 3, m) for m in METHODS],
    "c23": [*[acc(APPENDIX, 123, m) for m in METHODS[1:]], real(APPENDIX, 123)],
    "c24": [acc(APPENDIX, 123), real(APPENDIX, 123)],
}
TESTED = ["c05", "c06", "c08", "c09", "c11", "c12", "c13", "c14", "c22"]

# the numbers of `published_evidence`, as our evidence writes them
EVIDENCE = {
    "c01": ["0.823 to 0.715 by 13.1 percent", "0.803 to 0.586 by 27.0 percent"],
    "c02": ["0.823 to 0.381 by 53.7 percent", "0.803 to 0.361 by 55.0 percent"],
    "c03": [
        "in 2 of 2",
        "node 1 SDS 0.411, FedAvg 0.637, Isolated 0.718",
        "SDS 0.412, FedAvg 0.444, Isolated 0.583",
    ],
    "c04": ["range of js_divergence 0.052", "Isolated 0.080, FedAvg 0.042, SDS 0.094"],
    "c05": [
        "(at most 0.007) in 9 of 9",
        "FedAvg significantly below Real in 1 of 1 (node 2 0.840 v 0.846, p 0.0009)",
    ],
    "c06": [
        "SDS < FedAvg < Isolated in 3 of 3",
        "Isolated in 3 of 3 (node 1 0.431 v 0.772, p 0.0003",
        "p 0.0011",
    ],
    "c07": ["Real 0.908 < SDS 0.912: yes", "Isolated 0.909 < ", "FedAvg 0.910 < "],
    "c08": ["0.896 v 0.907, p 0.0014", "0.904 v 0.907, p ", "0.905 v 0.907, p 0.0371"],
    "c09": [
        "SDS in 3 of 3",
        "0.381 v 0.823, p 0.0001; node 2 0.376 v 0.542, p 0.0016; node 3 0.349 v 0.489, p 0.0095",
    ],
    "c10": [
        "Isolated 0.815 < FedAvg 0.826: yes; FedAvg 0.826 < SDS 0.837: yes; SDS 0.837 < Real "
        "0.846: yes"
    ],
    "c11": [
        "0.361 v 0.803",
        "SDS 0.359 < Isolated 0.479: yes",
        "not significantly below",
        "0.280 v 0.336, p 0.1840",
    ],
    "c12": ["above Isolated in 1 of 1 (node 3 0.476 v 0.336, p 0.0009)"],
    "c13": ["in 2 of 2 (node 1 0.915 v 0.919, p 0.0000; node 2 0.894 v 0.899, p 0.0065)"],
    "c14": ["in 1 of 1 (node 1 0.586 v 0.803, p 0.0001)"],
    **{"c16": ["SDS 1 in 2 of 2"], "c20": ["in 8 of 8"]},
    "c15": [
        "in 4 of 4",
        "iid 0.389, 0.667, 0.778",
        "iid 0.333, 0.500, 1.000",
        "bmi_skew 0.389, 0.444, 1.000",
    ],
    "c21": [
        "in 6 of 8 (not at iid 50/500/1000 node 2",
        "bmi_skew 100/500/1000 node 2 Isolated 0.575",
    ],
    "c22": ["in 7 of 8 (not at bmi_skew 100/500/1000 node 3 0.478 v 0.561, p 0.0002)", "in 8 of 8"],
    "c23": ["in 14 of 24 (3 ties)"],
    "c24": ["(at most 0.045) in 72 of 72"],
}


@pytest.fixture(scope="module")
def values():
    """Printed values, those of HIDDEN with more digits."""
    values = printed()
    for (table, node, method, sizes), numbers in HIDDEN.items():
        values.loc[where(values, **acc(table, node, method, sizes)), ["mean", "std"]] = numbers
    return values


def test_the_values_round_to_the_printed_ones_and_have_their_marks(values):
    pd.testing.assert_frame_equal(values[["mean", "std"]].round(3), printed()[["mean", "std"]])
    assert len(HIDDEN) == (values["mean"] != printed()["mean"]).sum()
    table = apellaniz_tables.tested(values)
    assert (table["mark"] == table["significance"]).all()


@pytest.mark.parametrize("claim", EVIDENCE)
def test_printed_values_give_the_published_outcome_and_numbers(values, claim):
    outcome, evidence = judge(values, claim)
    if STATED[claim] == "yes":
        assert outcome is True, evidence
    else:
        assert STATED[claim] == "partly" and 0 < outcome < 1, evidence
    assert [part for part in EVIDENCE[claim] if part not in evidence] == []


def test_only_two_claims_need_the_digits_that_print_leaves_out():
    found = {claim: judge(printed(), claim) for claim in EVIDENCE}
    partly = {claim: outcome for claim, (outcome, _) in found.items() if outcome is not True}
    assert partly == pytest.approx({"c05": 2 / 3, "c08": 2 / 3, "c22": 15 / 16})
    assert "p 0.0158" in found["c05"][1] and "p 0.0107" in found["c08"][1]
    assert "p = 0.0009 (FedAvg) and 0.016 (SDS" in CLAIMS.loc["c05", "published_evidence"]
    assert "0.0107 (below 0.01 within rounding)" in CLAIMS.loc["c08", "published_evidence"]


def test_rows_and_their_aggregate_are_judged_alike(values):
    rows = as_rows(values)
    cells = aggregate(in_print(rows), per_node=True)
    table = judge_claims("apellaniz2025", cells, VAE_BGM)
    verdicts = {
        "yes": "holds",
        "partly": "holds partly",
        "not testable from tables": "not tested at this scale",
    }
    assert table["verdict"].tolist() == STATED.map(verdicts).tolist()
    assert table["published_holds"].tolist() == STATED.tolist() and list(VAE_BGM) == list(
        STATED.index
    )
    evidence = table["evidence"].set_axis(VAE_BGM)
    for claim in ("c08", "c15", "c22"):
        assert (
            judge(rows, claim) == judge(values, claim) and judge(rows, claim)[1] == evidence[claim]
        )
    with pytest.raises(BadInput, match="one profile at a time"):
        judge(pd.concat([rows, rows.assign(profile="quick")]), "c01")


def test_private_rows_and_variants_count_only_where_asked_for(values):
    cells = values[values["exhibit"] == "tab5"]
    rows = as_rows(cells)
    others = [as_rows(cells.assign(mean=0.5), disjoint=True), rows.assign(epsilon=1.0, value=0.7)]
    both = pd.concat([rows, *others])
    assert judge(both, "c14") == judge(rows, "c14")
    assert judge(both, "c14", variant="disjoint")[0] is False
    assert judge(pd.concat(others), "c14")[0] is None
    trainings = pd.concat(
        [as_rows(cells, seed, shift=s, repeats=[0]) for seed, s in enumerate((-0.1, 0, 0.1))]
    )
    evidence = VAE_BGM["c14"](trainings)[1]
    assert evidence.startswith("js_divergence of FedAvg significantly below Isolated in 0")
    assert judge(trainings, "c14") == (None, "a test of js_divergence needs 2 repeats or more")


@pytest.mark.parametrize("claim", NEEDED)
def test_a_claim_rests_on_its_own_cells_and_misses_each_of_them(values, claim):
    assert_needs(values, VAE_BGM[claim], NEEDED[claim])


def test_what_is_missing_is_named_and_a_single_repeat_is_no_test(values):
    expected = "1 of 3 values of js_divergence are missing, the first at brfss_diabetes, iid, 100/1000/10000, 3, FedAvg"
    assert judge(values[~where(values, **at("tab2", 3, "FedAvg"))], "c04") == (None, expected)
    single = aggregate(in_print(as_rows(values, repeats=[0])), per_node=True)
    assert [claim for claim in EVIDENCE if judge(single, claim)[0] is None] == TESTED
    assert judge(single, "c22")[1] == "a test of js_divergence needs 2 repeats or more"
    nothing = to_frame([])
    assert {judge(nothing, claim)[0] for claim in VAE_BGM} == {None}
    assert {judge(values, claim)[0] for claim in FIGURES} == {None}


S50, S51, S55, S105 = SIZES
ALL_OF_C11 = [
    (0.80, at("tab5", 1, "SDS")),
    (0.48, at("tab5", 2, "SDS")),
    (0.9, at("tab5", 3, "Isolated")),
]


@pytest.mark.parametrize(
    ("claim", "expected", "edits"),
    [
        ("c01", 1 / 2, [(0.73, at("tab4", 1, "FedAvg"))]),  # 11.3 percent
        ("c01", 1 / 2, [(0.57, at("tab5", 1, "FedAvg"))]),  # 29.0
        ("c01", True, [(0.72, at("tab4", 1, "FedAvg"))]),  # 12.5
        ("c01", False, [(0.9, at(["tab4", "tab5"], 1, "FedAvg"))]),
        ("c02", 1 / 2, [(0.42, at("tab4", 1, "SDS"))]),  # 49.0
        ("c03", 1 / 2, [(0.45, at("tab2", 2, "SDS"))]),
        ("c04", True, [(0.101, at("tab2", 3, "Isolated"))]),
        ("c04", False, [(0.102, at("tab2", 3, "Isolated"))]),
        ("c05", 2 / 3, [(0.846, acc("tab2", 2, "FedAvg"))]),
        ("c05", (8 / 9 + 2) / 3, [(0.830, acc("tab2", 1, "Isolated"))]),
        ("c06", 2 / 3, [(0.35, at("tab3", 3, "SDS"))]),
        ("c06", False, [(0.9, at("tab3", 123, "SDS"))]),
        ("c07", 2 / 3, [(0.912, real("tab3", 2))]),
        ("c08", 2 / 3, [(0.907, acc("tab3", 1, "FedAvg"))]),
        ("c08", 2 / 3, [(0.890, acc("tab3", 1, "SDS"))]),
        ("c09", 2 / 3, [(0.48, at("tab4", 3, "SDS"))]),
        ("c09", 5 / 6, [(0.40, at("tab4", 3, "SDS"))]),
        ("c10", 2 / 3, [(0.85, acc("tab4", 1, "SDS"))]),
        ("c10", 2 / 3, [(0.81, acc("tab4", 1, "FedAvg"))]),
        *[("c11", 2 / 3, [edit]) for edit in ALL_OF_C11],
        ("c11", False, ALL_OF_C11),
        ("c12", False, [(0.34, at("tab5", 3, "FedAvg"))]),
        ("c13", 1 / 2, [(0.898, acc("tab5", 2, "SDS"))]),
        ("c14", False, [(0.802, at("tab5", 1, "FedAvg"))]),
        ("c15", 3 / 4, [(0.9, at("tab4", 123, "SDS"))]),
        ("c15", True, [(0.9, at("tab4", 1, "SDS"))]),  # 0.778, 0.667, 0.389
        ("c16", 1 / 2, [(0.9, at("tab4", 1, "SDS"))]),
        ("c20", 7 / 8, [(0.9, at("tabA1", 1, "SDS", sizes=S50))]),
        ("c21", True, [(0.9, at("tabA1", 2, "SDS", sizes=S50))]),  # 5 of 8
        ("c21", False, [(0.9, at("tabA1", 2, "SDS", sizes=[S50, S51]))]),
        ("c22", 7 / 8, [(0.1, at("tabA1", 3, "SDS", sizes=S50))]),
        ("c22", True, [(0.56, at("tabA2", 3, "FedAvg", sizes=S105))]),
        ("c23", True, [(0.5, acc("tabA1", 1, "SDS", S51))]),  # 13 of 24
        ("c23", False, [(0.5, acc("tabA1", 1, "SDS", [S51, S105]))]),
        ("c24", 71 / 72, [(0.796, acc("tabA2", 1, "Isolated", S55))]),
    ],
)
def test_the_answer_turns_with_the_numbers(values, claim, expected, edits):
    outcome, evidence = judge(changed(values, *edits), claim)
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


# --- figures A2 to A4 ----------------------------------------------------------------------------


def figure_rows(edits=()):
    """Rows of `distances` and `features` of two trainings, which fit the claims; edits replace
    values."""
    rows = []

    def add(partition, dataset, node, method, metric, item, value, **params):
        place = {
            "partition": partition,
            "dataset": dataset,
            "node": node,
            "n_clients": 3,
            "epsilon": np.inf,
        }
        told = {
            "method": method,
            "metric": metric,
            "item": item,
            "value": value,
            "params": params_text(params),
        }
        rows.extend(
            {**place, **told, "paper": "apellaniz2025", "profile": "quick", "seed": seed}
            for seed in (0, 1)
        )

    for partition in BOTH:
        for dataset in TWO:
            for metric, value in (
                ("synthetic_min", 0.1),
                ("p_wilcoxon", 1e-9),
                ("p_kolmogorov_smirnov", 1e-9),
            ):
                add(partition, dataset, "3", "SDS", metric, "", value)
            add(partition, dataset, "3", "SDS", "synthetic_min", "", 0.0, whole=True)
        for method, js, share in (("FedAvg", 0.2, 0.6), ("SDS", 0.1, 0.45)):
            for column in ("Age", "BMI", "Education", "Income"):
                add(
                    partition,
                    TWO[0],
                    "1",
                    method,
                    "js_column",
                    column,
                    js if column != "Income" else 0.3 - js,
                )
            for level, real_share in ((6, 0.4), (5, 0.3), (4, 0.3)):
                add(partition, TWO[0], "1", method, "real_share", f"Education {level}", real_share)
            add(partition, TWO[0], "1", method, "synthetic_share", "Education 6", share)
            add(partition, TWO[0], "1", method, "synthetic_share", "Education 5", 1 - share)
    frame = to_frame(rows)
    for value, wanted in edits:
        assert where(frame, **wanted).any()
        frame.loc[where(frame, **wanted), "value"] = value
    return frame


FEDAVG, SDS = {"method": "FedAvg"}, {"method": "SDS"}
MODAL = {"metric": "synthetic_share", "item": "Education 6"}


@pytest.mark.parametrize(
    ("claim", "expected", "edits"),
    [
        *[(claim, True, []) for claim in FIGURES],
        (
            "c17",
            3 / 4,
            [(0.0, {"metric": "synthetic_min", "partition": "iid", "dataset": TWO[1], "seed": 1})],
        ),
        (
            "c18",
            7 / 8,
            [(0.001, {"metric": "p_wilcoxon", "partition": "iid", "dataset": TWO[0], "seed": 0})],
        ),
        ("c18", 1 / 2, [(0.5, {"metric": "p_kolmogorov_smirnov"})]),
        ("c19", 7 / 8, [(0.2, {"metric": "js_column", "item": "BMI", "partition": "iid", **SDS})]),
        ("c19", 3 / 4, [(0.4, {**MODAL, **FEDAVG})]),
    ],
)
def test_rows_of_the_figures_turn_the_answer(claim, expected, edits):
    outcome, evidence = judge(figure_rows(edits), claim)
    assert outcome == pytest.approx(expected), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(
    ("claim", "wanted", "text"),
    [
        (
            "c17",
            {"metric": "synthetic_min", "partition": "iid", "dataset": TWO[1]},
            "1 of 4 values of synthetic_min at",
        ),
        (
            "c18",
            {"metric": "p_wilcoxon", "dataset": TWO[0]},
            "2 of 4 values of p_wilcoxon at node 3 are missing",
        ),
        (
            "c19",
            {"metric": "js_column", "item": "Age", **SDS},
            "first at brfss_diabetes, bmi_skew, SDS, Age",
        ),
        ("c19", {"metric": "synthetic_share", **FEDAVG}, "missing: iid synthetic_share of FedAvg"),
    ],
)
def test_missing_rows_of_the_figures_are_named(claim, wanted, text):
    rows = figure_rows()
    outcome, evidence = judge(rows[~where(rows, **wanted)], claim)
    assert outcome is None and text in evidence
    never_drawn = figure_rows([(0.9, {"metric": "real_share", "item": "Education 4"})])
    assert "iid real 0.900, FedAvg 0.000, SDS 0.000" in judge(never_drawn, "c19")[1]


def as_trainings(rows):
    """Each repeat made a training of its own."""
    first = {
        text: params_text({**read_params(text), "repeat": 0}) for text in rows["params"].unique()
    }
    seeds = with_params(rows, repeat=0)["repeat"].astype(int)
    return rows.assign(seed=seeds, params=rows["params"].map(first))


def test_claims_are_judged_over_trainings_or_on_repeats_with_cut_slopes():
    usual, cut = as_rows(printed()), as_rows(printed(), variant=AS_CODE)
    trained, trained_cut = as_trainings(usual), as_trainings(cut)
    for claim in ("c03", "c20", "c22"):
        expected = judge(usual, claim)
        assert AS_RUN[claim](cut) == AS_RUN[claim](pd.concat([usual, cut])) == expected
        assert VAE_BGM[claim](trained) == VAE_BGM[claim](pd.concat([trained, cut])) == expected
        assert VAE_BGM[claim](cut) != expected
    for claim in ("c20", "c22"):
        assert (
            OF_SIZES[claim](trained_cut)
            == OF_SIZES[claim](pd.concat([trained_cut, usual]))
            == judge(usual, claim)
        )
