"""What anonymeter measures on three made-up tables, for tests/test_anonymity.py to compare with.

    PYTHONPATH=.:tests .venv/bin/python .ci/anonymeter_rates.py PYTHON_THAT_HAS_ANONYMETER

The package (1.1.0) runs in an environment of its own; its success rates are kept in
tests/anonymeter_rates.json. No code of it is here: the worker only calls what it documents.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from test_anonymity import HALVES, OTHERS, REAL, half_a_copy

WORKER = """
import json, sys
import numpy as np, pandas as pd
from importlib.metadata import version
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
real, control, made = (pd.read_csv(f"{name}.csv") for name in ("real", "control", "made"))
halves, tables = json.load(open("halves.json")), {"ori": real, "syn": made, "control": control}
np.random.seed(0)
found = {}
def keep(name, evaluator):
    results = evaluator.results(confidence_level=0.95)
    rates = {k: list(getattr(results, f"{k}_rate")) for k in ("attack", "baseline", "control")}
    found[name] = {**rates, "risk": list(evaluator.risk(confidence_level=0.95))}
for mode in ("univariate", "multivariate"):
    attack = SinglingOutEvaluator(**tables, n_attacks=300)
    keep(f"singling out, {mode}", attack.evaluate(mode=mode))
attack = LinkabilityEvaluator(**tables, n_attacks=300, aux_cols=halves, n_neighbors=1)
keep("linkability", attack.evaluate(n_jobs=1))
for secret in ("ill", "debt"):
    others = [name for name in real if name != secret]
    attack = InferenceEvaluator(
        **tables, n_attacks=300, aux_cols=others, secret=secret, regression=secret == "debt"
    )
    keep(f"inference, {secret}", attack.evaluate(n_jobs=1))
print(json.dumps({"anonymeter": version("anonymeter"), "numpy": np.__version__, **found}))
"""


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = {"real": REAL, "control": OTHERS, "made": half_a_copy()}
        for name, frame in tables.items():
            frame.to_csv(Path(folder) / f"{name}.csv", index=False)
        (Path(folder) / "halves.json").write_text(json.dumps(HALVES), encoding="utf-8")
        command = [python, "-W", "ignore", "-c", WORKER]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    path = Path(__file__).parents[1] / "tests" / "anonymeter_rates.json"
    path.write_text(json.dumps(json.loads(done.stdout), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
