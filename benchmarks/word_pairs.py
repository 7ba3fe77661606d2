"""A dictionary from parallel sentences: IBM Model 1 in both directions (Brown et al. 1993).

In Model 1, each target word f of a sentence is the translation of one of its source words e, and all of them are
equally likely before f is seen. Expectation and maximisation estimate the translation probabilities:

    c(e, f) = sum over sentences of  t(f | e) / (sum over e' in the sentence of t(f | e'))
    t(f | e) = c(e, f) / (sum over f' of c(e, f'))

A pair of words is kept if each is the most likely translation of the other.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"(?:\b(?:[cdjlmnst]|qu)['’])?([^\W\d_]+(?:['’-][^\W\d_]+)*)", re.IGNORECASE)
"""A word, without an elided French article or pronoun: étagère of l'étagère."""
MAX_WORDS = 20
"""Longer sentences are left out."""
ROUNDS = 6
MIN_COUNT = 3
"""Sentences that have both words."""
MIN_PROBABILITY = 0.06
"""Of the product t(f | e) t(e | f)."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def word_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Words and their translations, the most frequent first, each written as in most sentences."""
    sentences = [(WORD.findall(src), WORD.findall(tgt)) for src, tgt in pairs]
    sentences = [pair for pair in sentences if all(0 < len(words) <= MAX_WORDS for words in pair)]
    sources, source_rows = number_words([src for src, _ in sentences])
    targets, target_rows = number_words([tgt for _, tgt in sentences])
    # one entry for each source and target word of a sentence
    sizes = [(len(src), len(tgt)) for src, tgt in sentences]
    source_places = np.concatenate([np.repeat(np.arange(n), m) for n, m in sizes]) + offsets(sizes, 0)
    target_places = np.concatenate([np.tile(np.arange(m), n) for n, m in sizes]) + offsets(sizes, 1)
    codes = np.concatenate(source_rows)[source_places] * len(targets) + np.concatenate(target_rows)[target_places]
    keys, entries, counts = np.unique(codes, return_inverse=True, return_counts=True)
    source_ids, target_ids = np.divmod(keys, len(targets))
    product = estimate(source_ids, entries, target_places) * estimate(target_ids, entries, source_places)
    product[(counts < MIN_COUNT) | (product < MIN_PROBABILITY)] = 0
    best = (product > 0) & (product == maxima(product, source_ids)) & (product == maxima(product, target_ids))
    chosen = sorted(np.flatnonzero(best).tolist(), key=lambda key: -counts[key])
    return [(sources[source_ids[key]], targets[target_ids[key]]) for key in chosen]


def estimate(given: Integers, entries: Integers, places: Integers) -> Floats:
    """t of each pair of words: the probability of one word, given the other.

    `given` is the number of the given word of each pair, `entries` the pair of each entry, and `places` the place of
    the word that is explained. The entries of one place share a probability of 1.
    """
    table = np.ones(len(given))
    for _ in range(ROUNDS):
        values = table[entries]
        values /= np.bincount(places, values)[places]
        expected = np.bincount(entries, values, len(given))
        table = expected / np.bincount(given, expected)[given]
    return table


def maxima(values: Floats, groups: Integers) -> Floats:
    """For each value the largest one of its group."""
    largest = np.zeros(groups.max() + 1)
    np.maximum.at(largest, groups, values)
    return largest[groups]


def offsets(sizes: Sequence[tuple[int, int]], side: int) -> Integers:
    """For each entry the number of words of one side in the sentences before."""
    lengths = np.array(sizes)
    before = np.cumsum(lengths[:, side]) - lengths[:, side]
    return np.repeat(before, lengths[:, 0] * lengths[:, 1])


def number_words(sentences: Sequence[Sequence[str]]) -> tuple[list[str], list[Integers]]:
    """The words in their most frequent spelling, and each sentence as their numbers; case makes no difference."""
    numbers: dict[str, int] = {}
    spellings: defaultdict[int, Counter[str]] = defaultdict(Counter)
    rows = []
    for words in sentences:
        row = [numbers.setdefault(word.lower(), len(numbers)) for word in words]
        rows.append(np.array(row, np.int64))
        for place, (number, word) in enumerate(zip(row, words, strict=True)):
            if place:
                spellings[number][word] += 2
            else:  # the first word of a sentence has a capital anyway
                spellings[number][word.lower()] += 1
    return [spellings[number].most_common(1)[0][0] for number in range(len(numbers))], rows
