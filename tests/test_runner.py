"""The runner on tiny notebooks: what it runs, what it says, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import joblib
import nbformat
import psutil
import pytest
from papermill import engines
from tiny import PARAMETERS, alive, wait_for, write

from fedsynth_lib.bundle import console, runner
from fedsynth_lib.bundle.notebooks import read_notebooks

ROOT = Path(__file__).resolve().parents[1]


SHOW = """import json, os, sys
facts = {"python": sys.executable, "cwd": os.getcwd(), "profile": profile, "seed": seed, "jobs": jobs}
facts |= {"threads": os.environ["OMP_NUM_THREADS"], "rogue": "rogue" in globals()}
facts |= {"telemetry": [os.environ["FLWR_TELEMETRY_ENABLED"], os.environ["RAY_USAGE_STATS_ENABLED"]]}
import fedsynth_lib
json.dump(facts, open("facts.json", "w"))
with open(os.environ["FEDSYNTH_RUN_LOG"], "a") as log:
    print(json.dumps({"event": "grid", "name": "g", "computed": 3, "reused": 1}), file=log)
    for figure in ("a", "b", "a"):
        print(json.dumps({"event": "figure", "path": f"figures/live/smoke-standin/{figure}.png"}), file=log)"""


@pytest.mark.slow
def test_a_run_with_a_notebook_that_fails(home, capsys, monkeypatch):
    # A user's own kernel named python3, and a start-up file of theirs, must not be used.
    (home / "user" / "kernels" / "python3").mkdir(parents=True)
    rogue = {"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}
    (home / "user" / "kernels" / "python3" / "kernel.json").write_text(json.dumps(rogue))
    (home / "ipython" / "profile_default" / "startup").mkdir(parents=True)
    (home / "ipython" / "profile_default" / "startup" / "00.py").write_text("rogue = 1")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(home / "user"))
    monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))

    write(home, "00_good", SHOW, parameters=f"{PARAMETERS}\njobs = 1")
    write(home, "01_bad", "x = 1", "def f():\n    raise KeyError('foo')", "f()  # here")
    write(home, "02_needs_it", "x = 1", needs=["01_bad"])
    write(home, "03_needs_that", "x = 1", needs=["02_needs_it"])
    write(home, "04_dies", "import os\nos._exit(9)")
    write(home, "05_good", "x = 1", needs=["00_good"])
    write(home, "06_solutions", "x = 1")  # run where --only names them, and not here
    assert runner.main(["--profile", "smoke", "--jobs", "1", "-p", "seed=3"]) == 1

    facts = json.loads((home / "notebooks" / "facts.json").read_text())
    assert (
        Path(facts["python"]) == Path(sys.executable) and Path(facts["cwd"]) == home / "notebooks"
    )
    assert (facts["profile"], facts["seed"], facts["jobs"]) == ("smoke", 3, 1)
    assert facts["threads"] == str(joblib.cpu_count())  # one job has all cores
    assert facts["telemetry"] == ["0", "0"] and not facts["rogue"]

    out = capsys.readouterr().out
    table = {line.split()[0]: line.split()[1:] for line in out.splitlines()[-8:]}
    assert table["00_good"][0] == "ok" and table["00_good"][2:5] == ["3", "1", "2"]
    assert table["01_bad"][0] == table["04_dies"][0] == "failed"
    assert table["02_needs_it"][:2] == table["03_needs_that"][:2] == ["not", "run"]
    assert table["05_good"][0] == "ok"
    assert "out of reach: 00_good; their figures are in figures/live/smoke-standin/" in out
    assert "01_bad failed in cell 5:\n    | f()  # here\nKeyError: 'foo'\n" in out
    assert "04_dies failed in cell 3:\n    | import os\n    | os._exit(9)\nthe kernel died" in out

    last = json.loads((home / "figures" / "runs" / "last.json").read_text())
    assert {stem: entry["status"] for stem, entry in last.items()} == {
        "00_good": "ok",
        "01_bad": "failed",
        "04_dies": "failed",
        "05_good": "ok",
    }
    executed = nbformat.read(
        home / "figures" / "executed" / "smoke" / "00_good.ipynb", as_version=4
    )
    assert any("seed = 3" in cell.source for cell in executed.cells)
    source = nbformat.read(home / "notebooks" / "00_good.ipynb", as_version=4)
    # the notebook itself is left alone
    assert not any(cell.get("outputs") for cell in source.cells)

    assert runner.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert "01_bad" in listed and "failed (smoke, " in listed and "never run" in listed


GRID = """from fedsynth_lib.runs.grid import run_grid
run_grid(lambda seed: {"data": "none", "m": seed}, {"seed": [1, 2, 3]}, name='a_grid', profile=profile)"""


def test_ci_runs_the_notebooks_that_the_default_run_leaves_out():
    stems = [each.stem for each in read_notebooks(ROOT / "notebooks")]
    left_out = [stem.partition("_")[0] for stem in stems if "solutions" in stem]
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert f"./run_all.sh --profile smoke --only {' '.join(left_out)}" in commands


@pytest.mark.slow
def test_copies_are_saved_now_and_then_and_pages_made_beside_the_run(home, no_report, monkeypatch):
    written, write_ipynb = [], engines.write_ipynb
    monkeypatch.setattr(
        engines,
        "write_ipynb",
        lambda notebook, path: (written.append(path), write_ipynb(notebook, path)),
    )
    write(home, "00_many", *(f"print({number})" for number in range(30)))
    write(home, "01_bad", *(f"print({number})" for number in range(30)), "1 / 0")
    assert runner.main(["--jobs", "1"]) == 1
    folder = home / "figures" / "executed" / "paper"
    for name in ("00_many", "01_bad"):
        cells = json.loads((folder / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        outputs = [each for cell in cells for each in cell.get("outputs", [])]
        texts = [line for each in outputs if each.get("name") == "stdout" for line in each["text"]]
        assert "".join(texts) == "".join(f"{number}\n" for number in range(30))
    assert "ZeroDivisionError" in (folder / "01_bad.ipynb").read_text(encoding="utf-8")
    assert len(written) < 20  # of 61 cells, each of which papermill would save twice
    assert "29" in (home / "figures" / "report" / ".bodies" / "00_many").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
def test_a_second_run_reuses_the_cells_and_fresh_forgets_those_of_the_chosen(home):
    write(home, "00_a", GRID)
    other = home / "data" / "cache" / "cells" / "another_grid" / "cell.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    counts = []
    for options in ([], [], ["--fresh"]):
        assert runner.main(["--only", "0", *options]) == 0
        last = json.loads((home / "figures" / "runs" / "last.json").read_text())["00_a"]
        counts.append((last["computed"], last["reused"]))
    assert counts == [(3, 0), (0, 3), (3, 0)]
    assert other.exists()


def test_a_report_that_cannot_be_built_is_a_failure(home, capsys):
    write(home, "00_a", "x = 1")
    assert runner.main([]) == 1
    assert "The report could not be built: " in capsys.readouterr().out


def test_list_shows_what_the_metadata_say(home, capsys):
    minutes = {"smoke": 0.5, "quick": 3, "paper": 90}
    write(home, "20_q", exhibits=["w/tab6.1", "w/fig2", "v/tab1"], minutes=minutes, regenerate=0.2)
    write(home, "30_r", minutes=minutes)  # without committed results a default run computes
    assert runner.main(["--list"]) == 0
    head, line, about, *rest = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", line) == ["20_q", "0.2", "0.5", "3", "90", "never run"]
    assert head.split()[:5] == ["notebook", "default", "smoke", "quick", "paper"]
    assert rest[0].split()[:5] == ["30_r", "90", "0.5", "3", "90"]
    assert "default: what ./run_all.sh takes" in rest[-2]
    assert about == "    Title of 20_q (w tab6.1 fig2, v tab1)"
    assert not (home / "figures").exists()


def test_the_list_of_all_notebooks_fits_into_100_columns():
    notebooks = read_notebooks(ROOT / "notebooks")
    ended = {"status": "stopped", "profile": "smoke", "finished": "2026-01-31 12:00"}
    listed = console.listing(notebooks, {each.stem: ended for each in notebooks})
    assert max(map(len, listed.splitlines())) <= 100
    words = " ".join(listed.split())
    assert all(f"{each.stem} " in words and each.title in words for each in notebooks)


BUSY = """import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open("pids.tmp", "w") as file:
    print(os.getpid(), child.pid, file=file)
