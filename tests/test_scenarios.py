"""One scenario from table to rows, with the user's own small table in place of a registered one."""

import json

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.tables import lock
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.works import scenarios


@pytest.fixture
def own(tmp_path, monkeypatch, table):
    """The toy table as a CSV with its schema beside it, and an empty cache."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    (tmp_path / "toy.toml").write_text(table.schema.to_toml())
    table.frame.to_csv(tmp_path / "toy.csv", index=False)

    def load(path, **options):
        return load_table(path, **{**options, "work": None, "schema": tmp_path / "toy.toml"})

    for module in (scenarios, lock):
        monkeypatch.setattr(module, "load_table", load)
    scenarios.tables.cache_clear()
    yield str(tmp_path / "toy.csv")
    scenarios.tables.cache_clear()


def test_rows_are_split_divided_and_measured_against_all_training_rows(own):
    scenario = scenarios.Scenario(own, "federated", "label_skew", 3, epsilon=2.0, min_rows=20)
    train, holdout, parts = scenarios.tables(scenario)
    assert (len(train.frame), len(holdout.frame)) == (960, 240)
    assert sorted(np.concatenate(parts)) == list(range(960))
    rows = pd.DataFrame(scenarios.measure(independent, scenario))
    values = rows.set_index("metric")["value"]
    made = next(scenarios.synthesise(independent, scenario)).frame
    assert values["hellinger"] == fidelity.hellinger(train.frame, made, train.schema)
    assert len(made) == 960
    assert set(rows["epsilon_spent"].round(6)) == {2.0} and set(rows["unprotected"]) == {0}
    assert set(rows["method"]) == {"independent"} and set(rows["data"]) == {"own"}


def test_local_gives_rows_of_every_client_with_as_many_synthetic_rows_as_all_hold(own):
    scenario = scenarios.Scenario(own, "local", "iid", 3)
    made = list(scenarios.synthesise(independent, scenario))
    assert [s.node for s in made] == ["0", "1", "2"] and [len(s.frame) for s in made] == [960] * 3
    rows = pd.DataFrame(scenarios.measure(independent, scenario))
    assert sorted(rows["node"].unique()) == ["0", "1", "2"]
    assert rows["epsilon_spent"].isna().all() and set(rows["unprotected"]) == {1}


def test_a_synthetic_table_is_made_once(own, monkeypatch):
    scenario = scenarios.Scenario(own, "central")
    first = next(scenarios.synthesise(independent, scenario)).frame
    monkeypatch.setattr(scenarios.settings, "federated", None)  # a second training would fail
    assert next(scenarios.synthesise(independent, scenario)).frame.equals(first)
    with pytest.raises(TypeError):
        next(scenarios.synthesise(independent, scenarios.Scenario(own, "central", seed=1)))


def test_a_grid_holds_central_once_and_every_divided_place(own):
    cells = scenarios.grid(
        [own],
        partitions=["iid", "label_skew"],
        n_clients=[2, 3],
        epsilons=[float("inf"), 1.0],
        seeds=[0],
        min_rows=9,
    )
    assert len(cells) == 2 * (1 + 2 * 4)
    assert [c["setting"] for c in cells[:3]] == ["central", "central", "federated"]
    assert scenarios.Scenario(**cells[0]).privacy == Privacy(None, reproduction=True)
    assert scenarios.tables(scenarios.Scenario(**cells[0])).train.frame.shape == (960, 5)
    with pytest.raises(BadInput, match="build the grid anew"):
        scenarios.tables(scenarios.Scenario(**{**cells[0], "table": "another"}))


def test_unknown_settings_and_too_small_clients_are_refused(own):
    with pytest.raises(BadInput, match="choose central, local or federated"):
        list(scenarios.synthesise(independent, scenarios.Scenario(own, "centrally", "iid", 2)))
    with pytest.raises(BadInput, match="min_rows"):
        scenarios.tables(scenarios.Scenario(own, "federated", "quantity_skew", 10, min_rows=200))


def test_carried_stand_ins_are_private_end_to_end():
    folder = scenarios.settings.__file__.rpartition("fedsynth_lib")[0] + "data/standin/"
    for key in ("adult", "bank", "cardio"):
        with open(f"{folder}{key}.json", encoding="utf-8") as file:
            record = json.load(file)
        said = record["statement"]
        assert said["unprotected"] == [] and said["epsilon"] == pytest.approx(3.0, rel=1e-6)
        assert "not repeatable" in said["seed_policy"]
        assert len(pd.read_parquet(f"{folder}{key}.parquet")) == record["rows"]
