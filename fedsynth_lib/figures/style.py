"""The look of all figures, and the words on their axes.

A method keeps its colour, marker and line everywhere; colours are those of Okabe and Ito (safe for
the colour-blind), and markers, lines and hatches carry the same distinction in greyscale.
"""

import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures import labels
from fedsynth_lib.metrics.registry import axis_label
from fedsynth_lib.runs.names import level_name, method_name, partition_name, with_table_names

COLUMN_WIDTH, FULL_WIDTH = 3.4, 7.0  # inches
BLACK, GREY, ORANGE, SKY, GREEN = "#000000", "#7F7F7F", "#E69F00", "#56B4E9", "#009E73"
# Runs behind a band or an interval, and behind a box; of fewer, the runs themselves are drawn.
FEWEST_IN_BAND, FEWEST_IN_BOX = 3, 5
BLUE, VERMILLION, PURPLE, BROWN, WINE = "#0072B2", "#D55E00", "#CC79A7", "#7A4B2A", "#882255"


@dataclass(frozen=True)
class Look:
    """How one method or setting is drawn, everywhere.

    published: the mark is hollow. A hollow mark means a published value in every figure, and
    nothing else.
    """

    colour: str
    marker: str
    line: str | tuple = "-"
    hatch: str = ""
    published: bool = False


METHODS = {  # those that are drawn beside each other differ in colour and in marker
    "independent": Look(GREY, ">", ":", "xx"),
    # a network and an autoencoder
    "fedbn": Look(BLUE, "D", "-"),
    "fedvae": Look(PURPLE, "s", "--", "//"),
    # generative adversarial networks
    "ctgan": Look(BLACK, "o", "-"),
    "dpctgan": Look(PURPLE, "v", ":", ".."),
    "fedtgan": Look(GREEN, "s", "--", "//"),
    "fedctgan": Look(BLUE, "^", "-.", "\\\\"),
    "dpfedctgan": Look(VERMILLION, "X", ":", "xx"),
    "feddpctgan": Look(VERMILLION, "H", ":", "xx"),
    # marginals, and the parts of AugFLAIM on their own
    "aim": Look(BLACK, "o", "-"),
    "distaim": Look(BLUE, "s", "--", "//"),
    "distaimannealed": Look(BLUE, "s", "--", "//"),
    "naiveflaim": Look(ORANGE, "^", "-.", "\\\\"),
    "augflaimoracle": Look(SKY, "D", ":", ".."),
    "augflaimprivate": Look(GREEN, "P", "-", "++"),
    "flaimrandom": Look(GREY, "*", "--", "--"),
    "fedpgm": Look(VERMILLION, "d", "-", "oo"),
    "fedpgmbins": Look(WINE, "h", "-"),
    "fedpgmprivatebins": Look(WINE, "h", "-"),
    "fedpgmcentral": Look(VERMILLION, "p", ":"),
    "fedpgmeveryyear": Look(VERMILLION, "v", ":"),
    "fedpgmtree": Look(PURPLE, "v", ":", ".."),
    "fednaivebayes": Look(BROWN, "<", "-.", "||"),
    "trueskewfilterandcombine": Look(SKY, "h", (0, (3, 1))),
    "privateskewonly": Look(GREEN, "X", ":"),
    # ways to share what nodes learned, and optimisers of the server
    "isolated": Look(BLACK, "o", ":"),
    "fedavg": Look(ORANGE, "s", "--", "//"),
    "sds": Look(GREEN, "^", "-", "\\\\"),
    "vaebgm": Look(GREEN, "^", "-", "\\\\"),
    "dpvaebgm": Look(SKY, "v", "-.", ".."),
    "fedadam": Look(BLUE, "^", "-.", "\\\\"),
    "fedprox": Look(PURPLE, "v", ":", ".."),
    "fedyogi": Look(GREEN, "P", "-", "++"),
    # diffusion
    "findiff": Look(WINE, "p", ":", "xx"),
    "dpfedfindiff": Look(WINE, "p", ":", "xx"),
}
SETTINGS = {
    "central": Look(BLACK, "o", "-"),
    "federated": Look(BLUE, "s", "-", "//"),
    "local": Look(ORANGE, "^", "--", "\\\\"),
    "real": Look(GREY, "d", ":", ".."),
    "realrows": Look(GREY, "d", ":", ".."),
}
TABLES = {  # where each has a line of its own
    "adult": Look(ORANGE, "s", "--", "\\\\"),
    "bank": Look(BLACK, "D", ":", "xx"),
    "cardio": Look(GREEN, "P", "-", "++"),
    "creditdefault": Look(BLUE, "o", "-", "//"),
    "philadelphia": Look(GREEN, "^", "-.", ".."),
}
# for names without a look: levels of privacy, classes, a method of one's own
FREE = (
    *(Look(BLACK, "o"), Look(BLUE, "s", "--", "//"), Look(VERMILLION, "^", ":", "..")),
    *(Look(GREEN, "D", "-.", "xx"), Look(PURPLE, "v", "-", "\\\\"), Look(ORANGE, "P", "--", "++")),
    *(Look(SKY, "X", ":", "||"), Look(BROWN, "<", "-.", "--")),
)
PARTITIONS = {
    "iid": "i.i.d.",
    "bmi_skew": "BMI skew, as run",
    "bmi_skew_text": "BMI skew, as described",
}
LEVELS = {
    "no DP": Look(BLACK, "o"),
    "ε = 1.6": Look(BLUE, "s", "--", "//"),
    "ε = 0.5": Look(VERMILLION, "^", ":", ".."),
}
SWEPT = {
    "epsilon": "privacy budget ε",
    "rounds": "global rounds T",
    "participation": "clients per round (share p)",
    "beta": "skew parameter β (large: less skew)",
    "local_rounds": "local rounds s",
    "n_clients": "clients",
}


