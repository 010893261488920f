"""What the runner is asked for: notebooks by number or name, and parameters checked before anything
runs."""

import re
from pathlib import Path

import pytest
from tiny import write

from fedsynth_lib.bundle import notebooks, runner
from fedsynth_lib.bundle.notebooks import (
    BadInput,
    Parameter,
    declared,
    parameters_for,
    read_notebooks,
    read_value,
    select,
)
from fedsynth_lib.runs import rows


@pytest.fixture
def four(home):
    for stem in ("00_start", "01_data", "10_network", "20_question"):
        write(home, stem)
    return read_notebooks(home / "notebooks")


@pytest.mark.parametrize(
    "only, start, stems",
    [
        ((), None, ["00_start", "01_data", "10_network", "20_question"]),
        (("10", "0"), None, ["00_start", "10_network"]),  # numbers, in reading order
        (("1",), None, ["01_data"]),  # not 10
        (
            ("question", "01_data", "notebooks/00_start.ipynb"),
            None,
            ["00_start", "01_data", "20_question"],
        ),
        (("net",), None, ["10_network"]),  # part of a name
        ((), "data", ["01_data", "10_network", "20_question"]),
        (("0", "20"), "10", ["20_question"]),
    ],
)
def test_selection(four, only, start, stems):
    assert [notebook.stem for notebook in select(four, only, start)] == stems


def test_parameters_are_read_with_their_comments():
    source = """profile = "quick"  # one of: smoke, quick, paper; the scale
epsilons: list = [  # above 0
    float("inf"),
    0.5,
]
delta = 1 / 3
first, second = 1, 2
print(1)  # no parameter"""
    found = declared(source)
    assert list(found) == ["profile", "epsilons", "delta"]
    assert found["epsilons"] == Parameter("epsilons", [float("inf"), 0.5], "above 0")
    assert found["profile"].choices == ["smoke", "quick", "paper"]
    assert found["delta"].default is notebooks.ANY


@pytest.mark.parametrize(
    "line, text, value",
    [
        ("p = 7", "3", 3),
        ("p = 1.0", "3", 3),
        ("p = 1.0", "inf", float("inf")),
        ("p = 'a'", "2024", "2024"),
        ("p = 'a'", "'b'", "b"),
        ("p = True", "False", False),
        ("p = [1]", "3", [3]),
        ("p = [1]", "3,4", [3, 4]),
        ("p = [1.5]", "[3, 4.5]", [3, 4.5]),
        ("p = ['adult']", "adult,bank", ["adult", "bank"]),
        ("p = ['adult']  # some of: adult, bank", "[bank]", ["bank"]),
        ("p = None  # some of: adult, bank", "bank", ["bank"]),
        ("p = 3  # None: all", "None", None),
        ("p = 'a'  # one of: a, b", "b", "b"),
        ("p = 1 / 3", "0.5", 0.5),
        ("p = []  # names of the columns to keep; empty: a few", "1", ["1"]),
        ("p = []  # columns that the draft leaves out", "1, 2.5,age", ["1", "2.5", "age"]),
        ("p = []  # any of the work's tables; empty: those of the profile", "adult", ["adult"]),
        ("p = []  # rows of the file", "1", [1]),
    ],
)
def test_values_that_fit(line, text, value):
    got = read_value(text, declared(line)["p"], "nb")
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "line, text, told",
    [
        ("p = 7", "abc", "a whole number"),
        ("p = 7", "1.5", "a whole number"),
        ("p = 7", "True", "a whole number"),
        ("p = 7", "[1, 2]", "a whole number"),
        ("p = 1.0", "True", "a number, for instance 1.0"),
        ("p = 7", "None", "a whole number"),
        ("p = 'a'", "[1]", "a text"),
        ("p = [1]", "a,b", "a list"),
        ("p = True", "1", "True or False"),
        ("p = []  # names of the columns", "[['a'], 'b']", r"a list \(a text each\)"),
        ("p = [[50, 100]]  # rows", "[50, 100]", "a list"),
        (
            "p = 'a'  # one of: adult, bank",
            "adlt",
            "the closest is 'adult'; choose from adult, bank",
        ),
        ("p = ['a']  # some of: adult, bank", "adult,nothing", "does not know 'nothing'"),
        ("p = [2]  # at least 2; clients", "3,1", "cannot work with 1; give a value at least 2"),
        ("p = 1.0  # above 0, at most 10", "0", "above 0"),
        ("p = 1.0  # above 0, at most 10", "11", "at most 10"),
    ],
)
def test_values_that_do_not_fit(line, text, told):
    with pytest.raises(BadInput, match=told) as error:
        read_value(text, declared(line)["p"], "nb")
    assert str(error.value).startswith("-p p") and "\n" not in str(error.value)


PATH = "schema = ''  # path of the declared schema; empty: the .toml file beside the table"


