"""A draft's questions in the terminal: each answer is a line of the schema."""

import builtins

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.bundle import commands
from fedsynth_lib.release import ask, your_table
from fedsynth_lib.tables.form import read_form

ROWS = 300


def write(path):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(ROWS // 2), 2)
    frame = {
        "who": [f"P{n:04}" for n in who],
        "born": rng.integers(1930, 1990, ROWS // 2)[who],
        "sex": rng.choice(["f", "m"], ROWS // 2)[who],
        "paid": np.where(rng.random(ROWS) < 0.4, 0, rng.normal(300, 80, ROWS).round()).astype(int),
        "name": [f"Ann {n}" for n in range(ROWS)],
        "minutes": rng.integers(1, 30, ROWS) * 15,
    }
    pd.DataFrame(frame).to_csv(path, index=False)


def told(*answers):
    """What somebody types, line by line; nothing is left over, and nothing more is heard."""
    lines = iter(answers)
    return lambda prompt: next(lines)


def asked(home, *answers):
    shown, lines = [], list(answers)
    path = your_table.asked(
        your_table.Files.of(home / "t.csv"), lambda prompt: lines.pop(0), shown.append
    )
    assert not lines
    return read_form(path), "\n".join(shown), path


def test_each_answer_is_a_line_of_the_schema(home):
    write(home / "t.csv")
    who, paid, name, minutes = ['unit = "who"; most_rows = 2', ""], ["high = 900", ""], "-", "?"
    form, shown, path = asked(home, *who, *paid, name, minutes)
    assert path == home / "t.toml" and shown.startswith("4 questions. Enter keeps all as it is.")
    assert "do several rows belong to one person?" in shown and "   kind = " in shown
    assert (form.unit, form.most_rows) == ("who", 2)
    columns = {column.name: column for column in form.columns}
    assert columns["paid"].high == 900 and columns["paid"].heaps == (0,)
    assert "name" in form.ignored
    assert form.questions == ("minutes",) and columns["minutes"].step == 15
    text = path.read_text("utf-8")
    assert text.startswith("# DRAFT") and "# read from the rows: kind" in text
    made = your_table.synthesize(
        home / "t.csv", method="independent", epsilon=9.0, out=home / "out", rows=50
    )
    assert list(pd.read_csv(made.paths["rows"])) == ["born", "sex", "paid", "minutes"]
    assert made.run.statement["most_rows"] == 2


def test_an_answer_that_cannot_be_is_told_and_asked_again(home):
    write(home / "t.csv")
    wrong = {
        "yes": "'yes' is no line of a schema",
        "low = 9999": "needs numbers low < high",
        "high = a lot": "is not valid TOML",
        'kind = "dates"': "has kind 'dates'",
        "hgh = 3": "unknown entry 'hgh'",
    }
    kind = 'kind = "text"'
    form, shown, _ = asked(home, "", *wrong, kind, "", "", "")
    for message in wrong.values():
        assert message in shown
    columns = {column.name: column for column in form.columns}
    assert columns["paid"].kind == "text" and columns["paid"].low is None
    assert not form.questions and form.unit == ""


def test_the_command_writes_the_schema_and_takes_no_place(home, monkeypatch, capsys):
    write(home / "t.csv")
    words = ["draft", str(home / "t.csv"), "--ask"]

    def at_the_end(prompt):
        raise EOFError

    monkeypatch.setattr(builtins, "input", at_the_end)
    assert commands.main(words) == 2 and not (home / "t.toml").exists()
    assert "--ask needs a terminal to answer in; nothing was written." in capsys.readouterr().err
    monkeypatch.setattr(builtins, "input", told("", "", "", ""))
    assert commands.main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(home / "t.toml")
    assert not read_form(home / "t.toml").questions
    assert commands.main(words) == 2
    assert "t.toml is there already; move it away" in capsys.readouterr().err


@pytest.mark.parametrize("answer", ["-", ""])
def test_rules_are_asked_about_as_well(home, answer):
    rng = np.random.default_rng(0)
    start, more = rng.integers(0, 50, ROWS), rng.integers(0, 9, ROWS)
    noise = rng.normal(size=ROWS).round(3)
    pd.DataFrame({"a": start, "b": start + more, "c": noise}).to_csv(home / "t.csv", index=False)
    form, shown, _ = asked(home, answer)
    assert "rule a <= b" in shown
    assert [str(rule) for rule in form.rules] == ["a <= b"] * (answer == "")
    assert not form.questions


def test_a_notebook_asks_by_controls_where_somebody_runs_it(home, monkeypatch, capsys):
    write(home / "t.csv")
    files = your_table.Files.of(home / "t.csv")
    draft = your_table.draft(files)
    assert ask.in_notebook(draft, files.schema) is None  # nobody watches
    lines = capsys.readouterr().out.splitlines()
    assert lines == your_table.questions(read_form(draft)) and len(lines) == 4
    monkeypatch.setattr(ask, "watched", lambda: True)
    box = ask.in_notebook(draft, files.schema)
    *_, button, said = box.children
    inputs = [child for child in box.children if type(child).__name__ == "Text"]
    for child, answer in zip(inputs, ["", "low = 9999", "-", "?"], strict=True):
        child.value = answer
    button.click()
    assert "needs numbers low &lt; high" in said.value and not files.schema.exists()
    inputs[1].value = "high = 900"
    button.click()
    form = read_form(files.schema)
    assert form.questions == ("minutes",) and form.ignored == ("name",)
    assert {column.name: column for column in form.columns}["paid"].high == 900
    button.click()
    assert "t.toml is there already; move it away" in said.value
