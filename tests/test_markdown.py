"""What readers see of the Markdown: nothing that was meant as markup stays in the text, and every
link leads to a file.

GitHub and Jupyter take a line that begins with `<!--` for HTML, up to its end: links and emphasis
on such a line are shown as they are typed. So no line may begin with a fact (CONTRIBUTING.md,
"Numbers in prose").
"""

import re

import nbformat
import pytest
from markdown_it import MarkdownIt

from fedsynth_lib.core.store import project_root

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
