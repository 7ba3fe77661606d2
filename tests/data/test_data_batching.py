"""Plans hold every example once and keep the budget; ranks share a global batch that depends on (seed, step) alone."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import batching
from regard.data.arrays import Array, Rows
from regard.data.batching import Batches, plan_epoch, plan_evaluation
from regard.errors import UserError
from regard.text.symbols import BOS, EOS, PAD

PROPERTY = settings(deadline=None, max_examples=60, derandomize=True, database=None)
lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=200)


class Numbered:
    """Examples whose source says which they are: pair i is [3 + i, ..., EOS] on both sides."""

    def __init__(self, src_lengths: Array, tgt_lengths: Array) -> None:
        self.src_lengths, self.tgt_lengths = src_lengths, tgt_lengths
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.src_lengths)

    def at_epoch(self, epoch: int) -> "Numbered":
        self.asked.append(epoch)
        return self

    def _rows(self, indices: Array, row_lengths: Array) -> Rows:
        rows = [[3 + index] * (length - 1) + [EOS] for index, length in zip(indices, row_lengths, strict=True)]
        return np.concatenate(rows).astype(np.int64), row_lengths

    def sources(self, indices: Array) -> Rows:
        return self._rows(indices, self.src_lengths[indices])

    def targets(self, indices: Array) -> Rows:
        return self._rows(indices, self.tgt_lengths[indices])


def captions(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Lengths like those of image captions: short, and alike on both sides."""
    rng = np.random.default_rng(seed)
    src = np.clip(rng.lognormal(2.65, 0.3, count), 6, 45).astype(np.int64)
    return src, np.clip(src + rng.normal(0, 2.2, count).round(), 5, 45).astype(np.int64)


def columns(pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
    return np.array([src for src, _ in pairs]), np.array([tgt for _, tgt in pairs])


@given(pairs=lengths, batch_tokens=st.integers(1, 400), seed=st.integers(0, 3), epoch=st.integers(0, 3))
@PROPERTY
def test_every_example_once_and_the_budget_kept(
    pairs: list[tuple[int, int]], batch_tokens: int, seed: int, epoch: int
) -> None:
    src, tgt = columns(pairs)
    for plan in (plan_epoch(src, tgt, batch_tokens, seed, epoch), plan_evaluation(src, tgt, batch_tokens)):
        assert sorted(np.concatenate(plan).tolist()) == list(range(len(pairs)))
        for batch in plan:
            longest = max(src[batch].max(), tgt[batch].max())
            assert len(batch) * longest <= batch_tokens or len(batch) == 1


def test_a_plan_follows_from_seed_and_epoch() -> None:
    src, tgt = captions(500)
    plans = {(s, e): [b.tolist() for b in plan_epoch(src, tgt, 256, s, e)] for s in range(2) for e in range(2)}
    assert plans[0, 0] == [b.tolist() for b in plan_epoch(src, tgt, 256, 0, 0)]
    assert len({str(plan) for plan in plans.values()}) == 4


def test_little_is_padding() -> None:
    src, tgt = captions(29_000)
    plan = plan_epoch(src, tgt, 4096, 1, 0)
    padded = sum(len(batch) * (src[batch].max() + tgt[batch].max()) for batch in plan)
    assert (src.sum() + tgt.sum()) / padded >= 0.95


def test_batches_come_in_no_order_of_length() -> None:
    src, tgt = captions(5_000)
    longest = [src[batch].max() for batch in plan_epoch(src, tgt, 512, 1, 0)]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_large_corpora_are_sorted_in_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "POOL_EXAMPLES", 100)
    monkeypatch.setattr(batching, "POOL_BATCHES", 1)
    src, tgt = captions(1_000)
    plan = plan_epoch(src, tgt, 200, 1, 0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(1_000))
    again = plan_epoch(src, tgt, 200, 1, 1)
    assert {frozenset(batch.tolist()) for batch in plan}.isdisjoint(
        frozenset(batch.tolist()) for batch in again if len(batch) > 3
    )


def real_rows(step: Any) -> list[tuple[int, ...]]:
    """The rows of a step that ask for something, as (example, tokens of source and of target)."""
    rows: list[tuple[int, ...]] = []
    for batch in step.micro:
        for src, labels in zip(batch.src.tolist(), batch.labels.tolist(), strict=True):
            if any(labels):
                rows.append((src[0], len(src) - src.count(PAD), len(labels) - labels.count(PAD)))
    return rows


