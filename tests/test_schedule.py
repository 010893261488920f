"""Which notebook starts beside which, and what a person is told of a run that will compute for
long."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import wait_for, write

from fedsynth_lib.bundle import estimate, runner, schedule
from fedsynth_lib.bundle.notebooks import read_notebooks
from fedsynth_lib.bundle.schedule import Schedule

pytestmark = pytest.mark.usefixtures("no_report")

ROOT = Path(__file__).resolve().parents[1]
GRID = "run_grid(f, {}, name='%s')"


def scheduled(home, jobs, **minutes) -> Schedule:
    return Schedule(read_notebooks(home / "notebooks"), minutes, jobs)


def test_short_notebooks_run_side_by_side_the_longest_first_and_a_long_one_alone(home):
    for stem in ("00", "01", "02", "03"):
        write(home, stem)
    plan = scheduled(home, 2, **{"00": 60.0, "01": None, "02": 1.0, "03": 2.0})
    first = plan.start([])
    second = plan.start([first])
    assert (first.stem, second.stem) == ("03", "02")  # 00 needs all jobs
    assert [plan.share(each) for each in (first, second)] == [1, 1]
    assert plan.start([first, second]) is None
    third = plan.start([second])
    assert third.stem == "01"
    assert plan.start([third]) is None
    last = plan.start([])
    assert last.stem == "00" and plan.share(last) == 2 and not plan.waiting


def test_one_job_runs_notebooks_in_reading_order(home):
    for stem in ("00", "01", "02"):
        write(home, stem)
    plan = scheduled(home, 1, **{"00": 60.0, "01": 1.0, "02": 2.0})
    assert [plan.start([]).stem for _ in range(3)] == ["00", "01", "02"]


def test_a_single_notebook_gets_all_jobs(home):
    write(home, "00")
    plan = scheduled(home, 3)
    assert plan.share(plan.start([])) == 3


def test_a_notebook_waits_for_what_it_needs_and_for_shared_grids(home):
    write(home, "00_a", GRID % "g")
    write(home, "01_b", needs=["00_a"])
    write(home, "02_c", GRID % "g")
    write(home, "04_e", needs=["99_not_chosen"])
    plan = scheduled(home, 4)
    first = plan.start([])
    assert first.stem == "00_a"
    beside = plan.start([first])
    assert beside.stem == "04_e" and plan.start([first, beside]) is None
    two = [plan.start([]), plan.start([])]
    assert [each.stem for each in two] == ["01_b", "02_c"]


def test_what_needs_a_failed_notebook_is_dropped_and_what_needs_that_too(home):
    write(home, "00_bad")
    write(home, "01_b", needs=["00_bad"])
    write(home, "02_c", needs=["01_b"])
    write(home, "03_d")
    plan = scheduled(home, 1)
    plan.start([])
    dropped = [(each.stem, lacking) for each, lacking in plan.drop(["00_bad"])]
    assert dropped == [("01_b", ["00_bad"]), ("02_c", ["01_b"])]
    assert [each.stem for each in plan.waiting] == ["03_d"]


def test_no_second_notebook_starts_while_memory_is_short(home, monkeypatch):
    write(home, "00")
    write(home, "01")
    plan = scheduled(home, 2)
    monkeypatch.setattr(schedule, "SPARE", 2**60)
    first = plan.start([])
    assert first is not None and plan.start([first]) is None
    assert plan.start([]).stem == "01"


MEET = """import pathlib, time
def wait_for(told, name):
    end = time.monotonic() + 300
    while not (told.exists() and name in told.read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)
