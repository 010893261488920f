"""What sweep panels draw: every mean where it belongs, bands of two standard errors, and a legend
that tells all."""

from itertools import pairwise

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.save import save_figure
from fedsynth_lib.figures.style import FREE, look
from fedsynth_lib.figures.sweep import BAND, FEW, SINGLE, SOME, Panel, bands, repeats, sweep
from fedsynth_lib.runs.rows import COLUMNS, to_frame

pytestmark = pytest.mark.usefixtures("style")

ABLATION = ["NaiveFLAIM", "AugFLAIM (Oracle)", "true skew, filter and combine", "private skew only"]
ABLATION += ["AugFLAIM (Private)"]
METHODS = ["AIM", "NaiveFLAIM", "AugFLAIM (Private)"]


def around(mean):
    """Three values with this mean and a standard error of 0.1."""
    return mean - 0.1 * np.sqrt(3), mean, mean + 0.1 * np.sqrt(3)


def made_up(method, swept, values, **settings):
    """Tidy rows; values[i] are those of the seeds at swept[i]."""
    rows = [
        {
            "paper": "maddock2024",
            "dataset": "adult",
            "data": "real",
            "method": method,
            "profile": "quick",
        }
        | {"metric": "workload_error", "epsilon": 1.0, "seed": seed, "value": value}
        | {key: entry for key, entry in settings.items() if key in COLUMNS}
        for point in values
        for seed, value in enumerate(point)
    ]
    frame = to_frame(rows)
    frame["rounds"] = np.repeat(np.array(swept, float), [len(point) for point in values])
    return frame.assign(**{key: entry for key, entry in settings.items() if key not in COLUMNS})


@pytest.fixture
def rows():
    frames = [
        made_up("AIM", [2, 10, 100], [around(0.3), around(0.2), (0.5,) * 3]),
        made_up("AIM", [np.nan], [around(0.8)]),
        made_up("NaiveFLAIM", [100, 2, 10], [around(1.1), around(0.9), around(0.7)]),
        made_up("AugFLAIM (Private)", [2, 10, 100], [(0.5,), (0.4,), (0.6,)]),
    ]
    return pd.concat(frames, ignore_index=True)


