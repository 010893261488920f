"""Saving figures and tables under the name of their exhibit.

Every saved file says from which profile and which data it was made, and a stand-in says so in red.
Files hold no dates: making the same figure twice gives the same bytes.
"""

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from fontTools import subset
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fedsynth_lib import __version__
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import log_event, within, write_atomically
from fedsynth_lib.figures.labels import boxes
from fedsynth_lib.metrics.registry import LABELS, MEASURES, axis_label
from fedsynth_lib.printed.entries import in_columns
from fedsynth_lib.runs.names import with_table_names
from fedsynth_lib.runs.rows import RESULTS, figures_folder


def provenance(profile: str, data: str) -> str:
    """Return the line that every saved figure and table carries."""
    source = "STAND-IN DATA" if data == "standin" else f"data {data}"
    return f"profile {profile} · {source} · fedsynth {__version__}"


def warned(text: str, profile: str, data: str) -> str:
    """Return the first line of a figure or table, which marks small live runs."""
    small = profile != RESULTS and data in ("real", "standin")
    return f"Small live run, no result. {text}" if small else text


DPI = 300  # of a PNG, and of pictures within a PDF
UNDATED = ("CreationDate", "Producer", "Creator")  # fields of a PDF
# A PDF names glyphs by number: tables for laying out text have no use in its fonts, and reading
# them takes half of its time.
getattr(subset.Options, "_drop_tables_default", []).extend(["GSUB", "GPOS", "GDEF"])


@dataclass(frozen=True, repr=False)
class SavedFigure:
    """Where a figure was saved; shows itself in a notebook exactly as saved."""

    png: Path
    pdf: Path
    width: int  # pixels on the screen
    alt: str

    def __repr__(self) -> str:
        """Return its place in the project."""
        return within(self.png)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        return {"image/png": self.png.read_bytes()}, {
            "image/png": {"width": self.width, "alt": self.alt}
        }


@dataclass(frozen=True, repr=False)
class SavedTable:
    """Where a table was saved; shows itself in a notebook."""

    csv: Path
    md: Path
    tex: Path
    html: str

    def __repr__(self) -> str:
        """Return its place in the project."""
        return within(self.md)

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True)
class Saver:
    """Saves what one notebook makes from one source of data.

    profile: of the run. data: `real`, `standin`, `own`, or `none` for what no table went into.
    folder: of the files; None: the one of figures of this profile and data. remark: what every note
        and caption says besides, as of the signal-to-noise of shrunk private runs.
    """

    profile: str
    data: str
    folder: Path | None = None
    remark: str = ""

    def figure(
        self, fig: Figure, exhibit: str, *, note: str = "", alt: str = "", data: str = ""
    ) -> SavedFigure:
        """As `save_figure`. data: instead of the saver's own, for this file."""
        source = {"profile": self.profile, "data": data or self.data, "folder": self.folder}
        note = " ".join(filter(None, (note, self.remark)))
        return save_figure(fig, exhibit, **source, note=note, alt=alt)

    def table(
        self,
        frame: pd.DataFrame,
        exhibit: str,
        *,
        caption: str,
        decimals: int = 3,
        data: str = "",
    ) -> SavedTable:
        """As `save_table`. data: instead of the saver's own, for this file."""
        source = {"profile": self.profile, "data": data or self.data, "folder": self.folder}
        words = f"{caption.rstrip('.')}. {self.remark}" if self.remark else caption
        return save_table(frame, exhibit, **source, caption=words, decimals=decimals)

    def made_at(self, profile: str, *, remark: str = "") -> "Saver":
        """Return a saver for what rows of another profile show.

        It saves into the same folder, with that provenance, and without what this one remarks of
        its own runs.
        """
        folder = self.folder or figures_folder(self.profile, self.data)
        return replace(self, profile=profile, folder=folder, remark=remark)


