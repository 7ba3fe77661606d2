"""Inputs of BERT pretraining, sampled again in every epoch (Devlin et al. 2018, section 3.1 and A.2).

    [CLS] A [SEP] B [SEP]     A: some sentences of a document. B: the sentences that follow, or, half of the time,
                              others (`data.negatives`).
    [CLS] A [SEP]             without next sentence prediction

    random     B is of another document (BERT); the sentences that would have followed are used later. If only one
               sentence fits or is left, B is always of another document, as in the authors' program.
    document   B is of another place of the same document; the sentences that would have followed are used later.
    swapped    A and B are exchanged: sentence order prediction (Lan et al. 2019, ALBERT, section 3.1).

An input of one sentence cannot be swapped, and a document of few sentences has no other place. Such an input has no B
and no label, so that half of the labels are of each kind.

Sentences are taken until an input is full, A ends after any of them, and what is too long loses tokens at either end.
The authors' program does the same. Here all documents are sampled at once, one input of each at a time. Both texts are
contiguous in the store, so a sampled input is where they begin and how long they are; the tokens are gathered when the
batch is needed.

Then tokens are masked (section 3.1, task 1, and A.1): 15 % of the tokens of an input are chosen (`data.masked`), and of
these (`data.masking`)

    80 %  become [MASK]             my dog is hairy -> my dog is [MASK]
    10 %  become a random token     my dog is hairy -> my dog is apple
    10 %  stay unchanged            my dog is hairy -> my dog is hairy

so that a model, which never sees [MASK] after pretraining, keeps a representation of every token. "Whole word masking",
published later by the same authors, chooses whole words instead of single tokens.

B inputs, N tokens of them all, M masked tokens, L words of the input with most words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.data.arrays import Array, positions
from regard.data.batch import IGNORE
from regard.data.settings import DocumentDataSettings
from regard.data.store import Store
from regard.text.inputs import MaskedTokenizer

RANDOM_NEXT = 1
"""The label of an input whose second text does not follow the first; 0 if it does."""
CHUNK_SENTENCES = 1024
"""Long documents are sampled in chunks of this many sentences, in parallel."""


@dataclass(frozen=True)
class TokenizedDocuments:
    """Documents of sentences of tokens. No sentence and no document is empty."""

    tokens: Array
    """All sentences end to end."""
    sentences: Array
    """(sentences + 1,): first token of each sentence"""
    documents: Array
    """(documents + 1,): first sentence of each document"""
    fingerprint: str = ""

    @classmethod
    def of(cls, store: Store) -> "TokenizedDocuments":
        """The documents of a store that a `SentenceEncoder` made."""
        return cls(store.values("tokens"), store.offsets("tokens"), store.groups, store.fingerprint)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1


@dataclass(frozen=True)
class SampledPairs:
    """Inputs of an epoch, in sampling order: where A and B begin in the store, and their lengths, (B,) each.

    `next_labels` is 0 if B follows A, 1 if it does not, IGNORE if there is no B.
    """

    a: Array
    a_lengths: Array
    b: Array
    b_lengths: Array
    next_labels: Array

    def __len__(self) -> int:
        return len(self.a)

    @property
    def lengths(self) -> Array:
        """(B,): tokens of each input, special tokens included."""
        return self.a_lengths + self.b_lengths + np.where(self.next_labels == IGNORE, 2, 3)

    def take(self, indices: Array) -> "SampledPairs":
        """Some of the inputs."""
        return SampledPairs(*(array[indices] for array in vars(self).values()))


def sample_pairs(corpus: TokenizedDocuments, data: DocumentDataSettings, rng: np.random.Generator) -> SampledPairs:
    """Inputs of all sentences of all documents; next sentence prediction needs two documents at least."""
    current, ends, documents = document_chunks(corpus)
    rounds = []
    while len(current):
        sampled, current = _sample_next(corpus, data, rng, current, ends, documents)
        rounds.append(sampled)
        current, ends, documents = (array[current < ends] for array in (current, ends, documents))
    columns = zip(*(vars(sampled).values() for sampled in rounds), strict=True)
    return SampledPairs(*(np.concatenate(arrays) for arrays in columns))


def document_chunks(corpus: TokenizedDocuments) -> tuple[Array, Array, Array]:
    """First and last sentence of each chunk of sentences, and its document."""
    starts, sizes = corpus.documents[:-1], np.diff(corpus.documents)
    counts = -(-sizes // CHUNK_SENTENCES)
    documents = np.repeat(np.arange(len(corpus)), counts)
    first = starts[documents] + CHUNK_SENTENCES * positions(np.zeros_like(counts), counts)
    return first, np.minimum(first + CHUNK_SENTENCES, corpus.documents[documents + 1]), documents


def _sample_next(
    corpus: TokenizedDocuments,
    data: DocumentDataSettings,
    rng: np.random.Generator,
    current: Array,
    ends: Array,
    documents: Array,
) -> tuple[SampledPairs, Array]:
    """Next input of every chunk of sentences, and the sentence after it."""
    max_tokens = data.max_length - (3 if data.next_sentence else 2)
    short = rng.random(len(current)) < data.short
    lengths = np.where(short, rng.integers(2, max_tokens + 1, len(current)), max_tokens)
    stop = _end_of_sentences(corpus, current, ends, lengths)
    if not data.next_sentence:
        a, a_lengths = _truncate(*_token_spans(corpus, current, stop), np.full_like(current, max_tokens), rng)
        return SampledPairs(a, a_lengths, a, np.zeros_like(a), np.full_like(a, IGNORE)), stop
    middle = current + 1 + (rng.random(len(current)) * (stop - current - 1)).astype(np.int64)
    drawn = rng.random(len(current)) < 0.5
    spans = Spans(current, np.where(stop - current == 1, stop, middle), stop, documents, lengths)
    (first, last), (next_first, next_last), next_labels, after = NEGATIVES[data.negatives](corpus, spans, drawn, rng)
    a, a_lengths = _token_spans(corpus, first, last)
    b, b_lengths = _token_spans(corpus, next_first, next_last)
    a_max, b_max = truncated_lengths(max_tokens, a_lengths, b_lengths)
    a, a_lengths = _truncate(a, a_lengths, a_max, rng)
    b, b_lengths = _truncate(b, b_lengths, b_max, rng)
    return SampledPairs(a, a_lengths, b, b_lengths, next_labels), after


class Spans(NamedTuple):
    """Sentences of an input of each chunk: A is from `current` to `middle`, the next sentences are to `stop`."""

    current: Array
    middle: Array
    """Equal to `stop` for an input of one sentence."""
    stop: Array
    documents: Array
    lengths: Array
    """Tokens that an input should have."""

    def remaining(self, corpus: TokenizedDocuments) -> Array:
        """Tokens that are left for B; at least one."""
        return np.maximum(self.lengths - _token_spans(corpus, self.current, self.middle)[1], 1)


class SampledSentences(NamedTuple):
    """First and last sentence of A and of B, the labels, and the sentence at which the next input begins."""

    a: tuple[Array, Array]
    b: tuple[Array, Array]
    next_labels: Array
    after: Array


Negatives = Callable[[TokenizedDocuments, Spans, Array, np.random.Generator], SampledSentences]
"""Chooses A and B where `drawn` says that B should not follow A."""


def _other_document(
    corpus: TokenizedDocuments, spans: Spans, drawn: Array, rng: np.random.Generator
) -> SampledSentences:
    """B of any other document."""
    current, middle, stop, documents, _ = spans
    is_random = (middle == stop) | drawn
    others = rng.integers(0, len(corpus) - 1, len(current))
    others += others >= documents  # any document but this one
    first, last = corpus.documents[others], corpus.documents[others + 1]
    first = first + (rng.random(len(current)) * (last - first)).astype(np.int64)
    other_stop = _end_of_sentences(corpus, first, last, spans.remaining(corpus))
    b = np.where(is_random, first, middle), np.where(is_random, other_stop, stop)
    return SampledSentences((current, middle), b, is_random.astype(np.int64), np.where(is_random, middle, stop))


def _same_document(
    corpus: TokenizedDocuments, spans: Spans, drawn: Array, rng: np.random.Generator
) -> SampledSentences:
    """B of the same document, but neither of A nor what follows it; a B before A ends before A."""
    current, middle, stop, documents, _ = spans
    begin, end = corpus.documents[documents], corpus.documents[documents + 1]
    places = (end - begin) - (middle - current) - 1  # all sentences but those of A and the one after A
    has_b = (middle < stop) & (places > 0)
    is_random = has_b & drawn
    first = begin + (rng.random(len(current)) * places).astype(np.int64)
    first = np.where(first < current, first, first + middle - current + 1)
    first = np.where(is_random, first, middle)
    limit = np.where(first < current, current, end)
    other_stop = _end_of_sentences(corpus, np.minimum(first, end - 1), limit, spans.remaining(corpus))
    last = np.where(has_b, np.where(is_random, other_stop, stop), first)
    after = np.where(is_random, middle, stop)
    return SampledSentences((current, np.where(has_b, middle, stop)), (first, last), _labels(is_random, has_b), after)


def _swapped(corpus: TokenizedDocuments, spans: Spans, drawn: Array, rng: np.random.Generator) -> SampledSentences:
    """A and B exchanged."""
    current, middle, stop, *_ = spans
    has_b = middle < stop
    is_swapped = has_b & drawn
    a = np.where(is_swapped, middle, current), np.where(is_swapped, stop, middle)
    b = np.where(is_swapped, current, middle), np.where(is_swapped, middle, stop)
    return SampledSentences(a, b, _labels(is_swapped, has_b), stop)


NEGATIVES: dict[str, Negatives] = {"random": _other_document, "document": _same_document, "swapped": _swapped}


def _labels(is_negative: Array, has_b: Array) -> Array:
    """`next_labels`, IGNORE where there is no B."""
    return np.where(has_b, is_negative.astype(np.int64), IGNORE)


def _end_of_sentences(corpus: TokenizedDocuments, first: Array, last: Array, lengths: Array) -> Array:
    """Sentence before which `lengths` tokens are reached from `first` on; at least one sentence, at most to `last`."""
    reached = np.searchsorted(corpus.sentences, corpus.sentences[first] + lengths, side="left")
    return np.minimum(np.maximum(reached, first + 1), last)


def _token_spans(corpus: TokenizedDocuments, first: Array, last: Array) -> tuple[Array, Array]:
    """First token and number of tokens of the sentences from `first` to `last`."""
    starts = corpus.sentences[first]
    return starts, corpus.sentences[last] - starts


def truncated_lengths(max_tokens: int, a_lengths: Array, b_lengths: Array) -> tuple[Array, Array]:
    """Lengths of both texts if the longer one loses tokens until both fit; the second if they are equal."""
    b = np.minimum(b_lengths, np.maximum(max_tokens // 2, max_tokens - a_lengths))
    return np.minimum(a_lengths, max_tokens - b), b


def _truncate(starts: Array, lengths: Array, max_lengths: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Truncate each text; every token is removed from a random end."""
    excess = np.maximum(lengths - max_lengths, 0)
    return starts + rng.binomial(excess, 0.5), lengths - excess


