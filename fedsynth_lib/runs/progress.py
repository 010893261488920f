"""Progress that works in both worlds: a bar where someone watches, plain lines in a log file."""

import os
import sys
import time

from tqdm import tqdm


def watched() -> bool:
    """Whether stderr is a terminal, or a notebook that a person runs (not the runner)."""
    notebook = "ipykernel" in sys.modules and "FEDSYNTH_RUN_LOG" not in os.environ
    return notebook or sys.stderr.isatty()


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class Progress:
    """Counts finished cells; in a log file it writes at most one line in `every` seconds, and one
    at the end."""

    def __init__(self, name: str, *, total: int, reused: int = 0, every: float = 30.0):
        self.name, self.total, self.done, self.every = name, total, 0, every
        self.begin = self.last = time.monotonic()
        self.bar = None
        if reused and not total:
            self.say(f"all {reused} cells reused")
        elif watched():
            self.bar = tqdm(total=total, desc=name, unit="cell", file=sys.stderr)
        else:
            self.say(f"{total} cells to compute, {reused} reused")

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def step(self) -> None:
        """One more cell is done."""
        self.done += 1
        if self.bar is not None:
            self.bar.update()
            return
        now = time.monotonic()
        spent = now - self.begin
        if self.done == self.total:
            self.say(f"{self.done}/{self.total} cells in {duration(spent)}")
        elif now - self.last >= self.every:
            self.last = now
            left = duration(spent / self.done * (self.total - self.done))
            self.say(f"{self.done}/{self.total} cells, {duration(spent)} spent, about {left} left")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
