"""The text all contenders see: batches to learn from and sentences to translate."""

from itertools import islice
from pathlib import Path

import numpy as np
import torch
from benchmarks.rows import collate_pairs, concatenate_rows
from torch import Tensor

from regard.data.batch import Batch, pad_rows
from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.planning import Budget, plan_padded
from regard.data.sources import Source
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS

Examples = list[tuple[np.ndarray, np.ndarray]]
PAIR_COUNT = 8000


def captions(count: int, vocabulary: int) -> Examples:
    """Random words in sentences as long as Multi30k's: about 14 tokens on either side, longer together."""
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.gamma(9.0, 1.55, count), 4, 40).astype(int)
    others = np.clip(lengths + rng.normal(0.5, 2.2, count).round().astype(int), 4, 45)
    return [
        (np.append(rng.integers(3, vocabulary, s), EOS), np.append(rng.integers(3, vocabulary, t), EOS))
        for s, t in zip(lengths, others, strict=True)
    ]


def corpus(src: str, tgt: str, count: int, vocab_size: int) -> Examples:
    """The first pairs of a corpus, cut by a joint vocabulary learnt from them."""
    pairs = list(islice(read_examples([Source(src=src, tgt=tgt)], Path(), PAIRS), count))
    vocabulary = train_tokenizer(
        (text for pair in pairs for text in pair.values()), TextSettings(vocab_size=vocab_size)
    )
    return [
        (np.array([*vocabulary.encode(pair["src"]), EOS]), np.array([*vocabulary.encode(pair["tgt"]), EOS]))
        for pair in pairs
    ]


class Workload:
    """What round after round is trained on and translated; every round has its own, the same for all."""

    def __init__(self, examples: Examples, tokens: int) -> None:
        """Batches of at most `tokens` tokens on the longer side, padding included."""
        self.examples = examples
        src, tgt = (np.array([len(pair[side]) for pair in examples]) for side in (0, 1))
        self.plans = list(plan_padded((src, tgt), Budget(tokens), seed=1, epoch=0))

    def training(self, turn: int, steps: int) -> list[Batch]:
        """`steps` batches."""
        plans = [self.plans[(turn * steps + step) % len(self.plans)] for step in range(steps)]
        return [collate_pairs([self.examples[i] for i in plan]) for plan in plans]

    def sources(self, turn: int, size: int, batches: int) -> list[tuple[Tensor, Tensor]]:
        """`batches` of `size` sentences as they come, (B, S) and their lengths."""
        start = turn * 64 % (len(self.examples) - size * batches + 1)
        rows = [src for src, _ in self.examples[start : start + size * batches]]
        groups = [concatenate_rows(rows[i : i + size]) for i in range(0, len(rows), size)]
        return [(torch.from_numpy(pad_rows(group)), torch.from_numpy(group[1])) for group in groups]
