"""Executed notebooks and Markdown as HTML that needs no network.

Formulas are MathML, which a browser draws by itself, instead of LaTeX for a MathJax from elsewhere.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import nbformat
from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.exporters import TemplateExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

HEADING = re.compile(r'(?s)<h([1-6]) id="([^"]+)">(.*?)<a class="anchor-link"[^>]*>[^<]*</a></h\1>')
WIDGET = "application/vnd.jupyter.widget-view+json"
NO_KERNEL = "Controls, which need a running notebook: ./run_all.sh lab opens it."


class Heading(NamedTuple):
    """A line of a table of contents."""

    level: int
    id: str
    text: str


class Formulas(IPythonRenderer):
    """Markdown to HTML, with formulas in MathML."""

    def block_math(self, body: str) -> str:
        """Write a formula on a line of its own."""
        return convert(body, display="block")

    def inline_math(self, body: str) -> str:
        """Write a formula within a line."""
        return convert(body)


class Folding(Highlight2HTML):
    """Highlighted code, folded where it only leads to the first result."""

    folded: ClassVar = {
        "parameters": "Parameters",
        "injected-parameters": "Parameters of this run",
    }

    def __call__(self, source: str, language: str | None = None, metadata: Any = None) -> str:
        """Return the HTML of a cell's source."""
        html = super().__call__(source, language, metadata)
        metadata = metadata or {}
        names = [self.folded[tag] for tag in metadata.get("tags", ()) if tag in self.folded]
        if metadata.get("jupyter", {}).get("source_hidden"):
            names.append("Code")
        return f"<details><summary>{names[0]}</summary>{html}</details>" if names else html


class Pages(HTMLExporter):
    """Notebook to the body of a page, without a script or a style from elsewhere.

    HTMLExporter parses each page once more, for the texts of pictures, and cleans what the
    highlighter has made of code, which has no other HTML. Both are left out, since they took most
    of the time: `body_of` gives the texts, and takes out what needs a script.
    """

    def __init__(self, **options: Any) -> None:
        elsewhere = (name for name in self.class_trait_names() if name.endswith("_url"))
        options = {"template_name": "basic", **dict.fromkeys(elsewhere, ""), **options}
        super().__init__(**options)

    def default_filters(self) -> Iterable[tuple[str, Any]]:
        """Return nbconvert's filters, with the two that are replaced."""
        yield from super().default_filters()
        yield "highlight_code", Folding(pygments_lexer="ipython3", parent=self)
        yield "clean_html", lambda code: code

    def body(self, notebook: nbformat.NotebookNode) -> str:
        """Return the body of a page."""
        return TemplateExporter.from_notebook_node(self, notebook)[0]

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Convert Markdown, with its formulas as MathML."""
        return MarkdownWithMath(renderer=Formulas(escape=False)).render(source)


@cache
def pages() -> Pages:
    """Return the exporter, which reads its templates once."""
    return Pages()


def body_of(notebook: Path) -> str:
    """Convert the executed notebook to HTML.

    A picture without a text is named by the heading above it.
    """
    document, heading = nbformat.read(notebook, as_version=4), notebook.stem
    for cell in document.cells:
        if cell.cell_type == "markdown":
            heading = (re.findall(r"(?m)^#+ (.+)$", cell.source) or [heading])[-1]
        for output in cell.get("outputs", ()):
            if output.get("data", {}).pop(WIDGET, None):
                output["data"]["text/plain"] = NO_KERNEL
            if "image/png" in output.get("data", {}):
                told = output.metadata.setdefault("image/png", {})
                told["alt"] = told.get("alt") or f"Picture in the section: {heading}"
    document.metadata.pop("widgets", None)
    return tidy(pages().body(document))


def text_to_html(markdown: str) -> str:
    """Markdown as HTML."""
    return tidy(framed("pre", pages().markdown2html({}, markdown)))


def framed(tag: str, html: str) -> str:
    """Frames that scroll around each of these elements."""
    return re.sub(rf"(?s)(<{tag}.*?</{tag}>)", r'<div class="scroll" tabindex="0">\1</div>', html)


def tidy(html: str) -> str:
    """Frames around wide tables, lazily loaded pictures, and ids that are unique in the page."""
    html = framed("table", html)
    html = html.replace("<img ", '<img loading="lazy" ')
    known: dict[str, int] = {}

    def unique(found: re.Match[str]) -> str:
        level, name, text = found.groups()
        name = name.replace("%22", "")  # a quote, which a browser and a script read differently
        known[name] = known.get(name, 0) + 1
        name += f"-{known[name]}" if known[name] > 1 else ""
        link = f'<a class="permalink" href="#{name}" aria-label="Link to this section">¶</a>'
        return f'<h{level} id="{name}">{text}{link}</h{level}>'

    return HEADING.sub(unique, html)


def contents(html: str) -> list[Heading]:
    """Return the headings of the second and third level that `tidy` left, for a list of them."""
    found = re.findall(r'(?s)<h([23]) id="([^"]+)">(.*?)<a class="permalink"', html)
    return [Heading(int(level), name, re.sub("<[^>]+>", "", text)) for level, name, text in found]


def relink(html: str, target: Callable[[str], str | None]) -> str:
    """Put other addresses into links within the project; None makes a link text."""

    def changed(found: re.Match[str]) -> str:
        address = found[1]
        if re.match(r"#|[a-z]+:", address):
            return found[0]
        new = target(address)
        return f'href="{new}"' if new else 'class="gone"'

    return re.sub(r'href="([^"]*)"', changed, html)
