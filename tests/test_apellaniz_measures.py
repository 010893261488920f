"""What the study of apellaniz2025 measures at a node, against brute force on rows of a made-up
training."""

import numpy as np
import pandas as pd
import pytest
from apellaniz_toys import CELL, JUDGED, NAMES, RANGES, SCHEMA, SIZES, TABLE, in_place
from scipy import stats
from scipy.spatial.distance import cdist, jensenshannon
from sklearn.ensemble import RandomForestClassifier

from fedsynth_lib.metrics.divergence import Sizes, jensen_shannon
from fedsynth_lib.works import apellaniz2025 as study
from fedsynth_lib.works import protocol
from fedsynth_lib.works.apellaniz_nodes import nodes

judge, distances, features = map(study.WORK.function, ("judge", "distances", "features"))
NUMERIC = [NAMES.index(name) for name in SCHEMA.numeric]
TARGET = NAMES.index("Diabetes")
OTHERS = [place for place in range(len(NAMES)) if place != TARGET]
AGE, BMI = NAMES.index("Age"), NAMES.index("BMI")


def coded(frame):
    """Numbers in their units, and codes, (rows, columns)."""
    return np.stack(
        [frame[n].cat.codes if n not in RANGES else frame[n] for n in NAMES], axis=1
    ).astype(float)


UNITS = coded(TABLE.frame)
MEANS, DEVIATIONS = UNITS[:, NUMERIC].mean(axis=0), UNITS[:, NUMERIC].std(axis=0)


def standardised(units):
    rows = units.copy()
    rows[:, NUMERIC] = (rows[:, NUMERIC] - MEANS) / DEVIATIONS
    return rows


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    yield from in_place(tmp_path, monkeypatch)


def training(monkeypatch, units):
    """Node 2 has drawn rows with these numbers; node 1 and 3 others."""
    rows = standardised(units).astype(np.float32)
    parts = [(1, np.abs(rows) * 0), (2, rows), (3, np.abs(rows) * 0 + 1)]
    frames = [pd.DataFrame(each, columns=list(NAMES)).assign(node=node) for node, each in parts]
    made = protocol.Made(pd.concat(frames, ignore_index=True), {})
    monkeypatch.setattr(protocol, "train_once", lambda *_, **__: made)


def drawn_rows():
    """As networks draw them: neither whole nor, some of them, within the declared range; and what
    is made of them."""
    rng = np.random.default_rng(1)
    whole = UNITS[rng.permutation(len(UNITS))[:200]]
    whole[:, TARGET] = rng.integers(3, size=200)  # a poor training
    units = whole.copy()
    units[:, NUMERIC] += rng.uniform(-0.4, 0.4, (200, len(NUMERIC)))
    units[:10, AGE], whole[:10, AGE] = 17.3, 13
    units[10:20, BMI], whole[10:20, BMI] = -3.0, 12
    return units, whole


def validation(node=2):
    return UNITS[nodes(TABLE, CELL["partition"], SIZES, 200)[node - 1].validation]


def forest(source, real, seed):
    """Accuracy on the last 40 real rows of a forest of 100 trees from the first 160 source rows."""
    model = RandomForestClassifier(n_estimators=100, random_state=seed)
    model.fit(source[:160][:, OTHERS], source[:160, TARGET].astype(int))
    return np.mean(model.predict(real[160:][:, OTHERS]) == real[160:, TARGET])


@pytest.mark.parametrize("whole", [False, True])
def test_a_node_is_judged_by_its_validation_rows_and_its_synthetic_ones(monkeypatch, whole):
    units, rounded = drawn_rows()
    training(monkeypatch, units)
    rows = judge(node=2, repeat=4, whole=whole, **CELL)
    found = {row["metric"]: row["value"] for row in rows}
    real, made = (
        standardised(each).astype(np.float32)
        for each in (validation(), rounded if whole else units)
    )
    assert found.keys() == {"js_divergence", "js_epochs", "acc_synthetic_real", "acc_real_real"}
    bits, epochs = jensen_shannon(real, made, seed=4, sizes=Sizes(**JUDGED))
    assert found["js_divergence"] == pytest.approx(bits, abs=1e-3) and found["js_epochs"] == epochs
    rounding = 0.026 if whole else 1e-9  # standardised anew, in single precision
    assert found["acc_synthetic_real"] == pytest.approx(forest(made, real, 4), abs=rounding)
    assert found["acc_real_real"] == pytest.approx(forest(real, real, CELL["seed"] + 4), abs=1e-9)
    assert {(row["method"], row["setting"], row["data"]) for row in rows} == {
        ("SDS", "federated", "own")
    }


