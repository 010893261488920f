"""Fidelity measures against values worked out by hand, slow loops, dython and scikit-learn."""

import math
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from dython.nominal import associations as dython_associations
from mixed_table import SCHEMA, independent_columns, mixed
from scipy.stats import chi2_contingency
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.tables.schema import Column, Schema, bin_edges

TINY = Schema(
    (
        Column("x", "numeric", low=-100.0, high=100.0),
        Column("c", "categorical", categories=("a", "b", "unused")),
    )
)


def tiny(x, c):
    categories = list(TINY["c"].categories)
    return pd.DataFrame(
        {"x": np.asarray(x, float), "c": pd.Categorical(list(c), categories=categories)}
    )


@pytest.fixture(scope="module")
def real():
    return mixed(4000, seed=1)


@pytest.fixture(scope="module")
def again():
    return mixed(4000, seed=2)


@pytest.fixture(scope="module")
def shuffled(real):
    return independent_columns(real)


# --- Hellinger -----------------------------------------------------------------------------------


def test_hellinger_takes_the_grid_from_the_real_rows_and_clips_to_it():
    real = tiny([0, 10], "ab")
    inside, outside = tiny([0, 10], "ab"), tiny([-90, 90], "ab")
    assert fidelity.hellinger(real, outside, TINY) == fidelity.hellinger(real, inside, TINY) == 0
    # On the grid of the wide table the narrow one falls into other bins.
    assert fidelity.hellinger_by_column(outside, real, TINY)["x"] == 1


def of_counts(p, q):
    """Hellinger's distance of two lists of counts."""
    p, q = (np.asarray(each) / np.sum(each) for each in (p, q))
    return math.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2)


