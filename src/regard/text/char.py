"""Single characters: the most frequent ones are one piece each, every other character is spelled in bytes."""

from collections.abc import Iterable
from typing import Any

from regard.text.splitting import into_characters
from regard.text.word import most_frequent


def learn(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Any:
    """Keep the most frequent characters of `texts`."""
    return most_frequent(texts, into_characters(), vocab_size, min_frequency)
