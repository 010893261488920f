"""The protocol of martinez2024 that its notebooks share: one cell is one scenario, one model, one
group of measures.

27 federated scenarios for a table and a model (3 divisions, 3 numbers of clients, 3 budgets), the
same for clients alone, and a central model for each budget; `works/scenarios.py` runs them. A
synthetic table is made once, and measured by the notebooks on fidelity, utility and privacy in
turn.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.metrics import attacks, fidelity, utility
from fedsynth_lib.metrics.registry import METRICS
from fedsynth_lib.printed import alternatives
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs import names
from fedsynth_lib.runs.grid import run_grid
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.load import load_table, split
from fedsynth_lib.tables.registry import declared_schema
from fedsynth_lib.works import scenarios
from fedsynth_lib.works.scenarios import Scenario, Tables

WORK = "martinez2024"
DATASETS = ("adult", "bank", "cardio")
PARTITIONS = ("iid", "quantity_skew", "label_skew")  # section 5.2, Dirichlet 0.5
N_CLIENTS = (3, 5, 10)
EPSILONS = (math.inf, 0.5, 1.6)  # section 5.5
MODELS = {"fedbn": bayesian_network, "fedvae": fedvae}
# the convention of each model's epsilon, and its delta (gap 12: 1 / rows of a client or 1e-5, the
# smaller)
MEANT = {
    "fedbn": {"relation": "replace_one", "delta": 0.0},
    "fedvae": {"relation": "add_remove", "delta": 1e-5},
}
PRIVATE_ROUNDS = {"adult": 300, "bank": 300, "cardio": 100}  # of FedVAE with noise, from the text
# what a profile shrinks; `clients`: how many of the client numbers it takes
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        **{"rows": 500, "clients": 1, "splits": 1, "min_rows": 10, "fedbn": {"generations": 25}},
        "fedvae": {"training_rounds": 2, "local_epochs": 2, "batch": 50},
    },
    "quick": {
        **{"rows": 2000, "clients": 3, "splits": 1, "min_rows": 20, "fedbn": {}},
        "fedvae": {"training_rounds": 10, "local_epochs": 10, "batch": 50},
    },
    "paper": {"rows": None, "clients": 3, "splits": 3, "min_rows": 200, "fedbn": {}, "fedvae": {}},
}
NAMES = {  # of the grids, after the notebooks that run them first
    (model, group): f"{number}_{WORK}_{model}_{group}"
    for number, (model, group) in enumerate(
        product(MODELS, ("fidelity", "utility", "privacy")), start=20
    )
}
# The attack on Adult that reproduces the printed scores of real rows, and what is left of the
# printed one (gap 22).
ATTACKS = {
    "adult": {
        "": attacks.SCENARIOS["adult_education"],
        "age, sex, race": attacks.SCENARIOS["adult"],
    },
    "bank": {"": attacks.SCENARIOS["bank"]},
    "cardio": {"": attacks.SCENARIOS["cardio"]},
}

# listed among the categories in section 5.1.1 (gap 3), a number here
CODED = {"adult": ("education-num",)}


def tuned(model: str, dataset: str, *, private: bool = False, **changes: Any) -> Any:
    """A model's settings for a table as the work chose them (tables 5.5 and 5.6); its defaults for
    other tables.

    private: with noise FedVAE has other numbers of rounds. FedVAE encodes and decodes as published.
    """
    if model not in MODELS:
        raise BadInput(f"model {model!r} is unknown: choose one of {', '.join(MODELS)}.")
    exhibit, fields = (
        (
            "tab5.5",
            {
                "population_size": "population",
                "selection_pressure": "selection",
                "aggregation_interval": "interval",
            },
        )
        if model == "fedbn"
        else ("tab5.6", VAE_NAMES)
    )
    printed = load_values(WORK, exhibit)
    printed = printed[printed["dataset"] == dataset]
    chosen = {
        fields[m]: parsed(value)
        for m, value in zip(printed["metric"], printed["printed"], strict=True)
    }
    if model == "fedvae":
        chosen |= fedvae.AS_PUBLISHED | (
            {"training_rounds": PRIVATE_ROUNDS[dataset]} if private and chosen else {}
        )
    chosen |= changes
    return MODELS[model].Config(
        **{name: tuple(v) if isinstance(v, list) else v for name, v in chosen.items()}
    )


VAE_NAMES = {
    "global_epochs": "training_rounds",
    "local_epochs": "local_epochs",
    "batch_size": "batch",
    "compress_dimension": "hidden",
    "embedding_dimension": "embedding",
    "weight_decay": "weight_decay",
    "loss_factor": "loss_factor",
}


def parsed(printed: str) -> int | float | tuple[int, ...]:
    """A printed setting: '[64, 64]' as (64, 64), '100' as 100, '0.001' as 0.001."""
    if printed.startswith("["):
        return tuple(int(part) for part in printed.strip("[]").split(","))
    return float(printed) if "." in printed else int(printed)


def cells(
    model: str,
    datasets: Sequence[str],
    size: Mapping[str, Any],
    *,
    n_clients: Sequence[int] = N_CLIENTS,
    epsilons: Sequence[float] = EPSILONS,
    seed: int,
    settings: Sequence[str] = ("central", "federated", "local"),
) -> list[dict]:
    """The study's cells for one model, each the fields of a Scenario. size: of the profile, one of
    SIZES."""
    return scenarios.grid(
        datasets,
        partitions=PARTITIONS,
        n_clients=n_clients[: size["clients"]],
        epsilons=epsilons,
        seeds=[seed + repeat for repeat in range(size["splits"])],
        settings=settings,
        work=WORK,
        rows=size["rows"],
        min_rows=size["min_rows"],
        **{name: value for name, value in MEANT[model].items() if value},
    )


def grid(
    model: str, group: str, datasets: Sequence[str], size: Mapping[str, Any], **lists: Any
) -> dict[str, Any]:
    """What `run_grid(measure, ...)` needs for all cells of a model and a group of measures; see
    `cells` for lists.

    Utility is measured on the real rows too. Privacy is asked of federated rows only, as in the
    work.
    """
    found = cells(model, datasets, size, **lists)
    if group == "utility":
        found = found + real_cells(found)
    elif group == "privacy":
        found = attacked([c for c in found if c["setting"] == "federated"]) + real_cells(found)
    common = {"model": model, "group": group, "changes": size[model]}
    return {"grid": found, "name": NAMES[model, group], "common": common, "version": version}


def all_rows(
    datasets: Sequence[str], size: Mapping[str, Any], *, profile: str, jobs: int = 1, **lists: Any
) -> pd.DataFrame:
    """The rows of both models and all groups: what their own notebooks have computed is read, the
    rest computed."""
    run = {"profile": profile, "jobs": jobs, "save": False}
    grids = [grid(model, group, datasets, size, **lists) for model, group in NAMES]
    return pd.concat([run_grid(measure, **own, **run) for own in grids], ignore_index=True)


def real_cells(cells: Sequence[Mapping[str, Any]]) -> list[dict]:
    """A cell for the real rows of each table and split of other cells: what the synthetic ones are
    held against."""
    kept = ("dataset", "seed", "work", "table", "rows")
    chosen = {
        (c["dataset"], c["seed"]): {name: c[name] for name in kept} | {"setting": "real"}
        for c in cells
    }
    return list(chosen.values())


def attacked(cells: Sequence[Mapping[str, Any]]) -> list[dict]:
    """The cells, those marked that tables 6.7 and 6.13 attack: most clients, not under quantity
    skew."""
    most = max((c["n_clients"] for c in cells if "n_clients" in c), default=0)
    chosen = [c["n_clients"] == most and c["partition"] != "quantity_skew" for c in cells]
    return [
        {**c, "attack": True} if mark and c["dataset"] in ATTACKS else dict(c)
        for c, mark in zip(cells, chosen, strict=True)
    ]


def measure(
    model: str,
    group: str,
    changes: Mapping[str, Any] | None = None,
    attack: bool = False,
    variant: str = "",
    column: str = "",
    **scenario: Any,
) -> list[Row]:
    """Rows of one cell. group: 'fidelity', 'utility', 'privacy', or one of LOOKS.

    changes: of the model's settings. attack: run the attribute disclosure too.
    variant: what its rows call these changes. column: whose shares are asked for.
    """
    if group not in MEASURED:
        raise BadInput(f"group {group!r} is unknown: choose one of {', '.join(MEASURED)}.")
    looked = _look(group, column)
    if scenario.get("setting") == "real":
        return _real(model, group, scenario, looked)
    chosen = Scenario(**scenario)
    config = tuned(
        model, chosen.dataset, private=chosen.privacy.epsilon is not None, **(changes or {})
    )

    def attack_rows(tables: Tables, frame: pd.DataFrame) -> list[Row]:
        return disclosed(tables, frame, chosen.dataset, chosen.seed) if attack else []

    groups = () if looked else (group,)
    return scenarios.measure(
        MODELS[model], chosen, config, groups=groups, more=looked or attack_rows
    )


def _look(group: str, column: str) -> Callable[[Tables, pd.DataFrame], list[Row]] | None:
    """How to look at a table for a group of LOOKS; None for other groups."""
    return partial(LOOKS[group], column=column) if group == "shares" else LOOKS.get(group)


def _real(
    model: str, group: str, scenario: Mapping[str, Any], looked: Callable | None
) -> list[Row]:
    """The same measurements on the real training rows in place of synthetic ones."""
    found = scenarios.tables(Scenario(**{**scenario, "setting": "central"}))
    shared = {
        "paper": WORK,
        "method": model,
        "data": found.train.data,
        "partition": "none",
        "n_clients": None,
    }
    if looked or group == "privacy":
        look = looked or partial(disclosed, dataset=scenario["dataset"], seed=scenario["seed"])
        return [{**shared, "epsilon": math.inf, **row} for row in look(found, found.train.frame)]
    values = utility.auc(
        found.train.frame, found.holdout.frame, found.train.schema, scenario["seed"]
    )
    return [
        {**shared, "epsilon": e, "metric": name, "value": v}
        for e in EPSILONS
        for name, v in values.items()
    ]


def described(dataset: str, table: str = "") -> Row:
    """What table 5.1 counts: rows, columns by kind with the target, and the share of the larger
    class in percent."""
    whole = load_table(dataset, work=WORK)
    whole.expect(table)
    kinds = {
        "n_categorical": len(whole.schema.categorical),
        "n_numerical": len(whole.schema.numeric),
    }
    larger = 100 * whole.frame[whole.schema.target].value_counts(normalize=True).max()
    return {
        "paper": WORK,
        "data": whole.data,
        "n_instances": len(whole),
        **kinds,
        "larger_class_percent": larger,
    }


def summary(counted: pd.DataFrame) -> dict[tuple[str, str], Any]:
    """(table, entry of table 5.1) -> what stands there: `described` of some tables, and what their
    schemas declare.

    combinations: of the levels of all categorical columns, target included.
    """
    counts = counted.pivot(index="dataset", columns="metric", values="value")
    entries: dict[tuple[str, str], Any] = {}
    for key, own in counts.iterrows():
        schema, larger = declared_schema(key, WORK), own.pop("larger_class_percent")
        kind = "binary" if len(schema[schema.target].categories) == 2 else "multi-class"
        levels = [len(schema[name].categories) for name in schema.categorical]
        found = {name: int(number) for name, number in own.items()}
        found |= {
            "target": schema.target,
            "class_ratio_percent": f"{larger:.0f}:{100 - larger:.0f}",
        }
        found |= {"task": f"{kind} classification", "combinations": np.prod(levels)}
        entries |= {(key, name): entry for name, entry in found.items()}
    return entries


def scales(dataset: str, seed: int, table: str = "") -> list[Row]:
    """Distances between the real parts of a whole table on several scales
    (`alternatives.distances_by_scale`)."""
    whole = load_table(dataset, work=WORK)
    whole.expect(table)
    found = alternatives.distances_by_scale(
        *split(whole, seed=seed), seed, also=CODED.get(dataset, ())
    )
    shared = {"paper": WORK, "data": whole.data, "setting": "real", "metric": "distance_by_scale"}
    return [{**shared, "item": name, "value": value} for name, value in found.items()]


def disclosed(tables: Tables, frame: pd.DataFrame, dataset: str, seed: int) -> list[Row]:
    """How well rows tell an attribute of training rows, for each of the table's attacks
    (`item`)."""
    real, schema = tables.train.frame, tables.train.schema
    found = {
        name: attacks.attribute_disclosure(real, frame, schema, a, seed)
        for name, a in ATTACKS[dataset].items()
    }
    return [
        {"item": name, "metric": m, "value": v}
        for name, values in found.items()
        for m, v in values.items()
    ]


def by_column(tables: Tables, frame: pd.DataFrame) -> list[Row]:
    """What figures 6.3 and 6.4 show, in numbers (claim c44): `item` names the column or the kind of
    column.

    hellinger_column; classes: categories that occur; association_error: mean absolute error of the
    association matrix over pairs with a numeric column, and over pairs of categorical columns.
    """
    real, schema = tables.train.frame, tables.train.schema
    rows = [
        {"metric": "hellinger_column", "item": name, "value": value}
        for name, value in fidelity.hellinger_by_column(real, frame, schema).items()
    ]
    rows += [
        {"metric": "classes", "item": name, "value": float(frame[name].nunique())}
        for name in schema.categorical
    ]
    error = np.abs(fidelity.associations(real, schema) - fidelity.associations(frame, schema))
    numeric = np.array([column.kind == "numeric" for column in schema.columns])
    touched, pairs = numeric[:, None] | numeric, np.triu(np.ones_like(error, dtype=bool), 1)
    for kind, chosen in (("numeric", pairs & touched), ("categorical", pairs & ~touched)):
        if chosen.any():
            rows.append(
                {"metric": "association_error", "item": kind, "value": float(error[chosen].mean())}
            )
    return rows


def by_bins(tables: Tables, frame: pd.DataFrame) -> list[Row]:
    """The mean Hellinger distance on finer and finer bins of numeric columns (gap 8); `item` says
    how many."""
    real, schema = tables.train.frame, tables.train.schema
    return [
        {
            "metric": "hellinger",
            "item": f"{bins} bins",
            "value": fidelity.hellinger(real, frame, schema, bins=bins),
        }
        for bins in BINS
    ]


def by_share(tables: Tables, frame: pd.DataFrame, column: str) -> list[Row]:
    """What figure 6.3 draws of a column: the share of rows in each bin or category (`item`)."""
    found = fidelity.shares(frame[column], tables.train.schema[column])
    return [{"metric": "share", "item": item, "value": value} for item, value in found.items()]


def by_pair(tables: Tables, frame: pd.DataFrame) -> list[Row]:
    """What figure 6.4 draws: the association of each pair of columns, `item` naming the two (see
    `square`)."""
    names = tables.train.schema.names
    matrix = pd.DataFrame(fidelity.associations(frame, tables.train.schema), names, names)
    pairs = combinations_with_replacement(names, 2)
    return [
        {"metric": "association", "item": f"{a} x {b}", "value": matrix.loc[a, b]} for a, b in pairs
    ]


def square(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The symmetric (columns, columns) matrix of associations that `by_pair` wrote, from its
    rows."""
    values = rows.set_index("item")["value"]
    found = [[values.get(f"{a} x {b}", values.get(f"{b} x {a}")) for b in names] for a in names]
    return pd.DataFrame(found, list(names), list(names))


BINS = (20, 50, 100, 200, 500)
LOOKS: dict[str, Callable[..., list[Row]]] = {  # groups that look at the rows themselves
    "columns": by_column,
    "bins": by_bins,
    "shares": by_share,
    "pairs": by_pair,
}
MEASURED = {  # by each group of measures
    **{
        group: [name for name, measure in METRICS.items() if measure.group == group]
        for group in ("fidelity", "utility", "privacy")
    },
    "columns": ["hellinger_column", "classes", "association_error"],
    **{"bins": ["hellinger"], "shares": ["share"], "pairs": ["association"]},
}


def version(cell: Mapping[str, Any]) -> str:
    """The versions that the rows of a cell rest on."""
    return names.version(cell["model"], MEASURED[cell["group"]])
