"""The study of sattarov2024: who gets which rows, what a cell measures, and what the rows say of
themselves."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.runs import names
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import declared, load, protocol, sattarov2024, sattarov2024_stated

STUDY = load("sattarov2024")
measure = STUDY.function("run")

TINY = {"training_rounds": 1, "hidden": [8], "steps": 6, "batch": 8}


def column(name, counts):
    levels = tuple(f"{name}{number:02d}" for number in range(len(counts)))
    return Column(name, "categorical", categories=levels), np.repeat(levels, counts)


@pytest.fixture
def toy(table, monkeypatch):
    """Call with counts by column to have the study load such a table."""

    def load(label, **counts):
        made = {name: column(name, own) for name, own in counts.items()}
        schema = Schema(tuple(each for each, _ in made.values()), label)
        frame = pd.DataFrame(
            {n: pd.Categorical(values, each.categories) for n, (each, values) in made.items()}
        )
        own = replace(table, frame=frame, schema=schema)
        monkeypatch.setattr(declared, "load_table", lambda key, work: own)
        sattarov2024.prepare.cache_clear()
        sattarov2024.split_column.cache_clear()
        return own

    yield load
    sattarov2024.prepare.cache_clear()
    sattarov2024.split_column.cache_clear()


def test_the_split_column_is_the_most_unequal_that_leaves_ten_clients_rows(toy):
    even = [400] * 10
    skewed = [2200, *[200] * 9]  # five blocks: 2400 400 400 400 400
    starved = [2201, *[200] * 8, 199]
    few = [2000, 2000]
    toy("target", even=even, skewed=skewed, starved=starved, few=few, target=[3800, 200])
    assert sattarov2024.split_column("toy") == "skewed"


def test_where_no_column_leaves_enough_the_smallest_client_is_as_large_as_can_be(toy):
    toy(None, one=[390, *[1] * 10], other=[350, *[5] * 10])
    assert sattarov2024.split_column("toy") == "other"


def test_the_target_and_short_columns_divide_nothing(toy):
    toy("wide", wide=[40] * 10, few=[200, 200])
    with pytest.raises(BadInput, match="take iid"):
        sattarov2024.split_column("toy")


@pytest.mark.parametrize("n_clients", [3, 5, 10])
def test_clients_hold_neighbouring_categories_whole(toy, n_clients):
    own = toy(None, place=[7, 0, 1, 30, 2, 2, 9, 4, 4, 11, 6, 3, 5])  # one does not occur
    parts = sattarov2024.divide(sattarov2024.Whole(own), "toy", "noniid", n_clients, seed=0)
    codes = [own.frame["place"].cat.codes.to_numpy()[part] for part in parts]
    assert sorted(np.concatenate(parts)) == list(range(len(own.frame)))
    occurring = np.unique(np.concatenate(codes))
    blocks = [list(block) for block in np.array_split(occurring, n_clients)]
    assert [sorted(set(each)) for each in codes] == blocks
    assert all(max(before) < min(after) for before, after in pairwise(blocks))


def test_shares_of_clients_are_those_of_the_whole_table(toy):
    toy(None, place=[10, 20, 30, 5, 5, 5, 5, 5, 5, 10])
    rows = STUDY.function("shares")(dataset="toy")
    held = {
        count: [row["value"] for row in rows if row["n_clients"] == count] for count in (3, 5, 10)
    }
    # blocks of 4, 3 and 3 categories of 100 rows
    assert held[3] == pytest.approx([0.65, 0.15, 0.2])
    assert held[10] == pytest.approx([0.1, 0.2, 0.3, *[0.05] * 6, 0.1])
    assert {row["item"] for row in rows} == {"place"} and [row["node"] for row in rows][:3] == [
        "1",
        "2",
        "3",
    ]


def test_a_map_holds_the_shares_of_real_and_synthetic_rows_in_its_squares(toy, monkeypatch):
    """Points in place of t-SNE: real rows at the corners of the plane, synthetic ones in its
    middle."""
    own = toy(None, place=[20] * 10)
    made = protocol.Made(own.frame, {})
    monkeypatch.setattr(protocol.Cell, "made", lambda cell: iter([("", made)]))
    corners = np.array([[0.0, 0.0], [8.0, 4.0]])

    def middle(parts, seed):
        return [
            np.resize(corners, (len(parts[0]), 2)),
            *(np.full((len(part), 2), [4.0, 2.0]) for part in parts[1:]),
        ]

    monkeypatch.setattr(sattarov2024, "joint_map", middle)
    asked = {"dataset": "toy", "seed": 0, "epsilons": [1.0, np.inf], "most": 50}
    rows = STUDY.function("map")(**asked)
    last, half = sattarov2024.SQUARES - 1, sattarov2024.SQUARES // 2
    real = {row["item"]: row["value"] for row in rows if row["setting"] == "real"}
    assert real == {"0 0": 0.5, f"{last} {last}": 0.5}
    made = [(row["epsilon"], row["item"], row["value"]) for row in rows if row["setting"] != "real"]
    assert made == [(1.0, f"{half} {half}", 1.0), (np.inf, f"{half} {half}", 1.0)]


def test_an_unknown_partition_is_refused(toy):
    own = toy(None, place=[5] * 10)
    with pytest.raises(BadInput, match="choose iid or noniid"):
        sattarov2024.divide(sattarov2024.Whole(own), "toy", "skewed", 3, 0)


def test_questions_share_their_usual_cells():
    grids = [STUDY.grid(name, "paper", tables=["adult"]) for name in ("fig4", "fig5", "fig8")]
    usual = {"dataset": "adult", "method": "DP-Fed-FinDiff", "table": grids[0].cells[0]["table"]}
    size = STUDY.size("fig5", "paper")
    usual |= {"changes": size["changes"], "attacks": size["attacks"], "seed": 1}
    assert all(grid.cells.count(usual) == 1 for grid in grids)
    known = [cell for cell in grids[0].cells if cell["method"] == "Real"]
    assert known == [
        {k: v for k, v in usual.items() if k != "changes"} | {"method": "Real", "seed": s}
        for s in range(2)
    ]


@pytest.mark.slow
def test_a_cell_says_what_was_run_and_what_it_spent():
    rows, adult = {}, {"dataset": "adult", "method": "DP-Fed-FinDiff", "seed": 1, "rows": 60}
    for scheme in STUDY.schemes:
        asked = {
            "epsilon": 2.0,
            "scheme": scheme,
            "n_clients": 3,
            "local_updates": 2,
            "changes": TINY,
        }
        found = measure(**adult, attacks=5, **asked)
        rows[scheme] = to_frame(
            [{**row, "profile": "smoke", "params": params_text(asked)} for row in found]
        )
    for scheme, frame in rows.items():
        assert frame["value"].notna().all()
        assert (frame["epsilon_spent"] <= 2.0 * (1 + 1e-6)).all() and (
            frame["epsilon_spent"] > 1.9
        ).all()
        assert (frame["unprotected"] == 0).all() == (scheme == "private end to end")
        told = sattarov2024.with_settings(frame).iloc[0]
        assert told[["local_updates", "strategy", "scheme"]].tolist() == [2, "FedAvg", scheme]
    named = set(rows[""]["metric"])
    assert {
        "fidelity",
        "accuracy",
        "risk",
        "risk_success",
        "mixing",
        "linkability_low",
        "inference_high",
    } <= named
    asked = {"epsilon": 2.0, "n_clients": 3, "local_updates": 2, "changes": TINY}
    assert protocol.Cell(STUDY, "run", **adult, **asked).privacy.delta == pytest.approx(1 / 60)


def test_settings_are_read_with_the_words_of_print_and_real_rows_have_none():
    asked = [
        ("federated", {}),
        ("federated", {"local_updates": 500, "strategy": "fedyogi", "scheme": "s"}),
        ("real", {}),
    ]
    rows = pd.DataFrame(
        [{"setting": setting, "params": params_text(given)} for setting, given in asked]
    )
    told = sattarov2024.with_settings(rows)[["local_updates", "strategy", "scheme"]]
    assert told[:2].to_numpy().tolist() == [[100, "FedAvg", ""], [500, "FedYogi", "s"]]
    assert told.loc[2].isna().tolist() == [True, True, False] and told.loc[2, "scheme"] == ""


def test_a_version_is_that_of_the_method_and_of_the_measures_of_the_cell(monkeypatch):
    assert STUDY.version("run", {"method": "DP-Fed-FinDiff"}) == f"findiff {findiff.VERSION}"
    assert STUDY.version("run", {"method": "Real"}) == "1"
    assert STUDY.version("map", {}) == f"findiff {findiff.VERSION}"
    monkeypatch.setitem(names.MEASURES, "inference", 2)
    monkeypatch.setitem(names.MEASURES, "jsd", 2)  # is not measured
    assert STUDY.version("run", {"method": "Independent"}) == "1, inference 2"


def test_every_measure_of_a_cell_counts_in_its_version():
    found = measure(dataset="adult", method="Real", seed=0, rows=60, attacks=5)
    assert {names.base(row["metric"]) for row in found} == set(STUDY.kind("run").measured)


def test_the_table_of_a_grid_is_the_one_that_is_measured():
    with pytest.raises(BadInput, match="build the grid again"):
        measure(dataset="adult", method="Real", seed=0, rows=60, table="another")


def test_shuffling_keeps_columns_and_breaks_rows(table):
    frame = table.frame.iloc[:200]
    mixed = protocol.shuffled(frame, seed=3)
    for name in frame:
        assert sorted(mixed[name]) == sorted(frame[name]) and mixed[name].dtype == frame[name].dtype
    assert not mixed.equals(frame.reset_index(drop=True))


def test_settings_are_the_published_ones_unless_changed():
    asked = {"seed": 0, "rows": 60}
    changed = {"local_updates": 500, "strategy": "fedyogi"}
    config = STUDY.cell("DP-Fed-FinDiff", dataset="philadelphia", **asked, **changed).config
    assert config == findiff.Config(
        local_updates=500, strategy="fedyogi", hidden=(2048,) * 3, encoding="pooled"
    )
    asked |= {"dataset": "adult"}
    assert STUDY.cell("DP-Fed-FinDiff", **asked, changes={"hidden": [4]}).config.hidden == (4,)
    named = {"local_updates": 50, "total_updates": 3000, "server_rate": 0.1, "decay": "cosine"}
    config = STUDY.cell("DP-Fed-FinDiff", **asked, **named).config
    assert (config.training_rounds, config.server_rate, config.decay) == (60, 0.1, "cosine")
    assert STUDY.cell("AIM", **asked, changes={"batch": 1}).config == METHODS["aim"].Config()
    with pytest.raises(BadInput, match="scheme 'secret'"):
        _ = STUDY.cell("DP-Fed-FinDiff", **asked, scheme="secret").config


@pytest.mark.parametrize("exhibit", [name for name in STUDY.grids if name != "fig3"])
def test_quick_is_a_part_of_paper(exhibit):
    quick, paper = (
        [params_text(cell) for cell in STUDY.grid(exhibit, profile).cells]
        for profile in ("quick", "paper")
    )
    assert quick and set(quick) <= set(paper)


def test_stated_numbers_stand_beside_ours(monkeypatch):
    results = {"best_local_updates": 500.0, "training_hours 100": 0.25}
    percent = sattarov2024_stated.stated({"utility_change_percent": -29.4864}, settings=False)
    assert percent["ours"].tolist() == ["-29"]  # whole, as stated
    table = sattarov2024_stated.stated(results, settings=False).set_index("what")
    assert table.loc["best local updates", ["printed", "ours"]].tolist() == ["100", "500"]
    assert (
        table.loc["training hours 100", ["printed", "ours"]].tolist() == ["3.5", "0.25"]
        and len(table) == 2
    )
    table = sattarov2024_stated.stated({}, settings=True)
    widths = table[table["what"] == "hidden width"]  # ours are those of paper, which is narrower
    assert widths["printed"].tolist() == ["1024", "1024", "1024", "2048"]
    assert widths["ours"].tolist() == ["256"] * 4
    rounds = table.set_index("what").loc["max communication rounds"]
    assert (rounds["printed"], rounds["ours"]) == ("3000", "30")
    swept = table[table["what"] == "epsilon swept"]
    assert swept["ours"].tolist() == swept["printed"].tolist() == ["0.2", "1", "10", "inf"]


def test_a_change_that_cannot_be_had_is_a_dash():
    table = sattarov2024_stated.stated({"utility_change_percent": np.nan}, settings=False)
    assert set(table["ours"]) == {"–"}
