"""Saved files say what they were made from, repeat byte for byte, and show the numbers they are
given."""

import io
import itertools
import json
import re

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedsynth_lib import __version__, figures
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import plots, style
from fedsynth_lib.figures.style import look, save_figure, save_table, use_style
from fedsynth_lib.printed import published
from fedsynth_lib.runs.rows import to_frame


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.setenv("FEDSYNTH_RUN_LOG", str(tmp_path / "log.jsonl"))
    use_style()
    yield tmp_path
    plt.close("all")


def small_figure():
    fig, ax = plt.subplots()
    ax.plot([1, 2, 3], [0.1, 0.4, 0.2], label="ours")
    ax.set(xlabel="clients", ylabel="Hellinger distance")
    return fig


def footer(fig):
    return next(text for text in fig.texts if text.get_gid() == "footer")


# --- save ----------------------------------------------------------------------------------------


def test_saving_the_same_figure_twice_gives_the_same_bytes(home):
    first = save_figure(small_figure(), "w_fig1.2", profile="quick", data="real")
    before = first.png.read_bytes(), first.pdf.read_bytes()
    fig = small_figure()
    save_figure(fig, "w_fig1.2", profile="quick", data="real")
    # even the same object: one footer
    again = save_figure(fig, "w_fig1.2", profile="quick", data="real")
    assert (again.png.read_bytes(), again.pdf.read_bytes()) == before
    assert sorted(path.name for path in (home / "figures/quick").iterdir()) == [
        "w_fig1.2.pdf",
        "w_fig1.2.png",
    ]
    assert before[0].startswith(b"\x89PNG") and before[1].startswith(b"%PDF")
    assert b"CreationDate" not in before[1] and b"Software" not in before[0]


def test_a_picture_of_very_many_colours_is_cut_to_256_and_looks_the_same():
    saved = {}
    for name, cells in (("few", 2), ("many", 600)):
        fig, ax = plt.subplots(figsize=(4, 4))
        ax.imshow(np.random.default_rng(0).random((cells, cells, 3)), interpolation="nearest")
        buffer = io.BytesIO()
        fig.savefig(buffer, format="png", dpi=300)
        picture = Image.open(save_figure(fig, f"toy_{name}", profile="smoke", data="none").png)
        saved[name] = picture.mode, np.asarray(picture.convert("RGB"), float), buffer
    assert saved["few"][0] == "RGBA" and saved["many"][0] == "P"
    original = np.asarray(Image.open(saved["many"][2]).convert("RGB"), float)
    # below that lies the footer, which moves the axes a little
    middle = (slice(400, 600), slice(400, 600))
    assert abs(saved["many"][1][middle].mean() - original[middle].mean()) < 3


def test_a_figure_says_what_it_was_made_from():
    real, standin = small_figure(), small_figure()
    save_figure(real, "f", profile="quick", data="real", note="no DP")
    save_figure(standin, "f", profile="smoke", data="standin")
    assert footer(real).get_text() == f"profile quick · data real · fedsynth {__version__}\nno DP"
    assert footer(standin).get_text() == f"profile smoke · STAND-IN DATA · fedsynth {__version__}"
    red, green, blue, _ = matplotlib.colors.to_rgba(footer(standin).get_color())
    assert red > 0.7 and green == blue == 0
    assert matplotlib.colors.to_rgba(footer(real).get_color())[0] < 0.5


def test_the_footer_has_space_of_its_own():
    fig = small_figure()
    style._footer(fig, "quick", "real", note="a long note " * 12)
    fig.canvas.draw()
    lowest = fig.axes[0].xaxis.label.get_window_extent().y0
    assert footer(fig).get_window_extent().y1 <= lowest
    assert footer(fig).get_window_extent().x1 <= fig.bbox.x1