def test_a_path_is_meant_from_where_the_user_stands(tmp_path, monkeypatch):
    """A notebook runs in a folder of its own, and a link stays a link."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "own.toml").write_text("")
    (tmp_path / "deep" / "link.toml").symlink_to(tmp_path / "own.toml")
    monkeypatch.chdir(tmp_path / "deep")
    monkeypatch.setenv("HOME", str(tmp_path))
    schema = declared(PATH)["schema"]
    table = declared("table = 'example'  # one of: example, a path")["table"]
    datasets = declared("datasets = ['adult']  # some of: adult, bank, or a path")["datasets"]
    assert read_value("../own.toml,adult", datasets, "nb") == [
        f"{tmp_path}/deep/../own.toml",
        "adult",
    ]
    for parameter in (schema, table):
        found = [read_value(text, parameter, "nb") for text in ("../own.toml", "~/own.toml")]
        assert [Path(each).resolve() for each in found] == [tmp_path / "own.toml"] * 2
        assert all(Path(each).is_absolute() for each in found)
        assert read_value("link.toml", parameter, "nb") == str(tmp_path / "deep" / "link.toml")
    assert read_value("", schema, "nb") == ""
    for parameter, text in ((schema, "no"), (table, "no.csv"), (table, "~/x"), (table, "./")):
        told = "this is a folder" if text == "./" else "there is no such file"
        with pytest.raises(BadInput, match=f"^-p {parameter.name}: .*{told}; check the path"):
            read_value(text, parameter, "nb")
    with pytest.raises(BadInput, match="does not know 'exmple', the closest is 'example'"):
        read_value("exmple", table, "nb")


@pytest.mark.parametrize("text", ["4294967296", "20240101123000", "-1"])
def test_a_seed_that_no_generator_takes_is_refused(text):
    seed = declared("seed = 0")["seed"]
    with pytest.raises(BadInput, match=rf"-p seed: nb: seed is {text}: .* 0 to 4294967295"):
        read_value(text, seed, "nb")
    assert read_value("4294967295", seed, "nb") == 2**32 - 1


@pytest.mark.parametrize("text", ["0", "-1", "much", "nan"])
def test_a_budget_that_is_none_is_refused(text):
    for line in ("epsilon = 1.0  # above 0", "epsilons = [1.0]"):
        (parameter,) = declared(line).values()
        with pytest.raises(BadInput, match=r"epsilon is .*: give a positive number\.$"):
            read_value(text, parameter, "nb")


def test_a_parameter_goes_to_every_notebook_that_has_it(home):
    write(home, "00_a", parameters="seed = 1")
    write(home, "01_b", parameters="seed = 1\nepsilon = 1.0")
    chosen = read_notebooks(home / "notebooks")
    assert parameters_for(chosen, ["seed=3", "epsilon=2.5"]) == {
        "00_a": {"seed": 3},
        "01_b": {"seed": 3, "epsilon": 2.5},
    }


def test_notebooks_are_named_with_commas_or_spaces_between():
    for words in (["00", "02"], ["00,02"], ["00", "--only", "02"]):
        assert ",".join(runner.parse(["--only", *words, "-p", "seed=3"]).only) == "00,02"


@pytest.mark.parametrize(
    "options, told",
    [
        (["--profle", "smoke"], "unrecognized arguments: --profle"),
        (["--profile", "big"], "invalid choice: 'big'"),
        (["--jobs", "0"], "--jobs is 0: give 1 or more"),
        (["--only", "33"], "there is no notebook '33'"),
        (["--only", "00", "33"], "there is no notebook '33'"),
        (["--from", "10_netwrok"], "the closest is '10_network'"),
        (["--only", "0", "--from", "20"], "leave out --only or --from"),
        (["-p", "sed=3"], "no.* parameter 'sed', the closest is 'seed'"),
        (["-p", "seed=x"], "-p seed=x: 00_start takes a whole number, for instance 7"),
        (["-p", "seed"], "write -p name=value"),
        (["-p", "profile=smoke"], "use --profile smoke"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_before_anything_runs(
    four, home, capsys, options, told
):
    assert runner.main(options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("run_all.sh: ")
    assert re.search(told, error)
    assert not (home / "figures").exists()


def test_a_file_that_is_no_notebook_is_named(home):
    write(home, "00_start")
    (home / "notebooks" / "01_half.ipynb").write_text('{"cells": [')
    with pytest.raises(BadInput, match=r"01_half\.ipynb is not a notebook"):
        read_notebooks(home / "notebooks")


def test_the_profiles_are_those_of_the_rows():
    assert tuple(runner.PROFILES) == tuple(rows.PROFILES)


def test_any_of_the_works_tables_are_those_of_the_work_that_the_notebook_loads(home):
    loads = (
        "from fedsynth_lib import works\ngrid = works.load('leitner2023').grid('fig5.3', 'paper')"
    )
    write(home, "00_a", loads, parameters="datasets = []  # any of the work's tables")
    write(home, "01_b", loads, parameters="datasets = ['adult']  # some of the work's tables")
    opens = "import fedsynth_lib as fs\nfs.open_exhibit('leitner2023', 'fig5.3', 'paper')"
    write(home, "02_c", opens, parameters="datasets = []  # any of the work's tables")
    chosen = read_notebooks(home / "notebooks")
    assert {each.grids for each in chosen} == {("31_leitner2023_runs",)}
    values = parameters_for(chosen, ["datasets=adult,cardio"])
    assert all(values[each.stem]["datasets"] == ["adult", "cardio"] for each in chosen)
    for each in chosen:
        told = r"does not know 'nosuch'; choose from adult, bank.*; or add .* fedsynth_lib/works/, and a section .*\.$"
        with pytest.raises(BadInput, match=told):
            parameters_for([each], ["datasets=nosuch"])
