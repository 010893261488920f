"""FedBN and FedVAE side by side: what is drawn is what the cells say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.plots_models import side_by_side
from fedsynth_lib.figures.style import look


@pytest.fixture
def cells():
    places = [
        (d, m, e, k)
        for d in ("adult", "bank")
        for m in ("fedbn", "fedvae")
        for e in (np.inf, 1.6)
        for k in (3, 5)
    ]
    frame = pd.DataFrame(places, columns=["dataset", "method", "epsilon", "n_clients"])
    return frame.assign(metric="pcd", ours=np.arange(16.0), published=np.arange(16.0) + 100)


def test_markers_stand_where_the_cells_are(cells):
    fig = side_by_side(cells, ["pcd"])
    panel = fig.axes[0]
    filled = {
        method: [
            y
            for line in panel.lines
            if line.get_color() == look(method).colour and line.get_markerfacecolor() != "none"
            for y in line.get_ydata()
        ]
        for method in ("fedbn", "fedvae")
    }
    adult = cells[cells["dataset"] == "adult"]
    for method, drawn in filled.items():
        assert sorted(drawn) == sorted(adult.loc[adult["method"] == method, "ours"])
    means = sorted(line.get_ydata()[0] for line in panel.lines if line.get_color() == "black")
    assert means == [0.5, 2.5, 4.5, 6.5, 100.5, 102.5, 104.5, 106.5]
    assert [t.get_text() for t in panel.get_xticklabels()] == ["no noise", "ε = 1.6"]
    assert [ax.get_title() for ax in fig.axes] == ["adult", "bank"]
    plt.close(fig)


def test_what_we_lack_is_left_out_and_nothing_at_all_is_refused(cells):
    cells.loc[cells["method"] == "fedvae", "ours"] = np.nan
    fig = side_by_side(cells, ["pcd"])
    colour = look("fedvae").colour
    assert not any(
        len(line.get_ydata())
        for line in fig.axes[0].lines
        if line.get_color() == colour and line.get_markerfacecolor() == colour
    )
    plt.close(fig)
    with pytest.raises(BadInput, match="auc_rf"):
        side_by_side(cells, ["auc_rf"])
