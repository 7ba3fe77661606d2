"""Batches of BERT pretraining: a step is a function of its number, and both layouts hold the same."""

from typing import Any

import pytest
import torch
from tests.data.test_data_pretraining import data, store_of, text_of, vocabulary

from regard.data.batch import IGNORE, WHOLE, Batch, Share
from regard.data.pretraining import Masking, PretrainingBatches, evaluation_batches, sample_pairs
from regard.data.settings import DocumentDataSettings
from regard.seeding import rng


def batches(
    packed: bool = False, batch_tokens: int = 512, seed: int = 7, share: Share = WHOLE, **changes: Any
) -> PretrainingBatches:
    settings = DocumentDataSettings.model_validate({"max_length": 32, **changes})
    return PretrainingBatches(text_of(40), settings, vocabulary(), batch_tokens, seed, share, packed=packed)


def unpadded(batch: Batch) -> dict[str, list[Any]]:
    """Content of a batch, input by input, in either layout."""
    if not batch.is_packed:
        lengths = batch["source_lengths"]
        real = (torch.arange(batch["source"].size(1)) < lengths[:, None]).flatten()
    else:
        lengths = batch["source_offsets"].diff()[: int((batch["next_labels"] != IGNORE).sum())]
        real = torch.arange(len(batch["source"])) < lengths.sum()
    asked = torch.zeros_like(batch["source"].flatten())
    keep = batch.labels != vocabulary().pad
    asked[batch["masked_positions"][keep]] = batch.labels[keep]
    sizes = lengths.tolist()
    parts = {name: tensor.flatten()[real].split(sizes) for name, tensor in
             (("ids", batch["source"]), ("segments", batch["segments"]), ("asked", asked))}  # fmt: skip
    found = {name: [part.tolist() for part in split] for name, split in parts.items()}
    return {**found, "next": batch["next_labels"][: len(sizes)].tolist()}


def test_a_step_is_a_function_of_its_number_and_epochs_differ() -> None:
    one, other = batches(), batches()
    epoch = one.steps_in_epoch()
    assert epoch > 5
    for number in (0, 3, epoch, 5 * epoch + 2):
        found, expected = (unpadded(each.batch(number).micro_batches[0]) for each in (one, other))
        assert found == expected
        assert one.batch(number).epoch == number // epoch
    assert unpadded(one.batch(1).micro_batches[0]) != unpadded(one.batch(1 + epoch).micro_batches[0])
    assert unpadded(one.batch(1).micro_batches[0]) != unpadded(batches(seed=8).batch(1).micro_batches[0])


def test_an_epoch_reads_each_input_about_once_and_every_step_is_full() -> None:
    steps = batches()
    for epoch in (0, 1):
        found = [steps.batch(epoch * steps.steps_in_epoch() + n) for n in range(steps.steps_in_epoch())]
        assert all(480 < step.tokens <= 512 for step in found)
        rows = [str(row) for step in found for row in unpadded(step.micro_batches[0])["segments"]]
        assert len(rows) > 0.9 * len(sample_pairs(text_of(40), data(), rng(7, epoch, 0)))


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("next_sentence", [False, True])
def test_packed_batches_hold_what_padded_ones_do_in_one_shape(whole_words: bool, next_sentence: bool) -> None:
    padded, packed = (batches(packed, whole_words=whole_words, next_sentence=next_sentence) for packed in (False, True))
    shapes = set()
    for number in range(2 * padded.steps_in_epoch()):
        one, other = padded.batch(number), packed.batch(number)
        assert (one.count, one.tokens) == (other.count, other.tokens)
        batch = other.micro_batches[0]
        if next_sentence:
            assert unpadded(one.micro_batches[0]) == unpadded(batch)
            asked = int((batch["next_labels"] != IGNORE).sum())
            assert (
                float(batch["next_weight"])
                == pytest.approx(one.count / asked)
                == float(one.micro_batches[0]["next_weight"])
            )
        else:
            assert float(batch["next_weight"]) == 0 and bool((batch["next_labels"] == IGNORE).all())
        assert int((batch.labels != vocabulary().pad).sum()) == one.count
        shapes.add(tuple(tensor.shape for tensor in batch.tensors.values()))
    assert len(shapes) == 1


def test_shards_make_up_a_step() -> None:
    whole = batches().batch(4)
    shares = [batches(share=Share(rank, 2, 2)).batch(4) for rank in (0, 1)]
    assert all((share.count, share.tokens) == (whole.count, whole.tokens) for share in shares)
    parts = [batch for share in shares for batch in share.micro_batches]
    assert sum(batch.tokens for batch in parts) == whole.tokens
    assert all(float(batch["next_weight"]) == float(whole.micro_batches[0]["next_weight"]) for batch in parts)
    expected, found = unpadded(whole.micro_batches[0]), [unpadded(batch) for batch in parts]
    for name, rows in expected.items():
        assert [found[place % 4][name][place // 4] for place in range(len(rows))] == rows


@pytest.mark.parametrize("packed", [False, True])
def test_with_more_shards_than_inputs_some_have_no_labels(packed: bool) -> None:
    step = batches(packed, batch_tokens=64, share=Share(accumulation=5)).batch(0)
    silent = [batch for batch in step.micro_batches if batch.tokens == 0]
    assert silent and all(bool((batch.labels == vocabulary().pad).all()) for batch in silent)
    assert all(bool((batch["next_labels"] == IGNORE).all()) for batch in silent)
    assert sum(int((batch.labels != vocabulary().pad).sum()) for batch in step.micro_batches) == step.count


def test_a_text_smaller_than_a_step_is_read_once_in_it() -> None:
    steps = PretrainingBatches(store_of([[1] * 6, [1] * 6]), data(), vocabulary(), 100_000, seed=1)
    assert steps.steps_in_epoch() == 1
    assert steps.batch(0).tokens < 100


def test_evaluation_reads_everything_the_same_each_time() -> None:
    store, how = text_of(40), data()
    first, again = ([unpadded(batch) for batch in evaluation_batches(store, how, vocabulary(), 512, 3)] for _ in "ab")
    assert first == again
    inputs = sum(len(batch["next"]) for batch in first)
    assert inputs == len(sample_pairs(store, how, rng(3, 0)))
    assert Masking(store, how, vocabulary()).pad_id == 0