def test_a_saved_figure_shows_itself_and_reaches_the_runner(home):
    saved = save_figure(small_figure(), "f", profile="quick", data="own", alt="a line")
    assert repr(saved) == "figures/quick-own/f.png"
    content, facts = saved._repr_mimebundle_()
    assert content["image/png"] == saved.png.read_bytes()
    assert facts == {"image/png": {"width": 374, "alt": "a line"}}
    assert plt.imread(io.BytesIO(content["image/png"])).shape[1] == 1020  # 3.4 inches at 300 dots
    events = [json.loads(line) for line in (home / "log.jsonl").read_text().splitlines()]
    assert events == [{"event": "figure", "path": "figures/quick-own/f.png"}]
    assert not plt.get_fignums()


def test_bad_names_are_refused_before_drawing(home):
    for arguments, message in (
        ({"exhibit": "a/b", "profile": "quick", "data": "real"}, "becomes a file name"),
        ({"exhibit": "a", "profile": "fast", "data": "real"}, "profile is 'fast'"),
        ({"exhibit": "a", "profile": "quick", "data": "fake"}, "data is 'fake'"),
    ):
        with pytest.raises(BadInput, match=message):
            save_figure(small_figure(), **arguments)
    assert not (home / "figures").exists()


@pytest.fixture
def awkward():
    columns = pd.MultiIndex.from_tuples(
        [("ε = 0.5", "pcd"), ("ε = 0.5", "log_cluster"), ("no DP", "pcd")]
    )
    index = pd.MultiIndex.from_tuples(
        [("iid", 3), ("label|skew", 5)], names=["partition", "clients"]
    )
    return pd.DataFrame(
        [[0.12345, "0.1 ± 0.2", np.nan], [np.inf, "50% & more_", 2.0]], index=index, columns=columns
    )


def test_tables_are_saved_in_three_forms_that_parse(awkward):
    saved = save_table(awkward, "w_tab1", profile="quick", data="standin", caption="Ours & theirs")
    line = f"profile quick · STAND-IN DATA · fedsynth {__version__}"

    csv = pd.read_csv(saved.csv)
    assert list(csv.columns[:5]) == [
        "partition",
        "clients",
        "ε = 0.5 pcd",
        "ε = 0.5 log_cluster",
        "no DP pcd",
    ]
    assert csv["ε = 0.5 pcd"].tolist() == [0.12345, np.inf] and np.isnan(csv.loc[0, "no DP pcd"])
    assert (
        set(csv["data"]) == {"standin"}
        and set(csv["profile"]) == {"quick"}
        and set(csv["version"]) == {__version__}
    )

    markdown = saved.md.read_text()
    cells = [
        re.split(r"(?<!\\)\|", row)[1:-1] for row in markdown.splitlines() if row.startswith("|")
    ]
    assert [len(row) for row in cells] == [5] * 4
    assert [entry.strip() for entry in cells[2]] == ["iid", "3", "0.123", "0.1 ± 0.2", "–"]
    assert (
        cells[3][0].strip() == r"label\|skew" and line in markdown and "Ours & theirs" in markdown
    )

    latex = saved.tex.read_text()
    assert re.search(r"\\begin{tabular}{(\w+)}", latex)[1] == "llrrr"
    assert latex.index("\\toprule") < latex.index("\\midrule") < latex.index("\\bottomrule")
    assert "\\multicolumn{2}{c}{$\\varepsilon$ = 0.5}" in latex and "Ours \\& theirs" in latex
    body = latex[latex.index("\\midrule") : latex.index("\\bottomrule")].splitlines()[1:]
    assert [len(re.split(r"(?<!\\)&", row)) for row in body] == [5, 5]
    assert body[1] == "label|skew & 5 & $\\infty$ & 50\\% \\& more\\_ & 2.000 \\\\"
    assert "STAND-IN DATA" in latex
    assert "STAND-IN DATA" in saved._repr_html_() and "Ours &amp; theirs" in saved._repr_html_()


@pytest.mark.parametrize("named", [False, True])
def test_row_numbers_that_a_selection_left_are_no_column_but_named_ones_are(named):
    frame = pd.DataFrame({"value": [0.1, 0.2, 0.3]}).rename_axis("node" if named else None)
    saved = figures.save_table(
        frame[frame["value"] > 0.15], "w_t", profile="smoke", data="real", caption="c"
    )
    assert list(pd.read_csv(saved.csv).columns) == ["node"] * named + [
        "value",
        "profile",
        "data",
        "version",
    ]
    assert saved.md.read_text().count("| 2 |") == named


