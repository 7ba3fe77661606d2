"""Pools of a corpus that is too large to be shuffled one by one: bounded blocks, each example once, even shares."""

from typing import Any, cast

import numpy as np
import pytest

from regard.data import pools
from regard.data.arrays import Array
from regard.data.permutation import permute
from regard.data.planning import Budget
from regard.data.pools import BLOCKS, PooledBatches


class Rows:
    """Examples of one token whose rows are known; `count` may be too many for an array."""

    sequences = None

    def __init__(self, count: int, rows: Array | None = None) -> None:
        side = Ones(count) if rows is None else np.ones(count, np.int32)
        self.rows, self.lengths, self.widths = rows, (side,), (side,)

    def at_epoch(self, epoch: int) -> "Rows":
        return self

    def select(self, rows: Array) -> "Rows":
        return Rows(len(rows), rows)

    def load(self, rows: Array) -> "Rows":
        return self


class Ones:
    """As much of an array of ones as planning a pool needs."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def mean(self) -> float:
        return 1.0


def batches_of(count: int, seed: int = 1) -> PooledBatches:
    return PooledBatches(cast(Any, Rows(count)), Budget(500), seed)


def rows_of(batches: PooledBatches, step: int) -> Array:
    """The rows of the pool that a step belongs to."""
    return cast(Array, cast(Any, batches.examples_of(step)[1]).rows)


def blocks_of(rows: Array) -> Array:
    """Where the blocks of consecutive rows begin."""
    ascending = np.sort(rows)
    return ascending[np.diff(ascending, prepend=-2) > 1]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> PooledBatches:
    """20 pools with 16 blocks each."""
    for name, value in (("SHUFFLED", 0), ("BLOCKS", 16), ("POOL_EXAMPLES", 1000), ("POOL_BATCHES", 1)):
        monkeypatch.setattr(pools, name, value)
    return batches_of(20_011)


@pytest.mark.parametrize("epoch", [0, 3])
def test_every_row_is_in_one_pool(small: PooledBatches, epoch: int) -> None:
    steps = small.steps_in_epoch(0)
    found = {rows_of(small, epoch * steps + step).tobytes() for step in range(steps)}
    assert len(found) == 20
    rows = np.concatenate([np.frombuffer(data, np.int64) for data in found])
    assert np.array_equal(np.sort(rows), np.arange(20_011))


@pytest.mark.usefixtures("small")
def test_every_pool_has_a_block_from_each_range() -> None:
    batches = batches_of(16 * 20 * 64)
    for step in range(0, batches.steps_in_epoch(0), 7):
        rows = rows_of(batches, step)
        assert len(rows) == 16 * 64 and len(blocks_of(rows)) <= 16
        assert (np.bincount(rows // (20 * 64)) == 64).all()


def test_pools_differ_between_epochs_and_seeds(small: PooledBatches) -> None:
    steps = small.steps_in_epoch(0)
    others = [rows_of(small, steps), rows_of(batches_of(20_011, seed=2), 0)]
    assert all(len(np.intersect1d(rows_of(small, 0), other)) < 300 for other in others)


def test_a_pool_of_a_billion_examples_is_a_bounded_number_of_blocks() -> None:
    batches = batches_of(10**9)
    step = batches.steps_in_epoch(0) * 3 // 4
    rows = rows_of(batches, step)
    assert 50_000 <= len(rows) < 50_600 and rows.max() < 10**9
    assert BLOCKS - 5 <= len(blocks_of(rows)) <= BLOCKS  # neighbours may touch
    assert np.array_equal(rows, rows_of(batches_of(10**9), step))


def test_a_small_corpus_is_shuffled_one_by_one() -> None:
    rows = rows_of(batches_of(500_000), 0)
    assert np.array_equal(rows, permute(np.arange(50_000), 500_000, 1, 0))
