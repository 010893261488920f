"""Rows of searches for hyperparameters, made by hand, for the tests of what is read off them."""

from itertools import product

import numpy as np

from fedsynth_lib.runs.rows import params_text, to_frame

GRID = {
    "population_size": (100, 150, 200),
    "selection_pressure": (5, 10, 15),
    "aggregation_interval": (5, 10, 20, 25),
}
LAYERS = ("[128]", "[64]", "[128, 128]", "[128, 64]", "[64, 64]")


def full_grid():
    """The 36 configurations of FedBN."""
    return [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]


def draws(number=30):
    """Configurations of FedVAE: five weight decays by three loss factors, twice; the rest at
    random."""
    layers = np.random.default_rng(0).integers(0, 5, 30)
    pairs = list(product((1e-5, 1e-4, 1e-3, 1e-2, 1e-1), (2, 4, 6)))
    return [
        {
            "weight_decay": w,
            "loss_factor": f,
            "layer_sizes": LAYERS[layers[i]],
            "embedding_size": (16, 32)[i // 15],
        }
        for i, (w, f) in enumerate([*pairs, *pairs][:number])
    ]


def search(
    method, dataset, configurations, score, seconds=lambda c: 1.0, seeds=(0, 1, 2), **others
):
    """Rows of a search: `score` and `seconds` of a configuration, the score spread by 0.1 over the
    seeds."""
    shared = {
        "paper": "martinez2024",
        "dataset": dataset,
        "data": "real",
        "method": method,
        "n_clients": 5,
    }
    shared |= {
        "partition": "label_skew",
        "setting": "tuning",
        "epsilon": np.inf,
        "profile": "paper",
        **others,
    }
    rows = []
    for each in configurations:
        draw = {"draw": each["draw"]} if "draw" in each else {}
        parameters = {name: value for name, value in each.items() if name != "draw"}
        shared["params"] = params_text({"parameters": parameters, **draw})
        for step, seed in enumerate(seeds):
            spread = 0.1 * (step - (len(seeds) - 1) / 2)
            rows.append(
                {**shared, "seed": seed, "metric": "log_cluster", "value": score(each) + spread}
            )
            rows.append(
                {**shared, "seed": seed, "metric": "seconds_training", "value": seconds(each)}
            )
    return to_frame(rows)
