"""What the figures of leitner2023 show: every median, mean and pair where it belongs, no two
settings mixed."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import plots
from fedsynth_lib.figures.plots_ctgan import (
    accuracy_boxes,
    association_panels,
    association_squares,
    beside_print,
)
from fedsynth_lib.figures.style import look, use_style
from fedsynth_lib.printed import published
from fedsynth_lib.runs.rows import params_text, to_frame

METHODS = ["Real", "CTGAN", "DP-Fed-CTGAN"]
CLASSIFIERS = ["knn", "mlp", "rf", "ada"]
FIVE = np.array([0.5, 0.9, 0.6, 0.8, 0.63])  # median 0.63, quartiles 0.6 and 0.8


@pytest.fixture(autouse=True)
def style():
    use_style()
    yield
    plt.close("all")


def tidy(method, metric, values, dataset="adult", **labels):
    """A row for each seed."""
    central, private = method in ("Real", "CTGAN", "DP-CTGAN"), method.startswith("DP")
    fixed = {
        "paper": "leitner2023",
        "profile": "quick",
        "data": "real",
        "method": method,
        "dataset": dataset,
    }
    fixed |= {"setting": "real" if method == "Real" else "central" if central else "federated"}
    fixed |= {"partition": "none" if central else "iid", "n_clients": None if central else 3}
    fixed |= {"epsilon": 3.0 if private else np.inf, "metric": metric}
    return [{**fixed, "seed": seed, "value": value, **labels} for seed, value in enumerate(values)]


def accuracies(values=FIVE, datasets=("adult",)):
    """Runs of all methods; a classifier adds 0, 1, 2 or 3 hundredths, a method 0, 10 or 20."""
    return to_frame(
        row
        for dataset in datasets
        for i, method in enumerate(METHODS)
        for j, classifier in enumerate(CLASSIFIERS)
        for row in tidy(method, f"accuracy_{classifier}", values - 0.1 * i - 0.01 * j, dataset)
    )


def dots(ax):
    """Single marks as (x, y, colour), from left to right."""
    lines = [
        line
        for line in ax.lines
        if line.get_marker() not in ("None", None) and len(line.get_xdata()) == 1
    ]
    return sorted(
        (line.get_xdata()[0], line.get_ydata()[0], to_hex(line.get_color()).upper())
        for line in lines
    )


def test_boxes_stand_at_their_classifier_and_show_quartiles_extremes_and_the_median():
    ax = accuracy_boxes(accuracies()).axes[0]
    boxes = [patch.get_path().vertices for patch in ax.patches]
    assert len(boxes) == 8  # real rows are a line
    spots = {}
    for box in boxes:
        spots.setdefault(round(box[:4, 0].mean()), []).append(
            (box[:4, 0].mean(), box[:, 1].min(), box[:, 1].max())
        )
    for j, boxes_there in spots.items():
        (left, low, high), (right, other_low, other_high) = sorted(boxes_there)
        assert left < j < right
        assert (low, high) == pytest.approx((0.5 - 0.01 * j, 0.7 - 0.01 * j))
        assert (other_low, other_high) == pytest.approx((0.4 - 0.01 * j, 0.6 - 0.01 * j))
    wanted = [
        (0.63 - 0.1 * i - 0.01 * j, look(METHODS[i]).colour) for j in range(4) for i in (1, 2)
    ]
    assert [(pytest.approx(y), colour) for _, y, colour in dots(ax)] == wanted
    ends = {round(y, 9) for line in ax.lines for y in line.get_ydata()}
    assert {0.8, 0.4, 0.7, 0.3} <= ends  # whiskers of k-NN reach the extremes


def test_real_rows_are_a_dashed_line_for_each_classifier_and_guessing_a_dotted_one():
    ax = accuracy_boxes(accuracies(), {"adult": 0.76, "bank": 0.88}).axes[0]
    dashed = sorted(
        (np.mean(line.get_xdata()), *line.get_ydata())
        for line in ax.lines
        if line.get_linestyle() == "--"
    )
    assert dashed == [pytest.approx((j, 0.63 - 0.01 * j, 0.63 - 0.01 * j)) for j in range(4)]
    assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [0.76]


def test_a_single_run_is_a_mark_without_a_box():
    figure = accuracy_boxes(accuracies(FIVE[:1], ("adult", "bank", "obesity")))
    assert [ax.get_title() for ax in figure.axes] == ["adult", "bank", "obesity", ""]
    assert not figure.axes[3].axison
    for ax in figure.axes[:3]:
        assert not ax.patches
        assert [y for _, y, _ in dots(ax)] == pytest.approx(
            [0.5 - 0.1 * i - 0.01 * j for j in range(4) for i in (1, 2)]
        )


def test_the_legend_names_every_method_once():
    legend = [
        text.get_text()
        for text in accuracy_boxes(accuracies(), {"adult": 0.7}).legends[0].get_texts()
    ]
    assert legend == [
        "CTGAN",
        "DP-Fed-CTGAN",
        "trained on real rows",
        "always the most frequent class",
    ]


def test_rows_of_two_schemes_and_no_rows_are_refused():
    rows = accuracies()
    with pytest.raises(BadInput, match="accuracies by classifier mix settings"):
        accuracy_boxes(
            pd.concat([rows, rows.assign(params=params_text({"scheme": "private end to end"}))])
        )
    with pytest.raises(BadInput, match="there are no accuracies by classifier"):
        accuracy_boxes(rows[rows["metric"] == "auroc"])


# --- beside the printed --------------------------------------------------------------------------
# means


def scores():
    """CTGAN with runs 0.7 and 0.8 on adult, Fed-TGAN with one on bank; adult's printed CTGAN is
    0.8279."""
    return to_frame(tidy("CTGAN", "auroc", (0.7, 0.8)) + tidy("Fed-TGAN", "auroc", (0.75,), "bank"))


def test_ours_and_printed_stand_beside_each_other():
    ax = beside_print(published.compare(scores(), "leitner2023", "tab5.5")).axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["adult", "bank"]
    ours = {bars.get_label(): bars for bars in ax.containers}
    assert ours["CTGAN, ours"].lines[0].get_ydata().tolist() == pytest.approx(
        [0.75, np.nan], nan_ok=True
    )
    assert ours["Fed-TGAN, ours"].lines[0].get_ydata().tolist() == pytest.approx(
        [np.nan, 0.75], nan_ok=True
    )
    (bar, *_) = ours["CTGAN, ours"].lines[2][0].get_segments()
    assert bar[:, 1] == pytest.approx([0.65, 0.85])  # two standard errors of (0.7, 0.8): 0.1
    printed = {line.get_label(): line for line in ax.lines if "printed" in line.get_label()}
    assert len(printed) == 6
    assert printed["CTGAN, printed"].get_ydata()[0] == 0.8279
    assert printed["CTGAN, printed"].get_markerfacecolor() == "white"
    assert printed["CTGAN, printed"].get_xdata()[0] > ours["CTGAN, ours"].lines[0].get_xdata()[0]


def test_logarithmic_values_have_plain_numbers():
    rows = to_frame(tidy("CTGAN", "jsd", (0.1,)) + tidy("CTGAN", "jsd", (0.03,), "bank"))
    figure = beside_print(published.compare(rows, "leitner2023", "tab5.7"), log=True)
    figure.canvas.draw()
    ax = figure.axes[0]
    assert ax.get_yscale() == "log"
    assert {"0.05", "0.1", "0.2"} <= {tick.get_text() for tick in ax.get_yticklabels()}


def test_a_comparison_without_runs_is_refused():
    with pytest.raises(BadInput, match="no value of ours"):
        beside_print(published.compare(scores(), "leitner2023", "tab5.7"))


# --- associations --------------------------------------------------------------------------------

PAIRS = ["a x b", "a x c", "b x c"]


def pairs():
    """Real r 0.2, -0.4, 0.6; CTGAN over two seeds 0.3, 0, 0.6: off by 0.1, 0.4, 0."""
    real = dict(zip(PAIRS, (0.2, -0.4, 0.6), strict=True))
    made = dict(zip(PAIRS, ((0.2, 0.4), (-0.1, 0.1), (0.6, 0.6)), strict=True))
    rows = [
        row
        for pair, value in real.items()
        for row in tidy("Real", "pearson", (value, value), item=pair)
    ]
    return to_frame(
        rows
        + [row for pair, two in made.items() for row in tidy("CTGAN", "pearson", two, item=pair)]
    )


def test_squares_are_symmetric_means_in_the_order_of_the_names():
    squares = association_squares(pairs(), "pearson", ["c", "a", "b"])
    assert list(squares) == ["Real", "CTGAN"]
    assert squares["Real"].to_numpy().tolist() == [[1, -0.4, 0.6], [-0.4, 1, 0.2], [0.6, 0.2, 1]]
    assert squares["CTGAN"].to_numpy() == pytest.approx(
        np.array([[1, 0, 0.6], [0, 1, 0.3], [0.6, 0.3, 1]])
    )


def test_panels_say_how_far_off_they_are_and_write_hundredths():
    figure = association_panels(pairs(), "pearson", ["a", "b", "c"], real="stand-in rows")
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in panels] == ["stand-in rows", "CTGAN: 0.167 off"]
    assert [text.get_text() for text in panels[0].texts] == [
        "100",
        "20",
        "-40",
        "20",
        "100",
        "60",
        "-40",
        "60",
        "100",
    ]
    assert (
        panels[0].images[0].get_clim() == (-1, 1) and figure.axes[-1].get_ylabel() == "Pearson's r"
    )
    small = pairs().replace({"metric": {"pearson": "cramers_v"}}).assign(value=-0.001)
    figure = association_panels(small, "cramers_v", ["a", "b", "c"])
    assert (
        figure.axes[0].images[0].get_clim() == (0, 1) and figure.axes[0].texts[1].get_text() == "0"
    )


def test_associations_without_real_rows_or_of_two_schemes_are_refused():
    rows = pairs()
    with pytest.raises(BadInput, match="have no method 'Real'"):
        association_panels(rows[rows["method"] != "Real"], "pearson", ["a", "b", "c"])
    with pytest.raises(BadInput, match="rows of pearson mix settings"):
        association_squares(pd.concat([rows, rows]), "pearson", ["a", "b", "c"])


def test_heatmaps_in_lines_keep_their_order_and_leave_the_rest_empty():
    square = pd.DataFrame(np.eye(2), ["a", "b"], ["a", "b"])
    figure = plots.association_heatmaps(
        square, {f"m{k}": k * square / 10 for k in range(4)}, columns=3, low=0
    )
    shown = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in shown] == ["real", "m0", "m1", "m2", "m3"]
    assert [ax.get_subplotspec().get_geometry()[:2] for ax in shown] == [(2, 3)] * 5
    assert [ax.images[0].get_array().max() for ax in shown] == [1, 0, 0.1, 0.2, 0.3]
    assert sum(not ax.axison for ax in figure.axes) == 1
    wide = plots.association_heatmaps(square, {"m": square}, columns=3)
    assert wide.axes[0].get_subplotspec().get_geometry()[:2] == (1, 2)
