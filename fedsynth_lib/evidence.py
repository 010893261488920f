"""What the verdict on a claim rests on, as a text that knows which of its conditions fail."""

from collections.abc import Iterable


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
