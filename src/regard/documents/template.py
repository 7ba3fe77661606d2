"""A document as a template: what stays as it is, and the numbers of passages in between."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from regard.documents.passage import Passage, Tags
from regard.documents.segment import Segment, SegmentTranslation

Markup = tuple[str | int, ...]
"""Text as it is in the document, and numbers of passages."""


@dataclass(frozen=True)
class Slot:
    """A passage of a document: the tags of its elements, and how its text is written.

    An opening tag may contain passages, its attributes, which are in the document before this one.
    """

    passage: Passage
    escape: Callable[[str], str] = str
    opens: Sequence[Markup] = ()
    closes: Sequence[str] = ()

    def tags(self, rendered: Sequence[str]) -> Tags:
        """Its tags, with the passages that are rendered already."""
        return SlotTags(self, rendered)


@dataclass(frozen=True)
class SlotTags:
    """The tags of a slot, with the passages that are rendered already."""

    slot: Slot
    rendered: Sequence[str]

    def text(self, text: str) -> str:
        return self.slot.escape(text)

    def open(self, element: int) -> str:
        return fill(self.slot.opens[element], self.rendered)

    def close(self, element: int) -> str:
        return self.slot.closes[element]


class TemplateDocument:
    """A document of a template and its passages."""

    def __init__(self, template: Sequence[str | int], slots: Sequence[Slot]) -> None:
        self.template, self.slots = template, slots
        self._counts = [len(slot.passage.segments) for slot in slots]
        self.segments: list[Segment] = [segment for slot in slots for segment in slot.passage.segments]

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        """The translated document, from one translation for each segment."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        remaining = iter(translations)
        rendered: list[str] = []
        for slot, count in zip(self.slots, self._counts, strict=True):
            rendered.append(self.finish(slot.passage.render(islice(remaining, count), slot.tags(rendered))))
        return fill(self.template, rendered)

    def finish(self, text: str) -> str:
        """What is written of a rendered passage; documents with rules of their own change it."""
        return text

    def render_alternatives(self, translations: Sequence[SegmentTranslation], count: int) -> list[str]:
        """At most `count` other translations of the document, none equal to another or to the best one."""
        found = [self.render(translations)] if count else []
        for rank in range(max((len(item.alternatives) for item in translations), default=0) if count else 0):
            other = self.render(list(alternatives(translations, rank)))
            if other not in found:
                found.append(other)
            if len(found) > count:
                break
        return found[1:]


def alternatives(translations: Sequence[SegmentTranslation], rank: int) -> Iterator[SegmentTranslation]:
    """The alternative of every segment at a rank, or its last one; only the best translation has links."""
    for item in translations:
        texts = item.alternatives[: rank + 1]
        yield SegmentTranslation(texts[-1]) if texts else item


def fill(markup: Sequence[str | int], rendered: Sequence[str]) -> str:
    """Markup as text, with its passages in place."""
    return "".join(rendered[item] if isinstance(item, int) else item for item in markup)
