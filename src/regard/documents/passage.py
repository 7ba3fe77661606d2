"""A passage: running text with inline elements and protected parts. Its sentences are the segments of a document.

passage     text, a line of a file or a paragraph without its tags
sentences   those with a word to translate become segments; the others stay as they are
rendering   1. protected parts are put back into every translated sentence (restoring.py)
            2. sentences are joined with the blank space of the source
            3. elements are placed by the links of all sentences (projecting.py)
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from regard.documents import sentences
from regard.documents.projecting import Element, Gap, make_units, pieces, project
from regard.documents.protecting import NO_TERMS, Glossary, Protected, find_protected
from regard.documents.restoring import MaskedSentence, RestoredSentence, links_by_order, restore, write
from regard.documents.segment import Link, Segment, SegmentTranslation
from regard.documents.sentences import Span
from regard.errors import UserError

BLANK = re.compile(r"\s")
NO_BREAK = re.compile(r"(?<=\S)[\u00a0\u202f](?=\S)")


@dataclass
class CharacterBudget:
    """The number of characters that may be read; a passage beyond it is an error before any work on it."""

    characters: int
    read: int = 0

    def count(self, characters: int) -> None:
        """Count characters; a UserError if there are too many."""
        self.read += characters
        if self.read > self.characters:
            problem = f"the text has more than {self.characters:,} characters"
            raise UserError(problem, "split the text", code="too-large", where="document")


@dataclass(frozen=True)
class ReadOptions:
    """How texts are read: the language for sentence splitting, a glossary, placeholders of the model, and a limit."""

    language: str = ""
    glossary: Glossary = NO_TERMS
    placeholders: tuple[str, ...] = ()
    limit: CharacterBudget | None = None
    split: bool = True
    """False: a passage is one sentence."""
    target: str = ""
    """The code of the target language, if it is known."""

    def check_target(self, own: str, where: str) -> None:
        """Raise a UserError if a file says that it is for another target language; regions may differ."""
        codes = [code.replace("_", "-").split("-")[0].lower() for code in (own, self.target)]
        if all(codes) and codes[0] != codes[1]:
            problem, remedy = f"the file is for the target language {own}, not {self.target}", f"translate to {own}"
            raise UserError(problem, remedy, code="conflicting-languages", where=where)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a passage; `is_translated` is False if it has no word to translate."""

    start: int
    end: int
    masked: MaskedSentence
    is_translated: bool
    needs_links: bool


@dataclass(frozen=True)
class Joined:
    """A translated passage as plain text: the spans of its protected parts, its links, the gaps between sentences."""

    text: str
    parts: list[tuple[Span, Protected]]
    links: list[Link]
    gaps: list[Gap]


class Tags(Protocol):
    """How a passage is written: its text, and the tags of its elements by number."""

    def text(self, text: str) -> str:
        """Text as it is written in the document."""

    def open(self, element: int) -> str:
        """The opening tag of an element, or the whole of an empty one."""

    def close(self, element: int) -> str:
        """The closing tag of an element; "" if it has none."""


