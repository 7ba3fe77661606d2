"""Planning of batches: which examples share a step, in which order, and which rank computes them.

The plan is a function of (seed, epoch) and of the lengths of the examples. The global batch of a step does not depend
on the number of ranks; each rank takes its share. So a run that is resumed, or continues on other hardware, gets the
same examples in the same steps.

    padded    shuffle, sort by length inside pools, cut into rectangles, shuffle the batches: little padding
    packed    shuffle, cut where a stream is full: without padding there is no reason to sort

E examples.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from regard.data.arrays import Array, row_offsets
from regard.data.batch import WHOLE, Batch, Share, Step
from regard.errors import UserError
from regard.seeding import rng

POOL_BATCHES, POOL_EXAMPLES = 100, 50_000
"""Size of the pools that are sorted by length: the larger of this many batches and this many examples ..."""
POOL_BATCHES_OF_EXAMPLES = 50
"""... or, for batches counted in examples, this many batches."""
STANDARD_DEVIATIONS = 2.0
"""Streams counted in examples hold the mean of a batch and this many standard deviations; longer ones end earlier."""
MIN_MEAN_LENGTH = 4
"""Sequences of a stream have at least this many tokens on average."""


@dataclass(frozen=True)
class Budget:
    """Bounds of one step over all ranks.

    A padded batch has at most `tokens` tokens including padding, on its longer side. A packed batch has at most
    `tokens` tokens on each side. A single example that is longer is a batch by itself.
    """

    tokens: int
    examples: int = 0
    """Maximum number of examples; 0 for no such bound."""


class Capacity(NamedTuple):
    """Size of a packed batch: tokens of each side, and number of examples."""

    tokens: tuple[int, ...]
    examples: int


class Examples(Protocol):
    """Examples of one epoch, by index. A side is a sequence that the model reads: source, target."""

    @property
    def ignored(self) -> Mapping[str, int]:
        """Tensors with labels, and the label that their loss ignores."""

    @property
    def lengths(self) -> tuple[Array, ...]:
        """(E,) for each side: tokens of every example."""

    @property
    def widths(self) -> tuple[Array, ...]:
        """(E,) for each side: tokens of the longest sequence of every example."""

    @property
    def sequences(self) -> Array | None:
        """(E,): sequences of every example; None if all have one."""

    def count(self, indices: Array) -> tuple[int, int]:
        """Labels and tokens of some examples."""

    def pad(self, indices: Array) -> Batch: ...

    def pack(self, indices: Array, capacity: Capacity) -> Batch: ...


class Epochs(Protocol):
    """Return the examples of an epoch: equal ones, possibly in another form (BPE-dropout)."""

    def at_epoch(self, epoch: int) -> Examples: ...


class Batches:
    """Steps of training over a set of examples; a `BatchSource`."""

    def __init__(
        self, epochs: Epochs, budget: Budget, seed: int, share: Share = WHOLE, *, packed: bool = False
    ) -> None:
        if budget.tokens < 1:
            problem, remedy = f"`training.batch_tokens` cannot be {budget.tokens}", "set 1 or more"
            raise UserError(problem, remedy, code="invalid-setting", where="training.batch_tokens")
        self._epochs, self._budget, self._seed, self._share = epochs, budget, seed, share
        first = epochs.at_epoch(0)
        self.capacities = capacities(first.lengths, budget) if packed else None
        self._begin(first)

    def _begin(self, first: Examples) -> None:
        self._first_steps = [0]  # the first step of every epoch planned so far, and of the next one
        self._plan(0, first)

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch, examples, indices = self.examples_of(step)
        micro_batches = [self._micro_batch(examples, indices, shard) for shard in self._share.shards]
        return Step(micro_batches, *examples.count(indices), epoch)

    def examples_of(self, step: int) -> tuple[int, Examples, Array]:
        """Epoch of a step, the examples of this epoch, and the indices of those in the step."""
        epoch = self.epoch(step)
        _, examples, plan = self._current
        return epoch, examples, plan[step - self._first_steps[epoch]]

    def epoch(self, step: int) -> int:
        """Epoch that a step belongs to; a run that is resumed in a later epoch plans the earlier ones again, once."""
        while step >= self._first_steps[-1]:
            self._plan_next()
        epoch = bisect_right(self._first_steps, step) - 1
        if self._current[0] != epoch:
            self._plan(epoch, self._epochs.at_epoch(epoch))
        return epoch

    def steps_in_epoch(self, epoch: int) -> int:
        """Number of steps of an epoch."""
        while epoch >= len(self._first_steps) - 1:
            self._plan_next()
        return self._first_steps[epoch + 1] - self._first_steps[epoch]

    def _plan_next(self) -> None:
        epoch = len(self._first_steps) - 1
        self._plan(epoch, self._epochs.at_epoch(epoch))

    def _plan(self, epoch: int, examples: Examples) -> None:
        if self.capacities is None:
            plan = plan_padded(examples.widths, self._budget, self._seed, epoch, examples.sequences)
        else:
            plan = plan_packed(examples.lengths, self.capacities, self._seed, epoch, self._budget.examples)
        if epoch == len(self._first_steps) - 1:
            self._first_steps.append(self._first_steps[-1] + len(plan))
        self._current = (epoch, examples, plan)

    def _micro_batch(self, examples: Examples, indices: Array, shard: int) -> Batch:
        """One shard of a step; if there are fewer examples than shards, a batch without labels."""
        batch = self._lay_out(examples, self._shard(indices, shard))
        return batch if shard < len(indices) else batch.without_labels(**examples.ignored)

    def _shard(self, indices: Array, shard: int) -> Array:
        """Every n-th example of a step; the first one if there are fewer examples than shards."""
        return indices[shard :: self._share.count] if shard < len(indices) else indices[:1]

    def _lay_out(self, examples: Examples, indices: Array) -> Batch:
        if self.capacities is None:
            return examples.pad(indices)
        whole, shards, limit = self.capacities, self._share.count, self._budget.examples
        slack = 1.25 if limit else 1.05  # shards differ
        tokens = tuple(size if shards == 1 else int(size / shards * slack) for size in whole)
        most = -(-limit // shards) if limit else max(whole) // shards // MIN_MEAN_LENGTH
        return examples.pack(indices, Capacity(tokens, most))


def plan_padded(
    widths: Sequence[Array], budget: Budget, seed: int, epoch: int, sequences: Array | None = None
) -> list[Array]:
    """Batches of an epoch, each an array of example indices of similar length; no two epochs have the same batches."""
    generator = rng(seed, epoch)
    width = reduce(np.maximum, widths)
    order = generator.permutation(len(width))
    if budget.examples:
        size = POOL_BATCHES_OF_EXAMPLES * budget.examples
        pools = [order[first : first + size] for first in range(0, len(order), size)]
    else:
        size = max(POOL_EXAMPLES, int(POOL_BATCHES * budget.tokens / max(float(width.mean()), 1.0)))
        pools = np.array_split(order, max(1, round(len(order) / size)))
    batches = [
        batch
        for pool in pools
        for batch in cut_rectangles(pool[by_length([side[pool] for side in widths])], width, budget, sequences)
    ]
    return [batches[index] for index in generator.permutation(len(batches))]


def by_length(sides: Sequence[Array]) -> Array:
    """Sort by the longer side, descending, then by the difference of both sides.

    The difference ascends where the longer side is even and descends where it is odd. So it never jumps, and
    neighbours are similar on both sides.
    """
    longer = reduce(np.maximum, sides).astype(np.int64)
    difference = sides[0].astype(np.int64) - sides[-1]
    return np.lexsort((np.where(longer % 2 == 0, difference, -difference), -longer))


def cut_rectangles(order: Array, width: Array, budget: Budget, sequences: Array | None = None) -> list[Array]:
    """Cut an order of descending width into batches: the first example of a batch decides how many rows fit."""
    ends = np.arange(1, len(order) + 1) if sequences is None else np.cumsum(sequences[order])
    batches, start = [], 0
    while start < len(order):
        rows_before = int(ends[start - 1]) if start else 0
        rows = budget.tokens // max(1, int(width[order[start]]))
        stop = int(np.searchsorted(ends, rows_before + rows, side="right"))
        if budget.examples:
            stop = min(stop, start + budget.examples)
        stop = max(stop, start + 1)
        batches.append(order[start:stop])
        start = stop
    return batches


def groups_by_length(lengths: Sequence[int], budget: int, rows: Sequence[int] | None = None) -> list[list[int]]:
    """Indices grouped by similar length, longest first, for evaluation: nothing is random.

    Rows times the longest row stay within `budget` tokens. An index is one row, or `rows[index]` rows; one that is
    too long is a group by itself.
    """
    width = np.asarray(lengths, np.int64)
    counts = None if rows is None else np.asarray(rows, np.int64)
    groups = cut_rectangles(np.argsort(-width, kind="stable"), width, Budget(budget), counts)
    return [group.tolist() for group in groups]


def plan_packed(
    lengths: Sequence[Array], capacities: Sequence[int], seed: int, epoch: int, max_examples: int = 0
) -> list[Array]:
    """Batches of an epoch, each an array of example indices: a shuffle, cut where a side is full."""
    order = rng(seed, epoch).permutation(len(lengths[0]))
    points = cut_points([side[order] for side in lengths], capacities, max_examples)
    return [order[start:stop] for start, stop in pairwise(points)]


def cut_points(lengths: Sequence[Array], capacities: Sequence[int], max_examples: int = 0) -> list[int]:
    """Where batches begin and the last one ends; each has as many consecutive examples as fit, at least one."""
    offsets = [row_offsets(side) for side in lengths]
    points = [0]
    while points[-1] < len(lengths[0]):
        start = points[-1]
        stop = min(
            int(np.searchsorted(side, side[start] + capacity, side="right")) - 1
            for side, capacity in zip(offsets, capacities, strict=True)
        )
        if max_examples:
            stop = min(stop, start + max_examples)
        points.append(max(stop, start + 1))
    return points


def capacities(lengths: Sequence[Array], budget: Budget) -> tuple[int, ...]:
    """Tokens of each side of a packed step: the same for all steps, and enough for the longest example.

    A budget of examples needs what almost every batch of a shuffle needs. Without one, the side that is longer in
    total gets all tokens of the budget, and the other side its proportion.
    """
    if budget.examples:
        usual = [
            side.mean() * budget.examples + STANDARD_DEVIATIONS * side.std() * budget.examples**0.5 for side in lengths
        ]
        bounds = [min(int(size), budget.tokens) for size in usual]
    else:
        totals = np.array([side.sum(dtype=np.int64) for side in lengths])
        bounds = np.minimum(budget.tokens, budget.tokens * totals / totals.max() * 1.02).astype(np.int64).tolist()
    return tuple(max(bound, int(side.max())) for bound, side in zip(bounds, lengths, strict=True))
