"""What peers' own tools say of the inputs of tests/test_parity.py; kept in tests/parity.json.

    PYTHONPATH=.:tests .venv/bin/python .ci/parity.py FOLDER SDNIST

FOLDER: where their environments are made. SDNIST: a checkout of github.com/usnistgov/SDNist at the
commit below, whose version 2.5 lies in no registry. No code of theirs is here: a worker only calls
what they document.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import test_parity as parity
from peers import environment

SDNIST_COMMIT = "f048b1c2ca3815239982ac181ec8cd01840fc351"
BEGIN = (
    "import json; from importlib.metadata import version; asked = json.load(open('asked.json'))\n"
)
ACCOUNTING = """
import dp_accounting as dp
from dp_accounting.pld import privacy_loss_distribution as losses
from dp_accounting.rdp import RdpAccountant
delta = asked["delta"]
def loss(mechanism, noise, rate, times):
    laplace = mechanism == "laplace"
    make = losses.from_discrete_laplace_mechanism if laplace else losses.from_gaussian_mechanism
    one = make(1 / noise) if laplace else make(noise, sampling_prob=rate)
    return one.self_compose(times)
def epsilon(releases):
    total, *others = [loss(*each) for each in releases]
    for other in others:
        total = total.compose(other)
    return total.get_epsilon_for_delta(delta)
def renyi(releases):
    accountant = RdpAccountant(asked["orders"])
    for _, noise, rate, times in releases:
        one = dp.GaussianDpEvent(noise)
        one = one if rate == 1 else dp.PoissonSampledDpEvent(rate, one)
        accountant.compose(dp.SelfComposedDpEvent(one, times))
    return accountant.get_epsilon(delta)
found = {
    "version": version("dp-accounting"),
    "epsilon": {name: epsilon(each) for name, each in asked["releases"].items()},
    "renyi": {n: renyi(e) for n, e in asked["releases"].items() if "ounts" not in n},
}
"""
MBI = """
import numpy as np, mbi
names = [str(place) for place in range(len(asked["levels"]))]
domain = mbi.Domain(names, asked["levels"])
real, made = (
    mbi.Dataset(dict(zip(names, np.array(rows).T)), domain) for rows in asked["tables"]
)
def counts(data, query):
    return np.asarray(data.project([str(place) for place in query]).datavector(), float)
def error(query):
    one, other = counts(real, query), counts(made, query)
    return np.abs(one / one.sum() - other / other.sum()).sum()
def share(query, ranges):
    table = np.asarray(real.project([str(place) for place in query]).values, float)
    return table[tuple(slice(low, high + 1) for low, high in ranges)].sum() / table.sum()
found = {
    "version": version("mbi"),
    "marginals": [counts(real, query).astype(int).tolist() for query in asked["queries"]],
    "workload error": float(np.mean([error(query) for query in asked["queries"]])),
    "shares in ranges": [float(share(*each)) for each in asked["ranges"]],
}
"""
SDNIST = """
import pandas as pd
from sdnist.metrics.kmarginal import KMarginal
from sdnist.report.dataset.binning import bin_data
def score(name, columns, area):
    words, columns = asked["words"], [*([area] if area else []), *columns]
    target, made = (pd.read_csv(f"{name}_{k}.csv", dtype=str)[columns] for k in (0, 1))
    for frame in (target, made):
        for column in frame:
            values = words[column]["values"]
            if "min" in values:
                gap = words[column].get("null_value")
                code = int(values["min"]) - 1  # theirs of a gap: one below all numbers
                frame[column] = frame[column].replace(gap, code) if gap else frame[column]
                frame[column] = frame[column].astype(int)
    target, made, _ = bin_data(target, made, words)
    return float(KMarginal(target, made, group_feature=area).compute_score())
found = {"version": version("sdnist"), "commit": asked["commit"]}
for name, what in (("inside", ""), ("beyond", ", beyond the target")):
    found["score" + what] = score(name, asked["columns"], None)
    found["within areas" + what] = score(name, asked["columns"] + ["pay"], "PUMA")
"""
END = "\nprint(json.dumps(found))\n"


def asked_of_accounting() -> dict:
    orders = [float(each) for each in parity.ORDERS]
    return {"releases": parity.RELEASES, "delta": parity.DELTA, "orders": orders}


def asked_of_mbi() -> dict:
    asked = {"levels": parity.LEVELS, "queries": parity.QUERIES}
    asked["tables"] = [rows.tolist() for rows in parity.tables_of_codes()]
    return {**asked, "ranges": [*parity.RANGES.items()]}


def asked_of_sdnist(work: Path) -> dict:
    """The words of its data dictionary; the tables are written into the folder."""
    for name in ("inside", "beyond"):
        for place, frame in enumerate(parity.excerpts(name == "beyond")):
            frame.to_csv(work / f"{name}_{place}.csv", index=False)
    words = {}
    for column in parity.NIST.columns:
        ends = {"min": column.low, "max": column.high}
        words[column.name] = {"values": ends if column.kind == "numeric" else column.categories}
    low, high = parity.PAY
    words["pay"] = {"values": {"min": low, "max": high}, "null_value": parity.GAP}
    return {"words": words, "columns": [*parity.SCHEMA.names], "commit": SDNIST_COMMIT}


def main(folder: Path, sdnist: Path) -> None:
    head = ["git", "-C", sdnist, "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    if commit != SDNIST_COMMIT:
        sys.exit(f"parity.py: the checkout of SDNist is at {commit}, not at {SDNIST_COMMIT}")
    found = {}
    for name, packages, worker in (
        ("dp-accounting", ["dp-accounting==0.6.0"], ACCOUNTING),
        ("mbi", ["mbi==2.0.0"], MBI),
        ("sdnist", [str(sdnist)], SDNIST),
    ):
        python = environment(folder, packages, name=name)
        with tempfile.TemporaryDirectory() as work:
            asks = {"dp-accounting": asked_of_accounting, "mbi": asked_of_mbi}
            asked = asks[name]() if name in asks else asked_of_sdnist(Path(work))
            (Path(work) / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
            command = [python, "-W", "ignore", "-c", BEGIN + worker + END]
            done = subprocess.run(command, cwd=work, check=True, stdout=subprocess.PIPE, text=True)
        found[name] = json.loads(done.stdout.strip().splitlines()[-1])
    path = Path(__file__).parents[1] / "tests" / "parity.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