class Passage:
    """Running text.

    text        as a reader sees it
    elements    inline elements, in the order of their opening tags
    opaque      parts that are never translated
    breaks      elements that stand for a blank: one is in `text` before them, and not in the document
    spaced      empty elements with blanks around them
    collapse    a line end is blank space, and any blank space is one space to the model
    ends        places in `text` at which a sentence ends
    """

    def __init__(
        self,
        text: str,
        options: ReadOptions,
        elements: Sequence[Element] = (),
        opaque: Sequence[Protected] = (),
        breaks: Container[int] = (),
        spaced: Container[int] = (),
        collapse: bool = False,
        ends: Sequence[int] = (),
    ) -> None:
        if options.limit is not None:
            options.limit.count(len(text))
        self.text, self.elements, self.options = text, elements, options
        self.breaks, self.spaced = breaks, spaced
        self.parts = find_protected(text, options.glossary, opaque)
        self.cuts = sorted({place for item in elements for place in (item.start, item.end)})
        plain = BLANK.sub(" ", text) if collapse else text
        whole = sentences.without_blanks(text, [(0, len(text))])
        spans = sentences.line_spans(plain, options.language, ends) if options.split else whole
        spans = join_spans(spans, self.parts)
        self.sentences = [self._sentence(span, collapse) for span in spans]

    def _sentence(self, span: Span, collapse: bool) -> Sentence:
        start, end = span
        first, last = (bisect_left(self.parts, place, key=lambda part: part.start) for place in span)
        parts = [replace(part, start=part.start - start, end=part.end - start) for part in self.parts[first:last]]
        text = self.text[start:end]
        rest = MaskedSentence.of(text, parts, [" "] * len(parts)).rewriting.text
        cut = bisect_right(self.cuts, start)
        tagged = cut < len(self.cuts) and self.cuts[cut] < end
        masked = MaskedSentence.of(text, parts, self.options.placeholders, collapse)
        has_words = any(map(str.isalpha, rest)) or not self.options.split  # a whole line may be digits to translate
        return Sentence(start, end, masked, has_words, tagged or bool(parts) or bool(NO_BREAK.search(text)))

    @property
    def segments(self) -> list[Segment]:
        """The sentences to translate."""
        return [Segment(item.masked.rewriting.text, item.needs_links) for item in self.sentences if item.is_translated]

    @property
    def is_changed(self) -> bool:
        """True if something is translated, or is a term of the glossary."""
        return any(item.is_translated for item in self.sentences) or any(part.is_term for part in self.parts)

    def render(self, translations: Iterable[SegmentTranslation], tags: Tags) -> str:
        """The passage as it is written in the document, from a translation for each segment."""
        joined = self.join(translations)
        marked = [(span, part) for span, part in joined.parts if part.markup is not None]
        if not self.elements and not marked:
            return tags.text(joined.text)
        spans = [span for span, _ in joined.parts]
        units = make_units(self.text, joined.text, joined.links, spans, self.cuts)
        output = Output(joined.text, marked, tags)
        root = project(self.text, joined.text, self.elements, units, joined.gaps)
        for kind, first, last in pieces(root):
            if kind == "text":
                output.add_text(first, last)
            elif kind == "open":
                output.open_tag(first, first in self.breaks, first in self.spaced)
            else:
                output.close_tag(first)
        return output.finish()

    def join(self, translations: Iterable[SegmentTranslation]) -> Joined:
        """The translated sentences with the blank space of the source between them."""
        remaining, texts = iter(translations), [""]
        joined = Joined("", [], [], [])
        end = length = 0
        for sentence in self.sentences:
            restored = self._restore(sentence, next(remaining) if sentence.is_translated else None)
            gap = self.text[end : sentence.start]
            if end:
                gap = blank_between(self.text[end - 1], gap, texts[-1][-1:], restored.text[:1])
                joined.gaps.append(((end, sentence.start), (length, length + len(gap))))
            length += len(gap)
            moved = ((s + sentence.start, e + sentence.start, b, f) for s, e, b, f in restored.links)
            joined.links.extend((s, e, begin + length, finish + length) for s, e, begin, finish in moved)
            spans = [(start + length, finish + length) for start, finish in restored.spans]
            joined.parts.extend(zip(spans, sentence.masked.parts, strict=True))
            texts += [gap, restored.text]
            length, end = length + len(restored.text), sentence.end
        joined.parts.sort(key=lambda item: item[0])
        return replace(joined, text="".join([*texts, self.text[end:]]))

    def _restore(self, sentence: Sentence, translation: SegmentTranslation | None) -> RestoredSentence:
        """The translation of a sentence with its protected parts; the sentence itself if both are equal."""
        if translation is None or (translation.text == sentence.masked.rewriting.text and not self.spaced):
            masked = MaskedSentence.of(sentence.masked.source, sentence.masked.parts)
            links = [(*span, *span) for span in sentences.word_spans(masked.source)]
            return write(
                masked, masked.source, links, [(part.start, part.end, n) for n, part in enumerate(masked.parts)]
            )
        restored = restore(sentence.masked, translation.text, translation.links, self.options.placeholders)
        restored = replace(restored, text=keep_blanks(sentence.masked.source, restored.text, restored.links))
        if not self.elements:
            return restored
        # Names, numbers and marks that both texts have once are linked; without links, words are in their order.
        source = sentence.masked.source
        certain = {target: span for span, target in sentences.equal_words(source, restored.text)}
        targets, found = sorted(certain), restored.links or tuple(links_by_order(source, restored.text))
        links = [link for link in found if not sentences.is_replaced(link[2:], targets)]
        links += [(*span, *target) for target, span in certain.items()]
        return replace(restored, links=tuple(sorted(links, key=lambda link: link[2:])))


