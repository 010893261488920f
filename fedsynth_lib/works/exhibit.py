"""One call for what each chapter does first: the rows of an exhibit, ours beside print, a saver."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from fedsynth_lib.figures.save import SavedTable, Saver
from fedsynth_lib.printed import published, readings
from fedsynth_lib.printed.layouts import comparison_table, entries_explained
from fedsynth_lib.runs.rows import data_of
from fedsynth_lib.works.declared import Grid, Work, load


@dataclass(frozen=True)
class Exhibit:
    """An exhibit's rows at a profile.

    Attributes
    ----------
    study : Work
        The work, for further grids.
    grid : Grid
        The cells; `tables`, `methods`, `seeds`, `size` and `without` (tables that are missing).
    rows : pandas.DataFrame
        One row for each measured value (`runs/rows.py`, COLUMNS).
    """

    study: Work
    grid: Grid
    rows: pd.DataFrame

    @cached_property
    def data(self) -> str:
        """What the rows rest on: `real`, `standin` or `none`."""
        return data_of(self.rows)

    def saver(self, remark: str = "") -> Saver:
        """Return a saver whose captions end with the remark and the tables that are missing."""
        remark = f"{remark} {self.grid.without}".strip()
        return Saver(profile=self.grid.profile, data=self.data, remark=remark)

    def compared(self, exhibit: str, dataset: str | None = None) -> pd.DataFrame:
        """Compare ours with the published values of an exhibit (`published.compare`).

        The tables are the one that is named, or those of the grid.
        """
        chosen = [dataset] if dataset else self.grid.tables
        rows = self.rows[self.rows["dataset"].isin(chosen)] if dataset else self.rows
        compared = published.compare(rows, self.study.key, exhibit)
        return compared[compared["dataset"].isin(chosen)]

    def save_comparison(self, save: Saver, compared: pd.DataFrame, what: str) -> SavedTable:
        """Save ours beside the published values of one exhibit as `<work>_<exhibit>`.

        The caption is `what`, with what the entries mean, and whether the verdict is on other rows.
        """
        table = comparison_table(compared, spread=self.grid.seeds > 1)
        caption = f"{what}: {entries_explained(compared)}"
        if readings.is_judged_otherwise(compared):
            caption += ". The verdict takes some of these values in another reading (findings)"
        name = f"{self.study.key}_{compared['exhibit'].iloc[0]}"
        return save.table(table, name, caption=caption)

    def save_verdicts(
        self,
        save: Saver,
        compared: pd.DataFrame,
        name: str,
        what: str,
        by: Sequence[str] = ("exhibit", "metric"),
    ) -> SavedTable:
        """Save under a name how many published values of `what`, such as "table 2", reproduce."""
        caption = f"Cells of {what} by verdict, profile {self.grid.profile}"
        return save.table(published.summary(compared, by=by), name, caption=caption)


def open_exhibit(
    work: str,
    exhibit: str,
    profile: str = "paper",
    *,
    datasets: str | Sequence[str] = (),
    jobs: int = 1,
    **asked: Any,
) -> Exhibit:
    """Open the grid of an exhibit: committed rows where there are any, else computed ones.

    work, exhibit: a file of `works/` and a grid in it, such as "maddock2024" and "tab2".
    profile: `paper` shows committed rows; `quick` and `smoke` compute live.
    datasets: keys of tables; empty for those of the profile.
    jobs: experiments computed at the same time.
    asked: methods, or values of settings, in place of the declared ones (`Work.grid`).
    Raises BadInput for a name that the work does not declare, with the closest one.
    """
    study = load(work)
    grid = study.grid(exhibit, profile, tables=datasets or None, **asked)
    return Exhibit(study, grid, grid.run(jobs=jobs))
