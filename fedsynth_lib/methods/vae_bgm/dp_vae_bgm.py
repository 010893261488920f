"""VAE-BGM private end to end, which apellaniz2025 names as future work: rows and generators may
leave a node.

One network, since each that trains on a record's row is paid for; a mixture of few components, from
noisy sums.
"""

from dataclasses import dataclass

from fedsynth_lib.methods.vae_bgm import vae_bgm
from fedsynth_lib.methods.vae_bgm.vae_bgm import (
    ADVERSARY,
    OWN_NOISE,
    broadcast,
    client_step,
    encoder,
    plan,
    sample,
    server_step,
    start,
)

__all__ = [
    "ADVERSARY",
    "OWN_NOISE",
    "broadcast",
    "client_step",
    "encoder",
    "plan",
    "sample",
    "server_step",
    "start",
]

VERSION = 2  # each node has the noise that its own rows need
TRUST = "local noise"


@dataclass(frozen=True)
class Config(vae_bgm.Config):
    networks: int = 1
    local_epochs: int = 20
    components: int = 3
    clip: float | None = 1.0
