"""Speed of the measures on real Adult rows, as ratios to the peer in one run: pytest -m bench.

They need the real table (FEDSYNTH_MIRROR or data/raw) and a machine that does nothing else.
"""

import time

import numpy as np
import pytest
from dython.nominal import associations as dython_associations
from mixed_table import independent_columns

from fedsynth_lib import metrics
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.tables import load_table, split

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def adult():
    return split(load_table("adult", work="martinez2024"), seed=0)


def seconds(work, repeats):
    """Median wall time of `work`, after one call that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def test_associations_against_dython(adult, capsys):
    frame, schema = adult[0].frame, adult[0].schema

    def peer():
        return dython_associations(frame, nominal_columns=list(schema.categorical), compute_only=True)["corr"]

    ours = seconds(lambda: fidelity.associations(frame, schema), 7)
    theirs = seconds(peer, 5)
    np.testing.assert_allclose(fidelity.associations(frame, schema), peer().to_numpy(float), atol=1e-8)
    with capsys.disabled():
        print(f"\nassociations, {len(frame):,} rows: ours {ours:.4f} s, dython {theirs:.3f} s: {theirs / ours:.0f} x")
    assert theirs / ours > 5


def test_the_complete_set_takes_ten_seconds(adult, capsys):
    train, holdout = adult
    synthetic = independent_columns(train.frame)
    scenario = metrics.SCENARIOS["adult"]

    def everything():
        return metrics.evaluate(train.frame, holdout.frame, synthetic, train.schema, seed=0, scenario=scenario)

    taken = seconds(everything, 3)
    with capsys.disabled():
        print(f"\ncomplete set, {len(train.frame):,} x {len(synthetic):,} rows: {taken:.1f} s")
    assert taken < 10
