"""Published values load completely, and every verdict is the one worked out by hand."""

import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed import published
from fedsynth_lib.printed.published import (
    KEYS,
    VALUE_COLUMNS,
    aggregate,
    compare,
    load_catalogue,
    load_claims,
    load_values,
    significance,
    summary,
    t_test,
)
from fedsynth_lib.runs.rows import params_text, to_frame

ROWS = {
    "martinez2024": 3522,
    "leitner2023": 217,
    "maddock2024": 165,
    "sattarov2024": 63,
    "apellaniz2025": 273,
}


# --- load ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", published.WORKS)
def test_every_file_loads_in_the_one_schema(work):
    frame = load_values(work, excluded=True)
    assert len(frame) == ROWS[work]
    assert list(frame.columns) == [*VALUE_COLUMNS, "printed", "decimals", "doubt"]
    assert set(frame["paper"]) == {work}
    files = {path.stem for path in (project_root() / "data/published/values" / work).glob("*.csv")}
    assert set(frame["exhibit"]) == files
    assert set(frame["setting"]) <= {"", "real", "central", "local", "federated"}
    assert set(frame["partition"]).isdisjoint({"central", "real"})
    results = frame[frame["setting"] != ""]
    assert results["mean"].notna().all() and (results["partition"] != "").mean() > 0.75
    assert not frame.duplicated([*KEYS, "exhibit", "printed"]).any()


def test_cells_of_martinez_add_up_as_its_tables_say():
    sizes = load_values("martinez2024", excluded=True)["exhibit"].value_counts()
    results = sizes[[name for name in sizes.index if name.startswith(("tab6", "tabA"))]]
    assert results.sum() == 3376
    fidelity, utility, distance = (1 + 9 * 2) * 12, (1 + 1 + 9 * 2) * 9, 9 * 12
    assert all(
        results[f"tab{name}"] == fidelity for name in ("6.1", "6.2", "6.3", "6.8", "6.9", "A.4")
    )
    assert all(
        results[f"tab{name}"] == utility for name in ("6.4", "6.5", "A.1", "6.10", "6.11", "A.5")
    )
    assert all(
        results[f"tab{name}"] == distance for name in ("6.6", "A.2", "A.3", "6.12", "A.6", "A.7")
    )
    assert results["tab6.7"] == 3 * 7 * 8 and results["tab6.13"] == 2 * 7 * 8
    described = [sizes[f"tab5.{number}"] for number in range(1, 8)] + [sizes["fig6.2"]]
    assert described == [3 * 6, 10, 30, 29, 9, 21, 3 * 3, 20]


def test_values_are_the_printed_ones():
    frame = load_values("martinez2024", "tab6.1")
    cell = frame.query(
        "partition == 'label_skew' and n_clients == 10 and setting == 'local' and epsilon == 0.5"
    )
    assert cell.set_index("metric").loc["hellinger", ["mean", "std"]].tolist() == [0.469, 0.009]
    assert np.isinf(frame.loc[0, "epsilon"]) and frame.loc[0, "decimals"] == 3
    settings = load_values("martinez2024", "tab5.6").set_index(["dataset", "metric"])
    assert settings.loc[("bank", "compress_dimension"), "printed"] == "[128]"
    assert np.isnan(settings.loc[("bank", "compress_dimension"), "mean"])
    assert "300 global epochs" in settings.loc[("bank", "global_epochs"), "note"]
    order = (
        load_values("martinez2024", "fig6.2").query("dataset == 'bank'").set_index("detail")["mean"]
    )
    assert order["weight_decay"] == 1 and order["batch_size"] == 7
    assert load_values("leitner2023", "tab5.2")["decimals"].max() == 6  # 1e-6


def test_what_must_not_serve_as_reference_is_left_out_and_doubts_are_marked():
    assert load_values("martinez2024", "tabA.3").empty
    assert len(load_values("martinez2024", "tabA.3", excluded=True)) == 108
    assert load_values("martinez2024", "tabA.2")["doubt"].all()
    assert not load_values("martinez2024", "tab6.1")["doubt"].any()


