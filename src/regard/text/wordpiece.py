"""Learning the tokens of WordPiece: which pair of neighbours becomes one token next.

    frequency     argmax count(ab)                            byte pair encoding, Sennrich et al. 2016, section 3.2
    likelihood    argmax count(ab) / (count(a) count(b))      Schuster and Nakajima 2012, section 2

Both start from characters and merge one pair after the other, until the vocabulary is full. Schuster and Nakajima merge
the pair that increases the likelihood of the training text most, if the probability of a token is its share of all
tokens. A merge replaces p(a) p(b) by p(ab) wherever a is followed by b, so the usual score of a pair is the quotient
above: how much more often the two are together than by chance. Frequent tokens are not joined merely because they are
frequent; in the words ab, ab, ac, db, xy it joins x and y, and by frequency a and b come first. The price: pairs of
rare tokens have the largest quotients, so `min_frequency` decides what is learnt.

The library `tokenizers` merges by frequency, under the name WordPiece too, and so do most programs. It is the default
(`text.merge_by`). This file is the other one. Equal words give equal tokens: of pairs with equal scores, the first in
the order of strings is merged.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Pair = tuple[str, str]


def learn_by_likelihood(
    words: Mapping[tuple[str, ...], int], count: int, min_frequency: int, continuation: str
) -> list[str]:
    """At most `count` new tokens, in the order in which they are learnt.

    words           every word as its first tokens (characters), and how often it occurs
    min_frequency   a pair that occurs less often is not merged
    continuation    the sign before tokens that are not the first of a word, which a merged token has once
    """
    text, learnt = Segmentation(words), dict[str, None]()
    heap = [(-text.score(pair), pair) for pair, times in text.pairs.items() if times >= min_frequency]
    heapq.heapify(heap)
    while heap and len(learnt) < count:
        score, pair = heapq.heappop(heap)
        if text.pairs[pair] < min_frequency or -score != text.score(pair):
            continue  # the counts have changed since; the pair is in the heap again with its new score
        merged = pair[0] + pair[1].removeprefix(continuation)
        learnt[merged] = None
        for other in text.merge(pair, merged):
            if text.pairs[other] >= min_frequency:
                heapq.heappush(heap, (-text.score(other), other))
    return list(learnt)


class Segmentation:
    """Words as tokens, with the counts of tokens and of pairs of neighbours."""

    def __init__(self, words: Mapping[tuple[str, ...], int]) -> None:
        self.words, self.frequencies = list(words), list(words.values())
        self.tokens: Counter[str] = Counter()
        self.pairs: Counter[Pair] = Counter()
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)  # words that have, or had, a pair
        self._partners: defaultdict[str, set[Pair]] = defaultdict(set)  # pairs of a token
        for index in range(len(self.words)):
            self._count(index, 1)

    def score(self, pair: Pair) -> float:
        """count(ab) / (count(a) count(b)): equal quotients are equal floats."""
        return self.pairs[pair] / (self.tokens[pair[0]] * self.tokens[pair[1]])

    def merge(self, pair: Pair, merged: str) -> set[Pair]:
        """Merge a pair in all words, from left to right, and return the pairs whose scores may have changed."""
        changed = self._partners[pair[0]] | self._partners[pair[1]]
        for index in self._places.pop(pair):
            word = self.words[index]
            self._count(index, -1)
            self.words[index] = tuple(merge_neighbours(word, pair, merged))
            self._count(index, 1)
            changed.update(pairwise(self.words[index]))
        return changed

    def _count(self, index: int, sign: int) -> None:
        """Add a word to the counts, or subtract it."""
        word, times = self.words[index], sign * self.frequencies[index]
        for token in word:
            self.tokens[token] += times
        for pair in pairwise(word):
            self.pairs[pair] += times
            if sign > 0:
                self._places[pair].add(index)
                for token in pair:
                    self._partners[token].add(pair)
            elif not self.pairs[pair]:
                for token in pair:
                    self._partners[token].discard(pair)


def merge_neighbours(word: Sequence[str], pair: Pair, merged: str) -> Iterator[str]:
    """The tokens of a word in which a pair of neighbours is one token, from left to right."""
    index = 0
    while index < len(word):
        found = tuple(word[index : index + 2]) == pair
        yield merged if found else word[index]
        index += 2 if found else 1
