"""The rooms of the library: which may import which, and how many lines each may hold."""

import ast
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[1] / "fedsynth_lib"
FLOORS = (  # from the ground up: a room imports its own and those before it
    *("core", "tables", "methods", "metrics", "federation", "audit", "runs", "printed"),
    *("figures", "works", "verdicts", "teaching", "deploy", "bundle"),
)

LINES = {  # of Python in each room, at most: ceilings that only come down
    **{"core": 3_245, "tables": 4_985, "methods": 7_780, "metrics": 3_300, "federation": 1_600},
    **{"audit": 1_550, "runs": 1_200, "printed": 950, "figures": 2_350, "works": 4_500},
    **{"verdicts": 3_550, "teaching": 2_500, "deploy": 4_100, "bundle": 4_565},
}


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


@pytest.mark.parametrize("path", sorted((LIBRARY / "verdicts").glob("*.py")), ids=lambda p: p.stem)
def test_verdicts_know_no_protocol(path):
    """They judge rows and print by data/published, whatever made the rows."""
    assert "works" not in imports(path)


def test_every_file_is_in_a_room():
    outside = {path.name for path in LIBRARY.glob("*.py")}
    assert outside == {"__init__.py", "__main__.py"}
    assert {room_of(path) for path in LIBRARY.rglob("*.py")} - outside == set(FLOORS)


@pytest.mark.parametrize("room", FLOORS)
def test_a_room_keeps_to_its_lines(room):
    """A file may be as long as its subject; what must not grow is the whole."""
    paths = (LIBRARY / room).rglob("*.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths) <= LINES[room]
