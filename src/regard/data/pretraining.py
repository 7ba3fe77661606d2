"""Inputs and batches of BERT pretraining, sampled again in every epoch (Devlin et al. 2018, section 3.1 and A.2).

    [CLS] A [SEP] B [SEP]     A: some sentences of a document. B: the sentences that follow, or, half of the time,
                              others (`data.negatives`).
    [CLS] A [SEP]             without next sentence prediction

    random     B is of another document (BERT); the sentences that would have followed are used later. If only one
               sentence fits or is left, B is always of another document, as in the authors' program.
    document   B is from elsewhere in the same document; the sentences that would have followed are used later.
    swapped    A and B are exchanged: sentence order prediction (Lan et al. 2019, ALBERT, section 3.1).

An input of one sentence cannot be swapped, and a short document has no other sentences. Such an input has no B and no
label, so that half of the labels are of each kind.

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

B inputs, T tokens of the longest, N tokens of them all or of a stream, C inputs of a stream, M masked tokens, L words
of the input with most words.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from regard.data.arrays import Array, positions
from regard.data.batch import IGNORE, WHOLE, Batch, Share, Step, fill, pack_sequences, pad_rows, pad_sequences, round_up
from regard.data.planning import cut_points
from regard.data.settings import DocumentDataSettings
from regard.data.store import Store
from regard.seeding import rng
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
    starts, counts = corpus.documents[:-1], -(-np.diff(corpus.documents) // CHUNK_SENTENCES)
    documents = np.repeat(np.arange(len(corpus)), counts)  # of each chunk of sentences
    current = starts[documents] + CHUNK_SENTENCES * positions(np.zeros_like(counts), counts)
    ends, rounds = np.minimum(current + CHUNK_SENTENCES, corpus.documents[documents + 1]), []
    while len(current):
        sampled, current = _sample_next(corpus, data, rng, current, ends, documents)
        rounds.append(sampled)
        current, ends, documents = (array[current < ends] for array in (current, ends, documents))
    columns = zip(*(vars(sampled).values() for sampled in rounds), strict=True)
    return SampledPairs(*(np.concatenate(arrays) for arrays in columns))


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
    candidates = (end - begin) - (middle - current) - 1  # all sentences but those of A and the one after A
    has_b = (middle < stop) & (candidates > 0)
    is_random = has_b & drawn
    first = begin + (rng.random(len(current)) * candidates).astype(np.int64)
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
    """(M,): positions of the tokens to predict, ascending: words in random order, if all tokens of a word fit."""
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


# ---- batches, as a function of (seed, step)
#
# An epoch has as many steps as its first one. Later epochs sample other inputs, a few more or fewer: they leave out the
# last ones or begin again with their own. So every step is full, and a run that is resumed need not sample the epochs
# before.
#
# The objective is a mean over masked tokens plus a mean over inputs (A.2). A step is divided once, by its M tokens; so
# each next-sentence loss has the weight M/B, which is the same for all shards of the step.


INPUTS, ORDER, WORDS = range(3)
"""Purposes of random numbers, each with its own stream."""
UNIT = 64
"""Packed streams have a multiple of this many tokens, inputs and masked tokens."""


class MaskedInputs(NamedTuple):
    """Inputs end to end, and the tokens to predict."""

    ids: Array
    """(N,): tokens that the model reads"""
    segments: Array
    """(N,)"""
    lengths: Array
    """(B,)"""
    masked: Array
    """(M,): positions at which tokens are predicted: those of the masked tokens"""
    labels: Array
    """(M,): the tokens to predict"""
    next_labels: Array
    """(B,): 0 if B follows A, 1 if not, IGNORE if there is no B"""

    @property
    def next_weight(self) -> float:
        """M/B: weight of one of `next_labels` relative to one of `labels`; 0 without next sentence prediction."""
        inputs = int((self.next_labels != IGNORE).sum())
        return len(self.masked) / inputs if inputs else 0.0

    def shard(self, index: int, shards: int) -> "MaskedInputs":
        """Every n-th input."""
        if shards == 1:
            return self
        starts, lengths = np.cumsum(self.lengths) - self.lengths, self.lengths[index::shards]
        tokens = positions(starts[index::shards], lengths)
        label_index = np.full(len(self.ids), -1)
        label_index[self.masked] = np.arange(len(self.masked))
        label_index = label_index[tokens]
        masked = np.flatnonzero(label_index >= 0)
        labels, next_labels = self.labels[label_index[masked]], self.next_labels[index::shards]
        return MaskedInputs(self.ids[tokens], self.segments[tokens], lengths, masked, labels, next_labels)


class MaskedCapacity(NamedTuple):
    """Size of a packed batch, the same for all steps."""

    tokens: int
    inputs: int
    masked: int

    def divided(self, shards: int) -> "MaskedCapacity":
        """Capacity of one of several shards, with some slack because shards differ."""
        return self if shards == 1 else MaskedCapacity(*(int(size / shards * 1.05) for size in self))


class Objective(Protocol):
    """Builds inputs of a model from sampled ones, with the tokens to predict."""

    pad_id: int

    def __init__(self, corpus: TokenizedDocuments, data: DocumentDataSettings, vocabulary: MaskedTokenizer) -> None: ...

    def __call__(self, sampled: SampledPairs, rng: np.random.Generator) -> MaskedInputs: ...

    def counts(self, lengths: Array) -> Array:
        """Number of tokens to predict in inputs of these lengths, (B,), or a little more."""


class Masking:
    """The objective of BERT: gathers the tokens of inputs and masks some."""

    def __init__(self, corpus: TokenizedDocuments, data: DocumentDataSettings, vocabulary: MaskedTokenizer) -> None:
        self._build = InputBuilder(corpus, vocabulary, data.whole_words)
        self._rate, self._shares = data.masked, data.masking
        self.pad_id, self._mask_id, self._random_ids = vocabulary.pad, vocabulary.mask, regular_ids(vocabulary)

    def __call__(self, sampled: SampledPairs, rng: np.random.Generator) -> MaskedInputs:
        inputs = self._build(sampled)
        masked = choose_masked(inputs, self._rate, rng)
        ids = mask_tokens(inputs.ids, masked, self._mask_id, self._random_ids, self._shares, rng)
        return MaskedInputs(ids, inputs.segments, inputs.lengths, masked, inputs.ids[masked], inputs.next_labels)

    def counts(self, lengths: Array) -> Array:
        return masked_counts(lengths, self._rate)


class NextTokens:
    """The objective of a left-to-right model: each token predicts the next one, unless that is [CLS] or [SEP]."""

    def __init__(self, corpus: TokenizedDocuments, data: DocumentDataSettings, vocabulary: MaskedTokenizer) -> None:
        self._build, self.pad_id = InputBuilder(corpus, vocabulary, whole_words=False), vocabulary.pad

    def __call__(self, sampled: SampledPairs, rng: np.random.Generator) -> MaskedInputs:
        inputs = self._build(sampled)
        predicted = np.flatnonzero(inputs.words >= 0)
        labels = inputs.ids[predicted]
        return MaskedInputs(inputs.ids, inputs.segments, inputs.lengths, predicted - 1, labels, inputs.next_labels)

    def counts(self, lengths: Array) -> Array:
        return lengths - 1


def pad_masked(inputs: MaskedInputs, next_weight: float, pad_id: int) -> Batch:
    """Padded batch.

    source, segments     (B, T)
    masked_positions     (M,) index of each masked token among all tokens, b T + t
    labels               (M,)
    next_labels          (B,)
    next_weight          ()
    """
    rows = inputs.ids, inputs.lengths
    inside = np.arange(inputs.lengths.max()) < inputs.lengths[:, None]
    arrays = {
        **pad_sequences("source", rows, pad_id),
        "segments": pad_rows((inputs.segments, inputs.lengths), 0),
        "masked_positions": np.flatnonzero(inside)[inputs.masked],
        "labels": inputs.labels,
        "next_labels": inputs.next_labels,
        "next_weight": np.array(next_weight, np.float32),
    }
    return Batch.of(arrays, tokens=len(inputs.ids))


def pack_masked(inputs: MaskedInputs, next_weight: float, pad_id: int, capacity: MaskedCapacity) -> Batch:
    """Packed batch with the same tensors; larger than `capacity` only if the inputs need it, which is rare."""
    size = round_up(max(capacity.tokens, len(inputs.ids)), UNIT)
    sequences = round_up(max(capacity.inputs, len(inputs.lengths)) + 1, UNIT)
    masked = round_up(max(capacity.masked, len(inputs.masked)), UNIT)
    arrays = {
        **pack_sequences("source", (inputs.ids, inputs.lengths), size, sequences, pad_id),
        "segments": fill(inputs.segments, size, 0),
        "masked_positions": fill(inputs.masked, masked, 0),
        "labels": fill(inputs.labels, masked, pad_id),
        "next_labels": fill(inputs.next_labels, sequences, IGNORE),
        "next_weight": np.array(next_weight, np.float32),
    }
    return Batch.of(arrays, tokens=len(inputs.ids))


class PretrainingBatches:
    """Steps of pretraining; a `BatchSource`."""

    def __init__(
        self,
        corpus: TokenizedDocuments,
        data: DocumentDataSettings,
        vocabulary: MaskedTokenizer,
        batch_tokens: int,
        seed: int,
        share: Share = WHOLE,
        *,
        packed: bool = False,
        objective: type[Objective] = Masking,
    ) -> None:
        """A step has at most `batch_tokens` tokens, divided among the shards."""
        self._corpus, self._data, self._seed, self._share = corpus, data, seed, share
        self._objective = objective(corpus, data, vocabulary)
        self._batch_tokens = batch_tokens
        sampled, order = self._sample(0)
        points = cut_points([sampled.lengths[order]], [batch_tokens])
        self._steps = max(1, len(points) - 2)  # the last one is not full
        self._current = 0, sampled, self._plan(sampled, order)
        steps = [sampled.lengths[indices] for indices in self._current[2]]
        masked = max(int(self._objective.counts(lengths).sum()) for lengths in steps)
        # later epochs have a few more inputs in a step
        self.capacity = MaskedCapacity(batch_tokens, int(max(map(len, steps)) * 1.05), int(masked * 1.02))
        self._packed = packed

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch, index = divmod(step, self._steps)
        if self._current[0] != epoch:
            sampled, order = self._sample(epoch)
            self._current = epoch, sampled, self._plan(sampled, order)
        _, sampled, plan = self._current
        inputs = self._objective(sampled.take(plan[index]), rng(self._seed, epoch, WORDS, index))
        micro_batches = [self._micro_batch(inputs, shard) for shard in self._share.shards]
        return Step(micro_batches, len(inputs.masked), len(inputs.ids), epoch)

    def steps_in_epoch(self, epoch: int = 0) -> int:
        """Number of steps of an epoch, the same for all epochs."""
        return self._steps

    def _sample(self, epoch: int) -> tuple[SampledPairs, Array]:
        """Inputs of an epoch, and a shuffle of them."""
        sampled = sample_pairs(self._corpus, self._data, rng(self._seed, epoch, INPUTS))
        return sampled, rng(self._seed, epoch, ORDER).permutation(len(sampled))

    def _plan(self, sampled: SampledPairs, order: Array) -> list[Array]:
        """Inputs of each step of an epoch: the shuffle, repeated as often as needed, cut where a step is full."""
        lengths = sampled.lengths[order]
        times = 1 + -(-self._steps * self._batch_tokens // int(lengths.sum()))
        repeated = np.tile(order, times)
        points = cut_points([np.tile(lengths, times)], [self._batch_tokens])[: self._steps + 1]
        return [repeated[first : min(last, first + len(order))] for first, last in pairwise(points)]

    def _micro_batch(self, inputs: MaskedInputs, shard: int) -> Batch:
        """Every n-th input of a step; if there are fewer inputs than shards, a batch without labels."""
        if shard >= len(inputs.lengths):
            batch = self._lay_out(inputs.shard(0, len(inputs.lengths)), 0.0)
            return batch.without_labels(labels=self._objective.pad_id, next_labels=IGNORE)
        return self._lay_out(inputs.shard(shard, self._share.count), inputs.next_weight)

    def _lay_out(self, inputs: MaskedInputs, next_weight: float) -> Batch:
        if self._packed:
            return pack_masked(inputs, next_weight, self._objective.pad_id, self.capacity.divided(self._share.count))
        return pad_masked(inputs, next_weight, self._objective.pad_id)


def evaluation_batches(
    corpus: TokenizedDocuments,
    data: DocumentDataSettings,
    vocabulary: MaskedTokenizer,
    batch_tokens: int,
    seed: int,
    objective: type[Objective] = Masking,
) -> Iterator[Batch]:
    """All documents once; inputs and masked tokens depend on the seed only."""
    sampled, build = sample_pairs(corpus, data, rng(seed, INPUTS)), objective(corpus, data, vocabulary)
    for number, (first, last) in enumerate(pairwise(cut_points([sampled.lengths], [batch_tokens]))):
        inputs = build(sampled.take(np.arange(first, last)), rng(seed, WORDS, number))
        yield pad_masked(inputs, inputs.next_weight, build.pad_id)
