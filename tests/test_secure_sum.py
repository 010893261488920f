"""Masks cancel exactly; one masked message looks uniform."""

import numpy as np
import pytest
from scipy.stats import kstest

from fedsynth_lib import secure_sum
from fedsynth_lib.interface import Update


@pytest.mark.parametrize("num_clients", [1, 2, 7])
def test_masks_cancel_exactly_in_the_sum(num_clients):
    rng = np.random.default_rng(0)
    secret = [{"a": rng.integers(-(2**40), 2**40, (5, 3)), "b": rng.integers(-9, 9, 4)} for _ in range(num_clients)]
    masked = [
        Update(summed=secure_sum.mask(arrays, client=k, clients=range(num_clients), round=2, seed=1))
        for k, arrays in enumerate(secret)
    ]
    for name, total in secure_sum.total(masked).items():
        assert np.array_equal(total, sum(arrays[name] for arrays in secret))


def test_one_masked_message_is_uniform_and_hides_a_constant():
    hidden = secure_sum.mask({"a": np.zeros(50_000, int)}, client=0, clients=range(2), round=0, seed=1)["a"]
    assert kstest(hidden / 2**64, "uniform").pvalue > 1e-3


def test_masks_differ_between_rounds_and_a_missing_client_spoils_the_sum():
    first, second = (
        secure_sum.mask({"a": np.zeros(8, int)}, client=0, clients=range(3), round=r, seed=1)["a"] for r in (0, 1)
    )
    assert not np.any(first == second)
    partial = [
        Update(summed=secure_sum.mask({"a": np.ones(8, int)}, client=k, clients=range(3), round=0, seed=1))
        for k in range(2)
    ]
    assert np.all(np.abs(secure_sum.total(partial)["a"]) > 2**40)


def test_only_integers_can_be_summed():
    with pytest.raises(TypeError, match="'a' has float64"):
        secure_sum.mask({"a": np.zeros(3)}, client=0, clients=range(2), round=0, seed=1)
