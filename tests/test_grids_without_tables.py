"""No grid that a study lists loads a table whose digest is locked, where loading fails. Of declared
grids tests/test_works.py says so."""

import pytest

from fedsynth_lib.runs.names import YARDSTICKS
from fedsynth_lib.tables import load as loading
from fedsynth_lib.tables import lock
from fedsynth_lib.works import declared, membership_study, side_by_side, tuning

STUDIES = (membership_study, side_by_side, lock, tuning, declared)


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    """Every way to a table fails, and none is remembered from an earlier test."""
    monkeypatch.delenv("FEDSYNTH_DATA", raising=False)
    for module in (*STUDIES, loading):
        if hasattr(module, "load_table"):
            monkeypatch.setattr(
                module, "load_table", lambda key, **_: pytest.fail(f"{key} was loaded")
            )
        if hasattr(module, "prepared"):
            module.prepared.cache_clear()


def common(profile):
    size, methods = side_by_side.SIZES[profile], [*side_by_side.ENTRANTS, *YARDSTICKS]
    return side_by_side.cells(
        size, side_by_side.DATASETS, methods, epsilon=list(side_by_side.EPSILONS)
    )


def attacked(profile):
    return membership_study.cells(profile, ["adult", "bank"], [*side_by_side.ENTRANTS, *YARDSTICKS])


def searches(profile):
    size, datasets = tuning.SIZES[profile], ["adult", "bank", "cardio"]
    return [c for m in tuning.MODELS for c in tuning.cells(m, datasets, size, seed=7)]


@pytest.mark.parametrize("profile", ["quick", "paper"])
@pytest.mark.parametrize("grid", [common, attacked, searches])
def test_cells_name_their_tables_unloaded(grid, profile):
    cells = grid(profile)
    locked = {entry["digest"] for entry in lock._locked().values()}
    assert len(cells) > 5 and {cell["table"] for cell in cells} <= locked
