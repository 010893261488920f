"""What readers see of the Markdown: nothing that was meant as markup stays in the text, and every
link leads to a file.

GitHub and Jupyter take a line that begins with `<!--` for HTML, up to its end: links and emphasis
on such a line are shown as they are typed. So no line may begin with a fact (CONTRIBUTING.md,
"Numbers in prose").
"""

import ast
import fnmatch
import importlib.util
import json
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt

from fedsynth_lib.core.store import CODE, project_root

ROOT = project_root()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("data/*/*.md"), *ROOT.glob("notebooks/*.ipynb")]
NAMES = [path.relative_to(ROOT).as_posix() for path in sorted(PAGES)]
LINKED = ["README.md", "CONTRIBUTING.md", "data/published/findings.md", "data/published/speed.md"]
PARSER = MarkdownIt("commonmark").enable("table")
MATH = re.compile(r"(?s)\$\$.+?\$\$|(?<!\$)\$(?!\$)[^\n$]+\$")  # Jupyter takes it out first
COMMENT = re.compile(r"(?s)<!--.*?-->")
MARKUP = re.compile(r"<!--|-->|\]\(|\*\*")


def tokens(source):
    """The parts of a text that are shown or lead somewhere, in order."""
    for block in PARSER.parse(MATH.sub("x", source)):
        yield from block.children or [block]


def broken(source):
    """Markup that readers see as text, each with the words around it."""
    shown = ""
    for token in tokens(source):
        text = COMMENT.sub("", token.content) if token.type.startswith("html") else token.content
        if token.type == "html_block" and token.content.startswith("<!--") and text.strip():
            shown += "<!--"  # the rest of that line is no Markdown
        shown += "\n" if token.type in ("code_inline", "fence", "code_block") else text
    return [shown[max(0, at.start() - 30) : at.end() + 30] for at in MARKUP.finditer(shown)]


def sources(path):
    """The texts of a page: a file, or each Markdown cell of a notebook."""
    if path.suffix == ".md":
        return [path.read_text(encoding="utf-8")]
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


@pytest.mark.parametrize("name", NAMES)
def test_readers_see_no_markup(name):
    assert [found for source in sources(ROOT / name) for found in broken(source)] == []


def test_the_readme_is_short_and_no_line_of_it_is_markup():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert not [line for line in lines if line.startswith("<!--")]


def test_the_crate_describes_what_is_there():
    crate = json.loads((ROOT / "ro-crate-metadata.json").read_text(encoding="utf-8"))["@graph"]
    named = {entry["@id"]: entry for entry in crate}
    parts = [part["@id"] for part in named["./"]["hasPart"]]
    assert [part for part in parts if not (ROOT / part).exists() or part not in named] == []


# --- names in code ------------------------------------------------------------------------------

CURRENT = [name for name in NAMES if name != "CHANGELOG.md"]  # which tells of earlier names
PATH = re.compile(
    r"[\w.-]+/(?:[\w./-]*[a-z]{2})?/?|[\w-]+\.(?:py|toml|csv|md|ipynb|sh|in|lock|json|yml)"
)
DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(.*)?")
# a file of the reader's, of git, an exhibit's key, and a system beside ours
OTHERS = {"tests/test_mine.py", ".git/info/attributes", "martinez2024/tab6.1"}
FOREIGN = ("sattarov/",)


@cache
def committed() -> str:
    """All paths of the project, one a line."""
    rooms = (".ci", ".github", "notebooks", "fedsynth_lib", "data", "figures", "tests")
    found = [*ROOT.glob("*"), *(path for room in rooms for path in (ROOT / room).rglob("*"))]
    return "".join(f"/{path.relative_to(ROOT).as_posix()}\n" for path in found)


@cache
def ignored() -> list[str]:
    """What runs write: patterns of .gitignore."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    return [line.rstrip("/") for line in lines if "/" in line]


@cache
def names_of(path: Path) -> set[str]:
    """Every name that a module binds, and every text in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    bound = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name)}
    bound |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    imported = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return bound | {alias.asname or alias.name for node in imported for alias in node.names}


