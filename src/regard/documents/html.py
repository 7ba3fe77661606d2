"""HTML: the text of a page as passages, everything else as it is written.

block elements      <p>, <li>, <td>, ... end a passage
inline elements     <b>, <a>, <span>, ... are taken out; the whole sentence is translated, and they are put back by
                    its links. A tag whose partner is in another block ends a passage too.
<br>                ends a sentence, or is a blank in one that goes on with a small letter; two of them end a passage
<button>            is part of a sentence around it, and otherwise a passage
{% if x %}          ends a passage, as other tags of template languages do
never translated    <code>, <kbd>, <samp>, <var>, <pre>, <script>, <style>, <textarea>, <svg>, <math>, <bdi>, comments,
                    and elements with translate="no", class="notranslate" or the `lang` of another language
lang, dir           become those of the target language
attributes          alt, title, placeholder, aria-label, the description of a page, labels of buttons
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.documents.markup import LETTER, Item, PassageBuilder, Token, collect, find_delimiters, names, tokenize
from regard.documents.passage import Markup, Passage, ReadOptions, Slot, TemplateDocument
from regard.documents.tables import TABLES
from regard.errors import UserError

MAX_DEPTH = 512
"""How deep elements may be nested, as in browsers."""


BLOCK = names(TABLES["html_blocks"])
OPTIONAL_END = names("body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr")
"""Elements that need no closing tag; they do not count as nested."""
UNTOUCHED = names("code kbd samp var math pre script style textarea svg xmp iframe")
ATTRIBUTES = names("alt title placeholder aria-label")
LEFTWARD = names("ar arc ckb dv fa he ps sd ug ur yi")
"""Languages that are written from right to left."""
TEMPLATE = re.compile(r"(\{%.{0,500}?%\}|\{#.{0,500}?#\})", re.DOTALL)
"""A tag of a template language; what is between two of them may occur or not, so that no sentence goes over one."""
ROOT = names("html body")
BUTTONS = names("submit button reset")


class HtmlReader:
    """Reads a page into a template and slots."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.template: list[str | int] = []
        self.slots: list[Slot] = []
        self.run: list[Item] = []
        self.depth = 0
        self.language = options.language.split("-")[0].lower()

    def read(self, page: str) -> TemplateDocument:
        """Read all tokens."""
        tokens = tokenize(page)
        for token in tokens:
            self.count_depth(token)
            if token.kind == "open" and self.is_untouched(token):
                self.add_untouched(token, tokens)
            elif token.name in BLOCK or token.is_fixed:
                self.flush()
                self.template += self.tag_markup(token)
            else:
                is_empty = token.kind == "other" or (token.kind != "text" and token.is_empty)
                for number, raw in enumerate(TEMPLATE.split(token.raw) if token.kind == "text" else [token.raw]):
                    kind = "delimiter" if number % 2 else "empty" if is_empty else token.kind
                    self.run += [Item(kind, raw, token)] if raw else []
        self.flush()
        return TemplateDocument(self.template, self.slots)

    def is_untouched(self, token: Token) -> bool:
        """True for an opening tag of an element that is never translated; names are in <bdi>."""
        if token.name == "html":
            self.language = self.language or main_language(token)
        is_foreign = self.language and main_language(token) not in ("", self.language) and token.name not in ROOT
        is_name = token.name in UNTOUCHED or token.name == "bdi" or "notranslate" in token.get("class").split()
        return is_name or bool(is_foreign) or token.get("translate").lower() == "no"

    def count_depth(self, token: Token) -> None:
        """Raise UserError if elements are nested too deeply."""
        if token.name in OPTIONAL_END or token.is_empty:
            return
        self.depth = self.depth + 1 if token.kind == "open" else max(0, self.depth - (token.kind == "close"))
        if self.depth > MAX_DEPTH:
            problem = f"the page has more than {MAX_DEPTH} nested elements"
            raise UserError(problem, "split the page, or remove nesting", code="too-deep", where="html")

    def add_untouched(self, token: Token, tokens: Iterator[Token]) -> None:
        """An element that is never translated, up to its closing tag."""
        inside, is_closed = collect(token, tokens)
        for other in inside[1:]:
            self.count_depth(other)
        raw = "".join(item.raw for item in inside)
        if not is_closed or any(item.name in BLOCK for item in inside):
            self.flush()
            self.template.append(raw)
        else:
            text = html.unescape("".join(item.raw for item in inside if item.kind == "text"))
            self.run.append(Item("opaque" if text.strip() else "empty", raw, Token("open", raw, token.name), text))

    # ---- passages ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """End a passage: write the inline content since the last block."""
        run, self.run = self.run, []
        if not has_words_outside(run):
            run = [replace(item, kind="delimiter") if item.token.name == "button" else item for item in run]
        start = 0
        for index in [*find_delimiters(run), len(run)]:
            self.add_passage(run[start:index])
            if index < len(run):
                self.template += self.item_markup(run[index])
            start = index + 1

    def add_passage(self, items: Sequence[Item]) -> None:
        """A passage of items with their partners; its tags only if it has nothing to translate."""
        markups = [self.item_markup(item) for item in items]
        if any(item.kind == "text" and LETTER.search(item.raw) for item in items):
            builder = PassageBuilder()
            for item, markup in zip(items, markups, strict=True):
                builder.add(item, markup)
            passage = builder.passage(self.options)
            if passage.is_changed:
                entities = {"&": "&amp;", "<": "&lt;", **builder.entities}
                self.slots.append(Slot(passage, entities, builder.opens, builder.closes))
                markups = [(len(self.slots) - 1,)]
        self.template += [part for markup in markups for part in markup]

    # ---- tags -------------------------------------------------------------------------------------------------------

    def item_markup(self, item: Item) -> Markup:
        return self.tag_markup(item.token) if item.token.kind == "open" else (item.raw,)

    def tag_markup(self, token: Token) -> Markup:
        """A tag as markup: the values of some attributes are passages."""
        markup: list[str | int] = []
        copied = 0
        target, attributes = self.options.target, {item.name for item in token.attributes}
        is_source = token.name == "html" or main_language(token) == self.language
        values = dict.fromkeys(("lang", "xml:lang"), target if is_source else "")
        if token.name in ROOT and target:
            values["dir"] = "rtl" if target.split("-")[0] in LEFTWARD else "ltr"
            if token.name == "html" and values["dir"] == "rtl" and "dir" not in attributes:
                copied = len("<html")
                markup.append(token.raw[:copied] + ' dir="rtl"')
        for item in token.attributes:
            if value := values.get(item.name):
                markup.append(token.raw[copied : item.span[0]] + value)
                copied = item.span[1]
            if not is_translated_attribute(token, item.name) or not LETTER.search(item.value):
                continue
            passage = Passage(html.unescape(item.value), self.options, collapse=True)
            if passage.is_changed:
                quote = {"'": "&#39;"} if item.quote == "'" else {'"': "&quot;"}
                self.slots.append(Slot(passage, {"&": "&amp;", "<": "&lt;", **quote}))
                added = "" if item.quote else '"'
                markup += [token.raw[copied : item.span[0]] + added, len(self.slots) - 1, added]
                copied = item.span[1]
        return (*markup, token.raw[copied:])


def main_language(token: Token) -> str:
    """The language that a tag declares, without its region; "" if it declares none."""
    return (token.get("lang") or token.get("xml:lang")).replace("_", "-").split("-")[0].lower()


def has_words_outside(run: Sequence[Item]) -> bool:
    """True if inline content has words that are not labels of buttons: then its buttons are in a sentence."""
    level = 0
    for item in run:
        level += (item.kind == "open") - (item.kind == "close") if item.token.name == "button" else 0
        if item.kind == "text" and not level and LETTER.search(item.raw):
            return True
    return False


def is_translated_attribute(token: Token, name: str) -> bool:
    """True if the attribute of a tag is text for a reader."""
    if token.name == "meta":
        return name == "content" and token.get("name").lower() == "description"
    if token.name == "input" and name == "value":
        return token.get("type").lower() in BUTTONS
    return name in ATTRIBUTES
