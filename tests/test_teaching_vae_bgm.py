"""What the teaching notebook of VAE-BGM takes from `teaching_vae_bgm`: patients, one node's rows,
measures of them."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import norm

from fedsynth_lib.federation import settings
from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.metrics.divergence import Sizes
from fedsynth_lib.teaching import teaching_vae_bgm as bgm

SMALL = {
    "training_rounds": 1,
    "local_epochs": 3,
    "networks": 1,
    "hidden": 16,
    "components": 3,
    "starts": 1,
}
CONFIG = vae_bgm.Config(technique="fedavg", latent=2, **SMALL)


@pytest.fixture(scope="module")
def table():
    return bgm.patients(300, 1)


@pytest.fixture(scope="module")
def run(table):
    return settings.federated(
        vae_bgm, table, [np.arange(100), np.arange(100, 300)], config=CONFIG, seed=3, num_rows=1
    )


def test_patients_are_as_they_are_told():
    made = bgm.patients(20_000, 3)
    shares = made.frame["diabetes"].value_counts(normalize=True).to_dict()
    assert shares == pytest.approx({"none": 0.62, "type 1": 0.08, "type 2": 0.30}, abs=0.012)
    means = made.frame.groupby("diabetes", observed=True)[["age", "BMI"]].mean()
    assert np.allclose(
        means.loc[["none", "type 1", "type 2"]], [[44, 25], [26, 20], [70, 36]], atol=0.3
    )
    assert all(dtype == np.int64 for dtype in made.frame[list(made.schema.numeric)].dtypes)
    fewer = bgm.patients(20_000, 3, without=("pressure", "health"))
    pd.testing.assert_frame_equal(fewer.frame, made.frame.drop(columns=["pressure", "health"]))
    assert fewer.schema.names == tuple(fewer.frame) and fewer.digest != made.digest
    assert bgm.patients(50, 3).digest == bgm.patients(50, 3).digest != bgm.patients(50, 4).digest


def test_points_of_the_prior_and_of_the_mixture_have_their_moments(run, table):
    network, latent = bgm.trained(run.state, CONFIG)
    assert not network.training and latent.means.shape[1] == network.latent == 2
    points, frame = bgm.decoded(network, None, 20_000, table, seed=5)
    assert np.allclose(points.mean(axis=0), 0, atol=0.03) and np.allclose(
        np.cov(points.T), np.eye(2), atol=0.03
    )
    assert list(frame) == list(table.frame) and frame.dtypes.equals(table.frame.dtypes)
    points, _ = bgm.decoded(network, latent, 20_000, table, seed=5)
    centre = latent.weights @ latent.means
    inner = np.einsum("k,kij->ij", latent.weights, latent.covariances) + np.diag(
        np.exp(latent.log_variances)
    )
    spread = inner + np.einsum(
        "k,ki,kj->ij", latent.weights, latent.means - centre, latent.means - centre
    )
    width = np.sqrt(np.diag(spread))
    assert np.allclose((points.mean(axis=0) - centre) / width, 0, atol=0.03)
    assert np.allclose(
        np.cov(points.T) / np.outer(width, width), spread / np.outer(width, width), atol=0.04
    )


def test_the_same_seed_decodes_the_same_rows(run, table):
    network, latent = bgm.trained(run.state, CONFIG)
    one, same, other = (bgm.decoded(network, latent, 40, table, seed=seed)[1] for seed in (5, 5, 6))
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)


def test_an_outline_lies_two_deviations_away():
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.7], [0.7, 0.5]])
    offsets = bgm.outline(mean, covariance) - mean
    assert np.allclose(np.einsum("ni,ij,nj->n", offsets, np.linalg.inv(covariance), offsets), 4)
    assert np.allclose(offsets[0], offsets[-1])


def test_a_node_draws_places_in_the_declared_ranges(run, table):
    rows = bgm.node_rows(run.state, 1, 50, CONFIG, seed=0)
    assert rows.shape == (50, 6)
    assert (rows[:, :3] >= 0).all() and (rows[:, :3] <= 1).all()
    assert not np.allclose(rows[:, :3] * [82, 48, 120] % 1, 0)  # as drawn: not whole
    for codes, column in zip(rows.T[3:], table.schema.columns[3:], strict=True):
        assert set(codes) <= set(range(len(column.categories)))
    assert not np.array_equal(rows, bgm.node_rows(run.state, 0, 50, CONFIG, seed=0))


def test_standard_is_minus_mean_over_deviation(table):
    numbers = table.frame[["age", "BMI", "pressure"]].to_numpy(float)
    rows = bgm.standard(table.frame, table)
    assert np.allclose(
        rows[:, :3], (numbers - numbers.mean(axis=0)) / numbers.std(axis=0), atol=1e-5
    )
    assert np.array_equal(rows[:, 4], table.frame["diabetes"].cat.codes)
    places = vae_bgm.encoder(table.schema, CONFIG).transform(table.frame)
    assert np.array_equal(bgm.standard(places, table), rows)


def test_divergence_rounds_places_before_it_judges(table):
    sizes = Sizes(training=150, evaluation=50, epochs=40, patience=20)
    others = bgm.patients(300, 2)
    places = vae_bgm.encoder(table.schema, CONFIG).transform(others.frame)
    places[:, :3] += 0.4 / np.array([82, 48, 120])  # rounded, it is gone
    assert places.max(axis=0)[0] <= 1
    exact = bgm.divergence(table, others.frame, sizes=sizes, seed=0)
    assert bgm.divergence(table, places, sizes=sizes, seed=0) == exact < 0.1
    far = others.frame.assign(age=100, BMI=60)
    assert bgm.divergence(table, far, sizes=sizes, seed=0) > 0.8


@pytest.mark.parametrize("shift", [0.0, 0.7, 2.0, 4.0])
def test_the_exact_divergence_of_moved_columns_is_that_of_one_column(shift):
    def inner(x):
        p, q = norm.pdf(x), norm.pdf(x, shift)
        return 0.5 * (p * np.log2(2 * p / (p + q)) + q * np.log2(2 * q / (p + q)))

    expected = quad(inner, -12, 12 + shift, points=[0, shift / 2, shift])[0]
    assert bgm.normal_divergence(shift, 0.0) == pytest.approx(expected, abs=1e-6)


def test_the_exact_divergence_of_correlated_columns_agrees_with_a_large_sample():
    """By Monte Carlo: the mean of log2 of twice the share of a row's own density, over rows of both
    laws."""
    rng, r = np.random.default_rng(1), 0.8
    one = rng.normal(size=(400_000, 2))
    other = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size=400_000)
    halves = []
    for rows, sign in ((one, 1), (other, -1)):
        x, y = rows.T
        correlated = -0.5 * (x**2 - 2 * r * x * y + y**2) / (1 - r**2) - 0.5 * np.log(1 - r**2)
        ratio = sign * (correlated + 0.5 * (x**2 + y**2))  # log of the other density over the own
        halves.append((1 - np.log2(1 + np.exp(ratio))).mean())
    assert bgm.normal_divergence(0.0, r) == pytest.approx(np.mean(halves), abs=0.003)
    assert bgm.normal_divergence(50.0, 0.0) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.slow
def test_the_estimate_comes_close(run):
    sizes = Sizes(training=800, evaluation=400, epochs=120, patience=40)
    assert bgm.normal_divergence(2.0, 0.0, sizes=sizes, seed=1) == pytest.approx(0.486, abs=0.06)
    one, same, other = (
        bgm.normal_divergence(1.0, 0.0, sizes=Sizes(60, 20, 5, 5), seed=s) for s in (1, 1, 2)
    )
    assert one == same != other


def test_distances_against_all_pairs(table):
    own, others = table.take(np.arange(120)), table.frame.iloc[120:240].reset_index(drop=True)
    copied = others.copy()
    copied.iloc[:30] = own.frame.iloc[:30]
    found = bgm.distances(own, {"others": others, "copied": copied})
    real = bgm.standard(own.frame, own).astype(float)
    among = cdist(real, real)
    np.fill_diagonal(among, np.inf)
    nearest = {
        "own rows, to each other": among.min(axis=1),
        "others": cdist(bgm.standard(others, own).astype(float), real).min(axis=1),
        "copied": cdist(bgm.standard(copied, own).astype(float), real).min(axis=1),
    }
    for name, expected in nearest.items():
        assert found.loc[name, "median"] == pytest.approx(np.median(expected), rel=1e-6)
        assert found.loc[name, "smallest"] == pytest.approx(expected.min(), abs=1e-9)
        assert found.loc[name, "copies"] == (expected == 0).mean()
    assert found.loc["copied", "copies"] >= 0.25
    assert np.isnan(found.loc["own rows, to each other", "p"])
    far = others.assign(age=100, BMI=60)
    p = bgm.distances(own, {"far": far, "copied": copied})["p"]
    assert p["far"] < 1e-10 and p["copied"] > 0.99


def test_hospitals_are_judged_one_by_one_for_each_seed(table):
    sizes = Sizes(60, 30, epochs=2, patience=2)
    parts = [np.arange(100), np.arange(100, 300)]
    judged = {"table": table, "unseen": bgm.patients(120, 5), "sizes": sizes, "seeds": (3, 4)}
    run, lines = bgm.hospitals("FedAvg", vae_bgm, CONFIG, parts, **judged)
    assert [line[:2] for line in lines] == [("FedAvg", 100), ("FedAvg", 200)] * 2
    made = bgm.node_rows(run.state, 1, sizes.rows, CONFIG, 4)
    assert lines[-1][2] == bgm.divergence(judged["unseen"], made, sizes=sizes, seed=4)
