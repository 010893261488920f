"""The study of leitner2023: versions, what a cell measures, shares of positives, and rows that are
counted unloaded."""

import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods import METHODS
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs import names
from fedsynth_lib.tables import lock
from fedsynth_lib.tables.load import Table, available, load_table
from fedsynth_lib.tables.registry import REGISTRY
from fedsynth_lib.works import ctgan_study

TABLES = [key for key, entry in REGISTRY.items() if "leitner2023" in entry.works]


@pytest.fixture
def toy(table, monkeypatch):
    """300 rows under a name that is not registered."""
    small = Table("toy", table.frame.head(300), table.schema, data="own")

    def load_table(key, work=None, schema=None):
        assert (key, work) == ("toy", None)
        return small

    ctgan_study.prepared.cache_clear()
    for module in (ctgan_study, lock):
        monkeypatch.setattr(module, "load_table", load_table)
    yield small
    ctgan_study.prepared.cache_clear()


def test_a_version_is_that_of_the_cells_own_method_and_of_its_measures(monkeypatch):
    for method, key in ctgan_study.NAMES.items():
        assert ctgan_study.version({"method": method}) == f"{key} {METHODS[key].VERSION}"
    assert ctgan_study.version({"method": "Real"}) == "1"
    monkeypatch.setitem(names.MEASURES, "wd", 2)
    monkeypatch.setitem(names.MEASURES, "pearson", 3)
    own = f"ctgan {METHODS['ctgan'].VERSION}"
    assert ctgan_study.version({"method": "CTGAN"}) == f"{own}, wd 2"
    assert ctgan_study.version({"method": "CTGAN", "pairs": True}) == f"{own}, pearson 3"


def test_every_measure_of_a_cell_counts_in_its_version(toy, monkeypatch):
    """Of a copy of the rows, whose statement is not looked at."""
    facts = {"statement": {"unprotected": [], "epsilon_protected": 0.0}}
    facts |= {"seconds": 1.0, "bytes_up": 0, "bytes_down": 0}
    monkeypatch.setattr(ctgan_study, "synthetic", lambda *a, **k: (toy.frame, facts))
    found = {row["metric"] for row in ctgan_study.measure("toy", "CTGAN", 0)}
    assert found == set(ctgan_study.MEASURED) - {"positives"}
    pairs = ctgan_study.measure("toy", "CTGAN", 0, pairs=True)
    assert {row["metric"] for row in pairs} == {"cramers_v", "pearson"}
    items = {row["item"] for row in pairs}
    assert items == {"age x weight", "smokes x region", "smokes x ill", "region x ill"}


def test_sizes_count_rows_and_columns_of_each_kind(toy):
    sizes = ctgan_study.sizes("toy", toy.digest)
    assert {name: sizes[name] for name in ("n_train", "n_test", "n_continuous", "n_discrete")} == {
        **{"n_train": 240, "n_test": 60, "n_continuous": 2, "n_discrete": 3}
    }
    assert (sizes["exhibit"], sizes["data"]) == ("tab5.1", "own")
    with pytest.raises(BadInput, match="the table is not the one that the grid was made for"):
        ctgan_study.sizes("toy", "another")


def test_positives_are_the_share_of_ones_and_a_weighting_is_measured_too(monkeypatch, table):
    asked = []
    labels = pd.DataFrame({table.schema.target: pd.Categorical(list("10010000"))})

    def synthetic(**run):
        asked.append(run)
        return labels, {}

    def measure(**cell):
        return [{"metric": "accuracy", "value": cell["changes"]["weighting"]}]

    monkeypatch.setattr(
        ctgan_study, "prepared", lambda dataset, rows: ctgan_study.Prepared(table, table)
    )
    monkeypatch.setattr(ctgan_study, "synthetic", synthetic)
    monkeypatch.setattr(ctgan_study, "measure", measure)
    cell = {
        "dataset": "cardio",
        "method": "Fed-CTGAN",
        "seed": 2,
        "changes": {"batch": 50},
        "table": "toy",
    }
    (share,) = ctgan_study.positives(**cell)
    assert (share["metric"], share["value"], share["data"]) == ("positives", 0.25, "own")
    assert asked == [{"dataset": "cardio", "method": "Fed-CTGAN", "seed": 2, "batch": 50}]
    measured, share = ctgan_study.positives("rows", **cell)
    assert measured == {"metric": "accuracy", "value": "rows"} and share["value"] == 0.25
    assert asked[1]["weighting"] == "rows" and asked[1]["batch"] == 50


@pytest.mark.parametrize("rows", [None, 500])
@pytest.mark.parametrize("dataset", [key for key in TABLES if available(key).state != "missing"])
def test_training_rows_are_counted_as_they_are_prepared(dataset, rows, monkeypatch):
    """Of the real table where it is at hand, of its stand-in elsewhere."""
    ctgan_study.prepared.cache_clear()
    if load_table(dataset, work="leitner2023").data != "real":
        monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    assert ctgan_study.training_rows(dataset, rows) == len(
        ctgan_study.prepared(dataset, rows).train
    )
    ctgan_study.prepared.cache_clear()


def test_training_rows_of_locked_tables_are_those_that_the_work_states(monkeypatch):
    """Table 5.1 of the work; a fifth of all rows is held out, of adult its own test file. Covertype
    is a sample."""
    monkeypatch.delenv("FEDSYNTH_DATA", raising=False)
    monkeypatch.setattr(lock, "load_table", lambda *_, **__: pytest.fail("a table was loaded"))
    printed = (
        load_values("leitner2023", "tab5.1")
        .query("metric == 'n_train'")
        .set_index("dataset")["mean"]
    )
    found = {dataset: ctgan_study.training_rows(dataset, None) for dataset in printed.index}
    assert found == {**printed, "covertype": 40_000}
    assert ctgan_study.training_rows("adult", 300) == 300
