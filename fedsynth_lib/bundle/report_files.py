"""The tables and figures in figures/, and what executed notebooks say of them, for the report."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.metrics.registry import MEASURES, axis_label
from fedsynth_lib.printed.published import KEYS
from fedsynth_lib.runs.rows import PROFILES, figures_folder

KINDS = {".csv": "CSV", ".md": "Markdown", ".tex": "LaTeX", ".pdf": "PDF", ".png": "PNG"}
# name of a result -> folder, best first -> suffix -> file
Found = dict[str, dict[str, dict[str, Path]]]
# end of an entry -> class
MARKS = {"=": "within", "↕": "ordering", "≠": "different", "holds": "holds"}
MARKS |= {"partly": "partly", "not in full": "partly", "does not hold": "fails"}
# a cell of a column of numbers: no word of three letters or more
NUMBER = re.compile(r"(?!.*[^\W\d_]{3})\W*\d.*|[–∞]|inf|nan|")


@dataclass(frozen=True)
class Table:
    """A table of a page; the first entry of a row heads it."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    @cached_property
    def numeric(self) -> list[bool]:
        """For each column, whether it holds numbers, which are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return [any(column) and all(map(NUMBER.fullmatch, column)) for column in columns]

    def classes(self, row: Sequence[str]) -> list[str]:
        """For each entry of a row, its classes."""
        marks = [MARKS.get(entry) or MARKS.get(entry[-1:], "") for entry in row]
        return [
            f"{mark} number".strip() if number else mark
            for mark, number in zip(marks, self.numeric, strict=True)
        ]


def read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV as text; BadInput for a file that is not a table."""
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise BadInput(
            f"{path} cannot be read as a table ({error}): run its notebook again."
        ) from error


def read_table(files: Mapping[str, Path], title: str) -> Table:
    """Return a saved table, from its Markdown, which is rounded, or else from its CSV."""
    text = files[".md"].read_text(encoding="utf-8") if ".md" in files else ""
    rows = re.sub(" (?=[±=↕≠~])|(?<=±) ", "\N{NO-BREAK SPACE}", text).splitlines()
    lines = [re.split(r"(?<!\\) \| ", line[2:-2]) for line in rows if line[:2] == "| "]
    if lines:
        caption = text.splitlines()[0].strip().replace("`", "")
        lines = [[entry.replace("\\|", "|") for entry in line] for line in lines]
        return Table(caption, list(map(column_name, lines[0])), lines[2:])
    frame = read_csv(files[".csv"]).drop(columns=["profile", "data", "version"], errors="ignore")
    return Table(title, list(map(column_name, frame)), frame.to_numpy().tolist())


def column_name(name: str) -> str:
    """Return the head of a column: a measure with its unit and an arrow towards better."""
    first, _, rest = name.partition(" ")
    return f"{axis_label(first)} {rest}".strip() if first in MEASURES else name.replace("_", " ")


def published_table(values: pd.DataFrame, title: str) -> Table:
    """Return the published values of one table, a line each, with the notes on them."""
    columns = [*KEYS, "printed", "std", "significance", "note"]
    shown = values[columns].map(
        lambda entry: f"{entry:g}" if isinstance(entry, float) else str(entry), na_action="ignore"
    )
    shown = shown.dropna(axis=1, how="all").fillna("").rename(columns={"printed": "published"})
    shown["metric"] = shown["metric"].map(column_name)
    header = [name.replace("_", " ") for name in shown]
    return Table(f"{title}, as published", header, shown.to_numpy().tolist())


def find_results() -> Found:
    """Find every figure and table in the folders of the profiles, by its name without suffix.

    The best profile is first, and real tables before stand-ins.
    """
    found: Found = {}
    for data in ("real", "standin"):
        for profile in reversed(PROFILES):
            folder = profile if data == "real" else f"{profile}-{data}"
            for path in sorted(figures_folder(profile, data).glob("[!.]*")):
                if path.suffix in (".png", ".csv"):
                    own = {kind: path.with_name(path.stem + kind) for kind in KINDS}
                    files = {kind: each for kind, each in own.items() if each.is_file()}
                    found.setdefault(path.stem, {})[folder] = files
    return found


class Executed(NamedTuple):
    """Executed notebooks, and what they show.

    copies: stem -> profile -> file, the best first. alt: file of a picture -> its text. made_by:
    name of a figure or table -> stem of the notebook that shows it.
    """

    copies: dict[str, dict[str, Path]]
    alt: dict[Path, str]
    made_by: dict[str, str]


def find_executed() -> Executed:
    """Find the executed notebooks; one that is half written shows nothing."""
    root, found = project_root(), Executed({}, {}, {})
    for profile in reversed(PROFILES):
        for path in sorted((root / "figures" / "executed" / profile).glob("*.ipynb")):
            found.copies.setdefault(path.stem, {})[profile] = path
            try:
                cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            except (ValueError, KeyError):
                continue
            for output in (output for cell in cells for output in cell.get("outputs", ())):
                shown = root / "".join(output.get("data", {}).get("text/plain", "")).strip("'")
                if shown.suffix in KINDS:
                    found.made_by.setdefault(shown.stem, path.stem)
                    said = output.get("metadata", {}).get("image/png", {}).get("alt")
                    found.alt.update({shown: said} if said else {})
    return found
