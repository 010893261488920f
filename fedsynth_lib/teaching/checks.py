"""Exercises that check themselves: a cell gives its answer and learns whether it is right, or which
assumption failed."""

import math
from collections.abc import Mapping

from fedsynth_lib.core import accounting
from fedsynth_lib.core.contract import Charge, Privacy

EMPTY = "Put your answer in place of None, and run the cell."


def check(answer: float | None, right: float, *, hints: Mapping[float, str] | None = None) -> str:
    """Say whether a number is right, within one percent of the right one.

    Parameters
    ----------
    answer
        What the reader put into the cell; None where nothing was put there yet.
    right
        The right answer.
    hints
        What is said of a wrong answer, by that answer: which step leads there.

    Returns
    -------
    str
        "Right.", the hint of a known wrong answer, or whether the answer is too large or too small.
    """
    if answer is None:
        return EMPTY
    if isinstance(answer, bool) or not isinstance(answer, int | float) or math.isnan(answer):
        return "The answer is a number."
    if math.isclose(answer, right, rel_tol=0.01):
        return "Right."
    for wrong, hint in (hints or {}).items():
        if math.isclose(answer, wrong, rel_tol=0.01):
            return f"Not yet: {hint}"
    return f"Not yet: {answer:g} is too {'large' if answer > right else 'small'}."


def check_budget(question: str, answer: float | None) -> str:
    """Say whether an answer to an exercise of lesson 02 is right."""

    def gaussian(epsilon: float) -> float:
        return accounting.calibrate(
            lambda noise: [Charge("a count", "gaussian", noise=noise)], Privacy(epsilon, 1e-5)
        )

    exercises = {
        "laplace": (2.0, {0.5: "that is by how much it is multiplied; how much smaller is it?"}),
        "gaussian": (
            gaussian(0.25) / gaussian(0.5),
            {
                2.0: "that is the factor of Laplace noise.",
                2**0.5: "that is the limit at large epsilon.",
            },
        ),
        "coins": (0.9**50, {0.9: "that is one step.", 0.1**50: "that is being in all of them."}),
    }
    right, hints = exercises[question]
    return check(answer, right, hints=hints)