pathlib.Path("{mine}").touch()
wait_for(pathlib.Path("{other}"), "")"""
# the runner notes an end, says it, and only then looks for another
LAST = """wait_for(pathlib.Path("../figures/runs/last.json"), "01_b")"""


@pytest.mark.slow
def test_two_notebooks_run_at_the_same_time_and_the_table_keeps_the_reading_order(
    home, capsys, monkeypatch
):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    write(
        home,
        "00_a",
        MEET.format(mine="a", other="b"),
        LAST,
        "print(jobs)",
        parameters="jobs = 7",
    )
    write(home, "01_b", MEET.format(mine="b", other="a"), parameters="jobs = 7")
    assert runner.main(["--jobs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["00_a", "01_b"]
    assert next(line for line in lines if ": ok" in line).startswith("[1/2] 01_b")
    executed = json.loads((home / "figures" / "executed" / "paper" / "00_a.ipynb").read_text())
    assert executed["cells"][-1]["outputs"][0]["text"] == ["1\n"]  # of the two jobs one each
    places = {
        name: executed["metadata"]["papermill"][f"{name}_path"] for name in ("input", "output")
    }
    copy = "figures/executed/paper/00_a.ipynb"
    assert places == {"input": "notebooks/00_a.ipynb", "output": copy}  # no folder of this machine


# --- what it takes -------------------------------------------------------------------------------


@pytest.fixture
def two(home):
    minutes = {"smoke": 2, "quick": 20, "paper": 600}
    write(
        home, "20_q", GRID % "20_first", GRID % "20_of_paper_alone", minutes=minutes, regenerate=0.5
    )
    write(home, "30_r", GRID % "20_first", GRID % "30_third", minutes=minutes, regenerate=0.5)
    return read_notebooks(home / "notebooks")


def commit(home, profile, *grids):
    folder = home / "data" / "results" / profile
    folder.mkdir(parents=True, exist_ok=True)
    for grid in grids:
        (folder / f"{grid}.csv").touch()


def test_a_notebook_computes_unless_rows_of_its_own_are_there(home, two):
    assert [estimate.minutes_of(each, "quick", home) for each in two] == [20, 20]
    commit(home, "quick", "20_first")
    assert [estimate.minutes_of(each, "quick", home) for each in two] == [0.5, 20]
    commit(home, "quick", "30_third")
    assert [estimate.minutes_of(each, "quick", home) for each in two] == [0.5, 0.5]
    assert [estimate.minutes_of(each, "quick", home, fresh=True) for each in two] == [20, 20]
    assert [estimate.minutes_of(each, "paper", home) for each in two] == [600, 600]


def test_a_long_run_says_so_first_and_how_to_avoid_it(home, two):
    def told(profile, notebooks=two, **options):
        return estimate.warning(notebooks, profile, home, **options)

    assert "about 20 hours on 2 cores: 2 notebooks have no committed rows" in told("paper")
    assert told("paper").endswith("\n--profile smoke takes about 2 minutes.")
    commit(home, "quick", "20_first", "30_third")
    assert told("paper").endswith("; --profile quick takes about 1 minute.")
    commit(home, "paper", "20_first")
    assert "about 10 hours" in told("paper")
    assert "\n--only 20 takes about 1 minute; --profile" in told("paper")
    assert told("quick") is None
    assert "about 40 minutes" in told("quick", fresh=True)
    assert "\nleaving out --fresh takes about 1 minute;" in told("quick", fresh=True)
    assert told("quick", two[:1], fresh=True) is None
    assert told("smoke") is None


def test_the_warning_comes_before_anything_starts(home, two, capsys, monkeypatch):
    def run(*_, **__):
        assert "This run computes" in capsys.readouterr().out
        return 0

    monkeypatch.setattr(runner, "run", run)
    assert runner.main(["--profile", "paper"]) == 0


# --- one run at a time ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_run_in_the_same_checkout_is_refused_and_list_and_check_are_not(home, capsys):
    write(home, "00_busy", "import time; open('begun', 'w'); time.sleep(600)")
    command = [sys.executable, "-m", "fedsynth_lib.bundle.runner"]
    first = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for((home / "notebooks" / "begun").exists, 300)
        assert runner.main([]) == 2
        told = capsys.readouterr().err
        assert "another run is at work in" in told and told.count("\n") == 1
        assert runner.main(["--list"]) == runner.main(["--check"]) == 0
    finally:
        first.kill()
        first.wait()
    (home / "notebooks" / "00_busy.ipynb").unlink()
    write(home, "01_next", "x = 1")
    assert runner.main([]) == 0  # the lock went with the process


def test_verify_is_handed_on_and_takes_no_choice_of_notebooks(home, capsys, monkeypatch):
    write(home, "00")
    asked = []
    module = type(sys)("fedsynth_lib.bundle.verify")
    module.verify = lambda minutes, *, root: asked.append((minutes, root)) or 3
    monkeypatch.setitem(sys.modules, "fedsynth_lib.bundle.verify", module)
    assert runner.main(["--verify", "5"]) == 3
    assert asked == [(5.0, home)]
    for options in (
        ["--verify", "0"],
        ["--verify", "5", "--fresh"],
        ["--verify", "5", "--only", "0"],
    ):
        assert runner.main(options) == 2
    assert runner.main(["--verify", "5", "--check"]) == 0 and len(asked) == 1
    assert "leave out --fresh" in capsys.readouterr().err
