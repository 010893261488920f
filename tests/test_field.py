"""Beside the field: the two benchmarks' measures against their definitions, the division of Adult,
foreign numbers, and the command that holds a method file against them."""

import gzip
import json
import shutil
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics import k_marginal, range_queries, utility
from fedsynth_lib.release import bench
from fedsynth_lib.runs import grid, names
from fedsynth_lib.runs.grid import load_rows
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.form import Counted, Form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import field, field_tables, load, maddock2024
from fedsynth_lib.works.protocol import Made, Prepared

SCHEMA = Schema(
    (
        Column("age", "numeric", low=0, high=99, integer=True),
        Column("kids", "numeric", low=0, high=9, integer=True),
        Column("sex", "categorical", categories=("f", "m")),
        Column("area", "categorical", categories=("a", "b", "c", "never")),
    ),
    "sex",
)


def people(seed, rows=300, oldest=90):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, oldest + 1, rows)
    frame = pd.DataFrame({"age": age, "kids": rng.integers(0, 4, rows)})
    frame["sex"] = pd.Categorical(np.where(rng.random(rows) < age / 100, "f", "m"), ("f", "m"))
    frame["area"] = pd.Categorical(rng.choice(["a", "b", "c"], rows), SCHEMA["area"].categories)
    return frame


# --- NIST's score ---


def test_k_marginal_is_its_definition():
    """Shares of every combination of two columns' values, by pandas; ages in NIST's bins."""
    target, synthetic = people(0), people(1, rows=170)
    quantiles = np.unique(np.percentile(target["age"], np.arange(20) * 5, method="higher"))
    edges = np.append(quantiles, target["age"].max())
    binned = [
        frame.assign(age=pd.cut(frame["age"].clip(target["age"].min()), edges, include_lowest=True))
        for frame in (target, synthetic)
    ]
    errors = []
    for pair in combinations(SCHEMA.names, 2):
        shares = [f.groupby(list(pair), observed=False).size() / len(f) for f in binned]
        errors.append(shares[0].subtract(shares[1], fill_value=0).abs().sum())
    assert synthetic["age"].between(target["age"].min(), target["age"].max()).all()
    expected = (2 - np.mean(errors)) * 500
    assert k_marginal.k_marginal(target, synthetic, SCHEMA) == pytest.approx(expected, abs=1e-9)


def test_k_marginal_of_a_copy_is_1000_and_of_other_people_0():
    target = people(0)
    assert k_marginal.k_marginal(target, target.sample(frac=1, random_state=0), SCHEMA) == 1000
    two = Schema(SCHEMA.columns[2:])
    women, men = target[target["sex"] == "f"], target[target["sex"] == "m"]
    assert k_marginal.k_marginal(women, men, two) == pytest.approx(0, abs=1e-9)
    with pytest.raises(BadInput, match="two columns"):
        k_marginal.k_marginal(target, target, Schema(SCHEMA.columns[:1]))


def test_what_is_beyond_the_target_has_a_bin_of_its_own():
    target = np.arange(10.0, 60.0)
    inside, above, both = (
        k_marginal.bins_of_target(target, np.array(values))
        for values in ([20.0], [20.0, 80.0], [1.0, 80.0])
    )
    assert (len(inside), len(above), len(both)) == (21, 21, 21)
    assert (inside[0], inside[-1]) == (10, 59) and list(above[-2:]) == [59, 80]
    assert list(both[[0, 1, -2, -1]]) == [1, 10, 59, 80]


def test_the_ladder_of_the_committed_rows_is_nists():
    """Within two points where NIST's own draws agree; a hundredth of the rows is a wide draw."""
    path = field.project_root() / "data" / "results" / "paper" / "73_field_ladder.csv"
    ladder = field_tables.ladder(load_rows(path))
    assert list(ladder.index) == ["1%", "5%", "10%", "20%", "40%", "60%", "80%"]
    assert ladder.loc["5%":, "difference"].abs().max() < 2
    assert ladder.loc["1%", "difference"] < ladder.loc["1%", "ours, ±"] + 3


