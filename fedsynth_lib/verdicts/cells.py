"""The cells that claims are judged on: mean, spread and number of the runs of one setting, as
`custom/cells.py` makes them for each work. `reading` names another way to see the same rows, where
a work leaves one open.
"""

from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.printed.chance import components, pooled
from fedsynth_lib.printed.published import load_values, of_work
from fedsynth_lib.runs.details import asked_by
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.verdicts.custom.cells import WAYS


def cells_of(work: str, rows: pd.DataFrame, **reading: Any) -> pd.DataFrame:
    """The cells of a work by tidy rows of one profile."""
    return finished(work, measured_cells(work, rows, **reading))


def measured_cells(work: str, rows: pd.DataFrame, **reading: Any) -> pd.DataFrame:
    """As `cells_of`, without what `finished` adds."""
    rows = of_work(rows, work)
    return WAYS[work].cells(rows[rows["value"].notna()], **reading)


def finished(work: str, cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with what follows from several of them, as marks of tests and ranks."""
    return WAYS[work].finished(cells)


def redrawn(work: str, cells: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """`measured_cells` as another set of as many runs, on other test rows, could have them.

    The deviation of all such runs is drawn by what n of them tell (chi-squared), then their mean
    and deviation by it; where sides are measured on few test rows (`printed.chance`) a share moves
    by its binomial error, too. Deviations that components.toml pools are taken as known. A cell of
    one run stays as it is, and takes no draw that others then lack.
    """
    n, std = cells["n"].to_numpy(float), cells["std"].to_numpy(float)
    several = (n > 1) & np.isfinite(std)
    freedom = np.where(several, n - 1, 1.0)
    said = components(work, cells)
    pools = said["pool"].map(len).to_numpy() > 0
    own = np.where(several, pooled(said, cells.rename(columns={"std": "ours_std"}), cells), 0.0)
    test = said["test_rows"].to_numpy(float)
    moving = several | (test > 0)

    def chi_squared() -> np.ndarray:
        found = freedom.copy()
        found[moving] = rng.chisquare(freedom[moving])
        return found

    def normal() -> np.ndarray:
        found = np.zeros(len(cells))
        found[moving] = rng.standard_normal(moving.sum())
        return found

    doubt = np.where(pools, 1.0, np.sqrt(freedom / chi_squared()))
    error = np.where(several, own * doubt / np.sqrt(np.where(several, n, 1.0)), 0.0)
    means = cells["mean"].to_numpy(float)
    share = np.clip(np.nan_to_num(means), 0, 1)
    binomial = np.where(test > 0, np.sqrt(share * (1 - share) / np.where(test > 0, test, 1.0)), 0)
    shift = error * normal() + binomial * normal()
    scale = doubt * np.sqrt(chi_squared() / freedom)
    moved = {"mean": means + shift, "std": std * scale}
    for name in ("median", "min", "max"):
        if name in cells:
            moved[name] = cells[name].to_numpy(float) + shift
    for name in ("sem", "iqr"):
        if name in cells:
            moved[name] = cells[name].to_numpy(float) * scale
    if "values" in cells:
        runs = zip(cells["values"], shift, strict=True)
        moved["values"] = [
            tuple(v + by for v in own) if isinstance(own, tuple) else own for own, by in runs
        ]
    return cells.assign(**moved)


def printed_cells(work: str) -> pd.DataFrame:
    """The printed values of a work as cells."""
    values = load_values(work)
    if own := WAYS[work].printed:
        return own(values)
    values = values[values["mean"].notna()].assign(seed=0, profile="paper", data="none")
    params = {words: params_text(asked_by(work, words)) for words in values["detail"].unique()}
    values = values.assign(params=values["detail"].map(params), value=values["mean"])
    rows = values[[name for name in to_frame([]) if name in values]]
    return cells_of(work, to_frame(rows.to_dict("records")))