def test_a_csv_has_ten_significant_digits_and_leaves_counts_alone():
    counts = pd.array([3, None], dtype="Int64")
    frame = pd.DataFrame(
        {"x": [1 / 3, 12345.678901234], "mixed": ["a", 0.1 + 0.2], "count": counts}
    )
    saved = save_table(frame, "digits", profile="quick", data="none", caption="digits")
    lines = saved.csv.read_text().splitlines()[1:]
    assert [line.rsplit(",", 3)[0] for line in lines] == ["0.3333333333,a,3", "12345.6789,0.3,"]


def test_saving_the_same_table_twice_gives_the_same_bytes(awkward):
    def written():
        saved = save_table(awkward, "t", profile="paper", data="real", caption="c")
        return [path.read_bytes() for path in (saved.csv, saved.md, saved.tex)]

    assert written() == written()


# --- look ----------------------------------------------------------------------------------------


def test_every_published_method_has_a_look_of_its_own_within_its_work(monkeypatch):
    monkeypatch.delenv("FEDSYNTH_HOME")
    for work in published.WORKS:
        methods = {m for m in published.load_values(work)["method"] if m and " vs " not in m}
        looks = {method: look(method) for method in methods}
        for one, other in itertools.combinations(looks, 2):
            # told apart in greyscale
            assert looks[one].marker != looks[other].marker, (work, one, other)
            assert looks[one].colour != looks[other].colour, (work, one, other)
    assert look("AugFLAIM (Private)") == look("augflaim_private")
    with pytest.raises(BadInput, match="no colour is set for 'magic'"):
        look("magic")


def test_settings_differ_in_marker_and_in_grey_level():
    settings = [figures.SETTINGS[name] for name in ("central", "federated", "local")]
    grey = [np.dot(matplotlib.colors.to_rgb(s.colour), (0.299, 0.587, 0.114)) for s in settings]
    assert len({s.marker for s in settings}) == 3
    assert np.diff(np.sort(grey)).min() > 0.2


def test_no_text_is_smaller_than_seven_points():
    sizes = [
        value
        for key, value in matplotlib.rcParams.items()
        if key.endswith(("labelsize", "titlesize", "fontsize", "font.size"))
    ]
    assert min(size for size in sizes if isinstance(size, float)) >= 7


# --- plots ---------------------------------------------------------------------------------------


def test_partition_bars_show_every_row_once(table):
    parts = {
        "iid": np.array_split(np.arange(600), 3),
        "label_skew": [np.arange(500), np.arange(500, 600)],
    }
    labels = table.frame["ill"].iloc[:600].reset_index(drop=True)
    fig = plots.partition_bars(labels, parts)
    for ax, clients in zip(fig.axes, (3, 2), strict=True):
        assert sum(bar.get_height() for bar in ax.patches) == 600
        assert len(ax.patches) == clients * 2
    ill = sum(bar.get_height() for bar in fig.axes[0].containers[1])
    assert ill == (labels == "yes").sum()
    assert [ax.get_title() for ax in fig.axes] == ["i.i.d.", "label skew"]


def test_distributions_show_shares_of_all_rows(table):
    frame, schema = table.frame, table.schema
    fig = plots.distributions(frame, schema, {"FedBN": frame.iloc[:50], "mine": frame})
    panels = {ax.get_title(): ax for ax in fig.axes if ax.get_title()}
    assert set(panels) == set(schema.names)
    for name in schema.numeric:
        real, one, other = [patch.get_data().values for patch in panels[name].patches]
        assert real.sum() == pytest.approx(100) and one.sum() == pytest.approx(100)
        assert other.tolist() == real.tolist()
    widths = [bar.get_width() for bar in panels["region"].patches]
    assert widths == pytest.approx(
        (100 * frame["region"].value_counts(normalize=True, sort=False)).tolist()
    )
    assert panels["region"].lines[0].get_color() == look("fedbn").colour


