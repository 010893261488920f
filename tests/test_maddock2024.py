"""maddock2024: tables and clients, settings, and the measurements of a run by brute force."""

from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from marginal_toys import LEVELS, dense, make_table

from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.runs import names
from fedsynth_lib.runs.rows import params_text
from fedsynth_lib.tables import lock, synthfs
from fedsynth_lib.tables.registry import REGISTRY, view_bins
from fedsynth_lib.works import declared, load, maddock2024

STUDY = load("maddock2024")
MARGINAL = [name for name in STUDY.methods if "CTGAN" not in name and name != "FedPGM"]
measure = STUDY.function("run")

TRIPLES = list(combinations(range(4), 3))
ALL_FIVE = ["AIM", "DistAIM", "NaiveFLAIM", "AugFLAIM (Oracle)", "AugFLAIM (Private)"]


@pytest.fixture
def toy(monkeypatch):
    """A table of 400 rows under a name that is not registered; asked for with any number of
    rows."""
    asked = []

    def load_table(key, work=None, rows=None, seed=0, schema=None):
        assert key == "toy" and work is None
        asked.append((rows, seed))
        return make_table(400).take(np.arange(rows or 400))

    maddock2024._prepared.cache_clear()
    for module in (declared, lock):
        monkeypatch.setattr(module, "load_table", load_table)
    yield asked
    maddock2024._prepared.cache_clear()


def values_of(rows):
    return {row["metric"]: row["value"] for row in rows}


# --- what is prepared once ---


@pytest.mark.parametrize(
    ("estimator", "iterations", "weighted"),
    [
        ("published", (50, 500), False),
        ("half the iterations", (25, 250), False),
        ("half the iterations, weighted", (25, 250), True),
    ],
)
def test_a_reading_of_the_estimator_has_its_iterations_and_weights(estimator, iterations, weighted):
    asked = {"dataset": "adult", "epsilon": 1.0, "seed": 0, "estimator": estimator}
    config = STUDY.cell("DistAIM", **asked).config
    assert (config.iterations, config.final_iterations) == iterations
    assert config.weighted == weighted and not config.momentum and not config.to_noise


def test_a_table_is_split_once_and_divided_among_clients(toy):
    iid = {"dataset": "toy", "rows": 250, "partition": "iid", "n_clients": 6, "epsilon": 1.0}
    one, other = (STUDY.cell("DistAIM", **iid, seed=seed) for seed in (0, 1))
    (train, test), parts = one.prepared, one.parts
    assert (len(train), len(test)) == (225, 25) and len(parts) == 6
    assert sorted(np.concatenate(parts).tolist()) == list(range(225))
    # the same clients in every run
    assert other.parts is parts
    # the subsample's seed is the work's
    assert toy == [(None, 0), (250, maddock2024.PARTITION_SEED)]
    (everything,) = STUDY.cell("AIM", **iid, seed=0).parts
    assert everything.tolist() == list(range(225))
    skew = {"partition": "label_skew", "n_clients": 4, "beta": 0.05}
    skewed = STUDY.cell("DistAIM", dataset="toy", epsilon=1.0, seed=0, **skew).prepared
    skewed = SimpleNamespace(train=skewed.train, parts=maddock2024.divide(skewed, **skew))
    first = skewed.train.schema.names.index("a")
    labels = [skewed.train.frame.iloc[part, first].to_numpy() for part in skewed.parts]
    assert all(set(each) == {"w", "x"} for each in labels) and len(skewed.train) == 360
    assert np.ptp([np.mean(each == "w") for each in labels]) > 0.3


def test_a_misspelled_table_is_no_table_out_of_reach():
    with pytest.raises(BadInput, match="maddock2024 does not know 'magik', the closest is 'magic'"):
        STUDY.grid("tab1", "quick", tables=["magic", "magik"])


def test_a_synthfs_client_owns_its_block_of_rows():
    """Owners are found again after the split: each client's training rows are its own, and a tenth
    is held out."""
    owned = {"dataset": "synthfs", "partition": "owner", "beta": 5.0, "epsilon": 1.0, "seed": 0}
    cell = STUDY.cell("DistAIM", **owned)
    made = SimpleNamespace(**cell.prepared._asdict(), parts=cell.parts)
    frame = synthfs.generate(seed=maddock2024.PARTITION_SEED, beta=5.0)
    assert len(made.train) == 45_000 and len(made.test) == 5_000 and len(made.parts) == 100
    assert sorted(np.concatenate(made.parts).tolist()) == list(range(45_000))
    for client in (0, 41, 99):
        own = Counter(map(tuple, frame.iloc[500 * client : 500 * client + 500].to_numpy().tolist()))
        got = Counter(map(tuple, made.train.frame.iloc[made.parts[client]].to_numpy().tolist()))
        assert not got - own and 400 < got.total() < 500


