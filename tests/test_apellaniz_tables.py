"""Tables of apellaniz2025: rows become printed cells, tests make the printed marks, ranks make
table 6."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate, compare, load_values
from fedsynth_lib.runs.grid import run_grid
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.verdicts.custom import apellaniz_tables
from fedsynth_lib.verdicts.custom.apellaniz_tables import (
    JS,
    METHODS,
    METRICS,
    REAL,
    SYNTHETIC,
    in_print,
    in_whole_numbers,
    reciprocal_ranks,
    same_people,
)
from fedsynth_lib.works import load
from fedsynth_lib.works.apellaniz_nodes import nodes

WORK = load("apellaniz2025")
CUT = WORK.grids["tab2 and tab3 cut"].sweeps["first"]["variant"]  # as the published code does
TABLES = ["tab2", "tab3", "tab4", "tab5", "tabA1", "tabA2"]
MAIN = "train rows per node 100/1000/10000"
KEYS = [
    "paper",
    "dataset",
    "method",
    "partition",
    "n_clients",
    "node",
    "setting",
    "epsilon",
    "metric",
    "detail",
]


def printed():
    """The result cells of tables 2 to 5, A1 and A2."""
    values = load_values("apellaniz2025")
    return values[values["exhibit"].isin(TABLES)].reset_index(drop=True)


def as_rows(values, seed=0, shift=0.0, repeats=(0, 1, 2), **told):
    """Rows as `judge` makes them, of three repeats with the printed mean and, with denominator n,
    deviation.

    told: further settings of the cells, such as `variant` and `disjoint`.
    """
    real = values["metric"] == REAL
    own = values["method"].map({"Isolated": "local", "FedAvg": "federated", "SDS": "federated"})
    each = [
        values[real].assign(method=name, setting=own[values["method"] == name].iloc[0])
        for name in METHODS
    ]
    runs = pd.concat([values[~real], *each])[[*KEYS, "mean", "std"]].assign(
        profile="paper", data="real", seed=seed
    )
    steps = pd.DataFrame({"repeat": [0, 1, 2], "step": [-1, 0, 1]}).loc[list(repeats)]
    runs = runs.merge(steps, how="cross")
    runs["value"] = runs["mean"] + runs["step"] * runs["std"] * np.sqrt(1.5) + shift
    sizes = runs["detail"].str.removeprefix("train rows per node ").str.split("/")
    runs["params"] = [
        params_text(
            {"node_rows": [int(rows) for rows in own], "repeat": repeat, "seed": seed, **told}
        )
        for own, repeat in zip(sizes, runs["repeat"], strict=True)
    ]
    return to_frame(
        runs.drop(columns=["mean", "std", "step", "repeat", "detail"]).to_dict("records")
    )


def where(values, **wanted):
    """Mask of the rows with these entries (one, or several in a list)."""
    return np.logical_and.reduce(
        [values[column].isin(np.atleast_1d(entry)) for column, entry in wanted.items()]
    )


def cell(value, **wanted):
    """The one value of rows `in_print` that fits."""
    rows = value[where(value, **wanted)]
    assert len(rows) == 1
    return rows["value"].iloc[0]


def toy(**numbers):
    """Cells of one node: name_metric=(mean, std)."""
    rows = [
        {
            **{
                "dataset": "d",
                "partition": "iid",
                "detail": MAIN,
                "node": "1",
                "epsilon": np.inf,
                "n_clients": 1,
            }
        }
        | {
            "method": key.split("_", 1)[0],
            "metric": key.split("_", 1)[1],
            "mean": mean,
            "std": std,
            "setting": "x",
        }
        for key, (mean, std) in numbers.items()
    ]
    return pd.DataFrame(rows)


# --- in_print ------------------------------------------------------------------------------------


def test_rows_with_the_printed_numbers_meet_every_printed_cell():
    rows = in_print(as_rows(printed()))
    for exhibit in TABLES:
        table = compare(rows, "apellaniz2025", exhibit)
        assert (table["n"] == 3).all() and (table["verdict"] == "within").all()
        assert np.allclose(table["ours"], table["published"], atol=1e-12)
        assert np.allclose(table["ours_std"] * np.sqrt(2 / 3), table["published_std"], atol=1e-12)
    assert len(rows) == 3 * 252 and not rows.duplicated([*KEYS, "seed"]).any()


def test_repeats_are_measurements_of_the_first_training_or_the_trainings():
    cells, place = (
        printed().query("exhibit == 'tab2'"),
        {"method": "SDS", "metric": JS, "node": "1"},
    )
    rows = pd.concat(
        [
            as_rows(cells, 5, shift=0.5),
            as_rows(cells, 3),
            as_rows(cells, 2).query("method == 'FedAvg'"),
        ]
    )
    usual = in_print(rows)
    assert sorted(set(usual["seed"])) == [0, 1, 2] and set(usual["detail"]) == {MAIN}
    assert [cell(usual, seed=s, **place) for s in (0, 1, 2)] == pytest.approx(
        [0.411 + step * 0.002 * np.sqrt(1.5) for step in (-1, 0, 1)]
    )
    trainings = in_print(rows, "seed")
    assert set(trainings["seed"]) == {2, 3, 5}
    first = 0.411 - 0.002 * np.sqrt(1.5)
    assert [cell(trainings, seed=s, **place) for s in (3, 5)] == pytest.approx([first, first + 0.5])
    assert not where(trainings, seed=2, **place).any()
    fedavg = place | {"method": "FedAvg"}
    assert cell(trainings, seed=2, **fedavg) == cell(usual, seed=0, **fedavg)


def test_the_accuracy_of_real_data_is_the_mean_over_techniques():
    rows = as_rows(printed().query("exhibit == 'tab2'"))
    sds = where(rows, metric=REAL, method="SDS", node="2")
    real = in_print(rows.assign(value=rows["value"] + 0.3 * sds))
    real = real[real["metric"] == REAL]
    assert set(real["method"]) == {"Real"} and set(real["setting"]) == {"real"} and len(real) == 9
    assert cell(real, node="2", seed=1) == pytest.approx(0.846 + 0.1)
    assert cell(real, node="1", seed=1) == pytest.approx(0.840)


def test_variants_and_rows_of_other_kinds_are_left_out_unless_asked_for():
    cells = printed().query("exhibit == 'tab2'")
    usual, three = as_rows(cells), as_rows(cells, variant={"networks": 3})
    whole = as_rows(cells, variant={"networks": 3}, whole=True)
    other = usual.head(3).assign(metric="synthetic_min")
    rows = pd.concat(
        [
            usual,
            three.assign(value=three["value"] + 1),
            whole.assign(value=whole["value"] + 2),
            other,
        ]
    )
    pd.testing.assert_frame_equal(in_print(rows), in_print(usual))
    place = {"method": "SDS", "metric": JS, "node": "1", "seed": 1}
    assert cell(in_print(rows, variant="3 networks"), **place) == pytest.approx(1.411)
    assert cell(in_print(rows, variant="3 networks; whole"), **place) == pytest.approx(2.411)
    with pytest.raises(
        BadInput,
        match=r"variant '2 networks': these rows are of 3 networks, 3 "
        r"networks; whole\.",
    ):
        in_print(rows, variant="2 networks")
    with pytest.raises(BadInput, match="variant 'disjoint': these rows are of none"):
        in_print(usual, variant="disjoint")
    with pytest.raises(BadInput, match="spread is 'node': choose repeat"):
        in_print(rows, "node")
    with pytest.raises(BadInput, match="one profile at a time"):
        in_print(pd.concat([usual, usual.assign(profile="quick")]))
    assert len(in_print(other)) == len(in_print(three)) == len(in_print(usual.iloc[:0])) == 0


def test_settings_are_those_that_a_grid_of_the_study_asks_for(tmp_path, monkeypatch):
    """Rows of `judge` as `run_grid` completes them."""
    monkeypatch.setattr("fedsynth_lib.runs.grid.project_root", lambda: tmp_path)
    at = {
        "dataset": "brfss_diabetes",
        "partition": "iid",
        "technique": "fedavg",
        "node_rows": (50, 100, 500),
    }
    at |= {"seed": 0, "repeat": 12, "node": 1}
    varied = {"variant": {"networks": 3, "senders": "largest"}, "disjoint": True}

    said = {"paper": "apellaniz2025", "data": "none", "method": "FedAvg", "setting": "federated"}

    def judge(node, repeat=0, whole=False, **cell):
        return [{**said, "n_clients": 3, "metric": JS, "value": 1.0}]

    version = partial(WORK.version, "judge")
    rows = run_grid(judge, [at, {**at, **varied}], name="toy", version=version, save=False)
    assert in_print(rows)[["detail", "seed"]].to_numpy().tolist() == [
        ["train rows per node 50/100/500", 12]
    ]
    assert len(in_print(rows, variant="3 networks; senders largest; disjoint")) == 1
    assert apellaniz_tables.variants(rows).tolist() == ["", "3 networks; senders largest; disjoint"]


def test_rounded_rows_stand_beside_rows_as_drawn_and_their_print():
    usual = as_rows(printed().query("exhibit == 'tab2'"))
    rounded = as_rows(printed().query("exhibit == 'tab2'"), shift=-0.1, whole=True)
    drawn = compare(in_print(usual), "apellaniz2025", "tab2")
    cells = in_whole_numbers(rounded, drawn)
    assert set(cells["metric"]) == {JS} and len(cells) == 2 * len(METHODS) * 3
    wide = cells.pivot(index=["method", "node"], columns="rows", values=["ours", "published"])
    apart = wide["ours", "as drawn"] - wide["ours", "in whole numbers"]
    assert apart.to_numpy() == pytest.approx(0.1)
    assert wide["published", "in whole numbers"].isna().all()
    assert wide["published", "as drawn"].to_numpy() == pytest.approx(
        wide["ours", "as drawn"].to_numpy(), abs=1e-6
    )
    alone = in_whole_numbers(rounded)
    assert list(dict.fromkeys(alone["method"])) == [*METHODS] and len(alone) == len(METHODS) * 3
    with pytest.raises(BadInput, match="no row is of the variant 'whole'"):
        in_whole_numbers(usual)


# --- tested --------------------------------------------------------------------------------------


def welch(mean, std, other, other_std):
    """Welch's test on three numbers whose sample deviation is the printed one."""
    steps = np.array([-1, 0, 1])
    return stats.ttest_ind(
        mean + std * steps, other + other_std * steps, equal_var=False, alternative="less"
    ).pvalue


