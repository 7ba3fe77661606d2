"""Batches without padding: sentences end to end in streams of one size.

    src     | a dog barks . | the cat sat . | hi . | _ _ |      room for N tokens, filled up at the end
    offsets   0               4               8      10 10 10   where each sentence begins; room for C sentences

With no padding to avoid, sentences need not be sorted by length: they are taken as the shuffle has them until one side
is full. As a batch holds hundreds, both sides fill up evenly, and all batches have the same shape.

N tokens of a side, C sentences.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import Packed, Tokens
from regard.data.arrays import Array, Rows
from regard.data.steps import Tensors
from regard.random import rng
from regard.text.symbols import BOS, PAD

# Rooms are a multiple of this, which matrix products like; sentences have at least so many tokens on the mean.
UNIT, SHORTEST = 128, 4


@dataclass(frozen=True)
class PackedBatch(Tensors):
    """Pairs of sentences as two streams: what the encoder reads, and what the decoder reads and is to say."""

    src: Tensor
    """(N,) all x, each with the end symbol."""
    src_offsets: Tensor
    """(C + 1,) int32"""
    src_rows: Tensor
    """(N,) the sentence of each token"""
    src_positions: Tensor
    """(N,) its place there"""
    tgt_in: Tensor
    """(N',) the start symbol and y, all sentences end to end."""
    labels: Tensor
    """(N',) y and the end symbol; what fills up asks for nothing."""
    tgt_offsets: Tensor
    tgt_rows: Tensor
    tgt_positions: Tensor
    tokens: int
    """Real tokens of both sides, for measuring speed."""

    @property
    def source(self) -> Tokens:
        return Tokens(self.src, Packed(self.src_offsets, self.src_rows, self.src_positions))

    @property
    def target(self) -> Tokens:
        return Tokens(self.tgt_in, Packed(self.tgt_offsets, self.tgt_rows, self.tgt_positions))

    def silenced(self) -> "PackedBatch":
        """The same batch asking for nothing: a rank without a share still takes part in every collective call."""
        return replace(self, labels=torch.full_like(self.labels, PAD), tokens=0)

    def twice(self) -> "PackedBatch":
        """The same sentences, then the same again."""
        both = {name: torch.cat([tensor, tensor]) for name, tensor in self.tensors().items()}
        for side, ids in (("src", self.src), ("tgt", self.tgt_in)):
            offsets, rows = getattr(self, f"{side}_offsets"), getattr(self, f"{side}_rows")
            both[f"{side}_offsets"] = torch.cat([offsets[:-1], offsets + len(ids)])
            both[f"{side}_rows"] = torch.cat([rows, rows + len(offsets) - 1])
        return PackedBatch(**both, tokens=2 * self.tokens)


@dataclass(frozen=True)
class Packing:
    """Room for the tokens of either side in one whole step, and how many parts share it."""

    src_room: int
    tgt_room: int
    parts: int = 1

    @classmethod
    def of(cls, src_lengths: Array, tgt_lengths: Array, batch_tokens: int, parts: int = 1) -> "Packing":
        """`batch_tokens` for the side that is longer on the whole, the other side's share of it for the other."""
        totals = np.array([src_lengths.sum(dtype=np.int64), tgt_lengths.sum(dtype=np.int64)])
        rooms = np.minimum(batch_tokens, batch_tokens * totals / totals.max() * 1.02)
        src, tgt = (
            max(int(room), int(lengths.max())) for room, lengths in zip(rooms, (src_lengths, tgt_lengths), strict=True)
        )
        return cls(src, tgt, parts)

    def plan(self, src_lengths: Array, tgt_lengths: Array, seed: int, epoch: int) -> list[Array]:
        """The batches of an epoch, as arrays of example numbers: a shuffle, cut where a side is full."""
        generator = rng(seed, epoch)
        order = generator.permutation(len(src_lengths))
        ends = [np.cumsum(lengths[order], dtype=np.int64) for lengths in (src_lengths, tgt_lengths)]
        batches, start = [], 0
        while start < len(order):
            before = [end[start - 1] if start else 0 for end in ends]
            stop = min(
                int(np.searchsorted(end, sofar + room, side="right"))
                for end, sofar, room in zip(ends, before, (self.src_room, self.tgt_room), strict=True)
            )
            batches.append(order[start : max(stop, start + 1)])
            start = max(stop, start + 1)
        return batches

    def collate(self, sources: Rows, targets: Rows) -> PackedBatch:
        """One part's sentences in its share of the room; more room where they need it, which is rare."""
        src, tgt = (self._stream(rows, room) for rows, room in ((sources, self.src_room), (targets, self.tgt_room)))
        labels, offsets = tgt["ids"], tgt["offsets"]
        tgt_in = np.empty_like(labels)
        tgt_in[1:] = labels[:-1]
        tgt_in[offsets[: len(targets[1])]] = BOS
        tgt_in[len(targets[0]) :] = PAD
        return PackedBatch(
            **{f"src_{name}" if name != "ids" else "src": torch.from_numpy(array) for name, array in src.items()},
            **{f"tgt_{name}" if name != "ids" else "labels": torch.from_numpy(array) for name, array in tgt.items()},
            tgt_in=torch.from_numpy(tgt_in),
            tokens=len(sources[0]) + len(targets[0]),
        )

    def _stream(self, rows: Rows, room: int) -> dict[str, Array]:
        values, lengths = rows
        share = room if self.parts == 1 else int(room / self.parts * 1.05)
        tokens = _up(max(share, len(values)), UNIT)
        sentences = max(
            _up(max(self.src_room, self.tgt_room) // self.parts // SHORTEST, UNIT), _up(len(lengths) + 1, UNIT)
        )
        offsets = np.full(sentences + 1, len(values), np.int32)
        offsets[0] = 0
        np.cumsum(lengths, out=offsets[1 : len(lengths) + 1])
        ids, owners, positions = (np.full(tokens, filler, np.int64) for filler in (PAD, sentences - 1, 0))
        ids[: len(values)] = values
        owners[: len(values)] = np.repeat(np.arange(len(lengths)), lengths)
        positions[: len(values)] = np.arange(len(values)) - np.repeat(offsets[: len(lengths)], lengths)
        return {"ids": ids, "offsets": offsets, "rows": owners, "positions": positions}


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
