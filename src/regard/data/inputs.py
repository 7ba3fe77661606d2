"""Examples of text encoders with a task head, as arrays of token ids, segments and labels.

    example    what a person labelled: a text, two texts, a question with a passage, a beginning with four endings
    input      [CLS] A [SEP] or [CLS] A [SEP] B [SEP]: one sequence of the model. Most examples are one input. In
               multiple choice each choice is an input, and the inputs of an example stay in one batch.
    labels     of an example (a class, a number, the span of an answer), or of each of its tokens; IGNORE for none

B inputs, T tokens of the longest, N tokens of a stream, E examples, C examples of a stream, K labels of an example.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.arrays import SEEN, Array, ArrayWriter, fingerprint, map_array, open_or_make, positions, row_offsets
from regard.data.batch import IGNORE, Batch, fill, pack_sequences, pad_rows, pad_sequences, round_up
from regard.data.digests import Digests
from regard.data.planning import Capacity

UNIT = 64
"""Packed streams have a multiple of so many tokens."""
TYPES = {"ids": np.int32, "segments": np.int8, "offsets": np.int64, "firsts": np.int64, "labels": np.float32,
         "label_offsets": np.int64}  # fmt: skip


class Input(NamedTuple):
    """What is read at once, and its labels; of several inputs of one example the first one carries them."""

    ids: list[int]
    segments: list[int]
    labels: Sequence[float] = ()
    unread: int = 0
    """Tokens of the text that were cut off."""


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
            row_offsets([len(each.ids) for each in inputs]),
            row_offsets([len(example) for example in examples]),
            np.array(labels, np.float32),
            row_offsets([sum(len(each.labels) for each in example) for example in examples]),
            per_token,
        )

    def __len__(self) -> int:
        """E, the number of examples."""
        return len(self.firsts) - 1

    ignored: ClassVar[dict[str, int]] = {"labels": IGNORE}

    @cached_property
    def lengths(self) -> tuple[Array, ...]:
        """(E,): tokens of each example."""
        return (np.diff(self.offsets[self.firsts]),)

    @cached_property
    def widths(self) -> tuple[Array, ...]:
        """(E,): tokens of the longest input of each example."""
        return (np.maximum.reduceat(np.diff(self.offsets), self.firsts[:-1]),)

    @cached_property
    def sequences(self) -> Array:
        """(E,): inputs of each example."""
        return np.diff(self.firsts)

    @cached_property
    def label_counts(self) -> Array:
        """(E,): labels of each example that count: one, or one for each token that has a label."""
        if not self.per_token:
            return np.ones(len(self), np.int64)
        labelled = np.concatenate([[0], np.cumsum(self.labels != IGNORE)])
        return np.diff(labelled[self.label_offsets])

    @cached_property
    def max_inputs(self) -> int:
        """Maximum number of inputs of an example."""
        return int(self.sequences.max(initial=1))

    def at_epoch(self, epoch: int) -> "Inputs":
        """The same in every epoch."""
        return self

    def count(self, indices: Array) -> tuple[int, int]:
        return int(self.label_counts[indices].sum()), int(self.lengths[0][indices].sum())

    def pad(self, indices: Array) -> Batch:
        """Padded batch, one input a row."""
        ids, segments, lengths, counts = self._gather(indices)
        labels = self._labels(indices, len(indices))
        arrays = {
            **pad_sequences("source", (ids, lengths)),
            "segments": pad_rows((segments, lengths)),
            "labels": pad_rows((labels, lengths), IGNORE) if self.per_token else labels,
            "input_index": self._input_index(counts, len(indices)),
        }
        return Batch.of(arrays, tokens=len(ids))

    def pack(self, indices: Array, capacity: Capacity) -> Batch:
        """Packed batch; larger than `capacity` only if the examples need it."""
        ids, segments, lengths, counts = self._gather(indices)
        size, examples = round_up(max(*capacity.tokens, len(ids)), UNIT), max(capacity.examples, len(indices))
        labels = self._labels(indices, examples)
        arrays = {
            **pack_sequences("source", (ids, lengths), size, examples * self.max_inputs + 1),
            "segments": fill(segments.astype(np.int64), size, 0),
            "labels": fill(labels, size, IGNORE) if self.per_token else labels,
            "input_index": self._input_index(counts, examples),
        }
        return Batch.of(arrays, tokens=len(ids))

    def _gather(self, indices: Array) -> tuple[Array, Array, Array, Array]:
        """Tokens and segments end to end, the length of each input, the number of inputs of each example."""
        counts = self.firsts[indices + 1] - self.firsts[indices]
        inputs = positions(self.firsts[indices], counts)
        lengths = self.offsets[inputs + 1] - self.offsets[inputs]
        tokens = positions(self.offsets[inputs], lengths)
        return self.ids[tokens], self.segments[tokens], lengths, counts

    def _labels(self, indices: Array, examples: int) -> Array:
        """Labels of each token, end to end; or of each example (E, K)."""
        starts = self.label_offsets[indices]
        lengths = self.label_offsets[indices + 1] - starts
        labels = self.labels[positions(starts, lengths)]
        return labels if self.per_token else fill(labels.reshape(len(indices), -1), examples, IGNORE)

    def _input_index(self, counts: Array, examples: int) -> Array:
        """(E, max_inputs): rows of the inputs of each example; -1 where it has no more."""
        index = np.full((examples, self.max_inputs), -1, np.int64)
        index[: len(counts)][np.arange(self.max_inputs) < counts[:, None]] = np.arange(counts.sum())
        return index


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
