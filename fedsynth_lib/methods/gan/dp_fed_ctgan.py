"""DP-Fed-CTGAN (leitner2023, chapter 4), by default private from end to end.

As published, mixtures, categories and conditions leave a client without noise, and rows are drawn
by the frequencies of their categories, which is not the sampling that the accountant assumes:
`AS_PUBLISHED` does so, and the run's statement lists it all as unprotected. The default releases
noisy histograms in their place, draws every row by its own coin and reads the condition off it; its
epsilon covers everything. Since the histograms are paid for, the generator may start from them, and
be told when it misses a condition drawn from them, both of which the published scheme leaves out.
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
TRUST = "local noise"


@dataclass(frozen=True)
class Config(fed_ctgan.Config):
    """The work's values (tables 5.2 and 5.3). Give Privacy an epsilon, or a noise multiplier and
    here stop_epsilon."""

    loss: str = "cross_entropy"
    pac: int = 1
    critic_steps: int = 1
    clip: float | None = 1.0
    encoding: str = "private"
    sampling: str = "poisson"
    start_from_marginals: bool = True


AS_PUBLISHED = {
    "encoding": "federated",
    "sampling": "by_condition",
    "start_from_marginals": False,
    "condition_weight": 0.0,
}
