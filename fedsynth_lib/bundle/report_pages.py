"""Executed notebooks as pages of the report that need no network: formulas are MathML, which a
browser draws by itself, instead of LaTeX for a MathJax from elsewhere."""

from pathlib import Path
from typing import Any

from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


class Formulas(IPythonRenderer):
    """Markdown to HTML, with formulas in MathML."""

    def block_math(self, body: str) -> str:
        return convert(body, display="block")

    def inline_math(self, body: str) -> str:
        return convert(body)


class Pages(HTMLExporter):
    """Notebook to page, without a script or a style from elsewhere."""

    def __init__(self, **options: Any) -> None:
        elsewhere = (name for name in self.class_trait_names() if name.endswith("_url"))
        super().__init__(**dict.fromkeys(elsewhere, ""), **options)
        self.log.setLevel("CRITICAL")  # it misses texts for the pictures of a notebook

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return MarkdownWithMath(renderer=Formulas(escape=False)).render(source)


def page_of(notebook: Path) -> str:
    """The executed notebook as HTML."""
    return Pages().from_filename(str(notebook))[0]
