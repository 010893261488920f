"""The audit of a method nobody has looked at: no worst table is known, nor what it releases."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from fedsynth_lib.audit.fits import DEFINITION
from fedsynth_lib.audit.measure import FASTER, Line, measure
from fedsynth_lib.audit.neighbours import DELTA, OTHERS, SCHEMA, TARGET
from fedsynth_lib.audit.scenario import Case, Scenario, Seen
from fedsynth_lib.core.contract import Arrays, Method, Privacy

EPSILON = 4.0  # that the audited runs claim
SHADOWS = 200  # runs with the record, and as many without, that a score learns from
TRIED = 5  # runs of either kind, to see how long one takes
MOST = 200  # runs, as `measure` counts them


def audited(method: Method, *, seconds: float = 60) -> Line:
    """Audit a method with its default settings, in about so many seconds.

    There is one client, and it takes part in every round.
    """
    config = method.Config()
    config = replace(config, participation=1.0) if hasattr(config, "participation") else config
    domain = method.encoder(SCHEMA, config).domain
    charges = method.plan(1.0, domain, len(OTHERS) + 1, config)
    pure = all(charge.mechanism in ("laplace", "exponential") for charge in charges)
    case = Case(
        method.name,
        method,
        config,
        Privacy(EPSILON, 0.0 if pure else DELTA, noise_seed=None),
        SCHEMA,
        OTHERS,
        TARGET,
        sees="the model",
        fit=lambda scenario: DEFINITION,
        score=linear,
    )
    scenario, begin = Scenario(case), time.monotonic()
    for _ in range(TRIED):
        scenario.run(present=True), scenario.run(present=False)
    affordable = seconds * 2 * TRIED / (time.monotonic() - begin)
    # the scores of the control and of the audit learn from runs of their own; what is left is
    # divided among control and audit, with the record and without it
    number = (affordable - 2 * 2 * SHADOWS) / 4
    return measure(case, 1, int(np.clip(number / FASTER["marginals"], 8, MOST)))


def linear(scenario: Scenario) -> Callable[[Seen], float]:
    """Score a run by a weighted sum of the numbers of its model.

    The weight of a number is how far the record moves its mean, over its variance; both are
    measured in runs of the adversary's own. An array that is missing in a run, or has another size
    there, counts as 0.
    """
    states = [[scenario.run(present=p).state for _ in range(SHADOWS)] for p in (True, False)]
    shapes = {name: values.shape for name, values in states[0][0].items()}
    there, absent = (np.array([_numbers(each, shapes) for each in side]) for side in states)
    moved, spread = (there - absent).mean(axis=0), there.var(axis=0) + absent.var(axis=0)
    weights = moved / (spread + 1e-6 * moved**2 + (moved == 0))
    return lambda seen: float(weights @ _numbers(seen.state, shapes))


def _numbers(state: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
    same = {n: state[n] for n, shape in shapes.items() if n in state and state[n].shape == shape}
    return np.hstack([np.ravel(same.get(n, np.zeros(shapes[n]))) for n in shapes]).astype(float)
