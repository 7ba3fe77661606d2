"""Perplexity and bits per character of a language model.

    perplexity per unit = exp(-log p(text) / units),     bits per character = -log2 p(text) / characters

Perplexity per token compares models with the same vocabulary only. Perplexity per word and bits per character do not
depend on the vocabulary and compare any two models of one text.
"""

import math

from regard.metrics.score import Score, perplexity


def bits_per_character(nll_sum: float, characters: int) -> float:
    """Bits per character of a code based on the model."""
    if characters <= 0:
        raise ValueError(f"bits per character over {characters} characters")
    return nll_sum / math.log(2) / characters


def language_scores(nll_sum: float, tokens: int, words: int, characters: int, note: str = "") -> list[Score]:
    """Scores per token, word and character of a likelihood in nats; `note` describes the text."""
    note = f"; {note}" if note else ""
    return [
        Score(
            "perplexity", perplexity(nll_sum, tokens), f"per token of this run's vocabulary, {tokens:,} tokens{note}"
        ),
        Score(
            "word perplexity",
            perplexity(nll_sum, words),
            f"per word, what stands between blanks and one for the end of each line, {words:,} words{note}",
        ),
        Score(
            "bits per character",
            bits_per_character(nll_sum, characters),
            f"{characters:,} characters, one for the end of each line{note}",
        ),
    ]