@pytest.mark.parametrize("outlier", [False, True])
def test_hellinger_by_the_rule_of_freedman_and_diaconis_is_that_on_numpys_bins(outlier):
    """Of both columns together; a far value makes many bins, most of them empty."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 3000), rng.normal(0.3, 2, 2000)
    if outlier:
        b[0] = 99.0
    edges = np.histogram_bin_edges(np.concatenate([a, b]), "fd")
    counts = [np.histogram(each, edges)[0] for each in (a, b)]
    tables = tiny(a, "a" * len(a)), tiny(b, "a" * len(b))
    found = fidelity.hellinger_by_column(*tables, TINY, bins="fd")
    assert found["x"] == pytest.approx(of_counts(*counts), abs=1e-9) and found["c"] == 0
    assert len(edges) > (500 if outlier else 50)


def test_where_half_of_the_values_are_one_the_rule_is_sturges():
    a, b = np.r_[np.zeros(70), np.arange(1, 31)], np.r_[np.zeros(90), np.arange(1, 11)]
    edges = np.histogram_bin_edges(np.concatenate([a, b]), "sturges")
    counts = [np.histogram(each, edges)[0] for each in (a, b)]
    found = fidelity.hellinger_by_column(tiny(a, "a" * 100), tiny(b, "a" * 100), TINY, bins="fd")
    assert found["x"] == pytest.approx(of_counts(*counts), abs=1e-9)


def test_hellinger_of_own_values_by_hand():
    distances = fidelity.hellinger_by_column(
        tiny([0, 1, 9, 9], "aaaa"), tiny([0, 0.5, 9, 9], "aaaa"), TINY, bins="values"
    )  # 0, 0.5, 1, 9: real (1, 0, 1, 2), synthetic (1, 1, 0, 2) of 4
    assert distances == {"x": pytest.approx(0.5), "c": 0}


@pytest.mark.parametrize("bins", ["fd", "values"])
def test_hellinger_of_constant_columns_on_bins_of_both(bins):
    constant, other = tiny([4] * 300, "a" * 300), tiny([5] * 300, "a" * 300)
    assert fidelity.hellinger(constant, constant, TINY, bins=bins) == 0
    assert fidelity.hellinger_by_column(constant, other, TINY, bins=bins)["x"] == 1


def test_hellinger_of_constant_and_of_disjoint_columns():
    constant = tiny([3, 3], "aa")
    assert fidelity.hellinger(constant, constant, TINY) == 0
    assert fidelity.hellinger(constant, tiny([4, 4], "bb"), TINY) == 1


def test_hellinger_loop(real, shuffled):
    changed = real.assign(
        age=np.minimum(real["age"] + 7, 90), job=real["job"].array[np.r_[1:4000, 0]]
    )
    changed["job"] = changed["job"].where(changed["age"] > 40, "none")
    distances = fidelity.hellinger_by_column(real, changed, SCHEMA, bins=13)
    low, width = real["age"].min(), (real["age"].max() - real["age"].min()) / 13
    squares = 0.0
    for b in range(13):
        p, q = (
            sum(min(int((v - low) / width), 12) == b for v in f["age"]) / len(f)
            for f in (real, changed)
        )
        squares += (math.sqrt(p) - math.sqrt(q)) ** 2
    assert distances["age"] == pytest.approx(math.sqrt(squares / 2))
    bhattacharyya = sum(
        math.sqrt((real["job"] == c).mean() * (changed["job"] == c).mean())
        for c in SCHEMA["job"].categories
    )
    assert distances["job"] == pytest.approx(math.sqrt(1 - bhattacharyya))
    assert distances["job"] > 0.1 and distances["city"] == 0
    assert fidelity.hellinger(real, changed, SCHEMA, bins=13) == pytest.approx(
        np.mean(list(distances.values()))
    )


# --- associations --------------------------------------------------------------------------------


def dython_matrix(frame, schema):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dython_associations(
            frame.copy(), nominal_columns=list(schema.categorical), compute_only=True
        )
    return result["corr"].to_numpy(float)


@pytest.mark.parametrize("rows", [4000, 60, 7])
def test_associations_equal_dython(rows):
    frame = mixed(rows, seed=rows)
    assert len(set(frame["job"])) < len(SCHEMA["job"].categories)  # unused levels are in the test
    ours = fidelity.associations(frame, SCHEMA)
    np.testing.assert_allclose(ours, dython_matrix(frame, SCHEMA), atol=1e-8)
    np.testing.assert_allclose(ours, ours.T, atol=1e-15)


def test_associations_of_constant_columns_are_zero_as_in_dython(real):
    # 0.1 is no binary fraction: its mean over the rows is not exactly 0.1.
    frame = real.assign(
        hours=0.1, city=pd.Categorical(["east"] * len(real), list(SCHEMA["city"].categories))
    )
    ours = fidelity.associations(frame, SCHEMA)
    constant = [SCHEMA.names.index(name) for name in ("hours", "city")]
    assert not ours[constant].any() and not ours[:, constant].any()
    np.testing.assert_allclose(ours, dython_matrix(frame, SCHEMA), atol=1e-8)


@pytest.mark.parametrize("kind", ["numeric", "categorical"])
def test_associations_of_one_kind_of_columns(real, kind):
    schema = SCHEMA.drop(SCHEMA.categorical if kind == "numeric" else SCHEMA.numeric)
    frame = real[list(schema.names)]
    np.testing.assert_allclose(
        fidelity.associations(frame, schema), dython_matrix(frame, schema), atol=1e-8
    )


def test_associations_of_many_levels_equal_scipy_and_stay_small():
    """Case 07: 8,000 levels took 2.7 GB as a dense table of all pairs of levels."""
    rng, rows = np.random.default_rng(0), 20_000
    levels = {"wide": 8_000, "other": 300, "three": 3, "two": 2}
    codes = {name: rng.integers(0, number, rows) for name, number in levels.items()}
    codes["three"] = np.where(rng.random(rows) < 0.5, codes["wide"] % 3, codes["three"])
    names = {name: tuple(map(str, range(number))) for name, number in levels.items()}
    schema = Schema(
        tuple(Column(name, "categorical", categories=words) for name, words in names.items())
    )
    frame = pd.DataFrame(
        {n: pd.Categorical.from_codes(c, categories=list(names[n])) for n, c in codes.items()}
    )
    tracemalloc.start()
    ours = fidelity.associations(frame, schema)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6, peak
    for i, one in enumerate(levels):
        for j, other in enumerate(levels):
            if i < j:
                table = pd.crosstab(codes[one], codes[other]).to_numpy()
                free = np.array(table.shape) - 1
                phi2 = chi2_contingency(table)[0] / rows - free.prod() / (rows - 1)
                v = np.sqrt(max(phi2, 0) / (free - free**2 / (rows - 1)).min())
                assert ours[i, j] == ours[j, i] == pytest.approx(v, abs=1e-9)
    assert ours[0, 2] > 0.4 and ours[0, 1] < 0.05


def test_associations_need_two_rows():
    with pytest.raises(BadInput, match="two rows"):
        fidelity.associations(tiny([1], "a"), TINY)


def test_pcd_is_the_norm_of_the_difference(real, shuffled):
    expected = np.linalg.norm(dython_matrix(real, SCHEMA) - dython_matrix(shuffled, SCHEMA))
    assert fidelity.pairwise_correlation_difference(real, shuffled, SCHEMA) == pytest.approx(
        expected, abs=1e-8
    )


# --- propensity ----------------------------------------------------------------------------------


def test_propensity_loop(real, shuffled):
    synthetic = shuffled[:2500]
    merged = pd.concat([real, synthetic])
    merged[list(SCHEMA.categorical)] = OrdinalEncoder().fit_transform(
        merged[list(SCHEMA.categorical)].astype(str)
    )
    x, y = merged.to_numpy(float), np.repeat([0, 1], [len(real), len(synthetic)])
    total = 0.0
    for fit, score in StratifiedKFold(4, shuffle=True, random_state=3).split(x, y):
        tree = DecisionTreeClassifier(min_samples_leaf=30, random_state=3).fit(x[fit], y[fit])
        for p in tree.predict_proba(x[score])[:, 1]:
            total += (p - len(synthetic) / len(merged)) ** 2
    ours = fidelity.propensity_mse(real, synthetic, SCHEMA, 3, min_samples_leaf=30, folds=4)
    assert ours == pytest.approx(total / len(merged))


def test_propensity_of_a_tree_of_some_depth_is_that_of_its_own_rows(real, shuffled):
    rows = np.vstack([fidelity.alphabetical_codes(each, SCHEMA) for each in (real, shuffled)])
    is_synthetic = np.repeat([0, 1], [len(real), len(shuffled)])
    for depth in (1, 4):
        tree = DecisionTreeClassifier(max_depth=depth, random_state=3).fit(rows, is_synthetic)
        expected = np.mean((tree.predict_proba(rows)[:, 1] - is_synthetic.mean()) ** 2)
        found = fidelity.propensity_mse(real, shuffled, SCHEMA, 3, depth=depth)
        assert found == pytest.approx(expected)
    assert fidelity.propensity_mse(real, real, SCHEMA, 0, depth=6) == 0  # no split tells them apart


def test_propensity_of_few_rows_is_refused(real):
    with pytest.raises(
        BadInput, match="folds is 5; give a number from 2 to the rows of the smaller table"
    ):
        fidelity.propensity_mse(real, real[:4], SCHEMA, 0)


# --- log-cluster ---------------------------------------------------------------------------------


def projected(real, synthetic):
    """The merged rows as sklearn's transformers see them."""
    merged = pd.concat([real, synthetic], ignore_index=True)
    numbers = StandardScaler().fit_transform(merged[list(SCHEMA.numeric)])
    categories = [merged[c] == level for c in SCHEMA.categorical for level in SCHEMA[c].categories]
    return PCA(0.85, svd_solver="full").fit_transform(
        np.column_stack([numbers, *categories]).astype(float)
    )