def test_catalogue_and_claims_are_complete():
    catalogue, claims = load_catalogue(), load_claims()
    assert len(load_catalogue("martinez2024")) == 53 and len(load_claims("martinez2024")) == 49
    assert catalogue["id"].is_unique and claims["id"].is_unique
    named = {name for name in catalogue["values_file"] if name}
    folder = project_root() / "data/published"
    assert all((folder / name).exists() for name in named)
    assert len(claims.columns) == 8 and set(claims["id"].str.partition("/")[0]) == set(
        published.WORKS
    )


def test_unknown_works_and_exhibits_are_named():
    with pytest.raises(BadInput, match="unknown work 'martinez'"):
        load_values("martinez")
    with pytest.raises(BadInput, match=r"no values for 'tab9\.9': choose one of"):
        load_values("martinez2024", "tab9.9")


# --- compare -------------------------------------------------------------------------------------


@pytest.fixture
def exhibit(tmp_path, monkeypatch):
    """Writes a hand-made exhibit `tab1` of martinez2024 (three repeats on the published side)."""
    folder = tmp_path / "data/published/values/martinez2024"
    folder.mkdir(parents=True)
    shutil.copy(project_root() / "data/published/components.toml", folder.parents[1])
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))

    def write(*cells):
        frame = pd.DataFrame(
            [{"metric": "hellinger", "method": "fedbn", "epsilon": "inf", **cell} for cell in cells]
        )
        frame = frame.assign(paper="martinez2024", exhibit="tab1", dataset="adult").reindex(
            columns=VALUE_COLUMNS
        )
        frame.to_csv(folder / "tab1.csv", index=False)

    return write


def cell(setting, mean, std="0.010", partition="iid", n_clients="3", **more):
    if setting in ("central", "real"):
        partition, n_clients = "none", ""
    return {
        "setting": setting,
        "mean": mean,
        "std": std,
        "partition": partition,
        "n_clients": n_clients,
        **more,
    }


def ours(setting, values, partition="iid", n_clients=3, profile="paper", **more):
    """Rows of seeds 0, 1, ...; central rows carry no partition."""
    if setting in ("central", "real"):
        partition, n_clients = "", None
    shared = {
        "paper": "martinez2024",
        "dataset": "adult",
        "method": "fedbn",
        "epsilon": np.inf,
        "data": "real",
    }
    shared |= {
        "setting": setting,
        "partition": partition,
        "n_clients": n_clients,
        "metric": "hellinger",
    }
    return [
        {**shared, "seed": s, "value": v, "profile": profile, **more} for s, v in enumerate(values)
    ]


def verdicts(table):
    return table["verdict"].tolist()


def test_within_is_the_standard_error_of_the_difference_times_students_quantile(exhibit):
    exhibit(cell("central", "0.200"), cell("federated", "0.200"))
    rows = to_frame(
        ours("central", [0.205, 0.210, 0.215]) + ours("federated", [0.2160, 0.2210, 0.2260])
    )
    table = compare(rows, "martinez2024", "tab1")
    # published std 0.010, ours 0.005, three repeats each, and a last digit of 0.001: the error is
    # sqrt(0.010^2 / 3 + 0.005^2 / 3 + 0.001^2 / 12) = 0.0064614 at 2.95 degrees of freedom (Welch)
    error, freedom = 0.0064614, 0.0064614**4 / ((0.01**2 / 3) ** 2 / 2 + (0.005**2 / 3) ** 2 / 2)
    tolerance = stats.t.ppf(0.975, freedom) * error
    assert 3.2 * error < tolerance < 3.25 * error
    assert table["tolerance"].to_numpy() == pytest.approx([tolerance] * 2, rel=1e-3)
    assert table["difference"].to_numpy() == pytest.approx([0.010, 0.0210])
    assert verdicts(table) == ["within", "different"]
    assert table["n"].tolist() == [3, 3] and table["ours_std"].to_numpy() == pytest.approx(
        [0.005, 0.005]
    )


def test_a_single_or_a_shrunk_run_is_not_judged(exhibit):
    exhibit(cell("central", "0.200"))
    for rows, verdict in (
        (ours("central", [0.2]), "not judged"),
        (ours("central", [0.2, 0.2]), "within"),
        (ours("central", [0.2, 0.2], profile="quick"), "not judged"),
    ):
        assert verdicts(compare(to_frame(rows), "martinez2024", "tab1")) == [verdict]
    single = to_frame(ours("central", [0.2]))
    assert verdicts(compare(single, "martinez2024", "tab1", runs=1)) == ["within"]


