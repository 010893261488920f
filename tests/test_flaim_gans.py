"""The DP-CTGANs of maddock2024: the kernel likelihood, settings and noise, cells, and the
measurements of a run."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from marginal_toys import dense, make_table
from scipy.stats import multivariate_normal

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Domain, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.runs import names
from fedsynth_lib.tables import lock
from fedsynth_lib.works import flaim_gans, flaim_study
from fedsynth_lib.works.flaim_gans import CENTRAL, FEDERATED, kernel_nll


@pytest.fixture
def toy(monkeypatch):
    """A table of 130 rows under a name that is not registered: few enough to be in every batch,
    which plans quickly."""

    def load_table(key, work=None, rows=None, seed=0, schema=None):
        assert key == "toy" and work is None
        return make_table(130).take(np.arange(rows or 130))

    flaim_study.prepared.cache_clear()
    for module in (flaim_study, lock):
        monkeypatch.setattr(module, "load_table", load_table)
    yield flaim_study.prepared("toy", "none", 1, None, None)[:2]
    flaim_study.prepared.cache_clear()


def codes_of(num_rows, seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 6, num_rows)
    return np.stack(
        [first, first // 2 + rng.integers(0, 3, num_rows), rng.integers(0, 2, num_rows)], axis=1
    )


# --- likelihood ---


def test_two_kernels_by_hand():
    """Rows 0 and 2, test row 1: both kernels have variance 2 * 2^(-2/5) (Scott's rule) and lie at
    distance 1."""
    variance = 2 * 2 ** (-2 / 5)
    value, dropped = kernel_nll(np.array([[0], [2]]), np.array([[1]]))
    assert (
        value == pytest.approx(0.5 / variance + 0.5 * np.log(2 * np.pi * variance)) and dropped == 0
    )


def test_the_density_is_a_mixture_of_normals_around_the_synthetic_rows():
    synthetic, test = codes_of(60, 0), codes_of(9, 1)
    covariance = np.cov(synthetic.T) * 60 ** (-2 / (3 + 4))
    densities = [
        np.mean([multivariate_normal.pdf(row, each, covariance) for each in synthetic])
        for row in test
    ]
    assert kernel_nll(synthetic, test) == (pytest.approx(-np.mean(np.log(densities))), 0)


def test_a_narrow_density_has_a_negative_likelihood():
    synthetic = np.zeros((1000, 1), int)
    synthetic[0] = 1  # hardly any spread, so the density at 0 is far above 1
    assert kernel_nll(synthetic, np.zeros((5, 1), int))[0] < -2


def test_constant_columns_are_dropped_from_both_tables():
    synthetic, test = codes_of(60, 0), codes_of(9, 1)
    wide, seen = (
        np.insert(codes, 1, value, axis=1) for codes, value in ((synthetic, 7), (test, 3))
    )
    assert kernel_nll(wide, seen) == (pytest.approx(kernel_nll(synthetic, test)[0]), 1)
    assert kernel_nll(np.full((5, 2), 4), np.full((3, 2), 4)) == (np.inf, 2)


def test_columns_that_follow_from_those_before_are_dropped():
    synthetic, test = codes_of(60, 0), codes_of(9, 1)
    assert flaim_gans.independent_columns(synthetic) == [0, 1, 2]
    sums = [synthetic.sum(axis=1), 1 - synthetic[:, 2], np.full(60, 2)]
    singular = np.column_stack([sums[2], synthetic, *sums[:2]])
    assert flaim_gans.independent_columns(singular) == [1, 2, 3]
    value, dropped = kernel_nll(singular, np.column_stack([test[:, 0], test, test[:, :2]]))
    assert (value, dropped) == (pytest.approx(kernel_nll(synthetic, test)[0]), 3)
    few = np.array([[0, 0, 5], [1, 0, 2], [0, 1, 9]])  # three rows span two dimensions
    assert flaim_gans.independent_columns(few) == [0, 1] and np.isfinite(kernel_nll(few, test)[0])


def test_scales_apart_by_a_thousand_are_no_dependence():
    rng = np.random.default_rng(3)
    rare = (np.arange(20_000) == 7).astype(int)
    rows = np.stack([rng.integers(0, 1000, 20_000), rare, rng.integers(0, 2, 20_000)], axis=1)
    assert flaim_gans.independent_columns(rows) == [0, 1, 2]
    assert np.isfinite(kernel_nll(rows, rows[:50])[0])


@pytest.mark.parametrize(
    "synthetic, test, message",
    [
        (
            np.zeros((4, 2)),
            np.zeros((4, 3)),
            r"shapes \(4, 2\) and \(4, 3\): give two tables with "
            r"the same columns",
        ),
        (np.zeros(4), np.zeros((4, 1)), "give two tables"),
        (np.zeros((1, 2)), np.zeros((4, 2)), "there are 1 synthetic and 4 test rows"),
        (np.zeros((4, 2)), np.zeros((0, 2)), "there are 4 synthetic and 0 test rows"),
    ],
)
def test_tables_without_a_density_are_refused(synthetic, test, message):
    with pytest.raises(BadInput, match=message):
        kernel_nll(synthetic, test)


# --- settings and noise ---


def test_settings_are_the_works():
    """Protocol, "Baselines"; its learning rates are those of both methods."""
    central, federated = (
        flaim_gans.configured(name, {"x": 4}, None) for name in (CENTRAL, FEDERATED)
    )
    for config in (central, federated):
        assert (config.discriminator_rate, config.generator_rate, config.batch, config.pac) == (
            1e-3,
            1e-5,
            128,
            1,
        )
        assert (config.hidden, config.clip, config.sampling) == ((256, 256), 1.0, "poisson")
        assert (
            config.bins is None and config.by_column == (("x", 4),) and config.encoding == "private"
        )
        assert config.condition_weight == 0 and not getattr(config, "start_from_marginals", False)
    assert (central.training_rounds, central.local_epochs, central.generator_at) == (
        20,
        1,
        "client",
    )
    assert (federated.training_rounds, federated.participation, federated.generator_at) == (
        500,
        0.1,
        "server",
    )
    assert federated.most_rounds == flaim_gans.configured(FEDERATED, {}, 500).most_rounds == 51
    assert flaim_gans.configured(FEDERATED, {}, 20).most_rounds == 3
    assert flaim_gans.configured(CENTRAL, {}, 3).training_rounds == 3


def test_bad_settings_are_refused():
    with pytest.raises(
        BadInput, match="method 'CTGAN' is unknown: choose one of DP-CTGAN, Fed DP-CTGAN"
    ):
        flaim_gans.measure("toy", "CTGAN", 1.0, 0)
    with pytest.raises(BadInput, match="training_rounds"):
        flaim_gans.configured(CENTRAL, {}, 0)


def test_the_smallest_client_sets_the_noise_and_pays_all_of_the_budget():
    module, sizes, domain = METHODS["feddpctgan"], [400, 120, 250], Domain(("a", "b"), (3, 4))
    config = flaim_gans.configured(FEDERATED, {}, 40)
    noise = flaim_gans.noise_of(module, domain, sizes, config, Privacy(2.0, 1e-5))
    paid = [epsilon_of(module.plan(noise, domain, rows, config), 1e-5) for rows in sizes]
    assert paid[1] == pytest.approx(2.0, abs=1e-6) and paid[0] < paid[2] < paid[1]


@pytest.mark.parametrize("rows", [203, 314])
def test_noise_is_sought_where_the_accountants_series_holds(monkeypatch, rows):
    """Calibration begins at a noise of 1e9, and there Opacus' series breaks down for these
    rates."""
    module, domain = METHODS["feddpctgan"], Domain(("a", "b"), (3, 4))
    config = flaim_gans.configured(FEDERATED, {}, 500)
    monkeypatch.setattr(
        flaim_gans, "calibrate", lambda plan, privacy: epsilon_of(plan(1e9), privacy.delta)
    )
    assert flaim_gans.noise_of(module, domain, [rows], config, Privacy(5.0, 1e-5)) < 0.1


# --- grids ---


def test_cells_leave_defaults_out_and_the_central_method_has_no_clients(toy):
    grid = flaim_gans.cells(
        ["toy"], 2, epsilon=5.0, rows=100, n_clients=8, training_rounds={FEDERATED: 30}
    )
    shared = {"epsilon": 5.0, "rows": 100, "table": make_table(130).digest}
    assert grid == [
        {"dataset": "toy", "method": method, **shared, **own, "seed": seed}
        for method, own in ((CENTRAL, {}), (FEDERATED, {"n_clients": 8, "training_rounds": 30}))
        for seed in (0, 1)
    ]
    (cell, _) = flaim_gans.cells(["toy"], 1, epsilon=1.0)
    assert set(cell) == {"dataset", "method", "epsilon", "seed", "table"}


def test_rows_of_another_table_are_refused(toy):
    with pytest.raises(BadInput, match="the table is not the one that the grid was made for"):
        flaim_gans.measure("toy", CENTRAL, 1.0, 0, table="0123")


def test_a_version_is_that_of_the_cells_own_method_and_of_its_measures(monkeypatch):
    for method, key in ((CENTRAL, "dpctgan"), (FEDERATED, "feddpctgan")):
        assert flaim_gans.version({"method": method}) == f"{key} {METHODS[key].VERSION}"
    monkeypatch.setitem(names.MEASURES, "nll", 3)
    assert flaim_gans.version({"method": CENTRAL}) == f"dpctgan {METHODS['dpctgan'].VERSION}, nll 3"


# --- one cell ---


def test_yardsticks_are_kernels_around_real_rows_and_around_any(toy):
    rows = flaim_gans.yardsticks("toy")
    assert {(row["metric"], row["data"], row["setting"]) for row in rows} == {
        ("nll", "own", "real")
    }
    found = {row["item"]: row["value"] for row in rows}
    assert list(found) == ["training rows", "codes at random"]
    train, test = (part.frame.apply(lambda column: column.cat.codes).to_numpy() for part in toy)
    assert found["training rows"] == pytest.approx(kernel_nll(train, test)[0])
    assert found["training rows"] < found["codes at random"] - 0.1


@pytest.mark.parametrize("method, clients", [(CENTRAL, 1), (FEDERATED, 10)])
def test_measurements_equal_brute_force(toy, monkeypatch, method, clients):
    """Errors by counting cells, likelihood by adding up normal densities, from a second run of the
    same seed."""
    small = {name: (key, {**own, "hidden": (16,)}) for name, (key, own) in flaim_gans.NAMES.items()}
    monkeypatch.setattr(flaim_gans, "NAMES", small)
    monkeypatch.setattr(
        flaim_study,
        "split_clients",
        lambda train, *_, **__: np.array_split(np.arange(len(train)), 10),
    )
    rows = flaim_gans.measure("toy", method, 2.0, 3, n_clients=10, training_rounds=3)
    found = {row["metric"]: row["value"] for row in rows}
    assert list(found) == ["workload_error", "nll", "nll_columns_dropped"]
    partition = "none" if method == CENTRAL else "cluster_skew"
    train, test, parts, _ = flaim_study.prepared("toy", partition, clients, None, None)
    module, config = METHODS[small[method][0]], flaim_gans.configured(method, {}, 3)
    noise = flaim_gans.noise_of(
        module,
        module.encoder(train.schema, config).domain,
        [len(part) for part in parts],
        config,
        Privacy(2.0, 1e-5),
    )
    privacy = Privacy(2.0, 1e-5, noise_multiplier=noise)
    run = settings.federated(
        module, train, parts, config=config, privacy=privacy, seed=3, num_rows=1
    )
    encoder = module.encoder(train.schema, config)
    real, held_out = encoder.transform(train.frame), encoder.transform(test.frame)
    codes = module.sample(run.state, len(train), config=config, rng=stream(3, "sample"))
    shares = [
        (dense(real, q) / len(real), dense(codes, q) / len(codes))
        for q in combinations(range(4), 3)
    ]
    assert found["workload_error"] == pytest.approx(
        np.mean([np.abs(one - other).sum() for one, other in shares])
    )
    many = module.sample(run.state, 10 * len(test), config=config, rng=stream(3, "kernel"))
    kept = np.ptp(many, axis=0) > 0
    covariance = np.cov(many[:, kept].T) * len(many) ** (-2 / (kept.sum() + 4))
    densities = [
        multivariate_normal.pdf(many[:, kept], row[kept], covariance).mean() for row in held_out
    ]
    assert found["nll"] == pytest.approx(-np.mean(np.log(densities)))
    assert found["nll_columns_dropped"] == (~kept).sum() and len(held_out) == 13
    (about,) = {
        (r["method"], r["setting"], r["partition"], r["n_clients"], r["unprotected"]) for r in rows
    }
    assert about == (
        method,
        *(("central", "none", None) if method == CENTRAL else ("federated", partition, 10)),
        0,
    )
    assert rows[0]["epsilon_spent"] <= 2.0 * (1 + 1e-6) and Counter(
        row["data"] for row in rows
    ) == {"own": 3}
    # of a client drawn as often as it may be
    assert rows[0]["epsilon_spent"] > (1.9 if method == CENTRAL else 0.5)
