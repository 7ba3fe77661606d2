"""What a model of understanding reads, and what is asked of it, as numbers.

    example    what a person labelled: a text, two texts, a question with a passage, a beginning with four endings
    input      [CLS] A [SEP] or [CLS] A [SEP] B [SEP]: what the model reads at once. Most examples are one input; where
               one of several endings is to be chosen, each ending is an input, and they are judged together.
    labels     of an example (a class, a number, where an answer begins and ends), or one for each of its tokens;
               IGNORE where nothing is asked

B inputs, T tokens of the longest, N tokens of a stream, E examples, C inputs there is room for, K labels of an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.data.arrays import SEEN, Array, ArrayWriter, fingerprint, map_array, open_or_make, positions
from regard.data.digests import Digests
from regard.data.steps import Tensors

IGNORE = -100
"""The label of what nothing is asked of; torch's losses leave it out."""
UNIT = 64
"""Streams have room for a multiple of so many tokens, which matrix products like."""
TYPES = {"ids": np.int32, "segments": np.int8, "offsets": np.int64, "firsts": np.int64, "labels": np.float32,
         "label_offsets": np.int64}  # fmt: skip


class Input(NamedTuple):
    """What is read at once, and its labels; of several inputs of one example the first one carries them."""

    ids: list[int]
    segments: list[int]
    labels: Sequence[float] = ()
    unread: int = 0
    """Pieces of the text for which there was no room."""


@dataclass(frozen=True)
class Inputs:
    """Many examples, end to end."""

    ids: Array
    """All tokens of all inputs."""
    segments: Array
    """Which text each token is of."""
    offsets: Array
    """(inputs + 1,) where each input begins"""
    firsts: Array
    """(examples + 1,) the first input of each example"""
    labels: Array
    label_offsets: Array
    """(examples + 1,) where each example's labels begin"""
    per_token: bool
    fingerprint: str = ""

    @classmethod
    def of(cls, examples: Iterable[Sequence[Input]], per_token: bool) -> "Inputs":
        """Lay the inputs of examples end to end."""
        examples = list(examples)
        inputs = [each for example in examples for each in example]
        labels = [label for each in inputs for label in each.labels]
        return cls(
            np.array([token for each in inputs for token in each.ids], np.int32),
            np.array([text for each in inputs for text in each.segments], np.int8),
            ends([len(each.ids) for each in inputs]),
            ends([len(example) for example in examples]),
            np.array(labels, np.float32),
            ends([sum(len(each.labels) for each in example) for example in examples]),
            per_token,
        )

    def __len__(self) -> int:
        """E, the number of examples."""
        return len(self.firsts) - 1

    @cached_property
    def src_lengths(self) -> Array:
        """(E,) the tokens of each example."""
        return np.diff(self.offsets[self.firsts])

    @cached_property
    def tgt_lengths(self) -> Array:
        """(E,) how much is asked of each example: once, or of each token that has a label."""
        if not self.per_token:
            return np.ones(len(self), np.int64)
        asked = np.concatenate([[0], np.cumsum(self.labels != IGNORE)])
        return np.diff(asked[self.label_offsets])

    @cached_property
    def longest(self) -> Array:
        """(E,) the tokens of the longest input of each example."""
        return np.maximum.reduceat(np.diff(self.offsets), self.firsts[:-1])

    @cached_property
    def counts(self) -> Array:
        """(E,) the inputs of each example."""
        return np.diff(self.firsts)

    @cached_property
    def most(self) -> int:
        """The most inputs of an example."""
        return int(self.counts.max(initial=1))

    def at_epoch(self, epoch: int) -> "Inputs":
        """The same in every epoch."""
        return self

    def padded(self, examples: Array) -> "PaddedInputBatch":
        """These examples as rectangles, each input a row."""
        part = self._gather(examples)
        real = np.arange(part.lengths.max()) < part.lengths[:, None]
        labels = self._labels(examples, len(examples))
        return PaddedInputBatch(
            **{name: torch.from_numpy(array) for name, array in (
                ("ids", _laid(part.ids, real)),
                ("segments", _laid(part.segments, real)),
                ("labels", _laid(labels, real, IGNORE) if self.per_token else labels),
                ("members", self._members(part.counts, len(examples))),
                ("lengths", part.lengths.astype(np.int64)),
            )},
            tokens=len(part.ids),
        )  # fmt: skip

    def packed(self, examples: Array, tokens: int, room: int) -> "PackedInputBatch":
        """These examples end to end in a stream of `tokens` tokens and `room` examples, or more where they need it."""
        part = self._gather(examples)
        size, room = up(max(tokens, len(part.ids))), max(room, len(examples))
        inputs = room * self.most + 1  # what fills the stream up belongs to the last one, which has no tokens
        offsets = np.full(inputs + 1, len(part.ids), np.int32)
        offsets[: len(part.lengths) + 1] = ends(part.lengths)
        labels = self._labels(examples, room)
        if self.per_token:
            labels = filled(labels, size, IGNORE)
        rows = np.repeat(np.arange(len(part.lengths)), part.lengths)
        places = np.arange(len(part.ids)) - np.repeat(offsets[: len(part.lengths)], part.lengths)
        return PackedInputBatch(
            **{name: torch.from_numpy(array) for name, array in (
                ("ids", filled(part.ids.astype(np.int64), size, 0)),
                ("segments", filled(part.segments.astype(np.int64), size, 0)),
                ("labels", labels),
                ("members", self._members(part.counts, room)),
                ("offsets", offsets),
                ("rows", filled(rows, size, inputs - 1)),
                ("positions", filled(places, size, 0)),
            )},
            tokens=len(part.ids),
        )  # fmt: skip

    def _gather(self, examples: Array) -> "_Part":
        counts = self.firsts[examples + 1] - self.firsts[examples]
        inputs = positions(self.firsts[examples], counts)
        lengths = self.offsets[inputs + 1] - self.offsets[inputs]
        places = positions(self.offsets[inputs], lengths)
        return _Part(self.ids[places], self.segments[places], lengths, counts)

    def _labels(self, examples: Array, room: int) -> Array:
        """Of each token, end to end; or of each example (E, K)."""
        starts = self.label_offsets[examples]
        lengths = self.label_offsets[examples + 1] - starts
        labels = self.labels[positions(starts, lengths)]
        return labels if self.per_token else filled(labels.reshape(len(examples), -1), room, IGNORE)

    def _members(self, counts: Array, room: int) -> Array:
        """(E, most): the rows of each example's inputs, -1 where it has no more."""
        members = np.full((room, self.most), -1, np.int64)
        members[: len(counts)][np.arange(self.most) < counts[:, None]] = np.arange(counts.sum())
        return members


