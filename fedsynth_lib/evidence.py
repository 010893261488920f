"""What the verdict on a claim rests on, as a text that knows which of its conditions fail; and the outcome in words."""

from collections.abc import Iterable

from fedsynth_lib.published import UNTESTED

OUTCOMES = ("holds", "mostly holds", "mostly fails", "does not hold", "not tested")


class Evidence(str):
    """The texts of a claim's conditions, and in `fails` of those that do not hold, or not for all they are about."""

    fails: str

    @classmethod
    def of(cls, conditions: Iterable[tuple[float, str]]) -> "Evidence":
        """conditions: the share of each that holds, and its text."""
        conditions = list(conditions)
        found = cls("; ".join(text for _, text in conditions))
        found.fails = "; ".join(text for share, text in conditions if share < 1)
        return found


def outcome(verdict: str, share: float) -> str:
    """One of OUTCOMES, by a verdict of `published.judge_claims` and the share of the claim's conditions that hold."""
    if verdict == UNTESTED:
        return OUTCOMES[-1]
    return verdict if share in (0, 1) else OUTCOMES[1 if share >= 0.5 else 2]