class Output:
    """What is written of a passage, piece by piece."""

    def __init__(self, text: str, marked: Sequence[tuple[Span, Protected]], tags: Tags) -> None:
        self._text, self._marked, self._tags = text, marked, tags
        self._written: list[str] = []
        self._waiting = ""
        """Text before the next tag."""
        self._last = ""
        self._after_break = self._after_spaced = False
        self._bare = -1
        """The element whose opening tag was written last."""

    def add_text(self, start: int, end: int) -> None:
        """Write characters of the translation, and the markup of protected parts in place of their text."""
        if start == end:
            return
        self._bare = -1
        if self._after_break:
            start += self._text[start].isspace()
        if self._after_spaced and needs_blank(self._text[start : start + 1]):
            self._waiting += " "
        self._after_break = self._after_spaced = False
        index = bisect_left(self._marked, start, key=lambda item: item[0][0])
        for (first, last), part in islice(self._marked, index, None):
            if last > end:
                break
            self._waiting += self._text[start:first]
            self._flush()
            self._written.append(part.markup or "")
            start = last
        self._waiting += self._text[start:end]
        self._last = self._text[end - 1]

    def open_tag(self, element: int, is_break: bool = False, is_spaced: bool = False) -> None:
        """Write an opening tag. The blank beside a break is not written; blanks are around a spaced element."""
        if is_break:
            self._after_break = not self._waiting[-1:].isspace()
            self._waiting = self._waiting if self._after_break else self._waiting[:-1]
        if is_spaced:
            self._waiting += " " if needs_blank(self._last) else ""
            self._after_spaced = True
        self._flush()
        self._written.append(self._tags.open(element))
        self._bare = element

    def close_tag(self, element: int) -> None:
        """Write a closing tag. Marks of Markdown around nothing, such as ****, would be text."""
        self._flush()
        tag = self._tags.close(element)
        if self._bare == element and self._written[-1] == tag:
            self._written.pop()
        else:
            self._written.append(tag)
        self._bare = -1

    def _flush(self) -> None:
        if self._waiting:
            self._written.append(self._tags.text(self._waiting))
            self._waiting = ""

    def finish(self) -> str:
        """All that was written."""
        self._flush()
        return "".join(self._written)


def keep_blanks(source: str, target: str, links: Sequence[Link]) -> str:
    """A translation with the no-break spaces of its source, beside the translations of the words beside them."""
    for match in NO_BREAK.finditer(source):
        beside = [link for link in links if link[0] <= match.end() and match.start() <= link[1]]
        edges = [place for _, _, begin, finish in beside for place in (begin - 1, finish)]
        places = [place for place in edges if place >= 0 and target[place : place + 1] == " "]
        if places:
            place = max(places, key=places.count)
            target = target[:place] + match[0] + target[place + 1 :]
    return target


def needs_blank(character: str) -> bool:
    """True if a blank is between a character and an element beside it."""
    return character.isalnum() and not sentences.is_wide(character)


def join_spans(spans: Sequence[Span], parts: Sequence[Protected]) -> list[Span]:
    """Sentence spans, with those joined between which a protected part is cut."""
    joined: list[Span] = []
    for start, end in spans:
        index = bisect_left(parts, start, key=lambda part: part.start) - 1
        if joined and index >= 0 and parts[index].end > start:
            joined[-1] = joined[-1][0], end
        else:
            while index >= 0 and parts[index].start >= (joined[-1][1] if joined else 0):  # a marker with a part
                start, index = parts[index].start, index - 1
            joined.append((start, end))
    return joined


def blank_between(source_left: str, gap: str, left: str, right: str) -> str:
    """The blank space between two translated sentences: Chinese has none, other languages have one.

    `gap` is that of the source. It is changed only if the translation is written in another script.
    """
    if not left or not right or "\n" in gap or "\t" in gap:
        return gap
    if not gap and sentences.is_wide(source_left) and not sentences.is_wide(left) and not sentences.is_wide(right):
        return " "
    if gap and not sentences.is_wide(source_left) and sentences.is_wide(left) and sentences.is_wide(right):
        return ""
    return gap


# ---- documents: what stays as it is, and the numbers of passages in between ------------------------------------------

Markup = tuple[str | int, ...]
"""Text as it is in the document, and numbers of passages."""


@dataclass(frozen=True)
class Slot:
    """A passage of a document: the entities and the tags with which it is written.

    An opening tag may contain passages, its attributes, which are in the document before this one.
    """

    passage: Passage
    entities: Mapping[str, str] = field(default_factory=dict)
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
        return text.translate({ord(key): entity for key, entity in self.slot.entities.items()})

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

    def sentence_spans(self) -> list[Span]:
        """The (start, end) of each sentence to translate in a plain text."""
        spans, offset = [], 0
        for item in self.template:
            if isinstance(item, int):
                passage = self.slots[item].passage
                spans += [(offset + each.start, offset + each.end) for each in passage.sentences if each.is_translated]
                offset += len(passage.text)
            else:
                offset += len(item)
        return spans

    def word_links(self, translations: Sequence[SegmentTranslation]) -> list[Link]:
        """The links of a plain text: characters of the whole text, and of its translation."""
        remaining, links = iter(translations), list[Link]()
        source = target = 0
        for item in self.template:
            if isinstance(item, int):
                passage = self.slots[item].passage
                joined = passage.join(islice(remaining, self._counts[item]))
                links += [(source + a, source + b, target + c, target + d) for a, b, c, d in joined.links]
                source, target = source + len(passage.text), target + len(joined.text)
            else:
                source, target = source + len(item), target + len(item)
        return links

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
