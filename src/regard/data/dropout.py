"""BPE-dropout: every epoch segments the words differently, reproducibly and at the speed of a table.

Each distinct word of a store gets some segmentations, sampled once (`segment`), and every sentence
is stored as a row of word ids. In an epoch each occurrence of a word takes one of its segmentations, chosen by a hash
of (seed, epoch, occurrence). Lengths follow from the tables, so batches are planned with the lengths they will have.

    src.words, tgt.words                    ids of the words of every pair
    src.segmentations, tgt.segmentations    tokens of `SEGMENTATIONS` segmentations of every word
"""

import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from regard.data.arrays import Array, Rows, flatten, positions, smallest_unsigned
from regard.data.pairs import PairExamples, Pairs
from regard.data.store import CHUNK_ROWS, Store, StoreWriter, fingerprint, open_or_write
from regard.errors import UserError
from regard.processes import count_workers, map_in_order
from regard.seeding import mix, random_key
from regard.text.subword import SubwordTokenizer
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer

BITS = 4
SAMPLED = 1 << BITS
"""Segmentations sampled for a word."""
SEGMENTATIONS = SAMPLED + 1
"""The last segmentation is that of plain byte pair encoding."""
CHUNK_PAIRS, CHUNK_WORDS = 2_000, 200  # to sample the segmentations of a word takes as long as to split ten lines
END = ""
"""The word that stands for the end symbol: id 0, with one segmentation."""


class DroppedPairs(PairExamples):
    """Pairs as one epoch segments them. A pair that would be longer than `max_length` keeps its plain segmentation."""

    def __init__(self, pairs: Pairs, tables: tuple["WordTable", "WordTable"], seed: int, epoch: int, max_length: int):
        self._tables = tables
        self._keys = random_key(seed, epoch, 0), random_key(seed, epoch, 1)
        src, tgt = (table.lengths(key) for table, key in zip(tables, self._keys, strict=True))
        self._plain = np.maximum(src, tgt) > max_length
        self.src_lengths = np.where(self._plain, pairs.src_lengths, src)
        self.tgt_lengths = np.where(self._plain, pairs.tgt_lengths, tgt)

    def sources(self, indices: Array) -> Rows:
        return self._tables[0].tokens(indices, self._plain[indices], self._keys[0])

    def targets(self, indices: Array) -> Rows:
        return self._tables[1].tokens(indices, self._plain[indices], self._keys[1])


@dataclass(frozen=True)
class BPEDropout:
    """Pairs with BPE-dropout: the same text in every epoch, in other tokens."""

    pairs: Pairs
    tables: tuple["WordTable", "WordTable"]
    seed: int
    max_length: int

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def at_epoch(self, epoch: int) -> DroppedPairs:
        """The pairs of one epoch."""
        return DroppedPairs(self.pairs, self.tables, self.seed, epoch, self.max_length)


class WordTable:
    """One side of a corpus as rows of words, and `SEGMENTATIONS` segmentations of every word."""

    def __init__(self, store: Store, side: str) -> None:
        self._store, self._segmentations = store, f"{side}.segmentations"
        self._words, self._offsets = store.values(f"{side}.words"), store.offsets(f"{side}.words")

    def tokens(self, indices: Array, plain: Array, key: int) -> Rows:
        """Tokens of some rows end to end, and the length of each; `plain` rows have no dropout."""
        starts, ends = self._offsets[indices], self._offsets[indices + 1]
        occurrences = positions(starts, ends - starts)
        choices = np.where(np.repeat(plain, ends - starts), SAMPLED, _choose(occurrences, key))
        rows = self._words[occurrences].astype(np.int64) * SEGMENTATIONS + choices
        tokens, lengths = self._store.gather(self._segmentations, rows)
        return tokens, _row_sums(lengths, ends - starts)

    def lengths(self, key: int) -> Array:
        """(rows,): tokens of every row, computed in chunks to bound memory."""
        result = np.empty(len(self._offsets) - 1, np.int32)
        lengths = self._store.lengths(self._segmentations)
        for first in range(0, len(result), CHUNK_ROWS):
            last = min(first + CHUNK_ROWS, len(result))
            occurrences = np.arange(self._offsets[first], self._offsets[last])
            words = self._words[self._offsets[first] : self._offsets[last]].astype(np.int64)
            rows = words * SEGMENTATIONS + _choose(occurrences, key)
            result[first:last] = _row_sums(lengths[rows], np.diff(self._offsets[first : last + 1]))
        return result


def _row_sums(values: Array, lengths: Array) -> Array:
    """Sum of each row of `values`; rows are end to end and none is empty."""
    return np.add.reduceat(values, np.cumsum(lengths) - lengths)


def _choose(occurrences: Array, key: int) -> Array:
    """The sampled segmentation of each occurrence of a word."""
    return (mix(mix(occurrences.astype(np.uint64)) ^ np.uint64(key)) >> np.uint64(64 - BITS)).astype(np.int64)


