"""The words of a verdict on exhibits, printed cells and claims, and the text of what a claim rests
on."""

from collections.abc import Iterable

from fedsynth_lib.printed.published import UNTESTED, VERDICTS

COUNTED = tuple(VERDICTS)  # a printed cell beside ours
# of an exhibit
IN_FULL, IN_PART, SHRUNK, NOT_MADE = STATES = ("in full", "in part", "shrunk", "not made")
OUTCOMES = ("holds", "mostly holds", "mostly fails", "does not hold", "not tested")


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


def outcome(verdict: str, share: float) -> str:
    """One of OUTCOMES, by a verdict of `judges.judged` and the share of the claim's
    conditions that hold."""
    if verdict == UNTESTED:
        return OUTCOMES[-1]
    return verdict if share in (0, 1) else OUTCOMES[1 if share >= 0.5 else 2]
