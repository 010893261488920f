"""A table small enough to count by hand and to hold in one dense joint table, for the tests of the
marginal family."""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import Client, Domain, Method, Privacy
from fedsynth_lib.methods.marginals import flaim
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

LEVELS = (2, 3, 2, 4)
NAMES = tuple("abcd")
DOMAIN = Domain(NAMES, LEVELS)
DELTA = 1e-5
BUDGET = Privacy(1.0, DELTA)
SCHEMA = Schema(
    tuple(
        Column(n, "categorical", categories=tuple("wxyz"[:level]))
        for n, level in zip(NAMES, LEVELS, strict=True)
    ),
    target="a",
)


def make_codes(num_rows: int, seed: int = 0) -> np.ndarray:
    """Int32 (rows, 4): b follows a closely, d follows b and c, no cell is empty for long."""
    rng = np.random.default_rng(seed)
    a = rng.random(num_rows) < 0.4
    b = np.where(rng.random(num_rows) < 0.7, 2 * a, rng.integers(0, 3, num_rows))
    c = rng.random(num_rows) < 0.3
    d = np.where(rng.random(num_rows) < 0.5, (b + c) % 4, rng.integers(0, 4, num_rows))
    return np.stack([a, b, c, d], axis=1).astype(np.int32)


def make_table(num_rows: int = 240, seed: int = 0) -> Table:
    codes = make_codes(num_rows, seed)
    frame = pd.DataFrame(
        {
            c.name: pd.Categorical.from_codes(codes[:, j], list(c.categories))
            for j, c in enumerate(SCHEMA.columns)
        }
    )
    return Table("marginals", frame, SCHEMA, data="own")


def dense(
    codes: np.ndarray, query: tuple[int, ...], levels: tuple[int, ...] = LEVELS
) -> np.ndarray:
    """Flat counts of a marginal, one row after the other."""
    counts = np.zeros([levels[c] for c in query], dtype=int)
    for row in codes:
        counts[tuple(row[c] for c in query)] += 1
    return counts.ravel()


def shards(num_rows: int, clients: int) -> list[np.ndarray]:
    return np.array_split(np.random.default_rng(5).permutation(num_rows), clients)


def client_of(rows: np.ndarray, index: int = 0, clients: int = 1) -> Client:
    return Client(rows, index, clients)


def copy_of(method: Method | ModuleType, **replaced) -> Method:
    """A copy of the method with some verbs exchanged."""
    return replace(Method.of(method), name="broken", **replaced)


def watched(method: Method | ModuleType) -> tuple[Method, list]:
    """A copy of the method and what passes: ('client', state, index, update) and ('server', before,
    after, charges)."""
    seen = []

    def client_step(state, client, config, noise, rng):
        update = method.client_step(state, client, config, noise, rng)
        seen.append(("client", state, client.index, update))
        return update

    def server_step(state, updates, config, noise, rng):
        after, charges = method.server_step(state, updates, config, noise, rng)
        seen.append(("server", state, after, charges))
        return after, charges

    return copy_of(method, client_step=client_step, server_step=server_step), seen


def kind_of(state: dict, config: flaim.Config) -> str:
    """What happens in FLAIM's round to come."""
    return flaim.phases(len(state["levels"]), config)[int(state["round"])][0]
