"""The verdict: what is counted from which profile, and that README.md says what the saved files say."""

from pathlib import Path

import pandas as pd
import pytest

from fedsynth_lib import plots_verdict, verdict
from fedsynth_lib.interface import BadInput
from fedsynth_lib.published import UNTESTED, VERDICTS, WORKS, load_claims
from fedsynth_lib.rows import project_root

CLAIM = "maddock2024/c01"


@pytest.fixture
def figures(tmp_path):
    def put(name: str, **columns) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame(columns).to_csv(path, index=False)
        return tmp_path

    put.folder = tmp_path
    return put


def claim(figures, profile, said, name="maddock2024_fig1"):
    columns = {"id": [CLAIM], "claim": [""], "verdict": [said], "evidence": [f"seen in {profile}"]}
    figures(f"{profile}/{name}_claims.csv", **columns)


def judged(figures):
    table = verdict.claims_judged(figures.folder).set_index("id")
    assert list(table.index) == list(load_claims()["id"])
    return table.loc[CLAIM]


def test_a_claim_counts_at_the_fullest_profile_that_tested_it(figures):
    assert judged(figures)["verdict"] == UNTESTED
    claim(figures, "quick", "holds")
    assert judged(figures)[["verdict", "profile"]].tolist() == ["holds", "quick"]
    claim(figures, "paper", UNTESTED)
    assert judged(figures)["profile"] == "quick"
    claim(figures, "paper", "does not hold")
    line = judged(figures)
    assert line[["verdict", "profile", "other"]].tolist() == ["does not hold", "paper", "quick: holds"]
    assert line["evidence"] == "seen in paper" and line["source"] == "paper/maddock2024_fig1_claims.csv"


def test_what_stand_ins_and_smoke_say_is_not_counted(figures):
    for profile in ("quick-standin", "smoke", "paper-own"):
        claim(figures, profile, "holds")
    assert judged(figures)["verdict"] == UNTESTED


def test_cells_are_added_up_by_exhibit_and_taken_from_one_profile(figures):
    def put(profile, name, exhibits, *numbers):
        columns = dict(zip(VERDICTS, zip(*numbers, strict=True), strict=True))
        figures(f"{profile}/{name}_verdicts.csv", **({"exhibit": exhibits} if exhibits else {}), **columns)

    put("quick", "61_apellaniz2025", ["tab2", "tab2", "tab3"], (1, 2, 3, 0), (10, 0, 0, 0), (0, 0, 4, 0))
    put("quick", "maddock2024_tab1", None, (2, 5, 0, 0), (0, 4, 3, 0))
    put("paper", "maddock2024_tab1", None, (7, 0, 0, 0), (0, 0, 0, 7))
    put("paper", "61_apellaniz2025", ["tab2"], (0, 0, 0, 16))  # nothing of ours: the lesser profile counts
    cells = verdict.cells_judged(figures.folder).set_index(["work", "exhibit"])
    assert cells.loc[("apellaniz2025", "tab2"), ["profile", *VERDICTS]].tolist() == ["quick", 11, 2, 3, 0]
    assert cells.loc[("apellaniz2025", "tab3"), "cells"] == 4
    assert cells.loc[("maddock2024", "tab1"), ["profile", *VERDICTS]].tolist() == ["paper", 7, 0, 0, 7]
    assert list(cells.index.get_level_values("work")) == ["maddock2024", "apellaniz2025", "apellaniz2025"]


def test_of_two_readings_of_the_same_printed_cells_one_counts(figures):
    numbers = {name: [1, 9] for name in VERDICTS}
    figures("paper/maddock2024_tab3_verdicts.csv", bytes=["as the work counts", "as sent"], **numbers)
    assert verdict.cells_judged(figures.folder)["cells"].tolist() == [4]


def test_an_exhibit_has_the_fullest_profile_of_its_own_files(figures):
    folder = figures.folder
    for name in ("paper/maddock2024_fig1_claims.md", "quick/maddock2024_fig10.png", "quick/maddock2024_tab2.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    made = verdict.exhibits_made([], folder).set_index(["work", "exhibit"])["profile"]
    assert made["maddock2024", "fig1"] == "paper" and made["maddock2024", "fig10"] == "quick"
    assert made["maddock2024", "tab2"] == "quick" and made["martinez2024", "tab6.1"] == ""


def test_the_headline_adds_up():
    exhibits = pd.DataFrame({"work": ["maddock2024"] * 3, "profile": ["paper", "quick", ""]})
    numbers = dict(zip([*VERDICTS, "cells"], ([1, 2], [3, 4], [5, 6], [0, 1], [9, 13]), strict=True))
    cells = pd.DataFrame({"work": "maddock2024", "exhibit": ["a", "b"], "profile": "paper", **numbers})
    claims = pd.DataFrame({"work": "maddock2024", "verdict": ["holds", "holds", UNTESTED]})
    counts = verdict.headline(exhibits, cells, claims)
    assert list(counts.index) == list(WORKS)
    assert counts.loc["maddock2024"].tolist() == [1, 1, 3, 3, 7, 11, 2, 0, 0, 1]
    assert counts.drop("maddock2024").to_numpy().sum() == 0
    drawn = plots_verdict.outcomes(counts)
    texts = {text.get_text() for ax in drawn.axes for text in ax.texts}
    assert {"3", "7", "11", "2"} <= texts


def test_the_table_is_put_between_its_marks_and_nowhere_else():
    text = f"before\n{verdict.BEGIN}\nold\n{verdict.END}\nafter\n"
    new = verdict.put_into(text, "| new |")
    assert new == f"before\n{verdict.BEGIN}\n| new |\n{verdict.END}\nafter\n"
    assert verdict.put_into(new, "| new |") == new
    with pytest.raises(BadInput, match="has no lines"):
        verdict.put_into("nothing here", "| new |")


def test_the_readme_says_what_the_saved_files_say():
    """Run `python -m fedsynth_lib.verdict` after results have changed."""
    said = (project_root() / "README.md").read_text(encoding="utf-8")
    assert verdict.put_into(said, verdict.current()) == said
