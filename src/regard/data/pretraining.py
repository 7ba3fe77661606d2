"""The inputs BERT learns from, drawn anew for every epoch (Devlin et al. 2018, section 3.1 and A.2).

    [CLS] A [SEP] B [SEP]     A: some sentences of a document. B: those that come next, or, half of the time, some of
                              another document; the sentences that would have come next are then used later.
    [CLS] A [SEP]             where it is not asked whether B comes next

Sentences are taken until an input is full, A ends after any of them, and what is too long loses pieces at either end:
the authors' program does it so, and this does the same for all documents at once, an input of each at a time. Both
texts lie as they are in the store, so an input is where they begin and how long they are; its tokens are gathered when
their batch is due.

B inputs, N tokens of them all.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.data.arrays import Array, positions
from regard.data.document_store import DocumentStore
from regard.data.documents import DocumentDataSettings
from regard.data.inputs import IGNORE
from regard.text.bert import BertVocabulary

LANE = 1024
"""Sentences of a long document that are walked through one input at a time; the next so many are another's walk."""


@dataclass(frozen=True)
class Drawn:
    """The inputs of an epoch, in the order of drawing: where A and B begin among the pieces, how long they are, and
    whether B comes next (0), does not (1), or is not asked about (IGNORE): then it is not there."""

    a: Array
    a_lengths: Array
    b: Array
    b_lengths: Array
    next: Array

    def __len__(self) -> int:
        return len(self.a)

    @property
    def lengths(self) -> Array:
        """(B,) the tokens of each input, special symbols included."""
        return self.a_lengths + self.b_lengths + np.where(self.next == IGNORE, 2, 3)

    def take(self, inputs: Array) -> "Drawn":
        """Some of them."""
        return Drawn(*(array[inputs] for array in vars(self).values()))


def draw_inputs(store: DocumentStore, data: DocumentDataSettings, rng: np.random.Generator) -> Drawn:
    """Every sentence of every document, put together; of two documents at least, where B may be of another."""
    here, ends, owners = lanes(store)
    parts = []
    while len(here):
        drawn, here = draw_next(store, data, rng, here, ends, owners)
        parts.append(drawn)
        here, ends, owners = (array[here < ends] for array in (here, ends, owners))
    return Drawn(*(np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))


def lanes(store: DocumentStore) -> tuple[Array, Array, Array]:
    """Where each walk begins and ends among the sentences, and the document it goes through."""
    starts, sizes = store.documents[:-1], np.diff(store.documents)
    counts = -(-sizes // LANE)
    owners = np.repeat(np.arange(len(store)), counts)
    first = starts[owners] + LANE * positions(np.zeros_like(counts), counts)
    return first, np.minimum(first + LANE, store.documents[owners + 1]), owners


def draw_next(
    store: DocumentStore, data: DocumentDataSettings, rng: np.random.Generator, here: Array, ends: Array, owners: Array
) -> tuple[Drawn, Array]:
    """The next input of every walk, and where it goes on from there."""
    room = data.max_length - (3 if data.next_sentence else 2)
    short = rng.random(len(here)) < data.short
    wanted = np.where(short, rng.integers(2, room + 1, len(here)), room)
    stop = filled(store, here, ends, wanted)
    if not data.next_sentence:
        a, a_lengths = shortened(*spans(store, here, stop), np.full_like(here, room), rng)
        return Drawn(a, a_lengths, a, np.zeros_like(a), np.full_like(a, IGNORE)), stop
    middle = here + 1 + (rng.random(len(here)) * (stop - here - 1)).astype(np.int64)
    alone = stop - here == 1
    strange = alone | (rng.random(len(here)) < 0.5)
    middle = np.where(alone, stop, middle)
    a, a_lengths = spans(store, here, middle)
    others = rng.integers(0, len(store) - 1, len(here))
    others += others >= owners  # any document but this one
    first, last = store.documents[others], store.documents[others + 1]
    first = first + (rng.random(len(here)) * (last - first)).astype(np.int64)
    far = filled(store, first, last, np.maximum(wanted - a_lengths, 1))
    b, b_lengths = spans(store, np.where(strange, first, middle), np.where(strange, far, stop))
    a_room, b_room = shared(room, a_lengths, b_lengths)
    a, a_lengths = shortened(a, a_lengths, a_room, rng)
    b, b_lengths = shortened(b, b_lengths, b_room, rng)
    return Drawn(a, a_lengths, b, b_lengths, strange.astype(np.int64)), np.where(strange, middle, stop)


def filled(store: DocumentStore, first: Array, last: Array, wanted: Array) -> Array:
    """The sentence after which `wanted` pieces are reached from `first` on, but no later than `last`; at least one."""
    reached = np.searchsorted(store.sentences, store.sentences[first] + wanted, side="left")
    return np.minimum(np.maximum(reached, first + 1), last)


def spans(store: DocumentStore, first: Array, last: Array) -> tuple[Array, Array]:
    """Where the pieces of these sentences begin, and how many they are."""
    starts = store.sentences[first]
    return starts, store.sentences[last] - starts


def shared(room: int, a_lengths: Array, b_lengths: Array) -> tuple[Array, Array]:
    """What two texts keep if the longer one loses pieces until both fit, the second where they are equal."""
    b = np.minimum(b_lengths, np.maximum(room // 2, room - a_lengths))
    return np.minimum(a_lengths, room - b), b


def shortened(starts: Array, lengths: Array, room: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """As much of each text as there is room for; every piece that goes is taken from either end by lot."""
    excess = np.maximum(lengths - room, 0)
    return starts + rng.binomial(excess, 0.5), lengths - excess


class Row(NamedTuple):
    """Some inputs, end to end."""

    ids: Array
    """(N,)"""
    segments: Array
    """(N,) which of the two texts a token is of"""
    words: Array
    """(N,) the word of each token, counted through all inputs from 0; -1 for special symbols"""
    counts: Array
    """(B,) the words of each input"""
    lengths: Array
    """(B,)"""
    next: Array
    """(B,)"""


class Assembly:
    """Puts the tokens of inputs together."""

    def __init__(self, store: DocumentStore, vocabulary: BertVocabulary, whole_words: bool) -> None:
        """With `whole_words` the pieces of a word are one word; without it every piece is one."""
        self._pieces, self._cls, self._sep = store.pieces, vocabulary.cls, vocabulary.sep
        self._continues = np.array([whole_words and entry.startswith("##") for entry in vocabulary.entries])

    def __call__(self, drawn: Drawn) -> Row:
        """[CLS] A [SEP] B [SEP] of every input, or [CLS] A [SEP]."""
        lengths, pair = drawn.lengths, drawn.next != IGNORE
        begins = np.cumsum(lengths) - lengths
        ids = np.full(lengths.sum(), self._sep, np.int64)
        ids[begins] = self._cls
        special = np.ones(len(ids), bool)
        texts = ((begins + 1, drawn.a, drawn.a_lengths), (begins + 2 + drawn.a_lengths, drawn.b, drawn.b_lengths))
        for places, starts, sizes in texts:
            there = positions(places, sizes)
            ids[there], special[there] = self._pieces[positions(starts, sizes)], False
        segments = np.zeros(len(ids), np.int64)
        segments[positions(begins + 2 + drawn.a_lengths, np.where(pair, drawn.b_lengths + 1, 0))] = 1
        first = ~self._continues[ids]
        first[1:] |= special[:-1]  # a text may begin inside a word
        first &= ~special
        words = np.where(special, -1, np.cumsum(first) - 1)
        return Row(ids, segments, words, np.add.reduceat(first, begins, dtype=np.int64), lengths, drawn.next)
