"""The three attacks: predicates and neighbours by brute force, rates by hand, and positive and
negative controls."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics import anonymity
from fedsynth_lib.metrics.anonymity import (
    Rate,
    Risk,
    inference,
    linkability,
    risks,
    singling_out,
)
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works.protocol import shuffled

SCHEMA = Schema(
    (
        Column("age", "numeric", low=0, high=100, integer=True),
        Column("income", "numeric", low=0.0, high=1000.0),
        Column("debt", "numeric", low=0.0, high=1000.0),
        Column("job", "categorical", categories=tuple("abcdef")),
        Column("ill", "categorical", categories=("no", "yes")),
    ),
    target="ill",
)


def people(number, seed):
    """Income follows age, debt follows income, illness age; the rest is everybody's own."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 101, number)
    income = np.clip(5 * age + rng.normal(200, 60, number), 0, 1000)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": income,
            "debt": np.clip(1000 - income + rng.normal(0, 30, number), 0, 1000),
        }
    )
    frame["job"] = pd.Categorical.from_codes(rng.integers(0, 6, number), categories=list("abcdef"))
    frame["ill"] = pd.Categorical.from_codes(
        (rng.random(number) < age / 100).astype(int), categories=["no", "yes"]
    )
    return frame


REAL, OTHERS = people(600, 1), people(600, 2)
INDEPENDENT = people(600, 3).apply(lambda column: column.sample(frac=1, random_state=4).to_numpy())
INDEPENDENT = INDEPENDENT.assign(
    **{
        name: pd.Categorical(INDEPENDENT[name], categories=list(SCHEMA[name].categories))
        for name in ("job", "ill")
    }
)
HALVES = (["age", "income"], ["debt", "job"])


HALVES = (["age", "job"], ["income", "debt", "ill"])


def half_a_copy() -> pd.DataFrame:
    """Half of the rows are real ones, half are of nobody."""
    return pd.concat([REAL[:300], INDEPENDENT[300:]], ignore_index=True)


@pytest.mark.parametrize(("successes", "attacks"), [(0, 10), (3, 10), (250, 500), (500, 500)])
def test_intervals_are_wilsons(successes, attacks):
    rate = Rate.of(successes, attacks)
    interval = binomtest(successes, attacks).proportion_ci(method="wilson")
    assert rate.value - rate.error == pytest.approx(interval.low, abs=1e-12)
    assert rate.value + rate.error == pytest.approx(interval.high, abs=1e-12)


def test_residual_risk_by_hand():
    """(0.5 - 0.2) / 0.8 = 0.375; errors 0.04 / 0.8 = 0.05 and 0.5 / 0.64 * 0.032 = 0.025 give
    0.0559 together."""
    risk = Risk(Rate(0.5, 0.04), Rate(0.1, 0.02), Rate(0.2, 0.032), attacks=500)
    assert risk.residual == pytest.approx(0.375) and risk.told
    assert risk.interval == pytest.approx((0.375 - 0.0559017, 0.375 + 0.0559017), abs=1e-6)
    worse = Risk(Rate(0.1, 0.02), Rate(0.3, 0.02), Rate(0.2, 0.02), attacks=500)
    assert worse.residual == 0 and not worse.told and worse.interval[0] == 0


def attack(name, synthetic, seed=0):
    options = {"seed": seed, "attacks": 300}
    if name in ("univariate", "multivariate"):
        return singling_out(REAL, OTHERS, synthetic, SCHEMA, mode=name, **options)
    if name == "linkability":
        return linkability(REAL, OTHERS, synthetic, SCHEMA, known=HALVES, **options)
    return inference(REAL, OTHERS, synthetic, SCHEMA, secret=name, **options)


def test_predicates_match_as_pandas_counts():
    rng = stream(0, "predicates")
    rows = anonymity._coded(SCHEMA, made=REAL)[0]
    numeric = np.array([True, True, True, False, False])
    for found in (
        anonymity._blind(rows, numeric, 70, 3, rng),
        anonymity._of_rows(rows, numeric, 70, 2, rng),
        anonymity._rare(rows, numeric, 70, rng),
    ):
        counts = found.matches(rows)
        for line in range(0, len(counts), 7):
            held = pd.Series(True, index=REAL.index)
            for column, operator, value in zip(*(each[line] for each in found), strict=True):
                held &= {0: "eq", 1: "ne", 2: "ge", 3: "le"}[operator] and getattr(
                    pd.Series(rows[:, column]), {0: "eq", 1: "ne", 2: "ge", 3: "le"}[operator]
                )(value)
            assert counts[line] == held.sum()