def test_equal_when_rounded_as_printed(exhibit):
    exhibit(cell("central", "0.186", std="0.000"), cell("federated", "0.19", std=""))
    near = ours("central", [0.1864] * 2) + ours("federated", [0.1949] * 2)
    assert verdicts(compare(to_frame(near), "martinez2024", "tab1")) == ["within", "within"]
    far = ours("central", [0.1875] * 2) + ours("federated", [0.1971] * 2)
    table = compare(to_frame(far), "martinez2024", "tab1")
    # a published deviation of 0.000 is 0.0005, of two degrees of freedom, and rounding has as much
    # variance: sqrt(0.0005^2 / 3 + 0.001^2 / 12) at 8 degrees; rounding alone, known, at any number
    errors, quantiles = np.sqrt([0.0005**2 / 3 + 0.001**2 / 12, 0.01**2 / 12]), [2.3060, 1.9600]
    assert table["tolerance"].to_numpy() == pytest.approx(errors * quantiles, rel=1e-3)
    assert verdicts(table) == ["ordering", "ordering"]  # 0.1971 > 0.1875 as 0.19 > 0.186


def test_a_cell_whose_own_spread_exceeds_its_value_is_unstable_and_never_within(exhibit):
    exhibit(cell("central", "0.200"), cell("federated", "0.200"))
    rows = ours("central", [-0.2, 0.0, 0.8]) + ours("federated", [0.1, 0.2, 0.3])
    assert verdicts(compare(to_frame(rows), "martinez2024", "tab1")) == ["unstable", "within"]


def test_ordering_is_kept_by_more_than_half_of_the_relations(exhibit):
    exhibit(
        cell("central", "0.200"),
        cell("federated", "0.210"),
        cell("local", "0.300"),
        cell("federated", "0.210", partition="label_skew"),
        cell("local", "0.300", partition="label_skew"),
        cell("federated", "0.210", n_clients="5"),
    )
    table = compare(
        to_frame(
            ours("central", [0.205, 0.210, 0.215])
            + ours("federated", [0.25] * 3)  # above central as published, but above local too
            + ours("local", [0.24] * 3)
            + ours("federated", [0.25] * 3, partition="label_skew")
            + ours("local", [0.40] * 3, partition="label_skew")
        ),
        "martinez2024",
        "tab1",
    )
    assert verdicts(table) == [
        "within",
        "different",
        "different",
        "ordering",
        "ordering",
        "ours missing",
    ]
    assert table["order"].tolist() == ["4/4", "1/2", "1/2", "2/2", "2/2", ""]
    counts = summary(table).set_index("setting")
    kinds = ["within", "ordering", "different", "ours missing"]
    assert set(published.VERDICTS) <= set(counts)
    assert counts.loc["federated", kinds].tolist() == [0, 1, 1, 1]
    assert counts.loc["central", kinds].tolist() == [1, 0, 0, 0]


def test_an_exhibit_of_one_setting_is_ordered_by_epsilon_and_by_partition(exhibit):
    exhibit(
        cell("federated", "0.2"),
        cell("federated", "0.4", epsilon="0.5"),
        cell("federated", "0.3", partition="label_skew"),
    )
    rows = ours("federated", [2.0] * 3) + ours("federated", [4.0] * 3, epsilon=0.5)
    rows += ours("federated", [1.0] * 3, partition="label_skew")
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert table["order"].tolist() == ["1/2", "1/1", "0/1"]
    assert verdicts(table) == ["different", "ordering", "different"]


def test_an_order_has_the_level_that_shuffled_values_reach(exhibit):
    exhibit(*[cell("federated", str(k), std="", method=f"m{k}", epsilon="1") for k in range(3)])
    rows = [
        row for k in range(3) for row in ours("federated", [9.0 * k] * 3, method=f"m{k}", epsilon=1)
    ]
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert table["order"].tolist() == ["2/2"] * 3
    # both relations of a cell are kept in 2 of 6 orders of three values; of the middle one in 1
    assert table["order_by_chance"].to_numpy() == pytest.approx([2 / 6, 1 / 6, 2 / 6], abs=0.1)
    alone = compare(to_frame(rows[:3]), "martinez2024", "tab1")
    assert alone["order_by_chance"].isna().all()


