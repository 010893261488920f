"""One root: noisy counts of every column paired with one of them, and no choice that looks at rows.

What crosses the wire: one round of these counts, of which the server learns only the noisy sum over
clients. Given the root, a sampled row's columns are independent of each other.
"""

from dataclasses import dataclass

import numpy as np
from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import discrete_laplace_share
from fedsynth_lib.core.contract import BadInput, Charge, Update
from fedsynth_lib.tables.encode import EqualWidthBins

VERSION = 1
TRUST = "secure sum"  # whose total alone is seen; the clients make the noise together
WHAT = "counts of every column paired with the root"


@dataclass(frozen=True)
class Config:
    root: str = ""  # name of the column that all others are paired with; empty: the last one
    bins: int = 10  # equal-width bins of a numeric column
    rounds: int = 1


def encoder(schema, config):
    return EqualWidthBins(schema, config.bins)


def plan(noise_multiplier, domain, num_rows, config):
    return [Charge(WHAT, "laplace", noise_multiplier, sensitivity=len(domain.names) - 1)]


def start(domain, config, rng):
    if len(domain.names) < 2 or config.root not in ("", *domain.names):
        raise BadInput(f"root {config.root!r} must be one of two or more columns: {', '.join(domain.names)}.")
    root = domain.names.index(config.root or domain.names[-1])
    others = np.delete(domain.levels, root)
    return {"root": np.array(root), "others": others, "counts": np.zeros((domain.levels[root], others.sum()), int)}


def client_step(state, client, config, noise, rng):
    """One more row raises one count of each pair by 1: the L1 sensitivity is the number of
    pairs."""
    # shape: (levels of the root, levels of all others)
    others, shape = state["others"], state["counts"].shape
    places = np.delete(client.rows, state["root"], axis=1) + np.cumsum(others) - others
    cells = client.rows[:, state["root"]][:, None] * shape[1] + places  # (rows, pairs)
    counts = np.bincount(cells.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    if noise is not None:
        counts = counts + discrete_laplace_share(noise.multiplier * len(others), client.shares, shape, rng=noise.rng)
    return Update(summed={"counts": counts})


def server_step(state, updates, config, noise, rng):
    pairs = len(state["others"])
    spent = Charge(WHAT, "unprotected") if noise is None else Charge(WHAT, "laplace", noise.multiplier, pairs)
    return {**state, "counts": secure_sum.total(updates)["counts"]}, [spent]


def sample(state, num_rows, config, rng):
    """The root from the sums over all pairs, then every other column from its counts beside that
    root."""
    counts, others = state["counts"], state["others"]
    root = rng.choice(len(counts), num_rows, p=shares(counts.sum(axis=1)))
    columns = []
    # (levels of the root, levels of the column)
    for block in np.split(counts, np.cumsum(others)[:-1], axis=1):
        steps = np.cumsum(shares(block), axis=1)[root, :-1]
        columns.append((rng.random((num_rows, 1)) >= steps).sum(axis=1))
    columns.insert(int(state["root"]), root)
    return np.stack(columns, axis=1).astype(np.int32)


def shares(counts):
    """Counts as shares along the last axis; negative ones are 0, and where nothing is left all
    levels are equal."""
    counts = np.maximum(counts, 0) + (np.maximum(counts, 0).sum(axis=-1, keepdims=True) == 0)
    return counts / counts.sum(axis=-1, keepdims=True)