def test_a_gap_is_a_bin_of_its_own_and_given_edges_are_kept():
    target = people(0).assign(age=np.where(np.arange(300) < 60, np.nan, people(0)["age"]))
    edges = {"kids": np.array([0.0, 1.0, 3.0])}
    kids = Schema((SCHEMA["age"], Column("kids", "numeric", low=0, high=99)))
    real, same, levels = k_marginal.coded(target, target.iloc[:60], kids, edges)
    assert levels == (20, 2) and (real[:60, 0] == 19).all() and real[60:, 0].max() == 18
    assert (same == real[:60]).all()
    assert (real[:, 1] == (target["kids"] > 1)).all()


def test_the_ladder_of_all_columns_is_nists():
    path = field.project_root() / "data" / "results" / "paper" / "73_field_ladder_all.csv"
    ladder = field_tables.ladder(load_rows(path), "ladder_all")
    assert ladder.loc["10%":, "difference"].abs().max() < 2
    assert ladder["NIST, mean"].iloc[0] < 560 < 700 < ladder["ours, mean"].iloc[1]


def test_all_columns_are_scored_within_areas_and_gaps_come_back(monkeypatch):
    """By pandas, over every pair beside the area; a method that counts has a level for a gap."""
    rng, frame = np.random.default_rng(0), people(0).rename(columns={"area": "PUMA"})
    frame = frame[["PUMA", "age", "sex"]]
    columns = (Column("PUMA", "categorical", categories=("a", "b", "c", "never")), *SCHEMA.columns)
    schema = Schema(tuple(c for c in columns if c.name in frame))
    form = Form((*Form.of(schema).columns, FileColumn("pay", "numeric", 0, 90, missing=("N",))))
    pay = np.where(rng.random(300) < 0.3, "N", rng.integers(0, 90, 300).astype(str))
    whole = form.to_model(frame.assign(pay=pay), "toy")
    target = field.with_nan(whole, form)
    assert list(target) == ["PUMA", "age", "sex", "pay"]
    assert (target["pay"].isna() == (pay == "N")).all()
    table = Table("toy", whole, form.schema, "own")
    prepared = field.Areas(table, frame["PUMA"].cat.codes.to_numpy(), target, form)
    assert prepared.score(target) == 1000
    other = target.sample(150, random_state=1)
    schema = form.schema.drop(["pay is missing"])
    both = [pd.DataFrame(each) for each in k_marginal.coded(target, other, schema)[:2]]
    errors = []
    for pair in combinations((1, 2, 3), 2):
        shares = [codes.groupby([0, *pair]).size() / len(codes) for codes in both]
        errors.append(shares[0].subtract(shares[1], fill_value=0).abs().sum())
    assert prepared.score(other) == pytest.approx((2 - np.mean(errors)) * 500)

    counted = Counted.of(form, EqualWidthBins(form.schema, 32))
    back = counted.part(counted.join(whole), rng)
    assert (field.with_nan(back, form)["pay"].isna() == target["pay"].isna()).all()
    shown = field.Areas(table, prepared.area, target, form, counted)
    monkeypatch.setattr(field, "costs", lambda *_: {})
    made = Made(counted.join(whole), {})
    assert 800 < field.score_of_everything(shown, made, None, 0)["k_marginal"] < 1000


# --- range queries ---


def test_query_error_is_the_mean_difference_of_shares():
    real, synthetic = people(0), people(1)
    queries = range_queries.random_queries(SCHEMA, width=2, number=50, seed=3)
    gaps = []
    for query in queries:
        shares = []
        for frame in (real, synthetic):
            met = pd.Series(True, index=frame.index)
            for name, low, high in query:
                values = frame[name] if name in SCHEMA.numeric else frame[name].cat.codes
                met &= (values >= low) & (values <= high)
            shares.append(met.sum() / len(frame))
        gaps.append(abs(shares[0] - shares[1]))
    found = range_queries.query_error(real, synthetic, SCHEMA, width=2, number=50, seed=3)
    assert found == pytest.approx(np.mean(gaps)) and found > 0.005
    assert range_queries.query_error(real, real, SCHEMA, width=3, number=50) == 0


def test_queries_stay_in_declared_ranges_and_name_different_columns():
    queries = range_queries.random_queries(SCHEMA, width=3, number=400, seed=0)
    assert all(len({name for name, _, _ in query}) == 3 for query in queries)
    conditions = [condition for query in queries for condition in query]
    ages = [(low, high) for name, low, high in conditions if name == "age"]
    assert all(0 <= low <= high <= 99 for low, high in ages)
    assert {low for name, low, high in conditions if name == "area"} == {0, 1, 2, 3}
    with pytest.raises(BadInput, match="width is 5"):
        range_queries.random_queries(SCHEMA, width=5, number=1, seed=0)


