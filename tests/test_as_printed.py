"""Rows become printed numbers: ratios at the best number of rounds, ranks, choices, and what each
rests on."""

import numpy as np
import pandas as pd
import pytest
from kept import committed_rows

from fedsynth_lib.core.contract import stream
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.verdicts.custom import readings
from fedsynth_lib.works.declared import load


def flaim(method, rounds, seed, error, traffic, nll):
    shared = {
        "paper": "maddock2024",
        "dataset": "adult",
        "data": "real",
        "method": method,
        "n_clients": 100,
    }
    shared |= {
        "partition": "cluster_skew",
        "setting": "federated",
        "epsilon": 1.0,
        "seed": seed,
        "profile": "paper",
    }
    shared |= {"params": params_text({"rounds": rounds, "participation": 0.1})}
    measured = {"workload_error": error, "client_throughput_mb": traffic, "nll": nll}
    return [{**shared, "metric": metric, "value": value} for metric, value in measured.items()]


def overhead(**options):
    rows = [
        row for seed in (0, 1) for row in flaim("DistAIM", 8, seed, 0.2 + 0.02 * seed, 3.0, 18.0)
    ]
    rows += [row for seed in (0, 1) for row in flaim("DistAIM", 4, seed, 0.9, 1.0, 30.0)]
    rows += [row for seed in (0, 1) for row in flaim("AugFLAIM (Private)", 2, seed, 0.4, 1.5, 20.0)]
    found = readings.overhead(to_frame(rows), load_values("maddock2024", "tab3"), **options)
    assert set(found["seed"]) == {0, 1} and set(found["detail"]) == set(
        load_values("maddock2024", "tab3")["detail"]
    )
    return found[found["seed"] == 0].set_index(["method", "metric"])["value"]


def test_overhead_is_taken_at_the_best_rounds_of_each_method():
    # DistAIM: 8 rounds, error 0.2, 3 MB; the other: 2 rounds, 0.4, 1.5 MB
    found = overhead(measured=True)
    ratio = found[readings.PAIR]
    assert ratio["rounds_ratio"] == 4 and ratio["client_throughput_ratio"] == 2
    assert ratio["workload_error_improvement_percent"] == pytest.approx(50)
    assert ratio["nll_improvement_percent"] == pytest.approx(10)
    assert (
        found["DistAIM", "client_throughput_mb"] == 3
        and found["AugFLAIM (Private)", "client_throughput_mb"] == 1.5
    )


def test_the_work_counts_twelve_of_its_bytes_for_one_of_ours():
    found = overhead()
    assert (
        found["DistAIM", "client_throughput_mb"] == 36
        and found["AugFLAIM (Private)", "client_throughput_mb"] == 1.5
    )
    assert (
        found[readings.PAIR, "client_throughput_ratio"] == 24
        and found[readings.PAIR, "rounds_ratio"] == 4
    )


def test_likelihoods_around_the_last_refit_are_those_of_the_best_rounds():
    """Each gain is against the other method's run of that seed; other rounds do not count."""
    rows = [row for seed in (0, 1) for row in flaim("DistAIM", 8, seed, 0.2, 3.0, 99.0)]
    rows += flaim("DistAIM", 4, 0, 0.9, 1.0, 30.0)
    rows += [row for seed in (0, 1) for row in flaim("AugFLAIM (Private)", 2, seed, 0.4, 1.5, 99.0)]
    refits = [
        {**flaim(method, rounds, seed, 0, 0, value)[-1], "item": item}
        for method, rounds, seed, item, value in (
            ("DistAIM", 8, 0, "last", 18.0),
            ("DistAIM", 8, 1, "last", 45.0),
            ("DistAIM", 8, 0, "before", 16.0),
            ("DistAIM", 8, 1, "before", 32.0),
            ("DistAIM", 4, 0, "before", 1.0),
            ("AugFLAIM (Private)", 2, 0, "last", 20.0),
            ("AugFLAIM (Private)", 2, 1, "last", 40.0),
            ("AugFLAIM (Private)", 2, 0, "before", 77.0),
        )
    ]
    printed = load_values("maddock2024", "tab3")
    found = readings.around_the_last_refit(to_frame(rows), to_frame(refits), printed)
    (line,) = found.reset_index().to_dict("records")
    assert line == {
        "dataset": "adult",
        "DistAIM last": 31.5,
        "DistAIM before": 24,
        "AugFLAIM (Private)": 30,
        "gain last": pytest.approx((10 - 12.5) / 2),
        "gain before": pytest.approx(20),
        "gain printed": 11,
        "nearer": "before",
    }
    other = to_frame(rows).assign(dataset="magic")  # of which there is no such run
    assert readings.around_the_last_refit(other, to_frame(refits), printed).empty


