"""Readings of what a work leaves open: named by one half of the printed cells, confirmed or not by
the other."""

import pandas as pd
import pytest
from kept import committed_rows

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed import published, readings
from fedsynth_lib.printed.readings import Choice, Reading
from fedsynth_lib.runs.rows import to_frame

WORK = "martinez2024"
PRINTED = published.load_values(WORK, "tab6.1").query("metric == 'pcd'")


def rows(grid, change):
    """Rows in a file of this name: each printed cell of table 6.1 as `change` makes it of its mean
    and its half."""
    halves = readings.halves(PRINTED.assign(**published.merge_keys(PRINTED)))
    cells = zip(PRINTED[published.KEYS].to_dict("records"), PRINTED["mean"], halves, strict=True)
    shared = {"paper": WORK, "seed": 0, "profile": "paper", "data": "real"}
    made = [{**key, **shared, "value": change(mean, half)} for key, mean, half in cells]
    return to_frame(made).assign(grid=grid, detail="")


def choice(*names, **more):
    """Of the readings whose rows are in files of these names."""
    found = tuple(
        name if isinstance(name, Reading) else Reading(name, "text", rows=({"grid": name},))
        for name in names
    )
    return Choice(WORK, "made up", "open", ("tab6.1",), ("pcd",), found, **more)


def outcomes(asked, *made):
    lines = readings.scored(asked, readings.distances(asked, pd.concat(made)))
    return lines.set_index("reading")


def test_the_right_reading_is_named_by_one_half_and_confirmed_by_the_other():
    right, wrong = rows("right", lambda mean, _: mean), rows("wrong", lambda mean, _: mean + 0.5)
    found = outcomes(choice("wrong", "right"), right, wrong)
    assert found["outcome"].to_dict() == {"wrong": "", "right": "confirmed"}
    assert found.loc["right", ["distance 1", "distance 2"]].tolist() == [0, 0]
    assert found.loc["wrong", ["distance 1", "distance 2"]].tolist() == pytest.approx([0.5, 0.5])
    assert found["cells 1"].tolist() == [30, 30] and found["cells 2"].tolist() == [27, 27]
    assert found.loc["right", "within 1"] == 30 and found.loc["right", "within 2"] == 27


def test_the_best_on_one_half_that_is_not_on_the_other_is_not_confirmed():
    lucky = rows("lucky", lambda mean, half: mean + (0.1 if half == 1 else 0.9))
    steady = rows("steady", lambda mean, _: mean + 0.3)
    found = outcomes(choice("lucky", "steady"), lucky, steady)
    assert found["outcome"].to_dict() == {"lucky": "not confirmed", "steady": ""}
    assert found.loc["lucky", "distance 1"] == pytest.approx(0.1)
    assert found.loc["lucky", "distance 2"] == pytest.approx(0.9)


def test_equal_readings_are_a_tie_and_a_single_one_is_confirmed_by_nothing():
    one, other = rows("one", lambda mean, _: mean), rows("other", lambda mean, _: mean)
    assert set(outcomes(choice("one", "other"), one, other)["outcome"]) == {"tie"}
    assert outcomes(choice("one"), one)["outcome"].tolist() == [""]
    few = choice("one", "other", where="setting == 'central'", by=("dataset", "epsilon"))
    assert set(outcomes(few, one, other)["outcome"]) == {"too few cells"}


def test_readings_are_held_against_the_cells_that_all_of_them_have():
    all_of = rows("all", lambda mean, _: mean)
    some = rows("some", lambda mean, _: mean + 0.1).query("setting == 'federated'")
    found = readings.distances(choice("all", "some"), pd.concat([all_of, some]))
    assert set(found["setting"]) == {"federated"} and len(found) == 2 * 27


def test_readings_without_a_common_cell_are_refused():
    one = rows("one", lambda mean, _: mean).query("setting == 'federated'")
    other = rows("other", lambda mean, _: mean).query("setting == 'local'")
    with pytest.raises(BadInput, match="made up: its readings share no printed cell"):
        readings.distances(choice("one", "other"), pd.concat([one, other]))


def test_a_factor_and_the_root_of_the_clients_are_taken_out():
    half = rows("half", lambda mean, _: mean / 2).query("setting == 'federated'")
    half["epsilon"] = half["epsilon"] * half["n_clients"] ** 0.5
    named = Reading("half", "published", rows=({"grid": "half"},), factor=2.0, root=True)
    found = readings.distances(choice(named), half)
    assert len(found) == 27 and found["distance"].max() < 1e-12