def open_or_build_dropout(
    folder: Path,
    pairs: Pairs,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    rate: float,
    seed: int,
    max_length: int,
    workers: int = 0,
) -> BPEDropout:
    """Open the words of `pairs` and their segmentations in `folder`; build them if they are not current.

    The words are read from the tokens of the pairs, which spell the text exactly. No side gets longer than
    `max_length` tokens, the bound that the pairs were filtered with.
    """
    inputs = fingerprint("dropout", pairs.fingerprint, repr((rate, seed, SEGMENTATIONS)))
    sides = (
        ("src", _require_subwords(src_tokenizer), pairs.sources),
        ("tgt", _require_subwords(tgt_tokenizer), pairs.targets),
    )
    processes = count_workers(workers)
    dtypes = {}
    for side, tokenizer, _ in sides:
        dtypes[f"{side}.words"] = np.dtype(np.uint32)
        dtypes[f"{side}.segmentations"] = smallest_unsigned(len(tokenizer))

    def write(writer: StoreWriter) -> dict[str, int]:
        for side, tokenizer, gather in sides:
            starts = range(0, len(pairs), CHUNK_PAIRS)
            rows = (gather(np.arange(first, min(first + CHUNK_PAIRS, len(pairs)))) for first in starts)
            ids = {END: 0}  # words are numbered as they first occur
            with closing(map_in_order(WordSplitter(tokenizer), rows, processes)) as chunks_of_words:
                for distinct, local_ids, lengths in chunks_of_words:
                    global_ids = np.array([ids.setdefault(word, len(ids)) for word in distinct], np.uint32)
                    writer.append({f"{side}.words": (global_ids[local_ids], lengths)})
            words = list(ids)
            chunks = (words[first : first + CHUNK_WORDS] for first in range(0, len(words), CHUNK_WORDS))
            sampler = SegmentationSampler(tokenizer, rate, seed)
            with closing(map_in_order(sampler, chunks, processes)) as segmentations:
                for segmented in segmentations:
                    writer.append({f"{side}.segmentations": segmented})
        return {}

    store = open_or_write(folder, inputs, dtypes, write)
    return BPEDropout(pairs, (WordTable(store, "src"), WordTable(store, "tgt")), seed, max_length)


def _require_subwords(tokenizer: Tokenizer) -> SubwordTokenizer:
    if not isinstance(tokenizer, SubwordTokenizer):
        problem, remedy = "BPE-dropout needs a tokenizer that was trained by regard", "set `text.dropout = 0`"
        raise UserError(problem, remedy, code="unsupported", where="text.dropout")
    return tokenizer


@dataclass(frozen=True)
class WordSplitter:
    """Splits rows of tokens into words."""

    tokenizer: SubwordTokenizer

    def __call__(self, rows: Rows) -> tuple[list[str], Array, Array]:
        """The distinct words of some rows, the rows as indices into them, and the length of each row."""
        indices: dict[str, int] = {}
        local_ids: list[int] = []
        lengths = []
        for row in np.split(rows[0], np.cumsum(rows[1])[:-1]):
            words = [*self.tokenizer.words(self.tokenizer.decode(row.tolist())), END]
            local_ids += [indices.setdefault(word, len(indices)) for word in words]
            lengths.append(len(words))
        return list(indices), np.array(local_ids, np.int64), np.array(lengths, np.int64)


@dataclass(frozen=True)
class SegmentationSampler:
    """Samples the segmentations of words; a share of `rate` of the merges is left out."""

    tokenizer: SubwordTokenizer
    rate: float
    seed: int

    def __call__(self, words: list[str]) -> Rows:
        """`SEGMENTATIONS` rows of tokens for each word."""
        rows = [tokens if word else [EOS] for word in words for tokens in self._segmentations(word)]
        return flatten(rows, smallest_unsigned(len(self.tokenizer)))

    def _segmentations(self, word: str) -> list[list[int]]:
        """Token ids of each segmentation. A tokenizer without merges, for example of brackets, has only one."""
        generator, ranks = random.Random(f"{self.seed} {word}"), self.tokenizer.merge_ranks
        if not ranks:
            return [self.tokenizer.encode_word(word)] * SEGMENTATIONS
        rates = [self.rate] * SAMPLED + [0.0]
        ids = self.tokenizer.token_ids
        return [[ids[piece] for piece in segment(word, ranks, rate, generator)] for rate in rates]


def segment(symbols: str, merge_ranks: Mapping[tuple[str, str], int], rate: float, rng: random.Random) -> list[str]:
    """Segment one word, written in byte symbols, with BPE-dropout (Provilkov, Emelianenko and Voita 2020, algorithm 1).

    A model that sees many segmentations of a word learns how subwords compose, and is more robust to misspellings.

    In every round, list the merges that apply anywhere in the word, drop each with probability `rate`, and do the one
    of lowest rank (leftmost on a tie); end when none is left. Rate 0 is byte pair encoding; rate 1 gives bytes.
    """
    subwords = list(symbols)
    while True:
        merges = [
            (merge_ranks[pair], index)
            for index, pair in enumerate(pairwise(subwords))
            if pair in merge_ranks and (rate == 0 or rng.random() >= rate)
        ]
        if not merges:
            return subwords
        _, index = min(merges)
        subwords[index : index + 2] = [subwords[index] + subwords[index + 1]]