os.replace("pids.tmp", "pids")
time.sleep(600)"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_a_stopped_run_leaves_no_process_behind(home, number, status):
    write(home, "00_busy", BUSY)
    write(home, "01_next", "x = 1")
    command = [sys.executable, "-m", "fedsynth_lib.bundle.runner", "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(home)}
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    pids = home / "notebooks" / "pids"
    wait_for(pids.exists, 300)
    processes = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    run.send_signal(number)
    out, _ = run.communicate(timeout=120)
    assert run.returncode == status
    wait_for(lambda: not any(alive(process) for process in processes), 120)
    wait_for(lambda: not list(home.glob("fedsynth-*")), 120)  # the scratch folder
    if number != signal.SIGKILL:
        lines = [line.split()[:2] for line in out.splitlines()]
        assert lines[-2:] == [["00_busy", "stopped"], ["01_next", "not"]]
        assert "The report" in out  # is tried: of this project nothing can be built


# --- reporting -----------------------------------------------------------------------------------


def test_committed_results_are_shown_where_no_profile_is_asked_for():
    assert runner.parse([]).profile == "paper"


def test_a_log_gets_one_line_a_minute_with_what_the_kernel_said_last(home, capsys, monkeypatch):
    write(home, "00_start")
    notebook = read_notebooks(home / "notebooks")[0]
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.Reporter(4) as reporter:
        line = reporter.start(notebook, 2.5)
        for second in range(180):
            now[0] = float(second)
            line.write(f"grid: {second}/180 cells\r")
            line.write("a.py:3: FutureWarning: soon\n  warn(1)\n")
            reporter.tick()
        reporter.end(notebook, "ok")
    assert capsys.readouterr().out.splitlines() == [
        "[1/4] 00_start starts, about 2.5 min",
        "[1/4] 00_start: 1 min, grid: 60/180 cells",
        "[1/4] 00_start: 2 min, grid: 120/180 cells",
        "[1/4] 00_start: ok",
    ]


def test_a_log_line_that_was_cut_off_by_a_kill_is_left_out(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(
        '{"event": "grid", "name": "g", "computed": 2, "reused": 1}\n{"event": "grid", "na'
    )
    assert console.read_log(log) == {"computed": 2, "reused": 1, "figures": 0, "standin": False}
    assert console.read_log(tmp_path / "none") == {}


TERMINAL = """import time
from types import SimpleNamespace as Notebook
from fedsynth_lib.bundle.console import Reporter
first, second = Notebook(stem="00_first"), Notebook(stem="01_second")
with Reporter(2) as reporter:
    reporter.start(first, 1).write("a grid: 1/3 cells\\r")
    reporter.start(second, None).write("another: " + 99 * "x")
    reporter.tick()
    time.sleep(0.2)
    reporter.end(first, "ok")
    reporter.end(second, "ok")"""


def test_a_terminal_has_a_bar_and_a_line_for_each_running_notebook():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    env.pop("COLUMNS", None)  # which would stand before the terminal's own width
    subprocess.run(
        [sys.executable, "-c", TERMINAL], stdout=theirs, stderr=theirs, env=env, check=True
    )
    os.close(theirs)
    read = b""
    with suppress(OSError):  # all is read, and nobody writes any more
        while part := os.read(ours, 10**5):
            read += part
    text = read.decode()
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "\n", text)  # but for colours and moves
    drawn = [part.strip() for part in re.split(r"[\r\n]", plain) if part.strip()]
    assert "00_first: 0 min, a grid: 1/3 cells" in drawn and max(map(len, drawn)) <= 60
    assert any(part.startswith("01_second: 0 min, another: xxx") for part in drawn)
    assert "[1/2] 00_first: ok" in drawn and "[2/2] 01_second: ok" in drawn and "2/2" in drawn
