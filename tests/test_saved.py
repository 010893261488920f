"""A saved model: the same rows again, what is in its file, and files that are refused."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import promises
import pytest
from conftest import SCHEMA, make_frame

from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput, Method, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.release import saved, your_table
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.load import Table, load_table

TABLE = Table("toy", make_frame(240), SCHEMA, data="own", digest="toy")
SHORT = {"training_rounds": 1, "generations": 30, "iterations": 20, "final_iterations": 20}


def short(method):
    config = promises.everyone(method)
    known = {name: value for name, value in SHORT.items() if hasattr(config, name)}
    return replace(config, **known)


def model_of(method, **options):
    config = short(method)
    given = {"config": config, "privacy": promises.budget(method), "seed": 5, "num_rows": 40}
    run = promises.federated(method, TABLE, **given | options)
    return run, saved.saved(run, method, config, Form.of(SCHEMA), seed=5)


@pytest.mark.parametrize("key", METHODS)
def test_the_runs_seed_draws_the_runs_rows(key, tmp_path):
    """And no number of the rows that it learned from is in the file: `weight` has no two alike."""
    run, model = model_of(METHODS[key])
    saved.write(model, path := tmp_path / "model.fedsynth")
    read = saved.read(path)
    assert read.config == model.config and read.form == model.form
    assert read.statement == json.loads(json.dumps(run.statement))
    pd.testing.assert_frame_equal(read.drawn(), run.synthetic)
    assert not read.drawn(seed=6).equals(run.synthetic) and len(read.drawn(7, seed=6)) == 7
    weights = TABLE.frame["weight"].to_numpy()
    weights = weights[weights % 1 > 0]  # a noisy count may be the one that is whole
    kept = np.concatenate([values.ravel() for values in read.state.values()]).astype(float)
    assert not np.isin(weights, kept).any()
    assert not np.isin(weights.astype(np.float32), kept.astype(np.float32)).any()


def test_what_stays_at_the_server_or_at_a_client_is_in_no_file():
    def remembers(state, client, config, noise, rng):
        client.memory["rows"] = client.rows
        return independent.client_step(state, client, config, noise, rng)

    def keeps(state, updates, config, noise, rng):
        state, charges = independent.server_step(state, updates, config, noise, rng)
        return state | {"secret/exact": np.arange(7)}, charges

    method = replace(Method.of(independent), client_step=remembers, server_step=keeps)
    run = promises.federated(method, TABLE, seed=5)
    model = saved.saved(run, METHODS["independent"], independent.Config(), Form.of(SCHEMA))
    with zipfile.ZipFile(io.BytesIO(saved.to_bytes(model))) as archive:
        assert archive.namelist() == ["model.json", "state.npz", "sha256"]
        with np.load(io.BytesIO(archive.read("state.npz"))) as arrays:
            assert set(arrays.files) == {"levels", "counts"}
    run.state["secret/exact"] = np.arange(7)
    with pytest.raises(BadInput, match="'secret/exact' may not be handed on"):
        saved.saved(run, METHODS["independent"], independent.Config(), Form.of(SCHEMA))


def test_equal_models_are_equal_files():
    one, other = (saved.to_bytes(model_of(METHODS["independent"])[1]) for _ in range(2))
    assert one == other


# --- files that are refused ----------------------------------------------------------------------


def repacked(content, change, *, digest=True):
    """The file with its members changed; with the digest that belongs to them, or the old one."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    old = members.pop("sha256")
    change(members)
    members["sha256"] = saved._digest(members).encode() if digest else old
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, value in members.items():
            archive.writestr(name, value)
    return sink.getvalue()


def document(**entries):
    def change(members):
        members["model.json"] = json.dumps(json.loads(members["model.json"]) | entries).encode()

    return change


def arrays(**changed):
    def change(members):
        sink = io.BytesIO()
        with np.load(io.BytesIO(members["state.npz"])) as state:
            np.savez(sink, **{name: state[name] for name in state.files} | changed)
        members["state.npz"] = sink.getvalue()

    return change


@pytest.fixture(scope="module")
def content():
    return saved.to_bytes(model_of(METHODS["independent"])[1])


