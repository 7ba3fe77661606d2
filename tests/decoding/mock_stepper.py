"""A model small enough to enumerate: next-token logits are a hash of the sentence and the whole text so far.

Its state is the texts themselves, so that a search which reorders or drops the wrong rows gets wrong logits.
"""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.stepper import Symbols

SYMBOLS = Symbols(bos=0, eos=1, pad=2)


@dataclass(frozen=True)
class MockState:
    sentences: list[int]
    texts: list[list[tuple[int, ...]]]

    def reorder(self, parents: Tensor) -> "MockState":
        rows = zip(self.texts, parents.tolist(), strict=True)
        return MockState(self.sentences, [[row[parent] for parent in order] for row, order in rows])

    def keep(self, sentences: Tensor) -> "MockState":
        rows = sentences.tolist()
        return MockState([self.sentences[row] for row in rows], [self.texts[row] for row in rows])


@dataclass(frozen=True)
class MockStepper:
    vocabulary: int
    seed: int = 0
    eos_bonus: float = 0.0

    def start(self, source: list[int]) -> MockState:
        return MockState(list(source), [[()] for _ in source])

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        rows = zip(state.texts, tokens.tolist(), strict=True)
        texts = [[(*text, token) for text, token in zip(*row, strict=True)] for row in rows]
        logits = [
            [self.logits(sentence, text) for text in row] for sentence, row in zip(state.sentences, texts, strict=True)
        ]
        return torch.tensor(logits), MockState(state.sentences, texts)

    def logits(self, sentence: int, text: tuple[int, ...]) -> list[float]:
        """`text` begins with the beginning symbol."""
        generator = random.Random(f"{self.seed} {sentence} {text}")
        logits = [generator.gauss(0.0, 1.5) for _ in range(self.vocabulary)]
        logits[SYMBOLS.eos] += self.eos_bonus
        return logits

    def log_prob(self, sentence: int, tokens: tuple[int, ...]) -> float:
        """log P of `tokens`, written without a search."""
        total = 0.0
        for index, token in enumerate(tokens):
            logits = self.logits(sentence, (SYMBOLS.bos, *tokens[:index]))
            total += logits[token] - math.log(sum(math.exp(logit) for logit in logits))
        return total


def all_sequences(vocabulary: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Every text of at most `limit` tokens that ends with the end symbol and has no other symbol in it."""
    words = [token for token in range(vocabulary) if token not in (SYMBOLS.bos, SYMBOLS.eos, SYMBOLS.pad)]
    for length in range(limit):
        for text in itertools.product(words, repeat=length):
            yield (*text, SYMBOLS.eos)
