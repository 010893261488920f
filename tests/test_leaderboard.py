"""Who leads under the common protocol: ranks, marks, and the pictures of both."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.figures.style import GREY, look
from fedsynth_lib.metrics.registry import sign
from fedsynth_lib.works import leaderboard

METRICS = ["hellinger", "auc_rf_score"]


@pytest.fixture
def rows():
    lines = []
    for method, unprotected, hellinger, auc in (
        ("AIM", 0, 0.1, 0.9),
        ("FedBN", 0, 0.2, 0.7),
        ("FedVAE", 0, 0.3, 0.8),
        ("FedVAE", 2, 0.01, 0.99),
        ("A copy", None, 0.0, 1.0),
        ("Second sample", None, 0.05, 0.95),
        ("Shuffled columns", None, 0.0, 0.5),
    ):
        released = {"unprotected": unprotected, "detail": "as published" if unprotected else ""}
        spent = {"epsilon": None, "epsilon_spent": None}
        spent = spent if unprotected is None else {"epsilon": 1.0, "epsilon_spent": 0.9}
        for seed in (0, 1):
            for metric, value in zip(METRICS, (hellinger, auc), strict=True):
                labels = {"method": method, "seed": seed, "partition": "iid", "metric": metric}
                lines.append({**labels, **released, **spent, "value": value + 0.001 * seed})
    yield pd.DataFrame(lines)
    plt.close("all")


def test_what_leaves_releases_outside_of_epsilon_is_marked_and_not_ranked(rows):
    board = leaderboard.leaderboard(rows, METRICS)
    protected, known = ["AIM", "FedBN", "FedVAE"], ["A copy", "Shuffled columns", "Second sample"]
    assert list(board.index) == [*protected, "FedVAE †", *known]
    assert board["rank"].tolist()[:3] == [1.0, 2.5, 2.5] and board["rank"].iloc[3:].isna().all()
    assert board.loc["FedVAE †", "hellinger"] == pytest.approx(0.0105)


def test_dots_are_at_their_means_beside_known_rows_and_none_is_hollow(rows):
    fig = leaderboard.dots(rows, METRICS)
    error, auc = fig.axes[:2]
    names = ["AIM", "FedBN", "FedVAE", "FedVAE †"]
    assert [tick.get_text() for tick in error.get_yticklabels()] == names
    assert error.get_title() == "Hellinger distance\xa0↓" and auc.get_title().endswith("↑")
    marked = [line for line in error.lines if line.get_marker() not in ("", "None", None)]
    drawn = [line.get_xdata()[~pd.isna(line.get_xdata())].item() for line in marked]
    assert drawn == pytest.approx([0.1005, 0.2005, 0.3005, 0.0105])
    assert [line.get_marker() for line in marked[:3]] == [look(m).marker for m in names[:3]]
    assert not any(line.get_markerfacecolor() == "white" for line in marked)
    grey = [line.get_xdata()[0] for line in error.lines if line.get_color() == GREY]
    assert grey == pytest.approx([0.0005, 0.0505, 0.0005])


def test_a_ranking_says_trust_seeds_and_t_intervals(rows):
    table = leaderboard.ranking(rows, {"hellinger": 4, "auc_rf_score": 3})
    assert list(table.columns) == [
        "trusted",
        "n",
        "rank",
        "Hellinger distance",
        "AUC, random forest",
    ]
    # two values 0.001 apart: a standard error of 0.0005, and Student's t is 12.706
    shown = ["a server", "2", "1.0", "0.1005 ± 0.0064", "0.901 ± 0.006"]
    assert table.loc["AIM"].map(str).tolist() == shown
    assert table.loc["FedBN", ["trusted", "rank"]].tolist() == ["a secure sum", "2.5"]
    assert table.loc["FedVAE †", ["trusted", "rank"]].tolist() == ["nobody", ""]
    assert table.loc["A copy", ["trusted", "rank"]].tolist() == ["", ""]
    single = leaderboard.ranking(rows[rows["seed"] == 0], {"hellinger": 2})
    assert str(single.loc["AIM", "Hellinger distance"]) == "0.10"  # one seed has no interval


def test_no_distance_to_the_closest_record_and_no_attack_ranks_whole_tables():
    assert not [name for name in leaderboard.FIELD if name.startswith(("dcr", "mia", "risk"))]
    assert all(sign(name) for name in leaderboard.FIELD)


def test_curves_end_without_noise_and_say_whom_an_entry_trusts(rows):
    known = rows["method"].isin(leaderboard.YARDSTICKS)
    several = [rows[~known].assign(epsilon=e) for e in (0.2, 1.0, float("inf"))]
    marked = several.pop()[lambda part: part["detail"] == ""]
    shown = pd.concat([*several, marked, rows[known]])
    third = shown[shown["seed"] == 0].assign(seed=2, value=lambda part: part["value"] + 0.0005)
    shown = pd.concat([shown, third])
    order = {0.2: "0.2", 1.0: "1", float("inf"): "none"}
    fig = leaderboard.curves(shown, ["hellinger"], by="epsilon", order=order)
    ax = fig.axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.2", "1", "none"]
    legend = [text.get_text() for text in fig.legends[0].get_texts()]
    names = ["AIM: trusts a server", "FedBN: trusts a secure sum", "FedVAE: trusts nobody"]
    assert legend == [
        *names,
        "FedVAE †: trusts nobody",
        "A copy",
        "Second sample",
        "Shuffled columns",
    ]
    drawn = [line for line in ax.lines if line.get_marker() == look("AIM").marker]
    assert drawn[0].get_ydata() == pytest.approx([0.1005] * 3)
    bars = [line.get_ydata() for line in ax.lines if line.get_marker() in ("", "None", None)]
    halves = [max(bar) - min(bar) for bar in bars if pd.notna(bar).all() and max(bar) > min(bar)]
    assert halves[0] == pytest.approx(2 * 4.3027 * 0.0005 / np.sqrt(3), rel=1e-3)
    assert not any(line.get_markerfacecolor() == "white" for line in ax.lines)
    dotted = [
        line for line in ax.lines if line.get_linestyle() == ":" and len(line.get_xdata()) == 3
    ]
    assert pd.isna(dotted[0].get_ydata()[-1])  # of finite budgets alone
