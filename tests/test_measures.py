"""The registry of measures: it names everything that committed rows hold, and says it as axes do."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from fedsynth_lib.metrics import registry
from fedsynth_lib.metrics.registry import MEASURES, axis_label, base, sign
from fedsynth_lib.printed.published import WORKS

RESULTS = Path(__file__).resolve().parents[1] / "data" / "results"


def committed() -> set[str]:
    found = set()
    for path in [*RESULTS.glob("paper/*.csv"), *RESULTS.glob("quick/*.csv")]:
        with path.open(encoding="utf-8", newline="") as file:
            found |= {row["metric"] for row in csv.DictReader(file)}
    return found


def test_every_measure_of_committed_rows_has_a_label_and_a_direction():
    measured = {base(name) for name in committed()}
    assert len(measured) > 100
    assert measured <= set(MEASURES)
    for name in measured:
        assert MEASURES[name].label and MEASURES[name].better in registry.ARROWS, name


def test_works_and_groups_are_known_and_the_first_version_is_one():
    assert {measure.work for measure in MEASURES.values()} == {"", *WORKS}
    assert {measure.group for measure in MEASURES.values()} == {
        "",
        "fidelity",
        "utility",
        "privacy",
    }
    assert all(measure.version >= 1 for measure in MEASURES.values())


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("workload_error", "workload error (L1, 0 to 2) ↓"),
        ("auc_gbt", "AUC, gradient boosting ↑"),
        ("dcr_share", "share nearer to training rows"),
        ("part of ε_spent", "part of ε spent"),
    ],
)
def test_an_axis_has_label_unit_and_an_arrow_towards_better(name, label):
    assert axis_label(name) == label


def test_which_way_is_better_is_a_sign():
    names = ["fidelity", "auc_rf", "acc_real_real", "pcd", "dcr_share", "unheard of"]
    assert [sign(name) for name in names] == [1, 1, 1, -1, 0, 0]


def test_the_registry_loads_no_package():
    code = "import sys, fedsynth_lib.metrics.registry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not {"numpy", "pandas", "sklearn", "torch"} & set(loaded.stdout.split())
