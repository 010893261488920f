"""Numbers of ours in prose come from rows: the mechanism, and that today's prose says what today's
rows say."""

import json
import shutil

import nbformat
import pandas as pd
import pytest

from fedsynth_lib.bundle import facts
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root

ROWS = pd.DataFrame(
    {
        "dataset": ["adult", "adult", "bank"],
        "method": ["AIM", "AugFLAIM", "AIM"],
        "mark": ["=", "↕", ""],
        "value 1": [0.254, 0.5, 3.0],
    }
)


@pytest.fixture
def home(tmp_path):
    """A small bundle: one table of rows, one README, one notebook; `home.state(...)` writes the
    facts."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def rows(frame):
        write("figures/tab.csv", frame.to_csv(index=False))

    def state(name="aim", **entries):
        entries = {"from": "figures/tab.csv", "format": ".2f"} | entries
        lines = "\n".join(
            f"{key} = {json.dumps(entry)}" for key, entry in entries.items() if entry is not None
        )
        return write(f"data/published/facts/{name}.toml", f"[{name}]\n{lines}\n")

    rows(ROWS)
    write("README.md", "Error <!--=aim-->?<!--/--> here.\n")
    tmp_path.mkdir(exist_ok=True)
    facts_home = type(
        "Home", (), {"path": tmp_path, "write": staticmethod(write), "rows": staticmethod(rows)}
    )
    facts_home.state = staticmethod(state)
    return facts_home


def value(home, name="aim"):
    return facts.Values(facts.load_facts(home.path), home.path)[name]


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ({"where": "dataset == 'adult' and method == 'AIM'", "column": "value 1"}, "0.25"),
        ({"where": "`value 1` < 0.3", "column": "value 1", "format": ".0%"}, "25%"),
        ({"where": "dataset == 'adult'", "column": "value 1", "reduce": "mean"}, "0.38"),
        ({"column": "value 1", "reduce": "max", "format": "g"}, "3"),
        ({"column": "abs(`value 1` - 1)", "reduce": "max", "format": "g"}, "2"),
        ({"reduce": "count", "format": "d"}, "3"),
        ({"where": "dataset == 'adult'", "reduce": "count", "format": "d"}, "2"),
        ({"from": None, "value": 6, "why": "a stopwatch", "format": "d"}, "6"),
    ],
)
def test_a_fact_is_read_reduced_and_formatted(home, entries, found):
    home.state(**entries)
    assert value(home) == found


def test_a_fact_can_be_of_several_files_and_of_numbers_before_they_are_rounded(home):
    home.write("figures/tab2.csv", ROWS.assign(**{"value 1": [1.0, 2.0, 9.0]}).to_csv(index=False))
    both = {"from": "figures/tab*.csv", "where": "dataset == 'adult'", "column": "value 1"}
    home.state("all", **both, reduce="sum")
    assert value(home, "all") == "3.75"  # 0.254 + 0.5 + 1 + 2
    home.state("less", **both | {"from": "figures/tab.csv"}, reduce="percent below", format=".1f")
    assert value(home, "less") == "-96.9"  # 100 * (1 - 0.5 / 0.254); -100 of the rounded ones


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"where": "dataset == 'cardio'", "column": "value 1"}, "selects no row"),
        ({"where": "dataset == 'adult'", "column": "value 1"}, "selects 2 rows"),
        ({"where": "method == 'AugFLAIM'", "column": "valeu"}, "no column 'valeu'"),
        ({"where": "dataste == 'adult'", "column": "value 1"}, "cannot be asked"),
        ({"where": "method == 'AugFLAIM'", "column": "mark"}, "cannot be written"),
        ({"from": "figures/none.csv", "column": "value 1"}, "is not there"),
        ({"from": "figures/quick-standin/tab.csv", "column": "value 1"}, "is not a CSV"),
        ({"from": "../elsewhere.csv", "column": "value 1"}, "is not a CSV"),
        ({"column": "value 1", "reduce": "mode"}, "not a reduction"),
        (
            {"where": "dataset == 'bank'", "column": "(`value 1` - 3) / (`value 1` - 3)"},
            "is missing there",
        ),
        ({"from": None}, "exactly one of"),
        ({"from": None, "value": 6}, "needs `why`"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_bad_fact_gets_one_sentence(home, entries, said):
    home.state(**entries)
    with pytest.raises(BadInput, match=said) as caught:
        facts.refresh(home.path)
    assert "aim" in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_name_a_doubled_one_and_an_open_marker_are_refused(home):
    home.state("other", column="value 1", reduce="max")
    with pytest.raises(BadInput, match=r"README\.md: there is no fact 'aim'"):
        facts.refresh(home.path)
    home.write("data/published/facts/more.toml", '[other]\nvalue = 1\nwhy = "x"\n')
    with pytest.raises(BadInput, match=r"is in more\.toml already"):
        facts.refresh(home.path)
    home.write("data/published/facts/more.toml", "")
    home.write("README.md", "<!--=other-->3.00\n<!--/-->")
    with pytest.raises(BadInput, match="not closed"):
        facts.refresh(home.path)


def test_a_text_is_filled_once_and_then_stays(home):
    home.state(where="method == 'AugFLAIM'", column="value 1")
    cell = nbformat.v4.new_markdown_cell(
        'A "quote", <!--=aim-->?<!--/--> and **<!--=aim-->0.9<!--/-->**', id="c1"
    )
    path = home.path / "notebooks" / "20_a.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    changed = facts.refresh(home.path)
    assert [(each.file, each.said, each.found) for each in changed] == [
        ("README.md", "?", "0.50"),
        ("notebooks/20_a.ipynb", "?", "0.50"),
        ("notebooks/20_a.ipynb", "0.9", "0.50"),
    ]
    assert (home.path / "README.md").read_text() == "Error <!--=aim-->0.50<!--/--> here.\n"
    source = nbformat.read(path, as_version=4).cells[0].source
    assert source == 'A "quote", <!--=aim-->0.50<!--/--> and **<!--=aim-->0.50<!--/-->**'
    assert facts.refresh(home.path) == []


def test_what_goes_into_a_notebook_is_escaped(home):
    home.state(**{"from": None}, value='a "b"', why="to be escaped", format="s")
    cell = nbformat.v4.new_markdown_cell("<!--=aim-->?<!--/-->", id="c1")
    path = home.path / "notebooks" / "20_a.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    facts.refresh(home.path)
    assert nbformat.read(path, as_version=4).cells[0].source == '<!--=aim-->a "b"<!--/-->'
    assert facts.refresh(home.path) == []


def test_a_changed_row_fails_the_check_until_the_text_follows(home, monkeypatch, capsys):
    monkeypatch.setenv("FEDSYNTH_HOME", str(home.path))
    home.state(where="method == 'AugFLAIM'", column="value 1")
    assert facts.main() == 0 and facts.main(check=True) == 0
    home.rows(ROWS.assign(**{"value 1": [0.254, 0.77, 3.0]}))
    capsys.readouterr()
    assert facts.main(check=True) == 1
    assert "README.md: aim says '0.50', the rows say '0.77'" in capsys.readouterr().out
    assert "0.50" in (home.path / "README.md").read_text()  # --check writes nothing
    assert facts.main() == 0 and facts.main(check=True) == 0
    assert "0.77" in (home.path / "README.md").read_text()


def test_a_table_takes_the_place_of_the_one_with_its_head_and_no_other():
    other = "| a | c |\n| - | - |\n| 1 | 2 |\n"
    text = f"{other}\n| a | b |\n| - | - |\n| 1 | 2 |\n| 3 | 4 |\n\n- | no line of it\n"
    table = "| a | b |\n| - | - |\n| 5 | 6 |"
    new = facts.put_table(text, table)
    assert new == f"{other}\n{table}\n\n- | no line of it\n"
    assert facts.put_table(new, table) == new
    with pytest.raises(BadInput, match=r"README\.md has no table"):
        facts.put_table("nothing here", table)


@pytest.mark.slow
def test_todays_prose_says_what_todays_rows_say():
    """Run `./run_all.sh facts` after results have changed."""
    assert [str(change) for change in facts.refresh(write=False)] == []


def test_every_fact_is_told_somewhere():
    texts = [path.read_text(encoding="utf-8") for path in facts.texts()]
    told = {marker["name"] for text in texts for marker in facts.MARKER.finditer(text)}
    assert set(facts.load_facts()) - told == set()


@pytest.mark.slow
def test_a_changed_row_of_ours_is_seen_in_the_text_that_tells_it(tmp_path):
    """The same on the bundle itself: a fact of README.md, with the row it comes from changed in a
    copy."""
    known, root = facts.load_facts(), project_root()
    told = [
        marker["name"]
        for marker in facts.MARKER.finditer((root / "README.md").read_text(encoding="utf-8"))
    ]
    fact = next(known[name] for name in told if known[name].source and not known[name].reduce)
    for folder in ("figures", "data/results", "data/published"):
        shutil.copytree(
            root / folder,
            tmp_path / folder,
            ignore=shutil.ignore_patterns("*.png", "*.tex", "*.pdf"),
        )
    shutil.copy(root / "README.md", tmp_path)
    assert facts.refresh(tmp_path, write=False) == []
    table = pd.read_csv(tmp_path / fact.source)
    place = table.query(fact.where, engine="python").index
    table.loc[place, fact.column] = 9876.5
    table.to_csv(tmp_path / fact.source, index=False)
    changes = facts.refresh(tmp_path, write=False)
    assert ("README.md", fact.name) in {(change.file, change.fact) for change in changes}
    assert all("9876" in change.found for change in changes if change.fact == fact.name)
