"""Works as data: what their files may say, which cells their grids have, and a sixth work of one
short file and four functions."""

import hashlib
import json
import sys
from itertools import product
from pathlib import Path

import pytest

from fedsynth_lib import works
from fedsynth_lib.bundle import recompute
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.grid import Asked, CellFailed
from fedsynth_lib.runs.rows import PROFILES
from fedsynth_lib.tables import lock
from fedsynth_lib.works import WORKS, declared, load
from fedsynth_lib.works.declared import Measure

ROOT = Path(__file__).resolve().parents[1]
PINNED = Path(__file__).parent / "cells_of_grids.json"


@pytest.fixture
def locked(monkeypatch):
    """Tables whose digest is locked count as reachable, and no others; none can be loaded."""

    def reachable(keys, work=None, profile="quick"):
        return [key for key in keys if lock.is_locked(key, work=work)]

    monkeypatch.setattr(lock, "reachable", reachable)
    for module in (declared, lock):
        monkeypatch.setattr(module, "load_table", lambda key, **_: pytest.fail(f"{key} was loaded"))


# --- the cells of the works ---


def cells_of(profile: str) -> dict[str, list]:
    """File -> [number of cells, hash of what they are asked for], of all works at a profile."""
    found: dict[str, set[str]] = {}
    for work in map(load, WORKS):
        for exhibit in work.grids:
            grid = work.grid(exhibit, profile)
            function = work.function(grid.kind)
            asked = {Asked.of(function, cell, "1").params for cell in grid.cells}
            found[grid.name] = found.get(grid.name, set()) | asked
    return {
        name: [len(asked), hashlib.sha256("\n".join(sorted(asked)).encode()).hexdigest()[:20]]
        for name, asked in sorted(found.items())
    }


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_the_cells_of_every_grid_are_those_of_the_committed_rows(profile, locked):
    """A cell that is asked for otherwise is another cell: its rows would be computed anew. Where
    that is meant, `python tests/test_works.py` pins the cells anew."""
    assert cells_of(profile) == json.loads(PINNED.read_text())[profile]


@pytest.mark.parametrize("key", WORKS)
def test_every_grid_is_computed_by_what_its_file_says(key):
    for grid in load(key).grids.values():
        known = recompute.computed_by(grid.name)
        assert known == f"{key}.{grid.cells}"
        assert callable(recompute.function_of(known))


@pytest.mark.parametrize("key", WORKS)
def test_every_function_that_a_file_names_is_there(key):
    work = load(key)
    for kind in work.cells.values():
        verbs = [kind.complete, kind.admit, kind.draw, kind.measures]
        verbs += [kind.prepare] if "dataset" in kind.needs else []
        verbs += [kind.divide, kind.configure] if "method" in kind.needs else []
        for name in [kind.function] if kind.function else filter(None, verbs):
            assert callable(work.named(name)), name


# --- a work of one's own ---

TOML = """
own_views = false
tables = ["adult"]

[methods.Flat]
key = "independent"
[methods.Pooled]
key = "independent"
setting = "central"
idle = ["n_clients"]
[methods.Real]
rows = "train"
idle = ["n_clients", "epsilon"]

[cells.run]
needs = ["dataset", "method", "seed"]
settings = {n_clients = 3, epsilon = 1.0, partition = "iid"}
measured = ["share"]

[profiles]
smoke = {seeds = 1}

[grids.tab1]
name = "toy2030_clients"
methods = ["Flat", "Pooled", "Real"]
sweeps.clients = {n_clients = [2, 3, 4]}
smoke = {first = {n_clients = 2}}
"""
FUNCTIONS = """
from fedsynth_lib.tables.load import split
from fedsynth_lib.tables.partition import split_clients
from fedsynth_lib.works import load
from fedsynth_lib.works.protocol import Prepared, guarantee


def prepare(cell, dataset, seed):
    return Prepared(*split(cell.work.table(dataset), seed=seed))


def divide(prepared, partition, n_clients, seed):
    return split_clients(prepared.train, partition, n_clients, seed=seed)


def configure(epsilon):
    return {}, guarantee(epsilon, 1e-3)


def measures(made):
    sexes = made.frame["sex"]
    return {(sex, "share"): float((sexes == sex).mean()) for sex in ("Female", "Male")}
"""


