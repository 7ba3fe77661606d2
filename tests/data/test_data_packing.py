"""Streams of one size: every sentence in them once, cut where a side is full, and taken apart again."""

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.layouts import Packed, Padded
from regard.data.batching import Batches
from regard.data.collate import collate_rows
from regard.data.packing import Packing
from regard.text.symbols import BOS, EOS, PAD

lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)


def rows(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = np.arange(len(counts)).repeat(counts) + 10
    values[np.cumsum(counts) - 1] = EOS
    return values, counts


class Numbered:
    """Sentences whose words are their numbers."""

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.src_lengths, self.tgt_lengths = np.array(pairs).T

    def __len__(self) -> int:
        return len(self.src_lengths)

    def at_epoch(self, epoch: int) -> "Numbered":
        return self

    def sources(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows(self.src_lengths[indices])

    def targets(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows(self.tgt_lengths[indices])


@given(pairs=lengths, room=st.integers(9, 60), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=60, derandomize=True, database=None)
def test_a_plan_holds_every_pair_once_and_overflows_nowhere(pairs: list[tuple[int, int]], room: int, seed: int) -> None:
    src, tgt = np.array(pairs).T
    packing = Packing.of(src, tgt, room)
    plan = packing.plan(src, tgt, seed, epoch=0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(pairs)))
    for batch, following in zip(plan, [*plan[1:], None], strict=True):
        assert src[batch].sum() <= packing.src_room and tgt[batch].sum() <= packing.tgt_room
        if following is not None:  # full: the next pair would not have fitted
            both = np.append(batch, following[0])
            assert src[both].sum() > packing.src_room or tgt[both].sum() > packing.tgt_room
    assert max(packing.src_room, packing.tgt_room) <= max(room, 9)


@given(pairs=lengths)
@settings(deadline=None, max_examples=60, derandomize=True, database=None)
def test_a_stream_is_the_rectangle_without_its_padding(pairs: list[tuple[int, int]]) -> None:
    sources, targets = (rows(np.array(side)) for side in zip(*pairs, strict=True))
    packed, padded = Packing(400, 400).collate(sources, targets), collate_rows(sources, targets)
    real = {"src": len(sources[0]), "tgt": len(targets[0])}
    for side, ids, other, counts in (
        ("src", packed.src, padded.src, padded.src_lengths),
        ("tgt", packed.tgt_in, padded.tgt_in, padded.tgt_lengths),
        ("tgt", packed.labels, padded.labels, padded.tgt_lengths),
    ):
        expected = Packed.of(other, counts)
        assert isinstance(expected.layout, Packed)
        assert torch.equal(ids[: real[side]], expected.ids) and set(ids[real[side] :].tolist()) <= {PAD}
        layout = (packed.source if side == "src" else packed.target).layout
        assert isinstance(layout, Packed)
        assert torch.equal(layout.rows[: real[side]], expected.layout.rows)
        assert torch.equal(layout.positions[: real[side]], expected.layout.positions)
        assert torch.equal(layout.offsets[: len(pairs) + 1], expected.layout.offsets)
    assert packed.tokens == padded.tokens == real["src"] + real["tgt"]
    assert (packed.tgt_in == BOS).sum() == len(pairs)


def test_batches_of_an_epoch_have_one_shape_and_parts_share_them() -> None:
    rng = np.random.default_rng(0)
    examples = Numbered(list(zip(rng.integers(2, 30, 900), rng.integers(2, 30, 900), strict=True)))
    whole = Batches(examples, 1000, 1, form=Packing)
    batches: list[Any] = [whole.batch(number).micro[0] for number in range(whole.steps_in_epoch(0))]
    shapes = {tuple(tensor.shape for tensor in batch.tensors().values()) for batch in batches}
    assert len(shapes) == 1
    parts = [Batches(examples, 1000, 1, rank, 2, form=Packing).batch(3) for rank in range(2)]
    step = whole.batch(3)
    assert sum(part.micro[0].tokens for part in parts) == step.tokens == step.micro[0].tokens
    assert all(part.count == step.count for part in parts)


def test_taken_twice_each_half_sees_itself_alone() -> None:
    batch = Packing(20, 20).collate(rows(np.array([3, 2])), rows(np.array([2, 4])))
    both = batch.twice().source.layout
    assert isinstance(both, Packed)
    pattern, size = both.pattern(both), len(batch.src)
    once = batch.source.layout.pattern(batch.source.layout)
    for half in range(2):
        here = slice(half * size, half * size + 5)
        assert torch.equal(pattern.lo[here], once.lo[:5] + half * size)  # type: ignore[attr-defined]
        assert torch.equal(pattern.hi[here], once.hi[:5] + half * size)  # type: ignore[attr-defined]


def test_a_silenced_stream_asks_for_nothing() -> None:
    silent = Packing(20, 20).collate(rows(np.array([3])), rows(np.array([2]))).silenced()
    assert set(silent.labels.tolist()) == {PAD} and silent.tokens == 0
    assert isinstance(silent.source.layout, Packed) and not isinstance(silent.source.layout, Padded)
