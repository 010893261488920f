"""Fed-CTGAN: DP-Fed-CTGAN without its privacy (leitner2023, section 5.1.3, table 5.3); nothing of
it is protected.

The work does not say which losses it has. Table 5.3 gives it the settings of Wasserstein training,
10 rows judged together and three steps of the discriminator, on top of CTGAN's defaults; hence
CTGAN's own losses are taken here. Those of algorithm 4.2 are a setting: loss 'cross_entropy' with
condition_weight 0; they were tried first, and learned less (`findings.md`).
"""

from dataclasses import dataclass

from fedsynth_lib.methods.gan import ctgan
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


@dataclass(frozen=True)
class Config(ctgan.Config):
    critic_steps: int = 3
    generator_decay: float = 1e-5
    discriminator_decay: float = 1e-5
    encoding: str = "federated"