def test_boosted_trees_tell_a_dependence_from_none():
    learnt, judged = people(0, rows=1500), people(1, rows=600)
    found = utility.boosted_trees(learnt, judged, SCHEMA, seed=0)
    shuffled = learnt.assign(sex=learnt["sex"].sample(frac=1, random_state=0).array)
    assert (
        found["auc_hgb"] > utility.boosted_trees(shuffled, judged, SCHEMA, seed=0)["auc_hgb"] + 0.1
    )
    alone = utility.boosted_trees(learnt[learnt["sex"] == "f"], judged, SCHEMA, seed=0)
    assert alone["auc_hgb"] == 0.5 and 0.2 < alone["f1_hgb"] < 0.5


# --- the benchmarks ---


def test_adult_is_divided_as_heterofedsyn_divides_it():
    letters = gzip.decompress(field.split_path().read_bytes()).decode().strip()
    assert (len(letters), letters.count("f"), letters.count("v")) == (32_561, 20_838, 5_210)
    assert letters.count("t") == 6_513


def test_a_client_is_an_area():
    area = np.array([3, 0, 3, 7, 0])
    parts = field.by_area(field.Areas(None, area, None))
    assert [list(part) for part in parts] == [[1, 4], [0, 2], [3]]


def test_foreign_numbers_say_where_they_are_from():
    for block in ("nist", "nist_all", "adult"):
        lines = field_tables.foreign(block)
        assert lines["source"].str.len().min() > 10 and lines["date"].notna().all()
        assert set(lines["group"]) <= {field_tables.PRINTED, field_tables.RERUN}
        assert (lines["value"] > 0).all()


@pytest.mark.parametrize(
    ("wrong", "said"), [('flag = "heard"', "flag"), ('source = "x"', "source")]
)
def test_a_foreign_number_without_a_source_is_refused(wrong, said, tmp_path, monkeypatch):
    name = wrong.split()[0]
    published = field.project_root() / "data" / "published"
    text = (published / "field.toml").read_text()
    lines = [wrong if line.startswith(f"{name} =") else line for line in text.splitlines()]
    (tmp_path / "data" / "published").mkdir(parents=True)
    (tmp_path / "data" / "published" / "field.toml").write_text("\n".join(lines))
    shutil.copy(published / "reruns.toml", tmp_path / "data" / "published")
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=said):
        field_tables.foreign("nist")


def test_rows_of_flaim_stand_by_who_takes_part():
    rows = pd.DataFrame(
        [
            {"dataset": "a", "method": method, "metric": metric, "value": value, "setting": "federated",
             "params": json.dumps({"participation": p, "measure_share": share, "estimator": by})}
            for method, p, share, by, metric, value in (
                ("FedPGM", 0.1, 0.9, "ours", "workload_error", 0.5),
                ("FedPGM", 0.1, 0.9, "ours", "workload_error", 0.7),
                ("FedPGM", 1.0, 0.9, "ours", "workload_error", 0.2),
                ("FedPGM", 1.0, 0.9, "ours", "nll", 9.0),
                ("DistAIM", 0.1, 0.9, "published", "workload_error", 0.4),
                ("DistAIM", 0.1, 0.5, "published", "workload_error", 8.0),
            )
        ]
    )  # fmt: skip
    table = field_tables.by_participation(rows[:4], rows[4:])
    assert table.loc["a"].map(str).to_dict() == {
        "DistAIM, published estimator": "0.400",
        "FedPGM, 10%": "0.600 ± 1.271",
        "FedPGM, 100%": "0.200",
    }


def test_interval_is_students():
    assert field_tables.interval([1.0, 2.0, 3.0]) == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert np.isnan(field_tables.interval([1.0]))


# --- a method of one's own ---


@pytest.fixture(autouse=True)
def cells(tmp_path, monkeypatch):
    """Finished cells are kept here, not among those of the checkout."""
    monkeypatch.setattr(grid, "_folder", lambda *names: tmp_path.joinpath("cells", *names))


