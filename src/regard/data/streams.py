"""A text as one long row of token numbers: tokenised once, memory-mapped, found again as long as nothing changed.

Every line ends in the end symbol, the last one too.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.arrays import SEEN, Array, ArrayWriter, fingerprint, map_array, seal, smallest_unsigned, unseal
from regard.data.digests import Digests, checksum
from regard.data.parallel import count_workers, map_in_order
from regard.data.store import CHUNK_CHARACTERS, CHUNK_PAIRS, Progress
from regard.data.texts import Reading, Text, identify, read_texts
from regard.errors import UserError
from regard.files import replacing
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

    It is made aside and renamed, so one that is there is whole. `progress` is told how many lines are done.
    """
    digests = Digests(folder / SEEN)
    known = "all" if reading.known is None else checksum(sorted(reading.known))
    inputs = [identify(text, root, digests) for text in texts]
    current = fingerprint("stream", *inputs, vocabulary.to_json(), str(reading.single_blanks), known)
    meta = unseal(folder, current, digests)
    if meta is None:
        chunks = map_in_order(
            LineEncoder.from_json,
            (vocabulary.to_json(),),
            _chunks(read_texts(texts, root, reading)),
            count_workers(workers),
        )
        with closing(chunks), replacing(folder, folder=True) as place:
            seal(place, current, _write(place, chunks, len(vocabulary), progress))
        meta = unseal(folder, current, digests)
        if meta is None:
            raise UserError(f"{folder} changed while it was read", "let one process at a time prepare the data")
    digests.save()
    return Stream(folder, meta)


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines in handfuls of bounded size."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


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
