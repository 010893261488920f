"""Causes of different cells: every one has a cause that was tested, or the word unexplained."""

import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed.published import WORKS
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.verdicts import causes, exhibits
from fedsynth_lib.verdicts.causes import Cause


@pytest.fixture(scope="module")
def rows():
    return {work: committed_rows(work, "paper") for work in WORKS}


@pytest.fixture(scope="module")
def explained(rows):
    none = {work: own.iloc[:0] for work, own in rows.items()}
    printed = [
        exhibits.printed_cells(each, {"paper": rows[each.work], "quick": none[each.work]})
        for each in exhibits.load_exhibits()
    ]
    cells = pd.concat([found for found in printed if len(found) and "difference" in found])
    return causes.of_cells(cells, rows)


def test_each_different_cell_has_a_cause_and_each_cause_a_cell(explained):
    assert len(explained) > 300 and (explained["verdict"] == "different").all()
    without = explained[explained["entry"] < 0]
    assert without.empty, without[["exhibit", "metric", "setting"]].drop_duplicates()
    known = causes.load_causes()
    idle = [known[n].said for n in range(len(known)) if n not in set(explained["entry"])]
    assert not idle, f"no different cell is left for {idle}"
    assert set(explained["cause"]) == set(causes.KINDS)


def test_the_table_counts_every_different_cell_once(explained):
    table = causes.table(explained)
    assert table["cells"].sum() == len(explained)
    assert list(dict.fromkeys(table["work"])) == [w for w in WORKS if w in set(table["work"])]


def test_evidence_that_is_a_file_is_there():
    for cause in causes.load_causes():
        first = cause.evidence.replace(",", " ").split()[:1]
        if first and "/" in first[0]:
            assert (project_root() / first[0]).exists(), cause.evidence


def toy(**values):
    keys = {"paper": "martinez2024", "exhibit": "tab6.1", "dataset": "adult", "method": "fedbn"}
    keys |= {"partition": "none", "node": "", "setting": "central"}
    keys |= {"epsilon": float("inf"), "detail": "", "metric": "pcd", "verdict": "different"}
    cells = pd.DataFrame([{**keys, "difference": 0.4, "tolerance": 0.1, **values}])
    return cells.assign(n_clients=pd.array([None], dtype="Int64"))


def entry(said, **more):
    usual = {"work": "martinez2024", "exhibits": ("tab6.1",), "cause": "reading", "said": said}
    return Cause(**{**usual, **more})


def test_the_first_cause_that_a_cell_fits_counts():
    known = [entry("no", where="errors < 8"), entry("yes", where="errors == 8"), entry("late")]
    found = causes.of_cells(toy(), {"martinez2024": pd.DataFrame()}, known)
    assert found["said"].tolist() == ["yes"] and found["entry"].tolist() == [1]
    other = causes.of_cells(toy(exhibit="tab6.2"), {"martinez2024": pd.DataFrame()}, known)
    assert other["entry"].tolist() == [-1] and other["cause"].tolist() == [""]


def test_a_reading_explains_what_it_brings_half_way_to_print(rows):
    """PCD of Adult, central and without noise: degree 3 lies nearer to print than degree 2."""
    grid = {"grid": "20_martinez2024_fedbn_variants", "metrics": {"pcd": "pcd"}}
    dense = entry("dense", rows={**grid, "detail": "k = 3"})
    absent = entry("absent", rows={**grid, "detail": "k = 9"})
    for cells, expected in ((toy(difference=5.0), "dense"), (toy(dataset="none"), "")):
        found = causes.of_cells(cells, rows, [absent, dense])
        assert found["said"].tolist() == [expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[martinez2024]]\nexhibits=[]\ncause="luck"\nsaid="x"', "cause 'luck'"),
        ('[[martinez2024]]\nexhibits=[]\ncause="scale"\nsaid="x"', "needs evidence"),
        ('[[martinez2024]]\nexhibits=[]\ncause="scale"', "'said' is no key, or is missing"),
        ('[[martinez2024]]\nexhibits=[]\ncause="scale"\nsaid="x"\nwhy="y"', "'why' is no key"),
        ('[[martinez]]\nexhibits=[]\ncause="scale"\nsaid="x"', "is no work"),
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
