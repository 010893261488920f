"""What needs no network in leitner2023: cells against counts by hand and direct calls."""

import numpy as np
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.rows import complete, to_frame
from fedsynth_lib.tables import modes
from fedsynth_lib.works import leitner2023, load
from fedsynth_lib.works import leitner2023_facts as facts

LABELS = {"profile": "quick", "params": "", "version": "1", "cell": ""}


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    """The tables that the bundle carries."""
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    leitner2023.prepare.cache_clear()
    yield
    leitner2023.prepare.cache_clear()


def rows_of(kind, **cell):
    found = load("leitner2023").function(kind)(**cell)
    return to_frame(complete(found, LABELS))  # refuses names that rows cannot have


def test_a_guess_is_right_as_often_as_the_frequent_class_occurs():
    train, test = leitner2023.prepare("cardio", 400)
    rows = rows_of("yardsticks", dataset="cardio", rows=400)
    found = rows.set_index("metric")["value"]
    target = train.schema.target
    most = train.frame[target].value_counts().idxmax()
    assert found["accuracy_guess"] == (test.frame[target].astype(str) == most).mean()
    assert (found["n_train"], found["n_test"], set(rows["data"])) == (400, 100, {"standin"})
    assert set(rows["metric"]) == {
        "n_train",
        "n_test",
        "accuracy_guess",
        "jsd_held_out",
        "wd_held_out",
    }


def test_another_table_than_the_cell_names_is_refused():
    with pytest.raises(BadInput):
        rows_of("yardsticks", dataset="cardio", rows=400, table="another")


def test_most_rows_are_drawn_about_as_often_as_assumed_and_the_most_exposed_more_often():
    rows = rows_of("rates", dataset="adult", n_clients=2, batch=50, rows=1000)
    found = rows.set_index(["metric", "item"])["value"]
    assert found["n_train", ""] == 500 and found["chance_in_batch", "assumed"] == 0.1
    assert found["chance_in_batch", "most exposed row"] > 2 * found["chance_in_batch", "median row"]


def test_distances_of_clients_by_hand():
    """Two columns, a number and a category; client 1 holds one half of the table, client 2 the
    other."""
    encoded = np.array([[0.0, 0], [0.0, 0], [1.0, 1], [1.0, 1]])
    found = facts.client_distances(encoded, [encoded[:2], encoded[2:]], np.array([0, 2]))
    # all zeros against half zeros, half ones: half a unit to move; the distance of (1, 0) from
    #     (1/2, 1/2), in nats
    half = np.sqrt((np.log(1 / 0.75) + 0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25)) / 2)
    assert found == pytest.approx(np.array([[0.5, 0.5], [half, half]]))


def test_weights_follow_from_rows_and_parts_of_the_distances():
    rows = rows_of("weights", dataset="cardio", partition="label_skew", rows=600)
    wide = rows.pivot(index="node", columns="metric", values="value")
    assert wide["client_rows"].sum() == 600 and wide["distance_part"].sum() == pytest.approx(1)
    odds = np.exp((1 - wide["distance_part"]) * wide["client_rows"] / 600)
    assert wide["weight_by_similarity"].to_numpy() == pytest.approx((odds / odds.sum()).to_numpy())


def test_a_mixture_comes_back_from_its_rows():
    asked = {"dataset": "adult", "column": "age", "seed": 0, "rows": 500}
    rows = rows_of("mixtures", **asked)
    ages = leitner2023.prepare("adult", 500).train.frame["age"].to_numpy(float)
    direct = modes.fit_variational(ages, least_weight=facts.LEAST_WEIGHT, seed=0)
    found = facts.mixture(rows.sample(frac=1, random_state=0))
    for name in ("weights", "means", "deviations"):
        assert getattr(found, name) == pytest.approx(getattr(direct, name), rel=1e-9)
    agreed = facts.mixture(rows_of("exchange", **asked, n_clients=2))
    assert (
        agreed.weights.sum() == pytest.approx(1)
        and abs(agreed.weights @ agreed.means - ages.mean()) < 3
    )


def test_one_client_alone_sends_its_own_fit():
    values = np.repeat([0.0, 10.0], [30, 70])
    _, (sent,) = facts.exchange([values], seed=0)
    assert sent.weights == pytest.approx([0.3, 0.7]) and sent.means == pytest.approx([0, 10])


def test_modes_are_counted_for_each_limit():
    found = rows_of("modes", dataset="adult", column="age", number=100, seed=1, rows=500)
    assert found["item"].tolist() == list(facts.LIMITS) and found["value"].between(1, 10).all()


def test_distances_are_told_by_column_and_client():
    prepared = leitner2023.prepare("cardio", 300)
    parts = leitner2023.divide(prepared, "label_skew", 3, seed=0)
    table = facts.distances(prepared, parts)
    assert list(table) == ["client 1", "client 2", "client 3"]
    assert tuple(table.index) == prepared.train.schema.names
    # who holds one class alone is farthest from all rows in the target, and ln 2 / 2 bounds it
    assert table.loc[prepared.train.schema.target].idxmax() == "client 1"


def test_a_client_trains_in_whole_rounds_until_its_budget_is_spent():
    asked = next(
        c for c in load("leitner2023").grid("tab5.9", "smoke").cells if "DP" in c["method"]
    )
    many, few = (leitner2023.trains(rows, **asked) for rows in (4000, 400))
    assert many["rate"] < few["rate"] and many["steps"] > few["steps"] > 0
    for found in (many, few):
        assert found["rounds"] * found["steps a round"] - found["steps"] >= 0
        assert found["rounds"] * found["steps a round"] - found["steps"] < found["steps a round"]
