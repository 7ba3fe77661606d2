"""What BERT meets in a step of pretraining: inputs with hidden words, as a function of (seed, step) alone.

An epoch has as many steps as the first one fills. A later one, whose inputs are drawn anew and are a few more or fewer,
leaves the odd ones out or begins again with its own; so every step is full, and a run that is resumed knows where it is
without having drawn the epochs before.

What is minimised is a mean over hidden words plus a mean over inputs (A.2). A step is divided once, by its M words; so
each input's answer weighs M/B, which is the same for all parts of the step.

B inputs, T tokens of the longest, N tokens of a stream, C inputs there is room for, M hidden words.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.data.arrays import Array, positions
from regard.data.document_store import DocumentStore
from regard.data.documents import DocumentDataSettings
from regard.data.inputs import IGNORE, ends, filled, up
from regard.data.masking import choose, hide, ordinary, wanted
from regard.data.pretraining import Assembly, Drawn, draw_inputs
from regard.data.steps import Step, Tensors
from regard.random import rng
from regard.text.bert import BertVocabulary

INPUTS, ORDER, WORDS = range(3)
"""What is drawn by lot, each from a seed of its own."""


class Hidden(NamedTuple):
    """Inputs end to end, some of their words hidden."""

    ids: Array
    """(N,) as the model reads them"""
    segments: Array
    """(N,)"""
    lengths: Array
    """(B,)"""
    places: Array
    """(M,) where words are asked for"""
    labels: Array
    """(M,) the words that stood there"""
    next: Array
    """(B,) whether B comes next (0), does not (1), or is not asked about"""

    def share(self, part: int, parts: int) -> "Hidden":
        """Every so-many-th input."""
        if parts == 1:
            return self
        begins, lengths = np.cumsum(self.lengths) - self.lengths, self.lengths[part::parts]
        tokens = positions(begins[part::parts], lengths)
        asked = np.full(len(self.ids), -1)
        asked[self.places] = np.arange(len(self.places))
        mine = asked[tokens]
        places = np.flatnonzero(mine >= 0)
        labels = self.labels[mine[places]]
        return Hidden(self.ids[tokens], self.segments[tokens], lengths, places, labels, self.next[part::parts])


class Rooms(NamedTuple):
    """What a stream has room for, the same for all steps."""

    tokens: int
    inputs: int
    words: int

    def shared(self, parts: int) -> "Rooms":
        """One part's share, and a little more as parts differ."""
        return self if parts == 1 else Rooms(*(int(room / parts * 1.05) for room in self))


@dataclass(frozen=True)
class MaskedBatch(Tensors, ABC):
    """What is computed together."""

    ids: Tensor
    """(B, T) or (N,)"""
    segments: Tensor
    """the same"""
    places: Tensor
    """(M,) where words are asked for, counted through all tokens, b T + t where they are padded"""
    labels: Tensor
    """(M,) the words; padding asks for nothing"""
    next: Tensor
    """(B,) whether B comes next (0) or not (1); IGNORE asks for nothing"""
    balance: Tensor
    """() M/B of the whole step: how much one of `next` weighs against one of `labels`"""
    tokens: int
    """Real tokens, for measuring speed."""

    @classmethod
    @abstractmethod
    def of(cls, hidden: Hidden, balance: float, pad: int, rooms: Rooms) -> Self:
        """Lay inputs out."""

    @property
    @abstractmethod
    def source(self) -> Tokens:
        """The tokens, and where they lie."""

    def silenced(self, pad: int) -> Self:
        """The same batch asking for nothing: a rank without a share still takes part in every collective call."""
        nothing = torch.full_like(self.labels, pad), torch.full_like(self.next, IGNORE)
        return replace(self, labels=nothing[0], next=nothing[1], tokens=0)


@dataclass(frozen=True)
class PaddedMaskedBatch(MaskedBatch):
    """Inputs in rows, filled up to the longest: the way of a CPU."""

    lengths: Tensor

    @classmethod
    def of(cls, hidden: Hidden, balance: float, pad: int, rooms: Rooms) -> Self:
        real = np.arange(hidden.lengths.max()) < hidden.lengths[:, None]
        ids, segments = np.full(real.shape, pad), np.zeros(real.shape, np.int64)
        ids[real], segments[real] = hidden.ids, hidden.segments
        arrays = dict(ids=ids, segments=segments, places=np.flatnonzero(real)[hidden.places], labels=hidden.labels,
                      next=hidden.next, balance=np.float32(balance), lengths=hidden.lengths)  # fmt: skip
        return cls(**{name: torch.as_tensor(array) for name, array in arrays.items()}, tokens=len(hidden.ids))

    @property
    def source(self) -> Tokens:
        return Padded.of(self.ids, self.lengths)


@dataclass(frozen=True)
class PackedMaskedBatch(MaskedBatch):
    """Inputs end to end in a stream of one size, or of a larger one where they need it, which is rare."""

    offsets: Tensor
    rows: Tensor
    positions: Tensor

    @classmethod
    def of(cls, hidden: Hidden, balance: float, pad: int, rooms: Rooms) -> Self:
        lengths, count = hidden.lengths, len(hidden.lengths)
        tokens = up(max(rooms.tokens, len(hidden.ids)))
        inputs = up(max(rooms.inputs, count) + 1)  # what fills the stream up belongs to the last, which has no tokens
        words = up(max(rooms.words, len(hidden.places)))
        offsets = np.full(inputs + 1, len(hidden.ids), np.int32)
        offsets[: count + 1] = ends(lengths)
        arrays = dict(
            ids=filled(hidden.ids, tokens, pad),
            segments=filled(hidden.segments, tokens, 0),
            places=filled(hidden.places, words, 0),
            labels=filled(hidden.labels, words, pad),
            next=filled(hidden.next, inputs, IGNORE),
            balance=np.float32(balance),
            offsets=offsets,
            rows=filled(np.repeat(np.arange(count), lengths), tokens, inputs - 1),
            positions=filled(positions(np.zeros_like(lengths), lengths), tokens, 0),
        )
        return cls(**{name: torch.as_tensor(array) for name, array in arrays.items()}, tokens=len(hidden.ids))

    @property
    def source(self) -> Tokens:
        return Tokens(self.ids, Packed(self.offsets, self.rows, self.positions))