@pytest.fixture
def mine(tmp_path):
    """A copy of the method file that notebook 82 shows."""
    path = tmp_path / "mine.py"
    path.write_text((field.project_root() / "notebooks" / "your_method.py").read_text())
    return path


@pytest.fixture
def small_target(monkeypatch):
    """NIST's block over a table of people in two areas."""
    frame = people(0, rows=240)
    table = Table("people", frame, SCHEMA, "own")
    areas = field.Areas(table, np.arange(240) % 2, frame)
    monkeypatch.setattr(field, "areas", lambda dataset, rows: areas)


@pytest.fixture
def small_parties(monkeypatch):
    """Adult's block over the same people, and others to judge on."""
    train, test = (Table("people", people(seed, rows=240), SCHEMA, "own") for seed in (0, 1))
    monkeypatch.setattr(field, "parties", lambda dataset, rows: field.Parties(train, test))


@pytest.mark.slow
def test_the_command_runs_a_method_on_the_block_that_is_named(
    small_parties, small_target, tmp_path, monkeypatch, capsys
):
    mine = tmp_path / "mine.py"
    mine.write_text((field.project_root() / "notebooks" / "your_method.py").read_text())
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path / "empty"))  # what it needs is brought there
    for block, clients, measure in (("b", "5", "AUC, boosted trees"), ("A", "2", "k-marginal")):
        assert commands.main(["bench", str(mine), "--block", block, "--seeds", "1"]) == 0
        table = capsys.readouterr().out
        (own,) = [line for line in table.splitlines() if " mine " in line]
        assert measure in table.splitlines()[0]
        assert own.split()[3:5] == ["1", clients]  # epsilon, clients, behind "your method"


@pytest.mark.slow
def test_a_method_file_gets_its_line_and_a_broken_promise_is_told(small_target, tmp_path):
    good = (field.project_root() / "notebooks" / "your_method.py").read_text()
    mine = tmp_path / "mine.py"
    mine.write_text(good)
    table, broken = bench.bench("A", mine, seeds=1, say=lambda text: None)
    own = table.loc[field_tables.OWN]
    assert list(own.index) == ["mine"] and broken == {}
    assert own["trusted"].tolist() == ["a secure sum"] and own["ε"].tolist() == ["1"]
    assert 0 < own["k-marginal score"].iloc[0].numbers["mean"] < 1000
    assert field_tables.FEDERATED not in table.index  # these rows are nobody's benchmark

    for promise, wrong in (  # more is charged than is spent; less noise than is charged
        ("", good.replace("noise_multiplier, sensitivity", "9 * noise_multiplier, sensitivity")),
        (
            "draws_what_it_charges",
            good.replace("noise.multiplier * len", "0.4 * noise.multiplier * len"),
        ),
    ):
        mine.write_text(wrong)
        table, broken = bench.bench("A", mine, seeds=1, say=lambda text: None)
        assert broken and promise in {"", *broken} and field_tables.OWN not in table.index


@pytest.mark.slow
def test_a_method_file_gets_its_line_among_all_columns(mine, monkeypatch):
    """With a gap as a level more, since the method counts."""
    frame = people(0, rows=240).rename(columns={"area": "PUMA"})
    columns = tuple(replace(c, name="PUMA") if c.name == "area" else c for c in SCHEMA.columns)
    form = Form.of(Schema(columns[::-1], "sex"))
    pay = np.where(np.arange(240) % 3 == 0, "N", np.arange(240).astype(str))
    form = Form((*form.columns, FileColumn("pay", "numeric", 0, 240, missing=("N",))), "sex")
    whole = form.to_model(frame.assign(pay=pay)[list(form.names)], "people")
    table = Table("people", whole, form.schema, "real")
    monkeypatch.setattr(field, "_all_columns", lambda dataset, rows: (table, form))
    monkeypatch.setattr(bench, "load_table", lambda name, work: table)
    said = []
    shown, broken = bench.bench("A'", mine, seeds=1, say=said.append)
    own = shown.loc[field_tables.OWN]
    assert broken == {} and 300 < own["k-marginal score"].iloc[0].numbers["mean"] < 1000
    assert own["clients"].tolist() == [3] and "FedPGM" in shown.loc[field_tables.FEDERATED].index
    assert any("audit" in line and "below the claim" in line for line in said)


