"""How a language model reads a text: in columns, a stretch at a time.

Every line of a tokenised text ends in the end symbol; so the row of its tokens is a ring, and before the first one
stands the end of the line before.

    the ring      a b c d e f g h i j k l
    3 columns     a b|c d      each goes on where it stopped: what the model remembers at the end of one stretch is what
                  e f|g h      it begins the next one of the same column with, and gradients stay inside a stretch
                  i j|k l      (truncated backpropagation through time, Williams and Peng 1990)

Where the first column begins is drawn anew for every epoch of training. Which tokens a step reads is a function of
(seed, step).

Shapes: B columns, T tokens of a stretch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.arrays import Array
from regard.data.steps import Step, Tensors
from regard.errors import UserError
from regard.random import rng
from regard.text.symbols import PAD


@dataclass(frozen=True)
class Stretch(Tensors):
    """The next tokens of some columns."""

    ids: Tensor
    """(B, T) what the model reads, one token behind `labels`."""
    labels: Tensor
    """(B, T) what it is to say; padding, where a column is one token shorter than others, asks for nothing."""
    fresh: Tensor
    """() bool: the columns begin here, and nothing was read before."""
    part: int
    """Which of the parts of a step these columns are: the same ones in every step."""
    tokens: int


class Ring:
    """A text cut into columns that are read at the same time, in stretches of at most `length` tokens."""

    def __init__(self, ids: Array, columns: int, length: int) -> None:
        self.ids, self.columns = ids, columns
        self._starts = np.arange(columns + 1) * len(ids) // columns
        longest = int(np.diff(self._starts).max())
        self.stretches = -(-longest // length)
        # Stretches differ in length by one token at most: a short rest would be a step of its own on few tokens.
        self._edges = np.arange(self.stretches + 1) * longest // self.stretches

    def read(self, number: int, columns: Array, turn: int = 0, part: int = 0) -> Stretch:
        """The stretch of this number of some columns, in a ring turned so that the first column begins at `turn`."""
        first, last = self._edges[number : number + 2]
        places = self._starts[columns][:, None] + np.arange(first, last)
        real = places < self._starts[columns + 1][:, None]
        return Stretch(
            ids=torch.from_numpy(self._take(places + turn - 1)),
            labels=torch.from_numpy(np.where(real, self._take(places + turn), PAD)),
            fresh=torch.tensor(number == 0),
            part=part,
            tokens=int(real.sum()),
        )

    def count(self, number: int) -> int:
        """The tokens that all columns have to say in this stretch."""
        first, last = self._edges[number : number + 2]
        return int((np.diff(self._starts) - first).clip(0, last - first).sum())

    def _take(self, places: Array) -> Array:
        return self.ids[places % len(self.ids)].astype(np.int64)


class Columns:
    """An endless row of steps over a text, addressed by number; an epoch reads every token once."""

    def __init__(
        self,
        ids: Array,
        batch_tokens: int,
        bptt: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        accumulation: int = 1,
    ) -> None:
        """`batch_tokens` of a step are columns times `bptt`; columns are dealt to `world_size * accumulation` parts.

        A short text has fewer columns, so that each has a stretch to read.
        """
        parts = world_size * accumulation
        columns = min(batch_tokens // bptt, max(1, len(ids) // bptt))
        if columns < parts:
            raise UserError(
                f"{len(ids):,} tokens of text, read as training.batch_tokens = {batch_tokens} and data.bptt = {bptt} "
                f"say, are {columns} columns for {parts} processes and accumulations",
                "write a larger training.batch_tokens or a smaller data.bptt",
            )
        self._ring, self._seed = Ring(ids, columns, bptt), seed
        self.steps_in_epoch = self._ring.stretches
        shares = np.array_split(np.arange(columns), parts)
        self._mine = {part: shares[part] for part in range(rank * accumulation, (rank + 1) * accumulation)}

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch, number = divmod(step, self.steps_in_epoch)
        generator = rng(self._seed, epoch)
        turn = int(generator.integers(len(self._ring.ids)))
        micro = [self._ring.read(number, columns, turn, part) for part, columns in self._mine.items()]
        count = self._ring.count(number)
        return Step(micro, count, count, epoch)


def in_columns(ids: Array, columns: int, length: int) -> Iterator[Stretch]:
    """A whole text from its beginning, for a model that carries its state: every token is asked for once."""
    ring = Ring(ids, columns, length)
    return (ring.read(number, np.arange(columns)) for number in range(ring.stretches))


def in_windows(ids: Array, length: int, rows: int) -> Iterator[Stretch]:
    """A whole text in windows of `length` tokens, `rows` at a time, for a model that begins each anew.

    Every token is asked for once, in the later half of a window that lies over it: it has half a window before it,
    or all that there is.
    """
    length = min(length, len(ids))
    stride = -(-length // 2)
    asked = np.arange(0, len(ids), stride)  # a window asks for so many tokens from here on
    for some in np.array_split(asked, -(-len(asked) // rows)):
        starts = (some + stride - length).clip(0, len(ids) - length)
        places = starts[:, None] + np.arange(length)
        wanted = (places >= some[:, None]) & (places < some[:, None] + stride)
        yield Stretch(
            ids=torch.from_numpy(ids[places - 1].astype(np.int64)),
            labels=torch.from_numpy(np.where(wanted, ids[places], PAD).astype(np.int64)),
            fresh=torch.tensor(True),
            part=0,
            tokens=int(wanted.sum()),
        )
