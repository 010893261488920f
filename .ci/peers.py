"""Run peers' packages on NIST's ten columns, each in an environment of its own; keep the scores.

    PYTHONPATH=. .venv/bin/python .ci/peers.py FOLDER [PEER ...] [--seeds N] [--minutes M]

For each peer: a virtual environment in FOLDER with the pinned package, a run for each seed on codes
whose domain is given, and NIST's score of what came out, in data/published/reruns.toml. A run that
fails or takes longer than M minutes is a line there, too, that says so. No code of theirs is here:
a worker only calls what the package documents.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.store import project_root
from fedsynth_lib.works import field

EPSILON, DELTA = 1.0, 1e-5
HEAD = """\
# Peers' packages on NIST's ten columns: made by .ci/peers.py, codes with the domain given.
# seconds: of a run, on two cores that a dozen other processes used, too."""


def rho_of(epsilon: float, delta: float) -> float:
    """The largest zCDP that is within (epsilon, delta): Canonne, Kamath and Steinke 2020."""
    order = 1 + np.geomspace(1e-2, 1e3, 20_000)
    rest = np.log(1 / (delta * order)) / (order - 1) + np.log(1 - 1 / order)
    low, high = 0.0, epsilon
    while high - low > 1e-9:
        middle = (low + high) / 2
        within = (middle * order + rest).min() <= epsilon
        low, high = (middle, high) if within else (low, middle)
    return low


BEGIN = """
import json, sys
import pandas as pd
levels, seed = json.load(open("levels.json")), int(sys.argv[1])
rows = pd.read_csv("rows.csv")
"""
DPMM = """
from dpmm.pipelines.{file} import {name}Pipeline
pipeline = {name}Pipeline(epsilon=1.0, delta=1e-5, n_jobs=1, disable_processing=True)
pipeline.fit(rows, domain=levels, random_state=seed)
made = pipeline.generate(n_records=len(rows), random_state=seed)
"""
OPENDP = """
import opendp.prelude as dp
import polars as pl
dp.enable_features("contrib")
context = dp.Context.compositor(
    data=pl.scan_csv("rows.csv"), privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(rho={rho}), split_evenly_over=1,
)
keys = {{name: list(range(count)) for name, count in levels.items()}}
algorithm = dp.mbi.{name}({more})
table = context.query().select(*levels).contingency_table(keys=keys, algorithm=algorithm)
made = table.release().synthesize({draw}).to_pandas().dropna()
"""
PRIVBAYES = """
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
describer = DataDescriber(category_threshold=max(levels.values()) + 1)
describer.describe_dataset_in_correlated_attribute_mode(
    dataset_file="rows.csv", epsilon=1.0, k=2, seed=seed,
    attribute_to_is_categorical=dict.fromkeys(levels, True),
)
describer.save_dataset_description_to_file("described.json")
generator = DataGenerator()
generator.generate_dataset_in_correlated_attribute_mode(len(rows), "described.json", seed=seed)
made = generator.synthetic_dataset
"""
SMARTNOISE = """
from snsynth import Synthesizer
synthesizer = Synthesizer.create("{name}", epsilon=1.0, delta=1e-5)
made = synthesizer.fit_sample(rows.astype(str), categorical_columns=list(levels))
"""
CTGAN = """
import numpy as np, torch
from ctgan import CTGAN
np.random.seed(seed), torch.manual_seed(seed)
model = CTGAN(epochs=30, enable_gpu=False)
model.fit(rows.astype(str), list(levels))
made = model.sample(len(rows))
"""
DPSYNTH = """
import numpy as np
import dpsynth
domains = {{
    name: dpsynth.CategoricalAttribute(possible_values=list(range(count)))
    for name, count in levels.items()
}}
mechanism = dpsynth.discrete_mechanisms.{name}Config()
config = dpsynth.TabularConfig(domains=domains, discrete_mechanism=mechanism)
made = config.configure(zcdp_rho={rho})(np.random.default_rng(seed), rows).synthetic_data
"""
END = """
made[list(levels)].astype(float).astype(int).to_csv("made.csv", index=False)
"""
# Of OpenDP, within what epsilon allows (0.0305): on most figures its own sums of shares, rounded
# up, exceed them by a last digit, and it refuses. Of four digits MST takes 0.0304.
DPSYNTH_RHO = 0.03055
RHO = {"AIM": 0.03, "MST": 0.0304}
assert max(*RHO.values(), DPSYNTH_RHO) <= rho_of(EPSILON, DELTA)
DPMM_PACKAGES = ("dpmm==0.1.9",)
OPENDP_PACKAGES = ("opendp[mbi,polars]==0.16.0", "pandas==2.3.3")
TORCH = "torch==2.13.0"  # installed first: else a newer build that brings CUDA
# not on the package index; `etils` is imported and not declared
DPSYNTH_PACKAGES = (
    "dpsynth @ git+https://github.com/google/dpsynth.git@cf8075f319b96c2e009e4ea6bb55378faccbbc80",
    "etils",
)
SMARTNOISE_PACKAGES = ("smartnoise-synth==1.0.8", "mbi==1.1.0", TORCH)