def test_within_has_the_level_that_values_shuffled_among_scenarios_reach(exhibit):
    """Four divisions of one setting, printed 1, 1, 5 and 5: each of ours that is on its level would
    be within at half of the places."""
    printed = {
        "iid": "1.000",
        "label_skew": "1.000",
        "quantity_skew": "5.000",
        "dirichlet": "5.000",
    }
    exhibit(*[cell("federated", mean, partition=name) for name, mean in printed.items()])
    rows = [
        row
        for name, mean in printed.items()
        for row in ours("federated", [float(mean) - 0.001, float(mean) + 0.001], partition=name)
    ]
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert verdicts(table) == ["within"] * 4
    assert table["by_chance"].tolist() == [0.5] * 4
    two = compare(to_frame(rows[:2]), "martinez2024", "tab1")
    assert two["by_chance"].isna().all()  # nothing to be shuffled with


def test_fewer_passes_at_the_published_noise_are_listed_and_not_judged(exhibit):
    exhibit(cell("central", "0.200", epsilon="0.5"), cell("central", "0.200"))
    shorter = {"changes": {"training_rounds": 30, "learning_rate": 0.0158}}
    rows = ours("central", [0.2] * 3, epsilon=0.5, params=params_text({**shorter, "epsilon": 0.5}))
    rows += ours("central", [0.2] * 3, params=params_text({**shorter, "epsilon": np.inf}))
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert verdicts(table) == ["matched noise", "within"]  # without noise nothing is matched
    other = ours("central", [0.2] * 3, epsilon=0.5, params=params_text({"epsilon": 0.5}))
    assert verdicts(compare(to_frame(other), "martinez2024", "tab1"))[0] == "within"


def test_relations_stay_within_one_epsilon_and_metric(exhibit):
    exhibit(
        cell("central", "0.200"),
        cell("federated", "0.500", epsilon="0.5"),
        cell("federated", "0.900", metric="pcd"),
        cell("central", "0.300", metric="pcd"),
    )
    rows = ours("central", [0.1] * 2) + ours("federated", [0.9] * 2, epsilon=0.5)
    rows += ours("federated", [0.2] * 2, metric="pcd") + ours("central", [0.8] * 2, metric="pcd")
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert table["order"].tolist() == ["", "", "0/1", "0/1"]
    assert verdicts(table) == ["different"] * 4


def test_an_exhibit_of_several_methods_is_ordered_by_method(exhibit):
    methods = {"AIM": "1.0", "FLAIM": "3.0", "DistAIM": "2.0"}
    exhibit(
        *[
            cell("federated", mean, std="", method=method, epsilon="1")
            for method, mean in methods.items()
        ]
    )
    values = {"AIM": 5.0, "FLAIM": 9.0, "DistAIM": 9.5}
    rows = [
        row for m, v in values.items() for row in ours("federated", [v] * 2, method=m, epsilon=1.0)
    ]
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert table["order"].tolist() == ["2/2", "1/2", "1/2"]
    assert verdicts(table) == ["ordering", "different", "different"]


def test_real_rows_and_rows_of_single_clients_find_their_printed_cell(exhibit):
    exhibit(*[cell("real", "0.700", epsilon=e) for e in ("inf", "0.5")], cell("local", "0.400"))
    rows = ours("real", [0.70, 0.71], method="real")
    rows += [
        row for node in (0, 1) for row in ours("local", [0.3 + 0.2 * node] * 2, node=str(node))
    ]
    table = compare(to_frame(rows), "martinez2024", "tab1")
    assert table["ours"].to_numpy() == pytest.approx([0.705, 0.705, 0.4])
    assert table["n"].tolist() == [2, 2, 2] and table["ours_std"].iloc[2] == 0