# --- settings ---


def configured(method, estimator, **changes):
    asked = {"dataset": "toy", "epsilon": 1.0, "seed": 0, "estimator": estimator}
    return STUDY.cell(method, **asked, **changes).config


def test_published_and_own_settings_are_as_documented(monkeypatch):
    monkeypatch.setattr(maddock2024, "bins_of", lambda dataset: {"x": 4})
    for name in MARGINAL:
        key, own = STUDY.methods[name].key, STUDY.methods[name].settings
        default = METHODS[key].Config()
        ours = configured(name, "ours", rounds=3)
        published = configured(name, "published", rounds=3)
        assert (ours.momentum, ours.to_noise, ours.public_sizes) == (True, True, True)
        assert (published.momentum, published.to_noise, published.public_sizes) == (
            False,
            False,
            False,
        )
        weighted = own.get("weighted", default.weighted)
        assert published.weighted == (weighted and name != "DistAIM") and ours.weighted == weighted
        for config in (ours, published):
            assert (
                config.by_column == (("x", 4),)
                and config.rounds == 3
                and isinstance(config, METHODS[key].Config)
            )
            assert all(getattr(config, switch) == value for switch, value in own.items())


def test_the_ablation_crosses_weights_penalty_and_filtering():
    switches = {}
    for name in (
        *("weights only", "NaiveFLAIM", "AugFLAIM (Oracle)", "true skew, filter and combine"),
        *("private skew only", "AugFLAIM (Private)"),
    ):
        config = configured(name, "published")
        switches[name] = (
            config.weighted,
            config.penalty,
            config.filter_one_way,
            config.combine_one_way,
        )
    assert switches == {
        "NaiveFLAIM": (False, "none", False, False),
        "weights only": (True, "none", False, False),
        "true skew, filter and combine": (True, "true", True, True),
        "private skew only": (True, "proxy", False, False),
        "AugFLAIM (Oracle)": (True, "true", False, False),
        "AugFLAIM (Private)": (True, "proxy", True, True),
    }


def test_an_unknown_method_is_refused():
    with pytest.raises(BadInput, match="maddock2024: unknown method 'FLAIM'"):
        configured("FLAIM", "published")
    with pytest.raises(BadInput, match="unknown estimator 'best': choose one of published"):
        configured("AIM", "best")


def test_a_version_is_that_of_the_cells_own_module_and_of_its_measures(monkeypatch):
    assert STUDY.version("run", {"method": "AIM"}) == f"aim {METHODS['aim'].VERSION}"
    both = {
        STUDY.version("run", {"method": name})
        for name in ("AugFLAIM (Private)", "private skew only")
    }
    assert both == {f"augflaim_private {METHODS['augflaim_private'].VERSION}"}
    for measure, later in (("nll", ", nll 2"), ("auc_gbt", ", auc_gbt 2"), ("jsd", "")):
        with monkeypatch.context() as patch:
            patch.setitem(names.MEASURES, measure, 2)
            now = STUDY.version("run", {"method": "AIM"})
            assert now == f"aim {METHODS['aim'].VERSION}{later}"


# --- what sweeps vary ---


def swept(*cells):
    """The rows of these cells (method, setting, params) as `unpacked` gives them."""
    rows = [
        {"method": m, "setting": place, "params": params_text(params)} for m, place, params in cells
    ]
    return maddock2024.unpacked(pd.DataFrame(rows))


@pytest.mark.parametrize("estimator", ["published", "ours"])
@pytest.mark.parametrize("beta", [None, 0.025, 0.99])
@pytest.mark.parametrize(
    "rounds, steps, share", [(10, 1, 0.9), (192, 4, 0.5), ("annealed", 1, 0.9), (1, 2, 0.25)]
)
def test_settings_are_columns_of_numbers(estimator, beta, rounds, steps, share):
    given = {"rounds": rounds, "participation": 0.15, "beta": beta, "local_steps": steps}
    given |= {"measure_share": share, "estimator": estimator}
    table = swept(("NaiveFLAIM", "federated", given), ("NaiveFLAIM", "federated", {"rounds": 2}))
    read = table.iloc[0]
    assert (read["annealed"], read["participation"], read["local_rounds"]) == (
        rounds == "annealed",
        0.15,
        steps,
    )
    assert (read["measure_share"], read["estimator"]) == (share, estimator)
    assert read["rounds"] == rounds or (rounds == "annealed" and np.isnan(read["rounds"]))
    assert read["beta"] == beta or (beta is None and np.isnan(read["beta"]))
    assert table.loc[1, ["rounds", "participation", "local_rounds", "measure_share"]].tolist() == [
        2,
        0.1,
        1,
        0.9,
    ]
    assert all(
        pd.api.types.is_numeric_dtype(table[name]) for name in ("rounds", "participation", "beta")
    )


