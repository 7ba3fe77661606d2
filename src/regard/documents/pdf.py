"""PDF files: their text, line breaks inside of paragraphs removed. The result is plain text, not PDF.

A line goes on in the next one if that begins with a small letter, or if it is long and does not end with a punctuation
mark. A hyphen at the end of a line is removed before a small letter.
"""

import io
import re

from regard.documents.encoded import EncodedDocument
from regard.documents.lines import read_text
from regard.documents.passage import ReadOptions
from regard.documents.sentences import is_wide
from regard.errors import UserError

MAX_PAGES, MAX_STREAM = 5_000, 20_000_000
"""Pages of a file, and bytes of the instructions of all pages."""
LONG_LINE = 0.7
"""From this share of the longest line of a page on, a line may go on in the next one."""
_END = re.compile(r"[.!?:;…。！？：；]['\"”’»)）」』]*\Z")


def open_pdf(content: bytes, options: ReadOptions) -> EncodedDocument:
    """Open a PDF file; a UserError if it cannot be read, needs a password, is too large or has no text."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        problem, remedy = "PDF files need the package pypdf", "pip install 'regard[pdf]'"
        raise UserError(problem, remedy, code="missing-package", where="pypdf") from error
    size, pages, limit = 0, list[str](), options.limit.characters if options.limit else MAX_STREAM
    try:
        reader = PdfReader(io.BytesIO(content))
        is_locked = reader.is_encrypted and not reader.decrypt("")
        found = [] if is_locked else reader.pages
        for page in found if len(found) <= MAX_PAGES else []:
            size += len(stream.get_data()) if (stream := page.get_contents()) is not None else 0
            if size > MAX_STREAM or sum(map(len, pages)) > limit:
                break
            pages.append(page.extract_text().encode("utf-8", "ignore").decode())
        is_large = len(found) > len(pages) or sum(map(len, pages)) > limit
    except Exception as error:  # pypdf raises errors of many kinds for damaged files
        problem, remedy = f"the PDF file cannot be read: {error}", "save it again with a different program"
        raise UserError(problem, remedy, code="damaged-file", where=".pdf") from error
    text = "\n\n".join("\n".join(join_lines(page)) for page in pages).strip()
    for is_refused, problem, remedy, code in (
        (is_locked, "needs a password", "save it without one", "encrypted-file"),
        (is_large, "is too large", "split it", "too-large"),
        (not text, "contains no text", "if it is a scan, recognise its text (OCR) first", "no-text"),
    ):
        if is_refused:
            raise UserError(f"the PDF file {problem}", remedy, code=code, where=".pdf")
    return EncodedDocument(read_text(f"{text}\n", options), "utf-8", b"", "strict")


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
