"""The answers are counted from rows; checked on the printed values, whose counts the claims file
states."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.printed import published
from fedsynth_lib.verdicts.custom.martinez_answers import (
    QUESTIONS,
    answers,
    copies,
    disclosed,
    spans,
)


@pytest.fixture(scope="module")
def printed():
    """The printed means as if each had been measured once."""
    values = published.load_values("martinez2024")
    values = values[values["metric"].str.match("hell|pcd|pmse|log|auc|dcr|ad_")]
    return values.assign(value=values["mean"], seed=1, profile="paper", data="real")


def test_printed_values_give_the_counts_that_the_claims_state(printed):
    table = answers(printed)
    assert list(table.index) == list(QUESTIONS)
    models = table.loc["1b: which model, which table", "ours"]
    # c45, c46: associations 26 of 27 (all but one of bank's), log-cluster 27 of 27, pMSE 0 of 27;
    #     cardio's AUC 0 of 27
    assert "adult: hellinger 4 of 9, pcd 9 of 9, pmse 0 of 9, log_cluster 9 of 9" in models
    assert "pcd 8 of 9" in models.split("bank:")[1].split("cardio")[0]
    assert "auc_rf 0 of 9, auc_nb 0 of 9, auc_knn 0 of 9" in models.split("cardio:")[1]
    division = table.loc["2b: clients and their division", "ours"]
    assert "fedbn: label skew has the worst association error in 8 of 9 places" in division  # c18
    baselines = table.loc["1a: against central and local data", "ours"]
    # c02: 54 of 63
    assert "fedbn: at least as good as central" in baselines and "label_skew 86%" in baselines
    closeness = table.loc["3a: closeness to real records", "ours"]
    assert "fedbn: shares of 0.475 to 0.488" in closeness  # c47
    assert "copies in every split in 0 of 18" in closeness  # c28
    disclosure = table.loc["3b: disclosure of attributes", "ours"]
    # c29 says 0.006; the real rows are the mean of both of their printings, 0.636 and 0.637, hence
    # 0.0065
    assert "adult loses no noise 0.007" in disclosure.split("fedvae")[0]


def test_what_is_not_measured_is_said(printed):
    fidelity = printed[printed["metric"].isin(["pcd"]) & (printed["method"] == "fedbn")]
    table = answers(fidelity)["ours"]
    assert (
        table["1b: which model, which table"]
        == table["3a: closeness to real records"]
        == "no rows for this question"
    )
    assert "fedbn" in table["2b: clients and their division"]


def test_a_better_federated_score_counts_in_both_directions():
    base = {
        "dataset": "a",
        "method": "fedbn",
        "epsilon": np.inf,
        "detail": "",
        "node": "",
        "data": "real",
    }
    base |= {"paper": "martinez2024", "profile": "quick", "seed": 1}
    places = [("central", "none", pd.NA), ("federated", "iid", 3), ("local", "iid", 3)]
    lines = []
    for metric, values in (("pcd", (1.0, 0.9, 0.8)), ("auc_rf", (0.7, 0.8, 0.6))):
        for (setting, partition, clients), value in zip(places, values, strict=True):
            place = {"setting": setting, "partition": partition, "n_clients": clients}
            lines.append({**base, **place, "metric": metric, "value": value})
    rows = pd.DataFrame(lines).astype({"n_clients": "Int64"})
    # federated: pcd 0.9 < central 1.0 is better, 0.9 > local 0.8 worse; AUC 0.8 better than both
    said = "fedbn: at least as good as central in 100% of cells, better than local in iid 50%"
    assert answers(rows).iloc[0]["ours"] == said
    worse = rows.assign(method="fedvae", value=-rows["value"])
    both = answers(pd.concat([rows, worse])).iloc[0]["ours"]
    assert both == f"{said}; " + (
        "fedvae: at least as good as central in 0% of cells, better than local in iid 50%"
    )


def compared(values):
    """Cells as `published.compare` returns them; ours are the printed ones, and 0.1 more."""
    cells = pd.DataFrame(values)
    return cells.assign(dataset="adult", published=cells["ours"] + 0.1)


def test_spans_are_from_the_least_to_the_most():
    place = [("iid", 3, 0.1), ("iid", 5, 0.3), ("skew", 3, 0.6), ("skew", 5, 0.8)]
    cells = compared([{"partition": p, "n_clients": n, "ours": v} for p, n, v in place])
    cells = cells.assign(setting="federated", epsilon=np.inf)
    found = spans(pd.concat([cells, cells.assign(setting="local", ours=9.0)]), "partition")
    row = found.loc["adult", np.inf]
    assert row["ours"].tolist() == pytest.approx([0.2, 0.7, 0.5])
    assert row["published"].tolist() == pytest.approx([0.3, 0.8, 0.5])


def test_copies_are_cells_with_a_distance_of_nothing():
    found = [("dcr_share", 0.4), ("dcr_share", 0.6), ("dcr_min", 0.0), ("dcr_min", -0.1)]
    cells = compared([{"metric": metric, "ours": value} for metric, value in found])
    row = copies(cells.assign(epsilon=0.5)).iloc[0]
    assert (row["copy"], row["printed_copy"]) == (1, 1)
    names = [f"{source} share, {end}" for source in ("ours", "published") for end in ("min", "max")]
    assert row[names].tolist() == pytest.approx([0.4, 0.6, 0.5, 0.7])
    nowhere = copies(cells.assign(epsilon=0.5, ours=np.nan)).iloc[0]
    assert pd.isna(nowhere["copy"]) and nowhere["printed_copy"] == 1  # not run is not without copy


def test_what_a_vote_loses_is_held_against_real_rows():
    found = [("real", "ad_ens", 0.9), ("federated", "ad_ens", 0.7)]
    found += [("federated", "ad_rmean", 0.6), ("federated", "ad_dum", 0.5)]
    cells = compared([{"setting": s, "metric": m, "ours": value} for s, m, value in found])
    row = disclosed(cells.assign(partition="iid", epsilon=1.6)).iloc[0]
    assert row["loss, ours"] == pytest.approx(0.2) == row["loss, published"]
    assert row["above dummy, ours"] == pytest.approx(0.1)
