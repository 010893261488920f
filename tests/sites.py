"""A study of three made-up sites, and its commands as processes of this machine, for the tests."""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from at_sites import evaluate_sites
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from deployed import SITECUSTOMIZE, free_ports
from flwr.app import ConfigRecord, Context, RecordDict

from fedsynth_lib.core.contract import Privacy
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.release import your_table
from fedsynth_lib.release.deploy import apps, evaluation, keys
from fedsynth_lib.release.deploy.init import init
from fedsynth_lib.release.deploy.place import Own, Place
from fedsynth_lib.release.deploy.processes import Terminals
from fedsynth_lib.release.deploy.study import Study, read_study
from fedsynth_lib.tables.load import load_table

ROOT = Path(__file__).resolve().parents[1]
ROWS = {"north": 300, "south": 200, "west": 120}
RUNS = 9  # that each site of a test agrees to
MOST = 400.0  # seconds that anything may take, on a machine that others use too
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
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as `fedsynth` does
site.run_site(*{site!r}, say=print, ask=lambda text: True, runs={runs})
"""


def rows_of(name: str, rows: int = 0) -> pd.DataFrame:
    """Rows of a site, as many as it has."""
    rows = rows or ROWS[name]
    rng = np.random.default_rng(len(name) + rows)
    smoker = rng.random(rows) < 0.3
    sick = rng.random(rows) < np.where(smoker, 0.6, 0.2)
    words = np.array(["no", "yes"])
    age = rng.integers(18, 40 + len(name) * 10, rows)
    return pd.DataFrame({"age": age, "smoker": words[smoker * 1], "sick": words[sick * 1]})


def make(folder: Path, rows: Mapping[str, int] = ROWS, **entries) -> Study:
    """Keys, CSVs and a study in a folder: of three sites, where `rows` says no other ones. entries:
    of study.toml."""
    keys.make_server_keys(folder / "server", keys.HERE)
    for name in rows:
        rows_of(name, rows[name]).to_csv(folder / f"{name}.csv", index=False)
        keys.make_site(folder / name, name)
        limits = f'population = "{name}"\nmost_epsilon = 100.0\nmost_delta = 1.0\n'
        (folder / name / keys.BUDGET).write_text(limits)
    (folder / "schema.toml").write_text(SCHEMA)
    asked = {"colluding": 0, "absent": 1, "timeout": MOST / 2, "seed": 5}
    asked["server"] = "localhost:9443"
    return study_in(folder, folder / "study", rows, **asked | entries)


def study_in(folder: Path, new: Path, rows: Mapping[str, int] = ROWS, **entries) -> Study:
    """A new study of the parties in a folder, as `deploy init` writes it."""
    sites = [(name, rows[name], (folder / name / "node.pub").read_text()) for name in rows]
    asked = {"method": "independent", "epsilon": 1.0, "delta": 1e-6, "minimum_group": 2}
    asked |= {"ca": (folder / "server/ca.pem").read_text(), "schema": folder / "schema.toml"}
    return init(new, name="hearts", sites=sites, **asked | entries)


RELEASES = {  # method -> settings; each has another kind of noise and of sums
    "independent": {},
    "fedpgm": {},
    "fedbn": {"private_structure": True},
    "aim": {"participation": 1.0},
}


def make_releases(folder: Path) -> None:
    """As `make`, and a release by each of RELEASES in the folder of its name."""
    make(folder)
    asked = {"epsilon": 0.1, "minimum_group": 3, "release": True}
    for method, config in RELEASES.items():
        study_in(folder, folder / method, method=method, config=config, **asked)


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

    def relayed(self, name: str, port: int) -> None:
        """A site that reaches its server through a relay at this port, and keeps what it sends to
        a secure sum in NAME.npz. It answers no step as long as there is a file NAME.held, of which
        no two say the same."""
        text = RELAYED.format(
            relay=f"localhost:{port}",
            server=read_study(self.folder / "study").server,
            sent=self.at(f"{name}.npz"),
            held=self.at(f"{name}.held"),
            site=(self.at("study"), name, self.at(f"{name}.csv"), self.at(name)),
            runs=RUNS,
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


# --- the same in one process ----------------------------------------------------------------------


def places_of(folder: Path, study) -> list[Place]:
    """The three sites, each with its own file and key; their operators have agreed to one run."""
    found = [Own(folder / name).place(study, name, folder / f"{name}.csv") for name in ROWS]
    for place in found:
        place.ledger.agree(1)
    return found


def in_one_process(folder: Path, study) -> bytes:
    """The rows that the study must make, by the run in process over what the three files have to
    learn from."""
    kept = [place.divided()[0].index for place in places_of(folder, study)]
    files = [pd.read_csv(folder / f"{name}.csv") for name in ROWS]
    together = [file.loc[rows] for file, rows in zip(files, kept, strict=True)]
    pd.concat(together).to_csv(folder / "all.csv", index=False)
    table = load_table(folder / "all.csv", schema=folder / "schema.toml")
    ends = np.cumsum([len(rows) for rows in kept])
    parts = np.split(np.arange(len(table)), ends[:-1])
    privacy, share = Privacy(1.0, 1e-6, curious=1), 1 - study.holdout
    sizes = [round(share * rows) for rows in ROWS.values()]
    made = settings.federated(
        METHODS["independent"],
        table,
        parts,
        config=study.plan.config,
        privacy=privacy,
        seed=5,
        sizes=sizes,
    )
    rows = your_table.as_file(made.synthetic, table, seed=5)
    return table.container.content(rows, table.form)


def evaluated_in_one_process(folder: Path, study, rows: Path, **options) -> evaluation.Evaluation:
    """What the study's evaluation must come to, over what the three files have set aside."""
    options = {"privacy": Privacy(2.0, 1e-6)} | options
    asides = [place.divided()[1] for place in places_of(folder, study)]
    return evaluate_sites(
        dict(zip(ROWS, asides, strict=True)),
        load_table(rows, schema=folder / "schema.toml").frame,
        study.form.schema,
        sizes=[round(0.4 * rows) for rows in ROWS.values()],
        seed=5,
        **options,
    )


