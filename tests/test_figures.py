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
from fedsynth_lib.audit import table
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import save, style
from fedsynth_lib.figures.save import Saver, save_figure, save_table
from fedsynth_lib.figures.style import look, use_style
from fedsynth_lib.printed import published
from fedsynth_lib.printed.entries import with_spread
from fedsynth_lib.works import side_by_side


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


@pytest.mark.slow
def test_saving_the_same_figure_twice_gives_the_same_bytes(home):
    first = save_figure(small_figure(), "w_fig1.2", profile="paper", data="real")
    before = first.png.read_bytes(), first.pdf.read_bytes()
    fig = small_figure()
    save_figure(fig, "w_fig1.2", profile="paper", data="real")
    # even the same object: one footer
    again = save_figure(fig, "w_fig1.2", profile="paper", data="real")
    assert (again.png.read_bytes(), again.pdf.read_bytes()) == before
    assert sorted(path.name for path in (home / "figures").iterdir()) == [
        "w_fig1.2.pdf",
        "w_fig1.2.png",
    ]
    assert before[0].startswith(b"\x89PNG") and before[1].startswith(b"%PDF")
    assert b"CreationDate" not in before[1] and b"Software" not in before[0]


@pytest.mark.slow
def test_a_picture_has_256_colours_and_looks_the_same():
    fig, ax = plt.subplots(figsize=(3, 4.06))  # 4.06 * 300 is a little less than 1218
    ax.imshow(np.random.default_rng(0).random((600, 600, 3)), interpolation="nearest")
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=300)
    original = np.asarray(Image.open(buffer).convert("RGB"), float)
    picture = Image.open(save_figure(fig, "toy_many", profile="smoke", data="none").png)
    assert (picture.mode, picture.size) == ("P", original.shape[1::-1])
    # below that lies the footer, which moves the axes a little
    middle = (slice(400, 600), slice(400, 600))
    saved = np.asarray(picture.convert("RGB"), float)
    assert abs(saved[middle].mean() - original[middle].mean()) < 3


def test_a_figure_says_what_it_was_made_from():
    real, standin = small_figure(), small_figure()
    save_figure(real, "f", profile="paper", data="real", note="no DP")
    save_figure(standin, "f", profile="smoke", data="standin")
    assert footer(real).get_text() == f"profile paper · data real · fedsynth {__version__}\nno DP"
    assert footer(standin).get_text() == (
        f"Small live run, no result. profile smoke · STAND-IN DATA · fedsynth {__version__}"
    )
    red, green, blue, _ = matplotlib.colors.to_rgba(footer(standin).get_color())
    assert red > 0.7 and green == blue == 0
    assert matplotlib.colors.to_rgba(footer(real).get_color())[0] < 0.5


def test_the_footer_has_space_of_its_own():
    fig = small_figure()
    save._footer(fig, "quick", "real", note="a long note " * 12)
    fig.canvas.draw()
    lowest = fig.axes[0].xaxis.label.get_window_extent().y0
    assert footer(fig).get_window_extent().y1 <= lowest
    assert footer(fig).get_window_extent().x1 <= fig.bbox.x1


def test_a_saved_figure_shows_itself_and_reaches_the_runner(home):
    saved = save_figure(small_figure(), "f", profile="quick", data="own", alt="a line")
    assert repr(saved) == "figures/live/quick-own/f.png"
    content, facts = saved._repr_mimebundle_()
    assert content["image/png"] == saved.png.read_bytes()
    assert facts == {"image/png": {"width": 374, "alt": "a line"}}
    assert plt.imread(io.BytesIO(content["image/png"])).shape[1] == 1020  # 3.4 inches at 300 dots
    events = [json.loads(line) for line in (home / "log.jsonl").read_text().splitlines()]
    assert events == [{"event": "figure", "path": "figures/live/quick-own/f.png"}]
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
        [[0.12345, with_spread(0.1, 0.2, 1), np.nan], [np.inf, "50% & more_", 2.0]],
        index=index,
        columns=columns,
    )


def test_tables_are_saved_in_three_forms_that_parse(awkward):
    named = {"profile": "quick", "data": "standin", "caption": "Ours & theirs"}
    saved = save_table(awkward, "w_tab1", **named)
    before = [path.read_bytes() for path in (saved.csv, saved.md, saved.tex)]
    save_table(awkward, "w_tab1", **named)
    assert before == [path.read_bytes() for path in (saved.csv, saved.md, saved.tex)]
    line = f"profile quick · STAND-IN DATA · fedsynth {__version__}"

    csv = pd.read_csv(saved.csv)
    assert list(csv.columns[:5]) == [
        "partition",
        "clients",
        "ε = 0.5 pcd",
        "ε = 0.5 log_cluster",
        "ε = 0.5 log_cluster mean",
    ]
    assert csv["ε = 0.5 log_cluster"].tolist()[1:] == ["50% & more_"]
    assert csv["ε = 0.5 log_cluster half"].iloc[0] == 0.2
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


