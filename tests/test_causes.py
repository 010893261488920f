"""Causes of different cells, and what their file may say; that each cell has one: test_verdict.py."""

import pandas as pd
import pytest
from kept import committed_rows

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.verdicts import causes
from fedsynth_lib.verdicts.causes import Cause


def test_evidence_that_is_a_file_is_there():
    for cause in causes.load_causes():
        first = cause.evidence.replace(",", " ").split()[:1]
        if first and "/" in first[0]:
            assert (project_root() / first[0]).exists(), cause.evidence


def toy(**values):
    keys = {"paper": "martinez2024", "exhibit": "tab6.1", "dataset": "adult", "method": "fedbn"}
    keys |= {"partition": "none", "node": "", "setting": "central"}
    keys |= {"epsilon": float("inf"), "detail": "", "metric": "pcd", "verdict": "different"}
    cells = pd.DataFrame([{**keys, "difference": 0.4, "error": 0.05, **values}])
    return cells.assign(n_clients=pd.array([None], dtype="Int64"))


def entry(said, **more):
    usual = {"work": "martinez2024", "exhibits": ("tab6.1",), "cause": "reading", "said": said}
    return Cause(**{**usual, **more})


def test_the_first_cause_that_a_value_fits_counts():
    known = [entry("no", where="errors < 8"), entry("yes", where="errors == 8"), entry("late")]
    nothing = {"martinez2024": pd.DataFrame()}
    assert causes.of_cells(toy(), nothing, known).tolist() == ["reading: yes"]
    other = causes.of_cells(toy(exhibit="tab6.2"), nothing, known)
    assert other.tolist() == ["unexplained: no cause was tested"]
    assert causes.of_cells(toy(verdict="ordering"), nothing, known).tolist() == [""]


def test_a_reading_explains_what_is_within_by_it_and_is_charged_with_what_leaves():
    """PCD of Adult, central and without noise: at degree 3 ours is within."""
    rows = {"martinez2024": committed_rows("martinez2024", "paper")}
    grid = {"grid": "20_martinez2024_fedbn_variants", "metrics": {"pcd": "pcd"}}
    dense = entry("dense", rows={**grid, "detail": "k = 3"})
    absent = entry("absent", rows={**grid, "detail": "k = 9"})
    untested = entry("who knows", cause="unexplained")
    for cells, expected in (
        (toy(), "reading: dense"),
        (toy(dataset="none"), "unexplained: who knows"),
    ):
        found = causes.of_cells(cells, rows, [absent, untested, dense])
        assert found.tolist() == [expected]
    # log-cluster at degree 3 is not within; half of a large difference goes, and none of a small one
    clusters = entry(
        "dense", rows={**grid, "metrics": {"log_cluster": "log_cluster"}, "detail": "k = 3"}
    )
    far, near = (toy(metric="log_cluster", difference=each) for each in (100.0, 0.1))
    assert causes.of_cells(far, rows, [clusters]).tolist() == ["nearer: dense"]
    assert causes.of_cells(near, rows, [clusters])[0].startswith("unexplained")
    within = toy(metric="log_cluster", verdict="within")
    assert causes.of_cells(within, rows, [clusters]).tolist() == ["no longer within: dense"]
    assert causes.of_cells(toy(verdict="within"), rows, [dense]).tolist() == [""]


def test_a_reading_of_cells_with_words_of_their_own_names_these():
    """Fed-TGAN of table 5.9: weights by rows lie nearer to print than weights by similarity."""
    rows = {"leitner2023": committed_rows("leitner2023", "paper")}
    words = "client 1 holds all negatives; clients 2 and 3 share the positives"
    grid = {"grid": "33_leitner2023_classes", "metrics": {"auroc": "auroc"}}
    grid |= {"detail": f"{words}; weights by size"}
    other = {"work": "leitner2023", "exhibits": ("tab5.9",)}
    silent, named = (
        entry("said", rows=each, **other) for each in (grid, {**grid, "printed": words})
    )
    cell = {"paper": "leitner2023", "exhibit": "tab5.9", "dataset": "cardio", "method": "Fed-TGAN"}
    cell |= {"partition": "label_skew", "setting": "federated", "detail": words, "metric": "auroc"}
    cells = toy(**cell, difference=-0.07).assign(n_clients=pd.array([3], dtype="Int64"))
    assert causes.of_cells(cells, rows, [silent])[0].startswith("unexplained")
    assert causes.of_cells(cells, rows, [named])[0] in ("reading: said", "nearer: said")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[martinez2024]]\nexhibits=[]\ncause="luck"\nsaid="x"', "cause is 'luck': it should be"),
        ('[[martinez2024]]\nexhibits=[]\ncause="scale"\nsaid="x"', "needs evidence"),
        ('[[martinez]]\nexhibits=[]\ncause="scale"\nsaid="x"', "unknown work"),
    ],
)
def test_a_file_of_causes_may_not_say_just_anything(tmp_path, text, message):
    path = tmp_path / "causes.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        causes.load_causes(path)


def test_small_differences_add_up_where_they_all_go_one_way():
    cells = pd.concat([toy(verdict="within", difference=d, ours_std=1.0, n=3) for d in [0.07] * 9])
    found = causes.systematic(cells)  # each 1.4 standard errors, together 1.4 x 3
    assert found["z"].tolist() == pytest.approx([4.2]) and found["cells"].tolist() == [9]
    mixed = cells.assign(difference=[0.07, -0.07] * 4 + [0.07])
    assert causes.systematic(mixed).empty and causes.systematic(cells.iloc[:3]).empty