class Peer(NamedTuple):
    """packages: pinned, the one that is meant first. worker: what runs in its environment. note:
    what has to be known of its rows."""

    packages: tuple[str, ...]
    worker: str
    note: str = ""
    epsilon: float = EPSILON
    python: str = sys.executable


# OpenDP and SmartNoise ask for a version without https://github.com/ryan112358/mbi/pull/145
ROUNDED = "mbi 1.1.0 rounds rows with dependence that its model has not (its pull request 145)"
DRAWN = "runs with the same seed differ"
SAMPLED = "rows drawn one by one, as its documentation offers, in place of mbi's rounding"


def opendp(name: str, note: str, *, more: str = "", draw: str = "") -> Peer:
    worker = OPENDP.format(name=name, more=more, draw=draw, rho=RHO[name])
    told = f"rho {RHO[name]}; takes no seed; rows with a value beyond the domain left out"
    return Peer(OPENDP_PACKAGES, worker, f"{told}; {note}")


def dpsynth(name: str) -> Peer:
    worker = DPSYNTH.format(name=name, rho=DPSYNTH_RHO)
    note = "version 0.3.0; one tenth of the budget for counts of single columns, as it comes"
    return Peer(DPSYNTH_PACKAGES, worker, note, python="python3.12")


PEERS = {
    "AIM (dpsynth)": dpsynth("AIM"),
    "MST (dpsynth)": dpsynth("MST"),
    "SWIFT (dpsynth)": dpsynth("SWIFT"),
    "MST (dpmm)": Peer(DPMM_PACKAGES, DPMM.format(file="mst", name="MST"), DRAWN),
    "AIM (dpmm)": Peer(DPMM_PACKAGES, DPMM.format(file="aim", name="AIM"), DRAWN),
    "PrivBayes (dpmm)": Peer(
        DPMM_PACKAGES, DPMM.format(file="priv_bayes", name="PrivBayes"), DRAWN
    ),
    "AIM (OpenDP)": opendp("AIM", "rounds: 160"),
    "AIM, ten rounds (OpenDP)": opendp("AIM", SAMPLED, more="rounds=10", draw='method="sample"'),
    "MST (OpenDP)": opendp("MST", ROUNDED),
    "MST, rows sampled (OpenDP)": opendp("MST", SAMPLED, draw='method="sample"'),
    "PrivBayes (DataSynthesizer)": Peer(
        ("DataSynthesizer==0.1.13",), PRIVBAYES, "two parents; reads the categories from the rows"
    ),
    "MST (SmartNoise)": Peer(
        SMARTNOISE_PACKAGES,
        SMARTNOISE.format(name="mst"),
        f"reads the categories from the rows; {ROUNDED}",
    ),
    "AIM (SmartNoise)": Peer(
        SMARTNOISE_PACKAGES,
        SMARTNOISE.format(name="aim"),
        f"reads the categories from the rows; {ROUNDED}",
    ),
    "CTGAN (ctgan)": Peer(("ctgan==0.12.1", TORCH), CTGAN, "not private; 30 epochs", np.inf),
}


