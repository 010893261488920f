"""What the vocabulary of pictures draws: values at their place, in their colour, with their bars."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import distributions as columns
from fedsynth_lib.figures.bars import bars, client_bars
from fedsynth_lib.figures.beside import beside_print
from fedsynth_lib.figures.heatmap import association_distances, heatmap, squares
from fedsynth_lib.figures.points import TWO_ERRORS, boxes, lines, points, ranked, slopes
from fedsynth_lib.figures.style import Look, look
from fedsynth_lib.printed import published
from fedsynth_lib.runs.rows import to_frame

pytestmark = pytest.mark.usefixtures("style")


def ticks(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def marked(ax):
    """The lines that have a marker, and somewhere to put it."""
    lines = [line for line in ax.lines if line.get_marker() not in ("", "None", None)]
    return [line for line in lines if len(line.get_xdata())]


# --- beside print --------------------------------------------------------------------------------


def compared(work, exhibit, rise=0.01):
    """An exhibit with values of ours 0, 1 and 2 times `rise` above the printed ones."""
    values = published.load_values(work, exhibit)
    keys = values[[*published.KEYS, "paper"]].to_dict("records")
    rows = [
        {**key, "seed": seed, "profile": "paper", "data": "real", "value": mean + rise * seed}
        for key, mean in zip(keys, values["mean"], strict=True)
        for seed in (0, 1, 2)
    ]
    return published.compare(to_frame(rows), work, exhibit)


def test_all_cells_of_a_table_stand_at_their_place_ours_filled_and_print_hollow():
    cells = compared("martinez2024", "tab6.1")
    fig = beside_print(cells, x=["partition", "n_clients"], hue="setting", columns="epsilon")
    panels = np.array(fig.axes).reshape(4, 3)  # metrics, budgets
    assert [ax.get_title() for ax in panels[0]] == ["no DP", "ε = 0.5", "ε = 1.6"]
    assert panels[1, 0].get_ylabel().startswith("pairwise") and panels[2, 1].get_ylabel() == ""
    chosen = cells.query("metric == 'pcd' and setting == 'federated' and epsilon == 0.5")
    drawn = {found.get_label(): found.lines for found in panels[1, 1].containers}
    ours, _, (bars_of_ours,) = drawn["federated, ours"]
    printed, _, _ = drawn["federated, published"]
    assert printed.get_ydata().tolist() == chosen["published"].tolist()
    assert ours.get_ydata() == pytest.approx(chosen["published"] + 0.01)
    assert [round(x) for x in ours.get_xdata()] == list(range(9))
    assert (ours.get_xdata() < printed.get_xdata()).all()
    assert printed.get_markerfacecolor() == "white"
    assert ours.get_markerfacecolor() == ours.get_color() == look("federated").colour
    low, high = bars_of_ours.get_segments()[0][:, 1]
    assert high - low == pytest.approx(0.02)  # the sample deviation of 0, 0.01, 0.02, twice
    flat = {line.get_label(): line for line in panels[1, 1].lines if "central" in line.get_label()}
    assert flat["central, ours"].get_linestyle() == "-"
    assert flat["central, published"].get_linestyle() == ":"
    legend = [text.get_text() for text in fig.legends[0].get_texts()]
    assert legend == ["central", "federated", "local", "ours", "published"]
    assert ticks(panels[3, 0].xaxis) == ["3", "5", "10"] * 3
    assert {text.get_text() for text in panels[3, 0].texts} >= {"i.i.d.", "label\nskew"}


@pytest.mark.parametrize("errors", ["std", "two standard errors"])
def test_two_runs_are_two_dots_without_a_bar(errors):
    cells = pd.DataFrame({"method": "AIM", "dataset": ["census_kdd", "bank"], "metric": "pcd"})
    cells = cells.assign(ours=[1.0, 2.0], ours_std=np.std([0.5, 1.5], ddof=1), n=[2, 3])
    cells = cells.assign(published=[1.2, 2.2], published_std=0.1)
    (ax,) = beside_print(cells, x="dataset", hue="method", errors=errors).axes
    assert ticks(ax.xaxis) == ["census KDD", "bank"]
    dots = [line for line in ax.lines if line.get_marker() == "."]
    assert sorted(float(line.get_ydata()[0]) for line in dots) == pytest.approx([0.5, 1.5])
    bars_of_ours = ax.containers[0].lines[2][0].get_segments()
    heights = [high - low for (_, low), (_, high) in bars_of_ours]
    assert heights[0] == 0 and heights[1] > 0.5


def test_cells_that_share_a_place_have_a_dash_at_their_mean():
    places = [(m, e, k) for m in ("fedbn", "fedvae") for e in (np.inf, 1.6) for k in (3, 5)]
    cells = pd.DataFrame(places, columns=["method", "epsilon", "n_clients"])
    cells = cells.assign(metric="pcd", ours=np.arange(8.0), published=np.arange(8.0) + 100)
    cells.loc[cells["method"] == "fedvae", "ours"] = np.nan  # not run
    (ax,) = beside_print(cells.assign(ours_std=1.0, n=3), x="epsilon", hue="method").axes
    means = [line.get_ydata()[0] for line in ax.lines if line.get_color() == "black"]
    assert sorted(means) == [0.5, 2.5, 100.5, 102.5, 104.5, 106.5]
    assert ticks(ax.xaxis) == ["no DP", "ε = 1.6"]
    found = {drawn.get_label(): drawn.lines for drawn in ax.containers}
    assert found["FedBN, ours"][0].get_ydata().tolist() == [0, 1, 2, 3]
    assert "FedVAE, ours" not in found or not len(found["FedVAE, ours"][0].get_ydata())
    with pytest.raises(BadInput, match="no cell of ours has a n_clients"):
        beside_print(cells.assign(n_clients=np.nan), x="n_clients", hue="method")


# --- bars ----------------------------------------------------------------------------------------


def test_client_bars_show_every_row_once(table):
    parts = {
        "iid": np.array_split(np.arange(600), 3),
        "label_skew": [np.arange(500), np.arange(500, 600)],
    }
    labels = table.frame["ill"].iloc[:600].reset_index(drop=True)
    fig = client_bars(labels, parts)
    for ax, clients in zip(fig.axes, (3, 2), strict=True):
        assert sum(bar.get_height() for bar in ax.patches) == 600
        assert len(ax.patches) == clients * 2 and ticks(ax.xaxis)[0] == "1"
    ill = sum(bar.get_height() for bar in fig.axes[0].containers[1])
    assert ill == (labels == "yes").sum()
    assert [ax.get_title() for ax in fig.axes] == ["i.i.d.", "label skew"]


def test_bars_stand_side_by_side_and_say_small_numbers():
    table = pd.DataFrame({"with": [25.0, 75.0], "without": [99.9, 0.1]}, index=[0.0, 1.0])
    (ax,) = bars({"runs": table}, x_label="score", y_label="runs (%)", numbers=True).axes
    assert [bar.get_height() for bar in ax.patches] == [25, 75, 99.9, 0.1]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches]
    assert middles == pytest.approx([-0.2, 0.8, 0.2, 1.2])
    assert [text.get_text() for text in ax.texts] == ["25", "75", "100", "<1"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("score", "runs (%)")
    with pytest.raises(BadInput, match="no groups"):
        bars({}, x_label="", y_label="")


# --- heat maps -----------------------------------------------------------------------------------


def test_heat_maps_share_one_scale_and_one_order():
    real = pd.DataFrame([[1, 0.5], [0.5, 1]], index=["a", "b"], columns=["a", "b"])
    tables = {"real": real, "FedBN": -0.2 * real.loc[["b", "a"], ["b", "a"]]}
    fig = heatmap(tables, scale=(-1, 1), label="association")
    maps = [ax.collections[0] for ax in fig.axes[:2]]
    assert {found.get_clim() for found in maps} == {(-1, 1)}
    assert maps[1].get_array().data.ravel().tolist() == [-0.2, -0.1, -0.1, -0.2]
    assert fig.axes[-1].get_ylabel() == "association"


def test_maps_write_their_numbers_and_stand_in_lines():
    table = pd.DataFrame({"a": [0.1, 0.25], "b": [1.0, 0.5]}, index=["a", "b"])
    fig = heatmap(
        {f"m{k}": (k + 1) * table for k in range(3)}, scale=(0, 3), columns=2, written=".2f"
    )
    shown = [ax for ax in fig.axes if ax.axison][:3]
    assert [ax.get_title() for ax in shown] == ["m0", "m1", "m2"] and len(fig.axes) == 5
    assert [text.get_text() for text in shown[0].texts] == ["0.10", "1.00", "0.25", "0.50"]
    assert [ax.collections[0].get_array().max() for ax in shown] == [1, 2, 3]


def pairs():
    """Real r 0.2, -0.4, 0.6; CTGAN over two seeds 0.3, 0, 0.6: off by 0.1, 0.4, 0."""
    real, made = (0.2, -0.4, 0.6), ((0.2, 0.4), (-0.1, 0.1), (0.6, 0.6))
    rows = [
        {"method": method, "metric": "pearson", "item": pair, "seed": seed, "value": value}
        for pair, one, two in zip(["a x b", "a x c", "b x c"], real, made, strict=True)
        for method, values in (("Real", (one, one)), ("CTGAN", two))
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_associations_say_how_far_off_they_are_and_write_hundredths():
    fig = association_distances(pairs(), "pearson", ["a", "b", "c"], real="stand-in rows")
    assert [ax.get_title() for ax in fig.axes[:2]] == ["stand-in rows", "CTGAN: 0.167 off"]
    texts = [text.get_text() for text in fig.axes[0].texts]
    assert texts == ["100", "20", "-40", "20", "100", "60", "-40", "60", "100"]
    assert fig.axes[0].collections[0].get_clim() == (-100, 100)
    assert fig.axes[-1].get_ylabel() == "100 × Pearson's r"
    small = pairs().assign(value=-0.001)
    assert association_distances(small, "pearson", list("abc")).axes[0].texts[1].get_text() == "0"
    with pytest.raises(BadInput, match="have no method 'Real'"):
        association_distances(pairs().query("method != 'Real'"), "pearson", ["a", "b", "c"])
    with pytest.raises(BadInput, match="missing or mix settings"):
        squares(pd.concat([pairs(), pairs()]), "pearson", ["a", "b", "c"])


# --- distributions -------------------------------------------------------------------------------


def test_distributions_show_shares_of_all_rows(table):
    frame, schema = table.frame, table.schema
    fig = columns.distributions(frame, schema, {"FedBN": frame.iloc[:50], "mine": frame})
    panels = {ax.get_title(): ax for ax in fig.axes if ax.get_title()}
    assert set(panels) == set(schema.names)
    for name in schema.numeric:
        real, one, other = [patch.get_data().values for patch in panels[name].patches]
        assert real.sum() == pytest.approx(100) and one.sum() == pytest.approx(100)
        assert other.tolist() == real.tolist()
    widths = [bar.get_width() for bar in panels["region"].patches]
    shares = 100 * frame["region"].value_counts(normalize=True, sort=False)
    assert widths == pytest.approx(shares.tolist())
    assert panels["region"].lines[0].get_color() == look("fedbn").colour


def test_rare_categories_are_drawn_together():
    values = pd.Series(pd.Categorical(np.repeat([f"c{k}" for k in range(12)], np.arange(1, 13))))
    _, ax = plt.subplots()
    columns._bars(ax, columns._by_category({"real": values}), {})
    assert ticks(ax.yaxis) == ["c11", "c10", "c9", "c8", "c7", "c6", "c5", "5 others"]
    assert [bar.get_width() for bar in ax.patches][-1] == pytest.approx(100 * 15 / 78)


def test_shares_by_value_are_histograms_up_to_almost_all_real_rows():
    rows = [
        {"metric": f"{kind}_share", "method": method, "item": f"age {value}", "value": share}
        for method in ("FedAvg", "SDS")
        for kind, shares in (("real", (0.5, 0.499, 0.0, 0.001)), ("synthetic", (0.2, 0.8)))
        for value, share in enumerate(shares, start=1)
    ]
    shares = columns.shares_by_value(pd.DataFrame(rows))
    assert list(shares) == ["age"] and list(shares["age"]) == ["real", "FedAvg", "SDS"]
    assert shares["age"]["SDS"].tolist() == [0.2, 0.8, 0, 0]
    means = {"age": pd.Series({"real": 1.5, "SDS": 1.8})}
    (ax,) = columns.histograms(shares, x_label="age (years)", means=means, centred=True).axes
    real, _, made = [patch.get_data() for patch in ax.patches]
    assert real.values.tolist() == [0.5, 0.499, 0, 0.001] and made.values[1] == 0.8
    assert real.edges.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5] and ax.get_xlim() == (0.5, 2.5)
    assert [line.get_xdata()[0] for line in ax.lines] == [1.5, 1.8]
    assert ax.lines[1].get_color() == look("SDS").colour


def test_densities_are_drawn_for_each_group_with_an_area_of_one():
    values = {
        "node 1": np.random.default_rng(0).normal(size=400),
        "node 2": np.array([1.0, 2.0, 4.0]),
    }
    (ax,) = columns.densities({"iid": values}, label="BMI").axes
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.lines)) == ("BMI", "density", 2)
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 2
    at, height = ax.lines[0].get_data()
    assert np.trapezoid(height, at) == pytest.approx(1, abs=0.02)


# --- points, boxes, lines ------------------------------------------------------------------------


def runs(**labels):
    """Two methods at two budgets, seeds 1 apart around 10, 20 (AIM) and 30, 40 (DistAIM)."""
    rows = [
        {"method": method, "epsilon": epsilon, "metric": "nll", "seed": seed, "value": mean + seed}
        for method, means in {"AIM": (10, 20), "DistAIM": (30, 40)}.items()
        for epsilon, mean in zip((0.5, np.inf), means, strict=True)
        for seed in (-1, 0, 1)
    ]
    return pd.DataFrame(rows).assign(**labels)


def segments(ax):
    """(x, low, high) of every bar, from left to right."""
    found = [line for line in ax.lines if line.get_marker() in ("", "None", None)]
    return sorted((x[0], min(y), max(y)) for x, y in (line.get_data() for line in found))


def test_points_stand_at_their_means_with_their_range_or_two_standard_errors():
    order = {0.5: "0.5", np.inf: "∞"}
    (ax,) = points(runs(), by="epsilon", order=order, hue="method").axes
    aim, dist = marked(ax)
    assert aim.get_ydata().tolist() == [10, 20] and dist.get_ydata().tolist() == [30, 40]
    assert (aim.get_xdata() < dist.get_xdata()).all()
    assert [line.get_marker() for line in (aim, dist)] == [
        look(m).marker for m in ("AIM", "DistAIM")
    ]
    assert (
        aim.get_linestyle() == "None" and to_hex(dist.get_color()) == look("DistAIM").colour.lower()
    )
    assert [found[1:] for found in segments(ax)] == [(9, 11), (29, 31), (19, 21), (39, 41)]
    assert ticks(ax.xaxis) == ["0.5", "∞"] and ax.get_xlabel() == "privacy budget ε"
    assert ax.get_title().startswith("negative log-likelihood")
    place = {"by": "epsilon", "order": order, "hue": "method", "joined": True}
    (ax,) = points(runs(), **place, interval=TWO_ERRORS).axes
    low, high = segments(ax)[0][1:]
    assert (high - low) / 2 == pytest.approx(2 / np.sqrt(3)) and marked(ax)[
        0
    ].get_linestyle() == "-"


def test_panels_and_looks_are_chosen_and_published_values_are_hollow():
    rows = pd.concat([runs(), runs(metric="pcd"), runs(metric="pmse")])
    hollow = {"AIM": Look("#000000", "o", published=True)}
    known = rows[rows["method"] == "DistAIM"].assign(line="a copy")
    fig = points(
        rows, by="epsilon", hue="method", panels=["pcd", "nll"], looks=hollow, references=known
    )
    assert [ax.get_title().split()[0] for ax in fig.axes] == ["pairwise", "negative"]
    (dot,) = marked(fig.axes[0])
    assert dot.get_markerfacecolor() == "white"
    grey = next(line for line in fig.axes[0].lines if len(set(line.get_ydata())) == 1)
    assert grey.get_ydata()[0] == 35
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["AIM", "a copy"]
    with pytest.raises(BadInput, match="no rows to draw by epsilon and method"):
        points(rows, by="epsilon", hue="method", panels=["auc"])


def test_every_value_is_a_dot_and_a_dash_their_root_mean_square():
    rows = runs(partition="bmi_skew", value=[0.0, 3.0, 4.0] * 4)
    place = {"by": "epsilon", "hue": "method", "panel": "partition", "across": False}
    (ax,) = points(rows, **place, every=True, centre="rms", value="bits").axes
    assert ax.get_title() == "BMI skew, as run" and ax.get_xlabel() == "bits"
    dots, dashes = marked(ax)[:2], marked(ax)[2:]
    assert sorted(dots[0].get_xdata()) == [0, 0, 3, 3, 4, 4]
    assert dashes[0].get_xdata() == pytest.approx([np.sqrt(25 / 3)] * 2)
    assert ticks(ax.yaxis) == ["ε = 0.5", "no DP"]


def test_boxes_show_quartiles_extremes_and_the_median_beside_real_rows():
    values = [0.5, 0.9, 0.6, 0.8, 0.63]  # median 0.63, quartiles 0.6 and 0.8
    rows = pd.DataFrame(
        {"method": method, "metric": metric, "dataset": "adult", "seed": seed, "value": value - off}
        for method, off in (("CTGAN", 0.0), ("DP-CTGAN", 0.1))
        for metric in ("accuracy_knn", "accuracy_rf")
        for seed, value in enumerate(values)
    )
    real = rows[rows["method"] == "CTGAN"].assign(method="Real", value=0.95)
    order = {"accuracy_knn": "k-NN", "accuracy_rf": "forest"}
    place = {"by": "metric", "panel": "dataset", "order": order, "real": real, "value": "accuracy"}
    (ax,) = [ax for ax in boxes(rows, **place, guess={"adult": 0.7}).axes if ax.axison]
    heights = {round(y, 9) for line in ax.lines for y in line.get_ydata() if not np.isnan(y)}
    assert {0.5, 0.6, 0.8, 0.9, 0.4, 0.7} <= heights  # boxes and whiskers
    medians = [line.get_ydata() for line in marked(ax)]
    assert medians[0] == pytest.approx([0.63, 0.63]) and medians[1] == pytest.approx([0.53, 0.53])
    dashed = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [0.95, 0.95] and ticks(ax.xaxis) == ["k-NN", "forest"]
    assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [0.7]
    assert [line.get_marker() for line in marked(ax)] == [
        look(m).marker for m in ("CTGAN", "DP-CTGAN")
    ]
    with pytest.raises(BadInput, match="several agree in metric, dataset, method, seed"):
        boxes(pd.concat([rows, rows]), **place, guess={})


def test_two_runs_make_no_box_and_no_band_but_are_drawn_themselves():
    rows = runs().query("method == 'AIM' and seed < 1").assign(dataset="adult")
    real = rows.assign(value=50.0)
    place = {"by": "epsilon", "panel": "dataset", "order": {0.5: "0.5", np.inf: "∞"}}
    (ax,) = [ax for ax in boxes(rows, **place, real=real, guess={}, value="").axes if ax.axison]
    (dots,) = marked(ax)
    assert sorted(dots.get_ydata()) == sorted(rows["value"])
    others = [line for line in ax.lines if line is not dots and line.get_linestyle() != "--"]
    assert not any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in others)

    (ax,) = points(rows, by="epsilon", hue="method", interval=TWO_ERRORS).axes
    dots, means = marked(ax)
    assert sorted(dots.get_ydata()) == sorted(rows["value"]) and len(means.get_ydata()) == 2
    assert not any(np.isfinite(high) for _, _, high in segments(ax))
    fig = slopes(
        {"adult": rows},
        {"nll": "likelihood"},
        **{"by": "epsilon", "order": place["order"], "line": "method"},
        looks={"AIM": look("AIM")},
    )
    assert sorted(marked(fig.axes[0])[0].get_ydata()) == sorted(rows["value"])
    assert fig.axes[0].get_xlabel() == "privacy budget ε"


@pytest.mark.slow
def test_groups_are_ranked_apart_and_published_values_are_hollow_in_the_line_of_their_name():
    lines = [("peers", "A", False, 3.0), ("peers", "A", False, 5.0), ("peers", "A", True, 9.0)]
    lines += [("peers", "B", False, 6.0), ("ours", "C", False, 1.0), ("ours", "D", False, 2.0)]
    rows = pd.DataFrame(lines, columns=["group", "line", "published", "value"])
    looks = {name: Look("#000000", "o") for name in "ABCD"}
    groups = {"ours": "Ours, central", "peers": "Others"}
    half = {2: 0.5}
    shape = {"groups": groups, "looks": looks, "half": lambda values: half.get(len(values), np.nan)}
    ours, peers = ranked(rows, "k_marginal", **shape).axes
    assert ours.get_title(loc="left") == "Ours, central" and ticks(ours.yaxis) == ["D", "C"]
    assert ticks(peers.yaxis) == ["B", "A"]  # by what was run, 6 and 4
    assert peers.get_xlabel().startswith("k-marginal score (of 1000)")
    drawn = {(line.get_xdata()[0], line.get_ydata()[0]): line for line in marked(peers)}
    hollow = {at: line.get_markerfacecolor() == "white" for at, line in drawn.items()}
    assert hollow == {(4.0, 1): False, (9.0, 1): True, (6.0, 0): False}
    bars = [line.get_xdata() for line in peers.lines if len(line.get_xdata()) == 2]
    assert [tuple(bar) for bar in bars if np.isfinite(bar).all()] == [(3.5, 4.5)]  # A ran twice


def tidy(xs):
    return pd.DataFrame(
        [
            (panel, line, x, seed + x)
            for panel in ("iid", "b")
            for line in ("fedbn", "mine")
            for x in xs
            for seed in (0, 1, 2)
        ],
        columns=["panel", "line", "x", "y"],
    )


def test_few_values_stand_evenly_with_error_bars_and_infinity_is_no_noise():
    rows = tidy([1.0, 4.0]).assign(x=lambda frame: frame["x"].replace(4.0, np.inf))
    looks = {"fedbn": look("fedbn"), "mine": Look("red", "s")}
    fig = lines(rows, "x", "y", line="line", panel="panel", looks=looks)
    assert [ax.get_title() for ax in fig.axes] == ["i.i.d.", "b"]
    assert ticks(fig.axes[0].xaxis) == ["1", "none"]
    first = marked(fig.axes[0])[0]
    assert first.get_color() == look("fedbn").colour
    assert first.get_ydata().tolist() == [2.0, 5.0]  # means of (1, 2, 3) and of (4, 5, 6)
    low, high = fig.axes[0].collections[0].get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(1)  # the sample deviation of (1, 2, 3)


def test_many_values_lie_on_a_scale_with_bands():
    looks = {"fedbn": look("fedbn")}
    fig = lines(tidy(range(20)), "x", "y", line="line", panel="panel", looks=looks, share_y=True)
    ax = fig.axes[0]
    assert len(ax.lines) == 1 and ax.lines[0].get_xdata().tolist() == list(range(20))
    assert len(ax.collections) == 1 and ax.get_ylabel() == "y"
