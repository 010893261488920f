"""Ours beside peers' own tools on the same inputs: Google's dp-accounting, NIST's SDNist, mbi.

What theirs say lies in parity.json, with their versions; .ci/parity.py makes it, in environments of
their own. dython's associations and mbi's estimation are compared with in test_fidelity.py and in
test_graphical_model_peers.py.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mixed_table import SCHEMA, mixed

from fedsynth_lib.core import accounting
from fedsynth_lib.core.contract import Charge, Privacy
from fedsynth_lib.metrics import k_marginal, range_queries
from fedsynth_lib.metrics.workload import marginal, workload_error
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import field

# --- inputs; .ci/parity.py reads them from here ---

DELTA = 1e-5
RELEASES = {  # name -> (mechanism, noise as in Charge, sampling rate, times) of each release
    "a Gaussian sum": [("gaussian", 3.0, 1.0, 1)],
    "many Gaussian sums": [("gaussian", 40.0, 1.0, 150), ("gaussian", 9.0, 1.0, 4)],
    "sampled gradients": [("gaussian", 1.1, 0.02, 1000)],
    "sampled gradients, twice": [("gaussian", 1.5, 0.05, 300), ("gaussian", 3.0, 0.2, 100)],
    "sampled gradients after sums": [("gaussian", 2.0, 0.1, 200), ("gaussian", 8.0, 1.0, 3)],
    "whole-number Laplace counts": [("laplace", 12.0, 1.0, 20)],
    "counts and sums": [("laplace", 5.0, 1.0, 2), ("gaussian", 6.0, 1.0, 5)],
    "counts, sums and gradients": [
        ("laplace", 8.0, 1.0, 1),
        ("gaussian", 10.0, 1.0, 2),
        ("gaussian", 2.0, 0.05, 400),
    ],
}
ORDERS = range(2, 64)  # at which Renyi DP is compared: between whole ones theirs is not exact
LEVELS = (7, 4, 11, 3, 2)
QUERIES = [(0,), (2,), (0, 1), (2, 4), (1, 2, 3), (0, 2, 4), (0, 1, 2, 3)]
RANGES = {(0,): [(2, 5)], (2, 4): [(3, 8), (1, 1)], (0, 1, 2): [(0, 3), (1, 2), (5, 10)]}

AREAS = ("n", "s", "w")
NIST = Schema((Column("PUMA", "categorical", categories=AREAS), *SCHEMA.columns))
GAP, PAY = "N", (-500, 90_000)


def tables_of_codes():
    """Two tables of codes with dependent columns, the second one shorter."""
    rng, made = np.random.default_rng(7), []
    for rows in (1_500, 700):
        kind = rng.integers(0, 3, rows)
        made.append(np.stack([(rng.poisson(1 + 2 * kind)) % each for each in LEVELS], axis=1))
    return made


def excerpts(beyond):
    """A target and a synthetic table in the form of NIST's excerpts: an area, categories, numbers,
    and one with gaps. beyond: whether synthetic numbers leave the target's range."""
    made = []
    for seed, rows in ((1, 900), (2, 600)):
        rng, frame = np.random.default_rng(seed), mixed(rows, seed=seed)
        frame["PUMA"] = pd.Categorical.from_codes(rng.integers(0, 3, rows), AREAS)
        frame["gain"] = rng.integers(0, 15, rows)
        frame["income"], frame["hours"] = frame["income"].astype(int), frame["hours"].astype(int)
        pay = (rng.normal(30_000, 15_000, rows) + 200 * frame["age"]).astype(int)
        frame["pay"] = np.where(rng.random(rows) < 0.2, GAP, pay.clip(*PAY).astype(str))
        made.append(frame)
    if not beyond:
        for name in ("age", "income", "hours"):
            made[1][name] = made[1][name].clip(made[0][name].min(), made[0][name].max())
        known = made[0]["pay"][made[0]["pay"] != GAP].astype(int)
        inside = made[1]["pay"].where(made[1]["pay"] == GAP, None)
        numbers = pd.to_numeric(made[1]["pay"], errors="coerce").clip(known.min(), known.max())
        made[1]["pay"] = inside.fillna(numbers.fillna(0).astype(int).astype(str))
    return made


# --- the comparisons ---


