"""Whether anything around a method follows rows: ranges, forms, sizes, what its verbs are told.

A blind method takes the place of a method's verbs. It notes what it is told, learns nothing from
rows, and makes the same synthetic rows whatever happens. So all that a run hands out must be the
same with a record and without it, to the byte, and each row must come to the method as the same
numbers whatever other rows there are. The audit takes two ways: `settings.federated`, and files.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import environ
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.audit.scenario import Case, parts_of, table_of
from fedsynth_lib.core.contract import (
    Arrays,
    Charge,
    Client,
    Domain,
    Encoder,
    Noise,
    Update,
    whole_state,
)
from fedsynth_lib.federation import settings
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.schema import Schema

CLIENTS = 2


@dataclass
class Blind:
    """The verbs that take the place of a case's own; `told` and `rows` are what they were given."""

    case: Case
    told: dict[str, Any] = field(default_factory=dict)
    rows: dict[int, np.ndarray] = field(default_factory=dict)

    def encoder(self, schema: Schema, config: Any) -> Encoder:
        """Note the schema and the domain, and return the method's own encoder."""
        made = self.case.method.encoder(schema, config)
        self.told |= {"the schema": schema, "the domain": made.domain}
        return made

    def start(self, domain: Domain, config: Any, rng: np.random.Generator) -> Arrays:
        """Note the domain that a run starts with, and return an empty state."""
        self.told["the domain at the start"] = domain
        return {}

    def client_step(
        self,
        state: Arrays,
        client: Client,
        config: Any,
        noise: Noise | None,
        rng: np.random.Generator,
    ) -> Update:
        """Note what a client is told and its rows, and send nothing."""
        told = client.size, client.num_clients, client.shares, noise and noise.multiplier
        self.told[f"size, clients, shares and noise of client {client.index}"] = told
        self.rows[client.index] = client.rows
        return Update()

    def server_step(
        self,
        state: Arrays,
        updates: list[Update],
        config: Any,
        noise: Noise | None,
        rng: np.random.Generator,
    ) -> tuple[Arrays, list[Charge]]:
        """End the run after its first round."""
        return {"finished": np.array(True)}, []

    def sample(
        self, state: Arrays, num_rows: int, config: Any, rng: np.random.Generator
    ) -> np.ndarray:
        """Return all categories in turn, and numbers from one end of their range to the other."""
        self.told["the number of synthetic rows"] = num_rows
        levels, places = np.array(self.told["the domain"].levels), np.arange(num_rows)[:, None]
        if (levels > 0).all():
            return (places % levels).astype(np.int32)
        return np.where(levels > 0, places % np.maximum(levels, 1), places / max(num_rows - 1, 1))


def audit(case: Case) -> list[str]:
    """Return what of a run follows the record, beside what the method learns.

    The result is empty if nothing does.
    """
    runs, seen = [], []
    for present in (False, True):
        blind = Blind(case)
        names = ("encoder", "start", "client_step", "server_step", "sample")
        verbs = {name: getattr(blind, name) for name in names}
        method = replace(case.method, **verbs, broadcast=whole_state, check_broadcast=None)
        made = settings.federated(
            method,
            table_of(case, CLIENTS, present=present),
            parts_of(case, CLIENTS, present=present),
            config=case.config,
            privacy=case.privacy,
            sizes=(len(case.others) + 1,) * CLIENTS,
        )
        runs.append(made)
        seen.append(blind)
    without, there = seen
    wrong = [
        f"{name} follow rows" if name.startswith("size") else f"{name} follows rows"
        for name in without.told.keys() | there.told.keys()
        if without.told.get(name) != there.told.get(name)
    ]
    more = {**there.rows, 0: there.rows[0][1:]}  # the record is the first row of client 0
    if not all(np.array_equal(more[client], rows) for client, rows in without.rows.items()):
        wrong.append("rows come to the method as other numbers when a row is added")
    tables = [run.synthetic for run in runs]
    if not (tables[0].equals(tables[1]) and tables[0].dtypes.equals(tables[1].dtypes)):
        wrong.append("the same synthetic rows are handed out in another form when a row is added")
    if runs[0].statement != runs[1].statement:
        wrong.append("the privacy statement follows rows")
    return sorted(wrong)


# --- through files --------------------------------------------------------------------------------

# a method file: counts as `independent`, and hands out all levels in turn
BLIND_FILE = """\
import numpy as np
from fedsynth_lib.methods.marginals.independent import *
from fedsynth_lib.tables.encode import EqualWidthBins

class Same(EqualWidthBins):
    def inverse(self, rows, rng):
        return super().inverse(rows, np.random.default_rng(0))

def encoder(schema, config):
    return Same(schema, config.bins)

def sample(state, num_rows, config, rng):
    return (np.arange(num_rows)[:, None] % state["levels"]).astype(np.int32)
"""


def through_files(schema: Schema, others: Sequence[tuple], target: tuple) -> list[str]:
    """Return what follows the record when `synth --release` runs on a file.

    The file has the record as its first row, or does not have it. Compared are the rows that are
    handed out, the names of files, and how the command ends.
    """
    shown = []
    for rows in (list(others), [target, *others]):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            pd.DataFrame(rows, columns=schema.names).to_csv(folder / "people.csv", index=False)
            (folder / "people.toml").write_text(Form.of(schema).to_toml(), encoding="utf-8")
            (folder / "blind.py").write_text(BLIND_FILE, encoding="utf-8")
            options = ["--method", "blind.py", "--epsilon", "1", "--release", "--no-scores"]
            options += ["--declared-rows", str(len(others)), "--out", "out", "--delta", "0"]
            options += ["--population", "audited"]
            command = [sys.executable, "-m", "fedsynth_lib", "synth", "people.csv", *options]
            env = environ | {"FEDSYNTH_HOME": str(folder / "home")}
            ended = subprocess.run(
                command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8"
            )
            made = sorted((folder / "out").glob("*")) if (folder / "out").is_dir() else []
            released = [path.read_bytes() for path in made if path.suffix == ".csv"]
            shown.append((ended.returncode, [path.name for path in made], released, ended.stderr))
    without, there = shown
    if without[0]:
        return [f"synth ends with {without[0]}: {without[3].strip()[-300:]}"]
    words = ("how synth ends", "the names of the files", "the rows that synth hands out")
    return [
        f"{word} follows rows" if place == 0 else f"{word} follow rows"
        for place, word in enumerate(words)
        if without[place] != there[place]
    ]
