"""FedNaiveBayes: one-way marginals only, with the whole budget; columns stay independent
(maddock2024, section 5.1)."""

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
    selection: str = "none"
    penalty: str = "none"
    filter_one_way: bool = False
    combine_one_way: bool = False
    weighted: bool = False
