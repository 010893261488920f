"""The hyper-parameter search of martinez2024 (its section 5.5).

`propose` draws configurations with Optuna's samplers: the complete grid for FedBN, random draws for
FedVAE. `measure` is the cell function of `run_grid`: it trains one configuration on one split and
scores it. `configurations` is the table of all scores.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs import names
from fedsynth_lib.runs.details import configuration, with_detail
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.runs.typed import check_names
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.martinez2024 import PRINTED_SETTINGS, parsed
from fedsynth_lib.works.protocol import as_rows

Parameters = dict[str, int | float | str]
STUDY = load("martinez2024")
WORK, DATASETS, MODELS = STUDY.key, STUDY.tables, tuple(STUDY.methods)
N_CLIENTS, PARTITION = 5, "label_skew"  # section 5.5
GRIDS = {  # the grids as shown: model, table, and what is said of it
    "tab5.2": ("fedbn", "adult", ""),
    "tab5.3": ("fedvae", "adult", ", Adult and Bank"),
    "tab5.4": ("fedvae", "cardio", ", Cardio"),
}
STATED = {  # best mean log-cluster that martinez2024 states, section 5.5
    "fedbn": {"adult": -19.0, "bank": -21.68, "cardio": -12.679},
    "fedvae": {"adult": -20.927, "bank": -18.118, "cardio": -15.969},
}
SHOWN = {  # where a search is shown: what was chosen, all configurations, what mattered
    "fedbn": ("tab5.5", "fig5.7", "fig6.1"),
    "fedvae": ("tab5.6", "fig5.8", "fig6.2"),
}
DRAWS = {"fedbn": None, "fedvae": 30}  # None: the complete grid
# printed hyper-parameter -> field of the model's Config
NAMES = {model: fields for model, (_, fields) in PRINTED_SETTINGS.items()}
# What a profile shrinks. divide: numbers of epochs are divided by these, and rounded up so that
# none becomes another. starts: of k-means. shuffles: of `works/chance.py`. draws: how often one
# setting is scored again. models: those that are searched unless others are named.
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        **{"rows": 500, "splits": 1, "min_rows": 10, "starts": 1, "shuffles": 2, "draws": 2},
        "models": MODELS,
        "trials": {"fedbn": 4, "fedvae": 4},
        "changes": {"fedbn": {"generations": 25}},
        "divide": {"global_epochs": 100, "local_epochs": 20},
    },
    "quick": {
        **{"rows": 2000, "splits": 1, "min_rows": 20, "starts": 3, "shuffles": 20, "draws": 5},
        "models": MODELS,
        "trials": DRAWS,
        "changes": {},
        "divide": {"global_epochs": 10, "local_epochs": 4},
    },
    "paper": {
        **{"rows": None, "splits": 3, "min_rows": 200, "starts": 10, "shuffles": 100, "draws": 5},
        "models": ("fedbn",),  # to begin with: FedVAE's takes 32 hours of one core
        "trials": DRAWS,
        "changes": {},
        "divide": {},
    },
}


def grid_of(model: str, dataset: str) -> dict[str, list]:
    """Return the published hyper-parameters with their candidates (tables 5.2 to 5.4).

    Raises BadInput for a model or a table that the work does not search.
    """
    STUDY.method(model)
    check_names(f"{WORK}, search", "table", [dataset], DATASETS)
    printed = _candidates(model)
    printed = printed[[dataset in names.split(";") for names in printed["dataset"]]]
    return {
        name: [_value(text) for text in texts]
        for name, texts in printed.groupby("metric", sort=False)["printed"]
    }


@cache
def _candidates(model: str) -> pd.DataFrame:
    return pd.concat([load_values(WORK, key) for key, (of, *_) in GRIDS.items() if of == model])


def chosen(model: str, dataset: str) -> Parameters:
    """Return the setting that the work chose (tables 5.5 and 5.6)."""
    printed = load_values(WORK, PRINTED_SETTINGS[model][0])
    printed = printed[printed["dataset"] == dataset].set_index("metric")["printed"]
    return {name: _value(printed[name]) for name in grid_of(model, dataset)}


def _value(printed: str) -> int | float | str:
    return printed if printed.startswith("[") else parsed(printed)


def propose(model: str, dataset: str, *, seed: int, trials: int | None = None) -> list[Parameters]:
    """Return the first `trials` configurations of a search; as many as the work tried if None.

    The n-th depends on the grid, the seed and n alone, so a search that is interrupted, made longer
    or moved to another machine tries the same ones.
    """
    grid, draws = grid_of(model, dataset), DRAWS[model]
    optuna = _optuna()
    space = {
        name: optuna.distributions.CategoricalDistribution(values) for name, values in grid.items()
    }
    study = optuna.create_study(sampler=optuna.samplers.GridSampler(grid, seed=seed))
    for trial in range(trials or draws or math.prod(map(len, grid.values()))):
        if draws:
            own = int(stream(seed, "trial", trial).integers(2**32))
            study.sampler = optuna.samplers.RandomSampler(seed=own)
        study.ask(space)
    return [{name: trial.params[name] for name in grid} for trial in study.trials]


def _optuna() -> Any:
    """Return Optuna, silent but for its warnings.

    It is imported late, so that the library loads without it.
    """
    with warnings.catch_warnings():
        # tqdm misses widgets that nobody asks for
        warnings.filterwarnings("ignore", "IProgress not found")
        import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


# --- the cells -----------------------------------------------------------------------------------


def cells(model: str, datasets: Sequence[str], size: Mapping[str, Any], *, seed: int) -> list[dict]:
    """Return a cell for each table, split and proposed configuration.

    size: of the profile, one of SIZES.
    """
    trials = size["trials"][model]
    divide = {name: by for name, by in size["divide"].items() if name in NAMES[model]}
    shared = {"model": model, "changes": size["changes"].get(model, {}), "divide": divide}
    shared |= {name: size[name] for name in ("rows", "min_rows", "starts")}
    return [
        {**shared, "dataset": dataset, "parameters": parameters, "seed": seed + repeat}
        | {"table": table_digest(dataset, work=WORK)}
        for dataset in datasets
        for proposed in [propose(model, dataset, seed=seed, trials=trials)]
        for repeat in range(size["splits"])
        for parameters in proposed
    ]


def measure(
    model: str,
    dataset: str,
    parameters: Parameters,
    seed: int,
    *,
    rows: int | None = None,
    min_rows: int = 200,
    starts: int = 10,
    table: str = "",
    changes: Mapping[str, Any] | None = None,
    divide: Mapping[str, int] | None = None,
    draw: int | None = None,
) -> list[Row]:
    """Return the mean log-cluster over clients of one configuration on one split.

    The seconds of its training are returned as well (of the first, where the run is kept).

    Five clients with label skew and no noise. starts: of k-means. table: digest of the one
        meant. rows: a random subsample; min_rows: of the smallest client.
    changes: of the model's Config. divide: printed name -> divisor of a number.
    draw: scores the same synthetic table with other rows of it and another start of k-means.
    """
    asked = {"dataset": dataset, "seed": seed, "rows": rows, "min_rows": min_rows, "table": table}
    asked |= {"partition": PARTITION, "n_clients": N_CLIENTS, "epsilon": math.inf}
    asked["changes"] = {**_fields(model, parameters, divide or {}), **(changes or {})}
    meant = STUDY.constants["meant"][model]
    cell = STUDY.cell(model, group="fidelity", setting="federated", **asked, **meant)
    ((_, made),) = cell.made()
    train, redrawn = cell.prepared.train, seed
    if draw is not None:
        redrawn = int(stream(seed, "draw", draw).integers(2**31))
    scores = client_scores(train, cell.parts, made.frame, seed=redrawn, starts=starts)
    shared = {"paper": WORK, "dataset": train.key, "data": train.data, "method": model}
    shared |= {"partition": PARTITION, "n_clients": N_CLIENTS, "setting": "tuning"}
    shared |= {"epsilon": math.inf, "seed": seed}
    values = {"log_cluster": float(scores.mean()), "seconds_training": made.facts["seconds"]}
    return [{**shared, **row} for row in as_rows(values)]


def client_scores(
    train: Table,
    parts: Sequence[np.ndarray],
    synthetic: pd.DataFrame,
    *,
    seed: int,
    starts: int = 10,
) -> np.ndarray:
    """Return the log-cluster of each client's own rows against synthetic ones: (clients,).

    For each client as many synthetic rows are drawn at random.
    """
    scores = []
    for client, part in enumerate(parts):
        drawn = stream(seed, "tuning", client).choice(len(synthetic), len(part), replace=False)
        own, made = train.frame.iloc[part], synthetic.iloc[drawn]
        found = fidelity.log_cluster(own, made, train.schema, seed, starts=starts)
        scores.append(found["log_cluster"])
    return np.array(scores)


def configurations(rows: pd.DataFrame, model: str, dataset: str) -> pd.DataFrame:
    """Tabulate the configurations in rows, with score and seconds of training.

    A line has the hyper-parameters, `log_cluster` (mean over splits), `std`, `splits`, and
    `seconds`.
    """
    own = (rows["method"] == model) & (rows["dataset"] == dataset)
    found = rows[(rows["setting"] == "tuning") & own]
    if found.empty or found["profile"].nunique() > 1:
        what = "no search" if found.empty else "several profiles"
        raise BadInput(f"rows hold {what} of {model} on {dataset}: give the rows of one.")
    found = with_detail(found)  # of a search it is the configuration
    scores = found[found["metric"] == "log_cluster"].groupby("detail", sort=False)["value"]
    table = scores.agg(log_cluster="mean", std="std", splits="size")
    seconds = found[found["metric"] == "seconds_training"]
    table["seconds"] = seconds.groupby("detail")["value"].mean()
    parameters = pd.DataFrame([configuration(detail) for detail in table.index], table.index)
    return pd.concat([parameters, table], axis=1).reset_index()


def version(cell: Mapping[str, Any]) -> str:
    """Return the versions that the rows of a cell rest on."""
    return names.version(cell["model"], ("log_cluster", "seconds_training"))


def _fields(model: str, parameters: Parameters, divide: Mapping[str, int]) -> dict[str, Any]:
    """Return the model's settings of a configuration, epochs divided."""
    values = {name: parsed(v) if isinstance(v, str) else v for name, v in parameters.items()}
    values |= {name: math.ceil(values[name] / by) for name, by in divide.items() if name in values}
    return {NAMES[model][name]: value for name, value in values.items()}
