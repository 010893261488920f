"""NaiveFLAIM: every client scores by its own rows alone, all measurements weigh the same
(maddock2024, section 4.1)."""

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
    penalty: str = "none"
    filter_one_way: bool = False
    combine_one_way: bool = False
    weighted: bool = False
