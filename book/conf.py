"""Sphinx's configuration: furo, MyST, formulas as MathML, and a search that finds Chinese words."""

import re
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from pygments.lexers import TextLexer
from sphinx.search import languages
from sphinx.search.zh import SearchChinese
from sphinx.util.logging import getLogger

project = html_title = "regard"
author = "The regard authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_dmath_allow_space = False
myst_dmath_double_inline = True
myst_heading_anchors = 6
highlight_language = "none"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_favicon = "../src/regard/viz/page/icon.svg"
html_copy_source = html_show_sphinx = html_show_copyright = False
html_math_renderer = "mathml"
nitpicky = True
smartquotes = False
pygments_dark_style = "github-dark"


class ChineseSearch(SearchChinese):  # type: ignore[misc]
    """Chinese text is indexed and searched by pairs of characters, so every query is found, in a dictionary or not."""

    language_name = "English"  # the name of the stemmer, which is for the Latin words
    js_splitter_code = r"""
var splitQuery = (query) => query.split(/[^\p{Letter}\p{Number}_]+/u).flatMap((part) =>
  part.match(/[\u3400-\u9fff]+|[^\u3400-\u9fff]+/g) || []).flatMap((part) =>
  /^[\u3400-\u9fff]{3,}$/.test(part) ? [...part].slice(1).map((letter, i) => part[i] + letter) : [part]);
"""

    def split(self, input: str) -> list[str]:
        latin = self.latin1_letters.findall(input)
        self.latin_terms.update(latin)
        runs = re.findall(r"[\u3400-\u9fff]+", input)
        return [*latin, *(run[i : i + size] for run in runs for size in (1, 2) for i in range(len(run) - size + 1))]

    def word_filter(self, stemmed_word: str) -> bool:
        return bool(stemmed_word)


languages["zh"] = ChineseSearch


THIN = '<mspace width="0.167em"/>'
AFTER_NAME = re.compile(r"(?<!<msub>)(?<!<msup>)(<mi>[a-z]{2,}</mi>)(?=<m(?!o[ >]|space))")
BEFORE_NAME = re.compile(r"(?<!<msub>)(?<!<msup>)(<mi>[^<]*</mi>|</mn>|</msu[bp]>|</mfrac>)(<mi>[a-z]{2,}</mi>)")
"""Where TeX puts a thin space: between a function's name, such as log, and its neighbours, unless they are signs."""


def mathml(tex: str, display: str = "inline") -> str:
    """A formula as MathML; an unknown command is a warning, and so an error of `make docs`."""
    made: str = convert(re.sub(r"\\arg\b", r"\\mathrm{arg}", tex), display=display)
    if "\\" in made:
        getLogger(__name__).warning("a command in this formula is unknown: %s", tex)
    return BEFORE_NAME.sub(THIN.join((r"\1", r"\2")), AFTER_NAME.sub(rf"\1{THIN}", made))


def visit_inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext()))
    raise SkipNode


def visit_block(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    for name in ("csv", "tsv"):
        app.add_lexer(name, TextLexer)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
