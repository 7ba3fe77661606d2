"""Tests of statistical independence, to find pairs of texts that do not belong together, or labels of other texts.

    HSIC = sum_ij K_ij L_ij          K, L (N, N): centred similarities of the first and of the second members

Similar first members have similar second members if the two depend on each other (Gretton et al. 2008, "A kernel
statistical test of independence"). The value is compared with those of random permutations of the second members, in
standard deviations (z). Texts are similar if they share rare words, characters or pairs of characters, so languages
without spaces need no word segmentation.

N examples, F features.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from regard.metrics.classification import mean_ranks

MAX_FEATURES = 4096
PERMUTATIONS = 30
# Thai to Khmer, kana, Chinese characters and Hangul: a word has few characters, or words are not separated.
UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")
Kernel = npt.NDArray[np.float32]


def text_features(text: str) -> set[str]:
    """Words, characters and pairs of characters of a text, in lower case."""
    words = WORD.findall(text.lower())
    features = set(words)
    for word in words:
        features.update(word)
        features.update(map("".join, zip(f" {word}", f"{word} ", strict=True)))
    features.update(a + b for a, b in pairwise(words) if len(a) == len(b) == 1)
    return features


def text_kernel(texts: Sequence[str]) -> Kernel:
    """(N, N): cosine similarities of texts, centred; features are weighted by the logarithm of their rarity."""
    features = [text_features(text) for text in texts]
    counts, total = Counter(feature for row in features for feature in row), len(texts)
    shared = sorted((-count, feature) for feature, count in counts.items() if 1 < count < total)[:MAX_FEATURES]
    columns = {feature: column for column, (_, feature) in enumerate(shared)}
    vectors = np.zeros((total, len(columns)), np.float32)  # (N, F)
    for row, names in enumerate(features):
        for name in names & columns.keys():
            vectors[row, columns[name]] = np.log(total / counts[name])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return center(vectors @ vectors.T)


def label_kernel(labels: Sequence[str | float]) -> Kernel:
    """(N, N): 1 for equal names, products for numbers; centred."""
    if all(isinstance(label, str) for label in labels):
        codes = np.unique(np.array(labels), return_inverse=True)[1]
        return center((codes[:, None] == codes).astype(np.float32))
    values = np.array(labels, np.float32)
    values = values - values.mean()
    return center(np.outer(values, values))


def center(similarities: Kernel) -> Kernel:
    """Similarities without the mean of their row and column; those of an example with itself are zero."""
    size = len(similarities)
    np.fill_diagonal(similarities, 0)
    means = similarities.sum(axis=0) / max(1, size - 1)
    centred: Kernel = similarities - means[:, None] - means + means.mean()
    np.fill_diagonal(centred, 0)
    return centred


def independence_z(first: Kernel, second: Kernel, seed: int = 0) -> float:
    """HSIC in standard deviations from its mean over permutations; 0 if one of the two is constant."""
    rng, values = np.random.default_rng(seed), []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(len(first))
        values.append(float((first * second[np.ix_(order, order)]).sum()))
    deviation = float(np.std(values))
    value = float((first * second).sum())
    return (value - float(np.mean(values))) / deviation if deviation > 1e-9 else 0.0


def length_z(first: Sequence[str], second: Sequence[str]) -> float:
    """Spearman correlation of the lengths of texts, in standard deviations of independent lengths."""
    x, y = (mean_ranks([len(text) for text in texts]) for texts in (first, second))
    return float(np.corrcoef(x, y)[0, 1] * np.sqrt(len(first) - 1)) if x.std() and y.std() else 0.0


class SideModel:
    """A naive Bayes classifier that tells the two sides of pairs apart."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._counts = Counter[str](), Counter[str]()
        for pair in pairs:
            for counts, text in zip(self._counts, pair, strict=True):
                counts.update(text_features(text))
        self._totals = [counts.total() + len(counts) + 1 for counts in self._counts]

    def is_swapped(self, pair: tuple[str, str]) -> bool:
        """True if the first text looks like a second one, and the second like a first one."""
        return self._ratio(pair[0]) - self._ratio(pair[1]) < 0

    def _ratio(self, text: str) -> float:
        """log p(text | first side) - log p(text | second side)."""
        first, second = self._counts
        scale = float(np.log(self._totals[1] / self._totals[0]))
        return sum(float(np.log((first[name] + 1) / (second[name] + 1))) + scale for name in text_features(text))
