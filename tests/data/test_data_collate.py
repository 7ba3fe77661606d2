"""Padding, shifting and moving batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.collate import collate, collate_sources
from regard.text.symbols import BOS, EOS, PAD

rows = st.lists(st.integers(3, 9), max_size=6)


@given(pairs=st.lists(st.tuples(rows, rows), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60, derandomize=True, database=None)
def test_collate_is_padding_row_by_row(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collate([(np.array([*x, EOS], np.uint16), np.array([*y, EOS], np.uint16)) for x, y in pairs])
    S, T = (max(len(pair[side]) for pair in pairs) + 1 for side in range(2))
    for index, (x, y) in enumerate(pairs):
        assert batch.src[index].tolist() == [*x, EOS] + [PAD] * (S - len(x) - 1)
        assert batch.tgt_in[index].tolist() == [BOS, *y] + [PAD] * (T - len(y) - 1)
        assert batch.labels[index].tolist() == [*y, EOS] + [PAD] * (T - len(y) - 1)
    assert batch.src_lengths.tolist() == [len(x) + 1 for x, _ in pairs]
    assert batch.tgt_lengths.tolist() == [len(y) + 1 for _, y in pairs]
    assert batch.tokens == sum(len(x) + len(y) + 2 for x, y in pairs)
    assert len(batch) == len(pairs)
    assert {tensor.dtype for tensor in (batch.src, batch.tgt_in, batch.labels, batch.src_lengths)} == {torch.int64}


def test_sources_alone() -> None:
    src, lengths = collate_sources([[5, 6, EOS], [EOS], np.array([7, EOS], np.uint16)])
    assert src.tolist() == [[5, 6, EOS], [EOS, PAD, PAD], [7, EOS, PAD]]
    assert lengths.tolist() == [3, 1, 2]


def test_a_batch_moves_whole() -> None:
    batch = collate([(np.array([4, EOS]), np.array([5, 6, EOS]))])
    moved = batch.to("meta")
    assert {moved.src.device.type, moved.labels.device.type, moved.tgt_lengths.device.type} == {"meta"}
    assert moved.tokens == batch.tokens
    assert batch.to(torch.device("cpu")).labels.tolist() == [[5, 6, EOS]]


def test_a_silenced_batch_keeps_its_shape() -> None:
    silent = collate([(np.array([4, EOS]), np.array([5, 6, EOS]))]).silenced()
    assert silent.labels.tolist() == [[PAD, PAD, PAD]]
    assert silent.tgt_in.tolist() == [[BOS, 5, 6]]
    assert silent.tokens == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_pinned_memory() -> None:
    assert collate([(np.array([4, EOS]), np.array([5, EOS]))]).pin().src.is_pinned()
