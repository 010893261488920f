"""Who leads under the common protocol: ranks, marks, and the pictures of both."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.style import GREY, look
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


def test_dots_stand_at_their_means_hollow_where_marked_beside_known_rows(rows):
    fig = leaderboard.dots(rows, METRICS)
    error, auc = fig.axes[:2]
    names = ["AIM", "FedBN", "FedVAE", "FedVAE †"]
    assert [tick.get_text() for tick in error.get_yticklabels()] == names
    assert error.get_title() == "Hellinger distance\xa0↓" and auc.get_title().endswith("↑")
    marked = [line for line in error.lines if line.get_marker() not in ("", "None", None)]
    drawn = [line.get_xdata()[~pd.isna(line.get_xdata())].item() for line in marked]
    assert drawn == pytest.approx([0.1005, 0.2005, 0.3005, 0.0105])
    assert [line.get_marker() for line in marked[:3]] == [look(m).marker for m in names[:3]]
    assert [line.get_markerfacecolor() == "white" for line in marked] == [False] * 3 + [True]
    grey = [line.get_xdata()[0] for line in error.lines if line.get_color() == GREY]
    assert grey == pytest.approx([0.0005, 0.0505, 0.0005])


def test_the_frontier_ends_without_privacy_and_needs_spent_budgets(rows):
    several = [rows.assign(epsilon_spent=rows["epsilon_spent"] * e, epsilon=e) for e in (0.2, 1.0)]
    free = rows[rows["detail"] == ""].assign(epsilon=float("inf"), epsilon_spent=None)
    known = rows["method"].isin(leaderboard.YARDSTICKS)
    parts = [*(part[~known] for part in several), free[~known[free.index]], rows[known]]
    parts = [part.astype({"epsilon": float, "epsilon_spent": float}) for part in parts]
    ax = leaderboard.frontier(pd.concat(parts), ["hellinger"]).axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.2", "1", "3", "10", "none"]
    curve = next(line for line in ax.lines if line.get_label() == "AIM")
    assert curve.get_xdata() == pytest.approx([0.18, 0.9, 3.6])
    hollow = next(line for line in ax.lines if line.get_label() == "FedVAE †")
    assert hollow.get_markerfacecolor() == "white" and len(hollow.get_xdata()) == 2
    assert "A copy, flat" in {line.get_label() for line in ax.lines}
    with pytest.raises(BadInput, match="no row has spent any epsilon"):
        leaderboard.frontier(rows.assign(epsilon_spent=None), METRICS)
