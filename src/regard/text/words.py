"""Tokenizers of whole words, tokens and characters: the most frequent ones are tokens, others are spelled in bytes.

word    words, the vocabulary of Bahdanau et al. (2014) and Luong et al. (2015). They replaced rare words by one unknown
        token; here a rare word is only long.
token   everything between spaces, for text that is tokenized already, like published corpora for language models. A
        token includes the space before it. The first token of a line has none and would be another token than the same
        word later, so a space is added before every text and removed by `decode`.
char    single characters
"""

import json
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.splitting import into_characters, into_words_and_ideographs, on_spaces
from regard.text.symbols import BYTE_SYMBOLS, IMPLIED, SPECIALS


def train_words(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Keep the most frequent words of `texts`."""
    return _most_frequent(texts, into_words_and_ideographs(), vocab_size, min_frequency)


def train_tokens(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Keep the most frequent tokens of `texts`."""
    tokenizer = _most_frequent((IMPLIED + text for text in texts), on_spaces(), vocab_size, min_frequency)
    tokenizer.normalizer = normalizers.Prepend(IMPLIED)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(IMPLIED, 1, 0)])
    return tokenizer


def train_characters(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Keep the most frequent characters of `texts`."""
    return _most_frequent(texts, into_characters(), vocab_size, min_frequency)


def _most_frequent(
    texts: Iterable[str], splitter: pre_tokenizers.PreTokenizer, vocab_size: int, min_frequency: int
) -> Tokenizer:
    """Keep the most frequent units of `splitter`; those with equal counts are ordered by spelling."""
    learner = Tokenizer(models.WordLevel(unk_token=SPECIALS[0]))
    learner.pre_tokenizer = splitter
    trainer = trainers.WordLevelTrainer(vocab_size=vocab_size, min_frequency=min_frequency, show_progress=False)
    learner.train_from_iterator(texts, trainer)
    counts = json.loads(learner.to_str())["model"]["vocab"]
    frequent = (token for token in sorted(counts, key=counts.__getitem__) if len(token) > 1)
    tokens = [*SPECIALS, *BYTE_SYMBOLS, *frequent]
    # Without merges and with `ignore_merges` a word is either one token or a sequence of bytes.
    vocab = {token: index for index, token in enumerate(tokens[:vocab_size])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
