"""What a cell's version names, held against every committed cell: nothing that is added may make
one of them stale."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from fedsynth_lib import methods
from fedsynth_lib.bundle.recompute import computed_by
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import names
from fedsynth_lib.runs.rows import cell_key, read_params
from fedsynth_lib.works import (
    load,
    membership_study,
    side_by_side,
    tuning,
)
from fedsynth_lib.works.declared import Method

RESULTS = Path(__file__).resolve().parents[1] / "data" / "results"
COLUMNS = ["cell", "method", "version", "params", "metric"]


STUDIES = (membership_study, side_by_side, tuning)
BY_METHOD = ("measure", "positives")  # rest on a method


def version_of(grid):
    """The function that says the version of a cell of this grid; None for grids of tables, which
    rest on no method."""
    module, _, function = computed_by(grid).partition(":")
    if not function:  # a work declares it
        work, _, kind = module.partition(".")
        declared = load(work).kind(kind) if work else None
        measured = declared and (declared.measured or declared.measured_by)
        return partial(load(work).version, kind) if measured else None
    study = next((each for each in STUDIES if each.__name__ == module), None)
    return study.version if study and function in BY_METHOD else None


@pytest.fixture(scope="module")
def committed():
    """A line for each committed cell: profile and grid, cell, version, its settings, and the
    measures of its rows."""
    frames = []
    for path in sorted(
        path for profile in ("paper", "quick") for path in (RESULTS / profile).glob("*.csv")
    ):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, usecols=COLUMNS)
        measures = frame["metric"].map(
            {name: names.base(name) for name in frame["metric"].unique()}
        )
        cells = (
            measures.groupby(frame["cell"], sort=False)
            .agg(frozenset)
            .rename("measures")
            .reset_index()
        )
        first = frame.drop_duplicates("cell")[["cell", "version", "params"]]
        frames.append(
            first.merge(cells, on="cell").assign(grid=path.stem, profile=path.parent.name)
        )
    table = pd.concat(frames, ignore_index=True)
    table = table[[version_of(grid) is not None for grid in table["grid"]]].reset_index(drop=True)
    return table.assign(settings=[read_params(text) for text in table["params"]])


def versions(committed):
    return [
        version_of(grid)(cell)
        for grid, cell in zip(committed["grid"], committed["settings"], strict=True)
    ]


@pytest.mark.slow
def test_versions_of_committed_cells_are_those_that_their_studies_give_them_now(committed):
    assert len(committed) > 1000
    differing = committed[committed["version"] != pd.Series(versions(committed))]
    assert differing[["grid", "cell", "version"]].to_numpy().tolist() == []


@pytest.mark.slow
def test_a_measure_a_name_and_a_method_that_are_added_change_no_cell(committed, monkeypatch):
    monkeypatch.setitem(names.MEASURES, "sharpness", 3)
    monkeypatch.setattr(names, "METHODS", (*names.METHODS, "Sharper"))
    monkeypatch.setitem(methods.METHODS, "sharper", SimpleNamespace(VERSION=7))
    monkeypatch.setitem(load("maddock2024").methods, "Sharper", Method("sharper"))
    assert names.is_metric("sharpness_low") and names.is_method("Sharper")
    now = versions(committed)
    assert now == committed["version"].tolist()
    assert [cell_key(*pair) for pair in zip(committed["params"], now, strict=True)] == committed[
        "cell"
    ].tolist()
    assert load("maddock2024").version("run", {"method": "Sharper"}) == "sharper 7"


@pytest.mark.slow
@pytest.mark.parametrize(
    "measure", ["hellinger", "workload_error", "risk", "pearson", "log_cluster", "js_divergence"]
)
def test_a_later_version_of_a_measure_changes_exactly_the_cells_that_measure_it(
    committed, monkeypatch, measure
):
    monkeypatch.setitem(names.MEASURES, measure, names.MEASURES[measure] + 1)
    changed = committed["version"] != pd.Series(versions(committed))
    measured = committed["measures"].map(lambda own: measure in own)
    assert measured.any() and not measured.all()
    assert committed[changed != measured]["grid"].unique().tolist() == []


@pytest.mark.slow
def test_every_measure_of_a_study_is_named_in_its_cells_version(committed, monkeypatch):
    """But for notebooks that have no study and say the version themselves: sizes of tables, draws
    of divisions."""
    studied = committed[~committed["grid"].str[:2].isin(["30", "40"])].reset_index(drop=True)
    for measure in set().union(*studied["measures"]):
        monkeypatch.setitem(names.MEASURES, measure, 9)
    for cell, own, now in zip(studied["cell"], studied["measures"], versions(studied), strict=True):
        assert {f"{measure} 9" for measure in own} <= set(now.split(", ")), cell


def test_a_measure_in_its_first_version_is_not_named(monkeypatch):
    assert (
        names.version("aim", ["workload_error", "risk"]) == f"aim {methods.METHODS['aim'].VERSION}"
    )
    assert names.version("", ["risk"]) == "1"
    monkeypatch.setitem(names.MEASURES, "risk", 3)
    monkeypatch.setitem(names.MEASURES, "fidelity", 2)
    assert (
        names.version("", ["risk_low", "risk_high", "risk", "pcd", "fidelity"])
        == "1, fidelity 2, risk 3"
    )
    with pytest.raises(
        BadInput,
        match=r"the measure 'beauty' is unknown: list it in "
        r"fedsynth_lib/metrics/measures\.toml",
    ):
        names.version("aim", ["beauty"])


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("risk_high", "risk"),
        ("dcr_share_low", "dcr_share"),
        ("synthetic_share", "synthetic_share"),
        ("x_low", "x"),
    ],
)
def test_an_interval_belongs_to_its_measure(name, measure):
    assert names.base(name) == measure
    assert names.is_metric(name) == (measure != "x")


def test_methods_are_known_by_key_by_printed_name_and_once_registered(monkeypatch):
    assert (
        names.is_method("Fed-TGAN") and names.is_method("augflaim_private") and names.is_method("")
    )
    assert not names.is_method("nobody_has_it")
    monkeypatch.setitem(methods.METHODS, "nobody_has_it", SimpleNamespace(VERSION=1))
    assert names.is_method("nobody_has_it")
