"""Plans hold every example once and keep the budget; ranks share a global batch that depends on (seed, step) alone."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import planning
from regard.data.arrays import Array, Rows
from regard.data.batch import Share, Step
from regard.data.pairs import PairExamples
from regard.data.planning import (
    Batches,
    Budget,
    capacities,
    groups_by_length,
    plan_packed,
    plan_padded,
)
from regard.errors import UserError
from regard.text.symbols import BOS, EOS, PAD

PROPERTY = settings(max_examples=60)
lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=200)


class IndexedPairs(PairExamples):
    """Pairs whose tokens are their index: pair i is [3 + i, ..., EOS] on both sides."""

    def __init__(self, src_lengths: Array, tgt_lengths: Array) -> None:
        self.src_lengths, self.tgt_lengths = src_lengths, tgt_lengths
        self.epochs: list[int] = []

    def at_epoch(self, epoch: int) -> "IndexedPairs":
        self.epochs.append(epoch)
        return self

    def _rows(self, indices: Array, row_lengths: Array) -> Rows:
        rows = [[3 + index] * (length - 1) + [EOS] for index, length in zip(indices, row_lengths, strict=True)]
        return np.concatenate(rows).astype(np.int64), row_lengths

    def sources(self, indices: Array) -> Rows:
        return self._rows(indices, self.src_lengths[indices])

    def targets(self, indices: Array) -> Rows:
        return self._rows(indices, self.tgt_lengths[indices])


def captions(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Lengths like those of image captions: short, and similar on both sides."""
    rng = np.random.default_rng(seed)
    src = np.clip(rng.lognormal(2.65, 0.3, count), 6, 45).astype(np.int64)
    return src, np.clip(src + rng.normal(0, 2.2, count).round(), 5, 45).astype(np.int64)


def columns(pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
    return np.array([src for src, _ in pairs]), np.array([tgt for _, tgt in pairs])


@given(pairs=lengths, batch_tokens=st.integers(1, 400), seed=st.integers(0, 3), epoch=st.integers(0, 3))
@PROPERTY
def test_padded_plans_hold_every_example_once_and_keep_the_budget(
    pairs: list[tuple[int, int]], batch_tokens: int, seed: int, epoch: int
) -> None:
    src, tgt = columns(pairs)
    plan = plan_padded((src, tgt), Budget(batch_tokens), seed, epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(pairs)))
    for batch in plan:
        longest = max(src[batch].max(), tgt[batch].max())
        assert len(batch) * longest <= batch_tokens or len(batch) == 1


@given(pairs=lengths, batch_tokens=st.integers(60, 400), seed=st.integers(0, 5))
@PROPERTY
def test_packed_plans_hold_every_example_once_and_are_full(
    pairs: list[tuple[int, int]], batch_tokens: int, seed: int
) -> None:
    sides = columns(pairs)
    bounds = capacities(sides, Budget(batch_tokens))
    plan = plan_packed(sides, bounds, seed, epoch=0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(pairs)))
    for batch, following in zip(plan, [*plan[1:], None], strict=True):
        assert all(side[batch].sum() <= bound for side, bound in zip(sides, bounds, strict=True))
        if following is not None:  # the next pair would not have fitted
            both = np.append(batch, following[0])
            assert any(side[both].sum() > bound for side, bound in zip(sides, bounds, strict=True))
    assert max(bounds) <= batch_tokens


@given(st.integers(1, 9), st.integers(1, 60), st.integers(0, 3), st.booleans())
@PROPERTY
def test_a_budget_of_examples_is_kept_too(examples: int, tokens: int, epoch: int, packed: bool) -> None:
    lengths, budget = np.random.default_rng(1).integers(1, 12, 40), Budget(tokens, examples)
    if packed:
        plan = plan_packed([lengths], capacities([lengths], budget), 7, epoch, examples)
    else:
        plan = plan_padded([lengths], budget, 7, epoch, np.ones(40, np.int64))
    assert sorted(np.concatenate(plan).tolist()) == list(range(40))
    for batch in plan:
        assert len(batch) <= examples
        size = lengths[batch].sum() if packed else lengths[batch].max() * len(batch)
        assert size <= max(tokens, lengths.max())


