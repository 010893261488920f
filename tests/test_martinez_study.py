"""The protocol of martinez2024: its cells, its settings, and its measurements against direct
calls."""

import math

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.metrics import attacks, fidelity, utility
from fedsynth_lib.tables.lock import at_hand
from fedsynth_lib.works import martinez_study as study
from fedsynth_lib.works import scenarios

SMALL = {"rows": 300, "clients": 1, "splits": 1, "min_rows": 10}
GROUPS = ("fidelity", "utility", "privacy")
FAST = {
    "fedbn": {"generations": 20},
    "fedvae": {"training_rounds": 1, "local_epochs": 1, "batch": 50},
}


@pytest.fixture(autouse=True)
def stand_ins(tmp_path, monkeypatch):
    """An empty cache, and the tables that the bundle carries."""
    monkeypatch.delenv("FEDSYNTH_DATA", raising=False)
    monkeypatch.setattr("fedsynth_lib.runs.grid.project_root", lambda: tmp_path)
    scenarios.tables.cache_clear()
    yield
    scenarios.tables.cache_clear()


def test_the_grid_is_the_published_one():
    cells = study.cells("fedbn", ["adult"], {**study.SIZES["paper"], "splits": 3}, seed=7)
    frame = pd.DataFrame(cells)
    assert frame["setting"].value_counts().to_dict() == {"federated": 81, "local": 81, "central": 9}
    federated = frame[frame["setting"] == "federated"]
    assert len(federated.drop_duplicates(["partition", "n_clients", "epsilon"])) == 27
    assert set(frame["relation"]) == {"replace_one"} and set(frame["seed"]) == {7, 8, 9}
    assert {c["delta"] for c in study.cells("fedvae", ["adult"], SMALL, seed=7)} == {1e-5}
    real = study.real_cells(cells)
    assert [c["seed"] for c in real] == [7, 8, 9] and {c["setting"] for c in real} == {"real"}


def test_a_grid_is_named_after_its_notebook_and_holds_the_cells_of_its_group():
    sizes = {
        group: study.grid("fedvae", group, ["adult"], study.SIZES["quick"], seed=7)
        for group in GROUPS
    }
    assert [g["name"][:2] for g in sizes.values()] == ["23", "24", "25"]
    assert [len(g["grid"]) for g in sizes.values()] == [57, 58, 28]
    assert sizes["privacy"]["common"]["changes"] == study.SIZES["quick"]["fedvae"]
    assert {c["setting"] for c in sizes["privacy"]["grid"]} == {"federated", "real"}


def test_all_rows_are_asked_for_under_the_names_of_the_notebooks_that_compute_them(monkeypatch):
    asked = []

    def recorded(run_one, grid, *, name, common, save, **_):
        asked.append(name)
        assert run_one is study.measure and not save and len(grid) > 20
        return pd.DataFrame({"model": [common["model"]], "group": [common["group"]]})

    monkeypatch.setattr(study, "run_grid", recorded)
    rows = study.all_rows(["adult"], study.SIZES["quick"], profile="quick", seed=7)
    assert list(rows.itertuples(index=False, name=None)) == [
        (m, g) for m in study.MODELS for g in GROUPS
    ]
    assert [name[:2] for name in asked] == ["20", "21", "22", "23", "24", "25"]


def test_only_the_published_scenarios_are_attacked():
    cells = study.cells("fedvae", ["adult"], study.SIZES["paper"], seed=7, settings=("federated",))
    marked = pd.DataFrame([c for c in study.attacked(cells) if c.get("attack")])
    assert set(marked["n_clients"]) == {10} and set(marked["partition"]) == {"iid", "label_skew"}
    assert len(marked) == 2 * 3 * 3
    assert [
        c for c in study.attacked([{**c, "dataset": "mine.csv"} for c in cells]) if c.get("attack")
    ] == []


def test_settings_are_the_printed_ones():
    assert study.tuned("fedbn", "bank") == bayesian_network.Config(
        population=200, selection=10, interval=10
    )
    assert study.tuned("fedbn", "cardio", degree=3).population == 150
    assert study.tuned("fedbn", "unknown") == bayesian_network.Config()
    bank = study.tuned("fedvae", "bank")
    assert (bank.training_rounds, bank.local_epochs, bank.batch, bank.hidden) == (
        200,
        20,
        200,
        (128,),
    )
    assert (bank.embedding, bank.weight_decay, bank.loss_factor) == (56, 1e-3, 4)
    assert bank.encoding == "pooled" and bank.likeliest
    assert study.tuned("fedvae", "cardio", private=True).training_rounds == 100
    assert study.tuned("fedvae", "cardio").hidden == (64, 56)
    assert study.tuned("fedvae", "cardio", private=True, training_rounds=2).training_rounds == 2
    assert study.tuned("fedvae", "mine.csv", private=True) == fedvae.Config(**fedvae.AS_PUBLISHED)
    with pytest.raises(BadInput, match="fedbn, fedvae"):
        study.tuned("fedgan", "adult")


