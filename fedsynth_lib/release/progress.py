"""One line on how far a long run is, and about how long it still takes, where somebody watches."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from fedsynth_lib.runs.progress import watched

SHORT = 5.0  # seconds; a run that takes less shows nothing
# percent of a run that are done when a stage begins: a million rows and 20 columns with FedPGM
LEARNS, DRAWS, WRITES = 28, 62, 67


@contextmanager
def stages(started: float) -> Iterator[Callable[[str, int], None]]:
    """Give what shows that a stage begins: its name, and how many percent of the run are done.

    The time left follows from the time since `started` (of `time.time`) and from that share, which
    is one of methods that count. The line goes when the run ends.
    """
    line = tqdm(
        total=100,
        bar_format="{desc}: about {remaining} left",
        file=sys.stderr,
        leave=False,
        delay=SHORT,
        disable=not watched(),
    )
    line.start_t = started

    def begin(stage: str, done: int) -> None:
        if not line.disable and time.time() - started > SHORT:
            line.n, line.delay = done, 0  # what was shown is wiped off at the end
            line.set_description_str(stage)

    with line:
        yield begin
