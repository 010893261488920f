"""Secure summation, simulated: masks that cancel exactly, and shares that hide one number.

The masks are integers, which cancel exactly in the sum. The protocol is that of Bonawitz et al.
2017 without the key exchange and without drop-out recovery (these are in
`release/deploy/masks.py`): pairs of clients share a mask stream, the lower index adds it and the
higher subtracts it, modulo 2^64. One masked array by itself is uniform; the sum of all is exact.

Not every pair needs a mask. If there are many clients, each has masks with about 2 log2(n) others,
in a ring, as in Bell et al. 2020; the cost then grows about as n and not as its square. This is a
simulation because the streams derive from the run's seed; a real deployment agrees on them in
secret.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log2, prod

import numpy as np

from fedsynth_lib.core.contract import Arrays, Update, stream


def mask(
    arrays: Arrays,
    *,
    client: int,
    clients: Iterable[int],
    round: int,
    seed: int,
    groups: Mapping[str, Sequence[int]] | None = None,
) -> Arrays:
    """Hide the client's int64 arrays from anyone who lacks the other clients' masks.

    The masked arrays are uint64.

    `clients` are the indices of all who take part in this round; all must answer, or the sum is
    noise.
    groups: array name -> those of them who add to it, if that is not all.
    Raises TypeError if an array is not of integers: sums of rounded numbers would not be exact.
    """
    hidden, clients = {}, sorted(clients)
    for name, values in arrays.items():
        hidden[name] = whole(name, values)
        for other in neighbours(
            client, sorted(groups[name]) if groups and name in groups else clients
        ):
            pad = _uniform(
                values.shape, seed, "mask", round, min(client, other), max(client, other), name
            )
            hidden[name] += pad if client < other else -pad
    return hidden


def whole(name: str, values: np.ndarray) -> np.ndarray:
    """Return a copy modulo 2^64, uint64.

    Raises TypeError if the numbers are not of an integer type.
    """
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"secure summation needs integers, array '{name}' has {values.dtype}")
    # two's complement
    return np.ascontiguousarray(values, dtype=np.int64).view(np.uint64).copy()


def neighbours(client: int, clients: Sequence[int]) -> list[int]:
    """Return the clients with which a client shares masks.

    They are the nearest ceil(log2 n) on either side of it in the ring of ascending `clients`.
    """
    reach, place = ceil(log2(max(2, len(clients)))), clients.index(client)
    near = {clients[(place + distance) % len(clients)] for distance in range(-reach, reach + 1)}
    return sorted(near - {client})


def total(updates: Iterable[Update]) -> Arrays:
    """Add up the masked arrays over the clients that sent them, int64.

    A sum is exact while |sum| < 2^63.
    """
    sums: Arrays = {}
    for update in updates:
        for name, values in update.summed.items():
            sums[name] = sums[name] + values if name in sums else values
    return {name: values.view(np.int64) for name, values in sums.items()}


def shares(counts: np.ndarray, *, rng: np.random.Generator) -> list[np.ndarray]:
    """Split counts below 2^31 into three additive shares modulo 2^32.

    There is one share for each compute server, which reads it with `opened`.

    Any two shares together are uniform, whatever the counts are: only all three add up to them. The
    first two are sent as the 8-byte keys (1,) that they are made from; the third is uint32 of the
    counts' shape. Three servers compute on such shares without learning more (Araki et al. 2016,
    where each server has two of the shares, so that one server less may collude).
    """
    keys = rng.integers(0, 2**62, (2, 1))
    hidden = counts.astype(np.uint32)
    for key in keys:
        hidden -= opened(key, counts.shape)
    return [*keys, hidden]


def opened(share: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a share as its server adds it up: uint32 of this shape."""
    return (
        share
        if share.dtype == np.uint32
        else _uniform(shape, int(share[0]), "share", dtype=np.uint32)
    )


def _uniform(
    shape: tuple[int, ...], seed: int, *path: int | str, dtype: type = np.uint64
) -> np.ndarray:
    """Draw uniform numbers over the whole range of `dtype`.

    They come from a stream of their own (SFC64, the fastest of NumPy's generators).
    """
    source = np.random.Generator(np.random.SFC64(stream(seed, *path).bit_generator.seed_seq))
    size, words = prod(shape), 8 // np.dtype(dtype).itemsize
    whole = source.integers(0, 2**64 - 1, -(-size // words), dtype=np.uint64, endpoint=True)
    return whole.view(dtype)[:size].reshape(shape)
