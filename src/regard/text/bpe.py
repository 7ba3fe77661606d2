"""Byte pair encoding: start from bytes, merge the most frequent neighbours again and again.

Sennrich, Haddow and Birch (2016), "Neural Machine Translation of Rare Words with Subword Units", section 3.2, over
bytes as in Radford et al. (2019).
"""

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, trainers

from regard.text.splitting import into_words
from regard.text.symbols import BYTE_SYMBOLS, SPECIALS


def learn(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Any:
    """Learn the merges from `texts`."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = into_words()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIALS),
        initial_alphabet=list(BYTE_SYMBOLS),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    learnt = json.loads(learner.to_str())["model"]
    return assemble(learnt["vocab"], [tuple(merge) for merge in learnt["merges"]])


def assemble(vocab: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    """A tokenizer in which the special symbols are plain entries: text that spells one is text."""
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = into_words()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
