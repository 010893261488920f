"""How classifiers and distances see a table: numbers, z-scored or not, and categories as label
codes."""

import os
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd

from fedsynth_lib.tables.encode import label_codes
from fedsynth_lib.tables.schema import Schema

InputsAndLabels = tuple[np.ndarray, np.ndarray]


def alphabetical_codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Float64 (rows, columns) in schema order: numbers as they are, categories by their place in
    the alphabet.

    The order of scikit-learn's LabelEncoder, which the published scores of real rows confirm: naive
    Bayes reaches 0.638 on adult with it and 0.664 with the documented order of categories (printed:
    0.640), and 0.684 against 0.698 on bank (printed: 0.679); means of three splits.
    """
    ordered = (
        replace(column, categories=tuple(sorted(column.categories))) for column in schema.columns
    )
    return label_codes(frame, replace(schema, columns=tuple(ordered)))


def inputs_and_labels(
    train: pd.DataFrame, test: pd.DataFrame, schema: Schema, target: str
) -> tuple[InputsAndLabels, InputsAndLabels]:
    """((train inputs, train labels), (test inputs, test labels)).

    Inputs: (rows, columns but the target), numeric columns z-scored with mean and standard
    deviation of `train`, categories as codes. Labels: (rows,), codes of the target.
    """
    numeric = np.array([column.kind == "numeric" for column in schema.columns])
    inputs = np.array([name != target for name in schema.names])
    rows, test_rows = alphabetical_codes(train, schema), alphabetical_codes(test, schema)
    centre, spread = moments(rows)
    centre, spread = np.where(numeric, centre, 0), np.where(numeric, spread, 1)
    return tuple(
        (((t - centre) / spread)[:, inputs], t[:, ~inputs][:, 0].astype(np.intp))
        for t in (rows, test_rows)
    )


def moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; 1 in place of a deviation of 0, as
    StandardScaler."""
    constant = np.ptp(rows, axis=0) == 0
    return rows.mean(axis=0), np.where(constant, 1, rows.std(axis=0))


def threads() -> int:
    """Threads that a classifier may use: the runner's share where it set one, else all cores."""
    return int(os.environ.get("OMP_NUM_THREADS") or joblib.cpu_count())
