"""Which notebook starts when: after those it needs, as many at a time as there are jobs.

A notebook that is soon done takes one job, so that as many run side by side as there are jobs: much
of such a notebook (reading rows, tables, figures) uses one core. Of these the longest starts first,
since a long one that starts last leaves the other jobs without work. A notebook that computes for
long takes all jobs and runs alone: its cells share the cores better than two notebooks could, and
the memory holds one grid's tables and models instead of several. Such notebooks come after the
others, and all run in reading order where there is one job.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import psutil

from fedsynth_lib.bundle.estimate import ALONE
from fedsynth_lib.bundle.notebooks import Notebook

SPARE = 2 * 2**30  # bytes of free memory below which no further notebook starts beside another


@dataclass
class Schedule:
    """The notebooks that have not started yet.

    minutes: stem -> how long a notebook is expected to take.
    """

    waiting: list[Notebook]
    minutes: Mapping[str, float | None]
    jobs: int

    def __post_init__(self) -> None:
        """Keep the reading order."""
        self.order: Sequence[Notebook] = tuple(self.waiting)

    def share(self, notebook: Notebook) -> int:
        """How many of the jobs a notebook gets."""
        alone = len(self.order) == 1 or (self.minutes.get(notebook.stem) or 0.0) > ALONE
        return self.jobs if alone else 1

    def start(self, running: Sequence[Notebook]) -> Notebook | None:
        """Take the next notebook that may start beside those that run; None while there is none."""
        if running and psutil.virtual_memory().available < SPARE:
            return None
        free = self.jobs - sum(map(self.share, running))
        busy = {notebook.stem for notebook in (*running, *self.waiting)}
        ready = [
            notebook
            for notebook in self.waiting
            if self.share(notebook) <= free and not busy & self.before(notebook)
        ]
        if not ready:
            return None
        notebook = max(ready, key=self._beside)  # the first of equals
        self.waiting.remove(notebook)
        return notebook

    def _beside(self, notebook: Notebook) -> float:
        """Return the minutes of a notebook that runs beside others; 0 for one that does not."""
        minutes = self.minutes.get(notebook.stem) or 0.0
        return minutes if self.jobs > 1 and minutes <= ALONE else 0.0

    def before(self, notebook: Notebook) -> set[str]:
        """Return the notebooks that must have ended.

        Those are what it needs, and earlier ones whose grids it reads as well.
        """
        earlier = self.order[: self.order.index(notebook)]
        shared = {each.stem for each in earlier if set(each.grids) & set(notebook.grids)}
        return shared | set(notebook.needs)

    def drop(self, ended: Collection[str]) -> list[tuple[Notebook, list[str]]]:
        """Take out what waits for a notebook that did not end well, each with what it lacks.

        ended: the stems of those that did not end well.
        """
        out = []
        bad = set(ended)
        for notebook in tuple(self.waiting):
            if lacking := [need for need in notebook.needs if need in bad]:
                self.waiting.remove(notebook)
                bad.add(notebook.stem)
                out.append((notebook, lacking))
        return out
