"""A study of three made-up sites, and its commands as processes of this machine, for the tests."""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from deployed import SITECUSTOMIZE, free_ports

from fedsynth_lib.release.deploy import keys
from fedsynth_lib.release.deploy.init import init
from fedsynth_lib.release.deploy.study import Study, read_study
from fedsynth_lib.release.deploy.terminals import Terminals

ROOT = Path(__file__).resolve().parents[1]
ROWS = {"north": 300, "south": 200, "west": 120}
RUNS = 9  # that each site of a test agrees to
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

RELAYED = """\
import os, signal, time
import numpy as np
from fedsynth_lib.release.deploy import masks, processes, site
start, mask = processes.Children.start, masks.ClientMasks.mask
def relayed(self, command, *options, **said):
    start(self, command, *({relay!r} if each == {server!r} else each for each in options), **said)
def holder():
    try:
        with open({held!r}) as file:
            return file.read()
    except FileNotFoundError:
        return ""
def noted(self, arrays, **options):
    first = holder()
    while first and holder() == first:  # whoever holds it next lets go of what was held before
        time.sleep(0.1)
    hidden = mask(self, arrays, **options)
    np.savez({sent!r}, **hidden)
    return hidden
processes.Children.start, masks.ClientMasks.mask = relayed, noted
if not {masked}:
    masks._add = lambda *_: None
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as `fedsynth` does
site.run_site(*{site!r}, say=print, ask=lambda text: True, runs={runs}, insecure={insecure})
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
        own = folder / name
        keys.make_site(own, name)
        limits = f'population = "{name}"\nmost_epsilon = 100.0\nmost_delta = 1.0\n'
        (own / keys.BUDGET).write_text(limits)
        sites.append((name, rows, (own / keys.NODE_PUBLIC).read_text()))
    (folder / "schema.toml").write_text(SCHEMA)
    asked = {
        "method": "independent",
        "epsilon": 1.0,
        "delta": 1e-6,
        "colluding": 0,
        "absent": 1,
        "minimum_group": 2,
        "timeout": MOST / 2,
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


RELEASES = {  # method -> settings; each has another kind of noise and of sums
    "independent": {},
    "fedpgm": {},
    "fedbn": {"private_structure": True},
    "aim": {"participation": 1.0},
}


def make_releases(folder: Path) -> None:
    """As `make`, and a release by each of RELEASES in the folder of its name."""
    study = make(folder)
    sites = [(each.name, each.rows, each.key) for each in study.sites]
    asked = {"epsilon": 0.1, "delta": 1e-6, "minimum_group": 3, "ca": study.ca, "release": True}
    for method, config in RELEASES.items():
        asked |= {"name": "hearts", "schema": folder / "schema.toml", "sites": sites}
        init(folder / method, **asked, method=method, config=config)


class Parties(Terminals):
    """All parties of the study in a folder; Flower's loops do not wait for long."""

    def __init__(self, folder: Path):
        (folder / "short").mkdir(exist_ok=True)
        (folder / "short" / "sitecustomize.py").write_text(SITECUSTOMIZE)
        path = os.pathsep.join((str(folder / "short"), str(ROOT)))
        super().__init__(folder, OMP_NUM_THREADS="1", PYTHONPATH=path)

    def server(self, *options: str) -> None:
        self.begin("server", " ".join(("deploy server", self.places("server"), *options)))

    def site(self, name: str, *options: str, terminal: str = "", **places: str) -> None:
        words = (self.places(**{"own": name} | places), "--table", self.at(f"{name}.csv"), "--yes")
        words += ("--runs", str(RUNS))
        self.begin(terminal or name, " ".join((f"deploy site {name}", *words, *options)))

    def relayed(self, name: str, port: int, *, insecure: bool = False, masked: bool = True) -> None:
        """A site that reaches its server through a relay at this port, and keeps what it sends to
        a secure sum in NAME.npz; masked: whether it hides that. It answers no step as long as
        there is a file NAME.held, of which no two say the same."""
        text = RELAYED.format(
            relay=f"localhost:{port}",
            server=read_study(self.folder / "study").server,
            sent=self.at(f"{name}.npz"),
            held=self.at(f"{name}.held"),
            masked=masked,
            site=(self.at("study"), name, self.at(f"{name}.csv"), self.at(name)),
            runs=RUNS,
            insecure=insecure,
        )
        self.begin_process(name, [sys.executable, "-u", "-P", "-c", text])

    def run(self, out: str, *options: str) -> None:
        self.begin("run", " ".join(("deploy run", self.places("server"), "--out", out, *options)))

    def places(self, own: str, study: str = "study") -> str:
        return f"--study {self.at(study)} --own {self.at(own)}"

    def status(self, terminal: str) -> int:
        """How a command ends."""
        return self.running[terminal].wait(MOST)

    def at(self, name: str) -> str:
        return str(self.folder / name)

    def processes(self, name: str = "") -> list[psutil.Process]:
        """All that runs for this study with a word like this in its command; '' is in all."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                ours = process.environ().get("FEDSYNTH_HOME") == self.at("home")
                mine = any(name in word for word in process.cmdline())
                if ours and mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def __exit__(self, *_: object) -> None:
        """By force, whatever is left."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        super().__exit__()


def ports() -> int:
    return free_ports(1)[0]


def copy(folder: Path, name: str, other: str) -> Path:
    """A party's copy of a folder, to be changed."""
    return Path(shutil.copytree(folder / name, folder / other))
