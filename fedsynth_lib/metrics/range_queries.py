"""Error on random range queries, as HeteroFedSyn and SynMeter measure it ("query error").

A query asks for the share of rows that meet a condition in each of a few columns. Their code draws
its queries by the clock; here a seed fixes them, so that all tables answer the same ones.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.tables.schema import Schema

Condition = tuple[str, float, float]  # column, smallest and largest value or category code


def query_error(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    width: int,
    number: int = 1000,
    seed: int = 0,
) -> float:
    """Mean over `number` queries of `width` columns of |share of real - share of synthetic rows|.

    The larger table is sampled down to as many rows as the other has, as theirs is.
    """
    queries = random_queries(schema, width=width, number=number, seed=seed)
    rows, rng = min(len(real), len(synthetic)), stream(seed, "query rows")
    answers = []
    for frame in (real, synthetic):
        taken = rng.permutation(len(frame))[:rows] if len(frame) > rows else slice(None)
        answers.append(shares(frame.iloc[taken], schema, queries))
    return float(np.abs(answers[0] - answers[1]).mean())


def random_queries(
    schema: Schema, *, width: int, number: int, seed: int
) -> list[tuple[Condition, ...]]:
    """Draw `number` queries of `width` different columns each.

    Of a number the smallest value is uniform in the declared range, the largest uniform above it;
    of categories one is drawn, all alike.
    """
    if not 1 <= width <= len(schema.columns):
        raise BadInput(f"width is {width}: a query names 1 to {len(schema.columns)} columns.")
    rng, queries = stream(seed, f"queries of {width}"), []
    for _ in range(number):
        conditions = []
        for place in rng.choice(len(schema.columns), size=width, replace=False):
            column = schema.columns[place]
            if column.kind == "numeric":
                low = rng.uniform(column.low, column.high)
                conditions.append((column.name, low, rng.uniform(low, column.high)))
            else:
                code = int(rng.integers(len(column.categories)))
                conditions.append((column.name, code, code))
        queries.append(tuple(conditions))
    return queries


def shares(
    frame: pd.DataFrame, schema: Schema, queries: Sequence[Sequence[Condition]]
) -> np.ndarray:
    """Float64 (queries,): the share of rows that meet all conditions of each query."""
    values = {
        c.name: frame[c.name].to_numpy(float)
        if c.kind == "numeric"
        else pd.Categorical(frame[c.name], c.categories).codes
        for c in schema.columns
    }
    found = np.empty(len(queries))
    for place, query in enumerate(queries):
        met = np.ones(len(frame), bool)
        for name, low, high in query:
            met &= (values[name] >= low) & (values[name] <= high)
        found[place] = met.mean()
    return found
