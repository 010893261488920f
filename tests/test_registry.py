"""The registered tables: their declared facts against what the works print."""

import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.form import Form, form_from, read_form
from fedsynth_lib.tables.load import available, load_table
from fedsynth_lib.tables.registry import (
    REGISTRY,
    SCHEMAS,
    View,
    declared_schema,
    entry_from_toml,
    view_bins,
)
from fedsynth_lib.tables.schema import READ_FROM_ROWS, Column, Schema

TABLES = sorted(REGISTRY)

# (table, work) -> (numeric, categorical, target), from the protocols; the target counts as a
# column.
PRINTED = {
    ("adult", "martinez2024"): (5, 8, "income"),
    ("bank", "martinez2024"): (7, 10, "subscribed"),
    ("cardio", "martinez2024"): (5, 7, "cardio"),
    ("adult", "leitner2023"): (6, 9, "income"),
    ("bank", "leitner2023"): (6, 11, "y"),
    ("covertype", "leitner2023"): (10, 45, "Cover_Type"),
    ("cardio", "leitner2023"): (5, 7, "cardio"),
    ("diabetes", "leitner2023"): (7, 2, "Outcome"),
    ("obesity", "leitner2023"): (8, 9, "NObesidad"),
    ("adult", "sattarov2024"): (3, 10 + 1, "income"),
    ("bank", "sattarov2024"): (6, 10 + 1, "y"),
    ("credit_default", "sattarov2024"): (13, 10 + 1, "default.payment.next.month"),
    ("philadelphia", "sattarov2024"): (1, 10, "doc_ref_no_prefix_definition"),
    ("brfss_diabetes", "apellaniz2025"): (7, 15, "Diabetes"),
    ("brfss_heart", "apellaniz2025"): (7, 15, "HeartDiseaseorAttack"),
}
# (table, columns with the target, classes) of maddock2024.
MADDOCK = [
    ("adult", 14, 2),
    ("credit_fraud", 30, 2),
    ("covertype", 55, 7),
    ("census_kdd", 41, 2),
    ("intrusion", 40, 5),
    ("bank_additional", 21, 2),
    ("magic", 11, 2),
]


def view_schema(key, work):
    view = REGISTRY[key].view(work)
    return view.schema(REGISTRY[key].schema).rename(view.rename)


def test_every_table_of_the_works_is_registered():
    assert {key for key, _ in PRINTED} | {key for key, *_ in MADDOCK} <= set(REGISTRY)
    for key, entry in REGISTRY.items():
        assert entry.key == key
        assert entry.title
        assert entry.generated or (
            entry.page.startswith("https://") and entry.licence and entry.files
        )


@pytest.mark.parametrize("key", TABLES)
def test_every_view_makes_a_schema_from_existing_files(key):
    entry = REGISTRY[key]
    for work in (None, "all", *entry.works):
        view = entry.view(work)
        schema = view_schema(key, work)
        assert all(column.source for column in schema.columns)
        assert {*view.files, *view.otherwise, *view.holdout} <= set(entry.files)
        assert bool(view.files) != entry.generated
        known = sum(entry.files[name].rows for name in view.files)
        assert work in (None, "all") or entry.generated or view.rows == known
    for file in entry.files.values():
        assert all(len(digest) == 64 for digest in (file.sha256, file.sha256_stored) if digest)
        assert file.sha256 or file.sha256_stored


@pytest.mark.parametrize(("key", "work"), PRINTED)
def test_views_have_the_printed_columns(key, work):
    schema = view_schema(key, work)
    assert (len(schema.numeric), len(schema.categorical), schema.target) == PRINTED[key, work]


@pytest.mark.parametrize(("key", "columns", "classes"), MADDOCK)
def test_maddock2024_views_have_the_printed_columns_and_classes(key, columns, classes):
    schema = view_schema(key, "maddock2024")
    assert (len(schema.columns), len(schema[schema.target].categories)) == (columns, classes)


def test_maddock2024_levels_are_those_of_the_work():
    def levels(key):
        encoder = EqualWidthBins(
            view_schema(key, "maddock2024"), None, view_bins(key, "maddock2024")
        )
        return dict(zip(encoder.domain.names, encoder.domain.levels, strict=True))

    assert list(levels("adult").values()) == [85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2]
    assert list(levels("synthfs").values()) == [41] * 10
    assert list(levels("magic").values()) == [32] * 10 + [2]
    assert sorted(levels("covertype").values()) == [2] * 44 + [7] + [32] * 7 + [256] * 3
    bank = levels("bank_additional")
    assert (bank["age"], bank["campaign"], bank["previous"]) == (98, 56, 8)
    assert {name for name, bins in bank.items() if bins == 32} == {
        *(
            "duration",
            "pdays",
            "emp.var.rate",
            "cons.price.idx",
            "cons.conf.idx",
            "euribor3m",
            "nr.employed",
        )
    }


WHOLE = [
    ("adult", "age"),
    ("adult", "education-num"),
    ("adult", "hours-per-week"),
    ("synthfs", "v7"),
]
WHOLE += [("bank_additional", name) for name in ("age", "campaign", "previous")]
WHOLE += [("covertype", f"Hillshade_{time}") for time in ("9am", "Noon", "3pm")]


