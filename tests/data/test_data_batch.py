"""Batches: padded and packed they hold the same sequences, and they move, repeat and lose their labels as a whole."""

import numpy as np
import pytest
import torch
from benchmarks.rows import collate_pairs, concatenate_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.layouts import Packed
from regard.data.arrays import Array, Rows
from regard.data.batch import Batch, pad_rows
from regard.data.pairs import pack_pairs, pad_pairs
from regard.data.planning import Capacity
from regard.text.symbols import BOS, EOS, PAD

tokens = st.lists(st.integers(3, 9), max_size=6)
lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)
PROPERTY = settings(max_examples=60)


def rows(counts: Array) -> Rows:
    """Row i consists of the token 10 + i and ends with EOS."""
    values = np.arange(len(counts)).repeat(counts) + 10
    values[np.cumsum(counts) - 1] = EOS
    return values, counts


def small_batch() -> Batch:
    return collate_pairs([(np.array([4, EOS]), np.array([5, 6, EOS]))])


@given(pairs=st.lists(st.tuples(tokens, tokens), min_size=1, max_size=8))
@PROPERTY
def test_rows_are_padded_and_targets_shifted(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collate_pairs([(np.array([*x, EOS], np.uint16), np.array([*y, EOS], np.uint16)) for x, y in pairs])
    S, T = (max(len(pair[side]) for pair in pairs) + 1 for side in range(2))
    for index, (x, y) in enumerate(pairs):
        assert batch["source"][index].tolist() == [*x, EOS] + [PAD] * (S - len(x) - 1)
        assert batch["target"][index].tolist() == [BOS, *y] + [PAD] * (T - len(y) - 1)
        assert batch.labels[index].tolist() == [*y, EOS] + [PAD] * (T - len(y) - 1)
    assert batch["source_lengths"].tolist() == [len(x) + 1 for x, _ in pairs]
    assert batch["target_lengths"].tolist() == [len(y) + 1 for _, y in pairs]
    assert batch.tokens == sum(len(x) + len(y) + 2 for x, y in pairs)
    assert {tensor.dtype for tensor in batch.tensors.values()} == {torch.int64}


def test_rows_of_any_type_are_padded() -> None:
    values, counts = concatenate_rows([[5, 6, EOS], [EOS], np.array([7, EOS], np.uint16)])
    assert pad_rows((values, counts)).tolist() == [[5, 6, EOS], [EOS, PAD, PAD], [7, EOS, PAD]]
    assert counts.tolist() == [3, 1, 2]
    assert pad_rows((np.ones(3, np.float32), np.array([1, 2])), -100).tolist() == [[1, -100], [1, 1]]


@given(pairs=lengths)
@PROPERTY
def test_a_stream_is_the_rectangle_without_its_padding(pairs: list[tuple[int, int]]) -> None:
    sources, targets = (rows(np.array(side)) for side in zip(*pairs, strict=True))
    packed, padded = pack_pairs(sources, targets, Capacity((400, 400), 100)), pad_pairs(sources, targets)
    real = {"source": len(sources[0]), "target": len(targets[0])}
    for side, ids, other in (
        ("source", packed["source"], padded["source"]),
        ("target", packed["target"], padded["target"]),
        ("target", packed.labels, padded.labels),
    ):
        expected = Packed.of(other, padded[f"{side}_lengths"])
        assert isinstance(expected.layout, Packed)
        assert torch.equal(ids[: real[side]], expected.ids) and set(ids[real[side] :].tolist()) <= {PAD}
        layout = packed.sequences(side).layout
        assert isinstance(layout, Packed)
        assert torch.equal(layout.rows[: real[side]], expected.layout.rows)
        assert torch.equal(layout.positions[: real[side]], expected.layout.positions)
        assert torch.equal(layout.offsets[: len(pairs) + 1], expected.layout.offsets)
    assert packed.tokens == padded.tokens == real["source"] + real["target"]
    assert (packed["target"] == BOS).sum() == len(pairs)


def test_a_batch_moves_as_a_whole() -> None:
    batch = small_batch()
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in moved.tensors.values()} == {"meta"}
    assert moved.tensors.keys() == batch.tensors.keys() and moved.tokens == batch.tokens
    assert batch.to(torch.device("cpu")).labels.tolist() == [[5, 6, EOS]]


def test_without_labels_the_shapes_stay() -> None:
    silent = small_batch().without_labels(labels=PAD)
    assert silent.labels.tolist() == [[PAD, PAD, PAD]]
    assert silent["target"].tolist() == [[BOS, 5, 6]]
    assert silent.tokens == 0
    packed = pack_pairs(rows(np.array([3])), rows(np.array([2])), Capacity((20, 20), 5)).without_labels(labels=PAD)
    assert set(packed.labels.tolist()) == {PAD} and packed.tokens == 0
    assert isinstance(packed.source.layout, Packed)


def test_repeated_each_half_attends_to_itself_alone() -> None:
    batch = pack_pairs(rows(np.array([3, 2])), rows(np.array([2, 4])), Capacity((20, 20), 5))
    both, once = batch.repeated().source.layout, batch.source.layout
    assert isinstance(both, Packed) and isinstance(once, Packed)
    size = len(batch["source"])
    starts, ends = both.interval(both.rows)
    expected_starts, expected_ends = once.interval(once.rows)
    for half in range(2):
        tokens = slice(half * size, half * size + 5)
        assert torch.equal(starts[tokens], expected_starts[:5] + half * size)
        assert torch.equal(ends[tokens], expected_ends[:5] + half * size)
    assert torch.equal(both.not_padding, torch.cat([once.not_padding] * 2)) and int(once.not_padding.sum()) == 5
    assert set(both.rows[~both.not_padding].tolist()) == {len(both.offsets) - 2}, "padding belongs to the last sentence"
    assert int(both.offsets[-1]) == int(both.offsets[-2]), "which has no tokens"
    padded = small_batch().repeated()
    assert padded.labels.tolist() == [[5, 6, EOS]] * 2 and padded.tokens == 2 * small_batch().tokens


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_pinned_memory() -> None:
    assert all(tensor.is_pinned() for tensor in small_batch().pin().tensors.values())
