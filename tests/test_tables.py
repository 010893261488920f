"""The registry, where a table comes from, views of the works, own files, subsamples and splits."""

import gzip
import hashlib
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables import fetch, load, synthfs
from fedsynth_lib.tables.form import read_form
from fedsynth_lib.tables.load import StandInWarning, Table, available, load_table, split
from fedsynth_lib.tables.registry import REGISTRY, View
from fedsynth_lib.tables.schema import Column, Schema

ADULT = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K
17, ?, 83311, HS-grad, 9, Divorced, ?, Husband, Black, Female, 0, 4356, 13, ?, >50K
90, Private, 215646, 11th, 7, Widowed, Sales, Wife, Other, Male, 99999, 0, 99, United-States, <=50K

"""
ADULT_TEST = "|1x3 Cross validator\n" + ADULT.replace("50K\n", "50K.\n")
COLUMNS = "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain"
COLUMNS = [*COLUMNS.split(), "capital-loss", "hours-per-week", "native-country", "income"]


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty project without mirror or network, in which `adult` is a table of three rows."""
    adult = REGISTRY["adult"]
    files = {
        name: replace(adult.files[name], sha256=sha(text), sha256_stored="", urls=())
        for name, text in (("adult.data", ADULT), ("adult.test", ADULT_TEST))
    }
    monkeypatch.setitem(REGISTRY, "adult", replace(adult, files=files))
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.delenv("FEDSYNTH_MIRROR", raising=False)
    monkeypatch.delenv("FEDSYNTH_DATA", raising=False)
    monkeypatch.setattr(load, "_warned", set())
    monkeypatch.setattr(fetch.requests, "get", no_network)
    load._read_registered.cache_clear()
    yield tmp_path
    load._read_registered.cache_clear()


def no_network(url, **_):
    raise AssertionError(f"a test asked for {url}")


@pytest.fixture
def mirror(home, monkeypatch):
    folder = home / "mirror" / "adult"
    folder.mkdir(parents=True)
    (folder / "adult.data.gz").write_bytes(gzip.compress(ADULT.encode()))
    (folder / "adult.test").write_text(ADULT_TEST)
    monkeypatch.setenv("FEDSYNTH_MIRROR", str(home / "mirror"))
    return folder


def put_raw(home, name="adult.data", text=ADULT):
    folder = home / "data" / "raw" / "adult"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def put_standin(home, drop=()):
    frame = pd.DataFrame([line.split(", ") for line in ADULT.splitlines() if line], columns=COLUMNS)
    folder = home / "data" / "standin"
    folder.mkdir(parents=True)
    frame.drop(columns=list(drop)).to_parquet(folder / "adult.parquet")


def test_adult_as_martinez2024_uses_it(mirror):
    table = load_table("adult", work="martinez2024")
    assert (table.key, table.data, len(table)) == ("adult", "real", 3)
    assert table.schema.target == "income"
    assert list(table.frame) == [name for name in COLUMNS if name not in ("fnlwgt", "education")]
    assert table.frame["age"].tolist() == [39, 17, 90]
    assert table.frame["age"].dtype == np.int64
    assert table.frame["workclass"].tolist() == ["State-gov", "?", "Private"]
    assert tuple(table.frame["workclass"].cat.categories) == table.schema["workclass"].categories
    levels = [len(table.schema[name].categories) for name in table.schema.categorical]
    assert np.prod(levels) == 4_762_800  # the number of combinations that the work prints
    assert list(mirror.parent.parent.glob("data/**/*")) == []  # a local mirror is read in place


