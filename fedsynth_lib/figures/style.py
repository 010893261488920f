"""The look of all figures, and saving figures and tables under the name of their exhibit.

A method keeps its colour, marker and line everywhere; colours are those of Okabe and Ito (safe for
the colour-blind), and markers, lines and hatches carry the same distinction in greyscale. Every
saved file says from which profile and which data it was made, and a stand-in says so in red. Files
hold no dates: making the same figure twice gives the same bytes.
"""

import io
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from fedsynth_lib import __version__
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import log_event, project_root, write_atomically
from fedsynth_lib.runs.rows import folder_name

COLUMN_WIDTH, FULL_WIDTH = 3.4, 7.0  # inches
BLACK, GREY, ORANGE, SKY, GREEN = "#000000", "#7F7F7F", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, BROWN = "#0072B2", "#D55E00", "#CC79A7", "#7A4B2A"


@dataclass(frozen=True)
class Look:
    """How one method or setting is drawn, everywhere."""

    colour: str
    marker: str
    line: str = "-"
    hatch: str = ""


METHODS = {
    "real": Look(GREY, "d", "-"),
    "independent": Look(GREY, "x", ":", "xx"),
    # martinez2024
    "fedbn": Look(BLUE, "o", "-"),
    "fedvae": Look(ORANGE, "s", "--", "//"),
    # leitner2023, and the two DP-CTGANs of maddock2024
    "ctgan": Look(BLACK, "o", "-"),
    "dpctgan": Look(PURPLE, "v", ":", ".."),
    "fedtgan": Look(GREEN, "s", "--", "//"),
    "fedctgan": Look(BLUE, "^", "-.", "\\\\"),
    "dpfedctgan": Look(VERMILLION, "X", ":", "xx"),
    "feddpctgan": Look(VERMILLION, "X", ":", "xx"),
    # maddock2024
    "aim": Look(BLACK, "o", "-"),
    "distaim": Look(BLUE, "s", "--", "//"),
    "naiveflaim": Look(ORANGE, "^", "-.", "\\\\"),
    "augflaimoracle": Look(SKY, "D", ":", ".."),
    "augflaimprivate": Look(GREEN, "P", "-", "++"),
    "flaimrandom": Look(GREY, "*", "--", "--"),
    "fednaivebayes": Look(BROWN, "<", "-.", "||"),
    # apellaniz2025, and the server optimisers of sattarov2024
    "isolated": Look(BLACK, "o", ":"),
    "fedavg": Look(ORANGE, "s", "--", "//"),
    "sds": Look(GREEN, "^", "-", "\\\\"),
    "vaebgm": Look(GREEN, "^", "-", "\\\\"),
    "dpvaebgm": Look(SKY, "v", "-.", ".."),
    "fedadam": Look(BLUE, "^", "-.", "\\\\"),
    "fedprox": Look(PURPLE, "v", ":", ".."),
    "fedyogi": Look(GREEN, "P", "-", "++"),
    # sattarov2024
    "findiff": Look(BLACK, "o", "-"),
    "fedfindiff": Look(SKY, "<", "--", "||"),
    "dpfedfindiff": Look(BROWN, "p", ":", "xx"),
}
SETTINGS = {
    "central": Look(BLACK, "o", "-"),
    "federated": Look(BLUE, "s", "-", "//"),
    "local": Look(ORANGE, "^", "--", "\\\\"),
    "real": Look(GREY, "d", ":", ".."),
}
METRIC_LABELS = {
    "hellinger": "Hellinger distance",
    "pcd": "pairwise correlation difference",
    "pmse": "propensity MSE",
    "log_cluster": "log-cluster",
    "auc_rf": "AUC, random forest",
    "auc_nb": "AUC, naive Bayes",
    "auc_knn": "AUC, k-NN",
    "auc_gbt": "AUC, gradient boosting",
    "workload_error": "workload error (L1, 0 to 2)",
    "nll": "negative log-likelihood (nats per row)",
    "client_throughput_mb": "client traffic (MB)",
    "dcr_min": "smallest DCR",
    "dcr_share": "share nearer to training rows",
    "dcr_avg_train": "mean DCR to training rows",
    "dcr_avg_holdout": "mean DCR to hold-out rows",
}
PARTITION_LABELS = {"iid": "i.i.d.", "none": "central"}


def use_style() -> None:
    """Switch matplotlib to the look of this bundle."""
    plt.style.use(Path(__file__).with_name("paper.mplstyle"))


