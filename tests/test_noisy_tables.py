"""The noisy tables that a model was fitted to: counts, levels and standard deviations."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedsynth_lib as fs
from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.federation.settings import as_counted
from fedsynth_lib.methods.marginals import private_bins
from fedsynth_lib.release import noisy_tables, your_table

SCHEMA = """
[[column]]
name = "pay"
kind = "numeric"
low = 0
high = 999
integer = true
heaps = [0]
missing = [""]

[[column]]
name = "weight"
kind = "numeric"
low = 0
high = 200
decimals = 1

[[column]]
name = "seen"
kind = "date"
format = "%Y-%m-%d"
low = "2020-01-01"
high = "2020-12-31"

[[column]]
name = "ward"
kind = "categorical"
categories = ["a", "b", "c"]
"""


@pytest.fixture
def people(tmp_path):
    """The path of a table whose columns depend on the ward."""
    rng = np.random.default_rng(0)
    ward = rng.integers(0, 3, 3_000)
    pay = np.where(ward == 0, 0, rng.integers(1, 1_000, 3_000)).astype(object)
    pay[::9] = ""
    days = pd.to_timedelta(rng.integers(0, 366, 3_000), "D")
    frame = pd.DataFrame({"pay": pay, "weight": np.round(60 + 20 * ward + rng.normal(0, 9, 3_000))})
    frame["seen"] = (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d")
    frame["ward"] = np.array(["a", "b", "c"])[ward]
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    path.with_suffix(".toml").write_text(SCHEMA, encoding="utf-8")
    return path


def made_of(people, method="fedpgm", **options):
    options = {"epsilon": 1.0, "declared_rows": (3_000,), "files": False, **options}
    return your_table.synthesize(people, method=method, **options)


def exact(made, columns):
    """The counts of these columns in the rows that were learned from."""
    model = made.model
    schema, config, counted = as_counted(model.method, model.form, model.config)
    frame = made.train.frame if counted is None else counted.join(made.train.frame)
    encoder = model.method.encoder(schema, config)
    codes = private_bins.in_runs(model.state, encoder.transform(frame))
    levels = np.array(encoder.domain.levels)
    for column in private_bins.long_of(model.state):
        levels[column] = len(model.state[f"firsts {column}"])
    places = [schema.names.index(name) for name in columns]
    flat = np.ravel_multi_index(tuple(codes[:, places].T), tuple(levels[places]))
    return np.bincount(flat, minlength=np.prod(levels[places]))


@pytest.mark.parametrize("epsilon", [1.0, 4.0])  # with equal and with private bins
@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("method", ["fedpgm", "aim", "fedbn", "independent"])
def test_the_standard_deviation_is_that_of_the_counts(method, clients, epsilon, people, home):
    """Of the differences from the exact counts of the rows that were learned from, over all cells
    of all tables; the number of rows is declared, so shares are of a number that is not theirs."""
    made = made_of(people, method, num_clients=clients, epsilon=epsilon)
    found = noisy_tables.tables(made.model)
    assert ("ward",) in found or method == "fedbn"
    differences = []
    for columns, frame in found.items():
        assert list(frame.columns) == [*columns, noisy_tables.COUNT, noisy_tables.DEVIATION]
        gap = frame[noisy_tables.COUNT].to_numpy() - exact(made, columns)
        differences.append(gap / frame[noisy_tables.DEVIATION].to_numpy())
    differences = np.concatenate(differences)
    assert len(differences) > 60
    kurtosis = 6 if method in ("fedbn", "independent") else 3  # of Laplace and of Gaussian noise
    error = np.sqrt((kurtosis - 1) / (4 * len(differences)))
    assert differences.std() == pytest.approx(1, abs=4 * error)
    assert abs(differences.mean()) < 4 / np.sqrt(len(differences))


def test_levels_are_written_as_the_file_writes_them(people, home):
    tables = made_of(people).model.tables()
    levels = {name: list(tables[name,][name]) for name in ("pay", "weight", "seen", "ward")}
    assert levels["ward"] == ["a", "b", "c"]
    assert levels["pay"][0] == "0 to 31" and levels["pay"][-2:] == ["0", "(missing)"]
    assert levels["weight"][0] == "0.0 to 6.2" and levels["weight"][-1].endswith(" to 200.0")
    assert levels["seen"][0] == "2020-01-01 to 2020-01-12"
    assert levels["seen"][-1].endswith(" to 2020-12-31")
    assert tables["ward",][noisy_tables.COUNT].sum() == pytest.approx(2_400, abs=150)


def test_runs_of_private_bins_cover_the_range(people, home):
    found = made_of(people, epsilon=20.0).model.tables()["weight",]["weight"]
    assert found.iloc[0].startswith("0.0 ") and found.iloc[-1].endswith("200.0")
    assert len(found) == found.nunique()


def test_the_command_writes_a_file_for_each_table(people, home, capsys):
    folder = home / "tables"
    words = ["synth", str(people), "--epsilon", "2", "--no-scores", "--out", str(home / "out")]
    assert commands.main([*words, "--tables", str(folder)]) == 0
    shown = capsys.readouterr()
    assert str(folder) in shown.out.splitlines() and "about four fifths of the table's" in shown.err
    files = sorted(path.name for path in folder.iterdir())
    assert "rehearsal_001_pay.csv" in files and any("_x_" in name for name in files)
    written = pd.read_csv(folder / "rehearsal_001_pay.csv", dtype={"pay": str})
    assert list(written.columns) == ["pay", "noisy count", "standard deviation"]


def test_tables_of_a_release_have_its_noise_and_take_no_files_place(people, home):
    folder = home / "tables"
    options = {"epsilon": 1.0, "declared_rows": (3_000,), "tables": folder}
    release = {"release": True, "population": "town", "again": True}
    _, statement = fs.synthesize(people, **options, **release)
    assert statement["epsilon"] == pytest.approx(1.0, abs=1e-6)  # they cost nothing more
    assert statement.files["tables"] == folder
    assert "001_pay.csv" in {path.name for path in folder.iterdir()}
    with pytest.raises(BadInput, match="has files already"):
        fs.synthesize(people, **options, **release)


@pytest.mark.parametrize("method", ["fedpgm", "fedbn", "independent"])
def test_no_deviation_is_given_where_nobody_knows_who_made_the_noise(method, people, home):
    """Of a study, whose sites may drop out: the saved model has no sizes."""
    model = replace(made_of(people, method).model, sizes=())
    with pytest.raises(BadInput, match="does not say how many clients"):
        noisy_tables.tables(model)


@pytest.mark.parametrize("method", ["augflaim_private", "dpctgan"])
def test_methods_without_tables_of_all_rows_are_refused_before_they_run(method, people, home):
    with pytest.raises(BadInput, match="counts no tables of all rows"):
        your_table.prepare(people, method=method, epsilon=1.0, tables=home / "tables")