@pytest.fixture(scope="module")
def theirs():
    return json.loads((Path(__file__).parent / "parity.json").read_text(encoding="utf-8"))


def charges(name):
    return [
        Charge("what", mechanism, noise, rate=rate, times=times)
        for mechanism, noise, rate, times in RELEASES[name]
    ]


@pytest.mark.parametrize("name", RELEASES)
def test_epsilon_is_that_of_dp_accounting(name, theirs):
    """Both compose losses on a grid and round up, theirs at 1e-4."""
    ours = accounting.epsilon_of(charges(name), DELTA)
    assert ours == pytest.approx(theirs["dp-accounting"]["epsilon"][name], rel=1e-3)


@pytest.mark.parametrize("name", [name for name in RELEASES if "ounts" not in name])
def test_renyi_epsilon_is_that_of_dp_accounting(name, theirs):
    """At the same orders. Its curve of Laplace noise is that of real numbers, ours of whole ones,
    which is larger: those have no such figure."""
    curve = sum(accounting.rdp(charge, np.array(ORDERS)) for charge in charges(name))
    ours = accounting.rdp_to_epsilon(curve, DELTA, np.array(ORDERS))
    assert ours == pytest.approx(theirs["dp-accounting"]["renyi"][name], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in RELEASES if len(RELEASES[name]) == 1])
def test_noise_for_an_epsilon_of_dp_accounting_is_the_noise_it_was_asked_about(name, theirs):
    ((mechanism, asked, rate, times),) = RELEASES[name]
    plan = lambda noise: [Charge("what", mechanism, noise, rate=rate, times=times)]  # noqa: E731
    privacy = Privacy(theirs["dp-accounting"]["epsilon"][name], DELTA)
    assert accounting.calibrate(plan, privacy) == pytest.approx(asked, rel=1e-3)


def test_marginals_and_their_errors_are_those_of_mbi(theirs):
    real, made = tables_of_codes()
    for query, counts in zip(QUERIES, theirs["mbi"]["marginals"], strict=True):
        assert marginal(real, LEVELS, query).tolist() == counts
    ours = workload_error(real, made, LEVELS, QUERIES)
    assert ours == pytest.approx(theirs["mbi"]["workload error"], abs=1e-12)


def test_range_queries_are_sums_of_mbis_marginals(theirs):
    names = [f"column {place}" for place in range(len(LEVELS))]
    schema = Schema(
        tuple(
            Column(name, "numeric", low=0, high=number - 1, integer=True)
            for name, number in zip(names, LEVELS, strict=True)
        )
    )
    frame = pd.DataFrame(tables_of_codes()[0], columns=names)
    queries = [
        [(names[place], *ends) for place, ends in zip(query, ranges, strict=True)]
        for query, ranges in RANGES.items()
    ]
    found = range_queries.shares(frame, schema, queries)
    assert found == pytest.approx(theirs["mbi"]["shares in ranges"], abs=1e-12)
    assert 0.01 < found.min() < found.max() < 0.9


@pytest.mark.parametrize("beyond", [False, True])
def test_k_marginal_is_that_of_sdnist(beyond, theirs):
    """Over the pairs of columns without gaps."""
    target, made = excerpts(beyond)
    ours = k_marginal.k_marginal(target, made, SCHEMA)
    score = theirs["sdnist"]["score, beyond the target" if beyond else "score"]
    assert ours == pytest.approx(score, abs=1e-9) and 500 < score < 980


@pytest.mark.parametrize("beyond", [False, True])
def test_k_marginal_within_areas_is_that_of_sdnist(beyond, theirs):
    """Pairs within each area, with a number that has gaps, as 73 scores all columns."""
    pay = FileColumn("pay", "numeric", *PAY, missing=(GAP,))
    form = Form((*Form.of(NIST).columns, pay))
    whole, other = (form.to_model(frame[[*NIST.names, "pay"]], "toy") for frame in excerpts(beyond))
    target, made = field.with_nan(whole, form), field.with_nan(other, form)
    area = target["PUMA"].cat.codes.to_numpy()
    prepared = field.Areas(Table("toy", whole, form.schema, "own"), area, target, form)
    score = theirs["sdnist"]["within areas" + (", beyond the target" if beyond else "")]
    assert prepared.score(made) == pytest.approx(score, abs=1e-9) and 300 < score < 900