def test_p_values_are_those_of_welch_with_printed_deviations():
    table = apellaniz_tables.tested(printed())
    assert len(table) == 72 + 108
    spread = table[(table["std"] > 0) & (table["std_other"] > 0)]
    for row in spread.iloc[::7].itertuples():
        assert row.p == pytest.approx(
            welch(row.mean, row.std, row.mean_other, row.std_other), rel=1e-9
        )
    ours = apellaniz_tables.tested(aggregate(in_print(as_rows(printed())), per_node=True))
    keys = ["dataset", "partition", "detail", "node", "method", "metric"]
    both = table.merge(ours, on=keys, suffixes=("", "_ours"))
    assert (
        len(both) == 180
        and np.allclose(both["p"], both["p_ours"], atol=1e-6)
        and (both["mark"] == both["mark_ours"]).all()
    )


def test_other_numbers_of_repeats_are_taken_as_such():
    cells = toy(
        Isolated_js_divergence=(0.6, 0.01 * np.sqrt(4 / 3)),
        SDS_js_divergence=(0.59, 0.02 * np.sqrt(4 / 3)),
    )
    p = apellaniz_tables.tested(cells.assign(n=4))["p"].iloc[0]
    sides = [
        mean + std * np.sqrt(3 / 4) * np.array([-1, -1, 1, 1])
        for mean, std in ((0.59, 0.02), (0.6, 0.01))
    ]
    assert [side.std(ddof=1) for side in sides] == pytest.approx([0.02, 0.01])
    assert p == pytest.approx(stats.ttest_ind(*sides, equal_var=False, alternative="less").pvalue)


