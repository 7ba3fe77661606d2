"""Protected parts of a text: what is copied to the translation exactly, and the terms of a glossary.

code     %s  %1$s  %(name)s  {name}  {0}  {{x}}  {% if x %}  ${x}  <0/>  &amp;  `code`  URLs, e-mail addresses, @names,
         emoji
glossary terms of the source as whole words; what they become is given. A term also matches with a capital first
         letter, at the beginning of a sentence; then its translation has one too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from regard.documents.sentences import IDEOGRAPH, WORD, Span
from regard.errors import UserError

MAX_TERMS, MAX_TERM_CHARACTERS = 10_000, 500

CODE = re.compile(
    r"""
      (?:(?:https?|ftps?|file)://|(?<![^\WIDEOGRAPH])(?:www\.|mailto:))                                   # addresses
      (?:[^\s<>"'`（）。，；：、！？IDEOGRAPH]|(?<=[/=_IDEOGRAPH-])[IDEOGRAPH])+
    | (?:[^\WIDEOGRAPH]|[.+%-]){1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}
    | (?<![^\WIDEOGRAPH])(?<![@.])@[A-Za-z_](?:[^\WIDEOGRAPH]|-)*(?:@[A-Za-z0-9.-]+[A-Za-z0-9])?          # @names
    | (?<![^\WIDEOGRAPH])(?<!&)\#[A-Za-z_][A-Za-z0-9_]*
    | `[^`\n]{1,500}` | ⦅\d{1,3}⦆
    | \{%[^\n]{0,200}?%\} | \{\#[^\n]{0,200}?\#\}                                                          # {% if x %}
    | \{\{[^{}\n]{0,200}\}\} | \$\{[^{}\n]{1,200}\} | \#\{[^{}\n]{1,200}\}                               # {{x}} ${x}
    | \{[A-Za-z_][\w.\-]{0,100}(?:\[[^\[\]{}\s]{0,50}\])?(?:[!:,][^{}\n]{0,50})?\}                       # {name}
    | \{\d{0,3}(?:[!:,][^{}\n]{0,50})?\}                                                                 # {0} {}
    | %\([^()\s]{1,100}\)[-+\#0]*\d*(?:\.\d+)?[A-Za-z] | %\{[^{}\s]{1,100}\} | %<[^<>\s]{1,100}>[A-Za-z]?
    | %\d{1,2}\$[-+\#0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|t|j)?[A-Za-z@] | %%                                  # %1$s
    | (?<![\d%])%[-+\#0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|t|j)?[sdiufFgGeExXocrpa@](?![A-Za-z])               # %s
    | (?<![\d%])%L?\d{1,2}(?![\d%])
    | </?[A-Za-z0-9][\w:.-]{0,50}(?:\s[^<>\n]{0,300})?/?>                                                # <0/>
    | &(?:\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});
    | [\U0001F1E6-\U0001F1FF]{2}
    | [\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001F000-\U0001FAFF]
      (?:[\ufe0f\U0001F3FB-\U0001F3FF\u20e3]|\u200d[\u2640-\u27bf\U0001F000-\U0001FAFF])*                # emoji
    """.replace("IDEOGRAPH", IDEOGRAPH),
    re.VERBOSE,
)
"""Chinese text has no spaces: an ideograph ends an address, unless it follows "/", "=", "_", "-" or another one."""
_ADDRESS = re.compile(r"[a-z]+://|www\.|mailto:")
_INSIDE_WORD = re.compile(rf"(?<=[^\W{IDEOGRAPH}])[^\W{IDEOGRAPH}]")
_TRAILING = ".,;:!?…)]}"


@dataclass(frozen=True)
class Protected:
    """Characters start to end of a text, and what stands for them in the translation.

    is_term    a term of a glossary: the model may have translated it to other words
    markup     what is written in the document for `output`; None if `output` itself is written as text
    """

    start: int
    end: int
    output: str
    is_term: bool = False
    markup: str | None = None


class Glossary:
    """Terms and their translations. The time of a search does not depend on the number of terms.

    At each word of a text, one part of the text is looked up for each length of the terms that begin with this word.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        for source, target in terms.items():
            if source != source.strip() or not WORD.match(source) or not target.strip() or "\n" in source + target:
                problem = f"the glossary entry {source!r}: {target!r} is not valid"
                remedy = "write both on one line, without spaces around them; the term must begin with a word"
                raise UserError(problem, remedy, code="bad-glossary", where="glossary")
        longest = max((len(source) + len(target) for source, target in terms.items()), default=0)
        if len(terms) > MAX_TERMS or longest > MAX_TERM_CHARACTERS:
            remedy = f"use at most {MAX_TERMS:,} terms, with at most {MAX_TERM_CHARACTERS} characters per entry"
            raise UserError(f"the glossary has {len(terms):,} terms", remedy, code="too-large", where="glossary")
        self._outputs: dict[str, str] = {}
        lengths: dict[str, set[int]] = {}
        for source, target in sorted(terms.items(), key=lambda item: -len(item[0])):
            for term, output in {capitalised(source): capitalised(target), source: target}.items():
                if match := WORD.search(term):
                    self._outputs.setdefault(term, terms.get(term, output))
                    lengths.setdefault(match[0], set()).add(len(term))
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    @classmethod
    def of(cls, terms: "Mapping[str, str] | Glossary") -> "Glossary":
        """The glossary of some terms; a glossary as it is, so that it is made once for many texts."""
        return terms if isinstance(terms, Glossary) else cls(terms)

    def find(self, text: str) -> Iterator[Protected]:
        """The terms in a text from left to right, the longest at each place."""
        end = 0
        for word in WORD.finditer(text) if self._lengths else ():
            if word.start() < end:
                continue
            for length in self._lengths.get(word[0], ()):
                last = word.start() + length
                output = self._outputs.get(text[word.start() : last])
                if output is not None and last <= len(text) and is_word_end(text, last):
                    yield Protected(word.start(), last, output, is_term=True)
                    end = last
                    break


def capitalised(text: str) -> str:
    """A text with a capital first letter."""
    return text[:1].upper() + text[1:]


def is_word_end(text: str, place: int) -> bool:
    """True if no word continues at a place; every character of Chinese is a word."""
    return not _INSIDE_WORD.match(text, place)


NO_TERMS = Glossary({})


def find_protected(text: str, glossary: Glossary, opaque: Iterable[Protected] = ()) -> list[Protected]:
    """The protected parts of a text in order: `opaque` ones are given, then code, then terms outside of both."""
    parts = sorted(opaque, key=lambda part: part.start)
    code = (Protected(start, end, text[start:end]) for start, end in find_code(text))
    for found in (code, glossary.find(text)):
        parts = merge(parts, list(found))
    return parts


def find_code(text: str) -> Iterator[Span]:
    """The spans of code, addresses and emoji; those without anything in between are one.

    An address has no punctuation mark at its end.
    """
    first, last = 0, -1
    for match in CODE.finditer(text):
        start, end = match.span()
        if _ADDRESS.match(match[0]):
            trimmed = match[0].rstrip(_TRAILING)  # "(" in it keeps its ")"
            end = start + len(trimmed) + ("(" in trimmed and match[0].startswith(")", len(trimmed)))
        if start != last:
            if last > first:
                yield first, last
            first = start
        last = end
    if last > first:
        yield first, last


def merge(first: list[Protected], second: list[Protected]) -> list[Protected]:
    """Both lists in order, without those of the second that overlap with one of the first."""
    merged: list[Protected] = []
    index = end = 0
    for part in second:
        while index < len(first) and first[index].start < part.end:
            merged.append(first[index])
            end = first[index].end
            index += 1
        if part.start >= end:
            merged.append(part)
    return sorted([*merged, *first[index:]], key=lambda part: part.start)
