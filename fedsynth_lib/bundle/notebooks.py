"""The notebooks as the runner sees them: what they need, and which parameters they take.

Reads the files as they are and imports nothing but the standard library, so that a mistyped option
is noticed before an environment is made.
"""

import ast
import io
import json
import operator
import re
import tokenize
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedsynth_lib.core.errors import (
    BadInput,
    checked_epsilon,
    checked_name,
    checked_seed,
    closest,
)
from fedsynth_lib.core.store import as_path, existing_file

BOUNDS = {
    "at least": operator.ge,
    "at most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
}
RUNNER_SETS = {"profile": "--profile", "jobs": "--jobs"}
ANY = object()  # the default of a parameter that is computed
# how a notebook says which grids it runs
LOADS = re.compile(
    r"""\b(?:works\.load|load_work|open_exhibit)\(\s*["'](\w+)["'](?:,\s*["']([^"']+)["'])?"""
)
ASKS = re.compile(r"""\.grid\(\s*["']([^"']+)["']""")
RUNS = re.compile(r"""\brun_grid\([^#]*?\bname=["'](\w+)["']""")
COMMENT = re.compile(r"^\s*#.*", re.MULTILINE)
INFINITY = re.compile(r"""float\(["']inf["']\)|(?<!["'\w.])inf(?!["'\w.])""")


@dataclass(frozen=True)
class Parameter:
    """One line of a `parameters` cell: `epsilons = [1.0, 10.0]  # above 0`."""

    name: str
    default: Any
    comment: str = ""
    tables: tuple[str, ...] = ()  # of the works that its notebook loads

    @property
    def choices(self) -> list[str]:
        """Return what a comment lists: `one of: a, b`, `some of: a, b`, or the work's tables.

        Empty where it lists nothing.
        """
        if re.search(r"\b(?:any|some) of the work's\b", self.comment):
            return [*self.tables]
        found = re.search(r"\b(?:one|some) of:\s*([^;]+)", self.comment)
        words = re.split(r",|\bor\b", found[1]) if found else []
        return [word.strip().strip("'\"") for word in words if word.strip()]

    @property
    def is_path(self) -> bool:
        """Whether its comment says `path of ...`: a file, or an empty text for none."""
        return self.comment.startswith("path of")

    @property
    def many(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.default, list | tuple) or "some of:" in self.comment

    @property
    def names(self) -> bool:
        """Whether it is an empty list into which names come, which may look like numbers.

        Its comment says `names of columns`, `columns that ...` or `any of the work's tables`.
        """
        return self.default == [] and bool(re.match(r"names|columns|any of", self.comment))


@dataclass(frozen=True)
class Notebook:
    """A notebook and what its metadata["fedsynth"] says."""

    path: Path
    title: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    exhibits: tuple[str, ...] = ()
    minutes: Mapping[str, float] = field(default_factory=dict)  # to compute everything, by profile
    regenerate: float | None = None  # minutes where the rows of its grids are there
    needs: tuple[str, ...] = ()
    grids: tuple[str, ...] = ()  # names under which its grids keep their cells
    code: tuple[str, ...] = field(default=(), repr=False)  # its code cells

    @property
    def stem(self) -> str:
        """Return the name without its ending."""
        return self.path.stem


def read_notebooks(folder: Path) -> list[Notebook]:
    """Read the numbered notebooks of the folder, in reading order."""
    found = [read_notebook(path) for path in sorted(folder.glob("[0-9]*.ipynb"))]
    if not found:
        raise BadInput(f"there is no notebook in {folder}: fetch the project again.")
    return found


