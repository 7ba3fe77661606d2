"""Archives of XML (.docx, .pptx, .odt, .odp, .epub): odd files stay as they are but for their text.

Properties of every file and every translation: members keep their order, compression and, without text, their bytes;
every element outside of runs is there once; XML is well-formed; protected parts are copied once. A file whose
translation is its text is equal byte by byte.
"""

import io
import zipfile
from collections import Counter
from collections.abc import Mapping

import docx  # type: ignore[import-not-found, unused-ignore]
import pptx  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped, unused-ignore]
from tests.documents.translators import Translate, anything, backwards, identity, refused, translated

from regard.documents.document import open_file

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
STORED = ("mimetype",)


def pack(members: Mapping[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"a comment"
        for name, content in members.items():
            kind = zipfile.ZIP_STORED if name in STORED else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6)), content, kind)
    return stream.getvalue()


def unpack(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# ---- the files -------------------------------------------------------------------------------------------------------


def word(body: str, **others: str) -> bytes:
    names = f'xmlns:w="{WORD}" xmlns:r="r" xmlns:m="m" xmlns:mc="mc" xmlns:wp="wp"'
    parts = {"document": body, **others}
    members = {
        f"word/{name}.xml": f'<?xml version="1.0" encoding="UTF-8"?>\r\n<w:x {names}><w:body>{part}</w:body></w:x>'
        for name, part in parts.items()
    }
    return pack({"[Content_Types].xml": "<Types/>", **members, "word/media/a.png": b"\x89PNG\x00", "docProps/": ""})


def run(text: str, properties: str = "") -> str:
    return f"<w:r>{properties}<w:t>{text}</w:t></w:r>"


BOLD, HIDDEN = "<w:rPr><w:b/></w:rPr>", "<w:rPr><w:vanish/></w:rPr>"
WORD_FILES = {
    "empty": word(""),
    "empty paragraphs": word("<w:p/><w:p></w:p><w:p><w:r/></w:p><w:p><w:r></w:r></w:p>"),
    "one paragraph": word(f"<w:p>{run('Hello %s one')}</w:p>"),
    "style inside a word": word(f"<w:p>{run('H')}{run('2', BOLD)}{run('O is &lt;water&gt; &amp; ice')}</w:p>"),
    "attributes of runs": word(
        '<w:p w:rsidR="1"><w:r w:rsidR="2"><w:rPr><w:lang w:val="en"/></w:rPr><w:t>One </w:t></w:r>\n'
        '  <w:r w:rsidR="3">\n  <w:t xml:space="preserve">two </w:t>\n </w:r><w:r><w:t>three</w:t></w:r></w:p>'
    ),
    "comment in text": word("<w:p><w:r><w:t>Hel<!-- no -->lo wor<?pi x>y?>ld</w:t></w:r></w:p>"),
    "cdata": word("<w:p><w:r><w:t><![CDATA[Hello <b> & ]]>you</w:t></w:r></w:p>"),
    "tabs and breaks": word(
        "<w:p><w:r><w:t>Name:</w:t><w:tab/><w:t>value</w:t><w:br/><w:t>Next line.</w:t></w:r>"
        '<w:r><w:br w:type="page"/></w:r><w:r><w:t>Last</w:t><w:cr/></w:r></w:p>'
    ),
    "nested tables": word(
        f"<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc><w:p>{run('inner cell')}</w:p></w:tc></w:tr></w:tbl>"
        f"<w:p>{run('outer cell')}</w:p></w:tc></w:tr></w:tbl>"
    ),
    "notes and comments": word(
        f"<w:p>{run('See')}<w:commentRangeStart w:id='1'/><w:r><w:footnoteReference w:id='2'/></w:r>{run(' this.')}"
        "<w:commentRangeEnd w:id='1'/><w:r><w:commentReference w:id='1'/></w:r></w:p>",
        footnotes=f"<w:footnote w:id='2'><w:p>{run('A note.')}</w:p></w:footnote>",
        endnotes=f"<w:endnote><w:p>{run('The end.')}</w:p></w:endnote>",
        header1=f"<w:p>{run('A header')}</w:p>",
        footer12=f"<w:p>{run('A footer')}</w:p>",
        comments=f"<w:comment w:id='1'><w:p>{run('Why?')}</w:p></w:comment>",
    ),
    "fields": word(
        f"<w:p>{run('Page ')}<w:fldSimple w:instr='PAGE'>{run('3')}</w:fldSimple>{run(' of ')}<w:r><w:fldChar "
        "w:fldCharType='begin'/></w:r><w:r><w:instrText>X</w:instrText></w:r><w:r><w:fldChar w:fldCharType='separate'/>"
        f"</w:r>{run('this book')}<w:r><w:fldChar w:fldCharType='end'/></w:r></w:p>"
        "<w:p><w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:t>no end</w:t></w:r></w:p>"
    ),
    "hidden text": word(f"<w:p>{run('Seen ')}{run('and hidden', HIDDEN)}{run(' words')}</w:p>"),
    "changes": word(
        f"<w:p>{run('Now ')}<w:ins w:id='1'>{run('new ')}</w:ins><w:del w:id='2'><w:r><w:delText>old</w:delText></w:r>"
        f"</w:del>{run('text')} <m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>{run(' ends.')}</w:p>"
    ),
    "text boxes": word(
        "<w:p><w:r><w:t>Before </w:t><mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>In the box</w:t>"
        f"</w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:pict><w:txbxContent><w:p>{run('In the box')}"
        f"</w:p></w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r>{run('and after it')}</w:p>"
    ),
    "content controls": word(f"<w:p>{run('A ')}<w:sdt><w:sdtContent>{run('control')}</w:sdtContent></w:sdt></w:p>"),
    "byte order mark": pack({"word/document.xml": f'\ufeff<w:p xmlns:w="{WORD}">{run("One two")}</w:p>'}),
    "another name": pack({"word/document2.xml": f'<w:p xmlns:w="{WORD}">{run("One two")}</w:p>'}),
    "utf-16": pack({"word/document.xml": f'<w:p xmlns:w="{WORD}">{run("One two")}</w:p>'.encode("utf-16")}),
}


def slides(*bodies: str, **others: str) -> bytes:
    parts = {f"slides/slide{number}": body for number, body in enumerate(bodies, 1)} | others
    members = {
        f"ppt/{name}.xml": f'<p:sld xmlns:a="{DRAWING}" xmlns:p="p">{body}</p:sld>' for name, body in parts.items()
    }
    return pack(
        {"[Content_Types].xml": "<Types/>", "ppt/presentation.xml": "<p/>", **members, "ppt/media/a.emf": b"\x01"}
    )


SLIDE_FILES = {
    "no slides": slides(),
    "empty": slides("<p:txBody><a:p/><a:p><a:endParaRPr/></a:p></p:txBody>"),
    "formats": slides(
        '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>Click </a:t></a:r><a:r><a:rPr lang="de" b="1">'
        '<a:hlinkClick id="r"/></a:rPr><a:t>the link</a:t></a:r><a:r><a:rPr lang="fr"/><a:t> at %1$s.</a:t></a:r>'
        "<a:endParaRPr/></a:p>"
    ),
    "breaks and fields": slides(
        '<a:p><a:r><a:t>Page</a:t></a:r><a:fld id="1" type="slidenum"><a:rPr/><a:t>7</a:t></a:fld><a:br><a:rPr/></a:br>'
        "<a:r><a:t>Next line</a:t></a:r></a:p>"
    ),
    "table and notes": slides(
        "<a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>In a cell</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>",
        **{
            "notesSlides/notesSlide1": "<a:p><a:r><a:t>A note</a:t></a:r></a:p>",
            "slideMasters/slideMaster1": "<a:p><a:r><a:t>Click to edit</a:t></a:r></a:p>",
            "charts/chart1": "<a:p><a:r><a:t>A title</a:t></a:r></a:p>",
            "diagrams/data1": "<a:p><a:r><a:t>A step</a:t></a:r></a:p>",
        },
    ),
}


def office(kind: str, body: str, styles: str = "") -> bytes:
    names = "".join(f' xmlns:{name}="{OFFICE}{name}:1.0"' for name in ("office", "text", "table", "draw"))
    members = {
        f"{name}.xml": f'<?xml version="1.0"?>\n<office:document{names} xmlns:dc="dc">{part}</office:document>\n'
        for name, part in {"content": body, "styles": styles, "meta": "<dc:title>A title</dc:title>"}.items()
    }
    return pack({"mimetype": f"application/vnd.oasis.opendocument.{kind}", **members, "Pictures/a.png": b"\x89"})


OPEN_FILES = {
    "empty": office("text", ""),
    "empty paragraphs": office("text", "<text:p/><text:p></text:p><text:h> </text:h>"),
    "formats": office(
        "text",
        '<text:h text:outline-level="1">A <text:span text:style-name="T1">bold</text:span> title</text:h>\n'
        "<text:p>See <text:a href='x'>the <text:span>old</text:span> house</text:a>, H<text:span>2</text:span>O &amp;"
        " <text:s text:c='2'/>{name}.</text:p>",
        "<text:p>A footer</text:p>",
    ),
    "breaks": office(
        "text", "<text:p>One<text:tab/>two<text:line-break/>three <text:span>a<text:tab/>b</text:span></text:p>"
    ),
    "fields": office(
        "text", "<text:p>Page <text:page-number>3</text:page-number> of it, <text:date>May 1</text:date></text:p>"
    ),
    "notes": office(
        "text",
        "<text:p>A word<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>The note "
        "<text:span>is</text:span> here.</text:p></text:note-body></text:note> and more.</text:p>",
    ),
    "comments and changes": office(
        "text",
        "<text:tracked-changes><text:p>Deleted words</text:p></text:tracked-changes><text:p>Some <office:annotation>"
        "<dc:creator>Me</dc:creator><text:p>Really?</text:p></office:annotation>text<!-- no --> is "
        "<text:bookmark/>here.</text:p>",
    ),
    "tables and frames": office(
        "text",
        "<table:table><table:table-cell><text:p>Outer</text:p><table:table><table:table-cell><text:p>Inner</text:p>"
        "</table:table-cell></table:table></table:table-cell></table:table><text:p>Before <draw:frame><draw:text-box>"
        "<text:p>In the box</text:p></draw:text-box></draw:frame>after</text:p>",
    ),
    "cdata": office("text", "<text:p><![CDATA[One <b> & ]]>two</text:p>"),
    "slides": office(
        "presentation",
        "<draw:page><draw:frame><draw:text-box><text:p>A slide</text:p></draw:text-box></draw:frame></draw:page>",
    ),
}
CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/content.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata><title>A title</title></metadata><manifest>
<item href="a%20b.xhtml" media-type="application/xhtml+xml"/><item href="nav.xhtml" media-type="application/xhtml+xml"
properties="nav"/><item href="toc.ncx" media-type="application/x-dtbncx+xml"/><item href="a.css" media-type="text/css"/>
<item href="missing.xhtml" media-type="application/xhtml+xml"/></manifest></package>"""
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>A page</title><script src="x"/></head>
<body><p id="a">Hello <b>my dear</b> friend.<a id="x"/></p><p/><div/><img alt="A cat" src="c"/></body></html>"""
NAV = """<html xmlns="http://www.w3.org/1999/xhtml"><body><nav><ol><li><a href="a%20b.xhtml">The start</a></li></ol>
</nav></body></html>"""
NCX = """<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/x.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>A title</text></docTitle><navMap><navPoint id="a">
<navLabel><text>The start</text></navLabel><content src="a%20b.xhtml"/></navPoint></navMap></ncx>"""
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OEBPS/content.opf": PACKAGE,
    "OEBPS/a b.xhtml": PAGE,
    "OEBPS/nav.xhtml": NAV,
    "OEBPS/toc.ncx": NCX,
    "OEBPS/a.css": "p { color: red }",
    "OEBPS/unlisted.xhtml": PAGE,
}
FILES = {
    **{f"{key}.docx": content for key, content in WORD_FILES.items()},
    **{f"{key}.pptx": content for key, content in SLIDE_FILES.items()},
    **{f"{key}.odt": content for key, content in OPEN_FILES.items()},
    "slides.odp": OPEN_FILES["slides"],
    "book.epub": pack(BOOK),
    "no pages.epub": pack({"META-INF/container.xml": CONTAINER, "OEBPS/content.opf": "<package/>"}),
}
NAMES = st.sampled_from(sorted(FILES))
WORDS = ("x", "Yy", "zzz.", "你", "<", "&", "]]>", "\x07", "\n", "⦅0⦆")


