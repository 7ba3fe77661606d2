"""Files through the server: translated, kept for a while, refused if they are hostile."""

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.conftest import TinyRun
from tests.documents.pdf_files import pdf
from tests.documents.test_archives import FILES as ARCHIVES
from tests.serve.make import Client, make_app, stop

from regard.serve.libretranslate import FileStore, safe_name, translated_name

PAIR = {"source": "en", "target": "de"}
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@pytest.fixture(scope="module")
def client(tiny_run: TinyRun) -> Iterator[Client]:
    limits: dict[str, Any] = {"max_body": 2_000_000, "max_file_characters": 10_000}
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:de"], **limits)
    yield Client(app)
    stop(app.state.service)


def upload(client: Client, name: str, content: bytes, **fields: str) -> httpx.Response:
    """POST /translate_file."""
    return client.post("/translate_file", data={**PAIR, **fields}, files={"file": (name, content)})


def download(client: Client, answer: httpx.Response) -> httpx.Response:
    """GET the address that an answer names."""
    return client.get(urlsplit(answer.json()["translatedFileUrl"]).path)


def docx(document: bytes, **others: bytes) -> bytes:
    """A .docx file with this content of word/document.xml; `others` are further members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"[Content_Types].xml": b"<Types/>", "word/document.xml": document, **others}.items():
            archive.writestr(name, content)
    return file.getvalue()


def paragraph(text: str) -> bytes:
    """The document.xml of one paragraph."""
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    return f'<?xml version="1.0"?><w:document xmlns:w="{WORD}">{body}</w:document>'.encode()


FILES = {
    "a.txt": (b"one two three\n\nsix five four\n", b"eins zwei drei\n\nsechs f\xc3\xbcnf vier\n"),
    "b.html": (b"<p>one two three</p>", b"<p>eins zwei drei</p>"),
    "c.srt": (b"1\n00:00:01,000 --> 00:00:02,000\none two three\n", b"eins zwei drei"),
    "e.vtt": (b"WEBVTT\n\n00:01.000 --> 00:02.000\none two three\n", b"eins zwei drei"),
    "d.po": (b'msgid ""\nmsgstr ""\n\nmsgid "one two three"\nmsgstr ""\n', b'msgstr "eins zwei drei"'),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_translated_and_downloaded_as_an_attachment(client: Client, name: str) -> None:
    content, expected = FILES[name]
    file = download(client, upload(client, name, content, source="auto"))
    assert file.status_code == 200 and expected in file.content
    stem, _, ending = name.partition(".")
    assert file.headers["content-disposition"] == f"attachment; filename*=UTF-8''{stem}_de.{ending}"
    assert file.headers["x-content-type-options"] == "nosniff"


def test_a_word_document_is_translated(client: Client) -> None:
    file = download(client, upload(client, "a.docx", docx(paragraph("one two three"))))
    with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
        assert b"eins zwei drei" in archive.read("word/document.xml")


@pytest.mark.parametrize("name", ["one paragraph.docx", "formats.pptx", "formats.odt", "slides.odp", "book.epub"])
def test_archives_are_translated(client: Client, name: str) -> None:
    answer = upload(client, name, ARCHIVES[name])
    before, after = (zipfile.ZipFile(io.BytesIO(item)) for item in (ARCHIVES[name], download(client, answer).content))
    assert after.namelist() == before.namelist()
    assert any(after.read(member) != before.read(member) for member in after.namelist())


@pytest.mark.parametrize("source", ["en", "de"])
def test_the_translation_of_a_pdf_file_is_text(client: Client, source: str) -> None:
    pytest.importorskip("pypdf")
    file = download(client, upload(client, "a.pdf", pdf(["one two three"]), source=source))
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''a_de.txt"
    assert file.content == (b"eins zwei drei\n" if source == "en" else b"one two three\n")


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_translated_with_a_glossary(client: Client, name: str) -> None:
    content, expected = FILES[name]
    file = download(client, upload(client, name, content, source="auto", glossary='{"two": "ZWO"}'))
    assert file.status_code == 200 and expected.replace(b"zwei", b"ZWO") in file.content
    same = download(client, upload(client, name, content, glossary=""))
    assert expected in same.content


def test_a_glossary_for_a_word_document(client: Client) -> None:
    answer = upload(client, "a.docx", docx(paragraph("one two three")), glossary='{"two": "ZWO"}')
    with zipfile.ZipFile(io.BytesIO(download(client, answer).content)) as archive:
        assert b"eins ZWO drei" in archive.read("word/document.xml")


@pytest.mark.parametrize(
    ("glossary", "status"),
    [
        ("no JSON", 400),
        ("[]", 400),
        ('{"one": 1}', 400),
        ('{" one": "eins"}', 400),
        ('{"one": "\\ud800"}', 400),
        (f'{{"one": "{"x" * 600}"}}', 413),
        (f'{{"one": "{"x" * 30_000}"}}', 413),
    ],
)
def test_a_wrong_glossary_of_a_file_is_refused_as_that_of_a_text(client: Client, glossary: str, status: int) -> None:
    answer = upload(client, "a.txt", b"one two", glossary=glossary)
    text = client.post("/translate", data={"q": "one two", **PAIR, "glossary": glossary})
    assert (answer.status_code, text.status_code) == (status, status), (answer.text, text.text)
    assert list(answer.json()) == list(text.json()) == ["error"]


def test_problems_of_a_file_are_reported(client: Client) -> None:
    answer = upload(client, "a.txt", "Привет, мир\n".encode())
    assert answer.json()["problems"] == ["unknown-script"]
    assert download(client, answer).content == "Привет, мир\n".encode()
    assert set(upload(client, "a.txt", b"one two three\n").json()) == {"translatedFileUrl"}, "as in LibreTranslate"


def test_every_upload_has_a_name_of_its_own(client: Client) -> None:
    addresses = {upload(client, "../../ä b.txt", b"one").json()["translatedFileUrl"] for _ in range(3)}
    assert len(addresses) == 3
    assert all(address.endswith(".%C3%A4%20b_de.txt") for address in addresses)


def test_settings_name_the_formats(client: Client) -> None:
    settings = client.get("/frontend/settings").json()
    known = {*FILES, *ARCHIVES, "a.xliff"}
    assert settings["filesTranslation"] and set(settings["supportedFilesFormat"]) >= {
        Path(name).suffix for name in known
    }


@pytest.mark.parametrize(
    ("name", "content", "change"),
    [
        ("a.exe", b"one", {}),
        ("", b"one", {}),
        ("a.txt", b"one", {"source": ""}),
        ("a.txt", b"one", {"target": "zz"}),
        ("a.txt", b"one", {"source": "de", "target": "en"}),
        ("a.txt", b"\xff\xfe\xff", {}),
        ("a.docx", b"no archive", {}),
        ("a.po", b"\x00\x01", {"source": "zz"}),
    ],
)
def test_a_file_that_cannot_be_translated_is_400(
    client: Client, name: str, content: bytes, change: dict[str, str]
) -> None:
    answer = upload(client, name, content, **change)
    assert answer.status_code == 400 and list(answer.json()) == ["error"]


# ---- hostile files --------------------------------------------------------------------------------------------------


def laughs(inner: str) -> bytes:
    """XML whose entities would be a billion times a word."""
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    doctype = f'<!DOCTYPE x [<!ENTITY e0 "one">{entities}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    return b'<?xml version="1.0"?>' + doctype.encode() + inner.encode()


def zip_bomb(megabytes: int = 40) -> bytes:
    """A Word document of this size, in a thousandth of it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as member:
        for _ in range(megabytes):
            member.write(b" " * 1_000_000)
    return file.getvalue()


