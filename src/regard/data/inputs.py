"""Examples of text encoders with a task head, as arrays of token ids, segments and labels.

    example    what a person labelled: a text, two texts, a question with a passage, a beginning with four endings
    input      [CLS] A [SEP] or [CLS] A [SEP] B [SEP]: one sequence of the model. Most examples are one input. In
               multiple choice each choice is an input, and the inputs of an example stay in one batch.
    labels     of an example (a class, a number, the span of an answer), or of each of its tokens; IGNORE for none

B inputs, T tokens of the longest, N tokens of a stream, E examples, C examples of a stream, K labels of an example.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from regard.data.arrays import Array, flatten, positions
from regard.data.batch import IGNORE, Batch, fill, pack_sequences, pad_rows, pad_sequences, round_up
from regard.data.examples import Example
from regard.data.planning import Capacity
from regard.data.store import Encoded, Store

UNIT = 64
"""Packed streams have a multiple of this many tokens."""
DTYPES: Mapping[str, DTypeLike] = {"ids": np.int32, "segments": np.int8, "labels": np.float32}


class Input(NamedTuple):
    """One sequence of the model and its labels. If an example has several inputs, the first one has its labels."""

    ids: list[int]
    segments: list[int]
    labels: Sequence[float] = ()
    truncated: int = 0
    """Tokens of the text that were cut off."""


@dataclass(frozen=True)
class InputEncoder:
    """Encodes examples for a store: columns `ids`, `segments` and `labels` with a row for each input.

    The inputs of an example are a group of rows if `grouped`; otherwise each input is a separate group.
    """

    encode: Callable[[Example], Sequence[Input]]
    grouped: bool
    identity: str
    """Everything that `encode` depends on."""

    @property
    def dtypes(self) -> Mapping[str, DTypeLike]:
        return DTYPES

    def __call__(self, examples: list[Example]) -> Encoded:
        encoded = [self.encode(example) for example in examples]
        groups = encoded if self.grouped else [[item] for inputs in encoded for item in inputs]
        return encode_inputs(groups, len(examples))


def encode_inputs(groups: Sequence[Sequence[Input]], examples: int) -> Encoded:
    """Groups of inputs as columns."""
    inputs = [item for group in groups for item in group]
    columns = {name: flatten([getattr(item, name) for item in inputs], dtype) for name, dtype in DTYPES.items()}
    sizes = np.array([len(group) for group in groups], np.int64)
    counts = Counter(truncated_inputs=sum(item.truncated > 0 for item in inputs))
    return Encoded(columns, examples, counts, groups=np.cumsum(sizes) - sizes)


class Inputs:
    """Inputs of a store. An example is a group of inputs that stay in one batch."""

    ignored: ClassVar[dict[str, int]] = {"labels": IGNORE}

    def __init__(self, store: Store, per_token: bool) -> None:
        """`per_token`: True if every token has a label, False if every example has some."""
        self._store, self.per_token = store, per_token
        self._firsts = store.groups
        self.fingerprint = store.fingerprint

    @classmethod
    def of(cls, examples: Iterable[Sequence[Input]], per_token: bool) -> "Inputs":
        """Inputs of some examples in memory."""
        groups = list(examples)
        return cls(Store.of(encode_inputs(groups, len(groups))), per_token)

    def __len__(self) -> int:
        """E, the number of examples."""
        return len(self._firsts) - 1

    @property
    def input_lengths(self) -> Array:
        """(inputs,): tokens of each input."""
        return self._store.lengths("ids")

    @cached_property
    def lengths(self) -> tuple[Array, ...]:
        """(E,): tokens of each example."""
        return (np.diff(self._store.offsets("ids")[self._firsts]),)

    @cached_property
    def widths(self) -> tuple[Array, ...]:
        """(E,): tokens of the longest input of each example."""
        return (np.maximum.reduceat(self.input_lengths, self._firsts[:-1]),)

    @cached_property
    def sequences(self) -> Array:
        """(E,): inputs of each example."""
        return np.diff(self._firsts)

    @cached_property
    def label_counts(self) -> Array:
        """(E,): labels of each example that count: one, or one for each token that has a label."""
        if not self.per_token:
            return np.ones(len(self), np.int64)
        labelled = np.concatenate([[0], np.cumsum(self._store.values("labels") != IGNORE)])
        return np.diff(labelled[self._store.offsets("labels")[self._firsts]])

    @cached_property
    def max_inputs(self) -> int:
        """Maximum number of inputs of an example."""
        return int(self.sequences.max(initial=1))

    def at_epoch(self, epoch: int) -> "Inputs":
        """Return these examples: they do not change with the epoch."""
        return self

    def count(self, indices: Array) -> tuple[int, int]:
        return int(self.label_counts[indices].sum()), int(self.lengths[0][indices].sum())

    def pad(self, indices: Array) -> Batch:
        """Padded batch, one input a row."""
        inputs, counts = self._inputs(indices)
        ids, segments = self._store.gather("ids", inputs), self._store.gather("segments", inputs)
        labels = self._store.gather("labels", inputs)
        arrays = {
            **pad_sequences("source", ids),
            "segments": pad_rows(segments),
            "labels": pad_rows(labels, IGNORE) if self.per_token else labels[0].reshape(len(indices), -1),  # (E, K)
            "input_index": self._input_index(counts, len(indices)),
        }
        return Batch.of(arrays, tokens=len(ids[0]))

    def pack(self, indices: Array, capacity: Capacity) -> Batch:
        """Packed batch; larger than `capacity` only if the examples need it."""
        inputs, counts = self._inputs(indices)
        ids, (segments, _) = self._store.gather("ids", inputs), self._store.gather("segments", inputs)
        labels, _ = self._store.gather("labels", inputs)
        size, examples = round_up(max(*capacity.tokens, len(ids[0])), UNIT), max(capacity.examples, len(indices))
        if not self.per_token:
            labels = labels.reshape(len(indices), -1)  # (E, K)
        arrays = {
            **pack_sequences("source", ids, size, examples * self.max_inputs + 1),
            "segments": fill(segments.astype(np.int64), size, 0),
            "labels": fill(labels, size if self.per_token else examples, IGNORE),
            "input_index": self._input_index(counts, examples),
        }
        return Batch.of(arrays, tokens=len(ids[0]))

    def _inputs(self, indices: Array) -> tuple[Array, Array]:
        """Inputs of some examples, and the number of inputs of each."""
        counts = self._firsts[indices + 1] - self._firsts[indices]
        return positions(self._firsts[indices], counts), counts

    def _input_index(self, counts: Array, examples: int) -> Array:
        """(E, max_inputs): rows of the inputs of each example; -1 where it has no more."""
        index = np.full((examples, self.max_inputs), -1, np.int64)
        index[: len(counts)][np.arange(self.max_inputs) < counts[:, None]] = np.arange(counts.sum())
        return index