# ---- properties ------------------------------------------------------------------------------------------------------


def elements(data: bytes) -> Counter[object]:
    """All elements of a file with their attributes, comments too, but for runs and what is in them."""
    found: Counter[object] = Counter()
    for item in etree.fromstring(data).iter():
        name = str(item.tag).rpartition("}")[2]
        around = [str(parent.tag).rpartition("}")[2] for parent in item.iterancestors()]
        if name not in ("r", "t", "rPr") and "rPr" not in around:
            values = sorted(pair for pair in item.attrib.items() if pair[0] != "alt")
            found[name, tuple(values) if isinstance(item.tag, str) else item.text] += 1
    return found


def structure(content: bytes) -> list[tuple[object, ...]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(item.filename, item.compress_type, item.date_time, item.comment) for item in archive.infolist()]
        return [(archive.comment,), *entries]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_whose_text_stays_keeps_its_bytes(name: str) -> None:
    result = translated(name, FILES[name], identity)
    assert unpack(result) == unpack(FILES[name])
    assert structure(result) == structure(FILES[name])


@settings(max_examples=150)
@given(NAMES, st.integers(0, 1000), st.booleans())
def test_no_translation_breaks_a_file(name: str, seed: int, is_reversed: bool) -> None:
    result = translated(name, FILES[name], backwards if is_reversed else anything(seed, WORDS))
    assert structure(result) == structure(FILES[name])
    before, after = unpack(FILES[name]), unpack(result)
    for member, data in after.items():
        if data != before[member]:
            assert elements(data) == elements(before[member])
            for part in (b"%s", b"%1$s", b"{name}"):
                assert data.count(part) == before[member].count(part)


