"""A corpus, tokenised once: memory-mapped rows of token numbers, found again as long as nothing changed.

Pairs stream through in chunks, so memory does not grow with the corpus; what grows is eight bytes a pair for the
hashes that find duplicates. The order of pairs is that of the files, whatever the number of processes. A store that
is there is opened by mapping it: what is read of it, and of the text it was made from, does not grow with the corpus.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import builtin, dialogues
from regard.data.arrays import (
    SEEN,
    Array,
    ArrayWriter,
    Ragged,
    RaggedWriter,
    Rows,
    fingerprint,
    map_array,
    open_or_make,
    smallest_unsigned,
)
from regard.data.corpora import Corpus, read_pairs
from regard.data.digests import Digests
from regard.data.filters import FilterReport, Filters
from regard.data.pairs import PairExamples
from regard.data.parallel import count_workers, in_chunks, map_in_order
from regard.errors import UserError
from regard.files import open_binary
from regard.text.symbols import EOS
from regard.text.vocabulary import Vocabulary

Progress = Callable[[int, int | None], None]


class Store(PairExamples):
    """Tokenised pairs; every row ends with the end symbol."""

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        """Map the arrays of a sealed folder; use `open_or_build`."""
        self.fingerprint: str = meta["fingerprint"]
        self.report = FilterReport(**meta["report"])
        self._src = Ragged(folder, "src", meta["src_dtype"])
        self._tgt = Ragged(folder, "tgt", meta["tgt_dtype"])
        self._kept = map_array(folder / "kept", np.int64)
        self.src_lengths = map_array(folder / "src.lengths", np.int32)
        self.tgt_lengths = map_array(folder / "tgt.lengths", np.int32)

    def sources(self, indices: Array) -> Rows:
        """The source tokens of many pairs end to end, and the length of each."""
        return self._src.gather(self._kept[indices])

    def targets(self, indices: Array) -> Rows:
        """The target tokens of many pairs end to end, and the length of each."""
        return self._tgt.gather(self._kept[indices])

    def at_epoch(self, epoch: int) -> "Store":
        """The same pairs in every epoch."""
        return self


def open_or_build(
    folder: Path,
    corpora: Sequence[Corpus],
    root: Path,
    src_vocab: Vocabulary,
    tgt_vocab: Vocabulary,
    filters: Filters,
    workers: int = 0,
    progress: Progress | None = None,
) -> Store:
    """The store of `corpora` in `folder`, made anew if anything it depends on has changed or it is damaged.

    `progress` is told how many pairs are done, and of
    how many where that is known.
    """
    digests = Digests(folder / SEEN)
    inputs = [_identify(corpus, root, digests) for corpus in corpora]
    current = fingerprint(*inputs, src_vocab.to_json(), tgt_vocab.to_json(), repr(filters))

    def make(place: Path) -> dict[str, Any]:
        pairs = ((pair.src, pair.tgt) for corpus in corpora for pair in read_pairs(corpus, root))
        encoder = (src_vocab.to_json(), tgt_vocab.to_json(), filters)
        chunks = in_chunks(pairs, lambda pair: len(pair[0]) + len(pair[1]))
        with closing(map_in_order(Encoder.from_json, encoder, chunks, count_workers(workers))) as encoded:
            facts = _write(place, encoded, filters, (len(src_vocab), len(tgt_vocab)), progress)
        if not facts["report"]["kept"]:
            table = FilterReport(**facts["report"]).table().replace("\n", "\n  ")
            raise UserError(f"no pair is left of {', '.join(map(str, corpora))}", f"every one was left out:\n  {table}")
        return facts

    return Store(folder, open_or_make(folder, current, digests, make))


def _identify(corpus: Corpus, root: Path, digests: Digests) -> str:
    """What a corpus holds: the content of its files and how they are read, whatever they are called."""
    if corpus.builtin is not None and corpus.part is not None:
        return builtin.fingerprint(corpus.builtin, corpus.part)
    for path in corpus.files(root):
        open_binary(path).close()  # a missing or unreadable file is named
    contents = [digests.of(path) for path in corpus.files(root)]
    endings = ["".join(path.suffixes[-2:]) for path in corpus.files(root)]
    if corpus.dialogue is not None:
        return repr((contents, endings, dialogues.fingerprint(corpus.part, corpus.turns)))
    return repr((contents, endings, corpus.src_column, corpus.tgt_column))


@dataclass(frozen=True)
class Encoded:
    """A chunk after tokenising: rows end to end, their lengths, a hash for each pair, and what was left out."""

    src: Array
    src_lengths: Array
    tgt: Array
    tgt_lengths: Array
    hashes: Array
    read: int
    left_out: Counter[str]


class Encoder:
    """Tokenises and filters chunks of pairs."""

    def __init__(self, src_vocab: Vocabulary, tgt_vocab: Vocabulary, filters: Filters) -> None:
        """Take the vocabularies of both sides."""
        self._src_vocab, self._tgt_vocab, self._filters = src_vocab, tgt_vocab, filters

    @classmethod
    def from_json(cls, src_vocab: str, tgt_vocab: str, filters: Filters) -> "Encoder":
        """An encoder in another process."""
        return cls(Vocabulary.from_json(src_vocab), Vocabulary.from_json(tgt_vocab), filters)

    def __call__(self, chunk: list[tuple[str, str]]) -> Encoded:
        """Tokenise the pairs that pass the filters."""
        left_out: Counter[str] = Counter()
        texts = []
        for src, tgt in chunk:
            reason = self._filters.judge_text(src, tgt, self._src_vocab.longest, self._tgt_vocab.longest)
            if reason is None:
                texts.append((src, tgt))
            else:
                left_out[reason] += 1
        src_rows = self._src_vocab.encode_batch([src for src, _ in texts])
        tgt_rows = self._tgt_vocab.encode_batch([tgt for _, tgt in texts])
        kept = []
        for number, (src_row, tgt_row) in enumerate(zip(src_rows, tgt_rows, strict=True)):
            src_row.append(EOS)
            tgt_row.append(EOS)
            reason = self._filters.judge_lengths(len(src_row), len(tgt_row))
            if reason is None:
                kept.append(number)
            else:
                left_out[reason] += 1
        return Encoded(
            *_flatten([src_rows[number] for number in kept], len(self._src_vocab)),
            *_flatten([tgt_rows[number] for number in kept], len(self._tgt_vocab)),
            hashes=np.array([_hash(*texts[number]) for number in kept], np.uint64),
            read=len(chunk),
            left_out=left_out,
        )


def _flatten(rows: list[list[int]], vocab_size: int) -> Rows:
    flat = np.array([number for row in rows for number in row], smallest_unsigned(vocab_size))
    return flat, np.array([len(row) for row in rows], np.int64)


def _hash(src: str, tgt: str) -> int:
    """64 bits of a pair. Among a hundred million pairs the odds of one wrong match are one in four thousand."""
    content = f"{len(src)} {src}{tgt}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def _write(
    place: Path, chunks: Iterator[Encoded], filters: Filters, vocab_sizes: tuple[int, int], progress: Progress | None
) -> dict[str, Any]:
    """Write what the chunks hold; return the facts of `meta.json`."""
    src_dtype, tgt_dtype = (smallest_unsigned(size) for size in vocab_sizes)
    left_out: Counter[str] = Counter()
    read = 0
    with RaggedWriter(place, "src", src_dtype) as src, RaggedWriter(place, "tgt", tgt_dtype) as tgt:
        hashes = []
        for chunk in chunks:
            src.append(chunk.src, chunk.src_lengths)
            tgt.append(chunk.tgt, chunk.tgt_lengths)
            hashes.append(chunk.hashes)
            left_out += chunk.left_out
            read += chunk.read
            if progress is not None:
                progress(read, None)
    all_hashes = np.concatenate([np.empty(0, np.uint64), *hashes])
    kept = np.arange(len(all_hashes))
    if filters.drop_duplicates:
        kept = np.sort(np.unique(all_hashes, return_index=True)[1])
        left_out["duplicate"] += len(all_hashes) - len(kept)
    with ArrayWriter(place / "kept", np.int64) as writer:
        writer.append(kept)
    for side in ("src", "tgt"):
        _write_lengths(place, side, kept)
    report = FilterReport.count(read, left_out)
    return {"report": asdict(report), "src_dtype": src_dtype.name, "tgt_dtype": tgt_dtype.name}


def _write_lengths(place: Path, side: str, kept: Array) -> None:
    """The lengths of the rows that stay: all that batches are planned from."""
    offsets = map_array(place / f"{side}.offsets", np.int64)
    with ArrayWriter(place / f"{side}.lengths", np.int32) as writer:
        for first in range(0, len(kept), 1 << 16):
            rows = kept[first : first + (1 << 16)]
            writer.append(offsets[rows + 1] - offsets[rows])
