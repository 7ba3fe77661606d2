"""Byte pair encoding: start from bytes and merge the most frequent pair of neighbours, again and again.

Sennrich, Haddow and Birch (2016), "Neural Machine Translation of Rare Words with Subword Units", section 3.2, over
bytes as in Radford et al. (2019).

BPE-dropout segments a word differently every time (Provilkov, Emelianenko and Voita 2020, algorithm 1). A model that
sees many segmentations of a word learns how subwords compose, and is more robust to misspellings.
"""

import json
import random
from collections.abc import Iterable, Mapping
from itertools import pairwise

from tokenizers import Tokenizer, decoders, models, trainers

from regard.text.splitting import into_words
from regard.text.symbols import BYTE_SYMBOLS, SPECIALS


def train(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
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
    model = json.loads(learner.to_str())["model"]
    # A tokenizer in which special tokens are plain entries: text that spells one stays text.
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]]))
    tokenizer.pre_tokenizer = into_words()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def segment(symbols: str, merge_ranks: Mapping[tuple[str, str], int], rate: float, rng: random.Random) -> list[str]:
    """Segment one word, given in byte symbols, with BPE-dropout: every merge is dropped with probability `rate`.

    In every round, list the merges that apply anywhere in the word, drop each with probability `rate`, and do the one
    of lowest rank (leftmost on a tie); end when none is left. Rate 0 is byte pair encoding; rate 1 gives bytes.
    """
    subwords = list(symbols)
    while True:
        merges = [
            (merge_ranks[pair], index)
            for index, pair in enumerate(pairwise(subwords))
            if pair in merge_ranks and (rate == 0 or rng.random() >= rate)
        ]
        if not merges:
            return subwords
        _, index = min(merges)
        subwords[index : index + 2] = [subwords[index] + subwords[index + 1]]