def test_log_cluster_loop():
    real, synthetic = mixed(500, seed=3), independent_columns(mixed(400, seed=4))
    points = projected(real, synthetic)
    c = 500 / 900
    squares, printed = [], []
    for number in range(2, 9):
        labels = KMeans(number, n_init=10, random_state=7).fit_predict(points)
        gaps = [(labels[:500] == j).sum() / (labels == j).sum() - c for j in range(number)]
        squares.append(math.log(sum(g * g for g in gaps) / number))
        printed += [math.log(sum(gaps) / number)] if sum(gaps) > 0 else []
    ours = fidelity.log_cluster(real, synthetic, SCHEMA, 7, max_clusters=8)
    assert ours["log_cluster"] == pytest.approx(min(squares), abs=1e-3)
    assert ours["log_cluster_base2"] == pytest.approx(min(squares) / math.log(2), abs=1e-3)
    assert printed and ours["log_cluster_printed"] == pytest.approx(min(printed), abs=1e-3)


def test_log_cluster_of_a_copy_is_the_floor_and_its_printed_form_undefined(real):
    values = fidelity.log_cluster(real[:600], real[:600], SCHEMA, 0)
    assert values["log_cluster"] == pytest.approx(math.log(1 / (40 * 600**2)))
    assert math.isnan(values["log_cluster_printed"])


