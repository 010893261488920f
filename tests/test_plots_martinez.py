"""The privacy figures of martinez2024: values at their place, ours filled, printed hollow; the
table of ours alone."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.plots_martinez import (
    ATTACKS,
    attack_panel,
    distance_panel,
    own_table,
    unprinted,
)
from fedsynth_lib.figures.style import BLUE, GREY, use_style
from fedsynth_lib.printed import published
from fedsynth_lib.runs.rows import to_frame


@pytest.fixture(autouse=True)
def style():
    use_style()
    yield
    plt.close("all")


def compared(exhibit, rise=0.01):
    """An exhibit with every value of ours `rise` above the printed one, in three equal splits."""
    values = published.load_values("martinez2024", exhibit)
    keys = values[[*published.KEYS, "paper"]].to_dict("records")
    rows = [
        {**key, "seed": seed, "profile": "paper", "data": "real", "value": mean + rise}
        for key, mean in zip(keys, values["mean"], strict=True)
        for seed in (0, 1, 2)
    ]
    return published.compare(to_frame(rows), "martinez2024", exhibit), to_frame(rows)


def marks(ax):
    """(x, y, colour, filled) of every mark, from left to right."""
    lines = [bars.lines[0] for bars in ax.containers]
    shown = [(line, x, y) for line in lines for x, y in zip(*line.get_data(), strict=True)]
    return sorted(
        (x, y, to_hex(line.get_color()).upper(), line.get_markerfacecolor() != "white")
        for line, x, y in shown
    )


def test_distances_stand_at_their_clients_and_budget():
    cells, _ = compared("tab6.6")
    fig = distance_panel(cells)
    panels = np.array(fig.axes).reshape(4, 3)  # metrics, partitions
    assert [ax.get_title() for ax in panels[0]] == ["i.i.d.", "quantity skew", "label skew"]
    found = marks(panels[2, 1])  # mean distance to training rows, quantity skew
    assert len(found) == 3 * 3 * 2
    own = cells.query(
        "metric == 'dcr_avg_train' and partition == 'quantity_skew' and epsilon == 1.6"
    )
    blue = [(round(x), y, filled) for x, y, colour, filled in found if colour == BLUE]
    assert [y for _, y, filled in blue if filled] == pytest.approx(own["published"] + 0.01)
    assert [y for _, y, filled in blue if not filled] == pytest.approx(own["published"])
    assert [spot for spot, _, filled in blue if filled] == [0, 1, 2]
    assert [line.get_ydata()[0] for line in panels[1, 0].lines if line.get_linestyle() == "--"] == [
        0.5
    ]
    # a copy, at 0, is to be seen
    assert panels[0, 0].get_ylim()[0] < 0 < panels[3, 0].get_ylim()[0]


def test_attacks_stand_at_their_place_with_real_rows_in_every_panel():
    cells, _ = compared("tab6.7")
    panels = np.array(attack_panel(cells).axes).reshape(3, 2)  # datasets, partitions
    assert [ax.get_ylabel().split("\n")[0] for ax in panels[:, 0]] == ["adult", "bank", "cardio"]
    for ax in panels[0]:
        grey = [(round(x), y) for x, y, colour, filled in marks(ax) if colour == GREY and filled]
        real = cells.query("dataset == 'adult' and setting == 'real'").set_index("metric")[
            "published"
        ]
        assert [y for _, y in grey] == pytest.approx([real[metric] + 0.01 for metric in ATTACKS])
    chosen = cells.query(
        "dataset == 'bank' and partition == 'label_skew' and epsilon == 1.6"
    ).set_index("metric")
    blue = [
        (round(x), y)
        for x, y, colour, filled in marks(panels[1, 1])
        if colour == BLUE and not filled
    ]
    assert blue == [(spot, pytest.approx(chosen["published"][m])) for spot, m in enumerate(ATTACKS)]


def test_what_is_not_printed_is_drawn_and_tabled_alone():
    _, rows = compared("tab6.6", rise=0.0)
    cells = unprinted(rows)
    assert cells["published"].isna().all() and len(cells) == 108
    table = own_table(cells)
    assert table.columns[:4].tolist() == [
        ("no DP", metric) for metric in ("dcr_min", "dcr_share", "dcr_avg_train", "dcr_avg_holdout")
    ]
    assert table.index[0] == ("i.i.d.", "3") and table.index[-1] == ("label skew", "10")
    printed = published.load_values("martinez2024", "tab6.6")
    assert table.loc[("i.i.d.", "3"), ("no DP", "dcr_avg_train")] == printed["printed"].iloc[2]
    assert own_table(cells, spread=True).iloc[0, 2] == f"{printed['printed'].iloc[2]} ± 0.000"
    filled = [mark[3] for ax in distance_panel(cells).axes for mark in marks(ax)]
    assert filled == [True] * 108
    with pytest.raises(BadInput, match="no federated rows of pcd"):
        unprinted(rows, ["pcd"])


def test_real_rows_are_the_first_line_of_attacks_that_are_not_printed():
    _, rows = compared("tab6.7")
    table = own_table(unprinted(rows[rows["dataset"] == "cardio"], list(ATTACKS)))
    assert table.index.tolist() == [("real rows", ""), ("i.i.d.", "10"), ("label skew", "10")]
    assert table.loc[("real rows", ""), ("no DP", "ad_rf")] == "0.830"
    assert table.loc[("real rows", ""), ("ε = 0.5", "ad_rf")] == ""
