"""Verification by recomputing: toy grids in a project of their own, and the registry against the
notebooks."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from fedsynth_lib import works
from fedsynth_lib.bundle import recompute, verify
from fedsynth_lib.bundle.agreement import DIFFERENT, EXACT, ROUNDED, SPREAD
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import rows
from fedsynth_lib.runs.grid import remember, run_grid

ROOT = Path(__file__).resolve().parents[1]
TOYS = """
import time
from pathlib import Path
import pandas as pd
from fedsynth_lib.runs.grid import remember

def measure(seed, size=1, wait=0.0, fails=False, table="", items=0):
    if fails:
        raise RuntimeError("it cannot be done")
    if wait:
        Path(__file__).with_name("waiting").touch()
        time.sleep(wait)
    made, _ = remember({"toy": seed}, lambda: (pd.DataFrame({"value": [0.1 * (seed + 1)]}), {}))
    labels, value = {"data": "none", "paper": "ours"}, made["value"][0] * size
    if items:
        return [{**labels, "metric": "hellinger", "item": f"{n}", "value": value + n} for n in range(items)]
    return {**labels, "hellinger": value, "peak_gib": time.time()}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A project folder, in which grids whose names begin with 99 are computed by a toy."""
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "toys.py").write_text(TOYS)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path / "toys"), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.syspath_prepend(str(tmp_path / "toys"))
    monkeypatch.setattr(works, "computed_by", toy_grid)
    return tmp_path


def toy_grid(name: str) -> str | None:
    return "toys:measure" if name.startswith("99_") else None


def commit(name: str, cells: list[dict], profile: str = "quick", **values: float) -> Path:
    """Commit the rows of a toy grid; values: of `hellinger`, in place of what came out, by seed
    (s0, s1 ...)."""
    import toys

    frame = run_grid(toys.measure, cells, name=name, profile=profile, save=False)
    for seed, value in values.items():
        frame.loc[(frame["seed"] == int(seed[1:])) & (frame["metric"] == "hellinger"), "value"] = (
            value
        )
    return rows.save_rows(frame[rows.COLUMNS], name=name, profile=profile)


# 0.1, 0.2, 0.3, 0.4: their standard deviation is 0.13
SEEDS = [{"seed": seed} for seed in range(4)]


@pytest.mark.slow
def test_each_kind_of_agreement_is_counted_and_kept(home, capsys):
    commit("99_exact", SEEDS)
    commit("99_round", SEEDS, s1=0.2 * (1 + 1e-8))
    commit("99_spread", SEEDS, s1=0.25)
    commit("99_wrong", SEEDS, s1=9.0, s2=9.001, s0=9.002, s3=9.003)
    assert verify.verify(10, root=home, seed="x", save=True) == 1
    out = capsys.readouterr().out
    table = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line[:3] in ("99_", "tot")
    }
    assert table == {
        "99_exact": ["quick", "4", "4", "4", "0", "0", "0"],
        "99_round": ["quick", "4", "4", "3", "1", "0", "0"],
        "99_spread": ["quick", "4", "4", "3", "0", "1", "0"],
        "99_wrong": ["quick", "4", "4", "0", "0", "0", "4"],
        "total": ["16", "16", "10", "1", "1", "4"],
    }
    assert 'seed "x"' in out and "hellinger: committed 0.25, recomputed 0.2" in out

    kept = pd.read_csv(home / "data" / "results" / "verified.csv")
    assert kept["agreement"].value_counts().to_dict() == {
        EXACT: 10,
        DIFFERENT: 4,
        ROUNDED: 1,
        SPREAD: 1,
    }
    spread = kept[kept["agreement"] == SPREAD].iloc[0]
    assert (spread["grid"], json.loads(spread["params"])["seed"]) == ("99_spread", 1)
    assert (spread["metric"], spread["committed"], spread["recomputed"]) == ("hellinger", 0.25, 0.2)
    text = (home / "data" / "results" / "verified.md").read_text(encoding="utf-8")
    assert "the seed `x`" in text and "99_wrong" in text and "numpy" in text


@pytest.mark.slow
def test_the_record_has_the_latest_of_every_cell_that_is_committed_still(home):
    commit("99_one", SEEDS[:2])
    commit("99_gone", [{"seed": 0, "size": 5}])
    verify.verify(10, root=home, seed="x", save=True)
    (home / "data" / "results" / "quick" / "99_gone.csv").unlink()
    commit("99_two", [{"seed": 0, "size": 3}], s0=9.0)
    assert verify.verify(10, root=home, seed="y", only="two", save=True) == 1
    kept = pd.read_csv(home / "data" / "results" / "verified.csv")
    assert list(zip(kept["grid"], kept["agreement"], strict=True)) == [
        *[("99_one", EXACT)] * 2,
        ("99_two", DIFFERENT),
    ]
    text = (home / "data" / "results" / "verified.md").read_text(encoding="utf-8")
    assert "3 cells of 2 strata" in text and "2 exactly" in text and "1 different" in text


def put(frame, path):
    """Rows that a run might have written."""
    frame.to_csv(path, index=False)
    rows.note_digests([path])


@pytest.mark.slow
def test_where_no_seeds_are_known_one_more_is_computed(home, capsys):
    """0.1 with seed 0 and 0.2 with seed 1, of each of three items: a deviation of 0.07."""
    path = commit("99_lone", [{"seed": 0, "items": 3}])
    for off, kind, status in ((0.05, SPREAD, 0), (0.9, DIFFERENT, 1)):
        frame = rows.load_rows(path)
        frame.loc[frame["item"] == "0", "value"] = 0.1 + off
        put(frame, path)
        assert verify.verify(10, root=home) == status
        assert f"{kind}: 99_lone" in capsys.readouterr().out


@pytest.mark.slow
def test_nothing_that_was_kept_counts_and_nothing_of_the_user_is_touched(home, capsys):
    remember({"toy": 1}, lambda: (pd.DataFrame({"value": [5.0]}), {}))
    commit("99_toy", [{"seed": 1}])  # from the cache: 5, where a training gives 0.2
    before = {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    assert verify.verify(10, root=home) == 1
    assert "committed 5, recomputed 0.2" in capsys.readouterr().out
    after = {
        path: path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and "raw" not in path.parts
    }
    assert {p: b for p, b in before.items() if "__pycache__" not in p.parts} == {
        p: b for p, b in after.items() if "__pycache__" not in p.parts
    }


@pytest.mark.slow
def test_a_cell_that_fails_is_different(home, capsys):
    path = commit("99_toy", [{"seed": 0}])
    frame = rows.load_rows(path)
    params = rows.params_text({**rows.read_params(frame["params"][0]), "fails": True})
    frame = frame.assign(params=params, cell=rows.cell_key(params, "1"))
    put(frame, path)
    assert verify.verify(10, root=home) == 1
    assert "it failed: it cannot be done" in capsys.readouterr().out


@pytest.mark.slow
def test_cells_whose_tables_are_not_at_hand_are_left_out_and_the_others_must_pass(
    home, capsys, monkeypatch
):
    for name in ("tables.lock.json", "standin"):
        (home / "data" / name).symlink_to(ROOT / "data" / name)
    digest = json.loads((ROOT / "data" / "tables.lock.json").read_text())["obesity"]["digest"]
    # it was, where the rows were made
    monkeypatch.setattr("fedsynth_lib.runs.grid.at_hand", lambda table: table)
    commit("99_needs", [{"seed": seed, "table": digest} for seed in range(3)])
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    assert verify.verify(10, root=home) == 1  # nothing could be recomputed
    assert (
        "3 cells were left out, because the real tables are not at hand" in capsys.readouterr().out
    )
    commit("99_free", [{"seed": 0}])
    assert verify.verify(10, root=home) == 0
    out = capsys.readouterr().out
    assert (
        "3 cells were left out" in out
        and "99_free" in out
        and "1 of 2 strata (a grid in a profile) were not reached." in out
    )


@pytest.mark.slow
def test_it_keeps_to_its_time(home, capsys, monkeypatch):
    monkeypatch.setattr(verify, "STARTING", 8.0)
    path = commit("99_slow", [{"seed": 0}])
    frame = rows.load_rows(path)
    params = rows.params_text({**rows.read_params(frame["params"][0]), "wait": 600})
    put(frame.assign(params=params, cell=rows.cell_key(params, "1"), seconds=0.1), path)
    long = commit("99_long", [{"seed": 0}])
    put(rows.load_rows(long).assign(seconds=1e6), long)
    begin = time.monotonic()
    assert verify.verify(1, root=home) == 1
    assert time.monotonic() - begin < 60  # the minute that it was given
    out = capsys.readouterr().out
    assert "1 cells were begun and not done in time." in out
    assert "2 of 2 strata (a grid in a profile) were not reached." in out


def cells(*lines: tuple[str, str, float]) -> pd.DataFrame:
    """Committed cells: grid, profile, expected seconds."""
    return pd.DataFrame(lines, columns=["grid", "profile", "expected"])


def test_the_order_is_one_of_each_stratum_by_cost_and_then_round_by_round():
    lines = [("b", "quick", 1)] * 2 + [("a", "paper", 5)] + [("a", "quick", 3)] * 3
    order = verify.in_turn(cells(*lines), "x")
    drawn = list(zip(order["grid"], order["profile"], strict=True))
    first = [("b", "quick"), ("a", "quick"), ("a", "paper")]
    assert drawn == [*first, ("b", "quick"), ("a", "quick"), ("a", "quick")]


@pytest.mark.slow
def test_no_cell_is_begun_that_is_expected_to_take_too_long(home, capsys):
    path = commit("99_long", [{"seed": 0}])
    put(rows.load_rows(path).assign(seconds=39.0), path)
    assert verify.verify(10, root=home) == 1  # 1.5 times 39 seconds and 2 of overhead: above 60
    assert "1 of 1 strata (a grid in a profile) were not reached." in capsys.readouterr().out
    put(rows.load_rows(path).assign(seconds=37.0), path)
    assert verify.verify(10, root=home) == 0


def test_equal_seeds_draw_equal_cells():
    many = cells(*[("a", "quick", 1)] * 50)
    one, again, two = (list(verify.in_turn(many, seed).index) for seed in ("one", "one", "two"))
    assert one == again != two
    assert sorted(one) == list(many.index)


def test_what_cannot_be_asked_is_said(home):
    with pytest.raises(BadInput, match="give more than 0"):
        verify.verify(0, root=home)
    with pytest.raises(BadInput, match="no committed grid has 'nix'"):
        verify.verify(1, root=home, only="nix")
    with pytest.raises(BadInput, match="'my_grid'"):
        recompute.computed_by("my_grid")


@pytest.mark.slow
def test_ctrl_c_ends_with_the_table(home):
    commit("99_quick", [{"seed": 0}])
    path = commit("99_slow", [{"seed": 0}])
    frame = rows.load_rows(path)
    params = rows.params_text({**rows.read_params(frame["params"][0]), "wait": 500})
    put(frame.assign(params=params, cell=rows.cell_key(params, "1"), seconds=5.0), path)
    program = "from fedsynth_lib import works; works.computed_by = lambda grid: 'toys:measure'; "
    program += "from fedsynth_lib.bundle import commands; "
    program += "raise SystemExit(commands.main(['verify', '5']))"
    begun = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    waiting, end = home / "toys" / "waiting", time.monotonic() + 280
    while not waiting.exists() and begun.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    begun.send_signal(signal.SIGINT)
    out, _ = begun.communicate(timeout=300)
    assert begun.returncode == 130, out
    assert "It was stopped before its time." in out and "99_quick" in out


def test_the_registry_knows_every_grid_of_the_notebooks_and_computes_it_as_they_do():
    found = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        source = "\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
        found |= {name: (path.stem, function) for name, function in grids(ast.parse(source))}
    for name, (notebook, function) in found.items():
        if by := recompute.computed_by(name):  # else from rows, by an object that holds them
            assert by.replace(":", ".").split(".")[-2:] == function[-2:], f"{notebook}: {name}"
        else:
            assert re.fullmatch(r"\w+\(\w+\)", function[-1]), f"{notebook}: {name}"
    declared = {grid.name for key in works.WORKS for grid in works.load(key).grids.values()}
    assert len({*found, *declared}) > 45
    for file in (ROOT / "data" / "results").glob("*/[0-9][0-9]_*.csv"):
        if known := recompute.computed_by(file.stem):
            assert callable(recompute.function_of(known)), file.name


def grids(tree: ast.AST) -> list[tuple[str, list[str]]]:
    """(name, [module, function]) of each call of run_grid whose name is written out."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            known |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.Attribute):
            targets, values = (
                [e.elts if isinstance(e, ast.Tuple) else [e]] for e in (node.targets[0], node.value)
            )
            known |= {
                ast.unparse(one): ast.unparse(other)
                for one, other in zip(*targets, *values, strict=False)
            }
    calls = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "run_grid"
    ]
    named = []
    for call in calls:
        name = next((each.value for each in call.keywords if each.arg == "name"), None)
        if isinstance(name, ast.Constant):
            function = ast.unparse(call.args[0])
            module, *rest = known.get(function, function).split(".")
            named.append((name.value, [*known.get(module, module).split("."), *rest]))
    return named
