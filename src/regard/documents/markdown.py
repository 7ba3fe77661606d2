"""Markdown: paragraphs, headings, list items, table cells and footnotes are passages; everything else stays.

kept        front matter, code, HTML tags, link targets and definitions, list and quote markers, tables' lines
inline      **bold**, [links](target), images and <b>tags</b> are put back by word alignment, like tags of HTML; `code`,
            \\* escapes, [references] and [^notes] are copied. A line break stays before the word that began the line.
HTML        a block of HTML is read as a page (html.py)

Blocks are recognised line by line (https://spec.commonmark.org); what is not recognised is a paragraph.
"""

import re
from collections.abc import Iterator

from regard.documents.html import BLOCK, HtmlReader
from regard.documents.lines import BREAK, LINES, read_item, split_items
from regard.documents.markup import Item, PassageBuilder, Token
from regard.documents.passage import ReadOptions, Slot, TemplateDocument

_FRONT = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*(?:\r\n|\r|\n).*?(?:\r\n|\r|\n)\1[ \t]*(?:\r\n|\r|\n|\Z)", re.DOTALL)
_PREFIX = re.compile(
    r"(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*[ \t]*"
    r"(?:\[[ xX]\][ \t]+)?(?:#{1,6}[ \t]+|\[\^[^\]\s]+\]:[ \t]*)?"
)
_FENCE = re.compile(r"(`{3,}|~{3,})")
_KEPT = re.compile(r"(?:[-=*_][ \t]*){3,}$|=+[ \t]*$|-+[ \t]*$|\[[^\]]+\]:")
"""Rules, lines under headings, and definitions of links."""
_HTML = re.compile(r"<(?:!--(?!.*-->[ \t]*[^\s<])|[?!](?!--)|/?[A-Za-z][\w-]*(?=[\s/>]|$))")
_HTML_ENDS = {"<!--": "-->", "<pre": "</pre>", "<script": "</script>", "<style": "</style>"}
"""Blocks of HTML that a blank line does not end."""
_INLINE_TAG = re.compile(r"</?(?:abbr|[abiqsu]|bdi|cite|code|del|em|img|ins|kbd|mark|small|span|strong|su[bp])\b", re.I)
_BLOCK_TAG = re.compile(rf"</?(?:{'|'.join(sorted(BLOCK))})(?=[\s/>]|$)", re.I)
_DASHES = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?\s*$")
_CELL = re.compile(r"(?:\\.|`[^`\r\n]*`|[^|\\\r\n])+")
_LABEL = re.compile(r"(?m)^[ >]*\[([^\]]+)\]:")
_INLINE = re.compile(
    r"""
      (?P<opaque>(?P<ticks>`+)(?!`).{1,1000}?(?<!`)(?P=ticks)(?!`) | \\[!-/:-@\[-`{-~] | \[\^[^\]\s]+\]
        | <!--.{0,1000}?--> | <[a-z][a-z0-9+.-]+:[^<>\s]*> | <[^<>\s@]+@[^<>\s]+>)
    | (?P<label>\[(?P<name>[^\[\]]+)\](?:\[\])?(?![\[(]))
    | (?P<break>[ \t]*\\?(?:\r\n|\r|\n)[ \t>]*)
    | (?P<close>\](?:\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\[\]\n]*\])) | (?P<open>!?\[)
    | (?P<emphasis>\*{1,3}|_{1,3}|~~) | (?P<style>(?!))?<
    """,
    re.VERBOSE | re.DOTALL,
)


