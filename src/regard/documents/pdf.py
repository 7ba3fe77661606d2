"""PDF files: their text, line breaks inside of paragraphs removed. The result is plain text, not PDF.

A page says where letters are, and not what a paragraph is. A line goes on in the next one if that begins with a small
letter, or if it is long and does not end with a punctuation mark. A hyphen at the end of a line is removed before a
small letter.
"""

import io
import re

from regard.documents.encoded import EncodedDocument
from regard.documents.lines import read_text
from regard.documents.passage import CharacterBudget, ReadOptions
from regard.documents.sentences import is_wide
from regard.errors import UserError

MAX_PAGES, MAX_STREAM = 5_000, 20_000_000
"""Pages of a file, and bytes of the instructions of all pages."""
LONG_LINE = 0.7
"""From this share of the longest line of a page on, a line may go on in the next one."""
_END = re.compile(r"[.!?:;…。！？：；]['\"”’»)）」』]*\Z")


def open_pdf(content: bytes, options: ReadOptions) -> EncodedDocument:
    """Open a PDF file; a UserError if it cannot be read, is encrypted, or has no text."""
    pages = read_pages(content, options.limit.characters if options.limit else None)
    text = "\n\n".join("\n".join(join_lines(page)) for page in pages).strip()
    if not text:
        problem, remedy = "the PDF file contains no text", "if it is a scan, recognise its text (OCR) first"
        raise UserError(problem, remedy, code="no-text", where=".pdf")
    return EncodedDocument(read_text(f"{text}\n", options), "utf-8", b"", "strict")


def read_pages(content: bytes, most: int | None) -> list[str]:
    """The text of every page; a UserError if the file is damaged or has more than `most` characters."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        problem, remedy = "PDF files need the package pypdf", "pip install 'regard[pdf]'"
        raise UserError(problem, remedy, code="missing-package", where="pypdf") from error
    budget, pages = CharacterBudget(len(content) + MAX_STREAM if most is None else most), list[str]()
    try:
        reader, size = PdfReader(io.BytesIO(content)), 0
        if reader.is_encrypted and not reader.decrypt(""):
            raise UserError("the PDF file needs a password", "save it without one", code="encrypted-file", where=".pdf")
        for number, page in enumerate(reader.pages):
            size += len(stream.get_data()) if (stream := page.get_contents()) is not None else 0
            if number >= MAX_PAGES or size > MAX_STREAM:
                problem, remedy = "the PDF file is too large", f"split it (at most {MAX_PAGES:,} pages)"
                raise UserError(problem, remedy, code="too-large", where=".pdf")
            pages.append(page.extract_text().encode("utf-8", "ignore").decode())
            budget.count(len(pages[-1]))
    except UserError:
        raise
    except Exception as error:  # pypdf raises errors of many kinds for damaged files
        problem, remedy = f"the PDF file cannot be read: {error}", "save it again with a different program"
        raise UserError(problem, remedy, code="damaged-file", where=".pdf") from error
    return pages


def join_lines(page: str) -> list[str]:
    """The paragraphs of a page."""
    lines = [" ".join(line.split()) for line in page.splitlines()]
    width = LONG_LINE * max(map(len, lines), default=0)
    paragraphs, before = [""], ""
    for line in lines:
        is_small = line[:1].islower()
        if before.endswith("-") and before[-2:-1].isalpha() and is_small:
            paragraphs[-1] = paragraphs[-1][:-1] + line
        elif before and line and (is_small or (len(before) >= width and not _END.search(before))):
            is_glued = before[-1] == "-" or (is_wide(before[-1]) and is_wide(line[0]))
            paragraphs[-1] += ("" if is_glued else " ") + line
        else:
            paragraphs.append(line)
        before = line
    return paragraphs[1:]