def curves(ax):
    """Label -> line, of the curves and of the horizontal lines."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def legend(fig):
    return [text.get_text() for text in fig.legends[0].get_texts()]


def test_single_runs_and_a_printed_value_are_drawn_where_they_are(rows):
    panels = [Panel("", "rounds", printed=0.35), Panel("", "rounds")]
    ax, without = sweep(rows, panels, looks=["AIM"], dots=True).axes
    drawn = np.ma.getdata(ax.collections[-1].get_offsets())
    own = rows[rows["method"] == "AIM"].dropna(subset="rounds")
    assert {tuple(each) for each in drawn if np.isfinite(each).all()} == set(
        zip(own["rounds"], own["value"], strict=True)
    )
    level = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert [set(line.get_ydata()) for line in level] == [{0.35}]
    assert not [line for line in without.lines if line.get_linestyle() == ":"]


def test_a_table_of_one_s_own_is_drawn_in_a_free_look(rows):
    own = rows[rows["method"] == "NaiveFLAIM"].assign(dataset="mine")
    (ax,) = sweep(own, [Panel("", "rounds")], looks=["mine"], line="dataset").axes
    assert curves(ax)["mine"].get_color() == matplotlib.colors.to_rgb(FREE[0].colour)


def test_means_and_bands_stand_where_they_belong(rows):
    fig = sweep(rows, [Panel("adult", "rounds", log=True)], looks=METHODS)
    (ax,) = fig.axes
    drawn = curves(ax)
    assert set(drawn) == {*METHODS, "AIM, flat"}
    assert drawn["NaiveFLAIM"].get_xdata().tolist() == [2, 10, 100]
    assert drawn["NaiveFLAIM"].get_ydata() == pytest.approx([0.9, 0.7, 1.1])
    assert drawn["AIM"].get_ydata() == pytest.approx([0.3, 0.2, 0.5])
    bands = [band.get_paths()[0].vertices for band in ax.collections if band.get_alpha()]
    assert len(bands) == 3
    naive = bands[1]  # standard error 0.1
    for place, mean in ((2, 0.9), (10, 0.7), (100, 1.1)):
        heights = naive[naive[:, 0] == place, 1]
        assert (heights.min(), heights.max()) == pytest.approx((mean - 0.2, mean + 0.2))
    single = bands[2]
    assert set(single[single[:, 0] == 2, 1]) == {0.5}  # one seed: no width


def test_rows_without_x_are_horizontal_dashed_lines_with_the_method_s_marker(rows):
    fig = sweep(rows, [Panel("a", "rounds", log=True, flat="T annealed")], looks=METHODS)
    (ax,) = fig.axes
    flat = curves(ax)["AIM, flat"]
    assert flat.get_ydata() == pytest.approx([0.8, 0.8])
    assert flat.is_dashed() and flat.get_linestyle() != "-"
    assert flat.get_color() == matplotlib.colors.to_rgb(look("AIM").colour)
    (bars,) = ax.containers
    marker, (_, _), (stem,) = bars.lines
    assert marker.get_marker() == look("AIM").marker and marker.get_markerfacecolor() != "white"
    # 0.8 and two standard errors of 0.1
    assert np.array(stem.get_segments())[0][:, 1] == pytest.approx([0.6, 1.0])
    assert marker.get_xdata()[0] > 1  # in axes coordinates: beside the panel, over no curve
    fig.canvas.draw()
    low, high = ax.get_xlim()
    assert 1 < low < 2 and 100 < high < 200  # the axis is that of the swept values
    assert legend(fig) == [*METHODS, "T annealed"]
    own = [Panel("a", "rounds", log=True, flat={"AIM": "central AIM"})]
    dashed = sweep(rows, own, looks=METHODS).legends[0].legend_handles[-1]
    assert dashed.get_label() == "central AIM" and dashed.is_dashed()
    assert dashed.get_color() == matplotlib.colors.to_rgb(look("AIM").colour)
    own = [Panel("a", "rounds", log=True, flat={"AIM": "AIM"})]  # has no other curve
    assert legend(sweep(rows, own, looks=METHODS)) == [*[n for n in METHODS if n != "AIM"], "AIM"]


def test_a_panel_shows_the_rows_it_asks_for(rows):
    other = made_up("NaiveFLAIM", [2, 10], [(0.3,), (0.2,)], dataset="magic")
    auc = made_up("NaiveFLAIM", [2, 10], [(0.8,), (0.9,)], metric="auc_gbt")
    wide = pd.concat([rows, other, auc], ignore_index=True)
    panels = [
        Panel("adult", "rounds", {"dataset": "adult"}),
        Panel("magic", "rounds", {"dataset": ["magic", "none"]}),
        Panel("auc", "rounds", {"epsilon": 1}, metric="auc_gbt", x_label="T"),
        Panel("again", "rounds", {"dataset": "adult"}),
    ]
    fig = sweep(wide, panels, looks=METHODS, columns=3)
    adult, magic, auc, again, *empty = fig.axes
    assert len(curves(adult)) == len(curves(again)) == 4
    assert (
        curves(magic)["NaiveFLAIM"].get_ydata().tolist() == [0.3, 0.2] and len(curves(magic)) == 1
    )
    assert curves(auc)["NaiveFLAIM"].get_ydata().tolist() == [0.8, 0.9]
    labels = [
        ax.get_ylabel().replace("\n", " ").replace("\xa0", " ") for ax in (adult, magic, auc, again)
    ]
    error = "workload error (L1, 0 to 2) ↓"
    assert auc.get_ylabel() == "AUC, gradient\nboosting\xa0↑"
    # once in a row, and where it changes
    assert labels == [error, "", "AUC, gradient boosting ↑", error]
    assert auc.get_xlabel() == "T" and len(empty) == 2 and not any(ax.axison for ax in empty)
    assert fig.get_figwidth() == 7.0


def test_local_rounds_are_distinguished_by_shade_and_by_the_size_of_marks(rows):
    more = [
        made_up("NaiveFLAIM", [2, 10], [(0.9,), (0.8,)], dataset="magic", local_rounds=s)
        for s in (4.0, 1.0, 2.0)
    ]
    central = made_up("AIM", [2, 10], [(0.3,), (0.2,)], dataset="magic", local_rounds=np.nan)
    fig = sweep(
        pd.concat([*more, central]),
        [Panel("magic", "rounds")],
        looks=["AIM", "NaiveFLAIM"],
        shade="local_rounds",
    )
    drawn = curves(fig.axes[0])
    assert list(drawn) == [
        "AIM, local_rounds=1",
        *(f"NaiveFLAIM, local_rounds={s}" for s in (1, 2, 4)),
    ]
    one, two, four = (drawn[f"NaiveFLAIM, local_rounds={s}"] for s in (1, 2, 4))
    assert one.get_color() == matplotlib.colors.to_rgb(look("NaiveFLAIM").colour)
    grey = [np.dot(line.get_color(), (0.299, 0.587, 0.114)) for line in (one, two, four)]
    assert np.diff(grey).min() > 0.05
    assert np.diff([line.get_markersize() for line in (one, two, four)]).min() > 1
    assert {line.get_fillstyle() for line in (one, two, four)} == {"full"}
    assert {line.get_marker() for line in (one, two, four)} == {look("NaiveFLAIM").marker}
    assert legend(fig) == ["AIM", "NaiveFLAIM", *(f"local rounds s = {s}" for s in (1, 2, 4))]


def test_ticks_keep_a_distance_and_both_ends():
    rounds = [1, 2, 3, 4, 50, 97, 100]
    fig = sweep(made_up("AIM", rounds, [(0.1,)] * 7), [Panel("a", "rounds")], looks=["AIM"])
    assert [tick.get_text() for tick in fig.axes[0].get_xticklabels()] == ["1", "50", "100"]
    assert fig.axes[0].get_xticks().tolist() == [1, 50, 100]
    skews = [0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99]
    three = [Panel("a", "rounds", log=True)] * 3
    fig = sweep(made_up("AIM", skews, [(0.1,)] * 10), three, looks=["AIM"])
    fig.canvas.draw()
    boxes = [tick.get_window_extent() for tick in fig.axes[0].get_xticklabels()]
    assert len(boxes) > 3 and all(one.x1 + 2 < other.x0 for one, other in pairwise(boxes))
    fig = sweep(made_up("AIM", [7], [(0.1,)]), [Panel("a", "rounds", log=True)], looks=["AIM"])
    assert fig.axes[0].get_xticks().tolist() == [7]


@pytest.mark.slow
def test_long_legends_stay_inside_and_leave_the_panels_their_height(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    rows = pd.concat([made_up(name, [2, 10], [(k,), (k + 1,)]) for k, name in enumerate(ABLATION)])
    panel = Panel("adult", "rounds", flat="a long name of what the horizontal lines are")
    fig = sweep(rows, [panel] * 6, looks=ABLATION)
    save_figure(
        fig, "w_fig2", profile="quick", data="real", note=f"100 clients, p = 0.1, epsilon 5. {BAND}"
    )
    box = fig.legends[0].get_window_extent()
    assert box.x0 >= -1 and box.x1 <= fig.bbox.width + 1 and box.y1 <= fig.bbox.height + 1
    heights = [ax.get_window_extent().height / fig.dpi for ax in fig.axes if ax.axison]
    assert (
        min(heights) > 0.85 and max(ax.title.get_window_extent().y1 for ax in fig.axes) < box.y0 + 1
    )


def test_counts_with_gaps_are_numbers_too():
    rows = made_up("AIM", [0, 0, 0], [(0.1,), (0.2,), (0.4,)])
    rows["n_clients"] = pd.array([5, 10, pd.NA], dtype="Int64")
    drawn = curves(sweep(rows, [Panel("a", "n_clients")], looks=["AIM"]).axes[0])
    assert drawn["AIM"].get_xdata().tolist() == [5, 10] and drawn["AIM, flat"].get_ydata()[0] == 0.4


def test_repeats_are_counted_by_point(rows):
    swept = rows.assign(detail=["T=" + str(rounds) for rounds in rows["rounds"]])
    assert repeats(swept) == "1 to 3"
    assert repeats(swept[swept["method"] != "AugFLAIM (Private)"]) == "3"
    assert repeats(swept[swept["seed"] == 0]) == "1"


def test_bad_input(rows):
    mixed = pd.concat([rows, rows.assign(epsilon=5.0)])
    text = rows.assign(detail="T=10")
    cases = [
        (rows, [Panel("a", "T")], METHODS, "panel 'a' needs the column 'T'"),
        (
            rows,
            [Panel("a", "rounds", {"dataset": "magic"})],
            METHODS,
            "panel 'a' has no rows with .*'magic'",
        ),
        (
            rows,
            [Panel("a", "rounds")],
            [*METHODS, "DistAIM"],
            "no panel has rows of 'DistAIM' in column 'method'",
        ),
        (
            mixed,
            [Panel("a", "rounds")],
            METHODS,
            "panel 'a' mixes settings: several rows agree in method, rounds",
        ),
        (rows.assign(rounds=np.inf), [Panel("a", "rounds")], METHODS, "rounds must be finite"),
        (
            rows.assign(rounds=0),
            [Panel("a", "rounds", log=True)],
            METHODS,
            "rounds must be positive and finite",
        ),
        (text, [Panel("a", "detail")], METHODS, "column 'detail' is no numeric column"),
        (rows, [], METHODS, "panels is empty"),
    ]
    for frame, panels, looks, message in cases:
        with pytest.raises(BadInput, match=message):
            sweep(frame, panels, looks=looks)
    assert not plt.get_fignums()  # nothing was drawn


def test_one_seed_has_no_band():
    one = pd.DataFrame({"seed": [3, 3], "value": [1.0, 2.0]})
    assert bands(one) == SINGLE
    two, three = (made_up("AIM", [2], [(0.1,) * number]) for number in (2, 3))
    assert bands(two) == FEW and bands(three) == BAND
    mixed = pd.concat([two, three.assign(dataset="magic")])
    assert bands(mixed) == f"{BAND} {SOME}"
    assert bands(mixed, dots=True) == f"{BAND} Dots: single runs."


def test_two_runs_have_no_band_but_are_drawn_themselves():
    pair = made_up("AIM", [2, 10], [(0.2, 0.4), (0.1, 0.3)])
    lone = made_up("AIM", [np.nan], [(0.7, 0.9)])
    (ax,) = sweep(pd.concat([pair, lone]), [Panel("", "rounds")], looks=["AIM"]).axes
    assert not [each for each in ax.collections if each.get_alpha()]
    drawn = np.ma.getdata(ax.collections[-1].get_offsets())
    assert {tuple(each) for each in drawn} >= {(2, 0.2), (2, 0.4), (10, 0.1), (10, 0.3)}