class MarkdownReader:
    """Reads a page into a template and slots."""

    def __init__(self, options: ReadOptions) -> None:
        self.options, self.labels = options, frozenset[str]()
        self.template: list[str | int] = []
        self.slots: list[Slot] = []

    def read(self, page: str) -> TemplateDocument:
        """Read all blocks."""
        self.labels = frozenset(label.lower() for label in _LABEL.findall(page))
        front = _FRONT.match(page)
        start = front.end() if front else 0
        self.template.append(page[:start])
        lines, number, in_list = LINES.findall(page, start), 0, False
        while number < len(lines):
            count, in_list = self.read_block(lines, number, in_list)
            number += count
        return TemplateDocument(self.template, self.slots)

    def read_block(self, lines: list[str], first: int, in_list: bool) -> tuple[int, bool]:
        """Read the block that begins at a line; return the number of its lines, and if a list goes on."""
        prefix, rest = split_line(lines[first])
        is_item = bool(prefix.strip(" \t>#"))
        last = first + 1
        if fence := _FENCE.match(rest):
            while last < len(lines) and not lines[last].lstrip(" \t>").startswith(fence[1]):
                last += 1
            self.template += lines[first : last + 1]
            return last + 1 - first, in_list
        if not rest.strip() or _KEPT.match(rest.rstrip()) or is_code(prefix, in_list):
            self.template.append(lines[first])
            return 1, in_list
        is_html, is_heading = _HTML.match(rest) and not _INLINE_TAG.match(rest), prefix.rstrip().endswith("#")
        end = next((end for start, end in _HTML_ENDS.items() if rest.lower().startswith(start)), None)
        while last < len(lines) and not is_heading and (end or is_html or continues(lines[last], prefix.count(">"))):
            if end in lines[last - 1].lower() if end else not lines[last].strip(" \t\r\n>"):
                break
            last += 1
        if is_html:
            reader = HtmlReader(self.options)
            reader.template, reader.slots = self.template, self.slots
            reader.read("".join(lines[first:last]))
        elif last > first + 1 and _DASHES.match(lines[first + 1]):
            for line in lines[first:last]:
                self.read_cells(line)
        else:
            self.template.append(prefix)
            self.read_text("".join(lines[first:last])[len(prefix) :], {})
        return last - first, is_item or (in_list and prefix.startswith((" ", "\t")))

    def read_cells(self, row: str) -> None:
        """A row of a table; the line under its head has no words."""
        copied = 0
        for cell in _CELL.finditer(row):
            self.template.append(row[copied : cell.start()])
            self.read_text(cell[0], {"|": "\\|"})
            copied = cell.end()
        self.template.append(row[copied:])

    def read_text(self, text: str, entities: dict[str, str]) -> None:
        """A passage; its last line end is not part of it."""
        body = text.rstrip("\r\n")
        bare = body.rstrip(" \t").rstrip("#")  # "#" may close a heading
        body = bare if bare[-1:] in (" ", "\t") else body
        builder = PassageBuilder(reads_entities=False, is_wrapped=True)
        for item in pair(list(split_items(body, _INLINE, self.item))):
            builder.add(item, (item.raw,))
        passage = builder.passage(self.options)
        if passage.is_changed:
            self.slots.append(Slot(passage, entities, builder.opens, builder.closes))
        self.template += [len(self.slots) - 1 if passage.is_changed else body, text[len(body) :]]

    def item(self, text: str, match: re.Match[str]) -> Item | None:
        """The markup at a place; None if it is text there."""
        raw, around = match[0], (text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1])
        if match["opaque"] or (match["label"] and match["name"].lower() in self.labels):
            text = "" if raw.startswith("<!--") else raw[1:] if raw[0] == "\\" else raw.strip("`[]")
            return Item("opaque" if text else "empty", raw, Token("other", raw), text)
        if match["break"]:
            return Item("empty", raw, BREAK)
        if match["emphasis"]:
            inside = [side.isalnum() and raw[0] == "_" for side in around]
            can_open, can_close = not (around[1] + " ").isspace(), not (around[0] + " ").isspace()
            kind = "open" * (can_open and not inside[0]) + "close" * (can_close and not inside[1])
            return Item(kind, raw, Token("open", raw, raw)) if kind else None
        if match["open"] or match["close"]:
            return Item("open" if match["open"] else "close", raw, Token("open", raw, "["))
        return None if match["label"] else read_item(text, match)


def split_line(line: str) -> tuple[str, str]:
    """The markers of lists, quotes and headings at the beginning of a line, and its text."""
    match = _PREFIX.match(line)
    end = match.end() if match else 0
    return line[:end], line[end:]


def is_code(prefix: str, in_list: bool) -> bool:
    """True if a line is code by its indentation, which is deeper in a list."""
    return not prefix.strip() and prefix.startswith((" " * (8 if in_list else 4), "\t\t" if in_list else "\t"))


def continues(line: str, quotes: int) -> bool:
    """True if a line goes on with a block that is in some quotes."""
    prefix, rest = split_line(line)
    is_deeper = prefix.count(">") > quotes
    is_other = _FENCE.match(rest) or _KEPT.match(rest.rstrip()) or _BLOCK_TAG.match(rest)
    return not is_deeper and not prefix.strip(" \t>") and not is_other


def pair(items: list[Item]) -> Iterator[Item]:
    """The items; marks without a partner are text."""
    partners: dict[int, str] = {}
    opened: list[int] = []
    waiting: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        places = waiting.setdefault(item.token.name, [])
        if item.kind.endswith("close") and places:
            partners |= {places[-1]: "open", index: "close"}
            partner = places[-1]
            while (last := opened.pop()) != partner:
                waiting[items[last].token.name].pop()
            places.pop()
        elif item.kind.startswith("open"):
            opened.append(index)
            places.append(index)
    for index, item in enumerate(items):
        is_mark = item.kind in ("open", "close", "openclose")
        kind = partners.get(index, "text") if is_mark else item.kind
        yield Item(kind, item.raw, item.token, item.text)
