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
from fedsynth_lib.works import declared, leitner2023, load, protocol

STUDY = load("leitner2023")

TABLES = [key for key, entry in REGISTRY.items() if "leitner2023" in entry.works]


@pytest.fixture
def toy(table, monkeypatch):
    """300 rows under a name that is not registered."""
    small = Table("toy", table.frame.head(300), table.schema, data="own")

    def load_table(key, work=None, schema=None):
        assert (key, work) == ("toy", None)
        return small

    leitner2023.prepare.cache_clear()
    for module in (declared, lock):
        monkeypatch.setattr(module, "load_table", load_table)
    yield small
    leitner2023.prepare.cache_clear()


def test_a_version_is_that_of_the_cells_own_method_and_of_its_measures(monkeypatch):
    for name, method in STUDY.methods.items():
        known = f"{method.key} {METHODS[method.key].VERSION}" if method.key else "1"
        assert STUDY.version("run", {"method": name}) == known
    monkeypatch.setitem(names.MEASURES, "wd", 2)
    monkeypatch.setitem(names.MEASURES, "pearson", 3)
    own = f"ctgan {METHODS['ctgan'].VERSION}"
    assert STUDY.version("run", {"method": "CTGAN"}) == f"{own}, wd 2"
    assert STUDY.version("pairs", {"method": "CTGAN"}) == f"{own}, pearson 3"


def test_every_measure_of_a_cell_counts_in_its_version(toy, monkeypatch):
    """Of a copy of the rows, whose statement is not looked at."""
    facts = {"statement": {"unprotected": [], "epsilon_protected": 0.0}}
    facts |= {"seconds": 1.0, "bytes_up": 0, "bytes_down": 0}
    made = protocol.Made(toy.frame, facts)
    monkeypatch.setattr(protocol.Cell, "made", lambda cell: iter([("", made)]))
    asked = {"dataset": "toy", "method": "CTGAN", "seed": 0}
    found = {row["metric"] for row in STUDY.function("run")(**asked)}
    assert found == set(STUDY.kind("run").measured) - {"positives"}
    pairs = STUDY.function("pairs")(**asked)
    assert {row["metric"] for row in pairs} == {"cramers_v", "pearson"}
    items = {row["item"] for row in pairs}
    assert items == {"age x weight", "smokes x region", "smokes x ill", "region x ill"}


def test_sizes_count_rows_and_columns_of_each_kind(toy):
    rows = STUDY.function("tables")(dataset="toy", table=toy.digest)
    assert {row["metric"]: row["value"] for row in rows} == {
        **{"n_train": 240, "n_test": 60, "n_continuous": 2, "n_discrete": 3}
    }
    assert {(row["exhibit"], row["data"]) for row in rows} == {("tab5.1", "own")}
    with pytest.raises(BadInput, match="the table is not the one that the grid was made for"):
        STUDY.function("tables")(dataset="toy", table="another")


def test_positives_are_the_share_of_ones_and_a_weighting_is_measured_too(monkeypatch, table):
    asked = []
    labels = pd.DataFrame({table.schema.target: pd.Categorical(list("10010000"))})

    def made(cell):
        asked.append(cell.settings)
        return iter([("", protocol.Made(labels, {}))])

    def rows(cell):
        return [{"metric": "accuracy", "value": cell.settings["changes"]["weighting"]}]

    monkeypatch.setattr(
        leitner2023, "prepare", lambda dataset, rows: protocol.Prepared(table, table)
    )
    monkeypatch.setattr(protocol.Cell, "made", made)
    monkeypatch.setattr(protocol.Cell, "rows", rows)
    cell = {"dataset": "cardio", "method": "Fed-CTGAN", "seed": 2, "changes": {"batch": 50}}
    (share,) = leitner2023.positives(**cell)
    assert (share["metric"], share["value"], share["data"]) == ("positives", 0.25, "own")
    assert (asked[0]["seed"], asked[0]["changes"]) == (2, {"batch": 50})
    measured, share = leitner2023.positives("rows", **cell)
    assert measured == {"metric": "accuracy", "value": "rows"} and share["value"] == 0.25
    assert asked[1]["changes"] == {"batch": 50, "weighting": "rows"}


@pytest.mark.parametrize("rows", [None, 500])
@pytest.mark.parametrize("dataset", [key for key in TABLES if available(key).state != "missing"])
def test_training_rows_are_counted_as_they_are_prepared(dataset, rows, monkeypatch):
    """Of the real table where it is at hand, of its stand-in elsewhere."""
    leitner2023.prepare.cache_clear()
    if load_table(dataset, work="leitner2023").data != "real":
        monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    assert leitner2023.training_rows(dataset, rows) == len(leitner2023.prepare(dataset, rows).train)
    leitner2023.prepare.cache_clear()


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
    found = {dataset: leitner2023.training_rows(dataset, None) for dataset in printed.index}
    assert found == {**printed, "covertype": 40_000}
    assert leitner2023.training_rows("adult", 300) == 300


def test_small_tables_train_in_small_batches_and_more_rounds():
    def changes(**cell):
        return leitner2023.training(cell, STUDY.profiles["quick"])["changes"]

    assert changes(dataset="adult", method="CTGAN") == {
        **{"training_rounds": 50, "batch": 100, "hidden": [128, 128]}
    }
    small = changes(dataset="diabetes", method="Fed-CTGAN")
    assert (small["training_rounds"], small["batch"]) == (100, 50)
    assert changes(dataset="adult", method="DP-CTGAN")["training_rounds"] == 1000
    whole = {"sized": {**STUDY.profiles["paper"]["sized"], "batch_small": 500}}
    asked = {"dataset": "diabetes", "method": "CTGAN"}
    assert leitner2023.training(asked, whole)["changes"]["batch"] == 500


def test_a_budget_that_pays_for_no_step_makes_no_cell():
    cell = {"dataset": "adult", "method": "DP-Fed-CTGAN", "seed": 0, "changes": {"batch": 500}}
    assert leitner2023.pays(cell) and not leitner2023.pays({**cell, "epsilon": 0.1})
    assert leitner2023.pays({"dataset": "adult", "method": "CTGAN", "seed": 0})


def test_a_scheme_keeps_part_of_the_published_one():
    asked = {"dataset": "adult", "seed": 0}
    kept = {s: STUDY.cell("DP-Fed-CTGAN", scheme=s, **asked).config for s in STUDY.schemes}
    told = {s: (config.encoding, config.sampling) for s, config in kept.items()}
    default, published = METHODS["dpfedctgan"].Config(), METHODS["dpfedctgan"].AS_PUBLISHED
    assert told[""] == (published["encoding"], published["sampling"])
    assert told["private training"] == (published["encoding"], default.sampling)
    assert told["private end to end"] == (default.encoding, default.sampling)
    assert kept[""].stop_epsilon == 3.0
    with pytest.raises(BadInput, match="unknown scheme 'open': choose one of '', private tr"):
        _ = STUDY.cell("DP-CTGAN", scheme="open", **asked).config
