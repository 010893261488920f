"""The protocol of sattarov2024 that its notebooks share: one cell is one federation, measured in
all ways of the work.

A fifth of a table is held out for classifiers and for the attacks' control, anew with every seed.
Clients hold blocks of the categories of one column, or equal random shares. Where the scheme is not
as published, quantile maps are made of noisy histograms and epsilon covers the whole run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.metrics import anonymity
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.similarity import fidelity
from fedsynth_lib.metrics.utility import five_classifiers
from fedsynth_lib.runs import names
from fedsynth_lib.runs.details import STRATEGIES
from fedsynth_lib.runs.grid import remember
from fedsynth_lib.runs.rows import Row, with_params
from fedsynth_lib.tables.embedding import joint_map, squares
from fedsynth_lib.tables.encode import standardised
from fedsynth_lib.tables.load import Table, load_table, split
from fedsynth_lib.tables.lock import table_digest
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY

WORK = "sattarov2024"
DATASETS = ("credit_default", "adult", "philadelphia", "bank")  # A to D
EPSILONS = (0.2, 1.0, 10.0, np.inf)
LOCAL_UPDATES = (10, 50, 100, 500, 1000)
CLIENTS = (3, 5, 10)
SCHEMES = {"": findiff.AS_PUBLISHED, "private end to end": {"encoding": "histograms"}}
# the last two: what measures say of known tables
METHOD, REAL, SHUFFLED = "DP-Fed-FinDiff", "Real", "Independent"
LINKED, FEWER_LINKED = 10, {"philadelphia": 6}  # attributes that a linkage attack knows
WIDTHS = {"philadelphia": 2048}
LEAST_ROWS = 200  # of the smallest of ten clients, if a column allows it
NEIGHBOURS, MIXED_ROWS = 10, 1000
# of figure 6: rows of each table, squares along each side of the map
MAPPED_ROWS, SQUARES = 700, 40
SIZES: dict[str, dict[str, Any]] = {  # what a profile shrinks
    "smoke": {
        **{"rows": 200, "seeds": 1, "attacks": 20, "datasets": 2, "updates": (10, 50)},
        "changes": {"training_rounds": 1, "hidden": [16, 16], "steps": 20},
    },
    "quick": {
        **{"rows": 2000, "seeds": 1, "attacks": 200, "datasets": 4, "updates": LOCAL_UPDATES},
        "changes": {"training_rounds": 4, "hidden": [128, 128, 128], "learning_rate": 1e-3},
    },
    "paper": {
        **{"rows": None, "seeds": 3, "attacks": 500, "datasets": 4, "updates": LOCAL_UPDATES},
        "changes": {"sampling_precision": "bfloat16"},
    },
}


class Prepared(NamedTuple):
    train: Table
    test: Table


@lru_cache(maxsize=4)
def prepared(dataset: str, rows: int | None, seed: int) -> Prepared:
    """Training and test rows, four to one; `rows` training rows at most."""
    train, test = split(load_table(dataset, work=WORK if dataset in REGISTRY else None), seed=seed)
    if rows is not None and rows < len(train):
        train, test = train.take(np.arange(rows)), test.take(np.arange(min(rows // 4, len(test))))
    return Prepared(train, test)


@lru_cache(maxsize=8)
def split_column(dataset: str) -> str:
    """The column whose categories the clients of the uneven split hold; the work does not name its
    own.

    Of the categorical columns but the target that have a category for each of ten clients: the one
    whose blocks leave five clients the most unequal (the largest share), if the smallest of ten has
    200 rows; else the one whose smallest has most.
    """
    table = load_table(dataset, work=WORK if dataset in REGISTRY else None)
    found = {}
    for name in table.schema.categorical:
        counts = table.frame[name].value_counts(sort=False)
        counts = counts[counts > 0].to_numpy()
        if name != table.schema.target and len(counts) >= max(CLIENTS):
            five, ten = (
                np.array([block.sum() for block in np.array_split(counts, n)])
                for n in (5, max(CLIENTS))
            )
            found[name] = (min(ten.min(), LEAST_ROWS), five.max())
    if not found:
        raise BadInput(
            f"{dataset}: no categorical column but the target has {max(CLIENTS)} categories to "
            "divide by; take iid."
        )
    return max(found, key=found.get)


def divided(dataset: str, train: Table, partition: str, n_clients: int, seed: int) -> Parts:
    """Rows of each client: equal random shares for `iid`; for `noniid` as many categories of one
    column each as can be.

    Categories stand in declared order, a client holds neighbours.
    """
    if partition == "iid":
        return split_clients(train, "iid", n_clients, seed=seed)
    if partition != "noniid":
        raise BadInput(f"partition {partition!r} is unknown to {WORK}: choose iid or noniid.")
    column = split_column(dataset)
    # of the categories that occur
    blocks = np.array_split(np.arange(train.frame[column].nunique()), n_clients)
    sizes = np.array([len(block) for block in blocks])
    owners = np.repeat(np.arange(n_clients), sizes)
    proportions = (owners == np.arange(n_clients)[:, None]) / sizes[:, None].clip(1)
    return split_clients(
        train, "by_strata", n_clients, seed=seed, column=column, proportions=proportions
    )


def configured(
    dataset: str, local_updates: int, strategy: str, scheme: str, changes: Mapping[str, Any]
) -> findiff.Config:
    """The method's settings. changes: what a profile shrinks."""
    if scheme not in SCHEMES:
        raise BadInput(
            f"scheme {scheme!r} is unknown: choose one of {', '.join(map(repr, SCHEMES))}."
        )
    width = WIDTHS.get(dataset, 1024)
    own = {"local_updates": local_updates, "strategy": strategy, "hidden": (width,) * 3} | SCHEMES[
        scheme
    ]
    own |= changes
    return findiff.Config(**own | {"hidden": tuple(own["hidden"])})


