"""Values that many rows share keep their shares: zeros, the end of a follow-up, several codes."""

import re

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.release import your_table
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.form import Form, read_form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.schema import BadRows

RNG = np.random.default_rng(0)
ROWS = 3_000


def claims(rows=ROWS, seed=1):
    """Amounts of which 70 percent are 0, follow-ups of which a fifth ends with the study, visits,
    and which of two groups, of which one has more zeros."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], rows)
    amounts = np.exp(rng.normal(6, 1, rows)).round(2)
    days = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    ends = np.where(rng.random(rows) < 0.2, "2020-12-31", days.strftime("%Y-%m-%d"))
    return pd.DataFrame(
        {
            "group": group,
            "claim": np.where(rng.random(rows) < np.where(group == "a", 0.9, 0.5), 0, amounts),
            "left": ends,
            "visits": rng.poisson(1.0, rows),
        }
    )


def drafted(frame, folder, answer=lambda text: re.sub("(?m)^question.*\n", "", text)):
    """(the draft's form, the table's path with the draft as its schema, all questions answered)."""
    path = folder / "own.csv"
    frame.to_csv(path, index=False)
    draft = propose_schema(path)
    path.with_suffix(".toml").write_text(answer(draft.read_text("utf-8")), "utf-8")
    return read_form(draft), path


def synthesised(path, folder, *, method="fedpgm", epsilon=5.0):
    made = your_table.synthesize(
        path, method=method, epsilon=epsilon, delta=1e-6, out=folder / "out"
    )
    return pd.read_csv(made.paths["rows"], keep_default_na=False), made


@pytest.mark.parametrize("method", ["fedpgm", "independent"])
def test_a_draft_asks_about_heaps_and_they_keep_their_shares(tmp_path, method):
    real = claims()
    form, path = drafted(real, tmp_path)
    asked = {c.name: c for c in form.columns if c.question}
    assert set(asked) == {"claim", "left"}  # each number of visits has a bin
    assert asked["claim"].heaps == (0.0,) and asked["left"].heaps == ("2020-12-31",)
    assert "exactly 0 (70." in asked["claim"].question
    assert asked["claim"].low > 0 and asked["left"].high < "2020-12-31"
    made, run = synthesised(path, tmp_path, method=method)
    assert (made["claim"] == 0).mean() == pytest.approx((real["claim"] == 0).mean(), abs=0.03)
    ends = made["left"] == "2020-12-31"
    assert ends.mean() == pytest.approx((real["left"] == "2020-12-31").mean(), abs=0.03)
    rest = made["claim"][made["claim"] > 0].median()
    assert rest == pytest.approx(real["claim"][real["claim"] > 0].median(), rel=0.15)
    if method != "independent":
        shares = made["claim"].eq(0).groupby(made["group"]).mean()
        assert shares["a"] == pytest.approx(0.9, abs=0.05)
        assert shares["b"] == pytest.approx(0.5, abs=0.08)
    assert "as the schema declares it, heaps of 'claim', 'left'" in run.text


@pytest.mark.parametrize("method", ["fedpgm", "fedpgm_bins"])
def test_heaps_and_gaps_of_one_column_stay_apart(tmp_path, method):
    """Also where a method forms bins of neighbouring levels."""
    rng = np.random.default_rng(2)
    kind = rng.choice(["0", "99", "", "x"], ROWS, p=[0.3, 0.2, 0.1, 0.4])
    numbers = rng.uniform(1, 50, ROWS).round(1).astype(str)
    frame = pd.DataFrame(
        {"x": np.where(kind == "x", numbers, kind), "c": rng.choice(["u", "v"], ROWS)}
    )
    frame.to_csv(tmp_path / "own.csv", index=False)
    column = FileColumn(
        "x", "numeric", 1, 50, decimals=1, short_whole=True, heaps=(0, 99), missing=("",)
    )
    form = Form((column, FileColumn("c", "categorical", categories=("u", "v"))))
    (tmp_path / "own.toml").write_text(form.to_toml())
    assert read_form(tmp_path / "own.toml") == form
    made, _ = synthesised(tmp_path / "own.csv", tmp_path, method=method)
    shares = made["x"].astype(str).value_counts(normalize=True)
    expected = {"0": 0.3, "99": 0.2, "": 0.1}
    assert shares[list(expected)].to_dict() == pytest.approx(expected, abs=0.03)
    rest = pd.to_numeric(made["x"][~made["x"].astype(str).isin(["0", "99", ""])])
    assert rest.between(1, 50).all()


def test_a_heap_may_be_outside_of_the_range_and_comes_back_exactly():
    amount = FileColumn("x", "numeric", 5, 5_000, decimals=2, scale="log", heaps=(0, 9999.5))
    raw = pd.DataFrame({"x": [0, 5, 12.34, 9999.5, 5_000]})
    form = Form((amount,))
    rows = form.to_model(raw, "t")
    assert rows["kind of x"].tolist() == ["0", "a number", "a number", "9999.5", "a number"]
    assert rows["x"].tolist() == pytest.approx(np.log([5, 5, 12.34, 5_000, 5_000]))
    assert form.to_file(rows, RNG)["x"].tolist() == raw["x"].tolist()
    with pytest.raises(BadRows, match=r"outside the declared range 5 to 5000 \(row 1\)"):
        form.to_model(pd.DataFrame({"x": [1.0, 0.0]}), "t")


def test_heaps_of_dates_are_moments_of_the_format(tmp_path):
    (tmp_path / "t.csv").write_text("d\n2020-12-31\n2020-05-01\n2021-12-31\n")
    (tmp_path / "t.toml").write_text(
        '[[column]]\nname = "d"\nkind = "date"\nlow = 2020-01-01\nhigh = 2020-12-30\n'
        "heaps = [2020-12-31, 2021-12-31]\n"
    )
    table = load_table(tmp_path / "t.csv", schema=tmp_path / "t.toml")
    assert table.frame["kind of d"].tolist() == ["2020-12-31", "a number", "2021-12-31"]
    back = table.form.to_file(table.frame, RNG)
    assert back["d"].tolist() == ["2020-12-31", "2020-05-01", "2021-12-31"]
