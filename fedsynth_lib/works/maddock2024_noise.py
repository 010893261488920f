"""What the noise of maddock2024 truly costs where clients take more than one local step.

Its lemma 4.1 leaves out what a client measures between the choices of a round, though its next
choice, which is sent, rests on it. All runs here are charged for that. To show the work's own noise
as well there is no switch that lets a run spend more than it says: a run that asks for what this
noise costs, divided as this noise divides it, draws it, and its statement tells the truth.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fedsynth_lib.core.accounting import calibrate, epsilon_of
from fedsynth_lib.core.contract import Privacy
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import flaim
from fedsynth_lib.tables.registry import declared_schema
from fedsynth_lib.works.declared import load

WORK = load("maddock2024")
DELTA = WORK.constants["delta"]
CHARGED = "as charged"  # else `as published`


class TrueCost(NamedTuple):
    """What noise costs a record whose client is in every draw.

    epsilon: at DELTA, one record added or removed. measure_share: the part of that budget which
    goes to measuring. noise: its standard deviation on a count, in records.
    """

    epsilon: float
    measure_share: float
    noise: float


@lru_cache(maxsize=256)
def true_cost(columns: int, config: flaim.Config, epsilon: float) -> TrueCost:
    """Return what the work's own noise for `epsilon` costs, by the accountant of all runs here.

    The noise is set for `flaim.lemma_counts`; `flaim.query_counts` are released with it, each
    marginal of sensitivity 1. A run that asks for the epsilon and the measure_share returned draws
    the same noise for counts and for choices.
    """
    counted, released = flaim.lemma_counts(columns, config), flaim.query_counts(columns, config)
    asked = Privacy(epsilon, DELTA, reproduction=True)
    noise = calibrate(lambda sigma: counted.plan(sigma, config.measure_share), asked)
    odds = config.measure_share / (1 - config.measure_share) * released.measured / counted.measured
    share = odds / (1 + odds)
    return TrueCost(epsilon_of(released.plan(noise, share), DELTA, accountant="rdp"), share, noise)


def cost_of(dataset: str, method: str, rounds: int, local_steps: int, epsilon: float) -> TrueCost:
    """`true_cost` of a method of the work on one of its tables, which is not loaded."""
    config = METHODS[WORK.method(method).key].Config(rounds=rounds, local_steps=local_steps)
    return true_cost(len(declared_schema(dataset, WORK.key).columns), config, epsilon)


def at_its_true_cost(cell: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Set `epsilon` of a cell to what the noise costs, and `claimed` to the cell's own epsilon.

    With the work's own noise the cost is calculated, to four digits; with ours it is the same.
    """
    claimed = {"claimed": cell["epsilon"]}
    if cell["noise"] == CHARGED:
        return claimed
    named = (cell[name] for name in ("dataset", "method", "rounds", "local_steps", "epsilon"))
    cost = cost_of(*named)
    own = {"epsilon": round(cost.epsilon, 4), "measure_share": round(cost.measure_share, 4)}
    return {**claimed, **own}
