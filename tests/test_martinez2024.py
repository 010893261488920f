"""martinez2024: its cells, its settings, and its measurements against direct calls."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.metrics import attacks, fidelity, utility
from fedsynth_lib.tables.lock import at_hand
from fedsynth_lib.works import load, protocol
from fedsynth_lib.works import martinez2024 as work

STUDY = load("martinez2024")
measure = STUDY.function("run")
FAST = {
    "fedbn": {"generations": 20},
    "fedvae": {"training_rounds": 1, "local_epochs": 1, "batch": 50},
}
MEANT = STUDY.constants["meant"]


@pytest.fixture(autouse=True)
def stand_ins(tmp_path, monkeypatch):
    """An empty cache, and the tables that the bundle carries."""
    monkeypatch.delenv("FEDSYNTH_DATA", raising=False)
    monkeypatch.setattr("fedsynth_lib.runs.grid.project_root", lambda: tmp_path)
    work.prepare.cache_clear()
    yield
    work.prepare.cache_clear()


def test_the_grid_is_the_published_one():
    frame = pd.DataFrame(STUDY.grid("fedbn utility", "paper", tables=["adult"]).cells)
    counts = {"federated": 81, "local": 81, "central": 9, "real": 3}
    assert frame["setting"].value_counts().to_dict() == counts
    federated = frame[frame["setting"] == "federated"]
    assert len(federated.drop_duplicates(["partition", "n_clients", "epsilon"])) == 27
    assert set(federated["relation"]) == {"replace_one"} and set(frame["seed"]) == {7, 8, 9}
    vae = STUDY.grid("fedvae fidelity", "quick", tables=["adult"], seed=3).cells
    assert {c["delta"] for c in vae} == {1e-5} and {c["seed"] for c in vae} == {3}
    assert {c["min_rows"] for c in vae} == {20} and {c["changes"]["batch"] for c in vae} == {50}


def test_private_autoencoders_of_large_tables_train_shorter_at_paper():
    cells = pd.DataFrame(STUDY.grid("fedvae fidelity", "paper", tables=["adult", "cardio"]).cells)
    private = cells[cells["epsilon"] < math.inf]
    less = {"training_rounds": 30, "local_epochs": 2, "batch": 500, "learning_rate": 0.0158}
    assert all(changes == less for changes in private[private["dataset"] == "adult"]["changes"])
    full = cells.drop(private[private["dataset"] == "adult"].index)
    assert all(changes == {} for changes in full["changes"])
    assert work.shorter("cardio") == {
        **{"training_rounds": 10, "local_epochs": 1, "batch": 500, "learning_rate": 0.00707}
    }
    steps = {
        each["batch"]: each["training_rounds"] * each["local_epochs"] / each["batch"]
        for each in (less, work.tuned("fedvae", "adult", private=True))
    }
    assert (less["learning_rate"] / 1e-3) ** 2 == pytest.approx(steps[200] / steps[500], rel=0.01)


def test_all_rows_are_asked_for_under_the_names_of_the_notebooks_that_compute_them(monkeypatch):
    asked = []

    def recorded(grid, *, jobs, save):
        asked.append((grid.name, len(grid)))
        assert not save
        return pd.DataFrame({"name": [grid.name]})

    monkeypatch.setattr("fedsynth_lib.works.declared.Grid.run", recorded)
    rows = work.all_rows("quick", tables=["adult"], seed=7)
    assert rows["name"].str[:2].tolist() == ["20", "21", "22", "23", "24", "25"]
    assert [number for _, number in asked] == [57, 58, 28] * 2


@pytest.mark.parametrize(
    ("model", "profile", "splits"), [("fedbn", "paper", 3), ("fedvae", "quick", 1)]
)
def test_only_the_published_scenarios_are_attacked(model, profile, splits):
    cells = pd.DataFrame(STUDY.grid(f"{model} privacy", profile, tables=["adult"]).cells)
    marked = cells[cells["attack"] == True]  # noqa: E712
    assert set(marked["n_clients"]) == {10} and set(marked["partition"]) == {"iid", "label_skew"}
    assert len(marked) == 2 * 3 * splits


def test_settings_are_the_printed_ones():
    def tuned(model, dataset, **options):
        return METHODS[model].Config(**work.tuned(model, dataset, **options))

    own = METHODS["fedbn"].Config(population=200, selection=10, interval=10)
    assert tuned("fedbn", "bank") == own
    assert tuned("fedbn", "cardio", degree=3).population == 150
    assert tuned("fedbn", "unknown") == METHODS["fedbn"].Config()
    bank = tuned("fedvae", "bank")
    assert (bank.training_rounds, bank.local_epochs, bank.batch, bank.hidden) == (
        200,
        20,
        200,
        (128,),
    )
    assert (bank.embedding, bank.weight_decay, bank.loss_factor) == (56, 1e-3, 4)
    assert bank.encoding == "pooled" and bank.likeliest
    assert tuned("fedvae", "cardio", private=True).training_rounds == 100
    assert tuned("fedvae", "cardio").hidden == (64, 56)
    assert tuned("fedvae", "cardio", private=True, training_rounds=2).training_rounds == 2
    published = METHODS["fedvae"].Config(**METHODS["fedvae"].AS_PUBLISHED)
    assert tuned("fedvae", "mine.csv", private=True) == published
    with pytest.raises(BadInput, match="unknown method 'fedgan'"):
        work.tuned("fedgan", "adult")


def asked(model, dataset="adult", **more):
    """A federated cell without noise, of 300 rows of the table that can be had."""
    table = at_hand(STUDY.digest(dataset))
    cell = {"dataset": dataset, "setting": "federated", "partition": "iid", "n_clients": 3}
    cell |= {"epsilon": math.inf, "seed": 7, "rows": 300, "min_rows": 10, "table": table}
    return {**cell, "model": model, "changes": FAST[model], **MEANT[model], **more}


@pytest.mark.slow
@pytest.mark.parametrize("model", STUDY.methods)
def test_each_group_measures_the_same_synthetic_rows(model):
    measured = {g: measure(**asked(model), group=g) for g in ("fidelity", "utility", "columns")}
    measured["privacy"] = measure(**asked(model), group="privacy", attack=True)
    measured["shares"] = measure(**asked(model), group="shares", column="sex")
    measured["pairs"] = measure(**asked(model), group="pairs")
    cell = protocol.Cell(STUDY, "run", **asked(model), group="fidelity")
    (train, holdout), ((_, made),) = cell.prepared, cell.made()
    frame = made.frame
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
    square = work.square(pd.DataFrame(measured["pairs"]), train.schema.names)
    assert np.allclose(square, fidelity.associations(frame, train.schema), rtol=0, atol=1e-12)
    assert {row["method"] for rows in measured.values() for row in rows} == {model}


@pytest.mark.slow
def test_local_gives_rows_of_every_client_with_as_many_synthetic_rows_as_all_hold(monkeypatch):
    alone = asked("fedbn", setting="local", group="fidelity", epsilon=2.0)
    cell = protocol.Cell(STUDY, "run", **alone)
    made = list(cell.made())
    assert [node for node, _ in made] == ["0", "1", "2"]
    assert [len(each.frame) for _, each in made] == [len(cell.prepared.train)] * 3
    rows = pd.DataFrame(measure(**alone))
    assert sorted(rows["node"].unique()) == ["0", "1", "2"]
    assert (rows["epsilon_spent"] <= 2 * (1 + 1e-9)).all() and set(rows["n_clients"]) == {3}
    monkeypatch.setattr(settings, "federated", None)  # a second training would fail
    assert pd.DataFrame(measure(**alone)).equals(rows)
    with pytest.raises(TypeError):
        measure(**{**alone, "seed": 8})


def test_clients_alone_may_cut_numbers_over_their_own_range_as_the_work_does():
    alone = asked("fedbn", setting="local", group="alone")
    cell = protocol.Cell(STUDY, "alone", **alone)
    parts = [cell.prepared.train.take(part).frame for part in cell.parts]
    for real, (_, made) in zip(parts, cell.made(), strict=True):
        assert len(made.frame) == len(cell.prepared.train)
        for name in cell.prepared.train.schema.numeric:
            assert made.frame[name].between(real[name].min(), real[name].max()).all()
    rows = pd.DataFrame(STUDY.function("alone")(**alone))
    train, first = cell.prepared.train.frame, next(cell.made())[1].frame
    found = rows[rows["node"] == "0"].set_index("metric")["value"]
    schema = cell.prepared.train.schema
    assert found["hellinger_fd"] == fidelity.hellinger(train, first, schema, bins="fd")
    assert found["pcd"] == fidelity.pairwise_correlation_difference(train, first, schema)


def test_own_ranges_are_those_of_the_rows_and_a_constant_column_keeps_its_own():
    table = work.prepare("adult", 300, 0, "martinez2024").train
    table = dataclasses.replace(table, frame=table.frame.assign(age=40), digest="")
    own = protocol.over_own_ranges(table)
    assert own.schema["age"] == table.schema["age"] and own.digest != table.digest
    hours = own.frame["hours-per-week"]
    column = own.schema["hours-per-week"]
    assert (column.low, column.high) == (hours.min(), hours.max()) and column.from_rows
    assert own.schema["sex"] == table.schema["sex"] and own.schema.target == table.schema.target


def test_a_budget_is_meant_as_the_work_means_it():
    private = [
        protocol.Cell(STUDY, "run", **asked(model, epsilon=1.6), group="fidelity").privacy
        for model in STUDY.methods
    ]
    assert private == [
        Privacy(1.6, 0.0, "replace_one", reproduction=True),
        Privacy(1.6, 1e-5, "add_remove", reproduction=True),
    ]


def test_association_errors_of_a_table_with_one_shuffled_column():
    """Shuffling a numeric column touches pairs with that column only."""
    train = work.prepare("adult", 300, 0, "martinez2024").train
    shuffled = train.frame.copy()
    shuffled["age"] = shuffled["age"].sample(frac=1, random_state=0).to_numpy()
    rows = {(r["metric"], r["item"]): r["value"] for r in work.by_column(train, shuffled)}
    assert (
        rows["association_error", "categorical"] == 0 and rows["association_error", "numeric"] > 0
    )
    assert all(value < 1e-9 for (metric, _), value in rows.items() if metric == "hellinger_column")


def test_real_rows_are_measured_as_synthetic_ones_would_be():
    cell = {"dataset": "bank", "model": "fedbn", "setting": "real", "seed": 7, "rows": 300}
    rows = pd.DataFrame(measure(**cell, group="utility"))
    train, holdout = work.prepare("bank", 300, 7, "martinez2024")
    expected = utility.auc(train.frame, holdout.frame, train.schema, 7)
    assert set(rows["epsilon"]) == {math.inf, 0.5, 1.6}  # printed once for each budget
    assert rows.groupby("metric")["value"].first().to_dict() == expected
    attack = pd.DataFrame(measure(**cell, group="privacy"))
    assert set(attack["metric"]) >= {"ad_ens", "ad_dum"} and set(attack["epsilon"]) == {math.inf}
    assert set(attack["partition"]) == {"none"} and set(attack["setting"]) == {"real"}


def test_bad_cells_are_refused():
    with pytest.raises(BadInput, match="group 'beauty' is unknown: choose one of"):
        measure(**asked("fedbn"), group="beauty")
    with pytest.raises(BadInput, match="build the grid again"):
        measure(**asked("fedbn", table="another"), group="fidelity")
    with pytest.raises(BadInput, match="min_rows"):
        measure(**asked("fedbn", partition="quantity_skew", min_rows=200), group="fidelity")
    with pytest.raises(BadInput, match="unknown setting 'centrally'"):
        measure(**asked("fedbn", setting="centrally"), group="fidelity")
