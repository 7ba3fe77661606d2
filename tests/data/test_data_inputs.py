"""Inputs of text encoders: padded and packed batches hold the same, and ranks share them."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import IGNORE, Share
from regard.data.inputs import Input, Inputs
from regard.data.planning import Batches, Budget, Capacity

TEXTS = st.lists(st.integers(1, 50), min_size=1, max_size=9)
EXAMPLES = st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=8)


def inputs_of(examples: list[list[list[int]]], per_token: bool) -> Inputs:
    """Segments count through an input; labels are the first token, or a token less where it is even."""

    def one(ids: list[int], first: bool) -> Input:
        labels = [i if i % 2 else IGNORE for i in ids] if per_token else [ids[0]] * first
        return Input(ids, [place % 2 for place in range(len(ids))], labels)

    return Inputs.of([[one(ids, n == 0) for n, ids in enumerate(e)] for e in examples], per_token)


@given(EXAMPLES, st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_padded_and_packed_hold_the_same(examples: list[list[list[int]]], per_token: bool, random: object) -> None:
    inputs = inputs_of(examples, per_token)
    chosen = np.array(sorted(range(len(examples)), key=lambda i: -i))
    padded, packed = inputs.pad(chosen), inputs.pack(chosen, Capacity((100,), 10))
    flat = [ids for place in chosen for ids in examples[place]]
    assert padded.tokens == packed.tokens == sum(map(len, flat))
    for row, ids in enumerate(flat):
        first, last = packed["source_offsets"][row], packed["source_offsets"][row + 1]
        assert padded["source"][row, : len(ids)].tolist() == packed["source"][first:last].tolist() == ids
        assert padded["segments"][row, : len(ids)].tolist() == packed["segments"][first:last].tolist()
        assert packed["source_rows"][first:last].tolist() == [row] * len(ids)
        assert packed["source_positions"][first:last].tolist() == list(range(len(ids)))
    if per_token:
        wanted = [i if i % 2 else IGNORE for ids in flat for i in ids]
        assert packed.labels[: len(wanted)].tolist() == wanted and (packed.labels[len(wanted) :] == IGNORE).all()
        real = torch.arange(padded["source"].size(1)) < padded["source_lengths"][:, None]
        assert padded.labels[real].tolist() == wanted and (padded.labels[~real] == IGNORE).all()
    else:
        wanted = [examples[place][0][0] for place in chosen]
        assert padded.labels[:, 0].tolist() == packed.labels[: len(chosen), 0].tolist() == wanted
        assert (packed.labels[len(chosen) :] == IGNORE).all()
    for batch in (padded, packed):
        members = [[int(m) for m in row if m >= 0] for row in batch["input_index"][: len(chosen)]]
        assert [row for each in members for row in each] == list(range(len(flat)))
        assert [len(row) for row in members] == [len(examples[place]) for place in chosen]


def test_the_end_of_a_stream_belongs_to_an_empty_input() -> None:
    inputs = inputs_of([[[5, 6, 7]], [[8]]], per_token=False)
    batch = inputs.pack(np.array([0, 1]), Capacity((64,), 4))
    assert batch["source"].shape == (64,) and batch["input_index"].shape == (4, 1) and batch.labels.shape == (4, 1)
    assert batch["source_offsets"].tolist() == [0, 3, 4, 4, 4, 4] and (batch["source_rows"][4:] == 4).all()
    silent = batch.without_labels(labels=IGNORE)
    assert (silent.labels == IGNORE).all() and silent.tokens == 0


def test_labels_are_counted() -> None:
    assert inputs_of([[[1, 2, 3], [5]], [[2, 4]]], per_token=True).label_counts.tolist() == [3, 0]
    assert inputs_of([[[1, 2, 3], [5]], [[2, 4]]], per_token=False).label_counts.tolist() == [1, 1]
    assert inputs_of([[[1, 2, 3], [5]], [[2, 4]]], per_token=False).lengths[0].tolist() == [4, 2]


def test_rectangles_of_several_inputs_stay_within_the_bound() -> None:
    """Many short choices beside one long text would be many long rows."""
    examples = [[[7] * 3] * 50 if number % 2 else [[7] * 90] for number in range(40)]
    inputs = inputs_of(examples, per_token=False)
    batches = Batches(inputs, Budget(400, 8), 1)
    sizes = [batches.batch(step).micro_batches[0]["source"].numel() for step in range(batches.steps_in_epoch(0))]
    assert max(sizes) <= 400 and min(sizes) > 100


def test_ranks_share_what_one_process_computes() -> None:
    inputs = inputs_of([[[i + 1] * (1 + i % 5)] for i in range(30)], per_token=False)
    for packed in (False, True):
        alone = Batches(inputs, Budget(1000, 8), 3, packed=packed)
        ranks = [Batches(inputs, Budget(1000, 8), 3, Share(rank, 2), packed=packed) for rank in range(2)]
        for step in range(9):
            whole, parts = alone.batch(step), [batches.batch(step) for batches in ranks]
            labels = [batch.labels[:, 0] for part in [whole, *parts] for batch in part.micro_batches]
            seen = [sorted(rows[rows != IGNORE].tolist()) for rows in labels]
            assert sorted(seen[1] + seen[2]) == seen[0]
            assert {part.count for part in parts} == {whole.count} and whole.count == len(seen[0])


def test_packed_batches_of_a_run_have_one_shape() -> None:
    rng = np.random.default_rng(2)
    inputs = inputs_of([[rng.integers(1, 9, rng.integers(3, 20)).tolist()] for _ in range(200)], per_token=False)
    batches = Batches(inputs, Budget(10_000, 16), 3, packed=True)
    steps = [batches.batch(step).micro_batches[0] for step in range(40)]
    assert len({tuple(tensor.shape for tensor in batch.tensors.values()) for batch in steps}) == 1
