"""Hiding words that are then asked for (Devlin et al. 2018, section 3.1, task 1, and A.1).

    15 % of the tokens of an input are chosen, and of these
    80 %  become [MASK]            my dog is hairy -> my dog is [MASK]
    10 %  become any other piece   my dog is hairy -> my dog is apple
    10 %  stay                     my dog is hairy -> my dog is hairy

so that a model, which never meets [MASK] when it is used, must keep a view of every word. "Whole word masking", which
the same authors published later, chooses words with all their pieces instead of single pieces.

B inputs, N tokens, M chosen ones, L words of the input that has most.
"""

import numpy as np

from regard.data.arrays import Array
from regard.data.pretraining import Row
from regard.text.bert import SPECIALS, BertVocabulary


def wanted(lengths: Array, share: float) -> Array:
    """How many tokens of each input are to be chosen: at least one."""
    return np.maximum(1, np.rint(lengths * share)).astype(np.int64)


def choose(row: Row, share: float, rng: np.random.Generator) -> Array:
    """(M,) the places of the tokens that are asked for, in order.

    Words come up by lot, and each is taken that still has room among the tokens wanted.
    """
    counts = row.counts
    real = np.arange(counts.max(initial=0)) < counts[:, None]  # (B, L)
    sizes = np.full(real.shape, len(row.ids))
    sizes[real] = np.bincount(row.words[row.words >= 0], minlength=counts.sum())
    order = np.argsort(rng.random(real.shape, np.float32) + ~real, axis=1)
    taken = np.empty_like(real)
    in_turn = greedily(np.take_along_axis(sizes, order, axis=1), wanted(row.lengths, share))
    np.put_along_axis(taken, order, in_turn, axis=1)
    chosen = np.append(taken[real], False)  # special symbols are of word -1
    return np.flatnonzero(chosen[row.words])


def greedily(sizes: Array, room: Array) -> Array:
    """Of each row (B, L), from left to right, whatever still fits into its room."""
    left, taken = room.copy(), np.zeros(sizes.shape, bool)
    for column in range(sizes.shape[1]):
        fits = sizes[:, column] <= left
        taken[:, column] = fits
        left -= np.where(fits, sizes[:, column], 0)
        if not left.any():
            break
    return taken


def ordinary(vocabulary: BertVocabulary) -> Array:
    """The numbers of all pieces that are no special symbols."""
    return np.array([number for number, entry in enumerate(vocabulary.entries) if entry not in SPECIALS])


def hide(ids: Array, places: Array, mask: int, others: Array, rng: np.random.Generator) -> Array:
    """(N,) the tokens with those at `places` hidden: 80 % are `mask`, 10 % any of `others`, 10 % as they were."""
    hidden, lot = ids.copy(), rng.random(len(places))
    hidden[places[lot < 0.8]] = mask
    strange = places[lot >= 0.9]
    hidden[strange] = rng.choice(others, len(strange))
    return hidden
