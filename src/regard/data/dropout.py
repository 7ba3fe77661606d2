"""BPE-dropout for training: every epoch cuts the words anew, reproducibly and at the speed of a table.

The distinct words of a store get a handful of segmentations each, drawn once (`regard.text.dropout.segment`), and
every sentence is kept as a row of word numbers. In an epoch each occurrence of a word takes one of its segmentations,
chosen by a hash of (seed, epoch, occurrence). Lengths follow from the tables, so batches are planned with the lengths
they will have.
"""

import random
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np

from regard.data.arrays import (
    SEEN,
    Array,
    ArrayWriter,
    Ragged,
    RaggedWriter,
    Rows,
    fingerprint,
    map_array,
    positions,
    seal,
    smallest_unsigned,
    unseal,
)
from regard.data.digests import Digests
from regard.data.pairs import PairExamples
from regard.data.parallel import count_workers, map_in_order
from regard.data.store import Store
from regard.errors import UserError
from regard.files import replacing
from regard.random import random_key
from regard.text.dropout import segment
from regard.text.symbols import EOS
from regard.text.vocabulary import Vocabulary

BITS = 4
DRAWN = 1 << BITS  # segmentations drawn for a word
CUTS = DRAWN + 1  # the last one is that of plain byte pair encoding
CHUNK_PAIRS, CHUNK_WORDS = 2_000, 200  # drawing the cuts of a word takes as long as splitting ten lines
END = ""  # the word that stands for the end symbol: number 0, cut one way


class DroppingStore:
    """The pairs of a store, cut into other pieces in every epoch."""

    def __init__(self, store: Store, tables: tuple["WordTable", "WordTable"], seed: int, max_length: int) -> None:
        """Use `open_or_build_dropout`."""
        self._store, self._tables, self._seed, self._max_length = store, tables, seed, max_length

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self._store)

    def at_epoch(self, epoch: int) -> "DroppedEpoch":
        """The pairs as `epoch` sees them."""
        keys = random_key(self._seed, epoch, 0), random_key(self._seed, epoch, 1)
        return DroppedEpoch(self._store, self._tables, keys, self._max_length)


class DroppedEpoch(PairExamples):
    """One epoch's cut. A pair that dropout would make longer than `max_length` keeps its plain cut."""

    def __init__(
        self, store: Store, tables: tuple["WordTable", "WordTable"], keys: tuple[int, int], max_length: int
    ) -> None:
        """Find every pair's lengths in this epoch."""
        self._tables, self._keys = tables, keys
        src, tgt = (table.lengths(key) for table, key in zip(tables, keys, strict=True))
        self._plain = np.maximum(src, tgt) > max_length
        self.src_lengths = np.where(self._plain, store.src_lengths, src)
        self.tgt_lengths = np.where(self._plain, store.tgt_lengths, tgt)

    def sources(self, indices: Array) -> Rows:
        """The source tokens of many pairs end to end, and the length of each."""
        return self._tables[0].cut(indices, self._plain[indices], self._keys[0])

    def targets(self, indices: Array) -> Rows:
        """The target tokens of many pairs end to end, and the length of each."""
        return self._tables[1].cut(indices, self._plain[indices], self._keys[1])


class WordTable:
    """One side of a corpus as rows of words, and `CUTS` segmentations of every word."""

    def __init__(self, folder: Path, side: str, vocab_size: int) -> None:
        """Map the arrays `_write_side` wrote."""
        self._rows = Ragged(folder, f"{side}.words", np.uint32)
        self._cuts = Ragged(folder, f"{side}.cuts", smallest_unsigned(vocab_size))
        self._cut_lengths = map_array(folder / f"{side}.cuts.lengths", np.int32)

    def cut(self, indices: Array, plain: Array, key: int) -> Rows:
        """The tokens of the given rows end to end, and the length of each; `plain` rows are not dropped from."""
        starts, ends = self._rows.offsets[indices], self._rows.offsets[indices + 1]
        occurrences = positions(starts, ends - starts)
        chosen = np.where(np.repeat(plain, ends - starts), DRAWN, _choose(occurrences, key))
        tokens, lengths = self._cuts.gather(self._rows.values[occurrences].astype(np.int64) * CUTS + chosen)
        return tokens, _sums(lengths, ends - starts)

    def lengths(self, key: int) -> Array:
        """How many tokens every row has, a stretch of rows at a time to bound memory."""
        offsets = self._rows.offsets
        result = np.empty(len(offsets) - 1, np.int32)
        for first in range(0, len(result), 1 << 16):
            last = min(first + (1 << 16), len(result))
            occurrences = np.arange(offsets[first], offsets[last])
            cuts = self._rows.values[offsets[first] : offsets[last]].astype(np.int64) * CUTS + _choose(occurrences, key)
            result[first:last] = _sums(self._cut_lengths[cuts], np.diff(offsets[first : last + 1]))
        return result


def _sums(values: Array, lengths: Array) -> Array:
    """The sum of each row of `values`; rows lie end to end and none is empty."""
    return np.add.reduceat(values, np.cumsum(lengths) - lengths)


