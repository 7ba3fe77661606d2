"""Subtitles: the text of every cue is translated; numbers, times, settings and styles stay.

    12
    00:01:02,500 --> 00:01:04,000
    A sentence may go on in the <i>next</i> line.

A blank line ends a cue of .vtt; blocks such as NOTE and STYLE may follow. In .srt files the text goes on until the next
number and time line.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from regard.documents.lines import read_lines
from regard.documents.passage import ReadOptions, Slot, TemplateDocument
from regard.errors import UserError

_END = r"(?:\r\n|\r|\n|\Z)"
_TIME = r"(?:\d{1,3}:)?\d{1,2}:\d\d(?:[,.]\d{1,3})?"
_LINE_START = r"(?<![^\r\n])[ \t\ufeff]*"
CUE = re.compile(
    rf"(?:{_LINE_START}\d+[ \t]*(?:\r\n|\r|\n))?"
    rf"(?P<times>{_LINE_START}{_TIME}[ \t]*-->[ \t]*{_TIME}(?![\d:,.])[^\r\n]*{_END})"
)
"""The number of a cue, if it has one, and its times."""
ARROW = re.compile(rf"{_LINE_START}\d[^\r\n]*-->")
"""A line of times, right or wrong."""
PARAGRAPH = re.compile(r"(?<![^\r\n])[^\S\r\n]*+\S[^\r\n]*+(?:(?:\r\n|\r|\n)[^\S\r\n]*+\S[^\r\n]*+)*")
_EMPTY_LINES = re.compile(r"\A[ \t\r\n]*[\r\n]|[\r\n][ \t\r\n]*+\Z|(?:[ \t]*(?:\r\n|\r(?!\n)|\n))+[ \t]*(?=\r|\n)")


class SubtitleDocument(TemplateDocument):
    """Subtitles; a blank line would end one, so none is written inside of its text."""

    def finish(self, text: str) -> str:
        return _EMPTY_LINES.sub("", text)


class VttDocument(SubtitleDocument):
    """WebVTT subtitles; their text contains no arrow, which is for times."""

    def finish(self, text: str) -> str:
        return super().finish(text).replace("-->", "--&gt;")


def read_vtt(text: str, options: ReadOptions) -> VttDocument:
    """Read WebVTT subtitles; a UserError if the header is missing, or if times are wrong."""
    if not re.match(r"\ufeff?WEBVTT(?=[ \t\r\n]|\Z)", text):
        raise UserError('the file does not begin with "WEBVTT"', "add this line", code="bad-line", where="line 1")
    document = read_cues(text, options, has_blank_lines=False)
    slots = [replace(slot, entities={"<": "&lt;"}) for slot in document.slots]
    return VttDocument(document.template, slots)


def read_cues(text: str, options: ReadOptions, has_blank_lines: bool = True) -> SubtitleDocument:
    """Read SubRip subtitles; a UserError if a file with text has no times, or times that are wrong."""
    template: list[str | int] = []
    slots: list[Slot] = []
    copied = 0
    for start, end in cue_spans(text, has_blank_lines):
        slot = read_lines(text[start:end], options)
        if slot is not None:
            template += [text[copied:start], len(slots)]
            slots.append(slot)
            copied = end
    return SubtitleDocument([*template, text[copied:]], slots)


def cue_spans(text: str, has_blank_lines: bool) -> Iterator[tuple[int, int]]:
    """The spans of text after each time line, up to a blank line or the next cue."""
    cues = list(CUE.finditer(text))
    right = {cue.start("times") for cue in cues}
    wrong = next((match.start() for match in ARROW.finditer(text) if match.start() not in right), None)
    if wrong is not None or (not cues and has_blank_lines and text.strip()):
        line = len(re.findall(r"\r\n|\r|\n", text[: wrong or 0])) + 1
        problem = f"line {line} has no valid times" if cues or wrong is not None else "no line has times"
        remedy = "write times such as: 00:01:02,500 --> 00:01:04,000"
        raise UserError(problem, remedy, code="bad-line", where=f"line {line}")
    for number, cue in enumerate(cues):
        end = cues[number + 1].start() if number + 1 < len(cues) else len(text)
        for paragraph in PARAGRAPH.finditer(text, cue.end(), end):
            if has_blank_lines or paragraph.start() == cue.end():
                yield paragraph.span()