@pytest.mark.parametrize(
    ("change", "digest", "message"),
    [
        (arrays(counts=np.zeros(3, int)), False, "was damaged or changed since it was saved"),
        (document(seed=9), False, "was damaged or changed since it was saved"),
        (document(format=2), True, "has format 2, and this version of fedsynth reads up to 1"),
        (document(version=99), True, "version 99 of method 'independent', and there is version 1"),
        (document(method="mine"), True, "method 'mine', and there is no such method here"),
        (document(config={"sharpness": 3}), True, "cannot be read"),
        (document(form="[[column]"), True, "not valid TOML"),
        (arrays(counts=np.array([{}])), True, r"cannot be read \(ValueError\)"),  # a pickle
        (lambda members: members.pop("state.npz"), True, "this is no saved model"),
    ],
)
def test_a_file_that_is_not_as_it_was_saved_is_refused(change, digest, message, content, tmp_path):
    path = tmp_path / "model.fedsynth"
    path.write_bytes(repacked(content, change, digest=digest))
    with pytest.raises(BadInput, match=message) as refused:
        saved.read(path)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("end", [0, 100, -30])
def test_half_a_file_is_refused(end, content, tmp_path):
    path = tmp_path / "model.fedsynth"
    path.write_bytes(content[:end])
    with pytest.raises(BadInput, match="this is no saved model"):
        saved.read(path)


def test_any_byte_that_changes_is_noticed(content, tmp_path):
    path = tmp_path / "model.fedsynth"
    clean = saved.SavedModel.drawn(_read(content, path))
    for place in [*range(0, len(content), 97), *range(len(content) - 190, len(content), 3)]:
        broken = bytearray(content)
        broken[place] ^= 0x5A
        try:
            found = _read(bytes(broken), path)
        except BadInput:
            continue
        assert found.drawn().equals(clean)  # a byte of the zip that says nothing


def _read(content, path):
    path.write_bytes(content)
    return saved.read(path)


def test_a_method_of_ones_own_cannot_be_named():
    run = promises.federated(independent, TABLE, seed=5)
    mine = replace(Method.of(independent), name="mine")
    model = saved.saved(run, mine, independent.Config(), Form.of(SCHEMA), seed=5)
    assert model.drawn().equals(run.synthetic)
    with pytest.raises(BadInput, match="mine is not one of the bundle's"):
        saved.to_bytes(model)


