"""Fed-TGAN (Zhao et al. 2021, as leitner2023 re-implemented it): clients share the frequencies of
their categories.

With them, and with its own mixtures, the server weighs clients by how like all rows theirs are
(`similarity_weights`), and draws conditions by itself. Otherwise it trains as Fed-CTGAN does;
nothing of it is protected.
"""

from dataclasses import dataclass

from fedsynth_lib.methods.gan import ctgan, fed_ctgan
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
class Config(fed_ctgan.Config):
    encoding: str = "variational"
    weighting: str = "similarity"
