"""The words of a verdict on exhibits, published values and claims.

With them is the text of what a claim rests on.
"""

from collections.abc import Iterable

from fedsynth_lib.printed.published import UNTESTED, VERDICTS

COUNTED = tuple(VERDICTS)  # a published value beside ours
# of an exhibit
IN_FULL, IN_PART, SHRUNK, NOT_MADE = STATES = ("in full", "in part", "shrunk", "not made")
HOLDS, PARTLY, NOT_IN_FULL, FAILS, UNDECIDED, VACUOUS = (
    *("holds", "partly", "not in full", "does not hold", "undecided", "vacuous"),
)
OUTCOMES = (HOLDS, PARTLY, NOT_IN_FULL, FAILS, UNDECIDED, VACUOUS, UNTESTED)  # of a claim
SURE = 0.95  # the share of redraws that decides


class Evidence(str):
    """The texts of a claim's conditions.

    `fails` has the texts of those that do not hold, or not for all they are about.
    """

    fails: str

    @classmethod
    def of(cls, conditions: Iterable[tuple[float, str]]) -> "Evidence":
        """conditions: the share of each that holds, and its text."""
        conditions = list(conditions)
        found = cls("; ".join(text for _, text in conditions))
        found.fails = "; ".join(text for share, text in conditions if share < 1)
        return found


def reached(share: float) -> str:
    """Return the outcome of one set of runs: all conditions hold, none does, or some do."""
    return HOLDS if share == 1 else FAILS if share == 0 else PARTLY


def outcome(share: float | None, same: int = 0, in_full: int = 0, redraws: int = 0) -> str:
    """Return one of OUTCOMES for a claim by the share of its conditions that hold.

    same, in_full: how many resampled sets of runs (`redraws`) reach what ours reach, and how many
    satisfy the whole claim. Where SURE of them reach the same, that is the outcome. Where they do
    not, but neither ours nor more than 1 - SURE of them satisfy the whole claim, it is NOT_IN_FULL:
    how much of it holds is open. All else is UNDECIDED. Without resampled sets, as for published
    values, the share alone decides.
    """
    if share is None:
        return UNTESTED
    own = reached(share)
    if same >= SURE * redraws:
        return own
    if own != HOLDS and in_full <= (1 - SURE) * redraws:
        return NOT_IN_FULL
    return UNDECIDED
