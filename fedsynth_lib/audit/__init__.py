"""An audit of the privacy that methods claim.

It gives lower bounds on epsilon, from runs with one record and without it.

    python -m fedsynth_lib audit                    the whole table
    audit.measured("fedbn")                         what the table says of a method as it is now

A bound above the claim is a proof that the claim is false. A bound below it proves nothing but what
it says. Whether it could have noticed a fault is shown by the control: the same runs with too
little noise.
"""

from fedsynth_lib.core import measured as lines
from fedsynth_lib.core.measured import Measured
from fedsynth_lib.methods import METHODS

__all__ = ["Measured", "measured"]


def measured(key: str) -> Measured | None:
    """Return what the table says of a method in METHODS.

    The result is None if the method was not measured as it is now.
    """
    return lines.measured(key, METHODS[key])
