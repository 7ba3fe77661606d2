"""Files: read back by other programs' libraries, the rest byte by byte, and hostile ones refused."""

import io
import zipfile
from collections.abc import Callable

import docx  # type: ignore[import-not-found, unused-ignore]
import polib  # type: ignore[import-not-found, import-untyped, unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.translators import anything, backwards, identity, refused, translated

from regard.documents.document import open_file
from regard.documents.segment import Segment, SegmentTranslation

# ---- text and HTML ---------------------------------------------------------------------------------------------------


def test_text_keeps_its_encoding_and_line_ends() -> None:
    text = "One two.\r\n\r\n  Three\n"
    for encoding, bom in (("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe")):
        content = bom + text.encode(encoding)
        assert translated("a.TXT", content, identity) == content
        assert translated("a.txt", content) == bom + ". TWO ONE\r\n\r\n  THREE\n".encode(encoding)
    assert refused("a.txt", b"\xff\xfa\x00x") == "bad-text"
    assert refused("a.rtf", b"x") == "unsupported-file"
    assert refused("a.txt", b"x" * 50_000_001) == "too-large"


def test_a_page_keeps_the_encoding_that_it_declares() -> None:
    page = '<meta charset="iso-8859-1"><p>Caf\xe9 one</p>'.encode("latin-1")
    assert translated("a.html", page, identity) == page
    assert b"<p>&#20320;&#22909;</p>" in translated("a.htm", page, lambda segment: SegmentTranslation("你好"))
    chinese = '<meta charset="GB2312"><p>朱镕基</p>'.encode("gbk")  # 镕 is not in gb2312; browsers show it
    assert translated("a.html", chinese, identity) == chinese
    assert refused("a.html", b'<meta charset="unicode_escape">\\x41') == "bad-text"


# ---- messages --------------------------------------------------------------------------------------------------------

MESSAGES = r"""# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: a.c:1
#, c-format
msgid "Delete <b>%s</b> \"now\"\n"
msgstr ""

msgctxt "menu"
msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Zumachen?"

#, python-format
msgid "%(n)d file in\n"
"the folder"
msgid_plural "%(n)d files"
msgstr[0] ""
msgstr[1] ""

#~ msgid "old"
#~ msgstr ""
"""


def test_messages_without_a_translation_get_one() -> None:
    result = translated("de.po", MESSAGES.encode()).decode()
    before, after = polib.pofile(MESSAGES), polib.pofile(result)
    assert [entry.msgid for entry in after] == [entry.msgid for entry in before]
    assert [entry.flags for entry in after] == [entry.flags for entry in before]
    delete, *kept, plural, obsolete = list(after)
    assert delete.msgstr == '" NOW " <b>%s</b> DELETE\n'
    assert [entry.msgstr for entry in kept] == ["Öffnen", "Zumachen?"]
    assert plural.msgstr_plural == {0: "FOLDER\nTHE IN FILE %(n)d", 1: "FILES %(n)d"}
    assert obsolete.obsolete and not obsolete.msgstr
    changed = [line for line in result.splitlines() if line not in MESSAGES.splitlines()]
    assert all(line.startswith(("msgstr", '"')) for line in changed)


def test_the_only_form_of_a_language_without_plural_is_the_plural() -> None:
    result = translated("zh.po", b'msgid "one file"\nmsgid_plural "many files"\nmsgstr[0] ""\n').decode()
    assert polib.pofile(result)[0].msgstr_plural == {0: "FILES MANY"}


@settings(max_examples=60)
@given(st.text('aB\\"\n\t.%s{}<b>é', min_size=1, max_size=30), st.integers(0, 50))
def test_every_message_can_be_read_back(message: str, seed: int) -> None:
    file = polib.POFile()
    file.append(polib.POEntry(msgid=message, msgstr=""))
    content = str(file).encode()
    assert polib.pofile(translated("a.po", content, identity).decode())[0].msgstr.split() == message.split()
    assert polib.pofile(translated("a.po", content, anything(seed)).decode())[0].msgid == message


def test_a_file_that_is_not_gettext_is_refused() -> None:
    assert refused("a.po", b"hello\n") == "bad-line"


# ---- Word ------------------------------------------------------------------------------------------------------------


def word_file(build: Callable[["docx.document.Document"], None]) -> bytes:
    document, stream = docx.Document(), io.BytesIO()
    build(document)
    document.save(stream)
    return stream.getvalue()


def build_example(document: "docx.document.Document") -> None:
    paragraph = document.add_paragraph("Click the ")
    paragraph.add_run("red button").bold = True
    paragraph.add_run(" & wait")
    paragraph.add_run(".").italic = True
    document.add_paragraph("Name:\tvalue one")
    document.add_paragraph("12 %")
    paragraph = document.add_paragraph("first")
    paragraph.add_run().add_break()
    paragraph.add_run("second line")
    document.add_table(1, 2).cell(0, 1).text = "In a cell"
    document.sections[0].header.paragraphs[0].text = "The header"


