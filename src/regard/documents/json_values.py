"""JSON: string values are translated; keys, numbers and layout stay.

Values that are no text stay too: names such as en_US and src/main.js, and ICU messages with several forms ({n, plural,
...}). A value may contain placeholders, tags and line breaks, like a message (lines.py).
"""

import json
import re
from collections.abc import Sequence

from regard.documents.lines import MessageList
from regard.documents.passage import ReadOptions
from regard.documents.segment import SegmentTranslation
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


class JsonDocument(MessageList):
    """The string values of a file."""

    def __init__(self, text: str, options: ReadOptions) -> None:
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            problem, line = f"the file is not valid JSON: {error}", f"line {getattr(error, 'lineno', 1)}"
            raise UserError(problem, "correct the file", code="bad-json", where=line) from error
        self.text = text
        self.is_ascii = text.isascii() and "\\u" in text
        found = [(match, json.loads(match[0])) for match in _STRING.finditer(text) if not match["key"]]
        self.strings = [(match, value) for match, value in found if is_text(value)]
        super().__init__((value for _, value in self.strings), options)

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        """The file with translated values; a value that is unchanged is written as it was."""
        written, copied = list[str](), 0
        for (match, value), new in zip(self.strings, self.values(translations), strict=True):
            string = match[0] if new == value else json.dumps(new, ensure_ascii=self.is_ascii)
            written += [self.text[copied : match.start()], string]
            copied = match.end()
        return "".join([*written, self.text[copied:]])
