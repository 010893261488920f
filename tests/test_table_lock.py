"""The lock of real tables: committed rows are found without them, and rows of stand-ins are never
taken for theirs."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import grid as experiment
from fedsynth_lib.runs.grid import run_grid
from fedsynth_lib.runs.rows import load_rows, read_params
from fedsynth_lib.tables import fetch, load, lock
from fedsynth_lib.tables.load import available, load_table
from fedsynth_lib.tables.lock import at_hand, reachable, table_digest, table_rows
from fedsynth_lib.tables.registry import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
LOCK = json.loads((ROOT / "data" / "tables.lock.json").read_text())
LOCKABLE = {  # name in the lock -> view
    lock._name(key, work): (key, work)
    for key, entry in REGISTRY.items()
    for work in (None, *entry.works)
}
ADULT = LOCK["adult martinez2024"]["digest"]

pytestmark = pytest.mark.filterwarnings("ignore::fedsynth_lib.tables.load.StandInWarning")


def no_network(url, **_):
    raise AssertionError(f"a test asked for {url}")


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A project that has the lock and the stand-ins of adult and bank, no real table and no
    network."""
    for name in ("FEDSYNTH_MIRROR", "FEDSYNTH_DATA", "FEDSYNTH_FRESH", "FEDSYNTH_RUN_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    (tmp_path / "data" / "standin").mkdir(parents=True)
    (tmp_path / "data" / "tables.lock.json").write_text(json.dumps(LOCK))
    for key in ("adult", "bank"):
        name = f"{key}.parquet"
        os.symlink(ROOT / "data" / "standin" / name, tmp_path / "data" / "standin" / name)
    for key in ("adult", "bank", "diabetes"):
        files = {name: replace(file, urls=()) for name, file in REGISTRY[key].files.items()}
        monkeypatch.setitem(REGISTRY, key, replace(REGISTRY[key], files=files))
    monkeypatch.setattr(fetch.requests, "get", no_network)
    return tmp_path


def nothing_is_loaded(*given, **_):
    raise AssertionError(f"{given} was loaded")


def entry_of(home, name):
    return json.loads((home / "data" / "tables.lock.json").read_text())[name]


def change_lock(home, name, **changes):
    """Change the entry of a view in the lock file, or remove it where nothing is given."""
    path = home / "data" / "tables.lock.json"
    locked = json.loads(path.read_text())
    entry = locked.pop(name)
    path.write_text(json.dumps(locked | ({name: entry | changes} if changes else {})))
    lock._read.cache_clear()  # two writes may fall into one tick of the file's clock


# --- the committed -------------------------------------------------------------------------------
# lock


def test_what_is_locked_is_declared_so_now():
    """Where this fails, a declaration has changed: run ./run_all.sh lock with the
    real tables."""
    assert LOCK.keys() <= LOCKABLE.keys()
    assert [name for name in LOCK if LOCK[name]["made_of"] != lock._made_of(*LOCKABLE[name])] == []


def test_every_table_of_committed_rows_is_locked():
    digests = {locked["digest"] for locked in LOCK.values()}
    committed = [
        path
        for profile in ("paper", "quick")
        for path in (ROOT / "data" / "results" / profile).glob("*.csv")
    ]
    for path in sorted(committed):
        params = pd.read_csv(path, usecols=["params"], dtype=str)["params"].unique()
        # what is declared has no table
        lost = {read_params(text).get("table") for text in params} - digests - {None}
        assert lost == set(), path


def test_locked_digests_are_those_of_the_real_tables_at_hand(monkeypatch):
    """Of as many as are: a table that is made by code always is."""
    monkeypatch.delenv("FEDSYNTH_DATA", raising=False)
    monkeypatch.delenv("FEDSYNTH_HOME", raising=False)
    there = {key for key in REGISTRY if available(key).state in ("generated", "raw", "mirror")}
    # a mirror that is not on this machine
    there -= {key for key in there if "not checked" in available(key).where}
    assert "synthfs" in there
    for name, locked in LOCK.items():
        key, work = LOCKABLE[name]
        if key in there:
            table = load_table(key, work=work)
            assert (name, table.digest, len(table)) == (name, locked["digest"], locked["rows"])
    assert there <= {key for key, _ in map(LOCKABLE.get, LOCK)}


@pytest.mark.slow
def test_views_that_are_locked_alike_have_one_stand_in(monkeypatch):
    """`at_hand` finds a view by its digest, so that views of one digest must have stand-ins of one
    digest too."""
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    alike = Counter(locked["digest"] for locked in LOCK.values())
    for name, locked in LOCK.items():
        key, work = LOCKABLE[name]
        if alike[locked["digest"]] > 1 and (ROOT / "data" / "standin" / f"{key}.parquet").is_file():
            assert at_hand(locked["digest"]) == load_table(key, work=work).digest, name


# --- digests -------------------------------------------------------------------------------------


def test_a_locked_table_is_known_without_loading_it(offline, monkeypatch):
    monkeypatch.setattr(lock, "load_table", nothing_is_loaded)
    assert table_digest("adult", work="martinez2024") == ADULT
    assert table_rows("adult", work="maddock2024") == 48842
    assert reachable(["diabetes", "adult"], work="leitner2023") == ["diabetes", "adult"]


def test_where_no_rows_are_committed_a_table_must_be_at_hand(offline, monkeypatch, capsys):
    assert reachable(["diabetes"], work="leitner2023", profile="smoke") == []  # it has no stand-in
    monkeypatch.setenv("FEDSYNTH_FRESH", "1")
    assert reachable(["diabetes"], work="leitner2023") == []
    assert capsys.readouterr().out.count("diabetes is left out: ") == 2


def test_stand_ins_that_are_asked_for_have_their_own_digest(offline, monkeypatch):
    standin = load_table("adult", work="martinez2024").digest
    assert at_hand(ADULT) == standin != ADULT
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    assert table_digest("adult", work="martinez2024") == standin
    assert at_hand(standin) == standin


def test_an_entry_whose_declaration_changed_no_longer_counts(offline, monkeypatch):
    standin = load_table("adult", work="martinez2024")
    change_lock(offline, "adult martinez2024", made_of="0" * 20)
    assert table_digest("adult", work="martinez2024") == standin.digest
    change_lock(offline, "adult martinez2024", rows=5)
    assert table_rows("adult", work="martinez2024") == len(standin)
    assert table_digest("adult") == LOCK["adult"]["digest"]
    change_lock(offline, "bank")
    assert table_digest("bank") == load_table("bank").digest


def with_view(entry, **changes):
    view = entry.works["martinez2024"]
    return replace(entry, works={**entry.works, "martinez2024": replace(view, **changes)})


def with_column(entry, **changes):
    first, *others = entry.schema.columns
    return replace(
        entry, schema=replace(entry.schema, columns=(replace(first, **changes), *others))
    )


def with_files(entry, **changes):
    return replace(
        entry, files={name: replace(file, **changes) for name, file in entry.files.items()}
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: with_files(entry, sha256="0" * 64),
        lambda entry: with_column(entry, high=120),
        lambda entry: with_view(entry, drop=("fnlwgt",)),
        lambda entry: with_view(entry, rename={"income": "rich"}),
        lambda entry: with_view(entry, target="sex"),
        lambda entry: replace(entry, file_columns=entry.file_columns[::-1]),
    ],
)
def test_whatever_a_table_follows_from_is_part_of_what_it_is_made_of(monkeypatch, change):
    monkeypatch.setitem(REGISTRY, "adult", change(REGISTRY["adult"]))
    assert lock._made_of("adult", "martinez2024") != LOCK["adult martinez2024"]["made_of"]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: with_files(entry, urls=()),
        lambda entry: with_column(entry, source="told otherwise"),
        lambda entry: with_view(entry, notes="more"),
        lambda entry: replace(
            entry, works={**entry.works, "another2027": entry.default}, title="Census"
        ),
    ],
)
def test_addresses_wording_and_other_works_are_not(monkeypatch, change):
    monkeypatch.setitem(REGISTRY, "adult", change(REGISTRY["adult"]))
    assert lock._made_of("adult", "martinez2024") == LOCK["adult martinez2024"]["made_of"]


