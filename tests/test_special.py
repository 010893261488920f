"""The pictures of their own: searches, networks, clouds, audits."""

import matplotlib

matplotlib.use("Agg")

import re
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import special
from fedsynth_lib.figures.special import SHADES, Cloud, parallel_coordinates, sensitivity_bars
from fedsynth_lib.figures.style import BLACK, GREY, VERMILLION, look

pytestmark = pytest.mark.usefixtures("style")

GRID = {"width": [32, 64], "layers": ["[8]", "[8, 4]", "[4]"]}


def table(**columns):
    """Four configurations; the third is the best."""
    base = {
        "width": [32, 32, 64, 64],
        "layers": ["[8]", "[4]", "[8, 4]", "[8]"],
        "log_cluster": [-1.0, -2.0, -5.0, -3.0],
    }
    return pd.DataFrame(base | columns)


def lines(ax, colour=None):
    """Paths of configurations (those of three points), drawn in this order."""
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 3]
    marked = [to_hex(VERMILLION), to_hex(BLACK)]
    return [
        x
        for x in drawn
        if (
            to_hex(x.get_color()) == to_hex(colour)
            if colour
            else to_hex(x.get_color()) not in marked
        )
    ]


def test_every_configuration_crosses_its_own_values_and_ends_at_its_score():
    (ax,) = parallel_coordinates({"adult": table()}, {"adult": GRID}).axes
    found = lines(ax)
    assert len(found) == 4
    scores = [-1.0, -2.0, -3.0, -5.0]  # the worst is drawn first, the best on top of all
    low, high = -5.0 - 0.24, -1.0 + 0.24  # a margin of 6 %
    assert [line.get_ydata()[2] for line in found] == pytest.approx(
        [(s - low) / (high - low) for s in scores]
    )
    width, layers = ([line.get_ydata()[axis] for line in found] for axis in (0, 1))
    assert [int(2 * y) for y in width] == [0, 0, 1, 1]  # halves of the axis: 32 below, 64 above
    assert [int(3 * y) for y in layers] == [0, 2, 0, 1]  # thirds, in the order of the grid
    # one value, two lines: the better one lies lower
    assert width[0] > width[1] and layers[0] > layers[2]
    assert (width[0] + width[1]) / 2 == pytest.approx(0.25)


def test_dark_lines_are_good_ones_and_the_best_is_marked_with_its_error():
    many = table(std=[0.5] * 4, splits=[4] * 4)
    ax = parallel_coordinates({"adult": many}, {"adult": GRID}).axes[0]
    brightness = [sum(matplotlib.colors.to_rgb(line.get_color())) for line in lines(ax)]
    assert brightness == sorted(brightness, reverse=True)
    assert to_hex(lines(ax)[-1].get_color()) == to_hex(SHADES(0.0))
    (best,) = lines(ax, VERMILLION)
    assert list(best.get_ydata()) == list(lines(ax)[-1].get_ydata())
    (error,) = [
        line for line in ax.lines if list(line.get_xdata()) == [2, 2] and line.get_linewidth() == 3
    ]
    low, high = -5.0 - 0.24, -1.0 + 0.24
    # -5.5 lies below the axis
    assert list(error.get_ydata()) == pytest.approx([0, (-4.5 - low) / (high - low)])
    assert ax.get_title(loc="left") == "adult: 4 configurations, best -5.00"


def test_the_printed_setting_is_marked_where_it_was_tried():
    tables, grids = {"adult": table(), "bank": table()}, {"adult": GRID, "bank": GRID}
    printed = {"adult": {"width": 64, "layers": "[8]"}, "bank": {"width": 32, "layers": "[8, 4]"}}
    figure = parallel_coordinates(tables, grids, printed)
    adult, bank = figure.axes
    (dashed,) = lines(adult, BLACK)
    assert (
        list(dashed.get_ydata()) == list(lines(adult)[2].get_ydata())
        and dashed.get_linestyle() == "--"
    )
    assert not lines(bank, BLACK)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "best of ours",
        "chosen in the work",
    ]
    alone = parallel_coordinates({"bank": table()}, grids, printed)
    assert [text.get_text() for text in alone.legends[0].get_texts()] == ["best of ours"]


def test_equal_scores_and_a_single_configuration_can_be_drawn():
    parallel_coordinates({"adult": table(log_cluster=[-2.0] * 4)}, {"adult": GRID}).canvas.draw()
    parallel_coordinates({"adult": table().head(1)}, {"adult": GRID}).canvas.draw()