def test_the_printed_marks_come_from_the_printed_figures_but_for_six_that_rounding_hides():
    table = apellaniz_tables.tested(printed())
    agree = table["mark"] == table["significance"]
    js = table["metric"] == JS
    assert (agree[js].sum(), js.sum(), agree[~js].sum(), (~js).sum()) == (72, 72, 102, 108)
    hidden = table[~agree]
    assert sorted(zip(hidden["exhibit"], hidden["node"], hidden["method"], strict=True)) == [
        *[("tab2", "2", "SDS"), ("tab3", "1", "FedAvg"), ("tab5", "1", "Isolated")],
        *[("tabA1", "3", "Isolated"), ("tabA2", "2", "FedAvg"), ("tabA2", "3", "SDS")],
    ]
    for row in hidden.itertuples():
        spreads = product(
            *[np.maximum(s + np.array([-5e-4, 5e-4]), 1e-6) for s in (row.std, row.std_other)]
        )
        ends = [
            welch(row.mean + e, s, row.mean_other - e, o)
            for (s, o), e in product(spreads, (-5e-4, 5e-4))
        ]
        assert min(ends) < 0.01 < max(ends)


def test_zero_spreads_single_repeats_and_missing_references_do_not_crash():
    def mark(mean, std, other, other_std, metric=JS, n=3):
        reference = {
            "Isolated_js_divergence" if metric == JS else "real_acc_real_real": (other, other_std)
        }
        found = apellaniz_tables.tested(
            toy(**{f"SDS_{metric}": (mean, std)}, **reference).assign(n=n)
        ).query("method == 'SDS'")
        return found["mark"].iloc[0]

    same = 0.1 + 0.2, 0.3  # apart in the last bit
    assert [mark(a, 0, b, 0) for a, b in ((0.3, 0.4), (0.4, 0.3), same, same[::-1])] == [
        "*",
        "worse",
        "",
        "",
    ]
    synthetic = [mark(a, 0, b, 0, "acc_synthetic_real") for a, b in ((0.8, 0.9), (0.9, 0.8), same)]
    assert synthetic == ["worse", "*", "*"]
    assert mark(0.3, np.nan, 0.4, 0.01, n=1) is None
    table = apellaniz_tables.tested(
        toy(SDS_js_divergence=(0.3, 0.1), FedAvg_acc_synthetic_real=(0.8, 0.1))
    )
    assert table["mark"].tolist() == [None, None] and table["p"].isna().all()


