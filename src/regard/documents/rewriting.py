"""A text with some parts replaced, and which characters of the two texts belong together."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from regard.documents.sentences import Span


@dataclass(frozen=True)
class Rewriting:
    """The new text, and the spans of every replaced part: (before, after), in order."""

    text: str
    parts: tuple[tuple[Span, Span], ...]

    @classmethod
    def of(cls, text: str, parts: Iterable[tuple[int, int, str]]) -> "Rewriting":
        """Replace parts (start, end, new text), which are in order and do not overlap."""
        pieces: list[str] = []
        spans: list[tuple[Span, Span]] = []
        copied = length = 0
        for start, end, new in parts:
            pieces += [text[copied:start], new]
            length += start - copied
            spans.append(((start, end), (length, length + len(new))))
            length, copied = length + len(new), end
        return cls("".join([*pieces, text[copied:]]), tuple(spans))

    def before(self, span: Span) -> Span:
        """The span of the old text for one of the new text; a replaced part is one unit."""
        return self._other(span, 1, 0)

    def after(self, span: Span) -> Span:
        """The span of the new text for one of the old text."""
        return self._other(span, 0, 1)

    def _other(self, span: Span, this: int, other: int) -> Span:
        start, end = span
        first = self._part(start, this)
        if first is not None and first[this][0] <= start < first[this][1]:
            new_start = first[other][0]
        else:
            new_start = start + (first[other][1] - first[this][1] if first else 0)
        last = self._part(max(start, end - 1), this)
        if last is not None and last[this][0] < end <= last[this][1]:
            new_end = last[other][1]
        else:
            new_end = end + (last[other][1] - last[this][1] if last else 0)
        return new_start, max(new_start, new_end)

    def _part(self, place: int, this: int) -> tuple[Span, Span] | None:
        """The last part that begins at a place or before it."""
        index = bisect_right(self.parts, place, key=lambda part: part[this][0])
        return self.parts[index - 1] if index else None


def remaining(span: Span, replaced: Sequence[Span]) -> Iterator[Span]:
    """What is left of a span without the replaced spans, which are in order."""
    start, end = span
    index = max(0, bisect_left(replaced, start, key=lambda item: item[0]) - 1)
    while index < len(replaced) and replaced[index][0] < end:
        first, last = replaced[index]
        if start < first:
            yield start, first
        start, index = max(start, last), index + 1
    if start < end:
        yield start, end


def is_replaced(span: Span, replaced: Sequence[Span]) -> bool:
    """True if a span overlaps with one of the replaced spans, which are in order."""
    index = bisect_left(replaced, span[1], key=lambda item: item[0])
    return any(start < span[1] and span[0] < end for start, end in replaced[max(0, index - 2) : index])