def here(cell):
    """The cell on the table that can be had, as `run_grid` asks for it."""
    return {**cell, "table": at_hand(cell["table"])}


@pytest.mark.parametrize("model", study.MODELS)
def test_each_group_measures_the_same_synthetic_rows(model):
    cells = study.cells(
        model, ["adult"], SMALL, n_clients=[3], epsilons=[math.inf], seed=7, settings=("federated",)
    )
    cell = here(cells[0])
    (marked,) = study.attacked([cell])
    measured = {
        g: study.measure(model, g, FAST[model], **cell) for g in ("fidelity", "utility", "columns")
    }
    measured["privacy"] = study.measure(model, "privacy", FAST[model], **marked)
    measured["shares"] = study.measure(model, "shares", FAST[model], column="sex", **cell)
    measured["pairs"] = study.measure(model, "pairs", FAST[model], **cell)
    scenario = scenarios.Scenario(**cell)
    train, holdout, _ = scenarios.tables(scenario)
    config = study.tuned(model, "adult", **FAST[model])
    frame = next(scenarios.synthesise(study.MODELS[model], scenario, config)).frame
    found = {
        (row["metric"], row.get("item", "")): row["value"]
        for rows in measured.values()
        for row in rows
    }
    assert found["hellinger", ""] == fidelity.hellinger(train.frame, frame, train.schema)
    assert found["auc_rf", ""] == utility.auc(frame, holdout.frame, train.schema, 7)["auc_rf"]
    for item, key in (("", "adult_education"), ("age, sex, race", "adult")):
        direct = attacks.attribute_disclosure(
            train.frame, frame, train.schema, attacks.SCENARIOS[key], 7
        )
        assert found["ad_ens", item] == direct["ad_ens"]
    assert found["classes", "sex"] == frame["sex"].nunique()
    columns = [value for (metric, _), value in found.items() if metric == "hellinger_column"]
    assert np.mean(columns) == pytest.approx(found["hellinger", ""])
    assert found["share", "Female"] == (frame["sex"] == "Female").mean()
    square = study.square(pd.DataFrame(measured["pairs"]), train.schema.names)
    assert np.allclose(square, fidelity.associations(frame, train.schema), rtol=0, atol=1e-12)
    assert {row["method"] for rows in measured.values() for row in rows} == {model}


def test_association_errors_of_a_table_with_one_shuffled_column():
    """Shuffling a numeric column touches pairs with that column only."""
    scenario = scenarios.Scenario("adult", "central", work="martinez2024", rows=300)
    found = scenarios.tables(scenario)
    shuffled = found.train.frame.copy()
    shuffled["age"] = shuffled["age"].sample(frac=1, random_state=0).to_numpy()
    rows = {(r["metric"], r["item"]): r["value"] for r in study.by_column(found, shuffled)}
    assert (
        rows["association_error", "categorical"] == 0 and rows["association_error", "numeric"] > 0
    )
    assert all(value < 1e-9 for (metric, _), value in rows.items() if metric == "hellinger_column")


def test_real_rows_are_measured_as_synthetic_ones_would_be():
    cell = here(study.real_cells(study.cells("fedbn", ["bank"], SMALL, seed=7))[0])
    rows = pd.DataFrame(study.measure("fedbn", "utility", **cell))
    train, holdout, _ = scenarios.tables(
        scenarios.Scenario("bank", "central", seed=7, work="martinez2024", rows=300)
    )
    expected = utility.auc(train.frame, holdout.frame, train.schema, 7)
    assert set(rows["epsilon"]) == set(study.EPSILONS)  # printed once for each budget
    assert rows.groupby("metric")["value"].first().to_dict() == expected
    attack = pd.DataFrame(study.measure("fedbn", "privacy", **cell))
    assert set(attack["metric"]) >= {"ad_ens", "ad_dum"} and set(attack["epsilon"]) == {math.inf}


def test_an_unknown_group_is_refused():
    with pytest.raises(BadInput, match="utility"):
        study.measure("fedbn", "beauty", dataset="adult")
