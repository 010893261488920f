"""Means and shares of a saved model, with standard errors that include the noise of privacy.

Several synthetic tables of one model do not show that noise: all of them have the same. So the
combining rules for several imputed tables (Raghunathan, Reiter and Rubin 2003) do not apply, and a
parametric bootstrap is made instead (Ferrando, Wang and Sheldon 2022, "Parametric bootstrap for
differentially private confidence intervals"): rows are drawn from the model, as many as it learned
from; the method learns from them under the same budget, with fresh noise; and the spread of what it
comes to is that of people who happen to be in a table, and of noise. It starts from the model
alone, so it costs no epsilon.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from fedsynth_lib.core.contract import BadInput, Charge, Privacy, stream
from fedsynth_lib.core.errors import MOST_SEED, checked_rows
from fedsynth_lib.federation.settings import ROW_COUNT
from fedsynth_lib.release import open_levels, your_table
from fedsynth_lib.release.saved import SavedModel
from fedsynth_lib.tables.kinds import refuse_first
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import closest

MANY = 2_000  # rows that an estimate is made of, at least: four times as many as it learned from
LEVEL = 0.95


def means(
    model: SavedModel, columns: Sequence[str] = (), *, repeats: int = 30, seed: int = 0
) -> pd.DataFrame:
    """`SavedModel.means`, which says what it is."""
    numbers = _checked(model, columns)
    repeats = checked_rows(repeats, "repeats")
    if repeats < 2:
        raise BadInput("repeats is 1: a spread needs 2 or more.")
    pool = model.drawn(_many(model), seed=seed)
    estimate = _estimates(model, pool, numbers)
    again = [_learned_again(model, pool, numbers, number, seed) for number in range(repeats)]
    error = pd.DataFrame(again).std()
    reach = stdtrit(repeats - 1, (1 + LEVEL) / 2) * error
    found = {"estimate": estimate, "standard_error": error}
    found |= {"low": estimate - reach, "high": estimate + reach}
    return pd.DataFrame(found).rename_axis(["column", "what"]).reset_index()


def _checked(model: SavedModel, columns: Sequence[str]) -> list[str]:
    """Return the columns of which something can be said; BadInput where it cannot be made."""
    kinds = ("numeric", "categorical", "boolean")
    kept = [column.name for column in model.form.columns if column.kind in kinds]
    if unknown := [name for name in columns if name not in kept]:
        raise BadInput(
            f"means: there is no column {unknown[0]!r} of numbers or categories"
            f"{closest(unknown[0], kept)}."
        )
    refuse_first(
        "means: no standard error is known of this model, because",
        (
            not model.sizes,
            "it does not say how many rows each client had: make it again, by synth.",
        ),
        (
            model.together is None,
            "a network is off by more than its noise, and a method of your own does not say what "
            "it counts: take one of the library that counts, such as fedpgm.",
        ),
        (
            model.form.unit,
            "its unit is a person, and how alike the rows of one are no model of rows knows.",
        ),
    )
    return list(columns) or kept


def _many(model: SavedModel) -> int:
    return max(MANY, 4 * sum(model.sizes))


def _learned_again(
    model: SavedModel, pool: pd.DataFrame, columns: Sequence[str], number: int, seed: int
) -> pd.Series:
    """Return what a model comes to that learned from rows of this one.

    They are drawn from a pool one by one, for a method may draw several rows with less variance
    than people have who happen to be in a table (FedPGM rounds its counts).
    """
    rng, said = stream(seed, "means", number), model.statement
    places = rng.integers(len(pool), size=sum(model.sizes))
    rows, fresh = pool.iloc[places].reset_index(drop=True), int(rng.integers(MOST_SEED))
    paid = [each for each in said["entries"] if each["what"] in (ROW_COUNT, open_levels.COUNTS)]
    delta = said["delta"] - said.get("open_levels", {}).get("delta", 0.0)
    made = your_table.run(
        model.method,
        Table("rows of the model", rows, model.form.schema, "own", form=model.form),
        np.split(np.arange(len(rows)), np.cumsum(model.sizes)[:-1]),
        config=model.config,
        privacy=Privacy(said["budget"], delta),
        sizes=model.sizes,
        before=[Charge(e["what"], e["mechanism"], e["noise_multiplier"]) for e in paid],
        seed=fresh,
        num_rows=_many(model),
    )
    return _estimates(model, made.synthetic, columns)


def _estimates(model: SavedModel, rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return by (column, what) its mean, or the share of one of its categories.

    Rows without a value do not count.
    """
    found = {}
    for column in model.form.columns:
        if column.name not in columns:
            continue
        if column.kind == "numeric":
            found[column.name, "mean"] = column.amounts(rows).mean()
            continue
        counts = rows[column.name].value_counts().reindex(column.categories)
        for label, share in (counts / max(counts.sum(), 1)).items():
            found[column.name, f"share of {label}"] = share
    return pd.Series(found)