def test_log_cluster_of_fewer_distinct_rows_than_clusters():
    # Four distinct rows, of which 3/4 are real where x is 0 and 1/4 where it is 1, however they are
    # clustered.
    real, synthetic = tiny([0] * 6 + [1] * 2, "aaabbbab"), tiny([1] * 6 + [0] * 2, "aaabbbab")
    values = fidelity.log_cluster(real, synthetic, TINY, 0, max_clusters=12)
    assert values["log_cluster"] == pytest.approx(math.log(1 / 16))


@pytest.mark.slow
def test_clustering_through_the_coreset_is_as_good_as_ten_full_starts():
    points = projected(mixed(12_000, seed=5), mixed(8_000, seed=6))
    sample, weights = fidelity.lightweight_coreset(points, 3_000, np.random.default_rng(0))
    ratios = []
    for number in (2, 3, 5, 8, 12):
        ours = fidelity.cluster(points, sample, weights, number, seed=0, starts=10)
        full = KMeans(number, n_init=10, random_state=0).fit(points)
        assert len(ours.labels_) == len(points)
        ratios.append(ours.inertia_ / full.inertia_)
    assert np.mean(ratios) < 1.005 and max(ratios) < 1.02


def test_coreset_weights_estimate_sums_over_all_points():
    rng = np.random.default_rng(0)
    # a dozen far outliers
    points = np.vstack([rng.normal(size=(30_000, 3)), rng.normal(200, 1, size=(12, 3))])
    totals, costs, outliers = [], [], []
    for _ in range(40):
        sample, weights = fidelity.lightweight_coreset(points, 1_000, rng)
        totals.append(weights.sum() / len(points))
        costs.append((weights[:, None] * (sample - 1) ** 2).sum() / ((points - 1) ** 2).sum())
        outliers.append((sample[:, 0] > 100).sum())
    for estimates in (totals, costs):
        assert abs(np.mean(estimates) - 1) < 4 * np.std(estimates) / math.sqrt(40)
        assert np.std(estimates) < 0.05
    assert min(outliers) > 100  # a uniform sample would hold none of them two times in three
    same, ones = fidelity.lightweight_coreset(points[:50], 1_000, rng)
    np.testing.assert_array_equal(same, points[:50])
    np.testing.assert_array_equal(ones, 1)


# --- positive controls ---------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_values(real, again):
    first, second = (
        fidelity.log_cluster(real, again, SCHEMA, 4, max_clusters=5, coreset=1_000)
        for _ in range(2)
    )
    assert first == second
    assert first != fidelity.log_cluster(real, again, SCHEMA, 5, max_clusters=5, coreset=1_000)


def test_shares_are_counted_in_bins_of_the_declared_range_and_in_declared_categories():
    whole = Column("x", "numeric", low=0, high=59, integer=True)
    # two whole numbers a bin
    assert bin_edges(whole).tolist() == [2 * number - 0.5 for number in range(31)]
    found = fidelity.shares(pd.Series([0, 1, 2, 59]), whole)
    assert found[found > 0].to_dict() == {"0": 0.5, "1": 0.25, "29": 0.25}
    letters = Column("c", "categorical", categories=("a", "b", "c"))
    assert fidelity.shares(pd.Series(["b", "a", "b", "b"]), letters).to_dict() == {
        "a": 0.25,
        "b": 0.75,
        "c": 0,
    }
