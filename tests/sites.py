"""A study of three made-up sites, and its commands as processes of this machine, for the tests."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from deployed import SITECUSTOMIZE, free_ports
from tiny import wait_for

from fedsynth_lib.deploy import keys
from fedsynth_lib.deploy.init import init
from fedsynth_lib.deploy.site import BUDGET, Own
from fedsynth_lib.deploy.study import Study

ROOT = Path(__file__).resolve().parents[1]
ROWS = {"north": 300, "south": 200, "west": 120}
MOST = 170.0  # seconds that anything may take, on a machine that others use too
SCHEMA = """\
[table]
target = "sick"

[[column]]
name = "age"
kind = "numeric"
low = 18
high = 100
integer = true

[[column]]
name = "smoker"
kind = "categorical"
categories = ["no", "yes"]

[[column]]
name = "sick"
kind = "categorical"
categories = ["no", "yes"]
"""


def rows_of(name: str) -> pd.DataFrame:
    """Each site's are different."""
    rng = np.random.default_rng(len(name) + ROWS[name])
    smoker = rng.random(ROWS[name]) < 0.3
    sick = rng.random(ROWS[name]) < np.where(smoker, 0.6, 0.2)
    words = np.array(["no", "yes"])
    age = rng.integers(18, 40 + len(name) * 10, ROWS[name])
    return pd.DataFrame({"age": age, "smoker": words[smoker * 1], "sick": words[sick * 1]})


def make(folder: Path, **entries) -> Study:
    """Keys, CSVs and the study of three sites in a folder; `entries` of study.toml."""
    keys.make_server_keys(folder / "server", keys.HERE)
    sites = []
    for name, rows in ROWS.items():
        rows_of(name).to_csv(folder / f"{name}.csv", index=False)
        own = Own.make(folder / name, name).folder
        text = (own / BUDGET).read_text().replace("3.0", "100.0").replace("1e-4", "1.0")
        (own / BUDGET).write_text(text)
        sites.append((name, rows, (own / keys.NODE_PUBLIC).read_text()))
    (folder / "schema.toml").write_text(SCHEMA)
    asked = {
        "method": "independent",
        "epsilon": 1.0,
        "delta": 1e-6,
        "colluding": 0,
        "absent": 1,
        "minimum_group": 2,
        "timeout": MOST / 4,
        "seed": 5,
        "server": "localhost:9443",
    }
    return init(
        folder / "study",
        name="hearts",
        schema=folder / "schema.toml",
        sites=sites,
        ca=(folder / "server" / keys.CA).read_text(),
        **asked | entries,
    )


class Commands:
    """`fedsynth deploy ...` of the parties of a study in a folder, each a process with its log."""

    def __init__(self, folder: Path):
        self.folder, self.running = folder, {}
        (folder / "short").mkdir(exist_ok=True)
        (folder / "short" / "sitecustomize.py").write_text(SITECUSTOMIZE)
        self.environment = {
            **os.environ,
            "FEDSYNTH_HOME": str(folder / "home"),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join((str(folder / "short"), str(ROOT))),
        }

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "fedsynth_lib", "deploy", *words]

    def begin(self, name: str, command: list[str]) -> subprocess.Popen:
        with open(self.log(name), "w", encoding="utf-8") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.running[name] = subprocess.Popen(
                command, env=self.environment, start_new_session=True, **options
            )
        return self.running[name]

    def server(self) -> subprocess.Popen:
        command = self.command("server", "--study", self.at("study"), "--own", self.at("server"))
        return self.begin("server", command)

    def site(self, name: str, study: str = "study", own: str = "") -> subprocess.Popen:
        places = ("--study", self.at(study), "--own", self.at(own or name))
        table = self.at(f"{name}.csv")
        return self.begin(name, self.command("site", name, *places, "--table", table, "--yes"))

    def run(self, out: str) -> subprocess.Popen:
        places = ("--study", self.at("study"), "--own", self.at("server"), "--out", self.at(out))
        return self.begin("run", self.command("run", *places))

    def at(self, name: str) -> str:
        return str(self.folder / name)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text()

    def wait(self, name: str, text: str, times: int = 1) -> None:
        def heard() -> bool:
            assert self.running[name].poll() is None or text in self.said(name), self.said(name)
            return self.said(name).count(text) >= times

        wait_for(heard, MOST)

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        """A signal to the command alone, and its end."""
        self.running[name].send_signal(number)
        self.running[name].wait(MOST)

    def processes(self, name: str = "") -> list[psutil.Process]:
        """All that runs for this study, or for the party with this folder; not who is forgotten."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                ours = process.environ().get("FEDSYNTH_HOME") == self.environment["FEDSYNTH_HOME"]
                mine = not name or any(self.at(name) in word for word in process.cmdline())
                if ours and mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def stop(self) -> None:
        """Whatever is left, by force."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        for process in self.running.values():
            process.wait()


def ports() -> int:
    return free_ports(1)[0]


def copy(folder: Path, name: str, other: str) -> Path:
    """A party's copy of a folder, to be changed."""
    return Path(shutil.copytree(folder / name, folder / other))