def test_tables_that_cannot_be_had_are_told_by_name(offline, capsys):
    with pytest.raises(
        BadInput, match="diabetes: the table cannot be reached and there is no stand-in"
    ):
        at_hand(LOCK["diabetes leitner2023"]["digest"])
    assert at_hand("a table of one's own") == "a table of one's own"
    change_lock(offline, "diabetes leitner2023")
    assert reachable(["adult", "diabetes"], work="leitner2023") == ["adult"]
    assert "diabetes is left out: diabetes: the table cannot be reached" in capsys.readouterr().out
    (offline / "data" / "tables.lock.json").write_text("{")
    with pytest.raises(BadInput, match=r"tables\.lock\.json is not valid JSON .*: fetch it again"):
        table_digest("adult")


def test_locking_keeps_what_is_not_at_hand(offline, monkeypatch, capsys):
    """adult has only a stand-in here, diabetes nothing; synthfs is made by code."""
    few = {key: REGISTRY[key] for key in ("adult", "diabetes", "synthfs")}
    monkeypatch.setattr(lock, "REGISTRY", few)
    change_lock(offline, "adult", digest="kept")
    change_lock(offline, "synthfs", digest="old")
    lock.write_lock()
    assert entry_of(offline, "adult")["digest"] == "kept"
    assert entry_of(offline, "synthfs") == LOCK["synthfs"]
    said = capsys.readouterr().out
    assert "diabetes is left as it is: diabetes: the table cannot be reached" in said
    assert f"tables.lock.json: {len(LOCK)} views of tables" in said


