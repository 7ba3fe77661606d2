"""PDF files: their text is translated and written as text; damaged, encrypted and empty files are refused."""

import io
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.pdf_files import pdf
from tests.documents.translators import backwards, identity, refused, translated

from regard.documents.pdf import join_lines
from regard.errors import UserError

pypdf = pytest.importorskip("pypdf")
MANY = "A line that is long enough to go on in the next"


def encrypted(password: str) -> bytes:
    writer, stream = pypdf.PdfWriter(io.BytesIO(pdf(["One two"]))), io.BytesIO()
    writer.encrypt(password, "owner", algorithm="RC4-128")
    writer.write(stream)
    return stream.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_the_text_of_a_file_is_translated(packed: bool) -> None:
    content = pdf(["The title", MANY, "line of it. End.", "Caf\xe9 %s"], ["Second page"], packed=packed)
    expected = f"The title\n{MANY} line of it. End.\nCafé %s\n\nSecond page\n"
    assert translated("a.pdf", content, identity).decode() == expected
    assert translated("a.pdf", content).decode().splitlines()[0] == "TITLE THE"
    assert translated("a.pdf", content, backwards).decode().splitlines()[2] == "%s CAFÉ"


def test_lines_become_paragraphs() -> None:
    assert join_lines("") == []
    assert join_lines("Title\n\nOne\ntwo\nThree") == ["Title", "", "One two", "Three"]
    assert join_lines("a trans-\nlation, Anglo-\nSaxon") == ["a translation, Anglo-Saxon"]
    assert join_lines(f"{MANY}\nOne.\n{MANY}.\nTwo") == [f"{MANY} One.", f"{MANY}.", "Two"]
    assert join_lines("你好你好你好\n你好。\n你好") == ["你好你好你好你好。", "你好"]


@settings(max_examples=60)
@given(st.lists(st.text("ab C.-", max_size=12), max_size=8))
def test_no_letter_is_lost(lines: list[str]) -> None:
    joined = "".join("".join(join_lines("\n".join(lines))).split())
    assert joined.replace("-", "") == "".join("".join(lines).split()).replace("-", "")


def test_files_that_cannot_be_read_are_refused() -> None:
    content = pdf(["One two"])
    assert refused("a.pdf", b"") == refused("a.pdf", b"%PDF-1.4\nxx") == "damaged-file"
    assert refused("a.pdf", content[:200]) == "damaged-file"
    assert refused("a.pdf", pdf([])) == refused("a.pdf", pdf([""])) == "no-text"
    assert refused("a.pdf", encrypted("secret")) == "encrypted-file"
    assert refused("a.pdf", content, max_characters=3) == "too-large"
    assert refused("a.pdf", pdf(["x" * 21_000_000], packed=True)) == "too-large"
    assert translated("a.pdf", encrypted(""), identity) == b"One two\n"


def test_the_package_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert refused("a.pdf", pdf(["One"]), "pypdf") == "missing-package"


@settings(max_examples=60)
@given(st.integers(0, 600), st.binary(max_size=20))
def test_damaged_files_end_with_one_kind_of_error(place: int, data: bytes) -> None:
    content = bytearray(pdf(["One two", "three"]))
    content[place : place + len(data)] = data
    try:
        translated("a.pdf", bytes(content), identity)
    except UserError as error:
        assert error.code in ("damaged-file", "no-text", "encrypted-file")
