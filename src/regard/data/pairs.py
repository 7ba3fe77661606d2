"""Examples of encoder-decoder models: source and target sequences, each with its end symbol.

A source is a row of tokens, or of frames: vectors of F features, which a store holds end to end.

E pairs, N frames of all sources, F features.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from regard.data import batch
from regard.data.accounts import Account
from regard.data.arrays import Array, Rows
from regard.data.batch import Batch
from regard.data.encoders import REASONS
from regard.data.planning import Capacity
from regard.data.store import PartedStore, Store
from regard.text.symbols import PAD

UNIT = 128
"""Packed streams have a multiple of this many tokens and of this many sequences."""


class PairExamples(ABC):
    """Pairs of one epoch, as the planner and the batches need them."""

    ignored: ClassVar[dict[str, int]] = {"labels": PAD}
    sequences: ClassVar[None] = None

    src_lengths: Array
    """(E,)"""
    tgt_lengths: Array
    """(E,)"""

    @abstractmethod
    def sources(self, indices: Array) -> Rows:
        """Source tokens of some pairs end to end, and the length of each."""

    @abstractmethod
    def targets(self, indices: Array) -> Rows:
        """Target tokens of some pairs end to end, and the length of each."""

    def __len__(self) -> int:
        """E, the number of pairs."""
        return len(self.src_lengths)

    @property
    def lengths(self) -> tuple[Array, ...]:
        return self.src_lengths, self.tgt_lengths

    widths = lengths

    def src(self, index: int) -> Array:
        """Source tokens of one pair."""
        return self.sources(np.array([index]))[0]

    def tgt(self, index: int) -> Array:
        """Target tokens of one pair."""
        return self.targets(np.array([index]))[0]

    def count(self, indices: Array) -> tuple[int, int]:
        targets = int(self.tgt_lengths[indices].sum())
        return targets, targets + int(self.src_lengths[indices].sum())

    def pad(self, indices: Array) -> Batch:
        return pad_pairs(self.sources(indices), self.targets(indices))

    def pack(self, indices: Array, capacity: Capacity) -> Batch:
        return pack_pairs(self.sources(indices), self.targets(indices), capacity)


class Pairs(PairExamples):
    """Pairs of a store, the same in every epoch; with `rows`, only some of them. With `features`, sources are frames
    of this many features, and their length counts frames."""

    def __init__(
        self,
        store: Store,
        rows: Array | None = None,
        features: int = 0,
        lengths: tuple[Array, Array] | None = None,
    ) -> None:
        self._store, self._rows, self._features = store, rows, features
        if lengths is None:
            src, tgt = store.lengths("src"), store.lengths("tgt")
            lengths = (src // features if features else src), tgt
            lengths = lengths if rows is None else (lengths[0][rows], lengths[1][rows])
        self.src_lengths, self.tgt_lengths = lengths
        self.fingerprint = store.fingerprint
        self.is_parted = isinstance(store, PartedStore)
        """True if the pairs are in parts, which may be too many for an array over all of them."""

    def select(self, rows: Array) -> "Pairs":
        """Some of the pairs."""
        return Pairs(self._store, rows if self._rows is None else self._rows[rows], self._features)

    def load(self, rows: Array) -> "Pairs":
        """The same pairs, with the tokens of some of them in memory; the others have lengths only."""
        places = np.full(len(self), len(rows))  # which no row has
        places[rows] = np.arange(len(rows))
        chosen = rows if self._rows is None else self._rows[rows]
        return Pairs(self._store.load(chosen), places, self._features, (self.src_lengths, self.tgt_lengths))

    def within(self, max_length: int) -> Array:
        """The indices of the pairs with at most `max_length` tokens on each side."""
        return np.flatnonzero(np.maximum(self.src_lengths, self.tgt_lengths) <= max_length)

    @property
    def account(self) -> Account:
        """How many pairs were read, kept and left out by the filters."""
        counts = self._store.counts
        dropped = {reason: counts[reason] for reason in REASONS if reason in counts}
        return Account("pairs", counts["examples"], counts["rows"], dropped).check()

    def sources(self, indices: Array) -> Rows:
        values, lengths = self._store.gather("src", indices if self._rows is None else self._rows[indices])
        return (values.reshape(-1, self._features), lengths // self._features) if self._features else (values, lengths)

    def targets(self, indices: Array) -> Rows:
        return self._store.gather("tgt", indices if self._rows is None else self._rows[indices])

    def at_epoch(self, epoch: int) -> "Pairs":
        return self


def pad_pairs(sources: Rows, targets: Rows) -> Batch:
    """Padded batch: sources (B, S) or (B, S, F); decoder inputs and labels (B, T), the labels one token ahead."""
    arrays = {
        **batch.pad_sequences("source", sources),
        **batch.pad_sequences("target", batch.decoder_inputs(targets)),
        "labels": batch.pad_rows(targets),
    }
    return Batch.of(arrays, tokens=len(sources[0]) + len(targets[0]))


def pack_pairs(sources: Rows, targets: Rows, capacity: Capacity) -> Batch:
    """Packed batch; larger than `capacity` only if the pairs need it, which is rare."""
    src_size, tgt_size = (
        batch.round_up(max(tokens, len(values)), UNIT)
        for tokens, (values, _) in zip(capacity.tokens, (sources, targets), strict=True)
    )
    sequences = max(batch.round_up(capacity.examples, UNIT), batch.round_up(len(sources[1]) + 1, UNIT))
    arrays = {
        **batch.pack_sequences("source", sources, src_size, sequences),
        **batch.pack_sequences("target", batch.decoder_inputs(targets), tgt_size, sequences),
        "labels": batch.fill(targets[0].astype(np.int64), tgt_size, PAD),
    }
    return Batch.of(arrays, tokens=len(sources[0]) + len(targets[0]))
