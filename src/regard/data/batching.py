"""Which examples go together, in which order, and to whom: a function of (seed, step) alone.

The global batch of a step does not depend on the number of ranks, and a rank takes its share of it. So a run that is
resumed, or goes on with other hardware, sees the same examples in the same steps.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from regard.data.arrays import Array, Rows
from regard.data.collate import Batch, collate_rows
from regard.data.packing import Packing
from regard.data.steps import Step
from regard.errors import UserError
from regard.random import rng

POOL_BATCHES, POOL_EXAMPLES = 100, 50_000


class Examples(Protocol):
    """Examples by number, as a store offers them: how long they are is all that their batches are planned from."""

    @property
    def src_lengths(self) -> Array: ...
    @property
    def tgt_lengths(self) -> Array: ...
    def __len__(self) -> int: ...


class Pairs(Examples, Protocol):
    """Examples of two sides."""

    def sources(self, indices: Array) -> Rows: ...
    def targets(self, indices: Array) -> Rows: ...


class Epochs(Protocol):
    """Examples that may look different in every epoch (BPE-dropout) but are always the same."""

    def at_epoch(self, epoch: int) -> Examples: ...


class FormOf(Protocol):
    """What becomes a form once it knows the lengths and how many parts share a step."""

    def of(self, src_lengths: Array, tgt_lengths: Array, batch_tokens: int, parts: int) -> Any: ...


@dataclass(frozen=True)
class Padding:
    """Rectangles of sentences of like length, at most `batch_tokens` on the longer side with all that pads it."""

    batch_tokens: int

    @classmethod
    def of(cls, src_lengths: Array, tgt_lengths: Array, batch_tokens: int, parts: int = 1) -> "Padding":
        return cls(batch_tokens)

    def plan(self, src_lengths: Array, tgt_lengths: Array, seed: int, epoch: int) -> list[Array]:
        return plan_epoch(src_lengths, tgt_lengths, self.batch_tokens, seed, epoch)

    def collate(self, sources: Rows, targets: Rows) -> Batch:
        return collate_rows(sources, targets)


def plan_epoch(src_lengths: Array, tgt_lengths: Array, batch_tokens: int, seed: int, epoch: int) -> list[Array]:
    """The batches of an epoch, as arrays of example numbers; every example is in one of them.

    Examples are shuffled, cut into pools, sorted by length inside a pool, cut into batches, and the batches shuffled:
    neighbours in length share a batch, so little is padding, and yet no two epochs have the same batches. A batch of
    n examples has n times the longest side at most `batch_tokens`; an example longer than that is alone.
    """
    generator = rng(seed, epoch)
    order = generator.permutation(len(src_lengths))
    longest = np.maximum(src_lengths, tgt_lengths)
    pool = max(POOL_EXAMPLES, int(POOL_BATCHES * batch_tokens / max(float(longest.mean()), 1.0)))
    pools = max(1, round(len(order) / pool))
    batches = [
        batch
        for part in np.array_split(order, pools)
        for batch in _cut(part[_by_length(src_lengths[part], tgt_lengths[part])], longest, batch_tokens)
    ]
    return [batches[place] for place in generator.permutation(len(batches))]


def plan_evaluation(src_lengths: Array, tgt_lengths: Array, batch_tokens: int) -> list[Array]:
    """The batches of an evaluation set, longest first, every example in one of them; nothing is random."""
    order = _by_length(src_lengths, tgt_lengths)
    return list(_cut(order, np.maximum(src_lengths, tgt_lengths), batch_tokens))


def _by_length(src: Array, tgt: Array) -> Array:
    """Sort by the longer side, descending, and by the difference of the sides where the longer ones are equal.

    The difference goes up under even lengths and down under odd ones, so that it never jumps: neighbours are alike on
    both sides.
    """
    longest = np.maximum(src, tgt).astype(np.int64)
    difference = src.astype(np.int64) - tgt
    return np.lexsort((np.where(longest % 2 == 0, difference, -difference), -longest))


def _cut(order: Array, longest: Array, batch_tokens: int) -> list[Array]:
    """Fill batches in an order of descending length: the first example says how many fit."""
    batches, start = [], 0
    while start < len(order):
        fit = max(1, batch_tokens // max(1, int(longest[order[start]])))
        batches.append(order[start : start + fit])
        start += fit
    return batches


class Batches:
    """An endless stream of batches, addressed by step."""

    def __init__(
        self,
        epochs: Epochs,
        batch_tokens: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        accumulation: int = 1,
        form: "type[Padding] | type[Packing] | FormOf" = Padding,
    ) -> None:
        """`batch_tokens` bounds a global batch, which is split into `world_size * accumulation` parts."""
        if batch_tokens < 1:
            raise UserError(f"a batch of {batch_tokens} tokens holds nothing", "write a positive number")
        self._epochs, self._seed = epochs, seed
        self._wanted: Any = form
        self._parts = world_size * accumulation
        self._mine = range(rank * accumulation, (rank + 1) * accumulation)
        self._starts = [0]
        first = epochs.at_epoch(0)
        self._form: Any = form.of(*self.sizes(first), batch_tokens, self._parts)
        self._current = self._plan(0, first)

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch = self.epoch(step)
        _, examples, plan = self._current
        indices = plan[step - self._starts[epoch]]
        micro = [self._part(examples, indices, part) for part in self._mine]
        return Step(micro, *self.measure(examples, indices), epoch)

    def epoch(self, step: int) -> int:
        """The epoch a step belongs to.

        How many steps an epoch has is known from its plan alone: a run resumed in a later epoch plans the earlier
        ones again, once.
        """
        while step >= self._starts[-1]:
            self._prepare(len(self._starts) - 1)
        epoch = bisect_right(self._starts, step) - 1
        if self._current[0] != epoch:
            self._prepare(epoch)
        return epoch

    def steps_in_epoch(self, epoch: int) -> int:
        """The number of global batches in an epoch."""
        while epoch >= len(self._starts) - 1:
            self._prepare(len(self._starts) - 1)
        return self._starts[epoch + 1] - self._starts[epoch]

    def _prepare(self, epoch: int) -> tuple[int, Examples, list[Array]]:
        return self._plan(epoch, self._epochs.at_epoch(epoch))

    def _plan(self, epoch: int, examples: Examples) -> tuple[int, Examples, list[Array]]:
        plan = self._form.plan(*self.sizes(examples), self._seed, epoch)
        if epoch == len(self._starts) - 1:
            self._starts.append(self._starts[-1] + len(plan))
        self._current = (epoch, examples, plan)
        return self._current

    def _part(self, examples: Examples, indices: Array, part: int) -> Any:
        """Every so-many-th example of the batch; where there are fewer than parts, one that asks for nothing."""
        share = indices[part :: self._parts]
        if len(share) == 0:
            return self.collate(examples, indices[:1]).silenced()
        return self.collate(examples, share)

    def sizes(self, examples: Examples) -> tuple[Array, Array]:
        """What batches are planned from."""
        return examples.src_lengths, examples.tgt_lengths

    def measure(self, examples: Examples, indices: Array) -> tuple[int, int]:
        """How much is asked in a step, and how many tokens it has."""
        count = int(examples.tgt_lengths[indices].sum())
        return count, count + int(examples.src_lengths[indices].sum())

    def collate(self, examples: Any, indices: Array) -> Any:
        """One part's pairs as the form has them."""
        return self._form.collate(examples.sources(indices), examples.targets(indices))
