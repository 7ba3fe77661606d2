"""A text read in columns: every token is asked for once an epoch, after all that stands before it in its column."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.arrays import Array
from regard.data.columns import Columns, Stretch, in_columns, in_windows
from regard.errors import UserError
from regard.text import EOS, PAD


def ring(tokens: int) -> Array:
    """Token numbers that are all different, the last one the end of a line."""
    return np.append(np.arange(10, 10 + tokens - 1), EOS).astype(np.uint16)


def before(ids: Array, token: int) -> int:
    """What stands before a token of the ring."""
    return int(ids[list(ids).index(token) - 1])


def said(stretches: list[Stretch]) -> list[int]:
    return [int(token) for stretch in stretches for token in stretch.labels.flatten() if token != PAD]


@given(st.integers(2, 300), st.integers(1, 40), st.integers(1, 9), st.integers(0, 3))
@settings(deadline=None, max_examples=70, derandomize=True, database=None)
def test_every_token_is_asked_for_once_an_epoch(tokens: int, columns: int, bptt: int, epoch: int) -> None:
    ids = ring(tokens)
    reader = Columns(ids, columns * bptt, bptt, seed=3)
    steps = [reader.batch(epoch * reader.steps_in_epoch + number) for number in range(reader.steps_in_epoch)]
    stretches = [step.micro[0] for step in steps]
    assert sorted(said(stretches)) == sorted(ids.tolist())
    assert [step.count for step in steps] == [stretch.tokens for stretch in stretches]
    assert {step.epoch for step in steps} == {epoch}
    assert max(stretch.ids.size(1) for stretch in stretches) <= bptt
    assert len({stretch.ids.size(1) for stretch in stretches}) <= 2
    for stretch in stretches:
        for read, label in zip(stretch.ids.flatten().tolist(), stretch.labels.flatten().tolist(), strict=True):
            assert label == PAD or read == before(ids, label)


def test_a_stretch_goes_on_where_the_one_before_stopped() -> None:
    reader = Columns(ring(103), 5 * 4, 4, seed=1)
    stretches = [reader.batch(number).micro[0] for number in range(reader.steps_in_epoch)]
    for earlier, later in pairwise(stretches):
        assert torch.equal(earlier.labels[:, -1], later.ids[:, 0])
    assert [bool(stretch.fresh) for stretch in stretches] == [True] + [False] * (len(stretches) - 1)
    assert bool(reader.batch(reader.steps_in_epoch).micro[0].fresh)


def test_epochs_differ_and_are_a_function_of_the_seed() -> None:
    first, again, other = (Columns(ring(400), 40, 4, seed=seed) for seed in (1, 1, 2))
    epochs = [first.batch(epoch * first.steps_in_epoch).micro[0].labels for epoch in range(3)]
    assert not torch.equal(epochs[0], epochs[1]) and not torch.equal(epochs[1], epochs[2])
    assert torch.equal(epochs[2], again.batch(2 * again.steps_in_epoch).micro[0].labels)
    assert not torch.equal(epochs[0], other.batch(0).micro[0].labels)


@pytest.mark.parametrize(("world", "accumulation"), [(1, 3), (3, 1), (2, 2)])
def test_parts_together_are_the_whole_step_and_keep_their_columns(world: int, accumulation: int) -> None:
    ids = ring(211)
    whole = Columns(ids, 7 * 5, 5, seed=4)
    ranks = [Columns(ids, 7 * 5, 5, 4, rank, world, accumulation) for rank in range(world)]
    for number in (0, 3, whole.steps_in_epoch + 1):
        steps = [rank.batch(number) for rank in ranks]
        parts = [stretch for step in steps for stretch in step.micro]
        assert [stretch.part for stretch in parts] == list(range(world * accumulation))
        assert torch.equal(torch.cat([stretch.ids for stretch in parts]), whole.batch(number).micro[0].ids)
        assert torch.equal(torch.cat([stretch.labels for stretch in parts]), whole.batch(number).micro[0].labels)
        assert {step.count for step in steps} == {whole.batch(number).count}


def test_a_text_too_short_for_its_parts_is_refused() -> None:
    assert Columns(ring(6), 1000, 10, seed=1).batch(0).micro[0].ids.shape == (1, 6)
    with pytest.raises(UserError, match="1 columns for 2 processes"):
        Columns(ring(15), 1000, 10, seed=1, world_size=2)
    with pytest.raises(UserError, match=r"training\.batch_tokens = 8"):
        Columns(ring(500), 8, 10, seed=1)


@given(st.integers(2, 200), st.integers(1, 40), st.integers(1, 5))
@settings(deadline=None, max_examples=70, derandomize=True, database=None)
def test_scoring_asks_for_every_token_once(tokens: int, length: int, rows: int) -> None:
    ids = ring(tokens)
    columns = min(rows, tokens)
    assert sorted(said(list(in_columns(ids, columns, length)))) == sorted(ids.tolist())
    windows = list(in_windows(ids, length, rows))
    assert sorted(said(windows)) == sorted(ids.tolist())
    for window in windows:
        assert len(window.ids) <= rows
        for read, labels in zip(window.ids, window.labels, strict=True):
            first = int((labels != PAD).nonzero()[0])
            assert first >= min(length, tokens) // 2 or int(read[0]) == EOS, "half a window before, or the beginning"
            assert torch.equal(read[1:][labels[:-1] != PAD], labels[:-1][labels[:-1] != PAD])


def test_one_column_is_the_text_from_its_beginning() -> None:
    stretches = list(in_columns(ring(50), 1, 8))
    assert said(stretches) == ring(50).tolist()
    assert int(stretches[0].ids[0, 0]) == EOS
