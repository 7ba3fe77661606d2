"""BPE and WordPiece: what they merge, how they cut, and whether a cut is the border of a morpheme.

    BPE                        merge the most frequent pair ab again and again; apply the merges in the same order
    WordPiece, by frequency    the same merges; a word is cut from the left by the longest token that fits
    WordPiece, by likelihood   merge the pair of the largest count(ab) / (count(a) count(b)) (Schuster, Nakajima 2012)

A frequent string need not be a stem. The test has words of the text whose stem is a word of the text too, "literal" +
"s" or "call" + "ing": is there a cut where the ending begins? A word of n letters can be cut k times in C(n - 1, k)
ways, so a random cut finds stem and ending, and nothing else, with probability 1 / (n - 1) if k = 1. WordPiece holds
every byte twice, at the start and inside of a word, so it learns fewer tokens at equal size.
"""

from collections import Counter
from itertools import pairwise

from regard.lab.english import split_pages, words_of
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, paired
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

BPE, FREQUENCY, LIKELIHOOD = "bpe", "frequency", "likelihood"
SIZES = (600, 800, 1200, 2000)
"""Vocabulary sizes; bytes and special tokens are part of them."""
ENDINGS = ("ing", "ed", "ly", "er", "s", "able", "tion", "ness", "ment")
KINDS = (BPE, FREQUENCY, LIKELIHOOD)
CUTS = ("stem and ending", "ending and others", "elsewhere")


def settings_of(kind: str, size: int) -> TextSettings:
    if kind == BPE:
        return TextSettings(kind="bpe", vocab_size=size)
    return TextSettings(kind="wordpiece", vocab_size=size, merge_by="likelihood" if kind == LIKELIHOOD else "frequency")


def cuts(tokenizer: Tokenizer, words: list[str]) -> list[tuple[int, ...]]:
    """For each word the offsets of its cuts; each word is preceded by a space, as in a text."""
    offsets = []
    for ids in tokenizer.encode_batch([f" {word}" for word in words]):
        ends, length = [], -1  # the space
        for number in ids:
            length += len(tokenizer.decode([number]))
            ends.append(length)
        offsets.append(tuple(end for end in ends[:-1] if end > 0))
    return offsets


def inflected(words: Counter[str]) -> dict[str, int]:
    """Words that are a word of the text and an ending, with the length of the stem."""
    stems = {}
    for word in words:
        for ending in ENDINGS:
            stem = word.removesuffix(ending)
            if stem != word and len(stem) > 3 and stem in words:
                stems[word] = len(stem)
    return stems


def measure(seed: int, effort: Effort, record: Record) -> None:
    train, test = ([words_of(page) for page in part] for part in split_pages(seed, 0.1))
    lines = [" " + " ".join(words) for words in train]
    new = [word for words in test for word in words]
    stems = inflected(Counter(word for words in train for word in words))
    tokenizers = {(kind, size): train_tokenizer(lines, settings_of(kind, size)) for size in SIZES for kind in KINDS}
    for (kind, size), tokenizer in tokenizers.items():
        record("length", kind, size, sum(len(offsets) + 1 for offsets in cuts(tokenizer, new)) / len(new))
    for kind in KINDS:
        offsets = dict(zip(stems, cuts(tokenizers[kind, SIZES[-1]], list(stems)), strict=True))
        cut = [word for word in stems if offsets[word]]
        exact = sum(offsets[word] == (stems[word],) for word in cut) / len(cut)
        ending = sum(stems[word] in offsets[word] for word in cut) / len(cut)
        chance = sum(1 / (len(word) - 1) for word in cut if len(offsets[word]) == 1) / len(cut)
        record("chance", "found", kind, exact)
        record("chance", "random", kind, chance)
        for series, share in zip(CUTS, (exact, ending - exact, 1 - ending), strict=True):
            record("cuts", series, kind, share)
    for size in SIZES:
        reference, *others = (cuts(tokenizers[kind, size], list(stems)) for kind in KINDS)
        for kind, other in zip((FREQUENCY, LIKELIHOOD), others, strict=True):
            same = sum(first == second for first, second in zip(reference, other, strict=True))
            record("equal", kind, size, same / len(stems))


def judge(results: Results) -> Verdict:
    exact, chance = (results.values("chance", series, BPE) for series in ("found", "random"))
    lengths = [results.values("length", BPE, size) for size in SIZES]
    return Verdict(
        decide(above(exact, [0.5]), above([0.5], exact)),
        {"size": SIZES[-1], "least": SIZES[0]},
        {
            "chance": decide(paired(exact, chance, by=0.05), paired(chance, exact)),
            "shorter": decide(
                all(paired(first, second) for first, second in pairwise(lengths)), paired(lengths[-1], lengths[0])
            ),
        },
    )