def test_tables_that_do_not_fit_their_grid_are_refused():
    with pytest.raises(BadInput, match="tables is empty"):
        parallel_coordinates({}, {})
    with pytest.raises(BadInput, match="no column 'layers'"):
        parallel_coordinates({"adult": table().drop(columns="layers")}, {"adult": GRID})
    with pytest.raises(BadInput, match="width is 64, which is not in its grid"):
        parallel_coordinates({"adult": table()}, {"adult": GRID | {"width": [32]}})
    with pytest.raises(BadInput, match="adult: the table of configurations is empty"):
        parallel_coordinates({"adult": table().head(0)}, {"adult": GRID})


# --- bars ----------------------------------------------------------------------------------------


def shares(**columns):
    base = {"importance": [0.2, 0.7, 0.1], "correlation": [0.5, -0.25, np.nan]}
    return pd.DataFrame(base | columns, index=["batch_size", "weight_decay", "layers"])


def bars(ax):
    return {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in ax.patches}


def test_chance_intervals_and_printed_places_are_shown_where_there_are_any():
    known = shares(chance=[0.3, 0.4, 0.9], low=[0.1, -0.5, np.nan], high=[0.8, 0.1, np.nan])
    left, right = sensitivity_bars(
        {"adult": known}, {"adult": {"weight_decay": 1, "batch_size": 3}}
    ).axes
    (marks,) = left.lines
    assert list(zip(marks.get_ydata(), marks.get_xdata(), strict=True)) == [
        (0, 0.9),
        (1, 0.3),
        (2, 0.4),
    ]
    assert left.get_xlim()[1] == pytest.approx(1.05 * 0.9)
    assert [tick.get_text() for tick in left.get_yticklabels()] == [
        "layers",
        "batch size",
        "weight decay",
    ]
    hatches = {bar.get_width() > 0: bar.get_hatch() for bar in right.patches}
    assert hatches[True] != hatches[False]  # for greyscale
    segments = [
        s
        for lines in right.collections
        for s in lines.get_segments()
        if len(s) and not np.isnan(s).any()
    ]
    assert [(tuple(s[:, 0]), s[0, 1]) for s in segments] == [((0.1, 0.8), 1), ((-0.5, 0.1), 2)]
    assert [(text.get_text(), text.get_position()[1]) for text in left.texts] == [
        ("(3)", 1),
        ("(1)", 2),
    ]


def test_bars_without_numbers_are_refused():
    with pytest.raises(BadInput, match="tables is empty"):
        sensitivity_bars({})
    with pytest.raises(BadInput, match="adult: the table has no column 'correlation'"):
        sensitivity_bars({"adult": shares().drop(columns="correlation")})


# --- networks, clouds, audits --------------------------------------------------------------------


def test_a_network_is_drawn_with_parents_above_children():
    graph = networkx.DiGraph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")])
    names = list("abcd")
    strength = pd.DataFrame(np.ones((4, 4)), names, names)
    strength.loc["a", "d"] = 3.0
    ax = special.network(graph, strength).axes[0]
    place = {text.get_text(): text.get_position() for text in ax.texts}
    assert set(place) == set(names) and len(set(place.values())) == 4
    assert all(place[parent][1] > place[child][1] for parent, child in graph.edges)
    widths = sorted(patch.get_linewidth() for patch in ax.patches)
    assert len(widths) == 5 and widths[-1] > 2 * widths[-2] and widths[0] == widths[-2]


def test_clouds_show_every_dot_where_it_is_and_no_group_last():
    rng = np.random.default_rng(0)
    points, values = rng.normal(size=(300, 2)), np.repeat([0, 1, 2], 100)
    shaded = [Cloud(points, "viridis", values, np.arange(300))]
    first, second, bar = special.clouds({"a": shaded, "b": shaded}, bars=["a"]).axes
    assert (first.get_title(), second.get_title()) == ("a", "b") and bar.get_label() == "<colorbar>"
    dots = first.collections[0]
    place = {tuple(point): number for number, point in enumerate(points)}
    drawn = [place[tuple(point)] for point in dots.get_offsets().data]
    assert sorted(drawn) == list(range(300)) and dots.get_sizes().tolist() == drawn
    assert dots.get_array().tolist() == values[drawn].tolist()
    assert (np.diff(dots.get_array()) < 0).any()  # mixed
    labelled = special.clouds({"a": shaded}, axes=("v1", "v2")).axes[0]
    assert (labelled.get_xlabel(), labelled.get_ylabel()) == ("v1", "v2")
    assert labelled.axison and not first.axison


