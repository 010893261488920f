"""A made-up clinic from its file to a release, as its analyst would go: draft, declaration, one
command, and the check of what came out."""

import re

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.bundle import commands
from fedsynth_lib.release.draft import draft_path
from fedsynth_lib.tables.form import read_form
from fedsynth_lib.tables.load import load_table

pytestmark = pytest.mark.slow

ROWS = 5_000


def clinic():
    """Patients of three sites, with names, notes, dates, codes, amounts, flags and gaps."""
    rng = np.random.default_rng(7)
    age = rng.integers(18, 95, ROWS)
    ill = rng.random(ROWS) < 1 / (1 + np.exp(4 - age / 15))
    admitted = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1000, ROWS), "D")
    lab = np.round(rng.normal(5 + 3 * ill, 1), 1)
    frame = pd.DataFrame(
        {
            "patient": [f"P-{number:06}" for number in rng.permutation(ROWS)],
            "name": [f"Ada Nr. {number}" for number in range(ROWS)],
            "site": rng.choice(["north", "south", "west"], ROWS, p=[0.5, 0.3, 0.2]),
            "age": age,
            "admitted": admitted.strftime("%d.%m.%Y"),
            "hour": [
                f"{hour:02}:{minute:02}" for hour, minute in zip(age % 24, age % 60, strict=True)
            ],
            "ward": rng.choice(["007", "012", "7E4"], ROWS),
            "lab": lab,
            "charge": [f"${cents:,.2f}" for cents in np.exp(rng.normal(6, 2, ROWS))],
            "smoker": rng.choice([True, False], ROWS),
            "note": [f"seen on day {row} and said to be well" for row in range(ROWS)],
            "country": "DE",
            "ill": np.where(ill, "yes", "no"),
        }
    )
    frame.loc[rng.random(ROWS) < 0.15, "lab"] = np.nan
    frame.loc[rng.random(ROWS) < 0.1, "admitted"] = np.nan
    return frame


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    clinic().to_csv("clinic.csv", index=False, sep=";", na_rep="NA", encoding="utf-8-sig")
    return tmp_path / "clinic.csv"


DECLARED = {  # what the clinic's code book says, in place of what the draft read
    "age": "low = 0\nhigh = 120\ninteger = true",
    "admitted": 'low = "01.01.2020"\nhigh = "31.12.2024"\nformat = "%d.%m.%Y"\nmissing = ["NA"]',
    "hour": 'low = "00:00"\nhigh = "23:59"',
    "lab": 'low = 0\nhigh = 20\ndecimals = 1\nmissing = ["NA"]',
    "charge": 'low = 0\nhigh = 1_000_000\nwritten = "$1,234.50"\nscale = "log"',
    "patient": 'pattern = "P-######"',
}


def declaration(draft):
    """The draft with its questions answered, its ranges replaced, and sources named."""
    parts = draft.split("[[column]]")
    for number, part in enumerate(parts[1:], 1):
        name = re.search(r'name = "(.*)"', part)[1]
        part = re.sub(r"question = .*\n|# .*\n", "", part).replace(
            "read from the rows", "code book"
        )
        if name in DECLARED:
            kind = re.search(r"kind = .*\n", part)[0]
            part = f'\nname = "{name}"\n{kind}{DECLARED[name]}\nsource = "code book"\n\n'
        parts[number] = part
    return "[[column]]".join(parts)


def test_a_clinic_releases_its_table_once_and_the_form_is_kept(file, capsys):
    assert commands.main(["draft", "clinic.csv", "--target", "ill"]) == 0
    asked = {line.split(":")[0] for line in capsys.readouterr().out.splitlines()[1:]}
    assert {"patient", "name", "note", "charge"} <= asked
    draft = draft_path(file)
    kinds = {column.name: column.kind for column in read_form(draft).columns}
    assert kinds == {
        **{"patient": "identifier", "name": "identifier", "site": "categorical"},
        **{"age": "numeric", "admitted": "date", "hour": "time", "ward": "categorical"},
        **{"lab": "numeric", "charge": "numeric", "smoker": "boolean", "note": "text"},
        **{"country": "constant", "ill": "categorical"},
    }

    asked = ["synth", "clinic.csv", "--sites", "site", "--epsilon", "1", "--release", "--no-scores"]
    asked += ["--declared-rows", "2500", "--declared-rows", "1500", "--declared-rows", "1000"]
    file.with_suffix(".toml").write_text(draft.read_text(encoding="utf-8"), encoding="utf-8")
    assert commands.main(asked) == 2  # open questions
    assert "the draft asks about" in capsys.readouterr().err
    text = declaration(draft.read_text(encoding="utf-8"))
    file.with_suffix(".toml").write_text(text, encoding="utf-8")
    assert commands.main(asked) == 0
    out = capsys.readouterr().out
    fit, to_open = out.splitlines()[-2:]
    assert fit == "fit to hand on" and "open first: " in to_open
    made = next(path for path in map(str, out.splitlines()) if path.endswith(".csv"))

    assert commands.main(["check", "clinic.csv", made]) == 0
    assert "the form is the same" in capsys.readouterr().out
    real = pd.read_csv(file, sep=";", dtype=str, keep_default_na=False, encoding="utf-8-sig")
    drawn = pd.read_csv(made, sep=";", dtype=str, keep_default_na=False, encoding="utf-8-sig")
    assert list(drawn) == [name for name in real if name not in ("name", "note")]
    assert not set(drawn["patient"]) & {""} and drawn["patient"].is_unique
    assert set(drawn["country"]) == {"DE"} and set(drawn["ward"]) <= {"007", "012", "7E4"}
    for name, share in (("lab", 0.15), ("admitted", 0.1)):
        assert abs((drawn[name] == "NA").mean() - share) < 0.05
    charges = load_table(made, schema="clinic.toml").form.columns
    assert {column.name for column in charges if column.scale == "log"} == {"charge"}
    money = lambda frame: frame["charge"].str.replace("[$,]", "", regex=True).astype(float)  # noqa: E731
    assert 0.5 < money(drawn).median() / money(real).median() < 2

    assert commands.main(asked) == 2  # the same rows, once more
    assert "released once before" in capsys.readouterr().err