def read_notebook(path: Path) -> Notebook:
    """Read what the runner must know of one notebook; BadInput where the file is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        cells = [
            (cell["cell_type"], "".join(cell["source"]), cell.get("metadata", {}))
            for cell in content["cells"]
        ]
        facts = content.get("metadata", {}).get("fedsynth", {})
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path} is not a notebook that can be read ({error!r}): fetch it again."
        ) from error
    titles = re.findall(r"^# (.*)", "\n".join(text for _, text, _ in cells), re.MULTILINE)
    code = [text for kind, text, _ in cells if kind == "code"]
    tagged = [text for _, text, metadata in cells if "parameters" in metadata.get("tags", [])]
    try:
        parameters = declared("".join(tagged[:1]))
    except (SyntaxError, tokenize.TokenError) as error:
        raise BadInput(
            f"{path}: the `parameters` cell is not valid Python ({error}): correct it."
        ) from error
    grids, tables = _grids_and_tables("\n".join(code))
    return Notebook(
        path,
        titles[0] if titles else path.stem,
        {name: replace(each, tables=tables) for name, each in parameters.items()},
        exhibits=tuple(facts.get("exhibits", ())),
        minutes=facts.get("minutes", {}),
        regenerate=facts.get("regenerate"),
        needs=tuple(facts.get("needs", ())),
        grids=grids,
        code=tuple(code),
    )


def _grids_and_tables(code: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a notebook's grids, one for each call, and the tables of its works.

    The grids are those that its calls of `run_grid` name, and those of the works that it loads
    whose exhibits it opens or asks for. Works are read here, for the runner needs no more of the
    library.
    """
    code = COMMENT.sub("", code)
    loaded = LOADS.findall(code)
    exhibits = [exhibit for _, exhibit in loaded] + ASKS.findall(code)
    grids, tables = RUNS.findall(code), []
    for work in dict.fromkeys(work for work, _ in loaded):
        document = _document(work)
        known = document.get("grids", {})
        grids += [known[exhibit]["name"] for exhibit in exhibits if exhibit in known]
        for part in (document, *known.values()):
            tables += part.get("tables", ())
    return tuple(grids), tuple(dict.fromkeys(tables))


@cache
def _document(work: str) -> dict[str, Any]:
    path = Path(__file__).parents[1] / "works" / f"{work}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def declared(source: str) -> dict[str, Parameter]:
    """Read the parameters that a cell assigns, each with its default and its comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    parameters = {}
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        default = _literal(ast.unparse(value), otherwise=ANY)
        comment = " ".join(
            comments[line] for line in range(node.lineno, node.end_lineno + 1) if line in comments
        )
        parameters[name] = Parameter(name, default, comment)
    return parameters


# --- choosing ------------------------------------------------------------------------------------


def select(
    notebooks: list[Notebook], only: Iterable[str] = (), start: str | None = None
) -> list[Notebook]:
    """Choose the notebooks that --only names, all where it names none, and from --from on.

    They are in reading order.
    """
    named = [notebook for token in only for notebook in _matching(notebooks, token)]
    chosen = [notebook for notebook in notebooks if not named or notebook in named]
    if start is not None:
        first = _matching(notebooks, start)[0]
        chosen = [notebook for notebook in chosen if notebook.stem >= first.stem]
        if not chosen:
            raise BadInput(
                f"--only names no notebook from {first.stem} on: leave out --only or --from."
            )
    return chosen


def _matching(notebooks: list[Notebook], token: str) -> list[Notebook]:
    """Find the notebooks with this number or name, with or without the number.

    Where there are none: those with this part of a name.
    """
    name = Path(token).name.removesuffix(".ipynb")
    found = []
    for each in notebooks:
        number, _, words = each.stem.partition("_")
        same_number = name.isdigit() and name.lstrip("0") == number.lstrip("0")
        if name in (each.stem, words) or same_number:
            found.append(each)
    if not found and name and not name.isdigit():
        found = [each for each in notebooks if name in each.stem]
    if not found:
        near = closest(name, [each.stem for each in notebooks])
        raise BadInput(f"there is no notebook {token!r}{near}: see --list.")
    return found


# --- parameters ----------------------------------------------------------------------------------


def parameters_for(notebooks: list[Notebook], given: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Read texts `name=value`: stem -> parameter -> value.

    Each goes to every notebook that has the parameter.

    BadInput for a name that none of the notebooks has, or a value that one of them cannot take.
    """
    values: dict[str, dict[str, Any]] = {notebook.stem: {} for notebook in notebooks}
    known = {name for notebook in notebooks for name in notebook.parameters}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            raise BadInput(f"-p {text!r} has no value: write -p name=value.")
        if name in RUNNER_SETS:
            raise BadInput(f"-p {text} is not how it is set: use {RUNNER_SETS[name]} {value}.")
        if name not in known:
            raise BadInput(
                f"none of the chosen notebooks has a parameter {name!r}{closest(name, known)}."
            )
        for notebook in notebooks:
            if name in notebook.parameters:
                values[notebook.stem][name] = read_value(
                    value.strip(), notebook.parameters[name], notebook.stem
                )
    return values