@cache
def library() -> dict[str, set[Path]]:
    """Modules by all ends of their dotted names, and classes, with the files that they are in."""
    found: dict[str, set[Path]] = {}
    for path in (CODE / "fedsynth_lib").rglob("*.py"):
        parts = path.relative_to(CODE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        classes = re.findall(r"(?m)^class (\w+)", path.read_text(encoding="utf-8"))
        for name in (*(".".join(parts[start:]) for start in range(len(parts))), *classes):
            found.setdefault(name, set()).add(path)
    return found


def leads_nowhere(words: str, code: str = "") -> bool:
    """Whether code in a text is a path that the project has not, or a dotted name that neither the
    library, nor `code`, nor an installed package has."""
    words = words.removeprefix("./")
    if PATH.fullmatch(words):
        if words in OTHERS or words.startswith(FOREIGN) or f"/{words.rstrip('/')}\n" in committed():
            return False
        place = words.rstrip("/")
        if any(fnmatch.fnmatch(f"{place}/", f"{pattern}/*") for pattern in ignored()):
            return False
        modules = set().union(*library().values())
        return "/" in words or not any(words in names_of(path) for path in modules)
    found = DOTTED.fullmatch(words)
    if not found:
        return False
    parts = found[1].split(".")
    for end in range(len(parts), 0, -1):
        if files := library().get(".".join(parts[:end])):
            return end < len(parts) and not any(parts[end] in names_of(path) for path in files)
    if re.search(rf"\b{parts[0]}\b", code):
        return False
    return importlib.util.find_spec(parts[0]) is None


@pytest.mark.parametrize("name", CURRENT)
def test_every_path_and_dotted_name_in_code_is_there(name):
    path, code = ROOT / name, ""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    spans = [t.content for text in sources(path) for t in tokens(text) if t.type == "code_inline"]
    assert [words for words in spans if leads_nowhere(words, code)] == []


@pytest.mark.parametrize(
    ("words", "stale"),
    [
        ("works/maddock2024.py", False),
        ("works/maddock2024_gans.py", True),
        ("metrics/shadow.py", True),
        ("data/raw/adult/", False),
        ("figures/style.py", False),
        ("study.toml", False),
        ("studies.toml", True),
        ("fedsynth_lib.printed.published", False),
        ("fedsynth_lib.published", True),
        ("figures.METHODS", True),
        ("LikelihoodVae.losses", False),
        ("LikelihoodVae.gains", True),
        ("scenarios.measure(mine, ...)", True),
        ("np.random.default_rng(seed)", False),
        ("frame.describe()", False),
        ("epsilon / 2", False),
    ],
)
def test_a_name_that_leads_nowhere_is_found(words, stale):
    assert leads_nowhere(words, code="import numpy as np\nframe = np.ones(3)") == stale


@pytest.mark.parametrize("name", LINKED)
def test_every_link_leads_to_a_file(name):
    source = (ROOT / name).read_text(encoding="utf-8")
    targets = [token.attrs.get("href") or token.attrs.get("src") for token in tokens(source)]
    paths = [to.partition("#")[0] for to in targets if to and "://" not in to]
    assert paths and [to for to in paths if not (ROOT / name).parent.joinpath(to).exists()] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("Error <!--=a-->0.4<!--/--> in [table 2](a.md), **not** `](`, $a**b$.", 0),
        ("<!-- verdict -->\n| a |\n| --- |\n| <!--=a-->1<!--/--> |\n<!-- end -->\n", 0),
        ("```\n<!--=name-->?<!--/--> **\n```\n\n<details>\nmore\n</details>\n", 0),
        ("Beside\n<!--=a-->0.4<!--/--> in words", 1),
        ("Beside\n<!--=a-->0.4<!--/--> in [table 2](a.md)", 2),
        ("A [link](to a file), a **word ** and a marker <!--=a", 4),
        ("See [table\n\n2](a.md)", 1),
    ],
)
def test_markup_that_is_seen_is_found(source, count):
    assert len(broken(source)) == count
