"""Pretrained word vectors in text form: word2vec and fastText (.vec), whose first line is "words width", and GloVe.

    400000 300                           only word2vec and fastText
    the 0.0466 0.2132 -0.0074 ...        a word and its D numbers, with blanks between them

A word may contain blanks (". . ." in GloVe 840B), so the numbers are the last D fields of a line. Only the numbers of
the words that are asked for are parsed; every line must have the right number of fields.

V words asked for, D width.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.files import open_binary
from regard.messages import Message
from regard.reading import MAX_LINE

SHOWN_WORDS = 5
"""Missing words that an account names."""


@dataclass(frozen=True)
class WordVectors:
    """The vectors of some words, and an account of the file."""

    source: Path
    read: int
    """Number of vectors in the file."""
    width: int
    vectors: dict[str, NDArray[np.float32]] = field(repr=False)
    """The vector (D,) of each word that was found."""
    lowercase: int = 0
    """Number of words for which only the lowercase form has a vector."""
    repeated: int = 0
    """Number of lines with a word that an earlier line has; the first one is used."""
    missing: tuple[str, ...] = ()

    def describe(self) -> Message:
        """One line: words found and missing, with the first few of these."""
        shown = ", ".join(map(repr, self.missing[:SHOWN_WORDS])) + (", …" if len(self.missing) > SHOWN_WORDS else "")
        return Message(
            "{source}: {read:,} vectors of width {width} ({repeated:,} repeated); {found:,} of {words:,} words found "
            "({lowercase:,} only in lowercase), {missing:,} missing: {shown}",
            source=self.source, read=self.read, width=self.width, repeated=self.repeated, found=len(self.vectors),
            words=len(self.vectors) + len(self.missing), lowercase=self.lowercase, missing=len(self.missing),
            shown=shown or "–",
        )  # fmt: skip


def read_vectors(path: Path, words: Iterable[str]) -> WordVectors:
    """Read the vectors of `words`; a word without one gets that of its lowercase form, if there is one."""
    asked = list(dict.fromkeys(words))
    wanted = {form.encode() for word in asked for form in (word, word.lower())}
    found: dict[bytes, NDArray[np.float32]] = {}
    seen, count, width, declared = set[bytes](), 0, 0, None
    with open_binary(path) as stream:
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            fields = line.rstrip().split(b" ")
            if number == 1 and len(fields) == 2 and all(item.isdigit() for item in fields):
                declared, width = (int(item) for item in fields)
                continue
            width = width or len(fields) - 1
            word = b" ".join(fields[: len(fields) - width])
            if not word or width < 1 or (number == 1 and not is_number(fields[-1])):
                raise damaged(path, number, f"expected a word and {width or 'several'} numbers, found {line[:60]!r}")
            count += 1
            if word not in seen:
                seen.add(word)
                if word in wanted:
                    found[word] = parse_vector(fields[-width:], path, number)
    if declared is not None and declared != count:
        raise damaged(path, 1, f"the file has {count:,} vectors, but its first line says {declared:,}")
    if not count:
        raise damaged(path, 1, "the file has no vectors")
    exact = {word: found[word.encode()] for word in asked if word.encode() in found}
    lower = {word: found[key] for word in asked if word not in exact and (key := word.lower().encode()) in found}
    missing = tuple(word for word in asked if word not in exact and word not in lower)
    return WordVectors(path, count, width, exact | lower, len(lower), count - len(seen), missing)


def parse_vector(fields: Sequence[bytes], path: Path, number: int) -> NDArray[np.float32]:
    """The numbers of a line; each must be finite."""
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise damaged(path, number, f"{error}") from error
    if not np.isfinite(vector).all():
        raise damaged(path, number, "a number is NaN or infinite")
    return vector


def is_number(item: bytes) -> bool:
    try:
        return bool(np.isfinite(float(item)))
    except ValueError:
        return False


def damaged(path: Path, number: int, problem: str) -> UserError:
    remedy = "use word vectors as text: word2vec (`-binary 0`), GloVe, or fastText (.vec)"
    return UserError(f"{path}:{number}: {problem}", remedy, code="damaged-file", where=f"{path}:{number}")