def runs(content: bytes) -> list[list[tuple[str, bool]]]:
    document = docx.Document(io.BytesIO(content))
    return [[(run.text, bool(run.bold)) for run in item.runs] for item in document.paragraphs]


def test_formatting_of_word_files_moves_with_its_words() -> None:
    content = word_file(build_example)
    result = translated("a.docx", content)
    click, name, number, lines = runs(result)
    assert ("BUTTON RED", True) in click
    assert "".join(text for text, _ in click) == ". WAIT & BUTTON RED THE CLICK"
    assert "".join(text for text, _ in name) == ": NAME\tONE VALUE"
    assert number == [("12 %", False)]
    assert "".join(text for text, _ in lines) == "FIRST\nLINE SECOND"
    document = docx.Document(io.BytesIO(result))
    assert document.tables[0].cell(0, 1).text == "CELL A IN"
    assert document.sections[0].header.paragraphs[0].text == "HEADER THE"


def test_word_files_stay_equal_under_the_same_text() -> None:
    content = word_file(build_example)
    result = translated("a.docx", content, identity)
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (content, result))
    assert after.namelist() == before.namelist()
    for name in before.namelist():
        if name not in ("word/document.xml", "word/header1.xml"):
            assert after.read(name) == before.read(name)
    texts = ["".join(text for text, _ in paragraph) for paragraph in runs(result)]
    assert texts == ["".join(text for text, _ in paragraph) for paragraph in runs(content)]
    assert [run for run in runs(result)[0] if run[1]] == [("red button", True)]


FIELD = """<w:p><w:pPr><w:b/></w:pPr><w:bookmarkStart w:id="1"/><w:r><w:t>See </w:t></w:r>
<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "x"</w:instrText></w:r><w:r>
<w:fldChar w:fldCharType="separate"/></w:r><w:r><w:rPr><w:u/></w:rPr><w:t>this page</w:t></w:r><w:r><w:fldChar
w:fldCharType="end"/></w:r><w:hyperlink r:id="r1"><w:r><w:t xml:space="preserve"> or that</w:t></w:r></w:hyperlink><w:r>
<w:drawing><x/></w:drawing></w:r><w:bookmarkEnd w:id="1"/></w:p><w:p><w:r><w:t>Box </w:t><w:pict><w:txbxContent><w:p>
<w:r><w:t>Inner text</w:t></w:r></w:p></w:txbxContent></w:pict></w:r><w:r><w:t>after it</w:t></w:r></w:p>"""


def xml_file(body: str, name: str = "word/document.xml") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, body)
    return stream.getvalue()


def body_of(content: bytes) -> str:
    return zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml").decode()


@settings(max_examples=30)
@given(st.integers(0, 1000))
def test_links_fields_and_boxes_of_word_files_stay_whole(seed: int) -> None:
    from lxml import etree  # type: ignore[import-untyped, unused-ignore]

    for translate in (identity, backwards, anything(seed)):
        body = body_of(translated("a.docx", xml_file(f"<w:body>{FIELD}</w:body>"), translate))
        tree = etree.fromstring(body.replace("w:body", 'w:body xmlns:w="w" xmlns:r="r"', 1))
        kinds = [item.get("{w}fldCharType") for item in tree.iter("{w}fldChar")]
        assert kinds == ["begin", "separate", "end"]
        for name in ("instrText", "hyperlink", "drawing", "bookmarkStart", "bookmarkEnd", "txbxContent"):
            assert len(list(tree.iter(f"{{w}}{name}"))) == 1
        assert all(item.getparent().tag == "{w}r" for item in tree.iter("{w}t", "{w}drawing", "{w}fldChar"))


def test_hostile_word_files_are_refused() -> None:
    assert refused("a.docx", b"PK") == "damaged-file"
    assert refused("a.docx", xml_file("<w:p/>", "word/other.xml")) == "damaged-file"
    assert refused("a.docx", xml_file('<!DOCTYPE x [<!ENTITY a "b">]><w:p/>')) == "damaged-file"
    assert refused("a.docx", xml_file(" " * 11_000_000)) == "too-large"
    assert refused("a.docx", xml_file("<w:p><w:r>" * 3_000)) == "too-deep"
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(5_001):
            archive.writestr(f"word/{number}.xml", "")
    assert refused("a.docx", many.getvalue()) == "too-large"
    damaged = bytearray(word_file(build_example))
    damaged[60:200] = bytes(140)
    assert refused("a.docx", bytes(damaged)) == "damaged-file"


def test_segments_of_files_need_links_where_something_must_be_located() -> None:
    found = open_file("a.docx", word_file(build_example)).segments
    assert next(item for item in found if item.needs_links) == Segment("Click the red button & wait.", True)
    assert Segment("In a cell", False) in found
