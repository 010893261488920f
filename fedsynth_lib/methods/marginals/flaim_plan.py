"""What happens in which round of FLAIM, and what it costs: settings, schedule and plan of its
variants."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from fedsynth_lib.core.contract import BadInput, Charge, Domain
from fedsynth_lib.methods.marginals import marginals
from fedsynth_lib.methods.marginals.marginals import Doses

ORACLE = "all rows of every client, for the true heterogeneity"


@dataclass(frozen=True)
class Config(marginals.Config):
    """As `marginals.Config`, and what sets the variants apart; the defaults are AugFLAIM (Private).

    selection: by the clients' exponential mechanism, one random candidate a round for all, or none
        at all.
    penalty: what is taken off a score for the client's heterogeneity: nothing, its true value (an
        oracle), or the private proxy made of one-way marginals, which all clients of a round
        contribute.
    keep_one_way: one-way marginals are no candidates ("filter"); all clients contribute them in
        every round but the last, and the model is fitted to them too ("combine").
    local_steps: choices of a client per round, s; between them it measures and refits on its own,
        with noise.
    """

    selection: Literal["exponential", "random", "none"] = "exponential"
    penalty: Literal["none", "true", "proxy"] = "proxy"
    filter_one_way: bool = True
    combine_one_way: bool = True
    local_steps: int = 1

    def __post_init__(self):
        super().__post_init__()
        if self.selection not in ("exponential", "random", "none") or self.penalty not in (
            "none",
            "true",
            "proxy",
        ):
            raise BadInput(
                f"selection {self.selection!r} with penalty {self.penalty!r} is "
                "unknown: see flaim.Config."
            )
        if self.local_steps < 1 or (self.local_steps > 1 and self.selection != "exponential"):
            raise BadInput(
                f"local_steps is {self.local_steps}: give 1, or more where clients select."
            )

    @property
    def one_way_each_round(self) -> bool:
        return self.selection == "exponential" and (self.combine_one_way or self.penalty == "proxy")


@lru_cache(maxsize=32)
def phases(columns: int, config: Config) -> tuple[tuple[str, int], ...]:
    """What happens in each round of the schedule: (kind, which column or FLAIM round)."""
    rounds = config.first_rounds * columns if config.annealed else config.rounds
    kinds = {"exponential": ("choose", "collect"), "random": ("collect",), "none": ()}[
        config.selection
    ]
    oracle = [("oracle", 0)] if config.penalty == "true" else []
    return (
        *oracle,
        *(("column", c) for c in range(columns)),
        *((kind, t) for t in range(rounds) for kind in kinds),
    )


def schedule(domain: Domain, config: Config) -> list[tuple[int, float]]:
    """A draw for each column and for each round; the oracle asks everyone."""
    columns = len(domain.names)
    draws = {"oracle": lambda _: (0, 1.0), "column": lambda c: (1 + c, config.participation)}
    later = lambda t: (1 + columns + t, config.participation)  # noqa: E731
    return [draws.get(kind, later)(number) for kind, number in phases(columns, config)]


def doses(columns: int, config: Config) -> Doses:
    """Lemma 4.1, and for more than one local step the local measurements, which the work leaves
    out."""
    rounds, steps = (
        config.first_rounds * columns if config.annealed else config.rounds,
        config.local_steps,
    )
    if config.selection == "none":
        return Doses(columns, 0)
    if config.selection == "random":
        return Doses(columns + rounds, 0)
    each = each_round(columns, config)
    return Doses(columns + rounds * each.measured - one_way_again(columns, config), rounds * steps)


def each_round(columns: int, config: Config) -> Doses:
    """What a record pays in a round: each choice is measured by the server, and all but the last by
    the client."""
    if config.selection == "random":
        return Doses(1, 0)
    return Doses(2 * config.local_steps - 1 + one_way_again(columns, config), config.local_steps)


def one_way_again(columns: int, config: Config) -> int:
    return columns if config.one_way_each_round else 0


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """What a record pays whose client takes part in every draw; the others pay less."""
    oracle = [Charge(ORACLE, "unprotected")] if config.penalty == "true" else []
    return oracle + doses(len(domain.names), config).plan(noise_multiplier, config.measure_share)