@pytest.mark.parametrize("whole", [False, True])
def test_whole_rows_are_cut_and_rounded_as_a_table_would_be(monkeypatch, whole):
    units, rounded = drawn_rows()
    training(monkeypatch, units)
    seen = []
    monkeypatch.setattr(
        study, "jensen_shannon", lambda real, made, **_: seen.append((real, made)) or (0.0, 7)
    )
    judge(node=2, whole=whole, **CELL)
    ((real, made),) = seen
    np.testing.assert_allclose(real, standardised(validation()), atol=1e-5)
    np.testing.assert_allclose(made, standardised(rounded if whole else units), atol=1e-5)


def by_metric(rows, name):
    """item -> value."""
    return {row.get("item", ""): row["value"] for row in rows if row["metric"] == name}


def test_distances_are_those_to_the_nearest_other_row(monkeypatch):
    units, _ = drawn_rows()
    units[20:23], units[30:33, BMI] = validation()[:3], 140  # copies, and far away
    assert np.abs(standardised(units)[30:33, BMI]).min() > 8
    training(monkeypatch, units)
    rows = distances(node=2, **CELL)
    real, made = standardised(validation()), standardised(units)
    among = cdist(real, real)
    np.fill_diagonal(among, np.inf)
    for name, expected in (
        ("real", among.min(axis=1)),
        ("synthetic", cdist(made, real).min(axis=1)),
    ):
        assert by_metric(rows, f"{name}_min")[""] == pytest.approx(expected.min(), abs=1e-6)
        assert by_metric(rows, f"{name}_mean")[""] == pytest.approx(expected.mean(), rel=1e-5)
        assert by_metric(rows, f"{name}_zero")[""] == np.mean(expected < 1e-6)
        shares = by_metric(rows, f"{name}_share")
        assert len(shares) == 60 and sum(shares.values()) == pytest.approx(1)
        assert list(shares)[:2] == ["0.0", "0.1"] and list(shares)[-1] == "5.9"
        inner = np.array([shares[f"{edge / 10:.1f}"] for edge in range(59)])
        counted = np.array(
            [np.mean((expected >= edge / 10) & (expected < (edge + 1) / 10)) for edge in range(59)]
        )
        # a distance on an edge may fall on either side
        np.testing.assert_allclose(inner, counted, atol=0.006)
        assert shares["5.9"] == pytest.approx(np.mean(expected >= 5.9), abs=0.006)
    assert by_metric(rows, "synthetic_zero")[""] >= 0.015
    apart, among = cdist(made, real).min(axis=1), among.min(axis=1)
    expected = stats.wilcoxon(apart, among, alternative="greater").pvalue
    assert by_metric(rows, "p_wilcoxon")[""] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("far", "small"), [(8.0, True), (0.0, False)])
def test_p_values_are_small_where_synthetic_rows_lie_farther_away(monkeypatch, far, small):
    units = validation().copy()
    units[:, AGE] += far
    training(monkeypatch, units)
    rows = distances(node=2, **CELL)
    for name in ("p_wilcoxon", "p_kolmogorov_smirnov"):
        assert (by_metric(rows, name)[""] < 1e-6) == small and (
            by_metric(rows, name)[""] > 0.9
        ) != small


def test_features_are_the_shares_of_whole_values(monkeypatch):
    units, rounded = drawn_rows()
    training(monkeypatch, units)
    rows, real = features(node=2, **CELL), validation()
    for name in study.FEATURES:
        place, counted = NAMES.index(name), {}
        for kind, values in (("real", real[:, place]), ("synthetic", rounded[:, place])):
            shares = {
                d.split()[1]: v
                for d, v in by_metric(rows, f"{kind}_share").items()
                if d.split()[0] == name
            }
            expected = pd.Series(values.astype(int)).value_counts(normalize=True)
            assert sum(shares.values()) == pytest.approx(1)
            assert shares == {str(value): pytest.approx(share) for value, share in expected.items()}
            counted[kind] = expected
        both = pd.DataFrame(counted).fillna(0.0)
        divergence = jensenshannon(both["real"], both["synthetic"], base=2) ** 2
        assert by_metric(rows, "js_column")[name] == pytest.approx(divergence, abs=1e-9)
    importance = by_metric(rows, "importance")
    assert list(importance) == [name for name in NAMES if name != "Diabetes"]
    assert (
        sum(importance.values()) == pytest.approx(1)
        and max(importance, key=importance.get) == "BMI"
    )
