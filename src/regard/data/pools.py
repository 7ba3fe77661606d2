"""Batches of a store in parts: as in planning.py, but in constant memory, however many examples there are.

    epoch    the examples in a random order that is computed and not stored (permutation.py)
    pool     a random sample of the examples, of the same size in every pool; each example is in one pool of an epoch
    step     one of the batches of a pool: sorted by length and cut into rectangles, or cut where a stream is full

Up to SHUFFLED examples are shuffled one by one: a pool is consecutive positions of their order. To read single examples
of a larger corpus would touch every part for every pool. So its pools consist of blocks of consecutive examples:

    corpus   |. . . . . . . .|. . . . . . . .|  ...  |. . . . . . . .|    BLOCKS ranges with a block for each pool
    pool 0         x           x                                x         one block of every range
    pool 1     x                         x             x

In each range the pools take the blocks in the same random order, but begin at a random place of it. What lies far apart
in the corpus, such as different sources, has the same share in all pools.

Every pool is cut into the same number of batches, so the pool of a step follows from its number by division. A run that
is resumed at any step plans one pool: from the lengths of all its examples. Then a rank reads the tokens of its own
share, each part from its beginning to its end, and makes the batches from memory, while a thread reads the next pool.
The number of batches is the largest of a few pools and 1 % more. Where a pool would need fewer, its largest batches are
halved; where it would need more, which is rare, its batches may exceed the budget by the few percent that it takes.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Protocol, cast

import numpy as np

from regard.data.arrays import Array, positions
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

SAMPLED_POOLS = 3
RESERVE = 1.01
"""Batches of a pool relative to the largest number in the sampled pools, and the growth of a budget that is short."""
SHUFFLED = 1 << 24
"""The largest corpus, in examples, that is shuffled one by one."""
BLOCKS = 512
"""Blocks of a pool of a larger corpus."""


class Loadable(Examples, Protocol):
    """Examples in files."""

    def select(self, rows: Array) -> "Loadable":
        """Some of the examples; their lengths are read."""

    def load(self, rows: Array) -> Examples:
        """The same examples, with the tokens of some of them in memory."""


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
        most = max(len(self._cut(self._pool(first, 0, pool), 1.0)) for pool in sorted(sampled))
        self._per_pool = min(int(most * RESERVE) + 1, max(1, self._count // self._pools))
        self._reader = ThreadPoolExecutor(1, "pools")
        self._planned = self._ahead = Future[tuple[Examples, list[Array]]]()
        self._number = -2  # the pool that is planned: none, so none is ahead of it

    def epoch(self, step: int) -> int:
        return step // self.steps_in_epoch(0)

    def steps_in_epoch(self, epoch: int) -> int:
        return self._pools * self._per_pool

    def examples_of(self, step: int) -> tuple[int, Examples, Array]:
        """Epoch of a step, the examples of its pool, and the indices in this pool of those in the step."""
        number, batch = divmod(step, self._per_pool)  # pools are counted over all epochs
        if number != self._number:
            self._planned = self._ahead if number == self._number + 1 else self._reader.submit(self._read, number)
            self._number, self._ahead = number, self._reader.submit(self._read, number + 1)
        examples, batches = self._planned.result()
        return number // self._pools, examples, batches[batch]

    def _read(self, number: int) -> tuple[Examples, list[Array]]:
        """A pool with the tokens of this rank's share in memory, and its batches."""
        epoch, pool = divmod(number, self._pools)
        examples = self._pool(self._epochs.at_epoch(epoch), epoch, pool)
        batches = self._plan_pool(examples, epoch, pool)
        shares = [self._shard(indices, shard) for indices in batches for shard in self._share.shards]
        return examples.load(np.concatenate(shares)), batches

    def _pool(self, examples: Examples, epoch: int, pool: int) -> Loadable:
        """The examples of a pool."""
        if self._count <= SHUFFLED:
            first, last = (number * self._count // self._pools for number in (pool, pool + 1))
            rows = permute(np.arange(first, last), self._count, self._seed, epoch)
        else:
            places = (pool + rng(self._seed, epoch).integers(self._pools, size=BLOCKS)) % self._pools
            blocks = np.arange(BLOCKS) * self._pools + permute(places, self._pools, self._seed, epoch)
            size, larger = divmod(self._count, BLOCKS * self._pools)  # the first `larger` blocks have one example more
            starts, stops = (number * size + np.minimum(number, larger) for number in (blocks, blocks + 1))
            rows = rng(self._seed, epoch, pool, 1).permutation(positions(starts, stops - starts))
        return cast(Loadable, examples).select(rows)

    def _plan_pool(self, examples: Examples, epoch: int, pool: int) -> list[Array]:
        """The batches of a pool, in random order."""
        scale = 1.0
        while len(batches := self._cut(examples, scale)) > self._per_pool:
            scale *= RESERVE
        while len(batches) < self._per_pool:
            largest = max(range(len(batches)), key=lambda number: len(batches[number]))
            half = len(batches[largest]) // 2
            batches[largest : largest + 1] = [batches[largest][:half], batches[largest][half:]]
        return [batches[number] for number in rng(self._seed, epoch, pool).permutation(len(batches))]

    def _cut(self, examples: Examples, scale: float) -> list[Array]:
        """Cut the examples of a pool into batches, with the budget multiplied by `scale`."""
        most = int(self._budget.examples * scale)
        if self.capacities is not None:
            sizes = [int(size * scale) for size in self.capacities]
            points = cut_points(examples.lengths, sizes, most)
            return [np.arange(start, stop) for start, stop in pairwise(points)]
        budget = Budget(int(self._budget.tokens * scale), most)
        widths = examples.widths
        return cut_rectangles(by_length(widths), reduce(np.maximum, widths), budget, examples.sequences)
