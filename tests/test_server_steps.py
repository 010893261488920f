"""The server's optimisers against Flower's strategies of the same names, round by round."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedYogi

from fedsynth_lib.methods.diffusion.server_steps import moved

SETTINGS = {"rate": 0.05, "first": 0.9, "second": 0.99, "tau": 1e-3}


@pytest.mark.parametrize(("name", "flower"), [("fedadam", FedAdam), ("fedyogi", FedYogi)])
def test_moments_and_steps_are_flowers(name, flower, monkeypatch):
    rng = np.random.default_rng(3)
    averages = [rng.normal(size=6) for _ in range(5)]
    seen = iter(averages)
    monkeypatch.setattr(
        FedAvg,
        "aggregate_train",
        lambda self, number, replies: (ArrayRecord({"w": Array(next(seen))}), None),
    )
    theirs = flower(eta=0.05, beta_1=0.9, beta_2=0.99, tau=1e-3)
    current = other = rng.normal(size=6)
    kept = {}
    for number, average in enumerate(averages, start=1):
        theirs.current_arrays = {"w": other}
        other = theirs.aggregate_train(number, [])[0]["w"].numpy()
        current, moments = moved(current, average, kept, strategy=name, **SETTINGS)
        kept |= moments
        assert np.allclose(current, other, rtol=1e-12), number


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
def test_averaging_strategies_take_the_average(name):
    average = np.arange(3.0)
    new, moments = moved(np.ones(3), average, {}, strategy=name, **SETTINGS)
    assert new is average and moments == {}


def test_parameters_keep_their_type():
    new, _ = moved(
        np.ones(3, np.float32), np.zeros(3, np.float32), {}, strategy="fedyogi", **SETTINGS
    )
    assert new.dtype == np.float32
