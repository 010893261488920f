"""How much memory a piece of work takes at its height, beyond what the process held before."""

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace


@contextmanager
def peak_memory(every: float = 0.02) -> Iterator[SimpleNamespace]:
    """Measure the peak of resident memory beyond what was resident at the start, in GiB.

    The peak so far is `gib` of the namespace. It is measured every `every` seconds and once more at
    the end. It is NaN in a browser, which has neither psutil nor threads.
    """
    if sys.platform == "emscripten":
        yield SimpleNamespace(gib=math.nan)
        return
    import psutil

    process, found, done = psutil.Process(), SimpleNamespace(gib=0.0), threading.Event()
    before = process.memory_info().rss

    def watch() -> None:
        ended = False
        while not ended:
            ended = done.wait(every)  # looks once more at the end
            found.gib = max(found.gib, (process.memory_info().rss - before) / 2**30)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()
