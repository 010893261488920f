"""The rooms of the library: which may import which."""

import ast
import json
import re
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[1] / "fedsynth_lib"
WINGS = {  # and their rooms, from the ground up: a room imports its own and those before it
    "the library of the notebooks": (
        *("core", "tables", "methods", "metrics", "federation", "audit", "runs", "printed"),
        *("figures", "works", "verdicts", "teaching"),
    ),
    "what a person does with rows of their own": ("release",),
    "the machinery of the bundle": ("bundle",),
}
FLOORS = tuple(room for rooms in WINGS.values() for room in rooms)
NOTEBOOKS = sorted((LIBRARY.parent / "notebooks").glob("[2-7]*.ipynb"))


def imports(path: Path) -> set[str]:
    """The rooms that a file imports, early or late."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    parts = [module.split(".") for module in modules]
    return {
        part[1] for part in parts if part[0] == LIBRARY.name and len(part) > 1 and part[1] in FLOORS
    }


def room_of(path: Path) -> str:
    return path.relative_to(LIBRARY).parts[0]


@pytest.mark.parametrize("path", sorted(LIBRARY.rglob("*.py")), ids=lambda path: path.stem)
def test_arrows_go_down(path):
    room = room_of(path)
    if room in FLOORS:
        above = FLOORS[FLOORS.index(room) + 1 :]
        assert not imports(path) & set(above), f"{room} stands below these"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_chapters_need_the_library_alone(path):
    """Papers are reproduced without what serves people's own rows or runs the bundle."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert not re.findall(r"fedsynth_lib[. ](?:import )?(release|bundle)\b", code)


@pytest.mark.parametrize("path", sorted((LIBRARY / "verdicts").glob("*.py")), ids=lambda p: p.stem)
def test_verdicts_know_no_protocol(path):
    """They judge rows and print by data/published, whatever made the rows."""
    assert "works" not in imports(path)


WORK = re.compile(r"martinez|leitner|maddock|sattarov|apell[aá]niz", re.IGNORECASE)
# what only one work needs
OF_WORKS = {"verdicts/custom"}


def named_works(path: Path) -> list[str]:
    """Names and texts in the code of a file that name a work; sources in docstrings and comments
    are none."""
    tree, found, docstrings = ast.parse(path.read_text(encoding="utf-8")), [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.append(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings:
            found.append(str(node.value))
        for attribute in ("id", "attr", "name", "arg", "module"):
            found.append(str(getattr(node, attribute, "")))
    return [text for text in found if WORK.search(text)]


def without_works(*rooms: str) -> list[Path]:
    paths = [path for room in rooms for path in sorted((LIBRARY / room).rglob("*.py"))]
    names = {path: path.relative_to(LIBRARY).as_posix() for path in paths}
    return [path for path in paths if not names[path].startswith(tuple(OF_WORKS))]


@pytest.mark.parametrize(
    "path", without_works("core", "tables", "methods", "metrics"), ids=lambda path: path.stem
)
def test_machinery_knows_no_work(path):
    """It may cite one as its source."""
    assert not named_works(path)


@pytest.mark.parametrize(
    "path", without_works("runs", "figures", "verdicts"), ids=lambda path: path.stem
)
def test_vocabularies_name_no_work(path):
    """Not even in what they say of themselves: a sixth work needs no line of theirs."""
    assert not WORK.search(path.read_text(encoding="utf-8"))


def test_a_name_of_a_work_in_code_is_found_and_a_cited_source_is_not(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        'def of_leitner():\n    """As maddock2024 has it."""\n    return "sattarov2024"\n'
    )
    assert named_works(path) == ["of_leitner", "sattarov2024"]


def test_every_file_is_in_a_room():
    outside = {path.name for path in LIBRARY.glob("*.py")}
    assert outside == {"__init__.py", "__main__.py"}
    assert {room_of(path) for path in LIBRARY.rglob("*.py")} - outside == set(FLOORS)