def texts(name: str, member: str, translate: Translate = backwards) -> list[str]:
    """The text of each paragraph in a member of a translated file, without what is nested in it."""
    tree = etree.fromstring(unpack(translated(name, FILES[name], translate))[member])
    blocks = [item for item in tree.iter() if str(item.tag).rpartition("}")[2] in ("p", "h", "text")]
    return ["".join(item.itertext()) for item in blocks if not item.xpath("ancestor::*[local-name()='p']")]


def test_text_is_translated_in_every_kind_of_part() -> None:
    main = "word/document.xml"
    assert texts("one paragraph.docx", main) == ["ONE %s HELLO"]
    assert texts("comment in text.docx", main) == ["WORLD HELLO"]
    assert texts("cdata.docx", main) == ["YOU & <b> HELLO"]
    assert texts("tabs and breaks.docx", main) == [": NAMEVALUE. LINE NEXTLAST"]
    assert texts("nested tables.docx", main) == ["CELL INNER", "CELL OUTER"]
    assert texts("notes and comments.docx", main) == [". THIS SEE"]
    assert texts("notes and comments.docx", "word/footnotes.xml") == [". NOTE A"]
    assert texts("notes and comments.docx", "word/header1.xml") == ["HEADER A"]
    assert texts("notes and comments.docx", "word/comments.xml") == ["Why?"]
    assert texts("changes.docx", main)[0].replace("old", "") == ". ENDS TEXTx NEW NOW"
    assert texts("table and notes.pptx", "ppt/notesSlides/notesSlide1.xml") == ["NOTE A"]
    assert texts("table and notes.pptx", "ppt/slideMasters/slideMaster1.xml") == ["Click to edit"]
    assert texts("table and notes.pptx", "ppt/charts/chart1.xml") == ["TITLE A"]
    assert texts("breaks and fields.pptx", "ppt/slides/slide1.xml") == ["PAGE7LINE NEXT"]
    assert texts("formats.odt", "styles.xml") == ["FOOTER A"]
    assert texts("fields.odt", "content.xml") == ["May 1 , IT OF 3 PAGE"]
    assert texts("cdata.odt", "content.xml") == ["TWO & <b> ONE"]
    assert texts("comments and changes.odt", "content.xml")[0] == "Deleted words"
    assert texts("slides.odp", "content.xml") == ["SLIDE A"]
    assert texts("book.epub", "OEBPS/toc.ncx") == ["TITLE A", "START THE"]
    assert texts("book.epub", "OEBPS/a b.xhtml")[0] == ". FRIEND DEAR MY HELLO"
    assert b">START THE</a>" in unpack(translated("a.epub", FILES["book.epub"]))["OEBPS/nav.xhtml"]