@pytest.mark.parametrize("mode", ["univariate", "multivariate"])
def test_predicates_single_out_one_synthetic_row(mode):
    rows = anonymity._coded(SCHEMA, made=REAL)[0]
    numeric, rng = np.array([True, True, True, False, False]), stream(0, mode)
    found = (
        anonymity._rare(rows, numeric, 100, rng)
        if mode == "univariate"
        else anonymity._of_rows(rows, numeric, 100, 3, rng)
    )
    assert len(found.columns) == 100 and (found.matches(rows) == 1).all()
    if mode == "univariate":
        assert (
            len(
                {
                    (*map(int, c), *map(float, v), *map(int, o))
                    for c, o, v in zip(*found, strict=True)
                }
            )
            == 100
        )
    else:
        assert all(len(set(line)) == 3 for line in found.columns)


def test_a_table_with_nothing_rare_has_few_predicates():
    dull = REAL.assign(age=50, income=1.0, debt=2.0)
    risk = singling_out(REAL, OTHERS, dull, SCHEMA, mode="univariate", seed=0)
    assert risk.attacks == 0 and risk.residual == 0


def test_neighbours_by_brute_force():
    rows = anonymity._coded(SCHEMA, real=REAL.head(40), made=OTHERS.head(70))
    places = np.array([0, 1, 3])
    found = anonymity._nearest(rows[0][:, places], rows[1][:, places], SCHEMA, places, 3)
    for target, nearest in zip(rows[0], found, strict=True):
        apart = [
            abs(target[0] - row[0]) / 100 + abs(target[1] - row[1]) / 1000 + (target[3] != row[3])
            for row in rows[1]
        ]
        assert list(nearest) == sorted(range(70), key=lambda k: (apart[k], k))[:3]
    single = anonymity._nearest(rows[0][:, places], rows[1][:, places], SCHEMA, places, 1)
    assert np.array_equal(single[:, 0], found[:, 0])


def test_common_neighbours_and_right_guesses_by_hand():
    assert (
        anonymity._common(np.array([[1, 2], [3, 4], [5, 6]]), np.array([[2, 9], [8, 7], [6, 5]]))
        == 2
    )
    assert (
        anonymity._right(
            np.array([100.0, 100.0, 0.0]), np.array([104.0, 106.0, 0.0]), "numeric", 0.05
        )
        == 2
    )
    assert anonymity._right(np.array([1.0, 2.0]), np.array([1.0, 3.0]), "categorical", 0.05) == 1


def test_the_same_seed_repeats_an_attack():
    assert (
        attack("multivariate", OTHERS, 3)
        == attack("multivariate", OTHERS, 3)
        != attack("multivariate", OTHERS, 4)
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: singling_out(REAL, OTHERS, REAL, SCHEMA, mode="both", seed=0),
            "mode 'both' is unknown",
        ),
        (
            lambda: inference(REAL, OTHERS, REAL, SCHEMA, secret="wage", seed=0),
            "'wage' is not in the table",
        ),
        (
            lambda: linkability(REAL, OTHERS, REAL, SCHEMA, known=(["age"], []), seed=0),
            "'no column' is not",
        ),
        (
            lambda: inference(REAL, OTHERS.head(0), REAL, SCHEMA, secret="job", seed=0),
            "the control table has no rows",
        ),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(BadInput, match=said):
        call()


def test_risks_of_a_copy_are_high_and_of_noise_low(table):
    train, control = table.take(np.arange(400)), table.take(np.arange(400, 800)).frame
    copied = risks(train.frame, control, train.frame, train.schema, seed=0, attacks=100)
    noise = shuffled(control, seed=0)
    blind = risks(train.frame, control, noise, train.schema, seed=0, attacks=100)
    assert copied["inference"] > 0.8 and copied["risk"] > blind["risk"] + 0.3
    assert blind["linkability"] < 0.1 and blind["inference"] < 0.15
    for found in (copied, blind):
        parts = [found[name] for name in ("singling_out", "linkability", "inference")]
        assert found["risk"] == pytest.approx(np.mean(parts))
        for name in ("singling_out", "linkability", "inference"):
            assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]


RATES = json.loads((Path(__file__).parent / "anonymeter_rates.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in RATES if " " in name or name == "linkability"])
def test_risks_are_those_of_anonymeter(name):
    """Its success rates on the same tables (.ci/anonymeter_rates.py) and ours differ by no more
    than both intervals; each draws its own attacks."""
    attack, _, what = name.partition(", ")
    tables, options = (REAL, OTHERS, half_a_copy(), SCHEMA), {"seed": 0, "attacks": 300}
    if attack == "singling out":
        ours = singling_out(*tables, mode=what, **options)
    elif attack == "linkability":
        ours = linkability(*tables, known=HALVES, **options)
    else:
        ours = inference(*tables, secret=what, **options)
    theirs = RATES[name]
    for own, key in ((ours.main, "attack"), (ours.control, "control")):
        value, error = theirs[key]
        assert abs(own.value - value) <= own.error + error, key
    low, high = theirs["risk"][1]
    assert ours.interval[0] <= high and low <= ours.interval[1]
