"""How well a language model expects a text.

    perplexity per unit = exp(-log p(text) / units),     bits per character = -log2 p(text) / characters

log p(text) is the same sum whatever the text is divided by. Divided by the model's own tokens it compares models of one
vocabulary alone; divided by words or characters, which no vocabulary changes, it compares any two models of one text.
"""

import math

from regard.metrics.score import Score, perplexity


def bits_per_character(nll_sum: float, characters: int) -> float:
    """What a code made of the model's expectations would spend on a character."""
    if characters <= 0:
        raise ValueError(f"bits per character over {characters} characters")
    return nll_sum / math.log(2) / characters


def language_scores(nll_sum: float, tokens: int, words: int, characters: int, note: str = "") -> list[Score]:
    """The same likelihood, in nats, by token, by word and by character; `note` says what was done to the text."""
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
