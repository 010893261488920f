"""What a client requires of the arrays that a server sends, before it touches a row.

A server that lies may send anything. A method's `check_broadcast` compares each array with what the
client's own copy of the study allows: the very same array, or one of a type, shape and range.
Anything that does not fit ends in one constant error; so does any failure on the way, which
`Job.check` of `federation/flower.py` sees to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsynth_lib.core.contract import Arrays
from fedsynth_lib.core.errors import BadBroadcast

LARGEST = 1e100  # of sums and scores that a client computes with: none of them can overflow


@dataclass(frozen=True)
class Values:
    """Arrays of this type and shape, with finite numbers from `low` to `high`.

    shape: None for an axis of any length. finite: False where numbers do not count, only type and
        shape: parameters of a network, whose private training leaves out every record with a
        gradient that is not finite. (One that diverges in a rehearsal goes on, to show what comes
        of it; between sites its server refuses it.)
    """

    dtype: type
    shape: tuple[int | None, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True


def require(condition: Any) -> None:
    """Raise BadBroadcast unless the condition holds."""
    if not condition:
        raise BadBroadcast()


def check_arrays(sent: Arrays, expected: Mapping[str, np.ndarray | Values]) -> None:
    """Raise BadBroadcast unless exactly these arrays were sent, and each of them fits.

    An array fits if it is equal to the expected one, or has the expected type, shape and range.
    """
    require(sent.keys() == expected.keys())
    for name, wanted in expected.items():
        values = sent[name]
        require(type(values) is np.ndarray and values.dtype == wanted.dtype)
        if isinstance(wanted, np.ndarray):
            require(np.array_equal(values, wanted))
            continue
        require(len(values.shape) == len(wanted.shape))
        pairs = zip(values.shape, wanted.shape, strict=True)
        require(all(size in (None, length) for length, size in pairs))
        if wanted.finite:
            within = (values >= wanted.low) & (values <= wanted.high) & np.isfinite(values)
            require(within.all())
