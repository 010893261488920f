"""Text in pictures: names of users' columns and categories as they stand, in a length that fits."""

import io
import warnings

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from fedsynth_lib.figures import labels
from fedsynth_lib.figures.bars import client_bars
from fedsynth_lib.figures.distributions import _categories, distributions
from fedsynth_lib.figures.heatmap import heatmap
from fedsynth_lib.figures.save import save_figure
from fedsynth_lib.figures.style import use_style
from fedsynth_lib.runs.names import with_table_names
from fedsynth_lib.tables.schema import Column, Schema

pytestmark = pytest.mark.usefixtures("home", "style")

MONEY = ("$0_$25k", "$25,000-$49,999", r"a\b^2_{c}", "$\\frac{")
ENDS = (
    "the one of them " + "x" * 300 + " ends here",
    "the one of them " + "y" * 300 + " ends here",
)


def drawn(**options) -> bytes:
    fig = plt.figure(figsize=(2, 1))
    fig.text(0.1, 0.5, **options)
    fig.savefig(content := io.BytesIO(), format="png")
    return content.getvalue()


def frame(*columns: Column) -> pd.DataFrame:
    """Rows in which each category occurs as often as the others."""
    made = {}
    for column in columns:
        values = np.resize(np.array(column.categories, dtype=object), 60)
        made[column.name] = pd.Categorical(values, categories=list(column.categories))
    return pd.DataFrame(made)


def texts(fig) -> list[str]:
    return [text.get_text() for text in fig.findobj(Text) if text.get_text()]


def pictures(*columns: Column) -> dict:
    """The pictures that show columns and categories of a user's table."""
    rows = frame(*columns)
    names = list(rows)
    square = pd.DataFrame(np.eye(len(names)), names, names)
    return {
        "distributions": distributions(rows, Schema(columns), {"aim": rows}),
        "maps": heatmap({"real": square, "AIM": square}, scale=(-1, 1)),
        "bars": client_bars(rows[names[0]], {"iid": [np.arange(30), np.arange(30, 60)]}),
    }


@pytest.mark.parametrize("text", ["$a$ and $b$", *MONEY[2:]])
def test_a_label_is_no_mathematics(text):
    assert drawn(s=text) == drawn(s=text.replace("$", r"\$"), parse_math=True)
    assert drawn(s=text) != drawn(s=text.replace("$", "").replace("\\", ""))


def test_powers_on_logarithmic_axes_are_mathematics_as_ever():
    def axes() -> bytes:
        fig, ax = plt.subplots()
        ax.plot([1e-3, 1, 1e5], [0, 2, 4e4])
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=0.1)
        fig.savefig(content := io.BytesIO(), format="png")
        return content.getvalue()

    plain = axes()
    with plt.rc_context({"text.parse_math": True}):
        assert axes() == plain


def test_panels_that_share_a_logarithmic_axis_all_have_powers():
    fig, axes = plt.subplots(1, 2, sharey=True)
    for ax in axes:
        ax.plot([1, 1_000])
        ax.set_yscale("log")
    fig.canvas.draw()
    ticks = [tick.label1 for ax in axes for tick in ax.yaxis.get_major_ticks()]
    assert all(label.get_parse_math() and "10^" in label.get_text() for label in ticks)


@pytest.mark.slow
def test_dollars_and_signs_of_tex_reach_every_picture_as_they_are():
    named = [Column("$in_come^2$", "categorical", categories=MONEY), *others()]
    for name, fig in pictures(*named).items():
        save_figure(fig, name, profile="quick", data="own")
        assert any("$in_come^2$" in text for text in texts(fig)), name


def others() -> list[Column]:
    return [Column("ill", "categorical", categories=("no", "yes"))]


@pytest.mark.slow
def test_long_names_and_categories_are_cut_in_the_middle_and_stay_apart():
    named = [Column("age of " + "z" * 290 + " men", "categorical", categories=ENDS), *others()]
    for name, fig in pictures(*named).items():
        save_figure(fig, name, profile="quick", data="own")
        shown = [text for text in texts(fig) if "profile" not in text]
        assert max(map(len, shown)) <= 2 * labels.MOST, name
        assert any(text.startswith("age") and "…" in text for text in shown), name
        widest = max(text.get_window_extent().width for text in fig.findobj(Text))
        assert widest <= fig.bbox.width, name
    (ax, *_) = pictures(*named)["distributions"].axes
    ticks = [tick.get_text() for tick in ax.get_yticklabels()]
    assert len(set(ticks)) == 2 and max(map(len, ticks)) <= 14


def test_a_name_is_cut_only_where_it_is_long():
    assert labels.short("x" * 40) == "x" * 40
    assert (
        labels.short("ab" + "x" * 40 + "yz", 10) == "abxxx…xxyz"
        and len(labels.short("x" * 99)) == 40
    )
    assert labels.short("a\x00b\nc") == "a b c" and labels.short("a\nb", keep="\n") == "a\nb"
    assert labels.shorts(["x" * 99, "x" * 100, "y"], 12) == ["xxxx…xxx (1)", "xxxx…xxx (2)", "y"]


def test_letters_that_no_font_has_are_told_once_and_not_warned_of():
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    fig, ax = plt.subplots()
    ax.set(title="日本の年齢", xlabel="ε ≥ ½ \N{ARABIC LETTER ALEF}é")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", labels.MISSING)  # as the style says
        save_figure(fig, "boxes", profile="quick", data="own")
    (footer,) = [text for text in texts(fig) if "profile" in text]
    assert footer.count("Boxes: 5 letters that no installed font has") == 1
    fig, ax = plt.subplots()
    ax.set_title("Größe é ε ≥ −1 ↑")
    assert labels.boxes(fig) == ""


def test_the_style_silences_a_warning_for_each_glyph(recwarn):
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    fig, ax = plt.subplots()
    ax.set_title("日本")
    use_style()
    fig.savefig(io.BytesIO())
    assert not [each for each in recwarn if "Glyph" in str(each.message)]


def test_other_scripts_are_drawn_in_fonts_that_are_installed(monkeypatch):
    monkeypatch.setattr(labels.font_manager, "get_font_names", lambda: ["Symbola", "Noto Emoji"])
    use_style()
    assert plt.rcParams["font.family"] == ["DejaVu Sans", "Noto Emoji", "Symbola"]


def test_the_first_letters_of_a_category_are_kept_where_they_tell_it_apart():
    names = pd.Index(["Married-civ-spouse", "Married-spouse-absent", "Divorced"])
    assert _categories(names) == ["Married-civ-s…", "Married-spous…", "Divorced"]
    assert _categories(pd.Index(["less than one hour", "less than one day"])) == [
        "less th…e hour",
        "less th…ne day",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "credit_default: 3 clients, bank_additional",
            "credit default: 3 clients, bank additional",
        ),
        (
            "-p datasets=credit_default,bank_additional",
            "-p datasets=credit_default,bank_additional",
        ),
        ("data/raw/credit_default", "data/raw/credit_default"),
    ],
)
def test_tables_are_named_as_people_read_them_but_for_code(text, shown):
    assert with_table_names(text) == shown