# --- rows of a real ------------------------------------------------------------------------------
# table


def measured(dataset, seed, table):
    """Rows of whichever table is at hand, which must be the one that was asked for."""
    found = load_table(dataset, work="martinez2024")
    found.expect(table)
    return {"data": found.data, "dataset": dataset, "pcd": seed}


def as_if_real(dataset, seed, table):
    return {"data": "real", "dataset": dataset, "pcd": seed}


def unneeded(dataset, seed, table):
    raise AssertionError("every cell is there")


def grid(seeds, datasets=("adult", "bank")):
    digests = {dataset: table_digest(dataset, work="martinez2024") for dataset in datasets}
    return [
        {"dataset": d, "seed": s, "table": digest} for d, digest in digests.items() for s in seeds
    ]


@pytest.fixture
def committed(offline, monkeypatch):
    """The result file of two seeds of both real tables, as a clone has it."""
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "at_hand", lambda digest: digest)
        frame = run_grid(as_if_real, grid([1, 2]), name="g")
    for path in offline.glob("data/cache/cells/g/*/*.json"):
        path.unlink()
    return frame


def test_committed_rows_of_a_real_table_are_found_without_it(offline, committed, monkeypatch):
    monkeypatch.setattr(load, "load_table", nothing_is_loaded)
    monkeypatch.setattr(lock, "load_table", nothing_is_loaded)
    pd.testing.assert_frame_equal(run_grid(unneeded, grid([1, 2]), name="g"), committed)
    assert [path.parent.name for path in offline.glob("data/results/*/g.csv")] == ["quick"]


def test_where_one_cell_of_a_table_is_missing_all_of_them_are_of_its_stand_in(offline, committed):
    file = offline / "data" / "results" / "quick" / "g.csv"
    before = file.read_bytes()
    asked = grid([1, 2, 3], ["adult"]) + grid([1, 2], ["bank"])
    frame = run_grid(measured, asked, name="g")
    assert frame.groupby("dataset")["data"].agg(list).to_dict() == {
        "adult": ["standin"] * 3,
        "bank": ["real"] * 2,
    }
    adults = frame[frame["dataset"] == "adult"]
    assert adults["seed"].tolist() == [1, 2, 3]
    assert not set(adults["cell"]) & set(committed["cell"])
    assert all(at_hand(ADULT) in params and ADULT not in params for params in adults["params"])
    assert file.read_bytes() == before
    beside = load_rows(offline / "data" / "results" / "quick-standin" / "g.csv")
    assert set(beside["cell"]) == set(frame["cell"])
    again = run_grid(unneeded, asked, name="g")  # from the cache
    pd.testing.assert_frame_equal(again, frame)


def test_rows_of_a_real_table_are_kept_when_it_comes_back(offline, committed, monkeypatch):
    run_grid(measured, grid([1, 2, 3], ["adult"]), name="g")
    monkeypatch.setattr(experiment, "at_hand", lambda digest: digest)
    frame = run_grid(as_if_real, grid([1, 2, 3], ["adult"]), name="g")
    assert set(frame["data"]) == {"real"}
    file = load_rows(offline / "data" / "results" / "quick" / "g.csv")
    assert set(file["data"]) == {"real"} and len(file) == 5
