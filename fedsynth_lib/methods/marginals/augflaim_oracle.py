"""AugFLAIM (Oracle): scores less the true heterogeneity, which nobody may know (maddock2024,
section 4.2)."""

from dataclasses import dataclass

from fedsynth_lib.methods.marginals import flaim
from fedsynth_lib.methods.marginals.flaim import (
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

VERSION = flaim.VERSION
TRUST = "server"


@dataclass(frozen=True)
class Config(flaim.Config):
    penalty: str = "true"
    filter_one_way: bool = False
    combine_one_way: bool = False
    weighted: bool = True