def use_style() -> None:
    """Switch matplotlib to the look of this bundle."""
    plt.style.use(Path(__file__).with_name("paper.mplstyle"))
    labels.use_plain_text()


def look(name: str) -> Look:
    """Return the look of a level, setting, method or table, however it is spelt.

    `AugFLAIM (Private)` and `augflaim_private` are the same. Raises BadInput for a name that has
    none.
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    found = LEVELS.get(name) or (SETTINGS | METHODS | TABLES).get(plain)
    if found is None:
        raise BadInput(f"no colour is set for {name!r}: add it to METHODS in figures/style.py.")
    return found


def looks(names: Iterable[Any]) -> dict[Any, Look]:
    """Name -> its look, or the next free one for a name that has none of its own."""
    found, free = {}, itertools.cycle(FREE)
    for name in names:
        try:
            found[name] = look(str(name))
        except BadInput:
            found[name] = next(free)
    return found


def title(column: str, value: Any) -> str:
    """Write a value of a column of rows as titles and ticks name it."""
    if column == "epsilon":
        return level_name(float(value))
    if column == "metric":
        return axis_label(value)
    if column == "method":
        return method_name(value)
    if column == "dataset":
        return with_table_names(value).replace("_", " ")
    if column == "partition":
        return PARTITIONS.get(value) or partition_name(value)
    return f"node {value}" if column == "node" else f"{value}"


def wrapped(text: str, width: int = 22) -> str:
    """Break a label into lines of at most `width` letters.

    What is in brackets begins a line, and the arrow stays with the last word.
    """
    text = re.sub(r" (?=[↑↓])", "\N{NO-BREAK SPACE}", text)
    head, bracket, unit = text.partition(" (") if len(text) > width else (text, "", "")
    whole = {"break_on_hyphens": False, "break_long_words": False}
    lines = [head, f"({unit}"] if bracket else [head]
    return "\n".join(textwrap.fill(line, width, **whole) for line in lines)


# --- panels and legends --------------------------------------------------------------------------


def panels(
    number: int, columns: int, *, height: float, width: float = FULL_WIDTH, **shape: Any
) -> tuple[Figure, np.ndarray]:
    """Make a figure with so many axes in lines of at most `columns`, each `height` inches high.

    shape: what `plt.subplots` takes beside. Returns the figure and the axes; (number,). What is
    left of the last line is empty.
    """
    columns = min(columns, number)
    lines = -(-number // columns)
    size = (width, 0.3 + height * lines)
    fig, axes = plt.subplots(lines, columns, figsize=size, squeeze=False, **shape)
    for ax in axes.flat[number:]:
        ax.set_axis_off()
    return fig, axes.ravel()[:number]


def mark(style: Look, **changes: Any) -> dict[str, Any]:
    """Return what matplotlib needs to draw a look.

    Markers are hollow for published values; the others are filled, with a light rim, so that
    overlapping ones are seen.
    """
    shape = {"color": style.colour, "marker": style.marker, "linestyle": style.line}
    if style.published:
        shape |= {"markerfacecolor": "white", "markeredgecolor": style.colour}
    elif style.marker not in ("x", "+", "|", "_"):
        shape |= {"markeredgecolor": "white", "markeredgewidth": 0.4}
    return shape | changes


def handle(style: Look, label: str, **changes: Any) -> Line2D:
    """Make an entry of a legend."""
    return Line2D([], [], label=with_table_names(label), **mark(style, **changes))


def plain_log(ax: Axes) -> None:
    """Set a logarithmic axis of values, with plain numbers at 1, 2 and 5 of each power of ten."""
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")


def dots(ax: Axes, x: Sequence[float], y: Sequence[float], look: Look) -> None:
    """Draw single runs, in place of a bar or a band."""
    ax.plot(x, y, ".", color=look.colour, markersize=3, alpha=0.7)


def legend(fig: Figure, handles: Sequence[Any]) -> None:
    """Put the legend above the panels, in as many columns as fit.

    The figure grows by its lines.
    """
    for entry in handles:
        entry.set_label(labels.short(entry.get_label(), 2 * labels.MOST, keep="\n"))
    for beside in range(min(len(handles), 6), 0, -1):
        lines = -(-len(handles) // beside)
        columns = -(-len(handles) // lines)
        placed = fig.legend(handles=handles, loc="outside upper center", ncols=columns)
        if beside == 1 or placed.get_window_extent().width <= fig.bbox.width:
            break
        placed.remove()
    fig.set_figheight(fig.get_figheight() + 0.16 * lines)