class TokenizedInputs(NamedTuple):
    """Some inputs, end to end."""

    ids: Array
    """(N,)"""
    segments: Array
    """(N,): 0 for the tokens of A, 1 for those of B"""
    words: Array
    """(N,): word of each token, counted through all inputs from 0; -1 for special tokens"""
    word_counts: Array
    """(B,): words of each input"""
    lengths: Array
    """(B,)"""
    next_labels: Array
    """(B,)"""


class InputBuilder:
    """Gathers the tokens of sampled inputs and adds the special tokens."""

    def __init__(self, corpus: TokenizedDocuments, vocabulary: MaskedTokenizer, whole_words: bool) -> None:
        """With `whole_words` a word is all its tokens; without it every token is a word."""
        self._tokens, self._cls, self._sep = corpus.tokens, vocabulary.cls, vocabulary.sep
        self._continues = np.array(
            [whole_words and vocabulary.continues_word(token) for token in range(len(vocabulary))]
        )

    def __call__(self, sampled: SampledPairs) -> TokenizedInputs:
        """[CLS] A [SEP] B [SEP] of every input, or [CLS] A [SEP]."""
        lengths, has_b = sampled.lengths, sampled.next_labels != IGNORE
        starts = np.cumsum(lengths) - lengths
        b_starts = starts + 2 + sampled.a_lengths
        ids = np.full(lengths.sum(), self._sep, np.int64)
        ids[starts] = self._cls
        special = np.ones(len(ids), bool)
        for begins, tokens, sizes in (
            (starts + 1, sampled.a, sampled.a_lengths),
            (b_starts, sampled.b, sampled.b_lengths),
        ):
            span = positions(begins, sizes)
            ids[span], special[span] = self._tokens[positions(tokens, sizes)], False
        segments = np.zeros(len(ids), np.int64)
        segments[positions(b_starts, np.where(has_b, sampled.b_lengths + 1, 0))] = 1
        is_first = ~self._continues[ids]
        is_first[1:] |= special[:-1]  # a text may begin inside a word
        is_first &= ~special
        words = np.where(special, -1, np.cumsum(is_first) - 1)
        word_counts = np.add.reduceat(is_first, starts, dtype=np.int64)
        return TokenizedInputs(ids, segments, words, word_counts, lengths, sampled.next_labels)


