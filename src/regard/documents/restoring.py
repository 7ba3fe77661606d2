"""Protected parts put back into a translation, each exactly once.

    found       its placeholder, or a copy of its text, is in the translation: replaced by its output
    kept        a term of a glossary, which the model reads: its output, or a longer word with it, is there already
    translated  a term of a glossary, or code that the model changed a little: the words that were read from it are
                replaced
    missing     it is inserted before the translation of the word after it

Other placeholders, also second copies, are removed.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from regard.documents.projecting import Node, TargetIndex, Unit, best_runs, count_links, make_units, target_spans
from regard.documents.protecting import Protected
from regard.documents.segment import Link
from regard.documents.sentences import IDEOGRAPH, Rewriting, Span, is_replaced, is_wide, remaining, word_spans

_IN_WORD = rf"[^\W{IDEOGRAPH}]"
REMOVED = -1
_COUNT = re.compile(r"%(?:\(\w+\)|\d+\$)?[-+#0-9.]*l*[diu]|\d[\d.,'’ \u202f]*")
_HYPHEN = re.compile(r" ?-(?=\w)")
MAX_EXTENSION, MAX_CODE = 12, 60
SIMILAR = 0.5
"""From this ratio of equal characters on, words are a changed copy of a protected part."""


@dataclass(frozen=True)
class MaskedSentence:
    """A sentence as the model reads it: some protected parts are replaced by placeholders, long blanks by one space.

    parts       the protected parts of the sentence, in order
    symbols     of some parts, by index, the placeholder
    rewriting   from the sentence to the text for the model
    """

    source: str
    parts: tuple[Protected, ...]
    symbols: Mapping[int, str]
    rewriting: Rewriting

    @classmethod
    def of(
        cls, source: str, parts: Sequence[Protected], placeholders: Sequence[str] = (), collapse: bool = False
    ) -> "MaskedSentence":
        """Hide as many parts as there are placeholders; `collapse` writes one space for any blank space."""
        hidden = (n for n, part in enumerate(parts) if not part.is_term or part.output == source[part.start : part.end])
        symbols = dict(zip(hidden, placeholders, strict=False))
        edits = [(parts[n].start, parts[n].end, symbol) for n, symbol in symbols.items()]
        if collapse:
            masked = [(start, end) for start, end, _ in edits]
            spans = (match.span() for match in re.finditer(r"\s+", source) if match[0] != " ")
            edits = sorted([*edits, *((*span, " ") for span in spans if not is_replaced(span, masked))])
        return cls(source, tuple(parts), symbols, Rewriting.of(source, edits))


@dataclass(frozen=True)
class RestoredSentence:
    """A translation with its protected parts: its text, their spans in it, and the links to the source sentence."""

    text: str
    spans: tuple[Span, ...]
    links: tuple[Link, ...]


def restore(
    masked: MaskedSentence, translation: str, links: Sequence[Link], placeholders: Sequence[str]
) -> RestoredSentence:
    """Put the protected parts of a sentence into its translation; `links` are those of the text for the model."""
    if translation == masked.rewriting.text:  # every word is a copy
        links = [(*span, *span) for span in word_spans(translation)]
    linked = tuple(
        (*masked.rewriting.before((start, end)), begin, finish)
        for start, end, begin, finish in links
        if 0 <= start < end <= len(masked.rewriting.text) and 0 <= begin < finish <= len(translation)
    )
    found, taken = find_copies(masked, translation)
    if not masked.parts and not any(symbol in translation for symbol in placeholders):
        return RestoredSentence(translation, (), linked)
    parts = [(part.start, part.end) for part in masked.parts]
    linked = linked or tuple(links_by_order(masked.source, translation, parts))
    copies = sorted((span, parts[number]) for number, span in found.items())
    spans = [span for span, _ in copies]
    certain = [(*part, *span) for span, part in copies]
    others = [(*link[:2], *span) for link in linked for span in remaining(link[2:], spans)]
    units = make_units(masked.source, translation, [*certain, *others], spans)
    longer = find_longer(masked, translation, linked, found.keys(), taken)
    for number, (start, end) in longer.items():
        word = replace(masked.parts[number], output=translation[start:end])
        masked = replace(masked, parts=(*masked.parts[:number], word, *masked.parts[number + 1 :]))
    found |= longer
    found |= find_translated(masked, translation, units, found.keys(), taken)
    edits = [(*span, number) for number, span in found.items()]
    symbols = (match for symbol in placeholders for match in re.finditer(re.escape(symbol), translation))
    for match in symbols:  # unused ones, and second copies
        if not any(taken[slice(*match.span())]):
            edits.append((*match.span(), REMOVED))
    places = TargetIndex(masked.source, units)
    for number in range(len(masked.parts)):
        if number not in found:
            place = insertion_place(masked, number, translation, places)
            while 0 < place < len(translation) and taken[place - 1] and taken[place]:
                place += 1
            edits.append((place, place, number))
    return write(masked, translation, linked, sorted(edits))


def links_by_order(source: str, target: str, atoms: Sequence[Span] = ()) -> Iterator[Link]:
    """Each word of the target linked to the source word at the same share of the sentence; an atom is one word."""
    words, others = target_spans(source, atoms), word_spans(target)
    for number, span in enumerate(others if words else ()):
        start, end, _ = words[number * len(words) // len(others)]
        yield (start, end, *span)


def insertion_place(masked: MaskedSentence, number: int, translation: str, places: TargetIndex) -> int:
    """Where a missing part goes: before the translation of the word after it, or after that of the one before it."""
    part, units = masked.parts[number], range(len(places.units))
    before, after = masked.source[: part.start].rstrip(), masked.source[part.end :].lstrip()
    if not before or not units:
        return 0
    if after and (after[0].isalnum() or number + 1 < len(masked.parts)):
        unit = places.nearest(len(masked.source) - len(after), units)
        return places.units[unit].start if unit is not None else len(translation)
    unit = places.nearest(len(before) - 1, units)
    return places.units[unit].end if unit is not None else len(translation)


def find_copies(masked: MaskedSentence, translation: str) -> tuple[dict[int, Span], bytearray]:
    """The first place of every placeholder, and of copies of the other parts in their order; and which characters
    of the translation these are."""
    found: dict[int, Span] = {}
    taken = bytearray(len(translation))
    searched: dict[str, int] = {}
    for number, part in enumerate(masked.parts):
        own = part.output if part.is_term else masked.source[part.start : part.end]
        text = masked.symbols.get(number) or own
        pattern = copy_pattern(
            text, masked.source[max(0, part.start - 1) : part.start], masked.source[part.end : part.end + 1]
        )
        matches = pattern.finditer(translation, searched.get(text, 0))
        start = next((match.start() for match in matches if not any(taken[slice(*match.span())])), -1)
        searched[text] = len(translation) if start < 0 else start + len(text)
        if start >= 0:
            found[number] = (start, start + len(text))
            taken[start : start + len(text)] = b"\1" * len(text)
    return found, taken


def copy_pattern(text: str, before: str, after: str) -> re.Pattern[str]:
    """The pattern of a copy; if it is words between the characters before and after it, it must be words."""
    start = f"(?<!{_IN_WORD})" if re.match(_IN_WORD, text) and not re.match(_IN_WORD, before) else ""
    is_words = re.match(_IN_WORD, text) and re.match(_IN_WORD, text[-1])
    end = f"(?!{_IN_WORD})" if is_words and not re.match(_IN_WORD, after) else ""
    return re.compile(start + re.escape(text) + end)


def find_longer(
    masked: MaskedSentence, translation: str, links: Sequence[Link], found: Container[int], taken: bytearray
) -> dict[int, Span]:
    """For each term that is not in `found`, its output at either end of a word that was read from it, such as an
    inflected form or a compound, by part index; marks the spans in `taken`."""
    spans: dict[int, Span] = {}
    words = word_spans(translation)
    for number, part in enumerate(masked.parts):
        if not part.is_term or number in found:
            continue
        own, size = part.output.casefold(), len(part.output)
        read = [link[2:] for link in links if link[0] < part.end and part.start < link[1]]
        longer = [word for word in words if any(first < word[1] and word[0] < last for first, last in read)]
        ends = [side for start, end in longer for side in ((start, start + size), (end - size, end))]
        for start, end in ends:
            if start >= 0 and translation[start:end].casefold() == own and not any(taken[start:end]):
                spans[number] = start, end
                taken[start:end] = b"\1" * size
                break
    return spans


def find_translated(
    masked: MaskedSentence, translation: str, units: Sequence[Unit], found: Container[int], taken: bytearray
) -> dict[int, Span]:
    """For each part that is not in `found`, the span of its translation, by part index; marks the spans in `taken`."""
    missing = [n for n in range(len(masked.parts)) if n not in found and n not in masked.symbols]
    if not missing:
        return {}
    nodes = [Node(n, masked.parts[n].start, masked.parts[n].end) for n in missing]
    labels = count_links(range(len(units)), units, nodes)
    barrier = (len(nodes), 1)  # the copy of another part ends a run
    labels = [barrier if any(taken[unit.start : unit.end]) else labels[n] for n, unit in enumerate(units)]
    runs = best_runs(range(len(units)), labels)
    spans: dict[int, Span] = {}
    for number, node in enumerate(nodes):
        if number in runs:
            part, run = masked.parts[node.index], runs[number]
            original = masked.source[part.start : part.end]
            is_text = part.is_term or part.markup is not None  # a model may translate it to any words
            run = run if is_text else extend_run(run, original, translation, units, taken)
            span = units[run[0]].start, units[run[-1]].end
            if is_text or similarity(translation[slice(*span)], original) >= SIMILAR:
                spans[node.index] = span
                taken[slice(*span)] = b"\1" * (span[1] - span[0])
    return spans


def extend_run(run: range, original: str, translation: str, units: Sequence[Unit], taken: bytearray) -> range:
    """A run of units with those beside it that make it more similar to the code which it is a changed copy of."""

    def belongs(index: int) -> bool:
        start, end = (units[index].start, units[index].end) if 0 <= index < len(units) else (0, 0)
        return start < end and not any(taken[start:end]) and translation[start:end].lower() in original.lower()

    def quality(run: range) -> float:
        return similarity(translation[units[run[0]].start : units[run[-1]].end], original)

    best = run
    for _ in range(MAX_EXTENSION):
        others = [range(best.start - 1, best.stop)] if belongs(best.start - 1) else []
        others += [range(best.start, best.stop + 1)] if belongs(best.stop) else []
        better = max(others, key=quality, default=best)
        if quality(better) <= quality(best):
            break
        best = better
    return best


def similarity(first: str, second: str) -> float:
    """The share of characters that two texts have in common, without blanks and capitals."""
    left, right = ("".join(text[:MAX_CODE].lower().split()) for text in (first, second))
    return SequenceMatcher(None, left, right, autojunk=False).quick_ratio()


def write(
    masked: MaskedSentence, translation: str, links: Sequence[Link], edits: Sequence[tuple[int, int, int]]
) -> RestoredSentence:
    """The translation with every edit (start, end, number of a part or REMOVED) made."""
    outputs = []
    for start, end, number in edits:
        if number == REMOVED:
            end += translation[end : end + 1] == " " and (start == 0 or translation[start - 1] == " ")
            outputs.append((start, end, "", 0, 0))
        else:
            part = masked.parts[number]
            joined = _HYPHEN.match(translation, end) if end > start and _COUNT.fullmatch(part.output) else None
            if joined and masked.source[part.end : part.end + 1] == " ":  # "%d file" is not "%d-Datei"
                translation = translation[:end] + " " * len(joined[0]) + translation[joined.end() :]
            is_there = part.is_term and translation[start:end] == part.output
            before, after = ("", "") if is_there else blanks(masked.source, part, translation, (start, end))
            outputs.append((start, end, before + part.output + after, len(before), len(after)))
    rewriting = Rewriting.of(translation, ((start, end, text) for start, end, text, _, _ in outputs))
    spans = {
        number: (begin + before, finish - after)
        for (_, (begin, finish)), (_, _, number), (*_, before, after) in zip(
            rewriting.parts, edits, outputs, strict=True
        )
        if number != REMOVED
    }
    replaced = sorted((start, end) for start, end, _ in edits)
    kept = ((link[:2], span) for link in links for span in remaining(link[2:], replaced))
    moved = [(*span, *rewriting.after(rest)) for span, rest in kept]
    own = [(masked.parts[number].start, masked.parts[number].end, *span) for number, span in spans.items()]
    ordered = sorted([*moved, *own], key=lambda link: link[2:])
    return RestoredSentence(rewriting.text, tuple(spans[number] for number in range(len(masked.parts))), tuple(ordered))


def blanks(source: str, part: Protected, translation: str, span: Span) -> tuple[str, str]:
    """The blanks before and after a part that is written in place of a span of the translation, as in the source.

    A part that is inserted gets blanks, one in place of words only if it would touch a word.
    """
    start, end = span
    sides = []
    for beside, near, edge in (
        (translation[max(0, start - 1) : start], source[max(0, part.start - 1) : part.start], part.output[:1]),
        (translation[end : end + 1], source[part.end : part.end + 1], part.output[-1:]),
    ):
        is_between_words = beside.isalnum() and edge.isalnum()
        is_written = beside.isalnum() or (start == end and beside != "" and not beside.isspace())
        needed = is_written and not is_wide(beside) and (near.isspace() or (start == end and is_between_words))
        sides.append(" " if needed else "")
    return sides[0], sides[1]