def test_views_choose_files_columns_and_kinds(mirror):
    assert list(load_table("adult").frame) == [name for name in COLUMNS if name != "fnlwgt"]
    assert list(load_table("adult", work="all").frame) == COLUMNS
    both = load_table("adult", work="maddock2024")
    assert (len(both), "education" in both.frame) == (6, False)
    # without the full stop of adult.test
    assert both.frame["income"].tolist() == ["<=50K", ">50K", "<=50K"] * 2
    assert both.frame["income"].cat.categories.tolist() == ["<=50K", ">50K"]
    ages = load_table("adult", work="sattarov2024").frame["age"]
    assert ages.tolist() == ["39", "17", "90"]
    assert len(ages.cat.categories) == 90 - 17 + 1
    holdout = load_table("adult", work="leitner2023", part="holdout")
    assert holdout.frame.equals(load_table("adult", work="leitner2023").frame)
    with pytest.raises(BadInput, match="no part 'holdout' for work='martinez2024'"):
        load_table("adult", work="martinez2024", part="holdout")
    with pytest.raises(BadInput, match=r"no work 'martinez' .*did you mean 'martinez2024'"):
        load_table("adult", work="martinez")


def test_rename_and_merge(mirror, monkeypatch):
    view = View(
        files=("adult.data",),
        drop=("fnlwgt",),
        rename={"income": "rich"},
        merge={"race": {"any": ["White", "Black"]}},
    )
    monkeypatch.setitem(REGISTRY, "adult", replace(REGISTRY["adult"], works={"w": view}))
    table = load_table("adult", work="w")
    assert (table.schema.target, table.frame.columns[-1]) == ("rich", "rich")
    assert table.schema["race"].categories == (
        "any",
        "Asian-Pac-Islander",
        "Amer-Indian-Eskimo",
        "Other",
    )
    assert table.frame["race"].tolist() == ["any", "any", "Other"]


def test_raw_goes_before_the_mirror_and_the_mirror_before_a_standin(home, mirror):
    put_standin(home)
    assert load_table("adult").data == "real"
    assert available("adult") == ("mirror", str(mirror / "adult.data.gz"))
    path = put_raw(home, "adult.data.gz", "")
    path.write_bytes(gzip.compress(ADULT.encode()))
    assert available("adult") == ("raw", str(path))
    assert load_table("adult").data == "real"
    path.write_bytes(b"x" * 10)  # a changed file is read anew
    with pytest.raises(
        BadInput,
        match=r"raw.adult.adult\.data\.gz is not the expected "
        r"adult\.data: its SHA-256",
    ):
        load_table("adult")


