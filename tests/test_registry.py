"""The registered tables: their declared facts against what the works print."""

import pytest

from fedsynth_lib.interface import BadInput
from fedsynth_lib.registry import REGISTRY, SCHEMAS, entry_from_toml
from fedsynth_lib.schema import Schema
from fedsynth_lib.tables import available, load_table

TABLES = ["adult", "bank", "bank_additional", "brfss_diabetes", "brfss_heart", "cardio", "census_kdd", "covertype"]
TABLES += ["covertype_class2", "credit_default", "credit_fraud", "diabetes", "intrusion", "magic", "obesity"]
TABLES += ["philadelphia", "synthfs"]

# (table, work) -> (numeric, categorical, target), from the protocols; the target counts as a column.
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
    ("philadelphia", "sattarov2024"): (1, 10, None),
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


def test_every_table_is_registered():
    assert sorted(REGISTRY) == TABLES
    for key, entry in REGISTRY.items():
        assert entry.key == key
        assert entry.title
        assert entry.generated or (entry.page.startswith("https://") and entry.licence and entry.files)


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
    assert Schema.from_toml(SCHEMAS / f"{key}.toml") == REGISTRY[key].schema


def test_the_real_small_tables_hold_what_is_declared():
    """Where the tables are on this machine: loading validates every row against the declared schema."""
    for key in ("adult", "bank", "cardio", "diabetes", "obesity", "magic", "bank_additional", "credit_default"):
        if available(key).state in ("raw", "mirror") and "not checked" not in available(key).where:
            for work, view in REGISTRY[key].works.items():
                table = load_table(key, work=work)
                assert (len(table), table.data) == (view.rows, "real")