def save_figure(
    fig: Figure,
    exhibit: str,
    *,
    profile: str,
    data: str,
    note: str = "",
    alt: str = "",
    folder: Path | None = None,
) -> SavedFigure:
    """Write figures/<exhibit>.png and .pdf with a footer that says what it was made from.

    exhibit: `<work>_<exhibit>`. note: added to the footer.
    alt: what the figure shows, for those who cannot see it. folder: instead of `figures_folder`.
    """
    folder = _folder(exhibit, profile, data, folder)
    _footer(fig, profile, data, with_table_names(" ".join(filter(None, (note, boxes(fig))))))
    png, pdf = (folder / f"{exhibit}.{kind}" for kind in ("png", "pdf"))
    with _laid_out(fig):
        # 256 colours look the same, and are a third of the size of a clone
        picture = _pixels(fig).quantize(256, dither=Image.Dither.NONE)
        picture.save(buffer := io.BytesIO(), format="png", optimize=True)
        write_atomically(png, buffer.getvalue())
        # without what differs from run to run
        fig.savefig(buffer := io.BytesIO(), format="pdf", dpi=DPI, metadata=dict.fromkeys(UNDATED))
        write_atomically(pdf, buffer.getvalue())
    plt.close(fig)  # or a notebook would show it twice
    log_event("figure", path=within(png))
    return SavedFigure(png, pdf, width=round(110 * fig.get_figwidth()), alt=alt or exhibit)


def _pixels(fig: Figure) -> Image.Image:
    """Draw a figure at the resolution of its file, without the detour through a PNG."""
    shown, fig.dpi = fig.dpi, DPI
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    fig.dpi = shown
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


@contextmanager
def _laid_out(fig: Figure) -> Iterator[None]:
    """Place everything once, at the resolution of the file.

    `savefig` would draw the whole figure once more to find its layout, for each format.
    """
    layout, shown = fig.get_layout_engine(), fig.dpi
    fig.dpi = DPI
    layout.execute(fig)
    fig.dpi = shown
    # what None asks for, here and where `savefig` puts it back
    with plt.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        fig.set_layout_engine(None)
        yield
    fig.set_layout_engine(layout)


def save_table(
    frame: pd.DataFrame,
    exhibit: str,
    *,
    profile: str,
    data: str,
    caption: str,
    decimals: int = 3,
    folder: Path | None = None,
) -> SavedTable:
    """Write figures/<exhibit>.csv, .md and .tex (booktabs), each with the provenance inside.

    The CSV has columns as they are named, numbers with the 10 significant digits of rows, on which
    machines agree, those of an entry (`printed.entries`) in columns of their own, and profile, data
    and version as columns; the others have readable heads and `decimals` decimals. An index becomes
    the leading columns, unless it is row numbers: whole numbers without a name.
    """
    folder = _folder(exhibit, profile, data, folder)
    plain_index = pd.api.types.is_integer_dtype(frame.index.dtype) and frame.index.name in (
        None,
        "",
    )
    flat = frame if plain_index else frame.reset_index()
    index_columns = flat.shape[1] - frame.shape[1]
    header = [[str(part) for part in np.atleast_1d(name)] for name in flat.columns]
    names = [" ".join(filter(None, parts)) for parts in header]
    words = [[_words(part) for part in parts] for parts in header]
    heads = [" ".join(filter(None, parts)) for parts in words]
    text = [
        [
            _metric(value) if name == "metric" else _shown(value, decimals)
            for name, value in zip(names, row, strict=True)
        ]
        for row in flat.itertuples(index=False)
    ]
    line = provenance(profile, data)
    caption = with_table_names(warned(caption, profile, data))

    table = (
        in_columns(flat.set_axis(names, axis=1))
        .apply(_rounded)
        .assign(profile=profile, data=data, version=__version__)
    )
    contents = {
        "csv": table.to_csv(index=False, lineterminator="\n"),
        "md": _markdown(heads, text, f"{caption}  \n*{line}*"),
        "tex": _latex(
            pd.DataFrame(text, columns=pd.MultiIndex.from_tuples(map(tuple, words))),
            index_columns,
            f"{caption} ({line})",
            exhibit,
        ),
    }
    paths = {kind: folder / f"{exhibit}.{kind}" for kind in contents}
    for kind, content in contents.items():
        write_atomically(paths[kind], content.encode())
    log_event("figure", path=within(paths["md"]))
    shown = pd.DataFrame(text, columns=heads).to_html(index=False, border=0)
    return SavedTable(
        **paths, html=f"<p>{_html(caption)}<br><small>{_html(line)}</small></p>{shown}"
    )


def _folder(exhibit: str, profile: str, data: str, folder: Path | None = None) -> Path:
    if not re.fullmatch(r"[\w.-]+", exhibit):
        raise BadInput(
            f"the exhibit {exhibit!r} becomes a file name: use letters, digits, '_', '-' and '.'."
        )
    return folder or figures_folder(profile, data)