@pytest.mark.slow
def test_a_method_that_no_file_can_name_is_refused_before_anything_is_spent(ward, tmp_path, capsys):
    """A release is paid for when it begins; so what its model cannot be shows before."""
    mine = tmp_path / "mine.py"
    mine.write_text(Path(independent.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    words = ["synth", str(ward), "--method", str(mine), "--epsilon", "1", "--release"]
    words += ["--declared-rows", "200"]  # a noisy count may be too small
    assert commands.main([*words, "--save-model", str(tmp_path / "ward.fedsynth")]) == 2
    assert "not one of the bundle's" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.jsonl")) and not list(tmp_path.rglob("*.fedsynth"))
    assert commands.main(words) == 0  # without it, it is released and paid for
    assert len(list(tmp_path.rglob("*.jsonl"))) > 0


def test_rows_that_cannot_be_are_refused():
    _, model = model_of(METHODS["independent"])
    with pytest.raises(BadInput, match="rows is 0"):
        model.sample(0)
    with pytest.raises(BadInput, match="seed is -1"):
        model.sample(seed=-1)


def test_rows_of_central_and_local_runs_are_drawn_as_well():
    method = METHODS["independent"]
    options = {"config": method.Config(), "privacy": Privacy(1.0), "seed": 2}
    run = settings.central(method, TABLE, **options)
    model = saved.saved(run, method, method.Config(), Form.of(SCHEMA), seed=2)
    assert model.drawn().equals(run.synthetic)


# --- from the command line -----------------------------------------------------------------------

FORM = """\
[table]
target = "ill"
[[column]]
name = "visit"
kind = "date"
low = "01.03.2020"
high = "31.03.2024"
format = "%d.%m.%Y"
[[column]]
name = "id"
kind = "identifier"
pattern = "P####"
[[column]]
name = "dose"
kind = "numeric"
low = 0
high = 50
decimals = 1
missing = ["NA"]
[[column]]
name = "ill"
kind = "categorical"
categories = ["no", "yes"]
"""


@pytest.fixture
def ward(tmp_path, monkeypatch):
    """Semicolons, dates, identifiers and gaps."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    rng, rows = np.random.default_rng(1), 200
    days = pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(0, 1400, rows), "D")
    dose = np.where(rng.random(rows) < 0.2, "NA", rng.integers(0, 500, rows) / 10)
    frame = pd.DataFrame({"visit": days.strftime("%d.%m.%Y"), "dose": dose})
    frame.insert(1, "id", [f"P{k:04}" for k in range(rows)])
    frame["ill"] = rng.choice(["no", "yes"], rows)
    path = tmp_path / "ward.csv"
    frame.to_csv(path, sep=";", index=False, lineterminator="\r\n")
    path.with_suffix(".toml").write_text(FORM)
    return path


@pytest.mark.parametrize("method", ["independent", "fedpgm", "dpvaebgm"])
def test_synth_and_sample_write_the_same_file(method, ward, tmp_path, capsys):
    model, out = tmp_path / "ward.fedsynth", tmp_path / "again.csv"
    options = ["--method", method, "--no-scores", "--seed", "3", "--delta", "1e-6"]
    if method == "dpvaebgm":
        options += ["--epsilon", "3"]
    asked = ["synth", str(ward), *options, "--out", str(tmp_path), "--save-model", str(model)]
    assert commands.main(asked) == 0
    assert str(model) in capsys.readouterr().out
    assert commands.main(["sample", str(model), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(out)
    assert "is post-processing and costs nothing more than the rehearsal's epsilon 3" in said.err
    assert out.read_bytes() == (tmp_path / "ward_rehearsal.csv").read_bytes()
    assert commands.main(["sample", str(model), "--rows", "12", "--seed", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "visit;id;dose;ill" and len(lines) == 13


def test_a_release_can_be_drawn_from_and_spends_nothing_more(ward, tmp_path, capsys):
    model = tmp_path / "ward.fedsynth"
    options = {"epsilon": 1.0, "delta": 1e-6, "method": "independent", "release": True}
    options |= {"declared_rows": 200}  # a noisy count may be too small
    made = your_table.synthesize(ward, **options, seed=3, save_model=model)
    read = saved.read(model)
    pd.testing.assert_frame_equal(read.drawn(), made.run.synthetic)
    assert "than the model's epsilon 1, delta 1e-06" in read.cost
    books = {p: p.read_bytes() for p in (tmp_path / "data" / "ledger").rglob("*") if p.is_file()}
    assert commands.main(["sample", str(model), "--out", str(tmp_path / "more.csv")]) == 0
    drawn = load_table(tmp_path / "more.csv", schema=ward.with_suffix(".toml"))
    assert len(drawn) == len(made.rows)
    assert books == {p: p.read_bytes() for p in books}
    with pytest.raises(BadInput, match="is there already; a release takes no file's place"):
        your_table.prepare(ward, **options, again=True, save_model=model)


def test_parquet_comes_out_as_parquet(ward, tmp_path):
    frame = pd.read_csv(ward, sep=";", dtype={"id": str})
    frame["ill"] = frame["ill"].astype("category")
    frame.to_parquet(tmp_path / "ward.parquet", index=False)
    model = tmp_path / "ward.fedsynth"
    made = your_table.synthesize(
        tmp_path / "ward.parquet", epsilon=1.0, delta=1e-6, method="independent", save_model=model
    )
    (tmp_path / "again.parquet").write_bytes(saved.read(model).file())
    one, other = (pd.read_parquet(p) for p in (made.paths["rows"], tmp_path / "again.parquet"))
    pd.testing.assert_frame_equal(one, other)


def test_a_model_that_is_none_is_told_in_one_sentence(ward, tmp_path, capsys):
    assert commands.main(["sample", str(ward)]) == 2
    assert "this is no saved model" in capsys.readouterr().err
    assert commands.main(["sample", str(tmp_path / "gone.fedsynth")]) == 2
    assert "model: " in capsys.readouterr().err
