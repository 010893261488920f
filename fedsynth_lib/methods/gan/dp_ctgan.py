"""Central DP-CTGAN (Rosenblatt et al. 2020, SmartNoise; the baseline of leitner2023), by default
private end to end."""

from dataclasses import dataclass

from fedsynth_lib.methods.gan import ctgan, dp_fed_ctgan
from fedsynth_lib.methods.gan.ctgan import (
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
    "broadcast",
    "client_step",
    "encoder",
    "plan",
    "sample",
    "schedule",
    "server_step",
    "start",
]

VERSION = ctgan.VERSION
TRUST = "local noise"


@dataclass(frozen=True)
class Config(dp_fed_ctgan.Config):
    generator_decay: float = 1e-6
    discriminator_decay: float = 1e-6


AS_PUBLISHED = {**dp_fed_ctgan.AS_PUBLISHED, "encoding": "variational"}