def test_a_standin_is_said_loudly_and_once(home):
    with pytest.raises(
        BadInput,
        match=r"no stand-in .*put adult\.data \(https.*\) into "
        r"data/raw/adult or set FED",
    ):
        load_table("adult")
    put_standin(home)
    with pytest.warns(StandInWarning, match=r"adult: NOT REAL DATA.*put adult\.data") as caught:
        table = load_table("adult", work="martinez2024")
    assert caught[0].filename == __file__
    assert (table.data, len(table), available("adult").state) == ("standin", 3, "standin")
    assert table.frame["race"].cat.categories.tolist() == list(
        REGISTRY["adult"].schema["race"].categories
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert split(load_table("adult"), seed=0, test_share=0.4)[0].data == "standin"
    with pytest.raises(BadInput, match="a stand-in has none"):
        load_table("adult", work="leitner2023", part="holdout")


def test_fedsynth_data_decides_about_the_standin(home, mirror, monkeypatch):
    put_standin(home, drop=["fnlwgt"])
    monkeypatch.setenv("FEDSYNTH_DATA", "standin")
    with pytest.warns(StandInWarning, match="as FEDSYNTH_DATA=standin asks"):
        assert load_table("adult").data == "standin"
    with pytest.raises(BadInput, match="the stand-in has no column 'fnlwgt'"):
        load_table("adult", work="all")
    monkeypatch.setenv("FEDSYNTH_DATA", "real")
    assert load_table("adult").data == "real"
    monkeypatch.delenv("FEDSYNTH_MIRROR")
    with pytest.raises(BadInput, match="FEDSYNTH_DATA=real forbids"):
        load_table("adult")
    monkeypatch.setenv("FEDSYNTH_DATA", "fake")
    with pytest.raises(BadInput, match="FEDSYNTH_DATA is 'fake'"):
        load_table("adult")


def test_the_official_address_comes_before_a_standin(home, monkeypatch):
    put_standin(home)
    url = "http://official.example/adult.data"
    adult = REGISTRY["adult"]
    files = {name: replace(file, urls=(url,)) for name, file in adult.files.items()}
    monkeypatch.setitem(REGISTRY, "adult", replace(adult, files=files))
    assert available("adult") == ("official?", url)
    monkeypatch.setattr(fetch, "download", lambda url, folder, file: put_raw(home))
    assert load_table("adult").data == "real"


def test_other_files_are_taken_and_said_where_the_wanted_ones_are_missing(
    home, mirror, monkeypatch
):
    view = View(files=("adult.data",), otherwise=("adult.test",), drop=("fnlwgt",))
    monkeypatch.setitem(REGISTRY, "adult", replace(REGISTRY["adult"], works={"w": view}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_table("adult", work="w")
    (mirror / "adult.data.gz").unlink()
    with pytest.warns(
        UserWarning,
        match=r"adult: adult\.test is read in place of adult\.data; "
        r"put",
    ) as caught:
        load_table("adult", work="w")
    assert caught[0].filename == __file__


def test_a_caller_cannot_spoil_the_cached_table(mirror):
    first = load_table("adult")
    first.frame.loc[0, "age"] = 18
    second = load_table("adult")
    assert second.frame["age"].tolist() == [39, 17, 90]
    assert second.digest == first.digest != load_table("adult", work="all").digest


def test_unknown_keys_and_misplaced_options(mirror):
    with pytest.raises(BadInput, match=r"no table 'adlut' \(did you mean 'adult'\?\)"):
        load_table("adlut")
    with pytest.raises(BadInput, match="schema of a registered table is fixed"):
        load_table("adult", schema="adult.toml")
    with pytest.raises(BadInput, match="leave it out for a file"):
        load_table("own.csv", work="martinez2024")


def test_rows_is_a_random_subsample_without_replacement(home):
    table = load_table("synthfs", rows=1000, seed=3)
    whole = load_table("synthfs", seed=3)
    assert (len(table), len(whole)) == (1000, 50_000)
    assert table.frame.equals(load_table("synthfs", rows=1000, seed=3).frame)
    positions = np.sort(load.stream(3, "rows").choice(50_000, 1000, replace=False))
    assert table.frame.equals(whole.frame.iloc[positions].reset_index(drop=True))
    for rows in (0, 50_001):
        with pytest.raises(
            BadInput, match=f"rows={rows} cannot be drawn from a table of 50000 rows"
        ):
            load_table("synthfs", rows=rows)


def test_a_subsample_with_one_class_is_refused(home, mirror):
    with pytest.raises(BadInput, match="rows=2 leaves one class of the target 'income'"):
        for seed in range(20):
            load_table("adult", rows=2, seed=seed)


def test_split_loses_and_doubles_nothing():
    schema = Schema((Column("x", "numeric", low=0, high=32561, integer=True),))
    table = Table("t", pd.DataFrame({"x": np.arange(32561)}), schema, "own")
    train, holdout = split(table, seed=1)
    assert (len(train), len(holdout)) == (26_049, 6_512)
    assert np.array_equal(
        np.sort(np.concatenate([train.frame["x"], holdout.frame["x"]])), np.arange(32561)
    )
    assert train.digest == split(table, seed=1)[0].digest != split(table, seed=2)[0].digest
    # a random, not a consecutive part
    assert abs(holdout.frame["x"].mean() - 16280) < 4 * 9400 / np.sqrt(6512)
    for share in (0, 1, 0.00001):
        with pytest.raises(BadInput, match=f"test_share={share}"):
            split(table, seed=1, test_share=share)


def test_own_files_as_csv_and_parquet(tmp_path):
    frame = pd.DataFrame({"id": [7, 8, 9], "x": [0.5, 1.5, 2.5], "y": ["a", "", "b"]})
    schema = (
        '[table]\ntarget = "y"\n[reader]\nempty = "none"\n[[column]]\nname = "id"\nignore = true\n'
        '[[column]]\nname = "x"\nkind = "numeric"\nlow = 0\nhigh = 3\n'
        '[[column]]\nname = "y"\nkind = "categorical"\ncategories = ["a", "b", "none"]\n'
    )
    (tmp_path / "s.toml").write_text(schema)
    frame.to_csv(tmp_path / "own.csv", sep="\t", index=False)
    frame.to_csv(tmp_path / "bare.csv.gz", header=False, index=False)
    (tmp_path / "bare.toml").write_text(schema.replace("[reader]", "[reader]\nheader = false"))
    frame.replace("", None).to_parquet(tmp_path / "own.parquet")
    files = [("own.csv", "s.toml"), ("bare.csv.gz", "bare.toml"), ("own.parquet", "s.toml")]
    loaded = [load_table(tmp_path / file, schema=tmp_path / toml) for file, toml in files]
    assert [table.data for table in loaded] == ["own"] * 3
    assert loaded[0].frame["y"].tolist() == ["a", "none", "b"]
    assert len({table.digest for table in loaded}) == 1
    given = read_form(tmp_path / "s.toml").schema.drop(["y"])
    assert load_table(str(tmp_path / "own.csv"), schema=given).frame["x"].tolist() == [
        0.5,
        1.5,
        2.5,
    ]
    with pytest.raises(
        BadInput,
        match=r"own\.csv: a table of your own needs a declared "
        r"schema.*fedsynth draft",
    ):
        load_table(tmp_path / "own.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (
            b"x,y\n1,a\n2,b,c\n",
            "line 3 has 3 fields, and the lines before it have 2; correct that line",
        ),
        (b"x,y\n9,1,a\n9,2,b\n", "rows have more fields than there are columns"),
        (b"x,y\n1,\xff\xfe\n", r"column 'y' holds .* \(row 1\); .* are not UTF-8 text: save"),
        (b"x,y\n1,a\nlots,b\n", r"column 'x' holds something that is not a number \(row 2\)"),
        (b"x,y\n1,a\n,b\n", r"allows no missing values, .* column 'x' \(1\); give the column"),
        (b"x\n1\n2\n", "column 'y' is missing"),
    ],
)
def test_unreadable_files_are_named(tmp_path, content, message):
    (tmp_path / "own.csv").write_bytes(content)
    schema = Schema(
        (Column("x", "numeric", low=0, high=3), Column("y", "categorical", categories=("a", "b")))
    )
    with pytest.raises(BadInput, match=r"own\.csv: .*" + message):
        load_table(tmp_path / "own.csv", schema=schema)
    for name in ("own.csv.gz", "own.parquet"):
        (tmp_path / name).write_bytes(b"not really")
        with pytest.raises(BadInput, match=name + ": the file cannot be read"):
            load_table(tmp_path / name, schema=schema)


def test_synthfs_clients_differ_and_beta_makes_them_alike():
    near, far = synthfs.generate(seed=0, beta=5.0), synthfs.generate(seed=0, beta=1.0)
    assert far.shape == (50_000, 10)
    assert (far.to_numpy().min(), far.to_numpy().max()) <= (0, 40)
    assert far.equals(synthfs.generate(seed=0, beta=1.0))
    assert not far.equals(synthfs.generate(seed=1, beta=1.0))
    spread = [frame.groupby(synthfs.owners()).mean().std().mean() for frame in (near, far)]
    assert spread[0] < 0.5 < 5 < spread[1]
    # Within a client a column is a rounded normal of deviation 1 (edges are 40/39 apart).
    assert far.groupby(synthfs.owners())["v1"].std().median() == pytest.approx(1.0, abs=0.1)
    with pytest.raises(BadInput, match="beta must be positive"):
        synthfs.generate(seed=0, beta=0)


def test_parts_of_a_table_know_what_they_were_taken_from(mirror):
    whole = load_table("adult", work="maddock2024")
    part = load_table("adult", work="maddock2024", rows=4)
    train, holdout = split(part, seed=0, test_share=0.25)
    assert whole.origin == whole.digest
    for taken in (part, train, holdout):
        assert taken.origin == whole.digest != taken.digest
        taken.expect(whole.digest)
        taken.expect("")
    with pytest.raises(
        BadInput, match="adult: the table is not the one that the grid was made for; build the grid"
    ):
        train.expect(train.digest)
