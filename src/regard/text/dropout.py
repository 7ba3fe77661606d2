"""BPE-dropout: the same word cut differently every time (Provilkov, Emelianenko and Voita 2020, algorithm 1).

A model that sees a word in many segmentations learns how its pieces are composed, and minds misspellings less.
"""

import random
from collections.abc import Mapping
from itertools import pairwise


def segment(symbols: str, merge_ranks: Mapping[tuple[str, str], int], rate: float, rng: random.Random) -> list[str]:
    """Cut one word, given in byte symbols, into pieces, each possible merge left out with probability `rate`.

    At every turn the merges that apply anywhere in the word are listed, each is dropped with probability `rate`, and of
    those left the first learnt (leftmost on a tie) is done; the word is finished when none is left. Rate 0 is byte pair
    encoding; rate 1 leaves bytes.
    """
    pieces = list(symbols)
    while True:
        possible = [
            (merge_ranks[pair], place)
            for place, pair in enumerate(pairwise(pieces))
            if pair in merge_ranks and (rate == 0 or rng.random() >= rate)
        ]
        if not possible:
            return pieces
        _, place = min(possible)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
