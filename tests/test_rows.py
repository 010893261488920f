"""Rows: what a cell was asked for as one text, its key, and result files that cannot be read by
mistake."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs import rows
from fedsynth_lib.runs.rows import (
    COLUMNS,
    cell_key,
    load_rows,
    params_text,
    read_params,
    save_rows,
    to_frame,
    with_params,
)

pytestmark = pytest.mark.usefixtures("home")

RESULTS = Path(__file__).resolve().parents[1] / "data" / "results"


# --- params --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"seed": 3, "dataset": "adult"}, '{"dataset":"adult","seed":3}'),
        ({"b": None, "c": False, "d": "", "e": [], "f": {}, "g": (), "a": 0}, '{"a":0}'),
        ({"epsilon": 1.0, "beta": 0.10}, '{"beta":0.1,"epsilon":1}'),
        ({"epsilon": math.inf}, '{"epsilon":"inf"}'),
        ({"n": np.int64(3), "x": np.float64(0.5), "y": np.float32(2.0)}, '{"n":3,"x":0.5,"y":2}'),
        ({"on": True, "off": np.bool_(False)}, '{"on":true}'),
        (
            {"changes": {"hidden": (128, 64.0), "clip": None}},
            '{"changes":{"clip":null,"hidden":[128,64]}}',
        ),
        ({"name": "Málaga"}, '{"name":"Málaga"}'),
        ({}, "{}"),
    ],
)
def test_equal_settings_are_one_text(settings, text):
    assert params_text(settings) == text
    assert params_text(dict(reversed(settings.items()))) == text


def test_settings_that_are_no_plain_values_are_refused():
    with pytest.raises(BadInput, match="settings must be numbers, texts, lists or dicts"):
        params_text({"frame": pd.DataFrame({"x": [1]})})
    with pytest.raises(BadInput, match="settings must be numbers"):
        params_text({"x": math.nan})


def test_params_are_read_back_as_typed_columns():
    assert read_params('{"epsilon":"inf","rounds":10}') == {"epsilon": math.inf, "rounds": 10}
    assert read_params("") == {}
    frame = to_frame(
        [
            {"params": '{"beta":0.1,"rounds":10}'},
            {"params": '{"rounds":"annealed"}'},
            {"params": ""},
        ]
    )
    found = with_params(frame, rounds=0, beta=None, scheme="")
    assert found["rounds"].tolist() == [10, "annealed", 0]
    assert found["beta"].iloc[0] == 0.1 and found["beta"].iloc[1:].isna().all()
    assert found["scheme"].tolist() == ["", "", ""]


def test_a_key_is_the_start_of_sha_256_of_version_and_params():
    # printf 'fedbn 1\n{"dataset":"adult","seed":7}' | sha256sum
    assert cell_key('{"dataset":"adult","seed":7}', "fedbn 1") == "cfb441feb6d84024bc6e"
    assert cell_key('{"dataset":"adult","seed":7}', "fedbn 2") != "cfb441feb6d84024bc6e"


# --- committed files -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    sorted(path for profile in ("quick", "paper") for path in (RESULTS / profile).glob("*.csv")),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_committed_files_load_and_are_as_a_run_would_write_them(path):
    """Loading holds every cell against its params and version."""
    frame = load_rows(path)
    assert len(frame) and set(frame["profile"]) == {path.parent.name}
    assert (frame["cell"] != "").all() and set(frame["data"]) <= {"real", "none"}
    content = frame.sort_values(rows.SORTED_BY, kind="stable").to_csv(
        index=False, lineterminator="\n"
    )
    assert content == path.read_text(encoding="utf-8")


# --- bad input -----------------------------------------------------------------------------------


def cell(seed, method="fedbn", **others):
    params = params_text({"seed": seed})
    shared = {
        "data": "none",
        "profile": "quick",
        "method": method,
        "params": params,
        "version": "fedbn 1",
    }
    return [
        {
            **shared,
            "cell": cell_key(params, "fedbn 1"),
            "metric": metric,
            "seed": seed,
            "value": 0.5,
            **others,
        }
        for metric in ("hellinger", "pcd")
    ]


def written(name, frame=None):
    """A result file of two cells, four lines under its head."""
    return save_rows(
        to_frame([*cell(1), *cell(2)]) if frame is None else frame, name=name, profile="quick"
    )


def edited(path, line, column, text):
    """Put another text into a column of a line (2 is the first under the head)."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.loc[line - 2, column] = text
    frame.to_csv(path, index=False)


@pytest.fixture
def noted():
    """A function that takes the bytes of a file as meant."""
    return lambda path: rows.note_digests([path])


