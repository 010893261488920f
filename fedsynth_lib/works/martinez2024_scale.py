"""Distances, log-cluster and Hellinger distances as the published values of martinez2024 have them.

Numbers are in [0, 1] by the training rows, categories are label codes, the columns of
`constants.coded` among them; draws are with replacement, and the logarithm is to base 2. The work
states the label codes (its section 2.1.3, of its classifiers) and the draws (5.6.1), and counts
`education-num` among the categories (5.1.1); the rest was inferred from the published values. So
were the bins of numeric columns, by FedBN's tables 6.1 to 6.3, which decide for them by themselves
(notebook 20).
"""

from functools import partial

import numpy as np
import pandas as pd

from fedsynth_lib.metrics import fidelity
from fedsynth_lib.metrics.attacks import closest_records
from fedsynth_lib.metrics.coding import alphabetical_codes, numbers_in_unit
from fedsynth_lib.printed import alternatives
from fedsynth_lib.printed.published import KEYS, compare
from fedsynth_lib.runs.rows import published_size
from fedsynth_lib.works.martinez2024 import WORK
from fedsynth_lib.works.protocol import Cell, Made, Prepared

DISTANCES = ("dcr_min", "dcr_share_printed", "dcr_avg_train_printed", "dcr_avg_holdout")
EXHIBITS = {  # of distances, where they are compared with published values, and of fidelity
    "fedbn": {"adult": ("tab6.6", "tab6.1"), "bank": ("tabA.2", "tab6.2"), "cardio": ("tab6.3",)},
    "fedvae": {
        **{"adult": ("tab6.12", "tab6.8"), "bank": ("tabA.6", "tab6.9")},
        "cardio": ("tabA.7", "tabA.4"),
    },
}
PAIRS = ("pcd", "pmse")  # which no scale moves
DENSE = ("adult", "bank")  # whose printed pairs ask for networks of degree 3 (notebook 20)
OURS, NEAREST = "ours", "nearest"
BY_BUDGET, BY_TABLE = ["exhibit", "metric", "epsilon"], ["dataset", "metric"]
# Of 19 trees this one has the printed pMSE of FedBN's central networks without noise, on all tables
TREE_DEPTH = 6


def measures(
    prepared: Prepared, made: Made, cell: Cell, dataset: str, seed: int
) -> dict[str, float]:
    """Return the measures that the cell's kind names, of the rows of one run."""
    train, holdout, frame = *prepared, made.frame
    schema, pair = train.schema, (train.frame, made.frame)
    measured = {
        "hellinger": partial(fidelity.hellinger, *pair, schema),
        "hellinger_fd": partial(fidelity.hellinger, *pair, schema, bins="fd"),
        "pcd": partial(fidelity.pairwise_correlation_difference, *pair, schema),
        "pmse": partial(fidelity.propensity_mse, *pair, schema, seed),
        "pmse_depth6": partial(fidelity.propensity_mse, *pair, schema, seed, depth=TREE_DEPTH),
    }
    names = cell.kind.measured
    values = {name: measure() for name, measure in measured.items() if name in names}
    if set(DISTANCES) <= set(names):
        coded = WORK.constants["coded"].get(dataset, ())
        scale = numbers_in_unit(alphabetical_codes(train.frame, schema), schema, coded)
        near = closest_records(train.frame, holdout.frame, frame, schema, seed, scale=scale)
        values |= {name: near[name] for name in DISTANCES}
        clusters = fidelity.log_cluster(*pair, schema, seed, scale=scale)
        values["log_cluster_base2"] = clusters["log_cluster_base2"]
    return values


def beside_print(
    model: str, rows: pd.DataFrame, profile: str, tables: list[str], **asked: int
) -> pd.DataFrame:
    """Compare the published scale and ours with the published values (`alternatives.nearest`).

    Rows of the published scale are of profile paper unless in a smoke run; ours are compared if
    these are of profile paper too. rows: ours, of the model's privacy grid. asked: seed and jobs.
    """
    again = _as_printed(f"{model} rescaled", profile, tables, **asked)
    readings = {"rescaled": again} | ({"ours": rows} if profile == "paper" else {})
    return _nearest(readings, model, set(again["dataset"]))