def codes(prepared: field.Areas) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows as codes from 0, and the declared number of values of each column."""
    frame, levels = {}, {}
    for column in prepared.train.schema.columns:
        values = prepared.train.frame[column.name]
        if column.kind == "categorical":
            frame[column.name], levels[column.name] = values.cat.codes, len(column.categories)
        else:
            frame[column.name] = values - int(column.low)
            levels[column.name] = int(column.high - column.low) + 1
    return pd.DataFrame(frame), levels


def decoded(made: pd.DataFrame, prepared: field.Areas) -> pd.DataFrame:
    """And back."""
    frame = {}
    for column in prepared.train.schema.columns:
        values = made[column.name].to_numpy()
        if column.kind == "categorical":
            frame[column.name] = pd.Categorical.from_codes(values, list(column.categories))
        else:
            frame[column.name] = values + int(column.low)
    return pd.DataFrame(frame)


def environment(
    folder: Path, packages: Sequence[str], name: str = "", base: str = sys.executable
) -> Path:
    """The interpreter of an environment with these packages, made where there is none. Those that
    others need in a build or a version of its own are installed first: they stand last."""
    place = folder / (name or re.sub(r"[^\w.=-]", "_", packages[0]))
    python = place / "bin" / "python"
    if not (place / "complete").is_file():
        subprocess.run([base, "-m", "venv", place], check=True)
        for each in (packages[1:], packages):
            if each:
                subprocess.run([python, "-m", "pip", "install", "--quiet", *each], check=True)
        (place / "complete").touch()
    return python


def within(command: Sequence[str | Path], work: Path, minutes: float) -> None:
    """Run a command in a folder; it and all processes that it began end with its time."""
    pipe = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=work, start_new_session=True, **pipe) as process:
        try:
            _, said = process.communicate(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)


def run(peer: str, folder: Path, seed: int, minutes: float, prepared: field.Areas) -> dict:
    """One entry of reruns.toml, with `values` unless it failed."""
    packages, worker, note, epsilon, base = PEERS[peer]
    entry = {"method": peer, "seed": seed, "epsilon": epsilon, "trusted": "a curator"}
    entry |= {"flag": "rerun", "source": "peers", "packages": " ".join(packages)}
    entry |= {"python": _version(base), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    try:
        python = environment(folder, packages, base=base)
        work = folder / f"{peer}, seed {seed}"
        work.mkdir(exist_ok=True)
        rows, levels = codes(prepared)
        rows.to_csv(work / "rows.csv", index=False)
        (work / "levels.json").write_text(json.dumps(levels), encoding="utf-8")
        begin = time.perf_counter()
        within([python, "-W", "ignore", "-c", BEGIN + worker + END, str(seed)], work, minutes)
    except subprocess.TimeoutExpired:
        return {**entry, "note": f"not done after {minutes:g} minutes on a busy machine"}
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "the environment could not be made").strip().splitlines()[-3:]
        return {**entry, "note": f"fails: {' '.join(said)[-300:]}"}
    seconds = round(time.perf_counter() - begin)
    made = decoded(pd.read_csv(work / "made.csv"), prepared)
    score = round(float(prepared.score(made)), 2)
    return {**entry, "seconds": seconds, "values": {"k_marginal": score}, "note": note}


def _version(python: str) -> str:
    told = subprocess.run([python, "-V"], check=True, capture_output=True, text=True)
    return told.stdout.split()[-1]


def kept_with(entry: dict, path: Path) -> None:
    """Write the entry into the file, in place of an earlier one of this peer and seed."""
    kept = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    mine = (entry["method"], entry["seed"])
    entries = [each for part in ("nist", "failed") for each in kept.get(part, [])]
    entries = [each for each in entries if (each["method"], each["seed"]) != mine] + [entry]
    texts = [
        "\n".join([f"[[{'nist' if 'values' in each else 'failed'}]]", *map(_line, each.items())])
        for each in sorted(entries, key=lambda each: (each["method"], each["seed"]))
    ]
    path.write_text("\n\n".join([HEAD, *texts]) + "\n", encoding="utf-8")


def _line(item: tuple[str, object]) -> str:
    name, value = item
    if isinstance(value, dict):
        return f"{name} = {{{', '.join(map(_line, value.items()))}}}"
    return f"{name} = {'inf' if value == np.inf else json.dumps(value)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("peers", nargs="*", default=[*PEERS], metavar="PEER")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=15)
    asked = parser.parse_args()
    prepared = field.areas("nist_national2019", None)
    if prepared.train.data != "real":
        sys.exit("peers.py: the real table is out of reach, and a score on a stand-in says nothing")
    for peer in asked.peers:
        for seed in range(asked.seeds):
            entry = run(peer, asked.folder.resolve(), seed, asked.minutes, prepared)
            print(entry, flush=True)
            kept_with(entry, project_root() / "data" / "published" / "reruns.toml")


if __name__ == "__main__":
    main()
