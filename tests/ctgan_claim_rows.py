"""Rows of a run of leitner2023, made by hand so that its claims hold, for the tests of the
checks."""

from itertools import product

import numpy as np

from fedsynth_lib.verdicts.claims_ctgan_rows import DATASETS, FOUR

NAMES = {"real": "Real", "ctgan": "CTGAN", "dp": "DP-CTGAN", "tgan": "Fed-TGAN", "fed": "Fed-CTGAN"}
NAMES |= {"dpfed": "DP-Fed-CTGAN"}
CLIENTS = [2, 5, 10, 20]


def row(name, value, seed=0, **labels):
    """A row as a run of the work leaves it; `name` as in NAMES."""
    central, private = name in ("real", "ctgan", "dp"), name in ("dp", "dpfed")
    place = {"partition": "none" if central else "iid", "n_clients": None if central else 3}
    fixed = {
        "paper": "leitner2023",
        "profile": "quick",
        "data": "real",
        "epsilon": 3.0 if private else np.inf,
    }
    return {**fixed, **place, "method": NAMES[name], "value": value, "seed": seed, **labels}


def rows_of(x, values, spread=0.0, seeds=(0,), **methods):
    """Rows of each method at each value of the column x; several seeds stand `spread` apart around
    the number."""
    labels = {key: methods.pop(key) for key in [*methods] if key not in NAMES}
    rows = []
    for (name, numbers), seed in product(methods.items(), seeds):
        own = spread.get(name, 0.0) if isinstance(spread, dict) else spread
        side = (seed - np.mean(seeds)) * own
        pairs = zip(values, np.broadcast_to(numbers, len(values)), strict=True)
        rows += [
            row(name, float(number) + side, seed, **labels, **{x: value}) for value, number in pairs
        ]
    return rows


def accuracy(dataset, base, spread=0.0, classifiers=FOUR, **changed):
    return rows_of("metric", classifiers, spread, (0, 1, 2), dataset=dataset, **{**base, **changed})


ADULT = {"real": 0.85, "ctgan": 0.82, "dp": 0.77, "tgan": 0.84, "fed": 0.84, "dpfed": 0.78}
BANK = {"ctgan": 0.86, "dp": 0.88, "tgan": 0.89, "fed": 0.89, "dpfed": 0.88}
COVERTYPE = {"real": 0.9, "tgan": 0.7, "fed": 0.69, "dp": 0.68, "dpfed": 0.6, "ctgan": 0.55}
CARDIO = {"real": 0.72, "ctgan": 0.71, "tgan": 0.72, "fed": 0.72, "dp": 0.64, "dpfed": 0.66}
DIABETES = {"dp": [0.64, 0.65, 0.66, 0.67], "dpfed": [0.66, 0.62, 0.64, 0.6]}
OBESITY = {
    "real": [0.8, 0.9, 0.9, 0.29],
    "ctgan": 0.15,
    "dp": 0.14,
    "tgan": 0.25,
    "fed": 0.26,
    "dpfed": 0.15,
}
WIDE = {"ctgan": 0.02, "tgan": 0.01, "fed": 0.01, "dp": 0.01, "dpfed": 0.01}


def scores(metric, datasets=DATASETS, **changed):
    """A table of the work's form in which its claims hold."""
    high = {"ctgan": 0.7, "dp": [0.6, 0.6, 0.6, 0.6, 0.4, 0.6], "tgan": 0.8, "fed": 0.81}
    high["dpfed"] = [0.63, 0.55, 0.55, 0.65, 0.45, 0.65]
    low = {"ctgan": [0.1, 0.1, 0.1, 0.1, 0.1, 0.1], "dp": [0.3, 0.3, 0.09, 0.15, 0.3, 0.3]}
    low |= {
        "tgan": [0.02, 0.03] * 3,
        "fed": [0.03, 0.02] * 3,
        "dpfed": [0.2, 0.2, 0.08, 0.2, 0.2, 0.2],
    }
    if metric == "wd":
        low["dpfed"] = [0.2, 0.2, 0.08, 0.14, 0.4, 0.2]
    base = {**(high if metric.startswith("au") else low), **changed}
    base = {
        name: np.broadcast_to(numbers, 6)[[DATASETS.index(d) for d in datasets]]
        for name, numbers in base.items()
    }
    return rows_of("dataset", datasets, metric=metric, **base)


def both(first=None, **changed):
    return scores("auroc", **(first or {})) + scores("auprc", **changed)