@pytest.fixture
def sixth(home, monkeypatch):
    """A writer of the sixth work's file, in a folder where works are looked for, and of its table
    the stand-in; it gives the work."""
    (home / "data").mkdir()
    (home / "data" / "standin").symlink_to(ROOT / "data" / "standin")
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    monkeypatch.setattr(declared, "FOLDER", home)
    monkeypatch.setattr(works, "__path__", [*works.__path__, str(home)])
    monkeypatch.delitem(sys.modules, "fedsynth_lib.works.toy2030", raising=False)
    (home / "toy2030.py").write_text(FUNCTIONS)

    def write(text: str = TOML):
        load.cache_clear()
        (home / "toy2030.toml").write_text(text)
        return load("toy2030")

    yield write
    load.cache_clear()


def test_a_sixth_work_is_forty_lines_and_four_functions(sixth):
    work = sixth()
    assert len(TOML.strip().splitlines()) <= 40
    grid = work.grid("tab1", "smoke")
    assert [(cell["method"], cell.get("n_clients", 3)) for cell in grid.cells] == [
        *(("Flat", 2), ("Flat", 3), ("Pooled", 3), ("Real", 3))
    ]
    rows = grid.run()
    assert len(rows) == 8 and (rows["paper"] == "toy2030").all()
    by = rows[rows["item"] == "Female"].set_index(["method", "n_clients"])
    assert by["setting"].tolist() == ["federated", "federated", "central", "real"]
    assert by["value"].between(0, 1).all() and by["value"].iloc[-1] == pytest.approx(1 / 3, abs=0.1)
    trained = rows[rows["setting"] != "real"]
    assert (trained["epsilon_spent"] <= 1 + 1e-9).all() and (trained["bytes_up"] > 0).all()
    assert rows["version"].unique().tolist() == ["independent 1", "1"]
    again = grid.run()
    assert again["seconds"].tolist() == rows["seconds"].tolist()  # from the cache


def test_a_grid_can_be_asked_for_otherwise_than_it_is_declared(sixth):
    work = sixth()
    more = work.grid("tab1", "quick", n_clients=[2, 5], epsilon=2.0, methods=["Flat"])
    assert [(cell["n_clients"], cell["epsilon"]) for cell in more.cells] == [(2, 2.0), (5, 2.0)]
    assert work.swept("tab1", "clients", "n_clients", "smoke", [5, 7, 9]) == [5, 7]
    with pytest.raises(BadInput, match="tab1: n_clients is swept, so give a list in place of 5"):
        work.grid("tab1", "quick", n_clients=5)
    with pytest.raises(BadInput, match=r"unknown setting 'n_client'.*did you mean 'n_clients'"):
        work.grid("tab1", "quick", n_client=[5])
    with pytest.raises(BadInput, match=r"unknown grid 'tab2'.*'tab1'"):
        work.grid("tab2", "quick")
    with pytest.raises(BadInput, match="choose one of smoke, quick, paper"):
        work.grid("tab1", "full")
    with pytest.raises(BadInput, match=r"toy2030: unknown method 'Flatt' \(did you mean 'Flat'"):
        work.grid("tab1", "quick", methods=["Flatt"])


def test_an_error_names_the_grid_and_the_cell(sixth):
    with pytest.raises(BadInput, match=r"toy2030_clients.*'n_clients': 50000"):
        sixth().grid("tab1", "quick", n_clients=[50_000], methods=["Flat"]).run()
    broken = TOML.replace('rows = "train"', 'rows = "nobody"')
    with pytest.raises(CellFailed, match=r"toy2030_clients.*'method': 'Real'.*nobody"):
        sixth(broken).grid("tab1", "smoke", methods=["Real"]).run()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("tables =", "table =", "unknown key 'table'"),
        (
            'key = "independent"\n[methods.P',
            'kye = "x"\n[methods.P',
            "methods.Flat: unknown key 'kye'",
        ),
        ("needs =", "need =", "cells.run: unknown key 'need' .did you mean 'needs'"),
        (
            "{n_clients = [2",
            '{tables = ["toi"], n_clients = [2',
            "clients: unknown table 'toi'",
        ),
        ("smoke = {seeds", "smoke = {seed_s", "profiles.smoke: unknown key 'seed_s'"),
        ("smoke = {seeds", "smokes = {seeds", "profiles: unknown profile 'smokes'"),
        ("name = ", "file = ", "grids.tab1: unknown key 'file'"),
        ("{n_clients = [2", "{clients = [2", "grids.tab1.sweeps.clients: unknown key 'clients'"),
        ("smoke = {first", "smoke = {frist", "grids.tab1.smoke: unknown key 'frist'"),
        ('methods = ["Flat"', 'methods = ["Flet"', "grids.tab1.methods: unknown method 'Flet'"),
        (
            'name = "toy2030_clients"',
            'name = "toy"\nlike = "tab2"',
            "grids.tab1: unknown grid 'tab2'",
        ),
    ],
)
def test_what_a_file_may_not_say_is_refused_by_file_and_key(sixth, old, new, message):
    assert old in TOML
    with pytest.raises(BadInput, match="toy2030.toml.*" + message):
        sixth(TOML.replace(old, new, 1))


