"""Gold alignments of the built-in corpora, exact by construction.

Both texts are built from segments that know their meaning, and segments with the same meaning are linked:

    Donnerstag , _ 5 . _ November _ 2026          forty - two
                   |        |       |               \\   /
           2026 - 11 - 05 (year, month, day)       zwei und vierzig

Equal meanings are sure links. A segment without a meaning (a comma, "und") has possible links, which count neither for
nor against a model: on the target side to all segments, on the source side to the meanings of its neighbours. A weekday
has a meaning that no ISO date contains.
"""

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from regard.data.builtin import Name, days, quantities
from regard.data.sources import Split
from regard.errors import UserError
from regard.text.subword import SubwordTokenizer
from regard.text.symbols import to_bytes
from regard.text.tokenizer import Tokenizer

Links = frozenset[tuple[int, int]]
FIELDS = {"y": "year", "M": "month", "d": "day", "E": "weekday"}


class Segment(NamedTuple):
    """A segment of text and its meaning; "" if it has none of its own."""

    text: str
    meaning: str = ""


@dataclass(frozen=True)
class AlignedPair:
    """A source and its target in segments; a link is (source segment, target segment)."""

    src_segments: tuple[Segment, ...]
    tgt_segments: tuple[Segment, ...]

    @property
    def src(self) -> str:
        return "".join(segment.text for segment in self.src_segments)

    @property
    def tgt(self) -> str:
        return "".join(segment.text for segment in self.tgt_segments)

    @cached_property
    def sure(self) -> Links:
        """Links of segments with the same meaning."""
        positions: dict[str, list[int]] = {}
        for i, segment in enumerate(self.src_segments):
            positions.setdefault(segment.meaning, []).append(i)
        targets = ((j, segment.meaning) for j, segment in enumerate(self.tgt_segments) if segment.meaning)
        return frozenset((i, j) for j, meaning in targets for i in positions.get(meaning, []))

    @cached_property
    def possible(self) -> Links:
        """The sure links and those of segments without a meaning."""
        targets = {segment.meaning: j for j, segment in enumerate(self.tgt_segments) if segment.meaning}
        links = set(self.sure)
        for i, segment in enumerate(self.src_segments):
            if not segment.meaning:
                links |= {(i, targets[name]) for name in neighbours(self.src_segments, i) if name in targets}
            links |= {(i, j) for j, other in enumerate(self.tgt_segments) if not other.meaning}
        return frozenset(links)


def neighbours(segments: Sequence[Segment], index: int) -> list[str]:
    """The meanings of the nearest segments that have one, before and after an index."""
    sides = (reversed(segments[:index]), iter(segments[index + 1 :]))
    nearest = (next((segment.meaning for segment in side if segment.meaning), "") for side in sides)
    return [meaning for meaning in nearest if meaning]


def gold(name: Name, split: Split) -> Iterator[AlignedPair]:
    """The pairs of a built-in corpus in its order, with their alignments."""
    if name == "dates":
        return (AlignedPair(written_out(day, locale, form), iso(day)) for day, locale, form in days(split))
    return (AlignedPair(english(number), german(number)) for number in quantities(split))


def written_out(day: datetime.date, locale: str, form: str) -> tuple[Segment, ...]:
    """A day by CLDR's pattern of a locale and form: one segment for each field, and for each other character."""
    from babel.dates import DateTimeFormat, get_date_format

    fields = DateTimeFormat(day, locale)
    literals_and_fields = re.split(r"%\((\w+)\)s", get_date_format(form, locale=locale).format)
    segments: list[Segment] = []
    for number, text in enumerate(literals_and_fields):
        if number % 2:
            segments.append(Segment(fields[text], FIELDS[text[0]]))
        else:
            segments += (Segment(character) for character in text)
    return tuple(segments)


def iso(day: datetime.date) -> tuple[Segment, ...]:
    """ISO 8601: year, month and day."""
    year, month, of_month = day.isoformat().split("-")
    return Segment(year, "year"), Segment("-"), Segment(month, "month"), Segment("-"), Segment(of_month, "day")


@lru_cache
def word(number: int, language: str) -> str:
    """The word of a number that has one: up to twenty, and multiples of ten."""
    from num2words import num2words

    text: str = num2words(number, lang=language)
    return text


