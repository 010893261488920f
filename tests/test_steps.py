"""Numbers that lie in steps stay on them, and a draft asks where they seem to."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadRows
from fedsynth_lib.release import your_table
from fedsynth_lib.release.draft import Seen, propose_column
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn

RNG = np.random.default_rng(0)
ROWS = 2_000
AGES = (17.5, 22.0, 27.0, 32.0, 37.0, 42.0)
WEEKS = pd.date_range("2024-01-01", periods=60, freq="7D").strftime("%Y-%m-%d")


def proposed(values):
    return propose_column(Seen.of(pd.Series(values, name="x", dtype=object).astype("category")))


@pytest.mark.parametrize(
    ("values", "said", "question"),
    [
        (np.resize(AGES, ROWS), {"steps": AGES}, "6 different numbers"),
        (np.resize(np.arange(0, 300, 15), ROWS), {"step": 15, "low": 0}, "multiple of 15 apart"),
        (np.resize(np.arange(40) / 2, ROWS), {"step": 0.5}, "multiple of 0.5 apart"),
        (np.resize([f"{n}.99" for n in range(90)], ROWS), {"step": 1, "low": 0.99}, "steps"),
        (
            np.resize([f"{n}.{e}" for n in range(90) for e in ("99", "99", "13")], ROWS),
            {},
            "end in .99",
        ),
        (np.resize(WEEKS, ROWS), {"step": 7, "low": "2024-01-01"}, "multiple of 7 days apart"),
        (
            np.resize([f"{h:02}:{m:02}" for h in range(24) for m in (0, 15, 30, 45)], ROWS),
            {"step": 15},
            "multiple of 15 minutes apart",
        ),
        (np.exp(RNG.normal(8, 2, ROWS)).round(-2), {"step": 100, "scale": "log"}, "100 apart"),
    ],
)
def test_a_draft_asks_whether_numbers_are_steps(values, said, question):
    column = proposed(values)
    assert {name: getattr(column, name) for name in said} == said
    assert question in column.question


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (FileColumn("x", "numeric", steps=AGES), [17.5, 42.0, 27.0]),
        (FileColumn("x", "numeric", 5, 95, integer=True, step=15), [5, 20, 95]),
        (FileColumn("x", "numeric", 0.1, 9.9, decimals=1, step=0.1), [0.1, 0.3, 9.9]),
        (FileColumn("x", "numeric", 1, 1e6, step=1, scale="log", decimals=0), [1, 17, 1_000_000]),
        (FileColumn("x", "numeric", 4.99, 99.99, step=1, decimals=2), [4.99, 5.99, 99.99]),
        (FileColumn("x", "date", "2024-01-01", "2024-12-30", step=7), ["2024-01-08", "2024-12-30"]),
        (FileColumn("x", "time", "00:00", "23:45", step=15), ["00:15", "23:45"]),
        (
            FileColumn("x", "numeric", 0, 90, step=15, heaps=(99,), missing=("",)),
            [15.0, 99.0, 90.0],
        ),
    ],
)
def test_values_on_steps_come_back_exactly(column, values):
    form = Form((column,))
    rows = form.to_model(pd.DataFrame({"x": values}), "t")
    assert form.to_file(rows, RNG)["x"].tolist() == values


def test_synthetic_numbers_are_on_the_steps_and_each_keeps_its_share(tmp_path):
    rng = np.random.default_rng(3)
    shares = [0.05, 0.3, 0.2, 0.2, 0.05, 0.2]
    real = pd.DataFrame(
        {
            "age": rng.choice(AGES, ROWS, p=shares),
            "minutes": 15 * rng.binomial(60, 0.3, ROWS),
            "day": rng.choice(WEEKS, ROWS),
        }
    )
    real.to_csv(tmp_path / "own.csv", index=False)
    columns = (
        FileColumn("age", "numeric", steps=AGES, decimals=1),
        FileColumn("minutes", "numeric", 0, 900, integer=True, step=15),
        FileColumn("day", "date", "2024-01-01", "2025-02-17", step=7),
    )
    (tmp_path / "own.toml").write_text(Form(columns).to_toml())
    run = your_table.synthesize(tmp_path / "own.csv", epsilon=5.0, delta=1e-6, out=tmp_path / "out")
    made = pd.read_csv(run.paths["rows"])
    found = made["age"].value_counts(normalize=True).reindex(AGES)
    assert found.tolist() == pytest.approx(shares, abs=0.03)
    assert (made["minutes"] % 15 == 0).all()
    assert made["minutes"].mean() == pytest.approx(real["minutes"].mean(), rel=0.05)
    assert (pd.to_datetime(made["day"]).dt.dayofweek == 0).all()
    assert "as the schema declares it, step of 'minutes', 'day'" in run.text


def test_rows_between_two_steps_are_refused_or_moved():
    form = Form((FileColumn("x", "numeric", 0, 90, step=15),))
    raw = pd.DataFrame({"x": [15.0, 20.0]})
    with pytest.raises(BadRows, match=r"holds a value between two steps \(row 2\)"):
        form.to_model(raw, "t")
    moved = []
    rows = form.to_model(raw, "t", moved)
    assert moved == [
        "t: column 'x' holds a value between two steps (row 2), which counts as the nearest step."
    ]
    assert rows["x"].tolist() == [1, 1]