def many_members() -> bytes:
    return docx(paragraph("one"), **{f"word/{number}.xml": b"" for number in range(6_000)})


def deep_document() -> bytes:
    return b"<w:document xmlns:w='" + WORD.encode() + b"'>" + b"<w:p>" * 100_000


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(zip_bomb, id="a zip bomb"),
        pytest.param(lambda: docx(laughs(f"<w:t xmlns:w='{WORD}'>&e9;&f;</w:t>")), id="entities"),
        pytest.param(many_members, id="many members"),
        pytest.param(lambda: docx(deep_document()), id="deep XML"),
    ],
)
def test_a_hostile_word_document_is_refused(client: Client, content: Any) -> None:
    answer = upload(client, "a.docx", content())
    assert answer.status_code in (400, 413) and "root:" not in answer.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"one " * 2600),
        ("a.txt", b" " * 10_001),
        ("a.html", b"<b x='1'></b>" * 10_000),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\n" + b"one\n" * 3000),
        ("a.po", b'msgid "one"\nmsgstr ""\n\n' * 5000),
        ("a.docx", docx(paragraph("one " * 2600))),
    ],
)
def test_a_file_with_too_much_text_is_413(client: Client, name: str, content: bytes) -> None:
    answer = upload(client, name, content)
    assert answer.status_code == 413 and list(answer.json()) == ["error"]


