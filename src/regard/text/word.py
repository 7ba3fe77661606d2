"""Whole words: the most frequent ones are one piece each, every other word is spelled in bytes.

The vocabulary of Bahdanau et al. (2014) and Luong et al. (2015), whose unknown words all became one symbol and could
not be translated; here nothing is lost, a rare word is only long.
"""

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, trainers

from regard.text.splitting import into_words_and_ideographs
from regard.text.symbols import BYTE_SYMBOLS, SPECIALS


def learn(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Any:
    """Keep the most frequent words of `texts`."""
    return most_frequent(texts, into_words_and_ideographs(), vocab_size, min_frequency)


def most_frequent(texts: Iterable[str], splitter: Any, vocab_size: int, min_frequency: int) -> Any:
    """A tokenizer that knows the most frequent pieces `splitter` cuts; equal counts are ordered by spelling."""
    learner = Tokenizer(models.WordLevel(unk_token=SPECIALS[0]))
    learner.pre_tokenizer = splitter
    trainer = trainers.WordLevelTrainer(vocab_size=vocab_size, min_frequency=min_frequency, show_progress=False)
    learner.train_from_iterator(texts, trainer)
    counted = json.loads(learner.to_str())["model"]["vocab"]
    basic = [*SPECIALS, *BYTE_SYMBOLS]
    pieces = [*basic, *(piece for piece in sorted(counted, key=counted.__getitem__) if len(piece) > 1)]
    # Without merges and with `ignore_merges` a word is either an entry as a whole or a row of bytes.
    vocab = {piece: number for number, piece in enumerate(pieces[:vocab_size])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
