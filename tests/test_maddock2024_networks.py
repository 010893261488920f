"""The DP-CTGANs of maddock2024: settings and noise, and the measurements of a run."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from marginal_toys import dense, make_table
from scipy.stats import multivariate_normal

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Domain, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.metrics.kernel_likelihood import kernel_nll
from fedsynth_lib.tables import lock
from fedsynth_lib.works import declared, load, maddock2024

STUDY, CENTRAL, FEDERATED = load("maddock2024"), "DP-CTGAN", "Fed DP-CTGAN"
measure = STUDY.function("networks")


def configured(method, bins, training_rounds):
    """The settings of a network: those of the file, and those of the run."""
    declared = STUDY.method(method)
    own = maddock2024.network_settings(method, bins, training_rounds)
    return METHODS[declared.key].Config(**{**declared.settings, **own})


@pytest.fixture
def toy(monkeypatch):
    """A table of 130 rows under a name that is not registered: few enough to be in every batch,
    which plans quickly."""

    def load_table(key, work=None, rows=None, seed=0, schema=None):
        assert key == "toy" and work is None
        return make_table(130).take(np.arange(rows or 130))

    maddock2024._prepared.cache_clear()
    for module in (declared, lock):
        monkeypatch.setattr(module, "load_table", load_table)
    yield maddock2024.prepare("toy")
    maddock2024._prepared.cache_clear()


# --- settings and noise ---


def test_settings_are_the_works():
    """Protocol, "Baselines"; its learning rates are those of both methods."""
    central, federated = (configured(name, {"x": 4}, None) for name in (CENTRAL, FEDERATED))
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
    assert federated.most_rounds == configured(FEDERATED, {}, 500).most_rounds == 51
    assert configured(FEDERATED, {}, 20).most_rounds == 3
    assert configured(CENTRAL, {}, 3).training_rounds == 3


def test_bad_settings_are_refused(toy):
    with pytest.raises(BadInput, match="maddock2024: unknown method 'CTGAN'"):
        measure(dataset="toy", method="CTGAN", epsilon=1.0, seed=0)
    with pytest.raises(BadInput, match="training_rounds"):
        measure(dataset="toy", method=CENTRAL, epsilon=1.0, seed=0, training_rounds=0)


def test_the_smallest_client_sets_the_noise_and_pays_all_of_the_budget():
    module, sizes, domain = METHODS["feddpctgan"], [400, 120, 250], Domain(("a", "b"), (3, 4))
    config = configured(FEDERATED, {}, 40)
    noise = maddock2024.noise_of(module, domain, sizes, config, Privacy(2.0, 1e-5))
    paid = [epsilon_of(module.plan(noise, domain, rows, config), 1e-5) for rows in sizes]
    assert paid[1] == pytest.approx(2.0, abs=1e-6) and paid[0] < paid[2] < paid[1]


@pytest.mark.parametrize("rows", [203, 314])
def test_noise_is_sought_where_the_accountants_series_holds(monkeypatch, rows):
    """Calibration begins at a noise of 1e9, and there Opacus' series breaks down for these
    rates."""
    module, domain = METHODS["feddpctgan"], Domain(("a", "b"), (3, 4))
    config = configured(FEDERATED, {}, 500)
    monkeypatch.setattr(
        maddock2024, "calibrate", lambda plan, privacy: epsilon_of(plan(1e9), privacy.delta)
    )
    assert maddock2024.noise_of(module, domain, [rows], config, Privacy(5.0, 1e-5)) < 0.1


def test_rows_of_another_table_are_refused(toy):
    with pytest.raises(BadInput, match="the table is not the one that the grid was made for"):
        measure(dataset="toy", method=CENTRAL, epsilon=1.0, seed=0, table="0123")


# --- one cell ---


def test_yardsticks_are_kernels_around_real_rows_and_around_any(toy):
    rows = STUDY.function("kernels")(dataset="toy")
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
    key = STUDY.method(method).key
    narrow = replace(METHODS[key], Config=partial(METHODS[key].Config, hidden=(16,)))
    monkeypatch.setitem(METHODS, key, narrow)
    monkeypatch.setattr(
        maddock2024, "split_clients", lambda train, *_, **__: np.array_split(np.arange(117), 10)
    )
    options = {"n_clients": 10, "training_rounds": 3}
    rows = measure(dataset="toy", method=method, epsilon=2.0, seed=3, **options)
    found = {row["metric"]: row["value"] for row in rows}
    assert list(found) == ["workload_error", "nll", "nll_columns_dropped"]
    partition = "none" if method == CENTRAL else "cluster_skew"
    train, test = toy
    parts = np.array_split(np.arange(117), clients)
    module, config = METHODS[STUDY.method(method).key], configured(method, {}, 3)
    noise = maddock2024.noise_of(
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
