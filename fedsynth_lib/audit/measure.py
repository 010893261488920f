"""One line of the audit's table: what was measured of a method with so many clients."""

import time
from dataclasses import dataclass
from datetime import date

import numpy as np

from fedsynth_lib.audit import neighbours, scores
from fedsynth_lib.audit.bounds import lower_bound
from fedsynth_lib.audit.fits import DEFINITION
from fedsynth_lib.audit.scenario import RATE_OF_CONTROL, Case, Scenario
from fedsynth_lib.core.measured import BELOW, EXCEEDED, WEAK, digest_of

RUNS = 160  # of a network with one client, with the record and as many without
FASTER = {"counts": 40, "marginals": 5, "networks": 1}  # how many times as many runs a family gets
ALARM = 0.999  # confidence of an alarm: some thirty lines with three bounds each are tested
ROWS = 20  # synthetic rows of a run


@dataclass(frozen=True)
class Line:
    """What an audit found. Bounds are 95 percent lower bounds on epsilon at `delta`.

    lower: from what the adversary sees (`sees`), by a fit of the noise where that is known (`by`);
    plain: of the same scores without that assumption; synthetic: from synthetic rows alone.
    runs: with the record, and as many without. control: as `lower`, of runs with 0.3 times the
    noise that the claim needs. digest: of the code and the settings that were measured, on `date`
    (see `core/measured.py`).
    """

    method: str
    clients: int
    epsilon: float
    delta: float
    sees: str
    runs: int
    lower: float
    by: str
    plain: float
    synthetic: float
    control: float
    control_runs: int
    verdict: str
    digest: str
    date: str
    seconds: float


def runs_of(case: Case, clients: int, runs: int) -> int:
    """Return the number of runs: fewer for several clients, more where a run is fast."""
    family = (
        "counts"
        if case.key in neighbours.COUNTS
        else "marginals"
        if case.sees == "the model"
        else "networks"
    )
    return max(40, FASTER[family] * runs // (1 if clients == 1 else 2))


def scored(scenario: Scenario, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of so many runs with the record and as many without.

    The result is two arrays (2, runs): scores by all that is seen, and by synthetic rows alone.
    """
    white, black = scenario.case.score(scenario), scores.synthetic(scenario, ROWS)
    found = np.empty((2, 2, number))
    for run in range(number):
        for place, present in enumerate((True, False)):
            seen = scenario.run(present=present)
            found[:, place, run] = white(seen), black(seen)
    return found[0], found[1]


def measure(case: Case, clients: int, runs: int) -> Line:
    """Measure one line.

    The control is measured first, with as many runs. Its bound must exceed the claim, else a bound
    below the claim is too weak to count.
    """
    begin, claim, delta = time.monotonic(), case.privacy.epsilon, case.privacy.delta
    number, fit = runs_of(case, clients, runs), case.fit(Scenario(case, clients))
    control = lower_bound(
        *Scenario(case, clients, RATE_OF_CONTROL).score_runs(number), delta, fit=fit
    )
    white, black = scored(Scenario(case, clients), number)
    kinds = {"lower": (white, fit), "plain": (white, DEFINITION), "synthetic": (black, DEFINITION)}
    found = {name: lower_bound(*pair, delta, fit=by) for name, (pair, by) in kinds.items()}
    surely = [lower_bound(*pair, delta, fit=by, confidence=ALARM) for pair, by in kinds.values()]
    verdict = EXCEEDED if max(surely) > claim else BELOW if control > claim else WEAK
    rounded = {name: round(value, 4) for name, value in found.items()}
    return Line(
        *(case.key, clients, claim, delta, case.sees, number),
        **rounded,
        by=fit.name,
        control=round(control, 4),
        control_runs=number,
        verdict=verdict,
        digest=digest_of(case.method),
        date=date.today().isoformat(),
        seconds=round(time.monotonic() - begin, 1),
    )
