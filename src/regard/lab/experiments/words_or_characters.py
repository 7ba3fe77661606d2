"""Words or characters: one text, cut into words, subwords and characters, predicted by n-gram models.

Perplexities of models with different tokens cannot be compared: a word is harder to guess than a letter, but there are
fewer of them. The number of bits for the whole text can, if every token sequence can be turned back into the text:

    bits per character = - sum_t log_2 p(w_t | w_{t-n+1} .. w_{t-1}) / characters of the text

The tokenizers here are such: a word that the training text does not have is spelled in bytes. Words are sparse: most
sequences of three words in a new text never occurred before. Sequences of three characters nearly all did, but they say
little. The answer depends on how the context is counted: three words are about twenty characters.
"""

import math
from collections.abc import Hashable, Sequence

import torch

from regard.lab.english import split_pages
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.models.ngram import NGram
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.subword import SubwordTokenizer

TOKENIZERS = {
    "characters": TextSettings(kind="char", vocab_size=2000),
    "small subwords": TextSettings(kind="bpe", vocab_size=500),
    "large subwords": TextSettings(kind="bpe", vocab_size=4000),
    "words": TextSettings(kind="word", vocab_size=100_000),
}
ORDERS = (1, 2, 3, 4, 6, 8, 10)


def bits_per_character(model: NGram, tokenizer: SubwordTokenizer, text: str) -> float:
    """Bits that the model needs for a text, divided by its characters."""
    log_probs = model.log_probs(torch.tensor(tokenizer.encode(text)))
    return -float(log_probs.sum()) / math.log(2) / len(text)


def units_of(name: str, tokenizer: SubwordTokenizer, text: str) -> Sequence[Hashable]:
    """The text as characters, subwords or words; a word stays whole if it is unknown."""
    if name == "characters":
        return text
    return tokenizer.words(text) if name == "words" else tokenizer.encode(text)


def unseen(train: Sequence[Hashable], test: Sequence[Hashable], order: int) -> float:
    """Share of the n-grams of `test` that `train` does not have."""
    known, new = (list(zip(*(units[k:] for k in range(order)), strict=False)) for units in (train, test))
    seen = set(known)
    return sum(gram not in seen for gram in new) / len(new)


def measure(seed: int, effort: Effort, record: Record) -> None:
    train, test = ("\n".join(part) for part in split_pages(seed, 0.1))
    shares = effort.pick((0.05, 0.2, 1.0), (0.2,))
    for share in shares:
        text = train[: round(len(train) * share)]
        for name, settings in TOKENIZERS.items():
            tokenizer = train_tokenizer(text.splitlines(), settings)
            ids = torch.tensor(tokenizer.encode(text)).numpy()
            bits = {
                order: bits_per_character(NGram.count(ids, order, len(tokenizer)), tokenizer, test) for order in ORDERS
            }
            record("amount", name, share, min(bits.values()))
            if share == shares[-1]:
                for order in ORDERS:
                    record("bits", name, order, bits[order])
                units, new = (units_of(name, tokenizer, part) for part in (text, test))
                for order in (1, 2, 3, 4, 6):
                    record("unseen", name, order, unseen(units, new, order))


def best_bits(results: Results, name: str) -> list[float]:
    """Bits per character at the best order, for each seed."""
    by_order = (results.values("bits", name, order) for order in ORDERS)
    return [min(bits) for bits in zip(*by_order, strict=True)]


def judge(results: Results) -> Verdict:
    best = zip(*(best_bits(results, name) for name in ("characters", "words")), strict=True)
    lost = [characters - words for characters, words in best]  # the text of a seed is the same for both
    rare, dense = (results.values("unseen", name, 3) for name in ("words", "characters"))
    decided = decide(above(rare, dense) and min(lost) > 0.01, above(dense, rare) or max(lost) < -0.01)
    return Verdict(decided, {"short": 3, "long": ORDERS[-1]})