def test_a_sentence_around_a_note_or_a_box_is_one_sentence() -> None:
    def sentences(name: str) -> list[str]:
        return [segment.text for segment in open_file(name, FILES[name]).segments]

    assert sentences("notes.odt") == ["The note is here.", "A word and more."]
    assert sentences("tables and frames.odt") == ["Outer", "Inner", "In the box", "Before after"]
    assert sentences("text boxes.docx") == ["In the box", "In the box", "Before and after it"]
    assert sentences("tabs and breaks.docx") == ["Name:", "value", "Next line.", "Last"]
    assert sentences("fields.docx") == ["Page 3 of this book"]
    assert sentences("breaks and fields.pptx") == ["Page", "Next line"]


def test_formatting_moves_with_its_words() -> None:
    title, line = etree.fromstring(unpack(translated("a.odt", FILES["formats.odt"]))["content.xml"])[:2]
    assert (title.text, title[0].text, title[0].tail) == ("TITLE ", "BOLD", " A")
    assert "".join(line[-1].itertext()) == "HOUSE OLD THE"
    slide = unpack(translated("a.pptx", FILES["formats.pptx"]))["ppt/slides/slide1.xml"]
    assert b'<a:hlinkClick id="r"/></a:rPr><a:t>LINK THE</a:t>' in slide


