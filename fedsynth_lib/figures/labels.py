"""Text in pictures: drawn as it stands, in fonts that have its letters, and cut where it is long.

Names of columns and categories come from tables of users: `$`, `_` and `^` are letters there. The
one text that is mathematics are the powers of ten on logarithmic axes.
"""

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.scale import LogScale, SymmetricalLogScale, register_scale
from matplotlib.text import Text
from matplotlib.ticker import LogFormatterSciNotation

MOST = 40  # letters of a name; no column of a registered table that is drawn has more
BESIDE = 24  # of one that stands beside an axis
FALLBACKS = (  # fonts that have what DejaVu Sans lacks, where one of them is installed
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Noto Sans KR"),
    *("Hiragino Sans", "PingFang SC", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic"),
    *("WenQuanYi Micro Hei", "IPAexGothic", "NanumGothic", "Noto Sans Arabic", "Noto Sans Hebrew"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Segoe UI Emoji", "Symbola"),
    *("Arial Unicode MS", "Unifont"),
)
MISSING = r"Glyph \d+ .* missing from font"


def use_plain_text() -> None:
    """Switch matplotlib to text as it stands, and to fonts for letters of other scripts."""
    mpl.rcParams["text.parse_math"] = False
    installed = set(font_manager.get_font_names())
    mpl.rcParams["font.family"] += [name for name in FALLBACKS if name in installed]
    for scale in (Log, SymmetricalLog):
        register_scale(scale)
    # a warning for each letter and each drawing; the footer says it once
    warnings.filterwarnings("ignore", MISSING, UserWarning)


# --- long names ----------------------------------------------------------------------------------


def short(name: object, most: int = MOST, *, keep: str = "") -> str:
    """Cut a name to `most` letters, in the middle, as names often differ at their ends.

    Control characters, which no font has, become spaces, but for those in `keep`.
    """
    text = "".join(
        " " if unicodedata.category(letter) in ("Cc", "Cs") and letter not in keep else letter
        for letter in str(name)
    )
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def shorts(names: Iterable[object], most: int = MOST) -> list[str]:
    """Names as `short` has them; those that it makes alike are numbered."""
    names = list(names)
    cut = [short(name, most) for name in names]
    common, seen = Counter(cut), Counter()
    for place, (name, text) in enumerate(zip(names, cut, strict=True)):
        if common[text] > 1 and len(str(name)) > most:
            seen[text] += 1
            number = f" ({seen[text]})"
            cut[place] = short(name, most - len(number)) + number
    return cut


# --- letters without a glyph ---------------------------------------------------------------------


def boxes(fig: Figure) -> str:
    """One sentence on the letters of a figure that no font has; empty where there are none."""
    used = {letter for text in fig.findobj(Text) for letter in text.get_text()}
    seen = {letter for letter in used if unicodedata.category(letter)[0] not in "CZM"}
    for family in mpl.rcParams["font.family"]:
        if not seen:
            return ""
        known = font_manager.get_font(font_manager.findfont(family)).get_charmap()
        seen = {letter for letter in seen if ord(letter) not in known}
    letters = f"{len(seen)} letters" if len(seen) > 1 else "a letter"
    return f"Boxes: {letters} that no installed font has (Noto fonts do)." if seen else ""


# --- logarithmic axes ----------------------------------------------------------------------------


class Powers(LogFormatterSciNotation):
    """Write powers of ten as mathematics.

    Ticks are told so each time, since an axis makes new ones as it needs them. Panels that share an
    axis share its formatter, which knows one of them only.
    """

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        """Mark the ticks of all panels that share the axis as mathematics."""
        axes, name = self.axis.axes, self.axis.axis_name
        ticks = "minor" if self.axis.get_minor_formatter() is self else "major"
        for panel in getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes):
            axis = getattr(panel, f"{name}axis")
            for tick in getattr(axis, f"get_{ticks}_ticks")(len(values)):
                tick.label1.set_parse_math(True)
                tick.label2.set_parse_math(True)
        return super().format_ticks(values)


class Log(LogScale):
    """matplotlib's `log`, with `Powers`."""

    def __init__(self, *before: object, **options: object):  # the axis, before matplotlib 3.11
        super().__init__(*before, **options)

    def set_default_locators_and_formatters(self, axis: mpl.axis.Axis) -> None:
        """Use `Powers` for both kinds of ticks."""
        super().set_default_locators_and_formatters(axis)
        axis.set_major_formatter(Powers(self.base))
        axis.set_minor_formatter(Powers(self.base, labelOnlyBase=self.subs is not None))


class SymmetricalLog(SymmetricalLogScale):
    """matplotlib's `symlog`, with `Powers`."""

    def __init__(self, *before: object, **options: object):
        super().__init__(*before, **options)

    def set_default_locators_and_formatters(self, axis: mpl.axis.Axis) -> None:
        """Use `Powers` for the major ticks."""
        super().set_default_locators_and_formatters(axis)
        axis.set_major_formatter(Powers(self.base))
