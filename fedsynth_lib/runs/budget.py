"""Compute what is missing of several grids within a budget of time, the cheapest grid first."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.grid import CellFailed

UNKNOWN = 600.0  # seconds of a cell of which neither rows nor the work's file say anything


def fill(
    grids: Iterable[Any],
    seconds: float,
    *,
    say: Callable[[str], Any] = print,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Compute missing cells until the next one would end after `seconds`.

    Returned are the names of grids that were finished, whose files are written.

    grids: of works (`works.declared.Grid`). Each is expected to take, for a cell, what its computed
    cells took on average, else the `seconds` that its profile declares. Each finished cell is kept,
    so that the next call goes on from there. A cell that fails ends its grid alone.
    """
    end, gaps, finished = clock() + seconds, [], []
    for grid in grids:
        missing, each = grid.missing()
        each = each or grid.size.get("seconds", UNKNOWN)
        gaps += [(each * len(missing), each, grid, missing)] if missing else []
    for whole, each, grid, missing in sorted(gaps, key=lambda gap: gap[0]):
        say(f"{grid.name}: {len(missing)} cells missing, about {whole / 60:.0f} minutes")
        begin = clock()
        for number, cell in enumerate(missing):
            each = (clock() - begin) / number if number else each
            if clock() + each > end:
                say(f"{grid.name}: {len(missing) - number} cells are left for another time")
                break
            try:
                replace(grid, cells=[cell]).run(save=False)
            except (BadInput, CellFailed) as error:
                say(f"{grid.name}: not finished, since a cell failed: {error}")
                break
        else:
            grid.run()
            finished.append(grid.name)
    return finished
