"""The search of martinez2024: printed grids, proposals, scores against a client's own rows."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import martinez2024, tuning

ROOT = Path(__file__).resolve().parents[1]
BN = {
    "population_size": [100, 150, 200],
    "selection_pressure": [5, 10, 15],
    "aggregation_interval": [5, 10, 20, 25],
}
VAE = {
    "loss_factor": [2, 4, 6, 8],
    "local_epochs": [1, 5, 10, 20],
    "global_epochs": [50, 100, 200, 300],
    "batch_size": [50, 100, 200, 300],
    "embedding_dimension": [16, 32, 56, 64],
    "compress_dimension": ["[128]", "[64]", "[128, 128]", "[128, 64]", "[64, 64]"],
    "weight_decay": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1],
}
CARDIO = VAE | {
    "global_epochs": [50, 80, 100],
    "batch_size": [100, 200, 300],
    "embedding_dimension": [5, 10, 20, 25, 30],
    "compress_dimension": ["[32]", "[56]", "[64]", "[64, 32]", "[64, 56]"],
}
SMALL = {
    "rows": None,
    "min_rows": 20,
    "starts": 1,
    "splits": 1,
    "trials": {"fedbn": 3, "fedvae": 2},
}
SMALL |= {
    "changes": {"fedbn": {"generations": 25}},
    "divide": {"global_epochs": 300, "local_epochs": 20},
}


@pytest.fixture
def toy(monkeypatch, table):
    """The toy table in the place of every table."""
    monkeypatch.setattr(martinez2024, "load_table", lambda name, **_: table)
    martinez2024.prepare.cache_clear()
    yield table
    martinez2024.prepare.cache_clear()


# --- grids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "dataset", "printed"),
    [("fedbn", name, BN) for name in ("adult", "bank", "cardio")]
    + [("fedvae", "adult", VAE), ("fedvae", "bank", VAE), ("fedvae", "cardio", CARDIO)],
)
def test_grids_are_those_of_tables_5_2_to_5_4(model, dataset, printed):
    assert tuning.grid_of(model, dataset) == printed
    assert list(tuning.grid_of(model, dataset)) == list(printed)


def test_chosen_settings_are_those_of_tables_5_5_and_5_6_and_lie_in_the_grids():
    assert list(tuning.chosen("fedbn", "bank").values()) == [200, 10, 10]
    assert list(tuning.chosen("fedvae", "cardio").values()) == [2, 1, 50, 100, 20, "[64, 56]", 1e-3]
    for model, dataset in itertools.product(tuning.MODELS, tuning.DATASETS):
        grid = tuning.grid_of(model, dataset)
        assert all(value in grid[name] for name, value in tuning.chosen(model, dataset).items())


@pytest.mark.parametrize("profile", tuning.SIZES)
def test_shrunk_epochs_stay_apart_in_quick_and_are_never_none(profile):
    for name, by in tuning.SIZES[profile]["divide"].items():
        for values in (VAE[name], CARDIO[name]):
            shrunk = [tuning._fields("fedvae", {name: value}, {name: by}) for value in values]
            numbers = [number for fields in shrunk for number in fields.values()]
            assert min(numbers) >= 1
            if profile == "quick":
                assert len(set(numbers)) == len(values)
    assert tuning._fields(
        "fedvae", {"global_epochs": 80, "batch_size": 50}, {"global_epochs": 10}
    ) == {
        "training_rounds": 8,
        "batch": 50,
    }


# --- proposals -----------------------------------------------------------------------------------


def test_fedbn_tries_the_complete_grid_and_fedvae_thirty_draws():
    found = tuning.propose("fedbn", "adult", seed=1)
    assert {tuple(each.values()) for each in found} == set(itertools.product(*BN.values()))
    assert len(found) == 36
    drawn = tuning.propose("fedvae", "adult", seed=1)
    assert len(drawn) == 30 and all(each[name] in VAE[name] for each in drawn for name in VAE)
    assert tuning.propose("fedvae", "adult", seed=1, trials=4) == drawn[:4]
    assert tuning.propose("fedvae", "adult", seed=2, trials=4) != drawn[:4]
    again = tuning.propose("fedbn", "adult", seed=2, trials=5)
    assert again == tuning.propose("fedbn", "adult", seed=2)[:5] != found[:5]


def test_random_draws_are_uniform_and_independent():
    drawn = tuning.propose("fedvae", "adult", seed=3, trials=80)
    for name, values in VAE.items():
        for value in values:
            share = sum(each[name] == value for each in drawn) / 80
            assert abs(share - 1 / len(values)) < 4 * (0.25 / 80) ** 0.5
    pairs = sum(each["loss_factor"] == 2 and each["local_epochs"] == 1 for each in drawn) / 80
    assert abs(pairs - 1 / 16) < 4 * (0.06 / 80) ** 0.5


@pytest.mark.slow
def test_the_library_loads_without_optuna():
    code = "import sys, fedsynth_lib.works.tuning; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# --- scores --------------------------------------------------------------------------------------


def test_log_cluster_is_against_a_clients_own_rows_and_as_many_synthetic_ones():
    """Rows are A or B, so that clusters are pure. Synthetic: 30 times A.

    Client 0 has 10 A and 10 B. Cluster A: 10 of 30 are real; B: all. Mean squared distance from
    1/2: (1/36 + 1/4) / 2. Client 1 has 10 B. Cluster A: none real; B: all: 1/4.
    """
    schema = Schema(
        (
            Column("letter", "categorical", categories=("A", "B")),
            Column("other", "categorical", categories=("A", "B")),
        ),
        target="letter",
    )

    def frame(letters):
        values = pd.Categorical(list(letters), categories=["A", "B"])
        return pd.DataFrame({"letter": values, "other": values})

    train = Table("letters", frame("AB" * 10 + "B" * 10), schema, data="own")
    found = tuning.client_scores(train, [np.arange(20), np.arange(20, 30)], frame("A" * 30), seed=0)
    assert found == pytest.approx([math.log(5 / 36), math.log(1 / 4)])


@pytest.mark.slow
def test_rows_of_a_cell_are_well_formed_and_their_score_is_the_mean_over_clients(toy):
    (cell, *_) = tuning.cells("fedbn", ["adult"], SMALL, seed=5)
    assert cell["divide"] == {} and cell["changes"] == {"generations": 25}
    with pytest.raises(BadInput, match="build the grid again"):
        tuning.measure(**cell)
    cell["table"] = toy.digest
    rows = tuning.measure(**cell)
    frame = to_frame(rows)
    assert list(frame["metric"]) == ["log_cluster", "seconds_training"]
    fixed = {"dataset": "toy", "data": "own", "method": "fedbn", "partition": "label_skew"}
    fixed |= {"n_clients": 5, "setting": "tuning", "epsilon": math.inf, "seed": 5}
    assert all(set(frame[name]) == {value} for name, value in fixed.items())
    assert rows[1]["value"] > 0

    own = {**tuning._fields("fedbn", cell["parameters"], {}), "generations": 25}
    asked = {"dataset": "adult", "setting": "federated", "partition": "label_skew", "n_clients": 5}
    asked |= {"epsilon": math.inf, "seed": 5, "min_rows": 20, "changes": own, "table": toy.digest}
    run = tuning.STUDY.cell("fedbn", group="fidelity", relation="replace_one", **asked)
    ((_, made),) = run.made()
    assert len(made.frame) == len(run.prepared.train) == 960 and len(run.parts) == 5
    scores = tuning.client_scores(run.prepared.train, run.parts, made.frame, seed=5, starts=1)
    assert rows[0]["value"] == pytest.approx(scores.mean(), abs=1e-12)
    again = tuning.measure(**cell, draw=1)
    assert again[0]["value"] != rows[0]["value"]


# --- configurations ------------------------------------------------------------------------------


def configured(**parameters):
    """The params of a cell that scores this configuration."""
    return params_text({"parameters": parameters})


def tidy(scores, dataset="toy", method="fedbn", **labels):
    """Rows of a search over selection pressure, one per (pressure, seed)."""
    fixed = {
        "dataset": dataset,
        "data": "own",
        "method": method,
        "setting": "tuning",
        "profile": "quick",
    } | labels
    return to_frame(
        {
            **fixed,
            "params": configured(selection_pressure=pressure),
            "metric": metric,
            "seed": seed,
            "value": value,
        }
        for (pressure, seed), score in scores.items()
        for metric, value in (("log_cluster", score), ("seconds_training", 2.0 + seed))
    )


def test_configurations_are_means_over_splits():
    scores = {(5, 0): -4.0, (5, 1): -6.0, (10, 0): -7.0, (10, 1): -1.0}
    rows = pd.concat([tidy(scores), tidy(scores, dataset="adult"), tidy(scores, method="fedvae")])
    found = tuning.configurations(rows, "fedbn", "toy")
    assert found["selection_pressure"].tolist() == [5, 10] and found["log_cluster"].tolist() == [
        -5.0,
        -4.0,
    ]
    assert found["std"].tolist() == pytest.approx([2**0.5, 18**0.5]) and found[
        "splits"
    ].tolist() == [2, 2]
    assert found["seconds"].tolist() == [2.5, 2.5]
    params = configured(compress_dimension="[64, 64]", weight_decay=1e-5, loss_factor=2)
    (line,) = tuning.configurations(tidy(scores).assign(params=params), "fedbn", "toy").to_dict(
        "records"
    )
    assert (line["compress_dimension"], line["weight_decay"], line["loss_factor"]) == (
        "[64, 64]",
        1e-5,
        2,
    )


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "dataset", "said"),
    [
        ("fedgan", "adult", "unknown method 'fedgan'"),
        ("fedbn", "toy", "unknown table 'toy'"),
    ],
)
def test_what_cannot_be_searched_is_refused(model, dataset, said):
    with pytest.raises(BadInput, match=said):
        tuning.propose(model, dataset, seed=1)


def test_rows_of_another_search_or_of_several_profiles_are_refused():
    rows = tidy({(5, 0): 1.0})
    with pytest.raises(BadInput, match="no search of fedvae on toy"):
        tuning.configurations(rows, "fedvae", "toy")
    with pytest.raises(BadInput, match="several profiles of fedbn on toy"):
        tuning.configurations(pd.concat([rows, rows.assign(profile="paper")]), "fedbn", "toy")
