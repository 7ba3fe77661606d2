"""BERT's inputs are what the paper says: B follows A or is of another document, and the right words are hidden."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.arrays import Array
from regard.data.document_store import DocumentStore
from regard.data.documents import DocumentDataSettings
from regard.data.inputs import IGNORE
from regard.data.masking import choose, greedily, hide, ordinary, wanted
from regard.data.pretraining import LANE, Assembly, Drawn, Row, draw_inputs, shared
from regard.data.pretraining_batches import (
    Hiding,
    MaskedBatch,
    PackedMaskedBatch,
    PaddedMaskedBatch,
    PretrainingBatches,
    evaluation_batches,
)
from regard.random import rng as generator
from regard.text.bert import SPECIALS, BertVocabulary

modest = settings(deadline=None, max_examples=40, derandomize=True, database=None)
WORDS = [f"w{n}" for n in range(20)]
VOCABULARY = BertVocabulary([*SPECIALS, *WORDS, *(f"##{word}" for word in WORDS)])


def store_of(documents: list[list[int]], seed: int = 0) -> DocumentStore:
    """Documents of sentences of so many pieces each; every piece is its own place."""
    lengths = [length for document in documents for length in document]
    return DocumentStore(
        np.arange(sum(lengths)),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
    )


def text_of(documents: int, seed: int = 0) -> DocumentStore:
    """The same with pieces of the vocabulary: sentences of 3 to 12 of them."""
    rng = np.random.default_rng(seed)
    store = store_of([rng.integers(3, 13, rng.integers(4, 30)).tolist() for _ in range(documents)])
    store.pieces = rng.integers(len(SPECIALS), len(VOCABULARY), len(store.pieces)).astype(np.uint16)
    return store


def data(**changes: Any) -> DocumentDataSettings:
    return DocumentDataSettings.model_validate({"max_length": 32, **changes})


def owners(store: DocumentStore, pieces: Array) -> Array:
    """The document of each piece."""
    return np.searchsorted(store.sentences[store.documents], pieces, side="right") - 1


@modest
@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.integers(8, 20), st.floats(0, 1), st.integers(0, 9))
def test_sentences_of_one_piece_are_used_once_each(sizes: list[int], longest: int, short: float, seed: int) -> None:
    """Nothing is cut off such sentences: A and a B that follows lie side by side, and together they are the text."""
    store = store_of([[1] * size for size in sizes])
    drawn = draw_inputs(store, data(max_length=longest, short=short), generator(seed))
    follows = drawn.next == 0
    assert (drawn.b[follows] == drawn.a[follows] + drawn.a_lengths[follows]).all()
    ends = [drawn.a + drawn.a_lengths - 1, drawn.b + drawn.b_lengths - 1]
    assert (owners(store, drawn.a) == owners(store, ends[0])).all()
    assert (owners(store, drawn.b) == owners(store, ends[1])).all()
    same = owners(store, drawn.a) == owners(store, drawn.b)
    assert (same == follows).all(), "B is of the same document exactly where it follows"
    used = [np.arange(a, a + n) for a, n in zip(drawn.a, drawn.a_lengths, strict=True)]
    used += [np.arange(b, b + n) for b, n in zip(drawn.b[follows], drawn.b_lengths[follows], strict=True)]
    assert sorted(np.concatenate(used).tolist()) == store.pieces.tolist()
    assert (drawn.a_lengths > 0).all() and (drawn.b_lengths > 0).all() and (drawn.lengths <= longest).all()


def test_longer_sentences_keep_their_order_and_their_documents() -> None:
    store = text_of(60)
    drawn = draw_inputs(store, data(), generator(3))
    whole = drawn.lengths < 32  # nothing was cut off
    follows = drawn.next == 0
    both = whole & follows
    assert both.sum() > 10
    assert (drawn.b[both] == drawn.a[both] + drawn.a_lengths[both]).all()
    assert (drawn.b[follows] >= drawn.a[follows] + drawn.a_lengths[follows]).all()
    assert ((owners(store, drawn.a) == owners(store, drawn.b)) == follows).all()
    starts = np.isin(drawn.a[whole], store.sentences)
    assert starts.all() and np.isin((drawn.b + drawn.b_lengths)[whole], store.sentences).all()
    assert 0.4 < follows.mean() < 0.55  # half of those that have a next sentence
    assert (drawn.lengths <= 32).all() and np.mean(drawn.lengths) > 26


def test_short_inputs_are_as_many_as_asked_for() -> None:
    store = store_of([[1] * 5000 for _ in range(4)])
    for short in (0.0, 0.5):
        lengths = draw_inputs(store, data(short=short, max_length=64), generator(1)).lengths
        full = np.mean(lengths == 64)
        assert full > 0.9 if short == 0 else 0.4 < full < 0.6


def test_without_a_next_sentence_an_input_is_one_stretch() -> None:
    store = store_of([[1] * 70, [1] * 3, [1] * 700])
    drawn = draw_inputs(store, data(next_sentence=False, short=0.0), generator(1))
    assert (drawn.next == IGNORE).all() and (drawn.b_lengths == 0).all()
    spans = sorted(zip(drawn.a.tolist(), drawn.a_lengths.tolist(), strict=True))
    assert [place for first, length in spans for place in range(first, first + length)] == list(range(773))
    assert drawn.lengths.max() == 32
    one = draw_inputs(store_of([[1] * 9]), data(next_sentence=False), generator(1))
    assert len(one) >= 1, "a single document is enough"


def test_a_long_document_is_walked_through_in_several_places() -> None:
    """The same inputs as of a shorter one: all of it, and B in its order."""
    store = store_of([[2] * (3 * LANE + 5), [2] * 4])
    drawn = draw_inputs(store, data(short=0.0), generator(1))
    covered = np.zeros(len(store.pieces), bool)
    for first, length in [*zip(drawn.a, drawn.a_lengths, strict=True), *zip(drawn.b, drawn.b_lengths, strict=True)]:
        covered[first : first + length] = True
    assert covered.mean() > 0.95


@modest
@given(st.integers(1, 40), st.integers(1, 40), st.integers(4, 30))
def test_the_longer_text_loses_pieces_as_in_the_authors_program(a: int, b: int, room: int) -> None:
    found = shared(room, np.array([a]), np.array([b]))
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    assert (int(found[0][0]), int(found[1][0])) == (a, b)


def test_pieces_go_from_either_end_by_lot() -> None:
    drawn = draw_inputs(store_of([[40] * 400 for _ in range(3)]), data(), generator(5))
    cut = (drawn.a - drawn.a // 40 * 40)[drawn.a_lengths > 0]
    assert cut.min() > 0 and cut.max() < 40 - 5 and 8 < cut.mean() < 18


def test_inputs_are_put_together() -> None:
    store = store_of([[3, 2], [2]])
    store.pieces = np.array([5, 26, 7, 8, 27, 9, 29], np.uint16)  # 25 and on continue a word
    drawn = Drawn(*map(np.array, ([0, 4], [3, 1], [3, 5], [2, 2], [0, 1])))
    cls, sep = VOCABULARY.cls, VOCABULARY.sep
    row = Assembly(store, VOCABULARY, whole_words=True)(drawn)
    assert row.ids.tolist() == [cls, 5, 26, 7, sep, 8, 27, sep, cls, 27, sep, 9, 29, sep]
    assert row.segments.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert row.words.tolist() == [-1, 0, 0, 1, -1, 2, 2, -1, -1, 3, -1, 4, 4, -1]
    assert (row.lengths.tolist(), row.counts.tolist()) == ([8, 6], [3, 2])
    alone = Drawn(*map(np.array, ([0], [3], [0], [0], [IGNORE])))
    row = Assembly(store, VOCABULARY, whole_words=False)(alone)
    assert row.ids.tolist() == [cls, 5, 26, 7, sep] and row.segments.tolist() == [0] * 5
    assert row.words.tolist() == [-1, 0, 1, 2, -1]


def a_row(whole_words: bool, inputs: int = 3000) -> Row:
    store = text_of(150, seed=2)
    drawn = draw_inputs(store, data(), generator(1))
    return Assembly(store, VOCABULARY, whole_words)(drawn.take(np.arange(inputs) % len(drawn)))


def test_so_many_words_are_hidden_in_every_input() -> None:
    row = a_row(whole_words=False)
    places = choose(row, 0.15, generator(1))
    rows = np.repeat(np.arange(len(row.lengths)), row.lengths)
    assert np.bincount(rows[places], minlength=len(row.lengths)).tolist() == wanted(row.lengths, 0.15).tolist()
    assert abs(len(places) / len(row.ids) - 0.15) < 0.01
    assert (row.words[places] >= 0).all() and (np.diff(places) > 0).all()
    # Any token is as likely as any other of its input.
    first = np.cumsum(row.lengths) - row.lengths
    hits = np.isin(first[row.lengths == 32] + 1, places).mean()
    assert abs(hits - 5 / 29) < 0.03


def test_whole_words_are_never_half_hidden() -> None:
    row = a_row(whole_words=True)
    places = choose(row, 0.15, generator(1))
    assert set(np.flatnonzero(np.isin(row.words, row.words[places]))) == set(places.tolist())
    assert (row.words[places] >= 0).all()
    rows = np.repeat(np.arange(len(row.lengths)), row.lengths)
    counts = np.bincount(rows[places], minlength=len(row.lengths))
    assert (counts <= wanted(row.lengths, 0.15)).all()
    assert len(places) > 0.97 * wanted(row.lengths, 0.15).sum(), "words that fit fill almost all the room"


def test_whatever_fits_is_taken_from_left_to_right() -> None:
    sizes = np.array([[3, 1, 2, 1], [1, 1, 1, 1], [9, 9, 9, 9]])
    assert greedily(sizes, np.array([4, 2, 5])).tolist() == [
        [True, True, False, False], [True, True, False, False], [False] * 4,
    ]  # fmt: skip


def test_hidden_words_are_masked_changed_or_kept() -> None:
    row = a_row(whole_words=False)
    places = choose(row, 0.15, generator(1))
    others = ordinary(VOCABULARY)
    assert others.tolist() == list(range(len(SPECIALS), len(VOCABULARY)))
    ids = hide(row.ids, places, VOCABULARY.mask, others, generator(2))
    untouched = np.setdiff1d(np.arange(len(ids)), places)
    assert (ids[untouched] == row.ids[untouched]).all()
    masked, same = ids[places] == VOCABULARY.mask, ids[places] == row.ids[places]
    changed = ~masked & ~same
    assert abs(masked.mean() - 0.8) < 0.01
    assert abs(changed.mean() - 0.1 * (1 - 1 / len(others))) < 0.01 and abs(same.mean() - 0.1) < 0.012
    assert set(ids[places][changed].tolist()) == set(others.tolist())


def batches(form: type[MaskedBatch] = PaddedMaskedBatch, **changes: Any) -> PretrainingBatches:
    options = dict(batch_tokens=512, seed=7) | changes
    return PretrainingBatches(text_of(40), options.pop("data", data()), VOCABULARY, form=form, **options)


def unpadded(batch: MaskedBatch) -> dict[str, list[Any]]:
    """What a batch says, input by input, whatever its form."""
    if isinstance(batch, PaddedMaskedBatch):
        lengths = batch.lengths
        real = (torch.arange(batch.ids.size(1)) < lengths[:, None]).flatten()
    else:
        assert isinstance(batch, PackedMaskedBatch)
        lengths = batch.offsets.diff()[: int((batch.next != IGNORE).sum())]
        real = torch.arange(len(batch.ids)) < lengths.sum()
    asked = torch.zeros_like(batch.ids.flatten())
    keep = batch.labels != VOCABULARY.pad
    asked[batch.places[keep]] = batch.labels[keep]
    sizes = lengths.tolist()
    parts = {name: tensor.flatten()[real].split(sizes) for name, tensor in
             (("ids", batch.ids), ("segments", batch.segments), ("asked", asked))}  # fmt: skip
    found = {name: [part.tolist() for part in split] for name, split in parts.items()}
    return {**found, "next": batch.next[: len(sizes)].tolist()}


def test_a_step_is_its_number_and_epochs_differ() -> None:
    one, other = batches(), batches()
    epoch = one.steps_in_epoch
    assert epoch > 5
    for number in (0, 3, epoch, 5 * epoch + 2):
        found, expected = (unpadded(each.batch(number).micro[0]) for each in (one, other))
        assert found == expected
        assert one.batch(number).epoch == number // epoch
    assert unpadded(one.batch(1).micro[0]) != unpadded(one.batch(1 + epoch).micro[0])
    assert unpadded(one.batch(1).micro[0]) != unpadded(batches(seed=8).batch(1).micro[0])


def test_an_epoch_reads_each_input_about_once_and_every_step_is_full() -> None:
    steps = batches()
    for epoch in (0, 1):
        found = [steps.batch(epoch * steps.steps_in_epoch + n) for n in range(steps.steps_in_epoch)]
        assert all(480 < step.tokens <= 512 for step in found)
        rows = [str(row) for step in found for row in unpadded(step.micro[0])["segments"]]
        assert len(rows) > 0.9 * len(draw_inputs(text_of(40), data(), generator(7, epoch, 0)))


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("next_sentence", [False, True])
def test_packed_says_what_padded_says_in_one_shape(whole_words: bool, next_sentence: bool) -> None:
    how = data(whole_words=whole_words, next_sentence=next_sentence)
    padded, packed = batches(data=how), batches(PackedMaskedBatch, data=how)
    shapes = set()
    for number in range(2 * padded.steps_in_epoch):
        one, other = padded.batch(number), packed.batch(number)
        assert (one.count, one.tokens) == (other.count, other.tokens)
        batch = other.micro[0]
        if next_sentence:
            assert unpadded(one.micro[0]) == unpadded(batch)
            asked = int((batch.next != IGNORE).sum())
            assert float(batch.balance) == pytest.approx(one.count / asked) == float(one.micro[0].balance)
        else:
            assert float(batch.balance) == 0 and bool((batch.next == IGNORE).all())
        assert int((batch.labels != VOCABULARY.pad).sum()) == one.count
        shapes.add(tuple(tensor.shape for tensor in vars(batch).values() if isinstance(tensor, torch.Tensor)))
    assert len(shapes) == 1


def test_parts_share_a_step() -> None:
    whole = batches().batch(4)
    assert isinstance(whole.micro[0], MaskedBatch)
    shares = [batches(rank=rank, world_size=2, accumulation=2).batch(4) for rank in (0, 1)]
    assert all((share.count, share.tokens) == (whole.count, whole.tokens) for share in shares)
    parts = [batch for share in shares for batch in share.micro]
    assert sum(batch.tokens for batch in parts) == whole.tokens
    assert all(float(batch.balance) == float(whole.micro[0].balance) for batch in parts)
    expected, found = unpadded(whole.micro[0]), [unpadded(batch) for batch in parts]
    for name, rows in expected.items():
        assert [found[place % 4][name][place // 4] for place in range(len(rows))] == rows


@pytest.mark.parametrize("form", [PaddedMaskedBatch, PackedMaskedBatch])
def test_more_parts_than_inputs_leave_some_silent(form: type[MaskedBatch]) -> None:
    step = batches(form, batch_tokens=64, accumulation=5).batch(0)
    silent = [batch for batch in step.micro if batch.tokens == 0]
    assert silent and all(bool((batch.labels == VOCABULARY.pad).all()) for batch in silent)
    assert all(bool((batch.next == IGNORE).all()) for batch in silent)
    assert sum(int((batch.labels != VOCABULARY.pad).sum()) for batch in step.micro) == step.count


def test_a_text_smaller_than_a_step_is_read_once_in_it() -> None:
    steps = PretrainingBatches(store_of([[1] * 6, [1] * 6]), data(), VOCABULARY, 100_000, seed=1)
    assert steps.steps_in_epoch == 1
    assert steps.batch(0).tokens < 100


def test_evaluation_reads_everything_the_same_each_time() -> None:
    store, how = text_of(40), data()
    first, again = ([unpadded(batch) for batch in evaluation_batches(store, how, VOCABULARY, 512, 3)] for _ in "ab")
    assert first == again
    inputs = sum(len(batch["next"]) for batch in first)
    assert inputs == len(draw_inputs(store, how, generator(3, 0)))
    assert Hiding(store, how, VOCABULARY).pad == 0
