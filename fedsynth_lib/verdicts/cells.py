"""The cells that claims are judged on: mean, spread and number of the runs of one setting.

`custom/cells.py` makes them for each work. `reading` names another way to see the same rows, where
a work leaves one open.
"""

from typing import Any

import pandas as pd

from fedsynth_lib.printed.published import load_values, of_work
from fedsynth_lib.runs.details import asked_by
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.verdicts.custom.cells import WAYS


def cells_of(work: str, rows: pd.DataFrame, **reading: Any) -> pd.DataFrame:
    """Return the cells of a work from tidy rows of one profile."""
    return finished(work, measured_cells(work, rows, **reading))


def measured_cells(work: str, rows: pd.DataFrame, **reading: Any) -> pd.DataFrame:
    """As `cells_of`, without what `finished` adds."""
    rows = of_work(rows, work)
    return WAYS[work].cells(rows[rows["value"].notna()], **reading)


def finished(work: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Add what follows from several of the cells, as marks of tests and ranks."""
    return WAYS[work].finished(cells)


def printed_cells(work: str) -> pd.DataFrame:
    """Return the published values of a work as cells."""
    values = load_values(work)
    if own := WAYS[work].printed:
        return own(values)
    values = values[values["mean"].notna()].assign(seed=0, profile="paper", data="none")
    params = {words: params_text(asked_by(work, words)) for words in values["detail"].unique()}
    values = values.assign(params=values["detail"].map(params), value=values["mean"])
    rows = values[[name for name in to_frame([]) if name in values]]
    return cells_of(work, to_frame(rows.to_dict("records")))