@PROPERTY
@given(st.lists(st.integers(0, 60)), st.integers(1, 100))
def test_groups_hold_everything_once_within_the_budget(lengths: list[int], budget: int) -> None:
    groups = groups_by_length(lengths, budget)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[index] for index in group) <= budget


@PROPERTY
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20))), st.integers(1, 200))
def test_groups_of_several_rows_each_stay_within_the_budget(sizes: list[tuple[int, int]], budget: int) -> None:
    lengths, rows = [length for length, _ in sizes], [count for _, count in sizes]
    groups = groups_by_length(lengths, budget, rows)
    assert sorted(index for group in groups for index in group) == list(range(len(sizes)))
    for group in groups:
        space = sum(rows[index] for index in group) * max(lengths[index] for index in group)
        assert len(group) == 1 or space <= budget


def test_a_plan_is_a_function_of_seed_and_epoch() -> None:
    sides, budget = captions(500), Budget(256)
    plans = {(s, e): [b.tolist() for b in plan_padded(sides, budget, s, e)] for s in range(2) for e in range(2)}
    assert plans[0, 0] == [b.tolist() for b in plan_padded(sides, budget, 0, 0)]
    assert len({str(plan) for plan in plans.values()}) == 4


def test_padded_plans_have_little_padding() -> None:
    src, tgt = captions(29_000)
    plan = plan_padded((src, tgt), Budget(4096), 1, 0)
    padded = sum(len(batch) * (src[batch].max() + tgt[batch].max()) for batch in plan)
    assert (src.sum() + tgt.sum()) / padded >= 0.95


def test_batches_are_not_in_order_of_length() -> None:
    src, tgt = captions(5_000)
    longest = [src[batch].max() for batch in plan_padded((src, tgt), Budget(512), 1, 0)]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_large_corpora_are_sorted_in_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "POOL_EXAMPLES", 100)
    monkeypatch.setattr(planning, "POOL_BATCHES", 1)
    sides = captions(1_000)
    plan = plan_padded(sides, Budget(200), 1, 0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(1_000))
    again = plan_padded(sides, Budget(200), 1, 1)
    assert {frozenset(batch.tolist()) for batch in plan}.isdisjoint(
        frozenset(batch.tolist()) for batch in again if len(batch) > 3
    )


def labelled_rows(step: Step) -> list[tuple[int, ...]]:
    """Rows of a step that have labels, as (first token, tokens of source and of target)."""
    rows: list[tuple[int, ...]] = []
    for batch in step.micro_batches:
        for src, labels in zip(batch["source"].tolist(), batch.labels.tolist(), strict=True):
            if any(labels):
                rows.append((src[0], len(src) - src.count(PAD), len(labels) - labels.count(PAD)))
    return rows


@given(pairs=lengths, world_size=st.integers(1, 4), accumulation=st.integers(1, 3), step=st.integers(0, 12))
@PROPERTY
def test_shards_make_up_the_global_batch(
    pairs: list[tuple[int, int]], world_size: int, accumulation: int, step: int
) -> None:
    examples = IndexedPairs(*columns(pairs))
    whole = Batches(examples, Budget(128), seed=3).batch(step)
    shares = [Share(rank, world_size, accumulation) for rank in range(world_size)]
    steps = [Batches(examples, Budget(128), 3, share).batch(step) for share in shares]
    assert sorted(row for share in steps for row in labelled_rows(share)) == sorted(labelled_rows(whole))
    for share in steps:
        assert len(share.micro_batches) == accumulation
        assert (share.count, share.tokens, share.epoch) == (whole.count, whole.tokens, whole.epoch)
    batches = [batch for share in steps for batch in share.micro_batches]
    assert sum(int((batch.labels != PAD).sum()) for batch in batches) == whole.count
    assert sum(batch.tokens for batch in batches) == whole.tokens


