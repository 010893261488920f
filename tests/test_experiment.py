"""The run cache: nothing finished is lost or computed twice, and rows are the same whatever their
way."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.runs import grid as experiment
from fedsynth_lib.runs.grid import COLUMNS, CellFailed, load_rows, remember, run_grid
from fedsynth_lib.runs.progress import duration, progress

GRID = {"epsilon": [float("inf"), 0.5], "seed": [3, 1, 2]}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("FEDSYNTH_FRESH", "FEDSYNTH_RUN_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    return tmp_path


def run_one(epsilon, seed, offset=0.0):
    rng = np.random.default_rng(seed)
    return {
        "data": "real",
        "hellinger": rng.random() / epsilon + offset,
        "pcd": rng.random(),
        "unprotected": 2,
    }


def counting():
    """A run_one, and the list of seeds it was called with."""
    calls = []

    def counted(epsilon, seed):
        calls.append((epsilon, seed))
        return run_one(epsilon, seed)

    return counted, calls


def test_rows_have_the_declared_columns_in_the_order_of_the_grid():
    frame = run_grid(run_one, {**GRID, "paper": ["w"], "offset": [1.0]}, name="g", version="bn-1")
    assert list(frame.columns) == [*COLUMNS, "detail"]
    assert [
        tuple(row) for row in frame.loc[frame["metric"] == "pcd", ["epsilon", "seed"]].to_numpy()
    ] == [(epsilon, seed) for epsilon in (np.inf, 0.5) for seed in (3, 1, 2)]
    expected = np.random.default_rng(3).random() / 0.5 + 1
    row = frame[
        (frame["epsilon"] == 0.5) & (frame["seed"] == 3) & (frame["metric"] == "hellinger")
    ].iloc[0]
    assert row["value"] == pytest.approx(expected, rel=1e-9)
    assert (row["paper"], row["version"], row["unprotected"], row["data"]) == (
        "w",
        "bn-1",
        2,
        "real",
    )
    assert row["node"] == "" and pd.isna(row["n_clients"]) and pd.isna(row["bytes_up"])


def test_a_list_of_rows_and_a_list_of_cells():
    def per_client(seed, n_clients):
        return [
            {"data": "none", "metric": "m", "value": 10 * n, "node": n, "seconds": 123.456}
            for n in range(n_clients)
        ]

    frame = run_grid(
        per_client, [{"seed": 1, "n_clients": 2}, {"seed": 1, "n_clients": 1}], name="g"
    )
    assert frame[["n_clients", "node", "value", "seconds"]].to_numpy().tolist() == [
        [2, "0", 0.0, 120.0],
        [2, "1", 10.0, 120.0],
        [1, "0", 0.0, 120.0],
    ]


def test_epsilon_none_is_stored_as_infinity():
    frame = run_grid(lambda epsilon: {"data": "none", "m": 1}, {"epsilon": [None]}, name="g")
    assert frame["epsilon"].tolist() == [np.inf]


def test_second_run_computes_nothing_and_a_larger_grid_only_what_is_new():
    counted, calls = counting()
    first = run_grid(counted, GRID, name="g")
    again = run_grid(counted, GRID, name="g")
    assert len(calls) == 6
    pd.testing.assert_frame_equal(first, again)
    run_grid(counted, {"epsilon": [np.inf, 0.5], "seed": [1, 2, 3, 4]}, name="g")
    assert calls[6:] == [(np.inf, 4), (0.5, 4)]


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"name": "h"}, {"profile": "smoke"}],
)
def test_whatever_a_cell_depends_on_is_part_of_its_key(change):
    counted, calls = counting()
    run_grid(counted, GRID, **{"name": "g", "version": 1})
    run_grid(counted, GRID, **{"name": "g", "version": 1, **change})
    assert len(calls) == 12


def test_equal_settings_have_equal_keys():
    counted, calls = counting()
    run_grid(counted, [{"epsilon": 1.0, "seed": 1}], name="g")
    run_grid(counted, [{"seed": np.int64(1), "epsilon": 1}], name="g")
    assert len(calls) == 1


def test_two_jobs_give_the_rows_of_one(home, monkeypatch):
    alone = run_grid(run_one, GRID, name="g")
    monkeypatch.setenv("FEDSYNTH_HOME", str(home / "other"))
    both = run_grid(run_one, GRID, name="g", jobs=2)
    pd.testing.assert_frame_equal(alone.drop(columns="seconds"), both.drop(columns="seconds"))


@pytest.mark.slow
def test_workers_share_the_cores(monkeypatch):
    def threads(seed):
        return {
            "data": "none",
            "threads": int(os.environ["OMP_NUM_THREADS"]),
            "worker": os.getpid(),
        }

    monkeypatch.setattr(experiment.joblib, "cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    frame = run_grid(threads, {"seed": [1, 2, 3]}, name="g", jobs=2)
    assert frame.loc[frame["metric"] == "threads", "value"].tolist() == [2, 2, 2]
    assert os.getpid() not in frame.loc[frame["metric"] == "worker", "value"].tolist()


SCRIPT = """
import os, sys, time
from fedsynth_lib.runs.grid import run_grid

