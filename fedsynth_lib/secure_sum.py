"""Secure summation, simulated: pairwise integer masks that cancel exactly in the sum.

As in Bonawitz et al. 2017 without the key exchange and without drop-out recovery: every pair of
clients shares a mask stream, the lower index adds it and the higher subtracts it, modulo 2^64.
One masked array alone is uniform; the sum of all is exact. It is a simulation because here the
pairs derive their streams from the run's seed, which a real deployment would agree on in secret.
"""

from collections.abc import Iterable

import numpy as np

from fedsynth_lib.interface import Arrays, Update, stream


def mask(arrays: Arrays, *, client: int, clients: Iterable[int], round: int, seed: int) -> Arrays:
    """The client's int64 arrays as uint64 arrays that hide them from whoever lacks the other clients'.

    `clients` are the indices of all who take part in this round; all must answer, or the sum is noise.
    Raises TypeError if an array is not of integers: sums of rounded numbers would not be exact.
    """
    hidden = {}
    for name, values in arrays.items():
        if not np.issubdtype(values.dtype, np.integer):
            raise TypeError(f"secure summation needs integers, array '{name}' has {values.dtype}")
        hidden[name] = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)  # two's complement, mod 2^64
    for other in clients:
        if other == client:
            continue
        shared = stream(seed, "mask", round, min(client, other), max(client, other))
        for name in sorted(hidden):
            pad = shared.integers(0, 2**64, hidden[name].shape, dtype=np.uint64)
            hidden[name] = hidden[name] + pad if client < other else hidden[name] - pad
    return hidden


def total(updates: Iterable[Update]) -> Arrays:
    """The sums over all clients of their masked arrays, int64; exact while |sum| < 2^63."""
    updates = list(updates)
    names = updates[0].summed
    return {
        name: np.sum([update.summed[name] for update in updates], axis=0, dtype=np.uint64).view(np.int64)
        for name in names
    }
