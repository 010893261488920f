"""Independent columns from noisy counts: the smallest complete method, and a floor for others.

What crosses the wire: one round of counts per level of every column, of which the server learns
only the noisy sum over clients. Nothing about how columns hang together is released.
"""

from dataclasses import dataclass

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import discrete_laplace_share
from fedsynth_lib.core.broadcast import Values, check_arrays
from fedsynth_lib.core.contract import Arrays, Charge, Client, Domain, Noise, Update
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema

VERSION = 1
TRUST = "secure sum"
WHAT = "counts of every column's levels"


@dataclass(frozen=True)
class Config:
    """Settings of the method of independent columns."""

    bins: int = 20  # equal-width bins of a numeric column
    rounds: int = 1


def encoder(schema: Schema, config: Config) -> EqualWidthBins:
    """Return the encoder, which puts numeric columns into equal-width bins."""
    return EqualWidthBins(schema, config.bins)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """One noisy release of all counts per round."""
    return [_noisy(noise_multiplier, len(domain.names))] * config.rounds


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the state before the first round: declared levels, and no counts."""
    return {"levels": np.array(domain.levels), "counts": np.zeros(sum(domain.levels), np.int64)}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check the declared levels, and any counts so far, which a client does not look at."""
    levels = np.array(domain.levels)
    check_arrays(state, {"levels": levels, "counts": Values(np.int64, (levels.sum(),))})


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Count the client's rows per level, with its share of discrete Laplace noise.

    One more row raises one count in every column by 1: the L1 sensitivity is the number of columns.
    """
    offsets = np.cumsum(state["levels"]) - state["levels"]
    counts = np.bincount((client.rows + offsets).ravel(), minlength=state["levels"].sum())
    if noise is not None:
        scale = noise.multiplier * len(offsets)
        counts = counts + discrete_laplace_share(scale, client.shares, counts.shape, rng=noise.rng)
    return Update(summed={"counts": counts}, summed_spent=[_charge(noise, len(offsets))])


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Add the noisy sum to the running total."""
    counts = state["counts"] + secure_sum.total(updates)["counts"]
    return {**state, "counts": counts}, [_charge(noise, len(state["levels"]))]


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Draw every column on its own from its normalised counts, (num_rows, columns).

    Negative counts are taken as 0.
    """
    columns = []
    for counts in np.split(np.maximum(state["counts"], 0), np.cumsum(state["levels"])[:-1]):
        weights = counts if counts.sum() > 0 else np.ones(len(counts))
        columns.append(rng.choice(len(counts), num_rows, p=weights / weights.sum()))
    return np.stack(columns, axis=1).astype(np.int32)


def _charge(noise: Noise | None, columns: int) -> Charge:
    """Return the charge of one round's sum."""
    return Charge(WHAT, "unprotected") if noise is None else _noisy(noise.multiplier, columns)


def _noisy(noise_multiplier: float, columns: int) -> Charge:
    return Charge(WHAT, "laplace", noise=noise_multiplier, sensitivity=columns)