def english(number: int) -> tuple[Segment, ...]:
    """A number below a million: "one hundred and one thousand, two hundred and thirty-four"."""
    thousands, ones = divmod(number, 1000)
    segments: list[Segment] = []
    if thousands:
        segments += [*hundreds_segments(thousands, "en", "thousands"), Segment("thousand", "thousand")]
    if thousands and ones:
        segments.append(Segment("and") if ones < 100 else Segment(","))
    if ones or not thousands:
        segments += hundreds_segments(ones, "en", "ones")
    joined = [segments[0]]
    for before, segment in pairwise(segments):
        close = segment.text in "-," or before.text == "-"
        joined.append(segment if close else Segment(f" {segment.text}", segment.meaning))
    return tuple(joined)


def german(number: int) -> tuple[Segment, ...]:
    """A number below a million in German, units before tens: "einhunderteinstausendzweihundertvierunddreißig"."""
    thousands, ones = divmod(number, 1000)
    segments: list[Segment] = []
    if thousands:
        one = Segment(german_digit(1), "units of thousands")
        first = [one] if thousands == 1 else hundreds_segments(thousands, "de", "thousands")
        segments += [*first, Segment("tausend", "thousand")]
    if ones or not thousands:
        segments += hundreds_segments(ones, "de", "ones")
    return tuple(segments)


def hundreds_segments(number: int, language: str, group: str) -> list[Segment]:
    """English or German words for a number below 1,000, as segments with alignment keys, without spaces."""
    hundreds, remainder = divmod(number, 100)
    tens, units = (number_word(part, language, group) for part in (remainder // 10 * 10, remainder % 10))
    is_german, segments = language == "de", list[Segment]()
    if hundreds:
        digit = german_digit(hundreds) if is_german else word(hundreds, "en")
        hundred = Segment("hundert" if is_german else "hundred", f"hundred of {group}")
        segments += [Segment(digit, f"hundreds of {group}"), hundred]
        segments += [Segment("and")] if remainder and not is_german else []
    if remainder > 20 and remainder % 10:
        first = Segment(german_digit(remainder % 10), units.meaning)
        segments += [first, Segment("und"), tens] if is_german else [tens, Segment("-"), units]
    elif remainder or not hundreds:
        segments.append(number_word(remainder, language, group))
    return segments


def german_digit(digit: int) -> str:
    """A digit before another word: "ein" instead of "eins"."""
    return "ein" if digit == 1 else word(digit, "de")


def number_word(number: int, language: str, group: str) -> Segment:
    """A word below a hundred, and its meaning in its group of three digits."""
    return Segment(word(number, language), f"{'units' if number < 10 else 'tens'} of {group}")


@dataclass(frozen=True)
class Units:
    """The smallest spans that are whole tokens and whole segments: unit n is tokens[n], and segments[n]."""

    tokens: list[range]
    segments: list[range]


def units(segments: Sequence[Segment], ids: Sequence[int], tokenizer: Tokenizer) -> Units:
    """The smallest spans of a text that are whole tokens and whole segments."""
    width = token_bytes(tokenizer)
    token_ends = list(accumulate(width[number] for number in ids))
    part_ends = list(accumulate(len(segment.text.encode()) for segment in segments))
    if token_ends[-1:] != part_ends[-1:]:
        raise ValueError(f"{token_ends[-1:]} bytes of tokens are not {part_ends[-1:]} bytes of text")
    cuts = [0, *sorted(set(token_ends) & set(part_ends))]
    return Units(_between(cuts, token_ends), _between(cuts, part_ends))


def _between(cuts: Sequence[int], ends: Sequence[int]) -> list[range]:
    index = {end: n + 1 for n, end in enumerate(ends)} | {0: 0}
    return [range(index[first], index[last]) for first, last in pairwise(cuts)]


def unit_links(links: Links, src: Units, tgt: Units) -> Links:
    """Links between segments as links between their units."""
    unit_of_src = {segment: n for n, inside in enumerate(src.segments) for segment in inside}
    unit_of_tgt = {segment: n for n, inside in enumerate(tgt.segments) for segment in inside}
    return frozenset((unit_of_src[i], unit_of_tgt[j]) for i, j in links)


def token_bytes(tokenizer: Tokenizer) -> list[int]:
    """Number of bytes of each token of a tokenizer."""
    if not isinstance(tokenizer, SubwordTokenizer):
        problem = "an imported tokenizer does not map tokens to characters, which alignment needs"
        raise UserError(problem, "use a run whose tokenizer was trained by regard", code="unsupported")
    return [len(to_bytes(token)) for token in tokenizer.token_ids]