def read_value(text: str, parameter: Parameter, where: str) -> Any:
    """Read the value of a text, checked against the parameter's default and comment."""
    value = _literal(text)
    if parameter.many and not isinstance(value, list | tuple):
        value = (
            [_literal(part.strip()) for part in text.strip("[]() ").split(",")]
            if isinstance(value, str)
            else [value]
        )
    elif isinstance(parameter.default, str) and not isinstance(value, str | list | tuple):
        value = text  # a text such as 2024 needs no quotes
    value = list(value) if isinstance(value, tuple) else value
    if parameter.names and not any(isinstance(item, list | tuple | dict) for item in value):
        value = [str(item) for item in value]
    elif parameter.names:
        raise BadInput(f"-p {parameter.name}={text}: {where} takes a list (a text each).")
    if parameter.name in ("epsilon", "epsilons"):
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                checked_epsilon(item, f"-p {parameter.name}: {where}: epsilon")
    if not _fits(value, parameter):
        example = (
            "" if parameter.default in (ANY, None) else f", for instance {parameter.default!r}"
        )
        raise BadInput(
            f"-p {parameter.name}={text}: {where} takes {_kind(parameter.default)}{example}."
        )
    checked = [
        _checked(item, parameter, where) for item in (value if isinstance(value, list) else [value])
    ]
    return checked if isinstance(value, list) else checked[0]


def _literal(text: str, otherwise: Any = None) -> Any:
    """Read a literal, in which `inf` and `float("inf")` are numbers.

    Returns `otherwise`, or the text itself, for what is none.
    """
    try:
        return ast.literal_eval(INFINITY.sub("1e999", text))
    except (ValueError, SyntaxError):
        return text if otherwise is None else otherwise


def _fits(value: Any, parameter: Parameter) -> bool:
    """Whether a value is of the default's type.

    A whole number may stand for a number, None only where the comment says so.
    """
    default = parameter.default
    if default is ANY or default is None or (value is None and "None" in parameter.comment):
        return True
    if isinstance(default, list | tuple):
        items = [Parameter(parameter.name, item, parameter.comment) for item in default]
        return isinstance(value, list) and all(
            not items or any(_fits(each, item) for item in items) for each in value
        )
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


def _kind(default: Any) -> str:
    if isinstance(default, list | tuple):
        return f"a list ({_kind(default[0])} each)" if default else "a list"
    names = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    return names.get(type(default), "another value")


def _looks_like_path(text: str) -> bool:
    return bool(re.search(r"[/\\~]|\.\w+$", text))


def _checked(value: Any, parameter: Parameter, where: str) -> Any:
    """Return the value; BadInput where the parameter's comment rules it out.

    The path of a file is made absolute, as a notebook runs in a folder of its own.
    """
    choices = parameter.choices
    if parameter.is_path and value:
        return str(existing_file(value, f"-p {parameter.name}"))
    if parameter.name == "seed":
        checked_seed(value, f"-p seed: {where}: seed")
    if choices and value is not None and str(value) not in choices:
        if "a path" in choices and (as_path(str(value)).is_file() or _looks_like_path(str(value))):
            return str(existing_file(str(value), f"-p {parameter.name}"))
        try:
            checked_name(str(value), choices, f"-p {parameter.name}: {where}")
        except BadInput as error:
            if "of the work's" not in parameter.comment:
                raise
            raise BadInput(
                f"{str(error).removesuffix('.')}; or add the table to `tables` in the work's file "
                "in fedsynth_lib/works/, and a section [work.NAME] to the table's own in "
                "fedsynth_lib/tables/schemas/, with the name of the work's file."
            ) from None
    for words, bound in re.findall(
        rf"\b({'|'.join(BOUNDS)}) "
        r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)",
        parameter.comment,
    ):
        if isinstance(value, int | float) and not BOUNDS[words](value, float(bound)):
            raise BadInput(
                f"-p {parameter.name}: {where} cannot work with {value}; give a value "
                f"{words} {bound}."
            )
    return value