def test_halves_follow_from_names_alone_and_keep_a_table_together():
    values = published.load_values(WORK, "tab6.1")
    cells = values.assign(**published.merge_keys(values))
    found = readings.halves(cells)
    moved = cells.assign(mean=cells["mean"].to_numpy()[::-1]).sample(frac=1, random_state=0)
    assert readings.halves(moved).sort_index().equals(found)
    assert found.groupby([cells[name] for name in readings.TABLE]).nunique().max() == 1
    sizes = found.groupby(cells["epsilon"]).value_counts().unstack()
    assert (sizes == [10 * 4, 9 * 4]).all(axis=None)  # 19 synthetic tables of four measures


def test_a_main_reading_stands_in_for_ours_on_its_data_sets_and_the_first_choice_counts(
    monkeypatch,
):
    made = [rows("first", lambda mean, _: mean), rows("second", lambda mean, _: mean + 1)]
    alone = Reading("alone", "published", rows=({"grid": "first"},), main=("adult",))
    every = Reading("every", "published", rows=({"grid": "second"},), main=("adult", "bank"))
    asked = [choice(alone, where="setting == 'local'"), choice(every)]
    monkeypatch.setattr(readings, "load_choices", lambda: asked)
    found = readings.main_means(WORK, "tab6.1", pd.concat(made))
    printed = found.merge(PRINTED.assign(**published.merge_keys(PRINTED)), on=published.KEYS)
    off = (printed["mean_x"] - printed["mean_y"]).round(9)
    assert set(off[printed["setting"] == "local"]) == {0}
    assert set(off[printed["setting"] != "local"]) == {1} and len(found) == len(PRINTED)
    assert readings.main_means(WORK, "tab6.2", pd.concat(made)).empty
    nobody = [choice(every._replace(main=("bank",)))]  # the table is of Adult
    monkeypatch.setattr(readings, "load_choices", lambda: nobody)
    assert readings.main_means(WORK, "tab6.1", pd.concat(made)).empty


# --- the file ------------------------------------------------------------------------------------

CHOICES = readings.load_choices()
RUN = [asked for asked in CHOICES if any(reading.rows for reading in asked.readings)]


@pytest.mark.slow
@pytest.mark.parametrize("asked", CHOICES, ids=lambda asked: asked.choice)
def test_every_reading_has_committed_rows_or_says_what_it_takes(asked):
    known = committed_rows(asked.work, "paper")
    for reading in asked.readings:
        told = reading.rows or reading.minutes > 1
        assert told or (published.project_root() / reading.shown).is_file(), reading.name
        for place in reading.rows:
            alone = reading._replace(rows=(place,))
            measured = set(readings.rows_of(alone, known)["metric"])
            assert set(asked.metrics) <= measured, (reading.name, place)


@pytest.mark.slow
@pytest.mark.parametrize("asked", RUN, ids=lambda asked: asked.choice)
def test_the_readings_of_a_choice_meet_in_cells_of_every_exhibit(asked):
    cells = readings.distances(asked, committed_rows(asked.work, "paper"))
    assert set(cells["exhibit"]) == set(asked.exhibits)
    assert set(cells["metric"]) == set(asked.metrics)
    assert set(cells["half"]) == {1, 2} and cells["distance"].notna().all()


def test_the_table_names_every_reading_and_the_minutes_of_those_not_run():
    ours = [asked for asked in CHOICES if asked.work == WORK and "FedVAE's" in asked.choice]
    found = readings.table(ours, readings.score(ours, {WORK: committed_rows(WORK, "paper")}))
    assert len(found) == sum(len(asked.readings) for asked in ours)
    told = found[found["choice"] == "FedVAE's batch"].set_index("reading")["nearest"]
    assert told["of each client"] == "the only one that was run"
    assert told["of all clients together"] == "not run: 449 minutes"


ENTRY = '[[{work}]]\nchoice="c"\nleft_open="o"\nexhibits=["tab6.1"]\nmetrics=["pcd"]\n{more}\n'
RAN = '{name="r", source="text", rows=[{grid="g"}]}'


@pytest.mark.parametrize(
    ("work", "more", "message"),
    [
        ("martinez", f"readings=[{RAN}]", "unknown work"),
        (WORK, "", "the key 'readings' is missing"),
        (WORK, f"readings=[{RAN}]\nhalf=1", "unknown key 'half'"),
        (
            WORK,
            'readings=[{name="r", source="luck", rows=[]}]',
            "source is 'luck': it should be 'text'",
        ),
        (WORK, 'readings=[{name="r", source="text"}]', "needs one of rows, minutes and shown"),
    ],
)
def test_a_file_of_readings_may_not_say_just_anything(tmp_path, work, more, message):
    path = tmp_path / "readings.toml"
    path.write_text(ENTRY.format(work=work, more=more), encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        readings.load_choices(path)