def test_settings_that_a_method_does_not_have_are_missing():
    read = swept(
        ("AIM", "central", {"rounds": 10, "participation": 0.2}),
        ("FedNaiveBayes", "federated", {"rounds": 4}),
    )
    assert np.isnan(read["participation"][0]) and read["rounds"][0] == 10
    assert np.isnan(read["rounds"][1]) and read["participation"][1] == 0.1
    networks = swept(("Fed DP-CTGAN", "federated", {"training_rounds": 500}))
    assert np.isnan(networks["rounds"][0]) and networks["participation"][0] == 0.1


def test_rows_may_be_unpacked_twice():
    once = swept(("NaiveFLAIM", "federated", {"rounds": 4, "local_steps": 3}))
    pd.testing.assert_frame_equal(maddock2024.unpacked(once), once, check_like=True)


# --- grids ---


def test_cells_leave_defaults_out_and_central_aim_has_no_clients(toy):
    lists = {"participation": [0.1, 0.2], "rounds": [10, 4], "n_clients": [5, 100]}
    cells = STUDY._expanded("run", "toy", ["AIM", "DistAIM"], {"seeds": 2, "epsilon": 1, **lists})
    found = list({str(cell): cell for cell in cells}.values())
    aim = [
        {k: v for k, v in cell.items() if k != "table"} for cell in found if cell["method"] == "AIM"
    ]
    assert aim == [
        {"dataset": "toy", "method": "AIM", "epsilon": 1, **rounds, "seed": seed}
        for rounds in ({}, {"rounds": 4})
        for seed in (0, 1)
    ]
    others = [cell for cell in found if cell["method"] == "DistAIM"]
    assert len(others) == 2 * 2 * 2 * 2 and len({str(cell) for cell in others}) == 16
    assert Counter(key for cell in others for key in cell) == {
        **dict.fromkeys(("dataset", "method", "epsilon", "seed", "table"), 16),
        **dict.fromkeys(("participation", "rounds", "n_clients"), 8),
    }
    # of the whole table, whatever is drawn
    assert {cell["table"] for cell in found} == {make_table(400).digest}


def test_sweeps_share_their_common_cells():
    grid = STUDY.grid("fig3", "smoke")
    usual = {
        "dataset": "adult",
        "epsilon": 1.0,
        "rows": 2000,
        "seed": 0,
        "table": grid.cells[0]["table"],
    }
    for method in ALL_FIVE:
        clients = {} if method == "AIM" else {"n_clients": 20}
        assert grid.cells.count({**usual, "method": method, **clients}) == 1
    assert {cell["method"] for cell in grid.cells} == set(ALL_FIVE)
    full = STUDY.grid("fig3", "paper").cells
    longer = {cell["method"] for cell in full if cell.get("local_steps", 1) > 1}
    assert longer == set(ALL_FIVE[2:])
    assert min(cell.get("participation", 0.1) for cell in grid.cells) * 20 >= 1
    assert not any(
        {"participation", "n_clients", "partition", "beta"} & set(cell)
        for cell in full
        if cell["method"] == "AIM"
    )


def test_rows_of_another_table_are_refused(toy):
    with pytest.raises(BadInput, match="the table is not the one that the grid was made for"):
        measure(dataset="toy", method="AIM", epsilon=1.0, seed=0, table="0123")


# --- one cell ---


def log_joint(state):
    """The model's log probability of every cell, from its potentials in one dense table."""
    joint = np.zeros(LEVELS)
    for name in (name for name in state if name.startswith("potential ")):
        query = tuple(map(int, name.split(" ")[1].split(",")))
        joint = joint + np.expand_dims(state[name], tuple(c for c in range(4) if c not in query))
    return joint - np.log(np.exp(joint).sum())


