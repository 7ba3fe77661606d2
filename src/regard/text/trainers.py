"""Training byte-level tokenizers; `factory.py` chooses among them by `text.kind`.

bpe        byte pair encoding: start from bytes and merge the most frequent pair of neighbours, again and again
           (Sennrich, Haddow and Birch 2016, section 3.2, over bytes as in Radford et al. 2019)
wordpiece  the longest token that fits, left to right (Schuster and Nakajima 2012; Devlin et al. 2018, section 3); its
           tokens are learnt by frequency, as those of bpe, or by likelihood (wordpiece.py).
           Tokens inside a word begin with a continuation sign. It is not BERT's "##", which may occur in text, but a
           character outside the byte symbols. All bytes are in the vocabulary with and without it, so every word can be
           spelled.
word       the most frequent words, the vocabulary of Bahdanau et al. (2014) and Luong et al. (2015). They replaced rare
           words by one unknown token; here a rare word is spelled in bytes.
token      everything between spaces, for text that is tokenized already, like published corpora for language models. A
           token includes the space before it. The first token of a line has none and would be another token than the
           same word later, so a space is added before every text and removed by `decode`.
char       single characters

Text is split into words first; no token crosses the end of a word. A word includes the space before it; runs of digits
and of punctuation are words (the expression of Radford et al. 2019, with combining marks as letters, and English
contractions only at the end of a word, so that the French "l'menu" keeps its m). No word is longer than 64 characters,
so a megabyte without a space is not slower than any other text.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.symbols import BYTE_SYMBOLS, CONTINUATION, IMPLIED, PLACEHOLDERS, SPECIALS
from regard.text.wordpiece import learn_by_likelihood

WORD = (
    r"'(?:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])"
    r"| ?[\p{L}\p{M}]{1,64}"
    r"| ?\p{N}{1,64}"
    r"| ?[^\s\p{L}\p{M}\p{N}]{1,64}"
    r"|\s{1,64}(?!\S)|\s{1,64}"
)
IDEOGRAPH = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
TOKEN = r" ?\S{1,256}|\s"
CHARACTER = r"(?m:.)"  # in this dialect of regular expressions (?m:) lets the dot match a line break


def _split(*expressions: str) -> pre_tokenizers.PreTokenizer:
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def into_words() -> pre_tokenizers.PreTokenizer:
    """Split into words, written in byte symbols."""
    return _split(WORD)


def into_words_and_ideographs() -> pre_tokenizers.PreTokenizer:
    """Split into words, and every Han and Kana character by itself, since these scripts have no spaces."""
    return _split(IDEOGRAPH, WORD)


def on_spaces() -> pre_tokenizers.PreTokenizer:
    """Split on white space; the one space before a token belongs to it."""
    return _split(TOKEN)


def into_characters() -> pre_tokenizers.PreTokenizer:
    """Split into characters."""
    return _split(CHARACTER)


def train_bpe(texts: Iterable[str], vocab_size: int, min_frequency: int, symbols: Sequence[str] = ()) -> Tokenizer:
    """Learn the merges from `texts`; `symbols` are language tags and placeholders, which follow the special tokens."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = into_words()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIALS, *symbols],
        initial_alphabet=list(BYTE_SYMBOLS),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    # A tokenizer in which special tokens are plain entries: text that spells one stays text.
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]]))
    tokenizer.pre_tokenizer = into_words()
    tokenizer.decoder = decoders.ByteLevel()
    # Placeholders are found in text before it is split into words.
    tokenizer.add_tokens([AddedToken(symbol, normalized=False) for symbol in symbols if symbol in PLACEHOLDERS])
    return tokenizer


def train_wordpiece(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Learn the vocabulary from `texts`.

    The library merges the most frequent pair, as BPE does: only the segmentation is that of WordPiece.

    The continued bytes are given to the trainer as special tokens. Otherwise it would number them in the order of a
    hash table, and equal texts would give different vocabularies.
    """
    continued = [CONTINUATION + symbol for symbol in BYTE_SYMBOLS]
    learner = Tokenizer(models.WordPiece(unk_token=SPECIALS[0]))
    learner.pre_tokenizer = into_words_and_ideographs()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIALS, *continued],
        initial_alphabet=list(BYTE_SYMBOLS),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    return _wordpiece(json.loads(learner.to_str())["model"]["vocab"])


def train_wordpiece_by_likelihood(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Learn the vocabulary from `texts`; pairs are merged by likelihood."""
    splitter, counts = into_words_and_ideographs(), Counter[str]()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(text))
    words = {
        (word[0], *(CONTINUATION + symbol for symbol in word[1:])): count for word, count in sorted(counts.items())
    }
    first = [*SPECIALS, *(CONTINUATION + symbol for symbol in BYTE_SYMBOLS), *BYTE_SYMBOLS]
    learnt = learn_by_likelihood(words, vocab_size - len(first), min_frequency, CONTINUATION)
    return _wordpiece({token: index for index, token in enumerate([*first, *learnt])})


def _wordpiece(vocab: dict[str, int]) -> Tokenizer:
    """The tokenizer of a vocabulary."""
    model = models.WordPiece(
        vocab=vocab,
        unk_token=SPECIALS[0],  # required by the library; never used, since every word can be spelled
        continuing_subword_prefix=CONTINUATION,
        max_input_chars_per_word=1_000_000_000,
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = into_words_and_ideographs()
    tokenizer.decoder = decoders.Sequence([decoders.Replace(CONTINUATION, ""), decoders.ByteLevel()])
    return tokenizer


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