class PretrainingBatches:
    """An endless row of steps, addressed by number."""

    def __init__(
        self,
        store: DocumentStore,
        data: DocumentDataSettings,
        vocabulary: BertVocabulary,
        batch_tokens: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        accumulation: int = 1,
        form: type[MaskedBatch] = PaddedMaskedBatch,
    ) -> None:
        """A step has at most `batch_tokens` tokens, which are dealt to `world_size * accumulation` parts."""
        self._store, self._data, self._seed, self._form = store, data, seed, form
        self._hiding = Hiding(store, data, vocabulary)
        self._room, self._parts = batch_tokens, world_size * accumulation
        self._mine = range(rank * accumulation, (rank + 1) * accumulation)
        drawn, order = self._draw(0)
        places = cut(drawn.lengths[order], batch_tokens)
        self.steps_in_epoch = max(1, len(places) - 2)  # the last one is not full
        self._current = 0, drawn, self._plan(drawn, order)
        steps = [drawn.lengths[inputs] for inputs in self._current[2]]
        words = max(int(wanted(lengths, data.masked).sum()) for lengths in steps)
        self.rooms = Rooms(batch_tokens, int(max(map(len, steps)) * 1.05), int(words * 1.02))  # others have a few more

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch, number = divmod(step, self.steps_in_epoch)
        if self._current[0] != epoch:
            drawn, order = self._draw(epoch)
            self._current = epoch, drawn, self._plan(drawn, order)
        _, drawn, plan = self._current
        hidden = self._hiding(drawn.take(plan[number]), rng(self._seed, epoch, WORDS, number))
        micro = [self._part(hidden, part) for part in self._mine]
        return Step(micro, len(hidden.places), len(hidden.ids), epoch)

    def _draw(self, epoch: int) -> tuple[Drawn, Array]:
        """The inputs of an epoch, and a shuffle of them."""
        drawn = draw_inputs(self._store, self._data, rng(self._seed, epoch, INPUTS))
        return drawn, rng(self._seed, epoch, ORDER).permutation(len(drawn))

    def _plan(self, drawn: Drawn, order: Array) -> list[Array]:
        """Which inputs each step of an epoch has: the shuffle, again and again, cut where a step is full."""
        lengths = drawn.lengths[order]
        times = 1 + -(-self.steps_in_epoch * self._room // int(lengths.sum()))
        again = np.tile(order, times)
        places = cut(np.tile(lengths, times), self._room)[: self.steps_in_epoch + 1]
        return [again[first : min(last, first + len(order))] for first, last in pairwise(places)]

    def _part(self, hidden: Hidden, part: int) -> MaskedBatch:
        rooms, pad = self.rooms.shared(self._parts), self._hiding.pad
        if part >= len(hidden.lengths):
            return self._form.of(hidden.share(0, len(hidden.lengths)), 0.0, pad, rooms).silenced(pad)
        return self._form.of(hidden.share(part, self._parts), balance(hidden), pad, rooms)


class Hiding:
    """Makes of inputs what a model reads and what it is asked."""

    def __init__(self, store: DocumentStore, data: DocumentDataSettings, vocabulary: BertVocabulary) -> None:
        self._assemble, self._share = Assembly(store, vocabulary, data.whole_words), data.masked
        self.pad, self._mask, self._others = vocabulary.pad, vocabulary.mask, ordinary(vocabulary)

    def __call__(self, drawn: Drawn, rng: np.random.Generator) -> Hidden:
        row = self._assemble(drawn)
        places = choose(row, self._share, rng)
        ids = hide(row.ids, places, self._mask, self._others, rng)
        return Hidden(ids, row.segments, row.lengths, places, row.ids[places], row.next)


def evaluation_batches(
    store: DocumentStore, data: DocumentDataSettings, vocabulary: BertVocabulary, batch_tokens: int, seed: int
) -> Iterator[PaddedMaskedBatch]:
    """All documents once, inputs and hidden words the same whenever they are asked for."""
    drawn, hiding = draw_inputs(store, data, rng(seed, INPUTS)), Hiding(store, data, vocabulary)
    for number, (first, last) in enumerate(pairwise(cut(drawn.lengths, batch_tokens))):
        hidden = hiding(drawn.take(np.arange(first, last)), rng(seed, WORDS, number))
        yield PaddedMaskedBatch.of(hidden, balance(hidden), hiding.pad, Rooms(0, 0, 0))


def balance(hidden: Hidden) -> float:
    """M/B; nothing where it is not asked whether B comes next."""
    asked = int((hidden.next != IGNORE).sum())
    return len(hidden.places) / asked if asked else 0.0


def cut(lengths: Array, room: int) -> list[int]:
    """Where steps begin, and where the last one ends: as many inputs of a row as there is room for, at least one."""
    begins, places = ends(lengths), [0]
    while places[-1] < len(lengths):
        full = int(np.searchsorted(begins, begins[places[-1]] + room, side="right")) - 1
        places.append(max(full, places[-1] + 1))
    return places
