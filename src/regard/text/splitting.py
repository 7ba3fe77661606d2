"""Pre-tokenization: splitting text into words; no token crosses the end of a word.

A word includes the space before it; runs of digits and of punctuation are words (the expression of Radford et al. 2019,
with combining marks as letters, and English contractions only at the end of a word, so that the French "l'menu" keeps
its m). No word is longer than 64 characters, so a megabyte without a space is not slower than any other text.
"""

from tokenizers import Regex, pre_tokenizers

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
