"""A digest of the code that a measurement rests on, so that one of other code is not taken for it.

Modules are followed by their imports. What is digested is the program, not the file: comments,
docstrings and layout have no part in it, and every supported Python comes to the same digest.
"""

import ast
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

PACKAGE = __package__.partition(".")[0]
ROOT = Path(__file__).parents[1]


def closure(modules: Iterable[str], follow: Callable[[str], bool]) -> list[str]:
    """Return these modules and all those of the bundle that they import and `follow` admits.

    The names are sorted.
    """
    found, left = set(), [name for name in modules if _path(name)]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += [each for each in _read(name)[1] if follow(each)]
    return sorted(found)


def digest(modules: Iterable[str], *more: str) -> str:
    """Return a digest of the programs of these modules and of further text.

    It has 16 hexadecimal digits.
    """
    parts = [f"{name}\n{_read(name)[0]}" for name in modules]
    return hashlib.sha256("\n".join([*parts, *more]).encode()).hexdigest()[:16]


def _path(module: str) -> Path | None:
    parts = module.split(".")
    if parts[0] != PACKAGE:
        return None
    base = ROOT.joinpath(*parts[1:])
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


@cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """Return a digest of a module's program, and the modules of the bundle that it imports.

    Imports inside functions count as well as those at the head of the file.
    """
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    text = hashlib.sha256(program(tree).encode()).hexdigest()
    return text, tuple(sorted(name for name in imported if _path(name)))


def program(node: ast.AST) -> str:
    """Write a syntax tree as text, without docstrings, places and what is empty."""
    fields = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list) and _is_text(value[:1]):
            value = value[1:]
        if isinstance(value, list):
            shown = ",".join(program(v) if isinstance(v, ast.AST) else repr(v) for v in value)
        else:
            shown = program(value) if isinstance(value, ast.AST) else repr(value)
        if shown not in ("", "None"):
            fields.append(f"{name}={shown}")
    return f"{type(node).__name__}({' '.join(fields)})"


def _is_text(body: list) -> bool:
    return bool(body) and (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
