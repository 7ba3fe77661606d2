"""Input of any size in bounded memory: read a stretch, work on it in the best order, give it back in its own order.

Sentences of like length are decoded together (see data/planning.py). How far ahead one may look for them is bounded
by the number of lines and characters of a stretch.
"""

import re
from collections.abc import Iterable, Iterator

from regard.text.tokenizer import Tokenizer

LINES, CHARACTERS = 4096, 2_000_000

# Where a long text is cut, best first: after the end of a sentence, after a clause, at a blank.
BOUNDARIES = (r"(?<=[.!?。！？…])\s*", r"(?<=[;:,，；：、])\s*", r"\s+")


def stretches(lines: Iterable[str], most_lines: int = LINES, most_characters: int = CHARACTERS) -> Iterator[list[str]]:
    """Consecutive lines, as many together as the bounds allow; a line beyond them stands alone."""
    stretch: list[str] = []
    characters = 0
    for line in lines:
        if stretch and (len(stretch) == most_lines or characters + len(line) > most_characters):
            yield stretch
            stretch, characters = [], 0
        stretch.append(line)
        characters += len(line)
    if stretch:
        yield stretch


def cut(text: str, vocabulary: Tokenizer, limit: int) -> list[tuple[str, list[int]]]:
    """A text as parts of at most `limit` tokens, each with its tokens; almost every text is one part.

    What is longer is halved at the boundary nearest to its middle, again and again.
    """
    if len(text) <= limit * vocabulary.max_token_bytes:  # a longer one has more tokens than that for certain
        ids = vocabulary.encode(text)
        if len(ids) <= limit or len(text) < 2:
            return [(text, ids[:limit])]
    left, right = halves(text)
    return cut(left, vocabulary, limit) + cut(right, vocabulary, limit)


def halves(text: str) -> tuple[str, str]:
    """Cut near the middle: after a sentence if one ends in the middle half, else after a clause, a word, anywhere."""
    quarter, middle = len(text) // 4, len(text) // 2
    for boundary in BOUNDARIES:
        found = [m for m in re.finditer(boundary, text[quarter : 3 * quarter]) if m.end() > 0]
        if found:
            best = min(found, key=lambda m: abs(quarter + m.start() - middle))
            left, right = text[: quarter + best.start()], text[quarter + best.end() :]
            if left and right:
                return left, right
    return text[:middle], text[middle:]
