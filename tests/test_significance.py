"""The test and the interval agree with scipy, take sides as the metric does, and fall silent with
one split."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed import published
from fedsynth_lib.runs.rows import to_frame
from fedsynth_lib.verdicts import significance

# means 0.202 and 0.182: rounding changes neither
FEDERATED, CENTRAL = [0.201, 0.193, 0.212], [0.181, 0.176, 0.189]


def ours(setting, values, metric="hellinger", **labels):
    """Rows of adult, i.i.d. with 3 clients, a seed for each value."""
    place = (
        {"partition": "none", "n_clients": 1}
        if setting == "central"
        else {"partition": "iid", "n_clients": 3}
    )
    place |= {"partition": "none", "n_clients": None} if setting == "real" else {}
    shared = {
        "paper": "martinez2024",
        "dataset": "adult",
        "method": "fedbn",
        "profile": "paper",
        "data": "real",
    }
    shared |= {"setting": setting, "epsilon": np.inf, "metric": metric, **place, **labels}
    return [{**shared, "seed": seed, "value": value} for seed, value in enumerate(values)]


def run(*groups, **options):
    options = {"against": ["central"], **options}
    return significance.tested(to_frame([row for rows in groups for row in rows]), **options)


def test_interval_and_test_are_those_of_scipy():
    found = run(ours("federated", FEDERATED), ours("central", CENTRAL)).iloc[0]
    interval = stats.ttest_rel(FEDERATED, CENTRAL).confidence_interval(0.95)
    assert [found["low"], found["high"]] == pytest.approx(list(interval))
    assert found["p"] == pytest.approx(stats.ttest_ind(FEDERATED, CENTRAL).pvalue)
    assert found["difference"] == pytest.approx(0.02) and found["n"] == 3
    narrow = run(ours("federated", FEDERATED), ours("central", CENTRAL), level=0.5).iloc[0]
    interval = stats.ttest_rel(FEDERATED, CENTRAL).confidence_interval(0.5)
    assert [narrow["low"], narrow["high"]] == pytest.approx(list(interval))


@pytest.mark.parametrize(
    ("shift", "p", "outcome"), [(0.014, 0.059, "equal"), (0.016, 0.040, "worse")]
)
def test_the_level_of_the_test_is_a_twentieth(shift, p, outcome):
    far = [value + shift for value in CENTRAL]
    found = run(ours("federated", far), ours("central", CENTRAL)).iloc[0]
    assert (
        stats.ttest_ind(far, CENTRAL).pvalue
        == pytest.approx(found["p"])
        == pytest.approx(p, abs=5e-4)
    )
    assert found["outcome"] == outcome


def test_splits_are_paired_by_their_seed_and_only_common_ones_count():
    shuffled = ours("central", CENTRAL)[::-1] + ours("central", [0.9] * 5)[3:]
    found = run(ours("federated", FEDERATED), shuffled).iloc[0]
    interval = stats.ttest_rel(FEDERATED, CENTRAL).confidence_interval(0.95)
    assert found["n"] == 3 and [found["low"], found["high"]] == pytest.approx(list(interval))


@pytest.mark.parametrize(
    ("metric", "outcome", "sign"), [("hellinger", "worse", -1), ("auc_rf", "better", 1)]
)
def test_higher_is_better_for_areas_under_curves_only(metric, outcome, sign):
    far = [value + 0.1 for value in FEDERATED]
    found = run(ours("federated", far, metric), ours("central", CENTRAL, metric)).iloc[0]
    assert found["outcome"] == outcome and found["gain"] == pytest.approx(sign * 0.12)


def test_one_split_allows_neither_test_nor_interval():
    found = run(ours("federated", [0.2]), ours("central", [0.1]))
    assert found["outcome"].tolist() == ["not tested"] and found[["low", "high", "p"]].isna().all(
        axis=None
    )
    assert str(significance.cell_table(found).iloc[0, 0]) == "−0.100"
    assert str(significance.counts(found).iloc[0, 0]) == "no test of 1"
    assert significance.ONE_SPLIT in significance.caption(found, "x")


def test_clients_alone_are_averaged_within_their_split():
    alone = ours("local", [0.1, 0.2, 0.3], node="0") + ours("local", [0.3, 0.2, 0.4], node="1")
    found = run(ours("federated", FEDERATED), alone, against=["local"]).iloc[0]
    interval = stats.ttest_rel(FEDERATED, [0.2, 0.2, 0.35]).confidence_interval(0.95)
    assert [found["low"], found["high"]] == pytest.approx(list(interval))
    assert found["std_other"] == pytest.approx(np.std([0.2, 0.2, 0.35], ddof=1))


def test_real_rows_stand_against_every_budget_and_division():
    budgets = [
        row for e in (np.inf, 0.5) for row in ours("federated", [0.6, 0.5], "ad_rf", epsilon=e)
    ]
    found = run(budgets, ours("real", [0.7, 0.8], "ad_rf"), against=["real"])
    assert found["gain"].tolist() == pytest.approx([0.2, 0.2]) and found["epsilon"].tolist() == [
        np.inf,
        0.5,
    ]


def test_printed_signs_are_those_that_the_thesis_states():
    """Section 6.1.1 on Bank: M-HD better in 6 of 9, PCD in 3, pMSE worse in 8."""
    values = published.load_values("martinez2024", "tab6.2")
    rows = [
        {**row, "seed": seed, "value": row["mean"], "profile": "paper", "data": "real"}
        for row in values.to_dict("records")
        for seed in (0, 1)
    ]
    columns = set(to_frame([]).columns)
    tests = run(
        [{k: v for k, v in row.items() if k in columns} for row in rows], exhibits=["tab6.2"]
    )
    counts = significance.counts(tests)
    shown = counts.loc[("bank", "central", "no DP")]
    assert [str(shown[m]).split("(")[1] for m in ("hellinger", "pcd", "pmse")] == [
        "6+ 0−)",
        "3+ 0−)",
        "0+ 8−)",
    ]
    assert tests["gain"].to_numpy() == pytest.approx(tests["printed_gain"].to_numpy(float))
    assert counts.columns.tolist() == ["hellinger", "pcd", "pmse", "log_cluster"]
    assert counts.index.get_level_values("level").tolist() == ["no DP", "ε = 0.5", "ε = 1.6"]


def test_entries_say_gain_interval_and_both_signs(monkeypatch, tmp_path):
    label = {"partition": "iid", "n_clients": 3}
    far = [value - 0.1 for value in FEDERATED]
    tests = run(ours("federated", far, **label), ours("central", CENTRAL), exhibits=["tab6.1"])
    half = np.diff(stats.ttest_rel(far, CENTRAL).confidence_interval(0.95))[0] / 2
    # printed: 0.185 against 0.186
    assert str(significance.cell_table(tests).iloc[0, 0]) == f"+0.080 ± {half:.3f}* + (+)"
    assert str(significance.counts(tests).iloc[0, 0]) == "1+ 0− 1* of 1 (1+ 0−)"
    assert significance.gains(tests).loc[("adult", "no DP", "central")].tolist() == pytest.approx(
        [0.08, 0.001, 1, 1]
    )
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    saved = significance.save_cells(
        tests, "w_tab1.1", profile="paper", data="real", what="Fidelity"
    )
    assert (
        "#B7E1CD" in saved.html
        and "#F4C7C3" not in saved.html
        and "gain of federated" in saved.html
    )
    assert f"+0.080 ± {half:.3f}* + (+)" in saved.md.read_text()
    line = pd.read_csv(saved.csv).iloc[0].filter(like="hellinger")
    signs = {"gain": 0.08, "half": round(half, 3), "sure": True}
    signs |= {"outcome": "better", "published_outcome": "better"}
    assert line.to_dict() == {f"no DP hellinger {name}": sign for name, sign in signs.items()}


def test_tables_keep_the_printed_order_and_leave_gaps_empty():
    rows = [
        row
        for e in (0.5, np.inf)
        for k in (10, 3)
        for s in ("federated", "local")
        for row in ours(s, [0.3, 0.1], epsilon=e, n_clients=k)
    ]
    rows += ours("central", [0.2, 0.3], epsilon=0.5)
    table = significance.cell_table(run(rows, against=["central", "local"]))
    assert table.index.tolist() == [
        ("i.i.d.", k, a) for k in ("3", "10") for a in ("central", "local")
    ]
    assert table.columns.tolist() == [("no DP", "hellinger"), ("ε = 0.5", "hellinger")]
    assert table.loc[("i.i.d.", "3", "central"), ("no DP", "hellinger")] == ""
    entry = table.loc[("i.i.d.", "3", "local"), ("no DP", "hellinger")]
    assert str(entry).startswith("−0.000 ± 0.000 =")


def test_a_reference_without_rows_is_left_out():
    rows = [ours("federated", FEDERATED), ours("central", CENTRAL)]
    pd.testing.assert_frame_equal(run(*rows, against=["central", "local"]), run(*rows))


def test_what_cannot_be_tested_is_refused():
    with pytest.raises(BadInput, match="no federated cell has a central one"):
        run(ours("federated", FEDERATED))
    with pytest.raises(BadInput, match="2 profiles"):
        run(ours("federated", FEDERATED), ours("central", CENTRAL, profile="quick"))
    with pytest.raises(BadInput, match="choose some of central, local, real"):
        run(ours("federated", FEDERATED), against=["print"])


def test_rows_without_a_value_do_not_count():
    found = run(ours("federated", [*FEDERATED[:2], np.nan]), ours("central", CENTRAL))
    assert found["n"].tolist() == [2] and isinstance(found, pd.DataFrame)
