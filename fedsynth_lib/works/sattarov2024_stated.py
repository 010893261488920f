"""What sattarov2024 states in prose (it has no tables of numbers), compared with ours.

These are settings, sizes, and results where given (`verdicts/custom/readings.py` takes the results
from rows).
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.metrics.anonymity import LINKED
from fedsynth_lib.metrics.utility import FIVE
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.tables.registry import entry
from fedsynth_lib.tables.schema import Schema
from fedsynth_lib.works.declared import load

WORK = load("sattarov2024")
RESULTS = (
    *(
        "privacy_change_percent",
        "utility_change_percent",
        "fidelity_change_percent",
        "best_local_updates",
    ),
    *(
        "noniid_decline_threshold_local_updates",
        "privacy_risk_peak_local_updates",
        "training_hours",
    ),
)


def stated(results: Mapping[str, float], *, settings: bool = True) -> pd.DataFrame:
    """Tabulate the stated numbers: table, method, what, printed, ours (text).

    results: names of RESULTS, `training_hours` as `training_hours 100` and `training_hours 1000`,
    -> ours; those not given are left out. settings: also what is not a result; ours are those of
    the profile `paper`, and of tables what is declared.
    """
    lines = []
    for row in load_values(WORK.key).itertuples():
        name, where = row.metric, row.detail
        if name in RESULTS:
            name = f"{name} {where.rpartition(' ')[2]}" if name == "training_hours" else name
            if name not in results:
                continue
            ours = results[name]
        elif settings:
            ours = _setting(name, row.dataset, row.printed)
        else:
            continue
        if name.endswith("percent") and isinstance(ours, float):
            ours = np.round(ours)  # as the work states them
        elif name.startswith("training_hours"):
            ours = float(f"{ours:.2g}")
        lines.append([row.dataset, row.method, name.replace("_", " "), row.printed, _text(ours)])
    return pd.DataFrame(lines, columns=["table", "method", "what", "printed", "ours"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "–" if pd.isna(value) else f"{value:g}"


def _setting(name: str, dataset: str, printed: str) -> Any:
    if name in _DECLARED:
        return _DECLARED[name](dataset)
    if name in _SWEPT:  # each value has a line
        return next((value for value in _SWEPT[name] if value == float(printed)), "not run")
    return _FIXED[name](dataset)


def _schema(dataset: str) -> Schema:
    """Return the columns that the work uses, as declared.

    `load_table` checks rows against them, so no table is read here.
    """
    return entry(dataset).view(WORK.key).schema(entry(dataset).schema)


def _attributes(dataset: str, kind: str) -> int:
    """Count the columns of a kind, without the table's target.

    The target of philadelphia is the work's own, and one of its ten columns.
    """
    names = _schema(dataset).categorical if kind == "categorical" else _schema(dataset).numeric
    return sum(name != entry(dataset).schema.target for name in names)


_PAPER = WORK.profiles["paper"]
_OURS = findiff.Config(**{**_PAPER["changes"], "hidden": tuple(_PAPER["changes"]["hidden"])})
_DECLARED: dict[str, Callable[[str], int]] = {
    "n_rows": lambda dataset: entry(dataset).view(WORK.key).rows,
    "n_categorical": lambda dataset: _attributes(dataset, "categorical"),
    "n_numerical": lambda dataset: _attributes(dataset, "numeric"),
    "n_departments": lambda dataset: len(_schema(dataset)["dept"].categories),
}
_SWEPT = {
    "local_updates_swept": WORK.swept("fig4", "updates", "local_updates"),
    "n_clients_swept": WORK.swept("fig8", "clients", "n_clients"),
    "epsilon_swept": WORK.swept("fig5", "budget", "epsilon"),
}
_FIXED: dict[str, Callable[[str], Any]] = {
    "hidden_width": lambda _: _OURS.hidden[0],
    "hidden_layers": lambda _: len(_OURS.hidden),
    "max_communication_rounds": lambda _: _OURS.training_rounds,
    "batch_size": lambda _: _OURS.batch,
    "adam_beta1": lambda _: 0.9,  # torch's defaults
    "adam_beta2": lambda _: 0.999,
    "diffusion_steps": lambda _: _OURS.steps,
    "diffusion_beta_start": lambda _: _OURS.first_beta,
    "diffusion_beta_end": lambda _: _OURS.last_beta,
    "categorical_embedding_dim": lambda _: _OURS.embedding,
    "fedadam_beta1": lambda _: _OURS.server_first,
    "fedadam_beta2": lambda _: _OURS.server_second,
    "fedadam_epsilon": lambda _: _OURS.server_tau,
    "fedyogi_beta1": lambda _: _OURS.server_first,
    "fedyogi_beta2": lambda _: _OURS.server_second,
    "fedyogi_epsilon": lambda _: _OURS.server_tau,
    "fedprox_mu": lambda _: _OURS.proximal,
    "delta": lambda _: "1/N",
    "privacy_attacks_per_evaluator": lambda _: _PAPER["attacks"],
    "linkability_attributes": lambda dataset: WORK.constants["linked"].get(dataset, LINKED),
    "singling_out_confidence_percent": lambda _: 95,
    "n_utility_classifiers": lambda _: len(FIVE),
    "pytorch_version": lambda _: version("torch"),
    "flower_version": lambda _: version("flwr"),
    "opacus_version": lambda _: version("opacus"),
    "dython_version": lambda _: "own Theil's U",
}