def test_an_unknown_work_is_refused():
    with pytest.raises(BadInput, match=r"unknown work 'maddok' \(did you mean 'maddock2024'"):
        load("maddok")


# --- words that choose among the values of a sweep ---


def test_words_choose_among_values(sixth):
    text = TOML.replace("[2, 3, 4]", "[2, 3, 4, 5, 6, 7, 8]")
    chosen = "{every = {n_clients = 3}, keep = {n_clients = [6]}, at_most = {n_clients = 7}}"
    text = text.replace("{first = {n_clients = 2}}", chosen)
    found = sixth(text).grid("tab1", "smoke", methods=["Flat"]).cells
    assert [cell["n_clients"] for cell in found] == [2, 5, 6]


def test_a_sweep_may_be_of_some_of_the_tables():
    """Whatever tables are asked for, each has the sweeps that are declared of it."""
    usual = load("leitner2023")
    both, small = (usual.grid("fig5.3", "paper", tables=names) for names in (None, ["diabetes"]))
    assert {(cell["dataset"], cell["seed"]) for cell in both.cells} == {
        *product(["adult", "bank", "cardio"], range(2)),
        *product(["diabetes", "obesity"], range(5)),
    }
    assert small.cells == [cell for cell in both.cells if cell["dataset"] == "diabetes"]


def test_a_profile_may_run_parts_of_some_tables(sixth):
    parts = """[
    {tables = ["adult"], at_most = {n_clients = 2}, seeds = 2},
    {tables = ["adult"], at_least = {n_clients = 4}},
]"""
    text = TOML.replace("{first = {n_clients = 2}}", f"{{parts = {parts}}}")
    grid = sixth(text).grid("tab1", "smoke", methods=["Flat"])
    found = [(cell.get("n_clients", 3), cell["seed"]) for cell in grid.cells]
    assert found == [(2, 0), (2, 1), (4, 0)]
    other = text.replace('["adult"]\n\n[methods.Flat]', '["adult", "bank"]\n\n[methods.Flat]')
    whole = sixth(other).grid("tab1", "smoke", methods=["Flat"], tables=["bank"]).cells
    assert [cell.get("n_clients", 3) for cell in whole] == [2, 3, 4]
    of_other = text.replace("seeds = 2", 'seeds = 2, sweeps = ["clients"]')
    assert len(sixth(of_other).grid("tab1", "smoke", methods=["Flat"])) == 3
    with pytest.raises(BadInput, match=r"grids\.tab1\.smoke: unknown sweep 'client'"):
        sixth(of_other.replace('["clients"]', '["client"]'))
    with pytest.raises(BadInput, match=r"grids\.tab1\.smoke: unknown key 'at_mots'"):
        sixth(text.replace("at_most", "at_mots"))
    with pytest.raises(BadInput, match=r"grids\.tab1\.smoke: unknown table 'adul'"):
        sixth(text.replace('{tables = ["adult"]', '{tables = ["adul"]'))


def test_a_function_travels_by_name(sixth, monkeypatch):
    assert sixth().function("run") == Measure("toy2030", "run")
    monkeypatch.undo()
    load.cache_clear()
    assert load("maddock2024").function("run") == Measure("maddock2024", "run")


if __name__ == "__main__":
    lock.reachable = lambda keys, work=None, **_: [k for k in keys if lock.is_locked(k, work=work)]
    PINNED.write_text(json.dumps({name: cells_of(name) for name in PROFILES}, indent=1) + "\n")


def test_a_text_in_place_of_a_list_of_tables_is_one_name():
    work = load("leitner2023")
    assert work.grid("fig5.3", "paper", tables="adult").tables == ["adult"]
    assert work.reachable("adult") == ["adult"]
    assert "covertype" in work.grid("fig5.3", "paper").without
    assert work.grid("tab5.9", "paper").without == ""
