"""Byte pair encoding against its definition: every merge learnt was the most frequent pair when it was learnt."""

from collections import Counter
from itertools import pairwise

from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BYTE_SYMBOLS, SPECIALS

CORPUS = [
    "she sells sea shells by the sea shore",
    "the shells she sells are surely sea shells",
    "aaaa aaa aa größer größte groß",
]


def merge(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    result: list[str] = []
    place = 0
    while place < len(pieces):
        width = 2 if tuple(pieces[place : place + 2]) == pair else 1
        result.append("".join(pieces[place : place + width]))
        place += width
    return result


def test_every_merge_was_the_most_frequent() -> None:
    vocab = train_tokenizer(CORPUS, TextSettings(vocab_size=2000))
    words = [list(word) for text in CORPUS for word in vocab.words(text)]
    merges = sorted(vocab.merge_ranks, key=vocab.merge_ranks.__getitem__)
    for pair in merges:
        counts = Counter(neighbours for word in words for neighbours in pairwise(word))
        assert counts[pair] == max(counts.values())
        words = [merge(word, pair) for word in words]
    left = Counter(neighbours for word in words for neighbours in pairwise(word))
    assert max(left.values(), default=0) < 2, "learning stops when no pair is frequent enough"
    assert len(vocab) == len(SPECIALS) + len(BYTE_SYMBOLS) + len({left + right for left, right in merges})
