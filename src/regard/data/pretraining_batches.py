"""Batches of BERT pretraining: sampled inputs with the tokens to predict, as a function of (seed, step).

An epoch has as many steps as its first one. Later epochs sample other inputs, a few more or fewer: they leave out the
last ones or begin again with their own. So every step is full, and a run that is resumed need not sample the epochs
before.

The objective is a mean over masked tokens plus a mean over inputs (A.2). A step is divided once, by its M tokens; so
each next-sentence loss has the weight M/B, which is the same for all shards of the step.

B inputs, T tokens of the longest, N tokens of a stream, C inputs of a stream, M masked tokens.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from regard.data.arrays import Array, positions
from regard.data.batch import IGNORE, WHOLE, Batch, Share, Step, fill, pack_sequences, pad_rows, pad_sequences, round_up
from regard.data.planning import cut_points
from regard.data.pretraining import (
    InputBuilder,
    SampledPairs,
    TokenizedDocuments,
    choose_masked,
    mask_tokens,
    masked_counts,
    regular_ids,
    sample_pairs,
)
from regard.data.settings import DocumentDataSettings
from regard.seeding import rng
from regard.text.inputs import MaskedTokenizer

INPUTS, ORDER, WORDS = range(3)
"""Purposes of random numbers, each with its own stream."""
UNIT = 64
"""Packed streams have a multiple of this many tokens, inputs and masked tokens."""


class MaskedInputs(NamedTuple):
    """Inputs end to end, and the tokens to predict."""

    ids: Array
    """(N,): tokens that the model reads"""
    segments: Array
    """(N,)"""
    lengths: Array
    """(B,)"""
    masked: Array
    """(M,): positions at which tokens are predicted: those of the masked tokens"""
    labels: Array
    """(M,): the tokens to predict"""
    next_labels: Array
    """(B,): 0 if B follows A, 1 if not, IGNORE if there is no B"""

    @property
    def next_weight(self) -> float:
        """M/B: weight of one of `next_labels` relative to one of `labels`; 0 without next sentence prediction."""
        inputs = int((self.next_labels != IGNORE).sum())
        return len(self.masked) / inputs if inputs else 0.0

    def shard(self, index: int, shards: int) -> "MaskedInputs":
        """Every n-th input."""
        if shards == 1:
            return self
        starts, lengths = np.cumsum(self.lengths) - self.lengths, self.lengths[index::shards]
        tokens = positions(starts[index::shards], lengths)
        label_index = np.full(len(self.ids), -1)
        label_index[self.masked] = np.arange(len(self.masked))
        label_index = label_index[tokens]
        masked = np.flatnonzero(label_index >= 0)
        labels, next_labels = self.labels[label_index[masked]], self.next_labels[index::shards]
        return MaskedInputs(self.ids[tokens], self.segments[tokens], lengths, masked, labels, next_labels)


class MaskedCapacity(NamedTuple):
    """Size of a packed batch, the same for all steps."""

    tokens: int
    inputs: int
    masked: int

    def divided(self, shards: int) -> "MaskedCapacity":
        """Capacity of one of several shards, with some slack because shards differ."""
        return self if shards == 1 else MaskedCapacity(*(int(size / shards * 1.05) for size in self))


class Objective(Protocol):
    """Builds inputs of a model from sampled ones, with the tokens to predict."""

    pad_id: int

    def __init__(self, corpus: TokenizedDocuments, data: DocumentDataSettings, vocabulary: MaskedTokenizer) -> None: ...

    def __call__(self, sampled: SampledPairs, rng: np.random.Generator) -> MaskedInputs: ...

    def counts(self, lengths: Array) -> Array:
        """Number of tokens to predict in inputs of these lengths, (B,), or a little more."""
        ...


class Masking:
    """The objective of BERT: gathers the tokens of inputs and masks some."""

    def __init__(self, corpus: TokenizedDocuments, data: DocumentDataSettings, vocabulary: MaskedTokenizer) -> None:
        self._build = InputBuilder(corpus, vocabulary, data.whole_words)
        self._rate, self._shares = data.masked, data.masking
        self.pad_id, self._mask_id, self._random_ids = vocabulary.pad, vocabulary.mask, regular_ids(vocabulary)

    def __call__(self, sampled: SampledPairs, rng: np.random.Generator) -> MaskedInputs:
        inputs = self._build(sampled)
        masked = choose_masked(inputs, self._rate, rng)
        ids = mask_tokens(inputs.ids, masked, self._mask_id, self._random_ids, self._shares, rng)
        return MaskedInputs(ids, inputs.segments, inputs.lengths, masked, inputs.ids[masked], inputs.next_labels)

    def counts(self, lengths: Array) -> Array:
        return masked_counts(lengths, self._rate)


class NextTokens:
    """The objective of a left-to-right model: each token predicts the next one, unless that is [CLS] or [SEP]."""

    def __init__(self, corpus: TokenizedDocuments, data: DocumentDataSettings, vocabulary: MaskedTokenizer) -> None:
        self._build, self.pad_id = InputBuilder(corpus, vocabulary, whole_words=False), vocabulary.pad

    def __call__(self, sampled: SampledPairs, rng: np.random.Generator) -> MaskedInputs:
        inputs = self._build(sampled)
        predicted = np.flatnonzero(inputs.words >= 0)
        labels = inputs.ids[predicted]
        return MaskedInputs(inputs.ids, inputs.segments, inputs.lengths, predicted - 1, labels, inputs.next_labels)

    def counts(self, lengths: Array) -> Array:
        return lengths - 1


def pad_masked(inputs: MaskedInputs, next_weight: float, pad_id: int) -> Batch:
    """Padded batch.

    source, segments     (B, T)
    masked_positions     (M,) index of each masked token among all tokens, b T + t
    labels               (M,)
    next_labels          (B,)
    next_weight          ()
    """
    rows = inputs.ids, inputs.lengths
    inside = np.arange(inputs.lengths.max()) < inputs.lengths[:, None]
    arrays = {
        **pad_sequences("source", rows, pad_id),
        "segments": pad_rows((inputs.segments, inputs.lengths), 0),
        "masked_positions": np.flatnonzero(inside)[inputs.masked],
        "labels": inputs.labels,
        "next_labels": inputs.next_labels,
        "next_weight": np.array(next_weight, np.float32),
    }
    return Batch.of(arrays, tokens=len(inputs.ids))


def pack_masked(inputs: MaskedInputs, next_weight: float, pad_id: int, capacity: MaskedCapacity) -> Batch:
    """Packed batch with the same tensors; larger than `capacity` only if the inputs need it, which is rare."""
    size = round_up(max(capacity.tokens, len(inputs.ids)), UNIT)
    sequences = round_up(max(capacity.inputs, len(inputs.lengths)) + 1, UNIT)
    masked = round_up(max(capacity.masked, len(inputs.masked)), UNIT)
    arrays = {
        **pack_sequences("source", (inputs.ids, inputs.lengths), size, sequences, pad_id),
        "segments": fill(inputs.segments, size, 0),
        "masked_positions": fill(inputs.masked, masked, 0),
        "labels": fill(inputs.labels, masked, pad_id),
        "next_labels": fill(inputs.next_labels, sequences, IGNORE),
        "next_weight": np.array(next_weight, np.float32),
    }
    return Batch.of(arrays, tokens=len(inputs.ids))


class PretrainingBatches:
    """Steps of pretraining; a `BatchSource`."""

    def __init__(
        self,
        corpus: TokenizedDocuments,
        data: DocumentDataSettings,
        vocabulary: MaskedTokenizer,
        batch_tokens: int,
        seed: int,
        share: Share = WHOLE,
        *,
        packed: bool = False,
        objective: type[Objective] = Masking,
    ) -> None:
        """A step has at most `batch_tokens` tokens, divided among the shards."""
        self._corpus, self._data, self._seed, self._share = corpus, data, seed, share
        self._objective = objective(corpus, data, vocabulary)
        self._batch_tokens = batch_tokens
        sampled, order = self._sample(0)
        points = cut_points([sampled.lengths[order]], [batch_tokens])
        self._steps = max(1, len(points) - 2)  # the last one is not full
        self._current = 0, sampled, self._plan(sampled, order)
        steps = [sampled.lengths[indices] for indices in self._current[2]]
        masked = max(int(self._objective.counts(lengths).sum()) for lengths in steps)
        # later epochs have a few more inputs in a step
        self.capacity = MaskedCapacity(batch_tokens, int(max(map(len, steps)) * 1.05), int(masked * 1.02))
        self._packed = packed

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch, index = divmod(step, self._steps)
        if self._current[0] != epoch:
            sampled, order = self._sample(epoch)
            self._current = epoch, sampled, self._plan(sampled, order)
        _, sampled, plan = self._current
        inputs = self._objective(sampled.take(plan[index]), rng(self._seed, epoch, WORDS, index))
        micro_batches = [self._micro_batch(inputs, shard) for shard in self._share.shards]
        return Step(micro_batches, len(inputs.masked), len(inputs.ids), epoch)

    def steps_in_epoch(self, epoch: int = 0) -> int:
        """Number of steps of an epoch, the same for all epochs."""
        return self._steps

    def _sample(self, epoch: int) -> tuple[SampledPairs, Array]:
        """Inputs of an epoch, and a shuffle of them."""
        sampled = sample_pairs(self._corpus, self._data, rng(self._seed, epoch, INPUTS))
        return sampled, rng(self._seed, epoch, ORDER).permutation(len(sampled))

    def _plan(self, sampled: SampledPairs, order: Array) -> list[Array]:
        """Inputs of each step of an epoch: the shuffle, repeated as often as needed, cut where a step is full."""
        lengths = sampled.lengths[order]
        times = 1 + -(-self._steps * self._batch_tokens // int(lengths.sum()))
        repeated = np.tile(order, times)
        points = cut_points([np.tile(lengths, times)], [self._batch_tokens])[: self._steps + 1]
        return [repeated[first : min(last, first + len(order))] for first, last in pairwise(points)]

    def _micro_batch(self, inputs: MaskedInputs, shard: int) -> Batch:
        """Every n-th input of a step; if there are fewer inputs than shards, a batch without labels."""
        if shard >= len(inputs.lengths):
            batch = self._lay_out(inputs.shard(0, len(inputs.lengths)), 0.0)
            return batch.without_labels(labels=self._objective.pad_id, next_labels=IGNORE)
        return self._lay_out(inputs.shard(shard, self._share.count), inputs.next_weight)

    def _lay_out(self, inputs: MaskedInputs, next_weight: float) -> Batch:
        if self._packed:
            return pack_masked(inputs, next_weight, self._objective.pad_id, self.capacity.divided(self._share.count))
        return pad_masked(inputs, next_weight, self._objective.pad_id)


def evaluation_batches(
    corpus: TokenizedDocuments,
    data: DocumentDataSettings,
    vocabulary: MaskedTokenizer,
    batch_tokens: int,
    seed: int,
    objective: type[Objective] = Masking,
) -> Iterator[Batch]:
    """All documents once; inputs and masked tokens depend on the seed only."""
    sampled, build = sample_pairs(corpus, data, rng(seed, INPUTS)), objective(corpus, data, vocabulary)
    for number, (first, last) in enumerate(pairwise(cut_points([sampled.lengths], [batch_tokens]))):
        inputs = build(sampled.take(np.arange(first, last)), rng(seed, WORDS, number))
        yield pad_masked(inputs, inputs.next_weight, build.pad_id)
