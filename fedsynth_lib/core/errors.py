"""What is said to whoever asks for what cannot be; and seeds, of which everybody must say the same.

Needs nothing but Python itself: the runner refuses a bad option before there are any packages.
"""

from typing import Any

MOST_SEED = 2**32 - 1  # what numpy's and scikit-learn's older generators take


class BadInput(ValueError):
    """What the user handed in cannot work; the message is one sentence with the remedy."""


class BadRows(BadInput):
    """Rows do not fit their schema. The message may show a value to their owner, who has to find
    it.

    told: the same without a value and without a number of rows, which is all that a client may send
        to others.
    """

    def __init__(self, message: str, told: str = ""):
        super().__init__(message)
        self.told = told


class BadBroadcast(BadInput):
    """A client was sent what its own copy of the study does not allow. The message is the same
    whatever was sent and whatever rows the client has, so a server learns nothing from it."""

    def __init__(self) -> None:
        super().__init__("what the server sent does not fit the study; nothing was answered.")


def checked_seed(seed: Any, name: str = "seed") -> int:
    """The seed itself; BadInput, naming the parameter, unless it is a whole number from 0 to
    MOST_SEED."""
    whole = hasattr(seed, "__index__") and not isinstance(seed, bool)
    if not whole or not 0 <= seed <= MOST_SEED:
        raise BadInput(f"{name} is {seed!r}: give a whole number from 0 to {MOST_SEED}.")
    return int(seed)
