"""The map of the bundle: its chapters and notebooks, and which notebook regenerates which exhibit.

Built from the catalogues in data/published/ and from what the notebooks' metadata say, so it cannot
promise what is not there. A notebook's chapter is the first digit of its name.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedsynth_lib.bundle.notebooks import Notebook
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import WORKS, load_catalogue

CHAPTERS = {
    0: "The bundle: overview, data, privacy budget, federation, audit",
    1: "The methods, one by one",
    2: "martinez2024: FedBN and FedVAE",
    3: "leitner2023: CTGAN, central and federated",
    4: "maddock2024: AIM and FLAIM",
    5: "sattarov2024: federated tabular diffusion",
    6: "apellaniz2025: VAE-BGM with synthetic data sharing",
    7: "All methods under one protocol",
    8: "Your own table, your own method",
    9: "Verdict",
}
CHAPTER_OF = {work: chapter for chapter, work in enumerate(WORKS, start=2)}
STATUSES = ("here", "planned", "illustrative")


def contents(notebooks: Sequence[Notebook]) -> pd.DataFrame:
    """One row per notebook, in reading order: chapter, notebook, title, exhibits, and minutes per
    profile.

    A chapter that has no notebook yet keeps one row with an empty `notebook`.
    """
    made = [
        {
            "chapter": _chapter(each.stem),
            "notebook": each.stem,
            "title": each.title,
            "exhibits": len(each.exhibits),
        }
        | {profile: each.minutes.get(profile, np.nan) for profile in ("smoke", "quick", "paper")}
        for each in notebooks
    ]
    empty = [
        {"chapter": chapter, "notebook": "", "title": "planned", "exhibits": 0}
        for chapter in CHAPTERS
        if chapter not in {row["chapter"] for row in made}
    ]
    columns = ["chapter", "notebook", "title", "exhibits", "smoke", "quick", "paper"]
    table = pd.DataFrame(made + empty, columns=columns).sort_values(
        ["chapter", "notebook"], ignore_index=True
    )
    return table.assign(
        chapter=[f"{number} {CHAPTERS.get(number, '')}".strip() for number in table["chapter"]]
    )


def exhibit_map(notebooks: Sequence[Notebook]) -> pd.DataFrame:
    """Every numbered exhibit of the five works, in their order, with the notebook that regenerates
    it.

    Columns: work, section, exhibit, kind, title, chapter (of the notebooks), notebook, status.
    status: `here` where one of `notebooks` regenerates the exhibit, `planned` where a later one
    could, `illustrative` where there is nothing to compute (drawings, pseudo-code). An exhibit of
    two notebooks has two rows. Raises BadInput for an exhibit that is in no catalogue.
    """
    pairs = [(exhibit, each.stem) for each in notebooks for exhibit in each.exhibits]
    made = pd.DataFrame(pairs, columns=["id", "notebook"], dtype=object)
    table = load_catalogue()
    if unknown := sorted(set(made["id"]) - set(table["id"])):
        where = made.loc[made["id"] == unknown[0], "notebook"].iloc[0]
        raise BadInput(
            f"{where}: no catalogue in data/published has {unknown[0]!r}; correct the notebook's "
            "metadata."
        )
    table = table.merge(made, how="left", on="id").fillna({"notebook": ""})
    table[["work", "exhibit"]] = table["id"].str.split("/", expand=True)
    table["chapter"] = [
        _chapter(stem) if stem else CHAPTER_OF[work]
        for stem, work in zip(table["notebook"], table["work"], strict=True)
    ]
    table["status"] = np.select(
        [table["notebook"] != "", table["regenerable"] == "yes"], STATUSES[:2], STATUSES[2]
    )
    return table[["work", "section", "exhibit", "kind", "title", "chapter", "notebook", "status"]]


def overview(exhibits: pd.DataFrame) -> pd.DataFrame:
    """The map in few lines: exhibits of one part of a work that share notebook and status stand
    together.

    exhibits: what `exhibit_map` returns; illustrative ones are left out.
    """
    shown = exhibits[exhibits["status"] != "illustrative"]
    shown = shown.assign(part=shown["section"].str.extract(r"^(\d+|[A-Z])", expand=False))
    groups = shown.groupby(["work", "part", "chapter", "notebook", "status"], sort=False)["exhibit"]
    table = groups.agg(exhibits=_ranges, count="size").reset_index()
    return table[["work", "part", "exhibits", "count", "chapter", "notebook", "status"]]


def link(stem: str) -> str:
    """HTML that opens a notebook of the same folder; empty for an empty name."""
    return f'<a href="{stem}.ipynb">{stem}</a>' if stem else ""


def _chapter(stem: str) -> int:
    return int(stem[0])


def _ranges(labels: pd.Series) -> str:
    """tab5.1, fig5.2, fig5.1 as 'fig5.1–5.2, tab5.1'."""
    # kind, what stands before the last number, that number
    split = labels.str.extract(r"^([a-z]+)(.*?)(\d+)$")
    split = split.assign(last=split[2].astype(int)).sort_values([0, 1, "last"], ignore_index=True)
    starts = (split[[0, 1]] != split[[0, 1]].shift()).any(axis=1) | (
        split["last"] != split["last"].shift() + 1
    )
    texts = []
    for _, run in split.groupby(starts.cumsum()):
        first, last = run.iloc[0], run.iloc[-1]
        texts.append(
            f"{first[0]}{first[1]}{first[2]}" + (f"–{last[1]}{last[2]}" if len(run) > 1 else "")
        )
    return ", ".join(texts)