# --- ranks and people ----------------------------------------------------------------------------


def test_nothing_is_ranked_where_nothing_was_measured():
    assert reciprocal_ranks(printed().query("metric != @JS")).empty


def test_ranks_of_the_printed_divergences_are_table_6_but_for_heart_iid():
    ranks = reciprocal_ranks(printed().query("exhibit in ['tab2', 'tab3', 'tab4', 'tab5']"))
    keys = ["dataset", "partition", "method"]
    table = load_values("apellaniz2025", "tab6").merge(ranks, on=[*keys, "metric", "setting"])
    assert len(table) == 12
    differ = (table["mean"] - table["value"]).abs() > 0.0006
    assert table.loc[differ, [*keys, "mean", "value"]].to_numpy().tolist() == [
        ["brfss_heart", "iid", "FedAvg", 0.667, 0.5],
        ["brfss_heart", "iid", "SDS", 0.833, 1.0],
    ]


def test_equal_ranks_are_shared_and_incomplete_blocks_have_none():
    one = toy(
        Isolated_js_divergence=(0.414, 0),
        FedAvg_js_divergence=(0.406, 0),
        SDS_js_divergence=(0.5, 0),
    )
    two = one.assign(node="2", mean=[0.3, 0.2, 0.1])
    cells = pd.concat([one, two]).assign(n_clients=2)
    ranks = reciprocal_ranks(cells).set_index("method")["value"]
    assert ranks.to_dict() == pytest.approx(
        {"Isolated": (1 + 1 / 3) / 2, "FedAvg": 0.75, "SDS": (1 / 2 + 1) / 2}
    )
    assert reciprocal_ranks(cells.iloc[:-1])["value"].isna().all()
    assert reciprocal_ranks(cells.assign(n_clients=3))["value"].isna().all()


