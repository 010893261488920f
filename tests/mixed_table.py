"""A mixed table of ten columns with known dependence, outliers and an unused level, for the tests
of the measures."""

import numpy as np
import pandas as pd

from fedsynth_lib.tables.schema import Column, Schema

CATEGORIES = {
    "sex": ("female", "male"),
    "owner": ("no", "yes"),
    "job": ("retired", "clerk", "driver", "artist", "none", "farmer", "pilot"),  # nobody is a pilot
    "city": ("south", "north", "east"),
    "grade": ("low", "mid", "high"),
    "target": ("no", "yes"),
}
SCHEMA = Schema(
    (
        Column("age", "numeric", low=18, high=90, integer=True),
        Column("sex", "categorical", categories=CATEGORIES["sex"]),
        Column("income", "numeric", low=0.0, high=1e6),
        Column("owner", "categorical", categories=CATEGORIES["owner"]),
        Column("job", "categorical", categories=CATEGORIES["job"]),
        Column("hours", "numeric", low=0.0, high=100.0),
        Column("gain", "numeric", low=0, high=100_000, integer=True),
        Column("city", "categorical", categories=CATEGORIES["city"]),
        Column("grade", "categorical", categories=CATEGORIES["grade"]),
        Column("target", "categorical", categories=CATEGORIES["target"]),
    ),
    target="target",
)


def mixed(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows of SCHEMA: age drives job, income and target; income the grade; one row in a hundred has
    a large gain."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, num_rows)
    job = np.clip(((age - 18) / 73 * 6 + rng.normal(0, 0.8, num_rows)).astype(int), 0, 5)
    income = np.clip(np.exp(rng.normal(9 + 0.02 * age, 0.5)), 0, 1e6)
    gain = np.where(rng.random(num_rows) < 0.01, rng.integers(50_000, 100_001, num_rows), 0)
    sex = rng.random(num_rows) < 0.6
    odds = 0.08 * (age - 50) + 1.5 * sex
    codes = {
        "sex": sex,
        "owner": rng.random(num_rows) < 0.3 + 0.4 * sex,
        "job": job,
        "city": rng.integers(0, 3, num_rows),
        "grade": np.digitize(income, [15_000, 40_000]),
        "target": rng.random(num_rows) < 1 / (1 + np.exp(-odds)),
    }
    numbers = {
        "age": age,
        "income": income,
        "hours": np.clip(rng.normal(40, 12, num_rows), 0, 100),
        "gain": gain,
    }
    coded = {
        n: pd.Categorical.from_codes(c.astype(int), categories=list(CATEGORIES[n]))
        for n, c in codes.items()
    }
    return pd.DataFrame(numbers | coded)[list(SCHEMA.names)]


def independent_columns(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The same rows with every column shuffled on its own: marginals kept, dependence gone."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: frame[name].array[rng.permutation(len(frame))] for name in frame})
