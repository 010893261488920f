"""How long a run will take, from what notebooks say of themselves and from which rows are there."""

from collections.abc import Sequence
from pathlib import Path

from fedsynth_lib.notebooks import Notebook

PROFILES = ("smoke", "quick", "paper")
LONG = 30.0  # minutes of computing about which a run is told beforehand


def has_rows(notebook: Notebook, profile: str, root: Path) -> bool:
    """Whether the rows of all its grids are there, so that it need not compute them."""
    folder = root / "data" / "results" / profile
    return bool(notebook.grids) and all((folder / f"{grid}.csv").is_file() for grid in notebook.grids)


def minutes_of(notebook: Notebook, profile: str, root: Path, *, fresh: bool = False) -> float | None:
    """Minutes that a notebook takes: to regenerate from its rows, or to compute; None where it does not say."""
    if has_rows(notebook, profile, root) and not fresh and notebook.regenerate is not None:
        return notebook.regenerate
    return notebook.minutes.get(profile)


def warning(chosen: Sequence[Notebook], profile: str, root: Path, *, fresh: bool = False) -> str | None:
    """What to know before a run that computes for long: how long, and how to avoid it. None for a short one."""
    to_compute = [each for each in chosen if fresh or not has_rows(each, profile, root)]
    total = _total(to_compute, profile, root, fresh=fresh)
    if total <= LONG:
        return None
    without = "" if fresh else " that have no committed rows"
    said = (
        f"This run computes for up to about {_duration(total)} on 2 cores ({len(to_compute)} notebooks{without}). "
        "It may be stopped with Ctrl-C and started again: finished cells are kept."
    )
    return f"{said}\n{_way_out(chosen, profile, root, fresh=fresh)}"


def _total(notebooks: Sequence[Notebook], profile: str, root: Path, *, fresh: bool = False) -> float:
    return sum(minutes_of(each, profile, root, fresh=fresh) or 0.0 for each in notebooks)


def _way_out(chosen: Sequence[Notebook], profile: str, root: Path, *, fresh: bool) -> str:
    """One sentence about the shortest way to results that is not the run that was asked for."""
    if fresh and (minutes := _total(chosen, profile, root)) <= LONG:
        return f"Without --fresh it takes about {_duration(minutes)}, from committed rows."
    for smaller in reversed(PROFILES[: PROFILES.index(profile)]):
        if (minutes := _total(chosen, smaller, root)) <= LONG:
            return f"--profile {smaller} takes about {_duration(minutes)}; --only runs a part (see --list)."
    return "--only runs a part of the notebooks (see --list)."


def _duration(minutes: float) -> str:
    """`20 minutes`, `5 hours`, `3 days`."""
    for length, unit in ((24 * 60, "days"), (60, "hours")):
        if minutes >= 2 * length:
            return f"{minutes / length:.0f} {unit}"
    return f"{minutes:.0f} minutes"