def test_the_two_tables_hold_the_same_people_at_the_same_nodes():
    diabetes, heart = (load_table(name, work="apellaniz2025") for name in WORK.tables)
    assert set(diabetes.frame) == set(heart.frame) and diabetes.schema.target != heart.schema.target
    assert all(diabetes.frame[name].equals(heart.frame[name]) for name in heart.frame)
    for partition in ("iid", "bmi_skew"):
        dealt = [nodes(table, partition, (100, 1000, 4000), 500) for table in (diabetes, heart)]
        assert all(
            np.array_equal(a, b)
            for pair in zip(*dealt, strict=True)
            for a, b in zip(*pair, strict=True)
        )


def test_divergences_of_the_same_people_are_set_side_by_side():
    table = same_people(printed())
    assert len(table) == 18 and set(table["detail"]) == {MAIN}
    found = table.set_index(["partition", "node", "method"]).loc[("iid", "3", "FedAvg")]
    assert found[["brfss_diabetes", "brfss_heart", "difference"]].tolist() == [0.042, 0.330, 0.288]
    assert found["in_std"] == pytest.approx(0.288 / (0.008**2 + 0.047**2) ** 0.5)
    ours = same_people(aggregate(in_print(as_rows(printed())), per_node=True))
    pd.testing.assert_frame_equal(ours, table, check_exact=False, atol=1e-6)
    assert set(printed()["metric"]) == set(METRICS)


# --- sets of rows together -----------------------------------------------------------------------


def test_sets_of_rows_stand_beside_each_other_by_node_and_measurements_are_averaged():
    values = printed()
    values = values[(values["exhibit"] == "tab2") & (values["node"] != "3")]
    rows, other = as_rows(values), as_rows(values, shift=0.25, repeats=(1,))
    wide = apellaniz_tables.beside({"as drawn": rows, "whole": other}, "rows", [JS, SYNTHETIC])
    assert list(wide.index) == list(product(sorted(METHODS), ["as drawn", "whole"]))
    assert list(wide.columns) == list(product([JS, SYNTHETIC], ["1", "2"]))
    for row in values[values["metric"].isin([JS, SYNTHETIC])].itertuples():
        assert wide.loc[(row.method, "as drawn"), (row.metric, row.node)] == pytest.approx(row.mean)
        assert wide.loc[(row.method, "whole"), (row.metric, row.node)] == pytest.approx(
            row.mean + 0.25
        )


def test_readings_stand_beside_the_printed_divergences():
    values = printed()
    values = values[values["exhibit"].isin(["tab2", "tab5"])]
    rows, cut = (
        as_rows(values),
        as_rows(values, variant=CUT, shift=0.25, repeats=(1,)),
    )
    cut = cut[cut["dataset"] == "brfss_heart"]  # not all of it is there
    ours = {"text": in_print(rows), "code": in_print(cut, variant=apellaniz_tables.CUT)}
    table = apellaniz_tables.readings(values, ours)
    assert len(table) == 9 and set(table.index.get_level_values("partition")) == {"bmi_skew"}
    where_ = ("bmi_skew", "brfss_heart", "SDS", "1")
    expected = values[(values["exhibit"] == "tab5") & (values["metric"] == JS)].set_index(
        ["method", "node"]
    )["mean"]
    assert table.loc[where_].tolist() == pytest.approx(
        expected["SDS", "1"] + np.array([0, 0, 0.25])
    )


def test_the_variant_of_rows_as_run_is_named_as_the_tables_look_for_it():
    cell = WORK.grid("tab2 and tab3 cut", "smoke").cells[0]
    assert apellaniz_tables.variants(to_frame([{"params": params_text(cell)}])).tolist() == [
        apellaniz_tables.CUT
    ]
