"""Plain text: lines for language models, and the sentences of documents for BERT.

A line is a sentence, a paragraph or a heading; blank lines are lines too. The published forms of some corpora have
single spaces and <unk> for rare words: `TextNormalizer` does both while the text is read.

A document is a sequence of sentences that follow from each other (Devlin et al. 2018, section A.2). A "sentence" is
only a span of text to put inputs together from; it need not be one in a linguist's sense.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

UNKNOWN = "<unk>"


@dataclass(frozen=True)
class TextNormalizer:
    """Normalisation of every line that a language model reads, in training, in evaluation and in a prompt."""

    single_blanks: bool = False
    words: frozenset[str] | None = None
    """The words that are kept; others become <unk>. None keeps all words."""

    def __call__(self, line: str) -> str:
        if self.single_blanks:
            line = " ".join(line.split())
        words = self.words
        return line if words is None else re.sub(r"\S+", lambda word: word[0] if word[0] in words else UNKNOWN, line)


def frequent_words(lines: Iterable[str], min_count: int) -> frozenset[str]:
    """The words that occur at least `min_count` times, and <unk>."""
    counts = Counter(word for line in lines for word in line.split())
    return frozenset(word for word, count in counts.items() if count >= min_count) | {UNKNOWN}


def sentences(lines: Iterable[str], boundary: str, unit: str) -> Iterator[tuple[int, str, bool]]:
    """Every sentence of every document: its line number, its text, and True if a document begins with it.

    Documents are separated by `boundary` ("blank", "heading" or "file"); `unit` is "lines" or "split".
    """
    first = True
    for number, line in enumerate(lines, 1):
        is_blank = not line.strip()
        if (boundary == "blank" and is_blank) or (boundary == "heading" and TITLE.match(line)):
            first = True
        if is_blank or (boundary == "heading" and HEADING.match(line)):
            continue
        for text in split_sentences(line) if unit == "split" else [line]:
            yield number, text, first
            first = False


HEADING = re.compile(r"\s*=\s.*\s=\s*$")
TITLE = re.compile(r"\s*=\s+[^=\s].*\s=\s*$")


CLOSING = "\"'”’»)\\]"
TOKENISED = re.compile(r"\s\.(\s|$)")
# Tokenised text has a space before the full stop: "in the U.S. Army . He".
APART = re.compile(r"(?<=\s[.!?])\s+(?=\S)")
# Other text has it at the end of a word, maybe with a closing quote. Before a small letter it is an abbreviation.
ATTACHED = re.compile(rf"(?:(?<=[.!?…])|(?<=[.!?…][{CLOSING}])|(?<=[.!?…][{CLOSING}]{{2}}))\s+(?![a-zà-ÿ\s])")
CHINESE = re.compile(r"(?<=[。！？])(?![。！？」』”’）])|(?<=[。！？][」』”’）])")


def split_sentences(line: str) -> list[str]:
    """Split a paragraph after its full stops. "Dr. Who" is split too; nothing is lost but spaces."""
    latin = APART if TOKENISED.search(line) else ATTACHED
    sentences = (sentence.strip() for segment in latin.split(line) for sentence in CHINESE.split(segment))
    return [sentence for sentence in sentences if sentence]
