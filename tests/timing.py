"""How long a piece of work takes, for the tests that compare speed in one run."""

import time
from collections.abc import Callable

import numpy as np


def seconds(
    work: Callable,
    repeats: int = 1,
    *,
    clock: Callable[[], float] = time.perf_counter,
    warm: bool = False,
    of_all: Callable = np.median,
) -> float:
    """The median time of some repeats, or what else `of_all` makes of them.

    clock: of wall time, or ``time.process_time``. warm: after one call that is not counted.
    """
    if warm:
        work()
    times = []
    for _ in range(repeats):
        begin = clock()
        work()
        times.append(clock() - begin)
    return float(of_all(times))


def report(capsys, what: str, ours: float, theirs: float, peer: str) -> None:
    """Print both times and their ratio, beside what pytest shows."""
    with capsys.disabled():
        print(f"\n{what}: ours {ours:.3f} s, {peer} {theirs:.3f} s, ratio {theirs / ours:.2f}")