# ---- other programs' files -------------------------------------------------------------------------------------------


def presentation() -> bytes:
    slides, stream = pptx.Presentation(), io.BytesIO()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = "The title"
    paragraph = slide.placeholders[1].text_frame.paragraphs[0]
    for text, is_bold in (("Click the ", False), ("red button", True), (".", False)):
        part = paragraph.add_run()
        part.text, part.font.bold = text, is_bold
    slide.notes_slide.notes_text_frame.text = "A note"
    slides.save(stream)
    return stream.getvalue()


def test_python_pptx_reads_a_translated_presentation() -> None:
    content = presentation()
    slide = pptx.Presentation(io.BytesIO(translated("a.pptx", content))).slides[0]
    assert slide.shapes.title.text == "TITLE THE"
    assert [(run.text, run.font.bold) for run in slide.placeholders[1].text_frame.paragraphs[0].runs] == [
        (". ", False), ("BUTTON RED", True), (" THE CLICK", False),
    ]  # fmt: skip
    assert slide.notes_slide.notes_text_frame.text == "NOTE A"
    assert unpack(translated("a.pptx", content, identity)) == unpack(content)


def test_python_docx_reads_odd_files() -> None:
    document, stream = docx.Document(), io.BytesIO()
    document.add_paragraph("first").add_run().add_break()
    document.paragraphs[0].add_run("second line")
    document.save(stream)
    result = docx.Document(io.BytesIO(translated("a.docx", stream.getvalue())))
    assert [item.text for item in result.paragraphs] == ["FIRST\nLINE SECOND"]


# ---- hostile files ---------------------------------------------------------------------------------------------------

MAIN = {".docx": "word/document.xml", ".pptx": "ppt/slides/slide1.xml", ".odt": "content.xml", ".odp": "content.xml"}


def with_main(ending: str, data: str | bytes) -> bytes:
    return pack({"ppt/presentation.xml": "<p/>", MAIN[ending]: data})


@pytest.mark.parametrize("ending", MAIN)
@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("<a><b></a>", "damaged-file"),
        ("", "damaged-file"),
        (b"<a>\xff</a>", "bad-text"),
        ('<?xml version="1.0" encoding="unicode_escape"?><a/>', "bad-text"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><a>&a;</a>', "damaged-file"),
        ("<a>&b;</a>", "damaged-file"),
        ("<a>" * 300 + "</a>" * 300, "too-deep"),
        ("<a>" + " " * 31_000_000 + "</a>", "too-large"),
        (f'<x:p xmlns:x="{WORD}"/>', "damaged-file"),
        (f'<p xmlns="{OFFICE}text:1.0"/>', "damaged-file"),
    ],
)  # fmt: skip
def test_hostile_parts_are_refused(ending: str, data: str | bytes, code: str) -> None:
    assert refused(f"a{ending}", with_main(ending, data)) == code


def test_hostile_archives_are_refused() -> None:
    for ending in (*MAIN, ".epub"):
        assert refused(f"a{ending}", b"PK") == "damaged-file"
        assert refused(f"a{ending}", pack({"other.xml": "<a/>"})) == "damaged-file"
        assert refused(f"a{ending}", pack({f"{number}.xml": "" for number in range(5_001)})) == "too-large"
    assert refused("a.epub", pack({"META-INF/container.xml": CONTAINER})) == "damaged-file"
    box = "<text:p><draw:frame>" * 22 + "</draw:frame></text:p>" * 22
    assert refused("a.odt", office("text", box)) == "too-deep"
    box = "<w:p><w:r><w:pict>" * 23 + "</w:pict></w:r></w:p>" * 23
    assert refused("a.docx", word(box)) == "too-deep"
