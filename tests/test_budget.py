"""Filling what is missing within a budget of time, on toy grids and a clock that they move."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pytest

from fedsynth_lib.bundle import runner
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.budget import UNKNOWN, fill
from fedsynth_lib.runs.grid import CellFailed, missing_of, run_grid
from fedsynth_lib.works import WORKS, all_grids, load


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@dataclass(frozen=True)
class Toy:
    """A grid whose cells take `takes` seconds; `known` is what rows say of that."""

    name: str
    clock: Clock
    cells: list
    takes: float
    known: float | None = None
    size: dict = field(default_factory=dict)
    done: list = field(default_factory=list)
    fails: Any = None

    def missing(self):
        return [cell for cell in self.cells if cell not in self.done], self.known

    def run(self, *, save=True):
        for cell in self.missing()[0]:
            if cell == self.fails:
                raise CellFailed("a toy that fails")
            self.clock.now += self.takes
            self.done.append(cell)
        if save:
            self.done.append("file")


def test_the_cheapest_grid_comes_first_and_only_whole_grids_are_written():
    clock, said = Clock(), []
    dear = Toy("dear", clock, [1, 2, 3], takes=100, known=100)
    many = Toy("many", clock, [1, 2, 3, 4], takes=10, known=10)
    full = Toy("full", clock, [1], takes=1, done=[1])
    assert fill([dear, full, many], 250, say=said.append, clock=clock) == ["many"]
    assert many.done == [1, 2, 3, 4, "file"] and full.done == [1]
    assert dear.done == [1, 2] and clock.now == 240  # the third would end at 340
    assert said[0] == "many: 4 cells missing, about 1 minutes"
    assert said[-1] == "dear: 1 cells are left for another time"
    assert fill([dear, full, many], 100, say=said.append, clock=clock) == ["dear"]
    assert dear.done == [1, 2, 3, "file"]


def test_an_estimate_is_declared_until_a_cell_was_computed():
    clock, said = Clock(), []
    slow = Toy("slow", clock, [1, 2, 3], takes=60, size={"seconds": 5})
    assert fill([slow], 100, say=said.append, clock=clock) == []
    assert slow.done == [1]  # it took 60, so that a second would not end in time
    unknown = Toy("unknown", clock, [1], takes=1)
    assert fill([unknown], UNKNOWN - 1, say=said.append, clock=clock) == []
    assert fill([unknown], UNKNOWN, say=said.append, clock=clock) == ["unknown"]


def test_a_cell_that_fails_ends_its_grid_alone():
    clock, said = Clock(), []
    broken = Toy("broken", clock, [1, 2, 3], takes=1, known=1, fails=2)
    good = Toy("good", clock, [1, 2, 3, 4], takes=1, known=1)
    assert fill([broken, good], 60, say=said.append, clock=clock) == ["good"]
    assert broken.done == [1]
    assert any("broken: not finished" in text and "a toy that fails" in text for text in said)


def measured(number):
    return {"workload_error": float(number), "data": "none", "paper": "", "method": ""}


def test_what_is_missing_is_neither_committed_nor_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    cells = [{"number": number} for number in range(3)]
    how = {"name": "toy", "profile": "paper", "version": "1"}
    assert missing_of(measured, cells, **how) == (cells, None)
    run_grid(measured, cells[:1], **how)  # a file of rows
    run_grid(measured, cells[1:2], save=False, **how)  # a cell that was kept
    missing, seconds = missing_of(measured, cells, **how)
    assert missing == cells[2:] and seconds >= 0
    run_grid(measured, cells, **how)
    assert missing_of(measured, cells, **how)[0] == []
    file = pd.read_csv(tmp_path / "data" / "results" / "paper" / "toy.csv")
    assert file["value"].tolist() == [0, 1, 2]


@pytest.mark.slow
def test_all_grids_hold_the_cells_of_every_exhibit():
    grids = all_grids("paper")
    assert set(grids) == {d.name for work in WORKS for d in load(work).grids.values()}
    both = [load("maddock2024").grid(name, "paper") for name in ("fig3", "fig6 to fig10")]
    assert len(grids["44_maddock2024_parameters"]) == sum(map(len, both))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--budget", "0"], "--budget is 0: give the hours that it may take, above 0."),
        (["--verify", "-1"], "--verify is -1: give the minutes that it may take, above 0."),
        (["--budget", "1", "--fresh"], "leave out --fresh and -p"),
    ],
)
def test_options_that_say_nothing_are_refused(argv, said):
    with pytest.raises(BadInput, match=said):
        runner.parse(argv)
