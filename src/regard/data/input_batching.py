"""Which examples a model of understanding meets together, and in which form.

A step has a number of examples, as everybody counts it who fine-tunes, and a bound on tokens besides, so that a batch
of long texts is smaller instead of out of memory. Padded, examples of like length go together; packed there is nothing
to gain by that, and a batch is a plain part of the shuffle.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.data.arrays import Array
from regard.data.batching import Batches
from regard.data.inputs import InputBatch, Inputs, up
from regard.random import rng

POOL = 50
"""Batches whose examples are sorted by length among themselves."""
SPREAD = 2.0
"""Streams have room for the mean of a batch and so many of its standard deviations; fuller ones end a little sooner."""


@dataclass(frozen=True)
class InputPadding:
    """Rectangles of at most `examples` examples and `tokens` tokens, all that pads them included."""

    examples: int
    tokens: int = 0

    def sizes(self, inputs: Inputs) -> tuple[Array, Array]:
        """How wide the rows of each example are, and how many it has."""
        return inputs.longest, inputs.counts

    def of(self, widths: Array, counts: Array, batch_tokens: int, parts: int) -> "InputPadding":
        return replace(self, tokens=batch_tokens)

    def plan(self, widths: Array, counts: Array, seed: int, epoch: int) -> list[Array]:
        """The batches of an epoch: shuffled, sorted by width within a pool, cut, and shuffled again."""
        generator = rng(seed, epoch)
        order = generator.permutation(len(widths))
        batches = []
        for first in range(0, len(order), POOL * self.examples):
            pool = order[first : first + POOL * self.examples]
            pool = pool[np.argsort(-widths[pool], kind="stable")]
            rows, start = np.cumsum(counts[pool]), 0
            while start < len(pool):
                before = int(rows[start - 1]) if start else 0
                room = self.tokens // max(1, int(widths[pool[start]]))
                full = int(np.searchsorted(rows, before + room, side="right"))
                stop = max(min(full, start + self.examples), start + 1)
                batches.append(pool[start:stop])
                start = stop
        return [batches[place] for place in generator.permutation(len(batches))]

    def collate(self, inputs: Inputs, examples: Array) -> InputBatch:
        return inputs.padded(examples)


@dataclass(frozen=True)
class InputPacking:
    """Streams of one size for at most `examples` examples."""

    examples: int
    room: int = 0
    parts: int = 1

    def sizes(self, inputs: Inputs) -> tuple[Array, Array]:
        """The tokens of each example, and its inputs."""
        return inputs.src_lengths, inputs.counts

    def of(self, lengths: Array, counts: Array, batch_tokens: int, parts: int) -> "InputPacking":
        """Room for what almost every batch of a shuffle holds, and for the longest example."""
        usual = lengths.mean() * self.examples + SPREAD * lengths.std() * self.examples**0.5
        room = max(min(int(usual), batch_tokens), int(lengths.max()))
        return replace(self, room=room, parts=parts)

    def plan(self, lengths: Array, counts: Array, seed: int, epoch: int) -> list[Array]:
        """The batches of an epoch: a shuffle, cut where a batch has its examples or its room is full."""
        order = rng(seed, epoch).permutation(len(lengths))
        ends = np.cumsum(lengths[order], dtype=np.int64)
        batches, start = [], 0
        while start < len(order):
            before = int(ends[start - 1]) if start else 0
            full = int(np.searchsorted(ends, before + self.room, side="right"))
            stop = max(min(full, start + self.examples), start + 1)
            batches.append(order[start:stop])
            start = stop
        return batches

    def collate(self, inputs: Inputs, examples: Array) -> InputBatch:
        share = self.room if self.parts == 1 else int(self.room / self.parts * 1.25)
        return inputs.packed(examples, up(share), -(-self.examples // self.parts))


class InputBatches(Batches):
    """An endless stream of batches of examples, addressed by step."""

    def sizes(self, examples: Any) -> tuple[Array, Array]:
        return self._wanted.sizes(examples)

    def measure(self, examples: Any, indices: Array) -> tuple[int, int]:
        return int(examples.tgt_lengths[indices].sum()), int(examples.src_lengths[indices].sum())

    def collate(self, examples: Any, indices: Array) -> Any:
        return self._form.collate(examples, indices)
