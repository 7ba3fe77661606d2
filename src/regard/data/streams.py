"""A text as one long row of token numbers: tokenised once, memory-mapped, found again as long as nothing changed.

Every line ends in the end symbol, the last one too.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.arrays import SEEN, Array, ArrayWriter, fingerprint, map_array, open_or_make, smallest_unsigned
from regard.data.digests import Digests, checksum
from regard.data.parallel import count_workers, in_chunks, map_in_order
from regard.data.store import Progress
from regard.data.texts import Reading, Text, identify, read_texts
from regard.text.symbols import EOS
from regard.text.vocabulary import Vocabulary

IDS = "ids"


class Stream:
    """A tokenised text: `ids` (N,), and what it had before it was tokenised."""

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        """Map the array of a sealed folder; use `open_or_build_stream`."""
        self.fingerprint: str = meta["fingerprint"]
        self.ids = map_array(folder / IDS, meta["dtype"])
        self.lines: int = meta["lines"]
        self.words: int = meta["words"]
        """What stands between blanks, and one for the end of each line."""
        self.characters: int = meta["characters"]
        """The ends of lines among them."""

    def __len__(self) -> int:
        """N, the number of tokens."""
        return len(self.ids)


def open_or_build_stream(
    folder: Path,
    texts: Sequence[Text],
    root: Path,
    vocabulary: Vocabulary,
    reading: Reading,
    workers: int = 0,
    progress: Progress | None = None,
) -> Stream:
    """The row of `texts` in `folder`, made anew if anything it depends on has changed or it is damaged.

    `progress` is told how many lines are done.
    """
    digests = Digests(folder / SEEN)
    known = "all" if reading.known is None else checksum(sorted(reading.known))
    inputs = [identify(text, root, digests) for text in texts]
    current = fingerprint("stream", *inputs, vocabulary.to_json(), str(reading.single_blanks), known)

    def make(place: Path) -> dict[str, Any]:
        chunks, encoder = in_chunks(read_texts(texts, root, reading), len), (vocabulary.to_json(),)
        with closing(map_in_order(LineEncoder.from_json, encoder, chunks, count_workers(workers))) as encoded:
            return _write(place, encoded, len(vocabulary), progress)

    return Stream(folder, open_or_make(folder, current, digests, make))


class Measured(NamedTuple):
    """A handful of lines after tokenising, and what they had before."""

    ids: Array
    lines: int
    words: int
    characters: int


class LineEncoder:
    """Tokenises lines, each with its end."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @classmethod
    def from_json(cls, vocabulary: str) -> "LineEncoder":
        """An encoder in another process."""
        return cls(Vocabulary.from_json(vocabulary))

    def __call__(self, lines: list[str]) -> Measured:
        rows = self._vocabulary.encode_batch(lines)
        ids = np.array([number for row in rows for number in (*row, EOS)], smallest_unsigned(len(self._vocabulary)))
        words = sum(len(line.split()) + 1 for line in lines)
        return Measured(ids, len(lines), words, sum(len(line) + 1 for line in lines))


def _write(place: Path, chunks: Iterable[Measured], pieces: int, progress: Progress | None) -> dict[str, Any]:
    """Write what the chunks hold end to end; return the facts of `meta.json`."""
    dtype = smallest_unsigned(pieces)
    lines = words = characters = 0
    with ArrayWriter(place / IDS, dtype) as writer:
        for chunk in chunks:
            writer.append(chunk.ids)
            lines, words, characters = lines + chunk.lines, words + chunk.words, characters + chunk.characters
            if progress is not None:
                progress(lines, None)
    return {"dtype": dtype.name, "lines": lines, "words": words, "characters": characters}
