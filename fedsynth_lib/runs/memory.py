"""How much memory a piece of work takes at its height, beyond what the process held before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

EVERY = 0.02  # seconds between two looks


@dataclass
class Peak:
    gib: float = 0.0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """A Peak whose `gib` is, at the end, the greatest resident memory of this process less that at
    the start."""
    process, found, done = psutil.Process(), Peak(), threading.Event()
    before = process.memory_info().rss

    def look() -> None:
        found.gib = max(found.gib, (process.memory_info().rss - before) / 2**30)

    def watch() -> None:
        while not done.wait(EVERY):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        look()
        done.set()
        watcher.join()
