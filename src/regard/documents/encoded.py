"""Text files as bytes: their encoding, byte order mark, and what replaces characters outside of the encoding."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from regard.documents.segment import Segment, SegmentTranslation
from regard.errors import UserError

Content = TypeVar("Content", covariant=True)
GBK = "gbk"  # browsers read gb2312 as gbk, and pages rely on it
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_ENCODINGS = re.compile(
    r"(?:utf-?8|utf-?16(?:-[lb]e)?|(?:us-)?ascii|latin-?1|iso-8859-\d+|(?:windows-|cp)\d+|gb\w+|big5\w*|shift_jis|euc-\w+)\Z",
    re.IGNORECASE,
)
_DECLARED = re.compile(
    rb"""(?:<meta[^>]{0,200}?charset|\A<\?xml[^>]{0,100}?encoding)\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)


class AnyDocument(Protocol[Content]):
    """A text or a file: the sentences to translate, and the content with their translations in place."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The sentences to translate, in order."""

    def render(self, translations: Sequence[SegmentTranslation]) -> Content:
        """The translated content, from one translation for each segment."""


TextDocument = AnyDocument[str]
FileDocument = AnyDocument[bytes]


@dataclass(frozen=True)
class EncodedDocument:
    """A text file: its document, its encoding, its byte order mark, and what replaces characters outside of it."""

    document: TextDocument
    encoding: str
    bom: bytes
    outside: str

    @property
    def segments(self) -> Sequence[Segment]:
        return self.document.segments

    def render(self, translations: Sequence[SegmentTranslation]) -> bytes:
        return self.bom + self.document.render(translations).encode(self.encoding, self.outside)


def decode(content: bytes, name: str, is_markup: bool) -> tuple[str, str, bytes]:
    """The text of a file, its encoding and its byte order mark; a page or an XML file may declare its encoding."""
    bom, encoding = next(((bom, encoding) for bom, encoding in _BOMS if content.startswith(bom)), (b"", "utf-8"))
    if is_markup and not bom and (match := _DECLARED.search(content[:4096])):
        encoding = match[1].decode()
        encoding = GBK if encoding.lower() == "gb2312" else encoding
    try:
        if not _ENCODINGS.match(encoding):
            raise LookupError(encoding)
        return content[len(bom) :].decode(encoding), encoding, bom
    except (UnicodeDecodeError, LookupError) as error:
        problem = f"{name} is not text in the encoding {encoding}"
        raise UserError(problem, "save the file as UTF-8", code="bad-text", where=name) from error