def test_heads_and_metrics_are_words_with_unit_and_direction_and_the_csv_keeps_its_keys(awkward):
    frame = pd.DataFrame({"metric": ["nll"], "workload_error s = 1": [0.1], "jsd": [0.2]})
    frame = frame.assign(share=0.3, local_updates=4, risk_low=0.5)
    saved = save_table(frame, "heads", profile="paper", data="real", caption="c")
    assert list(pd.read_csv(saved.csv))[:6] == list(frame)
    heads = (
        "| metric | workload error (L1, 0 to 2) ↓ s = 1 | JSD (0 to 1) ↓ | share | local updates | "
    )
    assert heads + "privacy risk Π, low |" in saved.md.read_text(encoding="utf-8")
    assert "| negative log-likelihood (nats per row) ↓ | 0.100 |" in saved.md.read_text("utf-8")
    assert "local updates" in saved.html and "local_updates" not in saved.tex.read_text("utf-8")
    frame = pd.DataFrame({"dataset": ["credit_default"], "metric": ["AUROC"], "WD": [0.1]})
    said = "all but bank_additional; data/raw/credit_fraud.csv"
    saved = save_table(frame, "labels", profile="paper", data="real", caption=said)
    assert list(pd.read_csv(saved.csv))[:3] == list(frame)  # and its key, which facts ask for
    assert pd.read_csv(saved.csv)["dataset"].tolist() == ["credit_default"]
    text = saved.md.read_text(encoding="utf-8")
    assert text.startswith("all but bank additional; data/raw/credit_fraud.csv")
    assert "| dataset | metric | WD (parts of the range) ↓ |" in text
    assert "| credit default | AUROC ↑ | 0.100 |" in text


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


def test_what_shows_rows_of_another_profile_says_so_where_it_stands_beside_the_rest(tmp_path):
    quick = Saver(profile="quick", data="real", folder=tmp_path, remark="A tenth of the signal.")
    saved = quick.made_at("paper").table(pd.DataFrame({"a": [1]}), "full", caption="All rows")
    text = saved.markdown.read_text() if hasattr(saved, "markdown") else saved.md.read_text()
    assert saved.csv.parent == tmp_path and "profile paper" in text and "signal" not in text
    assert pd.read_csv(saved.csv)["profile"].tolist() == ["paper"]
    usual = Saver(profile="quick", data="standin").made_at("paper").folder
    assert usual.name == "quick-standin"


def test_a_saver_says_profile_and_data_once(awkward):
    saver = Saver(profile="quick", data="standin")
    drawn = saver.figure(small_figure(), "f", note="no DP", alt="a line")
    assert drawn.png.parent.name == "quick-standin" and drawn.alt == "a line"
    table = saver.table(awkward, "t", caption="c", decimals=1)
    assert saver.figure(small_figure(), "f", data="none").png.parent.name == "quick"
    other = save_table(awkward, "t2", profile="quick", data="standin", caption="c", decimals=1)
    assert table.csv.read_bytes() == other.csv.read_bytes()


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


def test_methods_of_chapter_7_differ_in_marker_and_in_colour_and_audited_ones_in_the_pair():
    drawn = [name for name in side_by_side.ENTRANTS if "FedPGM" not in name]  # in tables alone
    entrants = [look(name) for name in drawn]
    assert len({each.marker for each in entrants}) == len(entrants)  # told apart in greyscale
    assert len({each.colour for each in entrants}) == len(entrants)
    audited = [look(name) for name in {line.method for line in table.load()}]
    assert len({(each.colour, each.marker) for each in audited}) == len(audited)


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


def test_names_without_a_look_get_the_next_free_one_and_levels_keep_theirs():
    found = style.looks(["FedBN", "mine", "ε = 1.6", "yours"])
    assert found["FedBN"] == look("fedbn") and found["ε = 1.6"] == style.LEVELS["ε = 1.6"]
    assert [found["mine"], found["yours"]] == list(style.FREE[:2])
    colours = [(free.colour, free.marker) for free in style.FREE]
    assert len(set(colours)) == len(style.FREE)


def test_long_labels_break_before_the_unit_and_keep_their_arrow():
    assert style.wrapped("workload error (L1, 0 to 2) ↓") == "workload error\n(L1, 0 to 2)\xa0↓"
    assert style.wrapped("JSD (0 to 1) ↓") == "JSD (0 to 1)\xa0↓"
    assert style.title("epsilon", float("inf")) == "no DP" and style.title("node", "2") == "node 2"


def test_a_legend_takes_as_many_lines_as_fit_and_the_figure_grows_by_them():
    fig, axes = style.panels(4, 3, height=1.0)
    assert len(axes) == 4 and len(fig.axes) == 6 and not fig.axes[5].axison
    before = fig.get_figheight()
    names = [f"a name of some length {number}" for number in range(7)]
    style.legend(fig, [style.handle(look("aim"), name) for name in names])
    box = fig.legends[0].get_window_extent()
    assert box.width <= fig.bbox.width and fig.get_figheight() >= before + 0.32