FIVE = ["accuracy", "auroc", "auprc", "jsd", "wd"]


def skewed(iid=None, **changed):
    base = {"tgan": [0.5, 0.55, 0.54, 0.13, 0.07], "fed": [0.51, 0.6, 0.58, 0.07, 0.06]}
    base |= {"dpfed": [0.51, 0.53, 0.53, 0.09, 0.05], **changed}
    even = {"tgan": [0.7, 0.75, 0.73, 0.05, 0.01], "fed": [0.7, 0.75, 0.74, 0.05, 0.01]}
    even |= {"dpfed": [0.6, 0.7, 0.68, 0.12, 0.06], **(iid or {})}
    apart = {"dataset": "cardio", "partition": "label_skew"}
    return rows_of("metric", FIVE, **apart, **base) + rows_of(
        "metric", FIVE, dataset="cardio", **even
    )


def heatmap(metric, **changed):
    """Pairs of three columns; those of a column with itself do not count."""
    base = {
        "real": [0.4, 0.2, 0.1],
        "tgan": [0.38, 0.2, 0.1],
        "fed": [0.4, 0.19, 0.1],
        "dpfed": [0.33, 0.2, 0.05],
    }
    base |= {"ctgan": [0.6, 0.3, 0.1], "dp": [0.0, -0.1, 0.0], **changed}
    pairs = rows_of("item", ["a x b", "a x c", "b x c"], dataset="adult", metric=metric, **base)
    return pairs + rows_of(
        "item", ["a x a"], dataset="adult", metric=metric, **dict.fromkeys(base, 1.0)
    )


GRID = [float(f"{epsilon:.10g}") for epsilon in np.geomspace(0.1, 10, 13)]


def budgets(dataset, metric, curve, grid=GRID):
    return rows_of("epsilon", grid, dataset=dataset, metric=metric, dpfed=curve)


def utility(adult=None, cardio=None, **other):
    """A jump from 1.47 to 2.15 on adult, from 0.46 to 0.68 on cardio, with a little noise around
    it."""
    adult = [0.5, 0.51] * 4 + [0.7, 0.69, 0.72, 0.71, 0.73] if adult is None else adult
    cardio = [0.5, 0.51, 0.5, 0.5, 0.51] + [0.65, 0.66] * 4 if cardio is None else cardio
    rows = []
    for metric in ("auroc", "auprc"):
        rows += budgets("adult", metric, other.get(metric, adult)) + budgets(
            "cardio", metric, cardio
        )
    return rows


def fidelity(least=0.4, start=0.2, last=0.21, datasets=("adult", "cardio")):
    curve = [least] + [0.3] * 7 + [start, 0.2, 0.2, 0.2, last]
    return [each for d, m in product(datasets, ("jsd", "wd")) for each in budgets(d, m, curve)]


def clients(metrics, dataset="adult", counts=CLIENTS, **curves):
    return [
        e
        for m in metrics
        for e in rows_of("n_clients", counts, dataset=dataset, metric=m, **curves)
    ]


def crowd(adult=None, cardio=None):
    base = {
        "tgan": [0.8, 0.81, 0.8, 0.75],
        "fed": [0.8, 0.81, 0.8, 0.75],
        "dpfed": [0.7, 0.71, 0.65, 0.6],
    }
    parts = [clients(("auroc", "auprc"), dataset, **{**base, **(changed or {})})
             for dataset, changed in (("adult", adult), ("cardio", cardio))]  # fmt: skip
    return parts[0] + parts[1]


def spread_out(adult_jsd=None, adult_wd=None, cardio_jsd=None, cardio_wd=None):
    up, dip, flat = [0.1, 0.1, 0.2, 0.3], [0.4, 0.3, 0.4, 0.5], [0.1, 0.1, 0.1, 0.1]
    risen = {"tgan": up, "fed": up, "dpfed": dip}
    return [
        *clients(["jsd"], **{**risen, **(adult_jsd or {})}),
        *clients(["wd"], **{**risen, **(adult_wd or {})}),
        *clients(["jsd"], "cardio", **{**risen, "tgan": flat, "fed": flat, **(cardio_jsd or {})}),
        *clients(["wd"], "cardio", **{**risen, "dpfed": [0.3, 0.1, 0.4, 0.2], **(cardio_wd or {})}),
    ]


def dropped(rows, **where):
    """Without the rows that agree in all of `where`, which are some."""
    kept = [each for each in rows if any(each[name] != value for name, value in where.items())]
    assert len(kept) < len(rows)
    return kept
