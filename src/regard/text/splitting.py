"""Where words end: the cut that comes before any vocabulary, after which no piece crosses a cut.

A word carries the space before it, runs of digits and of signs stand alone (the expression of Radford et al. 2019,
with combining marks counted as letters and English contractions only where a word ends, so that the French "l'menu"
keeps its m). Nothing is longer than 64 characters, so a megabyte without a space costs no more than any other.
"""

from typing import Any

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
CHARACTER = r"(?m:.)"  # in this dialect (?m:) lets the dot match a line break too


def _cut(*expressions: str) -> Any:
    cuts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def into_words() -> Any:
    """Words as above, written in byte symbols."""
    return _cut(WORD)


def into_words_and_ideographs() -> Any:
    """As `into_words`, after Han and Kana characters are split off one by one: their scripts mark no words."""
    return _cut(IDEOGRAPH, WORD)


def between_blanks() -> Any:
    """What stands between blanks, whatever it is, with the one blank before it."""
    return _cut(TOKEN)


def into_characters() -> Any:
    """Every character alone."""
    return _cut(CHARACTER)
