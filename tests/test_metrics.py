"""`evaluate` and the list of measures: names, groups, refusals."""

import csv
from pathlib import Path

import numpy as np
import pytest
from mixed_table import SCHEMA, mixed

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import (
    anonymity,
    attacks,
    fidelity,
    marginal_distances,
    membership,
    quality,
    similarity,
    utility,
)
from fedsynth_lib.metrics.attacks import AttackScenario, attribute_disclosure
from fedsynth_lib.metrics.evaluation import evaluate
from fedsynth_lib.metrics.registry import METRICS

SCENARIO = AttackScenario(("age", "sex"), 2, "owner")
VALUES = Path(__file__).parents[1] / "data" / "published" / "values" / "martinez2024"


@pytest.fixture(scope="module")
def tables():
    return mixed(700, seed=1), mixed(200, seed=2), mixed(700, seed=3)


@pytest.mark.slow
def test_every_measure_is_listed_in_its_group(tables):
    values = evaluate(*tables, SCHEMA, seed=0, scenario=SCENARIO)
    assert set(values) == set(METRICS)
    assert all(type(value) is float for value in values.values())
    for group in ("fidelity", "utility", "privacy"):
        part = evaluate(*tables, SCHEMA, seed=0, groups=(group,), scenario=SCENARIO)
        assert set(part) == {name for name, metric in METRICS.items() if metric.group == group}
        np.testing.assert_equal(part, {name: values[name] for name in part})  # NaN equals NaN here


def test_names_are_those_of_the_published_values():
    published = set()
    for path in VALUES.glob("tab[6A].*.csv"):
        with path.open() as file:
            published |= {row["metric"] for row in csv.DictReader(file)}
    assert len(published) == 19
    assert published <= set(METRICS)


def test_attacks_on_attributes_need_a_scenario(tables):
    values = evaluate(*tables, SCHEMA, seed=0, groups=("privacy",))
    assert "dcr_share" in values and not any(name.startswith("ad_") for name in values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="age"), "the synthetic table has no column 'age'"),
        (
            lambda f: f.assign(income=np.nan),
            "the synthetic table has missing or infinite values in column 'income'",
        ),
        (
            lambda f: f.assign(income=np.inf),
            "the synthetic table has missing or infinite values in column 'income'",
        ),
        (
            lambda f: f.assign(city="west"),
            "column 'city' holds",
        ),
        (
            lambda f: f.assign(city=None),
            "column 'city' holds",
        ),
        (lambda f: f[:1], "the synthetic table has one row"),
        (lambda f: f[:0], "the synthetic table has no rows"),
    ],
)
def test_tables_that_cannot_be_measured_are_refused(tables, change, message):
    train, holdout, synthetic = tables
    with pytest.raises(BadInput, match=message):
        evaluate(train, holdout, change(synthetic), SCHEMA, seed=0)


def test_unknown_groups_are_refused(tables):
    with pytest.raises(BadInput, match="unknown group 'speed'"):
        evaluate(*tables, SCHEMA, seed=0, groups=("fidelity", "speed"))


# --- a misspelt column is an error everywhere ------------------------------------------------------

TABLE_MEASURES = {
    "hellinger": fidelity.hellinger,
    "hellinger_by_column": fidelity.hellinger_by_column,
    "pcd": fidelity.pairwise_correlation_difference,
    "pmse": lambda real, made, schema: fidelity.propensity_mse(real, made, schema, 0),
    "log_cluster": lambda real, made, schema: fidelity.log_cluster(real, made, schema, 0),
    "jensen_shannon": marginal_distances.jensen_shannon,
    "wasserstein": marginal_distances.wasserstein,
    "fidelity": similarity.fidelity,
    "mixing": lambda real, made, schema: similarity.mixing(real, made, schema, seed=0),
    "quality": quality.quality,
    "diagnostic": quality.diagnostic,
    "auc": lambda real, made, schema: utility.auc(made, real, schema, 0),
    "four": lambda real, made, schema: utility.four_classifiers(made, real, schema, seed=0),
    "five": lambda real, made, schema: utility.five_classifiers(made, real, schema, seed=0),
    "closest": lambda real, made, schema: attacks.closest_records(real, real, made, schema, 0),
    "singling_out": lambda real, made, schema: anonymity.singling_out(
        real, real, made, schema, mode="univariate", seed=0
    ),
    "linkability": lambda real, made, schema: anonymity.linkability(
        real, real, made, schema, known=(schema.names[:2], schema.names[2:4]), seed=0
    ),
    "inference": lambda real, made, schema: anonymity.inference(
        real, real, made, schema, secret=schema.names[0], seed=0
    ),
    "risks": lambda real, made, schema: anonymity.risks(
        real, real, made, schema, seed=0, attacks=5
    ),
    "membership": lambda real, made, schema: membership.membership(
        real, real, real, made, schema, seed=0
    ),
    "evaluate": lambda real, made, schema: evaluate(real, real, made, schema, seed=0),
}


@pytest.mark.parametrize("name", TABLE_MEASURES)
@pytest.mark.parametrize("column", ["income", "city"])
def test_a_misspelt_column_is_named_with_the_nearest(tables, name, column):
    """In the schema, and in either table alone: concatenation must not fill it with gaps."""
    train, _, synthetic = tables
    wrong = {column: f"{column}s"}
    for real, made, schema, near in (
        (train, synthetic, SCHEMA.rename(wrong), column),
        (train.rename(columns=wrong), synthetic, SCHEMA, f"{column}s"),
        (train, synthetic.rename(columns=wrong), SCHEMA, f"{column}s"),
    ):
        with pytest.raises(BadInput, match=rf"did you mean '{near}'\?"):
            TABLE_MEASURES[name](real, made, schema)


def test_a_misspelt_column_of_an_attacker_is_named_with_the_nearest(tables):
    """Silently left out, it would make an attack by fewer columns look like one by them all."""
    train, holdout, synthetic = tables
    near = r"'agee'.* \(did you mean 'age'\?\)"
    for scenario in (
        AttackScenario(("agee", "sex"), 1, "job"),
        AttackScenario(("sex", "job"), 1, "agee"),
    ):
        with pytest.raises(BadInput, match=near):
            attribute_disclosure(train, synthetic, SCHEMA, scenario, 0)
    with pytest.raises(BadInput, match=near):
        anonymity.inference(train, holdout, synthetic, SCHEMA, secret="agee", seed=0)
    with pytest.raises(BadInput, match=near):
        anonymity.linkability(train, holdout, synthetic, SCHEMA, known=(["agee"], ["sex"]), seed=0)