def refused(path):
    with pytest.raises(BadInput) as error:
        load_rows(path)
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(path), "FILE")


DAMAGED = (
    "FILE is not a whole result file: restore it (git checkout), or remove it and run its notebook "
    "again."
)


@pytest.mark.parametrize("line", [2, 4, 5])
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: ",".join(text.split(",")[:4]),  # cut off
        lambda text: text.rpartition(",")[0],  # the last field is lost
        lambda text: text + ",more",
    ],
)
def test_a_line_with_too_few_or_too_many_fields_is_refused(noted, line, damage):
    path = written("20_grid")
    lines = path.read_text().splitlines()
    lines[line - 1] = damage(lines[line - 1])
    path.write_text("\n".join(lines) + "\n")
    noted(path)
    assert refused(path).startswith("FILE")


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [
        *((column, text, DAMAGED) for column, text in [("value", "high"), ("seed", "one")]),
        *((column, text, DAMAGED) for column, text in [("seed", "1.5"), ("n_clients", "inf")]),
        ("metric", "", DAMAGED),
        ("cell", "abc", "FILE: the cell 'abc' is not that of its params and version: restore"),
        ("method", "fedbnn", "FILE: the method 'fedbnn' is unknown: correct it, or list it in "),
        ("metric", "hellinge", "FILE: the metric 'hellinge' is unknown: correct it, or list it"),
        *(
            (column, text, "is not that of its params and version")
            for column, text in [("params", '{"seed":3}'), ("version", "fedbn 2"), ("params", "{")]
        ),
    ],
)
def test_a_line_that_no_run_wrote_is_refused(noted, column, text, said):
    path = written("20_grid")
    edited(path, 4, column, text)
    assert "has changed since a run wrote it" in refused(path)
    noted(path)
    assert said in refused(path)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_files_that_are_none_of_ours_are_refused(noted, text):
    path = written("20_grid")
    path.write_text(text)
    noted(path)
    assert refused(path) == DAMAGED


@pytest.mark.parametrize(("column", "what"), [("method", "fedbnn"), ("metric", "hellinge")])
def test_names_are_free_in_grids_of_ones_own(column, what):
    own = written("my_grid", to_frame(cell(1, **{column: what})))
    assert set(load_rows(own)[column]) == {what}


def test_rows_without_a_cell_and_columns_of_todays_types_are_read():
    frame = to_frame(
        [
            {
                "data": "none",
                "profile": "quick",
                "metric": "hellinger",
                "value": 1.0,
                "item": 'a "b", c',
            }
        ]
    )
    found = load_rows(written("20_grid", frame))
    pd.testing.assert_frame_equal(found, frame)
    assert list(found) == COLUMNS


def test_a_file_that_changed_is_read_anew_and_a_callers_frame_is_its_own():
    path = written("20_grid")
    load_rows(path)["value"] = 9.0
    assert set(load_rows(path)["value"]) == {0.5}
    save_rows(to_frame(cell(3)), name="20_grid", profile="quick")
    assert len(load_rows(path)) == 6


# --- digests --------------------------------------------------------------------------------------


def test_every_committed_file_has_its_digest_noted_and_no_other():
    noted = rows.digests()
    folder = rows.project_root() / "data" / "results"
    assert set(noted) == {path.relative_to(folder).as_posix() for path in rows.committed_files()}
    for path in rows.committed_files():
        rows.check_digest(path)


@pytest.mark.parametrize("profile", ["paper", "quick"])
def test_a_value_edited_by_hand_is_noticed_at_load_until_it_is_noted(home, profile):
    path = save_rows(one_row(profile=profile), name="g", profile=profile)
    load_rows(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("0.25", "0.26"), encoding="utf-8")
    with pytest.raises(BadInput, match=f"^{path} has changed since a run wrote it.*digests"):
        load_rows(path)
    rows.note_digests([path])
    assert load_rows(path)["value"].item() == 0.26
    path.unlink()
    rows.note_digests([])
    assert rows.digests() == {}


def test_rows_that_are_not_committed_are_not_noted(home):
    path = save_rows(one_row(data="own"), name="g", profile="quick")
    assert path.parent.name == "quick-own" and rows.digests() == {}


@pytest.mark.slow
def test_files_written_at_the_same_time_are_all_noted(home):
    from concurrent.futures import ThreadPoolExecutor

    def write(number):
        return save_rows(one_row(), name=f"g{number}", profile="quick")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))
    assert len(rows.digests()) == 16


def one_row(profile="quick", data="real"):
    labels = {"profile": profile, "cell": rows.cell_key("", ""), "params": "", "version": ""}
    return to_frame(rows.complete({"data": data, "m": 0.25}, labels))
