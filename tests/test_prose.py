"""Decimals in prose: each is a fact from rows, an address, a setting, what a work prints, or listed
with its reason.

The rule stands in CONTRIBUTING.md, "Numbers in prose"; the list is data/published/facts/typed.toml.
"""

import ast
import re
import tomllib
from pathlib import Path

import nbformat
import pytest
from typed_numbers import typed_decimals

from fedsynth_lib.bundle import facts
from fedsynth_lib.core.store import project_root

ROOT = project_root()
LIST = tomllib.loads((ROOT / facts.FOLDER / "typed.toml").read_text(encoding="utf-8"))
NOTEBOOKS = [
    path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if re.match("[2-7]", path.name)
]
FILES = {path.relative_to(ROOT).as_posix(): path for path in [ROOT / "README.md", *NOTEBOOKS]}


def prose(path: Path) -> str:
    """The text that a reader reads: a Markdown file, or the Markdown cells of a notebook."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("name", FILES)
def test_no_number_of_ours_is_typed(name):
    """Make it a fact (CONTRIBUTING.md), or list it in typed.toml with its reason."""
    assert [
        number for number in typed_decimals(prose(FILES[name])) if number not in LIST.get(name, {})
    ] == []


# words of six capitals and more that a text may have; others are placeholders left behind
CAPITALS = {"README", "CONTRIBUTING", "CITATION", "DOMIAS", "SIGMOD", "USENIX", "NVIDIA", "FENRIS"}
CODE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$", re.DOTALL)


def placeholders(text: str) -> list[str]:
    words = re.findall(r"\b[A-Z][A-Z_]{5,}\b|\b(?:TODO|FIXME|XXX+)\b", CODE.sub("", text))
    return [word for word in words if word not in CAPITALS]


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("data/published/*.md"), *ROOT.glob("notebooks/*.ipynb")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_placeholder_is_left_in_a_text(path):
    assert placeholders(prose(path)) == []


def test_a_placeholder_is_found_and_code_is_none():
    assert placeholders("Of RUNSOFAR cells; TODO. `MARKS_EXPLAINED`, USENIX") == [
        "RUNSOFAR",
        "TODO",
    ]


@pytest.mark.parametrize("name", LIST)
def test_what_is_listed_is_there_and_has_a_reason(name):
    assert set(LIST[name]) <= set(typed_decimals(prose(FILES[name])))
    assert all(len(reason) > 5 for reason in LIST[name].values())


@pytest.mark.parametrize(
    "text",
    [
        "table 6.1 and figures 5.7, 5.8",
        "Sections 3.5.2 and 3.5.3 of the work",
        "version 1.2.2",
        "at an epsilon of 1.6, a learning rate 0.001 and β = 0.1",
        "with epsilons (0.2, 1, 5, 10)",
        "printed 0.72 / 0.64 / 0.41",
        "(printed: 0.72 ± 0.02)",
        "(published 0.41 and 0.44)",
        "its table prints 0.0125 and 0.0067",
        "print has 0.38",
        "`rate=0.3`, $x = 0.5$, $$y\n= 0.5$$, [here](a/0.5.png)",
        "```\n0.5\n```",
        "<!--=fact-->0.5<!--/-->",
        "all 64 of 180, 20 percent",
    ],
)
def test_decimals_that_may_stand(text):
    assert typed_decimals(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.064 bits from print", ["0.064"]),
        ("from print by 0.06", ["0.06"]),
        ("the printed order: 0.79 bits alone", ["0.79"]),
        ("the published order: 0.79 bits alone", ["0.79"]),
        ("ours 0.77 / 0.71 (printed 0.72 / 0.64)", ["0.77", "0.71"]),
        ("it goes from\n-0.5 to 12.25.", ["0.5", "12.25"]),
        ("| 0.50 | 3 |", ["0.50"]),
        ("an AUC of 0.69 at ε = 1", ["0.69"]),
    ],
)
def test_decimals_that_are_found(text, found):
    assert typed_decimals(text) == found


# home-made words and what the field says; not in text of fixed versions (audited code, statements)
BANNED = {
    "anew": "again",
    "cannot tell": "undecided",
    "comes out as": "reproduces",
    "held against": "compared with",
    "hold against": "compare with",
    "in one hand": "centralised",
    "is no number": "is not a number",
    "told apart": "distinguished",
}
MESSAGES = [
    path
    for room in ("bundle", "figures", "metrics", "printed", "release", "verdicts")
    for path in (ROOT / "fedsynth_lib" / room).glob("*.py")
]


@pytest.mark.parametrize("path", [*PAGES, *MESSAGES], ids=lambda path: path.name)
def test_no_home_made_word_comes_back(path):
    """Write what BANNED has beside the word."""
    if path.suffix == ".py":
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        values = (node.value for node in nodes if isinstance(node, ast.Constant))
        text = "\n\n".join(value for value in values if isinstance(value, str))
    else:
        text = prose(path)
    text = " ".join(CODE.sub("", text).split()).lower()
    assert [word for word in BANNED if re.search(rf"\b{word}\b", text)] == []