def look(name: str) -> Look:
    """The look of a setting or method, however it is spelt (`AugFLAIM (Private)`,
    `augflaim_private`)."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    found = SETTINGS.get(plain) or METHODS.get(plain)
    if found is None:
        raise BadInput(f"no colour is set for {name!r}: add it to METHODS in figures/style.py.")
    return found


def pretty(name: str) -> str:
    """A metric or partition as it is written on an axis."""
    return METRIC_LABELS.get(name) or PARTITION_LABELS.get(name) or name.replace("_", " ")


def level_name(epsilon: float) -> str:
    """A level of privacy as the tables name it."""
    return "no DP" if np.isinf(epsilon) else f"ε = {epsilon:g}"


def provenance(profile: str, data: str) -> str:
    """The line that every saved figure and table carries."""
    source = "STAND-IN DATA" if data == "standin" else f"data {data}"
    return f"profile {profile} · {source} · fedsynth {__version__}"


# --- save ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SavedFigure:
    """Where a figure was saved; shows itself in a notebook exactly as saved."""

    png: Path
    pdf: Path
    width: int  # pixels on the screen
    alt: str

    def __repr__(self) -> str:
        # executed notebooks name no machine's folders
        return str(self.png.relative_to(project_root()))

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
        return str(self.md.relative_to(project_root()))

    def _repr_html_(self) -> str:
        return self.html


def save_figure(
    fig: Figure, exhibit: str, *, profile: str, data: str, note: str = "", alt: str = ""
) -> SavedFigure:
    """Write figures/<profile>/<exhibit>.png and .pdf with a footer that says what it was made from.

    exhibit: `<work>_<exhibit>`, such as `martinez2024_fig5.4`. note: added to the footer.
    alt: what the figure shows, for those who cannot see it.
    """
    folder = _folder(exhibit, profile, data)
    _footer(fig, profile, data, note)
    layout, paths = fig.get_layout_engine(), []
    for kind, metadata in (
        ("png", {"Software": None}),
        ("pdf", {"CreationDate": None, "Producer": None, "Creator": None}),
    ):
        buffer = io.BytesIO()
        fig.savefig(buffer, format=kind, dpi=300, metadata=metadata)
        # where many lines cross, 256 colours are a quarter of the size
        if kind == "png" and buffer.tell() > 1e6:
            picture, buffer = Image.open(buffer).convert("RGB"), io.BytesIO()
            picture.quantize(256, dither=Image.Dither.NONE).save(
                buffer, format="png", optimize=True
            )
        paths.append(folder / f"{exhibit}.{kind}")
        write_atomically(paths[-1], buffer.getvalue())
        _keep_layout(fig)
    fig.set_layout_engine(layout)
    plt.close(fig)  # or a notebook would show it twice
    log_event("figure", path=str(paths[0].relative_to(project_root())))
    return SavedFigure(*paths, width=round(110 * fig.get_figwidth()), alt=alt or exhibit)


def _keep_layout(fig: Figure) -> None:
    """Leave everything where it is for the next format: to lay it out anew takes as long as to draw
    it."""
    # what None asks for
    with plt.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        fig.set_layout_engine(None)


def save_table(
    frame: pd.DataFrame, exhibit: str, *, profile: str, data: str, caption: str, decimals: int = 3
) -> SavedTable:
    """Write figures/<profile>/<exhibit>.csv, .md and .tex (booktabs), each with the provenance
    inside.

    The CSV has numbers with the 10 significant digits of rows, on which machines agree, and
    profile, data and version as columns; the others show `decimals` decimals. An index becomes the
    leading columns, unless it is row numbers: whole numbers without a name.
    """
    folder = _folder(exhibit, profile, data)
    plain_index = pd.api.types.is_integer_dtype(frame.index.dtype) and frame.index.name in (
        None,
        "",
    )
    flat = frame if plain_index else frame.reset_index()
    index_columns = flat.shape[1] - frame.shape[1]
    header = [
        [str(part) for part in (name if isinstance(name, tuple) else (name,))]
        for name in flat.columns
    ]
    names = [" ".join(filter(None, parts)) for parts in header]
    text = [[_shown(value, decimals) for value in row] for row in flat.itertuples(index=False)]
    line = provenance(profile, data)

    table = (
        flat.set_axis(names, axis=1)
        .apply(_rounded)
        .assign(profile=profile, data=data, version=__version__)
    )
    contents = {
        "csv": table.to_csv(index=False, lineterminator="\n"),
        "md": _markdown(names, text, f"{caption}  \n*{line}*"),
        "tex": _latex(header, text, index_columns, f"{caption} ({line})", exhibit),
    }
    paths = {kind: folder / f"{exhibit}.{kind}" for kind in contents}
    for kind, content in contents.items():
        write_atomically(paths[kind], content.encode())
    log_event("figure", path=str(paths["md"].relative_to(project_root())))
    shown = pd.DataFrame(text, columns=names).to_html(index=False, border=0)
    return SavedTable(
        **paths, html=f"<p>{_html(caption)}<br><small>{_html(line)}</small></p>{shown}"
    )


def _folder(exhibit: str, profile: str, data: str) -> Path:
    if not re.fullmatch(r"[\w.-]+", exhibit):
        raise BadInput(
            f"the exhibit {exhibit!r} becomes a file name: use letters, digits, '_', '-' and '.'."
        )
    return project_root() / "figures" / folder_name(profile, data)


def _footer(fig: Figure, profile: str, data: str, note: str) -> None:
    """The provenance, and the note below it, under the figure in space of their own."""
    for text in [text for text in fig.texts if text.get_gid() == "footer"]:
        text.remove()  # saved before
    if fig.get_layout_engine() is None:
        fig.set_layout_engine("constrained")
    lines = [provenance(profile, data), *textwrap.wrap(note, width=int(16 * fig.get_figwidth()))]
    share = (0.05 + 0.13 * len(lines)) / fig.get_figheight()  # 0.13 inches a line
    fig.get_layout_engine().set(rect=(0, share, 1, 1 - share))
    style = {"color": "#C00000", "weight": "bold"} if data == "standin" else {"color": "#555555"}
    at = (0.04 / fig.get_figwidth(), 0.02 / fig.get_figheight())
    fig.text(*at, "\n".join(lines), gid="footer", fontsize=7, va="bottom", ha="left", **style)


def _rounded(column: pd.Series) -> pd.Series:
    """A column whose floats have the significant digits of rows (10); counts and texts as they
    are."""

    def ten_digits(value: Any) -> Any:
        return float(f"{value:.10g}") if isinstance(value, float | np.floating) else value

    return column.map(ten_digits) if column.dtype.kind in "fO" else column


def _shown(value: Any, decimals: int) -> str:
    """A table entry as text."""
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return "–"
        return "∞" if np.isinf(value) else f"{value:.{decimals}f}"
    return "–" if value is None or value is pd.NA else str(value)


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _markdown(names: list[str], text: list[list[str]], caption: str) -> str:
    rows = [names, ["---"] * len(names), *text]
    lines = ["| " + " | ".join(entry.replace("|", "\\|") for entry in row) + " |" for row in rows]
    return "\n".join([caption, "", *lines, ""])


LATEX = {
    **{symbol: f"\\{symbol}" for symbol in "&%$#_{}"},
    **{
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "±": "$\\pm$",
    },
    **{
        "ε": "$\\varepsilon$",
        "∞": "$\\infty$",
        "–": "--",
        "·": "$\\cdot$",
        "≠": "$\\neq$",
        "≈": "$\\approx$",
    },
    **{"<": "$<$", ">": "$>$", "−": "$-$", "×": "$\\times$"},
}


def _escape(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def _latex(
    header: list[list[str]], text: list[list[str]], index_columns: int, caption: str, label: str
) -> str:
    """A booktabs table; equal neighbours on the upper header levels are joined."""
    columns = "l" * max(1, index_columns) + "r" * (len(header) - max(1, index_columns))
    head = []
    for level in range(len(header[0])):
        cells, start = [], 0
        while start < len(header):
            end = start + 1
            upper = level < len(header[0]) - 1 and header[start][level]
            while (
                upper
                and end < len(header)
                and header[end][: level + 1] == header[start][: level + 1]
            ):
                end += 1
            entry = _escape(header[start][level])
            cells.append(
                f"\\multicolumn{{{end - start}}}{{c}}{{{entry}}}" if end - start > 1 else entry
            )
            start = end
        head.append(" & ".join(cells) + " \\\\")
    body = [" & ".join(map(_escape, row)) + " \\\\" for row in text]
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_escape(caption)}}}",
        f"\\label{{tab:{label}}}",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{columns}}}",
        *("\\toprule", *head, "\\midrule", *body, "\\bottomrule"),
        "\\end{tabular}}",
        "\\end{table}",
        "",
    ]
    return "\n".join(lines)
