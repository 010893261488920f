"""Everything between rows and pictures: the default run makes all committed figures again, from
committed rows, offline.

A copy of the project that has no figures, no real table and no cache runs as `./run_all.sh` does.
Not a cell may be computed. Tables must come out byte for byte. So do pictures where matplotlib is
the same build (its fonts come with it); elsewhere the smoothing of lines may differ, so they are
compared within TOLERANCE, and how many are equal to the byte is printed (pytest -s). What cannot
come out so is listed below, with its reason. Pictures of lessons, which compute live, are not
committed.
"""

import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsynth_lib.bundle.report_pages import NO_KERNEL

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-3  # the share of a picture's pixels that may differ by more than VISIBLE
VISIBLE = 16  # of 255
MADE_ELSEWHERE = {  # not made again by such a run: pattern -> reason
    "30_spikes.*": "shares of single values among the real rows of Adult, offline those of a "
    "stand-in",
    "leitner2023_fig4.2.png": "ages of the real rows of Adult, offline those of a stand-in",
    "martinez2024_fig5.[1-4].png": "notebook 01 divides the real rows, offline those of a stand-in",
    "01_data_and_partitions_*.png": "notebook 01 shows the real rows, offline those of a stand-in",
}


def made_elsewhere(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in MADE_ELSEWHERE)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, str]:
    """The project folder in which all notebooks were run, and what the runner said."""
    home = tmp_path_factory.mktemp("oracle")
    for entry in ROOT.iterdir():
        if entry.name not in ("data", "figures", "notebooks") and not entry.name.startswith("."):
            (home / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "notebooks", home / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(
        ROOT / "data",
        home / "data",
        ignore=shutil.ignore_patterns("raw", "cache", "*-standin", "*-own"),
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("FEDSYNTH_")}
    env |= {"FEDSYNTH_HOME": str(home), "PYTHONPATH": str(ROOT), "NO_PROXY": ""}
    # nobody
    env |= dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"
    )
    command = [sys.executable, "-P", "-m", "fedsynth_lib.bundle.runner"]
    done = subprocess.run(
        command,
        env=env,
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=2700,
    )
    return home, done.stdout


def committed(*kinds: str) -> list[str]:
    """The names of committed figures of these kinds."""
    listing = subprocess.run(
        ["git", "ls-files", "figures"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [Path(line).name for line in listing.stdout.splitlines() if line.endswith(kinds)]


def made(home: Path, *kinds: str) -> set[str]:
    return {path.name for path in (home / "figures").glob("*.*") if path.name.endswith(kinds)}


def test_the_report_is_built(run):
    home, said = run
    page = home / "figures" / "report" / "index.html"
    assert f"The report: {page}" in said and page.exists(), said


def test_no_cell_is_computed(run):
    home, said = run
    last = json.loads((home / "figures" / "runs" / "last.json").read_text(encoding="utf-8"))
    wrong = {stem: own["status"] for stem, own in last.items() if own["status"] != "ok"}
    computed = {stem: own["computed"] for stem, own in last.items() if own["computed"]}
    assert last and not wrong and not computed, f"{wrong} {computed}\n{said}"
    for path in (ROOT / "data" / "results").glob("[pq]*/*.csv"):
        again = home / path.relative_to(ROOT)
        assert again.read_bytes() == path.read_bytes(), path.name


def test_every_committed_file_is_made_again(run):
    home, _ = run
    kept, again = committed("csv", "md", "png"), made(home, "csv", "md", "png")
    assert not [name for name in kept if name not in again and not made_elsewhere(name)]
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin"],
        input="".join(f"figures/{name}\n" for name in sorted(again)),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    lessons = {Path(line).name for line in ignored.stdout.splitlines()}
    assert not sorted(again - set(kept) - lessons), "made, and not committed"


def test_no_notebook_shows_a_warning_but_that_data_are_no_real_ones(run):
    home, _ = run
    shown = {}
    for path in (home / "figures" / "executed" / "paper").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [each for cell in cells for each in cell.get("outputs", [])]
        lines = "".join(line for each in outputs for line in each.get("text", [])).splitlines()
        found = [line for line in lines if "Warning: " in line and "StandInWarning" not in line]
        shown |= {path.stem: found} if found else {}
    assert not shown


def test_what_a_slider_shows_is_an_output_of_its_cell(run):
    """Never messages to a widget, for which papermill may wait for ever."""
    home, _ = run
    path = home / "figures" / "executed" / "paper" / "80_playground.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = (c for c in notebook["cells"] if "playground.controls(" in "".join(c["source"]))
    assert [o for o in cell["outputs"] if "image/png" in o.get("data", {})]
    ((_, kept),) = notebook["metadata"]["widgets"].items()
    assert not [w for w in kept["state"].values() if w["state"].get("outputs")]
    page = home / "figures" / "report" / "notebooks" / "80_playground.html"
    text = page.read_text(encoding="utf-8")
    assert NO_KERNEL in text and "interactive(children" not in text


def test_tables_come_out_to_the_byte(run):
    home, _ = run
    again = made(home, "csv", "md")
    assert not [
        name
        for name in committed("csv", "md")
        if name in again
        and (home / "figures" / name).read_bytes() != (ROOT / "figures" / name).read_bytes()
    ]


def test_pictures_come_out_to_the_pixel(run):
    home, _ = run
    equal, apart, again = 0, {}, made(home, "png")
    names = [name for name in committed("png") if name in again]
    for name in names:
        before, after = (folder / "figures" / name for folder in (ROOT, home))
        if before.read_bytes() == after.read_bytes():
            equal += 1
        elif (gap := difference(before, after)) > TOLERANCE:
            apart[name] = round(gap, 5)
    print(f"{equal} of {len(names)} pictures are equal to the byte")
    assert not apart


def difference(one: Path, other: Path) -> float:
    """The share of pixels that differ by more than VISIBLE in a colour; 1 where the sizes
    differ."""
    first, second = (
        np.asarray(Image.open(path).convert("RGB"), dtype=int) for path in (one, other)
    )
    return (
        1.0
        if first.shape != second.shape
        else float((np.abs(first - second).max(axis=2) > VISIBLE).mean())
    )


@pytest.mark.parametrize("pattern", MADE_ELSEWHERE)
def test_the_list_names_what_there_is(pattern):
    assert any(fnmatch(name, pattern) for name in committed("csv", "md", "png"))
