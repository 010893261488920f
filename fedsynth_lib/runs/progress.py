"""Progress of a grid: a line that says what is computed, and a bar."""

import sys

from tqdm import tqdm


def watched() -> bool:
    """Return whether a person watches, who could be asked for input.

    This is so if stderr is a terminal, or for a notebook that a person runs (neither the runner nor
    nbconvert).
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(getattr(shell, "kernel", None), "_allow_stdin", sys.stderr.isatty())


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def progress(name: str, *, total: int, reused: int = 0) -> tqdm:
    """Say how many experiments of a grid are computed, and return their progress bar.

    The bar is a context manager whose `update` counts a finished experiment. It is drawn often
    where somebody watches, else each 30 s. A grid with nothing to compute says nothing: a notebook
    shows stderr above its results, in red.
    """
    if total:
        found = f"{total} experiments to compute, {reused} computed before"
        print(f"{name}: {found}", file=sys.stderr, flush=True)
    every, unit = 0.5 if watched() else 30.0, "experiment"
    return tqdm(
        total=total, desc=name, unit=unit, file=sys.stderr, mininterval=every, disable=not total
    )
