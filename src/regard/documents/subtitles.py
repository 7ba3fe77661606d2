"""Subtitles (.srt): numbers and times stay as they are, the text of each subtitle is a passage.

12
00:01:02,500 --> 00:01:04,000
A sentence may go on
in the <i>next</i> line.
"""

import re

from regard.documents.lines import read_lines
from regard.documents.passage import Reading
from regard.documents.template import Slot, TemplateDocument

TIMES = re.compile(r"[ \t]*\d{1,3}:\d\d:\d\d[,.]\d{1,3}[ \t]*-->[^\r\n]*(?:\r\n|\r|\n)")
BLANK_LINE = re.compile(r"(?:(?:\r\n|\r|\n)[ \t]*){2,}|(?:\r\n|\r|\n)[ \t]*\Z|\Z")
_EMPTY_LINES = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))+[ \t]*(?=\r|\n)|\A(?:[ \t]*[\r\n]+)+|(?:[\r\n]+[ \t]*)+\Z")


class SubtitleDocument(TemplateDocument):
    """Subtitles; a blank line would end one, so none is written inside of its text."""

    def finish(self, text: str) -> str:
        return _EMPTY_LINES.sub("", text)


def read_subtitles(text: str, reading: Reading) -> SubtitleDocument:
    """Read subtitles; what is none stays as it is."""
    template: list[str | int] = []
    slots: list[Slot] = []
    copied = 0
    for times in TIMES.finditer(text):
        end = BLANK_LINE.search(text, times.end())
        if times.start() < copied or end is None or end.start() <= times.end():
            continue
        slot = read_lines(text[times.end() : end.start()], reading)
        if slot is not None:
            template += [text[copied : times.end()], len(slots)]
            slots.append(slot)
            copied = end.start()
    return SubtitleDocument([*template, text[copied:]], slots)
