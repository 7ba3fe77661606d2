"""Contiguous streams of a text: every token is a label once an epoch, after all that precedes it in its stream."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.arrays import Array
from regard.data.batch import Batch, Share
from regard.data.bptt import BPTTBatches, contiguous_segments, sliding_windows
from regard.errors import UserError
from regard.text.symbols import EOS, PAD


def text(tokens: int) -> Array:
    """Token ids that are all different, the last one the end of a line."""
    return np.append(np.arange(10, 10 + tokens - 1), EOS).astype(np.uint16)


def before(ids: Array, token: int) -> int:
    """The token before a token; the last one before the first."""
    return int(ids[list(ids).index(token) - 1])


def labels_of(segments: list[Batch]) -> list[int]:
    return [int(token) for segment in segments for token in segment.labels.flatten() if token != PAD]


@given(st.integers(2, 300), st.integers(1, 40), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=70)
def test_every_token_is_a_label_once_an_epoch(tokens: int, streams: int, bptt: int, epoch: int) -> None:
    ids = text(tokens)
    reader = BPTTBatches(ids, streams * bptt, bptt, seed=3)
    steps = [reader.batch(epoch * reader.steps_in_epoch() + number) for number in range(reader.steps_in_epoch())]
    segments = [step.micro_batches[0] for step in steps]
    assert sorted(labels_of(segments)) == sorted(ids.tolist())
    assert [step.count for step in steps] == [segment.tokens for segment in segments]
    assert {step.epoch for step in steps} == {epoch}
    assert max(segment["source"].size(1) for segment in segments) <= bptt
    assert len({segment["source"].size(1) for segment in segments}) <= 2
    for segment in segments:
        for read, label in zip(segment["source"].flatten().tolist(), segment.labels.flatten().tolist(), strict=True):
            assert label == PAD or read == before(ids, label)


def test_a_segment_continues_the_one_before() -> None:
    reader = BPTTBatches(text(103), 5 * 4, 4, seed=1)
    segments = [reader.batch(number).micro_batches[0] for number in range(reader.steps_in_epoch())]
    for earlier, later in pairwise(segments):
        assert torch.equal(earlier.labels[:, -1], later["source"][:, 0])
    assert [bool(segment["reset"]) for segment in segments] == [True] + [False] * (len(segments) - 1)
    assert bool(reader.batch(reader.steps_in_epoch()).micro_batches[0]["reset"])


def test_epochs_differ_and_are_a_function_of_the_seed() -> None:
    first, again, other = (BPTTBatches(text(400), 40, 4, seed=seed) for seed in (1, 1, 2))
    epochs = [first.batch(epoch * first.steps_in_epoch()).micro_batches[0].labels for epoch in range(3)]
    assert not torch.equal(epochs[0], epochs[1]) and not torch.equal(epochs[1], epochs[2])
    assert torch.equal(epochs[2], again.batch(2 * again.steps_in_epoch()).micro_batches[0].labels)
    assert not torch.equal(epochs[0], other.batch(0).micro_batches[0].labels)


@pytest.mark.parametrize(("world", "accumulation"), [(1, 3), (3, 1), (2, 2)])
def test_shards_are_the_whole_step_and_keep_their_streams(world: int, accumulation: int) -> None:
    ids = text(211)
    whole = BPTTBatches(ids, 7 * 5, 5, seed=4)
    ranks = [BPTTBatches(ids, 7 * 5, 5, 4, Share(rank, world, accumulation)) for rank in range(world)]
    for number in (0, 3, whole.steps_in_epoch() + 1):
        steps = [rank.batch(number) for rank in ranks]
        shards = [segment for step in steps for segment in step.micro_batches]
        assert [segment.shard for segment in shards] == list(range(world * accumulation))
        assert torch.equal(
            torch.cat([segment["source"] for segment in shards]), whole.batch(number).micro_batches[0]["source"]
        )
        assert torch.equal(
            torch.cat([segment.labels for segment in shards]), whole.batch(number).micro_batches[0].labels
        )
        assert {step.count for step in steps} == {whole.batch(number).count}


def test_a_text_too_short_for_its_shards_is_refused() -> None:
    assert BPTTBatches(text(6), 1000, 10, seed=1).batch(0).micro_batches[0]["source"].shape == (1, 6)
    for tokens, batch_tokens, share in ((15, 1000, Share(world_size=2)), (500, 8, Share())):
        with pytest.raises(UserError) as error:
            BPTTBatches(text(tokens), batch_tokens, 10, 1, share)
        assert (error.value.code, error.value.where) == ("invalid-setting", "training.batch_tokens")


@given(st.integers(2, 200), st.integers(1, 40), st.integers(1, 5))
@settings(max_examples=70)
def test_scoring_has_every_token_as_label_once(tokens: int, length: int, rows: int) -> None:
    ids = text(tokens)
    streams = min(rows, tokens)
    assert sorted(labels_of(list(contiguous_segments(ids, streams, length)))) == sorted(ids.tolist())
    windows = list(sliding_windows(ids, length, rows))
    assert sorted(labels_of(windows)) == sorted(ids.tolist())
    for window in windows:
        assert len(window["source"]) <= rows
        for read, labels in zip(window["source"], window.labels, strict=True):
            first = int((labels != PAD).nonzero()[0])
            assert first >= min(length, tokens) // 2 or int(read[0]) == EOS, "half a window before, or the beginning"
            assert torch.equal(read[1:][labels[:-1] != PAD], labels[:-1][labels[:-1] != PAD])


def test_one_stream_is_the_text_from_its_beginning() -> None:
    segments = list(contiguous_segments(text(50), 1, 8))
    assert labels_of(segments) == text(50).tolist()
    assert int(segments[0]["source"][0, 0]) == EOS