def test_a_method_file_gets_its_columns_on_flaims_tables(mine, monkeypatch):
    """One that can be told the chance to be drawn; else everybody is in each round."""
    tables = [Table("people", people(seed, rows=240), SCHEMA, "real") for seed in (0, 1)]
    prepared, drawn = Prepared(*tables), []
    monkeypatch.setattr(maddock2024, "prepare", lambda dataset: prepared)
    monkeypatch.setattr(maddock2024, "bins_of", lambda dataset: {"age": 10})
    monkeypatch.setattr(bench, "load_table", lambda name, work: tables[0])
    monkeypatch.setattr(bench, "_broken", lambda *_: {})

    def divide(prepared, n_clients, partition):
        drawn.append((n_clients, partition))
        return np.array_split(np.arange(240), 4)

    monkeypatch.setattr(maddock2024, "divide", divide)
    shown, _ = bench.bench("D", mine, seeds=1, say=lambda text: None)
    assert {*drawn} == {(100, "cluster_skew")}
    assert 0 < float(str(shown.loc["magic", "mine, 100%"])) < 1 and "mine, 10%" not in shown
    mine.write_text(
        mine.read_text().replace("rounds: int = 1", "rounds: int = 1; participation: float = 1.0")
    )
    assert {"mine, 10%", "mine, 100%"} <= {*bench.bench("D", mine, seeds=1, say=print)[0]}


def test_a_run_that_was_stopped_goes_on_where_it_was(small_target, mine, monkeypatch, capsys):
    usual, seeds = field.marginal_scores, []

    def stopped(prepared, made, cell):
        seeds.append(cell.settings["seed"])
        if len(seeds) == 2:
            raise KeyboardInterrupt
        return usual(prepared, made, cell)

    monkeypatch.setattr(bench, "_broken", lambda *_: {})
    monkeypatch.setattr(field, "marginal_scores", stopped)
    with pytest.raises(KeyboardInterrupt):
        bench.bench("A", mine)
    table, _ = bench.bench("A", mine)
    score = table.loc[field_tables.OWN, "k-marginal score"].iloc[0]
    assert seeds == [0, 1, 1, 2] and score.numbers["half"] > 0
    assert "2 experiments to compute, 1 computed before" in capsys.readouterr().err
    mine.write_text(mine.read_text() + "\n")  # another method
    bench.bench("A", mine)
    assert seeds[4:] == [0, 1, 2]


@pytest.mark.parametrize("block", ["A'", "D"])
def test_a_block_whose_tables_are_out_of_reach_is_refused_before_any_work(block, mine, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    monkeypatch.setattr(bench, "_broken", lambda *_: pytest.fail("work began"))
    with pytest.raises(BadInput, match=f"block {block} needs the real table .* out of reach"):
        bench.bench(block, mine)


def test_the_tables_are_shown_without_a_method_and_bad_requests_are_refused(tmp_path):
    for block in ("A", "A'", "a2", "B"):
        table, _ = bench.bench(block, None)
        assert "FedPGM" in table.loc[field_tables.FEDERATED].index
        assert field_tables.PRINTED in table.index
    table, _ = bench.bench("D", None)
    assert list(table.index) == sorted(bench.FLAIM) and table.notna().all(axis=None)
    assert {
        "FedPGM, 10%",
        "FedPGM, 100%",
        "DistAIM, our estimator",
        "AIM, published estimator",
    } <= {*table}
    with pytest.raises(BadInput, match="block is 'C'"):
        bench.bench("C", None)
    with pytest.raises(BadInput, match="no such Python file"):
        bench.bench("A", tmp_path / "none.py")
    with pytest.raises(BadInput, match="seeds is 0"):
        bench.bench("A", tmp_path / "none.py", seeds=0)


def test_speed_says_how_to_get_the_peers_that_it_needs(monkeypatch, capsys):
    monkeypatch.setattr(bench, "PEERS", ("pytest", "a_peer_that_is_not_there"))
    assert commands.main(["bench", "--speed"]) == 2
    said = capsys.readouterr().err
    assert "a_peer_that_is_not_there" in said and "run_all.sh bench --speed" in said
    assert "pytest," not in said


def test_rows_of_every_method_beside_the_field_can_be_read_again():
    assert all(map(names.is_method, load("field").methods))
