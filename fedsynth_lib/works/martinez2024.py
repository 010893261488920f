"""Code specific to martinez2024: its settings of a model, its measures and what they look at.

A table is split into training and hold-out rows, the training rows are divided, and as many rows
are made as all clients hold together, in each of the three settings (gap 25). A synthetic table is
made once, and measured by the notebooks on fidelity, utility and privacy in turn, against the
pooled training rows.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.methods import METHODS
from fedsynth_lib.metrics import attacks, fidelity, utility
from fedsynth_lib.metrics.evaluation import evaluate
from fedsynth_lib.metrics.registry import METRICS
from fedsynth_lib.printed import alternatives
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables.load import Table, load_table, split
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Made, Prepared, Whole

WORK = load("martinez2024")
GROUPS = ("fidelity", "utility", "privacy")
PARTITION_SEED = WORK.constants["partition_seed"]
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
_BN = {
    **{"population_size": "population", "selection_pressure": "selection"},
    "aggregation_interval": "interval",
}
_VAE = {
    **{"global_epochs": "training_rounds", "local_epochs": "local_epochs", "batch_size": "batch"},
    **{"compress_dimension": "hidden", "embedding_dimension": "embedding"},
    **{"weight_decay": "weight_decay", "loss_factor": "loss_factor"},
}
# of a model: where they stand, and the fields that they are
PRINTED_SETTINGS = {"fedbn": ("tab5.5", _BN), "fedvae": ("tab5.6", _VAE)}
BINS: dict[str, fidelity.Bins] = {f"{k} bins": k for k in (20, 50, 100, 200, 500)}
BINS |= {"own values": "values", "Freedman-Diaconis": "fd"}
MEASURED = {  # by each group of measures
    **{group: [name for name, m in METRICS.items() if m.group == group] for group in GROUPS},
    "columns": ["hellinger_column", "classes", "association_error"],
    **{"bins": ["hellinger"], "shares": ["share"], "pairs": ["association"]},
}


@lru_cache(maxsize=4)
def prepare(dataset: str, rows: int | None, seed: int, work: str | None) -> Prepared:
    """Training and hold-out rows of a table, or of a random subsample."""
    table = load_table(dataset, work=work, rows=rows, seed=PARTITION_SEED)
    return Prepared(*split(table, seed=seed))


def divide(prepared: Prepared, partition: str, n_clients: int, min_rows: int | None) -> Parts:
    """Rows of each client; `min_rows` of the smallest, 200 if None."""
    options: dict[str, Any] = {}
    if partition in ("quantity_skew", "label_skew"):
        options["min_rows"] = 200 if min_rows is None else min_rows
    if partition == "label_skew":
        options["balanced"] = True  # the rule of FedLab, which the work divides with
    return split_clients(prepared.train, partition, n_clients, seed=PARTITION_SEED, **options)


def configure(
    dataset: str,
    model: str,
    epsilon: float | None,
    relation: str | None,
    delta: float | None,
    changes: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], Privacy]:
    """Return the work's settings for a table, and its guarantee in the convention that it means."""
    asked = None if epsilon is None or math.isinf(epsilon) else epsilon
    own = tuned(model, dataset, private=asked is not None, **(changes or {}))
    return own, Privacy(asked, delta or 0.0, relation or "add_remove", reproduction=True)


def tuned(model: str, dataset: str, *, private: bool = False, **changes: Any) -> dict[str, Any]:
    """Return a model's settings for a table as the work chose them (tables 5.5 and 5.6).

    There are none for other tables, which take the defaults. private: with noise FedVAE has other
    numbers of rounds. FedVAE encodes and decodes as published.
    """
    WORK.method(model)
    chosen = dict(published_settings(model).get(dataset, {}))
    if model == "fedvae":
        rounds = {"training_rounds": WORK.constants["private_rounds"].get(dataset)}
        chosen |= METHODS[model].AS_PUBLISHED | (rounds if private and chosen else {})
    return chosen | changes


@lru_cache
def published_settings(model: str) -> dict[str, dict[str, Any]]:
    """Return data set -> the settings of a model that table 5.5 or 5.6 has for it.

    Every experiment of a grid asks for them, so the table is read once.
    """
    exhibit, named = PRINTED_SETTINGS[model]
    values = load_values(WORK.key, exhibit)
    found: dict[str, dict[str, Any]] = {}
    for dataset, metric, text in values[["dataset", "metric", "printed"]].itertuples(index=False):
        found.setdefault(dataset, {})[named[metric]] = parsed(text)
    return found