def both_readings(profile: str, tables: list[str], **asked: int) -> pd.DataFrame:
    """Compare both models with the published values by `reading`: OURS and NEAREST.

    The result is that of `published.compare`, of columns, pairs, clusters and distances. OURS is
    the reading of our tables; NEAREST has the published scale and bins, and for FedBN's pairs the
    degree that fits.

    The cells are central and federated, which both have, of profile paper unless in a smoke run.
    asked: seed and jobs.
    """
    found = []
    for model, exhibits in EXHIBITS.items():
        groups = [
            _at_published_size(f"{model} {group}", profile, tables, **asked)
            for group in ("fidelity", "privacy")
        ]
        ours = pd.concat(groups)
        pairs = ours
        if model == "fedbn":
            varied = _at_published_size("fedbn variants", profile, tables, **asked)
            dense = varied[(varied["detail"] == "k = 3") & varied["dataset"].isin(DENSE)]
            pairs = pd.concat([ours[~ours["dataset"].isin(DENSE)], dense.assign(detail="")])
        scaled = _as_printed(f"{model} rescaled", profile, tables, **asked)
        nearest = pd.concat([scaled, pairs[pairs["metric"].isin(PAIRS)]])
        names = [name for table in tables for name in exhibits[table]]
        for reading, rows in {OURS: ours, NEAREST: nearest}.items():
            cells = compare(rows[rows["setting"] != "local"], WORK.key, names)
            found.append(cells.assign(reading=reading))
    cells = pd.concat(found, ignore_index=True)
    ran = cells[cells["n"] > 0]
    both = ran.groupby(["exhibit", *KEYS], dropna=False)["reading"].transform("size") == 2
    return ran[both]


def less_noise(profile: str, tables: list[str], **asked: int) -> pd.DataFrame:
    """Compare federated networks with their noise and with less (`alternatives.nearest`).

    Less noise is the noise of their epsilon divided by the root of the number of clients, which is
    the noise of epsilon times that root. Tables of which it was not run have no rows. asked: seed
    and jobs.
    """
    dosed = [name for name in tables if name in WORK.grid("fedbn less noise", "paper").tables]
    if not dosed:
        return alternatives.nothing_held(BY_BUDGET)
    known = {
        "full noise": _as_printed("fedbn rescaled", profile, dosed, **asked),
        "less": _as_printed("fedbn less noise", profile, dosed, **asked),
    }
    root = np.sqrt(known["less"]["n_clients"])
    known["less"]["epsilon"] = (known["less"]["epsilon"] / root).round(2)
    readings = {
        name: rows[(rows["setting"] == "federated") & (rows["epsilon"] < np.inf)]
        for name, rows in known.items()
    }
    return _nearest(readings, "fedbn", set(dosed))


def by_degree(
    group: str, exhibits: list[str], profile: str, tables: list[str], *, jobs: int = 1, **asked: int
) -> pd.DataFrame:
    """Compare networks of degree 2 and 3 with the published values (`alternatives.nearest`).

    The cells and splits are those that both have, of profile paper unless in a smoke run. There are
    no rows for tables of which degree 3 was not run, and where none of the cells is published, as
    in a smoke run.

    group: utility or privacy. asked: seed.
    """
    dense, scale = f"fedbn dense {group}", published_size(profile)
    ran = [name for name in tables if name in WORK.grid(dense, "paper").tables]
    if not ran:
        return alternatives.nothing_held(BY_TABLE)
    grids = {"k = 2": f"fedbn {group}", "k = 3": dense}
    found = {
        name: WORK.grid(grid, scale, tables=ran, **asked).run(jobs=jobs)
        for name, grid in grids.items()
    }
    keys = ["dataset", "setting", "partition", "n_clients", "epsilon", "seed"]
    both = found["k = 3"][keys].drop_duplicates()
    readings = {
        name: rows[rows["item"] == ""].merge(both, on=keys).assign(detail="")
        for name, rows in found.items()
    }
    if not _meets_print(readings["k = 3"], exhibits):
        return alternatives.nothing_held(BY_TABLE)
    return alternatives.nearest(readings, WORK.key, exhibits, by=BY_TABLE)


def _meets_print(rows: pd.DataFrame, exhibits: list[str]) -> bool:
    return any(compare(rows, WORK.key, exhibit)["n"].any() for exhibit in exhibits)


def _at_published_size(
    grid: str, profile: str, tables: list[str], *, jobs: int = 1, **asked: int
) -> pd.DataFrame:
    """Return a grid's rows, at profile paper unless in a smoke run."""
    return WORK.grid(grid, published_size(profile), tables=tables, **asked).run(jobs=jobs)


def _as_printed(grid: str, profile: str, tables: list[str], **asked: int) -> pd.DataFrame:
    """`_at_published_size`, by the names of the printed values."""
    rows = _at_published_size(grid, profile, tables, **asked)
    plain = rows["metric"].str.replace("_(printed|base2|fd)$", "", regex=True)
    return rows.assign(detail="", metric=plain)


def _nearest(readings: dict[str, pd.DataFrame], model: str, tables: set[str]) -> pd.DataFrame:
    known = [name for table in sorted(tables) for name in EXHIBITS[model][table]]
    return alternatives.nearest(readings, WORK.key, known, by=BY_BUDGET)
