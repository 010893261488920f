"""Searches kept as Optuna studies: the same trials again, told scores, and what a study refuses."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import search as studies
from fedsynth_lib.runs.search import Search

pytestmark = pytest.mark.usefixtures("home")

GRID = {"width": [32, 64, 128], "decay": [0.1, 0.001], "layers": ["[8]", "[8, 4]"]}
CELLS = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]


def search(**changes):
    return replace(Search("quick", "toy", GRID, seed=3), **changes)


def score(parameters):
    return parameters["width"] * parameters["decay"] - len(parameters["layers"])


def test_a_complete_search_has_every_cell_once_in_an_order_of_its_seed():
    found = studies.ask(search(complete=True), 12)
    assert len(found) == 12 and all(cell in found for cell in CELLS)
    assert found != CELLS
    assert studies.ask(search(complete=True, seed=4, name="other"), 12) != found
    assert list(found[0]) == list(GRID)


@pytest.mark.parametrize("complete", [True, False])
def test_the_same_trials_come_back_from_the_file_and_from_the_seed(home, monkeypatch, complete):
    mine = search(complete=complete)
    first = studies.ask(mine, 5)
    assert studies.ask(mine, 5) == first
    assert studies.ask(mine, 3) == first[:3]
    assert len(studies.open_study(mine).trials) == 5
    longer = studies.ask(mine, 9)  # goes on as if it had never stopped
    monkeypatch.setenv("FEDSYNTH_HOME", str(home / "another machine"))
    assert studies.ask(mine, 9) == longer and longer[:5] == first


def test_random_draws_are_uniform_and_independent():
    drawn = studies.ask(search(), 80)
    for name, values in GRID.items():
        for value in values:
            share = sum(each[name] == value for each in drawn) / 80
            assert abs(share - 1 / len(values)) < 4 * (0.25 / 80) ** 0.5
    pairs = sum(each["decay"] == 0.1 and each["layers"] == "[8]" for each in drawn) / 80
    assert abs(pairs - 1 / 4) < 4 * (0.1875 / 80) ** 0.5


def test_the_study_holds_the_scores_and_tells_the_best():
    mine = search(complete=True)
    asked = studies.ask(mine, 12)
    best = studies.tell(mine, [(parameters, score(parameters)) for parameters in asked[:7]])
    assert best == min(asked[:7], key=score)
    study = optuna.load_study(
        study_name="toy",
        storage=optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(mine.path))
        ),
    )
    assert [trial.value for trial in study.trials] == [score(p) for p in asked[:7]] + [None] * 5
    best = studies.tell(mine, [(parameters, score(parameters)) for parameters in asked])
    assert best == min(CELLS, key=score) == {"width": 32, "decay": 0.001, "layers": "[8, 4]"}
    assert studies.open_study(mine).best_value == pytest.approx(0.032 - 6)


def test_other_scores_begin_the_study_again_with_the_same_trials():
    mine = search()
    asked = studies.ask(mine, 6)
    studies.tell(mine, [(parameters, 1.0) for parameters in asked])
    again = [(parameters, score(parameters)) for parameters in asked]
    assert studies.tell(mine, again) == min(asked, key=score)
    assert [trial.value for trial in studies.open_study(mine).trials] == [
        value for _, value in again
    ]
    assert studies.ask(mine, 6) == asked


def test_studies_of_one_journal_do_not_mix_and_nothing_is_printed(capfd):
    studies.ask(search(), 2)
    studies.ask(search(name="other"), 4)
    assert [len(studies.open_study(search(name=name)).trials) for name in ("toy", "other")] == [
        2,
        4,
    ]
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(BadInput, match="trials is 13: give 1 or more, up to 12"):
        studies.ask(search(complete=True), 13)
    with pytest.raises(BadInput, match=r"trials is 0: give 1 or more\."):
        studies.ask(search(), 0)
    with pytest.raises(BadInput, match="has no parameters"):
        search(grid={})
    for values in ([], [[8, 4]], [None]):
        with pytest.raises(BadInput, match="candidates of 'layers'"):
            search(grid={"layers": values})
    asked = studies.ask(search(complete=True), 2)
    with pytest.raises(BadInput, match="did not ask for"):
        studies.tell(search(complete=True), [(cell, 0.0) for cell in CELLS if cell not in asked])


def test_the_library_loads_without_optuna():
    code = "import sys, fedsynth_lib.runs.search; sys.exit('optuna' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1]).returncode == 0
    )


@pytest.mark.parametrize("damage", [slice(0, 40), slice(40, None)])
def test_a_damaged_study_is_begun_again_with_the_same_trials_and_named(damage, home):
    mine = search()
    asked = studies.ask(mine, 3)
    mine.path.write_bytes(mine.path.read_bytes()[damage])
    with pytest.warns(UserWarning, match=f"^{mine.path}: this file of the cache is damaged"):
        assert studies.ask(mine, 3) == asked
