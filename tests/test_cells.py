"""Which rows make the cells that claims are judged on, and what a cell does not have."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.verdicts.cells import cells_of, printed_cells


def rows_of(work, *lines, **shared):
    """Rows of a work; `params` as a dict."""
    base = {"paper": work, "profile": "quick", "data": "real", "dataset": "adult", "seed": 0}
    full = [{**base, **shared, **line} for line in lines]
    return with_detail(to_frame([{**r, "params": params_text(r.get("params", {}))} for r in full]))


def test_flaim_counts_the_published_estimator_and_a_shared_run_once():
    federated = {"method": "NaiveFLAIM", "metric": "nll", "epsilon": 1.0, "setting": "federated"}
    federated |= {"partition": "cluster_skew", "n_clients": 100}
    usual = {**federated, "params": {"rounds": 10, "participation": 0.1}, "value": 1.0}
    other = {**usual, "seed": 1, "value": 2.0}
    ours = {**usual, "params": {**usual["params"], "estimator": "ours"}, "value": 9.0}
    more = {**usual, "params": {**usual["params"], "measure_share": 0.5}, "value": 9.0}
    annealed = {**usual, "params": {"rounds": "annealed", "participation": 0.1}, "value": 3.0}
    found = cells_of(
        "maddock2024", rows_of("maddock2024", usual, other, usual, ours, more, annealed)
    ).set_index("rounds")
    assert found["mean"].to_dict() == {10: 1.5, np.inf: 3.0}
    assert found.loc[10, "n"] == 2 and found.loc[10, "sem"] == pytest.approx(0.5)


def test_flaim_counts_of_a_table_the_last_reading_that_was_run():
    said = {"method": "DistAIM", "metric": "nll", "epsilon": 1.0, "setting": "federated"}
    said |= {"partition": "cluster_skew", "n_clients": 100}
    lines = [
        {**said, "dataset": table, "value": value, "params": {"rounds": 10, "estimator": name}}
        for table, name, value in [
            ("adult", "published", 1.0),
            ("magic", "published", 1.0),
            ("magic", "half the iterations", 2.0),
            ("bank_additional", "half the iterations", 2.0),
            ("bank_additional", "half the iterations, weighted", 3.0),
        ]
    ]
    rows = rows_of("maddock2024", *lines)
    assert set(rows["detail"]) == {"T=10"}  # the words of print, in every reading
    found = cells_of("maddock2024", rows).set_index("dataset")["mean"]
    assert found.to_dict() == {"adult": 1.0, "magic": 2.0, "bank_additional": 3.0}


def test_central_methods_have_no_clients_and_bayes_no_rounds():
    central = {"method": "AIM", "setting": "central", "partition": "none", "value": 1.0}
    central |= {"metric": "nll", "params": {"rounds": 10, "participation": 0.1}}
    bayes = {**central, "method": "FedNaiveBayes", "setting": "federated", "partition": "iid"}
    found = cells_of("maddock2024", rows_of("maddock2024", central, bayes)).set_index("method")
    assert found.loc["AIM", ["partition", "participation"]].isna().all()
    assert np.isnan(found.loc["FedNaiveBayes", "rounds"]) and found.loc["AIM", "rounds"] == 10


def test_ctgan_counts_the_published_scheme_and_its_quartiles():
    line = {"method": "CTGAN", "metric": "accuracy", "epsilon": np.inf, "setting": "central"}
    runs = [{**line, "seed": seed, "value": value} for seed, value in enumerate((1, 2, 3, 4))]
    private = {**line, "value": 9.0, "seed": 5, "params": {"scheme": "private end to end"}}
    (cell,) = cells_of("leitner2023", rows_of("leitner2023", *runs, private)).itertuples()
    assert (cell.median, cell.iqr, cell.n, cell.values) == (2.5, 1.5, 4, (1, 2, 3, 4))
    assert np.isnan(cell.epsilon) and pd.isna(cell.partition)
    (single,) = cells_of("leitner2023", rows_of("leitner2023", runs[0])).itertuples()
    assert np.isnan(single.iqr) and np.isnan(single.std)


def test_local_models_are_averaged_over_clients_before_seeds():
    line = {"method": "fedbn", "metric": "pcd", "setting": "local", "partition": "iid"}
    line |= {"n_clients": 3, "epsilon": np.inf}
    values = {(0, "1"): 1.0, (0, "2"): 3.0, (1, "1"): 4.0}
    rows = [{**line, "seed": s, "node": node, "value": v} for (s, node), v in values.items()]
    (cell,) = cells_of("martinez2024", rows_of("martinez2024", *rows)).itertuples()
    assert (cell.mean, cell.n) == (3.0, 2)  # of 2 and 4


def test_the_rate_of_the_main_attack_is_another_reading_of_risk():
    line = {"method": "DP-Fed-FinDiff", "partition": "iid", "n_clients": 5, "epsilon": 1.0}
    values = {"risk": 0.1, "risk_success": 0.3, "accuracy": 0.7, "fidelity": 0.8}
    rows = [{**line, "metric": m, "value": v, "seconds": 60.0} for m, v in values.items()]
    private = {**rows[0], "value": 9.0, "params": {"scheme": "private end to end"}}
    table = rows_of("sattarov2024", *rows, private)
    usual, bare = (
        cells_of("sattarov2024", table, risk=risk).set_index("metric")["mean"]
        for risk in ("", "_success")
    )
    assert usual["risk"] == 0.1 and bare["risk"] == 0.3
    assert usual["accuracy"] == bare["accuracy"] == 0.7 and usual["seconds"] == 60


def test_accuracies_of_real_data_count_as_a_method_and_marks_stand_at_their_cells():
    table = printed_cells("apellaniz2025")
    place = table[(table["dataset"] == "brfss_heart") & (table["partition"] == "bmi_skew")]
    first = place[(place["node"] == "1") & (place["sizes"] == "100/1000/10000")]
    accuracy = first[first["metric"] == "acc_synthetic_real"].set_index("method")
    assert accuracy["mean"].to_dict() == {
        "Isolated": 0.918,
        "FedAvg": 0.914,
        "SDS": 0.915,
        "Real": 0.919,
    }
    divergence = first[first["metric"] == "js_divergence"].set_index("method")
    assert (
        divergence["mark"].to_dict()["SDS"] == "*" and divergence.loc["SDS", "mean_other"] == 0.803
    )


def test_real_data_are_printed_with_each_model_and_count_once_for_all_epsilons():
    table = printed_cells("martinez2024")
    real = table[(table["setting"] == "real") & (table["metric"] == "auc_rf")]
    assert real.groupby(["method", "dataset"]).size().eq(1).all() and len(real) == 6
    assert real["epsilon"].isna().all() and real["partition"].isna().all()
    assert pd.unique(table["n"]).tolist() == [3]