def test_ranks_and_accumulation_are_interchangeable() -> None:
    examples, budget = IndexedPairs(*captions(300)), Budget(512)
    accumulated = Batches(examples, budget, 1, Share(accumulation=4)).batch(5).micro_batches
    ranks = [Batches(examples, budget, 1, Share(rank, 4)).batch(5).micro_batches[0] for rank in range(4)]
    assert all(torch.equal(one["source"], other["source"]) for one, other in zip(accumulated, ranks, strict=True))


def test_a_rank_without_examples_gets_a_batch_without_labels() -> None:
    examples = IndexedPairs(np.array([5]), np.array([4]))
    step = Batches(examples, Budget(8), 1, Share(1, 2)).batch(0)
    (batch,) = step.micro_batches
    assert batch.labels.tolist() == [[PAD] * 4]
    assert batch["source"].shape == (1, 5)
    assert (batch.tokens, step.count, step.tokens) == (0, 4, 9)


def test_resuming_anywhere_gives_the_same_steps() -> None:
    examples, budget = IndexedPairs(*captions(200)), Budget(256)
    straight = Batches(examples, budget, 9)
    steps = [straight.batch(step) for step in range(60)]
    assert steps[-1].epoch >= 3
    for start in (59, 0, 31, 17):
        resumed = Batches(examples, budget, 9).batch(start)
        assert torch.equal(resumed.micro_batches[0]["source"], steps[start].micro_batches[0]["source"])
        assert resumed.epoch == steps[start].epoch
    again = straight.batch(2).micro_batches[0]
    assert torch.equal(again["source"], steps[2].micro_batches[0]["source"]), "an earlier epoch"


def test_epochs_follow_each_other_without_a_gap() -> None:
    batches = Batches(IndexedPairs(*captions(200)), Budget(256), 9)
    counts = [batches.steps_in_epoch(epoch) for epoch in range(3)]
    seen = [row[0] for step in range(sum(counts[:2])) for row in labelled_rows(batches.batch(step))]
    assert sorted(seen) == sorted(list(range(3, 203)) * 2)
    assert [batches.epoch(step) for step in (0, counts[0] - 1, counts[0], sum(counts))] == [0, 0, 1, 3]


def test_an_epoch_is_planned_once() -> None:
    examples = IndexedPairs(*captions(200))
    batches = Batches(examples, Budget(256), 9)
    for step in range(batches.steps_in_epoch(0)):
        batches.batch(step)
    assert examples.epochs == [0]


def test_an_empty_budget_is_refused() -> None:
    with pytest.raises(UserError) as error:
        Batches(IndexedPairs(*captions(5)), Budget(0), 1)
    assert (error.value.code, error.value.where) == ("invalid-setting", "training.batch_tokens")


def test_targets_are_shifted() -> None:
    pairs = IndexedPairs(np.array([3, 2]), np.array([2, 4]))
    (batch,) = Batches(pairs, Budget(100), 1).batch(0).micro_batches
    for src, tgt, labels in zip(batch["source"].tolist(), batch["target"].tolist(), batch.labels.tolist(), strict=True):
        expected = {
            3: ([BOS, 3, PAD, PAD], [3, EOS, PAD, PAD]),
            4: ([BOS, 4, 4, 4], [4, 4, 4, EOS]),
        }
        assert (tgt, labels) == expected[src[0]]


def test_packed_batches_of_an_epoch_have_one_shape_and_ranks_share_them() -> None:
    rng = np.random.default_rng(0)
    examples = IndexedPairs(rng.integers(2, 30, 900), rng.integers(2, 30, 900))
    whole = Batches(examples, Budget(1000), 1, packed=True)
    batches: list[Any] = [whole.batch(number).micro_batches[0] for number in range(whole.steps_in_epoch(0))]
    assert len({tuple(tensor.shape for tensor in batch.tensors.values()) for batch in batches}) == 1
    ranks = [Batches(examples, Budget(1000), 1, Share(rank, 2), packed=True).batch(3) for rank in range(2)]
    step = whole.batch(3)
    assert sum(rank.micro_batches[0].tokens for rank in ranks) == step.tokens == step.micro_batches[0].tokens
    assert all(rank.count == step.count for rank in ranks)