@pytest.mark.parametrize(
    "method, estimator", [("AIM", "published"), ("AugFLAIM (Private)", "ours")]
)
def test_measurements_equal_brute_force(toy, method, estimator):
    """Errors against the training rows by counting, likelihood of the rows held out from a dense
    joint table."""
    clients = 1 if method == "AIM" else 5
    options = {
        "partition": "iid",
        "n_clients": 5,
        "rounds": 2,
        "participation": 0.6,
        "estimator": estimator,
    }
    rows = measure(dataset="toy", method=method, epsilon=2.0, seed=3, **options, auc=True)
    found = values_of(rows)
    assert list(found) == [
        "workload_error",
        "workload_error_closure",
        "nll",
        "client_throughput_mb",
        "auc_gbt",
    ]
    train, test = maddock2024.prepare("toy")
    parts = STUDY.cell(method, dataset="toy", epsilon=2.0, seed=3, **options).parts
    module = METHODS[STUDY.method(method).key]
    config = configured(method, estimator, rounds=2, participation=0.6)
    run = settings.federated(
        module, train, parts, config=config, privacy=Privacy(2.0, 1e-5, reproduction=True), seed=3
    )
    encoder = module.encoder(train.schema, config)
    real, held_out = encoder.transform(train.frame), encoder.transform(test.frame)
    codes = module.sample(run.state, len(train), config=config, rng=stream(3, "sample"))
    every = [query for width in (1, 2, 3) for query in combinations(range(4), width)]
    errors = {
        q: np.abs(dense(real, q) / len(real) - dense(codes, q) / len(codes)).sum() for q in every
    }
    assert found["workload_error"] == pytest.approx(np.mean([errors[q] for q in TRIPLES]))
    assert found["workload_error_closure"] == pytest.approx(np.mean(list(errors.values())))
    assert 0 < found["workload_error_closure"] < found["workload_error"] < 0.7
    likelihood = [log_joint(run.state)[tuple(row)] for row in held_out]
    assert found["nll"] == pytest.approx(-np.mean(likelihood)) and len(held_out) == 40
    assert found["client_throughput_mb"] == pytest.approx(
        (run.bytes_up + run.bytes_down) / clients / 1e6
    )
    assert 0.5 < found["auc_gbt"] <= 1


@pytest.mark.parametrize("method", [*MARGINAL[1:], "FedPGM"])
def test_every_method_of_the_work_gives_rows(toy, method):
    options = {"partition": "iid", "n_clients": 10, "rounds": 2, "participation": 0.3, "rows": 200}
    options |= {"estimator": "ours"} if method == "FedPGM" else {}
    rows = measure(dataset="toy", method=method, epsilon=1.0, seed=0, **options)
    assert [row["metric"] for row in rows] == [
        "workload_error",
        "workload_error_closure",
        "nll",
        "client_throughput_mb",
    ]
    assert all(np.isfinite(row["value"]) for row in rows)
    (about,) = {
        (r["paper"], r["method"], r["data"], r["setting"], r["partition"], r["n_clients"])
        for r in rows
    }
    assert about == ("maddock2024", method, "own", "federated", "iid", 10)
    oracle = method in ("AugFLAIM (Oracle)", "true skew, filter and combine")
    assert {row["unprotected"] for row in rows} == {int(oracle)}
    assert all(0 < row["epsilon_spent"] <= 1 + 1e-9 for row in rows)


def test_central_aim_says_that_it_has_no_clients(toy):
    annealed = {"rounds": "annealed", "participation": 0.4, "rows": 200}
    rows = measure(dataset="toy", method="AIM", epsilon=1.0, seed=0, **annealed)
    (about,) = {(r["setting"], r["partition"], r["n_clients"]) for r in rows}
    assert about == ("central", "none", None)
    assert rows[0]["epsilon_spent"] == pytest.approx(1.0, abs=1e-6)


# --- the work's own numbers ---


def test_registered_tables_have_the_works_bins():
    """Protocol, "Datasets": domain sizes of adult, 32 bins in magic, 41 levels in SynthFS."""
    adult = {
        "age": 85,
        "fnlwgt": 100,
        "education-num": 16,
        "capital-gain": 100,
        "capital-loss": 100,
    }
    assert view_bins("adult", "maddock2024") == {**adult, "hours-per-week": 99}
    assert set(view_bins("magic", "maddock2024").values()) == {32}
    assert set(view_bins("synthfs", "maddock2024").values()) == {41}
    assert set(maddock2024.SUBSAMPLES) <= set(REGISTRY)
    assert STUDY.cells["run"].settings["n_clients"] == 100 and maddock2024.DELTA == 1e-5
    assert (maddock2024.SPLIT_SEED, maddock2024.PARTITION_SEED) == (571, 1034)