def shorter(dataset: str) -> dict[str, Any]:
    """Return shorter settings of FedVAE with noise that keep its signal-to-noise ratio.

    They replace `tuned`, and make a hundredth of its passes over Adult and Bank: a tenth of the
    rounds of a tenth of the passes (one at least), by larger batches, which keep the noise off its
    floor (`core.signal`).

    Adam's rate grows by the root of the steps left out, so that noise carries the parameters as
    far, and gradients do, too.
    """
    full = tuned("fedvae", dataset, private=True)
    found = {name: max(1, full[name] // 10) for name in ("training_rounds", "local_epochs")}
    found["batch"] = 500
    steps = [
        each["training_rounds"] * each["local_epochs"] / each["batch"] for each in (full, found)
    ]
    rate = METHODS["fedvae"].Config().learning_rate * math.sqrt(steps[0] / steps[1])
    return found | {"learning_rate": float(f"{rate:.3g}")}


def parsed(printed: str) -> int | float | tuple[int, ...]:
    """Parse a published setting: '[64, 64]' as (64, 64), '100' as 100, '0.001' as 0.001."""
    if printed.startswith("["):
        return tuple(int(part) for part in printed.strip("[]").split(","))
    return float(printed) if "." in printed else int(printed)


# --- grids ---------------------------------------------------------------------------------------


def meant(cell: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a cell of a grid that follow from its others.

    These are the convention of its epsilon, the least rows of a client, and whether it is attacked.

    chosen: holds `sized`: min_rows, `changes` beyond those that shrink the model, and whether it is
    `shorter`. Real rows have none of these. Attacked are most clients, but not under quantity skew.
    """
    if cell["setting"] == "real":
        return {}
    sized, most = chosen["sized"], max(chosen["n_clients"])
    less = shorter(cell["dataset"]) if sized.get("shorter") else {}
    changes = {**cell.get("changes", {}), **less, **sized.get("changes", {})}
    more = {"changes": changes, "min_rows": sized["min_rows"]}
    more |= WORK.constants["meant"][cell["model"]]
    fit = cell["n_clients"] == most and cell["partition"] != "quantity_skew"
    attacked = cell["group"] == "privacy" and fit and cell["dataset"] in ATTACKS
    return more | ({"attack": True} if attacked else {})


def measured(cell: Mapping[str, Any]) -> list[str]:
    """Return the measures of a cell's group."""
    return MEASURED[_known(cell["group"])]


def all_rows(profile: str, *, jobs: int = 1, **asked: Any) -> pd.DataFrame:
    """Return the result rows of both models and all groups.

    What their own notebooks have computed is read, the rest is computed. asked: as for `grid`;
    values that a grid does not sweep do not count.
    """
    grids = [
        WORK.grid(f"{model} {group}", profile, **asked)
        for model in WORK.methods
        for group in GROUPS
    ]
    return pd.concat([grid.run(jobs=jobs, save=False) for grid in grids], ignore_index=True)


# --- measures ------------------------------------------------------------------------------------


def measures(
    prepared: Prepared,
    made: Made,
    dataset: str,
    group: str,
    setting: str,
    seed: int,
    attack: bool | None,
    column: str | None,
) -> list[Row]:
    """Rows of one group: fidelity, utility, privacy, or one that looks at the rows themselves.

    attack: run the attribute disclosure too. column: whose shares are asked for. Real rows are
    measured as synthetic ones would be, utility once for each budget.
    """
    train, holdout, frame = *prepared, made.frame
    if _known(group) in LOOKS:
        rows = LOOKS[group](train, frame, column)
    elif setting == "real" and group == "utility":
        values = utility.auc(frame, holdout.frame, train.schema, seed)
        budgets = WORK.swept("fedbn fidelity", "central", "epsilon")
        return [{"epsilon": e, "metric": n, "value": v} for e in budgets for n, v in values.items()]
    elif setting == "real":
        rows = disclosed(train, frame, dataset, seed)
    else:
        options = {"seed": seed, "groups": (group,)}
        values = evaluate(train.frame, holdout.frame, frame, train.schema, **options)
        rows = [{"metric": name, "value": value} for name, value in values.items()]
        return [*rows, *(disclosed(train, frame, dataset, seed) if attack else ())]
    return [{"epsilon": math.inf, **row} for row in rows] if setting == "real" else rows


def _known(group: str) -> str:
    if group not in MEASURED:
        raise BadInput(f"group {group!r} is unknown: choose one of {', '.join(MEASURED)}.")
    return group


def described(prepared: Whole) -> dict[str, float]:
    """Count what table 5.1 does: rows, and columns by kind with the target.

    The share of the larger class is in percent.
    """
    whole = prepared.train
    shares = whole.frame[whole.schema.target].value_counts(normalize=True)
    return {
        "n_instances": len(whole),
        "n_categorical": len(whole.schema.categorical),
        "n_numerical": len(whole.schema.numeric),
        "larger_class_percent": 100 * shares.max(),
    }


def scales(prepared: Whole, dataset: str, seed: int) -> dict[tuple[str, str], float]:
    """Return distances between the real parts of a whole table on several scales.

    See `alternatives.distances_by_scale`.
    """
    also = WORK.constants["coded"].get(dataset, ())
    found = alternatives.distances_by_scale(*split(prepared.train, seed=seed), seed, also=also)
    return {(name, "distance_by_scale"): value for name, value in found.items()}


def disclosed(train: Table, frame: pd.DataFrame, dataset: str, seed: int) -> list[Row]:
    """Measure how well rows tell an attribute of training rows, for each of the table's attacks.

    `item` names the attack.
    """
    real, schema = train.frame, train.schema
    found = {
        name: attacks.attribute_disclosure(real, frame, schema, a, seed)
        for name, a in ATTACKS[dataset].items()
    }
    return [
        {"item": name, "metric": m, "value": v}
        for name, values in found.items()
        for m, v in values.items()
    ]


def by_column(train: Table, frame: pd.DataFrame, column: str | None = None) -> list[Row]:
    """Return in numbers what figures 6.3 and 6.4 show (claim c44).

    `item` names the column or the kind of column.

    hellinger_column; classes: categories that occur; association_error: mean absolute error of the
    association matrix over pairs with a numeric column, and over pairs of categorical columns.
    """
    real, schema = train.frame, train.schema
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
            mean = float(error[chosen].mean())
            rows.append({"metric": "association_error", "item": kind, "value": mean})
    return rows


def by_bins(train: Table, frame: pd.DataFrame, column: str | None = None) -> list[Row]:
    """Return the mean Hellinger distance on several bins of numeric columns (gap 8).

    `item` says which bins.
    """
    real, schema = train.frame, train.schema
    found = {k: fidelity.hellinger(real, frame, schema, bins=bins) for k, bins in BINS.items()}
    return [{"metric": "hellinger", "item": name, "value": v} for name, v in found.items()]


def by_share(train: Table, frame: pd.DataFrame, column: str | None) -> list[Row]:
    """Return what figure 6.3 draws of a column: the share of rows in each bin or category.

    `item` names the bin or category.
    """
    found = fidelity.shares(frame[column], train.schema[column])
    return [{"metric": "share", "item": item, "value": value} for item, value in found.items()]


def by_pair(train: Table, frame: pd.DataFrame, column: str | None = None) -> list[Row]:
    """Return what figure 6.4 draws: the association of each pair of columns.

    `item` names the two columns (see `square`).
    """
    names = train.schema.names
    matrix = pd.DataFrame(fidelity.associations(frame, train.schema), names, names)
    pairs = combinations_with_replacement(names, 2)
    return [
        {"metric": "association", "item": f"{a} x {b}", "value": matrix.loc[a, b]} for a, b in pairs
    ]


def square(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the symmetric (columns, columns) matrix of associations from the rows of `by_pair`."""
    values = rows.set_index("item")["value"]
    found = [[values.get(f"{a} x {b}", values.get(f"{b} x {a}")) for b in names] for a in names]
    return pd.DataFrame(found, list(names), list(names))


# groups that look at the rows themselves
LOOKS = {"columns": by_column, "bins": by_bins, "shares": by_share, "pairs": by_pair}
