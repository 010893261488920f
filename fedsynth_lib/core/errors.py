"""Exceptions for invalid requests, and checks that the runner and the library share.

Because they share the checks, both say the same about a bad option. This module needs nothing but
Python itself: the runner refuses a bad option before there are any packages.
"""

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

MOST_SEED = 2**32 - 1  # what numpy's and scikit-learn's older generators take


class BadInput(ValueError):
    """What the user handed in cannot work; the message is one sentence with the remedy."""


class BadRows(BadInput):
    """Rows do not fit their schema.

    The message may show a value to their owner, who has to find it.

    told: the same without a value and without a number of rows, which is all that a client may send
        to others.
    """

    def __init__(self, message: str, told: str = ""):
        super().__init__(message)
        self.told = told


class BadBroadcast(BadInput):
    """A client was sent what its own copy of the study does not allow.

    The message is the same whatever was sent and whatever rows the client has, so a server learns
    nothing from it.
    """

    def __init__(self) -> None:
        super().__init__("what the server sent does not fit the study; nothing was answered.")


def checked_seed(seed: Any, name: str = "seed") -> int:
    """Return the seed as an integer.

    Raises BadInput, naming the parameter, unless it is a whole number from 0 to MOST_SEED.
    """
    whole = hasattr(seed, "__index__") and not isinstance(seed, bool)
    if not whole or not 0 <= seed <= MOST_SEED:
        raise BadInput(f"{name} is {seed!r}: give a whole number from 0 to {MOST_SEED}.")
    return int(seed)


def checked_rows(rows: Any, name: str = "rows") -> int:
    """Return a number of rows as an integer.

    Raises BadInput, naming the parameter, unless it is a whole number of at least 1.
    """
    if not isinstance(rows, Integral) or isinstance(rows, bool) or rows < 1:
        raise BadInput(f"{name} is {_shown(rows)}: give a whole number of at least 1.")
    return int(rows)


def _shown(value: Any) -> str:
    """Write a value for a message.

    None, texts, numbers and short values are shown as typed. For any other value the message names
    the type alone, since the value may hold somebody's data.
    """
    short = value is None or isinstance(value, str | Real) or len(repr(value)) <= 40
    return repr(value) if short else f"a {type(value).__name__}"


def checked_epsilon(epsilon: Any, name: str = "epsilon") -> float:
    """Return the privacy budget as a float.

    Raises BadInput, naming the parameter, unless it is a number above 0.
    """
    if not isinstance(epsilon, Real) or isinstance(epsilon, bool) or not epsilon > 0:
        shown = epsilon if isinstance(epsilon, Real) else repr(epsilon)
        raise BadInput(f"{name} is {shown}: give a positive number.")
    return float(epsilon)


def checked_name(word: str, known: Iterable[str], where: str) -> str:
    """Return the name if it is one of `known`.

    Raises BadInput, with the closest known name, if it is not; `where` is the subject of the
    message.
    """
    if word not in (names := list(known)):
        raise BadInput(
            f"{where} does not know {word!r}{closest(word, names)}; choose from {', '.join(names)}."
        )
    return word


def closest(word: str, words: Iterable[str]) -> str:
    """Return `, the closest is 'word'` for a message; empty where no word is similar."""
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f", the closest is {near[0]!r}" if near else ""
