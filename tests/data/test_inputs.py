"""Inputs of understanding tasks: padded and packed they say the same, and batches are a function of the step."""

from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.input_batching import InputBatches, InputPacking, InputPadding
from regard.data.inputs import IGNORE, Input, Inputs, open_or_build_inputs

TEXTS = st.lists(st.integers(1, 50), min_size=1, max_size=9)
EXAMPLES = st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=8)


def inputs_of(examples: list[list[list[int]]], per_token: bool) -> Inputs:
    """Segments count through an input; labels are the first token, or a token less where it is even."""

    def one(ids: list[int], first: bool) -> Input:
        labels = [i if i % 2 else IGNORE for i in ids] if per_token else [ids[0]] * first
        return Input(ids, [place % 2 for place in range(len(ids))], labels)

    return Inputs.of([[one(ids, n == 0) for n, ids in enumerate(e)] for e in examples], per_token)


@given(EXAMPLES, st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_padded_and_packed_hold_the_same(examples: list[list[list[int]]], per_token: bool, random: object) -> None:
    inputs = inputs_of(examples, per_token)
    chosen = np.array(sorted(range(len(examples)), key=lambda i: -i))
    padded, packed = inputs.padded(chosen), inputs.packed(chosen, 100, 10)
    flat = [ids for place in chosen for ids in examples[place]]
    assert padded.tokens == packed.tokens == sum(map(len, flat))
    for row, ids in enumerate(flat):
        first, last = packed.offsets[row], packed.offsets[row + 1]
        assert padded.ids[row, : len(ids)].tolist() == packed.ids[first:last].tolist() == ids
        assert padded.segments[row, : len(ids)].tolist() == packed.segments[first:last].tolist()
        assert packed.rows[first:last].tolist() == [row] * len(ids)
        assert packed.positions[first:last].tolist() == list(range(len(ids)))
    if per_token:
        wanted = [i if i % 2 else IGNORE for ids in flat for i in ids]
        assert packed.labels[: len(wanted)].tolist() == wanted and (packed.labels[len(wanted) :] == IGNORE).all()
        real = torch.arange(padded.ids.size(1)) < padded.lengths[:, None]
        assert padded.labels[real].tolist() == wanted and (padded.labels[~real] == IGNORE).all()
    else:
        wanted = [examples[place][0][0] for place in chosen]
        assert padded.labels[:, 0].tolist() == packed.labels[: len(chosen), 0].tolist() == wanted
        assert (packed.labels[len(chosen) :] == IGNORE).all()
    for batch in (padded, packed):
        members = [[int(m) for m in row if m >= 0] for row in batch.members[: len(chosen)]]
        assert [row for each in members for row in each] == list(range(len(flat)))
        assert [len(row) for row in members] == [len(examples[place]) for place in chosen]


def test_what_fills_a_stream_is_nobodys() -> None:
    inputs = inputs_of([[[5, 6, 7]], [[8]]], per_token=False)
    batch = inputs.packed(np.array([0, 1]), 64, 4)
    assert batch.ids.shape == (64,) and batch.members.shape == (4, 1) and batch.labels.shape == (4, 1)
    assert batch.offsets.tolist() == [0, 3, 4, 4, 4, 4] and (batch.rows[4:] == 4).all()
    silent = batch.silenced()
    assert (silent.labels == IGNORE).all() and silent.tokens == 0


def test_how_much_is_asked() -> None:
    assert inputs_of([[[1, 2, 3], [5]], [[2, 4]]], per_token=True).tgt_lengths.tolist() == [3, 0]
    assert inputs_of([[[1, 2, 3], [5]], [[2, 4]]], per_token=False).tgt_lengths.tolist() == [1, 1]
    assert inputs_of([[[1, 2, 3], [5]], [[2, 4]]], per_token=False).src_lengths.tolist() == [4, 2]


@given(st.integers(1, 9), st.integers(1, 60), st.integers(0, 3), st.sampled_from([InputPadding, InputPacking]))
@settings(max_examples=60, deadline=None)
def test_an_epoch_has_every_example_once(size: int, tokens: int, epoch: int, form: type) -> None:
    lengths = np.random.default_rng(1).integers(1, 12, 40)
    planned = form(size).of(lengths, np.ones(40), tokens, 1)
    plan = planned.plan(lengths, np.ones(40), 7, epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(40))
    for batch in plan:
        assert len(batch) <= size
        together = lengths[batch].sum() if form is InputPacking else lengths[batch].max() * len(batch)
        assert together <= max(tokens, lengths.max())


def test_rectangles_of_several_inputs_stay_within_the_bound() -> None:
    """Many short choices beside one long text would be many long rows."""
    examples = [[[7] * 3] * 50 if number % 2 else [[7] * 90] for number in range(40)]
    inputs = inputs_of(examples, per_token=False)
    batches = InputBatches(inputs, 400, 1, form=InputPadding(8))
    sizes = [batches.batch(step).micro[0].ids.numel() for step in range(batches.steps_in_epoch(0))]
    assert max(sizes) <= 400 and min(sizes) > 100


def test_ranks_share_what_one_process_computes() -> None:
    inputs = inputs_of([[[i + 1] * (1 + i % 5)] for i in range(30)], per_token=False)
    for form in (InputPadding(8), InputPacking(8)):
        alone = InputBatches(inputs, 1000, 3, form=form)
        ranks = [InputBatches(inputs, 1000, 3, rank, 2, form=form) for rank in range(2)]
        for step in range(9):
            whole, parts = alone.batch(step), [batches.batch(step) for batches in ranks]
            labels = [batch.labels[:, 0] for part in [whole, *parts] for batch in part.micro]
            seen = [sorted(rows[rows != IGNORE].tolist()) for rows in labels]
            assert sorted(seen[1] + seen[2]) == seen[0]
            assert {part.count for part in parts} == {whole.count} and whole.count == len(seen[0])


def test_packed_batches_of_a_run_have_one_shape() -> None:
    rng = np.random.default_rng(2)
    inputs = inputs_of([[rng.integers(1, 9, rng.integers(3, 20)).tolist()] for _ in range(200)], per_token=False)
    batches = InputBatches(inputs, 10_000, 3, form=InputPacking(16))
    shapes = {
        tuple(t.shape for t in vars(batches.batch(s).micro[0]).values() if hasattr(t, "shape")) for s in range(40)
    }
    assert len(shapes) == 1


def test_a_store_is_made_again_only_when_its_content_changed(tmp_path: Path) -> None:
    made = []

    def make() -> list[list[Input]]:
        made.append(1)
        return [[Input([1, 2], [0, 0], [3.5])], [Input([4], [1], [-1.0])]]

    for content in ("a", "a", "b"):
        found = open_or_build_inputs(tmp_path / "store", content, make, per_token=False)
        assert found.ids.tolist() == [1, 2, 4] and found.labels.tolist() == [3.5, -1.0]
    assert len(made) == 2
    (tmp_path / "store" / "ids").write_bytes(b"\0" * 12)
    assert open_or_build_inputs(tmp_path / "store", "b", make, per_token=False).ids.tolist() == [1, 2, 4]
    assert len(made) == 3