def test_shrunk_runs_and_stand_ins_are_said_and_profiles_never_mix(exhibit):
    exhibit(cell("central", "0.200", note="DOUBT: odd"), cell("federated", "0.200"))
    quick = ours("central", [0.2], profile="quick", data="standin")
    table = compare(to_frame(quick), "martinez2024", "tab1")
    assert (
        table.loc[0, "note"]
        == "small live run: levels are not comparable; made from a stand-in table; DOUBT: odd"
    )
    assert table["doubt"].tolist() == [True, False] and set(table["profile"]) == {"quick"}
    # so no table or picture can show a published level beside one of a small run
    assert table[["published", "difference", "tolerance"]].isna().all(axis=None)
    assert table["ours"].notna().tolist() == [True, False]
    with pytest.raises(BadInput, match="profiles paper, quick are mixed"):
        compare(to_frame(quick + ours("central", [0.2])), "martinez2024", "tab1")
    assert compare(to_frame(ours("central", [0.2])), "martinez2024", "tab1")["note"].tolist() == [
        "DOUBT: odd",
        "",
    ]


def test_rows_equal_to_the_published_means_are_within_everywhere():
    values = load_values("martinez2024", "tab6.4")
    keys = values[[*KEYS, "paper"]].to_dict("records")
    rows = [
        {**key, "seed": seed, "profile": "paper", "data": "real", "value": v}
        for key, v in zip(keys, values["mean"], strict=True)
        for seed in (0, 1)
    ]
    table = compare(to_frame(rows), "martinez2024", "tab6.4")
    assert len(table) == 180 and set(table["verdict"]) == {"within"}
    far = compare(
        to_frame([{**row, "value": row["value"] - 1} for row in rows]), "martinez2024", "tab6.4"
    )
    assert set(far["verdict"]) == {"ordering"}  # a common shift keeps every relation


# --- tests and claims ----------------------------------------------------------------------------


def counts(values, epsilon, against, metric=None, **where):
    """Better and worse cells of federated against another setting."""
    chosen = values[values["epsilon"] == epsilon]
    chosen = chosen if metric is None else chosen[chosen["metric"] == metric]
    outcome = significance(chosen, against=against, **where)["outcome"]
    return (outcome == "better").sum(), (outcome == "worse").sum()


def test_t_test_equals_scipy_on_samples():
    from scipy.stats import ttest_ind

    a, b = np.array([0.186, 0.191, 0.187]), np.array([0.201, 0.193, 0.197])
    p = t_test(a.mean(), a.std(ddof=1), b.mean(), b.std(ddof=1), n=3, decimals=12)
    assert p == pytest.approx(ttest_ind(a, b).pvalue, rel=1e-9)
    assert t_test(0.5, 0.0, 0.5, 0.0) == 1 and t_test(0.5, 0.0, 0.6, 0.0) == 0
    assert t_test(0.5001, 0.0, 0.4999, 0.0) == 1  # means are rounded first


def test_significance_counts_that_the_thesis_states():
    adult, bank = load_values("martinez2024", "tab6.1"), load_values("martinez2024", "tab6.2")
    assert counts(bank, np.inf, "central", "hellinger") == (6, 0)
    assert counts(bank, np.inf, "central", "pcd") == (3, 0)
    assert counts(bank, np.inf, "central", "pmse") == (0, 8)
    assert counts(adult, 1.6, "central", "pcd") == (6, 0)
    assert counts(adult, 1.6, "central", "log_cluster") == (6, 0)
    assert counts(adult, 1.6, "local", "hellinger") == (8, 0)
    utility = load_values("martinez2024", "tab6.4")
    assert counts(utility, 1.6, "local", "auc_knn") == (6, 0)  # higher is better
    assert counts(utility, np.inf, "central") == counts(utility, np.inf, "local") == (0, 0)
    vae_bank = load_values("martinez2024", "tab6.9").query("metric != 'log_cluster'")
    assert counts(vae_bank, 1.6, "central") == (0, 27)


def test_significance_also_takes_our_aggregated_rows():
    rows = to_frame(ours("central", [0.20, 0.21, 0.22]) + ours("federated", [0.10, 0.11, 0.12]))
    table = aggregate(rows)
    assert table.set_index("setting")["n"].to_dict() == {"central": 3, "federated": 3}
    assert significance(table)["outcome"].tolist() == ["better"]
