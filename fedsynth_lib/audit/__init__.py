"""An audit of the privacy that methods claim: lower bounds on epsilon from runs with one record and
without it.

    python -m fedsynth_lib audit                    the whole table
    audit.measured("fedbn")                         what the committed table says of a method

A bound above the claim is a proof that the claim is false. A bound below it proves nothing but what
it says; whether it could have noticed a fault tells the control, the same runs with too little
noise.
"""

from fedsynth_lib.core.measured import Measured, measured

__all__ = ["Measured", "measured"]
