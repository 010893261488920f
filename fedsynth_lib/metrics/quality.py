"""The quality report of SDMetrics: how alike columns, and pairs of columns, are."""

import warnings

import pandas as pd

from fedsynth_lib.tables.schema import Schema


def quality(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """`column shapes` and `column pair trends` of two tables with the columns of the schema.

    Both lie between 0 and 1, for tables that cannot be told apart by it. Shapes are means over
    columns of 1 - Kolmogorov-Smirnov distance (numbers) and 1 - total variation (categories);
    trends are means over pairs of likeness of correlations and of contingency tables.
    """
    from sdmetrics.reports import QualityReport  # late: it takes seconds to import

    kinds = {"numeric": "numerical", "categorical": "categorical"}
    columns = {column.name: {"sdtype": kinds[column.kind]} for column in schema.columns}
    names = list(schema.names)
    report = QualityReport()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns have no correlation, which it leaves out
        report.generate(
            {"table": real[names]},
            {"table": synthetic[names]},
            {"tables": {"table": {"columns": columns}}},
            verbose=False,
        )
    scores = report.get_properties().set_index("Property")["Score"]
    return {name.lower(): float(scores[name]) for name in ("Column Shapes", "Column Pair Trends")}