def test_a_rank_rests_on_all_trainings_and_has_no_spread():
    shared = {
        "paper": "apellaniz2025",
        "dataset": "brfss_heart",
        "data": "real",
        "partition": "iid",
        "n_clients": 3,
    }
    shared |= {"metric": "js_divergence", "epsilon": float("inf"), "profile": "paper"}
    shared |= {"params": params_text({"node_rows": [100, 1000, 10_000], "repeat": 0})}
    js = {"Isolated": (0.9, 0.5, 0.3), "FedAvg": (0.8, 0.5, 0.4), "SDS": (0.7, 0.6, 0.2)}
    rows = [
        {**shared, "method": method, "node": str(node), "seed": seed, "value": value + 0.001 * seed}
        | {"setting": "local" if method == "Isolated" else "federated"}
        for method, values in js.items()
        for node, value in enumerate(values, start=1)
        for seed in (0, 1, 2)
    ]
    found = readings.ranks(to_frame(rows), load_values("apellaniz2025", "tab6"))
    by_method = found.groupby("method")["value"].agg(["mean", "std", "size"])
    assert (by_method["size"] == 3).all() and (by_method["std"] == 0).all()
    # ranks 3 1 2; 2 1 3; 1 2 1 (dense): (1/3 + 1 + 1/2) / 3, (1/2 + 1 + 1/3) / 3, (1 + 1/2 + 1) / 3
    assert by_method["mean"].to_dict() == pytest.approx(
        {"Isolated": 11 / 18, "FedAvg": 11 / 18, "SDS": 2.5 / 3}
    )


def test_the_best_configuration_is_chosen_over_all_splits():
    def scored(size, *values):
        parameters = {"population_size": size, "selection_pressure": 5, "aggregation_interval": 10}
        shared = {
            "paper": "martinez2024",
            "dataset": "adult",
            "method": "fedbn",
            "setting": "tuning",
            "data": "real",
        }
        shared |= {
            "metric": "log_cluster",
            "params": params_text({"parameters": parameters}),
            "profile": "paper",
        }
        return [{**shared, "seed": 7 + split, "value": value} for split, value in enumerate(values)]

    # best in one split, best on average
    rows = to_frame(scored(100, -9.0, -1.0) + scored(150, -6.0, -6.0))
    found = readings.tuned(rows, load_values("martinez2024", "tab5.5"))
    assert found.groupby("metric")["value"].agg(list).to_dict() == {
        "population_size": [150, 150],
        "selection_pressure": [5, 5],
        "aggregation_interval": [10, 10],
    }
    assert set(found["seed"]) == {7, 8} and set(found["dataset"]) == {"adult"}


def test_ranks_of_importance_name_all_of_the_printed_parameters():
    rows = committed_rows("martinez2024", "quick")
    rows = rows[rows["grid"] == "27_martinez2024_search_fedvae"]
    found = readings.importance(rows, load_values("martinez2024", "fig6.2"))
    own = found[found["dataset"] == "adult"].sort_values("value")
    assert own["value"].tolist() == list(range(1, len(own) + 1))
    printed = load_values("martinez2024", "fig6.2")
    assert set(printed.loc[printed["dataset"] == "adult", "detail"]) <= set(own["detail"])


def test_print_has_one_line_a_method_where_ours_says_more():
    values = pd.DataFrame({"method": ["AIM", "FLAIM"], "detail": ["", "T=10; participation 0.1"]})
    rows = pd.DataFrame({"method": ["FLAIM", "AIM", "AIM"], "detail": ["T=10", "T=10", "T=20"]})
    assert readings.one_line_a_method(rows, values)["detail"].tolist() == [
        "T=10; participation 0.1",
        "",
        "",
    ]


def test_changes_are_means_of_the_tables_own_percentages():
    rng, rows = stream(0, "changes"), []
    values = {("a", 1.0): 0.5, ("a", np.inf): 1.0, ("b", 1.0): 3.0, ("b", np.inf): 4.0}
    for (dataset, epsilon), value in values.items():
        for metric in ("risk", "accuracy", "fidelity"):
            spread = rng.normal()
            rows += [
                {"metric": metric, "dataset": dataset, "epsilon": epsilon, "value": value + s}
                for s in (spread, -spread)
            ]
    changes = readings.stated_of_budget(pd.DataFrame(rows))
    assert changes["privacy_change_percent"] == pytest.approx((50 + 25) / 2)
    assert changes["utility_change_percent"] == pytest.approx(-(50 + 25) / 2)


def test_a_loss_counts_as_a_run_where_all_four_tables_have_its_seed():
    rows = load("sattarov2024").grid("fig5", "paper").run()
    values = load_values("sattarov2024")
    once = rows[(rows["dataset"] != "philadelphia") | (rows["seed"] == 0)]
    twice = pd.concat([once, once.query("dataset == 'philadelphia'").assign(seed=1)])
    for each, runs in ((once, 1), (twice, 2)):
        found = readings.stated(each.assign(grid="51_sattarov2024_budget"), values)
        assert found.query("metric == 'utility_change_percent'")["value"].size == runs
