"""How long a run will take, from what notebooks say of themselves and from which rows are there."""

from collections.abc import Sequence
from pathlib import Path

from fedsynth_lib.bundle.notebooks import Notebook

PROFILES = ("smoke", "quick", "paper")
# minutes; a notebook that takes longer runs alone on all cores, shorter ones side by side
ALONE = 5.0
LONG = 30.0  # minutes of a run about which one is told beforehand


def has_rows(notebook: Notebook, profile: str, root: Path) -> bool:
    """Whether its rows are there, so that it need not compute them.

    A grid bears the number of the notebook that runs it first, and counts there. Where several do,
    one that is there will do: a profile need not run all.
    """
    own = [grid for grid in notebook.grids if grid[:2] == notebook.stem[:2]] or notebook.grids
    return any((root / "data" / "results" / profile / f"{grid}.csv").is_file() for grid in own)


def minutes_of(
    notebook: Notebook, profile: str, root: Path, *, fresh: bool = False
) -> float | None:
    """Return the minutes that a notebook takes on 2 cores, from its rows or to compute.

    None where it does not say.
    """
    if notebook.regenerate is not None and not fresh and has_rows(notebook, profile, root):
        return notebook.regenerate
    return notebook.minutes.get(profile)


def warning(
    chosen: Sequence[Notebook], profile: str, root: Path, *, fresh: bool = False
) -> str | None:
    """Write what to know before a run that computes for long; None for a short one.

    That is how long it takes, and which runs take minutes.
    """

    def total(notebooks: Sequence[Notebook], profile: str, *, fresh: bool = False) -> float:
        """Minutes for all on 2 cores, of which a short notebook takes one."""
        each = [minutes_of(notebook, profile, root, fresh=fresh) or 0.0 for notebook in notebooks]
        return sum(minutes if minutes > ALONE else minutes / 2 for minutes in each)

    with_rows = [each for each in chosen if has_rows(each, profile, root)]
    computing = [each for each in chosen if fresh or each not in with_rows]
    minutes = total(computing, profile, fresh=fresh)
    if minutes <= LONG:
        return None
    lacking = sum(bool(each.grids) for each in chosen if each not in with_rows)
    why = f": {lacking} notebooks have no committed rows in this profile" if lacking else ""
    ways = {}  # what takes minutes -> how many
    if fresh:
        ways["leaving out --fresh"] = total(chosen, profile)
    elif with_rows:
        ways[f"--only {','.join(each.stem[:2] for each in with_rows)}"] = total(with_rows, profile)
    for smaller in PROFILES[: PROFILES.index(profile)]:
        ways[f"--profile {smaller}"] = total(chosen, smaller)
    shown = [f"{way} takes about {_duration(m)}" for way, m in ways.items() if m <= LONG]
    return (
        f"This run computes for up to about {_duration(minutes)} on 2 cores{why}. "
        "It may be stopped with Ctrl-C and started again: finished experiments are kept.\n"
        f"{'; '.join(shown) or '--only runs a part of the notebooks (see --list)'}."
    )


def _duration(minutes: float) -> str:
    """`1 minute`, `20 minutes`, `5 hours`, `3 days`."""
    for length, unit in ((24 * 60, "days"), (60, "hours")):
        if minutes >= 2 * length:
            return f"{minutes / length:.0f} {unit}"
    return "1 minute" if minutes < 1.5 else f"{minutes:.0f} minutes"
