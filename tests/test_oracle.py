"""Everything between rows and pictures: the notebooks make all committed figures again, from
committed rows, offline.

A copy of the project that has no figures, no real table and no cache runs as `./run_all.sh
--profile quick` does, and `--profile paper` for the notebooks that have committed figures there.
Not a cell may be computed. Tables must come out byte for byte. So do pictures where matplotlib is
the same build (its fonts come with it); elsewhere the smoothing of lines may differ, so they are
compared within TOLERANCE, and how many are equal to the byte is printed (pytest -s). What cannot
come out so is listed below, with its reason.
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

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = {  # by profile; of `paper` those whose rows are committed in full
    "quick": "",
    "paper": "01,20,21,22,23,24,25,26,27,30,31,32,33,34,35,40,41,42,43,44,45,46,50,51,52,60,61,62,63,64,65,66,73",
}
TOLERANCE = 1e-3  # the share of a picture's pixels that may differ by more than VISIBLE
VISIBLE = 16  # of 255
PICTURES_APART = {  # of which only that they are made is asked: pattern -> reason
    "quick/0[0-3]_*.png": "lessons run live; another processor or number of threads changes the "
    "order of sums",
    "quick/1[0-6]_*.png": "lessons train live; another processor or number of threads changes the "
    "order of sums",
}
MADE_ELSEWHERE = {  # not made again by such a run: pattern -> reason
    "quick/0[0-3]_*.png": "lessons show rows of the real table, which offline is a stand-in",
    "quick/1[0-6]_*.png": "lessons train on the real table on the spot, offline on a stand-in",
    "quick/80_playground_*.png": "trains on the real table on the spot, offline on a stand-in",
    "quick/30_spikes.*": "shares of single values among the real rows of Adult, offline those of "
    "a stand-in",
    "quick/leitner2023_fig4.2.png": "ages of the real rows of Adult, offline those of a stand-in",
    "paper/30_spikes.*": "shares of single values among the real rows of Adult, offline those of "
    "a stand-in",
    "paper/leitner2023_fig4.2.png": "ages of the real rows of Adult, offline those of a stand-in",
    "quick/martinez2024_fig5.[1-4].png": "notebook 01 divides the real rows, offline those of a "
    "stand-in",
}


def listed(name: str, reasons: dict[str, str]) -> bool:
    """Whether `<profile>/<file>` is one of those with a reason."""
    return any(fnmatch(name, pattern) for pattern in reasons)


@pytest.fixture(scope="module", params=list(NOTEBOOKS))
def run(request, tmp_path_factory) -> tuple[str, Path, str]:
    """A profile, the project folder in which it was run, and what the runner said."""
    profile, home = request.param, tmp_path_factory.mktemp("oracle")
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
    chosen = ["--only", NOTEBOOKS[profile]] if NOTEBOOKS[profile] else []
    command = [
        sys.executable,
        "-P",
        "-m",
        "fedsynth_lib.bundle.runner",
        "--profile",
        profile,
        *chosen,
    ]
    done = subprocess.run(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=7200
    )
    return profile, home, done.stdout


def committed(profile: str, *kinds: str) -> list[str]:
    """The names of committed figures of these kinds."""
    listing = subprocess.run(
        ["git", "ls-files", f"figures/{profile}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [Path(line).name for line in listing.stdout.splitlines() if line.endswith(kinds)]


def test_no_cell_is_computed(run):
    profile, home, said = run
    last = json.loads((home / "figures" / "runs" / "last.json").read_text(encoding="utf-8"))
    wrong = {stem: own["status"] for stem, own in last.items() if own["status"] != "ok"}
    computed = {stem: own["computed"] for stem, own in last.items() if own["computed"]}
    assert last and not wrong and not computed, f"{wrong} {computed}\n{said}"
    for path in (ROOT / "data" / "results" / profile).glob("*.csv"):
        assert (
            home / "data" / "results" / profile / path.name
        ).read_bytes() == path.read_bytes(), path.name


def test_every_committed_file_is_made_again(run):
    profile, home, _ = run
    made = {path.name for path in (home / "figures" / profile).glob("*")}
    lacking = [name for name in committed(profile, "csv", "md", "png") if name not in made]
    assert not [name for name in lacking if not listed(f"{profile}/{name}", MADE_ELSEWHERE)]
    kept = {name for name in made if name.endswith((".csv", ".md", ".png"))}
    assert not sorted(kept - set(committed(profile, "csv", "md", "png"))), "made, and not committed"


def test_no_notebook_shows_a_warning_but_that_data_are_no_real_ones(run):
    profile, home, _ = run
    shown = {}
    for path in (home / "figures" / "executed" / profile).glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [each for cell in cells for each in cell.get("outputs", [])]
        lines = "".join(line for each in outputs for line in each.get("text", [])).splitlines()
        found = [line for line in lines if "Warning: " in line and "StandInWarning" not in line]
        shown |= {path.stem: found} if found else {}
    assert not shown


def test_tables_come_out_to_the_byte(run):
    profile, home, _ = run
    apart = [
        name
        for name in committed(profile, "csv", "md")
        if (again := home / "figures" / profile / name).exists()
        and again.read_bytes() != (ROOT / "figures" / profile / name).read_bytes()
    ]
    assert not apart


def test_pictures_come_out_to_the_pixel(run):
    profile, home, _ = run
    equal, apart = 0, {}
    names = [
        name for name in committed(profile, "png") if (home / "figures" / profile / name).exists()
    ]
    for name in names:
        before, after = (folder / "figures" / profile / name for folder in (ROOT, home))
        if before.read_bytes() == after.read_bytes():
            equal += 1
        elif (
            not listed(f"{profile}/{name}", PICTURES_APART)
            and (gap := difference(before, after)) > TOLERANCE
        ):
            apart[name] = round(gap, 5)
    print(f"{profile}: {equal} of {len(names)} pictures are equal to the byte")
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


@pytest.mark.parametrize("pattern", [*MADE_ELSEWHERE, *PICTURES_APART])
def test_the_lists_name_what_there_is(pattern):
    profile, _, files = pattern.partition("/")
    assert any(fnmatch(name, files) for name in committed(profile, "csv", "md", "png"))
