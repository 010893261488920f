"""The words of a verdict on exhibits, printed cells and claims, and the text of what a claim rests
on."""

from collections.abc import Iterable

from fedsynth_lib.printed.published import UNTESTED, VERDICTS

COUNTED = tuple(VERDICTS)  # a printed cell beside ours
# of an exhibit
IN_FULL, IN_PART, SHRUNK, NOT_MADE = STATES = ("in full", "in part", "shrunk", "not made")
HOLDS, PARTLY, FAILS, UNTOLD, VACUOUS = (
    *("holds", "partly", "does not hold", "cannot tell", "vacuous"),
)
OUTCOMES = (HOLDS, PARTLY, FAILS, UNTOLD, VACUOUS, UNTESTED)  # of a claim


class Evidence(str):
    """The texts of a claim's conditions, and in `fails` of those that do not hold, or not for all
    they are about."""

    fails: str

    @classmethod
    def of(cls, conditions: Iterable[tuple[float, str]]) -> "Evidence":
        """conditions: the share of each that holds, and its text."""
        conditions = list(conditions)
        found = cls("; ".join(text for _, text in conditions))
        found.fails = "; ".join(text for share, text in conditions if share < 1)
        return found


def outcome(share: float | None, low: float, high: float) -> str:
    """Of a claim that is tested, by the share of its conditions that hold, and by the range of
    shares that redrawn runs have: one of the first four OUTCOMES.

    A claim that holds in all does so where redraws keep three quarters of it, one that fails in all
    where they find no more than a quarter; what lies between is told unless redraws range over half
    of what there is.
    """
    if share is None:
        return UNTESTED
    if share == 1:
        return HOLDS if low >= 0.75 else UNTOLD
    if share == 0:
        return FAILS if high <= 0.25 else UNTOLD
    return PARTLY if high - low < 0.5 else UNTOLD
