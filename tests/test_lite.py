"""Lessons without installing: their code does with what Python has in a browser, and .ci/lite
builds a site on which they open."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytest_plugins = ["browser"]

ROOT = Path(__file__).resolve().parents[1]
# Python and its compiled packages for browsers, which have no other home
HOST, RUNTIME = "cdn.jsdelivr.net", "https://cdn.jsdelivr.net/pyodide/v0.29.3/full/pyodide.js"

# A notebook's first cells where modules, threads and processes are missing as in Pyodide.
BROWSER = """
import json, os, socket, subprocess, sys, threading
from importlib.abc import MetaPathFinder

import matplotlib.font_manager

LACKING = "fcntl grp grpc numba opacus psutil pwd ray resource sdmetrics sqlalchemy termios torch uvicorn".split()

class Lacking(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def refused(*arguments, **options):
    raise RuntimeError("a browser has no threads, processes or sockets")

sys.meta_path.insert(0, Lacking())
threading.Thread.start = subprocess.Popen.__init__ = os.fork = socket.socket.connect = refused

import in_browser

in_browser.do_without_grpc()
cells = json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
cells = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
notebook = {"display": print}  # which a notebook has without an import
for cell in cells[: int(sys.argv[2])]:
    exec(compile(cell.replace('profile = "paper"', 'profile = "smoke"'), sys.argv[1], "exec"), notebook)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "cells"), [("00", 99), ("02", 99), ("03", 2), ("10", 2), ("13", 99)]
)
def test_a_lesson_does_with_what_a_browser_has(lesson, cells, tmp_path):
    (notebook,) = (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
    standins = tmp_path / "data" / "standin"
    standins.mkdir(parents=True)
    for table in (ROOT / "data" / "standin").glob("adult.*"):
        (standins / table.name).symlink_to(table)
    results = tmp_path / "data" / "results" / "paper"  # two files, which lesson 13 shows
    results.mkdir(parents=True)
    for name in ("42_maddock2024_baselines.csv", "45_maddock2024_all_tables.csv"):
        (results / name).symlink_to(ROOT / "data" / "results" / "paper" / name)
    env = {
        "PATH": "",
        "FEDSYNTH_HOME": str(tmp_path),
        "FEDSYNTH_DATA": "standin",
        "PYTHONUTF8": "1",
    }
    env |= {"PYTHONPATH": f"{ROOT}:{ROOT / '.ci'}", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", BROWSER, str(notebook), str(cells)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


class Site(SimpleHTTPRequestHandler):
    """The folder of a site; `missing` is what was asked for in vain."""

    missing: list[str] = []  # noqa: RUF012, of the one site

    def log_request(self, code="-", size="-") -> None:
        if int(code) >= 400 and self.path != "/favicon.ico":  # which browsers ask of any site
            self.missing.append(self.path)

    def log_message(self, *words) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def reached() -> tuple[str, ...]:
    return (HOST,)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    """The address of the site, built by the command."""
    folder = tmp_path_factory.mktemp("lite") / "site"
    subprocess.run([ROOT / ".ci" / "lite", folder], check=True, timeout=1200)
    assert [folder] == [*folder.parent.iterdir()]
    scripts = folder.glob("extensions/@jupyterlite/*/static/*.js")
    assert any(RUNTIME.removesuffix("pyodide.js") in path.read_text("utf-8") for path in scripts)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def texts(browser, selector: str) -> list[str]:
    read = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
    return browser.execute_script(read, selector)


def open_lesson(browser, site: str) -> None:
    """Load lesson 00 until its title and the list of files are shown."""
    browser.resize(1280, 900)
    browser.get(f"{site}/lab/index.html?path=00_start_here.ipynb")
    for shown in (".jp-Notebook h1", ".jp-DirListing-itemText"):
        WebDriverWait(browser, 120).until(lambda page, shown=shown: texts(page, shown))


@pytest.mark.browser
def test_the_site_opens_with_the_first_lesson(browser, site):
    open_lesson(browser, site)
    assert texts(browser, ".jp-Notebook h1")[0].startswith("Can you tell who was in this table?")
    assert "in_browser.prepare()" in texts(browser, ".jp-CodeCell .cm-content")[0]
    files = [name[:2] for name in texts(browser, ".jp-DirListing-itemText") if name[:2].isdigit()]
    assert sorted(files) == ["00", "02", "03", "10", "13"]
    for wheel in requests.get(f"{site}/pypi/all.json", timeout=60).json().values():
        assert len(wheel["releases"]) == 1
    assert Site.missing == []


@pytest.mark.browser
def test_the_first_lesson_runs_and_a_picture_appears(browser, site):
    try:
        requests.head(RUNTIME, timeout=20).raise_for_status()
    except (requests.ConnectionError, requests.Timeout):
        pytest.skip(
            f"no cell was run: Python for browsers is on {HOST} alone, which is not reached"
        )
    open_lesson(browser, site)
    browser.find_element(By.CSS_SELECTOR, ".jp-Notebook .jp-Cell").click()
    browser.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    outputs = """return window.jupyterapp.shell.currentWidget.content.widgets.map((each) => each.model)
        .filter((each) => each.type === "code").flatMap((each) => each.outputs.toJSON())"""

    def ended(page) -> list[dict]:
        shown = page.execute_script(outputs)
        return [
            each
            for each in shown
            if each["output_type"] == "error" or "image/png" in each.get("data", {})
        ]

    first, *_ = WebDriverWait(browser, 900).until(ended)
    assert "image/png" in first.get("data", {}), first
