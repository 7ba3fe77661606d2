"""Every format of `open_file` under the same properties, with random files that the formats' own libraries read back.

identity    a file whose translation is its text keeps its bytes (members of archives; messages and units: see below)
layout      under any translation all that is not text stays: a reader other than ours finds the same structure
protected   {name}, %s, addresses and code are copied exactly once

A file is a list of paragraphs, and a paragraph a list of pieces: words, protected parts, and words with a style.
"""

import html.parser
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import polib  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pytest
import srt  # type: ignore[import-not-found, import-untyped, unused-ignore]
import webvtt  # type: ignore[import-not-found, import-untyped, unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped, unused-ignore]
from markdown_it import MarkdownIt
from tests.documents.translators import Translate, anything, backwards, identity, refused, translated

from regard.documents.document import BINARY_READERS, OTHER_NAMES, TEXT_READERS, file_format, open_file
from regard.documents.segment import Segment, SegmentTranslation
from regard.errors import UserError

SYMBOLS = ("⦅0⦆", "⦅1⦆", "⦅2⦆")
PROTECTED = ("{name}", "%s", "%(n)d", "https://x.org/a?b=1", "{{y}}", "me@x.org")
Piece = tuple[str, str]
"""A kind ("word", "kept" or "style") and its text."""
PIECES = st.one_of(
    st.tuples(st.just("word"), st.sampled_from(["One", "two", "three,", "Four.", "你好", "R&D", "été", "12", "(x)"])),
    st.tuples(st.just("style"), st.sampled_from(["bold", "Red button", "2"])),
    st.tuples(st.just("kept"), st.sampled_from(PROTECTED)),
)
PARAGRAPHS = st.lists(st.lists(PIECES, max_size=6).map(lambda pieces: [("word", "Begin"), *pieces]), max_size=4)


@dataclass(frozen=True)
class Format:
    """How files of a format are made and read back.

    write    a paragraph's pieces as they are written
    build    the file with written paragraphs
    layout   what may not change under any translation
    texts    the translations in the file
    """

    write: Callable[[Sequence[Piece], int], str]
    build: Callable[[Sequence[str]], bytes]
    layout: Callable[[bytes], object]
    texts: Callable[[bytes], Sequence[str]]
    is_filled: bool = False
    """True if translations are written beside their source."""


def plain(style: str = "{}", write: Callable[[str], str] = str) -> Callable[[Sequence[Piece], int], str]:
    """A writer of pieces with a blank in between; `style` is around words with a style."""

    def write_pieces(pieces: Sequence[Piece], number: int) -> str:
        texts = [style.replace("{}", write(text)) if kind == "style" else write(text) for kind, text in pieces]
        return " ".join(texts).replace("@@", str(number))

    return write_pieces


# ---- text, pages, messages -------------------------------------------------------------------------------------------


def blanks(content: bytes) -> object:
    """The blanks around each line of a text."""
    lines = content.decode().splitlines(keepends=True)
    return [(line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]) for line in lines]