def test_rare_categories_are_drawn_together():
    values = pd.Series(pd.Categorical(np.repeat([f"c{k}" for k in range(12)], np.arange(1, 13))))
    _, ax = plt.subplots()
    plots._bars(ax, plots._by_category({"real": values}), {})
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    assert labels == ["c11", "c10", "c9", "c8", "c7", "c6", "c5", "5 others"]
    assert [bar.get_width() for bar in ax.patches][-1] == pytest.approx(100 * 15 / 78)


def test_heatmaps_share_one_scale_and_one_order():
    real = pd.DataFrame([[1, 0.5], [0.5, 1]], index=["a", "b"], columns=["a", "b"])
    fig = plots.association_heatmaps(real, {"FedBN": -0.2 * real.loc[["b", "a"], ["b", "a"]]})
    images = [ax.images[0] for ax in fig.axes if ax.images]
    assert {image.get_clim() for image in images} == {(-1, 1)}
    assert images[1].get_array().data.tolist() == [[-0.2, -0.1], [-0.1, -0.2]]


@pytest.fixture
def comparison(monkeypatch):
    """Table 6.1 with every value of ours 0.01 above the published one."""
    monkeypatch.delenv("FEDSYNTH_HOME")
    values = published.load_values("martinez2024", "tab6.1")
    keys = values[[*published.KEYS, "paper"]].to_dict("records")
    rows = [
        {**key, "seed": seed, "profile": "quick", "data": "real", "value": mean + 0.01 * seed}
        for key, mean in zip(keys, values["mean"], strict=True)
        for seed in (0, 1, 2)
    ]
    return published.compare(to_frame(rows), "martinez2024", "tab6.1")


def test_comparison_table_has_the_layout_of_the_thesis(comparison):
    table = plots.comparison_table(comparison)
    assert table.shape == (1 + 9 * 2, 3 * 4)
    assert table.index.names == ["partition", "clients", "setting"]
    assert table.index[0] == ("", "", "central") and table.index[-1] == (
        "label skew",
        "10",
        "local",
    )
    assert table.columns[0] == ("no DP", "hellinger") and table.columns[-1] == (
        "ε = 1.6",
        "log_cluster",
    )
    assert table.loc[("", "", "central"), ("no DP", "hellinger")] == "0.196 (0.186) ="
    assert (table != "").all(axis=None)
    wide = plots.comparison_table(comparison.head(12), spread=True)
    assert wide.iloc[0, 0] == "0.196 ± 0.010 (0.186 ± 0.000) ="


def test_cells_without_a_run_are_a_dash(comparison):
    missing = comparison.assign(n=0, ours=np.nan, verdict="ours missing")
    assert plots.comparison_table(missing).iloc[0, 0] == "– (0.186)"


def test_scenario_panel_shows_all_cells_ours_and_published(comparison):
    fig = plots.scenario_panel(comparison)
    panels = np.array(fig.axes).reshape(4, 3)  # metrics, budgets
    assert [ax.get_title() for ax in panels[0]] == ["no DP", "ε = 0.5", "ε = 1.6"]
    printed = comparison.query("metric == 'pcd' and setting == 'federated' and epsilon == 0.5")
    assert len(printed) == 9  # three partitions by three numbers of clients
    drawn = {bars.get_label(): bars.lines[0] for bars in panels[1, 1].containers}
    assert drawn["federated, published"].get_ydata().tolist() == printed["published"].tolist()
    assert drawn["federated, ours"].get_ydata() == pytest.approx(printed["published"] + 0.01)
    assert np.round(drawn["federated, ours"].get_xdata()).tolist() == list(range(9))
    assert drawn["federated, published"].get_markerfacecolor() == "white"
    assert drawn["federated, ours"].get_markerfacecolor() == look("federated").colour
    with pytest.raises(BadInput, match="no cells with clients"):
        plots.scenario_panel(comparison[comparison["setting"] == "central"])