def run_one(seed):
    with open("calls.txt", "a") as calls:
        calls.write(f"{seed}\\n")
    while seed > 3 and not os.path.exists("resumed"):
        time.sleep(0.01)
    return {"data": "none", "square": seed**2}

frame = run_grid(run_one, {"seed": list(range(7))}, name="killed", jobs=int(sys.argv[1]))
print(",".join(str(int(value)) for value in frame["value"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_kill_9_loses_only_the_cells_in_flight(home, jobs):
    (home / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", str(jobs)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    cells = home / "data" / "cache" / "cells" / "killed" / "quick"
    process = subprocess.Popen(
        command, cwd=home, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while len(list(cells.glob("*.json"))) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    finished = {json.loads(path.read_text())["given"]["seed"] for path in cells.glob("*.json")}
    assert 2 <= len(finished) < 7
    (home / "calls.txt").unlink()
    (home / "resumed").touch()  # until then three of its cells do not end
    resumed = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=True
    )
    calls = sorted(map(int, (home / "calls.txt").read_text().split()))
    assert calls == sorted(set(range(7)) - finished)
    assert resumed.stdout.strip() == "0,1,4,9,16,25,36"
    said = f"{7 - len(finished)} experiments to compute, {len(finished)} computed before"
    assert said in resumed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_cell_is_named_and_the_others_are_kept(home, jobs):
    def fragile(seed):
        if seed == 5:
            for _ in range(600):  # a worker that starts late must have finished its cell first
                if any(home.glob("data/cache/cells/g/*/*.json")):
                    break
                time.sleep(0.1)
            raise ZeroDivisionError("no rows left")
        return {"data": "none", "m": seed}

    with pytest.raises(
        CellFailed,
        match=r"grid 'g', cell .*'seed': 5.*ZeroDivisionError: no rows "
        r"left",
    ):
        run_grid(fragile, {"seed": [1, 2, 5]}, name="g", jobs=jobs)
    kept = [
        json.loads(path.read_text())["given"]["seed"]
        for path in home.glob("data/cache/cells/g/*/*.json")
    ]
    assert set(kept) & {1, 2} and 5 not in kept
    assert not (home / "data" / "results").exists()


# --- result --------------------------------------------------------------------------------------
# files


def test_result_file_reads_back_exactly_and_does_not_depend_on_the_order(home):
    frame = run_grid(run_one, GRID, name="g")
    path = home / "data" / "results" / "quick" / "g.csv"
    written = path.read_bytes()
    key = ["cell", "metric"]
    pd.testing.assert_frame_equal(
        load_rows(path).sort_values(key, ignore_index=True),
        frame.sort_values(key, ignore_index=True),
    )
    run_grid(run_one, {"seed": [2, 1, 3], "epsilon": [0.5, np.inf]}, name="g")
    assert path.read_bytes() == written


def forget(home):
    """Leave what a fresh clone has: the result files."""
    for path in home.glob("data/cache/cells/g/*/*.json"):
        path.unlink()


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_committed_rows_count_as_finished_and_other_versions_and_profiles_do_not(
    home, monkeypatch, profile
):
    counted, calls = counting()
    options = {"name": "g", "profile": profile}
    first = run_grid(counted, GRID, **options, version=1)
    forget(home)
    written = (home / f"data/results/{profile}/g.csv").stat().st_mtime_ns
    pd.testing.assert_frame_equal(run_grid(counted, GRID, **options, version=1), first)
    assert len(calls) == 6
    # nothing was computed
    assert (home / f"data/results/{profile}/g.csv").stat().st_mtime_ns == written
    run_grid(counted, GRID, **{**options, "profile": "smoke"}, version=1)
    assert len(calls) == 12
    run_grid(counted, GRID, **options, version=2)
    assert len(calls) == 18
    forget(home)
    run_grid(counted, GRID, **options, version=1)
    assert len(calls) == 24  # version 2 took the place of version 1
    forget(home)
    monkeypatch.setenv("FEDSYNTH_FRESH", "1")
    run_grid(counted, GRID, **options, version=1)
    assert len(calls) == 30


def test_a_version_may_follow_from_the_cell(home):
    counted, calls = counting()
    versions = {np.inf: "1", 0.5: "1"}

    def version(cell):
        return f"aim {versions[cell['epsilon']]}, {cell['paper']}"

    frame = run_grid(counted, {**GRID, "paper": ["w"]}, name="g", version=version)
    assert set(frame["version"]) == {"aim 1, w"}
    versions[0.5] = "2"
    again = run_grid(counted, {**GRID, "paper": ["w"]}, name="g", version=version)
    assert calls[6:] == [(0.5, 3), (0.5, 1), (0.5, 2)]
    assert set(again.loc[again["epsilon"] == 0.5, "version"]) == {"aim 2, w"}


def test_a_cell_is_the_hash_of_what_it_was_asked_for_with_the_defaults_of_run_one():
    frame = run_grid(run_one, [{"epsilon": np.inf, "seed": 1}], name="g", version="bn 1")
    params = '{"epsilon":"inf","offset":0,"seed":1}'
    assert set(frame["params"]) == {params}
    assert set(frame["cell"]) == {hashlib.sha256(f"bn 1\n{params}".encode()).hexdigest()[:20]}


def test_a_setting_that_is_added_and_off_changes_no_cell():
    def grown(epsilon, seed, offset=0.0, robust=False, label=None, extras=()):
        raise AssertionError("every cell is there")

    first = run_grid(run_one, GRID, name="g")
    pd.testing.assert_frame_equal(run_grid(grown, GRID, name="g"), first)


def test_rows_come_back_in_one_order_whether_computed_cached_or_committed(home):
    def per_bin(seed):
        return [{"data": "none", "metric": "pcd", "item": item, "value": seed} for item in "bac"]

    computed = run_grid(per_bin, {"seed": [2, 1]}, name="g", save=False)
    cached = run_grid(per_bin, {"seed": [2, 1]}, name="g")
    forget(home)
    committed = run_grid(per_bin, {"seed": [2, 1]}, name="g")
    assert list(zip(computed["seed"], computed["item"], strict=True)) == [
        (s, i) for s in (2, 1) for i in "abc"
    ]
    pd.testing.assert_frame_equal(computed, cached)
    pd.testing.assert_frame_equal(computed, committed)


def test_a_part_of_the_paper_grid_leaves_the_other_rows_in_the_file(home):
    run_grid(run_one, GRID, name="g", profile="paper")
    written = (home / "data/results/paper/g.csv").read_bytes()
    part = run_grid(run_one, {"epsilon": [0.5], "seed": [2]}, name="g", profile="paper")
    assert len(part) == 2
    assert (home / "data/results/paper/g.csv").read_bytes() == written


def test_rows_of_cells_that_were_not_asked_for_stay_unless_their_method_has_another_version(home):
    def trained(method, seed):
        return {"data": "none", "pcd": seed}

    def left():
        rows = load_rows(home / "data/results/quick/g.csv")
        return sorted(zip(rows["method"], rows["seed"], rows["version"], strict=True))

    run_grid(trained, {"method": ["a", "b"], "seed": [1, 2]}, name="g", version="1")
    run_grid(trained, {"method": ["a"], "seed": [3]}, name="g", version="1")
    assert left() == [("a", 1, "1"), ("a", 2, "1"), ("a", 3, "1"), ("b", 1, "1"), ("b", 2, "1")]
    run_grid(trained, {"method": ["a"], "seed": [3]}, name="g", version="2")
    assert left() == [("a", 3, "2"), ("b", 1, "1"), ("b", 2, "1")]


@pytest.mark.parametrize(
    ("data", "folder"), [("standin", "quick-standin"), ("own", "quick-own"), ("none", "quick")]
)
def test_rows_not_made_from_the_real_tables_have_a_folder_of_their_own(home, data, folder):
    run_grid(lambda seed: {"data": data if seed else "none", "m": 1}, {"seed": [0, 1]}, name="g")
    assert [path.parent.name for path in home.glob("data/results/*/g.csv")] == [folder]


def test_a_row_must_say_what_data_it_rests_on():
    with pytest.raises(
        BadInput,
        match=r"cell \{'seed': 1\}.*data is '': say what the result "
        r"rests on",
    ):
        run_grid(lambda seed: {"m": 1}, {"seed": [1]}, name="g")
    with pytest.raises(BadInput, match="columns \\['colour'\\]"):
        run_grid(lambda seed: [{"data": "none", "colour": 1}], {"seed": [1]}, name="g")


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({"epsilon": 0.5, "seed": [1]}, {}, r"grid\['epsilon'\] is 0.5: give a list"),
        ({"epsilon": "ab", "seed": [1]}, {}, r"grid\['epsilon'\] is 'ab': give a list"),
        ({"epsilon": [], "seed": [1]}, {}, "has no cells"),
        ({"epsilon": [1]}, {}, "missing a required argument: 'seed'"),
        ({**GRID, "sead": [1]}, {}, "got an unexpected keyword argument 'sead'"),
        (GRID, {"jobs": 0}, "jobs is 0"),
        (GRID, {"name": "a/b"}, "becomes a file name"),
        (GRID, {"profile": "big"}, "profile is 'big'"),
        ({"epsilon": [pd.DataFrame()], "seed": [1]}, {}, "settings must be numbers"),
    ],
)
def test_a_grid_that_cannot_run_is_refused_before_any_work(home, grid, options, message):
    counted, calls = counting()
    with pytest.raises(BadInput, match=message):
        run_grid(counted, grid, **{"name": "g", **options})
    assert calls == [] and not any(home.iterdir())


# --- tables, progress, ---------------------------------------------------------------------------
# log


def test_a_fresh_run_makes_older_tables_anew_and_its_own_once(monkeypatch):
    made = []

    def make():
        made.append(1)
        return pd.DataFrame({"x": [len(made)]}), {}

    remember({"seed": 1}, make)
    monkeypatch.setenv("FEDSYNTH_FRESH", str(time.time() + 5))
    remember({"seed": 1}, make)
    assert len(made) == 2
    monkeypatch.setenv("FEDSYNTH_FRESH", str(time.time() - 60))
    assert remember({"seed": 1}, make)[0]["x"].item() == 2


def test_remember_makes_a_table_once_and_keeps_types_and_facts():
    made = []

    def make():
        made.append(1)
        frame = pd.DataFrame({"age": [1, 2], "x": [0.1, np.nan]})
        frame["work"] = pd.Categorical(["b", "b"], categories=["c", "b", "a"])
        return frame, {
            "statement": {"epsilon": np.inf, "releases": [{"what": "counts"}]},
            "seconds": 1.0,
        }

    frame, facts = remember({"method": "fedbn", "seed": 1}, make)
    again, facts_again = remember({"seed": 1, "method": "fedbn"}, make)
    assert len(made) == 1
    pd.testing.assert_frame_equal(frame, make()[0])
    pd.testing.assert_frame_equal(again, frame)
    assert facts == facts_again == make()[1]
    remember({"method": "fedbn", "seed": 2}, make)
    assert len(list(project_root().glob("data/cache/synthetic/*"))) == 2


@pytest.mark.parametrize("damage", ["cut off", "empty", "of another key", "a text"])
def test_a_damaged_or_foreign_table_is_made_again_and_named(home, damage):
    def make(x=1):
        return pd.DataFrame({"x": [x]}), {"seconds": 1.0}

    remember({"seed": 1}, make)
    (path,) = home.glob("data/cache/synthetic/*")
    whole = path.read_bytes()
    if damage == "of another key":
        remember({"seed": 2}, lambda: make(2))
        (other,) = set(home.glob("data/cache/synthetic/*")) - {path}
        whole = other.read_bytes()
    bad = {"cut off": whole[:-40], "empty": b"", "of another key": whole, "a text": b"x,y\n" * 99}
    path.write_bytes(bad[damage])
    with pytest.warns(UserWarning, match=f"^{path}: this file of the cache is damaged"):
        frame, facts = remember({"seed": 1}, make)
    assert frame["x"].item() == 1 and facts == {"seconds": 1.0}
    assert path.read_bytes() != bad[damage]


@pytest.mark.parametrize("damage", ["[]", "{}", '{"rows": 5}', "cut off", "edited", "another cell"])
def test_a_damaged_or_edited_cell_is_computed_again_and_named(home, damage):
    counted, calls = counting()
    grid = {"epsilon": [0.5], "seed": [1, 2]}
    first = run_grid(counted, grid, name="g", save=False)
    path, other = sorted(home.glob("data/cache/cells/g/quick/*.json"))
    content = path.read_text(encoding="utf-8")
    cells = json.loads(content)
    cells["rows"][0]["value"] = 7.5
    bad = {"cut off": content[:-9], "edited": json.dumps(cells), "another cell": other.read_text()}
    path.write_text(bad.get(damage, damage), encoding="utf-8")
    with pytest.warns(UserWarning, match=f"^{path}: this file of the cache is damaged"):
        again = run_grid(counted, grid, name="g", save=False)
    assert len(calls) == 3
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), first.drop(columns="seconds"))
    run_grid(counted, grid, name="g", save=False)
    assert len(calls) == 3


def test_progress_says_what_is_computed_and_how_long_it_takes(capfd):
    with progress("fedbn", total=4, reused=2) as bar:
        for _ in range(4):
            bar.update()
    first, *drawn = re.split(r"[\r\n]+", capfd.readouterr().err.strip())
    assert first == "fedbn: 4 experiments to compute, 2 computed before"
    assert drawn[-1].startswith("fedbn: 100%") and "4/4" in drawn[-1] and len(drawn) <= 3
    with progress("fedbn", total=0, reused=6):
        pass
    assert capfd.readouterr().err == ""  # a notebook would show it in red, above its first result
    assert duration(7500) == "2 h 05 min"


def test_the_runner_learns_what_was_computed(home, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_RUN_LOG", str(home / "log.jsonl"))
    run_grid(run_one, GRID, name="g")
    run_grid(run_one, {**GRID, "seed": [3, 4]}, name="g")
    assert [json.loads(line) for line in (home / "log.jsonl").read_text().splitlines()] == [
        {"event": "grid", "name": "g", "computed": 6, "reused": 0},
        {"event": "grid", "name": "g", "computed": 2, "reused": 2},
    ]
