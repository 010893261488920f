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


def exhibit_map(notebooks: Sequence[Notebook]) -> pd.DataFrame:
    """Return every numbered exhibit of the five works with the notebook that makes it.

    The exhibits are in the order of the works.

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
        int(stem[0]) if stem else CHAPTER_OF[work]
        for stem, work in zip(table["notebook"], table["work"], strict=True)
    ]
    table["status"] = np.select(
        [table["notebook"] != "", table["regenerable"] == "yes"], STATUSES[:2], STATUSES[2]
    )
    return table[["work", "section", "exhibit", "kind", "title", "chapter", "notebook", "status"]]
