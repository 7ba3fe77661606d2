"""Scores: a value with the signature of how it was computed, so that scores can be compared.

    perplexity per unit = exp(-log p(text) / units),     bits per character = -log2 p(text) / characters

Perplexity per token compares models with the same vocabulary only. Perplexity per word and bits per character do not
depend on the vocabulary and compare any two models of one text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.messages import Message, join_messages


@dataclass(frozen=True)
class Score:
    """The value of a metric; the signature names every parameter of its computation."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        signature = f"|{self.signature}" if self.signature else ""
        return f"{self.name}{signature} = {self.value:.2f}"


def check_paired(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    """Raise a ValueError for lists of different lengths, and for empty lists."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    if not hypotheses:
        raise ValueError("there is nothing to score: no hypotheses and no references")


def exact_match(hypotheses: Sequence[object], references: Sequence[object]) -> Score:
    """Percentage of hypotheses that equal their reference."""
    check_paired(hypotheses, references)
    same = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Score("exact match", 100.0 * same / len(references))


def perplexity(nll_sum: float, count: float) -> float:
    """Perplexity: exp of the mean negative log-likelihood per token."""
    if count <= 0:
        raise ValueError(f"perplexity over {count} tokens")
    try:
        return math.exp(nll_sum / count)
    except OverflowError:
        return math.inf


def bits_per_character(nll_sum: float, characters: int) -> float:
    """Bits per character of a code based on the model."""
    if characters <= 0:
        raise ValueError(f"bits per character over {characters} characters")
    return nll_sum / math.log(2) / characters


def language_scores(nll_sum: float, tokens: int, words: int, characters: int, note: str = "") -> list[Score]:
    """Scores per token, word and character of a likelihood in nats; `note` describes the text."""
    units = (
        Message("per token of this run's vocabulary, {count:,} tokens", count=tokens),
        Message("per word between blanks, the end of a line is one more, {count:,} words", count=words),
        Message("{count:,} characters, one for the end of each line", count=characters),
    )
    per_token, per_word, per_character = (join_messages("; ", filter(None, (unit, note))) for unit in units)
    return [
        Score("perplexity", perplexity(nll_sum, tokens), per_token),
        Score("word perplexity", perplexity(nll_sum, words), per_word),
        Score("bits per character", bits_per_character(nll_sum, characters), per_character),
    ]
