"""Federated DP-CTGAN of maddock2024 (its table 1): discriminators on the clients, the generator on
the server.

In each of 500 rounds a tenth of the clients makes one private step of the discriminator on a batch
of its rows; the server averages, and makes one step of the generator. Every column is binned. The
work draws conditions from the raw frequencies of all rows; here they come from noisy histograms
that the budget pays for.
"""

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
    """Appendix B.4.1 as far as it can be read; clip 1 and batch 128 are assumptions.

    most_rounds: a client that has taken part so often stays out, as the work's own count of steps
        assumes.
    """

    training_rounds: int = 500
    participation: float = 0.1
    most_rounds: int | None = 51
    batch: int = 128
    discriminator_rate: float = 1e-3
    generator_rate: float = 1e-5
    generator_at: str = "server"
    bins: int | None = 32
