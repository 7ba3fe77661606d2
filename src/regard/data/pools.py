"""Batches of a store in parts: as in planning.py, but in constant memory, however many examples there are.

    epoch    positions 0 ... E - 1, in a random order that is computed and not stored (permutation.py)
    pool     consecutive positions of that order: a random sample of the examples, the same number in every pool
    step     one of the batches of a pool: sorted by length and cut into rectangles, or cut where a stream is full

Every pool is cut into the same number of batches, so the pool of a step follows from its number by division. A run that
is resumed at any step plans one pool. The number is the largest of a few pools and 1 % more. Where a pool would need
fewer, its largest batches are halved; where it would need more, which is rare, its batches may exceed the budget by the
few percent that it takes.

E examples.
"""

from functools import reduce
from itertools import pairwise

import numpy as np

from regard.data.arrays import Array
from regard.data.permutation import permute
from regard.data.planning import (
    POOL_BATCHES,
    POOL_BATCHES_OF_EXAMPLES,
    POOL_EXAMPLES,
    Batches,
    Budget,
    Examples,
    by_length,
    cut_points,
    cut_rectangles,
)
from regard.seeding import rng

SAMPLED_POOLS = 8
RESERVE = 1.01
"""Batches of a pool relative to the largest number in the sampled pools, and the growth of a budget that is short."""


class PooledBatches(Batches):
    """Steps of training over a store in parts; a `BatchSource`."""

    def _begin(self, first: Examples) -> None:
        self._count = len(first.lengths[0])
        if self._budget.examples:
            size = POOL_BATCHES_OF_EXAMPLES * self._budget.examples
        else:
            mean = max(float(side.mean()) for side in first.widths)
            size = max(POOL_EXAMPLES, int(POOL_BATCHES * self._budget.tokens / max(mean, 1.0)))
        self._pools = max(1, round(self._count / size))
        sampled = {number * self._pools // SAMPLED_POOLS for number in range(SAMPLED_POOLS)}
        most = max(len(self._cut(first, self._positions(0, pool), 1.0)) for pool in sorted(sampled))
        self._per_pool = min(int(most * RESERVE) + 1, max(1, self._count // self._pools))
        self._planned: tuple[int, int, Examples, list[Array]] | None = None

    def epoch(self, step: int) -> int:
        return step // self.steps_in_epoch(0)

    def steps_in_epoch(self, epoch: int) -> int:
        return self._pools * self._per_pool

    def examples_of(self, step: int) -> tuple[int, Examples, Array]:
        epoch, rest = divmod(step, self.steps_in_epoch(0))
        pool, number = divmod(rest, self._per_pool)
        if self._planned is None or self._planned[:2] != (epoch, pool):
            examples = self._epochs.at_epoch(epoch)
            self._planned = epoch, pool, examples, self._plan_pool(examples, epoch, pool)
        return epoch, self._planned[2], self._planned[3][number]

    def _positions(self, epoch: int, pool: int) -> Array:
        """The examples of a pool: consecutive positions in the order of the epoch."""
        first, last = (number * self._count // self._pools for number in (pool, pool + 1))
        return permute(np.arange(first, last), self._count, self._seed, epoch)

    def _plan_pool(self, examples: Examples, epoch: int, pool: int) -> list[Array]:
        """The batches of a pool, in random order."""
        chosen, scale = self._positions(epoch, pool), 1.0
        while len(batches := self._cut(examples, chosen, scale)) > self._per_pool:
            scale *= RESERVE
        while len(batches) < self._per_pool:
            largest = max(range(len(batches)), key=lambda number: len(batches[number]))
            half = len(batches[largest]) // 2
            batches[largest : largest + 1] = [batches[largest][:half], batches[largest][half:]]
        return [batches[number] for number in rng(self._seed, epoch, pool).permutation(len(batches))]

    def _cut(self, examples: Examples, chosen: Array, scale: float) -> list[Array]:
        """Cut some examples into batches, with the budget multiplied by `scale`."""
        most = int(self._budget.examples * scale)
        if self.capacities is not None:
            sizes = [int(size * scale) for size in self.capacities]
            points = cut_points([side[chosen] for side in examples.lengths], sizes, most)
            return [chosen[start:stop] for start, stop in pairwise(points)]
        widths = [side[chosen] for side in examples.widths]
        sequences = None if examples.sequences is None else examples.sequences[chosen]
        budget = Budget(int(self._budget.tokens * scale), most)
        rectangles = cut_rectangles(by_length(widths), reduce(np.maximum, widths), budget, sequences)
        return [chosen[rectangle] for rectangle in rectangles]
