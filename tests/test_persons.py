"""Several rows of one person: the draft asks, and a statement says first that its unit is a row."""

import numpy as np
import pandas as pd

from fedsynth_lib.release import your_table
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.form import read_form

RNG = np.random.default_rng(0)
PEOPLE = 150


def visits(numbers):
    """Four rows of each person, whose sex and year of birth are the same in all of them."""
    person = np.repeat(np.arange(PEOPLE), 4)
    return pd.DataFrame(
        {
            "who": np.array(numbers)[person],
            "visit": np.tile([1, 2, 3, 4], PEOPLE),
            "sex": RNG.choice(["F", "M"], PEOPLE)[person],
            "born": RNG.integers(1930, 1995, PEOPLE)[person],
            "sbp": RNG.normal(120, 12, len(person)).round().astype(int),
        }
    )


def test_a_draft_asks_whether_several_rows_are_of_one_person(tmp_path):
    for numbers in ([f"P{n:04}" for n in range(PEOPLE)], [10_001 + 7 * n for n in range(PEOPLE)]):
        visits(numbers).to_csv(tmp_path / "own.csv", index=False)
        form = read_form(propose_schema(tmp_path / "own.csv", out=tmp_path / f"{numbers[0]}.toml"))
        who, *others = form.columns
        assert who.kind == "identifier" and not any(column.question for column in others)
        assert "(4.0 on average, 4 at most) never differ in sex, born" in who.question
        assert "do several rows belong to one person?" in who.question
        assert not form.rules  # that sex follows from a person's number is said by the question


def test_a_table_of_one_row_a_person_is_not_asked(tmp_path):
    rows = visits([f"P{n:04}" for n in range(PEOPLE)])
    for name, frame in {
        "firsts": rows[rows["visit"] == 1],
        "wards": rows.assign(who=RNG.choice([f"W{n}" for n in range(40)], len(rows))),
        "codes": rows.assign(who=np.array(list("abcde"))[RNG.integers(0, 5, len(rows))]),
    }.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        form = read_form(propose_schema(tmp_path / f"{name}.csv"))
        assert not any("one person" in column.question for column in form.columns)


def test_a_statement_says_first_that_its_unit_is_a_row(tmp_path):
    visits(range(PEOPLE)).drop(columns="who").to_csv(tmp_path / "own.csv", index=False)
    text = propose_schema(tmp_path / "own.csv").read_text("utf-8")
    text = "".join(line for line in text.splitlines(True) if not line.startswith("question"))
    text = text.replace('source = "read from the rows"', 'source = "code book"')
    (tmp_path / "own.toml").write_text(text, "utf-8")
    made = your_table.synthesize(
        tmp_path / "own.csv", method="independent", epsilon=1.0, delta=1e-6, out=tmp_path / "out"
    )
    first = made.text.splitlines()[2]
    assert first.startswith(
        "**epsilon = 1, delta = 1e-06.** The unit is one record, a row of the table:"
    )
    assert "a person with k rows has k times the epsilon, and a larger delta." in first