class Tags(html.parser.HTMLParser):
    """The tags of a page as they are written, its comments, and its text outside of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.opened = Counter[str](), list[str](), list[str]()
        self.feed(page)
        self.close()
        assert not self.opened

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[re.sub(r'title="[^"]*"', "title", self.get_starttag_text() or "")] += 1
        self.opened += [tag] if tag not in ("meta", "br", "img") else []
        self.texts += [value or "" for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag
        self.tags[f"/{tag}"] += 1

    def handle_comment(self, data: str) -> None:
        self.tags[data] += 1

    def handle_data(self, data: str) -> None:
        if self.opened[-1:] in (["script"], ["code"]):
            self.tags[data] += 1
        else:
            self.texts.append(data)


def page(paragraphs: Sequence[str]) -> bytes:
    body = "\n".join(f"<p>{text}<br>\n<!-- {text} --></p>" for text in paragraphs)
    head = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><script>if (a < b && "One two") {}</script></head>'
    items = '<ul><li>outer <ul><li title="A {name} x">inner</li></ul></li></ul>'
    return f"{head}<body>\n{body}{items}</body></html>\n".encode()


def markdown(paragraphs: Sequence[str]) -> bytes:
    items = "".join(f"- {text}\n\n  > {text}\n\n" for text in paragraphs)
    return f"---\ntitle: One\n---\n# Title\n\n{items}```sh\nOne two\n```\n\n[x]: https://y.org\n".encode()


def blocks(content: bytes) -> object:
    """Blocks of a Markdown page; marks of emphasis may be lost with their words, and are never text."""
    found = []
    for token in MarkdownIt("commonmark").parse(content.decode()):
        assert not any("*" in child.content for child in token.children or () if child.type == "text")
        found.append((token.type, token.level, token.content if token.type == "fence" else ""))
    return found


def marked_texts(content: bytes) -> list[str]:
    return [token.content for token in MarkdownIt("commonmark").parse(content.decode()) if token.type == "inline"]


def values(paragraphs: Sequence[str]) -> bytes:
    content = {"One two": [{"key": text, "number": 1.50} for text in paragraphs], "none": None, "id": "a_b"}
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def keys(content: bytes) -> object:
    return re.sub(r'("key": )"(?:[^"\\]|\\.)*"', r"\1", content.decode())


def value_texts(content: bytes) -> list[str]:
    return [item["key"] for item in json.loads(content)["One two"]]


def messages(paragraphs: Sequence[str]) -> bytes:
    """Messages without a translation, each after an entry that has one."""
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": "nplurals=2; plural=(n != 1);"}
    for number, text in enumerate(paragraphs):
        file.append(polib.POEntry(msgid=f"Old {number}", msgstr="Alt", msgctxt="menu", flags=["fuzzy"]))
        plural = {"msgid_plural": f"{text} s", "msgstr_plural": {0: "", 1: ""}} if number % 2 else {}
        file.append(
            polib.POEntry(msgid=text, msgctxt=f"c{number}", comment="One two", occurrences=[("a.c", 1)], **plural)
        )
        file.append(polib.POEntry(msgid=f"Gone {number}", msgstr="", obsolete=True))
    return str(file).encode()


def entries(content: bytes) -> object:
    def fields(entry: polib.POEntry) -> object:
        ids = entry.msgctxt, entry.msgid, entry.msgid_plural, len(entry.msgstr_plural)
        old = entry.msgstr if entry.msgid.startswith("Old") else ""
        return *ids, entry.flags, entry.comment, entry.occurrences, entry.obsolete, old

    file = polib.pofile(content.decode())
    return file.metadata, [fields(entry) for entry in file]


def message_texts(content: bytes) -> list[str]:
    found = [entry for entry in polib.pofile(content.decode()) if entry.occurrences]
    return [text for entry in found for text in (entry.msgstr_plural.values() or [entry.msgstr])]


def cues(paragraphs: Sequence[str], stop: str = ",") -> bytes:
    times = [f"00:00:{number:02}{stop}000 --> 00:00:{number:02}{stop}900" for number in range(len(paragraphs))]
    parts = [f"{number}\n{times[number]}\n{text}\n" for number, text in enumerate(paragraphs)]
    return "\n".join(parts).encode()


def cue_times(content: bytes) -> object:
    found = list(srt.parse(content.decode()))
    return [(cue.index, cue.start, cue.end, Counter(re.findall(r"</?\w+>", cue.content))) for cue in found]


def cue_texts(content: bytes) -> list[str]:
    return [cue.content for cue in srt.parse(content.decode())]


def captions(paragraphs: Sequence[str]) -> bytes:
    return b"WEBVTT x\n\nNOTE One two\n\nSTYLE\n::cue { color: red }\n\n" + cues(paragraphs, ".")


def caption_times(content: bytes) -> object:
    found = webvtt.from_string(content.decode())
    head = content.decode().partition("-->")[0]
    return head, [(cue.identifier, cue.start, cue.end, cue.raw_text.count("<i>")) for cue in found.captions]


def caption_texts(content: bytes) -> list[str]:
    return [cue.raw_text for cue in webvtt.from_string(content.decode()).captions]


# ---- XML -------------------------------------------------------------------------------------------------------------


def units(version: int) -> Callable[[Sequence[str]], bytes]:
    """An XLIFF file of a version: each unit without a target after one that has a target."""

    def build(paragraphs: Sequence[str]) -> bytes:
        name, space = ("trans-unit", "1.2") if version == 1 else ("segment", "2.0")
        old = f"<{name}><source>Old</source><target>Alt</target></{name}>"
        parts = [f'{old}\r\n<{name} id="{n}"><source>{text}</source></{name}>' for n, text in enumerate(paragraphs)]
        body = "<!-- One two -->".join(parts)
        inside = f'<file source-language="en"><body>{body}</body></file>'
        inside = inside if version == 1 else f'<file id="f"><unit id="u">{body}</unit></file>'
        head = f'<xliff xmlns="urn:oasis:names:tc:xliff:document:{space}" version="{space}" srcLang="en">'
        return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{inside}</xliff>\n'.encode()

    return build


def without_new_targets(content: bytes) -> object:
    """An XLIFF file without the targets and states that a translation adds."""
    text = re.sub(r"<target(?!>Alt)[^>]*>.*?</target>", "", content.decode(), flags=re.DOTALL)
    etree.fromstring(content)
    return text.replace(' state="translated"', "")


def targets(content: bytes) -> list[str]:
    found = etree.fromstring(content).iterfind(".//{*}target")
    return [etree.tostring(item, encoding="unicode", with_tail=False) for item in found if item.text != "Alt"]


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
OPEN = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"


def runs(prefix: str, bold: str) -> Callable[[Sequence[Piece], int], str]:
    """A writer of runs: the words of a style are a run of their own, a number is part of the word before it."""

    def write(pieces: Sequence[Piece], number: int) -> str:
        texts = [(bold if kind == "style" else "", escape(text) + " ") for kind, text in pieces]
        return "".join(f"<{prefix}:r>{format}<{prefix}:t>{text}</{prefix}:t></{prefix}:r>" for format, text in texts)

    return write


def archive(main: str, paragraph: str, around: str, others: Mapping[str, str]) -> Callable[[Sequence[str]], bytes]:
    """A zip archive: its other members, and a main one with paragraphs in between what is around them."""

    def build(paragraphs: Sequence[str]) -> bytes:
        stream = io.BytesIO()
        body = "".join(paragraph.replace("{}", text) for text in paragraphs)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
            for name, text in {**others, main: around.replace("{}", body), "media/a.png": "\x89PNG"}.items():
                file.writestr(zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6)), text)
        return stream.getvalue()

    return build


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def local(item: "etree._Element") -> str:
    return str(item.tag).rpartition("}")[2]


def parts(main: str) -> Callable[[bytes], object]:
    """The names of all members, the other members' bytes, and the main one's elements outside of runs, in order."""

    def read(content: bytes) -> object:
        found = members(content)
        tree = etree.fromstring(found[main])
        order = [(local(item), *item.attrib.items()) for item in tree.iter() if local(item) in ("p", "h", "x", "tbl")]
        around = [item for item in tree.iter() if local(item) not in ("r", "t", "rPr", "b")]
        counts = Counter((local(item), item.text if "Comment" in str(item.tag) else "") for item in around)
        return list(found), {name: data for name, data in found.items() if name != main}, order, counts

    return read


def paragraphs_of(main: str, name: str = "p") -> Callable[[bytes], list[str]]:
    def read(content: bytes) -> list[str]:
        return [
            "".join(item.itertext(etree.Element))
            for item in etree.fromstring(members(content)[main]).iter(f"{{*}}{name}")
        ]

    return read


def office(ending: str, main: str, paragraph: str, around: str, **others: str) -> Format:
    bold = "<w:rPr><w:b/></w:rPr>" if ending == "docx" else '<a:rPr b="1"/>'
    is_runs = ending in ("docx", "pptx")
    style = "<text:span>{}</text:span>" if ending != "epub" else '<b class="x@@">{}</b>'
    write = runs("w" if ending == "docx" else "a", bold) if is_runs else plain(style, escape)
    build = archive(main, paragraph, around, others)
    return Format(write, build, parts(main), paragraphs_of(main))


CONTAINER = '<container><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>'
PACKAGE = '<package><manifest><item href="a.xhtml" media-type="application/xhtml+xml"/></manifest></package>'
PAGE = '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
BODY = f'<w:document xmlns:w="{WORD}"><w:body>{{}}</w:body></w:document>'
SLIDE = f'<p:sld xmlns:p="p" xmlns:a="{DRAWING}">{{}}</p:sld>'
CONTENT = f'<?xml version="1.0"?>\n<office:d xmlns:office="o" xmlns:text="{OPEN}">{{}}</office:d>'
HIDDEN = "<w:r><w:rPr><w:vanish/></w:rPr><w:tab/></w:r>"
ODF = '<text:p text:style-name="P1">{}</text:p><!-- One two -->'
FORMATS = {
    "a.txt": Format(plain(), lambda texts: "".join(f"  {text}\t\n\n" for text in texts).encode(), blanks,
                    lambda content: content.decode().splitlines()),
    "a.html": Format(plain('<b class="x@@">{}</b>', escape), page, lambda data: Tags(data.decode()).tags,
                     lambda data: Tags(data.decode()).texts),
    "a.md": Format(plain("**{}**"), markdown, blocks, marked_texts),
    "a.json": Format(plain("<b>{}</b>"), values, keys, value_texts),
    "a.po": Format(plain("<b>{}</b>"), messages, entries, message_texts, is_filled=True),
    "a.srt": Format(plain("<i>{}</i>"), cues, cue_times, cue_texts),
    "a.vtt": Format(plain("<i>{}</i>"), captions, caption_times, caption_texts),
    "1.xliff": Format(plain('<g id="1">{}</g>', escape), units(1), without_new_targets, targets, is_filled=True),
    "2.xliff": Format(plain('<pc id="1">{}</pc>', escape), units(2), without_new_targets, targets, is_filled=True),
    "a.docx": office("docx", "word/document.xml", f'<w:p w:id="1">{{}}{HIDDEN}</w:p><w:tbl/>', BODY),
    "a.pptx": office("pptx", "ppt/slides/slide1.xml", "<a:p><a:pPr/>{}<a:endParaRPr/></a:p>", SLIDE,
                     **{"ppt/presentation.xml": "<p/>"}),
    "a.odt": office("odt", "content.xml", ODF, CONTENT, mimetype="application/vnd.oasis.opendocument.text"),
    "a.odp": office("odp", "content.xml", ODF, CONTENT, **{"styles.xml": CONTENT.format("<text:p>1</text:p>")}),
    "a.epub": office("epub", "a.xhtml", "<p>{}<img/></p>\n", PAGE,
                     **{"META-INF/container.xml": CONTAINER, "a.opf": PACKAGE}),
}  # fmt: skip


def file_of(name: str, paragraphs: Sequence[Sequence[Piece]]) -> bytes:
    kind = FORMATS[name]
    return kind.build([kind.write(pieces, number) for number, pieces in enumerate(paragraphs)])


def some_words(seed: int) -> Translate:
    """Random words with random links, at least one; numbers of placeholders, and code of no segment, occur too."""
    translate = anything(seed, ("x", "Yy", "zzz.", "你", "&", "⦅0⦆", "⦅1⦆", "é,"))

    def words(segment: Segment) -> SegmentTranslation:
        found = translate(segment)
        return SegmentTranslation(f"{found.text} w".lstrip(), links=found.links)

    return words


def test_every_format_is_here() -> None:
    endings = {file_format(name) for name in FORMATS}
    assert endings == {*TEXT_READERS, *BINARY_READERS} - {".pdf"}
    assert all(file_format(f"x.y{other.upper()}") == ending for other, ending in OTHER_NAMES.items())
    assert file_format("a.doc") == file_format("html") == file_format("") == ""


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=12)
@given(paragraphs=PARAGRAPHS)
def test_the_same_text_is_the_same_file(name: str, paragraphs: list[list[Piece]]) -> None:
    kind, content = FORMATS[name], file_of(name, paragraphs)
    result = translated(name, content, identity, placeholders=SYMBOLS)
    assert kind.layout(result) == kind.layout(content)
    if name in ("1.xliff", "2.xliff"):
        sources = [kind.write(pieces, number) for number, pieces in enumerate(paragraphs)]
        found = [re.sub(r"\A<target[^>]*>|</target>\Z", "", text) for text in kind.texts(result)]
        assert [re.sub(r' xmlns="[^"]*"', "", text) for text in found] == sources
    elif name == "a.po":
        filled = [entry for entry in polib.pofile(result.decode()) if entry.occurrences]
        assert all(entry.msgstr == entry.msgid for entry in filled if not entry.msgid_plural)
        forms = [{0: entry.msgid, 1: entry.msgid_plural} for entry in filled if entry.msgid_plural]
        assert [entry.msgstr_plural for entry in filled if entry.msgid_plural] == forms
    elif zipfile.is_zipfile(io.BytesIO(content)):
        assert members(result) == members(content)
    else:
        assert result == content


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=12)
@given(paragraphs=PARAGRAPHS, seed=st.integers(0, 1000))
def test_all_but_the_text_stays(name: str, paragraphs: list[list[Piece]], seed: int) -> None:
    kind, content = FORMATS[name], file_of(name, paragraphs)
    for translate in (backwards, some_words(seed)):
        result = translated(name, content, translate, placeholders=SYMBOLS)
        assert kind.layout(result) == kind.layout(content)
        sources = file_of(name, paragraphs) if not kind.is_filled else translated(name, content, identity)
        before, after = ("\n".join(kind.texts(data)) for data in (sources, result))
        for part in PROTECTED:
            assert after.count(part) == before.count(part), part
        assert not any(symbol in after for symbol in SYMBOLS)


DAMAGED = [[("word", "Begin"), ("style", "Red button"), ("kept", "{name}")], [("word", "Begin"), ("word", "你好")]]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(place=st.floats(0, 1), junk=st.binary(max_size=4), removed=st.integers(0, 40))
def test_a_damaged_file_is_refused_or_read(name: str, place: float, junk: bytes, removed: int) -> None:
    """Bytes are replaced anywhere: no other error, and what is still read keeps its bytes if its text does."""
    content = file_of(name, DAMAGED)
    start = int(place * len(content))
    content = content[:start] + junk + content[start + removed :]
    try:
        document = open_file(name, content, language="en", target="de", placeholders=SYMBOLS)
        result = document.render([some_words(1)(segment) for segment in document.segments])
        same = translated(name, content, identity, placeholders=SYMBOLS)
    except UserError as error:
        assert error.code in ("bad-text", "bad-line", "bad-json", "damaged-file", "too-deep", "conflicting-languages")
    else:
        assert bool(result) == bool(content)
        if name not in ("a.html", "a.vtt", "a.po", "1.xliff", "2.xliff"):  # they write a bare "<", or translations
            if name == "a.srt":  # a space beside a tag that is damaged may be lost
                same, content = (b"".join(text.split()) for text in (same, content))
            assert same == content or members(same) == members(content)


def test_files_for_a_different_language_and_missing_translations_are_errors() -> None:
    content = units(1)(["One"]).replace(b'source-language="en"', b'target-language="fr"')
    assert refused("a.xliff", content, "target-language", target="de") == "conflicting-languages"
    assert b"<source>One</source><target" in translated("a.xliff", content, target="fr-CA")
    with pytest.raises(ValueError, match="0 translations for 1 segments"):
        open_file("a.html", b"<p>One</p>").render([])
