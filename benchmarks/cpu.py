"""Training and decoding throughput beside the peers, on the CPU: `make bench`.

All contenders see the same batches of the same shapes, take turns in every round, and are reported as the median of
the rounds and as a multiple of torch.nn.Transformer in the same run: on a busy machine a ratio says more than seconds.

    python -m benchmarks.cpu                                     captions as long as Multi30k's, random words
    python -m benchmarks.cpu --src train.en.xz --tgt train.de.xz  your own text, a joint vocabulary of 8,000 pieces
"""

import argparse
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from benchmarks.contenders import OUTPUT, Marian, Ours, Shape, Torch
from rich.console import Console
from rich.table import Table

from regard.data.batching import plan_epoch
from regard.data.collate import Batch, collate
from regard.data.corpora import Corpus, read_pairs
from regard.text import EOS, TextSettings, train_vocabulary

Contender = Torch | Marian | Ours
Examples = list[tuple[np.ndarray, np.ndarray]]


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
    pairs = list(islice(read_pairs(Corpus(src=src, tgt=tgt), Path()), count))
    vocabulary = train_vocabulary((text for pair in pairs for text in pair[:2]), TextSettings(vocab_size=vocab_size))
    return [
        (np.array([*vocabulary.encode(pair.src), EOS]), np.array([*vocabulary.encode(pair.tgt), EOS])) for pair in pairs
    ]


def batches(examples: Examples, tokens: int) -> list[Batch]:
    lengths = [np.array([len(pair[side]) for pair in examples]) for side in (0, 1)]
    return [
        collate([examples[i] for i in plan]) for plan in plan_epoch(lengths[0], lengths[1], tokens, seed=1, epoch=0)
    ]


def seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def train(contender: Contender, batches: list[Batch]) -> None:
    for batch in batches:
        contender.train(batch)


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """{measure: {contender: one figure a round}}; the contenders take turns, in another order every round."""
    shape = Shape()
    examples = (
        corpus(options.src, options.tgt, 8000, shape.vocabulary) if options.src else captions(8000, shape.vocabulary)
    )
    training = batches(examples, options.tokens)
    torch.manual_seed(1)
    contenders: list[Contender] = [Torch(shape), Marian(shape), Ours(shape)]
    figures: dict[str, dict[str, list[float]]] = {}
    for turn in range(-1, options.rounds):  # round -1 warms up
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
        chosen = [training[(max(turn, 0) * options.steps + i) % len(training)] for i in range(options.steps)]
        source = collate(examples[64 * (turn + 1) : 64 * (turn + 2)])
        for contender in contenders[turn % 3 :] + contenders[: turn % 3]:
            found = {}
            spent = seconds(partial(train, contender, chosen))
            found["training, tokens/s"] = sum(batch.tokens for batch in chosen) / spent
            for width, size in ((1, 64), (4, 64), (1, 1), (4, 1)):
                src, lengths = source.src[:size], source.src_lengths[:size]
                src = src[:, : int(lengths.max())]
                spent = seconds(partial(contender.decode, src, lengths, width))
                kind = f"beam {width}" if width > 1 else "greedy"
                found[f"{kind}, batch {size}, output tokens/s"] = size * OUTPUT / spent
            for name, figure in found.items() if turn >= 0 else ():
                figures.setdefault(name, {}).setdefault(contender.name, []).append(figure)
    return figures


def show(figures: dict[str, dict[str, list[float]]], options: argparse.Namespace) -> None:
    table = Table(title=f"median of {options.rounds} interleaved rounds, and as a multiple of torch.nn.Transformer")
    names = [Torch.name, Marian.name, Ours.name]
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for name, found in figures.items():
        medians = {contender: statistics.median(found[contender]) for contender in names}
        ratios = {
            contender: statistics.median(a / b for a, b in zip(found[contender], found[Torch.name], strict=True))
            for contender in names
        }
        table.add_row(name, *(f"{medians[each]:,.0f}  {ratios[each]:.2f}x" for each in names))
    Console(width=120).print(table)
    import transformers

    print(
        f"3+3 layers, d_model 256, 4 heads, d_ff 1024, vocabulary 8,000, fp32, {options.tokens} tokens a batch, "
        f"{torch.get_num_threads()} threads of {os.cpu_count()} cores ({platform.machine()})\n"
        f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", help="source side of a corpus")
    parser.add_argument("--tgt", help="target side of it")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of [5]")
    parser.add_argument("--steps", type=int, default=4, help="training steps a round [4]")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens a batch, on the longer side [2048]")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads [2]")
    options = parser.parse_args()
    if bool(options.src) != bool(options.tgt):
        parser.error("--src and --tgt go together")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    show(measure(options), options)


if __name__ == "__main__":
    main()
