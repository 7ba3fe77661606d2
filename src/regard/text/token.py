"""What stands between blanks: the most frequent of it is one piece each, the rest is spelled in bytes.

For text in which somebody has cut the words already and put a blank between them, signs included, as published
corpora for language models are. One blank belongs to the word behind it. The first word of a line has none, and would
be another piece than the same word further on; so a blank is thought before every text, and taken away again when the
text is decoded. A blank beyond these is a piece of its own, and nothing is lost.
"""

from collections.abc import Iterable
from typing import Any

from tokenizers import decoders, normalizers

from regard.text.splitting import between_blanks
from regard.text.symbols import IMPLIED
from regard.text.word import most_frequent


def learn(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Any:
    """Keep the most frequent tokens of `texts`."""
    tokenizer = most_frequent((IMPLIED + text for text in texts), between_blanks(), vocab_size, min_frequency)
    tokenizer.normalizer = normalizers.Prepend(IMPLIED)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(IMPLIED, 1, 0)])
    return tokenizer