def test_paths_inside_of_an_archive_lead_nowhere(client: Client) -> None:
    others = {"../../../tmp/regard-escaped": b"one", "/tmp/regard-escaped": b"one"}
    answer = upload(client, "a.docx", docx(paragraph("one two three"), **others))
    assert answer.status_code in (200, 400)
    assert not Path("/tmp/regard-escaped").exists()


@pytest.mark.parametrize("format", ["file", "text"])
def test_deep_html_takes_no_stack(client: Client, format: str) -> None:
    page = "<div>" * 20_000 + "one two three" + "</b>" * 1000
    if format == "file":
        answer = upload(client, "a.html", page.encode())
    else:
        answer = client.post("/translate", json={**PAIR, "q": page[:19_000], "format": "html"})
    assert answer.status_code in (200, 400, 413)


def test_a_body_of_100_mb_is_refused_before_it_has_arrived(client: Client) -> None:
    sent = 0

    async def content() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b"x" * 100_000

    for path, shape in (("/translate_file", "error"), ("/v2/translate", "message"), ("/models/numbers", "error")):
        sent = 0
        answer = client.post(path, content=content(), headers={"content-type": "multipart/form-data; boundary=x"})
        assert answer.status_code == 413 and list(answer.json()) == [shape] and sent < 30
        known = client.post(path, content=content(), headers={"content-length": str(10**8)})
        assert known.status_code == 413


def test_entities_in_html_stay_entities(client: Client) -> None:
    answer = upload(client, "a.html", laughs("<p>&e9; &f; one two three</p>"))
    assert answer.status_code == 200
    content = download(client, answer).content
    assert len(content) < 5000 and b"root:" not in content


# ---- the store ------------------------------------------------------------------------------------------------------


def test_files_are_removed_after_their_time() -> None:
    now = 0.0
    store = FileStore(max_age=10, clock=lambda: now)
    first = store.put("a.txt", b"1")
    now = 6.0
    second = store.put("b.txt", b"22")
    now = 11.0
    assert store.get(first) is None and store.get(second) is not None and store.size == 2
    now = 17.0
    assert store.get(second) is None and store.size == 0 and not store.files


def test_one_timer_removes_all_files_that_are_too_old() -> None:
    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return now

    now, loop = 0.0, Loop()
    store = FileStore(max_age=10, clock=lambda: now)
    handles = set()
    for second in (0.0, 1.0, 2.0, 9.0):
        now = second
        store.put("a.txt", b"1")
        store.purge_later(loop)
        handles.add(store.timer)
    (timer,) = handles
    assert timer is not None and timer.when() == 11
    for now, left in ((11.0, 2), (13.0, 1), (20.0, 0)):
        assert store.timer is not None and store.timer.when() == now
        store.timer._run()
        assert len(store.files) == left
    assert store.timer is None
    loop.close()


def test_the_oldest_files_make_place_for_new_ones() -> None:
    store = FileStore(max_bytes=100)
    keys = [store.put(f"{number}.txt", b"x" * 40) for number in range(5)]
    assert [store.get(key) is not None for key in keys] == [False, False, False, True, True] and store.size == 80
    large = store.put("large.txt", b"x" * 101)
    assert store.get(large) is None and store.size == 0


def test_names_of_files_have_no_folders() -> None:
    assert translated_name("/etc/a.b.txt", "de") == "a.b_de.txt"
    assert [safe_name(name) for name in ("..\\x.txt", "a\x00\n.txt", "..", "", 'a"<b>.txt')] == [
        "x.txt", "a.txt", "file", "file", "ab.txt",
    ]  # fmt: skip
    assert len(safe_name("x" * 500 + ".txt")) == 100
