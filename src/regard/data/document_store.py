"""Documents in pieces: tokenised once, memory-mapped, found again as long as nothing changed.

pieces       all sentences end to end
sentences    (sentences + 1,) where each begins among the pieces
documents    (documents + 1,) the first sentence of each
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.arrays import SEEN, Array, ArrayWriter, fingerprint, map_array, open_or_make, smallest_unsigned
from regard.data.digests import Digests
from regard.data.documents import Documents, Sentence, identify, read_documents
from regard.data.parallel import count_workers, in_chunks, map_in_order
from regard.data.store import Progress
from regard.errors import UserError
from regard.text.bert import BertVocabulary

PIECES, SENTENCES, DOCUMENTS = "pieces", "sentences", "documents"


class DocumentStore:
    """Tokenised documents. Sentences without a single piece are not there, nor documents without a sentence."""

    def __init__(self, pieces: Array, sentences: Array, documents: Array, print_of_inputs: str = "") -> None:
        """Arrays as the file says; use `open_or_build_documents` for those of a folder."""
        self.pieces, self.sentences, self.documents = pieces, sentences, documents
        self.fingerprint = print_of_inputs

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.documents) - 1


def open_or_build_documents(
    folder: Path,
    files: Sequence[Documents],
    root: Path,
    vocabulary: BertVocabulary,
    workers: int = 0,
    progress: Progress | None = None,
) -> DocumentStore:
    """The documents of `files` in `folder`, made anew if anything they depend on has changed or they are damaged.

    `progress` is told how many sentences are done.
    """
    digests = Digests(folder / SEEN)
    inputs = [identify(documents, root, digests) for documents in files]
    current = fingerprint("documents", *inputs, vocabulary.to_json())

    def make(place: Path) -> dict[str, Any]:
        chunks, encoder = in_chunks(read_documents(files, root), _characters), (vocabulary.to_json(),)
        with closing(map_in_order(SentenceEncoder.from_json, encoder, chunks, count_workers(workers))) as encoded:
            return _write(place, encoded, len(vocabulary), progress)

    meta = open_or_make(folder, current, digests, make)
    kinds = {PIECES: meta["dtype"], SENTENCES: np.int64, DOCUMENTS: np.int64}
    store = DocumentStore(
        **{name: map_array(folder / name, kind) for name, kind in kinds.items()}, print_of_inputs=current
    )
    if not len(store):
        raise UserError(f"{', '.join(map(str, files))} says nothing", "name a text with sentences in it")
    return store


def _characters(sentence: Sentence) -> int:
    return len(sentence.text)


class Encoded(NamedTuple):
    """A handful of sentences: their pieces end to end, how many each has, and which begin a document."""

    pieces: Array
    lengths: Array
    firsts: Array


class SentenceEncoder:
    """Tokenises sentences."""

    def __init__(self, vocabulary: BertVocabulary) -> None:
        self._vocabulary = vocabulary

    @classmethod
    def from_json(cls, vocabulary: str) -> "SentenceEncoder":
        """An encoder in another process."""
        return cls(BertVocabulary.from_json(vocabulary))

    def __call__(self, sentences: list[Sentence]) -> Encoded:
        rows = self._vocabulary.encode_batch([sentence.text for sentence in sentences])
        pieces = np.array([piece for row in rows for piece in row], smallest_unsigned(len(self._vocabulary)))
        lengths = np.array([len(row) for row in rows], np.int64)
        return Encoded(pieces, lengths, np.array([sentence.first for sentence in sentences], bool))


def _write(place: Path, chunks: Iterable[Encoded], entries: int, progress: Progress | None) -> dict[str, Any]:
    """Write what the chunks hold end to end; return the facts of `meta.json`."""
    dtype = smallest_unsigned(entries)
    met, seen = 0, 0  # documents begun, and those of them that had a sentence with pieces
    with (
        ArrayWriter(place / PIECES, dtype) as pieces,
        ArrayWriter(place / SENTENCES, np.int64) as sentences,
        ArrayWriter(place / DOCUMENTS, np.int64) as documents,
    ):
        for chunk in chunks:
            real = chunk.lengths > 0
            owners = met + np.cumsum(chunk.firsts)  # the document of each sentence, from 1
            fresh = np.diff(owners[real], prepend=seen) > 0
            documents.append(sentences.length + np.flatnonzero(fresh))
            sentences.append(pieces.length + np.cumsum(chunk.lengths[real]) - chunk.lengths[real])
            pieces.append(chunk.pieces)
            met, seen = int(owners[-1]), int(owners[real][-1]) if real.any() else seen
            if progress is not None:
                progress(sentences.length, None)
        documents.append(np.array([sentences.length]))
        sentences.append(np.array([pieces.length]))
    return {"dtype": dtype.name}
