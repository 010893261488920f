"""The stand-ins that the bundle carries: small, private by their own record, and loadable for every
work."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.bundle import standins
from fedsynth_lib.bundle.standins import make_standin, short
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.registry import REGISTRY
from fedsynth_lib.tables.schema import Column, Schema

FOLDER = Path(__file__).resolve().parents[1] / "data" / "standin"
KEYS = sorted(path.stem for path in FOLDER.glob("*.parquet"))


def test_the_tables_of_the_marginal_family_have_one():
    assert {"adult", "magic", "bank_additional", "covertype", "census_kdd", "intrusion"} <= set(
        KEYS
    )


@pytest.mark.parametrize("key", KEYS)
def test_a_standin_is_small_and_its_record_states_a_guarantee(key):
    record = json.loads((FOLDER / f"{key}.json").read_text())
    assert (FOLDER / f"{key}.parquet").stat().st_size < 1.05e6
    assert record["table"] == key and record["rows"] == len(
        pd.read_parquet(FOLDER / f"{key}.parquet")
    )
    statement = record["statement"]
    assert statement["unprotected"] == [] and 0 < statement["epsilon"] <= statement["budget"] == 3
    assert statement["seed_policy"].startswith("noise from the operating system")


@pytest.mark.filterwarnings("ignore:.*NOT REAL DATA")
@pytest.mark.parametrize("key", KEYS)
def test_a_standin_serves_every_work_that_uses_the_table(key, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    for work in REGISTRY[key].works:
        table = load_table(key, work=work)
        assert table.data == "standin"
        assert table.frame[table.schema.target].nunique() == len(
            table.schema[table.schema.target].categories
        )


def test_rounding_keeps_a_thousand_steps_and_the_declared_range():
    columns = [
        ("rate", 0.0, 1.0),
        ("length", 4.2835, 334.177),
        ("price", 92.201, 94.767),
        ("bytes", 0.0, 7e8),
    ]
    numeric = [Column(name, "numeric", low=low, high=high) for name, low, high in columns]
    schema = Schema((*numeric, Column("age", "numeric", low=17, high=90, integer=True)))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {name: np.append(rng.uniform(low, high, 5_000), [low, high]) for name, low, high in columns}
    )
    frame["age"] = rng.integers(17, 91, 5_002)
    rounded = short(frame, schema)
    for name, low, high in columns:
        assert rounded[name].between(low, high).all()
        assert (rounded[name] - frame[name]).abs().max() <= (high - low) / 1_000 / 2 * (1 + 1e-9)
    assert rounded["rate"].isin(np.round(np.arange(1_001) / 1_000, 3)).all()
    pd.testing.assert_series_equal(rounded["age"], frame["age"])


# --- who has paid for them ---


def test_every_standin_belongs_to_one_population_and_is_a_release_of_it():
    members = [key for people in standins.populations() for key in people.tables]
    assert sorted(members) == KEYS, "a table is in no population, or in two"
    copies = {key for key in KEYS if "rows_of" in json.loads((FOLDER / f"{key}.json").read_text())}
    current = [each for each in standins.releases() if not each.get("replaced")]
    assert sorted(each["table"] for each in current) == sorted(set(KEYS) - copies)
    for each in current:
        statement = json.loads((FOLDER / f"{each['table']}.json").read_text())["statement"]
        assert (
            statement["epsilon"] == pytest.approx(each["epsilon"])
            and statement["delta"] == each["delta"]
        )


def test_totals_are_those_of_the_files_and_of_the_history():
    """adult, bank and cardio were released twice; a person may have two rows in census_kdd, and one
    in adult."""
    expected = {"cps": 3 + 3 + 2 * 3, "bank": 3 + 3 + 3, "cardio": 3 + 3, "brfss": 3}
    for people in standins.populations():
        spent = standins.total(people)
        assert spent["total_epsilon"] == expected.get(people.name, 3)
        for key in people.tables:
            assert json.loads((FOLDER / f"{key}.json").read_text())["population"] == spent
    assert (FOLDER / "README.md").read_text() == standins.readme()


def test_each_file_is_the_last_release_that_the_ledger_has_of_its_table():
    """So a file that is made again needs a line of its own."""
    last = {each["table"]: each for each in standins.releases()}
    for key, release in last.items():
        content = (FOLDER / f"{key}.parquet").read_bytes()
        assert hashlib.sha256(content).hexdigest() == release["sha256"], key


def test_a_new_release_is_written_down_before_its_rows(tmp_path):
    standins.write_down("adult", 1.5, 0.0, b"rows", tmp_path)
    standins.write_down("census_kdd", 1.0, 1e-6, b"others", tmp_path)
    (of_adult, _) = standins.releases(tmp_path)
    assert of_adult["sha256"] == hashlib.sha256(b"rows").hexdigest()
    spent = standins.total(standins.population_of("adult"), tmp_path)
    assert spent == {"name": "cps", "releases": 2, "total_epsilon": 3.5, "total_delta": 2e-6}
    with pytest.raises(BadInput, match=r"obesity: .* does not say whose rows these are"):
        make_standin("obesity", epsilon=3.0, folder=tmp_path)


def test_a_standin_of_no_rows_is_refused_before_any_work():
    with pytest.raises(BadInput, match="rows is 0"):
        make_standin("adult", epsilon=3.0, rows=0)


@pytest.mark.slow
def test_tables_of_the_same_people_share_one_release():
    """brfss_heart holds the rows of brfss_diabetes: a second sample would cost these people a
    second budget."""
    one, other = (
        pd.read_parquet(FOLDER / f"{key}.parquet") for key in ("brfss_diabetes", "brfss_heart")
    )
    renamed = one.rename(columns={"Diabetes_012": "Diabetes"})
    pd.testing.assert_frame_equal(renamed[other.columns], other)
    assert json.loads((FOLDER / "brfss_heart.json").read_text())["rows_of"] == "brfss_diabetes"


def test_a_table_of_the_same_people_needs_their_standin_first(tmp_path):
    with pytest.raises(BadInput, match="make the stand-in of brfss_diabetes first"):
        make_standin("brfss_heart", epsilon=3, folder=tmp_path)
