"""Searches by Optuna's samplers: the same configurations again, and the scores as a study."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from fedsynth_lib.runs import search

GRID = {"width": [32, 64, 128], "decay": [0.1, 0.001], "layers": ["[8]", "[8, 4]"]}
CELLS = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]


def test_a_complete_search_has_every_cell_once_in_an_order_of_its_seed():
    found = search.configurations(GRID, 12, seed=3, complete=True)
    assert len(found) == 12 and all(cell in found for cell in CELLS)
    assert found != CELLS
    assert search.configurations(GRID, 12, seed=4, complete=True) != found
    assert list(found[0]) == list(GRID)


@pytest.mark.parametrize("complete", [True, False])
def test_a_longer_search_begins_with_the_configurations_of_a_shorter_one(complete, capfd):
    longer = search.configurations(GRID, 9, seed=3, complete=complete)
    assert search.configurations(GRID, 5, seed=3, complete=complete) == longer[:5]
    assert capfd.readouterr() == ("", "")


def test_random_draws_are_uniform_and_independent():
    drawn = search.configurations(GRID, 80, seed=3)
    for name, values in GRID.items():
        for value in values:
            share = sum(each[name] == value for each in drawn) / 80
            assert abs(share - 1 / len(values)) < 4 * (0.25 / 80) ** 0.5
    pairs = sum(each["decay"] == 0.1 and each["layers"] == "[8]" for each in drawn) / 80
    assert abs(pairs - 1 / 4) < 4 * (0.1875 / 80) ** 0.5


def test_the_study_holds_the_scores_and_names_the_best():
    scores = [(each, each["width"] * each["decay"] - len(each["layers"])) for each in CELLS]
    study = search.study_of(GRID, scores)
    assert [(trial.params, trial.value) for trial in study.trials] == scores
    assert study.best_params == {"width": 32, "decay": 0.001, "layers": "[8, 4]"}


def test_the_library_loads_without_optuna():
    code = "import sys, fedsynth_lib.runs.search; sys.exit('optuna' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1])
    assert found.returncode == 0