def masked_counts(lengths: Array, rate: float) -> Array:
    """Number of tokens to mask in each input: at least one."""
    return np.maximum(1, np.rint(lengths * rate)).astype(np.int64)


def choose_masked(inputs: TokenizedInputs, rate: float, rng: np.random.Generator) -> Array:
    """(M,): positions of the tokens to predict, ascending.

    Words are visited in random order. Each is taken if all its tokens still fit into the number of tokens to mask.
    """
    counts = inputs.word_counts
    exists = np.arange(counts.max(initial=0)) < counts[:, None]  # (B, L)
    sizes = np.full(exists.shape, len(inputs.ids))
    sizes[exists] = np.bincount(inputs.words[inputs.words >= 0], minlength=counts.sum())
    order = np.argsort(rng.random(exists.shape, np.float32) + ~exists, axis=1)
    taken = np.empty_like(exists)
    in_order = take_while_fits(np.take_along_axis(sizes, order, axis=1), masked_counts(inputs.lengths, rate))
    np.put_along_axis(taken, order, in_order, axis=1)
    is_masked = np.append(taken[exists], False)  # special tokens are of word -1
    return np.flatnonzero(is_masked[inputs.words])


def take_while_fits(sizes: Array, budgets: Array) -> Array:
    """(B, L) bool: greedy choice from left to right of everything that still fits into the budget of its row."""
    left, taken = budgets.copy(), np.zeros(sizes.shape, bool)
    for column in range(sizes.shape[1]):
        fits = sizes[:, column] <= left
        taken[:, column] = fits
        left -= np.where(fits, sizes[:, column], 0)
        if not left.any():
            break
    return taken


def regular_ids(vocabulary: MaskedTokenizer) -> Array:
    """Ids of all tokens but the special ones."""
    special = vocabulary.special_tokens
    return np.array([index for index, entry in enumerate(vocabulary.entries) if entry not in special])


def mask_tokens(
    ids: Array, masked: Array, mask_id: int, random_ids: Array, shares: Sequence[float], rng: np.random.Generator
) -> Array:
    """(N,): tokens, of those at `masked` the first share replaced by `mask_id`, the second by any of `random_ids`."""
    result, draws = ids.copy(), rng.random(len(masked))
    result[masked[draws < shares[0]]] = mask_id
    random_positions = masked[draws >= 1 - shares[1]]
    result[random_positions] = rng.choice(random_ids, len(random_positions))
    return result
