"""`evaluate` and the list of measures: names, groups, refusals."""

import csv
from pathlib import Path

import numpy as np
import pytest
from mixed_table import SCHEMA, mixed

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.attacks import AttackScenario
from fedsynth_lib.metrics.evaluation import evaluate
from fedsynth_lib.metrics.registry import METRICS

SCENARIO = AttackScenario(("age", "sex"), 2, "owner")
VALUES = Path(__file__).parents[1] / "data" / "published" / "values" / "martinez2024"


@pytest.fixture(scope="module")
def tables():
    return mixed(700, seed=1), mixed(200, seed=2), mixed(700, seed=3)


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
        (lambda f: f.drop(columns="age"), "synthetic rows: column 'age' is missing"),
        (
            lambda f: f.assign(income=np.nan),
            "synthetic rows: column 'income' has missing or infinite values",
        ),
        (
            lambda f: f.assign(income=np.inf),
            "synthetic rows: column 'income' has missing or infinite values",
        ),
        (
            lambda f: f.assign(city="west"),
            "synthetic rows: column 'city' has missing or undeclared categories",
        ),
        (
            lambda f: f.assign(city=None),
            "synthetic rows: column 'city' has missing or undeclared categories",
        ),
        (lambda f: f[:1], "synthetic rows: there are 1; at least two"),
    ],
)
def test_tables_that_cannot_be_measured_are_refused(tables, change, message):
    train, holdout, synthetic = tables
    with pytest.raises(BadInput, match=message):
        evaluate(train, holdout, change(synthetic), SCHEMA, seed=0)


def test_unknown_groups_are_refused(tables):
    with pytest.raises(BadInput, match="unknown group 'speed'"):
        evaluate(*tables, SCHEMA, seed=0, groups=("fidelity", "speed"))