@pytest.mark.parametrize(("key", "name"), WHOLE)
def test_what_maddock2024_keeps_as_whole_numbers_shares_no_bin(key, name):
    column = REGISTRY[key].schema[name]
    values = np.arange(column.low, column.high + 1)
    encoder = EqualWidthBins(Schema((column,)), None, {name: view_bins(key, "maddock2024")[name]})
    codes = encoder.transform(pd.DataFrame({name: values}))[:, 0]
    assert len(np.unique(codes)) == len(values)
    if key == "synthfs":
        assert codes.tolist() == list(range(41))


@pytest.mark.parametrize("key", TABLES)
def test_bins_of_works_are_of_columns_that_their_views_have(key):
    for work, view in REGISTRY[key].works.items():
        numeric = view.schema(REGISTRY[key].schema).numeric
        assert set(view.bins) <= {"*", *numeric}
        if work == "maddock2024":
            assert set(view_bins(key, work)) == set(numeric)  # every column is decided
    with pytest.raises(BadInput, match="no work 'nobody'"):
        view_bins(key, "nobody")


def test_works_without_bins_say_none():
    assert view_bins("adult", "martinez2024") == {}


def test_documented_numbers_of_combinations():
    cardio = view_schema("cardio", "martinez2024")
    combinations = 1
    for name in cardio.categorical:
        combinations *= len(cardio[name].categories)
    assert combinations == 288  # printed by martinez2024
    assert len(view_schema("intrusion", None)["label"].categories) == 23


def test_a_mistake_in_a_registry_file_is_named(tmp_path):
    text = (SCHEMAS / "cardio.toml").read_text()
    (tmp_path / "t.toml").write_text(text.replace("separator", "seperator"))
    with pytest.raises(BadInput, match=r"t\.toml: 'seperator' means nothing in a reader"):
        entry_from_toml(tmp_path / "t.toml")


@pytest.mark.parametrize("key", TABLES)
def test_registry_files_are_schema_files_for_own_tables(key):
    assert read_form(SCHEMAS / f"{key}.toml").schema == REGISTRY[key].schema


def test_the_real_small_tables_hold_what_is_declared():
    """Where the tables are on this machine: loading validates every row against the declared
    schema."""
    for key in (
        "adult",
        "bank",
        "cardio",
        "diabetes",
        "obesity",
        "magic",
        "bank_additional",
        "credit_default",
    ):
        if available(key).state in ("raw", "mirror") and "not checked" not in available(key).where:
            for work, view in REGISTRY[key].works.items():
                table = load_table(key, work=work)
                assert (len(table), table.data) == (view.rows, "real")


@pytest.mark.parametrize(("key", "work"), [("synthfs", "maddock2024"), ("synthfs", None)])
def test_the_declared_schema_is_that_of_the_loaded_table(key, work):
    assert declared_schema(key, work) == load_table(key, work=work).schema


def test_the_declared_schema_is_in_the_names_of_its_view(monkeypatch):
    view = replace(REGISTRY["adult"].works["martinez2024"], rename={"income": "rich"})
    monkeypatch.setitem(REGISTRY, "adult", replace(REGISTRY["adult"], works={"w": view}))
    schema = declared_schema("adult", "w")
    assert schema.target == "rich" and "rich" in schema.names and "fnlwgt" not in schema.names
    with pytest.raises(
        BadInput, match=r"no work 'martinez2024'.* \[work\.martinez2024\] to .*adult\.toml"
    ):
        declared_schema("adult", "martinez2024")


SAYS_SO = (
    "summary of",
    "column summar",
    "counts: published",
    "in the file",
    "in the published file",
    "the file ends",
)


@pytest.mark.parametrize("key", TABLES)
def test_what_was_read_from_a_published_file_is_marked(key):
    """A guard for whoever adds a column: such words in a source call for from_rows, at least on
    numbers."""
    schema = REGISTRY[key].schema
    for column in schema.columns:
        told = any(words in column.source for words in SAYS_SO)
        assert column.from_rows or not (told and column.kind == "numeric"), f"{key}: {column.name}"


def test_the_mark_is_data_and_no_content():
    """It survives a file and a view, and digests of tables do not see it: they were made before it
    was there."""
    schema = REGISTRY["adult"].schema
    assert schema.from_rows == ("fnlwgt", "capital-loss")
    assert (
        REGISTRY["brfss_heart"].schema.from_rows == ("BMI",)
        and REGISTRY["synthfs"].schema.from_rows == ()
    )
    column = schema["fnlwgt"]
    assert repr(column) == repr(replace(column, from_rows=False))
    assert (
        form_from(tomllib.loads(Form.of(schema).to_toml()), "again").schema.from_rows
        == schema.from_rows
    )
    assert Column("x", "numeric", 0, 1, source=READ_FROM_ROWS).from_rows
    numeric = View(categorical=("capital-loss",)).schema(schema)["capital-loss"]
    assert numeric.kind == "categorical" and numeric.from_rows
