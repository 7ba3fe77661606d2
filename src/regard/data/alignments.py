"""Which part of a source says which part of its target: exact alignments of the builtin corpora, by construction.

Nobody has to judge them. Both texts are put together from parts, each of which knows what it says, and parts that say
the same are linked:

    Donnerstag , _ 5 . _ November _ 2026          forty - two
                   |        |       |               \\   /
           2026 - 11 - 05 (year, month, day)       zwei und vierzig

Equal meanings are sure links. What says nothing of its own (a comma, "und") may be linked without being wrong: on the
target side to everything, as it must look somewhere; on the source side to what its neighbours say. A weekday says
something that no ISO date repeats.
"""

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from regard.data.builtin import Name, days, quantities
from regard.data.sources import Split as Share
from regard.errors import UserError
from regard.text.subword import SubwordTokenizer
from regard.text.symbols import to_bytes
from regard.text.tokenizer import Tokenizer

Links = frozenset[tuple[int, int]]
FIELDS = {"y": "year", "M": "month", "d": "day", "E": "weekday"}


class Part(NamedTuple):
    """A stretch of text and what it says; "" where it says nothing of its own."""

    text: str
    says: str = ""


@dataclass(frozen=True)
class AlignedPair:
    """A source and its target in parts; a link is (part of the source, part of the target)."""

    src_parts: tuple[Part, ...]
    tgt_parts: tuple[Part, ...]

    @property
    def src(self) -> str:
        return "".join(part.text for part in self.src_parts)

    @property
    def tgt(self) -> str:
        return "".join(part.text for part in self.tgt_parts)

    @cached_property
    def sure(self) -> Links:
        """Parts that say the same."""
        places: dict[str, list[int]] = {}
        for i, part in enumerate(self.src_parts):
            places.setdefault(part.says, []).append(i)
        return frozenset(
            (i, j) for j, part in enumerate(self.tgt_parts) if part.says for i in places.get(part.says, [])
        )

    @cached_property
    def possible(self) -> Links:
        """The sure links and those of parts that say nothing."""
        said = {part.says: j for j, part in enumerate(self.tgt_parts) if part.says}
        found = set(self.sure)
        for i, part in enumerate(self.src_parts):
            if not part.says:
                found |= {(i, said[name]) for name in neighbours(self.src_parts, i) if name in said}
            found |= {(i, j) for j, other in enumerate(self.tgt_parts) if not other.says}
        return frozenset(found)


def neighbours(parts: Sequence[Part], place: int) -> list[str]:
    """What the nearest parts that say something say, before and after a place."""
    sides = (reversed(parts[:place]), iter(parts[place + 1 :]))
    nearest = (next((part.says for part in side if part.says), "") for side in sides)
    return [says for says in nearest if says]


def gold(name: Name, share: Share) -> Iterator[AlignedPair]:
    """The pairs of a builtin corpus in its own order, with their alignments."""
    if name == "dates":
        return (AlignedPair(written_out(day, locale, form), iso(day)) for day, locale, form in days(share))
    return (AlignedPair(english(number), german(number)) for number in quantities(share))


def written_out(day: datetime.date, locale: str, form: str) -> tuple[Part, ...]:
    """A day as CLDR's pattern of that language and form writes it, field by field, every other character alone."""
    from babel.dates import DateTimeFormat, get_date_format

    fields = DateTimeFormat(day, locale)
    literals_and_fields = re.split(r"%\((\w+)\)s", get_date_format(form, locale=locale).format)
    parts: list[Part] = []
    for number, piece in enumerate(literals_and_fields):
        if number % 2:
            parts.append(Part(fields[piece], FIELDS[piece[0]]))
        else:
            parts += (Part(character) for character in piece)
    return tuple(parts)


def iso(day: datetime.date) -> tuple[Part, ...]:
    """ISO 8601: year, month and day."""
    year, month, of_month = day.isoformat().split("-")
    return Part(year, "year"), Part("-"), Part(month, "month"), Part("-"), Part(of_month, "day")


@lru_cache
def word(number: int, language: str) -> str:
    """A number that has a word of its own: up to twenty, and whole tens."""
    from num2words import num2words

    text: str = num2words(number, lang=language)
    return text


def english(number: int) -> tuple[Part, ...]:
    """A number below a million: "one hundred and one thousand, two hundred and thirty-four"."""
    thousands, ones = divmod(number, 1000)
    parts: list[Part] = []
    if thousands:
        parts += [*english_hundreds(thousands, "thousands"), Part("thousand", "thousand")]
    if thousands and ones:
        parts.append(Part("and") if ones < 100 else Part(","))
    if ones or not thousands:
        parts += english_hundreds(ones, "ones")
    joined = [parts[0]]
    for before, part in pairwise(parts):
        close = part.text in "-," or before.text == "-"
        joined.append(part if close else Part(f" {part.text}", part.says))
    return tuple(joined)