def test_a_map_draws_each_square_by_its_share_and_real_rows_behind():
    square = {"metric": "map_share", "item": "3 4", "value": 0.5}
    made = pd.DataFrame([square])
    real = pd.DataFrame([{**square, "item": "10 0", "value": 0.25}])
    clouds = [special.cloud(real, GREY), special.cloud(made, VERMILLION)]
    (ax,) = special.clouds({"ε = 1": clouds}).axes
    behind, front = ax.collections
    assert behind.get_offsets().tolist() == [[10, 0]] and front.get_offsets().tolist() == [[3, 4]]
    assert front.get_sizes()[0] == 2 * behind.get_sizes()[0]


def test_runs_with_too_little_noise_are_crosses_not_hollow_marks():
    lines = {"method": ["fedbn", "aim"], "epsilon": [1.0, 4.0], "lower": [0.9, 2.0]}
    (ax,) = special.lower_bounds(pd.DataFrame(lines).assign(control=[3.0, 8.0])).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["FedBN, ε = 1", "AIM, ε = 4"]
    marks = {float(line.get_xdata()[0]): line for line in ax.lines if len(line.get_xdata()) == 1}
    assert {0.5, 0.9, 2.0, 3.0} == {at for at in marks if at != 1}  # shares of their claims
    assert marks[3.0].get_marker() == "x" and marks[0.9].get_marker() == look("fedbn").marker
    index = pd.MultiIndex.from_tuples([("AIM", 1.0), ("AIM", 10.0)], names=["method", "epsilon"])
    found = ("epsilon_bound", "epsilon_ceiling", "attack_tpr1", "attack_tpr1_low")
    rates = pd.DataFrame(0.3, index, [*found, "attack_tpr1_high"])
    left = special.strongest_attacks(rates, []).axes[0]
    drawn = [line.get_marker() for line in left.lines if line.get_color() == look("AIM").colour]
    assert drawn == [look("AIM").marker, "x"]


def test_only_published_values_can_be_hollow():
    hollow = re.compile(r"markerfacecolor|\bmfc\b|fillstyle|facecolors?=\W*none")
    root = Path(special.__file__).parents[2]
    found = [*root.glob("fedsynth_lib/**/*.py"), *root.glob("notebooks/*.ipynb")]
    named = {path.name for path in found if hollow.search(path.read_text(encoding="utf-8"))}
    assert named <= {"style.py", "points.py"}  # where `published` is drawn


def test_published_values_lie_against_ours_with_ticks_at_the_axis_where_ours_are_missing():
    cells = pd.DataFrame(
        [
            *(("auroc", 0.5 + 0.05 * k, 0.6, "within") for k in range(4)),
            ("auroc", 0.9, None, "ours missing"),
            *(("rounds_ratio", 10.0**k, 10.0, "different") for k in range(5)),
            ("one", 1.0, 2.0, "not judged"),
            ("other", 0.0, 1.0, "matched noise"),
        ],
        columns=["metric", "published", "ours", "verdict"],
    )
    figure = special.against_published(cells)
    auroc, ratio, few = axes = figure.axes[:3]
    assert auroc.get_title().endswith("4 of 5 within") and auroc.get_xscale() == "linear"
    hollow = [line for line in auroc.lines if line.get_markerfacecolor() == "white"]
    drawn = [tuple(np.ravel(line.get_data())) for line in hollow if len(line.get_xdata())]
    assert drawn == [(0.9, 0.03)]  # a share of the panel's height, and not on the diagonal
    assert any(line.get_transform() == auroc.get_xaxis_transform() for line in hollow)
    assert ratio.get_xscale() == ratio.get_yscale() == "log" and few.get_xscale() == "linear"
    assert few.get_title().startswith("2 measures with few")
    for ax in axes:
        assert ax.get_xlim() == ax.get_ylim()
        marks = [line for line in ax.lines if line.get_marker() not in ("", "None")]
        assert sum(len(line.get_xdata()) for line in marks) in (5, 2)
    with pytest.raises(BadInput, match="no published values"):
        special.against_published(cells.head(0))
