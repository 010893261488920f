"""AIM (McKenna et al. 2022; maddock2024, algorithm 2): DistAIM with every client in every round.

With one client this is the central algorithm: the curator's counts are complete from the first
choice on. With several, they lie in shares among the compute servers, and the model is the same as
if one curator held all rows.
"""

from dataclasses import dataclass

from fedsynth_lib.methods.marginals import distaim
from fedsynth_lib.methods.marginals.distaim import (
    ADVERSARY,
    broadcast,
    client_step,
    encoder,
    plan,
    sample,
    schedule,
    server_step,
    start,
)

__all__ = [
    "ADVERSARY",
    "broadcast",
    "client_step",
    "encoder",
    "plan",
    "sample",
    "schedule",
    "server_step",
    "start",
]

VERSION = distaim.VERSION
TRUST = "server"


@dataclass(frozen=True)
class Config(distaim.Config):
    participation: float = 1.0