def english_hundreds(number: int, group: str) -> list[Part]:
    """A number below a thousand, its words not yet spaced."""
    hundreds, rest = divmod(number, 100)
    parts: list[Part] = []
    if hundreds:
        parts += [Part(word(hundreds, "en"), f"hundreds of {group}"), Part("hundred", f"hundred of {group}")]
    if hundreds and rest:
        parts.append(Part("and"))
    tens, units = rest // 10 * 10, rest % 10
    if rest > 20 and units:
        return [
            *parts,
            Part(word(tens, "en"), says(tens, group)),
            Part("-"),
            Part(word(units, "en"), says(units, group)),
        ]
    return [*parts, Part(word(rest, "en"), says(rest, group))] if rest or not hundreds else parts


def german(number: int) -> tuple[Part, ...]:
    """The same in German, units before tens: "einhunderteinstausendzweihundertvierunddreißig"."""
    thousands, ones = divmod(number, 1000)
    parts: list[Part] = []
    if thousands:
        first = (
            [Part(german_digit(1), says(1, "thousands"))] if thousands == 1 else german_hundreds(thousands, "thousands")
        )
        parts += [*first, Part("tausend", "thousand")]
    if ones or not thousands:
        parts += german_hundreds(ones, "ones")
    return tuple(parts)


def german_hundreds(number: int, group: str) -> list[Part]:
    """A number below a thousand."""
    hundreds, rest = divmod(number, 100)
    parts: list[Part] = []
    if hundreds:
        parts += [Part(german_digit(hundreds), f"hundreds of {group}"), Part("hundert", f"hundred of {group}")]
    tens, units = rest // 10 * 10, rest % 10
    if rest > 20 and units:
        digit = Part(german_digit(units), says(units, group))
        return [*parts, digit, Part("und"), Part(word(tens, "de"), says(tens, group))]
    return [*parts, Part(word(rest, "de"), says(rest, group))] if rest or not hundreds else parts


def german_digit(digit: int) -> str:
    """A digit before another word, where "eins" loses its s."""
    return "ein" if digit == 1 else word(digit, "de")


def says(number: int, group: str) -> str:
    """What a word below a hundred says in its group of three digits."""
    return f"{'units' if number < 10 else 'tens'} of {group}"


@dataclass(frozen=True)
class Units:
    """A text cut where both its pieces and its parts are: unit n is these pieces, and these parts."""

    pieces: list[range]
    parts: list[range]


def units(parts: Sequence[Part], ids: Sequence[int], vocabulary: Tokenizer) -> Units:
    """The smallest stretches that are whole pieces of a vocabulary and whole parts of an alignment."""
    width = piece_widths(vocabulary)
    piece_ends = list(accumulate(width[number] for number in ids))
    part_ends = list(accumulate(len(part.text.encode()) for part in parts))
    if piece_ends[-1:] != part_ends[-1:]:
        raise ValueError(f"{piece_ends[-1:]} bytes of pieces are not {part_ends[-1:]} bytes of text")
    cuts = [0, *sorted(set(piece_ends) & set(part_ends))]
    return Units(_between(cuts, piece_ends), _between(cuts, part_ends))


def _between(cuts: Sequence[int], ends: Sequence[int]) -> list[range]:
    place = {end: n + 1 for n, end in enumerate(ends)} | {0: 0}
    return [range(place[first], place[last]) for first, last in pairwise(cuts)]


def unit_links(links: Links, src: Units, tgt: Units) -> Links:
    """Links between parts as links between the units they are in."""
    unit_of_src = {part: n for n, inside in enumerate(src.parts) for part in inside}
    unit_of_tgt = {part: n for n, inside in enumerate(tgt.parts) for part in inside}
    return frozenset((unit_of_src[i], unit_of_tgt[j]) for i, j in links)


def word_pieces(text: str, ids: Sequence[int], vocabulary: Tokenizer) -> list[list[int]]:
    """For every word of `text` (what stands between blanks) the places in `ids` that write some of it."""
    width = piece_widths(vocabulary)
    starts = [0, *accumulate(width[number] for number in ids)]
    spans = [(len(text[: m.start()].encode()), len(text[: m.end()].encode())) for m in re.finditer(r"\S+", text)]
    return [
        [n for n, (first, last) in enumerate(pairwise(starts)) if first < end and last > begin] for begin, end in spans
    ]


def piece_widths(vocabulary: Tokenizer) -> list[int]:
    """How many bytes each piece of a vocabulary stands for."""
    if not isinstance(vocabulary, SubwordTokenizer):
        raise UserError(
            "the tokens of an imported tokenizer do not say which characters of a text they come from",
            "align with a run whose tokenizer was trained by regard",
            code="unsupported",
        )
    return [len(to_bytes(piece)) for piece in vocabulary.token_ids]