def synthetic(
    dataset: str,
    seed: int,
    *,
    epsilon: float = 1.0,
    partition: str = "noniid",
    n_clients: int = 5,
    local_updates: int = 100,
    strategy: str = "fedavg",
    scheme: str = "",
    rows: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> tuple[pd.DataFrame, dict]:
    """A federation's synthetic table, as many rows as were trained on, and its facts; made once and
    kept.

    epsilon: of each client, for adding or removing one of its rows, with delta one over all
        training rows, the literal and stricter reading; inf: no noise.
    """
    train, _ = prepared(dataset, rows, seed)
    config = configured(dataset, local_updates, strategy, scheme, changes or {})
    private = np.isfinite(epsilon)
    privacy = Privacy(epsilon, 1 / len(train), reproduction=True) if private else Privacy()
    parts = divided(dataset, train, partition, n_clients, seed)
    key = {
        "method": findiff.__name__,
        "version": findiff.VERSION,
        "config": asdict(config),
        "seed": seed,
    }
    key |= {
        "train": train.digest,
        "partition": partition,
        "clients": n_clients,
        "epsilon": epsilon if private else None,
    }

    def make() -> tuple[pd.DataFrame, dict]:
        run = settings.federated(findiff, train, parts, config=config, privacy=privacy, seed=seed)
        return run.synthetic, {
            name: getattr(run, name) for name in ("statement", "seconds", "bytes_up", "bytes_down")
        }

    return remember(key, make)


def measure(
    dataset: str,
    seed: int,
    method: str = METHOD,
    attacks: int = 500,
    rows: int | None = None,
    table: str = "",
    epsilon: float = 1.0,
    **run: Any,
) -> list[Row]:
    """The measurements of one federation as rows; of method Real the training rows, of Independent
    these shuffled.

    fidelity, accuracy (utility) and risk, each with its parts. table: digest of the table that the
    grid was made for. run: as `synthetic` takes it.
    """
    train, test = prepared(dataset, rows, seed)
    train.expect(table)
    shared: Row = {
        "paper": WORK,
        "dataset": dataset,
        "method": method,
        "data": train.data,
        "seed": seed,
    }
    if method == METHOD:
        frame, facts = synthetic(dataset, seed, epsilon=epsilon, rows=rows, **run)
        statement = facts["statement"]
        shared |= {name: facts[name] for name in ("seconds", "bytes_up", "bytes_down")}
        shared |= {
            "setting": "federated",
            "epsilon": epsilon,
            "unprotected": len(statement["unprotected"]),
        }
        shared |= {
            "partition": run.get("partition", "noniid"),
            "n_clients": run.get("n_clients", 5),
        }
        shared["epsilon_spent"] = statement["epsilon_protected"] if np.isfinite(epsilon) else None
    else:
        frame = train.frame if method == REAL else shuffled(train.frame, seed)
        shared |= {"setting": "real", "partition": "none"}
    values = fidelity(train.frame, frame, train.schema)
    values |= five_classifiers(frame, test.frame, train.schema, seed=seed)
    values |= risks(train, test.frame, frame, seed=seed, attacks=attacks)
    values["mixing"] = mixing(train, frame, seed=seed)
    return [{**shared, "metric": name, "value": value} for name, value in values.items()]


def risks(
    train: Table, control: pd.DataFrame, frame: pd.DataFrame, *, seed: int, attacks: int
) -> dict[str, float]:
    """Singling out (the mean of both modes), linkability, inference (the mean over all columns as
    secrets), `risk`.

    Residual risks, from 0 to 1, as Giomi et al. define them, each with `_low` and `_high` of 95
    percent, and `_success`: of the main attack alone, which includes what can be inferred about
    anybody.
    """
    schema, tables = train.schema, (train.frame, control, frame, train.schema)
    options = {"seed": seed, "attacks": attacks}
    one, several = (
        anonymity.singling_out(*tables, mode=m, **options) for m in ("univariate", "multivariate")
    )
    others = [name for name in schema.names if name != schema.target] or list(schema.names)
    known = others[: FEWER_LINKED.get(train.key, LINKED)]
    found = {
        "singling_out_univariate": [one],
        "singling_out_multivariate": [several],
        "singling_out": [one, several],
        "linkability": [anonymity.linkability(*tables, known=(known[::2], known[1::2]), **options)],
        "inference": [
            anonymity.inference(*tables, secret=name, **options) for name in schema.names
        ],
    }
    values = {}
    for name, parts in found.items():
        values |= {f"{name}{suffix}": value for suffix, value in _summary(parts).items()}
    for suffix in ("", "_success"):
        values[f"risk{suffix}"] = float(
            np.mean(
                [values[f"{name}{suffix}"] for name in ("singling_out", "linkability", "inference")]
            )
        )
    return values


def _summary(parts: Sequence[anonymity.Risk]) -> dict[str, float]:
    """The mean of independent estimates, with its interval; where attacks were possible at all."""
    parts = [part for part in parts if part.attacks] or [parts[0]]
    middle = float(np.mean([part.residual for part in parts]))
    low, high = (
        np.sqrt(np.sum([(part.residual - part.interval[side]) ** 2 for part in parts])) / len(parts)
        for side in (0, 1)
    )
    success = float(np.mean([part.main.value for part in parts]))
    return {
        "": middle,
        "_low": middle - float(low),
        "_high": middle + float(high),
        "_success": success,
    }


def mixing(train: Table, frame: pd.DataFrame, *, seed: int) -> float:
    """How well two tables mix: the share of the other one among a row's ten nearest neighbours; 0.5
    if they are alike.

    Of at most 1,000 rows of each, by standardised numbers and one-hot categories.
    """
    rng, size = stream(seed, "mixing"), min(MIXED_ROWS, len(train), len(frame))
    both = [each.iloc[np.sort(rng.permutation(len(each))[:size])] for each in (train.frame, frame)]
    points = standardised(pd.concat(both, ignore_index=True), train.schema)
    places, own = nearest(points, points, NEIGHBOURS + 1)[1], np.arange(len(points))
    other = places != own[:, None]
    other[other.all(axis=1), -1] = False  # among many equal rows a row may not find itself
    places, first = places[other].reshape(len(points), -1), own < size
    return float((first[places] != first[:, None]).mean())


def shuffled(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Each column in an order of its own: distributions stay, all dependence goes."""
    rng = stream(seed, "shuffled")
    return pd.DataFrame(
        {name: column.iloc[rng.permutation(len(frame))].array for name, column in frame.items()}
    )


def cells(size: Mapping[str, Any], datasets: Sequence[str], **lists: Any) -> list[dict]:
    """Cells of a grid: every combination of tables, seeds 0, 1, ... and of the values of `lists`.

    size: of the profile, one of SIZES. lists: of `measure` and `synthetic`; a single value stands
    for a list of one. A value that is the default is left out, so that the grids of several
    questions share their cells.
    """
    lists = {
        name: value if isinstance(value, list | tuple) else [value] for name, value in lists.items()
    }
    found: dict[str, dict] = {}
    for dataset, seed, *values in product(datasets, range(size["seeds"]), *lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        own = {name: value for name, value in chosen.items() if value != DEFAULTS.get(name)}
        table = table_digest(dataset, work=WORK if dataset in REGISTRY else None)
        fixed = {"rows": size["rows"], "attacks": size["attacks"], "table": table}
        fixed |= (
            {"changes": dict(size["changes"])} if chosen.get("method", METHOD) == METHOD else {}
        )
        cell = {"dataset": dataset, "seed": seed, **own, **fixed}
        found.setdefault(repr(cell), cell)
    return list(found.values())


def shares(dataset: str, table: str = "") -> list[Row]:
    """Figure 3, as `run_grid` takes it: the share of the rows that each client (`node`, from 1)
    holds, uneven split.

    item: the column that was divided by. table: digest of the table that the grid was made for.
    """
    whole = load_table(dataset, work=WORK if dataset in REGISTRY else None)
    whole.expect(table)
    shared: Row = {"paper": WORK, "data": whole.data, "partition": "noniid", "setting": "real"}
    found: list[Row] = []
    for count in CLIENTS:
        for node, part in enumerate(divided(dataset, whole, "noniid", count, 0), start=1):
            own = {"n_clients": count, "node": str(node), "item": split_column(dataset)}
            found.append(
                {**shared, **own, "metric": "client_share", "value": len(part) / len(whole)}
            )
    return found


def placed(
    dataset: str,
    seed: int,
    epsilons: Sequence[float],
    rows: int | None = None,
    changes: Mapping[str, Any] | None = None,
    most: int = MAPPED_ROWS,
    table: str = "",
) -> list[Row]:
    """Figure 6, as `run_grid` takes it: where rows lie in one t-SNE map of real rows and of a
    federation a budget.

    map_share: of a table's rows, at most `most` of each, those in one of SQUARES x SQUARES squares
        of the map (`item`: its column and row, from 0); squares without any have none. Real rows
        have the setting `real` and no epsilon.
    """
    train, _ = prepared(dataset, rows, seed)
    train.expect(table)
    drawn = {np.nan: train.frame}
    drawn |= {
        e: synthetic(dataset, seed, epsilon=e, rows=rows, changes=changes)[0] for e in epsilons
    }
    few = [frame.sample(min(most, len(frame)), random_state=seed) for frame in drawn.values()]
    points = standardised(pd.concat(few, ignore_index=True), train.schema)
    together = joint_map(np.split(points, np.cumsum([len(frame) for frame in few])[:-1]), seed=seed)
    places = np.split(
        squares(np.concatenate(together), SQUARES), np.cumsum([len(part) for part in together])[:-1]
    )
    found: list[Row] = []
    for epsilon, part in zip(drawn, places, strict=True):
        held, counts = np.unique(part, axis=0, return_counts=True)
        real = np.isnan(epsilon)
        shared: Row = {"paper": WORK, "data": train.data, "metric": "map_share", "epsilon": epsilon}
        shared |= (
            {"method": REAL, "setting": "real"}
            if real
            else {"method": METHOD, "setting": "federated"}
        )
        for (column, row), count in zip(held.tolist(), counts.tolist(), strict=True):
            found.append({**shared, "item": f"{column} {row}", "value": count / len(part)})
    return found


DEFAULTS = {
    **{"method": METHOD, "epsilon": 1.0, "partition": "noniid", "n_clients": 5},
    **{"local_updates": 100, "strategy": "fedavg", "scheme": ""},
}


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns `local_updates`, `strategy` (as printed) and `scheme`; real rows have
    none."""
    rows = with_params(
        rows, **{name: DEFAULTS[name] for name in ("local_updates", "strategy", "scheme")}
    )
    trained = rows["setting"] != "real"
    return rows.assign(
        local_updates=pd.to_numeric(rows["local_updates"].where(trained)).astype("Int64"),
        strategy=rows["strategy"].map(STRATEGIES).where(trained),
        scheme=rows["scheme"].where(trained, ""),
    )


SINGLING_OUT = ("singling_out", "singling_out_univariate", "singling_out_multivariate")
RISKS = ("risk", *SINGLING_OUT, "linkability", "inference")
MEASURED = [
    *("fidelity", "fidelity_columns", "fidelity_pairs", "mixing", *RISKS),
    *(f"accuracy{model}" for model in ("", "_ada", "_dt", "_lr", "_mlp", "_rf")),
]


def version(cell: Mapping[str, Any]) -> str:
    """The versions that the rows of a cell rest on; real and shuffled rows come from no method."""
    return names.version("findiff" if cell["method"] == METHOD else "", MEASURED)
