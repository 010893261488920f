"""The audit's plots: a row for each method, shares of claims, and scores of both kinds of runs."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fedsynth_lib.figures import plots_audit


def test_bounds_are_drawn_as_shares_of_their_claims():
    lines = pd.DataFrame(
        {
            "method": ["fedbn", "aim"],
            "epsilon": [1.0, 4.0],
            "lower": [0.9, 2.0],
            "control": [3.0, 8.0],
        }
    )
    (ax,) = plots_audit.bounds(lines).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fedbn, ε = 1", "aim, ε = 4"]
    marks = sorted(float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() != "None")
    assert marks == [0.5, 0.9, 2.0, 3.0]
    plt.close("all")


def test_scores_have_a_panel_for_each_kind_of_run():
    there, absent = np.array([1.0, 1.0, 0.0, 1.0]), np.array([0.0, -0.0, 0.0, 1.0])
    fig = plots_audit.scores({"honest": (there, absent), "broken": (there, absent)})
    assert [ax.get_title() for ax in fig.axes] == ["honest", "broken"]
    heights = [patch.get_height() for patch in fig.axes[0].patches]
    assert heights == [25.0, 75.0, 75.0, 25.0]  # with the record at 0 and 1, then without it
    plt.close("all")