class _Part(NamedTuple):
    """Some examples' inputs: tokens end to end, the length of each input, how many inputs each example has."""

    ids: Array
    segments: Array
    lengths: Array
    counts: Array


@dataclass(frozen=True)
class InputBatch(Tensors, ABC):
    """What is computed together."""

    ids: Tensor
    """(B, T) or (N,)"""
    segments: Tensor
    """the same"""
    labels: Tensor
    """(E, K), or as `ids` where every token has one; float, for the task to say what they are"""
    members: Tensor
    """(E, most) the inputs of each example, -1 for none"""
    tokens: int
    """Real tokens, for measuring speed."""

    @property
    @abstractmethod
    def source(self) -> Tokens:
        """The tokens, and where they lie."""

    def silenced(self) -> Self:
        """The same batch asking for nothing: a rank without a share still takes part in every collective call."""
        return replace(self, labels=torch.full_like(self.labels, IGNORE), tokens=0)


@dataclass(frozen=True)
class PaddedInputBatch(InputBatch):
    """Inputs in rows, filled up to the longest."""

    lengths: Tensor

    @property
    def source(self) -> Tokens:
        return Padded.of(self.ids, self.lengths)


@dataclass(frozen=True)
class PackedInputBatch(InputBatch):
    """Inputs end to end in a stream of fixed size."""

    offsets: Tensor
    rows: Tensor
    positions: Tensor

    @property
    def source(self) -> Tokens:
        return Tokens(self.ids, Packed(self.offsets, self.rows, self.positions))


def open_or_build_inputs(folder: Path, content: str, make: Any, per_token: bool) -> Inputs:
    """The inputs kept in `folder`, made anew by `make()` if `content`, all they depend on, has changed."""

    def write(place: Path) -> dict[str, Any]:
        made = Inputs.of(make(), per_token)
        for name, kind in TYPES.items():
            with ArrayWriter(place / name, kind) as writer:
                writer.append(getattr(made, name))
        return {}

    current = fingerprint("inputs 1", content)
    open_or_make(folder, current, Digests(folder / SEEN), write)
    arrays = {name: map_array(folder / name, kind) for name, kind in TYPES.items()}
    return Inputs(**arrays, per_token=per_token, fingerprint=current)


def ends(lengths: Sequence[int] | Array) -> Array:
    """Where things of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def up(count: int) -> int:
    """The next multiple of UNIT."""
    return -(-count // UNIT) * UNIT


def _laid(values: Array, real: Array, filler: float = 0) -> Array:
    """Values end to end as a rectangle (B, T)."""
    kind = np.float32 if values.dtype == np.float32 else np.int64
    rectangle = np.full(real.shape, filler, kind)
    rectangle[real] = values
    return rectangle


def filled(values: Array, room: int, filler: float) -> Array:
    """Values, and the filler for as many more as there is room."""
    more = np.full((room - len(values), *values.shape[1:]), filler, values.dtype)
    return np.concatenate([values, more])
