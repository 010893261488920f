"""Exercises that check themselves: a cell gives its answer and learns whether it is right, or which
assumption failed."""

import math
from collections.abc import Mapping


def check(answer: float | None, right: float, *, hints: Mapping[float, str] | None = None) -> str:
    """Say whether a numeric answer is right, within one percent of the right one.

    Parameters
    ----------
    answer
        What the reader put into the cell; None where nothing was put there yet.
    right
        The right answer.
    hints
        What is told of a wrong answer, by that answer: which step leads there.

    Returns
    -------
    str
        "Right.", the hint of a known wrong answer, or whether the answer is too large or too small.
    """
    if answer is None:
        return "Put your answer in place of None, and run the cell."
    if isinstance(answer, bool) or not isinstance(answer, int | float) or math.isnan(answer):
        return "The answer is a number."
    near = [
        number for number in (right, *(hints or {})) if math.isclose(answer, number, rel_tol=0.01)
    ]
    if right in near:
        return "Right."
    if near:
        return f"Not yet: {(hints or {})[near[0]]}"
    return f"Not yet: {answer:g} is too {'large' if answer > right else 'small'}."
