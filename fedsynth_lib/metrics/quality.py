"""Two reports of SDMetrics: similarity of columns and pairs of columns, and validity of values."""

import warnings

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics.coding import label_codes
from fedsynth_lib.tables.schema import Schema

MOST_ROWS = 50_000  # of each table; beyond as many the report draws itself, without a seed


def quality(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int = 0
) -> dict[str, float]:
    """`column shapes` and `column pair trends` of two tables with the columns of the schema.

    Both lie between 0 and 1, for tables that cannot be distinguished by it. Shapes are means over
    columns of 1 - Kolmogorov-Smirnov distance (numbers) and 1 - total variation (categories);
    trends are means over pairs of likeness of correlations and of contingency tables. NaN where
    there is no column, or no pair, that varies. Of at most MOST_ROWS rows of each table.
    """
    from sdmetrics.reports import QualityReport  # late: it takes seconds to import

    drawn = (
        each.iloc[np.sort(stream(seed, "quality").permutation(len(each))[:MOST_ROWS])]
        for each in (real, synthetic)
    )
    return _scores(QualityReport(), *drawn, schema, ("Column Shapes", "Column Pair Trends"))


def diagnostic(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """Return `data validity` and `data structure`, both 1 for a table that follows its schema.

    Validity is the mean over columns of the share of synthetic values within the range, or among
    the categories, of the REAL column; structure is the share of columns in common.
    """
    from sdmetrics.reports import DiagnosticReport

    return _scores(DiagnosticReport(), real, synthetic, schema, ("Data Validity", "Data Structure"))


def _scores(
    report, real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, wanted: tuple[str, ...]
) -> dict[str, float]:
    """Return the scores of these properties by their names in small letters."""
    for name, frame in (("real", real), ("synthetic", synthetic)):
        label_codes(frame, schema, name)  # what does not fit the schema is refused
    kinds = {"numeric": "numerical", "categorical": "categorical"}
    columns = {column.name: {"sdtype": kinds[column.kind]} for column in schema.columns}
    # as plain values: of categories it would visit all pairs of levels, whether a row has them
    plain = {name: object for name in schema.categorical}
    real, synthetic = (each[list(schema.names)].astype(plain) for each in (real, synthetic))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns have no correlation, which it leaves out
        report.generate(
            {"table": real},
            {"table": synthetic},
            {"tables": {"table": {"columns": columns}}},
            verbose=False,
        )
    scores = report.get_properties().set_index("Property")["Score"]
    return {name.lower(): float(scores[name]) for name in wanted}