def same_figures(one: pd.DataFrame, other: pd.DataFrame) -> None:
    columns = ["value", "low", "high"]
    pd.testing.assert_frame_equal(one[columns], other[columns])


def carried_out(study, client, out, **run_config):
    """The apps of all parties in this process; client: that of all sites, or each site's place."""
    if not isinstance(client, apps.SiteApp):
        places = client
        client = apps.SiteApp(lambda context: places[context.node_id - 1])
    grid = flower.LocalGrid(client, len(study.sites))
    for each in grid._contexts.values():
        each.run_id, each.run_config = flower.LOCAL_RUN, run_config
    context = Context(flower.LOCAL_RUN, 0, {}, RecordDict(), {"out": str(out)} | run_config)
    apps.carry_out(study, grid, context)


class Forger(apps.SiteApp):
    """Sites of which some sign some of their answers with the key of another site.

    when: (site, what is asked) -> whether the answer is signed so.
    """

    def __init__(self, places, when):
        super().__init__(lambda context: places[context.node_id - 1])
        self.places, self.when, self.asked = places, when, []

    def __call__(self, message, context):
        name = self.places[context.node_id - 1].name
        what = message.content.get("job", {}).get("phase", message.metadata.message_type)
        self.asked.append((name, what))
        reply = super().__call__(message, context)
        if self.when(name, what):
            del reply.content[apps.SIGNATURE]
            text = apps._signed_text(reply.content, message)
            signature = self.places[context.node_id % 3].key.sign(text, ec.ECDSA(hashes.SHA384()))
            reply.content[apps.SIGNATURE] = ConfigRecord({"signature": signature})
        return reply
