"""Rows of token numbers to padded tensors.

Shapes: B batch, S source, T target.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.data.arrays import Array, Rows
from regard.data.steps import Tensors
from regard.text.symbols import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch(Tensors):
    """Pairs of sentences, padded: what the encoder reads, what the decoder reads and what it is to say."""

    src: Tensor
    """(B, S) x and the end symbol."""
    src_lengths: Tensor
    """(B,)"""
    tgt_in: Tensor
    """(B, T) the start symbol and y: the decoder's input, one step behind `labels`."""
    labels: Tensor
    """(B, T) y and the end symbol; padding asks for nothing."""
    tgt_lengths: Tensor
    """(B,)"""
    tokens: int
    """Real tokens of both sides, for measuring speed."""

    def __len__(self) -> int:
        """B, the number of pairs."""
        return len(self.src)

    @property
    def source(self) -> Tokens:
        return Padded.of(self.src, self.src_lengths)

    @property
    def target(self) -> Tokens:
        return Padded.of(self.tgt_in, self.tgt_lengths)

    def twice(self) -> "Batch":
        """The same sentences, then the same again."""
        return replace(self.each(lambda tensor: torch.cat([tensor, tensor])), tokens=2 * self.tokens)

    def silenced(self) -> "Batch":
        """The same batch asking for nothing: a rank without a share still takes part in every collective call."""
        return replace(self, labels=torch.full_like(self.labels, PAD), tokens=0)


def collate(examples: Sequence[tuple[Array, Array]]) -> Batch:
    """Pad pairs of rows, each with its end symbol as the store keeps them."""
    return collate_rows(_end_to_end([src for src, _ in examples]), _end_to_end([tgt for _, tgt in examples]))


def collate_rows(sources: Rows, targets: Rows) -> Batch:
    """As `collate`, for rows that already lie end to end."""
    labels = _pad(*targets)
    tgt_in = np.full_like(labels, BOS)
    tgt_in[:, 1:] = np.where(labels[:, :-1] == EOS, PAD, labels[:, :-1])
    return Batch(
        src=torch.from_numpy(_pad(*sources)),
        src_lengths=torch.from_numpy(sources[1].astype(np.int64)),
        tgt_in=torch.from_numpy(tgt_in),
        labels=torch.from_numpy(labels),
        tgt_lengths=torch.from_numpy(targets[1].astype(np.int64)),
        tokens=len(sources[0]) + len(targets[0]),
    )


def collate_sources(rows: Sequence[Sequence[int] | Array]) -> tuple[Tensor, Tensor]:
    """Pad sources alone, (B, S) and their lengths (B,); a row is `[*vocabulary.encode(text), EOS]`."""
    values, lengths = _end_to_end([np.asarray(row, dtype=np.int64) for row in rows])
    return torch.from_numpy(_pad(values, lengths)), torch.from_numpy(lengths)


def _end_to_end(rows: Sequence[Array]) -> Rows:
    return np.concatenate(rows), np.array([len(row) for row in rows], np.int64)


def _pad(values: Array, lengths: Array) -> Array:
    """(B, longest) with row b's tokens first and PAD behind them."""
    padded = np.full((len(lengths), int(lengths.max())), PAD, np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = values
    return padded
