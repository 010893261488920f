"""The rooms of the library: which may import which."""

import ast
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[1] / "fedsynth_lib"
FLOORS = (  # from the ground up: a room imports its own and those before it
    *("core", "tables", "methods", "metrics", "federation", "audit", "runs", "printed"),
    *("figures", "works", "verdicts", "teaching", "bundle"),
)


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


def test_every_file_is_in_a_room():
    outside = {path.name for path in LIBRARY.glob("*.py")}
    assert outside == {"__init__.py", "__main__.py"}
    assert {room_of(path) for path in LIBRARY.rglob("*.py")} - outside == set(FLOORS)