def _footer(fig: Figure, profile: str, data: str, note: str) -> None:
    """Write the provenance, and the note below it, under the figure in space of their own."""
    for text in [text for text in fig.texts if text.get_gid() == "footer"]:
        text.remove()  # saved before
    if fig.get_layout_engine() is None:
        fig.set_layout_engine("constrained")
    first = warned(provenance(profile, data), profile, data)
    lines = [first, *textwrap.wrap(note, width=int(16 * fig.get_figwidth()))]
    share = (0.05 + 0.13 * len(lines)) / fig.get_figheight()  # 0.13 inches a line
    fig.get_layout_engine().set(rect=(0, share, 1, 1 - share))
    style = {"color": "#C00000", "weight": "bold"} if data == "standin" else {"color": "#555555"}
    at = (0.04 / fig.get_figwidth(), 0.02 / fig.get_figheight())
    fig.text(*at, "\n".join(lines), gid="footer", fontsize=7, va="bottom", ha="left", **style)


def _rounded(column: pd.Series) -> pd.Series:
    """Round floats to the significant digits of rows (10); leave counts and texts as they are."""

    def ten_digits(value: Any) -> Any:
        return float(f"{value:.10g}") if isinstance(value, float | np.floating) else value

    return column.map(ten_digits) if column.dtype.kind in "fO" else column


def _words(part: str) -> str:
    """Write a part of a column's name as people read it.

    A measure is written as on an axis, also where its label names it, other keys with spaces.

    `share`, `rounds` and their like are words of their own, unless a work defines the measure.
    """
    if part in MEASURES and MEASURES[part].work:
        return axis_label(part)
    if part in LABELS:
        return LABELS[part]
    part = with_table_names(part)
    words = re.sub(r"\w*_\w*", lambda key: axis_label(key[0]), part)
    return re.sub(r"\bprinted\b", "published", words)


def _metric(value: Any) -> str:
    """Write an entry of a column of measures: a key, or a label."""
    return axis_label(value) if value in MEASURES else LABELS.get(value, _shown(value, 3))


def _shown(value: Any, decimals: int) -> str:
    """Write a table entry as text."""
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return "–"
        return "∞" if np.isinf(value) else f"{value:.{decimals}f}"
    return "–" if value is None or value is pd.NA else with_table_names(str(value))


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _markdown(names: list[str], text: list[list[str]], caption: str) -> str:
    rows = [names, ["---"] * len(names), *text]
    lines = ["| " + " | ".join(entry.replace("|", "\\|") for entry in row) + " |" for row in rows]
    return "\n".join([caption, "", *lines, ""])


ESCAPED = str.maketrans({symbol: f"\\{symbol}" for symbol in "&%$#_{}"})
# symbols that pdflatex does not know as letters
LATEX = str.maketrans(
    {"±": "$\\pm$", "×": "$\\times$", "·": "$\\cdot$", "−": "$-$", "<": "$<$", ">": "$>$"}
    | {"≠": "$\\neq$", "↕": "$\\updownarrow$", "∞": "$\\infty$", "–": "--", "†": "$\\dagger$"}
    | {"↓": "$\\downarrow$", "↑": "$\\uparrow$", "β": "$\\beta$", "ε": "$\\varepsilon$"}
    | {"Γ": "$\\Gamma$", "Π": "$\\Pi$", "Φ": "$\\Phi$", "Ω": "$\\Omega$"}
)


def _latex(table: pd.DataFrame, index_columns: int, caption: str, label: str) -> str:
    """Return a booktabs table that shrinks to the line.

    table: texts; what was in its index leads.
    """
    left = max(1, index_columns)
    columns = "l" * left + "r" * (table.shape[1] - left)
    escaped = table.style.hide(axis="index").format(escape="latex")
    escaped = escaped.format_index(escape="latex", axis="columns")
    body = escaped.to_latex(column_format=columns, hrules=True, multicol_align="c")
    return "\n".join(
        [
            "% needs \\usepackage{booktabs,graphicx}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{caption.translate(ESCAPED).translate(LATEX)}}}",
            f"\\label{{tab:{label}}}",
            "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
            body.translate(LATEX).rstrip() + "}",
            "\\end{table}",
            "",
        ]
    )