@given(pairs=lengths, world_size=st.integers(1, 4), accumulation=st.integers(1, 3), step=st.integers(0, 12))
@PROPERTY
def test_parts_make_up_the_global_batch(
    pairs: list[tuple[int, int]], world_size: int, accumulation: int, step: int
) -> None:
    examples = Numbered(*columns(pairs))
    whole = Batches(examples, 128, seed=3).batch(step)
    parts = [Batches(examples, 128, 3, rank, world_size, accumulation).batch(step) for rank in range(world_size)]
    assert sorted(row for part in parts for row in real_rows(part)) == sorted(real_rows(whole))
    for part in parts:
        assert len(part.micro) == accumulation
        assert (part.count, part.tokens, part.epoch) == (whole.count, whole.tokens, whole.epoch)
    labels = [batch.labels for part in parts for batch in part.micro]
    assert sum(int((label != PAD).sum()) for label in labels) == whole.count
    assert sum(batch.tokens for part in parts for batch in part.micro) == whole.tokens


def test_ranks_and_accumulation_are_interchangeable() -> None:
    examples = Numbered(*captions(300))
    accumulated = Batches(examples, 512, 1, accumulation=4).batch(5).micro
    spread = [Batches(examples, 512, 1, rank=rank, world_size=4).batch(5).micro[0] for rank in range(4)]
    assert all(torch.equal(one.src, other.src) for one, other in zip(accumulated, spread, strict=True))


def test_a_rank_without_a_share_asks_for_nothing() -> None:
    examples = Numbered(np.array([5]), np.array([4]))
    step = Batches(examples, 8, 1, rank=1, world_size=2).batch(0)
    (batch,) = step.micro
    assert batch.labels.tolist() == [[PAD] * 4]
    assert batch.src.shape == (1, 5)
    assert (batch.tokens, step.count, step.tokens) == (0, 4, 9)


def test_resuming_anywhere_gives_the_same_steps() -> None:
    examples = Numbered(*captions(200))
    straight = Batches(examples, 256, 9)
    steps = [straight.batch(step) for step in range(60)]
    assert steps[-1].epoch >= 3
    for start in (59, 0, 31, 17):
        resumed = Batches(examples, 256, 9).batch(start)
        assert torch.equal(resumed.micro[0].src, steps[start].micro[0].src)
        assert resumed.epoch == steps[start].epoch
    assert torch.equal(straight.batch(2).micro[0].src, steps[2].micro[0].src), "going back"


def test_epochs_follow_each_other_without_a_gap() -> None:
    examples = Numbered(*captions(200))
    batches = Batches(examples, 256, 9)
    counts = [batches.steps_in_epoch(epoch) for epoch in range(3)]
    seen = [row[0] for step in range(sum(counts[:2])) for row in real_rows(batches.batch(step))]
    assert sorted(seen) == sorted(list(range(3, 203)) * 2)
    assert [batches.epoch(step) for step in (0, counts[0] - 1, counts[0], sum(counts))] == [0, 0, 1, 3]


def test_a_plan_is_made_once_an_epoch() -> None:
    examples = Numbered(*captions(200))
    batches = Batches(examples, 256, 9)
    for step in range(batches.steps_in_epoch(0)):
        batches.batch(step)
    assert examples.asked == [0]


def test_a_batch_without_room_is_refused() -> None:
    with pytest.raises(UserError, match="holds nothing"):
        Batches(Numbered(*captions(5)), 0, 1)


def test_targets_are_shifted() -> None:
    (batch,) = Batches(Numbered(np.array([3, 2]), np.array([2, 4])), 100, 1).batch(0).micro
    for src, tgt_in, labels in zip(batch.src.tolist(), batch.tgt_in.tolist(), batch.labels.tolist(), strict=True):
        expected = {
            3: ([BOS, 3, PAD, PAD], [3, EOS, PAD, PAD]),
            4: ([BOS, 4, 4, 4], [4, 4, 4, EOS]),
        }
        assert (tgt_in, labels) == expected[src[0]]
