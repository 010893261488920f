"""Speed of the measures on real Adult rows, as ratios to the peer in one run: pytest -m bench.

They need the real table (FEDSYNTH_MIRROR or data/raw) and, for the seconds to mean anything, a
machine that does nothing else.
"""

import time

import numpy as np
import pytest
from dython.nominal import associations as dython_associations
from mixed_table import independent_columns
from timing import report, seconds

from fedsynth_lib.metrics import attacks, fidelity
from fedsynth_lib.metrics.evaluation import evaluate
from fedsynth_lib.tables.load import load_table, split

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def adult():
    return split(load_table("adult", work="martinez2024"), seed=0)


def test_associations_against_dython(adult, capsys):
    frame, schema = adult[0].frame, adult[0].schema

    def peer():
        return dython_associations(
            frame, nominal_columns=list(schema.categorical), compute_only=True
        )["corr"]

    ours = seconds(lambda: fidelity.associations(frame, schema), 7, warm=True)
    theirs = seconds(peer, 5, warm=True)
    np.testing.assert_allclose(
        fidelity.associations(frame, schema), peer().to_numpy(float), atol=1e-8
    )
    report(capsys, f"associations, {len(frame):,} rows", ours, theirs, "dython")
    assert theirs / ours > 5


def test_the_complete_set_takes_ten_seconds_on_two_cores(adult, capsys):
    train, holdout = adult
    synthetic = independent_columns(train.frame)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    evaluate(
        train.frame,
        holdout.frame,
        synthetic,
        train.schema,
        seed=0,
        scenario=attacks.SCENARIOS["adult"],
    )
    wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    with capsys.disabled():
        print(
            f"\ncomplete set, {len(train.frame):,} x {len(synthetic):,} rows: {wall:.1f} s "
            f"({cpu:.1f} s of cores)"
        )
    assert cpu < 2 * 10  # processor time, so that other work on the machine does not count
