"""Hostile files to a real server: status, seconds and memory for each.

    python -m tests.serve.hostile

The memory is that of this process, which is client and server. test_uploads.py has smaller ones of these as tests.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import requests
from tests.serve.fuzz import memory
from tests.serve.test_uploads import PAIR, WORD, deep_document, docx, laughs, paragraph, zip_bomb


def long_document() -> bytes:
    """A Word document of 20 MB with 350,000 paragraphs."""
    body = "".join(f"<w:p><w:r><w:t>one {number * 7919:x}</w:t></w:r></w:p>" for number in range(350_000))
    return docx(f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'.encode())


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "zip bomb, 1 GB": ("a.docx", lambda: zip_bomb(1000)),
    "350,000 paragraphs": ("a.docx", long_document),
    "20,000 members": ("a.docx", lambda: docx(paragraph("one"), **{f"word/{n}.xml": b"" for n in range(20_000)})),
    "paths out of the archive": ("a.docx", lambda: docx(paragraph("one"), **{"../../x": b"", "/tmp/x": b""})),
    "entities, a billion": ("a.docx", lambda: docx(laughs(f"<w:t xmlns:w='{WORD}'>&e9;&f;</w:t>"))),
    "entities in HTML": ("a.html", lambda: laughs("<p>&e9;&f;</p>")),
    "deep XML": ("a.docx", lambda: docx(deep_document())),
    "deep HTML, 1,800,000 tags": ("a.html", lambda: b"<div>" * 1_800_000),
    "deep HTML, 390,000 tags": ("a.html", lambda: b"<div>" * 390_000),
    "2 MB of <": ("a.html", lambda: b"<" * 1_990_000),
    "a tag of 2 MB": ("a.html", lambda: b"<a " + b'x="1" ' * 330_000 + b">one</a>"),
    "9 MB of text": ("a.txt", lambda: b"one two three " * 640_000),
    "190,000 dots": ("a.txt", lambda: b"." * 190_000),
    "60,000 subtitles": ("a.srt", lambda: b"1\n00:00:01,000 --> 00:00:02,000\n\n" * 60_000),
    "80,000 messages": ("a.po", lambda: b'msgid "one"\nmsgstr ""\n\n' * 80_000),
    "60,000 cues": ("a.vtt", lambda: b"WEBVTT\n\n" + b"00:01.000 --> 00:02.000\n<i>\n\n" * 60_000),
    "deep XLIFF": ("a.xliff", lambda: b'<xliff version="1.2">' + b"<group>" * 200_000),
    "entities in XLIFF": ("a.xliff", lambda: laughs('<xliff version="1.2">&e9;</xliff>')),
    "deep JSON": ("a.json", lambda: b"[" * 1_000_000),
    "a string of 2 MB": ("a.json", lambda: b'["' + b"\\\\" * 990_000 + b'"]'),
    "200,000 marks": ("a.md", lambda: b"**[`<_" * 200_000),
    "100,000 quotes": ("a.md", lambda: b"> " * 100_000 + b"one"),
    "a bomb as a book": ("a.epub", lambda: zip_bomb(1000)),
}


def chunks() -> Iterator[bytes]:
    """100 MB, part by part."""
    for _ in range(1000):
        yield b"x" * 100_000


def main() -> None:
    """Train a tiny run, serve it, and send the files."""
    from tests.serve.make import make_app, running, stop
    from tests.tiny import train_run

    with tempfile.TemporaryDirectory() as name:
        app = make_app({"numbers": train_run(Path(name), "translation")}, ["numbers=en:de"])
        with running(app) as address:
            url = f"{address}/translate_file"
            for title, (file, content) in FILES.items():
                upload = {"file": (file, content())}
                report(title, lambda files=upload: requests.post(url, data=PAIR, files=files, timeout=600))  # type: ignore[misc]
            report("a body of 100 MB", lambda: requests.post(url, data=chunks(), timeout=600))
        stop(app.state.service)


def report(title: str, send: Callable[[], requests.Response]) -> None:
    """Send a request and print a line."""
    started = time.perf_counter()
    answer = send()
    seconds = time.perf_counter() - started
    print(f"{title:28} {answer.status_code} {seconds:6.2f} s {memory():6.0f} MB  {answer.text[:90]}", flush=True)


if __name__ == "__main__":
    main()
