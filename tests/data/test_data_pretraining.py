"""Inputs of BERT pretraining: B follows A or is of another document, and the right tokens are masked."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.data.arrays import Array
from regard.data.batch import IGNORE
from regard.data.pretraining import (
    CHUNK_SENTENCES,
    InputBuilder,
    SampledPairs,
    TokenizedDocuments,
    TokenizedInputs,
    choose_masked,
    mask_tokens,
    masked_counts,
    regular_ids,
    sample_pairs,
    take_while_fits,
    truncated_lengths,
)
from regard.data.settings import DocumentDataSettings
from regard.seeding import rng
from regard.text.bert import SPECIALS, BertTokenizer

modest = settings(max_examples=40)
WORDS = [f"w{n}" for n in range(20)]


@cache
def vocabulary() -> BertTokenizer:
    return BertTokenizer([*SPECIALS, *WORDS, *(f"##{word}" for word in WORDS)])


def store_of(documents: list[list[int]], seed: int = 0) -> TokenizedDocuments:
    """Documents of sentences of so many pieces each; every piece is its own place."""
    lengths = [length for document in documents for length in document]
    return TokenizedDocuments(
        np.arange(sum(lengths)),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
    )


def text_of(documents: int, seed: int = 0) -> TokenizedDocuments:
    """Documents of token ids: sentences of 3 to 12 tokens."""
    rng = np.random.default_rng(seed)
    store = store_of([rng.integers(3, 13, rng.integers(4, 30)).tolist() for _ in range(documents)])
    tokens = rng.integers(len(SPECIALS), len(vocabulary()), len(store.tokens)).astype(np.uint16)
    return replace(store, tokens=tokens)


def data(**changes: Any) -> DocumentDataSettings:
    return DocumentDataSettings.model_validate({"max_length": 32, **changes})


def owners(store: TokenizedDocuments, pieces: Array) -> Array:
    """The document of each piece."""
    return np.searchsorted(store.sentences[store.documents], pieces, side="right") - 1


@modest
@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.integers(8, 20), st.floats(0, 1), st.integers(0, 9))
def test_sentences_of_one_piece_are_used_once_each(sizes: list[int], longest: int, short: float, seed: int) -> None:
    """Nothing is cut off such sentences: A and a B that follows lie side by side, and together they are the text."""
    store = store_of([[1] * size for size in sizes])
    sampled = sample_pairs(store, data(max_length=longest, short=short), rng(seed))
    follows = sampled.next_labels == 0
    assert (sampled.b[follows] == sampled.a[follows] + sampled.a_lengths[follows]).all()
    ends = [sampled.a + sampled.a_lengths - 1, sampled.b + sampled.b_lengths - 1]
    assert (owners(store, sampled.a) == owners(store, ends[0])).all()
    assert (owners(store, sampled.b) == owners(store, ends[1])).all()
    same = owners(store, sampled.a) == owners(store, sampled.b)
    assert (same == follows).all(), "B is of the same document exactly where it follows"
    used = [np.arange(a, a + n) for a, n in zip(sampled.a, sampled.a_lengths, strict=True)]
    used += [np.arange(b, b + n) for b, n in zip(sampled.b[follows], sampled.b_lengths[follows], strict=True)]
    assert sorted(np.concatenate(used).tolist()) == store.tokens.tolist()
    assert (sampled.a_lengths > 0).all() and (sampled.b_lengths > 0).all() and (sampled.lengths <= longest).all()


def test_longer_sentences_keep_their_order_and_their_documents() -> None:
    store = text_of(60)
    sampled = sample_pairs(store, data(), rng(3))
    whole = sampled.lengths < 32  # nothing was cut off
    follows = sampled.next_labels == 0
    both = whole & follows
    assert both.sum() > 10
    assert (sampled.b[both] == sampled.a[both] + sampled.a_lengths[both]).all()
    assert (sampled.b[follows] >= sampled.a[follows] + sampled.a_lengths[follows]).all()
    assert ((owners(store, sampled.a) == owners(store, sampled.b)) == follows).all()
    starts = np.isin(sampled.a[whole], store.sentences)
    assert starts.all() and np.isin((sampled.b + sampled.b_lengths)[whole], store.sentences).all()
    assert 0.4 < follows.mean() < 0.55  # half of those that have a next sentence
    assert (sampled.lengths <= 32).all() and np.mean(sampled.lengths) > 26


def test_the_share_of_short_inputs_is_as_set() -> None:
    store = store_of([[1] * 5000 for _ in range(4)])
    for short in (0.0, 0.5):
        lengths = sample_pairs(store, data(short=short, max_length=64), rng(1)).lengths
        full = np.mean(lengths == 64)
        assert full > 0.9 if short == 0 else 0.4 < full < 0.6


def test_without_next_sentence_prediction_an_input_is_one_span() -> None:
    store = store_of([[1] * 70, [1] * 3, [1] * 700])
    sampled = sample_pairs(store, data(next_sentence=False, short=0.0), rng(1))
    assert (sampled.next_labels == IGNORE).all() and (sampled.b_lengths == 0).all()
    spans = sorted(zip(sampled.a.tolist(), sampled.a_lengths.tolist(), strict=True))
    assert [place for first, length in spans for place in range(first, first + length)] == list(range(773))
    assert sampled.lengths.max() == 32
    one = sample_pairs(store_of([[1] * 9]), data(next_sentence=False), rng(1))
    assert len(one) >= 1, "a single document is enough"


@modest
@given(
    st.sampled_from(["document", "swapped"]),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(8, 20),
    st.integers(0, 9),
)
def test_pairs_of_one_document(negatives: str, sizes: list[int], longest: int, seed: int) -> None:
    """Sentences of one token: every sentence is in A or in a B that follows or is swapped, once."""
    store = store_of([[1] * size for size in sizes])
    sampled = sample_pairs(store, data(max_length=longest, negatives=negatives), rng(seed))
    follows, negative, alone = (sampled.next_labels == label for label in (0, 1, IGNORE))
    assert (alone == (sampled.b_lengths == 0)).all() and (sampled.a_lengths > 0).all()
    assert (sampled.lengths <= longest).all()
    pairs = ~alone
    assert (owners(store, sampled.a)[pairs] == owners(store, sampled.b)[pairs]).all()
    a_end, b_end = sampled.a + sampled.a_lengths, sampled.b + sampled.b_lengths
    assert (sampled.b[follows] == a_end[follows]).all()
    used = follows | (negative & (negatives == "swapped"))
    if negatives == "swapped":
        assert (b_end[negative] == sampled.a[negative]).all(), "B is before A"
    else:
        before, after = b_end[negative] <= sampled.a[negative], sampled.b[negative] > a_end[negative]
        assert (before | after).all(), "B is not of A, and does not begin where A ends"
        assert (owners(store, b_end - 1)[negative] == owners(store, sampled.a)[negative]).all()
    spans = [*zip(sampled.a, a_end, strict=True), *zip(sampled.b[used], b_end[used], strict=True)]
    assert sorted(place for first, last in spans for place in range(first, last)) == store.tokens.tolist()


@pytest.mark.parametrize("negatives", ["document", "swapped"])
def test_half_of_the_pairs_of_one_document_are_negative(negatives: str) -> None:
    labels = sample_pairs(text_of(400), data(negatives=negatives), rng(3)).next_labels
    labels = labels[labels != IGNORE]
    assert len(labels) > 1000 and abs(labels.mean() - 0.5) < 0.04


def test_another_place_of_a_document_is_any() -> None:
    """A begins at the first sentence: B begins at each of the others equally often, but not at the next."""
    store = store_of([[4] * 12 for _ in range(4000)])
    sampled = sample_pairs(store, data(negatives="document", max_length=11, short=0.0), rng(3))
    first = (sampled.next_labels == 1) & (sampled.a % 48 == 0) & (sampled.a_lengths == 4)
    places = np.bincount(sampled.b[first] % 48 // 4, minlength=12)
    assert places[:2].sum() == 0 and (abs(places[2:] / places.sum() - 0.1) < 0.02).all()


def test_a_long_document_is_sampled_in_chunks() -> None:
    """The same inputs as of a shorter one: all of it, and B in its order."""
    store = store_of([[2] * (3 * CHUNK_SENTENCES + 5), [2] * 4])
    sampled = sample_pairs(store, data(short=0.0), rng(1))
    covered = np.zeros(len(store.tokens), bool)
    for first, length in [
        *zip(sampled.a, sampled.a_lengths, strict=True),
        *zip(sampled.b, sampled.b_lengths, strict=True),
    ]:
        covered[first : first + length] = True
    assert covered.mean() > 0.95


@modest
@given(st.integers(1, 40), st.integers(1, 40), st.integers(4, 30))
def test_the_longer_text_is_truncated_as_in_the_authors_program(a: int, b: int, room: int) -> None:
    found = truncated_lengths(room, np.array([a]), np.array([b]))
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    assert (int(found[0][0]), int(found[1][0])) == (a, b)


def test_tokens_are_removed_from_a_random_end() -> None:
    sampled = sample_pairs(store_of([[40] * 400 for _ in range(3)]), data(), rng(5))
    cut = (sampled.a - sampled.a // 40 * 40)[sampled.a_lengths > 0]
    assert cut.min() > 0 and cut.max() < 40 - 5 and 8 < cut.mean() < 18


def test_special_tokens_and_segments() -> None:
    tokens = np.array([5, 26, 7, 8, 27, 9, 29], np.uint16)  # 25 and on continue a word
    store = replace(store_of([[3, 2], [2]]), tokens=tokens)
    sampled = SampledPairs(*map(np.array, ([0, 4], [3, 1], [3, 5], [2, 2], [0, 1])))
    cls, sep = vocabulary().cls, vocabulary().sep
    row = InputBuilder(store, vocabulary(), whole_words=True)(sampled)
    assert row.ids.tolist() == [cls, 5, 26, 7, sep, 8, 27, sep, cls, 27, sep, 9, 29, sep]
    assert row.segments.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert row.words.tolist() == [-1, 0, 0, 1, -1, 2, 2, -1, -1, 3, -1, 4, 4, -1]
    assert (row.lengths.tolist(), row.word_counts.tolist()) == ([8, 6], [3, 2])
    alone = SampledPairs(*map(np.array, ([0], [3], [0], [0], [IGNORE])))
    row = InputBuilder(store, vocabulary(), whole_words=False)(alone)
    assert row.ids.tolist() == [cls, 5, 26, 7, sep] and row.segments.tolist() == [0] * 5
    assert row.words.tolist() == [-1, 0, 1, 2, -1]


def a_row(whole_words: bool, inputs: int = 3000) -> TokenizedInputs:
    store = text_of(150, seed=2)
    sampled = sample_pairs(store, data(), rng(1))
    return InputBuilder(store, vocabulary(), whole_words)(sampled.take(np.arange(inputs) % len(sampled)))


def test_the_share_of_masked_tokens_holds_in_every_input() -> None:
    row = a_row(whole_words=False)
    places = choose_masked(row, 0.15, rng(1))
    rows = np.repeat(np.arange(len(row.lengths)), row.lengths)
    assert np.bincount(rows[places], minlength=len(row.lengths)).tolist() == masked_counts(row.lengths, 0.15).tolist()
    assert abs(len(places) / len(row.ids) - 0.15) < 0.01
    assert (row.words[places] >= 0).all() and (np.diff(places) > 0).all()
    # Any token is as likely as any other of its input.
    first = np.cumsum(row.lengths) - row.lengths
    hits = np.isin(first[row.lengths == 32] + 1, places).mean()
    assert abs(hits - 5 / 29) < 0.03


def test_whole_words_are_never_masked_in_part() -> None:
    row = a_row(whole_words=True)
    places = choose_masked(row, 0.15, rng(1))
    assert set(np.flatnonzero(np.isin(row.words, row.words[places]))) == set(places.tolist())
    assert (row.words[places] >= 0).all()
    rows = np.repeat(np.arange(len(row.lengths)), row.lengths)
    counts = np.bincount(rows[places], minlength=len(row.lengths))
    assert (counts <= masked_counts(row.lengths, 0.15)).all()
    assert len(places) > 0.97 * masked_counts(row.lengths, 0.15).sum(), "words that fit fill almost all the room"


def test_everything_that_fits_is_taken_from_left_to_right() -> None:
    sizes = np.array([[3, 1, 2, 1], [1, 1, 1, 1], [9, 9, 9, 9]])
    assert take_while_fits(sizes, np.array([4, 2, 5])).tolist() == [
        [True, True, False, False], [True, True, False, False], [False] * 4,
    ]  # fmt: skip


def test_masked_tokens_are_replaced_changed_or_kept() -> None:
    row = a_row(whole_words=False)
    places = choose_masked(row, 0.15, rng(1))
    others = regular_ids(vocabulary())
    assert others.tolist() == list(range(len(SPECIALS), len(vocabulary())))
    ids = mask_tokens(row.ids, places, vocabulary().mask, others, [0.8, 0.1, 0.1], rng(2))
    untouched = np.setdiff1d(np.arange(len(ids)), places)
    assert (ids[untouched] == row.ids[untouched]).all()
    masked, same = ids[places] == vocabulary().mask, ids[places] == row.ids[places]
    changed = ~masked & ~same
    assert abs(masked.mean() - 0.8) < 0.01
    assert abs(changed.mean() - 0.1 * (1 - 1 / len(others))) < 0.01 and abs(same.mean() - 0.1) < 0.012
    assert set(ids[places][changed].tolist()) == set(others.tolist())


@pytest.mark.parametrize("shares", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.3, 0.2]])
def test_the_shares_of_masking_can_be_set(shares: list[float]) -> None:
    row = a_row(whole_words=False)
    places, others = choose_masked(row, 0.15, rng(1)), np.array([99])
    found = mask_tokens(row.ids, places, vocabulary().mask, others, shares, rng(2))[places]
    kinds = [found == vocabulary().mask, found == 99, found == row.ids[places]]
    assert [kind.mean() for kind in kinds] == pytest.approx(shares, abs=0.01)


@pytest.mark.parametrize("shares", [[0.8, 0.2], [0.8, 0.1, 0.2], [1.1, -0.1, 0.0]])
def test_shares_of_masking_add_up_to_one(shares: list[float]) -> None:
    with pytest.raises(ValidationError):
        data(masking=shares)
