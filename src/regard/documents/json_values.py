"""JSON: string values are translated; keys, numbers and layout stay.

Values that are no text stay too: names such as en_US and src/main.js, and ICU messages with several forms ({n, plural,
...}). A value may contain placeholders, tags and line breaks, like a message (lines.py).
"""

import json
import re
from collections.abc import Sequence

from regard.documents.lines import read_message
from regard.documents.passage import ReadOptions
from regard.documents.segment import Segment, SegmentTranslation
from regard.errors import UserError

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?P<key>\s*:)?')
_NAME = re.compile(r"\S*[/.:#@$\\=&?_\d]\S*\w|\S*[a-z][A-Z]\S*|[a-z]{2,3}-[A-Z]\w+")
_NO_TEXT = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select)|[\ud800-\udfff]")
LONG = 200
"""Characters of a word from which it is data."""


def is_text(value: str) -> bool:
    """True if a value is for people: not a name or data."""
    is_data = len(value) > LONG and value.isascii() and " " not in value
    return not (is_data or _NAME.fullmatch(value[:LONG]) or _NO_TEXT.search(value))


class JsonDocument:
    """The string values of a file; each is a document of its own."""

    def __init__(self, text: str, options: ReadOptions) -> None:
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            line = f"line {getattr(error, 'lineno', 1)}"
            raise UserError(
                f"the file is not valid JSON: {error}", "correct it", code="bad-json", where=line
            ) from error
        self.text = text
        self.is_ascii = text.isascii() and "\\u" in text
        strings = (match for match in _STRING.finditer(text) if not match["key"])
        values = [(match, json.loads(match[0])) for match in strings]
        self.values = [(match, value) for match, value in values if is_text(value)]
        self.messages = [read_message(value, options) for _, value in self.values]
        self.segments: list[Segment] = [segment for message in self.messages for segment in message.segments]

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        """The file with translated values; a value that is unchanged is written as it was."""
        written, copied, used = list[str](), 0, 0
        for (match, value), message in zip(self.values, self.messages, strict=True):
            count = len(message.segments)
            new = message.render(translations[used : used + count])
            string = match[0] if new == value else json.dumps(new, ensure_ascii=self.is_ascii)
            written += [self.text[copied : match.start()], string]
            copied, used = match.end(), used + count
        return "".join([*written, self.text[copied:]])
