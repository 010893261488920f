"""Exercises that check themselves.

A cell gives its answer and learns whether it is right, or which assumption failed.
"""

import math
from collections.abc import Mapping

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


# lesson and number: the right answer, and what is said of a wrong one, by that answer
EXERCISES: dict[str, tuple[float, dict[float, str]]] = {
    "01.1": (0.6, {1.2: "it is half of the sum of differences.", 0.4: "compare with all rows."}),
    "01.2": (0.5, {1.0: "each client is compared with all rows, not with the other one."}),
    "01.3": (
        16_200 / 20,
        {16_200 / 19: "the range has 20 bins.", 15_900 / 20: "the range begins below 0."},
    ),
    "02.1": (
        2.0,
        {0.5: "that is by how much it is multiplied; how much smaller is it?"},
    ),
    "02.2": (
        1.8785,  # by `accounting.calibrate`
        {
            2.0: "that is the factor of Laplace noise.",
            2**0.5: "that is the limit at large epsilon.",
        },
    ),
    "02.3": (0.9**50, {0.9: "that is one step.", 0.1**50: "that is being in all of them."}),
    "03.1": (
        8 * 25 + len("counts"),
        {25.0: "a count has 64 bits.", 8.0 * 25: "the name of the array is sent, too."},
    ),
    "03.2": (
        math.sqrt(10 - 1),
        {
            math.sqrt(
                10
            ): "one may be curious: nine shares make the whole noise, and ten are added.",
            10.0: "variances add up, deviations do not.",
        },
    ),
    "03.3": (1 / 4, {1 / 5: "a share is made for four honest clients.", 1.0: "four are gone."}),
    "04.1": (
        math.log(0.6 / 0.1),
        {
            6.0: "that is the factor; take its logarithm.",
            math.log(0.1 / 0.6): "divide by the alarms.",
        },
    ),
    "04.2": (
        1 - 0.025 ** (1 / 20),
        {0.0: "few runs may miss a rare alarm.", 1 - 0.05 ** (1 / 20): "that is with 95 percent."},
    ),
    "04.3": (
        1_000 * math.e / (1 + math.e),
        {
            500.0: "that is guessing.",
            1_000 * (1 - math.exp(-1)): "right over wrong is exp(epsilon).",
        },
    ),
    "05.1": (1 / 2, {1 / 3: "the other two must make the whole noise without the one."}),
    "05.2": (1.0, {2.0: "no person is in both: three rows in ten are set aside first."}),
    "05.3": (4.0, {5.0: "a site has no mask with itself.", 10.0: "that is all pairs of sites."}),
    "10.1": (
        12 * 20**3,
        {
            14 * 20**3: "the table of the third column describes the first two as well.",
            12 * 20**2: "a table spans the child and two parents.",
        },
    ),
    "10.2": (
        2 * 12 / 1.6,
        {
            12 / 1.6: "that is for one record added; replacing one moves two cells of each table.",
            2 * 14 / 1.6: "the number of tables counts, not the number of columns.",
        },
    ),
    "10.3": (
        19 * 19 / 1000,
        {
            20 * 20 / 1000: "use the numbers of categories less one.",
            19 * 19 / 500: "the divisor is twice the number of rows.",
        },
    ),
    "11.1": (
        (2**2 + 1 - math.log(1) - 1) / 2,
        {2 / math.log(2): "that is in bits.", 4.0: "the distance has a factor of one half."},
    ),
    "11.2": (0.0, {50.0: "that is if categories are drawn."}),
    "11.3": (
        math.sqrt(9),
        {9.0: "variances add up, deviations do not.", 1.0: "each client adds its own noise."},
    ),
    "12.1": (1 - 0.7**4, {0.7**4: "in these cases real birds are all hens, too."}),
    "12.2": (2 * 0.5 / 50, {0.5 / 50: "that is if the pair is clipped together."}),
    "12.3": (
        500 / 8 * 0.004,
        {500 * 0.004: "a condition is on this column in one of eight cases."},
    ),
    "13.1": (
        math.sqrt(2 / math.pi) * 40 * 1000 / 36_000,
        {
            40 * 1000 / 36_000: "take the mean absolute value of normal noise, not its deviation.",
            math.sqrt(2 / math.pi) * 40 / 36_000: "that is the error of one cell.",
        },
    ),
    "13.2": (
        100 * 120 / 400,
        {100 * 120 / 1000: "age and coughing are independent among smokers, not among all."},
    ),
    "13.3": (
        10 * 0.1**2 / 8 + 24 / (2 * 20**2),
        {
            10 * (0.1**2 / 8 + 1 / (2 * 20**2)): "the single columns are measured, too.",
            24 / (2 * 20**2): "choosing costs as well.",
        },
    ),
    "15.1": (
        math.log(4),
        {
            2.0: "that is in bits.",
            -math.log(0.75): "that is the loss of a patient without smoking.",
        },
    ),
    "15.2": (
        360 / 1360,
        {2 / 3: "the average is weighted by patients.", 1000 / 1360: "that is the largest one's."},
    ),
    "15.3": (
        # real rows: P(real) = 2/3; made-up rows: P(made) = 1/3 for one half, 1 for the other
        ((1 + math.log2(2 / 3)) + (1 + (math.log2(1 / 3) + 0) / 2)) / 2,
        {0.5: "a row of the shared half says something about the coin, too."},
    ),
    "16.1": (
        0.98**50,
        {0.98**100: "that is the variance that is left; the size is its square root."},
    ),
    "16.2": (
        2 * math.sqrt(10_000),
        {
            2.0: "that is the deviation in one parameter.",
            20_000.0: "squares add up, lengths do not.",
        },
    ),
    "16.3": (
        math.sqrt(1_000 / 10),
        {100.0: "noise grows with the square root of the number of steps."},
    ),
}


def check_exercise(exercise: str, answer: float | None) -> str:
    """Say whether an answer to an exercise of a lesson is right."""
    right, hints = EXERCISES[exercise]
    return check(answer, right, hints=hints)
