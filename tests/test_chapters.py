"""The map of exhibits, on notebooks made for the test."""

from pathlib import Path

import pytest

from fedsynth_lib.bundle.chapters import CHAPTER_OF, CHAPTERS, exhibit_map
from fedsynth_lib.bundle.notebooks import Notebook
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import WORKS, load_catalogue

DATA = Notebook(
    Path("01_data.ipynb"),
    "Data",
    exhibits=(
        "martinez2024/tab5.1",
        "martinez2024/fig5.2",
        "martinez2024/fig5.1",
        "martinez2024/fig5.4",
    ),
    minutes={"smoke": 0.5},
)
FIDELITY = Notebook(
    Path("20_fidelity.ipynb"), "Fidelity", exhibits=("martinez2024/tab6.1", "martinez2024/alg3.1")
)
BUDGET = Notebook(Path("02_budget.ipynb"), "Budget")


def test_every_exhibit_is_on_the_map_once_and_only_made_ones_are_here():
    catalogue, table = load_catalogue(), exhibit_map([DATA, FIDELITY, BUDGET])
    assert list(table["work"] + "/" + table["exhibit"]) == list(catalogue["id"])
    here = table[table["status"] == "here"]
    assert set(here["work"] + "/" + here["exhibit"]) == {*DATA.exhibits, *FIDELITY.exhibits}
    # alg3.1 is made although it is no result
    planned = (catalogue["regenerable"] == "yes").sum() - 5
    assert (table["status"] == "planned").sum() == planned
    assert set(table.loc[table["status"] != "here", "notebook"]) == {""}


def test_chapters_follow_the_notebook_and_otherwise_the_work():
    table = exhibit_map([DATA]).set_index(["work", "exhibit"])
    assert table.loc[("martinez2024", "tab5.1"), "chapter"] == 0
    assert table.loc[("martinez2024", "tab6.1"), "chapter"] == 2
    assert table.loc[("apellaniz2025", "tab1"), "chapter"] == 6
    assert all(work in CHAPTERS[chapter] for work, chapter in CHAPTER_OF.items()) and set(
        CHAPTER_OF
    ) == set(WORKS)


def test_without_notebooks_nothing_is_here():
    assert set(exhibit_map([])["status"]) == {"planned", "illustrative"}


def test_an_exhibit_of_two_notebooks_has_two_rows():
    again = Notebook(Path("70_side_by_side.ipynb"), "All", exhibits=("martinez2024/tab6.1",))
    rows = exhibit_map([FIDELITY, again]).query("exhibit == 'tab6.1' and work == 'martinez2024'")
    assert list(rows["notebook"]) == ["20_fidelity", "70_side_by_side"]


def test_an_exhibit_that_no_catalogue_has_is_refused():
    wrong = Notebook(Path("20_wrong.ipynb"), "Wrong", exhibits=("martinez2024/tab6.99",))
    with pytest.raises(BadInput, match=r"20_wrong.*tab6\.99"):
        exhibit_map([DATA, wrong])