def _mix(numbers: Array) -> Array:
    """A bijection of 64-bit numbers that looks random: the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _choose(occurrences: Array, key: int) -> Array:
    """For every occurrence of a word, which of its drawn segmentations it takes."""
    return (_mix(_mix(occurrences.astype(np.uint64)) ^ np.uint64(key)) >> np.uint64(64 - BITS)).astype(np.int64)


def open_or_build_dropout(
    folder: Path,
    store: Store,
    src_vocab: Vocabulary,
    tgt_vocab: Vocabulary,
    rate: float,
    seed: int,
    max_length: int,
    workers: int = 0,
) -> DroppingStore:
    """The words of `store` and their segmentations in `folder`, made anew if missing, damaged or of another store.

    The words are read off the store itself: what its tokens spell is the text, exactly. No side grows beyond
    `max_length` tokens, the bound the store was filtered with.
    """
    current = fingerprint("dropout", store.fingerprint, repr((rate, seed, CUTS)))
    digests = Digests(folder / SEEN)
    sides = (("src", src_vocab, store.sources), ("tgt", tgt_vocab, store.targets))
    if unseal(folder, current, digests) is None:
        with replacing(folder, folder=True) as place:
            for side, vocab, rows in sides:
                chunks = (
                    rows(np.arange(i, min(i + CHUNK_PAIRS, len(store)))) for i in range(0, len(store), CHUNK_PAIRS)
                )
                words = _write_rows(place, side, vocab, chunks, count_workers(workers))
                _write_cuts(place, side, vocab, words, (rate, seed), count_workers(workers))
            seal(place, current, {})
        if unseal(folder, current, digests) is None:
            raise UserError(f"{folder} changed while it was read", "let one process at a time prepare the data")
    digests.save()
    src, tgt = (WordTable(folder, side, len(vocab)) for side, vocab, _ in sides)
    return DroppingStore(store, (src, tgt), seed, max_length)


def _write_rows(place: Path, side: str, vocab: Vocabulary, chunks: Iterable[Rows], workers: int) -> list[str]:
    """Write every row as the numbers of its words, numbered as they first occur; return the words."""
    numbers = {END: 0}
    split = map_in_order(Splitter, (vocab.to_json(),), chunks, workers)
    with closing(split), RaggedWriter(place, f"{side}.words", np.uint32) as writer:
        for words, local, lengths in split:
            known = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.uint32)
            writer.append(known[local], lengths)
    return list(numbers)


def _write_cuts(
    place: Path, side: str, vocab: Vocabulary, words: list[str], rate_and_seed: tuple[float, int], workers: int
) -> None:
    """Write the segmentations of every word, `CUTS` rows a word."""
    chunks = (words[first : first + CHUNK_WORDS] for first in range(0, len(words), CHUNK_WORDS))
    cut = map_in_order(Cutter, (vocab.to_json(), *rate_and_seed), chunks, workers)
    rows = RaggedWriter(place, f"{side}.cuts", smallest_unsigned(len(vocab)))
    with closing(cut), rows, ArrayWriter(place / f"{side}.cuts.lengths", np.int32) as row_lengths:
        for tokens, lengths in cut:
            rows.append(tokens, lengths)
            row_lengths.append(lengths)


class Splitter:
    """Reads rows of tokens as words."""

    def __init__(self, vocab: str) -> None:
        """Take a vocabulary's JSON."""
        self._vocab = Vocabulary.from_json(vocab)

    def __call__(self, rows: Rows) -> tuple[list[str], Array, Array]:
        """The distinct words of some rows, the rows as places in that list, and the length of each."""
        places: dict[str, int] = {}
        local: list[int] = []
        lengths = []
        for row in np.split(rows[0], np.cumsum(rows[1])[:-1]):
            words = [*self._vocab.words(self._vocab.decode(row.tolist())), END]
            local += [places.setdefault(word, len(places)) for word in words]
            lengths.append(len(words))
        return list(places), np.array(local, np.int64), np.array(lengths, np.int64)


class Cutter:
    """Draws the segmentations of words."""

    def __init__(self, vocab: str, rate: float, seed: int) -> None:
        """Take a vocabulary's JSON, the share of merges to leave out and the seed of all draws."""
        self._vocab, self._rate, self._seed = Vocabulary.from_json(vocab), rate, seed

    def __call__(self, words: list[str]) -> Rows:
        """`CUTS` rows of tokens for each word."""
        rows = [cut if word else [EOS] for word in words for cut in self._cuts(word)]
        tokens = np.array([number for row in rows for number in row], smallest_unsigned(len(self._vocab)))
        return tokens, np.array([len(row) for row in rows], np.int64)

    def _cuts(self, word: str) -> list[list[int]]:
        """The numbers of each cut; a vocabulary that merges nothing, a parser's brackets for example, has but one."""
        rng, ranks, numbers = random.Random(f"{self._seed} {word}"), self._vocab.merge_ranks, self._vocab.numbers
        if not ranks:
            return [self._vocab.encode_word(word)] * CUTS
        cuts = [segment(word, ranks, self._rate, rng) for _ in range(DRAWN)] + [segment(word, ranks, 0.0, rng)]
        return [[numbers[piece] for piece in cut] for cut in cuts]
